//! The client side of vhost-user: connects to any server of disks or folders; also the backend of the engines
//! `vhost-user-blk` and `virtiofs`.
//!
//! Source: QEMU's "Vhost-user Protocol", and VIRTIO 1.2. All clones of a trial use one connection, because servers
//! often serve one client at a time. Server input is untrusted: replies must have the requested length, and ring
//! entries are checked.

mod backend;
mod disk;
mod fuse;
mod link;
mod queue;
mod ring;
mod share;

pub use backend::{Service, VhostUserBackend};
pub use disk::{Connection, Disk};
pub use share::{Found, OpenFile, Share, ShareFlags};

#[cfg(test)]
mod tests;
