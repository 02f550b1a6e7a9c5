//! Results of a clone.

use serde::{Deserialize, Serialize};

use crate::{Direction, DirectionResult, SteadyResult, VerifyResult};

/// Why a clone ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its runtime was over.
    Runtime,
    /// Its size (or io_size, or loops) was reached.
    Size,
    /// Its number of ops was reached.
    Count,
    /// The user, a signal, or the parent's death.
    Interruption,
    /// The storage made no progress ([`crate::Plan::stuck_after_ns`]).
    Stuck,
    /// An op failed.
    Error,
    /// Another job's `exitall`.
    ExitAll,
    /// Its figures were steady.
    Steady,
    /// It did not start.
    NotStarted,
}

/// CPU time of a clone's thread, and of the commands that it ran, in the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuUse {
    /// In user mode, ns.
    pub user_ns: u64,
    /// In the kernel, ns.
    pub system_ns: u64,
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Time in which the thread was ready to run and waited for a CPU, ns (/proc/PID/task/TID/schedstat); `None`:
    /// unknown.
    #[serde(default)]
    pub run_delay_ns: Option<u64>,
}

impl CpuUse {
    /// Adds what a child process used.
    pub fn add(&mut self, child: &CpuUse) {
        self.user_ns += child.user_ns;
        self.system_ns += child.system_ns;
        self.voluntary += child.voluntary;
        self.involuntary += child.involuntary;
        self.minor_faults += child.minor_faults;
        self.major_faults += child.major_faults;
    }
}

/// Number of ops in flight at each submission, and batch sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DepthUse {
    /// Ops submitted at a depth of 1, 2–3, 4–7, 8–15, 16–31, 32–63, ≥ 64.
    pub level: [u64; 7],
    /// Ops submitted in batches of 0, 1–4, 5–8, 9–16, 17–32, 33–64, > 64.
    pub submit: [u64; 7],
    /// Ops reaped in batches of 0, 1–4, 5–8, 9–16, 17–32, 33–64, > 64.
    pub complete: [u64; 7],
    /// Kernel entries.
    pub turns: u64,
    /// The depth that a search by latency ended at; 0: there was none.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub found: u32,
}

/// Failed ops with the same direction and errno.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// Direction.
    pub direction: Direction,
    /// errno.
    pub errno: i32,
    /// Number of failures.
    pub count: u64,
    /// File of the first failure.
    pub first_file: String,
    /// Offset of the first failure in its file, bytes.
    pub first_offset: u64,
    /// Length of the op that failed first, bytes; 0: unknown, or the op has none.
    #[serde(default)]
    pub first_length: u64,
}

/// The engine and the features in use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EngineUsed {
    /// fio's name.
    pub name: String,
    /// Depth used.
    pub depth: u32,
    /// Features used (`registered files`, `defer_taskrun`, …).
    pub features: Vec<String>,
    /// Requested features that were not available, with the reason.
    pub fallbacks: Vec<String>,
}

/// Everything one clone measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CloneResult {
    /// Index of the job in the workload.
    pub job: u32,
    /// Number of the clone in the job, from 0.
    pub clone: u32,
    /// Start of its measured time on the trial's clock, ns.
    pub start_ns: u64,
    /// Measured time, ns.
    pub runtime_ns: u64,
    /// When its work was stored as its job requires: the end of its drain and of its end fsync on the
    /// trial's clock, ns; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_ns: Option<u64>,
    /// Why it ended.
    pub ended: EndedBy,
    /// Only directions with ops or errors.
    pub directions: Vec<DirectionResult>,
    /// Reads that only verify what the clone itself wrote; they are not part of `directions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_reads: Option<DirectionResult>,
    /// CPU.
    pub cpu: CpuUse,
    /// Depths.
    pub depth: DepthUse,
    /// Failed ops.
    pub errors: Vec<ErrorCount>,
    /// Result of verification, if requested.
    pub verify: Option<VerifyResult>,
    /// Engine in use.
    pub engine: EngineUsed,
    /// Total size of its region in all files, bytes.
    pub region_bytes: u64,
    /// Files in use (the first few).
    pub files: Vec<String>,
    /// Maximum delay between a completion and its detection, ns: p50 and p99.
    pub stamp_window_ns: (u64, u64),
    /// Ops that were still in flight when the storage was found stuck or the clone was given up, the oldest first (the
    /// first few).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<OpInFlight>,
    /// Ops that were due by the end of the runtime and not issued; empty if there were none, or no rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedOps>,
    /// Whether it became steady, if its job ends then. With group reporting, that of the group, in its first clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyResult>,
    /// The executions of its command, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandResult>,
}

/// The executions of a clone's command in the measured time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CommandResult {
    /// Number of executions with an exit status other than 0.
    pub failed: u64,
    /// The largest exit status; 128 + N for signal N.
    pub exit_status: i32,
    /// For each metric of its output, in the order of the plan: the mean over the executions; empty
    /// if none ended with all of them.
    pub values: Vec<f64>,
    /// Bytes that the command and the children that it waited for read from and wrote to devices in all executions;
    /// `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<[u64; 2]>,
    /// The last part of the output of the last execution: standard output, then standard error.
    pub output: String,
}

impl CloneResult {
    /// Number of ops of this direction, or of all (`None`), that were due and not issued.
    pub fn missed_ops(&self, direction: Option<Direction>) -> u64 {
        let missed = self.missed.iter();
        let missed = missed.filter(|missed| missed.direction == direction);
        missed.map(|missed| missed.ops).sum()
    }

    /// The result of a direction.
    pub fn direction(&self, direction: Direction) -> Option<&DirectionResult> {
        self.directions
            .iter()
            .find(|result| result.direction == direction)
    }
}

/// Ops that were due by the rate that a job asks for, and not issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedOps {
    /// The direction that has the rate; `None`: the rate is that of all ops of the clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Their number; estimated if intervals are random or block sizes vary.
    pub ops: u64,
}

impl MissedOps {
    /// `None` if there are none.
    pub fn some(direction: Option<Direction>, ops: u64) -> Option<MissedOps> {
        (ops > 0).then_some(MissedOps { direction, ops })
    }
}

/// An op that did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpInFlight {
    /// Its kind.
    pub direction: Direction,
    /// The file, or the folder of file operations.
    pub file: String,
    /// Offset in the file, bytes; `None` for syncs and file operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// When it began, on the trial's clock, ns.
    pub since_ns: u64,
}
