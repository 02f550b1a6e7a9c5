//! A server of folders, by virtio-fs and FUSE, that dispatches requests by exchangeable policies.
//!
//! [`policy`] decides which requests a queue's thread processes itself and which go to a thread pool. It is pure, as is
//! [`request`], which parses and checks request headers. [`folder`] executes requests. [`server`] is the state that all
//! transports share, and [`stats`] the statistics. A server may run in a [`sandbox`], with a system call filter
//! ([`seccomp`]). [`vhost_user`] serves a virtual machine monitor, on a socket of [`front`]. [`fuse`] serves this host,
//! where the kernel may read and write files itself ([`passthrough`]). Another server can continue from the [`state`]
//! of a client.

mod buffers;
mod files;
pub mod folder;
pub mod front;
pub mod fuse;
mod guest_request;
mod inline_batch;
mod passthrough;
pub mod policy;
mod pool;
mod queue_worker;
pub mod request;
mod ring;
pub mod sandbox;
mod scratch;
pub mod seccomp;
pub mod server;
mod spin;
pub mod state;
pub mod stats;
mod stop;
mod transfer;
pub mod vhost_user;
mod watchdog;
mod work;

pub use folder::{Cache, Handles, Migration, Settings};
pub use iodyno_sys::file::inherited;
pub use policy::Policy;
pub use server::FileServer;
pub use stop::Stop;
pub use virtiofsd::idmap::{GidMap, UidMap};
pub use virtiofsd::passthrough::{MigrationMode, MigrationOnError, NegotiationMode};
pub use virtiofsd::sandbox::SandboxMode;
pub use virtiofsd::soft_idmap::cmdline::IdMap;
