//! The flags of `check`, `man` and `completions`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Check job files: every fault and every silent trap, with line and column.
///
/// Exits with 0 if all files can be run, whatever they are warned of; with 1 if they are sound, but
/// one asks for something that is not done here (an engine, an option), named with its line and
/// the reason; with 2 if one is faulty.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno check job.fio
  iodyno check --json jobs/*.fio")]
pub(crate) struct CheckArgs {
    /// Job files in fio's format, or workloads of file operations in TOML.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write the manual pages.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno man | man -l -                   Read the page of the program
  iodyno man /usr/local/share/man/man1    Install a page for it and for each command")]
pub(crate) struct ManArgs {
    /// Write a page for each command into this folder; without it, the program's page is printed.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: Option<PathBuf>,
}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno completions bash > /etc/bash_completion.d/iodyno
  iodyno completions fish > ~/.config/fish/completions/iodyno.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
