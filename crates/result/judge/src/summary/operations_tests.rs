use iodyno_model::Direction;

use super::summary;
use crate::testing::operations as made;
use Direction::{Close, Create, Op, Read, Sync, SyncFolder, Write};

#[test]
fn a_cycle_is_one_op_and_its_steps_are_listed_below_it() {
    let (workload, trial) = made::create_empty_trial();
    let summary = summary(&workload, &trial);
    let rows: Vec<Direction> = summary.groups[0]
        .rows
        .iter()
        .map(|row| row.result.direction)
        .collect();
    assert_eq!(rows, [Op, Create, Close, SyncFolder]);
    assert_eq!(summary.groups[0].rows[0].iops(), 1000.0);
    assert_eq!(summary.cpu.ops, 20_000, "cycles, not steps");
    // 2 s of CPU for 20 000 cycles.
    assert_eq!(summary.cpu.worker_ns_per_op(), Some(100_000.0));
    let rates: Vec<f64> = summary.series.iter().map(|point| point.iops).collect();
    assert!(
        rates.iter().all(|rate| (980.0..=1021.0).contains(rate)),
        "{rates:?}"
    );
    assert!(summary.shares.is_empty(), "no data were transferred");
    let percents: Vec<f64> = summary.groups[0].rows[0]
        .service
        .iter()
        .map(|quantile| quantile.percent)
        .collect();
    assert!(percents.contains(&95.0), "{percents:?}");
}

#[test]
fn untimed_writes_reach_the_device_as_well() {
    let (workload, trial) = made::write_sync_trial();
    let summary = summary(&workload, &trial);
    let shares: Vec<(Direction, u64, f64)> = summary
        .shares
        .iter()
        .map(|share| (share.direction, share.job_bytes, share.ratio()))
        .collect();
    assert_eq!(shares, [(Write, 6_000_000_000, 1.0)]);
    assert_eq!(summary.cpu.ops, 600);
}

#[test]
fn concurrent_cycles_and_requests_are_counted_separately() {
    let (mut workload, mut trial) = made::create_empty_trial();
    workload.jobs.push(crate::testing::reader("beside"));
    let mut beside =
        crate::testing::clone(1, 0, vec![crate::testing::direction(Read, 4_000, 1000)]);
    beside.cpu = Default::default();
    trial.parts[0].clones.push(beside);
    trial.frames = vec![{
        let mut frame = made::frame(0, &[(Op, 1000, 0), (Create, 1000, 0), (Write, 1000, 10)]);
        let beside = crate::testing::frame(0, &[(1, Read, 200, 1000), (1, Sync, 7, 1000)]);
        frame.jobs.extend(beside.jobs);
        frame
    }];
    let summary = summary(&workload, &trial);
    assert_eq!(summary.cpu.ops, 24_000);
    assert_eq!(summary.series[0].iops, 1200.0);
    assert_eq!(summary.series[0].bytes_per_s, 10_000.0 + 200.0 * 4096.0);
}

#[test]
fn shared_files_are_counted_by_requests() {
    let (workload, trial) = made::fileio_trial();
    let summary = summary(&workload, &trial);
    assert_eq!(summary.cpu.ops, 100_000, "fsyncs are not among them");
    let rows = summary.groups.iter().flat_map(|group| &group.rows);
    let rows: Vec<Direction> = rows.map(|row| row.result.direction).collect();
    assert_eq!(rows[..3], [Read, Write, Sync]);
}
