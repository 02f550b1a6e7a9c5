//! The options of sysbench fileio, on two files of 16 KiB.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::case::{Case, Language, Look, case};
use crate::looks::{FAULT, OPEN_FLAGS, QUEUE, SLEEPS, joined, kib};
use crate::operations::WORKERS;
use crate::run::Run;
use crate::strace::Call;

pub(crate) static LANGUAGE: Language = Language {
    name: "sysbench",
    options: || {
        iodyno_sysbench::honoured_options()
            .map(str::to_owned)
            .collect()
    },
    topics: &[FILES, RUN, REPORT, RANDOM],
    arguments,
};

/// Used where a row does not set them.
const PRESET: [&str; 6] = [
    "file-num=2",
    "file-total-size=32k",
    "file-block-size=4k",
    "file-fsync-freq=0",
    "file-fsync-end=off",
    "time=0",
];

/// Words of the form `NAME=VALUE` are options; another word is the command, which is `run` without one.
fn arguments(_: &Path, _: &Look, words: &str) -> Vec<String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    let set: BTreeSet<String> = words.iter().map(|word| name(word)).collect();
    let preset = PRESET.into_iter().filter(|word| !set.contains(&name(word)));
    let (options, commands): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| word.contains('='));
    let mut arguments = ["fileio", "--no-store", "--quiet"]
        .map(str::to_owned)
        .to_vec();
    arguments.extend(preset.chain(options).map(|word| format!("--{word}")));
    arguments.push(commands.last().map_or("run", |it| it).to_owned());
    arguments
}

/// A case of `run`, for which the files are there.
const fn running(
    option: &'static str,
    look: Look,
    job: &'static str,
    rows: &'static [(&'static str, &'static str)],
) -> Case {
    case(option, look, job, rows).after(|folder| {
        for name in ["test_file.0", "test_file.1"] {
            std::fs::write(folder.join(name), vec![1; 16384]).unwrap();
        }
    })
}

#[rustfmt::skip]
const FILES: &[Case] = &[
    case("file-num", MADE, "prepare file-total-size=512k", &[("file-num=128", "128 files of 4k"), ("file-num=4", "4 files of 128k")]),
    running("file-block-size", OPS, "file-test-mode=seqrd events=2 file-num=2", &[("file-block-size=16384", "r0:0k+16k r1:0k+16k"), ("file-block-size=2k", "r0:0k+2k r0:2k+2k")]),
    case("file-total-size", MADE, "prepare", &[("file-total-size=32k", "2 files of 16k"), ("file-total-size=1m", "2 files of 512k")]),
    running("file-test-mode", OPS, "events=3 rand-seed=1", &[("file-test-mode=seqrd", "r0:0k+4k r0:4k+4k r0:8k+4k"), ("file-test-mode=seqwr", "w0:0k+4k w0:4k+4k w0:8k+4k"), ("file-test-mode=seqrewr", "w0:0k+4k w0:4k+4k w0:8k+4k"), ("file-test-mode=rndrd", "r0:4k+4k r0:12k+4k r0:0k+4k"), ("file-test-mode=rndwr", "w0:4k+4k w0:12k+4k w0:0k+4k"), ("file-test-mode=rndrw", "r0:4k+4k w0:12k+4k r0:0k+4k")]),
    running("file-io-mode", MODE, "file-test-mode=seqrewr events=3", &[("file-io-mode=sync", "pwrite64 pwrite64 pwrite64"), ("file-io-mode=async", "io_submit io_submit io_submit"), ("file-io-mode=mmap", "mmap mmap")]),
    running("file-async-backlog", QUEUE, "file-test-mode=seqrewr events=4 file-io-mode=async", &[("file-async-backlog=128", "submit(1) submit(1) submit(1) submit(1) reap(4..128)"), ("file-async-backlog=1", "submit(1) reap(1..1) submit(1) reap(1..1) submit(1) reap(1..1) submit(1) reap(1..1)")]),
    running("file-extra-flags", OPEN_FLAGS, "file-test-mode=rndwr events=1", &[("file-extra-flags=", "O_RDWR O_RDWR"), ("file-extra-flags=sync", "O_RDWR|O_SYNC O_RDWR|O_SYNC"), ("file-extra-flags=dsync", "O_RDWR|O_DSYNC O_RDWR|O_DSYNC"), ("file-extra-flags=direct", "O_RDWR|O_DIRECT O_RDWR|O_DIRECT"), ("file-extra-flags=directio,dsync", "O_RDWR|O_DSYNC|O_DIRECT O_RDWR|O_DSYNC|O_DIRECT")]).or_fails(),
    running("file-fsync-freq", OPS, "file-test-mode=seqrewr events=8", &[("file-fsync-freq=100", "w0:0k+4k w0:4k+4k w0:8k+4k w0:12k+4k w1:0k+4k w1:4k+4k w1:8k+4k w1:12k+4k"), ("file-fsync-freq=2", "w0:0k+4k w0:4k+4k fsync0 fsync1 w0:8k+4k w0:12k+4k fsync0 fsync1")]),
    running("file-fsync-all", OPS, "file-test-mode=seqrewr events=2", &[("file-fsync-all=off", "w0:0k+4k w0:4k+4k"), ("file-fsync-all=on", "w0:0k+4k fsync0 w0:4k+4k fsync0")]),
    running("file-fsync-end", OPS, "file-test-mode=seqrewr events=2", &[("file-fsync-end=on", "w0:0k+4k w0:4k+4k fsync0 fsync1"), ("file-fsync-end=off", "w0:0k+4k w0:4k+4k")]),
    running("file-fsync-mode", OPS, "file-test-mode=seqrewr events=1 file-fsync-end=on", &[("file-fsync-mode=fsync", "w0:0k+4k fsync0 fsync1"), ("file-fsync-mode=fdatasync", "w0:0k+4k fdatasync0 fdatasync1")]),
    running("file-merged-requests", OPS, "file-test-mode=seqrd events=2", &[("file-merged-requests=0", "r0:0k+4k r0:4k+4k"), ("file-merged-requests=2", "r0:0k+8k r0:8k+8k")]),
    running("file-rw-ratio", COUNTS, "file-test-mode=rndrw events=30", &[("file-rw-ratio=1.5", "18 reads, 12 writes"), ("file-rw-ratio=9", "27 reads, 3 writes"), ("file-rw-ratio=0", "0 reads, 30 writes")]),
    running("validate", FAULT, "file-test-mode=seqrd events=1", &[("validate=off", "0"), ("validate=on", "1 error: job `seqrd`: verification failed: 1 of 1 block differ from what was written `test_file.0` at offset 0, 4096 bytes: found a wrong checksum and offset: was it prepared with `--validate`, and with the same block size?")]),
    case("validate", SEALS, "prepare", &[("validate=off", "0 blocks"), ("validate=on", "4 blocks")]),
];

#[rustfmt::skip]
const RUN: &[Case] = &[
    running("threads", WORKERS, "file-test-mode=rndwr events=4", &[("threads=1", "1 threads"), ("threads=3", "3 threads")]),
    running("events", OPS, "file-test-mode=seqrd", &[("events=2", "r0:0k+4k r0:4k+4k"), ("events=4", "r0:0k+4k r0:4k+4k r0:8k+4k r0:12k+4k")]),
    running("time", EVENTS, "file-test-mode=rndrd", &[("time=0 events=8", "8 events"), ("time=1 events=1000000000", "ended before")]),
    running("warmup-time", WARMED, "file-test-mode=rndrd events=3 rate=50", &[("warmup-time=0", "as many calls as events"), ("warmup-time=1", "more calls than events")]),
    running("rate", SLEEPS, "file-test-mode=rndwr events=8", &[("rate=0", "none"), ("rate=20", "sleeps")]),
    case("help", START, "", &[("version=on", "sysbench 1.0.20"), ("help=on", "iodyno fileio")]),
    case("version", START, "", &[("help=on", "iodyno fileio"), ("version=on", "sysbench 1.0.20")]),
];

#[rustfmt::skip]
const REPORT: &[Case] = &[
    running("report-interval", LINES, "file-test-mode=rndrd time=3 rate=50", &[("report-interval=0", "none"), ("report-interval=1", "lines")]),
    running("percentile", PRINTED, "file-test-mode=rndrd events=8", &[("percentile=95", "95th percentile"), ("percentile=50", "50th percentile"), ("percentile=0", "percentile stats")]),
    running("histogram", PRINTED, "file-test-mode=rndrd events=8", &[("histogram=off", "95th percentile"), ("histogram=on", "Latency histogram (values are in milliseconds) 95th percentile")]),
];

#[rustfmt::skip]
const RANDOM: &[Case] = &[
    running("rand-type", SPREAD, "file-test-mode=rndrd events=1000 file-block-size=256 rand-seed=1", &[("rand-type=uniform", "127 blocks, 16 of one, 249 in the middle"), ("rand-type=gaussian", "64 blocks, 46 of one, 865 in the middle"), ("rand-type=special", "56 blocks, 611 of one, 943 in the middle"), ("rand-type=pareto", "111 blocks, 523 of one, 97 in the middle"), ("rand-type=zipfian", "124 blocks, 121 of one, 155 in the middle")]),
    running("rand-seed", OPS, "file-test-mode=rndrd events=6", &[("rand-seed=1", "r0:4k+4k r0:12k+4k r0:0k+4k r0:8k+4k r0:12k+4k r0:4k+4k"), ("rand-seed=2", "r1:8k+4k r1:8k+4k r0:12k+4k r1:12k+4k r0:8k+4k r1:4k+4k")]),
    running("rand-spec-iter", SPREAD, "file-test-mode=rndrd events=1000 file-block-size=256 rand-seed=1 rand-type=gaussian", &[("rand-spec-iter=12", "64 blocks, 46 of one, 865 in the middle"), ("rand-spec-iter=100", "25 blocks, 114 of one, 1000 in the middle")]),
    running("rand-spec-pct", SPREAD, "file-test-mode=rndrd events=1000 file-block-size=256 rand-seed=1 rand-type=special", &[("rand-spec-pct=1", "56 blocks, 611 of one, 943 in the middle"), ("rand-spec-pct=20", "49 blocks, 56 of one, 961 in the middle")]),
    running("rand-spec-res", SPREAD, "file-test-mode=rndrd events=1000 file-block-size=256 rand-seed=1 rand-type=special", &[("rand-spec-res=75", "56 blocks, 611 of one, 943 in the middle"), ("rand-spec-res=10", "61 blocks, 81 of one, 871 in the middle")]),
    running("rand-pareto-h", SPREAD, "file-test-mode=rndrd events=1000 file-block-size=256 rand-seed=1 rand-type=pareto", &[("rand-pareto-h=0.2", "111 blocks, 523 of one, 97 in the middle"), ("rand-pareto-h=0.01", "18 blocks, 982 of one, 3 in the middle")]),
    running("rand-zipfian-exp", SPREAD, "file-test-mode=rndrd events=1000 file-block-size=256 rand-seed=1 rand-type=zipfian", &[("rand-zipfian-exp=0.8", "124 blocks, 121 of one, 155 in the middle"), ("rand-zipfian-exp=2", "40 blocks, 631 of one, 25 in the middle"), ("rand-zipfian-exp=0", "127 blocks, 16 of one, 249 in the middle")]),
];

/// Reads, writes and syncs of the files, without the reads of the process that examines them before.
fn ops(run: &Run) -> impl Iterator<Item = &Call> {
    let first = run.calls.iter().find(|call| call.file.is_some());
    let main = first.map(|call| call.thread);
    let known = ["pread64", "pwrite64", "fsync", "fdatasync", "msync"];
    let calls = run.calls.iter();
    calls.filter(move |call| {
        known.contains(&&*call.name)
            && call.file.is_some()
            && (call.name != "pread64" || Some(call.thread) != main)
    })
}

/// The number of the file, and the offset in it.
fn place(call: &Call) -> (&str, u64) {
    let file = call.file.as_deref().unwrap_or_default();
    let offset = call.arguments.get(3).and_then(|it| it.parse().ok());
    (
        file.rsplit('.').next().unwrap_or_default(),
        offset.unwrap_or(0),
    )
}

fn shown(call: &Call) -> String {
    let (file, offset) = place(call);
    let length = || call.arguments[2].parse().map_or(String::new(), kib);
    match &*call.name {
        "pread64" => format!("r{file}:{}+{}", kib(offset), length()),
        "pwrite64" => format!("w{file}:{}+{}", kib(offset), length()),
        name => format!("{name}{file}"),
    }
}

/// Each read, write and sync: file, offset, length.
const OPS: Look = Look::calls("system calls", |run| joined(ops(run).map(shown)));

/// The means of accessing the files.
const MODE: Look = Look::calls("system calls", |run| {
    let known = ["pwrite64", "io_submit", "mmap"];
    let own = |call: &&Call| {
        call.file.is_some() || call.arguments.iter().any(|it| it.contains("IOCB_CMD"))
    };
    let calls = run.calls.iter().filter(own);
    joined(
        calls
            .filter(|call| known.contains(&&*call.name))
            .map(|call| call.name.clone()),
    )
});

const COUNTS: Look = Look::calls("system calls", |run| {
    let count = |name: &str| ops(run).filter(|call| call.name == name).count();
    format!("{} reads, {} writes", count("pread64"), count("pwrite64"))
});

/// How many different blocks of 128 are read, how often the most frequent is, and how many reads are in the middle
/// quarter.
const SPREAD: Look = Look::calls("offsets", |run| {
    let mut blocks: BTreeMap<u64, u32> = BTreeMap::new();
    for call in ops(run) {
        let (file, offset) = place(call);
        let file: u64 = file.parse().unwrap();
        *blocks.entry((file * 16384 + offset) / 256).or_default() += 1;
    }
    let middle: u32 = blocks.range(48..80).map(|(_, count)| count).sum();
    let most = blocks.values().max().unwrap_or(&0);
    format!(
        "{} blocks, {most} of one, {middle} in the middle",
        blocks.len()
    )
});

const MADE: Look = Look::output("files", |run| {
    let names = run.names();
    let lengths: BTreeSet<u64> = names
        .iter()
        .map(|name| run.file(name).len() as u64)
        .collect();
    let lengths = joined(lengths.into_iter().map(kib));
    format!("{} files of {lengths}", names.len())
});

/// How many blocks of 4 KiB end in their offset.
const SEALS: Look = Look::output("content", |run| {
    let bytes = run.file("test_file.1");
    let offset = |block: &[u8]| u64::from_le_bytes(block[4088..].try_into().unwrap());
    let blocks = bytes.chunks(4096).enumerate();
    let sealed = blocks.filter(|(index, block)| offset(block) == *index as u64 * 4096);
    format!("{} blocks", sealed.count())
});

/// The number after a label of the report.
fn figure(run: &Run, label: &str) -> u64 {
    let mut lines = run.done.stdout.lines();
    let value = lines.find_map(|line| line.trim_start().strip_prefix(label));
    value.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
}

const EVENTS: Look = Look::output("output", |run| {
    match figure(run, "total number of events:") {
        0 => run.fault(),
        8 => "8 events".to_owned(),
        _ => "ended before".to_owned(),
    }
});

/// Whether there are ops that the report does not count.
const WARMED: Look = Look::calls("system calls", |run| {
    let events = figure(run, "total number of events:") as usize;
    match ops(run).count() {
        calls if calls == events => "as many calls as events",
        _ => "more calls than events",
    }
    .to_owned()
});

const START: Look = Look::output("output", |run| {
    joined(
        run.done
            .stdout
            .split_whitespace()
            .take(2)
            .map(str::to_owned),
    )
});

const LINES: Look = Look::output("output", |run| {
    let lines = run
        .done
        .stdout
        .lines()
        .filter(|line| line.starts_with("[ "));
    if lines.count() > 0 { "lines" } else { "none" }.to_owned()
});

/// The labels of percentiles and of the histogram.
const PRINTED: Look = Look::output("output", |run| {
    let lines = run
        .done
        .stdout
        .lines()
        .take_while(|line| !line.starts_with("By kind"));
    let known = |line: &&str| line.contains("percentile") || line.contains("istogram");
    joined(
        lines
            .filter(known)
            .map(|line| line.split(':').next().unwrap_or_default().trim().to_owned()),
    )
});
