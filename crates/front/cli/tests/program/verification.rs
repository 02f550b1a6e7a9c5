//! Verification of blocks while their file is corrupted: which corruptions a run and a later check detect.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::harness::{Done, Home, skip, stop};

const ENGINES: [&str; 3] = ["psync", "io_uring", "mmap"];
const BLOCK: u64 = 4096;
const BLOCKS: u64 = 32;
/// Blocks that are corrupted, the same number of each kind.
const EACH: u64 = 2;

/// The job writes every block once, in order, with the same offsets and seeds in each run.
fn job(home: &Home, name: &str, engine: &str, options: &str) -> String {
    let text = format!(
        "[t]\nioengine={engine}\nfilename=data\nrw=write\nbs=4k\nsize=128k\nverify=crc32c\n\
         continue_on_error=verify\n{options}\n"
    );
    home.file(name, &text);
    name.to_owned()
}

fn block(content: &[u8], number: u64) -> &[u8] {
    &content[(number * BLOCK) as usize..][..BLOCK as usize]
}

fn put(path: &Path, number: u64, content: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(content, number * BLOCK).unwrap();
}

/// Flips a bit of blocks, clears them, exchanges them, and replaces them by blocks of an earlier run: from the first
/// block on, [`EACH`] of each kind.
fn corrupt(path: &Path, earlier: &[u8]) {
    let now = fs::read(path).unwrap();
    for number in 0..EACH {
        let mut flipped = block(&now, number).to_vec();
        flipped[999] ^= 4;
        put(path, number, &flipped);
        put(path, EACH + number, &[0; BLOCK as usize]);
        put(path, 2 * EACH + number, block(&now, number));
        put(path, 3 * EACH + number, block(earlier, 3 * EACH + number));
    }
}

/// Runs a job to its end. After the first `written` blocks and before the last one, the node is stopped and `then` is
/// run. `before` is the content of the file before the job.
fn disturbed(home: &Home, name: &str, before: &[u8], written: u64, then: impl Fn(&Path)) -> Done {
    let path = home.work().join("data");
    for _ in 0..30 {
        let running = home.start(&["run", name, "--json"]);
        let node = running.node();
        let changed = |number| {
            let now = fs::read(&path).unwrap();
            block(&now, number) != block(before, number)
        };
        running.wait_for("the blocks", || changed(written - 1).then_some(()));
        stop(node);
        let in_time = !changed(BLOCKS - 1);
        if in_time {
            then(&path);
        }
        kill_process(node, Signal::CONT).unwrap();
        let done = running.done();
        if in_time {
            return done;
        }
        // The host was too busy to stop it in time.
        fs::write(&path, before).unwrap();
    }
    panic!("the node was never stopped in time");
}

fn verify(done: &Done) -> Value {
    done.json()["trials"][0]["groups"][0]["verify"].clone()
}

/// Numbers of checked blocks, and of corrupt, foreign, misplaced and stale ones.
fn found(verify: &Value) -> [u64; 5] {
    ["checked", "corrupt", "foreign", "misplaced", "stale"].map(|key| verify[key].as_u64().unwrap())
}

#[test]
fn every_corruption_within_a_run_is_found() {
    for engine in ENGINES {
        let home = Home::new();
        let first = job(&home, "first.fio", engine, "");
        home.iodyno(&["run", &first, "-q"]).succeeds();
        let earlier = fs::read(home.work().join("data")).unwrap();
        let paced = job(&home, "paced.fio", engine, "rate_iops=40");
        let done = disturbed(&home, &paced, &earlier, 4 * EACH, |path| {
            corrupt(path, &earlier);
        });
        let done = done.exits(1);
        assert_eq!(
            found(&verify(&done)),
            [BLOCKS, EACH, EACH, EACH, EACH],
            "{engine}"
        );
    }
}

#[test]
fn trimmed_blocks_are_zero_when_they_are_read_back() {
    let home = Home::new();
    let options = "trim_percentage=50\ntrim_backlog=8\nnumber_ios=24";
    job(&home, "t.fio", "psync", options);
    // The kernel may not support holes in the file system of the temporary folder.
    let done = home.iodyno(&["fio", "t.fio", "--output-format=json"]);
    if done.stderr.contains("EOPNOTSUPP") {
        return skip("the file system does not support holes");
    }
    let done = done.exits(0);
    let json = done.json();
    let of = |direction: &str| {
        let row = &json["jobs"][0][direction];
        (row["total_ios"].as_u64(), row["io_bytes"].as_u64())
    };
    assert_eq!(of("write"), (Some(16), Some(16 * BLOCK)));
    assert_eq!(of("trim"), (Some(8), Some(8 * BLOCK)));
    assert_eq!(of("read"), (Some(16), Some(16 * BLOCK)));
    let content = fs::read(home.work().join("data")).unwrap();
    for number in 0..16 {
        let zero = block(&content, number).iter().all(|byte| *byte == 0);
        assert_eq!(zero, number % 2 == 1, "{number}");
    }
    home.iodyno(&["fio", "--readonly", "t.fio"]).exits(1);
    let read = ["fio", "--name=r", "--size=4k", "--rw=read", "--readonly"];
    let trims = [
        &read[..],
        &["--verify=md5", "--trim_percentage=9", "--trim_backlog=1"],
    ]
    .concat();
    home.iodyno(&trims)
        .exits(1)
        .stderr_has("`--readonly` was given");
}

#[test]
fn a_check_reads_what_an_earlier_job_of_the_same_run_creates() {
    let home = Home::new();
    let check = "[check]\nwait_for=write\nverify_only=1\n";
    for (at, fallocate) in ["none", "native"].into_iter().enumerate() {
        let write = format!(
            "[global]\nioengine=psync\nrw=write\nbs=4k\nsize=1m\nverify=crc32c\nfilename=data{at}\n\
             fallocate={fallocate}\n[write]\ndo_verify=0\n"
        );
        home.file("job.fio", &(write + check));
        let done = home.iodyno(&["fio", "job.fio", "--output-format=json"]);
        let jobs = done.succeeds().json()["jobs"].clone();
        assert_eq!(jobs[0]["write"]["total_ios"], 256);
        assert_eq!(jobs[1]["read"]["total_ios"], 256);
    }
}

#[test]
fn every_corruption_after_a_run_is_found_by_a_later_check() {
    for engine in ENGINES {
        let home = Home::new();
        let first = job(&home, "first.fio", engine, "");
        home.iodyno(&["run", &first, "-q"]).succeeds();
        let path = home.work().join("data");
        let earlier = fs::read(&path).unwrap();
        // Each block is written twice: the first version is saved.
        let twice = job(&home, "twice.fio", engine, "loops=2\nrate_iops=40");
        let aside = home.work().join("aside");
        disturbed(&home, &twice, &earlier, 6 * EACH, |path| {
            fs::copy(path, &aside).unwrap();
        })
        .succeeds();
        let only = job(&home, "only.fio", engine, "verify_only=1");
        let check = || home.iodyno(&["run", &only, "--json"]);
        assert_eq!(found(&verify(&check().succeeds())), [BLOCKS, 0, 0, 0, 0]);
        corrupt(&path, &earlier);
        let lost = fs::read(&aside).unwrap();
        for number in 4 * EACH..5 * EACH {
            put(&path, number, block(&lost, number));
        }
        let verdict = found(&verify(&check().exits(1)));
        assert_eq!(verdict, [BLOCKS, EACH, EACH, EACH, 2 * EACH], "{engine}");
        // Without the record, blocks of earlier writes are accepted, and the result says so.
        let state = home
            .work()
            .parent()
            .unwrap()
            .join(".local/state/iodyno/verify");
        fs::remove_dir_all(state).unwrap();
        let done = check().exits(1);
        assert_eq!(
            found(&verify(&done)),
            [BLOCKS, EACH, EACH, EACH, 0],
            "{engine}"
        );
        assert!(
            done.stdout
                .contains("there is no record of the last writes")
        );
        let required = job(
            &home,
            "required.fio",
            engine,
            "verify_only=1\nverify_state_load=1",
        );
        home.iodyno(&["run", &required])
            .exits(4)
            .stderr_has("there is no record of the last writes");
    }
}

#[test]
fn a_record_belongs_to_the_file_and_not_to_one_of_its_names() {
    for header in ["iodyno", "fio"] {
        let home = Home::new();
        let path = |name: &str| home.work().join(name);
        let run = |name: &str, options: &str| {
            let text = format!(
                "[t]\nioengine=psync\nfilename={name}\nrw=write\nbs=4k\nsize=128k\nverify=crc32c\n\
                 verify_header={header}\ncontinue_on_error=verify\n{options}\n"
            );
            home.file("j.fio", &text);
            home.iodyno(&["run", "j.fio", "--json"])
        };
        run("f", "").succeeds();
        fs::hard_link(path("f"), path("g")).unwrap();
        let earlier = fs::read(path("f")).unwrap();
        // The last write is by the other name.
        run("g", "").succeeds();
        for name in ["f", "g"] {
            let done = run(name, "verify_only=1\nverify_state_load=1").succeeds();
            assert_eq!(found(&verify(&done)), [BLOCKS, 0, 0, 0, 0], "{name}");
        }
        fs::remove_file(path("f")).unwrap();
        fs::rename(path("g"), path("h")).unwrap();
        run("h", "verify_only=1\nverify_state_load=1").succeeds();
        // A lost write is found by any name.
        put(&path("h"), 5, block(&earlier, 5));
        let done = run("h", "verify_only=1").exits(1);
        assert_eq!(found(&verify(&done)), [BLOCKS, 0, 0, 0, 1]);
        // A copy is another file: nothing is recorded about it.
        fs::copy(path("h"), path("copy")).unwrap();
        let done = run("copy", "verify_only=1").succeeds();
        assert!(done.stdout.contains("there is no record"));
        assert_eq!(found(&verify(&done)), [BLOCKS, 0, 0, 0, 0]);
        // A new file at the same path may get the same inode.
        fs::remove_file(path("h")).unwrap();
        fs::write(path("h"), &earlier).unwrap();
        let done = run("h", "verify_only=1").succeeds();
        assert!(done.stdout.contains("there is no record"));
    }
}

#[test]
fn a_damaged_record_is_no_record() {
    let home = Home::new();
    let write = job(&home, "write.fio", "psync", "");
    home.iodyno(&["run", &write, "-q"]).succeeds();
    let only = job(&home, "only.fio", "psync", "verify_only=1");
    let state = home
        .work()
        .parent()
        .unwrap()
        .join(".local/state/iodyno/verify");
    let records: Vec<_> = fs::read_dir(state).unwrap().collect();
    let [Ok(record)] = &records[..] else {
        panic!("{records:?}");
    };
    let whole = fs::read(record.path()).unwrap();
    for at in [0, 10, whole.len() / 2, whole.len() - 20, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(record.path(), damaged).unwrap();
        let done = home.iodyno(&["run", &only, "--json"]).succeeds();
        assert!(done.stdout.contains("there is no record"), "{at}");
        assert_eq!(found(&verify(&done)), [BLOCKS, 0, 0, 0, 0], "{at}");
    }
}

#[test]
fn a_folder_of_files_that_are_written_and_verified_has_data() {
    let home = Home::new();
    fs::create_dir(home.work().join("d")).unwrap();
    for (name, then) in [
        ("random.fio", ""),
        ("other.fio", "[check]\nwait_for=t\nverify_only=1\n"),
    ] {
        let text = format!(
            "[global]\nrw=randwrite\nbs=4k\nsize=1m\nverify=crc32c\nfilename=x\n[t]\n{then}"
        );
        home.file(name, &text);
        let done = home
            .iodyno(&["run", name, "--on", "f=d", "--json"])
            .succeeds();
        assert!(
            !done.stdout.contains("had never been written when"),
            "{name}"
        );
        home.iodyno(&["show", "last"]).succeeds().prints(" bad");
        fs::remove_file(home.work().join("d/x")).unwrap();
    }
    // Reads of unwritten blocks still have none.
    let read = "[t]\nrw=randread\nbs=4k\nsize=1m\nfilename=y\n";
    fs::File::create(home.work().join("d/y"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    home.file("read.fio", read);
    home.iodyno(&["run", "read.fio", "--on", "f=d"])
        .prints("had never been written when reading began");
}

#[test]
fn a_run_that_was_killed_leaves_no_record_of_its_blocks() {
    let home = Home::new();
    let first = job(&home, "first.fio", "psync", "");
    home.iodyno(&["run", &first, "-q"]).succeeds();
    let before = fs::read(home.work().join("data")).unwrap();
    let paced = job(&home, "paced.fio", "psync", "rate_iops=40");
    let running = home.start(&["run", &paced]);
    let node = running.node();
    running.wait_for("a block", || {
        let now = fs::read(home.work().join("data")).unwrap();
        (block(&now, 0) != block(&before, 0)).then_some(())
    });
    kill_process(node, Signal::KILL).unwrap();
    running.done().exits(4);
    // The file contains blocks of both runs, which are equally valid.
    let only = job(&home, "only.fio", "psync", "verify_only=1");
    let done = home.iodyno(&["run", &only, "--json"]).succeeds();
    assert_eq!(found(&verify(&done)), [BLOCKS, 0, 0, 0, 0]);
}

#[test]
fn the_unwritten_rest_of_a_run_that_ended_early_is_not_checked() {
    let home = Home::new();
    home.file("data", "");
    let paced = job(&home, "paced.fio", "psync", "rate_iops=40");
    let running = home.start(&["run", &paced]);
    running.wait_for("a block", || {
        let now = fs::read(home.work().join("data")).unwrap();
        now.iter().any(|byte| *byte != 0).then_some(())
    });
    running.signal(Signal::INT);
    running.done().exits(130);
    let only = job(&home, "only.fio", "psync", "verify_only=1");
    let done = home.iodyno(&["run", &only, "--json"]).succeeds();
    let [checked, bad @ ..] = found(&verify(&done));
    assert!((1..BLOCKS).contains(&checked), "{checked}");
    assert_eq!(bad, [0; 4]);
}

/// fio and the header format that it writes; `None` without fio.
fn fio() -> Option<&'static str> {
    Some(match crate::peer::version()? {
        (3, 41..) | (4.., _) => "fio",
        _ => "fio-3.40",
    })
}

/// Runs fio with these arguments in the working folder; its exit code and standard error.
fn run_fio(home: &Home, arguments: &[&str]) -> (i32, String) {
    let done = std::process::Command::new("fio")
        .args(arguments)
        .args(["--output=fio.txt"])
        .current_dir(home.work())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.code().unwrap_or(-1), told)
}

const JOB: [&str; 5] = [
    "--name=v",
    "--filename=data",
    "--ioengine=psync",
    "--size=256k",
    "--verify_state_save=0",
];

/// Workloads that both tools write and the other one checks: options of the write, and whether every byte is checked.
const SHARED: [(&[&str], bool); 21] = [
    (&["--bs=4k", "--verify=crc32c"], true),
    (&["--bs=4k", "--verify=xxhash"], true),
    (&["--bs=4k", "--verify=md5"], true),
    (&["--bs=4k", "--verify=sha256"], true),
    (&["--bs=4k", "--verify=sha1"], true),
    // Up to fio 3.39 it is not a hash.
    (&["--bs=4k", "--verify=sha512"], false),
    (&["--bs=4k", "--verify=sha3-256"], true),
    (&["--bs=4k", "--verify=crc64"], true),
    (&["--bs=4k", "--verify=crc32"], true),
    (&["--bs=4k", "--verify=crc16"], true),
    (&["--bs=4k", "--verify=crc7"], true),
    (&["--bs=4k", "--verify=meta"], false),
    (
        &["--bs=4k", "--verify=pattern", "--verify_pattern=0xabcdef"],
        true,
    ),
    (
        &[
            "--bs=4k",
            "--verify=pattern",
            "--verify_pattern=0xff%o\"abcd\"-12",
        ],
        true,
    ),
    (
        &["--bs=4k", "--verify=pattern_hdr", "--verify_pattern=%o"],
        true,
    ),
    (&["--bs=16k", "--verify=md5", "--verify_interval=4k"], true),
    (
        &["--bs=4k", "--verify=sha256", "--verify_offset=1024"],
        true,
    ),
    (
        &["--bs=4k", "--verify=crc32c", "--verify_pattern=0x1234"],
        true,
    ),
    (&["--bsrange=4k-16k", "--verify=crc32c"], true),
    (&["--bssplit=4k/50:8k/50", "--verify=md5"], true),
    (
        &[
            "--bs=8k",
            "--verify=pattern",
            "--verify_interval=1k",
            "--verify_pattern=0xabcdef",
        ],
        true,
    ),
];

#[test]
fn fio_and_iodyno_verify_each_other_s_blocks() {
    let Some(header) = fio() else {
        return crate::harness::skip("fio is not installed");
    };
    let header = format!("--verify_header={header}");
    let path = |home: &Home| home.work().join("data");
    let old = header == "--verify_header=fio-3.40";
    for (options, all_bytes) in SHARED {
        // fio 3.33 does not know it.
        if old && options.contains(&"--verify=pattern_hdr") {
            continue;
        }
        let arguments = |more: &[&'static str]| [&JOB[..], options, more].concat();
        // Of blocks of varied sizes, each part is checked.
        let sized = options[0].starts_with("--bs=");
        let check = match sized {
            true => arguments(&["--rw=read"]),
            false => [&JOB[..], &options[1..], &["--bs=4k", "--rw=read"]].concat(),
        };
        let iodyno =
            |home: &Home, job: &[&str]| home.iodyno(&[&["fio"], job, &[header.as_str()]].concat());
        // fio writes.
        let home = Home::new();
        let write = arguments(&["--rw=write", "--do_verify=0"]);
        assert_eq!(run_fio(&home, &write).0, 0, "{options:?}");
        iodyno(&home, &check).succeeds();
        if sized {
            iodyno(&home, &arguments(&["--rw=write", "--verify_only=1"])).succeeds();
        }
        let whole = fs::read(path(&home)).unwrap();
        for at in [10, 4096 * 3 + 2000] {
            if !all_bytes && at > 48 {
                continue;
            }
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            fs::write(path(&home), damaged).unwrap();
            let done = iodyno(&home, &check);
            assert_eq!(done.code, 1, "{options:?} byte {at}: {}", done.stderr);
            assert!(
                done.stderr.contains("verification failed: 1 of"),
                "{}",
                done.stderr
            );
        }
        // iodyno writes, checks by itself, and then fio checks.
        let home = Home::new();
        let done = iodyno(&home, &arguments(&["--rw=write"]));
        assert_eq!(done.code, 0, "{options:?}: {}", done.stderr);
        let (code, told) = run_fio(&home, &check);
        assert_eq!(code, 0, "{options:?}: {told}");
        if sized {
            let (code, told) = run_fio(&home, &arguments(&["--rw=write", "--verify_only=1"]));
            assert_eq!(code, 0, "{options:?}: {told}");
        }
        let whole = fs::read(path(&home)).unwrap();
        let mut damaged = whole;
        // In the last part of a block: fio forgets faults of the others.
        damaged[if all_bytes { 97_304 } else { 4096 + 20 }] ^= 0x20;
        fs::write(path(&home), damaged).unwrap();
        assert_eq!(run_fio(&home, &check).0, 1, "{options:?}");
    }
}

#[test]
fn a_file_is_verified_by_any_of_its_paths() {
    let home = Home::new();
    fs::create_dir(home.work().join("folder")).unwrap();
    std::os::unix::fs::symlink("data", home.work().join("link")).unwrap();
    let verified = |name: &str, options: &[&str]| {
        let filename = format!("--filename={name}");
        let job = ["fio", "--name=t", &filename, "--size=64k", "--verify=md5"];
        home.iodyno(&[&job[..], options].concat()).succeeds();
    };
    verified("data", &["--rw=randwrite"]);
    for name in ["data", "folder/../data", "link"] {
        verified(name, &["--rw=randread", "--verify_state_load=1"]);
        verified(name, &["--rw=randwrite", "--verify_only"]);
    }
}

#[test]
fn a_later_check_tells_lost_writes_and_accepts_what_fio_wrote_meanwhile() {
    let home = Home::new();
    let job = [&["fio"], &JOB[..4], &["--bs=4k", "--verify=crc32c"]].concat();
    let iodyno = |more: &[&'static str]| home.iodyno(&[&job[..], more].concat());
    let path = home.work().join("data");
    iodyno(&["--rw=write"]).succeeds();
    let earlier = fs::read(&path).unwrap();
    iodyno(&["--rw=write"]).succeeds();
    iodyno(&["--rw=read"]).succeeds();
    // The second write of a block was lost.
    put(&path, 5, block(&earlier, 5));
    for check in [&["--rw=read"][..], &["--rw=write", "--verify_only=1"]] {
        // Without this, the first bad block ends the job.
        let told = iodyno(check).exits(1).stderr;
        assert!(told.contains("1 of 6 blocks"), "{told}");
        let done = iodyno(&[check, &["--continue_on_error=verify"]].concat()).exits(1);
        let told = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("1 of 64 blocks"), "{told}");
        let found = "at offset 20480, 4096 bytes: found a block of another job or an earlier trial";
        assert!(told.contains(found), "{told}");
    }
    // Blocks that an earlier version, or `iodyno run`, wrote with iodyno's headers.
    iodyno(&["--rw=write", "--verify_header=iodyno"]).succeeds();
    iodyno(&["--rw=read"]).succeeds();
    let Some("fio") = fio() else {
        return crate::harness::skip("needs fio 3.41 or newer");
    };
    iodyno(&["--rw=write"]).succeeds();
    let write = [&JOB[..], &["--bs=4k", "--verify=crc32c", "--rw=write"]].concat();
    assert_eq!(run_fio(&home, &write).0, 0);
    iodyno(&["--rw=read"]).succeeds();
}
