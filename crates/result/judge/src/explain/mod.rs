//! Why one side of a comparison is faster: ops in flight and the time of an op, the parts of that time, and candidates
//! for the causes.
//!
//! The modules in the order of use: `costs` reduces a trial to what its ops cost; `stack` splits the time of an op;
//! `difference` compares quantities over the trials, paired like the verdict; `series` lists what else is measured;
//! `causes` selects facts and series by what they act on (`acts`); `family` averages the members of a family.
//!
//! Invariants: the parts of a time add up to it, with a rest that is printed; exchanging the sides inverts every
//! difference and changes no part; a cause is a candidate. It does not depend on the verdict, and is given where a
//! comparison is not comparable as well.

mod acts;
mod causes;
mod costs;
mod difference;
mod family;
mod series;
pub(crate) mod stack;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use iodyno_model::SeriesUnit::{Number, PerSecond, Percent};
use iodyno_model::{
    ComparedSides, Costs, Difference, Explained, Explanation, Observation, Pairing, Quantity,
    Question, Reasons, Stack, StackOf, TimePart, Verdict,
};

pub use costs::costs;

use crate::compare::{Cell, CompareError, Counted, compared};
use crate::observe::TRACED;
use acts::{Acts, FLIGHT};
use difference::{Sides, Values, mean};
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
        let of = ComparedSides::of(row, result);
        let sides = trials(cell, &of.verdict, &by_trial).map(|trials| Sides {
            trials,
            pairing: result.pairing,
            alpha: question.alpha,
        });
        explained.push(Explained {
            pairing: result.pairing,
            n: result.n,
            lacking: sides.as_ref().map(lacking).unwrap_or_default(),
            reasons: match &sides {
                Ok(sides) => {
                    let mut facts = causes::facts(cell, question);
                    // Read-ahead does not act on jobs that only write.
                    let writes =
                        |it: &Costs| it.steps.is_empty() && it.bytes[0] == 0.0 && it.bytes[1] > 0.0;
                    let only_writes = sides.all().all(writes);
                    facts.retain(|fact| fact.name != "read_ahead_kb" || !only_writes);
                    Ok(reasons(sides, &of, &facts))
                }
                Err(why) => Err(why.clone()),
            },
            of,
        });
        all.push(sides.ok());
    }
    Ok(Explanation {
        name: comparison.name.clone(),
        families: family::families(&comparison, &explained, &all),
        comparisons: explained,
    })
}

/// The costs of the trials of both sides, or why they cannot be explained.
fn trials<'a>(
    cell: &Cell,
    verdict: &Verdict,
    by_trial: &HashMap<*const Observation, &'a Costs>,
) -> Result<[Vec<&'a Costs>; 2], String> {
    let sides = [&cell.sides.0, &cell.sides.1];
    if sides.iter().any(|side| side.is_empty()) {
        return Err(match verdict {
            Verdict::NoData { why } => why.clone(),
            _ => "a side has no values".to_owned(),
        });
    }
    let costs = |side: &Vec<Counted>| -> Option<Vec<&'a Costs>> {
        let keys = side.iter().map(|it| std::ptr::from_ref(it.observation));
        keys.map(|key| by_trial.get(&key).copied()).collect()
    };
    let [Some(baseline), Some(candidate)] = sides.map(costs) else {
        let mut trials = sides.into_iter().flatten();
        let why = match trials.any(|it| it.observation.source.is_some()) {
            true => {
                "imported trials have no CPU times, device counters or telemetry; measure with `iodyno run`, or \
                     `iodyno fio`, which takes the same job file"
            }
            false => "a trial has no ops",
        };
        return Err(why.to_owned());
    };
    if cell.differing.iter().any(|fact| fact.name == TRACED) {
        let why =
            "one side was traced (`--trace block`), which costs CPU time; trace both or neither";
        return Err(why.to_owned());
    }
    Ok([baseline, candidate])
}

/// Sides with a smaller share of their time asleep are limited by their workers, percent.
pub(crate) const MIN_ASLEEP: f64 = 5.0;

/// The numbers of a comparison, and its candidate causes.
fn reasons(sides: &Sides, of: &ComparedSides, facts: &[Difference]) -> Reasons {
    let form = Form::of(sides.all());
    let splits = sides.each(|it| split(it, form));
    let law = [
        sides.values("rate", "ops per second", PerSecond, |it| Some(it.rate())),
        sides.values("in_flight", "ops in flight", Number, |it| {
            Some(it.in_flight())
        }),
    ];
    // With several ops in flight, the CPU time of the worker is beside the parts.
    let beside = match form.fine {
        true => Vec::new(),
        false => worker(sides, |_, ns| ns),
    };
    let (kinds, beside): (Vec<TimePart>, Vec<Values>) = beside.into_iter().unzip();
    let further = law.into_iter().flatten().chain(beside);
    let (op, mut law) = sides.stack(StackOf::Op, &splits, |it| &it.op, further);
    let beside: Vec<(TimePart, Quantity)> = kinds.into_iter().zip(law.split_off(2)).collect();
    let in_flight = law.pop().expect("each trial has ops in flight");
    let rate = law.pop().expect("each trial has a rate");
    let shares = worker(sides, |costs, ns| 100.0 * ns / costs.worker_ns);
    let (kinds, shares): (Vec<TimePart>, Vec<Values>) = shares.into_iter().unzip();
    let worker: Vec<_> = kinds.into_iter().zip(sides.differences(shares)).collect();
    // A worker that polls never sleeps, whatever limits it.
    let polls = sides.all().any(|it| it.polls);
    let asleep = worker.last().filter(|_| !polls);
    let asleep = asleep.map_or((100.0, 100.0), |(_, quantity)| quantity.sides);
    let values = |it: &Series| sides.values(it.name, it.words, it.unit, it.value);
    let series = SERIES.iter().filter_map(|it| Some((it, values(it)?)));
    let (series, values): (Vec<&Series>, Vec<Values>) = series.unzip();
    let series: Vec<_> = series.into_iter().zip(sides.differences(values)).collect();
    let mut reasons = Reasons {
        rate,
        in_flight,
        time: op.whole.clone(),
        rate_given: sides.all().all(|it| it.scheduled),
        stacks: match jobs(sides) {
            jobs if jobs.is_empty() => vec![op.clone()],
            jobs => jobs,
        },
        worker_limited: (asleep.0 < MIN_ASLEEP, asleep.1 < MIN_ASLEEP),
        worker,
        work: series.iter().filter_map(work).collect(),
        most: Vec::new(),
        step: None,
        noise: false,
        causes: Vec::new(),
    };
    reasons.stacks.extend(further_stacks(sides, &splits));
    decide(&mut reasons, of, (&op, &beside), facts, &series);
    reasons
}

/// A series that is work for each op, if there is any; what the job does is shown only if it differs.
fn work((series, own): &(&Series, Quantity)) -> Option<Quantity> {
    let shown = match series.least > 0.0 {
        true => own.sides.0.max(own.sides.1) >= series.least,
        false => own.differs(),
    };
    (series.work && shown).then(|| own.clone())
}

/// The time of the workers in each trial, scaled; empty if it is not known.
fn worker(sides: &Sides, scaled: impl Fn(&Costs, f64) -> f64) -> Vec<(TimePart, Values)> {
    let value = |(place, part): (usize, TimePart)| {
        let of = |it: &Costs| Some(scaled(it, stack::worker(it)?[place]));
        Some((part, sides.values(part.name(), part.words(), Percent, of)?))
    };
    let parts = stack::WORKER.into_iter().enumerate();
    parts.filter_map(value).collect()
}

/// A stack for each job, if their requests are told apart at the devices.
fn jobs(sides: &Sides) -> Vec<Stack> {
    let count = sides.all().map(|it| it.jobs.len()).min().unwrap_or(0);
    let of_job = |place: usize| {
        let job = Sides {
            trials: sides.each(|it| &it.jobs[place]),
            ..*sides
        };
        let form = Form::of(job.all());
        let name = job.all().next().and_then(|it| it.job.clone());
        let of = StackOf::Job(name.unwrap_or_default());
        let splits = job.each(|it| split(it, form));
        job.stack(of, &splits, |it| &it.op, None).0
    };
    (0..count).map(of_job).collect()
}

/// Stacks beside that of an op: of a sync, of a cycle by steps, of requests in the background.
fn further_stacks(sides: &Sides, splits: &[Vec<Split>; 2]) -> Vec<Stack> {
    let mut found = Vec::new();
    if sides.all().all(|it| it.syncs.0 > 0.0) {
        let [one, other] = sides.each(|it| it.syncs.0).map(|side| mean(&side));
        let of = StackOf::Sync((one, other));
        found.push(sides.stack(of, splits, |it| &it.syncs, None).0);
    }
    if sides.all().all(|it| !it.steps.is_empty()) {
        found.push(sides.stack(StackOf::Cycle, splits, |it| &it.steps, None).0);
    }
    let background = sides
        .stack(StackOf::Background, splits, |it| &it.background, None)
        .0;
    let [one, other] = sides.each(Costs::whole_ns);
    let whole = mean(&[one, other].concat());
    if background.whole.sides.0.max(background.whole.sides.1) >= MIN_BACKGROUND * whole {
        found.push(background);
    }
    found
}

/// Requests in the background, and while a worker waits for a CPU, are shown from this share of the time of an op on.
const MIN_BACKGROUND: f64 = 0.05;

/// A smaller share of a difference is neither named nor explained.
const MIN_SHARE: f64 = 0.1;

/// A second part is named from this share of the difference on.
const MIN_SECOND: f64 = 0.25;

/// Decides which parts make the difference, and what can have caused them. `beside`: the CPU time of the workers where
/// it is not a part.
fn decide(
    reasons: &mut Reasons,
    of: &ComparedSides,
    (op, beside): (&Stack, &[(TimePart, Quantity)]),
    facts: &[Difference],
    series: &[(&Series, Quantity)],
) {
    let contradicted = reasons.contradict(of);
    let Some(ratio) = of.ratio.filter(|_| of.decided() && !contradicted) else {
        return;
    };
    let ratio = ratio.value.ln();
    let logarithm = |quantity: &Quantity| (quantity.sides.1 / quantity.sides.0).ln();
    // More time in the same direction as the ratio makes the candidate slower.
    let in_direction =
        |effect: f64| effect * ratio > 0.0 && effect.abs() >= MIN_SHARE * ratio.abs();
    let slower = ratio < 0.0;
    let grew = |it: &Quantity, of: f64| {
        let by = it.difference.value;
        it.differs() && (by > 0.0) == slower && by.abs() >= MIN_SHARE * of.abs()
    };
    let mut acts: Acts = 0;
    let flight = &reasons.in_flight;
    let by_law = !of.by_latency() && !reasons.rate_given;
    if by_law && flight.differs() && in_direction(logarithm(flight)) {
        acts |= FLIGHT;
    }
    if in_direction(-logarithm(&reasons.time)) {
        let by = reasons.time.difference.value;
        let largest = |stack: &Stack| -> Vec<(TimePart, f64)> {
            let parts = stack.parts.iter().filter(|(_, it)| grew(it, by));
            let parts = parts.map(|(part, it)| (*part, it.difference.value));
            let mut parts: Vec<(TimePart, f64)> = parts.collect();
            parts.sort_by(|(_, one), (_, other)| other.abs().total_cmp(&one.abs()));
            parts
        };
        let cycle = reasons.stacks.iter().find(|it| it.of == StackOf::Cycle);
        reasons.step = cycle.and_then(|it| largest(it).first().copied());
        let mut parts = largest(op);
        reasons.noise = parts.is_empty();
        let parts_act = parts.iter().map(|(part, _)| acts::changed_by(*part));
        acts |= parts_act.fold(0, |all, own| all | own);
        parts.truncate(2);
        if parts
            .get(1)
            .is_some_and(|(_, own)| own.abs() < MIN_SECOND * by.abs())
        {
            parts.pop();
        }
        reasons.most = parts;
    }
    // CPU time of the workers limits the rate where they hardly sleep; a wait for a CPU delays completions.
    let limited = reasons.worker_limited.0 || reasons.worker_limited.1;
    for (part, it) in beside {
        let counts = match part {
            TimePart::Asleep => false,
            TimePart::CpuWait => true,
            _ => limited,
        };
        if counts && grew(it, it.sides.0.max(it.sides.1)) {
            acts |= acts::changed_by(*part);
        }
    }
    reasons.causes = causes::causes(acts, slower, facts, series);
}

/// What is not known, and what would provide it.
fn lacking(sides: &Sides) -> Vec<String> {
    let form = Form::of(sides.all());
    let any = |is: fn(&Costs) -> bool| sides.all().any(is);
    let simulated = any(|it| it.simulated);
    let overlap: f64 = sides.all().map(|it| split(it, form).overlap).sum();
    let time: f64 = sides.all().map(Costs::whole_ns).sum();
    let one_sided = any(|it| it.syncs.0 > 0.0) && any(|it| it.syncs.0 == 0.0);
    let missing = [
        (
            !simulated && any(|it| it.cpu_ns.is_none()),
            "CPU time of the workers: the trials are too short",
        ),
        (
            one_sided && !any(|it| !it.one_at_a_time || it.cpu_ns.is_none()),
            "CPU time of an op alone: only one side has syncs, and there it includes their CPU time",
        ),
        (
            overlap > MIN_BACKGROUND * time,
            "whether an op waited for a CPU or for the device: both overlap; stop other processes",
        ),
        (
            !form.devices,
            "device counters: a side is not on block devices, or the host does not count them",
        ),
        (
            !simulated && any(|it| it.others.is_none()),
            "I/O of other processes: not sampled, or the trials are shorter than a sample (`--sample-every 100ms`)",
        ),
        (
            form.devices && any(|it| !it.one_at_a_time) && !form.traced && !simulated,
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
