//! The actions of which making storage consists.

use std::fmt;
use std::path::{Path, PathBuf};

use iodyno_model::{Identity, Pinning};
use serde::{Deserialize, Serialize};

/// The beginning of the name of a target's folder. Its token follows.
pub(super) const TARGET: &str = "iodyno-";

/// Something that is done to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub(crate) enum Action {
    /// Make a folder. Undone: it is removed with its content, unless something of others is mounted in it.
    Folder {
        /// Its path.
        path: PathBuf,
        /// The file system that contains it (`f_fsid`), if its folder is not iodyno's.
        #[serde(default)]
        system: Option<u64>,
        /// Only what other steps make is put in it: it is removed only if it is empty.
        #[serde(default)]
        empty: bool,
    },
    /// Make an image file.
    File {
        /// Its path.
        path: PathBuf,
        /// Its length, bytes.
        size: u64,
        /// Reserve its blocks.
        allocate: bool,
    },
    /// Empty a block device that the guard admitted.
    Device {
        /// Its path.
        path: PathBuf,
        /// What it is.
        identity: Option<Identity>,
        /// The process to which the guard admitted it.
        admitted_to: u32,
        /// When that started; see [`Owner`](iodyno_host::Owner).
        #[serde(default)]
        started: u64,
    },
    /// Attach a loop device to a file. Returns the device, and the number that the kernel gives to what is attached.
    Loop {
        /// The file.
        file: PathBuf,
        /// With direct I/O.
        direct: bool,
        /// Logical block size, bytes.
        sector: Option<u32>,
    },
    /// Make a compressed device in memory. Returns its number, and the number that the kernel gives to each new disk.
    Zram {
        /// The number that the kernel gives to the next one.
        number: u32,
        /// Its size, bytes.
        size: u64,
        /// The compression.
        algorithm: Option<String>,
    },
    /// Mount a file system. Returns its device number.
    Mount {
        /// Its type.
        kind: String,
        /// The device, or a name.
        source: String,
        /// The mount point: a folder made for it.
        point: PathBuf,
        /// Options.
        options: Vec<String>,
    },
    /// Start a server. Undone: what it mounted is unmounted, and it is ended.
    Server {
        /// The program and its arguments.
        command: Vec<String>,
        /// Where it mounts a file system.
        point: PathBuf,
        /// What it prints.
        log: PathBuf,
    },
    /// Start zfs-fuse unless it runs. Undone: it is ended if it was started so, has no pool left, and no other target
    /// needs it.
    ZfsFuse {
        /// What it prints.
        log: PathBuf,
        /// Where it runs.
        #[serde(default)]
        pinning: Pinning,
    },
    /// Make a ZFS pool.
    Pool {
        /// Its name.
        name: String,
        /// The arguments of `zpool create`.
        arguments: Vec<String>,
    },
    /// Start the kernel's server of NFS in a guest.
    NfsServer {
        /// The folder that it exports.
        folder: PathBuf,
        /// Whether writes are acknowledged before they are stored.
        asynchronous: bool,
        /// Number of its threads.
        threads: u32,
    },
    /// Make an array of md.
    Array {
        /// Its name. The kernel's name of its device is this one after `md_`.
        name: String,
        /// A file for the settings of mdadm.
        settings: PathBuf,
        /// Arguments of `mdadm --create`.
        arguments: Vec<String>,
        /// The devices of which it is made.
        members: Vec<String>,
    },
    /// Make a device of the device mapper. Returns its path.
    Mapped {
        /// Its name.
        name: String,
        /// The program that makes it, and its arguments.
        command: Vec<String>,
        /// A table with which it does not fail, for a device that fails on purpose.
        calm: Option<String>,
    },
    /// Change a setting of the kernel.
    Setting {
        /// Its file.
        path: PathBuf,
        /// The device (`7:3`), if the file has a line for each.
        device: Option<String>,
        /// Its value before.
        before: String,
        /// Its new value.
        value: String,
    },
    /// Run the user's command that makes storage, and undo it with another one.
    Setup {
        /// The command, for a shell.
        command: Option<String>,
        /// The command that undoes it.
        teardown: Option<String>,
    },
    /// Run a command whose effect is undone with the layer below.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
    },
}

/// The file system of a folder, `f_fsid` of statvfs(3). `None`: the folder is missing, or its file system has no
/// number.
pub(super) fn system_of(folder: &Path) -> Option<u64> {
    let state = rustix::fs::statvfs(folder).ok()?;
    (state.f_fsid != 0).then_some(state.f_fsid)
}

impl Action {
    /// To make a folder in storage that iodyno made.
    pub(crate) fn folder(path: PathBuf) -> Action {
        Action::Folder {
            path,
            system: None,
            empty: false,
        }
    }

    /// To make a folder where something else is: it is not removed with anything that iodyno made. `empty`: see
    /// [`Action::Folder`].
    pub(crate) fn outer_folder(path: PathBuf, empty: bool) -> Action {
        let system = path.parent().and_then(system_of);
        Action::Folder {
            path,
            system,
            empty,
        }
    }
}

impl fmt::Display for Action {
    /// What is made.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Folder { path, .. } => write!(f, "folder {}", path.display()),
            Action::File { path, .. } => write!(f, "image file {}", path.display()),
            Action::Device { path, .. } => write!(f, "use of device {}", path.display()),
            Action::Loop { file, .. } => write!(f, "loop device on {}", file.display()),
            Action::Zram { number, .. } => write!(f, "compressed device /dev/zram{number}"),
            Action::Mount { kind, point, .. } => {
                write!(f, "mount of {kind} at {}", point.display())
            }
            Action::Server { command, point, .. } => {
                let program = command.first().map(String::as_str).unwrap_or_default();
                write!(f, "server {program} at {}", point.display())
            }
            Action::ZfsFuse { .. } => write!(f, "server zfs-fuse"),
            Action::Pool { name, .. } => write!(f, "ZFS pool {name}"),
            Action::NfsServer { folder, .. } => write!(f, "NFS server of {}", folder.display()),
            Action::Array { name, .. } => write!(f, "array {name}"),
            Action::Mapped { name, .. } => write!(f, "mapped device {name}"),
            Action::Setting {
                path,
                device: Some(device),
                ..
            } => write!(f, "limit of device {device} in {}", path.display()),
            Action::Setting { path, .. } => write!(f, "setting {}", path.display()),
            Action::Setup {
                command: Some(command),
                ..
            } => write!(f, "result of `{command}`"),
            Action::Setup { .. } => write!(f, "storage that the teardown command removes"),
            Action::Run { command } => write!(f, "result of `{}`", command.join(" ")),
        }
    }
}
