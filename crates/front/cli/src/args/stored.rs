//! Flags of the commands that read or write the store.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use iodyno_model::SeriesKind;
use iodyno_units::Nanos;

use super::Percent;

/// List the stored runs, newest last.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno list
  iodyno list --json | jq '.runs[].name'")]
pub(crate) struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Delete runs from the store.
///
/// Deletes the runs with all their results, without asking, and prints what was deleted. A run in progress is not
/// deleted. The space is used by later runs; the file does not shrink.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno delete 3                         Delete run 3
  iodyno delete 3-7 last before           Delete several runs")]
pub(crate) struct DeleteArgs {
    /// Runs: numbers, ranges such as `3-7`, `last`, `last~1`, names, or beginnings of ids.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,
}

/// Give a run another name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno name last before
  iodyno name 3 after && iodyno compare before after")]
pub(crate) struct NameArgs {
    /// The run: a number, `last`, `last~1`, its name, or the beginning of an id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Its new name.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Output formats of `show`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables.
    Text,
    /// One table in GitHub's Markdown, and the findings.
    Markdown,
    /// All results as JSON.
    Json,
    /// fio's JSON format with additional fields.
    FioJson,
    /// fio's JSON format with the bins of all histograms.
    #[value(name = "fio-json+")]
    FioJsonPlus,
    /// fio's normal format.
    FioNormal,
    /// fio's terse format, version 3.
    Terse,
    /// The table that `iodyno fs run` prints: a row per second, and the line for benchstat.
    Fsbench,
    /// Comma-separated values: the jobs' seconds, or with `--series` those of the host.
    Csv,
}

/// Show a stored run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno show last                        Show the newest run
  iodyno show last~1                      Show the run before it
  iodyno show 3 --format fio-json         Show run 3 in fio's JSON format
  iodyno show 3 --series disk --every 30s Show disk statistics every 30 seconds, as iostat does
  iodyno show 3 --series interrupts,cpu --trial 2 --format csv
  iodyno show 3 --format markdown         Show its trials in one table to paste
  iodyno show 3 --format csv              Show the rates and latencies of each second and job")]
pub(crate) struct ShowArgs {
    /// The run: a number, `last`, `last~1`, or the beginning of an id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Print JSON; short for `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// Show host statistics during the run: `cpu`, `interrupts`, `load`, `disk`, `pressure`, `memory`,
    /// `reclaim`, `network`, `pool`, `arc`, `cgroup`, `process`, `others` or `all`; separate several by commas.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = series)]
    pub(crate) series: Vec<Option<SeriesKind>>,

    /// Combine the samples of each interval of this length: `30s`. By default, text output shows every
    /// sample of a short trial, and at most about 600 intervals of a long one.
    #[arg(long, value_name = "TIME", requires = "series")]
    pub(crate) every: Option<Nanos>,

    /// Show only the N-th trial, in the order in which `show` lists them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) trial: Option<u32>,

    /// With `--format csv`: print the values as they were read, instead of rates.
    #[arg(long, requires = "series")]
    pub(crate) raw: bool,
}

/// Parses a kind of series; `None` is all of them.
fn series(text: &str) -> Result<Option<SeriesKind>, String> {
    let text = text.trim();
    if text == "all" {
        return Ok(None);
    }
    let kind = SeriesKind::ALL.into_iter().find(|kind| kind.name() == text);
    kind.map(Some).ok_or_else(|| {
        let names: Vec<&str> = SeriesKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("the kinds are {} and all", names.join(", "))
    })
}

/// Show the results of a workload over all stored runs.
///
/// Compares runs of the same work on the same configuration, target and host: the same jobs with the same options and
/// the same end, on the same file system, layers and devices with the same settings. The kernel and other parts of
/// the environment may differ. Each run is one value, the median of its trials. A change of level is shown with what
/// differs in the environment of the first run after it; slow changes are shown as a drift. The newest run is
/// compared with the last level that has at least five runs. Imported runs are left out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno history randread                 Show all runs of the workload `randread`
  iodyno history randread --metric read.p99
  iodyno history randread --fail-on regression
                                          In CI: exits with 0, 1 (regression) or 5 (too few runs)
  iodyno history randread --any-target    Also compare runs on other targets")]
pub(crate) struct HistoryArgs {
    /// The workload, by the name that `iodyno show` prints.
    #[arg(value_name = "WORKLOAD")]
    pub(crate) workload: String,

    /// Use only trials with this value; `*` and `?` are wildcards. Repeat for alternative values or other dimensions.
    #[arg(long = "where", value_name = "DIMENSION=PATTERN")]
    pub(crate) only: Vec<String>,

    /// Metric, such as `iops`, `read.p99` or `completion` [default: the primary metric of the workload].
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,

    /// Treat smaller differences of the newest run as negligible [default: 3%].
    #[arg(long, value_name = "PERCENT")]
    pub(crate) margin: Option<Percent>,

    /// Show runs on different configurations and targets as one history.
    #[arg(long)]
    pub(crate) any_target: bool,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Exit with 1 if the newest run is a `regression` in any of its histories, or with 5 if it is `undecided` for lack
    /// of runs. Separate several by commas.
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,
}

/// Forms of an exported run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A file that `iodyno import` reads.
    Iodyno,
    /// A folder with `trials.parquet`, `seconds.parquet` and `samples.parquet`, for pandas, polars and DuckDB.
    Parquet,
}

/// Write a run with all its results to a file.
///
/// `iodyno import` reads the file. With `--format parquet`, the results are written as tables for other programs: the
/// metrics of each trial, each second of each job, and the telemetry of the host.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno export last -o result.iodyno
  iodyno export 3 | ssh other iodyno import -
  iodyno export 3 --format parquet -o tables")]
pub(crate) struct ExportArgs {
    /// The run: a number, `last`, `last~1`, or the beginning of an id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Format.
    #[arg(long, value_enum, default_value_t = ExportFormat::Iodyno)]
    pub(crate) format: ExportFormat,

    /// File to write, or with `--format parquet` a folder to create, accessible to its user only (mode 0600 or 0700);
    /// it must not exist [default: standard output].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, required_if_eq("format", "parquet"))]
    pub(crate) output: Option<PathBuf>,

    /// Include the command line and the names of hosts and of users of nodes.
    ///
    /// Without it, a digest stands for each. Paths stay as they are. Secrets are always masked when a run is stored.
    #[arg(long)]
    pub(crate) names: bool,
}

/// Import exported runs or the output of other tools into the store.
///
/// An exported run keeps its id, and importing it twice has no effect. All other files together become
/// one new run. iodyno finds results anywhere in a text: fio's JSON, terse and normal output, sysbench
/// fileio, file-operation tables, `Benchmark…` lines, `zpool iostat`, /proc/interrupts and plain tables.
/// Lines that look like results but cannot be read are listed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno import result.iodyno             Import a run written by `iodyno export`
  iodyno import write-up.txt              Import all results in a text
  iodyno import results/*/*.json --label '{config}/{job}.{loop}.json'
                                          Take configuration, workload and repetition from the path
  iodyno import table.md --table 'config=head1, workload=row+head2, unit=head3'
                                          Describe the columns and headings of a plain table")]
pub(crate) struct ImportArgs {
    /// Files to import; `-` is standard input.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// Pattern for the files' paths with the fields `{config}`, `{job}`, `{loop}` or names of your own.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) label: Option<String>,

    /// Meaning of the columns and headings of a plain table.
    #[arg(long, value_name = "MAP")]
    pub(crate) table: Option<String>,

    /// Name of the run in lists.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print the results found, but do not store them.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Print the results found as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Output formats of `compare`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Tables.
    Text,
    /// A Markdown table.
    Markdown,
    /// An AsciiDoc table.
    Asciidoc,
    /// Comma-separated values, one line per comparison.
    Csv,
    /// JSON.
    Json,
    /// Go's benchmark format for benchstat, one line per trial.
    Benchstat,
    /// JUnit's XML: a test case for each verdict, which fails if it is SLOWER and is skipped if undecided.
    Junit,
    /// Annotations of GitHub's workflows: an error for each verdict that is SLOWER, a notice for the others.
    Github,
}

/// Units of bandwidths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnitChoice {
    /// 10⁶ bytes per second.
    #[value(name = "MB/s")]
    Decimal,
    /// 2²⁰ bytes per second.
    #[value(name = "MiB/s")]
    Binary,
}

/// Conditions for a failing exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A comparison is SLOWER.
    Regression,
    /// The data do not decide a comparison.
    Undecided,
}

impl FailOn {
    /// The conditions of a command with these flags.
    pub(crate) fn of(fail_on: &[FailOn], bisect: bool) -> Vec<FailOn> {
        match bisect {
            true => vec![FailOn::Regression, FailOn::Undecided],
            false => fail_on.to_vec(),
        }
    }
}

/// Compare configurations, workloads or runs, with confidence intervals.
///
/// For one run, compares its configurations with the baseline, or its workloads if there is only one
/// configuration. For several runs, compares the runs with the first; if they have no configuration
/// or workload in common, compares those instead. Trials of one run are paired by round. Ratios are ratios of speed:
/// above 1 the candidate is faster, for every metric.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno compare last                     Compare the configurations of the last run
  iodyno compare last --layout            Print the closing table of the last experiment
  iodyno compare 3 5 --table mine.toml    Print a table in the layout of a file
  iodyno compare 3 5                      Compare run 5 with run 3
  iodyno compare 7 --cols configuration --rows workload,bs --where rw=randread
  iodyno compare 7 --metric read.p99 --format markdown
  iodyno compare 7 --metric bandwidth+iops --unit MB/s
                                          Bandwidth and IOPS beside one another
  iodyno compare before after --cols run,rw,bs
                                          Compare runs, with a column for each rw and bs
  iodyno compare before after --fail-on regression
                                          In CI: exits with 0, 1 (regression) or 5 (undecided)
  iodyno compare 7 --format benchstat > 7.txt; benchstat -col config 7.txt")]
pub(crate) struct CompareArgs {
    /// Runs: numbers, ranges such as `3-7`, `last`, `last~1`, names, or beginnings of ids.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,

    /// Print the table that closes the runs' experiment, `[table]` in its file.
    #[arg(long, conflicts_with_all = ["cols", "rows", "metric", "unit", "mean"])]
    pub(crate) layout: bool,

    /// Print a table in the layout of a TOML file with the keys of `[table]`, or with that section.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["layout", "cols", "rows", "metric", "unit", "mean"])]
    pub(crate) table: Option<PathBuf>,

    /// Print how far each configuration, or other value of the compared dimension, is from the best one of each row:
    /// its worst ratio and the geometric mean, with intervals, and the rows in which it is SLOWER.
    #[arg(long, conflicts_with_all = ["layout", "table", "unit", "mean", "fail_on", "bisect"])]
    pub(crate) regret: bool,

    /// Dimension to compare: `configuration`, `workload`, `run`, `engine`, `bs`, …
    ///
    /// Of several dimensions separated by commas, the first is compared, and the others form columns below each of its
    /// values: `run,rw,bs`.
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',')]
    pub(crate) cols: Vec<String>,

    /// Dimensions that form the rows. Several workloads in one row are combined by the geometric mean
    /// of their ratios.
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',')]
    pub(crate) rows: Vec<String>,

    /// Use only trials with this value; `*` and `?` are wildcards. Repeat for alternative values or other dimensions.
    #[arg(long = "where", value_name = "DIMENSION=PATTERN")]
    pub(crate) only: Vec<String>,

    /// Metric to compare by, such as `iops`, `read.p99` or `completion` [default: depends on the workload].
    ///
    /// Of several metrics separated by commas, the first decides and the others are exploratory; `all`
    /// selects every metric. Metrics joined by `+` are beside one another and all decide: `bandwidth+iops`.
    /// `DIMENSION=VALUE:NAME` selects the metric of rows with that value: `rw=read:bandwidth,rw=randread:iops`.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) metric: Vec<String>,

    /// Print bandwidths in this unit [default: KiB/s, MiB/s or GiB/s, as the size requires].
    #[arg(long, value_name = "UNIT", value_enum)]
    pub(crate) unit: Option<UnitChoice>,

    /// Print the arithmetic mean beside each median.
    #[arg(long)]
    pub(crate) mean: bool,

    /// Treat smaller differences as negligible [default: as in the run, 3%].
    #[arg(long, value_name = "PERCENT")]
    pub(crate) margin: Option<Percent>,

    /// The value of the compared dimension that the others are compared with [default: the first].
    #[arg(long, value_name = "VALUE")]
    pub(crate) baseline: Option<String>,

    /// The attribute under test, which may differ: `kernel`, `mount options`, `duration`, …
    #[arg(long, value_name = "FACT", value_delimiter = ',')]
    pub(crate) axis: Vec<String>,

    /// Rows that cannot differ; their difference is used as the noise floor.
    #[arg(long, value_name = "DIMENSION=VALUE")]
    pub(crate) floor: Vec<String>,

    /// Output format.
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub(crate) format: CompareFormat,

    /// Print JSON; short for `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Exit with 1 after a `regression`, or with 5 if a comparison is `undecided`. Separate several by commas.
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,

    /// Exit as `git bisect run` expects: 0 without a regression, 1 after one, 125 if undecided, refused or failed.
    #[arg(long, conflicts_with = "fail_on")]
    pub(crate) bisect: bool,
}

/// Explain why one configuration is faster than another.
///
/// Prints the number of ops in flight and the time of an op on both sides, the parts of this time (device, layers,
/// CPU, waits, syncs), the time of the workers, the work per op, and at most three candidate causes: settings and
/// statistics of the host that differ and act on a part that changed. A comparison that is not comparable is explained
/// in the same way.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno explain last                     Explain all comparisons of the last run
  iodyno explain last zfs randread        Only the candidate `zfs` in the row `randread`
  iodyno explain 5 --against 3            Explain run 5 against run 3
  iodyno explain 7 --metric read.mean --json")]
pub(crate) struct ExplainArgs {
    /// The run: a number, `last`, `last~1`, a name, or the beginning of an id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Explain only comparisons with these names: of configurations, workloads, or other values of columns and rows.
    #[arg(value_name = "CELL")]
    pub(crate) cells: Vec<String>,

    /// Explain the run against this one, the baseline.
    #[arg(long, value_name = "RUN")]
    pub(crate) against: Option<String>,

    /// Metric to explain [default: that of the comparison].
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,

    /// The value of the compared dimension that the others are compared with [default: the first].
    #[arg(long, value_name = "VALUE")]
    pub(crate) baseline: Option<String>,

    /// Output format.
    #[arg(long, value_enum, default_value_t = ExplainFormat::Text)]
    pub(crate) format: ExplainFormat,

    /// Print JSON; short for `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// Formats of `explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    /// Text for people.
    Text,
    /// JSON.
    Json,
}
