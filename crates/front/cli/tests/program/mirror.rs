//! Mirrors on files, served by NBD to a client that checks every byte.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate};
use rustix::process::Signal;

use iodyno_testing::Mounted;

use crate::harness::{Home, Running, skip, wait_for};
use crate::mirror_ext4::attach;
use crate::nbd::{FUA, MIB, client, kills, leg, mirror, noise, serve, stop};

/// Serves the mirror of two legs.
const BOTH: [&str; 8] = [
    "serve", "mirror", "--socket", "s", "--leg", "a", "--leg", "b",
];

/// The data of a leg.
fn data(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()[MIB as usize..].to_vec()
}

#[test]
fn what_was_written_is_on_every_leg_and_is_read_by_each_policy() {
    let home = Home::new();
    let paths = ["a", "b", "c"].map(|name| leg(&home, name, 24));
    let created = mirror(&home, &["create", "a", "b", "c"]).succeeds();
    assert!(created.stdout.contains("23 MiB on 3 legs"), "{created:?}");
    let mut all = vec![0; 23 * MIB as usize];
    let scratch = File::create(home.work().join("scratch")).unwrap();
    scratch.set_len(MIB).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let holes = fallocate(&scratch, punch, 0, 4096).is_ok();
    for (round, policy) in [
        "adaptive",
        "modulo",
        "least-pending",
        "openzfs",
        "openzfs-nonrot",
        "md-raid1",
        "round-robin",
        "power-of-two",
    ]
    .iter()
    .enumerate()
    {
        let running = serve(&home, &["c", "a", "b"], &["--policy", policy]);
        let mode = home
            .work()
            .join("s")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = client(&home);
        assert_eq!(client.length, 23 * MIB);
        assert!(client.read(0, 23 * MIB as usize) == all, "{policy}");
        // Of all lengths, over borders of regions, and the last sector.
        let seed = round as u64 * 100;
        for (number, (offset, length)) in [
            (512, 512),
            (MIB - 512, 4096),
            (3 * MIB, 5 * MIB + 512),
            (23 * MIB - 512, 512),
        ]
        .into_iter()
        .enumerate()
        {
            let bytes = noise(seed + number as u64, length as usize);
            let flags = if number == 1 { FUA } else { 0 };
            client.try_write(flags, offset, &bytes).unwrap();
            all[offset as usize..][..length as usize].copy_from_slice(&bytes);
        }
        // Zeros replace a part of them.
        let zeros = (4 * MIB + 512, 2 * MIB as usize + 1024);
        client.call(FUA, 6, zeros.0, zeros.1, &[]).unwrap().unwrap();
        all[zeros.0 as usize..][..zeros.1].fill(0);
        let trimmed = (16 * MIB, 3 * MIB as usize);
        client.write(trimmed.0, &noise(seed, trimmed.1));
        client.flush();
        let stored = |path: &PathBuf| path.metadata().unwrap().blocks();
        let before = paths.each_ref().map(stored);
        client
            .call(FUA, 4, trimmed.0, trimmed.1, &[])
            .unwrap()
            .unwrap();
        all[trimmed.0 as usize..][..trimmed.1].fill(0);
        if holes {
            let after = paths.each_ref().map(stored);
            assert!(
                before
                    .iter()
                    .zip(after)
                    .all(|(before, after)| after < *before)
            );
        }
        client.flush();
        assert!(client.read(0, 23 * MIB as usize) == all, "{policy}");
        // The client is still connected.
        stop(running);
        for path in &paths {
            assert!(data(path) == all, "{}", path.display());
        }
        let status = mirror(&home, &["status", "--json", "a", "b", "c"])
            .exits(0)
            .json();
        assert_eq!(status["marked_regions"], 0);
        assert_eq!(status["redundant"], true);
    }
    assert!(!home.work().join("s").exists());
}

#[test]
fn legs_that_are_not_blank_are_copied_to_unless_they_are_assumed_to_be_equal() {
    let home = Home::new();
    let path = leg(&home, "a", 9);
    leg(&home, "b", 9);
    std::fs::write(&path, noise(3, 9 * MIB as usize)).unwrap();
    let create = ["create", "a", "b", "--destroy", "a"];
    mirror(&home, &create).succeeds().prints("is copied to");
    // A leg that is behind also describes the mirror.
    let status = mirror(&home, &["status", "b"]).exits(1);
    let status = status.stderr_has("in sync").prints("behind from byte 0");
    status
        .prints("not given")
        .prints("unknown number of regions");
    let again = [&create[..], &["--destroy", "b", "--assume-clean"]].concat();
    mirror(&home, &again).succeeds();
    mirror(&home, &["status", "a", "b"]).exits(0);
}

#[test]
fn a_leg_that_was_left_out_is_copied_to_and_split_brain_is_refused() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let missing = home
        .iodyno(&["serve", "mirror", "--socket", "s", "--leg", "a"])
        .exits(2);
    assert!(missing.stderr.contains("--degraded"), "{missing:?}");
    let copy = std::fs::read(&paths[1]).unwrap();
    let running = serve(&home, &["a"], &["--degraded"]);
    let bytes = noise(1, 5 * MIB as usize);
    client(&home).write(MIB, &bytes);
    stop(running);
    let status = mirror(&home, &["status", "a", "b"]).exits(1);
    assert!(status.stdout.contains("behind"), "{status:?}");
    let running = serve(&home, &["a", "b"], &[]);
    running.wait_until_it_tells("`b` is in sync");
    stop(running);
    assert!(data(&paths[0]) == data(&paths[1]));
    assert!(data(&paths[1])[MIB as usize..][..bytes.len()] == bytes);
    mirror(&home, &["scrub", "a", "b"])
        .exits(0)
        .prints("are equal");
    // An old copy of a leg is not taken for the leg.
    std::fs::write(&paths[1], &copy).unwrap();
    let old = home.iodyno(&BOTH).exits(2);
    assert!(old.stderr.contains("`b`"), "{old:?}");
    // Each is written alone.
    for name in ["a", "b"] {
        let running = serve(&home, &[name], &["--degraded"]);
        client(&home).write(0, &noise(7, 512));
        stop(running);
    }
    let split = home.iodyno(&BOTH).exits(2);
    assert!(split.stderr.contains("split brain"), "{split:?}");
}

#[test]
fn a_leg_in_sync_from_before_the_last_start_is_refused() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    for kill in [false, true] {
        let copy = std::fs::read(&paths[1]).unwrap();
        let running = serve(&home, &["a", "b"], &[]);
        client(&home).write(MIB, &noise(u64::from(kill), 512));
        end(running, kill);
        let right = std::fs::read(&paths[1]).unwrap();
        std::fs::write(&paths[1], &copy).unwrap();
        let old = home.iodyno(&BOTH).exits(2);
        assert!(old.stderr.contains("`b`"), "{old:?}");
        mirror(&home, &["status", "a", "b"]).exits(1);
        std::fs::write(&paths[1], &right).unwrap();
    }
}

/// The server is killed if `kill`, otherwise stopped.
fn end(running: Running, kill: bool) {
    if kill {
        running.signal(Signal::KILL);
        running.done();
    } else {
        stop(running);
    }
}

/// Changes to the file of a leg while the mirror is served without it.
type Away = fn(&File);

/// Shortened, and extended again.
const CUT: Away = |file| {
    file.set_len(4 * MIB).unwrap();
    file.set_len(9 * MIB).unwrap();
};

/// Overwritten.
const OVERWRITTEN: Away = |file| {
    file.write_all_at(&noise(77, MIB as usize), 6 * MIB)
        .unwrap()
};

#[test]
fn a_leg_that_was_not_there_at_a_start_is_copied_to_completely_when_it_returns() {
    for (away, kill) in [
        (CUT, false),
        (CUT, true),
        (OVERWRITTEN, false),
        (OVERWRITTEN, true),
    ] {
        let home = Home::new();
        let paths = ["a", "b"].map(|name| leg(&home, name, 9));
        mirror(&home, &["create", "a", "b"]).succeeds();
        let running = serve(&home, &["a", "b"], &[]);
        let mut bytes = noise(31, 8 * MIB as usize);
        client(&home).write(0, &bytes);
        stop(running);
        let running = serve(&home, &["a"], &["--degraded"]);
        // It is recorded by the time the server reports that it serves.
        let file = OpenOptions::new().write(true).open(&paths[1]).unwrap();
        away(&file);
        bytes[..4096].copy_from_slice(&noise(32, 4096));
        client(&home).write(0, &bytes[..4096]);
        end(running, kill);
        let running = serve(&home, &["b", "a"], &[]);
        running.wait_until_it_tells("`b` is in sync");
        stop(running);
        for path in &paths {
            assert!(data(path) == bytes, "{}", path.display());
        }
        // Each of them alone has everything.
        let running = serve(&home, &["b"], &["--degraded"]);
        assert!(client(&home).read(0, bytes.len()) == bytes);
        stop(running);
    }
}

#[test]
fn a_leg_that_is_too_short_at_a_start_is_copied_to_completely_after_a_start_without_it() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let running = serve(&home, &["a", "b"], &[]);
    let bytes = noise(33, 8 * MIB as usize);
    client(&home).write(0, &bytes);
    stop(running);
    let file = OpenOptions::new().write(true).open(&paths[1]).unwrap();
    file.set_len(4 * MIB).unwrap();
    home.iodyno(&BOTH)
        .exits(2)
        .stderr_has("`b` became too short")
        .stderr_has("start the mirror without it");
    stop(serve(&home, &["a"], &["--degraded"]));
    mirror(&home, &["status", "a"]).prints("behind from byte 0");
    // It cannot be started with before it is long enough.
    home.iodyno(&BOTH).exits(2);
    file.set_len(9 * MIB).unwrap();
    let running = serve(&home, &["a", "b"], &[]);
    running.wait_until_it_tells("`b` is in sync");
    stop(running);
    for path in &paths {
        assert!(data(path) == bytes, "{}", path.display());
    }
}

#[test]
fn legs_in_use_other_content_and_other_hosts_are_refused() {
    let home = Home::new();
    leg(&home, "a", 9);
    leg(&home, "b", 9);
    home.file("text", &"data".repeat(1 << 20));
    let used = mirror(&home, &["create", "a", "text"]).exits(3);
    assert!(used.stderr.contains("--destroy text"), "{used:?}");
    mirror(&home, &["create", "a", "a"])
        .exits(2)
        .stderr_has("given twice");
    mirror(&home, &["create", "a", "b"]).succeeds();
    mirror(&home, &["create", "a", "b"])
        .exits(3)
        .stderr_has("--destroy");
    let serve_a = [
        "serve", "mirror", "--socket", "t", "--leg", "a", "--leg", "b",
    ];
    home.iodyno(&["serve", "mirror", "--socket", "t", "--leg", "text"])
        .exits(2)
        .stderr_has("not a leg");
    home.iodyno(&[&serve_a[..3], &["x", "--tcp", "0.0.0.0:1"], &serve_a[4..]].concat())
        .exits(2);
    let open = [
        "serve",
        "mirror",
        "--tcp",
        "0.0.0.0:0",
        "--leg",
        "a",
        "--leg",
        "b",
    ];
    home.iodyno(&open).exits(2).stderr_has("--public");
    for (flag, value, example) in [
        ("--tcp", "localhost", "such as `127.0.0.1:10809`"),
        ("--queues", "x", "from 0 to 63, such as `4`"),
        ("--queues", "64", "from 0 to 63"),
    ] {
        home.iodyno(&["serve", "mirror", "--leg", "a", flag, value])
            .exits(2)
            .stderr_has(example);
    }
    let running = serve(&home, &["a", "b"], &[]);
    home.iodyno(&serve_a).exits(3).stderr_has("in use");
    let create = ["create", "a", "b", "--destroy", "a", "--destroy", "b"];
    mirror(&home, &create).exits(3).stderr_has("in use");
    // Benchmarks do not write to legs, in use or not.
    let fio = ["fio", "--name=t", "--rw=write", "--size=1m", "--filename=a"];
    home.iodyno(&fio)
        .exits(1)
        .stderr_has("leg of an iodyno mirror");
    client(&home).write(0, &noise(3, 4096));
    stop(running);
    mirror(&home, &["scrub", "a", "b"]).exits(0);
}

#[test]
fn a_client_beyond_the_limit_is_refused_and_reported_once() {
    let home = Home::new();
    leg(&home, "a", 9);
    mirror(&home, &["create", "a"]).succeeds();
    let running = serve(&home, &["a"], &[]);
    let connect = || crate::harness::connect(&home.work().join("s")).unwrap();
    let greeted = |stream: &mut UnixStream| stream.read_exact(&mut [0; 18]).is_ok();
    let mut clients: Vec<UnixStream> = (0..64).map(|_| connect()).collect();
    assert!(clients.iter_mut().all(greeted));
    assert!(!greeted(&mut connect()) && !greeted(&mut connect()));
    running.wait_until_it_tells("a client was refused: 64 are connected");
    clients.pop();
    let another = wait_for("a place", || {
        Some(connect()).filter(|stream| greeted(&mut stream.try_clone().unwrap()))
    });
    drop((another, clients));
    let done = stop(running);
    assert_eq!(done.stderr.matches("was refused").count(), 1, "{done:?}");
}

#[test]
fn legs_are_added_replaced_and_removed() {
    let home = Home::new();
    let paths = ["a", "b", "c", "d"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a"]).succeeds();
    let running = serve(&home, &["a"], &[]);
    let bytes = noise(11, 7 * MIB as usize);
    client(&home).write(0, &bytes);
    stop(running);
    mirror(&home, &["add", "--leg", "a", "b"])
        .succeeds()
        .prints("2 legs, 1 behind");
    // The only leg that is in sync stays.
    mirror(&home, &["remove", "--leg", "b", "a"])
        .exits(2)
        .stderr_has("in sync");
    let resync = |legs: &[&str], new: &str| {
        let running = serve(&home, legs, &[]);
        running.wait_until_it_tells(&format!("`{new}` is in sync"));
        stop(running);
    };
    resync(&["a", "b"], "b");
    assert!(data(&paths[1])[..bytes.len()] == bytes);
    mirror(&home, &["replace", "--leg", "b", "a", "c"])
        .succeeds()
        .prints("2 legs, 1 behind");
    home.iodyno(&[
        "serve", "mirror", "--socket", "s", "--leg", "a", "--leg", "b", "--leg", "c",
    ])
    .exits(2)
    .stderr_has("`a`");
    resync(&["b", "c"], "c");
    // A leg is lost and named by its UUID.
    std::fs::remove_file(&paths[1]).unwrap();
    mirror(&home, &["replace", "--leg", "c", "b", "d"])
        .exits(2)
        .stderr_has("name it by its UUID");
    let status = mirror(&home, &["status", "--json", "c"]).exits(1).json();
    let lost = status["legs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|leg| leg["path"].is_null())
        .unwrap();
    let lost = lost["uuid"].as_str().unwrap();
    mirror(
        &home,
        &[
            "remove",
            "--leg",
            "c",
            "00000000-0000-7000-8000-000000000000",
        ],
    )
    .exits(2);
    let replace = ["replace", "--degraded", "--leg", "c", lost, "d"];
    mirror(&home, &replace).succeeds();
    resync(&["c", "d"], "d");
    mirror(&home, &["remove", "--leg", "d", "c"])
        .succeeds()
        .prints("1 leg, 0 behind");
    let running = serve(&home, &["d"], &[]);
    assert!(client(&home).read(0, bytes.len()) == bytes);
    stop(running);
}

#[test]
fn legs_are_added_replaced_removed_and_compared_while_they_are_served() {
    let home = Home::new();
    let paths = ["a", "b", "c", "d"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let running = serve(&home, &["a", "b"], &[]);
    let mut client = client(&home);
    let mut bytes = noise(21, 8 * MIB as usize);
    client.write(0, &bytes);
    let status = mirror(&home, &["status", "a"]).exits(0);
    status.prints(&format!("served by process {}", running.pid()));
    mirror(&home, &["add", "--leg", "b", "c"])
        .succeeds()
        .prints("c` was added");
    running.wait_until_it_tells("c` is in sync");
    for (number, part) in bytes.chunks_mut(MIB as usize).enumerate() {
        part.copy_from_slice(&noise(100 + number as u64, MIB as usize));
        client.write(number as u64 * MIB, part);
    }
    // It ends when the new leg is in sync.
    mirror(&home, &["replace", "--leg", "a", "b", "d"])
        .succeeds()
        .prints("b` was removed");
    client.write(512, &bytes[..4096]);
    bytes.copy_within(..4096, 512);
    mirror(&home, &["remove", "--leg", "a", "c"])
        .succeeds()
        .prints("c` was removed");
    mirror(&home, &["remove", "--leg", "a", "c"])
        .exits(2)
        .stderr_has("no leg");
    mirror(&home, &["scrub", "a"]).exits(0).prints("are equal");
    client.flush();
    let file = OpenOptions::new().write(true).open(&paths[3]).unwrap();
    file.write_all_at(b"wrong", MIB + 5).unwrap();
    drop(file);
    mirror(&home, &["scrub", "d"])
        .exits(1)
        .prints("1 range")
        .stderr_has("byte 0");
    mirror(&home, &["scrub", "d", "--from", "a"])
        .exits(1)
        .prints("overwritten");
    mirror(&home, &["scrub", "d"]).exits(0);
    mirror(&home, &["remove", "--leg", "a", "d"]).succeeds();
    mirror(&home, &["remove", "--leg", "a", "a"])
        .exits(2)
        .stderr_has("the leg is needed");
    mirror(&home, &["add", "--leg", "a", "b", "--destroy", "b"]).succeeds();
    running.wait_until_it_tells("b` is in sync");
    assert!(client.read(0, bytes.len()) == bytes);
    stop(running);
    mirror(&home, &["status", "a", "b"]).exits(0);
    assert!(data(&paths[0]) == bytes);
    assert!(data(&paths[1]) == bytes);
    // The removed file is refused as a leg.
    for name in ["c", "d"] {
        home.iodyno(&["serve", "mirror", "--socket", "s", "--leg", name])
            .exits(2)
            .stderr_has("not a leg");
    }
}

#[test]
fn a_leg_whose_file_was_made_shorter_is_dropped_and_its_content_read_from_another_one() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let running = serve(&home, &["a", "b"], &["--policy", "round-robin"]);
    let mut client = client(&home);
    let bytes = noise(5, 8 * MIB as usize);
    client.write(0, &bytes);
    client.flush();
    // Reads beyond the end of the file fail.
    OpenOptions::new()
        .write(true)
        .open(&paths[0])
        .unwrap()
        .set_len(4 * MIB)
        .unwrap();
    for offset in (0..8 * MIB).step_by(64 << 10) {
        for _ in 0..2 {
            let at = offset as usize;
            assert!(client.read(offset, 64 << 10) == bytes[at..at + (64 << 10)]);
        }
    }
    running.wait_until_it_tells("failed and is behind (it became shorter");
    stop(running);
    assert_eq!(paths[0].metadata().unwrap().len(), 4 * MIB);
    assert!(data(&paths[1]) == bytes);
}

#[test]
fn a_leg_that_became_shorter_and_longer_again_is_copied_to_completely() {
    for found_by_a_write in [true, false] {
        let home = Home::new();
        let paths = ["a", "b"].map(|name| leg(&home, name, 9));
        mirror(&home, &["create", "a", "b"]).succeeds();
        let running = serve(&home, &["a", "b"], &["--policy", "round-robin"]);
        let mut client = client(&home);
        let mut bytes = noise(5, 8 * MIB as usize);
        client.write(0, &bytes);
        client.flush();
        let file = OpenOptions::new().write(true).open(&paths[0]).unwrap();
        file.set_len(4 * MIB).unwrap();
        if found_by_a_write {
            bytes[..4096].copy_from_slice(&noise(6, 4096));
            client.write(0, &bytes[..4096]);
        } else {
            // Each leg has a turn.
            for _ in 0..2 {
                assert!(client.read(7 * MIB, 4096) == bytes[7 << 20..][..4096]);
            }
        }
        running.wait_until_it_tells("`a` failed and is behind (it became shorter");
        mirror(&home, &["add", "--leg", "b", "a"]).exits(2);
        file.set_len(9 * MIB).unwrap();
        mirror(&home, &["add", "--leg", "b", "a"]).prints("was taken back");
        running.wait_until_it_tells("`a` is in sync");
        stop(running);
        for path in &paths {
            assert!(data(path) == bytes, "{}", path.display());
        }
    }
}

#[test]
fn the_status_of_a_mirror_that_halted_is_what_is_stored() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let running = serve(&home, &["a", "b"], &[]);
    let mut client = client(&home);
    client.write(0, &noise(5, 8 * MIB as usize));
    client.flush();
    let stored = running.wait_for("an idle tick, after which nothing is recorded", || {
        let status = mirror(&home, &["status", "--json", "a"]).exits(0).json();
        (status["marked_regions"] == 0).then_some(status)
    });
    // None of them can record that the other one became shorter.
    for path in &paths {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(4 * MIB).unwrap();
    }
    running.wait_until_it_tells("error: no leg accepts the record");
    let error = client.call(0, 1, 0, 4096, &noise(6, 4096)).unwrap();
    assert_eq!(error.unwrap_err(), 5);
    let status = mirror(&home, &["status", "b"]).exits(1);
    let status = status.prints("halted: no leg accepted the record");
    assert!(!status.stdout.contains("behind"), "{status:?}");
    let halted = mirror(&home, &["status", "--json", "a"]).exits(1).json();
    assert_eq!(halted["served"]["halted"], true);
    assert_eq!(halted["generation"], stored["generation"]);
    let dropped = halted["legs"].as_array().unwrap();
    for leg in dropped {
        assert_eq!(leg["state"], "in sync");
        let problem = leg["problem"].as_str().unwrap();
        assert!(problem.starts_with("it became shorter"), "{problem}");
    }
    let online = dropped.iter().filter(|leg| leg["online"] == true);
    assert_eq!(online.count(), 1, "{halted}");
    mirror(&home, &["add", "--leg", "a", "a"]).exits(2);
    running.signal(Signal::TERM);
    running.done().exits(4);
}

#[test]
fn what_a_leg_fails_to_read_is_read_from_another_one_and_rewritten() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    let Some(device) = attach(&paths[0]) else {
        return skip("a device that fails reads needs root, losetup and loop devices");
    };
    let created = ["create", device.path(), "b", "--destroy", device.path()];
    mirror(&home, &created).succeeds();
    let running = serve(&home, &[device.path(), "b"], &["--policy", "round-robin"]);
    running.wait_until_it_tells("is in sync");
    let mut client = client(&home);
    let bytes = noise(5, 8 * MIB as usize);
    client.write(0, &bytes);
    client.flush();
    // A loop device fails reads beyond the end of its file, until they are written.
    let length = 64 << 10;
    let offset = 8 * MIB - length;
    let file = OpenOptions::new().write(true).open(&paths[0]).unwrap();
    file.set_len(9 * MIB - length).unwrap();
    // Each leg has a turn.
    for _ in 0..2 {
        assert!(client.read(offset, length as usize) == bytes[offset as usize..]);
    }
    running.wait_until_it_tells(&format!(
        "`{}` failed to read {length} bytes at byte {offset} and was rewritten",
        device.path()
    ));
    let status = mirror(&home, &["status", device.path(), "b"]).exits(0);
    assert!(!status.stdout.contains("behind"), "{status:?}");
    stop(running);
    drop(device);
    for path in &paths {
        assert!(data(path) == bytes, "{}", path.display());
    }
}

#[test]
fn ranges_that_differ_are_found_and_overwritten_by_a_scrub() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let running = serve(&home, &["a", "b"], &[]);
    let mut client = client(&home);
    let bytes = noise(5, 8 * MIB as usize);
    client.write(0, &bytes);
    client.flush();
    stop(running);
    assert!(data(&paths[0]) == bytes);
    // Without checksums, the user decides which leg is right.
    let file = OpenOptions::new().write(true).open(&paths[0]).unwrap();
    file.write_all_at(b"wrong", 3 * MIB).unwrap();
    drop(file);
    mirror(&home, &["scrub", "a", "b"])
        .exits(1)
        .prints("1 range")
        .stderr_has("byte 2097152");
    mirror(&home, &["scrub", "a", "b"]).exits(1);
    mirror(&home, &["scrub", "a", "b", "--from", "./b"])
        .exits(1)
        .prints("overwritten");
    mirror(&home, &["scrub", "a", "b"]).exits(0);
    assert!(data(&paths[0]) == bytes);
}

#[test]
fn a_leg_on_a_full_disk_is_dropped_and_copied_to_later() {
    let home = Home::new();
    let Some(small) = mirror_with_a_small_leg(&home, "8m") else {
        return;
    };
    let running = serve(&home, &["a", "small/b"], &[]);
    let mut first = client(&home);
    let bytes = noise(9, 32 * MIB as usize);
    for (number, part) in bytes.chunks(MIB as usize).enumerate() {
        first.write(number as u64 * MIB, part);
    }
    running.wait_until_it_tells(
        "`small/b` failed and is behind (cannot write data: No space left on device",
    );
    // The drop is durable before the acknowledgement.
    running.signal(Signal::KILL);
    running.done();
    let status = mirror(&home, &["status", "a", "small/b"]).exits(1);
    assert!(status.stdout.contains("behind"), "{status:?}");
    mirror(&home, &["scrub", "small/b"]).exits(2);
    resize(&small, "64m");
    let running = serve(&home, &["a", "small/b"], &[]);
    assert!(client(&home).read(0, bytes.len()) == bytes);
    running.wait_until_it_tells("`small/b` is in sync");
    stop(running);
    assert!(data(&small.path().join("b")) == bytes);
}

#[test]
fn a_leg_that_was_dropped_and_is_not_what_it_was_any_more_is_copied_to_completely() {
    // It misses a start and is made shorter and longer, or is restored from an old copy.
    for old_copy in [false, true] {
        let home = Home::new();
        let Some(small) = mirror_with_a_small_leg(&home, "64m") else {
            return;
        };
        let path = small.path().join("b");
        let copy = std::fs::read(&path).unwrap();
        let running = serve(&home, &["a", "small/b"], &[]);
        let mut bytes = noise(41, 32 * MIB as usize);
        client(&home).write(0, &bytes[..16 * MIB as usize]);
        // The clean stop clears the marks of the written regions.
        stop(running);
        // Half of the leg is on a disk that is full now.
        resize(&small, "20m");
        let running = serve(&home, &["a", "small/b"], &[]);
        let mut first = client(&home);
        for (number, part) in (16..).zip(bytes[16 << 20..].chunks(MIB as usize)) {
            first.write(number * MIB, part);
        }
        running.wait_until_it_tells("`small/b` failed and is behind (cannot write data");
        drop(first);
        stop(running);
        mirror(&home, &["status", "a"]).prints("behind in the marked regions");
        resize(&small, "64m");
        if old_copy {
            std::fs::write(&path, &copy).unwrap();
        } else {
            let running = serve(&home, &["a"], &[]);
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(4 * MIB).unwrap();
            file.set_len(33 * MIB).unwrap();
            bytes[..4096].copy_from_slice(&noise(42, 4096));
            client(&home).write(0, &bytes[..4096]);
            stop(running);
        }
        let running = serve(&home, &["a", "small/b"], &[]);
        running.wait_until_it_tells("`small/b` is in sync");
        stop(running);
        assert!(data(&home.work().join("a")) == bytes);
        assert!(data(&path) == bytes, "old copy: {old_copy}");
    }
}

#[test]
fn a_leg_that_hangs_is_dropped_and_taken_back_when_it_works_again() {
    let home = Home::new();
    leg(&home, "a", 9);
    let (image, frozen) = (leg(&home, "image", 64), home.work().join("frozen"));
    std::fs::create_dir(&frozen).unwrap();
    let run = |words: &[&str], path: &Path| {
        let output = Command::new(words[0]).args(&words[1..]).arg(path).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !run(&["mkfs.ext4", "-q"], &image) {
        return skip("mkfs.ext4 is not installed");
    }
    let image = image.to_str().unwrap();
    let Some(mounted) = Mounted::on(&frozen, &["-o", "loop", image]) else {
        return;
    };
    File::create(frozen.join("b"))
        .unwrap()
        .set_len(9 * MIB)
        .unwrap();
    mirror(&home, &["create", "a", "frozen/b"]).succeeds();
    let running = serve(&home, &["a", "frozen/b"], &["--leg-timeout", "1s"]);
    let mut client = client(&home);
    client.write(0, &noise(1, MIB as usize));
    client.flush();
    assert!(run(&["fsfreeze", "-f"], &frozen));
    let thaw = Thawed(&frozen);
    let bytes = noise(2, 8 * MIB as usize);
    client.write(0, &bytes);
    client.flush();
    running.wait_until_it_tells("`frozen/b` failed and is behind (it does not answer)");
    assert!(client.read(0, bytes.len()) == bytes);
    let add = || mirror(&home, &["add", "--leg", "a", "frozen/b"]);
    add().exits(2).stderr_has("has not returned all requests");
    drop(thaw);
    wait_for("the last requests of the leg", || {
        let added = add();
        (added.code == 0).then(|| added.prints("was taken back"))
    });
    running.wait_until_it_tells("`frozen/b` is in sync");
    add().exits(2).stderr_has("is a leg of the mirror already");
    stop(running);
    assert!(data(&frozen.join("b")) == bytes);
    drop(mounted);
}

/// Thaws a file system when it is dropped.
struct Thawed<'a>(&'a Path);

impl Drop for Thawed<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(self.0).status();
    }
}

/// Changes the size of a file system in memory.
pub(crate) fn resize(small: &Mounted, size: &str) {
    let options = format!("remount,size={size}");
    let point = small.path().to_str().unwrap();
    iodyno_testing::run(&["mount", "-o", &options, point]).unwrap();
}

/// Makes a mirror of `a` and `small/b`. The second leg is on a file system of this size. Returns `None` and prints the
/// reason where this host cannot.
pub(crate) fn mirror_with_a_small_leg(home: &Home, size: &str) -> Option<Mounted> {
    leg(home, "a", 33);
    let point = home.work().join("small");
    std::fs::create_dir(&point).unwrap();
    let small = Mounted::tmpfs(&point, &format!("size={size}"))?;
    let file = File::create(small.path().join("b")).unwrap();
    file.set_len(33 * MIB).unwrap();
    let created = mirror(home, &["create", "a", "small/b"]);
    if created.stderr.contains("O_DIRECT") {
        skip("tmpfs without O_DIRECT");
        return None;
    }
    created.succeeds();
    Some(small)
}

#[test]
fn a_client_that_breaks_the_protocol_ends_its_own_connection_only() {
    let home = Home::new();
    leg(&home, "a", 9);
    mirror(&home, &["create", "a"]).succeeds();
    let running = serve(&home, &["a"], &[]);
    let mut good = client(&home);
    for garbage in [&[0xff; 100][..], b"\0\0\0\x03GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = crate::harness::connect(&home.work().join("s")).unwrap();
        let _ = stream.write_all(garbage);
        let mut answer = Vec::new();
        // The server closes the connection.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"NBDMAGIC"));
    }
    // Beyond the end, not aligned, unknown, too long.
    let mut odd = client(&home);
    for (kind, offset, length, error) in [
        (0, 8 * MIB, 512, 22),
        (0, 1, 512, 22),
        (9, 0, 0, 95),
        (0, 0, 64 << 20, 22),
    ] {
        assert_eq!(
            odd.call(0, kind, offset, length, &[]).unwrap().unwrap_err(),
            error
        );
    }
    assert_eq!(
        odd.call(0, 1, 8 * MIB, 512, &[1; 512])
            .unwrap()
            .unwrap_err(),
        28
    );
    assert_eq!(odd.read(0, 512), [0; 512]);
    // Half a request, and half of the bytes of a write.
    odd.stream.write_all(&[0x25, 0x60]).unwrap();
    drop(odd);
    let mut half = client(&home);
    let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
    request.extend([
        0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 1, 1,
    ]);
    half.stream.write_all(&request).unwrap();
    drop(half);
    good.write(0, &noise(1, 4096));
    assert!(good.read(0, 4096) == noise(1, 4096));
    stop(running);
}

#[test]
fn no_acknowledged_write_is_lost_when_the_server_is_killed() {
    kills(8);
}

/// A value of /proc/PID/status, KiB.
fn memory(running: &Running, key: &str) -> u64 {
    let status = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn connections_that_come_and_go_leave_no_memory() {
    let home = Home::new();
    leg(&home, "a", 9);
    leg(&home, "b", 9);
    mirror(&home, &["create", "a", "b"]).succeeds();
    let running = serve(&home, &["a", "b"], &[]);
    // A busy kernel frees the rings of ended connections late, and this user may lock no more memory until then.
    let come_and_go = || {
        wait_for("a connection", || {
            let mut client = client(&home);
            client.call(0, 0, 0, 4096, &[])?.unwrap();
            client.disconnect();
            Some(())
        });
    };
    (0..100).for_each(|_| come_and_go());
    let used = |key: &str| memory(&running, key);
    let before = ["VmRSS:", "VmLck:"].map(used);
    for round in 0..100 {
        (0..100).for_each(|_| come_and_go());
        let now = ["VmRSS:", "VmLck:"].map(used);
        for (before, now) in before.iter().zip(now) {
            // The pool may grow while the queues of earlier connections end. The buffers of 10 000 would be 34 GiB.
            assert!(
                now < before + (1 << 20),
                "{before} KiB, then {now} KiB in round {round}"
            );
        }
    }
    stop(running);
}

#[test]
fn clients_that_leave_take_the_memory_of_their_burst_with_them() {
    const CLIENTS: usize = 64;
    let home = Home::new();
    leg(&home, "a", 9);
    leg(&home, "b", 9);
    mirror(&home, &["create", "a", "b"]).succeeds();
    let running = serve(&home, &["a", "b"], &["--queues", "16"]);
    let before = memory(&running, "VmRSS:");
    let bytes = vec![7; 4 << 20];
    let barrier = std::sync::Barrier::new(CLIENTS);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = client(&home);
                barrier.wait();
                client.write(0, &bytes);
                client.disconnect();
            });
        }
    });
    // The buffers were 256 MiB, and those of the queues 20 MiB each. One queue and stacks of threads stay.
    wait_for("the memory of the clients", || {
        (memory(&running, "VmRSS:") < before + (128 << 10)).then_some(())
    });
    stop(running);
}

#[test]
fn a_server_manages_its_legs_when_its_socket_appears_and_has_released_them_when_it_disappears() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let socket = home.work().join("s");
    for _ in 0..5 {
        let running = home.start(&BOTH);
        running.wait_for("the socket", || socket.exists().then_some(()));
        mirror(&home, &["scrub", "a", "b"]).exits(0);
        running.signal(Signal::TERM);
        wait_for("the end of the socket", || (!socket.exists()).then_some(()));
        for path in &paths {
            let file = File::open(path).unwrap();
            let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            assert_eq!(locked, Ok(()), "{}", path.display());
        }
        running.done().succeeds();
    }
}

#[test]
fn a_file_that_is_no_leg_is_called_so() {
    let home = Home::new();
    home.file("short", "root:x:0:0\n");
    let status = mirror(&home, &["status", "short"]).exits(1);
    let status = status.stderr_has("not a leg of a mirror: it has no superblock");
    assert!(!status.stderr.contains("degraded"), "{status:?}");
}
