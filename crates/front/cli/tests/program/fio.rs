//! fio's own command line: a script that calls fio works with only the program's name changed.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

use rustix::process::Signal;

use crate::guard::blank;
use crate::harness::{self, ENDLESS, Home, alive, skip, wait_for};

const TINY: [&str; 6] = [
    "--name=t",
    "--rw=randread",
    "--bs=4k",
    "--size=1m",
    "--ioengine=psync",
    "--direct=0",
];

fn fio(home: &Home, more: &[&str]) -> crate::harness::Done {
    home.iodyno(&[&["fio"], more, &TINY].concat())
}

#[test]
fn json_is_one_document_and_the_only_standard_output() {
    let home = Home::new();
    for format in ["json", "json+"] {
        let result = fio(&home, &[&format!("--output-format={format}")])
            .succeeds()
            .json();
        assert!(result["fio version"].is_string());
        let job = &result["jobs"][0];
        assert_eq!(job["jobname"], "t");
        assert_eq!(job["read"]["total_ios"], 256);
        assert_eq!(job["read"]["io_bytes"], 1 << 20);
        // As in fio, only the given options.
        let given = TINY.map(|option| option[2..].split_once('=').unwrap());
        let given: BTreeMap<&str, &str> = given.into();
        assert_eq!(job["job options"], serde_json::json!(given));
        assert_eq!(
            job["read"]["clat_ns"]["bins"].is_object(),
            format == "json+"
        );
    }
}

#[test]
fn readonly_creates_extends_and_removes_nothing() {
    let home = Home::new();
    let short = home.file("short", "precious");
    for (more, words) in [
        (["--filename=short", "--readonly"], "extends"),
        (["--filename=new", "--readonly"], "creates"),
        (["--unlink=1", "--readonly"], "removes"),
    ] {
        // `--filename` belongs to the job that follows.
        let (job, readonly) = (more[0], more[1]);
        home.iodyno(&[&["fio", readonly], &TINY[..], &[job]].concat())
            .exits(1)
            .stderr_has(words);
    }
    assert_eq!(std::fs::read_to_string(&short).unwrap(), "precious");
    let files = std::fs::read_dir(home.work()).unwrap();
    assert_eq!(files.count(), 1);
    // If it is long enough, it is read.
    std::fs::write(&short, vec![1; 1 << 20]).unwrap();
    home.iodyno(&[&["fio", "--readonly"], &TINY[..], &["--filename=short"]].concat())
        .succeeds();
    assert_eq!(std::fs::read(&short).unwrap(), vec![1; 1 << 20]);
}

#[test]
fn verify_only_opens_for_reading_and_extends_nothing() {
    let home = Home::new();
    let job = "[v]\nfilename=data\nrw=randwrite\nbs=4k\nsize=1m\nverify=crc32c\n";
    home.file("write.fio", job);
    for engine in ["psync", "mmap", "libaio"] {
        let only = format!("{job}ioengine={engine}\nverify_only=1\n");
        home.file("only.fio", &only);
        home.iodyno(&["fio", "only.fio"])
            .exits(1)
            .stderr_has("creates");
        home.iodyno(&["fio", "write.fio"]).succeeds();
        let data = home.work().join("data");
        let written = std::fs::read(&data).unwrap();
        home.iodyno(&["fio", "only.fio"]).succeeds();
        assert!(std::fs::read(&data).unwrap() == written);
        std::fs::remove_file(&data).unwrap();
        std::fs::write(&data, &written[..4096]).unwrap();
        home.iodyno(&["fio", "only.fio"])
            .exits(1)
            .stderr_has("extends");
        assert_eq!(std::fs::metadata(&data).unwrap().len(), 4096);
        std::fs::remove_file(&data).unwrap();
    }
}

#[test]
fn the_trial_is_stored_as_well() {
    let home = Home::new();
    fio(&home, &["--output-format=json"]).succeeds();
    home.iodyno(&["show", "last"]).succeeds().prints("randread");
}

#[test]
fn text_terse_and_appended_terse() {
    let home = Home::new();
    fio(&home, &[])
        .succeeds()
        .prints("Run status group 0")
        .prints("t: (groupid=0, jobs=1)");
    let terse = fio(&home, &["--output-format=terse"]).succeeds();
    assert!(terse.stdout.starts_with("3;fio-"), "{}", terse.stdout);
    let both = fio(&home, &["--append-terse"])
        .succeeds()
        .prints("Run status group 0");
    assert!(
        both.stdout.lines().any(|line| line.starts_with("3;fio-")),
        "{}",
        both.stdout
    );
    let several = fio(&home, &["--output-format=normal,terse"])
        .succeeds()
        .prints("Run status group 0");
    assert!(
        several
            .stdout
            .lines()
            .any(|line| line.starts_with("3;fio-"))
    );
}

#[test]
fn several_formats_come_in_fios_order() {
    let home = Home::new();
    let all = fio(
        &home,
        &["--output-format=normal,json,terse", "--terse-version=4"],
    )
    .succeeds();
    let places: Vec<usize> = [
        "Starting 1 thread",
        "\n4;fio-",
        "\"fio version\"",
        "Run status",
    ]
    .iter()
    .map(|text| {
        all.stdout
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {}", all.stdout))
    })
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    fio(&home, &["--terse-version=6"])
        .exits(1)
        .stderr_has("there is no terse version `6`");
}

#[test]
fn logs_of_a_simulated_device_hold_every_op() {
    let home = Home::new();
    let done = home
        .iodyno(&[
            "fio",
            "--output-format=json",
            "--name=s",
            "--ioengine=sim",
            "--sim_latency=constant:1ms",
            "--rw=randrw",
            "--bs=4k",
            "--size=1g",
            "--runtime=2",
            "--time_based",
            "--numjobs=2",
            "--write_lat_log=each",
            "--write_bw_log=each",
            "--write_iops_log=each",
            "--per_job_logs=0",
            "--write_hist_log=each",
            "--log_hist_msec=500",
            "--log_hist_coarseness=2",
        ])
        .succeeds()
        .json();
    let jobs = done["jobs"].as_array().unwrap();
    let total = |direction: &str| -> u64 {
        let ops = jobs.iter().map(|job| job[direction]["total_ios"].as_u64());
        ops.flatten().sum()
    };
    let expected = [total("read"), total("write")];
    assert!(expected.iter().sum::<u64>() > 3900, "{expected:?}");
    let rows = |kind: &str| -> Vec<Vec<u64>> {
        let text = std::fs::read_to_string(home.work().join(format!("each_{kind}.log"))).unwrap();
        let row = |line: &str| {
            line.split(", ")
                .map(|field| field.parse().unwrap())
                .collect()
        };
        text.lines().map(row).collect()
    };
    for (kind, value) in [("lat", 1_000_000), ("bw", 4096), ("iops", 1)] {
        let mut counted = [0, 0];
        for row in rows(kind) {
            assert_eq!((row[1], row[3], row.len()), (value, 4096, 5), "{kind}");
            counted[row[2] as usize] += 1;
        }
        assert_eq!(counted, expected, "{kind}");
    }
    let mut counted = [0, 0];
    for row in rows("clat_hist") {
        assert_eq!((row[2], row.len()), (4096, 3 + 464));
        counted[row[1] as usize] += row[3..].iter().sum::<u64>();
    }
    assert_eq!(counted, expected);
}

const SIMULATED: [&str; 9] = [
    "fio",
    "--name=s",
    "--ioengine=sim",
    "--sim_latency=constant:1ms",
    "--bs=4k",
    "--size=1g",
    "--runtime=3",
    "--time_based",
    "--numjobs=2",
];

#[test]
fn the_bandwidth_of_all_jobs_is_logged() {
    let home = Home::new();
    let log = |name: &str| {
        let lines = std::fs::read_to_string(home.work().join(name)).unwrap();
        lines.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    home.iodyno(&[&SIMULATED[..], &["--rw=read", "--bandwidth-log"]].concat())
        .succeeds();
    // Two clones, each with 1000 reads of 4 KiB a second; those at the end of a second are counted in the next.
    let expected = [
        "1000, 7992, 0, 0, 0",
        "2000, 8000, 0, 0, 0",
        "3000, 8008, 0, 0, 0",
    ];
    assert_eq!(log("agg-read_bw.log"), expected);
    assert_eq!(log("agg-write_bw.log")[0], "1000, 0, 1, 0, 0");
    assert_eq!(log("agg-trim_bw.log").len(), 3);
    let writes = ["--rw=write", "--ramp_time=1", "--bandwidth-log=x"];
    home.iodyno(&[&SIMULATED[..], &writes].concat()).succeeds();
    // The second of the ramp is left out.
    assert!(log("x-write_bw.log")[0].starts_with("2000, "));
    home.iodyno(&[&SIMULATED[..], &["--bandwidth-log=no/such"]].concat())
        .exits(1)
        .stderr_has("no/such-read_bw.log");
}

#[test]
fn a_compressed_log_is_printed_as_it_would_have_been_written() {
    let home = Home::new();
    let logs = ["--rw=randread", "--log_offset=1", "--write_lat_log"];
    for (prefix, more) in [("plain", "0"), ("packed", "1")] {
        let compressed = format!("--log_store_compressed={more}");
        home.iodyno(&[&SIMULATED[..], &logs, &[prefix, &compressed]].concat())
            .succeeds();
    }
    for clone in 1..=2 {
        let name = format!("lat.{clone}.log");
        let plain = home.work().join(format!("plain_{name}"));
        let plain = std::fs::read_to_string(plain).unwrap();
        assert_eq!(plain.lines().count(), 3000);
        let packed = format!("packed_{name}.fz");
        let length = home.work().join(&packed).metadata().unwrap().len();
        assert!(length < plain.len() as u64 / 2, "{length}");
        let done = home.iodyno(&["fio", &format!("--inflate-log={packed}")]);
        assert_eq!(done.succeeds().stdout, plain);
    }
    home.file("no.fz", "1, 2, 3");
    home.iodyno(&["fio", "--inflate-log", "no.fz"])
        .exits(1)
        .stderr_has("not a compressed log");
    home.iodyno(&["fio", "--inflate-log", "missing.fz"])
        .exits(1)
        .stderr_has("missing.fz");
}

#[test]
fn output_goes_to_a_file_where_one_is_named() {
    let home = Home::new();
    let done = fio(&home, &["--output=result.json", "--output-format=json"]).succeeds();
    assert_eq!(done.stdout, "");
    let text = std::fs::read_to_string(home.work().join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["jobs"][0]["read"]["total_ios"], 256);
    fio(&home, &["--output=no/such/folder.json"])
        .exits(1)
        .stderr_has("no/such/folder.json");
}

#[test]
fn neither_an_output_nor_a_dump_follows_a_symlink_of_another_user() {
    const OTHER: u32 = 4711;
    let home = Home::new();
    if !rustix::process::geteuid().is_root() {
        return skip("files of other users need root");
    }
    let precious = home.file("precious", "precious");
    let work = home.work();
    std::fs::set_permissions(&work, PermissionsExt::from_mode(0o775)).unwrap();
    for name in ["result.json", "data.0.received"] {
        symlink(&precious, work.join(name)).unwrap();
        lchown(work.join(name), Some(OTHER), None).unwrap();
    }
    fio(&home, &["--output=result.json"])
        .exits(1)
        .stderr_has("result.json")
        .stderr_has("symlink");
    home.file("data", &"\0".repeat(8192));
    let read = ["--name=t", "--rw=read", "--filename=data", "--size=8k"];
    let verify = [
        "--bs=4k",
        "--ioengine=psync",
        "--verify=crc32c",
        "--verify_dump=1",
        "--continue_on_error=verify",
    ];
    let done = home.iodyno(&[&["fio"], &read[..], &verify].concat());
    assert!(work.join("data.4096.received").exists(), "{}", done.stderr);
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn neither_an_output_nor_a_log_overwrites_a_disk_image() {
    let home = Home::new();
    let image = home.work().join("vm.qcow2");
    let content = [&b"QFI\xfb\0\0\0\x03"[..], &[0; 1 << 20]].concat();
    std::fs::write(&image, &content).unwrap();
    symlink("vm.qcow2", home.work().join("lg_bw.1.log")).unwrap();
    fio(&home, &["--output=vm.qcow2"])
        .exits(1)
        .stderr_has("`vm.qcow2`: vm.qcow2 holds qcow image");
    fio(&home, &["--write_bw_log=lg", "--log_avg_msec=10"])
        .exits(1)
        .stderr_has("lg_bw.1.log")
        .stderr_has("holds");
    assert_eq!(std::fs::read(&image).unwrap(), content);
    // A text file is overwritten.
    let text = home.file("result.txt", "an older result");
    fio(&home, &["--output=result.txt"]).succeeds();
    let written = std::fs::read_to_string(text).unwrap();
    assert!(!written.contains("yesterday"), "{written}");
}

#[test]
fn no_output_file_is_created_in_dev() {
    let home = Home::new();
    let name = "/dev/iodyno-no-such-file";
    fio(&home, &[&format!("--output={name}")])
        .exits(1)
        .stderr_has("among");
    fio(&home, &[&format!("--write_bw_log={name}")])
        .exits(1)
        .stderr_has("among");
    assert!(!std::path::Path::new(&format!("{name}_bw.1.log")).exists());
    home.iodyno(&["export", "last", "-o", name])
        .exits(2)
        .stderr_has("among");
    home.file("null.fio", "[t]\nioengine=null\nrw=read\nsize=1m\n");
    for store in [name.to_owned(), format!("{name}/of/mine.db")] {
        // It continues with a store in memory.
        fio(&home, &["--store", &store])
            .succeeds()
            .stderr_has("among device nodes");
        home.iodyno(&["run", "null.fio", "--store", &store])
            .exits(2)
            .stderr_has("among device nodes");
        home.iodyno(&["list", "--store", &store]).exits(2);
    }
    home.iodyno(&["man", name])
        .exits(2)
        .stderr_has("in a folder of device nodes");
    assert!(!std::path::Path::new(name).exists());
}

#[test]
fn an_output_is_not_a_file_of_the_store_in_use() {
    let home = Home::new();
    let store = home.store();
    symlink(&store, home.work().join("link")).unwrap();
    let store = store.to_str().unwrap();
    for round in 0..2 {
        for output in [store, "link", &format!("{store}-journal")] {
            fio(&home, &[&format!("--output={output}")])
                .exits(1)
                .stderr_has("it belongs to the store in use");
        }
        let runs = home.iodyno(&["list", "--json"]).succeeds().json();
        assert_eq!(runs["runs"].as_array().unwrap().len(), round);
        fio(&home, &[]).succeeds();
    }
}

#[test]
fn an_output_overwrites_neither_a_device_nor_the_file_below_it() {
    let home = Home::new();
    let Some(device) = blank(&home, 1 << 20) else {
        return;
    };
    let path = device.path();
    fio(&home, &[&format!("--output={path}")])
        .exits(1)
        .stderr_has("it is a block device");
    fio(&home, &["--output=disk.img"])
        .exits(1)
        .stderr_has("it is the disk of loop");
    let disk = std::fs::read(home.work().join("disk.img")).unwrap();
    assert!(disk == vec![0; 1 << 20]);
}

#[test]
fn job_files_and_sections_are_read_as_by_fio() {
    let home = Home::new();
    home.file(
        "two.fio",
        "[global]\nioengine=null\nsize=1m\n[a]\nrw=read\n[b]\nrw=write\n",
    );
    let result = home
        .iodyno(&["fio", "--output-format=json", "two.fio"])
        .succeeds()
        .json();
    assert_eq!(result["jobs"].as_array().unwrap().len(), 2);
    let result = home
        .iodyno(&["fio", "two.fio", "--section=b", "--output-format=json"])
        .succeeds()
        .json();
    assert_eq!(result["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(result["jobs"][0]["jobname"], "b");
}

#[test]
fn errors_exit_with_1_and_do_not_write_to_standard_output() {
    let home = Home::new();
    for (arguments, text) in [
        (
            &["fio", "--name=t", "--rw=randread", "--sise=1m"][..],
            "size",
        ),
        (&["fio"], "job"),
        (&["fio", "missing.fio"], "missing.fio"),
        (
            &[
                "fio",
                "--name=t",
                "--rw=read",
                "--size=1m",
                "--directory=/no/such",
            ],
            "/no/such",
        ),
    ] {
        let done = home.iodyno(arguments).exits(1).stderr_has(text);
        assert_eq!(done.stdout, "", "{arguments:?}");
    }
}

#[test]
fn status_is_printed_at_intervals() {
    let home = Home::new();
    let options = ["--status-interval=1", "--output-format=json"];
    let running = home.start(&harness::fio(&options, &ENDLESS));
    running.wait_for("two documents", || {
        (running.stdout().matches("\"fio version\"").count() >= 2).then_some(())
    });
    running.signal(Signal::INT);
    let done = running.done().exits(128);
    // Those at intervals, and the final one.
    assert!(done.growing_documents() >= 3);
}

#[test]
fn each_status_has_the_statistics_of_the_disks() {
    let home = Home::new();
    let job = [
        "--name=t",
        "--rw=randread",
        "--ioengine=psync",
        "--size=1m",
        "--runtime=1h",
        "--time_based",
    ];
    let options = ["--status-interval=1", "--output-format=json"];
    let running = home.start(&harness::fio(&options, &job));
    running.wait_for("two documents", || {
        (running.stdout().matches("\"fio version\"").count() >= 2).then_some(())
    });
    running.signal(Signal::INT);
    let done = running.done().exits(128);
    let names: Vec<Vec<String>> = serde_json::Deserializer::from_str(&done.stdout)
        .into_iter::<serde_json::Value>()
        .map(|document| {
            let disks = document.unwrap()["disk_util"].clone();
            let disks = disks.as_array().cloned().unwrap_or_default();
            let names = disks.iter().map(|disk| disk["name"].to_string());
            names.collect()
        })
        .collect();
    if names.last().unwrap().is_empty() {
        return skip("no block device below the folder of the build");
    }
    assert!(names.iter().all(|own| *own == names[0]), "{names:?}");
}

#[test]
fn missing_folders_of_files_are_created_as_by_fio() {
    let home = Home::new();
    let write = |more: &[&str]| {
        let job = [
            "fio",
            "--name=b",
            "--rw=write",
            "--ioengine=psync",
            "--size=64k",
        ];
        home.iodyno(&[&job[..], more].concat())
    };
    let there = |path: &str| home.work().join(path).exists();
    write(&["--filename=d/sub/x", "--dry-run"]).succeeds();
    assert!(!there("d"));
    write(&["--filename=d/sub/x"]).succeeds();
    assert!(there("d/sub/x"));
    // The published job of a file system for buckets.
    let format = "--filename_format=e/$jobname/f.$filenum";
    write(&[format, "--nrfiles=2"]).succeeds();
    assert!(there("e/b/f.0") && there("e/b/f.1"));
    std::fs::create_dir(home.work().join("g")).unwrap();
    write(&["--directory=g", "--filename=h/i"]).succeeds();
    assert!(there("g/h/i"));
    // It may be a mount point.
    write(&["--directory=none"]).exits(1);
    let absolute = home.work().parent().unwrap().join("absolute/x");
    write(&[&format!("--filename={}", absolute.display())]).exits(1);
    assert!(!there("none") && !absolute.exists());
    // A trial that cannot start leaves no folder.
    write(&["--filename=k/l/m:d/sub/x/y"]).exits(1);
    assert!(!there("k"));
}

#[test]
fn a_path_that_is_not_utf_8_is_refused_by_name() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let home = Home::new();
    home.file("job.fio", "[t]\nsize=1m\n");
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    for arguments in [
        vec![
            text(b"run"),
            text(b"job.fio"),
            text(b"--on"),
            text(b"x=\xff"),
            text(b"--dry-run"),
        ],
        vec![text(b"run"), text(b"job\xff.fio")],
        vec![text(b"fio"), text(b"--name=a"), text(b"--output=\xff")],
        vec![text(b"--store"), text(b"\xff.db"), text(b"list")],
        vec![text(b"import"), text(b"\xff")],
        vec![text(b"mirror"), text(b"status"), text(b"\xff")],
    ] {
        let done = home.iodyno(&arguments).exits(2);
        assert!(done.stderr.contains("is not UTF-8"), "{}", done.stderr);
        assert!(done.stderr.contains("\\xFF"), "{}", done.stderr);
    }
    let folder = home.work().join(text(b"f\xff"));
    std::fs::create_dir(&folder).unwrap();
    let mut inside = home.command(&["run", "job.fio", "--dry-run"]);
    std::fs::write(folder.join("job.fio"), "[t]\nsize=1m\n").unwrap();
    inside.current_dir(&folder);
    let inside = inside.output().unwrap();
    let said = String::from_utf8_lossy(&inside.stderr);
    assert!(harness::contains(&said, "is not UTF-8"), "{said}");
}

#[test]
fn a_job_with_four_files_gives_a_complete_result() {
    let home = Home::new();
    // It ends by size and has a fixed seed: the share of reads among few ops of a slow disk would be random.
    home.file(
        "randrw.fio",
        "[global]\nioengine=libaio\nrw=randrw\nrwmixread=75\ngroup_reporting=1\ndirect=1\nbs=4k\niodepth=16\nrandseed=7\n\
         size=4m\n[a]\nfilename=f1\n[b]\nfilename=f2\n[c]\nfilename=f3\n[d]\nfilename=f4\n",
    );
    let result = home
        .iodyno(&["fio", "--output-format=json", "randrw.fio"])
        .succeeds()
        .json();
    let jobs = result["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 1, "group_reporting");
    let (reads, writes) = (
        jobs[0]["read"]["total_ios"].as_f64().unwrap(),
        jobs[0]["write"]["total_ios"].as_f64().unwrap(),
    );
    assert_eq!(reads + writes, 4096.0);
    assert!(
        (0.73..0.77).contains(&(reads / (reads + writes))),
        "{reads} reads, {writes} writes"
    );
}

/// The arguments of a job that verifies blocks of 4 KiB in `data`.
fn verifying<'a>(size: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let job = [
        "fio",
        "--name=v",
        "--filename=data",
        "--bs=4k",
        "--ioengine=psync",
        "--verify=crc32c",
    ];
    [&job[..], &[size], more].concat()
}

/// A text without its line breaks, which depend on the lengths of paths.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn blocks_that_fail_verification_are_named_on_standard_error() {
    let home = Home::new();
    let write = verifying("--size=64k", &["--rw=write"]);
    let read = verifying(
        "--size=64k",
        &[
            "--rw=read",
            "--continue_on_error=verify",
            "--output-format=json",
        ],
    );
    home.iodyno(&write).succeeds();
    let path = home.work().join("data");
    let mut content = std::fs::read(&path).unwrap();
    content[4096 + 1000] ^= 1;
    std::fs::write(&path, &content).unwrap();
    let done = home.iodyno(&read).exits(1);
    assert_eq!(done.json()["jobs"][0]["error"], 84);
    let told = unwrapped(&done.stderr);
    for part in [
        "error: job `v`: verification failed: 1 of 16 blocks differ",
        "data` at offset 4096, 4096 bytes: found a wrong checksum",
        "of the data, ",
        "in the header",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("more block"), "{told}");
    assert!(told.contains("check the storage"), "{told}");
    // Whole blocks that were written with another option are not the storage's fault.
    let other = |option: &str| {
        let read = [&read[..], &[option]].concat();
        unwrapped(&home.iodyno(&read).exits(1).stderr)
    };
    for (option, hint) in [
        ("--verify=md5", "use `verify=crc32c`, to verify"),
        ("--bs=8k", "use `bs=4096`, to verify"),
    ] {
        let told = other(option);
        assert!(told.contains(hint), "{option}: {told}");
        assert!(!told.contains("check the storage"), "{option}: {told}");
    }
    // Of many, the first ones are named and the others are counted.
    std::fs::write(&path, [0; 1 << 16]).unwrap();
    let told = unwrapped(&home.iodyno(&read).exits(1).stderr);
    for part in [
        "data` at offset 36864, 4096 bytes: found zeroes",
        "and 6 more blocks",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("40960"), "{told}");
    // Each failing trial of a run is named, the blocks only once.
    home.file(
        "only.fio",
        "[v]\nfilename=data\nrw=read\nbs=4k\nsize=64k\nioengine=psync\nverify=crc32c\n\
         continue_on_error=verify\n",
    );
    let done = home.iodyno(&["run", "only.fio", "--rounds", "2", "--no-settle"]);
    let done = done.exits(1);
    assert_eq!(
        done.stderr.matches("verification failed: 16 of 16").count(),
        2
    );
    assert_eq!(done.stderr.matches("at offset 4096, 4096 bytes").count(), 1);
}

#[test]
fn latencies_are_reported_by_priority() {
    let home = Home::new();
    let job = [
        "fio",
        "--name=t",
        "--ioengine=sim",
        "--sim_latency=exponential:1ms",
        "--rw=randrw",
        "--bssplit=4k/50:64k/50",
        "--size=16m",
        "--log_prio=1",
        "--write_lat_log=t",
        "--numjobs=2",
        "--group_reporting",
    ];
    let by_size = "--cmdprio_bssplit=4k/25/2/1:4k/75/3/2/5:64k/0,";
    let with = |more: &[&str]| home.iodyno(&[&job[..], more].concat()).exits(0);
    let done = with(&[by_size, "--lat_percentiles=1", "--output-format=json+"]);
    let read = &done.json()["jobs"][0]["read"];
    let priorities = read["prios"].as_array().unwrap();
    let classes = priorities.iter().map(|it| {
        let number = |key: &str| it[key].as_u64().unwrap();
        (number("prioclass"), number("prio"), number("priohint"))
    });
    let classes: Vec<_> = classes.collect();
    assert_eq!(classes, [(0, 0, 0), (2, 1, 0), (3, 2, 5)]);
    let sum = |key: &str| {
        let values = priorities
            .iter()
            .map(|it| it["lat_ns"][key].as_u64().unwrap());
        values.collect::<Vec<u64>>()
    };
    assert_eq!(
        sum("N").iter().sum::<u64>(),
        read["total_ios"].as_u64().unwrap()
    );
    assert_eq!(
        sum("min").iter().min().copied(),
        read["lat_ns"]["min"].as_u64()
    );
    assert_eq!(
        sum("max").iter().max().copied(),
        read["lat_ns"]["max"].as_u64()
    );
    for it in priorities {
        assert!(it.get("clat_ns").is_none());
        assert!(it["lat_ns"]["percentile"].is_object() && it["lat_ns"]["bins"].is_object());
    }
    assert!(done.json()["jobs"][0]["write"].get("prios").is_none());
    // The log has the priority of each op.
    let log =
        |number| std::fs::read_to_string(home.work().join(format!("t_lat.{number}.log"))).unwrap();
    let (log, low) = (log(1) + &log(2), 3 << 13 | 5 << 3 | 2);
    let low = log.matches(&format!(", 0x{low:04x}\n")).count();
    assert_eq!(low as u64, sum("N")[2]);

    let text = with(&[by_size]);
    let lines = text.stdout.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| line.contains("clat prio")).collect();
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert!(lines[0].starts_with("clat prio 0/0/0 ("), "{lines:#?}");
    assert!(lines[5].contains("% of IOs) percentiles"), "{lines:#?}");
    // Without ops of another priority, the comparison is empty.
    let done = with(&["--cmdprio_bssplit=1k/50", "--output-format=json"]);
    assert!(done.json()["jobs"][0]["read"].get("prios").is_none());
}

#[test]
fn failed_ops_are_named_on_standard_error() {
    let home = Home::new();
    let job = [
        "fio",
        "--name=t",
        "--ioengine=sim",
        "--rw=read",
        "--bs=4k",
        "--size=64k",
        "--sim_faults=eio:4",
    ];
    home.iodyno(&job)
        .exits(1)
        .stderr_has("error: job `t`: 1 op failed")
        .stderr_has("at offset 12288, 4096 bytes: EIO (Input/output error)");
    let goes_on = [&job[..], &["--continue_on_error=read"]].concat();
    home.iodyno(&goes_on)
        .stderr_has("warning: job `t`: 4 ops failed")
        .stderr_has("EIO (Input/output error); 3 more with this error");
}

#[test]
fn a_broken_limit_is_named_on_standard_error() {
    let home = Home::new();
    let job = [
        "fio",
        "--name=t",
        "--ioengine=sim",
        "--sim_latency=constant:1ms",
        "--rw=read",
        "--bs=4k",
        "--size=16m",
    ];
    for (limit, reason, failed_ops) in [
        (
            "--max_latency=500us",
            "error: job `t`: cannot keep to `max_latency`: a read took 1.00 ms, and at most 500 µs was allowed",
            true,
        ),
        (
            "--rate_iops_min=1001",
            "error: job `t`: cannot keep to `rate_iops_min`: reads came to 1000.0/s over 1.00 s, and 1001/s is the least",
            false,
        ),
    ] {
        let done = home.iodyno(&[&job[..], &[limit]].concat()).exits(1);
        assert_eq!(done.stderr.contains("1 op failed"), failed_ops);
        done.stderr_has(reason);
    }
    // Failed ops explain a failure.
    let done = home.iodyno(&[&job[..], &["--sim_faults=eio:4"]].concat());
    assert_eq!(done.exits(1).stderr.matches("error: ").count(), 1);
}

#[test]
fn enospc_ends_a_job_that_continues_after_errors_unless_it_is_ignored() {
    let home = Home::new();
    let job = [
        "fio",
        "--name=t",
        "--filename=/dev/full",
        "--ioengine=psync",
        "--rw=write",
        "--bs=64k",
        "--size=1m",
        "--continue_on_error=all",
    ];
    home.iodyno(&job)
        .exits(1)
        .stderr_has("error: job `t`: 1 op failed");
    home.iodyno(&[&job[..], &["--ignore_error=,ENOSPC"]].concat())
        .succeeds();
}

#[test]
fn bytes_that_are_not_utf_8_are_accepted_in_comments_and_descriptions() {
    let home = Home::new();
    let job = b"# caf\xe9\n[t]\nioengine=null\nrw=read\nsize=1m\ndescription=caf\xe9\n";
    std::fs::write(home.work().join("job.fio"), job).unwrap();
    home.iodyno(&["fio", "job.fio"]).succeeds();
    std::fs::write(
        home.work().join("job.fio"),
        [&job[..], b"filename=\xe9"].concat(),
    )
    .unwrap();
    home.iodyno(&["fio", "job.fio"])
        .exits(1)
        .stderr_has("error: the line contains bytes that are not UTF-8")
        .stderr_has("job.fio:7:1");
}

/// The `read` and `write` sections of the first job.
fn sections(done: crate::harness::Done) -> [serde_json::Value; 2] {
    let job = &done.succeeds().json()["jobs"][0];
    ["read", "write"].map(|section| job[section].clone())
}

#[test]
fn reads_that_verify_are_counted_as_fio_does() {
    // The reads that verify are as many as the blocks written, and of their sizes.
    for (options, backlog) in [
        (&["--rw=randwrite"][..], 0),
        (&["--rw=write", "--bsrange=4k-16k"], 0),
        (&["--rw=write", "--verify_backlog=16"], 16),
        (
            &["--rw=write", "--verify_backlog=10", "--verify_async=2"],
            10,
        ),
        (&["--rw=randrw"], 0),
        (&["--rw=randrw", "--verify_backlog=8"], 8),
        (
            &["--rw=write", "--verify=pattern", "--verify_pattern=0xab"],
            0,
        ),
    ] {
        let home = Home::new();
        let format = ["--output-format=json"];
        let arguments = verifying("--size=1m", &[options, &format[..]].concat());
        let [read, write] = sections(home.iodyno(&arguments));
        let (ios, bytes) = (&write["total_ios"], &write["io_bytes"]);
        let mixed = options.contains(&"--rw=randrw");
        match mixed {
            true => assert_eq!(read["total_ios"], 256, "{options:?}"),
            false => assert_eq!(read["total_ios"], *ios, "{options:?}"),
        }
        assert_eq!(read["io_bytes"], 1 << 20, "{options:?}");
        assert_eq!(*bytes == read["io_bytes"], !mixed, "{options:?}");
        for latency in ["lat_ns", "clat_ns"] {
            assert_eq!(read[latency]["N"], read["total_ios"], "{options:?}");
        }
        let runtime = |section: &serde_json::Value| section["runtime"].as_u64().unwrap();
        assert!(runtime(&read) > 0, "{options:?}");
        // The time in which both happened counts for both.
        if mixed || (backlog > 0) {
            assert!(runtime(&read) + 1 >= runtime(&write), "{options:?}");
        }
    }
    let home = Home::new();
    let more = ["--rw=write", "--do_verify=0", "--output-format=json"];
    let [read, write] = sections(home.iodyno(&verifying("--size=64k", &more)));
    assert_eq!(
        (&read["total_ios"], &write["total_ios"]),
        (&0.into(), &16.into())
    );
    let more = ["--rw=write", "--verify_only=1", "--output-format=json"];
    let [read, write] = sections(home.iodyno(&verifying("--size=64k", &more)));
    // As in fio, writes are reported that were not done.
    assert_eq!(
        (&read["total_ios"], &write["total_ios"]),
        (&16.into(), &16.into())
    );
    // `run` keeps them apart.
    home.file(
        "w.fio",
        "[v]\nfilename=data\nrw=write\nbs=4k\nsize=64k\nioengine=psync\nverify=crc32c\n",
    );
    let done = home.iodyno(&["run", "w.fio", "--json"]).succeeds();
    let group = &done.json()["trials"][0]["groups"][0];
    assert_eq!(group["verify"]["checked"], 16);
    let rows = group["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["direction"], "write");
}

#[test]
fn commands_of_jobs_run_only_if_the_user_allows_it() {
    let home = Home::new();
    let text = "[global]\nioengine=psync\nbs=4k\nsize=8k\n[a]\nrw=write\nexec_prerun=ls && echo no >&2\nexec_postrun=ls\n\
         [b]\nstonewall\nrw=read\nfilename=a.0.0\nexec_prerun=ls\n";
    home.file("c.fio", text);
    for (command, code) in [("fio", 1), ("run", 3)] {
        let refused = home.iodyno(&[command, "c.fio"]).exits(code);
        assert!(refused.stderr.contains("`exec_prerun=ls && echo no >&2`"));
        assert!(refused.stderr.contains("`exec_postrun=ls`"));
        assert!(refused.stderr.contains("--allow-exec"));
        let names = std::fs::read_dir(home.work()).unwrap();
        assert_eq!(names.count(), 1, "only the job file");
    }
    for command in ["fio", "run"] {
        home.iodyno(&[command, "--allow-exec", "c.fio"]).succeeds();
        let output = |name: &str| std::fs::read_to_string(home.work().join(name)).unwrap();
        // Each command saw the results of the previous one.
        assert_eq!(output("a.prerun.txt"), "a.0.0\na.prerun.txt\nc.fio\nno\n");
        assert_eq!(
            output("a.postrun.txt"),
            "a.0.0\na.postrun.txt\na.prerun.txt\nc.fio\n"
        );
        assert_eq!(
            output("b.prerun.txt"),
            "a.0.0\na.postrun.txt\na.prerun.txt\nb.prerun.txt\nc.fio\n"
        );
        for name in ["a.0.0", "a.postrun.txt", "a.prerun.txt", "b.prerun.txt"] {
            std::fs::remove_file(home.work().join(name)).unwrap();
        }
    }
    let failing = [
        "--name=t",
        "--size=8k",
        "--rw=write",
        "--exec_prerun=exit 7",
    ];
    home.iodyno(&harness::fio(&["--allow-exec"], &failing))
        .exits(1)
        .stderr_has("exec_prerun")
        .stderr_has("exit status: 7");
    assert!(!home.work().join("t.postrun.txt").exists());
}

#[test]
fn the_output_of_a_command_overwrites_no_disk_image_and_follows_no_link_of_others() {
    let home = Home::new();
    let command = [
        "--name=t",
        "--size=8k",
        "--rw=write",
        "--exec_prerun=touch ran",
    ];
    let refused = || {
        let done = home
            .iodyno(&harness::fio(&["--allow-exec"], &command))
            .exits(1);
        assert!(!home.work().join("ran").exists());
        done.stderr_has("t.prerun.txt")
    };
    let image = [&b"QFI\xfb\0\0\0\x03"[..], &[0; 1 << 20]].concat();
    let output = home.work().join("t.prerun.txt");
    std::fs::write(&output, &image).unwrap();
    refused();
    assert_eq!(std::fs::read(&output).unwrap(), image);
    if !harness::root() {
        return skip("only root can give a link to another user");
    }
    std::fs::remove_file(&output).unwrap();
    let mine = home.file("mine", "mine");
    symlink(&mine, &output).unwrap();
    lchown(&output, Some(65534), None).unwrap();
    home.open_to_all();
    refused();
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
}

#[test]
fn an_interruption_ends_the_command_of_a_job() {
    let home = Home::new();
    let job = [
        "--name=t",
        "--size=8k",
        "--rw=write",
        "--exec_prerun=echo $$; exec sleep 1000",
    ];
    let running = home.start(&harness::fio(&["--allow-exec"], &job));
    let output = home.work().join("t.prerun.txt");
    let process = wait_for("the command", || {
        let text = std::fs::read_to_string(&output).ok()?;
        text.ends_with('\n').then(|| text.trim().parse().ok())?
    });
    running.signal(Signal::INT);
    running.done().exits(128);
    assert!(!alive(rustix::process::Pid::from_raw(process).unwrap()));
}
