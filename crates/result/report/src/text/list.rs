//! The runs of a store, for `iodyno list`.

use iodyno_units::Nanos;

use crate::clock;
use crate::style::{Paint, Style};
use crate::table::{Column, Table};

/// A row of the list: one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunRow {
    /// The short name: `41`.
    pub alias: String,
    /// Wall clock at the start, ms since 1970.
    pub started_unix_ms: u64,
    /// The local time's offset then, seconds east of Greenwich.
    pub utc_offset_s: i32,
    /// Duration of the run, or the duration so far, ns.
    pub span_ns: u64,
    /// `completed`, `interrupted`, `failed`, `running`, `damaged`.
    pub state: String,
    /// Trials completed.
    pub trials_done: u32,
    /// Trials planned.
    pub trials_planned: u32,
    /// Its name.
    pub name: String,
    /// Its difference from other runs of its name: `bs=64k`.
    pub apart: String,
    /// Its main figure: `read 138.4k IOPS p99 1.19 ms`.
    pub headline: String,
}

/// A table of runs, in the order given; empty without runs.
pub fn list(rows: &[RunRow], style: Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let apart = rows.iter().any(|row| !row.apart.is_empty());
    let head = [
        Column::right("run"),
        Column::left("started"),
        Column::right("took").drop(1),
        Column::left("state"),
        Column::right("trials").drop(2),
        Column::left("name").end(10),
    ];
    let apart = apart.then(|| Column::left("differs in").middle(14).narrowed_last());
    let result = Column::left("result").end(12).narrowed_last();
    let with_apart = apart.is_some();
    let mut table = Table::new(head.into_iter().chain(apart).chain([result]));
    for row in rows {
        let paint = match row.state.as_str() {
            "failed" | "refused" | "damaged" => Some(Paint::Red),
            "interrupted" => Some(Paint::Yellow),
            _ => None,
        };
        table.painted_row(cells(row, with_apart), paint);
    }
    table.draw(style.columns(), style)
}

fn cells(row: &RunRow, with_apart: bool) -> Vec<String> {
    let mut cells = vec![
        row.alias.clone(),
        clock::minute(row.started_unix_ms, row.utc_offset_s),
        match row.span_ns {
            0 => "-".to_owned(),
            span => Nanos(span).to_string(),
        },
        row.state.clone(),
        format!("{}/{}", row.trials_done, row.trials_planned),
        row.name.clone(),
    ];
    cells.extend(with_apart.then(|| row.apart.clone()));
    cells.push(row.headline.clone());
    cells
}
