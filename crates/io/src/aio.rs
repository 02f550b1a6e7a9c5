//! Linux's native AIO: io_submit, then io_getevents.

use std::time::Duration;

use iodyno_sys::aio::{Aio, AioOp};
use iodyno_sys::file::{self, RwFlags};
use iodyno_sys::memory::Arena;

use crate::{
    Backend, BackendError, Capabilities, Clock, Completion, Completions, File, MonotonicClock, Op,
    OpKind, Slot,
};

/// See the module.
#[derive(Debug)]
pub struct AioBackend {
    aio: Aio,
    devices: Vec<bool>,
    clock: MonotonicClock,
    stamps: Box<[u64]>,
    prepared: Vec<Slot>,
    trims: Vec<(Slot, Op)>,
    slots: u32,
}

impl AioBackend {
    /// A context with room for all of the arena's slots.
    ///
    /// # Errors
    /// Where the host has no more AIO contexts.
    pub fn new(
        files: Vec<File>,
        arena: Arena,
        rw_flags: RwFlags,
    ) -> Result<AioBackend, BackendError> {
        let slots = arena.slots();
        let (devices, descriptors) = files
            .into_iter()
            .map(|file| (file.device, file.descriptor))
            .unzip();
        let aio = Aio::new(descriptors, arena, rw_flags).map_err(|source| BackendError {
            what: format!("create an AIO context for {slots} ops"),
            source,
            hint: Some("raise `fs.aio-max-nr`, or lower `iodepth` or `numjobs`"),
        })?;
        Ok(AioBackend {
            aio,
            devices,
            clock: MonotonicClock,
            stamps: vec![0; slots as usize].into_boxed_slice(),
            prepared: Vec::with_capacity(slots as usize),
            trims: Vec::with_capacity(slots as usize),
            slots,
        })
    }

    fn trim(&mut self, completions: &mut Completions) {
        for (slot, op) in self.trims.drain(..) {
            let submitted = self.clock.now();
            let (file, device) = (
                &self.aio.files()[op.file as usize],
                self.devices[op.file as usize],
            );
            let result = file::trim(file, device, op.offset, op.length.into());
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

    fn submit(&mut self, completions: &mut Completions) -> Result<(), BackendError> {
        let entered = self.clock.now();
        completions.entered = entered;
        for slot in self.prepared.drain(..) {
            self.stamps[slot as usize] = entered;
        }
        if self.aio.queued() == 0 {
            return Ok(());
        }
        let (clock, stamps) = (self.clock, &self.stamps);
        let taken = self
            .aio
            .submit(|slot, result| {
                let submitted = stamps[slot as usize];
                let completed = clock.now();
                completions.list.push(Completion {
                    slot,
                    result,
                    submitted,
                    completed,
                });
            })
            .map_err(|error| BackendError::new("submit to the AIO context", error))?;
        completions.submitted += taken;
        completions.submission_ns = self.clock.now() - entered;
        Ok(())
    }
}

impl Backend for AioBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            submits_apart: true,
            ..Capabilities::default()
        }
    }

    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.aio.buffer(slot)
    }

    fn room(&self) -> u32 {
        self.slots - self.aio.queued()
    }

    fn prep(&mut self, slot: Slot, op: &Op) {
        let what = match op.kind {
            OpKind::Read => AioOp::Read,
            OpKind::Write => AioOp::Write,
            OpKind::Trim => return self.trims.push((slot, *op)),
            OpKind::Fsync => AioOp::Fsync,
            OpKind::Fdatasync => AioOp::Fdatasync,
        };
        self.aio
            .prep(what, slot, op.file, op.offset, (op.skip, op.length));
        self.prepared.push(slot);
    }

    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        if !self.trims.is_empty() {
            self.trim(completions);
        }
        self.submit(completions)?;
        let min = min.saturating_sub(completions.list.len() as u32);
        let running = self.aio.in_flight() - self.aio.queued();
        let now = completions.entered + completions.submission_ns;
        let timeout = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(now)));
        // Where more is to be submitted first, looking for completions would cost a call an op.
        if running > 0 && (min > 0 || completions.submitted == 0) {
            let (clock, stamps) = (self.clock, &self.stamps);
            // One stamp for all that the call returns: they were seen at once.
            let mut seen = None;
            self.aio
                .wait(min.min(running), max, timeout, |slot, result| {
                    let completed = *seen.get_or_insert_with(|| clock.now());
                    let submitted = stamps[slot as usize];
                    completions.list.push(Completion {
                        slot,
                        result,
                        submitted,
                        completed,
                    });
                })
                .map_err(|error| BackendError::new("wait for AIO events", error))?;
        }
        completions.returned = self.clock.now();
        Ok(())
    }

    fn cancel_all(&mut self) {
        self.aio.cancel_all();
    }
}
