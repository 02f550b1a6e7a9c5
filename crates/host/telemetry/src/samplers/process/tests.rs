//! Processes that appear, disappear and cannot be read.
use super::*;
use crate::samplers::processes::fake::Proc;
use crate::{Devices, Pools};

const PAGE: u64 = 4096;

fn scope(names: &[ProcessName], servers: &[u32]) -> Scope {
    Scope {
        every: Duration::from_secs(1),
        devices: Devices::Named(Vec::new()),
        block_trace: false,
        pools: Pools::Named(Vec::new()),
        processes: names.to_vec(),
        servers: servers.to_vec(),
        stats: Vec::new(),
        own: Vec::new(),
    }
}

/// A simulated procfs, and the time of the next reading.
struct Reader {
    process: Process,
    now: Instant,
    readings: Readings,
}

impl Reader {
    fn open(proc: &Proc, names: &[&str]) -> Reader {
        let names: Vec<ProcessName> = names.iter().map(|name| (*name).to_owned().into()).collect();
        Reader {
            process: Process::open(&proc.roots(), &scope(&names, &[]), PAGE).unwrap(),
            now: Instant::now(),
            readings: Readings::default(),
        }
    }

    /// Reads after this time has passed.
    fn read_after(&mut self, span: Duration) {
        self.now += span;
        let read = self.process.read_at(self.now, &mut self.readings);
        assert_eq!(read, Ok(Read::Fresh));
    }

    /// Reads when the next search is due.
    fn read(&mut self) {
        self.read_after(SEARCH_EVERY);
    }

    fn rows(&self) -> Vec<&str> {
        let rows = self.readings.rows.iter();
        rows.map(|row| row.name.as_str()).collect()
    }

    /// The start value of the first row's counts.
    fn start_value(&self) -> Option<u64> {
        let readings = &self.readings;
        self.process
            .began_at(&readings.rows[0], &readings.columns[0])
    }
}

#[test]
fn a_server_is_read_with_its_descendants_and_without_others_of_its_name() {
    let proc = Proc::new();
    for (pid, name, parent) in [
        (50, "virtiofsd", 1),
        (51, "virtiofsd", 50),
        (52, "worker", 51),
        (60, "virtiofsd", 1),
    ] {
        proc.put_child(parent, pid, name, name, 1);
        proc.io(pid, [0; 2], [0; 2]);
    }
    let process = Process::open(&proc.roots(), &scope(&[], &[50]), PAGE).unwrap();
    let mut reader = Reader {
        process,
        now: Instant::now(),
        readings: Readings::default(),
    };
    reader.read();
    assert_eq!(
        reader.rows(),
        ["virtiofsd[50]", "virtiofsd[51]", "worker[52]"]
    );
    assert!(reader.process.missed().is_empty());
}

#[test]
fn every_process_of_a_name_is_read_in_the_order_of_names() {
    let proc = Proc::new();
    proc.put(70, "qemu-system-x86", "/usr/bin/qemu-system-x86_64 -m 1", 7);
    proc.io(70, [1, 2], [3 << 20, 4 << 20]);
    proc.put(30, "virtiofsd", "/usr/libexec/virtiofsd", 1);
    proc.put(20, "virtiofsd", "/usr/libexec/virtiofsd", 1);
    proc.put(10, "cat", "cat", 1);
    for pid in [10, 20, 30] {
        proc.io(pid, [0; 2], [0; 2]);
    }
    let mut reader = Reader::open(&proc, &["qemu-system-x86_64", "virtiofsd"]);
    reader.read();
    assert_eq!(
        reader.rows(),
        ["qemu-system-x86_64[70]", "virtiofsd[20]", "virtiofsd[30]"]
    );
    assert_eq!(reader.readings.columns, SeriesColumn::of(PROCESS));
    let values = [
        70_000_000,
        140_000_000,
        3,
        25 * PAGE,
        1,
        2,
        3 << 20,
        4 << 20,
    ];
    assert_eq!(reader.readings.values[..8], values.map(Some));
    assert!(reader.process.missed().is_empty());
    assert_eq!(reader.start_value(), None, "it was there before");
}

#[test]
fn only_processes_that_were_started_for_the_storage_are_read() {
    let proc = Proc::new();
    for (pid, mark) in [(10, "a1/3"), (11, "a1/3"), (20, "b2/3"), (30, "a11/3")] {
        proc.put(pid, "guest", "guest", 1);
        proc.io(pid, [0; 2], [0; 2]);
        proc.write(pid, "environ", format!("HOME=/\0IODYNO_STEP={mark}\0"));
    }
    proc.put(40, "guest", "guest", 1);
    let mut reader = Reader::open(&proc, &["guest"]);
    reader.process.names[0].made_for = Some("a1".to_owned());
    reader.read();
    assert_eq!(reader.rows(), ["guest[10]", "guest[11]"]);
}

#[test]
fn processes_appear_and_disappear_and_a_missing_name_is_reported_once() {
    let proc = Proc::new();
    proc.put(1, "init", "init", 1);
    let mut reader = Reader::open(&proc, &["virtiofsd", "smbd"]);
    reader.read();
    reader.read();
    let missing = |name: &str| format!("no process is called `{name}`");
    assert_eq!(
        reader.process.missed(),
        [missing("virtiofsd"), missing("smbd")]
    );
    assert!(reader.rows().is_empty());
    proc.put(9, "virtiofsd", "virtiofsd", 5);
    proc.io(9, [1, 1], [1, 1]);
    reader.read();
    assert_eq!(reader.rows(), ["virtiofsd[9]"]);
    // It was not found in the previous scan: it counts from zero.
    assert_eq!(reader.start_value(), Some(0));
    assert!(reader.process.missed().is_empty());
    proc.write(
        9,
        "stat",
        "9 (virtiofsd) Z 1 1 1 0 -1 4194304 0 0 0 0 5 5 0 0 20 0 1 0 0 0 0 0",
    );
    reader.read();
    assert!(reader.rows().is_empty() && reader.readings.values.is_empty());
    proc.end(9);
    reader.read();
    assert_eq!(reader.process.missed(), [missing("virtiofsd")]);
}

#[test]
fn a_program_that_replaces_another_is_found() {
    let proc = Proc::new();
    proc.put(5, "sh", "sh -c", 1);
    let mut reader = Reader::open(&proc, &["server"]);
    reader.read();
    proc.put(5, "server", "server", 1);
    reader.read();
    assert_eq!(reader.rows(), ["server[5]"]);
    assert_eq!(reader.start_value(), None);
}

#[test]
fn only_found_processes_are_read_between_searches() {
    let proc = Proc::new();
    proc.put(5, "server", "server", 1);
    let mut reader = Reader::open(&proc, &["server"]);
    reader.read();
    proc.put(6, "server", "server", 1);
    proc.put(5, "server", "server", 9);
    reader.read_after(SEARCH_EVERY - Duration::from_nanos(1));
    assert_eq!(reader.rows(), ["server[5]"]);
    assert_eq!(reader.readings.values[0], Some(90_000_000));
    reader.read_after(Duration::from_nanos(1));
    assert_eq!(reader.rows(), ["server[5]", "server[6]"]);
}

#[test]
fn a_program_replaced_later_is_found_when_all_are_examined() {
    let proc = Proc::new();
    proc.put(5, "sh", "sh -c", 1);
    let mut reader = Reader::open(&proc, &["server"]);
    for _ in 0..YOUNG {
        reader.read();
    }
    proc.put(5, "server", "server", 1);
    let looked = SEARCH_EVERY * u32::from(YOUNG - 1);
    reader.read_after(EXAMINE_ALL_EVERY - looked - Duration::from_nanos(1));
    assert!(reader.rows().is_empty());
    reader.read();
    assert_eq!(reader.rows(), ["server[5]"]);
}

#[test]
fn unreadable_io_is_reported_once_and_other_values_are_kept() {
    let proc = Proc::new();
    proc.put(5, "server", "server", 1);
    let mut reader = Reader::open(&proc, &["server"]);
    reader.read();
    reader.read();
    let message = reader.process.missed();
    assert_eq!(message.len(), 1);
    assert!(
        message[0].contains("I/O of server[5] cannot be read: No such file"),
        "{message:?}"
    );
    assert_eq!(
        reader.readings.values[2..5],
        [Some(3), Some(25 * PAGE), None]
    );
    let denied = unreadable("x[1]", &io::ErrorKind::PermissionDenied.into());
    assert!(denied.ends_with("run as root to see it"), "{denied}");
    assert!(Process::open(&proc.roots(), &scope(&[], &[]), PAGE).is_none());
}

#[test]
fn this_process_is_found_on_this_host() {
    if !std::path::Path::new("/proc/self/io").exists() {
        iodyno_testing::skip("this kernel does not count the I/O of processes");
        return;
    }
    let name = std::fs::read_to_string("/proc/self/comm")
        .unwrap()
        .trim()
        .to_owned();
    let row = format!("{name}[{}]", std::process::id());
    let mut process = Process::open(&Roots::host(), &scope(&[name.into()], &[]), PAGE).unwrap();
    let mut readings = Readings::default();
    // A second thread that lives until it was read.
    let (release, released) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || released.recv());
    process.read(&mut readings).unwrap();
    drop(release);
    thread.join().unwrap().unwrap_err();
    let place = readings
        .rows
        .iter()
        .position(|found| found.name == row)
        .unwrap();
    let values = &readings.values[place * 8..][..8];
    assert!(values[2] >= Some(2) && values[3] > Some(0), "{values:?}");
    assert!(values[4] > Some(0), "{values:?}");
}

#[test]
fn io_of_a_servers_child_is_attributed_once() {
    let proc = Proc::new();
    proc.put(20, "smbd", "smbd", 1);
    proc.put_child(20, 21, "smbd", "smbd", 1);
    proc.io(20, [5, 0], [1 << 20, 0]);
    proc.io(21, [100, 0], [7 << 20, 0]);
    let mut reader = Reader::open(&proc, &["smbd"]);
    let mut reads = || {
        reader.read();
        let values = reader.readings.values.chunks(PROCESS.len());
        values.map(|row| row[4].unwrap()).collect::<Vec<u64>>()
    };
    assert_eq!(reads(), [5, 100]);
    proc.end(21);
    proc.io(20, [106, 0], [8 << 20, 0]);
    assert_eq!(reads(), [6]);
    // The I/O of a helper with another name was not reported elsewhere.
    proc.io(20, [116, 0], [8 << 20, 0]);
    assert_eq!(reads(), [16]);
}
