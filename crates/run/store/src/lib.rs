//! Stores runs, trials, frames and telemetry in SQLite.
//!
//! Invariants:
//! - Stored data is kept. Each frame and each batch of telemetry is a transaction of its own. A run's plan is stored
//!   before its first trial begins. A trial's record replaces nothing that was stored before.
//! - Telemetry is packed once its trial has ended, and is read back as it was appended.
//! - Writes are idempotent: repeating a call changes nothing, and a call that contradicts stored data is refused.
//! - Interruption is never stored, it is derived: a trial without an end whose owner is dead is interrupted, and its
//!   parts are rebuilt from its frames at each read. So opening a store repairs nothing, and a read-only store shows
//!   the same results.
//! - Reading holds one trial or one batch of frames in memory, never a whole run.
//!
//! Durability: the store is in WAL mode. If the process is killed, everything for which a call had returned is kept.
//! The plan, each trial's record and a run's end are synced before their calls return, and so survive a power
//! failure. Frames and telemetry are not synced, since a flush each second would disturb the disk under test: a power
//! failure loses what the kernel had not yet written back, with its default settings about the last half minute of
//! the running trial.
//!
//! Secrets in command lines, environments and URLs are masked before they are stored, see `secrets`.
//!
//! Space: nothing is written unless the file system has room to spare, see `room`. A full store stays readable.
//!
//! Formats: the schema is in `schema`, the blobs in `blob`, packed telemetry in `segment`, exported runs in `export`.

mod amounts;
mod blob;
mod error;
mod export;
mod import;
mod location;
mod numbers;
mod owner;
mod rebuild;
mod room;
mod schema;
mod secrets;
mod segment;
mod sqlite;
mod store;
mod totals;
mod upgrade;
mod zlib;

pub use error::StoreError;
pub use export::{EXPORT_FORMAT, EXPORT_VERSION, ExportReport, export, export_without_names};
pub use import::ImportReport;
pub use location::default_path;
pub use rebuild::{Rebuilder, rebuild};
pub use schema::Upgrade;
pub use secrets::OwnNames;
pub use sqlite::SqliteStore;
pub use store::{Appended, RunHandle, Store};
