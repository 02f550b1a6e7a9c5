//! Limits that are set, and limits that are inferred.

use super::*;

#[test]
fn a_limit_of_the_control_group_is_named() {
    let rates = |reads: u64, limit: u64| {
        seconds(Cgroup, move |_| {
            vec![("loop0", vec![("reads", reads), ("reads_limit", limit)])]
        })
    };
    sampled(
        "reached",
        rates(995, 1000),
        &[(DeviceCapped, Warning)],
        &["loop0: 995 reads/s, and the control group allows 1000 reads/s"],
    );
    sampled("just", rates(970, 1000), &[(DeviceCapped, Warning)], &[]);
    sampled("not quite", rates(969, 1000), &[], &[]);
    sampled("far off", rates(400, 1000), &[], &[]);
    let unlimited = seconds(Cgroup, |_| vec![("loop0", vec![("reads", 1000)])]);
    sampled("no limit", unlimited, &[], &[]);
    let bytes = seconds(Cgroup, |_| {
        vec![(
            "vda",
            vec![
                ("written_bytes", 99 << 20),
                ("write_bandwidth_limit", 100 << 20),
            ],
        )]
    });
    sampled(
        "bytes",
        bytes,
        &[(DeviceCapped, Warning)],
        &["99 MiB/s written, and the control group allows 100 MiB/s written"],
    );
    let by_second = |reads: fn(u32) -> u64| {
        seconds(Cgroup, move |second| {
            vec![(
                "loop0",
                vec![("reads", reads(second)), ("reads_limit", 1000)],
            )]
        })
    };
    sampled(
        "handed out unevenly",
        by_second(|second| if second % 2 == 0 { 1080 } else { 910 }),
        &[(DeviceCapped, Warning)],
        &["995 reads/s"],
    );
    sampled(
        "in most samples",
        by_second(|second| if second < 12 { 1000 } else { 700 }),
        &[(DeviceCapped, Warning)],
        &["loop0: 1000 reads/s in 12 of 20 samples, and the control group allows 1000 reads/s"],
    );
    sampled(
        "with bursts",
        by_second(|second| if second % 4 > 0 { 1000 } else { 1500 }),
        &[(DeviceCapped, Warning)],
        &["in 15 of 20 samples"],
    );
    let sometimes = by_second(|second| if second < 11 { 1000 } else { 700 });
    sampled("in fewer samples", sometimes, &[], &[]);
}

#[test]
fn a_usual_limit_in_most_seconds_is_a_limit() {
    let device = |reads: fn(u32) -> u64, busy_percent: u64| {
        let second = move |second| {
            let reads = reads(second);
            vec![
                ("reads", reads),
                ("read_bytes", reads * 4096),
                ("busy_time", SECOND * busy_percent / 100),
            ]
        };
        seconds(Disk, move |number| vec![("vda", second(number))])
    };
    let capped: &[(FindingKind, Weight)] = &[(DeviceCapped, Warning)];
    let bursts = |second: u32| if second.is_multiple_of(5) { 2100 } else { 500 };
    sampled(
        "a burst in every fifth second",
        device(bursts, 100),
        capped,
        &["vda was busy at an even 500 IOPS in 16 of 20 seconds"],
    );
    let less = |second: u32| {
        if second >= 12 {
            310 + u64::from(second)
        } else {
            500
        }
    };
    sampled(
        "less to do at the end",
        device(less, 100),
        capped,
        &["500 IOPS in 12 of 20 seconds"],
    );
    let half = |second: u32| {
        if second >= 11 {
            310 + u64::from(second)
        } else {
            500
        }
    };
    sampled("in half of the seconds", device(half, 100), &[], &[]);
    sampled("a device with time left", device(bursts, 90), &[], &[]);
    let unusual = |second: u32| if second.is_multiple_of(5) { 2100 } else { 507 };
    sampled("an unusual number", device(unusual, 100), &[], &[]);
    let uneven = |second: u32| 480 + u64::from(second * 7919 % 40);
    sampled("a mean of 500", device(uneven, 100), &[], &[]);
}

/// Seconds of a reader's rate.
fn frames(trial: &mut Trial, rate: impl Fn(u32) -> u64) {
    trial.frames = (0..20)
        .map(|second| testing::frame(second, &[(0, Read, rate(second), 318_000)]))
        .collect();
}

#[test]
fn a_fall_to_a_constant_level_is_spent_burst_credit() {
    let kinds = |trial: &Trial, workload: &Workload| -> Vec<FindingKind> {
        let found = crate::findings(workload, trial);
        found.iter().map(|finding| finding.kind).collect()
    };
    let fell = |to: fn(u32) -> u64, busy: u64| {
        let (workload, mut trial) = clean();
        frames(&mut trial, |second| match second {
            0..8 => 3000 + u64::from(second * 7919 % 300),
            second => to(second),
        });
        trial.telemetry = seconds(Disk, |second| {
            let busy = if second < 8 {
                SECOND / 3
            } else {
                SECOND * busy / 100
            };
            vec![("vda", vec![("busy_time", busy)])]
        });
        (kinds(&trial, &workload), crate::findings(&workload, &trial))
    };
    let (spent, findings) = fell(|_| 300, 100);
    assert!(spent.contains(&DeviceCapped), "{findings:#?}");
    let capped = findings
        .iter()
        .find(|finding| finding.kind == DeviceCapped)
        .unwrap();
    assert!(capped.text.contains("vda fell from 3"), "{}", capped.text);
    assert!(
        capped.text.contains("to an even 300 ops/s at 8.00 s"),
        "{}",
        capped.text
    );
    let uneven = fell(|second| 300 + u64::from(second * 7919 % 60), 100).0;
    assert!(!uneven.contains(&DeviceCapped));
    assert!(
        !fell(|_| 300, 90).0.contains(&DeviceCapped),
        "the device had time"
    );
    assert!(
        !fell(|_| 2800, 100).0.contains(&DeviceCapped),
        "a small step"
    );
    assert!(!fell(|_| 30_000, 100).0.contains(&DeviceCapped), "it rose");
}
