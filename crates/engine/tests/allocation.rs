//! The hot loop allocates nothing: counted by the allocator itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use iodyno_engine::{CloneShared, CloneSpec, JobFile, Stop, run};
use iodyno_model::{Direction, EngineKind};
use iodyno_sys::counting::{CountingAllocator, allocations};

#[path = "../src/testing.rs"]
mod testing;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_million_ops_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    for kind in [
        EngineKind::Null,
        EngineKind::IoUring,
        EngineKind::Psync,
        EngineKind::Libaio,
    ] {
        let mut job = testing::random_reads(32);
        job.engine = iodyno_model::Engine::new(kind, 32);
        job.access.writes = true;
        job.sync.fdatasync_every = if kind == EngineKind::Null { 100 } else { 0 };
        job.end.time_based = true;
        let shared = CloneShared::new(&Direction::ALL, false, kind.submits_apart());
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let spec = CloneSpec {
            byte_budget: 1 << 20,
            job: Arc::new(job),
            job_index: 0,
            clone: 0,
            files: vec![JobFile {
                descriptor: Some(file.into()),
                name: "data".to_owned(),
                base: 0,
                length: 1 << 20,
                device: false,
            }],
            seed: 5,
            log: None,
            flow: None,
            dumps: std::env::temp_dir(),
            operations: None,
            shared_files: None,
        };
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| run(spec, &shared).unwrap());
            shared.gate.arrived();
            shared.gate.release(0);
            let read = shared.measure.of(Direction::Read);
            let bytes = || read.bytes.load(Ordering::Relaxed);
            while bytes() < 1 << 20 {
                std::hint::spin_loop();
            }
            let (calls, start) = (allocations(), bytes());
            while bytes() - start < 250_000 * 4096 {
                std::hint::spin_loop();
            }
            let during = allocations() - calls;
            shared.tell(Stop::Finish);
            worker.join().unwrap();
            assert_eq!(during, 0, "{kind:?} allocated {during} times");
        });
    }
}
