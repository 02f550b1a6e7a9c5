//! The jobs of one json+ document of fio with their histograms, for nodes that run fio.

use std::collections::BTreeMap;

use iodyno_model::{BinLayout, CpuUse, Direction, DirectionResult, Histogram, HistogramBuilder};

use super::entry::{self, Latency};
use super::json;
use crate::lines::Lines;

/// A clone as fio reports it without `group_reporting`.
#[derive(Debug, Clone, PartialEq)]
pub struct FioJob {
    /// The job's name.
    pub name: String,
    /// fio's errno; 0: none.
    pub error: i64,
    /// Runtime of the whole job, ns; fio reports whole milliseconds.
    pub runtime_ns: u64,
    /// CPU time of its thread.
    pub cpu: CpuUse,
    /// Directions with ops. Distributions have fio's bins; they are empty if the document has no bins.
    pub directions: Vec<DirectionResult>,
}

/// Reads the jobs of the json+ document in a text, in the order of the document. Other lines before and after it are
/// left out.
///
/// # Errors
/// There is no complete document.
pub fn fio_jobs(text: &str) -> Result<Vec<FioJob>, String> {
    let lines = Lines::new("fio", text);
    let (entries, broken) = json::entries(&lines);
    if entries.is_empty() || entries.iter().any(|entry| entry.version.is_none()) {
        let why = match broken.is_empty() {
            true => "there is no JSON document of fio in its output",
            false => "its JSON document cannot be read",
        };
        return Err(why.to_owned());
    }
    Ok(entries.iter().map(job).collect())
}

fn job(entry: &entry::Entry) -> FioJob {
    let runtime_ns = entry.cpu_span_ns.unwrap_or_else(|| entry.runtime_ns());
    let cpu_ns = |percent: f64| (percent / 100.0 * runtime_ns) as u64;
    let user = entry.user_percent.unwrap_or(0.0);
    let system = entry.cpu_percent.unwrap_or(user) - user;
    let kinds = [Direction::Read, Direction::Write, Direction::Trim];
    let mut directions: Vec<DirectionResult> = (kinds.into_iter().zip(&entry.directions))
        .filter_map(|(kind, result)| Some(direction(kind, result.as_ref()?)))
        .collect();
    let sync = entry.sync.as_ref();
    if let Some((sync, latency)) = sync.and_then(|sync| Some((sync, sync.latency.as_ref()?))) {
        let service = histogram(latency);
        let ops = sync.ops.unwrap_or(service.count());
        if ops > 0 {
            directions.push(DirectionResult {
                ops,
                runtime_ns: runtime_ns as u64,
                service,
                ..DirectionResult::empty(Direction::Sync)
            });
        }
    }
    FioJob {
        name: entry.name.clone(),
        error: entry.error,
        runtime_ns: runtime_ns as u64,
        cpu: CpuUse {
            user_ns: cpu_ns(user),
            system_ns: cpu_ns(system),
            ..CpuUse::default()
        },
        directions,
    }
}

fn direction(kind: Direction, result: &entry::Direction) -> DirectionResult {
    let completion = result.completion.as_ref().map(histogram);
    let total = result.total.as_ref().map(histogram);
    let total = total.filter(|total| !total.is_empty());
    let (service, completion) = match (total, result.submitted) {
        (Some(total), true) => (total, completion),
        (Some(total), false) => (total, None),
        (None, _) => (completion.unwrap_or_default(), None),
    };
    DirectionResult {
        ops: result.count(),
        bytes: result.bytes.unwrap_or(0.0) as u64,
        runtime_ns: result.runtime_ns as u64,
        service,
        completion,
        ..DirectionResult::empty(kind)
    }
}

/// A distribution from the middles of fio's bins; minimum, maximum and mean are exact.
fn histogram(latency: &Latency) -> Histogram {
    let min = latency.min.unwrap_or(0.0) as u64;
    let max = latency.max.unwrap_or(f64::MAX) as u64;
    let mut bins: BTreeMap<usize, u64> = BTreeMap::new();
    for (middle, count) in latency.bins.iter().filter(|bin| bin.1 > 0) {
        let value = (*middle as u64).clamp(min, max.max(min));
        let bin = bins.entry(BinLayout::index(value)).or_default();
        *bin = bin.saturating_add(*count);
    }
    // The slowest and the fastest op are known exactly.
    for (extreme, from_last) in [(max, true), (min, false)] {
        let known = match from_last {
            true => latency.max.is_some(),
            false => latency.min.is_some(),
        };
        let edge = match from_last {
            true => bins.keys().next_back().copied(),
            false => bins.keys().next().copied(),
        };
        if let Some(edge) = edge.filter(|_| known) {
            let count = bins.remove(&edge).unwrap_or(0);
            if count > 1 {
                bins.insert(edge, count - 1);
            }
            *bins.entry(BinLayout::index(extreme)).or_default() += 1;
        }
    }
    let mut builder = HistogramBuilder::default();
    let mut count: u64 = 0;
    for (bin, ops) in bins {
        builder.bin(bin, ops);
        count = count.saturating_add(ops);
    }
    let sum = latency.mean.unwrap_or(0.0) * count as f64;
    builder.extremes(min, max, sum as u128, 0);
    builder.build()
}
