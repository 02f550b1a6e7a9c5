//! The next tasks of the trial thread and their times. All instants are clock ns.

use crate::node::rates;

/// Interval at which the logs of single ops are written, ns.
const OPS_LOG_NS: u64 = 5_000_000;
/// Interval of checks whether the measured time is over, if other steps follow it, ns.
const LOOK_NS: u64 = 50_000_000;
/// The shortest frame, ns: shorter ones would mostly measure the harness.
pub(crate) const MIN_FRAME_NS: u64 = 10_000_000;
const DEFAULT_FRAME_NS: u64 = 1_000_000_000;
const NEVER: u64 = u64::MAX;

/// The next instant of each task.
#[derive(Debug, Default)]
pub(crate) struct Due {
    origin: u64,
    frame_ns: u64,
    frame: u64,
    window: u64,
    ops_log: u64,
    look: u64,
    /// The next check for stuck storage, and the interval of checks; 0: never.
    stuck: (u64, u64),
    /// The first end of a ramp, unless a measurement begins before it.
    measure: u64,
    /// The latest known end of a runtime; 0: none.
    end: u64,
}

impl Due {
    /// `followed`: other steps follow the measured time.
    pub(crate) fn new(origin: u64, frame_ns: u64, single_ops: bool, followed: bool) -> Due {
        let frame_ns = match frame_ns {
            0 => DEFAULT_FRAME_NS,
            length => length.max(MIN_FRAME_NS),
        };
        let ever = |ever: bool| if ever { origin } else { NEVER };
        Due {
            origin,
            frame_ns,
            frame: origin + frame_ns,
            window: origin + rates::WINDOW_NS,
            ops_log: ever(single_ops),
            look: ever(followed),
            stuck: (NEVER, 0),
            measure: NEVER,
            end: 0,
        }
    }

    /// Checks every `every_ns` whether the storage is stuck.
    pub(crate) fn watch_storage(&mut self, every_ns: u64) {
        self.stuck = (self.origin + every_ns, every_ns);
    }

    /// Whether a check for stuck storage is due.
    pub(crate) fn stuck(&mut self, now: u64) -> bool {
        let due = now >= self.stuck.0;
        if due {
            self.stuck.0 = next(self.origin, self.stuck.1, now);
        }
        due
    }

    /// The trial's start.
    pub(crate) fn origin(&self) -> u64 {
        self.origin
    }

    /// A clone starts at the first instant and is measured from the second, until `until` if known. `first`: nothing
    /// was measured before.
    pub(crate) fn released(&mut self, (at, measured): (u64, u64), until: Option<u64>, first: bool) {
        self.end = self.end.max(until.unwrap_or(0));
        if at == measured {
            // From now on a clone is measured: the ramps have no common end.
            self.measure = NEVER;
        } else if first {
            self.measure = self.measure.min(measured);
        }
    }

    /// Whether the ramp of the whole trial has ended; true once.
    pub(crate) fn ramp_ends(&mut self, now: u64) -> bool {
        let ends = now >= self.measure;
        if ends {
            self.measure = NEVER;
        }
        ends
    }

    /// Whether a frame has ended.
    pub(crate) fn frame(&mut self, now: u64) -> bool {
        let over = now >= self.frame_end();
        if over {
            self.frame = next(self.origin, self.frame_ns, now);
        }
        over
    }

    /// A frame ended early: the next one lasts at least to the next instant of the grid.
    pub(crate) fn cut_early(&mut self, now: u64) {
        self.frame = next(self.origin, self.frame_ns, now);
    }

    /// A little later if the trial is about to end, so that the last frame is not a very short one.
    fn frame_end(&self) -> u64 {
        let slack = self.frame_ns / 20;
        match self.frame.abs_diff(self.end) <= slack {
            true => self.end.max(self.frame) + slack,
            false => self.frame,
        }
    }

    /// Whether a window of the rates has ended.
    pub(crate) fn window(&mut self, now: u64) -> bool {
        let over = now >= self.window;
        if over {
            self.window = next(self.origin, rates::WINDOW_NS, now);
        }
        over
    }

    /// Whether to write the logs of single ops.
    pub(crate) fn ops_log(&mut self, now: u64) -> bool {
        let due = now >= self.ops_log;
        if due {
            self.ops_log = now + OPS_LOG_NS;
        }
        due
    }

    /// Whether it is time to check if the measured time is over.
    pub(crate) fn look(&mut self, now: u64) -> bool {
        let due = now >= self.look;
        if due {
            self.look = now + LOOK_NS;
        }
        due
    }

    /// When the next task is due.
    pub(crate) fn next(&self) -> u64 {
        self.window
            .min(self.ops_log)
            .min(self.look)
            .min(self.stuck.0)
            .min(self.measure)
            .min(self.frame_end())
    }
}

/// The next instant after `now` on a grid.
fn next(origin: u64, step: u64, now: u64) -> u64 {
    origin + (now.saturating_sub(origin) / step + 1) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn due() -> Due {
        Due::new(5 * SECOND, SECOND, false, false)
    }

    #[test]
    fn a_missed_tick_does_not_shift_the_grid() {
        for (now, expected) in [(100, 200), (199, 200), (200, 300), (999, 1000), (50, 200)] {
            assert_eq!(next(100, 100, now), expected, "{now}");
        }
        let mut due = due();
        assert!(!due.frame(6 * SECOND - 1));
        assert!(due.frame(8 * SECOND + 7) && !due.frame(8 * SECOND + 8));
        assert_eq!(due.frame, 9 * SECOND);
    }

    #[test]
    fn the_last_frame_waits_for_the_end() {
        for (end, frame_end) in [
            (10 * SECOND, 6 * SECOND),
            (6 * SECOND, 6 * SECOND + SECOND / 20),
            (6 * SECOND + 1000, 6 * SECOND + 1000 + SECOND / 20),
            (6 * SECOND - 1000, 6 * SECOND + SECOND / 20),
            (5 * SECOND + SECOND / 2, 6 * SECOND),
        ] {
            let mut due = due();
            due.released((5 * SECOND, 5 * SECOND), Some(end), true);
            assert_eq!(due.frame_end(), frame_end, "{end}");
        }
    }

    #[test]
    fn the_ramp_of_the_trial_ends_once_and_only_if_all_clones_ramp() {
        let start = 5 * SECOND;
        let mut all = due();
        all.released((start, start + 9), None, true);
        all.released((start, start + 7), None, true);
        assert!(!all.ramp_ends(start + 6) && all.ramp_ends(start + 7));
        assert!(!all.ramp_ends(start + 9));
        let mut some = due();
        some.released((start, start + 9), None, true);
        some.released((start, start), None, true);
        assert!(!some.ramp_ends(start + 9));
        let mut later = due();
        later.released((start, start + 9), None, false);
        assert!(!later.ramp_ends(start + 9));
    }

    #[test]
    fn only_requested_tasks_are_due() {
        let quiet = due();
        assert_eq!(quiet.next(), 5 * SECOND + rates::WINDOW_NS);
        let mut busy = Due::new(0, 0, true, true);
        assert!(busy.ops_log(0) && busy.look(0));
        assert_eq!(busy.next(), OPS_LOG_NS);
        assert_eq!(Due::new(0, 1, false, false).frame, MIN_FRAME_NS);
    }
}
