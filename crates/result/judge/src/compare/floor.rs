//! The noise floor: the difference between results on this host without a change.

use iodyno_model::Observation;

use super::metrics::RowMetric;
use super::reduce::sample;
use super::sample::{Sample, Two};
use super::sides::gather;
use super::statistics;

/// The noise floor of a row from its repeated baseline, as a fraction; `None` if the baseline was not repeated, or if
/// no trial of it counts.
///
/// It is the distance from 1 of the farther end of the A/A ratio's interval (at `level`). With too few rounds for an
/// interval, it is that of the most distant ratio. Distances are differences of logarithms: 0.97 and 1/0.97 have the
/// same distance.
pub(super) fn from_again<'a>(asked: &RowMetric<'_, 'a>, baseline: &str, level: f64) -> Option<f64> {
    let sides: Vec<_> = asked
        .workloads
        .iter()
        .zip(&asked.own)
        .filter(|(workload, _)| !workload.again.is_empty())
        .map(|(workload, own)| {
            let side = |trials: &[&'a Observation]| {
                gather(trials.iter().copied(), own).counted_as(own, &asked.metric)
            };
            let (baseline, again) = (side(&workload.columns[0]), side(&workload.again));
            (&workload.name, baseline, again)
        })
        .collect();
    let two: Vec<Two> = sides
        .iter()
        .map(|(name, baseline, candidate)| Two {
            name,
            baseline,
            candidate,
        })
        .collect();
    let sample = sample(&two, &asked.metric, (baseline, "its repetition")).ok()?;
    farthest(&sample, level)
}

/// The distance of a sample's ratio from 1, as a fraction, at the farther end of its interval. Without an interval it
/// is that of the most distant pair or, in a family, of the most distant workload, because their mean could hide it.
pub(super) fn farthest(sample: &Sample, level: f64) -> Option<f64> {
    let ratio = statistics::ratio(sample, level)?;
    let distance = match ratio.interval {
        Some((low, high)) => low.ln().abs().max(high.ln().abs()),
        None => {
            let pairs = sample.baseline.iter().zip(&sample.candidate);
            let members = sample.members.iter().map(|member| member.ratio.ln().abs());
            pairs
                .map(|(b, c)| (c.ln() - b.ln()).abs())
                .chain(members)
                .fold(ratio.value.ln().abs(), f64::max)
        }
    };
    let share = distance.exp_m1();
    share.is_finite().then_some(share)
}
