//! The program as a replacement of fio and sysbench: their names, signals, runs without a store, and suppressed
//! warnings.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, kill_process};

use crate::faults::{fill, small};
use crate::harness::{Done, ENDLESS, Home, Running, alive, fio, iodyno, root, skip};

const TINY: [&str; 5] = [
    "--name=t",
    "--rw=randread",
    "--bs=4k",
    "--size=1m",
    "--ioengine=null",
];

/// The program under another name, in a separate folder.
fn named(home: &Home, name: &str, copied: bool) -> PathBuf {
    let folder = home.work().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    match copied {
        // Not by this process: a child that another test starts meanwhile would have the copy open for writing, and a
        // program in use for that cannot be started.
        true => {
            let mut copy = std::process::Command::new("cp");
            let copied = copy.arg(iodyno()).arg(&path).status();
            assert!(copied.unwrap().success());
        }
        false => symlink(iodyno(), &path).unwrap(),
    }
    path
}

/// Runs a shell command.
fn shell(home: &Home, line: &str) -> Done {
    let mut command = home.program(Path::new("sh"));
    command.args(["-c", line]);
    Running::of(command).done()
}

#[test]
fn a_link_or_copy_named_fio_is_fio() {
    for copied in [false, true] {
        let home = Home::new();
        named(&home, "fio", copied);
        // psync: its node is a child process, which must also be found under the name.
        let line =
            "fio --name=t --rw=read --bs=4k --size=64k --ioengine=psync --output-format=json";
        let result = shell(&home, line).succeeds().json();
        assert_eq!(result["jobs"][0]["read"]["total_ios"], 16);
        for flag in ["--version", "-v"] {
            let version = shell(&home, &format!("fio {flag} 2>&1")).succeeds().stdout;
            assert!(version.starts_with("fio-3."), "{version}");
            assert_eq!(version.lines().count(), 1, "{version}");
        }
        shell(&home, "fio").exits(1).stderr_has("there is no job");
        shell(
            &home,
            "fio --no-store -q --name=t --size=4k --ioengine=null --fsync=1",
        )
        .succeeds();
        // A script can take any text on standard error for a failure, so advice is not printed.
        // A warning for an ignored option is.
        let job = "fio --no-store --name=t --size=4k --ioengine=null --fsync=1";
        assert_eq!(shell(&home, job).succeeds().stderr, "");
        shell(
            &home,
            &format!("{job} --rw=write --dedupe_percentage=9 --dedupe_mode=working_set"),
        )
        .succeeds()
        .stderr_has("`dedupe_mode` is ignored");
        let list = home.iodyno(&["list", "--json"]).succeeds().json();
        let runs = list["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1);
        let show = home.iodyno(&["show", "last", "--json"]).succeeds().json();
        let command = show["run"]["command"].as_array().unwrap();
        assert_eq!(command[..3], ["iodyno", "fio", "--name=t"]);
    }
}

#[test]
fn a_link_named_sysbench_is_sysbench_s_fileio_test() {
    let home = Home::new();
    named(&home, "sysbench", false);
    shell(
        &home,
        "sysbench fileio --file-total-size=1M --file-num=4 prepare",
    )
    .succeeds();
    shell(
        &home,
        "sysbench --file-total-size=1M --file-num=4 --time=0 --events=20 fileio --file-test-mode=rndrd run",
    )
    .succeeds()
    .prints("General statistics:");
    let help = shell(&home, "sysbench fileio help").succeeds().stdout;
    assert!(help.starts_with("sysbench 1.0."), "{help}");
    shell(&home, "sysbench --test=fileio --file-num=4 cleanup").succeeds();
    assert!(!home.work().join("test_file.0").exists());
    let version = shell(&home, "sysbench --version").succeeds().stdout;
    assert!(version.starts_with("sysbench 1.0."), "{version}");
    assert_eq!(version.lines().count(), 1);
    let cpu = shell(&home, "sysbench cpu run")
        .exits(1)
        .prints("sysbench 1.0.")
        .stderr_has("the test `cpu` is not supported");
    assert!(!cpu.stderr.contains("file-test-mode"), "{}", cpu.stderr);
    shell(&home, "sysbench fileio --no-store run")
        .exits(1)
        .stderr_has("belongs directly after");
}

#[test]
fn sigusr1_prints_the_result_so_far_and_ends_nothing() {
    let home = Home::new();
    let running = home.start(&fio(&["--output-format=json"], &ENDLESS));
    let node = running.node();
    // Before anything has happened, too.
    running.signal(Signal::USR1);
    let documents = |running: &Running| running.stdout().matches("\"fio version\"").count();
    running.wait_for("a document", || {
        running.signal(Signal::USR1);
        (documents(&running) >= 1).then_some(())
    });
    let before = documents(&running);
    kill_process(node, Signal::USR1).unwrap();
    running.wait_for("further documents", || {
        running.signal(Signal::USR1);
        (documents(&running) > before + 1).then_some(())
    });
    assert!(alive(node));
    running.signal(Signal::INT);
    running.done().exits(128).growing_documents();
}

#[test]
fn sigusr1_prints_a_line_of_any_other_run() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nioengine=null\nrw=randread\nsize=16m\nruntime=1h\ntime_based\n",
    );
    let running = home.start(&["run", "job.fio", "-q"]);
    let node = running.node();
    running.wait_until_it_measures(&home);
    kill_process(node, Signal::USR1).unwrap();
    running.signal(Signal::USR1);
    running.wait_until_it_tells("IOPS");
    assert!(alive(node));
    running.signal(Signal::INT);
    running.done().exits(130);
}

#[test]
fn a_store_that_cannot_be_opened_is_a_warning() {
    let home = Home::new();
    let text = home.file("text", "not a store\n");
    let without_home = |command: &mut Command| {
        command.env_remove("HOME").env_remove("XDG_DATA_HOME");
    };
    for (store, words) in [
        (None, "neither XDG_DATA_HOME nor HOME"),
        (Some("/proc/none/x.db"), "/proc/none"),
        (Some("/dev/null"), "/dev/null"),
        (text.to_str(), "not a store"),
    ] {
        let mut command = home.command(&fio(&["--output-format=json"], &TINY));
        match store {
            None => without_home(&mut command),
            Some(store) => _ = command.env("IODYNO_STORE", store),
        }
        let done = Running::of(command)
            .done()
            .succeeds()
            .stderr_has("the result is not stored")
            .stderr_has(words)
            .stderr_has("--no-store");
        assert_eq!(done.json()["jobs"][0]["read"]["total_ios"], 256);
        let mut command =
            home.command(&["fileio", "--file-total-size=1M", "--file-num=4", "prepare"]);
        match store {
            None => without_home(&mut command),
            Some(store) => _ = command.env("IODYNO_STORE", store),
        }
        Running::of(command)
            .done()
            .succeeds()
            .prints("Creating files for the test")
            .stderr_has("the result is not stored");
    }
    assert_eq!(std::fs::read_to_string(text).unwrap(), "not a store\n");
}

#[test]
fn a_home_that_is_read_only_or_full_is_a_warning() {
    let home = Home::new();
    let locked = home.work().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o555)).unwrap();
    let at = |folder: &Path| {
        // A job with files, whose records are kept in the home as well.
        let job = ["--name=t", "--rw=write", "--size=64k", "--ioengine=psync"];
        let mut command = home.command(&fio(&["--output-format=json"], &job));
        command.env("HOME", folder).env_remove("XDG_DATA_HOME");
        command
    };
    let check = |command: Command| {
        let done = Running::of(command).done().succeeds();
        assert_eq!(done.json()["jobs"][0]["write"]["total_ios"], 16);
        done.stderr_has("the result is not stored");
    };
    let mut command = at(&locked);
    if root() {
        // Root may write everywhere, so another user is needed.
        home.open_to_all();
        command.uid(65534).gid(65534);
        match command.spawn() {
            Err(error) => skip(format!(
                "the program cannot be run by another user: {error}"
            )),
            Ok(mut first) => {
                first.wait().unwrap();
                check(command);
            }
        }
    } else {
        check(command);
    }
    if let Some(small) = small(&home, "256k") {
        let _filler = fill(small.path());
        check(at(small.path()));
    }
}

#[test]
fn without_a_store_nothing_is_stored_and_every_form_is_printed() {
    let home = Home::new();
    for (flags, variable) in [(&["--no-store"][..], None), (&[], Some("IODYNO_NO_STORE"))] {
        let forms = ["--output-format=normal,terse", "--status-interval=1"];
        let mut command = home.command(&fio(&[flags, &forms].concat(), &TINY));
        command.envs(variable.map(|name| (name, "1")));
        Running::of(command)
            .done()
            .succeeds()
            .prints("Run status group 0")
            .prints("3;fio-");
    }
    home.iodyno(&[
        "fileio",
        "--no-store",
        "--file-total-size=1M",
        "--file-num=4",
        "prepare",
    ])
    .succeeds();
    assert!(!home.store().exists());
    // The result so far does not need the store either.
    let running = home.start(&fio(&["--no-store", "--output-format=json"], &ENDLESS));
    running.node();
    running.wait_for("a document", || {
        running.signal(Signal::USR1);
        running.stdout().contains("\"fio version\"").then_some(())
    });
    running.signal(Signal::INT);
    running.done().exits(128);
    assert!(!home.store().exists());
}

#[test]
fn warnings_can_be_silenced() {
    let home = Home::new();
    let warned = [&TINY[..], &["--fsync=1"]].concat();
    home.iodyno(&fio(&[], &warned))
        .succeeds()
        .stderr_has("fsync");
    for more in [&["-q"][..], &["--quiet"]] {
        for line in [fio(more, &warned), [&fio(&[], &warned), more].concat()] {
            let done = home.iodyno(&line).succeeds();
            assert_eq!(done.stderr, "", "{line:?}");
        }
    }
    let mut command = home.command(&fio(&[], &warned));
    command.env("IODYNO_QUIET", "1");
    assert_eq!(Running::of(command).done().succeeds().stderr, "");
    // Errors are printed, and the missing store is only warned of.
    home.iodyno(&fio(&["-q"], &["--name=t", "--sise=1m"]))
        .exits(1)
        .stderr_has("sise");
    let mut command = home.command(&fio(&["-q"], &TINY));
    command.env("IODYNO_STORE", "/proc/none/x.db");
    assert_eq!(Running::of(command).done().succeeds().stderr, "");
}

#[test]
fn advice_is_not_fatal_and_probes_of_features_are_answered() {
    let home = Home::new();
    home.file("job.fio", "[t]\nioengine=null\nsize=1m\niodepth=4\n");
    home.iodyno(&["fio", "--warnings-fatal", "--showcmd", "job.fio"])
        .succeeds()
        .prints("--iodepth=4");
    for probe in [
        &["--parse-only"][..],
        &["--ioengine=io_uring", "--parse-only"],
        &["--name=x", "--ioengine=libaio", "--parse-only"],
        &["--enghelp=libaio"],
        &["--cmdhelp=zonemode"],
    ] {
        home.iodyno(&fio(probe, &[])).succeeds();
    }
    for probe in [
        &["--name=x", "--ioengine=nosuch", "--parse-only"][..],
        &["--enghelp=nosuch"],
        &["--parse-only", "--nosuch=1"],
    ] {
        home.iodyno(&fio(probe, &[])).exits(1);
    }
    assert!(!home.store().exists());
}
