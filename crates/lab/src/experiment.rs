//! A run from its first trial to its last.

use std::time::{SystemTime, UNIX_EPOCH};

use iodyno_model::{
    BoundPlan, Configuration, Diagnostic, Environment, Frame, Histogram, Outcome, Part, Plan,
    RunState, SCHEMA, StackLayer, Trial, TrialKey, TrialState, Workload,
};
use iodyno_runner::{Cancel, Event, NodeCommand, RunnerError, TrialEnd};
use iodyno_store::{Rebuilder, RunHandle, Store, StoreError};

use crate::keeper::{Health, Keeper};
use crate::schedule::{bind, schedule};
use crate::store_place::store_on_target;

/// Whatever can carry out a trial: a child process here, later one on another host.
pub trait Node {
    /// Carries out one trial and forwards what it tells. `Err` only where no trial came about.
    fn carry_out(
        &self,
        plan: &BoundPlan,
        cancel: &Cancel,
        events: &mut dyn FnMut(Event),
    ) -> Result<TrialEnd, RunnerError>;
}

impl Node for NodeCommand {
    fn carry_out(
        &self,
        plan: &BoundPlan,
        cancel: &Cancel,
        events: &mut dyn FnMut(Event),
    ) -> Result<TrialEnd, RunnerError> {
        iodyno_runner::carry_out(plan, self, cancel, events)
    }
}

/// What an experiment is carried out with.
pub struct Lab<'a> {
    /// Where results go.
    pub store: &'a dyn Store,
    /// What lies below the store's file, top first; empty if that is not known.
    pub store_stack: Vec<StackLayer>,
    /// Who makes the I/O.
    pub node: &'a dyn Node,
    /// Ends the run early.
    pub cancel: &'a Cancel,
}

/// A trial that has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    /// From 1, in the order in which the trials are made.
    pub number: u32,
    /// What was done.
    pub workload: &'a Workload,
    /// What came of it. Its frames are without histograms: the store has those.
    pub trial: &'a Trial,
    /// Why it was refused or could not be made ready: every reason.
    pub faults: &'a [Diagnostic],
    /// Why it could not be stored, if it could not.
    pub unstored: Option<&'a StoreError>,
}

/// What a run tells while it goes.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The plan is stored; the first trial is next.
    Begun(RunHandle),
    /// A trial begins.
    Trial {
        /// From 1.
        number: u32,
        /// Cells × rounds.
        of: u32,
        /// On what.
        configuration: &'a Configuration,
        /// What is done.
        workload: &'a Workload,
    },
    /// What its node tells.
    Node(&'a Event),
    /// The store fails; results are kept in memory and tried again.
    StoreFails(&'a StoreError),
    /// … and works again; nothing is missing.
    StoreRecovered,
    /// A trial has ended.
    Ended(Ended<'a>),
}

/// How a run came out.
#[derive(Debug)]
pub struct RunEnd {
    /// Its names.
    pub handle: RunHandle,
    /// Its state, as stored.
    pub state: RunState,
    /// Trials that were made, of those planned.
    pub made: u32,
    /// Trials that completed, of those made.
    pub completed: u32,
    /// Cells × rounds.
    pub planned: u32,
    /// The store does not hold everything that was measured; the last reason.
    pub unstored: Option<StoreError>,
}

/// Carries out every trial of a plan.
///
/// A trial that fails is recorded, and the next one is made; one that is refused, or a node that
/// cannot be started, ends the run, as the user's cancellation does.
///
/// # Errors
/// Where the run cannot be stored before it begins; nothing was done then.
pub fn carry_out(
    plan: &Plan,
    lab: &Lab<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Result<RunEnd, StoreError> {
    let handle = lab.store.begin_run(plan, unix_ms())?;
    observer(Progress::Begun(handle));
    let planned = plan.cells() * plan.rounds;
    let mut end = RunEnd {
        handle,
        state: RunState::Completed,
        made: 0,
        completed: 0,
        planned,
        unstored: None,
    };
    for (key, number) in schedule(plan, handle.id).zip(1..) {
        if lab.cancel.is_cancelled() {
            break;
        }
        let (configuration, workload) = plan.cell(key.cell);
        observer(Progress::Trial {
            number,
            of: planned,
            configuration,
            workload,
        });
        let (made, unstored) = TrialRun::new(lab, plan, key).carry_out(number, observer);
        end.made = number;
        end.completed += u32::from(made.state == TrialState::Completed);
        end.unstored = unstored.or(end.unstored);
        end.state = worse(end.state, made.state);
        if made.last {
            break;
        }
    }
    if lab.cancel.is_cancelled() && (end.made < planned || end.state != RunState::Completed) {
        end.state = RunState::Interrupted;
    }
    if let Err(error) = lab.store.finish_run(handle.id, end.state, unix_ms()) {
        end.unstored = Some(error);
    }
    Ok(end)
}

/// A run is as good as its worst trial.
fn worse(run: RunState, trial: TrialState) -> RunState {
    match trial {
        TrialState::Completed => run,
        TrialState::Refused if run == RunState::Completed => RunState::Refused,
        _ => RunState::Failed,
    }
}

/// What a trial means for the run.
struct Made {
    state: TrialState,
    /// No further trial is to be made.
    last: bool,
}

/// One trial under way.
struct TrialRun<'a> {
    lab: &'a Lab<'a>,
    plan: &'a Plan,
    key: TrialKey,
    started_unix_ms: u64,
    keeper: Keeper<'a>,
    environment: Option<Environment>,
    notes: Vec<String>,
    frames: Vec<Frame>,
    rebuilder: Rebuilder,
}

impl<'a> TrialRun<'a> {
    fn new(lab: &'a Lab<'a>, plan: &'a Plan, key: TrialKey) -> TrialRun<'a> {
        TrialRun {
            lab,
            plan,
            key,
            started_unix_ms: unix_ms(),
            keeper: Keeper::new(lab.store, key),
            environment: None,
            notes: Vec::new(),
            frames: Vec::new(),
            rebuilder: Rebuilder::default(),
        }
    }

    fn carry_out(
        mut self,
        number: u32,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> (Made, Option<StoreError>) {
        let (configuration, workload) = self.plan.cell(self.key.cell);
        tell(
            self.keeper
                .begin(&configuration.name, &workload.name, self.started_unix_ms),
            observer,
        );
        let bound = bind(self.plan, self.key);
        let (node, cancel) = (self.lab.node, self.lab.cancel);
        let end = node.carry_out(&bound, cancel, &mut |event| {
            let health = self.keep(&event);
            observer(Progress::Node(&event));
            tell(health, observer);
        });
        let startable = end.is_ok();
        let (outcome, parts, faults) = self.result(end, workload);
        let mut trial = Trial {
            schema: SCHEMA,
            key: self.key,
            configuration: configuration.name.clone(),
            workload: workload.name.clone(),
            started_unix_ms: self.started_unix_ms,
            outcome,
            parts,
            frames: std::mem::take(&mut self.frames),
            findings: Vec::new(),
        };
        trial.findings = iodyno_judge::findings(workload, &trial);
        if let Some(environment) = &self.environment {
            trial
                .findings
                .extend(store_on_target(&self.lab.store_stack, environment));
            trial
                .findings
                .sort_by_key(|finding| std::cmp::Reverse(finding.weight));
        }
        let unstored = self.keeper.finish(&trial).err();
        let state = trial.outcome.state();
        observer(Progress::Ended(Ended {
            number,
            workload,
            trial: &trial,
            faults: &faults,
            unstored: unstored.as_ref(),
        }));
        let last = state == TrialState::Refused || !startable;
        (Made { state, last }, unstored)
    }

    /// Keeps what the node tells.
    fn keep(&mut self, event: &Event) -> Health {
        match event {
            Event::Ready { environment, notes } => {
                self.environment = Some((**environment).clone());
                self.notes.clone_from(notes);
                self.keeper.environment(environment)
            }
            Event::Frame(frame) => {
                self.rebuilder.add(frame);
                self.frames.push(without_histograms(frame));
                self.keeper.frame(frame)
            }
            Event::Progress { .. } | Event::Started { .. } => Health::Unchanged,
        }
    }

    /// Outcome, parts and faults. A trial whose node died has its part rebuilt from its frames.
    fn result(
        &mut self,
        end: Result<TrialEnd, RunnerError>,
        workload: &Workload,
    ) -> (Outcome, Vec<Part>, Vec<Diagnostic>) {
        match end {
            Ok(TrialEnd::Done(part, outcome)) => (outcome, vec![*part], Vec::new()),
            Ok(TrialEnd::Refused(faults)) => {
                (Outcome::Refused(reasons(&faults)), Vec::new(), faults)
            }
            Ok(TrialEnd::Unprepared(faults)) => {
                (Outcome::Failed(reasons(&faults)), Vec::new(), faults)
            }
            Ok(TrialEnd::Failed { outcome, .. }) => (outcome, self.rebuilt(workload), Vec::new()),
            Err(error) => {
                let fault = Diagnostic::error(error.to_string());
                (
                    Outcome::Failed(error.to_string()),
                    self.rebuilt(workload),
                    vec![fault],
                )
            }
        }
    }

    fn rebuilt(&mut self, workload: &Workload) -> Vec<Part> {
        match (&self.environment, self.frames.is_empty()) {
            (Some(environment), false) => {
                let rebuilder = std::mem::take(&mut self.rebuilder);
                let mut part = rebuilder.part(environment.clone(), workload);
                part.notes.append(&mut self.notes);
                vec![part]
            }
            _ => Vec::new(),
        }
    }
}

fn tell(health: Health, observer: &mut dyn FnMut(Progress<'_>)) {
    match health {
        Health::Unchanged => {}
        Health::Fails(error) => observer(Progress::StoreFails(&error)),
        Health::Recovered => observer(Progress::StoreRecovered),
    }
}

/// Every message on one line.
fn reasons(faults: &[Diagnostic]) -> String {
    let lines = faults.iter().flat_map(|fault| fault.message.lines());
    lines.map(str::trim).collect::<Vec<_>>().join("; ")
}

/// A frame's counts. Histograms of a ten-hour trial of many jobs would fill the memory of the host
/// under test; the store has them.
fn without_histograms(frame: &Frame) -> Frame {
    let mut frame = frame.clone();
    for direction in frame.jobs.iter_mut().flat_map(|job| &mut job.directions) {
        direction.service = Histogram::default();
        direction.response = None;
    }
    frame
}

fn unix_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
