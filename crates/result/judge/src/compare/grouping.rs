//! Assigns trials to rows and columns as a question requests.

use iodyno_model::{Metric, Observation, Question};

use super::error::{CompareError, QuestionError};

/// Trials by row and column.
#[derive(Debug)]
pub(super) struct Table<'a> {
    /// The baseline, then the candidates in the order of their appearance.
    pub(super) columns: Vec<String>,
    /// In the order of their appearance.
    pub(super) rows: Vec<Row<'a>>,
    /// Trials that were left out, with the reason.
    pub(super) notes: Vec<String>,
}

/// The relation of a row to families: workloads with one verdict together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kinship {
    /// It has its own verdict.
    None,
    /// Its workload is one of a family, which is judged in another row.
    Member,
    /// All workloads of a family.
    Family,
}

/// The trials of a row.
#[derive(Debug)]
pub(super) struct Row<'a> {
    /// Its values of the row dimensions.
    pub(super) name: Vec<String>,
    /// Whether no difference is expected in this row.
    pub(super) floor: bool,
    /// Whether it belongs to a family, or is one.
    pub(super) kinship: Kinship,
    /// Trials for each column.
    pub(super) columns: Vec<Vec<&'a Observation>>,
    /// Trials of the repeated baseline.
    pub(super) again: Vec<&'a Observation>,
}

impl<'a> Row<'a> {
    /// Every trial of the row's columns.
    pub(super) fn trials(&self) -> impl Iterator<Item = &'a Observation> + Clone {
        self.columns.iter().flatten().copied()
    }
}

/// Groups trials. Errors: all errors of the question at once.
pub(super) fn group<'a>(
    observations: &'a [Observation],
    question: &Question,
) -> Result<Table<'a>, CompareError> {
    let faults = faults(observations, question);
    if !faults.is_empty() {
        return Err(CompareError { faults });
    }
    let chosen: Vec<&Observation> = observations
        .iter()
        .filter(|observation| chosen(observation, question))
        .collect();
    let columns = columns(&chosen, question).map_err(|fault| CompareError {
        faults: vec![fault],
    })?;
    Ok(place(&chosen, columns, question))
}

fn faults(observations: &[Observation], question: &Question) -> Vec<QuestionError> {
    if observations.is_empty() {
        return vec![QuestionError::NoTrials];
    }
    let mut faults = Vec::new();
    let dimensions = distinct(observations.iter().flat_map(|o| o.dimensions.keys()));
    let mut known = |name: &String, role| {
        if dimensions.contains(name) {
            return true;
        }
        let fault = QuestionError::unknown("a dimension", name, role, &dimensions);
        if !faults.contains(&fault) {
            faults.push(fault);
        }
        false
    };
    known(&question.columns, "columns");
    for name in &question.rows {
        let role = match question.across.contains(name) {
            true => "columns",
            false => "rows",
        };
        known(name, role);
    }
    let only = question.only.iter().map(|(d, v)| (d, v, "a condition"));
    let floor = question.floor.iter().map(|(d, v)| (d, v, "noise floor"));
    let metrics = question.metric_where.iter();
    let metrics = metrics.map(|(d, v, _)| (d, v, "a metric"));
    let mut pairs: Vec<(&String, &String, &'static str)> = Vec::new();
    for (dimension, value, role) in only.chain(floor).chain(metrics) {
        if known(dimension, role) {
            pairs.push((dimension, value, role));
        }
    }
    for (dimension, value, role) in pairs {
        let there = values(observations.iter(), dimension);
        if !there.contains(value) {
            faults.push(QuestionError::unknown(dimension, value, role, &there));
        }
    }
    faults.extend(unknown_facts(observations, question));
    faults.extend(unknown_metrics(observations, question));
    faults.extend(out_of_range(question));
    faults
}

fn unknown_facts(observations: &[Observation], question: &Question) -> Vec<QuestionError> {
    let facts = observations.iter().flat_map(|o| &o.facts);
    let there = distinct(facts.map(|fact| &fact.name));
    let unknown = question.axis.iter().filter(|name| !there.contains(name));
    unknown
        .map(|name| QuestionError::unknown("a fact", name, "axis", &there))
        .collect()
}

fn unknown_metrics(observations: &[Observation], question: &Question) -> Vec<QuestionError> {
    let there = distinct(observations.iter().flat_map(|o| {
        let figures = o.figures.iter().map(|figure| &figure.metric.name);
        figures.chain(o.withheld.iter().map(|withheld| &withheld.metric))
    }));
    let rows = question.metric_where.iter().map(|(_, _, metric)| metric);
    let named = question.metrics.iter().chain(rows);
    named
        .filter(|name| *name != Metric::EVERY && !there.contains(name))
        .map(|name| QuestionError::unknown("a metric", name, "", &there))
        .collect()
}

fn out_of_range(question: &Question) -> Vec<QuestionError> {
    let mut faults = Vec::new();
    if !(question.alpha > 0.0 && question.alpha < 1.0) {
        faults.push(QuestionError::OutOfRange {
            name: "alpha",
            value: question.alpha,
            expected: "above 0 and below 1",
        });
    }
    if !(question.margin >= 0.0 && question.margin.is_finite()) {
        faults.push(QuestionError::OutOfRange {
            name: "the margin",
            value: question.margin,
            expected: "a share of 0 or more: 0.03 for 3 %",
        });
    }
    faults
}

/// Whether a trial meets the conditions. In the dimension of the columns, a repeated baseline has a separate name
/// that conditions cannot match.
pub fn chosen(observation: &Observation, question: &Question) -> bool {
    question.only.iter().all(|(dimension, _)| {
        let mut alternatives = question.only.iter().filter(|(d, _)| d == dimension);
        observation.again && *dimension == question.columns
            || alternatives.any(|(_, value)| observation.dimension(dimension) == value)
    })
}

/// The columns, baseline first.
fn columns(chosen: &[&Observation], question: &Question) -> Result<Vec<String>, QuestionError> {
    let dimension = question.columns.as_str();
    let own = || chosen.iter().copied().filter(|o| !o.again);
    let mut there = values(own(), dimension);
    if there.is_empty() {
        return Err(QuestionError::NothingLeft {
            only: question.only.clone(),
        });
    }
    if let Some(baseline) = &question.baseline {
        let Some(place) = there.iter().position(|value| value == baseline) else {
            let role = "the baseline";
            return Err(QuestionError::unknown(dimension, baseline, role, &there));
        };
        there[..=place].rotate_right(1);
    }
    if let [value] = there.as_slice() {
        let others = distinct(own().flat_map(|o| o.dimensions.keys()));
        let others = others.into_iter().filter(|other| other != dimension);
        return Err(QuestionError::OneColumn {
            dimension: dimension.to_owned(),
            value: value.clone(),
            instead: others
                .map(|other| (values(own(), &other), other))
                .filter(|(values, _)| values.len() > 1)
                .map(|(values, other)| (other, values))
                .collect(),
        });
    }
    Ok(there)
}

fn place<'a>(chosen: &[&'a Observation], columns: Vec<String>, question: &Question) -> Table<'a> {
    let (mut rows, mut families): (Vec<Row<'a>>, Vec<Row<'a>>) = Default::default();
    let mut notes = Vec::new();
    let mut homeless = 0;
    for observation in chosen.iter().copied().filter(|o| !o.again) {
        let value = observation.dimensions.get(&question.columns);
        let Some(column) = value.and_then(|value| columns.iter().position(|c| c == value)) else {
            homeless += 1;
            continue;
        };
        let name = row_name(observation, question);
        let add = |rows: &mut Vec<Row<'a>>, name, kinship| {
            let place = rows.iter().position(|row| row.name == name);
            let place = place.unwrap_or_else(|| {
                rows.push(Row {
                    name,
                    floor: expected_equal(observation, question),
                    kinship,
                    columns: vec![Vec::new(); columns.len()],
                    again: Vec::new(),
                });
                rows.len() - 1
            });
            // If a difference is expected for one trial, it is expected for the row.
            rows[place].floor &= expected_equal(observation, question);
            rows[place].columns[column].push(observation);
        };
        if let Some(name) = family_name(observation, question) {
            add(&mut families, name, Kinship::Family);
        }
        add(&mut rows, name, Kinship::None);
    }
    families.retain(|family| values(family.trials(), Observation::WORKLOAD).len() > 1);
    for row in &mut rows {
        let name = |trial: &Observation| family_name(trial, question);
        let of_family = |trial| {
            families
                .iter()
                .any(|it| Some(&it.name) == name(trial).as_ref())
        };
        if row.trials().all(of_family) {
            row.kinship = Kinship::Member;
        }
    }
    if homeless > 0 {
        notes.push(format!(
            "{} without a {} left out",
            super::words::trials(homeless),
            question.columns
        ));
    }
    let mut unplaced = 0;
    for observation in chosen.iter().copied().filter(|o| o.again) {
        let name = row_name(observation, question);
        match rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.again.push(observation),
            None => unplaced += 1,
        }
        let name = family_name(observation, question);
        let family = families
            .iter_mut()
            .find(|row| Some(&row.name) == name.as_ref());
        if let Some(row) = family {
            row.again.push(observation);
        }
    }
    rows.extend(families);
    if unplaced > 0 {
        notes.push(format!(
            "{} of the baseline made once more belong to no row, and give no noise floor",
            super::words::trials(unplaced),
        ));
    }
    Table {
        columns,
        rows,
        notes,
    }
}

fn row_name(observation: &Observation, question: &Question) -> Vec<String> {
    let dimensions = question.rows.iter();
    dimensions
        .map(|dimension| observation.dimension(dimension).to_owned())
        .collect()
}

/// The name of the row of its family, if rows are workloads and it is in one.
fn family_name(observation: &Observation, question: &Question) -> Option<Vec<String>> {
    let family = observation.dimensions.get(Observation::FAMILY)?;
    let own_rows = |name: &str| question.rows.iter().any(|row| row == name);
    if !own_rows(Observation::WORKLOAD) || own_rows(Observation::FAMILY) {
        return None;
    }
    let dimensions = question.rows.iter();
    let value = |dimension: &String| match dimension.as_str() {
        Observation::WORKLOAD => family.clone(),
        other => observation.dimension(other).to_owned(),
    };
    Some(dimensions.map(value).collect())
}

fn expected_equal(observation: &Observation, question: &Question) -> bool {
    let mut floor = question.floor.iter();
    floor.any(|(dimension, value)| observation.dimension(dimension) == value)
}

/// The values of a dimension in the order of their appearance.
pub(super) fn values<'a>(
    observations: impl Iterator<Item = &'a Observation>,
    dimension: &str,
) -> Vec<String> {
    distinct(observations.filter_map(|o| o.dimensions.get(dimension)))
}

/// The distinct values in the order of their appearance.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if seen.insert(name) {
            found.push(name.clone());
        }
    }
    found
}
