//! Processes that come, go and keep what they do to themselves.

use super::*;
use crate::samplers::processes::fake::Proc;

const PAGE: u64 = 4096;

fn open(proc: &Proc, names: &[&str]) -> Process {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut process = Process::open(&proc.roots(), &names, PAGE).unwrap();
    process.pause = Duration::ZERO;
    process
}

fn rows(readings: &Readings) -> Vec<&str> {
    readings.rows.iter().map(|row| row.name.as_str()).collect()
}

/// Where the first row's counts began.
fn began(process: &Process, readings: &Readings) -> Option<u64> {
    process.began_at(&readings.rows[0], &readings.columns[0])
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
    let mut process = open(&proc, &["qemu-system-x86_64", "virtiofsd"]);
    let mut readings = Readings::default();
    assert_eq!(process.read(&mut readings), Ok(Read::Fresh));
    assert_eq!(
        rows(&readings),
        ["qemu-system-x86_64[70]", "virtiofsd[20]", "virtiofsd[30]"]
    );
    assert_eq!(readings.columns, SeriesColumn::of(PROCESS));
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
    assert_eq!(readings.values[..8], values.map(Some));
    assert!(process.missed().is_empty());
    assert_eq!(began(&process, &readings), None, "it was there before");
}

#[test]
fn processes_come_and_go_and_a_name_that_nobody_has_is_told_once() {
    let proc = Proc::new();
    proc.put(1, "init", "init", 1);
    let mut process = open(&proc, &["virtiofsd", "smbd"]);
    let mut readings = Readings::default();
    process.read(&mut readings).unwrap();
    process.read(&mut readings).unwrap();
    let missing = |name: &str| format!("no process is called `{name}`");
    assert_eq!(process.missed(), [missing("virtiofsd"), missing("smbd")]);
    assert!(rows(&readings).is_empty());
    proc.put(9, "virtiofsd", "virtiofsd", 5);
    proc.io(9, [1, 1], [1, 1]);
    process.read(&mut readings).unwrap();
    assert_eq!(rows(&readings), ["virtiofsd[9]"]);
    // It was not there in the look before: it counts from zero.
    assert_eq!(began(&process, &readings), Some(0));
    assert!(process.missed().is_empty());
    proc.write(
        9,
        "stat",
        "9 (virtiofsd) Z 1 1 1 0 -1 4194304 0 0 0 0 5 5 0 0 20 0 1 0 0 0 0 0",
    );
    process.read(&mut readings).unwrap();
    assert!(rows(&readings).is_empty() && readings.values.is_empty());
    proc.end(9);
    process.read(&mut readings).unwrap();
    assert_eq!(process.missed(), [missing("virtiofsd")]);
}

#[test]
fn a_program_that_takes_another_ones_place_is_found() {
    let proc = Proc::new();
    proc.put(5, "sh", "sh -c", 1);
    let mut process = open(&proc, &["server"]);
    let mut readings = Readings::default();
    process.read(&mut readings).unwrap();
    proc.put(5, "server", "server", 1);
    process.read(&mut readings).unwrap();
    assert_eq!(rows(&readings), ["server[5]"]);
    assert_eq!(began(&process, &readings), None);
}

#[test]
fn between_looks_only_what_was_found_is_read() {
    let proc = Proc::new();
    proc.put(5, "server", "server", 1);
    let mut process = open(&proc, &["server"]);
    let mut readings = Readings::default();
    process.read(&mut readings).unwrap();
    process.pause = Duration::from_secs(60);
    proc.put(6, "server", "server", 1);
    proc.put(5, "server", "server", 9);
    process.read(&mut readings).unwrap();
    assert_eq!(rows(&readings), ["server[5]"]);
    assert_eq!(readings.values[0], Some(90_000_000));
    process.pause = Duration::ZERO;
    process.read(&mut readings).unwrap();
    assert_eq!(rows(&readings), ["server[5]", "server[6]"]);
}

#[test]
fn io_that_may_not_be_read_is_told_once_and_the_rest_is_kept() {
    let proc = Proc::new();
    proc.put(5, "server", "server", 1);
    let mut process = open(&proc, &["server"]);
    let mut readings = Readings::default();
    process.read(&mut readings).unwrap();
    process.read(&mut readings).unwrap();
    let told = process.missed();
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("I/O of server[5] cannot be read: No such file"),
        "{told:?}"
    );
    assert_eq!(readings.values[2..5], [Some(3), Some(25 * PAGE), None]);
    let denied = closed("x[1]", &io::ErrorKind::PermissionDenied.into());
    assert!(denied.ends_with("run as root to see it"), "{denied}");
    assert!(Process::open(&proc.roots(), &[], PAGE).is_none());
}

#[test]
fn this_very_process_is_found_on_this_host() {
    let name = std::fs::read_to_string("/proc/self/comm")
        .unwrap()
        .trim()
        .to_owned();
    let row = format!("{name}[{}]", std::process::id());
    let mut process = Process::open(&Roots::host(), &[name], PAGE).unwrap();
    let mut readings = Readings::default();
    process.read(&mut readings).unwrap();
    let place = readings
        .rows
        .iter()
        .position(|found| found.name == row)
        .unwrap();
    let values = &readings.values[place * 8..][..8];
    assert!(
        values[2] >= Some(2) && values[3] > Some(1 << 20),
        "{values:?}"
    );
    assert!(values[4] > Some(0), "{values:?}");
}

#[test]
fn what_a_servers_child_did_is_charged_once() {
    let proc = Proc::new();
    proc.put(20, "smbd", "smbd", 1);
    proc.put_child(20, 21, "smbd", "smbd", 1);
    proc.io(20, [5, 0], [1 << 20, 0]);
    proc.io(21, [100, 0], [7 << 20, 0]);
    let mut process = open(&proc, &["smbd"]);
    let mut readings = Readings::default();
    let mut reads = || {
        process.read(&mut readings).unwrap();
        let values = readings.values.chunks(PROCESS.len());
        values.map(|row| row[4].unwrap()).collect::<Vec<u64>>()
    };
    assert_eq!(reads(), [5, 100]);
    proc.end(21);
    proc.io(20, [106, 0], [8 << 20, 0]);
    assert_eq!(reads(), [6]);
    // A helper of another name was told of nowhere else.
    proc.io(20, [116, 0], [8 << 20, 0]);
    assert_eq!(reads(), [16]);
}
