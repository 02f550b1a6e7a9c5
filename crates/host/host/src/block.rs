//! Block devices from sysfs: their partitions, their holders and their slaves.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::roots::{Roots, names, text};

/// A device's major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Major number, which identifies the driver.
    pub major: u32,
    /// Minor number, which identifies the device of the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the `st_dev` or `st_rdev` of stat(2).
    pub fn of(dev: u64) -> DeviceNumber {
        DeviceNumber {
            major: rustix::fs::major(dev),
            minor: rustix::fs::minor(dev),
        }
    }

    /// Parses `8:1`.
    pub fn parse(text: &str) -> Option<DeviceNumber> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    /// Whether it is the anonymous number of a file system without its own device (btrfs, tmpfs, overlay,
    /// …).
    pub fn anonymous(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A block device in sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Kernel name: `sda1`, `dm-0`.
    pub name: String,
    /// Its number.
    pub number: DeviceNumber,
    folder: PathBuf,
}

impl Block {
    /// Finds the device with this number.
    pub fn find(roots: &Roots, number: DeviceNumber) -> io::Result<Block> {
        Block::at(&roots.sys.join(format!("dev/block/{number}")))
    }

    /// Finds the device with this kernel name.
    pub fn named(roots: &Roots, name: &str) -> io::Result<Block> {
        Block::at(&roots.sys.join("class/block").join(name))
    }

    /// The device of a folder in sysfs, or of a link to it.
    pub fn at(link: &Path) -> io::Result<Block> {
        let folder = link.canonicalize()?;
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "no block device in sysfs");
        let number = text(folder.join("dev")).ok_or_else(unknown)?;
        let name = folder.file_name().ok_or_else(unknown)?;
        Ok(Block {
            name: name.to_string_lossy().into_owned(),
            number: DeviceNumber::parse(&number).ok_or_else(unknown)?,
            folder,
        })
    }

    /// The text of an attribute such as `queue/scheduler`.
    pub fn attribute(&self, name: &str) -> Option<String> {
        text(self.folder.join(name))
    }

    /// The names in a folder of the device's sysfs directory.
    pub fn attributes(&self, folder: &str) -> Vec<String> {
        names(self.folder.join(folder))
    }

    /// Length in bytes; sysfs always counts in units of 512 bytes.
    pub fn length(&self) -> u64 {
        self.sectors("size").unwrap_or(0)
    }

    /// Offset of a partition on its disk, bytes.
    pub fn start(&self) -> Option<u64> {
        self.sectors("start")
    }

    fn sectors(&self, name: &str) -> Option<u64> {
        self.attribute(name)?.parse::<u64>().ok()?.checked_mul(512)
    }

    /// Whether it is read-only.
    pub fn read_only(&self) -> bool {
        self.attribute("ro").is_some_and(|flag| flag == "1")
    }

    /// The disk of a partition.
    pub fn parent(&self) -> Option<Block> {
        self.attribute("partition")?;
        Block::at(self.folder.parent()?).ok()
    }

    /// The partitions of a disk.
    pub fn partitions(&self) -> Vec<Block> {
        names(&self.folder)
            .iter()
            .filter(|name| self.folder.join(name).join("partition").exists())
            .filter_map(|name| Block::at(&self.folder.join(name)).ok())
            .collect()
    }

    /// Devices stacked on it (dm, md, bcache, …).
    pub fn holders(&self) -> Vec<Block> {
        self.linked("holders")
    }

    /// Devices that it is built on.
    pub fn slaves(&self) -> Vec<Block> {
        self.linked("slaves")
    }

    fn linked(&self, folder: &str) -> Vec<Block> {
        let folder = self.folder.join(folder);
        names(&folder)
            .iter()
            .filter_map(|name| Block::at(&folder.join(name)).ok())
            .collect()
    }

    /// Type and name of a device that is built on others: `device mapper `vg-home``, `md raid1`.
    pub fn describe(&self) -> String {
        if let Some(name) = self.attribute("dm/name") {
            return format!("device mapper `{name}`");
        }
        if let Some(level) = self.attribute("md/level") {
            return format!("md {level}");
        }
        if self.attribute("loop/backing_file").is_some() {
            return "loop device".to_owned();
        }
        "block device".to_owned()
    }
}

/// The number of the block device at a path such as `/dev/mapper/home`: from its node, or from its name in
/// sysfs if the node does not exist (in another namespace, or on a host in a test).
pub fn number_of(roots: &Roots, path: &Path) -> Option<DeviceNumber> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let below = path
        .strip_prefix("/dev")
        .ok()
        .map(|rest| roots.dev.join(rest));
    let path = below.as_deref().unwrap_or(path);
    if let Ok(metadata) = path.metadata()
        && metadata.file_type().is_block_device()
    {
        return Some(DeviceNumber::of(metadata.rdev()));
    }
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real.strip_prefix(&roots.dev).ok()?;
    let name = real.file_name()?.to_str()?;
    Block::named(roots, name).ok().map(|block| block.number)
}
