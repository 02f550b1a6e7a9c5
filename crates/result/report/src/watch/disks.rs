//! Disks.

use iodyno_model::{FigureRow, SeriesKind};

use super::choice::{Choice, Sort};
use super::grid::{FigureColumn, Form, cells, table};
use super::history::Measure;
use super::line::columns;
use super::section::Section;
use super::{Latest, WatchView};
use crate::spark;
use crate::style::{Paint, Style};
use crate::table::{Cell, Column};

/// The columns of iostat.
const COLUMNS: &[FigureColumn] = &[
    ("r/s", "r/s", Form::Number, 8, 0),
    ("w/s", "w/s", Form::Number, 8, 0),
    ("f/s", "f/s", Form::Number, 8, 1),
    ("rMiB/s", "rB/s", Form::Mebibytes, 8, 0),
    ("wMiB/s", "wB/s", Form::Mebibytes, 8, 0),
    ("rKiB", "rareq-sz", Form::Kibibytes, 7, 2),
    ("wKiB", "wareq-sz", Form::Kibibytes, 7, 2),
    ("r ms", "r_await", Form::Millis, 8, 3),
    ("w ms", "w_await", Form::Millis, 8, 3),
    ("queue", "aqu-sz", Form::Number, 7, 4),
    ("util %", "%util", Form::Share, 7, 0),
];

/// Width of names, columns.
const NAME: usize = 10;

/// The smallest remaining width at which the history of utilisation is shown, columns.
const MIN_HISTORY: usize = 22;

/// A line for each disk; disks without a line are counted.
pub(super) fn section<'a>(
    view: &'a WatchView<'a>,
    style: Style,
    choice: &Choice,
) -> Option<Section<'a>> {
    let latest = view.latest(SeriesKind::Disk)?;
    let rows = choice.rows(view, (SeriesKind::Disk, Measure::Busy), latest.rows);
    let (most, sort) = (1 + rows.len(), choice.sort);
    Some(Section::new(2, most, move |room| {
        draw(view, &latest, &rows, sort, style, room)
    }))
}

fn draw(
    view: &WatchView,
    latest: &Latest,
    rows: &[&FigureRow],
    sort: Sort,
    style: Style,
    room: usize,
) -> Vec<String> {
    let all = rows.len();
    let shown = match room.saturating_sub(1) {
        room if rows.len() <= room => rows.len(),
        // The last line is for the number of the other disks.
        room => room.saturating_sub(1).max(1),
    };
    let rows = &rows[..shown.min(rows.len())];
    let mut table = table("disk", NAME, COLUMNS);
    for row in rows {
        table.row(cells(latest, row, &row.subject, COLUMNS));
    }
    let free = table.free(columns(style), style);
    if free >= MIN_HISTORY {
        let history = (free - 2).min(60);
        let track = |row: &&FigureRow| {
            let (kind, measure) = (SeriesKind::Disk, Measure::Busy);
            let seen = view.history.track(kind, measure, &row.subject, history);
            Cell::painted(spark::scaled(&seen, 100.0, style), Paint::Dim)
        };
        table.add_column(
            Column::right("").at_least(history + 1),
            rows.iter().map(track),
        );
    }
    if shown < all && shown + 1 < room {
        let more = all - shown;
        let disks = if more == 1 { "disk" } else { "disks" };
        let which = match sort {
            Sort::Busiest => ", less busy",
            Sort::Bytes | Sort::Name => "",
        };
        table.text(format!("{more} more {disks}{which}"), 0, Paint::Dim);
    }
    table.lines(columns(style), style)
}
