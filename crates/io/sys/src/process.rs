//! Child processes: their end, with what they used.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use crate::thread::Usage;

/// The environment variable that names what started a process: the step of a layer, or the folder of a command.
pub const STEP_VARIABLE: &str = "IODYNO_STEP";

/// Waits for the end of a child process. Returns its status and what it and the children that it waited for have used,
/// without `run_delay_ns`.
///
/// # Errors
/// ECHILD: it is not a child of this process, or was already waited for.
pub fn wait(pid: u32) -> io::Result<(ExitStatus, Usage)> {
    loop {
        let mut status = 0;
        // SAFETY: all zero bits are a valid rusage, which the kernel fills; both pointers outlive the call.
        let (found, raw) = unsafe {
            let mut raw: libc::rusage = std::mem::zeroed();
            let found = libc::wait4(pid.cast_signed(), &raw mut status, 0, &raw mut raw);
            (found, raw)
        };
        if found >= 0 {
            return Ok((ExitStatus::from_raw(status), Usage::of(&raw)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_usage_of_a_child_contains_that_of_its_own_children() {
        let script = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; exit 3";
        let mut command = Command::new("/bin/sh");
        let pid = command.args(["-c", script]).spawn().map(|child| child.id());
        let pid = pid.unwrap();
        let (status, usage) = wait(pid).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(usage.user_ns + usage.system_ns > 1_000_000, "{usage:?}");
        assert_eq!(wait(pid).unwrap_err().raw_os_error(), Some(libc::ECHILD));
    }
}
