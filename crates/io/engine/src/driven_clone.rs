//! Ops at offsets: implements the lifecycle of a clone with a driver and a stream.

use iodyno_model::{
    DirectionResult, EndedBy, EngineUsed, MissedOps, Step, StopRequest, Verify, Work,
};
use iodyno_sys::{Backend, Clock, OpKind};

use crate::checks::Checks;
use crate::counters::OpCounters;
use crate::driver::{Driver, Parts};
use crate::lifecycle::{CloneWork, RunSummary, Steps, carry_out};
use crate::outcome::{CloneOutcome, WorkerError};
use crate::spec::{ClonePart, CloneSpec};
use crate::stream::{CloneStream, Issue, ListStream, end_sync, sync_kind};

/// The longest wait for cancelled ops before they are given up as stuck, ns.
const PATIENCE_NS: u64 = 1_000_000_000;

/// The inputs that are bound before the backend is created.
pub(crate) struct Bound<S> {
    pub(crate) spec: CloneSpec,
    pub(crate) stream: S,
    pub(crate) notes: Vec<String>,
}

struct DrivenClone<'a, B, C, S> {
    driver: Driver<'a, B, C>,
    stream: S,
    spec: CloneSpec,
    engine: EngineUsed,
}

/// Arrives at the gate, waits for the start, and runs the job's steps on this backend.
pub(crate) fn work<B: Backend, C: Clock, S: CloneStream>(
    backend: B,
    clock: C,
    bound: Bound<S>,
    parts: Parts<'_>,
) -> CloneOutcome {
    let Bound {
        spec,
        mut stream,
        notes,
    } = bound;
    let capabilities = backend.capabilities();
    let mut fallbacks = capabilities.fallbacks;
    fallbacks.extend(notes);
    let engine = EngineUsed {
        name: parts.engine.kind.name().to_owned(),
        depth: parts.engine.depth,
        features: capabilities.features,
        fallbacks,
    };
    let (shared, job) = (parts.shared, spec.job.clone());
    let output = spec.output.clone();
    // Before the gate: clones that are released together know each other's weights before the first op of one.
    if let Some(flow) = &spec.flow {
        stream.join(flow);
    }
    let clone = DrivenClone {
        driver: Driver::new(backend, clock, parts),
        stream,
        spec,
        engine,
    };
    carry_out(clone, &job, &output, shared)
}

impl<B: Backend, C: Clock, S: CloneStream> CloneWork for DrivenClone<'_, B, C, S> {
    type Clock = C;

    fn clock(&self) -> &C {
        &self.driver.clock
    }

    fn begin(&mut self, now: u64) {
        self.stream.begin(now);
    }

    fn run(&mut self, counters: &OpCounters, until: u64) -> Result<EndedBy, WorkerError> {
        loop {
            let ended = self.driver.drive(&mut self.stream, counters, until)?;
            if ended != EndedBy::Size || !self.stream.next_pass() {
                return Ok(ended);
            }
            let (driver, stream) = (&mut self.driver, &mut self.stream);
            driver.drain(stream, counters, PATIENCE_NS)?;
            driver.drop_all_pages();
            let mut checks = ListStream(driver.checks().into_iter());
            let ended = driver.drive(&mut checks, counters, until)?;
            driver.drain(&mut checks, counters, PATIENCE_NS)?;
            if ended != EndedBy::Size {
                return Ok(ended);
            }
        }
    }

    fn discard_ramp(&mut self) {
        self.driver.forget_ramp();
    }

    fn measure(&mut self, now: u64) {
        self.stream.measure();
        self.driver.watch(now);
    }

    fn drain(&mut self, steps: &mut Steps<'_>) {
        self.stream.leave();
        if steps.broken.is_none() {
            let counters = &steps.shared.measure;
            steps.run(self, Step::Drain, |clone| {
                let (driver, stream) = (&mut clone.driver, &mut clone.stream);
                Ok(driver.drain(stream, counters, PATIENCE_NS)?)
            });
        }
        self.driver.finish();
    }

    fn last_end(&self) -> Option<u64> {
        self.driver.last_end
    }

    fn missed(&self, until: u64) -> Vec<MissedOps> {
        self.stream.missed(until)
    }

    /// End fsync and verify pass, unless the user ended the trial.
    fn end_steps(&mut self, steps: &mut Steps<'_>, ended: EndedBy) -> EndedBy {
        let job = self.spec.job.clone();
        let stuck = self.driver.stuck;
        let usable = |steps: &Steps<'_>| {
            steps.broken.is_none()
                && !stuck
                && steps.shared.stop_request() < StopRequest::Finish
                && ended != EndedBy::Error
        };
        match &job.work {
            Work::Blocks(blocks) => {
                if blocks.sync.end_fsync && blocks.access.writes && usable(steps) {
                    let files = 0..self.spec.files.len() as u32;
                    let syncs = files.map(|file| end_sync(OpKind::Fsync, file));
                    self.list(steps, Step::EndFsync, syncs);
                }
                let checked = |verify: &Verify| verify.do_verify && !verify.only;
                let written = blocks.access.writes && blocks.verify.as_ref().is_some_and(checked);
                if written && usable(steps) {
                    self.driver.drop_all_pages();
                    let checks = self.driver.checks().into_iter();
                    self.list(steps, Step::VerifyPass, checks);
                }
            }
            Work::SharedFiles(rule) => {
                let files = match &self.spec.part {
                    ClonePart::SharedFiles(part) => part.leave(),
                    _ => &[],
                };
                if !files.is_empty() && usable(steps) {
                    let syncs = files.iter().map(|file| end_sync(sync_kind(rule), *file));
                    let syncs: Vec<Issue> = syncs.collect();
                    self.list(steps, Step::EndFsync, syncs.into_iter());
                }
            }
            Work::FileOperations(_) => {}
        }
        let verifier = self.driver.verifier.as_ref();
        let bad = verifier.is_some_and(|verifier| verifier.result().bad() > 0);
        if let Some(fault) = self.driver.fault.take() {
            steps.fail(fault);
        }
        let fails = self.driver.failed || (bad && !job.errors.continue_verify);
        match steps.broken.is_some() || fails {
            true => EndedBy::Error,
            false => ended,
        }
    }

    fn outcome(mut self, summary: RunSummary) -> CloneOutcome {
        let verify_reads = self.verify_reads(&summary);
        let verifier = self.driver.verifier.as_ref();
        let dump_fault = verifier.and_then(|verifier| verifier.dump_fault());
        self.engine.fallbacks.extend(dump_fault.map(str::to_owned));
        if self.driver.depth.found > 0 {
            let found = self.driver.depth.found;
            let message =
                format!("`latency_target`: depth {found}; figures are of all depths tried");
            self.engine.fallbacks.push(message);
        }
        let windows = self.driver.windows.histogram();
        let verify = verifier.map(|verifier| verifier.result().clone());
        let written = match self.driver.stuck {
            true => None,
            false => self.driver.verifier.take().and_then(Checks::into_written),
        };
        let errors = self.driver.errors.into_vec();
        CloneOutcome {
            verify,
            verify_reads,
            stuck: self.driver.stuck,
            written,
            stamp_window: (windows.percentile_ns(50.0), windows.percentile_ns(99.0)),
            ..summary.outcome(self.driver.depth, errors, self.engine)
        }
    }
}

impl<B: Backend, C: Clock, S: CloneStream> DrivenClone<'_, B, C, S> {
    /// The reads that only verified, if there were any. As in fio, their runtime is that of all reads of the clone: the
    /// measured time, if it contained reads, plus the verify pass.
    fn verify_reads(&mut self, summary: &RunSummary) -> Option<DirectionResult> {
        let reads = self.driver.verify_reads.take()?;
        let blocks = self.spec.job.work.blocks();
        let (start, end) = summary.measured;
        let measured = match reads.in_time || blocks.is_some_and(|blocks| blocks.access.reads) {
            true => end - start,
            false => 0,
        };
        let passes = summary.steps.iter();
        let passes = passes.filter(|span| span.step == Step::VerifyPass);
        let pass: u64 = passes.map(|span| span.end - span.start).sum();
        reads.result(measured + pass)
    }

    /// Runs a list of ops as a separate step.
    fn list(&mut self, steps: &mut Steps<'_>, step: Step, issues: impl Iterator<Item = Issue>) {
        let mut stream = ListStream(issues);
        let counters = &steps.shared.measure;
        steps.run(self, step, |clone| {
            clone.driver.drive(&mut stream, counters, u64::MAX)?;
            Ok(clone.driver.drain(&mut stream, counters, PATIENCE_NS)?)
        });
    }
}
