//! Commands that take another program's command line.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};

use super::SamplingArgs;

/// Measure, with fio's own command line.
///
/// A script that calls fio works with `fio` changed to `iodyno fio`: the options of a job, job
/// files, `--output-format=normal,json,json+,terse`, `--append-terse`, `--output=FILE`,
/// `--status-interval=TIME`, `--section=NAME`. The trial is stored as well. It exits with 0, or
/// with 1 after any error, as fio does.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(
    override_usage = "iodyno [--store PATH] fio [--destroy PATH] [--sample NAME] [FIO OPTIONS] [JOB OPTIONS] [FILE]..."
)]
#[command(after_help = "\
Examples:
  iodyno fio --name=t --rw=randread --bs=4k --size=1g --ioengine=libaio --iodepth=16 --direct=1
  iodyno fio --output-format=json --output=result.json job.fio

`--store` and `--color` belong before `fio`; `--destroy`, `--sample NAME` (a server, whose CPU time
is charged) and `--sample-every TIME` right after it. A device that holds
anything is written only with `--destroy`. `iodyno check FILE` tells what a job file means here.")]
pub(crate) struct FioArgs {
    /// Allow the data on this device to be overwritten, whatever its signatures say; comes first.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,

    /// What is sampled of the host.
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// In place of the global `-v`, which after `fio` belongs to fio.
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

/// Measure, with sysbench fileio's own command line.
///
/// A script that calls `sysbench fileio` works with that changed to `iodyno fileio`: `prepare`, `run`
/// and `cleanup` in the current folder, the same options and defaults, the same words in the output.
/// Files that sysbench made are accepted. Preparing and running are trials, and stored as such.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
#[command(
    override_usage = "iodyno [--store PATH] fileio [--sample NAME] [SYSBENCH OPTIONS] prepare|run|cleanup|help"
)]
#[command(after_help = "\
Examples:
  iodyno fileio --file-total-size=4G prepare
  iodyno fileio --file-total-size=4G --file-test-mode=rndrw --threads=4 --time=60 run
  iodyno fileio --file-total-size=4G cleanup

`--store` and `--color` belong before `fileio`, `--sample NAME` (a server, whose CPU time is charged)
and `--sample-every TIME` right after it. `iodyno list` and `iodyno show last` have the trials.")]
pub(crate) struct FileioArgs {
    /// What is sampled of the host.
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// In place of the global `-v`, which after `fileio` belongs to sysbench.
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
