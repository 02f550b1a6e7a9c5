//! Groups of both versions with their own limits and those of their parents.

use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A host with iodyno in the group `/a/b`, with devices 8:0 (`sda`) and 7:3 (`loop3`).
struct Host(TempDir);

impl Host {
    fn new(version: Version) -> Host {
        let host = Host(tempfile::tempdir().unwrap());
        let (mount, group) = match version {
            Version::One => ("cgroup cgroup rw,blkio", "7:blkio:/a/b\n"),
            Version::Two => ("cgroup2 cgroup2 rw", "0::/a/b\n"),
        };
        host.write(
            "proc/self/mountinfo",
            &format!("38 31 0:35 / /sys/fs/cgroup rw - {mount}\n"),
        );
        host.write("proc/self/cgroup", group);
        let block = host.0.path().join("sys/dev/block");
        fs::create_dir_all(&block).unwrap();
        symlink("../../devices/pci0/block/sda", block.join("8:0")).unwrap();
        symlink("../../devices/virtual/block/loop3", block.join("7:3")).unwrap();
        fs::create_dir_all(host.0.path().join("sys/fs/cgroup/a/b")).unwrap();
        host
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn group(&self, path: &str, text: &str) {
        self.write(&format!("sys/fs/cgroup/{path}"), text);
    }

    fn open(&self, devices: Devices) -> Option<Cgroup> {
        Cgroup::open(&Roots::below(self.0.path()), &devices)
    }
}

fn rows(cgroup: &mut Cgroup) -> Vec<(String, Vec<Option<u64>>)> {
    let mut readings = Readings::default();
    assert_eq!(cgroup.read(&mut readings), Ok(Read::Fresh));
    assert_eq!(readings.columns, SeriesColumn::of(CGROUP));
    let names = readings.rows.into_iter().map(|row| row.name);
    names
        .zip(readings.values.chunks(8).map(<[_]>::to_vec))
        .collect()
}

#[test]
fn version_two_counts_in_the_nearest_group_and_applies_the_lowest_limit() {
    let host = Host::new(Version::Two);
    // The controller is not enabled for `b`.
    host.group("a/b/cgroup.type", "domain\n");
    host.group("a/cgroup.type", "domain\n");
    host.group(
        "a/io.stat",
        "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n9:9 rios=1\n254:0\n",
    );
    host.group("a/io.max", "8:0 rbps=max wbps=1000 riops=500 wiops=max\n");
    host.group(
        "io.max",
        "8:0 rbps=70000 wbps=2000 riops=400 wiops=max\n7:3 rbps=max wbps=max riops=9 wiops=max\n",
    );
    let mut cgroup = host.open(Devices::All).unwrap();
    let sda = vec![
        Some(1),
        Some(2),
        Some(4096),
        Some(8192),
        Some(400),
        None,
        Some(70_000),
        Some(1000),
    ];
    let loop3 = vec![
        Some(0),
        Some(0),
        Some(0),
        Some(0),
        Some(9),
        None,
        None,
        None,
    ];
    let expected = [("loop3".to_owned(), loop3), ("sda".to_owned(), sda)];
    assert_eq!(rows(&mut cgroup), expected);
    let mut named = host.open(Devices::Named(vec!["sda".to_owned()])).unwrap();
    assert_eq!(rows(&mut named), expected[1..]);
    let column = |place: usize| SeriesColumn::of(CGROUP)[place].clone();
    assert_eq!(named.began_at(&SeriesRow::new("sda"), &column(0)), Some(0));
    assert_eq!(named.began_at(&SeriesRow::new("sda"), &column(4)), None);
    assert!(host.open(Devices::Named(Vec::new())).is_none());
}

#[test]
fn the_root_group_of_a_host_is_not_used() {
    let host = Host::new(Version::Two);
    host.group("io.stat", "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2\n");
    assert!(host.open(Devices::All).is_none());
    // The root group of a container is its own.
    host.group("cgroup.type", "domain\n");
    assert!(host.open(Devices::All).is_some());
}

#[test]
fn version_one_counts_and_limits_only_in_its_own_group() {
    let host = Host::new(Version::One);
    let counts = |read: u64, write: u64| {
        format!(
            "8:0 Read {read}\n8:0 Write {write}\n8:0 Sync 9\n8:0 Async 9\n8:0 Discard 0\n8:0 Total 9\nTotal 9\n"
        )
    };
    assert!(host.open(Devices::All).is_none());
    host.group("a/b/blkio.throttle.io_serviced", &counts(3, 4));
    host.group("a/b/blkio.throttle.io_service_bytes", &counts(4096, 8192));
    host.group("a/b/blkio.throttle.read_iops_device", "7:3 2000\n");
    host.group("a/b/blkio.throttle.write_bps_device", "8:0 1048576\n");
    // Neither the limit of a parent nor that of the root group applies here.
    host.group("a/blkio.throttle.read_iops_device", "7:3 1\n8:0 1\n");
    host.group("blkio.throttle.read_iops_device", "7:3 1\n");
    let mut cgroup = host.open(Devices::All).unwrap();
    let sda = vec![
        Some(3),
        Some(4),
        Some(4096),
        Some(8192),
        None,
        None,
        None,
        Some(1_048_576),
    ];
    let loop3 = vec![
        Some(0),
        Some(0),
        Some(0),
        Some(0),
        Some(2000),
        None,
        None,
        None,
    ];
    assert_eq!(
        rows(&mut cgroup),
        [("loop3".to_owned(), loop3), ("sda".to_owned(), sda)]
    );
    host.group("a/b/blkio.throttle.io_serviced", "Total 0\n");
    host.group("a/b/blkio.throttle.io_service_bytes", "Total 0\n");
    fs::remove_file(
        host.0
            .path()
            .join("sys/fs/cgroup/a/b/blkio.throttle.write_bps_device"),
    )
    .unwrap();
    assert_eq!(rows(&mut cgroup).len(), 1);
    fs::remove_dir_all(host.0.path().join("sys/fs/cgroup/a/b")).unwrap();
    let error = cgroup.read(&mut Readings::default()).unwrap_err();
    assert!(error.contains("io_serviced: No such file"), "{error}");
}

proptest! {
    #[test]
    fn does_not_panic_on_any_lines(
        text in "([0-9]{1,3}:[0-9]{1,11} (Read|rios=|riops=|rbps=max|) ?[0-9-]{0,21}\n){0,6}\\PC*"
    ) {
        let mut values = BTreeMap::new();
        count(&text, Counts::All, &mut values);
        count(&text, Counts::From(2), &mut values);
        limit(&text, Limits::All, &mut values);
        limit(&text, Limits::Of(7), &mut values);
    }
}
