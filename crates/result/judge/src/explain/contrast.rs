//! How a quantity differs between two sides, and with what certainty.

use iodyno_model::{Change, Contrast, Estimated, Pairing};
use iodyno_stats::{
    Estimate, Sample, benjamini_hochberg, benjamini_hochberg_levels, hodges_lehmann,
    hodges_lehmann_shift, holm, holm_levels, least_rounds, least_samples, log_ratios, mann_whitney,
    rank_correlation, signed_rank, smallest_p_mann_whitney, smallest_p_signed_rank,
};

use super::quantity::Quantity;

/// Fewer trials of a side give no correlation.
const MIN_FOR_CORRELATION: usize = 5;

/// With fewer rounds, the same direction in all of them is nothing.
const MIN_AGREEING: u32 = 3;

/// The values of a quantity on both sides; if `paired`, in the order of the rounds.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) quantity: Quantity,
    pub(super) baseline: Vec<f64>,
    pub(super) candidate: Vec<f64>,
    /// The metric of the same trials.
    pub(super) metric: (Vec<f64>, Vec<f64>),
}

impl Values {
    fn all(&self) -> impl Iterator<Item = f64> + '_ {
        self.baseline.iter().chain(&self.candidate).copied()
    }

    /// Whether it can differ at all: a constant is not tested.
    pub(super) fn varies(&self) -> bool {
        let mut all = self.all();
        let first = all.next();
        let sides = !self.baseline.is_empty() && !self.candidate.is_empty();
        sides && self.all().all(f64::is_finite) && all.any(|value| Some(value) != first)
    }

    fn positive(&self) -> bool {
        self.all().all(|value| value > 0.0)
    }

    fn differences(&self) -> Vec<f64> {
        match self.positive() {
            true => log_ratios(&self.baseline, &self.candidate).unwrap_or_default(),
            false => {
                let pairs = self.baseline.iter().zip(&self.candidate);
                pairs.map(|(one, other)| other - one).collect()
            }
        }
    }

    /// The values, or their logarithms if there are all.
    fn scaled(&self) -> (Vec<f64>, Vec<f64>) {
        let scaled = |values: &[f64]| -> Vec<f64> {
            match self.positive() {
                true => values.iter().map(|value| value.ln()).collect(),
                false => values.to_vec(),
            }
        };
        (scaled(&self.baseline), scaled(&self.candidate))
    }

    fn p(&self, paired: bool) -> Option<f64> {
        match paired {
            true => signed_rank(&self.differences()).ok().map(|test| test.p),
            false => {
                let test = mann_whitney(&self.baseline, &self.candidate);
                test.ok().map(|test| test.p)
            }
        }
    }

    fn change(&self, paired: bool, level: f64) -> Option<Change> {
        let estimate = match paired {
            true => hodges_lehmann(&self.differences(), level).ok()?,
            false => {
                let (baseline, candidate) = self.scaled();
                hodges_lehmann_shift(&baseline, &candidate, level).ok()?
            }
        };
        Some(match self.positive() {
            true => Change::Ratio(estimated(estimate, level, f64::exp)),
            false => Change::Difference(estimated(estimate, level, |value| value)),
        })
    }

    /// In how many rounds, or pairs of trials, it changed like the estimate, and of how many.
    fn agreeing(&self, paired: bool, change: Option<Change>) -> (u32, u32) {
        let up = match change {
            Some(Change::Ratio(ratio)) => ratio.value > 1.0,
            Some(Change::Difference(difference)) => difference.value > 0.0,
            None => true,
        };
        let agrees = |(one, other): (&f64, &f64)| match up {
            true => other > one,
            false => other < one,
        };
        let (agreeing, all) = match paired {
            true => {
                let pairs = || self.baseline.iter().zip(&self.candidate);
                (
                    pairs().filter(|pair| agrees(*pair)).count(),
                    pairs().count(),
                )
            }
            false => {
                let candidates = || self.candidate.iter();
                let pairs = || {
                    let each = self.baseline.iter();
                    each.flat_map(|one| candidates().map(move |other| (one, other)))
                };
                (
                    pairs().filter(|pair| agrees(*pair)).count(),
                    pairs().count(),
                )
            }
        };
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        (number(agreeing), number(all))
    }

    fn within(&self) -> (Option<f64>, Option<f64>) {
        let of = |metric: &[f64], values: &[f64]| match values.len() >= MIN_FOR_CORRELATION {
            true => rank_correlation(metric, values).ok().flatten(),
            false => None,
        };
        (
            of(&self.metric.0, &self.baseline),
            of(&self.metric.1, &self.candidate),
        )
    }
}

pub(super) fn estimated(estimate: Estimate, level: f64, of: impl Fn(f64) -> f64) -> Estimated {
    Estimated {
        value: of(estimate.value),
        interval: (estimate.interval).map(|interval| (of(interval.low), of(interval.high))),
        level,
    }
}

fn median(values: &[f64]) -> f64 {
    Sample::new(values).map_or(f64::NAN, |sample| sample.median())
}

/// The tested quantities.
pub(super) struct Tested {
    pub(super) contrasts: Vec<(Quantity, Contrast)>,
    /// Number of parts that were tested.
    pub(super) parts: usize,
    /// The number of rounds, or trials a side, from which this number of parts can be judged; `None`: there are enough.
    pub(super) needed: Option<u32>,
}

/// Tests all quantities that vary. The parts of the ratio are corrected by Holm's method over all of them; the series
/// beside it are exploratory, and corrected by that of Benjamini and Hochberg.
pub(super) fn tested(values: &[Values], pairing: Pairing, alpha: f64) -> Tested {
    let paired = pairing == Pairing::Paired;
    let varying: Vec<&Values> = values.iter().filter(|it| it.varies()).collect();
    let p: Vec<f64> = (varying.iter())
        .map(|values| values.p(paired).unwrap_or(1.0))
        .collect();
    let sizes = |pick: fn(&Values) -> usize| varying.iter().map(|it| pick(it)).min().unwrap_or(0);
    let (n, m) = (
        sizes(|it| it.baseline.len()),
        sizes(|it| it.candidate.len()),
    );
    let smallest = match paired {
        true => smallest_p_signed_rank(n),
        false => smallest_p_mann_whitney(n, m),
    };
    let is_part = |it: &&Values| !matches!(it.quantity, Quantity::Series(_));
    let own_p = |of_parts: bool| -> Vec<f64> {
        let both = varying.iter().zip(&p);
        let own = both.filter(|(values, _)| is_part(values) == of_parts);
        own.map(|(_, p)| *p).collect()
    };
    let (of_parts, of_series) = (own_p(true), own_p(false));
    let both = |adjusted: Option<Vec<f64>>, levels: Option<Vec<f64>>| {
        let pairs = adjusted.unwrap_or_default().into_iter();
        pairs.zip(levels.unwrap_or_default())
    };
    let mut corrected = (
        both(holm(&of_parts).ok(), holm_levels(&of_parts, alpha).ok()),
        both(
            benjamini_hochberg(&of_series).ok(),
            benjamini_hochberg_levels(&of_series, alpha).ok(),
        ),
    );
    let count = of_parts.len();
    let least = match paired {
        true => least_rounds(count, alpha),
        false => least_samples(count, alpha),
    };
    let too_few = smallest * count as f64 > alpha;
    let needed = least
        .ok()
        .filter(|_| too_few && count > 0)
        .map(|least| u32::try_from(least).unwrap_or(u32::MAX));
    let tests = varying.iter().zip(&p);
    let contrasts = tests.filter_map(|(values, p)| {
        let part = is_part(values);
        let (adjusted, level) = match part {
            true => corrected.0.next()?,
            false => corrected.1.next()?,
        };
        let too_few = match part {
            true => too_few,
            // If all of them have the smallest p, it is not made larger.
            false => smallest > alpha,
        };
        let change = values.change(paired, level);
        let agreeing = values.agreeing(paired, change);
        // Rounds without a change do not count for the test; if they are most, nothing is named.
        let most_agree = agreeing.0 * 2 > agreeing.1;
        let all_agree = agreeing.0 == agreeing.1 && n.min(m) as u32 >= MIN_AGREEING;
        let contrast = Contrast {
            name: values.quantity.name(),
            words: values.quantity.words(),
            unit: values.quantity.unit(),
            medians: (median(&values.baseline), median(&values.candidate)),
            change,
            p: Some(*p),
            adjusted_p: Some(adjusted),
            agreeing,
            within: values.within(),
            differs: (adjusted <= alpha && most_agree) || too_few && all_agree,
        };
        Some((values.quantity, contrast))
    });
    Tested {
        contrasts: contrasts.collect(),
        parts: count,
        needed,
    }
}
