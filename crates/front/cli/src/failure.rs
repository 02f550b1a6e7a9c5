//! A failed command: all of its errors, and the exit code.

use std::io;
use std::path::Path;

use iodyno_judge::CompareError;
use iodyno_model::Diagnostic;
use iodyno_model::printable::on_one_line;

use crate::exit::Exit;

/// A failed command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// The errors to print; empty if everything was already printed.
    pub(crate) faults: Vec<Diagnostic>,
}

impl Failure {
    /// Bad usage or input.
    pub(crate) fn input(faults: Vec<Diagnostic>) -> Failure {
        Failure {
            exit: Exit::BadInput,
            faults,
        }
    }

    /// One error of usage or input.
    pub(crate) fn one(fault: Diagnostic) -> Failure {
        Failure::input(vec![fault])
    }

    /// Standard output cannot be written.
    pub(crate) fn output(error: &io::Error) -> Failure {
        Failure {
            exit: Exit::CheckFailed,
            faults: vec![Diagnostic::error(format!(
                "cannot write to standard output: {}",
                reason(error)
            ))],
        }
    }

    /// A file cannot be read, written or created. `doing` is the verb: `read`.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Failure {
        let fault = Diagnostic::error(format!(
            "cannot {doing} `{}`: {}",
            path.display(),
            reason(error)
        ));
        Failure::one(match error.kind() {
            io::ErrorKind::AlreadyExists => {
                fault.hint("no file is overwritten: remove it, or choose another name")
            }
            io::ErrorKind::NotFound if doing == "create" => fault.hint("make its folder first"),
            _ => fault,
        })
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Failure {
        let faults = error.faults.iter();
        let faults = faults.map(|fault| Diagnostic::error(on_one_line(&fault.to_string())));
        Failure::input(faults.collect())
    }
}

/// The system's message for an error, without the number that Rust adds.
pub(crate) fn reason(error: &io::Error) -> String {
    without_number(&error.to_string())
}

/// `text` without ` (os error 2)`.
fn without_number(text: &str) -> String {
    let Some(start) = text.find(" (os error ") else {
        return text.to_owned();
    };
    match text[start..].find(')') {
        Some(end) => text[..start].to_owned() + &text[start + end + 1..],
        None => text.to_owned(),
    }
}

/// An error with all its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their source in their own text.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    without_number(&text)
}

#[cfg(test)]
mod tests {
    use iodyno_judge::QuestionError;

    use super::*;

    #[test]
    fn system_errors_lose_their_number() {
        assert_eq!(
            reason(&io::Error::from_raw_os_error(2)),
            "No such file or directory"
        );
        assert_eq!(reason(&io::Error::other("odd")), "odd");
        assert_eq!(without_number("a: gone (os error 2), b"), "a: gone, b");
    }

    #[test]
    fn an_error_of_a_question_stays_on_one_line() {
        let name = "x\nerror: y\u{1b}[2J".to_owned();
        let unknown = QuestionError::Unknown {
            what: "a dimension".to_owned(),
            name: name.clone(),
            role: String::new(),
            there: vec![name.clone()],
            near: Some(name),
        };
        let found = Failure::from(CompareError {
            faults: vec![unknown],
        });
        let steers = iodyno_model::printable::steers;
        assert!(!found.faults[0].message.contains(steers), "{found:?}");
    }
}
