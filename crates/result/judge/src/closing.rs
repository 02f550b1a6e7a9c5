//! The table that closes an experiment: the answers to its question in the table's layout.
//!
//! The compared dimension keeps its baseline wherever the table prints it: as columns, as rows, or by other dimensions
//! that its values define, as a configuration defines its file system. If the trials have one value of it, the table
//! has values without verdicts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use iodyno_model::ordered::distinct;
use iodyno_model::{
    CandidateResult, ClosingTable, ComparedRow, Comparison, Direction, FilledTable, Metric,
    Observation, Question, Run, Side, TableCell, TableHead, TableLine, Verdict,
};

use crate::{CompareError, chosen, compare, default_rows, regret, title_of, without_searches};

/// The closing table of some runs, and the comparison that gives its verdicts. The trials of searches are left out.
///
/// # Errors
/// The trials lack a dimension or a metric of the table, or there is only one cell.
pub fn closing_table(
    runs: &[Run],
    trials: &[Observation],
    question: &Question,
    table: &ClosingTable,
) -> Result<(Comparison, FilledTable), CompareError> {
    let own = trials.iter().filter(|trial| trial.probe.is_none());
    let mut trials: Vec<Observation> = own.cloned().collect();
    in_order_of_plans(&mut trials, runs);
    let question = without_searches(question, runs.iter().map(|run| &run.plan));
    let kept = trials
        .iter()
        .filter(|it| !it.again && chosen(it, &question));
    let kept: Vec<&Observation> = kept.collect();
    let layout = Layout::new(runs, table, question, &kept);
    let title = title_of(runs);
    let comparison = compare(&title, &trials, &layout.question, &[])?;
    let mut filled = layout.filled(&comparison, &kept);
    if !table.title.is_empty() {
        filled.title.clone_from(&table.title);
    }
    (filled.unit, filled.digits, filled.mean) = (table.unit, table.digits, table.mean);
    if table.regret {
        let once: Vec<Observation> = trials.into_iter().filter(|it| !it.again).collect();
        filled.regret = Some(regret(&title, &once, &comparison.question)?);
    }
    Ok((comparison, filled))
}

/// Sorts trials as the plans name their configurations and workloads, so that rows and columns have this order.
pub fn in_order_of_plans(trials: &mut [Observation], runs: &[Run]) {
    let configurations = runs.iter().flat_map(|run| &run.plan.configurations);
    let workloads = runs.iter().flat_map(|run| &run.plan.workloads);
    let configurations: Vec<&str> = configurations.map(|it| it.name.as_str()).collect();
    let workloads: Vec<&str> = workloads.map(|it| it.name.as_str()).collect();
    trials.sort_by_key(|trial| {
        let place = |names: &[&str], dimension: &str| {
            let name = trial.dimension(dimension);
            names.iter().position(|one| *one == name)
        };
        (
            place(&configurations, Observation::CONFIGURATION),
            place(&workloads, Observation::WORKLOAD),
        )
    });
}

fn number_of_values(trials: &[&Observation], dimension: &str) -> usize {
    let values = trials.iter().map(|trial| trial.dimension(dimension));
    values.collect::<BTreeSet<&str>>().len()
}

/// Whether trials with equal values of these dimensions have the same value of another one.
fn define(dimensions: &[String], other: &str, trials: &[&Observation]) -> bool {
    let mut known: HashMap<Vec<&str>, &str> = HashMap::new();
    trials.iter().all(|trial| {
        let values = dimensions.iter().map(|name| trial.dimension(name));
        let value = trial.dimension(other);
        *known.entry(values.collect()).or_insert(value) == value
    })
}

/// The metrics of a name in a table: `p99` is that of all ops if the work has it, otherwise of each direction.
fn in_full(name: &str, trials: &[&Observation]) -> Vec<String> {
    let there = |name: &String| trials.iter().any(|trial| knows(trial, name));
    let name = name.to_owned();
    if there(&name) {
        return vec![name];
    }
    let of = |direction: Direction| format!("{}.{name}", direction.name());
    let all = of(Direction::Op);
    if there(&all) {
        return vec![all];
    }
    let moves = [Direction::Read, Direction::Write, Direction::Trim];
    let each: Vec<String> = moves.map(of).into_iter().filter(there).collect();
    match each.is_empty() {
        true => vec![name],
        false => each,
    }
}

/// Whether a trial has a metric, or withholds it.
fn knows(trial: &Observation, metric: &str) -> bool {
    let mut withheld = trial.withheld.iter();
    trial.figure(metric).is_some() || withheld.any(|it| it.metric == metric)
}

/// The dimensions of a table, and the question that gives its verdicts.
struct Layout {
    rows: Vec<String>,
    columns: Vec<String>,
    question: Question,
    /// Whether the question was asked: otherwise its verdicts are not printed.
    compares: bool,
    /// The dimensions of the table that a value of the compared one defines.
    defined: BTreeMap<String, BTreeMap<String, String>>,
}

impl Layout {
    fn new(
        runs: &[Run],
        table: &ClosingTable,
        question: Question,
        trials: &[&Observation],
    ) -> Layout {
        let columns = match table.columns.as_slice() {
            [] => vec![question.columns.clone()],
            columns => columns.to_vec(),
        };
        let mut rows = match (table.rows.is_empty(), table.columns.is_empty()) {
            (false, _) => table.rows.clone(),
            (true, true) => question.rows.clone(),
            (true, false) => {
                let own: Vec<Observation> = trials.iter().map(|it| (*it).clone()).collect();
                default_rows(&columns[0], &columns[1..], &own)
            }
        };
        rows.retain(|row| !columns.contains(row));
        // A dimension that nobody asked to compare is compared in columns only.
        let asked = !question.inferred || question.baseline.is_some();
        let several = |dimension: &String| number_of_values(trials, dimension) > 1;
        let own = several(&question.columns) && (asked || columns.contains(&question.columns));
        let other = || columns.iter().chain(&rows).find(|it| several(it)).cloned();
        let (compared, compares) = match (own, other()) {
            (false, Some(other)) => {
                let compares = !asked && columns[0] == other;
                (other, compares)
            }
            (own, _) => (question.columns.clone(), own),
        };
        let all = [columns.as_slice(), &rows].concat();
        if !all.contains(&compared) && !define(&all, &compared, trials) {
            rows.push(compared.clone());
        }
        let (defines, others): (Vec<String>, Vec<String>) = (columns.iter().chain(&rows))
            .filter(|name| **name != compared)
            .cloned()
            .partition(|name| {
                several(name) && define(std::slice::from_ref(&compared), name, trials)
            });
        let of_side = |trial: &&Observation| {
            let values = defines.iter();
            let values = values.map(|name| (name.clone(), trial.dimension(name).to_owned()));
            (trial.dimension(&compared).to_owned(), values.collect())
        };
        let defined = trials.iter().map(of_side).collect();
        Layout {
            question: asked_in(runs, table, question, (compared, others), trials),
            rows,
            columns,
            compares,
            defined,
        }
    }

    /// The value of a dimension for a side of a row.
    fn value(&self, row: &ComparedRow, side: &str, dimension: &String) -> String {
        let place = self.question.rows.iter().position(|it| it == dimension);
        let of_row = place.and_then(|place| row.name.get(place));
        let of_side = || self.defined.get(side)?.get(dimension);
        match of_row.or_else(of_side) {
            Some(value) => value.clone(),
            None => side.to_owned(),
        }
    }

    fn filled(&self, comparison: &Comparison, trials: &[&Observation]) -> FilledTable {
        let mut trials_at: HashMap<Position, Vec<&Observation>> = HashMap::new();
        for trial in trials {
            let values = |names: &[String]| -> Vec<String> {
                let values = names.iter().map(|name| trial.dimension(name).to_owned());
                values.collect()
            };
            let place = (values(&self.rows), values(&self.columns));
            trials_at.entry(place).or_default().push(trial);
        }
        let metrics = self.metrics(comparison);
        let places = self.places(comparison, metrics != [None], &trials_at);
        let known = |head: &TableHead| {
            let own = trials_at.iter().filter(|((_, it), _)| *it == head.values);
            let mut own = own.flat_map(|(_, trials)| trials);
            let metric = head.metric.as_ref();
            metric.is_none_or(|metric| own.any(|trial| knows(trial, metric)))
        };
        let heads = distinct(places.iter().map(|((_, head), _)| &head.values));
        let of_metrics = in_levels(heads, |values| values)
            .into_iter()
            .flat_map(|values| {
                metrics.iter().map(move |metric| TableHead {
                    values: values.clone(),
                    metric: metric.clone(),
                })
            });
        let heads: Vec<TableHead> = of_metrics.filter(known).collect();
        let lines = distinct(places.iter().map(|((line, _), _)| line));
        let lines = in_levels(lines, |(values, _)| values);
        let at: HashMap<&(LineKey, TableHead), &Place<'_>> =
            places.iter().map(|(key, place)| (key, place)).collect();
        let lines = lines.into_iter().map(|line| {
            let cell = |head: &TableHead| {
                let place = at.get(&(line.clone(), head.clone())).copied();
                let trials = trials_at.get(&(line.0.clone(), head.values.clone()));
                let trials = trials.map_or(&[][..], Vec::as_slice);
                cell(place, trials, head.metric.as_deref(), self.compares)
            };
            TableLine {
                cells: heads.iter().map(cell).collect(),
                family: line.1,
                values: line.0.clone(),
            }
        });
        FilledTable {
            title: comparison.name.clone(),
            baseline: self.compares.then(|| comparison.columns[0].clone()),
            rows: self.rows.clone(),
            columns: self.columns.clone(),
            lines: lines.collect(),
            heads,
            ..FilledTable::default()
        }
    }

    /// The sides of each row of a comparison, by their places in the table. `beside`: metrics are in the headings.
    fn places<'c>(
        &self,
        comparison: &'c Comparison,
        beside: bool,
        trials_at: &HashMap<Position, Vec<&Observation>>,
    ) -> Vec<((LineKey, TableHead), Place<'c>)> {
        let mut places = Vec::new();
        for row in &comparison.rows {
            for column in &comparison.columns {
                let result = row.cells.iter().find(|it| it.side.column == *column);
                let side = match result {
                    Some(result) => &result.side,
                    None if row.baseline.column == *column => &row.baseline,
                    None => continue,
                };
                let values = |names: &[String]| -> Vec<String> {
                    let values = names.iter().map(|name| self.value(row, column, name));
                    values.collect()
                };
                let place = (values(&self.rows), values(&self.columns));
                // Where others define the compared dimension, a place has one value of it.
                let of_other = trials_at.get(&place).is_some_and(|trials| {
                    let mut own = trials.iter();
                    own.all(|trial| trial.dimension(&self.question.columns) != column)
                });
                if of_other {
                    continue;
                }
                let head = TableHead {
                    values: place.1,
                    metric: beside.then(|| row.metric.name.clone()),
                };
                let key = ((place.0, row.family), head);
                places.push((key, Place { row, side, result }));
            }
        }
        places
    }

    /// The metrics that are side by side: those that the question names if there are several, and all of a row that
    /// has several.
    fn metrics(&self, comparison: &Comparison) -> Vec<Option<String>> {
        let asked = self.question.metrics.iter();
        let asked: Vec<&String> = asked.filter(|name| *name != Metric::EVERY).collect();
        let mut seen = BTreeSet::new();
        let mut rows = comparison.rows.iter();
        if asked.len() < 2 && rows.all(|row| seen.insert((&row.name, row.family))) {
            return vec![None];
        }
        let of_rows = comparison.rows.iter().map(|row| &row.metric.name);
        let all = distinct(asked.into_iter().chain(of_rows));
        all.into_iter().cloned().map(Some).collect()
    }
}

/// A value for each dimension of the rows, and of the columns.
type Position = (Vec<String>, Vec<String>);

/// A value for each dimension of the rows, and whether the line is a family.
type LineKey = (Vec<String>, bool);

/// The results of a cell.
struct Place<'c> {
    row: &'c ComparedRow,
    side: &'c Side,
    /// `None` for the baseline.
    result: Option<&'c CandidateResult>,
}

/// The question in a layout that compares a dimension in rows of others.
fn asked_in(
    runs: &[Run],
    table: &ClosingTable,
    question: Question,
    (compared, rows): (String, Vec<String>),
    trials: &[&Observation],
) -> Question {
    let as_before = compared == question.columns;
    let own_metrics = !table.metrics.is_empty();
    let names = table.metrics.iter();
    let metrics: Vec<String> = names.flat_map(|name| in_full(name, trials)).collect();
    Question {
        baseline: question.baseline.filter(|_| as_before),
        defines: match (as_before, runs) {
            (true, _) => question.defines,
            (false, [run]) => run.plan.defines(&compared),
            (false, _) => None,
        },
        columns: compared,
        across: Vec::new(),
        rows,
        primary_metrics: match own_metrics {
            true => metrics.len(),
            false => question.primary_metrics,
        },
        metrics: match own_metrics {
            true => metrics,
            false => question.metrics,
        },
        metric_where: match own_metrics {
            true => Vec::new(),
            false => question.metric_where,
        },
        ..question
    }
}

/// Sorts items by each level of their paths, in the order in which its values appear.
fn in_levels<T>(mut items: Vec<T>, path: fn(&T) -> &Vec<String>) -> Vec<T> {
    let mut orders: Vec<HashMap<String, usize>> = Vec::new();
    for item in &items {
        let path = path(item);
        orders.resize_with(path.len().max(orders.len()), HashMap::new);
        for (order, value) in orders.iter_mut().zip(path) {
            let next = order.len();
            order.entry(value.clone()).or_insert(next);
        }
    }
    items.sort_by_key(|item| {
        let levels = path(item).iter().zip(&orders);
        let places = levels.map(|(value, order)| order.get(value).copied());
        places.collect::<Vec<_>>()
    });
    items
}

/// A cell of a metric, or of the row's own one.
fn cell(
    place: Option<&Place<'_>>,
    trials: &[&Observation],
    metric: Option<&str>,
    compares: bool,
) -> TableCell {
    let Some(Place { row, side, result }) = place else {
        return TableCell {
            missing: Some(why_missing(trials, metric.unwrap_or_default())),
            ..TableCell::default()
        };
    };
    let told = |result: &&CandidateResult| {
        let none = matches!(
            result.verdict,
            Verdict::NotComparable { .. } | Verdict::NoData { .. }
        );
        !none
    };
    // Values of different workloads have no common median.
    let mut results = row.cells.iter();
    let combined = row.family || results.any(|it| !it.members.is_empty());
    let ratio = match result {
        _ if !combined => None,
        Some(result) => result.ratio.filter(|_| told(result)).map(|it| it.value),
        None => row.cells.iter().find(told).map(|_| 1.0),
    };
    let median = side.median.map(|it| it.value).filter(|_| !combined);
    let missing = match (median, ratio) {
        (None, None) if combined => Some("not comparable".to_owned()),
        (None, None) => Some(why_missing(trials, &row.metric.name)),
        _ => None,
    };
    let mean = median.map(|_| side.values.iter().sum::<f64>() / side.values.len() as f64);
    let verdict = result.map(|result| result.verdict.clone());
    TableCell {
        metric: Some(row.metric.clone()),
        verdict: verdict
            .filter(|it| compares && missing.is_none() && !matches!(it, Verdict::NoData { .. })),
        median,
        mean,
        ratio,
        missing,
    }
}

/// The longest reason that is printed in a cell, characters.
const MAX_REASON: usize = 24;

/// Why these trials have no figure, in a few words.
fn why_missing(trials: &[&Observation], metric: &str) -> String {
    // Reasons begin with the essence.
    let in_short = |why: &str| why.split([':', ',', ';']).next().map(str::to_owned);
    let Some(first) = trials.first() else {
        return "not run".to_owned();
    };
    let usable = || trials.iter().filter(|trial| trial.unusable.is_none());
    if usable().next().is_none() {
        let why = first.unusable.as_deref().and_then(in_short);
        let why = why.filter(|why| why.chars().count() <= MAX_REASON);
        return why.unwrap_or_else(|| "invalid".to_owned());
    }
    let mut withheld = usable().flat_map(|trial| &trial.withheld);
    if let Some(why) = withheld.find(|it| it.metric == metric) {
        return match in_short(&why.why) {
            Some(why) if !why.is_empty() => format!("no {metric}: {why}"),
            _ => format!("no {metric}"),
        };
    }
    let of_op = |op: &str| {
        let figures = usable().flat_map(|trial| &trial.figures);
        let names = figures.map(|figure| &figure.metric.name);
        let withheld = usable().flat_map(|trial| &trial.withheld);
        let mut names = names.chain(withheld.map(|it| &it.metric));
        names.any(|name| name.split_once('.').is_some_and(|(own, _)| own == op))
    };
    match metric.split_once('.') {
        Some((op, _)) if !of_op(op) => format!("no {op}"),
        _ => format!("no {metric}"),
    }
}

#[cfg(test)]
mod tests;
