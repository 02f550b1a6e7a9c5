//! The command line as clap reads it. Help texts are these comments.
//!
//! The only file that knows flags; everything after it works on plain values. The man pages and
//! shell completions are made from it.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXAMPLES: &str = "\
Examples:
  iodyno run job.fio --on /mnt/data       Measure the folder with a fio job file
  iodyno fio --name=t --rw=randread --size=1g --runtime=10
                                          The same from fio's own command line
  iodyno list                             What has been measured
  iodyno show last                        The last result again

Exit codes:
  0 fine   1 a failed check, or a result that could not be stored   2 bad usage or input
  3 target refused   4 workload failed   5 inconclusive   130 interrupted";

/// A dynamometer for storage.
///
/// It loads a storage configuration with real I/O, watches the host meanwhile, stores what it
/// measured, and says what speaks against the figures.
#[derive(Debug, Parser)]
#[command(name = "iodyno", version, after_help = EXAMPLES, styles = STYLES, propagate_version = true)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to use colour.
    ///
    /// `auto` colours text on a terminal and honours NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub(crate) color: When,

    /// Keep results in this file. By default it is iodyno/iodyno.db in XDG_DATA_HOME, or in
    /// ~/.local/share.
    #[arg(long, global = true, value_name = "PATH", env = "IODYNO_STORE", value_hint = ValueHint::FilePath)]
    #[arg(hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,
}

/// When something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// Where it makes sense.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Fio(FioArgs),
    List(ListArgs),
    Show(ShowArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Check(CheckArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
    /// Carries out one part of a trial; speaks the runner's protocol on stdin and stdout.
    #[command(hide = true)]
    Node,
}

/// Measure: carry out job files on one or several targets.
///
/// Each job file is a workload, each `--on` a configuration; every pair of them is one trial. The
/// result is printed and stored, second by second, so that nothing measured is lost. Ctrl-C ends
/// the run early and keeps what was measured; a second one aborts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno run job.fio                      Files lie where the job says
  iodyno run job.fio --on ext4=/mnt/e --on xfs=/mnt/x
                                          The same workload on two folders
  iodyno run job.fio --set runtime=5s --set bs=16k
                                          With options changed in every job
  iodyno run job.fio --on /dev/sdx --destroy /dev/sdx --dry-run
                                          Show the plan; touch nothing

`--destroy` gives way only to signatures. A device that is mounted, swapped on, or part of an
array, pool or mapping is never written.")]
pub(crate) struct RunArgs {
    /// Job files in fio's format.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Measure this folder, file or device. Repeat for several configurations.
    ///
    /// A folder takes the jobs' files; a file or device takes their place. Without NAME, the last
    /// part of the path is the name. Without `--on`, the I/O goes where the jobs say.
    #[arg(long, value_name = "[NAME=]PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) on: Vec<std::ffi::OsString>,

    /// Set a job option in every job, over what the file says.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,

    /// Print the plan and stop; nothing on the host is asked or touched.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Allow the data on this device to be overwritten, whatever its signatures say.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,

    /// Everything random follows from this number; by default it is drawn anew.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Name the run, for lists.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print the result (or, with `--dry-run`, the plan) as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress; warnings and errors are still told.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Measure, with fio's own command line.
///
/// A script that calls fio works with `fio` changed to `iodyno fio`: the options of a job, job
/// files, `--output-format=normal,json,json+,terse`, `--append-terse`, `--output=FILE`,
/// `--status-interval=TIME`, `--section=NAME`. The trial is stored as well. It exits with 0, or
/// with 1 after any error, as fio does.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(
    override_usage = "iodyno [--store PATH] fio [--destroy PATH] [FIO OPTIONS] [JOB OPTIONS] [FILE]..."
)]
#[command(after_help = "\
Examples:
  iodyno fio --name=t --rw=randread --bs=4k --size=1g --ioengine=libaio --iodepth=16 --direct=1
  iodyno fio --output-format=json --output=result.json job.fio

`--store` and `--color` belong before `fio`, `--destroy` right after it. A device that holds
anything is written only with `--destroy`. `iodyno check FILE` tells what a job file means here.")]
pub(crate) struct FioArgs {
    /// Allow the data on this device to be overwritten, whatever its signatures say; comes first.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,

    /// fio's options and job files.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FIO ARGUMENT"
    )]
    pub(crate) arguments: Vec<String>,
}

/// List the runs in the store, newest last.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno list
  iodyno list --json | jq '.runs[].name'")]
pub(crate) struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a stored run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people.
    Text,
    /// Everything measured, as JSON.
    Json,
    /// fio's JSON, with our additions beside it.
    FioJson,
    /// fio's JSON with every histogram's bins.
    #[value(name = "fio-json+")]
    FioJsonPlus,
    /// fio's text.
    FioNormal,
    /// fio's terse lines, version 3.
    Terse,
}

/// Show a stored run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno show last                        The newest run
  iodyno show last~1                      The one before it
  iodyno show 3 --format fio-json         Run 3 as fio would print it")]
pub(crate) struct ShowArgs {
    /// The run: its number, `last`, `last~1`, or the beginning of its id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Print JSON; short for `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// The form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Write one run, with everything measured, into one file.
///
/// Without `--output` it goes to standard output. `iodyno import` reads it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno export last -o result.iodyno
  iodyno export 3 | ssh other iodyno import -")]
pub(crate) struct ExportArgs {
    /// The run: its number, `last`, `last~1`, or the beginning of its id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// The file to write; it must not exist yet.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Read an exported run into the store.
///
/// A run keeps its id; importing it twice changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno import result.iodyno
  iodyno import - < result.iodyno")]
pub(crate) struct ImportArgs {
    /// The exported file; `-` is standard input.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

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
    /// Job files in fio's format.
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn hands_fios_arguments_on_as_they_are() {
        let cli = Cli::try_parse_from([
            "iodyno",
            "--store",
            "s.db",
            "fio",
            "--destroy",
            "/dev/x",
            "--name=x",
            "--help",
            "-h",
            "--version",
            "--store=y",
            "a.fio",
            "--",
            "b",
        ])
        .unwrap();
        let Command::Fio(fio) = cli.command else {
            panic!("not fio")
        };
        assert_eq!(cli.store, Some("s.db".into()));
        assert_eq!(fio.destroy, [PathBuf::from("/dev/x")]);
        assert_eq!(
            fio.arguments,
            [
                "--name=x",
                "--help",
                "-h",
                "--version",
                "--store=y",
                "a.fio",
                "--",
                "b"
            ]
        );
    }

    #[test]
    fn every_command_has_a_description_and_all_but_the_hidden_one_examples() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            if !command.is_hide_set() {
                let after = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(after.contains("Examples:"), "{}", command.get_name());
            }
        }
    }
}
