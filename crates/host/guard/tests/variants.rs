//! Further ways in which others use files and devices, and ordinary uses that look like them.
#![allow(clippy::print_stderr, reason = "tests print why they were skipped")]

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Loop, NAMED, User, eventually, findings, refusal, run, skip, started, write};
use iodyno_guard::{AdmitError, Admitted, create_output};
use rustix::io::{FdFlags, fcntl_setfd};

const MIB: u64 = 1 << 20;
/// What is found of a user that is not visible.
const UNSEEN: &str = "disk.img is open for writing in another process, or the kernel";

/// With permission to overwrite the content.
fn destroy(path: &Path) -> Result<Admitted, AdmitError> {
    write(path, &[path.to_owned()])
}

/// All reasons, as one text; empty if it is admitted.
fn why(path: &Path) -> String {
    match destroy(path) {
        Ok(_) => String::new(),
        Err(error) => findings(&refusal::<()>(Err(error))).join("; "),
    }
}

/// A file of 64 KiB in a new folder.
fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![7; 64 << 10]).unwrap();
    (folder, path)
}

fn attach(how: &[&str], below: &Path) -> PathBuf {
    let all = [
        &["losetup", "--find", "--show"],
        how,
        &[below.to_str().unwrap()],
    ]
    .concat();
    run(&all).unwrap().into()
}

fn detach(device: &Path) {
    run(&["losetup", "--detach", device.to_str().unwrap()]).unwrap();
}

/// As a program of its own: admits the path that a variable names.
#[test]
fn as_a_process_of_this_program() {
    let Some(path) = std::env::var_os(NAMED) else {
        return;
    };
    match destroy(Path::new(&path)) {
        Ok(_) => eprintln!("admitted"),
        Err(error) => eprintln!("{error}"),
    }
}

/// What a process of this program says about a path.
fn said(before: &[&str], script: &str, path: &Path) -> String {
    let output = started(before, script, path).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Nothing in /proc shows that the file is open.
#[test]
fn a_file_with_a_writer_that_is_not_visible_is_refused() {
    let _alone = common::alone();
    for does in [
        // A descriptor that was sent, and not received yet.
        "import array, socket; a, b = socket.socketpair(); f = os.open(path, os.O_RDWR)\n\
         a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [f]))]); os.close(f)",
        // mprotect(2) can make the mapping writable.
        "f = os.open(path, os.O_RDWR); m = mmap.mmap(f, 4096, mmap.MAP_SHARED, mmap.PROT_READ); os.closerange(3, 64)",
        "import ctypes; libc = ctypes.CDLL(None); f = os.open(path, os.O_RDWR)\n\
         ring = libc.syscall(425, 8, ctypes.create_string_buffer(120))\n\
         if ring < 0 or libc.syscall(427, ring, 2, (ctypes.c_int * 1)(f), 1): print('not here', flush=True)\nos.close(f)",
        "import ctypes\nif ctypes.CDLL(None).acct(path.encode()): print('not here', flush=True)",
    ] {
        let (_folder, path) = file();
        let Some(user) = User::python(does, &path) else {
            return;
        };
        let found = why(&path);
        let known = user.said == "ready\n";
        let output = create_output(&path).is_err();
        drop(user);
        if does.contains("acct") && known {
            User::python("import ctypes; ctypes.CDLL(None).acct(None)", &path);
        }
        match known {
            true => assert_eq!((found.as_str(), output), (UNSEEN, true), "{does}"),
            false => skip("no io_uring, or no right to account processes"),
        }
        assert_eq!(why(&path), "", "{does}");
    }
}

/// The same for processes that are only not visible to this one.
#[test]
fn a_file_with_a_writer_in_another_namespace_or_of_another_user_is_refused() {
    if !common::is_root() {
        return skip("only root makes namespaces");
    }
    let _alone = common::alone();
    let (folder, path) = file();
    run(&["chmod", "-R", "a+rwX", folder.path().to_str().unwrap()]).unwrap();
    run(&["chown", "1000", path.to_str().unwrap()]).unwrap();
    let container = ["unshare", "--pid", "--fork", "--mount-proc"];
    let stranger = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"];
    let pids = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        "mount -t proc -o subset=pid p /proc; exec \"$@\"",
        "x",
    ];
    for before in [&container[..], &stranger, &pids, &container[..3]] {
        let unused = said(before, "exec \"$@\"", &path);
        if !unused.contains("admitted") {
            skip(format!("{before:?}: {unused}"));
            continue;
        }
        let Some(user) = User::python("f = open(path, 'r+b')", &path) else {
            return;
        };
        let found = said(before, "exec \"$@\"", &path);
        drop(user);
        assert!(
            found.contains("disk.img is open for writing in"),
            "{before:?}: {found}"
        );
    }
}

#[test]
fn the_file_of_a_loop_device_is_refused_where_nothing_shows_the_device() {
    let Some(disk) = Loop::blank(16) else { return };
    let folder = disk.folder().display();
    let other = disk.folder().join("other");
    fs::write(&other, "").unwrap();
    let bound = format!(
        "mount --bind {folder}/disk.img {folder}/other; mv {folder}/disk.img {folder}/disk.bak"
    );
    for (script, path) in [
        ("umount -l /sys".to_owned(), &disk.file),
        (
            "mount -t tmpfs t /sys; mkdir -p /sys/class/block".to_owned(),
            &disk.file,
        ),
        (format!("{bound}; mount -t tmpfs t /dev"), &other),
    ] {
        let script =
            format!("{script}; \"$@\"; mv {folder}/disk.bak {folder}/disk.img 2> /dev/null; true");
        let found = said(&["unshare", "--mount"], &script, path);
        assert!(found.contains("it is in use"), "{script}: {found}");
    }
}

#[test]
fn ordinary_uses_are_not_mistaken_for_those_of_others() {
    let _alone = common::alone();
    let (_folder, path) = file();
    let first = destroy(&path).unwrap();
    // The same file in another job of the process.
    destroy(&path).unwrap();
    drop(first);
    for script in [
        "exec 3>>\"$0\"; \"$@\"",
        "exec 3>>\"$0\"; exec \"$@\"",
        "exec 3< \"$0\"; tail -f \"$0\" & \"$@\"; kill $!",
        "flock \"$0\" setsid -w \"$@\"",
        "exec 3<>\"$0\"; flock -s 3; (\"$@\")",
        "timeout 60 nohup \"$@\"",
    ] {
        let namespaces = ["unshare", "--pid", "--fork"];
        let container = [
            "unshare",
            "--pid",
            "--mount",
            "--uts",
            "--ipc",
            "--fork",
            "--mount-proc",
        ];
        let session = ["unshare", "--pid", "--fork", "--mount-proc", "setsid", "-w"];
        for before in [&[][..], &namespaces, &container, &session] {
            if !before.is_empty() && !common::is_root() {
                continue;
            }
            let found = said(before, script, &path);
            assert!(found.contains("admitted"), "{before:?} {script}: {found}");
        }
    }
    // A process that inherited the descriptor, too, can write.
    for (script, part) in [
        (
            "exec 3>>\"$0\"; sleep 60 & \"$@\"; kill $!",
            "open for writing in",
        ),
        (
            "exec 3<\"$0\"; flock 3; sleep 60 & \"$@\"; kill $!",
            "locked by",
        ),
    ] {
        let found = said(&[], script, &path);
        let expected = format!("disk.img is {part} process");
        assert!(found.contains(&expected), "{script}: {found}");
    }
}

#[test]
fn files_of_each_file_system_are_admitted_again_and_refused_while_others_use_them() {
    for (kind, mib) in [("ext4", 64), ("xfs", 320), ("btrfs", 200)] {
        let Some(disk) = Loop::blank(mib) else { return };
        if let Err(why) = run(&[&format!("mkfs.{kind}"), "-q", disk.path()]) {
            skip(&why);
            continue;
        }
        let mounted = disk.mount();
        let path = mounted.path().join("disk.img");
        fs::write(&path, vec![7; MIB as usize]).unwrap();
        for _ in 0..2 {
            let admitted = destroy(&path).unwrap();
            File::from(admitted.descriptor)
                .write_all_at(&[8; 4096], 0)
                .unwrap();
        }
        let Some(user) = User::python("f = open(path); fcntl.lockf(f, fcntl.LOCK_SH)", &path)
        else {
            return;
        };
        assert!(why(&path).contains("locked by process"), "{kind}");
        drop(user);
        assert_eq!(why(&path), "", "{kind}");
    }
}

#[test]
fn a_file_of_a_btrfs_subvolume_is_known_by_its_other_mounts_and_links() {
    let Some(disk) = Loop::blank(200) else { return };
    if let Err(why) = run(&["mkfs.btrfs", "-q", disk.path()]) {
        return skip(&why);
    }
    let mounted = disk.mount();
    let at = |name: &str| mounted.path().join(name);
    let other = disk.folder().join("other");
    fs::create_dir(&other).unwrap();
    run(&["btrfs", "subvolume", "create", at("s").to_str().unwrap()]).unwrap();
    run(&[
        "mount",
        "-o",
        "subvol=s",
        disk.path(),
        other.to_str().unwrap(),
    ])
    .unwrap();
    let (path, beside) = (at("s/disk.img"), other.join("disk.img"));
    fs::write(&path, vec![7; MIB as usize]).unwrap();
    let mut found = Vec::new();
    for does in [
        "f = open(path, 'r+b')",
        "f = open(path); fcntl.lockf(f, fcntl.LOCK_SH)",
    ] {
        let Some(_user) = User::python(does, &beside) else {
            break;
        };
        found.push(why(&path));
    }
    let device = attach(&[], &beside);
    found.push(why(&path));
    detach(&device);
    let unused = why(&path);
    run(&[
        "btrfs",
        "subvolume",
        "snapshot",
        "-r",
        at("s").to_str().unwrap(),
        at("old").to_str().unwrap(),
    ])
    .unwrap();
    let old = destroy(&at("old/disk.img")).map(drop);
    let swap = at("swap").display().to_string();
    let make = format!(
        "touch {swap}; chattr +C {swap}; fallocate -l 8m {swap}; chmod 600 {swap}; mkswap {swap}; ln {swap} {swap}2; swapon {swap}"
    );
    let swapped = run(&["sh", "-c", &format!("set -e; {make}")]);
    let by_link = why(&at("swap2"));
    if swapped.is_ok() {
        run(&["swapoff", &swap]).unwrap();
    }
    run(&["umount", other.to_str().unwrap()]).unwrap();
    for (found, part) in found.iter().zip([
        "open for writing in process",
        "locked by process",
        "it is the disk of",
    ]) {
        assert!(found.contains(part), "{found}");
    }
    assert_eq!(unused, "");
    assert!(old.unwrap_err().to_string().contains("Read-only"));
    match swapped {
        Ok(_) => assert!(by_link.contains("the host swaps to it"), "{by_link}"),
        Err(why) => skip(&why),
    }
}

/// An inherited descriptor, such as one of a shell, says nothing about who has exclusive access.
#[test]
fn an_inherited_descriptor_does_not_hide_an_exclusive_user() {
    let Some(disk) = Loop::blank(64) else { return };
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let twin = attach(&[], &disk.file);
    let point = disk.folder().join("mnt");
    fs::create_dir(&point).unwrap();
    run(&["mount", disk.path(), point.to_str().unwrap()]).unwrap();
    let busy = File::create(point.join("busy")).unwrap();
    run(&["umount", "-l", point.to_str().unwrap()]).unwrap();
    let held = File::open(&disk.device).unwrap();
    fcntl_setfd(&held, FdFlags::empty()).unwrap();
    let beside = why(&twin);
    let over = attach(&[], &disk.device);
    let found = [beside, why(&over)];
    detach(&over);
    drop((busy, held));
    let unused = eventually(|| why(&twin).is_empty());
    detach(&twin);
    for found in found {
        assert!(
            found.contains(&format!("exclusive access to {}", disk.name())),
            "{found}"
        );
    }
    assert!(unused);
}

/// A journal on a device of its own is in no table of mounts.
#[test]
fn the_journal_of_a_mounted_file_system_is_refused_also_by_another_device_on_its_file() {
    let (Some(journal), Some(disk)) = (Loop::blank(64), Loop::blank(64)) else {
        return;
    };
    let on = format!("device={}", journal.path());
    run(&[
        "mke2fs",
        "-q",
        "-O",
        "journal_dev",
        "-b",
        "4096",
        journal.path(),
    ])
    .unwrap();
    run(&["mkfs.ext4", "-q", "-b", "4096", "-J", &on, disk.path()]).unwrap();
    let twin = attach(&[], &journal.file);
    let mounted = disk.mount();
    let found: Vec<String> = [&journal.device, &twin, &journal.file]
        .map(|path| why(path))
        .into();
    drop(mounted);
    detach(&twin);
    for (found, part) in found.iter().zip([
        "exclusive access to",
        "exclusive access to",
        "it is the disk of",
    ]) {
        assert!(found.contains(part), "{found}");
    }
}

#[test]
fn a_device_is_one_by_all_its_nodes() {
    let Some(disk) = Loop::blank(16) else { return };
    let node = disk.folder().join("node");
    let number = fs::metadata(&disk.device)
        .map(|found| std::os::unix::fs::MetadataExt::rdev(&found))
        .unwrap();
    let (major, minor) = (
        rustix::fs::major(number).to_string(),
        rustix::fs::minor(number).to_string(),
    );
    run(&["mknod", node.to_str().unwrap(), "b", &major, &minor]).unwrap();
    for does in [
        "f = open(path, 'r+b')",
        "f = open(path, 'rb'); fcntl.flock(f, fcntl.LOCK_EX)",
    ] {
        for (used, target) in [(&node, &disk.device), (&disk.device, &node)] {
            let Some(_user) = User::python(does, used) else {
                return;
            };
            assert!(why(target).contains("process"), "{does}");
        }
    }
    write(&node, &[]).unwrap();
}

#[test]
fn data_at_the_edges_of_what_is_read_are_found() {
    let edge = 20 * MIB + 1024;
    for (length, at, blank) in [
        // In the last sector of a length that is not a multiple of a block.
        (edge + 512, edge, false),
        // Behind the last whole sector: not on the device.
        (edge + 300, edge + 100, true),
    ] {
        let prepare = |path: &Path| {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(length).unwrap();
            file.write_all_at(b"precious", at).unwrap();
        };
        let Some(disk) = Loop::holding(20, prepare) else {
            return;
        };
        assert_eq!(write(&disk.device, &[]).is_ok(), blank, "{length}");
        let mut kept = [0; 8];
        File::open(&disk.file)
            .unwrap()
            .read_exact_at(&mut kept, at)
            .unwrap();
        assert_eq!(&kept, b"precious");
    }
    // Only in the page cache of the device, which the last close would write.
    let Some(disk) = Loop::blank(64) else { return };
    let mut held = File::open(&disk.device).unwrap();
    let writes = File::options().write(true).open(&disk.device).unwrap();
    writes.write_all_at(&[7; 4096], 37 * MIB).unwrap();
    drop(writes);
    held.read_exact(&mut [0; 512]).unwrap();
    assert!(held.as_raw_fd() >= 0);
    refusal(write(&disk.device, &[]));
}

#[test]
fn files_and_devices_that_only_look_like_those_in_use_are_told_apart() {
    let Some(disk) = Loop::blank(16) else { return };
    // Its file has another name by now, and another file has the name.
    let moved = disk.folder().join("moved");
    fs::rename(&disk.file, &moved).unwrap();
    File::create(&disk.file).unwrap().set_len(16 * MIB).unwrap();
    assert_eq!(why(&disk.file), "");
    assert_eq!(
        why(&moved),
        format!("it is the disk of {}, attached", disk.name())
    );
    // A second device on it that is only read.
    let reader = attach(&["--read-only"], &moved);
    let user = User::python("f = open(path, 'rb')", &reader);
    let (writable, read_only) = (why(&disk.device), why(&reader));
    drop(user);
    detach(&reader);
    assert_eq!(
        (writable.as_str(), read_only.as_str()),
        ("", "the device is read-only")
    );
    // Another part of the file is mounted: refused, although they do not overlap.
    let part = attach(&["--offset", "8M"], &moved);
    run(&["mkfs.ext4", "-q", part.to_str().unwrap()]).unwrap();
    let point = disk.folder().join("mnt");
    fs::create_dir(&point).unwrap();
    run(&["mount", part.to_str().unwrap(), point.to_str().unwrap()]).unwrap();
    let front = attach(&["--sizelimit", "4M"], &moved);
    let found = why(&front);
    run(&["umount", point.to_str().unwrap()]).unwrap();
    let unused = why(&front);
    detach(&front);
    detach(&part);
    assert!(found.contains("is mounted on"), "{found}");
    assert_eq!(unused, "");
}

#[test]
fn files_of_a_container_on_an_overlay_are_admitted_in_it_and_its_upper_ones_outside_are_not() {
    if !common::is_root() {
        return skip("only root mounts overlays");
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["upper", "work", "root"] {
        fs::create_dir(at(name)).unwrap();
    }
    let [upper, work, root] = ["upper", "work", "root"].map(|name| at(name).display().to_string());
    let options = format!("lowerdir=/,upperdir={upper},workdir={work}");
    let overlay = ["-t", "overlay", "o", "-o", &options];
    let Some(mounted) = common::Mounted::on(&at("root"), &overlay) else {
        return;
    };
    let program = std::env::current_exe().unwrap();
    let program = program.parent().unwrap().display();
    let enter = format!(
        "set -e; cd {root}; mount -t proc p proc; mount --rbind /dev dev; mkdir -p .{program}; mount --bind {program} .{program}; \
         echo data > disk.img; exec chroot . \"$@\""
    );
    let before = [
        "unshare", "--pid", "--mount", "--fork", "sh", "-c", &enter, "x",
    ];
    let inside = Path::new("/disk.img");
    let twice = [(); 2].map(|()| said(&before, "exec \"$@\"", inside));
    let outside = [at("upper/disk.img"), at("root/disk.img")].map(|path| why(&path));
    drop(mounted);
    for said in twice {
        assert!(said.contains("admitted"), "{said}");
    }
    assert!(
        outside[0].contains("it is in the upper folder"),
        "{}",
        outside[0]
    );
    assert_eq!(outside[1], "");
}

#[test]
fn the_hint_quotes_a_name_as_one_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a 'b $x");
    fs::write(&path, [&b"QFI\xfb\0\0\0\x03"[..], &[0; 4096]].concat()).unwrap();
    let hint = refusal(write(&path, &[])).hint();
    let word = format!("--destroy '{}/a '\\''b $x'", folder.path().display());
    assert!(hint.contains(&word), "{hint}");
}
