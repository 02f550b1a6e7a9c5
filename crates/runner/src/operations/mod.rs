//! File operations: the folder that a trial creates in its target, its prepared files, and its removal.
//!
//! Invariant: only that folder is ever created or removed. Everything in it is accessed through its descriptor, never
//! by a path that another process could have changed.

mod folder;
mod orphan;
mod remove;
mod room;
mod sets;
mod site;

#[cfg(test)]
mod tests;

use iodyno_model::{BoundPlan, Diagnostic};
use iodyno_target::space;

use crate::resolve::operations_folder;
use room::RoomNeeded;

pub use folder::folder_name;
pub(crate) use orphan::OrphanFolder;
pub(crate) use site::Site;

/// The space and inodes that a trial's file operations lack now; empty where the free space is unknown. Changes nothing.
pub(crate) fn shortages(plan: &BoundPlan) -> Vec<Diagnostic> {
    let folder = operations_folder(plan);
    match Site::wanted(plan) && space::room(&folder).is_ok() {
        true => RoomNeeded::of(plan).shortages(&folder),
        false => Vec::new(),
    }
}

/// Reports progress of a removal: files removed, and files found.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(u64, u64);
