//! Carries out one part of a trial: in a child process, over a versioned, framed protocol.
//!
//! [`carry_out`] is the parent's end, [`serve`] the child's. What must stay true: everything the child
//! measured reaches the parent as soon as it is known, so that the child's death loses less than a
//! frame and a bit; end of input means stop, clean up and leave, so that the parent's death leaves nothing behind; and
//! what kind of end a trial came to is told apart, never guessed.

mod assemble;
mod cancel;
mod clock;
mod control;
mod death;
mod due;
mod files;
mod host;
mod layout;
mod logs;
mod message_writer;
mod monitor;
mod naming;
mod node;
mod operations;
mod parent;
mod prepare;
mod probe;
mod protocol;
mod rates;
mod resolve;
#[cfg(test)]
mod samples;
mod scheduler;
mod seeds;
mod settle;
mod shared_files;
mod simulate;
mod telemetry;
mod timeline;
mod trial;
mod wanted;
mod worker;

pub use cancel::Cancel;
pub use death::Death;
pub use node::serve;
pub use operations::folder_name;
pub use parent::{Event, NodeCommand, RunnerError, TrialEnd, carry_out};
pub use probe::HostProbe;
pub use protocol::PROTOCOL;
pub use resolve::{FileKind, Found, Probe, Resolved, ResolvedClone, ResolvedFile, resolve};
pub use settle::{Unsettled, describe, settle};
pub use simulate::simulate;
