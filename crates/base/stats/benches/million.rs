//! Measures the time of each function for 10⁶ numbers; `make bench` prints it.
#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::hint::black_box;
use std::time::Instant;

use iodyno_stats::{
    ChangePointOptions, Sample, autocorrelation_time, change_points, cliffs_delta, hodges_lehmann,
    hodges_lehmann_shift, mann_whitney, signed_rank,
};

const COUNT: usize = 1_000_000;

fn main() {
    let (one, other) = (noise(1), noise(2));
    let show = |name: &str, begun: Instant| {
        println!("{:32} {:7.1} ms", name, begun.elapsed().as_secs_f64() * 1e3);
    };
    let begun = Instant::now();
    black_box(Sample::new(&one).and_then(|sample| sample.median_interval(0.95))).ok();
    show("median and its interval", begun);
    let begun = Instant::now();
    black_box(signed_rank(&one)).ok();
    show("signed rank", begun);
    let begun = Instant::now();
    black_box(hodges_lehmann(&one, 0.95)).ok();
    show("Hodges-Lehmann, one sample", begun);
    let begun = Instant::now();
    black_box(mann_whitney(&one, &other)).ok();
    show("Mann-Whitney, two samples", begun);
    let begun = Instant::now();
    black_box(hodges_lehmann_shift(&one, &other, 0.95)).ok();
    show("Hodges-Lehmann, two samples", begun);
    let begun = Instant::now();
    black_box(cliffs_delta(&one, &other)).ok();
    show("Cliff's delta, two samples", begun);
    let begun = Instant::now();
    black_box(autocorrelation_time(&one)).ok();
    show("autocorrelation time", begun);
    let begun = Instant::now();
    black_box(change_points(&one, &ChangePointOptions::default())).ok();
    show("change points", begun);
}

/// Distinct numbers around zero, from a multiplicative congruential generator.
fn noise(seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..COUNT)
        .map(|_| uniform() + uniform() + uniform() - 1.49)
        .collect()
}
