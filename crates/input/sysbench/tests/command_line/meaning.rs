//! The effect of each option on the plan.

use iodyno_model::{
    Amount, Arrival, BlockSizes, Content, Direction, Distribution, Engine, EngineKind, Fallocate,
    Job, Order, SharedFiles, SharedMode,
};
use iodyno_sysbench::{self as sysbench, Action};
use iodyno_units::Nanos;

use crate::read;

fn job(text: &str) -> Job {
    let command = read(text);
    command
        .job
        .unwrap_or_else(|| panic!("{text}: {:?}", command.action))
}

/// The job of a `run` in this mode.
fn run(mode: &str, text: &str) -> Job {
    job(&format!("--file-test-mode={mode} {text} run"))
}

fn shared(job: &Job) -> &SharedFiles {
    job.work.shared_files().unwrap()
}

#[test]
fn defaults_are_those_of_the_reference() {
    let command = read("--file-test-mode=rndrw run");
    assert_eq!((command.action, command.file_num), (Action::Run, 128));
    assert_eq!(
        (command.report_interval, command.histogram),
        (None, false),
        "{command:?}"
    );
    assert_eq!(command.percentile, 95.0);
    assert!(command.notes.is_empty());
    let job = command.job.unwrap();
    assert_eq!(
        shared(&job),
        &SharedFiles {
            lay_out: false,
            create_only: false,
            engine: Engine::new(EngineKind::Psync, 1),
            count: 128,
            distribution: Distribution::Uniform,
            seed: None,
            mode: SharedMode::RandomMix,
            file_size: 16 << 20,
            block: 16384,
            merged: 0,
            read_write_ratio: 1.5,
            fsync_every: 100,
            fsync_all: false,
            fsync_end: true,
            data_only: false,
            validate: false,
        }
    );
    assert_eq!((job.name.as_str(), job.clones), ("rndrw", 1));
    assert_eq!(job.end.runtime, Some(Nanos::from_secs(10)));
    assert_eq!((job.end.ops, job.end.ramp), (None, Nanos(0)));
    assert_eq!(
        (job.pacing.ops_per_s, job.pacing.arrival),
        (0.0, Arrival::Linear)
    );
    assert_eq!(job.buffers.content, Content::Random);
    assert_eq!(job.reporting.percentiles, [50.0, 95.0, 99.0, 99.9]);
    assert!(job.options.contains_key("file-test-mode"));
}

#[test]
fn existing_files_are_used_unchanged() {
    for (mode, made) in [
        ("seqwr", true),
        ("seqrewr", false),
        ("seqrd", false),
        ("rndrd", false),
        ("rndwr", false),
        ("rndrw", false),
    ] {
        let job = run(mode, "--file-num=4 --file-total-size=4M");
        let blocks = job.work.as_blocks();
        let files = &blocks.files;
        assert_eq!(
            (files.format.as_str(), files.count),
            ("test_file.$filenum", 4)
        );
        let length = Amount::Bytes(1 << 20);
        assert_eq!(files.size, Some((length, length)));
        assert_eq!(files.allow_create, made, "{mode}");
        assert!(!files.unlink && !files.invalidate && !files.overwrite && !files.create_only);
        assert_eq!(files.fallocate, Fallocate::None);
        assert!(files.directories.is_empty() && files.names.is_empty());
        assert_eq!(blocks.extent.size, Some(Amount::Bytes(4 << 20)));
    }
}

#[test]
fn access_pattern_matches_the_shared_files() {
    for (mode, directions, order, percent) in [
        (
            "seqwr",
            &[Direction::Write] as &[Direction],
            Order::Sequential,
            0,
        ),
        ("seqrewr", &[Direction::Write], Order::Sequential, 0),
        ("seqrd", &[Direction::Read], Order::Sequential, 100),
        ("rndrd", &[Direction::Read], Order::Random, 100),
        ("rndwr", &[Direction::Write], Order::Random, 0),
        (
            "rndrw",
            &[Direction::Read, Direction::Write],
            Order::Random,
            60,
        ),
    ] {
        let job = run(mode, "--file-block-size=8K");
        let access = shared(&job).access();
        assert_eq!(shared(&job).mode.name(), mode);
        assert_eq!(access.directions().collect::<Vec<_>>(), directions);
        assert_eq!((access.order, access.read_percent), (order, percent));
        assert_eq!((access.min_block(), access.max_block()), (8192, 8192));
        assert!(!access.random_map && !access.repeatable);
        assert_eq!(access.seed, None);
    }
}

#[test]
fn every_option_has_its_effect() {
    type Check = fn(&Job) -> bool;
    let cases: &[(&str, Check)] = &[
        ("--file-num=7 --file-total-size=7M", |j| {
            shared(j).count == 7
        }),
        ("--file-total-size=1T", |j| shared(j).file_size == 8 << 30),
        ("--file-total-size=128g", |j| shared(j).file_size == 1 << 30),
        ("--file-block-size=4K", |j| shared(j).block == 4096),
        ("--file_block_size=4096", |j| shared(j).block == 4096),
        ("--file-block_size=4KiB", |j| shared(j).block == 4096),
        ("--file-io-mode=mmap", |j| {
            shared(j).engine.kind == EngineKind::Mmap
        }),
        ("--file-io-mode=fastmmap", |j| {
            shared(j).engine.kind == EngineKind::Mmap
        }),
        ("--file-io-mode=slowmmap", |j| {
            shared(j).engine.kind == EngineKind::Mmap
        }),
        ("--file-io-mode=sync", |j| {
            shared(j).engine.kind == EngineKind::Psync
        }),
        ("--file-io-mode=async", |j| {
            (shared(j).engine.kind, shared(j).engine.depth) == (EngineKind::Libaio, 128)
        }),
        ("--file-io-mode=async --file-async-backlog=8", |j| {
            shared(j).engine.depth == 8
        }),
        ("--file-async-backlog=8", |j| shared(j).engine.depth == 1),
        ("--file-extra-flags=direct", |j| shared(j).engine.direct),
        ("--file-extra-flags=directio", |j| shared(j).engine.direct),
        ("--file-extra-flags=sync", |j| {
            shared(j).engine.o_sync && !shared(j).engine.direct
        }),
        ("--file-extra-flags=dsync", |j| {
            shared(j).engine.o_dsync && !shared(j).engine.o_sync
        }),
        ("--file-extra-flags=direct,sync", |j| {
            shared(j).engine.o_sync && shared(j).engine.direct
        }),
        ("--file-extra-flags=dsync,directio", |j| {
            shared(j).engine.o_dsync && shared(j).engine.direct
        }),
        ("--file-extra-flags=", |j| !shared(j).engine.direct),
        ("--file-extra-flags", |j| !shared(j).engine.direct),
        ("--file-fsync-freq=0", |j| shared(j).fsync_every == 0),
        ("--file-fsync-freq=7", |j| shared(j).fsync_every == 7),
        ("--file-fsync-all", |j| {
            (
                shared(j).fsync_all,
                shared(j).fsync_every,
                shared(j).fsync_end,
            ) == (true, 0, false)
        }),
        ("--file-fsync-all=off", |j| shared(j).fsync_every == 100),
        ("--file-fsync-end=off", |j| !shared(j).fsync_end),
        ("--file-fsync-end=no", |j| !shared(j).fsync_end),
        ("--file-fsync-end=0", |j| !shared(j).fsync_end),
        ("--file-fsync-end=on", |j| shared(j).fsync_end),
        ("--file-fsync-mode=fdatasync", |j| shared(j).data_only),
        ("--file-fsync-mode=fsync", |j| !shared(j).data_only),
        ("--file-rw-ratio=3", |j| {
            shared(j).read_write_ratio == 3.0 && shared(j).access().read_percent == 75
        }),
        ("--file-rw-ratio=0", |j| {
            shared(j).access().read_percent == 0
        }),
        ("--validate", |j| shared(j).validate),
        ("--validate=yes", |j| shared(j).validate),
        ("--validate=true", |j| shared(j).validate),
        ("--validate=off", |j| !shared(j).validate),
        ("--threads=16", |j| j.clones == 16),
        ("--num-threads=16", |j| j.clones == 16),
        ("--time=300", |j| {
            j.end.runtime == Some(Nanos::from_secs(300))
        }),
        ("--max-time=30", |j| {
            j.end.runtime == Some(Nanos::from_secs(30))
        }),
        ("--time=0 --events=5", |j| {
            j.end.runtime.is_none() && j.end.ops == Some(5)
        }),
        ("--time=0.5", |j| {
            j.end.runtime == Some(Nanos::from_millis(500))
        }),
        ("--max-requests=12345", |j| j.end.ops == Some(12345)),
        ("--events=0", |j| j.end.ops.is_none()),
        ("--warmup-time=5", |j| {
            j.end.ramp == Nanos::from_secs(5) && j.end.runtime == Some(Nanos::from_secs(10))
        }),
        ("--rate=1000 --threads=4", |j| {
            (j.pacing.ops_per_s, j.pacing.arrival) == (250.0, Arrival::Poisson)
        }),
        ("--tx-rate=10", |j| j.pacing.ops_per_s == 10.0),
        ("--rate=0", |j| !j.pacing.scheduled()),
        ("--percentile=99", |j| {
            j.reporting.percentiles == [50.0, 95.0, 99.0, 99.9]
        }),
        ("--percentile=90", |j| {
            j.reporting.percentiles == [50.0, 90.0, 95.0, 99.0, 99.9]
        }),
        ("--percentile=0", |j| {
            j.reporting.percentiles == [50.0, 95.0, 99.0, 99.9]
        }),
        ("--rand-seed=7", |j| shared(j).seed == Some(7)),
        ("--rand-seed=0", |j| shared(j).seed.is_none()),
        ("--rand-type=uniform", |j| law(j) == &Distribution::Uniform),
        ("--rand-type=pareto", |j| {
            law(j) == &Distribution::Pareto(0.2)
        }),
        ("--rand-type=pareto --rand-pareto-h=0.1", |j| {
            law(j) == &Distribution::Pareto(0.1)
        }),
        ("--rand-type=zipfian", |j| {
            law(j) == &Distribution::Zipf(0.8)
        }),
        ("--rand-type=zipfian --rand-zipfian-exp=1.2", |j| {
            law(j) == &Distribution::Zipf(1.2)
        }),
        ("--rand-type=zipfian --rand-zipfian-exp=0", |j| {
            law(j) == &Distribution::Uniform
        }),
        (
            "--rand-type=gaussian",
            |j| matches!(law(j), Distribution::Normal(p) if (p - 100.0 / 12.0).abs() < 1e-9),
        ),
        (
            "--rand-type=gaussian --rand-spec-iter=3",
            |j| matches!(law(j), Distribution::Normal(p) if (p - 100.0 / 6.0).abs() < 1e-9),
        ),
        (
            "--rand-type=special",
            |j| matches!(law(j), Distribution::Zoned(zones) if zones.len() > 50),
        ),
        ("--rand-pareto-h=0.3", |j| law(j) == &Distribution::Uniform),
        ("--forced-shutdown", |j| {
            j.options.contains_key("forced-shutdown")
        }),
        ("--forced-shutdown=5%", |j| j.clones == 1),
        ("--thread-stack-size=128K", |j| j.clones == 1),
        ("--thread-init-timeout=60", |j| j.clones == 1),
        ("--luajit-cmd=off", |j| j.clones == 1),
        ("--init-rng=on", |j| j.clones == 1),
        ("--rand-init=on", |j| j.clones == 1),
        ("--verbosity=5 --debug", |j| j.clones == 1),
        ("--mysql-host=db --pgsql-port=5432", |j| j.clones == 1),
        ("--report-checkpoints=", |j| j.clones == 1),
    ];
    for (text, check) in cases {
        let job = run("rndrw", text);
        assert!(check(&job), "{text}: {job:#?}");
    }
}

fn law(job: &Job) -> &Distribution {
    &shared(job).distribution
}

#[test]
fn sequential_requests_merge_blocks() {
    for (text, merged, request) in [
        ("", 0, 16384),
        ("--file-merged-requests=1", 0, 16384),
        ("--file-merged-requests=4", 65536, 65536),
        (
            "--file-merged-requests=1000000 --file-total-size=128M",
            1 << 20,
            1 << 20,
        ),
    ] {
        let job = run("seqrd", text);
        assert_eq!(shared(&job).merged, merged, "{text}");
        let sizes = BlockSizes::Fixed(request);
        assert_eq!(shared(&job).access().block_sizes.read, sizes, "{text}");
    }
    let random = run("rndrd", "--file-merged-requests=4");
    assert_eq!(
        (shared(&random).merged, shared(&random).access().max_block()),
        (0, 16384)
    );
}

#[test]
fn published_commands_work_unchanged() {
    let prepare =
        "--file-total-size=1T --file-test-mode=rndrd --threads=16 --file-block-size=16384 prepare";
    let job = job(prepare);
    assert_eq!(shared(&job).mode, SharedMode::Prepare);
    assert_eq!(
        (shared(&job).file_size, shared(&job).block),
        (8 << 30, 16384)
    );
    assert_eq!((job.name.as_str(), job.clones), ("prepare", 1));
    let run = read(
        "--file-total-size=1T --file-test-mode=rndrw --time=300 --max-requests=0 --threads=16 \
         --file-extra-flags=directio --file-block-size=16384 run",
    );
    let job = run.job.unwrap();
    assert!(shared(&job).engine.direct && job.end.ops.is_none());
    assert_eq!(job.end.runtime, Some(Nanos::from_secs(300)));
    let script = read(
        "--threads=8 --file-total-size=64G --file-num=64 --file-io-mode=async --file-test-mode=rndrw \
         --file-extra-flags=direct --file-fsync-freq=0 --file-block-size=16384 --time=3600 \
         --report-interval=1 --rand-type=pareto --percentile=99 --histogram run",
    );
    assert_eq!(script.report_interval, Some(Nanos::SECOND));
    assert!(script.histogram);
    assert_eq!((script.percentile, script.file_num), (99.0, 64));
    let job = script.job.unwrap();
    assert_eq!(
        (shared(&job).engine.kind, job.clones),
        (EngineKind::Libaio, 8)
    );
}

#[test]
fn prepare_uses_one_thread_and_large_requests_and_syncs() {
    for (text, merged) in [
        ("", 1 << 20),
        ("--file-merged-requests=1", 0),
        ("--file-merged-requests=2", 32768),
        ("--file-block-size=4M", 0),
        ("--file-block-size=384K", 768 << 10),
        ("--file-num=2 --file-total-size=200000", 114_688),
    ] {
        let job = job(&format!(
            "{text} --threads=3 --time=5 --events=9 --rate=7 --file-io-mode=async prepare"
        ));
        let shared = shared(&job);
        assert_eq!(shared.merged, merged, "{text}");
        assert!(shared.fsync_end && !shared.fsync_all && shared.fsync_every == 0);
        assert_eq!((job.clones, shared.engine.kind), (1, EngineKind::Psync));
        assert_eq!((job.end.runtime, job.end.ops), (None, None));
        assert!(!job.work.as_blocks().passes.time_based && !job.pacing.scheduled());
        assert!(shared.mode.makes_files() && shared.mode.writes() && !shared.mode.reads());
        assert!(job.buffers.refill);
    }
    let direct = job("--file-extra-flags=direct,dsync --validate prepare");
    assert!(
        shared(&direct).engine.direct && shared(&direct).engine.o_dsync && shared(&direct).validate
    );
}

#[test]
fn the_command_may_be_anywhere_and_whole_commands_are_accepted() {
    for (text, action) in [
        ("run --file-test-mode=rndrd", Action::Run),
        ("--threads=2 run --file-test-mode=rndrd", Action::Run),
        (
            "sysbench fileio --file-test-mode=rndrd --threads=2 run",
            Action::Run,
        ),
        (
            "sysbench --threads=2 fileio --file-test-mode=rndrd run",
            Action::Run,
        ),
        ("--threads=2 fileio --file-test-mode=rndrd run", Action::Run),
        (
            "--test=fileio --num-threads=2 --file-test-mode=rndrd run",
            Action::Run,
        ),
        ("prepare", Action::Prepare),
        ("fileio prepare", Action::Prepare),
        ("cleanup", Action::Cleanup),
        ("--file-num=3 cleanup", Action::Cleanup),
        ("help", Action::Help),
        ("--help", Action::Help),
        ("--file-num=zzz help", Action::Help),
        ("--version", Action::Version),
        ("--help=off prepare", Action::Prepare),
    ] {
        let command = read(text);
        assert_eq!(command.action, action, "{text}");
        let with_job = matches!(action, Action::Run | Action::Prepare);
        assert_eq!(command.job.is_some(), with_job, "{text}");
    }
    assert_eq!(read("--file-num=3 cleanup").file_num, 3);
}

#[test]
fn cleanup_names_exactly_the_files() {
    let names: Vec<String> = sysbench::cleanup_files(3).collect();
    assert_eq!(names, ["test_file.0", "test_file.1", "test_file.2"]);
    assert_eq!(sysbench::cleanup_files(0).count(), 0);
}

#[test]
fn the_workload_carries_the_arguments() {
    let command = read("--file-test-mode=rndrd run");
    let workload = command.workload().unwrap();
    assert_eq!(workload.name, "rndrd");
    assert_eq!(workload.sources[0].text, "--file-test-mode=rndrd run");
    assert_eq!(workload.sources[0].name, "<command line>");
    assert!(read("cleanup").workload().is_none());
}
