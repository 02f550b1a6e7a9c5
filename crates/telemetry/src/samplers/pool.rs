//! ZFS pools and their devices, from one `zpool iostat` process that runs as long as the collector.
//!
//! A thread reads its output, so that a sample uses the latest report and never waits. A command that exits is
//! restarted, at most every ten seconds. It is stopped with the collector; if iodyno is killed, it exits at its next
//! report because its output is closed.
//!
//! Reports are not synchronous with samples: the values of a sample are up to one interval old.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iodyno_model::{POOL, SeriesKind, SeriesRow};
use iodyno_target::Roots;

use super::arc::has_zfs_fuse;
use super::pool_child::{Command, Iostat, Pace};
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::{Pools, Scope};

/// A command without output for three intervals and this long counts as hanging.
const GRACE: Duration = Duration::from_secs(5);

/// The sampler of pools.
pub(crate) struct Pool {
    iostat: Result<Iostat, String>,
    /// The number of the last report used.
    seen: u64,
    hangs_after: Duration,
}

impl Pool {
    /// `None`: no pools are requested, or this host has no ZFS.
    pub(crate) fn open(roots: &Roots, scope: &Scope) -> Option<Pool> {
        Pool::at_pace(roots, scope, Pace::USUAL)
    }

    fn at_pace(roots: &Roots, scope: &Scope, pace: Pace) -> Option<Pool> {
        let pools = match &scope.pools {
            Pools::Named(pools) if pools.is_empty() => return None,
            Pools::Named(pools) => pools.clone(),
            // Without ZFS, running zpool would load the kernel module.
            Pools::All if !has_zfs(roots) => return None,
            Pools::All => Vec::new(),
        };
        let missing = || "zpool is not installed".to_owned();
        let iostat = program(roots).ok_or_else(missing).and_then(|program| {
            Iostat::start(Command {
                program,
                pools,
                every: scope.every,
                pace,
            })
        });
        Some(Pool {
            iostat,
            seen: 0,
            // Some versions report at whole seconds only.
            hangs_after: scope.every.max(Duration::from_secs(1)) * 3 + GRACE,
        })
    }

    /// As [`Sampler::read`], at an instant.
    fn read_at(&mut self, now: Instant, into: &mut Readings) -> Result<Read, String> {
        let iostat = self.iostat.as_ref().map_err(String::clone)?;
        let state = iostat.state();
        if state.number != self.seen {
            self.seen = state.number;
            let mut fill = into.fill(POOL);
            for (name, values) in &state.report.rows {
                let new = || SeriesRow::new(name.as_str());
                fill.row(|row| row.name == *name, new, *values);
            }
            fill.done();
            return Ok(Read::Fresh);
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
}

impl Sampler for Pool {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Pool
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        self.read_at(Instant::now(), into)
    }

    fn close(&mut self) {
        if let Ok(iostat) = &mut self.iostat {
            iostat.stop();
        }
    }
}

/// Whether there are statistics of ZFS in the kernel, or of zfs-fuse.
fn has_zfs(roots: &Roots) -> bool {
    roots.proc.join("spl/kstat/zfs").exists() || has_zfs_fuse(roots)
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
