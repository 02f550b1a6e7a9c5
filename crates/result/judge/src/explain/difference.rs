//! How quantities differ between two sides: arithmetic means, because only these add up, with paired intervals.

use iodyno_model::ordered::distinct;
use iodyno_model::{
    Certainty, Costs, Estimated, Pairing, Quantity, SeriesUnit, Stack, StackOf, TimePart,
};
use iodyno_stats::{holm, mean_difference, mean_interval, simultaneous_tests};

use super::stack::{Split, Timed};

/// With fewer rounds, nothing is likely.
const MIN_ROUNDS: usize = 3;

/// The trials of both sides; if they are paired, in the order of the rounds.
#[derive(Debug, Clone)]
pub(super) struct Sides<'a> {
    pub(super) trials: [Vec<&'a Costs>; 2],
    pub(super) pairing: Pairing,
    pub(super) alpha: f64,
}

/// The values of a quantity in the trials of both sides.
#[derive(Debug, Clone)]
pub(super) struct Values {
    name: &'static str,
    words: String,
    unit: SeriesUnit,
    sides: [Vec<f64>; 2],
    /// [`Quantity::uncertain`].
    uncertain: (f64, f64),
}

impl<'a> Sides<'a> {
    /// All trials.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Costs> + Clone + '_ {
        self.trials.iter().flatten().copied()
    }

    /// Something of each trial.
    pub(super) fn each<T>(&self, of: impl Fn(&'a Costs) -> T) -> [Vec<T>; 2] {
        let side = |trials: &Vec<&'a Costs>| trials.iter().map(|it| of(it)).collect();
        self.trials.each_ref().map(side)
    }

    /// The values of a quantity; `None` if a trial has none.
    pub(super) fn values(
        &self,
        name: &'static str,
        words: &str,
        unit: SeriesUnit,
        of: impl Fn(&Costs) -> Option<f64>,
    ) -> Option<Values> {
        let side = |all: Vec<Option<f64>>| all.into_iter().collect::<Option<Vec<f64>>>();
        let [one, other] = self.each(of).map(side);
        Some(Values {
            name,
            words: words.to_owned(),
            unit,
            sides: [one?, other?],
            uncertain: (0.0, 0.0),
        })
    }

    /// The differences of some quantities, whose certainty is corrected for their number.
    pub(super) fn differences(&self, all: Vec<Values>) -> Vec<Quantity> {
        let level = 1.0 - self.alpha;
        let paired = self.pairing == Pairing::Paired;
        let p = match paired {
            true => {
                let rounds: Vec<Vec<f64>> = all.iter().map(Values::by_round).collect();
                simultaneous_tests(&rounds, level, 1).map(|tests| tests.p)
            }
            false => {
                let found = all
                    .iter()
                    .map(|it| mean_difference(&it.sides[0], &it.sides[1]));
                let p = found.map(|found| found.map_or(1.0, |found| found.p()));
                holm(&p.collect::<Vec<f64>>())
            }
        };
        let p = p.unwrap_or_else(|_| vec![1.0; all.len()]);
        let quantity = |(values, p): (Values, f64)| {
            let [one, other] = &values.sides;
            let interval = match paired {
                true => mean_interval(&values.by_round(), level),
                false => mean_difference(one, other).and_then(|found| found.interval(level)),
            }
            .ok();
            let sides = (mean(one), mean(other));
            let value = match paired {
                true => mean(&values.by_round()),
                false => sides.1 - sides.0,
            };
            let enough = one.len().min(other.len()) >= MIN_ROUNDS;
            let excludes = interval.is_some_and(|(low, high)| enough && (low > 0.0 || high < 0.0));
            let doubtful = value.abs() <= values.uncertain.0.max(values.uncertain.1);
            let certainty = match (excludes, p <= self.alpha, paired) {
                (true, true, true) if !doubtful => Certainty::Certain,
                // Something else may have changed between separate runs.
                (true, _, true) | (true, true, false) => Certainty::Likely,
                _ => Certainty::NotDecided,
            };
            Quantity {
                name: values.name,
                words: values.words,
                unit: values.unit,
                sides,
                difference: Estimated {
                    value,
                    interval,
                    level,
                },
                certainty,
                uncertain: values.uncertain,
            }
        };
        all.into_iter().zip(p).map(quantity).collect()
    }

    /// A stack of some times of each trial, and the differences of `further` values, which are corrected together. It has
    /// no parts that no trial has, except the unknown rest.
    pub(super) fn stack(
        &self,
        of: StackOf,
        splits: &[Vec<Split>; 2],
        times: fn(&Split) -> &Vec<Timed>,
        further: impl IntoIterator<Item = Values>,
    ) -> (Stack, Vec<Quantity>) {
        let all = || splits.iter().flatten().flat_map(times);
        let whole: f64 = all().map(|it| it.ns).sum();
        // A microsecond of a second is rounding.
        let is_some = |part: &TimePart| {
            let own = all().filter(|it| it.part == *part).map(|it| it.ns);
            part.is_rest() || own.sum::<f64>() > 1e-6 * whole
        };
        let parts = distinct(all().map(|it| it.part)).into_iter();
        let parts: Vec<TimePart> = parts.filter(is_some).collect();
        let sums = |part: Option<TimePart>, of: fn(&Timed) -> f64| {
            splits.each_ref().map(|side| -> Vec<f64> {
                let own = |split: &Split| {
                    let own = times(split).iter();
                    let own = own.filter(|it| part.is_none_or(|part| part == it.part));
                    own.map(of).sum()
                };
                side.iter().map(own).collect()
            })
        };
        let values = |part: Option<TimePart>| {
            let [one, other] = sums(part, |it| it.uncertain).map(|side| mean(&side));
            Values {
                name: part.map_or("whole", TimePart::name),
                words: part.map_or("together", TimePart::words).to_owned(),
                unit: SeriesUnit::Nanos,
                sides: sums(part, |it| it.ns),
                // The whole is measured.
                uncertain: part.map_or((0.0, 0.0), |_| (one, other)),
            }
        };
        let own = parts
            .iter()
            .map(|part| Some(*part))
            .chain([None])
            .map(values);
        let mut found = self.differences(own.chain(further).collect());
        let further = found.split_off(parts.len() + 1);
        let whole = found.pop().expect("the whole follows the parts");
        let parts = parts.into_iter().zip(found).collect();
        (Stack { of, parts, whole }, further)
    }
}

impl Values {
    fn by_round(&self) -> Vec<f64> {
        let [one, other] = &self.sides;
        let pairs = one.iter().zip(other);
        pairs.map(|(one, other)| other - one).collect()
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
