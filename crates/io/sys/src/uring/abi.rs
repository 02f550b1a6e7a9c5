//! The structures and constants of `linux/io_uring.h` that are in use.

/// A submission queue entry.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sqe {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) ioprio: u16,
    pub(super) fd: i32,
    pub(super) off: u64,
    pub(super) addr: u64,
    pub(super) len: u32,
    pub(super) op_flags: u32,
    pub(super) user_data: u64,
    pub(super) buf_index: u16,
    pub(super) personality: u16,
    pub(super) file_index: u32,
    pub(super) addr3: u64,
    pub(super) pad: u64,
}

/// A completion queue entry.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Cqe {
    pub(super) user_data: u64,
    pub(super) res: i32,
    pub(super) flags: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SqOffsets {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) ring_mask: u32,
    pub(super) ring_entries: u32,
    pub(super) flags: u32,
    pub(super) dropped: u32,
    pub(super) array: u32,
    pub(super) resv1: u32,
    pub(super) user_addr: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CqOffsets {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) ring_mask: u32,
    pub(super) ring_entries: u32,
    pub(super) overflow: u32,
    pub(super) cqes: u32,
    pub(super) flags: u32,
    pub(super) resv1: u32,
    pub(super) user_addr: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Params {
    pub(super) sq_entries: u32,
    pub(super) cq_entries: u32,
    pub(super) flags: u32,
    pub(super) sq_thread_cpu: u32,
    pub(super) sq_thread_idle: u32,
    pub(super) features: u32,
    pub(super) wq_fd: u32,
    pub(super) resv: [u32; 3],
    pub(super) sq_off: SqOffsets,
    pub(super) cq_off: CqOffsets,
}

/// The extended argument of `io_uring_enter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GeteventsArg {
    pub(super) sigmask: u64,
    pub(super) sigmask_sz: u32,
    pub(super) min_wait_usec: u32,
    pub(super) ts: u64,
}

/// `struct __kernel_timespec`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timespec {
    pub(super) seconds: i64,
    pub(super) nanos: i64,
}

impl Timespec {
    /// A duration in ns.
    #[inline]
    pub(super) fn of(ns: u64) -> Timespec {
        Timespec {
            seconds: (ns / 1_000_000_000) as i64,
            nanos: (ns % 1_000_000_000) as i64,
        }
    }
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RsrcUpdate {
    pub(super) offset: u32,
    pub(super) resv: u32,
    pub(super) data: u64,
}

pub(super) mod setup {
    pub(in super::super) const IOPOLL: u32 = 1 << 0;
    pub(in super::super) const SQPOLL: u32 = 1 << 1;
    pub(in super::super) const SQ_AFF: u32 = 1 << 2;
    pub(in super::super) const CLAMP: u32 = 1 << 4;
    pub(in super::super) const COOP_TASKRUN: u32 = 1 << 8;
    /// Entries of the submission queue have 128 bytes instead of 64.
    pub(in super::super) const SQE128: u32 = 1 << 10;
    /// Entries of the completion queue have 32 bytes instead of 16.
    pub(in super::super) const CQE32: u32 = 1 << 11;
    pub(in super::super) const SINGLE_ISSUER: u32 = 1 << 12;
    pub(in super::super) const DEFER_TASKRUN: u32 = 1 << 13;
    pub(in super::super) const NO_SQARRAY: u32 = 1 << 16;
}

pub(super) mod feature {
    pub(in super::super) const SINGLE_MMAP: u32 = 1 << 0;
    pub(in super::super) const EXT_ARG: u32 = 1 << 8;
}

pub(super) mod enter {
    pub(in super::super) const GETEVENTS: u32 = 1 << 0;
    pub(in super::super) const SQ_WAKEUP: u32 = 1 << 1;
    pub(in super::super) const EXT_ARG: u32 = 1 << 3;
    pub(in super::super) const REGISTERED_RING: u32 = 1 << 4;
}

pub(super) mod register {
    pub(in super::super) const BUFFERS: u32 = 0;
    pub(in super::super) const FILES: u32 = 2;
    pub(in super::super) const EVENTFD: u32 = 4;
    pub(in super::super) const FILES_UPDATE: u32 = 6;
    pub(in super::super) const PERSONALITY: u32 = 9;
    pub(in super::super) const IOWQ_MAX_WORKERS: u32 = 19;
    pub(in super::super) const RING_FDS: u32 = 20;
}

pub(super) mod op {
    pub(in super::super) const READV: u8 = 1;
    pub(in super::super) const WRITEV: u8 = 2;
    pub(in super::super) const FSYNC: u8 = 3;
    pub(in super::super) const READ_FIXED: u8 = 4;
    pub(in super::super) const WRITE_FIXED: u8 = 5;
    pub(in super::super) const POLL_ADD: u8 = 6;
    pub(in super::super) const TIMEOUT: u8 = 11;
    pub(in super::super) const ASYNC_CANCEL: u8 = 14;
    pub(in super::super) const FALLOCATE: u8 = 17;
    pub(in super::super) const READ: u8 = 22;
    pub(in super::super) const WRITE: u8 = 23;
    pub(in super::super) const URING_CMD: u8 = 46;
}

/// Offset of the command in an entry with [`setup::SQE128`], and its size, bytes.
pub(super) const COMMAND: usize = 48;
pub(super) const COMMAND_BYTES: usize = 80;
pub(super) const SQE_FIXED_FILE: u8 = 1 << 0;
pub(super) const SQE_ASYNC: u8 = 1 << 4;
/// The events of a poll that are waited for, as the kernel reads them.
pub(super) const POLL_IN: u32 = (libc::POLLIN as u32).to_le();
pub(super) const POLL_OUT: u32 = (libc::POLLOUT as u32).to_le();
pub(super) const FSYNC_DATASYNC: u32 = 1;
pub(super) const CANCEL_ALL: u32 = 1 << 0;
pub(super) const CANCEL_ANY: u32 = 1 << 2;
pub(super) const SQ_NEED_WAKEUP: u32 = 1 << 0;
pub(super) const OFF_SQ_RING: i64 = 0;
pub(super) const OFF_SQES: i64 = 0x1000_0000;
