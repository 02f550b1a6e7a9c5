//! What the clones of a flow share: how many ops they have issued, and how many are due to each.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A flow: clones that keep their ops in the ratio of their weights. Shared by their threads; one clone
/// stalls where it is ahead of its share, until the others have caught up.
#[derive(Debug, Default)]
pub struct SharedFlow {
    ops: AtomicU64,
    weights: AtomicU64,
}

impl SharedFlow {
    /// Nobody takes part yet.
    pub fn new() -> SharedFlow {
        SharedFlow::default()
    }

    pub(crate) fn join(&self, weight: u64) {
        self.weights.fetch_add(weight, Relaxed);
    }

    /// Takes a clone's weight and its ops out, so that the others go on in their own ratio.
    pub(crate) fn leave(&self, weight: u64, ops: u64) {
        self.ops.fetch_sub(ops, Relaxed);
        self.weights.fetch_sub(weight, Relaxed);
    }

    /// Whether a clone of this weight that has issued `own` ops may issue another.
    pub(crate) fn allows(&self, weight: u64, own: u64) -> bool {
        let (all, weights) = (self.ops.load(Relaxed), self.weights.load(Relaxed));
        // own ÷ (all + 1) ≤ weight ÷ weights; the 1 lets the first of all begin.
        u128::from(own) * u128::from(weights) <= u128::from(weight) * (u128::from(all) + 1)
    }

    pub(crate) fn issued(&self) {
        self.ops.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ops of each clone after `rounds` in which each that may issues one.
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
    fn those_who_stay_go_on_without_those_who_leave() {
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
}
