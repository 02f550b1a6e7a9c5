//! Which failed ops a job survives.

use serde::{Deserialize, Serialize};

/// A failed op is always counted by errno; here is whether the job goes on after it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErrorPolicy {
    /// After a failed read.
    pub continue_read: bool,
    /// After a failed write (and sync, and trim).
    pub continue_write: bool,
    /// After a block that fails verification.
    pub continue_verify: bool,
    /// Errnos of reads that do not count (fio's `ignore_error`).
    pub ignore_read: Vec<i32>,
    /// Errnos of writes that do not count.
    pub ignore_write: Vec<i32>,
    /// A job that fails ends all others.
    pub exit_all: bool,
}
