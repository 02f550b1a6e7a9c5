//! The host as a whole: load, pressure, memory, reclaim, the ARC; one line each.

use iodyno_model::{FigureRow, SeriesKind};
use iodyno_units::Bytes;

use super::grid::{Form, drawn};
use super::history::Measure;
use super::line::{LineBuilder, columns, level, share};
use super::section::Section;
use super::{Latest, WatchView};
use crate::clock;
use crate::style::{Paint, Style, width};

/// Width of the label at the beginning of a line, columns.
const LABEL: usize = 10;

/// Host, load, time of day.
pub(super) fn head(view: &WatchView, style: Style) -> String {
    let mut line = LineBuilder::new(style).paint(Some(Paint::Strong), view.host);
    if !view.kernel.is_empty() {
        line = line.paint(Some(Paint::Dim), &format!("  {}", view.kernel));
    }
    if let Some((latest, row)) = only(view, SeriesKind::Load) {
        let value = |column| latest.value(row, column);
        let loads = ["load1", "load5", "load15"].map(|column| match value(column) {
            Some(load) => format!("{load:>5.2}"),
            None => "-".to_owned(),
        });
        line = line.paint(Some(Paint::Dim), "  load");
        line = line.push(&format!(" {}", loads.join(" ")));
        let count = |column| drawn(Form::Number, value(column));
        let tasks = format!("  {} of {} tasks run", count("running"), count("tasks"));
        line = line.push(&tasks);
    }
    let seconds = view.every_ns as f64 / 1e9;
    let time = clock::second(view.unix_ms, view.utc_offset_s);
    let with_pace = format!("{time}  every {seconds} s");
    match line.free() >= width(&with_pace) + 2 {
        true => line.at_end(&with_pace).done(),
        false => line.at_end(&time).done(),
    }
}

/// The row of a series of the host as a whole.
fn only<'a>(view: &WatchView<'a>, kind: SeriesKind) -> Option<(Latest<'a>, &'a FigureRow)> {
    let latest = view.latest(kind)?;
    Some((latest, latest.rows.first()?))
}

fn label(name: &str, style: Style) -> LineBuilder {
    LineBuilder::new(style).paint(Some(Paint::Strong), &format!("{name:LABEL$}"))
}

fn one_line<'a>(line: LineBuilder) -> Option<Section<'a>> {
    let line = line.done();
    Some(Section::new(1, 1, move |_| vec![line.clone()]))
}

/// Some and all tasks stalled, in percent, by resource.
pub(super) fn pressure<'a>(view: &WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let latest = view.latest(SeriesKind::Pressure)?;
    let mut line = label("pressure", style);
    let room = columns(style) - LABEL;
    let name = latest.rows.iter().map(|row| width(&row.subject)).max();
    let name = name.unwrap_or(0) + 1;
    // If there is no space for both, `some` is shown.
    let full = room / latest.rows.len().max(1) >= name + 20;
    for row in latest.rows {
        let all = latest.value(row, "full");
        // For interrupts the kernel reports only `full`.
        let some = latest.value(row, "some").or(all);
        line = line.paint(Some(Paint::Dim), &format!("{:name$}", row.subject));
        line = line.right(level(some), &share(some), 5).push(" %");
        line = match full {
            true => line.push(&format!("{:10}", format!(" ({})", share(all)))),
            false => line.push("   "),
        };
    }
    one_line(line)
}

/// Free memory, and memory that waits to be written.
pub(super) fn memory<'a>(view: &WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let (latest, row) = only(view, SeriesKind::Memory)?;
    let amounts = amounts(
        label("memory", style),
        &latest,
        row,
        &[
            ("available", "available"),
            ("dirty", "dirty"),
            ("writeback", "writeback"),
            ("cached", "cached"),
            ("swap", "swap_used"),
            ("free", "free"),
        ],
    );
    one_line(amounts)
}

/// Labels and amounts, as many as fit completely.
fn amounts(
    mut line: LineBuilder,
    latest: &Latest,
    row: &FigureRow,
    columns: &[(&str, &str)],
) -> LineBuilder {
    for (word, column) in columns {
        if width(word) + 9 > line.free() {
            break;
        }
        let amount = match latest.value(row, column) {
            Some(bytes) => Bytes(bytes.max(0.0) as u64).to_string(),
            None => "-".to_owned(),
        };
        line = line.paint(Some(Paint::Dim), word);
        line = line.right(None, &amount, 9).push("  ");
    }
    line
}

/// Reclaim; only if memory is or recently was scarce.
pub(super) fn reclaim<'a>(view: &WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let (latest, row) = only(view, SeriesKind::Reclaim)?;
    if view
        .history
        .mean(SeriesKind::Reclaim, Measure::Moved, &row.subject)
        <= 0.0
    {
        return None;
    }
    let mut line = label("reclaim", style);
    for (word, figures) in [
        ("scanned", &["scanned_kswapd", "scanned_direct"][..]),
        ("direct", &["scanned_direct"]),
        ("swap in", &["swapped_in"]),
        ("out", &["swapped_out"]),
    ] {
        let rate = drawn(Form::Mebibytes, latest.sum(row, figures));
        line = line.paint(Some(Paint::Dim), word);
        line = line.right(None, &rate, 6).push(" MiB/s  ");
    }
    one_line(line)
}

/// ZFS's cache.
pub(super) fn arc<'a>(view: &WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let (latest, row) = only(view, SeriesKind::Arc)?;
    let count = |column| drawn(Form::Number, latest.value(row, column));
    let mut line = label("arc", style);
    for (word, text) in [
        ("hits", count("hits/s") + "/s"),
        ("misses", count("misses/s") + "/s"),
        ("hit", share(latest.value(row, "hit%")) + " %"),
    ] {
        line = line.paint(Some(Paint::Dim), word);
        line = line.right(None, &text, 9).push("  ");
    }
    let columns = [("size", "size"), ("target", "target")];
    one_line(amounts(line, &latest, row, &columns))
}
