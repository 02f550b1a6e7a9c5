//! What the host did during a trial, over time: a table to read, CSV and JSON.
//!
//! Figures come from `judge` as [`FigureTable`]s; stored values are written as they are.

mod costs;
mod csv;
mod fit;
mod json;
mod scale;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use iodyno_model::{FigureTable, SamplerCost, Telemetry};

pub use costs::costs;
pub use csv::{csv, raw_csv};
pub use json::json;
pub(crate) use scale::Scale;
pub use table::text;

/// The series of one trial, with what tells it from a run's other trials.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSeries<'a> {
    /// The trial's place in the run, from 1: what `--trial` takes.
    pub number: u32,
    /// As in its key: from 0.
    pub round: u32,
    /// The configuration's name.
    pub configuration: &'a str,
    /// The workload's name.
    pub workload: &'a str,
    /// What was stored, of the series that were asked for.
    pub telemetry: &'a Telemetry,
    /// The figures that follow from it, a table a series.
    pub tables: Vec<FigureTable>,
    /// What sampling cost, all nodes.
    pub sampling: Vec<SamplerCost>,
}
