//! Blocks that identify themselves, so that misplaced and stale blocks are detected.
//!
//! Each unit (a block, or `verify_interval` bytes of it) begins with a header, of iodyno or of fio (see
//! [`fio_header`]). That of iodyno:
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
//! All little-endian. A wrong checksum means a torn or corrupt unit. A correct one with another offset or file means a
//! misplaced unit, and with another seed, trial or sequence number a stale unit.
//!
//! Trial and sequence number are compared if the last write is known: from this clone itself, or from the record of an
//! earlier trial. Units of the first version end with the checksum and have no trial.
//!
//! A job that writes headers of fio also accepts those of iodyno: an earlier version wrote these.

mod body;
mod fio_header;

use std::io::Write;
use std::path::Path;

use iodyno_model::{BadBlock, Checksum, Verify, VerifyResult};
use iodyno_sys::{Op, Slot};
use xxhash_rust::xxh64::{Xxh64, xxh64};

use crate::outcome::WrittenBlocks;
use crate::spec::{OutputFiles, RecordedBlocks, RecordedUnit};
use body::Body;
use fio_header::{FioHeader, Layout};

const MAGIC: u64 = u64::from_le_bytes(*b"iodynoB2");
/// The fixed word of the first version.
const MAGIC_1: u64 = u64::from_le_bytes(*b"iodynoB1");
/// Length of the header up to the end of the checksum, bytes.
const CHECKED_HEADER: usize = 48;
const HEADER: usize = 56;
/// The expected sequence number of a unit that a trial recorded as not written.
const UNWRITTEN: u32 = u32::MAX;
/// The expected sequence number of a unit that was trimmed.
const TRIMMED: u32 = UNWRITTEN - 1;
/// The expected sequence number of a unit whose last write failed: its content is undefined.
const FAILED: u32 = TRIMMED - 1;
/// The expected sequence number of the rest of a block that a later write has overwritten in part.
const PARTLY: u32 = FAILED - 1;
/// Maximum number of bad units that one clone writes to files: enough to examine, too few to fill a disk.
const MAX_DUMPS: u32 = 64;

/// Adds headers to written blocks and verifies read blocks.
#[derive(Debug)]
pub(crate) struct Verifier {
    rule: Verify,
    writer: Writer,
    /// Headers of fio are written; `None`: those of iodyno, or none.
    fio: Option<FioRule>,
    unit: usize,
    /// The writes' offsets in a file are multiples of it, bytes.
    grid: usize,
    files: Vec<CheckedFile>,
    sequence: u32,
    /// Sequence number of the write in each slot.
    sealed: Box<[u32]>,
    /// The pattern that fills blocks.
    body: Option<Body>,
    /// Whether partly overwritten blocks cannot be checked, because the pattern depends on the start of the block, or
    /// because blocks overlap within a unit.
    only_whole: bool,
    pub(crate) result: VerifyResult,
    /// The destination of bad units, if requested.
    dumps: Option<OutputFiles>,
    dumped: u32,
    /// The first bad unit that could not be written to a file, with the reason.
    pub(crate) dump_fault: Option<String>,
}

/// The writer of the blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer {
    /// Seed of the job.
    pub(crate) seed: u64,
    /// Identity of the trial.
    pub(crate) trial: u64,
    /// Number of the clone, from 0.
    pub(crate) clone: u32,
}

/// How headers of fio are written.
#[derive(Debug, Clone, Copy)]
struct FioRule {
    layout: Layout,
    /// fio's number of the checksum.
    sum: u16,
    /// Length of the checksum, bytes.
    sum_length: usize,
    /// Offset of the header in the unit.
    at: usize,
}

impl FioRule {
    fn of(rule: &Verify) -> Option<FioRule> {
        Some(FioRule {
            layout: Layout::of(rule.header)?,
            sum: fio_header::number(&rule.checksum)?,
            sum_length: rule.checksum.length_in_fio() as usize,
            at: rule.header_offset as usize,
        })
    }

    /// Length of a header with its checksum, bytes.
    fn length(&self, layout: Layout) -> usize {
        layout.length() + self.sum_length
    }

    /// The data of a unit in their order before the header was moved, each part with its original position.
    fn data<'a>(&self, layout: Layout, unit: &'a [u8]) -> [(usize, &'a [u8]); 3] {
        let (at, length) = (self.at, self.length(layout));
        match at {
            0 => [(length, &unit[length..]), (0, &[]), (0, &[])],
            _ => [
                (length, &unit[length..at]),
                (at, &unit[..length]),
                (at + length, &unit[at + length..]),
            ],
        }
    }

    /// Whether a unit of this length has space for such a header and data. A moved header must not overlap its old
    /// place.
    fn fits(&self, layout: Layout, unit: usize) -> bool {
        let length = self.length(layout);
        unit > length && self.at + length <= unit && (self.at == 0 || self.at >= length)
    }
}

/// The shortest unit that this verification can have, bytes.
pub(crate) fn shortest_unit(rule: &Verify) -> u64 {
    rule.header_length() + rule.header_offset + 1
}

/// Length of the units of blocks of at least this length, bytes.
pub fn verified_unit(rule: &Verify, smallest_block: u64) -> u64 {
    let interval = rule.interval;
    let divides = interval >= shortest_unit(rule) && smallest_block.is_multiple_of(interval.max(1));
    if divides { interval } else { smallest_block }.max(1)
}

#[derive(Debug)]
struct CheckedFile {
    name: String,
    hash: u64,
    base: u64,
    /// Sequence number of the last write to each part of the grid; 0: unknown. Untouched pages take no memory.
    written: Vec<u32>,
    /// The writers of recorded units, which this clone does not write.
    writers: Vec<Identity>,
    /// For each part, the index of its writer. Empty: nothing is recorded.
    wrote: Vec<u32>,
    /// Units that were checked since their last write; empty if each is checked once, at the end.
    checked: Vec<bool>,
}

/// The identity shared by the blocks of a trial in a file.
#[derive(Debug, Clone, Copy)]
struct Identity {
    trial: u64,
    /// Hash of the name of the file.
    file: u64,
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
    /// `unit` is the length of units, and `grid` the grid of writes, which divides it, bytes.
    /// `files` are (name, base, length).
    pub(crate) fn new(
        rule: Verify,
        writer: Writer,
        (unit, grid): (u64, u64),
        files: &[(&str, u64, u64)],
        slots: u32,
    ) -> Verifier {
        let body = Body::of(&rule);
        let depends = |body: &Body| body.depends_on_start(unit);
        Verifier {
            fio: FioRule::of(&rule),
            only_whole: grid < unit || body.as_ref().is_some_and(depends),
            rule,
            writer,
            unit: unit as usize,
            grid: grid as usize,
            files: files
                .iter()
                .map(|(name, base, length)| CheckedFile {
                    name: (*name).to_owned(),
                    hash: xxh64(name.as_bytes(), 0),
                    base: *base,
                    written: vec![0; length.div_ceil(grid) as usize],
                    writers: Vec::new(),
                    wrote: Vec::new(),
                    checked: Vec::new(),
                })
                .collect(),
            sequence: 0,
            sealed: vec![0; slots as usize].into_boxed_slice(),
            body,
            result: VerifyResult::default(),
            dumps: None,
            dumped: 0,
            dump_fault: None,
        }
    }

    /// Remembers which units were checked, if that happens before the end.
    pub(crate) fn note_checks(&mut self) {
        for file in &mut self.files {
            file.checked = vec![false; file.written.len()];
        }
    }

    /// Expects the last writes that an earlier trial recorded for each file. This clone writes nothing.
    pub(crate) fn expect_recorded(&mut self, recorded: &[RecordedBlocks]) {
        for (file, record) in self.files.iter_mut().zip(recorded) {
            if record.unit != self.grid as u64 {
                continue;
            }
            let writers = record.writers.iter().map(|writer| Identity {
                trial: writer.trial,
                file: xxh64(writer.name.as_bytes(), 0),
            });
            file.writers = writers.collect();
            file.wrote = vec![0; file.written.len()];
            let expected = file.written.iter_mut().zip(&mut file.wrote);
            for ((written, wrote), unit) in expected.zip(&record.units) {
                (*written, *wrote) = match *unit {
                    RecordedUnit::Unknown => (0, 0),
                    RecordedUnit::Unwritten => (UNWRITTEN, 0),
                    RecordedUnit::Failed => (FAILED, 0),
                    RecordedUnit::Written { writer, sequence } => (sequence, writer),
                };
            }
        }
    }

    /// The last writes. `None`: the units have no headers, or overlap.
    pub(crate) fn into_written(self) -> Option<WrittenBlocks> {
        let headers = self.rule.checksum.has_header() && !self.rule.only && self.grid == self.unit;
        let written = |mut file: CheckedFile| {
            for unit in &mut file.written {
                *unit = match *unit {
                    TRIMMED | PARTLY => 0,
                    FAILED => WrittenBlocks::FAILED,
                    sequence => sequence,
                };
            }
            file.written
        };
        headers.then(|| WrittenBlocks {
            unit: self.unit as u64,
            sequences: self.files.into_iter().map(written).collect(),
        })
    }

    /// Enables writing bad units to files.
    pub(crate) fn dump_to(&mut self, dumps: &OutputFiles) {
        self.dumps = Some(dumps.clone());
    }

    /// Writes the received data as `FILE.OFFSET.received`, and the expected data if they are known.
    fn dump(&mut self, op: &Op, offset: u64, unit: &[u8]) {
        let Some(dumps) = &self.dumps else { return };
        if self.dumped == MAX_DUMPS {
            return;
        }
        self.dumped += 1;
        let name = Path::new(&self.files[op.file as usize].name).file_name();
        let name = name.unwrap_or_default().to_string_lossy();
        let known = !self.rule.checksum.has_header();
        let expected = self.body.as_mut().filter(|_| known).map(|body| {
            let start = (offset - op.offset) as usize;
            let mut block = vec![0; start + unit.len()];
            body.fill(op.offset, &mut block);
            block.split_off(start)
        });
        for (content, kind) in [(Some(unit), "received"), (expected.as_deref(), "expected")] {
            let Some(content) = content else { continue };
            let (path, file) = dumps.create(&format!("{name}.{offset}.{kind}"));
            if let Err(error) = file.and_then(|mut file| file.write_all(content)) {
                let fault = format!("bad block not written to `{}`: {error}", path.display());
                self.dump_fault.get_or_insert(fault);
            }
        }
    }

    /// Called before a write at `now`, ns: puts a header on each unit of the buffer.
    pub(crate) fn seal(&mut self, slot: Slot, op: &Op, buffer: &mut [u8], now: u64) {
        // 0 and the numbers from `PARTLY` on have special meanings.
        self.sequence = self.sequence % (PARTLY - 1) + 1;
        self.sealed[slot as usize] = self.sequence;
        let block = &mut buffer[..op.length as usize];
        if let Some(body) = &mut self.body {
            body.fill(op.offset, block);
        }
        if !self.rule.checksum.has_header() {
            return;
        }
        let mut offset = op.offset;
        for unit in block.chunks_mut(self.unit) {
            match self.fio {
                Some(fio) => self.seal_fio(fio, op, offset, unit, now),
                None => self.seal_own(op, offset, unit),
            }
            offset += unit.len() as u64;
        }
    }

    fn seal_own(&self, op: &Op, offset: u64, unit: &mut [u8]) {
        if unit.len() < HEADER {
            return;
        }
        let words = [
            (0, MAGIC),
            (8, self.writer.seed),
            (16, offset),
            (24, u64::from(self.sequence) | (unit.len() as u64) << 32),
            (32, self.files[op.file as usize].hash),
            (48, self.writer.trial),
        ];
        for (at, word) in words {
            unit[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = own_checksum(&self.rule.checksum, unit);
        unit[40..48].copy_from_slice(&checksum.to_le_bytes());
    }

    fn seal_fio(&self, fio: FioRule, op: &Op, offset: u64, unit: &mut [u8], now: u64) {
        if !fio.fits(fio.layout, unit.len()) {
            return;
        }
        let header = FioHeader {
            layout: fio.layout,
            sum: fio.sum,
            length: unit.len() as u32,
            seed: self.writer.trial ^ self.files[op.file as usize].hash,
            offset,
            time_ns: now,
            ours: true,
            write: u64::from(self.sequence) - 1,
            clone: (self.writer.clone + 1) as u16,
        };
        let (head, data) = unit.split_at_mut(fio.length(fio.layout));
        let sum = fio_header::sum(&self.rule.checksum, fio.layout, [data, &[], &[]]);
        header.put(head);
        head[fio.layout.length()..].copy_from_slice(sum.bytes());
        if fio.at > 0 {
            let length = head.len();
            head.swap_with_slice(&mut data[fio.at - length..fio.at]);
        }
    }

    /// Called after a successful write: its units are expected from now on.
    pub(crate) fn written(&mut self, slot: Slot, op: &Op) {
        self.expect(op, self.sealed[slot as usize]);
    }

    fn expect(&mut self, op: &Op, sequence: u32) {
        let file = &mut self.files[op.file as usize];
        let first = ((op.offset - file.base) / self.grid as u64) as usize;
        let count = (op.length as usize).div_ceil(self.grid);
        let end = (first + count).min(file.written.len());
        let first = first.min(end);
        let (before, rest) = file.written.split_at_mut(first);
        let (these, after) = rest.split_at_mut(end - first);
        let cut = |last: Option<&u32>| last.copied().filter(|last| (1..PARTLY).contains(last));
        if self.only_whole {
            if let Some(head) = cut(these.first()) {
                let rest = before.iter_mut().rev().take_while(|part| **part == head);
                rest.for_each(|part| *part = PARTLY);
            }
            if let Some(tail) = cut(these.last()) {
                let rest = after.iter_mut().take_while(|part| **part == tail);
                rest.for_each(|part| *part = PARTLY);
            }
        }
        // The last op of a job can be shorter than a unit.
        let whole = op.length as usize / self.unit * (self.unit / self.grid);
        let (whole, short) = these.split_at_mut(whole.min(these.len()));
        whole.fill(sequence);
        short.fill(PARTLY);
        if let Some(checked) = file.checked.get_mut(first..end) {
            checked.fill(false);
        }
    }

    /// Called after a trim: its units have no headers until they are written again.
    pub(crate) fn trimmed(&mut self, op: &Op) {
        self.expect(op, TRIMMED);
    }

    /// Called after a write that failed: the content of its units is undefined until they are written again.
    pub(crate) fn forget(&mut self, op: &Op) {
        self.expect(op, FAILED);
    }

    /// Verifies the data of a read; `false` if any unit is bad.
    pub(crate) fn check(&mut self, op: &Op, buffer: &[u8]) -> bool {
        let bad_before = self.result.bad();
        let mut offset = op.offset;
        for unit in buffer[..op.length as usize].chunks(self.unit) {
            let bad = self.result.bad();
            match self.expected(op.file, offset).0 {
                _ if !self.intact(op.file, offset) => {}
                TRIMMED => self.check_trimmed(op, offset, unit),
                FAILED => self.result.unchecked += 1,
                UNWRITTEN if !self.is_of_fio(unit) => self.result.unchecked += 1,
                _ => self.check_content(op, offset, unit),
            }
            if self.result.bad() > bad {
                self.dump(op, offset, unit);
            }
            let file = &mut self.files[op.file as usize];
            let index = ((offset - file.base) / self.grid as u64) as usize;
            if let Some(checked) = file.checked.get_mut(index) {
                *checked = true;
            }
            offset += unit.len() as u64;
        }
        self.result.bad() == bad_before
    }

    fn check_content(&mut self, op: &Op, offset: u64, unit: &[u8]) {
        self.result.checked += 1;
        match &self.rule.checksum {
            Checksum::Nothing => {}
            Checksum::Pattern(_) => {
                self.check_body(op, offset, &[(0, unit)], unit.len());
            }
            _ => self.check_unit(op, offset, unit),
        }
    }

    fn check_trimmed(&mut self, op: &Op, offset: u64, unit: &[u8]) {
        if !self.checks_zero() {
            return;
        }
        self.result.checked += 1;
        if unit.iter().any(|byte| *byte != 0) {
            self.result.corrupt += 1;
            self.report(
                op,
                offset,
                unit.len(),
                "data in place of the zeros of a trimmed block",
            );
        }
    }

    /// Whether trimmed units must be zero.
    fn checks_zero(&self) -> bool {
        self.rule.trim.is_some_and(|trim| trim.check_zero)
    }

    /// Whether fio wrote this unit. Even if a record says that iodyno did not write it, fio may have written it later.
    fn is_of_fio(&self, unit: &[u8]) -> bool {
        let header = self
            .fio
            .and_then(|fio| FioHeader::read(unit.get(fio.at..)?));
        header.is_some_and(|(header, fault)| fault.is_none() && !header.ours)
    }

    /// Compares parts of the unit at `offset`, each with its place in the unit, with the pattern.
    fn check_body(&mut self, op: &Op, offset: u64, parts: &[(usize, &[u8])], length: usize) {
        let Some(body) = &mut self.body else { return };
        let start = (offset - op.offset) as usize;
        let differing = parts.iter().find_map(|(place, part)| {
            let (at, found, expected) = body.differing(op.offset, start + place, part)?;
            Some((place + at, found, expected))
        });
        if let Some((at, found, expected)) = differing {
            self.result.corrupt += 1;
            let found =
                format!("another pattern: {found:02x} at byte {at}, expected {expected:02x}");
            self.report(op, offset, length, found);
        }
    }

    fn check_unit(&mut self, op: &Op, offset: u64, unit: &[u8]) {
        let at = self.fio.map_or(0, |fio| fio.at);
        let of_fio = unit.get(at..).and_then(FioHeader::read);
        if let (Some(fio), Some((header, fault))) = (self.fio, &of_fio) {
            return self.check_fio(fio, op, offset, unit, header, fault.clone());
        }
        if let Some(header) = header(unit) {
            return self.check_own(op, offset, unit, &header);
        }
        self.result.foreign += 1;
        let (found, fitting) = match of_fio {
            Some((header, None)) => (
                format!(
                    "a block of fio with checksum {}: `verify_header=fio` checks it",
                    fio_header::name(header.sum).unwrap_or("unknown")
                ),
                Some("verify_header=fio".to_owned()),
            ),
            _ if unit.iter().all(|byte| *byte == 0) => ("zeroes".to_owned(), None),
            _ => ("no header".to_owned(), None),
        };
        self.report_with_option(op, offset, unit.len(), found, fitting);
    }

    fn check_own(&mut self, op: &Op, offset: u64, unit: &[u8], header: &Header) {
        let (expected, identity) = self.expected(op.file, offset);
        let stored = u64::from_le_bytes(unit[40..48].try_into().unwrap_or_default());
        let computed = own_checksum(&self.rule.checksum, unit);
        let length = unit.len();
        let written = || {
            let sums = [
                (Checksum::Crc32c, "crc32c"),
                (Checksum::Xxhash64, "xxhash64"),
            ];
            let found = |sum: &Checksum| own_checksum(sum, unit) == stored;
            sums.into_iter().find(|(sum, _)| found(sum))
        };
        if stored != computed
            && let Some((_, written)) = written()
        {
            self.result.foreign += 1;
            let found = format!("a block with checksum {written}, expected another");
            self.report_with_option(op, offset, length, found, Some(format!("verify={written}")));
        } else if stored != computed {
            self.result.corrupt += 1;
            let found = format!(
                "a wrong checksum (write {}): {computed:x} of the data, {stored:x} in the header",
                header.sequence
            );
            self.report(op, offset, length, found);
        } else if header.offset != offset || self.of_another(op.file, header, expected, identity) {
            self.result.misplaced += 1;
            let found = match header.offset == offset {
                true => "a block of another file".to_owned(),
                false => format!("the block of offset {}", header.offset),
            };
            self.report(op, offset, length, found);
        } else if self.rule.check_seed
            && ((self.fio.is_none() && header.seed != self.writer.seed)
                || (expected != 0 && header.trial != Some(identity.trial)))
        {
            self.result.stale += 1;
            let found = "a block of another job or an earlier trial";
            self.report(op, offset, length, found);
        } else if self.rule.check_sequence && expected != 0 && header.sequence != expected {
            self.result.stale += 1;
            let found = format!("write {} in place of {expected}", header.sequence);
            self.report(op, offset, length, found);
        }
    }

    fn check_fio(
        &mut self,
        fio: FioRule,
        op: &Op,
        offset: u64,
        unit: &[u8],
        header: &FioHeader,
        fault: Option<String>,
    ) {
        let (layout, length) = (header.layout, unit.len());
        if let Some(fault) = fault {
            self.result.corrupt += 1;
            return self.report(op, offset, length, fault);
        }
        let any_sum = self.rule.checksum == Checksum::HeaderOnly;
        let name = |sum: u16| fio_header::name(sum).map_or(sum.to_string(), str::to_owned);
        let foreign = if header.length as usize != length {
            let (found, option) = (header.length, self.unit_option());
            Some((
                format!("a block of {found} bytes, expected {length}"),
                Some(format!("{option}={found}")),
            ))
        } else if !any_sum && !fio_header::same(header.sum, fio.sum) {
            let written = name(header.sum);
            Some((
                format!(
                    "a block with checksum {written}, expected {}",
                    name(fio.sum)
                ),
                fio_header::name(header.sum).map(|name| format!("verify={name}")),
            ))
        } else if !fio.fits(layout, length) {
            Some(("a header of fio 3.40 or older".to_owned(), None))
        } else {
            None
        };
        if let Some((found, fitting)) = foreign {
            self.result.foreign += 1;
            return self.report_with_option(op, offset, length, found, fitting);
        }
        let stored = &unit[fio.at + layout.length()..][..fio.sum_length];
        let parts = fio.data(layout, unit);
        let data = parts.map(|(_, part)| part);
        if !fio_header::matches(&self.rule.checksum, layout, data, stored) {
            let computed = fio_header::sum(&self.rule.checksum, layout, data);
            self.result.corrupt += 1;
            let found = format!(
                "a wrong checksum (write {}): {} of the data, {} in the header",
                header.write + 1,
                fio_header::digits(computed.bytes()),
                fio_header::digits(stored)
            );
            return self.report(op, offset, length, found);
        }
        if header.offset != offset {
            self.result.misplaced += 1;
            let found = format!("the block of offset {}", header.offset);
            return self.report(op, offset, length, found);
        }
        if matches!(
            self.rule.checksum,
            Checksum::HeaderOnly | Checksum::PatternWithHeader
        ) {
            let bad = self.result.bad();
            self.check_body(op, offset, &parts, length);
            if self.result.bad() > bad {
                return;
            }
        }
        self.check_identity(op, offset, length, header);
    }

    /// Compares a whole block with a header of fio with the last known write. fio may have written a block after the
    /// trial that recorded its own: such a block is accepted.
    fn check_identity(&mut self, op: &Op, offset: u64, length: usize, header: &FioHeader) {
        let (expected, identity) = self.expected(op.file, offset);
        let certain = self.files[op.file as usize].wrote.is_empty();
        if expected == 0 || expected == UNWRITTEN || !(header.ours || certain) {
            return;
        }
        let write = header.layout.write_number(u64::from(expected) - 1);
        if self.rule.check_seed && header.seed != identity.trial ^ identity.file {
            let other = self
                .files
                .iter()
                .find(|other| header.ours && header.seed == identity.trial ^ other.hash);
            let found = match other {
                Some(other) => {
                    self.result.misplaced += 1;
                    format!("the block of `{}`", other.name)
                }
                None => {
                    self.result.stale += 1;
                    match header.ours {
                        true => "a block of another job or an earlier trial".to_owned(),
                        false => "a block that fio wrote".to_owned(),
                    }
                }
            };
            self.report(op, offset, length, found);
        } else if self.rule.check_sequence && header.write != write {
            self.result.stale += 1;
            let found = format!("write {} in place of {}", header.write + 1, write + 1);
            self.report(op, offset, length, found);
        }
    }

    /// Whether a header is that of another file. A file can have been renamed since it was written, or have several
    /// names: certain are the names of the other files of this job, and that of the file in the trial that wrote the
    /// unit last.
    fn of_another(&self, file: u32, header: &Header, expected: u32, identity: Identity) -> bool {
        let own = self.files[file as usize].hash;
        let known = !matches!(expected, 0 | UNWRITTEN);
        match known && header.trial == Some(identity.trial) {
            true => header.file != identity.file,
            false => {
                let mut files = self.files.iter();
                header.file != own && files.any(|other| other.hash == header.file)
            }
        }
    }

    /// Sequence number of the last write to the unit at this offset (0: unknown), and its writer.
    fn expected(&self, file: u32, offset: u64) -> (u32, Identity) {
        let file = &self.files[file as usize];
        let index = ((offset - file.base) / self.grid as u64) as usize;
        let sequence = file.written.get(index).copied().unwrap_or(0);
        let recorded = file.wrote.get(index);
        let identity = recorded.and_then(|writer| file.writers.get(*writer as usize));
        let own = Identity {
            trial: self.writer.trial,
            file: file.hash,
        };
        (sequence, identity.copied().unwrap_or(own))
    }

    /// Whether the unit at this offset was not overwritten in part since its last known write.
    fn intact(&self, file: u32, offset: u64) -> bool {
        let file = &self.files[file as usize];
        let index = ((offset - file.base) / self.grid as u64) as usize;
        let parts = self.unit / self.grid;
        let Some(&sequence) = file.written.get(index) else {
            return true;
        };
        if parts == 1 || !(1..PARTLY).contains(&sequence) {
            return sequence != PARTLY;
        }
        let before = file.written[..index].iter().rev();
        let before = before.take_while(|part| **part == sequence).count();
        let after = file.written[index..].iter().take(parts);
        before % parts == 0 && after.filter(|part| **part == sequence).count() == parts
    }

    /// The option that gives the length of a unit.
    fn unit_option(&self) -> &'static str {
        match self.rule.interval {
            interval if interval == self.unit as u64 => "verify_interval",
            _ => "bs",
        }
    }

    fn report(&mut self, op: &Op, offset: u64, length: usize, found: impl Into<String>) {
        self.report_with_option(op, offset, length, found, None);
    }

    /// Names a bad block, with the option that fits it.
    fn report_with_option(
        &mut self,
        op: &Op,
        offset: u64,
        length: usize,
        found: impl Into<String>,
        fitting: Option<String>,
    ) {
        self.result.name(BadBlock {
            file: self.files[op.file as usize].name.clone(),
            offset,
            length: length as u64,
            found: found.into(),
            fitting,
        });
    }

    /// The blocks that this job wrote and that were not checked since, as (file, offset, length) of at most `longest`
    /// bytes, in order of their offsets. For a partly overwritten block, its remaining part. Blocks whose write failed
    /// are counted as not checked.
    pub(crate) fn ranges(&mut self, longest: usize) -> Vec<(u32, u64, u32)> {
        let parts = self.unit / self.grid;
        let most = (longest / self.unit).max(1) * parts;
        let checks_zero = self.checks_zero();
        let expects = |sequence: u32| match sequence {
            TRIMMED => checks_zero,
            FAILED | PARTLY => false,
            sequence => sequence > 0,
        };
        let mut ranges = Vec::new();
        for (index, file) in self.files.iter_mut().enumerate() {
            let mut unit = 0;
            while unit < file.written.len() {
                let sequence = file.written[unit];
                let checked = file.checked.get_mut(unit);
                if sequence == FAILED && !checked.is_some_and(|seen| std::mem::replace(seen, true))
                {
                    self.result.unchecked += 1;
                }
                let run = file.written[unit..].iter().take(most);
                let run = run.take_while(|of| **of == sequence && expects(sequence));
                let count = run.count();
                let checked = file.checked.get(unit).is_some_and(|checked| *checked);
                if count > 0 && !checked {
                    let offset = file.base + (unit * self.grid) as u64;
                    ranges.push((index as u32, offset, (count * self.grid) as u32));
                }
                unit += count.max(1);
            }
        }
        ranges
    }
}

/// The checksum in the header of iodyno.
fn own_checksum(checksum: &Checksum, unit: &[u8]) -> u64 {
    match checksum {
        Checksum::Crc32c => {
            crc32c::crc32c_append(crc32c::crc32c(&unit[..40]), &unit[CHECKED_HEADER..]).into()
        }
        Checksum::Pattern(_)
        | Checksum::HeaderOnly
        | Checksum::PatternWithHeader
        | Checksum::Nothing => 0,
        // Also replaces all checksums that only fio's headers have.
        _ => {
            let mut hash = Xxh64::new(0);
            hash.update(&unit[..40]);
            hash.update(&unit[CHECKED_HEADER..]);
            hash.digest()
        }
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
mod fio_tests;

#[cfg(test)]
mod tests;
