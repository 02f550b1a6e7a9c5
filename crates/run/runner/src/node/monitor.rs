//! Reads the workers' counters and computes frames.
//!
//! A frame is the difference of two readings, so frames add up to the total exactly. A frame with measured time is a
//! `Measure` frame and contains measured ops only: if jobs have different ramp times, the ops of a job that still ramps
//! while another is measured are not in any frame. A frame without measured time is a `Ramp` frame with the ops of the
//! ramp, or, after the measured time, a `Drain` frame.
//!
//! When the last clone's measurement has ended, the `Measure` frame ends with its measured time, even if the counters
//! are read later: the wait for end steps would lower its rates.

use std::sync::Arc;

use iodyno_engine::CloneShared;
use iodyno_model::{Direction, DirectionFrame, Frame, JobFrame, SampleStats, Step};

use crate::logs::WindowLog;
use crate::node::counter_delta::{CounterDelta, PreviousReading};
use crate::node::rates::Rates;
use crate::node::timers;

/// A clone whose counters are read.
#[derive(Debug)]
struct Watch {
    job: usize,
    shared: Arc<CloneShared>,
    ramp: [PreviousReading; Direction::COUNT],
    measure: [PreviousReading; Direction::COUNT],
    ramping: bool,
    rates: Rates,
    logs: Vec<WindowLog>,
}

impl Watch {
    /// Reads the increase of the counters.
    fn drain(&mut self, pending: &mut JobPending) {
        // Read before the counters, so that they include the whole ramp.
        let measured = self.shared.measure_start() != 0;
        for (index, direction) in Direction::EVERY.into_iter().enumerate() {
            let counters = self.shared.measure.of(direction);
            let gain = self.measure[index].advance(counters, !self.logs.is_empty());
            if !gain.is_empty() {
                self.rates.count(index, gain.service.count(), gain.bytes);
                for log in &mut self.logs {
                    log.count(direction, &gain);
                }
                pending.measure[index].add(&gain);
            }
            if self.ramping {
                let gain = self.ramp[index].advance(self.shared.ramp.of(direction), false);
                pending.ramp[index].add(&gain);
            }
        }
        self.ramping = !measured;
    }

    /// Whether it was measured at any time since `from`.
    fn measured_since(&self, from: u64) -> bool {
        let (start, end) = (self.shared.measure_start(), self.shared.measure_end());
        start != 0 && (end == 0 || end > from)
    }

    /// Whether it is being measured, or will be after its ramp.
    fn measures(&self) -> bool {
        let (start, end) = (self.shared.measure_start(), self.shared.measure_end());
        let begun = matches!(self.shared.phase(), Some(Step::Ramp | Step::Measure));
        end == 0 && (start != 0 || begun)
    }
}

/// The ops of a job's clones since the last frame.
#[derive(Debug, Default)]
struct JobPending {
    ramp: [CounterDelta; Direction::COUNT],
    measure: [CounterDelta; Direction::COUNT],
}

/// The counters of all clones of a trial, and the current frame.
#[derive(Debug)]
pub(crate) struct Monitor {
    watches: Vec<Option<Watch>>,
    pending: Vec<JobPending>,
    /// The trial's start, the clock's ns.
    origin: u64,
    frames: u32,
    frame_start: u64,
    cpu: u64,
    /// Whether any clone was measured in this frame, and in any frame.
    measured: bool,
    ever_measured: bool,
    /// The latest end of the measured time of clones that have ended, clock ns; 0: none.
    last_end: u64,
}

impl Monitor {
    /// For this many clones and jobs.
    pub(crate) fn new(clones: usize, jobs: usize) -> Monitor {
        Monitor {
            watches: (0..clones).map(|_| None).collect(),
            pending: (0..jobs).map(|_| JobPending::default()).collect(),
            origin: 0,
            frames: 0,
            frame_start: 0,
            cpu: 0,
            measured: false,
            ever_measured: false,
            last_end: 0,
        }
    }

    /// The trial starts. `cpu`: the CPU time of this process so far, ns.
    pub(crate) fn start(&mut self, origin: u64, cpu: u64) {
        (self.origin, self.frame_start, self.cpu) = (origin, origin, cpu);
    }

    /// Adds a clone.
    pub(crate) fn watch(
        &mut self,
        clone: usize,
        job: usize,
        shared: Arc<CloneShared>,
        logs: Vec<WindowLog>,
    ) {
        self.watches[clone] = Some(Watch {
            job,
            shared,
            ramp: std::array::from_fn(|_| PreviousReading::new()),
            measure: std::array::from_fn(|_| PreviousReading::new()),
            ramping: true,
            rates: Rates::default(),
            logs,
        });
    }

    /// A window of the rates is over.
    pub(crate) fn sample(&mut self, now: u64) {
        self.drain();
        for watch in self.watches.iter_mut().flatten() {
            let (start, end) = (watch.shared.measure_start(), watch.shared.measure_end());
            if start != 0 && end == 0 {
                watch.rates.tick(start, now);
            }
        }
    }

    /// When the next window of a log ends.
    pub(crate) fn next_window(&self) -> Option<u64> {
        self.logs().filter_map(WindowLog::next).min()
    }

    /// Writes the windows of logs that have ended.
    pub(crate) fn write_windows(&mut self, now: u64) {
        if self.next_window().is_none_or(|next| now < next) {
            return;
        }
        self.drain();
        for watch in self.watches.iter_mut().flatten() {
            let start = watch.shared.measure_start();
            for log in &mut watch.logs {
                log.tick(start, now);
            }
        }
    }

    fn logs(&self) -> impl Iterator<Item = &WindowLog> {
        self.watches.iter().flatten().flat_map(|watch| &watch.logs)
    }

    /// A clone has ended: reads its counters for the last time and removes it. Returns its rates by direction
    /// (bandwidth, IOPS) and the errors of its logs.
    pub(crate) fn leave(&mut self, clone: usize, end: u64) -> Left {
        let Some(mut watch) = self.watches[clone].take() else {
            return Left::default();
        };
        watch.drain(&mut self.pending[watch.job]);
        self.measured |= watch.measured_since(self.frame_start);
        let start = watch.shared.measure_start();
        let end = match watch.shared.measure_end() {
            0 => end,
            measured => measured,
        };
        if start != 0 {
            watch.rates.end(start, end);
            self.last_end = self.last_end.max(end);
        }
        Left {
            rates: std::array::from_fn(|direction| watch.rates.stats(direction)),
            log_faults: watch
                .logs
                .into_iter()
                .filter_map(|log| log.close(start, end))
                .collect(),
        }
    }

    /// Ends the frame. `now` and `cpu` are read immediately before. A `Measure` frame after which nothing is measured
    /// ends with the measured time; the rest belongs to the next frame.
    pub(crate) fn cut(&mut self, now: u64, cpu: u64) -> Frame {
        // Read before the counters, so that they include all measured ops.
        let over = self.over();
        self.drain();
        let step = self.step(self.frame_start, over);
        let end = match (step, over) {
            (Step::Measure, Some(end)) if end > self.frame_start => end.min(now),
            _ => now,
        };
        self.cut_as(step, end, cpu)
    }

    /// The end of the measured time of all clones; `None` if it has not ended or never began.
    fn over(&self) -> Option<u64> {
        let mut end = self.last_end;
        for watch in self.watches.iter().flatten() {
            if watch.measures() {
                return None;
            }
            end = end.max(watch.shared.measure_end());
        }
        (end != 0).then_some(end)
    }

    /// Whether the measured time ended in this frame and a clone does something else since.
    pub(crate) fn follows(&self) -> bool {
        let mut watches = self.watches.iter().flatten();
        self.over().is_some_and(|end| end > self.frame_start)
            && watches.any(|watch| watch.shared.phase().is_some())
    }

    /// Whether this frame follows the measured time and is long enough to be reported although it is empty.
    pub(crate) fn tail(&self, now: u64) -> bool {
        self.ever_measured && now.saturating_sub(self.frame_start) >= timers::MIN_FRAME_NS
    }

    /// Ends the frame with the end of the ramp. Measured ops already belong to the next frame.
    pub(crate) fn cut_ramp(&mut self, now: u64, cpu: u64) -> Frame {
        self.drain();
        self.cut_as(Step::Ramp, now, cpu)
    }

    fn cut_as(&mut self, step: Step, now: u64, cpu: u64) -> Frame {
        let now = now.max(self.frame_start);
        let mut running = vec![0; self.pending.len()];
        for watch in self.watches.iter().flatten() {
            running[watch.job] += u32::from(watch.shared.phase().is_some());
        }
        let frames = self.pending.iter_mut().zip(running).enumerate();
        let jobs = frames
            .map(|(job, (pending, running))| {
                let ramp = std::mem::take(&mut pending.ramp);
                JobFrame {
                    job: job as u32,
                    running,
                    directions: directions(match step {
                        Step::Ramp => ramp,
                        _ => std::mem::take(&mut pending.measure),
                    }),
                }
            })
            .filter(|job| job.running > 0 || !job.directions.is_empty())
            .collect();
        let frame = Frame {
            node: String::new(),
            number: self.frames,
            start_ns: self.frame_start - self.origin,
            end_ns: now - self.origin,
            step,
            cpu_ns: cpu.saturating_sub(self.cpu),
            jobs,
        };
        self.frames += 1;
        self.frame_start = now;
        self.cpu = cpu;
        self.measured = false;
        frame
    }

    /// Whether nothing is new since the last frame.
    pub(crate) fn idle(&mut self) -> bool {
        self.drain();
        !self.measured
            && self.pending.iter().all(|job| {
                let mut gains = job.measure.iter().chain(&job.ramp);
                gains.all(CounterDelta::is_empty)
            })
    }

    /// Whether anything was measured so far.
    pub(crate) fn ever_measured(&self) -> bool {
        let measured = |watch: &Watch| watch.shared.measure_start() != 0;
        self.ever_measured || self.watches.iter().flatten().any(measured)
    }

    /// A clone's measured time will begin at this instant.
    pub(crate) fn begin_logs(&mut self, clone: usize, at: u64) {
        let watch = self.watches[clone].iter_mut();
        for log in watch.flat_map(|watch| &mut watch.logs) {
            log.begin(at);
        }
    }

    /// The step that the frame belongs to. `over`: see [`Self::over`]; ops after it are the syncs of end steps.
    fn step(&mut self, from: u64, over: Option<u64>) -> Step {
        let mut measured = self.measured;
        for pending in self
            .pending
            .iter()
            .filter(|_| over.is_none_or(|end| end > from))
        {
            measured |= pending.measure.iter().any(|gain| !gain.is_empty());
        }
        for watch in self.watches.iter().flatten() {
            measured |= watch.measured_since(from);
        }
        self.ever_measured |= measured;
        let ramping = || {
            let mut watches = self.watches.iter().flatten();
            watches.any(|watch| watch.shared.phase() == Some(Step::Ramp))
        };
        match (measured, self.ever_measured) {
            (true, _) => Step::Measure,
            (false, false) => Step::Ramp,
            (false, true) if ramping() => Step::Ramp,
            (false, true) => Step::Drain,
        }
    }

    fn drain(&mut self) {
        for watch in self.watches.iter_mut().flatten() {
            watch.drain(&mut self.pending[watch.job]);
        }
    }
}

/// The monitor's data about a clone that has ended.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Bandwidth and IOPS, by direction.
    pub(crate) rates: [(SampleStats, SampleStats); Direction::COUNT],
    /// The reasons why its logs are incomplete.
    pub(crate) log_faults: Vec<String>,
}

fn directions(gains: [CounterDelta; Direction::COUNT]) -> Vec<DirectionFrame> {
    Direction::EVERY
        .into_iter()
        .zip(gains)
        .filter(|(_, gain)| !gain.is_empty())
        .map(|(direction, gain)| DirectionFrame {
            direction,
            ops: gain.service.count(),
            bytes: gain.bytes,
            errors: gain.errors,
            service: gain.service,
            response: gain.response,
        })
        .collect()
}

#[cfg(test)]
mod tests;
