//! The result of parsing job files or a command line.

use iodyno_model::{Diagnostic, Workload};

/// Whether a job file can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It can be run.
    Runnable,
    /// It is valid, but uses features that are not supported.
    Refused,
    /// It contains errors.
    Faulty,
}

impl Verdict {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Runnable => "runnable",
            Verdict::Refused => "refused",
            Verdict::Faulty => "faulty",
        }
    }
}

/// The result of parsing.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The jobs; `None` if there are errors.
    pub workload: Option<Workload>,
    /// All diagnostics, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether every error is about a known engine or option that is not supported, so that the text itself
    /// is valid. Also true without errors.
    pub well_formed: bool,
}

impl Parsed {
    /// Whether it can be run.
    pub fn verdict(&self) -> Verdict {
        match (&self.workload, self.well_formed) {
            (Some(_), _) => Verdict::Runnable,
            (None, true) => Verdict::Refused,
            (None, false) => Verdict::Faulty,
        }
    }
}
