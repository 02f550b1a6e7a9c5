//! Diagnostics of job files: errors with their locations, and warnings.

mod common;

use common::{FakeHost, brief, jobs_of, parse, parse_on, said};
use iodyno_fio as fio;
use iodyno_model::{Amount, Severity};
use proptest::prelude::*;

/// Checks that the options of one job give exactly these diagnostics, each `severity message…`, at these
/// words.
fn check(options: &str, expected: &[(&str, &str)]) {
    let diagnostics = said(options);
    let found: Vec<(String, String)> = diagnostics
        .iter()
        .map(|said| {
            let place = said.place.as_ref();
            let word = place.map_or(String::new(), |place| {
                let letters = place.text.chars().skip(place.column as usize - 1);
                letters.take(place.length as usize).collect()
            });
            let severity = format!("{:?}", said.severity).to_lowercase();
            (word, format!("{severity} {}", said.message))
        })
        .collect();
    let same = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|((word, message), (at, start))| word == at && message.starts_with(start));
    assert!(same, "{options}\nfound {found:#?}\nexpected {expected:#?}");
    for said in &diagnostics {
        let mends = said.hint.as_deref().is_some_and(|hint| !hint.is_empty());
        assert!(mends, "no hint: {}", said.message);
    }
}

#[test]
fn invalid_values_are_errors_at_their_location() {
    let cases: &[(&str, &str, &str)] = &[
        ("bs=4x", "4x", "error `x` is not a suffix of a size"),
        ("bs=1.5k", "1.5k", "error `1.5k` has a fraction"),
        ("bs=1e4", "1e4", "error `e4` is not a suffix"),
        ("bs=4 k", "4 k", "error `4 k` has a space"),
        ("bs=4k,8x", "8x", "error `x` is not a suffix"),
        ("bs=1,2,3,4", "4", "error a list has at most three"),
        ("bs=4k-16x", "16x", "error `x` is not a suffix of a size"),
        ("bs=", "bs=", "error a value is missing"),
        ("bs=0", "0", "error 0 is out of range"),
        ("bsrange=4k", "4k", "error a range has two ends"),
        (
            "bssplit=4k/60:8k/60",
            "4k/60:8k/60",
            "error the shares add up to 120",
        ),
        ("bssplit=4k/50", "4k/50", "error the shares add up to 50"),
        (
            "cmdprio_bssplit=4k/60:8k/9:4k/60",
            "4k/60:8k/9:4k/60",
            "error the shares of blocks of 4096 bytes add up to 120 %",
        ),
        (
            "cmdprio_bssplit=4k/60/1",
            "4k/60/1",
            "error `4k/60/1` is not a share",
        ),
        ("cmdprio_percentage=101", "101", "error 101 is out of range"),
        ("cmdprio=8", "8", "error 8 is out of range"),
        (
            "runtime=1min",
            "1min",
            "error `min` is not a suffix of a time",
        ),
        ("runtime=0.5", "0.5", "error `0.5` has a fraction"),
        ("runtime=30sec", "30sec", "error `sec` is not a suffix"),
        (
            "size=150%",
            "150%",
            "error `150%` is not a whole percentage",
        ),
        ("size=-1", "-1", "error `-1` is negative"),
        ("iodepth=0", "0", "error 0 is out of range"),
        ("iodepth", "iodepth", "error `iodepth` needs a value"),
        (
            "rw=randread\nrandom_distribution=zipf:",
            "zipf:",
            "error `zipf:` needs a number",
        ),
        (
            "numjobs=5000",
            "5000",
            "error 5000 is out of range: 1 to 4096",
        ),
        ("direct=-2", "-2", "error `-2` is neither 0 nor 1"),
        (
            "rw=randread\nrandom_distribution=zipf:1.1:2",
            "2",
            "error `2` is out of range: from 0 to 1",
        ),
        (
            "file_service_type=zipf:1.1:0.5",
            "zipf:1.1:0.5",
            "error the centre of the law by which files are chosen",
        ),
        (
            "ss=iops\nss_dur=9",
            "iops",
            "error a criterion of steadiness needs a limit",
        ),
        (
            "ss=iops:0%\nss_dur=9",
            "0%",
            "error `0%` is out of range: above 0",
        ),
        ("ss=cpu:1%", "cpu", "error `cpu` is not one of its values"),
        (
            "ss=iops:1%\nss_dur=9\nss_interval=2",
            "ss_dur",
            "error the window of steadiness is not a multiple",
        ),
        (
            "ss=iops:1%\nss_dur=1",
            "ss_dur",
            "error the window of steadiness is not a multiple",
        ),
        (
            "ss=iops:1%\nss_dur=9\nss_interval=500ms",
            "ss_interval",
            "error results are checked for steadiness at most once a second",
        ),
        (
            "file_service_type=pareto:2",
            "2",
            "error `2` is out of range: between 0 and 1",
        ),
        (
            "rw=randreed",
            "randreed",
            "error `randreed` is not one of its values",
        ),
        ("rw=Read", "Read", "error `Read` is not one of its values"),
        ("rw=randread:0", "0", "error 0 is out of range"),
        (
            "rw=randread\nrandom_distribution=zipf:1",
            "1",
            "error `1` is out of range",
        ),
        (
            "rw=randread\nrandom_distribution=pareto:1.5",
            "1.5",
            "error `1.5` is out of range",
        ),
        (
            "rw=randread\nrandom_distribution=sequence:5,x",
            "x",
            "error `x` is not the number of a block",
        ),
        (
            "rw=randread\nrandom_distribution=zoned:50/50:40/50",
            "50/50:40/50",
            "error the shares of the ops add up to 90 %",
        ),
        (
            "rw=randrw\nrandom_distribution=zoned:50/50:50/50,60/60:40/60",
            "60/60:40/60",
            "error the zones take 120 % of the region",
        ),
        (
            "rw=randrw\nrandom_distribution=zoned_abs:50/1g:50",
            "50",
            "error the zone `50` has no length",
        ),
        (
            "rw=randrw\nrandom_distribution=zoned:50/x:50/50",
            "x",
            "error `x`",
        ),
        (
            "rw=randread\nrandom_distribution=zipf:1",
            "1",
            "error `1` is out of range",
        ),
        (
            "ioengine=iouring",
            "iouring",
            "error unknown engine `iouring`",
        ),
        (
            "ioengine=rbd",
            "rbd",
            "error the engine `rbd` is not supported",
        ),
        ("cpus_allowed=0,9", "9", "error `9` is not a number below 4"),
        (
            "ignore_error=ENOSPACE",
            "ENOSPACE",
            "error `ENOSPACE` is not a known error",
        ),
        (
            "ioengine=sim\nsim_latency=gamma:1",
            "gamma:1",
            "error `gamma:1` is not a law",
        ),
        (
            "ioengine=sim\nsim_faults=eio",
            "eio",
            "error `eio` is not a fault",
        ),
        (
            "ioengine=sim\nsim_device=mirror:modula:hdd+hdd",
            "modula",
            "error unknown read policy `modula`: the policies are modulo",
        ),
        (
            "ioengine=sim\nsim_device=mirror:modulo:hdd+ssd",
            "mirror:modulo:hdd+ssd",
            "error `ssd` is not a simulated disk",
        ),
        (
            "ioengine=sim\nsim_device=mirror:adaptive:hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd",
            "mirror:adaptive:hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd+hdd",
            "error the mirror has 17 disks, at most 16",
        ),
        (
            "ioengine=sim\nsim_clock=vritual",
            "vritual",
            "error `vritual` is not one of its values",
        ),
        (
            "ioengine=sim\nrw=write\nverify=crc32c",
            "verify",
            "error a simulated device keeps no data",
        ),
        (
            "buffer_pattern='file'",
            "'file'",
            "error cannot read the pattern `file`",
        ),
        (
            "buffer_pattern=%o",
            "%o",
            "error `%o` is not a part of this pattern",
        ),
        (
            "verify=crc32c\nverify_offset=100",
            "verify_offset",
            "error the header of iodyno is at the start",
        ),
        (
            "verify=crc32c\nverify_header=fio\nverify_offset=50",
            "verify_offset",
            "error the moved header overlaps its old place: it has 52 bytes",
        ),
        (
            "verify=xxhash64\nverify_header=fio",
            "verify_header",
            "error headers of fio have no xxhash64",
        ),
        (
            "verify=pattern_hdr\nverify_header=fio",
            "verify",
            "error `verify=pattern_hdr` needs a pattern",
        ),
        (
            "verify=sha512\nverify_header=fio\nbs=128",
            "verify",
            "error a block cannot be verified in parts of 128",
        ),
        ("iodpeth=4", "iodpeth", "error unknown option `iodpeth`"),
        ("RW=read", "RW", "error unknown option `RW`"),
        (
            "zonemode=zbd\nsize=8z",
            "zonemode",
            "error `zonemode=zbd` with sizes in zones needs the size of a zone",
        ),
        (
            "zonemode=zbd\nzonesize=1m\nzonecapacity=2m",
            "zonecapacity",
            "error `zonecapacity` is larger than `zonesize`",
        ),
        (
            "rw=write\nioengine=psync\natomic=1",
            "atomic",
            "error this engine does not support atomic writes",
        ),
        (
            "rw=read\nfill_device=1",
            "fill_device",
            "error only a job that writes",
        ),
        ("filename=-", "-", "error standard input"),
        ("size=4z", "size", "error zones as a unit"),
        ("nice=20", "20", "error `20` is not a niceness"),
        (
            "log_alternate_epoch=1\nlog_alternate_epoch_clock_id=2",
            "2",
            "error there is no clock 2",
        ),
        (
            "ioengine=libaio\ncmdprio_percentage=5\ncmdprio_bssplit=4k/9",
            "cmdprio_bssplit",
            "error `cmdprio_percentage` and `cmdprio_bssplit` exclude",
        ),
        (
            "sprandom=1",
            "sprandom",
            "error `sprandom` needs random writes",
        ),
        (
            "rw=randwrite\nsprandom=1\nrandom_generator=tausworthe",
            "sprandom",
            "error `sprandom` writes each block once",
        ),
        (
            "rw=randwrite\nsprandom=1\nnorandommap=0",
            "sprandom",
            "error `sprandom` repeats blocks",
        ),
        (
            "rw=randwrite\nsprandom=1\nrandom_distribution=zipf",
            "sprandom",
            "error `sprandom` determines",
        ),
        (
            "rw=randwrite\nsprandom=1\nbs=4k-8k\nbsrange=4k-8k",
            "sprandom",
            "error `sprandom` needs blocks of one size",
        ),
        ("spr_op=1.5", "1.5", "error the over-provisioning 1.5"),
        (
            "rate=1m\nrate_iops=5",
            "rate_iops",
            "error `rate` and `rate_iops` exclude",
        ),
        (
            "rate=1m\nrate_min=2m",
            "rate_min",
            "error the minimum rate is above",
        ),
        (
            "zonemode=strided",
            "zonemode",
            "error strided zones need a size",
        ),
        (
            "zonemode=none\nzonesize=1m",
            "zonesize",
            "error `zonesize` contradicts",
        ),
        (
            "verify=crc32c\nverify_interval=3000",
            "verify_interval",
            "error a block cannot be verified in parts of 3000",
        ),
        (
            "verify=crc32c\nbs=16",
            "verify",
            "error a block cannot be verified in parts of 16",
        ),
        (
            "size=1k\nbs=4k",
            "bs",
            "error a block (4 KiB) is larger than the job's `size`",
        ),
        (
            "ioengine=io_uring\nhipri",
            "hipri",
            "error polling for completions needs direct",
        ),
        (
            "ioengine=io_uring_cmd\nsync=1",
            "sync",
            "error the engine `io_uring_cmd` does not support `sync`",
        ),
    ];
    for (options, word, message) in cases {
        let diagnostics = said(options);
        let errors: Vec<_> = diagnostics
            .iter()
            .filter(|said| said.severity == Severity::Error)
            .cloned()
            .collect();
        assert_eq!(errors.len(), 1, "{options}: {:#?}", brief(&diagnostics));
        let place = errors[0].place.as_ref().unwrap();
        let at: String = place
            .text
            .chars()
            .skip(place.column as usize - 1)
            .take(place.length as usize)
            .collect();
        assert_eq!(at, *word, "{options}");
        assert!(errors[0].hint.is_some(), "{options}: no hint");
        let text = format!("error {}", errors[0].message);
        assert!(text.starts_with(message), "{options}: {text}");
    }
}

#[test]
fn invalid_values_are_reported_with_the_expected_format() {
    for (option, form) in [
        (
            "sim_latency=constant:slow",
            "`constant:100us` or `exponential:100us`",
        ),
        ("bssplit=4k/60:64k/x", "`4k/60:64k/40`"),
        ("percentile_list=50:x", "`50:99:99.9`"),
    ] {
        let diagnostics = said(option);
        let hint = diagnostics[0].hint.as_deref().unwrap();
        assert!(
            hint.contains("such as") && hint.contains(form),
            "{option}: {hint}"
        );
    }
}

#[test]
fn surprising_options_give_warnings() {
    check("bs=4KiB", &[("4KiB", "warning `4KiB` is 4000 bytes")]);
    check(
        "kb_base=1000\nbs=4ki",
        &[("4ki", "warning `4ki` is 4000 bytes")],
    );
    check(
        "write_hist_log=h",
        &[(
            "write_hist_log",
            "warning the log of histograms stays empty",
        )],
    );
    check("bs = 4k", &[("4k", "warning fio drops the suffix")]);
    check(
        "iodepth=16",
        &[("iodepth", "warning `iodepth` has no effect: psync")],
    );
    check(
        "ioengine=libaio\niodepth=4",
        &[("ioengine", "warning libaio without `direct=1`")],
    );
    check(
        "ioengine=mmap\ndirect=1",
        &[("direct", "warning `direct` has no effect on a mapped")],
    );
    check(
        "fixedbufs",
        &[(
            "fixedbufs",
            "warning `fixedbufs` has no effect: it is for io_uring and io_uring_cmd, not psync",
        )],
    );
    check(
        "sim_servers=2",
        &[("sim_servers", "warning `sim_servers` has no effect")],
    );
    check(
        "ioengine=sim\nsim_device=hdd\nsim_servers=2",
        &[(
            "sim_servers",
            "warning `sim_servers` has no effect: it is for `sim_device=law`",
        )],
    );
    check(
        "runtime=10",
        &[("runtime", "note the job ends after 16 MiB even if")],
    );
    check(
        "numjobs=4\nfilename=/dev/x",
        &[("numjobs", "warning all 4 clones access the same blocks")],
    );
    check(
        "numjobs=3\nfilename_format=$jobname.$filenum",
        &[
            (
                "numjobs",
                "note `size` is for each clone: 3 × 16 MiB = 48 MiB",
            ),
            (
                "filename_format",
                "warning all 3 clones use the same files; in fio, those after the first do nothing",
            ),
        ],
    );
    check(
        "rw=write\nfile_append=1\nloops=2",
        &[(
            "file_append",
            "note each pass after the first overwrites what the first one appended",
        )],
    );
    check(
        "numjobs=4",
        &[(
            "numjobs",
            "note `size` is for each clone: 4 × 16 MiB = 64 MiB",
        )],
    );
    check(
        "filename=/dev/x\nnumjobs=2\noffset_increment=1m\nrate=1m",
        &[("rate", "note the rate is for each clone")],
    );
    check(
        "rw=randread\nrandom_distribution=zipf",
        &[("random_distribution", "note this distribution accesses")],
    );
    check("rw=randread\nrandom_distribution=zipf\nnorandommap", &[]);
    check(
        "norandommap",
        &[(
            "norandommap",
            "note `norandommap` has no effect: the job is sequential",
        )],
    );
    check(
        "rw=randread\nba=512",
        &[("ba", "note an alignment other than")],
    );
    check(
        "rwmixread=70",
        &[("rwmixread", "warning `rwmixread` has no effect")],
    );
    check(
        "fsync=1",
        &[(
            "fsync",
            "warning `fsync` has no effect: the job writes nothing",
        )],
    );
    check("end_fsync=0", &[]);
    check(
        "rw=write\nzero_buffers",
        &[("zero_buffers", "warning storage with compression")],
    );
    check(
        "rw=write\nbuffer_compress_percentage=100",
        &[(
            "buffer_compress_percentage",
            "warning storage with compression",
        )],
    );
    check(
        "rw=randwrite\nverify=crc32c\nnorandommap\nioengine=io_uring\niodepth=4",
        &[(
            "verify",
            "warning blocks written more than once while in flight",
        )],
    );
    check(
        "verify=sha256",
        &[("verify", "warning `sha256` is carried out as xxhash64")],
    );
    check(
        "direct=1\nbs=1000",
        &[("bs", "warning direct I/O of 1000 bytes fails")],
    );
    check("ioengine=null\ndirect=1\nbs=1000", &[]);
    check(
        "bs=4k\nblocksize=8k",
        &[(
            "blocksize",
            "warning `blocksize` is set twice in this section, before in line 3",
        )],
    );
    check("filename=a\nfilename=b\nsize=1m", &[]);
    check(
        "filename=a",
        &[("filename", "note without `size` the whole length")],
    );
    check("filename=/dev/sdx", &[]);
    check("gtod_reduce=1", &[]);
    check(
        "gtod_cpu=1",
        &[(
            "1",
            "note `gtod_cpu` is ignored: everything is always recorded",
        )],
    );
    check("direct=1G", &[("1G", "warning as in fio, `1G` is 1")]);
    check("direct=0x", &[("0x", "warning as in fio, `0x` is 0")]);
    check("direct=x1", &[("x1", "error `x1` is neither 0 nor 1")]);
    check(
        "ioengine=aiolib",
        &[("aiolib", "note as in fio, the engine `aiolib` is `libaio`")],
    );
    check(
        "slat_percentiles=1",
        &[(
            "slat_percentiles",
            "warning `slat_percentiles` has no effect: `psync` does not submit",
        )],
    );
    check("ioengine=io_uring\nslat_percentiles=1", &[]);
    check(
        "ss=iops:10%",
        &[("ss", "warning `steadystate` has no effect without a window")],
    );
    check("thread", &[]);
    check(
        "time_based",
        &[("time_based", "warning `time_based` has no effect without")],
    );
    check(
        "bs=4k-16k",
        &[("4k-16k", "warning `4k-16k` is not a range: as in fio")],
    );
    check("loops=2*3", &[("2*3", "warning as in fio, `2*3` is `2`")]);
    check(
        "time_based=10\nruntime=1",
        &[("10", "warning as in fio, `10` is 1")],
    );
    check(
        "size=64k\nbsrange=4k-128k",
        &[(
            "bsrange",
            "warning a block (128 KiB) is larger than the job's `size` (64 KiB): it is cut",
        )],
    );
    for (engine, told) in [
        ("splice", "warning splice is run as psync"),
        ("vsync", "warning vsync is run as pvsync2"),
        ("pvsync", "note pvsync is run as pvsync2"),
    ] {
        check(&format!("ioengine={engine}"), &[(engine, told)]);
    }
    check("loops=(2*3)\nioengine=aio\nstats=0\nsize=100%%", &[]);
    check(
        "rw=randread\nnorandommap\nrandom_distribution=zipf:1.2/0.3",
        &[("0.3", "warning as in fio, `/0.3` has no effect")],
    );
    check(
        "zonemode=strided\nzonesize=64k\nzonerange=16k",
        &[("zonesize", "warning `zonesize` is larger than `zonerange`")],
    );
    check(
        "zonesize=64k",
        &[(
            "zonesize",
            "warning `zonesize` without `zonemode` is read as",
        )],
    );
    check(
        "zonemode=strided\nzonesize=64k\nnrfiles=3\nopenfiles=2",
        &[(
            "zonesize",
            "warning strided zones have no effect with `openfiles`",
        )],
    );
    check(
        "filename=/dev/x:/dev/y:/dev/x",
        &[("filename", "warning `/dev/x` is named twice: as in fio")],
    );
    check("flow=0\natomic=0\nlockfile=none", &[]);
    check(
        "bs=${NO_SUCH}4k",
        &[("${NO_SUCH}4k", "warning the variable `NO_SUCH` is not set")],
    );
}

#[test]
fn a_job_without_a_size_needs_files_that_are_there() {
    assert_eq!(
        brief(&parse("[a]\nrw=write\n").diagnostics),
        ["1:1+3 warning without `size` the job's files must exist, and their whole length is used"]
    );
    let without_files = parse("[a]\nrw=write\nioengine=null\n");
    assert_eq!(
        brief(&without_files.diagnostics),
        ["3:1+8 error the job has no size, and its engine uses no files"]
    );
    assert!(without_files.workload.is_none() && !without_files.well_formed);
    for text in [
        "[a]\n",
        "[a]\nfilename=/dev/x\n",
        "[a]\nfilesize=1m\n",
        "[a]\nallow_file_create=0\n",
    ] {
        assert!(parse(text).workload.is_some(), "{text}");
    }
}

#[test]
fn all_errors_of_a_file_are_reported_at_once_in_order() {
    let text = "bs=4k\n[global]\nbs=4x ; comment\n  direct = maybe\n[a]\nsize=1m\nrunning=5\n\
                numjobs=0\n[b\nsize=1m\n[]\n[globals]\n[c] x\nsize=1m\nwait_for=zz\n";
    let found = brief(&parse(text).diagnostics);
    let expected = [
        "1:1+5 error an option precedes the first section",
        "3:4+2 error `x` is not a suffix of a size",
        "4:12+5 error `maybe` is neither 0 nor 1",
        "7:1+7 error unknown option `running`",
        "8:9+1 error 0 is out of range: 1 to 4096",
        "9:1+2 error the section's `]` is missing",
        "11:1+2 error the section has no name",
        "12:1+9 warning `[globals]` is not a job: a name that begins with `global` holds defaults",
        "13:5+1 error `x` follows the section's name",
        "15:1+8 error no earlier job is named `zz`",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_error_in_the_global_section_is_reported_once() {
    let found = brief(&parse("[global]\nsize=1m\niodepth=8\n[a]\n[b]\n[c]\n").diagnostics);
    assert_eq!(
        found,
        ["3:1+7 warning `iodepth` has no effect: psync does one op at a time"]
    );
}

#[test]
fn unsupported_options_are_well_formed() {
    for (text, well_formed) in [
        ("[a]\nioengine=rbd\npool=x\n", true),
        ("[a]\nsize=1m\nunlink_each_loop=1\n", true),
        ("[a]\nsize=1m\nunlink_each_loop=1\nbs=4x\n", false),
        ("[a]\nsize=1m\n", true),
        ("", false),
    ] {
        assert_eq!(parse(text).well_formed, well_formed, "{text}");
    }
}

#[test]
fn wait_for_needs_exactly_one_earlier_job_of_that_name() {
    for (text, message) in [
        ("[a]\nwait_for=a\n", "`a` waits for itself"),
        ("[a]\nwait_for=b\n[b]\n", "no earlier job is named `b`"),
        ("[b]\n[b]\n[a]\nwait_for=b\n", "2 jobs are named `b`"),
    ] {
        let text = format!("[global]\nsize=1m\n{text}");
        let errors: Vec<_> = parse(&text)
            .diagnostics
            .into_iter()
            .filter(|said| said.severity == Severity::Error)
            .collect();
        assert_eq!(errors.len(), 1, "{text}");
        assert_eq!(errors[0].message, message);
    }
}

#[test]
fn jobs_of_the_same_name_share_their_files() {
    let found = brief(&parse("[global]\nsize=1m\n[a]\n[a]\n").diagnostics);
    assert_eq!(
        found,
        ["4:1+3 warning two jobs are named `a`, and share their files"]
    );
}

#[test]
fn a_filename_adds_to_that_of_the_globals() {
    let parsed = parse("[global]\nsize=1m\nfilename=g\n[a]\nfilename=x\n");
    assert_eq!(
        brief(&parsed.diagnostics),
        ["5:1+8 warning `filename` adds to the names of the global section; the job uses them all"]
    );
    assert_eq!(
        jobs_of(parsed, "")
            .remove(0)
            .work
            .blocks()
            .unwrap()
            .clone()
            .files
            .names
            .len(),
        2
    );
}

#[test]
fn includes_are_inserted() {
    let host = FakeHost::with(&[
        ("test.fio", "[global]\ninclude opts.inc\n[a]\nbs=8k\n"),
        ("opts.inc", "bs=4k\ninclude more.inc\n"),
        ("more.inc", "size=1m\n"),
    ]);
    let parsed = parse_on(&host);
    assert_eq!(brief(&parsed.diagnostics), [""; 0]);
    let workload = parsed.workload.unwrap();
    assert_eq!(workload.name, "test");
    let names: Vec<&str> = workload
        .sources
        .iter()
        .map(|source| source.name.as_str())
        .collect();
    assert_eq!(names, ["test.fio", "opts.inc", "more.inc"]);
    assert_eq!(
        workload.jobs[0].work.blocks().unwrap().extent.size,
        Some(Amount::Bytes(1 << 20))
    );
    assert_eq!(
        workload.jobs[0].work.blocks().unwrap().access.max_block(),
        8192
    );
}

#[test]
fn an_include_is_looked_for_beside_its_file() {
    let host = FakeHost::with(&[
        ("d/j.fio", "[a]\ninclude o.inc\n"),
        ("d/o.inc", "size=1m\n"),
    ]);
    let parsed = fio::parse_files(&["d/j.fio".into()], &[], &host);
    assert!(parsed.workload.is_some(), "{:?}", parsed.diagnostics);
}

#[test]
fn invalid_includes_are_errors_at_their_location() {
    let circle = FakeHost::with(&[
        ("test.fio", "[a]\nsize=1m\ninclude x\n"),
        ("x", "include y\n"),
        ("y", "include x\n"),
    ]);
    let found = parse_on(&circle).diagnostics;
    assert_eq!(
        brief(&found),
        ["1:9+1 error `x` includes itself, or too deeply"]
    );
    assert_eq!(found[0].place.as_ref().unwrap().file.to_str(), Some("y"));
    let missing = parse("[a]\nsize=1m\ninclude nothing.inc\n").diagnostics;
    assert!(
        missing[0]
            .message
            .starts_with("cannot read the included file `nothing.inc`")
    );
    let sections = FakeHost::with(&[
        ("test.fio", "[a]\nsize=1m\ninclude x\n"),
        ("x", "bs=8k\n[b]\n"),
    ]);
    assert_eq!(
        brief(&parse_on(&sections).diagnostics),
        ["2:1+3 error an included file has no sections of its own"]
    );
}

#[test]
fn variables_come_from_the_environment() {
    let host = FakeHost::with(&[(
        "test.fio",
        "[a]\nsize=${SIZE}m\nfilename=/dev/${DISK}\nnumjobs=$ncpus\n",
    )])
    .variable("SIZE", "64")
    .variable("DISK", "sdb");
    let job = jobs_of(parse_on(&host), "").remove(0);
    assert_eq!(
        job.work.blocks().unwrap().extent.size,
        Some(Amount::Bytes(64 << 20))
    );
    assert_eq!(
        job.work.blocks().unwrap().files.names[0].to_str(),
        Some("/dev/sdb")
    );
    assert_eq!(job.clones, 4);
    assert_eq!(job.options["size"], "64m");
}

#[test]
fn every_later_file_waits_and_has_its_own_global_section() {
    let host = FakeHost::with(&[
        ("one.fio", "[global]\nsize=1m\nbs=8k\n[a]\n[b]\n"),
        ("two.fio", "[c]\nsize=1m\n[d]\nsize=1m\n"),
    ]);
    let parsed = fio::parse_files(&["one.fio".into(), "two.fio".into()], &[], &host);
    let workload = parsed.workload.unwrap();
    assert_eq!(workload.name, "one");
    let groups: Vec<u32> = workload
        .jobs
        .iter()
        .map(|job| job.reporting.group)
        .collect();
    assert_eq!(groups, [0, 0, 1, 1]);
    assert_eq!(workload.jobs[2].after, iodyno_model::After::AllBefore);
    assert_eq!(workload.jobs[3].after, iodyno_model::After::Start);
    assert_eq!(
        workload.jobs[2].work.blocks().unwrap().access.max_block(),
        4096
    );
}

#[test]
fn overrides_take_precedence_over_every_section() {
    let host = FakeHost::with(&[(
        "test.fio",
        "[global]\nbs=4k\nsize=1m\n[a]\nbs=8k\nfilename=x\n[b]\n",
    )]);
    let set = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        fio::parse_files(&["test.fio".into()], &pairs, &host)
    };
    let jobs = jobs_of(set(&[("bs", "16k"), ("filename", "/dev/y")]), "");
    for job in &jobs {
        assert_eq!(job.work.blocks().unwrap().access.max_block(), 16384);
        assert_eq!(
            job.work.blocks().unwrap().files.names,
            [std::path::PathBuf::from("/dev/y")]
        );
        assert_eq!(job.options["bs"], "16k");
    }
    let wrong = set(&[("bs", "4x"), ("blocksze", "4k")]).diagnostics;
    assert_eq!(
        brief(&wrong),
        [
            "1:7+8 error unknown option `blocksze`",
            "1:10+2 error `x` is not a suffix of a size"
        ]
    );
}

#[test]
fn files_that_cannot_be_read_are_all_named() {
    let host = FakeHost::default();
    let parsed = fio::parse_files(&["a.fio".into(), "b.fio".into()], &[], &host);
    let messages: Vec<&str> = parsed
        .diagnostics
        .iter()
        .map(|said| said.message.as_str())
        .collect();
    assert!(
        messages[0].starts_with("cannot read `a.fio`"),
        "{messages:?}"
    );
    assert!(
        messages[1].starts_with("cannot read `b.fio`"),
        "{messages:?}"
    );
    assert!(parsed.workload.is_none());
}

#[test]
fn standard_input_is_a_job_file() {
    let host = FakeHost::with(&[("-", "[a]\nsize=1m\n")]);
    let workload = fio::parse_files(&["-".into()], &[], &host)
        .workload
        .unwrap();
    assert_eq!(workload.name, "stdin");
}

#[test]
fn comments_spaces_and_line_endings_are_ignored() {
    let text =
        "\u{feff}; first\r\n  # second\r\n[ my job ] # name\r\n\tsize=1m;x\r\n\n  bs=8k # y\r\n";
    let job = common::jobs(text).remove(0);
    assert_eq!(
        (
            job.name.as_str(),
            job.work.blocks().unwrap().access.max_block()
        ),
        (" my job ", 8192)
    );
}

#[test]
fn columns_count_characters() {
    let found =
        brief(&parse("[a]\nsize=1m\ndescription=é\n  filename=ü:ö é ; bs=1\nbs=ü\n").diagnostics);
    assert_eq!(found[0], "5:4+1 error `ü` is not a number");
}

#[test]
fn hints_show_what_to_write() {
    for (options, expected) in [
        ("runtime", "write `runtime=SECONDS`"),
        ("thinktime", "write `thinktime=MICROSECONDS`"),
        ("iodepth", "write `iodepth=…` (a count)"),
        (
            "rw=randread\nrandom_distribution=zipf:",
            "write a number, such as `zipf:1.2`",
        ),
    ] {
        let diagnostics = said(options);
        let error = diagnostics
            .iter()
            .find(|said| said.severity == Severity::Error);
        assert_eq!(error.unwrap().hint.as_deref(), Some(expected), "{options}");
    }
}

/// A text similar to a job file.
fn job_text() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = fio::option_names().collect();
    let line = prop_oneof![
        4 => (proptest::sample::select(names), "[-a-z0-9%:,/.(){}$ ]{0,12}")
            .prop_map(|(name, value)| format!("{name}={value}")),
        1 => "\\[[a-z]{1,8}\\]",
        1 => "\\PC{0,30}",
    ];
    proptest::collection::vec(line, 0..24).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "(\\PC|\n|\\[|=){0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_job_file_makes_the_parser_panic_and_every_place_exists(text in job_text()) {
        let text = format!("[j]\n{text}");
        let parsed = parse(&text);
        let failed = parsed.diagnostics.iter().any(|said| said.severity == Severity::Error);
        prop_assert_eq!(parsed.workload.is_none(), failed);
        for place in parsed.diagnostics.iter().filter_map(|said| said.place.as_ref()) {
            let line = text.lines().nth(place.line as usize - 1).unwrap();
            prop_assert_eq!(line, &place.text);
            let end = place.column - 1 + place.length;
            prop_assert!(end as usize <= line.chars().count(), "{:?}", place);
        }
    }
}

/// Counts how many included files were read.
struct Counting {
    files: FakeHost,
    read: std::cell::Cell<usize>,
}

impl iodyno_fio::Host for Counting {
    fn read(&self, path: &std::path::Path) -> std::io::Result<String> {
        self.files.read(path)
    }

    fn read_included(&self, path: &std::path::Path) -> std::io::Result<String> {
        self.read.set(self.read.get() + 1);
        self.files.read(path)
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn cpus(&self) -> u32 {
        4
    }

    fn memory_mb(&self) -> u64 {
        8192
    }
}

#[test]
fn includes_that_multiply_end_at_a_limit() {
    // Each of 15 files includes the next one a hundred times.
    let names: Vec<String> = (0..15).map(|depth| format!("f{depth}")).collect();
    let mut files = vec![("test.fio", "[a]\nsize=1m\ninclude f0\n".to_owned())];
    for (name, next) in names.iter().zip(&names[1..]) {
        files.push((name, format!("include {next}\n").repeat(100)));
    }
    let last = names.last().unwrap();
    let read = |lowest: &str| {
        let files = files.iter().map(|(name, text)| (*name, text.as_str()));
        let files: Vec<(&str, &str)> = files.chain([(last.as_str(), lowest)]).collect();
        let host = Counting {
            files: FakeHost::with(&files),
            read: std::cell::Cell::default(),
        };
        let parsed = iodyno_fio::parse_files(&["test.fio".into()], &[], &host);
        assert!(parsed.workload.is_none());
        assert_eq!(parsed.diagnostics.len(), 1, "{:?}", parsed.diagnostics);
        (host.read.get(), parsed.diagnostics[0].message.clone())
    };
    let (count, message) = read("");
    assert_eq!(count, 10_000);
    assert!(message.ends_with("there are more than 10000 job files and included files"));
    let (count, message) = read(&"; a comment of a mebibyte\n".repeat(40_000));
    assert!(count < 100, "{count}");
    assert!(
        message.ends_with("together are longer than 64 MiB"),
        "{message}"
    );
}

#[test]
fn many_jobs_of_one_name_are_each_warned_of() {
    let text = "[a]\nsize=1m\n[b]\nsize=1m\n".repeat(50);
    let parsed = parse(&text);
    assert_eq!(parsed.workload.unwrap().jobs.len(), 100);
    let twice = parsed.diagnostics.iter();
    let twice = twice.filter(|said| said.message.starts_with("two jobs are named"));
    assert_eq!(twice.count(), 98);
    let waits = "[a]\nsize=1m\n".repeat(50) + "[b]\nsize=1m\nwait_for=c\n";
    let parsed = parse(&waits);
    let faults = parsed.diagnostics.iter();
    let hint = faults.filter_map(|said| said.hint.as_deref()).next_back();
    assert_eq!(
        hint,
        Some(format!("there are: {}…", "a, ".repeat(20)).as_str())
    );
}

#[test]
fn options_that_contradict_a_trace_are_errors() {
    check(
        "read_iolog=-",
        &[("-", "error a trace is not read from standard input")],
    );
    check(
        "replay_align=3000",
        &[("3000", "error 3000 is not a power of two")],
    );
    check("replay_time_scale=0", &[("0", "error 0 is out of range")]);
    check(
        "replay_skip=read,fsync",
        &[("fsync", "error `fsync` is not a kind of op")],
    );
    check(
        "read_iolog=a\nrate_iops=5\nverify=crc32c",
        &[
            ("rate_iops", "error `rate_iops` does not apply to a replay"),
            ("verify", "error `verify` does not apply to a replay"),
        ],
    );
    check(
        "read_iolog=a\nloops=3",
        &[("loops", "warning a trace is replayed once")],
    );
    check(
        "merge_blktrace_file=x",
        &[("x", "error `merge_blktrace_file` is not supported")],
    );
}
