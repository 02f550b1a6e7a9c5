//! The flags of `run` and `fio`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{FailOn, Percent};

/// Measure: carry out job files on one or several targets, and compare them.
///
/// Each job file is a workload, each `--on` a configuration; every pair of them is a cell. With one
/// cell there is one trial, and its table is printed. With several, every cell is measured once a
/// round, in random order, and the verdict is printed: the configurations are compared with the
/// first, or on one target the workloads with the first. Everything is stored as it comes, second by
/// second. Ctrl-C ends the run early and keeps what was measured; a second one aborts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno run job.fio                      Files lie where the job says
  iodyno run job.fio --on ext4=/mnt/e --on xfs=/mnt/x
                                          Which of two folders is faster: ten rounds or more
  iodyno run psync.fio uring.fio --on here=. --aa
                                          Two workloads on one folder, and the noise floor
  iodyno run job.fio --on a=/a --on b=/b --stop-width 3% --max-time 2h
                                          As many rounds as that takes, or two hours
  iodyno run --resume last                Go on with a run that was cut off
  iodyno run job.fio --set runtime=5s --set bs=16k
                                          With options changed in every job
  iodyno run job.fio --on /dev/sdx --destroy /dev/sdx --dry-run
                                          Show the plan; touch nothing

`--destroy` gives way only to signatures. A device that is mounted, swapped on, or part of an
array, pool or mapping is never written.")]
pub(crate) struct RunArgs {
    /// Job files in fio's format.
    #[arg(required_unless_present = "resume", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Measure this folder, file or device. Repeat for several configurations.
    ///
    /// A folder takes the jobs' files; a file or device takes their place. Without NAME, the last
    /// part of the path is the name. Without `--on`, the I/O goes where the jobs say.
    #[arg(long, value_name = "[NAME=]PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) on: Vec<std::ffi::OsString>,

    /// Measure every cell so many times; with `--stop-width`, at most.
    ///
    /// By default one trial where there is nothing to compare, otherwise the least number that can
    /// show a difference in all comparisons together, never under 10. With `--resume`, a larger
    /// number prolongs the run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: Option<u32>,

    /// Measure the baseline twice a round: what differs between the two is noise.
    #[arg(long)]
    pub(crate) aa: bool,

    /// Stop at the end of a round when every interval is this narrow, high − low, in percent of the
    /// ratio. Not before the default number of rounds; without `--rounds`, after 100 at the latest.
    #[arg(long, value_name = "PERCENT")]
    pub(crate) stop_width: Option<Percent>,

    /// Begin no round that would end after this time: `90s`, `2h`.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_time: Option<iodyno_units::Nanos>,

    /// Go on with this run where it was cut off, in the same order and under the same rules. What
    /// failed is tried again.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["files", "on", "settings", "aa", "stop_width", "destroy", "seed", "name", "baseline", "metric", "margin", "dry_run", "max_time", "no_settle"])]
    pub(crate) resume: Option<String>,

    /// Compare with this configuration (on one target: workload) instead of the first.
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,

    /// Judge by this metric instead of each workload's own: `iops`, `read.p99`, `completion`, …
    /// Further ones, after commas, are exploratory.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) metric: Vec<String>,

    /// Differences up to this are not worth having.
    #[arg(long, value_name = "PERCENT", default_value = "3%")]
    pub(crate) margin: Percent,

    /// Leave the page cache as it is between trials, and do not wait for idle devices.
    #[arg(long)]
    pub(crate) no_settle: bool,

    /// Exit with 1 if any comparison is SLOWER, with 5 if one is undecided.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) fail_on: Option<FailOn>,

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
