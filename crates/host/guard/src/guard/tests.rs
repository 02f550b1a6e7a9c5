//! How often the guard surveys how the host uses files.

use std::fs::{self, File};

use iodyno_host::fake::FakeHost;
use rustix::fs::FlockOperation;

use super::*;
use crate::open::FileId;
use crate::request::{Intent, OpenFlags};

/// The host is surveyed at most once per half second, whatever the number of files: a survey for each file would
/// dominate the time to admit thousands.
#[test]
fn an_unused_file_is_cached_for_half_a_second_and_a_used_file_is_not_cached() {
    const HEAD: &str = "Filename Type Size Used Priority\n";
    let host = FakeHost::new();
    let path = host.path("swapfile");
    fs::write(&path, "").unwrap();
    let swapped = format!("{HEAD}{} file 1024 0 -2\n", path.display());
    let uses = [Reason::SwapFile { path: path.clone() }];
    let file = Pinned::path(&path).unwrap();
    let guard = Guard::new(host.roots.clone());
    let begin = Instant::now();
    let after = |ms: u64| begin + Duration::from_millis(ms);
    let at = |ms: u64| guard.file_uses_at(&file, || after(ms));
    assert_eq!(at(0), []);
    host.write("proc/swaps", &swapped);
    // The cached survey is used.
    for ms in 0..500 {
        assert_eq!(at(ms), [], "{ms}");
    }
    assert_eq!(at(500), uses);
    // The host is surveyed each time, and the result is valid for another half second.
    host.write("proc/swaps", HEAD);
    assert_eq!(at(501), []);
    host.write("proc/swaps", &swapped);
    assert_eq!(at(1000), []);
    assert_eq!(at(1001), uses);
    // A survey that takes longer is valid from its end.
    host.write("proc/swaps", HEAD);
    let times = std::cell::RefCell::new([2000, 3000].into_iter());
    let slow = || after(times.borrow_mut().next().unwrap());
    assert_eq!(guard.file_uses_at(&file, slow), []);
    host.write("proc/swaps", &swapped);
    assert_eq!(at(3499), []);
    assert_eq!(at(3500), uses);
}

/// A mount of `iodyno serve fs` shows the files of the folder that is its source.
#[test]
fn a_file_is_refused_that_is_used_below_the_mount_of_a_server() {
    let host = FakeHost::new();
    let (shown, below) = (host.path("mnt/swapfile"), host.path("shared/swapfile"));
    for name in ["mnt/swapfile", "shared/swapfile"] {
        host.write(name, "");
    }
    host.swap(below.to_str().unwrap());
    let [mnt, shared] = ["mnt", "shared"].map(|name| host.path(name).display().to_string());
    host.mount("0:60", &mnt, "fuse.iodyno", &shared);
    let survey = Survey::take(&host.roots);
    for path in [&shown, &below] {
        let identities = survey.identities(FileId::of(path).unwrap(), path);
        let expected = Reason::SwapFile {
            path: below.clone(),
        };
        assert_eq!(survey.file(&identities, path), [expected]);
    }
}

/// The locks of processes in other PID namespaces are not listed in /proc/locks.
#[test]
fn a_file_that_an_unlisted_process_has_locked_is_refused() {
    let host = FakeHost::new();
    let path = host.path("disk.img");
    fs::write(&path, [0; 4096]).unwrap();
    let guard = Guard::new(host.roots.clone());
    let request = Request {
        path: &path,
        intent: Intent::WRITE,
        flags: OpenFlags::default(),
        named: true,
        destroy: std::slice::from_ref(&path),
    };
    for operation in [FlockOperation::LockShared, FlockOperation::LockExclusive] {
        let file = File::open(&path).unwrap();
        rustix::fs::flock(&file, operation).unwrap();
        let error = guard.admit(&request).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("disk.img is locked by another process"),
            "{words}"
        );
        // One that is listed is known: it is one of this process.
        let state = file.metadata().unwrap();
        let device = DeviceNumber::of(state.dev());
        let (major, minor) = (device.major, device.minor);
        let own = std::process::id();
        let line = format!(
            "1: FLOCK ADVISORY WRITE {own} {major:02x}:{minor:02x}:{} 0 EOF\n",
            state.ino()
        );
        host.write("proc/locks", &line);
        let guard = Guard::new(host.roots.clone());
        guard.admit(&request).unwrap();
        host.write("proc/locks", "");
        drop(file);
        guard.admit(&request).unwrap();
    }
}
