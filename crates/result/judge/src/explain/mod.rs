//! Why one side of a comparison is faster: ops in flight and the time of an op, the parts of that time, and candidates
//! for the causes.
//!
//! The modules in the order of use: `costs` reduces a trial to what its ops cost; `stack` splits the time of an op;
//! `difference` compares quantities over the trials, paired like the verdict; `series` lists what else is measured;
//! `causes` selects facts and series by what they act on (`acts`); `family` adds up the members of a family.
//! `limit` names the largest part of repeated trials that are compared with nothing.
//!
//! Invariants: the parts of a time add up to it, with a rest that is printed; exchanging the sides inverts every
//! difference and changes no part; a cause is a candidate. It does not depend on the verdict, and is given where a
//! comparison is not comparable as well.

mod acts;
mod causes;
mod costs;
mod difference;
mod family;
mod limit;
mod series;
mod stack;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use iodyno_model::{
    Costs, Difference, Explained, Explanation, Metric, Observation, Pairing, Quantity, Question,
    Reasons, SeriesUnit, Stack, StackOf, TimePart, Unit, Verdict,
};

pub use costs::costs;
pub use limit::limits;

use crate::compare::{Cell, CompareError, Counted, compared};
use crate::observe::TRACED;
use acts::{Acts, FLIGHT};
use difference::{Sides, Values};
use series::{SERIES, Series};
use stack::{Form, Split, split};

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
    let (mut all, mut explained) = (Vec::new(), Vec::new());
    for cell in &cells {
        let row = &comparison.rows[cell.place.0];
        let result = &row.cells[cell.place.1];
        let mut head = Explained {
            row: row.name.clone(),
            columns: (row.baseline.column.clone(), result.side.column.clone()),
            metric: row.metric.clone(),
            ratio: result.ratio,
            verdict: result.verdict.clone(),
            by_numbers: result.by_numbers.clone(),
            pairing: result.pairing,
            n: result.n,
            reasons: Err(String::new()),
            lacking: Vec::new(),
        };
        let sides = sides(cell, &head, &by_trial, question.alpha);
        head.lacking = sides.as_ref().map(lacking).unwrap_or_default();
        head.reasons = sides.clone().map(|sides| {
            let mut facts = cell.differing.clone();
            facts.extend(causes::one_sided(
                &observed(&cell.sides.0),
                &observed(&cell.sides.1),
            ));
            reasons(&sides, &head, &facts)
        });
        all.push(sides.ok());
        explained.push(head);
    }
    Ok(Explanation {
        contradictions: Vec::new(),
        name: comparison.name.clone(),
        families: family::families(&comparison, &explained, &all),
        comparisons: explained,
    })
}

fn observed<'a>(side: &[Counted<'a>]) -> Vec<&'a Observation> {
    side.iter().map(|counted| counted.observation).collect()
}

/// The costs of the trials of both sides, or why they cannot be explained.
fn sides<'a>(
    cell: &Cell,
    head: &Explained,
    by_trial: &HashMap<*const Observation, &'a Costs>,
    alpha: f64,
) -> Result<Sides<'a>, String> {
    let (one, other) = (&cell.sides.0, &cell.sides.1);
    if one.is_empty() || other.is_empty() {
        return Err(match &head.verdict {
            Verdict::NoData { why } => why.clone(),
            _ => "a side has no values".to_owned(),
        });
    }
    let costs = |side: &[Counted]| -> Option<Vec<&'a Costs>> {
        let keys = side.iter().map(|it| std::ptr::from_ref(it.observation));
        keys.map(|key| by_trial.get(&key).copied()).collect()
    };
    let (Some(baseline), Some(candidate)) = (costs(one), costs(other)) else {
        let mut trials = one.iter().chain(other);
        return Err(match trials.any(|it| it.observation.source.is_some()) {
            true => "imported trials have no CPU times, device counters or telemetry; measure with `iodyno run`, or \
                     `iodyno fio`, which takes the same job file"
                .to_owned(),
            false => "a trial has no ops".to_owned(),
        });
    };
    if cell.differing.iter().any(|fact| fact.name == TRACED) {
        return Err(
            "one side was traced (`--trace block`), which costs CPU time; trace both or neither"
                .to_owned(),
        );
    }
    Ok(Sides {
        baseline,
        candidate,
        pairing: head.pairing,
        alpha,
    })
}

/// Values of the parts of a time, and of the whole, in each trial. Parts that no trial has are left out, except the
/// unknown rest.
struct Parts {
    parts: Vec<(TimePart, Values)>,
    whole: Values,
}

impl Parts {
    /// `sides`: the splits of the trials.
    fn of(sides: &TwoSplits) -> Parts {
        let all = || sides.0.iter().chain(&sides.1);
        let kinds = all().flatten().map(|(part, _)| *part);
        let kinds = iodyno_model::ordered::distinct(kinds);
        let at = |parts: &Vec<(TimePart, f64)>, of: Option<TimePart>| -> f64 {
            let own = parts
                .iter()
                .filter(|(part, _)| of.is_none_or(|of| of == *part));
            own.map(|(_, ns)| ns).sum()
        };
        let values = |of: Option<TimePart>| Values {
            name: of.map_or("whole", TimePart::name),
            words: match of {
                Some(part) => part.words().to_owned(),
                None => "together".to_owned(),
            },
            unit: SeriesUnit::Nanos,
            baseline: sides.0.iter().map(|it| at(it, of)).collect(),
            candidate: sides.1.iter().map(|it| at(it, of)).collect(),
        };
        // A microsecond of a second is rounding.
        let whole: f64 = all().map(|it| at(it, None)).sum();
        let some = |part: &TimePart| {
            part.is_rest() || all().map(|it| at(it, Some(*part))).sum::<f64>() > 1e-6 * whole
        };
        let kinds = kinds.into_iter().filter(some);
        Parts {
            parts: kinds.map(|part| (part, values(Some(part)))).collect(),
            whole: values(None),
        }
    }

    /// A stack of its own.
    fn stack(self, of: StackOf, sides: &Sides) -> Stack {
        let (kinds, mut values): (Vec<TimePart>, Vec<Values>) = self.parts.into_iter().unzip();
        values.push(self.whole);
        let mut quantities = sides.differences(values).into_iter();
        let parts = kinds.into_iter().zip(quantities.by_ref()).collect();
        let whole = quantities
            .next()
            .expect("the whole is the last of the values");
        Stack { of, parts, whole }
    }
}

fn per_trial(sides: &Sides, form: Form, of: fn(Split) -> Vec<(TimePart, f64)>) -> TwoSplits {
    let each = |side: &[&Costs]| side.iter().map(|it| of(split(it, form))).collect();
    (each(&sides.baseline), each(&sides.candidate))
}

/// The parts of each trial of both sides.
type TwoSplits = (Vec<Vec<(TimePart, f64)>>, Vec<Vec<(TimePart, f64)>>);

/// Sides with a smaller share of their time asleep are limited by their workers.
const MIN_ASLEEP: f64 = 5.0;

/// The numbers of a comparison, and its candidate causes.
fn reasons(sides: &Sides, head: &Explained, facts: &[Difference]) -> Reasons {
    let form = Form::of(sides.all());
    let rate = |it: &Costs| it.ops / it.seconds;
    let number = |name, words: &str, unit, of: &dyn Fn(&Costs) -> f64| {
        let values = sides.values(name, words, unit, |it| Some(of(it)));
        values.expect("each trial has a value")
    };
    let main = Parts::of(&per_trial(sides, form, |it| it.op));
    let kinds: Vec<TimePart> = main.parts.iter().map(|(part, _)| *part).collect();
    let mut values: Vec<Values> = main.parts.into_iter().map(|(_, values)| values).collect();
    values.push(main.whole);
    values.push(number(
        "rate",
        "ops per second",
        SeriesUnit::PerSecond,
        &rate,
    ));
    values.push(number(
        "in_flight",
        "ops in flight",
        SeriesUnit::Number,
        &|it| it.whole_ns() / 1e9 * rate(it),
    ));
    // With several ops in flight, the CPU time of the worker is beside the parts.
    let beside = match form.fine {
        true => None,
        false => worker(sides, |_, ns| ns),
    };
    let beside_kinds: Vec<TimePart> = beside.iter().flatten().map(|(part, _)| *part).collect();
    values.extend(beside.into_iter().flatten().map(|(_, values)| values));
    let mut found = sides.differences(values).into_iter();
    let mut take = || found.next().expect("each of the values has a quantity");
    let parts: Vec<(TimePart, Quantity)> = kinds.into_iter().map(|part| (part, take())).collect();
    let (time, rate, in_flight) = (take(), take(), take());
    let beside: Vec<(TimePart, Quantity)> = beside_kinds
        .into_iter()
        .map(|part| (part, take()))
        .collect();
    let shares = worker(sides, |costs, ns| 100.0 * ns / costs.worker_ns);
    let (kinds, shares): (Vec<TimePart>, Vec<Values>) = shares.into_iter().flatten().unzip();
    let worker: Vec<_> = kinds.into_iter().zip(sides.differences(shares)).collect();
    let asleep = worker.last().map(|(_, quantity)| quantity.sides);
    let series = SERIES
        .iter()
        .filter_map(|it| sides.values(it.name, it.words, it.unit, it.value));
    let series = sides.differences(series.collect());
    let work = SERIES.iter().filter(|it| it.work);
    let work = work.filter_map(|it| Some((it, series.iter().find(|own| own.name == it.name)?)));
    let shown = |it: &Series, own: &Quantity| match it.least > 0.0 {
        true => own.sides.0.max(own.sides.1) >= it.least,
        // What the job does is shown if it differs.
        false => own.differs(),
    };
    let work = work
        .filter(|(it, own)| shown(it, own))
        .map(|(_, own)| own.clone())
        .collect();
    let op = Stack {
        of: StackOf::Op,
        parts,
        whole: time.clone(),
    };
    let mut reasons = Reasons {
        rate,
        in_flight,
        time,
        rate_given: sides.all().all(|it| it.scheduled),
        stacks: match jobs(sides) {
            Some(jobs) => jobs,
            None => vec![op.clone()],
        },
        // A worker that polls never sleeps, whatever limits it.
        worker_limited: asleep
            .filter(|_| !sides.all().any(|it| it.polls))
            .map_or((false, false), |(one, other)| {
                (one < MIN_ASLEEP, other < MIN_ASLEEP)
            }),
        worker,
        work,
        most: Vec::new(),
        noise: false,
        causes: Vec::new(),
    };
    decide(&mut reasons, head, (&op, &beside), facts, &series);
    reasons.stacks.extend(further(sides, form));
    reasons
}

/// The time of the workers in each trial, scaled.
fn worker(sides: &Sides, scaled: impl Fn(&Costs, f64) -> f64) -> Option<Vec<(TimePart, Values)>> {
    let known = sides.all().all(|it| stack::worker(it).is_some());
    let first = stack::worker(sides.all().next()?).filter(|_| known)?;
    let value = |place: usize, (part, _): &(TimePart, f64)| {
        let of = |it: &Costs| Some(scaled(it, stack::worker(it)?[place].1));
        let asleep = matches!(part, TimePart::Unknown);
        let name = if asleep { "asleep" } else { part.name() };
        let words = if asleep { "asleep" } else { part.words() };
        Some((*part, sides.values(name, words, SeriesUnit::Percent, of)?))
    };
    first
        .iter()
        .enumerate()
        .map(|(place, part)| value(place, part))
        .collect()
}

/// A stack for each job, if their requests are told apart at the devices.
fn jobs(sides: &Sides) -> Option<Vec<Stack>> {
    let count = sides
        .all()
        .map(|it| it.jobs.len())
        .min()
        .filter(|count| *count > 0)?;
    let of_job = |place: usize| {
        let own = |side: &[&'_ Costs]| -> Vec<Costs> {
            side.iter().map(|it| it.jobs[place].clone()).collect()
        };
        let (baseline, candidate) = (own(&sides.baseline), own(&sides.candidate));
        let job = Sides {
            baseline: baseline.iter().collect(),
            candidate: candidate.iter().collect(),
            ..*sides
        };
        let form = Form::of(job.all());
        let name = baseline[0].job.clone().unwrap_or_default();
        Parts::of(&per_trial(&job, form, |it| it.op)).stack(StackOf::Job(name), &job)
    };
    Some((0..count).map(of_job).collect())
}

/// Stacks beside that of an op: of a sync, of a cycle by steps, of requests in the background.
fn further(sides: &Sides, form: Form) -> Vec<Stack> {
    let mut found = Vec::new();
    let mean =
        |side: &[&Costs]| difference::mean(&side.iter().map(|it| it.syncs.0).collect::<Vec<f64>>());
    if sides.all().all(|it| it.syncs.0 > 0.0) {
        let each = |side: &[&Costs]| {
            let of = |it: &&Costs| -> Vec<(TimePart, f64)> {
                let parts = split(it, form).syncs.into_iter();
                parts.map(|(part, ns)| (part, ns / it.syncs.0)).collect()
            };
            side.iter().map(of).collect()
        };
        let parts = Parts::of(&(each(&sides.baseline), each(&sides.candidate)));
        let counts = (mean(&sides.baseline), mean(&sides.candidate));
        found.push(parts.stack(StackOf::Sync(counts), sides));
    }
    if sides.all().all(|it| !it.steps.is_empty()) {
        let each = |side: &[&Costs]| {
            let of = |it: &&Costs| {
                it.steps
                    .iter()
                    .map(|(name, ns)| (TimePart::Step(name), *ns))
                    .collect()
            };
            side.iter().map(of).collect()
        };
        let parts = Parts::of(&(each(&sides.baseline), each(&sides.candidate)));
        found.push(parts.stack(StackOf::Cycle, sides));
    }
    let parts = Parts::of(&per_trial(sides, form, |it| it.background));
    let stack = parts.stack(StackOf::Background, sides);
    let share = |of: (f64, f64), whole: (f64, f64)| (of.0 / whole.0).max(of.1 / whole.1);
    let whole = sides.all().map(Costs::whole_ns).sum::<f64>() / sides.all().count() as f64;
    if share(stack.whole.sides, (whole, whole)) >= MIN_BACKGROUND {
        found.push(stack);
    }
    found
}

/// Requests in the background are shown if they take at least this share of the time of an op.
const MIN_BACKGROUND: f64 = 0.05;

/// A smaller share of a difference is neither named nor explained.
const MIN_SHARE: f64 = 0.1;

/// A second part is named from this share of the difference on.
const MIN_SECOND: f64 = 0.25;

/// Decides which parts make the difference, and what can have caused them. `beside`: the CPU time of the workers where
/// it is not a part.
fn decide(
    reasons: &mut Reasons,
    head: &Explained,
    (op, beside): (&Stack, &[(TimePart, Quantity)]),
    facts: &[Difference],
    series: &[Quantity],
) {
    let Some(ratio) = head
        .ratio
        .map(|ratio| ratio.value.ln())
        .filter(|_| head.decided())
    else {
        return;
    };
    let logarithm = |quantity: &Quantity| (quantity.sides.1 / quantity.sides.0).ln();
    // More time in the same direction as the ratio makes the candidate slower.
    let in_direction =
        |effect: f64| effect * ratio > 0.0 && effect.abs() >= MIN_SHARE * ratio.abs();
    let slower = ratio < 0.0;
    let mut acts: Acts = 0;
    let is_rate = is_rate(&head.metric) && !reasons.rate_given;
    if is_rate && reasons.in_flight.differs() && in_direction(logarithm(&reasons.in_flight)) {
        acts |= FLIGHT;
    }
    let by = reasons.time.difference.value;
    if in_direction(-logarithm(&reasons.time)) {
        let mut parts: Vec<&(TimePart, Quantity)> = op.parts.iter().collect();
        parts.retain(|(_, it)| {
            let own = it.difference.value;
            it.differs() && (own > 0.0) == slower && own.abs() >= MIN_SHARE * by.abs()
        });
        parts.sort_by(|(_, one), (_, other)| {
            other
                .difference
                .value
                .abs()
                .total_cmp(&one.difference.value.abs())
        });
        reasons.noise = parts.is_empty();
        let named = parts.iter().enumerate().filter(|(place, (_, it))| {
            *place == 0 || *place == 1 && it.difference.value.abs() >= MIN_SECOND * by.abs()
        });
        reasons.most = named
            .map(|(_, (part, it))| (*part, it.difference.value))
            .collect();
        acts |= parts
            .iter()
            .fold(0, |acts, (part, _)| acts | acts::changed_by(*part));
    }
    // CPU time of the workers limits the rate where they hardly sleep; a wait for a CPU delays completions.
    let limited = reasons.worker_limited.0 || reasons.worker_limited.1;
    for (part, it) in beside.iter().filter(|(part, _)| *part != TimePart::Unknown) {
        let waits = *part == TimePart::CpuWait;
        let own = it.difference.value;
        let whole = it.sides.0.max(it.sides.1);
        if it.differs()
            && (own > 0.0) == slower
            && own.abs() >= MIN_SHARE * whole
            && (limited || waits)
        {
            acts |= acts::changed_by(*part);
        }
    }
    reasons.causes = causes::causes(acts, slower, facts, series);
}

/// Whether the metric is a rate, or the completion of a fixed amount of work, rather than a latency.
fn is_rate(metric: &Metric) -> bool {
    metric.unit != Unit::Nanos || metric.name == Metric::COMPLETION
}

/// What is not known, and what would provide it.
fn lacking(sides: &Sides) -> Vec<String> {
    let form = Form::of(sides.all());
    let all = || sides.all();
    let simulated = all().any(|it| it.simulated);
    let several = all().any(|it| !it.one_at_a_time);
    let missing = [
        (
            !simulated && all().any(|it| it.cpu_ns.is_none()),
            "CPU time of the workers: the trials are too short",
        ),
        (
            !form.devices,
            "device counters: a side is not on block devices, or the host does not count them",
        ),
        (
            !simulated && all().any(|it| it.others.is_none()),
            "I/O of other processes: not sampled, or the trials are shorter than a sample (`--sample-every 100ms`)",
        ),
        (
            form.devices && several && !form.traced && !simulated,
            "queue and device apart: `--trace block`",
        ),
        (
            sides.pairing != Pairing::Paired,
            "common rounds: what changed on the host between the runs is part of every difference; use one run",
        ),
    ];
    let missing = missing.into_iter().filter(|(is, _)| *is);
    missing.map(|(_, text)| text.to_owned()).collect()
}
