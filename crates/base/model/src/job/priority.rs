//! I/O priorities, as the kernel defines them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Direction, Histogram};

/// An I/O priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct IoPriority {
    /// 0 none, 1 real time, 2 best effort, 3 idle.
    pub class: u8,
    /// Level within the class, 0 (highest) to 7.
    pub level: u8,
    /// Hint to the device, 0 (none) to 1023.
    #[serde(default)]
    pub hint: u16,
}

impl IoPriority {
    /// The largest hint.
    pub const MAX_HINT: u16 = 1023;
    /// The class of real-time priorities, which needs a privilege.
    pub const REAL_TIME: u8 = 1;

    /// The kernel's number: class in the bits from 13, hint from 3, level from 0 (`linux/ioprio.h`).
    pub fn value(self) -> u16 {
        u16::from(self.class) << 13 | self.hint << 3 | u16::from(self.level)
    }
}

/// As fio prints it: class/level/hint.
impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.class, self.level, self.hint)
    }
}

/// A share of the ops of a direction that has a priority of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityShare {
    /// Read or write.
    pub direction: Direction,
    /// Only ops of this size, bytes; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// Percentage of these ops.
    pub percent: u32,
    /// Their priority.
    pub priority: IoPriority,
}

/// The latencies of the ops of one priority.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriorityResult {
    /// The priority.
    pub priority: IoPriority,
    /// Total latency if the job reports its percentiles (fio's `lat_percentiles`), otherwise completion latency, ns.
    pub latency: Histogram,
}
