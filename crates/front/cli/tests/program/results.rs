//! Stored results: listed, shown in every form, exported and imported.

use crate::harness::{Done, Home};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const JOB: &str =
    "[global]\nioengine=psync\nbs=4k\nsize=1m\n[reader]\nrw=randread\n[writer]\nrw=write\n";

fn home_with_runs(count: usize) -> Home {
    let home = Home::new();
    home.file("mixed.fio", JOB);
    for _ in 0..count {
        home.iodyno(&["run", "mixed.fio", "-q"]).succeeds();
    }
    home
}

#[test]
fn listing_an_empty_store_is_not_an_error_and_does_not_create_it() {
    let home = Home::new();
    home.iodyno(&["list"])
        .succeeds()
        .stderr_has("nothing is stored yet");
    assert_eq!(
        home.iodyno(&["list", "--json"]).succeeds().json(),
        serde_json::json!({"schema": "iodyno.runs/1", "runs": []})
    );
    home.iodyno(&["show", "last"])
        .exits(2)
        .stderr_has("no store");
    home.iodyno(&["list", "--store", "typo.db"])
        .exits(2)
        .stderr_has("typo.db");
    assert!(!home.store().exists());
}

#[test]
fn ops_that_were_due_and_not_issued_are_reported() {
    let home = Home::new();
    home.file(
        "stalls.fio",
        "[t]\nioengine=sim\nsim_latency=constant:50us\nsim_faults=stall:500ms:1s\nrw=randread\nbs=4k\nsize=16m\n\
         iodepth=4\nrate_iops=2000\nruntime=1\ntime_based\n",
    );
    home.iodyno(&["run", "stalls.fio"])
        .succeeds()
        .prints("996 ops were due by the end and not");
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    assert_eq!(
        shown["trials"][0]["groups"][0]["missed_ops"],
        serde_json::json!([{"direction": "read", "ops": 996}])
    );
}

#[test]
fn a_job_ends_when_it_is_steady_and_tells_whether_it_was() {
    let home = Home::new();
    home.file(
        "steady.fio",
        "[s]\nioengine=sim\nsim_latency=constant:1ms\nrw=randread\nbs=4k\nsize=16m\nruntime=60\ntime_based\n\
         ss=iops_slope:2%\nss_dur=6\nss_interval=2\nss_ramp=1\nnumjobs=2\ngroup_reporting\n",
    );
    home.iodyno(&["run", "steady.fio"])
        .succeeds()
        .prints("ended by steady state")
        .prints("attained after 7.00 s; slope of IOPS in 6.00 s: 0.000 %, limit 2.000 %");
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let group = &shown["trials"][0]["groups"][0];
    let ended = serde_json::json!([{"by": "steady", "clones": 2}]);
    assert_eq!(group["ended_by"], ended);
    let steady = &group["steady"];
    assert_eq!(steady.as_array().map(Vec::len), Some(1));
    assert_eq!(steady[0]["rule"], "iops_slope:2%");
    assert_eq!(steady[0]["attained"], true);
    assert_eq!(steady[0]["attained_ns"], 7_000_000_000u64);
    let values = steady[0]["values"].as_array().unwrap();
    let iops = values.iter().map(|value| value["iops"].as_f64().unwrap());
    assert_eq!(iops.collect::<Vec<_>>(), [2000.0; 3]);

    home.file(
        "unsteady.fio",
        "[u]\nioengine=sim\nsim_latency=constant:1ms\nrw=randread\nbs=4k\nsize=16m\nruntime=5\ntime_based\n\
         ss=lat:1us\nss_dur=8\n",
    );
    home.iodyno(&["run", "unsteady.fio"])
        .succeeds()
        .prints("ended by runtime")
        .prints("not attained; largest deviation of latency in 8.00 s: unknown, limit 1000 ns");
}

#[test]
fn runs_are_found_by_number_age_and_name() {
    let home = home_with_runs(2);
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(
        (&list["runs"][0]["alias"], &list["runs"][1]["alias"]),
        (&1.into(), &2.into()),
        "newest last"
    );
    let id = list["runs"][0]["id"].as_str().unwrap().to_owned();
    for name in ["1", "last~1", &id] {
        home.iodyno(&["show", name])
            .succeeds()
            .prints("reader")
            .prints("mixed.fio");
    }
    for name in ["3", "last~2", "nonsense"] {
        home.iodyno(&["show", name])
            .exits(2)
            .stderr_has(name)
            .stderr_has("iodyno list");
    }
    home.iodyno(&["show", "mixed"])
        .exits(2)
        .stderr_has("any of 2 runs");
}

#[test]
fn a_run_is_shown_in_every_form() {
    let home = home_with_runs(1);
    let text = home.iodyno(&["show", "last"]).succeeds();
    for word in ["IOPS", "p99", "reader", "writer", "ended by size"] {
        assert!(text.stdout.contains(word), "{word}:\n{}", text.stdout);
    }
    let fio = home
        .iodyno(&["show", "last", "--format", "fio-json"])
        .succeeds()
        .json();
    assert_eq!(fio["jobs"][0]["jobname"], "reader");
    assert_eq!(fio["jobs"][1]["write"]["io_bytes"], 1 << 20);
    let plus = home
        .iodyno(&["show", "last", "--format", "fio-json+"])
        .succeeds()
        .json();
    assert!(
        plus["jobs"][0]["read"]["clat_ns"]["bins"].is_object(),
        "{plus}"
    );
    let terse = home
        .iodyno(&["show", "last", "--format", "terse"])
        .succeeds();
    let fields: Vec<&str> = terse.stdout.lines().next().unwrap().split(';').collect();
    assert_eq!(fields[0], "3");
    assert!(fields[7 - 1].parse::<u64>().unwrap() > 0 && fields[8 - 1].parse::<u64>().unwrap() > 0);
    home.iodyno(&["show", "last", "--format", "fio-normal"])
        .succeeds()
        .prints("Run status group");
    let json = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    assert!(
        json.to_string().contains("\"kernel\""),
        "the environment is part of it"
    );
}

#[test]
fn an_exported_run_is_the_same_in_another_store() {
    let home = home_with_runs(1);
    home.iodyno(&["export", "last", "-o", "one.iodyno"])
        .succeeds()
        .stderr_has("1 trial");
    home.iodyno(&["export", "last", "-o", "one.iodyno"])
        .exits(2)
        .stderr_has("File exists");
    let found = std::fs::metadata(home.work().join("one.iodyno")).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let left = std::fs::read_dir(home.work()).unwrap();
    let mut left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!left.any(|name| name.contains("unfinished")));
    let other = ["--store", "other.db"];
    home.iodyno(&["import", "one.iodyno", other[0], other[1]])
        .succeeds();
    home.iodyno(&["import", "one.iodyno", other[0], other[1]])
        .succeeds();
    let here = home
        .iodyno(&["show", "last", "--format", "fio-json"])
        .succeeds()
        .stdout;
    let there = home
        .iodyno(&["show", "last", "--format", "fio-json", other[0], other[1]])
        .succeeds()
        .stdout;
    assert_eq!(here, there);
    let list = home
        .iodyno(&["list", "--json", other[0], other[1]])
        .succeeds()
        .json();
    assert_eq!(
        list["runs"].as_array().unwrap().len(),
        1,
        "imported twice, stored once"
    );
}

#[test]
fn a_damaged_export_stores_nothing() {
    let home = home_with_runs(1);
    let text = home.iodyno(&["export", "last"]).succeeds().stdout;
    home.file("cut.iodyno", &text[..text.len() / 2]);
    home.file("noise.iodyno", "noise\n");
    for file in ["cut.iodyno", "noise.iodyno"] {
        home.iodyno(&["import", file, "--store", "other.db"])
            .exits(2)
            .stderr_has("nothing was imported");
    }
    assert_eq!(
        home.iodyno(&["list", "--json", "--store", "other.db"])
            .succeeds()
            .json(),
        serde_json::json!({"schema": "iodyno.runs/1", "runs": []})
    );
}

#[test]
fn a_dry_run_shows_the_plan_and_touches_nothing() {
    let home = Home::new();
    home.file("mixed.fio", JOB);
    home.iodyno(&[
        "run",
        "mixed.fio",
        "--dry-run",
        "--on",
        "x=/does/not/exist",
        "--seed",
        "7",
    ])
    .succeeds()
    .prints("/does/not/exist")
    .prints("reader")
    .prints("seed 7")
    .stderr_has("a run would fail: the target `/does/not/exist` does not exist");
    let plan = home
        .iodyno(&["run", "mixed.fio", "-n", "--json", "--seed", "7"])
        .succeeds()
        .json();
    assert_eq!(plan["seed"], 7);
    assert_eq!(plan["workloads"][0]["jobs"][0]["name"], "reader");
    assert!(!home.store().exists() && !home.work().join("reader.0.0").exists());
}

#[test]
fn a_dry_run_shows_the_paths_on_the_targets() {
    let home = Home::new();
    home.file(
        "abs.fio",
        "[a]\ndirectory=/tmp/x\nsize=1m\nrw=read\n[b]\nfilename=/tmp/x/f\nsize=1m\nrw=read\n",
    );
    let plan = |on: &[&str]| {
        let flags = on.iter().flat_map(|on| ["--on", on]);
        let arguments: Vec<&str> = ["run", "abs.fio", "-n"].into_iter().chain(flags).collect();
        home.iodyno(&arguments).succeeds().stdout.clone()
    };
    let one = plan(&["d=/no/d"]);
    assert!(
        one.contains(" directory=/no/d ") && one.contains(" filename=/no/d/f "),
        "{one}"
    );
    assert!(!one.contains("/tmp/x"), "{one}");
    let two = plan(&["d=/no/d", "e=/no/e"]);
    assert!(
        two.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("directory=/no/d on d, /no/e on e"),
        "{two}"
    );
    let device = plan(&["n=/dev/null"]);
    assert!(
        device.contains(" filename=/dev/null ") && !device.contains("directory="),
        "{device}"
    );
    assert!(plan(&[]).contains(" directory=/tmp/x "));
}

#[test]
fn a_dry_run_announces_only_the_loss_of_targets() {
    let home = Home::new();
    home.file("a.fio", "[a]\nsize=1m\nrw=write\n");
    let planned = |on: &str| {
        home.iodyno(&["run", "a.fio", "-n", "--destroy", "/dev/vdx", "--on", on])
            .succeeds()
    };
    let warning = "`--destroy /dev/vdx` is not a target of this run";
    let done = planned("a=/no").stderr_has(warning);
    assert!(!done.stdout.contains("destroys"), "{}", done.stdout);
    let done = planned("a=/dev/vdx").prints("destroys   the contents of /dev/vdx");
    assert!(!done.stderr.contains("not a target"), "{}", done.stderr);
}

#[test]
fn a_dry_run_says_what_would_be_refused_and_overwritten_and_changes_nothing() {
    let home = Home::new();
    home.file(
        "w.fio",
        "[t]\nioengine=psync\nrw=write\nbs=4k\nsize=16k\nfilename=f\n",
    );
    let path = home.work().join("f");
    let target = |answer: &str| format!("{}: {answer}\n", path.display());
    let dry = |further: &[&str]| {
        let arguments = [&["run", "w.fio", "--dry-run"], further].concat();
        home.iodyno(&arguments).succeeds()
    };
    let granted = |done: Done, answer: &str| {
        let done = done.prints(&target(answer));
        assert!(!done.stderr.contains("would"), "{}", done.stderr);
    };
    granted(dry(&[]), "ok, created");
    assert!(!path.exists());
    home.file("f", "mine");
    granted(dry(&[]), "ok, overwritten");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");

    // The same words as those of the run itself.
    let image = b"QFI\xfb\0\0\0\x03";
    std::fs::write(&path, image).unwrap();
    let refused = dry(&[])
        .prints(&target("needs --destroy"))
        .stderr_has("warning: a run would be refused: cannot write to");
    let run = home.iodyno(&["run", "w.fio"]).exits(3);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let run = words(&run.stderr);
    let (_, reason) = run.split_once("error: ").unwrap();
    let (reason, _) = reason.split_once(" 1 error").unwrap();
    let refused = words(&refused.stderr);
    assert!(refused.contains(reason), "{reason}\n{refused}");
    granted(dry(&["--destroy", "f"]), "ok, overwritten");
    assert_eq!(std::fs::read(&path).unwrap(), image);

    std::fs::write(&path, [7; 16384]).unwrap();
    granted(dry(&["--set", "rw=read"]), "ok, read");
    let plan = dry(&["--json"]).json();
    assert_eq!(plan["targets"][0]["admission"], "granted");
    assert_eq!(plan["targets"][0]["used"], "overwrite");

    dry(&["--on", "x=/dev/nosuchdisk"])
        .stderr_has("a run would fail: the target `/dev/nosuchdisk` does not exist");
    assert!(!Path::new("/dev/nosuchdisk").exists());
    let plan = dry(&["--set", "filename=/dev/nosuchdisk", "--json"]).json();
    assert_eq!(plan["targets"][0]["admission"], "refused");
    home.iodyno(&["fs", "run", "create_empty", "--dir", "/dev", "--dry-run"])
        .succeeds()
        .prints("/dev: would be refused")
        .stderr_has("a run would be refused: ");
}

#[test]
fn a_dry_run_of_the_other_programs_command_lines_changes_nothing() {
    let home = Home::new();
    let job = ["--name=t", "--rw=write", "--size=16k", "--filename=f"];
    for flags in [&["fio", "--dry-run"][..], &["fio", "--no-store"]] {
        let mut arguments = [flags, &job[..]].concat();
        if flags[1] != "--dry-run" {
            arguments.push("--dry-run");
        }
        home.iodyno(&arguments)
            .succeeds()
            .prints("f: ok, created\n")
            .prints("metric     completion\n");
    }
    let fileio = |dry: bool, action: &str| {
        let dry = ["--dry-run"].into_iter().filter(|_| dry);
        let sizes = ["--file-num=2", "--file-total-size=64K", action];
        let arguments: Vec<&str> = ["fileio"].into_iter().chain(dry).chain(sizes).collect();
        home.iodyno(&arguments)
    };
    fileio(true, "prepare")
        .succeeds()
        .prints("test_file.1: ok, created\n");
    assert!(!home.work().join("test_file.0").exists() && !home.store().exists());
    fileio(false, "prepare").succeeds();
    fileio(true, "cleanup")
        .succeeds()
        .prints("2 of 2 files would be removed\n");
    assert!(home.work().join("test_file.1").exists());
    fileio(false, "cleanup").succeeds();
    assert!(!home.work().join("test_file.1").exists());
}

#[test]
fn a_dry_run_names_the_metric() {
    let home = Home::new();
    let metric = |job: &str, flags: &[&str]| {
        home.file("m.fio", &format!("[t]\nioengine=sim\nsize=1m\n{job}\n"));
        let arguments = [&["run", "m.fio", "--dry-run"], flags].concat();
        let done = home.iodyno(&arguments).succeeds();
        let (_, rest) = done.stdout.split_once("metric     ").unwrap();
        rest.lines().next().unwrap().to_owned()
    };
    assert_eq!(metric("", &[]), "completion");
    let timed = "runtime=9\ntime_based";
    assert_eq!(metric(timed, &[]), "iops");
    assert_eq!(metric(&format!("{timed}\nbs=64k"), &[]), "bandwidth");
    let mixed = format!("{timed}\nbsrange=4k-1m");
    assert_eq!(metric(&mixed, &[]), "iops or bandwidth");
    let paced = format!("{timed}\nrw=rw\nrate_iops=100");
    assert_eq!(metric(&paced, &[]), "read.p99 or write.p99");
    let own = ["--metric", "read.mean,iops"];
    assert_eq!(metric(timed, &own), "read.mean; exploratory: iops");
    let two = home.iodyno(&[
        "run",
        "create_empty",
        "delete_10k_2MB",
        "--on",
        "x=.",
        "--dry-run",
    ]);
    two.succeeds().prints("iops of create_empty; ");
}

/// Free space of the file system that contains the folder, KiB.
fn free_kib(home: &Home) -> u64 {
    let df = std::process::Command::new("df")
        .args(["--output=avail", "-k"])
        .arg(home.work())
        .output()
        .unwrap();
    let text = String::from_utf8(df.stdout).unwrap();
    text.lines().nth(1).unwrap().trim().parse().unwrap()
}

#[test]
fn space_for_all_trials_is_checked_before_the_first() {
    let home = Home::new();
    let free = free_kib(&home);
    let job = |name: &str, kib: u64| {
        let text = format!("[{name}]\nioengine=psync\nrw=read\nsize={kib}k\nio_size=4k\n");
        home.file(&format!("{name}.fio"), &text);
    };
    for (small, large, told) in [
        (4, free + free / 2, "`large` on `here`: "),
        // Each alone has enough space; the files of the first remain.
        (free / 3 * 2, free / 3 * 2, "all trials together: "),
    ] {
        job("small", small);
        job("large", large);
        let arguments = ["run", "small.fio", "large.fio", "--on", "here=."];
        home.iodyno(&[&arguments[..], &["--rounds", "1"]].concat())
            .exits(3)
            .stderr_has(told)
            .stderr_has("are free");
        home.iodyno(&[&arguments[..], &["--dry-run"]].concat())
            .succeeds()
            .stderr_has(&format!("warning: a run would fail: {told}"));
    }
    assert!(!home.work().join("small.0.0").exists());
    assert_eq!(
        home.iodyno(&["list", "--json"]).succeeds().json()["runs"],
        serde_json::json!([])
    );
}

#[test]
fn options_on_the_command_line_have_precedence_over_the_file() {
    let home = Home::new();
    home.file("mixed.fio", JOB);
    let plan = home
        .iodyno(&[
            "run",
            "mixed.fio",
            "-n",
            "--json",
            "--set",
            "bs=16k",
            "--set",
            "ioengine=null",
        ])
        .succeeds()
        .json();
    for job in plan["workloads"][0]["jobs"].as_array().unwrap() {
        assert_eq!(job["engine"]["kind"], "null");
        assert_eq!(job["access"]["block_sizes"]["read"]["fixed"], 16384);
    }
    home.iodyno(&["run", "mixed.fio", "-n", "--set", "bz=16k", "--set", "rw"])
        .exits(2)
        .stderr_has("bz")
        .stderr_has("did you mean");
}

#[test]
fn a_damaged_record_of_a_run_does_not_hide_the_others() {
    let home = home_with_runs(3);
    let store = rusqlite::Connection::open(home.store()).unwrap();
    let whole = home.iodyno(&["list", "--json"]).succeeds().json();
    for damage in [
        "state = 'lost'",
        "id = x'00'",
        "name = CAST(x'ff00' AS TEXT)",
        "started_unix_ms = -1",
        "rounds = -1",
    ] {
        store
            .execute(&format!("UPDATE runs SET {damage} WHERE alias = 2"), [])
            .unwrap();
        let listed = home
            .iodyno(&["list", "--json"])
            .exits(1)
            .stderr_has("run 2 is damaged");
        let listed = listed.json();
        for run in [0, 2] {
            assert_eq!(listed["runs"][run], whole["runs"][run], "{damage}");
        }
        assert!(listed["runs"][1]["damaged"].is_string(), "{damage}");
        home.iodyno(&["list"])
            .exits(1)
            .prints("damaged")
            .prints("completed");
        home.iodyno(&["show", "last"]).succeeds();
    }
}

#[test]
fn a_damaged_run_can_be_deleted() {
    for damage in ["plan = x'00'", "state = 'lost'", "id = x'00'", "cells = -1"] {
        let home = home_with_runs(3);
        let store = rusqlite::Connection::open(home.store()).unwrap();
        store
            .execute(&format!("UPDATE runs SET {damage} WHERE alias = 2"), [])
            .unwrap();
        drop(store);
        home.iodyno(&["delete", "2", "3"])
            .succeeds()
            .prints("deleted run 2 `mixed`")
            .prints("deleted run 3 `mixed`: completed, 1 trial");
        let list = home.iodyno(&["list", "--json"]).succeeds().json();
        assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{damage}");
    }
}
