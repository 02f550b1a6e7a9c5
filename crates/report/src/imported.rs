//! Imported output of other programs, as text: results, further tables, and lines that were not recognised.

use std::collections::BTreeMap;

use iodyno_model::{Figure, Imported, ImportedTable, ImportedTrial, SourceLine, Unit};
use iodyno_units::{Bytes, counted};

use crate::compare::value;
use crate::style::{Paint, Style, sanitize, trimmed};
use crate::table::{Column, Table};

/// Dimensions that number repetitions: such trials are in one row.
const REPETITIONS: [&str; 2] = ["loop", "round"];

/// A summary: a row for each workload on each configuration, then remarks.
pub fn text(imported: &Imported, style: Style) -> String {
    let mut text = results(imported, style);
    for table in &imported.tables {
        text += &heading(
            &format!(
                "{}: {}, {}",
                subject(table),
                counted(table.rows.len() as u64, "row"),
                place(&table.at)
            ),
            style,
        );
        text += &remarks(&table.remarks, style);
    }
    text += &said(imported, style);
    style.plain(&trimmed(&text))
}

/// As [`text`], with complete tables.
pub fn full(imported: &Imported, style: Style) -> String {
    let mut text = results(imported, style);
    for table in &imported.tables {
        text += "\n";
        text += &heading(&format!("{}, {}", subject(table), place(&table.at)), style);
        text += &series(table);
        text += &remarks(&table.remarks, style);
    }
    text += &said(imported, style);
    style.plain(&trimmed(&text))
}

fn subject(table: &ImportedTable) -> String {
    match table.subject.is_empty() {
        true => table.form.clone(),
        false => format!("{} of {}", table.form, table.subject),
    }
}

/// A line for each group of repetitions, with the figures that a comparison uses.
fn results(imported: &Imported, style: Style) -> String {
    if imported.trials.is_empty() {
        return String::new();
    }
    let mut groups: Vec<(Vec<String>, Vec<&ImportedTrial>)> = Vec::new();
    for trial in &imported.trials {
        let name = vec![
            trial.configuration.clone(),
            trial.workload.clone(),
            further(&trial.dimensions),
        ];
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, trials)) => trials.push(trial),
            None => groups.push((name, vec![trial])),
        }
    }
    let several = groups.iter().any(|(name, _)| !name[2].is_empty());
    let mut columns = vec![Column::left("configuration"), Column::left("workload")];
    columns.extend(several.then(|| Column::left("where")));
    columns.extend([Column::right("trials"), Column::left("figures").wrap(20)]);
    let mut table = Table::new(columns);
    for (name, trials) in &groups {
        let mut cells = name[..2].to_vec();
        cells.extend(several.then(|| name[2].clone()));
        cells.extend([trials.len().to_string(), values(trials)]);
        table.row(cells);
    }
    table.draw(style.columns(), style)
}

fn further(dimensions: &BTreeMap<String, String>) -> String {
    let pairs = dimensions
        .iter()
        .filter(|(name, _)| !REPETITIONS.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// The default metric of the trials, and its values.
fn values(trials: &[&ImportedTrial]) -> String {
    let metric = trials.iter().find_map(|trial| trial.primary.as_deref());
    let found: Vec<&Figure> = trials
        .iter()
        .filter_map(|trial| match metric {
            Some(name) => trial.figures.iter().find(|f| f.metric.name == name),
            None => trial.figures.first(),
        })
        .collect();
    let Some(first) = found.first() else {
        return "none".to_owned();
    };
    let shown: Vec<String> = found
        .iter()
        .take(MOST_VALUES)
        .map(|found| value(found.value, &found.metric.unit))
        .collect();
    let more = match found.len().saturating_sub(MOST_VALUES) {
        0 => String::new(),
        more => format!(", {more} more"),
    };
    format!("{}: {}{more}", first.metric.name, shown.join(", "))
}

/// Number of values shown for each group; the store has all.
const MOST_VALUES: usize = 5;

fn series(table: &ImportedTable) -> String {
    let columns: Vec<(&str, Counted)> = table.columns.iter().map(|name| column(name)).collect();
    let heads = columns.iter().map(|(name, _)| Column::right(*name));
    let mut drawn = Table::new(std::iter::once(Column::left("")).chain(heads));
    for (label, values) in &table.rows {
        let cells = columns.iter().enumerate().map(|(place, (_, counted))| {
            let value = values.get(place).copied().flatten();
            value.map_or("-".to_owned(), |value| cell(value, *counted))
        });
        drawn.row(std::iter::once(label.clone()).chain(cells));
    }
    // Tables of other programs are not narrowed.
    drawn.draw(usize::MAX, Style::default())
}

/// The kind of a column's numbers, from the unit at the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Bytes,
    BytesPerSecond,
    OpsPerSecond,
    Plain,
}

fn column(name: &str) -> (&str, Counted) {
    match name.rsplit_once(' ') {
        Some((name, "B")) => (name, Counted::Bytes),
        Some((name, "B/s")) => (name, Counted::BytesPerSecond),
        Some((name, "ops/s")) => (name, Counted::OpsPerSecond),
        _ => (name, Counted::Plain),
    }
}

fn cell(number: f64, counted: Counted) -> String {
    match counted {
        Counted::Bytes => Bytes(number.round() as u64).to_string(),
        Counted::BytesPerSecond => value(number, &Unit::BytesPerSecond),
        Counted::OpsPerSecond => value(number, &Unit::OpsPerSecond),
        Counted::Plain if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        Counted::Plain => format!("{number:.3}"),
    }
}

/// Remarks on trials (each once), duplicates, unrecognised lines, and remarks on the whole.
fn said(imported: &Imported, style: Style) -> String {
    let mut texts = trials_remarks(imported);
    if let Some(first) = imported.duplicates.first() {
        texts.push(format!(
            "{} printed twice, counted once; the first at {}, again at {}",
            counted(imported.duplicates.len() as u64, "result"),
            place(&first.first),
            place(&first.again)
        ));
    }
    if !imported.claims.is_empty() {
        texts.push(format!(
            "{} of a printed comparison: `iodyno compare` checks them against the trials",
            counted(imported.claims.len() as u64, "row")
        ));
    }
    texts.extend(imported.remarks.iter().cloned());
    let mut text = remarks(&texts, style);
    for unread in &imported.unread {
        let line = format!(
            "not read, {}: {}: {}",
            place(&unread.at),
            unread.why,
            unread.text.trim()
        );
        text += &style.paragraph(&format!("! {line}"), 2, Paint::Yellow);
    }
    text
}

/// Remarks on trials. If several differ only in their numbers, the first one is printed with their count.
fn trials_remarks(imported: &Imported) -> Vec<String> {
    let mut kinds: Vec<(String, String, usize)> = Vec::new();
    for trial in &imported.trials {
        for remark in &trial.remarks {
            let kind = kind(remark);
            match kinds.iter_mut().find(|(known, ..)| *known == kind) {
                Some((.., count)) => *count += 1,
                None => {
                    let text = format!("{} on {}: {remark}", trial.workload, trial.configuration);
                    kinds.push((kind, text, 1));
                }
            }
        }
    }
    kinds
        .into_iter()
        .map(|(_, text, count)| match count {
            1 => text,
            _ => format!("{text} (and {} more like it)", count - 1),
        })
        .collect()
}

/// A remark up to its first colon or comma, without its numbers.
fn kind(remark: &str) -> String {
    let words = remark.replace(|character: char| character.is_ascii_digit(), "");
    let end = words.find([':', ',']).unwrap_or(words.len());
    words[..end].to_owned()
}

fn remarks(texts: &[String], style: Style) -> String {
    texts
        .iter()
        .map(|text| style.paragraph(&format!("- {text}"), 2, None))
        .collect()
}

fn heading(text: &str, style: Style) -> String {
    style.paint(Paint::Cyan, &sanitize(text)) + "\n"
}

fn place(at: &SourceLine) -> String {
    format!("{} line {}", at.source, at.line)
}
