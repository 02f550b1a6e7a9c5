//! Keeps runs, trials, frames and telemetry: SQLite.
//!
//! What must stay true:
//! - What was stored is kept: a frame is a transaction of its own, and so is a batch of telemetry; a run's plan
//!   is stored before its first trial begins, and a trial's record replaces nothing that was stored before.
//! - Telemetry is put together once its trial has ended, and comes back as it was appended.
//! - Writing is idempotent: the same call twice is as good as once, and a call that contradicts what
//!   is stored is refused.
//! - That a trial was cut off is never written down, it follows: a trial without an end whose owner
//!   is dead is an interrupted one, and its parts are rebuilt from its frames whenever it is read.
//!   So nothing has to be repaired when a store is opened, and a read-only store tells the same story.
//! - Reading holds one trial or one batch of frames in memory, never a run.
//!
//! Durability: the store is in WAL mode. A killed process loses nothing that a call had returned
//! for. Against a power cut, the plan, each trial's record and a run's end are synced before their
//! calls return; frames and telemetry are not, since a flush a second would disturb the disk under
//! test: a power cut loses those that the kernel had not yet written back, with its defaults about the last half
//! minute of the trial that was running.
//!
//! The schema is in `schema`, the form of the blobs in `blob` and, of telemetry that was put together, in
//! `stretch`; that of an exported run is in `export`.

mod blob;
mod error;
mod export;
mod import;
mod location;
mod numbers;
mod owner;
mod rebuild;
mod schema;
mod sqlite;
mod store;
mod stretch;
mod totals;
mod upgrade;

pub use error::StoreError;
pub use export::{EXPORT_FORMAT, EXPORT_VERSION, ExportReport, export};
pub use import::ImportReport;
pub use location::default_path;
pub use rebuild::{Rebuilder, rebuild};
pub use schema::Upgrade;
pub use sqlite::SqliteStore;
pub use store::{Run, RunHandle, Store};
