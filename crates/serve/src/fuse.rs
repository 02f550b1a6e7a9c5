//! A mirror as one file of this host: the server's side of FUSE, for a file system that consists of one file.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h`, version 7.31 and later. The file system is mounted on an empty file, which then has
//! the length of the mirror. `losetup --direct-io=on` makes a block device of it. One thread reads requests and writes replies.
//!
//! The file is not cached: each read and write of it is one of the mirror. Of a write, whole units of the mirror are written; a write that
//! begins within a unit, or is shorter, is refused, because it would not be atomic.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};

use iodyno_mirror::core::Access;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::nbd::Export;
use crate::queue::{Handle, Reply, ReplyTo, Request};

const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;

/// The version of the protocol that is spoken.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// Reads of a file at the same time; long writes; asynchronous direct I/O; requests of more than 32 pages.
const INIT_FLAGS: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
/// The file is not cached, and direct writes to it do not exclude each other.
const OPEN_FLAGS: u32 = 1 | 1 << 6;
/// Requests of direct I/O that the kernel sends at the same time.
const MOST_REQUESTS: u16 = 256;
/// Bytes of a request's data.
const MOST_BYTES: u32 = 1 << 20;
/// Bytes of a page, and of the headers before the data of a write.
const PAGE: u32 = 4096;
const HEADER: usize = 40;
/// Requests in flight.
const MOST_IN_FLIGHT: usize = 1024;
/// Bytes of requests in flight; one request may exceed it.
const MOST_BYTES_IN_FLIGHT: usize = 64 << 20;
/// The kernel keeps attributes for this time, s: they do not change.
const ATTRIBUTES_VALID: u64 = 3600;
/// `mode` of fallocate: keep the length, punch a hole, zero a range.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;

/// A mounted file, served by a thread.
#[derive(Debug)]
pub struct FuseFront {
    path: PathBuf,
    /// The empty file was made here.
    created: bool,
    stopping: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl FuseFront {
    /// Mounts a mirror on an empty file, which is made if there is none, and serves it. What a server that was killed left mounted there
    /// is unmounted before.
    ///
    /// # Errors
    /// There is something else at this path, this process may not mount, or there is no FUSE.
    pub fn start(path: &Path, export: Export, handle: Handle) -> io::Result<FuseFront> {
        if let Err(error) = path.metadata()
            && error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())
        {
            unmount(path, UnmountFlags::DETACH)?;
        }
        let created = match path.symlink_metadata() {
            Ok(found) if found.is_file() && found.len() == 0 => false,
            Ok(_) => {
                let text = "it is not an empty file";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (OpenOptions::new().write(true).create_new(true))
                    .mode(0o600)
                    .open(path)?;
                true
            }
            Err(error) => return Err(error),
        };
        FuseFront::serve(path, export, handle, created).inspect_err(|_| {
            if created {
                // The first error counts.
                let _ = std::fs::remove_file(path);
            }
        })
    }

    fn serve(path: &Path, export: Export, handle: Handle, created: bool) -> io::Result<FuseFront> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let device = (OpenOptions::new().read(true).write(true))
            .custom_flags(nonblock)
            .open("/dev/fuse")?;
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let options = format!(
            "fd={},rootmode=100600,user_id={},group_id={},max_read={MOST_BYTES}",
            device.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        let options = CString::new(options).map_err(io::Error::other)?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
        mount("iodyno", path, "fuse.iodyno", flags, options.as_c_str())?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (reply, replies) = ReplyTo::waking(Arc::clone(&wake), MOST_IN_FLIGHT);
        let mut session = Session {
            device,
            file: ServedFile {
                export,
                user: user.as_raw(),
                group: group.as_raw(),
            },
            handle,
            reply,
            replies,
            wake: Arc::clone(&wake),
            stopping: Arc::clone(&stopping),
            in_flight: HashMap::new(),
            next: 0,
            bytes: 0,
        };
        let mut front = FuseFront {
            path: path.to_owned(),
            created,
            stopping,
            wake,
            thread: None,
        };
        let run = move || {
            // It fails when the file system is unmounted: then nobody uses it.
            let _ = session.run();
        };
        front.thread = Some(thread::Builder::new().name("fuse".to_owned()).spawn(run)?);
        Ok(front)
    }
}

impl Drop for FuseFront {
    /// Unmounts the file, when the mirror has ended. Who still has it open gets errors.
    fn drop(&mut self) {
        // It may be unmounted already.
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        self.stopping.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if self.created {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

struct Session {
    device: File,
    file: ServedFile,
    handle: Handle,
    reply: ReplyTo,
    replies: Receiver<Reply>,
    wake: Arc<OwnedFd>,
    stopping: Arc<AtomicBool>,
    in_flight: HashMap<u64, InFlight>,
    next: u64,
    /// Of all requests in flight.
    bytes: usize,
}

struct InFlight {
    unique: u64,
    answer: Answer,
    bytes: usize,
}

/// What the reply to a request has, if it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Nothing,
    /// The number of bytes that were written.
    Written(u32),
    /// A part of what was read.
    Read {
        skip: u32,
        length: u32,
    },
}

impl Session {
    fn run(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; (MOST_BYTES + PAGE) as usize];
        loop {
            let reading = self.has_room();
            let mut watched = vec![PollFd::new(&self.wake, PollFlags::IN)];
            if reading {
                watched.push(PollFd::new(&self.device, PollFlags::IN));
            }
            match poll(&mut watched, None) {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let woken = !watched[0].revents().is_empty();
            if woken {
                let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                while let Ok(reply) = self.replies.try_recv() {
                    self.answer(&reply)?;
                }
                if self.stopping.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            while self.has_room() {
                match self.device.read(&mut buffer) {
                    Ok(length) => self.take(&buffer[..length])?,
                    Err(error) => match Errno::from_io_error(&error) {
                        Some(Errno::AGAIN) => break,
                        // The request was interrupted.
                        Some(Errno::INTR | Errno::NOENT) => {}
                        // ENODEV: it was unmounted.
                        _ => return Err(error),
                    },
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.bytes < MOST_BYTES_IN_FLIGHT && self.in_flight.len() < MOST_IN_FLIGHT
    }

    fn take(&mut self, message: &[u8]) -> io::Result<()> {
        let Some((unique, wanted)) = self.file.request(message) else {
            // The kernel does not send this.
            return Err(io::ErrorKind::InvalidData.into());
        };
        match wanted {
            Wanted::Silence => Ok(()),
            Wanted::Now(Ok(bytes)) => self.send(unique, 0, &bytes),
            Wanted::Now(Err(errno)) => self.send(unique, errno.raw_os_error(), &[]),
            Wanted::Access {
                access,
                offset,
                length,
                payload,
                holes,
                answer,
            } => {
                let cookie = self.next;
                self.next += 1;
                let bytes = match access {
                    Access::Read => length as usize,
                    _ => payload.len(),
                };
                self.bytes += bytes;
                let in_flight = InFlight {
                    unique,
                    answer,
                    bytes,
                };
                self.in_flight.insert(cookie, in_flight);
                self.handle.request(Request {
                    access,
                    offset,
                    length,
                    payload,
                    holes,
                    cookie,
                    reply: self.reply.clone(),
                });
                Ok(())
            }
        }
    }

    fn answer(&mut self, reply: &Reply) -> io::Result<()> {
        let Some(ended) = self.in_flight.remove(&reply.cookie) else {
            return Ok(());
        };
        self.bytes -= ended.bytes;
        if reply.errno != 0 {
            return self.send(ended.unique, reply.errno, &[]);
        }
        match ended.answer {
            Answer::Nothing => self.send(ended.unique, 0, &[]),
            Answer::Written(length) => self.send(ended.unique, 0, &u64::from(length).to_le_bytes()),
            Answer::Read { skip, length } => {
                let data = &reply.data[skip as usize..][..length as usize];
                self.send(ended.unique, 0, data)
            }
        }
    }

    fn send(&mut self, unique: u64, errno: i32, data: &[u8]) -> io::Result<()> {
        let mut header = Vec::with_capacity(16);
        header.extend((16 + data.len() as u32).to_ne_bytes());
        header.extend((-errno).to_ne_bytes());
        header.extend(unique.to_ne_bytes());
        match self
            .device
            .write_vectored(&[IoSlice::new(&header), IoSlice::new(data)])
        {
            Ok(_) => Ok(()),
            // The request was interrupted.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The file that is served.
#[derive(Debug, Clone, Copy)]
struct ServedFile {
    export: Export,
    user: u32,
    group: u32,
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// It has no reply.
    Silence,
    /// It is answered at once.
    Now(Result<Vec<u8>, Errno>),
    /// An access to the mirror; as in [`crate::queue::Request`].
    Access {
        access: Access,
        offset: u64,
        length: u32,
        payload: Vec<u8>,
        holes: bool,
        answer: Answer,
    },
}

impl ServedFile {
    /// The number of a request, and what it asks for. `None`: this is not a request.
    fn request(&self, message: &[u8]) -> Option<(u64, Wanted)> {
        let (header, body) = message.split_at_checked(HEADER)?;
        let (kind, unique) = (u32_at(header, 4)?, u64_at(header, 8)?);
        let wanted = match kind {
            FORGET | BATCH_FORGET | INTERRUPT => Wanted::Silence,
            INIT => Wanted::Now(init(body)),
            GETATTR => Wanted::Now(Ok(self.attributes())),
            SETATTR => Wanted::Now(self.changed(body)),
            OPEN => {
                let mut opened = vec![0; 16];
                opened[8..12].copy_from_slice(&OPEN_FLAGS.to_ne_bytes());
                Wanted::Now(Ok(opened))
            }
            RELEASE | FLUSH | DESTROY => Wanted::Now(Ok(Vec::new())),
            STATFS => Wanted::Now(Ok(self.space())),
            READ => self.read(body).unwrap_or(Wanted::Now(Err(Errno::INVAL))),
            WRITE => self.write(body).unwrap_or(Wanted::Now(Err(Errno::INVAL))),
            FSYNC => Wanted::Access {
                access: Access::Flush,
                offset: 0,
                length: 0,
                payload: Vec::new(),
                holes: false,
                answer: Answer::Nothing,
            },
            FALLOCATE => (self.zeros(body)).unwrap_or(Wanted::Now(Err(Errno::OPNOTSUPP))),
            // The kernel does not ask again.
            _ => Wanted::Now(Err(Errno::NOSYS)),
        };
        Some((unique, wanted))
    }

    fn attributes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(104);
        for word in [
            ATTRIBUTES_VALID,
            0,
            1,
            self.export.length,
            self.export.length / 512,
        ] {
            bytes.extend(word.to_ne_bytes());
        }
        // Times.
        bytes.extend([0; 3 * 8 + 3 * 4]);
        for word in [
            0o100_600,
            1,
            self.user,
            self.group,
            0,
            self.export.unit.max(PAGE),
            0,
        ] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        bytes
    }

    /// Nothing of the file can be changed; that it is truncated to its own length is no change.
    fn changed(&self, body: &[u8]) -> Result<Vec<u8>, Errno> {
        const SIZE: u32 = 1 << 3;
        let valid = u32_at(body, 0).ok_or(Errno::INVAL)?;
        match valid & SIZE != 0 && u64_at(body, 16) != Some(self.export.length) {
            true => Err(Errno::PERM),
            false => Ok(self.attributes()),
        }
    }

    fn space(&self) -> Vec<u8> {
        let unit = self.export.unit;
        let mut bytes = (self.export.length / u64::from(unit))
            .to_ne_bytes()
            .to_vec();
        // Nothing is free, and there is one file.
        bytes.extend([0; 4 * 8]);
        for word in [unit, 255, unit] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.resize(80, 0);
        bytes
    }

    fn read(&self, body: &[u8]) -> Option<Wanted> {
        let (offset, size) = (u64_at(body, 8)?, u32_at(body, 16)?);
        let length =
            (self.export.length.saturating_sub(offset)).min(u64::from(size.min(MOST_BYTES)));
        if length == 0 {
            return Some(Wanted::Now(Ok(Vec::new())));
        }
        // What is read is rounded to whole units.
        let unit = u64::from(self.export.unit);
        let (start, end) = (
            offset / unit * unit,
            (offset + length).next_multiple_of(unit),
        );
        Some(Wanted::Access {
            access: Access::Read,
            offset: start,
            length: (end - start) as u32,
            payload: Vec::new(),
            holes: false,
            answer: Answer::Read {
                skip: (offset - start) as u32,
                length: length as u32,
            },
        })
    }

    fn write(&self, body: &[u8]) -> Option<Wanted> {
        let (offset, size) = (u64_at(body, 8)?, u32_at(body, 16)?);
        let data = body.get(HEADER..)?;
        if data.len() != size as usize {
            return None;
        }
        if size == 0 {
            return Some(Wanted::Now(Ok(vec![0; 8])));
        }
        // The kernel divides long writes by the pages of their memory. What remains comes again.
        let whole = size - size % self.export.unit;
        match self.inside(offset, whole.into())? {
            _ if whole == 0 => None,
            true => Some(Wanted::Access {
                access: Access::Write { fua: false },
                offset,
                length: whole,
                payload: data[..whole as usize].to_vec(),
                holes: false,
                answer: Answer::Written(whole),
            }),
            false => Some(Wanted::Now(Err(Errno::NOSPC))),
        }
    }

    /// Whether a range is within the file. `None`: it is not aligned.
    fn inside(&self, offset: u64, length: u64) -> Option<bool> {
        let unit = u64::from(self.export.unit);
        let aligned = offset.is_multiple_of(unit) && length.is_multiple_of(unit);
        let end = offset.checked_add(length);
        aligned.then(|| end.is_some_and(|end| end <= self.export.length))
    }

    /// Zeros in place of data, which may be holes if they were punched.
    fn zeros(&self, body: &[u8]) -> Option<Wanted> {
        let (offset, length) = (u64_at(body, 8)?, u64_at(body, 16)?);
        let holes = match u32_at(body, 24)? & !KEEP_SIZE {
            PUNCH_HOLE if self.export.trims => true,
            ZERO_RANGE => false,
            _ => return None,
        };
        let length = u32::try_from(length).ok().filter(|length| *length > 0)?;
        match self.inside(offset, length.into()) {
            Some(true) => Some(Wanted::Access {
                access: Access::Write { fua: false },
                offset,
                length,
                payload: Vec::new(),
                holes,
                answer: Answer::Nothing,
            }),
            Some(false) => Some(Wanted::Now(Err(Errno::NOSPC))),
            None => Some(Wanted::Now(Err(Errno::INVAL))),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*word))
}

fn init(body: &[u8]) -> Result<Vec<u8>, Errno> {
    let major = u32_at(body, 0).ok_or(Errno::INVAL)?;
    let minor = u32_at(body, 4).ok_or(Errno::INVAL)?;
    let offered = u32_at(body, 12).ok_or(Errno::INVAL)?;
    // A newer major version: the kernel asks again with ours. Older ones do not have long requests.
    if major < MAJOR || (major == MAJOR && minor < MINOR) {
        return Err(Errno::PROTO);
    }
    let mut bytes = Vec::with_capacity(64);
    for word in [MAJOR, MINOR, 0, INIT_FLAGS & offered] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(MOST_REQUESTS.to_ne_bytes());
    bytes.extend((MOST_REQUESTS / 4 * 3).to_ne_bytes());
    for word in [MOST_BYTES, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(((MOST_BYTES / PAGE) as u16).to_ne_bytes());
    bytes.resize(64, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: ServedFile = ServedFile {
        export: Export {
            length: 1 << 20,
            unit: 512,
            rotational: false,
            trims: true,
        },
        user: 0,
        group: 0,
    };

    fn message(kind: u32, words: &[u64], data: &[u8]) -> Vec<u8> {
        let length = HEADER + 8 * words.len() + data.len();
        let mut bytes = (length as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(77u64.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(data);
        bytes
    }

    fn asked(kind: u32, words: &[u64], data: &[u8]) -> Wanted {
        let (unique, wanted) = FILE.request(&message(kind, words, data)).unwrap();
        assert_eq!(unique, 77);
        wanted
    }

    #[test]
    fn reads_are_rounded_to_units_and_end_at_the_end() {
        let read = |offset, size| match asked(READ, &[0, offset, size, 0, 0], &[]) {
            Wanted::Access {
                access: Access::Read,
                offset,
                length,
                answer:
                    Answer::Read {
                        skip,
                        length: useful,
                    },
                ..
            } => (offset, length, skip, useful),
            Wanted::Now(Ok(bytes)) if bytes.is_empty() => (0, 0, 0, 0),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(4096, 4096), (4096, 4096, 0, 4096));
        assert_eq!(read(513, 10), (512, 512, 1, 10));
        assert_eq!(read(1000, 1000), (512, 1536, 488, 1000));
        assert_eq!(read((1 << 20) - 5, 4096), ((1 << 20) - 512, 512, 507, 5));
        assert_eq!(read(1 << 20, 4096), (0, 0, 0, 0));
        assert_eq!(read(u64::MAX, 4096), (0, 0, 0, 0));
        assert_eq!(read(0, 4 << 20), (0, MOST_BYTES, 0, MOST_BYTES));
    }

    #[test]
    fn writes_and_zeros_outside_of_the_file_or_its_units_are_refused() {
        let result = |wanted| match wanted {
            Wanted::Now(Err(errno)) => Err(errno),
            Wanted::Access { length, holes, .. } => Ok((length, holes)),
            other => panic!("{other:?}"),
        };
        let end = 1 << 20;
        for (offset, size, expected) in [
            (512, 1024, Ok((1024, false))),
            (end - 512, 512, Ok((512, false))),
            (end, 512, Err(Errno::NOSPC)),
            (u64::MAX - 511, 512, Err(Errno::NOSPC)),
            (1, 512, Err(Errno::INVAL)),
            (0, 100, Err(Errno::INVAL)),
            (512, 700, Ok((512, false))),
        ] {
            let data = vec![1; size as usize];
            let wanted = asked(WRITE, &[0, offset, size, 0, 0], &data);
            assert_eq!(result(wanted), expected, "{offset} {size}");
        }
        // Fewer bytes than it says.
        let short = asked(WRITE, &[0, 0, 512, 0, 0], &[1; 511]);
        assert_eq!(result(short), Err(Errno::INVAL));
        for (offset, length, mode, expected) in [
            (0, 4096, 3, Ok((4096, true))),
            (0, 4096, 16, Ok((4096, false))),
            (0, 4096, 0, Err(Errno::OPNOTSUPP)),
            (0, 1 << 32, 3, Err(Errno::OPNOTSUPP)),
            (0, 0, 3, Err(Errno::OPNOTSUPP)),
            (0, end + 512, 3, Err(Errno::NOSPC)),
            (5, 512, 3, Err(Errno::INVAL)),
        ] {
            let wanted = asked(FALLOCATE, &[0, offset, length, mode], &[]);
            assert_eq!(result(wanted), expected, "{offset} {length} {mode}");
        }
    }

    #[test]
    fn the_file_has_its_length_and_cannot_be_changed() {
        let Wanted::Now(Ok(attributes)) = asked(GETATTR, &[0, 0], &[]) else {
            panic!("no attributes");
        };
        assert_eq!(attributes.len(), 104);
        assert_eq!(u64_at(&attributes, 24), Some(1 << 20));
        assert_eq!(u32_at(&attributes, 76), Some(0o100_600));
        let truncated = asked(SETATTR, &[1 << 3, 0, 5], &[]);
        assert_eq!(truncated, Wanted::Now(Err(Errno::PERM)));
        let same = asked(SETATTR, &[1 << 3, 0, 1 << 20], &[]);
        assert_eq!(same, Wanted::Now(Ok(attributes)));
        assert_eq!(asked(1, &[], b"x\0"), Wanted::Now(Err(Errno::NOSYS)));
        assert_eq!(asked(FORGET, &[1], &[]), Wanted::Silence);
    }

    #[test]
    fn the_protocol_is_agreed_on_or_refused() {
        let init = |major: u64, minor: u64| {
            asked(INIT, &[minor << 32 | major, u64::from(u32::MAX) << 32], &[])
        };
        let Wanted::Now(Ok(agreed)) = init(7, 45) else {
            panic!("refused");
        };
        assert_eq!(agreed.len(), 64);
        assert_eq!(u32_at(&agreed, 12), Some(INIT_FLAGS));
        assert_eq!(u32_at(&agreed, 20), Some(MOST_BYTES));
        assert_eq!(init(7, 12), Wanted::Now(Err(Errno::PROTO)));
    }

    proptest! {
        #[test]
        fn any_message_is_refused_or_inside_of_the_file(
            kind in 0u32..50,
            words in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..1 << 21], 0..6),
            data in proptest::collection::vec(any::<u8>(), 0..1100),
        ) {
            let bytes = message(kind, &words, &data);
            if let Some((_, Wanted::Access { access, offset, length, answer, .. })) = FILE.request(&bytes) {
                prop_assert!(offset + u64::from(length) <= FILE.export.length);
                prop_assert!(access == Access::Flush || length > 0);
                if let Answer::Read { skip, length: useful } = answer {
                    prop_assert!(skip + useful <= length);
                }
            }
        }
    }
}
