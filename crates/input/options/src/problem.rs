//! Errors, warnings and notes about the value of an option.

use iodyno_model::{Diagnostic, Place, Severity};

/// A problem with a value. It becomes a [`Diagnostic`] when the location is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Errors prevent the job from running.
    pub severity: Severity,
    /// The problem, without the remedy.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
    /// Whether the text is valid but requests something unsupported.
    pub refusal: bool,
    /// A warning that something requested has no effect although it matters.
    pub unmet: bool,
    /// Start and length in bytes within the value; `None`: the whole value.
    pub span: Option<(usize, usize)>,
}

impl Problem {
    /// An error about the whole value.
    pub fn error(message: impl Into<String>) -> Problem {
        Problem {
            severity: Severity::Error,
            message: message.into(),
            hint: None,
            refusal: false,
            unmet: false,
            span: None,
        }
    }

    /// An error: the requested feature is not supported.
    pub fn refusal(message: impl Into<String>) -> Problem {
        Problem {
            refusal: true,
            ..Problem::error(message)
        }
    }

    /// A warning about the whole value.
    pub fn warning(message: impl Into<String>) -> Problem {
        Problem {
            severity: Severity::Warning,
            ..Problem::error(message)
        }
    }

    /// A warning: something requested has no effect although it matters.
    pub fn unmet(message: impl Into<String>) -> Problem {
        Problem {
            unmet: true,
            ..Problem::warning(message)
        }
    }

    /// A note about the whole value.
    pub fn note(message: impl Into<String>) -> Problem {
        Problem {
            severity: Severity::Note,
            ..Problem::error(message)
        }
    }

    /// Adds the remedy.
    pub fn hint(self, hint: impl Into<String>) -> Problem {
        Problem {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// The diagnostic for a location in the user's text.
    pub fn diagnostic(self, place: Option<Place>) -> Diagnostic {
        Diagnostic {
            severity: self.severity,
            message: self.message,
            place,
            hint: self.hint,
        }
    }
}
