//! The claims of imported tables, checked against their own trials.

use iodyno_model::ClaimCheck;

use super::figures::p_is;
use crate::style::sanitize;

/// The claims of imported tables.
pub(super) struct Claims {
    /// `claims of ext4-zfs-fsbench.txt, line 412: 3 of 5 follow from their trials`.
    pub(super) title: String,
    pub(super) rows: Vec<ClaimRow>,
}

/// A claim and the result of its check.
pub(super) struct ClaimRow {
    /// The workload and the unit.
    pub(super) name: String,
    /// The printed figures: each side, then the difference.
    pub(super) printed: Vec<String>,
    /// The figures computed from the trials, if they differ from the printed ones.
    pub(super) recomputed: Option<Vec<String>>,
    /// `None`: it cannot be checked.
    pub(super) follows: Option<bool>,
    /// Why it does not follow, or why it cannot be checked.
    pub(super) reasons: Vec<String>,
}

impl ClaimRow {
    pub(super) fn standing(&self) -> &'static str {
        match self.follows {
            Some(true) => "follows",
            Some(false) => "DOES NOT FOLLOW",
            None => "cannot be checked",
        }
    }
}

pub(super) fn claims(checks: &[ClaimCheck]) -> Option<Claims> {
    let first = checks.first()?;
    let count = |outcome| {
        checks
            .iter()
            .filter(|check| check.follows() == outcome)
            .count()
    };
    let unchecked = match count(None) {
        0 => String::new(),
        n => format!(", {n} cannot be checked"),
    };
    let mut sources: Vec<&str> = Vec::new();
    for check in checks {
        let source = check.claim.at.source.as_str();
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    let place = match sources.as_slice() {
        [source] => format!("{source}, line {}", first.claim.at.line),
        several => several.join(", "),
    };
    Some(Claims {
        title: sanitize(&format!(
            "claims of {place}: {} of {} follow from their trials{unchecked}",
            count(Some(true)),
            checks.len()
        )),
        rows: checks.iter().map(row).collect(),
    })
}

fn row(check: &ClaimCheck) -> ClaimRow {
    let claim = &check.claim;
    let printed = claim.sides.iter().cloned();
    let name = [claim.workload.as_str(), claim.unit.as_str()].join(" ");
    let difference = difference(&claim.delta, claim.p, &claim.n);
    let from_trials: Vec<String> = check
        .recomputed
        .iter()
        .map(|side| side.clone().unwrap_or("not in the trials".to_owned()))
        .chain(check.p.map(p_is))
        .collect();
    let sides = check.recomputed.iter().map(Option::as_deref);
    let as_printed = sides.eq(claim.sides.iter().map(|side| Some(side.as_str())))
        && check.p.map(p_is) == claim.p.map(p_is);
    ClaimRow {
        name: sanitize(name.trim()),
        printed: printed
            .chain([difference])
            .map(|it| sanitize(&it))
            .collect(),
        recomputed: (!as_printed && check.unchecked.is_none())
            .then(|| from_trials.iter().map(|it| sanitize(it)).collect()),
        follows: check.follows(),
        reasons: check
            .against
            .iter()
            .chain(&check.unchecked)
            .map(|why| sanitize(why))
            .collect(),
    }
}

/// `"~" p=0.100 n=3+3`: the printed verdict is quoted, since it is not one of ours.
fn difference(delta: &str, p: Option<f64>, n: &[u32]) -> String {
    let n: Vec<String> = n.iter().map(u32::to_string).collect();
    let parts = [
        (!delta.is_empty()).then(|| format!("\"{delta}\"")),
        p.map(p_is),
        (!n.is_empty()).then(|| format!("n={}", n.join("+"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" ")
}
