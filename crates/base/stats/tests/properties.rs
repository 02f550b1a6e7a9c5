//! Properties that must hold for any data.

use iodyno_stats::{
    ChangePointOptions, QuantileKind, Sample, autocorrelation_time, benjamini_hochberg,
    change_points, cliffs_delta, hodges_lehmann, hodges_lehmann_shift, holm, log_ratios,
    mann_whitney, signed_rank, trimmed_mean,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Data with many ties and zeros, or almost none.
fn values(most: usize) -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![
        vec(-1e6..1e6f64, 1..most),
        vec((-4..4i32).prop_map(f64::from), 1..most),
    ]
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    // A failure prints its input; add it as a separate test.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exchanging_the_samples_mirrors_the_u_test(a in values(30), b in values(30)) {
        let there = mann_whitney(&a, &b).unwrap();
        let back = mann_whitney(&b, &a).unwrap();
        prop_assert_eq!(there.u + back.u, (a.len() * b.len()) as f64);
        prop_assert!(near(there.p, back.p));
        prop_assert!(near(there.p_less, back.p_greater));
        prop_assert!(near(cliffs_delta(&a, &b).unwrap(), -cliffs_delta(&b, &a).unwrap()));
        let shift = hodges_lehmann_shift(&a, &b, 0.9).unwrap();
        let mirrored = hodges_lehmann_shift(&b, &a, 0.9).unwrap();
        prop_assert!(near(shift.value, -mirrored.value));
        if let (Some(one), Some(other)) = (shift.interval, mirrored.interval) {
            prop_assert!(near(one.low, -other.high) && near(one.high, -other.low));
            prop_assert!(one.contains(shift.value));
        }
    }

    #[test]
    fn negating_the_differences_mirrors_the_signed_rank_test(d in values(60)) {
        let negated: Vec<f64> = d.iter().map(|d| -d).collect();
        let (one, other) = (signed_rank(&d).unwrap(), signed_rank(&negated).unwrap());
        prop_assert!(near(one.p, other.p) && near(one.p_less, other.p_greater));
        prop_assert!((0.0..=1.0).contains(&one.p));
        let (one, other) = (hodges_lehmann(&d, 0.9).unwrap(), hodges_lehmann(&negated, 0.9).unwrap());
        prop_assert!(near(one.value, -other.value));
        if let (Some(one), Some(other)) = (one.interval, other.interval) {
            prop_assert!(near(one.low, -other.high));
        }
    }

    #[test]
    fn the_order_of_the_values_does_not_matter(
        (d, shuffled) in values(40).prop_flat_map(|d| (Just(d.clone()), Just(d).prop_shuffle())),
        other in values(20),
    ) {
        prop_assert_eq!(signed_rank(&d).unwrap(), signed_rank(&shuffled).unwrap());
        prop_assert_eq!(hodges_lehmann(&d, 0.9).unwrap(), hodges_lehmann(&shuffled, 0.9).unwrap());
        prop_assert_eq!(mann_whitney(&d, &other).unwrap(), mann_whitney(&shuffled, &other).unwrap());
        prop_assert_eq!(trimmed_mean(&d).unwrap(), trimmed_mean(&shuffled).unwrap());
    }

    #[test]
    fn exchanging_baseline_and_candidate_inverts_the_ratio(
        pairs in vec((0.1..1e6f64, 0.1..1e6f64), 1..30),
    ) {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let (there, back) = (log_ratios(&a, &b).unwrap(), log_ratios(&b, &a).unwrap());
        let centre = |ratios: &[f64]| hodges_lehmann(ratios, 0.95).unwrap().value;
        prop_assert!(near(centre(&there), -centre(&back)));
        prop_assert_eq!(signed_rank(&there).unwrap().p, signed_rank(&back).unwrap().p);
    }

    #[test]
    fn a_higher_level_never_gives_a_narrower_interval(d in values(40), other in values(30)) {
        let widths = |find: &dyn Fn(f64) -> Option<iodyno_stats::Interval>| {
            [0.5, 0.8, 0.9, 0.95, 0.99].map(|level| find(level).map_or(f64::INFINITY, |i| i.width()))
        };
        let sample = Sample::new(&d).unwrap();
        let rising = |widths: [f64; 5]| widths.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-12));
        prop_assert!(rising(widths(&|level| hodges_lehmann(&d, level).unwrap().interval)));
        prop_assert!(rising(widths(&|level| hodges_lehmann_shift(&d, &other, level).unwrap().interval)));
        // Order-statistic intervals are asymmetric, so only the confidence increases, not each width.
        for level in [0.5, 0.9, 0.95] {
            if let Some(interval) = sample.median_interval(level).unwrap().interval {
                prop_assert!(interval.confidence >= level && interval.contains(sample.median()));
            }
        }
    }

    #[test]
    fn quantiles_increase_within_the_range(d in values(50), mut q in vec(0.0..=1.0f64, 2..9)) {
        q.sort_by(f64::total_cmp);
        let sample = Sample::new(&d).unwrap();
        for kind in [QuantileKind::Linear, QuantileKind::MedianUnbiased, QuantileKind::Rank] {
            let found: Vec<f64> = q.iter().map(|q| sample.quantile(*q, kind).unwrap()).collect();
            prop_assert!(found.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9 * pair[1].abs()));
            prop_assert!(found.iter().all(|v| *v >= sample.min() - 1e-6 && *v <= sample.max() + 1e-6));
        }
    }

    #[test]
    fn adjusted_p_never_shrink_and_keep_their_order(p in vec(0.0..=1.0f64, 1..20)) {
        for adjusted in [holm(&p).unwrap(), benjamini_hochberg(&p).unwrap()] {
            for i in 0..p.len() {
                prop_assert!(adjusted[i] >= p[i] * (1.0 - 1e-12) && adjusted[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }

    #[test]
    fn segments_cover_the_series_without_gaps(series in values(200)) {
        let options = ChangePointOptions::default();
        let found = change_points(&series, &options).unwrap();
        prop_assert_eq!(found.segments[0].start, 0);
        prop_assert_eq!(found.segments[found.segments.len() - 1].end, series.len());
        prop_assert!(found.segments.windows(2).all(|pair| pair[0].end == pair[1].start));
        prop_assert_eq!(found.changes.len() + 1, found.segments.len());
        let shortest = found.segments.iter().map(|s| s.end - s.start).min().unwrap();
        prop_assert!(found.segments.len() == 1 || shortest >= options.min_segment);
        prop_assert!(found.changes.iter().all(|change| change.p <= options.max_p));
    }

    #[test]
    fn the_effective_size_is_at_most_the_size(series in values(200)) {
        prop_assume!(series.len() > 1);
        let found = autocorrelation_time(&series).unwrap();
        prop_assert!(found.effective_size > 0.0 && found.effective_size <= series.len() as f64);
    }
}
