//! Why one side of a comparison is faster: parts of the ratio, the series that differ, and candidates for the causes.
//!
//! The modules in the order of use: `costs` reduces a trial to what its ops cost; `split` splits the time of an op and
//! distributes the ratio over the parts; `quantity` names them; `contrast` tests each over the trials, paired like the
//! verdict; `causes` finds facts and series that can be behind a part; `identities` checks equations between counters;
//! `family` finds what members of a family have in common.
//!
//! Invariants: the parts of a ratio add up to it, with a rest that is printed; exchanging the sides inverts every
//! factor and changes no share; a cause is a candidate. It does not depend on the verdict, and is given where a
//! comparison is not comparable as well.

mod causes;
mod contrast;
mod costs;
mod family;
mod identities;
mod quantity;
mod split;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use iodyno_model::{
    Better, Costs, Difference, Estimated, Explained, Explanation, Metric, Observation, Pairing,
    Question, Term, Unit, Verdict,
};
use iodyno_stats::{Sample, hodges_lehmann};

pub use costs::costs;

use crate::compare::{Cell, CompareError, Counted, compared};
use crate::observe::TRACED;
use contrast::{Values, estimated, tested};
use iodyno_model::ordered::{distinct, entry};
use quantity::{Quantity, SERIES};
use split::{Contribution, Frame, Mode, Part, contributions, parts};

/// A smaller contribution to the logarithm of the ratio is not a term.
const MIN_CONTRIBUTION: f64 = 0.005;

/// Explains every row and candidate of a comparison by the row's first metric. `costs` has those of each observation,
/// in the same order; `None`: imported trials, or trials without ops.
///
/// Errors: those of [`crate::compare`].
pub fn explain(
    name: &str,
    observations: &[Observation],
    costs: &[Option<Costs>],
    question: &Question,
) -> Result<Explanation, CompareError> {
    let (comparison, cells) = compared(name, observations, question)?;
    let by_trial: HashMap<*const Observation, &Costs> = observations
        .iter()
        .map(std::ptr::from_ref)
        .zip(costs)
        .filter_map(|(trial, costs)| Some((trial, costs.as_ref()?)))
        .collect();
    let explained = cells.iter().map(|cell| {
        let row = &comparison.rows[cell.place.0];
        let result = &row.cells[cell.place.1];
        let head = Explained {
            row: row.name.clone(),
            columns: (row.baseline.column.clone(), result.side.column.clone()),
            metric: row.metric.clone(),
            ratio: result.ratio,
            verdict: result.verdict.clone(),
            by_numbers: result.by_numbers.clone(),
            pairing: result.pairing,
            n: result.n,
            tested: 0,
            rounds_needed: None,
            terms: Vec::new(),
            explained: None,
            series: Vec::new(),
            other_facts: Vec::new(),
            identities: Vec::new(),
            lacking: Vec::new(),
            without: None,
        };
        of_cell(cell, head, &by_trial, question)
    });
    let explained: Vec<Explained> = explained.collect();
    Ok(Explanation {
        contradictions: Vec::new(),
        name: comparison.name.clone(),
        families: family::families(&comparison, &explained),
        comparisons: explained,
    })
}

/// A trial with its value and its costs.
#[derive(Clone, Copy)]
struct Costed<'a> {
    value: f64,
    costs: &'a Costs,
}

fn observed<'a>(side: &[Counted<'a>]) -> Vec<&'a Observation> {
    side.iter().map(|counted| counted.observation).collect()
}

fn of_cell(
    cell: &Cell,
    head: Explained,
    by_trial: &HashMap<*const Observation, &Costs>,
    question: &Question,
) -> Explained {
    let costed = |side: &[Counted]| -> Vec<Option<(f64, *const Observation)>> {
        let trials = side.iter();
        trials
            .map(|counted| {
                let key = std::ptr::from_ref(counted.observation);
                by_trial.contains_key(&key).then_some((counted.value, key))
            })
            .collect()
    };
    let mut differing = cell.differing.clone();
    differing.extend(causes::one_sided(
        &observed(&cell.sides.0),
        &observed(&cell.sides.1),
    ));
    let without = |head: Explained, why: String| Explained {
        other_facts: cell.differing.iter().map(causes::cause).collect(),
        without: Some(why),
        ..head
    };
    let (baseline, candidate) = (costed(&cell.sides.0), costed(&cell.sides.1));
    let columns = head.columns.clone();
    if baseline.is_empty() || candidate.is_empty() {
        let why = match &head.verdict {
            Verdict::NoData { why } => why.clone(),
            _ => "a side has no values".to_owned(),
        };
        return without(head, why);
    }
    let lacking: Vec<(&[Counted], &str)> = [
        (&cell.sides.0, &baseline, &columns.0),
        (&cell.sides.1, &candidate, &columns.1),
    ]
    .into_iter()
    .filter(|(_, known, _)| known.iter().any(Option::is_none))
    .map(|(counted, _, column)| (counted.as_slice(), column.as_str()))
    .collect();
    if !lacking.is_empty() {
        let of: Vec<&str> = lacking.iter().map(|(_, column)| *column).collect();
        let of = of.join(" and ");
        let mut all = lacking.iter().flat_map(|(counted, _)| *counted);
        let why = match all.any(|it| it.observation.source.is_some()) {
            true => format!(
                "the trials of {of} were imported: they have no CPU times, device counters or telemetry; measure them with \
                 `iodyno run`, or `iodyno fio`, which takes the same job file"
            ),
            false => format!("a trial of {of} has no ops"),
        };
        return without(head, why);
    }
    if cell.differing.iter().any(|fact| fact.name == TRACED) {
        let why =
            "one side was traced (`--trace block`), which costs CPU time; trace both or neither";
        return without(head, why.to_owned());
    }
    let found = |side: Vec<Option<(f64, *const Observation)>>| -> Vec<Costed<'_>> {
        let known = side.into_iter().flatten();
        let known = known.filter_map(|(value, key)| {
            let costs = by_trial.get(&key)?;
            Some(Costed { value, costs })
        });
        known.collect()
    };
    let (baseline, candidate) = (found(baseline), found(candidate));
    Sides {
        baseline,
        candidate,
        pairing: head.pairing,
        metric: head.metric.clone(),
        alpha: question.alpha,
    }
    .explained(head, &differing, question.margin)
}

/// The trials of both sides; if they are paired, in the order of the rounds.
struct Sides<'a> {
    baseline: Vec<Costed<'a>>,
    candidate: Vec<Costed<'a>>,
    pairing: Pairing,
    metric: Metric,
    alpha: f64,
}

impl Sides<'_> {
    fn explained(&self, head: Explained, differing: &[Difference], margin: f64) -> Explained {
        let (baseline, candidate) = (costs_of(&self.baseline), costs_of(&self.candidate));
        let mode = Mode::of(frame(&self.metric), &baseline, &candidate);
        let (first, second) = (
            self.split(&self.baseline, mode),
            self.split(&self.candidate, mode),
        );
        let splits = |quantity: Quantity| {
            let mut all = first.iter().chain(&second);
            all.all(|(parts, _)| {
                let part = parts.iter().find(|part| part.quantity == quantity);
                part.is_some_and(|part| {
                    let sound =
                        |factor: &(Quantity, f64, f64)| factor.1 > 0.0 && factor.1.is_finite();
                    !part.factors.is_empty() && part.factors.iter().all(sound)
                })
            })
        };
        let rounds = self.contributions(&first, &second, &splits);
        let quantities = quantities(&rounds);
        let mut values: Vec<Values> = Vec::new();
        for quantity in &quantities {
            values.push(
                self.values(*quantity, &first, &second, &|of, split: &Split| {
                    value_of(of, split, &splits)
                }),
            );
        }
        for (place, series) in SERIES.iter().enumerate() {
            let known = quantities.iter().any(|it| it.name() == series.name);
            let of = |costed: &Costed| (series.value)(costed.costs);
            let sides = (all_of(&self.baseline, of), all_of(&self.candidate, of));
            if let (false, (Some(one), Some(other))) = (known, sides) {
                values.push(self.beside(Quantity::Series(place), one, other));
            }
        }
        let tests = tested(&values, self.pairing, self.alpha);
        let total = self.total(&rounds, 1.0 - self.alpha);
        // With unpaired trials, only the ratio has an interval; its parts have none.
        let of_ratio = head.ratio.and_then(|ratio| ratio.interval);
        let of_ratio = of_ratio.map(|(low, high)| (low.ln(), high.ln()));
        let differs = match total.interval.or(of_ratio) {
            Some((low, high)) => low > 0.0 || high < 0.0,
            None => total.value.abs() > (1.0 + margin).ln(),
        };
        let mut terms: Vec<Term> = Vec::new();
        for quantity in &quantities {
            let mut contrasts = tests.contrasts.iter();
            let Some((_, contrast)) = contrasts.find(|(own, _)| own == quantity) else {
                continue;
            };
            let level = contrast
                .change
                .map_or(1.0 - self.alpha, |change| level_of(&change));
            let own = self.estimate(&amounts(&rounds, *quantity), level);
            if own.value.abs() < MIN_CONTRIBUTION {
                continue;
            }
            let mut contrast = contrast.clone();
            if *quantity == Quantity::Rest {
                contrast.words = rest_in_words(&self.metric);
            }
            if *quantity == Quantity::OtherWaits && !mode.devices {
                // The waits may be at devices whose counters are not known.
                contrast.words = "waits of a worker per op, at the devices or above".to_owned();
            }
            terms.push(Term {
                causes: causes::behind(*quantity, own.value < 0.0, differing, &tests.contrasts),
                contrast,
                factor: Estimated {
                    value: own.value.exp(),
                    interval: own.interval.map(|(low, high)| (low.exp(), high.exp())),
                    level: own.level,
                },
                share: differs.then(|| own.value / total.value),
                open: quantity.is_open(),
            });
        }
        terms.sort_by(|one, other| order(other).total_cmp(&order(one)));
        let reasons = terms.iter().filter(|term| term.explains());
        let explained = reasons.filter_map(|term| term.share).sum::<f64>();
        let in_terms = |name: &str| terms.iter().any(|term| term.contrast.name == name);
        let mut series: Vec<_> = tests.contrasts.iter().collect();
        series.retain(|(_, contrast)| {
            contrast.differs && causes::is_notable(contrast) && !in_terms(&contrast.name)
        });
        series.sort_by(|(_, one), (_, other)| {
            let p = |it: &iodyno_model::Contrast| it.adjusted_p.unwrap_or(1.0);
            p(one).total_cmp(&p(other))
        });
        let acts = |fact: &Difference| {
            let mut named = quantities.iter().filter(|it| in_terms(&it.name()));
            named.any(|quantity| causes::concerns(fact, *quantity))
        };
        let others = differing.iter().filter(|fact| !acts(fact));
        Explained {
            tested: u32::try_from(tests.parts).unwrap_or(u32::MAX),
            rounds_needed: tests.needed,
            explained: differs.then_some(explained),
            series: series.into_iter().map(|(_, it)| it.clone()).collect(),
            other_facts: others.map(causes::cause).collect(),
            identities: identities::identities(&baseline, &candidate),
            lacking: lacking(&baseline, &candidate, mode, self.pairing),
            terms,
            ..head
        }
    }

    /// The parts of each trial's time, and the factors beside it.
    fn split(&self, side: &[Costed], mode: Mode) -> Vec<Split> {
        let each = side.iter();
        each.map(|costed| (parts(costed.costs, mode), self.roots(costed, mode)))
            .collect()
    }

    /// The factors of a trial's speed besides the time of an op: their product with 1 ÷ time is its speed.
    fn roots(&self, costed: &Costed, mode: Mode) -> Vec<(Quantity, f64)> {
        let costs = costed.costs;
        let whole = split::whole_ns(costs, mode).max(f64::MIN_POSITIVE);
        let mut roots = Vec::new();
        if mode.frame == Frame::Rate {
            roots.push((Quantity::Workers, costs.workers));
            if self.metric.unit == Unit::BytesPerSecond {
                roots.push((Quantity::Bytes, costs.bytes.iter().sum()));
            }
            if self.metric.name == Metric::COMPLETION {
                // Less work is done sooner.
                roots.push((Quantity::Work, costs.ops.recip()));
            }
        }
        let speed = match self.metric.better {
            Better::Higher => costed.value,
            Better::Lower => costed.value.recip(),
        };
        let known: f64 = roots.iter().map(|root| root.1).product();
        let unit = match (mode.frame, self.metric.unit == Unit::Nanos) {
            // Rates are per second, times in ns.
            (Frame::Rate, false) => 1e9,
            _ => 1.0,
        };
        roots.push((Quantity::Rest, speed / (known * unit / whole)));
        roots
    }

    /// The contributions of each round, or of each pair of trials.
    fn contributions(
        &self,
        first: &[Split],
        second: &[Split],
        splits: &dyn Fn(Quantity) -> bool,
    ) -> Vec<Vec<Contribution>> {
        let of_pair = |(one, other): (&Split, &Split)| {
            let mut found = contributions(&one.0, &other.0, splits);
            for (own, theirs) in one.1.iter().zip(&other.1) {
                let amount = (theirs.1 / own.1).ln();
                *entry(&mut found, own.0) += amount;
            }
            found.retain(|(_, amount)| amount.is_finite());
            found
        };
        match self.pairing {
            Pairing::Paired => first.iter().zip(second).map(of_pair).collect(),
            Pairing::Unpaired | Pairing::Runs => {
                let pairs = first.iter().take(MAX_PER_SIDE);
                let pairs = pairs.flat_map(|one| {
                    let others = second.iter().take(MAX_PER_SIDE);
                    others.map(move |other| (one, other))
                });
                pairs.map(of_pair).collect()
            }
        }
    }

    /// The logarithm of the ratio.
    fn total(&self, rounds: &[Vec<Contribution>], level: f64) -> Estimated {
        let sums: Vec<f64> = (rounds.iter())
            .map(|found| found.iter().map(|(_, amount)| amount).sum())
            .collect();
        self.estimate(&sums, level)
    }

    /// Of rounds, the Hodges–Lehmann estimate; of pairs of unpaired trials the median, without an interval.
    fn estimate(&self, amounts: &[f64], level: f64) -> Estimated {
        let none = Estimated {
            value: 0.0,
            interval: None,
            level,
        };
        match self.pairing {
            Pairing::Paired => hodges_lehmann(amounts, level)
                .map_or(none, |estimate| estimated(estimate, level, |value| value)),
            Pairing::Unpaired | Pairing::Runs => Estimated {
                value: Sample::new(amounts).map_or(0.0, |sample| sample.median()),
                ..none
            },
        }
    }

    fn values(
        &self,
        quantity: Quantity,
        first: &[Split],
        second: &[Split],
        of: &dyn Fn(Quantity, &Split) -> f64,
    ) -> Values {
        let each = |side: &[Split]| side.iter().map(|split| of(quantity, split)).collect();
        self.beside(quantity, each(first), each(second))
    }

    fn beside(&self, quantity: Quantity, baseline: Vec<f64>, candidate: Vec<f64>) -> Values {
        let metric = |side: &[Costed]| side.iter().map(|costed| costed.value).collect();
        Values {
            quantity,
            baseline,
            candidate,
            metric: (metric(&self.baseline), metric(&self.candidate)),
        }
    }
}

/// Of more unpaired trials of a side, the first ones give the parts of the ratio: their number of pairs is its square.
const MAX_PER_SIDE: usize = 100;

/// The parts of a trial's time, and the factors of its speed beside it.
type Split = (Vec<Part>, Vec<(Quantity, f64)>);

fn costs_of<'a>(side: &[Costed<'a>]) -> Vec<&'a Costs> {
    side.iter().map(|costed| costed.costs).collect()
}

fn all_of(side: &[Costed], of: impl Fn(&Costed) -> Option<f64>) -> Option<Vec<f64>> {
    side.iter().map(of).collect()
}

/// Latencies are split themselves; rates, and the completion of a fixed amount of work, by the time of a worker.
fn frame(metric: &Metric) -> Frame {
    let latency = metric.unit == Unit::Nanos && metric.name != Metric::COMPLETION;
    match latency {
        true => Frame::Latency,
        false => Frame::Rate,
    }
}

/// The quantities of all contributions, in the order of the parts.
fn quantities(rounds: &[Vec<Contribution>]) -> Vec<Quantity> {
    distinct(rounds.iter().flatten().map(|(quantity, _)| *quantity))
}

fn amounts(rounds: &[Vec<Contribution>], quantity: Quantity) -> Vec<f64> {
    let of_round = |found: &Vec<Contribution>| {
        let own = found.iter().find(|(known, _)| *known == quantity);
        own.map_or(0.0, |(_, amount)| *amount)
    };
    rounds.iter().map(of_round).collect()
}

/// The value of a quantity in a trial.
fn value_of(quantity: Quantity, split: &Split, splits: &dyn Fn(Quantity) -> bool) -> f64 {
    let (parts, roots) = split;
    // Work counts as a speed among the factors.
    if let Some((_, value)) = roots.iter().find(|(known, _)| *known == quantity) {
        return match quantity {
            Quantity::Work => value.recip(),
            _ => *value,
        };
    }
    if let Some(part) = parts.iter().find(|part| part.quantity == quantity) {
        return part.ns;
    }
    let factors = parts.iter().filter(|part| splits(part.quantity));
    let mut factors = factors.flat_map(|part| &part.factors);
    let found = factors.find(|(known, _, _)| *known == quantity);
    found.map_or(0.0, |(_, value, _)| *value)
}

fn level_of(change: &iodyno_model::Change) -> f64 {
    match change {
        iodyno_model::Change::Ratio(it) | iodyno_model::Change::Difference(it) => it.level,
    }
}

/// What the identity of time leaves over, for this metric.
fn rest_in_words(metric: &Metric) -> String {
    match (frame(metric), metric.name == Metric::COMPLETION) {
        (Frame::Latency, _) => format!("mean latency of all ops ÷ {}", metric.name),
        (Frame::Rate, true) => "share of the measured time in the completion time".to_owned(),
        (Frame::Rate, false) => format!("{} ÷ rate by the identities", metric.name),
    }
}

/// Terms that account for the ratio come first, by their share; without a difference, by their size.
fn order(term: &Term) -> f64 {
    let size = term.factor.value.ln().abs();
    term.share.unwrap_or(size)
}

/// What is not known, and what would provide it.
fn lacking(baseline: &[&Costs], candidate: &[&Costs], mode: Mode, pairing: Pairing) -> Vec<String> {
    let all = || baseline.iter().chain(candidate);
    let mut lacking = Vec::new();
    let mut add = |is: bool, text: &str| {
        if is {
            lacking.push(text.to_owned());
        }
    };
    let simulated = all().any(|it| it.simulated);
    add(
        simulated,
        "CPU time and telemetry of the host: simulated trials have none",
    );
    add(
        simulated && !mode.devices,
        "the simulated devices: only disks and mirrors are counted, and only by newer versions of iodyno",
    );
    add(
        !mode.cpu && !simulated,
        "CPU time of the workers: the trials are too short",
    );
    add(
        !mode.devices && !simulated,
        "counters of devices: a side is not on block devices, or the host does not count them",
    );
    add(
        !simulated && all().any(|it| it.interrupts.is_none()),
        "telemetry of the host (interrupts, other processes, memory): it was not sampled, or the trials are shorter than a sample \
         (`--sample-every 100ms`)",
    );
    add(
        mode.devices && all().any(|it| it.traced.is_none()),
        "time in queue and device apart: `--trace block`",
    );
    add(
        pairing != Pairing::Paired,
        "common rounds: the trials are of different runs, and what changed on the host between them is part of every difference; \
         interleave both in one run",
    );
    lacking
}
