//! One clone from its preparation to its end.

use iodyno_model::{CpuUse, EndedBy, EngineUsed, Step, Verify, Work};
use iodyno_sys::thread::Usage;
use iodyno_sys::{Backend, BackendError, Clock, OpKind};

use crate::driver::{Driver, Parts};
use crate::shared::{CloneShared, Stop};
use crate::shared_files::SharedFilesPart;
use crate::spec::{CloneOutcome, CloneSpec, StepSpan, WorkerError};
use crate::stream::{CloneStream, ListStream, checked_read, end_sync, sync_kind};

/// How long cancelled ops are waited for before they are given up as stuck, ns.
const PATIENCE_NS: u64 = 3_000_000_000;

/// What is bound before the backend is made.
pub(crate) struct Bound<S> {
    pub(crate) spec: CloneSpec,
    pub(crate) stream: S,
    pub(crate) notes: Vec<String>,
}

impl From<BackendError> for WorkerError {
    fn from(error: BackendError) -> WorkerError {
        WorkerError {
            cause: error.source.to_string(),
            hint: error.hint.map(str::to_owned),
            what: error.what,
        }
    }
}

/// A clone at work: its driver, its stream, and what is known so far.
struct Worker<'a, B, C, S> {
    driver: Driver<'a, B, C>,
    stream: S,
    shared: &'a CloneShared,
    steps: Vec<StepSpan>,
    broken: Option<WorkerError>,
}

/// Arrives at the gate, waits for the start, and does the job's steps.
pub(crate) fn work<B: Backend, C: Clock, S: CloneStream>(
    backend: B,
    clock: C,
    bound: Bound<S>,
    parts: Parts<'_>,
) -> CloneOutcome {
    let Bound {
        spec,
        stream,
        notes,
    } = bound;
    let shared = parts.shared;
    let capabilities = backend.capabilities();
    let mut fallbacks = capabilities.fallbacks;
    fallbacks.extend(notes);
    let engine = EngineUsed {
        name: parts.engine.kind.name().to_owned(),
        depth: parts.engine.depth,
        features: capabilities.features,
        fallbacks,
    };
    let driver = Driver::new(backend, clock, parts);
    let work = Worker {
        driver,
        stream,
        shared,
        steps: Vec::with_capacity(6),
        broken: None,
    };
    shared.gate.arrive(true);
    let Some(start) = shared.gate.wait() else {
        return work.outcome(EndedBy::NotStarted, (0, 0), CpuUse::default(), engine);
    };
    work.run(&spec, start, engine)
}

impl<B: Backend, C: Clock, S: CloneStream> Worker<'_, B, C, S> {
    fn run(mut self, spec: &CloneSpec, start: u64, engine: EngineUsed) -> CloneOutcome {
        let job = &spec.job;
        while self.driver.clock.now() < start && self.shared.told() == Stop::No {
            let now = self.driver.clock.now();
            self.driver.clock.sleep_until(start.min(now + 50_000_000));
        }
        let mut now = self.driver.clock.now();
        self.stream.begin(now);
        if let Some(flow) = &spec.flow {
            self.stream.join(flow);
        }
        let mut ended = None;
        if job.end.ramp.0 > 0 {
            let ramp = now + job.end.ramp.0;
            let word = self.step(Step::Ramp, |work| {
                work.driver.drive(&mut work.stream, &work.shared.ramp, ramp)
            });
            ended = word.filter(|word| *word != EndedBy::Runtime);
            now = self.driver.clock.now();
            self.driver.forget_ramp();
        }
        let before = self.driver.clock.thread_usage();
        self.shared.set_measure_start(now);
        let until = job
            .end
            .runtime
            .map_or(u64::MAX, |runtime| now.saturating_add(runtime.0));
        self.stream.measure();
        self.driver.watch_rates(now);
        if ended.is_none() && self.broken.is_none() {
            ended = self.step(Step::Measure, |work| {
                work.driver
                    .drive(&mut work.stream, &work.shared.measure, until)
            });
        }
        let stopped = self.driver.clock.now();
        self.stream.leave();
        self.drain();
        self.driver.finish();
        let end = self
            .driver
            .last_completion
            .iter()
            .flatten()
            .copied()
            .max()
            .unwrap_or(stopped);
        // A job that ran its time is measured to the last op it had begun; one that had a share to do,
        // until it was done.
        let end = if ended == Some(EndedBy::Runtime) {
            end.max(stopped)
        } else {
            end.max(now)
        };
        self.shared.set_measure_end(end);
        let cpu = used(before, self.driver.clock.thread_usage());
        let ended = ended.unwrap_or(EndedBy::Error);
        let ended = self.end_steps(spec, ended);
        self.shared.enter(None);
        self.outcome(ended, (now, end), cpu, engine)
    }

    /// Times a step; `None` where the backend broke in it.
    fn step<T>(
        &mut self,
        step: Step,
        act: impl FnOnce(&mut Self) -> Result<T, BackendError>,
    ) -> Option<T> {
        self.shared.enter(Some(step));
        let start = self.driver.clock.now();
        let result = act(self);
        self.steps.push(StepSpan {
            step,
            start,
            end: self.driver.clock.now(),
        });
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.broken.get_or_insert(error.into());
                None
            }
        }
    }

    fn drain(&mut self) {
        if self.broken.is_some() {
            return;
        }
        let back = self.step(Step::Drain, |work| {
            work.driver
                .drain(&mut work.stream, &work.shared.measure, PATIENCE_NS)
        });
        self.note_stuck(back);
    }

    /// End fsync and verify pass, unless the user ended the trial.
    fn end_steps(&mut self, spec: &CloneSpec, ended: EndedBy) -> EndedBy {
        let job = &spec.job;
        let usable = |work: &Self| {
            work.broken.is_none() && work.shared.told() < Stop::Finish && ended != EndedBy::Error
        };
        match &job.work {
            Work::Blocks(blocks) => {
                if blocks.sync.end_fsync && blocks.access.writes && usable(self) {
                    let files = 0..spec.files.len() as u32;
                    let syncs = files.map(|file| end_sync(OpKind::Fsync, file));
                    self.list(Step::EndFsync, syncs);
                }
                let checked = |verify: &Verify| verify.do_verify && !verify.only;
                let written = blocks.access.writes && blocks.verify.as_ref().is_some_and(checked);
                if written && usable(self) {
                    let longest = blocks.access.max_block() as usize;
                    let verifier = self.driver.verifier.as_ref();
                    let ranges = verifier.map(|verifier| verifier.ranges(longest));
                    let ranges = ranges.unwrap_or_default().into_iter();
                    self.list(Step::VerifyPass, ranges.map(checked_read));
                }
            }
            Work::SharedFiles(rule) => {
                let part = spec.shared_files.as_ref();
                let files = part.map(SharedFilesPart::leave).unwrap_or_default();
                if !files.is_empty() && usable(self) {
                    let syncs = files.iter().map(|file| end_sync(sync_kind(rule), *file));
                    self.list(Step::EndFsync, syncs);
                }
            }
            Work::FileOperations(_) => {}
        }
        let bad = self
            .driver
            .verifier
            .as_ref()
            .is_some_and(|verifier| verifier.result().bad() > 0);
        if let Some(fault) = self.driver.fault.take() {
            self.broken.get_or_insert(fault);
        }
        let fails = self.driver.failed || (bad && !job.errors.continue_verify);
        match self.broken.is_some() || fails {
            true => EndedBy::Error,
            false => ended,
        }
    }

    fn list(&mut self, step: Step, issues: impl Iterator<Item = crate::stream::Issue>) {
        let mut stream = ListStream(issues);
        let back = self.step(step, |work| {
            work.driver
                .drive(&mut stream, &work.shared.measure, u64::MAX)?;
            work.driver
                .drain(&mut stream, &work.shared.measure, PATIENCE_NS)
        });
        self.note_stuck(back);
    }

    fn note_stuck(&mut self, back: Option<bool>) {
        if back == Some(false) {
            self.broken = Some(WorkerError {
                what: "get all ops back".to_owned(),
                cause: "some did not end within 3 s of being cancelled: the storage is stuck"
                    .to_owned(),
                hint: None,
            });
        }
    }

    fn outcome(
        self,
        ended: EndedBy,
        measured: (u64, u64),
        cpu: CpuUse,
        mut engine: EngineUsed,
    ) -> CloneOutcome {
        let verifier = self.driver.verifier.as_ref();
        let dump_fault = verifier.and_then(|verifier| verifier.dump_fault());
        engine.fallbacks.extend(dump_fault.map(str::to_owned));
        let windows = self.driver.windows.histogram();
        CloneOutcome {
            ended,
            broken: self.broken,
            measured,
            steps: self.steps,
            cpu,
            depth: self.driver.depth,
            errors: self.driver.errors.counts,
            verify: verifier.map(|verifier| verifier.result().clone()),
            engine,
            stamp_window: (windows.percentile_ns(50.0), windows.percentile_ns(99.0)),
        }
    }
}

pub(crate) fn used(before: Usage, after: Usage) -> CpuUse {
    CpuUse {
        user_ns: after.user_ns - before.user_ns,
        system_ns: after.system_ns - before.system_ns,
        voluntary: after.voluntary - before.voluntary,
        involuntary: after.involuntary - before.involuntary,
        minor_faults: after.minor_faults - before.minor_faults,
        major_faults: after.major_faults - before.major_faults,
    }
}
