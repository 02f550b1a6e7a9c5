//! The content of a table: columns with their headings, rows with their cells.

use std::ops::Range;

use super::unit::{unit_in, value};
use crate::lines::Lines;

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Grid {
    /// The form: `table`, `asciidoc table`, `csv`.
    pub(super) form: &'static str,
    /// Its place.
    pub(super) lines: Range<u32>,
    /// The headings of each column, the outermost first; all columns have the same number.
    pub(super) heads: Vec<Vec<String>>,
    /// The rows, each with one cell per column.
    pub(super) rows: Vec<Row>,
    /// The heading above it.
    pub(super) section: Option<String>,
    /// The line of prose directly above it.
    pub(super) caption: Option<String>,
    /// The description of the host directly below it.
    pub(super) remark: Option<String>,
    /// Only the units in its heading distinguish it from prose.
    pub(super) loose: bool,
}

/// A row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row {
    pub(super) line: u32,
    pub(super) cells: Vec<String>,
}

impl Grid {
    /// The number of levels of headings.
    pub(super) fn levels(&self) -> usize {
        self.heads.first().map_or(0, Vec::len)
    }

    /// Whether all non-empty cells of a column are results or other numbers.
    pub(super) fn is_numeric(&self, column: usize) -> bool {
        let cells = || self.rows.iter().map(|row| row.cells[column].as_str());
        let with_unit = || {
            self.heads[column]
                .iter()
                .any(|head| unit_in(head).is_some())
        };
        // Under a unit, a text that is not a number is an unreadable result and not the name of a row.
        cells().any(|cell| value(cell).is_some()) && (cells().all(is_value) || with_unit())
    }

    /// The innermost non-empty heading of a column.
    pub(super) fn name(&self, column: usize) -> &str {
        let heads = self.heads[column].iter().rev();
        heads
            .map(String::as_str)
            .find(|head| !head.is_empty())
            .unwrap_or("")
    }

    /// Finds the heading and the descriptions around the table.
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

/// Whether it is a value, or the mark of a missing one.
pub(super) fn is_value(cell: &str) -> bool {
    matches!(cell, "" | "-" | "–" | "n/a" | "N/A") || value(cell).is_some()
}

/// The largest number of columns; it bounds the cost of crafted tables.
pub(super) const MAX_COLUMNS: usize = 500;

/// The number of lines above and below a table that are examined.
const LOOK_AROUND: u32 = 5;

/// Lines without content: blank lines, fences, attributes of the next block.
fn is_markup(text: &str) -> bool {
    text.is_empty()
        || text.starts_with("```")
        || (text.starts_with('[') && text.ends_with(']'))
        || (text.starts_with('<') && text.ends_with('>'))
        || text.chars().all(|c| matches!(c, '-' | '.' | '=' | '~'))
}
