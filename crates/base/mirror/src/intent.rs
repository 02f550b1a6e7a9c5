//! The write-intent log: one bit per region, set while the legs may differ in it.
//!
//! A bit is durable on all legs in sync before the first write to its region starts, and is cleared only after every
//! leg was flushed after the last one. After a crash, only marked regions are copied from one leg to the others. While
//! a leg is behind or missing no bit is cleared, so that the leg needs only the marked regions when it returns.
//!
//! The log is in [`LOG`](crate::superblock::LOG) and consists of sectors of 512 bytes, eight per block. A block is
//! overwritten in place. Each sector is valid on its own, so a torn write of a block leaves each sector in its old or
//! new state:
//!
//! ```text
//!  0  CRC-32C of the mirror's UUID and of the rest of the sector (u32)
//!  4  number of the sector (u32)
//!  8  number of the write of the log (u64)
//! 16  3968 bits, the lowest of each byte first
//! ```
//!
//! Each write of the log has a higher number than the last one, so the leg with the higher number was written later.
//! Logs of superblocks of version 1 have the first eight bytes of the mirror's UUID instead of the number, not covered
//! by the checksum. They are read as number 0.

use uuid::Uuid;

/// Generations and numbers of writes of the log are below it, so that they can be counted up. A stored number above it
/// is damaged.
pub const MAX_COUNTED: u64 = 1 << 63;
/// Length of a superblock and of a block of the log, bytes.
pub const BLOCK: usize = 4096;
/// Largest number of blocks of a log.
pub const MAX_BLOCKS: u64 = 64;
/// Regions in a block.
pub const REGIONS: u64 = (SECTORS * BITS * 8) as u64;
/// Largest number of regions.
pub const MAX_REGIONS: u64 = MAX_BLOCKS * REGIONS;

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

    /// The block as written to the log of a mirror at this index, by the write with this number.
    pub fn encode(&self, mirror: Uuid, index: u64, write: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let sectors = block.chunks_exact_mut(SECTOR);
        for (number, (sector, bits)) in sectors.zip(self.0.chunks_exact(BITS)).enumerate() {
            sector[4..8].copy_from_slice(&sector_number(index, number));
            sector[8..HEADER].copy_from_slice(&write.to_le_bytes());
            sector[HEADER..].copy_from_slice(bits);
            let sum = checksum(mirror, sector);
            sector[..4].copy_from_slice(&sum);
        }
        block
    }

    /// The bits of a block of the log, and the number of the write that they are from. All bits of a damaged sector are
    /// set: each of its regions may have been written.
    pub fn decode(block: &[u8; BLOCK], mirror: Uuid, index: u64) -> (Bits, u64) {
        let mut all = Bits::none();
        let mut newest = 0;
        let sectors = block.chunks_exact(SECTOR);
        for (number, (sector, bits)) in sectors.zip(all.0.chunks_exact_mut(BITS)).enumerate() {
            match write_of(sector, mirror, sector_number(index, number)) {
                Some(write) => {
                    bits.copy_from_slice(&sector[HEADER..]);
                    newest = newest.max(write);
                }
                None => bits.fill(0xff),
            }
        }
        (all, newest)
    }
}

fn sector_number(index: u64, number: usize) -> [u8; 4] {
    ((index as usize * SECTORS + number) as u32).to_le_bytes()
}

/// The number of the write that a sector is from; `None`: it is not valid.
fn write_of(sector: &[u8], mirror: Uuid, number: [u8; 4]) -> Option<u64> {
    let (sum, rest) = (&sector[..4], &sector[8..HEADER]);
    let old = crc32c::crc32c(&sector[4..]).to_le_bytes();
    match () {
        () if sector[4..8] != number => None,
        () if sum == checksum(mirror, sector) => {
            let write = u64::from_le_bytes(rest.try_into().expect("8 bytes"));
            (write < MAX_COUNTED).then_some(write)
        }
        () if sum == old && *rest == mirror.as_bytes()[..8] => Some(0),
        () => None,
    }
}

fn checksum(mirror: Uuid, sector: &[u8]) -> [u8; 4] {
    let sum = crc32c::crc32c(mirror.as_bytes());
    crc32c::crc32c_append(sum, &sector[4..]).to_le_bytes()
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
        fn what_was_encoded_is_decoded(set in regions(), mirror: u128, index in 0..MAX_BLOCKS) {
            let (bits, mirror) = (bits(&set), Uuid::from_u128(mirror));
            let (read, write) = Bits::decode(&bits.encode(mirror, index, 77), mirror, index);
            prop_assert_eq!((&read, write), (&bits, 77));
            let mut sorted = set;
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), sorted);
        }

        #[test]
        fn a_damaged_sector_marks_all_its_regions_and_no_others(bit in 0..BLOCK * 8, set in regions()) {
            let (bits, mirror) = (bits(&set), Uuid::from_u128(5 << 64));
            let mut block = bits.encode(mirror, 2, 5);
            block[bit / 8] ^= 1 << (bit % 8);
            let (read, _) = Bits::decode(&block, mirror, 2);
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
            let (mut block, after) = (old.encode(mirror, 0, 1), new.encode(mirror, 0, 2));
            for sector in (0..SECTORS).filter(|sector| torn & (1 << sector) != 0) {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                block[range.clone()].copy_from_slice(&after[range]);
            }
            let (read, _) = Bits::decode(&block, mirror, 0);
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
        let block = Bits::none().encode(Uuid::from_u128(1 << 64), 0, 9);
        for (mirror, index) in [(2 << 64, 0), (1 << 64, 1)] {
            let (read, write) = Bits::decode(&block, Uuid::from_u128(mirror), index);
            assert_eq!(write, 0);
            assert_eq!(read.iter().count(), REGIONS as usize);
        }
        let (read, _) = Bits::decode(&block, Uuid::from_u128(1 << 64), 0);
        assert_eq!(read.iter().count(), 0);
    }

    #[test]
    fn a_number_of_a_write_that_cannot_be_counted_up_is_damage() {
        let mirror = Uuid::from_u128(1 << 64);
        let read = |write| Bits::decode(&Bits::none().encode(mirror, 0, write), mirror, 0);
        let last = MAX_COUNTED - 1;
        assert_eq!(read(last), (Bits::none(), last));
        for write in [MAX_COUNTED, u64::MAX] {
            assert_eq!(read(write), (Bits::all(), 0));
        }
    }

    #[test]
    fn a_log_of_the_first_version_is_read_and_has_no_number() {
        let (mirror, bits) = (Uuid::from_u128(7 << 70), bits(&[3, 4000]));
        let mut block = bits.encode(mirror, 1, 9);
        for sector in block.chunks_exact_mut(SECTOR) {
            sector[8..HEADER].copy_from_slice(&mirror.as_bytes()[..8]);
            let sum = crc32c::crc32c(&sector[4..]).to_le_bytes();
            sector[..4].copy_from_slice(&sum);
        }
        assert_eq!(Bits::decode(&block, mirror, 1), (bits, 0));
        let other = Bits::decode(&block, Uuid::from_u128(8 << 70), 1).0;
        assert_eq!(other, Bits::all());
    }
}
