//! Records of the last writes to blocks with headers. With them `verify_only` detects a lost write: the block is intact
//! but older.
//!
//! There is one record for each file or device, in the state folder. Invariant: a record contains only certain facts.
//! Before a trial writes, the blocks that it may overwrite are removed from the records; the blocks that it has written
//! are added after its end. A trial that was killed therefore leaves no record of its blocks, and these are checked by
//! their own headers only.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use iodyno_engine::{RecordedBlocks, RecordedUnit, WrittenBlocks};
use iodyno_model::{Blocks, Diagnostic, Job, LoadState, Work};
use iodyno_target::state_folder;
use serde::{Deserialize, Serialize};

use crate::faults::fault;
use crate::files::Files;
use crate::resolve::{Resolved, ResolvedClone};
use crate::seeds::mix;

/// The form of a record.
const SCHEMA: u32 = 1;
/// The largest head of a record, bytes.
const LONGEST_HEAD: u32 = 1 << 20;
/// The largest number of units that are recorded for a file: 256 MiB of state, for 256 GiB in blocks of 4 KiB.
const MOST_UNITS: u64 = 64 << 20;

/// The records of this user.
#[derive(Debug, Clone)]
pub(crate) struct VerifyRecords {
    folder: PathBuf,
}

/// The record of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    identity: Identity,
    /// Regions do not overlap.
    regions: Vec<Region>,
}

/// A trial's last writes to a region of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    /// Where it begins, bytes.
    pub(crate) base: u64,
    /// Size of a unit, bytes.
    pub(crate) unit: u64,
    /// The identity of the trial.
    pub(crate) trial: u64,
    /// The sequence number of each unit's last write; 0: none, or it is unknown whether it was done.
    pub(crate) sequences: Vec<u32>,
}

/// Distinguishes a file from another one at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    device: u64,
    inode: u64,
    /// Device number of a device file.
    number: u64,
}

/// The head of a record, with the lengths of its regions. Their sequence numbers follow it.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: u32,
    path: PathBuf,
    identity: Identity,
    regions: Vec<RegionHead>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RegionHead {
    base: u64,
    unit: u64,
    trial: u64,
    units: u64,
}

impl Region {
    fn range(&self) -> Range<u64> {
        self.base
            ..self
                .base
                .saturating_add((self.sequences.len() as u64).saturating_mul(self.unit))
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Identity {
    fn of(file: impl AsFd) -> io::Result<Identity> {
        let found = rustix::fs::fstat(file)?;
        Ok(Identity {
            device: found.st_dev,
            inode: found.st_ino,
            number: found.st_rdev,
        })
    }
}

impl VerifyRecords {
    /// The records in `iodyno/verify` below `$XDG_STATE_HOME` or `~/.local/state`; `None` if neither is set.
    pub(crate) fn of_user() -> Option<VerifyRecords> {
        let devices = state_folder(|name| std::env::var_os(name))?;
        Some(VerifyRecords {
            folder: devices.with_file_name("verify"),
        })
    }

    /// The record of the units in this range of a file; `None`: there is none.
    pub(crate) fn recorded(
        &self,
        path: &Path,
        file: impl AsFd,
        range: Range<u64>,
    ) -> Option<RecordedBlocks> {
        let record = self.read(path, Identity::of(file).ok()?)?;
        let mut regions = record
            .regions
            .iter()
            .filter(|region| overlap(&region.range(), &range));
        let unit = regions.clone().next()?.unit;
        let count = (range.end - range.start).div_ceil(unit) as usize;
        let mut units = vec![RecordedUnit::Unknown; count];
        let fits = regions.all(|region| {
            let aligned = region.base.abs_diff(range.start).is_multiple_of(unit);
            for (index, sequence) in region.sequences.iter().enumerate() {
                let at = region
                    .base
                    .saturating_add((index as u64).saturating_mul(unit));
                let at = at.checked_sub(range.start);
                let place = at.and_then(|at| units.get_mut((at / unit) as usize));
                if let Some(place) = place {
                    *place = match *sequence {
                        0 => RecordedUnit::Unwritten,
                        sequence => RecordedUnit::Written {
                            trial: region.trial,
                            sequence,
                        },
                    };
                }
            }
            region.unit == unit && aligned
        });
        fits.then_some(RecordedBlocks { unit, units })
    }

    /// Removes the parts that overlap with these ranges of a file, before they are written.
    ///
    /// # Errors
    /// The record cannot be changed, and would become wrong.
    pub(crate) fn forget(
        &self,
        path: &Path,
        file: impl AsFd,
        ranges: &[Range<u64>],
    ) -> io::Result<()> {
        let at = self.at(path);
        if !at.exists() {
            return Ok(());
        }
        let Some(mut record) = self.read(path, Identity::of(file)?) else {
            return fs::remove_file(at);
        };
        let before = record.regions.len();
        record
            .regions
            .retain(|region| !ranges.iter().any(|range| overlap(&region.range(), range)));
        match record.regions.len() {
            0 => fs::remove_file(at),
            left if left == before => Ok(()),
            _ => self.write(path, &record),
        }
    }

    /// Adds a trial's writes to regions of a file, which do not overlap.
    ///
    /// # Errors
    /// The record cannot be written, or would be too large. These regions are then not recorded.
    pub(crate) fn add(&self, path: &Path, file: impl AsFd, regions: Vec<Region>) -> io::Result<()> {
        let identity = Identity::of(file)?;
        let mut all = self
            .read(path, identity)
            .map_or_else(Vec::new, |record| record.regions);
        all.retain(|old| {
            !regions
                .iter()
                .any(|new| overlap(&new.range(), &old.range()))
        });
        all.extend(regions);
        let units: u64 = all.iter().map(|region| region.sequences.len() as u64).sum();
        if units > MOST_UNITS {
            let most = format!("it has {units} blocks, and at most {MOST_UNITS} are recorded");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, most));
        }
        self.write(
            path,
            &Record {
                identity,
                regions: all,
            },
        )
    }

    fn at(&self, path: &Path) -> PathBuf {
        // The path in the record distinguishes files with equal hashes.
        let bytes = path.as_os_str().as_bytes().iter();
        let hash = bytes.fold(0, |hash, byte| mix(hash ^ u64::from(*byte)));
        self.folder.join(format!("{hash:016x}"))
    }

    /// The record of a file; `None`: there is none, it is damaged, or it belongs to another file.
    fn read(&self, path: &Path, identity: Identity) -> Option<Record> {
        let mut from = File::open(self.at(path)).ok()?;
        let mut length = [0; 4];
        from.read_exact(&mut length).ok()?;
        let length = u32::from_le_bytes(length);
        let mut head = Vec::new();
        let most = u64::from(length.min(LONGEST_HEAD));
        Read::take(&from, most).read_to_end(&mut head).ok()?;
        let head: Head = serde_json::from_slice(&head).ok()?;
        let units = head
            .regions
            .iter()
            .map(|region| region.units)
            .fold(0, u64::saturating_add);
        let whole = from.metadata().ok()?.len() == 4 + u64::from(length) + units.saturating_mul(4);
        let ours = head.schema == SCHEMA && head.path == path && head.identity == identity;
        if !whole || !ours || head.regions.iter().any(|region| region.unit == 0) {
            return None;
        }
        let mut words = Vec::new();
        from.read_to_end(&mut words).ok()?;
        let mut words = words
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
        let regions = head.regions.into_iter().map(|region| Region {
            base: region.base,
            unit: region.unit,
            trial: region.trial,
            sequences: words.by_ref().take(region.units as usize).collect(),
        });
        Some(Record {
            identity,
            regions: regions.collect(),
        })
    }

    /// Replaces the record atomically: a reader finds either the old or the new one.
    fn write(&self, path: &Path, record: &Record) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let head = serde_json::to_vec(&Head {
            schema: SCHEMA,
            path: path.to_owned(),
            identity: record.identity,
            regions: (record.regions.iter())
                .map(|region| RegionHead {
                    base: region.base,
                    unit: region.unit,
                    trial: region.trial,
                    units: region.sequences.len() as u64,
                })
                .collect(),
        })?;
        let at = self.at(path);
        let temporary = at.with_extension(format!("new-{}", std::process::id()));
        let written = (|| {
            let mut to = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&temporary)?;
            let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
            to.write_all(&length.to_le_bytes())?;
            to.write_all(&head)?;
            for region in &record.regions {
                let words: Vec<u8> = region
                    .sequences
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .collect();
                to.write_all(&words)?;
            }
            to.sync_all()?;
            fs::rename(&temporary, &at)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// The use of the records in a trial: the blocks that its jobs may overwrite, expect, and have written.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    records: Option<VerifyRecords>,
    /// Every range that a clone may write: the clone (its index), the path, and the range in bytes.
    writers: Vec<(usize, PathBuf, Range<u64>)>,
    /// Notes; each one is reported once.
    notes: Vec<String>,
}

impl Recorder {
    /// Removes the blocks that the clones may write from the records. To be called before anything is written.
    pub(crate) fn begin(resolved: &Resolved, jobs: &[Job], files: &Files) -> Recorder {
        let mut recorder = Recorder {
            records: VerifyRecords::of_user(),
            ..Recorder::default()
        };
        for (index, clone) in resolved.clones.iter().enumerate() {
            let writes = match &jobs[clone.job as usize].work {
                Work::Blocks(blocks) => {
                    let changes = blocks.access.writes || blocks.access.trims;
                    changes && blocks.read_only_by().is_none()
                }
                Work::SharedFiles(rule) => rule.mode.writes(),
                Work::FileOperations(_) => false,
            };
            let ranges = clone.files.iter().filter(|_| writes);
            let ranges = ranges.map(|file| (index, file.path.clone(), file.base..file.end()));
            recorder.writers.extend(ranges);
        }
        let Some(records) = &recorder.records else {
            return recorder;
        };
        for file in &files.list {
            let path = &file.wanted.path;
            let written = recorder
                .writers
                .iter()
                .filter(|(_, writer, _)| writer == path);
            let ranges: Vec<Range<u64>> = written.map(|(_, _, range)| range.clone()).collect();
            if !ranges.is_empty()
                && let Err(error) = records.forget(&file.admitted.path, &file.admitted, &ranges)
            {
                recorder.notes.push(format!(
                    "the record of the blocks of `{}` cannot be changed ({error}): `verify_only` may report current blocks as \
                     stale; remove `{}`",
                    path.display(),
                    records.at(&file.admitted.path).display()
                ));
            }
        }
        recorder
    }

    /// The record of each file of a clone that only checks blocks; empty for other clones.
    ///
    /// # Errors
    /// The job requires a record, and there is none.
    pub(crate) fn expected(
        &mut self,
        blocks: &Blocks,
        clone: &ResolvedClone,
        files: &Files,
    ) -> Result<Vec<RecordedBlocks>, Diagnostic> {
        let only_checks = !blocks.access.writes || blocks.read_only_by().is_some();
        let Some(verify) = blocks.verify.as_ref().filter(|verify| {
            only_checks && verify.load_state != LoadState::Never && verify.checksum.has_header()
        }) else {
            return Ok(Vec::new());
        };
        let by_path = files.by_path();
        let mut all = Vec::with_capacity(clone.files.len());
        for file in &clone.files {
            // The writes of this trial are not recorded yet.
            let range = file.base..file.end();
            let written = |(_, path, other): &(usize, PathBuf, Range<u64>)| {
                *path == file.path && overlap(other, &range)
            };
            let index = by_path.get(file.path.as_path());
            let (Some(index), false) = (index, self.writers.iter().any(written)) else {
                all.push(RecordedBlocks::default());
                continue;
            };
            let admitted = &files.list[*index].admitted;
            let records = self.records.as_ref();
            let found =
                records.and_then(|records| records.recorded(&admitted.path, admitted, range));
            if found.is_none() && (verify.only || verify.load_state == LoadState::Required) {
                let shown = file.path.display();
                let missing = format!("there is no record of the last writes to `{shown}`");
                if verify.load_state == LoadState::Required {
                    return Err(fault(
                        format!("`verify_state_load`: {missing}"),
                        "write the blocks with `verify`, or leave `verify_state_load` out",
                    ));
                }
                self.note(format!(
                    "{missing}: an older block in place of a lost write is not found"
                ));
            }
            all.push(found.unwrap_or_default());
        }
        Ok(all)
    }

    /// Records the clones' writes. `written`: for each clone by its index, the identity of the trial and its blocks;
    /// missing ones are unknown.
    pub(crate) fn end(
        &mut self,
        (resolved, trial): (&[ClonePlaces], u64),
        written: Vec<(usize, WrittenBlocks)>,
        files: &Files,
    ) {
        let Some(records) = self.records.clone() else {
            if !written.is_empty() {
                self.note("the last writes are not recorded for `verify_only`: neither `$XDG_STATE_HOME` nor `$HOME` is set".to_owned());
            }
            return;
        };
        let mut by_path: BTreeMap<&Path, Vec<Region>> = BTreeMap::new();
        for (clone, blocks) in written {
            for ((path, base), sequences) in resolved[clone].iter().zip(blocks.sequences) {
                let region = Region {
                    base: *base,
                    unit: blocks.unit,
                    trial,
                    sequences,
                };
                let range = region.range();
                let others = self.writers.iter().any(|(index, other, writes)| {
                    *index != clone && other == path && overlap(writes, &range)
                });
                match others {
                    true => self.note(format!(
                        "the last writes to `{}` are not recorded for `verify_only`: several threads write the same blocks",
                        path.display()
                    )),
                    false => by_path.entry(path).or_default().push(region),
                }
            }
        }
        let files = files.list.iter().filter(|file| !file.wanted.unlink);
        for file in files {
            let Some(regions) = by_path.remove(file.wanted.path.as_path()) else {
                continue;
            };
            if let Err(error) = records.add(&file.admitted.path, &file.admitted, regions) {
                self.note(format!(
                    "the last writes to `{}` are not recorded for `verify_only`: {error}",
                    file.wanted.path.display()
                ));
            }
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns and removes the notes so far.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// The path and the base of the region of each file of a clone.
pub(crate) type ClonePlaces = Vec<(PathBuf, u64)>;

/// The places of a clone if its last writes are to be recorded; empty otherwise.
pub(crate) fn recorded_places(blocks: &Blocks, clone: &ResolvedClone) -> ClonePlaces {
    let records = blocks
        .verify
        .as_ref()
        .is_some_and(|verify| verify.save_state && verify.checksum.has_header())
        && blocks.access.writes
        && blocks.read_only_by().is_none();
    let files = clone.files.iter().filter(|_| records);
    files.map(|file| (file.path.clone(), file.base)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(base: u64, trial: u64, sequences: &[u32]) -> Region {
        Region {
            base,
            unit: 4096,
            trial,
            sequences: sequences.to_vec(),
        }
    }

    fn written(trial: u64, sequence: u32) -> RecordedUnit {
        RecordedUnit::Written { trial, sequence }
    }

    struct Fixture {
        _folder: tempfile::TempDir,
        records: VerifyRecords,
        path: PathBuf,
        file: File,
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        Fixture {
            records: VerifyRecords {
                folder: folder.path().join("state/verify"),
            },
            file: File::create(&path).unwrap(),
            path,
            _folder: folder,
        }
    }

    impl Fixture {
        fn units(&self, range: Range<u64>) -> Option<Vec<RecordedUnit>> {
            let recorded = self.records.recorded(&self.path, &self.file, range)?;
            assert_eq!(recorded.unit, 4096);
            Some(recorded.units)
        }
    }

    #[test]
    fn added_writes_are_recorded_until_they_are_overwritten() {
        let here = fixture();
        let (records, path, file) = (&here.records, &here.path, &here.file);
        assert_eq!(here.units(0..8192), None);
        let regions = vec![region(0, 7, &[3, 0]), region(16384, 7, &[9])];
        records.add(path, file, regions).unwrap();
        let unknown = RecordedUnit::Unknown;
        let whole = [
            written(7, 3),
            RecordedUnit::Unwritten,
            unknown,
            unknown,
            written(7, 9),
        ];
        assert_eq!(here.units(0..5 * 4096).unwrap(), whole);
        assert_eq!(here.units(16384..16384 + 4096).unwrap(), [written(7, 9)]);
        // A later trial writes only the second region.
        records
            .forget(path, file, std::slice::from_ref(&(16384..20000)))
            .unwrap();
        assert_eq!(here.units(16384..20480), None);
        records
            .add(path, file, vec![region(16384, 8, &[1])])
            .unwrap();
        assert_eq!(here.units(0..4096).unwrap(), [written(7, 3)]);
        assert_eq!(here.units(16384..20480).unwrap(), [written(8, 1)]);
        records
            .forget(path, file, std::slice::from_ref(&(0..1 << 30)))
            .unwrap();
        assert_eq!(fs::read_dir(&records.folder).unwrap().count(), 0);
    }

    #[test]
    fn a_record_of_other_units_or_of_another_file_is_not_used() {
        let here = fixture();
        let (records, path) = (&here.records, &here.path);
        records
            .add(path, &here.file, vec![region(0, 7, &[3, 4])])
            .unwrap();
        // A region that begins within a unit has different units.
        assert_eq!(here.units(512..4608), None);
        let mut mixed = region(8192, 7, &[5]);
        mixed.unit = 512;
        records.add(path, &here.file, vec![mixed]).unwrap();
        assert_eq!(here.units(0..8704), None);
        let other = path.with_file_name("other");
        let other = File::create(other).unwrap();
        assert_eq!(records.recorded(path, &other, 0..8192), None);
        // The record is removed when the new file is written.
        records.forget(path, &other, &[]).unwrap();
        assert_eq!(here.units(0..8192), None);
    }

    #[test]
    fn a_damaged_record_is_ignored() {
        let here = fixture();
        let (records, path) = (&here.records, &here.path);
        records
            .add(path, &here.file, vec![region(0, 7, &[3, 4])])
            .unwrap();
        let at = records.at(path);
        let whole = fs::read(&at).unwrap();
        for length in 0..whole.len() {
            fs::write(&at, &whole[..length]).unwrap();
            assert_eq!(here.units(0..8192), None, "{length}");
        }
        for place in 0..whole.len() - 8 {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x55;
            fs::write(&at, damaged).unwrap();
            here.units(0..8192);
        }
        fs::write(&at, whole).unwrap();
        assert!(here.units(0..8192).is_some());
    }
}
