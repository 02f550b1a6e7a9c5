//! ZFS pools and their devices, from one `zpool iostat` that goes on for as long as the station does.
//!
//! A thread of its own reads what the command says, so that a sample takes what there is and never waits. A command that
//! ends is started again, at most every ten seconds. It ends with the station; where that is killed, it ends by itself
//! with the next report, which nobody reads.
//!
//! Its reports come at a pace of their own: what a sample holds was measured up to one interval before.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iodyno_model::{POOL, SeriesKind, SeriesRow};
use iodyno_target::Roots;

use super::arc::has_zfs_fuse;
use super::pool_child::{Command, Keeper, Pace};
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::{Pools, Scope};

/// Beside three intervals: when a command that says nothing is worth a word.
const SILENCE: Duration = Duration::from_secs(5);

/// Pools, or why there are none.
pub(crate) struct Pool {
    keeper: Result<Keeper, String>,
    /// The number of the report that was read last.
    seen: u64,
    patience: Duration,
}

impl Pool {
    /// `None`: nobody asks for pools, or this host has no ZFS.
    pub(crate) fn open(roots: &Roots, scope: &Scope) -> Option<Pool> {
        Pool::at_pace(roots, scope, Pace::USUAL)
    }

    fn at_pace(roots: &Roots, scope: &Scope, pace: Pace) -> Option<Pool> {
        let pools = match &scope.pools {
            Pools::Named(pools) if pools.is_empty() => return None,
            Pools::Named(pools) => pools.clone(),
            // To ask where there is no ZFS would have the kernel load it.
            Pools::All if !has_zfs(roots) => return None,
            Pools::All => Vec::new(),
        };
        let missing = || "zpool is not installed".to_owned();
        let keeper = program(roots).ok_or_else(missing).and_then(|program| {
            Keeper::start(Command {
                program,
                pools,
                every: scope.every,
                pace,
            })
        });
        Some(Pool {
            keeper,
            seen: 0,
            // Where only whole seconds are possible, they are what it waits for.
            patience: scope.every.max(Duration::from_secs(1)) * 3 + SILENCE,
        })
    }

    /// As [`Sampler::read`], at an instant.
    fn read_at(&mut self, now: Instant, into: &mut Readings) -> Result<Read, String> {
        let keeper = self.keeper.as_ref().map_err(String::clone)?;
        let state = keeper.state();
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
        if let Some(trouble) = &state.trouble {
            return Err(trouble.clone());
        }
        let silent = now.saturating_duration_since(state.heard);
        match silent > self.patience {
            true => Err(format!(
                "`zpool iostat` has said nothing of use for {} s",
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
        if let Ok(keeper) = &mut self.keeper {
            keeper.stop();
        }
    }
}

/// Statistics of ZFS in the kernel, or of zfs-fuse.
fn has_zfs(roots: &Roots) -> bool {
    roots.proc.join("spl/kstat/zfs").exists() || has_zfs_fuse(roots)
}

/// Where `zpool` is: as the shell would find it, or where only root would.
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
