//! The intermediate lines of a trial.

use iodyno_model::{Frame, Histogram, Step};
use iodyno_units::Nanos;

use super::{EVENTS, mib, ms, per_second};

/// A frame that ends at most this long before the line is due counts as on time, ns.
const EARLY_NS: u64 = 50_000_000;

/// Collects the frames of a trial and formats a line for each interval.
#[derive(Debug, Clone)]
pub struct Live {
    every_ns: u64,
    percentile: f64,
    /// Start of the measured time on the trial's clock, ns.
    began_ns: Option<u64>,
    /// Measured time after which the next line is due, ns.
    due_ns: u64,
    gathered: Vec<Frame>,
}

impl Live {
    /// A line for each interval of `every`, with this percentile; 0: none.
    pub fn new(every: Nanos, percentile: f64) -> Live {
        let every_ns = every.0.max(1);
        Live {
            every_ns,
            percentile,
            began_ns: None,
            due_ns: every_ns,
            gathered: Vec::new(),
        }
    }

    /// The line with its newline, if one is due with this frame.
    pub fn frame(&mut self, frame: &Frame) -> Option<String> {
        if frame.step != Step::Measure {
            return None;
        }
        let began = *self.began_ns.get_or_insert(frame.start_ns);
        let elapsed = frame.end_ns.saturating_sub(began);
        self.gathered.push(frame.clone());
        if elapsed + EARLY_NS < self.due_ns {
            return None;
        }
        while self.due_ns <= elapsed + EARLY_NS {
            self.due_ns += self.every_ns;
        }
        let frames = std::mem::take(&mut self.gathered);
        Some(interval(&frames, Nanos(elapsed), self.percentile))
    }
}

/// `[ 10s ] reads: 97.63 MiB/s writes: 65.09 MiB/s fsyncs: 13329.94/s latency (ms,95%): 0.209` for these frames
/// together, with a newline. `elapsed` is the measured time up to the end of the last frame.
pub fn interval(frames: &[Frame], elapsed: Nanos, percentile: f64) -> String {
    let span: u64 = frames
        .iter()
        .map(|frame| frame.end_ns.saturating_sub(frame.start_ns))
        .sum();
    let [read, write, sync] = EVENTS;
    let bytes = |direction| frames.iter().map(|frame| frame.bytes(direction)).sum();
    let moved = |direction| mib(per_second(bytes(direction), span));
    let syncs = frames.iter().map(|frame| frame.ops(sync)).sum();
    let mut latency = Histogram::default();
    let shares = frames
        .iter()
        .flat_map(|frame| EVENTS.into_iter().flat_map(|direction| frame.of(direction)));
    shares.for_each(|share| latency.merge(&share.service));
    format!(
        "[ {:.0}s ] reads: {:.2} MiB/s writes: {:.2} MiB/s fsyncs: {:.2}/s latency (ms,{percentile}%): {:.3}\n",
        elapsed.secs(),
        moved(read),
        moved(write),
        per_second(syncs, span),
        ms(latency.percentile_ns(percentile) as f64),
    )
}
