//! A backend that completes ops immediately without I/O, to measure the cost of the harness.

use crate::memory::Arena;
use crate::{Backend, BackendError, Capabilities, Clock, Completions, Op, Slot};

/// A backend without I/O.
#[derive(Debug)]
pub struct NullBackend<C> {
    arena: Arena,
    clock: C,
    /// Slots and results of prepared ops.
    prepared: Vec<(Slot, i32)>,
}

impl<C: Clock> NullBackend<C> {
    /// Creates a backend with this clock.
    pub fn new(arena: Arena, clock: C) -> NullBackend<C> {
        let prepared = Vec::with_capacity(arena.slots() as usize);
        NullBackend {
            arena,
            clock,
            prepared,
        }
    }
}

impl<C: Clock> Backend for NullBackend<C> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    #[inline]
    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    #[inline]
    fn room(&self) -> u32 {
        self.arena.slots() - self.prepared.len() as u32
    }

    #[inline]
    fn prep(&mut self, slot: Slot, op: &Op) {
        self.prepared.push((slot, op.transfer_length() as i32));
    }

    #[inline]
    fn turn(
        &mut self,
        _min: u32,
        max: u32,
        _deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        let submitted = self.clock.now();
        let count = self.prepared.len().min(max as usize);
        let completed = self.clock.now();
        (completions.entered, completions.returned) = (submitted, completed);
        completions.submitted = count as u32;
        for (slot, result) in self.prepared.drain(..count) {
            completions.push(slot, result, submitted, completed);
        }
        Ok(())
    }

    fn cancel_all(&mut self) {}
}
