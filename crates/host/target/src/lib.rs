//! Targets: the guard, and the storage stack below a path.
//!
//! Only [`layers`] writes to targets and makes storage; [`settle`] asks the kernel to write back dirty data and to drop
//! caches. The guard opens each file of a job once, after it has checked that the file is not in
//! use. The rest only reads the state of the host. All functions take the host's file system roots from [`Roots`], so
//! that tests can pass simulated hosts.

mod backing;
mod block;
pub mod control_group;
pub mod counters;
pub mod environment;
pub mod export;
pub mod extents;
#[cfg(test)]
mod fake;
mod folders;
pub mod guard;
pub mod identity;
mod journal;
pub mod layers;
mod locks;
mod mounts;
pub mod nvme;
mod owner;
mod roots;
pub mod settle;
pub mod share;
pub mod signatures;
pub mod space;
pub mod stack;

pub use block::DeviceNumber;
pub use folders::{StateFolders, socket_folder, state_folder};
pub use guard::{
    AdmitError, Admitted, Guard, Hold, Intent, Kind, OpenFlags, Reason, Refusal, Request,
    WrittenDevice, among_devices, append_output, create_output, name_output, new_output,
    open_output, refuse_planted_link, share_storage, unnamed_output,
};
pub use owner::{Owner, boot_id};
pub use roots::Roots;
