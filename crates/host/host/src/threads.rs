//! Work on several threads.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

/// Runs `work` for each item on a thread of its own, and waits for all. The results are in the order of the items.
/// Panics if `work` does.
pub fn on_threads<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let threads = items
            .into_iter()
            .map(|item| scope.spawn(move || work(item)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(join).collect()
    })
}

/// Waits for the result of a thread. Panics if the thread has.
pub fn join<R>(thread: ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
