//! Other processes that do I/O, are idle and end, on a simulated host with simulated clocks.

use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex};

use super::*;
use crate::collector::Collector;
use crate::samplers::processes::fake::Proc;
use crate::scope::{Devices, Pools};

const MIB: u64 = 1 << 20;

fn scope(processes: &[&str], own: &[u32]) -> Scope {
    Scope {
        every: Duration::from_secs(1),
        devices: Devices::All,
        block_trace: false,
        pools: Pools::Named(Vec::new()),
        processes: processes
            .iter()
            .map(|name| (*name).to_owned().into())
            .collect(),
        servers: Vec::new(),
        stats: Vec::new(),
        own: own.to_vec(),
    }
}

/// Simulated clocks: the test advances the time, and each scan uses the same CPU time.
#[derive(Clone)]
struct FakeMeter(Arc<Mutex<Clocks>>);

struct Clocks {
    now: Instant,
    cpu: Duration,
    look_costs: Duration,
}

impl FakeMeter {
    fn new(look_costs: Duration) -> FakeMeter {
        FakeMeter(Arc::new(Mutex::new(Clocks {
            now: Instant::now(),
            cpu: Duration::ZERO,
            look_costs,
        })))
    }

    fn pass(&self, span: Duration) {
        self.0.lock().unwrap().now += span;
    }
}

impl Meter for FakeMeter {
    fn now(&mut self) -> Instant {
        self.0.lock().unwrap().now
    }

    fn cpu(&mut self) -> Duration {
        let mut clocks = self.0.lock().unwrap();
        let look_costs = clocks.look_costs;
        clocks.cpu += look_costs;
        clocks.cpu
    }
}

/// Opens a sampler for [`scan`].
fn open(roots: &Roots, scope: &Scope) -> Others<FakeMeter> {
    Others::open(FakeMeter::new(Duration::ZERO), roots, scope)
}

fn put(proc: &Proc, pid: u32, name: &str, mib: u64) {
    proc.put(pid, name, name, 1);
    proc.io(pid, [0; 2], [mib * MIB, 0]);
}

/// Scans when due. Returns rows with their start value (if new) and their current value, MiB read.
fn scan(others: &mut Others<FakeMeter>, readings: &mut Readings) -> Vec<(String, u64, u64)> {
    others.meter.pass(MOST);
    assert_eq!(others.read(readings), Ok(Read::Fresh));
    let row = |row: usize| {
        let began = others
            .began_at(&readings.rows[row], &readings.columns[0])
            .unwrap();
        let now = readings.values[row * 2].unwrap();
        (readings.rows[row].name.clone(), began / MIB, now / MIB)
    };
    (0..readings.rows.len()).map(row).collect()
}

fn row(name: &str, before: u64, now: u64) -> (String, u64, u64) {
    (name.to_owned(), before, now)
}

#[test]
fn a_process_that_transfers_much_has_a_row_until_it_ends() {
    let proc = Proc::new();
    put(&proc, 50, "rsync", 500);
    put(&proc, 51, "cat", 7);
    let mut others = open(&proc.roots(), &scope(&[], &[]));
    let mut readings = Readings::default();
    assert!(
        scan(&mut others, &mut readings).is_empty(),
        "I/O before the first scan does not count"
    );
    assert!(scan(&mut others, &mut readings).is_empty());
    put(&proc, 50, "rsync", 503);
    proc.io(51, [0; 2], [7 * MIB, MIB - 1]);
    assert_eq!(
        scan(&mut others, &mut readings),
        [row("rsync[50]", 500, 503)]
    );
    // A new process counts from zero; an idle one remains.
    put(&proc, 60, "dd", 9);
    assert_eq!(
        scan(&mut others, &mut readings),
        [row("rsync[50]", 503, 503), row("dd[60]", 0, 9)]
    );
    proc.end(50);
    assert_eq!(scan(&mut others, &mut readings), [row("dd[60]", 9, 9)]);
    // Another process with its number.
    put(&proc, 60, "dd", 2);
    assert_eq!(scan(&mut others, &mut readings), [row("dd[60]", 0, 2)]);
}

#[test]
fn own_and_named_processes_and_kernel_threads_are_not_others() {
    let proc = Proc::new();
    for pid in [10, 20, 30, 40] {
        put(&proc, pid, "p", 1);
    }
    proc.put_child(10, 41, "zpool", "zpool", 1);
    put(&proc, 20, "virtiofsd", 1);
    let kernel = "30 (loop7) S 2 0 0 0 -1 2129984 0 0 0 0 1 1 0 0 20 0 1 0 0 0 0 0";
    proc.write(30, "stat", kernel);
    let mut others = open(&proc.roots(), &scope(&["virtiofsd"], &[10]));
    let mut readings = Readings::default();
    scan(&mut others, &mut readings);
    for pid in [10, 20, 30, 40, 41] {
        proc.io(pid, [0; 2], [90 * MIB, 0]);
    }
    assert_eq!(scan(&mut others, &mut readings), [row("p[40]", 1, 90)]);
    assert!(others.missed().is_empty());
}

#[test]
fn unreadable_processes_are_counted_and_the_remedy_is_named_if_there_is_one() {
    let one = "I/O of 1 other process cannot be read";
    let seven = "I/O of 7 other processes cannot be read";
    let remedy = ": run as root to see them";
    for (closed, open, as_root, expected) in [
        (0, 0, false, None),
        (1, 90, false, Some(format!("{one}{remedy}"))),
        (7, 0, false, Some(format!("{seven}{remedy}"))),
        // Root can read all that matter.
        (1, 90, true, None),
        (7, 7, true, None),
        (7, 6, true, Some(seven.to_owned())),
    ] {
        assert_eq!(
            unreadable(closed, open, as_root),
            expected,
            "{closed} {open}"
        );
    }
    let mut others = open(&Proc::new().roots(), &scope(&[], &[]));
    others.unreadable = Some(2);
    assert_eq!(others.missed().len(), 1);
    assert!(others.missed().is_empty(), "once");
}

#[test]
fn earlier_io_of_a_child_is_not_attributed_to_its_parent_when_it_ends() {
    let proc = Proc::new();
    put(&proc, 50, "sh", 1);
    proc.put_child(50, 51, "dd", "dd", 1);
    proc.io(51, [0; 2], [4000 * MIB, 0]);
    let mut others = open(&proc.roots(), &scope(&[], &[]));
    let mut readings = Readings::default();
    scan(&mut others, &mut readings);
    proc.io(51, [0; 2], [4100 * MIB, 0]);
    assert_eq!(
        scan(&mut others, &mut readings),
        [row("dd[51]", 4000, 4100)]
    );
    proc.end(51);
    proc.io(50, [0; 2], [4101 * MIB, 0]);
    assert!(scan(&mut others, &mut readings).is_empty());
    // A process that started and ended between two scans is reported with its parent.
    proc.io(50, [0; 2], [4110 * MIB, 0]);
    assert_eq!(scan(&mut others, &mut readings), [row("sh[50]", 1, 10)]);
}

#[test]
fn servers_of_file_systems_and_their_children_are_marked() {
    let proc = Proc::new();
    put(&proc, 50, "zfs-fuse", 1);
    put(&proc, 60, "nbdfuse", 1);
    proc.put_child(60, 61, "nbdkit", "nbdkit", 1);
    put(&proc, 70, "rsync", 1);
    for (pid, held) in [(50, FUSE), (60, FUSE), (61, "/dev/null"), (70, "/x/fuse")] {
        std::fs::create_dir(proc.path(pid, "fd")).unwrap();
        for (number, held) in ["/dev/null", held].iter().enumerate() {
            let file = proc.path(pid, &format!("fd/{number}"));
            std::os::unix::fs::symlink(held, file).unwrap();
        }
    }
    let mut others = open(&proc.roots(), &scope(&[], &[]));
    let mut readings = Readings::default();
    proc.io(61, [0; 2], [0; 2]);
    scan(&mut others, &mut readings);
    for pid in [50, 61, 70] {
        proc.io(pid, [0; 2], [9 * MIB, 0]);
    }
    scan(&mut others, &mut readings);
    let mut rows: Vec<(&str, Option<&str>)> = readings
        .rows
        .iter()
        .map(|row| (row.name.as_str(), row.serves.as_deref()))
        .collect();
    rows.sort_unstable();
    let marked = [
        ("nbdkit[61]", Some(FUSE)),
        ("rsync[70]", None),
        ("zfs-fuse[50]", Some(FUSE)),
    ];
    assert_eq!(rows, marked);
}

#[test]
fn a_real_shell_is_not_attributed_what_its_child_wrote_before() {
    let folder = tempfile::tempdir().unwrap();
    let script = "(head -c 8388608 /dev/zero > data; echo done; read go); echo over; read go";
    let mut shell = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(folder.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut message, mut tell) = (
        BufReader::new(shell.stdout.take().unwrap()).lines(),
        shell.stdin.take().unwrap(),
    );
    let mut processes = Processes::new("/proc".into());
    let pid = shell.id();
    let mut written = || processes.io(pid).unwrap().written_bytes;
    let mut others = open(&Roots::host(), &scope(&[], &[]));
    let mut readings = Readings::default();
    message.next().unwrap().unwrap();
    let before = written();
    scan(&mut others, &mut readings);
    tell.write_all(b"go\n").unwrap();
    message.next().unwrap().unwrap();
    let inherited = written() - before;
    let rows = scan(&mut others, &mut readings);
    drop(tell);
    shell.wait().unwrap();
    if inherited < 8 * MIB {
        iodyno_testing::skip(format_args!(
            "the kernel does not count writes to {folder:?}"
        ));
        return;
    }
    let name = format!("sh[{pid}]");
    assert!(rows.iter().all(|row| row.0 != name), "{rows:?}");
}

#[test]
fn a_new_process_is_attributed_all_its_io_and_another_its_io_since_the_scan() {
    let proc = Proc::new();
    put(&proc, 50, "rsync", 500);
    let others = open(&proc.roots(), &scope(&[], &[]));
    let meter = others.meter.clone();
    let mut collector = Collector::of(vec![Box::new(others)]);
    collector.begin(0);
    put(&proc, 50, "rsync", 503);
    put(&proc, 60, "dd", 9);
    meter.pass(LEAST - Duration::from_nanos(1));
    assert!(collector.sample(900_000_000).is_empty(), "it is too early");
    meter.pass(Duration::from_nanos(1));
    let telemetry = collector.sample(1_000_000_000);
    let (shape, sample) = telemetry.of(SeriesKind::Others).next().unwrap();
    let names: Vec<&str> = shape.subjects.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["dd[60]", "rsync[50]"]);
    assert_eq!(sample.values, [9 * MIB, 0, 3 * MIB, 0].map(Some));
    assert_eq!(sample.span_ns, 1_000_000_000);
}

#[test]
fn the_processes_that_transfer_most_have_rows_and_idle_ones_lose_theirs() {
    let proc = Proc::new();
    for pid in 1..=20 {
        put(&proc, pid, "p", 0);
    }
    let mut others = open(&proc.roots(), &scope(&[], &[]));
    let mut readings = Readings::default();
    scan(&mut others, &mut readings);
    for pid in 1..=20 {
        put(&proc, pid, "p", u64::from(pid));
    }
    let names = |rows: Vec<(String, u64, u64)>| -> Vec<String> {
        rows.into_iter().map(|row| row.0).collect()
    };
    let most: Vec<String> = (13..=20).rev().map(|pid| format!("p[{pid}]")).collect();
    assert_eq!(names(scan(&mut others, &mut readings)), most);
    // Seven continue, one is idle, and one that had no row transfers data.
    for pid in (13..=20).filter(|pid| *pid != 17) {
        put(&proc, pid, "p", 100);
    }
    put(&proc, 2, "p", 70);
    let rows = names(scan(&mut others, &mut readings));
    assert!(rows.len() == ROWS && rows.contains(&"p[2]".to_owned()));
    assert!(!rows.contains(&"p[17]".to_owned()));
}

/// The seconds in which a sample scans, of one sample per second.
fn scan_times(look_costs: Duration, seconds: u64) -> Vec<u64> {
    let (proc, meter) = (Proc::new(), FakeMeter::new(look_costs));
    let mut others = Others::open(meter.clone(), &proc.roots(), &scope(&[], &[]));
    let mut readings = Readings::default();
    // At open, and when counts begin.
    assert_eq!(others.read(&mut readings), Ok(Read::Fresh));
    assert_eq!(others.read(&mut readings), Ok(Read::Fresh));
    let scan_times = |_: &u64| {
        meter.pass(Duration::from_secs(1));
        others.read(&mut readings) == Ok(Read::Fresh)
    };
    (1..=seconds).filter(scan_times).collect()
}

#[test]
fn scans_become_rarer_until_they_cost_a_thousandth_of_the_time() {
    for (cost_us, expected) in [
        (0, vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (900, vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (3000, vec![1, 2, 4, 7, 10]),
        (3001, vec![1, 2, 4, 8, 12]),
        (10_000, vec![1, 2, 4, 8, 16, 26, 36]),
        // Scans are done at least this often even if they cost more.
        (50_000, vec![1, 2, 4, 8, 16, 26, 36]),
    ] {
        let cost = Duration::from_micros(cost_us);
        assert_eq!(
            scan_times(cost, *expected.last().unwrap()),
            expected,
            "{cost_us}"
        );
    }
}

#[test]
fn the_pace_follows_the_cost_of_the_last_scan() {
    let (proc, meter) = (Proc::new(), FakeMeter::new(Duration::ZERO));
    let mut others = Others::open(meter.clone(), &proc.roots(), &scope(&[], &[]));
    let mut readings = Readings::default();
    others.read(&mut readings).unwrap();
    others.read(&mut readings).unwrap();
    meter.pass(Duration::from_secs(100));
    for cost_ms in [2, 9, 1, 4] {
        let cost = Duration::from_millis(cost_ms);
        meter.0.lock().unwrap().look_costs = cost;
        assert_eq!(others.read(&mut readings), Ok(Read::Fresh), "{cost_ms}");
        meter.pass(1000 * cost - Duration::from_nanos(1));
        assert_eq!(others.read(&mut readings), Ok(Read::Nothing), "{cost_ms}");
        meter.pass(Duration::from_nanos(1));
    }
}
