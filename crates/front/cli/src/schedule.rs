//! The schedule of an experiment: the storage that is made, space and time, and every trial in order.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iodyno_lab::Remaining;
use iodyno_model::{Configuration, Fresh, Layer, Plan, Provision};
use iodyno_report::json::{Makes, Schedule, Scheduled, Searching};
use iodyno_report::schedule::storage;

use crate::duration::{longest, of_round};
use crate::rounds::{alpha, compared_rounds};

/// The schedule of a run. `remaining`: the remaining trials of a resumed run.
pub(crate) fn schedule(plan: &Plan, remaining: Option<&Remaining>) -> Schedule {
    let made = plan.configurations.iter().filter(|it| !it.again);
    let made: Vec<(&str, &Provision)> = made
        .filter_map(|it| Some((it.name.as_str(), it.provision()?)))
        .collect();
    let makes = made.iter().map(|(name, provision)| Makes {
        configuration: (*name).to_owned(),
        storage: storage(provision),
    });
    let cells: Vec<_> = plan.each_cell().collect();
    let turns = iodyno_lab::turns(plan);
    let turns = turns
        .iter()
        .map(|(one, other, why)| (one.name.clone(), other.name.clone(), (*why).to_owned()));
    let left: Vec<(u32, u32)> = match remaining {
        Some(remaining) => {
            let keys = remaining.trials.iter();
            keys.map(|key| (key.round, key.cell)).collect()
        }
        None => {
            let order = |round| iodyno_lab::order(plan, round).into_iter();
            let all = (0..plan.rounds).flat_map(|round| order(round).map(move |it| (round, it)));
            let planned = |(round, cell): &(u32, u32)| {
                let (_, workload) = cells[*cell as usize];
                workload.rounds.is_none_or(|own| *round < own)
            };
            all.filter(planned).collect()
        }
    };
    let done = remaining.map_or(0, |remaining| remaining.done);
    let (round_ns, without_limit) = of_round(plan);
    let searches = searches(plan, &left);
    let of_trial = |(_, cell): &(u32, u32)| {
        let (_, workload) = cells[*cell as usize];
        match workload.search {
            None => longest(workload).map_or(0, |time| time.0),
            Some(_) => 0,
        }
    };
    let fit = |time: u64| u32::try_from(time / round_ns.max(1)).unwrap_or(u32::MAX);
    // The time limit of a resumed run is that of its remaining rounds.
    let rounds_in_time = plan.stopping.max_time_ns.filter(|_| remaining.is_none());
    let rounds_in_time = rounds_in_time.map(fit);
    let primary_comparisons = iodyno_judge::primaries(plan);
    let rounds = rounds_in_time
        .unwrap_or(u32::MAX)
        .min(compared_rounds(plan));
    let decides = (primary_comparisons > 0)
        .then(|| iodyno_judge::can_decide(rounds, primary_comparisons, alpha(plan)));
    let too_few = decides.as_ref().and_then(|it| it.as_ref().err());
    let trials = left.iter().zip(done + 1..).map(|((round, cell), number)| {
        let (configuration, workload) = cells[*cell as usize];
        Scheduled {
            number,
            round: round + 1,
            configuration: configuration.name.clone(),
            workload: workload.name.clone(),
        }
    });
    Schedule {
        fresh: iodyno_lab::fresh(plan),
        turns: turns.collect(),
        makes: makes.collect(),
        space: space(&made),
        round_ns,
        precondition_ns: precondition_ns(plan),
        without_limit,
        rounds_in_time,
        primary_comparisons,
        can_decide: decides.as_ref().map(Result::is_ok),
        too_few: too_few.as_ref().map(ToString::to_string),
        least_rounds: too_few.map(|too_few| too_few.least),
        compared_rounds: rounds,
        probe: plan.probe.then_some(iodyno_lab::PROBE),
        done,
        trials_ns: left.iter().map(of_trial).fold(0, u64::saturating_add),
        searches_ns: searches
            .iter()
            .filter_map(|search| search.most_ns)
            .fold(0, u64::saturating_add),
        trials: trials.collect(),
        searches,
    }
}

/// The searches among the trials that are left.
fn searches(plan: &Plan, left: &[(u32, u32)]) -> Vec<Searching> {
    let mut trials = vec![0; plan.cells() as usize];
    for (_, cell) in left {
        trials[*cell as usize] += 1;
    }
    let cells =
        plan.each_cell()
            .zip(trials)
            .filter_map(|((configuration, workload), most): (_, u32)| {
                let search = workload.search.clone()?;
                let found = Searching {
                    configuration: configuration.name.clone(),
                    workload: workload.name.clone(),
                    search,
                    most_trials: most,
                    most_ns: longest(workload).map(|time| time.0.saturating_mul(most.into())),
                };
                (most > 0).then_some(found)
            });
    cells.collect()
}

/// The longest time for which the targets of a run are preconditioned.
fn precondition_ns(plan: &Plan) -> u64 {
    let once = |it: &Configuration| it.provision().map_or(0, |made| made.precondition_ns);
    let each = || plan.configurations.iter().map(once);
    let (times, often): (Vec<u64>, u32) = match iodyno_lab::fresh(plan) {
        Fresh::Experiment => (each().collect(), 1),
        Fresh::Round => (each().collect(), plan.rounds),
        Fresh::Trial => {
            let cells = plan.each_cell();
            (cells.map(|(it, _)| once(it)).collect(), plan.rounds)
        }
    };
    let times = times.into_iter().fold(0, u64::saturating_add);
    times.saturating_mul(u64::from(often))
}

/// The space that image files need in each folder. Configurations that are made at the same time need it together.
fn space(made: &[(&str, &Provision)]) -> BTreeMap<PathBuf, u64> {
    let mut needed: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for (_, provision) in made {
        let files = provision.layers.iter().map(|layer| match layer {
            Layer::File { size, count, .. } => size.saturating_mul(u64::from(*count)),
            _ => 0,
        });
        let bytes = files.fold(0u64, u64::saturating_add);
        let folder = provision.layers.iter().find_map(|layer| match layer {
            Layer::Directory { path } => Some(path.clone()),
            _ => None,
        });
        if let (Some(folder), 1..) = (folder, bytes) {
            let sum = needed.entry(folder).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    needed
}
