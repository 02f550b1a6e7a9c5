//! Reduces the trials of two sides to one sample: paired by round if they share rounds, by run if each side has several
//! runs of its own; families reduced to one value each.

use std::collections::{HashMap, HashSet};

use iodyno_model::{Member, Metric, Pairing, Verdict};
use iodyno_stats::geometric_mean;

use super::runs::separate;
use super::sample::{Sample, Two, Values};
use super::sides::{Gathered, Together};
use super::statistics;

/// Combines the sides of a row's workloads. Errors: the reason why there is nothing to compare.
///
/// A family is reduced to one value per round (or per trial if there are no common rounds): the geometric mean over
/// its workloads. It is then treated like a single workload. Workloads that one side lacks are left out on both
/// sides.
pub(super) fn sample(
    workloads: &[Two],
    metric: &Metric,
    columns: (&str, &str),
) -> Result<Sample, String> {
    let family = workloads.len() > 1;
    let mut notes = Vec::new();
    let mut both: Vec<&Two> = Vec::new();
    let mut why = None;
    for two in workloads {
        let empty = [(two.baseline, columns.0), (two.candidate, columns.1)]
            .into_iter()
            .find(|(side, _)| side.counted.is_empty())
            .map(|(side, column)| side.why_empty(column));
        match empty {
            None => both.push(two),
            Some(reason) if family => {
                notes.push(format!("without {}: {reason}", two.name));
                why.get_or_insert(reason);
            }
            Some(reason) => why = Some(reason),
        }
    }
    if both.is_empty() {
        return Err(why.unwrap_or_else(|| format!("{} {}", columns.1, Verdict::NO_TRIAL)));
    }
    let mut reasons = Vec::new();
    let (pairing, values) = match both.iter().all(|two| share_rounds(two)) {
        true => (Pairing::Paired, by_round(&both, &mut notes)?),
        false => {
            let separate = separate(&both, columns);
            reasons = separate.reasons;
            notes.extend(separate.note);
            match separate.values {
                Some(values) => (Pairing::Runs, values),
                None => (Pairing::Unpaired, by_trial(&both, &mut notes)),
            }
        }
    };
    let members = match family {
        true => members(&both, &values, pairing, metric),
        false => Vec::new(),
    };
    let reduced = |values: Vec<Vec<f64>>| match family {
        true => geometric_means(&values),
        false => values.into_iter().next().ok_or_else(String::new),
    };
    let (baseline, candidate) = values.into_iter().unzip();
    Ok(Sample {
        baseline: reduced(baseline)?,
        candidate: reduced(candidate)?,
        pairing,
        better: metric.better,
        members,
        notes,
        reasons,
    })
}

/// Whether all trials have a round and the sides share a run.
fn share_rounds(two: &Two) -> bool {
    let runs = |side: &Gathered<'_>| -> Option<HashSet<String>> {
        let counted = side.counted.iter();
        counted
            .map(|c| c.together.map(|(run, _)| run.to_owned()))
            .collect()
    };
    match (runs(two.baseline), runs(two.candidate)) {
        (Some(baseline), Some(candidate)) => !baseline.is_disjoint(&candidate),
        _ => false,
    }
}

/// The values of the rounds in which every workload has both sides, in the same order for all workloads.
fn by_round(both: &[&Two], notes: &mut Vec<String>) -> Result<Vec<Values>, String> {
    let sides = || both.iter().flat_map(|two| [two.baseline, two.candidate]);
    let mut seen: HashMap<Together, usize> = HashMap::new();
    for together in sides()
        .flat_map(|side| &side.counted)
        .filter_map(|c| c.together)
    {
        *seen.entry(together).or_default() += 1;
    }
    let whole: Vec<Together> = both
        .iter()
        .take(1)
        .flat_map(|two| &two.baseline.counted)
        .filter_map(|c| c.together)
        .filter(|together| seen.get(together) == Some(&(2 * both.len())))
        .collect();
    if whole.is_empty() {
        return Err("no round has values on both sides".to_owned());
    }
    let lost = seen.len() - whole.len();
    if lost > 0 {
        notes.push(format!(
            "{} without values on both sides left out",
            iodyno_units::counted(lost as u64, "round")
        ));
    }
    // Both sides use one order, because runs can appear in different orders.
    let kept = |side: &Gathered| -> Vec<f64> {
        let values: HashMap<Together, f64> = side
            .counted
            .iter()
            .filter_map(|c| Some((c.together?, c.value)))
            .collect();
        let values = whole.iter().filter_map(|together| values.get(together));
        values.copied().collect()
    };
    Ok(both
        .iter()
        .map(|two| (kept(two.baseline), kept(two.candidate)))
        .collect())
}

/// All values; for a family as many as the workload with the fewest values on that side, so that every trial of the
/// family is complete.
fn by_trial(both: &[&Two], notes: &mut Vec<String>) -> Vec<Values> {
    let mut values: Vec<_> = both
        .iter()
        .map(|two| (two.baseline.values(), two.candidate.values()))
        .collect();
    let fewest = |pick: fn(&Values) -> usize| values.iter().map(pick).min();
    let (baseline, candidate) = (
        fewest(|two| two.0.len()).unwrap_or(0),
        fewest(|two| two.1.len()).unwrap_or(0),
    );
    let mut lost = 0;
    for two in &mut values {
        lost += two.0.len() - baseline + two.1.len() - candidate;
        two.0.truncate(baseline);
        two.1.truncate(candidate);
    }
    if lost > 0 {
        notes.push(format!(
            "{} that not every workload of the family has left out",
            super::words::trials(lost)
        ));
    }
    values
}

/// The geometric mean over the workloads at each position.
fn geometric_means(workloads: &[Vec<f64>]) -> Result<Vec<f64>, String> {
    let count = workloads.first().map_or(0, Vec::len);
    (0..count)
        .map(|place| {
            let values: Vec<f64> = workloads.iter().map(|values| values[place]).collect();
            geometric_mean(&values).map_err(|_| {
                "a workload of the family measured 0 or less, which has no geometric mean"
                    .to_owned()
            })
        })
        .collect()
}

/// The speed ratio of each workload, estimated in the same way as the family's.
fn members(both: &[&Two], values: &[Values], pairing: Pairing, metric: &Metric) -> Vec<Member> {
    let two = both.iter().zip(values);
    two.filter_map(|(two, (baseline, candidate))| {
        let sample = Sample {
            baseline: baseline.clone(),
            candidate: candidate.clone(),
            pairing,
            better: metric.better,
            members: Vec::new(),
            notes: Vec::new(),
            reasons: Vec::new(),
        };
        let ratio = statistics::ratio(&sample, 0.95)?.value;
        Some(Member {
            workload: two.name.to_owned(),
            ratio,
        })
    })
    .collect()
}
