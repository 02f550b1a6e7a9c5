//! One clone of file operations from its preparation to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use iodyno_model::{CpuUse, DepthUse, Direction, EndedBy, EngineUsed, Job, Operations, Step};
use iodyno_sys::thread::{exact_timers, thread_usage};
use iodyno_sys::{Clock, MonotonicClock};

use super::content::Contents;
use super::cycles::{Cycles, Until};
use super::drain::drain;
use super::folder::Folder;
use super::plan::Plan;
use super::{OperationsPart, share_count};
use crate::prepare::place;
use crate::shared::{CloneShared, Stop};
use crate::spec::{CloneOutcome, CloneSpec, StepSpan, WorkerError};
use crate::worker::used;

/// Keep the seeds of contents, files and arrivals apart.
const CONTENT: u64 = 0x9e37_79b9_7f4a_7c15;
const PICKS: u64 = 0xbf58_476d_1ce4_e5b9;
/// How late a stop may be heard before the start, ns.
const HEARING_NS: u64 = 50_000_000;

/// Counts a clone out once, whatever becomes of it.
struct Unfinished(Option<Arc<AtomicU32>>);

impl Unfinished {
    /// Whether all others have ended before.
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

/// Does the work of a clone; see [`crate::run`].
pub(crate) fn run(
    mut spec: CloneSpec,
    operations: &Operations,
    shared: &CloneShared,
) -> Result<CloneOutcome, WorkerError> {
    let part = spec.operations.take();
    let unfinished = Unfinished(part.as_ref().map(|part| Arc::clone(&part.unfinished)));
    let job = Arc::clone(&spec.job);
    let Some(part) = part else {
        return Err(impossible("the clone was given no folder".to_owned()));
    };
    let notes = place(&job.placement, spec.clone);
    exact_timers();
    let (cycles, contents_note) = prepare(&spec, &job, part, operations, shared)?;
    let life = Life {
        cycles,
        operations,
        job: &job,
        shared,
        clock: MonotonicClock,
        steps: Vec::with_capacity(3),
        broken: None,
        notes: notes.into_iter().chain(contents_note).collect(),
    };
    shared.gate.arrive(true);
    Ok(match shared.gate.wait() {
        Some(start) => life.run(&spec, start, unfinished),
        None => life.outcome(EndedBy::NotStarted, (0, 0), CpuUse::default()),
    })
}

fn impossible(cause: String) -> WorkerError {
    WorkerError {
        what: "do file operations".to_owned(),
        cause,
        hint: None,
    }
}

/// Everything reserved that the cycles need; a note where it is not as wished.
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
    let contents = Contents::new(&job.buffers, plan.longest_write, spec.seed ^ CONTENT);
    let contents = contents.map_err(|error| WorkerError {
        what: "reserve a buffer to write from".to_owned(),
        cause: error.to_string(),
        hint: Some("lower the number of threads".to_owned()),
    })?;
    let note = contents.note(&job.buffers);
    let seeds = (clones.0, clones.1, spec.seed ^ PICKS);
    let folder = Folder::new(part, operations, &mut plan, contents, seeds);
    let folder = folder.map_err(|(what, errno)| WorkerError {
        what,
        cause: errno.to_string(),
        hint: None,
    })?;
    Ok((Cycles::new(job, plan, folder, shared, spec.seed), note))
}

/// A clone at work, and what is known so far.
struct Life<'a> {
    cycles: Cycles<'a>,
    operations: &'a Operations,
    job: &'a Job,
    shared: &'a CloneShared,
    clock: MonotonicClock,
    steps: Vec<StepSpan>,
    broken: Option<WorkerError>,
    notes: Vec<String>,
}

impl Life<'_> {
    fn run(mut self, spec: &CloneSpec, start: u64, mut unfinished: Unfinished) -> CloneOutcome {
        while self.clock.now() < start && self.shared.told() == Stop::No {
            let now = self.clock.now();
            self.clock.sleep_until(start.min(now + HEARING_NS));
        }
        let mut now = self.clock.now();
        self.cycles.begin(now);
        let end = &self.job.end;
        let mut ended = None;
        if end.ramp.0 > 0 {
            let until = Until {
                instant: now.saturating_add(end.ramp.0),
                cycles: u64::MAX,
            };
            let shared = self.shared;
            let word = self.step(Step::Ramp, |cycles| cycles.run(&shared.ramp, until));
            ended = Some(word).filter(|word| *word != EndedBy::Runtime);
            now = self.clock.now();
            self.cycles.forget_ramp(ended.is_some());
        }
        let before = thread_usage();
        self.shared.set_measure_start(now);
        let mut stopped = now;
        if ended.is_none() {
            let until = Until {
                instant: end
                    .runtime
                    .map_or(u64::MAX, |span| now.saturating_add(span.0)),
                cycles: end.ops.map_or(u64::MAX, |ops| {
                    share_count(ops, spec.clone, self.job.clones.max(1))
                }),
            };
            let shared = self.shared;
            ended = Some(self.step(Step::Measure, |cycles| cycles.run(&shared.measure, until)));
            stopped = self.clock.now();
        }
        let ended = ended.unwrap_or(EndedBy::Error);
        // Where its time ended it, it is measured until then; otherwise until its last cycle was done.
        let measured_end = match ended {
            EndedBy::Runtime => stopped,
            _ => self.cycles.last_end().clamp(now, stopped),
        };
        self.shared.set_measure_end(measured_end);
        let cpu = used(before, thread_usage());
        self.cycles.close_all();
        self.broken = self.cycles.fault.take();
        let last = unfinished.leave();
        let ended = if self.cycles.failed {
            EndedBy::Error
        } else {
            ended
        };
        let ended = self.drain(ended, last);
        self.shared.enter(None);
        self.outcome(ended, (now, measured_end), cpu)
    }

    fn step(&mut self, step: Step, act: impl FnOnce(&mut Cycles<'_>) -> EndedBy) -> EndedBy {
        self.shared.enter(Some(step));
        let start = self.clock.now();
        let ended = act(&mut self.cycles);
        let end = self.clock.now();
        self.steps.push(StepSpan { step, start, end });
        ended
    }

    /// The last of all clones to end waits for the file system, unless the trial failed or the user
    /// ended it.
    fn drain(&mut self, ended: EndedBy, last: bool) -> EndedBy {
        let in_vain = ended == EndedBy::Error || self.shared.told() >= Stop::Finish;
        if !self.operations.drain || !last || in_vain {
            return ended;
        }
        self.shared.enter(Some(Step::Drain));
        let start = self.clock.now();
        let drained = drain(
            &self.cycles.folder.descriptor,
            &self.operations.sets,
            self.shared,
        );
        let end = drained.as_ref().map_or(start, |drained| drained.end);
        let step = Step::Drain;
        self.steps.push(StepSpan { step, start, end });
        match drained {
            Ok(drained) => {
                self.notes.extend(drained.restless.then(|| {
                    "the drain was given up after 60 s: free space still rose, perhaps by others, \
                     and its time is that of the sync alone"
                        .to_owned()
                }));
                ended
            }
            Err(errno) => {
                self.broken = Some(WorkerError {
                    what: format!(
                        "sync the file system of `{}`",
                        self.cycles.folder.path.display()
                    ),
                    cause: errno.to_string(),
                    hint: Some("see `dmesg`".to_owned()),
                });
                EndedBy::Error
            }
        }
    }

    fn outcome(self, ended: EndedBy, measured: (u64, u64), cpu: CpuUse) -> CloneOutcome {
        let cycles = self.shared.measure.of(Direction::Op).service.count();
        let mut depth = DepthUse::default();
        depth.level[0] = cycles;
        depth.turns = cycles;
        CloneOutcome {
            ended,
            broken: self.broken,
            measured,
            steps: self.steps,
            cpu,
            depth,
            errors: self.cycles.errors.counts,
            verify: None,
            engine: EngineUsed {
                name: "file operations".to_owned(),
                depth: 1,
                features: Vec::new(),
                fallbacks: self.notes,
            },
            // Each call is stamped on its own: none can have ended unseen.
            stamp_window: (0, 0),
        }
    }
}
