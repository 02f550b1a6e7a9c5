//! A claim recomputed from the trials that agree best with it.

use iodyno_model::{Claim, ClaimRules, Figure, Observation};
use iodyno_stats::{mann_whitney, mean_difference};

use super::matching::{Trials, has, label, matching, metrics, partitions};
use super::number::{Number, share_agrees};
use super::summary::{Reading, Summary, summary};
use crate::compare::grouping::values;

/// The comparison of a claim with the trials.
pub(super) struct Row<'a> {
    /// The trials that its table can refer to.
    pub(super) pool: Vec<&'a Observation>,
    /// The best interpretation of the claim, or the reason why there is none.
    pub(super) attempt: Result<Attempt<'a>, String>,
}

impl<'a> Row<'a> {
    pub(super) fn of(claim: &Claim, claims: &[Claim], usable: &[&'a Observation]) -> Row<'a> {
        let of_source = |o: &&&Observation| {
            let source = o.source.as_ref().map(|at| &at.source);
            source == Some(&claim.at.source)
        };
        let mut pool: Vec<&Observation> = usable.iter().filter(of_source).copied().collect();
        if pool.is_empty() {
            pool = usable.to_vec();
        }
        pool.retain(|o| {
            claim
                .subject
                .keys
                .iter()
                .all(|(key, value)| has(o, key, value))
        });
        let attempt = best_attempt(claim, claims, &pool);
        Row { pool, attempt }
    }
}

/// Tries each division of the trials into sides and each metric in the claim's unit, and returns the one that agrees
/// best.
fn best_attempt<'a>(
    claim: &Claim,
    claims: &[Claim],
    pool: &[&'a Observation],
) -> Result<Attempt<'a>, String> {
    let trials = matching(claim, claims, pool);
    let label = label(claim);
    if pool.is_empty() {
        return Err("there are no trials to check it against".to_owned());
    }
    if trials.is_empty() && !claim.subject.geomean {
        return Err(format!("there are no trials of {label}"));
    }
    let metrics = metrics(&trials, claim);
    if metrics.is_empty() && !claim.subject.geomean {
        return Err(format!("the trials of {label} have no {}", claim.unit));
    }
    let partitions = partitions(claim, &trials, pool);
    if partitions.is_empty() {
        let configurations = values(pool.iter().copied(), Observation::CONFIGURATION);
        return Err(format!(
            "the row has {}, the trials have {}: which is which is not known",
            iodyno_units::counted(claim.sides.len() as u64, "side"),
            iodyno_units::counted(configurations.len() as u64, "configuration")
        ));
    }
    // The first of the best ones: a rate as printed has precedence over a derived one.
    let mut attempts = Vec::new();
    for sides in &partitions {
        for (metric, scale) in &metrics {
            for reading in Reading::of(claim) {
                attempts.push(Attempt::of(claim, sides, (metric, *scale), *reading));
            }
        }
    }
    let best = attempts.into_iter().rev().max_by_key(Attempt::agreeing);
    best.ok_or_else(|| format!("there are no trials of {label}"))
}

/// A claim recomputed from one metric of some trials.
pub(super) struct Attempt<'a> {
    pub(super) sides: Vec<Recomputed<'a>>,
    /// The p of each test that the tool offers, the default one first.
    pub(super) ps: Vec<f64>,
    /// A t test of the two sides is defined.
    pub(super) has_t: bool,
    pub(super) delta_agrees: bool,
}

pub(super) struct Recomputed<'a> {
    pub(super) name: String,
    pub(super) figures: Vec<(&'a Observation, &'a Figure)>,
    /// One printed unit in the unit of the figures.
    pub(super) scale: f64,
    pub(super) summary: Option<Summary>,
    /// Number of summarised values.
    pub(super) counted: usize,
    pub(super) count_agrees: bool,
    pub(super) text: Option<String>,
    pub(super) agrees: bool,
}

impl<'a> Attempt<'a> {
    fn of(
        claim: &Claim,
        sides: &[Trials<'a>],
        (metric, scale): (&str, f64),
        reading: Reading,
    ) -> Attempt<'a> {
        let sides: Vec<Recomputed> = sides
            .iter()
            .zip(&claim.sides)
            .enumerate()
            .map(|(index, ((name, trials), printed))| {
                let figures: Vec<(&Observation, &Figure)> = trials
                    .iter()
                    .filter_map(|o| Some((*o, o.figure(metric)?)))
                    .filter(|(_, figure)| reading.takes(figure.value))
                    .collect();
                let numbers: Vec<f64> = figures
                    .iter()
                    .map(|(_, figure)| figure.value / scale)
                    .collect();
                let summary = summary(&numbers, claim, reading);
                let counted = summary.as_ref().map_or(0, |it| it.values.len());
                let number = Number::of(printed, claim);
                Recomputed {
                    name: name.clone(),
                    figures,
                    scale,
                    counted,
                    count_agrees: claim.n.get(index).is_none_or(|n| *n as usize == counted),
                    agrees: match (&summary, &number) {
                        (Some(summary), Some(number)) => number.agrees(summary),
                        _ => false,
                    },
                    text: summary
                        .as_ref()
                        .zip(number)
                        .map(|(summary, number)| number.print(summary, claim.subject.rules)),
                    summary,
                }
            })
            .collect();
        let summaries: Vec<&Summary> = sides
            .iter()
            .filter_map(|side| side.summary.as_ref())
            .collect();
        let (ps, has_t, delta_agrees) = match summaries[..] {
            [old, new] => (
                ps(old, new, claim),
                welch(&old.values, &new.values).is_some(),
                delta_agrees(&claim.delta, old.center, new.center),
            ),
            _ => (Vec::new(), false, false),
        };
        Attempt {
            sides,
            ps,
            has_t,
            delta_agrees,
        }
    }

    fn agreeing(&self) -> usize {
        let agreeing =
            |side: &Recomputed| usize::from(side.agrees) + usize::from(side.count_agrees);
        self.sides.iter().map(agreeing).sum()
    }
}

/// The p of each test that the tool offers.
fn ps(old: &Summary, new: &Summary, claim: &Claim) -> Vec<f64> {
    let ranks = mann_whitney(&old.values, &new.values)
        .ok()
        .map(|test| [test.p, test.p_benchstat]);
    let mut ps: Vec<f64> = ranks.into_iter().flatten().collect();
    if claim.subject.rules == ClaimRules::Means {
        ps.extend(welch(&old.values, &new.values));
    }
    ps
}

/// The two-sided p of Welch's t test; `None` with fewer than two values per side or without variance.
fn welch(old: &[f64], new: &[f64]) -> Option<f64> {
    let difference = mean_difference(old, new).ok()?;
    (difference.error > 0.0).then(|| difference.p())
}

fn delta_agrees(delta: &str, old: f64, new: f64) -> bool {
    match delta {
        "~" | "" => true,
        "?" => old == 0.0,
        other if new == old => share_agrees(other, 0.0),
        other => share_agrees(other, (new / old - 1.0) * 100.0),
    }
}
