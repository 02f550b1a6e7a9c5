//! Draws the size of the next op.

use iodyno_model::BlockSizes;
use rand::{Rng, RngExt};

/// Draws a size, bytes.
#[inline]
pub(super) fn draw(sizes: &BlockSizes, random: &mut impl Rng) -> u64 {
    match sizes {
        BlockSizes::Fixed(size) => *size,
        // As in fio: sizes beyond the largest one are cut to it.
        BlockSizes::Range {
            min,
            max,
            unaligned,
        } => {
            let size = min + random.random_range(0..(*max).max(1));
            let excess = if *unaligned { 0 } else { size % min.max(&1) };
            (size - excess).min(*max)
        }
        BlockSizes::Split(parts) => {
            let mut left: f64 = random.random::<f64>() * 100.0;
            for (size, percent) in parts {
                left -= percent;
                if left < 0.0 {
                    return *size;
                }
            }
            parts.last().map_or(0, |part| part.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn a_split_keeps_its_shares_and_a_range_its_steps() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let split = BlockSizes::Split(vec![(4096, 10.0), (65536, 50.0), (32768, 40.0)]);
        let drawn: Vec<u64> = (0..100_000).map(|_| draw(&split, &mut random)).collect();
        for (size, share) in [(4096, 0.1), (65536, 0.5), (32768, 0.4)] {
            let found = drawn.iter().filter(|drawn| **drawn == size).count() as f64 / 1e5;
            assert!((found - share).abs() < 0.01, "{size}: {found}");
        }
        let range = BlockSizes::Range {
            min: 4096,
            max: 16384,
            unaligned: false,
        };
        let mut seen = std::collections::BTreeSet::new();
        (0..1000).for_each(|_| _ = seen.insert(draw(&range, &mut random)));
        assert_eq!(
            seen.into_iter().collect::<Vec<_>>(),
            [4096, 8192, 12288, 16384]
        );
    }
}
