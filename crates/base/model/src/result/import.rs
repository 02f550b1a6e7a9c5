//! Results imported from the output of other tools.

mod trials;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use trials::ImportedTrials;

use crate::{Fact, Figure, Kind, SourceLine, Withheld};

/// A point of an imported series: one interval, usually a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ImportedPoint {
    /// Start, ns from the trial's beginning.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Ops per second in the interval.
    pub rate: f64,
}

/// A trial measured by another tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedTrial {
    /// Its configuration.
    pub configuration: String,
    /// Its workload.
    pub workload: String,
    /// Further dimensions: fields of the label, `node`, `rw`, `bs`, `depth`, …
    #[serde(default)]
    pub dimensions: BTreeMap<String, String>,
    /// The format: `fio json`, `fsbench table`, `sysbench fileio`.
    pub form: String,
    /// Location of its first line.
    pub at: SourceLine,
    /// Fixed duration, fixed amount of work, or unknown.
    pub kind: Kind,
    /// Name of its primary metric.
    pub primary: Option<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Figures that were read but are withheld.
    #[serde(default)]
    pub withheld: Vec<Withheld>,
    /// The series of its rate, if it was printed.
    #[serde(default)]
    pub series: Vec<ImportedPoint>,
    /// Known attributes of the measurement.
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// Whether the source lists every option that was given, so that the others are at their defaults. False in runs
    /// that were imported before this was recorded.
    #[serde(default)]
    pub options_complete: bool,
    /// Remarks, as text.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Why its figures do not count: the source reports a failure. `None` if they count.
    #[serde(default)]
    pub unusable: Option<String>,
}

/// A table by time or by CPU from the same source: `zpool iostat`, `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedTable {
    /// `zpool iostat`, `/proc/interrupts`.
    pub form: String,
    /// The subject: the pool, or empty.
    pub subject: String,
    /// Location of its first line.
    pub at: SourceLine,
    /// Column names with units: `write B/s`, `CPU0`.
    pub columns: Vec<String>,
    /// Rows: a label (a time, or an interrupt's number and name) and one value per column; `None`: missing.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// Remarks: the first row covers the time since boot and is excluded, one CPU handles all.
    pub remarks: Vec<String>,
}

/// A row of a printed comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its location.
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
    /// Number of trials per side as printed.
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
    /// The texts above each side, one per level.
    pub columns: Vec<Vec<String>>,
    /// The benchmark that the label names, without its parameters.
    pub benchmark: String,
    /// The parameters in the label: `bs=4k`, `gomaxprocs=8`.
    pub dimensions: BTreeMap<String, String>,
    /// Keys over the table or the group of rows: `pkg=foo`.
    pub keys: BTreeMap<String, String>,
    /// Names of the metric, each with the size of one printed unit in the unit of the metric.
    pub metrics: Vec<(String, f64)>,
    /// Whether it is the geometric mean of the table's rows.
    pub geomean: bool,
}

/// A statement of a source that the source's own figures contradict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contradiction {
    /// Location of the statement.
    pub at: SourceLine,
    /// The statement as printed, without its line breaks.
    pub statement: String,
    /// Location of the figures.
    pub against: SourceLine,
    /// What they show.
    pub shown: String,
}

/// A section of the source that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// Location of its first line.
    pub at: SourceLine,
    /// Its first line.
    pub text: String,
    /// Why it could not be parsed.
    pub why: String,
}

/// A duplicate of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicate {
    /// Location of the result that counts.
    pub first: SourceLine,
    /// Location of the duplicate.
    pub again: SourceLine,
}

/// Everything imported from a set of files.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Imported {
    /// Results, in order of the files.
    pub trials: ImportedTrials,
    /// Tables from the same sources.
    #[serde(default)]
    pub tables: Vec<ImportedTable>,
    /// Printed comparisons.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Statements that the figures of their own source contradict. Empty in runs that were imported before this was
    /// recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// Duplicate results, which count once.
    #[serde(default)]
    pub duplicates: Vec<Duplicate>,
    /// Sections that looked like results and could not be parsed.
    #[serde(default)]
    pub unread: Vec<Unread>,
    /// Remarks on the whole import.
    #[serde(default)]
    pub remarks: Vec<String>,
}
