//! The compatibility page, generated from the option table.

use std::fmt::Write;

use super::options::OPTIONS;

/// Where tests show the effect of each supported option; their program writes it.
const EFFECTS: &str = include_str!("effects.txt");

/// docs/sysbench-compatibility.md.
pub fn compatibility() -> String {
    let mut text = String::new();
    introduction(&mut text);
    text.push_str(PARSING);
    text.push_str(CORRECTIONS);
    text.push_str(PREPARE);
    text.push_str(FSYNCS);
    text.push_str(LATENCY);
    text.push('\n');
    text.push_str(OPTIONS.markdown(EFFECTS).trim_end_matches('\n'));
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
         `iodyno fileio` accepts the arguments of `sysbench fileio`: `prepare`, `run` and `cleanup` in the current folder, with the\n\
         options and defaults of sysbench 1.0. Of {} options, {honoured} are honoured, {ignored} are ignored (accepted without effect) and {refused} are\n\
         refused (the command is not run). Beside `honoured` is where a test shows the effect of the option.\n\n\
         A link or copy of iodyno named `sysbench` does the same, so that scripts run unchanged (`make install-links`). Its other tests are\n\
         refused. `--version` prints `sysbench 1.0.20` first, and other output begins with the line `sysbench 1.0.20 (using iodyno VERSION)`.\n\
         The exit code after an error is 1, as in sysbench. A store that cannot be written is a warning; `--no-store` and `-q` (no\n\
         warnings) stand directly after `iodyno fileio`, and `IODYNO_NO_STORE=1` and `IODYNO_QUIET=1` do the same.\n\n\
         `--on NAME=PATH`, `--rounds N` and `--name NAME` stand there, too: `prepare`, `run` and `cleanup` then work in the named folders, and `run`\n\
         measures them in rounds and compares them with the first, as `iodyno run` does: [comparing.md](comparing.md).\n\n",
        honoured + ignored + refused,
    );
}

const PARSING: &str = "\
## Differences in parsing

| input | iodyno |
|---|---|
| `--file-total-size=1.5G`, `1Q` | an error with a remedy; sysbench uses 0 |
| `2GB`, `2GiB` | 2 GiB, as in sysbench; `2Gx` is an error, where sysbench uses 2 GiB |
| `yes`, `no` | like `on`, `off`; sysbench accepts on, true, 1, off, false, 0 |
| `--threads 4` | an error that suggests `--threads=4`; sysbench parses the 4 as the command |
| `--time=0.5`, `--rate=0.5`, `--percentile=99.9` | accepted; sysbench accepts only integers |
| `directio` in `--file-extra-flags` | like `direct` |
| `--num-threads`, `--max-time`, `--max-requests`, `--tx-rate`, `--test=fileio`, `--init-rng` | accepted with a note |
| options before `fileio`, `sysbench` before that | accepted: a whole command can be pasted |
| `--warmup-time`, `--rand-type=zipfian` | accepted, as in releases after 1.0.20 |
| a block larger than a file, files without whole sectors with `direct`, open flags with `mmap` | errors with their remedy |
| several errors | reported together |

";

const CORRECTIONS: &str = "\
## Corrected behaviour

| sysbench | iodyno |
|---|---|
| if `file-num` does not divide `file-total-size`, an offset may be in a file after the last one | the file size is rounded down, and offsets end with the last file |
| `async` measures only the submission of a request | latency is measured from submission to completion |
| `async` syncs files, and with `file-fsync-all` each write, while writes are still in flight | a sync waits until the writes of its thread have completed |
| `async` counts a write only when its completion is collected, once every `file-async-backlog` requests of a thread, and leaves out the fsyncs of files that it does not count as written: with the defaults, 0.88 instead of 1.28 fsyncs per request of one thread | every `file-fsync-freq` requests all files are synced. Compare both with `--file-async-backlog=1`, or without fsyncs |
| latencies are in 1024 bins from 1 µs to 100 s, and percentiles are truncated at both ends | 3 significant digits, from 1 ns |
| `mmap` calls msync, whatever `file-fsync-mode` says | fsync; for fdatasync msync, which is the equivalent for mapped pages on Linux |
| `rand-type` is accepted, but all offsets are uniform | it has its effect, and a warning says that sysbench's results have uniform offsets. The default is uniform |
| at the end each thread syncs all files | they are synced once, as a separate step with its time, and the results cover the run before it |
| reads, writes and fsyncs share one histogram of latency | each has its own, and the report also contains the combined one |
| with `rate`, the run ends when a queue of 131 072 requests is full | requests are late, and latencies are measured from the intended start |
| `prepare` writes zeroes, which some storage does not store | data are incompressible, and all blocks differ |
| `prepare` writes whole blocks, beyond the end of a file whose length is not a multiple | files have exactly the requested length |
| `prepare` ignores errors of fsync | an error ends it |

With `file-fsync-all`, a write and its fsync are one event, as in sysbench: this affects `events`, the number of events, avg and sum.
Minimum, maximum and percentiles are of single calls, because writes and fsyncs are recorded separately.

For `rand-type`, gaussian is a normal distribution around the middle of all files, with the standard deviation of the mean of
`rand-spec-iter` uniform numbers. special approximates it in 50 steps; in addition, the middle `rand-spec-pct` percent of the
files get `rand-spec-res` percent of the requests. pareto and zipfian draw a rank; ranks are
scattered over all files, so that the most frequent blocks are not the first ones.

";

const PREPARE: &str = "\
## prepare

As in sysbench, one thread creates the files one after the other, whatever the value of `--threads`; `--file-test-mode`,
`--time` and `--events` have no effect. Existing content of a file is kept, and writing continues after it. At
the end all files are synced. Open flags apply. A request has as many blocks as fit into 1 MiB, because only `run` depends on
the block size; `--file-merged-requests=1` writes single blocks, as sysbench does. It is a normal trial,
so that throughput, interrupts and pool activity during it are stored.

`cleanup` removes the files `test_file.0`, `test_file.1`, … up to the number in `--file-num`, and nothing else.
It keeps and names a file that is in use or has a disk image.

";

const FSYNCS: &str = "\
## Number of fsyncs

After every `file-fsync-freq` requests all files are synced, one by one, if there were writes since the last sync. In `rndrw`,
reads count as requests, too. With the defaults, 100 requests therefore cause 128 fsyncs:

    fsyncs/s = (reads/s + writes/s) ÷ file-fsync-freq × file-num

A published run with 6248.29 reads/s, 4165.52 writes/s and 128 files has

    (6248 + 4166) ÷ 100 × 128 = 13 330 fsyncs/s,

and it printed 13329.94. iodyno keeps this behaviour, so that results are comparable; the report explains the number next to the
results. `--file-fsync-freq=0` disables it. In `seqwr` and `seqrewr` every request is a write; in `seqrd` and `rndrd` nothing
is written or synced.

`rndrw` reads while (reads + 1) ÷ (writes + 1) is less than `file-rw-ratio`, with the counts of each thread: 3 reads per 2 writes
with 1.5. With 128 files, these cause 6.4 fsyncs.

";

const LATENCY: &str = "\
## Latencies

sysbench counts reads, writes and fsyncs together as events, with one histogram. If most events are fsyncs of files without
dirty data, they dominate its average: the run above printed 0.04 ms with 13 330 fsyncs and 10 414 other requests. iodyno measures
reads, writes and fsyncs separately. The block `Latency (ms)` combines them, as in sysbench, so that
scripts and comparisons keep working; further lines, the store and `iodyno show` contain each kind separately.
";
