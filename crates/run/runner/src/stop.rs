//! A stop request that threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use iodyno_model::StopRequest;

/// Holds the strongest [`StopRequest`] so far. Clones share it. Each method is one atomic operation and may be called
/// from a signal handler.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicU8>);

impl StopFlag {
    /// Nothing is requested.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Requests a stop. A weaker request never replaces a stronger one.
    pub fn request(&self, stop: StopRequest) {
        self.0.fetch_max(stop as u8, Ordering::Relaxed);
    }

    /// Ends the trial early and keeps the results so far.
    pub fn finish(&self) {
        self.request(StopRequest::Finish);
    }

    /// Ends the trial now: I/O in flight is cancelled, and a child process that does not end is killed.
    pub fn abort(&self) {
        self.request(StopRequest::Abort);
    }

    /// The strongest request so far.
    pub fn requested(&self) -> StopRequest {
        StopRequest::from_u8(self.0.load(Ordering::Relaxed))
    }

    /// Whether a stop is requested.
    pub fn is_set(&self) -> bool {
        self.requested() != StopRequest::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weaker_request_never_replaces_a_stronger_one() {
        let flag = StopFlag::new();
        let shared = flag.clone();
        assert!(!shared.is_set());
        flag.finish();
        assert_eq!(shared.requested(), StopRequest::Finish);
        flag.abort();
        flag.finish();
        assert_eq!(shared.requested(), StopRequest::Abort);
    }
}
