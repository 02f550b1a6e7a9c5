//! The calling thread: CPU affinity, scheduling, resource usage.

use crate::result::checked;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use iodyno_model::IoPriority;

/// CPU time, context switches and page faults of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// User mode, ns (µs resolution).
    pub user_ns: u64,
    /// Kernel mode, ns.
    pub system_ns: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Bytes read from block devices.
    pub read_bytes: u64,
    /// Bytes written to block devices, or to the page cache for them.
    pub written_bytes: u64,
    /// Time spent runnable while waiting for a CPU, ns; `None`: the kernel does not count it.
    pub run_delay_ns: Option<u64>,
}

/// Usage of the calling thread so far.
pub fn thread_usage() -> Usage {
    Usage {
        run_delay_ns: run_delay_ns(),
        ..quick_thread_usage()
    }
}

/// The same by one system call, without `run_delay_ns`.
pub fn quick_thread_usage() -> Usage {
    // SAFETY: all zero bits are a valid rusage, which the kernel fills; it outlives the call.
    let raw = unsafe {
        let mut raw: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut raw);
        raw
    };
    Usage::of(&raw)
}

impl Usage {
    /// Without `run_delay_ns`.
    pub(crate) fn of(raw: &libc::rusage) -> Usage {
        /// The unit of the kernel's counters of blocks, bytes.
        const BLOCK: u64 = 512;
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Usage {
            user_ns: ns(raw.ru_utime),
            system_ns: ns(raw.ru_stime),
            voluntary: raw.ru_nvcsw as u64,
            involuntary: raw.ru_nivcsw as u64,
            minor_faults: raw.ru_minflt as u64,
            major_faults: raw.ru_majflt as u64,
            read_bytes: raw.ru_inblock as u64 * BLOCK,
            written_bytes: raw.ru_oublock as u64 * BLOCK,
            run_delay_ns: None,
        }
    }
}

/// The second number of schedstat (kernel, scheduler/sched-stats.rst).
fn run_delay_ns() -> Option<u64> {
    RunDelay::of_this_thread().read()
}

/// The time in which a thread was ready to run and waited for a CPU.
#[derive(Debug, Default)]
pub struct RunDelay(Option<File>);

impl RunDelay {
    /// The run delay of the calling thread, readable from any thread.
    pub fn of_this_thread() -> RunDelay {
        RunDelay(File::open("/proc/thread-self/schedstat").ok())
    }

    /// That of a process without its children, also once it has ended, until its parent waits for it.
    pub fn of_process(pid: u32) -> RunDelay {
        RunDelay(File::open(format!("/proc/{pid}/schedstat")).ok())
    }

    /// The time so far, ns; `None`: the kernel does not count it. One system call, without allocation.
    pub fn read(&self) -> Option<u64> {
        let mut text = [0; 64];
        let length = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

/// Restricts the calling thread to these CPUs.
///
/// # Errors
/// EINVAL if none of them is online or allowed.
pub fn pin_to(cpus: &[u32]) -> io::Result<()> {
    let mut mask = [0u64; 128];
    for cpu in cpus {
        let word = mask
            .get_mut(*cpu as usize / 64)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        *word |= 1 << (cpu % 64);
    }
    // SAFETY: the mask outlives the call and has the given length.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            0,
            size_of_val(&mask),
            mask.as_ptr(),
        )
    };
    checked(result).map(drop)
}

/// Gives the calling thread its own working directory and umask, which threads otherwise share.
pub fn own_directory() {
    // SAFETY: the argument is a plain number. Nothing is shared less safely than before; it needs no permission.
    unsafe { libc::unshare(libc::CLONE_FS) };
}

/// Sets the calling thread's nice value.
///
/// # Errors
/// EACCES below 0 without privilege.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: the arguments are plain numbers. On Linux, 0 names the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    checked(result).map(drop)
}

/// Sets the calling thread's I/O priority.
///
/// # Errors
/// EPERM for the real-time class without privilege, EINVAL for a hint before Linux 6.6.
pub fn set_io_priority(priority: IoPriority) -> io::Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    let value = libc::c_int::from(priority.value());
    // SAFETY: the arguments are plain numbers. 0 names the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    checked(result).map(drop)
}

/// Makes timed waits of the calling thread end on time, without the timer slack that saves power.
pub fn exact_timers() {
    // SAFETY: the arguments are plain numbers; a failure leaves the default slack of 50 µs.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}
