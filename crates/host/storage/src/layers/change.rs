//! Changes of a target between trials.

use std::path::Path;

use iodyno_model::{Diagnostic, FileSystemKind, Layer, ZfsOrigin};
use serde::{Deserialize, Serialize};

use crate::journal::Journal;

use super::host::word;
use super::host_ops::HostOps;
use super::maker::Maker;
use super::making::COMMAND;
use super::settings::settings_in_force;
use super::{served, zfs};

/// A change of a target between trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageChange {
    /// Take a snapshot, which replaces the previous one. Its top layer must have snapshots.
    Snapshot,
    /// Return to the snapshot.
    RollBack,
    /// Empty the caches of its top layer that are not part of the page cache: those of a ZFS pool.
    EmptyCaches,
    /// Make its servers ready for the next trial: one of virtio-fs is started again, because it usually ends with its
    /// client. The settings of the host must have the values that were set.
    Renew,
}

impl Maker<'_> {
    pub(super) fn change(&self, token: &str, change: StorageChange) -> Result<(), Vec<Diagnostic>> {
        let Some(journal) = self.open(token)? else {
            return match change {
                // Nothing was made on it: it is a virtual machine of the target.
                StorageChange::Renew => Ok(()),
                _ => {
                    let message = format!("unknown target `{token}`");
                    Err(vec![Diagnostic::error(message)])
                }
            };
        };
        let guard = self.guard(&[]);
        let mut ops = self.ops(&guard, &journal);
        let mounts = self.folders.mounts.join(token);
        let changed = match change {
            StorageChange::Snapshot | StorageChange::RollBack => {
                ops.mark = format!("{token}/snapshot");
                Top::of(&journal, token, &mounts).and_then(|top| match change {
                    StorageChange::Snapshot => top.take_snapshot(&mut ops),
                    _ => top.roll_back(&mut ops),
                })
            }
            StorageChange::EmptyCaches => {
                ops.mark = format!("{token}/caches");
                zfs::empty_caches(&mut ops, &journal, &mounts.join("devices"))
            }
            StorageChange::Renew => served::renew(&mut ops, &journal)
                .and_then(|()| settings_in_force(self.host, &journal)),
        };
        changed.map_err(|fault| vec![fault])
    }
}

/// A top layer that has snapshots.
enum Top {
    /// The snapshot of a dataset or volume.
    Zfs { snapshot: String },
    /// The subvolume of the trials, and its snapshot.
    Btrfs { trial: String, kept: String },
}

impl Top {
    fn of(journal: &Journal, token: &str, mounts: &Path) -> Result<Top, Diagnostic> {
        let layers = &journal.header.provision.layers;
        let of_zfs = |name: String| Top::Zfs {
            snapshot: format!("{name}@rollback"),
        };
        match layers.first() {
            Some(Layer::Zfs(zfs)) if zfs.origin == ZfsOrigin::Copy => {
                Ok(of_zfs(zfs::copies(token)))
            }
            Some(Layer::Zfs(_)) => Ok(of_zfs(zfs::dataset(token))),
            Some(Layer::FileSystem {
                fs: FileSystemKind::Btrfs,
                ..
            }) => {
                let point = mounts.join((layers.len() - 1).to_string());
                let point = word(&point)?;
                Ok(Top::Btrfs {
                    trial: format!("{point}/trial"),
                    kept: format!("{point}/kept"),
                })
            }
            other => {
                let kind = other.map_or("nothing", Layer::kind);
                let message = format!("`{kind}` has no snapshots to roll back to");
                let hint =
                    "use `zfs` or `btrfs` as the top layer, or remove `files = \"rollback\"`";
                Err(Diagnostic::error(message).hint(hint))
            }
        }
    }

    fn take_snapshot(&self, ops: &mut HostOps<'_>) -> Result<(), Diagnostic> {
        match self {
            Top::Zfs { snapshot } => {
                let _ = ops.run(&["zfs", "destroy", snapshot], COMMAND);
                ops.run(&["zfs", "snapshot", snapshot], COMMAND)?;
            }
            Top::Btrfs { trial, kept } => {
                if Path::new(kept).exists() {
                    ops.run(&["btrfs", "subvolume", "delete", kept], COMMAND)?;
                }
                let words = ["btrfs", "subvolume", "snapshot", "-r", trial, kept];
                ops.run(&words, COMMAND)?;
            }
        }
        Ok(())
    }

    fn roll_back(&self, ops: &mut HostOps<'_>) -> Result<(), Diagnostic> {
        match self {
            Top::Zfs { snapshot } => {
                ops.run(&["zfs", "rollback", "-r", snapshot], COMMAND)?;
            }
            Top::Btrfs { trial, kept } => {
                if !Path::new(kept).exists() {
                    let point = trial.trim_end_matches("/trial");
                    return Err(Diagnostic::error(format!("`{point}` has no snapshot")));
                }
                ops.run(&["btrfs", "subvolume", "delete", trial], COMMAND)?;
                ops.run(&["btrfs", "subvolume", "snapshot", kept, trial], COMMAND)?;
            }
        }
        Ok(())
    }
}
