//! Printed comparisons of two sides, old (`name  old ops/sec  new ops/sec  delta`) and new (bars around units).

use iodyno_model::Claim;

use super::super::found::Found;
use super::super::lines::Lines;

/// A table whose rows are being read.
#[derive(Debug, Clone, PartialEq)]
enum Table {
    /// Rows of two sides in a unit.
    TwoSides(String),
    /// Medians alone, of one side.
    OneSide,
    /// Rows of another number of sides, which are not read.
    Others,
}

/// All rows of all tables.
pub(super) fn read(lines: &Lines<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut table = None;
    for (number, text) in lines.iter() {
        let at = number..number + 1;
        if let Some(next) = head(text) {
            table = Some(next);
            // The names of the sides stand over the units.
            let names = number > 1 && lines.get(number - 1).contains('│');
            found.push(Found::known(number - u32::from(names)..number + 1));
            continue;
        }
        let Some(current) = &table else { continue };
        let no_row = *current == Table::OneSide && !text.contains('±');
        if no_row || text.trim().is_empty() || text.starts_with("```") {
            table = None;
        } else if is_footnote(text) {
            found.push(Found::known(at));
        } else {
            found.push(take(lines, number, text, current));
        }
    }
    found
}

/// The table that a head begins.
fn head(text: &str) -> Option<Table> {
    if text.contains('│') {
        return new_head(text);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["name", "old", unit, "new", again, "delta"] if unit == again => {
            Some(Table::TwoSides(unit.to_owned()))
        }
        ["name", "old", ..] if words.contains(&"delta") => Some(Table::Others),
        ["name", "\\", ..] => Some(Table::Others),
        _ => None,
    }
}

/// `│ sec/op │ sec/op vs base │`
fn new_head(text: &str) -> Option<Table> {
    let cells: Vec<&str> = text
        .split('│')
        .skip(1)
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    let [first, others @ ..] = &cells[..] else {
        return None;
    };
    match others {
        [second] if second.strip_suffix("vs base").map(str::trim) == Some(first) => {
            Some(Table::TwoSides((*first).to_owned()))
        }
        [] if text.trim_start().starts_with('│') && first.contains('/') => Some(Table::OneSide),
        _ if others.iter().any(|cell| cell.ends_with("vs base")) => Some(Table::Others),
        // Names of sides, or a table of another kind.
        _ => None,
    }
}

fn is_footnote(text: &str) -> bool {
    text.trim_start()
        .starts_with(['¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'])
}

fn take(lines: &Lines<'_>, number: u32, text: &str, table: &Table) -> Found {
    let at = number..number + 1;
    let unit = match table {
        Table::TwoSides(unit) => unit,
        Table::OneSide => {
            return Found::unread(at, "a median alone: the runs behind it are not given");
        }
        Table::Others => {
            return Found::unread(at, "a row of a comparison that has not just two sides");
        }
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    if matches!(words.first(), Some(&"geomean" | &"[Geo")) {
        return Found::unread(
            at,
            "the geometric mean of the rows above, which follows from them",
        );
    }
    match row(&words) {
        Some(row) => Found::claim(
            at,
            Claim {
                at: lines.at(number),
                workload: workload(&row.name),
                unit: unit.clone(),
                sides: row.sides,
                delta: row.delta,
                p: row.p,
                n: row.n,
            },
        ),
        None => Found::unread(
            at,
            "no row of the comparison above it: two sides and a delta were expected",
        ),
    }
}

fn workload(name: &str) -> String {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    name.strip_prefix("fsbench/").unwrap_or(name).to_owned()
}

#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    sides: Vec<String>,
    delta: String,
    p: Option<f64>,
    n: Vec<u32>,
}

/// `NAME 672 ± 5% 1117 ± 7% ~ (p=0.100 n=3+3)`
fn row(words: &[&str]) -> Option<Row> {
    let (name, mut rest) = words.split_first()?;
    let mut sides = Vec::new();
    for _ in 0..2 {
        let (side, after) = side(rest)?;
        sides.push(side);
        rest = after;
    }
    let (delta, notes) = rest.split_first()?;
    if *delta != "~" && !delta.ends_with('%') && *delta != "?" {
        return None;
    }
    let notes: Vec<&str> = notes
        .iter()
        .map(|word| word.trim_matches(['(', ')']))
        .collect();
    let note = |key: &str| notes.iter().find_map(|word| word.strip_prefix(key));
    let n = note("n=").map_or_else(Vec::new, counts);
    Some(Row {
        name: (*name).to_owned(),
        sides,
        delta: (*delta).to_owned(),
        p: note("p=").and_then(|p| p.parse().ok()),
        n,
    })
}

/// `3+3`, or `6` where both sides have as many.
fn counts(text: &str) -> Vec<u32> {
    let counts: Option<Vec<u32>> = text.split('+').map(|count| count.parse().ok()).collect();
    match counts.as_deref() {
        Some(&[both]) => vec![both, both],
        Some(counts) => counts.to_vec(),
        None => Vec::new(),
    }
}

/// A side as printed, and what comes after it: `672 ± 5%`, `722 ±33%`, `65.00n ± ∞ ¹`, `12.0`.
fn side<'w>(words: &'w [&'w str]) -> Option<(String, &'w [&'w str])> {
    let (value, mut rest) = words.split_first()?;
    if !value.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return None;
    }
    let mut side = (*value).to_owned();
    match rest {
        ["±", spread, after @ ..] => {
            side = format!("{side} ± {spread}");
            rest = after;
        }
        [spread, after @ ..] if spread.starts_with('±') => {
            side = format!("{side} {spread}");
            rest = after;
        }
        _ => {}
    }
    if let [mark, after @ ..] = rest
        && is_footnote(mark)
    {
        rest = after;
    }
    Some((side, rest))
}
