//! The engine `nbd`: jobs on exports of NBD servers.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use iodyno_model::printable::shell_word;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{Done, Home, Running, connect, fio, in_uri, skip, wait_for};
use crate::nbd::{MIB, leg, mirror, serve, stop};

fn uri(home: &Home) -> String {
    format!("nbd+unix:///?socket={}", in_uri(&home.work().join("s")))
}

/// The result of a job on the export.
fn job(home: &Home, options: &[&str], job: &[&str]) -> Done {
    let uri = format!("--uri={}", uri(home));
    let job = [&["--name=t", "--ioengine=nbd", &uri], job].concat();
    home.iodyno(&fio(options, &job))
}

/// A mirror of two legs that is served.
fn served(home: &Home) -> ([PathBuf; 2], Running) {
    let legs = ["a", "b"].map(|name| leg(home, name, 17));
    mirror(home, &["create", "a", "b"]).succeeds();
    (legs, serve(home, &["a", "b"], &[]))
}

fn data(leg: &Path) -> Vec<u8> {
    std::fs::read(leg).unwrap()[MIB as usize..].to_vec()
}

#[test]
fn an_export_is_written_only_if_it_is_named_and_holds_what_was_written() {
    let home = Home::new();
    let (legs, server) = served(&home);
    let uri = uri(&home);
    let write = [
        "--rw=randwrite",
        "--bs=4k-64k",
        "--iodepth=8",
        "--fsync=16",
        "--verify=crc32c",
        "--numjobs=2",
        "--size=8m",
        "--offset_increment=8m",
    ];
    let refused = job(&home, &[], &write).exits(1);
    refused.stderr_has(&format!("--destroy {}", shell_word(&uri)));
    assert!(data(&legs[0]).iter().all(|byte| *byte == 0));
    home.file(
        "job.fio",
        &format!("[t]\nioengine=nbd\nuri={uri}\nrw=write\n"),
    );
    home.iodyno(&["run", "job.fio"]).exits(3);
    home.iodyno(&["run", "job.fio", "--dry-run"])
        .succeeds()
        .prints("needs --destroy");
    assert!(data(&legs[0]).iter().all(|byte| *byte == 0));
    let written = job(&home, &["--destroy", &uri, "--output-format=json"], &write);
    let written = written.succeeds().json();
    for job in written["jobs"].as_array().unwrap() {
        assert_eq!(job["error"], 0);
        assert_eq!(job["write"]["io_bytes"], 8 * MIB);
        assert!(job["sync"]["total_ios"].as_u64().unwrap() > 0);
    }
    // Without a size, the export as a whole.
    let read = job(
        &home,
        &["--output-format=json"],
        &["--rw=read", "--bs=1m", "--iodepth=4"],
    );
    assert_eq!(
        read.succeeds().json()["jobs"][0]["read"]["io_bytes"],
        16 * MIB
    );
    let durable = ["--rw=write", "--bs=64k", "--sync=dsync", "--size=1m"];
    job(&home, &["--destroy", &uri], &durable).succeeds();
    stop(server);
    assert!(data(&legs[0]) == data(&legs[1]));
    assert!(data(&legs[0]).iter().any(|byte| *byte != 0));
}

#[test]
fn what_a_server_cannot_do_and_a_missing_server_are_named() {
    let home = Home::new();
    let absent = job(&home, &[], &["--rw=read"]).exits(1);
    absent
        .stderr_has("cannot connect to `nbd+unix:///?socket=")
        .stderr_has("start the server first");
    let (_, server) = served(&home);
    job(&home, &[], &["--rw=randread", "--bs=1000"])
        .exits(1)
        .stderr_has("multiple of 512 bytes");
    let other = format!(
        "--uri=nbd+unix:///other?socket={}",
        home.work().join("s").display()
    );
    job(&home, &[], &["--rw=read", &other])
        .exits(1)
        .stderr_has("refuses the export `other`");
    job(&home, &[], &["--rw=read", "--uri=/run/s"])
        .exits(1)
        .stderr_has("nbd+unix:///NAME?socket=PATH");
    stop(server);
}

#[test]
fn a_job_whose_server_dies_ends_with_an_error_that_names_it() {
    let home = Home::new();
    let (_, server) = served(&home);
    home.file(
        "job.fio",
        &format!(
            "[t]\nioengine=nbd\nuri={}\nrw=randread\niodepth=4\nruntime=1h\ntime_based\n",
            uri(&home)
        ),
    );
    let run = home.start(&["run", "job.fio"]);
    run.wait_until_it_measures(&home);
    server.signal(Signal::KILL);
    run.done()
        .exits(4)
        .prints("failed: job `t`: cannot ")
        .prints("socket=");
}

/// nbdkit with these arguments, and the folder of its socket. `None`: it is not installed.
fn nbdkit(home: &Home, arguments: &[&str]) -> Option<(Running, TempDir)> {
    // nbdkit takes the whole path of its socket, of at most 107 bytes.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let socket = folder.path().join("s");
    symlink(&socket, home.work().join("s")).unwrap();
    let mut command = Command::new("nbdkit");
    command.arg("--foreground").arg("--unix").arg(&socket);
    command.args(arguments);
    if Command::new("nbdkit").arg("--version").output().is_err() {
        skip("nbdkit is not installed");
        return None;
    }
    let server = Running::of(command);
    // A client that leaves before the greeting can end nbdkit, until it ignores SIGPIPE.
    wait_for("the server", || {
        let mut stream = connect(&socket).ok()?;
        stream.read_exact(&mut [0; 18]).ok()
    });
    Some((server, folder))
}

#[test]
fn writes_that_failed_are_counted_and_no_bad_blocks_also_in_a_later_run() {
    let home = Home::new();
    // Writes to 16 of the 256 blocks fail.
    let protect = ["--filter=protect", "memory", "4M", "protect=65536-131071"];
    let Some((server, _folder)) = nbdkit(&home, &protect) else {
        return;
    };
    let uri = uri(&home);
    let text = |options: &str| {
        format!(
            "[t]\nioengine=nbd\nuri={uri}\nrw=write\nbs=4k\nsize=1m\nverify=crc32c\n\
             ignore_error=,EPERM\n{options}\n"
        )
    };
    home.file("write.fio", &text(""));
    home.file("check.fio", &text("verify_only=1"));
    for job in ["write.fio", "check.fio"] {
        let done = home.iodyno(&["run", job, "--destroy", &uri, "--json"]);
        let json = done.json();
        let trial = &json["trials"][0];
        let verify = &trial["groups"][0]["verify"];
        assert_eq!(verify["checked"], 240, "{job}: {verify}");
        assert_eq!(verify["unchecked"], 16, "{job}: {verify}");
        assert!(verify["first"].is_null(), "{job}: {verify}");
        assert!(done.stdout.contains("16 blocks were not checked"), "{job}");
        assert!(!done.stdout.contains("there is no record"), "{job}");
        if job == "check.fio" {
            done.succeeds();
        }
    }
    home.iodyno(&["fio", "check.fio"])
        .succeeds()
        .stderr_has("job `t`: 16 blocks were not checked");
    server.signal(Signal::TERM);
    server.done();
}

#[test]
fn trims_and_clones_use_another_server() {
    let home = Home::new();
    let Some((server, _folder)) = nbdkit(&home, &["memory", "64M"]) else {
        return;
    };
    let uri = uri(&home);
    let trims = [
        "--rw=randtrimwrite",
        "--bs=16k",
        "--size=8m",
        "--numjobs=3",
        "--iodepth=4",
        "--group_reporting",
    ];
    let done = job(&home, &["--destroy", &uri, "--output-format=json"], &trims);
    let done = done.succeeds().json();
    assert_eq!(done["jobs"][0]["trim"]["io_bytes"], 24 * MIB);
    assert_eq!(done["jobs"][0]["write"]["io_bytes"], 24 * MIB);
    server.signal(Signal::TERM);
    server.done();
}
