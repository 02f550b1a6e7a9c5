use super::*;

/// Ops per second of a real trial: zfs deletes 100 000 files of 2 MB (the first second from its cumulative rate).
const ZFS_DELETES: [f64; 55] = [
    2559.9, 2100.6, 1800.7, 1725.1, 1866.4, 1879.6, 1844.6, 1880.5, 1822.4, 1825.3, 1811.0, 1790.1,
    1813.6, 1824.7, 1808.7, 1797.9, 1823.7, 1906.5, 1849.9, 1895.9, 1625.5, 1695.0, 1636.5, 1498.3,
    1618.7, 1624.0, 1618.3, 1620.6, 1671.3, 1698.0, 1657.1, 1796.7, 1828.5, 1836.1, 1903.8, 1915.0,
    1867.2, 1879.6, 1838.3, 1820.6, 1863.9, 1824.2, 1864.1, 1856.8, 1819.5, 1835.3, 1831.7, 1834.6,
    1848.5, 1814.7, 1820.8, 1849.5, 1829.6, 1724.2, 1890.0,
];

/// Points of one second each.
fn series(rates: &[f64]) -> Vec<Point> {
    with_end(rates, None)
}

/// … and a shorter last point: its length in seconds and its rate.
fn with_end(rates: &[f64], end: Option<(f64, f64)>) -> Vec<Point> {
    let mut start_ns = 0;
    let seconds = rates.iter().map(|rate| (1.0, *rate));
    seconds
        .chain(end)
        .map(|(seconds, rate)| {
            let span_ns = (seconds * 1e9) as u64;
            let point = Point {
                start_ns,
                span_ns,
                iops: rate,
                bytes_per_s: 0.0,
            };
            start_ns += span_ns;
            point
        })
        .collect()
}

/// Approximately normal, mean 0, deviation 1, the same in every run.
fn noise(place: usize) -> f64 {
    let mut state = place as u64 * 12 + 1;
    let mut uniform = || {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    };
    (0..12).map(|_| uniform()).sum::<f64>() - 6.0
}

/// `count` seconds of `level(second)`, with noise of this relative size.
fn noisy(count: usize, share: f64, level: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..count)
        .map(|second| level(second) * (1.0 + share * noise(second)))
        .collect()
}

/// The behaviour as one word, with its start or its number of regimes.
fn word(behaviour: &Behaviour) -> String {
    match behaviour.course {
        Course::Steady { from_ns, .. } => format!("steady from {}", from_ns / 1_000_000_000),
        Course::Drifting {
            rise_percent,
            range_percent,
        } if rise_percent * 2.0 > range_percent => "rising".to_owned(),
        Course::Drifting {
            rise_percent,
            range_percent,
        } if -rise_percent * 2.0 > range_percent => "falling".to_owned(),
        Course::Drifting { .. } => "swinging".to_owned(),
        Course::Regimes => format!("{} regimes", behaviour.regimes.len()),
        Course::TooShort { seconds } => format!("too short: {seconds}"),
        Course::Unknown => "unknown".to_owned(),
    }
}

fn check(name: &str, rates: &[f64], timed: &str, finite: &str) {
    for (kind, expected) in [(Kind::Timed, timed), (Kind::Finite, finite)] {
        let found = behaviour(&series(rates), kind);
        assert_eq!(word(&found), expected, "{name}, {kind:?}: {found:#?}");
        let adjoining = |pair: &[Regime]| pair[0].end_ns == pair[1].start_ns;
        assert!(
            found.regimes.windows(2).all(adjoining),
            "{name}: {found:#?}"
        );
    }
}

#[test]
fn pure_noise_is_steady() {
    check("constant", &[1000.0; 20], "steady from 0", "steady from 0");
    check(
        "five seconds",
        &[1000.0, 980.0, 1010.0, 1005.0, 990.0],
        "steady from 0",
        "steady from 0",
    );
    for share in [0.01, 0.05, 0.10] {
        for count in [5, 8, 20, 60, 600] {
            let name = format!("{count} s with {share}");
            check(
                &name,
                &noisy(count, share, |_| 50_000.0),
                "steady from 0",
                "steady from 0",
            );
        }
    }
    // A second without ops is an outlier and does not change the behaviour.
    let stall = noisy(60, 0.02, |second| if second == 30 { 0.0 } else { 1000.0 });
    check("one stall", &stall, "steady from 0", "steady from 0");
}

#[test]
fn noise_is_rarely_classified_as_anything_else() {
    for kind in [Kind::Timed, Kind::Finite] {
        for share in [0.02, 0.08, 0.15] {
            for count in [5, 7, 10, 20, 60, 300] {
                let found = (0..300).map(|seed| {
                    let rates: Vec<f64> = (0..count)
                        .map(|second| 1e5 * (1.0 + share * noise(seed * 1000 + second)))
                        .collect();
                    word(&behaviour(&series(&rates), kind))
                });
                let otherwise = found.filter(|word| word != "steady from 0").count();
                let name = format!("{kind:?} {share} {count}: {otherwise} of 300");
                // One in twenty, with a tolerance of three deviations of that number.
                assert!(otherwise <= 15 + 11, "{name}");
            }
        }
    }
}

/// The rate of a second, computed from a normal value.
type Noise = fn(f64) -> f64;

/// Distributions of independent seconds.
const NOISES: [(&str, Noise); 9] = [
    ("normal 5 %", |z| 1.0 + 0.05 * z),
    ("normal 10 %", |z| 1.0 + 0.10 * z),
    ("normal 20 %", |z| 1.0 + 0.20 * z),
    ("normal 25 %", |z| 1.0 + 0.25 * z),
    ("normal 30 %", |z| 1.0 + 0.30 * z),
    ("log-normal 20 %", |z| (0.20 * z).exp()),
    ("log-normal 30 %", |z| (0.30 * z).exp()),
    // One second in ten stalls.
    ("stalls to 80 %", |z| {
        if z > 1.2816 { 0.8 } else { 1.0 + 0.02 * z }
    }),
    ("stalls to 30 %", |z| {
        if z > 1.2816 { 0.3 } else { 1.0 + 0.05 * z }
    }),
];

#[test]
fn independent_seconds_of_a_short_trial_are_rarely_unsteady() {
    const TRIALS: usize = 2000;
    for (name, rate) in NOISES {
        for count in [6, 7, 8] {
            let unsteady = (0..TRIALS).filter(|trial| {
                let second = |second| 5e4 * rate(noise(trial * 1009 + second)).max(0.0);
                let rates: Vec<f64> = (0..count).map(second).collect();
                let course = behaviour(&series(&rates), Kind::Timed).course;
                matches!(course, Course::Drifting { .. } | Course::Regimes)
            });
            let percent = unsteady.count() as f64 * 100.0 / TRIALS as f64;
            assert!(percent <= 5.0, "{name}, {count} s: {percent:.1} %");
        }
    }
}

#[test]
fn the_range_of_a_steady_series_is_that_of_its_seconds() {
    let found = behaviour(
        &series(&[100.0, 95.0, 105.0, 100.0, 100.0, 100.0]),
        Kind::Timed,
    );
    let Course::Steady { range_percent, .. } = found.course else {
        panic!("{found:?}");
    };
    assert!((range_percent - 10.0).abs() < 1e-9);
    let [only] = found.regimes.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (only.start_ns, only.end_ns, only.rate),
        (0, 6_000_000_000, 100.0)
    );
    assert!((only.deviation - 10f64.sqrt()).abs() < 1e-9, "{only:?}");
}

#[test]
fn a_warm_up_is_omitted_and_a_burst_is_part_of_finite_work() {
    let two = |second| if second < 2 { 60_000.0 } else { 100_000.0 };
    check(
        "two slow seconds of 20",
        &noisy(20, 0.02, two),
        "steady from 2",
        "steady from 2",
    );
    let approach = |second: usize| 1000.0 * (1.0 - 0.6 * (-(second as f64) / 2.0).exp());
    let found = behaviour(&series(&noisy(60, 0.01, approach)), Kind::Timed);
    let Course::Steady {
        from_ns,
        range_percent,
    } = found.course
    else {
        panic!("{found:?}");
    };
    assert!(
        (3_000_000_000..=12_000_000_000).contains(&from_ns),
        "{found:?}"
    );
    assert!(range_percent < 15.0, "{found:?}");
    assert_eq!(found.regimes.len(), 1);
    assert_eq!(found.regimes[0].start_ns, from_ns);
    // A fast beginning is a warm-up as well: a cache that fills.
    let fast = |second| if second < 12 { 3000.0 } else { 1000.0 };
    check(
        "a burst at first",
        &noisy(60, 0.03, fast),
        "steady from 12",
        "2 regimes",
    );
}

#[test]
fn a_change_after_the_warm_up_is_a_change() {
    let late = |second| if second < 30 { 1000.0 } else { 500.0 };
    check("half way", &noisy(60, 0.03, late), "2 regimes", "2 regimes");
    let dip = |second| {
        if (20..31).contains(&second) {
            600.0
        } else {
            1000.0
        }
    };
    check("a dip", &noisy(60, 0.03, dip), "3 regimes", "3 regimes");
    let found = behaviour(&series(&noisy(60, 0.03, dip)), Kind::Timed);
    let borders: Vec<u64> = found
        .regimes
        .iter()
        .map(|r| r.end_ns / 1_000_000_000)
        .collect();
    assert_eq!(borders, [20, 31, 60]);
    // Within SNIA's limits it is still steady, but it is part of the completion time.
    let shallow = |second| if second < 30 { 1000.0 } else { 940.0 };
    check(
        "six percent less",
        &noisy(60, 0.01, shallow),
        "steady from 0",
        "2 regimes",
    );
}

#[test]
fn a_slow_change_is_a_drift_and_not_regimes() {
    for count in [10, 30, 60, 300] {
        let name = format!("{count} s");
        let rise = |second: usize| 1000.0 * (1.0 + 0.3 * second as f64 / count as f64);
        check(&name, &noisy(count, 0.02, rise), "rising", "rising");
        let fall = |second: usize| 1000.0 * (1.0 - 0.3 * second as f64 / count as f64);
        check(&name, &noisy(count, 0.02, fall), "falling", "falling");
        let little = |second: usize| 1000.0 * (1.0 + 0.04 * second as f64 / count as f64);
        check(
            &name,
            &noisy(count, 0.01, little),
            "steady from 0",
            "steady from 0",
        );
    }
    let found = behaviour(
        &series(&noisy(60, 0.0, |s| 1000.0 + 2.0 * s as f64)),
        Kind::Timed,
    );
    let Course::Drifting { rise_percent, .. } = found.course else {
        panic!("{found:?}");
    };
    assert!((rise_percent - 118.0 / 1059.0 * 100.0).abs() < 1e-6);
}

#[test]
fn alternating_rates_are_not_steady() {
    let turns = |second: usize| [1000.0, 3000.0][second % 2];
    check(
        "second by second",
        &noisy(20, 0.0, turns),
        "swinging",
        "swinging",
    );
    let little = |second: usize| [1000.0, 1100.0][second % 2];
    check(
        "a little",
        &noisy(20, 0.0, little),
        "steady from 0",
        "steady from 0",
    );
}

#[test]
fn a_short_series_is_reported_as_too_short() {
    check("nothing", &[], "unknown", "unknown");
    check("zeros", &[0.0; 30], "unknown", "unknown");
    check("one", &[1000.0], "too short: 1", "too short: 1");
    check(
        "three",
        &[1000.0, 1010.0, 990.0],
        "too short: 3",
        "too short: 3",
    );
    check(
        "no numbers",
        &[f64::NAN, f64::INFINITY],
        "unknown",
        "unknown",
    );
    // A jump within three seconds of a timed trial can be its warm-up.
    check(
        "a jump",
        &[1000.0, 9000.0, 9000.0],
        "too short: 3",
        "2 regimes",
    );
    let one = behaviour(&series(&[1000.0, 1010.0, 990.0]), Kind::Timed);
    assert_eq!(one.regimes.len(), 1);
    assert_eq!(one.autocorrelation_time, None);
    assert!(one.regimes[0].rate == 1000.0);
}

#[test]
fn zeros_at_an_end_are_a_separate_regime() {
    let dead = |second| if second < 30 { 1000.0 } else { 0.0 };
    check(
        "the second half",
        &noisy(60, 0.02, dead),
        "2 regimes",
        "2 regimes",
    );
}

/// Seconds, and the end with its length and rate, from the printed totals.
fn deletes(rates: &[f64], seconds: f64, total: f64) -> Behaviour {
    let done: f64 = rates.iter().sum();
    let rest = seconds - rates.len() as f64;
    let end = (rest > 0.01).then(|| (rest, (total - done) / rest));
    behaviour(&with_end(rates, end), Kind::Finite)
}

#[test]
fn ext4_deletes_first_slowly_and_then_fast() {
    // delete_100k_2MB and delete_200k_2MB, three runs each: the rates printed second by second, the
    // elapsed time (total ÷ cumulative rate) and the number of files.
    let runs: [(&[f64], f64, f64); 6] = [
        (&[3934.9, 11192.7, 65339.3], 30400.5, 1e5),
        (&[3965.5, 13960.3, 64925.6], 30839.7, 1e5),
        (&[3855.4, 10006.7, 64538.3], 30263.3, 1e5),
        (&[3788.6, 9670.8, 60005.0, 63186.7], 40421.6, 2e5),
        (&[3772.5, 9953.2, 57822.6, 62177.3, 65554.6], 39851.7, 2e5),
        (&[3721.2, 3300.7, 52281.3, 63075.3, 65038.9], 38511.9, 2e5),
    ];
    for (rates, cumulative, total) in runs {
        let found = deletes(rates, total / cumulative, total);
        let [slow, fast] = found.regimes.as_slice() else {
            panic!("{rates:?}: {found:#?}");
        };
        assert_eq!(found.course, Course::Regimes);
        // 0.25 ms, then about 15 µs per unlink.
        assert!(
            (250e-6..290e-6).contains(&(1.0 / slow.rate)),
            "{rates:?}: {slow:?}"
        );
        assert!(
            (14e-6..17.5e-6).contains(&(1.0 / fast.rate)),
            "{rates:?}: {fast:?}"
        );
        let changed = slow.end_ns as f64 / 1e9;
        assert!((1.8..2.3).contains(&changed), "{rates:?}: {changed}");
        // The regimes and the second between them contain all of the work.
        let done: f64 = found
            .regimes
            .iter()
            .map(|regime| regime.rate * (regime.end_ns - regime.start_ns) as f64 / 1e9)
            .sum();
        assert!((done / total - 1.0).abs() < 0.05, "{rates:?}: {done}");
    }
}

#[test]
fn short_work_without_a_jump_is_only_short() {
    // delete_10k_2MB on ext4 and on zfs: it ends before any level is visible.
    let short = |rates: &[f64], cumulative: f64| word(&deletes(rates, 1e4 / cumulative, 1e4));
    assert_eq!(short(&[4082.4], 5657.3), "too short: 2");
    assert_eq!(short(&[3677.1, 6060.8], 4988.0), "too short: 2");
    assert_eq!(short(&[4870.2, 2083.0, 1926.7], 2770.2), "too short: 4");
    // Few ops per second: one stalled op determines a second.
    assert_eq!(
        word(&deletes(&[1676.0, 278.0], 3.0, 2000.0)),
        "too short: 3"
    );
    // A slow first second does not explain ten minutes.
    let slow_start = |second| if second == 0 { 1000.0 } else { 5000.0 };
    let found = behaviour(&series(&noisy(600, 0.02, slow_start)), Kind::Finite);
    assert_eq!(word(&found), "steady from 1");
}

#[test]
fn zfs_dips_for_eleven_seconds() {
    let found = deletes(&ZFS_DELETES, 1e5 / 1814.5, 1e5);
    let [before, dip, after] = found.regimes.as_slice() else {
        panic!("{found:#?}");
    };
    assert_eq!((dip.start_ns, dip.end_ns), (20_000_000_000, 31_000_000_000));
    assert!((1610.0..1650.0).contains(&dip.rate), "{dip:?}");
    assert!((1840.0..1890.0).contains(&before.rate), "{before:?}");
    assert!((1830.0..1860.0).contains(&after.rate), "{after:?}");
    assert!((after.end_ns as f64 / 1e9 - 55.11).abs() < 0.01);
}

#[test]
fn a_short_last_second_counts_only_as_work() {
    let end = Some((0.2, 10.0));
    let rates = [1000.0; 10];
    let timed = behaviour(&with_end(&rates, end), Kind::Timed);
    assert_eq!(timed.regimes[0].rate, 1000.0);
    let Course::Steady { range_percent, .. } = timed.course else {
        panic!("{timed:?}");
    };
    assert_eq!(range_percent, 0.0);
    let finite = behaviour(&with_end(&rates, end), Kind::Finite);
    assert!((finite.regimes[0].rate - 10_002.0 / 10.2).abs() < 1e-9);
}

#[test]
fn times_are_on_the_trials_clock() {
    let mut points = series(&noisy(
        20,
        0.02,
        |second| if second < 2 { 600.0 } else { 1000.0 },
    ));
    points
        .iter_mut()
        .for_each(|point| point.start_ns += 7_000_000_000);
    let found = behaviour(&points, Kind::Timed);
    assert_eq!(word(&found), "steady from 9");
    assert_eq!(found.regimes[0].end_ns, 27_000_000_000);
}

#[test]
fn correlated_seconds_are_reported() {
    let independent = behaviour(&series(&noisy(600, 0.05, |_| 1000.0)), Kind::Timed);
    let time = independent.autocorrelation_time.unwrap();
    assert!((0.5..1.6).contains(&time), "{time}");
    // A first-order process with ρ = 0.9: τ = (1 + ρ) ÷ (1 − ρ) = 19.
    let mut state = 0.0;
    let rates: Vec<f64> = (0..6000)
        .map(|second| {
            state = 0.9 * state + noise(second);
            1000.0 + 10.0 * state
        })
        .collect();
    let time = behaviour(&series(&rates), Kind::Timed).autocorrelation_time;
    assert!((12.0..28.0).contains(&time.unwrap()), "{time:?}");
}

#[test]
fn the_largest_instants_do_not_overflow() {
    // Eight seconds before a jump, one that contains it, and eight after it.
    let rates = [[90e3; 8].as_slice(), &[50e3], &[10e3; 8]].concat();
    let mut points = series(&rates);
    points
        .iter_mut()
        .for_each(|point| point.start_ns = u64::MAX);
    let found = behaviour(&points, Kind::Finite);
    assert_eq!(found.regimes.len(), 2);
    assert!(found.regimes.iter().all(|regime| regime.end_ns == u64::MAX));
}

#[test]
fn hours_are_judged_in_the_same_way_as_minutes() {
    // `make bench` measures the cost of ten hours.
    let waves = |second: usize| 1000.0 + 200.0 * (second as f64 / 750.0).sin();
    for (expected, level) in [
        ("swinging", &waves as &dyn Fn(usize) -> f64),
        ("steady from 0", &|_| 1000.0),
        ("rising", &|second| second as f64),
    ] {
        let points = series(&noisy(9000, 0.05, level));
        let found = behaviour(&points, Kind::Timed);
        assert_eq!(word(&found), expected);
    }
}
