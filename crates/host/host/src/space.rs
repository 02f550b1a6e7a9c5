//! Checks whether the files to be laid out fit into the free space.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use iodyno_units::Bytes;

use crate::block::DeviceNumber;
use crate::mounts::{self, Mount};
use crate::roots::Roots;
use crate::stack;
use crate::stack::existing;

/// Free space of a file system for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Free bytes, without those reserved for root.
    pub bytes: u64,
    /// Free inodes; `None` if the file system does not count them.
    pub inodes: Option<u64>,
}

/// The free space at a folder, or at its nearest existing ancestor.
///
/// # Errors
/// As statvfs(3).
pub fn room(folder: &Path) -> io::Result<Room> {
    let folder = existing(folder).ok_or(io::ErrorKind::NotFound)?;
    let state = rustix::fs::statvfs(&folder)?;
    Ok(Room {
        bytes: state.f_bavail.saturating_mul(state.f_frsize),
        // btrfs and others have no inode table and report no counts.
        inodes: (state.f_files > 0).then_some(state.f_favail),
    })
}

/// Maximum length of a file for this process, bytes (RLIMIT_FSIZE); `None`: no limit.
pub fn file_size_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// Space needed in a folder, in addition to existing files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The folder; it may not exist yet.
    pub folder: PathBuf,
    /// Total number of bytes.
    pub bytes: u64,
    /// Number of new files and folders.
    pub inodes: u64,
    /// Length of the longest file, bytes.
    pub longest: u64,
}

/// Something that does not fit.
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
    /// A file is longer than this process or the file system permits.
    FileSize {
        /// Its folder.
        folder: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        limit: u64,
        /// Origin of the limit.
        whose: &'static str,
    },
    /// The free space is unknown.
    Unknown {
        /// The folder.
        folder: PathBuf,
        /// The reason.
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

/// All shortages. Needs of folders on one file system, and of file systems in one pool, are added up.
pub fn check(roots: &Roots, needs: &[Need]) -> Vec<Shortage> {
    check_by(room, roots, needs)
}

/// Like [`check`], with the function that returns the free space as parameter.
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
        // A pool with one file system would be reported twice.
        if !shortages.contains(&shortage) {
            shortages.push(shortage);
        }
    }
    shortages
}

/// Needs that share free space.
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
        // Quotas may limit one part of a pool: the pool has at least the largest value.
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
    /// Names of the groups with which the folder shares free space.
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
    // Subvolumes and datasets have different device numbers and share one pool.
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
