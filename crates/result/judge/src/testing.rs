//! Simulated workloads and trials for tests: plausible, deterministic and short.

pub mod observations;
pub mod operations;
pub mod telemetry;

use std::collections::BTreeMap;
use std::path::PathBuf;

use iodyno_model::{
    Access, Blocks, CloneResult, CpuUse, DepthUse, DeviceLayer, DeviceUse, Direction,
    DirectionFrame, DirectionResult, EndedBy, Engine, EngineKind, EngineUsed, Environment, Extent,
    FileState, Frame, Histogram, HistogramBuilder, HostUse, Job, JobEnd, JobFrame, MemoryInfo,
    MountInfo, Order, Outcome, Part, Passes, RunId, SCHEMA, SampleStats, StackLayer, Step,
    StepTime, TargetInfo, Telemetry, Trial, TrialKey, Work, Workload,
};
use iodyno_units::Nanos;

const GIB: u64 = 1 << 30;

/// Random direct 4 KiB reads and writes at 75 : 25, libaio, depth 16, 20 s, 4 GiB.
pub fn job(name: &str) -> Job {
    let mut engine = Engine::new(EngineKind::Libaio, 16);
    engine.direct = true;
    Job {
        name: name.to_owned(),
        work: Work::Blocks(Blocks {
            engine,
            access: Access {
                writes: true,
                order: Order::Random,
                read_percent: 75,
                ..Access::default()
            },
            extent: Extent {
                size: Some(iodyno_model::Amount::Bytes(4 * GIB)),
                ..Extent::default()
            },
            passes: Passes {
                time_based: true,
                ..Passes::default()
            },
            ..Blocks::default()
        }),
        end: JobEnd {
            runtime: Some(Nanos::from_secs(20)),
            ..JobEnd::default()
        },
        options: BTreeMap::from([("rw".to_owned(), "randrw".to_owned())]),
        ..Job::default()
    }
}

/// The work of a job on blocks.
pub fn blocks(job: &mut Job) -> &mut Blocks {
    job.work.blocks_mut().unwrap()
}

/// The same, reads only.
pub fn reader(name: &str) -> Job {
    let mut job = job(name);
    let access = &mut blocks(&mut job).access;
    access.writes = false;
    access.read_percent = 100;
    job
}

/// A workload of these jobs.
pub fn workload(name: &str, jobs: Vec<Job>) -> Workload {
    Workload::new(name, Vec::new(), jobs)
}

/// `count` latencies with a tail typical of storage: the quantile q is at median × (0.434 + 0.4 ÷ √(1 − q)), so p99
/// is 4.4 and p99.9 13 times the median.
pub fn latencies(count: u64, median_ns: u64) -> Histogram {
    let mut bins = BTreeMap::<usize, u64>::new();
    let (mut min, mut max, mut sum) = (u64::MAX, 0, 0u128);
    let steps = count.min(4000);
    for step in 0..steps {
        let rest = 1.0 - (step as f64 + 0.5) / steps as f64;
        let value = (median_ns as f64 * (0.434 + 0.4 / rest.sqrt())) as u64;
        let share = count / steps + u64::from(step < count % steps);
        *bins
            .entry(iodyno_model::BinLayout::index(value))
            .or_default() += share;
        (min, max) = (min.min(value), max.max(value));
        sum += u128::from(value) * u128::from(share);
    }
    let mut builder = HistogramBuilder::default();
    for (bin, count) in bins {
        builder.bin(bin, count);
    }
    if steps > 0 {
        builder.extremes(min, max, sum, 0);
    }
    builder.build()
}

/// 20 s of `ops` ops of 4 KiB.
pub fn direction(direction: Direction, ops: u64, median_ns: u64) -> DirectionResult {
    let block = if direction == Direction::Sync {
        0
    } else {
        4096
    };
    let rate = ops as f64 / 20.0;
    let stats = |mean: f64| SampleStats {
        samples: 40,
        min: mean * 0.9,
        max: mean * 1.05,
        mean,
        stddev: mean * 0.03,
    };
    DirectionResult {
        ops,
        bytes: ops * block,
        runtime_ns: 20_000_000_000,
        service: latencies(ops, median_ns),
        bandwidth: stats(rate * block as f64),
        iops: stats(rate),
        ..DirectionResult::empty(direction)
    }
}

/// A clone of 20 s that used 6 s of CPU.
pub fn clone(job: u32, clone: u32, directions: Vec<DirectionResult>) -> CloneResult {
    CloneResult {
        job,
        clone,
        start_ns: 0,
        runtime_ns: 20_000_000_000,
        done_ns: None,
        ended: EndedBy::Runtime,
        directions,
        verify_reads: None,
        cpu: CpuUse {
            user_ns: 1_500_000_000,
            system_ns: 4_500_000_000,
            voluntary: 250_000,
            involuntary: 400,
            minor_faults: 30,
            major_faults: 0,
            run_delay_ns: Some(20_000_000),
        },
        depth: DepthUse {
            level: [10, 20, 40, 80, 99_850, 0, 0],
            submit: [0, 100_000, 0, 0, 0, 0, 0],
            complete: [0, 99_000, 1000, 0, 0, 0, 0],
            turns: 90_000,
            found: 0,
        },
        errors: Vec::new(),
        verify: None,
        engine: EngineUsed {
            name: "libaio".to_owned(),
            depth: 16,
            features: Vec::new(),
            fallbacks: Vec::new(),
        },
        region_bytes: 4 * GIB,
        files: vec![format!("/mnt/e/job.{clone}.0")],
        stamp_window_ns: (2_000, 9_000),
        in_flight: Vec::new(),
        missed: Vec::new(),
        steady: None,
        command: None,
    }
}

/// ext4 on `vda`, which transferred the clones' bytes and was busy for 97 % of 20 s.
pub fn part(clones: Vec<CloneResult>) -> Part {
    let bytes = |direction| {
        clones
            .iter()
            .filter_map(|clone| clone.direction(direction))
            .map(|result| result.bytes)
            .sum::<u64>()
    };
    let (read, written) = (bytes(Direction::Read), bytes(Direction::Write));
    let workers: u64 = clones.iter().map(|clone| clone.cpu.user_ns).sum();
    let files: Vec<FileState> = clones
        .iter()
        .map(|clone| FileState {
            path: clone.files.first().cloned().unwrap_or_default(),
            length: clone.region_bytes,
            unwritten: Some(0),
            read: read > 0,
            laid_out: true,
            device: false,
        })
        .collect();
    Part {
        node: "local".to_owned(),
        clock_offset_ns: 0,
        clock_error_ns: 0,
        clock_at_ns: 0,
        clock_after: None,
        start_late_ns: 0,
        environment: environment(),
        host: HostUse {
            span_ns: 20_000_000_000,
            user_ns: 8_000_000_000,
            system_ns: 20_000_000_000,
            idle_ns: 50_000_000_000,
            iowait_ns: 2_000_000_000,
            harness_user_ns: workers + 200_000_000,
            harness_system_ns: 3 * workers + 100_000_000,
            harness_memory: 12 << 20,
            devices: vec![DeviceUse {
                name: "vda".to_owned(),
                ios: [read / 4096, written / 4096, 0, 3],
                merges: [5, 12, 0],
                bytes: [read, written, 0],
                ticks_ms: [61_000, 20_100, 0, 2],
                busy_ms: 19_400,
                queue_ms: 81_100,
            }],
            ..HostUse::default()
        },
        clones,
        steps: steps(),
        files,
        notes: Vec::new(),
        start_unix_ms: None,
        settled: None,
        sampling: Vec::new(),
        stalls: None,
    }
}

fn environment() -> Environment {
    let device = DeviceLayer {
        name: "vda".to_owned(),
        number: (254, 0),
        size: 256 * GIB,
        scheduler: "none".to_owned(),
        ..DeviceLayer::default()
    };
    let mount = MountInfo {
        point: PathBuf::from("/mnt/e"),
        file_system: "ext4".to_owned(),
        source: "/dev/vda".to_owned(),
        options: "relatime,rw".to_owned(),
        free: 100 * GIB,
        total: 250 * GIB,
        free_inodes: 1 << 20,
    };
    Environment {
        iodyno: "0.1.0".to_owned(),
        host: "bench".to_owned(),
        kernel: "6.18.0".to_owned(),
        memory: MemoryInfo {
            total: 24 * GIB,
            available: 20 * GIB,
            swap_used: 0,
            limit: None,
        },
        clock_source: "tsc".to_owned(),
        clock_read_ns: 22,
        targets: vec![TargetInfo {
            path: PathBuf::from("/mnt/e"),
            stack: vec![StackLayer::Mount(mount), StackLayer::Disk(device)],
        }],
        ..Environment::default()
    }
}

fn steps() -> Vec<StepTime> {
    let step = |step, start_ns, span_ns| StepTime {
        step,
        job: None,
        start_ns,
        span_ns,
    };
    vec![
        step(Step::LayOut, -3_300_000_000, 3_210_000_000),
        step(Step::Measure, 0, 20_000_000_000),
        step(Step::Drain, 20_000_000_000, 4_100_000),
    ]
}

/// A frame of one second, with an entry (job, direction, ops, median) per job and direction.
pub fn frame(number: u32, did: &[(u32, Direction, u64, u64)]) -> Frame {
    let mut jobs: Vec<JobFrame> = Vec::new();
    for (job, direction, ops, median_ns) in did.iter().copied() {
        let share = DirectionFrame {
            direction,
            ops,
            bytes: if direction == Direction::Sync {
                0
            } else {
                ops * 4096
            },
            errors: 0,
            service: latencies(ops, median_ns),
            response: None,
        };
        match jobs.iter_mut().find(|frame| frame.job == job) {
            Some(frame) => frame.directions.push(share),
            None => jobs.push(JobFrame {
                job,
                running: 1,
                directions: vec![share],
            }),
        }
    }
    Frame {
        node: String::new(),
        number,
        start_ns: u64::from(number) * 1_000_000_000,
        end_ns: u64::from(number + 1) * 1_000_000_000,
        step: Step::Measure,
        cpu_ns: 1_230_000_000,
        jobs,
    }
}

/// A completed trial with these parts, without frames.
pub fn trial(parts: Vec<Part>) -> Trial {
    Trial {
        schema: SCHEMA,
        key: TrialKey {
            run: RunId(uuid::Uuid::from_u128(
                0x0190_0000_0000_7000_8000_0000_0000_0001,
            )),
            round: 0,
            cell: 0,
            attempt: 0,
        },
        configuration: "ext4".to_owned(),
        workload: "randrw".to_owned(),
        started_unix_ms: 1_760_000_000_000,
        probe: None,
        outcome: Outcome::Completed,
        parts,
        frames: Vec::new(),
        telemetry: Telemetry::default(),
        findings: Vec::new(),
    }
}

/// Four clones of `job`, 138.4 k reads and 46.1 k writes per second for 20 s, with its series.
pub fn four_clones() -> (Workload, Trial) {
    let mut mixed = job("a");
    mixed.clones = 4;
    mixed.reporting.together = true;
    let clones = (0..4)
        .map(|number| {
            let reads = direction(Direction::Read, 692_000, 318_000);
            let writes = direction(Direction::Write, 230_500, 325_000);
            clone(0, number, vec![reads, writes])
        })
        .collect();
    let mut trial = trial(vec![part(clones)]);
    trial.frames = (0..20)
        .map(|second| {
            let reads = 138_400 - (u64::from(second) * 7919) % 8000;
            frame(
                second,
                &[
                    (0, Direction::Read, reads, 318_000),
                    (0, Direction::Write, reads / 3, 325_000),
                ],
            )
        })
        .collect();
    (workload("randrw", vec![mixed]), trial)
}
