//! Jobs and plans for tests.

use std::path::PathBuf;

use iodyno_model::{
    Access, After, BlockSizes, BoundPlan, Buffers, Configuration, Direction, Distribution, Engine,
    EngineKind, ErrorPolicy, Extent, Files, Job, JobEnd, Logs, Order, Pacing, PerDirection,
    Placement, Reporting, RunId, SCHEMA, Sequencer, Span, SyncPolicy, Target, TrialKey, Workload,
};

/// A job of 4 KiB random reads with everything else at its default.
pub(crate) fn job(name: &str) -> Job {
    Job {
        name: name.to_owned(),
        description: String::new(),
        place: None,
        clones: 1,
        after: After::Start,
        delay: Span::default(),
        exit_all: false,
        engine: Engine::new(EngineKind::Psync, 1),
        access: access(&[Direction::Read]),
        files: Files::default(),
        extent: Extent::default(),
        end: JobEnd::default(),
        pacing: Pacing::default(),
        sync: SyncPolicy::default(),
        buffers: Buffers::default(),
        verify: None,
        errors: ErrorPolicy::default(),
        logs: Logs::default(),
        placement: Placement::default(),
        reporting: Reporting::default(),
        options: Default::default(),
    }
}

/// Random access of these directions in blocks of 4 KiB.
pub(crate) fn access(directions: &[Direction]) -> Access {
    Access {
        reads: directions.contains(&Direction::Read),
        writes: directions.contains(&Direction::Write),
        trims: directions.contains(&Direction::Trim),
        order: Order::Random,
        read_percent: 50,
        block_sizes: PerDirection::all(BlockSizes::Fixed(4096)),
        block_align: PerDirection::all(0),
        distribution: PerDirection::all(Distribution::Uniform),
        percent_random: PerDirection::all(100),
        random_map: true,
        sequence: None,
        sequencer: Sequencer::Sequential,
        repeatable: true,
        seed: None,
    }
}

/// One trial of these jobs, as written from `folder`.
pub(crate) fn plan(folder: impl Into<PathBuf>, jobs: Vec<Job>) -> BoundPlan {
    BoundPlan {
        schema: SCHEMA,
        key: TrialKey {
            run: RunId(uuid::Uuid::from_u128(1)),
            round: 0,
            cell: 0,
            attempt: 0,
        },
        configuration: Configuration {
            name: "here".to_owned(),
            target: Target::AsWritten {
                folder: folder.into(),
            },
        },
        workload: Workload {
            name: "test".to_owned(),
            sources: Vec::new(),
            jobs,
        },
        seed: 7,
        destroy: Vec::new(),
        frame_ns: 1_000_000_000,
    }
}
