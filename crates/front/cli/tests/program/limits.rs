//! The limits of a process: of the length of files, and of the number of descriptors.

use std::path::Path;

use crate::harness::{Done, Home, Running, iodyno};

/// Runs the program after a command of the shell.
fn limited(home: &Home, limit: &str, arguments: &[&str]) -> Done {
    let mut shell = home.program(Path::new("/bin/sh"));
    let script = format!("{limit} && exec \"$0\" \"$@\"");
    shell.args(["-c", &script, iodyno()]);
    shell.args(arguments);
    Running::of(shell).done()
}

#[test]
fn a_write_beyond_the_limit_of_files_is_an_error_and_kills_nothing() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nioengine=psync\nrw=write\nbs=64k\nsize=8m\nfallocate=none\n",
    );
    // In blocks of 512 bytes: 1 MiB, more than the store and less than the job.
    let done = limited(&home, "ulimit -f 2048", &["run", "job.fio", "--no-settle"]);
    let done = done.exits(4);
    let told = done.stderr.to_lowercase() + &done.stdout.to_lowercase();
    assert!(
        told.contains("efbig") || told.contains("too large"),
        "{told}"
    );
    // A store that cannot grow is full.
    let done = limited(&home, "ulimit -f 64", &["run", "job.fio", "--no-settle"]);
    done.exits(2)
        .stderr_has("no space left for the store")
        .stderr_has("ulimit -f");
}

#[test]
fn a_job_runs_with_as_few_descriptors_as_with_fio() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nioengine=psync\nrw=write\nbs=4k\nsize=64k\n",
    );
    limited(&home, "ulimit -n 64", &["run", "job.fio", "--no-settle"]).succeeds();
    home.file(
        "many.fio",
        "[t]\nioengine=psync\nrw=write\nbs=4k\nsize=1m\nnrfiles=100\n",
    );
    limited(&home, "ulimit -n 64", &["run", "many.fio", "--no-settle"])
        .exits(4)
        .stderr_has("files would be open at once; the limit is 64");
}
