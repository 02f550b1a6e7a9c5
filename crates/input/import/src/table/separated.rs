//! Tables without drawing: fields separated by commas, semicolons or tabs, and columns separated by blanks.

use super::grid::{Grid, MAX_COLUMNS, Row, is_value};
use super::unit::{unit_in, value};
use crate::lines::Lines;
use crate::measure::Measure;

/// All tables of this form.
pub(super) fn grids(lines: &Lines<'_>) -> Vec<Grid> {
    let mut grids = Vec::new();
    let mut line = 1;
    while line <= lines.count() {
        match grid(lines, line) {
            Some(grid) => {
                line = grid.lines.end;
                grids.push(grid);
            }
            None => line += 1,
        }
    }
    grids
}

/// The separator of columns.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Between {
    Character(char),
    /// Two or more blanks, or tabs.
    Blanks,
}

fn fields(text: &str, between: Between) -> Vec<String> {
    match between {
        Between::Character(mark) => quoted(text, mark),
        Between::Blanks => text
            .trim()
            .split("  ")
            .flat_map(|part| part.split('\t'))
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect(),
    }
}

/// The fields of a line according to RFC 4180; a quoted field cannot continue on the next line.
fn quoted(text: &str, mark: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut inside = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let field = fields.last_mut().expect("there is always a field");
        match c {
            '"' if inside && rest.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if inside || field.trim().is_empty() => inside = !inside,
            c if c == mark && !inside => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

/// A throughput as scripts around fio print it, rewritten with its unit: `88.0mb` under `Bandwidth`, which is fio's
/// KiB/s divided by 1024, and `54.4mb/18.2mb` or `13.6k/4668` of reads and writes, whose sum is the throughput.
fn throughput(head: &str, cell: &str) -> Option<String> {
    let bandwidth = ["bandwidth", "bw", "throughput"].contains(&head.to_lowercase().as_str());
    if !bandwidth && !matches!(unit_in(head), Some(Measure::Rate(_))) {
        return None;
    }
    let parts = cell.split('/').map(|part| match bandwidth {
        true => {
            let (number, kib) = [("kb", 1.0), ("mb", 1024.0), ("gb", 1_048_576.0)]
                .into_iter()
                .find_map(|(unit, kib)| Some((part.strip_suffix(unit)?, kib)))?;
            Some(value(number).filter(|(_, unit)| unit.is_none())?.0 * kib)
        }
        false => Some(value(part).filter(|(_, unit)| unit.is_none())?.0),
    });
    let sum: f64 = parts.collect::<Option<Vec<f64>>>()?.iter().sum();
    Some(format!("{sum}{}", if bandwidth { " KiB/s" } else { "" }))
}

/// The table whose heading is on a line.
fn grid(lines: &Lines<'_>, start: u32) -> Option<Grid> {
    let head = lines.get(start);
    if head.trim().is_empty() || head.contains('|') {
        return None;
    }
    let below = lines.get(start + 1);
    let marks = [',', ';', '\t'].map(Between::Character);
    marks
        .into_iter()
        .chain([Between::Blanks])
        .find_map(|between| {
            let heads = fields(head, between);
            let width = heads.len();
            let named = heads.iter().all(|head| value(head).is_none());
            let fields = |text| {
                let cells = fields(text, between).into_iter().enumerate();
                let plain = |(column, cell): (usize, String)| match heads.get(column) {
                    Some(head) => throughput(head, &cell).unwrap_or(cell),
                    None => cell,
                };
                cells.map(plain).collect::<Vec<String>>()
            };
            let first = fields(below);
            let numeric: Vec<bool> = first.iter().map(|cell| value(cell).is_some()).collect();
            let fits = (2..=MAX_COLUMNS).contains(&width) && named && first.len() == width;
            if !fits || !numeric.contains(&true) {
                return None;
            }
            let mut rows: Vec<Row> = Vec::new();
            let mut blank = false;
            for (line, text) in lines.range(start + 1..lines.count() + 1) {
                // A blank line can separate groups of rows.
                if between == Between::Blanks && text.trim().is_empty() && !blank {
                    blank = true;
                    continue;
                }
                blank = false;
                let cells = fields(text);
                // A table ends where its columns of numbers contain words, which are the heading of another table.
                let as_first = |(cell, numeric): (&String, &bool)| !numeric || is_value(cell);
                let mut columns = cells.iter().zip(&numeric);
                let fits = match between {
                    Between::Blanks => columns.all(as_first),
                    // Only a table has this many separators: a single word is then an unreadable result.
                    Between::Character(_) => columns.any(|pair| *pair.1 && is_value(pair.0)),
                };
                if cells.len() != width || !fits {
                    break;
                }
                rows.push(Row { line, cells });
            }
            Some(Grid {
                form: match between {
                    Between::Blanks => "table",
                    Between::Character(_) => "csv",
                },
                lines: start..rows.last().map_or(start, |row| row.line) + 1,
                heads: heads.iter().map(|head| vec![head.clone()]).collect(),
                rows,
                loose: !heads.iter().any(|head| unit_in(head).is_some()),
                ..Grid::default()
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_line() {
        for (text, mark, expected) in [
            ("a,b,c", ',', vec!["a", "b", "c"]),
            ("a, \"b, c\" ,d", ',', vec!["a", "b, c", "d"]),
            ("\"say \"\"x\"\"\",2", ',', vec!["say \"x\"", "2"]),
            ("a;;c", ';', vec!["a", "", "c"]),
            ("\"open,b", ',', vec!["open,b"]),
            ("", ',', vec![""]),
        ] {
            assert_eq!(quoted(text, mark), expected, "{text}");
        }
    }
}
