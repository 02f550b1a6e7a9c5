//! What was read from others' output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Fact, Figure, Kind, SourceLine, Withheld};

/// A point of an imported series: what about a second (or another interval) brought.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ImportedPoint {
    /// Start, ns from the trial's beginning.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Ops a second within it.
    pub rate: f64,
}

/// A trial that others measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedTrial {
    /// Its configuration.
    pub configuration: String,
    /// Its workload.
    pub workload: String,
    /// Further dimensions: fields of the label, `node`, `rw`, `bs`, `depth`, …
    #[serde(default)]
    pub dimensions: BTreeMap<String, String>,
    /// What it was read as: `fio json`, `fsbench table`, `sysbench fileio`.
    pub form: String,
    /// Where it begins.
    pub at: SourceLine,
    /// A time to fill, work to do, or not said.
    pub kind: Kind,
    /// The metric it is best judged by, by name.
    pub primary: Option<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// What could have been a figure and is not one.
    #[serde(default)]
    pub withheld: Vec<Withheld>,
    /// The series of its rate, where it was printed.
    #[serde(default)]
    pub series: Vec<ImportedPoint>,
    /// What is known of how it was made.
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// What is to be said of it, in words.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Why its figures do not count: its source says that it failed. `None` if they do.
    #[serde(default)]
    pub unusable: Option<String>,
}

/// A table of numbers over time or by CPU that stood beside the results: `zpool iostat`,
/// `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedTable {
    /// `zpool iostat`, `/proc/interrupts`.
    pub form: String,
    /// What of: the pool, or empty.
    pub subject: String,
    /// Where it begins.
    pub at: SourceLine,
    /// Column names with units: `write B/s`, `CPU0`.
    pub columns: Vec<String>,
    /// Rows: a label (a time, an interrupt's number and name) and a value a column; `None`: not given.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// What is to be said of it: the first row is since boot and set aside, one CPU takes all.
    pub remarks: Vec<String>,
}

/// A row of a printed comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Where it stands.
    pub at: SourceLine,
    /// The row's label as printed.
    pub workload: String,
    /// The metric's name as printed: `ops/sec`.
    pub unit: String,
    /// Each side as printed: `672 ± 5%`.
    pub sides: Vec<String>,
    /// The difference as printed: `~`, `+12.3%`; empty where there is none.
    pub delta: String,
    /// p as printed.
    pub p: Option<f64>,
    /// Trials a side as printed.
    pub n: Vec<u32>,
    /// Which trials it is about. Empty in runs that were imported before this was recorded.
    #[serde(default)]
    pub subject: ClaimSubject,
}

/// The rules by which a printed comparison was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ClaimRules {
    /// benchstat until 2022: the mean without outliers ± the largest deviation.
    #[default]
    Means,
    /// benchstat since 2022: the median ± the farther end of its interval at 95 %.
    Medians,
}

/// Which trials a row of a printed comparison is about.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClaimSubject {
    /// How it was computed.
    pub rules: ClaimRules,
    /// The line of the table's head; rows of one table share it.
    pub table: u32,
    /// What stands over each side, a text a level.
    pub columns: Vec<Vec<String>>,
    /// The benchmark that the label names, without its parameters.
    pub benchmark: String,
    /// The parameters in the label: `bs=4k`, `gomaxprocs=8`.
    pub dimensions: BTreeMap<String, String>,
    /// Keys over the table or the group of rows: `pkg=foo`.
    pub keys: BTreeMap<String, String>,
    /// Names of the metric, each with what one printed unit is in the unit of the metric.
    pub metrics: Vec<(String, f64)>,
    /// It is the geometric mean of the table's rows.
    pub geomean: bool,
}

/// A stretch of the source that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// Where it begins.
    pub at: SourceLine,
    /// Its first line.
    pub text: String,
    /// Why it was not read.
    pub why: String,
}

/// The same result, standing there once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicate {
    /// The one that counts.
    pub first: SourceLine,
    /// The one that does not.
    pub again: SourceLine,
}

/// Everything that was read from some files.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Imported {
    /// Results, in the order of the files.
    pub trials: Vec<ImportedTrial>,
    /// Tables that stood beside them.
    #[serde(default)]
    pub tables: Vec<ImportedTable>,
    /// Comparisons that were printed.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Results that stood there twice and count once.
    #[serde(default)]
    pub duplicates: Vec<Duplicate>,
    /// What looked like a result and could not be read.
    #[serde(default)]
    pub unread: Vec<Unread>,
    /// Remarks on the whole.
    #[serde(default)]
    pub remarks: Vec<String>,
}
