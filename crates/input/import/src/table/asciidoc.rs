//! AsciiDoc tables: `|===` around cells that begin with a bar, one or several per line.

use super::grid::{Grid, MAX_COLUMNS, Row};
use crate::lines::Lines;

/// All tables of this form.
pub(super) fn grids(lines: &Lines<'_>) -> Vec<Grid> {
    let mut grids = Vec::new();
    let mut start = None;
    for (number, text) in lines.iter() {
        if text.trim() != "|===" {
            continue;
        }
        start = match start {
            None => Some(number),
            Some(first) => {
                grids.extend(grid(lines, first, number + 1));
                None
            }
        };
    }
    grids
}

fn grid(lines: &Lines<'_>, start: u32, end: u32) -> Option<Grid> {
    let attributes = lines.get(start.saturating_sub(1)).trim();
    let mut cells: Vec<(u32, String)> = Vec::new();
    let mut on_first_line = 0;
    let mut header = attributes.contains("header");
    for (number, text) in lines.range(start + 1..end - 1) {
        if text.trim().is_empty() {
            // A first line followed by a blank one is the heading.
            header |= on_first_line > 0 && cells.len() == on_first_line;
            continue;
        }
        let mut parts = text.split('|');
        let before = parts.next().unwrap_or_default().trim();
        if let Some((_, cell)) = cells.last_mut()
            && !before.is_empty()
        {
            cell.push(' ');
            cell.push_str(before);
        }
        cells.extend(parts.map(|part| (number, part.trim().to_owned())));
        if on_first_line == 0 {
            on_first_line = cells.len();
        }
    }
    let width = columns(attributes).unwrap_or(on_first_line);
    if !(2..=MAX_COLUMNS).contains(&width)
        || !cells.len().is_multiple_of(width)
        || cells.len() < 2 * width
    {
        return None;
    }
    let header = header && on_first_line == width || attributes.contains("header");
    let mut rows: Vec<Row> = cells
        .chunks(width)
        .map(|row| Row {
            line: row[0].0,
            cells: row
                .iter()
                .map(|(_, text)| text.trim_matches(['*', '`']).to_owned())
                .collect(),
        })
        .collect();
    let heads = match header {
        true => rows
            .remove(0)
            .cells
            .into_iter()
            .map(|head| vec![head])
            .collect(),
        false => vec![vec![String::new()]; width],
    };
    Some(Grid {
        form: "asciidoc table",
        lines: start..end,
        heads,
        rows,
        ..Grid::default()
    })
}

/// The number of columns that `[cols="1,1"]` or `[cols=3*]` declares.
fn columns(attributes: &str) -> Option<usize> {
    let (_, rest) = attributes.split_once("cols=")?;
    let list = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split([',', ']']).next()?,
    };
    let count = |part: &str| match part.trim().split_once('*') {
        Some((times, _)) => times.parse().unwrap_or(1),
        None => 1,
    };
    let columns: usize = list
        .split([',', ';'])
        .map(count)
        .fold(0, usize::saturating_add);
    (1..=MAX_COLUMNS).contains(&columns).then_some(columns)
}
