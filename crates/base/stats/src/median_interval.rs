//! The distribution-free interval of the median, between two order statistics.

use crate::distributions::{choose, normal_cdf, normal_quantile};
use crate::error::check_open_unit;
use crate::{Interval, Method, Sample, StatsError};

/// Above this size the binomial distribution is replaced by the normal one, as benchstat does.
const EXACT_LIMIT: usize = 30;

/// Sizes at which two equally likely counts k and n − k differ in benchmath's last digit, in favour of the upper:
/// size, then the k. Both choices have the same coverage; this one gives the same intervals as benchmath.
const UPPER_FIRST: [(usize, &[usize]); 10] = [
    (21, &[2, 4, 7]),
    (22, &[2, 4, 7, 10]),
    (23, &[2, 4, 7]),
    (24, &[2, 4, 7, 11]),
    (25, &[2, 4, 7, 10]),
    (26, &[2, 4, 7, 10]),
    (27, &[2, 4, 7, 10, 11, 13]),
    (28, &[2, 4, 7, 10, 12, 13]),
    (29, &[2, 4, 5, 6, 7, 10, 13]),
    (30, &[2, 4, 5, 6, 7, 8, 10, 13, 14]),
];

/// The median of a sample with its order-statistic interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// The sample's median.
    pub median: f64,
    /// The interval; `None` if even the whole range of the sample does not reach the level.
    pub interval: Option<Interval>,
    /// The order statistics at its ends, counted from 1; 0 and n+1 mean an end at infinity.
    pub orders: (usize, usize),
}

impl Sample {
    /// The median and the interval between two order statistics that covers the median of the population with at
    /// least the given level, for any distribution.
    ///
    /// The number of values below the population's median is binomial(n, ½). The interval takes the likeliest counts
    /// until the level is reached; of two equally likely ones it takes the lower first (except for a few sizes above
    /// 20, see `UPPER_FIRST`), so an asymmetric interval extends further down. Exact up to 30 values, above by the
    /// normal approximation with continuity correction. Ends and confidence agree with golang.org/x/perf/benchmath.
    /// Source: Conover, "Practical Nonparametric Statistics", 3rd ed., 3.2.
    pub fn median_interval(&self, level: f64) -> Result<MedianInterval, StatsError> {
        check_open_unit("level", level)?;
        let count = self.count();
        let (low, high, confidence, method) = if count <= EXACT_LIMIT {
            exact_orders(count, level)
        } else {
            approximate_orders(count, level)?
        };
        let interval = (low >= 1 && high <= count).then(|| Interval {
            low: self.sorted()[low - 1],
            high: self.sorted()[high - 1],
            confidence,
            method,
        });
        Ok(MedianInterval {
            median: self.median(),
            interval,
            orders: (low, high),
        })
    }
}

fn exact_orders(count: usize, level: f64) -> (usize, usize, f64, Method) {
    let chance = |below: usize| choose(count, below) * 0.5f64.powi(count as i32);
    // [low, high) are the selected numbers of smaller values.
    let mut low = count.div_ceil(2);
    if count % 2 == 1 {
        low -= 1; // two equal modes: the lower first
    }
    let mut high = low + 1;
    let mut covered = chance(low);
    while covered < level && (low > 0 || high <= count) {
        let left = if low > 0 { chance(low - 1) } else { 0.0 };
        let right = if high <= count { chance(high) } else { 0.0 };
        let upper_first = left == right && low > 0 && prefers_upper(count, low - 1);
        if left >= right && !upper_first {
            covered += left;
            low -= 1;
        } else {
            covered += right;
            high += 1;
        }
    }
    (low, high, covered.min(1.0), Method::Exact)
}

fn prefers_upper(count: usize, below: usize) -> bool {
    let mut sizes = UPPER_FIRST.iter();
    sizes.any(|(size, counts)| *size == count && counts.contains(&below))
}

fn approximate_orders(count: usize, level: f64) -> Result<(usize, usize, f64, Method), StatsError> {
    let middle = count as f64 / 2.0;
    let deviation = (count as f64).sqrt() / 2.0;
    let left_end = middle + deviation * normal_quantile((1.0 - level) / 2.0)?;
    let right_end = 2.0 * middle - left_end;
    // Round outward to the borders k − ½ between counts, as the continuity correction requires.
    let low = (left_end - 0.5).floor() + 1.0;
    let high = (right_end - 0.5).ceil() + 1.0;
    let covered = |low: f64, high: f64| {
        normal_cdf((high - 0.5 - middle) / deviation) - normal_cdf((low - 0.5 - middle) / deviation)
    };
    let symmetric = covered(low, high);
    let leaning = covered(low, high - 1.0);
    let (high, confidence) = if leaning >= level && leaning < symmetric {
        (high - 1.0, leaning)
    } else {
        (high, symmetric)
    };
    let everything = low <= 0.0 && high >= count as f64 + 1.0;
    let confidence = if everything { 1.0 } else { confidence };
    let high = (high as usize).min(count + 1);
    Ok((
        low.max(0.0) as usize,
        high,
        confidence,
        Method::NormalApproximation,
    ))
}
