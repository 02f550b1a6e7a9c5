//! fio's terse output, versions 2 to 5: one line per entry, with fields separated by semicolons.
//!
//! Version 3 has no trims. Version 5 adds the number of bandwidth samples and the IOPS samples. Version 2 has neither
//! fio's version nor disks, and its description is a separate line.

use iodyno_model::{Direction, Histogram, Trial, Workload};

use super::entry::{self, Entry, Row};
use super::json::utilisation;
use super::{VERSION, latency};
use crate::style::sanitize;

/// A trial as `--output-format=terse` of this `--terse-version`: a line for each entry of `jobs`.
pub fn terse(workload: &Workload, trial: &Trial, version: u8) -> String {
    let entries = entry::entries(workload, trial);
    entries
        .iter()
        .map(|entry| line(entry, &entries, trial, version) + "\n")
        .collect()
}

fn line(entry: &Entry, entries: &[Entry], trial: &Trial, version: u8) -> String {
    let job = entry.job;
    let mut fields = vec![version.to_string()];
    if version > 2 {
        fields.push(VERSION.to_owned());
    }
    fields.extend([
        field(&job.name),
        job.reporting.group.to_string(),
        entry.errno.to_string(),
    ]);
    let trims = version != 3;
    let rows = entry.rows();
    for row in rows.filter(|row| trims || !matches!(row, Row::Of(Direction::Trim))) {
        direction_fields(&mut fields, entry, entries, row, version);
    }
    let (user, system) = entry.cpu_percent();
    fields.push(format!("{user:.6}%"));
    fields.push(format!("{system:.6}%"));
    fields.push(entry.switches().to_string());
    fields.push(entry.cpu.major_faults.to_string());
    fields.push(entry.cpu.minor_faults.to_string());

    let depths = latency::depth_shares(entry.depth.level);
    fields.extend(depths.iter().map(|share| format!("{share:.1}%")));
    let mut classes = entry.classes();
    // The format predates ns: its first class holds everything below 2 µs.
    classes.us[0] += classes.ns.iter().sum::<f64>();
    let shares = classes.us.iter().chain(&classes.ms);
    fields.extend(shares.map(|share| format!("{share:.2}%")));

    for part in trial.parts.iter().filter(|_| version > 2) {
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
    let line = fields.join(";");
    match (job.description.is_empty(), version) {
        (true, _) => line,
        (false, 2) => format!("{line}\n;{}", field(&job.description)),
        (false, _) => format!("{line};{}", field(&job.description)),
    }
}

fn direction_fields(
    fields: &mut Vec<String>,
    entry: &Entry,
    entries: &[Entry],
    row: Row,
    version: u8,
) {
    let result = entry.row(row);
    fields.extend([
        (result.bytes >> 10).to_string(),
        ((entry::bytes_per_s(result) / 1024.0) as u64).to_string(),
        (entry::iops(result) as u64).to_string(),
        entry::runtime_ms(result).to_string(),
    ]);
    let empty = Histogram::default();
    latency_fields(fields, result.submission.as_ref().unwrap_or(&empty));
    latency_fields(fields, result.after_submission());
    let reporting = &entry.job.reporting;
    let of = reporting.percentiles_of;
    let percentiles = match (of.total, of.completion) {
        (true, _) => latency::percentiles(&result.service, reporting),
        (false, true) => latency::percentiles(result.after_submission(), reporting),
        (false, false) => Vec::new(),
    };
    for index in 0..latency::MAX_PERCENTILES {
        fields.push(match percentiles.get(index) {
            Some((percent, ns)) => format!("{}%={}", latency::name(*percent, reporting), ns / 1000),
            None => "0%=0".to_owned(),
        });
    }
    latency_fields(fields, &result.service);
    let bandwidth = &result.bandwidth;
    let share = entry::share_of_group(entry, entries, row);
    fields.extend([
        ((bandwidth.min / 1024.0) as u64).to_string(),
        ((bandwidth.max / 1024.0) as u64).to_string(),
        format!("{share:.6}%"),
        format!("{:.6}", bandwidth.mean / 1024.0),
        format!("{:.6}", bandwidth.stddev / 1024.0),
    ]);
    if version == 5 {
        let iops = &result.iops;
        fields.extend([
            bandwidth.samples.to_string(),
            (iops.min as u64).to_string(),
            (iops.max as u64).to_string(),
            format!("{:.6}", iops.mean),
            format!("{:.6}", iops.stddev),
            iops.samples.to_string(),
        ]);
    }
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

/// A name without characters that end a field or a line or steer a terminal.
fn field(text: &str) -> String {
    sanitize(&text.replace([';', '\n', '\r'], "_"))
}
