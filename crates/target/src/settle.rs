//! Lets the host come to rest before a trial, so that each begins alike: dirty data are written out,
//! caches are dropped, and the devices below the targets have nothing left to do.
//!
//! Writes to no target. What is not allowed, or does not come about in time, is told and never an
//! error: a trial can be made all the same, and its reader has to know.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_model::Settling;

use crate::counters::{self, DiskStats, disk_stats};
use crate::roots::{self, Roots};
use crate::stack;

/// A device that did nothing for so long is idle: write-back and journals work in shorter intervals
/// while they have anything to do.
const QUIET: Duration = Duration::from_millis(500);
/// How often devices, and the wish to stop, are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// A sync that lasts longer hangs on a device or server that no longer answers.
const PATIENCE: Duration = Duration::from_secs(300);

/// In what a host did not come to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsettled {
    /// Caches hold what the trial before left in them.
    CachesKept {
        /// Why they were not dropped.
        why: String,
    },
    /// Devices below the targets were still at work.
    NotIdle {
        /// How long was waited, ns.
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

/// Lets the host come to rest. `targets` are the paths that the I/O goes to, whose devices are waited
/// for. Ends within a moment once `cancelled` says so. What a device does is seen in
/// /proc/diskstats: one whose `iostats` are off looks idle, and storage without a block
/// device (ZFS pools, FUSE, networks) is not waited for.
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

/// As [`settle`], with the clock and the call that writes out all dirty data passed in.
fn settle_by(
    clock: &impl Clock,
    sync: impl FnOnce() + Send + 'static,
    roots: &Roots,
    settling: &Settling,
    targets: &[PathBuf],
    cancelled: &dyn Fn() -> bool,
) -> Vec<Unsettled> {
    let mut unsettled = Vec::new();
    if settling.drop_caches {
        let file = roots.proc.join("sys/vm/drop_caches");
        let work = move || drop_caches(sync, &file);
        unsettled.extend(within_patience(work, PATIENCE, cancelled));
    }
    if settling.idle_ns > 0 {
        let described: Vec<_> = targets
            .iter()
            .map(|target| stack::describe(target, roots))
            .collect();
        let devices = counters::devices(&described);
        let at_most = Duration::from_nanos(settling.idle_ns);
        unsettled.extend(await_idle(clock, roots, &devices, at_most, cancelled));
    }
    unsettled
}

/// The time by which devices are idle. Passed in, so that tests need not wait.
trait Clock {
    /// Since an instant that stays the same.
    fn now(&self) -> Duration;

    /// Returns after that time.
    fn sleep(&self, span: Duration);
}

/// Since the instant that it holds.
struct HostClock(Instant);

impl Clock for HostClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, span: Duration) {
        thread::sleep(span);
    }
}

/// Only what is clean can be dropped: dirty data are written out before.
fn drop_caches(sync: impl FnOnce(), file: &Path) -> io::Result<()> {
    sync();
    // Page cache, dentries and inodes.
    OpenOptions::new().write(true).open(file)?.write_all(b"3\n")
}

/// Neither a sync nor the dropping can be called off: a thread of its own may stay behind.
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
            // Whoever waited may have gone.
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
    cancelled: &dyn Fn() -> bool,
) -> Option<Unsettled> {
    let look = || -> Vec<(String, DiskStats)> {
        let text = roots::text(roots.proc.join("diskstats")).unwrap_or_default();
        let mut stats = disk_stats(&text);
        stats.retain(|(name, _)| devices.contains(name));
        stats
    };
    let mut before = look();
    if before.is_empty() {
        return None;
    }
    let begun = clock.now();
    let mut quiet_since = begun;
    let mut busy = Vec::new();
    while clock.now() - quiet_since < QUIET {
        let waited = clock.now() - begun;
        if waited >= at_most {
            // None was seen at work if less was to be waited than it takes to tell.
            return (!busy.is_empty()).then_some(Unsettled::NotIdle {
                after_ns: waited.as_nanos() as u64,
                devices: busy,
            });
        }
        clock.sleep(LOOK);
        if cancelled() {
            return None;
        }
        let now = look();
        let at_work = at_work(&before, &now);
        if !at_work.is_empty() {
            (quiet_since, busy) = (clock.now(), at_work);
        }
        before = now;
    }
    None
}

/// The devices that did anything between two looks, or still do.
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
