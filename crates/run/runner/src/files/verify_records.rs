//! Records of the last writes to blocks with headers. With them `verify_only` detects a lost write: the block is intact
//! but older.
//!
//! Each file, device or export has one record in the state folder, which belongs to the file and not to one of its
//! names. Invariant: a record contains only certain facts. Before a trial writes, the blocks that it may overwrite are
//! removed from the records. The blocks that it has written are added after its end. A killed trial therefore leaves no
//! record of its blocks, which are then checked only by their own headers. A record with a wrong checksum counts as
//! missing.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirEntry, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use iodyno_engine::{RecordedBlocks, RecordedUnit, RecordedWriter, WrittenBlocks, verified_unit};
use iodyno_host::{Roots, identity, state_folder};
use iodyno_model::{Blocks, Diagnostic, Job, LoadState, Work};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::faults::fault;
use crate::files::Files;
use crate::files::exports;
use crate::files::shares::ShareFiles;
use crate::resolve::resolved::{Resolved, ResolvedClone};

/// The form of a record. The first one belonged to a path, and had no checksum.
const SCHEMA: u32 = 2;
/// The extension of records of this form.
const EXTENSION: &str = "blocks";
/// The largest head of a record, bytes.
const MAX_HEAD_LEN: u32 = 1 << 20;
/// Length of the checksum at the end of a record, bytes.
const SUM: u64 = 8;
/// The largest number of units that are recorded for a file: 256 MiB of state, for 256 GiB in blocks of 4 KiB.
const MAX_UNITS: u64 = 64 << 20;
/// The largest number of records, and their total length, bytes. Otherwise records of deleted files would accumulate.
const MAX_RECORDS: usize = 1 << 16;
const MAX_BYTES: u64 = 1 << 30;

/// The records of this user.
#[derive(Debug, Clone)]
pub(crate) struct VerifyRecords {
    folder: PathBuf,
}

/// A trial's last writes to a region of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    /// Its start, bytes.
    pub(crate) base: u64,
    /// Size of a unit, bytes.
    pub(crate) unit: u64,
    /// Its writer.
    pub(crate) writer: RecordedWriter,
    /// See [`WrittenBlocks::sequences`].
    pub(crate) sequences: Vec<u32>,
}

/// The head of a record, with the lengths of its regions. Their sequence numbers follow it, and a checksum of all.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: u32,
    /// The identity of its subject: see [`Subject`].
    identity: String,
    regions: Vec<RegionHead>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RegionHead {
    base: u64,
    unit: u64,
    trial: u64,
    /// The name of the file in the headers of its blocks.
    name: String,
    units: u64,
}

impl Region {
    fn range(&self) -> Range<u64> {
        self.base
            ..self
                .base
                .saturating_add((self.sequences.len() as u64).saturating_mul(self.unit))
    }

    /// The rest after removing the units that overlap with a range.
    fn without(mut self, range: &Range<u64>) -> Vec<Region> {
        if !overlap(&self.range(), range) {
            return vec![self];
        }
        let units = self.sequences.len() as u64;
        let end = (range.end - self.base).div_ceil(self.unit).min(units);
        let start = range.start.saturating_sub(self.base) / self.unit;
        let after = Region {
            base: self.base + end * self.unit,
            unit: self.unit,
            writer: self.writer.clone(),
            sequences: self.sequences.split_off(end as usize),
        };
        self.sequences.truncate(start as usize);
        let parts = [self, after].into_iter();
        parts
            .filter(|region| !region.sequences.is_empty())
            .collect()
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Regions without the units that overlap with ranges.
fn without(regions: Vec<Region>, ranges: &[Range<u64>]) -> Vec<Region> {
    ranges.iter().fold(regions, |regions, range| {
        let rests = regions.into_iter().flat_map(|region| region.without(range));
        rests.collect()
    })
}

impl VerifyRecords {
    /// The records in `iodyno/verify` below `$XDG_STATE_HOME` or `~/.local/state`; `None` if neither is set.
    pub(crate) fn of_user() -> Option<VerifyRecords> {
        Some(VerifyRecords {
            folder: state_folder()?.join("verify"),
        })
    }

    /// The record of the units of this length in a range of a file; `None` without a record.
    pub(crate) fn recorded(
        &self,
        identity: &str,
        range: Range<u64>,
        unit: u64,
    ) -> Option<RecordedBlocks> {
        let regions = self.read(identity)?.into_iter();
        let regions: Vec<Region> = regions
            .filter(|region| overlap(&region.range(), &range))
            .collect();
        let fits = |region: &&Region| {
            region.unit == unit && region.base.abs_diff(range.start).is_multiple_of(unit)
        };
        let (fitting, others): (Vec<&Region>, Vec<&Region>) = regions.iter().partition(fits);
        let count = (range.end - range.start).div_ceil(unit) as usize;
        let mut units = vec![RecordedUnit::Unknown; count];
        for (writer, region) in fitting.iter().enumerate() {
            for (index, sequence) in region.sequences.iter().enumerate() {
                let at = region.base + index as u64 * unit;
                let at = at.checked_sub(range.start);
                let place = at.and_then(|at| units.get_mut((at / unit) as usize));
                if let Some(place) = place {
                    *place = match *sequence {
                        0 => RecordedUnit::Unwritten,
                        WrittenBlocks::FAILED => RecordedUnit::Failed,
                        sequence => RecordedUnit::Written {
                            writer: writer as u32,
                            sequence,
                        },
                    };
                }
            }
        }
        // A write that failed leaves nothing that could be checked, in units of any length.
        let mut any = !fitting.is_empty();
        for region in others {
            let failed = region.sequences.iter().enumerate();
            for (index, _) in failed.filter(|(_, word)| **word == WrittenBlocks::FAILED) {
                let from = region.base + index as u64 * region.unit;
                let end = (from + region.unit)
                    .saturating_sub(range.start)
                    .div_ceil(unit);
                let end = (end as usize).min(count);
                let first = (from.saturating_sub(range.start) / unit) as usize;
                units[first.min(end)..end].fill(RecordedUnit::Failed);
                any = true;
            }
        }
        any.then(|| RecordedBlocks {
            unit,
            writers: fitting.iter().map(|region| region.writer.clone()).collect(),
            units,
        })
    }

    /// Removes the units that overlap with these ranges of a file, before they are written.
    ///
    /// # Errors
    /// The record cannot be changed, and would become wrong.
    pub(crate) fn forget(&self, identity: &str, ranges: &[Range<u64>]) -> io::Result<()> {
        let at = self.at(identity);
        if !at.exists() {
            return Ok(());
        }
        let Some(regions) = self.read(identity) else {
            return fs::remove_file(at);
        };
        let before: u64 = units(&regions);
        let regions = without(regions, ranges);
        match units(&regions) {
            0 => fs::remove_file(at),
            left if left == before => Ok(()),
            _ => self.write(identity, &regions),
        }
    }

    /// Adds a trial's writes to regions of a file, which do not overlap.
    ///
    /// # Errors
    /// The record cannot be written, or would be too large. These regions are then not recorded.
    pub(crate) fn add(&self, identity: &str, regions: Vec<Region>) -> io::Result<()> {
        let ranges: Vec<Range<u64>> = regions.iter().map(Region::range).collect();
        let mut all = without(self.read(identity).unwrap_or_default(), &ranges);
        all.extend(regions);
        let units = units(&all);
        if units > MAX_UNITS {
            let most = format!("it has {units} blocks, and at most {MAX_UNITS} are recorded");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, most));
        }
        self.write(identity, &all)
    }

    fn at(&self, identity: &str) -> PathBuf {
        // The identity in the record distinguishes those with equal hashes.
        let hash = xxh3_64(identity.as_bytes());
        self.folder.join(format!("{hash:016x}.{EXTENSION}"))
    }

    /// The record of a file; `None` if it is missing or damaged.
    fn read(&self, identity: &str) -> Option<Vec<Region>> {
        let bytes = fs::read(self.at(identity)).ok()?;
        let (content, sum) = bytes.split_last_chunk::<{ SUM as usize }>()?;
        let (length, rest) = content.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length).min(MAX_HEAD_LEN) as usize;
        let (head, words) = rest.split_at_checked(length)?;
        if xxh3_64(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        let head: Head = serde_json::from_slice(head).ok()?;
        let counts = head.regions.iter().map(|region| region.units);
        let whole = counts.fold(0, u64::saturating_add).checked_mul(4) == Some(words.len() as u64);
        let ours = head.schema == SCHEMA && head.identity == identity;
        if !whole || !ours || head.regions.iter().any(|region| region.unit == 0) {
            return None;
        }
        let mut words = words
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
        let regions = head.regions.into_iter().map(|region| Region {
            base: region.base,
            unit: region.unit,
            writer: RecordedWriter {
                trial: region.trial,
                name: region.name,
            },
            sequences: words.by_ref().take(region.units as usize).collect(),
        });
        Some(regions.collect())
    }

    /// Replaces the record atomically: a reader finds either the old or the new one.
    fn write(&self, identity: &str, regions: &[Region]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let head = serde_json::to_vec(&Head {
            schema: SCHEMA,
            identity: identity.to_owned(),
            regions: (regions.iter())
                .map(|region| RegionHead {
                    base: region.base,
                    unit: region.unit,
                    trial: region.writer.trial,
                    name: region.writer.name.clone(),
                    units: region.sequences.len() as u64,
                })
                .collect(),
        })?;
        let length = u32::try_from(head.len()).ok();
        let length = length.filter(|length| *length <= MAX_HEAD_LEN);
        let length = length.ok_or(io::ErrorKind::FileTooLarge)?;
        let at = self.at(identity);
        let temporary = at.with_extension(format!("new-{}", std::process::id()));
        let written = (|| {
            let mut to = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&temporary)?;
            let mut sum = Xxh3::new();
            let mut put = |bytes: &[u8]| {
                sum.update(bytes);
                to.write_all(bytes)
            };
            put(&length.to_le_bytes())?;
            put(&head)?;
            for region in regions {
                let words = region.sequences.iter();
                let words: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
                put(&words)?;
            }
            to.write_all(&sum.digest().to_le_bytes())?;
            to.sync_all()?;
            fs::rename(&temporary, &at)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes records of the first form, and the oldest ones if there are too many.
    fn prune(&self) {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.extension() {
                Some(extension) if extension == EXTENSION => records.extend(age(&entry)),
                None => drop(fs::remove_file(path)),
                Some(_) => {}
            }
        }
        records.sort_unstable_by(|one, other| other.cmp(one));
        let mut bytes = 0u64;
        for (index, (_, length, path)) in records.into_iter().enumerate() {
            bytes += length;
            if index >= MAX_RECORDS || bytes > MAX_BYTES {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// When a record was written, its length, bytes, and its path.
fn age(entry: &DirEntry) -> Option<(std::time::SystemTime, u64, PathBuf)> {
    let state = entry.metadata().ok()?;
    Some((state.modified().ok()?, state.len(), entry.path()))
}

fn units(regions: &[Region]) -> u64 {
    let counts = regions.iter().map(|region| region.sequences.len() as u64);
    counts.sum()
}

/// A file, device or export of a trial.
#[derive(Debug)]
struct Subject {
    /// Distinguishes it from all others.
    identity: String,
    /// Its name in the headers of its blocks.
    name: String,
    /// It is removed at the end of the trial.
    temporary: bool,
}

/// The use of the records in a trial: the blocks that its jobs may overwrite, expect, and have written.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    records: Option<VerifyRecords>,
    /// By path, as named by the clones.
    subjects: HashMap<PathBuf, Subject>,
    /// Every range that a clone may write: the clone (its index), the identity of the file, and the range in bytes.
    writers: Vec<(usize, String, Range<u64>)>,
    /// Notes; each one is reported once.
    notes: Vec<String>,
}

impl Recorder {
    /// Removes the blocks that the clones may write from the records. Call this before anything is written.
    pub(crate) fn begin(
        resolved: &Resolved,
        jobs: &[Job],
        files: &Files,
        shares: &ShareFiles,
    ) -> Recorder {
        let mut recorder = Recorder {
            records: VerifyRecords::of_user(),
            subjects: subjects(resolved, jobs, files, shares),
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
            for file in clone.files.iter().filter(|_| writes) {
                if let Some(subject) = recorder.subjects.get(&file.path) {
                    let range = file.base..file.end();
                    let writer = (index, subject.identity.clone(), range);
                    recorder.writers.push(writer);
                }
            }
        }
        let Some(records) = &recorder.records else {
            return recorder;
        };
        let mut written: BTreeMap<&str, Vec<Range<u64>>> = BTreeMap::new();
        for (_, identity, range) in &recorder.writers {
            written.entry(identity).or_default().push(range.clone());
        }
        for (identity, ranges) in written {
            if let Err(error) = records.forget(identity, &ranges) {
                recorder.notes.push(format!(
                    "a record of written blocks cannot be changed ({error}): `verify_only` may report current blocks as stale; \
                     remove `{}`",
                    records.at(identity).display()
                ));
            }
        }
        recorder
    }

    /// The record of each file of a clone that only checks blocks; empty for other clones.
    ///
    /// # Errors
    /// The job requires a record that is missing.
    pub(crate) fn expected(
        &mut self,
        blocks: &Blocks,
        clone: &ResolvedClone,
    ) -> Result<Vec<RecordedBlocks>, Diagnostic> {
        let only_checks = !blocks.access.writes || blocks.read_only_by().is_some();
        let Some(verify) = blocks.verify.as_ref().filter(|verify| {
            only_checks && verify.load_state != LoadState::Never && verify.checksum.has_header()
        }) else {
            return Ok(Vec::new());
        };
        let unit = verified_unit(verify, blocks.access.verified_sizes().min());
        let mut all = Vec::with_capacity(clone.files.len());
        for file in &clone.files {
            let range = file.base..file.end();
            let subject = self.subjects.get(&file.path);
            // The writes of this trial are not recorded yet.
            let written = |subject: &Subject| {
                let mut writers = self.writers.iter();
                writers.any(|(_, identity, other)| {
                    *identity == subject.identity && overlap(other, &range)
                })
            };
            let Some(subject) = subject.filter(|subject| !written(subject)) else {
                all.push(RecordedBlocks::default());
                continue;
            };
            let records = self.records.as_ref();
            let found =
                records.and_then(|records| records.recorded(&subject.identity, range, unit));
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
    ) {
        if written.is_empty() {
            return;
        }
        let Some(records) = self.records.clone() else {
            return self.not_recorded("neither `$XDG_STATE_HOME` nor `$HOME` is set");
        };
        let mut by_identity: BTreeMap<String, Vec<Region>> = BTreeMap::new();
        for (clone, blocks) in written {
            for ((path, base), sequences) in resolved[clone].iter().zip(blocks.sequences) {
                let Some(subject) = self.subjects.get(path) else {
                    self.not_recorded(&format!("`{}` cannot be identified", path.display()));
                    continue;
                };
                let region = Region {
                    base: *base,
                    unit: blocks.unit,
                    writer: RecordedWriter {
                        trial,
                        name: subject.name.clone(),
                    },
                    sequences,
                };
                let range = region.range();
                let others = self.writers.iter().any(|(index, other, writes)| {
                    *index != clone && *other == subject.identity && overlap(writes, &range)
                });
                match others {
                    true => self.not_recorded(&format!(
                        "several threads write the same blocks of `{}`",
                        path.display()
                    )),
                    false if subject.temporary => {}
                    false => {
                        let identity = subject.identity.clone();
                        by_identity.entry(identity).or_default().push(region);
                    }
                }
            }
        }
        for (identity, regions) in by_identity {
            let name = regions.first().map(|region| region.writer.name.clone());
            if let Err(error) = records.add(&identity, regions) {
                self.not_recorded(&format!("`{}`: {error}", name.unwrap_or_default()));
            }
        }
        records.prune();
    }

    fn not_recorded(&mut self, why: &str) {
        self.note(format!(
            "the last writes are not recorded for `verify_only`: {why}"
        ));
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

/// The storage of the clones, if they store anything identifiable.
fn subjects(
    resolved: &Resolved,
    jobs: &[Job],
    files: &Files,
    shares: &ShareFiles,
) -> HashMap<PathBuf, Subject> {
    let (roots, by_path) = (Roots::host(), files.by_path());
    let mut all = HashMap::new();
    for clone in &resolved.clones {
        for file in &clone.files {
            if all.contains_key(&file.path) {
                continue;
            }
            let name = file.path.display().to_string();
            let found = by_path.get(file.path.as_path());
            let (identity, name, temporary) = match found.map(|index| &files.list[*index]) {
                Some(found) => {
                    let admitted = &found.admitted;
                    let identity = identity::lasting(admitted.as_fd(), &admitted.path, &roots);
                    let name = found.verified_name().display().to_string();
                    (identity, name, found.wanted.unlink)
                }
                None => match exports::wanted(&jobs[clone.job as usize]) {
                    Some((uri, _)) => {
                        let length = file.existing.unwrap_or_default();
                        (Some(format!("export {uri} {length}")), name, false)
                    }
                    None => {
                        let share = shares.identity(&file.path);
                        let temporary = share.as_ref().is_some_and(|(_, unlink)| *unlink);
                        (share.map(|(identity, _)| identity), name, temporary)
                    }
                },
            };
            if let Some(identity) = identity {
                let subject = Subject {
                    identity,
                    name,
                    temporary,
                };
                all.insert(file.path.clone(), subject);
            }
        }
    }
    all
}

/// The path and the base of the region of each file of a clone.
pub(crate) type ClonePlaces = Vec<(PathBuf, u64)>;

/// The places of a clone if its last writes must be recorded; empty otherwise.
pub(crate) fn recorded_places(blocks: &Blocks, clone: &ResolvedClone) -> ClonePlaces {
    let records = blocks
        .verify
        .as_ref()
        .is_some_and(|verify| verify.save_state && verify.checksum.has_header())
        && blocks.access.writes
        && !blocks.engine.kind.without_storage()
        && blocks.read_only_by().is_none();
    let files = clone.files.iter().filter(|_| records);
    files.map(|file| (file.path.clone(), file.base)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: &str = "file 1 2";

    fn region(base: u64, trial: u64, sequences: &[u32]) -> Region {
        Region {
            base,
            unit: 4096,
            writer: writer(trial),
            sequences: sequences.to_vec(),
        }
    }

    fn writer(trial: u64) -> RecordedWriter {
        RecordedWriter {
            trial,
            name: "/d/f".to_owned(),
        }
    }

    /// The recorded state of a unit: its trial and sequence number.
    #[derive(Debug, PartialEq, Eq)]
    enum Unit {
        Unknown,
        Unwritten,
        Failed,
        Written(u64, u32),
    }
    use Unit::{Failed, Unknown, Unwritten, Written};

    fn units(records: &VerifyRecords, range: Range<u64>) -> Option<Vec<Unit>> {
        let recorded = records.recorded(SUBJECT, range, 4096)?;
        let units = recorded.units.iter().map(|unit| match *unit {
            RecordedUnit::Unknown => Unknown,
            RecordedUnit::Unwritten => Unwritten,
            RecordedUnit::Failed => Failed,
            RecordedUnit::Written { writer, sequence } => {
                Written(recorded.writers[writer as usize].trial, sequence)
            }
        });
        Some(units.collect())
    }

    fn records() -> (tempfile::TempDir, VerifyRecords) {
        let folder = tempfile::tempdir().unwrap();
        let records = VerifyRecords {
            folder: folder.path().join("state/verify"),
        };
        (folder, records)
    }

    #[test]
    fn added_writes_are_recorded_until_they_are_overwritten() {
        let (_folder, records) = records();
        assert_eq!(units(&records, 0..8192), None);
        let regions = vec![region(0, 7, &[3, 0]), region(16384, 7, &[9])];
        records.add(SUBJECT, regions).unwrap();
        let whole = [Written(7, 3), Unwritten, Unknown, Unknown, Written(7, 9)];
        assert_eq!(units(&records, 0..5 * 4096).unwrap(), whole);
        let last = 16384..16384 + 4096;
        assert_eq!(units(&records, last.clone()).unwrap(), [Written(7, 9)]);
        // A later trial writes only the second region.
        records
            .forget(SUBJECT, std::slice::from_ref(&(16384..20000)))
            .unwrap();
        assert_eq!(units(&records, last.clone()), None);
        records.add(SUBJECT, vec![region(16384, 8, &[1])]).unwrap();
        assert_eq!(units(&records, 0..4096).unwrap(), [Written(7, 3)]);
        assert_eq!(units(&records, last).unwrap(), [Written(8, 1)]);
        records
            .forget(SUBJECT, std::slice::from_ref(&(0..1 << 30)))
            .unwrap();
        assert_eq!(fs::read_dir(&records.folder).unwrap().count(), 0);
    }

    #[test]
    fn a_trial_on_a_part_of_a_region_leaves_the_rest_of_its_record() {
        let (_folder, records) = records();
        let failed = WrittenBlocks::FAILED;
        records
            .add(SUBJECT, vec![region(4096, 7, &[1, 2, 3, failed, 5])])
            .unwrap();
        // Units that are overwritten in part are unknown as a whole.
        records
            .forget(SUBJECT, std::slice::from_ref(&(9000..13000)))
            .unwrap();
        let rest = [
            Unknown,
            Written(7, 1),
            Unknown,
            Unknown,
            Failed,
            Written(7, 5),
        ];
        assert_eq!(units(&records, 0..6 * 4096).unwrap(), rest);
        records.add(SUBJECT, vec![region(0, 8, &[6, 7])]).unwrap();
        let both = [
            Written(8, 6),
            Written(8, 7),
            Unknown,
            Unknown,
            Failed,
            Written(7, 5),
        ];
        assert_eq!(units(&records, 0..6 * 4096).unwrap(), both);
    }

    #[test]
    fn a_failed_write_is_known_in_units_of_any_length() {
        let (_folder, records) = records();
        let mut small = region(512, 7, &[1, WrittenBlocks::FAILED, 3]);
        small.unit = 512;
        records
            .add(SUBJECT, vec![region(8192, 7, &[4]), small])
            .unwrap();
        let found = units(&records, 0..3 * 4096).unwrap();
        assert_eq!(found, [Failed, Unknown, Written(7, 4)]);
        let large = WrittenBlocks::FAILED;
        records.add(SUBJECT, vec![region(0, 8, &[large])]).unwrap();
        let found = records.recorded(SUBJECT, 512..9216, 512).unwrap().units;
        assert_eq!(found[..7], [RecordedUnit::Failed; 7]);
        assert_eq!(found[7..], [RecordedUnit::Unknown; 10]);
    }

    #[test]
    fn a_record_of_other_units_or_of_another_file_is_not_used() {
        let (_folder, records) = records();
        records.add(SUBJECT, vec![region(0, 7, &[3, 4])]).unwrap();
        // A region that begins within a unit has different units.
        assert_eq!(units(&records, 512..4608), None);
        assert_eq!(records.recorded(SUBJECT, 0..8192, 512), None);
        assert_eq!(records.recorded("file 1 3", 0..8192, 4096), None);
        // The same with equal names in the folder.
        fs::copy(records.at(SUBJECT), records.at("file 1 3")).unwrap();
        assert_eq!(records.recorded("file 1 3", 0..8192, 4096), None);
        records.forget("file 1 3", &[]).unwrap();
        assert!(!records.at("file 1 3").exists());
    }

    #[test]
    fn a_record_with_any_flipped_bit_is_ignored() {
        let (_folder, records) = records();
        records.add(SUBJECT, vec![region(0, 7, &[3, 4])]).unwrap();
        let at = records.at(SUBJECT);
        let whole = fs::read(&at).unwrap();
        for length in 0..whole.len() {
            fs::write(&at, &whole[..length]).unwrap();
            assert_eq!(units(&records, 0..8192), None, "{length}");
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&at, damaged).unwrap();
            assert_eq!(units(&records, 0..8192), None, "bit {bit}");
        }
        fs::write(&at, whole).unwrap();
        assert!(units(&records, 0..8192).is_some());
    }

    #[test]
    fn records_of_the_first_form_are_removed() {
        let (_folder, records) = records();
        records.add(SUBJECT, vec![region(0, 7, &[3])]).unwrap();
        let old = records.folder.join("0123456789abcdef");
        fs::write(&old, b"old").unwrap();
        records.prune();
        assert!(!old.exists() && records.at(SUBJECT).exists());
    }
}
