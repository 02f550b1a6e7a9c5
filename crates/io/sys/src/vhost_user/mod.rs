//! The client's side of vhost-user: connects to any server of disks or of folders, and is the backend of the engines
//! `vhost-user-blk` and `virtiofs`.
//!
//! Source: "Vhost-user Protocol" of QEMU's documentation, and VIRTIO 1.2. All clones of a trial use one connection,
//! because servers often serve one client at a time. What a server sends is never trusted: replies have the length that
//! was asked for, and a ring's entries are checked.

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
