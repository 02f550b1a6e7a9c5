//! Replay of a trace of ops.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Direction;

/// The ops of a job come from a trace: fio's iolog, or the binary form of blktrace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The traces, assigned to clones in turn.
    pub traces: Vec<PathBuf>,
    /// As fast as possible, in the order of the trace; otherwise each op is due at its time.
    pub no_stall: bool,
    /// Speed of the trace's time, percent; at least 1.
    pub time_percent: u32,
    /// The file or device of all ops in place of those of the trace.
    pub redirect: Option<PathBuf>,
    /// Offsets are divided by this number; at least 1.
    pub scale: u64,
    /// Offsets are rounded down to multiples of this number of bytes, a power of two; 0: not at all.
    pub align: u64,
    /// Ops that are left out.
    pub skip: Vec<Direction>,
}

impl Default for Replay {
    /// The trace as it is; without a file.
    fn default() -> Replay {
        Replay {
            traces: Vec::new(),
            no_stall: false,
            time_percent: 100,
            redirect: None,
            scale: 1,
            align: 0,
            skip: Vec::new(),
        }
    }
}
