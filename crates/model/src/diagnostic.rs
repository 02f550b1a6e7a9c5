//! What is wrong with, or surprising in, something the user wrote.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where in the user's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file, or a name such as `<command line>`.
    pub file: PathBuf,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// Characters the fault covers; at least 1.
    pub length: u32,
    /// The line as written.
    pub text: String,
}

/// How bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Works, and is worth knowing.
    Note,
    /// Works, and may not mean what its author thinks.
    Warning,
    /// Cannot be carried out.
    Error,
}

/// One fault or surprise, with its remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// What is wrong, without place or remedy.
    pub message: String,
    /// Where, if in a text.
    pub place: Option<Place>,
    /// What to do.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            place: None,
            hint: None,
        }
    }

    /// A warning without a place.
    pub fn warning(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(message)
        }
    }

    /// With the remedy.
    pub fn hint(self, hint: impl Into<String>) -> Diagnostic {
        Diagnostic {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// With the place.
    pub fn at(self, place: Place) -> Diagnostic {
        Diagnostic {
            place: Some(place),
            ..self
        }
    }
}
