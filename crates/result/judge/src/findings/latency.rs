//! Limits of the latency percentiles.

use super::{Evidence, finding, list, remedied};
use crate::summary::{VALUES_BEYOND_PERCENTILE, WINDOWS_PER_RESOLVED_PERCENTILE};
use iodyno_model::{Direction, Finding, FindingKind, GroupSummary, Quantile, Row, Weight};

/// The percentile that a trial should be long enough for, and resolve. The tables mark percentiles above and below
/// it, which need no finding.
const TAIL_PERCENT: f64 = 99.0;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let groups = &evidence.summary.groups;
    groups
        .iter()
        .flat_map(|group| {
            let name = (groups.len() > 1).then(|| evidence.names(&group.jobs));
            let limited = limited(group, name.as_deref());
            let mut jobs = group.jobs.iter();
            let command = jobs.any(|job| {
                let job = evidence.workload.jobs.get(*job as usize);
                job.is_some_and(|job| job.work.command().is_some())
            });
            let short = match command {
                // A trial is one execution, and rounds repeat it.
                true => None,
                false => too_short(group, name.as_deref()),
            };
            limited.into_iter().chain(short)
        })
        .collect()
}

/// `read p50, p99`: the quantiles of each row that `select` picks.
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
            // The first and the last show the range; the list can be long.
            [first, .., last] => format!("{first} to {last}"),
        };
        Some(format!("{} {which}", row.result.direction.name()))
    };
    judged(group).filter_map(mark).collect()
}

/// The rows whose percentiles matter. For file operations that is the cycle and not each step, because many
/// steps are expected to be very short.
fn judged(group: &GroupSummary) -> impl Iterator<Item = &Row> {
    let cycles = is_of_cycles(group);
    let rows = group.rows.iter();
    rows.filter(move |row| !cycles || row.result.direction == Direction::Op)
}

fn is_of_cycles(group: &GroupSummary) -> bool {
    let mut rows = group.rows.iter();
    rows.any(|row| row.result.direction == Direction::Op)
}

fn of(name: Option<&str>) -> String {
    name.map(|name| format!("{name}: ")).unwrap_or_default()
}

fn limited(group: &GroupSummary, name: Option<&str>) -> Option<Finding> {
    let tail =
        |quantile: &Quantile| quantile.percent >= TAIL_PERCENT && quantile.resolution_limited;
    if marked(group, tail).is_empty() {
        return None;
    }
    let which = marked(group, |quantile| quantile.resolution_limited);
    Some(remedied(
        finding(
            FindingKind::ResolutionLimited,
            Weight::Note,
            format!(
                "{}{} are upper limits: at these ranks, completions may have been unseen for more than a tenth of the \
                 latency",
                of(name),
                list(&which)
            ),
            format!(
                "p{TAIL_PERCENT} or a higher percentile < {WINDOWS_PER_RESOLVED_PERCENTILE} × the delay of detection"
            ),
        ),
        match is_of_cycles(group) {
            true => "put the steps into a cycle several times over, and divide",
            false => "lower iodepth or the completion batch, or leave a CPU to the workers",
        },
    ))
}

fn too_short(group: &GroupSummary, name: Option<&str>) -> Option<Finding> {
    let mut short = Vec::new();
    for row in judged(group) {
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
    Some(remedied(
        finding(
            FindingKind::TooShort,
            Weight::Note,
            format!(
                "{}too few ops for p{TAIL_PERCENT}: {}",
                of(name),
                list(&short)
            ),
            format!(
                "fewer than {VALUES_BEYOND_PERCENTILE} ops beyond the {TAIL_PERCENT}th percentile"
            ),
        ),
        match is_of_cycles(group) {
            true => "run longer, or over more files",
            false => "run longer",
        },
    ))
}
