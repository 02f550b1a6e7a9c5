//! Executes each action as timed calls, with no other work between the readings of the clock.

use std::os::fd::OwnedFd;

use iodyno_model::StopRequest;
use iodyno_sys::file::close;
use iodyno_sys::{Clock, MonotonicClock};
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, RawDir, SeekFrom, fallocate, fstat, fsync, ftruncate,
    mkdirat, openat, renameat, seek, statat, statfs, unlinkat,
};
use rustix::io::{Errno, Result as Call, pwrite, retry_on_intr};

use super::command::NotRun;
use super::content::{CHUNK, Contents};
use super::folder::{About, CurrentFile, Failed, Folder, Halt, Open, closed};
use super::plan::{ResolvedAction, Which};
use crate::shared::CloneShared;

const NEW: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::WRONLY)
    .union(OFlags::CLOEXEC);
const OLD: OFlags = OFlags::WRONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// The result of a step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    /// Time within its calls, ns.
    pub(super) ns: u64,
    /// End of the last call, ns of the engine clock.
    pub(super) end: u64,
    /// Bytes written.
    pub(super) bytes: u64,
    /// Whether a call wrote less than requested and was continued.
    pub(super) short: bool,
}

impl Done {
    /// Adds another call of the same step.
    #[inline]
    fn add(&mut self, other: Done) {
        self.ns += other.ns;
        self.end = other.end;
        self.bytes += other.bytes;
        self.short |= other.short;
    }
}

type Step = Result<Done, Halt>;

/// Times one call.
#[inline(always)]
fn timed<T>(call: impl FnOnce() -> T) -> (T, Done) {
    let start = MonotonicClock.now();
    let result = call();
    let end = MonotonicClock.now();
    let done = Done {
        ns: end - start,
        end,
        ..Done::default()
    };
    (result, done)
}

/// Times a call, and repeats it if a signal interrupted it.
#[inline(always)]
fn call<T>(about: About, make: impl FnMut() -> Call<T>) -> Result<(T, Done), Halt> {
    match timed(|| retry_on_intr(make)) {
        (Ok(value), done) => Ok((value, done)),
        (Err(errno), _) => Err(Halt::failed(errno, about)),
    }
}

impl Folder {
    /// Executes a step.
    ///
    /// # Errors
    /// The step was not completed.
    #[inline]
    pub(super) fn carry_out(&mut self, action: ResolvedAction, shared: &CloneShared) -> Step {
        match action {
            ResolvedAction::Create => self.create(),
            ResolvedAction::Open(which) => self.open(which),
            ResolvedAction::Close => self.close(),
            ResolvedAction::Write { bytes } => {
                let (open, about, contents) = self.open_file()?;
                write(open, about, contents, bytes, shared)
            }
            ResolvedAction::Append {
                slot,
                bytes,
                new_file_at,
                keep,
            } => self.append(slot, bytes, (new_file_at, keep), shared),
            ResolvedAction::Sync => {
                let (open, about, _) = self.open_file()?;
                Ok(call(about, || fsync(&open.descriptor))?.1)
            }
            ResolvedAction::SyncFolder => Ok(call(About::Folder, || fsync(&self.descriptor))?.1),
            ResolvedAction::Unlink(which) => self.unlink(which),
            ResolvedAction::Rename(which) => self.rename(which),
            ResolvedAction::Stat(which) => self.stat(which),
            // By the path, as programs do: a call on an open descriptor takes half the time.
            ResolvedAction::Statfs => Ok(call(About::Folder, || statfs(self.c_path.as_c_str()))?.1),
            ResolvedAction::Mkdir => self.mkdir(),
            ResolvedAction::Rmdir => self.rmdir(),
            ResolvedAction::Readdir => self.readdir(shared),
            ResolvedAction::Truncate { length } => self.truncate(length),
            ResolvedAction::Fallocate { bytes } => self.fallocate(bytes),
            ResolvedAction::Run => self.run_command(shared),
        }
    }

    fn run_command(&mut self, shared: &CloneShared) -> Step {
        let Some(command) = &mut self.command else {
            // The plan guarantees a command here.
            return Err(Halt::failed(Errno::NOENT, About::Folder));
        };
        match command.run(&self.path, shared) {
            Ok((start, end)) => Ok(Done {
                ns: end - start,
                end,
                ..Done::default()
            }),
            Err(NotRun::Stopped) => Err(Halt::StopRequested),
            Err(NotRun::Failed) => Err(Halt::Command),
        }
    }

    fn create(&mut self) -> Step {
        let about = About::Own(self.take_number());
        self.name_of(about);
        let name = self.name.as_c();
        let (descriptor, done) = call(about, || openat(&self.descriptor, name, NEW, FILE_MODE))?;
        self.now_current(about, descriptor, Some(0));
        Ok(done)
    }

    fn open(&mut self, which: Which) -> Step {
        let about = self.pick(which)?;
        self.name_of(about);
        let name = self.name.as_c();
        let (descriptor, done) =
            call(about, || openat(&self.descriptor, name, OLD, Mode::empty()))?;
        self.now_current(about, descriptor, None);
        Ok(done)
    }

    fn now_current(&mut self, about: About, descriptor: OwnedFd, length: Option<u64>) {
        let open = Some(Open { descriptor, length });
        self.current = Some(CurrentFile { about, open });
        self.current_slot = None;
    }

    fn close(&mut self) -> Step {
        let current = self.current.as_mut();
        let about = current.as_ref().map_or(About::Folder, |file| file.about);
        let Some(open) = current.and_then(|file| file.open.take()) else {
            return Err(Halt::failed(Errno::BADF, about));
        };
        let (result, done) = timed(|| close(open.descriptor));
        closed(result).map_err(|errno| Halt::failed(errno, about))?;
        Ok(done)
    }

    /// Appends to the slot's file, or to a new one if it would grow too long. The removal of an old file is not part
    /// of the step's time: it only limits the space used.
    fn append(
        &mut self,
        slot: usize,
        bytes: u64,
        (new_file_at, keep): (u64, Option<u32>),
        shared: &CloneShared,
    ) -> Step {
        let mut done = Done::default();
        let open = self.appended[slot].open.as_ref();
        let length = open.and_then(|open| open.length);
        let anew = length.is_none_or(|length| length.saturating_add(bytes) > new_file_at);
        if anew {
            done = self.another_file(slot)?;
        }
        self.current_slot = Some(slot);
        let (open, about, contents) = self.open_file()?;
        done.add(write(open, about, contents, bytes, shared)?);
        let before = self.appended[slot].made - 1;
        if let Some(old) = keep.and_then(|keep| before.checked_sub(u64::from(keep) + 1))
            && anew
        {
            let about = About::Appended(slot, old);
            self.name_of(about);
            let name = self.name.as_c();
            call(about, || unlinkat(&self.descriptor, name, AtFlags::empty()))?;
        }
        Ok(done)
    }

    /// Closes the slot's file, if it has one, and creates the next.
    #[cold]
    fn another_file(&mut self, slot: usize) -> Step {
        let mut done = Done::default();
        let number = self.appended[slot].made;
        if let Some(open) = self.appended[slot].open.take() {
            let (result, closing) = timed(|| close(open.descriptor));
            let about = About::Appended(slot, number - 1);
            closed(result).map_err(|errno| Halt::failed(errno, about))?;
            done = closing;
        }
        let about = About::Appended(slot, number);
        self.name_of(about);
        let name = self.name.as_c();
        let (descriptor, making) = call(about, || openat(&self.descriptor, name, NEW, FILE_MODE))?;
        done.add(making);
        let appended = &mut self.appended[slot];
        appended.made += 1;
        appended.open = Some(Open {
            descriptor,
            length: Some(0),
        });
        Ok(done)
    }

    fn unlink(&mut self, which: Which) -> Step {
        let about = self.pick(which)?;
        self.name_of(about);
        let (name, flags) = (self.name.as_c(), self.removal(about));
        let result = call(about, || unlinkat(&self.descriptor, name, flags));
        // A file that cannot be unlinked is not tried again: the others would never be reached.
        self.forget(about);
        Ok(result?.1)
    }

    fn rename(&mut self, which: Which) -> Step {
        let about = self.pick(which)?;
        let number = self.name_anew();
        self.name_of(about);
        let (from, to) = (self.name.as_c(), self.new_name.as_c());
        let folder = &self.descriptor;
        let ((), done) = call(about, || renameat(folder, from, folder, to))?;
        match about {
            About::InSet(set, file) => self.sets[set].rename(file, number),
            _ => {
                if let Some(current) = &mut self.current {
                    current.about = About::Own(number);
                }
            }
        }
        Ok(done)
    }

    fn stat(&mut self, which: Which) -> Step {
        let about = self.pick(which)?;
        self.name_of(about);
        let name = self.name.as_c();
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(call(about, || statat(&self.descriptor, name, flags))?.1)
    }

    fn mkdir(&mut self) -> Step {
        let number = self.take_number();
        let about = About::Own(number);
        self.name_of(about);
        let name = self.name.as_c();
        let ((), done) = call(about, || mkdirat(&self.descriptor, name, FOLDER_MODE))?;
        // A cycle removes only its own folders: older ones need not be known.
        if self.made.len() == self.made.capacity() {
            self.made.pop_front();
        }
        self.made.push_back(number);
        Ok(done)
    }

    fn rmdir(&mut self) -> Step {
        let number = self.made.pop_back();
        let about = number.map_or(About::Folder, About::Own);
        if number.is_none() {
            return Err(Halt::failed(Errno::NOENT, about));
        }
        self.name_of(about);
        let name = self.name.as_c();
        Ok(call(about, || {
            unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR)
        })?
        .1)
    }

    fn readdir(&mut self, shared: &CloneShared) -> Step {
        let about = About::Folder;
        let failed = |errno| Halt::failed(errno, about);
        let Some(entries) = &self.entries else {
            return Err(failed(Errno::BADF));
        };
        seek(entries, SeekFrom::Start(0)).map_err(failed)?;
        let (result, done) = timed(|| {
            let mut all = RawDir::new(entries, self.entry_bytes.spare_capacity_mut());
            loop {
                if all.is_buffer_empty() && shared.stop_request() != StopRequest::No {
                    return Err(Halt::StopRequested);
                }
                match all.next() {
                    None => return Ok(()),
                    Some(Ok(_) | Err(Errno::INTR)) => {}
                    Some(Err(errno)) => return Err(failed(errno)),
                }
            }
        });
        result.map(|()| done)
    }

    fn truncate(&mut self, length: u64) -> Step {
        let (open, about, _) = self.open_file()?;
        let ((), done) = call(about, || ftruncate(&open.descriptor, length))?;
        open.length = Some(length);
        Ok(done)
    }

    fn fallocate(&mut self, bytes: u64) -> Step {
        let (open, about, _) = self.open_file()?;
        let end = open.end(about)?;
        let (file, none) = (&open.descriptor, FallocateFlags::empty());
        let ((), done) = call(about, || fallocate(file, none, end, bytes))?;
        open.length = Some(end + bytes);
        Ok(done)
    }
}

impl Open {
    /// The end of the file. It is queried if the file existed before.
    #[inline]
    fn end(&mut self, about: About) -> Result<u64, Halt> {
        if let Some(length) = self.length {
            return Ok(length);
        }
        let found = fstat(&self.descriptor).map_err(|errno| Halt::failed(errno, about))?;
        let length = found.st_size as u64;
        self.length = Some(length);
        Ok(length)
    }
}

/// Writes at the end of a file, a chunk with each call; stop requests are checked after each buffer. Filling the buffer
/// is not timed.
fn write(
    open: &mut Open,
    about: About,
    contents: &mut Contents,
    bytes: u64,
    shared: &CloneShared,
) -> Step {
    let mut offset = open.end(about)?;
    let mut done = Done::default();
    while done.bytes < bytes {
        if done.bytes > 0 && shared.stop_request() != StopRequest::No {
            return Err(Halt::StopRequested);
        }
        let length = (bytes - done.bytes).min(CHUNK as u64) as usize;
        contents.next(length);
        let mut moved = 0;
        while moved < length {
            let rest = contents.rest(moved, length);
            let file = &open.descriptor;
            let failed = |errno| {
                Halt::Failed(Failed {
                    errno,
                    about,
                    offset,
                })
            };
            let requested = rest.len();
            let (result, mut writing) = timed(|| retry_on_intr(|| pwrite(file, rest, offset)));
            let written = match result {
                Ok(0) => return Err(failed(Errno::NOSPC)),
                Ok(written) => written,
                Err(errno) => return Err(failed(errno)),
            };
            moved += written;
            writing.short = written < requested;
            writing.bytes = written as u64;
            done.add(writing);
            offset += written as u64;
            open.length = Some(offset);
        }
    }
    Ok(done)
}
