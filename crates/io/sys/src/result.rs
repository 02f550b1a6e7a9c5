//! Results of system calls.

use std::io;

/// Converts the result of a call: unchanged, or −errno.
pub(crate) fn transferred(result: isize) -> i32 {
    match result {
        ..0 => -errno(&io::Error::last_os_error()),
        result => result as i32,
    }
}

/// The result of a call, which is negative if the call failed.
pub(crate) fn checked(result: impl Into<i64>) -> io::Result<i64> {
    match result.into() {
        ..0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// Converts the status of a call: 0, or −errno.
pub(crate) fn status(result: libc::c_int) -> i32 {
    transferred(result as isize)
}

/// The errno of a failed system call.
pub(crate) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
