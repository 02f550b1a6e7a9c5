//! Verification of blocks: by iodyno's headers, or by the trailers of shared files.

use iodyno_model::VerifyResult;
use iodyno_sys::{Op, Slot};

use crate::outcome::WrittenBlocks;
use crate::shared_files::Trailers;
use crate::verify::Verifier;

/// Adds checksums to written blocks and verifies read blocks.
#[derive(Debug)]
pub(crate) enum Checks {
    /// Headers of iodyno or of fio, or a pattern.
    Headers(Box<Verifier>),
    /// sysbench's trailers.
    Trailers(Trailers),
}

impl Checks {
    /// Called before a write at `now`, ns.
    pub(crate) fn seal(&mut self, slot: Slot, op: &Op, buffer: &mut [u8], now: u64) {
        match self {
            Checks::Headers(headers) => headers.seal(slot, op, buffer, now),
            Checks::Trailers(trailers) => trailers.seal(op, buffer),
        }
    }

    /// Called after a successful write.
    pub(crate) fn written(&mut self, slot: Slot, op: &Op) {
        if let Checks::Headers(headers) = self {
            headers.written(slot, op);
        }
    }

    /// Called after a write that failed: it is unknown whether it was done.
    pub(crate) fn write_failed(&mut self, op: &Op) {
        if let Checks::Headers(headers) = self {
            headers.forget(op);
        }
    }

    /// Called after a successful trim.
    pub(crate) fn trimmed(&mut self, op: &Op) {
        if let Checks::Headers(headers) = self {
            headers.trimmed(op);
        }
    }

    /// Verifies the data of a read; `false` if any of it is bad.
    pub(crate) fn check(&mut self, op: &Op, buffer: &[u8]) -> bool {
        match self {
            Checks::Headers(headers) => headers.check(op, buffer),
            Checks::Trailers(trailers) => trailers.check(op, buffer),
        }
    }

    /// The ranges that the verify pass reads back. Blocks with trailers are verified by the job's own reads.
    pub(crate) fn ranges(&mut self, longest: usize) -> Vec<(u32, u64, u32)> {
        match self {
            Checks::Headers(headers) => headers.ranges(longest),
            Checks::Trailers(_) => Vec::new(),
        }
    }

    /// The results of verification.
    pub(crate) fn result(&self) -> &VerifyResult {
        match self {
            Checks::Headers(headers) => &headers.result,
            Checks::Trailers(trailers) => &trailers.result,
        }
    }

    /// The last writes, to be recorded; `None` if blocks have no headers, or if the job does not write.
    pub(crate) fn into_written(self) -> Option<WrittenBlocks> {
        match self {
            Checks::Headers(headers) => headers.into_written(),
            Checks::Trailers(_) => None,
        }
    }

    /// A bad block that could not be written to a file, with the reason.
    pub(crate) fn dump_fault(&self) -> Option<&str> {
        match self {
            Checks::Headers(headers) => headers.dump_fault.as_deref(),
            Checks::Trailers(_) => None,
        }
    }
}
