//! pgbench: transactions per second and their latency.

use iodyno_model::{FactClass, ImportedPoint, ImportedTrial, Kind, Metric};

use super::{add, fact, setting};
use crate::extract::Extract;
use crate::lines::Lines;
use crate::number::number;

const FORM: &str = "pgbench";
/// The first line of every report.
const HEAD: &str = "transaction type: ";
/// What is printed above it on standard error.
const BEFORE: [&str; 5] = [
    "pgbench (",
    "starting vacuum",
    "progress: ",
    "vacuuming",
    "end.",
];
/// Settings with the names of the facts.
const SETTINGS: [(&str, FactClass, &str); 6] = [
    ("scaling factor", FactClass::Workload, "scale"),
    ("query mode", FactClass::Workload, "query mode"),
    ("number of clients", FactClass::Workload, "jobs"),
    ("number of threads", FactClass::Workload, "threads"),
    ("duration", FactClass::Ending, "duration"),
    (
        "number of transactions per client",
        FactClass::Ending,
        "transactions of a client",
    ),
];

/// All results of this form.
pub(in super::super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = Vec::new();
    let mut free_from = 1;
    for (head, text) in lines.iter() {
        let Some(kind) = text.trim().strip_prefix(HEAD).filter(|_| head >= free_from) else {
            continue;
        };
        let belongs = |line: &u32| {
            BEFORE
                .iter()
                .any(|begin| lines.get(*line).starts_with(begin))
        };
        let start = (free_from..head)
            .rev()
            .take_while(belongs)
            .last()
            .unwrap_or(head);
        let mut trial = lines.trial(FORM, head);
        trial.workload = kind.trim_matches(['<', '>']).to_owned();
        progress(lines, start..head, &mut trial);
        let mut end = head + 1;
        for (line, text) in lines.range(head + 1..lines.count() + 1) {
            if !take(text.trim(), &mut trial) {
                break;
            }
            end = line + 1;
        }
        free_from = end;
        found.push(match trial.figures.is_empty() {
            true => Extract::unread(head..end, "pgbench's report without `tps` or a latency"),
            false => Extract::trial(start..end, trial),
        });
    }
    found
}

/// Takes a line of the report; `false` if it is not one.
fn take(text: &str, trial: &mut ImportedTrial) -> bool {
    if let Some((name, value)) = setting(text, '=') {
        let ms = || number(value.split(' ').next()?).filter(|_| value.ends_with("ms"));
        match name {
            "latency average" => add(trial, Metric::time("op.mean"), ms().map(|ms| ms * 1e6)),
            "latency stddev" => add(trial, Metric::time("op.stddev"), ms().map(|ms| ms * 1e6)),
            "initial connection time" | "average connection time" => {}
            // Before version 14 both rates were printed; that of the established connections counts.
            "tps" if value.contains("including connections") => {}
            "tps" => {
                let rate = value.split(' ').next().and_then(number);
                add(trial, Metric::iops("tps"), rate);
                trial.primary = Some("tps".to_owned());
            }
            _ => return false,
        }
        return true;
    }
    let Some((name, value)) = setting(text, ':') else {
        return false;
    };
    if let Some(&(_, class, fact_name)) = SETTINGS.iter().find(|(known, ..)| *known == name) {
        fact(trial, class, fact_name, value);
        if name == "duration" {
            trial.kind = Kind::Timed;
        }
        return true;
    }
    match name {
        "number of failed transactions" if !value.starts_with("0 ") => {
            trial
                .remarks
                .push(format!("{value} of the transactions failed"));
            true
        }
        _ => {
            name.starts_with("number of ")
                || name.starts_with("maximum number of ")
                || name == "partition method"
                || name == "partitions"
        }
    }
}

/// `progress: 1.0 s, 432.0 tps, lat 9.070 ms stddev 7.752, 0 failed`.
fn progress(lines: &Lines<'_>, at: std::ops::Range<u32>, trial: &mut ImportedTrial) {
    let mut before = 0.0;
    for (_, text) in lines.range(at) {
        let point = text.strip_prefix("progress: ").and_then(|rest| {
            let mut parts = rest.split(", ");
            let at = number(parts.next()?.strip_suffix(" s")?)?;
            Some((at, number(parts.next()?.strip_suffix(" tps")?)?))
        });
        if let Some((at, rate)) = point.filter(|(at, _)| *at > before) {
            trial.series.push(ImportedPoint {
                start_ns: (before * 1e9) as u64,
                end_ns: (at * 1e9) as u64,
                rate,
            });
            before = at;
        }
    }
}
