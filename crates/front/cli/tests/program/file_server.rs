//! `iodyno serve fs`: a folder as a file system of this host, and the sockets of its server. Its guests are in `vm`,
//! and in the tests of the crate `fileserver`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};

/// A guest without a virtual machine.
#[path = "../../../../serve/fileserver/tests/guest/mod.rs"]
mod guest;

use guest::{Guest, block};

use crate::harness::{
    Home, Running, alive, children, connect, fio, fuse_transports, iodyno, root, short, skip,
    wait_for,
};

/// A server of the folder `shared`.
fn serve(home: &Home, more: &[&str]) -> Running {
    std::fs::create_dir_all(home.work().join("shared")).unwrap();
    let arguments = [&["serve", "fs", "shared", "--socket", "s"], more].concat();
    let server = home.start(&arguments);
    server.wait_until_it_tells("serving shared on s");
    server
}

#[test]
fn a_server_says_how_many_files_the_limit_of_open_files_allows() {
    let home = Home::new();
    std::fs::create_dir_all(home.work().join("shared")).unwrap();
    for (limit, more, files) in [
        (
            "20000",
            &[][..],
            Some("a client can use 14808 files at a time"),
        ),
        ("2000", &["--sandbox", "none"], Some("1308 files")),
        (
            "2000",
            &["--sandbox", "none", "--inode-file-handles", "prefer"],
            None,
        ),
    ] {
        let mut command = home.program(Path::new("/bin/sh"));
        let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &script, iodyno()]);
        command
            .args(["serve", "fs", "shared", "--socket", "s"])
            .args(more);
        let server = Running::of(command);
        server.wait_until_it_tells("serving shared on s");
        if let Some(files) = files {
            server.wait_until_it_tells(files);
        }
        server.signal(Signal::TERM);
        let done = server.done().succeeds();
        assert_eq!(done.stderr.contains("at a time"), files.is_some());
    }
}

#[test]
fn a_server_of_a_folder_tells_what_it_counted_and_removes_its_sockets() {
    let home = Home::new();
    let server = serve(&home, &["--dispatch", "threshold:3", "--stats", "t"]);
    let sockets = ["s", "t"].map(|name| home.work().join(name));
    for socket in &sockets {
        let mode = socket.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    for _ in 0..2 {
        let mut text = String::new();
        let mut told = connect(&sockets[1]).unwrap();
        told.read_to_string(&mut text).unwrap();
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["dispatch"], "threshold:3");
        assert_eq!(
            (&told["requests"], &told["threads"]),
            (&0.into(), &16.into())
        );
        assert!(told["hand_off_ns"].as_u64().is_some_and(|ns| ns > 0));
    }
    // A client that says nothing does not keep it from ending.
    let client = connect(&sockets[0]).unwrap();
    server.signal(Signal::TERM);
    server.done().succeeds();
    drop(client);
    assert!(!sockets.iter().any(|socket| socket.exists()));
}

#[test]
fn a_folder_that_cannot_be_served_is_named_with_all_other_faults() {
    let home = Home::new();
    home.file("taken", "a file\n");
    let arguments = ["serve", "fs", "missing", "--socket", "taken"];
    let refused = home.iodyno(&arguments).exits(2);
    refused
        .stderr_has("cannot serve `missing`: No such file or directory")
        .stderr_has("cannot listen on `taken`");
    let arguments = ["serve", "fs", "taken", "--socket", "s"];
    home.iodyno(&arguments)
        .exits(2)
        .stderr_has("not a directory");
    assert!(!Path::new(&home.work().join("s")).exists());
    let arguments = ["serve", "fs", ".", "--socket", "s", "--dispatch", "pool:0"];
    home.iodyno(&arguments)
        .exits(2)
        .stderr_has("between 1 and 1024");
}

/// A server that mounts the folder `shared` on `mnt`, which shows the file `there`.
fn mounted(home: &Home, transport: &str, more: &[&str]) -> Running {
    for folder in ["shared", "mnt"] {
        // The mount left by a killed server does not answer.
        let _ = std::fs::create_dir(home.work().join(folder));
    }
    home.file("shared/there", "a file\n");
    let arguments = [
        "serve",
        "fs",
        "shared",
        "--mount",
        "mnt",
        "--fuse-transport",
        transport,
    ];
    let server = home.start(&[&arguments[..], more].concat());
    server.wait_until_it_tells(match transport {
        "device" => "FUSE by /dev/fuse\n",
        _ => "FUSE by io_uring (",
    });
    server.wait_until_it_tells("serving shared on mnt");
    server
}

fn ends(server: Running, home: &Home) {
    server.signal(Signal::TERM);
    server.done().succeeds();
    let left = std::fs::read_dir(home.work().join("mnt")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn a_mounted_folder_is_read_and_changed_as_the_folder_itself() {
    let policies = ["inline", "pool:4", "adaptive"];
    let each = (fuse_transports().iter()).flat_map(|by| policies.map(|policy| (*by, policy)));
    for (transport, policy) in each {
        let home = Home::new();
        let server = mounted(&home, transport, &["--dispatch", policy]);
        let (mnt, shared) = (home.work().join("mnt"), home.work().join("shared"));
        assert_eq!(std::fs::read(mnt.join("there")).unwrap(), b"a file\n");
        std::fs::create_dir(mnt.join("folder")).unwrap();
        let data: Vec<u8> = (0..5_000_001u32).map(|at| ((at * 7) >> 5) as u8).collect();
        std::fs::write(mnt.join("folder/long"), &data).unwrap();
        assert!(std::fs::read(shared.join("folder/long")).unwrap() == data);
        assert!(std::fs::read(mnt.join("folder/long")).unwrap() == data);
        std::fs::rename(mnt.join("folder/long"), mnt.join("moved")).unwrap();
        std::fs::hard_link(mnt.join("moved"), mnt.join("linked")).unwrap();
        assert_eq!(shared.join("linked").metadata().unwrap().nlink(), 2);
        let file = File::options().write(true).open(mnt.join("moved")).unwrap();
        file.set_len(1234).unwrap();
        file.sync_all().unwrap();
        assert_eq!(shared.join("linked").metadata().unwrap().len(), 1234);
        drop(file);
        for at in 0..500 {
            std::fs::write(mnt.join(format!("folder/{at}")), "").unwrap();
        }
        let names = |path: &Path| -> BTreeSet<OsString> {
            let entries = std::fs::read_dir(path).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(names(&mnt.join("folder")), names(&shared.join("folder")));
        assert_eq!(names(&mnt.join("folder")).len(), 500);
        std::fs::remove_dir_all(mnt.join("folder")).unwrap();
        std::fs::remove_file(mnt.join("moved")).unwrap();
        assert_eq!(
            names(&shared),
            ["linked", "there"].map(OsString::from).into()
        );
        // Blocks are checked as they are read back, by several clones.
        let job = [
            "--name=v",
            "--directory=mnt",
            "--rw=randwrite",
            "--bsrange=512-128k",
            "--size=4m",
            "--numjobs=3",
            "--ioengine=psync",
            "--verify=crc32c",
            "--end_fsync=1",
        ];
        home.iodyno(&fio(&[], &job)).succeeds();
        ends(server, &home);
    }
}

#[test]
fn direct_io_of_a_mounted_folder_is_verified() {
    for transport in fuse_transports() {
        let home = Home::new();
        let server = mounted(&home, transport, &["--allow-direct-io"]);
        let job = [
            "--name=v",
            "--directory=mnt",
            "--rw=randrw",
            "--bsrange=4k-128k",
            "--blockalign=4k",
            "--size=4m",
            "--numjobs=3",
            "--ioengine=psync",
            "--direct=1",
            "--verify=crc32c",
        ];
        home.iodyno(&fio(&[], &job)).succeeds();
        ends(server, &home);
    }
}

#[test]
fn links_of_a_mounted_folder_are_followed_by_the_client_only() {
    let Some(transport) = fuse_transports().last() else {
        return;
    };
    let home = Home::new();
    home.file("secret", "hidden");
    let server = mounted(&home, transport, &["--readonly"]);
    let (mnt, shared) = (home.work().join("mnt"), home.work().join("shared"));
    symlink("../secret", shared.join("out")).unwrap();
    symlink("there", shared.join("in")).unwrap();
    // The first one leads to the file next to the mount, which the client opens itself.
    assert_eq!(
        std::fs::read_link(mnt.join("out")).unwrap(),
        Path::new("../secret")
    );
    assert_eq!(std::fs::read(mnt.join("out")).unwrap(), b"hidden");
    assert_eq!(std::fs::read(mnt.join("in")).unwrap(), b"a file\n");
    let errors = [
        std::fs::write(mnt.join("there"), "x").unwrap_err(),
        std::fs::write(mnt.join("new"), "x").unwrap_err(),
        std::fs::remove_file(mnt.join("there")).unwrap_err(),
        std::fs::create_dir(mnt.join("new")).unwrap_err(),
        symlink("there", mnt.join("new")).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
    ends(server, &home);
    assert_eq!(std::fs::read(shared.join("there")).unwrap(), b"a file\n");
}

#[test]
fn a_folder_is_mounted_only_on_an_empty_one_outside_of_it_and_again_after_a_kill() {
    for transport in fuse_transports() {
        let home = Home::new();
        let server = mounted(&home, transport, &[]);
        server.signal(Signal::KILL);
        server.done();
        let mnt = home.work().join("mnt");
        let gone = std::fs::read_dir(&mnt).unwrap_err();
        // ENOTCONN, or ECONNABORTED if the request was sent before the kernel knew.
        assert!(matches!(gone.raw_os_error(), Some(103 | 107)), "{gone}");
        let server = mounted(&home, transport, &[]);
        assert_eq!(std::fs::read(mnt.join("there")).unwrap(), b"a file\n");
        ends(server, &home);
        std::fs::create_dir(home.work().join("shared/below")).unwrap();
        for (place, why) in [
            ("shared/below", "within the folder that is served"),
            ("shared", "not an empty folder"),
            ("shared/there", "Not a directory"),
        ] {
            let refused = home.iodyno(&["serve", "fs", "shared", "--mount", place]);
            refused.exits(2).stderr_has(why);
        }
    }
}

#[test]
fn a_server_ends_when_its_folder_is_unmounted_and_while_files_are_open() {
    for transport in fuse_transports() {
        let home = Home::new();
        let mnt = home.work().join("mnt");
        let server = mounted(&home, transport, &[]);
        let work = home.work().canonicalize().unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let escaped = work.display().to_string().replace(' ', "\\040");
        let expected = format!("{escaped}/shared {escaped}/mnt fuse.iodyno ");
        assert!(mounts.contains(&expected), "{expected}: {mounts}");
        rustix::mount::unmount(&mnt, rustix::mount::UnmountFlags::empty()).unwrap();
        server.done().succeeds();
        // Data written and not synced survive the unmount.
        let server = mounted(&home, transport, &["--writeback"]);
        let mut file = File::create(mnt.join("open")).unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        ends(server, &home);
        let written = std::fs::read(home.work().join("shared/open")).unwrap();
        assert!(written == [7; 100_000], "{} bytes", written.len());
        // The kernel may still know its attributes.
        assert!(file.sync_all().is_err());
    }
}

#[test]
fn a_process_that_is_killed_while_it_waits_leaves_a_server_that_serves_others() {
    for transport in fuse_transports() {
        let home = Home::new();
        let more = [
            "--delay",
            "300ms",
            "--dispatch",
            "pool:2",
            "--cache",
            "never",
        ];
        let server = mounted(&home, transport, &more);
        let there = home.work().join("mnt/there");
        for signal in ["-INT", "-KILL"] {
            let mut reader = Command::new("cat")
                .arg(&there)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let wchan = format!("/proc/{}/wchan", reader.id());
            wait_for("the reader waits for the server, or has ended", || {
                let place = std::fs::read_to_string(&wchan).unwrap_or_default();
                let ended = reader.try_wait().is_ok_and(|ended| ended.is_some());
                (ended || place.contains("request_wait_answer")).then_some(())
            });
            let id = reader.id().to_string();
            let _ = Command::new("kill").args([signal, &id]).status();
            reader.wait().unwrap();
            assert_eq!(std::fs::read(&there).unwrap(), b"a file\n");
        }
        ends(server, &home);
    }
}

#[test]
fn files_that_pass_through_are_read_and_written_without_the_server() {
    for transport in fuse_transports() {
        let home = Home::new();
        let kind = rustix::fs::statfs(home.work()).unwrap().f_type;
        if kind == 0x794c_7630 {
            return skip("files of overlayfs do not pass through");
        }
        let server = mounted(&home, transport, &["--passthrough", "--stats", "t"]);
        let (mnt, shared) = (home.work().join("mnt"), home.work().join("shared"));
        let data: Vec<u8> = (0..300_001u32).map(|at| ((at * 7) >> 5) as u8).collect();
        // Created, written and read by several descriptors of different modes, one after the other and concurrently.
        std::fs::write(mnt.join("long"), &data).unwrap();
        assert!(std::fs::read(shared.join("long")).unwrap() == data);
        let first = File::open(mnt.join("long")).unwrap();
        let mut second = File::options().append(true).open(mnt.join("long")).unwrap();
        second.write_all(b"more").unwrap();
        assert_eq!(first.metadata().unwrap().len(), 300_005);
        let mut read = [0; 10];
        first.read_exact_at(&mut read[..6], 299_999).unwrap();
        assert_eq!(read[2..6], *b"more");
        second.set_len(5).unwrap();
        assert_eq!(first.read_at(&mut read, 0).unwrap(), 5);
        assert_eq!(shared.join("long").metadata().unwrap().len(), 5);
        std::fs::remove_file(mnt.join("long")).unwrap();
        assert_eq!(first.read_at(&mut read, 3).unwrap(), 2);
        drop((first, second));
        // Truncated when opened again; and writes of others are visible immediately.
        std::fs::write(mnt.join("there"), b"other\n").unwrap();
        assert_eq!(std::fs::read(shared.join("there")).unwrap(), b"other\n");
        std::fs::write(shared.join("there"), b"third\n").unwrap();
        assert_eq!(std::fs::read(mnt.join("there")).unwrap(), b"third\n");
        let mut text = String::new();
        let mut told = connect(&home.work().join("t")).unwrap();
        told.read_to_string(&mut text).unwrap();
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        let counted: BTreeSet<&str> = (told["opcodes"].as_array().unwrap().iter())
            .filter_map(|counts| counts["opcode"].as_str())
            .collect();
        assert!(
            counted.contains("OPEN") && counted.contains("CREATE"),
            "{told}"
        );
        assert!(
            !counted.contains("READ") && !counted.contains("WRITE"),
            "{told}"
        );
        ends(server, &home);
    }
}

#[test]
fn a_transport_that_is_demanded_and_not_there_is_named() {
    if fuse_transports() != ["device"] {
        // It is there, or nothing can be mounted.
        return;
    }
    let home = Home::new();
    std::fs::create_dir(home.work().join("shared")).unwrap();
    std::fs::create_dir(home.work().join("mnt")).unwrap();
    let arguments = [
        "serve",
        "fs",
        "shared",
        "--mount",
        "mnt",
        "--fuse-transport",
    ];
    let refused = home.iodyno(&[&arguments[..], &["io_uring"]].concat());
    refused
        .exits(4)
        .stderr_has("enable_uring")
        .stderr_has("--fuse-transport device");
    assert_eq!(
        std::fs::read_dir(home.work().join("mnt")).unwrap().count(),
        0
    );
    let server = mounted(&home, "device", &[]);
    ends(server, &home);
}

/// Several clones each write a file, through their own queue, and verify it.
fn verify(home: &Home, clones: u32, size: &str) {
    let job = [
        "--name=t".to_owned(),
        "--ioengine=virtiofs".to_owned(),
        format!("--uri=virtiofs://{}", home.work().join("s").display()),
        "--directory=/".to_owned(),
        "--rw=randrw".to_owned(),
        "--bsrange=4k-128k".to_owned(),
        "--blockalign=4k".to_owned(),
        "--iodepth=16".to_owned(),
        format!("--numjobs={clones}"),
        format!("--size={size}"),
        "--verify=crc32c".to_owned(),
    ];
    let job: Vec<&str> = job.iter().map(String::as_str).collect();
    home.iodyno(&fio(&[], &job)).succeeds();
}

#[test]
fn the_engine_virtiofs_verifies_what_every_policy_stored() {
    for policy in ["inline", "pool:4", "threshold:3", "adaptive"] {
        let home = Home::new();
        let server = serve(&home, &["--dispatch", policy, "--allow-direct-io"]);
        verify(&home, 3, "4m");
        assert_eq!(
            home.work().join("shared/t.2.0").metadata().unwrap().len(),
            4 << 20
        );
        server.signal(Signal::TERM);
        server.done().succeeds();
    }
}

/// The process that serves requests, below the one that was started.
fn worker(server: &Running) -> Pid {
    let mut last = server.pid();
    while let Some(child) = children(last).first() {
        last = *child;
    }
    last
}

/// A line of the status of a process.
fn status(of: Pid, name: &str) -> String {
    let path = format!("/proc/{}/status", of.as_raw_nonzero());
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_server_in_a_sandbox_serves_and_sees_nothing_but_its_folder() {
    if !root() {
        return skip("sandboxes of all kinds need root");
    }
    for sandbox in ["namespace", "chroot"] {
        let home = Home::new();
        std::fs::create_dir(home.work().join("shared")).unwrap();
        // Its name in the folder is that of the socket outside.
        home.file("shared/s", "a file of the user\n");
        let more = ["--sandbox", sandbox, "--stats", "t", "--inode-file-handles"];
        let server = serve(&home, &[&more[..], &["prefer"]].concat());
        let inner = worker(&server);
        let seen = format!("/proc/{}/root", inner.as_raw_nonzero());
        let folder = home.work().join("shared").metadata().unwrap();
        let top = std::fs::metadata(&seen).unwrap();
        assert_eq!((top.dev(), top.ino()), (folder.dev(), folder.ino()));
        assert!(!Path::new(&seen).join("etc").exists());
        assert_eq!(status(inner, "Seccomp:"), "2");
        assert_eq!(status(inner, "NoNewPrivs:"), "1");
        // CAP_SYS_ADMIN is the bit 21, CAP_CHOWN the bit 0.
        let capabilities = u64::from_str_radix(&status(inner, "CapPrm:"), 16).unwrap();
        assert_eq!(capabilities & (1 << 21 | 1), 1);
        let network = |pid: Pid| {
            std::fs::read_link(format!("/proc/{}/ns/net", pid.as_raw_nonzero())).unwrap()
        };
        let own = network(rustix::process::getpid());
        assert_eq!(network(inner) != own, sandbox == "namespace");
        verify(&home, 2, "2m");
        let mut text = String::new();
        let mut told = connect(&home.work().join("t")).unwrap();
        told.read_to_string(&mut text).unwrap();
        assert!(text.contains("\"WRITE\""), "{text}");
        assert!(text.contains("\"transport\": \"vhost-user\""), "{text}");
        server.signal(Signal::TERM);
        server.done().succeeds();
        for socket in ["s", "t"] {
            assert!(!home.work().join(socket).exists());
        }
        let kept = std::fs::read(home.work().join("shared/s")).unwrap();
        assert_eq!(kept, b"a file of the user\n");
    }
}

#[test]
fn a_guest_goes_on_at_another_server_after_its_own_was_killed() {
    if !root() {
        return skip("sandboxes of all kinds need root");
    }
    for more in [
        &["--migration-verify-handles", "--migration-confirm-paths"][..],
        &["--sandbox", "chroot", "--dispatch", "pool:4"],
        &[
            "--sandbox",
            "none",
            "--allow-direct-io",
            "--migration-on-error",
            "guest-error",
        ],
        &[
            "--migration-mode",
            "file-handles",
            "--inode-file-handles",
            "prefer",
        ],
    ] {
        let home = Home::new();
        let first = serve(&home, more);
        let connected = |socket: &str| connect(&home.work().join(socket)).unwrap();
        let mut guest = Guest::at(connected("s"));
        guest.start();
        guest.initialise();
        let file = guest.create("file").unwrap();
        let written = guest.puts_write(file, 0, &block(1));
        guest.kick(1);
        let replies = guest.waits(1, 1);
        guest.reply(written, replies[0].1).unwrap();
        guest.stop();
        let state = guest.saves().unwrap();
        rustix::process::kill_process(worker(&first), Signal::KILL).unwrap();
        first.signal(Signal::KILL);
        first.done();
        let arguments = ["serve", "fs", "shared", "--socket", "other"];
        let second = home.start(&[&arguments[..], more].concat());
        second.wait_until_it_tells("serving shared on other");
        guest.moves(connected("other"));
        // An incomplete state is refused and reported.
        guest.loads(&state[..state.len() / 2]).unwrap_err();
        second.wait_until_it_tells("cannot load the state of the client: it is truncated");
        guest.loads(&state).unwrap();
        guest.start();
        let read = guest.puts_read(file, 0, 4096);
        guest.kick(1);
        let replies = guest.waits(1, 1);
        assert!(
            guest.reply(read, replies[0].1).unwrap() == block(1),
            "{more:?}"
        );
        assert_eq!(status(worker(&second), "Seccomp:"), "2");
        second.signal(Signal::TERM);
        second.done().succeeds();
    }
}

#[test]
fn a_server_in_a_sandbox_that_is_killed_is_reported() {
    if !root() {
        return skip("a sandbox needs root or namespaces of users");
    }
    let home = Home::new();
    let server = serve(&home, &[]);
    rustix::process::kill_process(worker(&server), Signal::KILL).unwrap();
    server.done().exits(4).stderr_has("killed by SIGKILL");
    assert!(!home.work().join("s").exists());
    // And if the process outside is killed, that in the sandbox ends.
    let server = serve(&home, &["--sandbox", "chroot"]);
    let inner = worker(&server);
    server.signal(Signal::KILL);
    server.done();
    wait_for("the end of the server", || (!alive(inner)).then_some(()));
}

#[test]
fn a_sandbox_that_cannot_be_is_named() {
    let home = Home::new();
    for folder in ["shared", "mnt"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let serve = ["serve", "fs", "shared"];
    for (more, why) in [
        (
            &["--mount", "mnt", "--sandbox", "chroot"][..],
            "cannot be in a sandbox",
        ),
        (
            &["--socket", "s", "--sandbox", "none", "--uid-map", ":0:1:1:"],
            "`--uid-map` and `--gid-map`",
        ),
        (
            &[
                "--socket",
                "s",
                "--translate-uid",
                "map:0:1:1",
                "--posix-acl",
            ],
            "ids within ACLs",
        ),
        (
            &["--socket", "s", "--translate-uid", "to:0:1:1"],
            "Invalid ID map prefix to",
        ),
        (&["--fd", "77"], "`--fd 77`: Bad file descriptor"),
    ] {
        home.iodyno(&[&serve[..], more].concat())
            .exits(2)
            .stderr_has(why);
    }
    assert!(!home.work().join("s").exists());
}

#[test]
fn a_link_named_virtiofsd_serves_an_inherited_socket_as_libvirt_starts_it() {
    let home = Home::new();
    let link = home.work().join("virtiofsd");
    symlink(iodyno(), &link).unwrap();
    std::fs::create_dir(home.work().join("shared")).unwrap();
    let printed = home.program(&link).arg("--print-capabilities").output();
    let text = String::from_utf8(printed.unwrap().stdout).unwrap();
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["type"], "fs");
    let features = told["features"].as_array().unwrap();
    assert!(features.contains(&"separate-options".into()));
    assert!(features.contains(&"migrate-precopy".into()));
    let path = home.work().join("s");
    let listener = UnixListener::bind(short(&home.work(), "s")).unwrap();
    let mut server = home.program(&link);
    server.args(["--fd=0", "--shared-dir", "shared", "--cache", "never"]);
    server.args(["--sandbox", if root() { "chroot" } else { "none" }]);
    server.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)));
    let server = Running::of(server);
    server.wait_until_it_tells("serving shared on descriptor 0");
    let uri = format!("--uri=virtiofs://{}", path.display());
    let write = ["--rw=write", "--size=1m", "--filename=/new", "--name=t"];
    let job = [&write[..], &["--ioengine=virtiofs", &uri]].concat();
    home.iodyno(&fio(&[], &job)).succeeds();
    let new = home.work().join("shared/new").metadata().unwrap();
    assert_eq!(new.len(), 1 << 20);
    server.signal(Signal::TERM);
    server.done().succeeds();
}

#[test]
fn the_service_manager_learns_when_a_server_is_ready_and_when_it_ends() {
    let home = Home::new();
    std::fs::create_dir(home.work().join("shared")).unwrap();
    let manager = UnixDatagram::bind(short(&home.work(), "notify")).unwrap();
    let watchdog = std::time::Duration::from_secs(60);
    manager.set_read_timeout(Some(watchdog)).unwrap();
    let news = || {
        let mut text = [0; 64];
        let length = manager.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    };
    let sandboxes: &[&str] = match root() {
        true => &["namespace", "chroot", "none"],
        false => &["none"],
    };
    for sandbox in sandboxes {
        let arguments = ["serve", "fs", "shared", "--socket", "s", "--sandbox"];
        let mut server = home.command(&[&arguments[..], &[sandbox]].concat());
        server.env("NOTIFY_SOCKET", short(&home.work(), "notify"));
        let server = Running::of(server);
        assert_eq!(news(), "READY=1");
        assert!(connect(&home.work().join("s")).is_ok());
        server.signal(Signal::TERM);
        assert_eq!(news(), "STOPPING=1");
        server.done().succeeds();
    }
}

#[test]
fn ids_are_translated_between_clients_and_the_host() {
    if fuse_transports().is_empty() || !root() {
        return skip("folders can be mounted by root only");
    }
    let home = Home::new();
    let shared = home.work().join("shared");
    std::fs::create_dir(&shared).unwrap();
    // The user of the host needs access.
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).unwrap();
    let more = ["--translate-uid", "map:0:4711:1", "--translate-gid"];
    let server = mounted(&home, "device", &[&more[..], &["map:0:4712:1"]].concat());
    let ids = |name: &str| {
        let found = home.work().join(name).metadata().unwrap();
        (found.uid(), found.gid())
    };
    std::fs::create_dir(home.work().join("mnt/new")).unwrap();
    assert_eq!(ids("shared/new"), (4711, 4712));
    assert_eq!(ids("mnt/new"), (0, 0));
    ends(server, &home);
}

#[test]
fn access_lists_of_clients_are_those_of_the_host() {
    if fuse_transports().is_empty() || !root() {
        return skip("folders can be mounted by root only");
    }
    let home = Home::new();
    // Version 2; read and write for the owner, read for user 1234, nothing for the group, the mask, and nothing for
    // others.
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, u32::MAX),
        (2, 4, 1234),
        (4, 0, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    let set = |path: &str| {
        let path = home.work().join(path);
        rustix::fs::setxattr(path, name, &list, rustix::fs::XattrFlags::empty())
    };
    home.file("own", "");
    if set("own").is_err() {
        return skip("this file system does not support access lists");
    }
    let server = mounted(&home, "device", &["--posix-acl=always"]);
    set("mnt/there").unwrap();
    let mut found = [0; 64];
    let length = rustix::fs::getxattr(home.work().join("shared/there"), name, &mut found);
    assert_eq!(&found[..length.unwrap()], list);
    ends(server, &home);
    // Without the option they are neither read nor changed.
    let server = mounted(&home, "device", &["--xattr"]);
    assert!(set("mnt/there").is_err());
    ends(server, &home);
}

#[test]
fn a_server_without_root_is_confined_by_a_namespace_of_its_own_users() {
    let home = Home::new();
    let shared = home.work().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let mut server = home.command(&["serve", "fs", "shared", "--socket", "s"]);
    if root() {
        home.open_to_all();
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).unwrap();
        server.uid(65534).gid(65534);
    }
    // Hosts may forbid namespaces of users, or this user to run the program.
    let mut unshared = Command::new("unshare");
    unshared.args(["--user", "--map-root-user", "--mount", "--pid", "--fork"]);
    unshared.args(["mount", "-t", "proc", "proc", "/proc"]);
    if root() {
        unshared.uid(65534).gid(65534);
    }
    if !unshared.output().is_ok_and(|done| done.status.success()) {
        return skip("this host does not allow namespaces of users");
    }
    // It may not be able to reach the program.
    let mut asked = home.command(&["--version"]);
    if root() {
        asked.uid(65534).gid(65534);
    }
    if asked.output().is_err() {
        return skip("the program cannot be run by another user");
    }
    let server = Running::of(server);
    server.wait_until_it_tells("serving shared on s");
    let uri = format!("--uri=virtiofs://{}", home.work().join("s").display());
    let write = ["--rw=write", "--size=1m", "--filename=/new", "--name=t"];
    let job = [&write[..], &["--ioengine=virtiofs", &uri]].concat();
    home.iodyno(&fio(&[], &job)).succeeds();
    let new = shared.join("new").metadata().unwrap();
    assert_eq!(new.len(), 1 << 20);
    // The client asked as root, which is the user of the server there.
    assert_eq!(new.uid(), home.work().join("s").metadata().unwrap().uid());
    assert_eq!(status(worker(&server), "Seccomp:"), "2");
    server.signal(Signal::TERM);
    server.done().succeeds();
    assert!(!home.work().join("s").exists());
}

#[test]
fn direct_reads_pass_the_filter_whether_or_not_the_kernel_transfers_them() {
    for more in [&[][..], &["--allow-direct-io"]] {
        let home = Home::new();
        let sandbox = if root() { "namespace" } else { "none" };
        let server = serve(
            &home,
            &[more, &["--sandbox", sandbox, "--stats", "t"]].concat(),
        );
        let uri = format!("--uri=virtiofs://{}", home.work().join("s").display());
        let job = [
            "--name=t",
            "--ioengine=virtiofs",
            &uri,
            "--filename=/f",
            "--rw=randread",
            "--bs=4k",
            "--direct=1",
            "--iodepth=16",
            "--size=4m",
        ];
        home.iodyno(&fio(&[], &job)).succeeds();
        let mut text = String::new();
        let mut told = connect(&home.work().join("t")).unwrap();
        told.read_to_string(&mut text).unwrap();
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        // File systems in memory have direct I/O that is worked inline.
        if more.is_empty() {
            assert_eq!(told["transferred"], 0);
        }
        server.signal(Signal::TERM);
        server.done().succeeds();
    }
}
