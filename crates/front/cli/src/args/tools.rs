//! Flags of `check`, `experiments`, `clean`, `man` and `completions`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Check job files for errors and common mistakes.
///
/// Prints every problem with its line and column. The exit code is 0 if all files can be run, even with
/// warnings; 1 if one is valid but needs something that iodyno does not support (an engine, an option);
/// 2 if one has errors.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno check job.fio
  iodyno check --json jobs/*.fio")]
pub(crate) struct CheckArgs {
    /// Job files in fio's format, or file-operation workloads or experiments in TOML.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Change a parameter of the experiments, or select a preset (`--set scale=NAME`).
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,

    /// Print the problems as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the ready-made experiments, or print one.
///
/// `iodyno run NAME` runs one; `--set folder=PATH` selects where. Print one as a starting point for your own.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno experiments                      List them
  iodyno experiments zfs-vs-ext4 > mine.toml
                                          Print one
  iodyno run disk --on .                  Run one")]
pub(crate) struct ExperimentsArgs {
    /// The experiment to print.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print the list as JSON.
    #[arg(long, conflicts_with = "name")]
    pub(crate) json: bool,
}

/// Undo storage that an experiment made and left behind.
///
/// Finds storage whose iodyno process was killed, or that was made before the host was restarted: mounts, loop
/// devices, pools, image files, servers and changed settings. Undoes it in reverse order and prints what it undoes.
/// Storage that a running process uses, and everything that iodyno did not make, is left alone. A run that makes
/// storage does this first. The exit code is 1 if something could not be undone; running the command again tries
/// again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno clean --dry-run                  List what would be undone
  iodyno clean                            Undo it
  iodyno clean --node a=ssh://10.0.0.1    Undo it on another host")]
pub(crate) struct CleanArgs {
    /// Only print what would be undone.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Clean up on this node instead of this host; repeatable.
    ///
    /// ADDRESS is `ssh://[USER@]HOST[:PORT]`, or `local` for this host, as in `iodyno run`.
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub(crate) node: Vec<String>,

    /// Copy this program to nodes that do not have iodyno in this version [default: the one in
    /// `libexec/iodyno/ARCH/` where iodyno is installed].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "node")]
    pub(crate) node_binary: Option<PathBuf>,
}

/// Generate manual pages.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno man | man -l -                   Read the program's page
  iodyno man /usr/local/share/man/man1    Install the pages of the program and its commands")]
pub(crate) struct ManArgs {
    /// Folder for the pages of all commands [default: print the program's page].
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: Option<PathBuf>,
}

/// Generate shell completions.
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

/// Run one part of a trial; used internally.
#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Connect to a node in the virtual machine behind this socket.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) guest: Option<PathBuf>,

    /// Have fio do the I/O on this host; the command after `--` starts a shell there.
    #[arg(long, value_name = "HOST", conflicts_with = "guest")]
    pub(crate) fio: Option<String>,

    /// The command that starts a shell.
    #[arg(last = true, value_name = "COMMAND", requires = "fio")]
    pub(crate) shell: Vec<OsString>,
}
