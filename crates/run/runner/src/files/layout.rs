//! Layout: files get their length and content before the jobs start.
//!
//! Data that jobs read is written first, with content that cannot be compressed or deduplicated, because reads of holes
//! never reach the device. Space for files that are only written is reserved according to the job's `fallocate`. A file
//! that is long enough is not changed, and the content of a shorter one is kept.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use iodyno_model::Fallocate;
use iodyno_units::Bytes;
use rand::Rng;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

use crate::faults::{PrepareError, fault};
use crate::files::{Files, TrialFile};

const CHUNK: usize = 1 << 20;
/// Dirty data is written out after this many bytes: an fsync at the end of 100 GiB could not be interrupted.
const SETTLE: u64 = 64 << 20;
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Lays out all files that need it. `stop` is checked between chunks; `progress` gets the bytes done and in total.
///
/// # Errors
/// A stop was requested, or a file cannot be laid out. Unfinished files are restored.
pub(crate) fn lay_out(
    files: &mut Files,
    seed: u64,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), PrepareError> {
    let total: u64 = files.list.iter().map(|file| file.wanted.to_fill()).sum();
    let mut writer = Writer {
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        chunk: Vec::new(),
        done: 0,
        total,
        reported: Instant::now(),
        stop,
        progress,
    };
    // The first chunks can take long.
    if total > 0 {
        (writer.progress)(0, total);
    }
    for index in 0..files.list.len() {
        let file = &mut files.list[index];
        if let Err(error) = writer.file(file) {
            match error {
                // Finished files can be used by the next trial.
                PrepareError::Withdrawn => files.undo_unfinished(),
                _ => files.undo(|_| true),
            }
            return Err(error);
        }
    }
    if total > 0 {
        (writer.progress)(writer.done, total);
    }
    Ok(())
}

/// The content of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Random data, in blocks of this length that end with a checksum and their offset; 0: without.
    Random {
        sealed: u64,
    },
    Zeroes,
}

struct Writer<'a> {
    random: Xoshiro256PlusPlus,
    chunk: Vec<u8>,
    done: u64,
    total: u64,
    reported: Instant,
    stop: &'a dyn Fn() -> bool,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Writer<'_> {
    fn file(&mut self, file: &mut TrialFile) -> Result<(), PrepareError> {
        // Read again, because two names can lead to one file, and another process can have extended it.
        let length = file.admitted.length_now().map_err(|error| {
            let message = format!("cannot measure `{}`: {error}", file.wanted.path.display());
            PrepareError::Unprepared(vec![fault(message, hint(&error))])
        })?;
        let wanted = &file.wanted;
        let (fill, reserve) = (wanted.fill_to > length, wanted.reserve_to > length);
        if !fill && !reserve {
            return Ok(());
        }
        file.unfinished = true;
        file.length_before = Some(length);
        let mut at = length;
        let made = self.make(file.admitted.as_fd(), file, &mut at, length);
        made.map_err(|stopped| {
            let Some(error) = stopped else {
                return PrepareError::Withdrawn;
            };
            let target = file.wanted.fill_to.max(file.wanted.reserve_to);
            let message = format!(
                "cannot lay out `{}`: {error}, at {} of {}",
                file.wanted.path.display(),
                Bytes(at),
                Bytes(target)
            );
            PrepareError::Unprepared(vec![fault(message, hint(&error))])
        })?;
        file.unfinished = false;
        file.laid_out = true;
        Ok(())
    }

    /// `Err(None)`: a stop was requested.
    fn make(
        &mut self,
        to: BorrowedFd<'_>,
        file: &TrialFile,
        at: &mut u64,
        length: u64,
    ) -> Result<(), Option<io::Error>> {
        let wanted = &file.wanted;
        if wanted.fill_to > length {
            if !matches!(wanted.fallocate, Fallocate::None | Fallocate::Truncate) {
                // The length is extended by writing data only: after SIGKILL, an unfinished file is still too short,
                // and the next trial lays out the rest.
                reserve(to, Fallocate::KeepSize, length, wanted.fill_to)?;
            }
            if wanted.sealed > 0 {
                self.complete_block(to, at, wanted.fill_to, wanted.sealed)?;
            }
            let content = Content::Random {
                sealed: wanted.sealed,
            };
            self.fill(to, at, wanted.fill_to, content)?;
        }
        let mut from = wanted.fill_to.max(length);
        if wanted.reserve_to > from {
            let supported = reserve(to, wanted.fallocate, from, wanted.reserve_to)?;
            if !supported && wanted.fallocate == Fallocate::Posix {
                // As in the C library, space that cannot be reserved is written.
                self.fill(to, &mut from, wanted.reserve_to, Content::Zeroes)?;
            }
        }
        if wanted.fsync {
            rustix::fs::fsync(to).map_err(io::Error::from)?;
        }
        Ok(())
    }

    /// Writes the rest of a block in which the file ends, with the checksum of the whole block. Existing data stay
    /// unchanged.
    fn complete_block(
        &mut self,
        to: BorrowedFd<'_>,
        at: &mut u64,
        end: u64,
        block: u64,
    ) -> Result<(), Option<io::Error>> {
        let there = (*at % block) as usize;
        if there == 0 {
            return Ok(());
        }
        let start = *at - there as u64;
        let mut whole = vec![0; block.min(end - start) as usize];
        self.random.fill_bytes(&mut whole);
        let file = std::fs::File::from(to.try_clone_to_owned().map_err(Some)?);
        file.read_exact_at(&mut whole[..there], start)?;
        let before = whole[..there].to_vec();
        iodyno_engine::seal(block as usize, start, &mut whole);
        if whole[..there] != before {
            let text = "it ends within the checksum of a block, which does not fit the block";
            return Err(Some(io::Error::other(text)));
        }
        file.write_all_at(&whole[there..], *at)?;
        *at = start + whole.len() as u64;
        self.done += (whole.len() - there) as u64;
        Ok(())
    }

    fn fill(
        &mut self,
        to: BorrowedFd<'_>,
        at: &mut u64,
        end: u64,
        content: Content,
    ) -> Result<(), Option<io::Error>> {
        let block = match content {
            Content::Random { sealed } => sealed as usize,
            Content::Zeroes => 0,
        };
        // Whole blocks.
        let chunk = match block {
            0 => CHUNK,
            block => block * (CHUNK / block).max(1),
        };
        self.chunk.resize(chunk, 0);
        let mut unsettled = 0;
        while *at < end {
            if (self.stop)() {
                return Err(None);
            }
            // Up to the next multiple of the chunk size, so that all later writes are aligned.
            let most = chunk as u64 - *at % chunk as u64;
            let length = most.min(end - *at) as usize;
            match content {
                Content::Random { .. } => self.random.fill_bytes(&mut self.chunk),
                Content::Zeroes => self.chunk.fill(0),
            }
            if block > 0 {
                iodyno_engine::seal(block, *at, &mut self.chunk[..length]);
            }
            let written = match rustix::io::pwrite(to, &self.chunk[..length], *at) {
                Ok(0) => return Err(Some(Errno::NOSPC.into())),
                Ok(written) => written as u64,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Some(error.into())),
            };
            *at += written;
            unsettled += written;
            if content != Content::Zeroes {
                self.done += written;
            }
            if unsettled >= SETTLE {
                unsettled = 0;
                rustix::fs::fdatasync(to).map_err(io::Error::from)?;
            }
            if self.reported.elapsed() >= TELL_EVERY {
                self.reported = Instant::now();
                (self.progress)(self.done, self.total);
            }
        }
        Ok(())
    }
}

/// `false`: the file system does not support it.
fn reserve(
    to: BorrowedFd<'_>,
    how: Fallocate,
    from: u64,
    end: u64,
) -> Result<bool, Option<io::Error>> {
    let flags = match how {
        Fallocate::None => return Ok(true),
        Fallocate::Truncate => {
            ftruncate(to, end).map_err(io::Error::from)?;
            return Ok(true);
        }
        Fallocate::Native | Fallocate::Posix => FallocateFlags::empty(),
        Fallocate::KeepSize => FallocateFlags::KEEP_SIZE,
    };
    loop {
        return match fallocate(to, flags, from, end - from) {
            Ok(()) => Ok(true),
            Err(Errno::INTR) => continue,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(error) => Err(Some(error.into())),
        };
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC) => "free space, or lower `size=`, `nrfiles=` or `numjobs=`",
        Some(Errno::DQUOT) => "raise the quota, or lower `size=`, `nrfiles=` or `numjobs=`",
        Some(Errno::FBIG) => "raise `ulimit -f`, or lower `size=` or raise `nrfiles=`",
        Some(Errno::IO) => "the device reports I/O errors: see `dmesg`",
        None => "remove the file, or use another one",
        _ => "see `dmesg`",
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::path::Path;

    use iodyno_guard::{Guard, Intent, OpenFlags, Request};
    use iodyno_host::Roots;

    use super::*;
    use crate::files::requirements::Wanted;

    const MIB: u64 = 1 << 20;

    /// An admitted file to fill to `fill_to` bytes; its length was `looked_at` bytes when it was resolved.
    fn file(path: &Path, looked_at: u64, fill_to: u64) -> TrialFile {
        let request = Request {
            path,
            intent: Intent::WRITE,
            flags: OpenFlags::default(),
            named: true,
            destroy: &[],
        };
        let wanted = Wanted {
            path: path.to_owned(),
            existing: Some(looked_at),
            intent: Intent::WRITE,
            named: true,
            fill_to,
            fallocate: Fallocate::None,
            ..Wanted::default()
        };
        let admitted = Guard::new(Roots::host()).admit(&request).unwrap();
        TrialFile::new(wanted, admitted)
    }

    /// Stops the layout after this many chunks.
    fn stopped(files: &mut Files, chunks: u32) {
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == chunks;
        let end = lay_out(files, 1, &stop, &mut |_, _| {});
        assert_eq!(end, Err(PrepareError::Withdrawn));
    }

    #[test]
    fn undoing_a_layout_keeps_data_that_others_wrote_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, b"seen").unwrap();
        let mut files = Files {
            list: vec![file(&path, 4, 3 * MIB)],
            ..Files::default()
        };
        fs::write(&path, b"seen and appended").unwrap();
        stopped(&mut files, 2);
        assert_eq!(fs::read(&path).unwrap(), b"seen and appended");
    }

    #[test]
    fn a_file_that_ends_within_a_block_keeps_its_data_and_gets_whole_blocks() {
        const BLOCK: usize = 4096;
        let lay_out = |content: &[u8], fill_to: u64| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("f");
            fs::write(&path, content).unwrap();
            let mut one = file(&path, content.len() as u64, fill_to);
            one.wanted.sealed = BLOCK as u64;
            let mut files = Files {
                list: vec![one],
                folders: Vec::new(),
            };
            let done = super::lay_out(&mut files, 1, &|| false, &mut |_, _| {});
            (done, fs::read(&path).unwrap())
        };
        let data: Vec<u8> = (0..5000).map(|at: usize| (at % 251) as u8).collect();
        for fill_to in [6000, 8192, 20_000] {
            let (done, content) = lay_out(&data, fill_to);
            assert_eq!(done, Ok(()));
            assert_eq!(content.len() as u64, fill_to);
            assert!(content.starts_with(&data), "{fill_to}");
            // From the block in which the data end, all are sealed.
            let mut sealed = content[BLOCK..].to_vec();
            iodyno_engine::seal(BLOCK, BLOCK as u64, &mut sealed);
            assert!(content[BLOCK..] == sealed, "{fill_to}");
        }
        // A part of a checksum is completed if it is that of the data, and refused otherwise.
        let mut block = data[..BLOCK].to_vec();
        iodyno_engine::seal(BLOCK, 0, &mut block);
        assert_eq!(lay_out(&block[..BLOCK - 5], 4096), (Ok(()), block));
        let (done, content) = lay_out(&data[..BLOCK - 5], 4096);
        let Err(PrepareError::Unprepared(why)) = done else {
            panic!("{done:?}");
        };
        assert!(why[0].message.contains("checksum"), "{why:?}");
        assert_eq!(content, data[..BLOCK - 5]);
    }

    #[test]
    fn a_file_of_two_names_is_cut_back_to_what_it_was_before_both() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, b"old").unwrap();
        fs::hard_link(&one, &other).unwrap();
        let mut files = Files {
            list: vec![file(&one, 3, 2 * MIB), file(&other, 3, 4 * MIB)],
            ..Files::default()
        };
        stopped(&mut files, 3);
        assert_eq!(fs::metadata(&one).unwrap().len(), 2 * MIB);
        files.undo(|_| true);
        assert_eq!(fs::read(&one).unwrap(), b"old");
    }
}
