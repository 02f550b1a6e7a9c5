use iodyno_model::{Direction, DirectionResult, EndedBy, Histogram, Row, Trial, Workload};

use super::summary;
use crate::testing;
use Direction::{Read, Sync, Write};

#[test]
fn clones_reported_together_are_one_group() {
    let (workload, trial) = testing::four_clones();
    let summary = summary(&workload, &trial);
    let [group] = summary.groups.as_slice() else {
        panic!("{:?}", summary.groups);
    };
    let [read, write] = group.rows.as_slice() else {
        panic!("{:?}", group.rows);
    };
    assert_eq!(
        (group.clones, group.ended.as_slice()),
        (4, &[(EndedBy::Runtime, 4)][..])
    );
    assert_eq!(
        (read.result.direction, write.result.direction),
        (Read, Write)
    );
    assert_eq!(read.iops(), 138_400.0);
    assert_eq!(read.result.service.count(), 4 * 692_000);
    assert_eq!(read.result.bandwidth.mean, 138_400.0 * 4096.0);
    assert!(summary.total.is_empty(), "one group is its own total");
    assert_eq!(
        summary
            .shares
            .iter()
            .map(|share| share.ratio())
            .collect::<Vec<_>>(),
        [1.0, 1.0]
    );
    assert_eq!(summary.devices[0].busy_percent, Some(97.0));
}

#[test]
fn cpu_time_is_separate_for_workers_and_harness() {
    let (workload, trial) = testing::four_clones();
    let cpu = summary(&workload, &trial).cpu;
    // 4 × 6 s of workers, 0.3 s of other threads, in 20 s.
    assert_eq!(
        (cpu.worker_ns(), cpu.other_ns),
        (24_000_000_000, 300_000_000)
    );
    assert_eq!(cpu.cores(), 1.215);
    let ops = 4.0 * (692_000.0 + 230_500.0);
    assert_eq!(cpu.worker_ns_per_op(), Some(24e9 / ops));
    assert!((cpu.iops_per_core().unwrap() - ops / 24.3).abs() < 1e-6);
}

fn two_jobs(second_starts_ns: u64) -> (Workload, Trial) {
    let workload = testing::workload("w", vec![testing::reader("a"), testing::reader("b")]);
    let mut second = testing::clone(1, 0, vec![testing::direction(Read, 1000, 1000)]);
    second.start_ns = second_starts_ns;
    let first = testing::clone(0, 0, vec![testing::direction(Read, 3000, 1000)]);
    (
        workload,
        testing::trial(vec![testing::part(vec![first, second])]),
    )
}

#[test]
fn concurrent_groups_have_a_total() {
    let (workload, trial) = two_jobs(5_000_000);
    let summary = summary(&workload, &trial);
    assert_eq!(summary.groups.len(), 2);
    assert_eq!(summary.total.len(), 1);
    assert_eq!(summary.total[0].result.ops, 4000);
    // From the start of the first one to the end of the second one.
    assert_eq!(summary.total[0].result.runtime_ns, 20_005_000_000);
}

#[test]
fn consecutive_groups_have_no_total() {
    let (workload, trial) = two_jobs(20_000_000_000);
    let summary = summary(&workload, &trial);
    assert!(summary.total.is_empty());
    assert_eq!(summary.cpu.span_ns, 40_000_000_000);
}

#[test]
fn the_time_of_a_group_is_that_in_which_any_clone_ran() {
    let (mut workload, trial) = two_jobs(10_000_000_000);
    for job in &mut workload.jobs {
        job.reporting.together = true;
    }
    let summary = summary(&workload, &trial);
    let row = &summary.groups[0].rows[0];
    assert_eq!(row.result.runtime_ns, 30_000_000_000);
    assert_eq!(row.iops(), 4000.0 / 30.0);
}

#[test]
fn percentiles_are_marked_with_their_limits() {
    let mut trial = testing::trial(vec![testing::part(vec![testing::clone(
        0,
        0,
        vec![
            testing::direction(Read, 9_999, 50_000),
            testing::direction(Sync, 20, 1_000_000),
        ],
    )])]);
    trial.parts[0].clones[0].stamp_window_ns = (1000, 6000);
    let mut workload = testing::workload("w", vec![testing::reader("a")]);
    workload.jobs[0].reporting.percentiles = vec![90.0, 99.99, 250.0];
    let summary = summary(&workload, &trial);
    let flags: Vec<(f64, bool, bool)> = summary.groups[0].rows[0]
        .service
        .iter()
        .map(|q| (q.percent, q.resolution_limited, q.few))
        .collect();
    assert_eq!(
        flags,
        [
            (50.0, true, false),
            (90.0, false, false),
            (99.0, false, false),
            (99.9, false, true),
            (99.99, false, true)
        ]
    );
    assert!(summary.groups[0].rows[1].service[0].percent == 50.0);
}

#[test]
fn a_percentile_is_limited_by_the_delay_of_its_own_completions() {
    // Of 2 000 ops per direction, the last 30 may have been seen late.
    let latencies = |late_ns: u64| {
        let value = |op: u64| if op < 1970 { 24_000 } else { 5_620_000_000 };
        let least = |op: u64| value(op) - if op < 1970 { late_ns } else { 5_619_000_000 };
        let least: Histogram = (0..2000).map(least).collect();
        (0..2000)
            .map(value)
            .collect::<Histogram>()
            .with_least(least)
    };
    let with = |direction, service: Histogram| DirectionResult {
        service,
        ..testing::direction(direction, 2000, 24_000)
    };
    let mut worker = testing::clone(
        0,
        0,
        vec![with(Read, latencies(20)), with(Write, latencies(4_000))],
    );
    worker.stamp_window_ns = (20, 5_619_000_000);
    let mut synchronous = testing::clone(0, 1, vec![testing::direction(Sync, 2000, 1_000)]);
    synchronous.stamp_window_ns = (0, 0);
    let trial = testing::trial(vec![testing::part(vec![worker, synchronous])]);
    let mut workload = testing::workload("w", vec![testing::reader("a")]);
    workload.jobs[0].reporting.percentiles.clear();
    let rows = &summary(&workload, &trial).groups[0].rows;
    let limited = |row: &Row| {
        let quantiles = row.service.iter();
        let least: Vec<_> = quantiles
            .map(|q| q.least_ns.filter(|_| q.resolution_limited))
            .collect();
        assert!(
            row.service
                .iter()
                .all(|q| q.resolution_limited == q.least_ns.is_some())
        );
        least
    };
    // p50, p99, p99.9.
    assert_eq!(limited(&rows[0]), [None, Some(1_000_000), Some(1_000_000)]);
    assert_eq!(
        limited(&rows[1]),
        [Some(20_015), Some(1_000_000), Some(1_000_000)]
    );
    assert_eq!(limited(&rows[2]), [None; 3]);
}

#[test]
fn a_trial_rebuilt_from_frames_has_figures_without_cpu() {
    let (workload, mut trial) = testing::four_clones();
    let mut one = trial.parts[0].clones[0].clone();
    one.cpu = Default::default();
    one.directions[1].service = Histogram::default();
    trial.parts[0].clones = vec![one];
    trial.parts[0].host = Default::default();
    let summary = summary(&workload, &trial);
    // 20 frames of 1.23 s of CPU.
    assert_eq!(summary.cpu.cores(), 1.23);
    assert_eq!(summary.cpu.worker_ns_per_op(), None);
    assert!(summary.shares.is_empty() && summary.devices.is_empty());
    assert!(summary.groups[0].rows[1].service.is_empty());
    assert_eq!(summary.series.len(), 20);
}

#[test]
fn an_empty_trial_is_not_an_error() {
    let (workload, mut trial) = testing::four_clones();
    trial.parts.clear();
    trial.frames.clear();
    let summary = summary(&workload, &trial);
    assert!(summary.groups.is_empty() && summary.behaviour == Default::default());
    assert_eq!(summary.cpu.iops_per_core(), None);
}

#[test]
fn devices_have_the_time_and_the_number_of_requests() {
    let (workload, mut trial) = testing::four_clones();
    let device = &mut trial.parts[0].host.devices[0];
    device.ios = [1000, 0, 0, 0];
    device.ticks_ms = [2500, 7, 0, 0];
    device.queue_ms = 30_000;
    let found = &summary(&workload, &trial).devices[0];
    assert_eq!(found.read_await_ns, Some(2_500_000.0));
    assert_eq!(found.write_await_ns, None);
    assert_eq!(found.queue_mean, 1.5);
    trial.parts[0].host.span_ns = 0;
    assert_eq!(summary(&workload, &trial).devices[0].queue_mean, 0.0);
}
