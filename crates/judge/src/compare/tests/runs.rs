//! Separate runs, own and imported.

use iodyno_model::{CandidateResult, Observation, Pairing, Question, Verdict};

use super::{both, first_cell, only_cell};
use crate::testing::observations::{each, imported, runs};

fn reasons(cell: &CandidateResult) -> &[String] {
    match &cell.verdict {
        Verdict::Inconclusive {
            reasons,
            more: None,
        } => reasons,
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn one_run_per_side_is_too_few() {
    let cell = only_cell(&both(
        runs("a", "w", &[(1, 1000.0)]),
        runs("b", "w", &[(2, 1100.0)]),
    ));
    assert_eq!(cell.pairing, Pairing::Unpaired);
    assert_eq!(cell.by_numbers, Verdict::Faster);
    assert_eq!(
        reasons(&cell),
        [
            "separate runs: 1 run of a and 1 of b are too few to measure the variation between runs; compare both in the \
             rounds of one run, or at least 3 runs of each"
        ]
    );
    let two = only_cell(&both(
        runs("a", "w", &[(1, 1000.0), (3, 1001.0)]),
        runs("b", "w", &[(2, 1100.0), (4, 1101.0), (5, 1100.0)]),
    ));
    assert!(
        reasons(&two)[0].contains("2 runs of a and 3 of b"),
        "{two:?}"
    );
}

#[test]
fn three_interleaved_runs_per_side_are_judged_by_their_variation() {
    let cell = only_cell(&both(
        runs("a", "w", &[(1, 1000.0), (3, 1002.0), (5, 998.0)]),
        runs("b", "w", &[(2, 1100.0), (4, 1103.0), (6, 1097.0)]),
    ));
    assert_eq!((cell.pairing, cell.n), (Pairing::Runs, 3));
    assert_eq!(cell.verdict, Verdict::Faster);
    assert_eq!(cell.verdict, cell.by_numbers);
    assert!((cell.ratio.unwrap().value - 1.1).abs() < 1e-4, "{cell:?}");
    // Each side has 15 trials, and their medians differ by less than 0.1 % from 10 %; but runs differ by as much.
    let cell = only_cell(&both(
        runs("a", "w", &[(1, 1000.0), (3, 1150.0), (5, 1000.0)]),
        runs("b", "w", &[(2, 1100.0), (4, 1200.0), (6, 1100.0)]),
    ));
    assert!(
        matches!(cell.verdict, Verdict::Inconclusive { .. }),
        "{cell:?}"
    );
    let (low, high) = cell.ratio.unwrap().interval.unwrap();
    assert!(low < 0.95 && high > 1.2, "{low} {high}");
    let same = only_cell(&both(
        runs("a", "w", &[(1, 1000.0), (3, 1002.0), (5, 998.0)]),
        runs("b", "w", &[(2, 1001.0), (4, 999.0), (6, 1003.0)]),
    ));
    assert_eq!(same.verdict, Verdict::Equivalent);
}

#[test]
fn runs_of_one_side_after_those_of_the_other_can_be_a_drift() {
    let block = |baseline: [u64; 3], candidate: [u64; 3]| {
        let side = |name, level: f64, times: [u64; 3]| {
            let levels = [
                (times[0], level),
                (times[1], level * 1.001),
                (times[2], level * 0.999),
            ];
            runs(name, "w", &levels)
        };
        only_cell(&both(
            side("a", 1000.0, baseline),
            side("b", 1100.0, candidate),
        ))
    };
    for (cell, when) in [
        (block([1, 2, 3], [4, 5, 6]), "after"),
        (block([4, 5, 6], [1, 2, 3]), "before"),
    ] {
        assert_eq!(cell.by_numbers, Verdict::Faster);
        let said = format!("most of b ran {when} those of a, where a drift");
        assert!(reasons(&cell)[0].contains(&said), "{cell:?}");
    }
    assert_eq!(block([1, 2, 4], [3, 5, 6]).verdict, Verdict::Faster);
    assert_eq!(block([1, 4, 5], [2, 3, 6]).verdict, Verdict::Faster);
}

#[test]
fn trials_of_one_file_are_one_run_of_unknown_time() {
    let values = [1000.0, 1001.0, 999.0, 1002.0, 998.0, 1000.5];
    let faster = values.map(|value| value * 1.1);
    let cell = only_cell(&both(
        imported("a", "w", &values),
        imported("b", "w", &faster),
    ));
    assert_eq!(cell.by_numbers, Verdict::Faster);
    assert!(
        reasons(&cell)[0].starts_with(
            "imported: in what order in time the trials were made is not known, and 1 file of a and 1 of b"
        ),
        "{cell:?}"
    );
    let a_file_each = |trials: Vec<Observation>| {
        each(trials, |o| {
            if let Some(source) = &mut o.source {
                source.source = format!("{}.json", source.line);
            }
        })
    };
    let trials = both(
        a_file_each(imported("a", "w", &values)),
        a_file_each(imported("b", "w", &faster)),
    );
    let cell = only_cell(&trials);
    assert_eq!((cell.pairing, cell.n), (Pairing::Runs, 6));
    assert_eq!(cell.verdict, Verdict::Faster);
    assert!(
        cell.notes.iter().any(|note| note.contains("order in time")),
        "{cell:?}"
    );
}

#[test]
fn a_family_has_one_value_per_run_that_has_all_its_workloads() {
    let side = |name: &str, factor: f64, times: [u64; 3]| {
        let of =
            |workload, level: f64| runs(name, workload, &times.map(|time| (time, level * factor)));
        both(of("read", 1000.0), of("write", 50.0))
    };
    let mut trials = both(side("a", 1.0, [1, 3, 5]), side("b", 1.2, [2, 4, 6]));
    let family = Question {
        rows: Vec::new(),
        ..Question::default()
    };
    let cell = first_cell(&trials, &family);
    assert_eq!((cell.pairing, cell.n), (Pairing::Runs, 3));
    assert_eq!(cell.members.len(), 2);
    assert!((cell.ratio.unwrap().value - 1.2).abs() < 1e-9);
    // A run that lacks one of the workloads is not a run of the family.
    trials.retain(|o| o.dimension("run") != "run at 6" || o.dimension("workload") == "read");
    let cell = first_cell(&trials, &family);
    assert!(
        reasons(&cell)[0].contains("3 runs of a and 2 of b"),
        "{cell:?}"
    );
}

#[test]
fn separate_runs_that_measured_nothing_have_no_verdict() {
    let zero = each(runs("b", "w", &[(2, 1.0), (4, 1.0), (6, 1.0)]), |o| {
        o.figures[0].value = 0.0;
    });
    let cell = only_cell(&both(
        runs("a", "w", &[(1, 10.0), (3, 10.0), (5, 10.0)]),
        zero,
    ));
    assert_eq!(cell.by_numbers, Verdict::Slower);
    assert!(reasons(&cell)[0].contains("logarithms"), "{cell:?}");
}
