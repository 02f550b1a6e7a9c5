//! io_uring: SQEs written in place, one kernel entry a turn.

use std::time::Duration;

use iodyno_sys::file::{RwFlags, trim};
use iodyno_sys::memory::Arena;
use iodyno_sys::uring::{RingWishes, Uring, UringOp, UringOptions};

use crate::{
    Backend, BackendError, Capabilities, Clock, Completion, Completions, File, MonotonicClock, Op,
    OpKind, Slot,
};

/// What the ring should be; the kernel's next best otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct UringWishes {
    /// Busy-poll for completions.
    pub iopoll: bool,
    /// A kernel thread submits, pinned there if a CPU is named.
    pub sqpoll: Option<Option<u32>>,
    /// Registered buffers.
    pub fixed_buffers: bool,
    /// Registered files.
    pub fixed_files: bool,
    /// IOSQE_ASYNC.
    pub force_async: bool,
    /// RWF_*.
    pub rw_flags: RwFlags,
}

/// See the module.
#[derive(Debug)]
pub struct UringBackend {
    uring: Uring,
    devices: Vec<bool>,
    clock: MonotonicClock,
    /// When each slot's op was submitted.
    stamps: Box<[u64]>,
    /// Slots prepared since the last turn.
    prepared: Vec<Slot>,
    /// Discards: done by hand, ended at the next turn.
    discards: Vec<(Slot, Op)>,
}

impl UringBackend {
    /// A ring with room for all of the arena's slots.
    ///
    /// # Errors
    /// Where the kernel refuses a ring.
    pub fn new(
        files: Vec<File>,
        arena: Arena,
        wishes: UringWishes,
    ) -> Result<UringBackend, BackendError> {
        let slots = arena.slots();
        let (devices, descriptors) = files
            .into_iter()
            .map(|file| (file.device, file.descriptor))
            .unzip();
        let options = UringOptions {
            // One more than the slots: a cancellation needs an entry, too.
            ring: RingWishes {
                entries: slots.saturating_add(1),
                iopoll: wishes.iopoll,
                sqpoll: wishes.sqpoll,
            },
            fixed_buffers: wishes.fixed_buffers,
            fixed_files: wishes.fixed_files,
            force_async: wishes.force_async,
            rw_flags: wishes.rw_flags,
        };
        let uring = Uring::new(options, descriptors, arena).map_err(|source| BackendError {
            what: format!("create a {slots}-entry io_uring"),
            hint: Some(hint(&source)),
            source,
        })?;
        Ok(UringBackend {
            uring,
            devices,
            clock: MonotonicClock,
            stamps: vec![0; slots as usize].into_boxed_slice(),
            prepared: Vec::with_capacity(slots as usize),
            discards: Vec::with_capacity(slots as usize),
        })
    }

    /// Stamps what was prepared with the instant of its submission.
    #[inline]
    fn stamp_prepared(&mut self, now: u64) -> u32 {
        let count = self.prepared.len() as u32;
        for slot in self.prepared.drain(..) {
            self.stamps[slot as usize] = now;
        }
        count
    }

    fn discard(&mut self, completions: &mut Completions) {
        for (slot, op) in self.discards.drain(..) {
            let submitted = self.clock.now();
            let file = &self.uring.files()[op.file as usize];
            let result = trim(file, true, op.offset, op.length.into());
            let completed = self.clock.now();
            completions.list.push(Completion {
                slot,
                result,
                submitted,
                completed,
            });
            completions.submitted += 1;
        }
    }
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "run `sysctl -w kernel.io_uring_disabled=0`, or set `ioengine=libaio`"
        }
        std::io::ErrorKind::OutOfMemory => "raise the locked-memory limit (`ulimit -l`)",
        _ => "set `ioengine=libaio`",
    }
}

impl Backend for UringBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            features: self.uring.features().to_vec(),
            fallbacks: self.uring.fallbacks().to_vec(),
            submits_apart: false,
            stamps_each: false,
        }
    }

    #[inline]
    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.uring.buffer(slot)
    }

    #[inline]
    fn room(&self) -> u32 {
        // One entry stays free for a cancellation.
        self.uring.room().saturating_sub(1)
    }

    #[inline]
    fn prep(&mut self, slot: Slot, op: &Op) {
        let what = match op.kind {
            OpKind::Read => UringOp::Read,
            OpKind::Write => UringOp::Write,
            OpKind::Trim if self.devices[op.file as usize] => {
                return self.discards.push((slot, *op));
            }
            OpKind::Trim => UringOp::PunchHole,
            OpKind::Fsync => UringOp::Fsync,
            OpKind::Fdatasync => UringOp::Fdatasync,
        };
        self.uring
            .prep(what, slot, op.file, op.offset, (op.skip, op.length));
        self.prepared.push(slot);
    }

    #[inline]
    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        if !self.discards.is_empty() {
            self.discard(completions);
        }
        let entered = self.clock.now();
        completions.submitted += self.stamp_prepared(entered);
        completions.entered = entered;
        let min = min.saturating_sub(completions.list.len() as u32);
        let ready = self.uring.ready();
        if self.uring.pending() > 0 || ready < min || ready == 0 {
            let timeout =
                deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(entered)));
            self.uring
                .enter(min, timeout)
                .map_err(|error| BackendError::new("enter the io_uring", error))?;
        }
        let completed = self.clock.now();
        completions.returned = completed;
        let stamps = &self.stamps;
        self.uring.reap(max, |slot, result| {
            let submitted = stamps[slot as usize];
            completions.list.push(Completion {
                slot,
                result,
                submitted,
                completed,
            });
        });
        Ok(())
    }

    fn cancel_all(&mut self) {
        self.uring.cancel_all();
    }
}
