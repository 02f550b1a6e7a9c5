//! A draft as a job of the plan.

use iodyno_model::{
    Access, Amount, Arrival, BlockSizes, Buffers, Content, Engine, EngineKind, Extent, Fallocate,
    FileService, Files, Job, JobEnd, Order, Pacing, PerDirection, Reporting, SharedFiles,
    SharedMode,
};
use iodyno_units::Bytes;

use super::distribution::distribution;
use super::draft::{Draft, IoMode};

/// The files' names, as the job's `files.format`.
pub(super) const FORMAT: &str = "test_file.$filenum";
/// Requests of `prepare` are about so long, where nothing else is asked for, bytes.
const PREPARED_AT_ONCE: u64 = 1 << 20;
/// The percentiles shown besides the one asked for.
const PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 99.9];

/// The job of `run`.
pub(super) fn run(draft: &Draft, mode: SharedMode) -> Job {
    let merged = match mode.random() {
        true => 0,
        false => draft.merged(u64::from(draft.merged_requests)),
    };
    let shared = SharedFiles {
        mode,
        file_size: draft.file_size(),
        block: draft.block,
        merged,
        read_write_ratio: draft.ratio,
        fsync_every: if draft.fsync_all { 0 } else { draft.fsync_freq },
        fsync_all: draft.fsync_all,
        // Modes that only read have nothing to sync then.
        fsync_end: draft.fsync_end && !draft.fsync_all,
        data_only: draft.data_only,
        validate: draft.validate,
    };
    let kind = match draft.io_mode {
        IoMode::Sync => EngineKind::Psync,
        IoMode::Async => EngineKind::Libaio,
        IoMode::Mmap => EngineKind::Mmap,
    };
    let scheduled = draft.rate > 0.0;
    Job {
        clones: draft.threads,
        engine: engine(draft, kind),
        end: JobEnd {
            runtime: (draft.time.0 > 0).then_some(draft.time),
            time_based: true,
            ops: (draft.events > 0).then_some(draft.events),
            ramp: draft.warmup,
            ..JobEnd::default()
        },
        pacing: Pacing {
            ops_per_s: draft.rate / f64::from(draft.threads),
            arrival: match scheduled {
                true => Arrival::Poisson,
                false => Arrival::Linear,
            },
            ..Pacing::default()
        },
        ..job(draft, shared)
    }
}

/// The job of `prepare`: one thread, in requests of about 1 MiB, until all files are whole and synced.
pub(super) fn prepare(draft: &Draft) -> Job {
    let requests = match draft.has("file-merged-requests") {
        true => u64::from(draft.merged_requests),
        false => PREPARED_AT_ONCE / draft.block,
    };
    let shared = SharedFiles {
        mode: SharedMode::Prepare,
        file_size: draft.file_size(),
        block: draft.block,
        merged: draft.merged(requests),
        read_write_ratio: draft.ratio,
        fsync_every: 0,
        fsync_all: false,
        fsync_end: true,
        data_only: false,
        validate: draft.validate,
    };
    let request = shared.merged.max(shared.block);
    Job {
        description: format!("one thread, in requests of {}", Bytes(request)),
        engine: engine(draft, EngineKind::Psync),
        buffers: Buffers {
            // What lies in the files afterwards is read for long: no two blocks of it are alike.
            refill: true,
            ..buffers()
        },
        ..job(draft, shared)
    }
}

fn job(draft: &Draft, shared: SharedFiles) -> Job {
    let mode = shared.mode;
    let length = Amount::Bytes(shared.file_size);
    Job {
        name: mode.name().to_owned(),
        access: access(draft, &shared),
        files: Files {
            directories: Vec::new(),
            names: Vec::new(),
            format: FORMAT.to_owned(),
            count: draft.file_num,
            size: Some((length, length)),
            service: match mode.random() {
                true => FileService::Random,
                false => FileService::Sequential,
            },
            service_ops: 1,
            fallocate: Fallocate::None,
            overwrite: false,
            create_on_open: false,
            create_only: false,
            allow_create: matches!(mode, SharedMode::Prepare | SharedMode::SequentialWrite),
            fsync_on_layout: false,
            invalidate: false,
            fsync_on_close: false,
            unlink: false,
            advise: false,
        },
        extent: Extent {
            size: Some(Amount::Bytes(
                shared.file_size.saturating_mul(u64::from(draft.file_num)),
            )),
            ..Extent::default()
        },
        buffers: buffers(),
        reporting: Reporting {
            together: true,
            percentiles: percentiles(draft.percentile),
            ..Reporting::default()
        },
        options: draft.written.clone(),
        shared_files: Some(shared),
        ..Job::default()
    }
}

fn buffers() -> Buffers {
    Buffers {
        content: Content::Random,
        ..Buffers::default()
    }
}

fn engine(draft: &Draft, kind: EngineKind) -> Engine {
    Engine {
        direct: draft.direct,
        o_sync: draft.sync,
        o_dsync: draft.dsync,
        ..Engine::new(kind, draft.backlog)
    }
}

/// The law of the shared files in the terms of a job's own access, for all that only looks at that.
fn access(draft: &Draft, shared: &SharedFiles) -> Access {
    let mode = shared.mode;
    let ratio = shared.read_write_ratio;
    let law = match mode.random() {
        true => distribution(draft),
        false => iodyno_model::Distribution::Uniform,
    };
    Access {
        reads: mode.reads(),
        writes: mode.writes(),
        trims: false,
        order: match mode.random() {
            true => Order::Random,
            false => Order::Sequential,
        },
        read_percent: match (mode.reads(), mode.writes()) {
            (true, true) => (100.0 * ratio / (1.0 + ratio)).round() as u32,
            (true, false) => 100,
            _ => 0,
        },
        block_sizes: PerDirection::all(BlockSizes::Fixed(shared.block.max(shared.merged))),
        block_align: PerDirection::all(shared.block),
        distribution: PerDirection::all(law),
        percent_random: PerDirection::all(if mode.random() { 100 } else { 0 }),
        random_map: false,
        repeatable: false,
        seed: (draft.seed > 0).then_some(draft.seed),
        ..Access::default()
    }
}

/// The usual ones and the one asked for, in order.
fn percentiles(asked: f64) -> Vec<f64> {
    let mut all = PERCENTILES.to_vec();
    if asked > 0.0 && !all.contains(&asked) {
        all.push(asked);
    }
    all.sort_by(f64::total_cmp);
    all
}
