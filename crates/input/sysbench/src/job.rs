//! Conversion of a draft to a job of the plan.

use iodyno_model::{
    Arrival, Buffers, Content, Distribution, Engine, EngineKind, Job, JobEnd, Pacing, Reporting,
    SharedFiles, SharedMode, Work,
};
use iodyno_units::Bytes;

use super::distribution::distribution;
use super::draft::{Draft, IoMode};

/// Approximate length of a request of `prepare` by default, bytes.
const PREPARED_AT_ONCE: u64 = 1 << 20;
/// The percentiles shown in addition to the requested one.
const PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 99.9];

/// The job of `run`.
pub(super) fn run(draft: &Draft, mode: SharedMode) -> Job {
    let merged = match mode.random() {
        true => 0,
        false => draft.merged(u64::from(draft.merged_requests)),
    };
    let kind = match draft.io_mode {
        IoMode::Sync => EngineKind::Psync,
        IoMode::Async => EngineKind::Libaio,
        IoMode::Mmap => EngineKind::Mmap,
    };
    let shared = SharedFiles {
        lay_out: false,
        create_only: false,
        engine: engine(draft, kind),
        count: draft.file_num,
        distribution: match mode.random() {
            true => distribution(draft),
            false => Distribution::Uniform,
        },
        seed: (draft.seed > 0).then_some(draft.seed),
        mode,
        file_size: draft.file_size(),
        block: draft.block,
        merged,
        read_write_ratio: draft.ratio,
        fsync_every: if draft.fsync_all { 0 } else { draft.fsync_freq },
        fsync_all: draft.fsync_all,
        // Modes that only read have nothing to sync at the end.
        fsync_end: draft.fsync_end && !draft.fsync_all,
        data_only: draft.data_only,
        validate: draft.validate,
    };
    let scheduled = draft.rate > 0.0;
    Job {
        clones: draft.threads,
        end: JobEnd {
            runtime: (draft.time.0 > 0).then_some(draft.time),
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

/// The job of `prepare`: one thread with requests of about 1 MiB, until all files are complete and synced.
pub(super) fn prepare(draft: &Draft) -> Job {
    let requests = match draft.has("file-merged-requests") {
        true => u64::from(draft.merged_requests),
        false => PREPARED_AT_ONCE / draft.block,
    };
    let shared = SharedFiles {
        lay_out: false,
        create_only: false,
        engine: engine(draft, EngineKind::Psync),
        count: draft.file_num,
        distribution: Distribution::Uniform,
        seed: (draft.seed > 0).then_some(draft.seed),
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
        buffers: Buffers {
            // Later tests read this content many times: all blocks must differ.
            refill: true,
            ..buffers()
        },
        ..job(draft, shared)
    }
}

fn job(draft: &Draft, shared: SharedFiles) -> Job {
    Job {
        name: shared.mode.name().to_owned(),
        buffers: buffers(),
        reporting: Reporting {
            together: true,
            percentiles: percentiles(draft.percentile),
            ..Reporting::default()
        },
        options: draft.written.clone(),
        work: Work::SharedFiles(shared),
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

/// The default percentiles and the requested one, ascending.
fn percentiles(requested: f64) -> Vec<f64> {
    let mut all = PERCENTILES.to_vec();
    if requested > 0.0 && !all.contains(&requested) {
        all.push(requested);
    }
    all.sort_by(f64::total_cmp);
    all
}
