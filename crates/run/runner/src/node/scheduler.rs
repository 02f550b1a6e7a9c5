//! When each clone starts and stops: a state machine without clock, threads or gates.
//!
//! Its inputs are events (`arrived`, `ended`, `stop_all`, time passing), its outputs orders. Jobs form waves, as in
//! fio: a job that waits for all earlier jobs begins a wave, and the following jobs belong to that wave. The threads of
//! a wave are created when all earlier waves have ended, so a long file of stonewalled jobs never uses more memory than
//! its largest wave.

use iodyno_model::{After, ExitScope, Job, StopRequest};

use crate::resolve::seeds;

/// An action that the trial has to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Create the clone's thread, which then arrives or ends.
    Spawn(usize),
    /// The clone starts at this instant, clock ns.
    Release { clone: usize, at: u64 },
    /// The clone is told to stop.
    Stop { clone: usize, stop: StopRequest },
    /// The clone has a thread and never starts.
    Close(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Blocked by earlier jobs; no thread yet.
    Waiting,
    /// Its thread is getting ready.
    Preparing,
    /// Ready; waits for the other clones of its wave, or for the start of the trial.
    Ready,
    /// Starts at this instant, clock ns.
    Due(u64),
    Running,
    /// Closed before its start; its thread is about to end.
    Closed,
    Ended,
    /// Never had a thread and never will have one.
    Skipped,
}

impl State {
    fn over(self) -> bool {
        matches!(self, State::Ended | State::Skipped)
    }
}

#[derive(Debug)]
struct ScheduledClone {
    job: usize,
    delay: u64,
    state: State,
}

#[derive(Debug)]
struct Rules {
    wave: u32,
    /// Jobs whose clones must all have ended.
    awaits: Vec<usize>,
    exit_all: bool,
    failure_ends_all: bool,
    exit_what: ExitScope,
    group: u32,
}

/// Decides when each clone starts and stops.
#[derive(Debug)]
pub(crate) struct Scheduler {
    jobs: Vec<Rules>,
    clones: Vec<ScheduledClone>,
    /// Whether the trial has started.
    started: bool,
    orders: Vec<Order>,
}

/// A release within this time is passed on to the worker, which waits more precisely.
const NEAR_NS: u64 = 2_000_000;

impl Scheduler {
    /// `clones` says which job each clone belongs to, and its seed.
    pub(crate) fn new(jobs: &[Job], clones: &[(u32, u64)]) -> Scheduler {
        let mut wave = 0;
        let rules = jobs
            .iter()
            .enumerate()
            .map(|(index, job)| {
                // The first job has nothing to wait for.
                wave += u32::from(job.after == After::AllBefore && index > 0);
                let awaits = match &job.after {
                    After::Job(name) => named_before(jobs, index, name),
                    After::Start | After::AllBefore => Vec::new(),
                };
                Rules {
                    wave,
                    awaits,
                    exit_all: job.exit_all,
                    failure_ends_all: job.errors.exit_all,
                    exit_what: job.exit_what,
                    group: job.reporting.group,
                }
            })
            .collect();
        let clones = clones
            .iter()
            .map(|(job, seed)| {
                let span = jobs[*job as usize].delay;
                let width = span.max.since(span.min).0;
                ScheduledClone {
                    job: *job as usize,
                    delay: span.min.0 + seeds::below(*seed, DELAY, width.saturating_add(1)),
                    state: State::Waiting,
                }
            })
            .collect();
        Scheduler {
            jobs: rules,
            clones,
            started: false,
            orders: Vec::new(),
        }
    }

    /// This clone has nothing to do.
    pub(crate) fn skip(&mut self, clone: usize) {
        self.clones[clone].state = State::Skipped;
    }

    /// Before the start: creates the threads of the first wave.
    pub(crate) fn prepare(&mut self) -> Vec<Order> {
        self.spawn_unblocked();
        self.take_orders()
    }

    /// Whether all clones of the current wave are prepared.
    pub(crate) fn prepared(&self) -> bool {
        self.clones.iter().all(|p| p.state != State::Preparing)
    }

    /// The trial starts.
    pub(crate) fn start(&mut self, at: u64) -> Vec<Order> {
        self.started = true;
        self.schedule_ready(at);
        self.tick(at)
    }

    /// A clone is ready.
    pub(crate) fn arrived(&mut self, clone: usize, now: u64) -> Vec<Order> {
        if self.clones[clone].state == State::Preparing {
            self.clones[clone].state = State::Ready;
            // Clones of one wave start together.
            if self.started && self.prepared() {
                self.schedule_ready(now);
            }
        }
        self.tick(now)
    }

    /// A clone's thread has ended.
    pub(crate) fn ended(&mut self, clone: usize, failed: bool, now: u64) -> Vec<Order> {
        let before = std::mem::replace(&mut self.clones[clone].state, State::Ended);
        let rules = &self.jobs[self.clones[clone].job];
        let ran = matches!(before, State::Running | State::Preparing);
        if (rules.exit_all && ran) || (rules.failure_ends_all && failed) {
            let (group, what) = (rules.group, rules.exit_what);
            self.stop(StopRequest::ExitAll, |_, other, state| match what {
                ExitScope::Group => other.group == group,
                ExitScope::Stonewall => state == State::Running,
                ExitScope::All => true,
            });
        }
        if self.started {
            self.spawn_unblocked();
            if self.prepared() {
                self.schedule_ready(now);
            }
        }
        self.tick(now)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: u64) -> Vec<Order> {
        for (clone, scheduled) in self.clones.iter_mut().enumerate() {
            if let State::Due(at) = scheduled.state
                && at <= now.saturating_add(NEAR_NS)
            {
                scheduled.state = State::Running;
                self.orders.push(Order::Release { clone, at });
            }
        }
        self.take_orders()
    }

    /// When to call `tick` next, clock ns.
    pub(crate) fn next(&self) -> Option<u64> {
        let due = self.clones.iter().filter_map(|clone| match clone.state {
            State::Due(at) => Some(at.saturating_sub(NEAR_NS)),
            _ => None,
        });
        due.min()
    }

    /// Stops all clones; those that have not started never will.
    pub(crate) fn stop_all(&mut self, stop: StopRequest) -> Vec<Order> {
        self.stop(stop, |_, _, _| true);
        self.take_orders()
    }

    /// The results of these clones are steady. Those that have not started never will.
    pub(crate) fn steady(&mut self, clones: &[usize]) -> Vec<Order> {
        self.stop(StopRequest::Steady, |clone, _, _| clones.contains(&clone));
        self.take_orders()
    }

    /// Every clone has ended or will never start.
    pub(crate) fn over(&self) -> bool {
        self.clones.iter().all(|clone| clone.state.over())
    }

    /// The clones whose threads have not ended.
    pub(crate) fn unfinished(&self) -> Vec<usize> {
        (0..self.clones.len())
            .filter(|clone| !matches!(self.clones[*clone].state, State::Ended | State::Skipped))
            .collect()
    }

    fn stop(&mut self, stop: StopRequest, concerned: impl Fn(usize, &Rules, State) -> bool) {
        for (clone, scheduled) in self.clones.iter_mut().enumerate() {
            if !concerned(clone, &self.jobs[scheduled.job], scheduled.state) {
                continue;
            }
            match scheduled.state {
                State::Running => self.orders.push(Order::Stop { clone, stop }),
                State::Waiting => scheduled.state = State::Skipped,
                State::Preparing | State::Ready | State::Due(_) => {
                    scheduled.state = State::Closed;
                    self.orders.push(Order::Stop { clone, stop });
                    self.orders.push(Order::Close(clone));
                }
                State::Closed => self.orders.push(Order::Stop { clone, stop }),
                State::Ended | State::Skipped => {}
            }
        }
    }

    /// Creates the threads of all clones that are no longer blocked by earlier jobs.
    fn spawn_unblocked(&mut self) {
        let over: Vec<bool> = (0..self.jobs.len())
            .map(|job| {
                self.clones
                    .iter()
                    .filter(|clone| clone.job == job)
                    .all(|clone| clone.state.over())
            })
            .collect();
        let may = |job: usize| {
            let rules = &self.jobs[job];
            let before = self.jobs.iter().zip(&over);
            before
                .filter(|(other, _)| other.wave < rules.wave)
                .all(|(_, over)| *over)
                && rules.awaits.iter().all(|other| over[*other])
        };
        let may: Vec<bool> = (0..self.jobs.len()).map(may).collect();
        for (clone, scheduled) in self.clones.iter_mut().enumerate() {
            if scheduled.state == State::Waiting && may[scheduled.job] {
                scheduled.state = State::Preparing;
                self.orders.push(Order::Spawn(clone));
            }
        }
    }

    fn schedule_ready(&mut self, from: u64) {
        for clone in &mut self.clones {
            if clone.state == State::Ready {
                clone.state = State::Due(from.saturating_add(clone.delay));
            }
        }
    }

    fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }
}

/// The index of the random number from which a clone's delay is computed.
const DELAY: u64 = 1 << 40;

/// The jobs with this name before `index`.
pub(crate) fn named_before(jobs: &[Job], index: usize, name: &str) -> Vec<usize> {
    (0..index).filter(|job| jobs[*job].name == name).collect()
}

#[cfg(test)]
mod tests;
