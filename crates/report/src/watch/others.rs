//! Pools, processes that were named, and processes with I/O of their own.

use iodyno_model::{FigureRow, SeriesKind};

use super::grid::{Column, Form, Grid, column};
use super::history::Measure;
use super::screen::Section;
use super::{Latest, WatchView};
use crate::style::{Paint, Style};

const POOL: &[Column] = &[
    column("alloc GiB", "alloc", Form::Gibibytes, 10, 1),
    column("free GiB", "free", Form::Gibibytes, 10, 1),
    column("r/s", "read/s", Form::Number, 8, 0),
    column("w/s", "write/s", Form::Number, 8, 0),
    column("rMiB/s", "read B/s", Form::Mebibytes, 8, 0),
    column("wMiB/s", "write B/s", Form::Mebibytes, 8, 0),
];

const PROCESS: &[Column] = &[
    column("cores", "cores", Form::Number, 7, 0),
    column("user %", "%user", Form::Number, 8, 2),
    column("system %", "%system", Form::Number, 9, 2),
    column("threads", "threads", Form::Number, 8, 1),
    column("MiB", "memory", Form::Mebibytes, 8, 1),
    column("rMiB/s", "rB/s", Form::Mebibytes, 8, 0),
    column("wMiB/s", "wB/s", Form::Mebibytes, 8, 0),
];

const OTHERS: &[Column] = &[
    column("rMiB/s", "rB/s", Form::Mebibytes, 8, 0),
    column("wMiB/s", "wB/s", Form::Mebibytes, 8, 0),
];

/// Columns of names.
const NAME: usize = 22;

/// Pools with what they are made of.
pub(super) fn pools<'a>(view: &WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let latest = view.latest(SeriesKind::Pool)?;
    let grid = Grid::new("pool", NAME, POOL, style);
    let rows = latest.rows;
    Some(list(grid, latest, rows.iter().collect(), |row| {
        indented(&row.subject, rows)
    }))
}

/// Of `tank/mirror-0/sda` the last part, as deep as it lies: below a row for each part before. A device may be a path
/// itself.
fn indented(subject: &str, rows: &[FigureRow]) -> String {
    let above = |row: &&FigureRow| {
        let rest = subject.strip_prefix(row.subject.as_str());
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let depth = rows.iter().filter(above).count();
    let last = subject.rsplit('/').next().unwrap_or_default();
    " ".repeat(depth) + last
}

/// Processes that were named.
pub(super) fn processes<'a>(view: &WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let latest = view.latest(SeriesKind::Process)?;
    let grid = Grid::new("process", NAME, PROCESS, style);
    let rows = by_track(view, &latest, Measure::Busy);
    Some(list(grid, latest, rows, |row| row.subject.clone()))
}

/// Processes with I/O of their own, now or lately.
pub(super) fn others<'a>(view: &WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let latest = view.latest(SeriesKind::Others)?;
    let moved = |row: &&FigureRow| {
        let kind = SeriesKind::Others;
        view.history.mean(kind, Measure::Moved, &row.subject) > 0.0
    };
    let mut rows = by_track(view, &latest, Measure::Moved);
    rows.retain(moved);
    let grid = Grid::new("others' I/O", NAME, OTHERS, style);
    (!rows.is_empty()).then(|| list(grid, latest, rows, |row| row.subject.clone()))
}

/// Rows by what their subjects did in the last while, most first.
fn by_track<'a>(view: &WatchView, latest: &Latest<'a>, measure: Measure) -> Vec<&'a FigureRow> {
    let kind = latest.table.kind;
    let mut rows: Vec<&FigureRow> = latest.rows.iter().collect();
    let mean = |row: &FigureRow| view.history.mean(kind, measure, &row.subject);
    rows.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    rows
}

fn list<'a>(
    grid: Grid,
    latest: Latest<'a>,
    rows: Vec<&'a FigureRow>,
    name: impl Fn(&FigureRow) -> String + 'a,
) -> Section<'a> {
    Section::new(2, 1 + rows.len(), move |room| {
        let mut lines = vec![grid.head()];
        let room = room.saturating_sub(1);
        let shown = if rows.len() <= room {
            rows.len()
        } else {
            room.saturating_sub(1).max(1)
        };
        let drawn = rows.iter().take(shown);
        lines.extend(drawn.map(|row| grid.row(&latest, row, &name(row)).done()));
        if shown < rows.len() && shown < room {
            let more = format!("{} more", rows.len() - shown);
            lines.push(grid.style().paint(Paint::Dim, &more));
        }
        lines
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_a_pool_are_indented_by_what_they_lie_in() {
        let subjects = [
            "tank",
            "tank/mirror-0",
            "tank/mirror-0//data/a.img",
            "tank//data/c.img",
            "tanker",
        ];
        let rows = subjects.map(|subject| FigureRow {
            at_ns: 0,
            span_ns: 1,
            subject: subject.to_owned(),
            values: Vec::new(),
        });
        let names = subjects.map(|subject| indented(subject, &rows));
        assert_eq!(names, ["tank", " mirror-0", "  a.img", " c.img", "tanker"]);
    }
}
