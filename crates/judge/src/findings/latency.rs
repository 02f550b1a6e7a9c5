//! What the percentiles can and cannot tell.

use iodyno_model::{Finding, FindingKind, GroupSummary, Quantile, Row, Weight};
use iodyno_units::Nanos;

use super::{Evidence, finding, list, remedied};
use crate::summary::{VALUES_BEYOND_PERCENTILE, WINDOWS_PER_RESOLVED_PERCENTILE};

/// The percentile that a trial should be long enough for.
const TAIL_PERCENT: f64 = 99.9;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let groups = &evidence.summary.groups;
    groups
        .iter()
        .flat_map(|group| {
            let name = (groups.len() > 1).then(|| evidence.names(&group.jobs));
            let limited = limited(group, name.as_deref());
            limited.into_iter().chain(too_short(group, name.as_deref()))
        })
        .collect()
}

/// `read p50, p99` for those quantiles of each row that `select` picks.
fn marked(group: &GroupSummary, select: impl Fn(&Quantile) -> bool) -> Vec<String> {
    let mark = |row: &Row| {
        let (_, quantiles) = row.latency();
        let marked: Vec<String> = quantiles
            .iter()
            .filter(|quantile| select(quantile))
            .map(|quantile| format!("p{}", quantile.percent))
            .collect();
        let which = match marked.as_slice() {
            [] => return None,
            [one] => one.clone(),
            all if all.len() == quantiles.len() => "all percentiles".to_owned(),
            // The first and the last name the range; the list itself may be long.
            [first, .., last] => format!("{first} to {last}"),
        };
        Some(format!("{} {which}", row.result.direction.name()))
    };
    group.rows.iter().filter_map(mark).collect()
}

fn of(name: Option<&str>) -> String {
    name.map(|name| format!("{name}: ")).unwrap_or_default()
}

fn limited(group: &GroupSummary, name: Option<&str>) -> Option<Finding> {
    let which = marked(group, |quantile| quantile.resolution_limited);
    if which.is_empty() {
        return None;
    }
    let which: Vec<&str> = which.iter().map(String::as_str).collect();
    Some(remedied(
        finding(
            FindingKind::ResolutionLimited,
            Weight::Note,
            format!(
                "{}{} lie below {}, {WINDOWS_PER_RESOLVED_PERCENTILE} × as long as a completion may wait \
                 to be seen: they are upper limits",
                of(name),
                list(&which),
                Nanos(group.resolution_ns)
            ),
            format!("a percentile < {WINDOWS_PER_RESOLVED_PERCENTILE} × the stamp window's p99"),
        ),
        "lower iodepth or the completion batch to resolve shorter latencies",
    ))
}

fn too_short(group: &GroupSummary, name: Option<&str>) -> Option<Finding> {
    let mut short = Vec::new();
    for row in &group.rows {
        let (histogram, quantiles) = row.latency();
        if quantiles.iter().any(|q| q.percent == TAIL_PERCENT && q.few) {
            short.push(format!(
                "{} ({} ops)",
                row.result.direction.name(),
                histogram.count()
            ));
        }
    }
    if short.is_empty() {
        return None;
    }
    let short: Vec<&str> = short.iter().map(String::as_str).collect();
    Some(remedied(
        finding(
            FindingKind::TooShort,
            Weight::Note,
            format!(
                "{}too few ops to know p{TAIL_PERCENT}: {}",
                of(name),
                list(&short)
            ),
            format!(
                "fewer than {VALUES_BEYOND_PERCENTILE} ops beyond the {TAIL_PERCENT}th percentile"
            ),
        ),
        "run longer",
    ))
}
