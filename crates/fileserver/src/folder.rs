//! A shared folder: carries out requests of FUSE on the files below it.
//!
//! The passthrough file system is that of the crate `virtiofsd`. It names files by descriptors and single names, so that neither
//! symbolic links nor `..` lead out of the folder. `READ` and `WRITE` are carried out here, on the descriptors of its open files
//! ([`crate::files`]), because they are frequent and need no copy of their data. All other requests are copied before they are checked and
//! carried out ([`crate::scratch`]), so that a client cannot change them in between.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::thread::set_thread_groups;
use virtiofsd::file_traits::FileReadWriteAtVolatile;
use virtiofsd::oslib::WritevFlags;
use virtiofsd::passthrough::{CachePolicy, Config, InodeFileHandlesMode, PassthroughFs};
use virtiofsd::server::Server;
use vm_memory::VolatileSlice;

use crate::buffers::{Buffers, between, copied_in, copied_out};
use crate::files::{Files, Shared};
use crate::request::{HEADER, Head, REPLY_HEADER, WRITE_HEADER, opcode, reply_header};
use crate::scratch;

/// Descriptors that are kept for the server itself: sockets, events, the threads of its pool.
const OWN_DESCRIPTORS: u64 = 256;
/// Buffers that one call of preadv(2) takes.
const MOST_PARTS: usize = 1024;
/// How long clients may keep names and attributes with [`Cache::Auto`]: 1 s, as with other servers; with [`Cache::Always`] a day.
const AUTO: Duration = Duration::from_secs(1);
const ALWAYS: Duration = Duration::from_secs(86_400);

/// What a client may cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Nothing: all I/O reaches the server.
    Never,
    /// Names and attributes, for a day, but no data.
    Metadata,
    /// Data while a file is open; names and attributes for a second.
    Auto,
    /// All, for a day: only if nobody else changes the folder.
    Always,
}

/// How the server keeps files and folders that a client knows and has not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handles {
    /// Each by a descriptor.
    Never,
    /// By a file handle where the file system has them, otherwise by a descriptor.
    Prefer,
    /// By a file handle; those of other file systems cannot be used.
    Mandatory,
}

/// What is shared, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder.
    pub folder: PathBuf,
    /// What a client may cache.
    pub cache: Cache,
    /// Refuse all that changes the folder.
    pub read_only: bool,
    /// Pass extended attributes on.
    pub xattr: bool,
    /// The client may collect writes before it sends them.
    pub writeback: bool,
    /// Honour `O_DIRECT` of the client; otherwise it is removed.
    pub direct_io: bool,
    /// Tell the client which folders are the roots of other file systems, so that it gives their files device numbers of their own.
    pub submounts: bool,
    /// How files that the client knows are kept.
    pub handles: Handles,
    /// Each read and write takes longer by this.
    pub delay: Duration,
}

/// The reply of a request, as its buffers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Bytes of the reply.
    pub(crate) written: u32,
    /// It was refused, or its data could not be read or written.
    pub(crate) failed: bool,
}

/// A request and its reply in the buffers of a transport.
pub(crate) trait Exchange {
    /// Where the whole request is, at least as long as its [`Head`] says. `None`: not in the memory of the client.
    fn request(&mut self) -> Option<Buffers<'_>>;
    /// Where its reply belongs.
    fn reply(&mut self) -> Option<Buffers<'_>>;
}

/// A shared folder, as one client sees it: its nodes and open files.
pub(crate) struct Folder {
    files: Arc<Files>,
    server: Server<Shared>,
    read_only: bool,
}

impl Folder {
    /// Opens a folder for a new client. `submounts`: it can be told of the roots of other file systems.
    ///
    /// # Errors
    /// It cannot be opened, or does not support what is wanted.
    pub(crate) fn open(settings: &Settings, submounts: bool) -> io::Result<Folder> {
        // Other than the crate, which takes a symbolic link for a file.
        let root = settings.folder.canonicalize()?;
        let root = (root.to_str())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8"))?;
        let (cache_policy, timeout) = match settings.cache {
            Cache::Never => (CachePolicy::Never, Duration::ZERO),
            Cache::Metadata => (CachePolicy::Metadata, ALWAYS),
            Cache::Auto => (CachePolicy::Auto, AUTO),
            Cache::Always => (CachePolicy::Always, ALWAYS),
        };
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 30);
        let descriptors = limit.saturating_sub(OWN_DESCRIPTORS).max(64);
        // Each open file that is read or written has two.
        let copies = descriptors / 4;
        let config = Config {
            root_dir: root.to_owned(),
            cache_policy,
            attr_timeout: timeout,
            entry_timeout: timeout,
            writeback: settings.writeback && !settings.read_only,
            xattr: settings.xattr,
            allow_direct_io: settings.direct_io,
            readdirplus: settings.cache != Cache::Never,
            announce_submounts: submounts && settings.submounts,
            inode_file_handles: match settings.handles {
                Handles::Never => InodeFileHandlesMode::Never,
                Handles::Prefer => InodeFileHandlesMode::Prefer,
                Handles::Mandatory => InodeFileHandlesMode::Mandatory,
            },
            guest_fd_limit: descriptors - copies,
            ..Config::default()
        };
        let files = Arc::new(Files::new(PassthroughFs::new(config)?, copies as usize));
        Ok(Folder {
            server: Server::new(Shared(Arc::clone(&files))),
            files,
            read_only: settings.read_only,
        })
    }

    /// As of [`Files::descriptor`].
    pub(crate) fn descriptor(&self, head: &Head, node: u64, handle: u64) -> io::Result<File> {
        self.files.descriptor(head, node, handle)
    }

    /// Carries out a request and writes its reply.
    pub(crate) fn answer(&self, head: &Head, exchange: &mut impl Exchange) -> Answered {
        let done = match head.refused(self.read_only) {
            Some(errno) => Err(errno),
            // A defect of the file system ends one request only.
            None => catch_unwind(AssertUnwindSafe(|| self.carry_out(head, exchange)))
                .unwrap_or(Err(Errno::IO)),
        };
        match done {
            Ok(written) => Answered {
                written,
                failed: false,
            },
            Err(errno) => Answered {
                written: refuse(head, errno, exchange),
                failed: true,
            },
        }
    }

    fn carry_out(&self, head: &Head, exchange: &mut impl Exchange) -> Result<u32, Errno> {
        match head.opcode() {
            opcode::READ => self.read(head, exchange),
            opcode::WRITE => self.write(head, exchange),
            opcode::DESTROY => {
                // The crate does not answer it.
                self.server.destroy();
                reply(head, &[], exchange)
            }
            _ => self.other(head, exchange),
        }
    }

    fn read(&self, head: &Head, exchange: &mut impl Exchange) -> Result<u32, Errno> {
        let buffers = exchange.reply().ok_or(Errno::INVAL)?;
        let end = REPLY_HEADER + head.data() as usize;
        let data = between(&buffers, REPLY_HEADER, end);
        let length = self.with_file(head, |file| {
            in_steps(data.clone(), head, |parts, offset| {
                file.read_vectored_at_volatile(parts, offset, None)
            })
        })?;
        copied_in(&buffers, &reply_header(head.unique(), 0, length));
        Ok((REPLY_HEADER + length) as u32)
    }

    fn write(&self, head: &Head, exchange: &mut impl Exchange) -> Result<u32, Errno> {
        /// From the client's cache, which has the offset right.
        const CACHED: u32 = 1;
        const KILL_SUIDGID: u32 = 1 << 2;
        let how = head.u32_at(HEADER + 20);
        let append = rustix::fs::OFlags::APPEND.bits() & head.u32_at(HEADER + 32) != 0;
        let flags = (append && how & CACHED == 0).then_some(WritevFlags::RWF_APPEND);
        let written = {
            let buffers = exchange.request().ok_or(Errno::INVAL)?;
            let end = WRITE_HEADER + head.data() as usize;
            let data = between(&buffers, WRITE_HEADER, end);
            let write = |file: &File| {
                in_steps(data.clone(), head, |parts, offset| {
                    file.write_vectored_at_volatile(parts, offset, flags)
                })
            };
            match how & KILL_SUIDGID {
                0 => self.with_file(head, write)?,
                _ => (self.files.lend_to_write(head, write)).map_err(|error| errno(&error))?,
            }
        };
        reply(head, &(written as u64).to_le_bytes(), exchange)
    }

    /// Calls `with` with the file that a read or write is for.
    fn with_file(
        &self,
        head: &Head,
        with: impl Fn(&File) -> io::Result<usize>,
    ) -> Result<usize, Errno> {
        let done = match self.files.file(head) {
            Ok(open) => with(&open.file),
            Err(error) => match Errno::from_io_error(&error) {
                // There are too many to have two of each.
                Some(Errno::MFILE | Errno::NFILE) => self.files.lend(head, with),
                _ => Err(error),
            },
        };
        done.map_err(|error| errno(&error))
    }

    fn other(&self, head: &Head, exchange: &mut impl Exchange) -> Result<u32, Errno> {
        let mut message = vec![0; head.length()];
        let buffers = exchange.request().ok_or(Errno::INVAL)?;
        if copied_out(&between(&buffers, 0, message.len()), &mut message) < message.len() {
            return Err(Errno::INVAL);
        }
        // A client may have changed it since its header was checked.
        let copied = Head::of(&message, message.len(), head.writable).ok_or(Errno::INVAL)?;
        let same = copied.opcode() == head.opcode() && copied.unique() == head.unique();
        if let Some(errno) = copied.refused(self.read_only) {
            return Err(errno);
        }
        if !same || copied.names_refused(&message) {
            return Err(Errno::INVAL);
        }
        let done = scratch::carry_out(&self.server, &message, head.writable, || exchange.reply());
        if copied.creates() {
            // The crate lets the thread keep the groups of a request whose user and group are those of the server.
            let _ = set_thread_groups(&[]);
        }
        done
    }
}

/// Reads or writes data from an offset on, until all is done or a step does nothing.
fn in_steps(
    mut data: Buffers<'_>,
    head: &Head,
    step: impl Fn(&[&VolatileSlice<'_>], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let start = head.u64_at(HEADER + 8);
    let end = start.checked_add(head.data().into());
    // The crate panics at what is not a file offset.
    if end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(Errno::INVAL.into());
    }
    let mut done = 0;
    while !data.is_empty() {
        let parts: Vec<&VolatileSlice<'_>> = data.iter().take(MOST_PARTS).collect();
        match step(&parts, start + done as u64) {
            Ok(0) => break,
            Ok(count) => {
                done += count;
                data = between(&data, count, usize::MAX);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Writes a reply that succeeded.
fn reply(head: &Head, data: &[u8], exchange: &mut impl Exchange) -> Result<u32, Errno> {
    let mut bytes = reply_header(head.unique(), 0, data.len()).to_vec();
    bytes.extend(data);
    let buffers = exchange.reply().ok_or(Errno::INVAL)?;
    match copied_in(&buffers, &bytes) == bytes.len() {
        true => Ok(bytes.len() as u32),
        false => Err(Errno::INVAL),
    }
}

/// Writes a reply that failed, if there is room for one and the client waits for it.
fn refuse(head: &Head, errno: Errno, exchange: &mut impl Exchange) -> u32 {
    if !head.is_answered() {
        return 0;
    }
    let bytes = reply_header(head.unique(), errno.raw_os_error(), 0);
    let written = exchange.reply().map(|buffers| copied_in(&buffers, &bytes));
    match written == Some(bytes.len()) {
        true => bytes.len() as u32,
        false => 0,
    }
}
