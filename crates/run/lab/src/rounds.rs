//! The rounds of a run: which trial is next, how its outcome affects the following ones, and when the run ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use iodyno_model::{
    Comparison, Environment, Fresh, KnownTarget, Plan, RunState, Trial, TrialKey, TrialState,
    Workload,
};
use iodyno_store::RunHandle;
use iodyno_units::counted;

use crate::interim::{DefaultJudge, InterimComparison, Judge};
use crate::made::{MadeTargets, fresh};
use crate::nodes::workers;
use crate::place::Places;
use crate::schedule::order;
use crate::settle::Settler;
use crate::stop::{RetryLimit, RoundsLeft, Timing, compared_after};
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
    made: MadeTargets<'a>,
    /// By node.
    places: Vec<Places>,
    targets: KnownTargets,
    interim: InterimComparison<'a>,
    retries: RetryLimit,
    timing: Timing,
    left: RoundsLeft,
    /// The workloads that a rule has stopped, by their places in the plan, with the number of their rounds.
    ended: BTreeMap<usize, u32>,
    /// The time of each workload's trials.
    times: BTreeMap<usize, WorkloadTime>,
    /// Time for making targets in this round, ns.
    making_ns: u64,
    /// Virtual time of the trials of this call, ns.
    virtual_ns: u64,
    /// The cells whose trials are run now; `None`: all.
    pub(crate) only: Option<BTreeSet<u32>>,
    end: RunEnd,
}

/// The next step after a trial.
enum Next {
    /// The next trial.
    GoOn,
    /// Another attempt at the same trial.
    Repeat,
    /// The end of the run.
    End(StopReason),
}

/// The time of a workload's trials, with the making of their targets, in this call.
struct WorkloadTime {
    spent_ns: u64,
    /// Time of the current round.
    round_ns: u64,
    rounds: Timing,
}

/// The result of a trial in an earlier session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// It is not repeated.
    Completed,
    /// It is repeated, with this attempt number, because it failed or did not finish.
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
            made: MadeTargets::new(lab, plan),
            places: lab.nodes.iter().map(|_| Places::default()).collect(),
            targets: KnownTargets::default(),
            interim: InterimComparison::new(plan, dependencies.judge, run),
            retries: RetryLimit::new(plan),
            timing: Timing::new(match virtual_time(plan) {
                true => 0,
                false => (dependencies.now)(),
            }),
            left: RoundsLeft::default(),
            ended: BTreeMap::new(),
            times: BTreeMap::new(),
            making_ns: 0,
            virtual_ns: 0,
            only: None,
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

    /// Adds a trial of an earlier session with the outcome of its latest attempt; returns false to repeat it. A failed
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

    /// Adds the environment of a cell's earlier trials on a node.
    pub(crate) fn ran_on(&mut self, cell: u32, node: &str, environment: &Environment) {
        let mut named = self.lab.nodes.iter();
        // The name of the only node is not stored.
        let place = named.position(|own| own.name == node).unwrap_or(0);
        self.places[place].moved(self.plan, cell, environment);
    }

    /// Adds the targets that were made for an earlier trial: those of this call have higher numbers.
    pub(crate) fn made_on(&mut self, trial: &Trial) {
        self.made.number_after(trial);
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
        let only = self.only.as_ref();
        self.targets.begin(self.plan, run, self.lab, only);
        self.end.stopped = self.all(observer);
        self.made.end(observer);
        self.count_unrepeated();
        match self.end.stopped {
            StopReason::Cancelled => self.end.state = RunState::Interrupted,
            StopReason::Refused if self.all_refused() => self.end.state = RunState::Refused,
            _ => {}
        }
        if self.end.state == RunState::Completed && self.lacks_others() {
            self.end.state = RunState::Interrupted;
        }
        let store = self.lab.store;
        let early = [
            StopReason::Width,
            StopReason::Workloads,
            StopReason::MaxTime,
        ];
        // The other cells keep their rounds.
        if early.contains(&self.end.stopped)
            && self.only.is_none()
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
        let last = self.earlier.last_key_value();
        last.map_or(0, |((round, _), _)| round + 1)
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
            if self.cells(round).next().is_none() {
                // Each workload was stopped by its own rule, or has fewer rounds than the plan.
                return match self.ended.is_empty() {
                    true => StopReason::AllRounds,
                    false => StopReason::Workloads,
                };
            }
            if !self.is_whole(round) {
                if let Some(reason) = self.enough(round) {
                    return reason;
                }
                let begun_ns = self.now();
                let before = self.end.made;
                if let Some(reason) = self.round(round, observer) {
                    return reason;
                }
                let span_ns = self.now().saturating_sub(begun_ns);
                let making_ns = std::mem::take(&mut self.making_ns);
                // What is made once does not delay further rounds.
                let once_ns = match fresh(self.plan) {
                    Fresh::Experiment => making_ns,
                    Fresh::Round | Fresh::Trial => 0,
                };
                let span_ns = span_ns.saturating_sub(once_ns);
                let made = self.end.made - before;
                let cells = self.selected(round).count();
                self.timing.round(span_ns, made, cells as u32);
                self.end.rounds = round + 1;
                self.time_workloads(round);
                if let Some(reason) = self.judge(observer) {
                    return reason;
                }
            }
            self.end.rounds = round + 1;
        }
        StopReason::AllRounds
    }

    /// The cells that have a trial in a round.
    fn cells(&self, round: u32) -> impl Iterator<Item = u32> {
        (0..self.plan.cells()).filter(move |cell| self.takes_part(*cell, round))
    }

    fn takes_part(&self, cell: u32, round: u32) -> bool {
        let ended = self.ended.get(&self.plan.place(cell).1);
        self.plan.takes_part(cell, round) && ended.is_none_or(|rounds| round < *rounds)
    }

    fn is_selected(&self, cell: u32) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&cell))
    }

    /// Whether trials of other cells than the selected ones are missing.
    fn lacks_others(&self) -> bool {
        let mut made: BTreeMap<u32, u32> = BTreeMap::new();
        for ((_, cell), earlier) in &self.earlier {
            *made.entry(*cell).or_default() += u32::from(*earlier == Earlier::Completed);
        }
        let lacks = |cell: u32| {
            let own = self.plan.cell(cell).1.rounds;
            let planned = own.unwrap_or(self.plan.rounds).min(self.plan.rounds);
            made.get(&cell).copied().unwrap_or(0) < planned
        };
        let mut others = (0..self.plan.cells()).filter(|cell| !self.is_selected(*cell));
        others.any(lacks)
    }

    /// Whether all selected trials of a round are done.
    fn is_whole(&self, round: u32) -> bool {
        self.selected(round).all(|cell| self.has(round, cell))
    }

    /// The selected cells that have a trial in a round.
    fn selected(&self, round: u32) -> impl Iterator<Item = u32> {
        let cells = self.cells(round);
        cells.filter(|cell| self.is_selected(*cell))
    }

    /// Whether a trial was completed in an earlier session.
    fn has(&self, round: u32, cell: u32) -> bool {
        self.earlier.get(&(round, cell)) == Some(&Earlier::Completed)
    }

    fn selected_given_up(&self) -> bool {
        let mut cells = (0..self.plan.cells()).filter(|cell| self.is_selected(*cell));
        cells.all(|cell| self.retries.given_up(cell))
    }

    /// The reason to end before this round, if a rule applies. An incomplete round needs only the time of its missing
    /// trials, so that all cells end with the same number of rounds if possible.
    fn enough(&self, round: u32) -> Option<StopReason> {
        let max_time_ns = self.plan.stopping.max_time_ns;
        let cells = self.selected(round).count() as u32;
        let missing = self.selected(round).filter(|cell| !self.has(round, *cell));
        let missing = missing.count() as u32;
        if self.lab.stop.is_set() {
            Some(StopReason::Cancelled)
        } else if self.selected_given_up() {
            Some(StopReason::NothingLeft)
        } else if self.only.is_none() && self.retries.nothing_to_compare(self.plan) {
            Some(StopReason::NothingToCompare)
        } else if !self.timing.room(self.now(), max_time_ns, (missing, cells)) {
            Some(StopReason::MaxTime)
        } else {
            None
        }
    }

    /// Compares the trials after a complete round if a comparison is due, and checks the width rule.
    fn judge(&mut self, observer: &mut dyn FnMut(Progress<'_>)) -> Option<StopReason> {
        let (done, of) = (self.end.rounds, self.plan.rounds);
        let comparison = compared_after(done).then(|| self.interim.comparison());
        let comparison = comparison.flatten();
        let stopping = &self.plan.stopping;
        let now_ns = self.now();
        let mut left = self.left;
        let lacking = left.after(done..of, |round| !self.is_whole(round));
        self.left = left;
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
            self.interim.narrow(comparison, None, width).then_some(())
        };
        let least = stopping.least_rounds.max(self.begun_before());
        let enough = done >= least && done < of;
        let enough = enough && comparison.as_ref().and_then(narrow).is_some();
        self.end_workloads(comparison.as_ref(), observer);
        enough.then_some(StopReason::Width)
    }

    /// Adds a round to the time of its workloads.
    fn time_workloads(&mut self, round: u32) {
        let places: Vec<usize> = self
            .cells(round)
            .map(|cell| self.plan.place(cell).1)
            .collect();
        for (place, time) in &mut self.times {
            let cells = places.iter().filter(|other| *other == place).count() as u32;
            let span_ns = std::mem::take(&mut time.round_ns);
            time.rounds
                .round(span_ns, u32::from(span_ns > 0) * cells, cells);
        }
    }

    /// Ends workloads whose own stopping rule applies after a complete round.
    fn end_workloads(
        &mut self,
        comparison: Option<&Comparison>,
        observer: &mut dyn FnMut(Progress<'_>),
    ) {
        let done = self.end.rounds;
        for (place, workload) in self.plan.workloads.iter().enumerate() {
            let rules = &workload.stopping;
            let ruled = !rules.is_none() || workload.search.is_some();
            if !ruled || done >= self.plan.rounds {
                continue;
            }
            let own = (0..self.plan.cells()).filter(|cell| self.plan.place(*cell).1 == place);
            let own: Vec<u32> = own.filter(|cell| self.takes_part(*cell, done)).collect();
            if own.is_empty() {
                continue;
            }
            let found = workload.search.is_some()
                && own
                    .iter()
                    .all(|cell| self.retries.given_up(*cell) || self.interim.is_found(*cell));
            let time = self.times.get(&place);
            let room =
                time.is_none_or(|time| time.rounds.room(time.spent_ns, rules.max_time_ns, (1, 1)));
            let least = rules.least_rounds.max(self.begun_before());
            let narrow = rules
                .width
                .zip(comparison)
                .is_some_and(|(width, comparison)| {
                    done >= least && self.interim.narrow(comparison, Some(workload), width)
                });
            let why = match (found, room, narrow) {
                (true, _, _) => "its searches have their answers",
                (_, false, _) => "another round would exceed its time limit",
                (_, _, true) => "its intervals are as narrow as requested",
                _ => continue,
            };
            let rounds = counted(done.into(), "round");
            observer(Progress::Note(&format!(
                "{} ends after {rounds}: {why}",
                workload.name
            )));
            self.ended.insert(place, done);
            self.left = RoundsLeft::default();
            let run = self.end.handle.id;
            // Other cells of the workload keep their rounds.
            if self.only.is_none()
                && let Err(error) = self.lab.store.end_workload(run, place, done)
            {
                self.end.unstored = Some(error);
            }
        }
    }

    /// Runs the missing trials of a round.
    fn round(&mut self, round: u32, observer: &mut dyn FnMut(Progress<'_>)) -> Option<StopReason> {
        let mut order = order(self.plan, round);
        order.retain(|cell| self.takes_part(*cell, round) && self.is_selected(*cell));
        for (place, cell) in order.iter().copied().enumerate() {
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
                continue;
            }
            let rest = self.unmade(round, &order[place + 1..]);
            if let Some(reason) = self.attempts(key, &rest, observer) {
                return Some(reason);
            }
        }
        None
    }

    /// Runs a trial, and repeats it as often as the plan says if it fails.
    fn attempts(
        &mut self,
        mut key: TrialKey,
        rest: &[u32],
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Option<StopReason> {
        let mut retries = self.plan.retry;
        loop {
            let (completed, begun_ns) = (self.end.completed, self.now());
            let next = self.trial(key, retries, observer);
            let completed = self.end.completed > completed;
            self.made.used(key, completed, rest, observer);
            self.spent(key.cell, begun_ns);
            match next {
                Next::Repeat => {
                    key.attempt += 1;
                    retries -= 1;
                }
                Next::End(reason) => return Some(reason),
                Next::GoOn => return None,
            }
        }
    }

    /// Adds the time since `begun_ns` to that of a cell's workload.
    fn spent(&mut self, cell: u32, begun_ns: u64) {
        let span_ns = self.now().saturating_sub(begun_ns);
        let (_, workload) = self.plan.place(cell);
        let time = self.times.entry(workload).or_insert(WorkloadTime {
            spent_ns: 0,
            round_ns: 0,
            rounds: Timing::new(0),
        });
        time.spent_ns += span_ns;
        time.round_ns += span_ns;
    }

    /// The cells among these whose trials will be run.
    fn unmade(&self, round: u32, cells: &[u32]) -> Vec<u32> {
        let run = |cell: &&u32| !self.retries.given_up(**cell) && !self.has(round, **cell);
        cells.iter().filter(run).copied().collect()
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
        let run = TrialRun::new(self.lab, self.plan, key, BTreeMap::new(), None);
        let not_made = run.give_up(why, observer);
        self.end.given_up += 1;
        self.end.unstored = not_made.unstored.or(self.end.unstored.take());
        self.interim.add(&not_made.trial);
    }

    /// Runs a trial, which is repeated at most `retries` times if it fails.
    fn trial(
        &mut self,
        key: TrialKey,
        retries: u32,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Next {
        let (configuration, workload) = self.plan.cell(key.cell);
        let begun_ns = self.now();
        let ready = self.made.ready(key, observer);
        self.making_ns += self.now().saturating_sub(begun_ns);
        if self.lab.stop.is_set() {
            return Next::End(StopReason::Cancelled);
        }
        // A simulated device does not depend on the host.
        let settled = match (&ready, workload.in_virtual_time()) {
            (Err(_), _) | (_, true) => None,
            (Ok(made), false) => {
                let workers = workers(self.plan, key.cell);
                Some(self.settler.settle(&workers, made, observer))
            }
        };
        if self.lab.stop.is_set() {
            return Next::End(StopReason::Cancelled);
        }
        self.repeats(key);
        let number = self.end.made + self.end.given_up + 1;
        let load = self.interim.next_load(key.cell);
        observer(Progress::Trial {
            number,
            of: self.end.planned,
            configuration,
            workload,
            load,
        });
        let (places, targets) = (&mut self.places, &mut self.targets);
        let made = match ready {
            Ok(made) => TrialRun::new(self.lab, self.plan, key, made, settled)
                .at(load)
                .repeatable(retries)
                .carry_out(number, places, targets, observer),
            Err(faults) => TrialRun::new(self.lab, self.plan, key, BTreeMap::new(), settled)
                .repeatable(retries)
                .unmade(faults, number, places, observer),
        };
        if made.repeated {
            self.end.unstored = made.unstored.or(self.end.unstored.take());
            return Next::Repeat;
        }
        let state = made.trial.outcome.state();
        self.end.count(state);
        if workload.in_virtual_time() {
            self.virtual_ns += made
                .trial
                .frames
                .iter()
                .map(|frame| frame.end_ns)
                .max()
                .unwrap_or(0);
        }
        self.interim.add(&made.trial);
        for environment in made.environments.iter().flatten() {
            self.settler.learn(environment);
        }
        let reason = self.consequence(key, state, &made, observer);
        self.end.unstored = made.unstored.or(self.end.unstored.take());
        reason.map_or(Next::GoOn, Next::End)
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
