//! Interrupts of a device on one CPU.

use super::*;

/// A source with two CPUs, and the time of these CPUs.
pub(super) fn interrupts(
    count: u32,
    counts: [u64; 2],
    cpu0: [u64; 5],
    cpu1: [u64; 5],
) -> Recording {
    recording()
        .seconds(Interrupts, count, |_| {
            vec![
                (
                    "36 virtio1-req.0",
                    vec![("CPU0", counts[0]), ("CPU1", counts[1])],
                ),
                ("40 eth0", vec![("CPU0", 90_000), ("CPU1", 0)]),
            ]
        })
        .seconds(Cpu, count, |_| {
            vec![("CPU0", cpu_second(cpu0)), ("CPU1", cpu_second(cpu1))]
        })
}

#[test]
fn interrupts_of_a_device_on_one_cpu_while_another_is_idle() {
    let busy = [10, 40, 5, 5, 40];
    let idle = [20, 19, 51, 10, 0];
    let one = |counts, cpu0, cpu1| interrupts(20, counts, cpu0, cpu1).done();
    sampled(
        "in the way",
        one([20_000, 0], busy, idle),
        &[(InterruptsOnOneCpu, Warning)],
        &[
            "virtio1-req.0: 100 % of interrupts on CPU0, CPU1 61 % idle",
            "20000 interrupts/s",
            "CPU0 90 % busy",
        ],
    );
    sampled(
        "harmless: that CPU has time left",
        one([20_000, 0], [10, 20, 65, 0, 5], idle),
        &[(InterruptsOnOneCpu, Note)],
        &["CPU1 61 % idle"],
    );
    sampled(
        "busy, but not with interrupts",
        one([20_000, 0], [10, 81, 0, 0, 9], idle),
        &[(InterruptsOnOneCpu, Note)],
        &[],
    );
    let cases = [
        ("at the threshold of the share", [9_000, 1_000], idle, true),
        ("distributed well enough", [8_900, 1_100], idle, false),
        ("few", [999, 0], idle, false),
        ("as many as the threshold", [1_000, 0], idle, true),
        ("no CPU idle", [20_000, 0], [30, 21, 40, 9, 0], false),
        ("just idle enough", [20_000, 0], [30, 20, 40, 10, 0], true),
    ];
    for (name, counts, other, is) in cases {
        let expected = [(InterruptsOnOneCpu, Warning)];
        sampled(
            name,
            one(counts, busy, other),
            &expected[..usize::from(is)],
            &[],
        );
    }
    let alone = recording()
        .seconds(Interrupts, 20, |_| {
            vec![("36 virtio1-req.0", vec![("CPU0", 20_000)])]
        })
        .seconds(Cpu, 20, |_| vec![("CPU0", cpu_second([0, 0, 90, 0, 10]))]);
    sampled("a single CPU", alone.done(), &[], &[]);
}

#[test]
fn a_source_is_classified_by_its_device_and_by_its_name_only_if_that_is_unknown() {
    let busy = [10, 40, 5, 5, 40];
    let idle = [0, 0, 100, 0, 0];
    let counts = [20_000, 0];
    let serving = |device| {
        interrupts(20, counts, busy, idle)
            .serving("36 virtio1-req.0", device)
            .done()
    };
    sampled(
        "it serves the target",
        serving("vda"),
        &[(InterruptsOnOneCpu, Warning)],
        &[],
    );
    sampled("it serves another disk", serving("vdb"), &[], &[]);
    let named = |name: &'static str| {
        recording()
            .seconds(Interrupts, 20, |_| {
                vec![(name, vec![("CPU0", 20_000), ("CPU1", 0)])]
            })
            .seconds(Cpu, 20, |_| {
                vec![("CPU0", cpu_second(busy)), ("CPU1", cpu_second(idle))]
            })
            .done()
    };
    for name in [
        "24 virtio0-request",
        "31 nvme0q1",
        "19 ehci_hcd:usb1, ahci[0000:00:1f.2]",
        "70 mpt3sas0-msix3",
    ] {
        sampled(name, named(name), &[(InterruptsOnOneCpu, Warning)], &[]);
    }
    for name in [
        "LOC",
        "25 virtio0-input.0",
        "101 vif0-q0-rx",
        "33 i915",
        "RES",
    ] {
        sampled(name, named(name), &[], &[]);
    }
}

#[test]
fn queues_of_one_device_are_judged_together_and_sources_of_one_name_separately() {
    let cpus = |recording: Recording| {
        recording.seconds(Cpu, 20, |_| {
            vec![
                ("CPU0", cpu_second([10, 40, 5, 5, 40])),
                ("CPU1", cpu_second([0, 0, 90, 10, 0])),
            ]
        })
    };
    let rows = |rows: [(&'static str, u64, u64); 3]| {
        let row = |(name, one, other)| (name, vec![("CPU0", one), ("CPU1", other)]);
        cpus(recording().seconds(Interrupts, 20, move |_| rows.into_iter().map(row).collect()))
    };
    let dealt = [
        ("30 nvme0q0", 1, 0),
        ("31 nvme0q1", 9_000, 0),
        ("32 nvme0q2", 0, 9_000),
    ];
    sampled("one queue per CPU is good", rows(dealt).done(), &[], &[]);
    let heaped = [
        ("30 nvme0q0", 1, 0),
        ("31 nvme0q1", 9_000, 0),
        ("32 nvme0q2", 9_000, 0),
    ];
    sampled(
        "all queues on one",
        rows(heaped).done(),
        &[(InterruptsOnOneCpu, Warning)],
        &["nvme0q1…nvme0q2: 100 % of interrupts on CPU0", "18001"],
    );
    let xen = [
        ("97 blkif", 5_000, 0),
        ("98 blkif", 0, 5_000),
        ("99 blkif", 700, 300),
    ];
    sampled(
        "three disks",
        rows(xen).done(),
        &[(InterruptsOnOneCpu, Warning)],
        &["blkif (interrupt 97): 100 % of interrupts on CPU0"],
    );
    // Of two queues of one disk, as reported by the host.
    let one = rows(xen)
        .serving("97 blkif", "vda")
        .serving("98 blkif", "vda");
    sampled("one disk", one.done(), &[], &[]);
}

/// A recorded table: eight CPUs; CPU0 handles a disk's interrupts.
#[test]
fn the_disk_of_a_recorded_table_is_found_and_the_network_is_not() {
    let by_cpu = |counts: [u64; 8]| {
        let names = [
            "CPU0", "CPU1", "CPU2", "CPU3", "CPU4", "CPU5", "CPU6", "CPU7",
        ];
        // Interrupts of the 300 s of the run, per second.
        names
            .into_iter()
            .zip(counts.map(|count| count / 300))
            .collect::<Named>()
    };
    let line99 = move |counts: [u64; 8]| {
        vec![
            ("98 blkif", by_cpu([1073, 7416, 0, 0, 0, 1558, 95081, 8082])),
            ("99 blkif", by_cpu(counts)),
            ("100 vif0-q0-tx", by_cpu([33, 0, 0, 23, 0, 4188616, 0, 0])),
        ]
    };
    let cpus = |first: [u64; 5]| {
        let names = ["CPU1", "CPU2", "CPU3", "CPU4", "CPU5", "CPU6", "CPU7"];
        let others = names.map(|name| (name, cpu_second([3, 5, 80, 12, 0])));
        let mut all = vec![("CPU0", cpu_second(first))];
        all.extend(others);
        all
    };
    let telemetry = |counts, first| {
        let recording = recording().seconds(Interrupts, 20, move |_| line99(counts));
        recording.seconds(Cpu, 20, move |_| cpus(first)).done()
    };
    let seed = [20_281_233, 0, 0, 0, 0, 0, 0, 55_041];
    sampled(
        "as written down",
        telemetry(seed, [2, 20, 10, 8, 60]),
        &[(InterruptsOnOneCpu, Warning)],
        &[
            "blkif (interrupt 99): 100 % of interrupts on CPU0, CPU",
            "92 % idle",
            "67787 interrupts/s",
        ],
    );
    let balanced = [2_542_000; 8];
    sampled("balanced", telemetry(balanced, [3, 5, 72, 12, 8]), &[], &[]);
}
