//! fio's `json` and `json+`: one document, which is valid for every trial.

use std::collections::BTreeMap;

use iodyno_model::{
    DeviceUse, Direction, Histogram, Job, Part, Reporting, Trial, Workload, printable,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::entry::{self, Entry, Row};
use super::steady::SteadyObject;
use super::{Context, VERSION, latency};
use crate::clock;

/// A JSON object that keeps the order of its keys.
struct Ordered<V>(Vec<(String, V)>);

impl<V: Serialize> Serialize for Ordered<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "fio version")]
    fio_version: &'static str,
    #[serde(rename = "iodyno version")]
    iodyno_version: &'a str,
    #[serde(rename = "iodyno note", skip_serializing_if = "Option::is_none")]
    iodyno_note: Option<String>,
    timestamp: u64,
    timestamp_ms: u64,
    time: String,
    #[serde(rename = "global options", skip_serializing_if = "BTreeMap::is_empty")]
    global_options: &'a BTreeMap<String, String>,
    jobs: Vec<JobObject<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disk_util: Vec<DiskObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_idleness: Option<IdleObject>,
}

#[derive(Serialize)]
struct IdleObject {
    system: f64,
}

#[derive(Serialize)]
struct JobObject<'a> {
    jobname: &'a str,
    groupid: u32,
    job_start: u64,
    error: i32,
    eta: u64,
    elapsed: u64,
    #[serde(rename = "job options", skip_serializing_if = "BTreeMap::is_empty")]
    job_options: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    rows: Ordered<DirectionObject>,
    sync: SyncObject,
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
    ctx: u64,
    majf: u64,
    minf: u64,
    iodepth_level: Ordered<f64>,
    iodepth_submit: Ordered<f64>,
    iodepth_complete: Ordered<f64>,
    latency_ns: Ordered<f64>,
    latency_us: Ordered<f64>,
    latency_ms: Ordered<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_err: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<i32>,
    latency_depth: u32,
    latency_target: u64,
    latency_target_ns: u64,
    latency_percentile: f64,
    latency_window: u64,
    latency_window_us: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    desc: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    steadystate: Option<SteadyObject>,
}

#[derive(Serialize)]
struct DirectionObject {
    io_bytes: u64,
    io_kbytes: u64,
    bw_bytes: u64,
    bw: u64,
    iops: f64,
    runtime: u64,
    total_ios: u64,
    short_ios: u64,
    drop_ios: u64,
    slat_ns: LatencyObject,
    clat_ns: LatencyObject,
    lat_ns: LatencyObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_lat_ns: Option<LatencyObject>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prios: Vec<PriorityObject>,
    bw_min: u64,
    bw_max: u64,
    bw_agg: f64,
    bw_mean: f64,
    bw_dev: f64,
    bw_samples: u64,
    iops_min: u64,
    iops_max: u64,
    iops_mean: f64,
    iops_stddev: f64,
    iops_samples: u64,
}

/// The latencies of a priority: the total ones if their percentiles are reported.
#[derive(Serialize)]
struct PriorityObject {
    prioclass: u8,
    prio: u8,
    priohint: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    clat_ns: Option<LatencyObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_ns: Option<LatencyObject>,
}

#[derive(Serialize)]
struct SyncObject {
    total_ios: u64,
    lat_ns: LatencyObject,
}

#[derive(Serialize)]
struct LatencyObject {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "N")]
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<Ordered<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bins: Option<Ordered<u64>>,
}

#[derive(Serialize)]
struct DiskObject<'a> {
    name: &'a str,
    read_ios: u64,
    write_ios: u64,
    read_sectors: u64,
    write_sectors: u64,
    read_merges: u64,
    write_merges: u64,
    read_ticks: u64,
    write_ticks: u64,
    in_queue: u64,
    util: f64,
}

/// A trial as `--output-format=json`, or `json+` with the bins of each distribution. Ends with a newline. Keys that fio
/// does not have: `iodyno version`, `iodyno note` if jobs are left out, and `response_lat_ns` if a rate was requested.
pub fn json(workload: &Workload, trial: &Trial, context: &Context, plus: bool) -> String {
    let entries = entry::entries(workload, trial);
    let document = Document {
        fio_version: VERSION,
        iodyno_version: &context.version,
        iodyno_note: super::cannot_tell(workload),
        timestamp: context.now_unix_ms / 1000,
        timestamp_ms: context.now_unix_ms,
        time: clock::ctime(context.now_unix_ms, context.utc_offset_s),
        global_options: &workload.global_options,
        jobs: entries
            .iter()
            .map(|entry| job_object(entry, &entries, trial, context, plus))
            .collect(),
        disk_util: trial.parts.iter().flat_map(disks).collect(),
        cpu_idleness: super::idle_percent(trial, context).map(|system| IdleObject { system }),
    };
    print(&document)
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

fn job_object<'a>(
    entry: &Entry<'a>,
    entries: &[Entry<'a>],
    trial: &Trial,
    context: &'a Context,
    plus: bool,
) -> JobObject<'a> {
    let job = entry.job;
    let (usr_cpu, sys_cpu) = entry.cpu_percent();
    let services: Vec<&Histogram> = entry.moved().iter().map(|result| &result.service).collect();
    let classes = latency::classes(&services, entry.ops());
    let labelled = |shares: &[f64]| {
        let pairs = latency::LABELS.iter().zip(shares);
        Ordered(
            pairs
                .map(|(label, share)| ((*label).to_owned(), rounded(*share)))
                .collect(),
        )
    };
    let rows = entry.rows().map(|row| {
        let object = direction_object(entry, entries, row, plus);
        (entry.label(row).to_owned(), object)
    });
    let sync = entry.direction(Direction::Sync);
    let of = job.reporting.percentiles_of;
    let target = entry.latency_target();
    let errors = entry.continues_on_error();
    JobObject {
        jobname: &job.name,
        groupid: job.reporting.group,
        job_start: trial.started_unix_ms + entry.start_ns / 1_000_000,
        error: entry.errno,
        eta: context.eta_s,
        elapsed: context.elapsed_s,
        job_options: own_options(job),
        rows: Ordered(rows.collect()),
        sync: SyncObject {
            total_ios: sync.ops,
            lat_ns: latency_object(
                &sync.service,
                (of.completion || of.total).then_some(&job.reporting),
                plus,
            ),
        },
        job_runtime: entry.runtime_ms,
        usr_cpu: rounded(usr_cpu),
        sys_cpu: rounded(sys_cpu),
        ctx: entry.switches(),
        majf: entry.cpu.major_faults,
        minf: entry.cpu.minor_faults,
        iodepth_level: depths(&entry.depth.level, ["1", "2", "4", "8", "16", "32", ">=64"]),
        iodepth_submit: depths(&entry.depth.submit, BATCHES),
        iodepth_complete: depths(&entry.depth.complete, BATCHES),
        latency_ns: labelled(&classes.ns),
        latency_us: labelled(&classes.us),
        latency_ms: labelled(&classes.ms),
        total_err: errors.then_some(entry.failed),
        first_error: errors.then_some(entry.errno),
        latency_depth: entry.latency_depth(),
        latency_target: target.limit.0 / 1000,
        latency_target_ns: target.limit.0,
        latency_percentile: target.percent,
        latency_window: target.window.0 / 1000,
        latency_window_us: target.window.0 / 1000,
        desc: &job.description,
        steadystate: entry.steady.as_ref().map(SteadyObject::of),
    }
}

const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

fn depths(counts: &[u64; 7], labels: [&str; 7]) -> Ordered<f64> {
    let shares = latency::shares(*counts, counts.iter().sum(), 0.1);
    let pairs = labels.iter().zip(shares);
    Ordered(
        pairs
            .map(|(label, share)| ((*label).to_owned(), rounded(share)))
            .collect(),
    )
}

fn direction_object(entry: &Entry, entries: &[Entry], row: Row, plus: bool) -> DirectionObject {
    let result = entry.row(row);
    let reporting = &entry.job.reporting;
    let bw_bytes = entry::bytes_per_s(result) as u64;
    let bandwidth = &result.bandwidth;
    let response = result.response.as_ref();
    let empty = Histogram::default();
    let submission = result.submission.as_ref().unwrap_or(&empty);
    let latencies = |histogram: &Histogram, detailed: bool| {
        latency_object(histogram, detailed.then_some(reporting), plus)
    };
    let of = reporting.percentiles_of;
    DirectionObject {
        io_bytes: result.bytes,
        io_kbytes: result.bytes >> 10,
        bw_bytes,
        bw: bw_bytes / 1024,
        iops: rounded(entry::iops(result)),
        runtime: entry::runtime_ms(result),
        total_ios: result.ops,
        short_ios: result.short,
        // iodyno never drops an op; a failed op is counted as an error.
        drop_ios: 0,
        slat_ns: latencies(submission, of.submission),
        clat_ns: latencies(result.after_submission(), of.completion),
        lat_ns: latencies(&result.service, of.total),
        response_lat_ns: response.map(|response| latencies(response, true)),
        prios: entry::priorities(result)
            .iter()
            .map(|of_priority| {
                let latency = latencies(&of_priority.latency, of.completion || of.total);
                let (clat_ns, lat_ns) = match of.total {
                    true => (None, Some(latency)),
                    false => (Some(latency), None),
                };
                PriorityObject {
                    prioclass: of_priority.priority.class,
                    prio: of_priority.priority.level,
                    priohint: of_priority.priority.hint,
                    clat_ns,
                    lat_ns,
                }
            })
            .collect(),
        bw_min: (bandwidth.min / 1024.0) as u64,
        bw_max: (bandwidth.max / 1024.0) as u64,
        bw_agg: match bandwidth.samples {
            0 => 0.0,
            _ => rounded(entry::share_of_group(entry, entries, row)),
        },
        bw_mean: rounded(bandwidth.mean / 1024.0),
        bw_dev: rounded(bandwidth.stddev / 1024.0),
        bw_samples: bandwidth.samples,
        iops_min: result.iops.min as u64,
        iops_max: result.iops.max as u64,
        iops_mean: rounded(result.iops.mean),
        iops_stddev: rounded(result.iops.stddev),
        iops_samples: result.iops.samples,
    }
}

fn latency_object(
    histogram: &Histogram,
    percentiles: Option<&Reporting>,
    plus: bool,
) -> LatencyObject {
    let detailed = percentiles.filter(|_| !histogram.is_empty());
    LatencyObject {
        min: histogram.min_ns(),
        max: histogram.max_ns(),
        mean: rounded(histogram.mean_ns()),
        stddev: rounded(histogram.stddev_ns()),
        count: histogram.count(),
        percentile: detailed.map(|reporting| {
            let list = latency::percentiles(histogram, reporting);
            let keyed = list
                .into_iter()
                .map(|(percent, ns)| (latency::name(percent, reporting), ns));
            Ordered(keyed.collect())
        }),
        bins: detailed.filter(|_| plus).map(|_| {
            let bins = latency::bins(histogram);
            Ordered(bins.map(|(key, count)| (key.to_string(), count)).collect())
        }),
    }
}

fn disks(part: &Part) -> impl Iterator<Item = DiskObject<'_>> {
    let devices = part.host.devices.iter();
    devices.map(|device| DiskObject {
        name: &device.name,
        read_ios: device.ios[0],
        write_ios: device.ios[1],
        read_sectors: device.bytes[0] / SECTOR,
        write_sectors: device.bytes[1] / SECTOR,
        read_merges: device.merges[0],
        write_merges: device.merges[1],
        read_ticks: device.ticks_ms[0],
        write_ticks: device.ticks_ms[1],
        in_queue: device.queue_ms,
        util: rounded(utilisation(device, part.host.span_ns)),
    })
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
