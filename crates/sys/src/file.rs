//! System calls on open files that no ring is needed for.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// RWF_HIPRI of preadv2 and pwritev2.
pub const RWF_HIPRI: u32 = 1;
/// RWF_NOWAIT.
pub const RWF_NOWAIT: u32 = 8;
/// RWF_ATOMIC: a write is stored whole or not at all. Only for writes.
pub const RWF_ATOMIC: u32 = 0x40;

/// RWF_* flags of one kind of op each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RwFlags {
    /// Of reads.
    pub read: u32,
    /// Of writes.
    pub write: u32,
}

fn moved(result: isize) -> i32 {
    if result < 0 {
        -io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)
    } else {
        result as i32
    }
}

fn done(result: libc::c_int) -> i32 {
    moved(result as isize)
}

/// pread: bytes, or −errno.
#[inline]
pub fn pread(file: &OwnedFd, into: &mut [u8], offset: u64) -> i32 {
    // SAFETY: the buffer is ours and as long as is said.
    moved(unsafe {
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
pub fn pwrite(file: &OwnedFd, from: &[u8], offset: u64) -> i32 {
    // SAFETY: the buffer is ours and as long as is said.
    moved(unsafe {
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
pub fn preadv2(file: &OwnedFd, into: &mut [u8], offset: u64, flags: u32) -> i32 {
    let vector = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: one vector that names our own buffer.
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
    moved(result as isize)
}

/// pwritev2 of one buffer with RWF_* flags: bytes, or −errno.
#[inline]
pub fn pwritev2(file: &OwnedFd, from: &[u8], offset: u64, flags: u32) -> i32 {
    let vector = libc::iovec {
        iov_base: from.as_ptr().cast_mut().cast(),
        iov_len: from.len(),
    };
    // SAFETY: one vector that names our own buffer, which the kernel only reads.
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
    moved(result as isize)
}

/// lseek, then read: bytes, or −errno.
#[inline]
pub fn seek_read(file: &OwnedFd, into: &mut [u8], offset: u64) -> i32 {
    // SAFETY: plain numbers.
    if unsafe { libc::lseek(file.as_raw_fd(), offset as libc::off_t, libc::SEEK_SET) } < 0 {
        return moved(-1);
    }
    // SAFETY: the buffer is ours and as long as is said.
    moved(unsafe { libc::read(file.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

/// lseek, then write: bytes, or −errno.
#[inline]
pub fn seek_write(file: &OwnedFd, from: &[u8], offset: u64) -> i32 {
    // SAFETY: plain numbers.
    if unsafe { libc::lseek(file.as_raw_fd(), offset as libc::off_t, libc::SEEK_SET) } < 0 {
        return moved(-1);
    }
    // SAFETY: the buffer is ours and as long as is said.
    moved(unsafe { libc::write(file.as_raw_fd(), from.as_ptr().cast(), from.len()) })
}

/// close: 0, or −errno. The descriptor is gone either way; EINTR means no more than that.
#[inline]
pub fn close(file: OwnedFd) -> i32 {
    // SAFETY: the descriptor was ours alone, and nobody holds its number any more.
    done(unsafe { libc::close(file.into_raw_fd()) })
}

/// fsync, or fdatasync: 0, or −errno.
pub fn sync(file: &OwnedFd, data_only: bool) -> i32 {
    // SAFETY: an open descriptor.
    done(unsafe {
        match data_only {
            true => libc::fdatasync(file.as_raw_fd()),
            false => libc::fsync(file.as_raw_fd()),
        }
    })
}

/// Gives back a range: BLKDISCARD on a device, a punched hole in a file. 0, or −errno.
pub fn trim(file: &OwnedFd, device: bool, offset: u64, length: u64) -> i32 {
    const BLKDISCARD: libc::c_ulong = 0x1277;
    if device {
        let range = [offset, length];
        // SAFETY: the kernel reads two numbers, which outlive the call.
        return done(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) });
    }
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: plain numbers.
    done(unsafe {
        libc::fallocate(
            file.as_raw_fd(),
            mode,
            offset as libc::off_t,
            length as libc::off_t,
        )
    })
}
