//! Brings the host into the same state before each trial: dirty data are written back, caches are dropped,
//! and the devices below the targets are idle.
//!
//! Does not write to targets. A step that is not permitted or does not finish in time is reported and is
//! not an error, because the trial can still run.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_host::counters::{self, DiskStats, disk_stats};
use iodyno_host::{Roots, stack, text};
use iodyno_model::Settling;
use serde::{Deserialize, Serialize};

/// A device is idle if it did nothing for this time: write-back and journals have shorter intervals.
const QUIET: Duration = Duration::from_millis(500);
/// The same for a device that moved no data while everything dirty was written out: nothing is due on it.
const QUIET_AFTER_SYNC: Duration = Duration::from_millis(150);
/// Interval at which devices and cancellation are checked.
const LOOK: Duration = Duration::from_millis(50);
/// The longest wait for a sync: a longer one waits for a device or server that does not respond.
const PATIENCE: Duration = Duration::from_secs(300);

/// Why the host is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsettled {
    /// Caches still contain data from the previous trial.
    CachesKept {
        /// Why they were not dropped.
        why: String,
    },
    /// Devices below the targets were still busy.
    NotIdle {
        /// Time waited, ns.
        after_ns: u64,
        /// Kernel names.
        devices: Vec<String>,
    },
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsettled::CachesKept { why } => {
                write!(f, "the page cache was not dropped before the trial: {why}")
            }
            Unsettled::NotIdle { after_ns, devices } => write!(
                f,
                "{} not idle before the trial, after {:.1} s of waiting",
                match devices.as_slice() {
                    [one] => format!("{one} was"),
                    several => format!("{} were", several.join(", ")),
                },
                *after_ns as f64 / 1e9
            ),
        }
    }
}

/// Settles the host. `targets` are the paths of the I/O; their devices must become idle. Returns shortly after
/// `cancelled` returns true. Activity is read from /proc/diskstats: a device with `iostats` off looks idle, and storage
/// without a block device (ZFS pools, FUSE, network file systems) is not waited for. A separate thread may remain
/// blocked in the kernel; the process cannot exit before it returns.
pub fn settle(
    roots: &Roots,
    settling: &Settling,
    targets: &[PathBuf],
    cancelled: &dyn Fn() -> bool,
) -> Vec<Unsettled> {
    let clock = HostClock(Instant::now());
    settle_by(
        &clock,
        rustix::fs::sync,
        roots,
        settling,
        targets,
        cancelled,
    )
}

/// Like [`settle`], with the clock and the sync call as parameters.
fn settle_by(
    clock: &impl Clock,
    sync: impl FnOnce() + Send + 'static,
    roots: &Roots,
    settling: &Settling,
    targets: &[PathBuf],
    cancelled: &dyn Fn() -> bool,
) -> Vec<Unsettled> {
    let mut unsettled = Vec::new();
    let devices = match settling.idle_ns > 0 {
        true => {
            let described = targets.iter().map(|target| stack::describe(target, roots));
            counters::devices(&described.collect::<Vec<_>>())
        }
        false => Vec::new(),
    };
    let mut synced_since = None;
    if settling.drop_caches {
        synced_since = Some(look(roots, &devices));
        let file = roots.proc.join("sys/vm/drop_caches");
        let work = move || drop_caches(sync, &file);
        unsettled.extend(within_patience(work, PATIENCE, cancelled));
    }
    if settling.idle_ns > 0 {
        let at_most = Duration::from_nanos(settling.idle_ns);
        let synced_since = synced_since.filter(|_| unsettled.is_empty());
        let idle = await_idle(clock, roots, &devices, at_most, synced_since, cancelled);
        unsettled.extend(idle);
    }
    unsettled
}

/// The clock, replaceable so that tests need not wait.
trait Clock {
    /// Time since a fixed instant.
    fn now(&self) -> Duration;

    /// Waits for this time.
    fn sleep(&self, span: Duration);
}

/// Time since the contained instant.
struct HostClock(Instant);

impl Clock for HostClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, span: Duration) {
        thread::sleep(span);
    }
}

/// Only clean pages can be dropped, so dirty data are written back first.
fn drop_caches(sync: impl FnOnce(), file: &Path) -> io::Result<()> {
    sync();
    // Page cache, dentries and inodes.
    OpenOptions::new().write(true).open(file)?.write_all(b"3\n")
}

/// A sync and dropping caches cannot be cancelled: the thread may continue in the background.
fn within_patience(
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
    patience: Duration,
    cancelled: &dyn Fn() -> bool,
) -> Option<Unsettled> {
    let begun = Instant::now();
    let (sender, ended) = mpsc::channel();
    let started = thread::Builder::new()
        .name("settle".to_owned())
        .spawn(move || {
            // The receiver may have stopped waiting.
            let _ = sender.send(work());
        });
    if let Err(error) = started {
        return Some(kept(error.to_string()));
    }
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => return Some(kept(error.to_string())),
            Err(RecvTimeoutError::Timeout) if cancelled() => return None,
            Err(RecvTimeoutError::Timeout) if begun.elapsed() < patience => {}
            Err(_) => {
                let waited = patience.as_secs();
                return Some(kept(format!("data were not written out within {waited} s")));
            }
        }
    }
}

fn kept(why: String) -> Unsettled {
    Unsettled::CachesKept { why }
}

fn await_idle(
    clock: &impl Clock,
    roots: &Roots,
    devices: &[String],
    at_most: Duration,
    synced_since: Option<Vec<(String, DiskStats)>>,
    cancelled: &dyn Fn() -> bool,
) -> Option<Unsettled> {
    let mut before = look(roots, devices);
    if before.is_empty() {
        return None;
    }
    let mut quiet = match synced_since {
        Some(earlier) if !moved_data(&earlier, &before) => QUIET_AFTER_SYNC,
        _ => QUIET,
    };
    let begun = clock.now();
    let mut quiet_since = begun;
    let mut busy = Vec::new();
    while clock.now() - quiet_since < quiet {
        let waited = clock.now() - begun;
        if waited >= at_most {
            // If the permitted time is too short to detect activity, nothing was observed.
            return (!busy.is_empty()).then_some(Unsettled::NotIdle {
                after_ns: waited.as_nanos() as u64,
                devices: busy,
            });
        }
        clock.sleep(LOOK);
        if cancelled() {
            return None;
        }
        let now = look(roots, devices);
        let at_work = at_work(&before, &now);
        if !at_work.is_empty() {
            (quiet_since, busy, quiet) = (clock.now(), at_work, QUIET);
        }
        before = now;
    }
    None
}

/// The counters of these devices.
fn look(roots: &Roots, devices: &[String]) -> Vec<(String, DiskStats)> {
    let text = text(roots.proc.join("diskstats")).unwrap_or_default();
    let mut stats = disk_stats(&text);
    stats.retain(|(name, _)| devices.contains(name));
    stats
}

/// Whether any device read, wrote or discarded data between two readings; a sync alone may send flushes.
fn moved_data(before: &[(String, DiskStats)], now: &[(String, DiskStats)]) -> bool {
    let bytes = |stats: &[(String, DiskStats)]| -> Vec<_> {
        let stats = stats.iter();
        stats
            .map(|(name, stats)| (name.clone(), stats.bytes()))
            .collect()
    };
    bytes(before) != bytes(now)
}

/// The devices with completed ops between two readings, or with ops in flight.
fn at_work(before: &[(String, DiskStats)], now: &[(String, DiskStats)]) -> Vec<String> {
    now.iter()
        .filter(|(name, stats)| {
            let earlier = before.iter().find(|earlier| earlier.0 == *name);
            stats.in_flight() > 0 || earlier.is_some_and(|earlier| earlier.1 != *stats)
        })
        .map(|(name, _)| name.clone())
        .collect()
}

#[cfg(test)]
mod tests;
