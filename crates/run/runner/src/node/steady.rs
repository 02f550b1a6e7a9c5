//! Determines when the results of a clone, or of a group, are steady: fio's `steadystate`.
//!
//! Counters are read at each interval of a rule, by the trial thread; the workers do nothing for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use iodyno_engine::CloneShared;
use iodyno_model::{Direction, Job, SteadyResult, SteadyValue, Step};

const NEVER: u64 = u64::MAX;

/// The directions that count, as in fio.
const MOVES: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

/// Ops and bytes completed so far.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    ops: u64,
    bytes: u64,
    latency_ns: u64,
}

impl Totals {
    fn of(shared: &CloneShared) -> Totals {
        MOVES.iter().fold(Totals::default(), |sum, direction| {
            let counters = shared.measure.of(*direction);
            let latency = counters.completion.as_ref().unwrap_or(&counters.service);
            Totals {
                ops: sum.ops + counters.service.count(),
                bytes: sum.bytes + counters.bytes.load(Relaxed),
                latency_ns: sum.latency_ns.wrapping_add(latency.sum_ns()),
            }
        })
    }
}

/// A clone, or the clones of a group, that become steady together.
#[derive(Debug)]
struct Unit {
    /// All clones. The first one gets the result.
    clones: Vec<usize>,
    /// The clones with a thread, with the values of the last reading.
    members: Vec<(usize, Arc<CloneShared>, Totals)>,
    result: SteadyResult,
    /// When the counters were last read, clock ns; 0: never.
    since: u64,
    /// When they are read next, clock ns.
    next: u64,
}

impl Unit {
    /// Reads the counters. `None`: it is the first reading, or none of the clones is measured.
    fn read(&mut self, now: u64) -> Option<SteadyValue> {
        let mut gained = Totals::default();
        let mut measuring = false;
        for (_, shared, seen) in &mut self.members {
            let totals = Totals::of(shared);
            gained.ops += totals.ops - seen.ops;
            gained.bytes += totals.bytes - seen.bytes;
            gained.latency_ns += totals.latency_ns.wrapping_sub(seen.latency_ns);
            *seen = totals;
            measuring |= shared.phase() == Some(Step::Measure);
        }
        let since = std::mem::replace(&mut self.since, now);
        let seconds = now.saturating_sub(since) as f64 / 1e9;
        (since > 0 && measuring && seconds > 0.0).then(|| SteadyValue {
            iops: gained.ops as f64 / seconds,
            bytes_per_s: gained.bytes as f64 / seconds,
            latency_ns: gained.latency_ns as f64 / gained.ops.max(1) as f64,
        })
    }
}

/// The clones whose jobs end when they are steady.
#[derive(Debug)]
pub(crate) struct SteadyWatch {
    units: Vec<Unit>,
}

impl SteadyWatch {
    /// `clones` says which job each clone belongs to.
    pub(crate) fn new(jobs: &[Job], clones: impl Iterator<Item = u32>) -> SteadyWatch {
        let mut units: Vec<Unit> = Vec::new();
        let mut groups: Vec<(u32, usize)> = Vec::new();
        for (clone, job) in clones.enumerate() {
            let job = &jobs[job as usize];
            let Some(rule) = job.end.steady else { continue };
            let group = job.reporting.group;
            let known = groups.iter().find(|(other, _)| *other == group);
            match known.filter(|_| job.reporting.together) {
                Some((_, unit)) => units[*unit].clones.push(clone),
                None => {
                    if job.reporting.together {
                        groups.push((group, units.len()));
                    }
                    units.push(Unit {
                        clones: vec![clone],
                        members: Vec::new(),
                        result: SteadyResult::new(rule),
                        since: 0,
                        next: NEVER,
                    });
                }
            }
        }
        SteadyWatch { units }
    }

    fn unit(&mut self, clone: usize) -> Option<&mut Unit> {
        let mut units = self.units.iter_mut();
        units.find(|unit| unit.clones.contains(&clone))
    }

    /// A clone has been released and is measured from this instant on.
    pub(crate) fn released(&mut self, clone: usize, shared: &Arc<CloneShared>, measured: u64) {
        if let Some(unit) = self.unit(clone) {
            unit.members
                .push((clone, Arc::clone(shared), Totals::default()));
            if unit.since == 0 {
                let first = measured.saturating_add(unit.result.rule.ramp.0);
                unit.next = unit.next.min(first);
            }
        }
    }

    /// A clone has ended.
    pub(crate) fn ended(&mut self, clone: usize) {
        if let Some(unit) = self.unit(clone) {
            let member = |other: &(usize, _, _)| other.0 == clone;
            if let Some(place) = unit.members.iter().position(member) {
                unit.members.swap_remove(place);
            }
            if unit.members.is_empty() {
                unit.next = NEVER;
            }
        }
    }

    /// When to read the counters next, clock ns.
    pub(crate) fn next(&self) -> Option<u64> {
        let next = self.units.iter().map(|unit| unit.next).min();
        next.filter(|next| *next != NEVER)
    }

    /// Reads the counters that are due. Returns the clones that are steady now. `origin` is the trial's start.
    pub(crate) fn tick(&mut self, now: u64, origin: u64) -> Vec<usize> {
        let mut steady = Vec::new();
        for unit in self.units.iter_mut().filter(|unit| unit.next <= now) {
            let interval = unit.result.rule.interval.0.max(1);
            unit.next += ((now - unit.next) / interval + 1) * interval;
            if let Some(value) = unit.read(now)
                && unit.result.add(value)
            {
                unit.result.attained_ns = Some(now.saturating_sub(origin));
                unit.next = NEVER;
                steady.extend(&unit.clones);
            }
        }
        steady
    }

    /// The results, each with the index of its clone.
    pub(crate) fn take_results(&mut self) -> impl Iterator<Item = (usize, SteadyResult)> + use<> {
        let units = std::mem::take(&mut self.units).into_iter();
        units.map(|unit| (unit.clones[0], unit.result))
    }
}
