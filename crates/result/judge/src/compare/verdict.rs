//! The verdict from the numbers of a cell alone.

use iodyno_model::{Estimated, Verdict};
use iodyno_units::percent;

/// The numbers that decide a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Numbers {
    /// Rounds, or trials of the smaller side.
    pub(super) n: u32,
    /// The speed ratio with its interval at the adjusted level; `None` where values have no ratio.
    pub(super) ratio: Option<Estimated>,
    /// Direction by rank, above 0 if the candidate is better; used if there is no ratio.
    pub(super) direction: f64,
    /// p adjusted for the number of comparisons.
    pub(super) adjusted_p: f64,
    /// The threshold for the adjusted p.
    pub(super) alpha: f64,
    /// The threshold for the unadjusted p: this cell's share of α.
    pub(super) share: f64,
    /// p of a difference beyond the margin.
    pub(super) equivalence_p: Option<f64>,
    /// The smallest p that this number of values can give.
    pub(super) smallest_p: f64,
    /// The smallest number of values that can give a p below `share`.
    pub(super) least: u32,
    /// The margin: the smallest difference that matters, as a fraction.
    pub(super) margin: f64,
    /// The noise floor, as a fraction; 0 if it was not measured.
    pub(super) floor: f64,
}

/// The verdict from the numbers. Rules in this order:
///
/// 1. With this number of values no p can be below this cell's share of α: CANNOT DECIDE.
/// 2. A significant difference (adjusted p of at most α and an interval that excludes 1): FASTER or SLOWER
///    unless the whole interval lies within the margin or the noise floor; DIFFERENT BUT SMALL if it lies within
///    the margin and the noise floor does not exceed the margin. If the interval contains the edge of either,
///    the difference is significant but may not matter; see [`may_be_small`].
/// 3. No significant difference, both one-sided tests against the margin are significant at this cell's share of
///    α, and the noise floor does not exceed the margin: EQUIVALENT.
/// 4. Otherwise INCONCLUSIVE: with a noise floor above the margin because the host is too noisy, otherwise with
///    the number of rounds that `more` projects.
///
/// The margin is fixed before the run; the noise floor never widens it. Both are symmetric in the logarithm: from
/// 1/(1+margin) to 1+margin.
pub(super) fn decide(numbers: &Numbers, more: impl FnOnce() -> Option<u32>) -> Verdict {
    if numbers.smallest_p > numbers.share {
        return Verdict::CannotDecide {
            n: numbers.n,
            smallest_p: numbers.smallest_p,
            needed_p: numbers.share,
            least: numbers.least,
        };
    }
    let significant = numbers.adjusted_p <= numbers.alpha;
    let Some(ratio) = numbers.ratio else {
        return match significant {
            true => by_direction(numbers.direction),
            false => Verdict::inconclusive(None),
        };
    };
    let noisy = numbers.floor > numbers.margin;
    let within = |share| within_margin(ratio.interval, share);
    if significant && ratio.interval.is_some_and(|interval| !holds(interval, 1.0)) {
        if !within(numbers.margin.max(numbers.floor)) {
            return by_direction(ratio.value.ln());
        }
        if !noisy {
            return Verdict::DifferentButSmall;
        }
    } else if !noisy && numbers.equivalence_p.is_some_and(|p| p <= numbers.share) {
        return Verdict::Equivalent;
    }
    match noisy {
        true => Verdict::Inconclusive {
            more: None,
            reasons: vec![format!(
                "too noisy for a margin of {}, the noise floor is {}: more rounds, longer trials, a quieter host or \
                 a larger margin can help",
                percent(numbers.margin),
                percent(numbers.floor)
            )],
        },
        false => Verdict::inconclusive(more()),
    }
}

/// Whether a significant difference may still lie within the margin or the noise floor.
pub(super) fn may_be_small(numbers: &Numbers) -> bool {
    let share = numbers.margin.max(numbers.floor);
    let (low, high) = ends(share);
    let interval = numbers.ratio.and_then(|ratio| ratio.interval);
    interval.is_some_and(|interval| {
        !within_margin(Some(interval), share) && interval.0 <= high && interval.1 >= low
    })
}

/// Whether the whole interval lies within the margin.
pub(super) fn within_margin(interval: Option<(f64, f64)>, margin: f64) -> bool {
    let (low, high) = ends(margin);
    interval.is_some_and(|interval| low <= interval.0 && interval.1 <= high)
}

fn ends(margin: f64) -> (f64, f64) {
    (1.0 / (1.0 + margin), 1.0 + margin)
}

fn holds(interval: (f64, f64), value: f64) -> bool {
    interval.0 <= value && value <= interval.1
}

fn by_direction(direction: f64) -> Verdict {
    match direction > 0.0 {
        true => Verdict::Faster,
        false => Verdict::Slower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten rounds, one primary, a margin of 3 %, no noise floor.
    fn check(p: f64, ratio: (f64, f64, f64), equivalence_p: f64, verdict: Verdict) {
        check_above(0.0, p, ratio, equivalence_p, verdict);
    }

    fn check_above(
        floor: f64,
        p: f64,
        ratio: (f64, f64, f64),
        equivalence_p: f64,
        verdict: Verdict,
    ) {
        let numbers = Numbers {
            n: 10,
            ratio: Some(Estimated {
                value: ratio.1,
                interval: Some((ratio.0, ratio.2)),
                level: 0.95,
            }),
            direction: 0.0,
            adjusted_p: p,
            alpha: 0.05,
            share: 0.05,
            equivalence_p: Some(equivalence_p),
            smallest_p: 2.0 / 1024.0,
            least: 6,
            margin: 0.03,
            floor,
        };
        assert_eq!(decide(&numbers, || Some(7)), verdict, "{p} {ratio:?}");
        // Exchanging the sides exchanges faster and slower, and nothing else.
        let mirrored = Numbers {
            ratio: Some(Estimated {
                value: 1.0 / ratio.1,
                interval: Some((1.0 / ratio.2, 1.0 / ratio.0)),
                level: 0.95,
            }),
            ..numbers
        };
        let expected = match verdict {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            other => other,
        };
        assert_eq!(decide(&mirrored, || Some(7)), expected, "{p} {ratio:?}");
    }

    #[test]
    fn decides_by_p_interval_and_margin() {
        let undecided = Verdict::inconclusive(Some(7));
        check(0.002, (1.45, 1.66, 1.90), 1.0, Verdict::Faster);
        check(0.05, (1.45, 1.66, 1.90), 1.0, Verdict::Faster);
        check(0.002, (1.001, 1.02, 1.04), 0.3, Verdict::Faster); // contains the limit
        check(
            0.002,
            (1.001, 1.02, 1.029),
            0.01,
            Verdict::DifferentButSmall,
        );
        check(0.6, (0.99, 1.0, 1.01), 0.01, Verdict::Equivalent);
        check(0.06, (1.45, 1.66, 1.90), 1.0, undecided.clone()); // p above α
        check(0.04, (1.0, 1.02, 1.06), 0.4, undecided.clone()); // the interval contains 1
        check(0.4, (0.96, 1.02, 1.09), 0.3, undecided);
    }

    #[test]
    fn with_a_noise_floor_above_the_margin_only_larger_differences_count() {
        let noisy = || {
            Verdict::Inconclusive {
            more: None,
            reasons: vec![
                "too noisy for a margin of 3 %, the noise floor is 12 %: more rounds, longer trials, a quieter \
                 host or a larger margin can help"
                    .to_owned(),
            ],
        }
        };
        let check = |p, ratio, equivalence_p, verdict| {
            check_above(0.12, p, ratio, equivalence_p, verdict);
        };
        check(0.002, (1.45, 1.66, 1.90), 1.0, Verdict::Faster);
        check(0.002, (1.05, 1.10, 1.15), 1.0, Verdict::Faster); // contains the limit of the floor
        check(0.002, (1.04, 1.06, 1.11), 1.0, noisy());
        check(0.002, (1.001, 1.02, 1.029), 0.01, noisy());
        check(0.6, (0.99, 1.0, 1.01), 0.01, noisy());
        check(0.4, (0.90, 1.02, 1.15), 0.3, noisy());
        // A floor within the margin has no effect.
        check_above(0.03, 0.6, (0.99, 1.0, 1.01), 0.01, Verdict::Equivalent);
        let small = (1.001, 1.02, 1.029);
        check_above(0.02, 0.002, small, 0.01, Verdict::DifferentButSmall);
    }

    #[test]
    fn reports_that_a_difference_may_be_too_small_to_matter() {
        for (floor, interval, small) in [
            (0.0, (1.001, 1.04), true),
            (0.0, (0.95, 0.99), true),
            (0.0, (1.04, 1.05), false),
            (0.0, (1.001, 1.02), false), // certainly small
            (0.12, (1.04, 1.15), true),
            (0.12, (1.13, 1.15), false),
        ] {
            let numbers = Numbers {
                n: 10,
                ratio: Some(Estimated {
                    value: 1.0,
                    interval: Some(interval),
                    level: 0.95,
                }),
                direction: 0.0,
                adjusted_p: 0.01,
                alpha: 0.05,
                share: 0.05,
                equivalence_p: None,
                smallest_p: 0.001,
                least: 6,
                margin: 0.03,
                floor,
            };
            assert_eq!(may_be_small(&numbers), small, "{interval:?}");
        }
    }
}
