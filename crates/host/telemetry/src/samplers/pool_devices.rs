//! The block devices below ZFS pools: the sampler of pools learns their names from its reports, and the sampler of
//! disks includes them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iodyno_host::{Roots, counters, stack};

use super::pool_text::PoolReport;

/// Folders in which a report's device name can be a link to the device; `zpool` prints only the last component.
const FOLDERS: [&str; 8] = [
    "dev",
    "dev/disk/by-id",
    "dev/disk/by-path",
    "dev/disk/by-vdev",
    "dev/disk/by-partuuid",
    "dev/disk/by-partlabel",
    "dev/disk/by-uuid",
    "dev/mapper",
];

/// The devices below pools. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct PoolDevices {
    roots: Roots,
    found: Arc<Mutex<Found>>,
}

#[derive(Debug, Default)]
struct Found {
    /// The leaves of the latest report: pool and name.
    leaves: Vec<(String, String)>,
    /// Kernel names of devices below leaves, each with its pool and each once.
    devices: Vec<(String, String)>,
}

impl PoolDevices {
    /// No devices are known yet.
    pub(crate) fn new(roots: &Roots) -> PoolDevices {
        PoolDevices {
            roots: roots.clone(),
            found: Arc::default(),
        }
    }

    /// Finds the devices of a report, unless they are unchanged. A pool's files may be on storage that does not
    /// respond: do not call this where blocking matters.
    pub(super) fn follow(&self, report: &PoolReport) {
        let leaves = report.leaves();
        let leaves: Vec<(String, String)> = leaves
            .map(|(pool, row)| (pool.to_owned(), row.name.clone()))
            .collect();
        if self.found().leaves == leaves {
            return;
        }
        let below: Vec<(String, String)> = (leaves.iter())
            .flat_map(|(pool, name)| {
                self.below(name)
                    .into_iter()
                    .map(|device| (device, pool.clone()))
            })
            .collect();
        let mut found = self.found();
        found.leaves = leaves;
        for (device, pool) in below {
            if !found.devices.iter().any(|known| known.0 == device) {
                found.devices.push((device, pool));
            }
        }
    }

    /// Passes each device and its pool to `each`.
    pub(crate) fn each(&self, mut each: impl FnMut(&str, &str)) {
        for (device, pool) in &self.found().devices {
            each(device, pool);
        }
    }

    /// Kernel names of the devices below a leaf with this name, top first.
    fn below(&self, name: &str) -> Vec<String> {
        let root = &self.roots.root;
        let path: Option<PathBuf> = match name.strip_prefix('/') {
            Some(file) => Some(root.join(file)),
            None => {
                let mut paths = FOLDERS.iter().map(|folder| root.join(folder).join(name));
                paths.find(|path| path.exists())
            }
        };
        let info = path.map(|path| stack::describe(&path, &self.roots));
        info.map_or(Vec::new(), |info| counters::devices(&[info]))
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool_text::PoolRow;
    use super::*;

    #[test]
    fn the_devices_below_files_and_disks_of_a_pool_are_found_once() {
        let roots = Roots::host();
        let folder = tempfile::tempdir().unwrap();
        let expected = counters::devices(&[stack::describe(folder.path(), &roots)]);
        let devices = PoolDevices::new(&roots);
        let row = |path: &str, name: &str| PoolRow {
            path: path.to_owned(),
            name: name.to_owned(),
            values: Vec::new(),
        };
        let file = folder.path().join("a.img");
        std::fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        let mut report = PoolReport {
            columns: Vec::new(),
            rows: vec![
                row("tank", "tank"),
                row("tank/mirror-0", "mirror-0"),
                row("tank/mirror-0/a", file),
                row("tank/mirror-0/b", "no-such-disk"),
                row("other", "other"),
                row("other/a", file),
            ],
        };
        // The first disk of this host, if there is one.
        let block = std::fs::read_dir("/sys/block")
            .into_iter()
            .flatten()
            .flatten();
        let disk = block.map(|disk| disk.file_name().into_string().unwrap());
        let disk = disk
            .filter(|disk| PathBuf::from("/dev").join(disk).exists())
            .min();
        let found = || {
            let mut found = Vec::new();
            devices.each(|device, pool| found.push((device.to_owned(), pool.to_owned())));
            found
        };
        devices.follow(&report);
        let mut expected: Vec<(String, String)> = expected
            .into_iter()
            .map(|device| (device, "tank".to_owned()))
            .collect();
        assert_eq!(found(), expected);
        if let Some(disk) = disk {
            report.rows.push(row("other/b", &disk));
            devices.follow(&report);
            if !expected.iter().any(|(device, _)| *device == disk) {
                expected.push((disk, "other".to_owned()));
            }
            assert_eq!(found()[..expected.len()], expected);
        }
    }
}
