//! Disks that appear and disappear, and counters that wrap or restart.

use iodyno_model::SeriesKind::Disk;
use iodyno_telemetry::Devices;

use crate::host::{Host, Received, named};

const MS: u64 = 1_000_000;

/// A line in which all counters except the number of ops in flight are equal.
fn line(name: &str, count: u64, in_flight: u64) -> String {
    let (a, b) = (vec![count.to_string(); 8], vec![count.to_string(); 8]);
    format!(
        "   8   0 {name} {} {in_flight} {}\n",
        a.join(" "),
        b.join(" ")
    )
}

#[test]
fn counts_are_increases_in_bytes_and_nanoseconds_and_the_queue_is_a_gauge() {
    let host = Host::whole();
    host.proc("diskstats", &line("vda", 100, 7));
    let (mut collector, mut heard) = (host.begin(), Received::default());
    host.proc("diskstats", &line("vda", 103, 5));
    heard.sample(&mut collector, 1);
    for (column, expected) in [
        ("reads", 3),
        ("flushes", 3),
        ("discard_merges", 3),
        ("read_bytes", 3 * 512),
        ("discarded_bytes", 3 * 512),
        ("read_time", 3 * MS),
        ("flush_time", 3 * MS),
        ("busy_time", 3 * MS),
        ("queue_time", 3 * MS),
        ("in_flight", 5),
    ] {
        assert_eq!(heard.value(Disk, "vda", column), Some(expected), "{column}");
    }
}

#[test]
fn counters_missing_in_an_old_kernel_are_unknown() {
    let host = Host::whole();
    host.proc(
        "diskstats",
        "   8       0 sda 10 1 80 5 20 2 160 7 0 9 12\n",
    );
    let (mut collector, mut heard) = (host.begin(), Received::default());
    heard.sample(&mut collector, 1);
    for (column, expected) in [
        ("reads", Some(0)),
        ("queue_time", Some(0)),
        ("discards", None),
        ("discard_time", None),
        ("flushes", None),
        ("flush_time", None),
    ] {
        assert_eq!(heard.value(Disk, "sda", column), expected, "{column}");
    }
    assert_eq!(heard.gaps(Disk), []);
}

#[test]
fn a_disk_that_disappears_and_returns_changes_the_shape_and_no_other_disks_counts() {
    let host = Host::whole();
    let write = |disks: &[(&str, u64)]| {
        let text: String = disks
            .iter()
            .map(|(name, count)| line(name, *count, 0))
            .collect();
        host.proc("diskstats", &text);
    };
    for devices in [Devices::All, named(&["vda", "sdb"])] {
        write(&[("vda", 100), ("sdb", 50)]);
        let (mut collector, mut heard) = (host.open(devices), Received::default());
        collector.begin(0);
        write(&[("vda", 101)]);
        heard.sample(&mut collector, 1);
        // There was no shape yet from which it could be missing.
        assert_eq!(heard.rows(Disk), ["vda"]);
        assert_eq!(heard.shape(Disk).because, None);
        assert_eq!(heard.gaps(Disk), [(1, "sdb disappeared")]);
        write(&[("vda", 102), ("sdb", 7)]);
        heard.sample(&mut collector, 2);
        assert_eq!(heard.shape(Disk).because.as_deref(), Some("sdb appeared"));
        assert_eq!(heard.value(Disk, "vda", "reads"), Some(1));
        assert_eq!(heard.value(Disk, "sdb", "reads"), None);
        write(&[("vda", 103), ("sdb", 9)]);
        heard.sample(&mut collector, 3);
        assert_eq!(heard.value(Disk, "sdb", "reads"), Some(2));
        write(&[("vda", 110)]);
        heard.sample(&mut collector, 4);
        assert_eq!(
            heard.shape(Disk).because.as_deref(),
            Some("sdb disappeared")
        );
        assert_eq!(heard.value(Disk, "vda", "reads"), Some(7));
        assert_eq!(heard.gaps(Disk).len(), 1);
    }
}

#[test]
fn the_last_disk_leaves_a_gap_and_returns_with_a_shape() {
    let host = Host::whole();
    let text = |count| line("sdb", count, 0);
    let others = line("vda", 1, 0);
    host.proc("diskstats", &(text(5) + &others));
    let (mut collector, mut heard) = (host.open(named(&["sdb"])), Received::default());
    collector.begin(0);
    heard.sample(&mut collector, 1);
    host.proc("diskstats", &others);
    for at_s in [2, 3] {
        let new = heard.sample(&mut collector, at_s);
        assert_eq!(new.of(Disk).count(), 0);
    }
    host.proc("diskstats", &(text(6) + &others));
    heard.sample(&mut collector, 4);
    assert_eq!(heard.gaps(Disk), [(2, "sdb disappeared")]);
    assert_eq!(heard.shape(Disk).because.as_deref(), Some("sdb appeared"));
    assert_eq!(heard.value(Disk, "sdb", "reads"), None);
    host.proc("diskstats", &(text(16) + &others));
    heard.sample(&mut collector, 5);
    assert_eq!(heard.value(Disk, "sdb", "reads"), Some(10));
}

#[test]
fn a_disk_without_io_so_far_begins_at_zero() {
    let host = Host::whole();
    let idle = "   7  0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    host.proc("diskstats", &(line("vda", 5, 0) + idle));
    let (mut collector, mut heard) = (host.begin(), Received::default());
    heard.sample(&mut collector, 1);
    assert_eq!(heard.rows(Disk), ["vda"]);
    host.proc("diskstats", &(line("vda", 5, 0) + &line("loop0", 30, 1)));
    heard.sample(&mut collector, 2);
    assert_eq!(heard.shape(Disk).because.as_deref(), Some("loop0 appeared"));
    assert_eq!(heard.value(Disk, "loop0", "reads"), Some(30));
    assert_eq!(heard.value(Disk, "loop0", "in_flight"), Some(1));
}

#[test]
fn names_that_the_host_does_not_have_are_reported_once() {
    let host = Host::whole();
    let (mut collector, mut heard) = (
        host.open(named(&["vda", "sdx", "sdy"])),
        Received::default(),
    );
    collector.begin(0);
    for at_s in 1..4 {
        heard.sample(&mut collector, at_s);
    }
    assert_eq!(heard.rows(Disk), ["vda"]);
    assert_eq!(
        heard.gaps(Disk),
        [(1, "/proc/diskstats does not have sdx and sdy")]
    );
}

#[test]
fn disks_are_not_read_without_a_device_in_the_scope() {
    let host = Host::empty();
    let (mut collector, mut heard) = (host.open(named(&[])), Received::default());
    collector.begin(0);
    heard.sample(&mut collector, 1);
    assert_eq!(heard.gaps(Disk), []);
}

#[test]
fn times_wrap_at_32_bits_of_milliseconds_and_other_counters_do_not() {
    let host = Host::whole();
    let before = (1 << 32) - 3;
    host.proc("diskstats", &line("vda", before, 0));
    let (mut collector, mut heard) = (host.begin(), Received::default());
    host.proc("diskstats", &line("vda", 4, 0));
    heard.sample(&mut collector, 1);
    for column in [
        "read_time",
        "discard_time",
        "flush_time",
        "busy_time",
        "queue_time",
    ] {
        assert_eq!(heard.value(Disk, "vda", column), Some(7 * MS), "{column}");
    }
    for column in ["reads", "write_merges", "read_bytes", "flushes"] {
        assert_eq!(heard.value(Disk, "vda", column), None, "{column}");
    }
    let gaps = heard.gaps(Disk);
    assert_eq!(
        gaps,
        [(
            1,
            "counts decreased and restart from this sample: vda (reads, writes, discards, flushes and 6 more)"
        )]
    );
}

#[test]
fn counts_that_decreased_are_unknown_and_reported_once() {
    let host = Host::whole();
    let write = |a, b| host.proc("diskstats", &(line("vda", a, 0) + &line("vdb", b, 3)));
    write(1000, 1000);
    let (mut collector, mut heard) = (host.begin(), Received::default());
    write(5, 8);
    heard.sample(&mut collector, 1);
    assert_eq!(heard.value(Disk, "vda", "reads"), None);
    assert_eq!(heard.value(Disk, "vdb", "queue_time"), None);
    assert_eq!(heard.value(Disk, "vdb", "in_flight"), Some(3));
    write(6, 10);
    heard.sample(&mut collector, 2);
    assert_eq!(heard.value(Disk, "vda", "reads"), Some(1));
    assert_eq!(heard.value(Disk, "vdb", "queue_time"), Some(2 * MS));
    let all = "reads, writes, discards, flushes and 12 more";
    let reason =
        format!("counts decreased and restart from this sample: vda ({all}) and vdb ({all})");
    assert_eq!(heard.gaps(Disk), [(1, reason.as_str())]);
}
