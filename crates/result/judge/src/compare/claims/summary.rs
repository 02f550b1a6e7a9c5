//! A side as the tool summarises it.

use iodyno_model::{Claim, ClaimRules};
use iodyno_stats::{Sample, trimmed_mean};

/// The tools print `~` above this p by default.
pub(super) const ALPHA: f64 = 0.05;

/// The values that a row of medians can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    All,
    /// The unit is declared exact: the most frequent value with the whole range.
    Exact,
    /// A table in `sec` or `B`: values of 0 in `ns` or `MB` are in a separate table.
    NotZero,
    /// That separate table.
    Zero,
}

impl Reading {
    pub(super) fn of(claim: &Claim) -> &'static [Reading] {
        match claim.subject.rules {
            ClaimRules::Means => &[Reading::All],
            ClaimRules::Medians => &[
                Reading::All,
                Reading::Exact,
                Reading::NotZero,
                Reading::Zero,
            ],
        }
    }

    pub(super) fn takes(self, value: f64) -> bool {
        match self {
            Reading::All | Reading::Exact => true,
            Reading::NotZero => value != 0.0,
            Reading::Zero => value == 0.0,
        }
    }
}

/// A side as summarised by the tool.
#[derive(Debug, Clone)]
pub(super) struct Summary {
    /// In printed units.
    pub(super) center: f64,
    pub(super) spread: Spread,
    /// The values that count.
    pub(super) values: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spread {
    None,
    Share(f64),
    Unbounded,
    SignsDiffer,
}

/// A side according to the claim's rules; `None` without values.
pub(super) fn summary(numbers: &[f64], claim: &Claim, reading: Reading) -> Option<Summary> {
    match claim.subject.rules {
        ClaimRules::Means => {
            let mean = trimmed_mean(numbers).ok()?;
            Some(Summary {
                center: mean.mean,
                spread: mean.deviation.map_or(Spread::None, Spread::Share),
                values: numbers
                    .iter()
                    .copied()
                    .filter(|value| (mean.min..=mean.max).contains(value))
                    .collect(),
            })
        }
        ClaimRules::Medians => {
            let sample = Sample::new(numbers).ok()?;
            let (center, range) = match reading {
                Reading::Exact => (mode(sample.sorted()), Some((sample.min(), sample.max()))),
                _ => {
                    let median = sample.median_interval(1.0 - ALPHA).ok()?;
                    let range = median.interval.map(|it| (it.low, it.high));
                    (median.median, range)
                }
            };
            let spread = match range {
                None => Spread::Unbounded,
                Some((low, high)) if sign(low) != sign(center) || sign(high) != sign(center) => {
                    Spread::SignsDiffer
                }
                Some(_) if center == 0.0 => Spread::Share(0.0),
                Some((low, high)) => Spread::Share((high / center - 1.0).max(1.0 - low / center)),
            };
            Some(Summary {
                center,
                spread,
                values: numbers.to_vec(),
            })
        }
    }
}

fn sign(value: f64) -> i32 {
    i32::from(value > 0.0) - i32::from(value < 0.0)
}

/// The most frequent of sorted values; of several, the lowest.
fn mode(sorted: &[f64]) -> f64 {
    let runs = sorted.chunk_by(|one, other| one == other);
    let longest = runs.rev().max_by_key(|run| run.len());
    longest.and_then(|run| run.first()).copied().unwrap_or(0.0)
}
