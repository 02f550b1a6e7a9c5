//! The compatibility page, generated from the option table.

use std::fmt::Write;

use super::options::OPTIONS;

/// docs/sysbench-compatibility.md.
pub fn compatibility() -> String {
    let mut text = String::new();
    introduction(&mut text);
    text.push_str(READ_OTHERWISE);
    text.push_str(MENDED);
    text.push_str(PREPARE);
    text.push_str(FSYNCS);
    text.push_str(LATENCY);
    text.push('\n');
    text.push_str(OPTIONS.markdown().trim_end_matches('\n'));
    text.push('\n');
    text
}

fn introduction(text: &mut String) {
    let [honoured, ignored, refused] = OPTIONS.counts();
    let _ = write!(
        text,
        "# sysbench fileio in iodyno\n\n\
         This page is generated from the option table; do not edit it. Regenerate it with\n\
         `cargo run -p iodyno-sysbench --example sysbench_compatibility > docs/sysbench-compatibility.md`.\n\n\
         `iodyno fileio` takes what follows `sysbench fileio`: `prepare`, `run` and `cleanup` in the current folder, with the\n\
         options and defaults of sysbench 1.0. Of {} options {honoured} are honoured, {ignored} are ignored (taken, without effect) and {refused} are\n\
         refused (the command is not carried out).\n\n",
        honoured + ignored + refused,
    );
}

const READ_OTHERWISE: &str = "\
## Read otherwise than by sysbench

| point | here |
|---|---|
| `--file-total-size=1.5G`, `1Q` | an error that says what to write; sysbench takes 0 |
| `2GB`, `2GiB` | 2 GiB, as sysbench takes it; `2Gx` is an error, where sysbench takes 2 GiB |
| `yes`, `no` | as `on`, `off`; sysbench knows on, true, 1, off, false, 0 |
| `--threads 4` | an error that says `--threads=4`; sysbench takes the 4 for the command |
| `--time=0.5`, `--rate=0.5`, `--percentile=99.9` | taken; sysbench wants whole numbers |
| `directio` in `--file-extra-flags` | as `direct` |
| `--num-threads`, `--max-time`, `--max-requests`, `--tx-rate`, `--test=fileio`, `--init-rng` | taken, with a note |
| options before `fileio`, `sysbench` before that | taken: a whole command can be pasted |
| `--warmup-time`, `--rand-type=zipfian` | taken, as by later releases than 1.0.20 |
| a block larger than a file, files without whole sectors with `direct`, open flags with `mmap` | errors with their remedy |
| several faults | reported together |

";

const MENDED: &str = "\
## What is mended

| in sysbench | here |
|---|---|
| where `file-num` does not divide `file-total-size`, an offset may lie in a file beyond the last one | each file has the part rounded down, and offsets end with the last file |
| `async` times only the submission of a request | from submission to completion |
| `async` syncs files, and with `file-fsync-all` each write, while writes are still in flight | a sync waits until the writes of its thread are done |
| latencies lie in 1024 bins from 1 µs to 100 s, and percentiles are cut off at both ends | 3 significant digits, from 1 ns on |
| `mmap` calls msync, whatever `file-fsync-mode` says | fsync; for fdatasync msync, which is Linux's fdatasync of what is mapped |
| `rand-type` is taken and every offset is uniform | it has its effect, and a warning says that sysbench's figures are of uniform offsets. Without the option offsets are uniform |
| at the end each thread syncs all files | they are synced once, as a step of its own with its time, and the figures are of the run before it |
| reads, writes and fsyncs share one histogram of latency | each has its own, and the report has the one of all of them too |
| with `rate`, requests that find no room in a queue of 131 072 end the run | they are late, and latencies count from the intended instant |
| `prepare` writes zeroes, which some storage never stores | what is written cannot be compressed, and no two blocks are alike |
| `prepare` writes whole blocks, beyond the end of a file whose length is none | files have the length they should have |
| errors of fsync in `prepare` are not looked at | they end it |

With `file-fsync-all` a write and its fsync are one event, as in sysbench: `events`, the number of events, avg and sum say so.
The smallest, largest and percentile latency are those of single calls, since the two are recorded apart.

With `rand-type` gaussian is a normal distribution around the middle of all files, with the deviation of the mean of
`rand-spec-iter` uniform numbers. special has 50 steps that follow it, and in the middle `rand-spec-pct` percent of the
files that get `rand-spec-res` percent of the requests besides. pareto and zipfian draw a rank; ranks are
scattered over all files, so that the busiest blocks are not the first ones.

";

const PREPARE: &str = "\
## prepare

Files are made by one thread, one after the other, as sysbench does, whatever `--threads` says; `--file-test-mode`,
`--time` and `--events` have no effect on it. What is there of a file stays, and it is written on from there. At
the end all files are synced. Open flags count. A request has as many blocks as fit into 1 MiB, since the
block size matters to `run` only; `--file-merged-requests=1` writes block by block, as sysbench does. It is a trial like
any other, so that throughput, interrupts and pool activity during it are stored.

`cleanup` removes `test_file.0` and on, as many as `--file-num` says, and nothing else.

";

const FSYNCS: &str = "\
## Why there are so many fsyncs

After every `file-fsync-freq` requests all files are synced, one by one, if something was written since. In `rndrw` reads
count among those requests too. So with the defaults 100 requests bring 128 fsyncs:

    fsyncs/s = (reads/s + writes/s) ÷ file-fsync-freq × file-num

A published run with 6248.29 reads/s, 4165.52 writes/s and 128 files has

    (6248 + 4166) ÷ 100 × 128 = 13 330 fsyncs/s,

and it printed 13329.94. That is the behaviour users compare by, and it is kept; the report says it next to the
figures. `--file-fsync-freq=0` turns it off. In `seqwr` and `seqrewr` every request is a write; in `seqrd` and `rndrd` nothing
is written, and nothing synced.

`rndrw` reads while (reads + 1) ÷ (writes + 1) is less than `file-rw-ratio`, by each thread's own counts: 3 reads to 2 writes
with 1.5. With 128 files that is 3 reads, 2 writes and 6.4 fsyncs.

";

const LATENCY: &str = "\
## What latencies are of

sysbench counts reads, writes and fsyncs together as events, with one histogram. Where most events are fsyncs of files without
anything to write, its average is theirs: the run above printed 0.04 ms with 13 330 fsyncs and 10 414 other requests. Here reads,
writes and fsyncs are measured apart. The block `Latency (ms)` is of all of them merged, as sysbench's, so that
scripts and comparisons go on; the lines for each kind stand beside it, in the store and in `iodyno show`.
";
