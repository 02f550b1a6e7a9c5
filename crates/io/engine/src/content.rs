//! The content of written blocks.

use iodyno_model::{Buffers, Content};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Any two sectors of scrambled buffers differ, as in fio. Otherwise storage with deduplication would store long blocks
/// nearly once.
const SECTOR: usize = 512;
/// From the word of one sector to that of the next: 2^64 divided by the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fills buffers: all of them once before the first op, and the required part before each write.
#[derive(Debug)]
pub(crate) struct Filler {
    buffers: Buffers,
    random: Xoshiro256PlusPlus,
    /// Seeds of the last blocks that were new, which deduplicable blocks repeat.
    repeated: [u64; 16],
    /// How many blocks were new.
    new: usize,
    /// Whether each write changes its random buffer.
    changes: bool,
}

impl Filler {
    pub(crate) fn new(buffers: &Buffers, seed: u64) -> Filler {
        Filler {
            repeated: [0; 16],
            new: 0,
            changes: buffers.scramble && buffers.content == Content::Random,
            buffers: buffers.clone(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Whether each write gets different content, independent of the previous content of its buffer.
    pub(crate) fn renews(&self) -> bool {
        self.buffers.dedupe_percent > 0 || self.buffers.refill
    }

    /// Fills a buffer before the first op.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) {
        let seed = self.random.next_u64();
        self.content(buffer, seed);
    }

    /// Changes a buffer before a write, as required.
    #[inline]
    pub(crate) fn before_write(&mut self, buffer: &mut [u8]) {
        if self.buffers.dedupe_percent > 0 {
            let repeats = self.random.random_range(0..100) < self.buffers.dedupe_percent;
            let seed = match repeats && self.new > 0 {
                true => {
                    let kept = self.new.min(self.repeated.len());
                    self.repeated[self.random.random_range(0..kept)]
                }
                false => {
                    let seed = self.random.next_u64();
                    self.repeated[self.new % self.repeated.len()] = seed;
                    self.new += 1;
                    seed
                }
            };
            self.content(buffer, seed);
        } else if self.buffers.refill {
            self.fill(buffer);
        } else if self.changes {
            // One word of each sector differs, at the cost of one store.
            let mut value = self.random.next_u64();
            for sector in buffer.chunks_mut(SECTOR) {
                if let Some(word) = sector.first_chunk_mut::<8>() {
                    *word = value.to_le_bytes();
                    value = value.wrapping_add(ODD);
                }
            }
        }
    }

    fn content(&self, buffer: &mut [u8], seed: u64) {
        match &self.buffers.content {
            Content::Random => Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(buffer),
            Content::Zero => buffer.fill(0),
            Content::Pattern(pattern) => repeat(&pattern.0, buffer),
            Content::Compressible {
                percent,
                chunk,
                pattern,
            } => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                let chunk = if *chunk == 0 {
                    buffer.len()
                } else {
                    *chunk as usize
                };
                for piece in buffer.chunks_mut(chunk.max(1)) {
                    let compressible = piece.len() * (*percent as usize).min(100) / 100;
                    let (rest, filled) = piece.split_at_mut(piece.len() - compressible);
                    random.fill_bytes(rest);
                    match pattern {
                        Some(pattern) => repeat(&pattern.0, filled),
                        None => filled.fill(0),
                    }
                }
            }
        }
    }
}

/// Fills a buffer by repeating a pattern; an empty pattern gives zeros.
pub(crate) fn repeat(pattern: &[u8], buffer: &mut [u8]) {
    if pattern.is_empty() {
        return buffer.fill(0);
    }
    for piece in buffer.chunks_mut(pattern.len()) {
        piece.copy_from_slice(&pattern[..piece.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::Pattern;

    fn filler(content: Content, dedupe_percent: u32) -> Filler {
        Filler::new(
            &Buffers {
                content,
                dedupe_percent,
                ..Buffers::default()
            },
            42,
        )
    }

    #[test]
    fn written_sectors_differ_from_one_another() {
        let mut filler = filler(Content::Random, 0);
        let mut buffer = vec![0; 4096 + 16];
        filler.fill(&mut buffer);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            filler.before_write(&mut buffer);
            let new = |sector: &[u8]| assert!(seen.insert(sector.to_vec()));
            buffer.chunks(512).for_each(new);
        }
    }

    #[test]
    fn a_buffer_that_is_not_scrambled_is_written_as_it_is() {
        let buffers = Buffers {
            scramble: false,
            ..Buffers::default()
        };
        let mut filler = Filler::new(&buffers, 42);
        let mut buffer = vec![0; 4096];
        filler.fill(&mut buffer);
        let first = buffer.clone();
        (0..10).for_each(|_| filler.before_write(&mut buffer));
        assert_eq!(buffer, first);
        assert!(buffer.iter().filter(|byte| **byte == 0).count() < 100);
    }

    #[test]
    fn each_chunk_has_its_compressible_share() {
        let content = Content::Compressible {
            percent: 75,
            chunk: 512,
            pattern: None,
        };
        let mut buffer = vec![1; 4096];
        filler(content, 0).fill(&mut buffer);
        for chunk in buffer.chunks(512) {
            assert!(chunk[128..].iter().all(|byte| *byte == 0));
            assert!(chunk[..128].iter().filter(|byte| **byte == 0).count() < 10);
        }
    }

    #[test]
    fn the_requested_share_of_blocks_repeats_earlier_ones() {
        let mut filler = filler(Content::Random, 30);
        let mut buffer = vec![0; 512];
        let mut seen = std::collections::HashSet::new();
        let repeated = (0..2000).filter(|_| {
            filler.before_write(&mut buffer);
            !seen.insert(buffer.clone())
        });
        assert!((500..700).contains(&repeated.count()));
    }

    #[test]
    fn a_pattern_is_repeated_to_the_last_byte() {
        let mut buffer = vec![0; 10];
        filler(Content::Pattern(Pattern(vec![1, 2, 3])), 0).fill(&mut buffer);
        assert_eq!(buffer, [1, 2, 3, 1, 2, 3, 1, 2, 3, 1]);
    }
}
