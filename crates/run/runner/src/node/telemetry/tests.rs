//! Handling of samplers that do not end.

use iodyno_model::{DeviceLayer, MountInfo, SeriesKind, StackLayer, TargetInfo};

use super::*;

/// A sampler whose thread is simulated by the test, with this timeout.
fn sampler(timeout: Duration) -> (BackgroundSampler, Receiver<Order>, Sender<Reply>) {
    let (orders, received) = mpsc::channel();
    let (reply, replies) = mpsc::channel();
    let sampler = BackgroundSampler {
        orders,
        replies,
        reading_since: Arc::new(AtomicU64::new(0)),
        timeout,
        ended: false,
    };
    (sampler, received, reply)
}

/// Longer than any reply takes.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn a_sampler_that_hangs_is_abandoned_and_reported_with_its_start() {
    const SECOND: u64 = 1_000_000_000;
    for (since, words) in [
        (8_200_000_000, "hangs, since 3.2 s into the trial"),
        (4 * SECOND, "hangs, since before the start"),
        (0, "hangs: later samples are missing"),
    ] {
        let (mut sampler, orders, _silent) = sampler(Duration::from_millis(20));
        sampler.reading_since.store(since, Ordering::Relaxed);
        let note = sampler.end(5 * SECOND).unwrap_err();
        assert!(note.contains(words), "{note}");
        assert!(matches!(orders.try_recv(), Ok(Order::End)));
        // It is not asked again to end, and does not wait a second time.
        drop(sampler);
        let after = orders.try_recv();
        assert!(matches!(after, Err(mpsc::TryRecvError::Disconnected)));
    }
}

#[test]
fn the_cost_of_sampling_is_returned_at_its_end_and_a_panic_is_reported() {
    let (mut ended, _heard, reply) = sampler(LONG);
    reply.send(Reply::Open).unwrap();
    let cost = SamplerCost {
        kind: SeriesKind::Cpu,
        samples: 3,
        cpu_ns: 1,
        wall_ns: 2,
        longest_ns: 1,
    };
    reply.send(Reply::Closed(vec![cost.clone()])).unwrap();
    assert_eq!(ended.end(0), Ok(vec![cost]));
    let (mut broken, orders, reply) = sampler(LONG);
    drop((orders, reply));
    assert!(broken.end(0).unwrap_err().contains("panicked"));
}

#[test]
fn a_dropped_sampler_is_told_to_end() {
    let (sampler, orders, reply) = sampler(LONG);
    reply.send(Reply::Closed(Vec::new())).unwrap();
    drop(sampler);
    assert!(matches!(orders.try_recv(), Ok(Order::End)));
}

#[test]
fn the_scope_has_all_devices_below_the_targets_and_the_harness_itself() {
    let device = |name: &str| DeviceLayer {
        name: name.to_owned(),
        ..DeviceLayer::default()
    };
    let mount = MountInfo {
        file_system: "zfs".to_owned(),
        source: "tank/a".to_owned(),
        ..MountInfo::default()
    };
    let stack = vec![
        StackLayer::Mount(mount),
        StackLayer::Partition(device("sda1")),
        StackLayer::Disk(device("sda")),
    ];
    let targets = [TargetInfo {
        path: "/t".into(),
        stack,
    }];
    let sampling = Sampling {
        every_ns: 1,
        processes: vec!["smbd".to_owned()],
        ..Sampling::default()
    };
    let scope = scope(&sampling, &targets, &[7]);
    assert_eq!(
        scope.every,
        Duration::from_millis(100),
        "the shortest possible interval"
    );
    assert_eq!(
        scope.devices,
        Devices::Named(vec!["sda1".into(), "sda".into()])
    );
    assert_eq!(scope.pools, Pools::Named(vec!["tank".into()]));
    let names: Vec<&str> = scope
        .processes
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["smbd"]);
    assert_eq!(scope.servers, [7]);
    assert_eq!(scope.own.len(), 2);
    assert_eq!(scope.own[0], std::process::id());
}
