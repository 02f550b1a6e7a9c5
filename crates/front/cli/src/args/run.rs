//! Flags of `run`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use iodyno_units::Nanos;

use super::{ExperimentArgs, NodesArgs};

/// Run workloads on one or several targets and compare the results.
///
/// Each job file or name is a workload; each `--on` is a configuration. With one of each, one trial
/// runs and its result is printed. With more, each round runs every pair once, in random order, and
/// the configurations are compared with the first (with a single configuration: the workloads, if
/// they do the same kind of work or `--baseline` names one).
/// Results are stored every second. Ctrl-C ends the run early and keeps the results so far; a second
/// Ctrl-C aborts.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  iodyno run disk --on .                  Measure a disk or folder in less than a minute
  iodyno run job.fio                      Use the paths in the job file
  iodyno run job.fio --on ext4=/mnt/e --on xfs=/mnt/x
                                          Compare two folders in at least ten rounds
  iodyno run psync.fio uring.fio --on here=. --aa
                                          Compare two workloads in one folder, and measure the noise
  iodyno run job.fio --on a=/a --on b=/b --stop-width 3% --max-time 2h
                                          Run until the intervals are narrow, for at most two hours
  iodyno run quickstart                   Run a ready-made experiment; see docs/experiments.md
  iodyno run e.toml --where configuration=zfs --where 'workload=rand*'
                                          Run a part of an experiment
  iodyno run job.fio --node a=ssh://10.0.0.1 --node b=ssh://10.0.0.2 --on data=/mnt/data
                                          Run on two hosts at the same instant
  iodyno run job.fio --node a=vm:linux --node b=vm:linux --on disk=/dev/vda
                                          Run in two virtual machines, on a disk of 1 GiB each
  iodyno run randread --on /data --server old='virtiofsd --socket-path={socket} --shared-dir={folder}' \
      --server new='iodyno serve fs {folder} --socket {socket}'
                                          Compare two virtio-fs servers of a folder
  iodyno run --command 'tar xf /tmp/linux.tar' --on ext4=/mnt/e --on xfs=/mnt/x
                                          Compare the time of a command in two folders
  iodyno run --resume last                Continue an interrupted run
  iodyno run --resume last --experiment e.toml
                                          Continue an imported run, with the commands and paths of this file
  iodyno run job.fio --set runtime=5s --set bs=16k
                                          Change options in every job
  iodyno run job.fio --on /dev/sdx --destroy /dev/sdx --dry-run
                                          Show the plan without running it

A device that contains data is written only with `--destroy`, unless iodyno wrote that data. A device
that is mounted, used as swap, or part of an array, pool or mapping is never written.")]
pub(crate) struct RunArgs {
    /// Job files in fio's format, names from `iodyno fs list`, file-operation workloads in TOML, or one experiment: a
    /// name from `iodyno experiments`, or a file in TOML.
    #[arg(required_unless_present_any = ["resume", "command"], value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Continue this interrupted run in the same order and with the same settings. Failed trials are
    /// repeated. `--destroy` is not stored: give it again where needed. A run that
    /// you did not begin on this host runs no command, changes no setting and uses no path: give its
    /// `--experiment` again, or name each with `--on` and `--allow`.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["files", "node", "aa", "stop_width", "seed", "name", "baseline", "metric", "margin", "sample", "sample_every", "max_time", "no_settle"])]
    pub(crate) resume: Option<String>,

    /// With `--resume`: take commands, settings and paths from this experiment, which must be that of the run.
    ///
    /// Give the flags `--set` and `--on` as when the run was begun.
    #[arg(long = "experiment", value_name = "FILE", requires = "resume", conflicts_with = "allow", value_hint = ValueHint::FilePath)]
    pub(crate) experiment_file: Option<PathBuf>,

    /// With `--resume`: allow one action of a run of others, as listed in the refusal; repeatable.
    #[arg(long, value_name = "KEY=VALUE", requires = "resume")]
    pub(crate) allow: Vec<String>,

    /// Override an option in every job, or in those of the named workload. For file operations, the
    /// flags of `iodyno fs run`: `--set files=100`, `--set delete_10k_2MB.files=100`. For an experiment, change a
    /// parameter (`--set NAME=VALUE`) or select a preset (`--set scale=NAME`).
    #[arg(long = "set", value_name = "[WORKLOAD.]KEY=VALUE")]
    pub(crate) settings: Vec<String>,

    /// Run only this part of an experiment: configurations, workloads or values of an axis. `*` and `?` are
    /// wildcards. Repeat it: conditions on one dimension are alternatives; all dimensions have to match. With
    /// `--resume`, only these trials run now.
    #[arg(long = "where", value_name = "DIMENSION=PATTERN")]
    pub(crate) only: Vec<String>,

    /// Measure this shell command; repeat to compare several.
    ///
    /// It runs once in each trial, in a new folder within that of `--on` [default: the current one], which is removed
    /// afterwards. Its time decides, as the metric `op.mean`, unless `--more` or `--less` names a number.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["resume", "server"])]
    pub(crate) command: Vec<String>,

    /// Name of a `--command` in results; repeat it in the order of the commands.
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) command_name: Vec<String>,

    /// Run this command in that folder before each trial of `--command`, without being timed.
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub(crate) prepare: Option<String>,

    /// Run this command in that folder after each trial of `--command`, also if the trial failed.
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub(crate) cleanup: Option<String>,

    /// Kill a `--command` that takes longer, and fail its trial.
    #[arg(long, value_name = "TIME", requires = "command")]
    pub(crate) timeout: Option<Nanos>,

    /// Read this number from the output of each `--command`; more is better. Repeatable.
    ///
    /// The last match counts, in standard output or else in standard error, and of it the first group:
    /// `--more 'tps=tps = ([0-9.]+)'`. The first number decides instead of the time; `--metric` names another one.
    #[arg(long, value_name = "NAME=REGEX", requires = "command")]
    pub(crate) more: Vec<String>,

    /// Like `--more`, for a number where less is better. These numbers follow those of `--more`.
    #[arg(long, value_name = "NAME=REGEX", requires = "command")]
    pub(crate) less: Vec<String>,

    /// Measure this virtio-fs server of a folder; repeat to compare several.
    ///
    /// The command runs in the foreground, with `{socket}` and `{folder}` in place of paths, and the jobs are its
    /// clients, without a guest. Each server shares a new folder within that of `--on` [default: the current one].
    /// Needs root.
    #[arg(long, value_name = "NAME=COMMAND", conflicts_with_all = ["resume", "node"])]
    pub(crate) server: Vec<String>,

    /// Allow overwriting the data on this device, or the disk image in this file.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) destroy: Vec<PathBuf>,

    /// Run the commands of the jobs: `exec_prerun` and `exec_postrun`.
    #[arg(long)]
    pub(crate) allow_exec: bool,

    /// The nodes of the run.
    #[command(flatten)]
    pub(crate) nodes: NodesArgs,

    /// Targets, rounds, comparison and output.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
}
