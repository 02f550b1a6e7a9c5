//! The search for the largest depth at which latencies keep a limit (`latency_target`).

use iodyno_model::LatencyTarget;

use crate::outcome::WorkerError;

/// Windows in a row that must keep the limit before a depth that was found is raised again.
const STEADY_WINDOWS: u32 = 3;

/// The result of a window.
#[derive(Debug, PartialEq)]
pub(crate) enum Searched {
    /// The next window may have another depth.
    Continues,
    /// The depth is found, and the job ends with it.
    Found,
    /// Even one op at a time exceeds the limit.
    Impossible(WorkerError),
}

/// Doubles the depth until a window misses the limit, then bisects.
#[derive(Debug)]
pub(crate) struct DepthSearch {
    target: LatencyTarget,
    /// Largest depth that is tried.
    most: u32,
    depth: u32,
    /// The largest depth that met the limit; 0: none did.
    kept: u32,
    /// The smallest depth that exceeded it; `most + 1`: none did.
    missed: u32,
    /// Windows in a row that kept it at the depth that was found.
    steady: u32,
    /// The depth is found, and is being measured in its own window.
    found: bool,
    since: u64,
    ops: u64,
    late: u64,
}

impl DepthSearch {
    /// Begins with one op at a time.
    pub(crate) fn new(target: LatencyTarget, most: u32, now: u64) -> DepthSearch {
        DepthSearch {
            target,
            most: most.max(1),
            depth: 1,
            kept: 0,
            missed: most.max(1) + 1,
            steady: 0,
            found: false,
            since: now,
            ops: 0,
            late: 0,
        }
    }

    /// Ops in flight at most.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The end of this window.
    pub(crate) fn due(&self) -> u64 {
        self.since.saturating_add(self.target.window.0)
    }

    /// Counts an op submitted in this window; earlier ones saw the previous depth. Returns whether it decides the
    /// window's result.
    #[inline]
    pub(crate) fn note(&mut self, submitted: u64, service_ns: u64) -> bool {
        if submitted < self.since {
            return false;
        }
        self.ops += 1;
        let late = service_ns > self.target.limit.0;
        self.late += u64::from(late);
        late && self.target.percent >= 100.0
    }

    /// Judges the window if it is over or decided, and begins the next one.
    pub(crate) fn judge(&mut self, now: u64) -> Searched {
        let decided = self.late > 0 && self.target.percent >= 100.0;
        if self.ops == 0 || (now < self.due() && !decided) {
            if now >= self.due() {
                self.since = now;
            }
            return Searched::Continues;
        }
        let in_time = (self.ops - self.late) as f64 / self.ops as f64;
        let keeps = in_time * 100.0 >= self.target.percent;
        (self.since, self.ops, self.late) = (now, 0, 0);
        match keeps {
            true => self.keeps(),
            false => self.misses(),
        }
    }

    fn keeps(&mut self) -> Searched {
        self.kept = self.depth;
        if self.found {
            if !self.target.endless {
                return Searched::Found;
            }
            self.steady += 1;
            if self.steady >= STEADY_WINDOWS && self.depth < self.most {
                self.depth += 1;
                self.missed = self.missed.max(self.depth + 1);
                self.steady = 0;
            }
            return Searched::Continues;
        }
        self.next();
        Searched::Continues
    }

    fn misses(&mut self) -> Searched {
        if self.depth == 1 {
            let limit = self.target.limit;
            if self.target.percent >= 100.0 {
                return Searched::Impossible(
                    WorkerError::new(
                        "keep to `latency_target`",
                        format!("an op at a depth of 1 took more than {limit}"),
                    )
                    .hint("raise `latency_target`, or lower `latency_percentile`"),
                );
            }
            (self.kept, self.missed) = (0, 2.min(self.most + 1));
            self.found = true;
            return match self.target.endless {
                true => Searched::Continues,
                false => Searched::Found,
            };
        }
        self.missed = self.depth;
        self.steady = 0;
        // A depth that met the limit before no longer does.
        if self.kept >= self.missed {
            self.kept = 0;
        }
        self.next();
        Searched::Continues
    }

    /// The next depth to try: the middle of the open range, or twice this one if none exceeded the limit yet.
    fn next(&mut self) {
        self.found = self.kept > 0 && (self.kept + 1 == self.missed || self.kept == self.most);
        self.depth = match self.found {
            true => self.kept,
            false if self.missed > self.most && self.kept > 0 => {
                self.kept.saturating_mul(2).min(self.most)
            }
            false => ((self.kept + self.missed) / 2).max(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use iodyno_units::Nanos;

    use super::*;

    const WINDOW: u64 = 1_000_000;

    fn target(percent: f64, endless: bool) -> LatencyTarget {
        LatencyTarget {
            limit: Nanos(1000),
            window: Nanos(WINDOW),
            percent,
            endless,
        }
    }

    /// Runs windows of 100 ops on a device whose latency is 100 ns for each op in flight. Returns the depths tried.
    fn search(mut search: DepthSearch, windows: usize) -> (Vec<u32>, Searched) {
        let mut depths = Vec::new();
        for window in 1..=windows as u64 {
            depths.push(search.depth());
            let service = u64::from(search.depth()) * 100;
            for _ in 0..100 {
                search.note((window - 1) * WINDOW, service);
            }
            match search.judge(window * WINDOW) {
                Searched::Continues => {}
                ended => return (depths, ended),
            }
        }
        (depths, Searched::Continues)
    }

    #[test]
    fn bisects_to_the_largest_depth_that_keeps_the_limit() {
        for percent in [100.0, 99.0] {
            for (most, tried) in [
                (64, vec![1, 2, 4, 8, 16, 12, 10, 11, 10]),
                (10, vec![1, 2, 4, 8, 10, 10]),
                (8, vec![1, 2, 4, 8, 8]),
                (1, vec![1, 1]),
            ] {
                let started = DepthSearch::new(target(percent, false), most, 0);
                assert_eq!(search(started, 20), (tried, Searched::Found), "{most}");
            }
        }
    }

    #[test]
    fn goes_on_around_the_depth_that_was_found_where_asked() {
        let started = DepthSearch::new(target(99.0, true), 64, 0);
        let (depths, ended) = search(started, 30);
        assert_eq!(ended, Searched::Continues);
        assert!(
            depths[9..].iter().all(|depth| (10..=11).contains(depth)),
            "{depths:?}"
        );
        assert!(depths[9..].contains(&11));
    }

    #[test]
    fn a_limit_that_one_op_at_a_time_misses_is_an_error_or_found_at_once() {
        let mut all = DepthSearch::new(target(100.0, false), 8, 0);
        assert!(!all.note(0, 1000), "an op in time does not");
        assert!(all.note(0, 1001), "the first late op decides");
        assert!(matches!(all.judge(10), Searched::Impossible(_)));
        let mut most = DepthSearch::new(target(99.0, false), 8, 0);
        assert!(!most.note(0, 1001));
        assert_eq!(
            most.judge(10),
            Searched::Continues,
            "the window is not over"
        );
        assert_eq!(most.judge(WINDOW), Searched::Found);
        assert_eq!(most.depth(), 1);
    }

    #[test]
    fn ops_of_an_earlier_window_do_not_count() {
        let mut search = DepthSearch::new(target(99.0, false), 8, 0);
        search.note(0, 100);
        assert_eq!(search.judge(WINDOW), Searched::Continues);
        assert_eq!(search.depth(), 2);
        search.note(WINDOW - 1, 5000);
        search.note(WINDOW, 100);
        assert_eq!(search.judge(2 * WINDOW), Searched::Continues);
        assert_eq!(search.depth(), 4);
    }

    #[test]
    fn a_window_without_ops_is_extended() {
        let mut idle = DepthSearch::new(target(99.0, false), 8, 0);
        assert_eq!(idle.judge(WINDOW), Searched::Continues);
        assert_eq!((idle.depth(), idle.due()), (1, 2 * WINDOW));
    }
}
