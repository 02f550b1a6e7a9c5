//! A simulated host: procfs, sysfs and device nodes in a temporary folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::block::Block;
use crate::roots::Roots;

/// A simulated host.
#[derive(Debug)]
pub struct FakeHost {
    /// Removed when the host is dropped.
    _folder: tempfile::TempDir,
    /// Its roots.
    pub roots: Roots,
}

impl FakeHost {
    /// A host without devices.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> FakeHost {
        // In memory, because other tests may keep the disk busy with syncs.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.unwrap();
        let roots = Roots::below(&folder.path().canonicalize().unwrap());
        let host = FakeHost {
            _folder: folder,
            roots,
        };
        host.write("proc/self/mountinfo", "");
        host.write("proc/swaps", "Filename Type Size Used Priority\n");
        for name in ["sys/dev/block", "sys/class/block", "dev/mapper"] {
            fs::create_dir_all(host.path(name)).unwrap();
        }
        host
    }

    /// The path of a file, relative to the root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.roots.root.join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn append(&self, name: &str, line: &str) {
        let mut text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.push_str(line);
        text.push('\n');
        self.write(name, &text);
    }

    /// Adds a device in a folder of `sys/devices`; `sectors` is its length in units of 512 bytes.
    fn device(&self, folder: &str, number: &str, sectors: u64) {
        let name = folder.rsplit('/').next().unwrap();
        let below = format!("sys/devices/{folder}");
        self.write(&format!("{below}/dev"), &format!("{number}\n"));
        self.write(&format!("{below}/size"), &format!("{sectors}\n"));
        self.write(&format!("{below}/ro"), "0\n");
        self.write(&format!("dev/{name}"), "");
        let target = self.path(&below);
        symlink(&target, self.path(&format!("sys/dev/block/{number}"))).unwrap();
        symlink(&target, self.path(&format!("sys/class/block/{name}"))).unwrap();
    }

    /// Adds a disk.
    pub fn disk(&self, name: &str, number: &str) -> &FakeHost {
        self.device(name, number, 1 << 20);
        self
    }

    /// Adds a partition. Those with other numbers are elsewhere on the disk.
    pub fn partition(&self, disk: &str, name: &str, number: &str) -> &FakeHost {
        self.device(&format!("{disk}/{name}"), number, 1 << 10);
        self.write(&format!("sys/devices/{disk}/{name}/partition"), "1\n");
        let minor = number.rsplit(':').next().and_then(|it| it.parse().ok());
        let start = 2048 * (1 + minor.unwrap_or(0u64));
        self.write(
            &format!("sys/devices/{disk}/{name}/start"),
            &format!("{start}\n"),
        );
        self
    }

    /// Adds a device built on others; `attributes` such as `("dm/name", "vg-home")`.
    pub fn mapped(
        &self,
        name: &str,
        number: &str,
        attributes: &[(&str, &str)],
        slaves: &[&str],
    ) -> &FakeHost {
        self.disk(name, number);
        for (attribute, value) in attributes {
            self.attribute(name, attribute, value);
        }
        for slave in slaves {
            let below = self.path(&format!("sys/class/block/{slave}"));
            let below = below.canonicalize().unwrap();
            let own = self.path(&format!("sys/devices/{name}"));
            fs::create_dir_all(own.join("slaves")).unwrap();
            fs::create_dir_all(below.join("holders")).unwrap();
            symlink(&below, own.join("slaves").join(slave)).unwrap();
            symlink(&own, below.join("holders").join(name)).unwrap();
        }
        self
    }

    /// Sets an attribute of a device.
    pub fn attribute(&self, device: &str, name: &str, value: &str) -> &FakeHost {
        self.write(&format!("sys/devices/{device}/{name}"), value);
        self
    }

    /// Adds an attached loop device.
    pub fn loop_device(&self, name: &str, number: &str, file: &Path) -> &FakeHost {
        self.disk(name, number);
        self.attribute(name, "loop/backing_file", &format!("{}\n", file.display()))
    }

    /// Adds a mount in this namespace.
    pub fn mount(&self, number: &str, point: &str, kind: &str, source: &str) -> &FakeHost {
        self.mount_for("self", number, point, kind, source)
    }

    /// Adds a mount in the namespace of a process.
    pub fn mount_for(
        &self,
        process: &str,
        number: &str,
        point: &str,
        kind: &str,
        source: &str,
    ) -> &FakeHost {
        self.append(
            &format!("proc/{process}/mountinfo"),
            &format!("90001 1 {number} / {point} rw,noatime shared:1 - {kind} {source} rw,data=x"),
        );
        self
    }

    /// Adds swap space.
    pub fn swap(&self, path: &str) -> &FakeHost {
        self.append("proc/swaps", &format!("{path} partition 1024 0 -2"));
        self
    }

    /// Adds a mounted file system on several devices.
    pub fn btrfs(&self, uuid: &str, devices: &[&str]) -> &FakeHost {
        for device in devices {
            self.write(&format!("sys/fs/btrfs/{uuid}/devices/{device}"), "");
        }
        self
    }

    /// A device.
    pub fn block(&self, name: &str) -> Block {
        Block::named(&self.roots, name).unwrap()
    }
}
