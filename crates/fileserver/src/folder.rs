//! A shared folder: carries out requests of FUSE on the files below it.
//!
//! The passthrough file system is that of the crate `fuse-backend-rs`. It names files by descriptors and single names, so that neither
//! symbolic links nor `..` lead out of the folder. `READ` and `WRITE` are carried out here, by its trait, because they are frequent and need
//! no copy of their data. All other requests are copied before they are checked and carried out, so that a client cannot change
//! them in between.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fuse_backend_rs::abi::fuse_abi::FsOptions;
use fuse_backend_rs::api::filesystem::{Context, FileSystem, ZeroCopyReader, ZeroCopyWriter};
use fuse_backend_rs::api::server::Server;
use fuse_backend_rs::file_traits::FileReadWriteVolatile;
use fuse_backend_rs::passthrough::{CachePolicy, Config, PassthroughFs};
use fuse_backend_rs::transport::{FuseBuf, Reader, Writer};
use rustix::io::Errno;

use crate::request::{HEADER, Head, MOST_DATA, REPLY_HEADER, WRITE_HEADER, opcode, reply_header};

/// The version of FUSE's protocol that is spoken.
const MAJOR: u32 = 7;
const MINOR: u32 = 38;
/// Clients with older versions are refused: their structures are shorter.
const OLDEST_MINOR: u32 = 27;
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
    /// The whole request.
    fn request(&mut self) -> Option<Reader<'_>>;
    /// The reply, at its beginning.
    fn reply(&mut self) -> Option<Writer<'_>>;
}

/// A shared folder, as one client sees it: its nodes and open files.
pub(crate) struct Folder {
    files: Arc<PassthroughFs>,
    server: Server<Arc<PassthroughFs>>,
    read_only: bool,
}

impl Folder {
    /// Opens a folder for a new client.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(settings: &Settings) -> io::Result<Folder> {
        let root = settings
            .folder
            .to_str()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8"))?;
        let (cache_policy, timeout) = match settings.cache {
            Cache::Never => (CachePolicy::Never, Duration::ZERO),
            Cache::Metadata => (CachePolicy::Metadata, ALWAYS),
            Cache::Auto => (CachePolicy::Auto, AUTO),
            Cache::Always => (CachePolicy::Always, ALWAYS),
        };
        let config = Config {
            root_dir: root.to_owned(),
            cache_policy,
            attr_timeout: timeout,
            entry_timeout: timeout,
            writeback: settings.writeback && !settings.read_only,
            xattr: settings.xattr,
            allow_direct_io: settings.direct_io,
            ..Config::default()
        };
        let files = Arc::new(PassthroughFs::new(config)?);
        Ok(Folder {
            server: Server::new(Arc::clone(&files)),
            files,
            read_only: settings.read_only,
        })
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
            opcode::INIT => self.init(head, exchange),
            opcode::DESTROY => {
                self.files.destroy();
                reply(head, &[], exchange)
            }
            _ => self.other(head, exchange),
        }
    }

    fn read(&self, head: &Head, exchange: &mut impl Exchange) -> Result<u32, Errno> {
        const OWNED: u32 = 1 << 1;
        let mut writer = exchange.reply().ok_or(Errno::INVAL)?;
        let data = writer.split_at(REPLY_HEADER).map_err(|_| Errno::INVAL)?;
        let mut data = Outgoing(data);
        let owned = head.u32_at(HEADER + 20) & OWNED != 0;
        let length = (self.files)
            .read(
                &context(head),
                head.u64_at(16),
                head.u64_at(HEADER),
                &mut data,
                head.data(),
                head.u64_at(HEADER + 8),
                owned.then(|| head.u64_at(HEADER + 24)),
                head.u32_at(HEADER + 32),
            )
            .map_err(|error| errno(&error))?;
        (writer.write_all(&reply_header(head.unique(), 0, length)))
            .and_then(|()| writer.commit(Some(&data.0)))
            .map_err(|error| errno(&error))?;
        Ok((REPLY_HEADER + length) as u32)
    }

    fn write(&self, head: &Head, exchange: &mut impl Exchange) -> Result<u32, Errno> {
        const DELAYED: u32 = 1;
        const OWNED: u32 = 1 << 1;
        let written = {
            let mut message = exchange.request().ok_or(Errno::INVAL)?;
            let data = message.split_at(WRITE_HEADER).map_err(|_| Errno::INVAL)?;
            let flags = head.u32_at(HEADER + 20);
            (self.files)
                .write(
                    &context(head),
                    head.u64_at(16),
                    head.u64_at(HEADER),
                    &mut Incoming(data),
                    head.data(),
                    head.u64_at(HEADER + 8),
                    (flags & OWNED != 0).then(|| head.u64_at(HEADER + 24)),
                    flags & DELAYED != 0,
                    head.u32_at(HEADER + 32),
                    flags,
                )
                .map_err(|error| errno(&error))?
        };
        reply(head, &(written as u64).to_le_bytes(), exchange)
    }

    /// Agrees on the protocol. The crate's own answer limits writes to a page if it is used without its virtual file system.
    fn init(&self, head: &Head, exchange: &mut impl Exchange) -> Result<u32, Errno> {
        const EXTENDED: u64 = 1 << 30;
        let (major, minor) = (head.u32_at(HEADER), head.u32_at(HEADER + 4));
        if major < MAJOR || (major == MAJOR && minor < OLDEST_MINOR) {
            return Err(Errno::PROTO);
        }
        let mut bytes = [0; 64];
        bytes[..4].copy_from_slice(&MAJOR.to_ne_bytes());
        bytes[4..8].copy_from_slice(&MINOR.to_ne_bytes());
        if major > MAJOR {
            // The client asks again.
            return reply(head, &bytes, exchange);
        }
        let mut offered = u64::from(head.u32_at(HEADER + 12));
        if offered & EXTENDED != 0 && head.length() >= HEADER + 20 {
            offered |= u64::from(head.u32_at(HEADER + 16)) << 32;
        }
        let capable = FsOptions::from_bits_truncate(offered);
        let wanted = (self.files.init(capable)).map_err(|error| errno(&error))?
            | FsOptions::ASYNC_READ
            | FsOptions::ATOMIC_O_TRUNC
            | FsOptions::BIG_WRITES
            | FsOptions::AUTO_INVAL_DATA
            | FsOptions::ASYNC_DIO
            | FsOptions::PARALLEL_DIROPS
            | FsOptions::MAX_PAGES;
        // Memory of files is not mapped into the client.
        let agreed = (capable & wanted & !FsOptions::PERFILE_DAX).bits() & !EXTENDED;
        let extended = if agreed >> 32 != 0 { EXTENDED } else { 0 };
        let words = [
            (8, head.u32_at(HEADER + 8)),
            (12, (agreed | extended) as u32),
            (20, MOST_DATA),
            (24, 1),
            (32, (agreed >> 32) as u32),
        ];
        for (at, word) in words {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        // Requests in the background, and those from which on the client slows down.
        bytes[16..18].copy_from_slice(&1024u16.to_ne_bytes());
        bytes[18..20].copy_from_slice(&768u16.to_ne_bytes());
        bytes[28..30].copy_from_slice(&((MOST_DATA / 4096) as u16).to_ne_bytes());
        reply(head, &bytes, exchange)
    }

    fn other(&self, head: &Head, exchange: &mut impl Exchange) -> Result<u32, Errno> {
        let mut message = vec![0; head.length()];
        (exchange.request().ok_or(Errno::INVAL)?)
            .read_exact(&mut message)
            .map_err(|_| Errno::INVAL)?;
        // A client may have changed it since its header was checked.
        let copied = Head::of(&message, message.len(), head.writable).ok_or(Errno::INVAL)?;
        let same = copied.opcode() == head.opcode() && copied.unique() == head.unique();
        if let Some(errno) = copied.refused(self.read_only) {
            return Err(errno);
        }
        if !same || copied.names_refused(&message) {
            return Err(Errno::INVAL);
        }
        let message = Reader::from_fuse_buffer(FuseBuf::new(&mut message));
        let message = message.map_err(|_| Errno::INVAL)?;
        let writer = match exchange.reply() {
            Some(writer) => writer,
            None => return Err(Errno::INVAL),
        };
        let written = self.server.handle_message(message, writer, None, None);
        written
            .map(|length| length as u32)
            .map_err(|_| Errno::INVAL)
    }
}

fn context(head: &Head) -> Context {
    Context {
        uid: head.u32_at(24),
        gid: head.u32_at(28),
        pid: head.u32_at(32) as i32,
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Writes a reply that succeeded.
fn reply(head: &Head, data: &[u8], exchange: &mut impl Exchange) -> Result<u32, Errno> {
    let mut bytes = reply_header(head.unique(), 0, data.len()).to_vec();
    bytes.extend(data);
    let mut writer = exchange.reply().ok_or(Errno::INVAL)?;
    writer.write_all(&bytes).map_err(|error| errno(&error))?;
    Ok(bytes.len() as u32)
}

/// Writes a reply that failed, if there is room for one and the client waits for it.
fn refuse(head: &Head, errno: Errno, exchange: &mut impl Exchange) -> u32 {
    if !head.is_answered() {
        return 0;
    }
    let bytes = reply_header(head.unique(), errno.raw_os_error(), 0);
    let written = exchange.reply().map(|mut writer| writer.write_all(&bytes));
    match written {
        Some(Ok(())) => bytes.len() as u32,
        _ => 0,
    }
}

/// The data of a `READ`, in the buffers of its reply.
struct Outgoing<'a>(Writer<'a>);

impl ZeroCopyWriter for Outgoing<'_> {
    fn write_from(
        &mut self,
        file: &mut dyn FileReadWriteVolatile,
        count: usize,
        offset: u64,
    ) -> io::Result<usize> {
        self.0.write_from_at(file, count, offset)
    }

    fn available_bytes(&self) -> usize {
        self.0.available_bytes()
    }
}

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The data of a `WRITE`, in the buffers of its request.
struct Incoming<'a>(Reader<'a>);

impl ZeroCopyReader for Incoming<'_> {
    fn read_to(
        &mut self,
        file: &mut dyn FileReadWriteVolatile,
        count: usize,
        offset: u64,
    ) -> io::Result<usize> {
        self.0.read_to_at(file, count, offset)
    }
}

impl Read for Incoming<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}
