//! Shared by the tests: tolerances and reproducible data.
#![allow(dead_code, reason = "each test program uses its own part of this")]

/// Ten similar times, and ten that are slightly longer.
pub(crate) const X: [f64; 10] = [24.1, 25.3, 23.8, 26.0, 24.9, 25.7, 23.5, 24.4, 26.3, 25.1];
pub(crate) const Y: [f64; 10] = [25.0, 26.1, 24.9, 27.2, 24.8, 26.9, 24.0, 25.6, 27.9, 25.2];

/// Hollander & Wolfe, table 3.1: Hamilton depression scores of nine patients before and after.
pub(crate) const BEFORE: [f64; 9] = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
#[allow(clippy::approx_constant, reason = "a score of 3.14, not π")]
pub(crate) const AFTER: [f64; 9] = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];

/// Hollander & Wolfe, table 4.1: permeability of membranes at term and in early pregnancy.
pub(crate) const AT_TERM: [f64; 10] = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
pub(crate) const EARLY: [f64; 5] = [1.15, 0.88, 0.90, 0.74, 1.21];

/// `((i*i*37 + i*11) % m) / 10` for i from 0: irregular, and the same in any language.
pub(crate) fn irregular(count: usize, modulus: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * i * 37 + i * 11) % modulus) as f64 / 10.0)
        .collect()
}

/// `((i*i*29 + i*7) % m) / 10 + shift` for i from 0.
pub(crate) fn irregular_shifted(count: usize, modulus: usize, shift: f64) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * i * 29 + i * 7) % modulus) as f64 / 10.0 + shift)
        .collect()
}

/// Fails unless `got` is within a relative `tolerance` of `want`.
#[track_caller]
pub(crate) fn close(got: f64, want: f64, tolerance: f64) {
    let scale = want.abs().max(f64::MIN_POSITIVE);
    assert!(
        (got - want).abs() <= tolerance * scale,
        "got {got}, want {want}"
    );
}
