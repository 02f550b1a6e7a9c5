//! The flags of what works with stored results.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use iodyno_model::SeriesKind;
use iodyno_units::Nanos;

use super::Percent;

/// List the runs in the store, newest last.
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

/// How a stored run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables for people.
    Text,
    /// Everything measured, as JSON.
    Json,
    /// fio's JSON, with our additions beside it.
    FioJson,
    /// fio's JSON with every histogram's bins.
    #[value(name = "fio-json+")]
    FioJsonPlus,
    /// fio's text.
    FioNormal,
    /// fio's terse lines, version 3.
    Terse,
    /// Lines of values; only of series.
    Csv,
}

/// Show a stored run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno show last                        The newest run
  iodyno show last~1                      The one before it
  iodyno show 3 --format fio-json         Run 3 as fio would print it
  iodyno show 3 --series disk --every 30s What the disks did meanwhile, as iostat would print it
  iodyno show 3 --series interrupts,cpu --trial 2 --format csv")]
pub(crate) struct ShowArgs {
    /// The run: its number, `last`, `last~1`, or the beginning of its id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Print JSON; short for `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// The form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// What the host did meanwhile: `cpu`, `interrupts`, `load`, `disk`, `pressure`, `memory`, `reclaim`, `pool`,
    /// `arc`, `cgroup`, `process`, `others`; several after commas; `all`.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = series)]
    pub(crate) series: Vec<Option<SeriesKind>>,

    /// Put the samples of each stretch of this length together: `30s`. Without it, text shows each sample of a short trial, and at most some
    /// 600 times of a long one.
    #[arg(long, value_name = "TIME", requires = "series")]
    pub(crate) every: Option<Nanos>,

    /// Show only the N-th trial, in the order in which the run shows them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) trial: Option<u32>,

    /// With `--format csv`: what was read of the host, instead of the rates that follow from it.
    #[arg(long, requires = "series")]
    pub(crate) raw: bool,
}

/// A kind of series; `None`: all of them.
fn series(text: &str) -> Result<Option<SeriesKind>, String> {
    let text = text.trim();
    if text == "all" {
        return Ok(None);
    }
    let kind = SeriesKind::ALL.into_iter().find(|kind| kind.name() == text);
    kind.map(Some).ok_or_else(|| {
        let names: Vec<&str> = SeriesKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("there are {} and all", names.join(", "))
    })
}

/// Write one run, with everything measured, into one file.
///
/// Without `--output` it goes to standard output. `iodyno import` reads it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno export last -o result.iodyno
  iodyno export 3 | ssh other iodyno import -")]
pub(crate) struct ExportArgs {
    /// The run: its number, `last`, `last~1`, or the beginning of its id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// The file to write; it must not exist yet.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Read results into the store: an exported run, or what other tools printed.
///
/// An exported run keeps its id; importing it twice changes nothing. Anything else becomes one new
/// run: fio's JSON and terse output, sysbench fileio, file-operation tables and `Benchmark…` lines,
/// `zpool iostat`, /proc/interrupts, and plain tables, wherever they stand in a text. What looks
/// like a result and cannot be read is told, with its line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno import result.iodyno             A run that `iodyno export` wrote
  iodyno import write-up.txt              Whatever results stand in a text
  iodyno import results/*/*.json --label '{config}/{job}.{loop}.json'
                                          Configuration, workload and repetition from the path
  iodyno import table.md --table 'config=head1, workload=row+head2, unit=head3'
                                          A plain table: which part of it says what")]
pub(crate) struct ImportArgs {
    /// The files; `-` is standard input.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,

    /// What the files' paths say: `{config}`, `{job}`, `{loop}` and further names of your own.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) label: Option<String>,

    /// What the parts of a plain table say.
    #[arg(long, value_name = "MAP")]
    pub(crate) table: Option<String>,

    /// Name the run, for lists.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print what is read, and store nothing.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Print what is read as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The form of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Tables for people.
    Text,
    /// A Markdown table.
    Markdown,
    /// An AsciiDoc table.
    Asciidoc,
    /// A line for each cell.
    Csv,
    /// Everything, as JSON.
    Json,
    /// Go's benchmark format, a line for each trial: what benchstat reads.
    Benchstat,
}

/// What makes a comparison fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Anything SLOWER: exit code 1. Undecided: 5.
    Regression,
}

/// Say which is better, by how much, and how surely.
///
/// Of one run, its configurations are compared with the baseline (on one target its workloads); of
/// several runs, their configurations or workloads where they share none, otherwise the runs, with
/// the first. The trials of one run are compared round by round, all others unpaired. Every ratio is
/// one of speed: above 1 the candidate is better, whichever way the metric counts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno compare last                     The verdict of the last run
  iodyno compare 3 5                      Run 5 against run 3
  iodyno compare 7 --cols configuration --rows workload,bs --where rw=randread
  iodyno compare 7 --metric read.p99 --format markdown
  iodyno compare before after --fail-on regression
                                          For CI: 0 no regression, 1 regression, 5 undecided
  iodyno compare 7 --format benchstat > 7.txt; benchstat -col config 7.txt")]
pub(crate) struct CompareArgs {
    /// The runs: numbers, `last`, `last~1`, beginnings of ids, or names.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,

    /// Compare the values of this dimension: `configuration`, `workload`, `run`, `engine`, `bs`, …
    #[arg(long, value_name = "DIMENSION")]
    pub(crate) cols: Option<String>,

    /// A row for each value of these dimensions. Several workloads in one row are a family and share
    /// one ratio, the geometric mean of theirs.
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',')]
    pub(crate) rows: Vec<String>,

    /// Only trials whose dimension has this value; repeat for alternatives or further dimensions.
    #[arg(long = "where", value_name = "DIMENSION=VALUE")]
    pub(crate) only: Vec<String>,

    /// Judge by this metric instead of each workload's own: `iops`, `read.p99`, `completion`, …
    /// Further ones, after commas, are exploratory; `all` is every one there is.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) metric: Vec<String>,

    /// Differences up to this are not worth having [default: the run's, 3%].
    #[arg(long, value_name = "PERCENT")]
    pub(crate) margin: Option<Percent>,

    /// Compare with this value of the columns instead of the first.
    #[arg(long, value_name = "VALUE")]
    pub(crate) baseline: Option<String>,

    /// A difference in this fact is what is studied: `kernel`, `mount options`, `duration`, …
    #[arg(long, value_name = "FACT", value_delimiter = ',')]
    pub(crate) axis: Vec<String>,

    /// Rows in which no difference can be: what they differ by is the noise floor.
    #[arg(long, value_name = "DIMENSION=VALUE")]
    pub(crate) floor: Vec<String>,

    /// The form of the output.
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub(crate) format: CompareFormat,

    /// Print JSON; short for `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Exit with 1 if any comparison is SLOWER, with 5 if one is undecided.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(crate) fail_on: Option<FailOn>,
}
