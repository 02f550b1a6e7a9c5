use super::*;
use iodyno_engine::OpRecord;
use iodyno_model::IoPriority;
use std::fs;

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

/// Priority 3 of the real-time class.
const PRIORITY: IoPriority = IoPriority {
    class: 1,
    level: 3,
    hint: 0,
};

/// The logs of a clone whose I/O has [`PRIORITY`].
fn try_make(logs: &Logs, number: usize) -> Result<CloneLogs, String> {
    create(logs, PRIORITY, Path::new("/"), number, Epoch::default())
}

fn made(logs: &Logs, number: usize) -> CloneLogs {
    try_make(logs, number).unwrap()
}

fn op(at: u64, submission: u64, service: u64) -> OpRecord {
    OpRecord {
        at,
        submission,
        service,
        direction: Direction::Write,
        bytes: 4096,
        file: 0,
        data_only: false,
        offset: 8192,
        priority: 0,
    }
}

fn gain(ops: u64, latency: u64) -> CounterDelta {
    CounterDelta {
        bytes: ops * 4096,
        service: (0..ops).map(|_| latency).collect(),
        ..CounterDelta::default()
    }
}

#[test]
fn windows_are_written_in_fios_format() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = made(&logs(folder.path(), 200), 3);
    assert!(made.ops.is_none());
    let mut log = made.windows.remove(0);
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
        (false, "0, 300, 0, 4096, 1\n2, 301, 1, 4096, 1\n"),
        (true, "0, 300, 0, 4096, 0, 1\n2, 301, 1, 4096, 8192, 1\n"),
    ] {
        let asked = Logs {
            offset,
            ..logs(folder.path(), 0)
        };
        let made = made(&asked, 1);
        assert!(made.windows.is_empty());
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
                priority: 0,
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
        let log = made(&logs(folder.path(), 0), 1).ops.unwrap();
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
                priority: 0,
            };
            // The queue is full at the last one.
            log.queue.push(record, || true);
        }
        let note = log.close(0, in_virtual_time);
        let delayed = note.is_some_and(|text| text.contains("delayed its worker 1 times"));
        assert_eq!(delayed, !in_virtual_time);
    }
}

#[test]
fn the_time_of_an_op_refers_to_the_start_known_when_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = made(&logs(folder.path(), 0), 1).ops.unwrap();
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
            priority: 0,
        };
        queue.push(record, || false);
    };
    push(5 * MS);
    // The measured time begins after the first op was read, and the worker continues to log.
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
fn a_missing_folder_is_a_fault() {
    let missing = try_make(&logs(Path::new("/nowhere"), 0), 1).unwrap_err();
    assert!(missing.contains("/nowhere/x_lat.1.log"), "{missing}");
}

#[test]
fn a_log_is_never_written_over_a_device() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.path().join("x_bw.1.log")).unwrap();
    let fault = try_make(&logs(folder.path(), 0), 1).unwrap_err();
    assert!(fault.contains("not a regular file"), "{fault}");
}

#[test]
fn an_op_has_a_line_in_each_log_with_the_requested_columns() {
    let folder = tempfile::tempdir().unwrap();
    let asked = Logs {
        offset: true,
        priority: true,
        issue_time: true,
        ..logs(folder.path(), 0)
    };
    let mut log = made(&asked, 1).ops.unwrap();
    let start = 1000 * MS;
    log.queue.push(op(start + 5 * MS, 250, 1250), || false);
    let own = OpRecord {
        priority: 0x4001,
        ..op(start + 5 * MS, 250, 1250)
    };
    log.queue.push(own, || false);
    log.drain(|| start);
    assert_eq!(log.close(start, false), None);
    // Issued 1000 ns before its completion; 4096 bytes in 1 µs are 4096000 kB/s.
    for (kind, expected) in [
        ("lat", "5, 1250, 1, 4096, 8192, 0x2003, 0\n"),
        ("clat", "5, 1000, 1, 4096, 8192, 0x2003, 4999000\n"),
        ("slat", "5, 250, 1, 4096, 8192, 0x2003, 4999000\n"),
        ("bw", "5, 4096000, 1, 4096, 8192, 0x2003, 0\n"),
        ("iops", "5, 1, 1, 4096, 8192, 0x2003, 0\n"),
    ] {
        let text = fs::read_to_string(folder.path().join(format!("x_{kind}.1.log"))).unwrap();
        let second = expected.replace("0x2003", "0x4001");
        assert_eq!(text, format!("{expected}{second}"), "{kind}");
    }
}

#[test]
fn windows_have_the_same_columns_and_may_have_both_values() {
    let folder = tempfile::tempdir().unwrap();
    let asked = Logs {
        offset: true,
        priority: true,
        both_values: true,
        ..logs(folder.path(), 200)
    };
    let mut log = made(&asked, 1).windows.remove(0);
    let start = 1000 * MS;
    log.begin(start);
    log.count(Direction::Read, &gain(1, 1000));
    let apart = CounterDelta {
        submission: Some([200].into_iter().collect()),
        completion: Some([1800].into_iter().collect()),
        ..gain(1, 2000)
    };
    log.count(Direction::Read, &apart);
    log.tick(start, start + 200 * MS);
    assert_eq!(log.close(start, start + 200 * MS), None);
    for (kind, expected) in [
        ("lat", "200, 1500, 2000, 0, 0, 0, 0x0000\n"),
        ("clat", "200, 1400, 1800, 0, 0, 0, 0x0000\n"),
        ("slat", "200, 200, 200, 0, 0, 0, 0x0000\n"),
        ("bw", "200, 40, 40, 0, 0, 0, 0x0000\n"),
        ("iops", "200, 10, 10, 0, 0, 0, 0x0000\n"),
    ] {
        let text = fs::read_to_string(folder.path().join(format!("x_{kind}.1.log"))).unwrap();
        assert_eq!(text, expected, "{kind}");
    }
}

fn histograms(folder: &Path, coarseness: u32) -> Logs {
    Logs {
        histogram: Some(folder.join("x")),
        histogram_ms: 100,
        coarseness,
        ..Logs::default()
    }
}

#[test]
fn histograms_contain_every_op_of_their_window_in_fios_bins() {
    for (coarseness, bins, indices) in [(0, 1856, [77, 640, 1855]), (6, 29, [1, 10, 28])] {
        let folder = tempfile::tempdir().unwrap();
        let mut made = made(&histograms(folder.path(), coarseness), 2);
        assert!(made.ops.is_none());
        let mut log = made.windows.remove(0);
        let start = 1000 * MS;
        log.begin(start);
        log.count(Direction::Read, &gain(3, 77));
        log.count(Direction::Write, &gain(2, 1 << 15));
        log.tick(start, start + 100 * MS);
        log.tick(start, start + 200 * MS);
        // Ops that complete at the end of the last window are written, too.
        log.count(Direction::Read, &gain(5, 100_000_000_000));
        assert_eq!(log.close(start, start + 200 * MS), None);
        let text = fs::read_to_string(folder.path().join("x_clat_hist.2.log")).unwrap();
        let rows: Vec<Vec<u64>> = text
            .lines()
            .map(|line| {
                line.split(", ")
                    .map(|field| field.parse().unwrap())
                    .collect()
            })
            .collect();
        let heads: Vec<&[u64]> = rows.iter().map(|row| &row[..3]).collect();
        assert_eq!(
            heads,
            [&[100, 0, 4096][..], &[100, 1, 4096], &[201, 0, 4096]]
        );
        for ((row, index), count) in rows.iter().zip(indices).zip([3, 2, 5]) {
            assert_eq!(row.len(), 3 + bins);
            assert_eq!(row[3 + index], count);
            assert_eq!(row[3..].iter().sum::<u64>(), count);
        }
    }
}

#[test]
fn clones_share_a_log_whose_content_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x_clat.log");
    fs::write(&path, "old\n").unwrap();
    let asked = Logs {
        latency: Some(folder.path().join("x")),
        shared: true,
        ..Logs::default()
    };
    let mut clones = [1, 2].map(|number| made(&asked, number).ops.unwrap());
    // More lines than fit into the buffers, alternating between the clones.
    for n in 0..4000 {
        for log in &mut clones {
            log.queue.push(op(n * MS, 0, 1_000_000 + n), || false);
            log.drain(|| 1);
        }
    }
    for log in clones {
        assert_eq!(log.close(1, false), None);
    }
    let text = fs::read_to_string(&path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("old"));
    let whole = |line: &&str| line.split(", ").count() == 5 && line.ends_with(", 1, 4096, 1");
    assert_eq!(lines.filter(whole).count(), 2 * 3999);
    assert_eq!(text.lines().count(), 1 + 2 * 3999);
}

#[test]
fn times_are_those_of_another_clock_if_one_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    // The trial's clock reads 5 s when the other one reads 1000 s; the measured time begins at 10 s.
    let epoch = Epoch::of_clock(1_000_000 * MS, 5_000 * MS);
    let made = |window_ms, number| {
        let logs = Logs {
            histogram: Some(folder.path().join("x")),
            histogram_ms: 100,
            ..logs(folder.path(), window_ms)
        };
        create(&logs, IoPriority::default(), Path::new("/"), number, epoch).unwrap()
    };
    let start = 10_000 * MS;
    for mut log in made(200, 1).windows {
        log.begin(start);
        log.count(Direction::Read, &gain(100, 1000));
        log.tick(start, start + 200 * MS);
        assert_eq!(log.close(start, start + 200 * MS), None);
    }
    let mut log = made(0, 2).ops.unwrap();
    log.queue.push(op(start + 7 * MS, 0, 300), || true);
    log.drain(|| start);
    assert_eq!(log.close(start, false), None);
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(text("x_clat.1.log"), "1005200, 1000, 0, 0, 0\n");
    assert!(text("x_clat_hist.1.log").starts_with("1005200, 0, 4096, 0, 0, "));
    assert_eq!(text("x_clat.2.log"), "1005007, 300, 1, 4096, 0\n");
}

#[test]
fn logs_that_are_left_out_are_not_written() {
    for (left_out, window_ms) in [([true, false, false], 0), ([false, true, true], 200)] {
        let folder = tempfile::tempdir().unwrap();
        let mut logs = logs(folder.path(), window_ms);
        let [total, completion, submission] = left_out;
        logs.left_out = iodyno_model::LeftOut {
            submission,
            completion,
            total,
        };
        drop(made(&logs, 1));
        for (kind, left_out) in ["lat", "clat", "slat"].iter().zip(left_out) {
            let path = folder.path().join(format!("x_{kind}.1.log"));
            assert_eq!(path.exists(), !left_out, "{kind}");
        }
    }
}
