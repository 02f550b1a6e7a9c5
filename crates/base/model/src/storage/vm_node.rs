//! Virtual machines as nodes of a run: `vm:linux,disk=10GiB`.

use std::path::PathBuf;
use std::str::FromStr;

use iodyno_units::Bytes;

use crate::{Acceleration, DiskAio, DiskCache, VmDisk, VmLayer};

/// A virtual machine as a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmAddress {
    /// Where the blocks of its disk are.
    pub storage: VmStorage,
    /// Its settings, and those of its disk.
    pub vm: VmLayer,
}

/// Where the blocks of a node's disk are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmStorage {
    /// In an image file that is made for the run.
    Image {
        /// Its size, bytes.
        size: u64,
        /// The folder; `None`: a folder of iodyno.
        folder: Option<PathBuf>,
    },
    /// On a device of the host.
    Device(PathBuf),
}

impl VmAddress {
    /// The size of a disk unless it is given, bytes.
    pub const SIZE: u64 = 1 << 30;
    /// The least memory, bytes.
    const MIN_MEMORY: u64 = 128 << 20;
    const KEYS: [&'static str; 8] = [
        "accel", "aio", "cache", "cpus", "disk", "folder", "kernel", "memory",
    ];
}

impl FromStr for VmAddress {
    type Err = String;

    /// All errors, separated by `; `.
    fn from_str(text: &str) -> Result<VmAddress, String> {
        let mut parts = text
            .strip_prefix("vm:")
            .ok_or("it does not begin with `vm:`")?
            .split(',');
        let mut faults: Vec<String> = kind_fault(parts.next().unwrap_or_default())
            .into_iter()
            .collect();
        let mut known: Vec<&str> = Vec::new();
        let mut settings = Settings::default();
        for part in parts {
            let Some((key, value)) = part.split_once('=').filter(|(_, value)| !value.is_empty())
            else {
                faults.push(format!("`{part}` is not KEY=VALUE"));
                continue;
            };
            if known.contains(&key) {
                faults.push(format!("`{key}` is given twice"));
            }
            known.push(key);
            if !VmAddress::KEYS.contains(&key) {
                let keys = VmAddress::KEYS.map(|key| format!("`{key}`")).join(", ");
                faults.push(format!("`{key}` is not a setting: there are {keys}"));
            } else if let Err(why) = settings.set(key, value) {
                faults.push(format!("`{part}` {why}"));
            }
        }
        let Settings {
            mut vm,
            disk,
            size,
            device,
            folder,
        } = settings;
        if device.is_some() && folder.is_some() {
            faults.push("`folder` is for image files, and `disk` is a device".to_owned());
        }
        faults.extend(disk.faults().into_iter().map(|fault| fault.message));
        vm.disks = vec![disk];
        match faults.is_empty() {
            true => Ok(VmAddress {
                storage: match device {
                    Some(device) => VmStorage::Device(device),
                    None => VmStorage::Image {
                        // Of whole sectors.
                        size: size.unwrap_or(VmAddress::SIZE).next_multiple_of(4096),
                        folder,
                    },
                },
                vm,
            }),
            false => Err(faults.join("; ")),
        }
    }
}

/// What is wrong with the kind of a virtual machine.
fn kind_fault(kind: &str) -> Option<String> {
    match kind.strip_prefix("linux") {
        Some("") => None,
        Some(rest) if rest.starts_with('?') => Some(format!(
            "a virtual machine has no `{rest}`: iodyno does its I/O"
        )),
        Some(rest) if rest.contains('=') => Some(format!(
            "separate settings by commas, without spaces: `vm:linux,{}`",
            rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
        )),
        _ => Some(format!(
            "`{kind}` is not a kind of virtual machine: write `vm:linux`"
        )),
    }
}

/// The settings so far.
#[derive(Default)]
struct Settings {
    vm: VmLayer,
    disk: VmDisk,
    size: Option<u64>,
    device: Option<PathBuf>,
    folder: Option<PathBuf>,
}

impl Settings {
    /// # Errors
    /// What is wrong with the value, to follow the setting.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bytes = |least: u64| match value.parse::<Bytes>() {
            Ok(Bytes(bytes)) if bytes >= least => Ok(bytes),
            Ok(_) => Err(format!("is less than {}", Bytes(least))),
            Err(why) => Err(format!("is not a size: {why}")),
        };
        let one_of = |names: &[&str]| format!("is not one of {}", names.join(", "));
        let (vm, disk) = (&mut self.vm, &mut self.disk);
        match key {
            "disk" if value.contains('/') => self.device = Some(PathBuf::from(value)),
            "disk" => self.size = Some(bytes(1 << 20)?),
            "folder" => self.folder = Some(PathBuf::from(value)),
            "memory" => vm.memory = bytes(VmAddress::MIN_MEMORY)?,
            "kernel" => vm.kernel = Some(PathBuf::from(value)),
            "cpus" => match value.parse() {
                Ok(cpus @ 1..=255) => vm.cpus = cpus,
                _ => return Err("is not a number from 1 to 255".to_owned()),
            },
            "accel" => {
                let names = || one_of(Acceleration::NAMES);
                vm.accel = Acceleration::named(value).ok_or_else(names)?;
            }
            "cache" => {
                disk.cache = DiskCache::named(value).ok_or_else(|| one_of(DiskCache::NAMES))?;
            }
            "aio" => disk.aio = DiskAio::named(value).ok_or_else(|| one_of(DiskAio::NAMES))?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_has_a_disk_and_settings() {
        let plain: VmAddress = "vm:linux".parse().unwrap();
        let image = |size, folder: Option<&str>| VmStorage::Image {
            size,
            folder: folder.map(PathBuf::from),
        };
        assert_eq!(plain.storage, image(1 << 30, None));
        assert_eq!(plain.vm.disks, [VmDisk::default()]);
        let text =
            "vm:linux,disk=10GiB,folder=/d,cpus=2,memory=1GiB,accel=tcg,cache=unsafe,aio=threads";
        let full: VmAddress = text.parse().unwrap();
        assert_eq!(full.storage, image(10 << 30, Some("/d")));
        let vm = (full.vm.cpus, full.vm.memory, full.vm.accel);
        assert_eq!(vm, (2, 1 << 30, Acceleration::Tcg));
        assert_eq!(full.vm.disks[0].cache, DiskCache::Unsafe);
        let device: VmAddress = "vm:linux,disk=/dev/sdb".parse().unwrap();
        assert_eq!(device.storage, VmStorage::Device("/dev/sdb".into()));
    }

    #[test]
    fn every_fault_of_an_address_is_named() {
        let of = |text: &str| text.parse::<VmAddress>().unwrap_err();
        for (text, words) in [
            ("vm:bsd", "`bsd` is not a kind"),
            ("vm:", "`` is not a kind"),
            ("vm:linux?fio", "has no `?fio`"),
            (
                "vm:linux disk=1GiB",
                "by commas, without spaces: `vm:linux,disk=1GiB`",
            ),
            ("vm:linux,disk", "`disk` is not KEY=VALUE"),
            ("vm:linux,disk=10x", "`disk=10x`"),
            ("vm:linux,memory=1MiB", "less than 128 MiB"),
            ("vm:linux,cpus=0", "from 1 to 255"),
            ("vm:linux,cache=none,cache=none", "`cache` is given twice"),
            ("vm:linux,cash=none", "`cash` is not a setting"),
            ("vm:linux,aio=fast", "one of threads, native, io_uring"),
            (
                "vm:linux,aio=native,cache=unsafe",
                "no `aio=native` with `cache=unsafe`",
            ),
            ("vm:linux,disk=/dev/x,folder=/d", "`disk` is a device"),
        ] {
            let fault = of(text);
            assert!(fault.contains(words), "{text}: {fault}");
        }
        assert_eq!(of("vm:bsd,cpus=x,y=").matches("; ").count(), 2);
    }
}
