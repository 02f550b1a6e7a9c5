//! Parses fio's job files and command line into a [`Workload`].
//!
//! A section becomes a [`Job`](iodyno_model::Job) with all defaults filled in. All errors of all files are
//! collected, each with its location; a workload is returned only if there are none. The option table
//! (`options`) is data: name, unit, text, status and effect are in one row, from which the compatibility
//! page is generated. The host is accessed only through [`Host`].

mod apply;
mod arithmetic;
mod assemble;
mod command_line;
mod compatibility;
mod draft;
mod engines;
mod errno;
mod file_engines;
mod finish;
mod flags;
mod help;
mod host;
mod number;
mod options;
mod output;
mod pattern;
mod resolved;
mod text;
mod traps;
mod value;
pub(crate) use std::path::PathBuf;

use iodyno_model::{Diagnostic, Place, Workload};

pub use command_line::{Action, CommandLine, parse_command_line};
pub use compatibility::compatibility_markdown;
pub use engines::backend;
pub use flags::{OwnFlags, honoured_flags};
pub use host::{Host, SystemHost};
pub use number::{NumberError, Size, TimeUnit, size, time};
pub use options::{has_fixed_form, honoured_options, ignored_option, option_names, replaces};
pub use output::{Eta, OutputFormat, OutputOptions};
pub use resolved::resolved_options;

use assemble::Assembly;
use text::Entry;

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

/// Parses job files; `-` is standard input. Each file after the first starts when all jobs before it have
/// ended. `overrides` are options that take precedence over those of every section.
pub fn parse_files(files: &[PathBuf], overrides: &[(String, String)], host: &dyn Host) -> Parsed {
    let mut assembly = Assembly::new(host);
    assembly.override_with(
        overrides
            .iter()
            .map(|(key, value)| set_entry(key, value))
            .collect(),
    );
    for file in files {
        assembly.file(file, &[]);
    }
    assembly.parsed()
}

/// An option of `--set KEY=VALUE`.
fn set_entry(key: &str, value: &str) -> Entry {
    let line = format!("--set {key}={value}");
    let place = |token: &str, offset: usize| Place {
        file: PathBuf::from(text::COMMAND_LINE),
        line: 1,
        column: offset as u32 + 1,
        length: token.chars().count().max(1) as u32,
        text: line.clone(),
    };
    Entry {
        key: key.trim().to_owned(),
        value: Some(value.trim().to_owned()),
        key_place: place(key, 6),
        value_place: place(value, 7 + key.chars().count()),
        spaced: false,
    }
}
