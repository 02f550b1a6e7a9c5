//! Files of real kernels, and this host.

use std::time::Duration;

use iodyno_model::SeriesKind::{self, Cpu, Disk, Load, Memory, Reclaim};
use iodyno_target::Roots;
use iodyno_telemetry::{Devices, Pools, Scope, Station};

use crate::host::{Heard, Host, VMSTAT};

#[test]
fn a_recorded_host_is_read_whole() {
    let host = Host::whole();
    let (mut station, mut heard) = (host.begin(), Heard::default());
    heard.sample(&mut station, 1);
    assert_eq!(heard.rows(Cpu), ["CPU0", "CPU1"]);
    // zram0 has done nothing.
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
fn reclaim_is_told_in_bytes_whatever_the_kernel_calls_it() {
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
        let (mut station, mut heard) = (host.begin(), Heard::default());
        host.proc("vmstat", after);
        heard.sample(&mut station, 1);
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

#[test]
fn this_hosts_cpus_account_for_the_time_that_passed() {
    let scope = Scope {
        every: Duration::from_millis(200),
        devices: Devices::All,
        pools: Pools::Named(Vec::new()),
        processes: Vec::new(),
        own: Vec::new(),
    };
    let mut station = Station::open(&Roots::host(), &scope);
    let start = std::time::Instant::now();
    station.begin(0);
    std::thread::sleep(Duration::from_millis(500));
    let elapsed = start.elapsed().as_nanos() as u64;
    let telemetry = station.sample(elapsed as i64);
    let Some((shape, sample)) = telemetry.of(Cpu).next() else {
        assert_ne!(telemetry.gaps, []);
        eprintln!("SKIPPED: this host does not tell the times of its CPUs");
        return;
    };
    assert_eq!(sample.span_ns, elapsed);
    let cpus = shape.subjects.len() as u64;
    let all: u64 = sample.values.iter().flatten().sum();
    // The kernel counts in hundredths, and steals from idle CPUs' accounts now and then.
    assert!(
        all <= cpus * elapsed * 3 / 2,
        "{all} of {cpus} CPUs in {elapsed}"
    );
    assert!(all >= elapsed / 4, "{all} of {cpus} CPUs in {elapsed}");
}
