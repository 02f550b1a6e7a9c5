//! `check`: every error and warning of a job file, with line and column.

use crate::harness::Home;

const FAULTY: &str = "\
[global]
ioengine=libaoi
bs=4x
[reader]
rw=randread
iodepth=16
size=1g
runtime=1min
readwirte=read
[writer]
rw=wriet
size=4KiB
";

#[test]
fn every_error_is_reported_with_its_position() {
    let home = Home::new();
    home.file("faulty.fio", FAULTY);
    let done = home.iodyno(&["check", "faulty.fio"]).exits(2);
    insta::assert_snapshot!(done.stdout + "-- stderr\n" + &done.stderr);
}

#[test]
fn errors_are_data_for_programs() {
    let home = Home::new();
    home.file("faulty.fio", FAULTY);
    let found = home
        .iodyno(&["check", "--json", "faulty.fio"])
        .exits(2)
        .json();
    let lines: Vec<u64> = found["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|fault| fault["severity"] == "error")
        .map(|fault| fault["line"].as_u64().unwrap())
        .collect();
    for line in [2, 3, 8, 9, 11] {
        assert!(lines.contains(&line), "line {line} is not among {lines:?}");
    }
}

#[test]
fn warnings_alone_are_not_an_error() {
    let home = Home::new();
    home.file(
        "odd.fio",
        "[t]\nrw=read\nsize=64KiB\niodepth=32\nioengine=psync\n",
    );
    home.file("good.fio", "[t]\nrw=read\nsize=4k\n");
    home.iodyno(&["check", "odd.fio"])
        .succeeds()
        .prints("warning");
    home.iodyno(&["check", "good.fio"]).succeeds();
    home.iodyno(&["check", "good.fio", "odd.fio", "missing.fio"])
        .exits(2);
}

#[test]
fn unsupported_options_are_distinguished_from_errors() {
    let home = Home::new();
    home.file("good.fio", "[t]\nrw=read\nsize=4k\n");
    home.file("server.fio", "[t]\nioengine=rbd\nrw=read\nsize=4k\n");
    home.file("slip.fio", "[t]\nrw=raed\nsize=4k\n");
    let refused = home.iodyno(&["check", "good.fio", "server.fio"]).exits(1);
    assert!(
        refused
            .stdout
            .contains("server.fio: valid, but not supported by iodyno: "),
        "{}",
        refused.stdout
    );
    assert!(refused.stdout.contains("(line 2)"), "{}", refused.stdout);
    for (files, code, verdict) in [
        (vec!["good.fio"], 0, "runnable"),
        (vec!["good.fio", "server.fio"], 1, "refused"),
        (vec!["server.fio", "slip.fio", "good.fio"], 2, "faulty"),
    ] {
        let mut arguments = vec!["check", "--json"];
        arguments.extend(&files);
        let found = home.iodyno(&arguments).exits(code).json();
        assert_eq!(found["verdict"], verdict, "{files:?}");
        let told = found["files"].as_array().unwrap();
        assert_eq!(told.len(), files.len());
        assert!(told.iter().any(|file| file["verdict"] == verdict));
    }
}
