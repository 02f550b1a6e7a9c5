//! The compatibility page, generated from the option table.

use std::fmt::Write;

use iodyno_options::{Status, by_reason};

use super::engines::{ENGINES, EngineSpec};
use super::flags::FLAGS;
use super::options::OPTIONS;

/// Options of iodyno's own.
const OWN: [&str; 7] = [
    "uri",
    "sim_device",
    "sim_latency",
    "sim_servers",
    "sim_faults",
    "sim_clock",
    "verify_header",
];

/// docs/fio-compatibility.md.
pub fn compatibility_markdown() -> String {
    let mut text = String::new();
    introduction(&mut text);
    text.push_str("## Supported options\n\n`iodyno fio --cmdhelp=OPTION` prints value, default and description of each.\n\n");
    text.push_str(&OPTIONS.supported());
    own_options(&mut text);
    text.push_str("\n## Ignored options\n\nThey are accepted without effect, with a warning if the measurement may differ from fio's.\n\n");
    text.push_str(&OPTIONS.unsupported(false));
    text.push_str("\n## Refused options\n\nA job with one of them is not run.\n\n");
    text.push_str(&OPTIONS.unsupported(true));
    engines(&mut text);
    flags(&mut text);
    text
}

fn introduction(text: &mut String) {
    let [honoured, ignored, refused] = OPTIONS.counts();
    let _ = write!(
        text,
        "# fio's options in iodyno\n\n\
         The reference of fio's options, flags and engines: which iodyno supports, and what it does differently.\n\
         [For fio's users](fio-users.md) is the introduction.\n\n\
         <!-- Generated: `cargo run -p iodyno-fio --example fio_compatibility > docs/fio-compatibility.md`. -->\n\n\
         Of {} options, {honoured} are honoured, {ignored} are ignored and {refused} are refused. An ignored or refused \
         option is accepted\nsilently with a value that has no effect, such as `lockmem=0`.\n\n",
        honoured + ignored + refused,
    );
    text.push_str(IN_PLACE);
    text.push_str(DIFFERENCES);
}

const IN_PLACE: &str = "\
## In place of fio

`make install-links` makes links named `fio` and `sysbench` in a folder of their own. Under the name `fio`, the program
behaves as `iodyno fio`, so that scripts run unchanged:

    PATH=/usr/local/libexec/iodyno:$PATH ./benchmark.sh

| what a script may rely on | iodyno |
|---|---|
| `fio --version` | `fio-3.42`, the release whose command line and output these are |
| exit codes | 0, 1 after any error, 128 if interrupted |
| SIGINT, SIGTERM, SIGHUP | end a run early, also in a background job of a script; SIGHUP not under `nohup` |
| SIGUSR1 | prints the result so far within a second; `iodyno run` and `iodyno fileio` print a line |
| `--parse-only`, `--enghelp=ENGINE`, `--cmdhelp=OPTION`, `--showcmd` | fio's exit codes; refused options are not listed |
| standard output | only the result |
| standard error | under the name `fio` only errors, and warnings of what matters and has no effect |
| no store: HOME is not set, is read-only or full | a warning; the result is printed and not kept |

Results are stored, for `iodyno list`, `show` and `compare`. iodyno's own flags may stand anywhere among fio's:
`--no-store`, `-q` (`--quiet`), `--destroy PATH`, `--allow-exec` and `--dry-run`. For scripts that cannot be changed,
`IODYNO_NO_STORE=1`, `IODYNO_QUIET=1` and `IODYNO_STORE=PATH` do the same; `--destroy` has no variable.

Devices in use are refused, also with `allow_mounted_write=1`.

fio 3.42's own tests (`t/run-fio-tests.py`) that run fio's program and need no zoned or NVMe device pass, except:

| test | why |
|---|---|
| 9 | needs 4 CPUs: a CPU in `cpus_allowed` that the host lacks is an error, as in fio |
| 1004 | its 5 jobs pass; 6 checks read the text of fio's `--debug=parse` |
| 1013 | 13 of 17 checks pass; 4 read random seeds in the text of fio's `--debug=random` |
| 1016 | `--client` and `--server` are refused |

";

const DIFFERENCES: &str = "\
## Differences from fio

What follows “fio” is its own behaviour. Other rows clarify, warn or refuse.

### Values

| input | iodyno |
|---|---|
| numbers with trailing text (`4x`, `1.5k`, `1e4`, `4 k`) | an error with its line; fio: the digits |
| arithmetic without parentheses (`128*2`) | the number before the operator, with a warning |
| a number in parentheses | arithmetic with `+ - * / % ^`, suffixes and `$ncpus`, `$pagesize`, `$mb_memory` |
| `bs = 4k` | 4096, with a warning; fio: 4 |
| `4KiB` | 4000, with a warning; `kb_base=1000` makes it 4096 |
| `runtime=1min`, `runtime=30sec` | an error; fio: microseconds |
| `runtime=0.5` | an error; fio: no limit |
| `bs=4k-16k` | the sizes of reads and of writes, with a warning that names `bsrange` |
| shares of `bssplit` that do not add up to 100 | an error |
| `direct=true`, `group_reporting=yes` | 1 |
| texts that begin with a number for a boolean (`time_based=10`, `direct=1G`) | 1, or 0 if the number is 0, with a warning |
| a boolean without a value | 1 |
| `size=20%` of a file that does not exist | an error for each file |
| `offset` or `offset_increment` in percent, with `filesize`, of a file that does not exist | of `filesize`; fio: of `size` |
| `mem` with a file (`mmaphuge:/mnt/huge/x`) | an error: buffers are not in files |
| a flag without its value (`--write_bw_log --name=x`) | the default of the option; fio takes the next word as its value |
| `${VAR}` that is not set | an empty text, with a warning |
| `time_based` without `runtime` | ignored, with a warning |
| options before several job files | apply to all files; fio: to the first |

### Files

| input | iodyno |
|---|---|
| a job named `/mnt/x`, without `filename` | its files are `/mnt/x.0.0` …; a `/` elsewhere in a name becomes `_` |
| `filename` or `filename_format` in a folder that does not exist | a relative folder is created; an absolute one is an error, because a file system may not be mounted. `directory` has to exist |
| a file that is named twice | one file with its share of `size`, processed twice, with a warning |
| `numjobs` and `filename_format` without `$jobnum` | all clones use the files, with a warning; fio: clones after the first do nothing |
| `nrfiles` with less than a block for each file | an error; fio: nothing, successfully |
| `ioengine=null` with several files and `filesize`, without `size` | whole blocks of each file; fio adds their sizes up first |
| `ioengine=mmap` with `direct=1` | `direct` has no effect, with a warning; fio: msync(2) after each op |
| `ioengine=mmap` with `create_on_open=1` | an error: a mapped file cannot grow |
| `create_on_open` with reads and writes | a read beyond the end is an op of 0 bytes; fio: EIO with synchronous engines |
| `create_fsync=0` | files are synced before their pages are dropped, unless `invalidate=0`; fio leaves dirty pages in the cache |
| `fill_fs` with `fallocate` | space is reserved, and without it the job fails; fio reserves none |
| `file_append` with `loops`, `io_size` or `time_based` | later passes overwrite what the first appended; fio: a sequential job ends after the first |
| `filecreate`, `filestat`, `filedelete`, `dircreate`, `dirstat`, `dirdelete` | work in a folder that the trial creates in `directory` and removes; `filename` only sets how many files there are and in which folder. fio removes or changes the named files |
| `openfiles` | all files are opened before the start; more than `ulimit -Hn` are refused |
| `opendir` | links and other kinds of files are left out |
| `exec_prerun`, `exec_postrun` | run with `--allow-exec` |
| a trim of a file | punches a hole; fio 3.42: ENOTTY |
| `read_iolog` with names of files to write | refused unless the job or the command [names the file](traces.md); fio writes to it |
| `write_iolog` with a file that exists | replaces it; fio appends, and cannot replay the result |

### Order and amount of work

| input | iodyno |
|---|---|
| random map with `bsrange` or `bssplit` | each byte is accessed once per pass; an op that would meet used blocks ends before them. Draws differ from fio's, and the number of ops by some percent |
| different smallest blocks for reads and writes, or `bs=4k,64k` with one direction | offsets are multiples of each direction's smallest block; fio counts in the smallest of all, and ends some of these jobs early |
| `rwmixread`, `percentage_random` | the same shares by other draws; the number of reads differs by some ops |
| a `size` that is not a multiple of `bs`, within a longer file | whole blocks within `size`; fio: sequential jobs do one more, beyond it |
| random map with `loops` or `io_size` | each pass has an order of its own; fio repeats that of the first |
| `rw=randread:N` where the block size does not divide `size` | continues; fio ends the job at the partial block |
| `random_distribution=sequence` | a list of up to 64 blocks of each file, which repeats; fio continues it from file to file, and ends the job |
| `serialize_overlap` | applies within a file; fio: also to ops on different files with overlapping offsets |
| `sprandom` | fio's model with exact formulas, which fio approximates. Files instead of a disk have to be one file |
| sequential writes with `loops` and `io_size` above `size` | `io_size` per loop, as fio after 3.42; 3.42: the larger of `io_size` and `loops` × `size` |
| `number_ios` with `ramp_time` | ops of the ramp do not count; fio ends the job if the ramp does as many |
| a job that does all of its `size` within `ramp_time` | the ops of the ramp are reported, with a note; fio omits their latencies. The bytes of any ramp count towards `size` |
| `rate` with `rate_process=poisson` and several block sizes | bytes per second; fio: as many ops per second as if all had the smallest size |
| `latency_target` | doubles, then bisects the depth from 1 to `iodepth`. The job ends after one more window at the depth found, with `latency_run=1` at its own end. Figures are of all depths tried |
| `steadystate` | checks count from the start of the job's measured time; fio checks all jobs at once, so its first value can cover part of an interval |
| `steadystate=lat:100us` | 100 µs; fio: 100 ns |
| `vsync`, `splice` | run as `pvsync2` and `psync`, with a warning; in fio, adjacent ops are merged, and data passes through a pipe |
| `vhost-user-blk`, `virtiofs`, `sim` | engines of iodyno |
| `cpuio` | spins in every `cpumode`; ops have 0 bytes; `runtime` is required |
| `rate_min`, `rate_iops_min` | the first 2 s are not checked |
| `fixedbufs`, `registerfiles` | on by default if the kernel supports them |
| `iodepth_batch` | one by default; with io_uring the number in flight, or all if none is in flight |
| `cmdprio_percentage`, `cmdprio_bssplit` | also with `sim`; a warning with other engines than libaio and io_uring, where fio refuses the job |

### Zones

| input | iodyno |
|---|---|
| `zonesize`, `zonerange` or `zoneskip` in percent | an error; fio reads `25%` as 2^64 − 26 bytes |
| `zonesize` without `zonemode` | strided zones, with a warning; fio 3.42 refuses it |
| a last strided zone that the end of the file cuts off | a sequential job ends there or begins its next pass; a random one stays within the zone, where fio ends the job at the first draw beyond it |
| `zonemode=strided` with `offset` or `size` within a longer file | zones stay within the region; fio: they reach the end of the file |
| `zonemode=strided` with several files | each file has its own zones; fio counts the bytes of all files together. Zones have no effect with `openfiles` above 1 |
| `zonemode=zbd` | each clone has its own write pointers; in fio jobs share them. Trims are refused |
| zoned devices | writes need `direct=1`. Clones have zones of their own, with one write in flight per zone; a sequential job empties each zone that it begins. Verification and zones without a write pointer are refused |

### Syncs and errors

| input | iodyno |
|---|---|
| `fsync`, `fdatasync`, `sync_file_range` | after this number of writes, not after the last op; fio 3.33 also syncs after reads in between |
| the same with several files | syncs the file whose writes have waited longest; fio: the next in turn, which then is not written |
| `sync_file_range` | the range of the writes since the last one to the file; synchronous with libaio and io_uring |
| `fsync`, `fdatasync` with libaio | are ops in flight like others; fio 3.33 calls fsync(2) between submissions, one at a time |
| `end_fsync`, `fsync_on_close` with `loops` | one sync at the end of the job; fio: after each pass |
| `atomic=1` without support below | a failed write (EOPNOTSUPP); fio 3.33 ignores the option |
| `continue_on_error` | continues after EIO, EILSEQ and ENODATA (which fio counts as EIO at the end of a file), whatever `ignore_error` names. Others, such as ENOSPC, end the job unless `ignore_error` names them |

### Verification

| input | iodyno |
|---|---|
| `verify` with blocks that begin at multiples of less than 512 bytes (`rw=write:8`, `ba=100`) | an error |
| `verify` with blocks that overlap in part (`ba=512`, `rw=write:1k`) | only whole blocks are checked, as in fio; they are not recorded for `verify_only` |
| `verify` with `bs_unaligned` | an error; fio: a header per op |
| order of the verify pass | by offset; fio: of the writes if the job has a random map |
| `continue_on_error=verify` with bad blocks | exit code 1; fio: 0 |
| `verify` with `loops` | reads back after each pass, in the measured time except after the last |
| `verify` with `time_based` | reads back after the runtime; fio only with `verify_backlog` |
| `verify` with `io_size` above `size` | writes all of `io_size`, then verifies, as sequential writes in fio after 3.42; 3.42 verifies after each pass, counts these reads and writes less |
| `verify_only` with `rw=write` | fio's formats also count the writes, although none is made; iodyno's results do not |
| `verify_state_save` | one record in the state folder; fio: a file `…-verify.state` per job in the current folder |
| `verify_dump` | at most 64 blocks per clone, in the current folder |
| `trim_percentage` | exactly this share, evenly spread; fio draws. Blocks due at the end are trimmed before verification. Trims count towards `number_ios`, not `size` |
| the same with `verify_backlog` | blocks are trimmed; fio 3.42 does not trim |
| the same with `trim_verify_zero=0` | trimmed blocks are not checked; fio 3.42 fails |

### Output

| input | iodyno |
|---|---|
| `--bandwidth-log` | a line per second; fio: about two |
| `--idle-prof` | `system` is from the kernel's counters, also with `percpu`; fio runs threads of the lowest priority, and adds the time of a unit of work |
| logs of a job with `verify` | have its own ops; fio's also have the reads that verify |
| submission latency with `io_uring` | only with `slat_percentiles=1`, `write_lat_log` or `disable_slat=0`, by one more system call per batch; fio: always |
| `disable_clat` and such | no log; the result has the figures, where fio has zeros |
| `log_store_compressed` | `.fz` files for `--inflate-log`. Neither program reads the other's |
| results before the end (`--status-interval`, SIGUSR1) | disk statistics may end up to a second before the rest. CPU time, context switches, page faults and the distribution of depths are 0 until the end |

";

fn own_options(text: &mut String) {
    text.push_str("\nOptions that fio does not have, or not in this form:\n\n| option | value | default | description |\n|---|---|---|---|\n");
    for option in OPTIONS
        .options()
        .filter(|option| OWN.contains(&option.name))
    {
        let (name, value, default) = (option.name, option.unit.describe(), option.default);
        let _ = writeln!(text, "| `{name}` | {value} | {default} | {} |", option.text);
    }
}

fn engines(text: &mut String) {
    let refused = |engine: &&EngineSpec| !matches!(engine.status, Status::Honoured(_));
    let supported = ENGINES.iter().filter(|engine| !refused(engine));
    let supported: Vec<String> = supported
        .map(|engine| format!("`{}`", engine.name))
        .collect();
    let _ = write!(
        text,
        "\n## Engines\n\n`iodyno fio --enghelp` describes the supported engines: {}.\n\nRefused:\n\n",
        supported.join(", ")
    );
    let others = ENGINES.iter().filter(refused);
    text.push_str(&by_reason(
        others.map(|engine| (format!("`{}`", engine.name), engine.status.reason())),
    ));
}

fn flags(text: &mut String) {
    let supported = FLAGS.iter().filter(|flag| flag.honoured());
    let supported: Vec<String> = supported.map(|flag| format!("`--{}`", flag.name)).collect();
    let _ = write!(
        text,
        "\n## Command line\n\n`iodyno fio --help` describes the supported flags: {}.\n",
        supported.join(", ")
    );
    let others = |ignored: bool| {
        let others = FLAGS.iter().filter(move |flag| match flag.status {
            Status::Honoured(_) => false,
            Status::Ignored { .. } => ignored,
            Status::Refused { .. } => !ignored,
        });
        by_reason(others.map(|flag| (format!("`--{}`", flag.name), flag.status.reason())))
    };
    let _ = write!(
        text,
        "\nIgnored:\n\n{}\nRefused:\n\n{}",
        others(true),
        others(false)
    );
}
