//! Writes that bring a solid-state disk into the state of long random writes in one pass (fio's `sprandom`).
//!
//! In this state, blocks of flash with few valid pages are more frequent than those with many: with `f(i)` the share of
//! flash blocks with `i` valid pages, `i · f(i)` is constant (P. Desnoyers, "Analytic Models of SSD Write Performance",
//! ACM Transactions on Storage 8(2), 2012). Ordered by their validity `v`, the flash blocks up to the fraction `x` of
//! the disk therefore have `dx ∝ dv / v`, so that `v(x) = g^(1 − x)`, where `g` is the validity at which a flash block
//! is collected. All valid pages together are the logical capacity: `∫ v dx = (1 − g) / −ln g = 1 / (1 +
//! over-provisioning)`.
//!
//! The disk is written region by region, in the order of validity. Each write in a region is chosen with the
//! probability `1 − v` to be repeated in the next region, which invalidates its first copy.

use std::collections::VecDeque;

use iodyno_model::Precondition;
use rand::{Rng, RngExt};

use super::permutation::Permutation;

/// The order of the writes.
#[derive(Debug)]
pub(super) struct PreconditionDraw {
    order: Permutation,
    /// Number of blocks written for the first time.
    place: u64,
    /// Number of blocks.
    count: u64,
    /// Writes per region.
    region: u64,
    /// Writes left in this region.
    left: u64,
    /// The probabilities that a write is repeated, of this region and the next ones, from the last to this one.
    repeats: Vec<f64>,
    /// Blocks to write again in this region.
    due: VecDeque<u64>,
    /// Blocks to write again in the next region.
    later: VecDeque<u64>,
    /// They are written at the end of the region, so that the disk's cache does not contain the first copy.
    at_end: bool,
}

/// The validity at which a flash block is collected: `(1 − g) / −ln g = 1 / (1 + over_provisioning)`.
fn collected(over_provisioning: f64) -> f64 {
    let logical = 1.0 / (1.0 + over_provisioning);
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..100 {
        let middle: f64 = (low + high) / 2.0;
        match (1.0 - middle) / -middle.ln() < logical {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

impl PreconditionDraw {
    /// For `count` blocks of `unit` bytes.
    pub(super) fn new(
        rule: Precondition,
        (count, unit): (u64, u64),
        random: &mut impl Rng,
    ) -> PreconditionDraw {
        let regions = rule.regions.max(1);
        let region = rule.physical_bytes(count * unit, unit) / u64::from(regions) / unit.max(1);
        let collected = collected(rule.over_provisioning);
        let repeat = |number: u32| {
            let place = (f64::from(number) + 0.5) / f64::from(regions);
            1.0 - collected.powf(1.0 - place)
        };
        let repeats: Vec<f64> = (0..regions).rev().map(repeat).collect();
        let most = repeats.last().copied().unwrap_or(0.0);
        // Six standard deviations above the mean.
        let spread = 6.0 * (region as f64 * most * (1.0 - most)).sqrt();
        let most = (region as f64 * most + spread) as usize + 1;
        PreconditionDraw {
            order: Permutation::new(count, random),
            place: 0,
            count,
            region,
            left: region,
            repeats,
            due: VecDeque::with_capacity(most),
            later: VecDeque::with_capacity(most),
            at_end: rule.cache > 0,
        }
    }

    /// The next block; `None` after the last one.
    pub(super) fn next(&mut self, random: &mut impl Rng) -> Option<u64> {
        if self.left == 0 {
            self.repeats.pop();
            std::mem::swap(&mut self.due, &mut self.later);
            self.left = self.region;
        }
        let repeat = *self.repeats.last()?;
        let due = self.due.len() as u64;
        let again = match self.at_end {
            true => due >= self.left || self.place == self.count,
            false => due > 0,
        };
        let block = match again {
            true => self.due.pop_front()?,
            false if self.place == self.count => return None,
            false => {
                self.place += 1;
                self.order.at(self.place - 1)
            }
        };
        self.left -= 1;
        if random.random_bool(repeat) {
            self.later.push_back(block);
        }
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const COUNT: u64 = 100_000;

    fn drawn(over_provisioning: f64, regions: u32, cache: u64) -> Vec<u64> {
        let rule = Precondition {
            over_provisioning,
            regions,
            cache,
        };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut draw = PreconditionDraw::new(rule, (COUNT, 4096), &mut random);
        std::iter::from_fn(|| draw.next(&mut random)).collect()
    }

    #[test]
    fn the_validity_of_collected_blocks_follows_from_the_over_provisioning() {
        for (over_provisioning, expected) in
            [(0.07, 0.8721), (0.15, 0.7510), (0.5, 0.4172), (0.9, 0.2328)]
        {
            let found = collected(over_provisioning);
            assert!(
                (found - expected).abs() < 1e-3,
                "{over_provisioning} {found}"
            );
            let mean = (1.0 - found) / -found.ln();
            assert!((mean - 1.0 / (1.0 + over_provisioning)).abs() < 1e-9);
        }
    }

    #[test]
    fn the_physical_capacity_is_written_once_with_valid_blocks_as_in_the_model() {
        for (over_provisioning, cache) in [(0.1, 0), (0.15, 1 << 20), (0.5, 0)] {
            let blocks = drawn(over_provisioning, 50, cache);
            let physical = COUNT as f64 * (1.0 + over_provisioning);
            assert!(
                (blocks.len() as f64 / physical - 1.0).abs() < 0.01,
                "{}",
                blocks.len()
            );
            // The last write to each block is valid.
            let mut last = vec![None; COUNT as usize];
            for (place, block) in blocks.iter().enumerate() {
                last[*block as usize] = Some(place);
            }
            let written = last.iter().flatten().count();
            assert!(written as f64 > COUNT as f64 * 0.99, "{written}");
            let region = (physical / 50.0) as usize;
            let mut valid = [0; 50];
            for place in last.iter().flatten() {
                valid[(place / region).min(49)] += 1;
            }
            let lowest = collected(over_provisioning);
            for (number, valid) in valid.iter().enumerate().take(48) {
                let found = f64::from(*valid) / region as f64;
                let expected = lowest.powf(1.0 - (number as f64 + 0.5) / 50.0);
                assert!(
                    (found - expected).abs() < 0.06,
                    "{over_provisioning} {number}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn repeats_begin_a_region_or_end_it_if_the_disk_has_a_cache() {
        for (cache, at_end) in [(0, false), (1 << 20, true)] {
            let blocks = drawn(0.2, 10, cache);
            let region = COUNT as usize * 12 / 100;
            let first: std::collections::HashSet<u64> = blocks[..region].iter().copied().collect();
            assert_eq!(first.len(), region);
            let second = &blocks[region..2 * region];
            let again: Vec<bool> = second.iter().map(|block| first.contains(block)).collect();
            let count = again.iter().filter(|again| **again).count();
            assert!(count > region / 10);
            let (start, end) = (again[0], again[region - 1]);
            assert_eq!((start, end), (!at_end, at_end));
            assert_eq!(
                again.windows(2).filter(|pair| pair[0] != pair[1]).count(),
                1
            );
        }
    }
}
