//! The only crate with unsafe code: rings, aio, mmap, buffers, ioctl.
//!
//! Everything it offers is safe to call: what the kernel may write to stays alive, and untouched by
//! anyone else, until the kernel is done with it.
#![allow(unsafe_code)]

pub mod aio;
pub mod clock;
#[cfg(feature = "testing")]
pub mod counting;
pub mod file;
pub mod host;
pub mod mapped;
pub mod memory;
pub mod posix_aio;
pub mod thread;
pub mod uring;
