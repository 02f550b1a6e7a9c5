//! fio's terse lines, versions 3 to 5: fields between semicolons, alone or within other output.

use super::entry::{Direction, Entry, Latency};
use crate::extract::Extract;
use crate::lines::Lines;

/// The form of the entries.
pub(super) const FORM: &str = "fio terse";

/// The number of fields of a direction: 4 totals, 4 × 3 of latencies, 20 percentiles, and the samples of bandwidth
/// (5; in version 5: 6, and 5 of IOPS).
fn direction_fields(version: u32) -> usize {
    if version >= 5 { 47 } else { 41 }
}

/// Reads all terse lines of a text, and lists those that have too few fields.
pub(super) fn entries(lines: &Lines<'_>) -> (Vec<Entry>, Vec<Extract>) {
    let mut entries = Vec::new();
    let mut broken = Vec::new();
    for (line, text) in lines.iter() {
        let fields: Vec<&str> = text.trim().split(';').collect();
        let Some(version) = version(&fields) else {
            continue;
        };
        match entry(&fields, version) {
            Some(entry) => entries.push(Entry {
                lines: line..line + 1,
                line,
                run: (line, None),
                ..entry
            }),
            None => {
                let why =
                    format!("looks like fio's terse version {version}, but its fields are not");
                broken.push(Extract::unread(line..line + 1, why));
            }
        }
    }
    (entries, broken)
}

/// The version of a terse line; `None` for anything else.
fn version(fields: &[&str]) -> Option<u32> {
    let version = fields[0].parse().ok()?;
    let plausible = (3..=5).contains(&version) && fields.len() > 5 && fields[1].starts_with("fio");
    plausible.then_some(version)
}

fn entry(fields: &[&str], version: u32) -> Option<Entry> {
    let wide = direction_fields(version);
    let directions = if version >= 4 { 3 } else { 2 };
    let mut at = 5;
    let mut entry = Entry {
        form: FORM,
        version: Some(fields[1].to_owned()),
        name: fields[2].to_owned(),
        group: Some(fields[3].parse().ok()?),
        error: fields[4].parse().ok()?,
        ..Entry::default()
    };
    for slot in entry.directions.iter_mut().take(directions) {
        *slot = direction(fields.get(at..at + wide)?)?;
        at += wide;
    }
    let cpu: Vec<f64> = fields
        .get(at..at + 2)?
        .iter()
        .filter_map(|field| field.strip_suffix('%')?.parse().ok())
        .collect();
    let [user, system] = cpu[..] else {
        return None;
    };
    entry.cpu_percent = Some(user + system);
    Some(entry)
}

/// The fields of a direction; the inner `None`: it did no I/O.
fn direction(fields: &[&str]) -> Option<Option<Direction>> {
    let number = |at: usize| {
        let value: f64 = fields[at].parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    let (kib, kib_per_s, iops, runtime_ms) = (number(0)?, number(1)?, number(2)?, number(3)?);
    let latency = |at: usize| {
        let max = number(at + 1).filter(|max| *max > 0.0)?;
        Some(Latency {
            mean: number(at + 2).map(|us| us * 1e3),
            max: Some(max * 1e3),
            ..Latency::default()
        })
    };
    let mut completion = latency(8);
    let percentiles = fields[12..32].iter().filter_map(|field| {
        let (percent, us) = field.split_once("%=")?;
        let pair: (f64, f64) = (percent.parse().ok()?, us.parse().ok()?);
        // Whole microseconds, truncated: 0 is any time below 1 µs.
        (pair.0 > 0.0 && pair.1 > 0.0 && pair.1.is_finite()).then_some((pair.0, pair.1 * 1e3))
    });
    if let Some(completion) = &mut completion {
        completion.percentiles = percentiles.collect();
    }
    let direction = Direction {
        submitted: false,
        bytes: Some(kib * 1024.0),
        bandwidth: Some(kib_per_s * 1024.0),
        iops: Some(iops),
        runtime_ns: runtime_ms * 1e6,
        ops: None,
        total: latency(32),
        completion,
    };
    Some((kib > 0.0 || iops > 0.0).then_some(direction))
}
