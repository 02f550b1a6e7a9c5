//! A folder that a server shares with its guest by virtio-fs, as the preparation of a trial uses it: one request at a
//! time.
//!
//! Paths are relative to the shared folder. Symbolic links are never followed, so that each path leads to a file within
//! the folder.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::fuse::{self, Caller, Entry, Reply};
use super::link::{Device, Link, broken};
use super::queue::{MAX_DESCRIPTORS, Queue, QueueUser};
use crate::BackendError;
use crate::memory::{SharedMemory, SharedPart};

/// The queue of high-priority requests. It must exist, but is unused here.
const FIRST_QUEUE: u32 = 0;
/// Descriptors of a request: header, arguments, data, reply; or header, arguments, reply, data.
pub(super) const CHAIN: u16 = 4;
/// The longest time of a request before the trial. A server that is still alive then hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes for the header and the arguments of a request; and for its reply without data.
const ARGUMENTS: usize = 8192;
const REPLY: usize = 4096;

const DEVICE: Device = Device {
    scheme: "virtiofs",
    features: 0,
    protocol: 0,
    without: "",
};

/// What is at a path in a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing; its folder exists.
    Missing,
    /// Nothing, and the parent folder does not exist either.
    NoFolder,
    /// A regular file of this length, bytes.
    File(u64),
    /// A folder.
    Folder,
    /// Something else, with a description.
    Other(&'static str),
}

/// How a file of a share is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShareFlags {
    /// For writing as well.
    pub write: bool,
    /// O_DIRECT. Servers ignore it unless configured to allow it.
    pub direct: bool,
    /// O_SYNC.
    pub sync: bool,
    /// O_DSYNC.
    pub dsync: bool,
}

impl ShareFlags {
    fn bits(self) -> u32 {
        let mut bits = match self.write {
            true => libc::O_RDWR,
            false => libc::O_RDONLY,
        };
        for (set, flag) in [
            (self.direct, libc::O_DIRECT),
            (self.sync, libc::O_SYNC),
            (self.dsync, libc::O_DSYNC),
        ] {
            bits |= if set { flag } else { 0 };
        }
        bits as u32
    }
}

/// A connection to a server of a folder, shared by the clones of a trial.
#[derive(Debug)]
pub struct Share {
    pub(super) link: Link,
    pub(super) caller: Caller,
    /// The longest read or write, bytes.
    longest: u32,
    /// The queues of requests, at least one.
    queues: Vec<Arc<Queue>>,
    _first: Queue,
    control: Mutex<Control>,
}

/// Requests one by one.
#[derive(Debug)]
struct Control {
    socket: UnixStream,
    /// The memory for a request: arguments, reply, data.
    memory: SharedPart,
    unique: u64,
    /// A request was not answered in time: the server may still use the memory.
    hangs: bool,
}

/// Data transferred besides arguments and a reply.
enum Data<'a> {
    None,
    Out(&'a [u8]),
    In(&'a mut [u8]),
}

impl Share {
    /// Connects to the server that listens on a socket. Each step may take `within`.
    ///
    /// # Errors
    /// The server cannot be reached, or does not speak the protocols as needed.
    pub fn new(socket: &Path, within: Duration) -> Result<Share, BackendError> {
        let (link, queues) = Link::open(socket, within, &DEVICE, |_, _, queues| Ok(queues))?;
        let failed = |source| BackendError {
            what: format!("use `{}`", link.name),
            source,
            hint: Some("look at the messages of the server"),
        };
        // Without indirect descriptors, a request uses that many ring entries.
        let slots = match link.features & super::link::F_INDIRECT {
            0 => u32::from(MAX_DESCRIPTORS / CHAIN),
            _ => u32::from(MAX_DESCRIPTORS),
        };
        let first = Queue::new(&link, FIRST_QUEUE, 16, CHAIN).map_err(failed)?;
        // More are of no use than there are clones on a large host.
        let count = queues.clamp(2, 257) as u32 - 1;
        let queues: io::Result<Vec<Arc<Queue>>> = (1..=count)
            .map(|number| Queue::new(&link, number, slots, CHAIN).map(Arc::new))
            .collect();
        let queues = queues.map_err(failed)?;
        let socket = link.socket().map_err(failed)?;
        let memory = SharedPart::new(&link.memory, ARGUMENTS + REPLY).map_err(failed)?;
        let mut share = Share {
            caller: Caller::this_process(),
            longest: 0,
            queues,
            _first: first,
            control: Mutex::new(Control {
                socket,
                memory,
                unique: 0,
                hangs: false,
            }),
            link,
        };
        let ready = || -> io::Result<(u32, SharedPart)> {
            let reply = share.call(fuse::INIT, 0, &fuse::init(), Data::None, fuse::INIT_BYTES)?;
            let longest = fuse::longest(&reply)?;
            let length = ARGUMENTS + REPLY + longest as usize;
            Ok((longest, SharedPart::new(&share.link.memory, length)?))
        };
        let (longest, memory) = ready().map_err(|source| BackendError {
            what: format!("connect to `{}`", share.link.name),
            source,
            hint: Some("look at the messages of the server"),
        })?;
        share.longest = longest;
        share.control().memory = memory;
        Ok(share)
    }

    /// The longest read or write, bytes.
    pub fn longest(&self) -> u64 {
        self.longest.into()
    }

    /// The queues for requests.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The memory that is shared with the server.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.link.memory
    }

    /// Reserves slots in the queue with the fewest used.
    pub(super) fn join(&self, slots: u32) -> io::Result<QueueUser> {
        let mut queues: Vec<&Arc<Queue>> = self.queues.iter().collect();
        queues.sort_by_key(|queue| queue.users());
        let mut why = io::Error::other("the server has no queue");
        for queue in queues {
            match queue.join(slots) {
                Ok(user) => return Ok(user),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and waits for its reply, which has at most `most` bytes besides the data. Returns these bytes.
    fn call(
        &self,
        opcode: u32,
        node: u64,
        arguments: &[u8],
        data: Data<'_>,
        most: usize,
    ) -> io::Result<Vec<u8>> {
        let mut control = self.control();
        let transferred = match &data {
            Data::None => 0,
            Data::Out(bytes) => bytes.len(),
            Data::In(bytes) => bytes.len(),
        };
        if arguments.len() + fuse::HEADER > ARGUMENTS
            || most + fuse::REPLY_HEADER > REPLY
            || transferred > self.longest as usize
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if control.hangs {
            return Err(unanswered());
        }
        let user = self.queues[0].join(1)?;
        control.unique += 2;
        let unique = control.unique;
        let (reply, block) = (ARGUMENTS, ARGUMENTS + REPLY);
        let memory = &control.memory;
        let more = arguments.len()
            + if let Data::Out(bytes) = &data {
                bytes.len()
            } else {
                0
            };
        let header = self.caller.header(opcode, more as u32, unique, node);
        let header: Vec<u8> = header.into_iter().flat_map(u64::to_ne_bytes).collect();
        memory.write(0, &header);
        memory.write(fuse::HEADER, arguments);
        memory.write(reply, &[0; fuse::REPLY_HEADER]);
        let part = |at, length: usize, writes| (memory.address(at), length as u32, writes);
        let mut parts = vec![part(0, fuse::HEADER, false)];
        if !arguments.is_empty() {
            parts.push(part(fuse::HEADER, arguments.len(), false));
        }
        if let Data::Out(bytes) = &data {
            memory.write(block, bytes);
            parts.push(part(block, bytes.len(), false));
        }
        parts.push(part(reply, fuse::REPLY_HEADER + most, true));
        if let Data::In(bytes) = &data {
            parts.push(part(block, bytes.len(), true));
        }
        control.hangs = true;
        // SAFETY: parts of the memory of the control, with the lengths checked above. It is not used again before the
        // reply.
        user.submit(|ring| unsafe { ring.push(0, &parts) });
        let deadline = Instant::now() + PATIENCE;
        let mut back = Vec::with_capacity(1);
        loop {
            let malformed = |_| broken("it returned a request that is not in flight");
            user.collect(&mut back).map_err(malformed)?;
            if !back.is_empty() {
                break;
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err(unanswered());
            }
            if user.await_used(1) {
                user.wait(&control.socket, Some(rest.as_nanos() as u64))?;
            }
        }
        control.hangs = false;
        let memory = &control.memory;
        let words = memory.read(reply, fuse::REPLY_HEADER);
        let word = |at| fuse::u64_at(&words, at).unwrap_or_default();
        let malformed = || broken(&format!("its reply to FUSE request {opcode} is malformed"));
        let into = if let Data::In(bytes) = &data {
            bytes.len()
        } else {
            0
        };
        let bytes = fuse::reply([word(0), word(8)], unique, (most + into) as u32);
        match bytes.ok_or_else(malformed)? {
            Reply::Errno(errno) => Err(io::Error::from_raw_os_error(errno)),
            Reply::Bytes(bytes) => match data {
                Data::In(into) => {
                    let read = memory.read(block, (bytes as usize).min(into.len()));
                    into[..read.len()].copy_from_slice(&read);
                    Ok(read)
                }
                _ => Ok(memory.read(reply + fuse::REPLY_HEADER, bytes as usize)),
            },
        }
    }

    /// The node of a path's parent folder, and the file name. `None`: the folder does not exist.
    fn folder<'a>(&self, path: &'a Path) -> io::Result<Option<(u64, &'a str)>> {
        let mut names = names(path)?;
        let Some(last) = names.pop() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut node = fuse::ROOT;
        for name in names {
            match self.entry(node, name)? {
                Some(entry) if entry.mode & libc::S_IFMT == libc::S_IFDIR => node = entry.node,
                Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
                None => return Ok(None),
            }
        }
        Ok(Some((node, last)))
    }

    fn entry(&self, folder: u64, name: &str) -> io::Result<Option<Entry>> {
        let name = [name.as_bytes(), &[0]].concat();
        let reply = self.call(fuse::LOOKUP, folder, &name, Data::None, fuse::ENTRY_BYTES);
        let reply = match reply {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            reply => reply?,
        };
        let entry =
            fuse::entry(&reply).ok_or_else(|| broken("its reply to LOOKUP is too short"))?;
        Ok(Some(entry).filter(|entry| entry.node != 0))
    }

    /// Looks up a path.
    ///
    /// # Errors
    /// The request failed, or the path is not within the share.
    pub fn look(&self, path: &Path) -> io::Result<Found> {
        if names(path)?.is_empty() {
            return Ok(Found::Folder);
        }
        let Some((folder, name)) = self.folder(path)? else {
            return Ok(Found::NoFolder);
        };
        let found = self.entry(folder, name)?;
        Ok(
            found.map_or(Found::Missing, |entry| match entry.mode & libc::S_IFMT {
                libc::S_IFREG => Found::File(entry.length),
                libc::S_IFDIR => Found::Folder,
                libc::S_IFLNK => Found::Other("is a symbolic link, which is not followed"),
                libc::S_IFBLK | libc::S_IFCHR => Found::Other("is a device node"),
                _ => Found::Other("is of an unsupported file type"),
            }),
        )
    }

    /// Opens a regular file that exists.
    ///
    /// # Errors
    /// It does not exist, is not a regular file, or the server refuses to open it.
    pub fn open(self: &Arc<Share>, path: &Path, flags: ShareFlags) -> io::Result<OpenFile> {
        let found = self.folder(path)?;
        let entry = match found {
            Some((folder, name)) => self.entry(folder, name)?,
            None => None,
        };
        let entry = entry.ok_or(io::ErrorKind::NotFound)?;
        if entry.mode & libc::S_IFMT != libc::S_IFREG {
            return Err(io::Error::other("it is not a regular file"));
        }
        let arguments = [flags.bits().to_ne_bytes(), [0; 4]].concat();
        let (node, most) = (entry.node, fuse::OPENED_BYTES);
        let reply = self.call(fuse::OPEN, node, &arguments, Data::None, most)?;
        self.opened((node, entry.inode), fuse::u64_at(&reply, 0), flags)
    }

    /// Creates a file that does not exist, and opens it for reading and writing.
    ///
    /// # Errors
    /// It exists, its folder does not, or the server refuses to create it.
    pub fn create(self: &Arc<Share>, path: &Path) -> io::Result<OpenFile> {
        let (folder, name) = self.folder(path)?.ok_or(io::ErrorKind::NotFound)?;
        let flags = ShareFlags {
            write: true,
            ..ShareFlags::default()
        };
        let bits = flags.bits() | (libc::O_CREAT | libc::O_EXCL) as u32;
        let words = [bits, libc::S_IFREG | 0o644, 0o022, 0].map(u32::to_ne_bytes);
        let arguments = [&words.concat(), name.as_bytes(), &[0]].concat();
        let most = fuse::ENTRY_BYTES + fuse::OPENED_BYTES;
        let reply = self.call(fuse::CREATE, folder, &arguments, Data::None, most)?;
        let entry = [0, 40].map(|at| fuse::u64_at(&reply, at).unwrap_or_default());
        self.opened(entry.into(), fuse::u64_at(&reply, fuse::ENTRY_BYTES), flags)
    }

    fn opened(
        self: &Arc<Share>,
        (node, inode): (u64, u64),
        handle: Option<u64>,
        flags: ShareFlags,
    ) -> io::Result<OpenFile> {
        Ok(OpenFile {
            share: Arc::clone(self),
            node,
            inode,
            handle: handle.ok_or_else(|| broken("it opens a file without a handle"))?,
            flags: flags.bits(),
        })
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of unlink(2).
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.folder(path)?.ok_or(io::ErrorKind::NotFound)?;
        let name = [name.as_bytes(), &[0]].concat();
        self.call(fuse::UNLINK, folder, &name, Data::None, 0)?;
        Ok(())
    }

    /// Bytes that are free for this user.
    ///
    /// # Errors
    /// The request failed.
    pub fn free(&self) -> io::Result<u64> {
        let reply = self.call(fuse::STATFS, fuse::ROOT, &[], Data::None, fuse::SPACE_BYTES)?;
        let available = fuse::u64_at(&reply, 16).unwrap_or_default();
        let unit = fuse::u32_at(&reply, 48).unwrap_or_default();
        Ok(available.saturating_mul(unit.into()))
    }
}

/// A file of a share that is open.
#[derive(Debug)]
pub struct OpenFile {
    pub(super) share: Arc<Share>,
    pub(super) node: u64,
    inode: u64,
    pub(super) handle: u64,
    /// As it was opened.
    pub(super) flags: u32,
}

impl OpenFile {
    /// Its share.
    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// The number of its inode, as the server names it.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    fn call(&self, opcode: u32, arguments: &[&[u8]], most: usize) -> io::Result<Vec<u8>> {
        let arguments = arguments.concat();
        self.share
            .call(opcode, self.node, &arguments, Data::None, most)
    }

    /// The arguments of a read or a write.
    pub(super) fn transfer(&self, offset: u64, length: u32) -> [u64; 5] {
        let [length, flags] = [length, self.flags].map(|word| fuse::words(word, 0));
        [self.handle, offset, length, 0, flags]
    }

    /// The arguments of an allocation, or of the opposite.
    pub(super) fn allocation(&self, offset: u64, length: u64, mode: u32) -> [u64; 4] {
        [self.handle, offset, length, fuse::words(mode, 0)]
    }

    /// Its length, bytes.
    ///
    /// # Errors
    /// The request failed.
    pub fn length(&self) -> io::Result<u64> {
        let reply = self.call(fuse::GETATTR, &[&[0; 16]], fuse::ATTRIBUTES_BYTES)?;
        fuse::u64_at(&reply, 24).ok_or_else(|| broken("its reply to GETATTR is too short"))
    }

    /// Reads up to the length of `into`, which is at most [`Share::longest`]. Returns the bytes read; 0 at the end.
    ///
    /// # Errors
    /// Those of pread(2).
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let arguments = self.transfer(offset, into.len() as u32);
        let arguments = arguments.map(u64::to_ne_bytes).concat();
        let data = Data::In(into);
        let read = self.share.call(fuse::READ, self.node, &arguments, data, 0);
        Ok(read?.len())
    }

    /// Writes at most [`Share::longest`] bytes. Returns how many were written.
    ///
    /// # Errors
    /// Those of pwrite(2).
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let arguments = self.transfer(offset, bytes.len() as u32);
        let arguments = arguments.map(u64::to_ne_bytes).concat();
        let data = Data::Out(bytes);
        let reply = self
            .share
            .call(fuse::WRITE, self.node, &arguments, data, 8)?;
        let written = fuse::u32_at(&reply, 0).unwrap_or_default() as usize;
        match written <= bytes.len() {
            true => Ok(written),
            false => Err(broken("it wrote more than it was given")),
        }
    }

    /// Reserves space; `keep_size`: without a new length.
    ///
    /// # Errors
    /// Those of fallocate(2).
    pub fn allocate(&self, offset: u64, length: u64, keep_size: bool) -> io::Result<()> {
        let mode = match keep_size {
            true => libc::FALLOC_FL_KEEP_SIZE as u32,
            false => 0,
        };
        let arguments = self.allocation(offset, length, mode);
        let arguments = arguments.map(u64::to_ne_bytes).concat();
        self.call(fuse::FALLOCATE, &[&arguments], 0)?;
        Ok(())
    }

    /// Truncates it, or extends it with zeros.
    ///
    /// # Errors
    /// Those of ftruncate(2).
    pub fn set_length(&self, length: u64) -> io::Result<()> {
        const LENGTH: u32 = 1 << 3;
        const HANDLE: u32 = 1 << 6;
        let which = [(LENGTH | HANDLE).to_ne_bytes(), [0; 4]].concat();
        let numbers = [self.handle, length].map(u64::to_ne_bytes).concat();
        let most = fuse::ATTRIBUTES_BYTES;
        self.call(fuse::SETATTR, &[&which, &numbers, &[0; 64]], most)?;
        Ok(())
    }

    /// Makes its data durable.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub fn sync(&self) -> io::Result<()> {
        let handle = self.handle.to_ne_bytes();
        self.call(fuse::FSYNC, &[&handle, &[0; 8]], 0)?;
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let handle = self.handle.to_ne_bytes();
        // The end of the connection closes it as well.
        let _ = self.call(fuse::FLUSH, &[&handle, &[0; 16]], 0);
        let flags = [self.flags.to_ne_bytes(), [0; 4]].concat();
        let _ = self.call(fuse::RELEASE, &[&handle, &flags, &[0; 8]], 0);
    }
}

fn unanswered() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the server does not answer")
}

/// The names of a path from the shared folder.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) if name.len() <= 255 => names
                .push((name.to_str()).ok_or_else(|| io::Error::other("its name is not UTF-8"))?),
            Component::Normal(_) => return Err(io::ErrorKind::InvalidFilename.into()),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::Error::other("it leads out of the shared folder"));
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_share_are_refused() {
        for (path, expected) in [
            ("/", Some(vec![])),
            ("a", Some(vec!["a"])),
            ("/a/./b", Some(vec!["a", "b"])),
            ("../a", None),
            ("a/../b", None),
        ] {
            assert_eq!(names(Path::new(path)).ok(), expected, "{path}");
        }
        assert!(names(Path::new(&"n".repeat(256))).is_err());
    }
}
