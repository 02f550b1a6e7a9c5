//! Jobs for tests.

use iodyno_model::{Access, Engine, EngineKind, Job, Order};

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
