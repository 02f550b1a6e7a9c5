//! Files of real kernels, and this host.

use std::time::{Duration, Instant};

use iodyno_host::Roots;
use iodyno_host::counters::{CpuTimes, NS_A_TICK, times_by_cpu};
use iodyno_model::SeriesKind::{self, Cpu, Disk, Load, Memory, Reclaim};
use iodyno_telemetry::{Collector, Devices, Pools, Scope};

use crate::host::{Host, Received, SECOND, VMSTAT};

#[test]
fn a_recorded_host_is_read_completely() {
    let host = Host::whole();
    let (mut collector, mut heard) = (host.begin(), Received::default());
    heard.sample(&mut collector, 1);
    assert_eq!(heard.rows(Cpu), ["CPU0", "CPU1"]);
    // zram0 has done no I/O.
    let loops = (0..=8).map(|number| format!("loop{number}"));
    let disks: Vec<String> = loops.chain(["vda".to_owned()]).collect();
    let mut rows: Vec<String> = heard
        .rows(Disk)
        .iter()
        .map(|row| (*row).to_owned())
        .collect();
    rows.sort();
    assert_eq!(rows, disks);
    assert_eq!(heard.value(Load, "", "load5"), Some(61));
    assert!(
        heard
            .0
            .of(Disk)
            .all(|(_, sample)| sample.values.iter().all(Option::is_some))
    );
    for kind in [SeriesKind::Pressure, Memory, Reclaim] {
        let (shape, sample) = heard.0.of(kind).next().unwrap();
        let unknown = sample.values.iter().position(Option::is_none);
        assert_eq!(
            unknown.map(|place| &shape.columns[place % shape.columns.len()]),
            None
        );
    }
    let page = rustix::param::page_size() as u64;
    assert_eq!(
        heard.value(Memory, "", "dirty_background"),
        Some(vmstat("nr_dirty_background_threshold") * page)
    );
    assert_eq!(heard.value(Memory, "", "swap_used"), Some(0));
}

fn vmstat(name: &str) -> u64 {
    let line = VMSTAT
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn reclaim_is_reported_in_bytes_for_all_names_of_the_kernel() {
    let page = rustix::param::page_size() as u64;
    let old = include_str!("../data/vmstat-old.txt");
    let none: String = old
        .lines()
        .map(|line| format!("{} 0\n", line.split(' ').next().unwrap()))
        .collect();
    let new = "pgscan_kswapd 642\npgscan_direct 130\npgscan_khugepaged 9\npgscan_direct_throttle 77\n\
               pgsteal_kswapd 321\npgsteal_direct 65\nallocstall_dma32 3\nallocstall_normal 4\n\
               allocstall_movable 6\nworkingset_refault_anon 44\nworkingset_refault_file 501\n\
               pgmajfault 99\npswpin 3\npswpout 4\n";
    let zero: String = new
        .lines()
        .map(|line| format!("{} 0\n", line.split(' ').next().unwrap()))
        .collect();
    for (before, after) in [(none.as_str(), old), (zero.as_str(), new)] {
        let host = Host::whole();
        host.proc("vmstat", before);
        let (mut collector, mut heard) = (host.begin(), Received::default());
        host.proc("vmstat", after);
        heard.sample(&mut collector, 1);
        for (column, expected) in [
            ("scanned_kswapd", 642 * page),
            ("scanned_direct", 130 * page),
            ("reclaimed_kswapd", 321 * page),
            ("reclaimed_direct", 65 * page),
            ("stalls", 13),
            ("refaults", 501 * page),
            ("major_faults", 99),
            ("swapped_in", 3 * page),
            ("swapped_out", 4 * page),
        ] {
            assert_eq!(heard.value(Reclaim, "", column), Some(expected), "{column}");
        }
    }
}

/// User and system time of this host's CPUs by name, ns.
fn cpus() -> Vec<(String, [u64; 2])> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let cpu = |(number, times): (&str, Option<CpuTimes>)| {
        let times = times?;
        let both = [times.user, times.system].map(|ticks| ticks * NS_A_TICK);
        Some((format!("CPU{number}"), both))
    };
    times_by_cpu(&text).filter_map(cpu).collect()
}

/// The increase of a CPU's times; `None`: it appeared or disappeared.
fn grown(from: &[(String, [u64; 2])], to: &[(String, [u64; 2])], name: &str) -> Option<[u64; 2]> {
    let of = |all: &[(String, [u64; 2])]| all.iter().find(|cpu| cpu.0 == name).map(|cpu| cpu.1);
    let (from, to) = (of(from)?, of(to)?);
    Some([to[0] - from[0], to[1] - from[1]])
}

#[test]
fn the_times_of_this_hosts_cpus_are_reported() {
    let used = |cpus: &[(String, [u64; 2])]| -> u64 { cpus.iter().flat_map(|cpu| cpu.1).sum() };
    let scope = Scope {
        block_trace: false,
        every: Duration::from_millis(200),
        devices: Devices::All,
        pools: Pools::Named(Vec::new()),
        processes: Vec::new(),
        servers: Vec::new(),
        stats: Vec::new(),
        own: Vec::new(),
    };
    let mut collector = Collector::open(&Roots::host(), &scope);
    let outer = cpus();
    if used(&outer) == 0 {
        iodyno_testing::skip("this host does not report the times of its CPUs");
        return;
    }
    collector.begin(0);
    let inner = cpus();
    // Uses CPU time until the kernel has counted some.
    let begun = Instant::now();
    let inner = loop {
        let now = cpus();
        if used(&now) >= used(&inner) + 10 * NS_A_TICK {
            break (inner, now);
        }
        assert!(begun.elapsed().as_secs() < 120, "nothing is counted");
    };
    let telemetry = collector.sample(SECOND);
    let outer = (outer, cpus());
    let (shape, sample) = telemetry.of(Cpu).next().unwrap();
    assert_eq!(sample.span_ns, SECOND as u64);
    let columns = ["user", "system"].map(|name| shape.column(name).unwrap());
    let mut compared = 0;
    for (row, values) in shape
        .subjects
        .iter()
        .zip(sample.values.chunks(shape.columns.len()))
    {
        let least = grown(&inner.0, &inner.1, &row.name);
        let most = grown(&outer.0, &outer.1, &row.name);
        let (Some(least), Some(most)) = (least, most) else {
            continue;
        };
        for (place, column) in columns.into_iter().enumerate() {
            let told = values[column].unwrap();
            // The collector's readings lie between those of this test.
            assert!(
                (least[place]..=most[place]).contains(&told),
                "{row:?}: {told} of {least:?} to {most:?}"
            );
        }
        compared += 1;
    }
    assert!(compared > 0, "{shape:?}");
}
