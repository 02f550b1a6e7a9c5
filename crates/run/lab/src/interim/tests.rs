use iodyno_model::{BoundPlan, Stopping, Verdict};
use iodyno_runner::StopFlag;
use iodyno_store::SqliteStore;

use super::*;
use crate::testing::{Act, FakeNode, lab, plan};
use crate::{Progress, RunEnd, StopReason, carry_out, resume, with_again};

/// Noise of about 2 % common to all cells of a round, and of 0.1 % for each cell.
fn noisy(plan: &BoundPlan, reads: f64) -> u64 {
    let wave = |number: u32, share: f64| 1.0 + share * (f64::from(number) * 2.4).sin();
    let own = plan.key.round * 7 + plan.key.cell;
    (reads * wave(plan.key.round, 0.02) * wave(own, 0.001)) as u64
}

/// c1 reads 50 % more than the others.
fn reads(plan: &BoundPlan) -> u64 {
    match plan.configuration.name.as_str() {
        "c1" => noisy(plan, 1_500_000.0),
        _ => noisy(plan, 1_000_000.0),
    }
}

fn node() -> FakeNode<'static> {
    let mut node = FakeNode::new(|_| Act::Complete);
    node.reads = Some(reads);
    node
}

/// Runs a plan with the default judge; returns its verdicts after each round.
fn judged(plan: &Plan, store: &SqliteStore) -> (RunEnd, Vec<Comparison>) {
    let (node, stop) = (node(), StopFlag::new());
    let mut said = Vec::new();
    let end = carry_out(plan, &lab(store, &node, &stop), &mut |progress| {
        if let Progress::Round { comparison, .. } = progress {
            said.extend(comparison.cloned());
        }
    });
    (end.unwrap(), said)
}

fn by_numbers(comparison: &Comparison) -> (&str, &Verdict) {
    let cell = &comparison.rows[0].cells[0];
    (cell.side.column.as_str(), &cell.by_numbers)
}

#[test]
fn the_interim_verdict_is_inconclusive_at_first_and_then_names_the_faster_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("a.db")).unwrap();
    let plan = with_again(plan(2, 1, 8));
    let (_, said) = judged(&plan, &store);
    assert_eq!(said.len(), 8);
    assert!(
        matches!(by_numbers(&said[2]).1, Verdict::CannotDecide { n: 3, .. }),
        "{:?}",
        said[2]
    );
    let last = &said[7];
    assert_eq!(by_numbers(last), ("c1", &Verdict::Faster), "{last:?}");
    let ratio = last.rows[0].cells[0].ratio.unwrap();
    assert!((1.49..1.51).contains(&ratio.value), "{ratio:?}");
    assert_eq!(
        (last.question.baseline.as_deref(), last.paired),
        (Some("c0"), true)
    );
    assert!(
        last.floor.is_some_and(|floor| floor < 0.03),
        "{:?}",
        last.floor
    );
}

#[test]
fn the_width_of_the_intervals_ends_the_run_and_a_resumed_run_counts_all_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("a.db")).unwrap();
    let stopping = Stopping {
        least_rounds: 7,
        width: Some(0.03),
        max_time_ns: None,
    };
    let plan = Plan {
        stopping,
        ..plan(2, 1, 40)
    };
    let (end, said) = judged(&plan, &store);
    assert_eq!(
        (end.stopped, end.rounds, said.len()),
        (StopReason::Width, 7, 7)
    );

    let (node, stop) = (node(), StopFlag::new());
    let mut rounds = Vec::new();
    let run = end.handle.id;
    resume(
        run,
        Some(9),
        &crate::testing::own(&store, run),
        &lab(&store, &node, &stop),
        &mut |progress| {
            if let Progress::Round { comparison, .. } = progress {
                let comparison = comparison.unwrap();
                rounds.push((comparison.rounds, by_numbers(comparison).1.clone()));
            }
        },
    )
    .unwrap();
    assert_eq!(rounds, [(8, Verdict::Faster), (9, Verdict::Faster)]);
}
