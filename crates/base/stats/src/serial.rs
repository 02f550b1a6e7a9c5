//! A change of level or a drift in a series whose values are correlated with the ones before.
//!
//! A correlated series wanders, and its wandering looks like changes of level to a test for independent values. Here
//! the series is one of first order, yₜ − μₜ = ρ·(yₜ₋₁ − μₜ₋₁) + eₜ, and the likelihoods of three courses of μ are
//! compared, each with its own ρ: constant, with one step (Wang, "Accounting for autocorrelation in detecting mean
//! shifts in climate data series using the penalized maximal t or F test", Journal of Applied Meteorology and
//! Climatology 47, 2008; Tsay, "Outliers, level shifts, and variance changes in time series", Journal of Forecasting 7,
//! 1988), and a line. The p value is that of the larger gain among simulated series of a constant course (parametric
//! bootstrap; Davison & Hinkley, "Bootstrap Methods and their Application", 1997, 4.2), whose ρ is corrected for its
//! bias in short series (Marriott & Pope, Biometrika 41, 1954). Simulations end early if the p value will be large
//! (Besag & Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991).

use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::StatsError;
use crate::error::check_finite;
use crate::sample::mean;

/// The values of ρ that are tried.
const CORRELATIONS: [f64; 13] = [
    -0.3, -0.15, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.95,
];

/// The largest ρ of simulated series.
const MAX_CORRELATED: f64 = 0.95;

/// Number of simulated series, and of those with a larger gain at which simulation ends.
const SIMULATIONS: u32 = 999;
const ENOUGH: u32 = 20;

/// The minimum number of values on either side of a step.
const MIN_SIDE: usize = 2;

/// A shorter series has no p below 1: the courses have up to four parameters.
pub const MIN_FOR_CHANGE: usize = 8;

/// A residual sum of squares that is smaller, as a fraction of that of the series, is only rounding.
const ROUNDING: f64 = 1e-12;

/// The course that fits a series better than a constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The level changes before the value at this index.
    Step(usize),
    /// A line, with this rise over the series.
    Drift(f64),
}

/// The likeliest change of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SerialChange {
    /// The change.
    pub change: Change,
    /// The probability of so large a gain without a change, at least 0.001.
    pub p: f64,
}

/// The likeliest change of a series, with its p value. Step or drift: whichever fits better.
pub fn serial_change(series: &[f64], seed: u64) -> Result<SerialChange, StatsError> {
    check_finite(series, 1)?;
    let centre = mean(series);
    let centred: Vec<f64> = series.iter().map(|value| value - centre).collect();
    let fitted = Fitted::new(&centred);
    let change = match fitted.drift.0 >= fitted.step.0 {
        true => Change::Drift(fitted.drift.1),
        false => Change::Step(fitted.step.1),
    };
    let squares: f64 = centred.iter().map(|value| value * value).sum();
    let largest = series.iter().fold(0.0f64, |most, it| most.max(it.abs()));
    let constant = squares.sqrt() <= 1e-12 * largest;
    if series.len() < MIN_FOR_CHANGE || constant {
        return Ok(SerialChange { change, p: 1.0 });
    }
    let unbiased = without_bias(fitted.correlation, series.len());
    let correlation = unbiased.clamp(0.0, MAX_CORRELATED);
    let gain = fitted.gain();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut larger = 0;
    for simulated in 1..=SIMULATIONS {
        let other = Fitted::new(&simulate(series.len(), correlation, &mut random));
        larger += u32::from(other.gain() >= gain);
        if larger == ENOUGH {
            let p = f64::from(ENOUGH) / f64::from(simulated);
            return Ok(SerialChange { change, p });
        }
    }
    let p = f64::from(1 + larger) / f64::from(1 + SIMULATIONS);
    Ok(SerialChange { change, p })
}

/// The correlation of a value with the one before, corrected for its bias; of a series that is constant or has fewer
/// than three values, 0.
pub fn serial_correlation(series: &[f64]) -> Result<f64, StatsError> {
    check_finite(series, 1)?;
    let centre = mean(series);
    let centred: Vec<f64> = series.iter().map(|value| value - centre).collect();
    let squares: f64 = centred.iter().map(|value| value * value).sum();
    if series.len() < 3 || squares == 0.0 {
        return Ok(0.0);
    }
    let products: f64 = centred.windows(2).map(|pair| pair[0] * pair[1]).sum();
    Ok(without_bias(products / squares, series.len()))
}

fn without_bias(correlation: f64, count: usize) -> f64 {
    correlation + (1.0 + 3.0 * correlation) / count as f64
}

/// A series of first order around 0.
fn simulate(count: usize, correlation: f64, random: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let own = (1.0 - correlation * correlation).sqrt();
    let mut value = StandardNormal.sample(random);
    let next = |place: usize| {
        if place > 0 {
            let error: f64 = StandardNormal.sample(random);
            value = correlation * value + own * error;
        }
        value
    };
    (0..count).map(next).collect()
}

/// The largest logarithms of the likelihoods of each course.
struct Fitted {
    constant: f64,
    /// The ρ of the constant course.
    correlation: f64,
    /// With the index of the step.
    step: (f64, usize),
    /// With the rise of the line over the series.
    drift: (f64, f64),
}

impl Fitted {
    /// `series`: around 0.
    fn new(series: &[f64]) -> Fitted {
        let mut found = Fitted {
            constant: f64::NEG_INFINITY,
            correlation: 0.0,
            step: (f64::NEG_INFINITY, 0),
            drift: (f64::NEG_INFINITY, 0.0),
        };
        for correlation in CORRELATIONS {
            Whitened::new(series, correlation).fit(&mut found);
        }
        found
    }

    fn gain(&self) -> f64 {
        self.step.0.max(self.drift.0) - self.constant
    }
}

/// A series without its correlation: √(1−ρ²)·y₁, then yₜ − ρ·yₜ₋₁ (Prais & Winsten). The constant becomes √(1−ρ²), then
/// 1 − ρ.
struct Whitened {
    correlation: f64,
    values: Vec<f64>,
    first: f64,
    later: f64,
    /// Below it, a sum of squares is rounding.
    least: f64,
}

impl Whitened {
    fn new(series: &[f64], correlation: f64) -> Whitened {
        let first = (1.0 - correlation * correlation).sqrt();
        let start = series.iter().take(1).map(|value| first * value);
        let rest = series
            .windows(2)
            .map(|pair| pair[1] - correlation * pair[0]);
        let squares: f64 = series.iter().map(|value| value * value).sum();
        Whitened {
            correlation,
            values: start.chain(rest).collect(),
            first,
            later: 1.0 - correlation,
            least: (ROUNDING * squares).max(f64::MIN_POSITIVE),
        }
    }

    fn fit(&self, found: &mut Fitted) {
        let count = self.values.len();
        let rest = count as f64 - 1.0;
        let squares: f64 = self.values.iter().map(|value| value * value).sum();
        let later: f64 = self.values.iter().skip(1).sum();
        let start = self.values.first().copied().unwrap_or(0.0);
        // Sums of products of the values, the constant (1), and a further course.
        let with_one = self.first * start + self.later * later;
        let ones = self.first * self.first + self.later * self.later * rest;
        let alone = squares - with_one * with_one / ones;
        let constant = self.likelihood(alone);
        if constant > found.constant {
            (found.constant, found.correlation) = (constant, self.correlation);
        }
        let beside = |products: f64, of_one: f64, own: f64| {
            let (products, own) = (
                products - of_one * with_one / ones,
                own - of_one * of_one / ones,
            );
            match own > 1e-12 {
                true => (alone - products * products / own, products / own),
                false => (alone, 0.0),
            }
        };
        let mut after = 0.0;
        for place in (1..count).rev() {
            let runs = (count - 1 - place) as f64;
            let products = self.values[place] + self.later * after;
            after += self.values[place];
            if place < MIN_SIDE || count - place < MIN_SIDE {
                continue;
            }
            let squared = self.later * self.later * runs;
            let (left, _) = beside(products, self.later + squared, 1.0 + squared);
            let likelihood = self.likelihood(left);
            if likelihood > found.step.0 {
                found.step = (likelihood, place);
            }
        }
        let line = |place: usize| {
            let own = place as f64 - rest / 2.0;
            match place {
                0 => self.first * own,
                _ => own - self.correlation * (own - 1.0),
            }
        };
        let (mut products, mut of_one, mut own) = (0.0, 0.0, 0.0);
        for (place, value) in self.values.iter().enumerate() {
            let one = if place == 0 { self.first } else { self.later };
            let line = line(place);
            products += line * value;
            of_one += line * one;
            own += line * line;
        }
        let (left, slope) = beside(products, of_one, own);
        let likelihood = self.likelihood(left);
        if likelihood > found.drift.0 {
            found.drift = (likelihood, slope * rest);
        }
    }

    fn likelihood(&self, squares: f64) -> f64 {
        let count = self.values.len() as f64;
        let kept = 1.0 - self.correlation * self.correlation;
        -count / 2.0 * (squares.max(self.least) / count).ln() + kept.ln() / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of simulated series whose likeliest change has a p of at most 0.02 and meets a condition.
    fn share(
        count: usize,
        correlation: f64,
        course: impl Fn(usize) -> f64,
        times: u64,
        meets: impl Fn(Change) -> bool,
    ) -> f64 {
        let met = (0..times).filter(|seed| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1000 + seed);
            let mut series = simulate(count, correlation, &mut random);
            for (place, value) in series.iter_mut().enumerate() {
                *value += course(place);
            }
            let found = serial_change(&series, 1).unwrap();
            found.p <= 0.02 && meets(found.change)
        });
        met.count() as f64 / times as f64
    }

    #[test]
    fn correlated_series_without_a_change_rarely_have_one() {
        // 60 series of each kind say little alone; with the feature `long`, `judge` simulates 400.
        let kinds = [0.0, 0.5, 0.8].map(|correlation| {
            [12, 25, 50].map(|count| share(count, correlation, |_| 0.0, 60, |_| true))
        });
        let wrong = kinds.as_flattened();
        let mean = wrong.iter().sum::<f64>() / wrong.len() as f64;
        assert!(
            mean <= 0.05 && wrong.iter().all(|share| *share <= 0.1),
            "{kinds:?}"
        );
    }

    #[test]
    fn steps_are_found_as_steps_and_drifts_as_drifts() {
        let at = |place: usize| move |change: Change| change == Change::Step(place);
        let is_drift = |change: Change| matches!(change, Change::Drift(rise) if rise > 0.0);
        for (correlation, count, place, least) in [
            (0.0, 20, 12, 0.75),
            (0.5, 30, 20, 0.8),
            (0.8, 20, 12, 0.9),
            (0.8, 50, 30, 0.95),
        ] {
            let step = |of: usize| if of >= place { 5.0 } else { 0.0 };
            let found = share(count, correlation, step, 20, at(place));
            assert!(found >= least, "{correlation} {count}: {found}");
            let as_drift = share(count, correlation, step, 20, is_drift);
            assert!(as_drift <= 0.05, "{correlation} {count}: {as_drift}");
        }
        let line = |of: usize| of as f64 / 4.9;
        let found = share(50, 0.0, line, 20, is_drift);
        assert!(found >= 0.9, "{found}");
        let as_step = share(50, 0.0, line, 20, |change| !is_drift(change));
        assert!(as_step <= 0.05, "{as_step}");
    }

    #[test]
    fn constant_and_short_series_have_no_change() {
        for series in [&[0.1; 30][..], &[1.0, 2.0], &[1.0, 1.0, 1.0, 9.0, 9.0, 9.0]] {
            assert_eq!(serial_change(series, 1).unwrap().p, 1.0, "{series:?}");
        }
        // Two levels without noise.
        let series = [[3.0; 6].as_slice(), &[2.0; 2]].concat();
        let found = serial_change(&series, 1).unwrap();
        assert_eq!(found.change, Change::Step(6));
        assert!(found.p <= 0.02, "{found:?}");
        assert!(serial_change(&[], 1).is_err());
        assert!(serial_change(&[f64::NAN; 9], 1).is_err());
        assert_eq!(serial_correlation(&[1.0; 5]).unwrap(), 0.0);
        let alternating = serial_correlation(&[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]).unwrap();
        assert!(alternating < -0.8, "{alternating}");
    }
}
