//! A run from another user does nothing on this host that its user did not request: modified and resealed bundles,
//! stores from other hosts, and forged records.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

use crate::harness::{Done, Home, skip};

/// An experiment in virtual time, with a command that leaves a trace.
fn experiment(command: &str) -> String {
    format!(
        r#"
name = "theirs"
rounds = 1

[configuration.disk]
target = "directory on ."
setup = "{command}"

[workload.sim]
fio = {{ ioengine = "sim", rw = "randread", size = "1m", number_ios = 10 }}
"#
    )
}

/// The lines of a bundle of such a run.
pub(crate) fn bundle() -> Vec<Value> {
    let theirs = Home::new();
    theirs.file("e.toml", &experiment("true"));
    theirs.iodyno(&["run", "e.toml"]).succeeds();
    let exported = theirs.iodyno(&["export", "last"]).succeeds().stdout;
    let lines = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The header and the plan of a bundle after a change (with `number` 0: under the same identity), sealed again.
pub(crate) fn resealed(lines: &[Value], number: usize, change: &dyn Fn(&mut Value)) -> String {
    let (mut header, mut run) = (lines[0].clone(), lines[1].clone());
    if number > 0 {
        let id = header["header"]["run"].as_str().unwrap().to_owned();
        let id = format!("{}{number:04x}", &id[..id.len() - 4]);
        header["header"]["run"] = json!(id);
    }
    change(&mut run["run"]["plan"]);
    sealed(&[header, run])
}

/// A bundle of these lines, with a footer.
pub(crate) fn sealed(lines: &[Value]) -> String {
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut hash = Xxh3::new();
    hash.update(text.as_bytes());
    let count = |kind| lines.iter().filter(|line| line.get(kind).is_some()).count();
    let footer = json!({ "footer": {
        "trials": count("trial"), "frames": count("frame"), "telemetry": count("telemetry"),
        "xxh3": format!("{:032x}", hash.digest128()),
    }});
    text += &format!("{footer}\n");
    text
}

/// A change of a plan.
type Change = Box<dyn Fn(&mut Value)>;

fn provision(key: &'static str, value: Value) -> Change {
    Box::new(move |plan| plan["configurations"][0]["target"]["made"][key] = value.clone())
}

fn layer(value: Value) -> Change {
    Box::new(move |plan| {
        let layers = &mut plan["configurations"][0]["target"]["made"]["layers"];
        layers.as_array_mut().unwrap().insert(0, value.clone());
    })
}

fn at(pointer: &'static str, value: Value) -> Change {
    Box::new(move |plan| {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        plan.pointer_mut(parent).unwrap()[key] = value.clone();
    })
}

/// Jobs with real files, in the folder that the plan names.
fn written(inner: Change) -> Change {
    Box::new(move |plan| {
        plan["configurations"][0]["target"] = json!({ "as_written": { "folder": "/nowhere" } });
        plan["workloads"][0]["jobs"][0]["work"]["blocks"]["engine"]["kind"] = json!("psync");
        inner(plan);
    })
}

/// Jobs without files.
fn without_files(inner: Change) -> Change {
    written(Box::new(move |plan| {
        plan["workloads"][0]["jobs"][0]["work"]["blocks"]["engine"]["kind"] = json!("null");
        inner(plan);
    }))
}

/// A node with fio, and a job with these options for it.
fn with_fio(options: Value) -> Change {
    written(Box::new(move |plan| {
        plan["nodes"] = json!([{ "name": "n", "at": "local?fio" }]);
        plan["workloads"][0]["jobs"][0]["options"] = options.clone();
    }))
}

/// Attempts by bundles, and the text of the refusal. `MARK` is a file that must not appear.
fn attempts(mark: &str) -> Vec<(Change, String)> {
    let touch = format!("touch {mark}");
    let vm = json!({
        "kind": "vm", "guests": 1, "cpus": 1, "memory": 1 << 29, "accel": "auto", "kernel": "/evil/kernel",
        "image": { "path": "/evil/i", "format": "raw,file=/dev/sda", "user": "root", "key": "/evil/key", "kernel": null,
            "initrd": null, "append": null, "program": "/evil/program" },
        "disks": [{ "backend": "below", "interface": "vhost-user-blk", "cache": "none", "aio": "threads", "iothread": false,
            "throttle": { "read_iops": 0, "write_iops": 0, "read_bandwidth": 0, "write_bandwidth": 0 }, "command": touch }],
        "share": touch,
    });
    let replay = |traces: Value, redirect: Value| {
        json!({ "traces": traces, "no_stall": true, "time_percent": 100, "redirect": redirect, "scale": 1, "align": 0,
            "skip": [] })
    };
    let all: Vec<(Change, &str)> = vec![
        (provision("setup", json!(touch)), "runs: disk.setup=touch"),
        (provision("ready", json!(touch)), "runs: disk.ready=touch"),
        (
            provision("teardown", json!(touch)),
            "runs: disk.teardown=touch",
        ),
        (
            provision("env", json!({ "LD_PRELOAD": "/evil.so" })),
            "sets: disk.env.LD_PRELOAD=/evil.so",
        ),
        (
            provision("sysctl", json!({ "kernel.core_pattern": "|/evil" })),
            r#"sets: disk.host.sysctl."kernel.core_pattern"=|/evil"#,
        ),
        (
            provision("queue", json!({ "../../evil": "1" })),
            r#"sets: disk.host.queue."../../evil"=1"#,
        ),
        (
            layer(json!({ "kind": "fuse", "command": touch })),
            "runs: disk.fuse.server=touch",
        ),
        (
            layer(json!({ "kind": "virtiofs", "command": touch })),
            "runs: disk.virtiofs.server=touch",
        ),
        (layer(vm.clone()), "runs: disk.vm.disk.command=touch"),
        (layer(vm.clone()), "runs: disk.vm.share=touch"),
        (
            layer(vm.clone()),
            "uses: disk.vm.image.program=/evil/program",
        ),
        (layer(vm), "uses: disk.vm.kernel=/evil/kernel"),
        (
            layer(json!({ "kind": "overlay", "mount": ["lowerdir=/etc"] })),
            "sets: disk.overlay.mount=lowerdir=/etc",
        ),
        (
            layer(
                json!({ "kind": "file_system", "fs": "ext4", "mkfs": ["-d", "/etc"], "mount": [] }),
            ),
            "runs: disk.ext4.mkfs=/etc",
        ),
        (
            layer(
                json!({ "kind": "zfs", "layout": [], "pool": { "cachefile": "/evil" }, "properties": { "mountpoint": "/etc" },
            "volume": null, "origin": "new" }),
            ),
            "sets: disk.zfs.mountpoint=/etc",
        ),
        (
            layer(
                json!({ "kind": "mirror", "policy": "round-robin", "cpus": "0 /evil", "numa": "0" }),
            ),
            "runs: disk.mirror.cpus=0 /evil",
        ),
        (
            layer(json!({ "kind": "device", "paths": ["/dev/evil"] })),
            "uses: /dev/evil, for `disk`",
        ),
        (
            layer(json!({ "kind": "zram", "size": 4096, "count": 1, "algorithm": null })),
            "runs: disk.target=zram on",
        ),
        (
            at(
                "/nodes",
                json!([{ "name": "n", "at": "local", "sudo": true }]),
            ),
            "runs: node.n=sudo local",
        ),
        (
            at("/nodes", json!([{ "name": "n", "at": "ssh://evil" }])),
            "runs: node.n=ssh://evil",
        ),
        (
            at(
                "/nodes",
                json!([{ "name": "n", "at": "vm:linux,kernel=/evil" }]),
            ),
            "runs: node.n=vm:linux,kernel=/evil",
        ),
        (
            at("/sampling/stats", json!(["/evil.sock"])),
            "uses: sampling.stats=/evil.sock",
        ),
        (
            at("/workloads/0/jobs/0/logs/iops", json!("/evil/log")),
            "uses: /evil/log, for `disk`",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/replay",
                replay(json!(["/evil/trace"]), Value::Null),
            )),
            "uses: job.sim.sim.read_iolog=/evil/trace",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/replay",
                replay(json!(["/t"]), json!("/evil/disk")),
            )),
            "uses: job.sim.sim.replay_redirect=/evil/disk",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/files/names",
                json!(["~/evil", "/etc/evil"]),
            )),
            "uses: /etc/evil, for `disk`",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/files/names",
                json!(["../evil"]),
            )),
            "uses: /nowhere/../evil, for `disk`",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/files/directories",
                json!(["../../etc"]),
            )),
            "uses: /nowhere/../../etc, for `disk`",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/files/format",
                json!("/etc/evil.$jobname"),
            )),
            "uses: /etc/evil.sim, for `disk`",
        ),
        (
            written(at("/workloads/0/jobs/0/name", json!("/dev/evil"))),
            "uses: /dev/evil, for `disk`",
        ),
        (
            without_files(at("/settling", json!({ "drop_caches": true }))),
            "sets: settle=drop_caches",
        ),
        (
            without_files(at("/sampling/block_trace", json!(true))),
            "runs: trace=block",
        ),
        (
            without_files(at("/workloads/0/jobs/0/placement/nice", json!(-20))),
            "sets: job.sim.sim.nice=-20",
        ),
        (
            without_files(at(
                "/workloads/0/jobs/0/placement/io_priority",
                json!([1, 0]),
            )),
            "sets: job.sim.sim.prio=1/0/0",
        ),
        (
            without_files(at("/name", json!("x"))),
            "uses: /nowhere, for `disk`",
        ),
        (
            without_files(at("/configurations/0/target", json!({ "path": "/evil/x" }))),
            "uses: /evil/x, for `disk`",
        ),
        (
            at("/workloads/0/jobs/0/exec_prerun", json!(touch)),
            "runs: job.sim.sim.exec_prerun=touch",
        ),
        (
            with_fio(json!({ "exec_postrun ": touch })),
            "runs: job.sim.sim.fio='exec_postrun =touch",
        ),
        (
            provision("setup", json!("true\n  uses: /home, for `disk`")),
            "runs: disk.setup=true   uses: /home, for `disk`",
        ),
        (
            at("/configurations/0/name", json!("x\n  sets: y=1\u{1b}[2J")),
            "for `x   sets: y=1?[2J`",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/files/names",
                json!(["/x\nhint: \u{202e}all is fine"]),
            )),
            "uses: /x hint: ?all is fine, for `disk`",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/files/names",
                json!(["/x$(evil)'`evil`"]),
            )),
            r"--on 'disk=/x$(evil)'\''`evil`'",
        ),
        (
            provision("env", json!({ "N.setup": touch })),
            r#"sets: disk.env."N.setup"=touch"#,
        ),
        (
            at("/configurations/0/name", json!("disk.env.N")),
            r#"runs: "disk.env.N".setup=true"#,
        ),
        (
            Box::new(|plan| {
                let engine = &mut plan["workloads"][0]["jobs"][0]["work"]["blocks"]["engine"];
                engine["kind"] = json!("nbd");
                engine["nbd"] = json!("nbd://evil/x");
            }),
            "uses: nbd://evil/x, for `disk`",
        ),
        (
            layer(
                json!({ "kind": "delay", "read_ns": 1, "write_ns": 1, "disks": ["hdd"], "cpus": "0;evil" }),
            ),
            "runs: disk.delay.cpus=0;evil",
        ),
        (
            layer(
                json!({ "kind": "dm", "target": "crypt", "cipher": "evil", "key_bits": 256, "sector": null }),
            ),
            "sets: disk.dm.cipher=evil",
        ),
        (
            layer(
                json!({ "kind": "file_system", "fs": "ext4", "mkfs": [], "mount": ["suid,dev"] }),
            ),
            "sets: disk.ext4.mount=suid,dev",
        ),
        (
            at(
                "/nodes",
                json!([{ "name": "n", "at": "ssh://-oProxyCommand=evil", "only_sampled": true }]),
            ),
            "runs: node.n=ssh://-oProxyCommand=evil",
        ),
        (
            at("/nodes", json!([{ "name": "n.setup", "at": "local" }])),
            r#"runs: node."n.setup"=local"#,
        ),
        (
            at("/workloads/0/jobs/0/logs/latency", json!("/evil/lat")),
            "uses: /evil/lat, for `disk`",
        ),
        (
            at("/workloads/0/jobs/0/logs/histogram", json!("/evil/hist")),
            "uses: /evil/hist, for `disk`",
        ),
        (
            at("/workloads/0/jobs/0/logs/iolog", json!("/evil/iolog")),
            "uses: /evil/iolog, for `disk`",
        ),
        (
            at(
                "/workloads/0/jobs/0/work/blocks/replay",
                replay(json!(["/evil/virtual"]), Value::Null),
            ),
            "uses: job.sim.sim.read_iolog=/evil/virtual",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work",
                json!({ "file_operations": { "about": "", "own_folders": false, "drain": false, "sets": [], "cycle": [],
                    "fio": { "engine": "filedelete", "folder": "/evil/files", "direction": "write", "bytes": 0 } } }),
            )),
            "uses: /evil/files, for `disk`",
        ),
        (
            written(at(
                "/workloads/0/jobs/0/work/blocks/priorities",
                json!([{ "direction": "read", "percent": 1, "priority": { "class": 1, "level": 0 } }]),
            )),
            "sets: job.sim.sim.cmdprio=1/0/0",
        ),
        (
            with_fio(json!({ "filename": "/etc/evil", "bs": "4k" })),
            "runs: job.sim.sim.fio=bs=4k filename=/etc/evil",
        ),
        (
            Box::new(|plan| {
                let mut other = plan["workloads"][0].clone();
                other["name"] = json!("other");
                other["jobs"][0]["work"]["blocks"]["engine"]["kind"] = json!("null");
                other["only"] = json!(["nothing"]);
                plan["workloads"].as_array_mut().unwrap().push(other);
                plan["configurations"][0]["target"] =
                    json!({ "as_written": { "folder": "/evil" } });
            }),
            "uses: /evil, for `disk`",
        ),
        (
            Box::new(|plan| {
                let mut again = plan["configurations"][0].clone();
                again["again"] = json!(true);
                again["name"] = json!("disk (again)");
                again["target"] = json!({ "path": "/evil" });
                plan["configurations"].as_array_mut().unwrap().push(again);
                plan["workloads"][0]["jobs"][0]["work"]["blocks"]["engine"]["kind"] =
                    json!("psync");
            }),
            "uses: /evil, for `disk (again)`",
        ),
    ];
    all.into_iter()
        .map(|(change, text)| (change, text.to_owned()))
        .collect()
}

fn marked(home: &Home) -> PathBuf {
    home.work().join("mark")
}

/// Imports a bundle; resumes its run with these flags.
fn resume(home: &Home, bundle: &str, flags: &[&str]) -> Done {
    home.file("bundle", bundle);
    home.iodyno(&["import", "bundle"]).succeeds();
    resumed(home, flags)
}

fn resumed(home: &Home, flags: &[&str]) -> Done {
    home.iodyno(&[&["run", "--resume", "last"], flags].concat())
}

#[test]
fn nothing_of_a_bundle_that_was_sealed_again_acts() {
    let home = Home::new();
    let mark = marked(&home);
    let lines = bundle();
    let attempts = attempts(mark.to_str().unwrap());
    assert!(attempts.len() > 50);
    for (number, (change, named)) in (1..).zip(&attempts) {
        let sealed = resealed(&lines, number, change);
        home.file("bundle", &sealed);
        home.iodyno(&["import", "bundle"]).succeeds();
        for flags in [
            &["--rounds", "3", "--destroy", "/dev/evil"][..],
            &["--dry-run"],
        ] {
            resumed(&home, flags)
                .exits(2)
                .stderr_has("was imported: all that it does on this host has to be allowed again")
                .stderr_has(named);
        }
        assert!(!mark.exists(), "{named}");
    }
}

#[test]
fn a_run_of_others_takes_what_acts_from_the_experiment_that_is_given_again() {
    let home = Home::new();
    let mark = marked(&home);
    let mine = format!("touch '{}'", mark.display());
    home.file("e.toml", &experiment(&mine));
    let lines = bundle();
    let plan = |setup: &str| -> Change {
        let folder = home.work().join(".");
        let setup = setup.to_owned();
        Box::new(move |plan| {
            let made = &mut plan["configurations"][0]["target"]["made"];
            made["setup"] = json!(setup);
            made["layers"][0]["path"] = json!(folder);
        })
    };
    let given = ["--experiment", "e.toml"];
    // The bundle has another command, one more command, or one more setting.
    for (number, setup, more) in [
        (1, "evil", ""),
        (2, mine.as_str(), "teardown"),
        (3, &mine, "ready"),
    ] {
        let change = plan(setup);
        let change = move |whole: &mut Value| {
            change(whole);
            if !more.is_empty() {
                whole["configurations"][0]["target"]["made"][more] = json!("evil");
            }
        };
        resume(&home, &resealed(&lines, number, &change), &given)
            .exits(2)
            .stderr_has("has another plan than the experiment")
            .stderr_has("evil");
        assert!(!mark.exists());
    }
    resume(&home, &resealed(&lines, 4, &plan(&mine)), &given).succeeds();
    assert!(mark.exists());
    std::fs::remove_file(&mark).unwrap();
    // That it was allowed once says nothing about the next time.
    resumed(&home, &["--rounds", "2"])
        .exits(2)
        .stderr_has("runs: disk.setup=touch");
    assert!(!mark.exists());
    home.file("job.fio", "[j]\nrw=read\n");
    resumed(&home, &["--rounds", "2", "--experiment", "job.fio"])
        .exits(2)
        .stderr_has("`job.fio` is not an experiment");
}

#[test]
fn each_act_and_each_path_of_a_run_of_others_can_be_named() {
    let home = Home::new();
    let mark = marked(&home);
    let folder = home.work();
    let touch = format!("touch '{}'", mark.display());
    let change = |plan: &mut Value| {
        let made = &mut plan["configurations"][0]["target"]["made"];
        made["setup"] = json!(touch);
        made["layers"][0]["path"] = json!(folder);
    };
    let sealed = resealed(&bundle(), 1, &change);
    let on = format!("disk={}", folder.display());
    let setup = format!("disk.setup={touch}");
    resume(&home, &sealed, &["--on", &on])
        .exits(2)
        .stderr_has("runs: disk.setup=");
    resumed(&home, &["--allow", &setup])
        .exits(2)
        .stderr_has("uses: ");
    resumed(&home, &["--on", &on, "--allow", "disk.setup=true"])
        .exits(2)
        .stderr_has("`--allow disk.setup=true` names nothing of run");
    assert!(!mark.exists());
    resumed(&home, &["--on", &on, "--allow", &setup]).succeeds();
    assert!(mark.exists());
}

#[test]
fn options_for_fio_that_are_not_plain_are_refused_even_if_they_are_allowed() {
    let home = Home::new();
    let mark = marked(&home);
    let lines = bundle();
    let folder = home.work().to_owned();
    if !crate::fio_nodes::has_fio() {
        return;
    }
    let touch = format!("touch {}", mark.display());
    let plain = json!({ "ioengine": "psync", "rw": "write", "bs": "4k", "size": "4k" });
    let with = |name: &str, value: &str| {
        let mut options = plain.clone();
        options[name] = json!(value);
        options
    };
    let evil = [
        with("exec_prerun", &touch),
        with("exec_postrun ", &touch),
        with(" exec_postrun", &touch),
        with("bs", &format!("4k\nexec_postrun={touch}")),
        with(&format!("x=1\nexec_postrun={touch}\ny"), "1"),
        with("include evil.fio", ""),
        with("ioengine", "exec"),
        with("read_iolog", "evil.log"),
        with("write_iolog", mark.to_str().unwrap()),
        with("write_lat_log", mark.to_str().unwrap()),
        with("opendir", "/etc"),
    ];
    home.file("evil.fio", &format!("exec_postrun={touch}\n"));
    for (number, options) in (1..).zip(evil.iter().chain([&plain])) {
        let good = *options == plain;
        let change = with_fio(options.clone());
        let target = json!({ "path": folder });
        let change = move |plan: &mut Value| {
            change(plan);
            plan["configurations"][0]["target"] = target.clone();
            plan["workloads"][0]["jobs"][0]["work"]["blocks"]["access"]["writes"] = json!(true);
        };
        let sealed = resealed(&lines, number, &change);
        let on = format!("disk={}", folder.display());
        let given = ["--on", &on, "--allow", "node.n=local?fio"];
        let refused = resume(&home, &sealed, &given).exits(2);
        refused.stderr_has("runs: job.sim.sim.fio=");
        let words: Vec<String> = (options.as_object().unwrap().iter())
            .map(|(name, value)| format!("{name}={}", value.as_str().unwrap()))
            .map(|word| match word.contains(char::is_whitespace) {
                true => format!("'{word}'"),
                false => word,
            })
            .collect();
        let text = format!("job.sim.sim.fio={}", words.join(" "));
        let done = resumed(&home, &[&given[..], &["--allow", &text]].concat());
        assert!(!mark.exists(), "{options}");
        match good {
            true => _ = done.succeeds(),
            false => assert!(
                done.code != 0 && done.stderr.contains("fio's job files")
                    || done.stderr.contains("node with fio"),
                "{}",
                done.stderr
            ),
        }
    }
}

#[test]
fn a_simulated_target_gives_no_path_to_a_job_with_an_engine_of_this_host() {
    let home = Home::new();
    let mark = marked(&home);
    let name = mark.clone();
    let change = written(Box::new(move |plan| {
        plan["configurations"][0]["target"] = json!({ "simulated": { "device": "hdd", "count": 1, "stripe": 4096, "queues": 1, "aggregation": 4096, "records": null } });
        plan["workloads"][0]["jobs"][0]["work"]["blocks"]["access"]["writes"] = json!(true);
        plan["workloads"][0]["jobs"][0]["work"]["blocks"]["files"]["names"] = json!([name]);
    }));
    resume(&home, &resealed(&bundle(), 1, &change), &[])
        .stderr_has("job `sim` is not simulated, and its target is")
        .stderr_has("hint: set `ioengine=sim`");
    assert!(!mark.exists());
}

#[test]
fn threads_in_virtual_time_have_no_cpus_and_priorities() {
    let home = Home::new();
    let folder = home.work();
    let change = |plan: &mut Value| {
        plan["configurations"][0]["target"] = json!({ "as_written": { "folder": folder } });
        let placement = &mut plan["workloads"][0]["jobs"][0]["placement"];
        // No host has this CPU, and no priority has this class: a note would say so.
        placement["cpus"] = json!([100_000]);
        placement["io_priority"] = json!([7, 7]);
    };
    resume(&home, &resealed(&bundle(), 1, &change), &[]).succeeds();
    let exported = home.iodyno(&["export", "last"]).succeeds().stdout;
    assert!(exported.contains("\"cpus\":[100000]"), "{exported}");
    assert!(
        !exported.contains("not pinned") && !exported.contains("I/O priority not set"),
        "{exported}"
    );
}

#[test]
fn a_plan_in_virtual_time_looks_at_none_of_its_paths() {
    let home = Home::new();
    let traced = |arguments: &[&str], record: &Path| {
        let mut strace = home.program(Path::new("strace"));
        strace.args(["-f", "-qq", "-e", "trace=%file", "-o"]);
        strace.arg(record).arg(env!("CARGO_BIN_EXE_iodyno"));
        strace.args(arguments).output()
    };
    let record = home.work().join("record");
    if !traced(&["--version"], &record).is_ok_and(|done| done.status.success()) {
        return skip("strace is not installed, or may not trace processes");
    }
    for (number, target) in (1..).zip([
        json!({ "path": "/evil/automounted" }),
        json!({ "as_written": { "folder": "/evil/folder" } }),
    ]) {
        let change = |plan: &mut Value| {
            plan["configurations"][0]["target"] = target.clone();
            let files = &mut plan["workloads"][0]["jobs"][0]["work"]["blocks"]["files"];
            files["names"] = json!(["/evil/file", "evil"]);
            files["directories"] = json!(["/evil/directory"]);
        };
        home.file("bundle", &resealed(&bundle(), number, &change));
        home.iodyno(&["import", "bundle"]).succeeds();
        let done = traced(&["run", "--resume", "last"], &record).unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{target}: {told}");
        let calls = std::fs::read_to_string(&record).unwrap();
        assert!(
            calls.contains("iodyno.db") && !calls.contains("evil"),
            "{target}"
        );
    }
}

fn simulated_target(count: u32, stripe: u64, queues: u32, record: u64) -> Value {
    let records = json!({ "length": record, "prefetch": 0 });
    json!({ "simulated": { "device": "hdd", "count": count, "stripe": stripe, "queues": queues, "aggregation": 4096,
        "records": records } })
}

fn trimming(percent: u32, backlog: u32, batch: u32) -> Value {
    let trim =
        json!({ "percent": percent, "backlog": backlog, "batch": batch, "check_zero": true });
    json!({ "checksum": "crc32c", "interval": 0, "do_verify": true, "only": false, "backlog": 0, "backlog_batch": 0,
        "fatal": false, "dump": false, "trim": trim })
}

fn sprandom(regions: u32) -> Value {
    json!({ "over_provisioning": 0.1, "regions": regions, "cache": 0 })
}

/// A change of a simulated job with a large region and this number of clones.
fn mapped(pointers: &'static [&'static str], value: Value, clones: u32) -> Change {
    Box::new(move |plan| {
        let job = &mut plan["workloads"][0]["jobs"][0];
        job["clones"] = json!(clones);
        let blocks = &mut job["work"]["blocks"];
        let large = if clones == 1 { 1_u64 << 60 } else { 1 << 40 };
        blocks["extent"]["size"] = json!({ "bytes": large });
        for pointer in pointers {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            blocks.pointer_mut(parent).unwrap()[key] = value.clone();
        }
    })
}

#[test]
fn extreme_numbers_of_a_plan_break_no_worker() {
    let home = Home::new();
    let lines = bundle();
    let blocks = "/workloads/0/jobs/0/work/blocks";
    let zipf = json!({ "read": { "zipf": 1.2 }, "write": "uniform", "trim": "uniform" });
    let range = json!({ "range": { "min": 8192, "max": 512, "unaligned": true } });
    let law = json!({ "log_normal": { "median_ns": 1_u64 << 61, "sigma": 1e300 } });
    let faults = json!([{ "errno": { "every": 0, "errno": -5 } }, { "short": { "every": 0 } }]);
    let zones = json!([[1e300, { "bytes": 1_u64 << 61 }], [-5.0, { "percent": -1.0 }]]);
    let writes = json!({ "checksum": "crc32c", "interval": 0, "do_verify": true, "only": false, "backlog": 1_u64 << 61,
        "backlog_batch": 0, "fatal": false, "dump": false, "save_state": false });
    let variants: Vec<Vec<(String, Value)>> = vec![
        vec![(
            "/workloads/0/jobs/0/pacing/rates/read/iops".to_owned(),
            json!(-5.0),
        )],
        vec![(
            "/workloads/0/jobs/0/pacing/ops_per_s".to_owned(),
            json!(1e-300),
        )],
        vec![(format!("{blocks}/engine/depth_low"), json!(u32::MAX))],
        vec![(
            format!("{blocks}/engine/batch_complete_min"),
            json!(u32::MAX),
        )],
        vec![
            (format!("{blocks}/access/center"), json!(1e308)),
            (format!("{blocks}/access/distribution"), zipf),
        ],
        vec![(
            format!("{blocks}/access/distribution/read"),
            json!({ "zoned": zones }),
        )],
        vec![(format!("{blocks}/access/block_sizes/read"), range)],
        vec![(
            format!("{blocks}/access/block_sizes/read"),
            json!({ "split": [] }),
        )],
        vec![(format!("{blocks}/engine/sim/law"), law)],
        vec![(format!("{blocks}/engine/sim/faults"), faults)],
        vec![(
            format!("{blocks}/extent/size"),
            json!({ "bytes": 1_u64 << 60 }),
        )],
        vec![
            (format!("{blocks}/extent/zone_size"), json!(1)),
            (format!("{blocks}/extent/zone_skip"), json!(1_u64 << 61)),
        ],
        vec![(
            format!("{blocks}/access/percent_random/read"),
            json!(u32::MAX),
        )],
        vec![
            (format!("{blocks}/files/service_ops"), json!(0)),
            (format!("{blocks}/files/count"), json!(3)),
        ],
        vec![
            (format!("{blocks}/verify"), writes),
            (format!("{blocks}/access/writes"), json!(true)),
        ],
    ];
    for (number, variant) in (1..).zip(&variants) {
        let change = |plan: &mut Value| {
            plan["configurations"][0]["target"] = json!({ "as_written": { "folder": "/" } });
            for (pointer, value) in variant {
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                plan.pointer_mut(parent).unwrap()[key] = value.clone();
            }
        };
        let done = resume(&home, &resealed(&lines, number, &change), &[]);
        assert!(
            done.code >= 0 && done.code < 100 && !done.stderr.contains("panicked"),
            "{variant:?}: {}",
            done.stderr
        );
    }
}

/// Axes with a value each.
fn axes(number: u32) -> Value {
    let all = (0..number).map(|axis| (format!("axis{axis}"), json!("x")));
    Value::Object(all.collect())
}

#[test]
fn a_plan_of_others_is_measured_before_work_is_done_on_it() {
    let home = Home::new();
    let lines = bundle();
    let twice = |key: &'static str, count: usize| -> Change {
        Box::new(move |plan| {
            let one = plan[key][0].clone();
            plan[key] = vec![one; count].into();
        })
    };
    let huge: Vec<(Change, &str)> = vec![
        (at("/rounds", json!(u32::MAX)), "4294967295 rounds"),
        (at("/rounds", json!(0)), "0 rounds, at least 1"),
        (
            at("/workloads/0/dimensions", axes(257)),
            "257 dimensions, at most 256",
        ),
        (
            at("/workloads/0/rounds", json!(u32::MAX)),
            "4294967295 rounds",
        ),
        (
            at("/workloads/0/jobs/0/clones", json!(u32::MAX)),
            "clones of a workload",
        ),
        (
            at(
                "/workloads/0/jobs/0/work/blocks/engine/depth",
                json!(u32::MAX),
            ),
            "ops in flight of a workload",
        ),
        (
            at(
                "/workloads/0/jobs/0/work/blocks/files/count",
                json!(u32::MAX),
            ),
            "files of a workload",
        ),
        // Each number alone is small enough.
        (
            Box::new(|plan| {
                let job = &mut plan["workloads"][0]["jobs"][0];
                job["clones"] = json!(1000);
                job["work"]["blocks"]["engine"]["depth"] = json!(1 << 20);
            }),
            "1048576000 ops in flight of a workload",
        ),
        (
            Box::new(|plan| {
                let jobs = plan["workloads"][0]["jobs"].as_array_mut().unwrap();
                jobs[0]["work"]["blocks"]["engine"]["depth"] = json!(1 << 19);
                let one = jobs[0].clone();
                jobs.extend([one.clone(), one]);
            }),
            "1572864 ops in flight of a workload",
        ),
        (
            Box::new(|plan| {
                let blocks = &mut plan["workloads"][0]["jobs"][0]["work"]["blocks"];
                blocks["engine"]["depth"] = json!(1 << 20);
                let sizes = serde_json::to_string(&blocks["access"]["block_sizes"]).unwrap();
                let sizes = sizes.replace("4096", "1048576");
                blocks["access"]["block_sizes"] = serde_json::from_str(&sizes).unwrap();
            }),
            "1099511627776 bytes of buffers of a workload",
        ),
        (
            Box::new(|plan| {
                let job = &mut plan["workloads"][0]["jobs"][0];
                job["clones"] = json!(1000);
                job["work"]["blocks"]["files"]["count"] = json!(1 << 20);
            }),
            "1048576000 files of a workload",
        ),
        // A search raises the depth.
        (
            Box::new(|plan| {
                let until = json!({ "metric": "iops", "below": false, "limit": 0.0 });
                plan["workloads"][0]["search"] = json!({ "axis": "depth", "until": until });
                plan["workloads"][0]["jobs"][0]["clones"] = json!(65_536);
            }),
            "67108864 ops in flight of a workload",
        ),
        (
            at("/workloads/0/jobs/0/clones", json!(6000)),
            "6000 clones of a workload in virtual time",
        ),
        (
            at(
                "/workloads/0/jobs/0/reporting/percentiles",
                json!(vec![50.0; 1001]),
            ),
            "1001 percentiles of a job",
        ),
        (at("/schema", json!(99)), "the plan has schema 99"),
        (at("/sampling/every_ns", json!(1)), "samples per second"),
        (
            at("/retry", json!(u32::MAX)),
            "4294967295 attempts of a trial",
        ),
        // Numbers that iodyno never writes.
        (
            at("/workloads/0/jobs/0/work/blocks/engine/depth", json!(0)),
            "0 ops in flight of a job, at least 1",
        ),
        (
            at("/workloads/0/jobs/0/work/blocks/passes/loops", json!(0)),
            "0 passes of a job, at least 1",
        ),
        (
            at("/workloads/0/jobs", json!([])),
            "0 jobs of a workload, at least 1",
        ),
        (
            at("/configurations/0/target", simulated_target(3, 0, 1, 1)),
            "0 bytes in a stripe, at least 512",
        ),
        (
            at("/configurations/0/target", simulated_target(0, 4096, 1, 1)),
            "0 devices of a target, at least 1",
        ),
        (
            at("/configurations/0/target", simulated_target(1, 4096, 0, 1)),
            "0 queues of a target, at least 1",
        ),
        (
            at("/configurations/0/target", simulated_target(1, 4096, 1, 0)),
            "0 bytes in a record, at least 512",
        ),
        (
            at("/workloads/0/jobs/0/work/blocks/verify", trimming(30, 0, 1)),
            "0 blocks between trims, at least 1",
        ),
        (
            at("/workloads/0/jobs/0/work/blocks/verify", trimming(30, 1, 0)),
            "0 blocks in a batch of trims, at least 1",
        ),
        (
            at(
                "/workloads/0/jobs/0/work/blocks/verify",
                trimming(u32::MAX, 1, 1),
            ),
            "4294967295 percent of trimmed blocks, at most 100",
        ),
        (
            at(
                "/workloads/0/jobs/0/work/blocks/extent/zone_skip",
                json!(u64::MAX),
            ),
            "the number 18446744073709551615",
        ),
        (
            at(
                "/workloads/0/jobs/0/work/blocks/access/sequence",
                json!({ "skip": i64::MIN }),
            ),
            "the number 9223372036854775808",
        ),
        (
            at("/workloads/0/jobs/0/end/runtime", json!(u64::MAX)),
            "the number 18446744073709551615",
        ),
        // The memory of simulated jobs and devices.
        (
            mapped(&["/access/precondition"], sprandom(1 << 28), 1),
            "bytes of maps of a workload",
        ),
        (
            mapped(&["/access/precondition"], sprandom(1), 1),
            "bytes of maps of a workload",
        ),
        (
            mapped(&["/access/precondition"], sprandom(1 << 20), 1000),
            "bytes of maps of a workload",
        ),
        (
            mapped(
                &["/extent/write_zones"],
                json!({ "size": 4096, "capacity": 4096, "max_open": 0, "read_beyond": false }),
                1,
            ),
            "bytes of maps of a workload",
        ),
        (
            mapped(
                &["/access/block_sizes/read"],
                json!({ "range": { "min": 512, "max": 4096, "unaligned": false } }),
                16,
            ),
            "bytes of maps of a workload",
        ),
        (
            mapped(&["/verify"], trimming(30, 1, 1), 1),
            "bytes of maps of a workload",
        ),
        (
            mapped(
                &["/access/distribution/read"],
                json!({ "sequence": { "blocks": vec![1; 2000], "stride": false } }),
                65_536,
            ),
            "bytes of maps of a workload",
        ),
        (
            at(
                "/workloads/0/jobs/0/work/blocks/engine/sim/device",
                json!(format!("mirror:adaptive:hdd{}", "+hdd".repeat(16))),
            ),
            "17 disks of a simulated mirror, at most 16",
        ),
        (
            at(
                "/configurations/0/target",
                simulated_target(65, 4096, 1, 4096),
            ),
            "65 devices of a target, at most 64",
        ),
        (
            at(
                "/configurations/0/target",
                simulated_target(1, 4096, 65, 4096),
            ),
            "65 queues of a target, at most 64",
        ),
        (
            at("/configurations/0/target", simulated_target(2, 1, 1, 4096)),
            "1 bytes in a stripe, at least 512",
        ),
        (
            Box::new(move |plan| {
                twice("configurations", 1500)(plan);
                twice("workloads", 1500)(plan);
            }),
            "2250000 pairs",
        ),
    ];
    for (number, (change, named)) in (1..).zip(&huge) {
        home.file("bundle", &resealed(&lines, number, change));
        home.iodyno(&["import", "bundle"])
            .exits(2)
            .stderr_has(named);
    }
    // Nor is that of a store.
    home.file("bundle", &resealed(&lines, 90, &|_| {}));
    home.iodyno(&["import", "bundle"]).succeeds();
    let database = rusqlite::Connection::open(home.store()).unwrap();
    let grown = "UPDATE runs SET rounds = 4294967295;";
    database.execute_batch(grown).unwrap();
    drop(database);
    resumed(&home, &["--dry-run"])
        .exits(2)
        .stderr_has("4294967295 rounds");
}

#[test]
fn results_of_others_whose_numbers_cannot_be_added_up_are_refused() {
    let home = Home::new();
    let lines = bundle();
    let place = |kind| lines.iter().position(|line| line.get(kind).is_some());
    let (run, trial, frame) = (1, place("trial").unwrap(), place("frame").unwrap());
    let changed = |line: usize, pointer: &str, value: Value| {
        let mut lines = lines[..lines.len() - 1].to_vec();
        *lines[line].pointer_mut(pointer).unwrap() = value;
        home.file("bundle", &sealed(&lines));
        home.iodyno(&["import", "bundle"])
    };
    let level = "/trial/parts/0/clones/0/depth/level";
    let large = 1_u64 << 61;
    for (line, pointer, value, named) in [
        (
            run,
            "/run/ended_unix_ms",
            json!(i64::MAX),
            "is after the year 9999",
        ),
        (
            run,
            "/run/started_unix_ms",
            json!(large),
            "is after the year 9999",
        ),
        (
            trial,
            "/trial/started_unix_ms",
            json!(large),
            "is after the year 9999",
        ),
        (trial, level, json!(vec![large; 7]), "add up to more than"),
        (
            trial,
            "/trial/parts/0/clones/0/cpu/user_ns",
            json!(u64::MAX),
            "the number 18446744073709551615",
        ),
        (
            frame,
            "/frame/end_ns",
            json!(u64::MAX),
            "the number 18446744073709551615",
        ),
        (
            frame,
            "/frame/jobs/0/directions/0/bytes",
            json!(large),
            "add up to more than",
        ),
    ] {
        changed(line, pointer, value).exits(2).stderr_has(named);
    }
    // The remaining ones can be shown.
    changed(trial, level, json!(vec![large >> 3; 7])).succeeds();
    for view in [
        &["show", "last", "--format", "fio-json+"][..],
        &["show", "last"],
        &["report", "last", "--format", "markdown"],
        &["compare", "last"],
    ] {
        let done = home.iodyno(view);
        assert!(
            !done.stderr.contains("panicked"),
            "{view:?}: {}",
            done.stderr
        );
    }
}

#[test]
fn a_store_that_changes_the_plan_of_a_run_does_not_change_what_was_begun() {
    let home = Home::new();
    let mark = marked(&home);
    let touch = format!("touch {}", mark.display());
    let theirs = resealed(&bundle(), 1, &*provision("setup", json!(touch)));
    home.file("bundle", &theirs);
    home.iodyno(&["import", "bundle"]).succeeds();
    let database = rusqlite::Connection::open(home.store()).unwrap();
    let trap = "CREATE TRIGGER trap AFTER INSERT ON runs BEGIN
                UPDATE runs SET plan = (SELECT plan FROM runs WHERE alias = 1) WHERE alias = NEW.alias; END;";
    database.execute_batch(trap).unwrap();
    drop(database);
    home.file("e.toml", &experiment("true"));
    home.iodyno(&["run", "e.toml"]).succeeds();
    resumed(&home, &["--rounds", "2"])
        .exits(2)
        .stderr_has("runs: disk.setup=touch");
    assert!(!mark.exists());
}

/// The records of the runs that the user began.
fn records(home: &Home) -> PathBuf {
    home.work()
        .parent()
        .unwrap()
        .join(".local/state/iodyno/runs")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
}

#[test]
fn a_store_of_others_says_nothing_about_who_began_its_runs() {
    let (theirs, ours) = (Home::new(), Home::new());
    let mark = marked(&ours);
    theirs.file("e.toml", &experiment("true"));
    theirs.iodyno(&["run", "e.toml"]).succeeds();
    let other = ours.work().join("other.db");
    copy(&theirs.store(), &other);
    let resume = [
        "--store", "other.db", "run", "--resume", "last", "--rounds", "2",
    ];
    ours.iodyno(&resume)
        .exits(2)
        .stderr_has("was not begun by this user on this host")
        .stderr_has("runs: disk.setup=true");
    // Nor does the owner of a run that this user began under the same identity, with another plan.
    ours.file("e.toml", &experiment("true"));
    ours.iodyno(&["run", "e.toml"]).succeeds();
    let touch = format!("touch '{}'", mark.display());
    let exported = ours.iodyno(&["export", "last"]).succeeds().stdout;
    let lines: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let sealed = resealed(&lines, 0, &*provision("setup", json!(touch)));
    ours.file("bundle", &sealed);
    ours.iodyno(&["import", "bundle"])
        .exits(2)
        .stderr_has("the same identity and another plan");
    std::fs::remove_file(&other).unwrap();
    ours.iodyno(&["--store", "other.db", "import", "bundle"])
        .succeeds();
    let database = rusqlite::Connection::open(&other).unwrap();
    let claimed = "INSERT INTO owners (process) VALUES (1); UPDATE runs SET owner = 1;";
    database.execute_batch(claimed).unwrap();
    drop(database);
    ours.iodyno(&resume)
        .exits(2)
        .stderr_has("was not begun by this user on this host")
        .stderr_has("runs: disk.setup=touch");
    assert!(!mark.exists());
    // The run of this user continues.
    ours.iodyno(&["run", "--resume", "last", "--rounds", "2"])
        .succeeds();
}

#[test]
fn a_record_that_others_could_have_written_or_that_is_gone_is_none() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = Home::new();
    home.file("e.toml", &experiment("true"));
    home.iodyno(&["run", "e.toml"]).succeeds();
    let record = std::fs::read_dir(records(&home))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let resume = |code: i32, rounds: &str| {
        home.iodyno(&["run", "--resume", "last", "--rounds", rounds])
            .exits(code);
    };
    resume(0, "2");
    let mode = |mode| std::fs::set_permissions(&record, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o666);
    resume(2, "3");
    mode(0o600);
    let digest = std::fs::read(&record).unwrap();
    let moved = record.with_extension("moved");
    std::fs::rename(&record, &moved).unwrap();
    resume(2, "3");
    symlink(&moved, &record).unwrap();
    resume(2, "3");
    std::fs::remove_file(&record).unwrap();
    std::fs::write(&record, &digest[..digest.len() - 1]).unwrap();
    mode(0o600);
    resume(2, "3");
    std::fs::write(&record, &digest).unwrap();
    resume(0, "3");
    home.iodyno(&["delete", "last"]).succeeds();
    assert!(!record.exists());
}

#[test]
fn secrets_are_not_stored_and_such_a_run_needs_its_experiment_again() {
    let home = Home::new();
    let mark = marked(&home);
    let command = format!("echo password=hunter2 > '{}'", mark.display());
    let text = experiment(&command) + "\n";
    let text = text.replace("\n[workload", "env.API_TOKEN = \"s3cr3t\"\n\n[workload");
    home.file("e.toml", &text);
    home.iodyno(&["run", "e.toml", "--name", "https://me:hunter2@host/"])
        .succeeds();
    assert_eq!(
        std::fs::read_to_string(&mark).unwrap(),
        "password=hunter2\n"
    );
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().stdout;
    let exported = home
        .iodyno(&["export", "last", "--names"])
        .succeeds()
        .stdout;
    for text in [&shown, &exported] {
        assert!(
            !text.contains("hunter2") && !text.contains("s3cr3t"),
            "{text}"
        );
    }
    assert!(exported.contains("password=*****"));
    let resume = ["run", "--resume", "last", "--rounds", "2"];
    std::fs::remove_file(&mark).unwrap();
    home.iodyno(&resume)
        .exits(2)
        .stderr_has("has secrets that are not stored")
        .stderr_has("password=*****");
    assert!(!mark.exists());
    home.iodyno(&[&resume[..], &["--experiment", "e.toml"]].concat())
        .succeeds();
    assert_eq!(
        std::fs::read_to_string(&mark).unwrap(),
        "password=hunter2\n"
    );
}

#[test]
fn secrets_of_parameters_are_masked_in_texts_without_their_name() {
    let home = Home::new();
    let mark = marked(&home);
    let command = format!(
        "echo ${{password}} > '{}'; echo ${{login}} >&2",
        mark.display()
    );
    let params = "\n[params]\npassword = \"unused\"\nlogin = \"ada:${password}\"\n";
    home.file("e.toml", &(experiment(&command) + params));
    let set = ["--set", "password=Zq7Xw98d"];
    home.iodyno(&[&["run", "e.toml"][..], &set].concat())
        .succeeds();
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "Zq7Xw98d\n");
    let bundle = home.iodyno(&["export", "last", "--names"]).succeeds();
    assert!(!bundle.stdout.contains("Zq7Xw98d"), "{}", bundle.stdout);
    assert!(bundle.stdout.contains("echo ada:***** >&2"));
    let resume = ["run", "--resume", "last", "--rounds", "2"];
    home.iodyno(&resume)
        .exits(2)
        .stderr_has("has secrets that are not stored");
    let given = ["--experiment", "e.toml"];
    home.iodyno(&[&resume[..], &given, &set].concat())
        .succeeds();
}

#[test]
fn secrets_of_fio_s_options_are_masked_in_own_and_imported_results() {
    let home = Home::new();
    let names = [
        "http_pass",
        "http_s3_key",
        "http_s3_sse_customer_key",
        "http_swift_auth_token",
        "http_s3_security_token",
        "password",
    ];
    let job = [
        "--name=j",
        "--ioengine=sim",
        "--rw=read",
        "--size=1m",
        "--output-format=json",
    ];
    let done = home.iodyno(&[&["fio"][..], &job].concat()).succeeds();
    let mut result = done.json();
    let options = &mut result["jobs"][0]["job options"];
    options["http_user"] = json!("ada");
    for name in names {
        options[name] = json!("Zq7Xw98p");
    }
    home.file("theirs.json", &result.to_string());
    home.iodyno(&["import", "theirs.json"]).succeeds();
    let bundle = home.iodyno(&["export", "last", "--names"]).succeeds();
    assert!(bundle.stdout.contains("http_user") && bundle.stdout.contains("http_s3_key"));
    assert!(!bundle.stdout.contains("Zq7Xw98p"), "{}", bundle.stdout);
    let text = "[j]\nioengine=sim\nrw=read\nsize=1m\nhttp_s3_key=Zq7Xw98j\nhttp_pass=Zq7Xw98j\n";
    home.file("own.fio", text);
    home.iodyno(&["fio", "own.fio"]).succeeds();
    let bundle = home.iodyno(&["export", "last", "--names"]).succeeds();
    assert!(bundle.stdout.contains("http_s3_key=*****"));
    assert!(!bundle.stdout.contains("Zq7Xw98j"), "{}", bundle.stdout);
}

#[test]
fn an_exported_run_names_hosts_and_the_command_line_only_if_asked() {
    let home = Home::new();
    home.file("e.toml", &experiment("true"));
    home.iodyno(&["run", "e.toml", "--seed", "424242"])
        .succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = format!("\"host\":\"{}\"", host.trim());
    let bundle = |flags: &[&str]| {
        home.iodyno(&[&["export", "last"], flags].concat())
            .succeeds()
            .stdout
    };
    let (without, with) = (bundle(&[]), bundle(&["--names"]));
    assert!(with.contains("--seed") && with.contains(&host), "{with}");
    assert!(
        !without.contains("--seed") && !without.contains(&host),
        "{without}"
    );
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for name in [host.trim(), boot.trim()] {
        assert!(with.contains(&format!("\"{name}\"")), "{name}");
        assert!(!without.contains(&format!("\"{name}\"")), "{name}");
    }
    // Both are the same run.
    for text in [&without, &with] {
        home.file("bundle", text);
        home.iodyno(&["import", "bundle"]).succeeds();
    }
    assert_eq!(
        home.iodyno(&["show", "last", "--json"]).succeeds().json(),
        shown
    );
}

#[test]
fn an_exported_run_has_no_known_names_in_free_text() {
    let home = Home::new();
    let described = "fio = { description = \"of xada, and bob\",";
    let text = experiment("echo xada@elsewhere >&2").replace("fio = {", described);
    let text = text.replace("configuration.disk", "configuration.xada");
    home.file("e.toml", &text.replace("theirs", "xada's"));
    let as_ada = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("USER", "xada");
        command.output().unwrap()
    };
    let run = as_ada(&["run", "e.toml"]);
    assert!(run.status.success(), "{run:?}");
    let before = std::fs::read_dir(home.work()).unwrap().count();
    let exported = |flags: &[&str]| {
        let done = as_ada(&[&["export", "last"], flags].concat());
        String::from_utf8(done.stdout).unwrap()
    };
    let (without, with) = (exported(&[]), exported(&["--names"]));
    assert!(
        with.contains("xada's") && with.contains("echo xada@"),
        "{with}"
    );
    assert!(!without.contains("xada"), "{without}");
    // Nor have tables, whose series stay.
    for (folder, flags, named) in [("pq", &[][..], false), ("named", &["--names"], true)] {
        let to = ["--format", "parquet", "-o", folder];
        exported(&[&to[..], flags].concat());
        let files = std::fs::read_dir(home.work().join(folder)).unwrap();
        let files = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
        let tables: Vec<Vec<u8>> = files.collect();
        assert_eq!(tables.len(), 3);
        let has = |table: &Vec<u8>| table.windows(4).any(|four| four == b"xada");
        assert_eq!(tables.iter().any(has), named, "{folder}");
        assert_eq!(
            std::fs::read_dir(home.work()).unwrap().count(),
            before + usize::from(named) + 1
        );
    }
    // Names that this host does not know stay.
    assert!(without.contains(", and bob"), "{without}");
    for text in [&without, &with] {
        home.file("bundle", text);
        home.iodyno(&["import", "bundle"])
            .succeeds()
            .stderr_has("nothing changed");
    }
}

#[test]
fn an_exported_command_line_of_fio_leaves_only_if_asked() {
    let home = Home::new();
    let arguments = [
        "fio",
        "--name=mine",
        "--ioengine=sim",
        "--rw=read",
        "--size=1m",
        "--description=/home/ada/x",
    ];
    home.iodyno(&arguments).succeeds();
    let bundle = |flags: &[&str]| {
        home.iodyno(&[&["export", "last"], flags].concat())
            .succeeds()
            .stdout
    };
    let (without, with) = (bundle(&[]), bundle(&["--names"]));
    assert!(
        with.contains("--ioengine=sim") && with.contains("/home/ada/x"),
        "{with}"
    );
    assert!(
        !without.contains("--ioengine=sim") && !without.contains("ada"),
        "{without}"
    );
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    home.file("bundle", &without);
    home.iodyno(&["import", "bundle"]).succeeds();
    assert_eq!(
        home.iodyno(&["show", "last", "--json"]).succeeds().json(),
        shown
    );
    // Elsewhere, it is the same whichever of both comes first.
    let other = Home::new();
    for text in [&without, &with, &without] {
        other.file("bundle", text);
        other.iodyno(&["import", "bundle"]).succeeds();
    }
}
