//! Survey of the host's use of files and devices: mounts, swap, loop devices, pools, and the files of processes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use iodyno_host::block::{Block, DeviceNumber, number_of};
use iodyno_host::locks::{self, Lock, command};
use iodyno_host::mounts::{self, Mount, SeenMount, path_of};
use iodyno_host::{Roots, names, text};

use crate::open::{FileId, Pinned};
use crate::overlays::{Overlay, folder_below, is_same, state};
use crate::paths::mount_id;
use crate::processes::{Opened, OwnProcesses, below, opened, own, serves};
use crate::refusal::{Hold, Reason};

#[derive(Debug)]
struct UsedMount {
    mount: Mount,
    process: Option<u32>,
    devices: Vec<DeviceNumber>,
    /// The regular file that is mounted without a loop device (EROFS).
    image: Option<FileId>,
}

impl UsedMount {
    fn new(roots: &Roots, seen: SeenMount) -> UsedMount {
        let SeenMount { mount, process } = seen;
        let source = Path::new(&mount.source);
        let source = process.map_or_else(
            || source.to_owned(),
            |process| below(&roots.proc.join(process.to_string()), source),
        );
        let image = mount.number.anonymous() && mount.source.starts_with('/') && source.is_file();
        UsedMount {
            devices: mount.devices(roots),
            image: image.then(|| FileId::of(&source)).flatten(),
            mount,
            process,
        }
    }

    fn reason(&self, device: String) -> Reason {
        Reason::Mounted {
            device,
            point: self.mount.point.clone(),
            file_system: self.mount.file_system.clone(),
            process: self.process,
        }
    }
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
    /// Its path, perhaps in another mount namespace.
    path: PathBuf,
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
    /// Those of other processes.
    opened: Vec<Opened>,
    /// Those of this process, which may have inherited them.
    own: Vec<Opened>,
    locks: Vec<Lock>,
    own_processes: OwnProcesses,
}

impl Survey {
    pub(crate) fn take(roots: &Roots) -> Survey {
        let mounts: Vec<UsedMount> = mounts::everywhere(roots)
            .into_iter()
            .map(|seen| UsedMount::new(roots, seen))
            .collect();
        let (own, opened) = opened(roots);
        Survey {
            overlays: mounts
                .iter()
                .filter_map(|used| Overlay::of(roots, &used.mount, used.process))
                .collect(),
            mounts,
            swaps: swaps(roots),
            loops: loops(roots),
            members: members(roots),
            opened,
            own,
            locks: locks::held(roots),
            own_processes: OwnProcesses::of(roots),
        }
    }

    /// Uses of the device itself, without its partitions and the devices stacked on it.
    pub(crate) fn direct(&self, block: &Block) -> Vec<Reason> {
        let device = || block.name.clone();
        let mut reasons = Vec::new();
        for used in &self.mounts {
            if used.devices.contains(&block.number) {
                reasons.push(used.reason(device()));
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
        let (identities, number) = (self.identities_of(one), one.block.number);
        self.loops.iter().filter(move |other| {
            let theirs = || self.identities_of(other);
            let common = || theirs().iter().any(|file| identities.contains(file));
            other.block.number != number && common()
        })
    }

    /// The identities of the file of a loop device.
    fn identities_of(&self, one: &Loop) -> Vec<FileId> {
        one.file
            .map_or_else(Vec::new, |file| self.identities(file, &one.path))
    }

    /// A file by all its identities, its own first: in the mount of an overlay, it is also one in the overlay's upper
    /// folder, and a file in a folder of an overlay is also one in the mount. A file in a mount of `iodyno serve fs` is
    /// also one in the folder below.
    pub(crate) fn identities(&self, file: FileId, path: &Path) -> Vec<FileId> {
        let mut known = vec![file];
        let mut at = path.to_owned();
        while known.len() < DEEPEST {
            match self.below(&at) {
                Below::Nothing => break,
                Below::Unknown => {
                    known.extend(self.alike(&at));
                    break;
                }
                Below::File(below) => {
                    let Some(file) = FileId::of(&below).filter(|file| !known.contains(file)) else {
                        break;
                    };
                    known.push(file);
                    at = below;
                }
            }
        }
        for name in self.names(path) {
            known.extend(self.overlays.iter().filter_map(|it| it.shown(&name)));
        }
        known
    }

    /// How the host uses a regular file.
    pub(crate) fn file(&self, identities: &[FileId], path: &Path) -> Vec<Reason> {
        let mut reasons = self.whole_file(identities, path);
        let is_on = |it: &&Loop| it.file.is_some_and(|file| identities.contains(&file));
        let loops = self.loops.iter().filter(is_on);
        reasons.extend(loops.map(|other| Reason::LoopFile {
            device: other.block.name.clone(),
        }));
        reasons
    }

    /// How the host uses a regular file, without the loop devices on it.
    fn whole_file(&self, identities: &[FileId], path: &Path) -> Vec<Reason> {
        let name = || path.file_name().unwrap_or_default().to_string_lossy();
        let is_of = |it: &&UsedMount| it.image.is_some_and(|image| identities.contains(&image));
        let mounts = self.mounts.iter().filter(is_of);
        let mut reasons: Vec<Reason> = mounts.map(|it| it.reason(name().into_owned())).collect();
        for swap in &self.swaps {
            if swap.file.is_some_and(|file| identities.contains(&file)) {
                reasons.push(Reason::SwapFile {
                    path: swap.path.clone(),
                });
            }
        }
        reasons
    }

    /// The overlay that has this file in its upper folder. The file may not exist yet.
    pub(crate) fn in_upper(&self, path: &Path) -> Option<Reason> {
        let overlay = self.names(path).into_iter().find_map(|name| {
            let folders: Vec<FileId> = name.ancestors().skip(1).filter_map(FileId::of).collect();
            let mut overlays = self.overlays.iter();
            overlays.find(|it| it.has_upper(&folders))
        })?;
        Some(Reason::Upper {
            point: overlay.point.clone(),
        })
    }

    /// The reason against a file or folder in another mount namespace. `None` for a host that is only described.
    pub(crate) fn elsewhere(&self, roots: &Roots, pinned: &Pinned) -> Option<Reason> {
        let id = mount_id(pinned).filter(|_| *roots == Roots::host())?;
        let mut own = self.own_mounts().peekable();
        // A process in a chroot does not see the mount that has its root.
        let root = || {
            let root = Pinned::path(Path::new("/")).ok();
            root.and_then(|root| mount_id(&root))
        };
        let other = own.peek().is_some() && own.all(|mount| mount.id != id) && root() != Some(id);
        other.then_some(Reason::OtherNamespace)
    }

    fn own_mounts(&self) -> impl Iterator<Item = &Mount> {
        let own = self.mounts.iter().filter(|used| used.process.is_none());
        own.map(|used| &used.mount)
    }

    /// The mount in this namespace that a path leads to, and the path within its file system.
    fn within(&self, path: &Path) -> Option<(&Mount, PathBuf)> {
        let above = || {
            self.own_mounts()
                .filter(|mount| path.starts_with(&mount.point))
        };
        // Another mount may hide the one with the longest point. Of several on one point, max_by_key returns the last.
        let found = state(path).or_else(|| state(path.parent()?));
        let id = found.map(|found| found.stx_mnt_id);
        let longest = || above().max_by_key(|mount| mount.point.as_os_str().len());
        let mount = above()
            .find(|mount| Some(mount.id) == id)
            .or_else(longest)?;
        Some((
            mount,
            joined(&mount.root, path.strip_prefix(&mount.point).ok()?),
        ))
    }

    /// The file that a mount shows at this path.
    fn below(&self, path: &Path) -> Below {
        let Some((mount, within)) = self.within(path) else {
            return Below::Nothing;
        };
        let within = within.strip_prefix("/").unwrap_or(&within);
        match folder_below(mount).filter(|folder| folder.is_dir()) {
            Some(folder) => Below::File(joined(&folder, within)),
            None if mount.file_system == "overlay" => Below::Unknown,
            None => Below::Nothing,
        }
    }

    /// Files in use that can be the one which an overlay shows at this path.
    fn alike(&self, path: &Path) -> Vec<FileId> {
        let Some(shown) = state(path) else {
            return Vec::new();
        };
        let named = |file: Option<FileId>, path: &Path| {
            let found = state(path).filter(|state| is_same(state, &shown))?;
            file.filter(|file| *file == FileId::from(&found))
        };
        let backing = |one: &Loop| named(one.file, &one.path);
        let swaps = self
            .swaps
            .iter()
            .filter_map(|one| named(one.file, &one.path));
        let opened = self.opened.iter().filter(|one| is_same(&one.state, &shown));
        let opened = opened.map(|one| one.file);
        self.loops
            .iter()
            .filter_map(backing)
            .chain(swaps)
            .chain(opened)
            .collect()
    }

    /// A path, and if there are overlays, the other paths in this namespace that lead to the same file: by bind mounts.
    fn names(&self, path: &Path) -> Vec<PathBuf> {
        if self.overlays.is_empty() {
            return Vec::new();
        }
        let mut names = vec![path.to_owned()];
        let Some((mount, within)) = self.within(path) else {
            return names;
        };
        // Of a new file, the folder.
        let leads_to = |path: &Path| FileId::of(path).or_else(|| FileId::of(path.parent()?));
        let file = leads_to(path);
        for other in self
            .own_mounts()
            .filter(|other| other.number == mount.number)
        {
            if let Ok(rest) = within.strip_prefix(&other.root) {
                let name = joined(&other.point, rest);
                if leads_to(&name) == file && !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// The processes that have a regular file open for writing, mapped or locked. Not counted: the ancestors of this
    /// process, those of this program that belong to the same invocation, and others of this program unless they locked
    /// it or serve it. With `own_locks`, none of this program counts.
    pub(crate) fn processes_of(
        &self,
        roots: &Roots,
        identities: &[FileId],
        path: &Path,
        own_locks: bool,
    ) -> Vec<Reason> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let counts = |process: u32, hold: Hold, file: &FileId| {
            // The clients of a server of the mount that a path is in have the file of the mount open.
            let served = || identities.first() == Some(file) && serves(roots, process);
            match self.own_processes.is_program(roots, process) {
                _ if self.own_processes.is_own(roots, process) => false,
                true => !own_locks && (hold == Hold::Locked || served()),
                false => true,
            }
        };
        let mut reasons: Vec<Reason> = Vec::new();
        let opened = self
            .opened
            .iter()
            .filter(|one| identities.contains(&one.file));
        for one in opened.filter(|one| counts(one.process, one.hold, &one.file)) {
            reasons.push(one.reason(roots, name.clone().into_owned()));
        }
        let on = |lock: &&Lock| {
            // One that this process inherited may be of a process that has ended.
            let mut files = identities.iter().filter(|file| !self.locks_itself(**file));
            files.any(|file| lock.is_on(DeviceNumber::of(file.device), file.inode))
        };
        for lock in self.locks.iter().filter(on) {
            if lock.process != own(roots) && counts(lock.process, Hold::Locked, &identities[0]) {
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

    /// Whether a process is known that has a file open for writing, maps it or locks it, this one included.
    pub(crate) fn has_user(&self, file: FileId) -> bool {
        let mut all = self.opened.iter().chain(&self.own);
        all.any(|one| one.file == file)
    }

    /// Whether a descriptor of this process locks a file.
    fn locks_itself(&self, file: FileId) -> bool {
        let mut own = self.own.iter();
        own.any(|one| one.file == file && one.hold == Hold::Locked)
    }

    /// Whether a lock on a file is listed, of any process.
    pub(crate) fn is_locked(&self, file: FileId) -> bool {
        self.locks
            .iter()
            .any(|lock| lock.is_on(DeviceNumber::of(file.device), file.inode))
    }

    /// Whether a lock on a file is one of this process, or of one that [`Self::processes_of`] does not count. On btrfs,
    /// locks are listed with the number of the mount, which is not `st_dev`.
    pub(crate) fn is_own_lock(&self, roots: &Roots, on: &Pinned, process: Option<u32>) -> bool {
        let id = mount_id(on);
        let mount = self.own_mounts().find(|mount| Some(mount.id) == id);
        let is_on =
            |lock: &&Lock| mount.is_some_and(|mount| lock.is_on(mount.number, on.file.inode));
        let listed = self.locks.iter().filter(is_on).map(|lock| lock.process);
        let mut processes = process.into_iter().chain(listed);
        self.locks_itself(on.file)
            || processes.any(|process| self.own_processes.is_own(roots, process))
    }

    /// Other processes that have one of these devices open for writing, mapped or locked.
    pub(crate) fn writers(&self, roots: &Roots, devices: &BTreeSet<DeviceNumber>) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = Vec::new();
        let mut last = None;
        for one in &self.opened {
            let Some(device) = one.device.filter(|device| devices.contains(device)) else {
                continue;
            };
            if last != Some(one.process) && !self.own_processes.is_own(roots, one.process) {
                last = Some(one.process);
                let name =
                    Block::find(roots, device).map_or(device.to_string(), |block| block.name);
                reasons.push(one.reason(roots, name));
            }
        }
        reasons
    }

    /// Other uses of the file of a loop device, without the other loop devices on it.
    pub(crate) fn uses_below(&self, roots: &Roots, one: &Loop) -> Vec<Reason> {
        let identities = self.identities_of(one);
        let mut reasons = self.whole_file(&identities, &one.path);
        reasons.extend(self.processes_of(roots, &identities, &one.path, false));
        reasons
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
            path: backing,
        });
    }
    let device = number_of(roots, &backing);
    Some(Loop {
        file: device.is_none().then(|| FileId::of(&backing)).flatten(),
        device,
        block,
        path: backing,
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

/// The file below the one at a path.
enum Below {
    Nothing,
    File(PathBuf),
    /// An overlay shows it whose upper folder cannot be found.
    Unknown,
}

/// The most identities of a file that are followed.
const DEEPEST: usize = 16;

/// As [`Path::join`], but without a slash after a path to which nothing is joined.
fn joined(path: &Path, rest: &Path) -> PathBuf {
    match rest.as_os_str().is_empty() {
        true => path.to_owned(),
        false => path.join(rest),
    }
}
