//! Memory for counters and for I/O.

use std::sync::atomic::AtomicU64;

/// Counters at zero whose pages are only touched when first written.
pub fn zeroed_counters(count: usize) -> Box<[AtomicU64]> {
    // SAFETY: an AtomicU64 of all zero bits is the valid value 0.
    unsafe { Box::new_zeroed_slice(count).assume_init() }
}
