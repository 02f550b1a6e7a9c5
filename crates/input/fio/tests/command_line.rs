//! fio's own command line.

mod common;

use std::path::PathBuf;

use common::{FakeHost, brief, command};
use iodyno_fio::{Action, CommandLine, Eta, OutputFormat, OwnFlags};
use iodyno_model::{After, Checksum, HeaderFormat, Job, Severity};
use iodyno_units::Nanos;
use proptest::prelude::*;

fn read(text: &str) -> CommandLine {
    command(text, &FakeHost::default())
}

fn jobs(text: &str) -> Vec<Job> {
    let command = read(text);
    match command.parsed.workload {
        Some(workload) => workload.jobs,
        None => panic!("{text}: {:#?}", brief(&command.parsed.diagnostics)),
    }
}

#[test]
fn options_before_the_first_name_apply_to_all_jobs() {
    let jobs = jobs("--size=1m --bs=8k --name=a --rw=write --name=b --bs=16k");
    assert_eq!(jobs.len(), 2);
    assert_eq!((jobs[0].name.as_str(), jobs[1].name.as_str()), ("a", "b"));
    assert_eq!(
        (
            jobs[0].work.blocks().unwrap().access.max_block(),
            jobs[1].work.blocks().unwrap().access.max_block()
        ),
        (8192, 16384)
    );
    assert!(
        jobs[0].work.blocks().unwrap().access.writes
            && !jobs[1].work.blocks().unwrap().access.writes
    );
}

#[test]
fn values_follow_an_equals_sign_or_a_space_and_one_dash_suffices() {
    for text in [
        "--name=a --size=1m --bs=8k --direct=1",
        "--name a --size 1m --bs 8k --direct 1",
        "-name a -size=1m -bs 8k -direct",
        "--name=a --size=1m --blocksize=8k --direct --rw=read",
        "--name=a --size=1m --direct true --bs=8k --ioeng=psync",
    ] {
        let job = &jobs(text)[0];
        assert_eq!(
            job.work.blocks().unwrap().access.max_block(),
            8192,
            "{text}"
        );
        assert!(job.work.blocks().unwrap().engine.direct, "{text}");
    }
}

#[test]
fn a_typical_script_is_parsed_as_by_fio() {
    let job = &jobs(
        "--name=random-write --ioengine=posixaio --rw=randwrite --bs=4k --numjobs=4 --size=4g \
         --iodepth=8 --runtime=60 --time_based --end_fsync=1",
    )[0];
    assert_eq!(
        (job.clones, job.work.blocks().unwrap().engine.depth),
        (4, 8)
    );
    assert_eq!(job.end.runtime, Some(Nanos::from_secs(60)));
    assert!(
        job.work.blocks().unwrap().passes.time_based
            && job.work.blocks().unwrap().sync.end_fsync
            && job.work.blocks().unwrap().access.random_map
    );
}

#[test]
fn job_files_inherit_the_global_options_of_the_command() {
    let host = FakeHost::with(&[
        ("x.fio", "[a]\nsize=1m\n[b]\nsize=1m\nbs=16k\n"),
        ("y.fio", "[c]\nsize=1m\n"),
    ]);
    let read = command("--bs=8k x.fio --output-format=json y.fio", &host);
    let workload = read.parsed.workload.unwrap();
    let blocks: Vec<u64> = workload
        .jobs
        .iter()
        .map(|job| job.work.blocks().unwrap().access.max_block())
        .collect();
    assert_eq!(blocks, [8192, 16384, 8192]);
    assert_eq!(workload.jobs[2].after, After::AllBefore);
    assert_eq!(workload.name, "x");
    assert_eq!(read.output.formats, [OutputFormat::Json]);
}

#[test]
fn only_requested_sections_are_run() {
    let host = FakeHost::with(&[("x.fio", "[global]\nsize=1m\n[a]\n[b]\n[c]\n")]);
    let names = |text: &str| -> Vec<String> {
        let workload = command(text, &host).parsed.workload.unwrap();
        workload.jobs.into_iter().map(|job| job.name).collect()
    };
    assert_eq!(names("x.fio --section=b"), ["b"]);
    assert_eq!(names("--section=a --section c x.fio"), ["a", "c"]);
    let missing = command("x.fio --section=zz", &host).parsed;
    assert_eq!(
        brief(&missing.diagnostics),
        ["error no section is named `zz`"]
    );
}

#[test]
fn output_has_the_requested_destination_and_formats() {
    use OutputFormat::{Json, JsonPlus, Normal, Terse};
    let output = |text: &str| read(&format!("--name=a --size=1m {text}")).output;
    for (text, formats) in [
        ("", vec![Normal]),
        ("--output-format=json", vec![Json]),
        ("--output-format json+", vec![JsonPlus]),
        (
            "--output-format=normal,json,terse",
            vec![Terse, Json, Normal],
        ),
        ("--output-format=json+,json", vec![JsonPlus]),
        ("--output-format=json,json", vec![Json]),
        ("--minimal", vec![Terse]),
        ("-m", vec![Terse]),
        ("--append-terse", vec![Terse, Normal]),
        ("--output-format=json --append-terse", vec![Terse, Json]),
    ] {
        assert_eq!(output(text).formats, formats, "{text}");
    }
    assert_eq!(output("").terse_version, 3);
    assert_eq!(output("--minimal --terse-version=4").terse_version, 4);
    assert_eq!(output("--minimal -V 5").terse_version, 5);
    let all = output("--output=o.json --status-interval=500ms --eta=never --eta-newline=10s");
    assert_eq!(all.file, Some(PathBuf::from("o.json")));
    assert_eq!(all.status_interval, Some(Nanos::from_millis(500)));
    assert_eq!(all.eta, Eta::Never);
    assert_eq!(all.eta_newline, Some(Nanos::from_secs(10)));
}

#[test]
fn help_and_version_need_no_job() {
    assert_eq!(read("--version").action, Action::Version);
    assert_eq!(read("-v").action, Action::Version);
    for (text, words) in [
        ("--help", "--output-format=…"),
        ("--cmdhelp=iodepth", "Maximum number of ops in flight"),
        ("--cmdhelp=iodepht", "did you mean `iodepth`?"),
        ("--cmdhelp", "numjobs"),
        ("--enghelp", "io_uring"),
        ("--enghelp=libaio", "nowait"),
        ("--enghelp=libaio,nowait", "RWF_NOWAIT"),
    ] {
        let command = read(text);
        let Action::Print(printed) = command.action else {
            panic!("{text}: {:?}", command.action);
        };
        assert!(printed.contains(words), "{text}: {printed}");
        assert!(command.parsed.diagnostics.is_empty(), "{text}");
    }
    assert_eq!(
        read("--name=a --size=1m --parse-only").action,
        Action::ParseOnly
    );
    // The shown command does the same: `kb_base` applies to what follows it, and of two options for one setting the last
    // applies.
    for (given, expected) in [
        (
            "--size=1m --name=a --rw=randread:8 --filename=/tmp/a",
            "fio --name=a --filename=/tmp/a --rw=randread:8 --size=1m\n",
        ),
        (
            "--name=a --kb_base=1000 --rwmixwrite=20 --rwmixread=30 --direct=1 --buffered=1 --bs=4k",
            "fio --name=a --kb_base=1000 --bs=4k --buffered=1 --rwmixread=30\n",
        ),
    ] {
        let shown = read(&format!("{given} --showcmd")).action;
        assert_eq!(shown, Action::Print(expected.to_owned()));
    }
}

#[test]
fn errors_point_into_the_command() {
    for (text, expected) in [
        ("--size=1m", "error there is no job"),
        (
            "--name=a --size=1m --iodpeth=4",
            "1:20+9 error unknown option `--iodpeth`",
        ),
        (
            "--name=a --size=4x",
            "1:17+2 error `x` is not a suffix of a size",
        ),
        (
            "--name=a --size 4x",
            "1:17+2 error `x` is not a suffix of a size",
        ),
        (
            "--name=a --size=1m --bs --rw=read",
            "1:22+2 error `bs` needs a value",
        ),
        ("--name= --size=1m", "1:3+4 error `--name` needs a value"),
        (
            "--name=a --size=1m --output-format=jsno",
            "1:20+20 error `jsno` is not a value of `--output-format`",
        ),
        (
            "--name=a --size=1m --output",
            "1:20+8 error `--output` needs a value",
        ),
        (
            "--name=a --size=1m --minimal=1",
            "1:20+11 error `--minimal` takes no value",
        ),
        (
            "--name=a --size=1m --client=h",
            "1:20+10 error `--client` is not supported",
        ),
        (
            "--name=a --size=1m --profile=x",
            "1:20+11 error `--profile` is not supported",
        ),
        (
            "--name=a --size=1m --terse-version=6",
            "1:20+17 error there is no terse version `6`",
        ),
        (
            "--name=a --size=1m --rw=write --readonly",
            "1:22+2 error the job writes or trims",
        ),
        (
            "--name=a --size=1m --rw=write --dedupe_percentage=9 --dedupe_mode=working_set --warnings-fatal",
            "error `--warnings-fatal` makes this an error: `dedupe_mode` is ignored",
        ),
        (
            "--name=a --filename=x --size=1m --rw=randwrite --numjobs=2 --verify=md5 --warnings-fatal",
            "error `--warnings-fatal` makes this an error: clones write the same blocks",
        ),
        (
            "--name=a --ioengine=rbd --parse-only",
            "1:21+3 error the engine `rbd` is not supported",
        ),
        (
            "--ioengine=nosuch --parse-only",
            "1:12+6 error unknown engine `nosuch`",
        ),
        ("--nosuch=1 --parse-only", "1:1+8 error unknown option"),
        (
            "--name=a --size=1m --idle-prof=calibrate",
            "1:20+21 error `--idle-prof=calibrate` is not supported",
        ),
        (
            "--name=a --size=1m --idle-prof=x",
            "1:20+13 error `x` is not a value of `--idle-prof`",
        ),
        (
            "--name=a --size=1m --store=x.db",
            "1:20+12 error `--store` is not supported",
        ),
        ("nothing.fio", "error cannot read `nothing.fio`"),
    ] {
        let found = brief(&read(text).parsed.diagnostics);
        let error = found.iter().find(|said| said.contains("error"));
        assert!(
            error.is_some_and(|said| said.starts_with(expected)),
            "{text}: {found:#?}"
        );
        assert!(read(text).parsed.workload.is_none(), "{text}");
    }
}

#[test]
fn flags_without_effect_give_a_note() {
    let command = read(
        "--name=a --size=1m --debug=io --max-jobs=9 --alloc-size=4 --aux-path=/tmp -d io -j 9",
    );
    assert!(command.parsed.workload.is_some());
    let notes = command.parsed.diagnostics;
    assert_eq!(notes.len(), 6, "{:#?}", brief(&notes));
    assert!(notes.iter().all(|note| note.severity == Severity::Note));
    let mounted = read("--name=a --size=1m --allow_mounted_write=1");
    assert!(mounted.parsed.workload.is_some());
}

#[test]
fn advice_is_not_fatal() {
    for text in [
        // Without effect, and without a warning of fio.
        "--name=a --size=1m --iodepth=4",
        "--name=a --size=1m --bs=4KiB",
        "--name=a --size=1m --size=2m",
        "--name=a --size=1m --fsync=1",
        // What it modifies is not used.
        "--name=a --size=1m --dedupe_mode=working_set",
        "--name=a --size=1m --rw=write --dedupe_mode=working_set",
        "--name=a --size=1m --write_hint=short",
        "--name=a --size=1m --cpumode=qsort",
        "--name=a --size=1m --rw=write --zone_reset_threshold=0.5",
    ] {
        let advised = read(text).parsed.diagnostics;
        let warns = advised
            .iter()
            .any(|said| said.severity == Severity::Warning);
        assert!(warns, "{text}: {:#?}", brief(&advised));
        assert!(
            !jobs(&format!("{text} --warnings-fatal")).is_empty(),
            "{text}"
        );
    }
}

#[test]
fn probes_are_answered_without_a_job_or_its_size() {
    for text in [
        "--parse-only",
        "--parse-only --terse-version=3",
        "--ioengine=io_uring --parse-only",
        "--parse-only --name=test --ioengine=pvsync2 --hipri=1",
        "--name=x --ioengine=libaio --parse-only",
    ] {
        let command = read(text);
        assert_eq!(command.action, Action::ParseOnly, "{text}");
        let found = brief(&command.parsed.diagnostics);
        assert!(command.parsed.workload.is_some(), "{text}: {found:#?}");
    }
    // A file without jobs is a mistake, though.
    let host = FakeHost::with(&[("x.fio", "[global]\nbs=4k\n")]);
    assert!(
        command("x.fio --parse-only", &host)
            .parsed
            .workload
            .is_none()
    );
    let printed = |text: &str| match read(text).action {
        Action::Print(text) => text,
        other => panic!("{text}: {other:?}"),
    };
    // What is not supported is not listed, because scripts look for names there.
    let engines = printed("--enghelp");
    assert!(
        engines.contains("libaio") && !engines.contains("rbd"),
        "{engines}"
    );
    let all = printed("--cmdhelp=all");
    assert!(
        all.lines().any(|line| line.starts_with("zonemode ")),
        "{all}"
    );
    assert!(!all.contains("ioscheduler"), "{all}");
    assert!(printed("--cmdhelp=ioscheduler").contains("refused"));
    assert!(printed("--cmdhelp=zonemode").contains("strided"));
    let help = printed("--help");
    assert!(
        help.contains("--output-format=") && !help.contains("--client"),
        "{help}"
    );
    for (text, words) in [
        ("--enghelp=nosuch", "unknown engine `nosuch`"),
        ("--enghelp=rbd", "not supported"),
        ("--enghelp=psync", "no options"),
        ("--enghelp=libaio,hipri", "no option `hipri`"),
    ] {
        let action = read(text).action;
        let Action::PrintAndFail(printed) = &action else {
            panic!("{text}: {action:?}");
        };
        assert!(printed.contains(words), "{text}: {printed}");
    }
}

#[test]
fn iodyno_s_own_flags_stand_anywhere() {
    for text in [
        "-q --no-store --dry-run --allow-exec --destroy /dev/x --name=a --size=1m",
        "--name=a --size=1m --quiet --destroy=/dev/x --no-store --dry-run --allow-exec",
    ] {
        let own = read(text).own;
        let expected = OwnFlags {
            quiet: true,
            no_store: true,
            dry_run: true,
            allow_exec: true,
            destroy: vec![PathBuf::from("/dev/x")],
        };
        assert_eq!(own, expected, "{text}");
    }
    assert_eq!(read("--name=a --size=1m").own, OwnFlags::default());
}

#[test]
fn a_global_section_on_the_command_line_applies_to_later_jobs() {
    let host = FakeHost::with(&[("x.fio", "[c]\nsize=1m\n")]);
    let read = command(
        "--name=a --size=1m --name=global --bs=8k --name=b --size=1m x.fio",
        &host,
    );
    let jobs = read.parsed.workload.unwrap().jobs;
    let blocks: Vec<u64> = jobs
        .iter()
        .map(|job| job.work.blocks().unwrap().access.max_block())
        .collect();
    assert_eq!(blocks, [4096, 8192, 8192]);
}

proptest! {
    #[test]
    fn no_command_makes_the_reader_panic(args in proptest::collection::vec("(--)?[-a-z_]{0,10}(=\\PC{0,8})?", 0..8)) {
        let _ = iodyno_fio::parse_command_line(&args, &FakeHost::default());
    }
}

#[test]
fn a_prefix_of_logs_may_be_the_next_argument() {
    for (options, prefix) in [
        ("--write_lat_log=a --rw=read", "a"),
        ("--write_lat_log a --rw=read", "a"),
        ("--write_lat_log --rw=read", "j"),
        ("--rw=read --write_lat_log", "j"),
    ] {
        let job = &jobs(&format!("--name=j --size=1m {options}"))[0];
        assert_eq!(job.logs.latency, Some(prefix.into()), "{options}");
    }
}

#[test]
fn flags_of_logs_and_idle_time() {
    let prefix = |args: &str| read(args).output.bandwidth_log;
    assert_eq!(prefix("--name=a --size=1m"), None);
    assert_eq!(prefix("--bandwidth-log --name=a"), Some("agg".into()));
    assert_eq!(prefix("--bandwidth-log=x --name=a"), Some("x".into()));
    for (flag, idle) in [
        ("", false),
        (" --idle-prof=system", true),
        (" -I percpu", true),
    ] {
        let command = read(&format!("--name=a --size=1m{flag}"));
        assert_eq!(command.output.idle_prof, idle, "{flag}");
    }
    assert_eq!(
        read("--inflate-log=a.fz").action,
        Action::InflateLog("a.fz".into())
    );
}

#[test]
fn verified_blocks_have_headers_of_fio_unless_the_job_says_otherwise() {
    use Checksum::*;
    use HeaderFormat::{Fio, Fio340, Iodyno};
    for (options, checksum, header) in [
        ("--verify=crc32c", Crc32c, Fio),
        ("--verify=crc32c-intel", Crc32c, Fio),
        ("--verify=xxhash", Xxhash32, Fio),
        ("--verify=md5", Md5, Fio),
        ("--verify=sha256 --verify_header=fio-3.40", Sha256, Fio340),
        ("--verify=sha256 --verify_header=iodyno", Xxhash64, Iodyno),
        ("--verify_header=iodyno --verify=xxhash", Xxhash64, Iodyno),
        ("--verify=xxhash64", Xxhash64, Iodyno),
        ("--verify=null", Nothing, Iodyno),
        ("--verify=sha3-384", Sha3_384, Fio),
    ] {
        let job = &jobs(&format!("--name=a --size=1m --rw=write {options}"))[0];
        let verify = job.work.blocks().unwrap().verify.clone().unwrap();
        assert_eq!(
            (verify.checksum, verify.header),
            (checksum, header),
            "{options}"
        );
        assert_eq!(verify.pattern, None, "{options}");
    }
    // Intervals that do not fit are reduced as in fio.
    for (options, interval) in [
        ("--bs=4k --verify_interval=8k", 4096),
        ("--bs=4k --verify_interval=512", 512),
        ("--bs=4k --verify_interval=3000", 4096),
        ("--bsrange=4k-16k", 4096),
        ("--bs=4k", 0),
    ] {
        let text = format!("--name=a --size=1m --rw=write --verify=md5 {options}");
        let verify = jobs(&text)[0].work.blocks().unwrap().verify.clone();
        assert_eq!(verify.unwrap().interval, interval, "{options}");
    }
    let text = "--name=a --size=1m --rw=write --verify=meta --verify_offset=512 \
                --verify_pattern=0xff%o --verify_pattern_interval=1k";
    let job = &jobs(text)[0];
    let verify = job.work.blocks().unwrap().verify.clone().unwrap();
    let pattern = verify.pattern.unwrap();
    assert_eq!((verify.header_offset, pattern.interval), (512, 1024));
    assert_eq!((pattern.bytes.0.len(), pattern.offsets), (9, vec![1]));
}

#[test]
fn a_warning_about_verification_is_fatal_only_if_blocks_are_checked() {
    let clones = "--name=a --filename=x --size=1m --rw=randwrite --numjobs=2 --verify=md5";
    let fatal = |more: &str| {
        let text = format!("{clones} {more} --warnings-fatal");
        read(&text).parsed.workload.is_none()
    };
    for more in ["--do_verify=0", "--do_verify=0 --verify_backlog=16"] {
        assert!(!fatal(more), "{more}");
    }
    for more in ["", "--do_verify=1", "--verify_backlog=16"] {
        assert!(fatal(more), "{more}");
    }
}

#[test]
fn kb_base_counts_from_its_place_on_in_a_command() {
    let sizes = |text: &str| {
        let host = FakeHost::with(&[("x.fio", "[c]\nbs=4k\nkb_base=1000\nsize=1g\n")]);
        let workload = command(text, &host).parsed.workload.unwrap();
        let blocks = workload.jobs.iter().map(|job| job.work.blocks().unwrap());
        let blocks = blocks.map(|blocks| blocks.access.max_block());
        blocks.collect::<Vec<u64>>()
    };
    assert_eq!(sizes("--name=a --size=1g --bs=4k --kb_base=1000"), [4096]);
    assert_eq!(sizes("--name=a --kb_base=1000 --bs=4k --size=1g"), [4000]);
    assert_eq!(sizes("--bs=4k --kb_base=1000 --name=a --size=1g"), [4096]);
    assert_eq!(sizes("--kb_base=1000 --name=a --bs=4k --size=1g"), [4000]);
    assert_eq!(sizes("x.fio"), [4000]);
}

#[test]
fn the_options_of_a_job_are_known_apart_from_inherited_ones() {
    let host = FakeHost::with(&[(
        "x.fio",
        "[global]\nbs=4k\nsize=1m\n[b]\nblocksize=4k\nblockalign=8k\niodepth=$ncpus*2\nrw=randread\n",
    )]);
    let text = "--ioengine=libaio --name=a --size=1m --readwrite=read x.fio";
    let workload = command(text, &host).parsed.workload.unwrap();
    let own = |job: &Job| {
        let own = job.options.iter();
        let own = own.filter(|(name, _)| !job.inherited.contains(*name));
        let own = own.map(|(name, value)| format!("{name}={value}"));
        own.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(own(&workload.jobs[0]), "name=a rw=read size=1m");
    // As in fio, aliases have the option's own name, and arithmetic with keywords is carried out.
    assert_eq!(own(&workload.jobs[1]), "ba=8k bs=4k iodepth=8 rw=randread");
}

#[test]
fn opendir_adds_the_files_below_a_folder() {
    let host = FakeHost::with(&[("/d/b", ""), ("/d/s/a", ""), ("/e", "")]);
    let workload = command("--name=a --size=1m --opendir=/d", &host)
        .parsed
        .workload;
    let workload = workload.unwrap();
    let names = &workload.jobs[0].work.blocks().unwrap().files.names;
    assert_eq!(names, &["/d/b", "/d/s/a"].map(std::path::PathBuf::from));
    let none = command("--name=a --size=1m --opendir=/x", &host).parsed;
    assert!(none.workload.is_none());
}
