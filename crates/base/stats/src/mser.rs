//! MSER: estimates the length of the warm-up at the start of a series.

use crate::{StatsError, block_means};

/// Number of values in a block of MSER-5.
const BLOCK: usize = 5;

/// Tails of fewer blocks are not considered: their values can be close together by chance.
const SHORTEST: f64 = 5.0;

/// The result of MSER-5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mser {
    /// Number of values to omit at the start: a multiple of five.
    pub warm_up: usize,
    /// The minimum of Σ(y−ȳ)²/(k−d)²: the squared standard error of the mean of the remaining values.
    pub statistic: f64,
    /// Whether the minimum lies within the first half. Otherwise the series is too short: it may never have
    /// become steady, and `warm_up` is only the best of the first half.
    pub settled: bool,
}

/// MSER-5: on the means of blocks of five, the d that minimises Σ(y−ȳ)²/(k−d)² over the remaining blocks.
///
/// A minimum in the second half is reported as not settled. The last four blocks are ignored, because the statistic
/// can be small there by chance (Hoad, Robinson & Davies, JORS 61(9), 2010). Needs ten values. Source: White,
/// Simulation 69(6), 1997; White, Cobb & Spratt, WSC 2000.
pub fn mser(series: &[f64]) -> Result<Mser, StatsError> {
    if series.len() < 2 * BLOCK {
        return Err(StatsError::TooFew {
            needed: 2 * BLOCK,
            got: series.len(),
        });
    }
    let blocks = block_means(series, BLOCK)?;
    let half = blocks.len() / 2;
    let (mut mean, mut squares) = (0.0, 0.0);
    let mut best_anywhere = (f64::INFINITY, 0);
    let mut best_in_half = (f64::INFINITY, 0);
    // From the end, so that mean and squares of each tail follow from the next shorter one (Welford).
    for (start, &block) in blocks.iter().enumerate().rev() {
        let kept = (blocks.len() - start) as f64;
        let distance = block - mean;
        mean += distance / kept;
        squares += distance * (block - mean);
        let statistic = squares / (kept * kept);
        if kept >= SHORTEST && statistic <= best_anywhere.0 {
            best_anywhere = (statistic, start);
        }
        if start <= half && kept >= 2.0 && statistic <= best_in_half.0 {
            best_in_half = (statistic, start);
        }
    }
    if !best_in_half.0.is_finite() {
        return Err(StatsError::Overflow);
    }
    Ok(Mser {
        warm_up: best_in_half.1 * BLOCK,
        statistic: best_in_half.0,
        settled: best_in_half.0 <= best_anywhere.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omits_only_the_warm_up() {
        let mut series = vec![50.0, 40.0, 30.0, 20.0, 15.0, 12.0, 11.0, 11.0, 11.0, 11.0];
        series.extend((0..90).map(|i| if i % 2 == 0 { 10.0 } else { 10.2 }));
        let found = mser(&series).unwrap();
        assert_eq!((found.warm_up, found.settled), (10, true));
        assert_eq!(mser(&series[10..]).unwrap().warm_up, 0);
        assert_eq!(mser(&[7.0; 40]).unwrap().warm_up, 0);
    }

    #[test]
    fn agrees_with_the_definition_computed_directly() {
        let series: Vec<f64> = (0..203)
            .map(|i| 100.0 / (1.0 + i as f64) + (i * i % 17) as f64)
            .collect();
        let blocks = block_means(&series, 5).unwrap();
        let direct = (0..=blocks.len() / 2)
            .map(|d| {
                let kept = (blocks.len() - d) as f64;
                (
                    crate::sample::squared_deviations(&blocks[d..]) / (kept * kept),
                    d * 5,
                )
            })
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap();
        let found = mser(&series).unwrap();
        assert_eq!(found.warm_up, direct.1);
        assert!((found.statistic / direct.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn reports_a_series_that_does_not_settle() {
        let series: Vec<f64> = (0..200).map(|i| (i as f64).powi(3)).collect();
        let falling: Vec<f64> = series.iter().rev().copied().collect();
        assert!(!mser(&falling).unwrap().settled);
        assert_eq!(
            mser(&[1.0; 9]),
            Err(StatsError::TooFew { needed: 10, got: 9 })
        );
        assert_eq!(
            mser(&[f64::NAN; 10]),
            Err(StatsError::NotFinite { index: 0 })
        );
    }
}
