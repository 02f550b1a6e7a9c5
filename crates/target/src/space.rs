//! Whether what is to be laid out has room.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use iodyno_units::Bytes;

use crate::mounts::{self, Mount};
use crate::roots::Roots;
use crate::stack::existing;
use crate::{DeviceNumber, stack};

/// Room on a file system for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes, without those kept for root.
    pub bytes: u64,
    /// Inodes; `None` where the file system does not count them.
    pub inodes: Option<u64>,
}

/// The room at a folder; at the nearest one above it where it is not there yet.
///
/// # Errors
/// As statvfs(3).
pub fn room(folder: &Path) -> io::Result<Room> {
    let folder = existing(folder).ok_or(io::ErrorKind::NotFound)?;
    let state = rustix::fs::statvfs(&folder)?;
    Ok(Room {
        bytes: state.f_bavail.saturating_mul(state.f_frsize),
        // btrfs and others have no table of inodes and count none.
        inodes: (state.f_files > 0).then_some(state.f_favail),
    })
}

/// The longest file this process may write, bytes; `None` where there is no limit (RLIMIT_FSIZE).
pub fn file_size_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// What will be laid out in a folder, beyond what is there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Where; it need not be there yet.
    pub folder: PathBuf,
    /// Bytes in all.
    pub bytes: u64,
    /// New files and folders.
    pub inodes: u64,
    /// The longest file, bytes.
    pub longest: u64,
}

/// A lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortage {
    /// Too few bytes.
    Bytes {
        /// All folders of the file system.
        folders: Vec<PathBuf>,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// Too few inodes.
    Inodes {
        /// All folders of the file system.
        folders: Vec<PathBuf>,
        /// Inodes.
        needed: u64,
        /// Inodes.
        free: u64,
    },
    /// A file longer than this process or the file system allows.
    FileSize {
        /// Its folder.
        folder: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        limit: u64,
        /// Whose limit.
        whose: &'static str,
    },
    /// The room could not be found out.
    Unknown {
        /// Where.
        folder: PathBuf,
        /// Why.
        why: String,
    },
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |folders: &[PathBuf]| {
            let names: Vec<String> = folders
                .iter()
                .map(|f| format!("`{}`", f.display()))
                .collect();
            names.join(", ")
        };
        match self {
            Shortage::Bytes {
                folders,
                needed,
                free,
            } => write!(
                f,
                "{} more are needed in {}, {} are free\nhint: lower `size`, `nrfiles` or `numjobs`, or free space",
                Bytes(*needed),
                list(folders),
                Bytes(*free)
            ),
            Shortage::Inodes {
                folders,
                needed,
                free,
            } => write!(
                f,
                "{needed} more files are needed in {}, inodes for {free} are free\nhint: lower `nrfiles` or `numjobs`",
                list(folders)
            ),
            Shortage::FileSize {
                folder,
                needed,
                limit,
                whose,
            } => write!(
                f,
                "a file of {} in `{}` is longer than {whose} allows: {}\nhint: lower `size`, or raise `nrfiles`",
                Bytes(*needed),
                folder.display(),
                Bytes(*limit)
            ),
            Shortage::Unknown { folder, why } => {
                write!(
                    f,
                    "the free space in `{}` is unknown: {why}",
                    folder.display()
                )
            }
        }
    }
}

/// Everything that lacks. Folders on one file system, and file systems in one pool, add up.
pub fn check(roots: &Roots, needs: &[Need]) -> Vec<Shortage> {
    check_by(room, roots, needs)
}

/// As [`check`], with the room of a folder passed in.
fn check_by(
    room: impl Fn(&Path) -> io::Result<Room>,
    roots: &Roots,
    needs: &[Need],
) -> Vec<Shortage> {
    let mounts = mounts::own(roots);
    let mut shortages = Vec::new();
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for need in needs {
        let found = room(&need.folder).and_then(|room| Ok((room, place(&mounts, &need.folder)?)));
        match found {
            Ok((room, place)) => {
                shortages.extend(too_long(need, &place));
                for name in place.groups {
                    groups.entry(name).or_default().add(need, room);
                }
            }
            Err(error) => shortages.push(Shortage::Unknown {
                folder: need.folder.clone(),
                why: error.to_string(),
            }),
        }
    }
    for shortage in groups.into_values().flat_map(Group::lacks) {
        // A pool with one file system says the same twice.
        if !shortages.contains(&shortage) {
            shortages.push(shortage);
        }
    }
    shortages
}

/// Needs that share their room.
#[derive(Default)]
struct Group {
    folders: Vec<PathBuf>,
    bytes: u64,
    inodes: u64,
    free: u64,
    free_inodes: Option<u64>,
}

impl Group {
    fn add(&mut self, need: &Need, room: Room) {
        if !self.folders.contains(&need.folder) {
            self.folders.push(need.folder.clone());
        }
        self.bytes = self.bytes.saturating_add(need.bytes);
        self.inodes = self.inodes.saturating_add(need.inodes);
        // Quotas may leave one part of a pool less than another: all has at least the most.
        self.free = self.free.max(room.bytes);
        self.free_inodes = self.free_inodes.max(room.inodes);
    }

    fn lacks(self) -> Vec<Shortage> {
        let mut lacks = Vec::new();
        if self.bytes > self.free {
            lacks.push(Shortage::Bytes {
                folders: self.folders.clone(),
                needed: self.bytes,
                free: self.free,
            });
        }
        if let Some(free) = self.free_inodes.filter(|free| self.inodes > *free) {
            lacks.push(Shortage::Inodes {
                folders: self.folders,
                needed: self.inodes,
                free,
            });
        }
        lacks
    }
}

struct Place {
    file_system: String,
    /// Names of what the folder shares its room with.
    groups: Vec<String>,
}

fn place(mounts: &[Mount], folder: &Path) -> io::Result<Place> {
    let folder = existing(folder).ok_or(io::ErrorKind::NotFound)?;
    let number = DeviceNumber::of(folder.metadata()?.dev());
    let id = rustix::fs::open(
        &folder,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .ok()
    .and_then(|opened| stack::mount_id(std::os::fd::AsFd::as_fd(&opened)));
    let mount = mounts::containing(mounts, &folder, number, id);
    let file_system = mount.map_or(String::new(), |mount| mount.file_system.clone());
    let mut groups = vec![format!("file system {number}")];
    // Subvolumes and datasets have numbers of their own and share one pool.
    match (file_system.as_str(), mount) {
        ("btrfs", Some(mount)) => groups.push(format!("btrfs {}", mount.source)),
        ("zfs", Some(mount)) => {
            let pool = mount.source.split('/').next().unwrap_or_default();
            groups.push(format!("zfs {pool}"));
        }
        _ => {}
    }
    Ok(Place {
        file_system,
        groups,
    })
}

fn too_long(need: &Need, place: &Place) -> Vec<Shortage> {
    let vfat = (place.file_system == "vfat").then_some(u64::from(u32::MAX));
    let limits = [
        (file_size_limit(), "`ulimit -f`"),
        (vfat, "the file system (vfat)"),
    ];
    limits
        .into_iter()
        .filter_map(|(limit, whose)| Some((limit?, whose)))
        .filter(|(limit, _)| need.longest > *limit)
        .map(|(limit, whose)| Shortage::FileSize {
            folder: need.folder.clone(),
            needed: need.longest,
            limit,
            whose,
        })
        .collect()
}

#[cfg(test)]
mod tests;
