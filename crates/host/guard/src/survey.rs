//! Survey of the host's use of files and devices: mounts, swap, loop devices, pools, and the files of processes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use iodyno_host::block::{Block, DeviceNumber, number_of};
use iodyno_host::locks::{self, Lock, command};
use iodyno_host::mounts::{self, Mount, path_of};
use iodyno_host::{Owner, Roots, names, text};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, makedev};

use crate::open::FileId;
use crate::overlays::{Overlay, upper_folder};
use crate::refusal::{Hold, Reason};

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
pub(crate) struct Loop {
    pub(crate) block: Block,
    pub(crate) file: Option<FileId>,
    /// The block device that it is on, if it is not on a file.
    pub(crate) device: Option<DeviceNumber>,
}

/// A device of a mounted multi-device file system.
#[derive(Debug)]
struct Member {
    device: DeviceNumber,
    of: String,
}

/// What is in use at one time.
#[derive(Debug)]
pub(crate) struct Survey {
    mounts: Vec<UsedMount>,
    overlays: Vec<Overlay>,
    swaps: Vec<Swap>,
    loops: Vec<Loop>,
    members: Vec<Member>,
    opened: Vec<Opened>,
    locks: Vec<Lock>,
    family: Family,
}

impl Survey {
    pub(crate) fn take(roots: &Roots) -> Survey {
        let mounts: Vec<UsedMount> = mounts::everywhere(roots)
            .into_iter()
            .map(|seen| UsedMount {
                devices: seen.mount.devices(roots),
                mount: seen.mount,
                process: seen.process,
            })
            .collect();
        Survey {
            overlays: mounts
                .iter()
                .filter_map(|used| Overlay::of(roots, &used.mount, used.process))
                .collect(),
            mounts,
            swaps: swaps(roots),
            loops: loops(roots),
            members: members(roots),
            opened: opened(roots),
            locks: locks::held(roots),
            family: Family::of(roots),
        }
    }

    /// Uses of the device itself, without its partitions and the devices stacked on it.
    pub(crate) fn direct(&self, block: &Block) -> Vec<Reason> {
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
    pub(crate) fn loops_on(&self, device: DeviceNumber) -> impl Iterator<Item = &Loop> {
        self.loops
            .iter()
            .filter(move |other| other.device == Some(device))
    }

    /// The loop device with this number.
    pub(crate) fn loop_of(&self, device: DeviceNumber) -> Option<&Loop> {
        self.loops.iter().find(|other| other.block.number == device)
    }

    /// The other loop devices with the same backing file.
    pub(crate) fn beside(&self, one: &Loop) -> impl Iterator<Item = &Loop> {
        let (file, number) = (one.file, one.block.number);
        self.loops.iter().filter(move |other| {
            file.is_some() && other.file == file && other.block.number != number
        })
    }

    /// A file by all its identities: in the mount of an overlay, it is also one in the overlay's upper folder, and a
    /// file in a folder of an overlay is also one in the mount.
    pub(crate) fn identities(&self, file: FileId, path: &Path) -> Vec<FileId> {
        let shown = self.overlays.iter().filter_map(|it| it.shown(path));
        let below = self.below_overlay(path);
        std::iter::once(file).chain(below).chain(shown).collect()
    }

    /// How the host uses a regular file.
    pub(crate) fn file(&self, identities: &[FileId]) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for swap in &self.swaps {
            if swap.file.is_some_and(|file| identities.contains(&file)) {
                reasons.push(Reason::SwapFile {
                    path: swap.path.clone(),
                });
            }
        }
        for other in &self.loops {
            if other.file.is_some_and(|file| identities.contains(&file)) {
                reasons.push(Reason::LoopFile {
                    device: other.block.name.clone(),
                });
            }
        }
        reasons
    }

    /// The overlay that has this file in its upper folder.
    pub(crate) fn in_upper(&self, path: &Path) -> Option<Reason> {
        let folders = path.ancestors().skip(1);
        let folders: Vec<FileId> = match self.overlays.is_empty() {
            true => Vec::new(),
            false => folders.filter_map(FileId::of).collect(),
        };
        let mut overlays = self.overlays.iter();
        let overlay = overlays.find(|it| it.has_above(&folders, path))?;
        Some(Reason::Upper {
            point: overlay.point.clone(),
        })
    }

    /// The file in the upper folder of an overlay in this namespace that a path in its mount leads to.
    fn below_overlay(&self, path: &Path) -> Option<FileId> {
        let own = self.mounts.iter().filter(|used| used.process.is_none());
        let above = own.filter(|used| path.starts_with(&used.mount.point));
        // Of several mounts on one point, the last hides the others; max_by_key returns the last.
        let mount = &above
            .max_by_key(|used| used.mount.point.as_os_str().len())?
            .mount;
        let below = mount.root.join(path.strip_prefix(&mount.point).ok()?);
        FileId::of(&upper_folder(mount)?.join(below.strip_prefix("/").ok()?))
    }

    /// The processes that have a regular file open for writing, mapped or locked. Not counted: the ancestors of this
    /// process, and other processes of this program unless they locked it. With `own_locks`, their locks do not count
    /// either.
    pub(crate) fn processes_of(
        &self,
        roots: &Roots,
        identities: &[FileId],
        path: &Path,
        own_locks: bool,
    ) -> Vec<Reason> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let counts = |process: u32, hold: Hold| {
            let lock = hold == Hold::Locked;
            let own = || self.family.is_program(roots, process) && (!lock || own_locks);
            (lock || !self.family.ancestors.contains(&process)) && !own()
        };
        let mut reasons: Vec<Reason> = Vec::new();
        let opened = self
            .opened
            .iter()
            .filter(|one| identities.contains(&one.file));
        for one in opened.filter(|one| counts(one.process, one.hold)) {
            reasons.push(one.reason(roots, name.clone().into_owned()));
        }
        let on = |lock: &&Lock| {
            let mut files = identities.iter();
            files.any(|file| lock.is_on(file.device, file.inode))
        };
        for lock in self.locks.iter().filter(on) {
            let own = lock.process == std::process::id();
            if !own && counts(lock.process, Hold::Locked) {
                reasons.push(Reason::OpenedBy {
                    device: name.clone().into_owned(),
                    process: Some(lock.process),
                    command: command(roots, lock.process),
                    hold: Hold::Locked,
                });
            }
        }
        reasons
    }

    /// Whether a lock on a file is listed, of any process.
    pub(crate) fn is_locked(&self, file: FileId) -> bool {
        self.locks
            .iter()
            .any(|lock| lock.is_on(file.device, file.inode))
    }

    /// Other processes that have one of these devices open for writing, mapped or locked.
    pub(crate) fn writers(&self, roots: &Roots, devices: &BTreeSet<DeviceNumber>) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = Vec::new();
        let mut last = None;
        for one in &self.opened {
            let Some(device) = one.device.filter(|device| devices.contains(device)) else {
                continue;
            };
            if last != Some(one.process) {
                last = Some(one.process);
                let name =
                    Block::find(roots, device).map_or(device.to_string(), |block| block.name);
                reasons.push(one.reason(roots, name));
            }
        }
        reasons
    }

    /// The processes that have the file of a loop device open for writing, mapped or locked.
    pub(crate) fn writers_below(&self, roots: &Roots, one: &Loop) -> Vec<Reason> {
        let path = one.block.attribute("loop/backing_file").map(PathBuf::from);
        let (Some(file), Some(path)) = (one.file, path) else {
            return Vec::new();
        };
        self.processes_of(roots, &self.identities(file, &path), &path, false)
    }

    /// Other uses of the backing file of a loop device.
    pub(crate) fn swap_below(&self, one: &Loop) -> Vec<Reason> {
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

pub(crate) fn attached(roots: &Roots, block: Block) -> Option<Loop> {
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

/// A file or device that another process holds.
#[derive(Debug)]
struct Opened {
    process: u32,
    file: FileId,
    device: Option<DeviceNumber>,
    hold: Hold,
}

impl Opened {
    fn new(process: u32, link: &Path, hold: Hold) -> Option<Opened> {
        // The server of a network file system is not asked: it may be stuck.
        let flags = AtFlags::STATX_DONT_SYNC;
        let state = rustix::fs::statx(CWD, link, flags, StatxFlags::BASIC_STATS).ok()?;
        let kind = FileType::from_raw_mode(u32::from(state.stx_mode));
        let device = DeviceNumber {
            major: state.stx_rdev_major,
            minor: state.stx_rdev_minor,
        };
        let is_device = kind == FileType::BlockDevice;
        (is_device || kind == FileType::RegularFile).then(|| Opened {
            process,
            file: FileId {
                device: makedev(state.stx_dev_major, state.stx_dev_minor),
                inode: state.stx_ino,
            },
            device: is_device.then_some(device),
            hold,
        })
    }

    fn reason(&self, roots: &Roots, name: String) -> Reason {
        Reason::OpenedBy {
            device: name,
            process: Some(self.process),
            command: command(roots, self.process),
            hold: self.hold,
        }
    }
}

/// The files and devices of all other processes. Without privilege, only those of the same user are found.
fn opened(roots: &Roots) -> Vec<Opened> {
    let mut opened = Vec::new();
    for process in processes(roots) {
        let tables = tables(roots, process);
        for folder in &tables {
            for descriptor in names(folder.join("fdinfo")) {
                let about = text(folder.join("fdinfo").join(&descriptor)).unwrap_or_default();
                if let Some(hold) = hold(&about) {
                    let link = folder.join("fd").join(descriptor);
                    opened.extend(Opened::new(process, &link, hold));
                }
                let files = registered(&about).map(|path| below(folder, &path));
                opened.extend(files.filter_map(|path| Opened::new(process, &path, Hold::Ring)));
            }
        }
        // Threads share their mappings.
        let maps = |folder: &PathBuf| Some((folder.clone(), fs::read(folder.join("maps")).ok()?));
        let mut maps = tables
            .iter()
            .filter_map(maps)
            .filter(|(_, maps)| !maps.is_empty());
        if let Some((folder, maps)) = maps.next() {
            for line in maps.split(|byte| *byte == b'\n') {
                opened.extend(mapped(&folder, process, &String::from_utf8_lossy(line)));
            }
        }
    }
    opened
}

/// All processes except this one.
fn processes(roots: &Roots) -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let all = names(&roots.proc).into_iter();
    all.filter_map(|name| name.parse().ok())
        .filter(move |process| *process != own)
}

/// The folders in procfs of a process and of those of its threads that have descriptors of their own. If the first
/// thread has ended, all others have those of the process.
fn tables(roots: &Roots, process: u32) -> Vec<PathBuf> {
    let folder = roots.proc.join(process.to_string());
    let tasks = folder.join("task");
    let threads = names(&tasks)
        .into_iter()
        .filter_map(|name| name.parse().ok());
    let mut threads: Vec<u32> = threads.filter(|thread| *thread != process).collect();
    let ended = !threads.is_empty() && Owner::of(roots, process).is_none();
    let shared = |thread| iodyno_sys::host::shares_descriptors(process, thread);
    threads.retain(|thread| ended || shared(*thread) == Some(false));
    let threads = threads
        .into_iter()
        .map(|thread| tasks.join(thread.to_string()));
    std::iter::once(folder).chain(threads).collect()
}

/// A path as a process sees it.
fn below(folder: &Path, path: &Path) -> PathBuf {
    folder
        .join("root")
        .join(path.strip_prefix("/").unwrap_or(path))
}

/// The files that are registered with a ring of io_uring, from its `/proc/PID/fdinfo/N`. How they are open is not
/// known.
fn registered(fdinfo: &str) -> impl Iterator<Item = PathBuf> {
    let lines = fdinfo
        .lines()
        .skip_while(|line| !line.starts_with("UserFiles:"));
    let files = lines.skip(1).take_while(|line| line.starts_with(' '));
    files.filter_map(|line| Some(path_of(line.split_once(": ")?.1.as_bytes())))
}

/// What a line of `/proc/PID/maps` maps, if that is shared and writable.
fn mapped(folder: &Path, process: u32, line: &str) -> Option<Opened> {
    // Range, permissions, offset, device, inode, path.
    let mut fields = line.split_ascii_whitespace();
    let (range, permissions) = (fields.next()?, fields.next()?);
    if !(permissions.contains('w') && permissions.ends_with('s')) {
        return None;
    }
    let exact = Opened::new(process, &folder.join("map_files").join(range), Hold::Mapped);
    let path = || {
        let path = Path::new(line.split_once('/')?.1);
        Opened::new(process, &below(folder, path), Hold::Mapped)
    };
    exact.or_else(path)
}

/// This program in other processes, and the processes that started this one: they may have a file open on which
/// iodyno works.
#[derive(Debug, Default)]
struct Family {
    program: Option<FileId>,
    ancestors: BTreeSet<u32>,
}

impl Family {
    fn of(roots: &Roots) -> Family {
        let mut ancestors = BTreeSet::new();
        let mut process = std::process::id();
        while let Some(parent) = parent(roots, process).filter(|parent| *parent > 1) {
            if !ancestors.insert(parent) {
                break;
            }
            process = parent;
        }
        Family {
            program: FileId::of(&roots.proc.join("self/exe")),
            ancestors,
        }
    }

    fn is_program(&self, roots: &Roots, process: u32) -> bool {
        let program = roots.proc.join(process.to_string()).join("exe");
        self.program.is_some() && FileId::of(&program) == self.program
    }
}

fn parent(roots: &Roots, process: u32) -> Option<u32> {
    let stat = text(roots.proc.join(process.to_string()).join("stat"))?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// How a descriptor is held against others, from its `/proc/PID/fdinfo/N`: it is locked, or the octal flags contain
/// O_WRONLY (1) or O_RDWR (2). `None`: it is only read.
fn hold(fdinfo: &str) -> Option<Hold> {
    if fdinfo.lines().any(|line| line.starts_with("lock:")) {
        return Some(Hold::Locked);
    }
    let flags = fdinfo
        .lines()
        .filter_map(|line| line.strip_prefix("flags:"));
    let mut flags = flags.filter_map(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.any(|flags| flags & 0o3 != 0).then_some(Hold::Open)
}
