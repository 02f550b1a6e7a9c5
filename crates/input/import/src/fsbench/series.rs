//! The rate of each second, computed from the cumulative rates.
//!
//! The rate in the first row is divided by the time since the program began, including the set-up, and can be wrong
//! by a factor of 1000. The cumulative rate counts from the first timed op: the number of ops up to second k is
//! cum·k, and the differences are the rates of the seconds.

use iodyno_model::{ImportedPoint, ImportedTrial};

use super::figures::Ended;
use super::table::Row;

/// Relative difference between a printed and a computed rate of a second above which there is a remark.
const DISAGREE: f64 = 0.05;
/// A remainder shorter than this, in seconds, is added to the previous second, because rows print their time in whole
/// seconds.
const MIN_TAIL: f64 = 0.1;

/// Fills in the series and its remarks.
pub(super) fn fill(trial: &mut ImportedTrial, rows: &[(u32, Row)], ended: &Ended) {
    let Some(marks) = marks(rows, ended) else {
        if !rows.is_empty() {
            let remark = "the rows of its seconds have no ops/sec(cum): no series".to_owned();
            trial.remarks.push(remark);
        }
        return;
    };
    trial.series = marks
        .windows(2)
        .map(|pair| ImportedPoint {
            start_ns: nanos(pair[0].0),
            end_ns: nanos(pair[1].0),
            rate: (pair[1].1 - pair[0].1).max(0.0) / (pair[1].0 - pair[0].0),
        })
        .collect();
    remarks(trial, rows);
}

/// (seconds, ops so far), from (0, 0) to the end. `None` without rows.
fn marks(rows: &[(u32, Row)], ended: &Ended) -> Option<Vec<(f64, f64)>> {
    if rows.is_empty() {
        return None;
    }
    let mut marks = vec![(0.0, 0.0)];
    for (_, row) in rows {
        marks.push((row.elapsed, row.get("ops/sec(cum)")? * row.elapsed));
    }
    let end = ended.seconds();
    let last = marks.last().map_or(0.0, |&(at, _)| at);
    let before = marks.len().checked_sub(2).map_or(0.0, |at| marks[at].0);
    // A row printed after the end also shows a whole second.
    let within = end < last && end > before;
    let short = end >= last && end - last < MIN_TAIL && marks.len() > 2;
    if within || short {
        marks.pop();
    }
    if end > marks.last().map_or(0.0, |&(at, _)| at) {
        marks.push((end, ended.ops));
    }
    marks
        .windows(2)
        .all(|pair| pair[0].0 < pair[1].0)
        .then_some(marks)
}

fn remarks(trial: &mut ImportedTrial, rows: &[(u32, Row)]) {
    let mut before = (0.0, 0.0);
    let mut differing = Vec::new();
    for (index, (line, row)) in rows.iter().enumerate() {
        let ops = row.get("ops/sec(cum)").unwrap_or(0.0) * row.elapsed;
        let rebuilt = (ops - before.1) / (row.elapsed - before.0);
        before = (row.elapsed, ops);
        let Some(printed) = row.get("ops/sec(inst)") else {
            continue;
        };
        // The difference of two cumulative rates, each multiplied by its seconds.
        let of = |column: &str| {
            row.printed(column)
                .map_or(0.0, |printed| printed.rounding())
        };
        let rounding = of("ops/sec(inst)") + 2.0 * of("ops/sec(cum)") * row.elapsed;
        if (rebuilt - printed).abs() <= DISAGREE * printed.max(rebuilt) + rounding {
            continue;
        }
        if index == 0 {
            trial.remarks.push(format!(
                "line {line}: ops/sec(inst) of the first second, {printed}, counts from before the set-up; \
                 by ops/sec(cum) it is {rebuilt:.1}. The series is rebuilt from ops/sec(cum)"
            ));
        } else {
            differing.push(format!("{printed} against {rebuilt:.1} (line {line})"));
        }
    }
    if !differing.is_empty() {
        trial.remarks.push(format!(
            "ops/sec(inst) differs from what ops/sec(cum) gives: {}. The series follows ops/sec(cum)",
            differing.join(", ")
        ));
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
