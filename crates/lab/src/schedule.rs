//! In which order the trials of a plan are made, and what each is bound to.

use iodyno_model::{BoundPlan, Plan, RunId, SCHEMA, TrialKey};
use iodyno_units::Nanos;

/// The trials of a run in the order in which they are made: round after round, each cell in turn.
pub(crate) fn schedule(plan: &Plan, run: RunId) -> impl Iterator<Item = TrialKey> {
    let cells = plan.cells();
    (0..plan.rounds).flat_map(move |round| {
        (0..cells).map(move |cell| TrialKey {
            run,
            round,
            cell,
            attempt: 0,
        })
    })
}

/// One trial with everything that its node needs to know.
pub(crate) fn bind(plan: &Plan, key: TrialKey) -> BoundPlan {
    let (configuration, workload) = plan.cell(key.cell);
    BoundPlan {
        schema: SCHEMA,
        key,
        configuration: configuration.clone(),
        workload: workload.clone(),
        seed: seed(plan, key),
        destroy: plan.destroy.clone(),
        frame_ns: Nanos::SECOND.0,
    }
}

/// The trial's own seed, from the plan's, the round and the workload.
///
/// Not from the configuration: within a round every configuration meets the same ops, so that what
/// differs between them is not the draw. Nor from the attempt: a repeated trial is the same trial.
fn seed(plan: &Plan, key: TrialKey) -> u64 {
    let workload = u64::from(key.cell) % plan.workloads.len() as u64;
    mix(mix(plan.seed ^ mix(u64::from(key.round))) ^ workload)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014): one bit changed changes half of all.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::plan;

    #[test]
    fn makes_every_cell_once_a_round() {
        let plan = plan(2, 3, 2);
        let keys: Vec<(u32, u32)> = schedule(&plan, RunId::fresh())
            .map(|key| (key.round, key.cell))
            .collect();
        let expected: Vec<(u32, u32)> = (0..2)
            .flat_map(|round| (0..6).map(move |cell| (round, cell)))
            .collect();
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_trial_is_bound_to_its_cell() {
        let plan = plan(2, 3, 1);
        let key = schedule(&plan, RunId::fresh()).nth(4).unwrap();
        let bound = bind(&plan, key);
        assert_eq!(bound.configuration, plan.configurations[1]);
        assert_eq!(bound.workload, plan.workloads[1]);
        assert_eq!((bound.key, bound.destroy), (key, plan.destroy));
    }

    #[test]
    fn configurations_share_their_seed_and_rounds_and_workloads_do_not() {
        let plan = plan(3, 4, 5);
        let run = RunId::fresh();
        let seeds: BTreeSet<u64> = schedule(&plan, run).map(|key| seed(&plan, key)).collect();
        assert_eq!(seeds.len(), 4 * 5);
        let of = |round, cell| {
            seed(
                &plan,
                TrialKey {
                    run,
                    round,
                    cell,
                    attempt: 0,
                },
            )
        };
        assert_eq!(of(2, 1), of(2, 4 + 1));
        assert_ne!(of(2, 1), of(3, 1));
        let other = Plan {
            seed: plan.seed + 1,
            ..plan.clone()
        };
        let key = TrialKey {
            run,
            round: 0,
            cell: 0,
            attempt: 0,
        };
        assert_ne!(seed(&plan, key), seed(&other, key));
        assert_eq!(
            seed(&plan, key),
            seed(&plan, TrialKey { attempt: 3, ..key })
        );
    }
}
