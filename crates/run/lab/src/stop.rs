//! Decides whether there is time for another round, and whether a cell is given up. Pure functions.

use std::ops::Range;

use iodyno_model::{Plan, TrialState};

/// A cell that has never completed is given up after this many consecutive failures, so that a long run does not
/// spend hours on trials that fail.
const MAX_FAILURES: u32 = 3;

/// Whether all trials so far are compared after this number of rounds: after each of the first 127, then after each 2nd
/// to 255, each 4th to 511, and so on, so that at most 1/64 more rounds are made than a comparison after each would ask
/// for. A comparison takes time in proportion to the trials: all of them together take as long as about 100 comparisons
/// of the whole run, and not as its square. Which rounds these are depends on nothing else.
pub(crate) fn compared_after(rounds: u32) -> bool {
    rounds.is_multiple_of(1 << (rounds / 64).max(1).ilog2())
}

/// The durations of the rounds.
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

    /// Adds a round that took `span_ns` for `made` of its `cells`. The rest of an interrupted round counts as a
    /// complete round at the same rate.
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

    /// Whether a round as long as the longest so far would end within the time limit, if `missing` of its `cells` have
    /// to be run. True before the first round.
    pub(crate) fn room(
        &self,
        now_ns: u64,
        max_time_ns: Option<u64>,
        (missing, cells): (u32, u32),
    ) -> bool {
        max_time_ns.is_none_or(|max| {
            let whole = u128::from(self.longest_ns);
            let rest = whole * u128::from(missing) / u128::from(cells.max(1));
            let end = u128::from(self.passed(now_ns)) + rest;
            self.rounds == 0 || end <= u128::from(max)
        })
    }

    /// The estimated time of this many rounds, from the mean so far, and at most the rest of the time limit, ns.
    /// `None` for zero rounds, before the first, or if there is no time for another.
    pub(crate) fn left(&self, now_ns: u64, rounds: u32, max_time_ns: Option<u64>) -> Option<u64> {
        if rounds == 0 || self.rounds == 0 || !self.room(now_ns, max_time_ns, (1, 1)) {
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

/// The number of rounds with missing trials, which is counted once and then lowered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RoundsLeft(Option<u32>);

impl RoundsLeft {
    /// The number in these rounds, which follow the round that was just carried out.
    pub(crate) fn after(&mut self, rounds: Range<u32>, lacks: impl Fn(u32) -> bool) -> u32 {
        let left = match self.0 {
            Some(before) => before.saturating_sub(1),
            None => rounds.filter(|round| lacks(*round)).count() as u32,
        };
        self.0 = Some(left);
        left
    }
}

/// The failures of each cell.
pub(crate) struct RetryLimit(Vec<Attempts>);

#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    completed: bool,
    /// Consecutive failures.
    failed: u32,
    refused: bool,
}

impl RetryLimit {
    pub(crate) fn new(plan: &Plan) -> RetryLimit {
        RetryLimit(vec![Attempts::default(); plan.cells() as usize])
    }

    /// Adds the outcome of a cell's trial; true if the cell is given up from now on.
    pub(crate) fn note(&mut self, cell: u32, state: TrialState) -> bool {
        let attempts = &mut self.0[cell as usize];
        attempts.refused = state == TrialState::Refused;
        match state {
            TrialState::Completed => (attempts.completed, attempts.failed) = (true, 0),
            _ => attempts.failed += 1,
        }
        !attempts.completed && attempts.failed == MAX_FAILURES
    }

    /// Whether its trials are skipped.
    pub(crate) fn given_up(&self, cell: u32) -> bool {
        let attempts = self.0[cell as usize];
        !attempts.completed && attempts.failed >= MAX_FAILURES
    }

    /// The reason, for messages.
    pub(crate) fn why() -> String {
        format!("it failed in {MAX_FAILURES} consecutive rounds and never completed")
    }

    /// Whether the plan compares cells, no row of the comparison has two cells left, and no search is left.
    pub(crate) fn nothing_to_compare(&self, plan: &Plan) -> bool {
        let left = |cell| !self.given_up(cell);
        let mut cells = 0..plan.cells();
        let searching = cells.any(|cell| left(cell) && plan.cell(cell).1.search.is_some());
        let compares = iodyno_judge::comparable(plan, &|_| true);
        compares && !searching && !iodyno_judge::comparable(plan, &left)
    }

    /// The number of cells whose latest trial was not refused.
    pub(crate) fn admitted(&self) -> usize {
        self.0.iter().filter(|attempts| !attempts.refused).count()
    }
}

#[cfg(test)]
mod tests;
