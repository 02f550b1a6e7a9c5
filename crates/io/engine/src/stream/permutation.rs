//! A keyed permutation of 0..n in constant memory: the random map.

use rand::Rng;

/// Visits each block once per pass, in an order determined by a key.
///
/// A bijection on the next power of two (three rounds of multiply, add and fold, which are all invertible),
/// repeated until the result is below n: the cycle-walking of Black and Rogaway, "Ciphers with arbitrary finite
/// domains" (CT-RSA 2002). Fewer than two steps on average. Not cryptographically secure.
#[derive(Debug, Clone)]
pub(super) struct Permutation {
    n: u64,
    mask: u64,
    fold: u32,
    rounds: [(u64, u64); 3],
}

impl Permutation {
    /// A permutation of 0..n (n at least 1), with a key from the generator.
    pub(super) fn new(n: u64, random: &mut impl Rng) -> Permutation {
        let n = n.max(1);
        let bits = (u64::BITS - (n - 1).leading_zeros()).max(1);
        Permutation {
            n,
            mask: u64::MAX >> (u64::BITS - bits),
            fold: bits.div_ceil(2),
            rounds: std::array::from_fn(|_| (random.next_u64() | 1, random.next_u64())),
        }
    }

    /// Each block at its own position, below 2^63.
    pub(super) fn identity() -> Permutation {
        Permutation {
            n: u64::MAX,
            mask: u64::MAX,
            fold: 63,
            rounds: [(1, 0); 3],
        }
    }

    /// The block at a position below n.
    #[inline]
    pub(super) fn at(&self, place: u64) -> u64 {
        let mut value = place;
        loop {
            for (factor, addend) in self.rounds {
                value = value.wrapping_mul(factor).wrapping_add(addend) & self.mask;
                value ^= value >> self.fold;
            }
            if value < self.n {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    proptest! {
        #[test]
        fn visits_every_block_once(n in 1u64..5000, seed in any::<u64>()) {
            let permutation = Permutation::new(n, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
            let mut seen = vec![false; n as usize];
            for place in 0..n {
                let block = permutation.at(place) as usize;
                prop_assert!(!std::mem::replace(&mut seen[block], true), "{block} twice");
            }
        }
    }

    #[test]
    fn neighbours_are_far_apart() {
        let n = 1 << 20;
        let permutation = Permutation::new(n, &mut Xoshiro256PlusPlus::seed_from_u64(7));
        let near = (0..10_000).filter(|i| permutation.at(*i).abs_diff(permutation.at(i + 1)) < 64);
        // About 10 000 × 128 / 2^20 ≈ 1.2 are expected by chance.
        assert!(near.count() < 20);
    }

    #[test]
    fn each_tenth_of_a_pass_covers_all_of_the_region() {
        let n = 1_000_003;
        let permutation = Permutation::new(n, &mut Xoshiro256PlusPlus::seed_from_u64(3));
        for tenth in 0..10 {
            let mut hits = [0u32; 100];
            for place in tenth * 100_000..(tenth + 1) * 100_000 {
                hits[(permutation.at(place) * 100 / n) as usize] += 1;
            }
            // 1000 expected; five standard deviations.
            assert!(
                hits.iter().all(|hits| (840..1160).contains(hits)),
                "{hits:?}"
            );
        }
    }
}
