//! How quantities differ between two sides: arithmetic means, because only these add up, with paired intervals.

use iodyno_model::{Certainty, Costs, Estimated, Pairing, Quantity, SeriesUnit};
use iodyno_stats::{holm, mean_and_error, mean_difference, simultaneous_tests, student_t_quantile};

/// With fewer rounds, nothing is likely.
const MIN_ROUNDS: usize = 3;

/// The same trials have the same result.
const SEED: u64 = 1;

/// The trials of both sides; if they are paired, in the order of the rounds.
#[derive(Debug, Clone)]
pub(super) struct Sides<'a> {
    pub(super) baseline: Vec<&'a Costs>,
    pub(super) candidate: Vec<&'a Costs>,
    pub(super) pairing: Pairing,
    pub(super) alpha: f64,
}

/// The values of a quantity in the trials of both sides.
#[derive(Debug, Clone)]
pub(super) struct Values {
    pub(super) name: &'static str,
    pub(super) words: String,
    pub(super) unit: SeriesUnit,
    pub(super) baseline: Vec<f64>,
    pub(super) candidate: Vec<f64>,
}

impl<'a> Sides<'a> {
    /// All trials.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Costs> + Clone + '_ {
        self.baseline.iter().chain(&self.candidate).copied()
    }

    /// The values of a quantity; `None` if a trial has none.
    pub(super) fn values(
        &self,
        name: &'static str,
        words: &str,
        unit: SeriesUnit,
        of: impl Fn(&Costs) -> Option<f64>,
    ) -> Option<Values> {
        let side = |trials: &[&Costs]| trials.iter().map(|it| of(it)).collect::<Option<Vec<_>>>();
        Some(Values {
            name,
            words: words.to_owned(),
            unit,
            baseline: side(&self.baseline)?,
            candidate: side(&self.candidate)?,
        })
    }

    /// The differences of some quantities, whose certainty is corrected for their number.
    pub(super) fn differences(&self, all: Vec<Values>) -> Vec<Quantity> {
        let level = 1.0 - self.alpha;
        let estimates: Vec<(Estimated, bool)> = match self.pairing {
            Pairing::Paired => all.iter().map(|it| it.paired(level)).collect(),
            Pairing::Unpaired | Pairing::Runs => all.iter().map(|it| it.unpaired(level)).collect(),
        };
        let corrected = match self.pairing {
            Pairing::Paired => self.simultaneous(&all),
            Pairing::Unpaired | Pairing::Runs => {
                let p = all.iter().map(Values::unpaired_p).collect::<Vec<f64>>();
                let p = holm(&p).unwrap_or_default();
                p.into_iter().map(|p| p <= self.alpha).collect()
            }
        };
        let quantities = all.into_iter().zip(estimates).zip(corrected);
        let quantities = quantities.map(|((values, (difference, excludes)), corrected)| Quantity {
            name: values.name,
            words: values.words,
            unit: values.unit,
            sides: (mean(&values.baseline), mean(&values.candidate)),
            difference,
            certainty: match (self.pairing, corrected, excludes) {
                (Pairing::Paired, true, true) => Certainty::Certain,
                (Pairing::Paired, false, true) => Certainty::Likely,
                // Something else may have changed between separate runs.
                (Pairing::Unpaired | Pairing::Runs, true, true) => Certainty::Likely,
                _ => Certainty::NotDecided,
            },
        });
        quantities.collect()
    }

    /// Whether each differs after the correction.
    fn simultaneous(&self, all: &[Values]) -> Vec<bool> {
        let samples: Vec<Vec<f64>> = all.iter().map(Values::by_round).collect();
        match simultaneous_tests(&samples, 1.0 - self.alpha, SEED) {
            Ok(tests) => tests.p.iter().map(|p| *p <= self.alpha).collect(),
            Err(_) => vec![false; all.len()],
        }
    }
}

impl Values {
    fn by_round(&self) -> Vec<f64> {
        let pairs = self.baseline.iter().zip(&self.candidate);
        pairs.map(|(one, other)| other - one).collect()
    }

    /// The mean difference of the rounds with its interval, and whether it excludes 0.
    fn paired(&self, level: f64) -> (Estimated, bool) {
        let differences = self.by_round();
        let interval = interval(&differences, level);
        let excludes = interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        let estimate = Estimated {
            value: mean(&differences),
            interval,
            level,
        };
        (estimate, excludes && differences.len() >= MIN_ROUNDS)
    }

    fn unpaired(&self, level: f64) -> (Estimated, bool) {
        let value = mean(&self.candidate) - mean(&self.baseline);
        let found = mean_difference(&self.baseline, &self.candidate);
        let interval = found.and_then(|found| found.interval(level)).ok();
        let excludes = interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        let least = self.baseline.len().min(self.candidate.len());
        let estimate = Estimated {
            value,
            interval,
            level,
        };
        (estimate, excludes && least >= MIN_ROUNDS)
    }

    fn unpaired_p(&self) -> f64 {
        let found = mean_difference(&self.baseline, &self.candidate);
        found.map_or(1.0, |found| found.p())
    }
}

/// The interval of a mean. One disturbed round makes Student's interval as wide as it is far away, but not that of
/// typical values. Source: Hartigan, "Using subsample values as typical values", JASA 64, 1969: the
/// means of all subsets divide the line into intervals that contain the expectation with the same probability, if
/// deviations are symmetric.
fn interval(values: &[f64], level: f64) -> Option<(f64, f64)> {
    let (mean, error) = mean_and_error(values).ok()?;
    if error == 0.0 {
        return Some((mean, mean));
    }
    let count = values.len() as u32;
    if count < MIN_FOR_SUBSETS {
        let reach = error * student_t_quantile((1.0 + level) / 2.0, f64::from(count - 1)).ok()?;
        return Some((mean - reach, mean + reach));
    }
    let subsets: Vec<u64> = match count <= MAX_FOR_ALL_SUBSETS {
        true => (1..1 << count).collect(),
        false => (1..1 << MAX_FOR_ALL_SUBSETS).map(mixed).collect(),
    };
    let of_subset = |subset: &u64| {
        let own = values.iter().enumerate();
        let own = own.filter(|(place, _)| subset >> (place % 64) & 1 == 1);
        let (sum, count) = own.fold((0.0, 0.0), |(sum, count), (_, it)| (sum + it, count + 1.0));
        (count > 0.0).then_some(sum / count)
    };
    let mut means: Vec<f64> = subsets.iter().filter_map(of_subset).collect();
    means.sort_unstable_by(f64::total_cmp);
    let outside = ((means.len() + 1) as f64 * (1.0 - level) / 2.0) as usize;
    let last = means.len() - 1;
    Some((
        means[outside.saturating_sub(1)],
        means[last - outside.saturating_sub(1)],
    ))
}

/// With fewer rounds, subsets have no interval at 95 %.
const MIN_FOR_SUBSETS: u32 = 6;

/// Of more rounds, some subsets are drawn.
const MAX_FOR_ALL_SUBSETS: u32 = 12;

/// Random bits by a number (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_contains_the_mean_and_one_disturbed_round_does_not_hide_a_difference() {
        let mut values = [5.4, 5.1, 5.0, 4.9, 5.2, 5.3, 5.1, 4.8, 5.2, 5.0, 4.7, 5.6];
        let (low, high) = interval(&values, 0.95).unwrap();
        assert!(low > 4.9 && high < 5.3, "{low} {high}");
        values[3] = 800.0;
        let (low, high) = interval(&values, 0.95).unwrap();
        assert!(low > 4.0 && high > 70.0, "{low} {high}");
        // Few values have Student's.
        let (low, high) = interval(&values[..3], 0.95).unwrap();
        assert!(
            (low - 4.65).abs() < 0.02 && (high - 5.68).abs() < 0.02,
            "{low} {high}"
        );
        assert_eq!(interval(&values[..1], 0.95), None);
        assert_eq!(interval(&[2.0; 4], 0.95), Some((2.0, 2.0)));
        let many: Vec<f64> = (0..30).map(|place| f64::from(place % 7)).collect();
        let (low, high) = interval(&many, 0.95).unwrap();
        assert!(
            (2.0..2.5).contains(&low) && (3.2..3.8).contains(&high),
            "{low} {high}"
        );
    }
}
