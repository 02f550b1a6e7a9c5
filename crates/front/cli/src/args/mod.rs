//! The command line, declared for clap. The help texts are these comments; man pages and shell
//! completions are generated from them.
//!
//! Only this module knows flags; everything after it works on plain values.

mod experiment;
#[cfg(feature = "fileserver")]
mod file_server;
mod foreign;
mod fs;
mod fuse_transport;
mod host;
mod mirror;
mod nodes;
mod paths;
mod percent;
#[cfg(feature = "charts")]
mod report;
mod run;
mod sampling;
mod stored;
mod tools;
#[cfg(feature = "fileserver")]
mod virtiofsd;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};

pub(crate) use experiment::ExperimentArgs;
#[cfg(feature = "fileserver")]
pub(crate) use file_server::{AclChoice, MigrationModeChoice, SandboxChoice, ServeFsArgs};
pub(crate) use foreign::{FileioArgs, FioArgs};
pub(crate) use fs::{FsArgs, FsCommand, FsListArgs, FsRunArgs, FsShowArgs};
pub(crate) use fuse_transport::FuseTransport;
pub(crate) use host::{DoctorArgs, WatchArgs};
pub(crate) use mirror::{
    MirrorAddArgs, MirrorArgs, MirrorCommand, MirrorCreateArgs, MirrorRemoveArgs,
    MirrorReplaceArgs, MirrorScrubArgs, MirrorStatusArgs, ServeArgs, ServeCommand, ServeMirrorArgs,
};
pub(crate) use nodes::NodesArgs;
pub(crate) use percent::Percent;
#[cfg(feature = "charts")]
pub(crate) use report::{PlotArgs, ReportArgs, ReportFormat};
pub(crate) use run::RunArgs;
pub(crate) use sampling::{SamplingArgs, each_once};
pub(crate) use stored::{
    CompareArgs, CompareFormat, DeleteArgs, ExplainArgs, ExplainFormat, ExportArgs, ExportFormat,
    FailOn, Format, HistoryArgs, ImportArgs, ListArgs, NameArgs, ShowArgs, UnitChoice,
};
pub(crate) use tools::{CheckArgs, CleanArgs, CompletionsArgs, ExperimentsArgs, ManArgs, NodeArgs};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXAMPLES: &str = "\
Examples:
  iodyno run disk --on .                  Measure a disk or folder in less than a minute
  iodyno run randread --on ext4=/mnt/e --on xfs=/mnt/x
                                          Compare two folders in interleaved rounds
  iodyno run job.fio --on /mnt/data       Run a fio job file in a folder
  iodyno fio --name=t --rw=randread --size=1g --runtime=10
                                          Use fio's command line
  iodyno fs run create_empty --dir /mnt/data
                                          Create files and sync their folder for ten seconds
  iodyno fileio --file-total-size=1G prepare
  iodyno fileio --file-total-size=1G --file-test-mode=rndrw run
                                          Use sysbench's command line
  iodyno experiments                      List the ready-made experiments
  iodyno list                             List the stored runs
  iodyno show last                        Show the last run
  iodyno compare last                     Compare the configurations of the last run
  iodyno explain last                     Show what makes a configuration slower
  iodyno show last --series disk          Show disk statistics during the last run
  iodyno doctor /mnt/data                 Check whether the host is fit for benchmarks

Exit codes:
  0 success   1 regression, failed check, or result not stored   2 bad usage or input
  3 target refused   4 workload failed   5 inconclusive   130 interrupted";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  iodyno schema > iodyno.schema.json     Then begin an experiment with `#:schema ./iodyno.schema.json`";

/// A storage benchmark that compares configurations and reports confidence intervals.
///
/// iodyno runs block I/O or file operations on folders, files and devices, samples the host while it
/// does, and stores every second. With several configurations it repeats each in interleaved rounds
/// and reports which is faster, by how much, and whether the difference is significant.
#[derive(Debug, Parser)]
#[command(name = "iodyno", version, after_help = EXAMPLES, styles = STYLES, propagate_version = true)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to use colors.
    ///
    /// `auto` uses colors on a terminal, subject to NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM.
    #[arg(long, global = true, help_heading = "Global options", value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub(crate) color: When,

    /// Store results in this file [default: iodyno/iodyno.db in $XDG_DATA_HOME or ~/.local/share].
    #[arg(long, global = true, help_heading = "Global options", value_name = "PATH", env = "IODYNO_STORE", value_hint = ValueHint::FilePath)]
    #[arg(hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,

    /// Print every note of a result, and log what iodyno does to standard error; repeat for more (-vv, -vvv).
    ///
    /// IODYNO_LOG selects by crate: `debug`, or `iodyno_runner=trace,iodyno_store=debug`. `-v` takes precedence.
    #[arg(short, long, global = true, help_heading = "Global options", action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Fio(FioArgs),
    Fs(FsArgs),
    Fileio(FileioArgs),
    List(ListArgs),
    Show(ShowArgs),
    Compare(CompareArgs),
    Explain(ExplainArgs),
    #[command(alias = "rename")]
    Name(NameArgs),
    #[command(aliases = ["rm", "remove"])]
    Delete(DeleteArgs),
    History(HistoryArgs),
    #[cfg(feature = "charts")]
    Report(ReportArgs),
    #[cfg(feature = "charts")]
    Plot(PlotArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Experiments(ExperimentsArgs),
    Check(CheckArgs),
    Doctor(DoctorArgs),
    Watch(WatchArgs),
    Clean(CleanArgs),
    Mirror(MirrorArgs),
    Serve(ServeArgs),
    /// Print the JSON Schema of experiments, for editors.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
    Man(ManArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Node(NodeArgs),
}

/// The arguments of the program, with the command that its name selects: a link or copy named `fio` is `iodyno fio`,
/// one named `sysbench` is `iodyno fileio`, and one named `virtiofsd` `iodyno serve fs` with virtiofsd's options.
pub(crate) fn with_command(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = arguments.first().map(OsString::as_os_str);
    #[cfg(feature = "fileserver")]
    if program.and_then(|program| Path::new(program).file_name()) == Some("virtiofsd".as_ref()) {
        let words = virtiofsd::translated(arguments.drain(1..).collect::<Vec<_>>());
        arguments.extend(words);
        return arguments;
    }
    if let Some(command) = program.and_then(command_of) {
        arguments.insert(1, command.into());
    }
    arguments
}

/// Parses the arguments of the program.
pub(crate) fn parse<T: Into<OsString> + Clone>(
    arguments: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
    let mut command = paths::without_urls(Cli::command());
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The first argument that is not UTF-8. Paths are part of stored plans and of messages to nodes, which are.
pub(crate) fn not_utf8() -> Option<OsString> {
    std::env::args_os().find(|argument| argument.to_str().is_none())
}

/// Whether the program was called by a name that selects a command.
pub(crate) fn called_by_other_name() -> bool {
    std::env::args_os()
        .next()
        .is_some_and(|program| command_of(&program).is_some())
}

fn command_of(program: &OsStr) -> Option<&'static str> {
    match Path::new(program).file_name()?.to_str()? {
        "fio" => Some("fio"),
        "sysbench" => Some("fileio"),
        _ => None,
    }
}

/// Adds a suggestion to the error of an unknown command: the command that runs a job file or a workload of file
/// operations, or a similar command.
pub(crate) fn suggest(error: &mut clap::Error) {
    if error.kind() == clap::error::ErrorKind::UnknownArgument {
        return suggest_flag(error);
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let word = word.clone();
    let runs = match () {
        () if iodyno_experiment::fileops::named(&word).is_some() => "iodyno fs run",
        () if Path::new(&word).is_file() => "iodyno run",
        () => {
            if error.get(ContextKind::SuggestedSubcommand).is_none()
                && let Err(other) = Cli::command().try_get_matches_from(["iodyno", &word])
                && let Some(similar) = other.get(ContextKind::SuggestedSubcommand)
            {
                error.insert(ContextKind::SuggestedSubcommand, similar.clone());
            }
            return;
        }
    };
    error.remove(ContextKind::SuggestedSubcommand);
    let tip = ContextValue::StyledStrs(vec![format!("to run it: {runs} {word}").into()]);
    error.insert(ContextKind::Suggested, tip);
}

/// Adds a suggestion to the error of an unknown flag: an option of jobs, or a similar flag. clap itself suggests any
/// flag with a few common letters.
fn suggest_flag(error: &mut clap::Error) {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let name = flag.trim_start_matches('-').to_owned();
    let option = name.split('=').next().unwrap_or_default().replace('-', "_");
    let near = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(near)) => {
            iodyno_model::closest(&name, std::iter::once(near.trim_start_matches('-'))).is_some()
        }
        _ => false,
    };
    if !near {
        error.remove(ContextKind::SuggestedArg);
    }
    if iodyno_fio::option_names().any(|known| known == option) {
        error.remove(ContextKind::SuggestedArg);
        let tip = format!(
            "options of jobs are set with `--set {option}=VALUE`, or given to `iodyno fio`"
        );
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_unknown_flag_is_explained_by_what_was_probably_meant() {
        let told = |words: &[&str]| {
            let mut error = parse([&["iodyno"], words].concat()).unwrap_err();
            suggest(&mut error);
            error.to_string()
        };
        for option in ["runtime", "bs", "iodepth", "rw"] {
            let text = told(&["run", "x.fio", &format!("--{option}"), "5"]);
            assert!(text.contains(&format!("`--set {option}=VALUE`")), "{text}");
            assert!(!text.contains("similar"), "{text}");
        }
        let text = told(&["run", "x.fio", "--round", "5"]);
        assert!(text.contains("'--rounds'"), "{text}");
        assert!(!told(&["run", "x.fio", "--zzzume"]).contains("similar"));
    }

    #[test]
    fn a_url_is_not_a_path() {
        let parsed = |words: &[&str]| parse([&["iodyno"], words].concat()).map(drop);
        for words in [
            &["--store", "postgres://h/db", "list"][..],
            &["list", "--store=sqlite:///x"],
            &["--store", "nbd://h/x", "list"],
            &["run", "http://h/job.fio"],
            &["run", "j.fio", "--destroy", "s3://b"],
            &["export", "1", "-o", "ftp://h/x"],
            &["import", "https://h/x"],
            &["fs", "run", "w", "--dir", "smb://h/x"],
        ] {
            let error = parsed(words).unwrap_err().to_string();
            assert!(error.contains("is not a path"), "{words:?}: {error}");
        }
        for words in [
            &["--store", "./postgres://h/db", "list"][..],
            &["run", "j.fio", "--destroy", "nbd://h/x"],
        ] {
            assert!(parsed(words).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn passes_fios_arguments_on_unchanged() {
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
    fn the_name_of_the_program_selects_a_command() {
        for (given, expected) in [
            ("iodyno fio x", "iodyno fio x"),
            ("/opt/bin/fio --name=x", "/opt/bin/fio fio --name=x"),
            ("fio", "fio fio"),
            ("./sysbench fileio run", "./sysbench fileio fileio run"),
            ("fiod --name=x", "fiod --name=x"),
            #[cfg(feature = "fileserver")]
            (
                "/usr/libexec/virtiofsd --shared-dir=/d --xattr",
                "/usr/libexec/virtiofsd serve fs /d --xattr",
            ),
            ("/fio/iodyno list", "/fio/iodyno list"),
            ("", ""),
        ] {
            let given = given.split_whitespace().map(OsString::from);
            let found: Vec<String> = with_command(given)
                .into_iter()
                .map(|word| word.into_string().unwrap())
                .collect();
            assert_eq!(found.join(" "), expected);
        }
    }

    #[test]
    fn every_command_has_a_description_and_all_but_the_hidden_one_examples() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            if !command.is_hide_set() && !command.has_subcommands() {
                let after = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(after.contains("Examples:"), "{}", command.get_name());
            }
        }
    }
}
