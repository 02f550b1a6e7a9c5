//! Flags of `run` and `fs run`: targets, rounds, comparison and output.

use std::collections::BTreeMap;

use clap::{Args, ValueHint};
use iodyno_model::Place;
use iodyno_units::Nanos;

use super::{FailOn, Percent, SamplingArgs};

/// Flags that `run` and `fs run` share.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExperimentArgs {
    /// Run on this folder, file or device; repeat to compare several.
    ///
    /// In a folder, the jobs create their files; a file or device replaces them. File operations need
    /// a folder. The default NAME is the last component of the path, or `home` for that of a user. Without
    /// `--on`, the jobs use the paths in the job file.
    #[arg(long, value_name = "[NAME=]PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) on: Vec<std::ffi::OsString>,

    /// Number of rounds: trials of each configuration and workload; with `--stop-width`, the maximum.
    ///
    /// The default is 1 if there is nothing to compare. Otherwise it is the smallest number that can
    /// show a significant difference in every comparison, and at least 10. With `--resume`, a larger
    /// number extends the run; each extension lowers the p that its verdict requires.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: Option<u32>,

    /// Run the baseline twice in each round, to measure the noise (A/A test).
    #[arg(long)]
    pub(crate) aa: bool,

    /// Stop once every confidence interval is at most this wide, in percent of its ratio.
    ///
    /// Checked after each round, from the default number of rounds on; after 127 rounds, each time at most
    /// 1/64 more are complete. Without `--rounds`, the run stops after 100 rounds.
    #[arg(long, value_name = "PERCENT")]
    pub(crate) stop_width: Option<Percent>,

    /// Do not start a round that would end after this time: `90s`, `2h`.
    #[arg(long, value_name = "TIME")]
    pub(crate) max_time: Option<Nanos>,

    /// The configuration (or workload, with one target) that the others are compared with [default:
    /// the first].
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,

    /// Metric to compare by, such as `iops`, `read.p99` or `completion` [default: depends on the workload].
    ///
    /// Separate several by commas: the first decides, the others are exploratory.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) metric: Vec<String>,

    /// Treat smaller differences as negligible [default: 3%].
    #[arg(long, value_name = "PERCENT")]
    pub(crate) margin: Option<Percent>,

    /// Do not drop the page cache or wait for idle devices between trials.
    #[arg(long)]
    pub(crate) no_settle: bool,

    /// What to sample on the host.
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// End a trial whose storage makes no progress for this time; `0`: never.
    ///
    /// The storage is stuck if ops are in flight, none completes, and neither the devices below the
    /// target nor writeback make progress. The trial then fails, with the ops in flight
    /// named, and the run continues with the next trial.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = stuck_after)]
    pub(crate) stuck_after: Nanos,

    /// Exit with 1 after a `regression`, or with 5 if a comparison is `undecided`. Separate several by commas.
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,

    /// Exit as `git bisect run` expects: 0 without a regression, 1 after one, 125 if undecided, refused or failed.
    #[arg(long, conflicts_with = "fail_on")]
    pub(crate) bisect: bool,

    /// Print the plan, and what a run would do with its targets, and change nothing.
    ///
    /// A target that would be refused is a warning; the exit code is 0.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Seed of all random decisions [default: random].
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Name of the run in lists.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print the result (or, with `--dry-run`, the plan) as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only results, warnings and errors: no progress, no rows per second, and not where the run is stored.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The positions in the experiment's file of settings that are not given as flags, by key, and of its sections.
    #[arg(skip)]
    pub(crate) places: BTreeMap<String, Place>,
}

/// Parses the time after which storage is stuck; 0 never ends a trial.
fn stuck_after(text: &str) -> Result<Nanos, String> {
    if text.trim() == "0" {
        return Ok(Nanos(0));
    }
    let after: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    match after {
        after if after < Nanos::SECOND => {
            Err("the minimum is 1s; `0` never ends a trial".to_owned())
        }
        after => Ok(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_stuck_after_a_second_at_the_earliest_or_never() {
        for (text, expected) in [
            ("30s", Some(30_000_000_000)),
            ("1s", Some(1_000_000_000)),
            ("0", Some(0)),
            ("999ms", None),
            ("5", None),
        ] {
            assert_eq!(
                stuck_after(text).ok().map(|after| after.0),
                expected,
                "{text}"
            );
        }
    }
}
