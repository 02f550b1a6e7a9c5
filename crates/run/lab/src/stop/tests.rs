use super::*;
use crate::testing::plan;

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_round_begins_only_if_the_longest_duration_fits_in_the_time_limit() {
    let mut timing = Timing::new(100 * SECOND);
    // (seconds of the rounds, current time, time limit, whether another round begins)
    for (span, now, allowed, room) in [
        (10, 110, Some(20), true),
        (10, 120, Some(29), false),
        (30, 150, Some(80), true),
        (10, 160, Some(80), false),
        (10, 170, None, true),
    ] {
        timing.round(span * SECOND, 2, 2);
        let max = allowed.map(|seconds: u64| seconds * SECOND);
        assert_eq!(
            timing.room(now * SECOND, max, (1, 1)),
            room,
            "at {now} of {allowed:?}"
        );
    }
}

#[test]
fn the_first_round_always_begins() {
    assert!(Timing::new(0).room(5 * SECOND, Some(1), (1, 1)));
}

#[test]
fn the_missing_trials_of_a_round_need_their_share_of_its_time() {
    let mut timing = Timing::new(0);
    timing.round(4 * SECOND, 1, 4);
    for (missing, allowed, room) in [(4, 19, false), (4, 20, true), (1, 7, false), (1, 8, true)] {
        let max = Some(allowed * SECOND);
        assert_eq!(
            timing.room(4 * SECOND, max, (missing, 4)),
            room,
            "{missing}"
        );
    }
}

#[test]
fn the_remaining_time_follows_from_the_mean_of_the_rounds_and_the_limit() {
    let mut timing = Timing::new(0);
    assert_eq!(timing.left(0, 5, None), None);
    timing.round(10 * SECOND, 4, 4);
    timing.round(20 * SECOND, 4, 4);
    assert_eq!(timing.left(30 * SECOND, 4, None), Some(60 * SECOND));
    assert_eq!(
        timing.left(30 * SECOND, 4, Some(50 * SECOND)),
        Some(20 * SECOND)
    );
    assert_eq!(timing.left(30 * SECOND, 0, None), None);
    assert_eq!(timing.left(0, u32::MAX, None), Some(u64::MAX));
    // No other round begins.
    assert_eq!(timing.left(31 * SECOND, 4, Some(50 * SECOND)), None);
    assert_eq!(timing.left(60 * SECOND, 4, Some(50 * SECOND)), None);
}

#[test]
fn the_rest_of_a_round_counts_as_a_complete_one_at_its_rate() {
    let mut timing = Timing::new(0);
    timing.round(5 * SECOND, 1, 4);
    assert_eq!(timing.left(5 * SECOND, 1, None), Some(20 * SECOND));
    timing.round(SECOND, 0, 4);
    assert_eq!(timing.left(5 * SECOND, 1, None), Some(20 * SECOND));
}

#[test]
fn only_a_cell_that_never_completed_is_given_up() {
    use TrialState::{Completed as Ok, Failed as No, Interrupted as Cut, Refused as Refuse};
    let check = |states: &[TrialState], expected: bool| {
        let mut retries = RetryLimit::new(&plan(2, 1, 1));
        let given_up: Vec<bool> = states.iter().map(|state| retries.note(0, *state)).collect();
        assert_eq!(retries.given_up(0), expected, "{states:?}");
        let times = given_up.iter().filter(|given_up| **given_up).count();
        assert_eq!(times, usize::from(expected), "given up once: {states:?}");
        assert!(!retries.given_up(1));
    };
    check(&[No, No], false);
    check(&[No, No, No], true);
    check(&[No, No, No, No], true);
    check(&[Refuse, Cut, No], true);
    check(&[No, No, Ok, No, No, No, No], false);
    check(&[Ok, Refuse, Refuse, Refuse], false);
    check(&[], false);
}

#[test]
fn cells_are_compared_within_their_row() {
    // Configurations, workloads, the compared dimension, the cells that are given up, whether nothing can be compared.
    // Of two configurations and two workloads, cells 0 and 1 have the first configuration.
    for (configurations, workloads, columns, failed, nothing) in [
        (1, 1, "configuration", &[][..], false),
        (2, 1, "configuration", &[], false),
        (2, 1, "configuration", &[1], true),
        (3, 1, "configuration", &[1], false),
        (2, 2, "configuration", &[0], false),
        (2, 2, "configuration", &[0, 3], true),
        (2, 2, "configuration", &[0, 2], false),
        (2, 2, "workload", &[0, 2], true),
        (2, 2, "workload", &[0, 1], false),
        (1, 2, "workload", &[0], true),
    ] {
        let mut plan = plan(configurations, workloads, 1);
        plan.question.columns = columns.to_owned();
        let mut retries = RetryLimit::new(&plan);
        for cell in failed {
            for _ in 0..MAX_FAILURES {
                retries.note(*cell, TrialState::Failed);
            }
        }
        let context = format!("{configurations} × {workloads} by {columns}: {failed:?}");
        assert_eq!(retries.nothing_to_compare(&plan), nothing, "{context}");
    }
    // An axis of the workloads is compared on each configuration, even if one of its workloads runs on only one.
    let mut by_axis = plan(2, 2, 1);
    for (workload, depth) in by_axis.workloads.iter_mut().zip(["1", "16"]) {
        workload.dimensions = [("iodepth".to_owned(), depth.to_owned())].into();
        workload.only = vec![by_axis.configurations[0].name.clone()];
    }
    by_axis.question.columns = "iodepth".to_owned();
    by_axis.question.rows = vec!["configuration".to_owned()];
    let whole = RetryLimit::new(&by_axis);
    assert!(!whole.nothing_to_compare(&by_axis));
    for (everywhere, nothing) in [(false, true), (true, false)] {
        if everywhere {
            by_axis.workloads.iter_mut().for_each(|it| it.only.clear());
        }
        let mut retries = RetryLimit::new(&by_axis);
        for _ in 0..MAX_FAILURES {
            retries.note(1, TrialState::Failed);
        }
        assert_eq!(retries.nothing_to_compare(&by_axis), nothing);
    }
    // The repeated baseline alone is not a comparison.
    for (configurations, failed, nothing) in [(2, 2, true), (2, 1, false), (1, 1, false)] {
        let plan = crate::with_again(plan(configurations, 1, 1));
        let mut retries = RetryLimit::new(&plan);
        for _ in 0..MAX_FAILURES {
            retries.note(failed, TrialState::Failed);
        }
        assert_eq!(
            retries.nothing_to_compare(&plan),
            nothing,
            "{configurations} {failed}"
        );
    }
}

#[test]
fn rounds_that_are_left_are_looked_at_once() {
    const ROUNDS: u32 = 1000;
    let looked = std::cell::Cell::new(0);
    // Every third round was complete before.
    let lacks = |round: u32| {
        looked.set(looked.get() + 1);
        round % 3 != 2
    };
    let mut left = RoundsLeft::default();
    for done in (1..=ROUNDS).filter(|done| (done - 1) % 3 != 2) {
        let expected = (done..ROUNDS).filter(|round| round % 3 != 2).count() as u32;
        assert_eq!(left.after(done..ROUNDS, lacks), expected);
    }
    assert_eq!(looked.get(), ROUNDS - 1);
}

#[test]
fn comparisons_of_a_long_run_take_time_in_proportion_to_its_rounds() {
    for rounds in [100_u64, 1000, 100_000] {
        let due = (1..=rounds).filter(|done| compared_after(*done as u32));
        let compared: u64 = due.sum();
        assert!(compared <= 130 * rounds, "{rounds}: {compared}");
    }
    assert!((1..128).all(compared_after));
    // The next is never more than 1/64 later.
    let mut last = 1;
    for done in (1..=100_000).filter(|done| compared_after(*done)) {
        assert!(done - last <= (done / 64).max(1), "{done}");
        last = done;
    }
}
