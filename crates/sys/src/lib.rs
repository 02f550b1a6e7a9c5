//! The only crate with unsafe code: rings, aio, mmap, buffers, ioctl.
//!
//! Everything it offers is safe to call: what the kernel may write to stays alive, and untouched by
//! anyone else, until the kernel is done with it.
#![allow(unsafe_code)]

pub mod host;
pub mod memory;
