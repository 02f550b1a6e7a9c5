//! File contents: a buffer from which no two writes get the same block.

use std::io;

use iodyno_model::{Buffers, Content, Memory};
use iodyno_sys::memory::{Arena, Pages};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::content::Filler;

/// Maximum length of a write, bytes. Stop requests are checked between writes.
pub(super) const CHUNK: usize = 1 << 20;
/// The unit in which file systems deduplicate, bytes: each one is unique.
const BLOCK: usize = 4096;

/// The buffer that writes use.
#[derive(Debug)]
pub struct Contents {
    arena: Arena,
    filler: Filler,
    /// Whether a word of each block is changed in addition to the filler, which does this only for fully random
    /// content.
    stamps: bool,
    words: Xoshiro256PlusPlus,
}

impl Contents {
    /// Allocates and fills a buffer, for writes of at most `longest` bytes.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(buffers: &Buffers, longest: u64, seed: u64) -> io::Result<Contents> {
        let length = usize::try_from(longest).unwrap_or(CHUNK).min(CHUNK);
        let huge = buffers.memory == Memory::Huge;
        let mut arena = Arena::new(1, length, buffers.align as usize, huge)?;
        let mut filler = Filler::new(buffers, seed);
        for block in arena.slot_mut(0).chunks_mut(BLOCK) {
            filler.fill(block);
        }
        let stamps = matches!(&buffers.content, Content::Compressible { percent, .. } if *percent < 100)
            && buffers.dedupe_percent == 0
            && !buffers.refill;
        Ok(Contents {
            arena,
            filler,
            stamps,
            words: Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(17)),
        })
    }

    /// A note if the buffer is not in the requested memory.
    pub(super) fn note(&self, buffers: &Buffers) -> Option<String> {
        let missed = buffers.memory == Memory::Huge && self.arena.pages() != Pages::Huge;
        missed.then(|| "buffer not in huge pages: none free (see `vm.nr_hugepages`)".to_owned())
    }

    /// The content of the next `length` bytes; at most 1 MiB, and at most the `longest` given to `new`.
    pub fn next(&mut self, length: usize) -> &[u8] {
        let bytes = &mut self.arena.slot_mut(0)[..length];
        for block in bytes.chunks_mut(BLOCK) {
            self.filler.before_write(block);
            if self.stamps
                && let Some(word) = block.first_chunk_mut::<8>()
            {
                *word = self.words.next_u64().to_le_bytes();
            }
        }
        bytes
    }

    /// The rest of the content that [`Self::next`] returned, from `done` on, to continue a short write.
    #[inline]
    pub(super) fn rest(&mut self, done: usize, length: usize) -> &[u8] {
        &self.arena.slot_mut(0)[done..length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn blocks(content: Content, dedupe_percent: u32, refill: bool) -> (usize, usize, usize) {
        let buffers = Buffers {
            content,
            dedupe_percent,
            refill,
            ..Buffers::default()
        };
        let mut contents = Contents::new(&buffers, 3 << 20, 9).unwrap();
        let (mut seen, mut all, mut zeroes) = (HashSet::new(), 0, 0);
        for length in [CHUNK, CHUNK, 10_000, CHUNK] {
            for block in contents.next(length).chunks(BLOCK) {
                seen.insert(block.to_vec());
                all += 1;
                zeroes += block.iter().filter(|byte| **byte == 0).count();
            }
        }
        (seen.len(), all, zeroes)
    }

    #[test]
    fn all_blocks_differ_unless_requested_otherwise() {
        let half = || Content::Compressible {
            percent: 50,
            chunk: 0,
            pattern: None,
        };
        for (content, refill) in [
            (Content::Random, false),
            (Content::Random, true),
            (half(), false),
            (half(), true),
        ] {
            let compressible = content != Content::Random;
            let (different, all, zeroes) = blocks(content, 0, refill);
            assert_eq!((different, all), (771, 771));
            let bytes = (3 * CHUNK + 10_000) as f64;
            let share = zeroes as f64 / bytes;
            let expected = if compressible { 0.5 } else { 0.0 };
            assert!((share - expected).abs() < 0.01, "{share}");
        }
        let (different, all, _) = blocks(Content::Random, 40, false);
        assert!((all * 45 / 100..all * 75 / 100).contains(&different));
        assert_eq!(blocks(Content::Zero, 0, false).0, 2);
    }

    #[test]
    fn a_buffer_is_at_most_as_long_as_one_write() {
        let mut contents = Contents::new(&Buffers::default(), 100, 1).unwrap();
        assert_eq!(contents.next(100).len(), 100);
        assert_eq!(contents.rest(60, 100).len(), 40);
    }
}
