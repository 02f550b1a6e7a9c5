//! The state of one set of files that all clones of a job share.
//!
//! Threads share it without a mutex: the position in the sequence, the periodic syncs, the number of events left, the
//! block locks, and which clone ends last.

mod block_locks;
mod geometry;
mod state;
mod trailer;

pub(crate) use block_locks::Kind as Claim;
pub(crate) use geometry::Place;
pub(crate) use state::Turn;
pub use state::{SharedFilesPart, SharedFilesState};
pub(crate) use trailer::Trailers;
pub use trailer::{TRAILER, seal};
