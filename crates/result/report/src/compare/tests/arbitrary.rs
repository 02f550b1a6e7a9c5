//! Arbitrary comparisons: names that break tables, values that are not numbers, sides without values.

use iodyno_model::{
    Better, CandidateResult, Claim, ClaimCheck, ClaimSubject, ComparedRow, Comparison, Difference,
    Estimated, Member, Metric, Pairing, Question, Regime, Side, SideFlag, SourceLine, Unit,
    Verdict,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("ext4".to_owned()),
        Just("a|b\\|c\\".to_owned()),
        Just("line\nbreak, \"quoted\"\r".to_owned()),
        Just("|===".to_owned()),
        // A name must not look like a number, because the test could not distinguish them.
        "[ -~µ×\\t]{0,40}".prop_map(|name| name.replace("NaN", "nan").replace("inf×", "")),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        0.0..1e12,
        0.9..1.1,
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
    ]
}

fn estimated() -> impl Strategy<Value = Estimated> {
    (number(), option::of((number(), number())), number()).prop_map(|(value, interval, level)| {
        Estimated {
            value,
            interval,
            level,
        }
    })
}

fn metric() -> impl Strategy<Value = Metric> {
    let unit = prop_oneof![
        Just(Unit::OpsPerSecond),
        Just(Unit::BytesPerSecond),
        Just(Unit::Nanos),
        name().prop_map(Unit::Other),
    ];
    (name(), unit, any::<bool>()).prop_map(|(name, unit, higher)| Metric {
        name,
        unit,
        better: if higher {
            Better::Higher
        } else {
            Better::Lower
        },
    })
}

fn flag() -> impl Strategy<Value = SideFlag> {
    let flag = |(words, trials, of)| SideFlag { words, trials, of };
    (name(), 0..20u32, 0..20u32).prop_map(flag)
}

fn side(column: String) -> BoxedStrategy<Side> {
    let regime =
        (any::<u64>(), any::<u64>(), number()).prop_map(|(start_ns, end_ns, rate)| Regime {
            start_ns,
            end_ns,
            rate,
            deviation: rate,
        });
    (
        vec(number(), 0..5),
        option::of(estimated()),
        vec(name(), 0..3),
        vec(regime, 0..7),
        vec(flag(), 0..2),
    )
        .prop_map(move |(values, median, left_out, regimes, flags)| Side {
            column: column.clone(),
            values,
            median,
            left_out,
            regimes,
            flags,
        })
        .boxed()
}

fn verdict() -> BoxedStrategy<Verdict> {
    prop_oneof![
        Just(Verdict::Faster),
        Just(Verdict::Slower),
        Just(Verdict::Equivalent),
        Just(Verdict::DifferentButSmall),
        (option::of(any::<u32>()), vec(name(), 0..3))
            .prop_map(|(more, reasons)| Verdict::Inconclusive { more, reasons }),
        (any::<u32>(), number(), number(), any::<u32>()).prop_map(
            |(n, smallest_p, needed_p, least)| Verdict::CannotDecide {
                n,
                smallest_p,
                needed_p,
                least,
            }
        ),
        vec(name(), 0..3).prop_map(|reasons| Verdict::NotComparable { reasons }),
        name().prop_map(|why| Verdict::NoData { why }),
    ]
    .boxed()
}

fn difference() -> impl Strategy<Value = Difference> {
    (name(), name(), name(), any::<bool>()).prop_map(|(name, left, right, axis)| Difference {
        class: iodyno_model::FactClass::Workload,
        name,
        values: (left, right),
        axis,
    })
}

fn cell(column: String) -> BoxedStrategy<CandidateResult> {
    let numbers = (
        option::of(estimated()),
        option::of(number()),
        option::of(number()),
        number(),
        any::<u32>(),
    );
    let words = (
        vec(difference(), 0..2),
        vec((name(), number()), 0..3),
        vec(name(), 0..2),
        vec(name(), 0..2),
    );
    (
        side(column),
        numbers,
        verdict(),
        verdict(),
        words,
        any::<bool>(),
    )
        .prop_map(
            |(side, (ratio, p, adjusted_p, margin, n), verdict, by_numbers, words, paired)| {
                CandidateResult {
                    side,
                    ratio,
                    p,
                    adjusted_p,
                    cliffs_delta: p,
                    pairing: if paired {
                        Pairing::Paired
                    } else {
                        Pairing::Unpaired
                    },
                    n,
                    margin,
                    verdict,
                    by_numbers,
                    differs: words.0,
                    members: words
                        .1
                        .into_iter()
                        .map(|(workload, ratio)| Member { workload, ratio })
                        .collect(),
                    notes: words.2,
                    remarks: words.3,
                    equal_rate: None,
                }
            },
        )
        .boxed()
}

/// Not every row has a cell for every column, nor a value for every dimension.
fn row(columns: Vec<String>) -> BoxedStrategy<ComparedRow> {
    let baseline = columns.first().cloned().unwrap_or_default();
    let cells: Vec<_> = columns
        .into_iter()
        .skip(1)
        .map(|it| option::of(cell(it)))
        .collect();
    (
        vec(name(), 0..3),
        metric(),
        any::<bool>(),
        side(baseline),
        cells,
        option::of(number()),
    )
        .prop_map(
            |(name, metric, exploratory, baseline, cells, floor)| ComparedRow {
                family: false,
                name,
                metric,
                exploratory,
                baseline,
                cells: cells.into_iter().flatten().collect(),
                floor,
                no_difference: exploratory && floor.is_some(),
            },
        )
        .boxed()
}

fn claim() -> BoxedStrategy<ClaimCheck> {
    (
        (name(), name(), name()),
        vec(name(), 0..3),
        option::of(number()),
        vec(any::<u32>(), 0..3),
        vec(option::of(name()), 0..3),
        vec(name(), 0..2),
        option::of(name()),
    )
        .prop_map(
            |((source, workload, unit), sides, p, n, recomputed, against, unchecked)| ClaimCheck {
                claim: Claim {
                    at: SourceLine { source, line: 1 },
                    workload,
                    unit,
                    sides,
                    delta: "~".to_owned(),
                    p,
                    n,
                    subject: ClaimSubject::default(),
                },
                recomputed,
                p,
                against,
                unchecked,
            },
        )
        .boxed()
}

/// Any comparison.
pub(super) fn comparison() -> BoxedStrategy<Comparison> {
    let question = (
        vec(name(), 0..3),
        number(),
        number(),
        vec((name(), name()), 0..2),
    );
    let columns = vec(name(), 0..4);
    let rows = columns.prop_flat_map(|columns| (Just(columns.clone()), vec(row(columns), 0..5)));
    let words = (
        vec(name(), 0..3),
        vec(difference(), 0..3),
        vec(claim(), 0..3),
        vec(name(), 0..2),
    );
    (
        name(),
        question,
        rows,
        words,
        any::<u32>(),
        any::<bool>(),
        option::of(number()),
    )
        .prop_map(
            |(name, question, (columns, rows), words, count, paired, floor)| Comparison {
                searches: Vec::new(),
                name,
                question: Question {
                    across: question
                        .0
                        .iter()
                        .take(count as usize % 3)
                        .cloned()
                        .collect(),
                    primary_metrics: 1 + usize::from(paired),
                    rows: question.0,
                    margin: question.1,
                    alpha: question.2,
                    floor: question.3,
                    ..Question::default()
                },
                columns,
                rounds: count,
                paired,
                primaries: count,
                floor,
                rows,
                unknown: words.0.clone(),
                same: words.0,
                differs: words.1,
                claims: words.2,
                notes: words.3,
            },
        )
        .boxed()
}
