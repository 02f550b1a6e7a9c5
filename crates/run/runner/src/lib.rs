//! Runs a trial on one or several nodes: in child processes, with a versioned, framed protocol, or in virtual time.
//!
//! [`drive`] is the parent's side, [`serve`] the node's. Invariants: a node sends all results immediately, so its death
//! loses little more than a frame. At the end of its input a node stops, cleans up and exits, so the parent's death
//! leaves nothing behind. The cause of a trial's end is determined, never guessed.
//!
//! `parent` and `node` are the two ends of `protocol`. A node resolves a plan (`resolve`), opens and lays out its files
//! (`files`), and writes `logs`. In `fio` is a node whose ops fio performs.

mod clock;
mod faults;
mod files;
mod fio;
mod logs;
mod node;
mod parent;
mod probe;
mod protocol;
mod resolve;
#[cfg(test)]
mod samples;
mod stop;

pub use files::operations::folder_name;
pub use fio::{FioNode, serve_fio};
pub use iodyno_storage::layers::{
    Cleaned, Guest, Orphan, OtherUser, ProvisionRequest, Provisioned, StorageChange, TornDown,
};
pub use iodyno_storage::settle::Unsettled;
pub use logs::compression::inflate_log;
pub use node::serve::serve;
pub use parent::child::LocalNode;
pub use parent::death::Death;
pub use parent::process::{Connection, Launcher};
pub use parent::session::{Later, Node, POLL, RunnerError, Session, StorageNode, carry_out, drive};
pub use parent::ssh::{SshNode, node_program};
pub use probe::{HostProbe, PathKind, Probe};
pub use protocol::{
    Command, EngineSupport, Event, Examination, Examined, FoundPath, Hello, Message, PROTOCOL,
    Room, StorageAnswer, StorageWork, TrialEnd,
};
pub use resolve::resolved::{FileKind, Resolved, ResolvedClone, ResolvedFile};
pub use resolve::{made_up_name, placed_names, resolve};
pub use stop::StopFlag;
