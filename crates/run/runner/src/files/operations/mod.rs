//! File operations: the folder that a trial creates in its target, its prepared files, and its removal.
//!
//! Invariant: only that folder is ever created or removed. Everything in it is accessed through its descriptor, never
//! by a path that another process could have changed.

mod folder;
mod leftovers;
mod orphan;
mod remove;
mod room;
mod sets;
mod site;

#[cfg(test)]
mod tests;

pub use folder::folder_name;
pub(crate) use orphan::OrphanFolder;
pub(crate) use site::Site;

/// Reports progress of a removal: files removed, and files found.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(u64, u64);
