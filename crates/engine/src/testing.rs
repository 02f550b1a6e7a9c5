//! Jobs for tests.

use iodyno_model::{
    Access, After, BlockSizes, Buffers, Distribution, Engine, EngineKind, ErrorPolicy, Extent,
    Files, Job, JobEnd, Logs, Order, Pacing, PerDirection, Placement, Reporting, Sequencer, Span,
    SyncPolicy,
};

/// Random reads of 4 KiB blocks by the simulated engine, all else at its default.
pub(crate) fn random_reads(depth: u32) -> Job {
    Job {
        name: "test".to_owned(),
        description: String::new(),
        place: None,
        clones: 1,
        after: After::Start,
        delay: Span::default(),
        exit_all: false,
        engine: Engine::new(EngineKind::Sim, depth),
        access: Access {
            reads: true,
            writes: false,
            trims: false,
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
        },
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
