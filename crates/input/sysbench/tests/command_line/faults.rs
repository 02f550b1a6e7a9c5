//! Diagnostics, with location and remedy.

use iodyno_model::{Diagnostic, Severity};
use iodyno_sysbench as sysbench;

use crate::{arguments, read};

/// `argument severity message / hint`; the argument is the text at the location.
fn told(said: &[Diagnostic]) -> Vec<String> {
    let one = |said: &Diagnostic| {
        let severity = match said.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let at = said.place.as_ref().map_or("-".to_owned(), |place| {
            let skipped = place.text.chars().skip(place.column as usize - 1);
            skipped.take(place.length as usize).collect()
        });
        let hint = said.hint.as_deref().unwrap_or("-");
        format!("{at} | {severity} {} | {hint}", said.message)
    };
    said.iter().map(one).collect()
}

fn faults(text: &str) -> Vec<String> {
    match sysbench::read(&arguments(text)) {
        Ok(command) => panic!("{text} is taken: {:?}", command.action),
        Err(said) => told(&said),
    }
}

fn notes(text: &str) -> Vec<String> {
    told(&read(text).notes)
}

#[test]
fn errors_have_a_location_and_a_remedy() {
    for (text, told) in [
        (
            "",
            "- | error there is no command | end with prepare, run, cleanup or help",
        ),
        (
            "run",
            "- | error `run` needs `--file-test-mode` | one of seqwr, seqrewr, seqrd, rndrd, rndwr, rndrw",
        ),
        (
            "--file-test-mod=rndrd prepare",
            "--file-test-mod=rndrd | error unknown option `--file-test-mod` | did you mean `--file-test-mode`?",
        ),
        (
            "--thread=4 prepare",
            "--thread=4 | error unknown option `--thread` | did you mean `--threads`?",
        ),
        (
            "--no-validate prepare",
            "--no-validate | error unknown option `--no-validate` | write `--validate=off`",
        ),
        (
            "--store=x prepare",
            "--store=x | error unknown option `--store` | `--store` belongs before `fileio`",
        ),
        (
            "--qqqqqqqqqq prepare",
            "--qqqqqqqqqq | error unknown option `--qqqqqqqqqq` | `iodyno fileio help` lists all options",
        ),
        (
            "--file-test-mode=seqrdd run",
            "--file-test-mode=seqrdd | error `--file-test-mode`: `seqrdd` is not one of its values | did you mean `seqrd`?",
        ),
        (
            "--threads 4 prepare",
            "--threads | error `--threads` needs a value | a value follows `=`: `--threads=4`",
        ),
        (
            "--threads= prepare",
            "--threads= | error `--threads` needs a value | write `--threads=…` (a count)",
        ),
        (
            "--file-test-mode run",
            "--file-test-mode | error `--file-test-mode` needs a value | write `--file-test-mode=…` (one of seqwr, seqrewr, seqrd, rndrd, rndwr, rndrw)",
        ),
        (
            "-threads=4 prepare",
            "-threads=4 | error `-threads=4` is neither an option nor a command | options begin with two dashes: `--threads=4`",
        ),
        (
            "--threads=4x prepare",
            "--threads=4x | error `--threads`: `4x` is not a whole number | no suffixes are taken here",
        ),
        (
            "--threads=0 prepare",
            "--threads=0 | error `--threads`: `0` is not within 1 … 65536 | -",
        ),
        (
            "--file-num=0 cleanup",
            "--file-num=0 | error `--file-num`: `0` is not within 1 … 2147483647 | -",
        ),
        (
            "--file-total-size=1.5G prepare",
            "--file-total-size=1.5G | error `--file-total-size`: `1.5G` has a fraction | sizes are whole numbers: `1536M` for 1.5G",
        ),
        (
            "--file-total-size=2Q prepare",
            "--file-total-size=2Q | error `--file-total-size`: `2Q` is not a size | write `4096`, `16K`, `512M`, `2G`",
        ),
        (
            "--file-total-size=0 prepare",
            "--file-total-size=0 | error `--file-total-size` is 0 | give a size",
        ),
        (
            "--file-block-size=0 prepare",
            "--file-block-size=0 | error `--file-block-size` is 0 | give a size",
        ),
        (
            "--time=1m prepare",
            "--time=1m | error `--time`: `1m` is not a number of at least 0 | a time is given in seconds",
        ),
        (
            "--percentile=101 prepare",
            "--percentile=101 | error `--percentile`: `101` is not within 0 … 100 | -",
        ),
        (
            "--validate=maybe prepare",
            "--validate=maybe | error `--validate`: `maybe` is neither on nor off | -",
        ),
        (
            "--file-extra-flags=direct,snyc prepare",
            "--file-extra-flags=direct,snyc | error `--file-extra-flags`: `snyc` is not one of its values | did you mean `sync`?",
        ),
        (
            "--file-async-backlog=0 prepare",
            "--file-async-backlog=0 | error `--file-async-backlog`: `0` is not within 1 … 65536 | -",
        ),
        (
            "--rand-pareto-h=1 prepare",
            "--rand-pareto-h=1 | error `--rand-pareto-h`: `1` is not between 0 and 1 | -",
        ),
        (
            "--file-rw-ratio=-1 prepare",
            "--file-rw-ratio=-1 | error `--file-rw-ratio`: `-1` is not a number of at least 0 | -",
        ),
        (
            "--config-file=x prepare",
            "--config-file=x | error `--config-file` is not supported: options are read from the command line only | write its lines as options",
        ),
        (
            "--report-checkpoints=5,10 prepare",
            "--report-checkpoints=5,10 | error `--report-checkpoints` is not supported: a trial has one report | leave it out: each second is stored, and `--report-interval` prints during the run",
        ),
        (
            "prepare run",
            "run | error there is more than one command | give one after the other, each with all options",
        ),
        (
            "prepair",
            "prepair | error `prepair` is neither an option nor a command | did you mean `prepare`?",
        ),
        (
            "cpu prepare",
            "cpu | error the test `cpu` is not supported | only fileio is",
        ),
        (
            "oltp_read_write prepare",
            "oltp_read_write | error the test `oltp_read_write` is not supported | only fileio is",
        ),
        (
            "--test=memory prepare",
            "--test=memory | error the test `memory` is not supported | only fileio is",
        ),
        (
            "fileio fileio prepare",
            "fileio | error the test is named twice | leave one of them out",
        ),
        (
            "--file-block-size=32M --file-total-size=2G prepare",
            "--file-total-size=2G | error 128 files of 2 GiB together have 16 MiB each, which is less than a block of 32 MiB | use `--file-total-size=4294967296` or more, fewer files or smaller blocks",
        ),
        (
            "--file-total-size=1M prepare",
            "--file-total-size=1M | error 128 files of 1 MiB together have 8 KiB each, which is less than a block of 16 KiB | use `--file-total-size=2097152` or more, fewer files or smaller blocks",
        ),
        (
            "--file-block-size=3G --file-total-size=1T prepare",
            "--file-block-size=3G | error a block of 3 GiB is longer than a request may be, 1 GiB | -",
        ),
        (
            "--file-block-size=1000 --file-extra-flags=direct prepare",
            "--file-block-size=1000 | error `direct` needs whole sectors of 512 bytes; a block has 1000 bytes | use `--file-block-size=1024`",
        ),
        (
            "--file-num=100 --file-total-size=2G --file-extra-flags=direct prepare",
            "--file-total-size=2G | error `direct` needs whole sectors of 512 bytes; each of 100 files has 21474836 bytes | use `--file-total-size=2146304000`: whole blocks in each file",
        ),
        (
            "--file-io-mode=mmap --file-extra-flags=direct --file-test-mode=rndrd run",
            "--file-extra-flags=direct | error `direct` does not apply to a mapped file, whose I/O goes through the page cache | leave the flag out, or use `--file-io-mode=sync`",
        ),
        (
            "--file-io-mode=mmap --file-extra-flags=dsync --file-test-mode=rndwr run",
            "--file-extra-flags=dsync | error `dsync` does not apply to a mapped file, whose I/O goes through the page cache | leave the flag out, or use `--file-io-mode=sync`",
        ),
        (
            "--validate --file-block-size=12 prepare",
            "--validate | error a block has 12 bytes, and `--validate` needs 12 for a checksum and an offset | use larger blocks",
        ),
        (
            "--file-merged-requests=3 --file-block-size=1G --file-total-size=1T --file-test-mode=seqrd run",
            "--file-merged-requests=3 | error 3 blocks of 1 GiB are longer than a request may be, 1 GiB | -",
        ),
        (
            "-- prepare",
            "-- | error unknown option `--` | `iodyno fileio help` lists all options",
        ),
    ] {
        let faults = faults(text);
        assert!(faults.contains(&told.to_owned()), "{text}\n{faults:#?}");
        let errors = faults.iter().filter(|fault| fault.contains(" | error "));
        assert_eq!(errors.count(), 1, "{text}\n{faults:#?}");
    }
}

#[test]
fn all_errors_are_reported_at_once_in_order() {
    let faults = faults("--thread=4 --time=x -a --file-num=1q --file-io-mode=fast bla");
    let places: Vec<&str> = faults
        .iter()
        .map(|fault| fault.split(" | ").next().unwrap())
        .collect();
    assert_eq!(
        places,
        [
            "--thread=4",
            "--time=x",
            "-a",
            "--file-num=1q",
            "--file-io-mode=fast",
            "bla"
        ]
    );
}

#[test]
fn surprising_options_give_warnings_and_are_accepted() {
    for (text, told) in [
        (
            "--num-threads=1 prepare",
            "--num-threads=1 | note `--num-threads` is an old name of `--threads` | write `--threads`",
        ),
        (
            "--max-time=1 prepare",
            "--max-time=1 | note `--max-time` is an old name of `--time` | write `--time`",
        ),
        (
            "--test=fileio prepare",
            "--test=fileio | note `--test` is an old way of naming the test | leave it out: the test is always fileio",
        ),
        (
            "--seed-rng=1 prepare",
            "--seed-rng=1 | note `--init-rng` is ignored: every run is seeded; `--rand-seed` repeats one | leave it out",
        ),
        (
            "--threads=16 prepare",
            "--threads=16 | note files are prepared by one thread, as sysbench does, whatever `--threads` says | -",
        ),
        (
            "--time=0 --file-test-mode=rndrd run",
            "--time=0 | warning neither `--time` nor `--events` ends the run | it runs until Ctrl-C",
        ),
        (
            "--rand-type=pareto --file-test-mode=rndrd run",
            "--rand-type=pareto | warning `--rand-type` takes effect here; sysbench's fileio ignores it and draws uniformly | leave it out to compare with sysbench's figures",
        ),
        (
            "--rand-type=pareto --file-test-mode=seqrd run",
            "--rand-type=pareto | note `--rand-type` has no effect on `seqrd` | -",
        ),
        (
            "--file-rw-ratio=2 --file-test-mode=rndrd run",
            "--file-rw-ratio=2 | note `--file-rw-ratio` has no effect on `rndrd` | -",
        ),
        (
            "--file-merged-requests=8 --file-test-mode=rndrd run",
            "--file-merged-requests=8 | note `--file-merged-requests` has no effect on `rndrd` | -",
        ),
        (
            "--file-io-mode=async --file-test-mode=rndrd run",
            "--file-io-mode=async | warning the kernel does buffered asynchronous requests one at a time, within submission | add `--file-extra-flags=direct`; if buffered requests are meant, `--file-extra-flags=`",
        ),
        (
            "--file-async-backlog=8 --file-test-mode=rndrd run",
            "--file-async-backlog=8 | note `--file-async-backlog` has no effect without `--file-io-mode=async` | -",
        ),
        (
            "--file-fsync-all --file-fsync-freq=10 --file-test-mode=rndwr run",
            "--file-fsync-freq=10 | note `--file-fsync-all` turns `--file-fsync-freq` off | -",
        ),
        (
            "--file-num=3 --file-total-size=1M prepare",
            "--file-total-size=1M | note 1048576 bytes do not divide into 3 files: each has 349525, and 1 are left out | -",
        ),
        (
            "--time=5 --time=6 prepare",
            "--time=6 | note `--time` is given again | the last one counts",
        ),
    ] {
        assert_eq!(notes(text), [told], "{text}");
    }
    for text in [
        "--rand-type=uniform --file-test-mode=rndrd run",
        "--file-fsync-all --file-test-mode=rndwr run",
        "--file-io-mode=async --file-extra-flags=direct --file-test-mode=rndrd run",
        "--file-io-mode=async --file-extra-flags= --file-test-mode=rndrd run",
        "--file-fsync-end=off --threads=2 cleanup",
        "--time=0 prepare",
        "--forced-shutdown=off --verbosity=3 prepare",
    ] {
        assert_eq!(notes(text), [""; 0], "{text}");
    }
}
