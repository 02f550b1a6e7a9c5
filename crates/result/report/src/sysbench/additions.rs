//! Figures that sysbench does not print, below its own.
//!
//! Scripts search for sysbench's labels in all lines. None of these labels is used here, so that scripts find the
//! intended line only.

use iodyno_model::{Direction, Histogram, Step, Trial, Workload, errno_name};
use iodyno_units::Nanos;

use super::{EVENTS, Totals, clones, explanation, job};
use crate::digits::ms;
use crate::operations::longest;
use crate::style::sanitize;

/// Each kind of event separately, the explanation of the fsyncs, the closing fsync, errors and validation. Ends with an
/// empty line.
pub(super) fn additions(workload: &Workload, trial: &Trial, totals: &Totals) -> String {
    let mut text = table(totals);
    let job = job(workload);
    if let Some(words) = job.and_then(|job| explanation(job, trial)) {
        text += &format!("    {words}\n");
    }
    if let Some(ns) = longest(trial, Step::EndFsync) {
        text += &format!("    afterwards all files were synced in {}\n", Nanos(ns));
    }
    text + &errors(trial) + &validation(trial) + "\n"
}

fn table(totals: &Totals) -> String {
    let mut text = "By kind of op (ms):\n                    \
                    per second      mean       p50       p95       p99   largest\n"
        .to_owned();
    for (index, direction) in EVENTS.into_iter().enumerate() {
        let rate = format!("{:.2}", totals.per_second(totals.ops[index]));
        if totals.ops[index] > 0 {
            text += &row(direction.name(), &rate, &totals.latency[index]);
        }
        if !totals.response[index].is_empty() {
            text += &row(" since due", "", &totals.response[index]);
        }
    }
    text
}

fn row(name: &str, rate: &str, latency: &Histogram) -> String {
    let percentile = |percent| ms(latency.percentile_ns(percent) as f64);
    let cells = [
        ms(latency.mean_ns()),
        percentile(50.0),
        percentile(95.0),
        percentile(99.0),
        ms(latency.max_ns() as f64),
    ];
    let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
    format!("    {name:<12}{rate:>14}{cells}\n")
}

fn errors(trial: &Trial) -> String {
    let errors = clones(trial).flat_map(|clone| &clone.errors);
    let lines = errors.map(|error| {
        let kind = match error.direction {
            Direction::Sync => "fsync",
            direction => direction.name(),
        };
        let (name, file) = (errno_name(error.errno), sanitize(&error.first_file));
        let (count, offset) = (error.count, error.first_offset);
        format!("    {kind} failed {count} ×: {name}, first in {file} at byte {offset}\n")
    });
    lines.collect()
}

fn validation(trial: &Trial) -> String {
    let results = || clones(trial).filter_map(|clone| clone.verify.as_ref());
    if results().next().is_none() {
        return String::new();
    }
    let checked: u64 = results().map(|result| result.checked).sum();
    let bad: u64 = results().map(|result| result.bad()).sum();
    let first = results().find_map(|result| result.first.as_ref());
    let first = first.map_or(String::new(), |first| {
        format!(", first: {}", sanitize(first))
    });
    format!("    validation: {checked} blocks checked, {bad} bad{first}\n")
}
