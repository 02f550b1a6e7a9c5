//! An allocator that counts, for tests that prove a loop allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNTED: AtomicU64 = AtomicU64::new(0);

// Initialized at compile time and without destructors: using them never allocates.
thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, counted. Name it `#[global_allocator]` in a test.
#[derive(Debug)]
pub struct CountingAllocator;

/// Allocations of the calling thread so far. Those of others do not count: the threads of the test harness allocate
/// whenever they happen to be scheduled.
pub fn allocations() -> u64 {
    OWN.get()
}

/// From now on the calling thread's allocations count for [`counted_allocations`].
pub fn count_this_thread() {
    IS_COUNTED.set(true);
}

/// Allocations so far of all threads that are counted.
pub fn counted_allocations() -> u64 {
    COUNTED.load(Ordering::Relaxed)
}

// SAFETY: every call goes to the system's allocator, unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is about to end has none of these any more.
        let _ = OWN.try_with(|own| own.set(own.get() + 1));
        if IS_COUNTED.try_with(Cell::get).unwrap_or(false) {
            COUNTED.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}
