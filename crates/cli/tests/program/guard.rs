//! Targets that are refused, before anything is written.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Home, root, skip};

/// A loop device of the test's own; detached at the end.
struct Loop(PathBuf);

impl Loop {
    fn new(home: &Home, size: u64) -> Option<Loop> {
        if !root() {
            skip("loop devices need root");
            return None;
        }
        let file = home.work().join("disk.img");
        std::fs::File::create(&file).unwrap().set_len(size).unwrap();
        let attached = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(&file)
            .output();
        match attached {
            Ok(output) if output.status.success() => {
                let name = String::from_utf8(output.stdout).unwrap();
                Some(Loop(PathBuf::from(name.trim())))
            }
            other => {
                skip(&format!("no loop device can be attached: {other:?}"));
                None
            }
        }
    }

    fn format(&self) -> bool {
        let made = Command::new("mkfs.ext4")
            .arg("-q")
            .arg("-F")
            .arg(&self.0)
            .status();
        made.is_ok_and(|status| status.success())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

const WRITES: &str = "[t]\nrw=write\nbs=64k\nsize=1m\n";

#[test]
fn a_device_with_a_file_system_gives_way_only_to_its_own_name() {
    let home = Home::new();
    let Some(device) = Loop::new(&home, 16 << 20) else {
        return;
    };
    if !device.format() {
        return skip("no mkfs.ext4 here");
    }
    let path = device.0.to_str().unwrap();
    home.file("job.fio", WRITES);
    let on = format!("disk={path}");
    let before = std::fs::read(&device.0).unwrap();
    home.iodyno(&["run", "job.fio", "--on", &on])
        .exits(3)
        .tells("ext4")
        .tells("--destroy");
    home.iodyno(&[
        "run",
        "job.fio",
        "--on",
        &on,
        "--destroy",
        "/dev/loop-of-others",
    ])
    .exits(3);
    assert_eq!(
        std::fs::read(&device.0).unwrap(),
        before,
        "a refused device is not touched"
    );
    home.iodyno(&["list"]).succeeds().prints("refused");
    home.iodyno(&["run", "job.fio", "--on", &on, "--destroy", path])
        .succeeds();
    assert_ne!(std::fs::read(&device.0).unwrap(), before);
}

#[test]
fn a_mounted_device_never_gives_way() {
    let home = Home::new();
    let Some(device) = Loop::new(&home, 16 << 20) else {
        return;
    };
    if !device.format() {
        return skip("no mkfs.ext4 here");
    }
    let point = home.work().join("mnt");
    std::fs::create_dir(&point).unwrap();
    let mounted = Command::new("mount").arg(&device.0).arg(&point).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skip("cannot mount");
    }
    home.file("job.fio", WRITES);
    let path = device.0.to_str().unwrap();
    let done = home.iodyno(&["run", "job.fio", "--on", path, "--destroy", path]);
    Command::new("umount").arg(&point).status().unwrap();
    done.exits(3).tells("mounted");
}

#[test]
fn the_disk_below_the_root_is_refused_even_for_reading_nothing_of_it_is_written() {
    let home = Home::new();
    let Some(disk) = root_disk() else {
        return skip("the root file system lies on no block device");
    };
    home.file("job.fio", WRITES);
    let path = disk.to_str().unwrap();
    let done = home
        .iodyno(&["run", "job.fio", "--on", path, "--destroy", path])
        .exits(3);
    assert!(done.stderr.contains(path), "{}", done.stderr);
}

fn root_disk() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let source = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (source, point) = (fields.next()?, fields.next()?);
        (point == "/" && source.starts_with("/dev/")).then(|| PathBuf::from(source))
    })?;
    source.exists().then_some(source)
}
