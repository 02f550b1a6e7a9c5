//! What the members of a family of workloads have in common.

use iodyno_model::{Comparison, Explained, ExplainedFamily, Observation, Stack, StackOf, TimePart};

use super::causes::is_same;
use super::difference::Sides;
use super::stack::Form;
use super::{Parts, TwoSplits, per_trial};

/// The families of a comparison by each row's first metric; `explained` has their members, `sides` their trials.
pub(super) fn families(
    comparison: &Comparison,
    explained: &[Explained],
    sides: &[Option<Sides>],
) -> Vec<ExplainedFamily> {
    let mut dimensions = comparison.question.rows.iter();
    let Some(place) = dimensions.position(|row| row == Observation::WORKLOAD) else {
        return Vec::new();
    };
    let mut found: Vec<ExplainedFamily> = Vec::new();
    for row in comparison.rows.iter().filter(|row| row.family) {
        for cell in &row.cells {
            let columns = (row.baseline.column.clone(), cell.side.column.clone());
            if found
                .iter()
                .any(|it| (&it.row, &it.columns) == (&row.name, &columns))
            {
                continue;
            }
            let of_member = |workload: &String| {
                let mut name = row.name.clone();
                *name.get_mut(place)? = workload.clone();
                let mut all = explained.iter().zip(sides);
                all.find(|(it, _)| it.row == name && it.columns == columns)
            };
            let members = cell.members.iter();
            let members: Vec<_> = members.filter_map(|it| of_member(&it.workload)).collect();
            let trials: Option<Vec<&Sides>> = members.iter().map(|(_, it)| it.as_ref()).collect();
            let members: Vec<&Explained> = members.into_iter().map(|(it, _)| it).collect();
            let (most, own) = common(&members);
            let same = |cause: &&iodyno_model::Cause| {
                own.iter()
                    .all(|it| causes(it).any(|other| is_same(other, cause)))
            };
            found.push(ExplainedFamily {
                row: row.name.clone(),
                metric: row.metric.clone(),
                ratio: cell.ratio,
                verdict: cell.verdict.clone(),
                by_numbers: cell.by_numbers.clone(),
                members: members.iter().map(|member| member.row.clone()).collect(),
                stack: trials.and_then(|trials| together(&trials)),
                most,
                causes: own
                    .first()
                    .map_or(Vec::new(), |it| causes(it).filter(same).cloned().collect()),
                columns,
            });
        }
    }
    found
}

fn causes(explained: &Explained) -> impl Iterator<Item = &iodyno_model::Cause> {
    explained.reasons.iter().flat_map(|reasons| &reasons.causes)
}

/// The part that makes most of the difference in more members than any other, in at least two, with their number, and
/// these members.
fn common<'a>(members: &[&'a Explained]) -> (Option<(TimePart, usize)>, Vec<&'a Explained>) {
    let first = |it: &Explained| {
        let (part, by) = *it.reasons.as_ref().ok()?.most.first()?;
        Some((part, by > 0.0))
    };
    let like = |key: (TimePart, bool)| -> Vec<&'a Explained> {
        members
            .iter()
            .copied()
            .filter(|it| first(it) == Some(key))
            .collect()
    };
    let keys = members.iter().filter_map(|it| first(it));
    let most = keys.rev().max_by_key(|key| like(*key).len());
    match most.map(|key| (key.0, like(key))) {
        Some((part, own)) if own.len() > 1 => (Some((part, own.len())), own),
        _ => (None, Vec::new()),
    }
}

/// The time of one op of each member, added up by rounds; `None` if their trials are not of the same number.
fn together(members: &[&Sides]) -> Option<Stack> {
    let first = *members.first()?;
    let alike = |it: &&Sides| {
        it.pairing == first.pairing
            && it.baseline.len() == first.baseline.len()
            && it.candidate.len() == first.candidate.len()
    };
    if !members.iter().all(alike) {
        return None;
    }
    let all = || members.iter().flat_map(|it| it.all());
    let form = Form::of(all().collect::<Vec<_>>().into_iter());
    let mut sum: TwoSplits = (
        vec![Vec::new(); first.baseline.len()],
        vec![Vec::new(); first.candidate.len()],
    );
    for member in members {
        let own = per_trial(member, form, |it| it.op);
        sum.0
            .iter_mut()
            .zip(own.0)
            .for_each(|(sum, own)| sum.extend(own));
        sum.1
            .iter_mut()
            .zip(own.1)
            .for_each(|(sum, own)| sum.extend(own));
    }
    Some(Parts::of(&sum).stack(StackOf::Op, first))
}
