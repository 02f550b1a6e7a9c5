//! fio's human-readable output, similar enough for scripts that grep it.

use std::io;

use iodyno_model::{BlockSizes, Direction, Histogram, PriorityResult, Reporting, Trial, Workload};

use iodyno_units::Nanos;

use super::entry::{self, Entry, Row};
use super::json::{SECTOR, utilisation};
use super::numbers::{Base, Notation, prefixed};
use super::{Context, VERSION, latency, steady};
use crate::clock;
use crate::style::sanitize;

/// The lines that fio prints before a run: one line per job, the version, the number of workers.
pub fn banner(workload: &Workload) -> String {
    let mut text = String::new();
    for job in &workload.jobs {
        let blocks = job.work.as_blocks();
        let sizes = &blocks.access.block_sizes;
        let notation = Notation::of(&job.reporting);
        let range = |sizes: &BlockSizes| {
            let size = |bytes: u64| notation.size(bytes as f64).0;
            format!("{}-{}", size(sizes.min()), size(sizes.max()))
        };
        text += &format!(
            "{}: (g={}): rw={}, bs=(R) {}, (W) {}, (T) {}, ioengine={}, iodepth={}\n",
            sanitize(&job.name),
            job.reporting.group,
            blocks.access.pattern(),
            range(&sizes.read),
            range(&sizes.write),
            range(&sizes.trim),
            blocks.engine.kind.name(),
            blocks.engine.depth
        );
        if job.clones > 1 {
            text += "...\n";
        }
    }
    let workers: u32 = workload.jobs.iter().map(|job| job.clones).sum();
    let plural = if workers == 1 { "" } else { "s" };
    text + &format!("{VERSION}\nStarting {workers} thread{plural}\n")
}

/// A trial as `--output-format=normal`.
pub fn normal(workload: &Workload, trial: &Trial, context: &Context) -> String {
    let entries = entry::entries(workload, trial);
    let mut text = String::from("\n");
    for entry in &entries {
        if entry.moved().iter().any(|result| result.ops > 0) || entry.failed > 0 {
            text += &status(entry, &entries, context);
        }
    }
    let mut groups: Vec<u32> = entries
        .iter()
        .map(|entry| entry.job.reporting.group)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        text += &format!("\nRun status group {group} (all jobs):\n");
        // As in fio, the last one of the group decides.
        let mut members = entries.iter().rev();
        let last = members.find(|entry| entry.job.reporting.group == group);
        for (last, row) in last
            .iter()
            .flat_map(|last| last.rows().map(move |row| (last, row)))
        {
            text += &group_line(&entries, last, row);
        }
    }
    text += &disks(trial);
    if let Some(percent) = super::idle_percent(trial, context) {
        text += &format!("\nCPU idleness:\n  system: {percent:.2}%\n");
    }
    text
}

fn status(entry: &Entry, entries: &[Entry], context: &Context) -> String {
    let job = entry.job;
    let error = match entry.errno {
        0 => "err= 0".to_owned(),
        errno => format!("err={errno:2} ({})", describe(errno)),
    };
    let mut text = format!(
        "{}: (groupid={}, jobs={}): {error}: pid={}: {}\n",
        sanitize(&job.name),
        job.reporting.group,
        entry.members,
        context.pid,
        clock::ctime(context.now_unix_ms, context.utc_offset_s)
    );
    if !job.description.is_empty() {
        text += &format!("  Description  : [{}]\n", sanitize(&job.description));
    }
    for row in entry.rows().filter(|row| entry.row(*row).bytes > 0) {
        text += &direction_status(entry, entries, row);
    }
    text += &latency_classes(entry);
    let sync = entry.direction(Direction::Sync);
    if !sync.service.is_empty() {
        text += "  fsync/fdatasync/sync_file_range/syncfs:\n";
        text += &latency_line("sync", &sync.service);
        text += &percentiles("sync", &sync.service, &job.reporting);
    }
    text += &usage(entry);
    if let Some(result) = &entry.steady {
        text += &steady::line(result, Notation::of(&job.reporting));
    }
    text
}

/// The C library's text for an errno.
fn describe(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    match text.rsplit_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

fn direction_status(entry: &Entry, entries: &[Entry], row: Row) -> String {
    let result = entry.row(row);
    let reporting = &entry.job.reporting;
    let notation = Notation::of(reporting);
    let (first, second) = notation.rate(entry::bytes_per_s(result));
    let (moved, _) = notation.size(result.bytes as f64);
    let mut text = format!(
        "  {}: IOPS={}, BW={first} ({second})({moved}/{}msec)\n",
        entry.label(row),
        notation.number(entry::iops(result)),
        entry::runtime_ms(result)
    );
    if let Some(submission) = result.submission.as_ref().filter(|s| !s.is_empty()) {
        text += &latency_line("slat", submission);
    }
    text += &latency_line("clat", result.after_submission());
    text += &latency_line(" lat", &result.service);
    if let Some(response) = result.response.as_ref().filter(|r| !r.is_empty()) {
        text += &latency_line("rlat", response);
    }
    let of = reporting.percentiles_of;
    let name_of = |result: &PriorityResult| {
        let latency = if of.total { "lat" } else { "clat" };
        format!("{latency} prio {}", result.priority)
    };
    for of_priority in entry::priorities(result) {
        text += &latency_line(&name_of(of_priority), &of_priority.latency);
    }
    for (shown, name, histogram) in [
        (of.submission, "slat", result.submission.as_ref()),
        (of.completion, "clat", Some(result.after_submission())),
        (of.total, "lat", Some(&result.service)),
        (true, "rlat", result.response.as_ref()),
    ] {
        if let Some(histogram) = histogram.filter(|histogram| shown && !histogram.is_empty()) {
            text += &percentiles(name, histogram, reporting);
        }
    }
    let shown = entry::priorities(result)
        .iter()
        .filter(|_| of.completion || of.total);
    for of_priority in shown {
        let share = of_priority.latency.count() as f64 * 100.0 / result.ops.max(1) as f64;
        let name = format!("{} ({share:.2}% of IOs)", name_of(of_priority));
        text += &percentiles(&name, &of_priority.latency, reporting);
    }
    text + &samples(entry, entries, row)
}

fn samples(entry: &Entry, entries: &[Entry], row: Row) -> String {
    let result = entry.row(row);
    let mut text = String::new();
    let bandwidth = &result.bandwidth;
    if bandwidth.samples > 0 && bandwidth.mean > 0.0 {
        let share = entry::share_of_group(entry, entries, row);
        let (factor, unit) = Notation::of(&entry.job.reporting).sampled(bandwidth.mean);
        text += &format!(
            "   bw ({unit:>5}/s): min={:5}, max={:5}, per={share:.2}%, avg={:5.2}, stdev={:5.2}, samples={}\n",
            (bandwidth.min * factor) as u64,
            (bandwidth.max * factor) as u64,
            bandwidth.mean * factor,
            bandwidth.stddev * factor,
            bandwidth.samples
        );
    }
    let iops = &result.iops;
    if iops.samples > 0 && iops.mean > 0.0 {
        text += &format!(
            "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}\n",
            iops.min as u64, iops.max as u64, iops.mean, iops.stddev, iops.samples
        );
    }
    text
}

/// Divisor and unit for a line of latencies: µs or ms if all its values are well above one of that unit.
fn scale(histogram: &Histogram) -> (f64, &'static str) {
    let (min, max) = (histogram.min_ns(), histogram.max_ns());
    let deviates = |least: f64| {
        let close = |value: f64| value > least;
        close(histogram.mean_ns()) && close(histogram.stddev_ns())
    };
    match (min, max) {
        (min, max) if min > 2_000_000 && max > 99_999_999 && deviates(1e6) => (1e6, "msec"),
        (min, max) if min > 2_000 && max > 99_999 && deviates(1e3) => (1e3, "usec"),
        _ => (1.0, "nsec"),
    }
}

fn latency_line(name: &str, histogram: &Histogram) -> String {
    if histogram.is_empty() {
        return String::new();
    }
    let (divisor, unit) = scale(histogram);
    let whole = |ns: u64| prefixed((ns as f64 / divisor).trunc(), 6, Base::Decimal);
    format!(
        "    {name} ({unit}): min={}, max={}, avg={:5.2}, stdev={:5.2}\n",
        whole(histogram.min_ns()),
        whole(histogram.max_ns()),
        histogram.mean_ns() / divisor,
        histogram.stddev_ns() / divisor
    )
}

fn percentiles(name: &str, histogram: &Histogram, reporting: &Reporting) -> String {
    let list = latency::percentiles(histogram, reporting);
    let (Some((_, low)), Some((_, high))) = (list.first(), list.last()) else {
        return String::new();
    };
    if histogram.is_empty() {
        return String::new();
    }
    let (divisor, unit) = match (*low, *high) {
        (low, high) if low > 2_000_000 && high > 99_999_999 => (1_000_000, "msec"),
        (low, high) if low > 2_000 && high > 99_999 => (1_000, "usec"),
        _ => (1, "nsec"),
    };
    let digits = high.div_ceil(divisor).to_string().len().max(5);
    let decimals = latency::decimals(reporting);
    let (width, in_line) = (decimals + 3, (80 - 7) / (decimals + 10 + digits));
    let mut text = format!("    {name} percentiles ({unit}):\n");
    for line in list.chunks(in_line.max(1)) {
        let cells: Vec<String> = line
            .iter()
            .map(|(percent, ns)| {
                format!(
                    " {percent:width$.decimals$}th=[{:digits$}]",
                    ns.div_ceil(divisor)
                )
            })
            .collect();
        text += &format!("     |{},\n", cells.join(","));
    }
    // The last cell of all has no comma.
    text.truncate(text.len() - 2);
    text + "\n"
}

fn latency_classes(entry: &Entry) -> String {
    let classes = entry.classes();
    let blocks: [(&str, &[f64]); 3] = [
        ("nsec", &classes.ns),
        ("usec", &classes.us),
        ("msec", &classes.ms),
    ];
    let mut text = String::new();
    for (unit, shares) in blocks {
        let cells: Vec<String> = latency::LABELS
            .iter()
            .zip(shares)
            .filter(|(_, share)| **share > 0.0)
            .map(|(label, share)| format!("{label}={share:.2}%"))
            .collect();
        for line in cells.chunks(5) {
            text += &format!("  lat ({unit})   : {}\n", line.join(", "));
        }
    }
    text
}

fn usage(entry: &Entry) -> String {
    let (user, system) = entry.cpu_percent();
    let mut text = format!(
        "  cpu          : usr={user:.2}%, sys={system:.2}%, ctx={}, majf={}, minf={}\n",
        entry.switches(),
        entry.cpu.major_faults,
        entry.cpu.minor_faults
    );
    text += &depth_line("  IO depths    ", latency::LEVELS, entry.depth.level);
    text += &depth_line("     submit    ", latency::BATCHES, entry.depth.submit);
    text += &depth_line("     complete  ", latency::BATCHES, entry.depth.complete);
    let [read, write, trim] = [Direction::Read, Direction::Write, Direction::Trim]
        .map(|direction| entry.direction(direction));
    text += &format!(
        "     issued rwts: total={},{},{},{} short={},{},{},0 dropped=0,0,0,0\n",
        read.ops,
        write.ops,
        trim.ops,
        entry.direction(Direction::Sync).ops,
        read.short,
        write.short,
        trim.short
    );
    if entry.continues_on_error() {
        text += &format!(
            "     errors    : total={}, first_error={}/<{}>\n",
            entry.failed,
            entry.errno,
            describe(entry.errno)
        );
    }
    let target = entry.latency_target();
    let time = |time: Nanos| match time.0 {
        0 => "0.00ns".to_owned(),
        ns => format!("{:.2}us", ns as f64 / 1e3),
    };
    text + &format!(
        "     latency   : target={}, window={}, percentile={:.2}%, depth={}\n",
        time(target.limit),
        time(target.window),
        target.percent,
        entry.latency_depth()
    )
}

fn depth_line(name: &str, labels: [&str; 7], counts: [u64; 7]) -> String {
    let shares = latency::depth_shares(counts);
    let cells: Vec<String> = labels
        .iter()
        .zip(shares)
        .map(|(label, share)| format!("{label}={share:.1}%"))
        .collect();
    format!("{name}: {}\n", cells.join(", "))
}

/// The line of a group; the `last` of its entries decides on rows and notation.
fn group_line(entries: &[Entry], last: &Entry, row: Row) -> String {
    let reporting = &last.job.reporting;
    let Some(run) = entry::group_run(entries, reporting.group, row) else {
        return String::new();
    };
    let notation = Notation::of(reporting);
    let (all, also_all) = notation.rate(run.bytes_per_s);
    let (least, also_least) = notation.rate(run.rates.0);
    let (most, also_most) = notation.rate(run.rates.1);
    let (moved, also_moved) = notation.size(run.bytes as f64);
    format!(
        "{:>7}: bw={all} ({also_all}), {least}-{most} ({also_least}-{also_most}), \
         io={moved} ({also_moved}), run={}-{}msec\n",
        last.label(row).to_uppercase(),
        run.runs_ms.0,
        run.runs_ms.1
    )
}

fn disks(trial: &Trial) -> String {
    if trial.parts.iter().all(|part| part.host.devices.is_empty()) {
        return String::new();
    }
    let mut text = String::from("\nDisk stats (read/write):\n");
    for part in &trial.parts {
        for device in &part.host.devices {
            text += &format!(
                "  {}: ios={}/{}, sectors={}/{}, merge={}/{}, ticks={}/{}, in_queue={}, util={:.2}%\n",
                sanitize(&device.name),
                device.ios[0],
                device.ios[1],
                device.bytes[0] / SECTOR,
                device.bytes[1] / SECTOR,
                device.merges[0],
                device.merges[1],
                device.ticks_ms[0],
                device.ticks_ms[1],
                device.queue_ms,
                utilisation(device, part.host.span_ns)
            );
        }
    }
    text
}
