//! POSIX AIO of the C library.

use std::time::Duration;

use iodyno_sys::file;
use iodyno_sys::memory::Arena;
use iodyno_sys::posix_aio::{PosixAio, PosixAioOp};

use crate::{
    Backend, BackendError, Capabilities, Clock, Completion, Completions, File, MonotonicClock, Op,
    OpKind, Slot,
};

/// See the module.
#[derive(Debug)]
pub struct PosixAioBackend {
    aio: PosixAio,
    devices: Vec<bool>,
    clock: MonotonicClock,
    stamps: Box<[u64]>,
    prepared: Vec<(Slot, Op)>,
    slots: u32,
}

impl PosixAioBackend {
    /// With a control block for each of the arena's slots.
    pub fn new(files: Vec<File>, arena: Arena) -> PosixAioBackend {
        let slots = arena.slots();
        let (devices, descriptors) = files
            .into_iter()
            .map(|file| (file.device, file.descriptor))
            .unzip();
        PosixAioBackend {
            aio: PosixAio::new(descriptors, arena),
            devices,
            clock: MonotonicClock,
            stamps: vec![0; slots as usize].into_boxed_slice(),
            prepared: Vec::with_capacity(slots as usize),
            slots,
        }
    }

    /// Hands the oldest prepared ops to the library; those it has no room for stay.
    fn submit(&mut self, completions: &mut Completions) {
        completions.entered = self.clock.now();
        let mut handed = 0;
        for (slot, op) in &self.prepared {
            let submitted = self.clock.now();
            let what = match op.kind {
                OpKind::Read => PosixAioOp::Read,
                OpKind::Write => PosixAioOp::Write,
                OpKind::Fsync => PosixAioOp::Fsync,
                OpKind::Fdatasync => PosixAioOp::Fdatasync,
                OpKind::Trim => {
                    let index = op.file as usize;
                    let (files, device) = (self.aio.files(), self.devices[index]);
                    let result = file::trim(&files[index], device, op.offset, op.length.into());
                    let completed = self.clock.now();
                    completions.list.push(Completion {
                        slot: *slot,
                        result,
                        submitted,
                        completed,
                    });
                    handed += 1;
                    continue;
                }
            };
            self.stamps[*slot as usize] = submitted;
            match self
                .aio
                .submit(what, *slot, op.file, op.offset, (op.skip, op.length))
            {
                Ok(()) => handed += 1,
                Err(error)
                    if error.kind() == std::io::ErrorKind::WouldBlock
                        && self.aio.in_flight() > 0 =>
                {
                    break;
                }
                Err(error) => {
                    let completed = self.clock.now();
                    let result = -error.raw_os_error().unwrap_or(5);
                    completions.list.push(Completion {
                        slot: *slot,
                        result,
                        submitted,
                        completed,
                    });
                    handed += 1;
                }
            }
        }
        self.prepared.drain(..handed);
        completions.submitted = handed as u32;
        if handed > 0 {
            // A call an op: what each took on average.
            completions.submission_ns = (self.clock.now() - completions.entered) / handed as u64;
        }
    }
}

impl Backend for PosixAioBackend {
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
        self.slots - self.prepared.len() as u32
    }

    fn prep(&mut self, slot: Slot, op: &Op) {
        self.prepared.push((slot, *op));
    }

    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        self.submit(completions);
        loop {
            let (clock, stamps) = (self.clock, &self.stamps);
            let mut seen = None;
            let room = max.saturating_sub(completions.list.len() as u32);
            self.aio.reap(room, |slot, result| {
                let completed = *seen.get_or_insert_with(|| clock.now());
                let submitted = stamps[slot as usize];
                completions.list.push(Completion {
                    slot,
                    result,
                    submitted,
                    completed,
                });
            });
            completions.returned = self.clock.now();
            let expired = deadline.is_some_and(|deadline| completions.returned >= deadline);
            let enough = completions.list.len() as u32 >= min.min(max);
            if enough || expired || self.aio.in_flight() == 0 {
                return Ok(());
            }
            let now = completions.returned;
            self.aio
                .suspend(deadline.map(|deadline| Duration::from_nanos(deadline - now)));
        }
    }

    fn cancel_all(&mut self) {
        self.aio.cancel_all();
    }
}
