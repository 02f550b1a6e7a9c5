//! Blocks that identify themselves, so that misplaced and stale blocks are detected.
//!
//! Each unit (a block, or `verify_interval` bytes of it) begins with a header:
//!
//! | bytes | what |
//! |---|---|
//! | 0–7 | a fixed word |
//! | 8–15 | seed of the job |
//! | 16–23 | offset of the unit in its file |
//! | 24–27 | sequence number of the write, from 1 |
//! | 28–31 | length of the unit |
//! | 32–39 | hash of the file's name |
//! | 40–47 | checksum of all other bytes of the unit |
//! | 48–55 | identity of the trial |
//!
//! All little-endian. A wrong checksum means a torn or corrupt unit; a right one with another offset or file a
//! misplaced unit; with another seed, trial or sequence number a stale unit.
//!
//! Trial and sequence number are compared where it is known what was written last: by this clone itself, or as an earlier
//! trial recorded it. Units of the first version end with the checksum and have no trial.

use std::io::Write;
use std::path::Path;

use iodyno_model::{BadBlock, Checksum, Verify, VerifyResult};
use iodyno_sys::{Op, Slot};
use xxhash_rust::xxh64::{Xxh64, xxh64};

use crate::content::repeat;
use crate::outcome::WrittenBlocks;
use crate::spec::{Dumps, RecordedBlocks, RecordedUnit};

const MAGIC: u64 = u64::from_le_bytes(*b"iodynoB2");
/// Of the first version.
const MAGIC_1: u64 = u64::from_le_bytes(*b"iodynoB1");
/// Up to the end of the checksum.
const CHECKED_HEADER: usize = 48;
pub(crate) const HEADER: usize = 56;
/// Expected of a unit that a trial recorded as not written.
const UNWRITTEN: u32 = u32::MAX;
/// Maximum number of bad units that one clone writes to files: enough to examine, too few to fill a disk.
const MOST_DUMPS: u32 = 64;

/// Adds headers to written blocks and verifies read blocks.
#[derive(Debug)]
pub(crate) struct Verifier {
    rule: Verify,
    seed: u64,
    /// Identity of the trial.
    trial: u64,
    unit: usize,
    files: Vec<CheckedFile>,
    sequence: u32,
    /// Sequence number of the write in each slot.
    sealed: Box<[u32]>,
    pattern: Vec<u8>,
    pub(crate) result: VerifyResult,
    /// Where bad units are written to, if this was requested.
    dumps: Option<Dumps>,
    dumped: u32,
    /// The first bad unit that could not be written to a file, with the reason.
    pub(crate) dump_fault: Option<String>,
}

#[derive(Debug)]
struct CheckedFile {
    name: String,
    hash: u64,
    base: u64,
    /// Sequence number of each unit's last write; 0: not known. Untouched pages take no memory.
    written: Vec<u32>,
    /// The trials of recorded units, which this clone does not write. Empty: nothing is recorded.
    trials: Vec<u64>,
}

struct Header {
    seed: u64,
    offset: u64,
    sequence: u32,
    file: u64,
    /// `None`: the first version.
    trial: Option<u64>,
}

impl Verifier {
    /// Of a clone with this seed in the trial of this identity; `files` are (name, base, length).
    pub(crate) fn new(
        rule: Verify,
        (seed, trial): (u64, u64),
        smallest_block: u64,
        files: &[(&str, u64, u64)],
        slots: u32,
    ) -> Verifier {
        let interval = rule.interval;
        let divides = interval >= HEADER as u64 && smallest_block.is_multiple_of(interval.max(1));
        let unit = if divides { interval } else { smallest_block }.max(1);
        let pattern = match &rule.checksum {
            Checksum::Pattern(pattern) => {
                let mut block = vec![0; unit as usize];
                repeat(&pattern.0, &mut block);
                block
            }
            _ => Vec::new(),
        };
        Verifier {
            rule,
            seed,
            trial,
            unit: unit as usize,
            files: files
                .iter()
                .map(|(name, base, length)| CheckedFile {
                    name: (*name).to_owned(),
                    hash: xxh64(name.as_bytes(), 0),
                    base: *base,
                    written: vec![0; length.div_ceil(unit) as usize],
                    trials: Vec::new(),
                })
                .collect(),
            sequence: 0,
            sealed: vec![0; slots as usize].into_boxed_slice(),
            pattern,
            result: VerifyResult::default(),
            dumps: None,
            dumped: 0,
            dump_fault: None,
        }
    }

    /// Expects what an earlier trial recorded of each file. This clone writes nothing.
    pub(crate) fn expect_recorded(&mut self, recorded: &[RecordedBlocks]) {
        for (file, record) in self.files.iter_mut().zip(recorded) {
            if record.unit != self.unit as u64 {
                continue;
            }
            file.trials = vec![0; file.written.len()];
            let expected = file.written.iter_mut().zip(&mut file.trials);
            for ((written, trial), unit) in expected.zip(&record.units) {
                (*written, *trial) = match *unit {
                    RecordedUnit::Unknown => (0, 0),
                    RecordedUnit::Unwritten => (UNWRITTEN, 0),
                    RecordedUnit::Written { trial, sequence } => (sequence, trial),
                };
            }
        }
    }

    /// What was written, unless the units have no headers.
    pub(crate) fn into_written(self) -> Option<WrittenBlocks> {
        let headers = self.pattern.is_empty() && !self.rule.only;
        headers.then(|| WrittenBlocks {
            unit: self.unit as u64,
            sequences: self.files.into_iter().map(|file| file.written).collect(),
        })
    }

    /// Enables writing bad units to files.
    pub(crate) fn dump_to(&mut self, dumps: &Dumps) {
        self.dumps = Some(dumps.clone());
    }

    /// Writes the received data as `FILE.OFFSET.received`, and the expected data where it is known.
    fn dump(&mut self, op: &Op, offset: u64, unit: &[u8]) {
        let Some(dumps) = &self.dumps else { return };
        if self.dumped == MOST_DUMPS {
            return;
        }
        self.dumped += 1;
        let name = Path::new(&self.files[op.file as usize].name).file_name();
        let name = name.unwrap_or_default().to_string_lossy();
        let expected = self.pattern.get(..unit.len());
        for (content, kind) in [(Some(unit), "received"), (expected, "expected")] {
            let path = dumps.folder.join(format!("{name}.{offset}.{kind}"));
            if let Some(content) = content
                && let Err(error) =
                    (dumps.create)(&path).and_then(|mut file| file.write_all(content))
            {
                let fault = format!("bad block not written to `{}`: {error}", path.display());
                self.dump_fault.get_or_insert(fault);
            }
        }
    }

    /// Called before a write: puts a header on each unit of the buffer.
    pub(crate) fn seal(&mut self, slot: Slot, op: &Op, buffer: &mut [u8]) {
        // 0 and `UNWRITTEN` have a meaning of their own.
        self.sequence = self.sequence % (UNWRITTEN - 1) + 1;
        self.sealed[slot as usize] = self.sequence;
        let mut offset = op.offset;
        for unit in buffer[..op.length as usize].chunks_mut(self.unit) {
            if !self.pattern.is_empty() {
                unit.copy_from_slice(&self.pattern[..unit.len()]);
            } else if unit.len() >= HEADER {
                let words = [
                    (0, MAGIC),
                    (8, self.seed),
                    (16, offset),
                    (24, u64::from(self.sequence) | (unit.len() as u64) << 32),
                    (32, self.files[op.file as usize].hash),
                    (48, self.trial),
                ];
                for (at, word) in words {
                    unit[at..at + 8].copy_from_slice(&word.to_le_bytes());
                }
                let checksum = self.checksum(unit);
                unit[40..48].copy_from_slice(&checksum.to_le_bytes());
            }
            offset += unit.len() as u64;
        }
    }

    /// Called after a successful write: its units are expected from now on.
    pub(crate) fn written(&mut self, slot: Slot, op: &Op) {
        self.expect(op, self.sealed[slot as usize]);
    }

    fn expect(&mut self, op: &Op, sequence: u32) {
        let file = &mut self.files[op.file as usize];
        let first = ((op.offset - file.base) / self.unit as u64) as usize;
        let count = (op.length as usize).div_ceil(self.unit);
        let end = (first + count).min(file.written.len());
        file.written[first.min(end)..end].fill(sequence);
    }

    /// Called after a trim, and after a write that failed: the content of its units is undefined until they are written
    /// again.
    pub(crate) fn forget(&mut self, op: &Op) {
        self.expect(op, 0);
    }

    /// Verifies the data of a read; `false` if any unit is bad.
    pub(crate) fn check(&mut self, op: &Op, buffer: &[u8]) -> bool {
        let bad_before = self.result.bad();
        let mut offset = op.offset;
        for unit in buffer[..op.length as usize].chunks(self.unit) {
            let bad = self.result.bad();
            if self.expected(op.file, offset).0 == UNWRITTEN {
                offset += unit.len() as u64;
                continue;
            }
            self.result.checked += 1;
            if !self.pattern.is_empty() {
                if unit != &self.pattern[..unit.len()] {
                    self.result.corrupt += 1;
                    self.tell(op, offset, unit.len(), "another pattern");
                }
            } else if unit.len() >= HEADER {
                self.check_unit(op, offset, unit);
            }
            if self.result.bad() > bad {
                self.dump(op, offset, unit);
            }
            offset += unit.len() as u64;
        }
        self.result.bad() == bad_before
    }

    fn check_unit(&mut self, op: &Op, offset: u64, unit: &[u8]) {
        let Some(header) = header(unit) else {
            self.result.foreign += 1;
            let empty = unit.iter().all(|byte| *byte == 0);
            let found = if empty { "zeroes" } else { "no header" };
            return self.tell(op, offset, unit.len(), found);
        };
        let file = &self.files[op.file as usize];
        let (expected, trial) = self.expected(op.file, offset);
        let stored = u64::from_le_bytes(unit[40..48].try_into().unwrap_or_default());
        let computed = self.checksum(unit);
        let length = unit.len();
        if stored != computed {
            self.result.corrupt += 1;
            let found = format!(
                "a wrong checksum (write {}): {computed:x} of the data, {stored:x} in the header",
                header.sequence
            );
            self.tell(op, offset, length, found);
        } else if header.offset != offset || header.file != file.hash {
            self.result.misplaced += 1;
            let found = format!("the block of offset {}", header.offset);
            self.tell(op, offset, length, found);
        } else if self.rule.check_seed
            && (header.seed != self.seed || (expected != 0 && header.trial != Some(trial)))
        {
            self.result.stale += 1;
            let found = "a block of another job or an earlier trial";
            self.tell(op, offset, length, found);
        } else if self.rule.check_sequence && expected != 0 && header.sequence != expected {
            self.result.stale += 1;
            let found = format!("write {} in place of {expected}", header.sequence);
            self.tell(op, offset, length, found);
        }
    }

    /// Sequence number and trial of the last write to the unit at this offset; 0: not known.
    fn expected(&self, file: u32, offset: u64) -> (u32, u64) {
        let file = &self.files[file as usize];
        let index = ((offset - file.base) / self.unit as u64) as usize;
        let sequence = file.written.get(index).copied().unwrap_or(0);
        let trial = file.trials.get(index).copied();
        (sequence, trial.unwrap_or(self.trial))
    }

    fn checksum(&self, unit: &[u8]) -> u64 {
        match self.rule.checksum {
            Checksum::Crc32c => {
                crc32c::crc32c_append(crc32c::crc32c(&unit[..40]), &unit[CHECKED_HEADER..]).into()
            }
            Checksum::Xxhash64 => {
                let mut hash = Xxh64::new(0);
                hash.update(&unit[..40]);
                hash.update(&unit[CHECKED_HEADER..]);
                hash.digest()
            }
            Checksum::Pattern(_) | Checksum::HeaderOnly => 0,
        }
    }

    fn tell(&mut self, op: &Op, offset: u64, length: usize, found: impl Into<String>) {
        self.result.name(BadBlock {
            file: self.files[op.file as usize].name.clone(),
            offset,
            length: length as u64,
            found: found.into(),
        });
    }

    /// The blocks that this job wrote, as (file, offset, length) of at most `longest` bytes, in order of their offsets. Of a block
    /// that was overwritten in part, what is left.
    pub(crate) fn ranges(&self, longest: usize) -> Vec<(u32, u64, u32)> {
        let most = (longest / self.unit).max(1);
        let mut ranges = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            let mut unit = 0;
            while unit < file.written.len() {
                let sequence = file.written[unit];
                let run = file.written[unit..].iter().take(most);
                let run = run.take_while(|of| **of == sequence && sequence > 0);
                let count = run.count();
                if count > 0 {
                    let offset = file.base + (unit * self.unit) as u64;
                    ranges.push((index as u32, offset, (count * self.unit) as u32));
                }
                unit += count.max(1);
            }
        }
        ranges
    }
}

fn header(unit: &[u8]) -> Option<Header> {
    let word = |at: usize| unit[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let trial = match word(0)? {
        MAGIC => Some(word(48)?),
        MAGIC_1 => None,
        _ => return None,
    };
    Some(Header {
        seed: word(8)?,
        offset: word(16)?,
        sequence: word(24)? as u32,
        file: word(32)?,
        trial,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_sys::OpKind;

    fn verifier(checksum: Checksum) -> Verifier {
        let rule = Verify {
            checksum,
            ..Verify::default()
        };
        Verifier::new(
            rule,
            (9, 77),
            4096,
            &[("a", 0, 1 << 20), ("b", 8192, 1 << 20)],
            4,
        )
    }

    fn write(file: u32, offset: u64) -> Op {
        Op {
            kind: OpKind::Write,
            file,
            offset,
            length: 8192,
            skip: 0,
        }
    }

    fn sealed(verifier: &mut Verifier, op: &Op) -> Vec<u8> {
        let mut buffer: Vec<u8> = (0..8192u32).map(|byte| (byte * 31) as u8).collect();
        verifier.seal(0, op, &mut buffer);
        verifier.written(0, op);
        buffer
    }

    #[test]
    fn accepts_what_it_wrote() {
        for checksum in [Checksum::Crc32c, Checksum::Xxhash64, Checksum::HeaderOnly] {
            let mut verifier = verifier(checksum);
            let op = write(1, 16384);
            let buffer = sealed(&mut verifier, &op);
            assert!(verifier.check(&op, &buffer));
            assert_eq!((verifier.result.checked, verifier.result.bad()), (2, 0));
            assert_eq!(verifier.ranges(1 << 20), [(1, 16384, 8192)]);
        }
    }

    #[test]
    fn tells_each_kind_of_damage_apart() {
        for checksum in [Checksum::Crc32c, Checksum::Xxhash64] {
            let mut verifier = verifier(checksum);
            let (here, there) = (write(0, 0), write(0, 65536));
            let old = sealed(&mut verifier, &here);
            let new = sealed(&mut verifier, &here);
            let other = sealed(&mut verifier, &there);
            let mut torn = new.clone();
            torn[4096 - 100..4096].copy_from_slice(&old[..100]);
            assert!(!verifier.check(&here, &torn));
            assert_eq!(verifier.result.corrupt, 1);
            assert!(!verifier.check(&here, &old));
            assert_eq!(verifier.result.stale, 2);
            assert!(!verifier.check(&here, &other));
            assert_eq!(verifier.result.misplaced, 2);
            assert!(!verifier.check(&here, &[0; 8192]));
            assert_eq!(verifier.result.foreign, 2);
            assert!(verifier.check(&here, &new));
            assert!(
                verifier
                    .result
                    .first
                    .as_ref()
                    .unwrap()
                    .contains("a at offset 0")
            );
        }
    }

    #[test]
    fn another_clone_s_write_is_stale_unless_the_sequence_is_not_checked() {
        for check_sequence in [true, false] {
            let clone = || {
                let rule = Verify {
                    check_sequence,
                    ..Verify::default()
                };
                Verifier::new(rule, (9, 77), 4096, &[("a", 0, 1 << 20)], 4)
            };
            let (mut first, mut second) = (clone(), clone());
            sealed(&mut second, &write(0, 65536));
            let own = sealed(&mut first, &write(0, 0));
            let other = sealed(&mut second, &write(0, 0));
            assert!(first.check(&write(0, 0), &own));
            assert_eq!(first.check(&write(0, 0), &other), !check_sequence);
            assert_eq!(first.result.stale, if check_sequence { 2 } else { 0 });
            // A misplaced unit is always reported.
            let elsewhere = sealed(&mut second, &write(0, 65536));
            assert!(!first.check(&write(0, 0), &elsewhere));
        }
    }

    /// A clone of the trial of this identity, on one file.
    fn of_trial(trial: u64, rule: Verify) -> Verifier {
        Verifier::new(rule, (9, trial), 4096, &[("a", 0, 1 << 20)], 4)
    }

    #[test]
    fn an_equal_block_of_an_earlier_trial_is_stale() {
        let op = write(0, 16384);
        let (mut earlier, mut now) = (
            of_trial(77, Verify::default()),
            of_trial(78, Verify::default()),
        );
        let old = sealed(&mut earlier, &op);
        let new = sealed(&mut now, &op);
        assert!(now.check(&op, &new));
        assert!(!now.check(&op, &old));
        assert_eq!(now.result.stale, 2);
        // What this trial did not write may be of any trial.
        let elsewhere = write(0, 65536);
        let other = sealed(&mut earlier, &elsewhere);
        assert!(now.check(&elsewhere, &other));
    }

    #[test]
    fn a_recorded_write_is_expected_and_no_other() {
        let (first, second) = (write(0, 0), write(0, 8192));
        let mut writer = of_trial(77, Verify::default());
        let lost = sealed(&mut writer, &first);
        let kept = sealed(&mut writer, &second);
        let current = sealed(&mut writer, &first);
        let written = writer.into_written().unwrap();
        assert_eq!(
            (written.unit, &written.sequences[0][..5]),
            (4096, &[3, 3, 2, 2, 0][..])
        );
        let unit = |sequence: &u32| match *sequence {
            0 => RecordedUnit::Unwritten,
            sequence => RecordedUnit::Written {
                trial: 77,
                sequence,
            },
        };
        let record = RecordedBlocks {
            unit: written.unit,
            units: written.sequences[0].iter().map(unit).collect(),
        };
        let only = Verify {
            only: true,
            ..Verify::default()
        };
        let mut checker = of_trial(90, only.clone());
        checker.expect_recorded(std::slice::from_ref(&record));
        assert!(checker.check(&first, &current) && checker.check(&second, &kept));
        assert_eq!(checker.result.checked, 4);
        assert!(!checker.check(&first, &lost));
        assert_eq!(checker.result.stale, 2);
        // What was not written is not checked, and what is not recorded as far as it can be.
        assert!(checker.check(&write(0, 32768), &[0; 8192]));
        assert_eq!(checker.result.checked, 6);
        let mut unrecorded = of_trial(90, only);
        assert!(unrecorded.check(&first, &lost) && unrecorded.into_written().is_none());
    }

    #[test]
    fn blocks_of_the_first_version_can_be_checked() {
        let op = write(0, 0);
        let mut writer = of_trial(77, Verify::default());
        let mut old = sealed(&mut writer, &op);
        for unit in old.chunks_mut(4096) {
            unit[..8].copy_from_slice(b"iodynoB1");
            let checksum = writer.checksum(unit);
            unit[40..48].copy_from_slice(&checksum.to_le_bytes());
        }
        let only = Verify {
            only: true,
            ..Verify::default()
        };
        assert!(of_trial(78, only).check(&op, &old));
        assert!(!writer.check(&op, &old));
    }

    #[test]
    fn a_failed_write_leaves_its_blocks_unchecked() {
        let mut verifier = verifier(Checksum::Crc32c);
        let op = write(0, 0);
        sealed(&mut verifier, &op);
        verifier.forget(&op);
        assert_eq!(verifier.ranges(1 << 20), []);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut verifier = verifier(Checksum::Crc32c);
        let op = write(0, 0);
        let buffer = sealed(&mut verifier, &op);
        for bit in (0..8192 * 8).step_by(7) {
            let mut damaged = buffer.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!verifier.check(&op, &damaged), "bit {bit}");
        }
    }

    #[test]
    fn ranges_skip_what_was_not_written() {
        let mut verifier = verifier(Checksum::Crc32c);
        for offset in [0, 8192, 65536] {
            sealed(&mut verifier, &write(0, offset));
        }
        assert_eq!(
            verifier.ranges(12288),
            [(0, 0, 8192), (0, 8192, 8192), (0, 65536, 8192)]
        );
    }
}
