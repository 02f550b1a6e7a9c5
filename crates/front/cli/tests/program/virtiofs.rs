//! The engine `virtiofs`: iodyno as the guest of a server of a folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Done, Home, Running, fio, root, short, skip};
use crate::nbd::MIB;

/// qemu's server, which serves one client and then ends.
const QEMU: &str = "/usr/lib/qemu/virtiofsd";

/// A server of the folder `shared`. `None`: it cannot be used here.
fn serve(home: &Home, more: &[&str]) -> Option<Running> {
    if !Path::new(QEMU).exists() {
        skip("qemu's virtiofsd is not installed");
        return None;
    }
    if !root() {
        skip("qemu's virtiofsd needs root");
        return None;
    }
    let socket = short(&home.work(), "v");
    let _ = fs::remove_file(&socket);
    home.file("socket", &socket.display().to_string());
    let mut server = home.program(Path::new(QEMU));
    // Its pool of threads is killed by its own filter of system calls otherwise.
    server.env("MALLOC_ARENA_MAX", "2");
    let source = format!("source={}", home.work().join("shared").display());
    // A lock file of the whole host has this name.
    let path = format!("--socket-path={}", socket.display());
    server.args([&path, "-o", &source, "-o", "sandbox=chroot"]);
    server.args(more);
    let running = Running::of(server);
    running.wait_for("the socket", || socket.exists().then_some(()));
    Some(running)
}

/// Waits for the end of a server, and removes the lock file that it leaves.
fn end(home: &Home, server: Running) {
    server.done();
    let socket = fs::read_to_string(home.work().join("socket")).unwrap();
    let name = socket.replace('/', ".");
    let _ = fs::remove_file(format!("/run/virtiofsd/{name}.pid"));
}

/// The result of a job on the share.
fn job(home: &Home, options: &[&str], job: &[&str]) -> Done {
    let uri = format!("--uri=virtiofs://{}", home.work().join("v").display());
    let job = [&["--name=t", "--ioengine=virtiofs", &uri], job].concat();
    home.iodyno(&fio(options, &job))
}

fn shared(home: &Home) -> std::path::PathBuf {
    let shared = home.work().join("shared");
    fs::create_dir(&shared).unwrap();
    shared
}

#[test]
fn what_a_guest_writes_is_read_on_the_host_and_the_other_way_round() {
    let home = Home::new();
    let folder = shared(&home);
    fs::create_dir(folder.join("sub")).unwrap();
    let Some(server) = serve(&home, &["--thread-pool-size=4"]) else {
        return;
    };
    // Four clones share the one queue of this server.
    let write = [
        "--rw=randwrite",
        "--bsrange=4k-256k",
        "--blockalign=4k",
        "--iodepth=16",
        "--numjobs=4",
        "--nrfiles=2",
        "--directory=sub",
        "--size=8m",
        "--fsync=16",
        "--verify=crc32c",
    ];
    let written = job(&home, &["--output-format=json"], &write).succeeds();
    for job in written.json()["jobs"].as_array().unwrap() {
        assert_eq!(job["error"], 0);
        assert_eq!(job["write"]["io_bytes"], 8 * MIB);
        assert!(job["sync"]["total_ios"].as_u64().unwrap() > 0);
    }
    end(&home, server);
    let file = folder.join("sub/t.3.1");
    assert_eq!(file.metadata().unwrap().len(), 4 * MIB);
    // The host verifies the guest's writes, with a job of the same names.
    let local = [
        "--name=t",
        "--rw=randwrite",
        "--bsrange=4k-256k",
        "--blockalign=4k",
        "--numjobs=4",
        "--nrfiles=2",
        "--directory=shared/sub",
        "--size=8m",
        "--verify=crc32c",
        "--verify_only",
    ];
    let (checked, mut changed) = (home.iodyno(&fio(&[], &local)), fs::read(&file).unwrap());
    checked.succeeds();
    // And the guest sees the host's changes.
    changed[4096 * 3 + 77] ^= 1;
    fs::write(&file, &changed).unwrap();
    let server = serve(&home, &[]).unwrap();
    let mut verify = write.to_vec();
    verify.push("--verify_only");
    job(&home, &[], &verify).exits(1).stderr_has("t.3.1");
    end(&home, server);
}

#[test]
fn files_are_laid_out_read_trimmed_and_removed_in_the_share() {
    let home = Home::new();
    let folder = shared(&home);
    let Some(server) = serve(&home, &[]) else {
        return;
    };
    let read = [
        "--rw=read",
        "--bs=1m",
        "--iodepth=2",
        "--filename=/new",
        "--size=3m",
    ];
    let read = job(&home, &["--output-format=json"], &read)
        .succeeds()
        .json();
    assert_eq!(read["jobs"][0]["read"]["io_bytes"], 3 * MIB);
    end(&home, server);
    let laid_out = fs::read(folder.join("new")).unwrap();
    assert_eq!(laid_out.len() as u64, 3 * MIB);
    assert!(laid_out.iter().any(|byte| *byte != 0));
    let server = serve(&home, &[]).unwrap();
    // Without a size, the file as a whole.
    let trim = ["--rw=trim", "--bs=64k", "--filename=/new", "--iodepth=4"];
    job(&home, &[], &trim).succeeds();
    end(&home, server);
    assert!(
        fs::read(folder.join("new"))
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
    let server = serve(&home, &[]).unwrap();
    let unlinked = ["--rw=write", "--filename=gone", "--size=1m", "--unlink=1"];
    job(&home, &[], &unlinked).succeeds();
    end(&home, server);
    assert!(!folder.join("gone").exists());
}

#[test]
fn files_with_a_file_system_and_links_are_refused_and_stay_as_they_are() {
    let home = Home::new();
    let folder = shared(&home);
    fs::write(home.work().join("secret"), b"of the host").unwrap();
    symlink(home.work().join("secret"), folder.join("link")).unwrap();
    let mut image = vec![0u8; MIB as usize];
    // The magic number of ext4, and a plausible superblock.
    image[1024..1024 + 4].copy_from_slice(&64u32.to_le_bytes());
    image[1024 + 4..1024 + 8].copy_from_slice(&256u32.to_le_bytes());
    image[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xef]);
    fs::write(folder.join("image"), &image).unwrap();
    let Some(server) = serve(&home, &[]) else {
        return;
    };
    let write = ["--rw=write", "--filename=image", "--size=1m"];
    let refused = job(&home, &[], &write).exits(1);
    refused
        .stderr_has("refusing to write to `virtiofs:///")
        .stderr_has("--destroy");
    end(&home, server);
    assert!(fs::read(folder.join("image")).unwrap() == image);
    for (name, why) in [
        ("link", "symbolic link"),
        ("../secret", "out of the shared folder"),
        ("no/file", "does not exist"),
    ] {
        let server = serve(&home, &[]).unwrap();
        let name = format!("--filename={name}");
        let refused = job(&home, &[], &["--rw=write", "--size=1m", &name]);
        refused.exits(1).stderr_has(why);
        end(&home, server);
    }
    assert_eq!(
        fs::read(home.work().join("secret")).unwrap(),
        b"of the host"
    );
    let name = format!("virtiofs://{}:/image", home.work().join("v").display());
    let server = serve(&home, &[]).unwrap();
    job(&home, &["--destroy", &name], &write).succeeds();
    end(&home, server);
    assert!(fs::read(folder.join("image")).unwrap() != image);
}

#[test]
fn a_server_that_dies_or_is_missing_is_named() {
    let home = Home::new();
    shared(&home);
    let absent = job(&home, &[], &["--rw=read", "--size=1m"]).exits(1);
    absent
        .stderr_has("cannot connect to `virtiofs:///")
        .stderr_has("start the server first");
    for other in ["--uri=nbd://host/", "--uri=virtiofs://v"] {
        let wrong = job(&home, &[], &["--rw=read", "--size=1m", other]).exits(1);
        wrong.stderr_has("virtiofs:///");
    }
    let Some(server) = serve(&home, &[]) else {
        return;
    };
    home.file(
        "job.fio",
        &format!(
            "[t]\nioengine=virtiofs\nuri=virtiofs://{}\nrw=randread\niodepth=4\nsize=1m\nruntime=1h\ntime_based\n",
            home.work().join("v").display()
        ),
    );
    let run = home.start(&["run", "job.fio"]);
    run.wait_until_it_measures(&home);
    // The process that listens waits for the one that serves.
    let pid = server.pid().as_raw_nonzero();
    let children = Command::new("pgrep")
        .args(["-P", &pid.to_string()])
        .output();
    for child in String::from_utf8_lossy(&children.unwrap().stdout).lines() {
        Command::new("kill").args(["-9", child]).status().unwrap();
    }
    server.signal(Signal::KILL);
    run.done()
        .exits(4)
        .prints("failed: job `t`: cannot ")
        .prints("virtiofs:///");
    end(&home, server);
}

#[test]
fn the_cpu_time_of_the_server_is_reported_without_its_name() {
    let home = Home::new();
    shared(&home);
    let Some(server) = serve(&home, &[]) else {
        return;
    };
    home.file(
        "job.fio",
        &format!(
            "[t]\nioengine=virtiofs\nuri=virtiofs://{}\nrw=randread\nsize=1m\nruntime=3\ntime_based\n",
            home.work().join("v").display()
        ),
    );
    home.iodyno(&["run", "job.fio", "-q"]).succeeds();
    end(&home, server);
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let servers = shown["trials"][0]["servers"].to_string();
    assert!(servers.contains("\"virtiofsd\""), "{servers}");
}

#[test]
fn servers_of_the_command_line_are_compared_by_jobs_that_are_their_clients() {
    let home = Home::new();
    let own = "iodyno serve fs {folder} --socket {socket}";
    for (flags, words) in [
        (
            vec!["--server", "old"],
            "`--server old` needs a name and a command",
        ),
        (
            vec!["--server", "a=x", "--server", "a=y"],
            "`--server a` is given twice",
        ),
        (vec!["--server", "old=serve {folder}"], "`{socket}`"),
        (
            vec![
                "--server",
                &format!("a={own}"),
                "--on",
                "a=.",
                "--on",
                "b=.",
            ],
            "name one folder",
        ),
    ] {
        let done = home.iodyno(&[&["run", "randread", "--dry-run"], flags.as_slice()].concat());
        done.exits(2).stderr_has(words);
    }
    let (one, other) = (
        format!("one={own} --dispatch inline"),
        format!("other={own}"),
    );
    let servers = ["--server", &one, "--server", &other];
    home.iodyno(&[&["run", "create_empty", "--dry-run"], &servers[..]].concat())
        .exits(2)
        .stderr_has("`create_empty` cannot use `--server`: only jobs of fio can");
    for (program, words) in [
        (
            "iodino serve fs {folder} --socket",
            "did you mean `iodyno`?",
        ),
        (
            "virtiofd --shared-dir {folder} --socket-path",
            "did you mean `virtiofsd`?",
        ),
        ("unheard-of {folder}", "Debian has the packages"),
    ] {
        let server = format!("a={program} {{socket}}");
        home.iodyno(&["run", "randread", "--dry-run", "--server", &server])
            .stderr_has("is not installed")
            .stderr_has(words);
    }
    if !root() {
        return skip("only root makes storage");
    }
    let size = [
        "--set",
        "size=1m",
        "--set",
        "runtime=200ms",
        "--rounds",
        "1",
        "--json",
    ];
    let run = home.iodyno(&[&["run", "randread", "--on", "."], &servers[..], &size].concat());
    let run = run.succeeds().json();
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    for trial in trials {
        assert_eq!(trial["groups"][0]["engines"][0]["name"], "virtiofs");
        assert!(
            trial["groups"][0]["rows"][0]["ops"].as_u64().unwrap() > 0,
            "{trial}"
        );
    }
    let left = std::fs::read_dir(home.work()).unwrap();
    assert_eq!(left.count(), 0, "folders are removed");
}

#[test]
fn reads_that_a_server_answers_from_the_page_cache_are_a_finding() {
    let home = Home::new();
    let server = "a=iodyno serve fs {folder} --socket {socket}";
    home.iodyno(&["run", "randread", "--server", server, "--dry-run"])
        .succeeds()
        .prints("ioengine=virtiofs");
    if !root() || !Path::new("/dev/loop-control").exists() {
        return skip("loop devices cannot be attached");
    }
    // In memory, so that other processes do not read from the device below.
    let text = "rounds = 1\n[configuration.served]\ntarget = \"virtiofs on ext4 on loop on file on /dev/shm\"\n\
                file.size = \"64MiB\"\nloop.direct = false\nvirtiofs.server = \"iodyno serve fs {folder} --socket {socket} --allow-direct-io\"\n[workload.\"direct-${direct}\"]\n\
                fio = { rw = \"read\", bs = \"64k\", size = \"8m\", loops = 4, direct = \"${direct}\" }\n\
                axis.direct = [0, 1]\n";
    home.file("served.toml", text);
    let run = home.iodyno(&["run", "served.toml", "--seed", "1", "--json"]);
    let run = run.succeeds().json();
    for trial in run["trials"].as_array().unwrap() {
        let stack = &trial["nodes"][0]["environment"]["targets"][0]["stack"][0];
        assert_eq!(stack["file_system"], "ext4", "{trial}");
        let findings = trial["findings"].as_array().unwrap();
        let texts = findings.iter().filter_map(|it| it["text"].as_str());
        let served = texts
            .into_iter()
            .find(|it| it.contains("a cache served the rest"));
        let cached = trial["workload"] == "direct-0";
        assert_eq!(
            served.is_some(),
            cached,
            "{}: {findings:?}",
            trial["workload"]
        );
    }
}
