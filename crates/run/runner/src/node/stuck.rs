//! Detects stuck storage: ops or steps are in progress, none has ended for a given time, and neither the devices nor
//! writeback have made progress meanwhile. A long fsync that writes to its device is not stuck.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use iodyno_host::counters::{DiskStats, disk_stats};
use iodyno_host::{Roots, meminfo_bytes};
use iodyno_model::{StackLayer, TargetInfo};

use crate::clock;
use crate::node::control::Control;
use crate::node::message_writer::MessageSender;

/// The longest time between two checks, ns.
const LOOK_NS: u64 = 1_000_000_000;
/// How often a [`StuckGuard`] checks.
const GUARD_LOOK: Duration = Duration::from_millis(100);
/// Once the user has ended the trial, a step without progress is given up after this time, ns.
const STOPPED_NS: u64 = 750_000_000;

/// Reads the progress of a trial's storage.
#[derive(Debug)]
pub(crate) struct StorageProgress {
    roots: Roots,
    /// Kernel names. Empty: the storage has no block device (NFS, FUSE, ZFS), and writeback of the host is read.
    devices: Vec<String>,
}

/// One reading of counters that only I/O changes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reading {
    /// Bytes that each device has read, written and discarded. Completed ops are not counted: a flush of anyone
    /// completes as a write without data, also on a device that writes nothing.
    Devices(Vec<(String, Vec<Option<u64>>)>),
    /// Dirty memory of the host and memory under writeback, bytes.
    Writeback(u64),
}

impl Reading {
    /// Whether I/O has completed between the two readings. More dirty pages are not progress.
    fn advanced(&self, later: &Reading) -> bool {
        match (self, later) {
            (Reading::Writeback(before), Reading::Writeback(now)) => now < before,
            (before, now) => before != now,
        }
    }
}

impl StorageProgress {
    /// The progress of the storage of these targets.
    pub(crate) fn of(targets: &[TargetInfo]) -> StorageProgress {
        StorageProgress {
            roots: Roots::host(),
            devices: targets
                .iter()
                .flat_map(|target| devices(&target.stack))
                .collect(),
        }
    }

    fn read(&self) -> Reading {
        let text = |name| std::fs::read_to_string(self.roots.proc.join(name)).unwrap_or_default();
        if self.devices.is_empty() {
            let memory = text("meminfo");
            let bytes =
                ["Dirty", "Writeback", "WritebackTmp"].map(|name| meminfo_bytes(&memory, name));
            return Reading::Writeback(bytes.into_iter().flatten().sum());
        }
        let stats = disk_stats(&text("diskstats")).into_iter();
        let ours = stats.filter(|(name, _)| self.devices.contains(name));
        let moved = |(name, stats): (String, DiskStats)| (name, stats.bytes().to_vec());
        Reading::Devices(ours.map(moved).collect())
    }
}

/// The topmost devices of a target. Devices further down can serve other users as well.
fn devices(stack: &[StackLayer]) -> Vec<String> {
    let mut layers = stack.iter();
    let several = |layer: &StackLayer| match layer {
        StackLayer::Mount(mount) => mount.file_system == "btrfs",
        _ => false,
    };
    let several = stack.first().is_some_and(several);
    let first = layers.find_map(StackLayer::device);
    let rest = layers
        .take_while(|layer| several && !matches!(layer, StackLayer::Mount(_)))
        .filter_map(StackLayer::device);
    first
        .into_iter()
        .chain(rest)
        .map(|device| device.name.clone())
        .collect()
}

/// Detects that work has made no progress for too long. Instants are those of the caller's clock, ns.
#[derive(Debug)]
pub(crate) struct StuckWatch {
    limit_ns: u64,
    storage: Option<StorageProgress>,
    done: u64,
    reading: Option<Reading>,
    since: u64,
}

impl StuckWatch {
    /// `limit_ns`: the longest time without progress; 0: unlimited. `storage`: its progress counts in addition to that
    /// of the work.
    pub(crate) fn new(limit_ns: u64, storage: Option<StorageProgress>, now: u64) -> StuckWatch {
        StuckWatch {
            limit_ns,
            storage,
            done: 0,
            reading: None,
            since: now,
        }
    }

    /// Call this when the work begins.
    pub(crate) fn begin(&mut self, now: u64) {
        (self.reading, self.since) = (None, now);
    }

    /// The longest time between two checks, ns; `None`: no limit was set.
    pub(crate) fn every_ns(&self) -> Option<u64> {
        (self.limit_ns > 0).then(|| LOOK_NS.min(self.limit_ns / 4).max(1))
    }

    /// Whether the work is stuck. `done`: the amount of work that has ended; `waiting`: whether work is in progress.
    pub(crate) fn look(&mut self, now: u64, done: u64, waiting: bool) -> bool {
        if !waiting || done != self.done {
            (self.done, self.reading, self.since) = (done, None, now);
            return false;
        }
        if let Some(storage) = &self.storage {
            let reading = storage.read();
            let before = self.reading.replace(reading);
            let advanced = before.zip(self.reading.as_ref());
            if advanced.is_some_and(|(before, now)| before.advanced(now)) {
                self.since = now;
            }
        }
        self.limit_ns > 0 && now.saturating_sub(self.since) >= self.limit_ns
    }
}

/// Watches a step that the trial thread performs itself and that can block in the kernel: the preparation or removal of
/// files. Each message that is sent counts as progress. Dropping the guard ends the watch.
#[derive(Debug)]
pub(crate) struct StuckGuard {
    _over: Sender<()>,
}

impl StuckGuard {
    /// Calls `stuck` on a separate thread, at most once: when the step has made no progress for `limit_ns` (0:
    /// unlimited) or, if `until_stopped`, for [`STOPPED_NS`] after the user has ended the trial. `targets` returns the
    /// targets of the step.
    pub(crate) fn watch(
        limit_ns: u64,
        until_stopped: bool,
        (control, messages): (&Control, &MessageSender),
        targets: impl FnOnce() -> Vec<TargetInfo> + Send + 'static,
        stuck: impl FnOnce() + Send + 'static,
    ) -> StuckGuard {
        let (over, ended) = mpsc::channel();
        let (control, messages) = (control.clone(), messages.clone());
        let work = move || {
            let mut hurried = false;
            let mut watch = StuckWatch::new(limit_ns, None, clock::now());
            let mut targets = Some(targets);
            while ended.recv_timeout(GUARD_LOOK) == Err(RecvTimeoutError::Timeout) {
                let now = clock::now();
                if until_stopped && !hurried && control.stop.is_set() {
                    hurried = true;
                    watch = StuckWatch::new(STOPPED_NS, None, now);
                }
                if watch.look(now, messages.sent(), true) {
                    return stuck();
                }
                // Most steps end earlier, so the storage stack below the targets is read only now.
                if !hurried
                    && now.saturating_sub(watch.since) >= LOOK_NS
                    && let Some(targets) = targets.take()
                {
                    watch.storage = Some(StorageProgress::of(&targets()));
                }
            }
        };
        // Without the thread the step is not watched; the parent still ends it when the user requests a stop.
        let _ = thread::Builder::new()
            .name("stuck-guard".to_owned())
            .spawn(work);
        StuckGuard { _over: over }
    }
}

#[cfg(test)]
mod tests {
    use iodyno_model::{DeviceLayer, MountInfo};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A host whose device has completed `flushes` flushes and `writes` writes, with `dirty_kib` of dirty memory.
    fn host(root: &std::path::Path, (flushes, writes): (u64, u64), dirty_kib: u64) {
        // A flush is a write without sectors as well. Time in flight grows while an op hangs.
        let (all, sectors) = (flushes + writes, 8 * writes);
        let stats = format!(
            "   7 0 loop0 1 0 8 0 {all} 0 {sectors} 0 1 {all}5 {all}7 0 0 0 0 {flushes} {flushes}3\n"
        );
        std::fs::write(root.join("diskstats"), stats).unwrap();
        let memory = format!("MemTotal: 99 kB\nDirty: {dirty_kib} kB\nWriteback:      3 kB\n");
        std::fs::write(root.join("meminfo"), memory).unwrap();
    }

    fn watch(root: &std::path::Path, devices: &[&str]) -> StuckWatch {
        let mut roots = Roots::host();
        roots.proc = root.to_owned();
        let devices = devices.iter().map(|name| (*name).to_owned()).collect();
        StuckWatch::new(30 * SECOND, Some(StorageProgress { roots, devices }), 0)
    }

    #[test]
    fn work_is_stuck_after_the_limit_without_completions_and_device_progress() {
        let folder = tempfile::tempdir().unwrap();
        host(folder.path(), (0, 5), 0);
        let mut watch = watch(folder.path(), &["loop0"]);
        assert!(!watch.look(SECOND, 9, true));
        assert!(!watch.look(30 * SECOND, 9, true));
        // A completion, and then a device that writes.
        assert!(!watch.look(40 * SECOND, 10, true));
        assert!(!watch.look(60 * SECOND, 10, true));
        host(folder.path(), (0, 6), 0);
        assert!(!watch.look(69 * SECOND, 10, true));
        // A sync of another process ends, and nothing was written.
        host(folder.path(), (1, 6), 0);
        assert!(!watch.look(98 * SECOND, 10, true));
        assert!(watch.look(99 * SECOND, 10, true));
    }

    #[test]
    fn nothing_is_stuck_without_work_in_progress_or_without_a_limit() {
        let mut watch = StuckWatch::new(30 * SECOND, None, 0);
        assert!(!watch.look(100 * SECOND, 0, false));
        assert!(!watch.look(129 * SECOND, 0, true));
        assert!(watch.look(130 * SECOND, 0, true));
        let mut endless = StuckWatch::new(0, None, 0);
        assert!(!endless.look(u64::MAX, 0, true) && endless.every_ns().is_none());
    }

    #[test]
    fn storage_without_a_device_progresses_when_unwritten_pages_become_fewer() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = watch(folder.path(), &[]);
        for (at, dirty_kib, stuck) in [
            (1, 50, false),
            (20, 60, false),
            (29, 90, false),
            (31, 80, false),
            (60, 95, false),
            (61, 99, true),
        ] {
            host(folder.path(), (0, 0), dirty_kib);
            assert_eq!(watch.look(at * SECOND, 0, true), stuck, "{at}");
        }
    }

    #[test]
    fn only_the_devices_that_the_target_s_i_o_goes_to_first_count() {
        let device = |name: &str| DeviceLayer {
            name: name.to_owned(),
            ..DeviceLayer::default()
        };
        let mount = |file_system: &str| {
            StackLayer::Mount(MountInfo {
                file_system: file_system.to_owned(),
                ..MountInfo::default()
            })
        };
        let on = |file_system: &str| {
            let file = "/f".into();
            let device_of_file = StackLayer::Loop {
                device: device("loop0"),
                file,
                direct: false,
            };
            let below = [mount("ext4"), StackLayer::Disk(device("sda"))];
            let second = StackLayer::Disk(device("sdb"));
            let top = [mount(file_system), device_of_file, second];
            devices(&top.into_iter().chain(below).collect::<Vec<_>>())
        };
        assert_eq!(on("ext4"), ["loop0"]);
        assert_eq!(on("btrfs"), ["loop0", "sdb"]);
        assert_eq!(devices(&[StackLayer::Other("nfs".to_owned())]), [""; 0]);
    }
}
