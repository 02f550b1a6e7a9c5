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

pub use aio::AioBackend;
pub use backend::{Backend, BackendError, Capabilities, Completion, Completions, File};
pub use clock::{Clock, MonotonicClock, VirtualClock};
pub use mapped::Mapped;
pub use null::NullBackend;
pub use op::{Op, OpKind, Slot};
pub use posix_aio::PosixAioBackend;
pub use sim::{SimBackend, SimDevice, SimFault, SimLaw};
pub use sync::{Calling, Doer, Psync, Pvsync2, SeekSync, SyncBackend, SyncCalls};
pub use uring::{UringBackend, UringWishes};
