//! Which blocks of a region were accessed in this pass: the random map of ops of different lengths.

use rand::{Rng, RngExt};

/// The largest number of blocks that a map is kept of; it takes about 1 bit for each.
const MAX_BLOCKS: u64 = 1 << 32;

/// The blocks of a region. Each is used once per pass.
#[derive(Debug)]
pub(super) struct BlockMap {
    count: u64,
    /// Bits of used blocks; above it, level by level, bits of the words of the level below that are full.
    levels: Vec<Vec<u64>>,
}

impl BlockMap {
    /// A map of `count` unused blocks; `None` for 0 blocks, or more than the limit of a map.
    pub(super) fn new(count: u64) -> Option<BlockMap> {
        if !(1..=MAX_BLOCKS).contains(&count) {
            return None;
        }
        let mut levels = Vec::new();
        let mut bits = count;
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; words as usize]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        let mut map = BlockMap { count, levels };
        map.clear();
        Some(map)
    }

    /// Begins a pass. Bits without a block count as used.
    fn clear(&mut self) {
        let mut bits = self.count;
        for level in &mut self.levels {
            level.fill(0);
            if let (Some(last), rest @ 1..) = (level.last_mut(), bits % 64) {
                *last = u64::MAX << rest;
            }
            bits = bits.div_ceil(64);
        }
    }

    /// The first unused block from `from` on.
    fn unused(&self, from: u64) -> Option<u64> {
        let mut place = from;
        for level in 0..self.levels.len() {
            let word = place / 64;
            let unused = match self.levels[level].get(word as usize) {
                Some(bits) => !bits & (u64::MAX << (place % 64)),
                None => 0,
            };
            if unused != 0 {
                let found = word * 64 + u64::from(unused.trailing_zeros());
                let below = self.levels[..level].iter().rev();
                return Some(below.fold(found, |word, level| {
                    word * 64 + u64::from(level[word as usize].trailing_ones())
                }));
            }
            place = word + 1;
        }
        None
    }

    fn is_unused(&self, block: u64) -> bool {
        block < self.count && self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 0
    }

    fn mark(&mut self, block: u64) {
        let mut place = block;
        for level in &mut self.levels {
            let word = &mut level[(place / 64) as usize];
            *word |= 1 << (place % 64);
            if *word != u64::MAX {
                return;
            }
            place /= 64;
        }
    }

    /// Whether all blocks are used, so that a new pass begins.
    pub(super) fn is_full(&self) -> bool {
        self.levels.last().is_none_or(|top| top[0] == u64::MAX)
    }

    /// Uses up to `most` (at least 1) unused blocks in a row, the first of them drawn. Returns the first, and how many.
    /// If all blocks are used, a new pass begins.
    pub(super) fn take(&mut self, most: u64, random: &mut impl Rng) -> (u64, u64) {
        let drawn = random.random_range(0..self.count);
        let first = match self.unused(drawn).or_else(|| self.unused(0)) {
            Some(first) => first,
            None => {
                self.clear();
                drawn
            }
        };
        let mut taken = 0;
        while taken < most.max(1) && self.is_unused(first + taken) {
            self.mark(first + taken);
            taken += 1;
        }
        (first, taken)
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
        fn each_pass_uses_every_block_once(count in 1u64..20_000, most in 1u64..300, seed in any::<u64>()) {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut map = BlockMap::new(count).unwrap();
            for pass in 0..2 {
                let mut used = vec![false; count as usize];
                let mut left = count;
                while left > 0 {
                    let (first, taken) = map.take(most, &mut random);
                    prop_assert!((1..=most).contains(&taken), "{taken}");
                    for block in first..first + taken {
                        let before = std::mem::replace(&mut used[block as usize], true);
                        prop_assert!(!before, "block {block} twice in pass {pass}");
                    }
                    left -= taken;
                }
            }
        }
    }

    #[test]
    fn there_is_no_map_of_nothing_or_of_too_much() {
        assert!(BlockMap::new(0).is_none());
        assert!(BlockMap::new(MAX_BLOCKS + 1).is_none());
    }
}
