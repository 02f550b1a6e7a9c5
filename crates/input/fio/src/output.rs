//! Destination and formats of the result.

use std::path::PathBuf;

use iodyno_units::Nanos;

/// A format of the result. Several are printed in this order, as by fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputFormat {
    /// One line per job, with fields separated by semicolons.
    Terse,
    /// fio's JSON.
    Json,
    /// fio's JSON with the histograms' bins.
    JsonPlus,
    /// Human-readable text.
    Normal,
}

/// Whether the remaining time is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eta {
    /// If standard output is a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Where and how the result is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputOptions {
    /// The formats, each once, in the order in which they are printed; at least one.
    pub formats: Vec<OutputFormat>,
    /// Version of terse lines, 2 to 5.
    pub terse_version: u8,
    /// The file; `None`: standard output.
    pub file: Option<PathBuf>,
    /// Prefix of the logs of all jobs' bandwidth.
    pub bandwidth_log: Option<PathBuf>,
    /// Whether the result contains the idle share of the CPUs.
    pub idle_prof: bool,
    /// Time between intermediate results.
    pub status_interval: Option<Nanos>,
    /// Whether the remaining time is shown.
    pub eta: Eta,
    /// Interval at which the remaining time is printed on a new line.
    pub eta_newline: Option<Nanos>,
}

impl Default for OutputOptions {
    fn default() -> Self {
        OutputOptions {
            formats: vec![OutputFormat::Normal],
            terse_version: 3,
            file: None,
            bandwidth_log: None,
            idle_prof: false,
            status_interval: None,
            eta: Eta::Auto,
            eta_newline: None,
        }
    }
}
