//! The table that grows by one row per second.

use iodyno_model::{Direction, Frame, Histogram, Step};

use super::optype;
use crate::digits;
use crate::live::primary;

/// The header is repeated after this number of rows.
const ROWS_PER_HEAD: u32 = 20;

/// The shortest frame that has a row, ns. The ops of a shorter one, at the end of a trial, are in the closing row only.
const MIN_NS: u64 = 100_000_000;

const HEAD: &str =
    "____optype__elapsed__ops/sec(inst)___ops/sec(cum)__p50(ms)__p95(ms)__p99(ms)_pMax(ms)";

/// Formats the rows of one trial as its frames arrive.
#[derive(Debug, Clone)]
pub struct Live {
    name: String,
    rows: u32,
    /// Start of the measured time on the trial's clock, ns.
    began_ns: Option<u64>,
    ops: u64,
}

impl Live {
    /// For a workload of this name.
    pub fn new(name: &str) -> Live {
        Live {
            name: optype(name),
            rows: 0,
            began_ns: None,
            ops: 0,
        }
    }

    /// The row of a frame; every twentieth row has a head above it. Lines end with a newline. `None` for frames outside
    /// the measured time, and for a last frame that is too short.
    ///
    /// `ops/sec(inst)` is the frame's ops ÷ its length, `ops/sec(cum)` all ops ÷ the measured time so far. A second
    /// without ops has dashes for its latencies.
    pub fn frame(&mut self, frame: &Frame) -> Option<String> {
        if frame.step != Step::Measure {
            return None;
        }
        let began = *self.began_ns.get_or_insert(frame.start_ns);
        let ops = frame.ops(Direction::Op);
        self.ops += ops;
        let span = frame.end_ns.saturating_sub(frame.start_ns);
        if span < MIN_NS {
            return None;
        }
        let elapsed = frame.end_ns.saturating_sub(began);
        let head = match self.rows.is_multiple_of(ROWS_PER_HEAD) {
            true => format!("{HEAD}\n"),
            false => String::new(),
        };
        self.rows += 1;
        let rate = |ops: u64, ns: u64| digits::rate(ops as f64 * 1e9 / ns.max(1) as f64);
        let [p50, p95, p99, max] = latencies(&latency(frame));
        Some(format!(
            "{head}{}{:>9}{:>15}{:>15}{p50:>9}{p95:>9}{p99:>9}{max:>9}\n",
            self.name,
            seconds(elapsed),
            rate(ops, span),
            rate(self.ops, elapsed),
        ))
    }
}

/// The latencies of the cycles of all jobs: response latency if a rate was requested, otherwise the duration of the
/// timed steps.
fn latency(frame: &Frame) -> Histogram {
    let mut all = Histogram::default();
    for share in frame.of(Direction::Op) {
        all.merge(primary(&share.response, &share.service));
    }
    all
}

/// p50, p95, p99 and the maximum.
pub(super) fn latencies(histogram: &Histogram) -> [String; 4] {
    if histogram.is_empty() {
        return std::array::from_fn(|_| "-".to_owned());
    }
    let percentile = |percent| digits::ms(histogram.percentile_ns(percent) as f64);
    [
        percentile(50.0),
        percentile(95.0),
        percentile(99.0),
        digits::ms(histogram.max_ns() as f64),
    ]
}

/// `12s`; with tenths if it is not a whole second: `1.8s`.
fn seconds(ns: u64) -> String {
    match (ns + 50_000_000) / 100_000_000 {
        tenths if tenths.is_multiple_of(10) => format!("{}s", tenths / 10),
        tenths => format!("{}.{}s", tenths / 10, tenths % 10),
    }
}
