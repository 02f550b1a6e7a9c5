//! The character devices of NVMe namespaces, `/dev/ngXnY`, and the block devices `/dev/nvmeXnY` of the same namespaces.
//!
//! In sysfs, both are in the folder of their controller, or in that of their subsystem.

use std::ffi::OsStr;

use crate::block::{Block, DeviceNumber};
use crate::roots::{Roots, text};

/// The block device of the namespace with this character device; `None` if it is another character device, or the
/// namespace has no block device.
pub fn block_of(roots: &Roots, character: DeviceNumber) -> Option<Block> {
    let link = roots.sys.join(format!("dev/char/{character}"));
    let folder = link.canonicalize().ok()?;
    let subsystem = folder.join("subsystem").canonicalize().ok()?;
    let rest = folder.file_name()?.to_str()?.strip_prefix("ng")?;
    let is_namespace = subsystem.file_name() == Some(OsStr::new("nvme-generic"));
    let disk = folder.parent()?.join(format!("nvme{rest}"));
    is_namespace.then(|| Block::at(&disk).ok()).flatten()
}

/// The length of the namespace with this character device, bytes, as [`block_of`] finds it.
pub fn namespace_length(roots: &Roots, character: DeviceNumber) -> Option<u64> {
    block_of(roots, character).map(|block| block.length())
}

/// The name and the number of the character device of a namespace; `None` if the block device is not a namespace, or
/// its driver has no passthrough (before Linux 5.13).
pub fn character_of(roots: &Roots, block: &Block) -> Option<(String, DeviceNumber)> {
    let name = format!("ng{}", block.name.strip_prefix("nvme")?);
    let folder = roots.sys.join("class/nvme-generic").join(&name);
    let number = DeviceNumber::parse(&text(folder.join("dev"))?)?;
    // The same namespace in both directions.
    let found = block_of(roots, number)?;
    (found.number == block.number).then_some((name, number))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn both_devices_of_a_namespace_are_found_from_each_other() {
        let host = FakeHost::new();
        host.disk("nvme0n1", "259:0").disk("sda", "8:0");
        let number = |text| DeviceNumber::parse(text).unwrap();
        let add = |name: &str, at: &str, subsystem: &str| {
            host.write(&format!("sys/devices/{name}/dev"), at);
            let class = host.path(&format!("sys/class/{subsystem}"));
            std::fs::create_dir_all(&class).unwrap();
            std::fs::create_dir_all(host.path("sys/dev/char")).unwrap();
            let folder = host.path(&format!("sys/devices/{name}"));
            symlink(&class, folder.join("subsystem")).unwrap();
            symlink(&folder, class.join(name)).unwrap();
            symlink(&folder, host.path(&format!("sys/dev/char/{at}"))).unwrap();
        };
        add("ng0n1", "241:0", "nvme-generic");
        // Of the same name, but of another driver, and a namespace without a block device.
        add("ng7n1", "10:7", "misc");
        add("ng1n1", "241:1", "nvme-generic");
        let found = block_of(&host.roots, number("241:0")).unwrap();
        assert_eq!(
            (found.name.as_str(), found.number),
            ("nvme0n1", number("259:0"))
        );
        assert_eq!(
            namespace_length(&host.roots, number("241:0")),
            Some(found.length())
        );
        for other in ["10:7", "241:1", "1:3"] {
            assert_eq!(block_of(&host.roots, number(other)), None, "{other}");
        }
        let back = character_of(&host.roots, &found);
        assert_eq!(back, Some(("ng0n1".to_owned(), number("241:0"))));
        assert_eq!(character_of(&host.roots, &host.block("sda")), None);
    }
}
