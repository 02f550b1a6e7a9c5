//! Frames: measurements of about one second.

use serde::{Deserialize, Serialize};

use crate::{Direction, Histogram, Step};

/// The ops of one direction completed within a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionFrame {
    /// The direction.
    pub direction: Direction,
    /// Ops completed, failed ones left out.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Ops failed.
    pub errors: u64,
    /// Service latency: submitted → completed, ns.
    pub service: Histogram,
    /// Response latency: intended → completed, ns; if a rate was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Histogram>,
}

/// The share of one job (all its clones) in a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobFrame {
    /// Index of the job in the plan's workload.
    pub job: u32,
    /// Clones that were running at the frame's end.
    pub running: u32,
    /// Results by direction; only directions with any.
    pub directions: Vec<DirectionFrame>,
}

/// A period of a trial of about one second. Frames are consecutive without gaps and add up to the measured
/// figures of the whole trial. Frames of the ramp are marked by their step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// From 0, without gaps.
    pub number: u32,
    /// Start on the trial's clock (ns since its start instant).
    pub start_ns: u64,
    /// End on the trial's clock.
    pub end_ns: u64,
    /// `Ramp`, `Measure` or `Drain`.
    pub step: Step,
    /// CPU time of the harness in this frame, all threads, ns.
    pub cpu_ns: u64,
    /// Results by job.
    pub jobs: Vec<JobFrame>,
}

impl Frame {
    /// Ops completed in a direction, over all jobs.
    pub fn ops(&self, direction: Direction) -> u64 {
        self.of(direction).map(|frame| frame.ops).sum()
    }

    /// Bytes moved in a direction, over all jobs.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.of(direction).map(|frame| frame.bytes).sum()
    }

    /// The frame's length in ns.
    pub fn span_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// The entries of one direction.
    pub fn of(&self, direction: Direction) -> impl Iterator<Item = &DirectionFrame> {
        self.jobs
            .iter()
            .flat_map(|job| &job.directions)
            .filter(move |frame| frame.direction == direction)
    }
}
