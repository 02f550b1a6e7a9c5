//! A shared folder: executes FUSE requests on the files below it.
//!
//! The passthrough file system is that of the crate `virtiofsd`. It names files by descriptors and single names, so
//! neither symbolic links nor `..` lead out of the folder. `READ` and `WRITE` are executed here, on the descriptors of
//! open files ([`crate::files`]): they are frequent and need no copy of their data. All other requests are copied
//! before they are checked and executed ([`crate::scratch`]), so that a client cannot change them in between.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iodyno_sys::TransferMemory;
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, ResolveFlags, fstat, memfd_create, openat2};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::thread::set_thread_groups;
use virtiofsd::file_traits::FileReadWriteAtVolatile;
use virtiofsd::filesystem::SerializableFileSystem;
use virtiofsd::oslib::{ReadvFlags, WritevFlags};
use virtiofsd::passthrough::{
    CachePolicy, Config, InodeFileHandlesMode, MigrationMode, MigrationOnError, NegotiationMode,
    PassthroughFs,
};
use virtiofsd::server::Server;
use virtiofsd::soft_idmap::cmdline::IdMap;
use vm_memory::VolatileSlice;

use crate::buffers::{Buffers, between, copied_in, copied_out};
use crate::files::{Files, OpenFile, Shared};
use crate::request::{HEADER, Head, REPLY_HEADER, WRITE_HEADER, opcode, reply_header};
use crate::sandbox::SandboxChild;
use crate::scratch;
use crate::state::{self, Accepted, Checked};

/// Descriptors reserved for the server itself: sockets, events, pool threads.
const OWN_DESCRIPTORS: u64 = 256;
/// The most buffers of one preadv(2) call.
pub(crate) const MAX_PARTS: usize = 1024;
/// How long clients may keep names and attributes: 1 s with [`Cache::Auto`], as with other servers; one day with
/// [`Cache::Always`].
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
    /// Everything, for a day: only if no one else changes the folder.
    Always,
}

/// How the server refers to files and folders that a client knows but does not have open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handles {
    /// By descriptor.
    Never,
    /// By file handle where the file system supports them, otherwise by descriptor.
    Prefer,
    /// By file handle; file systems without them cannot be used.
    Mandatory,
}

/// How the state of a client moves between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// How nodes are named in the state. States with file handles are read only with [`MigrationMode::FileHandles`].
    pub mode: MigrationMode,
    /// What to do if a file of a state is missing.
    pub on_error: MigrationOnError,
    /// Write a file handle for each node, so that another file of this name is not mistaken for it.
    pub verify_handles: bool,
    /// Look up the names of all nodes again when the state is written.
    pub confirm_paths: bool,
}

impl Default for Migration {
    fn default() -> Migration {
        Migration {
            mode: MigrationMode::FindPaths,
            on_error: MigrationOnError::Abort,
            verify_handles: false,
            confirm_paths: false,
        }
    }
}

/// The settings of a share.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder.
    pub folder: PathBuf,
    /// What a client may cache.
    pub cache: Cache,
    /// Refuse all changes to the folder.
    pub read_only: bool,
    /// Pass extended attributes on.
    pub xattr: bool,
    /// The client may collect writes before it sends them.
    pub writeback: bool,
    /// Honour `O_DIRECT` of the client; otherwise it is removed.
    pub direct_io: bool,
    /// Report to the client which folders are mount points, so that it assigns separate device numbers to their files.
    pub submounts: bool,
    /// How the server refers to files that a client knows.
    pub handles: Handles,
    /// Whether clients check access by POSIX ACLs.
    pub posix_acl: NegotiationMode,
    /// How ids of users and of groups are translated between clients and this host.
    pub uids: Vec<IdMap>,
    /// The same for groups.
    pub gids: Vec<IdMap>,
    /// How the state of a client is written for another server, and read.
    pub migration: Migration,
    /// The sandbox that this process has entered; its root is the folder.
    pub inside: Option<Arc<SandboxChild>>,
    /// Delay added to each read and write.
    pub delay: Duration,
}

impl Handles {
    /// How many files and folders a client can know at once under the open-file limit of this process. `None`: the
    /// limit applies only to open files.
    #[must_use]
    pub fn most_files(self) -> Option<u64> {
        // The server raises its limit to this.
        let limit = getrlimit(Resource::Nofile).maximum;
        (self == Handles::Never).then(|| descriptors(limit).0)
    }
}

/// The descriptors for known files, and those for open files. An open file that is read or written uses two.
fn descriptors(limit: Option<u64>) -> (u64, u64) {
    let limit = limit.unwrap_or(1 << 30);
    let all = limit.saturating_sub(OWN_DESCRIPTORS).max(64);
    let copies = all / 4;
    (all - copies, copies)
}

impl Settings {
    /// Whether files are opened by file handle, which needs a privilege.
    #[must_use]
    pub fn opens_by_handle(&self) -> bool {
        self.handles != Handles::Never || self.migration.mode == MigrationMode::FileHandles
    }

    fn accepted(&self) -> Accepted {
        Accepted {
            read_only: self.read_only,
            by_handle: self.migration.mode == MigrationMode::FileHandles,
            direct_io: self.direct_io,
            writeback: self.writeback && !self.read_only,
            submounts: self.submounts,
            posix_acl: self.posix_acl != NegotiationMode::Never,
            needs_acl: self.posix_acl == NegotiationMode::Always,
        }
    }

    /// Opens the folder as for a client, and closes it.
    ///
    /// # Errors
    /// The folder cannot be opened or is not a folder; ids cannot be mapped as configured.
    pub fn check(&self) -> io::Result<()> {
        let root = self.inside.as_ref().map(|inside| &inside.root);
        if !std::fs::metadata(root.unwrap_or(&self.folder))?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Folder::open(self, true).map(drop)
    }
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Length of the reply in bytes.
    pub(crate) written: u32,
    /// The request was refused, or its data could not be read or written.
    pub(crate) failed: bool,
}

/// A request and its reply in the buffers of a transport.
pub(crate) trait RequestBuffers {
    /// The buffers of the whole request, at least as long as its [`Head`] says. `None`: outside the client's memory.
    fn request(&mut self) -> Option<Buffers<'_>>;
    /// The buffers of the reply.
    fn reply(&mut self) -> Option<Buffers<'_>>;
    /// Lends `length` bytes of the request (`of_request`) or of the reply buffers until they are given back. `None`:
    /// more parts than the kernel accepts at once.
    fn lend(&mut self, of_request: bool, from: usize, length: usize) -> Option<TransferMemory>;
    /// Ends [`Self::lend`].
    fn give_back(&mut self, memory: TransferMemory);
}

/// Progress of a read or write.
#[derive(Debug, Default)]
pub(crate) struct PartialIo {
    /// Its file, once found open.
    pub(crate) open: Option<Arc<OpenFile>>,
    /// Bytes done.
    done: usize,
    /// No more can be done.
    ended: bool,
}

/// A shared folder as one client sees it: its nodes and open files.
pub(crate) struct Folder {
    files: Arc<Files>,
    server: Server<Shared>,
    read_only: bool,
    root: PathBuf,
    /// Which states it accepts.
    accepted: Accepted,
}

impl Folder {
    /// Opens a folder for a new client. `submounts`: the client understands mount points.
    ///
    /// # Errors
    /// The folder cannot be opened, or does not support the settings.
    pub(crate) fn open(settings: &Settings, submounts: bool) -> io::Result<Folder> {
        let inside = settings.inside.as_ref();
        // Unlike here, the crate takes a symbolic link for a file.
        let root = match inside {
            Some(inside) => inside.root.clone(),
            None => settings.folder.canonicalize()?,
        };
        let copied = |file: fn(&SandboxChild) -> &File| match inside {
            Some(inside) => file(inside).try_clone().map(Some),
            None => Ok(None),
        };
        let xattr = settings.xattr || settings.posix_acl != NegotiationMode::Never;
        let root = (root.to_str().map(str::to_owned))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8"))?;
        let (cache_policy, timeout) = match settings.cache {
            Cache::Never => (CachePolicy::Never, Duration::ZERO),
            Cache::Metadata => (CachePolicy::Metadata, ALWAYS),
            Cache::Auto => (CachePolicy::Auto, AUTO),
            Cache::Always => (CachePolicy::Always, ALWAYS),
        };
        let limit = getrlimit(Resource::Nofile).current;
        let (descriptors, copies) = descriptors(limit);
        let config = Config {
            root_dir: root.clone(),
            cache_policy,
            attr_timeout: timeout,
            entry_timeout: timeout,
            writeback: settings.writeback && !settings.read_only,
            xattr,
            allow_direct_io: settings.direct_io,
            readdirplus: settings.cache != Cache::Never,
            announce_submounts: submounts && settings.submounts,
            inode_file_handles: match settings.handles {
                Handles::Never => InodeFileHandlesMode::Never,
                Handles::Prefer => InodeFileHandlesMode::Prefer,
                Handles::Mandatory => InodeFileHandlesMode::Mandatory,
            },
            posix_acl: settings.posix_acl,
            uid_map: Some(settings.uids.clone()),
            gid_map: Some(settings.gids.clone()),
            mountinfo_prefix: inside.and_then(|inside| inside.prefix.clone()),
            proc_sfd_rawfd: copied(|inside| &inside.descriptors)?,
            proc_mountinfo_rawfd: copied(|inside| &inside.mounts)?,
            guest_fd_limit: descriptors,
            migration_mode: settings.migration.mode,
            migration_on_error: settings.migration.on_error,
            migration_verify_handles: settings.migration.verify_handles,
            migration_confirm_paths: settings.migration.confirm_paths,
            ..Config::default()
        };
        let files = Arc::new(Files::new(PassthroughFs::new(config)?, copies as usize));
        Ok(Folder {
            server: Server::new(Shared(Arc::clone(&files))),
            files,
            read_only: settings.read_only,
            root: root.into(),
            accepted: settings.accepted(),
        })
    }

    /// See [`Files::descriptor`].
    pub(crate) fn descriptor(&self, head: &Head, node: u64, handle: u64) -> io::Result<File> {
        self.files.descriptor(head, node, handle)
    }

    /// Looks up the names of all nodes, so that [`Self::save`] takes less time. This may take long; `cancel` ends it
    /// early.
    pub(crate) fn prepare_to_save(&self, cancel: Arc<AtomicBool>) {
        self.server.prepare_serialization(cancel);
    }

    /// Returns the state of the client after [`Self::prepare_to_save`], and the number of nodes without a known name.
    ///
    /// # Errors
    /// Names cannot be confirmed; memory is short.
    pub(crate) fn save(&self) -> io::Result<(Vec<u8>, usize)> {
        let file = memory_file()?;
        self.server.serialize(file.try_clone()?)?;
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let all = Accepted {
            by_handle: true,
            read_only: false,
            writeback: true,
            submounts: true,
            posix_acl: true,
            needs_acl: false,
            ..self.accepted
        };
        let lost = state::checked(&bytes, all)
            .map_err(io::Error::other)?
            .lost();
        Ok((state::sealed(bytes), lost))
    }

    /// Restores the state of a client. If missing files are no error, returns their number and the path of one of them.
    ///
    /// # Errors
    /// The state is refused, or files are missing. Then no node is known.
    pub(crate) fn load(&self, bytes: &[u8]) -> io::Result<(usize, Option<String>)> {
        let checked = state::checked(bytes, self.accepted).map_err(io::Error::other)?;
        self.check_mounts(checked.mounts())?;
        let applied = catch_unwind(AssertUnwindSafe(|| self.apply(&checked)));
        let failed = match applied {
            Ok(Ok(())) => {
                let missing: Vec<u64> = checked.nodes().filter(|id| !self.files.has(*id)).collect();
                let first = missing.iter().find_map(|id| checked.path(*id));
                return Ok((missing.len(), first));
            }
            Ok(Err(error)) => error,
            Err(_) => io::Error::other("the file system failed; please report it"),
        };
        let _ = catch_unwind(AssertUnwindSafe(|| self.server.destroy()));
        Err(failed)
    }

    /// Checks that mounts of a state are in the folder, with no symbolic links in their paths. Opening them neither
    /// blocks nor has side effects.
    fn check_mounts(&self, mounts: &[String]) -> io::Result<()> {
        let path_only = OFlags::PATH | OFlags::CLOEXEC;
        for path in mounts {
            let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let root = rustix::fs::open(&self.root, path_only, Mode::empty())?;
            let found = match openat2(&root, path.as_str(), path_only, Mode::empty(), within) {
                Ok(found) => found,
                // The crate does not follow it either. Its files are missing.
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(error) => {
                    let text = format!("the mount `{path}` of the state: {error}");
                    return Err(io::Error::new(io::Error::from(error).kind(), text));
                }
            };
            let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
            if !matches!(kind, FileType::Directory | FileType::RegularFile) {
                let text = format!("the mount `{path}` of the state is not a folder or file");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(())
    }

    /// The crate's server learns from INIT how its client encodes requests.
    fn initialise(&self, options: u64) -> io::Result<()> {
        let mut reply = [0; 256];
        let room = reply.len();
        let buffers = vec![VolatileSlice::from(&mut reply[..])];
        let init = init_request(options);
        scratch::carry_out(&self.server, &init, room, move || Some(buffers))?;
        let error = i32::from_ne_bytes([reply[4], reply[5], reply[6], reply[7]]);
        match error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }

    fn apply(&self, checked: &Checked) -> io::Result<()> {
        if checked.is_mounted() {
            self.initialise(checked.options())?;
        }
        let mut file = memory_file()?;
        file.write_all(checked.bytes())?;
        file.rewind()?;
        self.server.deserialize_and_apply(file)
    }

    /// Returns the open file of a read or write that can run in steps. Other requests are answered immediately.
    pub(crate) fn opened(&self, head: &Head) -> PartialIo {
        let data = matches!(head.opcode(), opcode::READ | opcode::WRITE);
        let open = match data && head.refused(self.read_only).is_none() {
            true => self.files.file(head).ok(),
            false => None,
        };
        PartialIo {
            open,
            ..PartialIo::default()
        }
    }

    /// Answers a read if the page cache has all its data. Otherwise `partial` has what was cached, and [`Self::answer`]
    /// reads the rest.
    pub(crate) fn try_cached(
        &self,
        head: &Head,
        partial: &mut PartialIo,
        buffers: &mut impl RequestBuffers,
    ) -> Option<Answered> {
        let open = Arc::clone(partial.open.as_ref()?);
        let data = between(
            &buffers.reply()?,
            REPLY_HEADER,
            REPLY_HEADER + head.data() as usize,
        );
        let read = |parts: &[&VolatileSlice<'_>], offset| {
            let flags = Some(ReadvFlags::RWF_NOWAIT);
            open.file.read_vectored_at_volatile(parts, offset, flags)
        };
        match in_steps(data, head, partial, read) {
            Ok(()) => {}
            Err(error) => {
                if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) {
                    self.files.does_not_try(&open);
                }
                return None;
            }
        }
        partial.ended.then(|| self.answer(head, partial, buffers))
    }

    /// Answers a read or write whose transfer has ended. `None`: [`Self::answer`] must do the rest.
    pub(crate) fn transferred(
        &self,
        head: &Head,
        partial: &mut PartialIo,
        result: io::Result<usize>,
        buffers: &mut impl RequestBuffers,
    ) -> Option<Answered> {
        match result.map_err(|error| errno(&error)) {
            Ok(count) => {
                partial.done = count;
                partial.ended = count == 0 || count >= head.data() as usize;
            }
            // It was not started.
            Err(Errno::AGAIN | Errno::INTR | Errno::CANCELED) => {}
            // See `write`.
            Err(Errno::INVAL) if head.writes_cached() => {}
            Err(errno) => {
                return Some(Answered {
                    written: refuse(head, errno, buffers),
                    failed: true,
                });
            }
        }
        partial.ended.then(|| self.answer(head, partial, buffers))
    }

    /// Executes a request, or the rest of one, and writes its reply.
    pub(crate) fn answer(
        &self,
        head: &Head,
        partial: &mut PartialIo,
        buffers: &mut impl RequestBuffers,
    ) -> Answered {
        let done = match head.refused(self.read_only) {
            Some(errno) => Err(errno),
            // A panic of the file system ends one request only.
            None => catch_unwind(AssertUnwindSafe(|| self.carry_out(head, partial, buffers)))
                .unwrap_or(Err(Errno::IO)),
        };
        match done {
            Ok(written) => Answered {
                written,
                failed: false,
            },
            Err(errno) => Answered {
                written: refuse(head, errno, buffers),
                failed: true,
            },
        }
    }

    fn carry_out(
        &self,
        head: &Head,
        partial: &mut PartialIo,
        buffers: &mut impl RequestBuffers,
    ) -> Result<u32, Errno> {
        match head.opcode() {
            opcode::READ => self.read(head, partial, buffers),
            opcode::WRITE => self.write(head, partial, buffers),
            opcode::DESTROY => {
                // The crate does not answer `DESTROY`.
                self.server.destroy();
                reply(head, &[], buffers)
            }
            _ => self.other(head, buffers),
        }
    }

    fn read(
        &self,
        head: &Head,
        partial: &mut PartialIo,
        buffers: &mut impl RequestBuffers,
    ) -> Result<u32, Errno> {
        let parts = buffers.reply().ok_or(Errno::INVAL)?;
        let end = REPLY_HEADER + head.data() as usize;
        let data = between(&parts, REPLY_HEADER, end);
        self.work(head, partial, data, |file, parts, offset| {
            file.read_vectored_at_volatile(parts, offset, None)
        })?;
        copied_in(&parts, &reply_header(head.unique(), 0, partial.done));
        Ok((REPLY_HEADER + partial.done) as u32)
    }

    fn write(
        &self,
        head: &Head,
        partial: &mut PartialIo,
        buffers: &mut impl RequestBuffers,
    ) -> Result<u32, Errno> {
        let flags = head.appends().then_some(WritevFlags::RWF_APPEND);
        let parts = buffers.request().ok_or(Errno::INVAL)?;
        let data = between(&parts, WRITE_HEADER, WRITE_HEADER + head.data() as usize);
        self.work(head, partial, data, |file, parts, offset| {
            let written = file.write_vectored_at_volatile(parts, offset, flags);
            match written {
                // The end of a file is not aligned. The client cannot know that an O_DIRECT handle writes its cache.
                Err(error) if head.writes_cached() && errno(&error) == Errno::INVAL => {
                    self.files.past_direct(file, || {
                        file.write_vectored_at_volatile(parts, offset, flags)
                    })
                }
                written => written,
            }
        })?;
        reply(head, &(partial.done as u64).to_le_bytes(), buffers)
    }

    /// Reads or writes the rest in steps that wait for storage.
    fn work(
        &self,
        head: &Head,
        partial: &mut PartialIo,
        data: Buffers<'_>,
        step: impl Fn(&File, &[&VolatileSlice<'_>], u64) -> io::Result<usize>,
    ) -> Result<(), Errno> {
        // The kernel has done this already if it transferred them.
        let ends_privileges = head.ends_privileges() && !partial.ended;
        let open = match &partial.open {
            _ if ends_privileges => Err(Errno::NFILE.into()),
            Some(open) => Ok(Arc::clone(open)),
            None => self.files.file(head),
        };
        let mut with = |file: &File| {
            let data = data.clone();
            in_steps(data, head, partial, |parts, offset| {
                step(file, parts, offset)
            })
            .map(|()| 0)
        };
        let done = match open {
            Ok(open) => with(&open.file),
            Err(_) if ends_privileges => self.files.lend_to_write(head, with),
            // Too many are open for two descriptors each.
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::MFILE | Errno::NFILE)
                ) =>
            {
                self.files.lend(head, with)
            }
            Err(error) => Err(error),
        };
        match done {
            // Partial progress counts; the client gets the error from its next request.
            Err(_) if partial.done > 0 => Ok(()),
            done => done.map(drop).map_err(|error| errno(&error)),
        }
    }

    fn other(&self, head: &Head, buffers: &mut impl RequestBuffers) -> Result<u32, Errno> {
        let mut message = vec![0; head.length()];
        let parts = buffers.request().ok_or(Errno::INVAL)?;
        if copied_out(&between(&parts, 0, message.len()), &mut message) < message.len() {
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
        let done = scratch::carry_out(&self.server, &message, head.writable, || buffers.reply());
        if copied.creates() {
            // The crate keeps the thread's groups for a request whose user and group are those of the server.
            let _ = set_thread_groups(&[]);
        }
        done
    }
}

/// A file in memory.
fn memory_file() -> io::Result<File> {
    Ok(memfd_create("state", MemfdFlags::CLOEXEC)?.into())
}

/// The request of a client that has these options.
fn init_request(options: u64) -> Vec<u8> {
    let words = [
        (HEADER + 64) as u32,
        opcode::INIT,
        // Its number, node and sender.
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        // The FUSE major version, which is all the server needs, and the read-ahead size.
        7,
        38,
        0,
        options as u32,
        (options >> 32) as u32,
    ];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize(HEADER + 64, 0);
    bytes
}

/// Reads or writes the rest, until all is done or a step makes no progress.
fn in_steps(
    mut data: Buffers<'_>,
    head: &Head,
    partial: &mut PartialIo,
    step: impl Fn(&[&VolatileSlice<'_>], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let start = head.u64_at(HEADER + 8);
    let end = start.checked_add(head.data().into());
    // The crate panics at an invalid file offset.
    if end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(Errno::INVAL.into());
    }
    if partial.done > 0 {
        data = between(&data, partial.done, usize::MAX);
    }
    while !partial.ended && !data.is_empty() {
        let parts: Vec<&VolatileSlice<'_>> = data.iter().take(MAX_PARTS).collect();
        match step(&parts, start + partial.done as u64) {
            Ok(0) => break,
            Ok(count) => {
                partial.done += count;
                if partial.done >= head.data() as usize {
                    break;
                }
                data = between(&data, count, usize::MAX);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    partial.ended = true;
    Ok(())
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Writes a reply that succeeded.
fn reply(head: &Head, data: &[u8], buffers: &mut impl RequestBuffers) -> Result<u32, Errno> {
    let mut bytes = reply_header(head.unique(), 0, data.len()).to_vec();
    bytes.extend(data);
    let parts = buffers.reply().ok_or(Errno::INVAL)?;
    match copied_in(&parts, &bytes) == bytes.len() {
        true => Ok(bytes.len() as u32),
        false => Err(Errno::INVAL),
    }
}

/// Writes an error reply, if it fits and the client waits for one.
fn refuse(head: &Head, errno: Errno, buffers: &mut impl RequestBuffers) -> u32 {
    if !head.is_answered() {
        return 0;
    }
    let bytes = reply_header(head.unique(), errno.raw_os_error(), 0);
    let written = buffers.reply().map(|parts| copied_in(&parts, &bytes));
    match written == Some(bytes.len()) {
        true => bytes.len() as u32,
        false => 0,
    }
}
