//! Who plays when: a state machine without clock, threads or gates.
//!
//! It is told what happened (`arrived`, `ended`, `finish`, time passing) and answers with orders. Jobs
//! lie in waves as in fio: one that waits for all before it opens a wave, and those written after it
//! belong to that wave. A wave's threads are made when its turn comes, so that a long file of
//! stonewalled jobs never holds more memory than its largest wave.

use iodyno_engine::Stop;
use iodyno_model::{After, Job};

use crate::seeds;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Make the clone's thread; it will arrive or end.
    Spawn(usize),
    /// It starts at this instant.
    Release { clone: usize, at: u64 },
    /// It is to stop.
    Tell { clone: usize, stop: Stop },
    /// It has a thread and never starts.
    Close(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its turn has not come; it has no thread.
    Waiting,
    /// It has a thread, which gets ready.
    Preparing,
    /// Ready; its batch, or the trial's start, is awaited.
    Ready,
    /// Starts at this instant.
    Due(u64),
    Running,
    /// Closed before its start; its thread is about to end.
    Closed,
    Ended,
    /// Never had a thread, and never will.
    Skipped,
}

impl State {
    fn over(self) -> bool {
        matches!(self, State::Ended | State::Skipped)
    }
}

#[derive(Debug)]
struct Player {
    job: usize,
    delay: u64,
    state: State,
}

#[derive(Debug)]
struct Rules {
    wave: u32,
    /// Jobs whose clones must all be over.
    awaits: Vec<usize>,
    exit_all: bool,
    failure_ends_all: bool,
    group: u32,
}

/// Decides when each clone starts and stops.
#[derive(Debug)]
pub(crate) struct Conductor {
    jobs: Vec<Rules>,
    players: Vec<Player>,
    /// Once the trial has started.
    started: bool,
    orders: Vec<Order>,
}

/// A release this near is passed on to the worker, which waits more exactly than we do.
const NEAR_NS: u64 = 2_000_000;

impl Conductor {
    /// `clones` says which job each clone belongs to, and its seed.
    pub(crate) fn new(jobs: &[Job], clones: &[(u32, u64)]) -> Conductor {
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
                    group: job.reporting.group,
                }
            })
            .collect();
        let players = clones
            .iter()
            .map(|(job, seed)| {
                let span = jobs[*job as usize].delay;
                let width = span.max.since(span.min).0;
                Player {
                    job: *job as usize,
                    delay: span.min.0 + seeds::below(*seed, DELAY, width.saturating_add(1)),
                    state: State::Waiting,
                }
            })
            .collect();
        Conductor {
            jobs: rules,
            players,
            started: false,
            orders: Vec::new(),
        }
    }

    /// A clone that has nothing to play.
    pub(crate) fn skip(&mut self, clone: usize) {
        self.players[clone].state = State::Skipped;
    }

    /// Before the start: the first wave's threads are made.
    pub(crate) fn prepare(&mut self) -> Vec<Order> {
        self.call_up();
        self.take()
    }

    /// All of the first wave that will ever be ready is.
    pub(crate) fn prepared(&self) -> bool {
        self.players.iter().all(|p| p.state != State::Preparing)
    }

    /// The trial starts.
    pub(crate) fn start(&mut self, at: u64) -> Vec<Order> {
        self.started = true;
        self.line_up(at);
        self.tick(at)
    }

    /// A clone is ready.
    pub(crate) fn arrived(&mut self, clone: usize, now: u64) -> Vec<Order> {
        if self.players[clone].state == State::Preparing {
            self.players[clone].state = State::Ready;
            // Those called up together start together.
            if self.started && self.prepared() {
                self.line_up(now);
            }
        }
        self.tick(now)
    }

    /// A clone's thread has ended.
    pub(crate) fn ended(&mut self, clone: usize, failed: bool, now: u64) -> Vec<Order> {
        let before = std::mem::replace(&mut self.players[clone].state, State::Ended);
        let rules = &self.jobs[self.players[clone].job];
        let played = matches!(before, State::Running | State::Preparing);
        let (group, ends_group, ends_all) = (
            rules.group,
            rules.exit_all && played,
            rules.failure_ends_all && failed,
        );
        if ends_all {
            self.stop(Stop::ExitAll, |_| true);
        } else if ends_group {
            // fio's `exitall` reaches as far as the group.
            self.stop(Stop::ExitAll, |rules| rules.group == group);
        }
        if self.started {
            self.call_up();
            if self.prepared() {
                self.line_up(now);
            }
        }
        self.tick(now)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: u64) -> Vec<Order> {
        for (clone, player) in self.players.iter_mut().enumerate() {
            if let State::Due(at) = player.state
                && at <= now.saturating_add(NEAR_NS)
            {
                player.state = State::Running;
                self.orders.push(Order::Release { clone, at });
            }
        }
        self.take()
    }

    /// When `tick` is next of use.
    pub(crate) fn next(&self) -> Option<u64> {
        let due = self.players.iter().filter_map(|player| match player.state {
            State::Due(at) => Some(at.saturating_sub(NEAR_NS)),
            _ => None,
        });
        due.min()
    }

    /// Everything stops, and what has not begun never will.
    pub(crate) fn stop_all(&mut self, stop: Stop) -> Vec<Order> {
        self.stop(stop, |_| true);
        self.take()
    }

    /// Every clone has ended or will never start.
    pub(crate) fn over(&self) -> bool {
        self.players.iter().all(|player| player.state.over())
    }

    /// Clones whose threads have not ended.
    pub(crate) fn unfinished(&self) -> Vec<usize> {
        (0..self.players.len())
            .filter(|clone| !matches!(self.players[*clone].state, State::Ended | State::Skipped))
            .collect()
    }

    fn stop(&mut self, stop: Stop, concerned: impl Fn(&Rules) -> bool) {
        for (clone, player) in self.players.iter_mut().enumerate() {
            if !concerned(&self.jobs[player.job]) {
                continue;
            }
            match player.state {
                State::Running => self.orders.push(Order::Tell { clone, stop }),
                State::Waiting => player.state = State::Skipped,
                State::Preparing | State::Ready | State::Due(_) => {
                    player.state = State::Closed;
                    self.orders.push(Order::Tell { clone, stop });
                    self.orders.push(Order::Close(clone));
                }
                State::Closed => self.orders.push(Order::Tell { clone, stop }),
                State::Ended | State::Skipped => {}
            }
        }
    }

    /// Makes the threads of all whose turn has come.
    fn call_up(&mut self) {
        let over: Vec<bool> = (0..self.jobs.len())
            .map(|job| {
                self.players
                    .iter()
                    .filter(|player| player.job == job)
                    .all(|player| player.state.over())
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
        for (clone, player) in self.players.iter_mut().enumerate() {
            if player.state == State::Waiting && may[player.job] {
                player.state = State::Preparing;
                self.orders.push(Order::Spawn(clone));
            }
        }
    }

    fn line_up(&mut self, from: u64) {
        for player in &mut self.players {
            if player.state == State::Ready {
                player.state = State::Due(from.saturating_add(player.delay));
            }
        }
    }

    fn take(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }
}

/// The draw of a clone's seed that its delay is made of.
const DELAY: u64 = 1 << 40;

/// The jobs before `index` of this name.
pub(crate) fn named_before(jobs: &[Job], index: usize, name: &str) -> Vec<usize> {
    (0..index).filter(|job| jobs[*job].name == name).collect()
}

#[cfg(test)]
mod tests;
