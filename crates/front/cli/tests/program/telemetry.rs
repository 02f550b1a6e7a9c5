//! Telemetry: sampled with every trial, shown, attributed to servers, and judged.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::filesystem::FileSystem;
use crate::harness::{Done, Home, Running, iodyno, skip};

const JOB: &str = "[t]\nioengine=psync\nrw=randrw\nbs=4k\nsize=16m\nruntime=2500ms\ntime_based\n";

/// The only trial of the last run, with all its series.
fn series(home: &Home) -> Value {
    let shown = home
        .iodyno(&["show", "last", "--series", "all", "--json"])
        .succeeds()
        .json();
    shown["trials"][0].clone()
}

/// Starts a run without an end, and waits until this number of samples of each kind is stored. A series that this
/// host does not provide is a gap with its reason.
fn sampling(home: &Home, every: &str, kinds: &[&str], least: usize) -> Running {
    home.file("job.fio", &JOB.replace("2500ms", "1h"));
    let running = home.start(&["run", "job.fio", "--sample-every", every]);
    running.wait_for("samples", || {
        let shown = home.iodyno(&["show", "last", "--series", "all", "--json"]);
        let shown: Value = serde_json::from_str(&shown.stdout).ok()?;
        let trial = &shown["trials"][0];
        let sampled = |kind| samples(trial, kind).len() >= least || !gaps(trial, kind).is_empty();
        kinds.iter().all(|kind| sampled(kind)).then_some(())
    });
    running
}

fn gaps<'a>(trial: &'a Value, kind: &str) -> Vec<&'a Value> {
    let gaps = trial["gaps"].as_array().into_iter().flatten();
    gaps.filter(|gap| gap["kind"] == kind).collect()
}

/// The numbers of the shapes of a kind.
fn shapes(trial: &Value, kind: &str) -> Vec<u64> {
    let shapes = trial["shapes"].as_array().into_iter().flatten();
    let of_kind = shapes.filter(|shape| shape["kind"] == kind);
    of_kind
        .map(|shape| shape["number"].as_u64().unwrap())
        .collect()
}

fn samples<'a>(trial: &'a Value, kind: &str) -> Vec<&'a Value> {
    let shapes = shapes(trial, kind);
    let samples = trial["samples"].as_array().into_iter().flatten();
    let of_kind = samples.filter(|sample| shapes.contains(&sample["shape"].as_u64().unwrap()));
    of_kind.collect()
}

#[test]
fn a_run_keeps_every_series_with_its_trial_on_the_trials_own_clock() {
    let home = Home::new();
    let kinds = [
        "cpu",
        "interrupts",
        "load",
        "disk",
        "pressure",
        "memory",
        "reclaim",
    ];
    let begun = Instant::now();
    let running = sampling(&home, "500ms", &kinds, 4);
    running.signal(Signal::INT);
    running.done().exits(130);
    let passed_ns = begun.elapsed().as_nanos();
    let trial = series(&home);
    for kind in kinds {
        let samples = samples(&trial, kind);
        assert!(
            samples.len() >= 4 || !gaps(&trial, kind).is_empty(),
            "{kind}: {samples:?}"
        );
        let mut before = 0;
        for sample in samples {
            let (at, span) = (sample["at_ns"].as_i64(), sample["span_ns"].as_i64());
            let (at, span) = (at.unwrap(), span.unwrap());
            // Of the layout, which ends before or with the start.
            if at - span < -1_000_000 {
                assert_eq!(before, 0, "{kind}: {sample}");
                continue;
            }
            assert!(
                at > before && span > 0 && at - span >= -1_000_000,
                "{kind}: {sample}"
            );
            before = at;
        }
        assert!((before as u128) < passed_ns, "{kind}: {before}");
        assert!(before > 0 || !gaps(&trial, kind).is_empty(), "{kind}");
    }
    assert!(!trial["sampling"].as_array().unwrap().is_empty());
}

#[test]
fn series_are_shown_as_a_table_as_lines_and_merged() {
    let home = Home::new();
    let begun = Instant::now();
    let running = sampling(&home, "250ms", &["cpu", "load"], 6);
    running.signal(Signal::INT);
    running.done().exits(130);
    let due = begun.elapsed().as_millis() / 250;
    let show = |more: &[&str]| home.iodyno(&[&["show", "last"], more].concat());
    show(&["--series", "cpu"]).succeeds().prints("steal");
    let lines = |text: &str| text.lines().filter(|line| line.contains(",all,")).count();
    let trial = series(&home);
    let taken = samples(&trial, "cpu");
    // A slow host omits samples. None is taken before it is due, except for the last ones of the layout and of the
    // trial.
    assert!(taken.len() as u128 <= due + 2, "{}", taken.len());
    let fine = show(&["--series", "cpu", "--format", "csv"]).succeeds();
    assert_eq!(lines(&fine.stdout), taken.len(), "{}", fine.stdout);
    // A sample belongs to the second that contains its middle.
    let second = |sample: &Value| {
        let (at_ns, span_ns) = (sample["at_ns"].as_i64(), sample["span_ns"].as_i64());
        let middle = at_ns.unwrap() - span_ns.unwrap() / 2;
        (middle.div_euclid(1_000_000_000), sample["shape"].as_u64())
    };
    let seconds: BTreeSet<_> = taken.iter().map(|sample| second(sample)).collect();
    let coarse = show(&["--series", "cpu", "--format", "csv", "--every", "1s"]).succeeds();
    assert_eq!(lines(&coarse.stdout), seconds.len(), "{}", coarse.stdout);
    let raw = show(&["--series", "cpu,load", "--format", "csv", "--raw"]).succeeds();
    assert!(raw.stdout.lines().next().unwrap().contains("load1"));
    assert!(raw.stdout.contains(",CPU0,"), "{}", raw.stdout);
}

#[test]
fn nothing_is_sampled_if_sampling_is_off() {
    let home = Home::new();
    home.file("job.fio", JOB);
    home.iodyno(&[
        "run",
        "job.fio",
        "--set",
        "runtime=500ms",
        "--sample-every",
        "0",
    ])
    .succeeds();
    home.iodyno(&["show", "last", "--series", "disk"])
        .exits(2)
        .stderr_has("no series are stored with run 1")
        .stderr_has("--sample-every 0");
}

#[test]
fn every_error_of_the_flags_is_reported_with_the_existing_names() {
    let home = Home::new();
    home.file("job.fio", JOB);
    home.iodyno(&["run", "job.fio", "--set", "runtime=300ms"])
        .succeeds();
    for (arguments, told) in [
        (&["show", "last", "--series", "dsik"][..], "pressure"),
        (&["show", "last", "--every", "3s"], "--series"),
        (
            &["show", "last", "--series", "disk", "--every", "0s"],
            "--every 0",
        ),
        (
            &["show", "last", "--series", "disk", "--format", "terse"],
            "in this format",
        ),
        (
            &["show", "last", "--series", "disk", "--raw"],
            "--format csv",
        ),
        (&["show", "last", "--trial", "2"], "has 1 trial"),
        (&["show", "last", "--series", "process"], "--sample NAME"),
        (&["run", "job.fio", "--sample-every", "10ms"], "100ms"),
        (&["run", "job.fio", "--sample", "/usr/bin/qemu"], "`qemu`"),
        (&["doctor", "nowhere", "neither"], "`neither`"),
        (&["doctor", "--for", "1ms"], "500ms"),
        (&["watch", "--once", "--every", "0"], "100ms"),
    ] {
        home.iodyno(arguments).exits(2).stderr_has(told);
    }
    let both = home.iodyno(&["doctor", "nowhere", "neither"]);
    both.stderr_has("`nowhere`").stderr_has("No such file");
}

/// A process with its own name that keeps a core busy. It is killed when dropped.
struct Busy(Child);

impl Busy {
    fn start(home: &Home, name: &str) -> Busy {
        let program = home.work().join(name);
        // Not by this process: a child that another test starts meanwhile would have the copy open for writing, and a
        // program in use for that cannot be started.
        let copied = Command::new("cp").arg("/bin/sh").arg(&program).status();
        assert!(copied.unwrap().success());
        let mut command = Command::new(program);
        command.args(["-c", "while :; do :; done"]);
        Busy(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// The CPU time that it has used, from the same source as the sampler's, in hundredths of a second.
    fn cpu_ns(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks = |place: usize| fields[place].parse::<u64>().unwrap();
        (ticks(11) + ticks(12)) * 10_000_000
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_cpu_time_of_a_server_under_test_is_reported() {
    let home = Home::new();
    home.file("job.fio", JOB);
    let busy = Busy::start(&home, "testserver");
    let mut used_ns = 0;
    for _ in 0..2 {
        let before_ns = busy.cpu_ns();
        home.iodyno(&[
            "run",
            "job.fio",
            "--set",
            "rate_iops=200",
            "--sample",
            "testserver,nobody",
            "--sample-every",
            "200ms",
        ])
        .succeeds()
        .prints("testserver");
        used_ns = busy.cpu_ns() - before_ns;
    }
    let trial = series(&home);
    let shapes = trial["shapes"].as_array().unwrap().iter();
    let of_processes: Vec<String> = shapes
        .filter(|shape| shape["kind"] == "process")
        .map(|shape| shape["subjects"].to_string())
        .collect();
    let expected = format!("testserver[{}]", busy.0.id());
    assert!(
        of_processes.iter().any(|all| all.contains(&expected)),
        "{of_processes:?}"
    );
    assert!(
        trial["gaps"].to_string().contains("nobody"),
        "{}",
        trial["gaps"]
    );
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let servers = &shown["trials"][0]["servers"];
    // It spins all the time, but gets little CPU time on a busy host; the CPU time that it used is the upper limit.
    let time = |name: &str| servers[0][name].as_u64().unwrap();
    let charged_ns = time("user_ns") + time("system_ns");
    assert!(
        (1..=used_ns).contains(&charged_ns),
        "{charged_ns} ns of {used_ns} ns: {servers}"
    );
    let cores = charged_ns as f64 / time("span_ns") as f64;
    assert!(
        (servers[0]["cores"].as_f64().unwrap() - cores).abs() < 1e-9,
        "{servers}"
    );
    let compared = ["compare", "last~1", "last", "--metric", "server_cpu_per_op"];
    home.iodyno(&compared).succeeds().prints("CANNOT DECIDE");
}

#[test]
fn samples_survive_a_kill_and_a_transfer_to_another_store() {
    let home = Home::new();
    let running = sampling(&home, "100ms", &["cpu"], 15);
    let before = series(&home);
    running.signal(Signal::KILL);
    running.done().exits(-9);
    let after = series(&home);
    let (before, kept) = (samples(&before, "cpu"), samples(&after, "cpu"));
    assert!(before.len() >= 15 && kept.starts_with(&before));
    home.iodyno(&["export", "last", "-o", "run.iodyno"])
        .succeeds();
    let elsewhere = ["--store", "other.db"];
    home.iodyno(&[&elsewhere[..], &["import", "run.iodyno"]].concat())
        .succeeds();
    let there = home
        .iodyno(
            &[
                &elsewhere[..],
                &["show", "last", "--series", "all", "--json"],
            ]
            .concat(),
        )
        .succeeds()
        .json();
    assert_eq!(there["trials"][0], after);
}

#[test]
fn the_foreign_command_lines_sample_as_well() {
    let home = Home::new();
    let fio = [
        "fio",
        "--sample-every",
        "100ms",
        "--sample",
        "nobody",
        "--name=t",
        "--size=1m",
        "--rw=read",
    ];
    home.iodyno(&fio).succeeds().prints("READ: bw=");
    assert!(series(&home)["gaps"].to_string().contains("nobody"));
    home.iodyno(&[
        "fileio",
        "--sample-every",
        "0",
        "--file-total-size=1M",
        "--file-num=2",
        "prepare",
    ])
    .succeeds();
    home.iodyno(&["show", "last", "--series", "all"]).exits(2);
}

/// A limit of this process's control group on one device. Removed when dropped.
struct Limit {
    file: String,
    device: String,
}

impl Limit {
    fn reads_of(device: &str, bytes_a_second: u64) -> Option<Limit> {
        let number = std::fs::read_to_string(format!("/sys/block/{}/dev", &device[5..])).ok()?;
        let limit = Limit {
            file: "/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device".to_owned(),
            device: number.trim().to_owned(),
        };
        let line = format!("{} {bytes_a_second}", limit.device);
        std::fs::write(&limit.file, line).ok()?;
        Some(limit)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.file, format!("{} 0", self.device));
    }
}

const LIMIT: u64 = 5_000_000;

#[test]
fn a_limit_of_the_control_group_is_found_and_named() {
    let home = Home::new();
    let Some(disk) = FileSystem::ext4(&home, 256) else {
        return;
    };
    let Some(_limit) = Limit::reads_of(disk.device(), LIMIT) else {
        return crate::harness::skip("no blkio control group of version 1 to set a limit in");
    };
    let job = "[t]\nioengine=psync\nrw=read\nbs=64k\nsize=16m\nruntime=4s\ntime_based\ndirect=1\n";
    home.file("job.fio", job);
    let on = format!("ext4={}", disk.folder.display());
    let done: Done = home
        .iodyno(&["run", "job.fio", "--on", &on, "--sample-every", "200ms"])
        .succeeds();
    let said = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = said.contains("loop") && said.contains("the control group allows 4.77 MiB/s read");
    let raw = ["--series", "cgroup", "--format", "csv", "--raw"];
    let raw = home
        .iodyno(&[&["show", "last"][..], &raw].concat())
        .succeeds();
    let mut lines = raw.stdout.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| names.iter().position(|known| *known == name).unwrap();
    let mut read = 0.0;
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let figure = |name: &str| fields[column(name)].parse::<f64>().unwrap();
        assert_eq!(
            figure("read_bandwidth_limit_bytes_per_s"),
            LIMIT as f64,
            "{line}"
        );
        read += figure("read_bytes");
    }
    assert!(read > 0.0, "{}", raw.stdout);
    // Whether the limit was reached depends on other activity of the host; the threshold is tested with simulated
    // series.
    if found {
        home.iodyno(&["show", "last"])
            .succeeds()
            .prints("threshold");
    }
}

/// The only trial of a run of this job by the command.
fn trial_of(command: Command) -> Value {
    let run = Running::of(command).done().succeeds().json();
    run["trials"][0].clone()
}

#[test]
fn the_cpu_wait_of_a_worker_next_to_a_busy_loop_is_recorded() {
    let home = Home::new();
    let spin = "[t]\nioengine=null\nrw=read\nsize=1g\nruntime=500ms\ntime_based\ncpus_allowed=0\n";
    home.file("job.fio", spin);
    let mut busy = Command::new("taskset");
    let busy = busy.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
    let Ok(mut busy) = busy.spawn() else {
        return skip("taskset is not installed");
    };
    let trial = trial_of(home.command(&["run", "job.fio", "--json"]));
    busy.kill().unwrap();
    busy.wait().unwrap();
    let share = trial["cpu"]["worker_run_delay_share"].as_f64();
    match Path::new("/proc/self/schedstat").exists() {
        // The length of the wait depends on the scheduler.
        true => assert!(share.is_some_and(|share| share > 0.0), "{share:?}"),
        false => skip("the kernel has no schedstat"),
    }
}

/// A control group below the root, removed when dropped.
struct Group(std::path::PathBuf);

impl Group {
    /// Prints a message and returns `None` if the controller does not exist, or if the user lacks the permission.
    fn new(controller: &str, name: &str, files: &[(&str, &str)]) -> Option<Group> {
        // Version 2, at its usual location or together with version 1, and version 1.
        let tops = [
            "/sys/fs/cgroup".to_owned(),
            "/sys/fs/cgroup/unified".to_owned(),
        ];
        let two = tops.into_iter().filter(|top| {
            let listed = std::fs::read_to_string(format!("{top}/cgroup.subtree_control"));
            listed.is_ok_and(|listed| listed.split_whitespace().any(|word| word == controller))
        });
        let mut tops = two.chain([format!("/sys/fs/cgroup/{controller}")]);
        let made = tops.find_map(|top| {
            let folder = Path::new(&top).join(format!("iodyno-test-{name}-{}", std::process::id()));
            std::fs::create_dir(&folder).ok()?;
            let group = Group(folder);
            let limited =
                |(file, text): &(&str, &str)| std::fs::write(group.0.join(file), text).is_ok();
            files.iter().any(limited).then_some(group)
        });
        if made.is_none() {
            skip(format!(
                "no control group with the controller {controller} can be made"
            ));
        }
        made
    }

    /// A command of iodyno with these arguments, in the group.
    fn iodyno(&self, home: &Home, arguments: &[&str]) -> Command {
        let inner = home.command(arguments);
        let mut command = Command::new("sh");
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(self.0.join("cgroup.procs"));
        command.arg(inner.get_program()).args(inner.get_args());
        let set = inner
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        command.envs(set);
        command.current_dir(inner.get_current_dir().unwrap());
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may not have exited yet.
        let gone = || std::fs::remove_dir(&self.0).is_ok().then_some(());
        crate::harness::wait_for("the control group to be empty", gone);
    }
}

#[test]
fn a_cpu_quota_is_recorded_with_its_use() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nioengine=null\nrw=read\nsize=1g\nruntime=1s\ntime_based\n",
    );
    // A tenth of a CPU, in the file of either version.
    let files = [("cpu.max", "10000 100000"), ("cpu.cfs_quota_us", "10000")];
    let Some(group) = Group::new("cpu", "quota", &files) else {
        return;
    };
    let trial = trial_of(group.iodyno(&home, &["run", "job.fio", "--json"]));
    let used = &trial["nodes"][0]["host"]["control_group"];
    // Whether the quota is used up depends on other processes.
    assert!(used["periods"].as_u64() > Some(0), "{used}");
    assert!(
        used["throttled_periods"].as_u64() <= used["periods"].as_u64(),
        "{used}"
    );
    assert!(used["throttled_ns"].is_u64(), "{used}");
}

#[test]
fn a_memory_limit_of_the_control_group_is_recorded() {
    let home = Home::new();
    home.file("job.fio", &JOB.replace("2500ms", "300ms"));
    const LIMIT: &str = "268435456";
    let files = [("memory.max", LIMIT), ("memory.limit_in_bytes", LIMIT)];
    let Some(group) = Group::new("memory", "limit", &files) else {
        return;
    };
    let trial = trial_of(group.iodyno(&home, &["run", "job.fio", "--json"]));
    let node = &trial["nodes"][0];
    assert_eq!(node["environment"]["memory_limit_bytes"], 256 << 20);
    assert!(
        node["host"]["control_group"]["memory_limit_hits"].is_u64(),
        "{node}"
    );
}

#[test]
fn requests_are_traced_at_the_devices_and_not_compared_with_untraced_ones() {
    let home = Home::new();
    let Some(disk) = FileSystem::ext4(&home, 256) else {
        return;
    };
    let job =
        "[t]\nioengine=psync\nrw=randread\nbs=4k\nsize=16m\nruntime=2500ms\ntime_based\ndirect=1\n";
    home.file("job.fio", job);
    let on = format!("ext4={}", disk.folder.display());
    let run = ["run", "job.fio", "--on", &on, "--sample-every", "200ms"];
    let traced = home.iodyno(&[&run[..], &["--trace", "block"]].concat());
    if traced.stderr.contains("cannot trace block devices") {
        return crate::harness::skip("this kernel does not describe its types");
    }
    traced.succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let times = shown["trials"][0]["device_times"]
        .as_array()
        .unwrap()
        .clone();
    let device = disk.device().trim_start_matches("/dev/");
    let of = |times: &&Value| times["device"] == device && times["direction"] == "read";
    let read = times.iter().find(of).unwrap();
    assert!(read["requests"].as_u64().unwrap() > 0, "{read}");
    let mean = |stage: &str| read[stage]["mean_ns"].as_f64().unwrap();
    assert!(mean("service") > mean("queue"), "{read}");
    assert!(read["op_ns"].as_f64().unwrap() > mean("service"), "{read}");
    let text = home.iodyno(&["show", "last"]).succeeds().stdout;
    assert!(text.contains(&format!(" {device} read: ")), "{text}");
    let rows = home
        .iodyno(&["show", "last", "--series", "block"])
        .succeeds();
    assert!(
        rows.stdout.contains(&format!("{device} read device")),
        "{}",
        rows.stdout
    );
    home.iodyno(&run).succeeds();
    let compared = home.iodyno(&["compare", "1", "2"]).succeeds().stdout;
    assert!(compared.contains("requests traced"), "{compared}");
}

#[test]
fn a_trace_that_cannot_be_made_is_refused_before_a_run_is_stored() {
    let home = Home::new();
    home.file("job.fio", JOB);
    let log = "fio version 2 iolog\nf add\nf read 0 x\n";
    home.file("t.log", log);
    home.file("replay.fio", "[j]\nread_iolog=t.log\n");
    home.iodyno(&["run", "replay.fio"])
        .exits(3)
        .stderr_has("line 3: its length `x` is not a number");
    let pair = ["run", "replay.fio", "--on", "a=.", "--on", "b=."];
    home.iodyno(&pair).exits(3);
    let mut command = match crate::harness::root() {
        true => {
            let mut command = home.program(Path::new("setpriv"));
            command.arg("--bounding-set=-all").arg(iodyno());
            command
        }
        false => home.program(Path::new(iodyno())),
    };
    command.args(["run", "job.fio", "--trace", "block"]);
    let done = Running::of(command).done();
    if done.stderr.contains("setpriv") {
        return crate::harness::skip(&done.stderr);
    }
    let whys = ["CAP_BPF", "/sys/kernel/btf"];
    let refused = whys.iter().any(|why| done.stderr.contains(why));
    assert!(refused, "{}", done.stderr);
    let done = done.exits(3);
    assert!(!done.stderr.contains("run 1"), "{}", done.stderr);
    let runs = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(0), "{runs}");
    let left: Vec<_> = std::fs::read_dir(home.work()).unwrap().collect();
    assert!(!left.iter().any(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("t.0")
    }));
}
