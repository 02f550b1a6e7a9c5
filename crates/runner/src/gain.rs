//! The difference between two readings of a worker's cells.

use std::sync::atomic::Ordering::Relaxed;

use iodyno_engine::cells::{CellReader, DirectionCells};
use iodyno_model::Histogram;

/// What was added to a direction between two readings.
#[derive(Debug, Default)]
pub(crate) struct Gain {
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) service: Histogram,
    pub(crate) response: Option<Histogram>,
    pub(crate) submission: Option<Histogram>,
}

impl Gain {
    pub(crate) fn add(&mut self, other: &Gain) {
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

/// What was already read from the cells of one direction.
#[derive(Debug)]
pub(crate) struct Taken {
    bytes: u64,
    errors: u64,
    service: CellReader,
    response: CellReader,
    submission: CellReader,
}

impl Taken {
    pub(crate) fn new() -> Taken {
        Taken {
            bytes: 0,
            errors: 0,
            service: CellReader::new(),
            response: CellReader::new(),
            submission: CellReader::new(),
        }
    }

    /// Returns what was added since the last reading. Submission latencies are read only where a log needs them.
    pub(crate) fn advance(&mut self, cells: &DirectionCells, submissions: bool) -> Gain {
        let bytes = cells.bytes.load(Relaxed);
        let errors = cells.errors.load(Relaxed);
        let gain = Gain {
            bytes: bytes - self.bytes,
            errors: errors - self.errors,
            service: self.service.advance(&cells.service),
            response: cells.response.as_ref().map(|c| self.response.advance(c)),
            submission: match (&cells.submission, submissions) {
                (Some(cells), true) => Some(self.submission.advance(cells)),
                _ => None,
            },
        };
        (self.bytes, self.errors) = (bytes, errors);
        gain
    }
}
