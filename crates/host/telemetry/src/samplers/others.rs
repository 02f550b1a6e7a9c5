//! I/O of other processes: all except iodyno's own, those that the user named, and kernel threads.
//!
//! A process is reported with its own I/O ([`super::process_tree`]); a child that lived between two scans is part of
//! its parent. Programs that iodyno started are its own. A process that implements a file system in user space serves
//! [`FUSE`]: if such a file system is below the targets, its I/O can be that of the trial.
//!
//! A scan reads all processes. Scans use at most a thousandth of a core; they are more frequent at the start, so that
//! short trials have them as well. A process has a row from the scan in which it transferred [`MIN_BYTES`] until it
//! exits.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use iodyno_host::Roots;
use iodyno_model::{OTHERS, SeriesColumn, SeriesKind, SeriesRow};

use super::process_tree::ProcessTree;
use super::processes::{FUSE, Processes};
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::{ProcessName, Scope};
use crate::source::thread_cpu_ns;

/// Bytes of storage that a process must transfer between two scans to be reported.
const MIN_BYTES: u64 = 1 << 20;
/// Maximum number of rows: the processes that transfer most.
const ROWS: usize = 8;
/// Shortest time between scans: slightly less than the usual second between samples.
const LEAST: Duration = Duration::from_millis(900);
/// Longest time between scans, unless their cost requires more.
const MOST: Duration = Duration::from_secs(10);
/// The time to the next scan is at least this multiple of the scan's CPU time.
const SHARE: u32 = 1000;

/// The clocks that determine the pace. Parameters, so that tests need neither wait nor use CPU time.
pub(crate) trait Meter: Send {
    /// The current time.
    fn now(&mut self) -> Instant;

    /// CPU time that this thread has used so far.
    fn cpu(&mut self) -> Duration;
}

/// The host's own clocks.
pub(crate) struct HostMeter;

impl Meter for HostMeter {
    fn now(&mut self) -> Instant {
        Instant::now()
    }

    fn cpu(&mut self) -> Duration {
        Duration::from_nanos(thread_cpu_ns())
    }
}

/// A process with a row.
struct ListedProcess {
    pid: u32,
    row: SeriesRow,
}

/// The sampler of other processes.
pub(crate) struct Others<M> {
    meter: M,
    processes: Processes,
    own: Vec<u32>,
    named: Vec<ProcessName>,
    servers: Vec<u32>,
    /// Processes whose I/O is readable: storage bytes read and written.
    readable: ProcessTree<2>,
    /// iodyno's own processes, kernel threads and other excluded ones, with the last scan that found each.
    skipped: HashMap<u32, u64>,
    shown: Vec<ListedProcess>,
    /// Number of scans, and when the second was, from which counts start.
    scans: u64,
    begun: Instant,
    scanned: Instant,
    /// Time from the last scan to the next, by its cost.
    pace: Duration,
    /// Number of processes that cannot be read; `None`: already reported in a gap.
    unreadable: Option<usize>,
}

impl<M: Meter> Others<M> {
    pub(crate) fn open(mut meter: M, roots: &Roots, scope: &Scope) -> Others<M> {
        let now = meter.now();
        Others {
            meter,
            processes: Processes::new(roots.proc.clone()),
            own: scope.own.clone(),
            named: scope.processes.clone(),
            servers: scope.servers.clone(),
            readable: ProcessTree::new(),
            skipped: HashMap::new(),
            shown: Vec::new(),
            scans: 0,
            begun: now,
            scanned: now,
            pace: LEAST,
            unreadable: Some(0),
        }
    }

    /// Counts start with the first two scans. Then the time between scans increases up to the pace.
    fn is_due(&self, now: Instant) -> bool {
        let since_begin = now.saturating_duration_since(self.begun);
        let wait = self.pace.min(since_begin / 2).max(LEAST);
        self.scans < 2 || now.saturating_duration_since(self.scanned) >= wait
    }

    fn scan(&mut self) -> Result<(), String> {
        let mut all = self.processes.all()?;
        // Parents before their children: I/O that a child does in between is then reported by the next scan.
        all.sort_unstable();
        self.scans += 1;
        self.readable.begin_scan();
        for pid in all {
            if let Some(scan) = self.skipped.get_mut(&pid) {
                *scan = self.scans;
            } else if !self.own.contains(&pid) {
                self.read_process(pid);
            }
        }
        let scan = self.scans;
        self.skipped.retain(|_, seen| *seen == scan);
        let processes = &mut self.processes;
        self.readable
            .end_scan(|pid| processes.stat(pid).map(|stat| stat.parent));
        self.update_rows();
        Ok(())
    }

    fn read_process(&mut self, pid: u32) {
        let known = self.readable.contains(pid);
        match self.processes.io(pid) {
            Ok(io) => {
                let counts = [io.read_bytes, io.written_bytes];
                if !(known && self.readable.update(pid, counts)) {
                    self.add(pid, counts);
                }
            }
            // It has run as another user since exec(2).
            Err(_) if known && self.processes.stat(pid).is_some() => self.readable.keep(pid),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.skipped.insert(pid, self.scans);
                let of_kernel = self.processes.stat(pid).is_none_or(|stat| stat.of_kernel);
                self.unreadable = self.unreadable.map(|count| count + usize::from(!of_kernel));
            }
            // It has exited.
            Err(_) => {}
        }
    }

    /// Adds a process that was not there in the previous scan.
    fn add(&mut self, pid: u32, counts: [u64; 2]) {
        let Some(stat) = self.processes.stat(pid) else {
            return;
        };
        if stat.of_kernel || self.own.contains(&stat.parent) {
            self.skipped.insert(pid, self.scans);
            return;
        }
        // I/O before the first scan does not count.
        let since = if self.scans == 1 { counts } else { [0; 2] };
        self.readable.insert(pid, stat.parent, counts, since);
    }

    /// Adds rows for processes that transferred much, and removes those that exited or, if there are too many, are
    /// idle.
    fn update_rows(&mut self) {
        let tree = &self.readable;
        let moved = |pid: u32| {
            let growth = tree.growth(pid).unwrap_or_default();
            growth[0].saturating_add(growth[1])
        };
        let processes = &mut self.processes;
        self.shown.retain(|shown| tree.contains(shown.pid));
        let shown = |pid: u32, rows: &[ListedProcess]| rows.iter().any(|shown| shown.pid == pid);
        let mut new: Vec<(u64, u32)> = tree
            .pids()
            .map(|pid| (moved(pid), pid))
            .filter(|(moved, pid)| *moved >= MIN_BYTES && !shown(*pid, &self.shown))
            .collect();
        new.sort_unstable_by(|a, b| b.cmp(a));
        for (_, pid) in new.into_iter().take(ROWS) {
            // Checked only now, because it may have called exec(2) since it started.
            let named = processes.is_called(pid, &self.named);
            if named
                .or_else(|| processes.belongs(pid, &self.servers))
                .is_some()
            {
                continue;
            }
            let mut row = SeriesRow::new(format!("{}[{pid}]", processes.name(pid)));
            // A server's plugin may be a child of the server.
            let parent = processes.stat(pid).map(|stat| stat.parent);
            let mut both = [Some(pid), parent].into_iter().flatten();
            if both.any(|pid| processes.holds_fuse(pid)) {
                row.serves = Some(FUSE.to_owned());
            }
            if self.shown.len() == ROWS {
                let idle = self
                    .shown
                    .iter()
                    .position(|shown| moved(shown.pid) < MIN_BYTES);
                let Some(place) = idle else {
                    return;
                };
                self.shown.remove(place);
            }
            self.shown.push(ListedProcess { pid, row });
        }
    }
}

impl<M: Meter> Sampler for Others<M> {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Others
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let now = self.meter.now();
        if !self.is_due(now) {
            return Ok(Read::Nothing);
        }
        let cpu = self.meter.cpu();
        self.scan()?;
        let used = self.meter.cpu().saturating_sub(cpu);
        self.pace = (used * SHARE).clamp(LEAST, MOST);
        self.scanned = now;
        if self.scans <= 2 {
            self.begun = now;
        }
        let mut fill = into.fill(OTHERS);
        for shown in &self.shown {
            let values = self.readable.own(shown.pid).map(|own| own.map(Some));
            fill.row(
                |there| *there == shown.row,
                || shown.row.clone(),
                values.unwrap_or_default(),
            );
        }
        fill.done();
        Ok(Read::Fresh)
    }

    fn missed(&mut self) -> Vec<String> {
        let as_root = rustix::process::geteuid().is_root();
        let gap = self
            .unreadable
            .and_then(|count| unreadable(count, self.readable.pids().count(), as_root));
        if gap.is_some() {
            self.unreadable = None;
        }
        gap.into_iter().collect()
    }

    fn began_at(&self, row: &SeriesRow, column: &SeriesColumn) -> Option<u64> {
        let shown = self.shown.iter().find(|shown| shown.row.name == row.name)?;
        let place = OTHERS.iter().position(|known| known.0 == column.name)?;
        let (own, growth) = (
            self.readable.own(shown.pid)?,
            self.readable.growth(shown.pid)?,
        );
        own.get(place)?.checked_sub(*growth.get(place)?)
    }
}

/// The text of a gap for unreadable processes. Root can read nearly all processes: as root, the gap is reported only
/// if most are unreadable.
fn unreadable(count: usize, readable: usize, as_root: bool) -> Option<String> {
    if count == 0 || (as_root && count <= readable) {
        return None;
    }
    let processes = if count == 1 { "process" } else { "processes" };
    let remedy = if as_root {
        ""
    } else {
        ": run as root to see them"
    };
    Some(format!(
        "I/O of {count} other {processes} cannot be read{remedy}"
    ))
}

#[cfg(test)]
mod tests;
