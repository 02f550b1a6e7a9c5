//! The times at which samples are due and pending samples are sent. Pure; instants are clock ns.

/// The grid of the samples of a trial, or of its layout.
#[derive(Debug)]
pub(super) struct SampleGrid {
    origin: u64,
    every_ns: u64,
    next: u64,
    /// The latest known end of a job; 0: none.
    end: u64,
    /// The period in which samples were last sent.
    sent: u64,
}

impl SampleGrid {
    /// A grid that begins with the trial, or with its layout, at `origin`.
    pub(super) fn new(origin: u64, every_ns: u64, now: u64) -> SampleGrid {
        let mut grid = SampleGrid {
            origin,
            every_ns,
            next: 0,
            end: 0,
            sent: 0,
        };
        grid.next = grid.after(now);
        grid
    }

    /// A job ends at this instant.
    pub(super) fn ends(&mut self, at: u64) {
        self.end = self.end.max(at);
    }

    /// When the next sample is due; a little later if the trial is about to end, so that the last sample does not cover
    /// only a millisecond.
    pub(super) fn due(&self) -> u64 {
        let slack = self.every_ns / 20;
        match self.next.abs_diff(self.end) <= slack {
            true => self.end.max(self.next) + slack,
            false => self.next,
        }
    }

    /// A sample was taken. Returns whether to send pending samples now: at most once in each `batch_ns`.
    pub(super) fn taken(&mut self, now: u64, batch_ns: u64) -> bool {
        self.next = self.after(now);
        // A sample that is due on the second belongs to it even if it was taken a little early or late.
        let period = (now.saturating_sub(self.origin) + self.every_ns / 4) / batch_ns;
        let send = period > self.sent;
        self.sent = self.sent.max(period);
        send
    }

    /// Whether the time since the last sample is long enough for another: a twentieth of a step, or half a step if
    /// there was none yet.
    pub(super) fn has_part(&self, now: u64) -> bool {
        let last = self.next.saturating_sub(self.every_ns);
        let least = match last > self.origin {
            true => self.every_ns / 20,
            false => self.every_ns / 2,
        };
        now.saturating_sub(last) >= least
    }

    /// Doubles the length of steps from now on, and returns it, ns.
    pub(super) fn widen(&mut self, now: u64) -> u64 {
        self.every_ns = self.every_ns.saturating_mul(2);
        self.next = self.after(now);
        self.every_ns
    }

    /// The next instant of the grid that is at least half a step away.
    fn after(&self, now: u64) -> u64 {
        let since = now.saturating_sub(self.origin) + self.every_ns / 2;
        self.origin + (since / self.every_ns + 1) * self.every_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A trial that began at 5 s.
    fn grid(every_ms: u64) -> SampleGrid {
        SampleGrid::new(5000 * MS, every_ms * MS, 5001 * MS)
    }

    #[test]
    fn samples_are_on_the_grid_and_missed_ones_are_not_repeated() {
        for (every_ms, taken_ms, next_ms) in [
            (1000, 6000, 7000),
            (1000, 6003, 7000),
            (1000, 6499, 7000),
            // Half a second before the next grid point: the interval of that sample would be too short.
            (1000, 6500, 8000),
            (1000, 9100, 10_000),
            (100, 5100, 5200),
            (100, 5160, 5300),
            (30_000, 35_000, 65_000),
        ] {
            let mut grid = grid(every_ms);
            grid.taken(taken_ms * MS, 1000 * MS);
            assert_eq!(grid.due(), next_ms * MS, "{every_ms} {taken_ms}");
        }
        assert_eq!(grid(1000).due(), 6000 * MS);
        assert_eq!(grid(100).due(), 5100 * MS);
    }

    #[test]
    fn a_short_rest_of_a_layout_has_no_sample() {
        for (taken_ms, now_ms, expected) in [
            (&[][..], 5499, false),
            (&[], 5500, true),
            (&[6000], 6010, false),
            (&[6000], 6050, true),
            (&[6000, 7003], 7049, false),
            (&[6000, 7003], 7900, true),
        ] {
            let mut grid = grid(1000);
            for taken in taken_ms {
                grid.taken(taken * MS, 1000 * MS);
            }
            assert_eq!(
                grid.has_part(now_ms * MS),
                expected,
                "{taken_ms:?} {now_ms}"
            );
        }
    }

    #[test]
    fn a_widened_grid_has_steps_of_twice_the_length() {
        let mut grid = grid(1000);
        assert_eq!(grid.widen(6001 * MS), 2000 * MS);
        assert_eq!(grid.due(), 9000 * MS);
        grid.taken(9000 * MS, 1000 * MS);
        assert_eq!(grid.due(), 11_000 * MS);
    }

    #[test]
    fn the_last_sample_waits_for_the_end() {
        for (end_ms, due_ms) in [
            (5500, 6000),
            (5949, 6000),
            (5950, 6050),
            (6000, 6050),
            (6040, 6090),
            (6051, 6000),
        ] {
            let mut grid = grid(1000);
            grid.ends(end_ms * MS);
            grid.ends(1);
            assert_eq!(grid.due(), due_ms * MS, "{end_ms}");
        }
    }

    #[test]
    fn a_batch_is_sent_at_most_once_per_second_and_at_least_every_two() {
        for every_ms in [100, 130, 250, 700, 1000, 1300, 30_000] {
            let mut grid = grid(every_ms);
            let mut times = vec![5000 * MS];
            for _ in 0..200 {
                let now = grid.due() + MS;
                if grid.taken(now, 1000 * MS) {
                    times.push(now);
                }
            }
            for pair in times.windows(2) {
                let apart = (pair[1] - pair[0]) / MS;
                // One millisecond late, each.
                let most = every_ms.max(1000 + every_ms.min(1000)) + 1;
                assert!(apart <= most, "{every_ms}: {apart}");
            }
            let seconds = (grid.due() - 5000 * MS) / (1000 * MS);
            assert!(
                times.len() as u64 <= seconds + 2,
                "{every_ms}: {} in {seconds}",
                times.len()
            );
        }
    }
}
