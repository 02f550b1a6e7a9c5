//! Selects the metrics of each row.

use std::collections::BTreeMap;

use iodyno_model::{Better, Metric, Observation, Question, Unit};

use super::family::{Workload, workloads};
use super::grouping::{Kinship, Row, Table};
use iodyno_model::ordered::entry;

/// Purpose of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A primary comparison; Holm's correction.
    Primary,
    /// An exploratory comparison; Benjamini–Hochberg's correction.
    Exploratory,
    /// No difference is expected: provides the noise floor.
    Floor,
}

/// A row with its metric.
#[derive(Debug)]
pub(super) struct RowMetric<'t, 'a> {
    /// Its trials.
    pub(super) row: &'t Row<'a>,
    /// The same by workload.
    pub(super) workloads: std::rc::Rc<Vec<Workload<'a>>>,
    /// Metric of the row.
    pub(super) metric: Metric,
    /// Metric of each workload: that of the row or, in a family whose workloads have different primary metrics,
    /// their own, as speeds.
    pub(super) own: Vec<Metric>,
    /// Purpose.
    pub(super) role: Role,
    /// Remarks on the choice of metric.
    pub(super) notes: Vec<String>,
}

/// The rows by their metrics: primaries, then exploratory ones, then those of the noise floor; within
/// each in the order of the trials.
pub(super) fn rows<'t, 'a>(table: &'t Table<'a>, question: &Question) -> Vec<RowMetric<'t, 'a>> {
    let mut asked = Vec::new();
    for row in &table.rows {
        let of_family = row.kinship == Kinship::Family;
        let known = question.rows.iter();
        // The row of a family has its name in place of the workloads'.
        let known = known.filter(|name| !(of_family && *name == Observation::WORKLOAD));
        let known: Vec<String> = known.cloned().collect();
        let members = std::rc::Rc::new(workloads(row, &question.columns, &known));
        let (primary, own, notes) = first(row, &members, table, question);
        let mut add = |metric: Metric, own: Vec<Metric>, role, notes| {
            asked.push(RowMetric {
                row,
                workloads: members.clone(),
                metric,
                own,
                role,
                notes,
            });
        };
        let (role, others) = match (row.floor, is_computed(row), row.kinship) {
            (true, _, _) => (Role::Floor, Role::Floor),
            (false, true, _) | (false, _, Kinship::Member) => {
                (Role::Exploratory, Role::Exploratory)
            }
            (false, false, _) => (Role::Primary, Role::Exploratory),
        };
        let beside = match chosen(row, question) {
            Some(_) => 0,
            None => {
                let names = question.metrics.iter().take(question.primary_metrics);
                names.take_while(|name| *name != Metric::EVERY).count()
            }
        };
        let (beside, further) = question.metrics.split_at(beside);
        let mut known = vec![primary.clone()];
        add(primary, own, role, notes);
        for (names, role) in [(beside, role), (further, others)] {
            for metric in named(row, names, &mut known) {
                let own = vec![metric.clone(); members.len()];
                add(metric, own, role, Vec::new());
            }
        }
    }
    asked.sort_by_key(|asked| (asked.role != Role::Primary, asked.role == Role::Floor));
    asked
}

/// Whether all trials of a row were computed from other rows, such as the sum over nodes: to count it as well would
/// count the same results twice.
fn is_computed(row: &Row) -> bool {
    row.trials().all(|trial| {
        let mut figures = trial.figures.iter();
        trial.primary.is_none()
            && !trial.figures.is_empty()
            && figures.all(|figure| figure.derived.is_some())
    })
}

/// The row's metric, the metric of each of its workloads, and remarks. Ratios have no unit, so the workloads of
/// a family may have different metrics.
fn first(
    row: &Row,
    workloads: &[Workload],
    table: &Table,
    question: &Question,
) -> (Metric, Vec<Metric>, Vec<String>) {
    let (metric, notes) = primary(row, table, question);
    let asked = asked(row, question).is_some();
    let own: Vec<Metric> = workloads
        .iter()
        .map(|workload| {
            let trials = workload.columns.iter().flatten().copied();
            let counted = primaries(trials, row, table, question);
            counted
                .into_iter()
                .next()
                .map_or(metric.clone(), |(most, _)| most)
        })
        .collect();
    if asked || own.iter().all(|own| *own == metric) {
        let own = vec![metric.clone(); workloads.len()];
        return (metric, own, notes);
    }
    let mut names: Vec<String> = own.iter().map(|metric| metric.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    let note = format!(
        "each workload by its own metric: {}",
        iodyno_units::list(&names)
    );
    (speed(), own, vec![note])
}

/// The common metric of workloads with different primary metrics; times count as their inverse.
fn speed() -> Metric {
    Metric {
        name: "speed".to_owned(),
        unit: Unit::Other(String::new()),
        better: Better::Higher,
    }
}

/// The metric that the question asks for in trials with one of this trial's values.
fn condition<'q>(trial: &Observation, question: &'q Question) -> Option<&'q String> {
    let mut conditions = question.metric_where.iter();
    let applies =
        |(dimension, value, _): &&(String, String, String)| trial.dimension(dimension) == value;
    conditions.find(applies).map(|(_, _, metric)| metric)
}

/// The metric that the question asks for in trials with one of the values of each of this row's trials.
fn chosen<'q>(row: &Row, question: &'q Question) -> Option<&'q String> {
    let first = condition(row.trials().next()?, question)?;
    let same = |trial| condition(trial, question) == Some(first);
    row.trials().all(same).then_some(first)
}

/// The metric that the question asks for in all rows.
fn of_all(question: &Question) -> Option<&String> {
    let first = question.metrics.first();
    first.filter(|name| *name != Metric::EVERY)
}

/// The metric that the question asks for in all trials of this row; `None`: the trials' own.
fn asked<'q>(row: &Row, question: &'q Question) -> Option<&'q String> {
    let mut trials = row.trials();
    let apart = trials.any(|trial| condition(trial, question).is_some());
    chosen(row, question).or_else(|| of_all(question).filter(|_| !apart))
}

/// The row's metric, and remarks.
fn primary(row: &Row, table: &Table, question: &Question) -> (Metric, Vec<String>) {
    if let Some(name) = asked(row, question) {
        return (asked_metric(name, row, table), Vec::new());
    }
    let counted = primaries(row.trials(), row, table, question);
    match counted.as_slice() {
        [] => (any_metric(row), Vec::new()),
        [(only, _)] => (only.clone(), Vec::new()),
        [(most, _), rest @ ..] => {
            let other: Vec<String> = rest.iter().map(|(metric, _)| metric.name.clone()).collect();
            let trials = rest.iter().map(|(_, count)| count).sum();
            let note = format!(
                "compared by {}, though {} would be judged by {}",
                most.name,
                super::words::trials(trials),
                iodyno_units::list(&other)
            );
            (most.clone(), vec![note])
        }
    }
}

/// The metric of a name that a row is to be compared by, even if none of its trials has it.
fn asked_metric(name: &str, row: &Row, table: &Table) -> Metric {
    let own = metric_named(row.trials(), name);
    let anywhere = || metric_named(table.rows.iter().flat_map(Row::trials), name);
    own.or_else(anywhere).unwrap_or_else(|| Metric::iops(name))
}

/// The metrics of some trials of a row, the most frequent first: for each trial the one that the question asks for,
/// otherwise the trial's primary one. A metric that some trials withhold is last: it is withheld for all, so one that
/// all trials have is preferred.
fn primaries<'a>(
    trials: impl Iterator<Item = &'a Observation> + Clone,
    row: &Row,
    table: &Table,
    question: &Question,
) -> Vec<(Metric, usize)> {
    let mut named: BTreeMap<&str, Metric> = BTreeMap::new();
    let found: Vec<Option<&str>> = trials
        .clone()
        .map(|trial| condition(trial, question).or_else(|| of_all(question)))
        .map(|name| name.map(String::as_str))
        .collect();
    for name in found.iter().copied().flatten() {
        let metric = || asked_metric(name, row, table);
        named.entry(name).or_insert_with(metric);
    }
    let own = trials.clone().zip(&found);
    let mut counted = votes(own.filter_map(|(trial, name)| match name {
        Some(name) => named.get(name),
        None => trial.primary.as_ref(),
    }));
    counted.sort_by_key(|(metric, _)| {
        let mut withheld = trials.clone().flat_map(|o| &o.withheld);
        withheld.any(|it| it.metric == metric.name)
    });
    let owned = counted.into_iter();
    owned
        .map(|(metric, count)| (metric.clone(), count))
        .collect()
}

/// The metric of this name as in most trials.
fn metric_named<'a>(trials: impl Iterator<Item = &'a Observation>, name: &str) -> Option<Metric> {
    let metrics = trials.filter_map(|o| o.figure(name)).map(|f| &f.metric);
    votes(metrics).first().map(|(metric, _)| (*metric).clone())
}

/// Metrics with the number of times that they are named: the most frequent first, then in the order of appearance.
fn votes<'a>(metrics: impl Iterator<Item = &'a Metric>) -> Vec<(&'a Metric, usize)> {
    let mut counted: Vec<(&Metric, usize)> = Vec::new();
    for metric in metrics {
        *entry(&mut counted, metric) += 1;
    }
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted
}

/// The metric if no trial has a primary one: completion, a rate, or any other.
fn any_metric(row: &Row) -> Metric {
    [Metric::COMPLETION, Metric::IOPS, Metric::BANDWIDTH]
        .iter()
        .find_map(|name| metric_named(row.trials(), name))
        .or_else(|| {
            let mut figures = row.trials().flat_map(|o| &o.figures);
            figures.next().map(|figure| figure.metric.clone())
        })
        .unwrap_or_else(|| Metric::iops(Metric::IOPS))
}

/// The metrics of these names that a row has and that are not `known` yet.
fn named(row: &Row, names: &[String], known: &mut Vec<Metric>) -> Vec<Metric> {
    let mut found: Vec<Metric> = Vec::new();
    let mut add = |metric: Metric| {
        if !known.iter().any(|known| known.name == metric.name) {
            known.push(metric.clone());
            found.push(metric);
        }
    };
    for name in names {
        if name == Metric::EVERY {
            let baseline = row.columns.first().into_iter().flatten();
            for figure in baseline.flat_map(|o| &o.figures) {
                let name = &figure.metric.name;
                let mut candidates = row.columns.iter().skip(1).flatten();
                if candidates.any(|o| o.figure(name).is_some()) {
                    add(figure.metric.clone());
                }
            }
        } else if let Some(metric) = metric_named(row.trials(), name) {
            add(metric);
        }
    }
    found
}
