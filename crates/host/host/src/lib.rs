//! The state of a host: its roots, the storage stack below a path, counters, and the environment of results.
//!
//! Invariant: nothing here writes to targets or changes the host. All functions take the host's file system roots
//! from [`Roots`], so that tests can pass simulated hosts.

pub mod backing;
pub mod block;
pub mod control_group;
pub mod counters;
pub mod environment;
pub mod extents;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod folders;
pub mod identity;
pub mod locks;
mod marked;
pub mod mounts;
pub mod nvme;
mod owner;
mod process_stat;
mod roots;
pub mod space;
pub mod stack;
mod threads;
mod users;

pub use environment::meminfo_bytes;
pub use folders::{
    StateFolders, device_records, mirror_of_socket, socket_folder, socket_name, state_folder,
};
pub use iodyno_sys::process::STEP_VARIABLE;
pub use marked::{marked, signal_marked};
pub use owner::{Owner, boot_id, started_for};
pub use process_stat::{ProcessStat, this_program};
pub use roots::{Roots, names, text};
pub use threads::{join, on_threads};
pub use users::{User, users};
