//! Runs as `iodyno list` shows them.

use iodyno_units::Nanos;

use crate::clock;
use crate::style::{Paint, Style, cut, harmless, left, right, trimmed, width};

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunRow {
    /// The short name: `41`.
    pub alias: String,
    /// Wall clock at its start, ms since 1970.
    pub started_unix_ms: u64,
    /// The local time's offset then, seconds east of Greenwich.
    pub utc_offset_s: i32,
    /// How long it took or has taken, ns.
    pub span_ns: u64,
    /// `completed`, `interrupted`, `failed`, `running`.
    pub state: String,
    /// Trials completed.
    pub trials_done: u32,
    /// Trials planned.
    pub trials_planned: u32,
    /// Its name.
    pub name: String,
    /// Its configurations' names.
    pub configurations: Vec<String>,
    /// The figure to remember it by: `read 138.4k IOPS p99 1.19 ms`.
    pub headline: String,
}

const HEADINGS: [&str; 7] = [
    "run", "started", "took", "state", "trials", "name", "result",
];

/// A table of runs, in the order given.
pub fn list(rows: &[RunRow], style: Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cells: Vec<[String; 7]> = rows.iter().map(cells).collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let cells = cells.iter().map(|row| width(&row[column]));
        cells.max().unwrap_or(0).max(width(HEADINGS[column]))
    });
    let line = |row: [&str; 7]| {
        let padded: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(column, cell)| match column {
                0 | 2 | 4 => right(cell, widths[column]),
                _ => left(cell, widths[column]),
            })
            .collect();
        let line = padded.join("  ");
        let line = line.trim_end();
        match width(line) <= style.columns() {
            true => line.to_owned(),
            false => {
                let end = if style.unicode { '…' } else { '>' };
                format!("{}{end}", cut(line, style.columns() - 1))
            }
        }
    };
    let mut text = style.paint(Paint::Dim, line(HEADINGS).trim_end()) + "\n";
    for (row, cells) in rows.iter().zip(&cells) {
        let line = line(cells.each_ref().map(String::as_str));
        let line = line.trim_end();
        text += &match row.state.as_str() {
            "failed" | "refused" => style.paint(Paint::Red, line),
            "interrupted" => style.paint(Paint::Yellow, line),
            _ => line.to_owned(),
        };
        text += "\n";
    }
    style.plain(&trimmed(&text))
}

fn cells(row: &RunRow) -> [String; 7] {
    let name = match row.configurations.as_slice() {
        [] => row.name.clone(),
        [one] if one == "default" => row.name.clone(),
        several => format!("{} on {}", row.name, several.join(", ")),
    };
    [
        row.alias.clone(),
        clock::minute(row.started_unix_ms, row.utc_offset_s),
        match row.span_ns {
            0 => "-".to_owned(),
            span => Nanos(span).to_string(),
        },
        row.state.clone(),
        format!("{}/{}", row.trials_done, row.trials_planned),
        name,
        row.headline.clone(),
    ]
    .map(|cell| harmless(&cell))
}
