//! The flags of an experiment: what is compared, how often, and what is printed.

use clap::{Args, ValueHint};

use super::{FailOn, Percent, SamplingArgs};

/// What `run` and `fs run` have in common.
#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// Measure this folder, file or device. Repeat for several configurations.
    ///
    /// A folder takes the jobs' files; a file or device takes their place. File operations need a
    /// folder. Without NAME, the last part of the path is the name. Without `--on`, the I/O goes
    /// where the jobs say.
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

    /// What is sampled of the host.
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Exit with 1 if any comparison is SLOWER, with 5 if one is undecided.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) fail_on: Option<FailOn>,

    /// Print the plan and stop; nothing on the host is asked or touched.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

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
