//! The system calls that a server may make: a filter of seccomp(2).
//!
//! The list covers requests and the start and end of their threads. Operations of io_uring bypass the filter, so
//! io_uring is allowed only to servers that use it.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

/// What happens to a server that makes a forbidden system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// It is killed.
    Kill,
    /// The kernel logs the call, and carries it out.
    Log,
    /// It gets the signal SIGSYS.
    Trap,
}

/// Calls that every architecture has.
const ALLOWED: &[i64] = &[
    // Files and folders.
    libc::SYS_copy_file_range,
    libc::SYS_fallocate,
    libc::SYS_fchdir,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_fdatasync,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getxattr,
    libc::SYS_linkat,
    libc::SYS_listxattr,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_name_to_handle_at,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_open_by_handle_at,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pread64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_removexattr,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_setxattr,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_symlinkat,
    libc::SYS_syncfs,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    libc::SYS_write,
    libc::SYS_writev,
    // For the credentials of a request.
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getuid,
    libc::SYS_setgroups,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    // Descriptors and sockets. Calls that make or connect sockets are left out.
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads, times and signals.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_membarrier,
    libc::SYS_nanosleep,
    libc::SYS_prctl,
    libc::SYS_prlimit64,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_unshare,
];

/// Calls for which newer architectures have others.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_epoll_wait,
    libc::SYS_getdents,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Calls of a server that mounts its folder: it unmounts it at the end, and registers backing files for passthrough.
const MOUNTED: &[i64] = &[libc::SYS_ioctl, libc::SYS_umount2];

/// Calls of a server that reads or gets requests by io_uring.
const IO_URING: &[i64] = &[
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
];

/// Optional needs of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Its folder is mounted.
    pub mounted: bool,
    /// It uses io_uring.
    pub io_uring: bool,
}

/// Restricts all threads of this process, and those they start, to the system calls of a server. This is irreversible.
///
/// # Errors
/// The kernel does not support filters, or this architecture is not supported.
pub fn restrict(violation: Violation, needs: Needs) -> io::Result<()> {
    let action = match violation {
        Violation::Kill => SeccompAction::KillProcess,
        Violation::Log => SeccompAction::Log,
        Violation::Trap => SeccompAction::Trap,
    };
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let more = [(needs.mounted, MOUNTED), (needs.io_uring, IO_URING)];
    let more = (more.iter().filter(|(needed, _)| *needed)).flat_map(|(_, calls)| *calls);
    let calls = ALLOWED.iter().chain(OLDER).chain(more);
    let mut rules: BTreeMap<i64, Vec<_>> = calls.map(|call| (*call, Vec::new())).collect();
    // Messages are as wide as the terminal.
    let (second, equal) = (1, SeccompCmpOp::Eq);
    let width = (SeccompCondition::new(second, SeccompCmpArgLen::Dword, equal, libc::TIOCGWINSZ))
        .and_then(|asks| SeccompRule::new(vec![asks]))
        .map_err(|error| io::Error::other(seccompiler::Error::Backend(error)))?;
    rules.entry(libc::SYS_ioctl).or_insert_with(|| vec![width]);
    let filter = SeccompFilter::new(rules, action, SeccompAction::Allow, arch);
    let program: BpfProgram = (filter.and_then(TryInto::try_into)).map_err(io::Error::other)?;
    apply_filter_all_threads(&program).map_err(|error| match error {
        seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error) => error,
        other => io::Error::other(other),
    })
}
