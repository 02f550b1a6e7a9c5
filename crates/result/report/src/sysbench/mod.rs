//! Trials of shared files in the format of sysbench 1.0's fileio test, for programs that read its output; below it,
//! additional figures with labels that sysbench does not use.

mod additions;
mod explanation;
mod histogram;
mod live;
mod preamble;
mod prepare;
mod result;
#[cfg(test)]
mod tests;

use iodyno_model::{CloneResult, Direction, Histogram, Job, SharedFiles, Trial, Workload};
use iodyno_units::Nanos;

pub use explanation::explanation;
pub use histogram::histogram;
pub use live::{Live, interval};
pub use preamble::preamble;
pub use prepare::prepared;
pub use result::result;

/// The requested output.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The percentile to print; 0: none.
    pub percentile: f64,
    /// Whether to print the latency histogram above the figures.
    pub histogram: bool,
}

impl Default for Options {
    /// The 95th percentile, without a histogram.
    fn default() -> Options {
        Options {
            percentile: 95.0,
            histogram: false,
        }
    }
}

/// The events of the test: requests, and fsyncs of one file each.
const EVENTS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Sync];

/// The job of shared files; it is the only job of its workload.
fn job(workload: &Workload) -> Option<&Job> {
    workload.jobs.iter().find(|job| shared(job).is_some())
}

fn shared(job: &Job) -> Option<&SharedFiles> {
    job.work.shared_files()
}

/// The totals of all threads in a trial.
#[derive(Debug, Clone, PartialEq, Default)]
struct Totals {
    ops: [u64; 3],
    bytes: [u64; 3],
    latency: [Histogram; 3],
    /// Intended → completed, if a rate was requested.
    response: [Histogram; 3],
    /// From the first thread's start to the last one's end, ns.
    span_ns: u64,
    /// Whether each write and its fsync are one event.
    synced_writes: bool,
}

impl Totals {
    fn of(job: Option<&Job>, trial: &Trial) -> Totals {
        let mut totals = Totals {
            synced_writes: job.and_then(shared).is_some_and(|files| files.fsync_all),
            ..Totals::default()
        };
        for clone in clones(trial) {
            for (index, direction) in EVENTS.into_iter().enumerate() {
                if let Some(result) = clone.direction(direction) {
                    totals.ops[index] += result.ops;
                    totals.bytes[index] += result.bytes;
                    totals.latency[index].merge(&result.service);
                    if let Some(response) = &result.response {
                        totals.response[index].merge(response);
                    }
                }
            }
        }
        let start = clones(trial).map(|clone| clone.start_ns).min().unwrap_or(0);
        let end = clones(trial).map(|clone| clone.start_ns.saturating_add(clone.runtime_ns));
        totals.span_ns = end.max().unwrap_or(0).saturating_sub(start);
        totals
    }

    fn seconds(&self) -> f64 {
        Nanos(self.span_ns).secs()
    }

    /// A count per second of the whole time; 0 without time.
    fn per_second(&self, count: u64) -> f64 {
        per_second(count, self.span_ns)
    }

    fn events(&self) -> u64 {
        let fsyncs = match self.synced_writes {
            true => 0,
            false => self.ops[2],
        };
        self.ops[0] + self.ops[1] + fsyncs
    }

    /// Mean latency of an event, ns; 0 without events.
    fn mean_ns(&self) -> f64 {
        match self.events() {
            0 => 0.0,
            events => self.merged().sum_ns() as f64 / events as f64,
        }
    }

    /// One histogram of the latencies of all events.
    fn merged(&self) -> Histogram {
        let mut all = Histogram::default();
        self.latency.iter().for_each(|latency| all.merge(latency));
        all
    }
}

fn clones(trial: &Trial) -> impl Iterator<Item = &CloneResult> {
    trial.parts.iter().flat_map(|part| &part.clones)
}

fn per_second(count: u64, span_ns: u64) -> f64 {
    match span_ns {
        0 => 0.0,
        ns => count as f64 * 1e9 / ns as f64,
    }
}

/// Bytes, or bytes per second, in MiB.
fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}
