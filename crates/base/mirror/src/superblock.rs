//! The superblock of a leg, and the layout of a leg.
//!
//! ```text
//! byte 0        superblock, first copy    4 KiB
//! byte 64 KiB   write-intent log          up to 64 blocks of 4 KiB (see `intent`)
//! byte 512 KiB  superblock, second copy   4 KiB
//! byte 1 MiB    data                      `Geometry::length` bytes
//! ```
//!
//! All numbers are little-endian. A block is valid if its magic number, version and CRC-32C are right. An update writes
//! one copy durably and then the other one with the next generation, so that at least one of them is always valid. A
//! torn or lost write leaves the superblock from before or after the update. The second copy has the generation of the
//! first one as `complete`: every leg has that generation when the second copy is written.
//!
//! A *line* is the sequence of records written by one start of a mirror. Its generations follow each other, and its
//! number is random. The first record that is not only of the start forks it from the previous line. If the mirror is
//! restored to an older state, the histories before and after have different lines. A start without a leg that is in
//! sync forks a line at once, because the missing leg may be started elsewhere. Until the first write, the new line is
//! *unwritten*: its data are those of the line that it was forked from.
//!
//! Version 1 lacks the flags and the right leg, and its log has another format (see `intent`). A superblock of version
//! 1 counts as one of a line with writes. The first update writes version 2, which older programs refuse.
//!
//! ```text
//!   0  magic, 16 bytes                72  region, bytes (u64)
//!  16  version (u32), 1 or 2         80  smallest unit of I/O, bytes (u32)
//!  20  CRC-32C of the block with      84  number of legs (u32)
//!      this field zero (u32)         128  legs of 32 bytes each:
//!  24  generation (u64)                    0  UUID (16 bytes)
//!  32  UUID of the mirror                 16  state: 1 in sync, 2 behind (u32)
//!  48  UUID of this leg                   20  generation that it has at least (u32)
//!  64  length of the data (u64)           24  behind: bytes copied (u64)
//!  88  newest generation that all legs that got writes have (u64)
//!  96  line (u64)                       1024  forks of 16 bytes each:
//! 104  number of forks (u32)                0  line (u64)
//! 108  flags (u32): 1 unwritten             8  generation (u64)
//! 112  leg that is right where legs differ, from 1 on; 0: none (u32)
//! ```

use uuid::Uuid;

use crate::intent;
pub use crate::intent::{BLOCK, MAX_COUNTED};

/// Offsets of the two copies.
pub const COPIES: [u64; 2] = [0, 512 << 10];
/// Offset of the write-intent log.
pub const LOG: u64 = 64 << 10;
/// Offset of the data.
pub const DATA: u64 = 1 << 20;
/// Largest number of legs.
pub const MAX_LEGS: usize = 16;
/// Largest number of forks that are remembered, the newest ones.
pub const MAX_FORKS: usize = 64;
/// At byte 0 of each copy.
pub const MAGIC: &[u8; 16] = b"iodyno mirror\r\n\x1a";

const VERSION: u32 = 2;
/// Without flags.
const OLD_VERSION: u32 = 1;
/// Flag: nothing was written since the line was forked.
const UNWRITTEN: u32 = 1;
const CHECKSUM: usize = 20;
const LEGS: usize = 128;
const LEG: usize = 32;
const FORKS: usize = 1024;
const FORK: usize = 16;
const IN_SYNC: u32 = 1;
const BEHIND: u32 = 2;

/// Sizes of a mirror, the same on all legs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Length of the data, bytes; a multiple of `unit`.
    pub length: u64,
    /// Length of a region of the write-intent log, bytes; a power of two, at least 4 KiB.
    pub region: u64,
    /// Requests are aligned to it, bytes: 512 or 4096.
    pub unit: u32,
}

impl Geometry {
    /// A mirror on legs of `leg` bytes, with the smallest region of at least 1 MiB that gives at most 16384 regions, at
    /// most 64 MiB unless the log requires more. `None`: the legs are too short.
    pub fn on_legs(leg: u64, unit: u32) -> Option<Geometry> {
        let length = leg.checked_sub(DATA)? / BLOCK as u64 * BLOCK as u64;
        let wanted = length.div_ceil(16384).next_power_of_two();
        let least = length.div_ceil(intent::MAX_REGIONS).next_power_of_two();
        let geometry = Geometry {
            length,
            region: wanted.clamp(1 << 20, 64 << 20).max(least),
            unit,
        };
        geometry.valid().then_some(geometry)
    }

    /// Number of regions.
    pub fn regions(&self) -> u64 {
        self.length.div_ceil(self.region)
    }

    /// Whether a mirror can have these sizes.
    pub fn valid(&self) -> bool {
        let unit = u64::from(self.unit);
        [512, 4096].contains(&unit)
            && self.region.is_power_of_two()
            && self.region >= BLOCK as u64
            && self.length > 0
            && self.length.is_multiple_of(unit)
            && self.length <= (i64::MAX as u64) - DATA
            && self.regions() <= intent::MAX_REGIONS
    }
}

/// The content of a leg, relative to the mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegState {
    /// Everything: reads may be served from it.
    InSync,
    /// Below `copied` (bytes) it may differ in the regions that the log marks, above it anywhere.
    Behind {
        /// Bytes from the start.
        copied: u64,
    },
}

/// A leg in the table of the mirror's legs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its content.
    pub state: LegState,
    /// A lower bound for the generation of its own superblock, unless it was restored from a copy. Capped at `u32::MAX`
    /// when stored.
    pub seen: u64,
}

/// A line that ended because a later start began another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The line.
    pub line: u64,
    /// Its last generation.
    pub generation: u64,
}

/// The superblock of one leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// UUID of the mirror.
    pub mirror: Uuid,
    /// UUID of the leg that it is on.
    pub leg: Uuid,
    /// Incremented by each update.
    pub generation: u64,
    /// The newest generation that was written to all legs that got writes; at most `generation`. A leg in sync with an
    /// older one was restored from a copy. While a line is unwritten, it is that of the line before.
    pub complete: u64,
    /// The line of its generation.
    pub line: u64,
    /// Earlier lines that it descends from, oldest first; at most [`MAX_FORKS`].
    pub forks: Vec<Fork>,
    /// Nothing was written since the line was forked.
    pub unwritten: bool,
    /// The leg that is read where legs differ.
    pub source: Option<Uuid>,
    /// Sizes.
    pub geometry: Geometry,
    /// All legs, at least one, with different UUIDs.
    pub members: Vec<Member>,
}

/// Why a leg has no usable superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Neither copy has the magic number.
    #[error("it is not a leg of a mirror: it has no superblock")]
    Absent,
    /// A magic number, but no copy is valid.
    #[error("both copies of its superblock are damaged")]
    Damaged,
    /// Written by another version.
    #[error("its superblock has version {0}; this program supports versions up to {VERSION}")]
    Version(u32),
}

impl Superblock {
    /// The bytes of both copies.
    ///
    /// # Panics
    /// With more than [`MAX_LEGS`] legs or [`MAX_FORKS`] forks.
    pub fn encode(&self) -> [u8; BLOCK] {
        assert!(self.members.len() <= MAX_LEGS, "too many legs");
        assert!(self.forks.len() <= MAX_FORKS, "too many forks");
        let mut block = [0; BLOCK];
        block[..16].copy_from_slice(MAGIC);
        put32(&mut block, 16, VERSION);
        put64(&mut block, 24, self.generation);
        block[32..48].copy_from_slice(self.mirror.as_bytes());
        block[48..64].copy_from_slice(self.leg.as_bytes());
        put64(&mut block, 64, self.geometry.length);
        put64(&mut block, 72, self.geometry.region);
        put32(&mut block, 80, self.geometry.unit);
        put32(&mut block, 84, self.members.len() as u32);
        put64(&mut block, 88, self.complete);
        put64(&mut block, 96, self.line);
        put32(&mut block, 104, self.forks.len() as u32);
        put32(&mut block, 108, if self.unwritten { UNWRITTEN } else { 0 });
        let mut members = self.members.iter();
        let source = members.position(|member| Some(member.uuid) == self.source);
        put32(&mut block, 112, source.map_or(0, |leg| leg as u32 + 1));
        for (index, fork) in self.forks.iter().enumerate() {
            put64(&mut block, FORKS + index * FORK, fork.line);
            put64(&mut block, FORKS + index * FORK + 8, fork.generation);
        }
        for (index, member) in self.members.iter().enumerate() {
            let at = LEGS + index * LEG;
            block[at..at + 16].copy_from_slice(member.uuid.as_bytes());
            put32(
                &mut block,
                at + 20,
                member.seen.try_into().unwrap_or(u32::MAX),
            );
            match member.state {
                LegState::InSync => put32(&mut block, at + 16, IN_SYNC),
                LegState::Behind { copied } => {
                    put32(&mut block, at + 16, BEHIND);
                    put64(&mut block, at + 24, copied);
                }
            }
        }
        let sum = checksum(&block);
        put32(&mut block, CHECKSUM, sum);
        block
    }

    /// Decodes one copy of the superblock.
    ///
    /// # Errors
    /// Why it is unusable.
    pub fn decode(block: &[u8; BLOCK]) -> Result<Superblock, Unreadable> {
        if block[..16] != MAGIC[..] {
            return Err(Unreadable::Absent);
        }
        if get32(block, CHECKSUM) != checksum(block) {
            return Err(Unreadable::Damaged);
        }
        let (flags, source) = match get32(block, 16) {
            VERSION => (get32(block, 108), get32(block, 112) as usize),
            OLD_VERSION => (0, 0),
            other => return Err(Unreadable::Version(other)),
        };
        let geometry = Geometry {
            length: get64(block, 64),
            region: get64(block, 72),
            unit: get32(block, 80),
        };
        let count = get32(block, 84) as usize;
        let (generation, complete) = (get64(block, 24), get64(block, 88));
        let count_forks = get32(block, 104) as usize;
        let unwritten = flags & UNWRITTEN != 0;
        if count_forks > MAX_FORKS
            || (unwritten && count_forks == 0)
            || generation >= MAX_COUNTED
            || complete > generation
            || !geometry.valid()
            || !(1..=MAX_LEGS).contains(&count)
        {
            return Err(Unreadable::Damaged);
        }
        let members: Option<Vec<Member>> = (0..count)
            .map(|index| member(block, LEGS + index * LEG, geometry.length))
            .collect();
        let members = members.ok_or(Unreadable::Damaged)?;
        let fork = |index: usize| Fork {
            line: get64(block, FORKS + index * FORK),
            generation: get64(block, FORKS + index * FORK + 8),
        };
        let forks: Vec<Fork> = (0..count_forks).map(fork).collect();
        if forks.iter().any(|fork| fork.generation >= MAX_COUNTED) {
            return Err(Unreadable::Damaged);
        }
        let leg = uuid(block, 48);
        let twice = |(index, member): (usize, &Member)| {
            members[..index]
                .iter()
                .any(|other| other.uuid == member.uuid)
        };
        if members.iter().enumerate().any(twice) || members.iter().all(|member| member.uuid != leg)
        {
            return Err(Unreadable::Damaged);
        }
        Ok(Superblock {
            mirror: uuid(block, 32),
            leg,
            generation,
            complete,
            line: get64(block, 96),
            forks,
            unwritten,
            source: (source.checked_sub(1))
                .and_then(|leg| members.get(leg))
                .map(|member| member.uuid),
            geometry,
            members,
        })
    }

    /// The newer valid superblock of a leg's two copies, and its index: the next update must not overwrite this copy.
    /// `None` is an unreadable copy.
    ///
    /// # Errors
    /// Neither is valid.
    pub fn newest(copies: [Option<&[u8; BLOCK]>; 2]) -> Result<(Superblock, usize), Unreadable> {
        let decoded = copies.map(|copy| copy.map_or(Err(Unreadable::Damaged), Superblock::decode));
        match decoded {
            [Ok(one), Ok(two)] if two.generation > one.generation => Ok((two, 1)),
            [Ok(one), _] => Ok((one, 0)),
            [_, Ok(two)] => Ok((two, 1)),
            [Err(version @ Unreadable::Version(_)), _]
            | [_, Err(version @ Unreadable::Version(_))] => Err(version),
            [Err(Unreadable::Absent), Err(Unreadable::Absent)] => Err(Unreadable::Absent),
            _ => Err(Unreadable::Damaged),
        }
    }

    /// The line and generation of the leg's data. An unwritten line has those of the line that it was forked from.
    pub fn position(&self) -> Fork {
        let parent = self.forks.last().filter(|_| self.unwritten);
        parent.copied().unwrap_or_else(|| self.recorded())
    }

    /// Whether the data of this leg are a state that the other one, or the same, has passed through.
    pub fn precedes(&self, other: &Superblock) -> bool {
        other.passed(self.position())
    }

    /// Whether the table of the other one is newer.
    pub fn is_older(&self, other: &Superblock) -> bool {
        let own = Superblock::recorded;
        match (other.passed(own(self)), self.passed(own(other))) {
            (true, false) => true,
            (false, true) => false,
            _ if !other.precedes(self) => self.precedes(other),
            // Without a write since: the other one was started without this leg later.
            _ => self.precedes(other) && other.leaves_out(self) && !self.leaves_out(other),
        }
    }

    /// Whether the table marks another leg as behind, or lacks it.
    pub fn leaves_out(&self, other: &Superblock) -> bool {
        self.state(other.leg) != Some(LegState::InSync)
    }

    /// Its line and generation.
    pub fn recorded(&self) -> Fork {
        Fork {
            line: self.line,
            generation: self.generation,
        }
    }

    /// Whether this is a state of its line, or of one that it descends from.
    pub(crate) fn passed(&self, state: Fork) -> bool {
        let reached = |end: &Fork| end.line == state.line && state.generation <= end.generation;
        reached(&self.recorded()) || self.forks.iter().any(reached)
    }

    /// Whether the leg calls itself in sync.
    pub fn claims(&self) -> bool {
        self.state(self.leg) == Some(LegState::InSync)
    }

    /// The state of a leg in this table.
    pub fn state(&self, leg: Uuid) -> Option<LegState> {
        let member = self.members.iter().find(|member| member.uuid == leg);
        member.map(|member| member.state)
    }
}

fn member(block: &[u8; BLOCK], at: usize, length: u64) -> Option<Member> {
    let state = match (get32(block, at + 16), get64(block, at + 24)) {
        (IN_SYNC, 0) => LegState::InSync,
        (BEHIND, copied) if copied <= length => LegState::Behind { copied },
        _ => return None,
    };
    Some(Member {
        uuid: uuid(block, at),
        state,
        seen: get32(block, at + 20).into(),
    })
}

fn checksum(block: &[u8; BLOCK]) -> u32 {
    let sum = crc32c::crc32c(&block[..CHECKSUM]);
    let sum = crc32c::crc32c_append(sum, &[0; 4]);
    crc32c::crc32c_append(sum, &block[CHECKSUM + 4..])
}

fn uuid(block: &[u8; BLOCK], at: usize) -> Uuid {
    Uuid::from_bytes(block[at..at + 16].try_into().expect("16 bytes"))
}

fn get32(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(block[at..at + 4].try_into().expect("4 bytes"))
}

fn get64(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"))
}

fn put32(block: &mut [u8], at: usize, value: u32) {
    block[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(block: &mut [u8], at: usize, value: u64) {
    block[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_superblock() -> impl Strategy<Value = Superblock> {
        let state = prop_oneof![
            Just(LegState::InSync),
            (0u64..=1 << 30).prop_map(|copied| LegState::Behind { copied })
        ];
        let states = proptest::collection::vec(state, 1..=MAX_LEGS);
        (
            any::<u128>(),
            0..MAX_COUNTED - 1,
            states,
            any::<usize>(),
            12u32..30,
        )
            .prop_map(|(mirror, generation, states, own, bits)| {
                let members: Vec<Member> = states
                    .into_iter()
                    .enumerate()
                    .map(|(index, state)| Member {
                        uuid: Uuid::from_u128(index as u128 + 1),
                        state,
                        seen: generation >> (32 + index),
                    })
                    .collect();
                Superblock {
                    mirror: Uuid::from_u128(mirror),
                    leg: members[own % members.len()].uuid,
                    generation,
                    complete: generation / 2,
                    line: generation ^ 9,
                    forks: (0..generation % (MAX_FORKS as u64 + 1))
                        .map(|line| Fork { line, generation })
                        .collect(),
                    unwritten: generation % (MAX_FORKS as u64 + 1) > 32,
                    source: members.get(own % 20).map(|member| member.uuid),
                    geometry: Geometry {
                        length: 1 << 30,
                        region: 1 << bits,
                        unit: 512,
                    },
                    members,
                }
            })
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(superblock in any_superblock()) {
            prop_assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        }

        #[test]
        fn any_change_of_a_bit_is_noticed(superblock in any_superblock(), bit in 0..BLOCK * 8) {
            let mut block = superblock.encode();
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Superblock::decode(&block).is_err());
        }

        #[test]
        fn a_torn_update_of_either_copy_leaves_a_superblock(
            old in any_superblock(), torn in any::<u8>(), first in any::<bool>()
        ) {
            let mut new = old.clone();
            new.generation = old.generation + 1;
            new.members[0].state = LegState::Behind { copied: 7 * 4096 };
            let (before, after) = (old.encode(), new.encode());
            let mut mixed = before;
            for sector in (0..8).filter(|sector| torn & (1 << sector) != 0) {
                let range = sector * 512..(sector + 1) * 512;
                mixed[range.clone()].copy_from_slice(&after[range]);
            }
            // The second copy is written when the first is durable.
            let copies = if first { [&mixed, &before] } else { [&after, &mixed] };
            let read = Superblock::newest(copies.map(Some));
            let (read, copy) = read.expect("one is valid");
            prop_assert!(read == old || read == new);
            prop_assert_eq!(Superblock::decode(copies[copy]), Ok(read));
        }

        #[test]
        fn any_bytes_are_refused_or_valid(mut bytes in proptest::collection::vec(any::<u8>(), BLOCK)) {
            bytes[..16].copy_from_slice(MAGIC);
            put32(&mut bytes, 16, VERSION);
            let mut block: [u8; BLOCK] = bytes.try_into().expect("length");
            let sum = checksum(&block);
            put32(&mut block, CHECKSUM, sum);
            if let Ok(superblock) = Superblock::decode(&block) {
                prop_assert!(superblock.geometry.valid());
                prop_assert!(superblock.state(superblock.leg).is_some());
            }
        }

        #[test]
        fn the_log_of_legs_of_any_length_has_room_for_all_regions(leg in DATA + 4096..1 << 62) {
            let geometry = Geometry::on_legs(leg, 4096).expect("long enough");
            prop_assert!(geometry.valid() && geometry.length + DATA <= leg);
        }
    }

    #[test]
    fn says_why_a_leg_is_unreadable() {
        let geometry = Geometry::on_legs(64 << 20, 512).expect("long enough");
        let leg = Uuid::from_u128(1);
        let superblock = Superblock {
            mirror: Uuid::from_u128(9),
            leg,
            generation: 3,
            complete: 2,
            line: 7,
            forks: Vec::new(),
            unwritten: false,
            source: None,
            geometry,
            members: vec![Member {
                uuid: leg,
                state: LegState::InSync,
                seen: 0,
            }],
        };
        let (zero, valid) = ([0; BLOCK], superblock.encode());
        let mut newer = valid;
        put32(&mut newer, 16, 3);
        let sum = checksum(&newer);
        put32(&mut newer, CHECKSUM, sum);
        let mut damaged = valid;
        damaged[30] ^= 1;
        let newest = |one, two| Superblock::newest([one, two]);
        assert_eq!(newest(Some(&zero), Some(&zero)), Err(Unreadable::Absent));
        assert_eq!(newest(None, Some(&zero)), Err(Unreadable::Damaged));
        assert_eq!(
            newest(Some(&damaged), Some(&zero)),
            Err(Unreadable::Damaged)
        );
        assert_eq!(
            newest(Some(&newer), Some(&newer)),
            Err(Unreadable::Version(3))
        );
        assert_eq!(
            newest(Some(&zero), Some(&valid)),
            Ok((superblock.clone(), 1))
        );
        assert_eq!(newest(Some(&valid), None), Ok((superblock, 0)));
        assert_eq!(Geometry::on_legs(DATA, 512), None, "no room for data");
    }

    /// The superblock of the only leg of a mirror, of line 7, which was forked from line 6 at a generation.
    fn of_one_leg(generation: u64, forked: u64) -> Superblock {
        let leg = Uuid::from_u128(1);
        Superblock {
            mirror: Uuid::from_u128(9),
            leg,
            generation,
            complete: 1,
            line: 7,
            forks: vec![Fork {
                line: 6,
                generation: forked,
            }],
            unwritten: false,
            source: None,
            geometry: Geometry::on_legs(64 << 20, 512).expect("long enough"),
            members: vec![Member {
                uuid: leg,
                state: LegState::InSync,
                seen: 0,
            }],
        }
    }

    #[test]
    fn generations_that_cannot_be_counted_up_are_damage() {
        let read = |superblock: &Superblock| Superblock::decode(&superblock.encode());
        let last = of_one_leg(MAX_COUNTED - 1, MAX_COUNTED - 1);
        assert_eq!(read(&last), Ok(last.clone()));
        for (generation, forked) in [(MAX_COUNTED, 1), (u64::MAX - 5, 1), (1, u64::MAX)] {
            let superblock = of_one_leg(generation, forked);
            assert_eq!(read(&superblock), Err(Unreadable::Damaged));
        }
    }

    #[test]
    fn a_superblock_of_version_1_is_read_as_a_line_that_was_written() {
        let superblock = of_one_leg(3, 2);
        let mut old = superblock.encode();
        put32(&mut old, 16, 1);
        // Version 1 has zeros there, and ignores them.
        put32(&mut old, 108, 1);
        let sum = checksum(&old);
        put32(&mut old, CHECKSUM, sum);
        assert_eq!(Superblock::decode(&old), Ok(superblock));
    }
}
