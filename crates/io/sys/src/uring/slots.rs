//! A ring whose ops use slots: the turn of a backend, which submits, waits and reaps with one kernel entry.

use super::rings::Rings;
use crate::{BackendError, Capabilities, Clock, Completions, MonotonicClock, Slot};

/// A ring with the times at which the ops of its slots were submitted.
#[derive(Debug)]
pub(super) struct SlotRing {
    pub(super) rings: Rings,
    pub(super) capabilities: Capabilities,
    clock: MonotonicClock,
    /// When each slot's op was submitted.
    submitted: Box<[u64]>,
    /// Slots prepared since the last turn.
    prepared: Vec<Slot>,
}

impl SlotRing {
    pub(super) fn new(rings: Rings, slots: u32, submits_apart: bool) -> SlotRing {
        SlotRing {
            rings,
            capabilities: Capabilities {
                submits_many: true,
                submits_apart,
                ..Capabilities::default()
            },
            clock: MonotonicClock,
            submitted: vec![0; slots as usize].into_boxed_slice(),
            prepared: Vec::with_capacity(slots as usize),
        }
    }

    pub(super) fn feature(&mut self, name: &str) {
        self.capabilities.features.push(name.to_owned());
    }

    pub(super) fn fallback(&mut self, text: String) {
        self.capabilities.fallbacks.push(text);
    }

    /// The entry of a slot was written.
    #[inline]
    pub(super) fn prepared(&mut self, slot: Slot) {
        self.prepared.push(slot);
    }

    /// [`crate::Backend::turn`] after the ops that were executed synchronously, which the completions include. `ended`
    /// takes the slot and the result of an ended op, and returns the result to report. A slot beyond the last one
    /// belongs to a poll.
    #[inline]
    pub(super) fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
        mut ended: impl FnMut(Slot, i32) -> i32,
    ) -> Result<(), BackendError> {
        let entered = self.clock.now();
        completions.entered = entered;
        completions.submitted += self.prepared.len() as u32;
        for slot in self.prepared.drain(..) {
            self.submitted[slot as usize] = entered;
        }
        if self.capabilities.submits_apart && self.rings.pending() > 0 {
            completions.submission_ns = self
                .rings
                .submit(self.clock, entered)
                .map_err(|error| BackendError::new("submit to the io_uring", error))?;
        }
        let done = completions.list.len() as u32;
        let (min, max) = (min.saturating_sub(done), max.saturating_sub(done));
        let ready = self.rings.ready();
        let entered_now = completions.submission_ns > 0;
        if self.rings.pending() > 0 || ready < min || (ready == 0 && !entered_now) {
            let now = entered + completions.submission_ns;
            let timeout = deadline.map(|deadline| deadline.saturating_sub(now));
            self.rings
                .enter(min, timeout)
                .map_err(|error| BackendError::new("enter the io_uring", error))?;
        }
        let completed = self.clock.now();
        completions.returned = completed;
        let submitted = &self.submitted;
        self.rings.reap(max, |slot, result| {
            let since = submitted.get(slot as usize).copied().unwrap_or(entered);
            completions.push(slot, ended(slot, result), since, completed);
        });
        Ok(())
    }
}
