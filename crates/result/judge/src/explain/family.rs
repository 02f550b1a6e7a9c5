//! What most members of a family of workloads have in common, if it acts in the direction of the family's ratio.

use iodyno_model::{
    Cause, CommonReason, Comparison, Explained, ExplainedFamily, Observation, Term,
};

/// The families of a comparison by each row's first metric; `explained` has their members.
pub(super) fn families(comparison: &Comparison, explained: &[Explained]) -> Vec<ExplainedFamily> {
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
            let members: Vec<&Explained> = (cell.members.iter())
                .filter_map(|member| {
                    let mut name = row.name.clone();
                    *name.get_mut(place)? = member.workload.clone();
                    let mut all = explained.iter();
                    all.find(|it| it.row == name && it.columns == columns)
                })
                .collect();
            found.push(ExplainedFamily {
                row: row.name.clone(),
                columns,
                metric: row.metric.clone(),
                ratio: cell.ratio,
                verdict: cell.verdict.clone(),
                by_numbers: cell.by_numbers.clone(),
                members: members.iter().map(|member| member.row.clone()).collect(),
                common: common(&members).filter(|common| {
                    let ratio = cell.ratio;
                    ratio.is_none_or(|ratio| (ratio.value > 1.0) == (common.factor > 1.0))
                }),
            });
        }
    }
    found
}

/// The first reason that more members have than any other, with its direction.
fn common(members: &[&Explained]) -> Option<CommonReason> {
    let first = |member: &Explained| -> Option<Term> {
        let told = member.explained.is_some() && !member.is_unexplained();
        member.reasons().next().filter(|_| told).cloned()
    };
    let firsts: Vec<(&Explained, Term)> = (members.iter())
        .filter_map(|member| Some((*member, first(member)?)))
        .collect();
    let like = |one: &Term, other: &Term| {
        one.contrast.name == other.contrast.name
            && (one.factor.value > 1.0) == (other.factor.value > 1.0)
    };
    let alike = |term: &Term| firsts.iter().filter(|(_, other)| like(term, other)).count();
    let most = firsts.iter().map(|(_, term)| alike(term)).max()?;
    let (_, term) = firsts.iter().find(|(_, term)| alike(term) == most)?;
    if most < 2 {
        return None;
    }
    let agreeing = || firsts.iter().filter(|(_, other)| like(term, other));
    let logs: f64 = agreeing().map(|(_, term)| term.factor.value.ln()).sum();
    let of_all = |cause: &&Cause| {
        agreeing().all(|(_, other)| other.causes.iter().any(|it| is_same(it, cause)))
    };
    Some(CommonReason {
        words: term.contrast.words.clone(),
        rows: agreeing().map(|(member, _)| member.row.clone()).collect(),
        factor: (logs / most as f64).exp(),
        too_few: agreeing()
            .filter_map(|(member, _)| member.too_few())
            .max_by_key(|too_few| too_few.needed.saturating_sub(too_few.n)),
        causes: term.causes.iter().filter(of_all).cloned().collect(),
    })
}

/// Whether it is the same fact with the same values, or the same series.
fn is_same(one: &Cause, other: &Cause) -> bool {
    match (one, other) {
        (Cause::Series(one), Cause::Series(other)) => one.name == other.name,
        (one, other) => one == other,
    }
}
