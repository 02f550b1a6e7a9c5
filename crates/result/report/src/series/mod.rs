//! Telemetry of the host during a trial, over time: as a table, CSV and JSON.
//!
//! Figures come from `judge` as [`FigureTable`]s; stored values are written as they are.

mod costs;
mod csv;
mod fit;
mod jobs;
mod json;
mod scale;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use iodyno_model::{FigureTable, SamplerCost, Step, StepTime, Telemetry};

pub use costs::costs;
pub use csv::{csv, raw_csv};
pub(crate) use jobs::seconds;
pub use jobs::{jobs_csv, jobs_csv_head};
pub use json::json;
#[cfg(feature = "charts")]
pub(crate) use scale::{BYTES, NANOS, largest_below};
pub(crate) use scale::{Scale, with_unit};
pub use table::text;

/// The relation of a trial's clock to its steps and to the wall clock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrialClock {
    /// The steps of all nodes.
    pub steps: Vec<StepTime>,
    /// Wall clock at 0, ms since 1970; `None` if unknown.
    pub start_unix_ms: Option<u64>,
    /// Offset of the local time in texts, seconds east of Greenwich.
    pub utc_offset_s: i32,
}

impl TrialClock {
    /// The step that took most of a period; `None` between steps.
    pub(crate) fn step(&self, at_ns: i64, span_ns: u64) -> Option<Step> {
        Step::of_period(&self.steps, at_ns, span_ns)
    }

    /// Wall clock at an instant of the trial's clock, ms since 1970.
    pub(crate) fn unix_ms(&self, at_ns: i64) -> Option<u64> {
        self.start_unix_ms?
            .checked_add_signed(at_ns.div_euclid(1_000_000))
    }
}

/// The series of one trial on one node, with the attributes that identify the trial in its run.
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
    /// The node's name; empty if the plan names none.
    pub node: &'a str,
    /// Its steps and its start.
    pub clock: TrialClock,
    /// The stored values of the requested series.
    pub telemetry: &'a Telemetry,
    /// The derived figures, one table per series.
    pub tables: Vec<FigureTable>,
    /// The costs of sampling on all nodes.
    pub sampling: Vec<SamplerCost>,
}
