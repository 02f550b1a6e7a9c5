//! Maps interrupts to the block device that they serve.
//!
//! The nearest device above a disk in sysfs that has interrupts lists their numbers: in `msi_irqs/`, or in `irq` for a
//! single line. Multipath namespaces of NVMe have no such device; for these, the driver's name of the interrupt is
//! used.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_host::{Roots, names};

use crate::scope::Devices;

/// The scope's disks and their interrupts.
pub(super) struct Serving {
    sys: PathBuf,
    devices: Devices,
    by_number: BTreeMap<String, String>,
    by_name: Vec<(Names, String)>,
}

/// The name that a driver gives to a device's interrupts.
enum Names {
    /// `nvme0q3`.
    Queues(String),
    /// `virtio1-req.0`, or just `virtio1`.
    Parts(String),
}

impl Names {
    fn has(&self, name: &str) -> bool {
        match self {
            Names::Queues(controller) => name
                .strip_prefix(controller)
                .and_then(|rest| rest.strip_prefix('q'))
                .is_some_and(is_number),
            Names::Parts(device) => name
                .strip_prefix(device)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
        }
    }
}

impl Serving {
    /// Does not read sysfs yet.
    pub(super) fn new(roots: &Roots, devices: &Devices) -> Serving {
        Serving {
            sys: roots.sys.clone(),
            devices: devices.clone(),
            by_number: BTreeMap::new(),
            by_name: Vec::new(),
        }
    }

    /// Reads sysfs again. The interrupts of a controller of several disks are assigned to the first of them.
    pub(super) fn look(&mut self) {
        self.by_number.clear();
        self.by_name.clear();
        let names = match &self.devices {
            Devices::All => names(self.sys.join("block")),
            Devices::Named(names) => names.clone(),
        };
        for name in &names {
            let Ok(path) = fs::canonicalize(self.sys.join("class/block").join(name)) else {
                continue;
            };
            // A partition's interrupts are those of its disk, which is in the scope as well.
            let disk = path.parent().and_then(Path::file_name);
            let disk = disk.and_then(|disk| names.iter().find(|name| name.as_str() == disk));
            if disk.is_none() {
                self.add(name, &path);
            }
        }
    }

    fn add(&mut self, name: &str, path: &Path) {
        for number in numbers(path) {
            self.by_number.entry(number).or_insert(name.to_owned());
        }
        let virtio = path.iter().filter_map(|part| part.to_str());
        let virtio = virtio.filter(|part| part.strip_prefix("virtio").is_some_and(is_number));
        for part in virtio {
            self.by_name
                .push((Names::Parts(part.to_owned()), name.to_owned()));
        }
        if let Some(controller) = nvme_controller(name) {
            self.by_name
                .push((Names::Queues(controller), name.to_owned()));
        }
    }

    /// The device that an interrupt serves, by its number and name.
    pub(super) fn device(&self, number: &str, name: &str) -> Option<String> {
        let named = || self.by_name.iter().find(|(names, _)| names.has(name));
        let by_number = self.by_number.get(number);
        by_number
            .or_else(|| named().map(|(_, device)| device))
            .cloned()
    }
}

/// The numbers of the interrupts of the nearest device above a disk that has any.
fn numbers(disk: &Path) -> Vec<String> {
    let above = disk.ancestors().skip(1);
    for device in above.take_while(|path| path.file_name().is_some_and(|name| name != "devices")) {
        let messages = names(device.join("msi_irqs"));
        if !messages.is_empty() {
            return messages;
        }
        let line = fs::read_to_string(device.join("irq")).unwrap_or_default();
        let line = line.trim_ascii();
        if is_number(line) && line != "0" {
            return vec![line.to_owned()];
        }
    }
    Vec::new()
}

/// `nvme0` for `nvme0n1`, its partitions and its paths (`nvme0c1n1`).
fn nvme_controller(disk: &str) -> Option<String> {
    let number = disk.strip_prefix("nvme")?.split(['n', 'c']).next()?;
    is_number(number).then(|| format!("nvme{number}"))
}

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}
