//! Imported output of other programs, as text: results, further tables, and lines that were not recognised.

use std::collections::{BTreeMap, HashMap};

use iodyno_model::{Figure, Imported, ImportedTable, Unit};
use iodyno_units::{Bytes, counted};

use crate::compare::{contradiction, place, value};
use crate::style::{Paint, Style, sanitize, trimmed};
use crate::table::{Column, Table};

/// Dimensions that number repetitions: such trials are in one row.
const REPETITIONS: [&str; 2] = ["loop", "round"];

/// A summary: statements that the figures contradict, a row for each workload on each configuration, then remarks.
pub fn text(imported: &Imported, style: Style) -> String {
    let mut text = contradictions(imported, style);
    text += &results(imported, MAX_ROWS, style);
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
    let mut text = contradictions(imported, style);
    text += &results(imported, usize::MAX, style);
    for table in &imported.tables {
        text += "\n";
        text += &heading(&format!("{}, {}", subject(table), place(&table.at)), style);
        text += &series(table);
        text += &remarks(&table.remarks, style);
    }
    text += &said(imported, style);
    style.plain(&trimmed(&text))
}

fn contradictions(imported: &Imported, style: Style) -> String {
    let found = imported.contradictions.iter().map(contradiction);
    style.warnings(&found.collect::<Vec<String>>())
}

fn subject(table: &ImportedTable) -> String {
    match table.subject.is_empty() {
        true => table.form.clone(),
        false => format!("{} of {}", table.form, table.subject),
    }
}

/// A line for each group of repetitions, with the figures that a comparison uses; at most `most` lines.
fn results(imported: &Imported, most: usize, style: Style) -> String {
    if imported.trials.is_empty() {
        return String::new();
    }
    let mut groups: HashMap<[String; 3], Vec<usize>> = HashMap::new();
    for (place, trial) in imported.trials.iter().enumerate() {
        let further = further(&trial.dimensions);
        let name = [trial.configuration, trial.workload, further];
        groups.entry(name).or_default().push(place);
    }
    let mut groups: Vec<([String; 3], Vec<usize>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, trials)| trials[0]);
    let more = groups.len().saturating_sub(most);
    groups.truncate(most);
    let several = groups.iter().any(|(name, _)| !name[2].is_empty());
    let mut columns = vec![Column::left("configuration"), Column::left("workload")];
    columns.extend(several.then(|| Column::left("where")));
    columns.extend([Column::right("trials"), Column::left("figures").wrap(20)]);
    let mut table = Table::new(columns);
    for (name, trials) in &groups {
        let mut cells = name[..2].to_vec();
        cells.extend(several.then(|| name[2].clone()));
        cells.extend([trials.len().to_string(), values(imported, trials)]);
        table.row(cells);
    }
    let mut text = table.draw(style.columns(), style);
    if more > 0 {
        let rows = counted(more as u64, "more row");
        text += &remarks(&[format!("{rows}: `iodyno show` prints all")], style);
    }
    text
}

/// Rows in a summary. More would not be read, and a text can contain a million results with different names.
const MAX_ROWS: usize = 1000;

fn further(dimensions: &BTreeMap<String, String>) -> String {
    let pairs = dimensions
        .iter()
        .filter(|(name, _)| !REPETITIONS.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// The default metric of some trials and its values, and the names of further metrics if there are few.
fn values(imported: &Imported, trials: &[usize]) -> String {
    let trials = || {
        trials
            .iter()
            .filter_map(|place| imported.trials.get(*place))
    };
    let metric = trials().find_map(|trial| trial.primary);
    let mut found: Vec<Figure> = Vec::new();
    let mut count = 0_usize;
    for trial in trials() {
        let mut figures = trial.figures.into_iter();
        let figure = match &metric {
            Some(name) => figures.find(|figure| figure.metric.name == *name),
            None => figures.next(),
        };
        count += usize::from(figure.is_some());
        found.extend(figure.filter(|_| found.len() < MAX_VALUES));
    }
    let Some(first) = found.first() else {
        return "none".to_owned();
    };
    let shown: Vec<String> = found
        .iter()
        .map(|found| value(found.value, &found.metric.unit))
        .collect();
    let more = match count.saturating_sub(MAX_VALUES) {
        0 => String::new(),
        more => format!(", {more} more"),
    };
    let mut others: Vec<String> = Vec::new();
    for figure in trials().flat_map(|trial| trial.figures) {
        let name = figure.metric.name;
        if name != first.metric.name && !others.contains(&name) && others.len() <= MAX_OTHERS {
            others.push(name);
        }
    }
    let others = match others.len() {
        1..=MAX_OTHERS => format!("; also {}", others.join(", ")),
        _ => String::new(),
    };
    format!("{}: {}{more}{others}", first.metric.name, shown.join(", "))
}

/// Further metrics are named up to this number. More are those of a tool's own output, whose metrics are documented.
const MAX_OTHERS: usize = 3;

/// Number of values shown for each group; the store has all.
const MAX_VALUES: usize = 5;

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
    Nanos,
    Plain,
}

fn column(name: &str) -> (&str, Counted) {
    match name.rsplit_once(' ') {
        Some((name, "B")) => (name, Counted::Bytes),
        Some((name, "B/s")) => (name, Counted::BytesPerSecond),
        Some((name, "ops/s")) => (name, Counted::OpsPerSecond),
        Some((name, "ns")) => (name, Counted::Nanos),
        _ => (name, Counted::Plain),
    }
}

fn cell(number: f64, counted: Counted) -> String {
    match counted {
        Counted::Bytes => Bytes(number.round() as u64).to_string(),
        Counted::BytesPerSecond => value(number, &Unit::BytesPerSecond),
        Counted::OpsPerSecond => value(number, &Unit::OpsPerSecond),
        Counted::Nanos => value(number, &Unit::Nanos),
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
            "{} of a printed comparison: `iodyno compare` checks {} against the trials",
            counted(imported.claims.len() as u64, "row"),
            match imported.claims.len() {
                1 => "it",
                _ => "them",
            }
        ));
    }
    texts.extend(imported.remarks.iter().cloned());
    let unread = imported.unread.iter().map(|unread| {
        let (place, text) = (place(&unread.at), unread.text.trim());
        format!("not read, {place}: {}: {text}", unread.why)
    });
    remarks(&texts, style) + &style.warnings(&unread.collect::<Vec<String>>())
}

/// Remarks on trials. If several differ only in their numbers, the first one is printed with their count.
fn trials_remarks(imported: &Imported) -> Vec<String> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for trial in imported.trials.iter() {
        for remark in &trial.remarks {
            let place = *places.entry(kind(remark)).or_insert(kinds.len());
            match kinds.get_mut(place) {
                Some((_, count)) => *count += 1,
                None => {
                    let text = format!("{} on {}: {remark}", trial.workload, trial.configuration);
                    kinds.push((text, 1));
                }
            }
        }
    }
    kinds
        .into_iter()
        .map(|(text, count)| match count {
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

#[cfg(test)]
mod tests {
    use iodyno_model::{ImportedTrial, Kind, Metric, SourceLine};

    use super::*;

    fn trial(workload: String, line: u32) -> ImportedTrial {
        ImportedTrial {
            configuration: "ext4".to_owned(),
            workload,
            dimensions: BTreeMap::new(),
            form: "go benchmark".to_owned(),
            at: SourceLine {
                source: "b.txt".to_owned(),
                line,
            },
            kind: Kind::Unknown,
            primary: Some("iops".to_owned()),
            figures: vec![Figure {
                metric: Metric::iops("iops"),
                value: f64::from(line),
                derived: None,
            }],
            withheld: Vec::new(),
            series: Vec::new(),
            facts: Vec::new(),
            options_complete: false,
            remarks: vec![format!("seen on line {line}")],
            unusable: None,
        }
    }

    #[test]
    fn further_metrics_are_named_if_there_are_few() {
        let summary = |further: &[&str]| {
            let mut first = trial("w".to_owned(), 1);
            first.figures.extend(further.iter().map(|name| Figure {
                metric: Metric::iops(*name),
                value: 1.0,
                derived: None,
            }));
            let mut imported = Imported::default();
            imported.trials.push(first);
            let style = Style {
                width: 200,
                ..Style::default()
            };
            text(&imported, style).lines().nth(1).unwrap().to_owned()
        };
        assert!(summary(&[]).ends_with("iops: 1.00/s"), "{}", summary(&[]));
        assert!(summary(&["a", "b"]).ends_with("iops: 1.00/s; also a, b"));
        assert!(summary(&["a", "b", "c", "d"]).ends_with("iops: 1.00/s"));
    }

    #[test]
    fn a_summary_of_many_different_results_is_cut_and_says_so() {
        let rows = MAX_ROWS as u32 + 2;
        let imported = Imported {
            trials: (1..=2 * rows)
                .map(|line| trial(format!("w{}", line % rows), line))
                .collect(),
            ..Imported::default()
        };
        let short = text(&imported, Style::default());
        assert!(short.contains("\n- 2 more rows: `iodyno show` prints all\n"));
        assert!(short.contains(&format!("(and {} more like it)", 2 * rows - 1)));
        let rows_of = |text: &str| text.matches("\next4").count();
        assert_eq!(rows_of(&short), MAX_ROWS);
        let whole = full(&imported, Style::default());
        assert_eq!(rows_of(&whole), MAX_ROWS + 2);
        assert!(!whole.contains("more row"));
        let first: Vec<&str> = short.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(first[..3], ["ext4", "w1", "2"]);
    }
}
