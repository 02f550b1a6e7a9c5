//! Storage that iodyno makes for a configuration, in layers from the bottom up, and undoes again.
//!
//! Invariants: every change of the host is an [action] whose intent is in the [journal](crate::journal) before it
//! begins. Actions are undone in reverse order. If making a target fails or is stopped, what was made so far is undone.
//! Only devices that the guard admitted are written. All names contain the token of the target.

pub(crate) mod action;
mod build;
mod check;
mod clean;
mod fill;
pub(crate) mod host;
mod host_ops;
mod lock;
mod maker;
mod making;
mod mapped;
mod mirror;
mod nfs;
mod perform;
mod provisioned;
mod request;
mod served;
mod settings;
#[cfg(test)]
mod tests;
mod throttle;
mod tools;
mod undo;
mod vm;
mod vm_image;
mod zfs;

use std::collections::BTreeMap;
use std::path::Path;

use iodyno_host::{Owner, boot_id, socket_folder};
use iodyno_model::{Diagnostic, FileSystemKind, Layer, ZfsOrigin};

use crate::journal::{Header, Journal, not_recorded};

pub use clean::{Cleaned, Orphan, OtherUser};
use host::word;
use host_ops::HostOps;
use maker::{Maker, no_target, on_this_host};
use making::{COMMAND, Making};
pub use request::{Guest, ProvisionRequest, Provisioned, TornDown};
use settings::settings_in_force;
use undo::{By, undo};

/// What is wrong with these targets on this host: missing tools, permissions and space, refused devices. Changes
/// nothing. Empty: they can be made.
pub fn check(requests: &[ProvisionRequest], stop: &dyn Fn() -> bool) -> Vec<Diagnostic> {
    on_this_host(|maker| Ok(maker.check(requests, stop))).unwrap_or_else(|faults| faults)
}

/// Makes a target for the trials of `owner`. `told` gets each action before it begins.
///
/// # Errors
/// The cause, and what could not be undone: everything else was undone.
pub fn provision(
    request: &ProvisionRequest,
    owner: Owner,
    stop: &dyn Fn() -> bool,
    told: &dyn Fn(&str),
) -> Result<Provisioned, Vec<Diagnostic>> {
    on_this_host(|maker| maker.provision(request, owner, stop, told))
}

/// Takes a snapshot of a target, to which [`roll_back`] returns. It replaces the previous one.
///
/// # Errors
/// Its top layer has no snapshots, or a command failed.
pub fn snapshot(token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
    on_this_host(|maker| maker.snapshot(token, stop))
}

/// Returns a target to its snapshot.
///
/// # Errors
/// There is none, or a command failed.
pub fn roll_back(token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
    on_this_host(|maker| maker.roll_back(token, stop))
}

/// Empties the caches of a target's top layer that are not part of the page cache: those of a ZFS pool. `told` gets
/// what is waited for.
///
/// # Errors
/// A command failed; the target cannot be used any more.
pub fn empty_caches(
    token: &str,
    stop: &dyn Fn() -> bool,
    told: &dyn Fn(&str),
) -> Result<(), Vec<Diagnostic>> {
    on_this_host(|maker| maker.empty_caches(token, stop, told))
}

/// Makes the servers of a target ready for the next trial: one of virtio-fs is started anew, because it usually ends
/// with its client.
///
/// # Errors
/// It cannot be started, or a setting of the host has another value than was set; the target cannot be used any more.
pub fn renew(token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
    on_this_host(|maker| maker.renew(token, stop))
}

/// Undoes targets at the same time. There is nothing to undo for a token without a target. If something remains, so
/// does the journal. `told` gets each action that is being undone.
pub fn tear_down(tokens: &[String], told: &(dyn Fn(&str) + Sync)) -> Vec<TornDown> {
    let undo = |token: &String| {
        on_this_host(|maker| Ok(maker.tear_down(token, told))).unwrap_or_else(|faults| TornDown {
            faults,
            ..TornDown::default()
        })
    };
    std::thread::scope(|scope| {
        let work = tokens.iter().map(|token| scope.spawn(move || undo(token)));
        let work: Vec<_> = work.collect();
        let ended = work.into_iter().map(|one| match one.join() {
            Ok(undone) => undone,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

/// Undoes the targets whose process has died, and removes the sockets of mirrors whose server has ended; with
/// `dry_run`, only lists them.
///
/// # Errors
/// It is not known where the journals are.
pub fn clean(dry_run: bool, told: &dyn Fn(&str)) -> Result<Cleaned, Vec<Diagnostic>> {
    on_this_host(|maker| {
        let mut cleaned = maker.clean(dry_run, told);
        let sockets = socket_folder();
        clean::remove_sockets(&sockets, dry_run, &mut cleaned);
        Ok(cleaned)
    })
}

impl Maker<'_> {
    fn provision(
        &self,
        request: &ProvisionRequest,
        owner: Owner,
        stop: &dyn Fn() -> bool,
        told: &dyn Fn(&str),
    ) -> Result<Provisioned, Vec<Diagnostic>> {
        let faults = self.check(std::slice::from_ref(request), stop);
        if !faults.is_empty() {
            return Err(faults);
        }
        let header = Header::new(
            &request.token,
            &request.configuration,
            boot_id(self.host.roots()),
            owner,
            request.provision.clone(),
        );
        let journal = Journal::begin(&self.folders.journals, header, self.host)
            .map_err(|error| vec![not_recorded(&error.to_string())])?;
        let guard = self.guard(&request.protected);
        let mut making = Making {
            ops: self.ops(&guard, &journal, stop, told),
            journal,
            mounts: self.folders.mounts.join(&request.token),
            request,
            facts: BTreeMap::new(),
            throttled: Vec::new(),
            flakey: Vec::new(),
            guests: Vec::new(),
            share: None,
            stats: Vec::new(),
        };
        match making.all() {
            Ok(path) => Ok(Provisioned {
                path,
                facts: making.facts,
                commands: making.ops.commands,
                guests: making.guests,
                share: making.share,
                stats: making.stats,
            }),
            Err(fault) => {
                let mut faults = vec![fault];
                let Making {
                    mut ops, journal, ..
                } = making;
                faults.extend(undo(&mut ops, journal, By::Owner).faults);
                Err(faults)
            }
        }
    }

    fn tear_down(&self, token: &str, told: &dyn Fn(&str)) -> TornDown {
        let journal = match self.open(token, &|| false, told) {
            Ok(Some(journal)) => journal,
            Ok(None) => return TornDown::default(),
            Err(faults) => {
                return TornDown {
                    faults,
                    ..TornDown::default()
                };
            }
        };
        let guard = self.guard(&[]);
        let mut ops = self.ops(&guard, &journal, &|| false, told);
        let faults = undo(&mut ops, journal, By::Owner).faults;
        TornDown {
            commands: ops.commands,
            faults,
        }
    }

    fn empty_caches(
        &self,
        token: &str,
        stop: &dyn Fn() -> bool,
        told: &dyn Fn(&str),
    ) -> Result<(), Vec<Diagnostic>> {
        let Some(journal) = self.open(token, stop, told)? else {
            return Err(vec![no_target(token)]);
        };
        let guard = self.guard(&[]);
        let mut ops = self.ops(&guard, &journal, stop, told);
        ops.mark = format!("{token}/caches");
        let links = self.folders.mounts.join(token).join("devices");
        zfs::empty_caches(&mut ops, &journal, &links).map_err(|fault| vec![fault])
    }

    fn renew(&self, token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
        let Some(journal) = self.open(token, stop, &|_| ())? else {
            // Nothing was made on it: it is a virtual machine of the target.
            return Ok(());
        };
        let guard = self.guard(&[]);
        let mut ops = self.ops(&guard, &journal, stop, &|_| ());
        let ready = served::renew(&mut ops, &journal);
        let ready = ready.and_then(|()| settings_in_force(self.host, &journal));
        ready.map_err(|fault| vec![fault])
    }

    fn snapshot(&self, token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
        self.on_snapshot(token, stop, |ops, top| match top {
            Top::Zfs(name) => {
                let snapshot = format!("{name}@rollback");
                let _ = ops.run(&["zfs", "destroy", &snapshot], COMMAND);
                ops.run(&["zfs", "snapshot", &snapshot], COMMAND)
            }
            Top::Btrfs(point) => {
                let (trial, kept) = (format!("{point}/trial"), format!("{point}/kept"));
                if Path::new(&kept).exists() {
                    ops.run(&["btrfs", "subvolume", "delete", &kept], COMMAND)?;
                }
                ops.run(
                    &["btrfs", "subvolume", "snapshot", "-r", &trial, &kept],
                    COMMAND,
                )
            }
        })
    }

    fn roll_back(&self, token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
        self.on_snapshot(token, stop, |ops, top| match top {
            Top::Zfs(name) => {
                let snapshot = format!("{name}@rollback");
                ops.run(&["zfs", "rollback", "-r", &snapshot], COMMAND)
            }
            Top::Btrfs(point) => {
                let (trial, kept) = (format!("{point}/trial"), format!("{point}/kept"));
                if !Path::new(&kept).exists() {
                    return Err(Diagnostic::error(format!("`{point}` has no snapshot")));
                }
                ops.run(&["btrfs", "subvolume", "delete", &trial], COMMAND)?;
                ops.run(&["btrfs", "subvolume", "snapshot", &kept, &trial], COMMAND)
            }
        })
    }

    fn on_snapshot(
        &self,
        token: &str,
        stop: &dyn Fn() -> bool,
        work: impl FnOnce(&mut HostOps<'_>, Top) -> Result<String, Diagnostic>,
    ) -> Result<(), Vec<Diagnostic>> {
        let Some(journal) = self.open(token, stop, &|_| ())? else {
            return Err(vec![no_target(token)]);
        };
        let layers = &journal.header.provision.layers;
        let top = match layers.first() {
            Some(Layer::Zfs(zfs)) if zfs.origin == ZfsOrigin::Copy => Top::Zfs(zfs::copies(token)),
            Some(Layer::Zfs(_)) => Top::Zfs(zfs::dataset(token)),
            Some(Layer::FileSystem {
                fs: FileSystemKind::Btrfs,
                ..
            }) => {
                let point = self.folders.mounts.join(token);
                let point = word(&point.join((layers.len() - 1).to_string()));
                Top::Btrfs(point.map_err(|why| vec![Diagnostic::error(why)])?)
            }
            other => {
                let kind = other.map_or("nothing", Layer::kind);
                let message = format!("`{kind}` has no snapshots to roll back to");
                let hint =
                    "use `zfs` or `btrfs` as the top layer, or remove `files = \"rollback\"`";
                return Err(vec![Diagnostic::error(message).hint(hint)]);
            }
        };
        let guard = self.guard(&[]);
        let mut ops = self.ops(&guard, &journal, stop, &|_| ());
        ops.mark = format!("{token}/snapshot");
        work(&mut ops, top).map(drop).map_err(|fault| vec![fault])
    }
}

/// A top layer that has snapshots.
enum Top {
    /// The dataset or volume.
    Zfs(String),
    /// The mount point.
    Btrfs(String),
}
