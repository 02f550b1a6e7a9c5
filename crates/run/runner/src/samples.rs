//! Jobs and plans for tests.

use std::path::PathBuf;

use iodyno_model::{
    Access, Blocks, BoundPlan, Configuration, Direction, Job, Order, RunId, SCHEMA, Sampling,
    Target, TrialKey, Work, Workload,
};

/// A job of 4 KiB random reads with defaults for everything else.
pub(crate) fn job(name: &str) -> Job {
    Job {
        name: name.to_owned(),
        work: Work::Blocks(Blocks {
            access: access(&[Direction::Read]),
            ..Blocks::default()
        }),
        ..Job::default()
    }
}

/// Random access of these directions in blocks of 4 KiB.
pub(crate) fn access(directions: &[Direction]) -> Access {
    Access {
        reads: directions.contains(&Direction::Read),
        writes: directions.contains(&Direction::Write),
        trims: directions.contains(&Direction::Trim),
        order: Order::Random,
        ..Access::default()
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
        configuration: Configuration::new(
            "here",
            Target::AsWritten {
                folder: folder.into(),
            },
        ),
        workload: Workload::new("test", Vec::new(), jobs),
        seed: 7,
        destroy: Vec::new(),
        protected: Vec::new(),
        frame_ns: 1_000_000_000,
        sampling: Sampling::default(),
        stuck_after_ns: iodyno_model::Plan::STUCK_AFTER_NS,
        background: false,
        node: 0,
        shared: None,
    }
}
