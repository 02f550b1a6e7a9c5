//! Which rows are shown, and in which order.

use iodyno_model::{FigureRow, SeriesKind};

use super::WatchView;
use super::history::Measure;

/// The order of disks and processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    /// By utilisation or CPU time, for processes without it by bytes; most first.
    #[default]
    Busiest,
    /// By bytes read and written, most first.
    Bytes,
    /// By name, numbers in it by their value.
    Name,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Busiest => "busiest",
            Sort::Bytes => "bytes",
            Sort::Name => "name",
        }
    }

    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Busiest => Sort::Bytes,
            Sort::Bytes => Sort::Name,
            Sort::Name => Sort::Busiest,
        }
    }
}

/// The user's choice of rows and order. The default is everything, the busiest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Choice {
    pub(super) sort: Sort,
    /// Part of the names of rows that are shown.
    pub(super) filter: String,
    /// Loop devices without I/O in the last while are left out.
    pub(super) hides_idle: bool,
}

impl Choice {
    /// Whether to show a row with this name.
    pub(super) fn shows(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// The rows of a series to show, in their order. `busy`: the columns that measure activity in this series.
    pub(super) fn rows<'a>(
        &self,
        view: &WatchView,
        (kind, busy): (SeriesKind, Measure),
        rows: &'a [FigureRow],
    ) -> Vec<&'a FigureRow> {
        let mean = |measure| move |row: &FigureRow| view.history.mean(kind, measure, &row.subject);
        let rows = rows.iter().filter(|row| self.shows(&row.subject));
        let mut rows: Vec<&FigureRow> = rows.collect();
        if self.hides_idle && kind == SeriesKind::Disk {
            let (busy, moved) = (mean(Measure::Busy), mean(Measure::Moved));
            rows.retain(|row| {
                !row.subject.starts_with("loop") || busy(row) > 0.0 || moved(row) > 0.0
            });
        }
        // A stable sort keeps equal rows in the host's order.
        let by = |rows: &mut Vec<&FigureRow>, measure| {
            let mean = mean(measure);
            rows.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
        };
        match self.sort {
            Sort::Busiest => by(&mut rows, busy),
            Sort::Bytes => by(&mut rows, Measure::Moved),
            Sort::Name => rows.sort_by_key(|row| parts(&row.subject)),
        }
        rows
    }
}

/// `sd`, 12 of `sd12`, so that `sd2` comes before it.
fn parts(name: &str) -> Vec<(String, u64)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
        let end = after.find(|c| !is_digit(c)).unwrap_or(after.len());
        let (number, after) = after.split_at(end);
        parts.push((word.to_owned(), number.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}
