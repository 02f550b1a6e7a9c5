//! Error policy: which failed ops a job tolerates.

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::PerDirection;

/// Whether a job continues after a failed op. Failed ops are always counted by errno. As in fio, only EIO, EILSEQ and
/// reads beyond the end are continued after; any other errno ends the job unless it is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ErrorPolicy {
    /// Continue after a failed read.
    pub continue_read: bool,
    /// Continue after a failed write, sync or trim.
    pub continue_write: bool,
    /// Continue after a block that fails verification.
    pub continue_verify: bool,
    /// Errnos of reads that are not counted as errors (fio's `ignore_error`).
    pub ignore_read: Vec<i32>,
    /// Errnos of writes that are not counted as errors.
    pub ignore_write: Vec<i32>,
    /// A longer latency fails the job; 0: no latency does.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub max_latency: PerDirection<Nanos>,
    /// A failure of this job ends the clones that the job's `exit_what` names.
    pub exit_all: bool,
}
