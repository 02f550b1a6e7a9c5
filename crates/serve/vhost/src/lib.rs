//! The core of a vhost-user device, which block devices and file systems share.
//!
//! [`serve`] answers the messages of a front end and keeps what is equal for all devices: the owner, the
//! [`ClientMemory`], the negotiated features. A [`Device`] has the threads of its rings and processes requests. A
//! [`Ring`] checks what the client writes into it, [`visit_chain`] the descriptors of a request. [`InFlightRecord`] and
//! [`DirtyLog`] are memory that the front end shares for a next server, and for the migration of a virtual machine.
//!
//! Source: "Vhost-user Protocol" of QEMU's documentation, and VIRTIO 1.2, section 2.7. The crate `vhost` reads and
//! checks the messages, `virtio-queue` the indices of rings.
//!
//! # What must hold
//!
//! - What a client writes into its memory is not trusted. It is read once, and each address is checked by each access.
//! - The memory of a client, and a ring that stops, are exchanged when no request uses them: see [`Device::set_memory`]
//!   and [`Device::stop`].
//! - A ring whose client breaks the rules is not used any more: its error event is signalled, and the other rings
//!   continue.
//! - A request costs no allocation, lock or dynamic dispatch here.
//!
//! A client that shortens a file of the memory that it shares ends the server (SIGBUS). It has to be a program that
//! this user trusts.

mod chain;
mod device;
mod dirty_log;
mod in_flight_record;
mod memory;
mod ring;

pub use chain::{DescriptorTable, Part, visit_chain};
pub use device::{Device, serve};
pub use dirty_log::DirtyLog;
pub use in_flight_record::InFlightRecord;
pub use memory::ClientMemory;
pub use ring::{MOST_DESCRIPTORS, Ring, signal};
