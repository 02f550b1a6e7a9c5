//! The loop in virtual time with a device of known distribution, and without allocation.

use std::sync::Arc;

use iodyno_model::{
    Arrival, Blocks, Direction, EndedBy, Flow, Histogram, Job, LatencyTarget, MissedOps, SimFault,
    SimLaw, SimOptions, Step,
};
use iodyno_sys::memory::Arena;
use iodyno_sys::{LawDevice, SimBackend, VirtualClock};
use iodyno_units::Nanos;

use super::*;
use crate::driven_clone::{Bound, work};
use crate::flow::SharedFlow;
use crate::outcome::CloneOutcome;
use crate::spec::{ClonePart, CloneSpec};
use crate::stream::JobStream;
use crate::testing::{blocks, random_reads};

const SECOND: u64 = 1_000_000_000;
const LENGTH: u64 = 1 << 30;
const DEVICE_SEED: u64 = 42;
/// The start of a complete clone. It is not 0, because an op that is due at 0 would count as having no due time.
const BEGIN: u64 = SECOND;

/// A clone that reads and does not verify.
fn parts<'a>(job: &Arc<Job>, blocks: &Blocks, shared: &'a CloneShared) -> Parts<'a> {
    Parts {
        cached: Vec::new(),
        job: job.clone(),
        engine: blocks.engine.clone(),
        writes: false,
        bad_block_fails: false,
        shared,
        names: vec!["simulated".to_owned()],
        filler: Filler::new(&job.buffers, 1),
        priorities: None,
        verifier: None,
        log: None,
        iolog: None,
    }
}

/// Runs the job on the device in virtual time; returns (service, response, last instant).
fn simulate(job: Job, device: SimOptions, seconds: u64) -> (Histogram, Histogram, u64) {
    let clock = VirtualClock::default();
    let blocks = job.work.blocks().unwrap().clone();
    let depth = blocks.engine.depth;
    let arena = Arena::new(depth, 4096, 0, false).unwrap();
    let shared = CloneShared::new(&Direction::ALL, true, false);
    let job = Arc::new(job);
    let parts = parts(&job, &blocks, &shared);
    let mut stream = JobStream::new(&job, &blocks, &[(0, LENGTH)], u64::MAX / 2, 3);
    let device = LawDevice::new(device, DEVICE_SEED, depth).unwrap();
    let mut driver = Driver::new(SimBackend::new(arena, clock.clone(), device), clock, parts);
    let ended = driver
        .drive(&mut stream, &shared.measure, seconds * SECOND)
        .unwrap();
    assert_eq!(ended, EndedBy::Runtime);
    driver.drain(&mut stream, &shared.measure, 0).unwrap();
    assert!(!driver.stuck);
    let counters = shared.measure.of(Direction::Read);
    let response = counters.response.as_ref().unwrap().histogram();
    (counters.service.histogram(), response, driver.clock.now())
}

/// A simulated device whose completions are detected when the worker checks, and a worker that does not run for some
/// time before each turn.
struct Preempted<B, F> {
    inner: B,
    clock: VirtualClock,
    turns: u64,
    /// The pause before a turn, ns.
    pause_ns: F,
}

impl<B: Backend, F: Fn(u64) -> u64> Backend for Preempted<B, F> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.inner.buffer(slot)
    }

    fn room(&self) -> u32 {
        self.inner.room()
    }

    fn prep(&mut self, slot: Slot, op: &iodyno_sys::Op) {
        self.inner.prep(slot, op);
    }

    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        self.turns += 1;
        let pause_ns = (self.pause_ns)(self.turns);
        self.clock.sleep_until(self.clock.now() + pause_ns);
        self.inner.turn(min, max, deadline, completions)
    }

    fn cancel_all(&mut self) {
        self.inner.cancel_all();
    }
}

/// Runs the job on a device with this service time and a worker with these pauses; returns the service latencies.
fn preempted(job: Job, service_ns: u64, servers: u32, pause_ns: impl Fn(u64) -> u64) -> Histogram {
    let clock = VirtualClock::default();
    let blocks = job.work.blocks().unwrap().clone();
    let depth = blocks.engine.depth;
    let arena = Arena::new(depth, 4096, 0, false).unwrap();
    let shared = CloneShared::new(&Direction::ALL, false, false);
    let job = Arc::new(job);
    let parts = parts(&job, &blocks, &shared);
    let mut stream = JobStream::new(&job, &blocks, &[(0, LENGTH)], 20_000 * 4096, 3);
    let options = device(SimLaw::Constant(service_ns), servers);
    let device = LawDevice::new(options, DEVICE_SEED, depth).unwrap();
    let backend = Preempted {
        inner: SimBackend::new(arena, clock.clone(), device),
        clock: clock.clone(),
        turns: 0,
        pause_ns,
    };
    let mut driver = Driver::new(backend, clock, parts);
    let counters = &shared.measure;
    driver.drive(&mut stream, counters, u64::MAX).unwrap();
    driver.drain(&mut stream, counters, 0).unwrap();
    counters.of(Direction::Read).service.histogram()
}

/// The least and the recorded value of a percentile, in µs, rounded.
fn limits_us(histogram: &Histogram, percent: f64) -> (u64, u64) {
    let us = |ns: u64| (ns as f64 / 1000.0).round() as u64;
    let least = histogram.least_percentile_ns(percent).unwrap();
    (us(least), us(histogram.percentile_ns(percent)))
}

#[test]
fn one_pause_of_the_worker_makes_only_the_ops_in_flight_uncertain() {
    let pause = |turn| if turn == 3000 { 5_620_000_000 } else { 0 };
    let found = preempted(random_reads(4), 100_000, 1, pause);
    assert_eq!(found.count(), 20_000);
    for percent in [1.0, 50.0, 99.0, 99.9] {
        let (least, value) = limits_us(&found, percent);
        assert_eq!(least, value, "p{percent}");
    }
    let (least, value) = limits_us(&found, 100.0);
    assert!(least < 450 && value > 5_600_000, "{least} {value}");
}

#[test]
fn a_wait_for_a_cpu_counts_in_the_turn_in_which_it_was() {
    const MS: u64 = 1_000_000;
    let mut waits = CpuWaits {
        read_at: 0,
        sum_ns: Some(7 * MS),
    };
    let unread = || -> Option<u64> { panic!("it was read a moment ago") };
    assert_eq!(waits.since(CPU_WAITS_NS - 1, unread), 0);
    assert_eq!(waits.since(4 * MS, || Some(10 * MS)), 3 * MS);
    assert_eq!(waits.since(4 * MS + 1, unread), 0);
    assert_eq!(waits.since(9 * MS, || Some(10 * MS)), 0);
    // The kernel does not count it.
    assert_eq!(waits.since(20 * MS, || None), 0);
    assert_eq!(waits.since(30 * MS, unread), 0);
    let unseen = Unseen {
        since: 10 * MS,
        entered: 11 * MS,
        looked: 12 * MS,
        others_ns: MS / 2,
        no_cpu_ns: 3 * MS,
        for_several: false,
    };
    let delay = |submitted: u64| {
        let completed = 20 * MS;
        unseen.longest_ns(&Completion {
            slot: 0,
            result: 0,
            submitted,
            completed,
        })
    };
    assert_eq!(delay(2 * MS), 5 * MS);
    assert_eq!(delay(11 * MS), 3 * MS + MS / 2);
}

#[test]
fn an_op_that_is_alone_is_seen_when_it_ends() {
    // The worker is away for longer than an op takes, and the device is idle meanwhile.
    let found = preempted(random_reads(1), 24_000, 1, |_| 100_000);
    assert_eq!(limits_us(&found, 100.0), (24, 24));
}

#[test]
fn completions_that_no_turn_looked_at_are_uncertain_since_the_last_look() {
    // Four ops end together. With one completion in a turn, the last is seen after two further pauses.
    let mut job = random_reads(4);
    let engine = &mut blocks(&mut job).engine;
    (engine.batch_submit, engine.depth_low) = (4, 1);
    engine.batch_complete_max = 1;
    let found = preempted(job, 1_000_000, 0, |_| 100_000);
    let (least, value) = limits_us(&found, 99.0);
    assert!(value == 1200 && least <= 1000, "{least} {value}");
    // A turn that waits for four completions sees the first one with the last.
    let mut job = random_reads(4);
    blocks(&mut job).engine.batch_complete_min = 4;
    let found = preempted(job, 100_000, 1, |_| 0);
    let (least, value) = limits_us(&found, 99.0);
    assert!(value == 400 && least <= 100, "{least} {value}");
}

fn device(law: SimLaw, servers: u32) -> SimOptions {
    SimOptions {
        law,
        servers,
        faults: Vec::new(),
        ..SimOptions::default()
    }
}

fn within(found: f64, expected: f64, share: f64, what: &str) {
    assert!(
        (found / expected - 1.0).abs() < share,
        "{what}: {found} in place of {expected}"
    );
}

#[test]
fn a_log_normal_device_has_log_normal_latencies() {
    let law = SimLaw::LogNormal {
        median_ns: 100_000,
        sigma: 0.5,
    };
    let (service, _, _) = simulate(random_reads(16), device(law, 0), 12);
    // Quantiles of the standard normal: 0, 1.2816, 2.3263, 3.0902.
    for (percent, z) in [(50.0, 0.0), (90.0, 1.2816), (99.0, 2.3263), (99.9, 3.0902)] {
        let expected = 100_000.0 * (0.5f64 * z).exp();
        within(
            service.percentile_ns(percent) as f64,
            expected,
            0.02,
            &format!("p{percent}"),
        );
    }
    let mean = 100_000.0 * (0.5f64 * 0.5 / 2.0).exp();
    within(service.mean_ns(), mean, 0.005, "mean");
    // Little's law: depth = rate × latency.
    within(
        service.count() as f64 / 12.0 * mean / 1e9,
        16.0,
        0.01,
        "depth",
    );
}

#[test]
fn an_open_loop_agrees_with_queueing_theory() {
    // M/M/1 at 70 %: the response is exponential with mean 1 / (μ − λ).
    let mut job = random_reads(512);
    job.pacing.rates.read.iops = 7000.0;
    job.pacing.arrival = Arrival::Poisson;
    let law = SimLaw::Exponential(100_000);
    let (service, response, _) = simulate(job, device(law, 1), 200);
    within(service.count() as f64 / 200.0, 7000.0, 0.01, "rate");
    let mean = 1e9 / (10_000.0 - 7_000.0);
    within(response.mean_ns(), mean, 0.05, "mean response");
    within(
        response.percentile_ns(99.0) as f64,
        mean * 100f64.ln(),
        0.06,
        "p99 response",
    );
}

#[test]
fn a_stall_affects_the_response_of_all_ops_due_in_it() {
    let mut job = random_reads(1);
    job.pacing.rates.read.iops = 1000.0;
    let mut device = device(SimLaw::Constant(50_000), 1);
    device.faults = vec![SimFault::Stall {
        from_ns: 4 * SECOND,
        for_ns: 2 * SECOND,
    }];
    let (service, response, _) = simulate(job, device, 10);
    assert_eq!(service.count(), 10_000);
    assert!(
        service.percentile_ns(99.0) < 60_000,
        "only one op was in flight in the stall"
    );
    // A fifth of the ops were due in the stall, the first of them 2 s late.
    within(response.max_ns() as f64, 2e9, 0.01, "worst response");
    within(
        response.percentile_ns(90.0) as f64,
        1e9,
        0.10,
        "p90 response",
    );
}

#[test]
fn the_same_seed_gives_the_same_trial() {
    let law = SimLaw::Exponential(100_000);
    let run = || simulate(random_reads(8), device(law, 2), 5);
    assert_eq!(run(), run());
}

/// Runs a complete clone in virtual time, from its gate to its end steps.
fn whole(
    job: Job,
    device: SimOptions,
    flow: Option<Arc<SharedFlow>>,
) -> (CloneOutcome, CloneShared) {
    let clock = VirtualClock::starting_at(BEGIN);
    let blocks = job.work.blocks().unwrap().clone();
    let arena = Arena::new(blocks.engine.depth, 4096, 0, false).unwrap();
    let shared = CloneShared::new(&Direction::ALL, true, false);
    shared.gate.release(0);
    let job = Arc::new(job);
    let parts = parts(&job, &blocks, &shared);
    let bound = Bound {
        stream: JobStream::new(&job, &blocks, &[(0, LENGTH)], u64::MAX / 2, 3),
        spec: CloneSpec {
            job,
            job_index: 0,
            clone: 0,
            files: Vec::new(),
            seed: 3,
            simulated: None,
            output: Default::default(),
            byte_budget: u64::MAX / 2,
            log: None,
            flow,
            part: ClonePart::default(),
        },
        notes: Vec::new(),
    };
    let device = LawDevice::new(device, DEVICE_SEED, arena.slots()).unwrap();
    let backend = SimBackend::new(arena, clock.clone(), device);
    let outcome = work(backend, clock, bound, parts);
    (outcome, shared)
}

/// Random reads for this duration, ms.
fn timed(depth: u32, ms: u64) -> Job {
    let mut job = random_reads(depth);
    blocks(&mut job).passes.time_based = true;
    job.end.runtime = Some(Nanos::from_millis(ms));
    job
}

const MS: u64 = 1_000_000;

fn reads(counters: &OpCounters) -> u64 {
    counters.of(Direction::Read).service.count()
}

#[test]
fn a_rate_is_kept_and_lateness_counts_as_response() {
    // Random arrivals: their number follows from the seed.
    for (arrival, ops) in [(Arrival::Linear, 1200), (Arrival::Poisson, 1134)] {
        let mut paced = timed(4, 600);
        paced.pacing.rates.read.iops = 2000.0;
        paced.pacing.arrival = arrival;
        let mut device = device(SimLaw::Constant(50_000), 0);
        device.faults = vec![SimFault::Stall {
            from_ns: 100 * MS,
            for_ns: 200 * MS,
        }];
        let (outcome, shared) = whole(paced, device, None);
        assert_eq!(outcome.ended, EndedBy::Runtime);
        assert_eq!(outcome.measured, (BEGIN, BEGIN + 600 * MS));
        let counters = shared.measure.of(Direction::Read);
        let (service, response) = (
            counters.service.histogram(),
            counters.response.as_ref().unwrap().histogram(),
        );
        assert_eq!(
            (service.count(), response.count()),
            (ops, ops),
            "{arrival:?}"
        );
        // Four ops were in flight in the stall; a third of all ops were due during it.
        let long = service.bins().filter(|(lowest, ..)| *lowest > 100 * MS);
        assert_eq!(long.map(|(.., count)| count).sum::<u64>(), 4, "{arrival:?}");
        assert!(response.percentile_ns(75.0) > 20 * MS);
    }
}

#[test]
fn ops_that_were_due_by_the_end_and_not_issued_are_counted() {
    let run = |stall_ms| {
        let mut paced = timed(4, 600);
        paced.end.ramp = Nanos::from_millis(100);
        paced.pacing.rates.read.iops = 2000.0;
        let mut device = device(SimLaw::Constant(50_000), 0);
        device.faults = vec![SimFault::Stall {
            from_ns: 500 * MS,
            for_ns: stall_ms * MS,
        }];
        let (outcome, shared) = whole(paced, device, None);
        assert_eq!(outcome.ended, EndedBy::Runtime);
        (reads(&shared.measure), outcome)
    };
    // All ops that were due during a stall are issued after it.
    let (ops, outcome) = run(50);
    assert_eq!((ops, outcome.missed), (1200, vec![]));
    // The stall begins after 800 of 1200 ops and lasts beyond the end: four more are in flight.
    let (ops, outcome) = run(400);
    let missed = MissedOps {
        direction: Some(Direction::Read),
        ops: 396,
    };
    assert_eq!((ops, outcome.missed), (804, vec![missed]));
    assert!(outcome.measured.1 > BEGIN + 900 * MS);
}

#[test]
fn a_ramp_is_recorded_separately() {
    let mut ramped = timed(8, 200);
    ramped.end.ramp = Nanos::from_millis(100);
    let (outcome, shared) = whole(ramped, device(SimLaw::Constant(MS), 0), None);
    assert_eq!((reads(&shared.ramp), reads(&shared.measure)), (800, 1600));
    assert_eq!(outcome.measured, (BEGIN + 100 * MS, BEGIN + 300 * MS));
    let steps: Vec<Step> = outcome.steps.iter().map(|span| span.step).collect();
    assert_eq!(steps, [Step::Ramp, Step::Measure, Step::Drain]);
}

#[test]
fn a_job_below_its_minimum_rate_fails_with_both_rates() {
    let run = |least: f64| {
        let mut slow = timed(1, 2600);
        slow.pacing.rates.read.least_iops = least;
        slow.pacing.check_every = Nanos::from_millis(200);
        whole(slow, device(SimLaw::Constant(MS), 0), None)
    };
    let (well, shared) = run(1000.0);
    assert_eq!((well.ended, well.broken), (EndedBy::Runtime, None));
    assert_eq!(reads(&shared.measure), 2600);
    let (badly, shared) = run(1001.0);
    assert_eq!(badly.ended, EndedBy::Error);
    let told = badly.broken.unwrap();
    assert_eq!(told.what, "keep to `rate_iops_min`");
    let cause = "reads came to 1000.0/s over 0.20 s, and 1001/s is the least";
    assert_eq!(told.cause, cause);
    // Two seconds to settle, and one cycle.
    assert_eq!(
        (badly.measured.1, reads(&shared.measure)),
        (BEGIN + 2200 * MS, 2200)
    );
}

#[test]
fn the_largest_depth_that_keeps_a_latency_is_found_in_virtual_time() {
    // One op at a time is served in 100 µs: at a depth of n, an op takes n × 100 µs.
    let device = device(SimLaw::Constant(100_000), 1);
    let mut searched = timed(64, 10_000);
    searched.pacing.latency_target = Some(LatencyTarget {
        limit: Nanos::from_micros(1_050),
        window: Nanos::from_millis(100),
        percent: 99.0,
        endless: false,
    });
    let (outcome, _) = whole(searched, device, None);
    assert_eq!((outcome.ended, outcome.depth.found), (EndedBy::Steady, 10));
    let notes = outcome.engine.fallbacks.join("; ");
    assert!(notes.contains("depth 10"), "{notes}");
}

#[test]
fn a_latency_above_its_limit_fails_the_job() {
    // One op in flight during the stall takes 40.1 ms.
    let mut device = device(SimLaw::Constant(100_000), 0);
    device.faults = vec![SimFault::Stall {
        from_ns: 50 * MS,
        for_ns: 40 * MS,
    }];
    for (limit_ms, fails) in [(0, false), (20, true), (41, false)] {
        let mut limited = timed(1, 200);
        limited.errors.max_latency.read = Nanos::from_millis(limit_ms);
        let (outcome, _) = whole(limited, device.clone(), None);
        let errnos: Vec<i32> = outcome.errors.iter().map(|error| error.errno).collect();
        let expected: &[i32] = if fails { &[110] } else { &[] };
        assert_eq!(errnos, expected, "{limit_ms}");
        assert_eq!(outcome.ended == EndedBy::Error, fails);
        let said = outcome.broken.map(|broken| broken.what);
        assert_eq!(said.as_deref(), fails.then_some("keep to `max_latency`"));
    }
}

#[test]
fn the_measured_time_ends_with_the_last_op_also_if_it_failed() {
    // Every second op fails, the last one too. ENOSPC ends the job, unless it is ignored.
    for (errno, ignored, ended, ops) in [
        (5, vec![], EndedBy::Count, 10),
        (28, vec![], EndedBy::Error, 2),
        (28, vec![28], EndedBy::Count, 10),
    ] {
        let mut job = random_reads(1);
        job.end.ops = Some(10);
        job.errors.continue_read = true;
        job.errors.ignore_read = ignored;
        let mut device = device(SimLaw::Constant(MS), 0);
        device.faults = vec![SimFault::Errno { every: 2, errno }];
        let (outcome, shared) = whole(job, device, None);
        assert_eq!((outcome.ended, reads(&shared.measure)), (ended, ops / 2));
        assert_eq!(outcome.measured, (BEGIN, BEGIN + ops * MS), "{errno}");
    }
}

#[test]
fn a_clone_of_a_flow_issues_only_its_share() {
    let mut member = timed(8, 400);
    member.pacing.flow = Some(Flow {
        id: 0,
        weight: 1,
        pause: Nanos::from_micros(50),
    });
    // The other clone has issued this many ops at four times the weight, and issues no more.
    for (others, own) in [(0, 1), (2, 1), (3, 2), (1000, 251)] {
        let flow = Arc::new(SharedFlow::new());
        flow.join(4);
        (0..others).for_each(|_| flow.issued());
        let device = device(SimLaw::Constant(20_000), 0);
        let (outcome, shared) = whole(member.clone(), device, Some(Arc::clone(&flow)));
        assert_eq!(outcome.ended, EndedBy::Runtime);
        assert_eq!(reads(&shared.measure), own, "{others}");
        // The other clone has left the flow, so this one is not limited.
        assert!(flow.allows(4, others) && !flow.allows(4, others + 2));
    }
}
