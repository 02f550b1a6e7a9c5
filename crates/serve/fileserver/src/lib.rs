//! A server of folders, by virtio-fs and FUSE, whose requests are dispatched by exchangeable policies.
//!
//! [`policy`] decides which requests a queue's thread works itself and which a pool works. It is pure, as is
//! [`request`], which reads and checks the headers of requests. [`folder`] carries requests out, [`server`] is what all
//! transports share, and [`stats`] what is counted. A server may run in a [`sandbox`], with a filter of its system
//! calls ([`seccomp`]). [`vhost_user`] serves a virtual machine monitor, on a socket of [`front`], and [`fuse`] this
//! host, where the kernel may read and write files itself ([`passthrough`]). Another server can go on with the
//! [`state`] of a client.

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
