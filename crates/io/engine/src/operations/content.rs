//! File contents: a buffer from which no two writes get the same block.

use std::io;

use iodyno_model::{Buffers, Content, Memory, Writing};
use iodyno_sys::memory::{Arena, Pages};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::content::Filler;

/// Length of the buffer, bytes, and so the maximum of a write. Stop requests are checked each time when it was written.
pub(super) const CHUNK: usize = Writing::CHUNK as usize;
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
    /// Bytes of one call.
    chunk: usize,
}

impl Contents {
    /// Allocates and fills a buffer, for at most `longest` bytes at a time, written by calls of `chunk` bytes. The
    /// buffer is not smaller with a small chunk: repeated contents would be compressible.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(buffers: &Buffers, longest: u64, chunk: u64, seed: u64) -> io::Result<Contents> {
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
            chunk: usize::try_from(chunk).unwrap_or(CHUNK).clamp(1, CHUNK),
        })
    }

    /// A note if the buffer is not in the requested memory.
    pub(super) fn note(&self, buffers: &Buffers) -> Option<String> {
        let missed = buffers.memory == Memory::Huge && self.arena.pages() != Pages::Huge;
        missed.then(|| "buffer not in huge pages: none free (see `vm.nr_hugepages`)".to_owned())
    }

    /// Prepares the content of the next `length` bytes; at most 1 MiB, and at most the `longest` given to `new`.
    /// Returns it whole.
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

    /// The next part to write of the content that [`Self::next`] returned, from `done` on. It ends at the end of a
    /// chunk, so that a short write is followed by the rest of its chunk.
    #[inline]
    pub fn rest(&mut self, done: usize, length: usize) -> &[u8] {
        let end = (done / self.chunk + 1) * self.chunk;
        &self.arena.slot_mut(0)[done..end.min(length)]
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
        let mut contents = Contents::new(&buffers, 3 << 20, 1 << 20, 9).unwrap();
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
        let mut contents = Contents::new(&Buffers::default(), 100, 1 << 20, 1).unwrap();
        assert_eq!(contents.next(100).len(), 100);
        assert_eq!(contents.rest(60, 100).len(), 40);
    }

    #[test]
    fn calls_write_a_chunk_each_and_contents_do_not_repeat() {
        let mut contents = Contents::new(&Buffers::default(), 10_000, 1024, 1).unwrap();
        let whole = contents.next(10_000).to_vec();
        let (mut written, mut lengths) = (Vec::new(), Vec::new());
        while written.len() < whole.len() {
            let call = contents.rest(written.len(), whole.len());
            // The second call is short.
            let done = if lengths.len() == 1 { 24 } else { call.len() };
            lengths.push(call.len());
            written.extend_from_slice(&call[..done]);
        }
        let mut expected = vec![1024, 1024, 1000];
        expected.extend([1024; 7]);
        expected.push(10_000 % 1024);
        assert_eq!((written, lengths), (whole.clone(), expected));
        let different: HashSet<&[u8]> = whole.chunks(1024).collect();
        assert_eq!(different.len(), 10);
    }
}
