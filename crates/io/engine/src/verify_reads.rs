//! Reads that only verify a clone's own writes, counted separately from its ops.

use std::sync::atomic::Ordering::Relaxed;

use iodyno_model::{Direction, DirectionResult};

use crate::counters::{LatencyCounters, OpCounters, add};

/// The reads of the backlog and of the verify pass.
#[derive(Debug)]
pub(crate) struct VerifyReads {
    counters: OpCounters,
    submits: bool,
    /// Whether there were any before the end of the measured time.
    pub(crate) in_time: bool,
}

impl VerifyReads {
    /// `submits`: submission latencies are recorded.
    pub(crate) fn new(submits: bool) -> VerifyReads {
        VerifyReads {
            counters: OpCounters::new(&[Direction::Read], false, submits),
            submits,
            in_time: false,
        }
    }

    /// Discards the records so far.
    pub(crate) fn clear(&mut self) {
        *self = VerifyReads::new(self.submits);
    }

    /// Records a read: bytes, service latency and duration of its submission call in ns.
    pub(crate) fn record(&self, bytes: u32, service: u64, submission: u64) {
        let reads = self.counters.of(Direction::Read);
        add(&reads.bytes, bytes.into());
        reads.service.record(service);
        if let Some(counters) = &reads.submission {
            counters.record(submission);
        }
        if let Some(counters) = &reads.completion {
            counters.record(service.saturating_sub(submission));
        }
    }

    /// Call this at the end of the measured time.
    pub(crate) fn end_measure(&mut self) {
        self.in_time = self.counters.of(Direction::Read).service.count() > 0;
    }

    /// The reads, if there were any.
    pub(crate) fn result(&self, runtime_ns: u64) -> Option<DirectionResult> {
        let reads = self.counters.of(Direction::Read);
        let service = reads.service.histogram();
        let full = |counters: &Option<LatencyCounters>| {
            let histogram = counters.as_ref()?.histogram();
            (!histogram.is_empty()).then_some(histogram)
        };
        (!service.is_empty()).then(|| DirectionResult {
            ops: service.count(),
            bytes: reads.bytes.load(Relaxed),
            runtime_ns,
            submission: full(&reads.submission),
            completion: full(&reads.completion),
            service,
            ..DirectionResult::empty(Direction::Read)
        })
    }
}
