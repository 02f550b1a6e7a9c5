//! The file system of the crate `virtiofsd`, with descriptors of its open files.
//!
//! The crate lends a file only to a data reader or writer that it calls. So the first I/O on a handle duplicates the
//! descriptor, and the duplicate is kept until the handle is released.
//!
//! # Invariant
//!
//! A duplicate exists only while the crate knows its handle: it is made and stored under a lock. After the crate has
//! released the handle, the entry is removed under the same lock.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, makedev, statx};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use virtiofsd::filesystem::{
    Context, Entry, Extensions, FileSystem, FsOptions, GetxattrReply, ListxattrReply, OpenOptions,
    SerializableFileSystem, SetattrValid, SetxattrFlags, ZeroCopyReader, ZeroCopyWriter,
};
use virtiofsd::oslib::{ReadvFlags, WritevFlags};
use virtiofsd::passthrough::PassthroughFs;
use virtiofsd::{fuse, soft_idmap};

use crate::request::Head;

/// An open file of a client.
#[derive(Debug)]
pub(crate) struct OpenFile {
    node: u64,
    /// A duplicate of its descriptor.
    pub(crate) file: File,
    /// I/O bypasses the page cache.
    pub(crate) direct: bool,
    /// The device of its file system.
    device: u64,
    /// Whether [`Files::does_not_try`] was called for this file system.
    waits: AtomicBool,
}

impl OpenFile {
    fn of(node: u64, file: File, files: &Files) -> io::Result<OpenFile> {
        // The kernel has this number cached. Do not ask the file system, which may hang.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = statx(&file, c"", flags, StatxFlags::empty())?;
        let device = makedev(found.stx_dev_major, found.stx_dev_minor);
        Ok(OpenFile {
            node,
            direct: fcntl_getfl(&file)?.contains(OFlags::DIRECT),
            waits: files.waiting().contains(&device).into(),
            device,
            file,
        })
    }

    /// Whether non-blocking reads can be tried.
    pub(crate) fn tries(&self) -> bool {
        !self.waits.load(Ordering::Relaxed)
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The files of one client, and the duplicated descriptors by handle.
pub(crate) struct Files {
    inner: PassthroughFs,
    open: RwLock<HashMap<u64, Arc<OpenFile>>>,
    /// Duplicates that may be kept.
    most: usize,
    /// Devices whose file systems do not support non-blocking reads (`RWF_NOWAIT`).
    waiting: Mutex<HashSet<u64>>,
    /// Held while the flags of an open file are changed.
    flags: Mutex<()>,
}

impl Files {
    pub(crate) fn new(inner: PassthroughFs, most: usize) -> Files {
        Files {
            inner,
            open: RwLock::default(),
            most,
            waiting: Mutex::default(),
            flags: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the file system of this file does not support non-blocking reads.
    pub(crate) fn does_not_try(&self, open: &OpenFile) {
        open.waits.store(true, Ordering::Relaxed);
        self.waiting().insert(open.device);
    }

    fn open(&self) -> RwLockReadGuard<'_, HashMap<u64, Arc<OpenFile>>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, HashMap<u64, Arc<OpenFile>>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file of a read or write.
    ///
    /// # Errors
    /// The node has no such handle, or no descriptor is free.
    pub(crate) fn file(&self, head: &Head) -> io::Result<Arc<OpenFile>> {
        let (node, handle) = (head.node(), head.handle());
        let known = self.open().get(&handle).cloned();
        if let Some(open) = known {
            return match open.node == node {
                true => Ok(open),
                false => Err(rustix::io::Errno::BADF.into()),
            };
        }
        let mut table = self.change();
        if table.len() >= self.most {
            return Err(rustix::io::Errno::MFILE.into());
        }
        let mut taken = None;
        self.lend(head, |file| {
            taken = Some(file.try_clone()?);
            Ok(0)
        })?;
        let file = taken.ok_or(rustix::io::Errno::BADF)?;
        let open = Arc::new(OpenFile::of(node, file, self)?);
        // Another thread may have been first.
        Ok(Arc::clone(table.entry(handle).or_insert(open)))
    }

    /// Calls `with` with the file of a read or write. The file stays open during the call.
    ///
    /// # Errors
    /// The node has no such handle; errors of `with`.
    pub(crate) fn lend(
        &self,
        head: &Head,
        with: impl FnMut(&File) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (node, handle) = (head.node(), head.handle());
        (self.inner).read(head.context(), node, handle, Borrower(with), 0, 0, None, 0)
    }

    /// Closes the file of a node and handle; `release` removes the handle from the crate. Closing may wait for storage,
    /// so the file is borrowed meanwhile. Otherwise the crate would close it under the lock of all handles.
    ///
    /// # Errors
    /// The node has no such handle.
    fn closed(
        &self,
        context: Context,
        (node, handle): (u64, u64),
        release: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut released = None;
        let keep = |_: &File| {
            released = Some(release());
            Ok(0)
        };
        // Fails if the handle is unknown, or if its file was missing when a state was read.
        let _ = (self.inner).read(context, node, handle, Borrower(keep), 0, 0, None, 0);
        released.unwrap_or_else(release)?;
        let closed = self.change().remove(&handle);
        // Outside the lock.
        drop(closed);
        Ok(())
    }

    /// Duplicates the descriptor of an open file, for a request.
    ///
    /// # Errors
    /// The handle is unknown, or no descriptor is free.
    pub(crate) fn descriptor(&self, head: &Head, node: u64, handle: u64) -> io::Result<File> {
        let mut taken = None;
        let take = |file: &File| {
            taken = Some(file.try_clone()?);
            Ok(0)
        };
        (self.inner).read(head.context(), node, handle, Borrower(take), 0, 0, None, 0)?;
        taken.ok_or_else(|| rustix::io::Errno::BADF.into())
    }

    /// Whether a node exists and its file was found.
    pub(crate) fn has(&self, node: u64) -> bool {
        let own = Context {
            uid: soft_idmap::GuestUid::from(0),
            gid: soft_idmap::GuestGid::from(0),
            pid: 0,
        };
        self.inner.statfs(own, node).is_ok()
    }

    /// Writes to a file with O_DIRECT cleared. A concurrent direct request for the same handle uses the page cache.
    ///
    /// # Errors
    /// Errors of `write`; the flags of the file cannot be changed.
    pub(crate) fn past_direct(
        &self,
        file: &File,
        write: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let _one = (self.flags.lock()).unwrap_or_else(PoisonError::into_inner);
        let flags = fcntl_getfl(file)?;
        fcntl_setfl(file, flags - OFlags::DIRECT)?;
        let written = write();
        fcntl_setfl(file, flags)?;
        written
    }

    /// Like [`Self::lend`], but through the crate's write, for a write that clears set-user-id bits. The crate itself
    /// leaves the bits: it does not offer the kernel to clear them in all cases (`FUSE_HANDLE_KILLPRIV_V2`). Writes
    /// past the client's cache request it nevertheless.
    ///
    /// # Errors
    /// Those of [`Self::lend`]; the capabilities of the thread cannot be changed.
    pub(crate) fn lend_to_write(
        &self,
        head: &Head,
        mut with: impl FnMut(&File) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (node, handle) = (head.node(), head.handle());
        let with = |file: &File| without_fsetid(|| with(file))?;
        (self.inner).write(
            head.context(),
            node,
            handle,
            Borrower(with),
            0,
            0,
            None,
            false,
            true,
            0,
        )
    }
}

/// Runs `work` without `CAP_FSETID`, if this thread has it, so that the kernel clears set-user-id bits.
///
/// # Errors
/// Those of capset(2).
pub(crate) fn without_fsetid<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let own = capabilities(None)?;
    if !own.effective.contains(CapabilitySet::FSETID) {
        return Ok(work());
    }
    let mut less = own;
    less.effective.remove(CapabilitySet::FSETID);
    set_capabilities(None, less)?;
    let _restored = Restored(own);
    Ok(work())
}

/// Restores these capabilities of a thread on drop, also after a panic.
struct Restored(CapabilitySets);

impl Drop for Restored {
    fn drop(&mut self) {
        // The thread had them a moment ago.
        let _ = set_capabilities(None, self.0);
    }
}

/// Takes a file from the crate in place of a data reader or writer.
struct Borrower<F>(F);

impl<F: FnMut(&File) -> io::Result<usize>> ZeroCopyWriter for Borrower<F> {
    fn read_from_file_at(
        &mut self,
        file: &File,
        _count: usize,
        _offset: u64,
        _flags: Option<ReadvFlags>,
    ) -> io::Result<usize> {
        (self.0)(file)
    }
}

impl<F: FnMut(&File) -> io::Result<usize>> ZeroCopyReader for Borrower<F> {
    fn write_to_file_at(
        &mut self,
        file: &File,
        _count: usize,
        _offset: u64,
        _flags: Option<WritevFlags>,
    ) -> io::Result<usize> {
        (self.0)(file)
    }
}

/// The file system that the crate's server calls.
pub(crate) struct Shared(pub(crate) Arc<Files>);

macro_rules! passed_on {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $kind),*) $(-> $result)? {
            self.0.inner.$name($($argument),*)
        })*
    };
}

impl FileSystem for Shared {
    type Inode = u64;
    type Handle = u64;
    type DirIter = <PassthroughFs as FileSystem>::DirIter;

    fn init(&self, capable: FsOptions) -> io::Result<FsOptions> {
        let agreed = self.0.inner.init(capable);
        self.0.change().clear();
        agreed
    }

    fn destroy(&self) {
        self.0.inner.destroy();
        self.0.change().clear();
    }

    fn release(
        &self,
        context: Context,
        node: u64,
        flags: u32,
        handle: u64,
        flush: bool,
        unlock: bool,
        owner: Option<u64>,
    ) -> io::Result<()> {
        let inner = &self.0.inner;
        self.0.closed(context, (node, handle), || {
            inner.release(context, node, flags, handle, flush, unlock, owner)
        })
    }

    fn open(
        &self,
        context: Context,
        node: u64,
        privileged: bool,
        flags: u32,
    ) -> io::Result<(Option<u64>, OpenOptions)> {
        let inner = &self.0.inner;
        let root = soft_idmap::GuestUid::from(0);
        // The client's kernel leaves clearing set-user-id bits on truncation to the server. It does not say whether the
        // user may keep them, as root may.
        match context.uid != root && flags & OFlags::TRUNC.bits() != 0 {
            true => without_fsetid(|| inner.open(context, node, privileged, flags))?,
            false => inner.open(context, node, privileged, flags),
        }
    }

    // The crate does not distinguish folders from files here.
    fn releasedir(&self, context: Context, node: u64, flags: u32, handle: u64) -> io::Result<()> {
        let inner = &self.0.inner;
        self.0.closed(context, (node, handle), || {
            inner.releasedir(context, node, flags, handle)
        })
    }

    passed_on! {
        fn lookup(context: Context, parent: u64, name: &CStr) -> io::Result<Entry>;
        fn forget(context: Context, node: u64, count: u64);
        fn batch_forget(context: Context, requests: Vec<(u64, u64)>);
        fn getattr(context: Context, node: u64, handle: Option<u64>) -> io::Result<(fuse::Attr, Duration)>;
        fn setattr(context: Context, node: u64, attributes: fuse::SetattrIn, handle: Option<u64>, valid: SetattrValid) -> io::Result<(fuse::Attr, Duration)>;
        fn readlink(context: Context, node: u64) -> io::Result<Vec<u8>>;
        fn symlink(context: Context, target: &CStr, parent: u64, name: &CStr, more: Extensions) -> io::Result<Entry>;
        fn mknod(context: Context, parent: u64, name: &CStr, mode: u32, device: u32, umask: u32, more: Extensions) -> io::Result<Entry>;
        fn mkdir(context: Context, parent: u64, name: &CStr, mode: u32, umask: u32, more: Extensions) -> io::Result<Entry>;
        fn unlink(context: Context, parent: u64, name: &CStr) -> io::Result<()>;
        fn rmdir(context: Context, parent: u64, name: &CStr) -> io::Result<()>;
        fn rename(context: Context, from: u64, name: &CStr, to: u64, renamed: &CStr, flags: u32) -> io::Result<()>;
        fn link(context: Context, node: u64, parent: u64, name: &CStr) -> io::Result<Entry>;
        fn create(context: Context, parent: u64, name: &CStr, mode: u32, privileged: bool, flags: u32, umask: u32, more: Extensions) -> io::Result<(Entry, Option<u64>, OpenOptions)>;
        fn flush(context: Context, node: u64, handle: u64, owner: u64) -> io::Result<()>;
        fn fsync(context: Context, node: u64, data: bool, handle: u64) -> io::Result<()>;
        fn fallocate(context: Context, node: u64, handle: u64, mode: u32, offset: u64, length: u64) -> io::Result<()>;
        fn statfs(context: Context, node: u64) -> io::Result<libc::statvfs64>;
        fn setxattr(context: Context, node: u64, name: &CStr, value: &[u8], flags: u32, more: SetxattrFlags) -> io::Result<()>;
        fn getxattr(context: Context, node: u64, name: &CStr, size: u32) -> io::Result<GetxattrReply>;
        fn listxattr(context: Context, node: u64, size: u32) -> io::Result<ListxattrReply>;
        fn removexattr(context: Context, node: u64, name: &CStr) -> io::Result<()>;
        fn opendir(context: Context, node: u64, flags: u32) -> io::Result<(Option<u64>, OpenOptions)>;
        fn readdir(context: Context, node: u64, handle: u64, size: u32, offset: u64) -> io::Result<Self::DirIter>;
        fn fsyncdir(context: Context, node: u64, data: bool, handle: u64) -> io::Result<()>;
        fn access(context: Context, node: u64, mask: u32) -> io::Result<()>;
        fn lseek(context: Context, node: u64, handle: u64, offset: u64, whence: u32) -> io::Result<u64>;
        fn copyfilerange(context: Context, from: u64, handle: u64, offset: u64, to: u64, other: u64, at: u64, length: u64, flags: u64) -> io::Result<usize>;
        fn syncfs(context: Context, node: u64) -> io::Result<()>;
    }
}

impl SerializableFileSystem for Shared {
    fn prepare_serialization(&self, cancel: Arc<AtomicBool>) {
        self.0.inner.prepare_serialization(cancel);
    }

    fn serialize(&self, to: File) -> io::Result<()> {
        self.0.inner.serialize(to)
    }

    fn deserialize_and_apply(&self, from: File) -> io::Result<()> {
        let applied = self.0.inner.deserialize_and_apply(from);
        self.0.change().clear();
        applied
    }
}

impl Head {
    fn context(&self) -> Context {
        Context {
            uid: soft_idmap::GuestUid::from(self.u32_at(24)),
            gid: soft_idmap::GuestGid::from(self.u32_at(28)),
            pid: self.u32_at(32) as i32,
        }
    }
}
