//! A server of folders, by virtio-fs and FUSE, whose requests are dispatched by exchangeable policies.
//!
//! [`policy`] decides which requests a queue's thread works itself and which a pool works. It is pure, as is [`request`], which reads
//! and checks the headers of requests. [`folder`] carries requests out, [`server`] is what all transports share, and [`stats`] what is
//! counted. [`vhost_user`] serves a virtual machine monitor, on a socket of [`front`], and
//! [`fuse`] this host, where the kernel may read and write files itself ([`passthrough`]).

mod buffers;
mod files;
pub mod folder;
pub mod front;
pub mod fuse;
mod passthrough;
pub mod policy;
mod pool;
pub mod request;
mod scratch;
pub mod server;
pub mod stats;
pub mod vhost_user;

pub use folder::{Cache, Handles, Settings};
pub use policy::Policy;
pub use server::FileServer;
