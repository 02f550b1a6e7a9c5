//! Memory copies to and from mapped files; fsync is msync.

use iodyno_sys::file;
use iodyno_sys::mapped::MappedFile;
use iodyno_sys::memory::Arena;

use crate::{
    Backend, BackendError, Capabilities, Clock, Completion, Completions, File, MonotonicClock, Op,
    OpKind, Slot,
};

/// See the module.
#[derive(Debug)]
pub struct MappedBackend {
    files: Vec<(File, MappedFile)>,
    arena: Arena,
    clock: MonotonicClock,
    prepared: Option<(Slot, Op)>,
}

const EFAULT: i32 = 14;

impl MappedBackend {
    /// Maps each file's region (base, length).
    ///
    /// # Errors
    /// Where a file cannot be mapped.
    pub fn new(
        files: Vec<(File, u64, u64)>,
        arena: Arena,
        writable: bool,
    ) -> Result<MappedBackend, BackendError> {
        let files = files
            .into_iter()
            .map(|(file, base, length)| {
                let mapped = MappedFile::new(&file.descriptor, base, length, writable)
                    .map_err(|error| BackendError::new("map a file into memory", error))?;
                Ok((file, mapped))
            })
            .collect::<Result<_, BackendError>>()?;
        Ok(MappedBackend {
            files,
            arena,
            clock: MonotonicClock,
            prepared: None,
        })
    }

    fn carry_out(&mut self, slot: Slot, op: &Op) -> i32 {
        let (file, mapped) = &self.files[op.file as usize];
        let range = op.skip as usize..op.skip as usize + op.length as usize;
        let copied = |done: bool| if done { op.length as i32 } else { -EFAULT };
        match op.kind {
            OpKind::Read => copied(mapped.read(op.offset, &mut self.arena.slot_mut(slot)[range])),
            OpKind::Write => copied(mapped.write(op.offset, &self.arena.slot_mut(slot)[range])),
            OpKind::Trim => file::trim(&file.descriptor, file.device, op.offset, op.length.into()),
            OpKind::Fsync | OpKind::Fdatasync => match mapped.sync() {
                Ok(()) => file::sync(&file.descriptor, op.kind == OpKind::Fdatasync),
                Err(error) => -error.raw_os_error().unwrap_or(5),
            },
        }
    }
}

impl Backend for MappedBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            stamps_each: true,
            ..Capabilities::default()
        }
    }

    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    fn room(&self) -> u32 {
        self.prepared.is_none().into()
    }

    fn prep(&mut self, slot: Slot, op: &Op) {
        self.prepared = Some((slot, *op));
    }

    fn turn(
        &mut self,
        _min: u32,
        _max: u32,
        _deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        let submitted = self.clock.now();
        (completions.entered, completions.returned) = (submitted, submitted);
        let Some((slot, op)) = self.prepared.take() else {
            return Ok(());
        };
        let result = self.carry_out(slot, &op);
        let completed = self.clock.now();
        completions.returned = completed;
        completions.submitted = 1;
        completions.list.push(Completion {
            slot,
            result,
            submitted,
            completed,
        });
        Ok(())
    }

    fn cancel_all(&mut self) {}
}
