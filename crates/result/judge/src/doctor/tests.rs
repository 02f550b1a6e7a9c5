use iodyno_model::{
    Check, CheckState, DeviceLayer, Environment, Governor, MountInfo, SeriesKind, StackLayer,
    TargetInfo, Telemetry,
};

use super::examine;
use crate::testing::telemetry::{Named, Recording, SECOND, cpu_second, recording};
use CheckState::{Fine, Note, Unfit, Unknown};

const GIB: u64 = 1 << 30;

/// A quiet host with two CPUs, an SSD and an ext4 file system.
fn environment() -> Environment {
    let device = DeviceLayer {
        name: "nvme0n1".to_owned(),
        scheduler: "none".to_owned(),
        queue: queue(&[
            ("rotational", "0"),
            ("write_cache", "write through"),
            ("discard_max_bytes", "2199023255040"),
            ("iostats", "1"),
        ]),
        ..DeviceLayer::default()
    };
    let mount = MountInfo {
        point: "/mnt/e".into(),
        file_system: "ext4".to_owned(),
        options: "relatime,rw".to_owned(),
        free: 200 * GIB,
        total: 250 * GIB,
        ..MountInfo::default()
    };
    let mut environment = Environment {
        clock_source: "tsc".to_owned(),
        clock_read_ns: 22,
        load_1min_x100: 12,
        targets: vec![TargetInfo {
            path: "/mnt/e".into(),
            stack: vec![StackLayer::Mount(mount), StackLayer::Disk(device)],
        }],
        ..Environment::default()
    };
    environment.cpu.logical = 2;
    environment.cpu.governor = Governor {
        name: "performance".to_owned(),
        boost: Some(false),
    };
    environment.memory.total = 24 * GIB;
    environment.memory.available = 20 * GIB;
    environment
}

fn queue(settings: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    settings.iter().map(pair).collect()
}

const IDLE: [u64; 5] = [1, 1, 98, 0, 0];

fn cpus(cpu: [u64; 5]) -> Recording {
    recording().seconds(SeriesKind::Cpu, 3, move |_| {
        vec![("CPU0", cpu_second(cpu)), ("CPU1", cpu_second(IDLE))]
    })
}

fn quiet() -> Recording {
    cpus(IDLE)
        .seconds(SeriesKind::Interrupts, 3, |_| {
            vec![
                ("36 virtio1-req.0", vec![("CPU0", 700), ("CPU1", 100)]),
                ("LOC", vec![("CPU0", 300), ("CPU1", 300)]),
            ]
        })
        .seconds(SeriesKind::Pressure, 3, |_| {
            ["io", "cpu", "memory"]
                .map(|name| (name, vec![("some", SECOND / 1000)]))
                .into()
        })
        .seconds(SeriesKind::Reclaim, 3, |_| vec![("", Vec::new())])
}

#[track_caller]
fn one<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    let found = checks.iter().find(|check| check.name == name);
    found.unwrap_or_else(|| panic!("no {name} among {checks:#?}"))
}

/// The check of that name on a host that is otherwise fit.
#[track_caller]
fn check(name: &str, change: impl FnOnce(&mut Environment), state: CheckState, words: &str) {
    let mut environment = environment();
    change(&mut environment);
    assert_check(&examine(&environment, &quiet().done()), name, state, words);
}

/// The same for the telemetry of the host.
#[track_caller]
fn seen(name: &str, telemetry: Recording, state: CheckState, words: &str) {
    assert_check(
        &examine(&environment(), &telemetry.done()),
        name,
        state,
        words,
    );
}

#[track_caller]
fn assert_check(checks: &[Check], name: &str, state: CheckState, words: &str) {
    let check = one(checks, name);
    assert_eq!(check.state, state, "{check:#?}");
    let all = format!("{} {}", check.found, check.remedy.as_deref().unwrap_or(""));
    assert!(all.contains(words), "no `{words}` in {check:#?}");
    for check in checks {
        assert!(
            !check.found.is_empty() && !check.rule.is_empty(),
            "{check:?}"
        );
        let wrong = matches!(check.state, Note | Unfit);
        assert_eq!(check.remedy.is_some(), wrong, "{check:?}");
    }
}

#[test]
fn a_quiet_host_is_fit_in_every_check() {
    let checks = examine(&environment(), &quiet().done());
    assert!(checks.len() >= 18, "{checks:#?}");
    for check in &checks {
        assert_eq!(check.state, Fine, "{check:?}");
    }
}

#[test]
fn unknown_properties_are_neither_fine_nor_unfit() {
    let checks = examine(&Environment::default(), &Telemetry::default());
    for check in &checks {
        let known = ["virtualisation", "load average", "swap"].contains(&check.name.as_str());
        assert_eq!(check.state, if known { Fine } else { Unknown }, "{check:?}");
        assert!(check.remedy.is_none());
    }
    assert!(checks.len() >= 10);
}

#[test]
fn cpus_must_have_a_constant_frequency() {
    let governor =
        |name: &'static str| move |e: &mut Environment| e.cpu.governor.name = name.to_owned();
    check(
        "governor",
        governor("powersave"),
        Unfit,
        "tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    );
    check(
        "governor",
        governor("performance,schedutil"),
        Unfit,
        "performance,schedutil",
    );
    check("governor", governor(""), Unknown, "report");
    check(
        "governor",
        |e| {
            governor("")(e);
            e.virtualisation = "kvm".to_owned();
        },
        Unknown,
        "hypervisor",
    );
    check(
        "turbo",
        |e| e.cpu.governor.boost = Some(true),
        Note,
        "no_turbo",
    );
    check("turbo", |e| e.cpu.governor.boost = None, Unknown, "");
    check(
        "clock source",
        |e| e.clock_source = "hpet".to_owned(),
        Unfit,
        "current_clocksource",
    );
    check(
        "clock source",
        |e| e.clock_source = "kvm-clock".to_owned(),
        Fine,
        "kvm-clock, 22 ns",
    );
    check(
        "virtualisation",
        |e| e.virtualisation = "kvm".to_owned(),
        Note,
        "kvm",
    );
}

#[test]
fn other_activity_makes_a_host_unfit() {
    let stolen = |percent: u64| {
        recording().seconds(SeriesKind::Cpu, 3, move |_| {
            let mut cpu = cpu_second([1, 1, 98 - percent, 0, 0]);
            cpu.push(("steal", percent * SECOND / 100));
            vec![("CPU0", cpu)]
        })
    };
    seen("steal", stolen(1), Unfit, "1.0 %");
    seen("steal", stolen(0), Fine, "0.0 %");
    seen(
        "other load",
        cpus([10, 8, 82, 0, 0]),
        Unfit,
        "10.0 % of 2 CPUs",
    );
    seen("other load", cpus([8, 8, 84, 0, 0]), Note, "9.0 %");
    seen("other load", cpus([2, 1, 97, 0, 0]), Fine, "2.5 %");
    // Waiting for I/O is not CPU time.
    seen("other load", cpus([2, 1, 0, 97, 0]), Fine, "2.5 %");
    check(
        "load average",
        |e| e.load_1min_x100 = 100,
        Note,
        "1.00 on 2 CPUs",
    );
    check("load average", |e| e.load_1min_x100 = 99, Fine, "0.99");
    let mut busy = environment();
    busy.load_1min_x100 = 300;
    assert_check(
        &examine(&busy, &Telemetry::default()),
        "load average",
        Unfit,
        "3.00",
    );
    let others = |bytes: u64| {
        quiet().seconds(SeriesKind::Others, 3, move |_| {
            vec![
                ("rsync[99]", vec![("read_bytes", bytes)]),
                ("dd[1]", vec![("written_bytes", 1)]),
            ]
        })
    };
    seen(
        "other I/O",
        others(5 << 20),
        Unfit,
        "5.00 MiB/s, the most by rsync[99]",
    );
    seen("other I/O", others(100 << 10), Note, "rsync");
    seen("other I/O", others(1 << 10), Fine, "");
    seen("other I/O", quiet(), Fine, "none");
    let hidden = quiet().gap(
        0,
        SeriesKind::Others,
        "may not look into other users' processes",
    );
    seen("other I/O", hidden, Unknown, "may not look into");
}

#[test]
fn pressure_memory_and_swap_are_checked() {
    let pressed = |resource: &'static str, some: u64| {
        recording().seconds(SeriesKind::Pressure, 3, move |_| {
            vec![(resource, vec![("some", some)])]
        })
    };
    seen(
        "pressure on io",
        pressed("io", SECOND / 20),
        Unfit,
        "5.0 % of the time",
    );
    seen("pressure on io", pressed("io", SECOND / 100), Note, "1.0 %");
    seen("pressure on io", pressed("cpu", SECOND), Unknown, "PSI");
    let more_than_there_was = pressed("cpu", SECOND + SECOND / 100);
    seen("pressure on cpu", more_than_there_was, Note, "100.0 %");
    seen(
        "pressure on memory",
        pressed("memory", SECOND / 20),
        Unfit,
        "",
    );
    let available = |percent: u64| {
        move |e: &mut Environment| e.memory.available = e.memory.total / 100 * percent
    };
    check("memory available", available(9), Unfit, "(9 %)");
    check("memory available", available(24), Note, "zfs_arc_max");
    check("memory available", available(26), Fine, "of 24 GiB");
    check(
        "swap",
        |e| e.memory.swap_used = 1 << 20,
        Note,
        "1 MiB in use",
    );
    // Its content would not fit into memory.
    let swapped = |e: &mut Environment| e.memory.swap_used = e.memory.available / 2 + 1;
    check("swap", swapped, Note, "end what else uses memory");
    check("swap", |e| e.memory.swap_used = 1, Note, "swapoff -a");
    let swapping = quiet().seconds(SeriesKind::Reclaim, 3, |_| {
        vec![("", vec![("swapped_in", 4096)])]
    });
    seen("swap", swapping, Unfit, "12 KiB swapped just now");
}

#[test]
fn interrupts_are_judged_if_there_are_enough() {
    let rows = |name: &'static str, one: u64, other: u64| {
        move |_| -> Vec<(&'static str, Named)> {
            vec![(name, vec![("CPU0", one), ("CPU1", other)])]
        }
    };
    let taken = |name, one, other| {
        cpus([5, 30, 20, 0, 45]).seconds(SeriesKind::Interrupts, 3, rows(name, one, other))
    };
    seen(
        "interrupt balance",
        taken("36 virtio1-req.0", 9000, 0),
        Unfit,
        "100 % of interrupts on CPU0",
    );
    seen(
        "interrupt balance",
        taken("LOC", 3000, 1000),
        Fine,
        "4000 interrupts/s on 2 CPUs, balance 0.80",
    );
    seen(
        "interrupt balance",
        taken("LOC", 300, 100),
        Unknown,
        "400 interrupts/s on 2 CPUs at rest",
    );
    seen("interrupt balance", cpus(IDLE), Unknown, "not sampled");
    let quieter = cpus(IDLE).seconds(SeriesKind::Interrupts, 3, rows("36 virtio1-req.0", 2000, 0));
    seen("interrupt balance", quieter, Note, "smp_affinity_list");
    let one = recording().seconds(SeriesKind::Interrupts, 3, |_| {
        vec![("LOC", vec![("CPU0", 9000)])]
    });
    seen("interrupt balance", one, Fine, "one CPU");
}

fn device(environment: &mut Environment) -> &mut DeviceLayer {
    match environment.targets[0].stack.last_mut() {
        Some(StackLayer::Disk(device)) => device,
        other => panic!("{other:?}"),
    }
}

fn set(name: &'static str, value: &'static str) -> impl Fn(&mut Environment) {
    move |e| {
        device(e).queue.insert(name.to_owned(), value.to_owned());
    }
}

#[test]
fn devices_should_have_the_scheduler_for_their_kind() {
    let cases = [
        ("0", "none", Fine),
        ("0", "mq-deadline", Fine),
        ("0", "kyber", Fine),
        ("0", "bfq", Note),
        ("1", "mq-deadline", Fine),
        ("1", "bfq", Fine),
        ("1", "none", Note),
        ("1", "", Unknown),
    ];
    for (rotational, scheduler, state) in cases {
        let words = match (state, rotational) {
            (Note, "1") => "echo mq-deadline > /sys/block/nvme0n1/queue/scheduler",
            (Note, _) => "echo none > /sys/block/nvme0n1/queue/scheduler",
            _ => "",
        };
        check(
            "scheduler of nvme0n1",
            |e| {
                set("rotational", rotational)(e);
                device(e).scheduler = scheduler.to_owned();
            },
            state,
            words,
        );
    }
}

#[test]
fn schedulers_of_virtual_disks_and_loop_devices_get_no_advice() {
    let named = |name: &str| {
        let mut environment = environment();
        set("rotational", "1")(&mut environment);
        device(&mut environment).name = name.to_owned();
        environment
    };
    for (name, state) in [("sda", Note), ("vda", Fine), ("xvdb", Fine)] {
        let checks = examine(&named(name), &quiet().done());
        assert_eq!(one(&checks, &format!("scheduler of {name}")).state, state);
    }
    let mut above = named("sda");
    let device = DeviceLayer {
        name: "loop3".to_owned(),
        ..device(&mut above).clone()
    };
    let layer = StackLayer::Loop {
        device,
        file: "/img".into(),
        direct: true,
    };
    above.targets[0].stack.insert(1, layer);
    let checks = examine(&above, &quiet().done());
    assert_eq!(one(&checks, "discard of loop3").state, Fine);
    assert!(
        checks
            .iter()
            .all(|check| check.name != "scheduler of loop3")
    );
}

#[test]
fn caches_discard_and_statistics_of_devices_are_checked() {
    check(
        "write cache of nvme0n1",
        set("write_cache", "write back"),
        Note,
        "volatile",
    );
    check(
        "write cache of nvme0n1",
        |e| device(e).queue.clear(),
        Unknown,
        "",
    );
    check(
        "discard of nvme0n1",
        set("discard_max_bytes", "0"),
        Note,
        "fill the device",
    );
    check(
        "discard of nvme0n1",
        |e| {
            set("discard_max_bytes", "0")(e);
            set("rotational", "1")(e);
        },
        Fine,
        "rotational",
    );
    check(
        "statistics of nvme0n1",
        set("iostats", "0"),
        Unfit,
        "echo 1 > /sys/block/nvme0n1/queue/iostats",
    );
    let loop_device = |direct: bool| {
        move |e: &mut Environment| {
            let mut below = device(e).clone();
            below.name = "loop3".to_owned();
            e.targets[0].stack.insert(
                1,
                StackLayer::Loop {
                    device: below,
                    file: "/img".into(),
                    direct,
                },
            );
        }
    };
    check(
        "direct I/O of loop3",
        loop_device(false),
        Unfit,
        "losetup --direct-io=on /dev/loop3",
    );
    check("direct I/O of loop3", loop_device(true), Fine, "on");
    let only = |what: &'static str| {
        move |e: &mut Environment| e.targets[0].stack = vec![StackLayer::Other(what.to_owned())]
    };
    check("device below tmpfs", only("tmpfs"), Unfit, "memory");
    check("device below fuse.sshfs", only("fuse.sshfs"), Unknown, "");
}

fn mount(environment: &mut Environment) -> &mut MountInfo {
    match environment.targets[0].stack.first_mut() {
        Some(StackLayer::Mount(mount)) => mount,
        other => panic!("{other:?}"),
    }
}

#[test]
fn mount_options_must_not_change_the_meaning_of_a_write() {
    let cases = [
        ("relatime,rw", Fine, "ext4 relatime,rw"),
        ("noatime,rw", Fine, ""),
        ("rw,strictatime", Note, "remount,relatime /mnt/e"),
        // A file system with errors must not be written to.
        (
            "relatime,ro",
            Unfit,
            "has errors of it, save the data and run fsck on it unmounted",
        ),
        ("ro,sync", Unfit, "find out why it is read-only"),
        ("relatime,rw,sync", Unfit, "every write is synced"),
        ("relatime,rw,sync", Unfit, "remount,async /mnt/e"),
        ("dirsync,rw", Unfit, "folder"),
        ("dirsync,rw", Unfit, "mount it without dirsync"),
        (
            "rw,sync,data=journal",
            Unfit,
            "without sync and data=journal",
        ),
        ("data=journal,rw", Unfit, "written twice"),
        ("data=ordered,rw", Fine, ""),
        ("nobarrier,rw", Unfit, "do not reach the medium"),
        ("barrier=0,rw", Unfit, "remount,barrier=1 /mnt/e"),
        ("rw,sync,barrier=0", Unfit, "remount,async,barrier=1 /mnt/e"),
        // Not `ro`, and not `sync`.
        ("errors=remount-ro,rw,async", Fine, ""),
    ];
    for (options, state, words) in cases {
        check(
            "options of /mnt/e",
            |e| mount(e).options = options.to_owned(),
            state,
            words,
        );
    }
    for options in ["discard,rw", "discard=async,rw"] {
        check(
            "discard on /mnt/e",
            |e| mount(e).options = options.to_owned(),
            Note,
            "fstrim /mnt/e",
        );
    }
}

#[test]
fn a_path_in_a_command_is_quoted_as_one_word() {
    for (path, word) in [
        ("/mnt/e", " /mnt/e"),
        ("/mnt/my disk", " '/mnt/my disk'"),
        ("/mnt/a;b", " '/mnt/a;b'"),
        ("/mnt/it's", r" '/mnt/it'\''s'"),
    ] {
        check(
            &format!("options of {path}"),
            |e| {
                mount(e).point = path.into();
                mount(e).options = "rw,strictatime".to_owned();
            },
            Note,
            &format!("remount,relatime{word}"),
        );
    }
}

#[test]
fn a_full_file_system_is_unfit() {
    let room = |free: u64, total: u64| {
        move |e: &mut Environment| (mount(e).free, mount(e).total) = (free * GIB, total * GIB)
    };
    check(
        "free space on /mnt/e",
        room(9, 100),
        Unfit,
        "9 GiB of 100 GiB (9 %)",
    );
    check("free space on /mnt/e", room(10, 100), Note, "du -xh");
    check("free space on /mnt/e", room(20, 100), Fine, "");
    check("free space on /mnt/e", room(3, 10), Note, "(30 %)");
    check("free space on /mnt/e", room(0, 0), Unknown, "");
}

#[test]
fn devices_that_targets_share_are_checked_once() {
    let mut environment = environment();
    let again = environment.targets[0].clone();
    environment.targets.push(again);
    let checks = examine(&environment, &quiet().done());
    let names: std::collections::BTreeSet<&str> =
        checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!(names.len(), checks.len());
}
