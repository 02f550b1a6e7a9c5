//! Implements the lifecycle of a clone for file operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use iodyno_model::{DepthUse, EndedBy, EngineUsed, Job, MissedOps, Operations, Step, StopRequest};
use iodyno_sys::MonotonicClock;
use iodyno_sys::thread::exact_timers;

use super::command::CommandStep;
use super::content::Contents;
use super::cycles::Cycles;
use super::drain::drain;
use super::folder::Folder;
use super::plan::Plan;
use super::share_count;
use crate::counters::OpCounters;
use crate::lifecycle::{CloneWork, RunSummary, Steps, carry_out};
use crate::outcome::{CloneOutcome, WorkerError};
use crate::placement::place;
use crate::shared::CloneShared;
use crate::spec::{ClonePart, CloneSpec, OperationsPart};

/// Different seeds for contents, files and arrivals.
const CONTENT: u64 = 0x9e37_79b9_7f4a_7c15;
const PICKS: u64 = 0xbf58_476d_1ce4_e5b9;

/// Counts a clone as ended, exactly once, however it ends.
struct Unfinished(Option<Arc<AtomicU32>>);

impl Unfinished {
    /// Whether all other clones have ended already.
    fn leave(&mut self) -> bool {
        self.0
            .take()
            .is_some_and(|left| left.fetch_sub(1, Ordering::AcqRel) == 1)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Runs a clone; see [`crate::run`].
pub(crate) fn run(
    mut spec: CloneSpec,
    operations: &Operations,
    shared: &CloneShared,
) -> Result<CloneOutcome, WorkerError> {
    let ClonePart::FileOperations(part) = std::mem::take(&mut spec.part) else {
        return Err(impossible("the clone was given no folder".to_owned()));
    };
    let unfinished = Unfinished(Some(Arc::clone(&part.unfinished)));
    let job = Arc::clone(&spec.job);
    let notes = place(&job.placement, spec.clone);
    exact_timers();
    let (cycles, contents_note) = prepare(&spec, &job, part, operations, shared)?;
    let work = FileOperationsClone {
        cycles,
        operations,
        unfinished,
        share: job.end.ops.map_or(u64::MAX, |ops| {
            share_count(ops, spec.clone, job.clones.max(1))
        }),
        clock: MonotonicClock,
        name: job.work.engine_name().to_owned(),
        notes: notes.into_iter().chain(contents_note).collect(),
    };
    Ok(carry_out(work, &job, &spec.output, shared))
}

fn impossible(cause: String) -> WorkerError {
    WorkerError::new("do file operations", cause)
}

/// Allocates everything that the cycles need. Adds a note if the memory is not as requested.
fn prepare<'a>(
    spec: &CloneSpec,
    job: &'a Job,
    part: OperationsPart,
    operations: &Operations,
    shared: &'a CloneShared,
) -> Result<(Cycles<'a>, Option<String>), WorkerError> {
    let clones = (spec.clone, job.clones.max(1));
    let mut plan = Plan::new(operations, &part.prefix, clones)
        .map_err(|faults| impossible(faults.join("; ")))?;
    let contents = Contents::new(
        &job.buffers,
        plan.longest_write,
        operations.writing.chunk,
        spec.seed ^ CONTENT,
    );
    let contents = contents.map_err(|error| {
        WorkerError::new("reserve a buffer to write from", error)
            .hint("lower the number of threads")
    })?;
    let note = contents.note(&job.buffers);
    let seeds = (clones.0, clones.1, spec.seed ^ PICKS);
    let folder = Folder::new(part, operations, &mut plan, contents, seeds);
    let mut folder = folder.map_err(|(what, errno)| WorkerError::new(what, errno))?;
    folder.command = CommandStep::of(operations)?;
    Ok((Cycles::new(job, plan, folder, shared, spec.seed), note))
}

struct FileOperationsClone<'a> {
    cycles: Cycles<'a>,
    operations: &'a Operations,
    unfinished: Unfinished,
    /// Number of cycles of the measured time for this clone.
    share: u64,
    clock: MonotonicClock,
    /// The engine's name in results.
    name: String,
    notes: Vec<String>,
}

impl CloneWork for FileOperationsClone<'_> {
    type Clock = MonotonicClock;

    fn clock(&self) -> &MonotonicClock {
        &self.clock
    }

    fn begin(&mut self, now: u64) {
        self.cycles.begin(now);
    }

    fn run(&mut self, counters: &OpCounters, until: u64) -> Result<EndedBy, WorkerError> {
        Ok(self.cycles.run(counters, until))
    }

    fn discard_ramp(&mut self) {
        self.cycles.discard_ramp();
    }

    fn measure(&mut self, _now: u64) {
        self.cycles.measure(self.share);
    }

    /// Each call returns before the next begins: nothing is in flight.
    fn drain(&mut self, _steps: &mut Steps<'_>) {}

    fn last_end(&self) -> Option<u64> {
        Some(self.cycles.last_end())
    }

    fn missed(&self, until: u64) -> Vec<MissedOps> {
        self.cycles.missed(until).into_iter().collect()
    }

    /// Closes open files. The last clone that ends waits for the file system, unless the trial failed or the user
    /// ended it.
    fn end_steps(&mut self, steps: &mut Steps<'_>, ended: EndedBy) -> EndedBy {
        self.cycles.close_all();
        if let Some(fault) = self.cycles.fault.take() {
            steps.fail(fault);
        }
        let last = self.unfinished.leave();
        let failed = self.cycles.failed || ended == EndedBy::Error;
        if failed {
            return EndedBy::Error;
        }
        let stopped = steps.shared.stop_request() >= StopRequest::Finish;
        if !self.operations.drain || !last || stopped {
            return ended;
        }
        let shared = steps.shared;
        let drained = steps.run(self, Step::Drain, |work| {
            let folder = &work.cycles.folder;
            drain(&folder.descriptor, &work.operations.sets, shared).map_err(|errno| {
                WorkerError::new(
                    format!("sync the file system of `{}`", folder.path.display()),
                    errno,
                )
                .hint("see `dmesg`")
            })
        });
        let Some(drained) = drained else {
            return EndedBy::Error;
        };
        steps.ended_at(drained.end);
        self.notes.extend(drained.restless.then(|| {
            "the drain was given up after 60 s: free space still rose, perhaps by others, \
             and its time is that of the sync alone"
                .to_owned()
        }));
        ended
    }

    fn outcome(self, summary: RunSummary) -> CloneOutcome {
        let mut depth = DepthUse::default();
        depth.level[0] = self.cycles.count();
        depth.turns = self.cycles.count();
        let engine = EngineUsed {
            name: self.name,
            depth: 1,
            features: Vec::new(),
            fallbacks: self.notes,
        };
        let command = self.cycles.folder.command.as_ref();
        let (command, used) = command.map(CommandStep::results).unzip();
        // Each call has its own timestamps, so no completion waits unseen.
        let mut outcome = summary.outcome(depth, self.cycles.errors.into_vec(), engine);
        outcome.cpu.add(&used.unwrap_or_default());
        outcome.command = command;
        outcome
    }
}
