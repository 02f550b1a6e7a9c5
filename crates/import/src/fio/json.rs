//! fio's JSON and json+ documents at any place of a text.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};

use super::document::{Attempt, Joined};
use super::entry::{DIRECTIONS, Direction, Entry, Latency, Syncs};
use crate::extract::Extract;
use crate::lines::Lines;

/// The form of the entries.
pub(super) const FORM: &str = "fio json";

/// Reads all jobs of all documents of a text, and lists truncated documents.
///
/// The jobs before the point of truncation are read.
pub(super) fn entries(lines: &Lines<'_>) -> (Vec<Entry>, Vec<Extract>) {
    let mut entries = Vec::new();
    let mut broken = Vec::new();
    let mut joined = Joined::of(lines);
    let mut around = Header::default();
    let mut line = 1;
    while line <= lines.count() {
        if !lines.get(line).trim_start().starts_with(['{', '[']) {
            line += 1;
            continue;
        }
        match joined.document(line) {
            Attempt::Read(values, range) => {
                let before = entries.len();
                let mut documents = Vec::new();
                for (document, value) in values.iter().enumerate() {
                    collect(value, &around, &mut entries);
                    documents.resize(entries.len() - before, document);
                }
                place(&mut entries[before..], lines, &range);
                let next = entries[before..].iter().map(|entry| entry.line).skip(1);
                let ends: Vec<u32> = next.chain([range.end]).collect();
                for (entry, end) in entries[before..].iter_mut().zip(ends) {
                    let within = entry.line..end.max(entry.line + 1);
                    let faults = std::mem::take(&mut entry.faults).into_iter();
                    broken.extend(faults.map(|fault| fault.found(lines, within.clone())));
                }
                // Documents on the same line are not clones of each other.
                for (entry, document) in entries[before..].iter_mut().zip(documents) {
                    entry.run.1 = Some(document.to_string());
                }
                line = range.end.max(line + 1);
            }
            Attempt::Broken(why) => {
                let ours = lines
                    .range(line..line + 4)
                    .find_map(|(_, text)| version_in(text));
                if let Some(version) = ours {
                    let why = format!("fio's JSON, but broken: {why}");
                    around = Header {
                        version: Some(version),
                        broken: true,
                        ..Header::default()
                    };
                    broken.push(Extract::unread(line..line + 1, why));
                }
                line += 1;
            }
        }
    }
    (entries, broken)
}

fn version_in(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("\"fio version\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// The fields of a document that apply to all its jobs.
#[derive(Default)]
struct Header {
    version: Option<String>,
    globals: Option<Map<String, Value>>,
    timestamp_ms: Option<i64>,
    broken: bool,
}

/// Collects jobs from a value: fio's own document, or another document that contains it.
fn collect(value: &Value, around: &Header, entries: &mut Vec<Entry>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, around, entries)),
        Value::Object(object) if is_job(object) => entries.push(entry(object, around)),
        Value::Object(object) => {
            let own = object.contains_key("fio version").then(|| Header {
                version: text(object, "fio version"),
                globals: object
                    .get("global options")
                    .and_then(Value::as_object)
                    .cloned(),
                timestamp_ms: object
                    .get("timestamp_ms")
                    .and_then(Value::as_i64)
                    .or_else(|| Some(object.get("timestamp")?.as_i64()?.saturating_mul(1000))),
                broken: false,
            });
            for item in object.values() {
                collect(item, own.as_ref().unwrap_or(around), entries);
            }
        }
        _ => {}
    }
}

fn is_job(object: &Map<String, Value>) -> bool {
    object.get("jobname").is_some_and(Value::is_string)
        && DIRECTIONS
            .iter()
            .any(|name| object.get(*name).is_some_and(Value::is_object))
}

fn entry(job: &Map<String, Value>, around: &Header) -> Entry {
    let options = job.get("job options").and_then(Value::as_object);
    let mut entry = Entry {
        form: FORM,
        version: around.version.clone(),
        name: text(job, "jobname").unwrap_or_default(),
        node: text(job, "hostname"),
        group: job.get("groupid").and_then(Value::as_u64),
        error: job.get("error").and_then(Value::as_i64).unwrap_or(0),
        options: options.map(|own| {
            let globals = around.globals.iter().flatten();
            globals.chain(own).filter_map(option).collect()
        }),
        options_complete: options.is_some() && !around.broken,
        directions: DIRECTIONS.map(|name| direction(job.get(name)?.as_object()?)),
        sync: job.get("sync").and_then(Value::as_object).and_then(syncs),
        cpu_percent: number(job, "usr_cpu")
            .zip(number(job, "sys_cpu"))
            .map(|(usr, sys)| usr + sys),
        cpu_span_ns: number(job, "job_runtime").map(|ms| ms * 1e6),
        faults: DIRECTIONS
            .iter()
            .filter_map(|name| Some((*name, job.get(*name)?.as_object()?)))
            .flat_map(|(name, direction)| faults(name, direction))
            .collect(),
        start_ms: job.get("job_start").and_then(Value::as_i64),
        written_ms: around.timestamp_ms,
        ..Entry::default()
    };
    if around.broken {
        let remark = "its document is broken off; this job was read, global options were not";
        entry.remarks.push(remark.to_owned());
    }
    entry
}

fn option((name, value): (&String, &Value)) -> Option<(String, String)> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Some((name.clone(), text))
}

fn direction(object: &Map<String, Value>) -> Option<Direction> {
    let bytes = match object.contains_key("io_kbytes") {
        true => number(object, "io_bytes"),
        // Before version 3 the field of this name held KiB.
        false => number(object, "io_bytes").map(|kib| kib * 1024.0),
    };
    let direction = Direction {
        bytes,
        bandwidth: number(object, "bw_bytes").or(number(object, "bw").map(|kib| kib * 1024.0)),
        iops: number(object, "iops"),
        runtime_ns: number(object, "runtime").unwrap_or(0.0) * 1e6,
        ops: object.get("total_ios").and_then(Value::as_u64),
        total: latency(object, "lat"),
        completion: latency(object, "clat"),
    };
    let idle = direction.ops.unwrap_or(0) == 0 && direction.bytes.unwrap_or(0.0) <= 0.0;
    (!idle).then_some(direction)
}

/// Fields that become figures, and the nested objects of a direction that contain some.
const READ: [&str; 9] = [
    "iops",
    "bw",
    "bw_bytes",
    "io_bytes",
    "io_kbytes",
    "total_ios",
    "runtime",
    "mean",
    "max",
];
const WITHIN: [&str; 5] = ["lat", "lat_ns", "clat", "clat_ns", "percentile"];

/// Finds values that are not numbers where a number is expected. A value that fio could not compute (`null`) counts
/// as absent.
fn faults(direction: &'static str, object: &Map<String, Value>) -> Vec<InvalidField> {
    let mut found = Vec::new();
    for (name, value) in object {
        match value {
            Value::Object(inner) if WITHIN.contains(&name.as_str()) => {
                found.extend(faults(direction, inner));
            }
            Value::Null => {}
            value => {
                let is_read = READ.contains(&name.as_str()) || name.parse::<f64>().is_ok();
                if is_read && number(object, name).is_none() {
                    found.push(InvalidField {
                        direction,
                        name: name.clone(),
                        value: value.to_string(),
                    });
                }
            }
        }
    }
    found
}

/// A field with an invalid value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct InvalidField {
    direction: &'static str,
    name: String,
    value: String,
}

impl InvalidField {
    /// Its line: the first line with this field and value, from the direction's own line on.
    fn found(&self, lines: &Lines<'_>, within: Range<u32>) -> Extract {
        let quoted = |name: &str| format!("\"{name}\"");
        let has = |text: &str| {
            let rest = text.split_once(&quoted(&self.name)).map(|pair| pair.1);
            rest.is_some_and(|rest| rest.contains(&self.value))
        };
        let from = lines
            .range(within.clone())
            .skip_while(|(_, text)| !text.contains(&quoted(self.direction)));
        let line = from
            .into_iter()
            .find_map(|(line, text)| has(text).then_some(line))
            .unwrap_or(within.start);
        let InvalidField {
            direction,
            name,
            value,
        } = self;
        let why = format!("`{name}` of {direction} is {value}, no number of at least 0");
        Extract::unread(line..line + 1, why)
    }
}

fn syncs(object: &Map<String, Value>) -> Option<Syncs> {
    let ops = object.get("total_ios").and_then(Value::as_u64);
    let latency = Some(latency(object, "lat")?);
    Some(Syncs { ops, latency })
}

/// `lat_ns` in ns, or `lat` in µs, its name before version 3; `None` if nothing was counted.
fn latency(object: &Map<String, Value>, name: &str) -> Option<Latency> {
    let (latency, factor) = match object.get(&format!("{name}_ns")) {
        Some(value) => (value.as_object()?, 1.0),
        None => (object.get(name)?.as_object()?, 1e3),
    };
    let scaled = |name| number(latency, name).map(|value| value * factor);
    let max = scaled("max").filter(|max| *max > 0.0)?;
    Some(Latency {
        mean: scaled("mean"),
        max: Some(max),
        percentiles: pairs(latency.get("percentile"))
            .into_iter()
            // Unused entries in the list of an old version.
            .filter(|(percent, _)| *percent > 0.0)
            .map(|(percent, value)| (percent, value * factor))
            .collect(),
        bins: pairs(latency.get("bins"))
            .into_iter()
            .map(|(value, count)| (value * factor, count as u64))
            .collect(),
    })
}

/// The members of an object whose names are numbers, in numerical order.
fn pairs(value: Option<&Value>) -> Vec<(f64, f64)> {
    let Some(object) = value.and_then(Value::as_object) else {
        return Vec::new();
    };
    let mut pairs: Vec<(f64, f64)> = object
        .iter()
        .filter_map(|(name, value)| Some((name.trim().parse().ok()?, value.as_f64()?)))
        .filter(|(name, value): &(f64, f64)| name.is_finite() && *value >= 0.0)
        .collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name)?.as_str().map(str::to_owned)
}

fn number(object: &Map<String, Value>, name: &str) -> Option<f64> {
    object
        .get(name)?
        .as_f64()
        .filter(|value| value.is_finite() && *value >= 0.0)
}

/// Sets the line of each entry: the next line that names the job.
fn place(entries: &mut [Entry], lines: &Lines<'_>, range: &Range<u32>) {
    let mut places: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (line, text) in lines.range(range.clone()) {
        for part in text.split("\"jobname\"").skip(1) {
            let name = part.split('"').nth(1).unwrap_or_default();
            places.entry(name).or_default().push(line);
        }
    }
    for lines in places.values_mut() {
        lines.reverse();
    }
    for entry in entries {
        entry.lines = range.clone();
        entry.run = (range.start, None);
        entry.line = places
            .get_mut(entry.name.as_str())
            .and_then(Vec::pop)
            .unwrap_or(range.start);
    }
}
