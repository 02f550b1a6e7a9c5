//! How work is asked to stop.

use serde::{Deserialize, Serialize};

/// A request to stop, from a signal to the worker thread that obeys it. Of two requests the greater one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum StopRequest {
    /// Go on.
    #[default]
    No,
    /// The `exitall` of another job ends this job: it submits no new ops, waits for those in flight, and then does
    /// its own end steps.
    ExitAll,
    /// The user ends the trial: as `ExitAll`, without the end steps. What was measured is kept.
    Finish,
    /// Cancel the ops in flight and return.
    Abort,
}

impl StopRequest {
    /// The request whose value (`as u8`) this is; [`StopRequest::Abort`] for greater values.
    #[inline]
    pub fn from_u8(value: u8) -> StopRequest {
        match value {
            0 => StopRequest::No,
            1 => StopRequest::ExitAll,
            2 => StopRequest::Finish,
            _ => StopRequest::Abort,
        }
    }
}
