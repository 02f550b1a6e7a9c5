//! Whether two files or devices have storage in common.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use iodyno_host::Roots;
use iodyno_host::block::{Block, DeviceNumber};
use rustix::fs::{FileType, fstat};

use crate::open::FileId;
use crate::survey::attached;

/// Whether both are on a common file or device, so that a write to one may change the other. The partitions of a disk
/// have nothing in common; devices on the same file or device do, also if they use different parts of it. A file is not
/// taken apart.
pub fn share_storage(one: impl AsFd, other: impl AsFd, roots: &Roots) -> bool {
    let below = |file: &dyn AsFd| {
        let mut storage = Storage::default();
        if let Ok(found) = fstat(file.as_fd()) {
            match FileType::from_raw_mode(found.st_mode) {
                FileType::BlockDevice => storage.device(DeviceNumber::of(found.st_rdev), roots),
                _ => storage.file(FileId {
                    device: found.st_dev,
                    inode: found.st_ino,
                }),
            }
        }
        storage
    };
    let (one, other) = (below(&one), below(&other));
    one.meets(&other)
}

/// What is below a file or device.
#[derive(Debug, Default)]
struct Storage {
    /// It uses these, perhaps in part.
    files: BTreeSet<(u64, u64)>,
    devices: BTreeSet<DeviceNumber>,
    /// The disks whose partitions it uses, each with what is below it.
    disks: BTreeMap<DeviceNumber, Storage>,
}

impl Storage {
    fn file(&mut self, file: FileId) {
        self.files.insert((file.device, file.inode));
    }

    fn device(&mut self, number: DeviceNumber, roots: &Roots) {
        if !self.devices.insert(number) {
            return;
        }
        let Ok(block) = Block::find(roots, number) else {
            return;
        };
        if let Some(disk) = block.parent() {
            let below = self.disks.entry(disk.number).or_default();
            return below.device(disk.number, roots);
        }
        for slave in block.slaves() {
            self.device(slave.number, roots);
        }
        if let Some(below) = attached(roots, block) {
            below.file.into_iter().for_each(|file| self.file(file));
            if let Some(device) = below.device {
                self.device(device, roots);
            }
        }
    }

    /// Whether both use the same, or one uses the disk of a partition of the other. Partitions of different disks use
    /// the same if these do.
    fn meets(&self, other: &Storage) -> bool {
        let disks = |(disk, below): (&DeviceNumber, &Storage)| {
            let mut others = other.disks.iter();
            others.any(|(another, beside)| disk != another && below.meets(beside))
        };
        !self.files.is_disjoint(&other.files)
            || !self.devices.is_disjoint(&other.devices)
            || self.disks.values().any(|below| below.is_below(other))
            || other.disks.values().any(|below| below.is_below(self))
            || self.disks.iter().any(disks)
    }

    /// Whether the other one uses the same, or a disk whose partitions this one uses.
    fn is_below(&self, other: &Storage) -> bool {
        !self.files.is_disjoint(&other.files)
            || !self.devices.is_disjoint(&other.devices)
            || self.disks.values().any(|below| below.is_below(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_host::fake::FakeHost;

    #[test]
    fn what_is_built_on_the_same_device_or_file_has_storage_in_common() {
        let host = FakeHost::new();
        let file = host.path("f");
        std::fs::write(&file, "").unwrap();
        host.disk("sda", "8:0")
            .partition("sda", "sda1", "8:1")
            .partition("sda", "sda2", "8:2")
            .disk("sdb", "8:16")
            .mapped("dm-0", "253:0", &[("dm/name", "one")], &["sda1"])
            .mapped("dm-1", "253:1", &[("dm/name", "two")], &["sda2", "sdb"])
            .mapped("dm-2", "253:2", &[("dm/name", "three")], &["dm-0"])
            .loop_device("loop0", "7:0", &file)
            .loop_device("loop1", "7:1", &file)
            .partition("loop0", "loop0p1", "259:0")
            .partition("loop0", "loop0p2", "259:1")
            .partition("loop1", "loop1p1", "259:2");
        let below = |name: &str| {
            let mut storage = Storage::default();
            match name {
                "f" => storage.file(FileId::of(&file).unwrap()),
                _ => storage.device(host.block(name).number, &host.roots),
            }
            storage
        };
        let names = [
            "sda", "sda1", "sda2", "sdb", "dm-0", "dm-1", "dm-2", "loop0", "loop1", "loop0p1",
            "loop0p2", "loop1p1", "f",
        ];
        let common = [
            "sda sda1",
            "sda sda2",
            "sda dm-0",
            "sda dm-1",
            "sda dm-2",
            "sda1 dm-0",
            "sda1 dm-2",
            "sda2 dm-1",
            "sdb dm-1",
            "dm-0 dm-2",
            "loop0 loop1",
            "loop0 loop0p1",
            "loop0 loop0p2",
            "loop0 loop1p1",
            "loop0 f",
            "loop1 loop0p1",
            "loop1 loop0p2",
            "loop1 loop1p1",
            "loop1 f",
            "loop0p1 loop1p1",
            "loop0p1 f",
            "loop0p2 loop1p1",
            "loop0p2 f",
            "loop1p1 f",
        ];
        for (at, one) in names.iter().enumerate() {
            for other in &names[at + 1..] {
                let (a, b) = (below(one), below(other));
                let pair = format!("{one} {other}");
                let expected = common.contains(&pair.as_str());
                assert_eq!((a.meets(&b), b.meets(&a)), (expected, expected), "{pair}");
            }
        }
    }
}
