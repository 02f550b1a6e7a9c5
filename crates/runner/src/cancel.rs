//! The one way inward: a word that ends a trial early.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What the user wants of a running trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    GoOn,
    Finish,
    Abort,
    /// Cleaning up takes too long, too.
    Leave,
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

    /// Does not even wait for what the trial made to be removed: the child is killed.
    pub fn leave(&self) {
        self.0.fetch_max(3, Ordering::Relaxed);
    }

    /// As a user's Ctrl-C means it: the first time [`Cancel::finish`], the second time
    /// [`Cancel::abort`], and from then on [`Cancel::leave`].
    pub fn interrupt(&self) {
        // Beyond 250 it no longer matters; the word must not wrap around to "go on".
        if self.0.fetch_add(1, Ordering::Relaxed) > 250 {
            self.0.store(3, Ordering::Relaxed);
        }
    }

    /// Anything was wished for.
    pub fn is_cancelled(&self) -> bool {
        self.wish() != Wish::GoOn
    }

    pub(crate) fn wish(&self) -> Wish {
        match self.0.load(Ordering::Relaxed) {
            0 => Wish::GoOn,
            1 => Wish::Finish,
            2 => Wish::Abort,
            _ => Wish::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_interruption_aborts_the_third_leaves_and_no_later_one_takes_it_back() {
        let cancel = Cancel::new();
        let shared = cancel.clone();
        assert_eq!(shared.wish(), Wish::GoOn);
        cancel.interrupt();
        assert_eq!(shared.wish(), Wish::Finish);
        cancel.interrupt();
        assert_eq!(shared.wish(), Wish::Abort);
        for _ in 0..1000 {
            cancel.interrupt();
            assert_eq!(shared.wish(), Wish::Leave);
        }
    }

    #[test]
    fn a_weaker_wish_never_replaces_a_stronger_one() {
        let cancel = Cancel::new();
        cancel.abort();
        cancel.finish();
        assert_eq!(cancel.wish(), Wish::Abort);
    }
}
