//! Jobs for tests.
#![allow(dead_code, reason = "each test program uses part of it")]

use iodyno_model::{
    Access, Blocks, Distribution, Engine, EngineKind, Job, Order, SharedFiles, SharedMode, Work,
};

/// Random reads of 4 KiB blocks on the simulated engine, with default settings.
pub(crate) fn random_reads(depth: u32) -> Job {
    Job {
        name: "test".to_owned(),
        work: Work::Blocks(Blocks {
            engine: Engine::new(EngineKind::Sim, depth),
            access: Access {
                order: Order::Random,
                ..Access::default()
            },
            ..Blocks::default()
        }),
        ..Job::default()
    }
}

/// The block options of a job on blocks.
pub(crate) fn blocks(job: &mut Job) -> &mut Blocks {
    job.work.blocks_mut().unwrap()
}

/// Access to shared files of this length with psync, without syncs, merging or checks.
pub(crate) fn shared_rule(mode: SharedMode, file_size: u64, block: u64) -> SharedFiles {
    SharedFiles {
        lay_out: false,
        create_only: false,
        engine: Engine::new(EngineKind::Psync, 1),
        count: 1,
        distribution: Distribution::Uniform,
        seed: None,
        mode,
        file_size,
        block,
        merged: 0,
        read_write_ratio: 1.5,
        fsync_every: 0,
        fsync_all: false,
        fsync_end: false,
        data_only: false,
        validate: false,
    }
}

/// A job of one clone with this access to this number of files.
pub(crate) fn shared_job(rule: &SharedFiles, files: u32) -> Job {
    Job {
        name: "fileio".to_owned(),
        work: Work::SharedFiles(SharedFiles {
            count: files,
            ..rule.clone()
        }),
        ..Job::default()
    }
}
