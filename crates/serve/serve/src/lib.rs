//! Servers of storage: a mirror on real legs, and the servers of NBD, vhost-user and FUSE in front of it.
//!
//! [`legs`] opens legs by the guard and reads what is stored on them; [`format`] writes superblocks: it makes mirrors
//! and changes their legs. [`queue`] is the thread that runs the state machine of `iodyno_mirror` and performs its
//! orders; the threads of queues read from legs by a [`reader`]. [`nbd`] is the protocol, without sockets; [`front`]
//! serves it on a socket. [`vhost_user`] serves a virtual machine monitor: threads have its rings, whose requests
//! [`virtio_blk`] reads, in the memory that it shares. [`fuse`] has the transports of FUSE, and serves a mirror as a
//! file of this host. [`control`] changes and compares the legs of a mirror that is served.

mod buffer_pool;
pub mod control;
pub mod format;
pub mod front;
pub mod fuse;
pub mod legs;
pub mod nbd;
pub mod queue;
pub mod reader;
mod ring_thread;
pub mod vhost_user;
pub mod virtio_blk;

use iodyno_model::{Diagnostic, MirrorLayer};
use rustix::mm::MlockAllFlags;
use rustix::process::configure_io_flusher_behavior;
use rustix::thread::{CapabilitySet, capabilities};

/// Gives this process the name by which it is sampled as a server. To be called by its first thread.
pub fn name_process() {
    if let Ok(name) = std::ffi::CString::new(MirrorLayer::PROCESS) {
        // Without it, the process is called as the program is.
        let _ = rustix::thread::set_name(&name);
    }
}

/// Keeps this process from waiting for its own storage: its memory is locked, and the kernel gets memory for it without
/// writing to disks. Otherwise a mirror that is used as a block device on its own host may deadlock if memory is short.
/// `guests`: memory of virtual machines will be mapped; then pages are locked when they are used, because locking gets
/// all of them. Returns warnings.
pub fn stay_in_memory(guests: bool) -> Vec<Diagnostic> {
    let effective = capabilities(None).map(|sets| sets.effective);
    let may = |which| effective.is_ok_and(|set| set.contains(which));
    let mut missing = Vec::new();
    // What is freed is not locked any more.
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
