//! Block devices: checked for other users, claimed, sampled, and only then opened for writing.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError, Weak};

use iodyno_host::Owner;
use iodyno_host::backing::Backing;
use iodyno_host::block::{Block, DeviceNumber};
use iodyno_host::identity::device_identity;
use rustix::fs::{OFlags, SeekFrom};

use crate::signatures;

use crate::Guard;
use crate::admitted::{Admitted, admitted};
use crate::content::{BLOCK, Sample};
use crate::file_uses;
use crate::medium::Medium;
use crate::open::{Pinned, PinnedKind, open_flags, reopen};
use crate::own_writes::{Claim, Record, Sampled, Writer};
use crate::places;
use crate::refusal::{AdmitError, Reason, refused};
use crate::request::{Kind, Request};
use crate::survey::Survey;
use crate::uses::{self, exclusive, patiently};

impl Guard {
    /// All reasons in sysfs and procfs against writing to a device, and a lock on its node. Waits for processes that
    /// have it open only briefly (`losetup --find` opens all).
    pub(crate) fn judge(&self, number: DeviceNumber, node: Option<&Pinned>) -> Vec<Reason> {
        let block = match Block::find(&self.roots, number) {
            Ok(block) => block,
            Err(error) => {
                return vec![Reason::Unknown {
                    why: format!("device {number} in sysfs: {error}"),
                }];
            }
        };
        patiently(|| {
            let survey = Survey::take(&self.roots);
            let mut reasons = uses::of(&self.roots, &survey, &block);
            let node = node.filter(|_| reasons.is_empty());
            reasons.extend(node.and_then(|node| {
                file_uses::unseen(&self.roots, &survey, node, self.legs.is_some())
            }));
            reasons
        })
    }

    /// The reasons against writing to a device that is not claimed. If there are any, its content is reported as well
    /// if it can be read; otherwise it is read only if `content` is set.
    pub(crate) fn against_device(
        &self,
        request: &Request<'_>,
        pinned: &Pinned,
        number: DeviceNumber,
        content: bool,
    ) -> Vec<Reason> {
        let mut reasons = self.judge(number, Some(pinned));
        if let Ok(block) = Block::find(&self.roots, number) {
            if block.read_only() {
                reasons.push(Reason::ReadOnlyDevice);
            }
            if block.length() == 0 {
                reasons.push(Reason::Empty);
            }
        }
        if !request.named {
            reasons.push(Reason::NotNamed);
        }
        let refused = !reasons.is_empty();
        if !refused && !content {
            return reasons;
        }
        match pinned.open(OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(device) => {
                let found = self.holds(&File::from(device), number).reasons;
                let kept = found.into_iter();
                reasons.extend(kept.filter(|reason| !refused || reason.gives_way()));
            }
            Err(_) if refused => {}
            Err(error) => reasons.push(Reason::Unprobed {
                why: error.to_string(),
            }),
        }
        reasons
    }

    /// Opens a block device, against which there is no reason, for the intent of the request.
    pub(crate) fn admit_device(
        &self,
        request: &Request<'_>,
        pinned: &Pinned,
        number: DeviceNumber,
    ) -> Result<Admitted, AdmitError> {
        if !request.intent.changes() {
            return self.admit_read(request, pinned, number);
        }
        let claim = self.claim(request, pinned, number)?;
        // Check again now that the kernel excludes others: it may have been mounted in between.
        let mut reasons = self.judge(number, Some(pinned));
        let device = claim.descriptor.try_clone().map(File::from);
        let content = match &device {
            // Another job of this run has it.
            _ if claim.has_begun() => Content::default(),
            Ok(device) => self.holds(device, number),
            Err(error) => Content::unreadable(error.to_string()),
        };
        reasons.extend(content.reasons);
        let Some(mut notes) = self.outweighed(request, pinned, &reasons) else {
            return Err(refused(request, pinned, reasons));
        };
        notes.extend(content.notes);
        if let (Some(records), Some(sampled)) = (&self.records, content.sampled) {
            let writer = Writer::this(&self.roots);
            let begun = claim.begin(records, &pinned.resolved, writer, sampled);
            notes.extend(begun.err().map(|error| {
                format!(
                    "the next run on `{}` will need `--destroy`: what is written to it cannot be recorded: {error}",
                    request.path.display()
                )
            }));
        }
        let flags = open_flags(request.intent, request.flags);
        let descriptor = reopen(claim.descriptor.as_fd(), flags)
            .map_err(|error| request.not_opened(error, request.flags.direct))?;
        Ok(Admitted {
            notes,
            claim: Some(claim),
            ..self.device(request, pinned, number, descriptor)?
        })
    }

    fn admit_read(
        &self,
        request: &Request<'_>,
        pinned: &Pinned,
        number: DeviceNumber,
    ) -> Result<Admitted, AdmitError> {
        let descriptor = pinned
            .open(open_flags(request.intent, request.flags))
            .map_err(|error| request.not_opened(error, false))?;
        let notes = self.judge(number, Some(pinned)).into_iter().map(|reason| {
            format!(
                "`{}` is in use and only read: {reason}",
                request.path.display()
            )
        });
        Ok(Admitted {
            notes: notes.collect(),
            ..self.device(request, pinned, number, descriptor)?
        })
    }

    fn device(
        &self,
        request: &Request<'_>,
        pinned: &Pinned,
        number: DeviceNumber,
        descriptor: OwnedFd,
    ) -> Result<Admitted, AdmitError> {
        let failed = |source: rustix::io::Errno| {
            AdmitError::failed(request.path, "measure", source.into(), false)
        };
        let length = rustix::fs::seek(&descriptor, SeekFrom::End(0)).map_err(failed)?;
        rustix::fs::seek(&descriptor, SeekFrom::Start(0)).map_err(failed)?;
        let block = rustix::fs::ioctl_blksszget(&descriptor).map_err(failed)?;
        let admitted = admitted(request, pinned, Kind::BlockDevice(number), descriptor);
        Ok(Admitted {
            length,
            logical_block_size: block,
            ..admitted
        })
    }

    /// Claims a device exclusively; an existing claim of this process is shared.
    fn claim(
        &self,
        request: &Request<'_>,
        pinned: &Pinned,
        number: DeviceNumber,
    ) -> Result<Arc<Claim>, AdmitError> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claim) = claims.get(&number).and_then(Weak::upgrade) {
            return Ok(claim);
        }
        match exclusive(pinned) {
            Ok(descriptor) => {
                let claim = Arc::new(Claim::new(number, descriptor));
                claims.insert(number, Arc::downgrade(&claim));
                Ok(claim)
            }
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let name = Block::find(&self.roots, number).map(|block| block.name);
                let mut reasons = vec![Reason::Claimed {
                    device: name.unwrap_or_else(|_| number.to_string()),
                }];
                if let Ok(device) = pinned.open(OFlags::RDONLY | OFlags::NONBLOCK) {
                    reasons.extend(self.holds(&File::from(device), number).reasons);
                }
                Err(refused(request, pinned, reasons))
            }
            Err(error) => Err(AdmitError::failed(request.path, "claim", error, false)),
        }
    }

    /// The content of a device and its partitions that iodyno did not write.
    fn holds(&self, device: &File, number: DeviceNumber) -> Content {
        let Ok(block) = Block::find(&self.roots, number) else {
            // `judge` refuses the device for that reason.
            return Content::default();
        };
        let length = rustix::fs::seek(device, SeekFrom::End(0)).unwrap_or_else(|_| block.length());
        let medium = match Medium::open(device) {
            Ok(medium) => medium,
            Err(error) => return Content::unreadable(format!("{}: {error}", block.name)),
        };
        let identity = device_identity(&self.roots, &block, device);
        let record = self.records.as_ref().and_then(|all| all.load(&identity));
        let own = record.as_ref().map(Record::own);
        let backing = Backing::of(&block, device);
        let stored = backing.as_ref().and_then(|backing| backing.stored(device));
        let mut reasons = held(&medium, &block.name, 0..length, length);
        if self.legs.is_some() && reasons.iter().any(Reason::is_leg) {
            // What the mirror holds does not matter.
            reasons.extend(of_partitions(&medium, &block, length));
            return Content {
                reasons,
                ..Content::default()
            };
        }
        let sample = match Sample::read(&medium, length, stored.as_deref(), own.as_ref()) {
            Ok(sample) => sample,
            Err(error) => return Content::unreadable(format!("{}: {error}", block.name)),
        };
        let own = own.unwrap_or_default();
        let foreign = sample.foreign(&own);
        tracing::debug!(
            device = block.name,
            blocks = sample.len(),
            foreign = foreign.len(),
            "looked at {}",
            sample.describe()
        );
        if foreign.is_empty() {
            // A signature in a block that iodyno wrote is a coincidence, or was written on purpose.
            // Signatures outside of the sample are kept.
            reasons.retain(|reason| match reason {
                Reason::Signature { signature, .. } => !sample.covers(signature.offset),
                _ => true,
            });
        }
        reasons.extend(shown(&medium, &block, &sample, &foreign, record.as_ref()));
        reasons.extend(of_partitions(&medium, &block, length));
        let stale = (!medium.is_direct()).then(|| {
            format!(
                "{} cannot be read past the page cache, which may be older than the device",
                block.name
            )
        });
        Content {
            reasons,
            notes: stale.into_iter().collect(),
            sampled: Some(Sampled {
                identity,
                length,
                sample,
                foreign,
                own,
                backing,
            }),
        }
    }

    /// Updates the records that a process left open when it died. Must be called immediately: data that others write in
    /// the meantime count as written by iodyno. Records of devices that are in use or cannot be read stay open.
    pub fn record_after_death(&self, process: Owner) {
        let Some(records) = &self.records else {
            return;
        };
        for record in records.left_by(&Writer::new(&self.roots, process)) {
            let Ok(pinned) = Pinned::path(record.path()) else {
                continue;
            };
            let PinnedKind::Block(number) = pinned.kind else {
                continue;
            };
            if !self.judge(number, Some(&pinned)).is_empty() {
                continue;
            }
            let (Ok(descriptor), Ok(block)) =
                (exclusive(&pinned), Block::find(&self.roots, number))
            else {
                continue;
            };
            let device = File::from(descriptor);
            if device_identity(&self.roots, &block, &device) == record.identity {
                // A record that stays open permits less than a closed one, never more.
                let _ = records.close(&record, &device, &block);
            }
        }
    }
}

/// The content of a device.
#[derive(Debug, Default)]
struct Content {
    reasons: Vec<Reason>,
    notes: Vec<String>,
    /// `None` if it could not be read.
    sampled: Option<Sampled>,
}

impl Content {
    fn unreadable(why: String) -> Content {
        Content {
            reasons: vec![Reason::Unprobed { why }],
            ..Content::default()
        }
    }
}

/// The partitions that the kernel knows, and their signatures.
fn of_partitions(device: &Medium, block: &Block, end: u64) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for part in block.partitions() {
        reasons.push(Reason::Partition {
            name: part.name.clone(),
            length: part.length(),
        });
        if let Some(start) = part.start() {
            let range = start..start.saturating_add(part.length());
            reasons.extend(held(device, &part.name, range, end));
        }
    }
    reasons
}

/// The signatures in a range of a device; `end` is the length of the device.
fn held(device: &Medium, name: &str, range: Range<u64>, end: u64) -> Vec<Reason> {
    let read = |bytes: &mut [u8], offset| device.read(bytes, range.start + offset, end);
    match signatures::probe_device(range.end - range.start, read) {
        Ok(found) => found
            .into_iter()
            .map(|signature| Reason::Signature {
                device: name.to_owned(),
                signature,
            })
            .collect(),
        Err(error) => vec![Reason::Unprobed {
            why: format!("{name}: {error}"),
        }],
    }
}

/// What a sample shows, with the signatures that are not those of the device or its partitions.
fn shown(
    medium: &Medium,
    block: &Block,
    sample: &Sample,
    foreign: &BTreeSet<u64>,
    record: Option<&Record>,
) -> Vec<Reason> {
    let device = block.name.clone();
    let looked = sample.describe();
    let Some(first) = foreign.first() else {
        // The next run compares what this one has seen.
        let seen = record.is_some() || sample.is_complete();
        let not_seen = (!seen).then_some(Reason::NotSeen { device, looked });
        return not_seen.into_iter().collect();
    };
    let mut reasons = further(medium, block, foreign, sample.length);
    reasons.push(Reason::Data {
        device,
        blocks: foreign.len() as u64,
        sampled: sample.len(),
        looked,
        first: first * BLOCK,
        interrupted: record.is_some_and(|record| record.writer.is_some()),
    });
    reasons
}

/// How many of the places at which a signature was found are listed.
const LISTED: usize = 8;
/// How many places are probed that are a multiple of 1 MiB and not a usual start.
const PROBED: usize = 64;

/// Signatures of file systems and volumes that begin, or have a copy of their superblock, where they usually do, but
/// where the kernel knows no partition, near the `foreign` blocks.
fn further(device: &Medium, block: &Block, foreign: &BTreeSet<u64>, length: u64) -> Vec<Reason> {
    let known: Vec<u64> = block.partitions().iter().filter_map(Block::start).collect();
    let starts = places::starts(length).into_iter();
    let heads = foreign.iter().map(|block| block * BLOCK);
    let heads = heads.filter(|start| *start > 0 && start % places::STRIDE == 0);
    let starts = starts.chain(heads.take(PROBED));
    // The originals of ext and btrfs, unlike their copies, are 1 KiB and 64 KiB behind the start of the file system.
    let copies = places::copies(length).into_iter();
    let copies = copies.flat_map(|copy| [0, 1 << 10, 64 << 10].map(|by| copy.saturating_sub(by)));
    let places = starts.filter(|start| !known.contains(start)).chain(copies);
    let near = |place: &u64| {
        let blocks = place / BLOCK..(place + places::WINDOW).div_ceil(BLOCK);
        foreign.range(blocks).next().is_some()
    };
    let places = places.filter(near);
    let mut found: Vec<Reason> = Vec::new();
    for place in places {
        let range = place..length.min(place + places::WINDOW);
        for mut reason in held(device, &block.name, range, length) {
            if let Reason::Signature { signature, .. } = &mut reason {
                if signature.weak() {
                    continue;
                }
                signature.offset += place;
            }
            if !found.contains(&reason) {
                found.push(reason);
            }
        }
        if found.len() >= LISTED {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::content::OwnRecord;
    use crate::refusal::Refusal;
    use crate::request::Intent;
    use iodyno_host::fake::FakeHost;

    #[test]
    fn a_blank_device_that_is_too_slow_to_be_read_needs_destroy_unless_it_has_a_record() {
        let host = FakeHost::new();
        host.disk("sdb", "8:16");
        let file = tempfile::tempfile().unwrap();
        file.set_len(40 << 30).unwrap();
        let medium = Medium::cached(file);
        let sample = |time| {
            let mut more = |_| time;
            Sample::read_while(&medium, 40 << 30, None, None, &mut more).unwrap()
        };
        let slow = sample(false);
        let record = Record::new("sdb", Path::new("/dev/sdb"), None, &OwnRecord::default());
        let found = |sample: &Sample, record| {
            shown(
                &medium,
                &host.block("sdb"),
                sample,
                &BTreeSet::new(),
                record,
            )
        };
        assert_eq!(found(&slow, Some(&record)), []);
        let findings = found(&slow, None);
        let refusal = Refusal {
            path: "/dev/sdb".into(),
            resolved: "/dev/sdb".into(),
            device: None,
            intent: Intent::WRITE,
            findings,
        };
        assert_eq!(
            refusal.to_string(),
            "cannot write to `/dev/sdb`: it may not be blank\n  at: /dev/sdb\n  found: sdb is too slow to be read within 10 s \
             at all places where data can begin (blank: both ends, the usual places of partitions and file systems, and \
             128 of 46182 multiples of 1 MiB and of cylinders)\nhint: to overwrite its content, add `--destroy /dev/sdb`"
        );
        assert!(refusal.findings.iter().all(Reason::gives_way));
        assert_eq!(found(&sample(true), None), []);
    }
}
