//! Records of the devices that iodyno wrote to: one file per device, in iodyno's state folder.
//!
//! A record contains the identity of a device, the digests of the sampled blocks that iodyno wrote, and which ones
//! others wrote. It is made durable before the first write of a trial and updated after the trial. It names the
//! process that writes in between. If that process was killed, the digests are older than its writes: blocks that
//! differ count as foreign, because they cannot be distinguished from data of others. It also has the ranges that the
//! process may write: what changes outside of them is of others. A record that is lost, stale or of another device
//! never admits anything.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use iodyno_host::backing::Backing;
use iodyno_host::block::{Block, DeviceNumber};
use iodyno_host::{Owner, Roots, boot_id, names};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::content::{OwnRecord, Sample, digest};
use crate::medium::Medium;
use crate::places::merged;

/// Versions 1 and 2, of other samples, admit nothing.
const SCHEMA: u32 = 3;
/// Maximum length of a record that is read; one of a device that is full of iodyno's writes has 4 MiB.
const LONGEST: u64 = 16 << 20;

/// A process, and the boot in which it runs. Neither its number nor its start time alone identify it: the first
/// process of a container always has the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Writer {
    boot: String,
    process: Owner,
}

impl Writer {
    pub(crate) fn new(roots: &Roots, process: Owner) -> Writer {
        Writer {
            boot: boot_id(roots),
            process,
        }
    }

    /// This process. If its start time is not known, its record is never closed for it later.
    pub(crate) fn this(roots: &Roots) -> Writer {
        let pid = std::process::id();
        let process = Owner::of(roots, pid).unwrap_or(Owner { pid, start: 0 });
        Writer::new(roots, process)
    }
}

/// The stored record of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    schema: u32,
    /// See [`device_identity`](iodyno_host::identity::device_identity).
    pub(crate) identity: String,
    /// The path under which it was written.
    path: PathBuf,
    /// Process that is writing to it; `None` if the digests are up to date.
    pub(crate) writer: Option<Writer>,
    /// The number of sampled cells.
    cells: usize,
    /// Whether all that a file stores was sampled.
    stored: bool,
    /// iodyno's blocks: the number of the first block of each run of blocks, and their digests.
    digests: Vec<(u64, String)>,
    /// Blocks of others: the number of the first block of each run, and the number of blocks.
    foreign: Vec<(u64, u64)>,
    /// The ranges that `writer` may write, bytes.
    #[serde(default)]
    writes: Vec<Range<u64>>,
}

/// The number of hexadecimal digits of a digest.
const DIGITS: usize = 16;

impl Record {
    pub(crate) fn new(
        identity: &str,
        path: &Path,
        writer: Option<Writer>,
        own: &OwnRecord,
    ) -> Record {
        let blocks: Vec<(u64, u64)> = own.digests.iter().map(|(one, two)| (*one, *two)).collect();
        let digests = blocks.chunk_by(|one, next| one.0 + 1 == next.0).map(|run| {
            let digests = run.iter().map(|(_, digest)| format!("{digest:016x}"));
            (run[0].0, digests.collect())
        });
        let blocks: Vec<u64> = own.foreign.iter().copied().collect();
        let foreign = blocks.chunk_by(|one, next| one + 1 == *next);
        Record {
            schema: SCHEMA,
            identity: identity.to_owned(),
            path: path.to_owned(),
            writer,
            cells: own.cells,
            stored: own.stored,
            digests: digests.collect(),
            foreign: foreign.map(|run| (run[0], run.len() as u64)).collect(),
            writes: Vec::new(),
        }
    }

    pub(crate) fn own(&self) -> OwnRecord {
        let digests = self.digests.iter().flat_map(|(first, digests)| {
            let digests = digests.as_bytes().chunks(DIGITS);
            let digests =
                digests.map(|digits| u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
            (*first..).zip(digests)
        });
        let foreign = self.foreign.iter();
        let foreign = foreign.flat_map(|(first, count)| *first..first.saturating_add(*count));
        OwnRecord {
            cells: self.cells,
            stored: self.stored,
            digests: digests
                .filter_map(|(block, digest)| Some((block, digest?)))
                .collect(),
            foreign: foreign.collect(),
        }
    }
}

/// The records in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Records {
    folder: PathBuf,
}

impl Records {
    pub(crate) fn new(folder: PathBuf) -> Records {
        Records { folder }
    }

    fn path(&self, identity: &str) -> PathBuf {
        let name = format!("{:016x}.json", xxh3_64(identity.as_bytes()));
        self.folder.join(name)
    }

    /// The record of a device; `None` if it does not exist or cannot be parsed.
    pub(crate) fn load(&self, identity: &str) -> Option<Record> {
        let record = read(&self.path(identity))?;
        (record.identity == identity).then_some(record)
    }

    /// Writes a record durably, replacing the previous one.
    ///
    /// # Errors
    /// As open(2), write(2), fsync(2) and rename(2).
    pub(crate) fn store(&self, record: &Record) -> io::Result<()> {
        let mut make = DirBuilder::new();
        make.recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.path(&record.identity);
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&new);
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(&serde_json::to_vec(record)?)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&new, &path))
            .and_then(|()| File::open(&self.folder)?.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Closes a record whose process died: blocks in the ranges that it might write count as its own.
    pub(crate) fn close(&self, open: &Record, device: &File, block: &Block) -> io::Result<()> {
        let own = open.own();
        let stored = Backing::of(block, device).and_then(|backing| backing.stored(device));
        let medium = Medium::open(device)?;
        let sample = Sample::read(&medium, block.length(), stored.as_deref(), Some(&own))?;
        let same = |block: &u64, now: &_| own.digests.get(block) == Some(&digest(now));
        let mut foreign = own.foreign.clone();
        foreign.extend(sample.changed_outside(&open.writes, same));
        let own = sample.own(&foreign);
        self.store(&Record::new(&open.identity, &open.path, None, &own))
    }

    /// The records that a process left open.
    pub(crate) fn left_by(&self, process: &Writer) -> Vec<Record> {
        let all = names(&self.folder).into_iter();
        let json = all.filter(|name| name.ends_with(".json"));
        json.filter_map(|name| read(&self.folder.join(name)))
            .filter(|record| record.writer.as_ref() == Some(process))
            .collect()
    }
}

impl Record {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn read(path: &Path) -> Option<Record> {
    let length = path.symlink_metadata().ok()?.len();
    let bytes = (length <= LONGEST).then(|| fs::read(path).ok())??;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    (record.schema == SCHEMA).then_some(record)
}

/// An exclusive claim on a device, with the known facts about its previous content.
#[derive(Debug)]
pub(crate) struct Claim {
    device: DeviceNumber,
    /// Opened with O_EXCL.
    pub(crate) descriptor: OwnedFd,
    before: OnceLock<Before>,
}

/// The devices of all claims of this process.
static CLAIMED: Mutex<Vec<DeviceNumber>> = Mutex::new(Vec::new());

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.retain(|device| *device != self.device);
    }
}

/// Content of a device before iodyno wrote to it.
#[derive(Debug)]
pub(crate) struct Sampled {
    /// See [`device_identity`](iodyno_host::identity::device_identity).
    pub(crate) identity: String,
    /// Length in bytes.
    pub(crate) length: u64,
    pub(crate) sample: Sample,
    /// The sampled blocks that are neither blank nor iodyno's own.
    pub(crate) foreign: BTreeSet<u64>,
    /// From the record.
    pub(crate) own: OwnRecord,
    pub(crate) backing: Option<Backing>,
}

#[derive(Debug)]
struct Before {
    records: Records,
    path: PathBuf,
    writer: Writer,
    sampled: Sampled,
    /// The ranges that this process may write, in order, bytes.
    writes: Mutex<Vec<Range<u64>>>,
}

impl Claim {
    pub(crate) fn new(device: DeviceNumber, descriptor: OwnedFd) -> Claim {
        CLAIMED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(device);
        Claim {
            device,
            descriptor,
            before: OnceLock::new(),
        }
    }

    /// Whether this process has a claim on a device.
    pub(crate) fn is_own(device: DeviceNumber) -> bool {
        let claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.contains(&device)
    }

    /// Whether the writes of this process are recorded: the device was admitted before, with the content that it had
    /// then.
    pub(crate) fn has_begun(&self) -> bool {
        self.before.get().is_some()
    }

    /// Records durably that this process is about to write.
    ///
    /// # Errors
    /// The record cannot be written. The device can be used, but will not be recognised the next time.
    pub(crate) fn begin(
        &self,
        records: &Records,
        path: &Path,
        writer: Writer,
        sampled: Sampled,
    ) -> io::Result<()> {
        let own = sampled.sample.own(&sampled.foreign);
        let open = Record::new(&sampled.identity, path, Some(writer.clone()), &own);
        records.store(&open)?;
        // A second job on the device gets the same values as the first: nothing has been written yet.
        let _ = self.before.set(Before {
            records: records.clone(),
            path: path.to_owned(),
            writer,
            sampled,
            writes: Mutex::default(),
        });
        Ok(())
    }
}

/// A device that was admitted for writing; it is held with O_EXCL until this is dropped.
#[derive(Debug, Clone)]
pub struct WrittenDevice(pub(crate) Arc<Claim>);

impl WrittenDevice {
    /// Records durably that this process may write these ranges as well, bytes. Must be called before it does: what
    /// changes elsewhere counts as written by others.
    ///
    /// # Errors
    /// The record cannot be written. If this process is killed, the next run on the device is refused.
    pub fn may_write(&self, ranges: &[Range<u64>]) -> io::Result<()> {
        let Some(before) = self.0.before.get() else {
            return Ok(());
        };
        let mut writes = before.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.extend_from_slice(ranges);
        *writes = merged(std::mem::take(&mut *writes));
        let (sampled, writer) = (&before.sampled, Some(before.writer.clone()));
        let own = sampled.sample.own(&sampled.foreign);
        before.records.store(&Record {
            writes: writes.clone(),
            ..Record::new(&sampled.identity, &before.path, writer, &own)
        })
    }

    /// Records the current content of the ranges that iodyno may write as written by it, so that the next run is
    /// admitted without `--destroy`. Must be called after the last write.
    ///
    /// # Errors
    /// The device cannot be read or the record cannot be written. The next run on the device is refused.
    pub fn record(&self) -> io::Result<()> {
        let Some(before) = self.0.before.get() else {
            return Ok(());
        };
        let device = File::from(self.0.descriptor.try_clone()?);
        let sampled = &before.sampled;
        // Only blocks that were seen before: others would count as changed.
        let scope = OwnRecord {
            foreign: sampled.foreign.clone(),
            ..sampled.sample.own(&BTreeSet::new())
        };
        let backing = sampled.backing.as_ref();
        let stored = backing.and_then(|backing| backing.stored(&device));
        let medium = Medium::open(&device)?;
        let sample = Sample::read(&medium, sampled.length, stored.as_deref(), Some(&scope))?;
        let writes = before.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let own = sample.own_after(&sampled.sample, &sampled.foreign, &sampled.own, &writes);
        let record = Record::new(&sampled.identity, &before.path, None, &own);
        before.records.store(&record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_stored_and_invalid_ones_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().join("iodyno/devices"));
        assert_eq!(records.load("a"), None);
        let own = OwnRecord {
            cells: 200,
            stored: true,
            digests: [(0, 5), (1, 6), (7, u64::MAX)].into(),
            foreign: [2, 3, 4, 9].into(),
        };
        let writer = |boot: &str, pid, start| Writer {
            boot: boot.to_owned(),
            process: Owner { pid, start },
        };
        let record = Record::new("a", Path::new("/dev/a"), Some(writer("one", 7, 5)), &own);
        records.store(&record).unwrap();
        assert_eq!(records.load("a").unwrap().own(), own);
        assert_eq!(records.load("b"), None);
        for other in [
            writer("one", 7, 6),
            writer("two", 7, 5),
            writer("one", 8, 5),
        ] {
            assert_eq!(records.left_by(&other), []);
        }
        assert_eq!(records.left_by(&writer("one", 7, 5)), [record]);
        let record = Record::new("a", Path::new("/dev/a"), None, &OwnRecord::default());
        records.store(&record).unwrap();
        assert!(records.left_by(&writer("one", 7, 5)).is_empty());
        assert_eq!(names(folder.path().join("iodyno/devices")).len(), 1);
        // The record of another device, a truncated record, and a record of a later version.
        fs::copy(records.path("a"), records.path("b")).unwrap();
        assert_eq!(records.load("b"), None);
        let text = fs::read_to_string(records.path("a")).unwrap();
        fs::write(records.path("a"), &text[..text.len() - 1]).unwrap();
        assert_eq!(records.load("a"), None);
        fs::write(
            records.path("a"),
            text.replace("\"schema\":3", "\"schema\":4"),
        )
        .unwrap();
        assert_eq!(records.load("a"), None);
    }
}
