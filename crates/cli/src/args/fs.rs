//! The flags of `fs`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueHint};
use iodyno_units::{Bytes, Nanos};

use super::{ExperimentArgs, Percent};

/// Measure file operations: create, delete, sync, statfs, and what else files are done to.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct FsArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: FsCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum FsCommand {
    List(FsListArgs),
    Show(FsShowArgs),
    Run(Box<FsRunArgs>),
}

/// List the workloads that have a name, with the space and files that each needs.
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

/// Print a workload as TOML, to be changed and run as a file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno fs show delete_10k_2MB > mine.toml
  iodyno fs run mine.toml --dir /mnt/data")]
pub(crate) struct FsShowArgs {
    /// A name that `iodyno fs list` shows, or a TOML file.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Run file-operation workloads in a folder, or compare folders by them.
///
/// Everything is done in a folder that the run makes in the one you name, and only that one is
/// removed afterwards. What files a workload needs before is made first, and is not timed as ops.
/// With one trial the table grows second by second; with several, each trial gives a line that
/// benchstat reads, and the verdict follows. Ctrl-C ends early and keeps what was measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno fs run create_empty --dir /mnt/data
  iodyno fs run delete_10k_2MB --dir /mnt/data --files 1000 --file-size 64KiB
                                          The same, scaled to a smaller disk
  iodyno fs run write_sync_1MB --on ext4=/mnt/e --on xfs=/mnt/x --duration 5s
                                          Which of two folders is faster: ten rounds or more
  iodyno fs run create_empty --dir . --threads 4 --own-folders --rate 1000
                                          Four threads at 1000 ops/s together")]
pub(crate) struct FsRunArgs {
    /// Names that `iodyno fs list` shows, or TOML files.
    #[arg(required = true, value_name = "NAME", value_hint = ValueHint::FilePath)]
    pub(crate) workloads: Vec<PathBuf>,

    /// Work in this folder; without it and without `--on`, in the current one.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "on")]
    pub(crate) dir: Option<PathBuf>,

    /// So many threads do the ops.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,

    /// Each thread works in a folder of its own.
    #[arg(long, overrides_with = "shared_folder")]
    pub(crate) own_folders: bool,

    /// All threads work in one folder.
    #[arg(long, overrides_with = "own_folders")]
    pub(crate) shared_folder: bool,

    /// So many files are made before; of SET, where the workload has several.
    #[arg(long, value_name = "[SET=]N")]
    pub(crate) files: Vec<Counted>,

    /// The size of the files that the ops are done to, or of those of SET: `2MiB`.
    #[arg(long, value_name = "[SET=]SIZE")]
    pub(crate) file_size: Vec<Sized>,

    /// Files that are appended to give way to new ones at this length; how much space is needed
    /// follows from it.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) new_file_at: Option<u64>,

    /// End after this time: `30s`, `10m`.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Nanos>,

    /// End after so many ops, all threads together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_ops: Option<u64>,

    /// Let ops go on for this time before they count.
    #[arg(long, value_name = "TIME")]
    pub(crate) ramp: Option<Nanos>,

    /// Begin so many ops a second, all threads together, and tell how late they came.
    #[arg(long, value_name = "OPS/S")]
    pub(crate) rate: Option<f64>,

    /// With `--rate`: at exponential distances instead of equal ones.
    #[arg(long, requires = "rate")]
    pub(crate) poisson: bool,

    /// Afterwards sync the file system and wait until its free space is steady, and tell the time.
    #[arg(long, overrides_with = "no_drain")]
    pub(crate) drain: bool,

    /// End with the last op, whatever is still to be freed or written.
    #[arg(long, overrides_with = "drain")]
    pub(crate) no_drain: bool,

    /// Write data of which compression can save so much; by default it saves nothing.
    #[arg(long, value_name = "PERCENT")]
    pub(crate) compress: Option<Percent>,

    /// What is compared, how often, and what is printed.
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
}

/// `[SET=]N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The set; `None`: the one that the ops take files from.
    pub(crate) set: Option<String>,
    /// How many.
    pub(crate) count: u64,
}

/// `[SET=]SIZE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sized {
    /// The set; `None`: the files that the ops are done to.
    pub(crate) set: Option<String>,
    /// Bytes.
    pub(crate) bytes: u64,
}

impl FromStr for Counted {
    type Err = String;

    fn from_str(text: &str) -> Result<Counted, String> {
        let (set, value) = named(text);
        let (digits, times) = match value.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1000),
            None => (value, 1),
        };
        let count = digits
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(times));
        let count =
            count.ok_or_else(|| "write a number of files, such as 1000 or 10k".to_owned())?;
        Ok(Counted { set, count })
    }
}

impl FromStr for Sized {
    type Err = String;

    fn from_str(text: &str) -> Result<Sized, String> {
        let (set, value) = named(text);
        let bytes = size(value)?;
        Ok(Sized { set, bytes })
    }
}

/// Bytes; `64k` as fio and sysbench write it, too.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let short = text.ends_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T']);
    let text = format!("{text}{}", if short { "iB" } else { "" });
    let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    Ok(bytes.0)
}

fn named(text: &str) -> (Option<String>, &str) {
    match text.split_once('=') {
        Some((set, value)) => (Some(set.to_owned()), value),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_may_name_their_set() {
        let counted = |text: &str| text.parse::<Counted>().map(|it| (it.set, it.count));
        assert_eq!(counted("100"), Ok((None, 100)));
        assert_eq!(counted("10k"), Ok((None, 10_000)));
        assert_eq!(counted("big=2"), Ok((Some("big".to_owned()), 2)));
        for wrong in ["", "x", "1.5", "-1", "99999999999999999999k", "10M"] {
            assert!(counted(wrong).is_err(), "{wrong}");
        }
        let sized = |text: &str| text.parse::<Sized>().map(|it| (it.set, it.bytes));
        assert_eq!(sized("2MiB"), Ok((None, 2 << 20)));
        assert_eq!(sized("small=64k"), Ok((Some("small".to_owned()), 64 << 10)));
        assert!(sized("big=").is_err());
    }
}
