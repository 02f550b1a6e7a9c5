//! The compatibility page, generated from the option table.

use std::fmt::Write;

use super::options::OPTIONS;

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
    text.push_str("## Supported options\n\n`iodyno fileio --help` prints value, default and description of each.\n\n");
    text.push_str(&OPTIONS.supported());
    text.push_str("\n## Ignored options\n\nThey are accepted without effect, with a warning if the measurement may differ.\n\n");
    text.push_str(&OPTIONS.unsupported(false));
    text.push_str("\n## Refused options\n\nA command with one of them is not run.\n\n");
    text.push_str(&OPTIONS.unsupported(true));
    text
}

fn introduction(text: &mut String) {
    let [honoured, ignored, refused] = OPTIONS.counts();
    let _ = write!(
        text,
        "# sysbench fileio in iodyno\n\n\
         The reference of `iodyno fileio`: its options, and its differences from sysbench 1.0.\n\n\
         <!-- Generated: `cargo run -p iodyno-sysbench --example sysbench_compatibility > docs/sysbench-compatibility.md`. -->\n\n\
         \x20   iodyno fileio --file-total-size=64M prepare\n\
         \x20   iodyno fileio --file-total-size=64M --file-test-mode=rndrw --time=2 run\n\
         \x20   iodyno fileio --file-total-size=64M cleanup\n\n\
         The commands work in the current folder, with sysbench's options and defaults. Of {} options, {honoured} are honoured,\n\
         {ignored} are ignored and {refused} are refused.\n\n\
         A link named `sysbench` (`make install-links`) does the same, so that scripts run unchanged; other tests are refused.\n\
         `--version` prints `sysbench 1.0.20` first; other output begins with `sysbench 1.0.20 (using iodyno VERSION)`. The exit\n\
         code after an error is 1. A store that cannot be written is a warning.\n\n\
         These flags stand directly after `iodyno fileio`: `--no-store`, `-q` (no warnings), `--on NAME=PATH`, `--rounds N` and\n\
         `--name NAME`. `IODYNO_NO_STORE=1` and `IODYNO_QUIET=1` do the same. With `--on`, the commands work in the named folders,\n\
         and `run` [compares](comparing.md) them with the first.\n\n",
        honoured + ignored + refused,
    );
}

const PARSING: &str = "\
## Differences in parsing

| input | iodyno |
|---|---|
| `--file-total-size=1.5G`, `1Q` | an error; sysbench uses 0 |
| `2GB`, `2GiB`, `2Gx` | 2 GiB, 2 GiB, an error; sysbench uses 2 GiB for all |
| `yes`, `no` | like `on`, `off`; sysbench accepts on, true, 1, off, false, 0 |
| `--threads 4` | an error that suggests `--threads=4`; sysbench takes the 4 as the command |
| `--time=0.5`, `--rate=0.5`, `--percentile=99.9` | accepted; sysbench accepts only integers |
| `directio` in `--file-extra-flags` | like `direct` |
| `--num-threads`, `--max-time`, `--max-requests`, `--tx-rate`, `--test=fileio`, `--init-rng` | accepted with a note |
| options before `fileio`, `sysbench` before that | accepted: a whole command can be pasted |
| `--warmup-time`, `--rand-type=zipfian` | accepted, as in releases after 1.0.20 |
| a block larger than a file, files without whole sectors with `direct`, open flags with `mmap` | errors |
| several errors | reported together |

";

const CORRECTIONS: &str = "\
## Corrected behaviour

| sysbench | iodyno |
|---|---|
| offsets may be in a file after the last one, if `file-num` does not divide `file-total-size` | the file size is rounded down |
| `async` measures only the submission of a request | latency ends with the completion |
| `async` syncs files while writes are in flight | a sync waits for the writes of its thread |
| `async` counts a write when its completion is collected, once in `file-async-backlog` requests, and omits fsyncs of files without counted writes: by default 0.88 instead of 1.28 fsyncs per request of one thread | every `file-fsync-freq` requests all files are synced. Compare both with `--file-async-backlog=1`, or without fsyncs |
| latencies are in 1024 bins from 1 µs to 100 s | 3 significant digits, from 1 ns |
| `mmap` always calls msync | fsync; msync for fdatasync, its equivalent for mapped pages |
| `rand-type` has no effect: all offsets are uniform | it has its effect, with a warning; the default is uniform |
| at the end each thread syncs all files | they are synced once, as a separate step that is not part of the results |
| reads, writes and fsyncs share one histogram | each has its own, and the report also has the combined one |
| with `rate`, the run ends when 131 072 requests wait | requests are late, and latencies count from the intended start |
| `prepare` writes zeroes, which some storage does not store | data are incompressible, and all blocks differ |
| `prepare` writes whole blocks beyond the requested length | files have exactly this length |
| `prepare` ignores errors of fsync | an error ends it |

With `file-fsync-all`, a write and its fsync are one event, as in sysbench, in `events`, avg and sum. Minimum, maximum and
percentiles are of single calls.

`rand-type`: gaussian is a normal distribution around the middle of all files, with the standard deviation of the mean of
`rand-spec-iter` uniform numbers. special approximates it in 50 steps, and gives the middle `rand-spec-pct` percent of the
files `rand-spec-res` percent of the requests. pareto and zipfian draw ranks, which are scattered over all files.

";

const PREPARE: &str = "\
## prepare and cleanup

As in sysbench, `prepare` creates the files one after the other in one thread, and syncs them at the end. `--threads`,
`--file-test-mode`, `--time` and `--events` have no effect; open flags apply. Existing content is kept, and writing continues
after it. A request has as many blocks as fit into 1 MiB; `--file-merged-requests=1` writes single blocks, as sysbench does.
It is stored as a trial, with its telemetry.

`cleanup` removes the files `test_file.0`, `test_file.1`, … up to `--file-num`, and nothing else. It keeps and names a file
that is in use or has a disk image.

";

const FSYNCS: &str = "\
## Number of fsyncs

After every `file-fsync-freq` requests, reads included, all files are synced one by one if there were writes since the last
sync. With the defaults, 100 requests cause 128 fsyncs; `--file-fsync-freq=0` disables them:

    fsyncs/s = (reads/s + writes/s) ÷ file-fsync-freq × file-num

A published run with 6248.29 reads/s, 4165.52 writes/s and 128 files printed 13329.94 fsyncs/s: (6248 + 4166) ÷ 100 × 128 =
13 330. iodyno does the same, so that results are comparable, and the report explains the number.

`rndrw` reads while (reads + 1) ÷ (writes + 1) is less than `file-rw-ratio`, for each thread: 3 reads per 2 writes with 1.5.

";

const LATENCY: &str = "\
## Latencies

sysbench counts reads, writes and fsyncs as events in one histogram. Fsyncs of files without dirty data can dominate its
average: 0.04 ms in the run above, with 13 330 fsyncs and 10 414 other requests. The block `Latency (ms)` is the same here;
further lines, the store and `iodyno show` have reads, writes and fsyncs separately.
";
