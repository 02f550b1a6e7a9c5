//! Counters of old and new kernels, wraparound, and the counters of this host.
use std::time::Duration;

use iodyno_model::{DeviceLayer, StackLayer};
use proptest::prelude::*;

use super::*;
use crate::fake::FakeHost;

const OLD: &str = "   8       0 sda 10 1 80 5 20 2 160 7 0 9 12\n";
const WITH_DISCARDS: &str = "   8       0 sda 10 1 80 5 20 2 160 7 0 9 12 3 1 24 4\n";
const WITH_FLUSHES: &str = "   8       0 sda 10 1 80 5 20 2 160 7 0 9 12 3 1 24 4 6 8\n";

fn only(text: &str) -> DiskStats {
    let stats = disk_stats(text);
    assert_eq!(stats.len(), 1);
    stats[0].1
}

#[test]
fn own_reads_are_those_that_were_sent_to_devices() {
    let io = "rchar: 6976\nwchar: 0\nsyscr: 4\nread_bytes: 8192\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n";
    assert_eq!(text::own_read(io), Some(8192));
    assert_eq!(text::own_read("rchar: 6976\n"), None);
    assert_eq!(text::own_read("read_bytes: many\n"), None);
}

#[test]
fn diskstats_of_all_kernel_versions_are_parsed() {
    let expected = |ios, merges, bytes, ticks_ms| DeviceUse {
        name: "sda".to_owned(),
        ios,
        merges,
        bytes,
        ticks_ms,
        busy_ms: 9,
        queue_ms: 12,
    };
    let cases = [
        (
            OLD,
            expected([10, 20, 0, 0], [1, 2, 0], [40_960, 81_920, 0], [5, 7, 0, 0]),
        ),
        (
            WITH_DISCARDS,
            expected(
                [10, 20, 3, 0],
                [1, 2, 1],
                [40_960, 81_920, 12_288],
                [5, 7, 4, 0],
            ),
        ),
        (
            WITH_FLUSHES,
            expected(
                [10, 20, 3, 6],
                [1, 2, 1],
                [40_960, 81_920, 12_288],
                [5, 7, 4, 8],
            ),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(only(text).since(&DiskStats::default(), "sda"), expected);
    }
}

#[test]
fn invalid_lines_are_skipped() {
    for text in [
        "",
        "\n",
        "8 0\n",
        "8 0 sda\n",
        "8 0 sda 1 2 3\n",
        "8 0 sda 1 2 x 4 5 6 7 8 9 10 11\n",
    ] {
        assert!(disk_stats(text).is_empty(), "{text}");
    }
    let newer = format!("{} 99 98\n", WITH_FLUSHES.trim_end());
    assert_eq!(only(&newer), only(WITH_FLUSHES));
    assert_eq!(
        disk_stats("104 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11\n")[0].0,
        "cciss!c0d0"
    );
}

#[test]
fn counters_wrap_or_are_reset() {
    let stats = |ticks: u64| only(&format!("8 0 sda 0 0 0 {ticks} 0 0 0 0 0 0 0\n"));
    for (earlier, later, expected) in [
        (5, 9, 4),
        (9, 9, 0),
        // A 32-bit counter of milliseconds has wrapped.
        (u64::from(u32::MAX) - 2, 4, 7),
        // A new device has the same name.
        (1000, 4, 4),
        (1 << 40, 4, 4),
        (
            u64::from(u32::MAX) - 2,
            u64::from(u32::MAX) - 9,
            u64::from(u32::MAX) - 9,
        ),
    ] {
        let used = stats(later).since(&stats(earlier), "sda");
        assert_eq!(used.ticks_ms[0], expected, "{earlier} {later}");
    }
}

#[test]
fn cpu_times_of_old_and_new_kernels_are_parsed() {
    let all = "cpu  10 2 30 400 5 1 3 7 9 9\ncpu0 1 1 1 1\n";
    let expected = CpuTimes {
        user: 12,
        system: 30,
        idle: 400,
        iowait: 5,
        irq: 4,
        steal: 7,
        nice: 2,
        soft: 3,
        guest: 18,
    };
    assert_eq!(cpu_times(all), Some(expected));
    let old = CpuTimes {
        user: 3,
        system: 3,
        idle: 4,
        nice: 2,
        ..CpuTimes::default()
    };
    assert_eq!(cpu_times("intr 1\ncpu  1 2 3 4\n"), Some(old));
    for text in ["", "cpu0 1 2 3 4", "cpu  1 2 3", "cpu  x 2 3 4"] {
        assert_eq!(cpu_times(text), None, "{text}");
    }
}

#[test]
fn times_of_each_cpu_are_parsed_and_an_invalid_line_is_kept_as_unknown() {
    let text =
        "cpu  10 2 30 400 5 1 3 7 9 9\ncpu0 1 2 3 4\ncpu12 1 x 3 4\ncpufreq 1 2 3 4\nintr 5\n";
    let times: Vec<(&str, Option<u64>)> = times_by_cpu(text)
        .map(|(number, times)| (number, times.map(|times| times.user)))
        .collect();
    assert_eq!(times, [("0", Some(3)), ("12", None)]);
}

#[test]
fn devices_have_the_counters_of_their_kernel_and_an_invalid_line_is_kept_as_unknown() {
    let text = format!("{OLD}8 1 sda1 1 2 3\n{WITH_FLUSHES}");
    let lines: Vec<_> = disk_lines(&text).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((lines[1].0.as_ref(), lines[1].1), ("sda1", None));
    let (old, new) = (lines[0].1.unwrap(), lines[2].1.unwrap());
    assert_eq!(old.ios(), [Some(10), Some(20), None, None]);
    assert_eq!(old.merges(), [Some(1), Some(2), None]);
    assert_eq!(old.bytes(), [Some(40_960), Some(81_920), None]);
    assert_eq!(old.ticks_ms(), [Some(5), Some(7), None, None]);
    assert_eq!((old.busy_ms(), old.queue_ms(), old.in_flight()), (9, 12, 0));
    assert_eq!(new.ios(), [Some(10), Some(20), Some(3), Some(6)]);
    assert_eq!(new.merges(), [Some(1), Some(2), Some(1)]);
    assert_eq!(new.bytes()[2], Some(12_288));
    assert_eq!(new.ticks_ms(), [Some(5), Some(7), Some(4), Some(8)]);
}

#[test]
fn arc_hits_are_parsed() {
    let text = "13 1 0x01 147 39984 1 2\nname  type data\nhits  4  123\niohits 4 9\nmisses 4  45\n";
    assert_eq!(arc_hits(text), Some((123, 45)));
    assert_eq!(arc_hits("hits 4 1\n"), None);
    assert_eq!(arc_hits(""), None);
}

#[test]
fn two_snapshots_give_the_increase_between_them() {
    let host = FakeHost::new();
    let names = ["sda".to_owned(), "gone".to_owned(), "loop9".to_owned()];
    host.write("proc/stat", "cpu  100 0 50 1000 5 0 0 1\n");
    host.write(
        "proc/diskstats",
        &format!("{OLD}8 16 gone 1 1 1 1 1 1 1 1 1 1 1\n"),
    );
    host.write("proc/spl/kstat/zfs/arcstats", "hits 4 10\nmisses 4 5\n");
    let before = Snapshot::take(&host.roots, &names);
    host.write("proc/stat", "cpu  103 0 51 1010 4 0 0 2\n");
    host.write(
        "proc/diskstats",
        "8 0 sda 15 1 88 5 20 2 160 7 0 10 13\n7 9 loop9 2 0 16 1 0 0 0 0 0 1 1\n",
    );
    host.write("proc/spl/kstat/zfs/arcstats", "hits 4 17\nmisses 4 6\n");
    let mut after = Snapshot::take(&host.roots, &names);
    after.at = before.at + Duration::from_secs(2);
    after.wall = before.wall + Duration::from_millis(1900);
    let used = after.since(&before);
    assert_eq!(
        (used.span_ns, used.clock_drift_ns),
        (2_000_000_000, -100_000_000)
    );
    let cpu = [
        used.user_ns,
        used.system_ns,
        used.idle_ns,
        used.iowait_ns,
        used.irq_ns,
        used.steal_ns,
    ];
    assert_eq!(cpu, [30_000_000, 10_000_000, 100_000_000, 0, 0, 10_000_000]);
    assert_eq!(used.arc_hits, Some((7, 1)));
    let devices: Vec<(&str, u64, u64)> = used
        .devices
        .iter()
        .map(|device| (device.name.as_str(), device.ios[0], device.bytes[0]))
        .collect();
    assert_eq!(devices, [("sda", 5, 4096), ("loop9", 2, 8192)]);
}

#[test]
fn the_harness_and_the_clocks_of_this_host_are_measured() {
    let roots = Roots::host();
    let stat = roots::text(roots.proc.join("stat")).unwrap_or_default();
    if cpu_times(&stat).unwrap_or_default() == CpuTimes::default() {
        iodyno_testing::skip("/proc/stat of this host has no CPU times");
        return;
    }
    let harness_ns = || {
        let used = process_use();
        used.user_ns + used.system_ns
    };
    let outer = (Instant::now(), harness_ns());
    let before = Snapshot::take(&roots, &[]);
    let inner = (Instant::now(), harness_ns());
    // Use CPU time until all counters show it.
    let (used, spans, harness) = loop {
        let now = (Instant::now(), harness_ns());
        let used = Snapshot::take(&roots, &[]).since(&before);
        let counted = used.user_ns + used.system_ns + used.idle_ns > 0;
        if counted && now.1 >= inner.1 + 20_000_000 {
            let spans = [now.0 - inner.0, outer.0.elapsed()];
            break (used, spans, [now.1 - inner.1, harness_ns() - outer.1]);
        }
        let begun = outer.0;
        assert!(begun.elapsed().as_secs() < 120, "not counted: {used:?}");
    };
    // The snapshots are read between the readings of this test, with the same clocks.
    let [least, most] = spans.map(|span| span.as_nanos() as u64);
    assert!((least..=most).contains(&used.span_ns), "{used:?}");
    let [least, most] = harness;
    let harness_ns = used.harness_user_ns + used.harness_system_ns;
    assert!((least..=most).contains(&harness_ns), "{used:?}");
    assert!(used.harness_memory > 1 << 20);
    // Read again if the wall clock is set in between.
    let reads_the_wall_clock = || {
        let earliest = SystemTime::now();
        let wall = Snapshot::take(&roots, &[]).wall;
        (earliest..=SystemTime::now()).contains(&wall)
    };
    assert!((0..100).any(|_| reads_the_wall_clock()));
}

#[test]
fn devices_are_listed_top_first_and_once() {
    let device = |name: &str| DeviceLayer {
        name: name.to_owned(),
        ..DeviceLayer::default()
    };
    let target = |layers| TargetInfo {
        stack: layers,
        ..TargetInfo::default()
    };
    let targets = [
        target(vec![
            StackLayer::Other("x".to_owned()),
            StackLayer::Partition(device("sda1")),
            StackLayer::Disk(device("sda")),
        ]),
        target(vec![
            StackLayer::Partition(device("sda2")),
            StackLayer::Disk(device("sda")),
        ]),
    ];
    assert_eq!(devices(&targets), ["sda1", "sda", "sda2"]);
}

proptest! {
    #[test]
    fn any_text_is_read_without_harm(text in "\\PC*") {
        let _ = (disk_stats(&text), cpu_times(&text), arc_hits(&text));
        let _ = (disk_lines(&text).count(), times_by_cpu(&text).count());
    }

    #[test]
    fn lines_of_any_numbers_are_read_without_harm(
        fields in prop::collection::vec(any::<u64>(), 0..24),
        others in prop::collection::vec(any::<u64>(), 0..24),
    ) {
        let line = |fields: &[u64]| {
            let words: Vec<String> = fields.iter().map(u64::to_string).collect();
            words.join(" ")
        };
        let text = |fields: &[u64]| format!("8 0 sda {}\n", line(fields));
        let (earlier, later) = (disk_stats(&text(&fields)), disk_stats(&text(&others)));
        prop_assert_eq!(earlier.len(), usize::from(fields.len() >= 11));
        if let (Some(earlier), Some(later)) = (earlier.first(), later.first()) {
            let _ = later.1.since(&earlier.1, "sda");
        }
        let cpu = cpu_times(&format!("cpu  {}\n", line(&fields)));
        prop_assert_eq!(cpu.is_some(), fields.len() >= 4);
    }
}
