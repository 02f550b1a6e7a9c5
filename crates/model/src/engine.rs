//! How ops reach the kernel.

use serde::{Deserialize, Serialize};

/// The kind of backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// pread, pwrite.
    Psync,
    /// lseek, then read or write.
    Sync,
    /// preadv2, pwritev2 (RWF flags with `hipri`).
    Pvsync2,
    /// io_submit, io_getevents.
    Libaio,
    /// io_uring.
    IoUring,
    /// aio_read, aio_write of the C library.
    Posixaio,
    /// Memory copies to and from a mapped file.
    Mmap,
    /// Completes at once and touches nothing: measures the harness.
    Null,
    /// A seeded latency law: for tests.
    Sim,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: [EngineKind; 9] = [
        EngineKind::Psync,
        EngineKind::Sync,
        EngineKind::Pvsync2,
        EngineKind::Libaio,
        EngineKind::IoUring,
        EngineKind::Posixaio,
        EngineKind::Mmap,
        EngineKind::Null,
        EngineKind::Sim,
    ];

    /// fio's name (ours for `sim`).
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Psync => "psync",
            EngineKind::Sync => "sync",
            EngineKind::Pvsync2 => "pvsync2",
            EngineKind::Libaio => "libaio",
            EngineKind::IoUring => "io_uring",
            EngineKind::Posixaio => "posixaio",
            EngineKind::Mmap => "mmap",
            EngineKind::Null => "null",
            EngineKind::Sim => "sim",
        }
    }

    /// One op at a time, whatever depth was asked for.
    pub fn synchronous(self) -> bool {
        matches!(
            self,
            EngineKind::Psync | EngineKind::Sync | EngineKind::Pvsync2 | EngineKind::Mmap
        )
    }

    /// Submission is a system call of its own, so that its latency means something.
    pub fn submits_apart(self) -> bool {
        matches!(self, EngineKind::Libaio | EngineKind::Posixaio)
    }

    /// Touches no file.
    pub fn without_files(self) -> bool {
        matches!(self, EngineKind::Null | EngineKind::Sim)
    }
}

/// The law of a simulated device's service times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimLaw {
    /// Always this many ns.
    Constant(u64),
    /// Exponential with this mean in ns.
    Exponential(u64),
    /// Log-normal with this median in ns and this σ.
    LogNormal {
        /// Median, ns.
        median_ns: u64,
        /// σ of the logarithm.
        sigma: f64,
    },
}

/// A fault of a simulated device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimFault {
    /// Every n-th op fails with this errno.
    Errno {
        /// Every so many ops.
        every: u64,
        /// The errno.
        errno: i32,
    },
    /// Every n-th op moves only half of its bytes.
    Short {
        /// Every so many ops.
        every: u64,
    },
    /// No op completes from this instant (ns after the first op) for this long.
    Stall {
        /// ns after the first op.
        from_ns: u64,
        /// ns.
        for_ns: u64,
    },
}

/// The time that a simulated device lives in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimClock {
    /// Virtual: it moves from event to event, as fast as the host computes. A trial runs in it where all its jobs
    /// use simulated devices and none asks for real time.
    #[default]
    Virtual,
    /// The host's clock.
    Real,
}

impl SimClock {
    /// What plans meant that were stored before there was a choice.
    fn real() -> SimClock {
        SimClock::Real
    }
}

/// The simulated device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimOptions {
    /// Service times.
    pub law: SimLaw,
    /// Ops served at once; further ones queue. 0: without limit.
    pub servers: u32,
    /// Faults.
    pub faults: Vec<SimFault>,
    /// The time it lives in.
    #[serde(default = "SimClock::real")]
    pub clock: SimClock,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            law: SimLaw::Constant(100_000),
            servers: 0,
            faults: Vec::new(),
            clock: SimClock::default(),
        }
    }
}

/// The backend and how it is driven.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// Which.
    pub kind: EngineKind,
    /// Ops in flight at most (1 for synchronous engines).
    pub depth: u32,
    /// Refill to `depth` only once no more than this are in flight; 0 means `depth`.
    pub depth_low: u32,
    /// Submit at most this many ops in one kernel entry; 0: one; with io_uring as many as are in flight, or all
    /// where none is.
    pub batch_submit: u32,
    /// Wait for at least so many completions in one kernel entry; at least 1.
    pub batch_complete_min: u32,
    /// Reap at most so many in one kernel entry; 0: `depth`.
    pub batch_complete_max: u32,
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC.
    pub o_sync: bool,
    /// O_DSYNC.
    pub o_dsync: bool,
    /// Polled completions (IOPOLL, RWF_HIPRI).
    pub hipri: bool,
    /// A kernel thread submits (SQPOLL).
    pub sqthread_poll: bool,
    /// … pinned there.
    pub sqthread_poll_cpu: Option<u32>,
    /// Buffers registered with the ring. `None`: where the kernel allows it.
    pub fixed_buffers: Option<bool>,
    /// Files registered with the ring. `None`: where the kernel allows it.
    pub registered_files: Option<bool>,
    /// Ops are issued without attempting them inline first (IOSQE_ASYNC).
    pub force_async: bool,
    /// RWF_NOWAIT on reads and writes.
    pub nowait: bool,
    /// RWF_ATOMIC on writes: each is stored whole or not at all.
    #[serde(default)]
    pub atomic: bool,
    /// The simulated device of the `sim` engine.
    pub sim: Option<SimOptions>,
}

impl Engine {
    /// An engine with everything at its default.
    pub fn new(kind: EngineKind, depth: u32) -> Engine {
        Engine {
            kind,
            depth: if kind.synchronous() { 1 } else { depth },
            depth_low: 0,
            batch_submit: 0,
            batch_complete_min: 1,
            batch_complete_max: 0,
            direct: false,
            o_sync: false,
            o_dsync: false,
            hipri: false,
            sqthread_poll: false,
            sqthread_poll_cpu: None,
            fixed_buffers: None,
            registered_files: None,
            force_async: false,
            nowait: false,
            atomic: false,
            sim: None,
        }
    }
}
