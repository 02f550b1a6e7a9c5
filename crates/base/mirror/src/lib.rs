//! Mirrors: the parts that need neither I/O nor a clock.
//!
//! A *leg* is one member of a mirror. A [`ReadPolicy`] chooses the leg for a read from its view of each leg
//! ([`LegView`]). A [`LegQueue`] sorts, merges and limits the commands issued to a leg. Both get the time as an
//! argument, so that real and simulated mirrors use the same objects. [`shared`] is the state shared by several queues
//! of a mirror.
//!
//! Stored on a leg: the [`superblock`] and the write-intent log ([`intent`]). [`assembly`] decides which legs belong
//! together.

pub mod assembly;
mod atomics;
pub mod core;
pub mod intent;
mod legs;
mod marks;
mod policy;
mod queue;
mod ranges;
pub mod shared;
pub mod superblock;

pub use legs::LegSet;
pub use marks::{Marks, Totals};
pub use policy::{
    Adaptive, LeastPending, LegView, MdRaid1, Modulo, OpenZfs, PolicyKind, PowerOfTwo, ReadPolicy,
    ReadRequest, RoundRobin, UnknownPolicy,
};
pub use queue::{Command, LegQueue, QueueSettings, Transfer};
