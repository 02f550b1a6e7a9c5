//! Every verdict, from numbers.

use iodyno_model::{CandidateResult, Figure, Metric, Pairing, Question, Verdict, Withheld};

use super::{around, both, compared, differently_around, first_cell, only_cell};
use crate::testing::observations::{each, figure, imported, observation, rounds};

fn paired(baseline: &[f64], candidate: &[f64]) -> CandidateResult {
    only_cell(&both(
        rounds("ext4", "job", baseline),
        rounds("zfs", "job", candidate),
    ))
}

fn unpaired(baseline: &[f64], candidate: &[f64]) -> CandidateResult {
    only_cell(&both(
        imported("ext4", "job", baseline),
        imported("zfs", "job", candidate),
    ))
}

#[test]
fn reaches_every_verdict_by_numbers() {
    let check = |cell: CandidateResult, name: &str| {
        let verdict = format!("{:?}", cell.by_numbers);
        assert!(verdict.starts_with(name), "{verdict}, not {name}: {cell:?}");
        // Imported trials of one file have no more than that.
        assert!(cell.pairing == Pairing::Unpaired || cell.verdict == cell.by_numbers);
    };
    check(
        paired(&around(1000.0), &differently_around(1600.0)),
        "Faster",
    );
    check(
        paired(&around(1000.0), &differently_around(600.0)),
        "Slower",
    );
    check(
        paired(&around(1000.0), &differently_around(1001.0)),
        "Equivalent",
    );
    let small: Vec<f64> = around(1000.0).iter().map(|v| v * 1.015).collect();
    check(paired(&around(1000.0), &small), "DifferentButSmall");
    let wide: Vec<f64> = [1.3, 0.8, 1.1, 0.7, 1.2, 0.9, 1.25, 0.85, 1.05, 0.95]
        .map(|factor| factor * 1000.0)
        .to_vec();
    check(paired(&around(1000.0), &wide), "Inconclusive { more: Some");
    check(
        paired(&around(1000.0)[..5], &around(1600.0)[..5]),
        "CannotDecide",
    );
    check(
        unpaired(&around(1000.0), &differently_around(1600.0)),
        "Faster",
    );
    check(
        unpaired(&around(1000.0), &differently_around(1001.0)),
        "Equivalent",
    );
    check(
        unpaired(&[10.0, 11.0, 12.0], &[1.0, 2.0, 3.0]),
        "CannotDecide",
    );
}

#[test]
fn reports_that_three_runs_per_side_cannot_decide_and_how_many_can() {
    let cell = unpaired(&[644.1, 666.9, 704.6], &[1044.0, 1108.1, 1198.1]);
    let Verdict::CannotDecide {
        n,
        smallest_p,
        needed_p,
        least,
    } = cell.verdict
    else {
        panic!("{cell:?}");
    };
    assert_eq!((n, least), (3, 4));
    assert!((smallest_p - 0.1).abs() < 1e-12 && (needed_p - 0.05).abs() < 1e-12);
    assert!((cell.p.unwrap() - 0.1).abs() < 1e-12);
    assert_eq!(cell.ratio.unwrap().interval, None);
    // Ratio of the medians of all pairs, as computed by any statistics program: 1108.1 ÷ 666.9 here.
    assert!((cell.ratio.unwrap().value - 1108.1 / 666.9).abs() < 1e-9);
}

#[test]
fn reports_a_ratio_of_single_values_without_an_interval() {
    let cell = unpaired(&[226.0], &[222.0]);
    assert!((cell.ratio.unwrap().value - 222.0 / 226.0).abs() < 1e-12);
    assert_eq!(cell.ratio.unwrap().interval, None);
    assert_eq!(cell.n, 1);
    assert!(matches!(
        cell.verdict,
        Verdict::CannotDecide { n: 1, least: 4, .. }
    ));
}

#[test]
fn counts_a_shorter_time_as_faster() {
    let time = |trials: Vec<_>| {
        each(trials, |o| {
            let seconds = o.figures[0].value;
            o.figures = vec![figure(Metric::time("completion"), seconds * 1e9)];
            o.primary = Some(Metric::time("completion"));
        })
    };
    let cell = only_cell(&both(
        time(rounds("ext4", "job", &around(10.0))),
        time(rounds("zfs", "job", &differently_around(5.0))),
    ));
    assert_eq!(cell.verdict, Verdict::Faster);
    assert!((cell.ratio.unwrap().value - 2.0).abs() < 0.02);
    // Of the values, not of the speed: every candidate's time is smaller.
    assert_eq!(cell.cliffs_delta, Some(-1.0));
}

#[test]
fn pairs_by_round_only_trials_of_one_run() {
    let check = |change: &dyn Fn(&mut iodyno_model::Observation), pairing, n| {
        let candidate = each(rounds("zfs", "job", &differently_around(1100.0)), change);
        let cell = only_cell(&both(rounds("ext4", "job", &around(1000.0)), candidate));
        assert_eq!((cell.pairing, cell.n), (pairing, n));
        let unpaired = |note: &&String| note.contains("the medians are those of");
        cell.notes.iter().find(unpaired).cloned()
    };
    assert_eq!(check(&|_| {}, Pairing::Paired, 10), None);
    let other_run = |o: &mut iodyno_model::Observation| {
        o.dimensions.insert("run".to_owned(), "2".to_owned());
    };
    assert_eq!(check(&other_run, Pairing::Unpaired, 10), None);
    assert_eq!(check(&|o| o.round = None, Pairing::Unpaired, 10), None);
    let note = check(&|o| o.round = o.round.map(|r| r + 3), Pairing::Paired, 7);
    assert_eq!(
        note.unwrap(),
        "the ratio is that of the 7 rounds that both sides have; the medians are those of 10 trials of ext4 and 10 trials of zfs"
    );
    let failed = |o: &mut iodyno_model::Observation| {
        if o.round == Some(4) {
            o.unusable = Some("failed: EIO".to_owned());
        }
    };
    let note = check(&failed, Pairing::Paired, 9).unwrap();
    assert!(
        note.contains("10 trials of ext4 and 9 trials of zfs"),
        "{note}"
    );
}

#[test]
fn uses_the_last_usable_trial_of_a_repeated_round() {
    let mut candidate = rounds("zfs", "job", &differently_around(1100.0));
    candidate[2].unusable = Some("interrupted: by the user".to_owned());
    let mut later = candidate[2].clone();
    later.unusable = None;
    later.figures[0].value = 1111.0;
    let mut first = later.clone();
    first.figures[0].value = 7.0;
    candidate.insert(0, first);
    candidate.push(later);
    candidate.push(candidate[3].clone()); // repeated, and unusable
    let cell = only_cell(&both(rounds("ext4", "job", &around(1000.0)), candidate));
    assert_eq!(cell.n, 10);
    assert_eq!(cell.side.values[2], 1111.0);
    assert_eq!(cell.side.left_out.len(), 3);
    assert!(
        cell.notes
            .iter()
            .any(|note| note.contains("round 3: interrupted: by the user"))
    );
}

#[test]
fn reports_why_there_are_no_data() {
    let check = |trials: Vec<_>, why: &str| {
        let cell = only_cell(&both(rounds("ext4", "job", &around(1000.0)), trials));
        let Verdict::NoData { why: said } = &cell.verdict else {
            panic!("{cell:?}");
        };
        assert!(said.contains(why), "{said}");
    };
    let zfs = || rounds("zfs", "job", &around(1000.0));
    check(
        each(zfs(), |o| o.unusable = Some("failed: ENOSPC".to_owned())),
        "zfs: rounds 1 to 10: failed: ENOSPC",
    );
    check(
        each(zfs(), |o| {
            o.figures.clear();
            o.withheld.push(Withheld {
                metric: "iops".to_owned(),
                why: "too few ops".to_owned(),
            });
        }),
        "iops withheld in 10 of 10 trials: too few ops",
    );
    check(
        each(zfs(), |o| {
            // Only one trial of ten has the metric: it does not represent the side.
            if o.round != Some(3) {
                o.figures.clear();
                o.withheld.push(Withheld {
                    metric: "iops".to_owned(),
                    why: "too few ops".to_owned(),
                });
            }
        }),
        "iops withheld in 9 of 10 trials: too few ops",
    );
    check(each(zfs(), |o| o.figures.clear()), "no iops");
    check(
        each(zfs(), |o| o.figures[0].value = f64::NAN),
        "not a number",
    );
    let ahead = |o: &mut iodyno_model::Observation| o.round = o.round.map(|r| r + 10);
    check(each(zfs(), ahead), "no round has values on both sides");
    check(
        rounds("zfs", "another job", &around(1000.0)),
        "zfs has no trial here",
    );
}

#[test]
fn names_a_metric_that_both_sides_have() {
    let with = |configuration: &str, metrics: &[&str]| {
        each(rounds(configuration, "job", &around(1000.0)), |o| {
            let value = o.figures[0].value;
            let figures = metrics
                .iter()
                .map(|name| figure(Metric::iops(*name), value));
            o.figures = figures.collect();
        })
    };
    let told = |first: &[&str], second: &[&str]| {
        let trials = both(with("ext4", first), with("zfs", second));
        let question = Question {
            metrics: vec!["read.iops".to_owned()],
            ..Question::default()
        };
        match first_cell(&trials, &question).verdict {
            Verdict::NoData { why } => why,
            other => panic!("{other:?}"),
        }
    };
    let why = told(&["iops", "read.iops"], &["iops"]);
    assert!(
        why.ends_with("; both sides have iops: add `--metric iops`"),
        "{why}"
    );
    let why = told(&["iops", "read.iops", "bandwidth"], &["bandwidth"]);
    assert!(why.ends_with("add `--metric bandwidth`"), "{why}");
    let why = told(&["read.iops"], &["iops"]);
    assert!(!why.contains("--metric"), "{why}");
}

#[test]
fn decides_by_ranks_alone_if_a_value_is_zero() {
    let cell = paired(&around(1000.0), &[0.0; 10]);
    assert_eq!((cell.verdict.clone(), cell.ratio), (Verdict::Slower, None));
    assert!(cell.notes.iter().any(|note| note.contains("no ratio")));
    let cell = unpaired(&[0.0; 10], &around(1000.0));
    assert_eq!((cell.by_numbers, cell.ratio), (Verdict::Faster, None));
    let cell = paired(&[0.0; 10], &[0.0; 10]);
    assert_eq!(cell.verdict, Verdict::inconclusive(None));
}

#[test]
fn corrects_over_all_primaries() {
    // Six rounds are sufficient for one comparison but not for two.
    let row = |name: &str| {
        both(
            rounds("ext4", name, &around(1000.0)[..6]),
            rounds("zfs", name, &differently_around(1500.0)[..6]),
        )
    };
    assert_eq!(only_cell(&row("a")).verdict, Verdict::Faster);
    let two = compared(&both(row("a"), row("b")), &Question::default());
    assert_eq!(two.primaries, 2);
    for row in &two.rows {
        let cell = &row.cells[0];
        assert!(matches!(
            cell.verdict,
            Verdict::CannotDecide { n: 6, least: 7, .. }
        ));
        assert!((cell.p.unwrap() - 0.03125).abs() < 1e-12);
        assert!((cell.adjusted_p.unwrap() - 0.0625).abs() < 1e-12);
    }
}

#[test]
fn marks_further_metrics_as_exploratory() {
    let latency = |trials: Vec<_>| {
        each(trials, |o| {
            let p99 = 1e9 / o.figures[0].value;
            o.figures.push(figure(Metric::time("read.p99"), p99));
            o.figures.push(Figure {
                derived: Some("made up".to_owned()),
                ..figure(Metric::bandwidth("bandwidth"), p99 * 2.0)
            });
        })
    };
    let trials = both(
        latency(rounds("ext4", "job", &around(1000.0))),
        latency(rounds("zfs", "job", &differently_around(1500.0))),
    );
    let named = |metrics: &[&str]| {
        let question = Question {
            metrics: metrics.iter().map(|name| (*name).to_owned()).collect(),
            ..Question::default()
        };
        let rows = compared(&trials, &question).rows;
        rows.iter()
            .map(|row| (row.metric.name.clone(), row.exploratory))
            .collect::<Vec<_>>()
    };
    let row = |name: &str, exploratory| (name.to_owned(), exploratory);
    assert_eq!(named(&[]), [row("iops", false)]);
    assert_eq!(named(&["read.p99"]), [row("read.p99", false)]);
    assert_eq!(
        named(&["read.p99", "iops"]),
        [row("read.p99", false), row("iops", true)]
    );
    let all = [
        row("iops", false),
        row("read.p99", true),
        row("bandwidth", true),
    ];
    assert_eq!(named(&["all"]), all);
}

#[test]
fn compares_several_candidates_with_one_baseline() {
    let trials = [
        rounds("ext4", "job", &around(1000.0)),
        rounds("xfs", "job", &differently_around(1200.0)),
        rounds("zfs", "job", &differently_around(800.0)),
    ]
    .concat();
    let question = Question {
        baseline: Some("xfs".to_owned()),
        ..Question::default()
    };
    let comparison = compared(&trials, &question);
    assert_eq!(comparison.columns, ["xfs", "ext4", "zfs"]);
    assert_eq!(
        (comparison.primaries, comparison.rounds, comparison.paired),
        (2, 10, true)
    );
    let cells = &comparison.rows[0].cells;
    assert!(cells.iter().all(|cell| cell.verdict == Verdict::Slower));
    assert!((cells[1].ratio.unwrap().value - 2.0 / 3.0).abs() < 0.01);
}

#[test]
fn agrees_with_another_program_on_the_same_data() {
    // scipy 1.17: wilcoxon(log(c/b), method="exact"), the median of the Walsh averages; for the other, which has
    // ties, all 12 870 ways to choose eight of sixteen ranks.
    let baseline = [101.0, 98.0, 103.0, 97.0, 100.0, 99.0, 104.0, 96.0];
    let candidate = [104.0, 99.5, 102.0, 101.0, 103.0, 98.5, 109.0, 99.0];
    let cell = paired(&baseline, &candidate);
    assert!((cell.p.unwrap() - PAIRED_P).abs() < 1e-12, "{:?}", cell.p);
    assert!((cell.ratio.unwrap().value - PAIRED_RATIO).abs() < 1e-9);
    let cell = unpaired(&baseline, &candidate);
    assert!((cell.p.unwrap() - UNPAIRED_P).abs() < 1e-9, "{:?}", cell.p);
    assert!((cell.ratio.unwrap().value - UNPAIRED_RATIO).abs() < 1e-9);
    assert_eq!(cell.side.median.unwrap().value, 101.5);
}

const PAIRED_P: f64 = 0.0390625;
const PAIRED_RATIO: f64 = 1.0229367918104828;
const UNPAIRED_P: f64 = 0.222999222999223;
const UNPAIRED_RATIO: f64 = 1.0201010051000146;

#[test]
fn treats_trials_without_rounds_as_unpaired_even_within_one_run() {
    let one = observation("ext4", "job", 1.0);
    let other = observation("zfs", "job", 2.0);
    assert_eq!(only_cell(&[one, other]).pairing, Pairing::Unpaired);
}
