use std::io::Write;
use std::process::Command;

use iodyno_judge::testing::operations as made;
use iodyno_model::{
    Direction, ErrorCount, Histogram, Job, SharedMode, Step, StepTime, Trial, VerifyResult,
    Workload,
};
use iodyno_units::Nanos;

use super::{Live, Options, explanation, histogram, interval, preamble, prepared, result};

/// The output of sysbench 1.0.20 with the figures of the trial.
const FIGURES: &str = "
File operations:
    reads/s:                      3000.00
    writes/s:                     2000.00
    fsyncs/s:                     6400.00

Throughput:
    read, MiB/s:                  46.88
    written, MiB/s:               31.25

General statistics:
    total time:                          20.0000s
    total number of events:              228000

Latency (ms):
         min:                                    0.01
         avg:                                    0.15
         max:                                    0.25
         95th percentile:                        0.25
         sum:                                33400.00

Threads fairness:
    events (avg/stddev):           114000.0000/0.00
    execution time (avg/stddev):   16.7000/0.00

";

#[test]
fn figures_are_where_sysbench_prints_them() {
    let (workload, trial) = made::fileio_trial();
    let text = result(&workload, &trial, &Options::default());
    let ours = text.strip_prefix(FIGURES);
    insta::assert_snapshot!(ours.unwrap_or(&text));
}

#[test]
fn additional_lines_do_not_contain_the_labels_of_sysbench() {
    let (workload, mut trial) = made::fileio_trial();
    for clone in &mut trial.parts[0].clones {
        clone.errors = vec![ErrorCount {
            direction: Direction::Sync,
            errno: 5,
            count: 2,
            first_file: "test_file.7".to_owned(),
            first_offset: 0,
            first_length: 0,
        }];
        clone.verify = Some(VerifyResult {
            checked: 10,
            corrupt: 1,
            first: Some("test_file.7 at 16384".to_owned()),
            ..VerifyResult::default()
        });
        clone.directions[0].response = Some([30_000_000; 30].into_iter().collect());
    }
    trial.parts[0].steps.push(StepTime {
        step: Step::EndFsync,
        job: Some(0),
        start_ns: 20_000_000_000,
        span_ns: 1_310_000_000,
    });
    let text = result(&workload, &trial, &Options::default());
    let added = text.strip_prefix(FIGURES).unwrap();
    for word in [
        "reads",
        "writes",
        "fsyncs",
        "read,",
        "written",
        "total",
        "events",
        "min",
        "avg",
        "max",
        "percentile",
        "sum",
        "execution",
        "stddev",
        "latency",
        "Latency",
        "Throughput",
        "General",
        "File op",
    ] {
        assert!(!added.contains(word), "{word}: {added}");
    }
    for told in [
        "since due",
        "afterwards all files were synced in 1.31 s",
        "fsync failed 2 ×: EIO, first in test_file.7 at byte 0",
        "validation: 20 blocks checked, 2 bad, first: test_file.7 at 16384",
    ] {
        assert!(added.contains(told), "{told}: {added}");
    }
}

#[test]
fn percentiles_have_sysbenchs_names_and_can_be_off() {
    let (workload, trial) = made::fileio_trial();
    let line = |percentile: f64| {
        let options = Options {
            percentile,
            ..Options::default()
        };
        let text = result(&workload, &trial, &options);
        let found = text.lines().find(|line| line.contains("percentile"));
        found.unwrap().to_owned()
    };
    assert_eq!(
        line(99.0),
        "         99th percentile:                        0.25"
    );
    assert_eq!(
        line(1.0),
        "          1th percentile:                        0.01"
    );
    assert_eq!(
        line(100.0),
        "        100th percentile:                        0.25"
    );
    assert_eq!(
        line(99.9),
        "        99.9th percentile:                       0.25"
    );
    assert_eq!(
        line(0.0),
        "         percentile stats:               disabled"
    );
}

#[test]
fn different_threads_have_a_population_deviation() {
    let (workload, mut trial) = made::fileio_trial();
    trial.parts[0].clones[1].directions.clear();
    let text = result(&workload, &trial, &Options::default());
    assert!(
        text.contains("events (avg/stddev):           57000.0000/57000.00\n"),
        "{text}"
    );
    assert!(
        text.contains("execution time (avg/stddev):   8.3500/8.35\n"),
        "{text}"
    );
}

#[test]
fn an_empty_result_keeps_the_form() {
    let (workload, mut trial) = made::fileio_trial();
    trial.parts.clear();
    let text = result(
        &workload,
        &trial,
        &Options {
            histogram: true,
            ..Options::default()
        },
    );
    assert!(
        text.contains("    reads/s:                      0.00\n"),
        "{text}"
    );
    assert!(
        text.contains("    total time:                          0.0000s\n"),
        "{text}"
    );
    assert!(!text.contains("NaN"), "{text}");
}

fn check_preamble(job: &Job, seed: Option<u64>, every: Option<Nanos>, expected: &str) {
    assert_eq!(preamble(job, seed, every), expected);
}

#[test]
fn settings_are_printed_in_sysbenchs_form() {
    let mut job = made::fileio(SharedMode::RandomMix);
    (
        job.work.shared_files_mut().unwrap().count,
        job.work.engine_mut().unwrap().direct,
    ) = (4, true);
    job.pacing.ops_per_s = 250.0;
    check_preamble(
        &job,
        Some(7),
        Some(Nanos::from_secs(1)),
        "Running the test with following options:\n\
         Number of threads: 2\n\
         Target transaction rate: 500/sec\n\
         Report intermediate results every 1 second(s)\n\
         Initializing random number generator from seed (7).\n\
         \n\
         \n\
         Extra file open flags: directio\n\
         4 files, 16MiB each\n\
         64MiB total file size\n\
         Block size 16KiB\n\
         Number of IO requests: 0\n\
         Read/Write ratio for combined random IO test: 1.50\n\
         Periodic FSYNC enabled, calling fsync() each 100 requests.\n\
         Calling fsync() at the end of test, Enabled.\n\
         Using synchronous I/O mode\n\
         Doing random r/w test\n\
         Initializing worker threads...\n\
         \n\
         Threads started!\n\
         \n",
    );
    let mut job = made::fileio(SharedMode::SequentialWrite);
    (
        job.work.shared_files_mut().unwrap().count,
        job.work.engine_mut().unwrap().o_sync,
    ) = (4, true);
    job.work.engine_mut().unwrap().kind = iodyno_model::EngineKind::Mmap;
    let files = job.work.shared_files_mut().unwrap();
    (files.fsync_every, files.validate, files.merged) = (0, true, 1 << 20);
    check_preamble(
        &job,
        None,
        None,
        "Running the test with following options:\n\
         Number of threads: 2\n\
         Validation checks: on.\n\
         \n\
         Initializing random number generator from current time\n\
         \n\
         \n\
         Extra file open flags: sync \n\
         4 files, 16MiB each\n\
         64MiB total file size\n\
         Block size 16KiB\n\
         Merging requests up to 1MiB for sequential IO.\n\
         Calling fsync() at the end of test, Enabled.\n\
         Using fast mmaped I/O mode\n\
         Using checksums validation.\n\
         Doing sequential write (creation) test\n\
         Initializing worker threads...\n\
         \n\
         Threads started!\n\
         \n",
    );
    check_preamble(&Job::default(), None, None, "");
}

#[test]
fn each_interval_has_one_line_for_its_frames() {
    let second = |number: u32, scale: u64| {
        let did = [
            (Direction::Read, 300 * scale, 16_384),
            (Direction::Write, 200 * scale, 16_384),
            (Direction::Sync, 640 * scale, 0),
        ];
        let mut frame = made::frame(number, &did);
        // Frames end some µs before or after the full second.
        frame.end_ns -= 300_000;
        frame
    };
    let mut live = Live::new(Nanos::from_secs(2), 95.0);
    let mut ramp = second(0, 9);
    ramp.step = Step::Ramp;
    assert_eq!(live.frame(&ramp), None);
    assert_eq!(live.frame(&second(1, 1)), None);
    let line = live.frame(&second(2, 3)).unwrap();
    assert_eq!(
        line,
        "[ 2s ] reads: 9.38 MiB/s writes: 6.25 MiB/s fsyncs: 1280.38/s latency (ms,95%): 0.010\n"
    );
    assert_eq!(live.frame(&second(3, 1)), None);
    let line = live.frame(&second(4, 1)).unwrap();
    assert!(line.starts_with("[ 4s ] reads: 4.69 MiB/s"), "{line}");
    assert_eq!(
        interval(&[], Nanos::from_secs(5), 99.9),
        "[ 5s ] reads: 0.00 MiB/s writes: 0.00 MiB/s fsyncs: 0.00/s latency (ms,99.9%): 0.000\n"
    );
}

#[test]
fn bins_of_the_histogram_are_three_percent_wide_and_contain_every_latency() {
    let latencies: Histogram = (0..5000u64).map(|it| 400 + it * it / 3).collect();
    let text = histogram(&latencies);
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("Latency histogram (values are in milliseconds)")
    );
    assert_eq!(
        lines.next(),
        Some("       value  ------------- distribution ------------- count")
    );
    let (mut all, mut last, mut longest) = (0u64, 0.0f64, 0);
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let (value, rest) = line.split_once(" |").unwrap();
        assert_eq!(value.len(), 12, "{line}");
        let (bar, count) = rest.split_at(40);
        let value: f64 = value.trim().parse().unwrap();
        assert!(value > last, "{line}");
        (all, last) = (all + count.trim().parse::<u64>().unwrap(), value);
        longest = longest.max(bar.trim_end().len());
    }
    assert_eq!((all, longest), (5000, 40));
    assert!((8.0..8.6).contains(&last), "{last}");
    assert_eq!(histogram(&Histogram::default()), "");
}

fn with(change: impl Fn(&mut Job), ops: [u64; 3]) -> (Workload, Trial) {
    let (mut workload, mut trial) = made::fileio_trial();
    change(&mut workload.jobs[0]);
    for clone in &mut trial.parts[0].clones {
        for (result, ops) in clone.directions.iter_mut().zip(ops) {
            result.ops = ops / 2;
        }
    }
    (workload, trial)
}

#[test]
fn fsyncs_are_explained_only_if_the_counters_agree() {
    let check = |change: fn(&mut Job), ops: [u64; 3], expected: Option<&str>| {
        let (workload, trial) = with(change, ops);
        let found = explanation(&workload.jobs[0], &trial);
        assert_eq!(found.as_deref(), expected, "{ops:?}");
    };
    let follow = "6400 syncs a second follow from file-fsync-freq=100 × 128 files: (3000 + 2000) / 100 × 128";
    check(|_| (), [60_000, 40_000, 128_000], Some(follow));
    // The last group of fsyncs was interrupted, or the fsyncs at the end were counted.
    check(
        |_| (),
        [60_000, 40_000, 127_900],
        Some(
            "6395 syncs a second follow from file-fsync-freq=100 × 128 files: (3000 + 2000) / 100 × 128",
        ),
    );
    check(
        |_| (),
        [600, 400, 1_200],
        Some(
            "60.0 syncs a second follow from file-fsync-freq=100 × 128 files: (30.0 + 20.0) / 100 × 128, and the \
             last round of syncs is incomplete",
        ),
    );
    check(|_| (), [60_000, 40_000, 100_000], None);
    check(|_| (), [60_000, 40_000, 0], None);
    check(
        |_| (),
        [0, 40_000, 51_200],
        Some("2560 syncs a second follow from file-fsync-freq=100 × 128 files: 2000 / 100 × 128"),
    );
    let all: fn(&mut Job) = |job| {
        let files = job.work.shared_files_mut().unwrap();
        (files.fsync_all, files.fsync_every, files.fsync_end) = (true, 0, false);
    };
    check(
        all,
        [0, 40_000, 40_000],
        Some("2000 syncs a second: one after each write, by file-fsync-all"),
    );
    check(all, [0, 40_000, 39_000], None);
    let end: fn(&mut Job) = |job| job.work.shared_files_mut().unwrap().fsync_every = 0;
    check(
        end,
        [0, 40_000, 256],
        Some("256 syncs are those at the end, of 128 files"),
    );
    check(end, [0, 40_000, 4_000], None);
}

#[test]
fn prepare_reports_the_files() {
    let (mut workload, mut trial) = made::fileio_trial();
    let job = &mut workload.jobs[0];
    job.work.shared_files_mut().unwrap().count = 2;
    let head = "2 files, 16384Kb each, 32Mb total\n\
                Creating files for the test...\n\
                Extra file open flags: (none)\n";
    let mut wrote = |bytes: u64| {
        trial.parts[0].clones.truncate(1);
        let clone = &mut trial.parts[0].clones[0];
        clone.done_ns = Some(25_000_000_000);
        clone.directions = vec![made::did(Direction::Write, bytes >> 14, 1000, 1 << 14)];
        prepared(&workload, &trial)
    };
    assert_eq!(
        wrote(32 << 20),
        format!(
            "{head}Creating file test_file.0\nCreating file test_file.1\n\
             33554432 bytes written in 25.00 seconds (1.28 MiB/sec).\n"
        )
    );
    assert_eq!(
        wrote(0),
        format!(
            "{head}Reusing existing file test_file.0\nReusing existing file test_file.1\n\
             No bytes written.\n"
        )
    );
    assert_eq!(
        wrote(16 << 20),
        format!("{head}16777216 bytes written in 25.00 seconds (0.64 MiB/sec).\n")
    );
}

/// Runs sysbench if it is installed, with its own files in a separate folder.
fn run_sysbench() -> Option<String> {
    let folder = std::env::temp_dir().join(format!("iodyno-sysbench-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let call = |action: &str| {
        let mut command = Command::new("sysbench");
        let options = ["--file-num=2", "--file-total-size=1M", "--events=500"];
        let mode = ["--file-test-mode=rndrw", "--rand-seed=7", action];
        let output = command
            .arg("fileio")
            .args(options)
            .args(mode)
            .current_dir(&folder)
            .output();
        Some(String::from_utf8(output.ok()?.stdout).unwrap())
    };
    let printed = call("prepare").and_then(|_| call("run"));
    std::fs::remove_dir_all(&folder).unwrap();
    if printed.is_none() {
        writeln!(std::io::stderr(), "SKIPPED: sysbench is not installed").unwrap();
    }
    printed
}

/// Removes values that differ between runs: each number becomes a 9, and columns keep only their right edge.
fn shape(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut shape = String::new();
        for character in line.chars() {
            match character {
                '0'..='9' if shape.ends_with('9') => {}
                '0'..='9' => shape.push('9'),
                '.' if shape.ends_with('9') => {}
                character => shape.push(character),
            }
        }
        let words: Vec<&str> = shape.split_whitespace().collect();
        let indent = line.len() - line.trim_start().len();
        let right = line.starts_with("         ").then_some(line.len());
        format!("{indent} {} {right:?}", words.join(" "))
    };
    text.lines().map(line).collect()
}

#[test]
fn sysbench_prints_the_same_form() {
    let Some(theirs) = run_sysbench() else { return };
    let (mut workload, trial) = made::fileio_trial();
    let job = &mut workload.jobs[0];
    (
        job.clones,
        job.work.shared_files_mut().unwrap().count,
        job.end.ops,
    ) = (1, 2, Some(500));
    job.work.shared_files_mut().unwrap().file_size = 512 << 10;
    let ours = preamble(job, Some(7), None) + FIGURES;
    assert!(result(&workload, &trial, &Options::default()).starts_with(FIGURES));
    let from = theirs.find("Running the test").unwrap();
    let theirs = shape(&theirs[from..]);
    assert_eq!(shape(&ours)[..theirs.len()], theirs[..]);
}
