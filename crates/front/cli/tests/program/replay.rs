//! Traces: recorded, replayed in order and in time, and never a permission to write files that the user did not name.

use std::fs;

use serde_json::Value;

use crate::harness::{Done, Home};

/// `--output-format=json` of a job with these options.
fn fio(home: &Home, options: &[&str]) -> Done {
    let format = ["fio", "--output-format=json", "--name=r"];
    home.iodyno(&[&format, options].concat())
}

fn ops_and_bytes(job: &Value) -> Vec<(u64, u64)> {
    let of = |direction: &str| {
        let result = &job[direction];
        let number = |key: &str| result[key].as_u64().unwrap_or(0);
        (number("total_ios"), number("io_bytes"))
    };
    ["read", "write", "trim", "sync"].map(of).to_vec()
}

fn replayed(home: &Home, options: &[&str]) -> Vec<(u64, u64)> {
    let result = fio(home, options).succeeds().json();
    ops_and_bytes(&result["jobs"][0])
}

#[test]
fn what_is_recorded_is_replayed() {
    let home = Home::new();
    let write = [
        "--rw=randrw",
        "--bs=4k",
        "--size=64k",
        "--fsync=4",
        "--write_iolog=a.log",
    ];
    let first = replayed(&home, &[&write[..], &["--ioengine=psync"]].concat());
    assert_eq!(first[0].0 + first[1].0, 16);
    let log = fs::read_to_string(home.work().join("a.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let name = "r.0.0";
    assert_eq!(lines[0], "fio version 3 iolog");
    assert_eq!(
        lines[1..3],
        [format!("0 {name} add"), format!("0 {name} open")]
    );
    assert!(lines[3].starts_with("1 "), "{log}");
    assert!(lines.last().unwrap().ends_with(&format!(" {name} close")));
    assert_eq!(
        lines.len() as u64,
        4 + first.iter().map(|it| it.0).sum::<u64>()
    );
    fs::remove_file(home.work().join(name)).unwrap();
    for engine in ["psync", "libaio", "io_uring", "posixaio"] {
        let engine = format!("--ioengine={engine}");
        let more = [
            "--read_iolog=a.log",
            "--iodepth=4",
            "--replay_no_stall=1",
            &engine,
        ];
        let again = replayed(&home, &[&more[..], &["--write_iolog=b.log"]].concat());
        assert_eq!(again, first, "{engine}");
        let second = fs::read_to_string(home.work().join("b.log")).unwrap();
        let ops = |text: &str| -> Vec<String> {
            let lines = text.lines().skip(1);
            let lines = lines.map(|line| line.split_once(' ').unwrap().1.to_owned());
            lines.collect()
        };
        assert_eq!(ops(&second), ops(&log), "{engine}");
    }
    // Each clone has a separate record.
    replayed(
        &home,
        &[
            "--rw=read",
            "--size=8k",
            "--numjobs=2",
            "--write_iolog=c.log",
        ],
    );
    let record = |name: &str| fs::read_to_string(home.work().join(name)).unwrap();
    assert!(record("c.log").contains(" r.0.0 read 4096 4096\n"));
    assert!(record("c.log.2").contains(" r.1.0 read 4096 4096\n"));
}

const SIM: [&str; 2] = ["--ioengine=sim", "--sim_latency=constant:1ms"];

/// Reads at 0, 0.5 and 10 ms, a write at 10 s.
const TIMED: &str = "fio version 3 iolog\n0 /f add\n7 /f read 0 4096\n507 /f read 4096 4096\n\
    10007 /f read 0 8192\n10000007 /f write 0 512\n";

fn response(job: &Value, direction: &str, what: &str) -> u64 {
    let found = &job[direction]["response_lat_ns"][what];
    found
        .as_u64()
        .unwrap_or_else(|| panic!("{what}: {}", job[direction]))
}

#[test]
fn ops_are_due_at_their_times_and_late_ones_are_counted_from_then() {
    let home = Home::new();
    home.file("t.log", TIMED);
    let run = |more: &[&str]| {
        let options = [&SIM[..], &["--read_iolog=t.log"], more].concat();
        fio(&home, &options).succeeds().json()["jobs"][0].clone()
    };
    let job = run(&[]);
    assert_eq!(ops_and_bytes(&job), [(3, 16384), (1, 512), (0, 0), (0, 0)]);
    assert_eq!(job["job_runtime"], 10_001);
    assert_eq!(job["read"]["clat_ns"]["max"], 1_000_000);
    // The second was due 0.5 ms before the first completed.
    assert_eq!(response(&job, "read", "max"), 1_500_000);
    assert_eq!(response(&job, "read", "min"), 1_000_000);
    // At half the speed none is late, nor if two can be in flight.
    let slow = run(&["--replay_time_scale=50"]);
    assert_eq!(slow["job_runtime"], 20_001);
    assert_eq!(response(&slow, "read", "max"), 1_000_000);
    let deep = run(&["--iodepth=2"]);
    assert_eq!(response(&deep, "read", "max"), 1_000_000);
    let at_once = run(&["--replay_no_stall=1"]);
    assert_eq!(at_once["job_runtime"], 4);
    assert!(at_once["read"]["response_lat_ns"]["max"].as_u64().is_none());
    let few = run(&["--replay_skip=read"]);
    assert_eq!(ops_and_bytes(&few), [(0, 0), (1, 512), (0, 0), (0, 0)]);
    assert_eq!(few["job_runtime"], 10_001);
}

#[test]
fn ops_that_were_due_and_not_issued_are_reported() {
    let home = Home::new();
    let reads: String = (0..100)
        .map(|n| format!("{} /f read 0 4096\n", n * 1000))
        .collect();
    home.file("t.log", &format!("fio version 3 iolog\n0 /f add\n{reads}"));
    let options = [
        "--ioengine=sim",
        "--sim_latency=constant:10ms",
        "--read_iolog=t.log",
    ];
    fio(&home, &[&options[..], &["--runtime=50ms"]].concat()).succeeds();
    let trial = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    // 50 ops were due in 50 ms; 5 were issued, one after the other.
    let text = trial.to_string();
    let missed = r#""missed_ops":[{"direction":"read","ops":45}]"#;
    assert!(text.contains(missed), "{text}");
}

#[test]
fn a_trace_alone_is_no_reason_to_write_to_a_file() {
    let home = Home::new();
    let precious = home.file("precious", "data of the user");
    let path = precious.display().to_string();
    let text =
        |op: &str| format!("fio version 3 iolog\n0 {path} add\n0 {path} open\n1 {path} {op}\n");
    let kept = || assert_eq!(fs::read_to_string(&precious).unwrap(), "data of the user");
    let named = format!("--filename={path}");
    for op in ["write 0 512", "trim 0 512"] {
        home.file("t.log", &text(op));
        fio(&home, &["--read_iolog=t.log"])
            .exits(1)
            .stderr_has("the trace writes to")
            .stderr_has("neither the job nor the command names")
            .stderr_has(&format!("name it with `filename={path}`"));
        kept();
        // With `--readonly`, they are omitted.
        fio(&home, &["--readonly", "--read_iolog=t.log"])
            .exits(1)
            .stderr_has("has no ops to replay");
        kept();
    }
    // Nor to extend or to create one.
    home.file("t.log", &text("read 0 4096"));
    fio(&home, &["--read_iolog=t.log"])
        .exits(1)
        .stderr_has("line 4 of the trace ends at 4 KiB")
        .stderr_has("is not extended");
    kept();
    let gone = text("read 0 4096").replace("precious", "gone");
    home.file("g.log", &gone);
    fio(&home, &["--read_iolog=g.log"])
        .exits(1)
        .stderr_has("does not exist");
    assert!(!home.work().join("gone").exists());
    // As it is, it may be read.
    home.file("t.log", &text("read 4 8"));
    assert_eq!(replayed(&home, &["--read_iolog=t.log"])[0], (1, 8));
    kept();
    // Not even by a relative name that leads out of the folder.
    let folder = home.work().join("in");
    fs::create_dir(&folder).unwrap();
    let out = text("write 0 512").replace(&path, "../precious");
    fs::write(folder.join("t.log"), out).unwrap();
    let mut command = home.command(&["fio", "--name=r", "--read_iolog=t.log"]);
    command.current_dir(&folder);
    crate::harness::Running::of(command)
        .done()
        .exits(1)
        .stderr_has("the trace writes to");
    kept();
    // In another folder, or at the path that the user gives.
    home.file("t.log", &text("write 0 512"));
    for more in [
        &["--replay_redirect=other"][..],
        &["--replay_redirect=in/other"],
    ] {
        let options = [&["--read_iolog=t.log"], more].concat();
        assert_eq!(replayed(&home, &options)[1], (1, 512), "{more:?}");
        kept();
    }
    let job = home.file("r.fio", "[r]\nread_iolog=t.log\n");
    home.iodyno(&["run", job.to_str().unwrap(), "--on", "in", "-q"])
        .succeeds();
    kept();
    assert_eq!(fs::metadata(folder.join("precious")).unwrap().len(), 512);
    assert_eq!(
        replayed(&home, &["--read_iolog=t.log", &named])[1],
        (1, 512)
    );
    assert_eq!(fs::metadata(&precious).unwrap().len(), 512);
}

#[test]
fn a_trace_that_cannot_be_replayed_is_refused_with_its_line() {
    let home = Home::new();
    let pipe = home.work().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        fio(&home, &["--read_iolog=pipe"])
            .exits(1)
            .stderr_has("the trace `")
            .stderr_has("it is not a regular file");
    }
    fio(&home, &["--read_iolog=none"])
        .exits(1)
        .stderr_has("cannot be read");
    fio(&home, &["--read_iolog=."])
        .exits(1)
        .stderr_has("it is not a regular file");
    fio(&home, &["--read_iolog=-"]).stderr_has("not read from standard input");
    for (text, words) in [
        ("nonsense\n", "line 1: it is neither a log of fio"),
        (
            "fio version 2 iolog\nf add\nf read 1 x\n",
            "line 3: its length `x` is not a number",
        ),
        (
            "fio version 2 iolog\nf add\nf write 9223372036854775807 1\n",
            "line 3: offset 9223372036854775807 is beyond the end of any file",
        ),
        ("fio version 2 iolog\nf add\n", "has no ops to replay"),
        (
            "fio version 2 iolog\nf add\nf read 0 1073741824\n",
            "8 buffers of 1 GiB, the longest op of the trace, are more than 4 GiB",
        ),
    ] {
        home.file("t.log", text);
        fio(
            &home,
            &["--read_iolog=t.log", "--ioengine=libaio", "--iodepth=8"],
        )
        .exits(1)
        .stderr_has(words);
        assert!(!home.work().join("f").exists());
    }
    // More than the size of the file system.
    home.file(
        "t.log",
        "fio version 2 iolog\nf add\nf write 4611686018427387904 4096\n",
    );
    fio(&home, &["--read_iolog=t.log"]).exits(1);
    assert!(!home.work().join("f").exists());
    home.file("t.log", TIMED);
    fio(&home, &["--read_iolog=t.log", "--verify=crc32c"])
        .stderr_has("`verify` does not apply to a replay");
}

/// A record of blktrace: a queued request.
fn record(time_ns: u64, action: u32, sector: u64, bytes: u32) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(0x6561_7407u32.to_le_bytes());
    record.extend(0u32.to_le_bytes());
    record.extend(time_ns.to_le_bytes());
    record.extend(sector.to_le_bytes());
    record.extend(bytes.to_le_bytes());
    record.extend((1 | 1 << 20 | action << 16).to_le_bytes());
    record.extend(1u32.to_le_bytes());
    // A device of no host.
    record.extend((4095u32 << 20 | 7).to_le_bytes());
    record.extend([0; 8]);
    record
}

#[test]
fn blktrace_is_replayed_on_the_file_that_is_named() {
    let home = Home::new();
    let (read, write, flush) = (1, 2, 4);
    let trace = [
        record(0, read, 0, 4096),
        record(1000, write, 8, 8192),
        record(2000, write | flush, 0, 0),
        record(3000, read, 16, 512),
    ]
    .concat();
    fs::write(home.work().join("t.bin"), &trace).unwrap();
    fio(&home, &["--read_iolog=t.bin"])
        .exits(1)
        .stderr_has("device 4095:7 is not on this host")
        .stderr_has("replay_redirect");
    let done = replayed(&home, &["--read_iolog=t.bin", "--replay_redirect=f"]);
    assert_eq!(done, [(2, 4608), (1, 8192), (0, 0), (1, 0)]);
    assert_eq!(fs::metadata(home.work().join("f")).unwrap().len(), 12288);
    fs::write(home.work().join("cut.bin"), &trace[..100]).unwrap();
    fio(&home, &["--read_iolog=cut.bin", "--replay_redirect=f"])
        .exits(1)
        .stderr_has("record 3: the trace ends within it");
}

#[test]
fn a_dry_run_names_the_length_of_a_trace() {
    let home = Home::new();
    home.file(
        "t.log",
        "fio version 3 iolog\n0 f add\n0 f open\n0 f read 0 4096\n4980000000 f read 0 4096\n",
    );
    home.file("f", &"x".repeat(4096));
    for engine in ["--ioengine=psync", "--ioengine=sim"] {
        let job = ["fio", "--name=r", "--read_iolog=t.log", engine, "--dry-run"];
        home.iodyno(&job).succeeds().prints("t.log: 1 h 23 min");
    }
}
