//! The content of a table: columns with their headings, rows with their cells.

use std::ops::Range;

use super::unit::{unit_in, value};
use crate::lines::Lines;

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Grid {
    /// `table`, `asciidoc table`, `csv`.
    pub(super) form: &'static str,
    /// Where it stands.
    pub(super) lines: Range<u32>,
    /// For each column its headings, the outermost first, all columns equally many.
    pub(super) heads: Vec<Vec<String>>,
    /// The rows, each with a cell a column.
    pub(super) rows: Vec<Row>,
    /// The heading over it.
    pub(super) section: Option<String>,
    /// The line of prose right above it.
    pub(super) caption: Option<String>,
    /// What is said of the host right below it.
    pub(super) remark: Option<String>,
    /// Nothing but its heading's units tells it from prose.
    pub(super) loose: bool,
}

/// A row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row {
    pub(super) line: u32,
    pub(super) cells: Vec<String>,
}

impl Grid {
    /// How many levels of headings.
    pub(super) fn levels(&self) -> usize {
        self.heads.first().map_or(0, Vec::len)
    }

    /// A column whose cells are results or other numbers, where there is anything in them.
    pub(super) fn is_numeric(&self, column: usize) -> bool {
        let cells = || self.rows.iter().map(|row| row.cells[column].as_str());
        let with_unit = || {
            self.heads[column]
                .iter()
                .any(|head| unit_in(head).is_some())
        };
        // Under a unit, what is not a number is a result that cannot be read, and no name of a row.
        cells().any(|cell| value(cell).is_some()) && (cells().all(is_value) || with_unit())
    }

    /// The innermost heading of a column that says anything.
    pub(super) fn name(&self, column: usize) -> &str {
        let heads = self.heads[column].iter().rev();
        heads
            .map(String::as_str)
            .find(|head| !head.is_empty())
            .unwrap_or("")
    }

    /// Looks around the table for what is said of it.
    pub(super) fn placed(mut self, lines: &Lines<'_>) -> Grid {
        let start = self.lines.start;
        let headings = lines.context(start);
        self.section = headings
            .nearest(|heading| heading.is_section())
            .map(|h| h.text.clone());
        let above = (start.saturating_sub(LOOK_AROUND)..start)
            .rev()
            .map(|n| (n, lines.get(n).trim()));
        let caption = above.into_iter().find(|(_, text)| !is_markup(text));
        let is_heading = |line: u32| headings.headings.iter().any(|heading| heading.line == line);
        self.caption = caption
            .filter(|(line, text)| !is_heading(*line) && !text.contains('|'))
            .map(|(_, text)| {
                text.trim_start_matches('.')
                    .trim_end_matches(':')
                    .to_owned()
            })
            .filter(|text| !text.is_empty());
        let end = self.lines.end;
        self.remark = lines
            .range(end..end.saturating_add(LOOK_AROUND))
            .map(|(_, text)| text.trim())
            .find(|text| !is_markup(text))
            .filter(|text| text.contains("load average"))
            .map(str::to_owned);
        self
    }
}

/// A value, or the mark of a missing one.
pub(super) fn is_value(cell: &str) -> bool {
    matches!(cell, "" | "-" | "–" | "n/a" | "N/A") || value(cell).is_some()
}

/// Nobody reads a wider table; it bounds what a made-up one costs.
pub(super) const MOST_COLUMNS: usize = 500;

/// How many lines above and below a table are looked at.
const LOOK_AROUND: u32 = 5;

/// Lines that say nothing: blank ones, fences, attributes of what follows.
fn is_markup(text: &str) -> bool {
    text.is_empty()
        || text.starts_with("```")
        || (text.starts_with('[') && text.ends_with(']'))
        || (text.starts_with('<') && text.ends_with('>'))
        || text.chars().all(|c| matches!(c, '-' | '.' | '=' | '~'))
}
