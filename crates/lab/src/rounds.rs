//! The rounds of a run: which trial is next, how its outcome affects the following ones, and when the run ends.

use std::collections::BTreeMap;
use std::time::Instant;

use iodyno_model::{
    Comparison, Environment, KnownTarget, Plan, RunState, Trial, TrialKey, TrialState, Workload,
};
use iodyno_store::RunHandle;

use crate::interim::{DefaultJudge, InterimComparison, Judge};
use crate::place::Places;
use crate::schedule::order;
use crate::settle::Settler;
use crate::stop::{RetryLimit, Timing};
use crate::targets::KnownTargets;
use crate::trial_run::{TrialResult, TrialRun};
use crate::{Lab, Progress, RunEnd, StopReason, unix_ms};

/// The judge and the clock of a run.
pub(crate) struct Dependencies<'a> {
    pub(crate) judge: &'a dyn Judge,
    /// ns since any fixed instant.
    pub(crate) now: Box<dyn Fn() -> u64 + 'a>,
}

impl Dependencies<'_> {
    /// The default judge and the clock of this host.
    pub(crate) fn here() -> Dependencies<'static> {
        let begun = Instant::now();
        Dependencies {
            judge: &DefaultJudge,
            now: Box::new(move || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)),
        }
    }
}

/// A run in progress.
pub(crate) struct Rounds<'a> {
    lab: &'a Lab<'a>,
    plan: &'a Plan,
    dependencies: &'a Dependencies<'a>,
    /// The trials of earlier sessions, by round and cell.
    earlier: BTreeMap<(u32, u32), Earlier>,
    settler: Settler<'a>,
    places: Places,
    targets: KnownTargets,
    interim: InterimComparison<'a>,
    retries: RetryLimit,
    timing: Timing,
    /// Virtual time of the trials of this call, ns.
    virtual_ns: u64,
    end: RunEnd,
}

/// The result of a trial in an earlier session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// It is not repeated.
    Completed,
    /// It is repeated, as this attempt, because it failed or did not finish.
    Again { attempt: u32, failed: bool },
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(
        lab: &'a Lab<'a>,
        plan: &'a Plan,
        dependencies: &'a Dependencies<'a>,
        run: RunHandle,
    ) -> Rounds<'a> {
        Rounds {
            lab,
            plan,
            dependencies,
            earlier: BTreeMap::new(),
            settler: Settler::new(lab, plan),
            places: Places::default(),
            targets: KnownTargets::default(),
            interim: InterimComparison::new(plan, dependencies.judge, run),
            retries: RetryLimit::new(plan),
            timing: Timing::new(match virtual_time(plan) {
                true => 0,
                false => (dependencies.now)(),
            }),
            virtual_ns: 0,
            end: RunEnd::new(run, plan),
        }
    }

    /// The clock of `--max-time`, ns since any fixed instant: virtual time if all trials run in it.
    fn now(&self) -> u64 {
        match virtual_time(self.plan) {
            true => self.virtual_ns,
            false => (self.dependencies.now)(),
        }
    }

    /// Adds a trial of an earlier session with the outcome of its latest attempt; false if it is to be repeated. A failed
    /// trial is repeated, because the user may have removed the cause.
    pub(crate) fn remember(&mut self, latest: TrialKey, state: TrialState) -> bool {
        let made = state == TrialState::Completed;
        let earlier = match made {
            true => Earlier::Completed,
            false => Earlier::Again {
                attempt: latest.attempt + 1,
                failed: state == TrialState::Failed,
            },
        };
        self.earlier.insert((latest.round, latest.cell), earlier);
        if made {
            self.end.count(state);
            self.retries.note(latest.cell, state);
        }
        made
    }

    /// Adds the environment of a cell's earlier trials.
    pub(crate) fn ran_on(&mut self, cell: u32, environment: &Environment) {
        self.places.moved(self.plan, cell, environment);
        self.settler.learn(environment);
    }

    /// Adds the run's targets as stored by its earlier trials.
    pub(crate) fn began_on(&mut self, targets: Vec<KnownTarget>) {
        self.targets.learn(targets);
    }

    /// Adds the results of an earlier trial.
    pub(crate) fn saw(&mut self, trial: &Trial) {
        self.interim.add(trial);
    }

    /// Runs all missing trials, or until a stopping rule applies, and ends the run.
    pub(crate) fn carry_out(mut self, observer: &mut dyn FnMut(Progress<'_>)) -> RunEnd {
        let run = self.end.handle.id;
        self.targets.begin(self.plan, run, self.lab);
        self.end.stopped = self.all(observer);
        self.count_unrepeated();
        match self.end.stopped {
            StopReason::Cancelled => self.end.state = RunState::Interrupted,
            StopReason::Refused if self.all_refused() => self.end.state = RunState::Refused,
            _ => {}
        }
        let store = self.lab.store;
        if matches!(self.end.stopped, StopReason::Width | StopReason::MaxTime)
            && let Err(error) = store.set_rounds(run, self.end.rounds.max(self.begun_before()))
        {
            self.end.unstored = Some(error);
        }
        if let Err(error) = store.finish_run(run, self.end.state, unix_ms()) {
            self.end.unstored = Some(error);
        }
        self.end
    }

    /// Counts the failed trials of earlier sessions that were not repeated.
    fn count_unrepeated(&mut self) {
        let failed = |one: &&Earlier| matches!(one, Earlier::Again { failed: true, .. });
        for _ in 0..self.earlier.values().filter(failed).count() {
            self.end.count(TrialState::Failed);
        }
    }

    /// The number of rounds that began in earlier sessions: an early round can lack a trial although later ones are
    /// complete.
    fn begun_before(&self) -> u32 {
        let last = self.earlier.keys().map(|(round, _)| round + 1);
        last.max().unwrap_or(0)
    }

    /// All trials so far were refused: nothing was written.
    fn all_refused(&self) -> bool {
        let refused = self.plan.cells() as usize - self.retries.admitted();
        self.end.made as usize == refused
    }

    fn all(&mut self, observer: &mut dyn FnMut(Progress<'_>)) -> StopReason {
        if self.plan.cells() == 0 {
            return StopReason::AllRounds;
        }
        for round in 0..self.plan.rounds {
            if !self.is_whole(round) {
                if let Some(reason) = self.enough() {
                    return reason;
                }
                let begun_ns = self.now();
                let before = self.end.made;
                if let Some(reason) = self.round(round, observer) {
                    return reason;
                }
                let span_ns = self.now().saturating_sub(begun_ns);
                let made = self.end.made - before;
                self.timing.round(span_ns, made, self.plan.cells());
                self.end.rounds = round + 1;
                if let Some(reason) = self.judge(observer) {
                    return reason;
                }
            }
            self.end.rounds = round + 1;
        }
        StopReason::AllRounds
    }

    /// Whether all trials of a round are done.
    fn is_whole(&self, round: u32) -> bool {
        (0..self.plan.cells())
            .all(|cell| self.earlier.get(&(round, cell)) == Some(&Earlier::Completed))
    }

    /// Why no other round begins, if a rule applies.
    fn enough(&self) -> Option<StopReason> {
        let max_time_ns = self.plan.stopping.max_time_ns;
        if self.lab.stop.is_set() {
            Some(StopReason::Cancelled)
        } else if self.retries.all_given_up() {
            Some(StopReason::NothingLeft)
        } else if self.retries.nothing_to_compare(self.plan) {
            Some(StopReason::NothingToCompare)
        } else if !self.timing.room(self.now(), max_time_ns) {
            Some(StopReason::MaxTime)
        } else {
            None
        }
    }

    /// Compares the trials after a complete round, and checks the width rule.
    fn judge(&mut self, observer: &mut dyn FnMut(Progress<'_>)) -> Option<StopReason> {
        let comparison = self.interim.comparison();
        let (done, of) = (self.end.rounds, self.plan.rounds);
        let stopping = &self.plan.stopping;
        let now_ns = self.now();
        let lacking = (done..of).filter(|round| !self.is_whole(*round)).count();
        let lacking = u32::try_from(lacking).unwrap_or(u32::MAX);
        // The wall-clock time of virtual time is unknown, and short.
        let left = match virtual_time(self.plan) {
            true => None,
            false => self.timing.left(now_ns, lacking, stopping.max_time_ns),
        };
        observer(Progress::Round {
            done,
            of,
            left_ns: left,
            comparison: comparison.as_ref(),
        });
        let narrow = |comparison: &Comparison| {
            let width = stopping.width?;
            self.interim.narrow(comparison, width).then_some(())
        };
        let least = stopping.least_rounds.max(self.begun_before());
        let enough = done >= least && done < of;
        (enough && comparison.as_ref().and_then(narrow).is_some()).then_some(StopReason::Width)
    }

    /// Runs the missing trials of a round.
    fn round(&mut self, round: u32, observer: &mut dyn FnMut(Progress<'_>)) -> Option<StopReason> {
        for cell in order(self.plan, round) {
            let attempt = match self.earlier.get(&(round, cell)) {
                Some(Earlier::Completed) => continue,
                Some(Earlier::Again { attempt, .. }) => *attempt,
                None => 0,
            };
            if self.lab.stop.is_set() {
                return Some(StopReason::Cancelled);
            }
            let key = TrialKey {
                run: self.end.handle.id,
                round,
                cell,
                attempt,
            };
            if self.retries.given_up(cell) {
                self.give_up(key, observer);
            } else if let Some(reason) = self.trial(key, observer) {
                return Some(reason);
            }
        }
        None
    }

    /// Removes the earlier outcome of a trial that is repeated.
    fn repeats(&mut self, key: TrialKey) {
        if let Some(Earlier::Again { failed, .. }) = self.earlier.get_mut(&(key.round, key.cell)) {
            *failed = false;
        }
    }

    /// Stores that a trial was skipped.
    fn give_up(&mut self, key: TrialKey, observer: &mut dyn FnMut(Progress<'_>)) {
        let why = format!("skipped: {}", RetryLimit::why());
        self.repeats(key);
        let run = TrialRun::new(self.lab, self.plan, key, None);
        let not_made = run.give_up(why, observer);
        self.end.given_up += 1;
        self.end.unstored = not_made.unstored.or(self.end.unstored.take());
        self.interim.add(&not_made.trial);
    }

    /// Runs a trial; returns the reason to end the run, if there is one.
    fn trial(
        &mut self,
        key: TrialKey,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Option<StopReason> {
        let (configuration, workload) = self.plan.cell(key.cell);
        // A simulated device does not depend on the host.
        let settled = match workload.in_virtual_time() {
            true => None,
            false => Some(self.settler.settle(observer)),
        };
        if self.lab.stop.is_set() {
            return Some(StopReason::Cancelled);
        }
        self.repeats(key);
        let number = self.end.made + self.end.given_up + 1;
        observer(Progress::Trial {
            number,
            of: self.end.planned,
            configuration,
            workload,
        });
        let run = TrialRun::new(self.lab, self.plan, key, settled);
        let made = run.carry_out(number, &mut self.places, &mut self.targets, observer);
        let state = made.trial.outcome.state();
        self.end.count(state);
        if workload.in_virtual_time() {
            self.virtual_ns += made.trial.frames.last().map_or(0, |frame| frame.end_ns);
        }
        self.interim.add(&made.trial);
        if let Some(environment) = &made.environment {
            self.settler.learn(environment);
        }
        let reason = self.consequence(key, state, &made, observer);
        self.end.unstored = made.unstored.or(self.end.unstored.take());
        reason
    }

    /// The effect of a trial's outcome on the following trials.
    fn consequence(
        &mut self,
        key: TrialKey,
        state: TrialState,
        made: &TrialResult,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Option<StopReason> {
        if self.lab.stop.is_set() && state != TrialState::Completed {
            return Some(StopReason::Cancelled);
        }
        if self.retries.note(key.cell, state) && key.round + 1 < self.plan.rounds {
            let (configuration, workload) = self.plan.cell(key.cell);
            observer(Progress::Note(&format!(
                "{} on {} is given up: {}",
                workload.name,
                configuration.name,
                RetryLimit::why()
            )));
        }
        let nothing = self.end.completed == 0;
        if !made.startable && nothing {
            return Some(StopReason::NoNode);
        }
        let refused = state == TrialState::Refused && key.round == 0;
        let pointless = nothing || self.retries.admitted() < 2;
        (refused && pointless).then_some(StopReason::Refused)
    }
}

fn virtual_time(plan: &Plan) -> bool {
    let mut workloads = plan.workloads.iter();
    !plan.workloads.is_empty() && workloads.all(Workload::in_virtual_time)
}

#[cfg(test)]
mod tests;
