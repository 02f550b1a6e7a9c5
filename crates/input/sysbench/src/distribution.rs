//! Conversion of the distributions of random offsets to those of the plan.

use iodyno_model::{Amount, Distribution};

use super::draft::{Draft, Law};

/// The distribution of a draft.
pub(super) fn distribution(draft: &Draft) -> Distribution {
    match draft.law {
        Law::Uniform => Distribution::Uniform,
        // The mean of one uniform number is that number.
        Law::Gaussian if draft.iterations == 1 => Distribution::Uniform,
        Law::Gaussian => Distribution::Normal(100.0 * deviation(draft.iterations)),
        Law::Special => Distribution::Zoned(special(draft)),
        Law::Pareto => Distribution::Pareto(draft.pareto_h),
        Law::Zipfian if draft.zipf_exponent == 0.0 => Distribution::Uniform,
        Law::Zipfian => Distribution::Zipf(draft.zipf_exponent),
    }
}

/// Standard deviation of the mean of `iterations` uniform numbers from 0 to 1: √(1 ÷ 12 n).
fn deviation(iterations: u32) -> f64 {
    (1.0 / (12.0 * f64::from(iterations.max(1)))).sqrt()
}

/// Number of steps of the approximation of the normal density.
const STEPS: usize = 50;

/// A stepwise normal distribution over the whole region, with a band in the middle that gets most requests.
fn special(draft: &Draft) -> Vec<(f64, Amount)> {
    let band = draft.special_percent / 100.0;
    let (low, high) = (0.5 - band / 2.0, 0.5 + band / 2.0);
    let mut edges: Vec<f64> = (0..=STEPS).map(|step| step as f64 / STEPS as f64).collect();
    edges.extend([low, high]);
    edges.sort_by(f64::total_cmp);
    edges.dedup_by(|later, earlier| *later - *earlier < 1e-9);
    let width = deviation(draft.iterations);
    let whole = mass(0.0, 1.0, width);
    let special = draft.special_share;
    edges
        .windows(2)
        .map(|edge| {
            let (from, to) = (edge[0], edge[1]);
            let bell = (100.0 - special) * mass(from, to, width) / whole;
            let within = (to.min(high) - from.max(low)).max(0.0) / band;
            (
                bell + special * within,
                Amount::Percent(100.0 * (to - from)),
            )
        })
        .collect()
}

/// The integral of a normal density around ½, up to a constant factor, by Simpson's rule.
fn mass(from: f64, to: f64, deviation: f64) -> f64 {
    const PARTS: usize = 512;
    let height = |place: f64| (-((place - 0.5) / deviation).powi(2) / 2.0).exp();
    let part = (to - from) / PARTS as f64;
    let sum: f64 = (0..=PARTS)
        .map(|index| {
            let weight = match index {
                0 | PARTS => 1.0,
                index if index % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * height(from + part * index as f64)
        })
        .sum();
    sum * part / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::defaults;

    fn zones(percent: f64, share: f64) -> Vec<(f64, f64)> {
        let draft = Draft {
            law: Law::Special,
            iterations: 12,
            special_percent: percent,
            special_share: share,
            ..defaults()
        };
        let Distribution::Zoned(zones) = distribution(&draft) else {
            panic!("not zoned");
        };
        zones
            .into_iter()
            .map(|(share, length)| match length {
                Amount::Percent(percent) => (share, percent),
                Amount::Bytes(_) => panic!("in bytes"),
            })
            .collect()
    }

    #[test]
    fn zones_cover_the_region_and_their_shares_add_up() {
        for (percent, share) in [
            (1.0, 75.0),
            (100.0, 75.0),
            (4.0, 0.0),
            (0.001, 100.0),
            (50.0, 50.0),
        ] {
            let zones = zones(percent, share);
            let shares: f64 = zones.iter().map(|zone| zone.0).sum();
            let lengths: f64 = zones.iter().map(|zone| zone.1).sum();
            assert!((shares - 100.0).abs() < 1e-6, "{percent} {share}: {shares}");
            assert!(
                (lengths - 100.0).abs() < 1e-6,
                "{percent} {share}: {lengths}"
            );
        }
    }

    #[test]
    fn the_band_in_the_middle_gets_its_share_in_addition_to_the_normal_distribution() {
        let zones = zones(1.0, 75.0);
        let mut before = 0.0;
        let mut band = 0.0;
        for (share, length) in &zones {
            let middle = before + length / 2.0;
            if (49.5..50.5).contains(&middle) {
                band += share;
            }
            before += length;
        }
        // Φ(0.06) − Φ(−0.06) = 0.0478 of the 25 % that are gaussian.
        assert!((band - 75.0 - 25.0 * 0.0478).abs() < 0.01, "{band}");
        // Within one standard deviation, 41.67 … 58.33 %, are 68.3 % of the normal distribution; in 42 … 58
        // % are 66.3 %.
        let near: f64 = zones_between(&zones, 42.0, 58.0);
        assert!((near - 75.0 - 25.0 * 0.663).abs() < 0.1, "{near}");
    }

    fn zones_between(zones: &[(f64, f64)], from: f64, to: f64) -> f64 {
        let mut place = 0.0;
        let mut sum = 0.0;
        for (share, length) in zones {
            let middle = place + length / 2.0;
            if (from..to).contains(&middle) {
                sum += share;
            }
            place += length;
        }
        sum
    }

    #[test]
    fn the_mean_of_twelve_numbers_has_a_deviation_of_one_twelfth() {
        let draft = Draft {
            law: Law::Gaussian,
            ..defaults()
        };
        match distribution(&draft) {
            Distribution::Normal(percent) => assert!((percent - 100.0 / 12.0).abs() < 1e-9),
            other => panic!("{other:?}"),
        }
    }
}
