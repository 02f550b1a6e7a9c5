//! Runs a trial on one or several nodes: in child processes, with a versioned, framed protocol, or in virtual time.
//!
//! [`drive`] is the parent's side, [`serve`] the node's. Invariants: a node sends all results immediately, so its death
//! loses little more than a frame. At the end of its input a node stops, cleans up and exits, so the parent's death
//! leaves nothing behind. The cause of a trial's end is determined, never guessed.
//!
//! Modules do not import each other in a cycle. From the top: `child` and `simulate` (sessions), `serve` (the node),
//! `trial` and `prepare`; below them `shared_files`, `operations`, `layout` and `files`, then `wanted` and `resolve`,
//! and at the bottom `resolved`, `protocol`, `faults` and `probe`.

mod assemble;
mod child;
mod clock;
mod control;
mod counter_delta;
mod death;
mod due;
mod examine;
mod exports;
mod faults;
mod files;
mod fio;
mod guest;
mod helper;
mod host;
mod iolog;
mod layout;
mod log_compression;
mod log_file;
mod logs;
mod message_writer;
mod monitor;
mod operations;
mod prepare;
mod probe;
mod process;
mod protocol;
mod rates;
mod resolve;
mod resolved;
#[cfg(test)]
mod samples;
mod scheduler;
mod seeds;
mod serve;
mod session;
mod shared_files;
mod shares;
mod simulate;
mod simulated;
mod ssh;
mod stalls;
mod steady;
mod stop;
mod storage;
mod stuck;
mod telemetry;
mod timeline;
mod trial;
mod verify_records;
mod wanted;
mod worker;

pub use child::LocalNode;
pub use death::Death;
pub use fio::{FioNode, serve_fio};
pub use iodyno_storage::layers::{
    Cleaned, Guest, Orphan, OtherUser, ProvisionRequest, Provisioned, StorageChange, TornDown,
};
pub use iodyno_storage::settle::Unsettled;
pub use log_compression::inflate_log;
pub use operations::folder_name;
pub use probe::{HostProbe, PathKind, Probe};
pub use process::{Connection, Launcher};
pub use protocol::{
    Command, EngineSupport, Event, Examination, Examined, FoundPath, Hello, Message, PROTOCOL,
    StorageAnswer, StorageWork, TrialEnd,
};
pub use resolve::{made_up_name, placed_names, resolve};
pub use resolved::{FileKind, Resolved, ResolvedClone, ResolvedFile};
pub use serve::serve;
pub use session::{Later, Node, POLL, RunnerError, Session, carry_out, drive};
pub use ssh::SshNode;
pub use stop::StopFlag;
