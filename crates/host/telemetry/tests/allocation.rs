//! If no row or column appears or disappears, a sample allocates only the values that it returns, as counted by the
//! allocator.

use std::time::Duration;

use iodyno_host::Roots;
use iodyno_sys::counting::{CountingAllocator, allocations};
use iodyno_telemetry::{Collector, Devices, Pools, Scope};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SECOND: i64 = 1_000_000_000;

fn write(root: &std::path::Path, name: &str, text: &str) {
    let path = root.join("proc").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_sample_allocates_its_rows_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "stat", include_str!("data/stat-6.18.txt"));
    write(root, "interrupts", include_str!("data/interrupts-6.18.txt"));
    write(root, "loadavg", "0.52 0.61 1.28 1/78 1809\n");
    write(root, "diskstats", include_str!("data/diskstats-6.18.txt"));
    for name in ["cpu", "io", "memory", "irq"] {
        let text = "some avg10=0.05 avg60=0.46 avg300=2.33 total=15\nfull avg10=0.0 total=7\n";
        write(root, &format!("pressure/{name}"), text);
    }
    write(root, "meminfo", include_str!("data/meminfo-6.18.txt"));
    write(root, "vmstat", include_str!("data/vmstat-6.18.txt"));
    let interface = "  eth0: 541195189 19288 1 2 3 4 5 6 22848483 215866 7 8 9 10 11 12\n";
    write(root, "net/dev", interface);
    for devices in [Devices::All, Devices::Named(vec!["vda".to_owned()])] {
        let scope = Scope {
            block_trace: false,
            every: Duration::from_secs(1),
            devices,
            pools: Pools::Named(Vec::new()),
            processes: Vec::new(),
            servers: Vec::new(),
            stats: Vec::new(),
            own: Vec::new(),
        };
        let attempt = || {
            let mut collector = Collector::open(&Roots::below(root), &scope);
            collector.begin(0);
            for at_s in 1..5 {
                collector.sample(at_s * SECOND);
            }
            let before = allocations();
            let telemetry = collector.sample(5 * SECOND);
            let used = allocations() - before;
            assert_eq!(telemetry.gaps, []);
            assert!(telemetry.samples.len() >= 7);
            // Each sample's values, and the list of samples.
            (used, telemetry.samples.len() as u64 + 1)
        };
        // Other threads of the test harness may allocate meanwhile, and a listing of all processes may be due (0.9 s
        // after the previous one). Both only add; the remaining allocations are the same in each attempt.
        let attempts: Vec<(u64, u64)> = (0..100).map(|_| attempt()).collect();
        assert!(
            attempts.iter().any(|(used, handed_out)| used <= handed_out),
            "allocations, and those returned: {attempts:?}"
        );
    }
}
