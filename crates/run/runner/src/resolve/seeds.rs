//! The seeds of clones and devices.

use iodyno_model::{BoundPlan, Job, TrialKey, Work};

/// The seed of repeatable jobs that do not set one.
const REPEATABLE: u64 = 0x10D7_4E05;

/// The seed of one clone: from the job's own, a constant, or the trial's.
pub(crate) fn clone(trial: u64, job: &Job, index: u32, clone: u32) -> u64 {
    let (own, repeatable) = match &job.work {
        Work::Blocks(blocks) => (blocks.access.seed, blocks.access.repeatable),
        Work::SharedFiles(rule) => (rule.seed, false),
        Work::FileOperations(_) => (None, true),
    };
    let seed = match (own, repeatable) {
        (Some(seed), _) => seed,
        (None, true) => REPEATABLE,
        (None, false) => trial,
    };
    mix(mix(seed) ^ (u64::from(index) << 32 | u64::from(clone)))
}

/// The seed of a clone's simulated device: different in each trial of a run, because two measurements of a real device
/// differ; the same in each attempt of a trial.
pub(crate) fn device(plan: &BoundPlan, index: u32, clone: u32) -> u64 {
    let configuration = plan.configuration.name.bytes();
    // The second series of the baseline has the baseline's seed.
    let workload = plan.workload.name.bytes();
    let names = configuration.chain([0]).chain(workload);
    let seed = names.fold(plan.seed, |seed, byte| mix(seed ^ u64::from(byte)));
    mix(seed ^ (u64::from(index) << 32 | u64::from(clone)))
}

/// The identity of a trial in the headers of verified blocks: different for each trial.
pub(crate) fn trial_identity(key: &TrialKey) -> u64 {
    let (high, low) = key.run.0.as_u64_pair();
    let rest = [
        u64::from(key.round) << 32 | u64::from(key.cell),
        key.attempt.into(),
    ];
    [low]
        .into_iter()
        .chain(rest)
        .fold(mix(high), |identity, word| mix(identity ^ word))
}

/// The n-th number below `limit` of a seed's own sequence; 0 for a limit of 0.
pub(crate) fn below(seed: u64, n: u64, limit: u64) -> u64 {
    let drawn = mix(seed ^ mix(n.wrapping_add(1)));
    ((u128::from(drawn) * u128::from(limit)) >> 64) as u64
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): neighbouring numbers become unrelated ones.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::job;
    use iodyno_model::RunId;
    use std::collections::HashSet;

    #[test]
    fn no_two_clones_share_a_seed() {
        let job = job("x");
        let seeds: HashSet<u64> = (0..32)
            .flat_map(|index| (0..32).map(move |number| (index, number)))
            .map(|(index, number)| clone(1, &job, index, number))
            .collect();
        assert_eq!(seeds.len(), 1024);
    }

    #[test]
    fn the_seed_of_a_repeatable_job_does_not_depend_on_the_trial() {
        let mut job = job("x");
        assert_eq!(clone(1, &job, 0, 0), clone(2, &job, 0, 0));
        job.work.blocks_mut().unwrap().access.repeatable = false;
        assert_ne!(clone(1, &job, 0, 0), clone(2, &job, 0, 0));
        assert_eq!(clone(1, &job, 0, 0), clone(1, &job, 0, 0));
        job.work.blocks_mut().unwrap().access.seed = Some(5);
        assert_eq!(clone(1, &job, 0, 0), clone(2, &job, 0, 0));
    }

    #[test]
    fn no_two_trials_share_an_identity() {
        let run = || RunId::fresh();
        let (one, other) = (run(), run());
        let keys = [one, other].into_iter().flat_map(|run| {
            (0..27).map(move |n| TrialKey {
                run,
                round: n / 9,
                cell: n / 3 % 3,
                attempt: n % 3,
            })
        });
        let identities: HashSet<u64> = keys.map(|key| trial_identity(&key)).collect();
        assert_eq!(identities.len(), 54);
    }

    #[test]
    fn draws_cover_their_range() {
        let drawn: HashSet<u64> = (0..200).map(|n| below(9, n, 10)).collect();
        assert_eq!(drawn, (0..10).collect());
        assert_eq!(below(9, 1, 0), 0);
    }
}
