//! The loop: pace, do the steps of a cycle, record. It allocates only for the message of a failed step.

use std::sync::Arc;

use iodyno_model::{Direction, DirectionRate, EndedBy, Job, MissedOps, StopRequest};
use iodyno_sys::{Clock, MonotonicClock};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::Errno;

use super::fault::explain;
use super::folder::{Failed, Folder, Halt};
use super::plan::Plan;
use crate::counters::{OpCounters, add};
use crate::error_counts::{ErrorCounts, judge};
use crate::in_flight::OpsInFlight;
use crate::lifecycle::MAX_STOP_DELAY_NS;
use crate::outcome::WorkerError;
use crate::shared::CloneShared;
use crate::stream::pacing::Schedule;

/// A separate seed for arrivals.
const ARRIVALS: u64 = 0x94d0_49bb_1331_11eb;

/// Runs cycles, and keeps the results that are not in the counters.
pub(super) struct Cycles<'a> {
    pub(super) folder: Folder,
    plan: Plan,
    job: &'a Job,
    shared: &'a CloneShared,
    /// The current call, readable by other threads.
    seen: Arc<OpsInFlight>,
    clock: MonotonicClock,
    schedule: Option<Schedule>,
    arrivals: Xoshiro256PlusPlus,
    start: u64,
    /// Number of cycles still to do.
    left: u64,
    /// End of the last call.
    now: u64,
    /// End of the last completed cycle.
    last_end: u64,
    pub(super) errors: ErrorCounts,
    pub(super) fault: Option<WorkerError>,
    /// A step failed, and the error policy does not allow that.
    pub(super) failed: bool,
    /// The file system is full, and the job was to fill it.
    full: bool,
}

impl<'a> Cycles<'a> {
    pub(super) fn new(
        job: &'a Job,
        plan: Plan,
        folder: Folder,
        shared: &'a CloneShared,
        seed: u64,
    ) -> Cycles<'a> {
        let rate = DirectionRate {
            iops: job.pacing.ops_per_s,
            ..DirectionRate::default()
        };
        let name = folder.path.display().to_string();
        Cycles {
            seen: shared.show_in_flight(vec![name], 1),
            folder,
            plan,
            shared,
            clock: MonotonicClock,
            schedule: Schedule::new(rate, job.pacing.arrival),
            arrivals: Xoshiro256PlusPlus::seed_from_u64(seed ^ ARRIVALS),
            start: 0,
            left: u64::MAX,
            now: 0,
            last_end: 0,
            errors: ErrorCounts::default(),
            fault: None,
            failed: false,
            full: false,
            job,
        }
    }

    /// Starts the schedule.
    pub(super) fn begin(&mut self, now: u64) {
        (self.start, self.now, self.last_end) = (now, now, now);
    }

    /// Sets the number of cycles to do from now on.
    pub(super) fn measure(&mut self, cycles: u64) {
        self.left = cycles;
    }

    /// Discards the counts of the ramp.
    pub(super) fn discard_ramp(&mut self) {
        self.errors.clear();
        self.shared.pauses.clear();
    }

    /// Number of cycles done in the measured time.
    pub(super) fn count(&self) -> u64 {
        self.shared.measure.of(Direction::Op).service.count()
    }

    /// End of the last cycle, complete or failed; before the first, the start.
    pub(super) fn last_end(&self) -> u64 {
        self.last_end
    }

    /// Cycles that were due before this instant and not started.
    pub(super) fn missed(&self, until: u64) -> Option<MissedOps> {
        let schedule = self.schedule.as_ref()?;
        let cycles = schedule.missed(until.saturating_sub(self.start));
        MissedOps::some(None, cycles.min(self.left))
    }

    /// Runs cycles until the instant `until`, or until none is left.
    pub(super) fn run(&mut self, counters: &OpCounters, until: u64) -> EndedBy {
        self.now = self.clock.now();
        loop {
            if let Some(ended) = self.ended(until) {
                return ended;
            }
            let intended = match self.due() {
                Ok(intended) => intended,
                Err(instant) => {
                    let latest = self.now + MAX_STOP_DELAY_NS;
                    self.clock.sleep_until(instant.min(until).min(latest));
                    self.now = self.clock.now();
                    continue;
                }
            };
            match self.cycle(counters, intended) {
                Ok(()) => self.left -= 1,
                Err((_, Halt::StopRequested)) => {}
                Err((_, Halt::Empty)) => return EndedBy::Size,
                Err((_, Halt::Command)) => {
                    self.failed = true;
                    let command = self.folder.command.as_mut();
                    self.fault = command.and_then(|command| command.fault.take());
                }
                Err((direction, Halt::Failed(failed))) => self.failed(counters, direction, failed),
            }
        }
    }

    #[inline]
    fn ended(&self, until: u64) -> Option<EndedBy> {
        match self.shared.stop_request() {
            _ if self.failed => Some(EndedBy::Error),
            _ if self.full => Some(EndedBy::Size),
            StopRequest::Steady => Some(EndedBy::Steady),
            StopRequest::ExitAll => Some(EndedBy::ExitAll),
            StopRequest::Finish | StopRequest::Abort => Some(EndedBy::Interruption),
            StopRequest::No if self.left == 0 => Some(EndedBy::Count),
            StopRequest::No if !self.folder.has(&self.plan.wants) => Some(EndedBy::Size),
            StopRequest::No if self.now >= until => Some(EndedBy::Runtime),
            StopRequest::No => None,
        }
    }

    /// When the cycle to start now was due, if a rate is set; `Err`: no cycle is due before this instant.
    #[inline]
    fn due(&mut self) -> Result<Option<u64>, u64> {
        let Some(schedule) = &mut self.schedule else {
            return Ok(None);
        };
        let due = self.start + schedule.due();
        if due > self.now {
            return Err(due);
        }
        schedule.take(0, &mut self.arrivals);
        Ok(Some(due))
    }

    /// Runs one cycle. Each step is recorded when it ends, the cycle when all steps have.
    #[inline]
    fn cycle(
        &mut self,
        counters: &OpCounters,
        intended: Option<u64>,
    ) -> Result<(), (Direction, Halt)> {
        let (mut service, mut timed_end) = (0, 0);
        for index in 0..self.plan.steps.len() {
            let step = self.plan.steps[index];
            if index > 0 && self.shared.stop_request() != StopRequest::No {
                return Err((step.direction, Halt::StopRequested));
            }
            self.seen.begin(0, step.direction, (0, 0), self.now);
            let done = self.folder.carry_out(step.action, self.shared);
            self.seen.end(0);
            let done = done.map_err(|halt| (step.direction, halt))?;
            let of = counters.of(step.direction);
            if done.bytes > 0 {
                add(&of.bytes, done.bytes);
                add(&of.short, done.short.into());
            }
            of.service.record(done.ns);
            if step.timed {
                service += done.ns;
                timed_end = done.end;
            }
            self.now = done.end;
        }
        let op = counters.of(Direction::Op);
        if let (Some(response), Some(intended)) = (&op.response, intended) {
            response.record(timed_end.saturating_sub(intended));
        }
        op.service.record(service);
        self.shared.op_ended(Some(self.last_end), self.now);
        self.last_end = self.now;
        Ok(())
    }

    /// Counts a failed step, and aborts its cycle.
    #[cold]
    fn failed(&mut self, counters: &OpCounters, direction: Direction, failed: Failed) {
        let errno = failed.errno.raw_os_error();
        let (counts, continues) = judge(&self.job.errors, direction, errno);
        let filled = self.job.end.until_full && matches!(failed.errno, Errno::NOSPC | Errno::DQUOT);
        if filled {
            self.full = true;
        } else if counts {
            add(&counters.of(direction).errors, 1);
            let path = self.folder.path_of(failed.about);
            let name = path.display().to_string();
            self.errors
                .count_at(direction, errno, (failed.offset, 0), &name);
            if !continues {
                self.failed = true;
                let fault = explain(&self.folder, direction, failed.errno, &path);
                self.fault = self.fault.take().or(fault);
            }
        }
        let closed = self.folder.close_current();
        if let Err(Halt::Failed(failed)) = closed
            && !self.failed
        {
            self.failed(counters, Direction::Close, failed);
        }
        self.now = self.clock.now();
        self.shared.op_ended(Some(self.last_end), self.now);
        self.last_end = self.now;
    }

    /// Closes the files that are still open.
    pub(super) fn close_all(&mut self) {
        self.seen.begin(0, Direction::Close, (0, 0), self.now);
        let closed = self.folder.close_all();
        self.seen.end(0);
        if let Err(Halt::Failed(failed)) = closed
            && !self.failed
        {
            let shared = self.shared;
            self.failed(&shared.measure, Direction::Close, failed);
        }
    }
}
