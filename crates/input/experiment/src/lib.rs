//! Experiments: one TOML file with configurations, workloads and their matrix, parsed into the parts of a plan.
//!
//! One table of keys (`keys`) drives the checks, the JSON Schema and the reference page. A text is read in this order:
//! parameters and presets, axes, the replacement of `${NAME}`, and then every configuration and workload of the matrix
//! by the crates of their languages. All errors are collected, each with its location. Files are read through
//! [`iodyno_fio::Host`] alone.

mod check;
mod command;
pub mod document;
pub mod fileops;
mod keys;
mod layers;
mod matrix;
mod nodes;
mod page;
mod params;
mod read;
mod ready;
mod schema;
mod simulated;
mod workloads;

use std::collections::BTreeMap;

use iodyno_model::{ClosingTable, Configuration, Diagnostic, Fresh, Place, PlannedNode, Workload};
use iodyno_units::Nanos;

pub use command::{printed_number, workload as command_workload};
pub use page::{keys, reference_markdown};
pub use read::{Context, is_experiment, read, table_file};
pub use ready::{READY_MADE, ReadyMade};
pub use schema::schema;
pub use workloads::no_client;

/// An experiment: the parts of a plan, and the settings of the file. `None` means the default.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Name of the run.
    pub name: String,
    /// What it is about.
    pub about: Option<String>,
    /// The question that it answers, in the words of its author.
    pub question: Option<String>,
    /// The configuration, or with one configuration the workload, that the others are compared with.
    pub baseline: Option<String>,
    /// The dimension whose values are compared.
    pub compare: Option<String>,
    /// Number of rounds.
    pub rounds: Option<u32>,
    /// Seed.
    pub seed: Option<u64>,
    /// No round starts that would end after this time.
    pub max_time: Option<Nanos>,
    /// The width of the intervals at which the run stops, as a fraction.
    pub stop: Option<f64>,
    /// Whether the baseline runs twice in each round.
    pub aa: bool,
    /// Whether each cell is tried out before the first round.
    pub probe: bool,
    /// How often a failed trial is repeated, at most.
    pub retry: u32,
    /// Whether caches are dropped and devices idle before each trial.
    pub settle: bool,
    /// Names of metrics; empty: each workload's own.
    pub metrics: Vec<String>,
    /// The margin, as a fraction.
    pub margin: Option<f64>,
    /// How often storage is made anew.
    pub fresh: Fresh,
    /// The primary metric of workloads: (workload, metric).
    pub primaries: Vec<(String, String)>,
    /// The table that closes the run.
    pub table: Option<ClosingTable>,
    /// In the order of the text; empty: those of the command line.
    pub nodes: Vec<PlannedNode>,
    /// In the order of the text; empty: those of the command line.
    pub configurations: Vec<Configuration>,
    /// In the order of the text.
    pub workloads: Vec<Workload>,
    /// Where the keys of the file are written, and the sections: `stop`, `configuration.NAME`, `workload.NAME`, and the
    /// `primary` of a workload, `primary.NAME`. For what is found later to be wrong.
    pub places: BTreeMap<String, Place>,
    /// The texts of parameters with the name of a secret, which other texts of the plan can contain.
    pub secrets: Vec<String>,
    /// Warnings, in the order of the text.
    pub warnings: Vec<Diagnostic>,
}
