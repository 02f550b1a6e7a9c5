//! The compatibility page, generated from the option table.

use std::fmt::Write;

use iodyno_options::Status;

use super::engines::ENGINES;
use super::flags::FLAGS;
use super::options::OPTIONS;

/// Where tests show the effect of each supported option; their program writes it.
const EFFECTS: &str = include_str!("effects.txt");
/// The same for flags.
const FLAG_EFFECTS: &str = include_str!("flag_effects.txt");

/// docs/fio-compatibility.md.
pub fn compatibility_markdown() -> String {
    let mut text = String::new();
    introduction(&mut text);
    text.push_str(&OPTIONS.markdown(EFFECTS));
    engines(&mut text);
    flags(&mut text);
    text
}

fn introduction(text: &mut String) {
    let [honoured, ignored, refused] = OPTIONS.counts();
    let _ = write!(
        text,
        "# fio's options in iodyno\n\n\
         This page is generated from the option table; do not edit it. Regenerate it with\n\
         `cargo run -p iodyno-fio --example fio_compatibility > docs/fio-compatibility.md`.\n\n\
         Of {} options, {honoured} are honoured, {ignored} are ignored (accepted without effect) and {refused} are refused \
         (a job with one is not run).\nAn ignored or refused option is accepted silently with a value that \
         has no effect, such as `lockmem=0`.\nBeside `honoured` is where a test shows the effect of the option or flag.\n\n",
        honoured + ignored + refused,
    );
    text.push_str(IN_PLACE);
    text.push_str(DIFFERENCES);
}

const IN_PLACE: &str = "\
## In place of fio

A script runs unchanged if it finds a link or copy of iodyno under the name `fio`: the program then behaves as
`iodyno fio`. `make install-links` makes such links (`fio`, and `sysbench` for `iodyno fileio`) in a folder of their own, here for one
command:

    PATH=/usr/local/libexec/iodyno:$PATH ./benchmark.sh

| what a script may rely on | iodyno |
|---|---|
| `fio --version` | one line, `fio-3.42`: the release whose command line and output these are. `iodyno --version` prints iodyno's own |
| exit codes | 0, 1 after any error, 128 if interrupted |
| SIGINT, SIGTERM | end a run early, also in a background job of a script, where the shell lets them be ignored; SIGHUP too, but not under `nohup` |
| SIGUSR1 | prints the result so far in the chosen formats, with the next second; `iodyno run` and `iodyno fileio` print a line |
| `--parse-only`, `--enghelp=ENGINE`, `--cmdhelp=OPTION`, `--showcmd` | answer with fio's exit codes; what is refused is not listed |
| standard output | only the result; warnings and errors go to standard error |
| standard error | under the name `fio` without advice: only errors, and warnings of what matters and has no effect |
| no store: HOME is not set, is read-only or full | a warning; the result is printed, and kept nowhere |

The result is stored as well, so that `iodyno list`, `show` and `compare` find it. Flags of iodyno's own stand anywhere among fio's:
`--no-store`, `-q` (`--quiet`: no warnings), `--destroy PATH`, `--allow-exec` (runs the commands of jobs)
and `--dry-run` (prints what a run would do). In a script that cannot be changed, `IODYNO_NO_STORE=1`,
`IODYNO_QUIET=1` and `IODYNO_STORE=PATH` do the same; there is no variable for `--destroy`.

Devices that are in use stay refused, also with `allow_mounted_write=1`.

Of fio 3.42's own tests (`t/run-fio-tests.py`) those pass that run fio's program and need no zoned or NVMe device, with these
exceptions:

| test | why |
|---|---|
| 9 | needs 4 CPUs: `cpus_allowed` with a CPU that the host does not have is an error, as in fio |
| 1004 | its 5 jobs pass; 6 checks read the text of fio's `--debug=parse` |
| 1013 | 13 of 17 checks pass; 4 read the random seeds in the text of fio's `--debug=random` |
| 1016 | `--client` and `--server` are refused |

";

const DIFFERENCES: &str = "\
## Differences from fio

| input | iodyno |
|---|---|
| numbers with trailing text (`4x`, `1.5k`, `1e4`, `4 k`) | an error with its line; fio uses the digits |
| arithmetic without parentheses (`128*2`) | the number before the operator as in fio, with a warning |
| `bs = 4k` | 4096, with a warning; fio uses 4 |
| `4KiB` | 4000 as in fio, with a warning; `kb_base=1000` makes it 4096 |
| `runtime=1min`, `runtime=30sec` | an error; fio assumes microseconds |
| `runtime=0.5` | an error; fio sets no limit |
| `bs=4k-16k` | the sizes of reads and of writes as in fio, with a warning that names `bsrange` |
| shares of `bssplit` that do not add up to 100 | an error |
| `direct=true`, `group_reporting=yes` | the same as 1 |
| `time_based=10`, `direct=1G` and other texts that begin with a number for a boolean | 1 as in fio, with a warning; 0 if the number is 0 |
| `size=20%` of a file that does not exist | an error as in fio; iodyno says so for each file |
| a boolean without a value | 1 |
| `${VAR}` that is not set | an empty text, with a warning |
| options before several job files | apply to all files; fio applies them to the first |
| `continue_on_error` | continues after EIO and EILSEQ as in fio, and after ENODATA, which fio counts as EIO at the end of a file; other errors, such as ENOSPC, end the job unless `ignore_error` names them. With both options, EIO is continued after even if `ignore_error` does not name it |
| `continue_on_error=verify` with bad blocks | exit code 1; that of fio is 0 |
| `verify` with `loops` | blocks are read back after each pass, as in fio; the time of that is part of the measured time, except after the last pass |
| `verify` with `time_based` | blocks are read back after the runtime; fio does not read them back unless `verify_backlog` is set |
| `verify_only` with `rw=write` | the output in fio's formats also counts the writes, as in fio, although none is made; the results of iodyno do not |
| `verify_header` | not an option of fio; `docs/verification.md` describes the headers of verified blocks |
| `verify_state_save` | one record in the state folder of iodyno; fio writes a file `…-verify.state` per job to the current folder |
| the random map with `bsrange` or `bssplit` | as in fio, each byte of the region is accessed once per pass: an op that would meet used blocks ends before them. The blocks drawn are others than fio's, so that the number of ops differs by some percent |
| `bsrange` or `bssplit` with different smallest blocks for reads and writes, or `bs=4k,64k` with one direction | offsets are multiples of each direction's smallest block; fio counts the used blocks in units of the smallest of all directions, and ends some of these jobs early |
| `rwmixread`, `percentage_random` | the same shares as in fio; the draws are others, so that the number of reads differs by some ops |
| `trim_percentage` | exactly this share of the blocks, evenly spread; fio draws. The blocks that are due at the end of the job are trimmed before it is verified. As in fio, these trims count towards `number_ios`, and not towards `size`. With `verify_backlog` blocks are trimmed as well, and with `trim_verify_zero=0` trimmed blocks are not checked; fio 3.42 does not trim with the one, and fails with the other |
| `cmdprio_percentage`, `cmdprio_bssplit` | as in fio with libaio and io_uring, and with `sim`; with other engines a warning, where fio refuses the job |
| `sprandom` | the same model as fio: each region gets its share of valid data, by the closed form of its curve and the exact relation of over-provisioning to it, where fio approximates both. Files instead of a disk have to be one file |
| a trim of a file | punches a hole; fio 3.42 fails with ENOTTY |
| `fsync`, `fdatasync`, `sync_file_range` | after this number of writes, as in fio 3.42, and not after the last op of the job; fio 3.33 also syncs after each read in between |
| `atomic=1` without support by the file system or device | a failed write (EOPNOTSUPP), as in fio 3.42; fio 3.33 ignores the option |
| `create_on_open` with reads and writes | a read beyond the end of the file is an op of 0 bytes, as in fio with asynchronous engines; with others fio fails with EIO |
| a number in parentheses | arithmetic with `+ - * / % ^`, suffixes and `$ncpus`, `$pagesize`, `$mb_memory` |
| a job that does all of its `size` within `ramp_time` | the ops of the ramp are reported, as in fio, which omits their latencies; a note says so. A job that goes on after its ramp is measured from there in both, and the bytes of the ramp count towards `size` |
| the checks of `steadystate` | are counted from the start of the job's measured time; fio checks all jobs at the same instants, so that its first value can cover a part of an interval |
| `filecreate`, `filestat`, `filedelete`, `dircreate`, `dirstat`, `dirdelete` | work in a folder that the trial creates in `directory` and removes at its end; `filename` only sets how many files there are, and in which folder, because fio removes or changes the named files |
| `cpuio` | the CPU spins in every `cpumode`, its ops have 0 bytes as in fio, and a `runtime` is required |
| `latency_target` | depths are doubled, then bisected, from 1 up to `iodepth`; the job ends after one more window at the depth that was found, with `latency_run=1` at its own end. The figures are those of all depths tried, as in fio |
| `zonesize` without `zonemode` | strided zones, with a warning; fio 3.42 refuses it |
| `zonemode=strided` with a last zone that is cut off by the end of the file | as in fio, a sequential job ends there, or begins its next pass; a random one stays within the rest of the zone, where fio ends the job at the first draw beyond it |
| `zonemode=strided` with `offset` or `size` within a longer file | zones stay within the region; in fio they go on to the end of the file |
| `zonemode=strided` with several files | each file has its own zones; in fio the bytes of all files count together. As in fio, zones have no effect with `openfiles` above 1 |
| `rw=randread:N` where the block size does not divide `size` | goes on; fio ends the job when a sequence meets the partial block at the end |
| `number_ios` with `ramp_time` | the ops of the ramp do not count; in fio the job ends if it does as many during the ramp |
| `ioengine=null` with several files and `filesize`, without `size` | whole blocks of each file, as with other engines; fio adds their sizes up first |
| `nrfiles` with less than a block for each file | an error; fio does nothing and reports success |
| `zonemode=zbd` | each clone has its own write pointers; in fio the jobs of a file share them. Trims are refused. On a zoned device, which needs `direct=1` for writes, the clones of a run have zones of their own, one write of a zone is in flight at a time, a sequential job empties each zone that it begins, and verification and zones without a write pointer are refused |
| `sync_file_range` | the range of the writes since the last one to the same file; libaio and io_uring make the call synchronously |
| `steadystate=lat:100us` | 100 µs; fio compares with 100 ns |
| `random_distribution=sequence` | the list is that of each file, and begins again at the end of the region; fio continues it from file to file, and ends the job |
| `serialize_overlap` | ops on different files do not wait for each other; in fio they do if their offsets overlap |
| `time_based` without `runtime` | ignored as in fio, with a warning |
| a job named `/mnt/x`, without `filename` | its files are `/mnt/x.0.0` … as in fio; a `/` elsewhere in a name becomes `_` |
| `filename` or `filename_format` in a folder that does not exist | the folder is created as in fio if the name is relative; an absolute one is an error, because a file system may not be mounted. As in fio, `directory` has to exist |
| `end_fsync`, `fsync_on_close` with `loops` | one sync at the end of the job; fio syncs after each pass |
| `create_fsync=0` | the files are synced before their pages are dropped, unless `invalidate=0` is given; fio leaves dirty pages in the cache |
| `fill_fs` with `fallocate` | space is reserved, and the job fails without it; fio reserves none |
| `fsync`, `fdatasync`, `sync_file_range` with several files | the file with writes that has waited longest is synced; in fio, the next one in turn, which then is not written |
| sequential writes with `loops` and `io_size` above `size` | `io_size` per loop, as in fio after 3.42; 3.42 does the larger of `io_size` and `loops` × `size` |
| `verify` with `io_size` above `size` | all of `io_size` is written, then verified, as with sequential writes in fio after 3.42; 3.42 verifies after each pass, and counts what it reads, so that it writes less than `io_size` |
| `rate` with `rate_process=poisson` and several block sizes | bytes per second; in fio, as many ops per second as if all had the smallest size |
| `numjobs` and `filename_format` without `$jobnum` | all clones use the files, with a warning; in fio, the clones after the first do nothing |
| `file_append` with `loops`, `io_size` or `time_based` | each pass after the first overwrites what the first one appended; in fio, a sequential job ends after the first |
| a file that is named twice | one file with its share of `size`, processed twice as in fio, with a warning |
| `read_iolog` with names of files to write | refused unless the job or the command names the file: [traces.md](traces.md); fio writes to it |
| `log_store_compressed` | `.fz` files hold compressed lines, which `--inflate-log` prints as fio does. Neither program reads the other's |
| `--bandwidth-log` | a line per second; fio writes one about every half second |
| `--idle-prof` | `system` is from the kernel's counters, also with `percpu`; fio runs threads of the lowest priority on each CPU, and adds the time of a unit of work |
| submission latency with `io_uring` | measured, by a system call more for each batch, with `slat_percentiles=1`, `write_lat_log` or `disable_slat=0`; otherwise absent. fio always measures it |
| `disable_clat` and such | the log is not written; the figures are part of the result, where fio gives zeros |
| results before the end (`--status-interval`, SIGUSR1) | statistics of the disks come from samples, so that they may end up to a second before the rest; CPU time, context switches, page faults and the distribution of depths are 0 until the end |
| `write_iolog` with a file that exists | replaces it; fio appends, and cannot replay the result |

";

fn engines(text: &mut String) {
    text.push_str("## Engines\n\n| engine | what it is | status |\n|---|---|---|\n");
    for engine in ENGINES {
        let status = match engine.status {
            Status::Honoured(_) => "supported".to_owned(),
            other => other.describe(),
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            engine.name,
            engine.text,
            escaped(&status)
        );
    }
    text.push('\n');
}

fn flags(text: &mut String) {
    text.push_str(
        "## Command line\n\n`iodyno fio` takes fio's own command line.\n\n\
         | flag | status | description |\n|---|---|---|\n",
    );
    for flag in FLAGS {
        let _ = writeln!(
            text,
            "| `--{}` | {} | {} |",
            flag.name,
            escaped(&flag.described(FLAG_EFFECTS)),
            flag.text
        );
    }
}

/// A bar would end the table cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
