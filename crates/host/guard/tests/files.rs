//! The guard on files, folders and other paths.
#![allow(clippy::print_stderr, reason = "tests print why they were skipped")]

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use common::{Loop, NAMED, User, admit, findings, refusal, run, skip, started, write};
use iodyno_guard::{
    AdmitError, Admitted, Guard, Intent, Kind, OpenFlags, Reason, Request, append_output,
    create_output, open_output,
};
use iodyno_host::Roots;

fn make(path: &Path, intent: Intent) -> Result<Admitted, AdmitError> {
    Guard::new(Roots::host()).admit(&Request {
        path,
        intent,
        flags: OpenFlags {
            create: true,
            ..OpenFlags::default()
        },
        named: false,
        destroy: &[],
    })
}

#[test]
fn a_named_file_may_be_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::write(&path, "what was there").unwrap();
    let admitted = write(&path, &[]).unwrap();
    assert_eq!((admitted.kind, admitted.length), (Kind::File, 14));
    #[cfg(target_arch = "x86_64")]
    common::has_the_flags_asked_for(&admitted);
    assert!(!admitted.created);
    File::from(admitted.descriptor.try_clone().unwrap())
        .write_all(b"what is here! more")
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"what is here! more");
    assert_eq!((admitted.length, admitted.length_now().unwrap()), (14, 18));
}

#[test]
fn a_file_is_opened_once_and_stays_the_same_if_its_name_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("data"), folder.path().join("other"));
    fs::write(&path, "old").unwrap();
    fs::write(&other, "precious").unwrap();
    let admitted = write(&path, &[]).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    let again = admitted.reopen(OpenFlags::default()).unwrap();
    File::from(again).write_all(b"new").unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"precious");
}

#[test]
fn a_missing_file_is_created_only_for_writing_and_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.0.0");
    for result in [write(&path, &[]), make(&path, Intent::READ)] {
        let error = result.unwrap_err();
        assert!(error.refusal().is_none());
        assert!(error.to_string().contains("cannot open"), "{error}");
        assert!(error.to_string().contains("hint: "), "{error}");
        assert!(!path.exists());
    }
    let admitted = make(&path, Intent::WRITE).unwrap();
    assert!(admitted.created && admitted.length == 0);
    #[cfg(target_arch = "x86_64")]
    common::has_the_flags_asked_for(&admitted);
    assert_eq!(admitted.path, path.canonicalize().unwrap());
    assert!(!make(&path, Intent::WRITE).unwrap().created);
}

#[test]
fn files_that_cannot_be_created_are_reported_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let error = make(&folder.path().join("no/such/file"), Intent::WRITE).unwrap_err();
    assert!(
        error.to_string().contains("create its folder first"),
        "{error}"
    );
    let dangling = folder.path().join("dangling");
    symlink("nowhere", &dangling).unwrap();
    let error = make(&dangling, Intent::WRITE).unwrap_err();
    assert!(
        error.to_string().contains("dangling symbolic link"),
        "{error}"
    );
    let circle = folder.path().join("circle");
    symlink("circle", &circle).unwrap();
    let error = make(&circle, Intent::WRITE).unwrap_err();
    assert!(error.to_string().contains("circle"), "{error}");
}

#[test]
fn no_file_is_created_among_device_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let (link, dev) = (folder.path().join("dev"), Path::new("/dev"));
    symlink(dev, &link).unwrap();
    for path in [
        dev.join("nosuchdisk"),
        link.join("nosuchdisk"),
        folder.path().join("dev/../dev/nosuchdisk"),
        Path::new("/proc/self/root/dev/nosuchdisk").to_owned(),
    ] {
        let refused = refusal(make(&path, Intent::WRITE));
        assert_eq!(
            refused.findings,
            [Reason::AmongDevices],
            "{}",
            path.display()
        );
        assert!(refused.hint().contains("lsblk"), "{refused}");
        assert!(!dev.join("nosuchdisk").exists());
    }
    // A folder in it is not a valid place for file operations.
    assert_eq!(refusal(write(dev, &[])).findings, [Reason::AmongDevices]);
    admit(dev, Intent::READ, &[]).unwrap();
    // File systems mounted below /dev are ordinary file systems.
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    if !mounts.contains(" /dev/shm ") {
        return skip("/dev/shm is not a mount here");
    }
    let own = tempfile::tempdir_in("/dev/shm").unwrap();
    assert!(
        make(&own.path().join("file"), Intent::WRITE)
            .unwrap()
            .created
    );
}

#[test]
fn protected_files_are_refused_by_every_name_and_before_they_exist() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("db"), "results").unwrap();
    fs::hard_link(at("db"), at("hard")).unwrap();
    symlink(at("db"), at("soft")).unwrap();
    symlink(folder.path(), at("around")).unwrap();
    let admit = |name: &str, intent| {
        let guard = Guard::new(Roots::host()).protecting(&[at("db"), at("db-wal")]);
        guard.admit(&Request {
            path: &at(name),
            intent,
            flags: OpenFlags {
                create: true,
                ..OpenFlags::default()
            },
            named: true,
            destroy: &[at("db")],
        })
    };
    for name in ["db", "hard", "soft", "around/db", "db-wal", "around/db-wal"] {
        let refused = refusal(admit(name, Intent::WRITE));
        assert_eq!(refused.findings, [Reason::Protected], "{name}");
    }
    assert_eq!(
        refusal(admit("hard", Intent::READ)).findings,
        [Reason::Protected]
    );
    assert!(!at("db-wal").exists());
    assert_eq!(fs::read(at("db")).unwrap(), b"results");
    assert!(admit("db-wal2", Intent::WRITE).unwrap().created);
}

#[test]
fn folders_are_admitted_as_folders() {
    let folder = tempfile::tempdir().unwrap();
    let admitted = write(folder.path(), &[]).unwrap();
    assert_eq!((admitted.kind, admitted.length), (Kind::Folder, 0));
    admitted.reopen(OpenFlags::default()).unwrap();
}

#[test]
fn null_devices_are_admitted_and_other_character_devices_are_not() {
    for name in ["/dev/null", "/dev/zero", "/dev/full"] {
        let admitted = write(Path::new(name), &[]).unwrap();
        assert_eq!((admitted.kind, admitted.length), (Kind::NullDevice, 0));
    }
    admit(Path::new("/dev/urandom"), Intent::READ, &[]).unwrap();
    for name in [
        "/dev/urandom",
        "/dev/tty",
        "/dev/ptmx",
        "/dev/mem",
        "/dev/kmsg",
    ] {
        if !Path::new(name).exists() {
            continue;
        }
        let refused = refusal(write(Path::new(name), &[]));
        assert!(
            findings(&refused)[0].contains("a character device"),
            "{refused}"
        );
    }
}

#[test]
fn fifos_and_sockets_are_refused_without_waiting_for_their_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    run(&["mkfifo", fifo.to_str().unwrap()]).unwrap();
    for intent in [Intent::READ, Intent::WRITE] {
        let refused = refusal(admit(&fifo, intent, &[]));
        assert_eq!(findings(&refused), ["it is a FIFO"]);
    }
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(findings(&refusal(write(&socket, &[]))), ["it is a socket"]);
}

#[test]
fn a_file_on_a_read_only_mount_is_refused_with_the_mount_point() {
    let Some(disk) = Loop::blank(16) else { return };
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let mounted = disk.mount();
    let point = mounted.path().to_owned();
    fs::write(point.join("data"), "x").unwrap();
    run(&["mount", "-o", "remount,ro", point.to_str().unwrap()]).unwrap();
    let expected = format!(
        "the file system on `{}` is mounted read-only",
        point.display()
    );
    let existing = refusal(write(&point.join("data"), &[]));
    assert_eq!(findings(&existing), [expected.as_str()]);
    assert!(existing.hint().contains("remount"));
    let new = refusal(make(&point.join("new"), Intent::WRITE));
    assert_eq!(findings(&new), [expected.as_str()]);
    let folder = refusal(write(&point, &[]));
    assert_eq!(findings(&folder), [expected.as_str()]);
    admit(&point.join("data"), Intent::READ, &[]).unwrap();
}

#[test]
fn a_swap_file_is_refused() {
    let Some(disk) = Loop::blank(32) else { return };
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let mounted = disk.mount();
    let (swap, link) = (mounted.path().join("my swap"), mounted.path().join("link"));
    fs::write(&swap, vec![0; 4 << 20]).unwrap();
    fs::set_permissions(&swap, fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(&swap, &link).unwrap();
    run(&["mkswap", swap.to_str().unwrap()]).unwrap();
    if let Err(why) = run(&["swapon", swap.to_str().unwrap()]) {
        return skip(&why);
    }
    let results = [write(&swap, &[]), write(&link, &[])];
    run(&["swapoff", swap.to_str().unwrap()]).unwrap();
    for result in results {
        let refused = refusal(result);
        assert_eq!(refused.findings[0], Reason::SwapFile { path: swap.clone() });
    }
    // A new guard sees the change within a second, too.
    write(&swap, std::slice::from_ref(&swap)).unwrap();
}

#[test]
fn a_file_that_another_process_writes_maps_or_locks_is_refused_even_with_destroy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; 64 << 10]).unwrap();
    let ofd = "fcntl.fcntl(f, 37, struct.pack('hhqqi', {kind}, 0, 0, {bytes}, 0))";
    let ofd = |kind: &str, bytes: u32| {
        ofd.replace("{kind}", kind)
            .replace("{bytes}", &bytes.to_string())
    };
    for (does, how) in [
        ("f = open(path, 'r+b')".to_owned(), "open for writing in"),
        ("f = open(path, 'ab')".to_owned(), "open for writing in"),
        ("f = open(path, 'rb'); fcntl.flock(f, fcntl.LOCK_EX)".to_owned(), "locked by"),
        ("f = open(path, 'rb'); fcntl.flock(f, fcntl.LOCK_SH)".to_owned(), "locked by"),
        ("f = open(path, 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX)".to_owned(), "locked by"),
        ("f = open(path, 'rb'); fcntl.lockf(f, fcntl.LOCK_SH, 1, 100)".to_owned(), "locked by"),
        (format!("f = open(path, 'r+b'); {}", ofd("fcntl.F_WRLCK", 0)), "locked by"),
        (format!("f = open(path, 'rb'); {}", ofd("fcntl.F_RDLCK", 1)), "locked by"),
        (
            "f = open(path, 'r+b'); m = mmap.mmap(f.fileno(), 4096); f.close(); os.closerange(3, 64)".to_owned(),
            "mapped shared and writable in",
        ),
    ] {
        let Some(user) = User::python(&does, &path) else { return };
        for destroy in [&[][..], std::slice::from_ref(&path)] {
            let refused = refusal(write(&path, destroy));
            let expected = format!("disk.img is {how} process {} ({})", user.id(), user.command);
            let found = findings(&refused);
            assert!(found.contains(&expected), "{does}: {found:?}");
            let hint = refused.hint();
            assert!(hint.contains(&format!("stop process {} (python3)", user.id())), "{hint}");
        }
        // A job that only reads may use it.
        admit(&path, Intent::READ, &[]).unwrap();
        drop(user);
        write(&path, &[]).unwrap();
    }
}

/// Descriptors that are not in the table of a process in /proc.
#[test]
fn a_file_that_only_a_thread_holds_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a disk.img");
    fs::write(&path, vec![0; 64 << 10]).unwrap();
    let libc = "import ctypes, threading\nlibc = ctypes.CDLL(None)\n";
    // The first thread ends, and another one goes on.
    let exit = "def wait():\n    while open(f'/proc/{os.getpid()}/stat').read().rsplit(') ')[1][0] != 'Z': pass\n    \
                 print('ready', flush=True); sys.stdin.read(); os._exit(0)\n\
                 threading.Thread(target=wait).start(); libc.syscall(60, 0)";
    for (does, how) in [
        (format!("f = open(path, 'r+b')\n{exit}"), "open for writing in"),
        (
            format!("f = os.open(path, os.O_RDWR); m = mmap.mmap(f, 4096); os.closerange(3, 64)\n{exit}"),
            "mapped shared and writable in",
        ),
        (
            "opened = threading.Event()\ndef own():\n    libc.unshare(0x400); f = open(path, 'r+b'); opened.set(); \
             threading.Event().wait()\n\
             threading.Thread(target=own, daemon=True).start(); opened.wait()"
                .to_owned(),
            "open for writing in",
        ),
    ] {
        let Some(user) = User::python(&format!("{libc}{does}"), &path) else { return };
        let refused = refusal(write(&path, std::slice::from_ref(&path)));
        let expected = format!("a disk.img is {how} process {} (python3)", user.id());
        assert!(findings(&refused).contains(&expected), "{does}: {refused}");
        drop(user);
        write(&path, &[]).unwrap();
    }
}

#[test]
fn a_file_is_recognised_on_both_sides_of_an_overlay() {
    if !common::is_root() {
        return common::skip("only root mounts overlays");
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    let (upper, merged) = (at("upper/in/disk.img"), at("merged/in/disk.img"));
    fs::create_dir(at("upper/in")).unwrap();
    fs::write(&upper, vec![0; 64 << 10]).unwrap();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        at("lower").display(),
        at("upper").display(),
        at("work").display()
    );
    let point = at("merged");
    let point = point.to_str().unwrap();
    if let Err(why) = run(&["mount", "-t", "overlay", "overlay", "-o", &options, point]) {
        return common::skip(&why);
    }
    let unused = write(&merged, &[]);
    // By a bind mount of the file alone, too.
    let beside = at("beside").display().to_string();
    fs::write(at("beside"), "").unwrap();
    run(&["mount", "--bind", upper.to_str().unwrap(), &beside]).unwrap();
    let in_upper = [
        write(&upper, std::slice::from_ref(&upper)),
        make(&at("upper/new"), Intent::WRITE),
        write(&at("upper"), &[]),
        write(&at("beside"), &[]),
    ];
    run(&["umount", &beside]).unwrap();
    let mut used = Vec::new();
    for path in [&upper, &merged] {
        let Some(user) = User::python("f = open(path, 'r+b')", path) else {
            break;
        };
        used.push((write(&merged, std::slice::from_ref(&merged)), user.id()));
    }
    let device = run(&["losetup", "--find", "--show", upper.to_str().unwrap()]);
    let below_a_device = device.map(|device| {
        let refused = write(&merged, &[]);
        run(&["losetup", "--detach", &device]).unwrap();
        (refused, device)
    });
    drop(unused.unwrap());
    run(&["umount", point]).unwrap();
    match below_a_device {
        Ok((refused, device)) => {
            let expected = format!("it is the disk of {}, attached", &device[5..]);
            assert_eq!(findings(&refusal(refused)), [expected]);
        }
        Err(why) => common::skip(&why),
    }
    for (refused, process) in used {
        let expected = format!("disk.img is open for writing in process {process} (python3)");
        let refused = refusal(refused);
        assert!(findings(&refused).contains(&expected), "{refused}");
    }
    let expected = format!("it is in the upper folder of the overlay that is mounted on `{point}`");
    for refused in in_upper {
        let refused = refusal(refused);
        assert_eq!(findings(&refused), [expected.as_str()]);
        assert!(refused.hint().contains("name the file in"), "{refused}");
    }
    write(&upper, &[]).unwrap();
}

#[test]
fn an_output_overwrites_no_file_that_another_process_uses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let begin = "f = os.open(path, os.O_RDWR)";
    for does in [
        "",
        "fcntl.flock(f, fcntl.LOCK_EX)",
        "fcntl.lockf(f, fcntl.LOCK_EX)",
        "m = mmap.mmap(f, 0); os.close(f)",
    ] {
        fs::write(&path, "content").unwrap();
        let Some(user) = User::python(&format!("{begin}\n{does}"), &path) else {
            return;
        };
        for open in [create_output, append_output, open_output] {
            let refused = open(&path).unwrap_err().to_string();
            let by = format!("process {} (python3)", user.id());
            assert!(refused.contains(&by), "{does}: {refused}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"content");
        fs::write(&path, "").unwrap();
        let empty = create_output(&path).is_err();
        assert!(empty || does.contains("mmap"), "{does}");
        drop(user);
        create_output(&path).unwrap();
    }
}

#[test]
fn users_on_the_other_side_of_an_overlay_are_found_without_its_paths() {
    if !common::is_root() {
        return common::skip("only root mounts overlays");
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    for name in ["lower/a", "upper/b"] {
        fs::write(at(name), vec![0; 64 << 10]).unwrap();
    }
    let born = |name: String| {
        fs::write(at("upper").join(&name), "x").unwrap();
        let state = fs::metadata(at("upper").join(&name)).unwrap();
        (state.created().ok(), at("merged").join(name))
    };
    let twins: Vec<_> = (0..1000).map(|number| born(number.to_string())).collect();
    let mut twins = twins.windows(2).filter(|two| two[0].0 == two[1].0);
    let twins = twins.next().map(|two| [&two[0].1, &two[1].1]);
    let mount = "mount -t overlay o -o lowerdir=lower,upperdir=upper,workdir=work merged";
    let mount = format!("cd '{}' && {mount}", folder.path().display());
    if let Err(why) = run(&["sh", "-c", &mount]) {
        return common::skip(&why);
    }
    fs::rename(at("upper"), at("moved")).unwrap();
    let unused = [
        write(&at("moved/b"), &[]).map(drop),
        write(&at("lower/a"), &[]).map(drop),
        make(&at("lower/new"), Intent::WRITE).map(drop),
    ];
    // Through the overlay, others use files of both folders, also one that was copied when it was opened.
    fs::write(at("lower/c"), vec![0; 64 << 10]).unwrap();
    File::options().append(true).open(at("merged/c")).unwrap();
    let mut used = Vec::new();
    for (shown, below) in [
        ("merged/a", "lower/a"),
        ("merged/b", "moved/b"),
        ("merged/c", "moved/c"),
    ] {
        let locks = "f = open(path); fcntl.flock(f, fcntl.LOCK_EX)";
        let Some(user) = User::python(locks, &at(shown)) else {
            break;
        };
        used.push((write(&at(below), &[at(below)]), user.id()));
        // Named in the overlay, and used below it.
        drop(user);
        let Some(user) = User::python(locks, &at(below)) else {
            break;
        };
        used.push((write(&at(shown), &[at(shown)]), user.id()));
    }
    // A writer through the overlay is found by any name of the file.
    fs::hard_link(at("moved/b"), at("link")).unwrap();
    let written = User::python("f = open(path, 'r+b')", &at("merged/b"))
        .map(|_user| write(&at("link"), &[at("link")]));
    // Files that were made at the same time are others.
    let twin = twins.and_then(|[one, other]| {
        let _user = User::python("f = open(path, 'r+b')", other)?;
        Some(write(one, &[]).map(drop))
    });
    let in_merged = write(&at("merged/b"), &[]).map(drop);
    let device = run(&[
        "losetup",
        "--find",
        "--show",
        at("moved/b").to_str().unwrap(),
    ]);
    let attached = device.map(|device| {
        let refused = write(&at("merged/b"), &[]);
        run(&["losetup", "--detach", &device]).unwrap();
        (device, refused)
    });
    run(&["umount", at("merged").to_str().unwrap()]).unwrap();
    match attached {
        Ok((device, refused)) => {
            let expected = format!("it is the disk of {}, attached", &device[5..]);
            assert_eq!(findings(&refusal(refused)), [expected]);
        }
        Err(why) => skip(&why),
    }
    for admitted in unused {
        admitted.unwrap();
    }
    for (refused, process) in used {
        let expected = format!("locked by process {process} (python3)");
        let refused = refusal(refused);
        let found = findings(&refused);
        assert!(found.iter().any(|it| it.contains(&expected)), "{refused}");
    }
    in_merged.unwrap();
    if let Some(refused) = written {
        let found = findings(&refusal(refused)).join("; ");
        assert!(found.contains("link is open for writing in"), "{found}");
    }
    match twin {
        Some(admitted) => admitted.unwrap(),
        None => skip("no files are made at the same time"),
    }
}

#[test]
fn a_mount_that_an_overlay_covers_does_not_hide_its_upper_folder() {
    if !common::is_root() {
        return common::skip("only root mounts overlays");
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    for name in ["lower", "upper/in", "work", "merged/in"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    let (upper, shown) = ("upper/in/disk.img", "merged/in/disk.img");
    let [upper, shown] = [upper, shown].map(|name| folder.path().join(name));
    fs::write(&upper, vec![0; 64 << 10]).unwrap();
    let mount = format!(
        "cd '{0}' && mount -t tmpfs t merged/in && mount -t overlay o \
         -o lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work merged",
        folder.path().display()
    );
    let mounted = run(&["sh", "-c", &mount]);
    let user = User::python("f = open(path, 'r+b')", &upper);
    let result = write(&shown, &[]).map(drop);
    let point = folder.path().join("merged");
    let _ = run(&["umount", point.to_str().unwrap()]);
    let _ = run(&["umount", point.join("in").to_str().unwrap()]);
    if let Err(why) = mounted {
        return common::skip(&why);
    }
    let Some(user) = user else { return };
    let expected = format!(
        "disk.img is open for writing in process {} (python3)",
        user.id()
    );
    assert!(findings(&refusal(result)).contains(&expected));
}

/// Its users have other paths there.
#[test]
fn a_file_in_another_mount_namespace_is_refused_for_writing() {
    if !common::is_root() {
        return skip("only root makes namespaces");
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().join("point");
    fs::create_dir(&point).unwrap();
    let does = "import ctypes; libc = ctypes.CDLL(None)\n\
                libc.unshare(0x20000); libc.mount(b'', b'/', None, 0x44000, None)\n\
                libc.mount(b'none', path.encode(), b'tmpfs', 0, None); open(path + '/file', 'w').write('theirs')";
    let Some(user) = User::python(does, &point) else {
        return;
    };
    let there = |name: &str| {
        let root = format!("/proc/{}/root", user.id());
        Path::new(&root)
            .join(point.strip_prefix("/").unwrap())
            .join(name)
    };
    for refused in [
        write(&there("file"), &[there("file")]),
        make(&there("new"), Intent::WRITE),
    ] {
        assert_eq!(refusal(refused).findings, [Reason::OtherNamespace]);
    }
    for open in [create_output, append_output, open_output] {
        open(&there("file")).unwrap_err();
    }
    assert_eq!(fs::read(there("file")).unwrap(), b"theirs");
    admit(&there("file"), Intent::READ, &[]).unwrap();
    // By such a path, files of this namespace are what they are.
    let own = format!("/proc/self/root{}", folder.path().join("own").display());
    assert!(make(Path::new(&own), Intent::WRITE).unwrap().created);
}

/// An empty EROFS file system in a file.
fn erofs(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(2 << 20).unwrap();
    // Magic number, block size 4096, root inode 36 in units of 32 bytes, and the blocks.
    for (at, bytes) in [
        (0, &0xe0f5_e1e2u32.to_le_bytes()[..]),
        (12, &[12]),
        (14, &36u16.to_le_bytes()),
        (16, &1u64.to_le_bytes()),
        (36, &512u32.to_le_bytes()),
        // Its inode: a folder of 27 bytes in block 1, with two links.
        (128 + 4, &0o40755u16.to_le_bytes()),
        (128 + 6, &2u16.to_le_bytes()),
        (128 + 8, &27u32.to_le_bytes()),
        (128 + 16, &1u32.to_le_bytes()),
        (128 + 20, &1u32.to_le_bytes()),
    ] {
        file.write_all_at(bytes, 1024 + at).unwrap();
    }
    let entry = |name: u16| [&36u64.to_le_bytes()[..], &name.to_le_bytes(), &[2, 0]].concat();
    let folder = [entry(24), entry(25), b"...".to_vec()].concat();
    file.write_all_at(&folder, 4096).unwrap();
}

#[test]
fn a_file_that_is_mounted_without_a_loop_device_is_refused() {
    if !common::is_root() {
        return skip("only root mounts files");
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let (image, point) = (folder.path().join("disk.img"), folder.path().join("point"));
    erofs(&image);
    fs::create_dir(&point).unwrap();
    // mount(8) would attach a loop device.
    let does = format!(
        "import ctypes; libc = ctypes.CDLL(None); point = b'{}'\n\
         if libc.mount(path.encode(), point, b'erofs', 1, None): print('not mounted', flush=True)",
        point.display()
    );
    let Some(user) = User::python(&does, &image) else {
        return;
    };
    if user.said != "ready\n" {
        return skip("the kernel mounts no files");
    }
    let link = folder.path().join("link.img");
    fs::hard_link(&image, &link).unwrap();
    let results = [&image, &link].map(|path| write(path, std::slice::from_ref(path)));
    let device = run(&["losetup", "--find", "--show", image.to_str().unwrap()]).unwrap();
    let device = Path::new(&device);
    let of_device = write(device, &[device.to_owned()]).map(drop);
    run(&["losetup", "--detach", device.to_str().unwrap()]).unwrap();
    run(&["umount", point.to_str().unwrap()]).unwrap();
    let expected = format!("disk.img is mounted on `{}` (erofs)", point.display());
    assert_eq!(findings(&refusal(of_device))[0], expected);
    for (refused, name) in results.into_iter().zip(["disk.img", "link.img"]) {
        let expected = format!("{name} is mounted on `{}` (erofs)", point.display());
        assert_eq!(findings(&refusal(refused))[0], expected);
    }
    write(&image, std::slice::from_ref(&image)).unwrap();
}

#[test]
fn a_disk_image_without_its_partition_table_needs_destroy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    for start in [34 * 512, 63 * 512, 1 << 20, 2 << 20] {
        File::create(&path).unwrap().set_len(256 << 20).unwrap();
        let offset = format!("offset={start}");
        let make = [
            "mkfs.ext4",
            "-q",
            "-F",
            "-E",
            &offset,
            path.to_str().unwrap(),
            "200M",
        ];
        if let Err(why) = run(&make) {
            return skip(&why);
        }
        let refused = refusal(write(&path, &[]));
        let found = findings(&refused);
        assert_eq!(
            found,
            [format!("disk.img holds ext4 at byte {}", start + 1080)]
        );
        write(&path, std::slice::from_ref(&path)).unwrap();
    }
}

#[test]
fn an_image_with_a_destroyed_superblock_or_an_empty_table_needs_destroy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let named = path.to_str().unwrap();
    let found = || findings(&refusal(write(&path, &[])));
    let part = folder.path().join("part.img");
    let make = |program: &[&str], start: u64, mib: u64| {
        File::create(&part)
            .unwrap()
            .set_len((mib - (start >> 19)) << 20)
            .unwrap();
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        run(&[program, &[part.to_str().unwrap()]].concat())?;
        let (from, to) = (format!("if={}", part.display()), format!("of={named}"));
        let seek = format!("seek={}", start >> 20);
        run(&["dd", &from, &to, &seek, "bs=1M", "conv=sparse,notrunc"])
    };
    for start in [0, 1 << 20] {
        for (program, what, copy) in [
            ("mkfs.ext4 -q -F -b 1024", "ext4", (8193 << 10) + 56),
            ("mkfs.ext4 -q -F -b 2048", "ext4", (32 << 20) + 56),
            ("mkfs.ext4 -q -F -b 4096", "ext4", (128 << 20) + 56),
            ("mkfs.xfs -q -f", "xfs", (400 << 20) - (start >> 19 << 18)),
            ("mkfs.btrfs -q -f", "btrfs", (64 << 20) + 64),
        ] {
            let program: Vec<&str> = program.split(' ').collect();
            if let Err(why) = make(&program, start, 1600) {
                skip(&why);
                continue;
            }
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(&[0; 128 << 10], start).unwrap();
            let (holds, at) = (
                format!("holds {what} "),
                format!(" at byte {}", start + copy),
            );
            let found = found();
            let named = found[0].contains(&holds) && found[0].ends_with(&at);
            assert!(named && found.len() == 1, "{program:?}: {found:?}");
        }
    }
    // A shorter disk.
    if let Err(why) = make(&["mkfs.ext4", "-q", "-F"], 1 << 20, 50) {
        return skip(&why);
    }
    let at = (1 << 20) + 1080;
    assert!(found().contains(&format!("disk.img holds ext4 at byte {at}")));
    // As sfdisk makes it.
    File::create(&path).unwrap().set_len(50 << 20).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"\x12\x34\x56\x78\0\0", 440).unwrap();
    file.write_all_at(b"\x55\xaa", 510).unwrap();
    let table = "disk.img holds boot sector (no partitions) at byte 510";
    assert_eq!(found(), [table]);
    // Two bytes alone do not identify anything.
    file.write_all_at(&[7; 64], 446).unwrap();
    write(&path, &[]).unwrap();
}

/// As a program of its own: admits the path that a variable names, or with the argument `serve`, holds it.
#[test]
fn as_a_process_of_this_program() {
    let Some(path) = std::env::var_os(NAMED) else {
        return;
    };
    let path = Path::new(&path);
    if std::env::args().any(|word| word == "serve") {
        let _file = File::options().write(true).open(path).unwrap();
        eprintln!("ready");
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    match write(path, &[path.to_owned()]) {
        Ok(_) => eprintln!("admitted"),
        Err(error) => eprintln!("{error}"),
    }
}

#[test]
fn what_this_program_inherits_and_what_its_parents_hold_is_not_in_use() {
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; 64 << 10]).unwrap();
    let disk = Loop::blank(16);
    let python = |locks: &str| {
        format!(
            "exec python3 -c \"import fcntl, os, struct, sys; f = os.open(sys.argv[1], os.O_RDWR)\n\
             os.set_inheritable(f, True); {locks}; os.execv(sys.argv[2], sys.argv[2:])\" \"$0\" \"$@\""
        )
    };
    let targets = [Some(&path), disk.as_ref().map(|disk| &disk.device)];
    for target in targets.into_iter().flatten() {
        for script in [
            "flock \"$0\" \"$@\"",
            "exec 5<>\"$0\"; \"$@\"; exit $?",
            // Who took the lock has ended.
            "exec 5<>\"$0\"; flock 5; exec \"$@\"",
            &python("fcntl.lockf(f, fcntl.LOCK_EX)"),
            &python("fcntl.fcntl(f, 37, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))"),
        ] {
            // As the first process of a namespace, too.
            let first: &[&str] = &["unshare", "--pid", "--fork", "--mount-proc"];
            for before in [&[], first] {
                if !before.is_empty() && !common::is_root() {
                    continue;
                }
                let output = started(before, script, target).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(said.contains("admitted"), "{before:?} {script}: {said}");
            }
        }
    }
}

#[test]
fn a_lock_of_a_parent_on_btrfs_is_its_own() {
    let Some(disk) = Loop::blank(128) else { return };
    let made = run(&["mkfs.btrfs", "-q", disk.path()]);
    if let Err(why) = made {
        return skip(&why);
    }
    let mounted = disk.mount();
    let path = mounted.path().join("disk.img");
    fs::write(&path, vec![0; 64 << 10]).unwrap();
    let output = started(&[], "flock -o \"$0\" \"$@\"", &path).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(said.contains("admitted"), "{said}");
    let Some(_user) = User::python("f = open(path); fcntl.flock(f, fcntl.LOCK_EX)", &path) else {
        return;
    };
    refusal(write(&path, &[]));
}

/// Adopted by the first process of a namespace.
#[test]
fn a_file_of_the_first_process_that_did_not_start_this_one_is_refused() {
    if !common::is_root() {
        return skip("only root makes namespaces");
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; 64 << 10]).unwrap();
    let script = "exec 5<>\"$0\"; setsid --fork \"$@\" 5>&- | cat 5>&-; exit $?";
    let before = ["unshare", "--pid", "--fork", "--mount-proc"];
    let output = started(&before, script, &path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("open for writing in process 1"), "{said}");
}

/// Files that it serves are those of its clients.
#[test]
fn a_file_that_this_program_serves_is_refused_and_one_that_it_measures_is_not() {
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; 64 << 10]).unwrap();
    let hold = |orphan: &str| {
        let script = format!("{orphan} \"$@\" serve");
        let mut child = started(&[], &script, &path).spawn().unwrap();
        let mut said = [0; 6];
        child
            .stderr
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        assert_eq!(&said, b"ready\n");
        child
    };
    let ask = || {
        let output = started(&[], "exec \"$@\"", &path).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let mut server = hold("exec");
    let said = ask();
    // It belongs to the invocation of this process.
    write(&path, &[]).unwrap();
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!(said.contains("admitted"), "{said}");
    // Its parent has ended.
    let mut server = hold("exec 3<&0; <&3 setsid --fork");
    let until = server.stdin.take();
    server.wait().unwrap();
    let refused = [ask(), write(&path, &[]).unwrap_err().to_string()];
    drop(until);
    for words in refused {
        assert!(
            words.contains("disk.img is open for writing in process"),
            "{words}"
        );
    }
}

#[test]
fn a_file_that_others_only_read_or_map_privately_may_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; 64 << 10]).unwrap();
    for does in [
        "f = open(path, 'rb')",
        "f = open(path, 'rb'); m = mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ)",
        "f = open(path, 'rb'); m = mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE)",
        "f = open(path + '.other', 'wb'); fcntl.flock(f, fcntl.LOCK_EX)",
    ] {
        let Some(_user) = User::python(does, &path) else {
            return;
        };
        write(&path, &[]).unwrap();
    }
}

#[test]
fn the_image_of_a_server_is_refused_even_with_destroy() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["raw", "qcow2"] {
        let path = folder.path().join(format);
        let (image, socket) = (
            path.to_str().unwrap(),
            folder.path().join(format!("{format}.sock")),
        );
        let pid = folder.path().join(format!("{format}.pid"));
        let started =
            run(&["qemu-img", "create", "-q", "-f", format, image, "1M"]).and_then(|_| {
                let [socket, pid] = [&socket, &pid].map(|path| path.to_str().unwrap());
                run(&[
                    "qemu-nbd",
                    "--fork",
                    "--persistent",
                    "-f",
                    format,
                    "-k",
                    socket,
                    "--pid-file",
                    pid,
                    image,
                ])
            });
        if let Err(why) = started {
            return skip(&why);
        }
        let pid = fs::read_to_string(pid).unwrap();
        let refused = write(&path, std::slice::from_ref(&path));
        run(&["kill", pid.trim()]).unwrap();
        let found = findings(&refusal(refused)).join("; ");
        assert!(
            found.contains(&format!(
                "{format} is locked by process {} (qemu-nbd)",
                pid.trim()
            )),
            "{found}"
        );
    }
}
