//! File operations: the folder that a trial creates in its target, the files prepared in it, and its removal.
//!
//! What must stay true: nothing but that folder is ever created or removed, and everything below it is reached from its
//! descriptor, never by a path that another process could have changed.

mod folder;
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
