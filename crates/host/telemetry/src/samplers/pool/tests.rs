//! All behaviours of a `zpool` command, and that of zfs-fuse if it is running.
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process;

use iodyno_model::SeriesColumn;
use tempfile::TempDir;

use super::super::pool_child::{MAX_BYTES, MAX_REPORTS, READ_SIZE};
use super::*;
use crate::scope::Devices;

const MS: Duration = Duration::from_millis(1);
/// Ends a test that hangs.
const WATCHDOG: Duration = Duration::from_secs(120);
/// The tests do not depend on the load of the host: a command that floods its output is not read again, and no wait
/// ends early.
const PACE: Pace = Pace {
    restart: Duration::from_millis(200),
    end: WATCHDOG,
    window: Duration::from_secs(3600),
};

const ROUNDED: &str = "\
               capacity     operations    bandwidth
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
tank           1K     2K      3      4     5K     6K
  sda           -      -      3      4     5K     6K
----------  -----  -----  -----  -----  -----  -----
";

const PRELUDE: &str = "\
echo $$ $@ >> $D/calls
call=$(($(wc -l < $D/calls)))
gate() { mkfifo $D/$1; read -r go < $D/$1; }
";

fn scope(pools: Pools, every: Duration) -> Scope {
    Scope {
        every,
        devices: Devices::Named(Vec::new()),
        block_trace: false,
        pools,
        processes: Vec::new(),
        servers: Vec::new(),
        stats: Vec::new(),
        own: Vec::new(),
    }
}

/// A host with a `zpool` that is a shell script. `$D` is its folder with a `report`, `$call` counts the calls, and
/// `gate NAME` waits for [`Host::go`].
struct Host {
    folder: TempDir,
}

impl Host {
    fn new(script: &str) -> Host {
        let host = Host {
            folder: tempfile::tempdir().unwrap(),
        };
        let path = host.folder.path().display();
        let sbin = host.folder.path().join("usr/sbin");
        fs::create_dir_all(&sbin).unwrap();
        fs::write(host.folder.path().join("report"), ROUNDED).unwrap();
        // A file that this process writes cannot be executed as long as a child of another thread holds it open.
        let draft = host.folder.path().join("draft");
        fs::write(&draft, format!("#!/bin/sh\nD={path}\n{PRELUDE}{script}")).unwrap();
        let copied = process::Command::new("cp")
            .arg(&draft)
            .arg(sbin.join("zpool"))
            .status();
        assert!(copied.unwrap().success());
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(sbin.join("zpool"), mode).unwrap();
        host
    }

    fn roots(&self) -> Roots {
        Roots::below(self.folder.path())
    }

    fn open(&self) -> Pool {
        let scope = scope(Pools::Named(vec!["tank".into(), "b".into()]), 100 * MS);
        let devices = PoolDevices::new(&self.roots());
        Pool::at_pace(&self.roots(), &scope, &devices, PACE).unwrap()
    }

    /// Lets the script pass a gate, as soon as it waits there.
    fn go(&self, gate: &str) {
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(nonblock);
        // Before that, the file does not exist or is not being read.
        let mut gate = within(|| options.open(self.folder.path().join(gate)).ok());
        gate.write_all(b"\n").unwrap();
    }

    /// Process id and arguments of each call.
    fn calls(&self) -> Vec<(u32, String)> {
        let text = fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        let call = |line: &str| {
            let (pid, arguments) = line.split_once(' ').unwrap();
            (pid.parse().unwrap(), arguments.to_owned())
        };
        text.lines().map(call).collect()
    }
}

fn within<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + WATCHDOG;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "the condition did not become true");
        std::thread::sleep(5 * MS);
    }
}

/// When the last report arrived, or the command started.
fn heard(pool: &Pool) -> Instant {
    let iostat = pool.iostat.as_ref();
    iostat.map_or_else(|_| Instant::now(), |iostat| iostat.state().last_report)
}

/// Reads as if a report had just arrived, whatever the load of this host.
fn read(pool: &mut Pool, readings: &mut Readings) -> Result<Read, String> {
    pool.read_at(heard(pool), readings)
}

fn fresh(pool: &mut Pool) -> Readings {
    let mut readings = Readings::default();
    within(|| matches!(read(pool, &mut readings), Ok(Read::Earlier(_))).then_some(()));
    readings
}

fn failure(pool: &mut Pool) -> String {
    within(|| read(pool, &mut Readings::default()).err())
}

/// Whether the process neither runs nor is a zombie.
fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn uses_each_report_once_and_stops_the_command_at_its_end() {
    let host = Host::new("cat $D/report; gate second; cat $D/report; gate end");
    let mut pool = host.open();
    let mut readings = fresh(&mut pool);
    let names: Vec<&str> = readings.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["tank", "tank/sda"]);
    assert_eq!(readings.columns, SeriesColumn::of(&POOL[..6]));
    let values = [
        Some(1024),
        Some(2048),
        Some(3),
        Some(4),
        Some(5120),
        Some(6144),
    ];
    assert_eq!(readings.values[..6], values);
    assert_eq!(readings.values[6..9], [None, None, Some(3)]);
    assert_eq!(read(&mut pool, &mut readings), Ok(Read::Nothing));
    host.go("second");
    fresh(&mut pool);
    let [(pid, arguments)] = &host.calls()[..] else {
        panic!("{:?}", host.calls());
    };
    assert_eq!(arguments, "iostat -vlqpy tank b 0.1");
    pool.close();
    within(|| is_gone(*pid).then_some(()));
}

/// As [`ROUNDED`], with this number of writes a second.
fn report_of(writes: usize) -> String {
    ROUNDED.replace("      4     5K", &format!(" {writes:6}     5K"))
}

#[test]
fn reports_that_arrive_together_are_all_used_with_equal_parts_of_the_time() {
    let host = Host::new("cat $D/report; gate burst; cat $D/many; gate end");
    let burst: String = [615, 12, 7].map(report_of).concat();
    fs::write(host.folder.path().join("many"), burst).unwrap();
    let mut pool = host.open();
    fresh(&mut pool);
    let first = heard(&pool);
    host.go("burst");
    // The last of them is complete when nothing has followed it for a while.
    within(|| (pool.iostat.as_ref().unwrap().state().reports.len() == 3).then_some(()));
    let last = heard(&pool);
    let mut readings = Readings::default();
    for (writes, thirds) in [(615, 2), (12, 1), (7, 0)] {
        let age = (last - first) / 3 * thirds;
        let Ok(Read::Earlier(ns)) = pool.read_at(last, &mut readings) else {
            panic!("a report is missing: {writes}");
        };
        assert_eq!(readings.values[3], Some(writes));
        // A third of the time is rounded down to a ns.
        assert!(ns.abs_diff(age.as_nanos() as u64) <= 3, "{ns} {age:?}");
    }
    assert_eq!(pool.read_at(last, &mut readings), Ok(Read::Nothing));
    assert!(pool.missed().is_empty());
}

#[test]
fn reports_that_are_lost_are_reported() {
    let host = Host::new("cat $D/many; gate end");
    let many: String = (0..MAX_REPORTS + 5).map(report_of).collect();
    fs::write(host.folder.path().join("many"), many).unwrap();
    let mut pool = host.open();
    within(|| (pool.iostat.as_ref().unwrap().state().dropped == 5).then_some(()));
    let message = pool.missed();
    assert!(
        message.len() == 1 && message[0].starts_with("5 reports of `zpool iostat` are lost"),
        "{message:?}"
    );
    assert!(pool.missed().is_empty(), "it is reported once");
    // The oldest are missing.
    assert_eq!(fresh(&mut pool).values[3], Some(5));
}

#[test]
fn an_interval_without_a_report_is_reported() {
    let script = "case $2 in *p*) echo \"invalid option 'p'\" >&2; exit 2;; esac
        cat $D/report $D/report; gate new; cat $D/more $D/more; gate end";
    let host = Host::new(script);
    let more = ROUNDED.to_owned() + "backup  1K  2K  3  4  5K  6K\n----------  -----\n";
    fs::write(host.folder.path().join("more"), more).unwrap();
    let mut pool = host.open();
    // The first report counts since boot, as expected.
    assert_eq!(fresh(&mut pool).rows.len(), 2);
    assert!(pool.missed().is_empty());
    host.go("new");
    assert_eq!(fresh(&mut pool).rows.len(), 3);
    let message = pool.missed();
    assert!(
        message.len() == 1 && message[0].contains("the next one counts since boot"),
        "{message:?}"
    );
}

#[test]
fn uses_the_options_of_an_old_zpool_and_drops_reports_since_boot() {
    let script = "case $2 in *p*) echo \"invalid option 'p'\" >&2; echo usage: >&2; exit 2;; esac
        sed s/tank/boot/ $D/report; gate second; cat $D/report; gate end";
    let host = Host::new(script);
    let mut pool = host.open();
    host.go("second");
    let readings = fresh(&mut pool);
    assert_eq!(readings.rows[0].name, "tank");
    let arguments: Vec<String> = host.calls().into_iter().map(|call| call.1).collect();
    assert_eq!(
        arguments,
        ["iostat -vlqpy tank b 0.1", "iostat -v tank b 1"]
    );
    let pids = host.calls();
    drop(pool);
    within(|| pids.iter().all(|call| is_gone(call.0)).then_some(()));
}

#[test]
fn a_command_that_ends_is_reported_with_its_message_and_restarted() {
    for (end, words) in [
        (
            "echo \"cannot open 'tank': no such pool\" >&2; exit 1",
            "zpool: cannot open 'tank': no such pool",
        ),
        ("exit 3", "`zpool iostat` ended: exit status: 3"),
        ("exit 0", "`zpool iostat` ended: there is no pool any more"),
        ("kill -KILL $$", "SIGKILL"),
    ] {
        let host = Host::new(&format!(
            "gate begin$call; cat $D/report; gate end$call; {end}"
        ));
        let mut pool = host.open();
        host.go("begin1");
        fresh(&mut pool);
        host.go("end1");
        let message = failure(&mut pool);
        assert!(message.contains(words), "{message}");
        host.go("begin2");
        fresh(&mut pool);
        assert_eq!(host.calls().len(), 2);
    }
}

#[test]
fn a_command_that_continues_without_a_pool_is_reported_with_its_message() {
    let script = "cat $D/report; gate none
        for i in 1 2 3; do echo no pools available >&2; done; gate some; cat $D/report; gate end";
    let host = Host::new(script);
    let mut pool = host.open();
    fresh(&mut pool);
    host.go("none");
    assert_eq!(failure(&mut pool), "zpool: no pools available");
    host.go("some");
    fresh(&mut pool);
    assert_eq!(host.calls().len(), 1);
}

#[test]
fn a_command_that_hangs_or_prints_invalid_text_is_reported_and_can_be_stopped() {
    for talk in [
        "",
        "head -c 300000 /dev/urandom; yes | head -c 300000 | tr -d '\\n'",
    ] {
        let host = Host::new(&format!("{talk}\n: > $D/hangs; exec sleep 1000"));
        let mut pool = host.open();
        let hangs = host.folder.path().join("hangs");
        within(|| hangs.exists().then_some(()));
        let (heard, mut readings) = (heard(&pool), Readings::default());
        // Three of the shortest intervals of an old command, and the grace period.
        let hangs_after = Duration::from_secs(8);
        let message = |span: Duration| {
            let said = format!("has had no usable output for {} s", span.as_secs());
            Err(format!("`zpool iostat` {said}"))
        };
        for (span, expected) in [
            (hangs_after, Ok(Read::Nothing)),
            (hangs_after + MS, message(hangs_after)),
            (10 * hangs_after, message(10 * hangs_after)),
        ] {
            let read = pool.read_at(heard + span, &mut readings);
            assert_eq!(read, expected, "{span:?}");
        }
        pool.close();
        within(|| is_gone(host.calls()[0].0).then_some(()));
    }
}

#[test]
fn a_command_that_floods_its_output_is_read_slowly_and_can_be_stopped() {
    if !Path::new("/proc/self/io").exists() {
        iodyno_testing::skip("this kernel does not count the I/O of processes");
        return;
    }
    for script in [
        "exec yes",
        "exec yes 3>&1 >&2",
        "while :; do cat $D/many; done",
    ] {
        let host = Host::new(script);
        fs::write(host.folder.path().join("many"), ROUNDED.repeat(200)).unwrap();
        let mut pool = host.open();
        let pid = within(|| host.calls().first().map(|call| call.0));
        let written = || -> usize {
            let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
            let mut lines = text.lines();
            let wchar = lines.find_map(|line| line.strip_prefix("wchar: "));
            wchar.unwrap().parse().unwrap()
        };
        // Until it is blocked in a write.
        let (mut before, mut same) = (0, 0);
        within(|| {
            let now = written();
            same = if now == before { same + 1 } else { 0 };
            before = now;
            (now >= MAX_BYTES / 2 && same == 20).then_some(())
        });
        // The bytes that were read, the capacity of a pipe, and its own messages.
        let most = MAX_BYTES + READ_SIZE + 16 * rustix::param::page_size() + 4096;
        assert!(before <= most, "{before} of `{script}`");
        pool.close();
        within(|| is_gone(pid).then_some(()));
    }
}

#[test]
fn a_missing_zpool_is_reported_only_if_a_pool_is_requested() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::below(folder.path());
    let devices = PoolDevices::new(&roots);
    let open = |pools| Pool::open(&roots, &scope(pools, 100 * MS), &devices);
    let mut named = open(Pools::Named(vec!["tank".into()])).unwrap();
    assert_eq!(failure(&mut named), "zpool is not installed");
    named.close();
    assert!(open(Pools::Named(Vec::new())).is_none());
    assert!(open(Pools::All).is_none());
    // zfs-fuse without its statistics.
    fs::create_dir_all(folder.path().join("proc/77")).unwrap();
    fs::write(folder.path().join("proc/77/comm"), "zfs-fuse\n").unwrap();
    assert!(open(Pools::All).is_some());
    fs::remove_dir_all(folder.path().join("proc")).unwrap();
    assert!(open(Pools::All).is_none());
    fs::create_dir_all(folder.path().join("proc/spl/kstat/zfs")).unwrap();
    assert!(open(Pools::All).is_some());
    // A file that exists but is not a program.
    let host = Host::new("");
    let mode = fs::Permissions::from_mode(0o644);
    fs::set_permissions(host.folder.path().join("usr/sbin/zpool"), mode).unwrap();
    let message = failure(&mut host.open());
    assert!(
        message.contains("cannot start") && message.contains("Permission denied"),
        "{message}"
    );
}

/// Creates no pool: uses an existing one.
#[test]
fn existing_pools_of_the_host_are_read() {
    let roots = Roots::host();
    let listed = process::Command::new("zpool")
        .args(["list", "-H", "-o", "health,name"])
        .output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let Some(name) = listed.ok().and_then(|pools| {
        let online = pools.lines().find_map(|line| line.strip_prefix("ONLINE"));
        online.map(|name| name.trim().to_owned())
    }) else {
        iodyno_testing::skip("there is no usable ZFS pool on this host");
        return;
    };
    let devices = PoolDevices::new(&roots);
    let scope = scope(Pools::Named(vec![name.clone()]), 100 * MS);
    let mut pool = Pool::open(&roots, &scope, &devices).unwrap();
    let readings = fresh(&mut pool);
    assert_eq!(readings.rows[0].name, name);
    assert!(readings.rows.len() > 1 && readings.values[0].is_some_and(|alloc| alloc > 0));
    pool.close();
}
