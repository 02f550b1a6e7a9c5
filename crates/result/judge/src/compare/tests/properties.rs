//! Properties that hold for any trials.

use iodyno_model::{
    Better, Claim, Course, FactClass, FindingKind, Kind, Metric, Observation, Question, SourceLine,
    Unit, Verdict, Weight, Withheld,
};
use proptest::prelude::*;

use super::{around, both, compared, differently_around};
use crate::compare::{compare, widest_interval};
use crate::testing::observations::{each, fact, figure, observation, regimes, rounds};

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 1.0..1e6_f64,
        1 => any::<f64>(),
        1 => Just(0.0),
        1 => Just(100.0),
    ]
}

fn any_metric() -> impl Strategy<Value = Metric> {
    let units = prop_oneof![
        Just(Unit::OpsPerSecond),
        Just(Unit::Nanos),
        Just(Unit::Other("x".to_owned())),
    ];
    let better = prop_oneof![Just(Better::Higher), Just(Better::Lower)];
    ("(iops|p99)", units, better).prop_map(|(name, unit, better)| Metric { name, unit, better })
}

prop_compose! {
    fn any_observation()(
        configuration in "[abc]",
        workload in "[xyz]",
        other in proptest::option::of("[12]"),
        round in proptest::option::of(0..4u32),
        again in proptest::bool::weighted(0.1),
        unusable in proptest::option::weighted(0.1, "[a-z]{0,3}"),
        kind in prop_oneof![Just(Kind::Timed), Just(Kind::Finite), Just(Kind::Unknown)],
        primary in proptest::option::of(any_metric()),
        figures in proptest::collection::vec((any_metric(), any_value()), 0..4),
        withheld in proptest::bool::weighted(0.1),
        fact_value in proptest::option::of("[uv]"),
        class in prop_oneof![Just(FactClass::Host), Just(FactClass::Ending), Just(FactClass::Target)],
        flagged in proptest::option::of(prop_oneof![
            Just(FindingKind::ClientSaturated),
            Just(FindingKind::CacheServed),
            Just(FindingKind::IoErrors),
        ]),
        course in 0..3u8,
        imported in any::<bool>(),
    ) -> Observation {
        let mut made = observation(&configuration, &workload, 1.0);
        made.dimensions.extend(other.map(|value| ("other".to_owned(), value)));
        made.round = round;
        made.again = again;
        made.unusable = unusable;
        made.kind = kind;
        made.primary = primary;
        made.figures = figures.into_iter().map(|(metric, value)| figure(metric, value)).collect();
        if withheld {
            made.withheld.push(Withheld { metric: "p99".to_owned(), why: String::new() });
        }
        made.facts.extend(fact_value.map(|value| fact(class, "it", &value)));
        made.flags.extend(flagged.map(|kind| iodyno_model::Flag {
            kind,
            weight: Weight::Invalid,
            text: String::new(),
        }));
        match course {
            0 => made.behaviour = regimes(&[1.0, f64::NAN]),
            1 => made.behaviour.course = Course::Unknown,
            _ => {}
        }
        made.source = imported.then(|| SourceLine { source: "s".to_owned(), line: 1 });
        made
    }
}

fn any_question() -> impl Strategy<Value = Question> {
    let dimension = "(configuration|workload|other|run|nothing)";
    (
        dimension,
        proptest::option::weighted(0.3, "[abx]"),
        proptest::collection::vec(dimension, 0..3),
        proptest::collection::vec(("(configuration|other)", "[ab12]"), 0..2),
        proptest::collection::vec("(iops|p99|all|no)", 0..3),
        proptest::collection::vec(("(workload|other)", "[x1]"), 0..2),
        prop_oneof![Just(0.03), Just(0.0), any::<f64>()],
    )
        .prop_map(
            |(columns, baseline, rows, only, metrics, floor, margin)| Question {
                columns,
                baseline,
                rows,
                only,
                metrics,
                floor,
                margin,
                ..Question::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_input_makes_a_comparison_panic(
        observations in proptest::collection::vec(any_observation(), 0..25),
        question in any_question(),
        sides in proptest::collection::vec(".{0,6}", 0..3),
    ) {
        let claim = Claim {
            at: SourceLine { source: "s".to_owned(), line: 1 },
            workload: "x".to_owned(),
            unit: "ops/sec".to_owned(),
            sides,
            delta: "~".to_owned(),
            p: Some(0.5),
            n: vec![1],
            subject: iodyno_model::ClaimSubject::default(),
        };
        match compare("", &observations, &question, &[claim]) {
            Err(error) => prop_assert!(!error.faults.is_empty() && !error.to_string().is_empty()),
            Ok(comparison) => {
                widest_interval(&comparison, None);
                prop_assert!(comparison.columns.len() > 1 && comparison.claims.len() == 1);
                for cell in comparison.rows.iter().flat_map(|row| &row.cells) {
                    let sound = |value: f64| value.is_finite() && value > 0.0;
                    if let Some(ratio) = cell.ratio {
                        prop_assert!(sound(ratio.value));
                        prop_assert!(ratio.interval.is_none_or(|(low, high)| {
                            sound(low) && sound(high) && low <= ratio.value && ratio.value <= high
                        }), "{:?}", ratio);
                    }
                    prop_assert!(cell.p.is_none_or(|p| (0.0..=1.0).contains(&p)));
                    prop_assert!(cell.adjusted_p >= cell.p);
                }
            }
        }
    }

    #[test]
    fn exchanging_the_sides_inverts_ratios_and_exchanges_faster_and_slower(
        one in proptest::collection::vec(1.0..1e4_f64, 3..14),
        other in proptest::collection::vec(1.0..1e4_f64, 3..14),
        factor in 0.5..2.0_f64,
        paired in any::<bool>(),
    ) {
        let other: Vec<f64> = other.iter().map(|v| v * factor).collect();
        let trials = |name, values: &[f64]| each(rounds(name, "w", values), |o| {
            if !paired {
                o.round = None;
            }
        });
        let trials = both(trials("a", &one), trials("b", &other));
        let by = |baseline: &str| {
            let question = Question {
                baseline: Some(baseline.to_owned()),
                ..Question::default()
            };
            compared(&trials, &question).rows[0].cells[0].clone()
        };
        let (forth, back) = (by("a"), by("b"));
        let (there, again) = (forth.ratio.unwrap(), back.ratio.unwrap());
        prop_assert!((there.value * again.value - 1.0).abs() < 1e-9);
        prop_assert_eq!(forth.p, back.p);
        match (&forth.verdict, &back.verdict) {
            (Verdict::Faster, Verdict::Slower) | (Verdict::Slower, Verdict::Faster) => {}
            (Verdict::Inconclusive { .. }, Verdict::Inconclusive { .. }) => {}
            (one, other) => prop_assert_eq!(one, other),
        }
    }
}

#[test]
fn hundreds_of_rounds_of_sixty_rows_with_facts_are_compared() {
    // `make bench` measures the cost of 1000 rounds.
    let mut trials = Vec::new();
    for row in 0..60 {
        for (name, noise) in [("a", around(1000.0)), ("b", differently_around(1010.0))] {
            let values: Vec<f64> = (0..300)
                .map(|round| noise[round % 10] * (1.0 + (round * 7919 % 1000) as f64 / 1e5))
                .collect();
            let workload = format!("row {row}");
            trials.extend(each(rounds(name, &workload, &values), |o| {
                for number in 0..20 {
                    o.facts.push(fact(
                        FactClass::Target,
                        &format!("fact {number}"),
                        "its value",
                    ));
                }
            }));
        }
    }
    let comparison = compared(&trials, &Question::default());
    assert_eq!((comparison.rows.len(), comparison.rounds), (60, 300));
    assert!(comparison.paired);
}

#[test]
fn fifty_trials_a_side_are_compared_without_pairs() {
    let mut trials = Vec::new();
    for row in 0..60 {
        for (name, factor) in [("a", 1.0), ("b", 1.001)] {
            let values: Vec<f64> = (0..50)
                .map(|trial| factor * (1000.0 + f64::from(trial * 7919 % 100)))
                .collect();
            let workload = format!("row {row}");
            trials.extend(each(rounds(name, &workload, &values), |o| o.round = None));
        }
    }
    let comparison = compared(&trials, &Question::default());
    assert!(!comparison.paired);
    // Each row has the same trials, and therefore the same figures.
    let first = &comparison.rows[0].cells[0];
    for row in &comparison.rows {
        assert_eq!((row.cells[0].n, row.cells[0].p), (50, first.p));
    }
}
