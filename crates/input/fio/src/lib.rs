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
mod finish;
mod flags;
mod help;
mod host;
mod named;
mod number;
mod options;
mod output;
mod parsed;
mod pattern;
mod resolved;
mod text;
mod traps;
mod value;
use std::path::{Path, PathBuf};

use iodyno_model::Place;

pub use command_line::{Action, CommandLine, parse_command_line};
pub use compatibility::compatibility_markdown;
pub use engines::backend;
pub use flags::{OwnFlags, honoured_flags};
pub use host::{Host, SystemHost};
pub use named::{NAMED_JOBS, NamedJob};
pub use number::{NumberError, Size, TimeUnit, size, time};
pub use options::{
    fields_of_option, has_fixed_form, honoured_options, ignored_option, option_names,
    option_of_field, replaces,
};
pub use output::{Eta, OutputFormat, OutputOptions};
pub use parsed::{Parsed, Verdict};
pub use resolved::resolved_options;

use assemble::Assembly;
use text::Entry;

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

/// Parses the text of a job file. `path`: its name in diagnostics; includes are relative to its folder.
pub fn parse_text(path: &Path, text: &str, host: &dyn Host) -> Parsed {
    let mut assembly = Assembly::new(host);
    assembly.text(path, text, &[]);
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
