//! Survey of the host's use of files and devices: mounts, swap, loop devices and pools.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::block::{Block, DeviceNumber, number_of};
use crate::mounts::{self, Mount, path_of};
use crate::roots::{Roots, names, text};

use super::Reason;

/// Identifies a file independently of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    /// `st_dev`
    pub(super) device: u64,
    /// `st_ino`
    pub(super) inode: u64,
}

impl FileId {
    fn of(path: &Path) -> Option<FileId> {
        let metadata = path.metadata().ok()?;
        Some(FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

#[derive(Debug)]
struct UsedMount {
    mount: Mount,
    process: Option<u32>,
    devices: Vec<DeviceNumber>,
}

/// A line of /proc/swaps.
#[derive(Debug)]
struct Swap {
    path: PathBuf,
    device: Option<DeviceNumber>,
    file: Option<FileId>,
}

/// An attached loop device.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) block: Block,
    file: Option<FileId>,
    /// The block device that it is on, if it is not on a file.
    pub(super) device: Option<DeviceNumber>,
}

/// A device of a mounted multi-device file system.
#[derive(Debug)]
struct Member {
    device: DeviceNumber,
    of: String,
}

/// What is in use at one time.
#[derive(Debug)]
pub(super) struct Survey {
    mounts: Vec<UsedMount>,
    swaps: Vec<Swap>,
    loops: Vec<Loop>,
    members: Vec<Member>,
}

impl Survey {
    /// Reads everything needed to check a block device.
    pub(super) fn take(roots: &Roots) -> Survey {
        let mounts = mounts::everywhere(roots)
            .into_iter()
            .map(|seen| UsedMount {
                devices: seen.mount.devices(roots),
                mount: seen.mount,
                process: seen.process,
            })
            .collect();
        Survey {
            mounts,
            members: members(roots),
            ..Survey::of_files(roots)
        }
    }

    /// Reads only what is needed to check a regular file.
    pub(super) fn of_files(roots: &Roots) -> Survey {
        Survey {
            mounts: Vec::new(),
            swaps: swaps(roots),
            loops: loops(roots),
            members: Vec::new(),
        }
    }

    /// Uses of the device itself, without its partitions and the devices stacked on it.
    pub(super) fn direct(&self, block: &Block) -> Vec<Reason> {
        let device = || block.name.clone();
        let mut reasons = Vec::new();
        for used in &self.mounts {
            if used.devices.contains(&block.number) {
                reasons.push(Reason::Mounted {
                    device: device(),
                    point: used.mount.point.clone(),
                    file_system: used.mount.file_system.clone(),
                    process: used.process,
                });
            }
        }
        if self
            .swaps
            .iter()
            .any(|swap| swap.device == Some(block.number))
        {
            reasons.push(Reason::Swap { device: device() });
        }
        for member in &self.members {
            if member.device == block.number {
                reasons.push(Reason::Member {
                    device: device(),
                    of: member.of.clone(),
                });
            }
        }
        reasons
    }

    /// The loop devices backed by a block device.
    pub(super) fn loops_on(&self, device: DeviceNumber) -> impl Iterator<Item = &Loop> {
        self.loops
            .iter()
            .filter(move |other| other.device == Some(device))
    }

    /// The loop device with this number.
    pub(super) fn loop_of(&self, device: DeviceNumber) -> Option<&Loop> {
        self.loops.iter().find(|other| other.block.number == device)
    }

    /// The other loop devices with the same backing file.
    pub(super) fn beside(&self, one: &Loop) -> impl Iterator<Item = &Loop> {
        let (file, number) = (one.file, one.block.number);
        self.loops.iter().filter(move |other| {
            file.is_some() && other.file == file && other.block.number != number
        })
    }

    /// How the host uses a regular file.
    pub(super) fn file(&self, file: FileId) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for swap in &self.swaps {
            if swap.file == Some(file) {
                reasons.push(Reason::SwapFile {
                    path: swap.path.clone(),
                });
            }
        }
        for other in &self.loops {
            if other.file == Some(file) {
                reasons.push(Reason::LoopFile {
                    device: other.block.name.clone(),
                });
            }
        }
        reasons
    }

    /// Other uses of the backing file of a loop device.
    pub(super) fn swap_below(&self, one: &Loop) -> Vec<Reason> {
        let used = |swap: &&Swap| swap.file.is_some() && swap.file == one.file;
        self.swaps
            .iter()
            .filter(used)
            .map(|swap| Reason::SwapFile {
                path: swap.path.clone(),
            })
            .collect()
    }
}

fn swaps(roots: &Roots) -> Vec<Swap> {
    let text = fs::read(roots.proc.join("swaps")).unwrap_or_default();
    text.split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(|line| line.split(|byte| byte.is_ascii_whitespace()).next())
        .filter(|name| !name.is_empty())
        .map(|name| {
            let path = path_of(name);
            let device = number_of(roots, &path);
            Swap {
                file: device.is_none().then(|| FileId::of(&path)).flatten(),
                device,
                path,
            }
        })
        .collect()
}

fn loops(roots: &Roots) -> Vec<Loop> {
    names(roots.sys.join("class/block"))
        .iter()
        .filter(|name| name.starts_with("loop"))
        .filter_map(|name| Block::named(roots, name).ok())
        .filter_map(|block| attached(roots, block))
        .collect()
}

fn attached(roots: &Roots, block: Block) -> Option<Loop> {
    let backing = PathBuf::from(block.attribute("loop/backing_file")?);
    // The inode is more reliable than the name, which may be from another namespace, but reading it needs
    // permission to open the device.
    let exact = File::open(roots.dev.join(&block.name))
        .ok()
        .and_then(|device| iodyno_sys::host::loop_file(device.as_fd()).ok());
    if let Some(exact) = exact {
        let file = FileId {
            device: exact.device,
            inode: exact.inode,
        };
        return Some(Loop {
            device: (exact.rdevice != 0).then(|| DeviceNumber::of(exact.rdevice)),
            file: (exact.rdevice == 0).then_some(file),
            block,
        });
    }
    let device = number_of(roots, &backing);
    Some(Loop {
        file: device.is_none().then(|| FileId::of(&backing)).flatten(),
        device,
        block,
    })
}

/// The devices of mounted btrfs and bcachefs file systems: the mount table names only one of them.
fn members(roots: &Roots) -> Vec<Member> {
    let mut members = Vec::new();
    let btrfs = roots.sys.join("fs/btrfs");
    for uuid in names(&btrfs) {
        let label = text(btrfs.join(&uuid).join("label")).filter(|label| !label.is_empty());
        for name in names(btrfs.join(&uuid).join("devices")) {
            if let Ok(block) = Block::named(roots, &name) {
                members.push(Member {
                    device: block.number,
                    of: format!("btrfs `{}`", label.as_deref().unwrap_or(&uuid)),
                });
            }
        }
    }
    let bcachefs = roots.sys.join("fs/bcachefs");
    for uuid in names(&bcachefs) {
        for name in names(bcachefs.join(&uuid)) {
            let link = bcachefs.join(&uuid).join(&name).join("block/dev");
            let number = name
                .starts_with("dev-")
                .then(|| DeviceNumber::parse(&text(link)?))
                .flatten();
            members.extend(number.map(|device| Member {
                device,
                of: format!("bcachefs `{uuid}`"),
            }));
        }
    }
    members
}

/// Other processes that have one of these devices open for writing. Without privilege, only processes of
/// the same user are found.
pub(super) fn writers(roots: &Roots, devices: &BTreeSet<DeviceNumber>) -> Vec<Reason> {
    let own = std::process::id().to_string();
    let mut reasons = Vec::new();
    for process in names(&roots.proc) {
        if process.parse::<u32>().is_err() || process == own {
            continue;
        }
        let folder = roots.proc.join(&process);
        let device = names(folder.join("fd")).into_iter().find_map(|descriptor| {
            let metadata = folder.join("fd").join(&descriptor).metadata().ok()?;
            let number = DeviceNumber::of(metadata.rdev());
            let meant = metadata.file_type().is_block_device() && devices.contains(&number);
            (meant && writable(&folder.join("fdinfo").join(descriptor))).then_some(number)
        });
        if let Some(device) = device {
            reasons.push(Reason::OpenedBy {
                device: Block::find(roots, device).map_or(device.to_string(), |block| block.name),
                process: process.parse().unwrap_or(0),
                command: text(folder.join("comm")).unwrap_or_default(),
            });
        }
    }
    reasons
}

/// Whether the octal `flags:` line of fdinfo contains O_WRONLY (1) or O_RDWR (2).
fn writable(fdinfo: &Path) -> bool {
    let text = text(fdinfo).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.strip_prefix("flags:"))
        .filter_map(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .any(|flags| flags & 0o3 != 0)
}
