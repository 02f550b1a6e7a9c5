//! Medians, quantiles and means without outliers, compared with numpy and golang.org/x/perf.

mod common;

use common::{X, close, irregular};
use iodyno_stats::{
    Method, QuantileKind, Sample, normal_cdf, normal_quantile, student_t_quantile,
    student_t_two_sided_p, trimmed_mean,
};

#[test]
fn named_distributions_agree_with_scipy() {
    // scipy 1.16.3: stats.norm.ppf, stats.norm.cdf
    close(normal_quantile(0.975).unwrap(), 1.959963984540054, 1e-12);
    close(normal_quantile(1e-9).unwrap(), -5.9978070150076865, 1e-9);
    close(normal_quantile(0.3).unwrap(), -0.5244005127080409, 1e-12);
    close(normal_cdf(-8.0), 6.22096057427174e-16, 1e-9);
    close(normal_cdf(1.3), 0.9031995154143897, 1e-11);
    // stats.t.ppf
    for (p, freedom, want) in [
        (0.975, 1.0, 12.706204736432095),
        (0.975, 9.0, 2.2621571628540993),
        (0.995, 2.5, 7.163728138948775),
        (0.9999, 100.0, 3.8615997909500837),
        (0.3, 4.0, -0.5686490630385523),
    ] {
        close(student_t_quantile(p, freedom).unwrap(), want, 1e-8);
    }
    // 2 * stats.t.sf
    for (t, freedom, want) in [
        (2.262157, 9.0, 0.0500000133044316),
        (40.0, 3.0, 3.438068078915854e-05),
        (-5.5, 37.2, 2.93884673057613e-06),
        (30.0, 500.0, 7.21428888842829e-114),
    ] {
        close(student_t_two_sided_p(t, freedom).unwrap(), want, 1e-8);
    }
}

#[test]
fn quantiles_agree_with_numpy() {
    let sample = Sample::new(&X).unwrap();
    // numpy 2.2: np.quantile(X, q, method='linear' | 'median_unbiased' | 'inverted_cdf')
    for (q, linear, unbiased, rank) in [
        (0.0, 23.5, 23.5, 23.5),
        (0.1, 23.77, 23.61, 23.5),
        (0.25, 24.175, 24.075, 24.1),
        (0.5, 25.0, 25.0, 24.9),
        (0.9, 26.03, 26.19, 26.0),
        (0.99, 26.273, 26.3, 26.3),
        (1.0, 26.3, 26.3, 26.3),
    ] {
        close(
            sample.quantile(q, QuantileKind::Linear).unwrap(),
            linear,
            1e-12,
        );
        close(
            sample.quantile(q, QuantileKind::MedianUnbiased).unwrap(),
            unbiased,
            1e-12,
        );
        close(sample.quantile(q, QuantileKind::Rank).unwrap(), rank, 1e-12);
    }
    assert!(sample.quantile(1.01, QuantileKind::Linear).is_err());
    assert!(sample.quantile(f64::NAN, QuantileKind::Rank).is_err());
}

/// Size, lower order, upper order, confidence.
type Orders = (usize, usize, usize, f64);

#[track_caller]
fn check_orders(level: f64, cases: &[Orders]) {
    for &(count, low, high, confidence) in cases {
        let values: Vec<f64> = (1..=count).map(|i| i as f64).collect();
        let found = Sample::new(&values)
            .unwrap()
            .median_interval(level)
            .unwrap();
        assert_eq!(found.orders, (low, high), "{count} values at {level}");
        assert_eq!(
            found.interval.is_some(),
            low >= 1 && high <= count,
            "{count} at {level}"
        );
        if let Some(interval) = found.interval {
            assert_eq!((interval.low, interval.high), (low as f64, high as f64));
            close(interval.confidence, confidence, 1e-9);
            assert_eq!(interval.method == Method::Exact, count <= 30);
        }
    }
}

// github.com/aclements/go-moremath/stats v0.0.0-20210112150236, which golang.org/x/perf/benchmath
// calls: QuantileCI(n, 0.5, level) → LoOrder, HiOrder, Confidence.
#[test]
fn order_statistic_intervals_agree_with_benchmath() {
    check_orders(
        0.95,
        &[
            (2, 0, 3, 1.0),
            (3, 0, 4, 1.0),
            (5, 0, 5, 0.96875),
            (6, 1, 6, 0.96875),
            (7, 1, 7, 0.984375),
            (8, 1, 7, 0.9609375),
            (9, 2, 8, 0.9609375),
            (10, 2, 9, 0.978515625),
            (11, 2, 9, 0.96142578125),
            (12, 3, 10, 0.96142578125),
            (13, 3, 11, 0.9775390625),
            (14, 3, 11, 0.96484375),
            (15, 4, 12, 0.96484375),
            (16, 4, 12, 0.950958251953125),
            (17, 5, 13, 0.950958251953125),
            (18, 5, 14, 0.9691162109375),
            (19, 5, 14, 0.9586105346679688),
            (20, 6, 15, 0.9586105346679688),
            (21, 6, 16, 0.9733963012695351),
            (22, 6, 16, 0.9653103351593018),
            (23, 7, 17, 0.9653103351593026),
            (24, 8, 18, 0.9567147493362336),
            (25, 8, 18, 0.9567147493362438),
            (26, 8, 19, 0.9710407257080036),
            (27, 8, 19, 0.9643018618225948),
            (28, 9, 20, 0.9643018618226076),
            (29, 9, 20, 0.9572260547429357),
            (30, 10, 21, 0.9572260547429379),
            (31, 10, 22, 0.9688587894042033),
            (32, 10, 22, 0.9633069030110369),
            (33, 11, 23, 0.9632861436372959),
            (36, 12, 24, 0.9514933524049469),
            (38, 13, 26, 0.9650449273563695),
            (40, 14, 27, 0.9601673807552584),
            (50, 18, 32, 0.9500565457079816),
            (51, 19, 33, 0.9500500235452536),
            (75, 29, 47, 0.9623330777713712),
            (100, 40, 60, 0.9534190196211817),
            (1000, 469, 532, 0.9536547121622132),
        ],
    );
    check_orders(
        0.99,
        &[
            (6, 0, 7, 1.0),
            (7, 0, 7, 0.9921875),
            (8, 1, 8, 0.9921875),
            (10, 1, 10, 0.998046875),
            (11, 1, 10, 0.99365234375),
            (16, 3, 14, 0.995819091796875),
            (22, 5, 18, 0.9956564903259277),
            (24, 6, 19, 0.9933892488479521),
            (27, 7, 21, 0.9940753877162829),
            (28, 8, 22, 0.9918699413538005),
            (29, 8, 22, 0.9918699413538014),
            (30, 8, 23, 0.9947771206498202),
            (31, 8, 23, 0.9920109312353573),
            (40, 12, 29, 0.992810482749835),
            (1000, 459, 541, 0.9904517227123715),
        ],
    );
    check_orders(
        0.9,
        &[
            (4, 0, 4, 0.9375),
            (5, 1, 5, 0.9375),
            (8, 2, 7, 0.9296875),
            (14, 4, 11, 0.942626953125),
            (20, 6, 14, 0.9216461181640625),
            (22, 8, 16, 0.9068603515624998),
            (29, 11, 20, 0.9012628532946142),
            (32, 11, 21, 0.918279152241899),
            (100, 42, 59, 0.910869074482914),
        ],
    );
    check_orders(
        0.5,
        &[
            (2, 1, 2, 0.5),
            (3, 1, 3, 0.75),
            (4, 1, 3, 0.625),
            (5, 2, 4, 0.625),
            (8, 3, 6, 0.7109375),
            (28, 13, 17, 0.5417416803538815),
            (31, 14, 18, 0.5275023859993115),
        ],
    );
}

#[test]
fn means_without_outliers_agree_with_the_older_benchstat() {
    // golang.org/x/perf/benchstat: Metrics.Mean, .Min, .Max, FormatDiff(), dropped.
    let check = |values: &[f64], mean, min, max, percent: &str, dropped| {
        let found = trimmed_mean(values).unwrap();
        close(found.mean, mean, 1e-12);
        assert_eq!((found.min, found.max, found.dropped), (min, max, dropped));
        assert_eq!(format!("{:.0}%", found.deviation.unwrap() * 100.0), percent);
    };
    check(&X, 24.91, 23.5, 26.3, "6%", 0);
    let with_outliers = [10.0, 10.2, 9.9, 10.1, 10.05, 14.0, 9.95, 3.0];
    check(&with_outliers, 10.033333333333333, 9.9, 10.2, "2%", 2);
    check(&[30.1, 31.4, 33.3], 31.599999999999998, 30.1, 33.3, "5%", 0);
    check(&[5.0], 5.0, 5.0, 5.0, "0%", 0);
    check(&[1.0, 2.0, 3.0, 100.0], 26.5, 1.0, 100.0, "277%", 0);
    check(
        &irregular(50, 1009),
        41.85000000000001,
        0.0,
        99.7,
        "138%",
        0,
    );
    assert_eq!(trimmed_mean(&[0.0, 0.0]).unwrap().deviation, None);
}
