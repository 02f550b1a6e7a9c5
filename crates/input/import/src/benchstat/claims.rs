//! The tables that benchstat prints: with bars around the units (since 2022), and the older form `name  old time/op
//! new time/op  delta`.
//!
//! Each row becomes a claim about the trials named by its label, its column heads and the keys above the table. A
//! table with a baseline and several other columns gives a claim for each pair.

use std::collections::BTreeMap;

use iodyno_model::{Claim, ClaimRules, ClaimSubject, Observation};

use super::super::extract::Extract;
use super::super::lines::Lines;
use super::input::{key, place};
use super::units;

/// The labels of the row of geometric means, in tables since 2022 and in older ones.
const GEOMEAN: [&str; 2] = ["geomean", "[Geo mean]"];

/// A table whose rows are being read.
#[derive(Debug, Clone)]
struct Table {
    rules: ClaimRules,
    /// The line of its head.
    line: u32,
    unit: String,
    metrics: Vec<(String, f64)>,
    /// The first character of each column of values.
    starts: Vec<usize>,
    /// The heads of each column.
    columns: Vec<Vec<String>>,
    /// The other columns are compared with the first one.
    deltas: bool,
    /// Keys that apply to all following rows of the table.
    keys: BTreeMap<String, String>,
}

/// The content of a row in one column.
#[derive(Debug, Clone, Default, PartialEq)]
struct Cell {
    side: String,
    delta: String,
    p: Option<f64>,
    n: Vec<u32>,
}

/// Reads all rows of all tables.
pub(super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = Vec::new();
    let mut table: Option<Table> = None;
    // Keys since the last line of another kind. benchstat prints keys that apply to a whole table above it.
    let mut keys = BTreeMap::new();
    for (number, text) in lines.iter() {
        let at = number..number + 1;
        if let Some((next, first)) = head(lines, number, text, &keys) {
            table = Some(next);
            found.push(Extract::known(first..number + 1));
            continue;
        }
        if text.trim().is_empty() {
            let goes_on = lines.get(number + 1).starts_with(GEOMEAN[1]);
            table = table.filter(|_| goes_on);
        } else if let Some(current) = &mut table {
            if text.starts_with("```") {
                table = None;
            } else if is_footnote(text) || is_blank_mean(text) {
                found.push(Extract::known(at));
            } else if let Some(group) = group(text).filter(|_| current.rules == ClaimRules::Means) {
                current.keys = group;
                found.push(Extract::known(at));
            } else {
                let claims = claims(lines, number, text, current);
                if claims.is_empty() {
                    found.push(Extract::unread(
                        at.clone(),
                        "not a row of the comparison above it: a value for each column was expected",
                    ));
                }
                found.extend(
                    claims
                        .into_iter()
                        .map(|claim| Extract::claim(at.clone(), claim)),
                );
            }
        } else if let Some((key, value)) = key(text) {
            keys.insert(key.to_owned(), value.to_owned());
        } else if !text.contains('│') {
            keys.clear();
        }
    }
    found
}

/// Parses the head of a table; returns the table and the first line of the head.
fn head(
    lines: &Lines<'_>,
    number: u32,
    text: &str,
    keys: &BTreeMap<String, String>,
) -> Option<(Table, u32)> {
    if text.contains('│') {
        return medians_head(lines, number, text, keys);
    }
    let words = words_with_places(text);
    let bare: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
    let (unit, first, deltas) = match bare[..] {
        ["name", "old", unit, "new", again, "delta"] if unit == again => (unit, 1, true),
        ["name", "\\", unit, _, ..] => (unit, 3, false),
        // A table with only one side. Other tables begin in the same way, but contain no `±`.
        ["name", unit] if has_spread(lines, number) => (unit, 1, false),
        _ => return None,
    };
    let places: Vec<(usize, &str)> = match deltas {
        true => vec![words[1], words[3]],
        false => words[first..].to_vec(),
    };
    let named = bare[1] == "\\";
    let table = Table {
        rules: ClaimRules::Means,
        line: number,
        unit: unit.to_owned(),
        metrics: units::of_old_table(unit),
        starts: places.iter().map(|(place, _)| *place).collect(),
        columns: places
            .iter()
            .map(|(_, name)| match named {
                true => vec![(*name).to_owned()],
                false => Vec::new(),
            })
            .collect(),
        deltas,
        keys: BTreeMap::new(),
    };
    Some((table, number))
}

/// Whether a row of the table has a `±`.
fn has_spread(lines: &Lines<'_>, head: u32) -> bool {
    let rows = lines.range(head + 1..lines.count() + 1);
    rows.take_while(|(_, text)| !text.trim().is_empty())
        .any(|(_, text)| text.contains('±'))
}

/// Parses the head `│ sec/op │ sec/op vs base │`, which follows one or more lines with the names of the columns.
fn medians_head(
    lines: &Lines<'_>,
    number: u32,
    text: &str,
    keys: &BTreeMap<String, String>,
) -> Option<(Table, u32)> {
    let bars = cells(text);
    let (_, unit) = *bars.first()?;
    let deltas = bars[1..]
        .iter()
        .all(|(_, cell)| cell.strip_suffix("vs base").map(str::trim) == Some(unit));
    // The last line of the head, because the next line is a row without bars.
    let row_follows = !lines.get(number + 1).contains('│');
    let names_above = number > 1 && lines.get(number - 1).contains('│');
    let is_head = match bars.len() {
        1 => names_above && lines.get(number + 1).contains('±'),
        _ => deltas,
    };
    if !is_head || !row_follows || unit.is_empty() || unit.contains(char::is_whitespace) {
        return None;
    }
    let starts: Vec<usize> = bars.iter().map(|(place, _)| *place).collect();
    let mut columns = vec![Vec::new(); bars.len()];
    let mut first = number;
    while first > 1 && lines.get(first - 1).contains('│') {
        first -= 1;
        let names = cells(lines.get(first));
        for (index, column) in columns.iter_mut().enumerate() {
            // A name of an upper level spans several columns.
            let over = match names.len() == bars.len() {
                true => names.get(index),
                false => names
                    .iter()
                    .rev()
                    .find(|(place, _)| *place <= starts[index]),
            };
            column.extend(over.map(|(_, name)| (*name).to_owned()));
        }
    }
    let table = Table {
        rules: ClaimRules::Medians,
        line: number,
        unit: unit.to_owned(),
        metrics: units::of_table(unit),
        starts,
        columns,
        deltas,
        keys: keys.clone(),
    };
    Some((table, first))
}

/// The texts between bars, each with the position of its bar in characters.
fn cells(text: &str) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut place = 0;
    for (index, cell) in text.split('│').enumerate() {
        if index > 0 && !cell.trim().is_empty() {
            cells.push((place - 1, cell.trim()));
        }
        place += cell.chars().count() + 1;
    }
    cells
}

/// The words of a line, each with the position of its first character.
fn words_with_places(text: &str) -> Vec<(usize, &str)> {
    let mut place = 0;
    let mut words = Vec::new();
    for word in text.split(' ') {
        if !word.is_empty() {
            words.push((place, word));
        }
        place += word.chars().count() + 1;
    }
    words
}

/// Parses `pkg:foo goos:linux`: keys that the rows below have in common.
fn group(text: &str) -> Option<BTreeMap<String, String>> {
    text.split_whitespace()
        .map(|word| {
            let (key, value) = word.split_once(':')?;
            let lower = key.starts_with(char::is_lowercase) && !value.is_empty();
            lower.then(|| (key.to_owned(), value.to_owned()))
        })
        .collect()
}

fn is_footnote(text: &str) -> bool {
    text.trim_start()
        .starts_with(['¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'])
}

/// Whether the line is an undefined geometric mean: `geomean  ²`.
fn is_blank_mean(text: &str) -> bool {
    text.strip_prefix(GEOMEAN[0])
        .is_some_and(|rest| rest.split_whitespace().all(is_footnote))
}

/// The claims of a row; empty if the line is not a row of the table.
fn claims(lines: &Lines<'_>, number: u32, text: &str, table: &Table) -> Vec<Claim> {
    let Some((label, cells)) = row(text, table) else {
        return Vec::new();
    };
    let here: Vec<usize> = (0..cells.len())
        .filter(|&index| cells[index].is_some())
        .collect();
    let pairs: Vec<Vec<usize>> = match (table.deltas, &here[..]) {
        (true, [0, others @ ..]) if !others.is_empty() => {
            others.iter().map(|&other| vec![0, other]).collect()
        }
        (true, alone) => alone.iter().map(|&index| vec![index]).collect(),
        (false, []) => Vec::new(),
        (false, all) => vec![all.to_vec()],
    };
    pairs
        .into_iter()
        .map(|indices| {
            let cell = |index: usize| cells[index].clone().unwrap_or_default();
            let last = cell(indices[indices.len() - 1]);
            Claim {
                at: lines.at(number),
                workload: bare(&label).to_owned(),
                unit: table.unit.clone(),
                sides: indices.iter().map(|&index| cell(index).side).collect(),
                delta: last.delta,
                p: last.p,
                n: last.n,
                subject: subject(lines, &label, table, &indices),
            }
        })
        .collect()
}

fn subject(lines: &Lines<'_>, label: &str, table: &Table, indices: &[usize]) -> ClaimSubject {
    let mut trial = lines.trial("", table.line);
    let name = label.strip_prefix("Benchmark").unwrap_or(label);
    let benchmark = place(&mut trial, name, &BTreeMap::new());
    let geomean = GEOMEAN.contains(&label);
    // Before 2022 the mean is over all groups of rows; the current keys are those of the last group.
    let mut keys = match geomean && table.rules == ClaimRules::Means {
        true => BTreeMap::new(),
        false => table.keys.clone(),
    };
    if !trial.configuration.is_empty() {
        keys.insert(Observation::CONFIGURATION.to_owned(), trial.configuration);
    }
    ClaimSubject {
        rules: table.rules,
        table: table.line,
        columns: indices.iter().map(|&i| table.columns[i].clone()).collect(),
        benchmark: bare(&benchmark).to_owned(),
        dimensions: trial.dimensions,
        keys,
        metrics: table.metrics.clone(),
        geomean,
    }
}

fn bare(name: &str) -> &str {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    name.strip_prefix("fsbench/").unwrap_or(name)
}

/// A row's label and its cells; `None` for an empty cell.
///
/// If the number of words after the first one fits the columns, the words are assigned to the columns in order.
/// Otherwise the label has several words or a cell is empty, and the positions of the columns separate the cells.
fn row(text: &str, table: &Table) -> Option<(String, Vec<Option<Cell>>)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let geomean = GEOMEAN.iter().find(|label| text.starts_with(**label));
    let label = geomean.map_or(words.first().copied(), |label| Some(*label))?;
    let rest = &words[label.split(' ').count()..];
    if let Some(cells) = cells_in_order(rest, table) {
        return Some((label.to_owned(), cells));
    }
    let (label, rest) = split_at(text, *table.starts.first()?);
    let mut cells = Vec::new();
    let mut rest = rest;
    for (index, start) in table.starts.iter().enumerate() {
        let width = table.starts.get(index + 1).map(|next| next - start);
        let (piece, after) = split_at(rest, width.unwrap_or(usize::MAX));
        rest = after;
        let words: Vec<&str> = piece.split_whitespace().collect();
        if words.is_empty() {
            cells.push(None);
            continue;
        }
        let (cell, after) = cell(&words)?;
        if !after.is_empty() {
            return None;
        }
        cells.push((cell != Cell::default()).then_some(cell));
    }
    let label = label.trim();
    let filled = cells.iter().any(Option::is_some) && !label.is_empty();
    filled.then(|| (label.to_owned(), cells))
}

/// Splits a text after a number of characters.
fn split_at(text: &str, characters: usize) -> (&str, &str) {
    let place = text.char_indices().nth(characters).map(|(place, _)| place);
    text.split_at(place.unwrap_or(text.len()))
}

/// Assigns words to cells in order; `None` unless all words are used and each comparison has its difference.
fn cells_in_order(words: &[&str], table: &Table) -> Option<Vec<Option<Cell>>> {
    let mut rest = words;
    let mut cells = Vec::new();
    for index in 0..table.starts.len() {
        let (cell, after) = cell(rest)?;
        rest = after;
        let compared = table.deltas && index > 0;
        if compared == cell.delta.is_empty() || cell.side.is_empty() {
            return None;
        }
        cells.push(Some(cell));
    }
    rest.is_empty().then_some(cells)
}

/// Parses `672 ± 5%`, `722 ±33%`, `65.00n ± ∞ ¹` or `12.0`, each with or without `~ (p=0.100 n=3+3) ²`. Returns the
/// cell and the remaining words.
fn cell<'w>(words: &'w [&'w str]) -> Option<(Cell, &'w [&'w str])> {
    let (value, mut rest) = words.split_first()?;
    let mut cell = Cell::default();
    if value.starts_with(|c: char| c.is_ascii_digit() || c == '-') && !value.ends_with('%') {
        cell.side = (*value).to_owned();
    } else if is_delta(value) || is_footnote(value) {
        // An undefined geometric mean leaves the cell blank.
        rest = words;
    } else {
        return None;
    }
    match rest {
        ["±", spread, after @ ..] => {
            cell.side = format!("{} ± {spread}", cell.side);
            rest = after;
        }
        [spread, after @ ..] if spread.starts_with('±') => {
            cell.side = format!("{} {spread}", cell.side);
            rest = after;
        }
        _ => {}
    }
    rest = after_footnotes(rest);
    if let [delta, after @ ..] = rest
        && is_delta(delta)
    {
        cell.delta = (*delta).to_owned();
        rest = after;
        if rest.first().is_some_and(|word| word.starts_with('(')) {
            let end = rest.iter().position(|word| word.ends_with(')'))?;
            for word in &rest[..=end] {
                let word = word.trim_matches(['(', ')']);
                if let Some(p) = word.strip_prefix("p=") {
                    cell.p = p.parse().ok();
                } else if let Some(n) = word.strip_prefix("n=") {
                    cell.n = counts(n);
                }
            }
            rest = &rest[end + 1..];
        }
        rest = after_footnotes(rest);
    }
    Some((cell, rest))
}

fn is_delta(word: &str) -> bool {
    word == "~" || word == "?" || (word.ends_with('%') && word.starts_with(['+', '-', '0', 'N']))
}

fn after_footnotes<'w>(mut words: &'w [&'w str]) -> &'w [&'w str] {
    while let [mark, after @ ..] = words
        && is_footnote(mark)
    {
        words = after;
    }
    words
}

/// Parses the numbers of samples: `3+3`, or `6` if they are equal.
fn counts(text: &str) -> Vec<u32> {
    let counts: Option<Vec<u32>> = text.split('+').map(|count| count.parse().ok()).collect();
    match counts.as_deref() {
        Some(&[both]) => vec![both, both],
        Some(counts) => counts.to_vec(),
        None => Vec::new(),
    }
}
