use iodyno_model::Bound;
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

/// Highest rate of the queue, per second.
const SERVED: f64 = 10_000.0;
/// The bound of the 99th percentile, ns.
const LIMIT: f64 = 2e6;

/// The rate at which the 99th percentile of the response time of M/M/1, ln 100 ÷ (μ − λ), is the limit.
fn truth() -> f64 {
    SERVED - 100f64.ln() / (LIMIT / 1e9)
}

fn search(axis: SearchAxis) -> Search {
    Search {
        axis,
        until: Bound::parse("p99 < 2ms").unwrap(),
    }
}

/// A trial of M/M/1 with Poisson arrivals; without a requested rate, a closed loop of 16.
fn queue(load: f64, noise: f64) -> Probe {
    let rate = match load == 0.0 {
        true => SERVED,
        false => load.min(SERVED),
    };
    let response = match load {
        0.0 => 16.0 / SERVED,
        load if load < SERVED => 1.0 / (SERVED - load),
        _ => 10.0,
    };
    let mean = response * 1e9 * noise.exp();
    let value = mean * 100f64.ln();
    let sustained = load == 0.0 || rate >= SUSTAINED * load;
    Probe {
        load,
        attained: rate,
        value: Some(value),
        latency_ns: Some(mean),
        keeps: Some(sustained && value <= LIMIT),
    }
}

/// Runs a search to its answer.
fn run(axis: SearchAxis, mut trial: impl FnMut(f64) -> Probe) -> SearchAnswer {
    let search = search(axis);
    let mut probes = Vec::new();
    loop {
        let answer = search_answer(("c", "w"), &search, &probes);
        if answer.complete || probes.len() >= 80 {
            return answer;
        }
        probes.push(trial(next_load(&search, &probes)));
    }
}

#[test]
fn finds_the_highest_rate_that_keeps_a_bound_and_the_knee_of_a_queue() {
    let answer = run(SearchAxis::Rate, |load| queue(load, 0.0));
    let highest = answer.highest.unwrap();
    assert!((highest.value / truth() - 1.0).abs() < 0.02, "{highest:?}");
    let (low, high) = highest.interval.unwrap();
    assert!(low <= truth() && truth() <= high && high - low <= RESOLUTION * high);
    // ρ(1 − ρ) is largest at one half.
    let knee = answer.knee.unwrap();
    assert!((knee.value / (SERVED / 2.0) - 1.0).abs() < 1e-9, "{knee:?}");
    assert_eq!((answer.trials, answer.complete), (19, true));
    assert!(answer.notes.is_empty(), "{:?}", answer.notes);
}

/// 2 % noise of each trial's percentile.
#[test]
fn the_interval_contains_the_truth_in_9_of_10_searches() {
    const TIMES: u64 = 400;
    let (mut covered, mut trials, mut near) = (0, 0, 0);
    for seed in 0..TIMES {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let law = Normal::<f64>::new(0.0, 0.02).unwrap();
        let answer = run(SearchAxis::Rate, |load| {
            queue(load, law.sample(&mut random))
        });
        assert!(answer.complete, "{answer:?}");
        let highest = answer.highest.unwrap();
        let (low, high) = highest.interval.unwrap();
        covered += u64::from(low <= truth() && truth() <= high);
        trials += u64::from(answer.trials);
        let knee = answer.knee.unwrap();
        let (low, high) = knee.interval.unwrap();
        near += u64::from(low <= SERVED / 2.0 && SERVED / 2.0 <= high);
    }
    let share = |count: u64| count as f64 / TIMES as f64;
    assert!(share(covered) >= 0.9, "{}", share(covered));
    assert!(share(near) >= 0.9, "{}", share(near));
    assert!(share(trials) <= 26.0, "{}", share(trials));
}

#[test]
fn a_rate_that_is_not_sustained_loses_the_bound() {
    // A device of constant time: no queue below its rate.
    let device = |load: f64| Probe {
        attained: if load == 0.0 {
            SERVED
        } else {
            load.min(SERVED)
        },
        value: Some(1e5),
        latency_ns: Some(1e5),
        keeps: Some(load == 0.0 || load.min(SERVED) >= SUSTAINED * load),
        load,
    };
    let answer = run(SearchAxis::Rate, device);
    let highest = answer.highest.unwrap();
    assert!(
        (highest.value * SUSTAINED / SERVED - 1.0).abs() < 0.03,
        "{highest:?}"
    );
    assert_eq!(
        answer.notes,
        ["above it, the requested rate is not sustained"]
    );
}

/// A closed loop on a device with 8 channels: each op takes 0.1 ms times the rounds of its queue.
fn channels(depth: f64) -> Probe {
    let response = 1e5 * (depth / 8.0).max(1.0);
    Probe {
        load: depth,
        attained: depth / response * 1e9,
        value: Some(response),
        latency_ns: Some(response),
        keeps: Some(response <= LIMIT),
    }
}

#[test]
fn finds_the_largest_depth_that_keeps_a_bound() {
    let answer = run(SearchAxis::Depth, channels);
    let highest = answer.highest.unwrap();
    // 2 ms are 20 rounds of 8 channels.
    assert_eq!(highest.value, 160.0 - 160.0 % 1.0);
    let (low, high) = highest.interval.unwrap();
    assert!(
        low <= 160.0 && 160.0 < high && high - low <= 8.0,
        "{highest:?}"
    );
    let knee = answer.knee.unwrap();
    assert_eq!(knee.interval, Some((4.0, 16.0)));
    assert!((6.0..=11.0).contains(&knee.value), "{knee:?}");
}

#[test]
fn a_bound_that_is_never_or_always_kept_is_said() {
    let never = |load| Probe {
        keeps: Some(false),
        ..channels(load)
    };
    let answer = run(SearchAxis::Clones, never);
    assert_eq!(answer.highest, None);
    assert_eq!(answer.notes, ["no load that was tried keeps the bound"]);
    let always = |load| Probe {
        keeps: Some(true),
        ..channels(load)
    };
    let answer = run(SearchAxis::Clones, always);
    assert_eq!(answer.highest.unwrap().value, Search::LARGEST);
    assert_eq!(answer.notes, ["every load that was tried keeps the bound"]);
}

#[test]
fn a_metric_that_trials_lack_ends_the_search() {
    let lacking = |load| Probe {
        value: None,
        keeps: None,
        ..queue(load, 0.0)
    };
    let answer = run(SearchAxis::Rate, lacking);
    assert!(answer.complete && answer.highest.is_none() && answer.trials < 10);
    assert!(
        answer
            .notes
            .iter()
            .any(|note| note.contains("trials without p99, which needs 1000 ops in a trial"))
    );
}

#[test]
fn a_search_does_not_go_to_rates_at_which_its_metric_cannot_be_measured() {
    // Trials of half a second have 1000 ops from 2000 per second on, and no rate keeps the bound there.
    let short = |load: f64| Probe {
        keeps: match load == 0.0 || load >= 2000.0 {
            true => Some(false),
            false => None,
        },
        ..queue(load, 0.0)
    };
    let answer = run(SearchAxis::Rate, short);
    assert!(answer.complete && answer.highest.is_none());
    let lowest = answer.curve.iter().map(|point| point.load);
    let lowest = lowest.filter(|load| *load > 0.0).fold(f64::MAX, f64::min);
    let first = iodyno_model::Search::MAX_TRIALS;
    assert!(
        lowest > 20.0 && answer.trials < first,
        "{lowest}: {answer:?}"
    );
}

#[test]
fn the_next_load_follows_from_the_trials_alone() {
    let search = search(SearchAxis::Rate);
    let mut probes = Vec::new();
    for _ in 0..30 {
        let next = next_load(&search, &probes);
        assert_eq!(next, next_load(&search, &probes.clone()));
        probes.push(queue(next, 0.0));
    }
    // After the answer both ends are repeated.
    let answer = search_answer(("c", "w"), &search, &probes);
    let (low, high) = answer.highest.unwrap().interval.unwrap();
    let count = |load| at(&probes, load).count();
    assert!(
        count(low) >= 9 && count(high) >= 9,
        "{} {}",
        count(low),
        count(high)
    );
}
