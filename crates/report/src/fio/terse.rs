//! fio's terse output, version 3: a line an entry, fields parted by semicolons.

use iodyno_model::{Direction, Histogram, Trial, Workload};

use super::entry::{self, Entry};
use super::json::utilisation;
use super::{Context, VERSION, latency};
use crate::style::sanitize;

/// A trial as `--output-format=terse --terse-version=3`: a line for each entry of `jobs`.
pub fn terse(workload: &Workload, trial: &Trial, _context: &Context) -> String {
    let entries = entry::entries(workload, trial);
    entries
        .iter()
        .map(|entry| line(entry, &entries, trial) + "\n")
        .collect()
}

fn line(entry: &Entry, entries: &[Entry], trial: &Trial) -> String {
    let job = entry.job;
    let mut fields = vec![
        "3".to_owned(),
        VERSION.to_owned(),
        field(&job.name),
        job.reporting.group.to_string(),
        entry.errno.to_string(),
    ];
    for direction in [Direction::Read, Direction::Write] {
        direction_fields(&mut fields, entry, entries, direction);
    }
    let (user, system) = entry.cpu_percent();
    fields.push(format!("{user:.6}%"));
    fields.push(format!("{system:.6}%"));
    fields.push(entry.switches().to_string());
    fields.push(entry.cpu.major_faults.to_string());
    fields.push(entry.cpu.minor_faults.to_string());

    let level = entry.depth.level;
    let depths = latency::shares(level, level.iter().sum(), 0.1);
    fields.extend(depths.iter().map(|share| format!("{share:.1}%")));
    let services: Vec<&Histogram> = entry.moved().iter().map(|result| &result.service).collect();
    let mut classes = latency::classes(&services, entry.ops());
    // The format is older than ns: its first class holds everything below 2 µs.
    classes.us[0] += classes.ns.iter().sum::<f64>();
    let shares = classes.us.iter().chain(&classes.ms);
    fields.extend(shares.map(|share| format!("{share:.2}%")));

    for part in &trial.parts {
        for device in &part.host.devices {
            fields.push(field(&device.name));
            let counters = [
                device.ios[0],
                device.ios[1],
                device.merges[0],
                device.merges[1],
                device.ticks_ms[0],
                device.ticks_ms[1],
                device.queue_ms,
            ];
            fields.extend(counters.map(|counter| counter.to_string()));
            fields.push(format!("{:.2}%", utilisation(device, part.host.span_ns)));
        }
    }
    if entry.continues_on_error() {
        fields.push(entry.failed.to_string());
        fields.push(entry.errno.to_string());
    }
    if !job.description.is_empty() {
        fields.push(field(&job.description));
    }
    fields.join(";")
}

fn direction_fields(
    fields: &mut Vec<String>,
    entry: &Entry,
    entries: &[Entry],
    direction: Direction,
) {
    let result = entry.direction(direction);
    fields.extend([
        (result.bytes >> 10).to_string(),
        ((entry::bytes_per_s(result) / 1024.0) as u64).to_string(),
        (entry::iops(result) as u64).to_string(),
        entry::runtime_ms(result).to_string(),
    ]);
    let empty = Histogram::default();
    latency_fields(fields, result.submission.as_ref().unwrap_or(&empty));
    latency_fields(fields, result.after_submission());
    let percentiles = latency::percentiles(result.after_submission(), &entry.job.reporting);
    for index in 0..latency::MOST_PERCENTILES {
        fields.push(match percentiles.get(index) {
            Some((percent, ns)) => format!("{percent:.6}%={}", ns / 1000),
            None => "0%=0".to_owned(),
        });
    }
    latency_fields(fields, &result.service);
    let bandwidth = &result.bandwidth;
    let share = match bandwidth.samples {
        0 => 0.0,
        _ => entry::share_of_group(entry, entries, direction),
    };
    fields.extend([
        ((bandwidth.min / 1024.0) as u64).to_string(),
        ((bandwidth.max / 1024.0) as u64).to_string(),
        format!("{share:.6}%"),
        format!("{:.6}", bandwidth.mean / 1024.0),
        format!("{:.6}", bandwidth.stddev / 1024.0),
    ]);
}

/// Smallest, largest, mean, deviation, in µs.
fn latency_fields(fields: &mut Vec<String>, histogram: &Histogram) {
    fields.extend([
        (histogram.min_ns() / 1000).to_string(),
        (histogram.max_ns() / 1000).to_string(),
        format!("{:.6}", histogram.mean_ns() / 1000.0),
        format!("{:.6}", histogram.stddev_ns() / 1000.0),
    ]);
}

/// A name that would end its field or its line is kept within it, and steers nothing.
fn field(text: &str) -> String {
    sanitize(&text.replace([';', '\n', '\r'], "_"))
}
