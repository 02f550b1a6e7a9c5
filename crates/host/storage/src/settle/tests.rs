use std::cell::Cell;
use std::fs;

use iodyno_host::fake::FakeHost;

use super::*;

const NEVER: &dyn Fn() -> bool = &|| false;

/// Advances only during a sleep.
#[derive(Default)]
struct SimClock(Cell<Duration>);

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.0.get()
    }

    fn sleep(&self, span: Duration) {
        self.0.set(self.0.get() + span);
    }
}

/// Two devices with this number of ops, the first with some in flight.
fn diskstats(host: &FakeHost, ops: u64, in_flight: u64) {
    let text = format!(
        "   7       0 loop0 {ops} 0 8 1 0 0 0 0 {in_flight} 0 0\n   8 0 sda {} 0 8 1 0 0 0 0 0 0 0\n",
        ops * 7
    );
    host.write("proc/diskstats", &text);
}

fn host() -> FakeHost {
    let host = FakeHost::new();
    diskstats(&host, 5, 0);
    host
}

/// The result of waiting for `loop0`, and how long it took, ms.
fn wait(
    host: &FakeHost,
    at_most_ms: u64,
    cancelled: &dyn Fn() -> bool,
) -> (Option<Unsettled>, u128) {
    wait_after_sync(host, at_most_ms, None, cancelled)
}

/// The same after a sync that began with these counters.
fn wait_after_sync(
    host: &FakeHost,
    at_most_ms: u64,
    synced_since: Option<Vec<(String, DiskStats)>>,
    cancelled: &dyn Fn() -> bool,
) -> (Option<Unsettled>, u128) {
    let clock = SimClock::default();
    let at_most = Duration::from_millis(at_most_ms);
    let devices = ["loop0".to_owned()];
    let roots = &host.roots;
    let unsettled = await_idle(&clock, roots, &devices, at_most, synced_since, cancelled);
    (unsettled, clock.now().as_millis())
}

#[test]
fn a_device_that_moved_nothing_during_the_sync_is_idle_sooner() {
    let host = host();
    let since = || Some(look(&host.roots, &["loop0".to_owned()]));
    let idle = since();
    assert_eq!(
        wait_after_sync(&host, 60_000, idle.clone(), NEVER),
        (None, 150)
    );
    // It does something at the first check.
    let looks = Cell::new(0);
    let works = || {
        looks.set(looks.get() + 1);
        if looks.get() == 1 {
            diskstats(&host, 6, 0);
        }
        false
    };
    assert_eq!(
        wait_after_sync(&host, 60_000, idle, &works),
        (None, 50 + 500)
    );
    // It wrote during the sync.
    let written = since();
    let more = "   7 0 loop0 6 0 8 1 3 0 64 0 0 0 0\n";
    host.write("proc/diskstats", more);
    assert_eq!(wait_after_sync(&host, 60_000, written, NEVER), (None, 500));
}

#[test]
fn an_inactive_device_is_idle_after_half_a_second() {
    assert_eq!(wait(&host(), 60_000, NEVER), (None, 500));
}

#[test]
fn waits_until_a_device_was_inactive_for_half_a_second() {
    let host = host();
    let looks = Cell::new(0);
    // It has done something at each of the first eight checks.
    let works = || {
        looks.set(looks.get() + 1);
        if looks.get() <= 8 {
            diskstats(&host, 5 + looks.get(), 0);
        }
        false
    };
    assert_eq!(wait(&host, 60_000, &works), (None, 8 * 50 + 500));
}

#[test]
fn a_device_that_stays_busy_is_named() {
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
        let not_idle = Unsettled::NotIdle {
            after_ns: 700_000_000,
            // The other devices are not below the targets.
            devices: vec!["loop0".to_owned()],
        };
        assert_eq!(wait(host, 700, works), (Some(not_idle), 700));
    }
}

#[test]
fn waits_too_short_to_detect_idleness_are_only_made_on_request() {
    assert_eq!(wait(&host(), 60, NEVER), (None, 100));
}

#[test]
fn storage_without_counters_is_not_waited_for() {
    let host = FakeHost::new();
    assert_eq!(wait(&host, 60_000, NEVER), (None, 0));
    let clock = SimClock::default();
    let settling = Settling {
        drop_caches: false,
        idle_ns: 60_000_000_000,
    };
    let targets = [
        PathBuf::from("/proc/self/status"),
        PathBuf::from("/no/such/place"),
    ];
    let unsettled = settle_by(&clock, || (), &host.roots, &settling, &targets, NEVER);
    assert_eq!((unsettled, clock.now()), (vec![], Duration::ZERO));
}

#[test]
fn cancellation_takes_effect_at_the_next_check() {
    let hung = host();
    diskstats(&hung, 5, 1);
    assert_eq!(wait(&hung, 60_000, &|| true), (None, 50));
    let looks = Cell::new(0);
    let third = || {
        looks.set(looks.get() + 1);
        looks.get() == 3
    };
    assert_eq!(wait(&hung, 60_000, &third), (None, 150));
}

#[test]
fn hanging_work_is_abandoned_on_cancellation_or_timeout() {
    let (release, released) = mpsc::channel::<()>();
    let stuck = move || {
        let _ = released.recv();
        Ok(())
    };
    assert_eq!(within_patience(stuck, PATIENCE, &|| true), None);
    // It can end only now.
    drop(release);
    let (release, released) = mpsc::channel::<()>();
    let stuck = move || {
        let _ = released.recv();
        Ok(())
    };
    let why = "data were not written out within 0 s".to_owned();
    let kept = Unsettled::CachesKept { why };
    assert_eq!(within_patience(stuck, Duration::ZERO, NEVER), Some(kept));
    drop(release);
}

#[test]
fn caches_are_dropped_after_dirty_data_were_written_back() {
    let host = host();
    host.write("proc/sys/vm/drop_caches", "0\n");
    let file = host.path("proc/sys/vm/drop_caches");
    let (found, at_sync) = mpsc::channel();
    let sync = {
        let file = file.clone();
        move || found.send(fs::read_to_string(file).unwrap()).unwrap()
    };
    let settling = Settling {
        drop_caches: true,
        idle_ns: 0,
    };
    let clock = SimClock::default();
    let unsettled = settle_by(&clock, sync, &host.roots, &settling, &[], NEVER);
    assert_eq!(unsettled, []);
    assert_eq!(at_sync.recv().unwrap(), "0\n", "dropped before the sync");
    assert_eq!(fs::read_to_string(file).unwrap(), "3\n");
}

#[test]
fn caches_that_cannot_be_dropped_are_reported_with_the_reason() {
    let settling = Settling {
        drop_caches: true,
        idle_ns: 0,
    };
    let (clock, host) = (SimClock::default(), host());
    let unsettled = settle_by(&clock, || (), &host.roots, &settling, &[], NEVER);
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
    let number =
        iodyno_host::block::DeviceNumber::of(rustix::fs::stat(folder.path()).unwrap().st_dev);
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
    let looks = Cell::new(0);
    let cancelled = || {
        looks.set(looks.get() + 1);
        false
    };
    let clock = SimClock::default();
    let unsettled = settle_by(&clock, || (), &host.roots, &settling, &[point], &cancelled);
    assert_eq!(looks.get(), 2);
    let not_idle = Unsettled::NotIdle {
        after_ns: 100_000_000,
        devices: vec!["loop0".to_owned()],
    };
    assert_eq!(unsettled, [not_idle]);
}

#[test]
fn several_devices_are_reported_in_one_sentence() {
    let two = Unsettled::NotIdle {
        after_ns: 2_500_000_000,
        devices: vec!["vda".to_owned(), "sda".to_owned()],
    };
    assert_eq!(
        two.to_string(),
        "vda, sda were not idle before the trial, after 2.5 s of waiting"
    );
}
