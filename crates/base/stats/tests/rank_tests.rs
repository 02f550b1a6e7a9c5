//! Signed-rank and U tests compared with published tables, scipy and benchmath.

mod common;

use common::{AFTER, AT_TERM, BEFORE, EARLY, X, Y, close, irregular, irregular_shifted};
use iodyno_stats::{
    Method, Sample, cliffs_delta, hodges_lehmann, hodges_lehmann_shift, log_ratios, mann_whitney,
    signed_rank, smallest_p_mann_whitney, smallest_p_signed_rank,
};

fn differences(before: &[f64], after: &[f64]) -> Vec<f64> {
    before.iter().zip(after).map(|(b, a)| a - b).collect()
}

/// Differences of magnitudes 1 to `count` whose positive ranks add up to `w_plus`.
fn with_w_plus(count: usize, mut w_plus: usize) -> Vec<f64> {
    let mut signed = vec![0.0; count];
    for rank in (1..=count).rev() {
        let positive = rank <= w_plus;
        w_plus -= if positive { rank } else { 0 };
        signed[rank - 1] = if positive {
            rank as f64
        } else {
            -(rank as f64)
        };
    }
    assert_eq!(w_plus, 0);
    signed
}

/// A baseline of `n` and a candidate of `m` values without ties, with the given U.
fn with_u(n: usize, m: usize, u: usize) -> (Vec<f64>, Vec<f64>) {
    let baseline = (1..=n).map(|i| i as f64).collect();
    let candidate = (0..m)
        .map(|j| {
            let beaten = u.saturating_sub(j * n).min(n);
            beaten as f64 + 0.5 + j as f64 * 1e-3
        })
        .collect();
    (baseline, candidate)
}

#[test]
fn signed_rank_has_the_critical_values_of_wilcoxons_table() {
    // The largest W significant at two-sided 0.05 and 0.01 for n from 6 to 30: the standard table
    // (Wilcoxon & Wilcox 1964, as in Siegel & Castellan, table H).
    let at_5 = [
        0, 2, 3, 5, 8, 10, 13, 17, 21, 25, 29, 34, 40, 46, 52, 58, 65, 73, 81, 89, 98, 107, 116,
        126, 137,
    ];
    for (index, critical) in at_5.into_iter().enumerate() {
        check_signed_rank(index + 6, critical, 0.05);
    }
    let at_1 = [
        0, 1, 3, 5, 7, 9, 12, 15, 19, 23, 27, 32, 37, 42, 48, 54, 61, 68, 75, 83, 91, 100, 109,
    ];
    for (index, critical) in at_1.into_iter().enumerate() {
        check_signed_rank(index + 8, critical, 0.01);
    }
}

#[track_caller]
fn check_signed_rank(count: usize, critical: usize, alpha: f64) {
    let p = |w| signed_rank(&with_w_plus(count, w)).unwrap();
    assert_eq!(p(critical).w_plus, critical as f64);
    assert_eq!(p(critical).method, Method::Exact);
    assert!(p(critical).p <= alpha, "n={count} W={critical}");
    assert!(p(critical + 1).p > alpha, "n={count} W={}", critical + 1);
}

#[test]
fn u_test_has_the_critical_values_of_the_published_table() {
    // The largest U significant at two-sided 0.05 (Mann & Whitney; Siegel & Castellan, table J).
    let check = |n, m, critical: usize| {
        let p = |u| {
            let (baseline, candidate) = with_u(n, m, u);
            let found = mann_whitney(&baseline, &candidate).unwrap();
            assert_eq!((found.u, found.method), (u as f64, Method::Exact));
            found.p
        };
        assert!(p(critical) <= 0.05, "n={n} m={m} U={critical}");
        assert!(p(critical + 1) > 0.05, "n={n} m={m} U={}", critical + 1);
    };
    let equal = [
        0, 2, 5, 8, 13, 17, 23, 30, 37, 45, 55, 64, 75, 87, 99, 113, 127,
    ];
    for (index, critical) in equal.into_iter().enumerate() {
        check(index + 4, index + 4, critical);
    }
    let five = [2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 17, 18, 19, 20];
    for (index, critical) in five.into_iter().enumerate() {
        check(5, index + 5, critical);
    }
    let ten = [23, 26, 29, 33, 36, 39, 42, 45, 48, 52, 55];
    for (index, critical) in ten.into_iter().enumerate() {
        check(index + 10, 10, critical);
    }
}

#[test]
fn signed_rank_agrees_with_scipy() {
    // scipy 1.16.3: stats.wilcoxon(AFTER - BEFORE, alternative=…, method='exact')
    let found = signed_rank(&differences(&BEFORE, &AFTER)).unwrap();
    assert_eq!(found.w_plus, 5.0);
    close(found.p, 0.0390625, 1e-12);
    close(found.p_less, 0.01953125, 1e-12);
    close(found.p_greater, 0.986328125, 1e-12);
    // stats.wilcoxon(…, method='approx', correction=True, zero_method='wilcox') on
    // ((i*i*37 + i*11) % 201 - 95)/10 for i < 250, which has ties
    let many: Vec<f64> = (0..250i64)
        .map(|i| ((i * i * 37 + i * 11) % 201 - 95) as f64 / 10.0)
        .collect();
    let found = signed_rank(&many).unwrap();
    assert_eq!(
        (found.w_plus, found.method),
        (15762.0, Method::NormalApproximation)
    );
    close(found.p, 0.9484453536364581, 1e-10);
    close(found.p_less, 0.5261251703358824, 1e-10);
    close(found.p_greater, 0.47422267682183905, 1e-7);
    // stats.permutation_test over all signs of the non-zero values, W+ with mid-ranks
    let tied = [1.0, 1.0, -1.0, 2.0, 2.0, -2.0, 3.0, 0.0, 4.0, 0.0, 5.0];
    let found = signed_rank(&tied).unwrap();
    assert_eq!((found.w_plus, found.pairs, found.nonzero), (38.0, 11, 9));
    close(found.p, 0.08203125, 1e-12);
    close(found.p_less, 0.978515625, 1e-12);
    close(found.p_greater, 0.041015625, 1e-12);
}

#[test]
fn u_test_agrees_with_scipy() {
    // scipy 1.16.3: stats.mannwhitneyu(AT_TERM, EARLY, alternative=…, method='exact')
    let found = mann_whitney(&EARLY, &AT_TERM).unwrap();
    assert_eq!(found.u, 35.0);
    close(found.p, 0.2544122544122544, 1e-12);
    close(found.p_less, 0.8967698967698967, 1e-12);
    close(found.p_greater, 0.1272061272061272, 1e-12);
    // the same of 50 values a side: irregular(50, 1009), irregular_shifted(50, 1013, 15.03)
    let found = mann_whitney(&irregular(50, 1009), &irregular_shifted(50, 1013, 15.03)).unwrap();
    assert_eq!(
        (found.u, found.method, found.tied),
        (1723.0, Method::Exact, false)
    );
    close(found.p, 0.0009769131207689942, 1e-10);
    close(found.p_greater, 0.0004884565603844971, 1e-10);
    // method='asymptotic', use_continuity=True, with ties: 60 and 70 values
    let found = mann_whitney(&irregular(60, 101), &irregular_shifted(70, 101, 0.7)).unwrap();
    assert_eq!(
        (found.u, found.method, found.tied),
        (2392.0, Method::NormalApproximation, true)
    );
    close(found.p, 0.17334704287355873, 1e-10);
    close(found.p_less, 0.9140616318564393, 1e-10);
    close(found.p_greater, 0.08667352143677937, 1e-10);
    // stats.permutation_test of U over all labellings, with ties
    let (a, b) = ([3.0, 3.0, 4.0, 5.0], [1.0, 1.0, 3.0, 3.0, 3.0, 2.0, 5.0]);
    let found = mann_whitney(&b, &a).unwrap();
    assert_eq!(
        (found.u, found.method, found.tied),
        (21.5, Method::Exact, true)
    );
    close(found.p, 0.23030303030303031, 1e-12);
    close(found.p_less, 0.9515151515151515, 1e-12);
    close(found.p_greater, 0.11515151515151516, 1e-12);
}

#[test]
fn p_values_agree_with_benchmath() {
    // golang.org/x/perf/benchmath v0.0.0-20260908200009: AssumeNothing.Compare(a, b).P
    let check = |a: &[f64], b: &[f64], p: f64| close(mann_whitney(a, b).unwrap().p, p, 1e-10);
    check(&X, &Y, 0.19711403147935655);
    check(&EARLY, &AT_TERM, 0.2544122544122544);
    check(
        &[3.0, 3.0, 4.0, 5.0, 5.0, 6.0, 7.0],
        &[1.0, 3.0, 3.0, 2.0, 5.0, 4.0, 4.0],
        0.1048951048951049,
    );
    check(&[30.1, 31.4, 33.3], &[27.0, 27.1, 26.8], 0.1);
    let (g1, g2) = (irregular(60, 101), irregular_shifted(70, 101, 0.7));
    check(&g1, &g2, 0.17334704287355876);
    check(&g1[..25], &g2[..25], 0.9195542484367792);
    check(&g1[..31], &g2[..26], 0.8852907270695732);
    check(
        &irregular(50, 1009),
        &irregular_shifted(50, 1013, 15.03),
        0.0009769131207690033,
    );
}

#[test]
fn p_is_the_permutation_p_if_ties_and_sizes_make_u_asymmetric() {
    // scipy 1.16.3: stats.permutation_test of U over all labellings. benchmath doubles the same tail in both orders
    // of the samples: its p of the first is 0.67, or 1.33 with the samples exchanged.
    let check = |a: &[f64], b: &[f64], p: f64| {
        close(mann_whitney(a, b).unwrap().p, p, 1e-12);
        close(mann_whitney(b, a).unwrap().p, p, 1e-12);
    };
    check(&[5.0, 5.0], &[1.0, 5.0, 5.0, 5.0], 1.0);
    check(
        &[5.0, 5.0, 6.0],
        &[1.0, 5.0, 5.0, 5.0, 2.0, 5.0],
        0.35714285714285715,
    );
    check(
        &[1.0; 3],
        &[1.0, 1.0, 2.0, 3.0, 1.0, 1.0, 1.0],
        0.9333333333333333,
    );
    check(
        &[1.0, 2.0, 2.0],
        &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0],
        0.36666666666666664,
    );
}

#[test]
fn summary_and_delta_agree_with_the_benchstat_program() {
    // benchstat on X and X slowed: `25.00n ± 5%   26.40n ± 7%   +5.60% (p=0.002 n=10)`
    let slower = [26.0, 27.1, 25.9, 28.2, 25.8, 27.9, 25.0, 26.6, 28.9, 26.2];
    let summary = |values: &[f64]| {
        let found = Sample::new(values).unwrap().median_interval(0.95).unwrap();
        let interval = found.interval.unwrap();
        let reach = (interval.high / found.median - 1.0).max(1.0 - interval.low / found.median);
        (found.median, format!("{:.0}%", reach * 100.0))
    };
    let (before, before_reach) = summary(&X);
    let (after, after_reach) = summary(&slower);
    close(before, 25.0, 1e-12);
    close(after, 26.4, 1e-12);
    assert_eq!((before_reach.as_str(), after_reach.as_str()), ("5%", "7%"));
    assert_eq!(format!("{:+.2}%", (after / before - 1.0) * 100.0), "+5.60%");
    assert_eq!(
        format!("{:.3}", mann_whitney(&X, &slower).unwrap().p),
        "0.002"
    );
}

#[test]
fn hodges_lehmann_has_the_published_examples() {
    // Hollander & Wolfe, examples 3.3 and 3.4: estimate −0.46, 96.1 % interval (−0.786, −0.010).
    let found = hodges_lehmann(&differences(&BEFORE, &AFTER), 0.95).unwrap();
    let interval = found.interval.unwrap();
    close(found.value, -0.46, 1e-9);
    close(interval.low, -0.786, 1e-9);
    close(interval.high, -0.010, 1e-9);
    close(interval.confidence, 0.9609375, 1e-12);
    // Example 4.3: shift 0.305.
    let found = hodges_lehmann_shift(&EARLY, &AT_TERM, 0.95).unwrap();
    close(found.value, 0.305, 1e-9);
    // The ends are order statistics of the 50 differences: P(U ≤ 8) is the last tail below 2.5 %.
    let mut all: Vec<f64> = AT_TERM
        .iter()
        .flat_map(|a| EARLY.iter().map(move |e| a - e))
        .collect();
    all.sort_by(f64::total_cmp);
    let interval = found.interval.unwrap();
    assert_eq!((interval.low, interval.high), (all[8], all[41]));
    // 1 - 2 * stats.mannwhitneyu(…).pvalue at U = 8, sizes 5 and 10
    close(interval.confidence, 1.0 - 2.0 * 0.019980019980019977, 1e-9);
}

#[test]
fn intervals_exclude_zero_exactly_if_the_test_rejects() {
    for shift in 0..60 {
        let shifted: Vec<f64> = irregular(12, 1009)
            .iter()
            .map(|v| v - f64::from(shift) * 2.003)
            .collect();
        let interval = hodges_lehmann(&shifted, 0.95).unwrap().interval.unwrap();
        let rejected = signed_rank(&shifted).unwrap().p <= 0.05;
        assert_eq!(rejected, !interval.contains(0.0), "shift {shift}");
        let (a, b) = (
            irregular(9, 1009),
            irregular_shifted(11, 1013, f64::from(shift) * 2.003 - 60.0),
        );
        let interval = hodges_lehmann_shift(&a, &b, 0.95)
            .unwrap()
            .interval
            .unwrap();
        let rejected = mann_whitney(&a, &b).unwrap().p <= 0.05;
        assert_eq!(rejected, !interval.contains(0.0), "shift {shift}");
    }
}

#[test]
fn smallest_p_is_that_of_complete_separation() {
    for (pairs, p) in [
        (1, 1.0),
        (3, 0.25),
        (5, 0.0625),
        (6, 0.03125),
        (8, 0.0078125),
        (10, 0.001953125),
    ] {
        close(smallest_p_signed_rank(pairs), p, 1e-12);
        let all_positive: Vec<f64> = (1..=pairs).map(|i| i as f64).collect();
        close(signed_rank(&all_positive).unwrap().p, p, 1e-12);
    }
    // golang.org/x/perf/benchmath, uTestMinP
    for (n, p) in [
        (1, 1.0),
        (2, 0.3333333333333333),
        (3, 0.1),
        (4, 0.02857142857142857),
        (5, 0.007936507936507936),
        (9, 4.113533525298231e-05),
    ] {
        close(smallest_p_mann_whitney(n, n), p, 1e-12);
        let low: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let high: Vec<f64> = (0..n).map(|i| i as f64 + 1000.0).collect();
        close(mann_whitney(&low, &high).unwrap().p, p, 1e-12);
    }
    assert_eq!(smallest_p_mann_whitney(usize::MAX, usize::MAX), 0.0);
    assert_eq!(smallest_p_signed_rank(usize::MAX), 0.0);
}

#[test]
fn three_runs_per_side_have_no_interval_at_95_percent() {
    let (a, b) = ([30.1, 31.4, 33.3], [27.0, 27.1, 26.8]);
    let shift = hodges_lehmann_shift(&a, &b, 0.95).unwrap();
    assert_eq!(shift.interval, None);
    assert_eq!(cliffs_delta(&a, &b), Ok(-1.0));
    let paired = hodges_lehmann(&log_ratios(&a, &b).unwrap(), 0.95).unwrap();
    assert_eq!(paired.interval, None);
    assert!(hodges_lehmann(&[1.0; 5], 0.95).unwrap().interval.is_none());
    assert!(hodges_lehmann(&[1.0; 6], 0.95).unwrap().interval.is_some());
}

#[test]
fn equal_values_show_no_difference() {
    let ratios = log_ratios(&X, &X).unwrap();
    let found = signed_rank(&ratios).unwrap();
    assert_eq!((found.p, found.nonzero), (1.0, 0));
    assert_eq!(hodges_lehmann(&ratios, 0.95).unwrap().value, 0.0);
    let (few, many) = ([7.0; 30], [7.0; 70]);
    assert_eq!(hodges_lehmann_shift(&few, &many, 0.95).unwrap().value, 0.0);
    assert_eq!(mann_whitney(&few, &many).unwrap().p, 1.0);
    assert_eq!(cliffs_delta(&few, &many), Ok(0.0));
}

#[test]
fn cliffs_delta_counts_pairs() {
    assert_eq!(
        cliffs_delta(&[1.0, 2.0, 3.0], &[2.0, 3.0, 4.0]),
        Ok((6.0 - 1.0) / 9.0)
    );
    close(
        cliffs_delta(&EARLY, &AT_TERM).unwrap(),
        2.0 * 35.0 / 50.0 - 1.0,
        1e-12,
    );
}

/// The limits that docs/comparing.md states.
#[test]
fn tests_are_exact_up_to_the_documented_sizes_and_approximate_above() {
    let values = |count: usize| (0..count).map(|i| i as f64 * 1.5).collect::<Vec<f64>>();
    let shifted = |count: usize| {
        (0..count)
            .map(|i| i as f64 * 1.5 + 0.25)
            .collect::<Vec<f64>>()
    };
    let approximate = |method: Method| method == Method::NormalApproximation;
    for (count, expected) in [(50, false), (51, true)] {
        let (baseline, candidate) = (values(count), shifted(count));
        let test = mann_whitney(&baseline, &candidate).unwrap();
        assert!(
            !test.tied && approximate(test.method) == expected,
            "{count}"
        );
        let shift = hodges_lehmann_shift(&baseline, &candidate, 0.95).unwrap();
        let interval = shift.interval.unwrap();
        assert_eq!(approximate(interval.method), expected, "{count}");
    }
    for (count, expected) in [(25, false), (26, true)] {
        let test = mann_whitney(&values(count), &values(count)).unwrap();
        assert!(test.tied && approximate(test.method) == expected, "{count}");
    }
    for (count, expected) in [(200, false), (201, true)] {
        let differences: Vec<f64> = (1..=count).map(f64::from).collect();
        let test = signed_rank(&differences).unwrap();
        assert_eq!(approximate(test.method), expected, "{count}");
        let estimate = hodges_lehmann(&differences, 0.95).unwrap();
        let interval = estimate.interval.unwrap();
        assert_eq!(approximate(interval.method), expected, "{count}");
    }
    for (count, expected) in [(30, false), (31, true)] {
        let sample = Sample::new(&values(count)).unwrap();
        let interval = sample.median_interval(0.95).unwrap().interval.unwrap();
        assert_eq!(approximate(interval.method), expected, "{count}");
    }
}
