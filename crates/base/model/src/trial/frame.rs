//! Frames: measurements of about one second.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
    /// From 0, without gaps; with several nodes in the order in which their frames arrived.
    pub number: u32,
    /// The node that measured it; empty if the trial has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
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

impl JobFrame {
    /// Adds the share of the same job on another node, or of a later part of the same second.
    fn add(&mut self, other: &JobFrame) {
        self.running += other.running;
        for done in &other.directions {
            let mut own = self.directions.iter_mut();
            match own.find(|own| own.direction == done.direction) {
                Some(own) => own.add(done),
                None => self.directions.push(done.clone()),
            }
        }
        self.directions.sort_by_key(|done| done.direction);
    }
}

impl DirectionFrame {
    fn add(&mut self, other: &DirectionFrame) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.service.merge(&other.service);
        if let Some(response) = &other.response {
            self.response.get_or_insert_default().merge(response);
        }
    }
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

    /// Adds what another node measured in the same time: counts are added up and histograms merged.
    fn add(&mut self, other: &Frame) {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.cpu_ns += other.cpu_ns;
        for job in &other.jobs {
            match self.jobs.iter_mut().find(|own| own.job == job.job) {
                Some(own) => own.add(job),
                None => self.jobs.push(job.clone()),
            }
        }
        self.jobs.sort_by_key(|job| job.job);
    }

    /// The sum of frames that different nodes measured in the same time; `None` without frames.
    pub fn sum<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Option<Frame> {
        let mut frames = frames.into_iter();
        let mut sum = frames.next()?.clone();
        sum.node = String::new();
        frames.for_each(|frame| sum.add(frame));
        Some(sum)
    }

    /// Removes its histograms and keeps its counts. Histograms of a ten-hour trial of many jobs would fill the memory
    /// of the host under test; they are in the store.
    pub fn drop_histograms(&mut self) {
        for direction in self.jobs.iter_mut().flat_map(|job| &mut job.directions) {
            direction.service = Histogram::default();
            direction.response = None;
        }
    }

    /// Frames of several nodes as frames of all nodes together: those of one step whose middles lie in the same second
    /// of the trial's clock are added up. Frames of a single node are returned as they are.
    pub fn of_all_nodes(frames: &[Frame]) -> Cow<'_, [Frame]> {
        let first = frames.first().map(|frame| &frame.node);
        if frames.iter().all(|frame| Some(&frame.node) == first) {
            return Cow::Borrowed(frames);
        }
        let mut merged: BTreeMap<(u64, Step), Frame> = BTreeMap::new();
        for frame in frames {
            let middle_ns = frame.start_ns + frame.span_ns() / 2;
            match merged.entry((middle_ns / 1_000_000_000, frame.step)) {
                Entry::Occupied(mut of_all) => of_all.get_mut().add(frame),
                Entry::Vacant(none) => {
                    let node = String::new();
                    let frame = frame.clone();
                    none.insert(Frame { node, ..frame });
                }
            }
        }
        let numbered = merged.into_values().zip(0..);
        Cow::Owned(
            numbered
                .map(|(frame, number)| Frame { number, ..frame })
                .collect(),
        )
    }

    /// The entries of one direction.
    pub fn of(&self, direction: Direction) -> impl Iterator<Item = &DirectionFrame> {
        self.jobs
            .iter()
            .flat_map(|job| &job.directions)
            .filter(move |frame| frame.direction == direction)
    }
}
