use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::fake::FakeHost;

const NEVER: &dyn Fn() -> bool = &|| false;

/// Two devices that have done so many ops, the first with some in flight.
fn diskstats(host: &FakeHost, ops: u64, in_flight: u64) {
    let text = format!(
        "   7       0 loop0 {ops} 0 8 1 0 0 0 0 {in_flight} 0 0\n   8 0 sda {} 0 8 1 0 0 0 0 0 0 0\n",
        ops * 7
    );
    // Whole at every instant, as procfs is.
    host.write("proc/next", &text);
    std::fs::rename(host.path("proc/next"), host.path("proc/diskstats")).unwrap();
}

fn host() -> FakeHost {
    let host = FakeHost::new();
    diskstats(&host, 5, 0);
    host
}

fn wait(host: &FakeHost, at_most_ms: u64, cancelled: &dyn Fn() -> bool) -> Option<Unsettled> {
    let at_most = Duration::from_millis(at_most_ms);
    await_idle(&host.roots, &["loop0".to_owned()], at_most, cancelled)
}

#[test]
fn a_device_that_does_nothing_is_idle_after_half_a_second() {
    let begun = Instant::now();
    assert_eq!(wait(&host(), 60_000, NEVER), None);
    let took = begun.elapsed();
    assert!(took >= QUIET && took < QUIET * 20, "{took:?}");
}

#[test]
fn a_device_is_waited_for_until_it_has_done_nothing_for_half_a_second() {
    let host = host();
    let (begun, looks) = (Instant::now(), Cell::new(0));
    // As often as it is looked at, for the first eight times, it has done something.
    let works = || {
        looks.set(looks.get() + 1);
        if looks.get() <= 8 {
            diskstats(&host, 5 + looks.get(), 0);
        }
        false
    };
    assert_eq!(wait(&host, 60_000, &works), None);
    assert!(begun.elapsed() >= QUIET + 8 * LOOK, "{:?}", begun.elapsed());
}

#[test]
fn a_device_that_stays_at_work_is_told_by_its_name() {
    let busy = host();
    let looks = Cell::new(0);
    let works = || {
        looks.set(looks.get() + 1);
        diskstats(&busy, 5 + looks.get(), 0);
        false
    };
    let hung = host();
    diskstats(&hung, 5, 1);
    for (host, works) in [(&busy, &works as &dyn Fn() -> bool), (&hung, NEVER)] {
        let Some(Unsettled::NotIdle { after_ns, devices }) = wait(host, 700, works) else {
            panic!("it is not idle");
        };
        assert_eq!(devices, ["loop0"], "others are none of the targets'");
        assert!(
            (700_000_000..20_000_000_000).contains(&after_ns),
            "{after_ns}"
        );
    }
}

#[test]
fn less_is_waited_than_it_takes_to_tell_only_where_that_is_asked_for() {
    assert_eq!(wait(&host(), 60, NEVER), None);
}

#[test]
fn storage_without_counters_is_not_waited_for() {
    let begun = Instant::now();
    let host = FakeHost::new();
    assert_eq!(wait(&host, 60_000, NEVER), None);
    let settling = Settling {
        drop_caches: false,
        idle_ns: 60_000_000_000,
    };
    let targets = [
        PathBuf::from("/proc/self/status"),
        PathBuf::from("/no/such/place"),
    ];
    assert_eq!(settle(&host.roots, &settling, &targets, NEVER), []);
    assert!(begun.elapsed() < QUIET);
}

#[test]
fn a_wish_to_stop_is_heard_within_a_moment() {
    let hung = host();
    diskstats(&hung, 5, 1);
    let begun = Instant::now();
    assert_eq!(wait(&hung, 60_000, &|| true), None);
    let stuck = || {
        thread::sleep(Duration::from_secs(20));
        Ok(())
    };
    assert_eq!(within_patience(stuck, &|| true), None);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn caches_are_dropped_after_everything_was_written_out() {
    let host = host();
    host.write("proc/sys/vm/drop_caches", "0\n");
    let settling = Settling {
        drop_caches: true,
        idle_ns: 0,
    };
    assert_eq!(settle(&host.roots, &settling, &[], NEVER), []);
    let written = std::fs::read_to_string(host.path("proc/sys/vm/drop_caches")).unwrap();
    assert_eq!(written, "3\n");
}

#[test]
fn caches_that_may_not_be_dropped_are_told_with_the_reason() {
    let settling = Settling {
        drop_caches: true,
        idle_ns: 0,
    };
    let unsettled = settle(&host().roots, &settling, &[], NEVER);
    let [Unsettled::CachesKept { why }] = unsettled.as_slice() else {
        panic!("{unsettled:?}");
    };
    assert!(why.contains("No such file"), "{why}");
    let text = unsettled[0].to_string();
    assert!(
        text.starts_with("the page cache was not dropped before the trial: "),
        "{text}"
    );
}

#[test]
fn the_devices_of_a_target_are_found_by_its_path() {
    let host = FakeHost::new();
    let folder = tempfile::tempdir().unwrap();
    let number = crate::DeviceNumber::of(rustix::fs::stat(folder.path()).unwrap().st_dev);
    host.disk("loop0", &number.to_string());
    let point = folder.path().canonicalize().unwrap();
    host.mount(
        &number.to_string(),
        &point.display().to_string(),
        "ext4",
        "/dev/loop0",
    );
    diskstats(&host, 5, 1);
    let settling = Settling {
        drop_caches: false,
        idle_ns: 100_000_000,
    };
    let asked = AtomicBool::new(false);
    let cancelled = || {
        asked.store(true, Ordering::Relaxed);
        false
    };
    let unsettled = settle(&host.roots, &settling, &[point], &cancelled);
    assert!(asked.into_inner());
    assert!(
        matches!(unsettled.as_slice(), [Unsettled::NotIdle { devices, .. }] if devices == &["loop0"]),
        "{unsettled:?}"
    );
}

#[test]
fn several_devices_are_told_in_one_sentence() {
    let two = Unsettled::NotIdle {
        after_ns: 2_500_000_000,
        devices: vec!["vda".to_owned(), "sda".to_owned()],
    };
    assert_eq!(
        two.to_string(),
        "vda, sda were not idle before the trial, after 2.5 s of waiting"
    );
}
