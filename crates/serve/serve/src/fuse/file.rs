//! A mirror as one file of this host: a FUSE file system that consists of one file.
//!
//! Source: the kernel's `include/uapi/linux/fuse.h`, version 7.31 and later. The file system is mounted on an empty
//! file, which then has the length of the mirror. `losetup --direct-io=on` makes a block device of it. Threads of a
//! session read requests and send them to the thread of the mirror, which writes replies to `/dev/fuse` itself.
//!
//! The file is not cached: each read and write goes to the mirror. Writes transfer whole units of the mirror. A write
//! that starts within a unit, or is shorter than one, is refused, because it would not be atomic.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use iodyno_mirror::core::Access;
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::protocol::opcode::{
    BATCH_FORGET, DESTROY, FALLOCATE, FLUSH, FORGET, FSYNC, GETATTR, INIT, OPEN, READ, RELEASE,
    SETATTR, STATFS, WRITE,
};
use super::protocol::{
    ATTRIBUTES_BYTES, HEADER, INIT_BYTES, MAX_DATA, OPENED_BYTES, SPACE_BYTES, WRITE_HEADER,
    u32_at, u64_at,
};
use super::{Message, Mounted, Session, Transport, Used, Wanted, Worker, unmount_stale};
use crate::buffer_pool::BufferPool;
use crate::nbd::Export;
use crate::queue::{Direct, Handle, Reply, ReplyTo, Request};

/// The version of the protocol that is spoken.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// Reads of a file at the same time; long writes; asynchronous direct I/O; requests of more than 32 pages.
const INIT_FLAGS: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
/// The file is not cached, and direct writes to it do not exclude each other.
const OPEN_FLAGS: u32 = 1 | 1 << 6;
/// Requests of direct I/O that the kernel sends at the same time.
const MAX_REQUESTS: u16 = 256;
/// Bytes of a page.
const PAGE: u32 = 4096;
/// Requests of a batch. Each has a buffer of more than 1 MiB, which is resident if the process locks its memory.
const BATCH: usize = 16;
/// Requests in flight.
const MAX_IN_FLIGHT: usize = 1024;
/// Bytes of requests in flight; one request may exceed it.
const MAX_BYTES_IN_FLIGHT: usize = 64 << 20;
/// Bytes of buffers that are kept for other requests.
const SPARE_BYTES: usize = 16 << 20;
/// The kernel keeps attributes for this time, s: they do not change.
const ATTRIBUTES_VALID: u64 = 3600;
/// `mode` of fallocate: keep the length, punch a hole, zero a range.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;

/// A mounted file, served by threads.
#[derive(Debug)]
pub struct FuseFront {
    path: PathBuf,
    /// The empty file was made here.
    created: bool,
    session: Option<Session>,
    requests: Arc<Requests>,
}

impl FuseFront {
    /// Mounts a mirror on an empty file, which is created if missing, and serves it. First unmounts what a killed
    /// server left there.
    ///
    /// # Errors
    /// The path is not an empty file, this process may not mount, FUSE is missing, or the transport is unavailable.
    pub fn start(
        path: &Path,
        export: Export,
        handle: &Handle,
        transport: Transport,
    ) -> io::Result<FuseFront> {
        unmount_stale(path)?;
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
        let mut front = FuseFront {
            path: path.to_owned(),
            created,
            session: None,
            requests: Arc::default(),
        };
        let mounted = Mounted::on(path, 0o100_600, "", MountFlags::NOATIME)?;
        let wanted = Wanted {
            transport,
            passthrough: false,
            batch: BATCH,
        };
        let file = ServedFile {
            export,
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        };
        // The channel stays unused.
        let (reply, _) = ReplyTo::new(1);
        let reply = reply.directly(Arc::clone(&front.requests) as Arc<dyn Direct>);
        let worker = || {
            Ok(FileWorker {
                file,
                handle: handle.clone(),
                reply: reply.clone(),
                requests: Arc::clone(&front.requests),
            })
        };
        front.session = Some(Session::start(mounted, wanted, worker)?);
        Ok(front)
    }

    /// The transport of requests from the kernel.
    #[must_use]
    pub fn transport(&self) -> Option<&Used> {
        self.session.as_ref().map(Session::used)
    }
}

impl Drop for FuseFront {
    /// Unmounts the file after the mirror has ended. Programs that have it open get errors.
    fn drop(&mut self) {
        self.requests.end();
        if let Some(session) = self.session.take() {
            // Fails if the file was unmounted: then it is unused.
            let _ = session.end();
        }
        if self.created {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The requests that the mirror has.
#[derive(Debug, Default)]
struct Requests {
    table: Mutex<Table>,
    /// There is room for more, or the mirror has ended.
    room: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    in_flight: HashMap<u64, InFlight>,
    next: u64,
    /// Total of all requests in flight.
    bytes: usize,
    buffers: BufferPool<SPARE_BYTES>,
    ended: bool,
}

#[derive(Debug)]
struct InFlight {
    message: Message,
    answer: Answer,
    bytes: usize,
}

impl Requests {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room. Returns the table, unless the mirror has ended.
    fn table_with_room(&self) -> Option<MutexGuard<'_, Table>> {
        let full = |table: &mut Table| {
            let room = table.bytes < MAX_BYTES_IN_FLIGHT && table.in_flight.len() < MAX_IN_FLIGHT;
            !room && !table.ended
        };
        let table =
            (self.room.wait_while(self.table(), full)).unwrap_or_else(PoisonError::into_inner);
        (!table.ended).then_some(table)
    }

    /// After the end of the mirror, its pending requests and all later ones get an error.
    fn end(&self) {
        let mut table = self.table();
        table.ended = true;
        let dropped = std::mem::take(&mut table.in_flight);
        drop(table);
        self.room.notify_all();
        drop(dropped);
    }
}

impl Direct for Requests {
    fn try_send(&self, reply: Reply) -> Option<Reply> {
        let mut table = self.table();
        let ended = table.in_flight.remove(&reply.cookie)?;
        table.bytes -= ended.bytes;
        drop(table);
        self.room.notify_all();
        let (message, errno) = (ended.message, reply.errno);
        match ended.answer {
            _ if errno != 0 => message.answer_with(errno, &[]),
            Answer::Nothing => message.answer_with(0, &[]),
            Answer::Written(length) => {
                message.answer_with(0, &u64::from(length).to_ne_bytes());
            }
            Answer::Read { skip, length } => {
                message.answer_with(0, &reply.data[skip as usize..][..length as usize]);
            }
        }
        self.table().buffers.keep(reply.into_buffer());
        None
    }
}

/// The content of a successful reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Nothing,
    /// The number of bytes that were written.
    Written(u32),
    /// A part of the data read.
    Read {
        skip: u32,
        length: u32,
    },
}

/// Reads requests and sends them to the mirror.
struct FileWorker {
    file: ServedFile,
    handle: Handle,
    reply: ReplyTo,
    requests: Arc<Requests>,
}

impl Worker for FileWorker {
    fn work(&mut self, batch: &mut Vec<Message>, flush: &dyn Fn()) -> io::Result<()> {
        for message in batch.drain(..) {
            self.take(message);
        }
        flush();
        Ok(())
    }
}

impl FileWorker {
    fn take(&self, mut message: Message) {
        // Invalid requests are dropped: the kernel does not send them.
        let parsed = match self.file.request(message.request()) {
            None => return,
            Some(RequestOutcome::Silence) => return message.answer(0),
            Some(RequestOutcome::Now(Ok(bytes))) => return message.answer_with(0, &bytes),
            Some(RequestOutcome::Now(Err(errno))) => {
                return message.answer_with(errno.raw_os_error(), &[]);
            }
            Some(RequestOutcome::Access(access)) => access,
        };
        let Some(mut table) = self.requests.table_with_room() else {
            return;
        };
        let needed = match parsed.access {
            Access::Read => parsed.length as usize,
            _ => parsed.payload.len(),
        };
        let mut payload = table.buffers.take(needed);
        drop(table);
        payload.clear();
        payload.extend_from_slice(&message.request()[parsed.payload]);
        message.give_back();
        let mut table = self.requests.table();
        if table.ended {
            return;
        }
        let cookie = table.next;
        table.next += 1;
        table.bytes += needed;
        let in_flight = InFlight {
            message,
            answer: parsed.answer,
            bytes: needed,
        };
        table.in_flight.insert(cookie, in_flight);
        drop(table);
        self.handle.request(Request {
            access: parsed.access,
            offset: parsed.offset,
            length: parsed.length,
            payload,
            holes: parsed.holes,
            cookie,
            reply: self.reply.clone(),
            queue: 0,
            failed: None,
        });
    }
}

/// The file that is served.
#[derive(Debug, Clone, Copy)]
struct ServedFile {
    export: Export,
    user: u32,
    group: u32,
}

/// The outcome of parsing a request.
#[derive(Debug, PartialEq, Eq)]
enum RequestOutcome {
    /// It has no reply.
    Silence,
    /// It is answered immediately.
    Now(Result<Vec<u8>, Errno>),
    /// An access to the mirror.
    Access(MirrorAccess),
}

/// See [`crate::queue::Request`].
#[derive(Debug, PartialEq, Eq)]
struct MirrorAccess {
    access: Access,
    offset: u64,
    length: u32,
    /// The range of a write's data in the message; empty: zeros.
    payload: Range<usize>,
    holes: bool,
    answer: Answer,
}

impl ServedFile {
    /// Parses a request. `None`: it is invalid.
    fn request(&self, message: &[u8]) -> Option<RequestOutcome> {
        let (header, body) = message.split_at_checked(HEADER)?;
        let parsed = match u32_at(header, 4)? {
            FORGET | BATCH_FORGET => RequestOutcome::Silence,
            INIT => RequestOutcome::Now(init(body)),
            GETATTR => RequestOutcome::Now(Ok(self.attributes())),
            SETATTR => RequestOutcome::Now(self.changed(body)),
            OPEN => {
                let mut opened = vec![0; OPENED_BYTES];
                opened[8..12].copy_from_slice(&OPEN_FLAGS.to_ne_bytes());
                RequestOutcome::Now(Ok(opened))
            }
            RELEASE | FLUSH | DESTROY => RequestOutcome::Now(Ok(Vec::new())),
            STATFS => RequestOutcome::Now(Ok(self.space())),
            READ => self
                .read(body)
                .unwrap_or(RequestOutcome::Now(Err(Errno::INVAL))),
            WRITE => self
                .write(body)
                .unwrap_or(RequestOutcome::Now(Err(Errno::INVAL))),
            FSYNC => RequestOutcome::Access(MirrorAccess {
                access: Access::Flush,
                offset: 0,
                length: 0,
                payload: 0..0,
                holes: false,
                answer: Answer::Nothing,
            }),
            FALLOCATE => (self.zeros(body)).unwrap_or(RequestOutcome::Now(Err(Errno::OPNOTSUPP))),
            // After this, the kernel stops sending this opcode.
            _ => RequestOutcome::Now(Err(Errno::NOSYS)),
        };
        Some(parsed)
    }

    fn attributes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ATTRIBUTES_BYTES);
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
        bytes.resize(SPACE_BYTES, 0);
        bytes
    }

    fn read(&self, body: &[u8]) -> Option<RequestOutcome> {
        let (offset, size) = (u64_at(body, 8)?, u32_at(body, 16)?);
        let length = (self.export.length.saturating_sub(offset)).min(u64::from(size.min(MAX_DATA)));
        if length == 0 {
            return Some(RequestOutcome::Now(Ok(Vec::new())));
        }
        // Reads are rounded to whole units.
        let unit = u64::from(self.export.unit);
        let (start, end) = (
            offset / unit * unit,
            (offset + length).next_multiple_of(unit),
        );
        Some(RequestOutcome::Access(MirrorAccess {
            access: Access::Read,
            offset: start,
            length: (end - start) as u32,
            payload: 0..0,
            holes: false,
            answer: Answer::Read {
                skip: (offset - start) as u32,
                length: length as u32,
            },
        }))
    }

    fn write(&self, body: &[u8]) -> Option<RequestOutcome> {
        let (offset, size) = (u64_at(body, 8)?, u32_at(body, 16)?);
        let data = body.get(HEADER..)?;
        if data.len() != size as usize {
            return None;
        }
        if size == 0 {
            return Some(RequestOutcome::Now(Ok(vec![0; 8])));
        }
        // The kernel splits long writes by the pages of their memory. It sends the rest again.
        let whole = size - size % self.export.unit;
        match self.inside(offset, whole.into())? {
            _ if whole == 0 => None,
            true => Some(RequestOutcome::Access(MirrorAccess {
                access: Access::Write { fua: false },
                offset,
                length: whole,
                payload: WRITE_HEADER..WRITE_HEADER + whole as usize,
                holes: false,
                answer: Answer::Written(whole),
            })),
            false => Some(RequestOutcome::Now(Err(Errno::NOSPC))),
        }
    }

    /// Whether a range is within the file. `None`: it is not aligned.
    fn inside(&self, offset: u64, length: u64) -> Option<bool> {
        let unit = u64::from(self.export.unit);
        let aligned = offset.is_multiple_of(unit) && length.is_multiple_of(unit);
        let end = offset.checked_add(length);
        aligned.then(|| end.is_some_and(|end| end <= self.export.length))
    }

    /// Writes zeros, which may become holes if requested.
    fn zeros(&self, body: &[u8]) -> Option<RequestOutcome> {
        let (offset, length) = (u64_at(body, 8)?, u64_at(body, 16)?);
        let holes = match u32_at(body, 24)? & !KEEP_SIZE {
            PUNCH_HOLE if self.export.trims => true,
            ZERO_RANGE => false,
            _ => return None,
        };
        let length = u32::try_from(length).ok().filter(|length| *length > 0)?;
        match self.inside(offset, length.into()) {
            Some(true) => Some(RequestOutcome::Access(MirrorAccess {
                access: Access::Write { fua: false },
                offset,
                length,
                payload: 0..0,
                holes,
                answer: Answer::Nothing,
            })),
            Some(false) => Some(RequestOutcome::Now(Err(Errno::NOSPC))),
            None => Some(RequestOutcome::Now(Err(Errno::INVAL))),
        }
    }
}

fn init(body: &[u8]) -> Result<Vec<u8>, Errno> {
    let major = u32_at(body, 0).ok_or(Errno::INVAL)?;
    let minor = u32_at(body, 4).ok_or(Errno::INVAL)?;
    let offered = u32_at(body, 12).ok_or(Errno::INVAL)?;
    // For a newer major version, the kernel repeats `INIT` with ours. Older versions do not support long requests.
    if major < MAJOR || (major == MAJOR && minor < MINOR) {
        return Err(Errno::PROTO);
    }
    let mut bytes = Vec::with_capacity(INIT_BYTES);
    for word in [MAJOR, MINOR, 0, INIT_FLAGS & offered] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(MAX_REQUESTS.to_ne_bytes());
    bytes.extend((MAX_REQUESTS / 4 * 3).to_ne_bytes());
    for word in [MAX_DATA, 1] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(((MAX_DATA / PAGE) as u16).to_ne_bytes());
    bytes.resize(INIT_BYTES, 0);
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

    fn parsed(kind: u32, words: &[u64], data: &[u8]) -> RequestOutcome {
        FILE.request(&message(kind, words, data)).unwrap()
    }

    #[test]
    fn reads_are_rounded_to_units_and_end_at_the_end() {
        let read = |offset, size| match parsed(READ, &[0, offset, size, 0, 0], &[]) {
            RequestOutcome::Access(MirrorAccess {
                access: Access::Read,
                offset,
                length,
                answer:
                    Answer::Read {
                        skip,
                        length: useful,
                    },
                ..
            }) => (offset, length, skip, useful),
            RequestOutcome::Now(Ok(bytes)) if bytes.is_empty() => (0, 0, 0, 0),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(4096, 4096), (4096, 4096, 0, 4096));
        assert_eq!(read(513, 10), (512, 512, 1, 10));
        assert_eq!(read(1000, 1000), (512, 1536, 488, 1000));
        assert_eq!(read((1 << 20) - 5, 4096), ((1 << 20) - 512, 512, 507, 5));
        assert_eq!(read(1 << 20, 4096), (0, 0, 0, 0));
        assert_eq!(read(u64::MAX, 4096), (0, 0, 0, 0));
        assert_eq!(read(0, 4 << 20), (0, MAX_DATA, 0, MAX_DATA));
    }

    #[test]
    fn writes_and_zeros_outside_of_the_file_or_its_units_are_refused() {
        let result = |wanted| match wanted {
            RequestOutcome::Now(Err(errno)) => Err(errno),
            RequestOutcome::Access(MirrorAccess { length, holes, .. }) => Ok((length, holes)),
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
            let wanted = parsed(WRITE, &[0, offset, size, 0, 0], &data);
            assert_eq!(result(wanted), expected, "{offset} {size}");
        }
        // Fewer bytes than it says.
        let short = parsed(WRITE, &[0, 0, 512, 0, 0], &[1; 511]);
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
            let wanted = parsed(FALLOCATE, &[0, offset, length, mode], &[]);
            assert_eq!(result(wanted), expected, "{offset} {length} {mode}");
        }
    }

    #[test]
    fn the_file_has_its_length_and_cannot_be_changed() {
        let RequestOutcome::Now(Ok(attributes)) = parsed(GETATTR, &[0, 0], &[]) else {
            panic!("no attributes");
        };
        assert_eq!(attributes.len(), 104);
        assert_eq!(u64_at(&attributes, 24), Some(1 << 20));
        assert_eq!(u32_at(&attributes, 76), Some(0o100_600));
        let truncated = parsed(SETATTR, &[1 << 3, 0, 5], &[]);
        assert_eq!(truncated, RequestOutcome::Now(Err(Errno::PERM)));
        let same = parsed(SETATTR, &[1 << 3, 0, 1 << 20], &[]);
        assert_eq!(same, RequestOutcome::Now(Ok(attributes)));
        assert_eq!(
            parsed(1, &[], b"x\0"),
            RequestOutcome::Now(Err(Errno::NOSYS))
        );
        assert_eq!(parsed(FORGET, &[1], &[]), RequestOutcome::Silence);
    }

    #[test]
    fn the_protocol_is_agreed_on_or_refused() {
        let init = |major: u64, minor: u64| {
            parsed(INIT, &[minor << 32 | major, u64::from(u32::MAX) << 32], &[])
        };
        let RequestOutcome::Now(Ok(agreed)) = init(7, 45) else {
            panic!("refused");
        };
        assert_eq!(agreed.len(), 64);
        assert_eq!(u32_at(&agreed, 12), Some(INIT_FLAGS));
        assert_eq!(u32_at(&agreed, 20), Some(MAX_DATA));
        assert_eq!(init(7, 12), RequestOutcome::Now(Err(Errno::PROTO)));
    }

    proptest! {
        #[test]
        fn any_message_is_refused_or_inside_of_the_file(
            kind in 0u32..50,
            words in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..1 << 21], 0..6),
            data in proptest::collection::vec(any::<u8>(), 0..1100),
        ) {
            let bytes = message(kind, &words, &data);
            if let Some(RequestOutcome::Access(MirrorAccess { access, offset, length, payload, answer, .. })) = FILE.request(&bytes) {
                prop_assert!(offset + u64::from(length) <= FILE.export.length);
                prop_assert!(access == Access::Flush || length > 0);
                prop_assert!(payload.is_empty() || payload.len() == length as usize && payload.end <= bytes.len());
                if let Answer::Read { skip, length: useful } = answer {
                    prop_assert!(skip + useful <= length);
                }
            }
        }
    }
}
