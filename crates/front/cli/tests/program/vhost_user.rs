//! vhost-user-blk: mirrors as disks of virtual machines, and the engine that measures any such server.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use iodyno_model::printable::shell_word;
use rustix::process::Signal;

use crate::harness::{Done, Home, Running, fio, in_uri, skip};
use crate::nbd::{MIB, client, leg, mirror, noise, serve, stop};

/// A boot sector. It reads 8 sectors from sector 1 by the firmware, writes them to sector 200, and ends qemu with `K`
/// if both succeeded.
const BOOT: [u8; 57] = [
    0x31, 0xc0, // xor ax, ax
    0x8e, 0xd8, // mov ds, ax
    0x8e, 0xd0, // mov ss, ax
    0xbc, 0x00, 0x7c, // mov sp, 0x7c00
    0xbe, 0x29, 0x7c, // mov si, packet
    0xb4, 0x42, // mov ah, 0x42
    0xcd, 0x13, // int 0x13
    0x72, 0x10, // jc failed
    0xc7, 0x44, 0x08, 200, 0x00, // mov word [si + 8], 200
    0xb8, 0x00, 0x43, // mov ax, 0x4300
    0xcd, 0x13, // int 0x13
    0x72, 0x04, // jc failed
    0xb0, b'K', // mov al, 'K'
    0xeb, 0x02, // jmp end
    0xb0, b'F', // failed: mov al, 'F'
    0xe6, 0xf4, // end: out 0xf4, al
    0xf4, // hlt
    0xeb, 0xfd, // jmp hlt
    0x10, 0x00, 0x08, 0x00, 0x00, 0x80, 0x00, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, // packet
];

#[test]
fn a_virtual_machine_boots_from_a_mirror_and_writes_to_all_legs() {
    let home = Home::new();
    if Command::new("qemu-system-x86_64")
        .arg("--version")
        .output()
        .is_err()
    {
        return skip("qemu-system-x86_64 is not installed");
    }
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let server = serve(&home, &["a", "b"], &["--vhost-user", "v"]);
    let socket = home.work().join("v");
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut disk = BOOT.to_vec();
    disk.resize(510, 0);
    disk.extend([0x55, 0xaa]);
    let data = noise(7, 8 * 512);
    disk.extend(&data);
    let mut nbd = client(&home);
    nbd.write(0, &disk);
    let mut qemu = home.program(Path::new("qemu-system-x86_64"));
    qemu.args(["-machine", "pc,accel=tcg,memory-backend=mem", "-m", "64M"]);
    qemu.args(["-object", "memory-backend-memfd,id=mem,size=64M,share=on"]);
    qemu.args(["-display", "none", "-nodefaults", "-no-reboot"]);
    qemu.args(["-chardev", "socket,id=disk,path=v"]);
    qemu.args(["-device", "vhost-user-blk-pci,chardev=disk,bootindex=0"]);
    qemu.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    // It derives an exit code from the machine's output.
    Running::of(qemu).done().exits(i32::from(b'K') << 1 | 1);
    assert!(nbd.read(200 * 512, data.len()) == data);
    stop(server);
    for path in &paths {
        let mut written = vec![0; data.len()];
        let leg = OpenOptions::new().read(true).open(path).unwrap();
        leg.read_exact_at(&mut written, MIB + 200 * 512).unwrap();
        assert!(written == data, "{}", path.display());
    }
    assert!(!socket.exists());
}

#[test]
fn a_socket_that_is_in_use_is_refused_and_none_is_left() {
    let home = Home::new();
    leg(&home, "a", 9);
    mirror(&home, &["create", "a"]).succeeds();
    home.file("taken", "a file\n");
    let arguments = ["serve", "mirror", "--leg", "a", "--socket", "s"];
    let arguments = [&arguments[..], &["--vhost-user", "taken"]].concat();
    let refused = home.iodyno(&arguments).exits(2);
    refused.stderr_has("cannot listen on `taken`");
    assert!(!home.work().join("s").exists());
    assert_eq!(
        std::fs::read(home.work().join("taken")).unwrap(),
        b"a file\n"
    );
}

fn uri(home: &Home) -> String {
    format!("vhost-user-blk://{}", in_uri(&home.work().join("v")))
}

/// The result of a job on the disk.
fn job(home: &Home, options: &[&str], job: &[&str]) -> Done {
    let uri = format!("--uri={}", uri(home));
    let job = [&["--name=t", "--ioengine=vhost-user-blk", &uri], job].concat();
    home.iodyno(&fio(options, &job))
}

/// qemu's server of a file. `None`: it is not installed.
fn storage_daemon(home: &Home, more: &str) -> Option<Running> {
    let image = File::create(home.work().join("image")).unwrap();
    image.set_len(16 * MIB).unwrap();
    let mut daemon = home.program(Path::new("qemu-storage-daemon"));
    daemon.args([
        "--blockdev",
        "driver=file,node-name=disk,filename=image,discard=unmap",
    ]);
    let export = "vhost-user-blk,id=e,node-name=disk,writable=on,addr.type=unix,addr.path=v";
    daemon.args(["--export", &format!("type={export}{more}")]);
    if Command::new("qemu-storage-daemon")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("qemu-storage-daemon is not installed");
        return None;
    }
    let running = Running::of(daemon);
    let socket = home.work().join("v");
    running.wait_for("the socket", || socket.exists().then_some(()));
    Some(running)
}

#[test]
fn a_disk_is_written_only_if_it_is_named_and_holds_what_was_written() {
    let home = Home::new();
    let legs = ["a", "b"].map(|name| leg(&home, name, 17));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let server = serve(&home, &["a", "b"], &["--vhost-user", "v"]);
    let uri = uri(&home);
    let data = |leg: &PathBuf| std::fs::read(leg).unwrap()[MIB as usize..].to_vec();
    // Four clones have a ring each; long requests have several segments.
    let write = [
        "--rw=randwrite",
        "--bsrange=4k-1m",
        "--blockalign=4k",
        "--iodepth=8",
        "--fsync=4",
        "--verify=crc32c",
        "--numjobs=4",
        "--size=4m",
        "--offset_increment=4m",
    ];
    let refused = job(&home, &[], &write).exits(1);
    refused.stderr_has(&format!("--destroy {}", shell_word(&uri)));
    assert!(data(&legs[0]).iter().all(|byte| *byte == 0));
    let written = job(&home, &["--destroy", &uri, "--output-format=json"], &write);
    let written = written.succeeds().json();
    for job in written["jobs"].as_array().unwrap() {
        assert_eq!(job["error"], 0);
        assert_eq!(job["write"]["io_bytes"], 4 * MIB);
        assert!(job["sync"]["total_ios"].as_u64().unwrap() > 0);
    }
    // Without a size, the disk as a whole.
    let read = ["--rw=read", "--bs=1m", "--iodepth=4"];
    let read = job(&home, &["--output-format=json"], &read)
        .succeeds()
        .json();
    assert_eq!(read["jobs"][0]["read"]["io_bytes"], 16 * MIB);
    assert!(data(&legs[0]) == data(&legs[1]));
    assert!(data(&legs[0]).iter().any(|byte| *byte != 0));
    let trims = ["--rw=trim", "--bs=64k", "--iodepth=4"];
    job(&home, &["--destroy", &uri], &trims).succeeds();
    stop(server);
    for leg in &legs {
        assert!(data(leg).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn each_ring_has_a_thread_of_its_own_while_queues_are_free() {
    let home = Home::new();
    leg(&home, "a", 9);
    mirror(&home, &["create", "a"]).succeeds();
    let server = serve(&home, &["a"], &["--vhost-user", "v", "--queues", "3"]);
    let uri = uri(&home);
    home.file(
        "job.fio",
        &format!("[t]\nioengine=vhost-user-blk\nuri={uri}\nrw=randread\nnumjobs=4\nruntime=1h\ntime_based\n"),
    );
    let run = home.start(&["run", "job.fio"]);
    run.wait_until_it_measures(&home);
    let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
    let names = || {
        let tasks = std::fs::read_dir(&tasks).unwrap();
        let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
        names.map(Result::unwrap).collect::<Vec<_>>()
    };
    let count = |name: &str| names().iter().filter(|own| own.trim() == name).count();
    // That of the connection has two rings.
    assert_eq!((count("client"), count("ring")), (1, 2), "{:?}", names());
    run.signal(Signal::INT);
    run.done();
    server.wait_for("the end of the threads", || {
        (count("client") + count("ring") == 0).then_some(())
    });
    stop(server);
}

#[test]
fn another_server_is_measured_and_verified() {
    let home = Home::new();
    let Some(server) = storage_daemon(&home, ",num-queues=2") else {
        return;
    };
    let uri = uri(&home);
    let mixed = [
        "--rw=randrw",
        "--bsrange=4k-128k",
        "--blockalign=4k",
        "--iodepth=16",
        "--verify=xxhash",
        "--fdatasync=20",
        "--numjobs=2",
        "--size=8m",
        "--offset_increment=8m",
    ];
    let done = job(&home, &["--destroy", &uri, "--output-format=json"], &mixed);
    for job in done.succeeds().json()["jobs"].as_array().unwrap() {
        assert_eq!(job["error"], 0);
    }
    let trims = ["--rw=randtrimwrite", "--bs=16k", "--size=8m", "--iodepth=4"];
    job(&home, &["--destroy", &uri], &trims).succeeds();
    // Each clone needs a queue.
    let many = ["--rw=randread", "--numjobs=3", "--size=1m"];
    let refused = job(&home, &[], &many).exits(1);
    refused.stderr_has("has 2 queues").stderr_has("numjobs");
    server.signal(Signal::TERM);
    server.done();
}

#[test]
fn a_job_whose_server_dies_or_is_missing_ends_with_an_error_that_names_it() {
    let home = Home::new();
    let absent = job(&home, &[], &["--rw=read"]).exits(1);
    absent
        .stderr_has("cannot connect to `vhost-user-blk:///")
        .stderr_has("start the server first");
    for other in ["--uri=nbd://host/", "--uri=vhost-user-blk://v"] {
        let wrong = job(&home, &[], &["--rw=read", other]).exits(1);
        wrong.stderr_has("vhost-user-blk:///");
    }
    leg(&home, "a", 9);
    mirror(&home, &["create", "a"]).succeeds();
    let server = serve(&home, &["a"], &["--vhost-user", "v"]);
    job(&home, &[], &["--rw=randread", "--bs=1000"])
        .exits(1)
        .stderr_has("multiple of 512 bytes");
    home.file(
        "job.fio",
        &format!(
            "[t]\nioengine=vhost-user-blk\nuri={}\nrw=randread\niodepth=4\nruntime=1h\ntime_based\n",
            uri(&home)
        ),
    );
    let run = home.start(&["run", "job.fio"]);
    run.wait_until_it_measures(&home);
    server.signal(Signal::KILL);
    run.done()
        .exits(4)
        .prints("failed: job `t`: cannot ")
        .prints("vhost-user-blk:///");
}
