//! Mean, median and spread of a series.

/// Sample standard deviation; 0 for a single value.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let freedom = values.len().saturating_sub(1).max(1) as f64;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / freedom).sqrt()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Median, and a deviation estimated from the median distance to it; both are robust to outliers.
pub(super) fn middle(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    let middle = median(&mut values);
    values
        .iter_mut()
        .for_each(|value| *value = (*value - middle).abs());
    // Factor for a normal distribution.
    (middle, 1.4826 * median(&mut values))
}

/// Returns 0 for no values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match (values.len(), values.len() % 2) {
        (0, _) => 0.0,
        (_, 0) => (values[half - 1] + values[half]) / 2.0,
        _ => values[half],
    }
}
