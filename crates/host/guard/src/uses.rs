//! Users of the bytes of a block device: of the device, its partitions, its disk, the devices stacked on
//! it, and the devices and files below it with the other devices on these.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use iodyno_host::Roots;
use iodyno_host::block::{Block, DeviceNumber};
use iodyno_model::ordered;
use rustix::fs::OFlags;

use crate::open::{Pinned, PinnedKind};
use crate::own_writes::Claim;
use crate::refusal::Reason;
use crate::survey::Survey;

/// How long, and at which interval, to check again for a user that may be temporary; sufficient on a busy host.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// The reasons of `look`, once those are gone that may end by themselves in a moment.
pub(crate) fn patiently(look: impl Fn() -> Vec<Reason>) -> Vec<Reason> {
    let begun = Instant::now();
    loop {
        let reasons = look();
        let pass = !reasons.is_empty() && reasons.iter().all(Reason::may_pass);
        if !pass || begun.elapsed() >= PATIENCE {
            return reasons;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Opens a device exclusively. Waits for others that hold it only briefly, such as a volume scanner or a
/// child process before its exec.
pub(crate) fn exclusive(pinned: &Pinned) -> io::Result<OwnedFd> {
    let begun = Instant::now();
    loop {
        match pinned.open(OFlags::RDONLY | OFlags::EXCL) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && begun.elapsed() < PATIENCE =>
            {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}

/// Whether a user has exclusive access to a device, such as a mount that is not visible.
fn is_claimed(roots: &Roots, block: &Block) -> bool {
    let node = Pinned::path(&roots.dev.join(&block.name));
    let node = node
        .ok()
        .filter(|node| matches!(node.kind, PinnedKind::Block(number) if number == block.number));
    let open = |node: Pinned| node.open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::EXCL);
    let opened = node.map(open);
    opened.is_some_and(|it| it.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy))
}

/// Every use of a device's bytes that forbids writing to it, without signatures.
pub(crate) fn of(roots: &Roots, survey: &Survey, block: &Block) -> Vec<Reason> {
    let mut walk = Walk {
        roots,
        survey,
        seen: BTreeSet::from([block.number]),
        reasons: Vec::new(),
    };
    walk.reasons.extend(survey.direct(block));
    walk.above(block);
    for part in block.partitions() {
        walk.whole(&part);
    }
    let disk = block.parent();
    if let Some(disk) = &disk {
        // The disk itself, without those of its other partitions that do not overlap.
        walk.seen.insert(disk.number);
        walk.reasons.extend(survey.direct(disk));
        walk.above(disk);
        let others = disk.partitions().into_iter();
        others
            .filter(|other| overlap(block, other))
            .for_each(|other| walk.whole(&other));
    }
    walk.below(disk.as_ref().unwrap_or(block));
    let writers = survey.writers(roots, &walk.seen);
    walk.reasons.extend(writers);
    ordered::distinct(walk.reasons)
}

/// Whether two partitions of a disk have blocks in common: one of a BSD or Sun label can be the whole disk.
fn overlap(one: &Block, other: &Block) -> bool {
    let begin = one.start().max(other.start());
    let end = |of: &Block| Some(of.start()?.saturating_add(of.length()));
    begin < end(one).min(end(other))
}

struct Walk<'a> {
    roots: &'a Roots,
    survey: &'a Survey,
    seen: BTreeSet<DeviceNumber>,
    reasons: Vec<Reason>,
}

impl Walk<'_> {
    /// A device with its partitions and all devices stacked on them.
    fn whole(&mut self, block: &Block) {
        if !self.seen.insert(block.number) {
            return;
        }
        self.reasons.extend(self.survey.direct(block));
        self.above(block);
        for part in block.partitions() {
            self.whole(&part);
        }
    }

    /// As [`Self::whole`], for a device with the same bytes as the target: also a user who only has exclusive access,
    /// which includes access to a partition.
    fn beside(&mut self, block: &Block) {
        let known = self.reasons.len();
        self.whole(block);
        let unknown = self.reasons.len() == known && !Claim::is_own(block.number);
        if unknown && is_claimed(self.roots, block) {
            self.reasons.push(Reason::Claimed {
                device: block.name.clone(),
            });
        }
    }

    /// The devices stacked on a device.
    fn above(&mut self, block: &Block) {
        for holder in block.holders() {
            if self.seen.contains(&holder.number) {
                continue;
            }
            self.reasons.push(Reason::Held {
                device: block.name.clone(),
                holder: holder.name.clone(),
                what: holder.describe(),
            });
            self.whole(&holder);
        }
        let survey = self.survey;
        for other in survey.loops_on(block.number) {
            if self.seen.contains(&other.block.number) {
                continue;
            }
            self.reasons.push(Reason::Held {
                device: block.name.clone(),
                holder: other.block.name.clone(),
                what: "loop device".to_owned(),
            });
            self.whole(&other.block);
        }
    }

    /// The devices that a device is built on.
    fn below(&mut self, block: &Block) {
        for slave in block.slaves() {
            if self.seen.insert(slave.number) {
                // Other mappings may use the same slave, but other bytes of it.
                self.only(&slave);
                let disk = slave.parent();
                self.seen.extend(disk.as_ref().map(|disk| disk.number));
                self.below(disk.as_ref().unwrap_or(&slave));
            }
        }
        let survey = self.survey;
        let Some(file) = survey.loop_of(block.number) else {
            return;
        };
        self.reasons.extend(survey.uses_below(self.roots, file));
        for twin in survey.beside(file) {
            // A second loop device on the file is allowed if it is not in use.
            self.beside(&twin.block);
        }
        if let Some(number) = file.device
            && let Ok(lower) = Block::find(self.roots, number)
            && !self.seen.contains(&number)
        {
            // The loop driver does not claim its backing device: check everything there.
            let disk = lower.parent();
            self.beside(&lower);
            if let Some(disk) = &disk
                && self.seen.insert(disk.number)
            {
                self.reasons.extend(survey.direct(disk));
                self.above(disk);
            }
            self.below(disk.as_ref().unwrap_or(&lower));
        }
    }

    /// A device and its partitions, without the devices stacked on them.
    fn only(&mut self, block: &Block) {
        self.reasons.extend(self.survey.direct(block));
        for part in block.partitions() {
            if self.seen.insert(part.number) {
                self.reasons.extend(self.survey.direct(&part));
            }
        }
    }
}

#[cfg(test)]
#[path = "uses_tests.rs"]
mod tests;
