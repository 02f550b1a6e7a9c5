//! Diagnostics: errors, warnings and notes about something that the user wrote.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A location in the user's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Path of the file, or a name such as `<command line>`.
    pub file: PathBuf,
    /// Line number, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Number of characters that the diagnostic covers; at least 1.
    pub length: u32,
    /// The full line, as written.
    pub text: String,
}

/// Severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It works; the note is for information.
    Note,
    /// It works, but may not mean what its author intended.
    Warning,
    /// It cannot be executed.
    Error,
}

/// One problem, with its remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// The problem, without location or remedy.
    pub message: String,
    /// Location, if the problem is in a text.
    pub place: Option<Place>,
    /// Remedy.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Creates an error without a location.
    pub fn error(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            place: None,
            hint: None,
        }
    }

    /// Creates a warning without a location.
    pub fn warning(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(message)
        }
    }

    /// Creates a note without a location.
    pub fn note(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Note,
            ..Diagnostic::error(message)
        }
    }

    /// An error with the remedy of a text whose last line may begin with `hint: `.
    pub fn of_text(text: &str) -> Diagnostic {
        match text.rsplit_once("\nhint: ") {
            Some((message, hint)) => Diagnostic::error(message).hint(hint),
            None => Diagnostic::error(text),
        }
    }

    /// Adds the remedy.
    pub fn hint(self, hint: impl Into<String>) -> Diagnostic {
        Diagnostic {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Adds the location.
    pub fn at(self, place: Place) -> Diagnostic {
        Diagnostic {
            place: Some(place),
            ..self
        }
    }
}
