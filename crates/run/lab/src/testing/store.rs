//! A store in memory.

use std::collections::BTreeMap;

use iodyno_model::{
    CommandRun, Environment, Frame, KnownTarget, Plan, Run, RunId, RunState, RunSummary,
    TelemetryBatch, Trial, TrialKey, TrialState, TrialSummary, VerdictCounts,
};
use iodyno_store::{Appended, RunHandle, Store, StoreError};

use super::Locked;

/// Keeps one run and logs the calls, unless it is full. For a process that resumes the run, the previous owner has
/// ended.
#[derive(Default)]
pub(crate) struct FakeStore {
    full: Locked<bool>,
    /// The number of transactions that appended results.
    pub(crate) appends: Locked<u32>,
    log: Locked<Vec<String>>,
    run: Locked<Option<(RunId, Plan)>>,
    rounds: Locked<u32>,
    /// The run was imported from another store.
    pub(crate) foreign: Locked<bool>,
    targets: Locked<Vec<KnownTarget>>,
    state: Locked<Option<RunState>>,
    begun: Locked<BTreeMap<TrialKey, Vec<Frame>>>,
    telemetry: Locked<BTreeMap<TrialKey, Vec<TelemetryBatch>>>,
    pub(crate) trials: Locked<Vec<Trial>>,
}

impl FakeStore {
    pub(crate) fn full(&self, full: bool) {
        self.full.set(full);
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }

    /// The identity of the run.
    pub(crate) fn id(&self) -> RunId {
        self.run.borrow().as_ref().unwrap().0
    }

    /// Changes the plan of the run.
    pub(crate) fn replan(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.run.borrow_mut().as_mut().unwrap().1);
    }

    fn note(&self, text: String) -> Result<(), StoreError> {
        if self.full.get() {
            return Err(StoreError::Full {
                path: "/store".into(),
                doing: "testing",
            });
        }
        self.log.borrow_mut().push(text);
        Ok(())
    }

    fn add_frame(&self, key: TrialKey, frame: &Frame) -> Result<(), StoreError> {
        assert!(
            !frame.jobs[0].directions[0].service.is_empty(),
            "stored frames have their histograms"
        );
        self.note(format!("frame {}", frame.number))?;
        let mut begun = self.begun.borrow_mut();
        begun.entry(key).or_default().push(frame.clone());
        Ok(())
    }

    fn add_telemetry(&self, key: TrialKey, batch: &TelemetryBatch) -> Result<(), StoreError> {
        self.note(format!("telemetry {}", batch.number))?;
        let mut telemetry = self.telemetry.borrow_mut();
        telemetry.entry(key).or_default().push(batch.clone());
        Ok(())
    }

    fn summary(&self, key: TrialKey, frames: usize) -> TrialSummary {
        let trials = self.trials.borrow();
        let ended = trials.iter().find(|trial| trial.key == key);
        TrialSummary {
            key,
            configuration: String::new(),
            workload: String::new(),
            started_unix_ms: 0,
            state: ended.map_or(TrialState::Interrupted, |trial| trial.outcome.state()),
            reason: None,
            host: None,
            frames: frames as u32,
            totals: Vec::new(),
        }
    }
}

impl Store for FakeStore {
    fn begin_run(&self, plan: &Plan, _: u64) -> Result<RunHandle, StoreError> {
        self.note(format!("run {}", plan.name))?;
        let id = RunId::fresh();
        *self.run.borrow_mut() = Some((id, plan.clone()));
        self.rounds.set(plan.rounds);
        Ok(RunHandle { id, alias: 1 })
    }

    fn resume_run(&self, run: RunId) -> Result<RunHandle, StoreError> {
        self.state.set(None);
        Ok(RunHandle { id: run, alias: 1 })
    }

    fn set_rounds(&self, _: RunId, rounds: u32) -> Result<(), StoreError> {
        self.rounds.set(rounds);
        self.replan(|plan| plan.rounds = plan.rounds.max(rounds));
        self.note(format!("rounds are {rounds}"))
    }

    fn end_workload(&self, _: RunId, workload: usize, rounds: u32) -> Result<(), StoreError> {
        self.replan(|plan| plan.workloads[workload].rounds = Some(rounds));
        self.note(format!("workload {workload} ends after {rounds} rounds"))
    }

    fn note_look(&self, _: RunId, rounds: u32) -> Result<(), StoreError> {
        self.note(format!("looked after {rounds} rounds"))
    }

    fn begin_trial(
        &self,
        key: TrialKey,
        configuration: &str,
        workload: &str,
        _: u64,
    ) -> Result<(), StoreError> {
        self.note(format!("begin {configuration} {workload}"))?;
        let before = self.begun.borrow_mut().insert(key, Vec::new());
        assert!(before.is_none(), "{key:?} was made before");
        Ok(())
    }

    fn set_environment(
        &self,
        _: TrialKey,
        _: &str,
        environment: &Environment,
    ) -> Result<(), StoreError> {
        self.note(format!("environment {}", environment.host))
    }

    fn append(&self, key: TrialKey, results: &[Appended<'_>]) -> Result<(), StoreError> {
        self.appends.set(self.appends.get() + 1);
        for result in results {
            match result {
                Appended::Frame(frame) => self.add_frame(key, frame)?,
                Appended::Telemetry(batch) => self.add_telemetry(key, batch)?,
            }
        }
        Ok(())
    }

    fn set_targets(&self, _: TrialKey, targets: &[KnownTarget]) -> Result<(), StoreError> {
        self.note("targets".to_owned())?;
        *self.targets.borrow_mut() = targets.to_vec();
        Ok(())
    }

    fn targets(&self, _: RunId) -> Result<Vec<KnownTarget>, StoreError> {
        Ok(self.targets.borrow().clone())
    }

    fn finish_trial(&self, trial: &Trial) -> Result<(), StoreError> {
        assert!(
            trial.telemetry.is_empty(),
            "telemetry was appended as it came"
        );
        self.note("finish".to_owned())?;
        self.trials.borrow_mut().push(trial.clone());
        Ok(())
    }

    fn add_commands(
        &self,
        key: TrialKey,
        _: &str,
        commands: &[CommandRun],
    ) -> Result<(), StoreError> {
        let mut trials = self.trials.borrow_mut();
        let ended = trials.iter_mut().find(|trial| trial.key == key);
        let parts = ended.into_iter().flat_map(|trial| &mut trial.parts);
        for made in parts.filter_map(|part| part.environment.made.as_mut()) {
            made.commands.extend_from_slice(commands);
        }
        Ok(())
    }

    fn finish_run(&self, _: RunId, state: RunState, _: u64) -> Result<(), StoreError> {
        self.state.set(Some(state));
        self.note(format!("run is {}", state.name()))
    }

    fn set_verdicts(&self, _: RunId, _: &VerdictCounts) -> Result<(), StoreError> {
        Ok(())
    }

    fn runs(&self, _: usize, _: usize) -> Result<Vec<RunSummary>, StoreError> {
        Ok(Vec::new())
    }

    fn find(&self, name: &str) -> Result<RunId, StoreError> {
        Err(StoreError::NoSuchRun {
            name: name.to_owned(),
            why: "a fake has none".to_owned(),
        })
    }

    fn run(&self, run: RunId) -> Result<Run, StoreError> {
        let stored = self.run.borrow();
        let Some((id, plan)) = stored.as_ref().filter(|(id, _)| *id == run) else {
            return self.find(&run.to_string()).and(Err(StoreError::NoHome));
        };
        let begun = self.begun.borrow();
        let trials: Vec<TrialSummary> = begun
            .iter()
            .map(|(key, frames)| self.summary(*key, frames.len()))
            .collect();
        Ok(Run {
            summary: RunSummary {
                alias: 1,
                id: *id,
                name: plan.name.clone(),
                state: self.state.get().unwrap_or(RunState::Interrupted),
                started_unix_ms: 0,
                duration_ms: None,
                cells: plan.cells(),
                rounds: self.rounds.get(),
                trials_planned: plan.trials(self.rounds.get()),
                trials_completed: 0,
                imported: 0,
                host: None,
                totals: Vec::new(),
                verdicts: None,
                damaged: None,
            },
            foreign: self.foreign.get(),
            plan: plan.clone(),
            trials,
        })
    }

    fn trial(&self, key: TrialKey) -> Result<Trial, StoreError> {
        let trials = self.trials.borrow();
        let ended = trials.iter().find(|trial| trial.key == key);
        ended.cloned().ok_or(StoreError::NoSuchTrial(key))
    }

    fn frames(&self, key: TrialKey, from: u32, limit: usize) -> Result<Vec<Frame>, StoreError> {
        let begun = self.begun.borrow();
        let frames = begun.get(&key).into_iter().flatten();
        let frames = frames.filter(|frame| frame.number >= from);
        Ok(frames.take(limit).cloned().collect())
    }

    fn telemetry(
        &self,
        key: TrialKey,
        from: u32,
        limit: usize,
    ) -> Result<Vec<TelemetryBatch>, StoreError> {
        let telemetry = self.telemetry.borrow();
        let batches = telemetry.get(&key).into_iter().flatten();
        let batches = batches.filter(|batch| batch.number >= from);
        Ok(batches.take(limit).cloned().collect())
    }
}
