//! The write-intent log: one bit per region, set while the legs may differ in it.
//!
//! A bit is durable on all legs in sync before the first write to its region starts, and is cleared only after every leg was
//! flushed after the last one. After a crash, only marked regions are copied from one leg to the others. While a leg is
//! behind or missing no bit is cleared, so that the leg needs only the marked regions when it returns.
//!
//! The log lies in [`LOG`](crate::superblock::LOG) and consists of sectors of 512 bytes, eight in a block. A block is
//! overwritten in place. A sector is valid on its own, so that a torn write of a block leaves each sector as before or as after:
//!
//! ```text
//!  0  CRC-32C of the rest of the sector (u32)
//!  4  number of the sector (u32)
//!  8  first eight bytes of the mirror's UUID
//! 16  3968 bits, the lowest of each byte first
//! ```

use uuid::Uuid;

use crate::superblock::BLOCK;

/// Largest number of blocks of a log.
pub const MOST_BLOCKS: u64 = 64;
/// Regions in a block.
pub const REGIONS: u64 = (SECTORS * BITS * 8) as u64;
/// Largest number of regions.
pub const MOST_REGIONS: u64 = MOST_BLOCKS * REGIONS;

const SECTOR: usize = 512;
const HEADER: usize = 16;
const SECTORS: usize = BLOCK / SECTOR;
/// Bytes of bits in a sector.
const BITS: usize = SECTOR - HEADER;

/// The bits of one block of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bits(Box<[u8; SECTORS * BITS]>);

impl Bits {
    /// No bit is set.
    pub fn none() -> Bits {
        Bits(Box::new([0; SECTORS * BITS]))
    }

    /// Every bit is set.
    pub fn all() -> Bits {
        Bits(Box::new([0xff; SECTORS * BITS]))
    }

    /// Whether the bit of a region is set, counted from the start of the block.
    pub fn get(&self, region: usize) -> bool {
        self.0[region / 8] & (1 << (region % 8)) != 0
    }

    /// Sets or clears the bit of a region.
    pub fn set(&mut self, region: usize, to: bool) {
        match to {
            true => self.0[region / 8] |= 1 << (region % 8),
            false => self.0[region / 8] &= !(1 << (region % 8)),
        }
    }

    /// Adds the bits of another.
    pub fn add(&mut self, other: &Bits) {
        for (own, other) in self.0.iter_mut().zip(other.0.iter()) {
            *own |= other;
        }
    }

    /// Keeps only the bits that another has as well.
    pub fn keep(&mut self, other: &Bits) {
        for (own, other) in self.0.iter_mut().zip(other.0.iter()) {
            *own &= other;
        }
    }

    /// The set bits, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let set = self.0.iter().enumerate().filter(|(_, byte)| **byte != 0);
        set.flat_map(|(index, byte)| {
            let byte = *byte;
            (0..8)
                .filter(move |bit| byte & (1 << bit) != 0)
                .map(move |bit| index * 8 + bit)
        })
    }

    /// The block as written to the log of a mirror at this index.
    pub fn encode(&self, mirror: Uuid, index: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        for (number, (sector, bits)) in (block
            .chunks_exact_mut(SECTOR)
            .zip(self.0.chunks_exact(BITS)))
        .enumerate()
        {
            sector[4..HEADER].copy_from_slice(&header(mirror, index, number));
            sector[HEADER..].copy_from_slice(bits);
            let sum = crc32c::crc32c(&sector[4..]);
            sector[..4].copy_from_slice(&sum.to_le_bytes());
        }
        block
    }

    /// The bits of a block of the log. All bits of a damaged sector are set: each of its regions may have been written.
    pub fn decode(block: &[u8; BLOCK], mirror: Uuid, index: u64) -> Bits {
        let mut all = Bits::none();
        for (number, (sector, bits)) in
            (block.chunks_exact(SECTOR).zip(all.0.chunks_exact_mut(BITS))).enumerate()
        {
            let sum = crc32c::crc32c(&sector[4..]).to_le_bytes();
            if sector[..4] == sum && sector[4..HEADER] == header(mirror, index, number) {
                bits.copy_from_slice(&sector[HEADER..]);
            } else {
                bits.fill(0xff);
            }
        }
        all
    }
}

fn header(mirror: Uuid, index: u64, number: usize) -> [u8; 12] {
    let mut header = [0; 12];
    let sector = (index as usize * SECTORS + number) as u32;
    header[..4].copy_from_slice(&sector.to_le_bytes());
    header[4..].copy_from_slice(&mirror.as_bytes()[..8]);
    header
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bits(set: &[usize]) -> Bits {
        let mut bits = Bits::none();
        for region in set {
            bits.set(*region, true);
        }
        bits
    }

    fn regions() -> impl Strategy<Value = Vec<usize>> {
        proptest::collection::vec(0..REGIONS as usize, 0..200)
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(set in regions(), mirror: u128, index in 0..MOST_BLOCKS) {
            let (bits, mirror) = (bits(&set), Uuid::from_u128(mirror));
            let read = Bits::decode(&bits.encode(mirror, index), mirror, index);
            prop_assert_eq!(&read, &bits);
            let mut sorted = set;
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), sorted);
        }

        #[test]
        fn a_damaged_sector_marks_all_its_regions_and_no_others(bit in 0..BLOCK * 8, set in regions()) {
            let (bits, mirror) = (bits(&set), Uuid::from_u128(5 << 64));
            let mut block = bits.encode(mirror, 2);
            block[bit / 8] ^= 1 << (bit % 8);
            let read = Bits::decode(&block, mirror, 2);
            for region in 0..REGIONS as usize {
                let damaged = region / (BITS * 8) == bit / 8 / SECTOR;
                prop_assert_eq!(read.get(region), damaged || bits.get(region));
            }
        }

        #[test]
        fn a_torn_write_never_loses_a_bit_that_is_in_both(
            old in regions(), new in regions(), torn: u8
        ) {
            let mirror = Uuid::from_u128(1);
            let (old, new) = (bits(&old), bits(&new));
            let (mut block, after) = (old.encode(mirror, 0), new.encode(mirror, 0));
            for sector in (0..SECTORS).filter(|sector| torn & (1 << sector) != 0) {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                block[range.clone()].copy_from_slice(&after[range]);
            }
            let read = Bits::decode(&block, mirror, 0);
            let mut both = old.clone();
            both.keep(&new);
            let mut either = old;
            either.add(&new);
            prop_assert!(both.iter().all(|region| read.get(region)));
            prop_assert!(read.iter().all(|region| either.get(region)));
        }
    }

    #[test]
    fn the_log_of_another_mirror_or_place_marks_everything() {
        let block = Bits::none().encode(Uuid::from_u128(1 << 64), 0);
        for (mirror, index) in [(2 << 64, 0), (1 << 64, 1)] {
            let read = Bits::decode(&block, Uuid::from_u128(mirror), index);
            assert_eq!(read.iter().count(), REGIONS as usize);
        }
        let read = Bits::decode(&block, Uuid::from_u128(1 << 64), 0);
        assert_eq!(read.iter().count(), 0);
    }
}
