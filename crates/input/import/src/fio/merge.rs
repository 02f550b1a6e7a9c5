//! Merges several reports of one run: other formats, interim reports, clones.

use std::collections::HashMap;

use iodyno_model::Withheld;

use super::entry::{DIRECTIONS, Direction, Entry, Latency, Syncs, added};
use super::{json, terse};

/// Identifies reports of one job: its name and group, and each direction's runtime, µs.
type Key = (String, Option<u64>, [Option<u64>; 3]);

/// Keeps the first report of a result that appears in several formats.
///
/// `richest` orders formats by the amount of information. A report in a later format is kept only if no earlier
/// format has it. Also returns the lines of the duplicates.
pub(super) fn one_format(richest: [Vec<Entry>; 3]) -> (Vec<Entry>, Vec<std::ops::Range<u32>>) {
    let mut kept: Vec<Entry> = Vec::new();
    let mut repeated = Vec::new();
    for entries in richest {
        let mut known: HashMap<Key, Vec<usize>> = HashMap::new();
        for (index, entry) in kept.iter().enumerate() {
            known.entry(key(entry)).or_default().push(index);
        }
        for entry in entries {
            let same = known.get_mut(&key(&entry)).and_then(|candidates| {
                let at = candidates
                    .iter()
                    .position(|&index| equal_within_rounding(&kept[index], &entry))?;
                Some(candidates.remove(at))
            });
            match same {
                Some(index) => {
                    let remark = format!("also present as {}, line {}", entry.form, entry.line);
                    kept[index].remarks.push(remark);
                    repeated.push(entry.lines);
                }
                None => kept.push(entry),
            }
        }
    }
    kept.sort_by_key(|entry| entry.line);
    (kept, repeated)
}

fn key(entry: &Entry) -> Key {
    let runtimes = entry.directions.each_ref().map(|direction| {
        let direction = direction.as_ref()?;
        Some((direction.runtime_ns / 1e3) as u64)
    });
    (entry.name.clone(), entry.group, runtimes)
}

/// Whether the figures are equal within rounding: normal output has three digits. Some versions of fio lose the carry
/// of a rate: 71971 is printed as 71.0k. The bandwidths then still agree.
fn equal_within_rounding(a: &Entry, b: &Entry) -> bool {
    let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 0.006 * a.max(b) + 1.0,
        (a, b) => a == b,
    };
    a.directions.iter().zip(&b.directions).all(|(a, b)| {
        let iops = |direction: &Option<Direction>| direction.as_ref()?.iops;
        let bandwidth = |direction: &Option<Direction>| direction.as_ref()?.bandwidth;
        close(iops(a), iops(b)) || (bandwidth(a).is_some() && close(bandwidth(a), bandwidth(b)))
    })
}

/// Keeps the last of the reports of one run (`--status-interval`), with the counts of the earlier ones.
pub(super) fn last_reports(entries: Vec<Entry>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    let mut latest: HashMap<(String, Option<u64>, Option<String>, usize), usize> = HashMap::new();
    let mut place: HashMap<((u32, Option<String>), String), usize> = HashMap::new();
    for mut entry in entries {
        // Clones that ended one second apart belong to the same run; documents do not.
        let mut run = entry.run.clone();
        run.1 = run.1.filter(|_| entry.form == json::FORM);
        let nth = place.entry((run, entry.name.clone())).or_default();
        *nth += 1;
        let key = (entry.name.clone(), entry.group, entry.node.clone(), *nth);
        match latest.get(&key) {
            Some(&index) if is_later_report(&kept[index], &entry) => {
                let earlier = &mut kept[index];
                entry.interim = std::mem::take(&mut earlier.interim);
                entry.interim.push((earlier.runtime_ns(), earlier.ops()));
                kept[index] = entry;
            }
            _ => {
                latest.insert(key, kept.len());
                kept.push(entry);
            }
        }
    }
    for entry in &mut kept {
        if !entry.interim.is_empty() {
            let remark = format!(
                "the last of {} reports of one run counts; the others were made on the way",
                entry.interim.len() + 1
            );
            entry.remarks.push(remark);
        }
    }
    kept
}

/// The shortest runtime of an interim report, ms: fio's shortest interval is one second, including the start.
const MIN_INTERIM_MS: f64 = 500.0;

/// Tolerance between the clock of reports and their runtimes, ms. The last report waits for the final flush; between
/// short runs, such a wait could be a run of its own.
fn clock_slack_ms(runtime_ms: f64) -> f64 {
    if runtime_ms < 2000.0 { 400.0 } else { 1100.0 }
}

fn is_later_report(earlier: &Entry, later: &Entry) -> bool {
    let (before, after) = (earlier.runtime_ns() / 1e6, later.runtime_ns() / 1e6);
    if earlier.run == later.run || after < before || later.ops() < earlier.ops() {
        return false;
    }
    // An identical report is a copy, and is listed as a copy.
    if earlier.directions == later.directions && earlier.written_ms == later.written_ms {
        return false;
    }
    if let (Some(a), Some(b)) = (earlier.start_ms, later.start_ms) {
        return a == b;
    }
    if earlier.process != later.process {
        return false;
    }
    if earlier.form == terse::FORM && later.form == terse::FORM {
        return is_next_interim(earlier, later);
    }
    // The start is unknown: in interim reports of one run, the runtime grows by the elapsed time; in two runs it does
    // not.
    let (Some(a), Some(b)) = (earlier.written_ms, later.written_ms) else {
        return false;
    };
    let passed = b.saturating_sub(a) as f64;
    let slack = match earlier.process {
        Some(_) => PRINTED_SLACK_MS,
        None => clock_slack_ms(before),
    };
    before >= MIN_INTERIM_MS && ((after - before) - passed).abs() <= slack
}

/// Dates are printed in whole seconds. In addition, the process must be the same.
const PRINTED_SLACK_MS: f64 = 1600.0;

/// Whether one terse line is a later report of the run of another. Terse lines have no date and no process. But
/// successive reports of one run are one interval apart, and their ops and maxima do not decrease; in repeated runs
/// that is not the case.
fn is_next_interim(earlier: &Entry, later: &Entry) -> bool {
    let (before, after) = (earlier.runtime_ns(), later.runtime_ns());
    let first = earlier.interim.first().map_or(before, |report| report.0);
    let last = earlier.interim.last().map(|report| before - report.0);
    let slack = clock_slack_ms(first / 1e6) * 1e6;
    let one_interval = |step: f64| (step - first).abs() <= slack;
    let bytes = |entry: &Entry| -> f64 {
        let all = entry.directions.iter().flatten();
        all.filter_map(|direction| direction.bytes).sum()
    };
    let maxima = |entry: &Entry| {
        let all = entry.directions.clone().into_iter();
        let max = |latency: Option<Latency>| latency.and_then(|latency| latency.max);
        all.flat_map(move |direction| match direction {
            Some(it) => [max(it.total), max(it.completion)],
            None => [None, None],
        })
        .collect::<Vec<Option<f64>>>()
    };
    before / 1e6 >= MIN_INTERIM_MS
        && after > before
        // The last report can come before a whole interval has passed; a second short report is a repeated run.
        && after - before <= first + slack
        && last.map_or(after - before >= first / 2.0, one_interval)
        && bytes(later) > bytes(earlier)
        && maxima(earlier).iter().zip(maxima(later)).all(|(a, b)| *a <= b)
}

/// Merges the clones of a job that were reported separately into one result: they ran at the same time and are not
/// repetitions.
pub(super) fn clones_together(entries: Vec<Entry>) -> Vec<Entry> {
    let mut groups: Vec<Vec<Entry>> = Vec::new();
    type Place = ((u32, Option<String>), String, Option<u64>, Option<String>);
    let mut places: HashMap<Place, usize> = HashMap::new();
    for entry in entries {
        let place = (
            entry.run.clone(),
            entry.name.clone(),
            entry.group,
            entry.node.clone(),
        );
        let index = *places.entry(place).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.push(entry),
            None => groups.push(vec![entry]),
        }
    }
    groups.into_iter().filter_map(together).collect()
}

fn together(mut clones: Vec<Entry>) -> Option<Entry> {
    if clones.len() <= 1 {
        return clones.pop();
    }
    let mut sum = clones[0].clone();
    let count = clones.len();
    sum.clones = Some(added(clones.iter().map(|clone| clone.clones.unwrap_or(1))));
    sum.error = clones
        .iter()
        .map(|clone| clone.error)
        .find(|error| *error != 0)
        .unwrap_or(0);
    sum.directions = std::array::from_fn(|index| {
        let all: Vec<&Direction> = clones
            .iter()
            .filter_map(|clone| clone.directions[index].as_ref())
            .collect();
        directions(&all)
    });
    let syncs: Vec<&Syncs> = clones
        .iter()
        .filter_map(|clone| clone.sync.as_ref())
        .collect();
    sum.sync = (!syncs.is_empty()).then(|| Syncs {
        ops: all_added(syncs.iter().map(|sync| sync.ops)),
        latency: latencies(
            syncs
                .iter()
                .map(|s| (s.latency.as_ref(), s.ops.unwrap_or(0))),
        ),
    });
    let spans: Option<f64> = clones.iter().map(|clone| clone.cpu_span_ns).sum();
    let weighted: Option<f64> = clones
        .iter()
        .map(|clone| Some(clone.cpu_percent? * clone.cpu_span_ns?))
        .sum();
    sum.cpu_percent = weighted
        .zip(spans)
        .map(|(cpu, span)| cpu / span)
        .filter(|p| p.is_finite());
    sum.cpu_span_ns = spans;
    // The interim counts of single clones are not taken at common instants and cannot be added.
    sum.interim.clear();
    sum.remarks.push(format!(
        "the sum of {count} clones that fio reported one by one; it is one result, not {count}"
    ));
    percentiles_lost(&mut sum, &clones);
    Some(sum)
}

/// Withholds the percentiles of the clones, which the sum does not have.
fn percentiles_lost(sum: &mut Entry, clones: &[Entry]) {
    let with_percentiles = |latency: &Option<Latency>| {
        latency
            .as_ref()
            .is_some_and(|latency| !latency.percentiles.is_empty())
    };
    for (index, name) in DIRECTIONS.iter().enumerate() {
        let had = clones
            .iter()
            .filter_map(|clone| clone.directions[index].as_ref())
            .any(|direction| {
                with_percentiles(&direction.completion) || with_percentiles(&direction.total)
            });
        let has = sum.directions[index].as_ref().is_some_and(|direction| {
            with_percentiles(&direction.completion) || with_percentiles(&direction.total)
        });
        if had && !has {
            sum.withheld.push(Withheld {
                metric: format!("{name}.p99"),
                why:
                    "percentiles of clones cannot be combined; group_reporting or json+ keeps them"
                        .to_owned(),
            });
        }
    }
}

fn directions(all: &[&Direction]) -> Option<Direction> {
    (!all.is_empty()).then(|| Direction {
        submitted: all.iter().any(|direction| direction.submitted),
        bytes: all.iter().map(|direction| direction.bytes).sum(),
        bandwidth: all.iter().map(|direction| direction.bandwidth).sum(),
        iops: all.iter().map(|direction| direction.iops).sum(),
        runtime_ns: all
            .iter()
            .map(|direction| direction.runtime_ns)
            .fold(0.0, f64::max),
        ops: all_added(all.iter().map(|direction| direction.ops)),
        total: latencies(all.iter().map(|d| (d.total.as_ref(), d.count()))),
        completion: latencies(all.iter().map(|d| (d.completion.as_ref(), d.count()))),
    })
}

/// The sum, if all values are known.
fn all_added(counts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    counts
        .collect::<Option<Vec<u64>>>()
        .map(|counts| added(counts.into_iter()))
}

/// Means are weighted by ops, extremes are the extremes of all, bins are added and give percentiles; percentiles
/// alone cannot be combined.
fn latencies<'l>(all: impl Iterator<Item = (Option<&'l Latency>, u64)>) -> Option<Latency> {
    let all: Vec<(&Latency, u64)> = all.filter_map(|(latency, n)| Some((latency?, n))).collect();
    let (first, _) = all.first()?;
    let ops = added(all.iter().map(|(_, n)| *n));
    let weighted: Option<f64> = all
        .iter()
        .map(|(latency, n)| latency.mean.map(|mean| mean * *n as f64))
        .sum();
    let mut sum = Latency {
        mean: weighted
            .map(|sum| sum / ops as f64)
            .filter(|mean| mean.is_finite()),
        max: all
            .iter()
            .filter_map(|(latency, _)| latency.max)
            .reduce(f64::max),
        ..Latency::default()
    };
    if all.iter().all(|(latency, _)| !latency.bins.is_empty()) {
        for (latency, _) in &all {
            sum.bins.extend(&latency.bins);
        }
        sum.bins.sort_by(|a, b| a.0.total_cmp(&b.0));
        let percents: Vec<f64> = first.percentiles.iter().map(|pair| pair.0).collect();
        sum.percentiles = percents
            .into_iter()
            .filter_map(|percent| Some((percent, sum.percentile_of_bins(percent)?)))
            .collect();
    }
    Some(sum)
}
