//! The noise floor, and statements about rounds before and between them.

use iodyno_model::{Configuration, Plan, Question, Target, Verdict, Workload};

use super::{around, both, compared, differently_around};
use crate::compare::{can_decide, default_rounds, primaries, question_of, widest_interval};
use crate::testing::observations::{each, imported, rounds};

#[test]
fn uses_the_repeated_baseline_as_noise_floor() {
    let noisy: Vec<f64> = around(1000.0)
        .iter()
        .zip([1.1, 0.9, 1.08, 0.93, 1.05, 0.96, 1.07, 0.92, 1.09, 0.91])
        .map(|(value, factor)| value * factor)
        .collect();
    let again = each(rounds("ext4 again", "job", &noisy), |o| o.again = true);
    let small: Vec<f64> = around(1000.0).iter().map(|v| v * 1.04).collect();
    let trials = [
        rounds("ext4", "job", &around(1000.0)),
        again,
        rounds("zfs", "job", &small),
    ]
    .concat();
    let comparison = compared(&trials, &Question::default());
    assert_eq!(comparison.columns, ["ext4", "zfs"]);
    let row = &comparison.rows[0];
    let floor = row.floor.unwrap();
    assert!((0.04..0.1).contains(&floor), "{floor}");
    assert_eq!(row.cells[0].margin, Question::MARGIN);
    // 4 %, significant, but within the variation of the host.
    let Verdict::Inconclusive {
        more: None,
        reasons,
    } = &row.cells[0].verdict
    else {
        panic!("{:?}", row.cells[0]);
    };
    assert!(
        reasons[0].starts_with("too noisy for a margin of 3 %, the noise floor is"),
        "{reasons:?}"
    );
    let without = compared(
        &both(trials[..10].to_vec(), trials[20..].to_vec()),
        &Question::default(),
    );
    assert_eq!(without.rows[0].cells[0].verdict, Verdict::Faster);
}

#[test]
fn uses_the_most_distant_of_too_few_rounds() {
    let again = each(rounds("again", "job", &[103.0, 95.0]), |o| o.again = true);
    let trials = [
        rounds("ext4", "job", &[100.0, 100.0]),
        again,
        rounds("zfs", "job", &[100.0, 100.0]),
    ]
    .concat();
    let floor = compared(&trials, &Question::default()).floor.unwrap();
    assert!((floor - (100.0 / 95.0 - 1.0)).abs() < 1e-12, "{floor}");
}

/// The striped pool has no mirror to choose from: the change cannot have affected it.
#[test]
fn uses_rows_without_an_expected_difference_as_noise_floor() {
    let mut trials = Vec::new();
    for (pool, before, after) in [
        (
            "2 Striped",
            [226.0, 243.0, 11.0, 304.0],
            [222.0, 255.0, 11.0, 299.0],
        ),
        (
            "2 2-Way Mirror",
            [302.0, 324.0, 16.0, 534.0],
            [433.0, 448.0, 23.0, 571.0],
        ),
    ] {
        for (index, kind) in ["seq 1MB", "seq 4KB", "rand 1MB", "rand 4KB"]
            .iter()
            .enumerate()
        {
            for (column, values) in [("pristine", before), ("with 1461", after)] {
                trials.extend(each(imported(column, kind, &[values[index]]), |o| {
                    o.dimensions.insert("pool".to_owned(), pool.to_owned());
                }));
            }
        }
    }
    let question = Question {
        rows: vec!["pool".to_owned(), "workload".to_owned()],
        floor: vec![("pool".to_owned(), "2 Striped".to_owned())],
        ..Question::default()
    };
    let comparison = compared(&trials, &question);
    let floor = comparison.floor.unwrap();
    assert!((floor - (255.0 / 243.0 - 1.0)).abs() < 1e-12, "{floor}");
    assert_eq!((comparison.rows.len(), comparison.primaries), (8, 4));
    let family = Question {
        rows: vec!["pool".to_owned()],
        ..question
    };
    // The mean over the striped row would be 0.1 % and hide it.
    assert!((compared(&trials, &family).floor.unwrap() - floor).abs() < 1e-12);
    let mirror = &comparison.rows[0];
    assert_eq!(
        (mirror.name[0].as_str(), mirror.exploratory),
        ("2 2-Way Mirror", false)
    );
    assert!((mirror.cells[0].ratio.unwrap().value - 433.0 / 302.0).abs() < 1e-12);
    assert_eq!(mirror.cells[0].margin, Question::MARGIN);
    let striped = &comparison.rows[4];
    assert!(striped.exploratory && striped.cells[0].margin == Question::MARGIN);
    assert!(
        striped.cells[0]
            .notes
            .iter()
            .any(|note| note.contains("noise floor"))
    );
    assert!(
        comparison
            .notes
            .iter()
            .any(|note| note.starts_with("floor rows (pool 2 Striped)"))
    );
    assert!(
        comparison
            .notes
            .iter()
            .any(|note| note.contains("imported"))
    );
}

#[test]
fn plans_rounds_by_the_number_of_primaries() {
    for (primaries, least) in [(1, 6), (2, 7), (3, 7), (7, 9), (20, 10), (60, 12)] {
        assert_eq!(default_rounds(primaries, 0.05), least.max(10));
        assert_eq!(can_decide(least, primaries, 0.05), Ok(()));
        let few = can_decide(least - 1, primaries, 0.05).unwrap_err();
        assert_eq!((few.least, few.rounds), (least, least - 1));
        assert!(few.smallest_p >= few.needed_p);
    }
    assert_eq!(
        can_decide(3, 1, 0.05).unwrap_err().to_string(),
        "3 rounds cannot decide: the smallest possible p is 0.250, and over 1 primary comparison it has \
         to fall below 0.0500; at least 6 rounds can"
    );
    for odd in [0.0, 1.0, f64::NAN, -3.0] {
        assert_eq!(default_rounds(0, odd), 10);
        assert_eq!(can_decide(6, 0, odd), Ok(()));
    }
}

#[test]
fn counts_the_primaries_of_a_plan() {
    let target = || Target::AsWritten { folder: "/".into() };
    let configurations = ["a", "b", "c"].map(|name| Configuration::new(name, target()));
    let workloads = ["w", "x", "y", "z"].map(|name| Workload::new(name, Vec::new(), Vec::new()));
    let mut plan = Plan::new("", configurations.to_vec(), workloads.to_vec());
    assert_eq!(primaries(&plan), 8);
    plan.configurations[2].again = true;
    assert_eq!(primaries(&plan), 4);
    plan.question.only = vec![
        ("workload".to_owned(), "w".to_owned()),
        ("workload".to_owned(), "x".to_owned()),
    ];
    assert_eq!(primaries(&plan), 2);
    plan.question.floor = vec![("workload".to_owned(), "x".to_owned())];
    assert_eq!(primaries(&plan), 1);
    plan.question = Question {
        rows: Vec::new(),
        ..Question::default()
    };
    assert_eq!(primaries(&plan), 1); // one family
    plan.question.columns = "workload".to_owned();
    plan.question.rows = vec!["configuration".to_owned()];
    assert_eq!(primaries(&plan), 6);
    plan.configurations.truncate(1);
    plan.workloads.truncate(1);
    assert_eq!(primaries(&plan), 0);
}

#[test]
fn counts_a_family_once_and_no_pair_that_is_excluded() {
    let target = || Target::AsWritten { folder: "/".into() };
    let configurations = ["a", "b", "c"].map(|name| Configuration::new(name, target()));
    let workloads = ["w", "x", "y", "z"].map(|name| Workload::new(name, Vec::new(), Vec::new()));
    let mut plan = Plan::new("", configurations.to_vec(), workloads.to_vec());
    for workload in &mut plan.workloads[..2] {
        workload.family = Some("f".to_owned());
    }
    // A family of its own.
    plan.workloads[2].family = Some("y".to_owned());
    assert_eq!(primaries(&plan), 6);
    plan.workloads[3].only = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(primaries(&plan), 5);
    plan.workloads[3].only = vec!["b".to_owned(), "c".to_owned()];
    assert_eq!(
        primaries(&plan),
        4,
        "without its baseline there is no comparison"
    );
    plan.question.rows = vec!["family".to_owned()];
    assert_eq!(
        primaries(&plan),
        4,
        "f, y, and none, which z has on b and c without a baseline"
    );
}

#[test]
fn returns_the_widest_interval_for_a_stop_rule_when_all_have_one() {
    let row = |name: &str, n: usize| {
        both(
            rounds("ext4", name, &around(1000.0)[..n]),
            rounds("zfs", name, &differently_around(1500.0)[..n]),
        )
    };
    let widest = |trials: &[_]| widest_interval(&compared(trials, &Question::default()), None);
    let narrow = widest(&row("a", 10)).unwrap();
    assert!((0.001..0.02).contains(&narrow), "{narrow}");
    assert!(widest(&both(row("a", 10), row("b", 9))).unwrap() > narrow);
    assert_eq!(widest(&both(row("a", 10), row("b", 3))), None);
    assert_eq!(widest(&row("a", 2)), None);
}

#[test]
fn each_look_that_could_have_decided_uses_part_of_alpha() {
    let mut plan = Plan::new("", Vec::new(), Vec::new());
    for (looks, spent) in [
        (&[][..], 0),
        (&[3, 5], 0), // 2/2⁵ is above 0.04
        (&[6], 1),
        (&[3, 6, 7], 1), // 2/2⁷ is above 0.008
        (&[3, 6, 8, 20], 3),
    ] {
        plan.looks = looks.to_vec();
        assert_eq!(question_of(&plan).looks, Some(spent), "{looks:?}");
    }
    let at = |looks| Question {
        looks,
        ..Question::default()
    };
    assert_eq!(at(None).alpha_at_look(), 0.05);
    let all: f64 = (0..13).map(|looks| at(Some(looks)).alpha_at_look()).sum();
    assert!((0.0499..0.05).contains(&all), "{all}");
    assert!(at(Some(u32::MAX)).alpha_at_look() > 0.0);
}

#[test]
fn an_extended_run_is_judged_at_the_remaining_alpha() {
    // Seven rounds in favour of the candidate: p is 2/2⁷.
    let trials = both(
        rounds("ext4", "job", &around(1000.0)[..7]),
        rounds("zfs", "job", &differently_around(1500.0)[..7]),
    );
    let at = |looks| {
        let question = Question {
            looks: Some(looks),
            ..Question::default()
        };
        compared(&trials, &question)
    };
    let cell = |looks| at(looks).rows[0].cells[0].clone();
    assert_eq!(cell(0).verdict, Verdict::Faster);
    assert!((cell(0).ratio.unwrap().level - 0.96).abs() < 1e-12);
    // 2/2⁸ is below 0.008.
    let second = cell(1).verdict;
    assert!(
        matches!(second, Verdict::CannotDecide { n: 7, least: 8, .. }),
        "{second:?}"
    );
    let said = "extended once after the verdict could be seen";
    assert!(at(1).notes.iter().any(|note| note.contains(said)));
    assert!(!at(0).notes.iter().any(|note| note.contains("extended")));
    for (looks, said) in [
        (
            1,
            "extended once after the verdict could be seen: this verdict uses α = 0.008, so that all verdicts together use at most 0.05",
        ),
        (
            2,
            "extended twice after the verdict could be seen: this verdict uses α = 0.0016",
        ),
        (
            3,
            "extended 3 times after the verdict could be seen: this verdict uses α = 0.00032",
        ),
    ] {
        let notes = at(looks).notes;
        assert!(notes.iter().any(|note| note.starts_with(said)), "{notes:?}");
    }
}
