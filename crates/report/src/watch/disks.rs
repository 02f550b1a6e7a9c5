//! Disks, the busiest first.

use iodyno_model::{FigureRow, SeriesKind};

use super::grid::{Column, Form, Grid, column};
use super::history::Measure;
use super::screen::Section;
use super::{Latest, WatchView};
use crate::spark;
use crate::style::{Paint, Style, right};

/// As iostat has them.
const COLUMNS: &[Column] = &[
    column("r/s", "r/s", Form::Number, 8, 0),
    column("w/s", "w/s", Form::Number, 8, 0),
    column("f/s", "f/s", Form::Number, 8, 5),
    column("rMiB/s", "rB/s", Form::Mebibytes, 8, 0),
    column("wMiB/s", "wB/s", Form::Mebibytes, 8, 0),
    column("rKiB", "rareq-sz", Form::Kibibytes, 7, 4),
    column("wKiB", "wareq-sz", Form::Kibibytes, 7, 4),
    column("r ms", "r_await", Form::Millis, 8, 2),
    column("w ms", "w_await", Form::Millis, 8, 2),
    column("queue", "aqu-sz", Form::Number, 7, 1),
    column("util %", "%util", Form::Share, 7, 0),
];

/// Columns of names.
const NAME: usize = 10;

/// With this many left, the last pictures' utilisation stands beside.
const LEAST_HISTORY: usize = 22;

/// A line for each disk; what there is no room for is counted.
pub(super) fn section<'a>(view: &'a WatchView<'a>, style: Style) -> Option<Section<'a>> {
    let latest = view.latest(SeriesKind::Disk)?;
    let mut rows: Vec<&FigureRow> = latest.rows.iter().collect();
    let busy = |row: &FigureRow| {
        view.history
            .mean(SeriesKind::Disk, Measure::Busy, &row.subject)
    };
    // A stable sort: equals stand as the host has them.
    rows.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
    let most = 1 + rows.len();
    Some(Section::new(2, most, move |room| {
        draw(view, &latest, &rows, style, room)
    }))
}

fn draw(
    view: &WatchView,
    latest: &Latest,
    rows: &[&FigureRow],
    style: Style,
    room: usize,
) -> Vec<String> {
    let grid = Grid::new("disk", NAME, COLUMNS, style);
    let history = match grid.free() {
        free @ LEAST_HISTORY.. => (free - 2).min(60),
        _ => 0,
    };
    let mut lines = vec![grid.head()];
    let shown = match room.saturating_sub(1) {
        room if rows.len() <= room => rows.len(),
        // The last line counts the others.
        room => room.saturating_sub(1).max(1),
    };
    for row in &rows[..shown.min(rows.len())] {
        let line = grid.row(latest, row, &row.subject);
        let seen = view
            .history
            .track(SeriesKind::Disk, Measure::Busy, &row.subject, history);
        let drawn = right(&spark::scaled(&seen, 100.0, style), history);
        let line = match history {
            0 => line,
            _ => line.push("  ").paint(Some(Paint::Dim), &drawn),
        };
        lines.push(line.done());
    }
    if shown < rows.len() && lines.len() < room {
        let more = rows.len() - shown;
        let disks = if more == 1 { "disk" } else { "disks" };
        lines.push(style.paint(Paint::Dim, &format!("{more} more {disks}, less busy")));
    }
    lines
}
