//! The lifecycle of a clone, the same for every kind of work: gate, wait for the start, ramp, measure, drain, end
//! steps.

use iodyno_model::{
    CpuUse, DepthUse, EndedBy, EngineUsed, ErrorCount, Job, MissedOps, Step, StopRequest,
};
use iodyno_sys::Clock;
use iodyno_sys::thread::Usage;

use crate::commands;
use crate::counters::OpCounters;
use crate::outcome::{CloneOutcome, StepSpan, WorkerError};
use crate::shared::CloneShared;
use crate::spec::OutputFiles;

/// The longest sleep before the start and between cycles of file operations, ns: the longest delay of a stop request.
pub(crate) const MAX_STOP_DELAY_NS: u64 = 50_000_000;

/// One kind of work. Instants are its clock's, ns.
pub(crate) trait CloneWork {
    /// The clock that it runs on.
    type Clock: Clock;

    /// Its clock.
    fn clock(&self) -> &Self::Clock;

    /// Starts the schedules of the ops at this instant. The job's end conditions apply from [`CloneWork::measure`] on.
    fn begin(&mut self, now: u64);

    /// Runs until the work is complete, the instant `until` passes, or the worker is told to stop.
    fn run(&mut self, counters: &OpCounters, until: u64) -> Result<EndedBy, WorkerError>;

    /// Discards the counts of the ramp.
    fn discard_ramp(&mut self);

    /// Begins the measured time, from which budgets and minimum rates count.
    fn measure(&mut self, now: u64);

    /// Waits for the ops in flight.
    fn drain(&mut self, steps: &mut Steps<'_>);

    /// When the last op ended, well or badly; `None` if none has.
    fn last_end(&self) -> Option<u64>;

    /// Ops that were due before this instant and not issued, if the job has a rate.
    fn missed(&self, until: u64) -> Vec<MissedOps>;

    /// Runs the end steps that apply after `ended`. Returns what ended the job, which can be an error of these steps.
    fn end_steps(&mut self, steps: &mut Steps<'_>, ended: EndedBy) -> EndedBy;

    /// Its results, including those in `summary`.
    fn outcome(self, summary: RunSummary) -> CloneOutcome;
}

/// The results that every kind of work has.
pub(crate) struct RunSummary {
    pub(crate) ended: EndedBy,
    pub(crate) broken: Option<WorkerError>,
    /// Start and end of the measured time.
    pub(crate) measured: (u64, u64),
    /// Ops that were due by the end of the runtime and not issued.
    pub(crate) missed: Vec<MissedOps>,
    pub(crate) steps: Vec<StepSpan>,
    pub(crate) cpu: CpuUse,
}

impl RunSummary {
    /// The outcome of a clone that verified nothing and did not get stuck.
    pub(crate) fn outcome(
        self,
        depth: DepthUse,
        errors: Vec<ErrorCount>,
        engine: EngineUsed,
    ) -> CloneOutcome {
        CloneOutcome {
            ended: self.ended,
            broken: self.broken,
            measured: self.measured,
            missed: self.missed,
            steps: self.steps,
            cpu: self.cpu,
            depth,
            errors,
            verify: None,
            verify_reads: None,
            stuck: false,
            written: None,
            command: None,
            engine,
            stamp_window: (0, 0),
        }
    }
}

/// The steps of a clone so far, and the error that broke one of them.
pub(crate) struct Steps<'a> {
    pub(crate) shared: &'a CloneShared,
    pub(crate) broken: Option<WorkerError>,
    spans: Vec<StepSpan>,
}

impl Steps<'_> {
    /// Runs and times a step. `None` if it failed.
    pub(crate) fn run<W: CloneWork, T>(
        &mut self,
        work: &mut W,
        step: Step,
        act: impl FnOnce(&mut W) -> Result<T, WorkerError>,
    ) -> Option<T> {
        self.shared.enter(Some(step));
        let start = work.clock().now();
        let result = act(work);
        let end = work.clock().now();
        self.spans.push(StepSpan { step, start, end });
        result.map_err(|error| self.fail(error)).ok()
    }

    fn run_command(&mut self, command: &str, at: (&str, &str), output: &OutputFiles) {
        let done = commands::run(command, at, output, self.shared);
        done.unwrap_or_else(|error| self.fail(error));
    }

    /// Keeps the first error.
    pub(crate) fn fail(&mut self, error: WorkerError) {
        self.broken.get_or_insert(error);
    }

    /// Sets the end of the last step.
    pub(crate) fn ended_at(&mut self, instant: u64) {
        if let Some(span) = self.spans.last_mut() {
            span.end = instant;
        }
    }
}

/// Waits for the start instant, or a stop request. Returns the current time.
fn wait_for_start(clock: &impl Clock, start: u64, shared: &CloneShared) -> u64 {
    let mut now = clock.now();
    while now < start && shared.stop_request() == StopRequest::No {
        clock.sleep_until(start.min(now + MAX_STOP_DELAY_NS));
        now = clock.now();
    }
    now
}

/// Runs a prepared clone from its gate to its end.
pub(crate) fn carry_out<W: CloneWork>(
    mut work: W,
    job: &Job,
    output: &OutputFiles,
    shared: &CloneShared,
) -> CloneOutcome {
    let mut steps = Steps {
        shared,
        broken: None,
        spans: Vec::with_capacity(6),
    };
    shared.gate.arrive(true);
    let Some(start) = shared.gate.wait() else {
        return work.outcome(RunSummary {
            ended: EndedBy::NotStarted,
            broken: None,
            measured: (0, 0),
            missed: Vec::new(),
            steps: steps.spans,
            cpu: CpuUse::default(),
        });
    };
    let mut now = wait_for_start(work.clock(), start, shared);
    if let Some(command) = &job.exec_prerun
        && shared.stop_request() == StopRequest::No
    {
        steps.run_command(command, (&job.name, "prerun"), output);
        now = work.clock().now();
    }
    work.begin(now);
    let mut ended = None;
    let mut before = work.clock().thread_usage();
    if job.end.ramp.0 > 0 && steps.broken.is_none() {
        let until = now.saturating_add(job.end.ramp.0);
        let word = steps.run(&mut work, Step::Ramp, |work| work.run(&shared.ramp, until));
        ended = word.filter(|word| *word != EndedBy::Runtime);
        // As in fio, the ramp is reported if the job completes or fails in it.
        if matches!(ended, Some(EndedBy::Size | EndedBy::Error)) {
            shared.measure.absorb(&shared.ramp);
        } else {
            work.discard_ramp();
            now = work.clock().now();
            before = work.clock().thread_usage();
        }
    }
    shared.set_measure_start(now);
    let runtime = job.end.runtime;
    let until = runtime.map_or(u64::MAX, |runtime| now.saturating_add(runtime.0));
    work.measure(now);
    if ended.is_none() && steps.broken.is_none() {
        let act = |work: &mut W| work.run(&shared.measure, until);
        ended = steps.run(&mut work, Step::Measure, act);
    }
    let stopped = work.clock().now();
    work.drain(&mut steps);
    // A job that completed its work is measured until the end of its last op. Any other job was stopped: it is measured
    // until then, or until the end of the last op that it began.
    let end = work.last_end().unwrap_or(stopped);
    let end = match ended {
        Some(EndedBy::Size | EndedBy::Count) => end.max(now),
        _ => end.max(stopped),
    };
    shared.op_ended(work.last_end(), end);
    shared.set_measure_end(end);
    let cpu = used(before, work.clock().thread_usage());
    let missed = match ended {
        Some(EndedBy::Runtime) => work.missed(until),
        Some(EndedBy::ExitAll | EndedBy::Steady | EndedBy::Interruption) => work.missed(stopped),
        _ => Vec::new(),
    };
    let ended = work.end_steps(&mut steps, ended.unwrap_or(EndedBy::Error));
    if let Some(command) = &job.exec_postrun
        && ended != EndedBy::Error
        && steps.broken.is_none()
    {
        steps.run_command(command, (&job.name, "postrun"), output);
    }
    shared.enter(None);
    work.outcome(RunSummary {
        ended,
        broken: steps.broken,
        measured: (now, end),
        missed,
        steps: steps.spans,
        cpu,
    })
}

/// The difference of two readings.
pub(crate) fn used(before: Usage, after: Usage) -> CpuUse {
    CpuUse {
        user_ns: after.user_ns - before.user_ns,
        system_ns: after.system_ns - before.system_ns,
        voluntary: after.voluntary - before.voluntary,
        involuntary: after.involuntary - before.involuntary,
        minor_faults: after.minor_faults - before.minor_faults,
        major_faults: after.major_faults - before.major_faults,
        run_delay_ns: (before.run_delay_ns.zip(after.run_delay_ns))
            .map(|(before, after)| after.saturating_sub(before)),
    }
}
