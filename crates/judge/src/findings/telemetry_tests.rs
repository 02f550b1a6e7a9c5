//! Each finding of telemetry on a made-up series with the fault, without it, and close to its threshold.

use iodyno_model::{
    DeviceUse, Direction, FindingKind, SeriesKind, StackLayer, Telemetry, Trial, Weight, Workload,
};

use super::tests::{check, found, mount, part};
use crate::testing;
use crate::testing::telemetry::{Named, Recording, SECOND, cpu_second, recording};
use Direction::{Read, Write};
use FindingKind::*;
use SeriesKind::*;
use Weight::{Note, Warning};

type Rows = Vec<(&'static str, Named)>;

/// Twenty samples of the clean trial's twenty seconds.
fn seconds(kind: SeriesKind, rows: impl Fn(u32) -> Rows) -> Telemetry {
    recording().seconds(kind, 20, rows).done()
}

/// The clean trial with these series has exactly these findings.
#[track_caller]
fn sampled(name: &str, telemetry: Telemetry, expected: &[(FindingKind, Weight)], words: &[&str]) {
    check(
        name,
        |_, trial| trial.telemetry = telemetry,
        expected,
        words,
    );
}

#[test]
fn nothing_is_found_in_no_telemetry_in_gaps_or_in_a_sample_or_two() {
    let faults = || {
        let recording = interrupts(20, [900_000, 10], [5, 5, 0, 0, 90], [0, 0, 100, 0, 0]);
        recording
            .seconds(Reclaim, 20, |_| {
                vec![("", vec![("stalls", 5000), ("swapped_in", 1 << 30)])]
            })
            .seconds(Process, 20, |_| vec![server(SECOND, 1)])
            .seconds(Cgroup, 20, |_| {
                vec![("vda", vec![("reads", 100), ("reads_limit", 100)])]
            })
            .done()
    };
    assert!(found(|_, trial| trial.telemetry = faults()).len() >= 4);
    sampled(
        "gaps",
        recording()
            .gap(0, Interrupts, "gone")
            .gap(3, Cpu, "gone")
            .done(),
        &[],
        &[],
    );
    for count in [0, 1, 2] {
        let few = |trial: &mut Trial| {
            trial.telemetry = faults();
            let last = i64::from(count) * SECOND as i64;
            trial
                .telemetry
                .samples
                .retain(|sample| sample.at_ns <= last);
        };
        check(&format!("{count} samples"), |_, trial| few(trial), &[], &[]);
    }
    check(
        "none known",
        |_, trial| {
            trial.telemetry = faults();
            for sample in &mut trial.telemetry.samples {
                sample.values.fill(None);
            }
        },
        &[],
        &[],
    );
    check(
        "none within the measured time",
        |_, trial| {
            trial.telemetry = faults();
            for sample in &mut trial.telemetry.samples {
                sample.at_ns += 20 * SECOND as i64;
            }
        },
        &[],
        &[],
    );
}

/// A source of two CPUs, and their time.
fn interrupts(count: u32, counts: [u64; 2], cpu0: [u64; 5], cpu1: [u64; 5]) -> Recording {
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
fn interrupts_of_a_device_on_one_cpu_while_another_idles() {
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
        "not in the way: that CPU has time",
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
        ("dealt out well enough", [8_900, 1_100], idle, false),
        ("few", [999, 0], idle, false),
        ("as many as count", [1_000, 0], idle, true),
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
fn a_source_counts_by_what_it_serves_and_by_its_name_only_where_that_is_unknown() {
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
fn queues_of_one_device_are_judged_together_and_sources_of_one_name_apart() {
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
    sampled(
        "a queue a CPU is as it should be",
        rows(dealt).done(),
        &[],
        &[],
    );
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
    // Of two queues of one disk, as the host tells.
    let one = rows(xen)
        .serving("97 blkif", "vda")
        .serving("98 blkif", "vda");
    sampled("one disk", one.done(), &[], &[]);
}

/// The table of seed 000: eight CPUs, of which CPU0 takes a disk's interrupts.
#[test]
fn the_disk_of_the_first_write_up_is_found_and_the_network_beside_it_is_not() {
    let by_cpu = |counts: [u64; 8]| {
        let names = [
            "CPU0", "CPU1", "CPU2", "CPU3", "CPU4", "CPU5", "CPU6", "CPU7",
        ];
        // Over the 300 s of the run; a second of it.
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

/// A second of a disk: requests read, ns of each, how many were in the queue.
fn disk(name: &'static str, reads: u64, each_ns: u64, queue_x10: u64) -> (&'static str, Named) {
    let named = vec![
        ("reads", reads),
        ("read_bytes", reads * 4096),
        ("read_time", reads * each_ns),
        ("busy_time", SECOND),
        ("queue_time", queue_x10 * SECOND / 10),
    ];
    (name, named)
}

fn nr_requests(trial: &mut Trial, name: &str, requests: &str) {
    let layers = &mut part(trial).environment.targets[0].stack;
    for layer in layers {
        match layer {
            StackLayer::Disk(device) | StackLayer::Loop { device, .. } if device.name == name => {
                device
                    .queue
                    .insert("nr_requests".to_owned(), requests.to_owned());
            }
            _ => {}
        }
    }
}

#[test]
fn a_queue_that_is_full_while_jobs_have_more_is_saturated() {
    let full = |requests: &'static str, queue_x10: u64, depth: u32| {
        move |_: &mut Workload, trial: &mut Trial| {
            nr_requests(trial, "vda", requests);
            part(trial)
                .clones
                .iter_mut()
                .for_each(|clone| clone.engine.depth = depth);
            trial.telemetry = seconds(Disk, move |_| vec![disk("vda", 20_000, 100_000, queue_x10)]);
        }
    };
    check(
        "full",
        full("64", 630, 64),
        &[(QueueSaturated, Warning)],
        &[
            "vda: 63 requests",
            "nr_requests 64",
            "128 in flight",
            "a read takes",
            "100 µs of it at vda",
        ],
    );
    for (name, requests, queue_x10, depth) in [
        ("as deep as the jobs go, and no deeper", "64", 630, 32),
        ("room is left", "64", 570, 64),
        ("several hardware queues", "64", 680, 64),
        ("not known", "", 630, 64),
        ("nonsense", "0", 0, 64),
    ] {
        check(name, full(requests, queue_x10, depth), &[], &[]);
    }
    check(
        "just full",
        full("64", 576, 64),
        &[(QueueSaturated, Warning)],
        &[],
    );
    check(
        "not in most seconds",
        |_, trial| {
            full("64", 0, 64)(&mut testing::workload("w", vec![]), trial);
            trial.telemetry = seconds(Disk, |second| {
                let queue = if second < 9 { 630 } else { 400 };
                vec![disk("vda", 20_000, 100_000, queue)]
            });
        },
        &[],
        &[],
    );
}

/// loop0 above vda.
fn loop_above(trial: &mut Trial) {
    let environment = &mut part(trial).environment;
    let mut device = environment.targets[0].stack[1].device().unwrap().clone();
    device.name = "loop0".to_owned();
    let layer = StackLayer::Loop {
        device,
        file: "/img".into(),
        direct: true,
    };
    environment.targets[0].stack.insert(1, layer);
}

#[test]
fn what_waits_above_the_device_is_told_from_what_the_device_takes() {
    let layers = |above: (u64, u64), below: (u64, u64)| {
        move |_: &mut Workload, trial: &mut Trial| {
            loop_above(trial);
            trial.telemetry = seconds(Disk, move |_| {
                vec![
                    disk("loop0", above.0, above.1, 80),
                    disk("vda", below.0, below.1, 20),
                ]
            });
        }
    };
    check(
        "waits",
        layers((2_000, 4_200_000), (2_000, 900_000)),
        &[(QueueSaturated, Note)],
        &["reads take 4.20 ms at loop0 and 900 µs of it at vda: 79 % is waiting above vda"],
    );
    for (name, above, below) in [
        ("less than twice", (2_000, 1_790_000), (2_000, 900_000)),
        (
            "no longer than code takes",
            (2_000, 150_000),
            (2_000, 60_000),
        ),
        ("split below", (2_000, 4_200_000), (4_000, 900_000)),
        ("few", (49, 4_200_000), (49, 900_000)),
    ] {
        check(name, layers(above, below), &[], &[]);
    }
    check(
        "a single layer",
        |_, trial| {
            trial.telemetry = seconds(Disk, |_| vec![disk("vda", 2_000, 4_200_000, 80)]);
        },
        &[],
        &[],
    );
}

#[test]
fn a_longer_queue_that_did_no_more_only_made_requests_wait() {
    let halves = |short: (u64, u64), long: (u64, u64)| {
        seconds(Disk, move |second| {
            let (reads, queue) = if second % 2 == 0 { short } else { long };
            vec![disk("vda", reads, 100_000, queue)]
        })
    };
    sampled(
        "no more",
        halves((20_000, 30), (20_500, 160)),
        &[(QueueSaturated, Note)],
        &["20000 requests/s with 3.0 of them in its queue and 20500/s with 16.0"],
    );
    sampled("more", halves((20_000, 30), (21_500, 160)), &[], &[]);
    sampled(
        "hardly longer",
        halves((20_000, 100), (20_000, 190)),
        &[],
        &[],
    );
    sampled(
        "short all the same",
        halves((20_000, 10), (20_000, 39)),
        &[],
        &[],
    );
    let mut idle = halves((20_000, 30), (20_500, 160));
    let busy = idle.shapes[0].column("busy_time").unwrap();
    idle.samples
        .iter_mut()
        .for_each(|sample| sample.values[busy] = Some(SECOND / 2));
    sampled(
        "nothing waits for a device that is half idle",
        idle,
        &[],
        &[],
    );
}

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
        &["loop0: 995 reads/s of the 1000 reads/s that the control group allows"],
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
        &["99 MiB/s written of the 100 MiB/s written"],
    );
    let sometimes = seconds(Cgroup, |second| {
        let reads = if second < 9 { 1000 } else { 500 };
        vec![("loop0", vec![("reads", reads), ("reads_limit", 1000)])]
    });
    sampled("in less than half of the samples", sometimes, &[], &[]);
}

/// Seconds of a reader's rate.
fn frames(trial: &mut Trial, rate: impl Fn(u32) -> u64) {
    trial.frames = (0..20)
        .map(|second| testing::frame(second, &[(0, Read, rate(second), 318_000)]))
        .collect();
}

#[test]
fn a_fall_to_an_even_level_is_credit_that_was_spent() {
    let kinds = |trial: &Trial, workload: &Workload| -> Vec<FindingKind> {
        let found = super::findings(workload, trial);
        found.iter().map(|finding| finding.kind).collect()
    };
    let fell = |to: fn(u32) -> u64, busy: u64| {
        let (workload, mut trial) = super::tests::clean();
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
        (kinds(&trial, &workload), super::findings(&workload, &trial))
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

#[test]
fn all_cpus_busy_is_a_saturated_client() {
    let cpus = |cpu0: [u64; 5], cpu1: [u64; 5]| {
        seconds(Cpu, move |_| {
            vec![("CPU0", cpu_second(cpu0)), ("CPU1", cpu_second(cpu1))]
        })
    };
    let (full, left) = ([50, 45, 0, 0, 5], [50, 39, 10, 0, 1]);
    sampled(
        "all",
        cpus(full, full),
        &[(ClientSaturated, Warning)],
        &["all 2 CPUs were busy (100 %; the harness used 0.6"],
    );
    sampled(
        "95 % of them",
        cpus(full, left),
        &[(ClientSaturated, Warning)],
        &[],
    );
    sampled("a little less", cpus(full, [50, 38, 11, 0, 1]), &[], &[]);
    sampled("one of two", cpus(full, [0, 0, 100, 0, 0]), &[], &[]);
    sampled(
        "waiting for I/O is no work",
        cpus([10, 10, 0, 80, 0], [10, 10, 0, 80, 0]),
        &[],
        &[],
    );
    let mostly = |busy: u32| {
        seconds(Cpu, move |second| {
            let cpu = if second < busy {
                full
            } else {
                [0, 0, 100, 0, 0]
            };
            vec![("CPU0", cpu_second(cpu))]
        })
    };
    sampled(
        "nine of ten seconds",
        mostly(18),
        &[(ClientSaturated, Warning)],
        &[],
    );
    sampled("fewer", mostly(17), &[], &[]);
    check(
        "a worker's own core is the narrower answer",
        |_, trial| {
            part(trial).clones[0].cpu.system_ns = 18_400_000_000;
            trial.telemetry = cpus(full, full);
        },
        &[(ClientSaturated, Warning)],
        &["1 of 2 workers"],
    );
}

fn server(cpu_ns: u64, threads: u64) -> (&'static str, Named) {
    (
        "virtiofsd[812]",
        vec![
            ("user", cpu_ns / 4),
            ("system", cpu_ns / 4 * 3),
            ("threads", threads),
        ],
    )
}

#[test]
fn a_server_without_cpu_time_left_set_the_pace() {
    let used = |cpu_ns: u64, threads: u64| seconds(Process, move |_| vec![server(cpu_ns, threads)]);
    let percent = SECOND / 100;
    sampled(
        "its only thread",
        used(96 * percent, 1),
        &[(ServerSaturated, Warning)],
        &["virtiofsd[812] used 0.96 cores, all that its 1 thread can"],
    );
    sampled(
        "both threads",
        used(191 * percent, 2),
        &[(ServerSaturated, Warning)],
        &["2 threads"],
    );
    sampled(
        "one core of many threads",
        used(100 * percent, 9),
        &[(ServerSaturated, Note)],
        &["as one busy thread of its 9 would"],
    );
    sampled("time left", used(94 * percent, 1), &[], &[]);
    sampled("more than a core of many", used(150 * percent, 9), &[], &[]);
    let sometimes = seconds(Process, |second| {
        vec![server(if second < 17 { SECOND } else { 0 }, 1)]
    });
    sampled("in fewer than nine of ten", sometimes, &[], &[]);
}

#[test]
fn steal_in_stretches_is_noted_where_the_mean_is_small() {
    let stolen = |seconds_of: u32, percent: u64| {
        seconds(Cpu, move |second| {
            let mut cpu = cpu_second([20, 20, 60 - percent, 0, 0]);
            let taken = if second < seconds_of { percent } else { 0 };
            cpu.push(("steal", taken * SECOND / 100));
            vec![("CPU0", cpu_second([20, 20, 60, 0, 0])), ("CPU1", cpu)]
        })
    };
    sampled(
        "two seconds",
        stolen(2, 30),
        &[(Steal, Note)],
        &["2 of 20 samples", "30 % of CPU1"],
    );
    sampled("once", stolen(1, 30), &[], &[]);
    sampled("little", stolen(20, 9), &[], &[]);
    check(
        "the mean says it already",
        |_, trial| {
            part(trial).host.steal_ns = 1_000_000_000;
            trial.telemetry = stolen(5, 30);
        },
        &[(Steal, Warning)],
        &["of all CPU time"],
    );
}

#[test]
fn memory_that_is_short_is_said() {
    let reclaim = |named: Named| seconds(Reclaim, move |_| vec![("", named.clone())]);
    sampled(
        "swap",
        reclaim(vec![("swapped_in", 3 << 20), ("swapped_out", 1 << 20)]),
        &[(MemoryPressure, Warning)],
        &["60 MiB were swapped in and 20 MiB out"],
    );
    sampled(
        "a page now and then",
        reclaim(vec![("swapped_out", 1 << 19)]),
        &[],
        &[],
    );
    sampled(
        "allocations that reclaim",
        reclaim(vec![("stalls", 10), ("scanned_direct", 1 << 20)]),
        &[(MemoryPressure, Warning)],
        &["10 allocations a second", "20 MiB looked through"],
    );
    sampled("few of them", reclaim(vec![("stalls", 9)]), &[], &[]);
    let kswapd = || reclaim(vec![("scanned_kswapd", 11 << 20)]);
    sampled(
        "kswapd beside direct jobs",
        kswapd(),
        &[(MemoryPressure, Note)],
        &["although no job uses the page cache"],
    );
    sampled(
        "hardly",
        reclaim(vec![("scanned_kswapd", 9 << 20)]),
        &[],
        &[],
    );
    check(
        "kswapd beside buffered jobs is how memory works",
        |workload, trial| {
            workload.jobs[0].engine.direct = false;
            part(trial).environment.memory.total = 1 << 30;
            trial.telemetry = kswapd();
        },
        &[],
        &[],
    );
    let with_pressure = recording()
        .seconds(Reclaim, 20, |_| vec![("", vec![("stalls", 100)])])
        .seconds(Pressure, 20, |_| {
            vec![("memory", vec![("some", SECOND / 8)])]
        });
    sampled(
        "with the kernel's own word",
        with_pressure.done(),
        &[(MemoryPressure, Warning)],
        &["waited for memory in 12.5 % of the time"],
    );
}

#[test]
fn writers_that_wait_for_write_back_are_slowed_down() {
    const MIB: u64 = 1 << 20;
    let writer = |direct: bool, above: u32, dirty: u64| {
        move |workload: &mut Workload, trial: &mut Trial| {
            workload.jobs[0].access.writes = true;
            workload.jobs[0].access.reads = false;
            workload.jobs[0].engine.direct = direct;
            for clone in &mut part(trial).clones {
                clone.directions = vec![testing::direction(Write, 200_000, 318_000)];
            }
            part(trial).host.devices[0].bytes.swap(0, 1);
            trial.telemetry = seconds(Memory, move |second| {
                let dirty = if second < above { dirty } else { 0 };
                let named = vec![
                    ("dirty", dirty - dirty / 4),
                    ("writeback", dirty / 4),
                    ("dirty_background", 200 * MIB),
                    ("dirty_limit", 400 * MIB),
                ];
                vec![("", named)]
            });
        }
    };
    check(
        "a part of the time",
        writer(false, 8, 310 * MIB),
        &[(DirtyThrottled, Warning)],
        &[
            "in 40 % of the time",
            "up to 310 MiB",
            "from 300 MiB on",
            "part memory's",
        ],
    );
    check(
        "throughout",
        writer(false, 18, 310 * MIB),
        &[(DirtyThrottled, Note)],
        &["the pace at which the storage takes"],
    );
    check("below the middle", writer(false, 20, 300 * MIB), &[], &[]);
    check(
        "just long enough",
        writer(false, 4, 310 * MIB),
        &[(DirtyThrottled, Warning)],
        &[],
    );
    check("a burst", writer(false, 3, 310 * MIB), &[], &[]);
    check(
        "somebody else's dirty pages",
        writer(true, 20, 310 * MIB),
        &[],
        &[],
    );
}

/// vda read so many MiB more than the jobs' 1.53 GiB.
fn excess(trial: &mut Trial, mib: u64) {
    part(trial).host.devices[0].bytes[0] += mib << 20;
}

#[test]
fn io_of_other_processes_is_named() {
    let others = |read_mib: u64| {
        seconds(Others, move |_| {
            vec![
                ("rsync[99]", vec![("read_bytes", read_mib * (1 << 20) / 20)]),
                ("updatedb[7]", vec![("read_bytes", 1 << 20)]),
            ]
        })
    };
    let beside = |mib: u64, read_mib: u64| {
        move |_: &mut Workload, trial: &mut Trial| {
            excess(trial, mib);
            trial.telemetry = others(read_mib);
        }
    };
    check(
        "on the device",
        beside(400, 380),
        &[(OtherIo, Warning)],
        &[
            "rsync[99] read 380 MiB and updatedb[7] read 20 MiB",
            "the devices read 400 MiB more than the jobs' 1.53 GiB",
        ],
    );
    check("on another device", beside(0, 4000), &[], &[]);
    check("little", beside(150, 150), &[], &[]);
    check(
        "half of it explained",
        beside(400, 180),
        &[(OtherIo, Warning)],
        &[],
    );
    check(
        "less: somebody not seen",
        beside(400, 170),
        &[(OtherIo, Note)],
        &["no process was seen that did it"],
    );
    check(
        "a device that reads ahead explains itself",
        |workload, trial| {
            workload.jobs[0].engine.direct = false;
            part(trial).environment.memory.total = 1 << 30;
            excess(trial, 400);
        },
        &[],
        &[],
    );
    check(
        "so does a file system with maps of its own",
        |_, trial| {
            mount(trial, "btrfs", "rw");
            excess(trial, 400);
        },
        &[],
        &[],
    );
    check(
        "written",
        |_, trial| {
            for clone in &mut part(trial).clones {
                clone
                    .directions
                    .push(testing::direction(Write, 100_000, 300_000));
            }
            part(trial).host.devices[0].bytes[1] = (819 << 20) + (300 << 20);
            trial.telemetry = seconds(Others, |_| {
                vec![("dd[5]", vec![("written_bytes", 15 << 20)])]
            });
        },
        &[(OtherIo, Warning)],
        &["dd[5] wrote 300 MiB"],
    );
}

#[test]
fn the_arc_is_accused_by_its_series_where_nothing_else_counts_it() {
    let arc = |hits: u64, misses: u64| {
        seconds(Arc, move |_| {
            vec![("", vec![("hits", hits), ("misses", misses)])]
        })
    };
    let on_zfs = |telemetry: Telemetry| {
        move |_: &mut Workload, trial: &mut Trial| {
            mount(trial, "zfs", "rw");
            part(trial).environment.targets[0].stack.truncate(1);
            part(trial).host.devices = Vec::<DeviceUse>::new();
            part(trial).environment.memory.total = 1 << 30;
            trial.telemetry = telemetry;
        }
    };
    check(
        "hits",
        on_zfs(arc(950, 50)),
        &[(CacheServed, Weight::Invalid)],
        &["the ARC answered 95 % of 20000"],
    );
    check("misses", on_zfs(arc(5, 950)), &[], &[]);
    check(
        "counted at both ends",
        |workload, trial| {
            on_zfs(arc(950, 50))(workload, trial);
            part(trial).host.arc_hits = Some((0, 20_000));
        },
        &[],
        &[],
    );
}
