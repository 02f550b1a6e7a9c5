//! Storage left by a killed run.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{
    Done, Home, Running, alive, children, contains, iodyno, root, skip, stop, wait_for,
};

#[test]
fn clean_undoes_what_a_killed_run_made_and_a_dry_run_only_lists_it() {
    if !root() {
        return skip("the journal of root is in /var/lib");
    }
    let home = Home::new();
    let folder = home.work().join("iodyno-t");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("disk0.img"), "data").unwrap();
    let header = r#"{"schema":1,"token":"t","configuration":"ext4","boot":"an earlier one","owner":{"pid":1,"start":1},"provision":{"layers":[]}}"#;
    let intent = format!(
        r#"{{"intent":{{"step":0,"action":{{"do":"folder","path":"{}"}}}}}}"#,
        folder.display()
    );
    let torn = r#"{"intent":{"step":1,"#;
    let journal = home.file("t.jsonl", &format!("{header}\n{intent}\n{torn}"));
    let script = format!(
        "cp '{0}' /var/lib/iodyno/journal && \"$1\" clean --dry-run && test -f '{1}/disk0.img' && \
         cmp '{0}' /var/lib/iodyno/journal/t.jsonl && \"$1\" clean && \"$1\" clean --node x=local",
        journal.display(),
        folder.display()
    );
    let done = in_own_namespace(&home, &script).done();
    if done.code == 9 || done.stderr.contains("unshare") {
        return skip(&done.stderr);
    }
    let done = done.succeeds();
    let headline = "storage `t` of configuration `ext4`: the host was restarted\n";
    let what = format!("folder {}\n", folder.display());
    assert_eq!(
        done.stdout,
        format!("{headline}  would undo: {what}{headline}  undone: {what}x: nothing to undo\n")
    );
    assert!(!folder.exists());
}

/// Runs a shell script with the program as `$1`, in a mount namespace with separate journals and sockets; it exits with
/// 9 if something is missing.
fn in_own_namespace(home: &Home, script: &str) -> Running {
    let script = format!(
        "for folder in /var/lib/iodyno /run/iodyno; do mkdir -p $folder && mount -t tmpfs none $folder || exit 9; done\n\
         mkdir /var/lib/iodyno/journal\n{script}"
    );
    let mut command = home.program(Path::new("unshare"));
    let program = iodyno();
    command.args(["--mount", "sh", "-c", &script, "sh", program]);
    Running::of(command)
}

#[test]
fn clean_follows_no_link_among_its_journals_and_a_dry_run_writes_nothing() {
    if !root() {
        return skip("the journal of root is in /var/lib");
    }
    let home = Home::new();
    // As a journal, its last line would be incomplete, or it would be empty.
    let precious = [("one", "{}\nprecious"), ("two", "precious"), ("three", "")];
    for (name, text) in precious {
        home.file(name, text);
    }
    let script = "cd /var/lib/iodyno/journal && printf torn > torn.jsonl && mkfifo fifo.jsonl\n\
                  for name in one two three; do ln -s \"$OLDPWD/$name\" $name.jsonl; done\n\
                  \"$1\" clean --dry-run; echo \"exit $?\"; test -f torn.jsonl && cat torn.jsonl\n\
                  \"$1\" clean; echo \" exit $?\"; ls";
    let done = in_own_namespace(&home, script).done();
    if done.code == 9 || done.stderr.contains("unshare") {
        return skip(&done.stderr);
    }
    let left = "fifo.jsonl\none.jsonl\nthree.jsonl\ntwo.jsonl\n";
    assert_eq!(done.stdout, format!("exit 1\ntorn exit 1\n{left}"));
    assert_eq!(
        done.stderr.matches("4 errors").count(),
        2,
        "{}",
        done.stderr
    );
    done.stderr_has("is not a regular file");
    for (name, text) in precious {
        let now = fs::read_to_string(home.work().join(name)).unwrap();
        assert_eq!(now, text);
    }
}

/// Kills a process and all its children; stopped first, so that they cannot undo anything.
fn kill_with_children(process: Pid) {
    stop(process);
    children(process).into_iter().for_each(kill_with_children);
    kill_process(process, Signal::KILL).unwrap();
}

/// Runs a script [in its own namespace](in_own_namespace) that starts a run of `x.toml` on storage in `base` and waits
/// for the file
/// `killed`, which is made once the run's processes were killed. `None`: something is missing here.
fn after_kill(home: &Home, script: &str) -> Option<Done> {
    home.file(
        "x.toml",
        "rounds = 1\nsettle = false\n[configuration.c]\ntarget = 'ext4 on loop on file on base'\nfile.size = '64MiB'\n\
         [workload.w]\nfio = { rw = 'randread', bs = '4k', size = '4m', time_based = 1, runtime = '1h' }\n",
    );
    let run = in_own_namespace(home, script);
    let begun = || home.stored_ops("running").is_some_and(|ops| ops > 0) || !alive(run.pid());
    wait_for("ops in the store", || begun().then_some(()));
    let program = children(run.pid()).into_iter().find(|child| {
        let line = fs::read(format!("/proc/{}/cmdline", child.as_raw_nonzero()));
        line.is_ok_and(|line| line.starts_with(iodyno().as_bytes()))
    });
    if let Some(program) = program {
        kill_with_children(program);
    }
    home.file("killed", "");
    let done = run.done();
    if done.code == 9 || done.stderr.contains("unshare") {
        skip(&done.stderr);
        return None;
    }
    Some(done)
}

#[test]
fn clean_undoes_mounts_and_loop_devices_of_a_killed_run_and_keeps_its_journal_until_all_is_undone()
{
    if !root() {
        return skip("only root mounts file systems");
    }
    let home = Home::new();
    // The loop device of the base is detached when it is unmounted.
    let script = "attach() { l=$(losetup --find --show base.img) && mount $l base && losetup --detach $l; }\n\
                  mkdir base && truncate -s 200M base.img && mkfs.ext4 -q -F base.img && attach || exit 9\n\
                  state() { cksum /var/lib/iodyno/journal/*; losetup --noheadings --output BACK-FILE | grep -F \"$PWD\"; \
                  cat /proc/self/mounts; }\n\
                  \"$1\" run x.toml >run.log 2>&1 & until test -e killed; do sleep 0.1; done\n\
                  state >before; echo list; \"$1\" clean --dry-run; echo \"exit $?\"; state | cmp before - && echo same\n\
                  umount --lazy base; echo away; \"$1\" clean; echo \"exit $?\"; ls /var/lib/iodyno/journal | wc -l\n\
                  until test -z \"$(losetup -j base.img)\"; do sleep 0.1; done\n\
                  attach; echo back; \"$1\" clean --dry-run; \"$1\" clean; echo \"exit $?\"\n\
                  ls base /var/lib/iodyno/journal; umount base; \"$1\" clean";
    let Some(done) = after_kill(&home, script) else {
        return;
    };
    let done = done.succeeds();
    let (list, rest) = done.stdout.split_once("away\n").unwrap();
    let (away, back) = rest.split_once("back\n").unwrap();
    for (part, verb, rest) in [
        (
            list,
            "would undo: ",
            &["mount of ext4 at", "loop device on", "image file", "folder"][..],
        ),
        (away, "undone: ", &["mount of ext4 at", "loop device on"]),
        (back, "would undo: ", &["folder"]),
        (back, "undone: ", &["folder"]),
    ] {
        for what in rest {
            assert!(
                part.contains(&format!("{verb}{what}")),
                "{verb}{what}: {part}"
            );
        }
    }
    assert!(list.ends_with("exit 0\nsame\n"), "{list}");
    assert!(away.ends_with("exit 1\n1\n"), "{away}");
    let fault = "its file system is not mounted";
    assert!(contains(&done.stderr, fault), "{}", done.stderr);
    let end = "exit 0\n/var/lib/iodyno/journal:\n\nbase:\nlost+found\nnothing to undo\n";
    assert!(back.ends_with(end), "{back}");
    assert_eq!(done.stdout.matches("nothing to undo").count(), 1);
}

#[test]
fn clean_keeps_and_names_what_others_put_on_storage_of_a_killed_run() {
    if !root() {
        return skip("only root mounts file systems");
    }
    let home = Home::new();
    let script = "mkdir base; \"$1\" run x.toml >run.log 2>&1 & until test -e killed; do sleep 0.1; done\n\
                  folder=$(echo \"$PWD\"/base/iodyno-*); point=/run/iodyno/${folder##*iodyno-}/3; mountpoint -q $point || { cat run.log >&2; exit 9; }\n\
                  clean() { \"$1\" clean 2>&1 | sed \"s|$folder|FOLDER|g; s|$point|POINT|g\"; }\n\
                  theirs=$(losetup --find --show --read-only \"$folder/disk0.img\") && mount -t tmpfs none $point || exit 9\n\
                  for file in $point/one \"$folder/two\"; do echo precious >\"$file\"; done\n\
                  clean \"$1\"; echo over; cat $point/one && umount $point && mkdir $point/sub && mount -t tmpfs none $point/sub\n\
                  clean \"$1\"; echo below; mountpoint -q $point/sub && umount $point/sub\n\
                  clean \"$1\"; echo beside; cat \"$folder/two\"; ls \"$folder\"; losetup --noheadings --output RO $theirs\n\
                  grep -cF \"$folder\" /sys/block/${theirs#/dev/}/loop/backing_file; losetup --detach $theirs; rm \"$folder/two\"\n\
                  \"$1\" clean >/dev/null; echo \"exit $?\"; ls base /var/lib/iodyno/journal";
    let Some(done) = after_kill(&home, script) else {
        return;
    };
    let done = done.succeeds();
    let (over, rest) = done.stdout.split_once("over\n").unwrap();
    let (below, rest) = rest.split_once("below\n").unwrap();
    let (beside, rest) = rest.split_once("beside\n").unwrap();
    for (said, kept) in [
        (over, "`POINT` is kept"),
        (below, "`POINT/sub` is kept"),
        (beside, "cannot remove `FOLDER`"),
        (beside, "did not make: `two`"),
    ] {
        // Lines are wrapped.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(kept), "{kept}: {}", done.stdout);
    }
    assert!(below.starts_with("precious\n"), "{below}");
    let end = "precious\ntwo\n1\n1\nexit 0\n/var/lib/iodyno/journal:\n\nbase:\n";
    assert_eq!(
        rest.replace(" ", ""),
        end.replace(" ", ""),
        "{}",
        done.stdout
    );
}

#[test]
fn a_new_loop_device_is_preconditioned_and_detached() {
    if !root() {
        return skip("only root attaches loop devices");
    }
    let home = Home::new();
    home.file(
        "x.toml",
        "rounds = 1\nsettle = false\n[configuration.image]\ntarget = 'loop on file on .'\nfile.size = '8MiB'\n\
         precondition = '2s'\n[workload.w]\nfio = { rw = 'randread', bs = '4k', size = '8m' }\n",
    );
    let done = home.iodyno(&["run", "x.toml", "--json"]);
    if done.stderr.contains("/dev/loop-control") {
        return skip(&done.stderr);
    }
    let run = done.succeeds().json();
    let facts = &run["trials"][0]["nodes"][0]["environment"]["made"]["facts"];
    assert_ne!(facts["precondition.written"], "0 B", "{facts:#}");
    assert!(facts["precondition.steady"].is_string(), "{facts:#}");
    assert_eq!(facts["layers"], "loop on file on directory");
    nothing_is_left(&home);
}

/// Asserts that no loop device is on a file of this home, and that only the experiment is in it.
fn nothing_is_left(home: &Home) {
    let loops = fs::read_dir("/sys/block").unwrap().flatten();
    let own = home.work().display().to_string();
    for device in loops {
        let file = device.path().join("loop/backing_file");
        let file = fs::read_to_string(file).unwrap_or_default();
        assert!(!file.starts_with(&own), "{file}");
    }
    let left = fs::read_dir(home.work()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["x.toml"]);
}

#[test]
fn a_mirror_is_made_written_through_its_block_device_and_undone() {
    if !root() {
        return skip("only root attaches loop devices");
    }
    let home = Home::new();
    home.file(
        "x.toml",
        "rounds = 1\nsettle = false\n[configuration.'mirror-${policy}']\ntarget = 'mirror on file on .'\n\
         mirror.policy = '${policy}'\nmirror.legs = 3\nfile.size = '16MiB'\naxis.policy = ['md-raid1', 'adaptive']\n\
         [configuration.disks]\ntarget = 'mirror on delay on file on .'\ndelay.disk = 'flash + flash*2 + flash'\nmirror.legs = 3\n\
         file.size = '16MiB'\n[workload.w]\nfio = { rw = 'randrw', bs = '4k', size = '8m', direct = 1, verify = 'crc32c', fsync = 64 }\n",
    );
    let done = home.iodyno(&["run", "x.toml", "--json"]);
    for missing in ["/dev/loop-control", "/dev/fuse"] {
        if done.stderr.contains(&format!("`{missing}`")) {
            return skip(&done.stderr);
        }
    }
    let run = done.succeeds().json();
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3);
    for trial in trials {
        assert_eq!(trial["outcome"]["state"], "completed");
        let made = &trial["nodes"][0]["environment"]["made"];
        let (layers, slow) = match trial["configuration"].as_str() {
            Some("disks") => ("mirror on delay on file on directory", 1),
            _ => ("mirror on file on directory", 0),
        };
        assert_eq!(made["facts"]["layers"], layers);
        let commands = made["commands"].to_string().replace('\'', "");
        // With the delay, the mirror is made of loop devices.
        let legs = [("disk2.img --destroy", 1), ("flash*2", slow)];
        for (part, times) in legs {
            assert_eq!(commands.matches(part).count(), times, "{commands}");
        }
    }
    nothing_is_left(&home);
}

#[test]
fn a_program_that_was_replaced_while_it_ran_still_starts_the_servers_of_layers() {
    let home = Home::new();
    home.file(
        "x.toml",
        "rounds = 1\nsettle = false\n[configuration.all]\ntarget = 'mirror on file on .'\nmirror = { legs = 2, queues = 1 }\n\
         file.size = '16MiB'\n[configuration.pinned]\ntarget = 'mirror on file on .'\nfile.size = '16MiB'\n\
         mirror = { legs = 2, queues = 1, cpus = '0' }\n[workload.w]\nfio = { rw = 'write', bs = '4k', size = '1m' }\n",
    );
    let copy = home.work().join("iodyno");
    fs::copy(iodyno(), &copy).unwrap();
    // It is removed after the shell has opened it and before it runs.
    let mut command = home.program(Path::new("/bin/sh"));
    let script = "exec 9<iodyno && rm iodyno && echo other > iodyno && exec /proc/self/fd/9 run x.toml --json";
    command.args(["-c", script]);
    let run = Running::of(command).done().succeeds().json();
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    for trial in trials {
        assert_eq!(trial["outcome"]["state"], "completed", "{trial}");
    }
}

#[test]
fn jobs_are_clients_of_a_mirror_with_queues_which_is_made_and_undone() {
    let home = Home::new();
    home.file(
        "x.toml",
        "rounds = 1\nsettle = false\n[configuration.'${queues}']\ntarget = 'mirror on file on .'\n\
         mirror = { legs = 3, queues = '${queues}' }\nfile.size = '32MiB'\naxis.queues = [1, 4]\n[workload.w]\n\
         fio = { ioengine = 'libaio', iodepth = 8, rw = 'randrw', bs = '4k', size = '4m', offset_increment = '4m', numjobs = 4, direct = 1, verify = 'crc32c', fsync = 64 }\n\
         [workload.r]\nfio = { ioengine = 'libaio', iodepth = 32, rw = 'read', bs = '4k', size = '4m', offset_increment = '4m', numjobs = 4, direct = 1, time_based = 1, runtime = '3s' }\n",
    );
    let run = home.iodyno(&["run", "x.toml", "--json"]).succeeds().json();
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    for trial in trials {
        assert_eq!(trial["outcome"]["state"], "completed", "{trial}");
        let made = &trial["nodes"][0]["environment"]["made"];
        assert_eq!(made["facts"]["layers"], "mirror on file on directory");
        let commands = made["commands"].to_string();
        assert!(!commands.contains("losetup"), "{commands}");
        let engine = &trial["groups"][0]["engines"][0]["name"];
        assert_eq!(engine, "vhost-user-blk");
    }
    // Of the reads, which last for some samples.
    let merges = home.iodyno(&[
        "compare",
        "last",
        "--metric",
        "requests_per_command",
        "--json",
    ]);
    assert!(
        merges.stdout.contains("requests_per_command"),
        "{}",
        merges.stdout
    );
    nothing_is_left(&home);
}

#[test]
fn a_folder_is_shared_by_each_server_and_its_jobs_are_clients_or_use_the_mount() {
    if !root() {
        return skip("only root mounts");
    }
    let home = Home::new();
    home.file(
        "x.toml",
        "rounds = 1\nsettle = false\n[configuration.a]\ntarget = 'virtiofs on .'\n[configuration.b]\ntarget = 'virtiofs on .'\n\
         virtiofs.server = 'iodyno serve fs {folder} --socket {socket} --stats {stats} --dispatch pool:2'\n[configuration.c]\ntarget = 'fuse on .'\n\
         [workload.w]\nfiles = 'shared'\nfio = { rw = 'randrw', bs = '4k', size = '1m', ioengine = 'libaio', iodepth = 4, verify = 'crc32c' }\n",
    );
    let done = home.iodyno(&["run", "x.toml", "--json"]);
    if done.stderr.contains("`/dev/fuse`") {
        return skip(&done.stderr);
    }
    let run = done.succeeds().json();
    let trials = run["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3);
    for trial in trials {
        assert_eq!(trial["outcome"]["state"], "completed", "{trial}");
        let node = &trial["nodes"][0];
        let facts = &node["environment"]["made"]["facts"];
        let (layers, engine) = match trial["configuration"].as_str() {
            Some("c") => ("fuse on directory", "libaio"),
            _ => ("virtiofs on directory", "virtiofs"),
        };
        assert_eq!(facts["layers"], layers);
        let kind = layers.split(' ').next().unwrap();
        let version = facts[format!("{kind}.version")].as_str().unwrap();
        assert!(version.starts_with("iodyno "), "{version}");
        assert_eq!(trial["groups"][0]["engines"][0]["name"], engine);
    }
    // The requests of each server were counted.
    let told = home.iodyno(&["show", "last", "--series", "requests", "--json"]);
    let told = told.succeeds().json();
    let trials = told["trials"].as_array().unwrap();
    for trial in trials {
        let rows = trial["figures"][0]["rows"].as_array().unwrap();
        let of = |name: &str| {
            let rows = rows.iter().filter(|row| row["subject"] == name);
            rows.filter_map(|row| row["values"][1].as_f64())
                .sum::<f64>()
        };
        for name in ["all", "READ", "WRITE"] {
            assert!(of(name) > 0.0, "{name}: {trial}");
        }
    }
    assert_eq!(trials.len(), 3);
    nothing_is_left(&home);
}
