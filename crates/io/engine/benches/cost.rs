//! The cost of an op in the loop, without a process, a store or a report: printed by `make bench`.
//!
//! CPU is that of the worker's thread (getrusage), divided by the ops that it recorded. Rounds are interleaved, figures
//! are medians. The direct reads compare ways to submit below full depth: one op per kernel entry, as many as fit, and
//! the default in between.
#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use iodyno_engine::{ClonePart, CloneShared, CloneSpec, JobFile, run};
use iodyno_model::{Direction, Engine, EngineKind};

#[path = "../src/testing.rs"]
mod testing;

const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
const LENGTH: u64 = 256 << 20;

/// A way to read blocks at random.
struct Case {
    name: &'static str,
    kind: EngineKind,
    depth: u32,
    /// Ops per submission; 0: the default.
    batch: u32,
    direct: bool,
    ops: u64,
}

/// The cost of one run of a case, per op.
struct Cost {
    user_ns: f64,
    system_ns: f64,
    turns: f64,
    wall_ns: f64,
}

const fn case(name: &'static str, kind: EngineKind, depth: u32) -> Case {
    let (batch, direct) = (0, false);
    let ops = match kind {
        EngineKind::Null => 10_000_000,
        _ => 1_000_000,
    };
    Case {
        name,
        kind,
        depth,
        batch,
        direct,
        ops,
    }
}

const fn direct(name: &'static str, batch: u32) -> Case {
    Case {
        batch,
        direct: true,
        ops: 100_000,
        ..case(name, EngineKind::IoUring, 32)
    }
}

const CASES: [Case; 7] = [
    case("null, depth 1", EngineKind::Null, 1),
    case("null, depth 32", EngineKind::Null, 32),
    case("io_uring, cached, depth 1", EngineKind::IoUring, 1),
    case("io_uring, cached, depth 32", EngineKind::IoUring, 32),
    direct("io_uring, direct, depth 32", 0),
    direct("  one op per kernel entry", 1),
    direct("  all that there is room for", 32),
];

impl Case {
    fn run(&self, path: &Path) -> Cost {
        let mut job = testing::random_reads(self.depth);
        let blocks = testing::blocks(&mut job);
        blocks.engine = Engine::new(self.kind, self.depth);
        blocks.engine.batch_submit = self.batch;
        blocks.engine.direct = self.direct;
        blocks.passes.time_based = true;
        // Cached reads find their pages.
        blocks.files.invalidate = false;
        job.end.ops = Some(self.ops);
        let mut options = std::fs::OpenOptions::new();
        options.read(true);
        options.custom_flags(if self.direct { O_DIRECT } else { 0 });
        let shared = CloneShared::of(&job);
        let spec = CloneSpec {
            simulated: None,
            output: Default::default(),
            byte_budget: u64::MAX / 2,
            job: Arc::new(job),
            job_index: 0,
            clone: 0,
            files: vec![JobFile {
                descriptor: Some(options.open(path).unwrap().into()),
                name: "data".to_owned(),
                base: 0,
                length: LENGTH,
                device: false,
            }],
            seed: 5,
            log: None,
            flow: None,
            part: ClonePart::default(),
        };
        shared.gate.release(0);
        let worker = || run(spec, &shared).unwrap();
        let outcome = std::thread::scope(|scope| scope.spawn(worker).join().unwrap());
        let done = shared.measure.of(Direction::Read).service.count();
        assert_eq!(done, self.ops, "{outcome:?}");
        let per_op = |total: u64| total as f64 / self.ops as f64;
        Cost {
            user_ns: per_op(outcome.cpu.user_ns),
            system_ns: per_op(outcome.cpu.system_ns),
            turns: per_op(outcome.depth.turns),
            wall_ns: per_op(outcome.measured.1 - outcome.measured.0),
        }
    }
}

fn median(found: &[Cost], figure: impl Fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = found.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds = std::env::var("BENCH_ROUNDS").map_or(5, |text| text.parse().unwrap());
    let only = std::env::var("BENCH_ONLY").unwrap_or_default();
    let folder = std::env::var("BENCH_DIR").map_or_else(|_| std::env::temp_dir(), Into::into);
    let folder = tempfile::tempdir_in(folder).unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; LENGTH as usize]).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    let cases: Vec<&Case> = CASES
        .iter()
        .filter(|case| case.name.contains(&only))
        .collect();
    let mut found: Vec<Vec<Cost>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (case, found) in cases.iter().zip(&mut found) {
            found.push(case.run(&path));
        }
    }
    println!("an op of the loop              user ns    all ns  entries      IOPS");
    for (case, found) in cases.iter().zip(&found) {
        println!(
            "{:<30} {:7.1} {:9.1} {:8.3} {:9.0}",
            case.name,
            median(found, |one| one.user_ns),
            median(found, |one| one.user_ns + one.system_ns),
            median(found, |one| one.turns),
            1e9 / median(found, |one| one.wall_ns),
        );
    }
}
