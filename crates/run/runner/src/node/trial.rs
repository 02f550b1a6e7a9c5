//! A trial from ready clones to a part: one thread that executes the scheduler's orders, reads the workers' counters at
//! the end of each frame or window, and otherwise sleeps.

use std::sync::Arc;

use iodyno_engine::{CloneShared, CloneSpec, OpsInFlight};
use iodyno_model::{BoundPlan, Diagnostic, EndedBy, Job, OpInFlight, Step, StopRequest, Work};

use crate::clock;
use crate::faults::{self, PrepareError};
use crate::logs::OpsLog;
use crate::logs::iolog::Iolog;
use crate::node::assemble::{self, Ended};
use crate::node::control::Control;
use crate::node::host_counters::HostWatch;
use crate::node::message_writer::MessageSender;
use crate::node::monitor::Monitor;
use crate::node::prepare::{Prepared, Waiting};
use crate::node::scheduler::{Order, Scheduler};
use crate::node::simulated_devices::DiskWatch;
use crate::node::steady::SteadyWatch;
use crate::node::stuck::{StorageProgress, StuckWatch};
use crate::node::telemetry::BackgroundSampler;
use crate::node::timeline::Timeline;
use crate::node::timers::Due;
use crate::node::worker::Signal;
use crate::protocol::{Command, Event, Message};

mod ending;

pub(crate) use ending::{Finished, Remains};

/// Ops that have not completed this long after the user ended the trial are cancelled.
const FINISH_TIMEOUT_NS: u64 = 1_200_000_000;
/// An aborted worker that has not returned after this time is given up, ns. (The engine gives up ops that do not
/// complete within 1 s.)
const ABORT_TIMEOUT_NS: u64 = 1_100_000_000;
/// The largest number of a clone's ops in flight that are named.
const NAMED_OPS: usize = 8;
/// The most by which a trial in virtual time may exceed the duration of its jobs before it is aborted: 24 h, in ns.
pub(crate) const MAX_VIRTUAL_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A clone and the state of its worker.
#[derive(Debug)]
struct WorkerState {
    waiting: Waiting,
    shared: Option<Arc<CloneShared>>,
    ops_log: Option<OpsLog>,
    iolog: Option<Iolog>,
    /// The ops that did not complete, once the storage was found stuck or the worker was given up.
    in_flight: Vec<OpInFlight>,
    ended: Option<Ended>,
}

/// A prepared trial.
pub(crate) struct Trial<'a> {
    plan: &'a BoundPlan,
    control: &'a Control,
    messages: &'a MessageSender,
    timeline: Timeline,
    prepared: Prepared,
    workers: Vec<WorkerState>,
    scheduler: Scheduler,
    steady: SteadyWatch,
    monitor: Monitor,
    /// The host's counters; `None` in virtual time.
    host: Option<HostWatch>,
    /// The simulated disks.
    disks: DiskWatch,
    due: Due,
    /// The sampler of the host.
    telemetry: Option<BackgroundSampler>,
    /// Wall clock at the start, ms since 1970.
    start_unix_ms: u64,
    /// As [`iodyno_model::Part::start_late_ns`].
    late_ns: u64,
    /// The last reported step.
    reported_step: Option<Step>,
    /// Whether it was aborted after [`MAX_VIRTUAL_NS`].
    overtime: bool,
    watch: StuckWatch,
    /// Whether it was aborted because its storage is stuck.
    stuck: bool,
    /// The duration of the longest trace, ns.
    replayed_ns: u64,
}

impl<'a> Trial<'a> {
    /// Creates the threads of the first wave and waits until they are ready.
    ///
    /// # Errors
    /// The faults of all threads.
    pub(crate) fn new(
        plan: &'a BoundPlan,
        mut prepared: Prepared,
        control: &'a Control,
        messages: &'a MessageSender,
        timeline: Timeline,
    ) -> Result<Trial<'a>, PrepareError> {
        let jobs = &plan.workload.jobs;
        let workers: Vec<WorkerState> = std::mem::take(&mut prepared.clones)
            .into_iter()
            .map(|mut waiting| WorkerState {
                ops_log: waiting.logs.ops.take(),
                iolog: waiting.logs.iolog.take(),
                in_flight: Vec::new(),
                ended: None,
                shared: None,
                waiting,
            })
            .collect();
        let clones: Vec<(u32, u64)> = workers
            .iter()
            .map(|worker| (worker.waiting.job, worker.waiting.seed))
            .collect();
        let specs = workers.iter().filter_map(|it| it.waiting.spec.as_ref());
        let replayed_ns = specs.filter_map(CloneSpec::replayed_ns).max().unwrap_or(0);
        let specs = workers.iter().filter_map(|it| it.waiting.spec.as_ref());
        let disks = DiskWatch::new(specs);
        // Samplers are opened while the threads of the first wave are prepared.
        let (telemetry, note) = match prepared.sampler.take() {
            Some(since_layout) => (Some(since_layout), None),
            None if timeline.is_virtual() => (None, None),
            None => {
                let targets = &prepared.environment.targets;
                let servers = &prepared.servers;
                BackgroundSampler::open(&plan.sampling, targets, servers, messages.clone())
            }
        };
        prepared.notes.extend(note);
        let host = (!timeline.is_virtual()).then(|| HostWatch::new(&prepared.environment.targets));
        let storage =
            (!timeline.is_virtual()).then(|| StorageProgress::of(&prepared.environment.targets));
        // A command may wait for anything: its time says nothing about the storage.
        let commands = jobs.iter().any(|job| job.work.command().is_some());
        let limit_ns = match commands {
            true => 0,
            false => plan.stuck_after_ns,
        };
        let mut trial = Trial {
            watch: StuckWatch::new(limit_ns, storage, 0),
            stuck: false,
            replayed_ns,
            plan,
            control,
            messages,
            timeline,
            scheduler: Scheduler::new(jobs, &clones),
            steady: SteadyWatch::new(jobs, clones.iter().map(|(job, _)| *job)),
            monitor: Monitor::new(workers.len(), jobs.len()),
            host,
            disks,
            prepared,
            workers,
            due: Due::default(),
            telemetry,
            start_unix_ms: 0,
            late_ns: 0,
            reported_step: None,
            overtime: false,
        };
        match trial.first_wave() {
            Ok(()) => {
                trial
                    .telemetry
                    .iter()
                    .for_each(BackgroundSampler::await_open);
                Ok(trial)
            }
            Err(unready) => {
                trial.stop_all(StopRequest::Abort);
                Err(trial.prepared.undo(unready, control, messages))
            }
        }
    }

    fn first_wave(&mut self) -> Result<(), PrepareError> {
        let done: Vec<usize> = (0..self.workers.len())
            .filter(|clone| self.workers[*clone].waiting.spec.is_none())
            .collect();
        for clone in done {
            self.scheduler.skip(clone);
            self.close_idle(clone, EndedBy::Size);
        }
        let orders = self.scheduler.prepare();
        self.execute(orders, 0);
        let mut faults: Vec<Diagnostic> = Vec::new();
        while !self.scheduler.prepared() {
            match self.timeline.next() {
                Some(Signal::Arrived(clone)) => {
                    self.scheduler.arrived(clone, 0);
                }
                Some(Signal::Ended(clone, result)) => {
                    self.scheduler.ended(clone, true, 0);
                    let job = self.job(clone);
                    if let Err(error) = *result {
                        let message = format!("cannot {}\n  cause: {}", error.what, error.cause);
                        let fault = Diagnostic {
                            hint: error.hint,
                            ..Diagnostic::error(message)
                        };
                        let fault = faults::of_job(fault, job);
                        if !faults.contains(&fault) {
                            faults.push(fault);
                        }
                    }
                }
                Some(Signal::Command(Command::Finish | Command::Abort) | Signal::ParentGone)
                | None => {
                    return Err(PrepareError::Withdrawn);
                }
                Some(Signal::Command(_)) => {}
            }
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(PrepareError::Unprepared(faults)),
        }
    }

    /// The event that reports that everything is ready.
    pub(crate) fn ready(&self) -> Event {
        Event::Ready {
            environment: Box::new(self.prepared.environment.clone()),
            notes: self.prepared.notes.clone(),
        }
    }

    /// Waits for the start. Returns its instant, and whether to stay after the trial until the clock was read.
    ///
    /// # Errors
    /// It was stopped, or created files cannot be removed.
    pub(crate) fn await_start(&mut self) -> Result<(u64, bool), PrepareError> {
        let mut armed = (0, false);
        loop {
            match self.timeline.next() {
                Some(Signal::Command(Command::Arm { at_ns, stay })) => {
                    armed = (at_ns, stay);
                    self.messages.send(Message::Armed);
                }
                Some(Signal::Command(Command::Go)) => return Ok(armed),
                Some(Signal::Command(Command::Finish | Command::Abort) | Signal::ParentGone)
                | None => {
                    self.stop_all(StopRequest::Abort);
                    let (control, messages) = (self.control, self.messages);
                    let why = PrepareError::Withdrawn;
                    return Err(self.prepared.undo(why, control, messages));
                }
                Some(_) => {}
            }
        }
    }

    /// Runs all jobs to their ends and assembles the part.
    pub(crate) fn run(mut self, instant: u64) -> Finished {
        let origin = instant.max(self.timeline.now());
        self.late_ns = match (self.timeline.is_virtual(), instant) {
            (true, _) | (_, 0) => 0,
            (false, instant) => origin - instant,
        };
        self.begin(origin);
        let orders = self.scheduler.start(origin);
        self.execute(orders, origin);
        let since_ns = self.timeline.now().saturating_sub(origin);
        let unix_ms = clock::unix_ms_before(since_ns);
        self.start_unix_ms = unix_ms;
        self.messages.event(Event::Started { unix_ms });
        let mut stopped: Option<(StopRequest, u64)> = None;
        while !self.over(stopped) {
            let now = self.timeline.now();
            self.forward_stop(&mut stopped, now);
            if self.over(stopped) {
                break;
            }
            if self.timeline.is_virtual()
                && !self.overtime
                && now >= origin.saturating_add(self.longest_virtual_ns())
            {
                self.overtime = true;
                self.stop_all(StopRequest::Abort);
            }
            // A check that remains due would keep this thread from waiting.
            let due = self.due.stuck(now);
            if due && stopped.is_none() && self.is_stuck(now) {
                self.stuck = true;
                stopped = Some((StopRequest::Abort, now));
                self.stop_all(StopRequest::Abort);
            }
            match stopped {
                Some((StopRequest::Finish, since)) if now >= since + FINISH_TIMEOUT_NS => {
                    stopped = Some((StopRequest::Abort, now));
                    self.stop_all(StopRequest::Abort);
                }
                Some((StopRequest::Abort, since)) if now >= since + ABORT_TIMEOUT_NS => {
                    // On a busy host this thread can be late: workers may have returned in the meantime.
                    self.handle_pending();
                    break;
                }
                _ => {}
            }
            self.do_due_work(now);
            self.wait(stopped);
        }
        self.finish()
    }

    /// Whether all work has ended. Without jobs, the host is sampled until a stop is requested.
    fn over(&self, stopped: Option<(StopRequest, u64)>) -> bool {
        self.scheduler.over() && (!self.plan.only_samples() || stopped.is_some())
    }

    fn begin(&mut self, origin: u64) {
        let logged = |worker: &WorkerState| worker.ops_log.is_some() || worker.iolog.is_some();
        let single_ops = self.workers.iter().any(logged);
        self.due = Due::new(origin, self.plan.frame_ns, single_ops, self.followed());
        self.watch.begin(origin);
        if let Some(every_ns) = self.watch.every_ns() {
            self.due.watch_storage(every_ns);
        }
        self.host.iter_mut().for_each(HostWatch::begin);
        self.disks.begin(origin);
        self.monitor.start(origin, self.timeline.cpu());
        if let Some(telemetry) = &self.telemetry {
            telemetry.start(origin);
        }
    }

    /// One day more than the sum of the durations of all jobs, ns.
    fn longest_virtual_ns(&self) -> u64 {
        let requested = self.plan.workload.jobs.iter().map(|job| {
            let runtime = job.end.runtime.unwrap_or_default();
            [job.delay.max, job.end.ramp, runtime].map(|span| span.0)
        });
        requested
            .flatten()
            .chain([self.replayed_ns])
            .fold(MAX_VIRTUAL_NS, u64::saturating_add)
    }

    /// Whether any job has steps after its measured time.
    fn followed(&self) -> bool {
        let mut jobs = self.plan.workload.jobs.iter();
        jobs.any(|job| match &job.work {
            Work::Blocks(blocks) => blocks.sync.end_fsync || blocks.verify.is_some(),
            Work::FileOperations(operations) => operations.drain,
            Work::SharedFiles(rule) => rule.fsync_end && rule.mode.writes(),
        })
    }

    /// Whether the storage is stuck. If so, records the ops in flight: after the abort they may complete as cancelled.
    fn is_stuck(&mut self, now: u64) -> bool {
        let shared = self
            .workers
            .iter()
            .filter_map(|worker| worker.shared.as_ref());
        let ops: Vec<&OpsInFlight> = shared.filter_map(|shared| shared.in_flight()).collect();
        let done = ops.iter().map(|ops| ops.ended()).sum();
        let waiting = ops.iter().any(|ops| ops.any());
        let stuck = self.watch.look(now, done, waiting);
        if stuck {
            (0..self.workers.len()).for_each(|clone| self.note_in_flight(clone));
        }
        stuck
    }

    /// Records a clone's ops in flight, unless that was already done.
    fn note_in_flight(&mut self, clone: usize) {
        let origin = self.due.origin();
        let worker = &mut self.workers[clone];
        let shared = worker
            .shared
            .as_ref()
            .filter(|_| worker.in_flight.is_empty());
        let ops = shared.and_then(|shared| shared.in_flight());
        let listed = ops.map(OpsInFlight::list).unwrap_or_default().into_iter();
        worker
            .in_flight
            .extend(listed.take(NAMED_OPS).map(|op| OpInFlight {
                direction: op.direction,
                file: op.file,
                offset: op.offset,
                since_ns: op.since.saturating_sub(origin),
            }));
    }

    /// Passes a new stop request on to the workers. `stopped`: the previous request, and when it was passed on.
    fn forward_stop(&mut self, stopped: &mut Option<(StopRequest, u64)>, now: u64) {
        let stop = self.control.stop.requested();
        if stop > stopped.map_or(StopRequest::No, |(before, _)| before) {
            *stopped = Some((stop, now));
            self.stop_all(stop);
        }
    }

    /// Does everything that is due now: orders, frames, windows, logs.
    fn do_due_work(&mut self, now: u64) {
        let orders = self.scheduler.tick(now);
        self.execute(orders, now);
        let steady = self.steady.tick(now, self.due.origin());
        if !steady.is_empty() {
            let orders = self.scheduler.steady(&steady);
            self.execute(orders, now);
        }
        if self.due.ramp_ends(now) {
            self.host.iter_mut().for_each(HostWatch::begin);
            self.disks.begin(now);
            let (now, cpu) = (self.timeline.now(), self.timeline.cpu());
            let frame = self.monitor.cut_ramp(now, cpu);
            self.messages.event(Event::Frame(frame));
        }
        if self.due.window(now) {
            self.monitor.sample(now);
        }
        self.monitor.write_windows(now);
        // The work above can take long: a frame that it has ended is not cut twice.
        if self.due.frame(self.timeline.now()) {
            self.cut();
        }
        // In virtual time, a clone whose log is full waits until this thread has emptied it.
        if self.due.ops_log(now) || self.timeline.is_virtual() {
            self.empty_ops_logs();
        }
        if self.due.look(now) {
            self.update_step();
        }
    }

    fn cut(&mut self) {
        if self.plan.only_samples() {
            return;
        }
        let now = self.timeline.now();
        let frame = self.monitor.cut(now, self.timeline.cpu());
        self.messages.event(Event::Frame(frame));
    }

    fn wait(&mut self, stopped: Option<(StopRequest, u64)>) {
        let mut wake = [self.due.next()]
            .into_iter()
            .chain(self.scheduler.next())
            .chain(self.steady.next())
            .chain(self.monitor.next_window())
            .min()
            .unwrap_or(u64::MAX);
        match stopped {
            Some((StopRequest::Finish, since)) => wake = wake.min(since + FINISH_TIMEOUT_NS),
            Some((StopRequest::Abort, since)) => wake = wake.min(since + ABORT_TIMEOUT_NS),
            _ => {}
        }
        if let Some(signal) = self.timeline.wait(wake) {
            self.handle(signal);
        }
        // Many clones may have ended at once.
        self.handle_pending();
    }

    /// Handles the signals that have arrived.
    fn handle_pending(&mut self) {
        while let Some(signal) = self.timeline.ready() {
            self.handle(signal);
        }
    }

    fn handle(&mut self, signal: Signal) {
        let now = self.timeline.now();
        match signal {
            // The requests are read from `control`.
            Signal::Command(_) | Signal::ParentGone => {}
            Signal::Arrived(clone) => {
                let orders = self.scheduler.arrived(clone, now);
                self.execute(orders, now);
            }
            Signal::Ended(clone, result) => {
                let failed = match &*result {
                    Ok(outcome) => outcome.ended == EndedBy::Error,
                    Err(_) => true,
                };
                self.retire(clone, Some(*result), now);
                self.steady.ended(clone);
                self.update_step();
                let orders = self.scheduler.ended(clone, failed, now);
                self.execute(orders, now);
            }
        }
    }

    /// Removes a finished clone from the monitor and keeps its result. `None`: its thread did not return.
    fn retire(
        &mut self,
        clone: usize,
        result: Option<Result<iodyno_engine::CloneOutcome, iodyno_engine::WorkerError>>,
        now: u64,
    ) {
        let stuck = match &result {
            Some(Ok(outcome)) => outcome.stuck,
            Some(Err(_)) => false,
            None => true,
        };
        if stuck {
            self.note_in_flight(clone);
        }
        let left = self.monitor.leave(clone, now);
        let job = &self.plan.workload.jobs[self.workers[clone].waiting.job as usize];
        let worker = &mut self.workers[clone];
        let Some(shared) = worker.shared.take() else {
            return;
        };
        self.prepared.notes.extend(left.log_faults.clone());
        if let Some(log) = worker.ops_log.take() {
            self.prepared
                .notes
                .extend(log.close(shared.measure_start(), self.timeline.is_virtual()));
        }
        if let Some(log) = worker.iolog.take() {
            let fault = log.close(self.timeline.is_virtual());
            self.prepared.notes.extend(fault);
        }
        let (waiting, origin) = (&worker.waiting, self.due.origin());
        let mut ended = assemble::ended(waiting, job, &shared, &left, result, origin, now);
        let result = &ended.result;
        let measured = ended.steps.iter().any(|span| span.step == Step::Measure);
        if job.end.ramp.0 > 0 && result.ended == EndedBy::Size && !measured {
            self.prepared.notes.push(format!(
                "clone {} of `{}` completed its whole size during the ramp: its figures are those of the ramp; lower `ramp_time`, or add `time_based`",
                waiting.clone, job.name
            ));
        }
        ended.result.in_flight = std::mem::take(&mut worker.in_flight);
        worker.ended = Some(ended);
    }

    fn close_idle(&mut self, clone: usize, because: EndedBy) {
        let job = &self.plan.workload.jobs[self.workers[clone].waiting.job as usize];
        let worker = &mut self.workers[clone];
        worker.ended = Some(assemble::idle(&worker.waiting, job, because));
    }

    /// Reads the host's counters after the last measurement, and reports steps that follow the measured time.
    fn update_step(&mut self) {
        let jobs = &self.plan.workload.jobs;
        let measuring = self.workers.iter().any(|worker| {
            let phase = worker.shared.as_deref().and_then(CloneShared::phase);
            match phase {
                Some(Step::Ramp | Step::Measure) => true,
                // Ops in flight end within the measured time; the drain of a file system follows it.
                Some(Step::Drain) => {
                    let job = &jobs[worker.waiting.job as usize];
                    job.work.file_operations().is_none()
                }
                _ => false,
            }
        });
        self.host.iter_mut().for_each(|host| host.look(measuring));
        self.disks.look(measuring, self.timeline.now());
        if measuring {
            return;
        }
        if self.monitor.follows() {
            self.cut();
            self.due.cut_early(self.timeline.now());
        }
        let shared = self.workers.iter().filter_map(|p| p.shared.as_deref());
        let step = shared.filter_map(CloneShared::phase).max();
        if let Some(step) = step.filter(|step| Some(*step) != self.reported_step) {
            let (done, total) = (0, 0);
            self.messages.event(Event::Progress { step, done, total });
        }
        self.reported_step = step;
    }

    fn empty_ops_logs(&mut self) {
        for worker in &mut self.workers {
            if let (Some(log), Some(shared)) = (&mut worker.ops_log, &worker.shared) {
                log.drain(|| shared.measure_start());
            }
            if let Some(log) = &mut worker.iolog {
                log.drain();
            }
        }
    }

    fn stop_all(&mut self, stop: StopRequest) {
        let orders = self.scheduler.stop_all(stop);
        self.execute(orders, self.timeline.now());
    }

    fn execute(&mut self, orders: Vec<Order>, now: u64) {
        let mut called = Vec::new();
        for order in orders {
            match order {
                Order::Spawn(clone) => called.extend(self.spawn(clone)),
                Order::Release { clone, at } => self.release(clone, at.max(now)),
                Order::Stop { clone, stop } => {
                    self.shared(clone, |shared| shared.request_stop(stop));
                }
                Order::Close(clone) => {
                    if let Some(shared) = &self.workers[clone].shared {
                        self.timeline.close(clone, shared);
                    }
                }
            }
        }
        self.timeline.await_ready(called);
    }

    fn shared(&self, clone: usize, act: impl FnOnce(&CloneShared)) {
        if let Some(shared) = &self.workers[clone].shared {
            act(shared);
        }
    }

    fn spawn(&mut self, clone: usize) -> Option<(usize, Arc<CloneShared>)> {
        let worker = &mut self.workers[clone];
        let spec: CloneSpec = worker.waiting.spec.take()?;
        let job = &spec.job;
        let shared = Arc::new(CloneShared::of(job));
        worker.shared = Some(Arc::clone(&shared));
        let logs = std::mem::take(&mut worker.waiting.logs.windows);
        let job = worker.waiting.job as usize;
        self.monitor.watch(clone, job, Arc::clone(&shared), logs);
        self.timeline.spawn(clone, spec, &shared);
        Some((clone, shared))
    }

    fn release(&mut self, clone: usize, at: u64) {
        let end = &self.job(clone).end;
        let measured = at.saturating_add(end.ramp.0);
        let until = end
            .runtime
            .map(|runtime| measured.saturating_add(runtime.0));
        let first = !self.monitor.ever_measured();
        self.due.released((at, measured), until, first);
        if let (Some(telemetry), Some(until)) = (&self.telemetry, until) {
            telemetry.ends(until);
        }
        self.monitor.begin_logs(clone, measured);
        // A later group continues the measurement of the host.
        self.host.iter_mut().for_each(|host| host.look(true));
        self.disks.look(true, self.timeline.now());
        if let Some(shared) = &self.workers[clone].shared {
            self.steady.released(clone, shared, measured);
            self.timeline.release(clone, shared, at);
        }
    }

    fn job(&self, clone: usize) -> &'a Job {
        &self.plan.workload.jobs[self.workers[clone].waiting.job as usize]
    }
}
