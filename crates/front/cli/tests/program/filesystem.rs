//! File systems for tests: on a loop device, in a file of the test's home. Unmounted and detached when dropped.

use std::fs::File;
use std::path::{Path, PathBuf};

use iodyno_testing::{Loop, Mounted, run, skip};

use crate::harness::Home;

/// A kind of file system, its command, and its size in MiB, above the minimum of the command.
pub(crate) const KINDS: [(&str, u64, &[&str]); 3] = [
    ("ext4", 64, &["mkfs.ext4", "-q", "-F", "-m", "0"]),
    ("xfs", 320, &["mkfs.xfs", "-q", "-f"]),
    ("btrfs", 192, &["mkfs.btrfs", "-q", "-f"]),
];

/// A mounted file system.
pub(crate) struct FileSystem {
    /// The mount point.
    pub(crate) folder: PathBuf,
    _mounted: Mounted,
    device: Loop,
}

impl FileSystem {
    /// Creates a file system; prints a message and returns `None` if root or a tool is missing.
    pub(crate) fn new(home: &Home, name: &str, mib: u64, tool: &[&str]) -> Option<FileSystem> {
        let image = home.work().join(format!("{name}.img"));
        FileSystem::at(&image, &home.work().join(name), mib, tool)
    }

    /// A new ext4 in a file of this one. It must be dropped first.
    pub(crate) fn within(&self, home: &Home, mib: u64) -> Option<FileSystem> {
        let image = self.folder.join("inner.img");
        FileSystem::at(&image, &home.work().join("inner"), mib, KINDS[0].2)
    }

    fn at(image: &Path, folder: &Path, mib: u64, tool: &[&str]) -> Option<FileSystem> {
        File::create(image).unwrap().set_len(mib << 20).unwrap();
        let shown = image.to_str().unwrap();
        let made: Vec<&str> = tool.iter().copied().chain([shown]).collect();
        run(&made).map_err(skip).ok()?;
        let device = Loop::on(image)?;
        std::fs::create_dir(folder).unwrap();
        Some(FileSystem {
            folder: folder.to_owned(),
            _mounted: Mounted::on(folder, &[device.path()])?,
            device,
        })
    }

    /// ext4 of this size in MiB.
    pub(crate) fn ext4(home: &Home, mib: u64) -> Option<FileSystem> {
        FileSystem::new(home, "ext4", mib, KINDS[0].2)
    }

    /// The loop device below it.
    pub(crate) fn device(&self) -> &str {
        self.device.path()
    }

    /// Mounts it again with other options.
    pub(crate) fn remount(&self, options: &str) {
        let folder = self.folder.to_str().unwrap();
        run(&["mount", "-o", &format!("remount,{options}"), folder]).unwrap();
    }
}

/// The names in a folder, sorted, without those that ext4 creates itself.
pub(crate) fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "lost+found")
        .collect();
    names.sort();
    names
}
