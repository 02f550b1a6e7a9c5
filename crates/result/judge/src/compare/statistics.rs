//! The statistics of a cell, based on ranks; those of separate runs on the means of their logarithms.
//!
//! Separate runs differ only if two tests agree. The permutation test is exact for runs of one distribution, however
//! many runs a side has. The t test with the degrees of freedom of the smaller side keeps its level if one side varies
//! more than the other (Mickey & Brown, "Bounds on the distribution functions of the Behrens-Fisher statistic", Annals
//! of Mathematical Statistics 37, 1966).
//!
//! Ratios are computed from logarithms. If a value is 0 or less there is no ratio; ranks then compare the
//! values themselves, which gives a direction but no size.

use iodyno_model::{Estimated, Pairing};
use iodyno_stats::{
    Estimate, Margin, MeanDifference, equivalence_paired, equivalence_unpaired, hodges_lehmann,
    hodges_lehmann_shift, least_rounds, least_samples, log_ratios, mann_whitney, mean_difference,
    mean_permutation_p, rounds_to_decide, samples_to_decide, signed_rank, smallest_p_mann_whitney,
    smallest_p_signed_rank,
};

use super::sample::Sample;

/// Statistical power that the projected number of rounds is computed for.
pub(super) const POWER: f64 = 0.8;

/// p value of the hypothesis of no difference: signed-rank test of the log-ratios by round, Mann–Whitney's U, or
/// of separate runs the larger p of the permutation test and the t test.
pub(super) fn p(sample: &Sample) -> Option<f64> {
    let (slower, faster) = sample.by_speed();
    match sample.pairing {
        Pairing::Unpaired => mann_whitney(slower, faster).ok().map(|test| test.p),
        Pairing::Runs => {
            let p = mean_permutation_p(&logarithms(slower), &logarithms(faster)).ok()?;
            Some(mean_shift(sample)?.p().max(p))
        }
        Pairing::Paired => {
            let differences = differences(sample)?;
            signed_rank(&differences).ok().map(|test| test.p)
        }
    }
}

/// The difference of the runs' mean logarithms, with the degrees of freedom of the smaller side.
fn mean_shift(sample: &Sample) -> Option<MeanDifference> {
    let (baseline, candidate) = sample.by_speed();
    let shift = mean_difference(&logarithms(baseline), &logarithms(candidate)).ok()?;
    Some(MeanDifference {
        freedom: sample.n() as f64 - 1.0,
        ..shift
    })
}

fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.ln()).collect()
}

/// Log-ratios of the rounds, or plain differences where a value has no logarithm.
fn differences(sample: &Sample) -> Option<Vec<f64>> {
    let (baseline, candidate) = sample.by_speed();
    if sample.positive() {
        return log_ratios(baseline, candidate).ok();
    }
    let pairs = baseline.iter().zip(candidate);
    // Halved, because the difference of two large values would overflow.
    Some(pairs.map(|(b, c)| c / 2.0 - b / 2.0).collect())
}

/// Which side is better by rank: above 0 the candidate.
pub(super) fn direction(sample: &Sample) -> f64 {
    let (baseline, candidate) = sample.by_speed();
    let halves = |values: &[f64]| values.iter().map(|v| v / 2.0).collect::<Vec<_>>();
    let estimate = match sample.pairing {
        Pairing::Paired => differences(sample).and_then(|d| hodges_lehmann(&d, 0.95).ok()),
        Pairing::Unpaired | Pairing::Runs => {
            hodges_lehmann_shift(&halves(baseline), &halves(candidate), 0.95).ok()
        }
    };
    estimate.map_or(0.0, |estimate| estimate.value)
}

/// The speed ratio with its interval at `level`; `None` if a value is 0 or less, or if the ratio overflows.
pub(super) fn ratio(sample: &Sample, level: f64) -> Option<Estimated> {
    let (baseline, candidate) = sample.by_speed();
    if !sample.positive() {
        return None;
    }
    let ends = |estimate: Estimate| (estimate.value, estimate.interval.map(|i| (i.low, i.high)));
    let (value, interval) = match sample.pairing {
        Pairing::Paired => {
            let ratios = log_ratios(baseline, candidate).ok()?;
            ends(hodges_lehmann(&ratios, level).ok()?)
        }
        Pairing::Unpaired => {
            let (baseline, candidate) = (logarithms(baseline), logarithms(candidate));
            ends(hodges_lehmann_shift(&baseline, &candidate, level).ok()?)
        }
        Pairing::Runs => {
            let shift = mean_shift(sample)?;
            (shift.value, Some(shift.interval(level).ok()?))
        }
    };
    let value = value.exp();
    let interval = interval.map(|(low, high)| (low.exp(), high.exp()));
    let sound = |x: f64| x.is_finite() && x > 0.0;
    (sound(value) && interval.is_none_or(|(low, high)| sound(low) && sound(high))).then_some(
        Estimated {
            value,
            interval,
            level,
        },
    )
}

/// p value of the hypothesis of a difference beyond the margin, by two one-sided tests; `None` if there are no
/// ratios.
pub(super) fn equivalence_p(sample: &Sample, margin: f64) -> Option<f64> {
    let margin = Margin::symmetric(margin).ok()?;
    let (baseline, candidate) = sample.by_speed();
    let tests = match sample.pairing {
        Pairing::Paired => equivalence_paired(baseline, candidate, margin),
        Pairing::Unpaired => equivalence_unpaired(baseline, candidate, margin),
        Pairing::Runs => {
            let shift = mean_shift(sample)?;
            return Some(shift.equivalence_p(margin.low().ln(), margin.high().ln()));
        }
    };
    tests.ok().map(|tests| tests.p)
}

/// The smallest p that a sample of this size can give.
pub(super) fn smallest_p(sample: &Sample) -> f64 {
    match sample.pairing {
        Pairing::Paired => smallest_p_signed_rank(sample.n()),
        // The permutation test of means has the assignments of the rank test.
        Pairing::Unpaired | Pairing::Runs => {
            smallest_p_mann_whitney(sample.baseline.len(), sample.candidate.len())
        }
    }
}

/// The smallest number of rounds, or of trials or runs per side, whose smallest p is below `needed`.
pub(super) fn least(pairing: Pairing, needed: f64) -> u32 {
    let least = match pairing {
        Pairing::Paired => least_rounds(1, needed),
        Pairing::Unpaired | Pairing::Runs => least_samples(1, needed),
    };
    least.map_or(u32::MAX, |least| u32::try_from(least).unwrap_or(u32::MAX))
}

/// The number of further rounds, or of trials or runs per side, for a verdict at power [`POWER`], assuming the same
/// estimate and spread; `None` if it is too large to estimate.
pub(super) fn more(sample: &Sample, margin: f64, level: f64) -> Option<u32> {
    // Without a margin only a difference can be shown; the projection needs a margin above 0.
    let margin = (1.0 + margin).ln().max(1e-9);
    let (baseline, candidate) = sample.by_speed();
    if !sample.positive() {
        return None;
    }
    let (projection, _) = match sample.pairing {
        Pairing::Paired => {
            let ratios = log_ratios(baseline, candidate).ok()?;
            rounds_to_decide(&ratios, margin, level, POWER).ok()?
        }
        Pairing::Unpaired | Pairing::Runs => {
            let (baseline, candidate) = (logarithms(baseline), logarithms(candidate));
            samples_to_decide(&baseline, &candidate, margin, level, POWER).ok()?
        }
    };
    projection
        .more
        .and_then(|more| u32::try_from(more.max(1)).ok())
}
