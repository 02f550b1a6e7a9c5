//! Interrupts: their distribution over the CPUs, and those of storage devices.

use iodyno_model::{FigureRow, SeriesKind};

use super::grid::{Form, drawn};
use super::line::{LineBuilder, columns, share};
use super::section::Section;
use super::{Latest, WatchView};
use crate::spark;
use crate::style::{Paint, Style, width};

/// Width of the label at the beginning of a line, columns.
const LABEL: usize = 11;

/// The total, the rates of the CPUs, and the busiest interrupt source of a storage device.
pub(super) fn section<'a>(view: &'a WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let latest = view.latest(SeriesKind::Interrupts)?;
    let all = latest.row("all")?;
    let mut lines = vec![whole(&latest, all, style), by_cpu(&latest, all, style)];
    let serving = view.sources.iter().any(|source| source.serves.is_some());
    // The line exists even without such an interrupt, so that the other lines keep their positions.
    if serving {
        lines.push(of_storage(view, &latest, style));
    }
    let most = lines.len();
    Some(Section::new(1, most, move |room| {
        lines.iter().take(room).cloned().collect()
    }))
}

fn whole(latest: &Latest, all: &FigureRow, style: Style) -> String {
    let label = format!("{:LABEL$}", "interrupts");
    let line = LineBuilder::new(style).paint(Some(Paint::Strong), &label);
    summary(line, latest, all).done()
}

/// `12.3k/s  balance 0.54  88.0 % on CPU1`.
fn summary(line: LineBuilder, latest: &Latest, row: &FigureRow) -> LineBuilder {
    let rate = drawn(Form::Number, latest.value(row, "total/s"));
    let line = line.right(None, &rate, 8).push("/s");
    let balance = latest.value(row, "balance");
    let balance = balance.map_or("-".to_owned(), |balance| format!("{balance:.2}"));
    let line = line.paint(Some(Paint::Dim), "  balance ");
    let line = line.right(None, &balance, 4).push("  ");
    let line = line.right(None, &share(latest.value(row, "%busiest")), 5);
    let busiest = latest.value(row, "busiest");
    let busiest = busiest.map_or(String::new(), |cpu| format!("CPU{cpu:.0}"));
    line.push(" %")
        .paint(Some(Paint::Dim), " on ")
        .left(&busiest, 6)
}

/// The rates of the CPUs: as numbers if they fit, otherwise as a spark line.
fn by_cpu(latest: &Latest, all: &FigureRow, style: Style) -> String {
    let cpus = latest.table.columns.iter().zip(&all.values);
    let cpus: Vec<(&str, Option<f64>)> = cpus
        .filter(|(column, _)| column.name.starts_with("CPU"))
        .map(|(column, value)| (column.name.as_str(), *value))
        .collect();
    let line = LineBuilder::new(style).paint(Some(Paint::Dim), &format!("{:LABEL$}", "by CPU"));
    let largest = cpus
        .iter()
        .filter_map(|(_, value)| *value)
        .fold(0.0, f64::max);
    let values: Vec<Option<f64>> = cpus.iter().map(|(_, value)| *value).collect();
    let room = columns(style) - LABEL;
    let cell = cpus.iter().map(|(name, _)| width(name)).max().unwrap_or(0) + 12;
    if cpus.len() * cell <= room {
        let cells = cpus.iter().fold(line, |line, (name, value)| {
            let line = line.push(&spark::scaled(&[*value], largest, style));
            let line = line.paint(Some(Paint::Dim), &format!(" {name}"));
            let rate = format!("{}/s", drawn(Form::Number, *value));
            line.left(&format!(" {rate}"), cell - width(name) - 2)
        });
        return cells.done();
    }
    // If there are more CPUs than columns, neighbours share a column, which shows the busiest of them.
    let together = values.len().div_ceil(room.max(1)).max(1);
    let heights: Vec<Option<f64>> = values
        .chunks(together)
        .map(|chunk| chunk.iter().flatten().copied().reduce(f64::max))
        .collect();
    line.push(&spark::scaled(&heights, largest, style)).done()
}

fn of_storage(view: &WatchView, latest: &Latest, style: Style) -> String {
    let line = LineBuilder::new(style).paint(Some(Paint::Dim), &format!("{:LABEL$}", "of storage"));
    let serving = |row: &&FigureRow| {
        let mut sources = view.sources.iter();
        let found = sources.find(|source| source.name == row.subject)?;
        found.serves.as_deref()
    };
    let rate = |row: &FigureRow| latest.value(row, "total/s").unwrap_or(0.0);
    let storage = latest.rows.iter().filter(|row| serving(row).is_some());
    let busiest = storage.max_by(|a, b| rate(a).total_cmp(&rate(b)));
    match busiest.filter(|row| rate(row) > 0.0) {
        None => line.push("       0/s").done(),
        Some(row) => {
            let device = serving(&row).unwrap_or_default();
            let line = summary(line, latest, row).push("  ");
            let room = line.free();
            line.left(&named(&row.subject, device), room).done()
        }
    }
}

fn named(source: &str, device: &str) -> String {
    match source.contains(device) {
        true => source.to_owned(),
        false => format!("{device}: {source}"),
    }
}
