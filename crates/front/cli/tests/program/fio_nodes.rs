//! `run --node NAME=HOST?fio`: hosts where fio does the I/O. Without fio, fio is a script that answers as an old
//! version.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Done, Home, Running, skip, stop, wait_for};

const JOBS: &str = "[global]\nsize=1m\nbs=4k\n[a]\nrw=randrw\nnumjobs=2\nfsync=8\nio_size=400k\n[b]\nstonewall\n\
                    rw=read\ngroup_reporting\n";

/// Whether the tests can use fio itself.
pub(crate) fn has_fio() -> bool {
    let version = Command::new("fio").arg("--version").output();
    let has = version.is_ok_and(|version| version.stdout.starts_with(b"fio-3."));
    if !has {
        skip("fio 3 is needed as the fio of a node");
    }
    has
}

/// A home with a folder `data` for files, and its own folder for temporary files.
fn home() -> Home {
    let home = Home::new();
    for folder in ["data", "tmp"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    home.file("j.fio", JOBS);
    home
}

fn command(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    command.env("TMPDIR", home.work().join("tmp"));
    command
}

fn run(home: &Home, arguments: &[&str]) -> Done {
    Running::of(command(home, arguments)).done()
}

/// The remains of nodes with fio.
fn left(home: &Home) -> Vec<PathBuf> {
    let within = |folder: &str| std::fs::read_dir(home.work().join(folder)).unwrap();
    let entries = within("data").chain(within("tmp")).flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The fio that runs in the temporary folder.
fn fio_of(home: &Home) -> Option<Pid> {
    let tmp = home.work().join("tmp");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut own = processes.filter(|process| {
        let cwd = std::fs::read_link(process.path().join("cwd"));
        let name = std::fs::read_to_string(process.path().join("comm"));
        cwd.is_ok_and(|cwd| cwd.starts_with(&tmp)) && name.is_ok_and(|name| name == "fio\n")
    });
    let pid = own.next()?.file_name().to_str()?.parse().ok()?;
    Pid::from_raw(pid)
}

#[test]
fn fio_of_a_node_and_iodyno_give_one_result_with_a_row_for_each() {
    if !has_fio() {
        return;
    }
    let home = home();
    let nodes = ["--node", "a=local?fio", "--node", "b=local"];
    let arguments = [&["run", "j.fio", "--on", "d=data"][..], &nodes].concat();
    run(&home, &arguments).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    for node in trial["by_node"].as_array().unwrap() {
        let rows = node["rows"].as_array().unwrap();
        let ops = |direction: &str| -> u64 {
            let of = rows.iter().filter(|row| row["direction"] == direction);
            of.map(|row| row["ops"].as_u64().unwrap()).sum()
        };
        // Two clones of 100 ops, and the 256 reads of the second job.
        assert_eq!(ops("read") + ops("write"), 456, "{node}");
        assert!(ops("sync") > 0, "{node}");
    }
    let nodes = trial["nodes"].as_array().unwrap();
    let notes = nodes[0]["notes"].to_string();
    assert!(notes.contains("measured by fio-3"), "{notes}");
    home.iodyno(&["show", "last"]).succeeds().prints("fio-3");
    let left: Vec<PathBuf> = left(&home)
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("iodyno-fio"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_file_is_used_by_fio_only_with_permission_and_a_missing_path_is_named() {
    if !has_fio() {
        return;
    }
    let home = home();
    let text = "x".repeat(4096);
    let file = home.file("data/old", &text);
    let node = ["--node", "a=local?fio"];
    let on = |what: &'static str| [&["run", "j.fio", "--on", what][..], &node].concat();
    run(&home, &on("d=data/old"))
        .exits(3)
        .stderr_has("fio may extend or overwrite an existing file");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let dry = [&on("d=data/old")[..], &["--dry-run"]].concat();
    run(&home, &dry).prints("needs --destroy");
    run(&home, &on("d=data/none")).stderr_has("does not exist on the node");
    assert_eq!(left(&home), [file]);
}

#[test]
fn what_fio_refuses_is_told_in_its_words() {
    if !has_fio() {
        return;
    }
    let home = home();
    // iodyno reads `true`, fio only numbers.
    home.file("j.fio", "[a]\nsize=64k\nrw=read\ninvalidate=true\n");
    run(
        &home,
        &["run", "j.fio", "--on", "d=data", "--node", "a=local?fio"],
    )
    .exits(4)
    .stderr_has("refuses the jobs")
    .stderr_has("invalidate");
    assert!(left(&home).is_empty());
    home.file("j.fio", "[a]\nsize=64k\nwrite_bw_log=x\nstartdelay=1\n");
    run(
        &home,
        &["run", "j.fio", "--on", "d=data", "--node", "a=local?fio"],
    )
    .stderr_has("`write_bw_log` cannot be used on a node with fio")
    .stderr_has("`startdelay` cannot be kept");
}

#[test]
fn a_killed_fio_fails_the_trial_and_leaves_nothing_behind() {
    if !has_fio() {
        return;
    }
    let home = home();
    home.file(
        "j.fio",
        "[a]\nsize=64k\nrw=randread\nruntime=600\ntime_based\nrate_iops=100\n",
    );
    let arguments = ["run", "j.fio", "--on", "d=data", "--node", "a=local?fio"];
    let running = Running::of(command(&home, &arguments));
    let fio = running.wait_for("fio", || fio_of(&home));
    let _ = kill_process(fio, Signal::KILL);
    running
        .done()
        .exits(4)
        .stderr_has("fio on this host was killed by SIGKILL");
    assert!(left(&home).is_empty());
}

#[test]
fn fio_ends_and_its_files_are_removed_if_the_program_is_killed() {
    if !has_fio() {
        return;
    }
    let home = home();
    home.file(
        "j.fio",
        "[a]\nsize=64k\nrw=randread\nruntime=600\ntime_based\nrate_iops=100\n",
    );
    let arguments = ["run", "j.fio", "--on", "d=data", "--node", "a=local?fio"];
    let running = Running::of(command(&home, &arguments));
    running.wait_for("fio", || fio_of(&home));
    running.signal(Signal::KILL);
    running.done();
    wait_for("fio's files to be removed", || {
        (fio_of(&home).is_none() && left(&home).is_empty()).then_some(())
    });
}

#[test]
fn fio_ends_and_its_files_are_removed_if_nothing_arrives_any_more() {
    if !has_fio() {
        return;
    }
    let home = home();
    home.file(
        "j.fio",
        "[a]\nsize=64k\nrw=randread\nruntime=600\ntime_based\nrate_iops=100\n",
    );
    let arguments = ["run", "j.fio", "--on", "d=data", "--node", "a=local?fio"];
    let running = Running::of(command(&home, &arguments));
    running.wait_for("fio", || fio_of(&home));
    let node = running.node();
    // As if the network was cut: the input of the shell neither ends nor has anything to read.
    stop(running.pid());
    stop(node);
    wait_for("fio's files to be removed", || {
        (fio_of(&home).is_none() && left(&home).is_empty()).then_some(())
    });
    running.signal(Signal::KILL);
    let _ = kill_process(node, Signal::KILL);
    running.done();
}

#[test]
fn an_early_end_keeps_what_fio_measured() {
    if !has_fio() {
        return;
    }
    let home = home();
    home.file(
        "j.fio",
        "[a]\nsize=64k\nrw=randread\nruntime=600\ntime_based\nrate_iops=100\n",
    );
    let arguments = ["run", "j.fio", "--on", "d=data", "--node", "a=local?fio"];
    let running = Running::of(command(&home, &arguments));
    running.wait_for("fio", || fio_of(&home));
    running.signal(Signal::INT);
    running.done().stderr_has("ended");
    assert!(left(&home).is_empty());
}

#[test]
fn a_missing_and_an_old_fio_are_told_before_the_run() {
    let home = home();
    let bin = home.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    for (script, words) in [
        ("echo fio-2.1.3", "has fio-2.1.3, which is too old"),
        (
            "echo \"fio: not found\" >&2; exit 127",
            "has no fio: fio: not found",
        ),
    ] {
        use std::os::unix::fs::PermissionsExt;
        let fio = bin.join("fio");
        std::fs::write(&fio, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&fio, PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = command(
            &home,
            &["run", "j.fio", "--on", "d=data", "--node", "a=local?fio"],
        );
        command.env("PATH", format!("{}:{path}", bin.display()));
        Running::of(command).done().stderr_has(words);
    }
}
