//! Jobs for tests.
#![allow(dead_code, reason = "each test program takes what it needs of it")]

use iodyno_model::{Access, Engine, EngineKind, Job, Order, SharedFiles, SharedMode};

/// Random reads of 4 KiB blocks by the simulated engine, all else at its default.
pub(crate) fn random_reads(depth: u32) -> Job {
    Job {
        name: "test".to_owned(),
        engine: Engine::new(EngineKind::Sim, depth),
        access: Access {
            order: Order::Random,
            ..Access::default()
        },
        ..Job::default()
    }
}

/// What is done to shared files of this length: nothing is synced, merged or checked.
pub(crate) fn shared_rule(mode: SharedMode, file_size: u64, block: u64) -> SharedFiles {
    SharedFiles {
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

/// A job of one clone that does this to so many files.
pub(crate) fn shared_job(rule: &SharedFiles, files: u32) -> Job {
    let mut job = Job {
        name: "fileio".to_owned(),
        shared_files: Some(rule.clone()),
        ..Job::default()
    };
    (job.access.reads, job.access.writes) = (rule.mode.reads(), rule.mode.writes());
    job.access.block_sizes =
        iodyno_model::PerDirection::all(iodyno_model::BlockSizes::Fixed(rule.request()));
    job.files.count = files;
    job.files.format = "test_file.$filenum".to_owned();
    job
}
