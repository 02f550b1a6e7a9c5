//! Pools, processes named by the user, and other processes with I/O.

use iodyno_model::{FigureRow, SeriesKind};

use super::choice::Choice;
use super::grid::{FigureColumn, Form, cells, table};
use super::history::Measure;
use super::section::Section;
use super::{Latest, WatchView, line};
use crate::style::{Paint, Style};

const POOL: &[FigureColumn] = &[
    ("alloc GiB", "alloc", Form::Gibibytes, 10, 1),
    ("free GiB", "free", Form::Gibibytes, 10, 1),
    ("r/s", "read/s", Form::Number, 8, 0),
    ("w/s", "write/s", Form::Number, 8, 0),
    ("rMiB/s", "read B/s", Form::Mebibytes, 8, 0),
    ("wMiB/s", "write B/s", Form::Mebibytes, 8, 0),
];

const PROCESS: &[FigureColumn] = &[
    ("cores", "cores", Form::Number, 7, 0),
    ("user %", "%user", Form::Number, 8, 1),
    ("system %", "%system", Form::Number, 9, 1),
    ("threads", "threads", Form::Number, 8, 2),
    ("MiB", "memory", Form::Mebibytes, 8, 2),
    ("rMiB/s", "rB/s", Form::Mebibytes, 8, 0),
    ("wMiB/s", "wB/s", Form::Mebibytes, 8, 0),
];

const OTHERS: &[FigureColumn] = &[
    ("rMiB/s", "rB/s", Form::Mebibytes, 8, 0),
    ("wMiB/s", "wB/s", Form::Mebibytes, 8, 0),
];

/// Width of names, columns.
const NAME: usize = 22;

/// Pools with their vdevs and devices.
pub(super) fn pools<'a>(
    view: &WatchView<'a>,
    style: Style,
    choice: &Choice,
) -> Option<Section<'a>> {
    let latest = view.latest(SeriesKind::Pool)?;
    let rows = latest.rows.iter().filter(|row| choice.shows(&row.subject));
    let name = |row: &FigureRow| indented(&row.subject, latest.rows);
    Some(list("pool", POOL, latest, rows.collect(), name, style))
}

/// The last part of a name such as `tank/mirror-0/sda`, indented by its level. Each preceding part has its own row. A
/// device can itself be a path.
fn indented(subject: &str, rows: &[FigureRow]) -> String {
    let above = |row: &&FigureRow| {
        let rest = subject.strip_prefix(row.subject.as_str());
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let depth = rows.iter().filter(above).count();
    let last = subject.rsplit('/').next().unwrap_or_default();
    " ".repeat(depth) + last
}

/// Processes named by the user.
pub(super) fn processes<'a>(
    view: &WatchView<'a>,
    style: Style,
    choice: &Choice,
) -> Option<Section<'a>> {
    let kind = SeriesKind::Process;
    let latest = view.latest(kind)?;
    let rows = choice.rows(view, (kind, Measure::Busy), latest.rows);
    let name = |row: &FigureRow| row.subject.clone();
    Some(list("process", PROCESS, latest, rows, name, style))
}

/// Other processes with I/O now or recently.
pub(super) fn others<'a>(
    view: &WatchView<'a>,
    style: Style,
    choice: &Choice,
) -> Option<Section<'a>> {
    let kind = SeriesKind::Others;
    let latest = view.latest(kind)?;
    let mut rows = choice.rows(view, (kind, Measure::Moved), latest.rows);
    rows.retain(|row| view.history.mean(kind, Measure::Moved, &row.subject) > 0.0);
    let name = |row: &FigureRow| row.subject.clone();
    (!rows.is_empty()).then(|| list("others' I/O", OTHERS, latest, rows, name, style))
}

fn list<'a>(
    title: &'static str,
    columns: &'static [FigureColumn],
    latest: Latest<'a>,
    rows: Vec<&'a FigureRow>,
    name: impl Fn(&FigureRow) -> String + 'a,
    style: Style,
) -> Section<'a> {
    Section::new(2, 1 + rows.len(), move |room| {
        let room = room.saturating_sub(1);
        let shown = match rows.len() <= room {
            true => rows.len(),
            false => room.saturating_sub(1).max(1),
        };
        let mut table = table(title, NAME, columns);
        for row in rows.iter().take(shown) {
            table.row(cells(&latest, row, &name(row), columns));
        }
        if shown < rows.len() && shown < room {
            let more = format!("{} more", rows.len() - shown);
            table.text(more, 0, Paint::Dim);
        }
        table.lines(line::columns(style), style)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_a_pool_are_indented_by_their_level() {
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
