use iodyno_model::{
    Arrival, Behaviour, ClockOffset, Content, ControlGroupUse, Direction, EngineKind, ErrorCount,
    Finding, FindingKind, Histogram, MissedOps, Outcome, Part, StackLayer, Stalls, Trial,
    VerifyResult, Weight, Workload,
};
use iodyno_units::Nanos;

use crate::testing;
use Direction::{Read, Write};
use FindingKind::*;
use Weight::{Invalid, Note, Warning};

/// A direct reader with two clones of 200 k ops each, without findings.
pub(super) fn clean() -> (Workload, Trial) {
    let mut job = testing::reader("r");
    job.clones = 2;
    let clones = (0..2)
        .map(|number| {
            let reads = testing::direction(Read, 200_000, 318_000);
            testing::clone(0, number, vec![reads])
        })
        .collect();
    (
        testing::workload("w", vec![job]),
        testing::trial(vec![testing::part(clones)]),
    )
}

pub(super) fn found(change: impl FnOnce(&mut Workload, &mut Trial)) -> Vec<Finding> {
    let (mut workload, mut trial) = clean();
    change(&mut workload, &mut trial);
    super::findings(&workload, &trial)
}

/// Exactly these are found, and the text of the first one contains all `words`.
pub(super) fn check(
    name: &str,
    change: impl FnOnce(&mut Workload, &mut Trial),
    expected: &[(FindingKind, Weight)],
    words: &[&str],
) {
    let found = found(change);
    let kinds: Vec<(FindingKind, Weight)> = found
        .iter()
        .map(|finding| (finding.kind, finding.weight))
        .collect();
    assert_eq!(kinds, expected, "{name}: {found:#?}");
    for word in words {
        assert!(
            found[0].text.contains(word),
            "{name}: no `{word}` in {:?}",
            found[0]
        );
    }
    assert!(found.iter().all(|finding| !finding.threshold.is_empty()));
}

pub(super) fn part(trial: &mut Trial) -> &mut Part {
    &mut trial.parts[0]
}

pub(super) fn mount(trial: &mut Trial, file_system: &str, options: &str) {
    let Some(StackLayer::Mount(mount)) = part(trial).environment.targets[0].stack.first_mut()
    else {
        unreachable!("the test trial has a mount");
    };
    (mount.file_system, mount.options) = (file_system.to_owned(), options.to_owned());
}

#[test]
fn a_clean_trial_has_no_findings() {
    check("clean", |_, _| {}, &[], &[]);
    check("without parts", |_, trial| trial.parts.clear(), &[], &[]);
}

#[test]
fn a_worker_without_idle_time_limited_the_figure() {
    let saturate = |trial: &mut Trial, clone: usize, system_ns: u64| {
        part(trial).clones[clone].cpu.system_ns = system_ns;
    };
    check(
        "one of two",
        |_, trial| saturate(trial, 1, 18_300_000_000),
        &[(ClientSaturated, Warning)],
        &["1 of 2 workers", "99 %", "client"],
    );
    check(
        "just below",
        |_, trial| saturate(trial, 1, 17_400_000_000),
        &[],
        &[],
    );
    check(
        "polling",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.hipri = true;
            saturate(trial, 0, 18_500_000_000);
        },
        &[(ClientSaturated, Note)],
        &["as polling does"],
    );
    check(
        "the null engine measures only the client",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.kind = EngineKind::Null;
            saturate(trial, 0, 18_500_000_000);
        },
        &[],
        &[],
    );
    check(
        "too short to judge",
        |_, trial| {
            saturate(trial, 0, 100_000_000);
            part(trial).clones[0].runtime_ns = 100_000_000;
        },
        &[],
        &[],
    );
}

#[test]
fn a_cache_is_detected_from_the_bytes_of_the_device() {
    let device = |trial: &mut Trial, share: f64| {
        let bytes = &mut part(trial).host.devices[0].bytes[0];
        *bytes = (*bytes as f64 * share) as u64;
    };
    check(
        "half cached, although direct",
        |_, trial| device(trial, 0.5),
        &[(CacheServed, Warning)],
        &["vda", "0.50 ×", "781 MiB", "1.53 GiB"],
    );
    check(
        "all cached",
        |_, trial| device(trial, 0.01),
        &[(CacheServed, Invalid)],
        &["0.01 ×"],
    );
    check(
        "nearly all from the device",
        |_, trial| device(trial, 0.92),
        &[],
        &[],
    );
    check(
        "buffered, and larger than memory",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = false;
            part(trial).environment.memory.total = 1 << 30;
            device(trial, 0.6);
        },
        &[(CacheServed, Warning)],
        &["a cache served the rest"],
    );
    check(
        "no device known below",
        |_, trial| {
            part(trial).environment.targets[0].stack.truncate(1);
            device(trial, 0.0);
        },
        &[],
        &[],
    );
    check(
        "a partition and its disk count once",
        |_, trial| {
            let stack = &mut part(trial).environment.targets[0].stack;
            let StackLayer::Disk(disk) = stack[1].clone() else {
                unreachable!("the test trial has a disk");
            };
            let partition = iodyno_model::DeviceLayer {
                name: "vda1".to_owned(),
                ..disk
            };
            stack.insert(1, StackLayer::Partition(partition));
            let mut counters = part(trial).host.devices[0].clone();
            counters.name = "vda1".to_owned();
            part(trial).host.devices.insert(0, counters);
            for device in &mut part(trial).host.devices {
                device.bytes[0] /= 2;
            }
        },
        &[(CacheServed, Warning)],
        &["from vda for", "0.50 ×"],
    );
    check(
        "the null engine reads nothing",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.kind = EngineKind::Null;
            device(trial, 0.0);
        },
        &[],
        &[],
    );
}

#[test]
fn the_remedy_for_a_device_does_not_mention_a_file_system() {
    let remedy = |device: bool| {
        let findings = found(move |_, trial| {
            let part = part(trial);
            part.files.iter_mut().for_each(|file| file.device = device);
            part.host.devices[0].bytes[0] /= 2;
        });
        findings[0].remedy.clone().unwrap()
    };
    assert!(remedy(true).contains("never written"));
    assert!(remedy(false).contains("this file system's cache"));
}

#[test]
fn the_remedy_names_a_loop_device_that_caches() {
    let remedy = |direct: bool, device: bool| {
        let findings = found(move |_, trial| {
            let part = part(trial);
            part.files.iter_mut().for_each(|file| file.device = device);
            part.host.devices[0].bytes[0] /= 2;
            part.environment.targets[0].stack.insert(
                1,
                StackLayer::Loop {
                    device: iodyno_model::DeviceLayer::default(),
                    file: "/a.img".into(),
                    direct,
                },
            );
        });
        findings[0].remedy.clone().unwrap()
    };
    let named = "direct=1 bypasses this host's cache only above the loop device, and a layer below caches: use direct I/O \
                 there as well (`losetup --direct-io=on`)";
    assert_eq!(remedy(false, false), named);
    assert_eq!(remedy(false, true), named);
    assert_eq!(
        remedy(true, false),
        "direct=1 does not bypass this file system's cache, or a layer below caches: use a size well above the host's \
         memory"
    );
}

#[test]
fn writes_that_never_reached_the_device_are_reported() {
    let synced = |share: f64, direct: bool, synced: bool| {
        found(move |workload, trial| {
            *workload = testing::workload("w", vec![testing::job("a")]);
            workload.jobs[0].work.blocks_mut().unwrap().access.reads = false;
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = direct;
            workload.jobs[0].work.blocks_mut().unwrap().sync.end_fsync = synced;
            let writes = testing::direction(Write, 200_000, 300_000);
            *part(trial) = testing::part(vec![testing::clone(0, 0, vec![writes])]);
            let bytes = &mut part(trial).host.devices[0].bytes[1];
            *bytes = (*bytes as f64 * share) as u64;
        })
    };
    let written = |share: f64, direct: bool| synced(share, direct, false);
    let buffered = written(0.3, false);
    assert_eq!(
        (buffered[0].kind, buffered[0].weight),
        (CacheServed, Warning)
    );
    assert!(buffered[0].text.contains("written to vda"), "{buffered:?}");
    assert!(buffered[0].remedy.as_ref().unwrap().contains("end_fsync=1"));
    let flushed = synced(0.3, false, true);
    let remedy = flushed[0].remedy.as_ref().unwrap();
    assert!(
        remedy.contains("among the steps") && !remedy.contains("end_fsync=1"),
        "options already in use are not recommended: {remedy}"
    );
    let finite = |synced: bool| {
        found(move |workload, trial| {
            *workload = testing::workload("w", vec![testing::job("a")]);
            let job = &mut workload.jobs[0];
            job.end.runtime = None;
            testing::blocks(job).access.reads = false;
            testing::blocks(job).engine.direct = false;
            testing::blocks(job).sync.end_fsync = synced;
            let writes = testing::direction(Write, 200_000, 300_000);
            let mut clone = testing::clone(0, 0, vec![writes]);
            clone.ended = iodyno_model::EndedBy::Size;
            *part(trial) = testing::part(vec![clone]);
            part(trial).host.devices[0].bytes[1] = 0;
        })
    };
    let weight = |findings: &[iodyno_model::Finding]| {
        let mut cached = findings
            .iter()
            .filter(|finding| finding.kind == CacheServed);
        cached.next().map(|finding| finding.weight)
    };
    assert_eq!(weight(&finite(false)), Some(Weight::Invalid));
    // Its completion includes the flush.
    assert_eq!(weight(&finite(true)), Some(Weight::Note));
    let direct = written(0.3, true);
    assert!(direct[0].remedy.as_ref().unwrap().contains("compresses"));
    assert_eq!(written(2.0, true), [], "a mirror writes twice");
}

#[test]
fn zfs_caches_with_direct_io_as_well() {
    check(
        "devices unknown, hits known",
        |_, trial| {
            mount(trial, "zfs", "rw");
            part(trial).environment.targets[0].stack.truncate(1);
            part(trial).host.arc_hits = Some((95_000, 5_000));
        },
        &[(CacheServed, Invalid), (SmallerThanMemory, Warning)],
        &["ARC", "95 %"],
    );
    check(
        "hits of another pool",
        |_, trial| part(trial).host.arc_hits = Some((95_000, 5_000)),
        &[],
        &[],
    );
}

#[test]
fn what_a_job_has_set_already_is_not_advised() {
    let advice = |direct: bool| {
        let found = found(|workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = direct;
            mount(trial, "zfs", "rw");
            part(trial).environment.targets[0].stack.truncate(1);
        });
        let mut found = found.into_iter();
        let fits = found.find(|finding| finding.kind == SmallerThanMemory);
        fits.and_then(|finding| finding.remedy).unwrap()
    };
    assert!(
        advice(false).starts_with("set direct=1"),
        "{}",
        advice(false)
    );
    assert!(
        advice(true).starts_with("direct=1 does not bypass"),
        "{}",
        advice(true)
    );
}

#[test]
fn a_cache_is_found_where_other_processes_use_the_device() {
    // Others read from the device what the jobs read from memory.
    let own = |trial: &mut Trial, share: f64| {
        let device = part(trial).host.devices[0].bytes[0] as f64;
        part(trial).host.own_read_bytes = Some((device * share) as u64);
    };
    let words = &["15.6 MiB were read from vda for the jobs' 1.53 GiB (0.01 ×)"];
    check(
        "memory",
        |_, t| own(t, 0.01),
        &[(CacheServed, Invalid)],
        words,
    );
    check(
        "half",
        |_, t| own(t, 0.5),
        &[(CacheServed, Warning)],
        &["0.50 ×"],
    );
    check("device", |_, t| own(t, 1.02), &[], &[]);
    check(
        "a server reads for them",
        |_, trial| {
            own(trial, 0.0);
            mount(trial, "fuse.x", "rw");
        },
        &[],
        &[],
    );
}

#[test]
fn fixed_buffered_writes_without_a_sync_are_of_memory_whatever_the_device_did() {
    // 15.6 MiB; the device wrote as many bytes in that time.
    let written = |workload: &mut Workload, trial: &mut Trial| {
        let mut job = testing::job("w");
        let work = testing::blocks(&mut job);
        (work.engine.direct, work.access.read_percent) = (false, 0);
        let mut clone = testing::clone(0, 0, vec![testing::direction(Write, 4_000, 30_000)]);
        clone.ended = iodyno_model::EndedBy::Size;
        *workload = testing::workload("w", vec![job]);
        *trial = testing::trial(vec![testing::part(vec![clone])]);
    };
    let case = |name: &str, expected: bool, change: &dyn Fn(&mut Workload, &mut Trial)| {
        let found = found(|workload, trial| {
            written(workload, trial);
            change(workload, trial);
        });
        let mut cached = found.iter().filter(|finding| finding.kind == CacheServed);
        assert_eq!(
            cached.next().is_some_and(|it| it.weight == Invalid),
            expected,
            "{name}: {found:#?}"
        );
        assert!(cached.next().is_none(), "{name}: {found:#?}");
    };
    fn blocks(workload: &mut Workload) -> &mut iodyno_model::Blocks {
        workload.jobs[0].work.blocks_mut().unwrap()
    }
    case("never synced", true, &|_, _| {});
    case("direct", false, &|workload, _| {
        blocks(workload).engine.direct = true
    });
    case("flushed at its end", false, &|workload, _| {
        blocks(workload).sync.end_fsync = true
    });
    case("synced", false, &|workload, _| {
        blocks(workload).sync.fdatasync_every = 9
    });
    case("sync=1", false, &|workload, _| {
        blocks(workload).engine.o_sync = true
    });
    case("mounted so", false, &|_, trial| {
        mount(trial, "ext4", "rw,sync")
    });
    case("by a server", false, &|_, trial| mount(trial, "nfs4", "rw"));
    case("timed", false, &|_, trial| {
        part(trial).clones[0].ended = iodyno_model::EndedBy::Runtime;
    });
    case("much of memory", false, &|_, trial| {
        part(trial).environment.memory.total = 64 << 20
    });
    case("a minute", false, &|_, trial| {
        part(trial).clones[0].runtime_ns *= 3
    });
}

#[test]
fn a_target_in_memory_is_reported() {
    check(
        "tmpfs",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = false;
            mount(trial, "tmpfs", "rw");
            part(trial).environment.targets[0].stack.truncate(1);
        },
        &[(CacheServed, Note)],
        &["tmpfs"],
    );
    check(
        "zram",
        |_, trial| {
            let zram = iodyno_model::DeviceLayer {
                name: "zram0".to_owned(),
                ..Default::default()
            };
            part(trial).environment.targets[0].stack[1] = StackLayer::Disk(zram);
            part(trial).host.devices[0].name = "zram0".to_owned();
        },
        &[(CacheServed, Note)],
        &["zram0"],
    );
}

#[test]
fn buffered_reads_of_a_small_file_are_suspect() {
    check(
        "the device read all of it in this trial",
        |workload, _| workload.jobs[0].work.blocks_mut().unwrap().engine.direct = false,
        &[(SmallerThanMemory, Note)],
        &["8 GiB fit into the host's 24 GiB"],
    );
    check(
        "two clones share one file",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = false;
            part(trial).files.truncate(1);
            part(trial).environment.memory.total = 6 << 30;
        },
        &[(SmallerThanMemory, Note)],
        &["4 GiB fit"],
    );
    check(
        "larger than memory",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = false;
            part(trial).environment.memory.total = 2 << 30;
        },
        &[],
        &[],
    );
}

#[test]
fn a_memory_limit_of_the_control_group_replaces_the_hosts_memory() {
    let buffered = |workload: &mut Workload, trial: &mut Trial, limit: u64| {
        workload.jobs[0].work.blocks_mut().unwrap().engine.direct = false;
        part(trial).environment.memory.limit = Some(limit);
    };
    check(
        "48 MiB",
        |workload, trial| buffered(workload, trial, 48 << 20),
        &[],
        &[],
    );
    check(
        "10 GiB",
        |workload, trial| buffered(workload, trial, 10 << 30),
        &[(SmallerThanMemory, Note)],
        &["8 GiB fit into the control group's 10 GiB"],
    );
    let met = |trial: &mut Trial, hits: u64| {
        part(trial).host.control_group = Some(ControlGroupUse {
            memory_limit_hits: Some(hits),
            ..ControlGroupUse::default()
        });
    };
    check(
        "met",
        |workload, trial| {
            buffered(workload, trial, 48 << 20);
            met(trial, 200);
        },
        &[(MemoryPressure, Warning)],
        &["limit of 48 MiB was met 10 times per second"],
    );
    check(
        "met by direct I/O",
        |workload, trial| {
            buffered(workload, trial, 48 << 20);
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = true;
            met(trial, 200);
        },
        &[(MemoryPressure, Note)],
        &[],
    );
    check(
        "seldom met",
        |workload, trial| {
            buffered(workload, trial, 48 << 20);
            met(trial, 199);
        },
        &[],
        &[],
    );
}

#[test]
fn workers_that_wait_for_a_cpu_are_reported() {
    let waits = |trial: &mut Trial, clone: usize, percent: u64| {
        part(trial).clones[clone].cpu.run_delay_ns = Some(percent * 200_000_000);
    };
    check(
        "one worker on a CPU with a busy loop",
        |_, trial| waits(trial, 1, 48),
        &[(CpuContention, Warning)],
        &["1 of 2 workers waited for a CPU for up to 48 % of the time"],
    );
    check(
        "the only one",
        |_, trial| {
            part(trial).clones.truncate(1);
            waits(trial, 0, 10);
        },
        &[(CpuContention, Warning)],
        &["the worker waited for a CPU for 10 % of the time"],
    );
    check("just below", |_, trial| waits(trial, 1, 9), &[], &[]);
    check(
        "not counted by the kernel",
        |_, trial| {
            for clone in &mut part(trial).clones {
                clone.cpu.run_delay_ns = None;
            }
        },
        &[],
        &[],
    );
    check(
        "too short to judge",
        |_, trial| {
            waits(trial, 0, 48);
            part(trial).clones[0].runtime_ns = 100_000_000;
        },
        &[],
        &[],
    );
}

#[test]
fn an_exhausted_cpu_quota_is_reported() {
    let quota = |periods: u64, throttled_periods: u64| {
        move |_: &mut Workload, trial: &mut Trial| {
            part(trial).host.control_group = Some(ControlGroupUse {
                periods,
                throttled_periods,
                throttled_ns: throttled_periods * 60_000_000,
                memory_limit_hits: None,
            });
        }
    };
    check(
        "half of the periods",
        quota(111, 55),
        &[(CpuQuota, Warning)],
        &["used up in 55 of 111 periods: its threads waited for 3.30 s"],
    );
    check("a twentieth", quota(200, 10), &[(CpuQuota, Warning)], &[]);
    check("fewer", quota(200, 9), &[], &[]);
    check("no quota", quota(0, 0), &[], &[]);
    check(
        "which makes workers wait for a CPU",
        |workload, trial| {
            quota(111, 55)(workload, trial);
            part(trial).clones[0].cpu.run_delay_ns = Some(9_000_000_000);
        },
        &[(CpuQuota, Warning)],
        &[],
    );
}

#[test]
fn compressible_data_matter_more_if_the_storage_compresses() {
    let zero = |workload: &mut Workload| workload.jobs[0].buffers.content = Content::Zero;
    check(
        "on ext4",
        |w, _| zero(w),
        &[(Compressible, Note)],
        &["zeroes (r)"],
    );
    check(
        "on btrfs with compression",
        |w, trial| {
            zero(w);
            mount(trial, "btrfs", "compress=zstd:3,rw");
        },
        &[(Compressible, Warning)],
        &["on btrfs"],
    );
    check(
        "half compressible and repeated",
        |w, _| {
            w.jobs[0].buffers.content = Content::Compressible {
                percent: 50,
                chunk: 0,
                pattern: None,
            };
            w.jobs[0].buffers.dedupe_percent = 20;
        },
        &[(Compressible, Note)],
        &["50 % compressible", "20 % repeated"],
    );
    check(
        "not compressible at all",
        |w, _| {
            w.jobs[0].buffers.content = Content::Compressible {
                percent: 0,
                chunk: 0,
                pattern: None,
            };
        },
        &[],
        &[],
    );
}

#[test]
fn reads_of_holes_are_reported() {
    let holes = |trial: &mut Trial, percent: u64| {
        for file in &mut part(trial).files {
            file.unwritten = Some(file.length / 100 * percent);
        }
    };
    check(
        "all",
        |_, t| holes(t, 100),
        &[(Unwritten, Invalid)],
        &["8.00 GiB of 8 GiB", "100 %"],
    );
    check(
        "a tenth",
        |_, t| holes(t, 10),
        &[(Unwritten, Warning)],
        &["(10 %)"],
    );
    check(
        "not reported by the file system",
        |_, t| {
            part(t)
                .files
                .iter_mut()
                .for_each(|file| file.unwritten = None)
        },
        &[],
        &[],
    );
    check(
        "a writer only",
        |workload, trial| {
            (
                workload.jobs[0].work.blocks_mut().unwrap().access.reads,
                workload.jobs[0].work.blocks_mut().unwrap().access.writes,
            ) = (false, true);
            holes(trial, 100);
            part(trial)
                .files
                .iter_mut()
                .for_each(|file| file.read = false);
        },
        &[(Unwritten, Note)],
        &["allocate"],
    );
    check(
        "an empty file that is only written, and others that are read",
        |_, trial| {
            let mut written = part(trial).files[0].clone();
            (written.read, written.unwritten) = (false, Some(written.length));
            part(trial).files.push(written);
        },
        &[],
        &[],
    );
}

/// The node's clock gained this time, ns, in the 20 s between two readings.
fn clock_gained(part: &mut Part, drift_ns: i64) {
    (part.clock_error_ns, part.clock_at_ns) = (500_000, 1_000_000_000);
    part.clock_after = Some(ClockOffset {
        offset_ns: part.clock_offset_ns + drift_ns,
        error_ns: 500_000,
        at_ns: 21_000_000_000,
    });
}

#[test]
fn stolen_time_and_clocks_are_reported() {
    check(
        "steal",
        |_, t| part(t).host.steal_ns = 1_600_000_000,
        &[(Steal, Warning)],
        &["2.0 %", "1.60 s"],
    );
    check(
        "a little steal",
        |_, t| part(t).host.steal_ns = 500_000_000,
        &[],
        &[],
    );
    check(
        "set back",
        |_, t| part(t).host.clock_drift_ns = -2_000_000_000,
        &[(ClockTrouble, Warning)],
        &["−2.00 s"],
    );
    // 20 s × 500 ppm = 10 ms, and 5 ms of slack.
    check(
        "disciplined",
        |_, t| part(t).host.clock_drift_ns = 14_000_000,
        &[],
        &[],
    );
    // 0.2 % in 20 s, ± 1 ms.
    check(
        "a fast clock",
        |_, t| clock_gained(part(t), 40_000_000),
        &[(ClockTrouble, Warning)],
        &["1.0020 times", "± 0.0001"],
    );
    // 500 ppm.
    check(
        "a clock that is synchronised",
        |_, t| clock_gained(part(t), 10_000_000),
        &[],
        &[],
    );
    check(
        "hpet",
        |_, t| {
            part(t).environment.clock_source = "hpet".to_owned();
            part(t).environment.clock_read_ns = 1200;
        },
        &[(ClockTrouble, Warning)],
        &["hpet", "1.20 µs"],
    );
    check(
        "an unknown source that is fast",
        |_, t| part(t).environment.clock_source = "new".to_owned(),
        &[],
        &[],
    );
}

#[test]
fn a_rate_must_be_kept_within_one_percent() {
    // Each clone reached 10 k ops/s of 4 KiB.
    let asked = |iops: f64, arrival: Arrival| {
        found(move |workload, _| {
            workload.jobs[0].pacing.rates.read.iops = iops;
            workload.jobs[0].pacing.arrival = arrival;
        })
    };
    assert!(asked(10_050.0, Arrival::Linear).is_empty());
    let missed = asked(12_500.0, Arrival::Linear);
    assert_eq!((missed[0].kind, missed[0].weight), (RateMissed, Warning));
    assert!(
        missed[0]
            .text
            .contains("read 25.0k ops/s requested, 20.0k ops/s achieved (-20.0 %)"),
        "{missed:?}"
    );
    assert_eq!(
        asked(9_500.0, Arrival::Poisson).len(),
        1,
        "too fast is wrong as well"
    );
    check(
        "by chance: 1000 arrivals vary by 3 %",
        |workload, trial| {
            let read = &mut workload.jobs[0].pacing;
            (read.rates.read.iops, read.arrival) = (51.5, Arrival::Poisson);
            for clone in &mut part(trial).clones {
                clone.directions = vec![testing::direction(Read, 1000, 318_000)];
            }
        },
        &[],
        &[],
    );
    check(
        "bytes a second",
        |workload, _| workload.jobs[0].pacing.rates.read.bytes_per_s = 50 << 20,
        &[(RateMissed, Warning)],
        &["read 100 MiB/s", "78.1 MiB/s achieved"],
    );
    check(
        "stopped past its end",
        |workload, trial| {
            workload.jobs[0].pacing.rates.read.iops = 12_500.0;
            for clone in &mut part(trial).clones {
                let missed = |direction, ops| MissedOps { direction, ops };
                clone.missed = vec![missed(Some(Read), 70), missed(Some(Write), 3)];
            }
        },
        &[(RateMissed, Warning)],
        &["20.0k ops/s achieved (-20.0 %); 140 ops were due by the end and not issued"],
    );
}

#[test]
fn a_standstill_with_an_op_in_flight_is_a_finding_and_no_steady_rate() {
    // Of 20 s of measurement.
    let stall = |trial: &mut Trial, seconds: u64, slowest: u64| {
        let list = vec![(3_000_000_000, seconds * 1_000_000_000)];
        part(trial).stalls = Some(Stalls {
            least_ns: 10_000_000,
            list,
        });
        let op: Histogram = [slowest * 1_000_000_000].into_iter().collect();
        part(trial).clones[0].directions[0].service.merge(&op);
    };
    let words = &[
        "no op completed for 15.0 s of the measured",
        "an op took 15.0 s",
    ];
    check(
        "most",
        |_, t| stall(t, 15, 15),
        &[(NodeStalled, Invalid)],
        words,
    );
    check(
        "some",
        |_, t| stall(t, 6, 6),
        &[(NodeStalled, Warning)],
        &[],
    );
    check("nothing in flight", |_, t| stall(t, 15, 1), &[], &[]);
    check("a slow op among others", |_, t| stall(t, 1, 15), &[], &[]);
    for (seconds, judged) in [(1, true), (15, false)] {
        let (workload, mut trial) = testing::four_clones();
        stall(&mut trial, seconds, 15);
        let behaviour = crate::summary(&workload, &trial).behaviour;
        assert_eq!(behaviour != Behaviour::default(), judged, "{seconds}");
    }
}

#[test]
fn unresolved_percentiles_are_marked() {
    check(
        "a coarse stamp window",
        |_, t| part(t).clones[1].stamp_window_ns.1 = 200_000,
        &[(ResolutionLimited, Note)],
        &["read p1 to p99.5 are upper limits: at these ranks, completions may have been unseen"],
    );
    check(
        "the median alone is marked in the table",
        |_, t| part(t).clones[1].stamp_window_ns.1 = 40_000,
        &[],
        &[],
    );
    check(
        "few ops",
        |_, t| {
            for clone in &mut part(t).clones {
                clone.directions = vec![testing::direction(Read, 400, 318_000)];
            }
        },
        &[(TooShort, Note)],
        &["p99: read (800 ops)"],
    );
    check(
        "too few for p99.9 alone",
        |_, t| {
            for clone in &mut part(t).clones {
                clone.directions = vec![testing::direction(Read, 500, 318_000)];
            }
        },
        &[],
        &[],
    );
}

#[test]
fn errors_come_first() {
    let fail = |trial: &mut Trial, errno: i32, count: u64| {
        part(trial).clones[0].errors = vec![ErrorCount {
            direction: Read,
            errno,
            count,
            first_file: "/mnt/e/f".to_owned(),
            first_offset: 4096,
            first_length: 0,
        }];
    };
    check(
        "errors",
        |_, t| fail(t, 5, 3),
        &[(IoErrors, Warning)],
        &["3 × EIO on read", "/mnt/e/f at 4096"],
    );
    let remedy = |kind: EngineKind| {
        let findings = found(|workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.kind = kind;
            fail(trial, 5, 3);
        });
        findings[0].remedy.clone().unwrap()
    };
    assert!(remedy(EngineKind::Libaio).contains("kernel's log"));
    assert!(remedy(EngineKind::Sim).contains("sim_faults"));
    check(
        "more errors than ops",
        |_, t| fail(t, 28, 500_000),
        &[(IoErrors, Invalid)],
        &["ENOSPC"],
    );
    check(
        "verification",
        |_, trial| {
            fail(trial, 5, 1);
            part(trial).clones[1].verify = Some(VerifyResult {
                checked: 100,
                stale: 2,
                foreign: 1,
                first: Some("f at 8192: sequence 3, expected 7".to_owned()),
                ..VerifyResult::default()
            });
        },
        &[(VerifyFailed, Invalid), (IoErrors, Warning)],
        &[
            "3 of 100",
            "2 from an earlier write",
            "1 without a valid header: damaged, or not written by this job",
            "f at 8192",
        ],
    );
    check(
        "a good verification",
        |_, trial| {
            let verify = VerifyResult {
                checked: 100,
                ..VerifyResult::default()
            };
            part(trial).clones[1].verify = Some(verify);
        },
        &[],
        &[],
    );
    check(
        "cut off",
        |_, trial| trial.outcome = Outcome::Interrupted("SIGINT".to_owned()),
        &[(Interrupted, Warning)],
        &["20.0 s", "SIGINT"],
    );
    check(
        "fallbacks, each once",
        |_, trial| {
            for clone in &mut part(trial).clones {
                clone.engine.fallbacks = vec!["registered buffers: ENOMEM".to_owned()];
            }
        },
        &[(Fallback, Note)],
        &["registered buffers: ENOMEM"],
    );
}

#[test]
fn one_figure_does_not_describe_several_levels() {
    let series = |rates: &[u64]| {
        let rates = rates.to_vec();
        found(move |_, trial| trial.frames = frames(&rates))
    };
    assert!(series(&[100, 110, 105, 100, 104, 103]).is_empty());
    let swinging = series(&[100, 300, 100, 300, 100, 300]);
    assert_eq!((swinging[0].kind, swinging[0].weight), (Unsteady, Note));
    assert!(swinging[0].text.contains("100 %"), "{swinging:?}");
    let mut halved = vec![1000; 20];
    halved.extend([500; 20]);
    let changed = series(&halved);
    assert!(
        changed[0]
            .text
            .contains("2 regimes, between 500 and 1.00k ops/s"),
        "{changed:?}"
    );
    let staged = found(|_, trial| {
        trial.frames = frames(&halved);
        // Stages are expected to differ.
        part(trial).clones[1].start_ns = 20_000_000_000;
    });
    assert!(staged.is_empty(), "{staged:?}");
    let stuck = found(|_, trial| {
        trial.frames = frames(&halved);
        // The seconds that an op was waited for say nothing about the rate.
        part(trial).clones[0].in_flight = vec![iodyno_model::OpInFlight {
            direction: Read,
            file: "f".to_owned(),
            offset: Some(0),
            since_ns: 20_000_000_000,
        }];
    });
    assert!(stuck.is_empty(), "{stuck:?}");
    let short_end = found(|_, trial| {
        trial.frames = frames(&[100; 6]);
        // The last frame is shorter because of the end of the trial.
        let mut last = testing::frame(6, &[(0, Read, 1, 1000)]);
        last.end_ns = last.start_ns + Nanos::from_millis(100).0;
        trial.frames.push(last);
    });
    assert!(short_end.is_empty(), "{short_end:?}");
}

fn frames(reads: &[u64]) -> Vec<iodyno_model::Frame> {
    let seconds = reads.iter().zip(0..);
    seconds
        .map(|(reads, second)| testing::frame(second, &[(0, Read, *reads, 1000)]))
        .collect()
}

/// 20 s of reads at this constant rate, from a device that was busy for this share of the time.
fn even(trial: &mut Trial, bytes_per_s: u64, busy_percent: u64) {
    trial.frames = frames(&[bytes_per_s / 4096; 20]);
    let device = &mut part(trial).host.devices[0];
    device.bytes = [bytes_per_s * 20, 0, 0];
    device.ios[0] = bytes_per_s * 20 / 4096;
    device.busy_ms = 200 * busy_percent;
    let bytes = bytes_per_s * 10;
    for clone in &mut part(trial).clones {
        clone.directions[0].bytes = bytes;
    }
}

#[test]
fn a_constant_rate_at_a_usual_limit_is_a_limit() {
    let capped = &[(DeviceCapped, Warning)];
    check(
        "250 MB/s",
        |_, t| even(t, 250_000_000, 99),
        capped,
        &["vda", "250 MB/s"],
    );
    check(
        "a little below",
        |_, t| even(t, 249_700_000, 99),
        capped,
        &["250 MB/s"],
    );
    check(
        "125 MiB/s",
        |_, t| even(t, 125 << 20, 99),
        capped,
        &["125 MiB/s"],
    );
    check(
        "16 000 IOPS",
        |_, t| even(t, 16_000 * 4096, 99),
        capped,
        &["16000 IOPS"],
    );
    check("further below", |_, t| even(t, 249_500_000, 99), &[], &[]);
    check(
        "more than any usual limit",
        |_, t| even(t, 250_400_000, 99),
        &[],
        &[],
    );
    check("no round number", |_, t| even(t, 233_000_000, 99), &[], &[]);
    check(
        "a device with time left",
        |_, t| even(t, 250_000_000, 80),
        &[],
        &[],
    );
    check(
        "a rate limited by the job itself",
        |w, t| {
            w.jobs[0].pacing.rates.read.bytes_per_s = 125_000_000;
            even(t, 250_000_000, 99);
        },
        &[],
        &[],
    );
    check(
        "a rate that varies like that of storage",
        |_, t| {
            even(t, 250_000_000, 99);
            // 8 of 20 seconds are within 1 % of the median.
            let rates: Vec<u64> = (0..20)
                .map(|second| 60_000 + second * 7919 % 3000)
                .collect();
            t.frames = frames(&rates);
        },
        &[],
        &[],
    );
    check(
        "a few seconds",
        |_, t| {
            even(t, 250_000_000, 99);
            t.frames.truncate(9);
        },
        &[],
        &[],
    );
}
