//! Telemetry of the host during a trial, over time: as a table, CSV and JSON.
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

/// The series of one trial, with the attributes that identify the trial in its run.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSeries<'a> {
    /// The trial's place in the run, from 1: what `--trial` takes.
    pub number: u32,
    /// The round, from 0 as in the trial's key.
    pub round: u32,
    /// The configuration's name.
    pub configuration: &'a str,
    /// The workload's name.
    pub workload: &'a str,
    /// The stored values of the requested series.
    pub telemetry: &'a Telemetry,
    /// The derived figures, one table per series.
    pub tables: Vec<FigureTable>,
    /// The costs of sampling on all nodes.
    pub sampling: Vec<SamplerCost>,
}
