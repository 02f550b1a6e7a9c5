use std::collections::BTreeSet;

use iodyno_model::{Question, RoundOrder, RunId};
use proptest::prelude::*;

use super::*;
use crate::testing::plan;

fn keys(plan: &Plan) -> impl Iterator<Item = TrialKey> {
    let run = RunId::fresh();
    (0..plan.rounds).flat_map(move |round| {
        let cells = order(plan, round).into_iter();
        cells.map(move |cell| TrialKey {
            run,
            round,
            cell,
            attempt: 0,
        })
    })
}

proptest! {
    #[test]
    fn a_round_has_every_cell_once(
        configurations in 1usize..6, workloads in 1usize..6, seed: u64, round: u32,
    ) {
        let plan = Plan { seed, ..plan(configurations, workloads, 1) };
        let mut cells = order(&plan, round);
        cells.sort_unstable();
        prop_assert_eq!(cells, (0..plan.cells()).collect::<Vec<u32>>());
    }

    #[test]
    fn the_order_does_not_depend_on_the_number_of_rounds(seed: u64, round in 0u32..1000) {
        let of = |rounds| order(&Plan { seed, ..plan(3, 2, rounds) }, round);
        prop_assert_eq!(of(1), of(1000));
    }

    #[test]
    fn two_cells_of_a_plan_of_an_older_version_alternate(seed: u64, pair in 0u32..1000) {
        let plan = Plan { seed, ..alternating() };
        let (mut there, back) = (order(&plan, 2 * pair), order(&plan, 2 * pair + 1));
        there.reverse();
        prop_assert_eq!(there, back);
    }
}

fn alternating() -> Plan {
    Plan {
        order: RoundOrder::Alternating,
        ..plan(2, 1, 100)
    }
}

/// The randomisation test requires this: given the earlier rounds, both orders of a round are equally likely.
#[test]
fn the_order_of_two_cells_does_not_depend_on_the_rounds_before() {
    const ROUNDS: u32 = 8000;
    let first = |round: u32| order(&plan(2, 1, ROUNDS), round)[0] as usize;
    let mut counts = [0u32; 8];
    for round in 2..ROUNDS {
        counts[4 * first(round - 2) + 2 * first(round - 1) + first(round)] += 1;
    }
    let expected = f64::from(ROUNDS - 2) / 8.0;
    let excess = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
    let chi_square: f64 = counts.iter().map(excess).sum();
    // χ² with 7 degrees of freedom exceeds 29.9 once in 10 000.
    assert!(chi_square < 29.9, "{counts:?}");
}

#[test]
fn each_cell_is_equally_often_at_each_position() {
    const ROUNDS: u32 = 6000;
    for cells in [2, 3, 5, 6] {
        let plan = plan(cells, 1, ROUNDS);
        let mut places = vec![vec![0u32; cells]; cells];
        for round in 0..ROUNDS {
            for (place, cell) in order(&plan, round).into_iter().enumerate() {
                places[cell as usize][place] += 1;
            }
        }
        let expected = f64::from(ROUNDS) / cells as f64;
        for (cell, counts) in places.iter().enumerate() {
            let excess = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
            let chi_square: f64 = counts.iter().map(excess).sum();
            // χ² with 5 degrees of freedom exceeds 25.7 once in 10 000.
            assert!(chi_square < 25.7, "cell {cell} of {cells}: {counts:?}");
        }
    }
}

#[test]
fn every_order_occurs() {
    let orders =
        |plan: Plan| -> BTreeSet<Vec<u32>> { (0..100).map(|round| order(&plan, round)).collect() };
    assert_eq!(orders(plan(3, 1, 100)).len(), 6);
    assert_eq!(orders(plan(2, 1, 100)).len(), 2);
    let begins: BTreeSet<u32> = (0..50)
        .map(|pair| order(&alternating(), 2 * pair)[0])
        .collect();
    assert_eq!(begins.len(), 2);
}

/// A newer version continues the runs that an older one began: the order of a seed must never change.
#[test]
fn the_order_of_a_seed_is_fixed() {
    let orders = |plan: Plan, rounds| -> Vec<Vec<u32>> {
        (0..rounds).map(|round| order(&plan, round)).collect()
    };
    let five = [[2, 0, 4, 1, 3], [3, 2, 0, 4, 1], [2, 0, 4, 3, 1]];
    assert_eq!(orders(plan(5, 1, 1), 3), five);
    let older = Plan {
        order: RoundOrder::Alternating,
        ..plan(5, 1, 1)
    };
    assert_eq!(orders(older, 3), five);
    let firsts =
        |plan: Plan| -> Vec<u32> { orders(plan, 8).iter().map(|cells| cells[0]).collect() };
    assert_eq!(firsts(plan(2, 1, 8)), [0, 1, 1, 0, 1, 1, 0, 0]);
    assert_eq!(firsts(alternating()), [1, 0, 0, 1, 0, 1, 1, 0]);
}

#[test]
fn a_trial_is_bound_to_its_cell() {
    let plan = plan(2, 3, 1);
    let key = keys(&plan).find(|key| key.cell == 4).unwrap();
    let bound = bind(&plan, key);
    assert_eq!(bound.configuration, plan.configurations[1]);
    assert_eq!(bound.workload, plan.workloads[1]);
    assert_eq!((bound.key, bound.destroy), (key, plan.destroy));
}

#[test]
fn configurations_share_their_seed_and_rounds_and_workloads_do_not() {
    let plan = plan(3, 4, 5);
    let seeds: BTreeSet<u64> = keys(&plan).map(|key| seed(&plan, key)).collect();
    assert_eq!(seeds.len(), 4 * 5);
    let of = |plan: &Plan, round, cell, attempt| {
        let run = RunId::fresh();
        let key = TrialKey {
            run,
            round,
            cell,
            attempt,
        };
        seed(plan, key)
    };
    assert_eq!(of(&plan, 2, 1, 0), of(&plan, 2, 4 + 1, 0));
    assert_ne!(of(&plan, 2, 1, 0), of(&plan, 3, 1, 0));
    assert_eq!(of(&plan, 0, 0, 0), of(&plan, 0, 0, 3));
    let other = Plan {
        seed: plan.seed + 1,
        ..plan.clone()
    };
    assert_ne!(of(&plan, 0, 0, 0), of(&other, 0, 0, 0));
}

fn comparing_workloads(plan: Plan) -> Plan {
    let question = Question {
        columns: Observation::WORKLOAD.to_owned(),
        ..plan.question.clone()
    };
    Plan { question, ..plan }
}

type Named<'a> = Vec<(&'a str, bool)>;

/// Configurations and workloads, and whether they are the baseline's second.
fn names(plan: &Plan) -> (Named<'_>, Named<'_>) {
    let configurations = plan.configurations.iter();
    let workloads = plan.workloads.iter();
    (
        configurations
            .map(|one| (one.name.as_str(), one.again))
            .collect(),
        workloads
            .map(|one| (one.name.as_str(), one.again))
            .collect(),
    )
}

#[test]
fn the_repetition_directly_follows_the_baseline() {
    let again = with_again(plan(2, 1, 1));
    let expected = [("c0", false), ("c0 (again)", true), ("c1", false)];
    assert_eq!(names(&again).0, expected);
    assert_eq!(
        again.configurations[0].target,
        again.configurations[1].target
    );
    assert_eq!(names(&again).1, [("w0", false)]);

    let mut named = plan(2, 1, 1);
    named.question.baseline = Some("c1".to_owned());
    let expected = [("c0", false), ("c1", false), ("c1 (again)", true)];
    assert_eq!(names(&with_again(named)).0, expected);

    let again = with_again(comparing_workloads(plan(1, 2, 1)));
    assert_eq!(names(&again).0, [("c0", false)]);
    let expected = [("w0", false), ("w0 (again)", true), ("w1", false)];
    assert_eq!(names(&again).1, expected);
}

#[test]
fn a_plan_with_a_repetition_or_without_a_baseline_is_unchanged() {
    let twice = with_again(plan(2, 1, 1));
    assert_eq!(with_again(twice.clone()), twice);
    let mut unknown = plan(2, 1, 1);
    unknown.question.baseline = Some("c9".to_owned());
    assert_eq!(with_again(unknown.clone()), unknown);
}

#[test]
fn the_repetition_has_the_ops_of_the_baseline_and_does_not_change_those_of_others() {
    let of = |plan: &Plan, cell| {
        let run = RunId::fresh();
        let key = TrialKey {
            run,
            round: 3,
            cell,
            attempt: 0,
        };
        seed(plan, key)
    };
    let without = comparing_workloads(plan(1, 3, 4));
    let with = with_again(without.clone());
    assert_eq!(of(&with, 0), of(&with, 1));
    for (cell, moved) in [(0, 0), (1, 2), (2, 3)] {
        assert_eq!(of(&without, cell), of(&with, moved), "{cell}");
    }
    let configurations = with_again(plan(2, 1, 4));
    assert_eq!(of(&configurations, 0), of(&configurations, 1));
}
