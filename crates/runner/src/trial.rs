//! A trial's life from ready clones to a part: one thread that obeys the conductor, looks at the
//! workers' cells when a frame or a window is over, and otherwise sleeps.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use iodyno_engine::{CloneShared, CloneSpec, Stop};
use iodyno_model::{BoundPlan, Diagnostic, EndedBy, HostUse, Job, Outcome, Part, Step};
use iodyno_target::Roots;
use iodyno_target::counters::{self, Snapshot};

use crate::assemble::{self, Ended};
use crate::clock;
use crate::conductor::{Conductor, Order};
use crate::control::{Control, Told};
use crate::files;
use crate::logs::OpsLog;
use crate::monitor::Monitor;
use crate::outbox::Outbox;
use crate::prepare::{Prepared, Unready, Waiting};
use crate::protocol::{FromNode, ToNode};
use crate::rates;
use crate::worker::{self, Signal};

/// A worker that was aborted returns within this, or is given up. (The engine itself gives up ops that
/// do not come back after 3 s.)
const PATIENCE_NS: u64 = 3_500_000_000;
/// How often logs of single ops are emptied.
const OPS_LOG_NS: u64 = 5_000_000;
/// How often it is looked whether the measured time is over, where something follows it.
const LOOK_NS: u64 = 50_000_000;

/// A clone on the stage.
#[derive(Debug)]
struct Player {
    waiting: Waiting,
    shared: Option<Arc<CloneShared>>,
    ops_log: Option<OpsLog>,
    ended: Option<Ended>,
}

/// Host counters around the measured time.
#[derive(Debug)]
struct Counters {
    roots: Roots,
    devices: Vec<String>,
    before: Snapshot,
    after: Option<Snapshot>,
}

/// When what is next due, the clock's ns.
#[derive(Debug, Default)]
struct Due {
    origin: u64,
    frame: u64,
    window: u64,
    ops_log: u64,
    look: u64,
    /// The first end of a ramp: nothing is measured before it. `u64::MAX` once passed.
    measure: u64,
    /// The last end of a runtime that is known; 0: none.
    end: u64,
}

/// A trial that is ready.
pub(crate) struct Trial<'a> {
    plan: &'a BoundPlan,
    control: &'a Control,
    outbox: &'a Outbox,
    signals: &'a Receiver<Signal>,
    sender: Sender<Signal>,
    prepared: Prepared,
    players: Vec<Player>,
    conductor: Conductor,
    monitor: Monitor,
    counters: Counters,
    due: Due,
    /// The step that was last told.
    told_step: Option<Step>,
}

impl<'a> Trial<'a> {
    /// Makes the threads of the first wave and waits until they are ready.
    ///
    /// # Errors
    /// What any of them could not do.
    pub(crate) fn new(
        plan: &'a BoundPlan,
        mut prepared: Prepared,
        control: &'a Control,
        outbox: &'a Outbox,
        (sender, signals): (Sender<Signal>, &'a Receiver<Signal>),
    ) -> Result<Trial<'a>, Unready> {
        let jobs = &plan.workload.jobs;
        let players: Vec<Player> = std::mem::take(&mut prepared.clones)
            .into_iter()
            .map(|mut waiting| Player {
                ops_log: waiting.logs.ops.take(),
                ended: None,
                shared: None,
                waiting,
            })
            .collect();
        let clones: Vec<(u32, u64)> = players
            .iter()
            .map(|player| (player.waiting.job, player.waiting.seed))
            .collect();
        let roots = Roots::host();
        let devices = counters::devices(&prepared.environment.targets);
        let mut trial = Trial {
            plan,
            control,
            outbox,
            signals,
            sender,
            prepared,
            conductor: Conductor::new(jobs, &clones),
            monitor: Monitor::new(players.len(), jobs.len()),
            counters: Counters {
                before: Snapshot::take(&roots, &devices),
                after: None,
                roots,
                devices,
            },
            players,
            due: Due::default(),
            told_step: None,
        };
        match trial.first_wave() {
            Ok(()) => Ok(trial),
            Err(unready) => {
                trial.obey_stop(Stop::Abort);
                trial.prepared.files.undo_unfinished();
                Err(unready)
            }
        }
    }

    fn first_wave(&mut self) -> Result<(), Unready> {
        let done: Vec<usize> = (0..self.players.len())
            .filter(|clone| self.players[*clone].waiting.spec.is_none())
            .collect();
        for clone in done {
            self.conductor.skip(clone);
            self.close(clone, EndedBy::Size);
        }
        let orders = self.conductor.prepare();
        self.obey(orders, 0);
        let mut faults: Vec<Diagnostic> = Vec::new();
        while !self.conductor.prepared() {
            match self.signals.recv() {
                Ok(Signal::Arrived(clone)) => {
                    self.conductor.arrived(clone, 0);
                }
                Ok(Signal::Ended(clone, result)) => {
                    self.conductor.ended(clone, true, 0);
                    let job = self.job(clone);
                    if let Err(error) = *result {
                        let message = format!("cannot {}\n  cause: {}", error.what, error.cause);
                        let fault = Diagnostic {
                            hint: error.hint,
                            ..Diagnostic::error(message)
                        };
                        let fault = files::of_job(fault, job);
                        if !faults.contains(&fault) {
                            faults.push(fault);
                        }
                    }
                }
                Ok(Signal::Said(ToNode::Finish | ToNode::Abort) | Signal::Gone) | Err(_) => {
                    return Err(Unready::Withdrawn);
                }
                Ok(Signal::Said(_)) => {}
            }
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(Unready::Unprepared(faults)),
        }
    }

    /// What is told when everything is ready.
    pub(crate) fn ready(&self) -> FromNode {
        FromNode::Ready {
            environment: Box::new(self.prepared.environment.clone()),
            notes: self.prepared.notes.clone(),
        }
    }

    /// Waits for the start. `None`: it is not to be.
    pub(crate) fn await_start(&mut self) -> Option<u64> {
        loop {
            match self.signals.recv() {
                Ok(Signal::Said(ToNode::StartAt { instant })) => return Some(instant),
                Ok(Signal::Said(ToNode::Finish | ToNode::Abort) | Signal::Gone) | Err(_) => {
                    self.obey_stop(Stop::Abort);
                    self.prepared.files.undo_unfinished();
                    return None;
                }
                Ok(_) => {}
            }
        }
    }

    /// Runs all jobs to their ends and puts the part together.
    pub(crate) fn run(mut self, instant: u64) -> (Part, Outcome) {
        let origin = instant.max(clock::now());
        self.begin(origin);
        let orders = self.conductor.start(origin);
        self.obey(orders, origin);
        let unix_ms = clock::wall() / 1_000_000;
        self.outbox.say(FromNode::Started { unix_ms });
        let mut stopped: Option<(Told, u64)> = None;
        while !self.conductor.over() {
            let now = clock::now();
            self.heed(&mut stopped, now);
            if let Some((Told::Abort | Told::Gone, since)) = stopped
                && now >= since + PATIENCE_NS
            {
                break;
            }
            self.catch_up(now);
            self.wait(stopped);
        }
        self.finish()
    }

    fn begin(&mut self, origin: u64) {
        self.due = Due {
            origin,
            frame: origin + self.frame_ns(),
            window: origin + rates::WINDOW_NS,
            ops_log: self.when(self.players.iter().any(|p| p.ops_log.is_some()), origin),
            look: self.when(self.followed(), origin),
            measure: u64::MAX,
            end: 0,
        };
        self.counters.before = Snapshot::take(&self.counters.roots, &self.counters.devices);
        self.monitor.start(origin, clock::cpu());
    }

    fn when(&self, ever: bool, origin: u64) -> u64 {
        if ever { origin } else { u64::MAX }
    }

    /// Any job has steps after its measured time.
    fn followed(&self) -> bool {
        let mut jobs = self.plan.workload.jobs.iter();
        jobs.any(|job| job.sync.end_fsync || job.verify.is_some())
    }

    fn frame_ns(&self) -> u64 {
        match self.plan.frame_ns {
            0 => 1_000_000_000,
            // A frame a millisecond is a mistake, and would measure itself.
            length => length.max(10_000_000),
        }
    }

    /// Passes the parent's word on, each once.
    fn heed(&mut self, stopped: &mut Option<(Told, u64)>, now: u64) {
        let told = self.control.told();
        if told == Told::GoOn || stopped.is_some_and(|(before, _)| before >= told) {
            return;
        }
        // Patience counts from the first word that asks for haste.
        let since = match *stopped {
            Some((Told::Abort, since)) => since,
            _ => now,
        };
        *stopped = Some((told, since));
        self.obey_stop(match told {
            Told::Finish => Stop::Finish,
            _ => Stop::Abort,
        });
    }

    /// Does everything that is due.
    fn catch_up(&mut self, now: u64) {
        let orders = self.conductor.tick(now);
        self.obey(orders, now);
        if now >= self.due.measure {
            self.due.measure = u64::MAX;
            self.counters.before = Snapshot::take(&self.counters.roots, &self.counters.devices);
            let frame = self.monitor.cut_ramp(clock::now(), clock::cpu());
            self.outbox.say(FromNode::Frame { frame });
        }
        if now >= self.due.window {
            self.monitor.sample(now);
            self.due.window = next(self.due.origin, rates::WINDOW_NS, now);
        }
        self.monitor.write_windows(now);
        if now >= self.frame_due() {
            self.due.frame = next(self.due.origin, self.frame_ns(), now);
            self.cut();
        }
        if now >= self.due.ops_log {
            self.due.ops_log = now + OPS_LOG_NS;
            self.empty_ops_logs();
        }
        if now >= self.due.look {
            self.due.look = now + LOOK_NS;
            self.look();
        }
    }

    /// The frame's end; a little later where the trial is about to end, so that it has no stump of a
    /// frame behind it.
    fn frame_due(&self) -> u64 {
        let slack = self.frame_ns() / 20;
        match self.due.frame.abs_diff(self.due.end) <= slack {
            true => self.due.end.max(self.due.frame) + slack,
            false => self.due.frame,
        }
    }

    fn cut(&mut self) {
        let now = clock::now();
        let frame = self.monitor.cut(now, clock::cpu());
        self.outbox.say(FromNode::Frame { frame });
    }

    fn wait(&mut self, stopped: Option<(Told, u64)>) {
        let due = &self.due;
        let mut wake = [
            due.window,
            due.ops_log,
            due.look,
            due.measure,
            self.frame_due(),
        ]
        .into_iter()
        .chain(self.conductor.next())
        .chain(self.monitor.next_window())
        .min()
        .unwrap_or(u64::MAX);
        if let Some((Told::Abort | Told::Gone, since)) = stopped {
            wake = wake.min(since + PATIENCE_NS);
        }
        let span = Duration::from_nanos(wake.saturating_sub(clock::now()));
        match self.signals.recv_timeout(span) {
            Ok(signal) => self.take(signal),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        // Many clones may have ended at once.
        while let Ok(signal) = self.signals.try_recv() {
            self.take(signal);
        }
    }

    fn take(&mut self, signal: Signal) {
        let now = clock::now();
        match signal {
            // Stops are read from the control word.
            Signal::Said(_) | Signal::Gone => {}
            Signal::Arrived(clone) => {
                let orders = self.conductor.arrived(clone, now);
                self.obey(orders, now);
            }
            Signal::Ended(clone, result) => {
                let failed = match &*result {
                    Ok(outcome) => outcome.ended == EndedBy::Error,
                    Err(_) => true,
                };
                self.bury(clone, Some(*result), now);
                self.look();
                let orders = self.conductor.ended(clone, failed, now);
                self.obey(orders, now);
            }
        }
    }

    /// Takes a clone off the stage.
    fn bury(
        &mut self,
        clone: usize,
        result: Option<Result<iodyno_engine::CloneOutcome, iodyno_engine::WorkerError>>,
        now: u64,
    ) {
        let left = self.monitor.leave(clone, now);
        let job = &self.plan.workload.jobs[self.players[clone].waiting.job as usize];
        let player = &mut self.players[clone];
        let Some(shared) = player.shared.take() else {
            return;
        };
        self.prepared.notes.extend(left.log_fault.clone());
        if let Some(log) = player.ops_log.take() {
            self.prepared
                .notes
                .extend(log.close(shared.measure_start()));
        }
        let (waiting, origin) = (&player.waiting, self.due.origin);
        let ended = assemble::ended(waiting, job, &shared, &left, result, origin, now);
        player.ended = Some(ended);
    }

    fn close(&mut self, clone: usize, because: EndedBy) {
        let job = &self.plan.workload.jobs[self.players[clone].waiting.job as usize];
        let player = &mut self.players[clone];
        player.ended = Some(assemble::idle(&player.waiting, job, because));
    }

    /// Takes the host's counters when nothing is measured any more, and tells of later steps.
    fn look(&mut self) {
        let mut shared = self.players.iter().filter_map(|p| p.shared.as_deref());
        let measuring = shared.any(|shared| {
            matches!(
                shared.phase(),
                Some(Step::Ramp | Step::Measure | Step::Drain)
            )
        });
        if measuring {
            self.counters.after = None;
            return;
        }
        if self.counters.after.is_none() {
            let after = Snapshot::take(&self.counters.roots, &self.counters.devices);
            self.counters.after = Some(after);
        }
        let shared = self.players.iter().filter_map(|p| p.shared.as_deref());
        let step = shared.filter_map(CloneShared::phase).max();
        if let Some(step) = step.filter(|step| Some(*step) != self.told_step) {
            let (done, total) = (0, 0);
            self.outbox.say(FromNode::Progress { step, done, total });
        }
        self.told_step = step;
    }

    fn empty_ops_logs(&mut self) {
        for player in &mut self.players {
            if let (Some(log), Some(shared)) = (&mut player.ops_log, &player.shared) {
                log.drain(shared.measure_start());
            }
        }
    }

    fn obey_stop(&mut self, stop: Stop) {
        let orders = self.conductor.stop_all(stop);
        self.obey(orders, clock::now());
    }

    fn obey(&mut self, orders: Vec<Order>, now: u64) {
        let mut called = Vec::new();
        for order in orders {
            match order {
                Order::Spawn(clone) => called.extend(self.spawn(clone)),
                Order::Release { clone, at } => self.release(clone, at.max(now)),
                Order::Tell { clone, stop } => {
                    self.shared(clone, |shared| shared.tell(stop));
                }
                Order::Close(clone) => self.shared(clone, |shared| shared.gate.close()),
            }
        }
        worker::usher(called, self.sender.clone());
    }

    fn shared(&self, clone: usize, act: impl FnOnce(&CloneShared)) {
        if let Some(shared) = &self.players[clone].shared {
            act(shared);
        }
    }

    fn spawn(&mut self, clone: usize) -> Option<(usize, Arc<CloneShared>)> {
        let player = &mut self.players[clone];
        let spec: CloneSpec = player.waiting.spec.take()?;
        let job = &spec.job;
        let shared = Arc::new(CloneShared::new(
            job.pacing.scheduled(),
            job.engine.kind.submits_apart(),
        ));
        player.shared = Some(Arc::clone(&shared));
        let log = player.waiting.logs.windows.take();
        let job = player.waiting.job as usize;
        self.monitor.watch(clone, job, Arc::clone(&shared), log);
        worker::spawn(clone, spec, Arc::clone(&shared), self.sender.clone());
        Some((clone, shared))
    }

    fn release(&mut self, clone: usize, at: u64) {
        let end = &self.job(clone).end;
        let measured = at.saturating_add(end.ramp.0);
        if let Some(runtime) = end.runtime {
            self.due.end = self.due.end.max(measured.saturating_add(runtime.0));
        }
        if !self.monitor.ever_measured() && (at < measured) {
            self.due.measure = self.due.measure.min(measured);
        } else if at == measured {
            // Something is measured from here on: there is no common end of a ramp.
            self.due.measure = u64::MAX;
        }
        self.monitor.begin_log(clone, measured);
        self.shared(clone, |shared| shared.gate.release(at));
    }

    fn job(&self, clone: usize) -> &'a Job {
        &self.plan.workload.jobs[self.players[clone].waiting.job as usize]
    }

    /// The last frame, what is to be removed, and the part.
    fn finish(mut self) -> (Part, Outcome) {
        let now = clock::now();
        for clone in self.conductor.unfinished() {
            self.bury(clone, None, now);
        }
        for clone in 0..self.players.len() {
            if self.players[clone].ended.is_none() {
                self.close(clone, EndedBy::NotStarted);
            }
        }
        if !self.monitor.idle() {
            self.cut();
        }
        self.look();
        let host = self.host();
        let ended: Vec<Ended> = self
            .players
            .iter_mut()
            .filter_map(|p| p.ended.take())
            .collect();
        let origin = self.due.origin;
        let mut steps = Vec::new();
        if let Some((from, to)) = self.prepared.layout {
            steps.push(assemble::step(Step::LayOut, from, to, origin));
        }
        steps.extend(assemble::steps(&ended, origin));
        if self
            .prepared
            .files
            .list
            .iter()
            .any(|file| file.wanted.unlink)
        {
            let from = clock::now();
            self.prepared.files.unlink();
            steps.push(assemble::step(Step::TearDown, from, clock::now(), origin));
        }
        let outcome = assemble::outcome(&ended, &self.plan.workload.jobs, self.control.told());
        let part = Part {
            node: "local".to_owned(),
            clock_offset_ns: 0,
            clock_error_ns: 0,
            environment: self.prepared.environment,
            clones: ended.into_iter().map(|ended| ended.result).collect(),
            steps,
            host,
            files: self.prepared.states,
            notes: self.prepared.notes,
        };
        (part, outcome)
    }

    fn host(&mut self) -> HostUse {
        let (roots, devices) = (&self.counters.roots, &self.counters.devices);
        let after = self.counters.after.take();
        let after = after.unwrap_or_else(|| Snapshot::take(roots, devices));
        after.since(&self.counters.before)
    }
}

/// The next instant after `now` on a grid.
fn next(origin: u64, step: u64, now: u64) -> u64 {
    origin + (now.saturating_sub(origin) / step + 1) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_kept_even_when_a_tick_was_missed() {
        for (now, expected) in [(100, 200), (199, 200), (200, 300), (999, 1000), (50, 200)] {
            assert_eq!(next(100, 100, now), expected, "{now}");
        }
    }
}
