//! Operations, backends and clocks.
//!
//! A backend carries ops to the kernel and stamps their completions. It knows nothing of measuring:
//! what is issued when, and what becomes of the stamps, is the engine's business.

mod aio;
mod backend;
mod clock;
mod mapped;
mod null;
mod op;
mod posix_aio;
mod sim;
mod sync;
mod uring;
mod virtual_clock;

pub use aio::AioBackend;
pub use backend::{Backend, BackendError, Capabilities, Completion, Completions, File};
pub use clock::{Clock, MonotonicClock};
pub use mapped::Mapped;
pub use null::NullBackend;
pub use op::{Op, OpKind, Slot};
pub use posix_aio::PosixAioBackend;
pub use sim::{Device, DeviceEnd, LawDevice, LawOptions, SimBackend, SimFault, SimLaw};
pub use sync::{Calling, Doer, Psync, Pvsync2, SeekSync, SyncBackend, SyncCalls};
pub use uring::{UringBackend, UringWishes};
pub use virtual_clock::VirtualClock;
