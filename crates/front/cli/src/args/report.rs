//! Arguments of `iodyno report` and `iodyno plot`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use iodyno_report::figure::Kind;

/// Formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// A page with figures that needs no network.
    Html,
    /// Text and tables in GitHub's Markdown.
    Markdown,
    /// Text and tables in AsciiDoc.
    Asciidoc,
}

/// Write a report of one or several runs.
///
/// The page shows the verdicts, every trial, the latencies, throughput and telemetry of representative trials, the
/// environment and the plan. It is a single file and needs no network.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno report last
  iodyno report last -o report.html
  iodyno report before after -o report.html
  iodyno report last --format markdown
  iodyno report 3 5 --table mine.toml")]
pub(crate) struct ReportArgs {
    /// Runs: numbers, ranges such as `3-7`, `last`, `last~1`, names, or beginnings of ids.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,

    /// Add a table in the layout of a TOML file with the keys of `[table]` [default: that of the runs' experiment].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) table: Option<PathBuf>,

    /// Format.
    #[arg(long, value_enum, default_value_t = ReportFormat::Html)]
    pub(crate) format: ReportFormat,

    /// File to write; it must not exist [default: standard output; for a page on a terminal, a new file in the current
    /// folder].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Draw one figure of a run as SVG or PNG.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  iodyno plot last verdicts -o verdicts.svg
  iodyno plot 3 heatmap --trial 2 -o heatmap.png")]
pub(crate) struct PlotArgs {
    /// The run: a number, `last`, `last~1`, its name, or the beginning of an id.
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// What to draw: `verdicts`, `trials`, `latency`, `heatmap`, `series`, `telemetry`, `curve` or `history`.
    #[arg(value_name = "KIND", value_parser = figure_kind)]
    pub(crate) kind: Kind,

    /// Draw the N-th trial, in the order in which `show` lists them [default: the one whose result is the median].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) trial: Option<u32>,

    /// File to write, with the ending `.svg` or `.png`; it must not exist.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
}

fn figure_kind(text: &str) -> Result<Kind, String> {
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| kind.name() == text.trim());
    kind.ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name);
        format!("the kinds are {}", names.join(", "))
    })
}
