//! The flags of `run`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::ExperimentArgs;

/// Measure: carry out workloads on one or several targets, and compare them.
///
/// Each job file or name is a workload, each `--on` a configuration; every pair of them is a cell. With one
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
    /// Job files in fio's format, names that `iodyno fs list` shows, or workloads of file operations
    /// in TOML.
    #[arg(required_unless_present = "resume", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Go on with this run where it was cut off, in the same order and under the same rules. What
    /// failed is tried again.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["files", "on", "settings", "aa", "stop_width", "destroy", "seed", "name", "baseline", "metric", "margin", "sample", "sample_every", "dry_run", "max_time", "no_settle"])]
    pub(crate) resume: Option<String>,

    /// Set a job option in every job, over what the file says; of file operations the flags of
    /// `iodyno fs run`: `--set files=100`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,

    /// Allow the data on this device to be overwritten, whatever its signatures say.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,

    /// What is compared, how often, and what is printed.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
}
