//! The thread of a mirror: it runs the state machine, performs its orders on the legs, and answers requests.
//!
//! The threads of queues read from legs without it ([`crate::reader`]); it is queue 0 of the mirror, carries out all
//! other requests, and those reads that need it.
//!
//! Requests come by a channel, and an eventfd that the ring reads wakes the thread. Each leg has a queue
//! (`LegCommands`), which limits, sorts and merges reads and writes of data; flushes and blocks of the superblock and
//! the log bypass it.
//!
//! # Invariants
//!
//! - An op owns a slot of the ring with its buffer until the kernel returns it. Ops that the mirror gave up keep
//!   theirs, and what they read is dropped: no buffer of a client is ever given to the kernel.
//! - The bytes of a write are copied from the client once, and from this copy to the slot of each leg, so that all legs
//!   get the same.
//! - FUA is a write with RWF_DSYNC; of a hole, fdatasync of the leg follows.
//! - At most as many commands are issued to a leg as it has places, which all queues share (`Board`). Flushes,
//!   superblocks, the log and repetitions need none.
//! - A leg is not written while it is shorter than the mirror: the op fails. Such a leg, and one that returns less than
//!   was read, is reported to the mirror as shortened before the op ends. So is one that is found to be shorter every
//!   second, which may have been dropped before.
//! - A leg whose file system may make a call wait (`waits`) is used by threads of the kernel only: a leg that hangs
//!   does not delay the others.
//! - The path of a leg that is a file leads to the file that is open. A thread for each leg looks twice a second,
//!   because a file system may not answer: a leg whose file was removed, renamed or replaced is reported to the mirror.
//! - A leg is taken back only when no queue has a command in flight on it.
//! - Nothing is allocated for a request: it brings its buffer and gets it back with the reply, and lists are used
//!   again. Channels have a fixed capacity; fronts limit what they have in flight, so that replies never wait.
//!
//! # Delayed legs
//!
//! A leg may take the time of a simulated disk: an op ends when the kernel has performed it and the model of the disk
//! has ended it too.
//!
//! # Lanes
//!
//! A leg uses a lane of the ring: slots and a place in its table of files. Two lanes more than legs are reserved, so
//! that a leg can be added while one that it replaces still holds requests. A lane is free again when the leg was
//! removed and its last op returned.

mod admin;
mod leg_commands;
mod leg_file;
mod request;
mod server;
mod shared;

pub use admin::{AdminRequest, LegStatus, OpenLeg, Status};
pub(crate) use leg_commands::LegCommands;
pub use request::{Direct, Reply, ReplyTo, Request};
pub(crate) use server::{LOOK_NS, SLOT_BYTES};
pub use server::{Settings, Task, run};
pub(crate) use shared::Queues;
pub use shared::{Handle, Inbox, channel};
