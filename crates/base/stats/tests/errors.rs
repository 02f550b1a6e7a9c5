//! Bad input is an error, never a panic.

use iodyno_stats::*;

type Call = (&'static str, usize, fn(&[f64]) -> Option<StatsError>);

/// Every function of one series: its name, the smallest number of values, and its error.
fn calls() -> Vec<Call> {
    const FINE: [f64; 3] = [1.0, 2.0, 3.5];
    vec![
        ("Sample::new", 1, |v| Sample::new(v).err()),
        ("trimmed_mean", 1, |v| trimmed_mean(v).err()),
        ("signed_rank", 1, |v| signed_rank(v).err()),
        ("hodges_lehmann", 1, |v| hodges_lehmann(v, 0.95).err()),
        ("mann_whitney, baseline", 1, |v| {
            mann_whitney(v, &FINE).err()
        }),
        ("mann_whitney, candidate", 1, |v| {
            mann_whitney(&FINE, v).err()
        }),
        ("shift, baseline", 1, |v| {
            hodges_lehmann_shift(v, &FINE, 0.95).err()
        }),
        ("shift, candidate", 1, |v| {
            hodges_lehmann_shift(&FINE, v, 0.95).err()
        }),
        ("cliffs_delta", 1, |v| cliffs_delta(&FINE, v).err()),
        ("log_ratios", 1, |v| log_ratios(v, v).err()),
        ("equivalence_of_differences", 1, |v| {
            equivalence_of_differences(v, -1.0, 1.0).err()
        }),
        ("equivalence_paired", 1, |v| {
            equivalence_paired(v, v, margin()).err()
        }),
        ("equivalence_unpaired", 1, |v| {
            equivalence_unpaired(v, &FINE, margin()).err()
        }),
        ("bootstrap", 1, |v| bootstrap(v, |v| v[0], &quick()).err()),
        ("geometric_mean", 1, |v| geometric_mean(v).err()),
        ("holm", 1, |v| holm(v).err()),
        ("holm_levels", 1, |v| holm_levels(v, 0.05).err()),
        ("benjamini_hochberg", 1, |v| benjamini_hochberg(v).err()),
        ("assess_window", 5, |v| {
            assess_window(v, &SteadyCriteria::default()).err()
        }),
        ("autocorrelation_time", 2, |v| autocorrelation_time(v).err()),
        ("change_points", 1, |v| {
            change_points(v, &ChangePointOptions::default()).err()
        }),
        ("rounds_to_decide", 2, |v| {
            rounds_to_decide(v, 0.03, 0.95, 0.5).err()
        }),
        ("samples_to_decide", 2, |v| {
            samples_to_decide(&FINE, v, 0.03, 0.95, 0.5).err()
        }),
    ]
}

fn margin() -> Margin {
    Margin::symmetric(0.03).unwrap()
}

fn quick() -> Bootstrap {
    Bootstrap {
        resamples: 100,
        ..Bootstrap::default()
    }
}

#[test]
fn every_function_refuses_too_few_values() {
    for (name, needed, call) in calls() {
        for got in 0..needed {
            let expected = Some(StatsError::TooFew { needed, got });
            assert_eq!(call(&vec![0.5; got]), expected, "{name} of {got}");
        }
        assert_eq!(call(&vec![0.5; needed]), None, "{name} of {needed}");
    }
}

#[test]
fn every_function_refuses_values_that_are_not_finite() {
    for (name, needed, call) in calls() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut values = vec![0.5; needed + 3];
            values[2] = bad;
            assert_eq!(
                call(&values),
                Some(StatsError::NotFinite { index: 2 }),
                "{name} of {bad}"
            );
        }
    }
}

#[test]
fn no_function_panics_on_extreme_values() {
    let extremes = [
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        -0.0,
        0.0,
        1.0,
        -1.0,
    ];
    for (_, _, call) in calls() {
        for offset in 0..extremes.len() {
            for count in [1, 2, 3, 12, 60] {
                let series: Vec<f64> = (0..count)
                    .map(|i| extremes[(i * (offset + 1) + offset) % extremes.len()])
                    .collect();
                let _may_be_refused = call(&series);
            }
        }
    }
}

#[test]
fn ratios_refuse_zero_and_negative_values_with_their_index() {
    let fine = [1.0, 2.0, 3.0];
    let expected = |value| StatsError::NotPositive { index: 1, value };
    assert_eq!(log_ratios(&fine, &[1.0, 0.0, 2.0]), Err(expected(0.0)));
    assert_eq!(log_ratios(&[1.0, -4.0, 2.0], &fine), Err(expected(-4.0)));
    assert_eq!(geometric_mean(&[1.0, 0.0]), Err(expected(0.0)));
    let mismatch = StatsError::LengthMismatch { left: 3, right: 2 };
    assert_eq!(log_ratios(&fine, &fine[..2]), Err(mismatch));
}

#[test]
fn settings_out_of_range_are_named() {
    let fine = [1.0, 2.0, 3.0];
    for level in [0.0, 1.0, -1.0, 95.0, f64::NAN] {
        let errors = [
            hodges_lehmann(&fine, level).err(),
            hodges_lehmann_shift(&fine, &fine, level).err(),
            Sample::new(&fine).unwrap().median_interval(level).err(),
            bootstrap(&fine, |v| v[0], &Bootstrap { level, ..quick() }).err(),
            rounds_to_decide(&fine, 0.03, level, 0.5).err(),
            least_rounds(1, level).err(),
            least_samples(1, level).err(),
            normal_quantile(level).err(),
            change_points(
                &fine,
                &ChangePointOptions {
                    max_p: level,
                    ..Default::default()
                },
            )
            .err(),
        ];
        for error in errors {
            assert!(
                matches!(error, Some(StatsError::OutOfRange { .. })),
                "{level}: {error:?}"
            );
        }
    }
    assert!(holm(&[0.5, 1.5]).is_err() && benjamini_hochberg(&[-0.1]).is_err());
    assert!(student_t_quantile(0.5, 0.0).is_err() && student_t_two_sided_p(1.0, -1.0).is_err());
    assert!(student_t_two_sided_p(f64::NAN, 3.0).is_err());
    assert!(rounds_to_decide(&fine, -0.03, 0.95, 0.5).is_err());
    let options = ChangePointOptions {
        window: 5,
        ..Default::default()
    };
    assert!(change_points(&fine, &options).is_err());
}
