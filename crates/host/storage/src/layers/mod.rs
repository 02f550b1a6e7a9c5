//! Storage that iodyno makes for a configuration, in layers from the bottom up, and undoes again.
//!
//! Invariants: every change of the host is an [action] whose intent is in the [journal](crate::journal) before it
//! begins. Actions are undone in reverse order. If making a target fails or is stopped, what was made so far is undone.
//! Only devices that the guard admitted are written. All names contain the token of the target.

pub(crate) mod action;
mod build;
mod change;
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

use iodyno_guard::Guard;
use iodyno_host::{Owner, boot_id, on_threads, socket_folder};
use iodyno_model::Diagnostic;

use crate::journal::{Header, Journal, not_recorded};

pub use change::StorageChange;
pub use clean::{Cleaned, Orphan, OtherUser};
use maker::{Maker, on_this_host};
use making::Making;
pub use request::{Guest, ProvisionRequest, Provisioned, TornDown};
use undo::{By, undo};

/// What is wrong with these targets on this host: missing tools, permissions and space, refused devices. Changes
/// nothing. Empty: they can be made.
pub fn check(requests: &[ProvisionRequest], stop: &dyn Fn() -> bool) -> Vec<Diagnostic> {
    on_this_host(stop, &|_| (), |maker| Ok(maker.check(requests))).unwrap_or_else(|faults| faults)
}

/// Makes a target for the trials of `owner`. `progress` gets each action before it begins.
///
/// # Errors
/// The cause, and what could not be undone: everything else was undone.
pub fn provision(
    request: &ProvisionRequest,
    owner: Owner,
    stop: &dyn Fn() -> bool,
    progress: &dyn Fn(&str),
) -> Result<Provisioned, Vec<Diagnostic>> {
    on_this_host(stop, progress, |maker| maker.provision(request, owner))
}

/// Changes a target between trials. `progress` gets what is waited for.
///
/// # Errors
/// There is no such target, it does not support the change, or a command failed. After a failed
/// [`StorageChange::EmptyCaches`] or [`StorageChange::Renew`] it cannot be used any more.
pub fn change(
    token: &str,
    change: StorageChange,
    stop: &dyn Fn() -> bool,
    progress: &dyn Fn(&str),
) -> Result<(), Vec<Diagnostic>> {
    on_this_host(stop, progress, |maker| maker.change(token, change))
}

/// Undoes targets at the same time. There is nothing to undo for a token without a target. If something remains, so
/// does the journal. `progress` gets each action that is being undone.
pub fn tear_down(tokens: &[String], progress: &(dyn Fn(&str) + Sync)) -> Vec<TornDown> {
    let undo = |token: &String| {
        on_this_host(&|| false, progress, |maker| Ok(maker.tear_down(token))).unwrap_or_else(
            |faults| TornDown {
                faults,
                ..TornDown::default()
            },
        )
    };
    on_threads(tokens, undo)
}

/// Undoes the targets whose process has died, and removes the sockets of mirrors whose server has ended; with
/// `dry_run`, only lists them.
///
/// # Errors
/// It is not known where the journals are.
pub fn clean(dry_run: bool, progress: &dyn Fn(&str)) -> Result<Cleaned, Vec<Diagnostic>> {
    on_this_host(&|| false, progress, |maker| {
        let mut cleaned = maker.clean(dry_run);
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
    ) -> Result<Provisioned, Vec<Diagnostic>> {
        let faults = self.check(std::slice::from_ref(request));
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
        let mut making = self.making(&guard, journal, request);
        match making.all() {
            Ok(path) => Ok(Provisioned {
                path,
                facts: making.facts,
                commands: making.ops.commands,
                guests: making.guests,
                share: making.share,
                stats: making.stats,
                notes: making.notes,
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

    fn making<'a>(
        &'a self,
        guard: &'a Guard,
        journal: Journal,
        request: &'a ProvisionRequest,
    ) -> Making<'a> {
        Making {
            ops: self.ops(guard, &journal),
            journal,
            mounts: self.folders.mounts.join(&request.token),
            request,
            facts: BTreeMap::new(),
            throttled: Vec::new(),
            flakey: Vec::new(),
            guests: Vec::new(),
            share: None,
            stats: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn tear_down(&self, token: &str) -> TornDown {
        let journal = match self.open(token) {
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
        let mut ops = self.ops(&guard, &journal);
        let faults = undo(&mut ops, journal, By::Owner).faults;
        TornDown {
            commands: ops.commands,
            faults,
        }
    }
}
