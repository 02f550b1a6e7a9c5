//! Measures the cost of judging: the behaviour of ten hours of seconds, and comparisons of many trials, each with
//! full and with a quarter of the input. `make bench` prints it. Fails if the cost grows much faster than the input.
#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use iodyno_judge::testing::observations::{each, fact, rounds};
use iodyno_judge::{behaviour, compare};
use iodyno_model::{FactClass, Kind, Observation, Point, Question};
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Ratio of the larger input to the smaller one.
const TIMES: usize = 4;

fn main() -> ExitCode {
    println!(
        "{:44} {:>10} {:>10} {:>7} {:>7}",
        "ms", "a quarter", "whole", "ratio", "at most"
    );
    let waves = |second: usize| 1000.0 + 200.0 * (second as f64 / 3000.0).sin();
    let fits = [
        // Each change is searched in all seconds between two others, and longer series have more changes: less than
        // quadratic.
        shown("behaviour of ten hours of waves", 36_000, 16.0, &|count| {
            series(count, &waves)
        }),
        shown("behaviour of ten steady hours", 36_000, 8.0, &|count| {
            series(count, &|_| 1000.0)
        }),
        shown("behaviour of ten hours of drift", 36_000, 16.0, &|count| {
            series(count, &|second| second as f64)
        }),
        shown(
            "60 rows of 1000 rounds with facts, paired",
            1000,
            8.0,
            &|count| paired(count),
        ),
        // Exact p-values for n trials per side take n³ steps.
        shown(
            "60 rows of 48 trials a side, not paired",
            48,
            128.0,
            &|count| unpaired(count),
        ),
    ];
    match fits.iter().all(|fits| *fits) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Times a step with a quarter of its input and with all of it; returns whether the ratio is at most `most`.
fn shown(name: &str, count: usize, most: f64, prepare: &dyn Fn(usize) -> Box<dyn Fn()>) -> bool {
    let timed = |count| {
        let step = prepare(count);
        let begun = Instant::now();
        step();
        begun.elapsed().as_secs_f64() * 1e3
    };
    let (quarter, whole) = (timed(count / TIMES), timed(count));
    let ratio = whole / quarter;
    println!("{name:44} {quarter:10.1} {whole:10.1} {ratio:7.2} {most:7.0}");
    ratio <= most
}

fn series(count: usize, level: &dyn Fn(usize) -> f64) -> Box<dyn Fn()> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let noise = Normal::new(1.0, 0.05).expect("a law");
    let points: Vec<Point> = (0..count)
        .map(|second| Point {
            start_ns: second as u64 * 1_000_000_000,
            span_ns: 1_000_000_000,
            iops: level(second) * noise.sample(&mut random),
            bytes_per_s: 0.0,
        })
        .collect();
    Box::new(move || {
        black_box(behaviour(&points, Kind::Timed));
    })
}

fn paired(count: usize) -> Box<dyn Fn()> {
    let value = |round: usize| 1.0 + (round * 7919 % 1000) as f64 / 1e5;
    compared(&move |name, row, factor| {
        let values: Vec<f64> = (0..count).map(|round| factor * value(round)).collect();
        each(rounds(name, row, &values), |trial| {
            for number in 0..20 {
                let name = format!("fact {number}");
                trial
                    .facts
                    .push(fact(FactClass::Target, &name, "its value"));
            }
        })
    })
}

fn unpaired(count: usize) -> Box<dyn Fn()> {
    compared(&move |name, row, factor| {
        let value = |trial: usize| factor * (1000.0 + (trial * 7919 % 100) as f64);
        let values: Vec<f64> = (0..count).map(value).collect();
        each(rounds(name, row, &values), |trial| trial.round = None)
    })
}

/// A comparison of two configurations with sixty rows each.
fn compared(trials: &dyn Fn(&str, &str, f64) -> Vec<Observation>) -> Box<dyn Fn()> {
    let mut all = Vec::new();
    for row in 0..60 {
        let row = format!("row {row}");
        all.extend(trials("a", &row, 1.0));
        all.extend(trials("b", &row, 1.01));
    }
    Box::new(move || {
        let comparison = compare("made up", &all, &Question::default(), &[]);
        assert_eq!(comparison.expect("a comparison").rows.len(), 60);
    })
}
