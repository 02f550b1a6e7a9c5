//! Access to the kernel: I/O backends, clocks, buffers, ioctls. The only crate with unsafe code.
//!
//! All functions are safe to call: memory that the kernel may write to stays allocated, and is not
//! accessible, until the kernel has finished with it.
//!
//! A [`Backend`] passes ops to the kernel and records the times of their completions. The engine decides
//! which op is issued when, and what is computed from the times.
#![allow(unsafe_code)]

mod aio;
mod backend;
mod blocking;
pub mod bpf;
mod clock;
#[cfg(feature = "testing")]
pub mod counting;
mod event_queue;
pub mod file;
pub mod fuse_protocol;
pub mod host;
mod mapped;
pub mod memory;
pub mod nbd;
mod null;
mod posix_aio;
pub mod process;
mod result;
mod sim;
pub mod socket;
mod sync;
pub mod thread;
mod uring;
pub mod vhost_user;
mod virtual_clock;
pub mod zones;

pub use aio::AioBackend;
pub use backend::{
    Backend, BackendError, Capabilities, Completion, Completions, File, Op, OpKind, Slot,
};
pub use clock::{Clock, MonotonicClock, counter_khz};
pub use event_queue::Waker;
pub use mapped::MappedFiles;
pub use nbd::NbdBackend;
pub use null::NullBackend;
pub use posix_aio::PosixAioBackend;
pub use sim::{Device, DeviceEnd, LawDevice, SimBackend};
pub use sync::{
    Psync, Pvsync2, SeekSync, SpaceCalls, SyncBackend, SyncCalls, SyncExecutor, SystemCalls,
};
pub use thread::RunDelay;
pub use uring::{
    Credentials, NvmeBackend, Transfer, TransferMemory, Transferred, Transfers, UringBackend, fuse,
};
pub use vhost_user::VhostUserBackend;
pub use virtual_clock::VirtualClock;
