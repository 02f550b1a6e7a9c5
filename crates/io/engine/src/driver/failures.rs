//! The less frequent work of the loop: failed and short ops, verification, and the resolution of its timestamps.

use iodyno_model::errno::{
    ECANCELED, EDQUOT, EILSEQ, EINVAL, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, ETIMEDOUT,
};
use iodyno_model::{DepthUse, Direction, StopRequest};
use iodyno_sys::{Backend, Clock, Completion, OpKind, Slot};

use iodyno_units::Nanos;

use super::{Driver, Unseen};
use crate::counters::{LatencyCounters, OpCounters, add};
use crate::error_counts;
use crate::outcome::WorkerError;
use crate::stream::{Issue, OpStream, checked_read};

impl<B: Backend, C: Clock> Driver<'_, B, C> {
    /// Records how long completions of this turn, which requested at least `min`, may have been undetected: the time
    /// since the last check for completions, and the duration of submission. If one entry submits and waits, submission
    /// is assumed to take as long per op as in the fastest entry so far: the kernel ends a wait with the first
    /// completion. `waited_ns`: the wait for a CPU since it was last read; earlier waits are already part of the time
    /// since the last check.
    #[inline]
    pub(super) fn note_window(&mut self, min: u32, waited_ns: u64) {
        let turn = &self.completions;
        // Most entries submit one op and need no division.
        let per_op = |span: u64| match turn.submitted {
            0 | 1 => span,
            ops => span / u64::from(ops),
        };
        let submission = match (self.capabilities.submits_apart, turn.submitted) {
            (true, _) => turn.looked_from.unwrap_or(turn.entered) - turn.entered,
            (false, 0) => 0,
            (false, ops) => {
                let an_op = per_op(turn.returned - turn.entered);
                self.fastest_submission_ns = self.fastest_submission_ns.min(an_op);
                match min {
                    0 => turn.returned - turn.entered,
                    _ => self.fastest_submission_ns * u64::from(ops),
                }
            }
        };
        self.unseen = Unseen {
            since: self.looked_at,
            entered: turn.entered,
            looked: turn.entered + submission,
            others_ns: submission - per_op(submission),
            no_cpu_ns: waited_ns.min((turn.returned - turn.entered).saturating_sub(submission)),
            for_several: min > 1,
        };
        // If nothing was in flight, no completion could be delayed.
        let away = match self.left_in_flight {
            0 => 0,
            _ => turn.entered.saturating_sub(self.looked_at),
        };
        self.windows.record(away + submission);
    }

    /// Discards the counts so far, which belong to the ramp.
    pub(crate) fn forget_ramp(&mut self) {
        self.depth = DepthUse::default();
        self.errors.clear();
        self.windows = LatencyCounters::new();
        self.last_end = None;
        self.shared.pauses.clear();
        if let Some(reads) = &mut self.verify_reads {
            reads.clear();
        }
    }

    /// Records the duration of this turn's submission call for each read and write that it submitted. Other ops may
    /// have used separate calls.
    pub(super) fn note_submissions(&mut self, counters: &OpCounters) {
        let ns = self.completions.submission_ns;
        for slot in self.issued.drain(..) {
            let state = &mut self.slots[slot as usize];
            let transfers = state.issue.op.kind.transfers();
            state.submission_ns = if transfers { ns } else { 0 };
            if !transfers || !state.issue.counted {
                continue;
            }
            if let Some(submission) = &counters.of(state.issue.direction).submission {
                submission.record(ns);
            }
        }
    }

    /// Fails the job for an op whose latency is above its limit.
    #[cold]
    pub(super) fn took_too_long(&mut self, counters: &OpCounters, slot: Slot, service_ns: u64) {
        let issue = self.slots[slot as usize].issue;
        let direction = issue.direction;
        add(&counters.of(direction).errors, 1);
        let file = &self.seen.names[issue.op.file as usize];
        self.errors.count(direction, ETIMEDOUT, &issue.op, file);
        self.failed = true;
        let limit = self.max_latency_ns[direction as usize];
        self.fault.get_or_insert_with(|| {
            WorkerError::new(
                "keep to `max_latency`",
                format!(
                    "a {} took {}, and at most {} was allowed",
                    direction.name(),
                    Nanos(service_ns),
                    Nanos(limit)
                ),
            )
            .hint("raise `max_latency`, or leave it out")
        });
    }

    /// Reads that verify data written and not yet verified.
    pub(crate) fn checks(&mut self) -> Vec<Issue> {
        let blocks = self.job.work.blocks();
        let longest = blocks.map_or(0, |blocks| blocks.access.max_block() as usize);
        let ranges = self.verifier.as_mut().map(|it| it.ranges(longest));
        ranges
            .unwrap_or_default()
            .into_iter()
            .map(checked_read)
            .collect()
    }

    pub(super) fn verify(&mut self, slot: Slot, issue: &Issue) {
        let Some(verifier) = &mut self.verifier else {
            return;
        };
        if issue.op.kind == OpKind::Write {
            verifier.written(slot, &issue.op);
        } else if issue.op.kind == OpKind::Trim {
            verifier.trimmed(&issue.op);
        } else if issue.checked && !verifier.check(&issue.op, self.backend.buffer(slot)) {
            let file = &self.seen.names[issue.op.file as usize];
            self.errors.count(Direction::Read, EILSEQ, &issue.op, file);
            self.failed |= self.bad_block_fails;
        }
    }

    /// Handles a failed op, or one that moved less than requested and is continued.
    #[cold]
    pub(super) fn fell_short<S: OpStream>(
        &mut self,
        stream: &mut S,
        counters: &OpCounters,
        completion: &Completion,
    ) {
        let slot = completion.slot;
        let state = &mut self.slots[slot as usize];
        let issue = state.issue;
        if completion.result > 0 {
            if state.first_submitted == 0 {
                state.first_submitted = completion.submitted;
                add(&counters.of(issue.direction).short, 1);
            }
            state.moved += completion.result as u32;
            let mut rest = issue.op;
            rest.offset += u64::from(state.moved);
            rest.length -= state.moved;
            rest.skip += state.moved;
            return self.backend.prep(slot, &rest);
        }
        // Data past the end have not been written yet: record an op of the bytes read.
        if completion.result == 0 && issue.op.kind == OpKind::Read && self.reads_to_end {
            state.issue.op.length = state.moved;
            self.record(counters, completion);
            return self.release(stream, slot, true);
        }
        let errno = match completion.result {
            // The end of the file, or no progress in writing.
            0 if issue.op.kind == OpKind::Read => ENODATA,
            0 => ENOSPC,
            result => -result,
        };
        let (counts, continues) = error_counts::judge(&self.job.errors, issue.direction, errno);
        let cancelled = errno == ECANCELED && self.shared.stop_request() == StopRequest::Abort;
        if issue.counted && !cancelled {
            self.shared.op_ended(self.last_end, completion.completed);
            self.last_end = self.last_end.max(Some(completion.completed));
        }
        let filled = self.job.end.until_full
            && issue.direction != Direction::Read
            && matches!(errno, ENOSPC | EDQUOT);
        if filled {
            self.full = true;
        } else if counts && !cancelled {
            add(&counters.of(issue.direction).errors, 1);
            let file = &self.seen.names[issue.op.file as usize];
            self.errors.count(issue.direction, errno, &issue.op, file);
            self.failed |= !continues;
            let atomic = self.atomic && issue.op.kind == OpKind::Write;
            if atomic && !continues && self.fault.is_none() {
                self.fault = not_atomic(&issue.op, file, errno);
            }
            if errno == EPERM && issue.op.priority != 0 && !continues {
                self.fault.get_or_insert_with(without_priority);
            }
        }
        if issue.op.kind == OpKind::Write
            && let Some(verifier) = &mut self.verifier
        {
            verifier.write_failed(&issue.op);
        }
        self.release(stream, slot, false);
    }
}

/// The reason why an op was refused because of its priority.
fn without_priority() -> WorkerError {
    WorkerError::new(
        "give ops a priority of the real-time class",
        "EPERM: this needs the capability CAP_SYS_NICE or CAP_SYS_ADMIN",
    )
    .hint("run as root, or set `cmdprio_class=2`")
}

/// The reason why an atomic write was refused.
fn not_atomic(op: &iodyno_sys::Op, file: &str, errno: i32) -> Option<WorkerError> {
    let (cause, hint) = match errno {
        EOPNOTSUPP => (
            "EOPNOTSUPP: its file system or device does not support atomic writes",
            "use a device that supports them (see /sys/block/…/queue/atomic_write_max_bytes), or `atomic=0`",
        ),
        EINVAL => (
            "EINVAL: the length is not a power of two, the offset is not a multiple of it, or the device does not support it",
            "see /sys/block/…/queue/atomic_write_unit_{min,max}_bytes, and use `direct=1`",
        ),
        _ => return None,
    };
    Some(
        WorkerError::new(
            format!("write {} bytes atomically to `{file}`", op.length),
            cause.to_owned(),
        )
        .hint(hint.to_owned()),
    )
}
