//! The loop in virtual time, against a device whose law is known; and without allocation.

use std::sync::Arc;

use iodyno_io::{SimBackend, SimDevice, SimFault, SimLaw, VirtualClock};
use iodyno_model::{Direction, EndedBy, Histogram, Job};
use iodyno_sys::memory::Arena;
use rand_distr::{Exp, LogNormal};

use super::*;
use crate::stream::JobStream;
use crate::testing::random_reads;

const SECOND: u64 = 1_000_000_000;
const LENGTH: u64 = 1 << 30;

/// Runs the job against the device in virtual time; (service, response, last instant).
fn simulate(job: Job, device: SimDevice, seconds: u64) -> (Histogram, Histogram, u64) {
    let clock = VirtualClock::default();
    let depth = job.engine.depth;
    let arena = Arena::new(depth, 4096, 0, false).unwrap();
    let shared = CloneShared::new(&Direction::ALL, true, false);
    let job = Arc::new(job);
    let parts = Parts {
        job: job.clone(),
        shared: &shared,
        names: vec!["simulated".to_owned()],
        filler: Filler::new(&job.buffers, 1),
        verifier: None,
        log: None,
    };
    let mut stream = JobStream::new(job, &[(0, LENGTH)], u64::MAX / 2, 3);
    let mut driver = Driver::new(SimBackend::new(arena, clock.clone(), device), clock, parts);
    let ended = driver
        .drive(&mut stream, &shared.measure, seconds * SECOND)
        .unwrap();
    assert_eq!(ended, EndedBy::Runtime);
    assert!(driver.drain(&mut stream, &shared.measure, 0).unwrap());
    let cells = shared.measure.of(Direction::Read);
    let response = cells.response.as_ref().unwrap().histogram();
    (cells.service.histogram(), response, driver.clock.now())
}

fn device(law: SimLaw, servers: u32) -> SimDevice {
    SimDevice {
        law,
        servers,
        faults: Vec::new(),
        seed: 42,
    }
}

fn within(found: f64, expected: f64, share: f64, what: &str) {
    assert!(
        (found / expected - 1.0).abs() < share,
        "{what}: {found} in place of {expected}"
    );
}

#[test]
fn a_log_normal_device_is_measured_as_one() {
    let law = SimLaw::LogNormal(LogNormal::new(100_000f64.ln(), 0.5).unwrap());
    let (service, _, _) = simulate(random_reads(16), device(law, 0), 60);
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
        service.count() as f64 / 60.0 * mean / 1e9,
        16.0,
        0.01,
        "depth",
    );
}

#[test]
fn an_open_loop_meets_the_queue_of_theory() {
    // M/M/1 at 70 %: the response is exponential with mean 1 / (μ − λ).
    let mut job = random_reads(512);
    job.pacing.rates.read.iops = 7000.0;
    job.pacing.arrival = iodyno_model::Arrival::Poisson;
    let law = SimLaw::Exponential(Exp::new(1.0 / 100_000.0).unwrap());
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
fn a_stall_shows_in_the_response_of_all_that_were_due() {
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
        "one op alone met the stall"
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
    let law = || SimLaw::Exponential(Exp::new(1.0 / 100_000.0).unwrap());
    let run = || simulate(random_reads(8), device(law(), 2), 5);
    assert_eq!(run(), run());
}
