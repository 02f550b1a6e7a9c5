use super::*;
use iodyno_engine::OpRecord;
use std::fs::{self, OpenOptions};

const MS: u64 = 1_000_000;

fn logs(folder: &Path, window_ms: u64) -> Logs {
    let prefix = Some(folder.join("x"));
    Logs {
        bandwidth: prefix.clone(),
        iops: prefix.clone(),
        latency: prefix,
        window_ms,
        ..Logs::default()
    }
}

fn gain(ops: u64, latency: u64) -> Gain {
    Gain {
        bytes: ops * 4096,
        service: (0..ops).map(|_| latency).collect(),
        ..Gain::default()
    }
}

#[test]
fn windows_are_written_as_fio_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let made = create(
        &logs(folder.path(), 200),
        Path::new("/"),
        3,
        Epoch::default(),
    )
    .unwrap();
    assert!(made.ops.is_none());
    let mut log = made.windows.unwrap();
    let start = 10_000 * MS;
    log.begin(start);
    log.tick(0, start + 200 * MS);
    assert_eq!(log.next(), Some(start + 400 * MS));
    log.count(Direction::Read, &gain(100, 1000));
    log.count(Direction::Read, &gain(100, 2000));
    log.count(Direction::Sync, &gain(9, 9));
    log.tick(start, start + 400 * MS);
    log.count(Direction::Write, &gain(10, 500));
    log.tick(start, start + 500 * MS);
    log.tick(start, start + 601 * MS);
    assert_eq!(log.next(), Some(start + 800 * MS));
    log.count(Direction::Read, &gain(1, 7));
    assert_eq!(log.close(start, start + 701 * MS), None);
    let text =
        |kind: &str| fs::read_to_string(folder.path().join(format!("x_{kind}.3.log"))).unwrap();
    // 200 × 4 KiB in 0.4 s; 10 × 4 KiB in 0.201 s; 4 KiB in 0.1 s.
    assert_eq!(
        text("bw"),
        "400, 2000, 0, 0, 0\n600, 199, 1, 0, 0\n701, 40, 0, 0, 0\n"
    );
    assert_eq!(
        text("iops"),
        "400, 500, 0, 0, 0\n600, 49, 1, 0, 0\n701, 10, 0, 0, 0\n"
    );
    assert_eq!(
        text("clat"),
        "400, 1500, 0, 0, 0\n600, 500, 1, 0, 0\n701, 7, 0, 0, 0\n"
    );
    assert_eq!(text("lat"), text("clat"));
    assert_eq!(text("slat"), "");
}

#[test]
fn each_op_is_written_once_and_only_in_the_measured_time() {
    let folder = tempfile::tempdir().unwrap();
    for (offset, expected) in [
        (false, "0, 300, 0, 4096, 0\n2, 301, 1, 4096, 0\n"),
        (true, "0, 300, 0, 4096, 0, 0\n2, 301, 1, 4096, 8192, 0\n"),
    ] {
        let asked = Logs {
            offset,
            ..logs(folder.path(), 0)
        };
        let made = create(&asked, Path::new("/"), 1, Epoch::default()).unwrap();
        // Rates have no single ops: theirs are windows of half a second.
        assert_eq!(made.windows.as_ref().unwrap().window_ns, 500 * MS);
        let mut log = made.ops.unwrap();
        let start = 1000 * MS;
        for (n, at) in [(9, start - 1), (0, start), (1, start + 2 * MS)] {
            let record = OpRecord {
                at,
                submission: 0,
                service: 300 + n,
                direction: Direction::ALL[n as usize % 2],
                bytes: 4096,
                file: 0,
                data_only: false,
                offset: n * 8192,
            };
            log.queue.push(record, || false);
        }
        log.drain(|| start);
        assert_eq!(log.close(start, false), None);
        let text = fs::read_to_string(folder.path().join("x_clat.1.log")).unwrap();
        assert_eq!(text, expected);
    }
}

#[test]
fn a_log_that_delays_its_worker_affects_figures_in_real_time_only() {
    for in_virtual_time in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let made = create(&logs(folder.path(), 0), Path::new("/"), 1, Epoch::default()).unwrap();
        let log = made.ops.unwrap();
        for n in 0..=QUEUE as u64 {
            let record = OpRecord {
                at: n,
                submission: 0,
                service: 300,
                direction: Direction::Read,
                bytes: 4096,
                file: 0,
                data_only: false,
                offset: 0,
            };
            // The last one finds the queue full.
            log.queue.push(record, || true);
        }
        let told = log.close(0, in_virtual_time);
        let delayed = told.is_some_and(|text| text.contains("delayed its worker 1 times"));
        assert_eq!(delayed, !in_virtual_time);
    }
}

#[test]
fn an_op_logged_while_the_log_is_written_counts_from_the_start_that_it_has_by_then() {
    let folder = tempfile::tempdir().unwrap();
    let made = create(&logs(folder.path(), 0), Path::new("/"), 1, Epoch::default()).unwrap();
    let mut log = made.ops.unwrap();
    let queue = Arc::clone(&log.queue);
    let push = |at| {
        let record = OpRecord {
            at,
            submission: 0,
            service: 300,
            direction: Direction::Read,
            bytes: 4096,
            file: 0,
            data_only: false,
            offset: 0,
        };
        queue.push(record, || false);
    };
    push(5 * MS);
    // The measured time begins, and the worker logs on and on, once the first op was taken.
    let asked = std::cell::Cell::new(0u64);
    log.drain(|| {
        asked.set(asked.get() + 1);
        push((10 + asked.get()) * MS);
        if asked.get() > 1 { 11 * MS } else { 0 }
    });
    assert_eq!(asked.get(), QUEUE as u64);
    assert_eq!(log.close(11 * MS, false), None);
    let text = fs::read_to_string(folder.path().join("x_lat.1.log")).unwrap();
    let times: Vec<u64> = text
        .lines()
        .filter_map(|line| line.split(',').next()?.parse().ok())
        .collect();
    assert_eq!(times, (0..QUEUE as u64).collect::<Vec<_>>());
}

#[test]
fn a_full_disk_is_a_note_and_a_missing_folder_a_fault() {
    let missing = create(
        &logs(Path::new("/nowhere"), 0),
        Path::new("/"),
        1,
        Epoch::default(),
    )
    .unwrap_err();
    assert!(missing.contains("/nowhere/x_lat.1.log"), "{missing}");
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut file = LogFile {
        path: "a.log".into(),
        to: BufWriter::with_capacity(16, full),
        fault: None,
    };
    for _ in 0..100 {
        file.line(format_args!("12345678\n"));
    }
    let fault = file.close().unwrap();
    assert!(
        fault.contains("`a.log` is incomplete: No space left"),
        "{fault}"
    );
}

#[test]
fn a_log_is_never_written_over_a_device() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.path().join("x_bw.1.log")).unwrap();
    let fault = create(&logs(folder.path(), 0), Path::new("/"), 1, Epoch::default()).unwrap_err();
    assert!(fault.contains("not a regular file"), "{fault}");
}

#[test]
fn times_are_those_of_another_clock_if_one_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    // The trial's clock reads 5 s when the other one reads 1000 s; the measured time begins at 10 s.
    let epoch = Epoch::of_clock(1_000_000 * MS, 5_000 * MS);
    let made = create(&logs(folder.path(), 200), Path::new("/"), 1, epoch).unwrap();
    let mut log = made.windows.unwrap();
    let start = 10_000 * MS;
    log.begin(start);
    log.count(Direction::Read, &gain(100, 1000));
    log.tick(start, start + 200 * MS);
    assert_eq!(log.close(start, start + 200 * MS), None);
    let made = create(&logs(folder.path(), 0), Path::new("/"), 2, epoch).unwrap();
    let mut log = made.ops.unwrap();
    let record = OpRecord {
        at: start + 7 * MS,
        submission: 0,
        service: 300,
        direction: Direction::Read,
        bytes: 4096,
        file: 0,
        data_only: false,
        offset: 0,
    };
    log.queue.push(record, || true);
    log.drain(|| start);
    assert_eq!(log.close(start, false), None);
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(text("x_clat.1.log"), "1005200, 1000, 0, 0, 0\n");
    assert_eq!(text("x_clat.2.log"), "1005007, 300, 0, 4096, 0\n");
}
