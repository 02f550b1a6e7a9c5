//! The difference between two readings of a worker's counters.

use std::sync::atomic::Ordering::Relaxed;

use iodyno_engine::counters::{DirectionCounters, LatencyCounters, LatencyReader};
use iodyno_model::Histogram;

/// The increase of a direction's counters between two readings.
#[derive(Debug, Default)]
pub(crate) struct CounterDelta {
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) service: Histogram,
    pub(crate) response: Option<Histogram>,
    pub(crate) submission: Option<Histogram>,
    pub(crate) completion: Option<Histogram>,
}

impl CounterDelta {
    pub(crate) fn add(&mut self, other: &CounterDelta) {
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.service.merge(&other.service);
        if let Some(response) = &other.response {
            self.response.get_or_insert_default().merge(response);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.service.is_empty() && self.bytes == 0 && self.errors == 0
    }
}

/// The values of one direction's counters at the previous reading.
#[derive(Debug)]
pub(crate) struct PreviousReading {
    bytes: u64,
    errors: u64,
    service: LatencyReader,
    response: LatencyReader,
    submission: LatencyReader,
    completion: LatencyReader,
}

impl PreviousReading {
    pub(crate) fn new() -> PreviousReading {
        PreviousReading {
            bytes: 0,
            errors: 0,
            service: LatencyReader::new(),
            response: LatencyReader::new(),
            submission: LatencyReader::new(),
            completion: LatencyReader::new(),
        }
    }

    /// Returns the increase since the previous reading. The parts of latencies are read only if a log needs them.
    pub(crate) fn advance(&mut self, counters: &DirectionCounters, parts: bool) -> CounterDelta {
        let bytes = counters.bytes.load(Relaxed);
        let errors = counters.errors.load(Relaxed);
        let part = |reader: &mut LatencyReader, counters: &Option<LatencyCounters>| {
            let counters = counters.as_ref().filter(|_| parts);
            counters.map(|counters| reader.advance(counters))
        };
        let gain = CounterDelta {
            bytes: bytes - self.bytes,
            errors: errors - self.errors,
            service: self.service.advance(&counters.service),
            response: counters.response.as_ref().map(|c| self.response.advance(c)),
            submission: part(&mut self.submission, &counters.submission),
            completion: part(&mut self.completion, &counters.completion),
        };
        (self.bytes, self.errors) = (bytes, errors);
        gain
    }
}
