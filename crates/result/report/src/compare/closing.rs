//! The table that closes an experiment, as text, as markup and as JSON.

use std::collections::BTreeSet;

use iodyno_model::ordered::distinct;
use iodyno_model::{Estimated, FilledTable, Observation, TableCell, TableHead, TableLine};

use super::ComparisonFormat;
use super::figures::{times, value_in};
use super::pivot::{Entry, Grid, Sides, value};
use super::regret::{RegretView, regret, regret_markup};
use super::view::{TOLD_BY_UNIT, Tone};
use super::words::{better, tag, unit_name};
use crate::json::object;
use crate::style::{Paint, Style, sanitize, trimmed};
use crate::table::Markup;

/// What the signs of verdicts mean.
const SIGNS: [(&str, &str); 4] = [
    ("+", "faster"),
    ("-", "slower"),
    ("=", "no difference that matters"),
    ("?", "undecided"),
];

/// The heading of means.
const MEAN: &str = "mean";

/// A title, the values with a sign for each verdict, and the meaning of the signs. If the table is too wide, outer
/// columns become rows. Ends with a newline.
pub fn closing_table(table: &FilledTable, style: Style) -> String {
    let mut text = style.paint(Paint::Strong, &style.plain(&sanitize(&table.title))) + "\n";
    let mut shape = table.clone();
    text += &loop {
        let drawn = grid(&shape).draw(Sides::Columns, style);
        match drawn {
            None => break String::new(),
            Some((text, width)) if width <= style.columns() => break text,
            Some(_) => {}
        }
        shape = match with_one_column_less(&shape) {
            Some(shape) => shape,
            // Each line as a block.
            None => break flat(table).draw(style.columns(), style),
        };
    };
    if let Some(line) = meaning(table) {
        text += &style.paragraph(&line, 2, Paint::Dim);
    }
    if let Some(found) = &table.regret {
        text += "\n";
        text += &regret(found, style);
    }
    trimmed(&style.plain(&text))
}

/// The same in markup.
pub fn closing_markup(table: &FilledTable, markup: Markup) -> String {
    let title = markup.strong(&markup.escape(&table.title));
    let mut blocks = vec![markup.paragraph(&[title]), flat(table).markup(markup)];
    blocks.extend(meaning(table).map(|line| markup.paragraph(&[markup.escape(&line)])));
    blocks.extend(table.regret.iter().map(|it| regret_markup(it, markup)));
    blocks.join("\n")
}

fn flat(table: &FilledTable) -> crate::table::Table {
    let grid = grid(table);
    let names = table.rows.iter().map(|name| sanitize(name)).collect();
    grid.flat(names)
}

/// `compared with ext4: + faster, ? undecided`.
fn meaning(table: &FilledTable) -> Option<String> {
    let baseline = sanitize(table.baseline.as_deref()?);
    let cells = table.lines.iter().flat_map(|line| &line.cells);
    let verdicts = cells.filter_map(|cell| cell.verdict.as_ref());
    let used: BTreeSet<&str> = verdicts.map(|it| Tone::of(it).sign()).collect();
    let meanings = SIGNS.iter().filter(|(sign, _)| used.contains(sign));
    let meanings: Vec<String> = meanings
        .map(|(sign, what)| format!("{sign} {what}"))
        .collect();
    let line = format!("compared with {baseline}: {}", meanings.join(", "));
    (!meanings.is_empty()).then_some(line)
}

/// The table with its outermost column dimension as a row dimension; `None` without one.
fn with_one_column_less(table: &FilledTable) -> Option<FilledTable> {
    let dimension = table.columns.first()?.clone();
    let inner = |head: &TableHead| TableHead {
        values: head.values[1..].to_vec(),
        metric: head.metric.clone(),
    };
    let heads = distinct(table.heads.iter().map(inner));
    let outer = table.heads.iter().map(|head| head.values[0].clone());
    let outer = distinct(outer);
    let line = |line: &TableLine, value: &String| {
        let cell = |head: &TableHead| {
            let same = |it: &TableHead| it.values[0] == *value && inner(it) == *head;
            let place = table.heads.iter().position(same);
            place.map_or_else(TableCell::default, |place| line.cells[place].clone())
        };
        TableLine {
            values: [line.values.as_slice(), std::slice::from_ref(value)].concat(),
            family: line.family,
            cells: heads.iter().map(cell).collect(),
        }
    };
    let lines = table
        .lines
        .iter()
        .flat_map(|it| outer.iter().map(|value| line(it, value)));
    Some(FilledTable {
        rows: [table.rows.as_slice(), &[dimension]].concat(),
        columns: table.columns[1..].to_vec(),
        lines: lines.collect(),
        heads,
        ..table.clone()
    })
}

fn grid(table: &FilledTable) -> Grid {
    let shown = ComparisonFormat {
        bandwidth: table.unit,
        digits: table.digits,
        ..ComparisonFormat::default()
    };
    // Each median, followed by the mean.
    let statistics: &[&str] = match table.mean {
        true => &["median", MEAN],
        false => &[""],
    };
    let heads = table.heads.iter().flat_map(|head| {
        let path = head.values.iter().chain(&head.metric);
        let path: Vec<String> = path.map(|text| sanitize(text)).collect();
        statistics.iter().map(move |statistic| {
            let statistic = table.mean.then(|| (*statistic).to_owned());
            path.iter().cloned().chain(statistic).collect()
        })
    });
    let lines = table.lines.iter().map(|line| {
        let entries = line.cells.iter().flat_map(|cell| {
            let both = statistics.iter().map(|it| entry(cell, *it == MEAN, &shown));
            both.collect::<Vec<Entry>>()
        });
        (labels(table, line), entries.collect())
    });
    Grid {
        heads: heads.collect(),
        lines: lines.collect(),
    }
}

/// The values of a line, with the metric where neither the headings nor its unit identify it.
fn labels(table: &FilledTable, line: &TableLine) -> Vec<String> {
    let mut labels: Vec<String> = line.values.iter().map(|value| sanitize(value)).collect();
    let mut rows = table.rows.iter();
    let workload = rows.position(|name| name == Observation::WORKLOAD);
    if let Some(place) = workload.filter(|_| line.family) {
        labels[place] += " (family)";
    }
    let Some(last) = labels.last_mut() else {
        return vec![String::new()];
    };
    let named = table.heads.iter().any(|head| head.metric.is_some());
    let metric = line.cells.iter().find_map(|cell| cell.metric.as_ref());
    if let Some(metric) = metric.filter(|it| !named && !TOLD_BY_UNIT.contains(&it.name.as_str())) {
        *last = format!("{last} {}", sanitize(&metric.name))
            .trim()
            .to_owned();
    }
    labels
}

fn entry(cell: &TableCell, mean: bool, shown: &ComparisonFormat) -> Entry {
    let figure = match mean {
        true => cell.mean,
        false => cell.median,
    };
    let in_unit = figure.zip(cell.metric.as_ref());
    let text =
        in_unit.map(|(figure, metric)| value(&value_in(figure, &metric.unit, shown), &metric.name));
    let ratio = cell.ratio.filter(|_| !mean).map(|value| {
        times(&Estimated {
            value,
            interval: None,
            level: 0.0,
        })
    });
    let missing = || cell.missing.as_deref().filter(|_| !mean).map(sanitize);
    let tone = cell.verdict.as_ref().filter(|_| !mean).map(Tone::of);
    Entry {
        in_unit: text.is_some(),
        value: text.or(ratio).or_else(missing).unwrap_or_default(),
        mark: tone.map_or_else(String::new, |tone| tone.sign().to_owned()),
        paint: tone.map(Tone::paint),
    }
}

object!(ClosingView<'a>(table in &'a FilledTable) {
    title: table.title,
    // Whose verdicts the cells have; null: nothing is compared.
    baseline: table.baseline,
    rows: table.rows,
    columns: table.columns,
    lines: (table.lines.iter()).map(|line| LineView((table, line))).collect::<Vec<_>>(),
    regret [opt]: table.regret.as_ref().map(RegretView),
});

object!(LineView<'a>((table, line) in (&'a FilledTable, &'a TableLine)) {
    // A value for each dimension of the rows.
    values: line.values,
    // The figures are ratios of its workloads.
    family: line.family,
    cells: table.heads.iter().zip(&line.cells).map(CellView).collect::<Vec<_>>(),
});

object!(CellView<'a>((head, cell) in (&'a TableHead, &'a TableCell)) {
    // A value for each dimension of the columns.
    values: head.values,
    metric: cell.metric.as_ref().map(|metric| &metric.name),
    unit: cell.metric.as_ref().map(|metric| unit_name(&metric.unit)),
    better: cell.metric.as_ref().map(|metric| better(metric.better)),
    median: cell.median,
    mean: cell.mean,
    // The speed ratio of a family.
    ratio [opt]: &cell.ratio,
    // Why there is no figure.
    missing [opt]: &cell.missing,
    verdict [opt]: cell.verdict.as_ref().map(tag),
});

#[cfg(test)]
mod tests;
