//! The parent's side: sessions with nodes, and the processes that run them.

pub(crate) mod child;
pub(crate) mod death;
pub(crate) mod guest;
pub(crate) mod helper;
pub(crate) mod process;
pub(crate) mod session;
pub(crate) mod simulation;
pub(crate) mod ssh;
pub(crate) mod storage;
