//! A resumed run writes only to the targets on which it began, and as the user permits in this invocation.

use std::path::Path;

use rustix::process::Signal;

use crate::guard::{format, formatted};
use crate::harness::{Home, alive, wait_for};

/// A job that writes to its file or device until a signal ends it.
const WRITES_ON: &str = "[t]\nioengine=psync\nrw=write\nbs=64k\nsize=1m\nruntime=1h\ntime_based\n";

/// Two rounds of a short job, so that a resumed run ends.
const WRITES: &str = "[t]\nioengine=psync\nrw=write\nbs=64k\nsize=1m\nnumber_ios=16\n";

/// Runs `on.fio` with these arguments until it has measured, kills program and node, and waits for their end.
fn killed(home: &Home, arguments: &[&str]) {
    home.file("on.fio", WRITES_ON);
    let running = home.start(&[&["run", "on.fio"], arguments].concat());
    running.wait_until_it_measures(home);
    let node = running.node();
    running.signal(Signal::KILL);
    running.done().exits(-9);
    wait_for("the node's end", || (!alive(node)).then_some(()));
}

/// Resumes the last run with further arguments until it has measured, and ends it.
fn resume_and_end(home: &Home, arguments: &[&str]) {
    let before = attempt(home);
    let resumed = [&["run", "--resume", "last"], arguments].concat();
    let running = home.start(&resumed);
    running.wait_for("another attempt", || (attempt(home) > before).then_some(()));
    running.wait_until_it_measures(home);
    running.signal(Signal::INT);
    running.done().exits(130);
}

/// The number of the latest attempt of the run's only trial.
fn attempt(home: &Home) -> Option<u64> {
    let run = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    run["trials"].as_array()?.last()?["attempt"].as_u64()
}

#[test]
fn permission_to_overwrite_a_device_ends_with_its_invocation() {
    let home = Home::new();
    // The job overwrites all of it: a remaining part of a file system would be refused again.
    let Some(device) = formatted(&home, 1 << 20) else {
        return;
    };
    let path = device.path();
    killed(&home, &["--on", path, "--destroy", path]);
    // Content that iodyno wrote and no other process changed.
    resume_and_end(&home, &[]);
    format(&device).unwrap();
    let before = std::fs::read(device.path()).unwrap();
    home.iodyno(&["run", "--resume", "last"])
        .exits(3)
        .stderr_has("holds ext4")
        .stderr_has("--destroy");
    assert!(std::fs::read(device.path()).unwrap() == before);
    resume_and_end(&home, &["--destroy", path]);
    assert!(std::fs::read(device.path()).unwrap() != before);
}

#[test]
fn permission_to_overwrite_a_disk_image_ends_with_its_invocation() {
    let home = Home::new();
    let image = home.work().join("vm.qcow2");
    let hold = |image: &Path| {
        // In place: the file keeps its inode.
        std::fs::write(image, [&b"QFI\xfb\0\0\0\x03"[..], &[0; 2 << 20]].concat()).unwrap();
    };
    hold(&image);
    let path = image.to_str().unwrap();
    killed(&home, &["--on", path, "--destroy", path]);
    hold(&image);
    let before = std::fs::read(&image).unwrap();
    home.iodyno(&["run", "--resume", "last"])
        .exits(3)
        .stderr_has("holds qcow image")
        .stderr_has("--destroy");
    assert!(std::fs::read(&image).unwrap() == before);
    resume_and_end(&home, &["--destroy", path]);
    assert!(std::fs::read(&image).unwrap() != before);
}

#[test]
fn an_imported_run_writes_only_to_targets_that_are_named_again() {
    let theirs = Home::new();
    let ours = Home::new();
    let precious = ours.file("precious.db", &"a page of a database\n".repeat(1000));
    let before = std::fs::read(&precious).unwrap();
    // The bundle names a file of this host; a bundle that was changed and got a new checksum could name any.
    theirs.file("job.fio", WRITES);
    let on = format!("db={}", precious.display());
    let bundle = theirs.work().join("run.jsonl");
    theirs.iodyno(&["run", "job.fio", "--on", &on]).succeeds();
    let export = ["export", "last", "--output", bundle.to_str().unwrap()];
    theirs.iodyno(&export).succeeds();
    std::fs::write(&precious, &before).unwrap();
    ours.iodyno(&["import", bundle.to_str().unwrap()])
        .succeeds();

    let resume = ["run", "--resume", "last", "--rounds", "2"];
    ours.iodyno(&resume)
        .exits(2)
        .stderr_has("run 1 was imported")
        .stderr_has(&format!("uses: {}, for `db`", precious.display()))
        .stderr_has("add `--on")
        .stderr_has(&on);
    for wrong in ["db=/nowhere", &format!("other={}", precious.display())] {
        ours.iodyno(&[&resume[..], &["--on", wrong]].concat())
            .exits(2)
            .stderr_has("names nothing of run 1")
            .stderr_has(wrong);
    }
    assert_eq!(std::fs::read(&precious).unwrap(), before);
    ours.iodyno(&[&resume[..], &["--on", &on]].concat())
        .succeeds();
    assert_ne!(std::fs::read(&precious).unwrap(), before);
}

#[test]
fn a_file_that_replaced_a_target_is_not_changed() {
    for (name, arguments) in [("disk.img", &["--on", "f=disk.img"][..]), ("t.0.0", &[])] {
        let home = Home::new();
        let path = home.file(name, "");
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
        killed(&home, arguments);
        resume_and_end(&home, &[]);
        // The other file exists before it replaces the target, so it has another inode.
        let other = home.file("other", &"precious\n".repeat(200_000));
        let before = std::fs::read(&other).unwrap();
        std::fs::rename(&other, &path).unwrap();
        home.iodyno(&["run", "--resume", "last"])
            .exits(4)
            .stderr_has("the target has changed")
            .stderr_has(name)
            .stderr_has("inode");
        assert!(std::fs::read(&path).unwrap() == before, "{name}");
        // A missing file is created again.
        std::fs::remove_file(&path).unwrap();
        if arguments.is_empty() {
            resume_and_end(&home, &[]);
        }
    }
}

#[test]
fn a_file_that_took_a_made_up_name_before_a_trial_opened_it_is_not_touched() {
    let home = Home::new();
    let jobs = ["a", "b"];
    for job in jobs {
        home.file(
            &format!("{job}.fio"),
            &WRITES_ON.replace("[t]", &format!("[{job}]")),
        );
    }
    let path = |job: &str| home.work().join(format!("{job}.0.0"));
    let running = home.start(&["run", "a.fio", "b.fio", "--on", ".", "--no-settle"]);
    let first = running.wait_for("a file", || jobs.into_iter().find(|job| path(job).exists()));
    let node = running.node();
    running.signal(Signal::KILL);
    running.done().exits(-9);
    wait_for("the node's end", || (!alive(node)).then_some(()));
    // The other one has never run.
    let other = jobs.into_iter().find(|job| *job != first).unwrap();
    std::fs::write(path(other), "precious").unwrap();
    // The trial that was interrupted fails.
    let _ = std::fs::remove_file(path(first));
    std::fs::create_dir(path(first)).unwrap();
    home.iodyno(&["run", "--resume", "last"])
        .stderr_has("the target has changed")
        .stderr_has(&format!("{other}.0.0 was absent, and is a file of 8 bytes"));
    assert_eq!(std::fs::read(path(other)).unwrap(), b"precious");
}
