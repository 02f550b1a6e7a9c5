//! The values of one side of a cell: which trials count, and why others do not.

use std::collections::HashMap;

use iodyno_model::{Metric, Observation, Verdict};
use iodyno_units::counted;

use iodyno_model::ordered::entry;

/// Run and round, which are common to trials that are paired.
pub(crate) type Together<'a> = (&'a str, u32);

/// A trial that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted<'a> {
    /// Run and round; `None` if rounds do not apply.
    pub(crate) together: Option<Together<'a>>,
    /// In the metric's unit.
    pub(crate) value: f64,
    /// The trial.
    pub(crate) observation: &'a Observation,
}

/// The trials of one side by one metric.
#[derive(Debug, Clone, Default)]
pub(super) struct Gathered<'a> {
    /// In the order of rounds, or as read.
    pub(super) counted: Vec<Counted<'a>>,
    /// The reasons why other trials do not count.
    pub(super) left_out: Vec<String>,
}

impl Gathered<'_> {
    /// The values of the trials that count.
    pub(super) fn values(&self) -> Vec<f64> {
        self.counted.iter().map(|counted| counted.value).collect()
    }

    /// The side with values of its own metric converted to the row's: if the row counts speeds, times count as
    /// their inverse.
    pub(super) fn counted_as(mut self, own: &Metric, row: &Metric) -> Self {
        if own.better != row.better {
            for counted in &mut self.counted {
                counted.value = counted.value.recip();
            }
        }
        self
    }

    /// Why a side has no values.
    pub(super) fn why_empty(&self, column: &str) -> String {
        match by_reason(&self.left_out).as_slice() {
            [] => format!("{column} {}", Verdict::NO_TRIAL),
            [first] => format!("{column}: {first}"),
            [first, rest @ ..] => {
                let others = counted(rest.len() as u64, "other reason");
                format!("{column}: {first} (and {others})")
            }
        }
    }
}

/// The trials of both sides that count; `paired`: those of the rounds that both have, in the same order.
pub(super) fn both<'a>(
    baseline: &Gathered<'a>,
    candidate: &Gathered<'a>,
    paired: bool,
) -> (Vec<Counted<'a>>, Vec<Counted<'a>>) {
    if !paired {
        return (baseline.counted.clone(), candidate.counted.clone());
    }
    let partner = |one: &Counted<'a>| {
        let mut others = candidate.counted.iter();
        let partner = others.find(|other| one.together.is_some() && other.together == one.together);
        partner.map(|partner| (*one, *partner))
    };
    baseline.counted.iter().filter_map(partner).unzip()
}

/// The trials of a side that count by `metric`: none if any trial withholds it. If a round was repeated, its last
/// usable trial counts.
pub(super) fn gather<'a>(
    trials: impl Iterator<Item = &'a Observation>,
    metric: &Metric,
) -> Gathered<'a> {
    let observations: Vec<&Observation> = trials.collect();
    let mut side = Gathered::default();
    let mut places: HashMap<Together<'a>, usize> = HashMap::new();
    let mut runs: Vec<&str> = Vec::new();
    for &observation in &observations {
        let run = observation.dimension(Observation::RUN);
        if !runs.contains(&run) {
            runs.push(run);
        }
        let together = observation.round.map(|round| (run, round));
        let counted = match usable(observation, metric) {
            Ok(value) => Counted {
                together,
                value,
                observation,
            },
            Err(why) => {
                side.left_out.push(at_round(together, &why));
                continue;
            }
        };
        let place = together.and_then(|together| places.get(&together).copied());
        match place {
            Some(place) => {
                side.left_out.push(at_round(together, "made again later"));
                side.counted[place] = counted;
            }
            None => {
                if let Some(together) = together {
                    places.insert(together, side.counted.len());
                }
                side.counted.push(counted);
            }
        }
    }
    if let Some(why) = withheld(&observations, metric) {
        side.counted.clear();
        side.left_out = vec![why];
        return side;
    }
    let order = |run: &str| runs.iter().position(|known| *known == run);
    // Stable sort: trials without a round keep their order.
    side.counted.sort_by_key(|counted| {
        let together = counted.together;
        together.map(|(run, round)| (order(run), round))
    });
    side
}

/// Why a metric is withheld for a whole side: some of its trials withhold it. Using only the others would select
/// trials by their values.
fn withheld(side: &[&Observation], metric: &Metric) -> Option<String> {
    let usable = side.iter().filter(|o| o.unusable.is_none());
    let reasons: Vec<&str> = usable
        .clone()
        .filter_map(|o| o.withheld.iter().find(|it| it.metric == metric.name))
        .map(|withheld| withheld.why.as_str())
        .collect();
    let first = reasons.first()?;
    Some(format!(
        "{} withheld in {} of {}: {first}",
        metric.name,
        reasons.len(),
        super::words::trials(usable.count())
    ))
}

/// Each reason of [`Gathered::left_out`] once, with its rounds: `rounds 1 to 3, 7: failed: EIO`.
pub(super) fn by_reason(left_out: &[String]) -> Vec<String> {
    // The text before the round, the reason, and the rounds.
    let mut reasons: Vec<((&str, &str), Vec<u64>)> = Vec::new();
    for text in left_out {
        let found = text.find("round ").and_then(|start| {
            let (number, why) = text[start + "round ".len()..].split_once(": ")?;
            Some((&text[..start], why, number.parse::<u64>().ok()?))
        });
        let (before, why, round) = match found {
            Some((before, why, round)) => (before, why, vec![round]),
            None => (text.as_str(), "", Vec::new()),
        };
        entry(&mut reasons, (before, why)).extend(round);
    }
    let text = |((before, why), mut rounds): ((&str, &str), Vec<u64>)| {
        // A round that was repeated is there twice.
        rounds.sort_unstable();
        rounds.dedup();
        match rounds.as_slice() {
            [] => before.to_owned(),
            [round] => format!("{before}round {round}: {why}"),
            rounds => format!("{before}rounds {}: {why}", super::words::ranges(rounds)),
        }
    };
    reasons.into_iter().map(text).collect()
}

fn at_round(together: Option<Together>, why: &str) -> String {
    match together {
        Some((_, round)) => format!("round {}: {why}", u64::from(round) + 1),
        None => why.to_owned(),
    }
}

/// The trial's value, or the reason why it does not count.
fn usable(observation: &Observation, metric: &Metric) -> Result<f64, String> {
    if let Some(why) = &observation.unusable {
        return Err(why.clone());
    }
    let Some(figure) = observation.figure(&metric.name) else {
        return Err(format!("no {}", metric.name));
    };
    if figure.metric.unit != metric.unit || figure.metric.better != metric.better {
        return Err(format!("{} is in another unit", metric.name));
    }
    if !figure.value.is_finite() {
        return Err(format!("{} is not a number", metric.name));
    }
    Ok(figure.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_given_once_with_its_rounds() {
        let left_out = [
            "round 1: failed: EIO",
            "round 2: interrupted",
            "round 3: failed: EIO",
            "b: round 4: failed: EIO",
            "no iops",
            "no iops",
        ];
        let left_out = left_out.map(str::to_owned);
        assert_eq!(
            by_reason(&left_out),
            [
                "rounds 1, 3: failed: EIO",
                "round 2: interrupted",
                "b: round 4: failed: EIO",
                "no iops"
            ]
        );
    }

    #[test]
    fn further_reasons_are_counted() {
        let why = |reasons: &[&str]| {
            let side = Gathered {
                left_out: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
                ..Gathered::default()
            };
            side.why_empty("s")
        };
        assert_eq!(why(&["12.6 MiB are free"]), "s: 12.6 MiB are free");
        assert_eq!(
            why(&["12.6 MiB are free", "it was interrupted"]),
            "s: 12.6 MiB are free (and 1 other reason)"
        );
    }
}
