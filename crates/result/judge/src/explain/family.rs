//! What the members of a family of workloads have in common.

use iodyno_model::{
    Cause, ComparedSides, Comparison, Costs, Explained, ExplainedFamily, Observation, Stack,
    StackOf, TimePart,
};

use iodyno_stats::geometric_mean;

use super::causes::is_same;
use super::difference::Sides;
use super::stack::{Form, Split, Timed, split};

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
            let of = ComparedSides::of(row, cell);
            let is_this =
                |row: &Vec<String>, it: &ComparedSides| it.row == *row && it.columns == of.columns;
            if found.iter().any(|it| is_this(&of.row, &it.of)) {
                continue;
            }
            let of_member = |workload: &String| {
                let mut name = row.name.clone();
                *name.get_mut(place)? = workload.clone();
                let mut all = explained.iter().zip(sides);
                all.find(|(it, _)| is_this(&name, &it.of))
            };
            let members = cell.members.iter();
            let members = members.filter_map(|it| of_member(&it.workload));
            let (members, trials): (Vec<&Explained>, Vec<&Option<Sides>>) = members.unzip();
            let trials: Option<Vec<&Sides>> = trials.into_iter().map(Option::as_ref).collect();
            let (most, causes) = common(&members);
            let stack = trials.and_then(|trials| together(&trials));
            let largest = stack.as_ref().filter(|_| most.is_none() && of.decided());
            found.push(ExplainedFamily {
                members: members.iter().map(|it| it.of.row.clone()).collect(),
                largest: largest.and_then(largest_part),
                stack,
                most,
                causes,
                of,
            });
        }
    }
    found
}

/// The part that makes most of the difference in more members than any other, in at least two, with their number, and
/// the causes that these members have in common.
fn common(members: &[&Explained]) -> (Option<(TimePart, usize)>, Vec<Cause>) {
    let members = members.iter().filter_map(|it| it.reasons.as_ref().ok());
    let first = |it: &iodyno_model::Reasons| {
        let (part, by) = *it.most.first()?;
        Some((part, by > 0.0))
    };
    let like = |key| members.clone().filter(move |it| first(it) == Some(key));
    let keys: Vec<(TimePart, bool)> = members.clone().filter_map(first).collect();
    let most = keys.into_iter().rev().max_by_key(|key| like(*key).count());
    let Some(key) = most.filter(|key| like(*key).count() > 1) else {
        return (None, Vec::new());
    };
    let mut causes = like(key).map(|it| it.causes.clone());
    let mut common = causes.next().unwrap_or_default();
    for own in causes {
        common.retain(|cause| own.iter().any(|it| is_same(it, cause)));
    }
    (Some((key.0, like(key).count())), common)
}

/// The part that differs most in the direction of the whole, with its difference, ns.
fn largest_part(stack: &Stack) -> Option<(TimePart, f64)> {
    let whole = stack.whole.difference.value;
    let parts = stack.parts.iter().filter(|(_, it)| it.differs());
    let parts = parts.map(|(part, it)| (*part, it.difference.value));
    let parts = parts.filter(|(_, by)| by * whole > 0.0);
    parts.max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()))
}

/// The geometric mean of the members' times of an op in each round, like the ratio of a family, with the mean shares of
/// its parts; `None` if their trials are not of the same number.
fn together(members: &[&Sides]) -> Option<Stack> {
    let first = *members.first()?;
    let counts = |it: &Sides| (it.pairing, it.trials.each_ref().map(Vec::len));
    if members.iter().any(|it| counts(it) != counts(first)) {
        return None;
    }
    let all: Vec<_> = members.iter().flat_map(|it| it.all()).collect();
    let form = Form::of(all.into_iter());
    let mut splits = first.each(|_| Split::default());
    for (side, splits) in splits.iter_mut().enumerate() {
        for (place, found) in splits.iter_mut().enumerate() {
            let own: Vec<&Costs> = members.iter().map(|it| it.trials[side][place]).collect();
            let wholes: Vec<f64> = own.iter().map(|it| it.whole_ns()).collect();
            let whole = geometric_mean(&wholes).ok()?;
            for trial in own {
                let scale = whole / trial.whole_ns() / members.len() as f64;
                let own = split(trial, form).op.into_iter();
                found.op.extend(own.map(|it| Timed {
                    ns: it.ns * scale,
                    uncertain: it.uncertain * scale,
                    ..it
                }));
            }
        }
    }
    Some(first.stack(StackOf::Op, &splits, |it| &it.op, None).0)
}
