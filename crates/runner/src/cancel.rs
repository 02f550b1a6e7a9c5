//! The one way inward: a word that ends a trial early.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What the user wants of a running trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    GoOn,
    Finish,
    Abort,
}

/// Ends a trial early. Clones share one word. All methods are a single atomic operation each and may be
/// called from a signal handler.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicU8>);

impl Cancel {
    /// Nothing is wished for yet.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Ends the trial early and keeps what was measured.
    pub fn finish(&self) {
        self.0.fetch_max(1, Ordering::Relaxed);
    }

    /// Ends the trial now: I/O in flight is cancelled, a child that does not end is killed.
    pub fn abort(&self) {
        self.0.fetch_max(2, Ordering::Relaxed);
    }

    /// Anything was wished for.
    pub fn is_cancelled(&self) -> bool {
        self.wish() != Wish::GoOn
    }

    pub(crate) fn wish(&self) -> Wish {
        match self.0.load(Ordering::Relaxed) {
            0 => Wish::GoOn,
            1 => Wish::Finish,
            _ => Wish::Abort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weaker_wish_never_replaces_a_stronger_one() {
        let cancel = Cancel::new();
        let shared = cancel.clone();
        assert_eq!(shared.wish(), Wish::GoOn);
        cancel.finish();
        assert_eq!(shared.wish(), Wish::Finish);
        cancel.abort();
        cancel.finish();
        assert_eq!(shared.wish(), Wish::Abort);
    }
}
