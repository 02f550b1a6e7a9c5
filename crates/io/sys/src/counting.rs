//! An allocator that counts allocations, for tests which verify that a loop does not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNTED: AtomicU64 = AtomicU64::new(0);

// Initialized at compile time and without destructors: access never allocates.
thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static MAX_HELD: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator with counters. Declare it as `#[global_allocator]` in a test.
#[derive(Debug)]
pub struct CountingAllocator;

/// Number of allocations of the calling thread so far. Other threads are not included, because those of the
/// test harness allocate at arbitrary times.
pub fn allocations() -> u64 {
    OWN.get()
}

/// The largest number of bytes that `work` holds at the same time, beyond those held before; of the calling thread.
pub fn most_bytes_held<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.get();
    MAX_HELD.set(before);
    let result = work();
    (result, u64::try_from(MAX_HELD.get() - before).unwrap_or(0))
}

fn hold(bytes: i64) {
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MAX_HELD.try_with(|most| most.set(most.get().max(held.get())));
    });
}

/// Includes the allocations of the calling thread in [`counted_allocations`] from now on.
pub fn count_this_thread() {
    IS_COUNTED.set(true);
}

/// Number of allocations so far of all included threads.
pub fn counted_allocations() -> u64 {
    COUNTED.load(Ordering::Relaxed)
}

// SAFETY: every call goes to the system's allocator, unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The thread-local variables of a thread that is ending no longer exist.
        let _ = OWN.try_with(|own| own.set(own.get() + 1));
        if IS_COUNTED.try_with(Cell::get).unwrap_or(false) {
            COUNTED.fetch_add(1, Ordering::Relaxed);
        }
        hold(layout.size() as i64);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}
