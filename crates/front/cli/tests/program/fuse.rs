//! Mirrors as files of this host: the server of FUSE.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Home, fuse_transports, skip, wait_for};
use crate::nbd::{MIB, leg, mirror, noise, serve, stop};

/// Runs a command, which must succeed. Returns its output.
fn does(home: &Home, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    let done = command.args(&words[1..]).current_dir(home.work()).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_mirror_is_a_file_whose_bytes_are_on_every_leg() {
    for transport in fuse_transports() {
        bytes_are_on_every_leg(transport);
    }
}

fn bytes_are_on_every_leg(transport: &str) {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let full = home.file("full", "something");
    let refused = [
        "serve", "mirror", "--leg", "a", "--leg", "b", "--fuse", "full",
    ];
    home.iodyno(&refused)
        .exits(2)
        .stderr_has("is not an empty file");
    assert_eq!(std::fs::read(full).unwrap(), b"something");
    let server = serve(
        &home,
        &["a", "b"],
        &["--fuse", "disk", "--fuse-transport", transport],
    );
    server.wait_until_it_tells(match transport {
        "device" => "FUSE by /dev/fuse\n",
        _ => "FUSE by io_uring (",
    });
    let path = home.work().join("disk");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let found = file.metadata().unwrap();
    assert_eq!(found.len(), 8 * MIB);
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let mut all = vec![0; 8 * MIB as usize];
    for (seed, offset, length) in [
        (1, 0, 512),
        (2, MIB - 512, 3 * MIB),
        (3, 8 * MIB - 512, 512),
    ] {
        let bytes = noise(seed, length as usize);
        file.write_all_at(&bytes, offset).unwrap();
        all[offset as usize..][..length as usize].copy_from_slice(&bytes);
    }
    file.sync_data().unwrap();
    // Of any length.
    let mut read = vec![0; 100_001];
    file.read_exact_at(&mut read, 777).unwrap();
    assert!(read == all[777..][..read.len()]);
    assert!(std::fs::read(&path).unwrap() == all);
    let unaligned = file.write_at(&[1; 100], 5).unwrap_err();
    assert_eq!(unaligned.kind(), std::io::ErrorKind::InvalidInput);
    assert!(file.set_len(4 * MIB).is_err());
    let beyond = file.write_at(&[1; 512], 8 * MIB).unwrap_err();
    assert_eq!(beyond.kind(), std::io::ErrorKind::StorageFull);
    // A second server is refused: the mounted file has content, and the legs are in use.
    let second = home.iodyno(&[
        "serve", "mirror", "--leg", "a", "--leg", "b", "--fuse", "disk",
    ]);
    assert_ne!(second.code, 0);
    drop(file);
    stop(server);
    assert!(!path.exists());
    for path in &paths {
        assert!(std::fs::read(path).unwrap()[MIB as usize..] == all);
    }
}

#[test]
fn a_file_system_on_a_mirror_is_clean_although_the_server_was_killed_once() {
    for tool in ["losetup", "mkfs.ext4", "e2fsck"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return skip(format!("{tool} is not installed"));
        }
    }
    for transport in fuse_transports() {
        a_killed_server_leaves_a_clean_file_system(transport);
    }
}

fn a_killed_server_leaves_a_clean_file_system(transport: &str) {
    let home = Home::new();
    for name in ["a", "b"] {
        leg(&home, name, 65);
    }
    mirror(&home, &["create", "a", "b"]).succeeds();
    let attach = ["losetup", "--find", "--show", "--direct-io=on", "disk"];
    let server = serve(
        &home,
        &["a", "b"],
        &["--fuse", "disk", "--fuse-transport", transport],
    );
    let device = does(&home, &attach);
    does(&home, &["mkfs.ext4", "-q", &device]);
    let point = home.work().join("point");
    std::fs::create_dir(&point).unwrap();
    does(&home, &["mount", &device, "point"]);
    let bytes = noise(5, 20 * MIB as usize);
    let write = |name: &str| {
        std::fs::write(point.join(name), &bytes)?;
        std::fs::File::open(point.join(name))?.sync_all()
    };
    let first = write("first");
    server.signal(Signal::KILL);
    server.done();
    // Later writes fail, and the file system ends.
    let failed = write("second");
    does(&home, &["umount", "point"]);
    does(&home, &["losetup", "--detach", &device]);
    first.unwrap();
    assert!(failed.is_err());
    // The stale mount is replaced.
    let server = serve(
        &home,
        &["a", "b"],
        &["--fuse", "disk", "--fuse-transport", transport],
    );
    let device = does(&home, &attach);
    does(&home, &["mount", &device, "point"]);
    let read = std::fs::read(point.join("first"));
    does(&home, &["umount", "point"]);
    let checked = Command::new("e2fsck")
        .args(["-f", "-n", &device])
        .output()
        .unwrap();
    does(&home, &["losetup", "--detach", &device]);
    assert!(read.unwrap() == bytes);
    assert!(checked.status.success(), "{checked:?}");
    // After the kill, regions that were written are copied from one leg to the other.
    wait_for("both legs to be in sync", || {
        (mirror(&home, &["status", "a", "b"]).code == 0).then_some(())
    });
    stop(server);
    mirror(&home, &["scrub", "a", "b"]).succeeds();
}
