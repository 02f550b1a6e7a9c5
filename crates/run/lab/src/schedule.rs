//! The order of the trials of a plan, and the binding of each trial.
//!
//! Invariant: everything here is a pure function of the plan's seed and the round (and, for a trial's ops, its
//! workload), independent of earlier trials and of the number of rounds. An interrupted run therefore continues in
//! its original order, and so does a run that is extended.

use iodyno_model::{
    BoundPlan, FilePolicy, Files, Observation, Plan, RoundOrder, SCHEMA, Search, TrialKey, Workload,
};
use iodyno_units::Nanos;

/// Separates the random numbers of the order from those of the ops.
const ORDER: u64 = 0x6f72_6465_7221_0001;

/// The cells in the order in which a round runs them, each once.
///
/// Drawn independently for each round: all orders have the same probability. If two cells do not differ, the sign of
/// each round's difference is then random whatever the host does (drift, autocorrelation), and the signed-rank test is
/// exact. An order that alternates (AB BA) has no such guarantee: see [`RoundOrder::Alternating`].
pub fn order(plan: &Plan, round: u32) -> Vec<u32> {
    let mut cells: Vec<u32> = (0..plan.cells()).collect();
    if plan.order == RoundOrder::Alternating && cells.len() == 2 {
        let mut draw = Draw::of(plan, round / 2);
        let turned = draw.below(2) == 1;
        if turned != (round % 2 == 1) {
            cells.reverse();
        }
        return cells;
    }
    // The shuffle of Fisher and Yates, from the end.
    let mut draw = Draw::of(plan, round);
    for last in (1..cells.len()).rev() {
        let other = draw.below(last as u64 + 1) as usize;
        cells.swap(last, other);
    }
    cells
}

/// Binds one trial: everything that its node needs to know.
pub(crate) fn bind(plan: &Plan, key: TrialKey) -> BoundPlan {
    let (configuration, workload) = plan.cell(key.cell);
    let mut sampling = plan.sampling.clone();
    let provision = configuration.provision();
    let named = provision.iter().flat_map(|it| &it.sample);
    for name in named {
        if !sampling.processes.contains(name) {
            sampling.processes.push(name.clone());
        }
    }
    BoundPlan {
        schema: SCHEMA,
        key,
        configuration: configuration.clone(),
        workload: with_shared_names(workload),
        seed: seed(plan, key),
        destroy: plan.destroy.clone(),
        protected: Vec::new(),
        frame_ns: Nanos::SECOND.0,
        sampling,
        stuck_after_ns: plan.stuck_after_ns,
        background: false,
        node: 0,
        shared: None,
    }
}

/// The workload, with its family's file names if these are shared: they contain the family instead of the job.
fn with_shared_names(workload: &Workload) -> Workload {
    let mut workload = workload.clone();
    if workload.files != FilePolicy::Shared {
        return workload;
    }
    let family = workload.family.as_ref().unwrap_or(&workload.name);
    let family = family.replace(['/', '$'], "-");
    let several = workload.jobs.len() > 1;
    let usual = Files::default().format;
    for (job, number) in workload.jobs.iter_mut().zip(1..) {
        let Some(blocks) = job.work.blocks_mut() else {
            continue;
        };
        if blocks.files.names.is_empty() && blocks.files.format == usual {
            blocks.files.format = match several {
                true => format!("{family}-{number}.$jobnum.$filenum"),
                false => format!("{family}.$jobnum.$filenum"),
            };
        }
    }
    workload
}

/// The seed of a trial, from the plan's seed, the round and the workload.
///
/// It is independent of the configuration: within a round every configuration gets the same ops, so that differences
/// between configurations are not caused by the random numbers. The repetition of a baseline workload has the
/// baseline's seed, so that only the time differs. Other workloads have different seeds, even if workloads are
/// compared: they use the same storage, and data that the first one of a round has read could be in a cache for the
/// next. (By default jobs are repeatable, and then do not use this seed.) It is also independent of the attempt: a
/// repeated trial gets the same ops.
fn seed(plan: &Plan, key: TrialKey) -> u64 {
    let (_, workload) = plan.place(key.cell);
    let before = plan.workloads[..=workload].iter();
    // Counted without the baseline's second: the others' ops are the same with it and without it.
    let workload = before.filter(|workload| !workload.again).count().max(1) as u64 - 1;
    mix(mix(plan.seed ^ mix(u64::from(key.round))) ^ workload)
}

/// Inserts a repetition of the baseline directly after the baseline: the difference between the two is the noise of
/// this host.
///
/// If workloads are compared (the question's columns), the repetition is a workload, otherwise a configuration; its
/// name is the baseline's with ` (again)`. Cells are counted over the resulting lists, so the indices of cells after
/// the baseline increase. A plan that already has a repetition, or lacks the baseline that its question names, is
/// returned unchanged.
pub fn with_again(mut plan: Plan) -> Plan {
    let configurations = plan.configurations.iter().map(|one| one.again);
    if configurations
        .chain(plan.workloads.iter().map(|one| one.again))
        .any(|again| again)
    {
        return plan;
    }
    let Some(baseline) = baseline(&plan).map(str::to_owned) else {
        return plan;
    };
    let name = format!("{baseline} (again)");
    if plan.question.columns == Observation::WORKLOAD {
        let names = plan.workloads.iter().map(|workload| &workload.name);
        if let Some(place) = names.into_iter().position(|name| *name == baseline) {
            let mut again = plan.workloads[place].clone();
            (again.name, again.again) = (name, true);
            plan.workloads.insert(place + 1, again);
        }
    } else {
        let names = plan.configurations.iter().map(|one| &one.name);
        if let Some(place) = names.into_iter().position(|name| *name == baseline) {
            let mut again = plan.configurations[place].clone();
            (again.name, again.again) = (name, true);
            plan.configurations.insert(place + 1, again);
        }
    }
    plan
}

/// Gives searches the rounds that they need: each trial of a search is a round. Other workloads keep the plan's number
/// of rounds.
pub fn with_searches(mut plan: Plan) -> Plan {
    if plan
        .workloads
        .iter()
        .all(|workload| workload.search.is_none())
    {
        return plan;
    }
    let rounds = plan.rounds;
    for workload in &mut plan.workloads {
        let most = match workload.search {
            Some(_) => workload.rounds.unwrap_or(Search::MAX_TRIALS),
            None => workload.rounds.unwrap_or(rounds).min(rounds),
        };
        workload.rounds = Some(most);
        plan.rounds = plan.rounds.max(workload.rounds.unwrap_or(0));
    }
    plan
}

/// The name of the baseline: the question's, or the first of its columns.
pub(crate) fn baseline(plan: &Plan) -> Option<&str> {
    let first = match plan.question.columns.as_str() {
        // The trials of a search are not compared.
        Observation::WORKLOAD => {
            let mut workloads = plan.workloads.iter();
            let first = workloads.find(|one| one.search.is_none());
            first.map(|one| &one.name)
        }
        _ => plan.configurations.first().map(|one| &one.name),
    };
    plan.question
        .baseline
        .as_ref()
        .or(first)
        .map(String::as_str)
}

/// SplitMix64, implemented here because the order of a run must be the same in every later version.
struct Draw(u64);

impl Draw {
    fn of(plan: &Plan, number: u32) -> Draw {
        Draw(mix(plan.seed ^ ORDER) ^ mix(u64::from(number)))
    }

    /// A number below `limit`; the probabilities differ by at most one part in 2⁶⁴ ÷ `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        ((u128::from(drawn) * u128::from(limit)) >> 64) as u64
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The step and finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014):
/// changing one bit changes half of the bits of the result on average.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(GOLDEN);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests;
