//! Requests to stop.

use serde::{Deserialize, Serialize};

/// A request to stop, passed from a signal to the worker threads. The greatest request takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum StopRequest {
    /// Continue.
    #[default]
    No,
    /// The job's figures are steady: submit no new ops, wait for those in flight, then run the job's end steps.
    Steady,
    /// Another job's `exitall`: as `Steady`.
    ExitAll,
    /// The user ends the trial: as `Steady`, without the end steps. Measurements are kept.
    Finish,
    /// Cancel the ops in flight and return.
    Abort,
}

impl StopRequest {
    /// The request with this value (`as u8`); [`StopRequest::Abort`] for greater values.
    #[inline]
    pub fn from_u8(value: u8) -> StopRequest {
        match value {
            0 => StopRequest::No,
            1 => StopRequest::Steady,
            2 => StopRequest::ExitAll,
            3 => StopRequest::Finish,
            _ => StopRequest::Abort,
        }
    }
}
