//! The effect of each option of a job file on the model.

mod common;

use std::path::PathBuf;

use common::{job, jobs, parse};
use iodyno_fio::{self as fio, resolved_options};
use iodyno_model::{
    After, Amount, Arrival, BlockSizes, Checksum, Content, Direction, Distribution, EngineKind,
    ExitScope, Fallocate, FileService, LoadState, Memory, MixSequence, Order, Pattern, Sequencer,
    SimClock, SimFault, SimLaw, SimOptions, SteadyMetric, VerifyTrim,
};
use iodyno_units::Nanos;

#[test]
fn an_empty_job_has_fios_defaults() {
    let job = job("");
    assert_eq!(job.name, "j");
    assert_eq!(job.work.blocks().unwrap().engine.kind, EngineKind::Psync);
    assert_eq!(
        (job.work.blocks().unwrap().engine.depth, job.clones),
        (1, 1)
    );
    assert!(!job.work.blocks().unwrap().engine.direct);
    assert_eq!(
        job.work
            .blocks()
            .unwrap()
            .access
            .directions()
            .collect::<Vec<_>>(),
        [Direction::Read]
    );
    assert_eq!(job.work.blocks().unwrap().access.order, Order::Sequential);
    assert_eq!(
        job.work.blocks().unwrap().access.block_sizes.read,
        BlockSizes::Fixed(4096)
    );
    assert!(job.work.blocks().unwrap().access.repeatable);
    assert_eq!(
        job.work.blocks().unwrap().files.format,
        "$jobname.$jobnum.$filenum"
    );
    assert_eq!(job.work.blocks().unwrap().files.count, 1);
    assert!(
        job.work.blocks().unwrap().files.invalidate
            && job.work.blocks().unwrap().files.fsync_on_layout
            && job.work.blocks().unwrap().files.allow_create
    );
    assert_eq!(
        job.work.blocks().unwrap().extent.size,
        Some(Amount::Bytes(16 << 20))
    );
    assert_eq!(
        (job.work.blocks().unwrap().passes.loops, job.end.runtime),
        (1, None)
    );
    assert_eq!(job.after, After::Start);
    assert_eq!(job.work.blocks().unwrap().verify, None);
    assert!(!job.pacing.scheduled());
    assert_eq!(job.buffers.content, Content::Random);
    assert!(!job.buffers.refill);
}

#[test]
fn rw_sets_directions_and_order() {
    use Direction::{Read, Trim, Write};
    let cases: &[(&str, &[Direction], bool)] = &[
        ("read", &[Read], false),
        ("write", &[Write], false),
        ("trim", &[Trim], false),
        ("rw", &[Read, Write], false),
        ("readwrite", &[Read, Write], false),
        ("trimwrite", &[Write, Trim], false),
        ("randread", &[Read], true),
        ("randwrite", &[Write], true),
        ("randtrim", &[Trim], true),
        ("randrw", &[Read, Write], true),
        ("randtrimwrite", &[Write, Trim], true),
    ];
    for (word, directions, random) in cases {
        for option in ["rw", "readwrite"] {
            let access = job(&format!("{option}={word}"))
                .work
                .blocks()
                .unwrap()
                .clone()
                .access;
            assert_eq!(
                access.directions().collect::<Vec<_>>(),
                *directions,
                "{word}"
            );
            assert_eq!(access.order == Order::Random, *random, "{word}");
            assert_eq!(access.random_map, *random, "{word}");
            let share = if *random { 100 } else { 0 };
            assert_eq!(access.percent_random.read, share, "{word}");
        }
    }
}

#[test]
fn rw_takes_a_number_after_a_colon() {
    for (text, sequence) in [
        ("rw=randread:8", Some(MixSequence::Every(8))),
        ("rw=randread:1", None),
        ("rw=read:4k", Some(MixSequence::Skip(4096))),
        ("rw=read:-8k", Some(MixSequence::Skip(-8192))),
        ("rw=write:0", None),
        ("rw=randread", None),
    ] {
        assert_eq!(
            job(text).work.blocks().unwrap().clone().access.sequence,
            sequence,
            "{text}"
        );
    }
    let access = job("rw=randread:4\nrw_sequencer=identical")
        .work
        .blocks()
        .unwrap()
        .clone()
        .access;
    assert_eq!(access.sequencer, Sequencer::Identical);
}

#[test]
fn block_sizes_are_per_direction() {
    use BlockSizes::{Fixed, Range, Split};
    let range = |min, max| Range {
        min,
        max,
        unaligned: false,
    };
    let cases: &[(&str, [BlockSizes; 3])] = &[
        ("bs=8k", [Fixed(8192), Fixed(8192), Fixed(8192)]),
        ("blocksize=8k", [Fixed(8192), Fixed(8192), Fixed(8192)]),
        ("bs=8k,", [Fixed(8192), Fixed(4096), Fixed(4096)]),
        ("bs=8k,16k", [Fixed(8192), Fixed(16384), Fixed(16384)]),
        ("bs=,16k", [Fixed(4096), Fixed(16384), Fixed(16384)]),
        ("bs=1k,2k,8k", [Fixed(1024), Fixed(2048), Fixed(8192)]),
        ("bs=(4*1k)", [Fixed(4096), Fixed(4096), Fixed(4096)]),
        ("bs=$pagesize*2", [Fixed(8192), Fixed(8192), Fixed(8192)]),
        (
            "bsrange=4k-16k",
            [range(4096, 16384), range(4096, 16384), range(4096, 16384)],
        ),
        (
            "bsrange=4k:16k",
            [range(4096, 16384), range(4096, 16384), range(4096, 16384)],
        ),
        (
            "bsrange=8k-4k,1k-2k",
            [range(4096, 8192), range(1024, 2048), range(1024, 2048)],
        ),
        ("bsrange=4k-4k", [Fixed(4096), Fixed(4096), Fixed(4096)]),
        (
            "bs=64k\nbsrange=4k-8k,",
            [range(4096, 8192), Fixed(65536), Fixed(65536)],
        ),
        (
            "bssplit=4k/10:64k/50:32k/40,8k/100",
            [
                Split(vec![(4096, 10.0), (65536, 50.0), (32768, 40.0)]),
                Fixed(8192),
                Fixed(8192),
            ],
        ),
        (
            "bssplit=4k/50:8k:16k",
            [
                Split(vec![(4096, 50.0), (8192, 25.0), (16384, 25.0)]),
                Split(vec![(4096, 50.0), (8192, 25.0), (16384, 25.0)]),
                Split(vec![(4096, 50.0), (8192, 25.0), (16384, 25.0)]),
            ],
        ),
    ];
    for (options, sizes) in cases {
        let found = job(options)
            .work
            .blocks()
            .unwrap()
            .clone()
            .access
            .block_sizes;
        assert_eq!([found.read, found.write, found.trim], *sizes, "{options}");
    }
    let unaligned = job("bsrange=1k-3k\nbs_unaligned")
        .work
        .blocks()
        .unwrap()
        .clone()
        .access
        .block_sizes
        .read;
    assert!(matches!(
        unaligned,
        Range {
            unaligned: true,
            ..
        }
    ));
}

#[test]
fn random_offsets_follow_map_distribution_and_seed() {
    let check = |options: &str, map: bool, distribution: Distribution| {
        let access = job(&format!("rw=randrw\n{options}"))
            .work
            .blocks()
            .unwrap()
            .clone()
            .access;
        assert_eq!(access.random_map, map, "{options}");
        assert_eq!(access.distribution.read, distribution, "{options}");
        assert_eq!(access.distribution.write, distribution, "{options}");
    };
    check("", true, Distribution::Uniform);
    check("norandommap", false, Distribution::Uniform);
    check("norandommap=0", true, Distribution::Uniform);
    check(
        "norandommap\nrandom_generator=lfsr",
        true,
        Distribution::Uniform,
    );
    check(
        "norandommap\nrandom_generator=tausworthe",
        false,
        Distribution::Uniform,
    );
    check("random_distribution=random", true, Distribution::Uniform);
    check(
        "random_distribution=zipf:0.9",
        false,
        Distribution::Zipf(0.9),
    );
    check("random_distribution=zipf", false, Distribution::Zipf(1.1));
    check(
        "random_distribution=pareto:0.3",
        false,
        Distribution::Pareto(0.3),
    );
    check(
        "random_distribution=pareto",
        false,
        Distribution::Pareto(0.2),
    );
    check(
        "random_distribution=normal:5",
        false,
        Distribution::Normal(5.0),
    );
    let percent = |zones: &[(f64, f64)]| {
        let zones = zones.iter();
        Distribution::Zoned(
            zones
                .map(|(share, of)| (*share, Amount::Percent(*of)))
                .collect(),
        )
    };
    // A zone without a length takes the rest.
    check(
        "random_distribution=zoned:50/5:30/15:20/",
        false,
        percent(&[(50.0, 5.0), (30.0, 15.0), (20.0, 80.0)]),
    );
    check(
        "random_distribution=zoned_abs:60/4k:40/1m",
        false,
        Distribution::Zoned(vec![
            (60.0, Amount::Bytes(4096)),
            (40.0, Amount::Bytes(1 << 20)),
        ]),
    );
    let access = job("rw=randrw\nrandom_distribution=zoned:100/50,50/10:50/90")
        .work
        .blocks()
        .unwrap()
        .clone()
        .access;
    assert_eq!(access.distribution.read, percent(&[(100.0, 50.0)]));
    assert_eq!(
        access.distribution.write,
        percent(&[(50.0, 10.0), (50.0, 90.0)])
    );
    assert_eq!(access.distribution.trim, access.distribution.write);
    check("blockalign=4k", true, Distribution::Uniform);
    check("ba=512", false, Distribution::Uniform);

    assert!(
        !job("randrepeat=0")
            .work
            .blocks()
            .unwrap()
            .clone()
            .access
            .repeatable
    );
    assert_eq!(
        job("randseed=42")
            .work
            .blocks()
            .unwrap()
            .clone()
            .access
            .seed,
        Some(42)
    );
    let access = job("rw=randrw\npercentage_random=50,20\nrwmixwrite=30")
        .work
        .blocks()
        .unwrap()
        .clone()
        .access;
    assert_eq!(
        (access.percent_random.read, access.percent_random.write),
        (50, 20)
    );
    assert_eq!(access.read_percent, 70);
    assert_eq!(
        job("rw=randread\nba=1k,2k")
            .work
            .blocks()
            .unwrap()
            .clone()
            .access
            .block_align
            .write,
        2048
    );
    assert_eq!(
        job("rw=read\nba=1k")
            .work
            .blocks()
            .unwrap()
            .clone()
            .access
            .block_align
            .read,
        0
    );
}

#[test]
fn engines_limit_their_depth() {
    for (name, kind, depth) in [
        ("psync", EngineKind::Psync, 1),
        ("sync", EngineKind::Sync, 1),
        ("pvsync", EngineKind::Pvsync2, 1),
        ("pvsync2", EngineKind::Pvsync2, 1),
        ("mmap", EngineKind::Mmap, 1),
        ("libaio", EngineKind::Libaio, 32),
        ("io_uring", EngineKind::IoUring, 32),
        ("posixaio", EngineKind::Posixaio, 32),
        ("null", EngineKind::Null, 32),
        ("sim", EngineKind::Sim, 32),
    ] {
        let engine = job(&format!("ioengine={name}\niodepth=32"))
            .work
            .blocks()
            .unwrap()
            .clone()
            .engine;
        assert_eq!((engine.kind, engine.depth), (kind, depth), "{name}");
        assert_eq!(engine.sim.is_some(), kind == EngineKind::Sim);
    }
}

#[test]
fn engine_options_reach_the_engine() {
    let engine = job(
        "ioengine=io_uring\niodepth=8\niodepth_low=4\niodepth_batch=2\niodepth_batch_complete=3\n\
         iodepth_batch_complete_max=6\ndirect=1\nhipri\nsqthread_poll=1\nsqthread_poll_cpu=3\n\
         fixedbufs\nregisterfiles=0\nforce_async=1\nnowait=1\nsync=dsync",
    )
    .work
    .blocks()
    .unwrap()
    .clone()
    .engine;
    assert_eq!((engine.depth_low, engine.batch_submit), (4, 2));
    assert_eq!(
        (engine.batch_complete_min, engine.batch_complete_max),
        (3, 6)
    );
    assert!(engine.direct && engine.hipri && engine.sqthread_poll);
    assert_eq!(engine.sqthread_poll_cpu, Some(3));
    assert_eq!(
        (engine.fixed_buffers, engine.registered_files),
        (Some(true), Some(false))
    );
    assert!(engine.force_async && engine.nowait && engine.o_dsync && !engine.o_sync);

    let clamped =
        job("ioengine=io_uring\niodepth=4\niodepth_batch=99\niodepth_batch_complete_min=9");
    assert_eq!(
        (
            clamped.work.blocks().unwrap().engine.batch_submit,
            clamped.work.blocks().unwrap().engine.batch_complete_min
        ),
        (4, 4)
    );
    assert!(
        job("buffered=0")
            .work
            .blocks()
            .unwrap()
            .clone()
            .engine
            .direct
    );
    assert!(
        !job("direct=1\nbuffered=1")
            .work
            .blocks()
            .unwrap()
            .clone()
            .engine
            .direct
    );
    assert!(job("sync=1").work.blocks().unwrap().clone().engine.o_sync);
}

/// The simulated device of the job with these options.
fn simulated(options: &str) -> SimOptions {
    job(options)
        .work
        .blocks()
        .unwrap()
        .engine
        .sim
        .clone()
        .unwrap()
}

#[test]
fn a_simulated_device_can_be_a_disk_or_a_mirror() {
    for text in ["law", "hdd", "flash*0.5", "mirror:md-raid1:hdd+hdd*2"] {
        let sim = simulated(&format!("ioengine=sim\nsim_device={text}"));
        assert_eq!(sim.device.to_string(), text);
    }
}

#[test]
fn a_simulated_device_has_distribution_servers_and_faults() {
    let sim = simulated(
        "ioengine=sim\nsim_latency=lognormal:100us:0.5\nsim_servers=4\nsim_faults=eio:100,short:50,stall:2s:1s",
    );
    assert_eq!(
        sim.law,
        SimLaw::LogNormal {
            median_ns: 100_000,
            sigma: 0.5
        }
    );
    assert_eq!(sim.servers, 4);
    assert_eq!(
        sim.faults,
        [
            SimFault::Errno {
                every: 100,
                errno: 5
            },
            SimFault::Short { every: 50 },
            SimFault::Stall {
                from_ns: 2_000_000_000,
                for_ns: 1_000_000_000
            },
        ]
    );
    for (text, law) in [
        ("constant:20us", SimLaw::Constant(20_000)),
        ("exponential:1ms", SimLaw::Exponential(1_000_000)),
        ("constant:7", SimLaw::Constant(7_000)),
    ] {
        let sim = simulated(&format!("ioengine=sim\nsim_latency={text}"));
        assert_eq!(sim.law, law, "{text}");
    }
    for (text, clock) in [
        ("", SimClock::Virtual),
        ("sim_clock=virtual", SimClock::Virtual),
        ("sim_clock=real", SimClock::Real),
    ] {
        let sim = simulated(&format!("ioengine=sim\n{text}"));
        assert_eq!(sim.clock, clock, "{text}");
    }
}

#[test]
fn files_have_names_folders_and_layout_options() {
    let files = job(
        "directory=/a:/b\nfilename=x:y\\:z\nnrfiles=4\nopenfiles=2\nfilesize=1m-2m\n\
         file_service_type=random:16\nfallocate=keep\noverwrite=1\ncreate_on_open=1\n\
         create_only=1\nallow_file_create=0\ncreate_fsync=0\ninvalidate=0\nfsync_on_close=1\n\
         unlink=1\nfadvise_hint=0\nfilename_format=f.$jobnum",
    )
    .work
    .blocks()
    .unwrap()
    .clone()
    .files;
    assert_eq!(files.directories, [PathBuf::from("/a"), "/b".into()]);
    assert_eq!(files.names, [PathBuf::from("x"), "y:z".into()]);
    assert_eq!((files.count, files.service_ops), (4, 16));
    assert_eq!(
        files.size,
        Some((Amount::Bytes(1 << 20), Amount::Bytes(2 << 20)))
    );
    assert_eq!(
        (files.service, files.fallocate),
        (FileService::Random, Fallocate::KeepSize)
    );
    assert!(files.overwrite && files.create_on_open && files.create_only);
    assert!(!files.allow_create && !files.fsync_on_layout && !files.invalidate);
    assert!(files.fsync_on_close && files.unlink && !files.advise);
    assert_eq!(files.format, "f.$jobnum");
}

#[test]
fn zones_with_write_pointers_have_sizes_and_are_a_unit() {
    let job = job("size=8z\noffset=2Z\nzonemode=zbd\nzonesize=1m\nmax_open_zones=3");
    let extent = job.work.blocks().unwrap().extent.clone();
    assert_eq!(extent.size, Some(Amount::Bytes(8 << 20)));
    assert_eq!(extent.offset, Amount::Bytes(2 << 20));
    assert_eq!(extent.zone_size, 0, "these zones are not strided");
    let zones = extent.write_zones.unwrap();
    assert_eq!((zones.size, zones.capacity), (1 << 20, 1 << 20));
    assert_eq!((zones.max_open, zones.read_beyond), (3, false));
}

#[test]
fn a_cpu_load_spins_for_its_share_of_the_time() {
    let job = job("ioengine=cpuio\ncpuload=25\ncpuchunks=10000\nruntime=5");
    let blocks = job.work.blocks().unwrap();
    assert_eq!(blocks.engine.kind, EngineKind::Null);
    assert_eq!(blocks.access.max_block(), 0);
    let think = job.pacing.think.unwrap();
    assert_eq!(think.spin, Nanos::from_millis(10));
    assert_eq!(think.pause, Nanos::from_millis(40));
}

#[test]
fn a_depth_is_searched_for_a_latency() {
    let job = job("latency_target=5ms\nlatency_percentile=99.5\nlatency_run=1");
    let target = job.pacing.latency_target.unwrap();
    assert_eq!(
        (target.limit, target.window),
        (Nanos::from_millis(5), Nanos::SECOND)
    );
    assert_eq!((target.percent, target.endless), (99.5, true));
}

#[test]
fn range_syncs_have_flags_and_a_number_of_writes() {
    let sync = job("rw=write\nsync_file_range=wait_before,write:8")
        .work
        .blocks()
        .unwrap()
        .sync;
    let range = sync.range.unwrap();
    assert_eq!((range.every, range.flags), (8, 3));
}

#[test]
fn a_distribution_has_a_centre() {
    for (text, center) in [
        ("zipf:1.2:0.25", Some(0.25)),
        ("pareto:0.2:1", Some(1.0)),
        ("normal:5:0", Some(0.0)),
        ("normal:5", None),
        // The last value counts as a whole.
        ("zipf:1.2:0.25\nrandom_distribution=zipf:1.2", None),
    ] {
        let job = job(&format!("rw=randread\nrandom_distribution={text}"));
        assert_eq!(job.work.blocks().unwrap().access.center, center, "{text}");
    }
}

#[test]
fn a_latency_limit_is_per_direction() {
    let limits = job("max_latency=10ms,500").errors.max_latency;
    assert_eq!(limits.read, Nanos::from_millis(10));
    assert_eq!(
        (limits.write, limits.trim),
        (Nanos::from_micros(500), Nanos::from_micros(500))
    );
}

#[test]
fn directions_are_reported_as_one_where_asked() {
    use iodyno_model::UnifiedReporting::{Both, Mixed, None};
    for (text, unified) in [("0", None), ("1", Mixed), ("mixed", Mixed), ("both", Both)] {
        let job = job(&format!("unified_rw_reporting={text}"));
        assert_eq!(job.reporting.unified, unified, "{text}");
    }
}

#[test]
fn region_and_end_condition_are_independent() {
    let job = job(
        "size=50%\nio_size=1g\noffset=1m\noffset_increment=10%\noffset_align=4k\nnumber_ios=77\n\
         loops=3\nruntime=5m\ntime_based\nramp_time=2\nstartdelay=3-1\nzonemode=strided\n\
         zonesize=64k\nzonerange=1m\nzoneskip=128k",
    );
    assert_eq!(
        job.work.blocks().unwrap().extent.size,
        Some(Amount::Percent(50.0))
    );
    assert_eq!(
        job.work.blocks().unwrap().extent.offset,
        Amount::Bytes(1 << 20)
    );
    assert_eq!(
        job.work.blocks().unwrap().extent.offset_increment,
        Amount::Percent(10.0)
    );
    assert_eq!(job.work.blocks().unwrap().extent.offset_align, 4096);
    let zones = (
        job.work.blocks().unwrap().extent.zone_size,
        job.work.blocks().unwrap().extent.zone_range,
        job.work.blocks().unwrap().extent.zone_skip,
    );
    assert_eq!(zones, (65536, 1 << 20, 131_072));
    assert_eq!(
        job.work.blocks().unwrap().passes.io_size,
        Some(Amount::Bytes(1 << 30))
    );
    assert_eq!(
        (job.end.ops, job.work.blocks().unwrap().passes.loops),
        // Only the time ends a job that is based on it.
        (None, 3)
    );
    assert_eq!(job.end.runtime, Some(Nanos::from_secs(300)));
    assert!(job.work.blocks().unwrap().passes.time_based);
    assert_eq!(job.end.ramp, Nanos::from_secs(2));
    assert_eq!(
        (job.delay.min, job.delay.max),
        (Nanos::from_secs(1), Nanos::from_secs(3))
    );
}

#[test]
fn zones_need_no_zonemode() {
    let extent = job("zonesize=64k\nzoneskip=1m")
        .work
        .blocks()
        .unwrap()
        .clone()
        .extent;
    assert_eq!((extent.zone_size, extent.zone_skip), (65536, 1 << 20));
    let extent = job("zonemode=none\nzoneskip=1m")
        .work
        .blocks()
        .unwrap()
        .clone()
        .extent;
    assert_eq!((extent.zone_size, extent.zone_skip), (0, 0));
}

#[test]
fn pacing_and_durability() {
    let job = job(
        "rw=randrw\nrate=1m,2m\nrate_min=512k\nrate_process=poisson\nrate_cycle=500\nthinktime=10\n\
         thinktime_spin=1ms\nthinktime_blocks=8\nthinktime_blocks_type=issue\nfsync=4\nfdatasync=8\n\
         end_fsync=1",
    );
    let rates = job.pacing.rates;
    assert_eq!(
        (rates.read.bytes_per_s, rates.write.bytes_per_s),
        (1 << 20, 2 << 20)
    );
    assert_eq!(rates.trim.least_bytes_per_s, 512 << 10);
    assert_eq!(job.pacing.arrival, Arrival::Poisson);
    assert_eq!(job.pacing.check_every, Nanos::from_millis(500));
    let think = job.pacing.think.unwrap();
    assert_eq!((think.pause, think.spin), (Nanos(10_000), Nanos(10_000)));
    assert_eq!(think.every_ops, 8);
    assert_eq!(
        (
            job.work.blocks().unwrap().sync.fsync_every,
            job.work.blocks().unwrap().sync.fdatasync_every
        ),
        (4, 8)
    );
    assert!(job.work.blocks().unwrap().sync.end_fsync);
    let iops = common::job("rw=rw\nrate_iops=1000,\nrate_iops_min=5")
        .pacing
        .rates;
    assert_eq!(
        (iops.read.iops, iops.write.iops, iops.write.least_iops),
        (1000.0, 0.0, 5.0)
    );
    assert_eq!(common::job("thinktime=0").pacing.think, None);
}

#[test]
fn buffer_options_set_the_content() {
    let pattern = Pattern(vec![0xde, 0xad]);
    for (options, content, refill) in [
        ("", Content::Random, false),
        ("refill_buffers", Content::Random, true),
        ("zero_buffers", Content::Zero, false),
        (
            "buffer_pattern=0xdead",
            Content::Pattern(pattern.clone()),
            false,
        ),
        ("buffer_compress_percentage=100", Content::Zero, false),
        (
            "buffer_compress_percentage=30",
            Content::Compressible {
                percent: 30,
                chunk: 512,
                pattern: None,
            },
            true,
        ),
        (
            "buffer_compress_percentage=30\nbuffer_compress_chunk=4k\nbuffer_pattern=0xdead\nrefill_buffers=0",
            Content::Compressible {
                percent: 30,
                chunk: 4096,
                pattern: Some(pattern),
            },
            false,
        ),
        ("dedupe_percentage=20", Content::Random, true),
    ] {
        let buffers = job(&format!("rw=write\n{options}")).buffers;
        assert_eq!(
            (buffers.content, buffers.refill),
            (content, refill),
            "{options}"
        );
    }
    let buffers = job("mem=mmaphuge\niomem_align=512\ndedupe_percentage=20").buffers;
    assert_eq!(
        (buffers.memory, buffers.align, buffers.dedupe_percent),
        (Memory::Huge, 512, 20)
    );
}

#[test]
fn verification_keeps_its_method() {
    for (options, checksum) in [
        ("verify=crc32c", Checksum::Crc32c),
        ("verify=crc32c-intel", Checksum::Crc32c),
        ("verify=xxhash", Checksum::Xxhash64),
        ("verify=md5", Checksum::Xxhash64),
        ("verify=meta", Checksum::HeaderOnly),
        (
            "verify=pattern\nverify_pattern=0xff",
            Checksum::Pattern(Pattern(vec![255])),
        ),
        (
            "verify_pattern=0xff\nverify=pattern",
            Checksum::Pattern(Pattern(vec![255])),
        ),
        ("verify_pattern=0xff", Checksum::Pattern(Pattern(vec![255]))),
        ("verify=crc32c\nverify_pattern=0xff", Checksum::Crc32c),
    ] {
        let job = job(&format!("rw=write\n{options}"));
        assert_eq!(
            job.work.blocks().unwrap().clone().verify.unwrap().checksum,
            checksum,
            "{options}"
        );
        assert!(job.buffers.refill, "{options}");
    }
    assert_eq!(job("verify=0").work.blocks().unwrap().clone().verify, None);
    let verify = job(
        "rw=randwrite\nverify=crc32c\ndo_verify=0\nverify_only\nverify_interval=512\n\
         verify_backlog=1024\nverify_backlog_batch=32\nverify_fatal=1\nverify_dump=1",
    )
    .work
    .blocks()
    .unwrap()
    .clone()
    .verify
    .unwrap();
    assert!(!verify.do_verify && verify.only && verify.fatal && verify.dump);
    assert_eq!(
        (verify.interval, verify.backlog, verify.backlog_batch),
        (512, 1024, 32)
    );
    for (options, save, load) in [
        ("", true, LoadState::IfThere),
        ("verify_state_save=0", false, LoadState::IfThere),
        ("verify_state_load=1", true, LoadState::Required),
        ("verify_state_load=0", true, LoadState::Never),
    ] {
        let job = job(&format!("rw=write\nverify=crc32c\n{options}"));
        let verify = job.work.blocks().unwrap().verify.clone().unwrap();
        assert_eq!(
            (verify.save_state, verify.load_state),
            (save, load),
            "{options}"
        );
    }
    let unequal = job("rw=write\nverify=crc32c\nbsrange=4k-16k")
        .work
        .blocks()
        .unwrap()
        .clone()
        .verify
        .unwrap();
    assert_eq!(unequal.interval, 4096);
}

#[test]
fn errors_logs_and_placement() {
    let job = job(
        "continue_on_error=io\nignore_error=EIO:28,ENOSPC,EILSEQ\nexitall_on_error\nwrite_bw_log=a\n\
         write_lat_log\nwrite_iops_log=c\nlog_avg_msec=100\nlog_max_value=1\nlog_offset=1\n\
         cpus_allowed=0-1,3\ncpus_allowed_policy=split\nnuma_cpu_nodes=0\nnuma_mem_policy=bind:0-1\n\
         nice=-5\nprio=3\nexitall\npercentile_list=50:99.9",
    );
    let errors = &job.errors;
    assert!(errors.continue_read && errors.continue_write && errors.exit_all);
    assert!(errors.continue_verify);
    assert_eq!(
        (&errors.ignore_read[..], &errors.ignore_write[..]),
        (&[5, 28][..], &[28][..])
    );
    assert_eq!(job.logs.bandwidth, Some(PathBuf::from("a")));
    assert_eq!(job.logs.latency, Some(PathBuf::from("j")));
    assert_eq!(
        (job.logs.window_ms, job.logs.max_value, job.logs.offset),
        (100, true, true)
    );
    assert_eq!(job.placement.cpus, [0, 1, 3]);
    assert!(job.placement.split && job.exit_all);
    assert_eq!(job.placement.numa_memory_nodes, [0, 1]);
    assert_eq!(
        (job.placement.nice, job.placement.io_priority),
        (-5, Some((2, 3)))
    );
    assert_eq!(job.reporting.percentiles, [50.0, 99.9]);
    assert_eq!(common::job("cpumask=0xa").placement.cpus, [1, 3]);
}

#[test]
fn ops_have_priorities_by_share_or_by_size() {
    let told = |options: &str| {
        let job = job(&format!("ioengine=io_uring\nrw=randrw\n{options}"));
        let shares = job.work.blocks().unwrap().priorities.clone();
        let told = shares.iter().map(|share| {
            let block = share
                .block
                .map_or(String::new(), |block| format!(" {block}"));
            let (direction, percent) = (share.direction.name(), share.percent);
            format!("{direction}{block} {percent}% {}", share.priority)
        });
        told.collect::<Vec<String>>().join(", ")
    };
    for (options, expected) in [
        ("cmdprio_percentage=0", ""),
        ("cmdprio_class=2", ""),
        ("cmdprio_percentage=20", "read 20% 1/0/0, write 20% 1/0/0"),
        (
            "cmdprio_percentage=10,20\ncmdprio_class=2,3\ncmdprio=1\ncmdprio_hint=0,4",
            "read 10% 2/1/0, write 20% 3/1/4",
        ),
        (
            "cmdprio_bssplit=64k/40:4k/30,4k/5\ncmdprio=2",
            "read 65536 40% 1/2/0, read 4096 30% 1/2/0, write 4096 5% 1/2/0",
        ),
        (
            "rw=read\ncmdprio_bssplit=64k/25/1/1:64k/75/3/2/9:1024k/0:8k/",
            "read 65536 25% 1/1/0, read 65536 75% 3/2/9",
        ),
        ("rw=write\ncmdprio_percentage=10,0", ""),
    ] {
        assert_eq!(told(options), expected, "{options}");
    }
    let job = job("prioclass=2\npriohint=3\nioengine=libaio\ncmdprio_percentage=5,0");
    assert_eq!(job.placement.priority().unwrap().to_string(), "2/0/3");
    let priorities = job.op_priorities(Direction::Read);
    let values: Vec<u16> = priorities.iter().map(|it| it.value()).collect();
    assert_eq!(values, [2 << 13 | 3 << 3, 1 << 13]);
    assert_eq!(job.op_priorities(Direction::Write), []);
}

#[test]
fn data_that_the_null_engine_does_not_keep_are_not_checked() {
    let checksum = |options: &str| {
        let job = job(&format!("rw=write\n{options}"));
        job.work.blocks().unwrap().verify.clone().unwrap().checksum
    };
    assert_eq!(checksum("ioengine=null\nverify=md5"), Checksum::Nothing);
    let pattern = "ioengine=null\nverify=pattern\nverify_pattern=0xab";
    assert_eq!(checksum(pattern), Checksum::Nothing);
    assert_ne!(checksum("verify=crc32c"), Checksum::Nothing);
}

#[test]
fn a_disk_is_preconditioned_by_random_writes() {
    let told = |options: &str| {
        let job = job(&format!("rw=randwrite\n{options}"));
        let blocks = job.work.blocks().unwrap();
        assert_eq!(
            blocks.access.random_map,
            blocks.access.precondition.is_none()
        );
        let bytes = blocks.bytes_to_process(None, 10 << 20, 10 << 20);
        blocks
            .access
            .precondition
            .map(|it| (it.over_provisioning, it.regions, it.cache, bytes))
    };
    assert_eq!(told("sprandom=0\nspr_op=0.3"), None);
    let bytes = (10 << 20) * 115 / 100;
    assert_eq!(told("sprandom=1"), Some((0.15, 100, 0, bytes)));
    let options = "sprandom=1\nspr_op=0.5\nspr_num_regions=7\nspr_cs=1m\nrandom_generator=lfsr\nnorandommap\nblockalign=4k";
    assert_eq!(told(options), Some((0.5, 7, 1 << 20, 15 << 20)));
}

#[test]
fn written_blocks_are_trimmed_by_share_and_backlog() {
    let trim = |options: &str| {
        let job = job(&format!("rw=write\n{options}"));
        let verify = job.work.blocks().unwrap().verify.clone();
        verify.and_then(|verify| verify.trim).map(|trim| {
            let VerifyTrim {
                percent,
                backlog,
                batch,
                check_zero,
            } = trim;
            (percent, backlog, batch, check_zero)
        })
    };
    let all = "verify=md5\ntrim_percentage=30\ntrim_backlog=8";
    assert_eq!(trim(all), Some((30, 8, 8, true)));
    let more = format!("{all}\ntrim_backlog_batch=2\ntrim_verify_zero=0");
    assert_eq!(trim(&more), Some((30, 8, 2, false)));
    for without in [
        "verify=md5\ntrim_backlog=8",
        "verify=md5\ntrim_percentage=30",
        "trim_percentage=30\ntrim_backlog=8",
    ] {
        assert_eq!(trim(without), None, "{without}");
    }
}

#[test]
fn columns_and_files_of_logs() {
    let logs = job(
        "write_hist_log\nlog_hist_msec=500\nlog_hist_coarseness=3\nlog_prio=1\nper_job_logs=0\n\
         write_lat_log=a\nlog_offset=1\nlog_issue_time=1\nlog_window_value=both\nlog_store_compressed=1",
    )
    .logs;
    assert_eq!(logs.histogram, Some(PathBuf::from("j")));
    assert_eq!((logs.histogram_ms, logs.coarseness), (500, 3));
    assert!(logs.priority && logs.issue_time && logs.shared && logs.both_values);
    assert!(logs.compressed);
    let plain = job("write_bw_log\nlog_max_value=0\nper_job_logs=1").logs;
    assert!(!plain.shared && !plain.both_values && !plain.max_value && !plain.compressed);
}

#[test]
fn a_pattern_can_be_the_content_of_a_file() {
    let text = "[j]\nsize=1m\nrw=write\nbuffer_pattern='bytes'\n\
                [k]\nsize=1m\nrw=write\nverify=pattern\nverify_pattern=0xff'bytes'%o\n";
    let host = common::FakeHost::with(&[("test.fio", text), ("bytes", "content")]);
    let jobs = common::parse_on(&host).workload.unwrap().jobs;
    let pattern = Content::Pattern(Pattern(b"content".to_vec()));
    assert_eq!(jobs[0].buffers.content, pattern);
    let verify = jobs[1].work.blocks().unwrap().verify.clone().unwrap();
    let pattern = verify.pattern.unwrap();
    assert_eq!(pattern.bytes.0[..8], *b"\xffcontent");
    assert_eq!(pattern.offsets, [8]);
}

#[test]
fn booleans_accept_words_and_no_value() {
    for (text, set) in [
        ("direct=1", true),
        ("direct=0", false),
        ("direct", true),
        ("direct=true", true),
        ("direct=No", false),
    ] {
        assert_eq!(
            job(text).work.blocks().unwrap().clone().engine.direct,
            set,
            "{text}"
        );
    }
}

#[test]
fn global_options_apply_to_later_jobs_only() {
    let jobs =
        jobs("[a]\nsize=1m\n[global]\nsize=2m\nbs=8k\n[b]\n[global]\nbs=16k\n[c]\nsize=3m\n");
    let sizes: Vec<_> = jobs
        .iter()
        .map(|job| job.work.blocks().unwrap().extent.size)
        .collect();
    let bytes = |mib: u64| Some(Amount::Bytes(mib << 20));
    assert_eq!(sizes, [bytes(1), bytes(2), bytes(3)]);
    let blocks: Vec<u64> = jobs
        .iter()
        .map(|job| job.work.blocks().unwrap().access.max_block())
        .collect();
    assert_eq!(blocks, [4096, 8192, 16384]);
}

#[test]
fn groups_are_numbered_as_fio_does() {
    let text = "[global]\nsize=1m\n[a]\nstonewall\n[b]\n[c]\nnew_group\n[d]\nwait_for_previous\n\
                [e]\nwait_for=d\nnew_group\ngroup_reporting\n[f]\nstonewall=0\n";
    let jobs = jobs(text);
    let groups: Vec<u32> = jobs.iter().map(|job| job.reporting.group).collect();
    assert_eq!(groups, [0, 0, 1, 2, 3, 3]);
    let after: Vec<After> = jobs.iter().map(|job| job.after.clone()).collect();
    use After::{AllBefore, Start};
    let expected = [
        Start,
        Start,
        Start,
        AllBefore,
        After::Job("d".to_owned()),
        Start,
    ];
    assert_eq!(after, expected);
    assert!(jobs[4].reporting.together && !jobs[5].reporting.together);
}

#[test]
fn a_job_is_named_after_its_section_and_not_by_a_global_name() {
    let jobs = jobs("[global]\nname=all\nsize=1m\n[a]\n[b]\nname=c\n[d]\n");
    let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert!(!jobs[0].options.contains_key("name"));
    assert_eq!(resolved_options(&jobs[0])["name"], "a");
    assert_eq!(resolved_options(&jobs[1])["name"], "c");
    // Files are named after the section.
    let formats: Vec<&str> = jobs
        .iter()
        .map(|job| job.work.blocks().unwrap().files.format.as_str())
        .collect();
    let usual = "$jobname.$jobnum.$filenum";
    assert_eq!(formats, [usual, "b.$jobnum.$filenum", usual]);
}

#[test]
fn what_fio_reads_leniently_is_read_as_fio_reads_it() {
    let bs = job("bs=4k-512k")
        .work
        .blocks()
        .unwrap()
        .access
        .block_sizes
        .clone();
    assert_eq!(bs.read, BlockSizes::Fixed(4096));
    assert_eq!(bs.write, BlockSizes::Fixed(512 << 10));
    assert_eq!(bs.trim, BlockSizes::Fixed(512 << 10));
    let size = |text: &str| job(text).work.blocks().unwrap().extent.size;
    assert_eq!(size("size=100%%"), Some(Amount::Percent(100.0)));
    assert_eq!(size("size=128k*2"), Some(Amount::Bytes(128 << 10)));
    assert_eq!(size("size=(128k*2)"), Some(Amount::Bytes(256 << 10)));
    assert_eq!(job("runtime=60*2").end.runtime, Some(Nanos(60_000_000_000)));
    let access = job("rw=randread\nrandom_distribution=zipf:1.1/0.2");
    assert_eq!(
        access.work.blocks().unwrap().access.distribution.read,
        Distribution::Zipf(1.1)
    );
    for name in ["aio", "linuxaio"] {
        let engine = job(&format!("ioengine={name}"));
        let kind = engine.work.blocks().unwrap().engine.kind;
        assert_eq!(kind, EngineKind::Libaio);
    }
    for (text, force, every) in [
        ("", false, 1),
        ("force_async=0", false, 1),
        ("force_async=1", true, 1),
        ("force_async=8", true, 8),
    ] {
        let job = job(&format!("ioengine=io_uring\n{text}"));
        let engine = &job.work.blocks().unwrap().engine;
        assert_eq!(
            (engine.force_async, engine.force_async_every),
            (force, every),
            "{text}"
        );
    }
    let endless = job("time_based\nruntime=0");
    assert!(!endless.work.blocks().unwrap().passes.time_based);
    let clock = |text: &str| job(text).logs.epoch_clock;
    assert_eq!(clock("log_unix_epoch=1"), Some(0));
    assert_eq!(
        clock("log_alternate_epoch_clock_id=7\nlog_alternate_epoch=1"),
        Some(7)
    );
    assert_eq!(clock("log_alternate_epoch_clock_id=7"), None);
    let files = |text: &str| job(text).work.blocks().unwrap().files.clone();
    let cached = files("pre_read=1\ninvalidate=1");
    assert!(cached.pre_read && !cached.invalidate && !cached.append);
    assert!(files("file_append=1").append && files("").invalidate);
    assert!(job("stats=0").reporting.hidden && !job("stats=1").reporting.hidden);
    let job = job("zonesize=64k\nzonerange=16k");
    let extent = &job.work.blocks().unwrap().extent;
    assert_eq!((extent.zone_size, extent.zone_range), (65536, 16384));
}

#[test]
fn options_of_the_output_reach_the_job() {
    let defaults = job("").reporting;
    assert_eq!(
        (defaults.digits, defaults.bits, defaults.decimal),
        (4, false, false)
    );
    let of = defaults.percentiles_of;
    assert_eq!(
        [of.submission, of.completion, of.total],
        [false, true, false]
    );
    let asked = job(
        "significant_figures=7\nunit_base=1\nkb_base=1000\nslat_percentiles=1\nclat_percentiles=0\nlat_percentiles=1\n",
    );
    let asked = asked.reporting;
    assert_eq!((asked.digits, asked.bits, asked.decimal), (7, true, true));
    let of = asked.percentiles_of;
    assert_eq!(
        [of.submission, of.completion, of.total],
        [true, false, true]
    );
    assert!(!job("unit_base=8\n").reporting.bits);
}

#[test]
fn the_options_of_global_sections_are_kept() {
    let text = "[global]\nbs=4k\nsize=1m\nrw=read\n[a]\niodepth=2\n[global]\nrw=write\n[b]\n";
    let workload = parse(text).workload.unwrap();
    let options: Vec<(&str, &str)> = workload
        .global_options
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(options, [("bs", "4k"), ("rw", "write"), ("size", "1m")]);
}

#[test]
fn kb_base_applies_to_its_whole_section() {
    let jobs = jobs("[a]\nbs=4k\nkb_base=1000\nsize=1g\n[b]\nbs=4k\nsize=1g\n");
    assert_eq!(jobs[0].work.blocks().unwrap().access.max_block(), 4000);
    assert_eq!(jobs[1].work.blocks().unwrap().access.max_block(), 4096);
}

#[test]
fn options_are_kept_as_written_and_completed_with_defaults() {
    let written = job("blocksize=8k\nrw=randrw\ngroup_reporting\nruntime=90s\ntime_based\n");
    assert_eq!(written.options["bs"], "8k");
    assert_eq!(written.options["group_reporting"], "");
    assert!(!written.options.contains_key("iodepth"));
    let options = resolved_options(&written);
    for (name, value) in [
        ("name", "j"),
        ("bs", "8k"),
        ("rw", "randrw"),
        ("ioengine", "psync"),
        ("iodepth", "1"),
        ("numjobs", "1"),
        ("direct", "0"),
        ("size", "16m"),
        ("runtime", "90s"),
        ("rwmixread", "50"),
    ] {
        assert_eq!(options[name], value, "{name}");
    }
    let defaults = resolved_options(&job(""));
    assert_eq!((&defaults["rw"][..], &defaults["bs"][..]), ("read", "4096"));
}

#[test]
fn resolved_options_parse_to_the_same_job() {
    for options in [
        "rw=randread:8\nbssplit=4k/60:64k/40\nioengine=io_uring\niodepth=4\ndirect=1",
        "rw=read:-8k\nbsrange=4k-16k,8k-8k",
        "rw=trimwrite\nbs=4k,8k,16k\nruntime=1500ms\ntime_based",
        "rw=randrw\nrwmixread=70\nio_size=10%\nnumjobs=3",
    ] {
        let mut first = job(options);
        first.options.clear();
        let text: String = resolved_options(&first)
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect();
        let mut second = jobs(&format!("[j]\n{text}")).remove(0);
        for job in [&mut first, &mut second] {
            job.options.clear();
            job.place = None;
        }
        assert_eq!(first, second, "{text}");
    }
}

#[test]
fn the_compatibility_page_is_up_to_date() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/fio-compatibility.md"
    );
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == fio::compatibility_markdown(),
        "docs/fio-compatibility.md is out of date; regenerate it with\n\
         cargo run -p iodyno-fio --example fio_compatibility > docs/fio-compatibility.md"
    );
}

#[test]
fn a_flow_has_a_weight_an_id_and_a_pause() {
    let flow = job("flow=8\nflow_id=3\nflow_sleep=1000")
        .pacing
        .flow
        .unwrap();
    assert_eq!(
        (flow.weight, flow.id, flow.pause),
        (8, 3, Nanos::from_millis(1))
    );
    assert_eq!(job("flow_id=3\nflow_sleep=1000").pacing.flow, None);
}

#[test]
fn fill_device_reserves_nothing_and_needs_no_size() {
    let filling = parse("[a]\nrw=write\nfill_device=1\n");
    let job = &filling.workload.unwrap().jobs[0];
    assert!(job.end.until_full);
    assert_eq!(job.work.blocks().unwrap().extent.size, None);
    assert_eq!(job.work.blocks().unwrap().files.fallocate, Fallocate::None);
    let asked = parse("[a]\nrw=write\nfill_fs=1\nfallocate=keep\n");
    let job = &asked.workload.unwrap().jobs[0];
    assert_eq!(
        job.work.blocks().unwrap().files.fallocate,
        Fallocate::KeepSize
    );
}

#[test]
fn atomic_writes_need_an_engine_that_supports_them() {
    for engine in ["pvsync2", "libaio", "io_uring"] {
        let write = job(&format!(
            "rw=randwrite\ndirect=1\natomic=1\nioengine={engine}"
        ));
        assert!(write.work.blocks().unwrap().engine.atomic, "{engine}");
    }
    assert!(
        !job("rw=read\natomic=1\nioengine=psync")
            .work
            .blocks()
            .unwrap()
            .clone()
            .engine
            .atomic
    );
}

#[test]
fn sequence_and_seed_of_verified_blocks_are_checked_by_default() {
    for (options, sequence, seed) in [
        ("", true, true),
        ("verify_write_sequence=0", false, true),
        ("verify_header_seed=0", true, false),
    ] {
        let verify = job(&format!("rw=randwrite\nverify=crc32c\n{options}"))
            .work
            .blocks()
            .unwrap()
            .clone()
            .verify;
        let verify = verify.unwrap();
        assert_eq!(
            (verify.check_sequence, verify.check_seed),
            (sequence, seed),
            "{options}"
        );
    }
}

#[test]
fn a_trace_determines_the_ops() {
    use Direction::{Read, Sync, Trim, Write};
    let job = job(
        "read_iolog=a.log:b\\:c.log\nreplay_no_stall=1\nreplay_time_scale=250\nreplay_redirect=/dev/x\n\
                   replay_scale=4\nreplay_align=4k\nreplay_skip=trim,sync\nrw=randwrite\nwrite_iolog=out.log\nfsync=0",
    );
    let replay = job.work.replay().unwrap();
    assert_eq!(replay.traces, [PathBuf::from("a.log"), "b:c.log".into()]);
    assert!(replay.no_stall && !job.scheduled());
    assert_eq!(
        (replay.time_percent, replay.scale, replay.align),
        (250, 4, 4096)
    );
    assert_eq!(replay.redirect, Some("/dev/x".into()));
    assert_eq!(replay.skip, [Trim, Sync]);
    assert_eq!(job.work.moves(), [Read, Write]);
    assert_eq!(job.logs.iolog, Some("out.log".into()));
    let timed = common::job("read_iolog=a.log");
    assert!(timed.scheduled() && !timed.pacing.scheduled());
    assert_eq!(timed.work.moves(), [Read, Write, Trim]);
    assert!(common::job("replay_scale=4").work.replay().is_none());
}

#[test]
fn a_steady_state_has_a_rule_and_a_window() {
    use SteadyMetric::{Bandwidth, Iops, Latency};
    for (text, metric, slope, limit, percent) in [
        ("iops:0.3%", Iops, false, 0.3, true),
        ("iops:2", Iops, false, 2.0, false),
        ("iops_slope:0.1%", Iops, true, 0.1, true),
        ("bw:1m", Bandwidth, false, 1048576.0, false),
        ("bw_slope:5%", Bandwidth, true, 5.0, true),
        ("lat:20us", Latency, false, 20_000.0, false),
        ("lat_slope:500", Latency, true, 500.0, false),
    ] {
        let options = format!("ss={text}\nss_dur=30\nss_ramp=5\nss_interval=2");
        let rule = job(&options).end.steady.unwrap();
        assert_eq!(
            (rule.metric, rule.slope, rule.limit, rule.percent),
            (metric, slope, limit, percent),
            "{text}"
        );
        let times = [rule.window, rule.ramp, rule.interval].map(|time| time.0 / 1_000_000_000);
        assert_eq!(times, [30, 5, 2]);
    }
    // A window alone has fio's default rule, a rule alone has no effect.
    let rule = job("steadystate_duration=10").end.steady.unwrap();
    assert_eq!(rule.to_string(), "iops_slope:0.01%");
    assert_eq!(rule.interval.0, 1_000_000_000);
    assert_eq!(job("steadystate=iops:2").end.steady, None);
}

#[test]
fn exitall_of_one_job_is_that_of_all() {
    let jobs = jobs(
        "[a]\nsize=1m\nexit_what=all\n[b]\nsize=1m\nexitall\n[c]\nsize=1m\nexit_what=stonewall",
    );
    assert!(jobs.iter().all(|job| job.exit_all));
    let what: Vec<ExitScope> = jobs.iter().map(|job| job.exit_what).collect();
    assert_eq!(
        what,
        [ExitScope::All, ExitScope::Group, ExitScope::Stonewall]
    );
}

#[test]
fn a_sequence_of_blocks_may_move_on() {
    for stride in [false, true] {
        let options = format!(
            "rw=randread\nrandom_sequence_stride={}\nrandom_distribution=sequence:2, 0,1",
            u8::from(stride)
        );
        let access = job(&options).work.blocks().unwrap().access.clone();
        let blocks = vec![2, 0, 1];
        let sequence = Distribution::Sequence { blocks, stride };
        assert_eq!(access.distribution.read, sequence);
        assert!(!access.random_map);
    }
}

#[test]
fn files_are_chosen_by_turns_or_by_laws() {
    for (text, service, ops) in [
        ("random:8", FileService::Random, 8),
        ("sequential", FileService::Sequential, 1),
        ("zipf", FileService::Zipf(1.1), 1),
        ("zipf:1.2", FileService::Zipf(1.2), 1),
        ("pareto:0.3", FileService::Pareto(0.3), 1),
        ("gauss:10", FileService::Normal(10.0), 1),
        ("normal:10", FileService::Normal(10.0), 1),
    ] {
        let options = format!("file_service_type={text}\nopenfiles=3");
        let files = job(&options).work.blocks().unwrap().files.clone();
        assert_eq!((files.service, files.service_ops), (service, ops), "{text}");
        assert_eq!(files.open, 3);
    }
}

#[test]
fn overlapping_ops_may_wait_and_buffers_may_stay_as_they_are() {
    let plain = job("");
    assert!(plain.buffers.scramble);
    assert!(!plain.work.blocks().unwrap().access.serialize_overlap);
    let set = job("serialize_overlap\nscramble_buffers=0");
    assert!(!set.buffers.scramble);
    assert!(set.work.blocks().unwrap().access.serialize_overlap);
}

#[test]
fn submission_is_measured_by_io_uring_where_it_is_asked_for() {
    let asked = |options: &str| job(options).work.blocks().unwrap().engine.submit_apart;
    for options in ["slat_percentiles=1", "write_lat_log=x", "disable_slat=0"] {
        assert!(asked(&format!("ioengine=io_uring\n{options}")), "{options}");
        assert!(!asked(&format!("ioengine=libaio\n{options}")), "{options}");
    }
    for options in [
        "",
        "slat_percentiles=0",
        "write_lat_log=x\ndisable_slat=1",
        "write_lat_log=x\ngtod_reduce=1",
        "write_bw_log=x",
    ] {
        assert!(
            !asked(&format!("ioengine=io_uring\n{options}")),
            "{options}"
        );
    }
}

#[test]
fn logs_of_disabled_latencies_are_left_out() {
    let left_out = |options: &str| {
        let of = job(&format!("write_lat_log=x\n{options}")).logs.left_out;
        [of.submission, of.completion, of.total]
    };
    assert_eq!(left_out(""), [false; 3]);
    assert_eq!(left_out("disable_slat=1"), [true, false, false]);
    assert_eq!(left_out("disable_clat=1"), [false, true, false]);
    assert_eq!(left_out("disable_lat=1"), [false, false, true]);
    assert_eq!(left_out("gtod_reduce=1"), [true; 3]);
}

#[test]
fn a_doubled_percent_sign_is_one() {
    let steady = |limit: &str| {
        let job = job(&format!(
            "ioengine=sim\nsteadystate=iops:{limit}\nsteadystate_duration=10"
        ));
        job.end.steady.map(|rule| (rule.limit, rule.percent))
    };
    assert_eq!(steady("90%%"), Some((90.0, true)));
    assert_eq!(steady("90%"), Some((90.0, true)));
}

#[test]
fn zero_is_not_set_as_in_fio() {
    let parsed = |options: &str| {
        let mut job = job(options);
        job.options.clear();
        job
    };
    for (zero, without) in [
        ("io_size=0", ""),
        ("io_size=0%", ""),
        (
            "zonemode=zbd\nzonesize=1m\nio_size=0z",
            "zonemode=zbd\nzonesize=1m",
        ),
        ("thinktime=5\nthinktime_blocks=0", "thinktime=5"),
        ("file_service_type=roundrobin:0", ""),
        (
            "file_service_type=sequential:0",
            "file_service_type=sequential",
        ),
        ("file_service_type=random:0", "file_service_type=random"),
        ("replay_scale=0", ""),
        ("sync_file_range=write:0", ""),
        ("number_ios=0", ""),
        ("loops=0", ""),
        ("runtime=0", ""),
        ("rate=0\nrate_iops=0", ""),
        ("max_latency=0", ""),
        ("fsync=0\nfdatasync=0", ""),
    ] {
        assert!(parsed(zero) == parsed(without), "{zero}");
    }
    for size in ["size=0", "size=0%"] {
        assert_eq!(job(size).work.blocks().unwrap().extent.size, None, "{size}");
    }
}

#[test]
fn a_rate_of_ops_with_a_range_of_sizes_is_one_of_the_smallest_blocks() {
    let rates = |options: &str| {
        let rates = job(options).pacing.rates;
        [rates.read, rates.write].map(|rate| (rate.iops, rate.bytes_per_s))
    };
    let ops = [(200.0, 0), (200.0, 0)];
    for (options, expected) in [
        ("bsrange=4k-16k", [(0.0, 200 * 4096), (0.0, 200 * 4096)]),
        (
            "bsrange=4k-16k,8k-16k",
            [(0.0, 200 * 4096), (0.0, 200 * 8192)],
        ),
        ("bsrange=4k-4k", ops),
        ("bsrange=4k-16k\nrate_process=poisson", ops),
        ("bssplit=4k/50:64k/50", ops),
        ("bs=4k", ops),
    ] {
        let options = format!("rw=randrw\nrate_iops=200\n{options}");
        assert_eq!(rates(&options), expected, "{options}");
    }
}
