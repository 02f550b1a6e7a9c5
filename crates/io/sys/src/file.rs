//! Synchronous system calls on open files.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use iodyno_model::Engine;

use crate::clock::timespec;
use crate::result::{checked, status, transferred};
use crate::{File, Op, OpKind, zones};

/// Each write is durable when it ends, except for timestamps of the file.
pub const O_DSYNC: u32 = libc::O_DSYNC as u32;

const RWF_HIPRI: u32 = 1;
/// A write is durable when it ends, as by O_DSYNC. Only for writes.
pub(crate) const RWF_DSYNC: u32 = 2;
const RWF_NOWAIT: u32 = 8;
/// A write is stored completely or not at all. Only for writes.
const RWF_ATOMIC: u32 = 0x40;

/// RWF_* flags of reads and of writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RwFlags {
    /// Flags of reads.
    pub(crate) read: u32,
    /// Flags of writes.
    pub(crate) write: u32,
}

impl RwFlags {
    /// The flags for the engine's options.
    pub(crate) fn of(engine: &Engine) -> RwFlags {
        let flag = |wanted, flag| if wanted { flag } else { 0 };
        let both = flag(engine.hipri, RWF_HIPRI) | flag(engine.nowait, RWF_NOWAIT);
        RwFlags {
            read: both,
            write: both | flag(engine.atomic, RWF_ATOMIC),
        }
    }
}

/// pread: bytes, or −errno.
#[inline]
pub(crate) fn pread(file: &OwnedFd, into: &mut [u8], offset: u64) -> i32 {
    // SAFETY: the buffer is ours and has the length given.
    transferred(unsafe {
        libc::pread(
            file.as_raw_fd(),
            into.as_mut_ptr().cast(),
            into.len(),
            offset as libc::off_t,
        )
    })
}

/// pwrite: bytes, or −errno.
#[inline]
pub(crate) fn pwrite(file: &OwnedFd, from: &[u8], offset: u64) -> i32 {
    // SAFETY: the buffer is ours and has the length given.
    transferred(unsafe {
        libc::pwrite(
            file.as_raw_fd(),
            from.as_ptr().cast(),
            from.len(),
            offset as libc::off_t,
        )
    })
}

/// preadv2 of one buffer with RWF_* flags: bytes, or −errno.
#[inline]
pub(crate) fn preadv2(file: &OwnedFd, into: &mut [u8], offset: u64, flags: u32) -> i32 {
    let vector = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: one vector, which describes our own buffer.
    let result = unsafe {
        libc::syscall(
            libc::SYS_preadv2,
            file.as_raw_fd(),
            &raw const vector,
            1usize,
            offset as libc::c_ulong,
            0usize,
            flags,
        )
    };
    transferred(result as isize)
}

/// pwritev2 of one buffer with RWF_* flags: bytes, or −errno.
#[inline]
pub(crate) fn pwritev2(file: &OwnedFd, from: &[u8], offset: u64, flags: u32) -> i32 {
    let vector = libc::iovec {
        iov_base: from.as_ptr().cast_mut().cast(),
        iov_len: from.len(),
    };
    // SAFETY: one vector, which describes our own buffer, which the kernel only reads.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pwritev2,
            file.as_raw_fd(),
            &raw const vector,
            1usize,
            offset as libc::c_ulong,
            0usize,
            flags,
        )
    };
    transferred(result as isize)
}

/// lseek, then read: bytes, or −errno.
#[inline]
pub(crate) fn seek_read(file: &OwnedFd, into: &mut [u8], offset: u64) -> i32 {
    // SAFETY: the arguments are plain numbers.
    if unsafe { libc::lseek(file.as_raw_fd(), offset as libc::off_t, libc::SEEK_SET) } < 0 {
        return transferred(-1);
    }
    // SAFETY: the buffer is ours and has the length given.
    transferred(unsafe { libc::read(file.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

/// lseek, then write: bytes, or −errno.
#[inline]
pub(crate) fn seek_write(file: &OwnedFd, from: &[u8], offset: u64) -> i32 {
    // SAFETY: the arguments are plain numbers.
    if unsafe { libc::lseek(file.as_raw_fd(), offset as libc::off_t, libc::SEEK_SET) } < 0 {
        return transferred(-1);
    }
    // SAFETY: the buffer is ours and has the length given.
    transferred(unsafe { libc::write(file.as_raw_fd(), from.as_ptr().cast(), from.len()) })
}

/// Waits until a descriptor has an event, at most this long, ns. Returns whether one has; an interrupted call ends
/// without.
pub(crate) fn poll(watched: &mut [libc::pollfd], timeout_ns: Option<u64>) -> bool {
    let time = timeout_ns.map(timespec);
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = watched.len() as libc::nfds_t;
    // SAFETY: the list and the time outlive the call. No signal mask is given.
    unsafe { libc::ppoll(watched.as_mut_ptr(), count, time, std::ptr::null()) > 0 }
}

/// A non-blocking eventfd.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: the arguments are plain numbers.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    checked(descriptor)?;
    // SAFETY: the descriptor is new and not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A copy of a descriptor that this process inherited, by its number. The number itself stays open.
///
/// # Errors
/// As dup(2): `EBADF` if it is not open.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: the arguments are plain numbers; the call changes nothing but the table of descriptors, to which it adds
    // one.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    checked(copy)?;
    // SAFETY: the descriptor is new and not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// close: 0, or −errno. The descriptor is closed in both cases, even with EINTR.
#[inline]
pub fn close(file: OwnedFd) -> i32 {
    // SAFETY: we owned the descriptor, and its number is not used again.
    status(unsafe { libc::close(file.into_raw_fd()) })
}

/// posix_fadvise: the pages of the range are not needed. An error is ignored: it is a hint.
pub(crate) fn drop_pages(file: &File, offset: u64, length: u64) {
    let (offset, length) = (offset as libc::off_t, length as libc::off_t);
    let descriptor = file.descriptor.as_raw_fd();
    // SAFETY: the arguments are plain numbers.
    unsafe { libc::posix_fadvise(descriptor, offset, length, libc::POSIX_FADV_DONTNEED) };
}

/// fsync, or fdatasync: 0, or −errno.
pub(crate) fn sync(file: &OwnedFd, data_only: bool) -> i32 {
    // SAFETY: an open descriptor.
    status(unsafe {
        match data_only {
            true => libc::fdatasync(file.as_raw_fd()),
            false => libc::fsync(file.as_raw_fd()),
        }
    })
}

/// A synchronous call on the range of an op: sync_file_range, the reset of a zone, or a trim (BLKDISCARD on a device, a
/// punched hole in a file). 0, or −errno.
pub(crate) fn on_range(file: &File, op: &Op) -> i32 {
    const BLKDISCARD: libc::c_ulong = 0x1277;
    let descriptor = file.descriptor.as_raw_fd();
    let (offset, length) = (op.offset, u64::from(op.length));
    if let OpKind::SyncRange(flags) = op.kind {
        let (offset, length) = (offset as libc::off64_t, length as libc::off64_t);
        // SAFETY: the arguments are plain numbers.
        return status(unsafe { libc::sync_file_range(descriptor, offset, length, flags.into()) });
    }
    if op.kind == OpKind::ResetZone {
        return zones::reset(&file.descriptor, offset, length);
    }
    if file.device {
        let range = [offset, length];
        // SAFETY: the kernel reads two numbers, which outlive the call.
        let discard =
            || status(unsafe { libc::ioctl(descriptor, BLKDISCARD as _, range.as_ptr()) });
        let done = discard();
        if done != -libc::EBUSY {
            return done;
        }
        // Another descriptor, such as the guard's, holds the device exclusively. Then the kernel drops no dirty pages.
        const WRITTEN: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        let (offset, length) = (offset as libc::off64_t, length as libc::off64_t);
        // SAFETY: the arguments are plain numbers.
        return match status(unsafe { libc::sync_file_range(descriptor, offset, length, WRITTEN) }) {
            0 => discard(),
            failed => failed,
        };
    }
    let (offset, length) = (offset as libc::off_t, length as libc::off_t);
    // SAFETY: the arguments are plain numbers.
    status(unsafe { libc::fallocate(descriptor, PUNCH_HOLE, offset, length) })
}

/// fallocate of the range of an op: 0, or −errno.
pub(crate) fn allocate(file: &OwnedFd, mode: libc::c_int, op: &Op) -> i32 {
    let (offset, length) = (op.offset as libc::off_t, op.length.into());
    // SAFETY: the arguments are plain numbers.
    status(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) })
}

/// ftruncate: 0, or −errno.
pub(crate) fn truncate(file: &OwnedFd, length: u64) -> i32 {
    // SAFETY: the arguments are plain numbers.
    status(unsafe { libc::ftruncate(file.as_raw_fd(), length as libc::off_t) })
}

/// The mode of fallocate that deallocates a range.
pub(crate) const PUNCH_HOLE: libc::c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
