//! One set of files that all clones of a job walk by one law: what they have in common.
//!
//! Shared by threads without a lock: where the sequence stands, when all files are synced and which is
//! next, how many events are left, which blocks are at work, and who is the last to end.

mod block_locks;
mod geometry;
mod state;
mod trailer;

pub(crate) use block_locks::Kind as Claim;
pub(crate) use geometry::Place;
pub(crate) use state::Turn;
pub use state::{SharedFilesPart, SharedFilesState};
pub use trailer::TRAILER;
pub(crate) use trailer::Trailers;
