//! The live view of the host: one screen for the latest interval, for a terminal or as a line of JSON.
//!
//! As long as no CPU, disk or process appears or disappears, a screen has the same lines at the same positions as the
//! previous one: widths and units are fixed, and the order depends on several past screens.

mod choice;
mod cpus;
mod disks;
mod grid;
mod history;
mod host;
mod interrupts;
mod json;
mod line;
mod live;
mod others;
mod screen;
mod section;
#[cfg(test)]
mod tests;

use iodyno_model::{FigureRow, FigureTable, SeriesKind, SeriesRow};

pub use history::History;
pub use json::json;
pub use live::{Key, Live};
pub use screen::screen;

/// The data of one screen.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchView<'a> {
    /// The host's name.
    pub host: &'a str,
    /// Its kernel's version.
    pub kernel: &'a str,
    /// Wall clock at the end of the interval, ms since 1970.
    pub unix_ms: u64,
    /// The local time's offset, seconds east of Greenwich.
    pub utc_offset_s: i32,
    /// Interval between two screens, ns.
    pub every_ns: u64,
    /// The figures of the latest interval, one table per series, with the remarks on this interval.
    pub tables: &'a [FigureTable],
    /// Sources of interrupts with the devices that they serve, from the latest shape.
    pub sources: &'a [SeriesRow],
    /// The figures of the past intervals and of this one.
    pub history: &'a History,
}

impl<'a> WatchView<'a> {
    /// The latest figures of a series, if there are any.
    fn latest(&self, kind: SeriesKind) -> Option<Latest<'a>> {
        let mut tables = self.tables.iter();
        Latest::of(tables.find(|table| table.kind == kind)?)
    }
}

/// The rows of a table's last interval.
#[derive(Clone, Copy)]
struct Latest<'a> {
    table: &'a FigureTable,
    rows: &'a [FigureRow],
}

impl<'a> Latest<'a> {
    fn of(table: &'a FigureTable) -> Option<Latest<'a>> {
        let last_ns = table.rows.last()?.at_ns;
        let mut rows = table.rows.iter();
        let first = rows.position(|row| row.at_ns == last_ns)?;
        Some(Latest {
            table,
            rows: &table.rows[first..],
        })
    }

    fn row(&self, subject: &str) -> Option<&'a FigureRow> {
        self.rows.iter().find(|row| row.subject == subject)
    }

    /// A figure by its column's name.
    fn value(&self, row: &FigureRow, column: &str) -> Option<f64> {
        let mut columns = self.table.columns.iter();
        let place = columns.position(|found| found.name == column)?;
        (*row.values.get(place)?).filter(|value| value.is_finite())
    }

    /// The sum of the known figures.
    fn sum(&self, row: &FigureRow, columns: &[&str]) -> Option<f64> {
        let values = columns.iter().filter_map(|column| self.value(row, column));
        values.reduce(|a, b| a + b)
    }
}
