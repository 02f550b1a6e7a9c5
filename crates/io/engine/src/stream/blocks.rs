//! Draws the next block of a region.

use iodyno_model::{Amount, Distribution};
use rand::{Rng, RngExt};
use rand_distr::{Distribution as _, Normal, Zipf};

use super::permutation::Permutation;

/// A distribution of block numbers below a count.
#[derive(Debug)]
pub(super) enum BlockDraw {
    /// Each block once per pass; each pass has a new order.
    Map {
        /// The order of this pass.
        order: Permutation,
        /// Number of blocks drawn in this pass.
        place: u64,
        /// Number of blocks.
        count: u64,
    },
    /// All blocks with equal probability.
    Uniform {
        /// Number of blocks.
        count: u64,
    },
    /// The rank follows Zipf's law; ranks are scattered over the region.
    Zipf(Zipf<f64>, Permutation),
    /// fio's Pareto: rank = count · u^(ln h / ln(1−h)); ranks are scattered over the region.
    Pareto {
        /// Number of blocks.
        count: u64,
        /// ln h / ln(1−h).
        power: f64,
        /// Seed of the scattering.
        order: Permutation,
    },
    /// Normal distribution around the middle; a draw outside of the region is repeated.
    Normal {
        /// Number of blocks.
        count: u64,
        /// Standard deviation, in blocks.
        law: Normal<f64>,
    },
    /// First a zone according to its share, then uniform within the zone.
    Zoned(Vec<Zone>),
    /// A scattered law whose most frequent block is at a given place.
    Shifted {
        /// The law.
        draw: Box<BlockDraw>,
        /// The offset added to its blocks, modulo `count`.
        shift: u64,
        /// Number of blocks.
        count: u64,
    },
    /// A list of blocks.
    Sequence {
        /// The list.
        blocks: Vec<u64>,
        /// The offset in blocks between the starts of successive passes of the list.
        stride: u64,
        /// Number of blocks.
        count: u64,
        /// Number of blocks drawn since the start of the region.
        place: u64,
    },
}

/// A range of blocks that receives a given share of the draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Zone {
    /// Cumulative share of this zone and all before it; 1 for the last.
    up_to: f64,
    first: u64,
    /// Number of blocks, at least 1.
    count: u64,
}

/// The zones of a region of `blocks` blocks of `unit` bytes. Zones without a whole block are omitted.
fn zones(shares: &[(f64, Amount)], blocks: u64, unit: u64) -> Vec<Zone> {
    let end_of = |before: f64, length: Amount| match length {
        Amount::Percent(percent) => before + blocks as f64 * percent / 100.0,
        Amount::Bytes(bytes) => before + bytes as f64 / unit as f64,
    };
    let mut zones = Vec::with_capacity(shares.len());
    let (mut from, mut up_to) = (0.0, 0.0);
    for (share, length) in shares {
        let to = end_of(from, *length);
        // Rounding of the shares must not remove a whole block.
        let (first, end) = ((from + 1e-6) as u64, ((to + 1e-6) as u64).min(blocks));
        from = to;
        if end > first && *share > 0.0 {
            up_to += share / 100.0;
            zones.push(Zone {
                up_to,
                first,
                count: end - first,
            });
        }
    }
    // The shares of omitted zones are distributed among the others in proportion.
    zones.iter_mut().for_each(|zone| zone.up_to /= up_to);
    zones
}

impl BlockDraw {
    /// A distribution over `count` blocks (at least 1) of `unit` bytes. Invalid parameters fall back to uniform;
    /// `fio` reports them with their line before that.
    pub(super) fn new(
        (law, center): (&Distribution, Option<f64>),
        map: bool,
        (count, unit): (u64, u64),
        random: &mut impl Rng,
    ) -> BlockDraw {
        let count = count.max(1);
        let draw = BlockDraw::scattered((law, center), map, (count, unit), random);
        let first = match &draw {
            BlockDraw::Zipf(_, order) | BlockDraw::Pareto { order, .. } => order.at(0),
            _ => return draw,
        };
        match center {
            None => draw,
            Some(center) => BlockDraw::Shifted {
                draw: Box::new(draw),
                shift: ((count - 1) as f64 * center.clamp(0.0, 1.0)) as u64 + count - first,
                count,
            },
        }
    }

    fn scattered(
        (law, center): (&Distribution, Option<f64>),
        map: bool,
        (count, unit): (u64, u64),
        random: &mut impl Rng,
    ) -> BlockDraw {
        let uniform = BlockDraw::Uniform { count };
        match *law {
            Distribution::Uniform if map => BlockDraw::Map {
                order: Permutation::new(count, random),
                place: 0,
                count,
            },
            Distribution::Uniform => uniform,
            Distribution::Zipf(exponent) => match Zipf::new(count as f64, exponent) {
                Ok(law) => BlockDraw::Zipf(law, Permutation::new(count, random)),
                Err(_) => uniform,
            },
            Distribution::Pareto(share) if share > 0.0 && share < 1.0 => BlockDraw::Pareto {
                count,
                power: share.ln() / (1.0 - share).ln(),
                order: Permutation::new(count, random),
            },
            Distribution::Pareto(_) => uniform,
            Distribution::Normal(percent) => {
                let deviation = count as f64 * percent / 100.0;
                let middle = (count - 1) as f64 * center.unwrap_or(0.5);
                match Normal::new(middle, deviation) {
                    Ok(law) => BlockDraw::Normal { count, law },
                    Err(_) => uniform,
                }
            }
            Distribution::Zoned(ref shares) => match zones(shares, count, unit) {
                zones if zones.is_empty() => uniform,
                zones => BlockDraw::Zoned(zones),
            },
            Distribution::Sequence { ref blocks, .. } if blocks.is_empty() => uniform,
            Distribution::Sequence { ref blocks, stride } => BlockDraw::Sequence {
                stride: if stride { blocks.len() as u64 } else { 0 },
                blocks: blocks.clone(),
                count,
                place: 0,
            },
        }
    }

    /// The same with the most frequent blocks first.
    pub(super) fn unscattered(self) -> BlockDraw {
        let order = Permutation::identity();
        match self {
            BlockDraw::Zipf(law, _) => BlockDraw::Zipf(law, order),
            BlockDraw::Pareto { count, power, .. } => BlockDraw::Pareto {
                count,
                power,
                order,
            },
            other => other,
        }
    }

    /// Whether a pass over the map began with the last draw.
    #[inline(always)]
    pub(super) fn begins_pass(&self) -> bool {
        matches!(self, BlockDraw::Map { place: 1, .. })
    }

    /// Draws the next block.
    #[inline(always)]
    pub(super) fn next(&mut self, random: &mut impl Rng) -> u64 {
        match self {
            BlockDraw::Map {
                order,
                place,
                count,
            } => {
                if *place == *count {
                    *order = Permutation::new(*count, random);
                    *place = 0;
                }
                *place += 1;
                order.at(*place - 1)
            }
            BlockDraw::Uniform { count } => random.random_range(0..*count),
            BlockDraw::Zipf(law, order) => order.at(law.sample(random) as u64 - 1),
            BlockDraw::Pareto {
                count,
                power,
                order,
            } => {
                let uniform: f64 = random.random();
                let rank = (*count as f64 * uniform.powf(*power)) as u64;
                order.at(rank.min(*count - 1))
            }
            BlockDraw::Normal { count, law } => loop {
                let value = law.sample(random).round();
                if value >= 0.0 && value < *count as f64 {
                    return value as u64;
                }
            },
            BlockDraw::Shifted { draw, shift, count } => (draw.next(random) + *shift) % *count,
            BlockDraw::Zoned(zones) => {
                let place: f64 = random.random();
                let zone = zones.partition_point(|zone| zone.up_to <= place);
                let zone = zones[zone.min(zones.len() - 1)];
                zone.first + random.random_range(0..zone.count)
            }
            BlockDraw::Sequence {
                blocks,
                stride,
                count,
                place,
            } => {
                let length = blocks.len() as u64;
                let base = *place / length * *stride;
                let block = base + blocks[(*place % length) as usize];
                // The end of the region: the list begins again at its start.
                let (block, next) = match block < *count {
                    true => (block, *place + 1),
                    false => (blocks[0], 1),
                };
                *place = next;
                block
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn shares(law: Distribution, map: bool, count: u64, draws: u64) -> Vec<u64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut draw = BlockDraw::new((&law, None), map, (count, 4096), &mut random);
        let mut hits = vec![0; count as usize];
        (0..draws).for_each(|_| hits[draw.next(&mut random) as usize] += 1);
        hits
    }

    #[test]
    fn the_map_visits_each_block_once_in_every_pass() {
        assert!(
            shares(Distribution::Uniform, true, 997, 997 * 3)
                .iter()
                .all(|hits| *hits == 3)
        );
    }

    #[test]
    fn a_zipf_draw_gives_the_first_rank_its_share() {
        let (count, draws, exponent) = (1000u64, 200_000u64, 1.2f64);
        let harmonic: f64 = (1..=count).map(|rank| (rank as f64).powf(-exponent)).sum();
        let most = *shares(Distribution::Zipf(exponent), true, count, draws)
            .iter()
            .max()
            .unwrap();
        let expected = draws as f64 / harmonic;
        assert!(
            (most as f64 / expected - 1.0).abs() < 0.03,
            "{most} against {expected}"
        );
    }

    #[test]
    fn a_pareto_of_a_fifth_gives_a_fifth_of_the_blocks_four_fifths_of_the_draws() {
        let mut hits = shares(Distribution::Pareto(0.2), true, 1000, 200_000);
        hits.sort_unstable_by_key(|hits| std::cmp::Reverse(*hits));
        let share = hits[..200].iter().sum::<u64>() as f64 / 200_000.0;
        assert!((share - 0.8).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_normal_draw_stays_around_the_middle() {
        let hits = shares(Distribution::Normal(10.0), true, 1000, 100_000);
        let within: u64 = hits[400..600].iter().sum();
        assert!((within as f64 / 100_000.0 - 0.683).abs() < 0.01, "{within}");
    }

    #[test]
    fn a_centre_is_the_place_of_the_most_frequent_block() {
        for law in [
            Distribution::Zipf(1.2),
            Distribution::Pareto(0.1),
            Distribution::Normal(2.0),
        ] {
            for (center, block) in [(0.0, 0i32), (0.25, 25), (1.0, 99)] {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
                let law = (&law, Some(center));
                let mut draw = BlockDraw::new(law, false, (100, 4096), &mut random);
                let mut hits = [0; 100];
                (0..50_000).for_each(|_| hits[draw.next(&mut random) as usize] += 1);
                let most = (0..100i32).max_by_key(|block| hits[*block as usize]);
                assert!(most.unwrap().abs_diff(block) <= 1, "{law:?}: {hits:?}");
                assert!(hits.iter().sum::<u64>() == 50_000);
            }
        }
    }

    #[test]
    fn zones_get_their_shares_and_are_uniform_within() {
        use Amount::{Bytes, Percent};
        // For 1000 blocks: shares of the draws, then (first block, end, share).
        for (zones, expected) in [
            (
                vec![
                    (50.0, Percent(5.0)),
                    (30.0, Percent(15.0)),
                    (20.0, Percent(80.0)),
                ],
                vec![(0, 50, 0.5), (50, 200, 0.3), (200, 1000, 0.2)],
            ),
            (
                vec![(60.0, Bytes(100 * 4096)), (40.0, Bytes(300 * 4096))],
                vec![(0, 100, 0.6), (100, 400, 0.4), (400, 1000, 0.0)],
            ),
            (
                vec![(0.0, Percent(50.0)), (100.0, Percent(10.0))],
                vec![(0, 500, 0.0), (500, 600, 1.0), (600, 1000, 0.0)],
            ),
            // The region ends within the last zone.
            (
                vec![(10.0, Bytes(900 * 4096)), (90.0, Bytes(900 * 4096))],
                vec![(0, 900, 0.1), (900, 1000, 0.9)],
            ),
        ] {
            let hits = shares(Distribution::Zoned(zones.clone()), false, 1000, 200_000);
            for (first, end, share) in expected {
                let found = hits[first..end].iter().sum::<u64>() as f64 / 200_000.0;
                assert!((found - share).abs() < 0.005, "{zones:?} {first}: {found}");
                let mean = found * 200_000.0 / (end - first) as f64;
                let far = |hits: &&u64| (**hits as f64 - mean).abs() > 6.0 * mean.sqrt() + 1.0;
                assert_eq!(hits[first..end].iter().find(far), None, "{zones:?} {mean}");
            }
        }
    }

    #[test]
    fn the_share_of_a_zone_without_a_block_goes_to_the_others() {
        let zones = vec![(50.0, Amount::Percent(5.0)), (50.0, Amount::Percent(95.0))];
        let hits = shares(Distribution::Zoned(zones), false, 10, 1000);
        assert_eq!(hits.iter().sum::<u64>(), 1000);
    }

    #[test]
    fn a_sequence_repeats_its_list_or_moves_on_with_it() {
        let drawn = |stride, count, draws| {
            let law = Distribution::Sequence {
                blocks: vec![2, 0, 1],
                stride,
            };
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
            let mut draw = BlockDraw::new((&law, None), false, (count, 4096), &mut random);
            let next = |_| draw.next(&mut random);
            (0..draws).map(next).collect::<Vec<u64>>()
        };
        assert_eq!(drawn(false, 9, 7), [2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(drawn(true, 9, 12), [2, 0, 1, 5, 3, 4, 8, 6, 7, 2, 0, 1],);
        // The third pass does not fit.
        assert_eq!(drawn(true, 8, 9), [2, 0, 1, 5, 3, 4, 2, 0, 1]);
    }

    #[test]
    fn a_single_block_is_always_itself() {
        for law in [
            Distribution::Uniform,
            Distribution::Zipf(1.1),
            Distribution::Pareto(0.2),
            Distribution::Normal(20.0),
            Distribution::Zoned(vec![
                (50.0, Amount::Percent(50.0)),
                (50.0, Amount::Percent(50.0)),
            ]),
        ] {
            assert_eq!(shares(law, true, 1, 10), [10]);
        }
    }
}
