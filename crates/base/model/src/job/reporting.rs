//! How the figures of a job are grouped and reported.

use serde::{Deserialize, Serialize};

/// How the job's figures are grouped and reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reporting {
    /// Group number: jobs of one number are one group (fio's `groupid`).
    pub group: u32,
    /// Report the clones and jobs of a group as one.
    pub together: bool,
    /// Percentiles to report, in percent.
    pub percentiles: Vec<f64>,
    /// fio's output formats leave the job out (`stats=0`).
    #[serde(default)]
    pub hidden: bool,
    /// The latencies whose percentiles fio's formats contain.
    #[serde(default)]
    pub percentiles_of: PercentilesOf,
    /// Whether fio's formats add up the directions.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub unified: UnifiedReporting,
    /// Significant digits of rates and sizes in fio's text, 1 to 10.
    #[serde(default = "Reporting::default_digits")]
    pub digits: u32,
    /// Rates in fio's text are in bits per second.
    #[serde(default)]
    pub bits: bool,
    /// Prefixes in fio's text are powers of 1000 first; otherwise powers of 1024 first.
    #[serde(default)]
    pub decimal: bool,
}

impl Reporting {
    /// fio's default list.
    pub const PERCENTILES: [f64; 17] = [
        1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9,
        99.95, 99.99,
    ];

    /// fio's default of `significant_figures`.
    fn default_digits() -> u32 {
        4
    }
}

impl Default for Reporting {
    fn default() -> Self {
        Reporting {
            group: 0,
            together: false,
            percentiles: Self::PERCENTILES.to_vec(),
            hidden: false,
            percentiles_of: PercentilesOf::default(),
            unified: UnifiedReporting::default(),
            digits: Self::default_digits(),
            bits: false,
            decimal: false,
        }
    }
}

/// Whether fio's formats report reads, writes and trims as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnifiedReporting {
    /// Each direction.
    #[default]
    None,
    /// Only their sum.
    Mixed,
    /// Each direction, then their sum.
    Both,
}

/// A choice of fio's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PercentilesOf {
    /// Duration of the submission (`slat`).
    pub submission: bool,
    /// Submission to completion (`clat`).
    pub completion: bool,
    /// Both (`lat`).
    pub total: bool,
}

impl Default for PercentilesOf {
    fn default() -> Self {
        PercentilesOf {
            submission: false,
            completion: true,
            total: false,
        }
    }
}
