//! Files of several kinds of host, and this host.

use std::path::PathBuf;

use super::*;
use crate::fake::FakeHost;

#[test]
fn all_properties_of_a_host_are_read() {
    let host = FakeHost::new();
    for (name, text) in [
        ("proc/sys/kernel/hostname", "bench7\n"),
        ("proc/sys/kernel/osrelease", "6.18.44\n"),
        ("proc/sys/kernel/version", "#1 SMP\n"),
        ("proc/sys/kernel/random/boot_id", "aa-bb\n"),
        ("proc/loadavg", "1.57 1.00 0.90 2/300 4711\n"),
        (
            "proc/meminfo",
            "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:  60 kB\nSwapTotal: 9 kB\nSwapFree: 2 kB\n",
        ),
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Zen 9\nflags\t: fpu\n\nprocessor\t: 1\nmodel name\t: Zen 9\n",
        ),
        (
            "etc/os-release",
            "NAME=x\nPRETTY_NAME=\"Debian 12 (bookworm)\"\n",
        ),
        ("sys/devices/system/cpu/online", "0-3,8\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "powersave\n",
        ),
        (
            "sys/devices/system/cpu/cpu8/cpufreq/scaling_governor",
            "performance\n",
        ),
        (
            "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
            "none\n",
        ),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet\n",
        ),
    ] {
        host.write(name, text);
    }
    let read = read(&host.roots, "9.9", &[]);
    let expected = Environment {
        iodyno: "9.9".to_owned(),
        host: "bench7".to_owned(),
        kernel: "6.18.44".to_owned(),
        kernel_build: "#1 SMP".to_owned(),
        system: "Debian 12 (bookworm)".to_owned(),
        boot_id: "aa-bb".to_owned(),
        cpu: Cpu {
            model: "Zen 9".to_owned(),
            logical: 5,
            nodes: 2,
            governor: Governor {
                name: "performance,powersave".to_owned(),
                boost: Some(false),
            },
        },
        memory: MemoryInfo {
            total: 102_400,
            available: 61_440,
            swap_used: 7168,
            limit: None,
        },
        clock_source: "hpet".to_owned(),
        load_1min_x100: 157,
        made: None,
        // Depends on the CPU of the test.
        virtualisation: read.virtualisation.clone(),
        clock_read_ns: read.clock_read_ns,
        targets: Vec::new(),
    };
    assert_eq!(read, expected);
}

#[test]
fn unknown_properties_are_empty() {
    let host = FakeHost::new();
    let read = read(&host.roots, "1", &[]);
    assert_eq!(
        (read.kernel.as_str(), read.cpu.logical, read.cpu.nodes),
        ("", 0, 1)
    );
    assert_eq!(read.memory, MemoryInfo::default());
}

#[test]
fn this_host_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    std::fs::write(&file, "x").unwrap();
    let paths = [
        file,
        folder.path().join("b"),
        folder.path().to_owned(),
        PathBuf::from("/dev/null"),
    ];
    let read = read(&Roots::host(), "1", &paths);
    assert!(!read.kernel.is_empty() && read.boot_id.len() == 36);
    assert!(read.cpu.logical > 0 && read.memory.total > read.memory.available);
    // Files of one folder are one target.
    let targets: Vec<&PathBuf> = read.targets.iter().map(|target| &target.path).collect();
    assert_eq!(
        targets,
        [&PathBuf::from("/dev/null"), &folder.path().to_owned()]
    );
}

#[test]
fn clock_cost_is_the_median_difference_of_readings() {
    // Two in five are delayed, as on a busy host.
    let mut readings = 0;
    let mut now = 0;
    let clock = || {
        readings += 1;
        now += if readings % 5 < 2 { 70_000 } else { 23 };
        now
    };
    assert_eq!(clock_read_ns(clock), 23);
    assert_eq!(readings, 2001);
}

#[test]
fn cpus_are_named_on_every_architecture() {
    for (text, expected) in [
        ("model name : Xeon\nmodel name : Xeon", "Xeon"),
        (
            "CPU implementer : 0x41\nCPU part\t: 0xd0c",
            "implementer 0x41 part 0xd0c",
        ),
        ("processor : 0\ncpu : POWER9", "POWER9"),
        ("Hardware : BCM2835", "BCM2835"),
        ("nonsense", ""),
    ] {
        assert_eq!(cpu_model(text), expected);
    }
}

#[test]
fn loads_are_read_in_hundredths() {
    for (text, expected) in [
        ("0.00 1", 0),
        ("12.34 1 2", 1234),
        ("-1", 0),
        ("nan", 0),
        ("", 0),
    ] {
        assert_eq!(load(text), expected, "{text}");
    }
}

#[test]
fn virtual_machines_and_containers_are_named() {
    type Files<'a> = &'a [(&'a str, &'a str)];
    let cases: &[(Files<'_>, Option<&str>, &str)] = &[
        (&[], None, ""),
        (&[], Some("kvm"), "kvm"),
        (&[("sys/class/dmi/id/sys_vendor", "QEMU\n")], None, "qemu"),
        (
            &[("sys/class/dmi/id/product_name", "VMware7,1\n")],
            None,
            "vmware",
        ),
        (&[("sys/hypervisor/type", "xen\n")], None, "xen"),
        (
            &[("proc/cpuinfo", "flags : fpu hypervisor sse\n")],
            None,
            "unknown hypervisor",
        ),
        (&[("proc/cpuinfo", "flags : fpu hypervisors\n")], None, ""),
        (
            &[("proc/device-tree/hypervisor/compatible", "linux,kvm\0")],
            None,
            "kvm",
        ),
        (&[(".dockerenv", "")], Some("kvm"), "docker, kvm"),
        (&[("run/.containerenv", "")], None, "podman"),
        (
            &[("run/systemd/container", "systemd-nspawn\n")],
            None,
            "systemd-nspawn",
        ),
        (&[("proc/1/environ", "A=b\0container=lxc\0")], None, "lxc"),
    ];
    for (files, hypervisor, expected) in cases {
        let host = FakeHost::new();
        for (name, text) in *files {
            host.write(name, text);
        }
        assert_eq!(
            virtualisation(&host.roots, *hypervisor),
            *expected,
            "{files:?}"
        );
    }
}
