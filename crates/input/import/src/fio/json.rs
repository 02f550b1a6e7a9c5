//! fio's JSON and json+ documents at any place of a text.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::document::{Attempt, Joined};
use super::entry::{DIRECTIONS, Direction, Entry, Latency, Syncs};
use super::invalid::{faults, number};
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
        match joined.document::<Part>(line) {
            Attempt::Read(parts, range) => {
                let before = entries.len();
                let mut documents = Vec::new();
                for (document, part) in parts.into_iter().enumerate() {
                    for mut job in part.jobs {
                        if !job.placed {
                            around.apply(&mut job.entry);
                        }
                        entries.push(job.entry);
                    }
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

impl Header {
    /// The header of fio's document; `None` for other objects.
    fn of(object: &Map<String, Value>) -> Option<Header> {
        object.contains_key("fio version").then(|| Header {
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
        })
    }

    /// Adds its fields to a job of its document.
    fn apply(&self, entry: &mut Entry) {
        entry.version.clone_from(&self.version);
        entry.written_ms = self.timestamp_ms;
        if let Some(own) = &mut entry.options {
            for (name, value) in self.globals.iter().flatten().filter_map(option) {
                own.entry(name).or_insert(value);
            }
        }
        if self.broken {
            entry.options_complete = false;
            let remark = "its document is broken off; this job was read, global options were not";
            entry.remarks.push(remark.to_owned());
        }
    }
}

/// A job within a document.
struct Job {
    entry: Entry,
    /// The header of its document was applied.
    placed: bool,
}

/// A part of a document: a value, and the jobs below it. Jobs are converted while the document is parsed, and what
/// cannot be a part of a job is dropped: the values of a document take more than ten times the size of its text.
struct Part {
    /// The value; an object that was converted, and an array, are empty.
    value: Value,
    jobs: Vec<Job>,
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl PartVisitor {
    fn scalar<E>(value: impl Into<Value>) -> Result<Part, E> {
        Ok(Part {
            value: value.into(),
            jobs: Vec::new(),
        })
    }
}

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Part, E> {
        PartVisitor::scalar(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Part, E> {
        PartVisitor::scalar(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Part, E> {
        PartVisitor::scalar(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Part, E> {
        PartVisitor::scalar(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<Part, E> {
        PartVisitor::scalar(value)
    }

    fn visit_unit<E>(self) -> Result<Part, E> {
        PartVisitor::scalar(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Part, A::Error> {
        let mut jobs = Vec::new();
        while let Some(mut part) = seq.next_element::<Part>()? {
            jobs.append(&mut part.jobs);
        }
        Ok(Part {
            value: Value::Array(Vec::new()),
            jobs,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
        let mut object = Map::new();
        let mut jobs = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let mut part: Part = map.next_value()?;
            jobs.append(&mut part.jobs);
            object.insert(name, part.value);
        }
        if is_job(&object) {
            let entry = entry(&object);
            jobs = vec![Job {
                entry,
                placed: false,
            }];
            object.clear();
        } else if let Some(header) = Header::of(&object) {
            for job in jobs.iter_mut().filter(|job| !job.placed) {
                header.apply(&mut job.entry);
                job.placed = true;
            }
        }
        Ok(Part {
            value: Value::Object(object),
            jobs,
        })
    }
}

fn is_job(object: &Map<String, Value>) -> bool {
    object.get("jobname").is_some_and(Value::is_string)
        && DIRECTIONS
            .iter()
            .any(|name| object.get(*name).is_some_and(Value::is_object))
}

/// Converts a job, without what the header of its document adds.
fn entry(job: &Map<String, Value>) -> Entry {
    let options = job.get("job options").and_then(Value::as_object);
    Entry {
        form: FORM,
        name: text(job, "jobname").unwrap_or_default(),
        node: text(job, "hostname"),
        group: job.get("groupid").and_then(Value::as_u64),
        error: job.get("error").and_then(Value::as_i64).unwrap_or(0),
        options: options.map(|own| own.iter().filter_map(option).collect()),
        options_complete: options.is_some(),
        directions: DIRECTIONS.map(|name| direction(job.get(name)?.as_object()?)),
        sync: job.get("sync").and_then(Value::as_object).and_then(syncs),
        cpu_percent: number(job, "usr_cpu")
            .zip(number(job, "sys_cpu"))
            .map(|(usr, sys)| usr + sys),
        user_percent: number(job, "usr_cpu"),
        cpu_span_ns: number(job, "job_runtime").map(|ms| ms * 1e6),
        faults: DIRECTIONS
            .iter()
            .filter_map(|name| Some((*name, job.get(*name)?.as_object()?)))
            .flat_map(|(name, direction)| faults(name, direction))
            .collect(),
        start_ms: job.get("job_start").and_then(Value::as_i64),
        ..Entry::default()
    }
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
        submitted: latency(object, "slat").is_some(),
    };
    let idle = direction.ops.unwrap_or(0) == 0 && direction.bytes.unwrap_or(0.0) <= 0.0;
    (!idle).then_some(direction)
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
        min: scaled("min"),
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
