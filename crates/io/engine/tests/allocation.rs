//! The hot loop allocates nothing, as counted by the allocator.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use iodyno_engine::{ClonePart, CloneShared, CloneSpec, JobFile, Simulated, run};
use iodyno_model::{Direction, EndedBy, EngineKind, StopRequest};
use iodyno_sys::counting::{CountingAllocator, count_this_thread, counted_allocations};

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
        testing::blocks(&mut job).engine = iodyno_model::Engine::new(kind, 32);
        testing::blocks(&mut job).access.writes = true;
        testing::blocks(&mut job).sync.fdatasync_every =
            if kind == EngineKind::Null { 100 } else { 0 };
        testing::blocks(&mut job).passes.time_based = true;
        let shared = CloneShared::new(
            &Direction::ALL,
            false,
            testing::blocks(&mut job).engine.submits_apart(),
        );
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let spec = CloneSpec {
            simulated: Some(Simulated {
                seed: 7,
                device: None,
                clock: None,
            }),
            output: Default::default(),
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
            part: ClonePart::default(),
        };
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                count_this_thread();
                run(spec, &shared).unwrap()
            });
            shared.gate.arrived();
            shared.gate.release(0);
            let read = shared.measure.of(Direction::Read);
            let bytes = || read.bytes.load(Ordering::Relaxed);
            let wait_for = |count| {
                while bytes() < count && shared.measure_end() == 0 {
                    std::thread::yield_now();
                }
            };
            wait_for(1 << 20);
            let (before, start) = (counted_allocations(), bytes());
            wait_for(start + 250_000 * 4096);
            let during = counted_allocations() - before;
            shared.request_stop(StopRequest::Finish);
            let outcome = worker.join().unwrap();
            assert_eq!(outcome.ended, EndedBy::Interruption, "{outcome:?}");
            assert!(before > 0, "allocations before the loop are counted");
            assert_eq!(during, 0, "{kind:?} allocated {during} times");
        });
    }
}
