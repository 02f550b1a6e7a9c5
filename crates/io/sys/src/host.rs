//! Properties of files, loop devices and this process that have no safe interface elsewhere.
//!
//! All functions only read: no call changes a file, a device or a setting. (Reading extents with `settle`
//! writes dirty pages back, as fsync does.)

use crate::result::checked;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// FS_IOC_FIEMAP, `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: u64 = 0xC020_660B;
/// LOOP_GET_STATUS64.
const LOOP_GET_STATUS64: u64 = 0x4C05;
const FIEMAP_FLAG_SYNC: u32 = 1;
const FIEMAP_EXTENT_LAST: u32 = 1;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;
const EXTENTS_A_CALL: usize = 256;

#[repr(C)]
#[derive(Clone, Copy)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct RawFiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS_A_CALL],
}

/// The name of the ZFS volume that is this device: `pool/volume`.
///
/// # Errors
/// `ENOTTY` if it is another device.
pub fn zvol_name(device: BorrowedFd<'_>) -> io::Result<String> {
    /// BLKZNAME, `_IOR(0x12, 125, char[256])`.
    const BLKZNAME: u64 = 0x8100_127D;
    let mut name = [0u8; 256];
    // SAFETY: the driver of ZFS writes at most 256 bytes, and others refuse the number.
    let got = unsafe { libc::ioctl(device.as_raw_fd(), BLKZNAME as _, name.as_mut_ptr()) };
    checked(got)?;
    let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// A part of a file that has space allocated on the storage below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u64,
    /// Allocated but not written: reads return zeroes without access to the device.
    pub unwritten: bool,
}

/// The extents of a file from its start to `length` bytes, in order, as FIEMAP reports them. With `settle`,
/// dirty pages are written back first; otherwise a freshly written file still appears unwritten.
///
/// # Errors
/// `EOPNOTSUPP` or `ENOTTY` if the file system does not support FIEMAP; those of fsync.
pub fn extents(file: BorrowedFd<'_>, length: u64, settle: bool) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    // Boxed, because 14 KiB is large for a worker's stack. SAFETY: RawFiemap consists of integers, for
    // which zeroes are valid.
    let mut map: Box<RawFiemap> = Box::new(unsafe { zeroed() });
    while start < length {
        map.start = start;
        map.length = length - start;
        map.flags = if settle { FIEMAP_FLAG_SYNC } else { 0 };
        map.mapped = 0;
        map.room = EXTENTS_A_CALL as u32;
        map.reserved = 0;
        // SAFETY: the descriptor is open for the call; the kernel writes the header and at most
        // `room` extents, which is the array's length.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut *map) };
        checked(result)?;
        let mapped = &map.extents[..(map.mapped as usize).min(EXTENTS_A_CALL)];
        found.extend(mapped.iter().map(|extent| Extent {
            offset: extent.logical,
            length: extent.length,
            unwritten: extent.flags & FIEMAP_EXTENT_UNWRITTEN != 0,
        }));
        let Some(last) = mapped.last() else { break };
        let end = last.logical.saturating_add(last.length);
        // Terminates the loop if the file system makes no progress.
        if last.flags & FIEMAP_EXTENT_LAST != 0 || end <= start {
            break;
        }
        start = end;
    }
    Ok(found)
}

#[repr(C)]
struct RawLoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// The backing file of an attached loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopFile {
    /// Its file system, as `st_dev` of stat(2).
    pub device: u64,
    /// Its inode, as `st_ino`.
    pub inode: u64,
    /// Number of the device, as `st_rdev`, if it is a device; 0 for a regular file.
    pub rdevice: u64,
    /// Offset at which the loop device begins, bytes.
    pub offset: u64,
}

/// The backing file of a loop device. Its name in sysfs may be from another mount namespace, truncated or
/// deleted; the inode identifies the file itself.
///
/// # Errors
/// `ENXIO` if no file is attached, `ENOTTY` for a file that is not a loop device.
pub fn loop_file(device: BorrowedFd<'_>) -> io::Result<LoopFile> {
    // SAFETY: RawLoopInfo is plain integers, for which zeroes are valid.
    let mut info: RawLoopInfo = unsafe { zeroed() };
    // SAFETY: the descriptor is open for the call; the kernel writes one loop_info64, whose layout
    // RawLoopInfo has.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) };
    checked(result)?;
    Ok(LoopFile {
        device: info.device,
        inode: info.inode,
        rdevice: info.rdevice,
        offset: info.offset,
    })
}

/// FS_IOC_GETVERSION, `_IOR('v', 1, long)`.
const GET_VERSION: u64 = 0x8008_7601;

/// The generation of an open file, which differs between files that used the same inode number. `None`: the file system
/// does not support it.
pub fn generation(file: BorrowedFd<'_>) -> Option<u32> {
    // File systems write 32 bits, although the number of the call says otherwise.
    let mut generation = 0i64;
    // SAFETY: the descriptor is open for the call; the kernel writes at most a long, the size of `generation`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), GET_VERSION as _, &raw mut generation) };
    (result == 0).then_some(generation as u32)
}

/// The process that holds an fcntl(2) lock on any byte of a file that conflicts with writing: its id, or -1 for an open
/// file description lock. `None`: unlocked. Ignores locks of this descriptor.
///
/// # Errors
/// Those of fcntl(2), `F_OFD_GETLK`.
pub fn file_lock(file: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    // SAFETY: flock is plain integers, for which zeroes are valid: all bytes from the beginning of the file.
    let mut lock: libc::flock = unsafe { zeroed() };
    lock.l_type = libc::F_WRLCK as _;
    // SAFETY: the descriptor is open for the call; the kernel reads and writes one flock.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    checked(result)?;
    let free = lock.l_type == libc::F_UNLCK as libc::c_short;
    Ok((!free).then_some(lock.l_pid))
}

/// Whether another process, visible here or not, or the kernel has a regular file open for writing, or maps it through
/// such a descriptor. The descriptor has to be read-only. `None`: unknown, because the file system does not
/// support leases (`F_SETLEASE` of fcntl(2)), or another user owns the file.
pub fn is_open_for_writing(file: BorrowedFd<'_>) -> Option<bool> {
    const F_SETSIG: i32 = 10;
    // SAFETY: these commands take only numbers.
    let fcntl = |command, value: i32| unsafe { libc::fcntl(file.as_raw_fd(), command, value) };
    // A process that opens the file for writing blocks until the lease ends, and this process gets a signal. SIGURG is
    // ignored by default.
    if fcntl(F_SETSIG, libc::SIGURG) < 0 {
        return None;
    }
    if fcntl(libc::F_SETLEASE, libc::F_RDLCK) < 0 {
        let busy = io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
        return busy.then_some(true);
    }
    fcntl(libc::F_SETLEASE, libc::F_UNLCK);
    Some(false)
}

/// Whether a thread shares the descriptor table of its process. `None`: unknown.
pub fn shares_descriptors(process: u32, thread: u32) -> Option<bool> {
    const KCMP_FILES: i32 = 2;
    // SAFETY: kcmp(2) with this type takes only numbers.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, process, thread, KCMP_FILES, 0u64, 0u64) };
    (order >= 0).then_some(order == 0)
}

/// Resource usage of this process since its start: all threads, including those that have exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUse {
    /// CPU time in user mode, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// Peak resident memory, bytes.
    pub memory: u64,
}

/// Resource usage of this process since its start.
pub fn process_use() -> ProcessUse {
    // SAFETY: rusage is plain integers, for which zeroes are valid.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: the kernel writes one rusage. RUSAGE_SELF with a valid pointer cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ProcessUse {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        memory: usage.ru_maxrss as u64 * 1024,
    }
}

const _: () = assert!(size_of::<RawLoopInfo>() == 232 && size_of::<RawExtent>() == 56);

/// The process at the other end of a Unix socket, or the one that listened there. `None`: another kind of socket, or a
/// process outside this PID namespace.
pub fn peer(socket: BorrowedFd<'_>) -> Option<u32> {
    // SAFETY: zeros are a valid value.
    let mut found: libc::ucred = unsafe { zeroed() };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the value has the given length, and outlives the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    u32::try_from(found.pid)
        .ok()
        .filter(|pid| result == 0 && *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_that_is_not_a_loop_device_has_no_backing_file() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = loop_file(file.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    fn this_process_uses_memory_and_more_cpu_as_it_computes() {
        let before = process_use();
        let mut sum = 0u64;
        let begin = std::time::Instant::now();
        let mut after = process_use();
        while after.user_ns + after.system_ns == before.user_ns + before.system_ns {
            assert!(begin.elapsed().as_secs() < 120, "it never uses more CPU");
            for _ in 0..10_000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
            }
            after = process_use();
        }
        assert!(after.user_ns >= before.user_ns && after.system_ns >= before.system_ns);
        assert!(after.memory > 1 << 20 && after.memory < 1 << 40);
    }

    #[test]
    fn the_other_end_of_a_unix_socket_is_known() {
        use std::os::fd::AsFd;
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(super::peer(one.as_fd()), Some(std::process::id()));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(super::peer(file.as_fd()), None);
    }
}
