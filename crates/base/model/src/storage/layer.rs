//! Layers of storage, and what each gives to the one above.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::named::named;

use crate::{DmTarget, Limits, MdLayer, Pinning, VmLayer, ZfsLayer, ZfsOrigin};

/// One layer of a target. Layers are listed from the top down, as in `ext4 on loop on file on FOLDER`. The lowest layer
/// is a [`Layer::Directory`], a [`Layer::Device`], [`Layer::Zram`] or [`Layer::Tmpfs`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Layer {
    /// An existing folder. A new folder is made in it, and nothing else in it is touched.
    Directory {
        /// Its path.
        path: PathBuf,
    },
    /// Existing block devices. Their content is discarded; this needs `--destroy` for each that is not blank.
    Device {
        /// Their paths.
        paths: Vec<PathBuf>,
    },
    /// Image files in the folder below.
    File {
        /// Length of each, bytes.
        size: u64,
        /// Number of files.
        count: u32,
        /// Reserve the blocks (`fallocate`), so that the file below does not grow during a trial.
        allocate: bool,
    },
    /// A loop device on each file below.
    Loop {
        /// Direct I/O on the files.
        direct: bool,
        /// Logical block size, bytes; `None`: 512.
        sector: Option<u32>,
    },
    /// Compressed block devices in memory.
    Zram {
        /// Size of each, bytes.
        size: u64,
        /// Number of devices.
        count: u32,
        /// `lzo-rle`, `zstd`, …; `None`: the kernel's default.
        algorithm: Option<String>,
    },
    /// A file system in memory.
    Tmpfs {
        /// Its largest size, bytes.
        size: u64,
    },
    /// A file system on the devices below.
    FileSystem {
        /// Its type.
        fs: FileSystemKind,
        /// Arguments of mkfs.
        mkfs: Vec<String>,
        /// Mount options.
        mount: Vec<String>,
    },
    /// A ZFS pool on the devices or files below.
    Zfs(ZfsLayer),
    /// An overlay mount. Its three folders (lower, upper, work) are made in the folder below.
    Overlay {
        /// Mount options besides the folders.
        mount: Vec<String>,
    },
    /// The folder below, exported and mounted by NFS within the same guest.
    Nfs(NfsLayer),
    /// Limits of the rate of the devices below, through a control group.
    Throttle(Limits),
    /// A block device for each file or device below, whose reads and writes take longer.
    Delay {
        /// Delay of a read, ns.
        read_ns: u64,
        /// Delay of a write, ns.
        write_ns: u64,
        /// Simulated disks whose time the devices take instead: one for all, or one for each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        disks: Vec<String>,
        /// Where its server processes run.
        #[serde(flatten)]
        pinning: Pinning,
    },
    /// An array of md on all devices below.
    Md(MdLayer),
    /// A device of the device mapper on each device below.
    Dm(DmTarget),
    /// A mirror on the files or devices below, which iodyno serves itself: one block device, or with queues a disk
    /// whose clients the jobs are.
    Mirror(MirrorLayer),
    /// A server shares the folder below by virtio-fs. Jobs are its client: they run by the engine `virtiofs` on its
    /// socket.
    Virtiofs(FolderServer),
    /// A server mounts the folder below by FUSE.
    Fuse(FolderServer),
    /// Virtual machines, whose disks are the files or devices below. The layers above are made in each of them, and the
    /// trials run in all of them at once.
    Vm(VmLayer),
}

impl Layer {
    /// Its name in an experiment: `ext4`, `loop`.
    pub fn kind(&self) -> &'static str {
        match self {
            Layer::Directory { .. } => "directory",
            Layer::Device { .. } => "device",
            Layer::File { .. } => "file",
            Layer::Loop { .. } => "loop",
            Layer::Zram { .. } => "zram",
            Layer::Tmpfs { .. } => "tmpfs",
            Layer::FileSystem { fs, .. } => fs.name(),
            Layer::Zfs(_) => "zfs",
            Layer::Overlay { .. } => "overlay",
            Layer::Nfs(_) => "nfs",
            Layer::Throttle(_) => "throttle",
            Layer::Delay { .. } => "delay",
            Layer::Md(_) => "md",
            Layer::Dm(_) => "dm",
            Layer::Mirror(_) => "mirror",
            Layer::Virtiofs(_) => "virtiofs",
            Layer::Fuse(_) => "fuse",
            Layer::Vm(_) => "vm",
        }
    }

    /// Whether it gives block devices of its own.
    pub fn gives_devices(&self) -> bool {
        match self {
            Layer::Device { .. }
            | Layer::Loop { .. }
            | Layer::Zram { .. }
            | Layer::Delay { .. }
            | Layer::Md(_)
            | Layer::Dm(_) => true,
            Layer::Mirror(mirror) => mirror.queues.is_none(),
            Layer::Vm(vm) => vm.share.is_none(),
            Layer::Zfs(zfs) => zfs.volume.is_some() && zfs.origin != ZfsOrigin::Copy,
            _ => false,
        }
    }

    /// What it gives to the layer above, if this is below it.
    pub fn shape(&self, below: Shape) -> Shape {
        match self {
            Layer::Directory { .. }
            | Layer::Tmpfs { .. }
            | Layer::FileSystem { .. }
            | Layer::Overlay { .. }
            | Layer::Nfs(_)
            | Layer::Virtiofs(_)
            | Layer::Fuse(_) => Shape::Folder,
            Layer::Device { paths } => Shape::Devices(paths.len() as u32),
            Layer::Zram { count, .. } => Shape::Devices(*count),
            Layer::File { count, .. } => Shape::Files(*count),
            Layer::Loop { .. } | Layer::Delay { .. } => match below {
                Shape::Files(count) | Shape::Devices(count) => Shape::Devices(count),
                _ => Shape::Devices(1),
            },
            Layer::Throttle(_) => below,
            Layer::Md(_) | Layer::Mirror(_) => Shape::Devices(1),
            Layer::Dm(target) => Shape::Devices((below.count() / target.consumes()).max(1)),
            Layer::Vm(vm) => match (below, &vm.share) {
                (Shape::Files(count) | Shape::Devices(count), None) => {
                    Shape::Devices(count / vm.guests.max(1))
                }
                _ => Shape::Folder,
            },
            Layer::Zfs(zfs) => match (zfs.origin, zfs.volume) {
                (ZfsOrigin::Copy, _) => Shape::Files(zfs.instances()),
                (_, Some(_)) => Shape::Devices(zfs.instances()),
                (_, None) => Shape::Folder,
            },
        }
    }

    /// Its kind; of the lowest layer, its paths.
    pub fn words(&self) -> String {
        let list = |paths: &[PathBuf]| {
            let paths = paths.iter().map(|path| path.display().to_string());
            paths.collect::<Vec<_>>().join(" + ")
        };
        match self {
            Layer::Directory { path } => list(std::slice::from_ref(path)),
            Layer::Device { paths } => list(paths),
            layer => layer.kind().to_owned(),
        }
    }
}

/// What a layer gives to the one above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing, below the first layer.
    Nothing,
    /// A folder.
    Folder,
    /// This many files.
    Files(u32),
    /// This many devices.
    Devices(u32),
}

impl Shape {
    /// In words: `a folder`, `3 files`.
    pub fn words(self) -> String {
        match self {
            Shape::Nothing => "nothing".to_owned(),
            Shape::Folder => "a folder".to_owned(),
            Shape::Files(1) => "a file".to_owned(),
            Shape::Files(count) => format!("{count} files"),
            Shape::Devices(1) => "a device".to_owned(),
            Shape::Devices(count) => format!("{count} devices"),
        }
    }

    /// The number of files or devices.
    pub fn count(self) -> u32 {
        match self {
            Shape::Nothing | Shape::Folder => 0,
            Shape::Files(count) | Shape::Devices(count) => count,
        }
    }
}

/// The server of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderServer {
    /// Its command: see [`crate::server_command`], with `{folder}`, and `{socket}` or `{mount}`; `{stats}` is the path
    /// of a socket for what it counted.
    pub command: String,
    /// Where its processes run.
    #[serde(flatten)]
    pub pinning: Pinning,
}

impl FolderServer {
    /// The command of `virtiofs` by default.
    pub const VIRTIOFS: &'static str =
        "iodyno serve fs {folder} --socket {socket} --stats {stats} --dispatch adaptive";
    /// The command of `fuse` by default.
    pub const FUSE: &'static str =
        "iodyno serve fs {folder} --mount {mount} --stats {stats} --dispatch adaptive";
}

/// A mirror, and the server of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorLayer {
    /// Name of the read policy.
    pub policy: String,
    /// The simulated disks whose times the legs take: one for each leg, or one for all; `hdd`, `hdd*2`, `flash`. Empty:
    /// legs take their own time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delay: Vec<String>,
    /// Queues of the server, whose clients the jobs are by vhost-user-blk; `None`: a block device, which has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
    /// Where its server processes run.
    #[serde(flatten)]
    pub pinning: Pinning,
}

impl MirrorLayer {
    /// The name of the process that serves a mirror.
    pub const PROCESS: &'static str = "iodyno-mirror";
    /// What is wrong with queues of a mirror below other layers, and what to do.
    pub const NOT_ON_TOP: (&'static str, &'static str) = (
        "`mirror.queues` needs the mirror as the top layer: the jobs are its clients by vhost-user-blk, and the block device that other layers use has one queue",
        "put `mirror` first in `target`, or leave `mirror.queues` out; for guests, serve a mirror with `--queues` by `vm.disk.command`",
    );
}

/// An export of NFS, and its mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsLayer {
    /// Version of the protocol: `4.2`.
    pub version: String,
    /// Whether the server stores a write before it acknowledges it, as the protocol demands.
    pub sync: bool,
    /// Number of threads of the server.
    pub threads: u32,
    /// Largest read, bytes; `None`: the kernel's default.
    pub rsize: Option<u64>,
    /// Largest write, bytes; `None`: the kernel's default.
    pub wsize: Option<u64>,
    /// Mount options besides these.
    pub mount: Vec<String>,
}

named! {
    /// A file system that mkfs and mount know.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FileSystemKind in ALL {
        /// ext4.
        Ext4 = "ext4",
        /// XFS.
        Xfs = "xfs",
        /// Btrfs; several devices make one file system (`-d raid1 -m raid1` among the arguments of mkfs).
        Btrfs = "btrfs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_older_plans_run_anywhere() {
        let old = r#"{"kind":"delay","read_ns":1,"write_ns":2}"#;
        let layer: Layer = serde_json::from_str(old).unwrap();
        assert!(matches!(&layer, Layer::Delay { pinning, .. } if pinning.is_none()));
        assert_eq!(serde_json::to_string(&layer).unwrap(), old);
        let pinned = r#"{"kind":"zfs","layout":[],"pool":{},"properties":{},"volume":5,"origin":"new","cpus":"0-1"}"#;
        let layer: Layer = serde_json::from_str(pinned).unwrap();
        assert!(
            matches!(&layer, Layer::Zfs(zfs) if zfs.pinning.cpus.as_deref() == Some("0-1") && zfs.volume == Some(5))
        );
    }
}
