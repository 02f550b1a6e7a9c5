//! The state shared by the clones of a flow: the number of issued ops, and the share of each clone.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A flow: clones that keep their ops in the ratio of their weights. Shared by their threads. A clone that is ahead of
/// its share waits until the others have caught up.
#[derive(Debug, Default)]
pub struct SharedFlow {
    ops: AtomicU64,
    weights: AtomicU64,
}

impl SharedFlow {
    /// A flow without members.
    pub fn new() -> SharedFlow {
        SharedFlow::default()
    }

    pub(crate) fn join(&self, weight: u64) {
        self.weights.fetch_add(weight, Relaxed);
    }

    /// Removes a clone's weight and its ops, so that the others continue in their own ratio.
    pub(crate) fn leave(&self, weight: u64, ops: u64) {
        self.ops.fetch_sub(ops, Relaxed);
        self.weights.fetch_sub(weight, Relaxed);
    }

    /// Whether a clone of this weight that has issued `own` ops may issue another.
    pub(crate) fn allows(&self, weight: u64, own: u64) -> bool {
        let (all, weights) = (self.ops.load(Relaxed), self.weights.load(Relaxed));
        // own ÷ (all + 1) ≤ weight ÷ weights; the 1 permits the very first op.
        u128::from(own) * u128::from(weights) <= u128::from(weight) * (u128::from(all) + 1)
    }

    pub(crate) fn issued(&self) {
        self.ops.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use iodyno_model::{Direction, EndedBy, Flow};
    use iodyno_units::Nanos;

    use super::*;
    use crate::shared::CloneShared;
    use crate::spec::{ClonePart, CloneSpec, JobFile, Simulated};
    use crate::testing::random_reads;

    /// Number of ops of each clone after `rounds` rounds. In each round, every clone that may issue an op issues one.
    fn play(flow: &SharedFlow, weights: &[u64], ops: &mut [u64], rounds: u64) {
        for _ in 0..rounds {
            for (weight, own) in weights.iter().zip(ops.iter_mut()) {
                if flow.allows(*weight, *own) {
                    flow.issued();
                    *own += 1;
                }
            }
        }
    }

    #[test]
    fn ops_keep_the_ratio_of_the_weights() {
        for weights in [vec![1, 8], vec![2, 2], vec![1, 2, 3], vec![7]] {
            let flow = SharedFlow::new();
            weights.iter().for_each(|weight| flow.join(*weight));
            let mut ops = vec![0; weights.len()];
            play(&flow, &weights, &mut ops, 10_000);
            let sum: u64 = ops.iter().sum();
            let all: u64 = weights.iter().sum();
            assert!(sum >= 10_000, "{weights:?}: {ops:?}");
            for (weight, own) in weights.iter().zip(&ops) {
                assert!(
                    (own * all).abs_diff(weight * sum) <= 3 * all,
                    "{weights:?}: {ops:?}"
                );
            }
        }
    }

    #[test]
    fn the_remaining_members_continue_when_others_leave() {
        let flow = SharedFlow::new();
        [1, 8].iter().for_each(|weight| flow.join(*weight));
        let mut ops = [0, 0];
        play(&flow, &[1, 8], &mut ops, 1000);
        flow.leave(1, ops[0]);
        let before = ops[1];
        let mut own = [before];
        play(&flow, &[8], &mut own, 1000);
        assert_eq!(own[0] - before, 1000);
    }

    /// A clone of the flow that issues this number of reads on a simulated device.
    fn member(flow: &Arc<SharedFlow>, weight: u32, ops: u64) -> (CloneSpec, CloneShared) {
        let mut job = random_reads(DEPTH);
        job.end.ops = Some(ops);
        job.pacing.flow = Some(Flow {
            id: 0,
            weight,
            pause: Nanos::from_micros(50),
        });
        let shared = CloneShared::of(&job);
        let spec = CloneSpec {
            job: Arc::new(job),
            job_index: 0,
            clone: 0,
            files: vec![JobFile {
                descriptor: None,
                name: "data".to_owned(),
                base: 0,
                length: 1 << 20,
                device: false,
            }],
            seed: weight.into(),
            simulated: Some(Simulated {
                seed: 7,
                device: None,
                clock: None,
            }),
            output: Default::default(),
            byte_budget: u64::MAX / 2,
            log: None,
            flow: Some(Arc::clone(flow)),
            part: ClonePart::default(),
        };
        (spec, shared)
    }

    const DEPTH: u32 = 8;

    #[test]
    fn clones_on_separate_threads_keep_the_ratio_until_one_has_ended() {
        let flow = Arc::new(SharedFlow::new());
        let (first, few) = member(&flow, 1, 100);
        let (second, many) = member(&flow, 4, 400);
        let ops = |shared: &CloneShared| shared.measure.of(Direction::Read).service.count();
        let run = |spec, own: &CloneShared, other: &CloneShared| {
            let ended = crate::run(spec, own).unwrap().ended;
            (ended, ops(own), ops(other))
        };
        let (few, many) = std::thread::scope(|scope| {
            let (one, other) = (&few, &many);
            let few = scope.spawn(move || run(first, one, other));
            let many = scope.spawn(move || run(second, other, one));
            assert!(one.gate.arrived() && other.gate.arrived());
            one.gate.release(0);
            other.gate.release(0);
            (few.join().unwrap(), many.join().unwrap())
        });
        let depth = u64::from(DEPTH);
        // Its 100th op requires 395 ops of the other clone, the other's 400th requires 99; some of them may still have
        // been in flight.
        assert_eq!((few.0, few.1), (EndedBy::Count, 100));
        assert!((395 - depth..=400).contains(&few.2), "{few:?} {many:?}");
        assert_eq!((many.0, many.1), (EndedBy::Count, 400));
        assert!((99 - depth..=100).contains(&many.2), "{few:?} {many:?}");
    }

    #[test]
    fn a_clone_waits_for_a_member_at_its_gate_until_that_never_starts() {
        let flow = Arc::new(SharedFlow::new());
        let (waiting, closed) = member(&flow, 1, 100);
        let run = |ops| {
            let (mut spec, shared) = member(&flow, 1, ops);
            Arc::make_mut(&mut spec.job).end.runtime = Some(Nanos::from_millis(100));
            shared.gate.release(0);
            let ended = crate::run(spec, &shared).unwrap().ended;
            (ended, shared.measure.of(Direction::Read).service.count())
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| crate::run(waiting, &closed).unwrap().ended);
            assert!(closed.gate.arrived());
            let share = run(100);
            closed.gate.close();
            assert_eq!(share, (EndedBy::Runtime, 2));
            assert_eq!(waiting.join().unwrap(), EndedBy::NotStarted);
        });
        assert_eq!(run(100), (EndedBy::Count, 100));
    }
}
