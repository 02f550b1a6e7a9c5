//! The pattern that fills verified blocks.

use iodyno_model::{BlockPattern, Checksum, Verify};

use crate::content::repeat;

/// Short patterns are repeated up to this length, so that they are copied and compared in long pieces.
const LONG: usize = 512;

/// A pattern, repeated from the start of a block, or restarted at each interval of it.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    /// The positions of the offset of the block or interval: 8 bytes, little-endian.
    offsets: Vec<usize>,
    /// Length of the pattern before it was repeated, bytes.
    period: u64,
    /// Length of an interval, bytes; 0: the block.
    interval: usize,
}

impl Body {
    /// The rule's pattern for blocks, if there is one.
    pub(super) fn of(rule: &Verify) -> Option<Body> {
        let pattern = match (&rule.pattern, &rule.checksum) {
            (Some(pattern), _) => pattern.clone(),
            (None, Checksum::Pattern(bytes)) => BlockPattern {
                bytes: bytes.clone(),
                offsets: Vec::new(),
                interval: 0,
            },
            _ => return None,
        };
        let period = pattern.bytes.0.len();
        if period == 0 {
            return None;
        }
        let times = LONG.div_ceil(period);
        let offsets = pattern.offsets.iter().map(|at| *at as usize);
        let offsets = offsets.filter(|at| at + 8 <= period);
        Some(Body {
            offsets: offsets
                .flat_map(|at| (0..times).map(move |time| time * period + at))
                .collect(),
            bytes: pattern.bytes.0.repeat(times),
            period: period as u64,
            interval: pattern.interval as usize,
        })
    }

    /// Whether the expected content of a unit of this length depends on the start of its block.
    pub(super) fn depends_on_start(&self, unit: u64) -> bool {
        !self.offsets.is_empty() || self.interval > 0 || !unit.is_multiple_of(self.period)
    }

    fn put_offset(&mut self, offset: u64) {
        for at in &self.offsets {
            self.bytes[*at..at + 8].copy_from_slice(&offset.to_le_bytes());
        }
    }

    /// Fills the block at this offset of its file.
    pub(super) fn fill(&mut self, offset: u64, block: &mut [u8]) {
        let interval = match self.interval {
            0 => block.len(),
            interval => interval,
        };
        let mut at = offset;
        for piece in block.chunks_mut(interval.max(1)) {
            self.put_offset(at);
            repeat(&self.bytes, piece);
            at += piece.len() as u64;
        }
    }

    /// The position in `part` of the first byte that differs from the block at this offset, and the expected byte. The
    /// part begins `start` bytes after the block.
    pub(super) fn differing(
        &mut self,
        offset: u64,
        start: usize,
        part: &[u8],
    ) -> Option<(usize, u8, u8)> {
        let mut done = 0;
        while done < part.len() {
            let place = start + done;
            let into = match self.interval {
                0 => place,
                interval => place % interval,
            };
            self.put_offset(offset + (place - into) as u64);
            let left = match self.interval {
                0 => usize::MAX,
                interval => interval - into,
            };
            let phase = into % self.bytes.len();
            let length = (part.len() - done).min(left).min(self.bytes.len() - phase);
            let found = &part[done..done + length];
            let expected = &self.bytes[phase..phase + length];
            if found != expected {
                let at = found.iter().zip(expected).position(|(a, b)| a != b)?;
                return Some((done + at, found[at], expected[at]));
            }
            done += length;
        }
        None
    }
}
