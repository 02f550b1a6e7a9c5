//! The core of a vhost-user device, which block devices and file systems share.
//!
//! [`serve`] answers the messages of a front end and keeps the state that all devices have: the owner, the
//! [`ClientMemory`], the negotiated features. A [`Device`] has the threads of its rings and processes requests. A
//! [`Ring`] checks what the client writes into it, and [`visit_chain`] checks the descriptors of a request. The front
//! end shares the memory of an [`InFlightRecord`] with the next server, and that of a [`DirtyLog`] to migrate a guest.
//!
//! Source: "Vhost-user Protocol" of QEMU's documentation, and VIRTIO 1.2, section 2.7. The crate `vhost` reads and
//! checks the messages, `virtio-queue` the indices of rings.
//!
//! # Invariants
//!
//! - A client's memory is not trusted. Each value is read once, and each access checks its address.
//! - The memory of a client is replaced, and a ring is stopped, only when no request uses them: see
//!   [`Device::set_memory`] and [`Device::stop`].
//! - If a client breaks the rules of a ring, the ring ends and signals its error event. The other rings continue.
//! - A request costs no allocation, lock or dynamic dispatch here.
//!
//! A client that shortens the file of its shared memory kills the server by SIGBUS. Serve only clients that you trust.

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
pub use ring::{MAX_DESCRIPTORS, Ring, signal};
