//! The programs and parts of the kernel that layers need.

use std::path::PathBuf;

use iodyno_host::Roots;
use iodyno_model::{Diagnostic, DmTarget, FileSystemKind, Layer, MdLevel};

use super::host::Host;

/// The fault that a program is missing which `user`, a layer or a key, needs. `package`: Debian's.
pub(super) fn not_installed(
    host: &dyn Host,
    program: &str,
    user: &str,
    package: &str,
) -> Option<Diagnostic> {
    let missing = host.program(program).is_none();
    missing.then(|| {
        let message = format!("`{program}`, which `{user}` needs, is not installed");
        let hint = format!("install it: Debian's package is `{package}`");
        Diagnostic::error(message).hint(hint)
    })
}

/// The programs that a layer runs, each with its Debian package.
pub(super) fn tools(layer: &Layer) -> &'static [(&'static str, &'static str)] {
    const MOUNT: (&str, &str) = ("mount", "mount");
    const UNMOUNT: (&str, &str) = ("umount", "mount");
    match layer {
        Layer::Directory { .. } | Layer::File { .. } | Layer::Zram { .. } => &[],
        // What ZFS or a server lacks is said with its alternatives.
        Layer::Zfs(_) | Layer::Throttle(_) | Layer::Virtiofs(_) | Layer::Vm(_) => &[],
        Layer::Fuse(_) => &[UNMOUNT],
        Layer::Device { .. } => &[("wipefs", "util-linux"), ("blkdiscard", "util-linux")],
        Layer::Loop { .. } => &[("losetup", "mount")],
        Layer::Tmpfs { .. } | Layer::Overlay { .. } => &[MOUNT, UNMOUNT],
        Layer::Nfs(_) => &[("ip", "iproute2"), MOUNT, UNMOUNT],
        Layer::FileSystem { fs, .. } => match fs {
            FileSystemKind::Ext4 => &[("mkfs.ext4", "e2fsprogs"), MOUNT, UNMOUNT],
            FileSystemKind::Xfs => &[("mkfs.xfs", "xfsprogs"), MOUNT, UNMOUNT],
            FileSystemKind::Btrfs => &[
                ("mkfs.btrfs", "btrfs-progs"),
                ("btrfs", "btrfs-progs"),
                MOUNT,
                UNMOUNT,
            ],
        },
        Layer::Md(_) => &[("mdadm", "mdadm")],
        Layer::Dm(DmTarget::Crypt { .. }) => {
            &[("cryptsetup", "cryptsetup-bin"), ("dmsetup", "dmsetup")]
        }
        Layer::Dm(_) => &[("dmsetup", "dmsetup")],
        Layer::Mirror(mirror) if mirror.queues.is_some() => &[],
        Layer::Mirror(_) => &[("losetup", "mount"), ("umount", "mount")],
        Layer::Delay { disks, .. } if !disks.is_empty() => {
            &[("losetup", "mount"), ("umount", "mount")]
        }
        Layer::Delay { .. } => &[
            ("nbdkit", "nbdkit"),
            ("nbdfuse", "libnbd-bin"),
            ("losetup", "mount"),
        ],
    }
}

/// The file that shows that the kernel has what a layer needs, and how to get it.
pub(super) fn kernel(layer: &Layer, roots: &Roots) -> Option<(PathBuf, &'static str)> {
    match layer {
        Layer::Loop { .. } => Some((roots.dev.join("loop-control"), "run `modprobe loop`")),
        Layer::Zram { .. } => Some((
            roots.sys.join("class/zram-control/hot_add"),
            "run `modprobe zram`",
        )),
        Layer::Mirror(mirror) if mirror.queues.is_some() => None,
        Layer::Delay { .. } | Layer::Mirror(_) | Layer::Fuse(_) => {
            Some((roots.dev.join("fuse"), "run `modprobe fuse`"))
        }
        Layer::Md(md) => Some((
            roots.proc.join("mdstat"),
            match md.level {
                MdLevel::Raid1 => "run `modprobe raid1`",
                MdLevel::Raid10 => "run `modprobe raid10`",
            },
        )),
        // The file in /dev exists before the module is loaded.
        Layer::Dm(_) => Some((
            roots.sys.join("class/misc/device-mapper"),
            "run `modprobe dm_mod`",
        )),
        _ => None,
    }
}
