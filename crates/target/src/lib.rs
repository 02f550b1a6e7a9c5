//! Where the I/O goes: the guard, and what lies below a path.
//!
//! Nothing here writes to a target; [`settle`] alone asks the kernel for anything, which is to write
//! out what is dirty and to forget what is cached. The guard opens what a job names, once, after it has seen that
//! nobody else uses it; everything else only reads what the host tells of itself. All of it takes
//! its view of the host from [`Roots`], so that tests can show it hosts that do not exist.

mod block;
pub mod counters;
pub mod environment;
pub mod extents;
#[cfg(test)]
mod fake;
pub mod guard;
mod mounts;
mod roots;
pub mod settle;
pub mod signatures;
pub mod space;
pub mod stack;

pub use block::DeviceNumber;
pub use guard::{
    AdmitError, Admitted, Guard, Intent, Kind, OpenFlags, Reason, Refusal, Request, WrittenDevice,
    state_folder,
};
pub use roots::Roots;
