//! Chooses the direction of the next op (read, write or trim), and when it is due.

use iodyno_model::{Access, Direction, Pacing};
use rand::{Rng, RngExt};

use super::pacing::Schedule;

/// The directions of a job and their schedules.
#[derive(Debug)]
pub(super) struct Mix {
    reads: bool,
    writes: bool,
    trims: bool,
    read_percent: u32,
    schedules: [Option<Schedule>; 3],
    /// A direction that was drawn but is not due yet: kept, so that asking again does not draw again.
    drawn: Option<Direction>,
}

/// A direction, or the time before which none is due, ns since the start.
pub(super) enum Choice {
    Issue(Direction),
    NotBefore(u64),
}

impl Mix {
    pub(super) fn new(access: &Access, pacing: &Pacing) -> Mix {
        let rates = [pacing.rates.read, pacing.rates.write, pacing.rates.trim];
        Mix {
            reads: access.reads,
            writes: access.writes,
            trims: access.trims,
            read_percent: access.read_percent,
            schedules: rates.map(|rate| Schedule::new(rate, pacing.arrival)),
            drawn: None,
        }
    }

    /// The next direction at `elapsed` ns since the start.
    #[inline]
    pub(super) fn choose(&mut self, elapsed: u64, random: &mut impl Rng) -> Choice {
        let direction = match (self.reads, self.writes) {
            (true, true) => self.choose_of_two(elapsed, random),
            (true, false) => Direction::Read,
            // If trims are issued too, the trim comes first: its write follows when it has completed.
            (false, _) if self.trims => Direction::Trim,
            (false, _) => Direction::Write,
        };
        match &self.schedules[direction as usize] {
            Some(schedule) if schedule.due() > elapsed => Choice::NotBefore(schedule.due()),
            _ => Choice::Issue(direction),
        }
    }

    /// Chooses between reads and writes. If neither has a rate: randomly. If both have: the one that is due first. If
    /// one has: randomly among those that are due.
    fn choose_of_two(&mut self, elapsed: u64, random: &mut impl Rng) -> Direction {
        let due = |schedule: &Option<Schedule>| schedule.as_ref().map(Schedule::due);
        let (read, write) = (due(&self.schedules[0]), due(&self.schedules[1]));
        if let (Some(read), Some(write)) = (read, write) {
            return if read <= write {
                Direction::Read
            } else {
                Direction::Write
            };
        }
        let percent = self.read_percent;
        let drawn = *self.drawn.get_or_insert_with(|| {
            if random.random_range(0..100) < percent {
                Direction::Read
            } else {
                Direction::Write
            }
        });
        let late = |due: Option<u64>| due.is_some_and(|due| due > elapsed);
        match drawn {
            Direction::Read if late(read) && percent < 100 => Direction::Write,
            Direction::Write if late(write) && percent > 0 => Direction::Read,
            drawn => drawn,
        }
    }

    /// Ops of each direction that were due before `until` (ns since the start) and not issued.
    pub(super) fn missed(&self, until: u64) -> impl Iterator<Item = (Direction, u64)> {
        let directions = [Direction::Read, Direction::Write, Direction::Trim];
        let schedules = directions.into_iter().zip(&self.schedules);
        schedules.filter_map(move |(direction, schedule)| {
            Some((direction, schedule.as_ref()?.missed(until)))
        })
    }

    /// Consumes the turn of the chosen direction. Returns when it was due (ns since the start), if it has a schedule.
    #[inline]
    pub(super) fn take(
        &mut self,
        direction: Direction,
        bytes: u64,
        random: &mut impl Rng,
    ) -> Option<u64> {
        self.drawn = None;
        self.schedules[direction as usize]
            .as_mut()
            .map(|schedule| schedule.take(bytes, random))
    }
}
