//! Prints how long the statistics take on a million numbers: `cargo run --release --example speed`.
#![allow(clippy::print_stdout, reason = "this is a program to look at")]

use std::time::Instant;

use iodyno_stats::{
    ChangePointOptions, QuantileKind, Sample, StatsError, SteadyCriteria, autocorrelation_time,
    change_points, cliffs_delta, first_steady_window, hodges_lehmann, hodges_lehmann_shift,
    mann_whitney, mser, signed_rank, trimmed_mean,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const MILLION: usize = 1_000_000;

fn timed<T>(what: &str, work: impl FnOnce() -> Result<T, StatsError>) -> Result<T, StatsError> {
    let start = Instant::now();
    let result = work();
    println!("{what:<44} {:>9.1} ms", start.elapsed().as_secs_f64() * 1e3);
    result
}

fn main() -> Result<(), StatsError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut sample = |count: usize| -> Vec<f64> {
        (0..count)
            .map(|_| random.random::<f64>() + random.random::<f64>())
            .collect()
    };
    let (a, b, c) = (sample(MILLION / 2), sample(MILLION / 2), sample(MILLION));
    let differences: Vec<f64> = c.iter().map(|v| v - 1.0).collect();
    let sorted = timed("sort and check 1 M", || Sample::new(&c))?;
    timed("median with interval", || sorted.median_interval(0.95))?;
    timed("quantile", || sorted.quantile(0.999, QuantileKind::Linear))?;
    timed("mean without outliers, 1 M", || trimmed_mean(&c))?;
    timed("signed rank, 1 M", || signed_rank(&differences))?;
    timed("Hodges-Lehmann with interval, 1 M", || {
        hodges_lehmann(&differences, 0.95)
    })?;
    timed("Mann-Whitney, 2 x 500 k", || mann_whitney(&a, &b))?;
    timed("shift with interval, 2 x 500 k", || {
        hodges_lehmann_shift(&a, &b, 0.95)
    })?;
    timed("Cliff's delta, 2 x 500 k", || cliffs_delta(&a, &b))?;
    timed("MSER-5, 1 M", || mser(&c))?;
    timed("steady window, 1 M", || {
        first_steady_window(&c, &SteadyCriteria::default())
    })?;
    timed("autocorrelation, 1 M independent", || {
        autocorrelation_time(&c)
    })?;
    let trend: Vec<f64> = (0..MILLION).map(|i| i as f64).collect();
    timed("autocorrelation, 1 M of a trend", || {
        autocorrelation_time(&trend)
    })?;
    timed("autocorrelation, 36 000 of a trend", || {
        autocorrelation_time(&trend[..36_000])
    })?;
    timed("exact U, 2 x 50", || mann_whitney(&a[..50], &b[..50]))?;
    timed("exact signed rank, 200", || {
        signed_rank(&differences[..200])
    })?;
    let options = ChangePointOptions::default();
    timed("change points, 36 000 without any", || {
        change_points(&c[..36_000], &options)
    })?;
    let steps: Vec<f64> = (0..36_000).map(|i| c[i] + (i / 300 % 7) as f64).collect();
    let found = timed("change points, 36 000 with 119", || {
        change_points(&steps, &options)
    })?;
    println!("  found {}", found.changes.len());
    timed("change points, 36 000 of a trend", || {
        change_points(&trend[..36_000], &options)
    })?;
    Ok(())
}
