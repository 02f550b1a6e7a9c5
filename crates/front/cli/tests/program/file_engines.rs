//! fio's engines that work on names, and those that change the space of files.

use std::fs;

use serde_json::Value;

use crate::harness::{Done, Home};

fn fio(home: &Home, options: &[&str]) -> Done {
    let format = ["fio", "--output-format=json", "--name=x"];
    home.iodyno(&[&format, options].concat())
}

fn job(home: &Home, options: &[&str]) -> Value {
    fio(home, options).succeeds().json()["jobs"][0].clone()
}

fn entries(home: &Home, folder: &str) -> usize {
    fs::read_dir(home.work().join(folder)).unwrap().count()
}

#[test]
fn each_op_of_a_file_engine_is_one_file_and_nothing_is_left() {
    let home = Home::new();
    fs::create_dir(home.work().join("d")).unwrap();
    fs::write(home.work().join("d/x.0.0"), "of the user").unwrap();
    for engine in [
        "filecreate",
        "filestat",
        "filedelete",
        "dircreate",
        "dirstat",
        "dirdelete",
    ] {
        let engine = format!("--ioengine={engine}");
        let options = [
            "--directory=d",
            "--nrfiles=5",
            "--filesize=4k",
            "--numjobs=2",
            &engine,
        ];
        for (rw, direction) in [("--rw=read", "read"), ("--rw=write", "write")] {
            let more = [&options[..], &["--group_reporting", rw]].concat();
            let job = job(&home, &more);
            assert_eq!(job[direction]["total_ios"], 10, "{engine}");
            assert_eq!(job[direction]["io_bytes"], 10 * 4096, "{engine}");
            assert_eq!(job[direction]["clat_ns"]["N"], 10, "{engine}");
            assert_eq!(job["error"], 0);
        }
        assert_eq!(entries(&home, "d"), 1, "{engine}");
        let kept = fs::read_to_string(home.work().join("d/x.0.0")).unwrap();
        assert_eq!(kept, "of the user");
        fio(
            &home,
            &["--readonly", &engine, "--nrfiles=2", "--filesize=4k"],
        )
        .exits(1)
        .stderr_has("creates files");
    }
    // As in the public jobs that name files, but the named file is not removed.
    let named = [
        "--ioengine=filedelete",
        "--filename=d/x.0.0",
        "--filesize=4k",
    ];
    fio(&home, &named)
        .succeeds()
        .stderr_has("works on files that the trial makes");
    let kept = fs::read_to_string(home.work().join("d/x.0.0")).unwrap();
    assert_eq!(kept, "of the user");
    assert_eq!(entries(&home, "d"), 1);
}

#[test]
fn space_is_reserved_punched_and_cut() {
    let home = Home::new();
    let length = || fs::metadata(home.work().join("f")).unwrap().len();
    let base = ["--filename=f", "--size=64k", "--bs=4k"];
    let run = |more: &[&str]| job(&home, &[&base[..], more].concat());
    let wrote = run(&["--ioengine=falloc", "--rw=write", "--fallocate=none"]);
    assert_eq!(wrote["write"]["total_ios"], 16);
    assert_eq!(wrote["write"]["io_bytes"], 65536);
    assert_eq!(length(), 65536);
    assert_eq!(
        run(&["--ioengine=falloc", "--rw=randtrim"])["trim"]["total_ios"],
        16
    );
    assert_eq!(
        run(&["--ioengine=falloc", "--rw=read"])["read"]["total_ios"],
        16
    );
    assert_eq!(length(), 65536);
    assert_eq!(
        run(&["--ioengine=ftruncate", "--rw=write"])["write"]["total_ios"],
        16
    );
    assert_eq!(length(), 61440);
    fio(
        &home,
        &[&base[..], &["--ioengine=ftruncate", "--rw=read"]].concat(),
    )
    .exits(1)
    .stderr_has("supports only writes");
    fio(
        &home,
        &[
            &base[..],
            &["--ioengine=falloc", "--rw=write", "--verify=crc32c"],
        ]
        .concat(),
    )
    .exits(1)
    .stderr_has("writes no data that could be verified");
}
