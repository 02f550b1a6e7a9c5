//! The files of sets, which exist before anything is timed. Several threads create them in the order of their numbers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use iodyno_engine::operations::{self, Contents};
use iodyno_model::{Buffers, Diagnostic, FileSet, Writing};
use iodyno_units::Bytes;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::faults::PrepareError;

/// Bytes of contents that are prepared at a time; a stop is checked between them.
const BUFFER: u64 = Writing::CHUNK;
/// Dirty data of a file are written out after this many bytes: an fsync at the end of 2 GiB could not be interrupted.
const SETTLE: u64 = 16 << 20;
/// Interval of checks for a stop request.
const LOOK: Duration = Duration::from_millis(20);
/// Progress is reported after this many checks.
const TELL_EVERY: u32 = 5;

/// The folders of a job's sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// One folder, or one for each clone: files are assigned to them in turn.
    pub(super) folders: &'a [OwnedFd],
    pub(super) paths: &'a [PathBuf],
}

/// Total progress of all jobs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    bytes: AtomicU64,
    files: AtomicU64,
    all_bytes: u64,
    all_files: u64,
}

impl Progress {
    pub(super) fn of<'a>(sets: impl Iterator<Item = &'a FileSet>) -> Progress {
        let mut progress = Progress::default();
        for set in sets {
            progress.all_files = progress.all_files.saturating_add(set.count);
            let bytes = set.count.saturating_mul(set.size);
            progress.all_bytes = progress.all_bytes.saturating_add(bytes);
        }
        progress
    }

    pub(super) fn any(&self) -> bool {
        self.all_files > 0
    }

    /// Done and total: bytes, or files where all files are empty.
    pub(super) fn share(&self) -> (u64, u64) {
        match self.all_bytes {
            0 => (self.files.load(Relaxed), self.all_files),
            all => (self.bytes.load(Relaxed), all),
        }
    }
}

/// The stop request, and the receiver of progress reports.
pub(super) struct Talk<'a> {
    pub(super) stop: &'a dyn Fn() -> bool,
    pub(super) tell: &'a mut dyn FnMut(u64, u64),
    pub(super) progress: &'a Progress,
}

/// Creates the files of a set and syncs their folders.
pub(super) fn make(
    set: &FileSet,
    writing: Writing,
    place: Place<'_>,
    buffers: &Buffers,
    seed: u64,
    talk: &mut Talk<'_>,
) -> Result<(), PrepareError> {
    let threads = u64::from(writing.threads_for(set));
    let work = Work {
        set,
        chunk: writing.chunk,
        place,
        progress: talk.progress,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        fault: Mutex::new(None),
        running: AtomicUsize::new(0),
    };
    thread::scope(|scope| {
        let boss = thread::current();
        for number in 0..threads {
            let (work, boss) = (&work, boss.clone());
            let seed = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let run = move || {
                let _leaves = Leaves(work, boss);
                work.run(buffers, seed);
            };
            work.running.fetch_add(1, Relaxed);
            let made = thread::Builder::new().name(format!("set-up-{number}"));
            if let Err(error) = made.spawn_scoped(scope, run) {
                work.running.fetch_sub(1, Relaxed);
                work.fail("a thread".to_owned(), error);
            }
        }
        let mut looks = 0;
        while work.running.load(Relaxed) > 0 {
            thread::park_timeout(LOOK);
            if (talk.stop)() {
                work.stop.store(true, Relaxed);
            }
            looks += 1;
            if looks % TELL_EVERY == 0 {
                let (done, total) = talk.progress.share();
                (talk.tell)(done, total);
            }
        }
    });
    let fault = work.fault.into_inner().unwrap_or(None);
    match fault {
        Some(fault) => Err(PrepareError::Unprepared(vec![fault])),
        None if (talk.stop)() => Err(PrepareError::Withdrawn),
        None => Ok(()),
    }
}

/// Reports the end of a thread, by return or panic.
struct Leaves<'a, 'b>(&'a Work<'b>, thread::Thread);

impl Drop for Leaves<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let error = io::Error::other("a thread panicked; see stderr");
            self.0.fail("the files".to_owned(), error);
        }
        self.0.running.fetch_sub(1, Relaxed);
        self.1.unpark();
    }
}

struct Work<'a> {
    set: &'a FileSet,
    /// Bytes of one call.
    chunk: u64,
    place: Place<'a>,
    progress: &'a Progress,
    /// The next file's number.
    next: AtomicU64,
    stop: AtomicBool,
    fault: Mutex<Option<Diagnostic>>,
    running: AtomicUsize,
}

impl Work<'_> {
    fn run(&self, buffers: &Buffers, seed: u64) {
        let mut contents =
            match Contents::new(buffers, self.set.size.clamp(1, BUFFER), self.chunk, seed) {
                Ok(contents) => contents,
                Err(error) => return self.fail("a buffer".to_owned(), error),
            };
        loop {
            // Numbers are taken one by one, so that the files of all lower numbers exist or are being created.
            let number = self.next.fetch_add(1, Relaxed);
            if number >= self.set.count {
                return;
            }
            let folder = (number % self.place.folders.len() as u64) as usize;
            let name = operations::file_name(&self.set.name, number);
            match self.file(self.place.folders[folder].as_fd(), &name, &mut contents) {
                Ok(true) => self.progress.files.fetch_add(1, Relaxed),
                Ok(false) => return,
                Err(error) => {
                    let path = self.place.paths[folder].join(&name);
                    return self.fail(format!("`{}`", path.display()), error);
                }
            };
        }
    }

    /// `false`: a stop was requested.
    fn file(
        &self,
        folder: BorrowedFd<'_>,
        name: &str,
        contents: &mut Contents,
    ) -> io::Result<bool> {
        let stopped = || self.stop.load(Relaxed);
        if stopped() {
            return Ok(false);
        }
        if self.set.folders {
            fs::mkdirat(folder, name, Mode::RWXU)?;
            return Ok(true);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
        let (mut at, mut unsettled) = (0, 0);
        while at < self.set.size {
            let length = (self.set.size - at).min(BUFFER) as usize;
            contents.next(length);
            let mut written = 0;
            while written < length {
                let call = contents.rest(written, length);
                write(file.as_fd(), call, at + written as u64)?;
                written += call.len();
            }
            at += length as u64;
            unsettled += length as u64;
            self.progress.bytes.fetch_add(length as u64, Relaxed);
            if stopped() {
                return Ok(false);
            }
            if unsettled >= SETTLE && at < self.set.size {
                unsettled = 0;
                retry_on_intr(|| fs::fdatasync(&file))?;
            }
        }
        if self.set.fsync {
            retry_on_intr(|| fs::fsync(&file))?;
        }
        Ok(true)
    }

    /// Records the first fault, which ends all threads.
    fn fail(&self, what: String, error: io::Error) {
        let made = self.progress.files.load(Relaxed);
        let message = format!(
            "cannot make {what} of set `{}`: {error}\n  cause: failed after {made} of {} files, {} of {}",
            self.set.name,
            self.progress.all_files,
            Bytes(self.progress.bytes.load(Relaxed)),
            Bytes(self.progress.all_bytes)
        );
        let fault = Diagnostic::error(message).hint(hint(&error));
        if let Ok(mut first) = self.fault.lock() {
            first.get_or_insert(fault);
        }
        self.stop.store(true, Relaxed);
    }
}

fn write(file: BorrowedFd<'_>, from: &[u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < from.len() {
        match rustix::io::pwrite(file, &from[done..], at + done as u64) {
            Ok(0) => return Err(Errno::NOSPC.into()),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The remedy for an error during the creation of files.
pub(super) fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC) => "free space or inodes, or lower `--files` or `--file-size`",
        Some(Errno::DQUOT) => "raise the quota, or lower `--files` or `--file-size`",
        Some(Errno::FBIG) => "raise `ulimit -f`, or lower `--file-size`",
        Some(Errno::NOENT | Errno::STALE) => {
            "another process removed its folder: leave the folder alone while a trial runs"
        }
        Some(Errno::EXIST) => {
            "another process creates files in its folder: leave the folder alone while a trial runs"
        }
        Some(Errno::MFILE | Errno::NFILE) => "raise `ulimit -n`, or lower `--threads`",
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => "name a folder that can be written to",
        Some(Errno::IO) => "the device reports I/O errors: see `dmesg`",
        _ => "see `dmesg`",
    }
}
