//! `fio` and `fileio`: commands with another program's command line.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueHint};
use iodyno_model::Plan;
use iodyno_units::Nanos;

use super::{ExperimentArgs, NodesArgs, SamplingArgs};

/// Run with fio's command line and output.
///
/// Replace `fio` by `iodyno fio` in a script: job options, job files,
/// `--output-format=normal,json,json+,terse`, `--append-terse`, `--output=FILE`,
/// `--status-interval=TIME` and `--section=NAME` work as in fio, and SIGUSR1 prints the result so far. A
/// link named `fio` does the same. The trial is stored as well; a store that cannot be written is a
/// warning. The exit code is 0, or 1 after any error, as with fio.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(
    override_usage = "iodyno [--store PATH] fio [--no-store] [-q] [--destroy PATH] [--allow-exec] [--dry-run] [--sample NAME] [FIO OPTIONS] [JOB OPTIONS] [FILE]..."
)]
#[command(after_help = "\
Examples:
  iodyno fio --name=t --rw=randread --bs=4k --size=1g --ioengine=libaio --iodepth=16 --direct=1
  iodyno fio --output-format=json --output=result.json job.fio

Write `--store`, `--color` and `-v` before `fio`; `--sample NAME` (a server process whose CPU time is
measured), `--sample-every TIME` and `--trace block` directly after it; `--no-store`, `-q` (no warnings), `--destroy`
`--allow-exec` (run the commands of jobs) and `--dry-run` (print what a run would do) anywhere.
IODYNO_STORE, IODYNO_NO_STORE=1 and IODYNO_QUIET=1 do the same in scripts that cannot be changed. A device that contains data is written only with `--destroy`, unless iodyno wrote that data.
`iodyno check FILE` checks a job file.")]
pub(crate) struct FioArgs {
    /// The store and the messages.
    #[command(flatten)]
    pub(crate) unobtrusive: UnobtrusiveArgs,

    /// Allow overwriting the data on this device, or the disk image in this file.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,

    /// Run the commands of the jobs: `exec_prerun` and `exec_postrun`.
    #[arg(long)]
    pub(crate) allow_exec: bool,

    /// Print the plan and what a run would do with its files and devices, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// What to sample on the host.
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Replaces the global `-v`: after `fio`, `-v` is an option of fio.
    #[arg(id = "verbose", long = "iodyno-verbose", hide = true, action = ArgAction::Count)]
    pub(crate) _verbose: u8,

    /// fio's options and job files.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FIO ARGUMENT"
    )]
    pub(crate) arguments: Vec<String>,
}

/// Flags of the commands with another program's command line.
#[derive(Debug, Args)]
pub(crate) struct UnobtrusiveArgs {
    /// Do not store the results.
    #[arg(long, env = "IODYNO_NO_STORE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) no_store: bool,

    /// Print errors on standard error, but no warnings.
    #[arg(short, long, env = "IODYNO_QUIET", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) quiet: bool,
}

/// Run with sysbench fileio's command line and output.
///
/// Replace `sysbench fileio` by `iodyno fileio` in a script: `prepare`, `run` and `cleanup` work in the
/// current folder with the same options, defaults and output. Files made by sysbench are accepted. A link
/// named `sysbench` does the same. Both `prepare` and `run` are stored as trials; a store that cannot be
/// written is a warning.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(
    override_usage = "iodyno [--store PATH] fileio [--no-store] [-q] [--sample NAME] [--on NAME=PATH]... [--node NAME=ADDRESS]... [--rounds N] [--no-settle] [--name NAME] [--dry-run] [SYSBENCH OPTIONS] prepare|run|cleanup|help"
)]
#[command(after_help = "\
Examples:
  iodyno fileio --file-total-size=4G prepare
  iodyno fileio --file-total-size=4G --file-test-mode=rndrw --threads=4 --time=60 run
  iodyno fileio --file-total-size=4G cleanup
  iodyno fileio --on ext4=/mnt/e --on xfs=/mnt/x --file-total-size=4G prepare
  iodyno fileio --on ext4=/mnt/e --on xfs=/mnt/x --file-total-size=4G --file-test-mode=rndrd run
                                          Compare two folders in ten rounds
  iodyno fileio --on /mnt/data --node a=ssh://10.0.0.1 --node b=ssh://10.0.0.2 --file-test-mode=rndrd run
                                          On two hosts at the same instant; `prepare` takes the same `--node`

Write `--store`, `--color` and `-v` before `fileio`; `--no-store`, `-q` (no warnings), `--on`, `--node`,
`--node-binary`, `--rounds`, `--no-settle`, `--name`, `--dry-run` (print what a run would do), `--sample NAME`
(a server process whose CPU time is measured), `--sample-every TIME` and `--trace block` directly after it.
IODYNO_STORE, IODYNO_NO_STORE=1 and IODYNO_QUIET=1 do the same in scripts that cannot be changed.
`iodyno show last` shows the trial.")]
pub(crate) struct FileioArgs {
    /// The store and the messages.
    #[command(flatten)]
    pub(crate) unobtrusive: UnobtrusiveArgs,

    /// Work in this folder; repeat to compare several [default: the current folder].
    ///
    /// The default NAME is the last component of the path. With several, `run` prints sysbench's output
    /// of each and then the comparison with the first.
    #[arg(long, value_name = "[NAME=]PATH", value_hint = ValueHint::DirPath)]
    pub(crate) on: Vec<std::ffi::OsString>,

    /// The nodes of the run.
    #[command(flatten)]
    pub(crate) nodes: NodesArgs,

    /// Number of rounds of `run`: trials of each folder [default: 1, or as many as a comparison needs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: Option<u32>,

    /// Name of the run in lists.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Do not drop the page cache or wait for idle devices between trials.
    #[arg(long)]
    pub(crate) no_settle: bool,

    /// Print the plan and what a run would do with its files, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// What to sample on the host.
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Replaces the global `-v`: after `fileio`, `-v` is an option of sysbench.
    #[arg(id = "verbose", long = "iodyno-verbose", hide = true, action = ArgAction::Count)]
    pub(crate) _verbose: u8,

    /// sysbench's options and the command.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "SYSBENCH ARGUMENT"
    )]
    pub(crate) arguments: Vec<String>,
}

impl FileioArgs {
    /// The same as flags of `iodyno run`; the others have their defaults.
    pub(crate) fn experiment(&self) -> ExperimentArgs {
        ExperimentArgs {
            on: self.on.clone(),
            rounds: self.rounds,
            aa: false,
            stop_width: None,
            max_time: None,
            baseline: None,
            metric: Vec::new(),
            margin: None,
            no_settle: self.no_settle,
            sampling: self.sampling.clone(),
            stuck_after: Nanos(Plan::STUCK_AFTER_NS),
            fail_on: Vec::new(),
            bisect: false,
            dry_run: self.dry_run,
            seed: None,
            name: self.name.clone(),
            json: false,
            quiet: self.unobtrusive.quiet,
            places: Default::default(),
        }
    }
}
