//! Flags of `fs`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use iodyno_experiment::fileops::{Counted, Sized, size};
use iodyno_units::Nanos;

use super::{ExperimentArgs, NodesArgs, Percent};

/// Run file-operation workloads: create, delete, sync, statfs, rename and others.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct FsArgs {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: FsCommand,
}

/// The commands of `fs`.
#[derive(Debug, Subcommand)]
pub(crate) enum FsCommand {
    List(FsListArgs),
    Show(FsShowArgs),
    Run(Box<FsRunArgs>),
}

/// List the built-in workloads: file operations with the space and files that each needs, reads and writes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno fs list
  iodyno fs list --json")]
pub(crate) struct FsListArgs {
    /// Print the list as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a workload as a starting point for your own: TOML, or a job file for reads and writes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno fs show delete_10k_2MB > mine.toml
  iodyno fs run mine.toml --dir /mnt/data")]
pub(crate) struct FsShowArgs {
    /// A name from `iodyno fs list`, or a TOML file.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Run file-operation workloads in a folder, or compare folders.
///
/// The run creates its own folder in the given one, and removes only that afterwards. Files that a
/// workload needs are created first and not timed as ops. A single trial prints a row per second;
/// several print one line each, in the format of benchstat, and then the comparison. Ctrl-C ends the
/// run early and keeps the results so far.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno fs run create_empty --dir /mnt/data
  iodyno fs run delete_10k_2MB --dir /mnt/data --files 1000 --file-size 64KiB
                                          A smaller variant
  iodyno fs run write_sync_1MB --on ext4=/mnt/e --on xfs=/mnt/x --duration 5s
                                          Compare two folders in at least ten rounds
  iodyno fs run create_empty delete_10k_2MB --dir . --duration 60s --set delete_10k_2MB.files=1000
                                          A suite, with an option of one workload
  iodyno fs run create_empty --dir . --threads 4 --own-folders --rate 1000
                                          Four threads, 1000 ops/s in total
  iodyno fs run create_empty --dir /mnt/shared --node a=ssh://10.0.0.1 --node b=ssh://10.0.0.2
                                          On two hosts at the same instant")]
pub(crate) struct FsRunArgs {
    /// Names from `iodyno fs list`, or TOML files.
    #[arg(required = true, value_name = "NAME", value_hint = ValueHint::FilePath)]
    pub(crate) workloads: Vec<PathBuf>,

    /// Folder to work in [default: the current folder].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "on")]
    pub(crate) dir: Option<PathBuf>,

    /// Number of worker threads.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,

    /// Give each thread its own folder.
    #[arg(long, overrides_with = "shared_folder")]
    pub(crate) own_folders: bool,

    /// Let all threads work in one folder.
    #[arg(long, overrides_with = "own_folders")]
    pub(crate) shared_folder: bool,

    /// Number of files to create first, in SET if the workload has several sets.
    #[arg(long, value_name = "[SET=]N")]
    pub(crate) files: Vec<Counted>,

    /// Size of the files that the ops work on, or of the files of SET: `2MiB`.
    #[arg(long, value_name = "[SET=]SIZE")]
    pub(crate) file_size: Vec<Sized>,

    /// Start a new file when the one appended to reaches this length; limits the space needed.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) new_file_at: Option<u64>,

    /// Run for this time: `30s`, `10m`.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// Stop after this number of ops, over all threads.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_ops: Option<u64>,

    /// Run for this time before measuring.
    #[arg(long, value_name = "TIME")]
    pub(crate) ramp: Option<Nanos>,

    /// Start this number of ops per second, over all threads, and measure latency from the time at
    /// which each was due.
    #[arg(long, value_name = "OPS/S")]
    pub(crate) rate: Option<f64>,

    /// With `--rate`: exponential instead of equal intervals (a Poisson process).
    #[arg(long, requires = "rate")]
    pub(crate) poisson: bool,

    /// At the end, sync the file system and wait until its free space is constant; this time is
    /// reported separately.
    #[arg(long, overrides_with = "no_drain")]
    pub(crate) drain: bool,

    /// Stop after the last op, without waiting for space to be freed or data to be written.
    #[arg(long, overrides_with = "drain")]
    pub(crate) no_drain: bool,

    /// Change an option of the workloads, or only of the named one; the keys are the flags above, and
    /// `chunk`, `setup-threads` and `setup=original`, which decide how files are written.
    #[arg(long = "set", value_name = "[WORKLOAD.]KEY=VALUE")]
    pub(crate) settings: Vec<String>,

    /// Share of the written data that compression can save [default: 0].
    #[arg(long, value_name = "PERCENT")]
    pub(crate) compress: Option<Percent>,

    /// The nodes of the run.
    #[command(flatten)]
    pub(crate) nodes: NodesArgs,

    /// Targets, rounds, comparison and output.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
}
