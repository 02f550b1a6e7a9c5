//! When a run has time for another round, and when a cell is given up. Pure.

use iodyno_model::{Plan, TrialState};

/// A cell that has failed in so many rounds running without ever completing is given up: ten hours
/// should not go by with what does not work.
const MOST_FAILURES: u32 = 3;

/// How long rounds take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timing {
    begun_ns: u64,
    longest_ns: u64,
    sum_ns: u64,
    rounds: u64,
}

impl Timing {
    pub(crate) fn new(begun_ns: u64) -> Timing {
        Timing {
            begun_ns,
            longest_ns: 0,
            sum_ns: 0,
            rounds: 0,
        }
    }

    /// A round took so long for `made` of its `cells`: the rest of one that was cut off before
    /// counts as a whole one that went at that pace.
    pub(crate) fn round(&mut self, span_ns: u64, made: u32, cells: u32) {
        if made == 0 {
            return;
        }
        let whole = u128::from(span_ns) * u128::from(cells) / u128::from(made);
        let whole = u64::try_from(whole).unwrap_or(u64::MAX);
        self.longest_ns = self.longest_ns.max(whole);
        self.sum_ns = self.sum_ns.saturating_add(whole);
        self.rounds += 1;
    }

    /// A round as long as the longest would end within the time allowed. Before the first one is
    /// measured, there always is.
    pub(crate) fn room(&self, now_ns: u64, max_time_ns: Option<u64>) -> bool {
        max_time_ns.is_none_or(|max| {
            let end = self.passed(now_ns).saturating_add(self.longest_ns);
            self.rounds == 0 || end <= max
        })
    }

    /// What so many rounds may take, by the mean of those measured, and no more than is allowed, ns.
    /// `None` for no rounds, or before any was measured.
    pub(crate) fn left(&self, now_ns: u64, rounds: u32, max_time_ns: Option<u64>) -> Option<u64> {
        if rounds == 0 || self.rounds == 0 {
            return None;
        }
        let left = (self.sum_ns / self.rounds).saturating_mul(u64::from(rounds));
        let allowed = max_time_ns.map(|max| max.saturating_sub(self.passed(now_ns)));
        Some(left.min(allowed.unwrap_or(u64::MAX)))
    }

    fn passed(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.begun_ns)
    }
}

/// How the cells do.
pub(crate) struct RetryLimit(Vec<Attempts>);

#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    completed: bool,
    /// Rounds running.
    failed: u32,
    refused: bool,
}

impl RetryLimit {
    pub(crate) fn new(plan: &Plan) -> RetryLimit {
        RetryLimit(vec![Attempts::default(); plan.cells() as usize])
    }

    /// Notes how a cell's trial of a round came out; true if the cell is given up from here on.
    pub(crate) fn note(&mut self, cell: u32, state: TrialState) -> bool {
        let attempts = &mut self.0[cell as usize];
        attempts.refused = state == TrialState::Refused;
        match state {
            TrialState::Completed => (attempts.completed, attempts.failed) = (true, 0),
            _ => attempts.failed += 1,
        }
        !attempts.completed && attempts.failed == MOST_FAILURES
    }

    /// Its trials are no longer made.
    pub(crate) fn given_up(&self, cell: u32) -> bool {
        let attempts = self.0[cell as usize];
        !attempts.completed && attempts.failed >= MOST_FAILURES
    }

    /// Why, in words.
    pub(crate) fn why() -> String {
        format!("it failed in {MOST_FAILURES} rounds running and never completed")
    }

    /// No cell is left.
    pub(crate) fn all_given_up(&self) -> bool {
        (0..self.0.len() as u32).all(|cell| self.given_up(cell))
    }

    /// Cells whose targets were not refused when they were last asked for.
    pub(crate) fn admitted(&self) -> usize {
        self.0.iter().filter(|attempts| !attempts.refused).count()
    }
}

#[cfg(test)]
mod tests;
