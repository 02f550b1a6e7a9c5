//! Servers of storage: a mirror on real legs, and the servers of NBD, vhost-user and FUSE in front of it.
//!
//! [`legs`] opens legs by the guard and reads their metadata. [`format`] writes superblocks: it creates mirrors and
//! changes their legs. [`queue`] is the thread that runs the state machine of `iodyno_mirror` and performs its orders.
//! The threads of queues read from legs through a [`reader`]. [`nbd`] is the protocol without sockets, and [`front`]
//! serves it on a socket. [`vhost_user`] serves a virtual machine monitor: its threads have rings, whose requests
//! [`virtio_blk`] reads from the shared memory. [`fuse`] has the FUSE transports, and serves a mirror as a file of this
//! host. [`control`] changes and compares the legs of a served mirror.

mod buffer_pool;
pub mod control;
pub mod format;
pub mod front;
pub mod fuse;
pub mod legs;
mod listener;
pub mod nbd;
mod nbd_connection;
pub mod queue;
pub mod reader;
mod ring_thread;
mod split_brain;
pub mod vhost_user;
pub mod virtio_blk;

use iodyno_model::{Diagnostic, MirrorLayer};
use rustix::mm::MlockAllFlags;
use rustix::process::configure_io_flusher_behavior;
use rustix::thread::{CapabilitySet, capabilities};

/// Gives this process the name under which it is sampled as a server. The main thread must call this.
pub fn name_process() {
    if let Ok(name) = std::ffi::CString::new(MirrorLayer::PROCESS) {
        // Without it, the process is called as the program is.
        let _ = rustix::thread::set_name(&name);
    }
}

/// Locks the memory of this process, and lets the kernel allocate memory for it without writing to disks. So the
/// process does not wait for its own storage. Otherwise a mirror used as a block device on its own host may deadlock
/// under memory pressure. `guests`: guest memory will be mapped; then pages are locked on first use, because locking
/// would allocate all of them. Returns warnings.
pub fn stay_in_memory(guests: bool) -> Vec<Diagnostic> {
    let effective = capabilities(None).map(|sets| sets.effective);
    let may = |which| effective.is_ok_and(|set| set.contains(which));
    let mut missing = Vec::new();
    // Freed memory is no longer locked.
    iodyno_sys::memory::return_large_buffers();
    // With a limit of locked memory, later allocations would fail.
    let mut which = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    which.set(MlockAllFlags::ONFAULT, guests);
    let locked = may(CapabilitySet::IPC_LOCK) && rustix::mm::mlockall(which).is_ok();
    if !locked {
        missing.push("its memory is not locked (needs CAP_IPC_LOCK)");
    }
    if configure_io_flusher_behavior(true).is_err() {
        missing.push("PR_SET_IO_FLUSHER is not set (needs CAP_SYS_RESOURCE)");
    }
    let warning = |what: &&str| {
        Diagnostic::warning(*what)
            .hint("only if this host itself uses the mirror as a block device: run it as root with this capability")
    };
    missing.iter().map(warning).collect()
}
