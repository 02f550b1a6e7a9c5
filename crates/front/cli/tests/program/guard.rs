//! Targets that are refused before anything is written.

use std::path::{Path, PathBuf};

use iodyno_testing::{Loop, Mounted, run};
use rustix::process::{Signal, kill_process};

use crate::harness::{Done, Home, Running, alive, iodyno, skip, stop, wait_for};

/// A blank loop device on a file of the home.
pub(crate) fn blank(home: &Home, length: u64) -> Option<Loop> {
    Loop::blank(&home.work().join("disk.img"), length)
}

/// A device with an ext4 file system.
pub(crate) fn formatted(home: &Home, length: u64) -> Option<Loop> {
    let device = blank(home, length)?;
    format(&device).map_err(skip).ok()?;
    Some(device)
}

/// Makes an ext4 file system.
pub(crate) fn format(device: &Loop) -> Result<String, String> {
    run(&["mkfs.ext4", "-q", "-F", device.path()])
}

const WRITES: &str = "[t]\nrw=write\nbs=64k\nsize=1m\n";

#[test]
fn a_device_with_a_file_system_is_overwritten_only_if_it_is_named() {
    let home = Home::new();
    let Some(device) = formatted(&home, 16 << 20) else {
        return;
    };
    let path = device.path();
    home.file("job.fio", WRITES);
    let on = format!("disk={path}");
    let before = std::fs::read(device.path()).unwrap();
    home.iodyno(&["run", "job.fio", "--on", &on])
        .exits(3)
        .stderr_has("ext4")
        .stderr_has("--destroy");
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
        std::fs::read(device.path()).unwrap(),
        before,
        "a refused device is not touched"
    );
    home.iodyno(&["list"]).succeeds().prints("refused");
    home.iodyno(&["run", "job.fio", "--on", &on, "--destroy", path])
        .succeeds();
    assert_ne!(std::fs::read(device.path()).unwrap(), before);
}

/// A job that writes to a device until it is stopped.
const WRITES_ON: &str = "[t]\nioengine=psync\nrw=write\nbs=64k\nsize=8m\nruntime=1h\ntime_based\n";

#[test]
fn a_device_that_iodyno_wrote_is_used_again_and_one_that_others_wrote_is_refused() {
    let home = Home::new();
    let Some(device) = blank(&home, 16 << 20) else {
        return;
    };
    let path = device.path();
    home.file("job.fio", WRITES);
    for _ in 0..2 {
        home.iodyno(&["run", "job.fio", "--on", path]).succeeds();
    }
    home.iodyno(&[
        "fio",
        "--name=t",
        "--rw=randwrite",
        "--size=2m",
        "--filename",
        path,
    ])
    .succeeds();
    // If it was ended by a signal, its writes are recorded as well.
    home.file("on.fio", WRITES_ON);
    let running = home.start(&["run", "on.fio", "--on", path]);
    running.wait_until_it_measures(&home);
    running.signal(Signal::INT);
    running.done().exits(130);
    home.iodyno(&["run", "job.fio", "--on", path]).succeeds();
    // The state folder of another home does not contain a record of this write.
    let other = Home::new();
    other.file("job.fio", WRITES);
    other
        .iodyno(&["run", "job.fio", "--on", path])
        .exits(3)
        .stderr_has("sampled blocks of 4 KiB are not blank, the first at byte 0")
        .stderr_has("--destroy")
        .stderr_has("blkdiscard");
    // It does not contain records of other programs' writes either.
    std::fs::write(device.path(), "a note").unwrap();
    home.iodyno(&["run", "job.fio", "--on", path]).exits(3);
    home.iodyno(&["run", "job.fio", "--on", path, "--destroy", path])
        .succeeds();
    home.iodyno(&["run", "job.fio", "--on", path]).succeeds();
}

#[test]
fn a_file_that_a_process_of_another_pid_namespace_has_locked_is_refused() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nrw=write\nbs=4k\nsize=64k\nfilename=disk.img\n",
    );
    let path = home.file("disk.img", "");
    let run = || {
        let mut command = home.program(Path::new("unshare"));
        let program = iodyno();
        let destroy = path.to_str().unwrap();
        command.args(["--pid", "--fork", "--mount-proc", program, "run", "job.fio"]);
        command.args(["--destroy", destroy]);
        Running::of(command).done()
    };
    let free = run();
    if free.stderr.contains("unshare") {
        return skip(&free.stderr);
    }
    free.succeeds();
    for lock in [
        rustix::fs::FlockOperation::LockShared,
        rustix::fs::FlockOperation::LockExclusive,
    ] {
        let file = std::fs::File::open(&path).unwrap();
        rustix::fs::flock(&file, lock).unwrap();
        run()
            .exits(3)
            .stderr_has("disk.img is locked by another process");
    }
}

#[test]
fn a_dry_run_examines_devices_as_a_run_does_and_writes_nothing() {
    let home = Home::new();
    let Some(device) = blank(&home, 16 << 20) else {
        return;
    };
    let path = device.path();
    home.file("job.fio", WRITES);
    let dry = |further: &[&str]| {
        let arguments = [&["run", "job.fio", "--dry-run", "--on", path], further].concat();
        home.iodyno(&arguments).succeeds()
    };
    let granted = |done: Done| {
        let done = done.prints(&format!("{path}: ok, overwritten\n"));
        assert!(!done.stderr.contains("would"), "{}", done.stderr);
    };
    granted(dry(&[]));
    assert!(
        std::fs::read(device.path())
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
    home.iodyno(&["run", "job.fio", "--on", path]).succeeds();
    // Its own writes do not count, and the record of them is still valid after a dry run.
    granted(dry(&[]));
    home.iodyno(&["run", "job.fio", "--on", path]).succeeds();
    std::fs::write(device.path(), "a note").unwrap();
    let before = std::fs::read(device.path()).unwrap();
    dry(&[])
        .prints(&format!("{path}: needs --destroy\n"))
        .stderr_has("a run would be refused: cannot write to")
        .stderr_has("sampled blocks of 4 KiB are not blank, the first at byte 0");
    granted(dry(&["--destroy", path]));
    assert!(std::fs::read(device.path()).unwrap() == before);
    // Permission given to a dry run is not kept.
    home.iodyno(&["run", "job.fio", "--on", path]).exits(3);
}

#[test]
fn a_dry_run_reports_a_mounted_device() {
    let home = Home::new();
    let Some(device) = formatted(&home, 16 << 20) else {
        return;
    };
    let point = home.work().join("point");
    std::fs::create_dir(&point).unwrap();
    let path = device.path();
    let Some(mounted) = Mounted::on(&point, &[path]) else {
        return;
    };
    home.file("job.fio", WRITES);
    let done = home.iodyno(&["run", "job.fio", "-n", "--on", path, "--destroy", path]);
    drop(mounted);
    done.succeeds()
        .prints(&format!("{path}: would be refused: "))
        .stderr_has("is mounted on");
}

#[test]
fn writes_of_a_killed_node_are_recorded_but_not_if_its_parent_is_killed_as_well() {
    let home = Home::new();
    let Some(device) = blank(&home, 16 << 20) else {
        return;
    };
    let path = device.path();
    home.file("job.fio", WRITES);
    home.file("on.fio", WRITES_ON);
    let running = home.start(&["run", "on.fio", "--on", path]);
    running.wait_until_it_measures(&home);
    kill_process(running.node(), Signal::KILL).unwrap();
    running.done().exits(4);
    home.iodyno(&["run", "job.fio", "--on", path]).succeeds();
    // A node whose parent was killed records its writes.
    let running = home.start(&["run", "on.fio", "--on", path]);
    let node = running.node();
    running.wait_until_it_measures(&home);
    running.signal(Signal::KILL);
    running.done().exits(-9);
    wait_for("the node's end", || (!alive(node)).then_some(()));
    home.iodyno(&["run", "job.fio", "--on", path]).succeeds();
    // Both are killed. The parent is stopped first, so that it cannot record the writes.
    let running = home.start(&["run", "on.fio", "--on", path]);
    let node = running.node();
    running.wait_until_it_measures(&home);
    stop(running.pid());
    kill_process(node, Signal::KILL).unwrap();
    running.signal(Signal::KILL);
    running.done().exits(-9);
    home.iodyno(&["run", "job.fio", "--on", path])
        .exits(3)
        .stderr_has("iodyno was killed while it wrote to the device")
        .stderr_has("--destroy");
}

#[test]
fn a_disk_image_is_overwritten_only_when_destroy_names_it() {
    let home = Home::new();
    home.file("job.fio", WRITES);
    let image = home.file("vm.qcow2", "QFI\u{fb}");
    std::fs::write(&image, [&b"QFI\xfb\0\0\0\x03"[..], &[0; 2 << 20]].concat()).unwrap();
    let before = std::fs::read(&image).unwrap();
    let path = image.to_str().unwrap();
    home.iodyno(&["run", "job.fio", "--on", path])
        .exits(3)
        .stderr_has("vm.qcow2 holds qcow image at byte 0")
        .stderr_has("to overwrite its content, add `--destroy ");
    // A generated name can lead to it too, and a job that only reads can remove it.
    let folder = home.work().display().to_string();
    let generated = format!("{WRITES}filename_format=vm.qcow2\n");
    home.file("generated.fio", &generated);
    let read = generated.replace("rw=write", "rw=read\nunlink=1");
    assert_ne!(read, generated);
    home.file("unlink.fio", &read);
    for job in ["generated.fio", "unlink.fio"] {
        home.iodyno(&["run", job, "--on", &folder])
            .exits(3)
            .stderr_has("vm.qcow2 holds qcow image at byte 0");
        home.iodyno(&["fio", "--no-store", "--directory", &folder, job])
            .exits(1)
            .stderr_has("vm.qcow2 holds qcow image at byte 0");
    }
    assert_eq!(std::fs::read(&image).unwrap(), before);
    home.iodyno(&["run", "job.fio", "--on", path, "--destroy", path])
        .succeeds();
    // Its content is no longer an image.
    home.iodyno(&["run", "job.fio", "--on", path]).succeeds();
}

#[test]
fn the_store_cannot_be_a_target() {
    let home = Home::new();
    home.file("job.fio", WRITES);
    let store = home.work().join("results.db");
    let store = store.to_str().unwrap();
    home.iodyno(&["--store", store, "list"]);
    for name in ["results.db", "results.db-wal", "results.db-journal", "link"] {
        let _ = std::os::unix::fs::symlink("results.db", home.work().join("link"));
        let job = format!("{WRITES}filename={name}\n");
        home.file("self.fio", &job);
        home.iodyno(&["--store", store, "run", "self.fio"])
            .exits(3)
            .stderr_has("belongs to iodyno's own store");
    }
    home.iodyno(&["--store", store, "list"])
        .succeeds()
        .prints("refused");
}

#[test]
fn a_store_that_was_removed_or_moved_during_the_run_is_reported() {
    for moved in [None, Some("elsewhere.db")] {
        let home = Home::new();
        home.file("on.fio", WRITES_ON);
        let running = home.start(&["run", "on.fio"]);
        running.wait_until_it_measures(&home);
        match moved {
            None => std::fs::remove_file(home.store()).unwrap(),
            Some(name) => std::fs::rename(home.store(), home.work().join(name)).unwrap(),
        }
        running.signal(Signal::INT);
        let done = running.done().exits(130);
        let done = done
            .stderr_has("the store is no longer at")
            .stderr_has(moved.unwrap_or("removed"));
        let last = done.stdout.lines().last().unwrap_or_default();
        assert!(last.contains("is not stored in"), "{last}");
        assert!(!last.contains("Next:"), "{last}");
    }
}

#[test]
fn a_mounted_device_is_always_refused() {
    let home = Home::new();
    let Some(device) = formatted(&home, 16 << 20) else {
        return;
    };
    let point = home.work().join("mnt");
    std::fs::create_dir(&point).unwrap();
    let path = device.path();
    let Some(mounted) = Mounted::on(&point, &[path]) else {
        return;
    };
    home.file("job.fio", WRITES);
    let done = home.iodyno(&["run", "job.fio", "--on", path, "--destroy", path]);
    drop(mounted);
    done.exits(3).stderr_has("mounted");
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
