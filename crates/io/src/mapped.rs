//! Memory copies to and from mapped files; fdatasync is msync.

use iodyno_sys::file;
use iodyno_sys::mapped::MappedFile;

use crate::sync::Doer;
use crate::{BackendError, File, Op, OpKind};

/// Files mapped into memory.
#[derive(Debug)]
pub struct Mapped {
    files: Vec<(File, MappedFile)>,
}

const EFAULT: i32 = 14;
const EIO: i32 = 5;

impl Mapped {
    /// Maps each file's region (base, length).
    ///
    /// # Errors
    /// Where a file cannot be mapped.
    pub fn new(files: Vec<(File, u64, u64)>, writable: bool) -> Result<Mapped, BackendError> {
        let files = files
            .into_iter()
            .map(|(file, base, length)| {
                let mapped = MappedFile::new(&file.descriptor, base, length, writable)
                    .map_err(|error| BackendError::new("map a file into memory", error))?;
                Ok((file, mapped))
            })
            .collect::<Result<_, BackendError>>()?;
        Ok(Mapped { files })
    }
}

impl Doer for Mapped {
    fn carry_out(&mut self, op: &Op, buffer: &mut [u8]) -> i32 {
        let (file, mapped) = &self.files[op.file as usize];
        let copied = |done: bool| if done { op.length as i32 } else { -EFAULT };
        match op.kind {
            OpKind::Read => copied(mapped.read(op.offset, buffer)),
            OpKind::Write => copied(mapped.write(op.offset, buffer)),
            OpKind::Trim => file::trim(&file.descriptor, file.device, op.offset, op.length.into()),
            // Linux's msync(MS_SYNC) is the fdatasync of what is mapped, and its fsync writes mapped pages, too:
            // doing both would flush the device twice.
            OpKind::Fdatasync => match mapped.sync() {
                Ok(()) => 0,
                Err(error) => -error.raw_os_error().unwrap_or(EIO),
            },
            OpKind::Fsync => file::sync(&file.descriptor, false),
        }
    }
}
