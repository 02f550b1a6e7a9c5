//! The only crate with unsafe code: rings, aio, mmap, buffers, ioctl
