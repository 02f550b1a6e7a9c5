//! ZFS pools and their devices, from one `zpool iostat` process that runs as long as the collector.
//!
//! A thread reads its output, so that sampling never waits. Each report is a separate sample, at its time of arrival:
//! reports are not synchronous with the samples of other series. Activity after the last report is unknown. A command
//! that exits is restarted, at most every ten seconds. It is stopped with the collector; if iodyno is killed, it exits
//! at its next report because its output is closed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iodyno_host::Roots;
use iodyno_model::{POOL, SeriesColumn, SeriesKind, SeriesRow};

use super::arc::{has_zfs_fuse, runs_zfs_fuse};
use super::pool_child::{Command, Iostat, Pace};
use super::pool_devices::PoolDevices;
use super::pool_text::PoolReport;
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::{Pools, Scope};

/// A command without output for three intervals and this long counts as hanging.
const GRACE: Duration = Duration::from_secs(5);

/// The sampler of pools.
pub(crate) struct Pool {
    iostat: Result<Iostat, String>,
    /// Lost reports, and intervals without a report, as reported so far.
    lost: (u64, u64),
    /// The columns of the last report, as places in [`POOL`].
    columns: Vec<usize>,
    hangs_after: Duration,
}

impl Pool {
    /// `None`: no pools are requested, or this host has no ZFS. `devices` receives the devices of the pools.
    pub(crate) fn open(roots: &Roots, scope: &Scope, devices: &PoolDevices) -> Option<Pool> {
        Pool::at_pace(roots, scope, devices, Pace::USUAL)
    }

    fn at_pace(roots: &Roots, scope: &Scope, devices: &PoolDevices, pace: Pace) -> Option<Pool> {
        let pools = match &scope.pools {
            Pools::Named(pools) if pools.is_empty() => return None,
            Pools::Named(pools) => pools.clone(),
            // Without ZFS, running zpool would load the kernel module.
            Pools::All if !has_zfs(roots) => return None,
            Pools::All => Vec::new(),
        };
        let missing = || "zpool is not installed".to_owned();
        let iostat = program(roots).ok_or_else(missing).and_then(|program| {
            let command = Command {
                program,
                pools,
                every: scope.every,
                pace,
            };
            Iostat::start(command, devices.clone())
        });
        Some(Pool {
            iostat,
            lost: (0, 0),
            columns: Vec::new(),
            // Some versions report at whole seconds only.
            hangs_after: scope.every.max(Duration::from_secs(1)) * 3 + GRACE,
        })
    }

    /// As [`Sampler::read`], at an instant.
    fn read_at(&mut self, now: Instant, into: &mut Readings) -> Result<Read, String> {
        let iostat = self.iostat.as_ref().map_err(String::clone)?;
        let mut state = iostat.state();
        if let Some((at, report)) = state.reports.pop_front() {
            drop(state);
            self.fill(&report, into);
            let age = now.saturating_duration_since(at);
            return Ok(Read::Earlier(age.as_nanos() as u64));
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let silent = now.saturating_duration_since(state.last_report);
        match silent > self.hangs_after {
            true => Err(format!(
                "`zpool iostat` has had no usable output for {} s",
                silent.as_secs()
            )),
            false => Ok(Read::Nothing),
        }
    }

    fn fill(&mut self, report: &PoolReport, into: &mut Readings) {
        if self.columns != report.columns || into.columns.is_empty() {
            self.columns.clone_from(&report.columns);
            let all = SeriesColumn::of(POOL);
            into.columns = report.columns.iter().map(|at| all[*at].clone()).collect();
        }
        let mut fill = into.refill();
        for row in &report.rows {
            let new = || SeriesRow::new(row.path.as_str());
            fill.row(
                |known| known.name == row.path,
                new,
                row.values.iter().copied(),
            );
        }
        fill.done();
    }
}

/// Why there are fewer reports than intervals; `before` and `now` are the numbers of reports that were dropped, and of
/// those that counted since boot.
fn losses(before: (u64, u64), now: (u64, u64)) -> Vec<String> {
    let dropped = now.0 - before.0;
    let dropped = (dropped > 0).then(|| {
        format!(
            "{dropped} reports of `zpool iostat` are lost: they came faster than they were read"
        )
    });
    let since_boot = (now.1 > before.1).then(|| {
        "a report of `zpool iostat` is missing: after a pool appears or disappears, the next one counts since boot"
            .to_owned()
    });
    dropped.into_iter().chain(since_boot).collect()
}

impl Sampler for Pool {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Pool
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        self.read_at(Instant::now(), into)
    }

    fn missed(&mut self) -> Vec<String> {
        let Ok(iostat) = &self.iostat else {
            return Vec::new();
        };
        let state = iostat.state();
        let now = (state.dropped, state.since_boot);
        losses(std::mem::replace(&mut self.lost, now), now)
    }

    fn close(&mut self) {
        if let Ok(iostat) = &mut self.iostat {
            iostat.stop();
        }
    }
}

/// Whether ZFS is in the kernel, or zfs-fuse runs.
fn has_zfs(roots: &Roots) -> bool {
    roots.proc.join("spl/kstat/zfs").exists() || has_zfs_fuse(roots) || runs_zfs_fuse(roots)
}

/// The path of `zpool`: in $PATH, or in the folders for root.
fn program(roots: &Roots) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).collect::<Vec<PathBuf>>();
    let usual = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let below = |folder: &PathBuf| {
        let folder = folder.strip_prefix("/").unwrap_or(Path::new(""));
        roots.root.join(folder).join("zpool")
    };
    let mut all = folders.iter().chain(&usual).map(below);
    all.find(|program| program.is_file())
}

#[cfg(test)]
mod tests;
