//! Destination and formats of the result, as the command line gives them.

use std::path::PathBuf;

use iodyno_units::Nanos;

/// A form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// For people.
    Normal,
    /// fio's JSON.
    Json,
    /// fio's JSON with the histograms' bins.
    JsonPlus,
    /// One line of fields for each job.
    Terse,
}

/// Whether the time left is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eta {
    /// On a terminal.
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
    /// The forms, in the order asked for; at least one.
    pub formats: Vec<OutputFormat>,
    /// The file; standard output without one.
    pub file: Option<PathBuf>,
    /// Time between intermediate results.
    pub status_interval: Option<Nanos>,
    /// Time left.
    pub eta: Eta,
    /// How often the time left is shown.
    pub eta_interval: Option<Nanos>,
    /// How often the time left is printed on a line of its own.
    pub eta_newline: Option<Nanos>,
}

impl Default for OutputOptions {
    fn default() -> Self {
        OutputOptions {
            formats: vec![OutputFormat::Normal],
            file: None,
            status_interval: None,
            eta: Eta::Auto,
            eta_interval: None,
            eta_newline: None,
        }
    }
}
