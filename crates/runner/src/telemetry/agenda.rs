//! When samples are due, and when those taken are to be said. Pure; instants are the clock's, ns.

/// The grid of a trial's samples.
#[derive(Debug)]
pub(super) struct Agenda {
    origin: u64,
    every_ns: u64,
    next: u64,
    /// The last end of a job that is known; 0: none.
    end: u64,
    /// The stretch of the trial that something was last said in.
    said: u64,
}

impl Agenda {
    /// From the trial's start on.
    pub(super) fn new(origin: u64, every_ns: u64, now: u64) -> Agenda {
        let mut agenda = Agenda {
            origin,
            every_ns,
            next: 0,
            end: 0,
            said: 0,
        };
        agenda.next = agenda.after(now);
        agenda
    }

    /// A job ends then.
    pub(super) fn ends(&mut self, at: u64) {
        self.end = self.end.max(at);
    }

    /// When the next sample is due; a little later where the trial is about to end, so that the last sample is none
    /// of a millisecond.
    pub(super) fn due(&self) -> u64 {
        let slack = self.every_ns / 20;
        match self.next.abs_diff(self.end) <= slack {
            true => self.end.max(self.next) + slack,
            false => self.next,
        }
    }

    /// A sample was taken. Whether what is pending is to be said: something is at most once in each `batch_ns` of the trial.
    pub(super) fn taken(&mut self, now: u64, batch_ns: u64) -> bool {
        self.next = self.after(now);
        // One that is due on the second and was taken a little later, or a little early, belongs to it alike.
        let stretch = (now.saturating_sub(self.origin) + self.every_ns / 4) / batch_ns;
        let say = stretch > self.said;
        self.said = self.said.max(stretch);
        say
    }

    /// The trial's clock at an instant, ns.
    pub(super) fn on_trial_clock(&self, now: u64) -> i64 {
        let since = i128::from(now) - i128::from(self.origin);
        since.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The next instant of the grid, but none so near that it would tell of next to no time.
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
    fn agenda(every_ms: u64) -> Agenda {
        Agenda::new(5000 * MS, every_ms * MS, 5001 * MS)
    }

    #[test]
    fn samples_lie_on_the_grid_and_none_is_made_up_for() {
        for (every_ms, taken_ms, next_ms) in [
            (1000, 6000, 7000),
            (1000, 6003, 7000),
            (1000, 6499, 7000),
            // Half a second before the next: that one would tell of too little.
            (1000, 6500, 8000),
            (1000, 9100, 10_000),
            (100, 5100, 5200),
            (100, 5160, 5300),
            (30_000, 35_000, 65_000),
        ] {
            let mut agenda = agenda(every_ms);
            agenda.taken(taken_ms * MS, 1000 * MS);
            assert_eq!(agenda.due(), next_ms * MS, "{every_ms} {taken_ms}");
        }
        assert_eq!(agenda(1000).due(), 6000 * MS);
        assert_eq!(agenda(100).due(), 5100 * MS);
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
            let mut agenda = agenda(1000);
            agenda.ends(end_ms * MS);
            agenda.ends(1);
            assert_eq!(agenda.due(), due_ms * MS, "{end_ms}");
        }
    }

    #[test]
    fn each_second_of_the_trial_says_one_batch_at_most_and_none_waits_for_two() {
        for every_ms in [100, 130, 250, 700, 1000, 1300, 30_000] {
            let mut agenda = agenda(every_ms);
            let mut said = vec![5000 * MS];
            for _ in 0..200 {
                let now = agenda.due() + MS;
                if agenda.taken(now, 1000 * MS) {
                    said.push(now);
                }
            }
            for pair in said.windows(2) {
                let apart = (pair[1] - pair[0]) / MS;
                // One millisecond late, each.
                let most = every_ms.max(1000 + every_ms.min(1000)) + 1;
                assert!(apart <= most, "{every_ms}: {apart}");
            }
            let seconds = (agenda.due() - 5000 * MS) / (1000 * MS);
            assert!(
                said.len() as u64 <= seconds + 2,
                "{every_ms}: {} in {seconds}",
                said.len()
            );
        }
    }
}
