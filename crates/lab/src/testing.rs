//! A store and a node that do as they are told, and small plans.

use std::cell::{Cell, RefCell};

use iodyno_judge::testing as made_up;
use iodyno_model::{
    Configuration, Direction, Environment, Frame, Plan, RunId, RunState, RunSummary, Target, Trial,
    TrialKey,
};
use iodyno_store::{Run, RunHandle, Store, StoreError};

/// So many configurations, workloads and rounds.
pub(crate) fn plan(configurations: usize, workloads: usize, rounds: u32) -> Plan {
    let configuration = |index| {
        Configuration::new(
            format!("c{index}"),
            Target::Path(format!("/c{index}").into()),
        )
    };
    let workload = |index| made_up::workload(&format!("w{index}"), vec![made_up::reader("r")]);
    Plan {
        rounds,
        seed: 7,
        destroy: vec!["/dev/x".into()],
        ..Plan::new(
            "p",
            (0..configurations).map(configuration).collect(),
            (0..workloads).map(workload).collect(),
        )
    }
}

pub(crate) fn key() -> TrialKey {
    TrialKey {
        run: RunId::fresh(),
        round: 0,
        cell: 0,
        attempt: 0,
    }
}

pub(crate) fn frame(number: u32) -> Frame {
    made_up::frame(number, &[(0, Direction::Read, 1000, 100_000)])
}

pub(crate) fn trial(key: TrialKey) -> Trial {
    Trial {
        key,
        ..made_up::trial(Vec::new())
    }
}

/// Notes what it is told to store, unless it is full.
#[derive(Default)]
pub(crate) struct FakeStore {
    full: Cell<bool>,
    log: RefCell<Vec<String>>,
    pub(crate) trials: RefCell<Vec<Trial>>,
}

impl FakeStore {
    pub(crate) fn full(&self, full: bool) {
        self.full.set(full);
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
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
}

impl Store for FakeStore {
    fn begin_run(&self, plan: &Plan, _: u64) -> Result<RunHandle, StoreError> {
        self.note(format!("run {}", plan.name))?;
        Ok(RunHandle {
            id: RunId::fresh(),
            alias: 1,
        })
    }

    fn resume_run(&self, run: RunId) -> Result<RunHandle, StoreError> {
        Ok(RunHandle { id: run, alias: 1 })
    }

    fn set_rounds(&self, _: RunId, rounds: u32) -> Result<(), StoreError> {
        self.note(format!("rounds are {rounds}"))
    }

    fn begin_trial(
        &self,
        _: TrialKey,
        configuration: &str,
        workload: &str,
        _: u64,
    ) -> Result<(), StoreError> {
        self.note(format!("begin {configuration} {workload}"))
    }

    fn set_environment(&self, _: TrialKey, environment: &Environment) -> Result<(), StoreError> {
        self.note(format!("environment {}", environment.host))
    }

    fn append_frame(&self, _: TrialKey, frame: &Frame) -> Result<(), StoreError> {
        assert!(
            !frame.jobs[0].directions[0].service.is_empty(),
            "stored frames are whole"
        );
        self.note(format!("frame {}", frame.number))
    }

    fn finish_trial(&self, trial: &Trial) -> Result<(), StoreError> {
        self.note("finish".to_owned())?;
        self.trials.borrow_mut().push(trial.clone());
        Ok(())
    }

    fn finish_run(&self, _: RunId, state: RunState, _: u64) -> Result<(), StoreError> {
        self.note(format!("run is {}", state.name()))
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
        self.find(&run.to_string()).and(Err(StoreError::NoHome))
    }

    fn trial(&self, key: TrialKey) -> Result<Trial, StoreError> {
        Err(StoreError::NoSuchTrial(key))
    }

    fn frames(&self, _: TrialKey, _: u32, _: usize) -> Result<Vec<Frame>, StoreError> {
        Ok(Vec::new())
    }
}
