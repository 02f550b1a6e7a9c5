//! A shell command as a step of a cycle.

use serde::{Deserialize, Serialize};

use iodyno_units::Nanos;

use crate::Metric;

/// A command that `/bin/sh -c` runs in the clone's folder, and the values that are read from its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellCommand {
    /// The command; its time is that of the step.
    pub run: String,
    /// Runs once in the folder of the first clone before the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Runs there once at the end of the trial, also if the trial failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<String>,
    /// Values in its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<OutputMetric>,
    /// Whether an exit status other than 0 is a result, instead of an error that ends the trial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
    /// An execution that takes longer is killed and fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Nanos>,
}

impl ShellCommand {
    /// A command without anything around it, whose failure is an error.
    pub fn new(run: impl Into<String>) -> ShellCommand {
        ShellCommand {
            run: run.into(),
            prepare: None,
            cleanup: None,
            metrics: Vec::new(),
            may_fail: false,
            timeout: None,
        }
    }
}

/// A number in the output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputMetric {
    /// The metric that it is a value of.
    pub metric: Metric,
    /// A number in the output × this is the value in the metric's unit.
    pub factor: u64,
    /// Where it is.
    pub source: OutputSource,
}

/// Where a number is in the output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSource {
    /// The first group of the last match of this regular expression in standard output or, if it has none, in standard
    /// error; without a group, the whole match. `^` and `$` match at line ends.
    Regex(String),
    /// The value at this JSON pointer (RFC 6901) of standard output.
    Json(String),
}
