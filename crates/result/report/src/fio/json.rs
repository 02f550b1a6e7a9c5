//! fio's `json` and `json+`: one document, which is valid for every trial.

use std::collections::BTreeMap;

use iodyno_model::{
    DeviceUse, Direction, DirectionResult, Histogram, Job, PriorityResult, Reporting, Trial,
    Workload, printable,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::entry::{self, Entry};
use super::steady::SteadyObject;
use super::{Context, VERSION, latency};
use crate::clock;
use crate::json::object;

/// A trial as `--output-format=json`, or `json+` with the bins of each distribution. Ends with a newline. Keys that fio
/// does not have: `iodyno version`, `iodyno note` if jobs are left out, and `response_lat_ns` if a rate was requested.
pub fn json(workload: &Workload, trial: &Trial, context: &Context, plus: bool) -> String {
    let all = All {
        workload,
        trial,
        entries: &entry::entries(workload, trial),
        context,
        plus,
    };
    print(&Document(all))
}

/// What a document is computed from.
#[derive(Clone, Copy)]
pub(crate) struct All<'a> {
    workload: &'a Workload,
    trial: &'a Trial,
    entries: &'a [Entry<'a>],
    context: &'a Context,
    plus: bool,
}

object!(Document<'a>(all in All<'a>) {
    "fio version": VERSION,
    "iodyno version": all.context.version,
    "iodyno note" [opt]: super::cannot_tell(all.workload),
    timestamp: all.context.now_unix_ms / 1000,
    timestamp_ms: all.context.now_unix_ms,
    time: clock::ctime(all.context.now_unix_ms, all.context.utc_offset_s),
    "global options" [filled]: all.workload.global_options,
    jobs: all.entries.iter().map(|entry| JobObject((entry, all))).collect::<Vec<_>>(),
    disk_util [filled]: (all.trial.parts.iter())
        .flat_map(|part| part.host.devices.iter().map(|device| DiskObject((device, part.host.span_ns))))
        .collect::<Vec<_>>(),
    cpu_idleness [opt]: super::idle_percent(all.trial, all.context).map(|idle| BTreeMap::from([("system", idle)])),
});

object!(JobObject<'a>((entry, all) in (&'a Entry<'a>, All<'a>)) {
    jobname: entry.job.name,
    groupid: entry.job.reporting.group,
    job_start: all.trial.started_unix_ms + entry.start_ns / 1_000_000,
    error: entry.errno,
    eta: all.context.eta_s,
    elapsed: all.context.elapsed_s,
    "job options" [filled]: own_options(entry.job),
    directions [each]: entry.rows().map(|row| {
        let share = entry::share_of_group(entry, all.entries, row);
        (entry.label(row), DirectionObject((entry.row(row), share, (&entry.job.reporting, all.plus))))
    }),
    sync: SyncObject((entry, all.plus)),
    job_runtime: entry.runtime_ms,
    usr_cpu: rounded(entry.cpu_percent().0),
    sys_cpu: rounded(entry.cpu_percent().1),
    ctx: entry.switches(),
    majf: entry.cpu.major_faults,
    minf: entry.cpu.minor_faults,
    iodepth_level: depths(entry.depth.level, latency::LEVELS),
    iodepth_submit: depths(entry.depth.submit, latency::BATCHES),
    iodepth_complete: depths(entry.depth.complete, latency::BATCHES),
    latencies [each]: classes(entry),
    total_err [opt]: entry.continues_on_error().then_some(entry.failed),
    first_error [opt]: entry.continues_on_error().then_some(entry.errno),
    latency_depth: entry.latency_depth(),
    latency_target: entry.latency_target().limit.0 / 1000,
    latency_target_ns: entry.latency_target().limit.0,
    latency_percentile: entry.latency_target().percent,
    latency_window: entry.latency_target().window.0 / 1000,
    latency_window_us: entry.latency_target().window.0 / 1000,
    desc [filled]: entry.job.description,
    steadystate [opt]: entry.steady.as_ref().map(SteadyObject),
});

object!(DirectionObject<'a>((result, share, detail) in (&'a DirectionResult, f64, Detail<'a>)) {
    io_bytes: result.bytes,
    io_kbytes: result.bytes >> 10,
    bw_bytes: entry::bytes_per_s(result) as u64,
    bw: entry::bytes_per_s(result) as u64 / 1024,
    iops: rounded(entry::iops(result)),
    runtime: entry::runtime_ms(result),
    total_ios: result.ops,
    short_ios: result.short,
    // iodyno never drops an op; a failed op is counted as an error.
    drop_ios: 0,
    slat_ns: LatencyObject::of(
        result.submission.as_ref().unwrap_or(&Histogram::default()),
        detail,
        detail.0.percentiles_of.submission,
    ),
    clat_ns: LatencyObject::of(result.after_submission(), detail, detail.0.percentiles_of.completion),
    lat_ns: LatencyObject::of(&result.service, detail, detail.0.percentiles_of.total),
    response_lat_ns [opt]: result.response.as_ref().map(|response| LatencyObject::of(response, detail, true)),
    prios [filled]: (entry::priorities(result).iter())
        .map(|of_priority| PriorityObject((of_priority, detail)))
        .collect::<Vec<_>>(),
    bw_min: (result.bandwidth.min / 1024.0) as u64,
    bw_max: (result.bandwidth.max / 1024.0) as u64,
    bw_agg: rounded(share),
    bw_mean: rounded(result.bandwidth.mean / 1024.0),
    bw_dev: rounded(result.bandwidth.stddev / 1024.0),
    bw_samples: result.bandwidth.samples,
    iops_min: result.iops.min as u64,
    iops_max: result.iops.max as u64,
    iops_mean: rounded(result.iops.mean),
    iops_stddev: rounded(result.iops.stddev),
    iops_samples: result.iops.samples,
});

// The latencies of a priority: the total ones if their percentiles are reported.
object!(PriorityObject<'a>((of_priority, detail) in (&'a PriorityResult, Detail<'a>)) {
    prioclass: of_priority.priority.class,
    prio: of_priority.priority.level,
    priohint: of_priority.priority.hint,
    latency [each]: {
        let of = detail.0.percentiles_of;
        let name = if of.total { "lat_ns" } else { "clat_ns" };
        [(name, LatencyObject::of(&of_priority.latency, detail, of.completion || of.total))]
    },
});

object!(SyncObject<'a>((entry, plus) in (&'a Entry<'a>, bool)) {
    total_ios: entry.direction(Direction::Sync).ops,
    lat_ns: {
        let of = entry.job.reporting.percentiles_of;
        let service = &entry.direction(Direction::Sync).service;
        LatencyObject::of(service, (&entry.job.reporting, plus), of.completion || of.total)
    },
});

/// The percentiles to print, and whether to print bins.
type Detail<'a> = (&'a Reporting, bool);

object!(LatencyObject<'a>((histogram, detail) in (&'a Histogram, Option<Detail<'a>>)) {
    min: histogram.min_ns(),
    max: histogram.max_ns(),
    mean: rounded(histogram.mean_ns()),
    stddev: rounded(histogram.stddev_ns()),
    N: histogram.count(),
    percentile [opt]: detail.map(|(reporting, _)| {
        let list = latency::percentiles(histogram, reporting).into_iter();
        Ordered(list.map(|(percent, ns)| (latency::name(percent, reporting), ns)).collect())
    }),
    bins [opt]: detail.filter(|(_, plus)| *plus).map(|_| {
        Ordered(latency::bins(histogram).map(|(key, count)| (key.to_string(), count)).collect())
    }),
});

impl<'a> LatencyObject<'a> {
    fn of(histogram: &'a Histogram, detail: Detail<'a>, detailed: bool) -> LatencyObject<'a> {
        LatencyObject((
            histogram,
            Some(detail).filter(|_| detailed && !histogram.is_empty()),
        ))
    }
}

object!(DiskObject<'a>((device, span_ns) in (&'a DeviceUse, u64)) {
    name: device.name,
    read_ios: device.ios[0],
    write_ios: device.ios[1],
    read_sectors: device.bytes[0] / SECTOR,
    write_sectors: device.bytes[1] / SECTOR,
    read_merges: device.merges[0],
    write_merges: device.merges[1],
    read_ticks: device.ticks_ms[0],
    write_ticks: device.ticks_ms[1],
    in_queue: device.queue_ms,
    util: rounded(utilisation(device, span_ns)),
});

/// A JSON object that keeps the order of its keys.
struct Ordered<K, V>(Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Ordered<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// fio prints a space before each colon as well; scripts that grep its JSON expect it.
struct Spaced(serde_json::ser::PrettyFormatter<'static>);

impl serde_json::ser::Formatter for Spaced {
    fn begin_array<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        self.0.begin_array(out)
    }
    fn end_array<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        self.0.end_array(out)
    }
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        self.0.begin_array_value(out, first)
    }
    fn end_array_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        self.0.end_array_value(out)
    }
    fn begin_object<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        self.0.begin_object(out)
    }
    fn end_object<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        self.0.end_object(out)
    }
    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        self.0.begin_object_key(out, first)
    }
    fn begin_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        out: &mut W,
    ) -> std::io::Result<()> {
        out.write_all(b" : ")
    }
    fn end_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        self.0.end_object_value(out)
    }
}

fn print(document: &Document) -> String {
    let mut bytes = Vec::new();
    let formatter = Spaced(serde_json::ser::PrettyFormatter::new());
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // This cannot fail: it writes to memory, and every key is a string.
    let done = document.serialize(&mut serializer);
    debug_assert!(done.is_ok());
    bytes.push(b'\n');
    let text = String::from_utf8(bytes).unwrap_or_default();
    printable::json(&text).into_owned()
}

/// The options that the job's own section gives, as in fio.
fn own_options(job: &Job) -> BTreeMap<&str, &str> {
    let options = job.options.iter();
    let own = options.filter(|(name, _)| !job.inherited.contains(*name));
    own.map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn labelled(labels: &[&'static str], shares: &[f64]) -> Ordered<&'static str, f64> {
    let pairs = labels.iter().zip(shares);
    Ordered(
        pairs
            .map(|(label, share)| (*label, rounded(*share)))
            .collect(),
    )
}

fn classes(entry: &Entry) -> [(&'static str, Ordered<&'static str, f64>); 3] {
    let classes = entry.classes();
    let shares: [(_, &[f64]); 3] = [
        ("latency_ns", &classes.ns),
        ("latency_us", &classes.us),
        ("latency_ms", &classes.ms),
    ];
    shares.map(|(name, shares)| (name, labelled(&latency::LABELS, shares)))
}

fn depths(counts: [u64; 7], labels: [&'static str; 7]) -> Ordered<&'static str, f64> {
    labelled(&labels, &latency::depth_shares(counts))
}

/// The size of a sector in diskstats, bytes; it does not depend on the device's block size.
pub(super) const SECTOR: u64 = 512;

/// Percent of the time with I/O in flight, at most 100.
pub(super) fn utilisation(device: &DeviceUse, span_ns: u64) -> f64 {
    match span_ns {
        0 => 0.0,
        span => (device.busy_ms as f64 * 1e8 / span as f64).min(100.0),
    }
}

/// Six decimals, as fio prints them; a value that is not a number is 0, because JSON cannot express it.
fn rounded(value: f64) -> f64 {
    match value.is_finite() {
        // A larger double has too few decimals to be rounded.
        true if value.abs() < 1e9 => (value * 1e6).round() / 1e6,
        true => value,
        false => 0.0,
    }
}
