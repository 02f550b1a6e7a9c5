use std::cell::RefCell;

use iodyno_judge::testing as made_up;
use iodyno_model::FindingKind;

use super::*;
use crate::testing::{FakeStore, frame, plan};

/// What a trial is to do on the fake node.
#[derive(Clone)]
enum Act {
    Complete,
    Refuse,
    Unprepared,
    Die,
    Cancelled,
    NoNode,
    FillStore,
}

struct FakeNode<'a> {
    acts: RefCell<Vec<Act>>,
    store: &'a FakeStore,
    bound: RefCell<Vec<BoundPlan>>,
}

impl Node for FakeNode<'_> {
    fn carry_out(
        &self,
        plan: &BoundPlan,
        cancel: &Cancel,
        events: &mut dyn FnMut(Event),
    ) -> Result<TrialEnd, RunnerError> {
        self.bound.borrow_mut().push(plan.clone());
        let act = self.acts.borrow_mut().remove(0);
        let fault = || {
            vec![
                Diagnostic::error("one"),
                Diagnostic::error("two\n  cause: three"),
            ]
        };
        match act {
            Act::Refuse => return Ok(TrialEnd::Refused(fault())),
            Act::Unprepared => return Ok(TrialEnd::Unprepared(fault())),
            Act::NoNode => {
                return Err(RunnerError::NotANode {
                    program: "/x".into(),
                    why: "no".to_owned(),
                });
            }
            _ => {}
        }
        let part = made_up::part(vec![made_up::clone(0, 0, Vec::new())]);
        let environment = Box::new(part.environment.clone());
        events(Event::Ready {
            environment,
            notes: vec!["a note".to_owned()],
        });
        for number in 0..6 {
            if matches!(act, Act::FillStore) {
                self.store.full(number > 0);
            }
            events(Event::Frame(frame(number)));
        }
        match act {
            Act::Die => Ok(TrialEnd::Failed {
                outcome: Outcome::Failed("SIGBUS".to_owned()),
                death: None,
            }),
            Act::Cancelled => {
                cancel.finish();
                Ok(TrialEnd::Done(
                    Box::new(part),
                    Outcome::Interrupted("by the user".to_owned()),
                ))
            }
            _ => Ok(TrialEnd::Done(Box::new(part), Outcome::Completed)),
        }
    }
}

/// Carries out two configurations of one workload; the run's end and what was told.
fn run(acts: &[Act]) -> (RunEnd, Vec<String>, FakeStore, Vec<BoundPlan>) {
    let store = FakeStore::default();
    let node = FakeNode {
        acts: RefCell::new(acts.to_vec()),
        store: &store,
        bound: RefCell::default(),
    };
    let told = RefCell::new(Vec::new());
    let lab = Lab {
        store: &store,
        store_stack: Vec::new(),
        node: &node,
        cancel: &Cancel::new(),
    };
    let end = carry_out(&plan(2, 1, 1), &lab, &mut |progress| {
        told.borrow_mut().push(match progress {
            Progress::Begun(handle) => format!("begun {}", handle.alias),
            Progress::Trial {
                number,
                of,
                configuration,
                ..
            } => {
                format!("trial {number} of {of} {}", configuration.name)
            }
            Progress::Node(_) => return,
            Progress::StoreFails(_) => "store fails".to_owned(),
            Progress::StoreRecovered => "store recovered".to_owned(),
            Progress::Ended(ended) => format!(
                "ended {} {:?} {} faults, {}",
                ended.number,
                ended.trial.outcome.state(),
                ended.faults.len(),
                if ended.unstored.is_some() {
                    "lost"
                } else {
                    "stored"
                }
            ),
        });
    })
    .unwrap();
    let bound = node.bound.take();
    (end, told.into_inner(), store, bound)
}

#[test]
fn makes_every_trial_and_stores_each_step_as_it_comes() {
    let (end, told, store, bound) = run(&[Act::Complete, Act::Complete]);
    assert_eq!(
        (end.state, end.made, end.planned),
        (RunState::Completed, 2, 2)
    );
    assert!(end.unstored.is_none());
    assert_eq!(
        told,
        [
            "begun 1",
            "trial 1 of 2 c0",
            "ended 1 Completed 0 faults, stored",
            "trial 2 of 2 c1",
            "ended 2 Completed 0 faults, stored",
        ]
    );
    let host = made_up::part(Vec::new()).environment.host;
    let mut expected = vec!["run p".to_owned()];
    for configuration in ["c0", "c1"] {
        expected.push(format!("begin {configuration} w0"));
        expected.push(format!("environment {host}"));
        expected.extend((0..6).map(|number| format!("frame {number}")));
        expected.push("finish".to_owned());
    }
    expected.push("run is completed".to_owned());
    assert_eq!(store.log(), expected);
    assert_eq!(bound[0].seed, bound[1].seed);
}

#[test]
fn only_refusal_cancellation_and_a_missing_node_end_a_run() {
    for (first, made, state, word) in [
        (Act::Complete, 2, RunState::Completed, "Completed 0 faults"),
        (Act::Die, 2, RunState::Failed, "Failed 0 faults"),
        (Act::Unprepared, 2, RunState::Failed, "Failed 2 faults"),
        (Act::Refuse, 1, RunState::Refused, "Refused 2 faults"),
        (Act::NoNode, 1, RunState::Failed, "Failed 1 faults"),
        (
            Act::Cancelled,
            1,
            RunState::Interrupted,
            "Interrupted 0 faults",
        ),
    ] {
        let completed = made - u32::from(!matches!(first, Act::Complete));
        let (end, told, _, _) = run(&[first, Act::Complete]);
        assert_eq!((end.made, end.state), (made, state), "{told:?}");
        assert_eq!(end.completed, completed);
        assert!(told[2].contains(word), "{told:?}");
    }
}

#[test]
fn a_trial_whose_node_died_is_rebuilt_from_its_frames() {
    let (_, _, store, _) = run(&[Act::Die, Act::Complete]);
    let trial = &store.trials.borrow()[0];
    let part = &trial.parts[0];
    assert_eq!(part.clones[0].directions[0].ops, 6 * 1000);
    assert!(!part.clones[0].directions[0].service.is_empty());
    assert!(
        part.notes.contains(&"a note".to_owned()),
        "{:?}",
        part.notes
    );
}

#[test]
fn a_refused_trial_says_every_reason() {
    let (_, _, store, _) = run(&[Act::Refuse]);
    assert_eq!(
        store.trials.borrow()[0].outcome,
        Outcome::Refused("one; two; cause: three".to_owned())
    );
}

#[test]
fn a_store_that_fills_up_is_told_of_once_and_the_run_goes_on() {
    let (end, told, _, _) = run(&[Act::FillStore, Act::FillStore]);
    assert!(end.unstored.is_some());
    assert_eq!((end.made, end.state), (2, RunState::Completed));
    assert_eq!(
        told.iter().filter(|text| *text == "store fails").count(),
        2,
        "{told:?}"
    );
    assert!(
        told.contains(&"ended 1 Completed 0 faults, lost".to_owned()),
        "{told:?}"
    );
}

#[test]
fn a_full_store_before_the_first_trial_means_that_nothing_is_done() {
    let store = FakeStore::default();
    store.full(true);
    let node = FakeNode {
        acts: RefCell::default(),
        store: &store,
        bound: RefCell::default(),
    };
    let lab = Lab {
        store: &store,
        store_stack: Vec::new(),
        node: &node,
        cancel: &Cancel::new(),
    };
    assert!(carry_out(&plan(1, 1, 1), &lab, &mut |_| {}).is_err());
    assert!(node.bound.borrow().is_empty());
}

#[test]
fn a_store_on_the_storage_under_test_is_found() {
    let store = FakeStore::default();
    let node = FakeNode {
        acts: RefCell::new(vec![Act::Complete]),
        store: &store,
        bound: RefCell::default(),
    };
    let environment = made_up::part(Vec::new()).environment;
    let store_stack = environment.targets[0].stack.clone();
    let lab = Lab {
        store: &store,
        store_stack,
        node: &node,
        cancel: &Cancel::new(),
    };
    carry_out(&plan(1, 1, 1), &lab, &mut |_| {}).unwrap();
    let trials = store.trials.borrow();
    assert!(
        trials[0]
            .findings
            .iter()
            .any(|finding| finding.kind == FindingKind::StoreOnTarget)
    );
}
