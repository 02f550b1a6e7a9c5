//! Storage that iodyno makes: layers and their journal, virtual machines, and the settling of a host between trials.
//!
//! Only [`layers`] writes to targets and makes storage; [`settle`] asks the kernel to write back dirty data and to drop
//! caches.

pub mod guest;
mod journal;
pub mod layers;
pub mod settle;
