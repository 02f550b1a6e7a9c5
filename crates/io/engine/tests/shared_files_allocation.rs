//! Streams over shared files allocate nothing, with any number of clones, as counted by the allocator.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use iodyno_engine::{
    ClonePart, CloneShared, CloneSpec, JobFile, SharedFilesPart, SharedFilesState, run,
};
use iodyno_model::{Direction, Engine, EngineKind, SharedMode, StopRequest};
use iodyno_sys::counting::{CountingAllocator, count_this_thread, counted_allocations};

#[path = "../src/testing.rs"]
mod testing;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const FILES: u32 = 16;
const FILE_SIZE: u64 = 64 << 10;

#[test]
fn many_requests_of_two_clones_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [EngineKind::Psync, EngineKind::Libaio, EngineKind::IoUring] {
        for validate in [false, true] {
            let mut rule = testing::shared_rule(SharedMode::RandomMix, FILE_SIZE, 4096);
            (rule.fsync_every, rule.validate) = (10_000, validate);
            rule.engine = Engine::new(kind, 8);
            let mut job = testing::shared_job(&rule, FILES);
            job.clones = 2;
            job.errors.continue_verify = true;
            let lengths = [FILE_SIZE; FILES as usize];
            let state = Arc::new(SharedFilesState::new(&job, &rule, &lengths, 1));
            let job = Arc::new(job);
            let open = |number| {
                let mut options = std::fs::OpenOptions::new();
                options.read(true).write(true).create(true).truncate(false);
                let path = folder.path().join(format!("test_file.{number}"));
                let file = options.open(path).unwrap();
                file.set_len(FILE_SIZE).unwrap();
                JobFile {
                    descriptor: Some(file.into()),
                    name: "f".to_owned(),
                    base: 0,
                    length: FILE_SIZE,
                    device: false,
                }
            };
            let spec = |clone| CloneSpec {
                job: Arc::clone(&job),
                job_index: 0,
                clone,
                files: (0..FILES).map(open).collect(),
                seed: clone.into(),
                simulated: None,
                output: Default::default(),
                byte_budget: 0,
                log: None,
                flow: None,
                part: ClonePart::SharedFiles(SharedFilesPart::new(&state)),
            };
            let clones: Vec<_> = (0..2)
                .map(|number| (spec(number), CloneShared::of(&job)))
                .collect();
            std::thread::scope(|scope| {
                let mut shared = Vec::new();
                for (spec, clone) in clones {
                    let clone = Arc::new(clone);
                    shared.push(Arc::clone(&clone));
                    scope.spawn(move || {
                        count_this_thread();
                        run(spec, &clone).unwrap()
                    });
                }
                // Allocations of one clone's preparation must not be counted while the other is already working.
                assert!(shared.iter().all(|clone| clone.gate.arrived()));
                shared.iter().for_each(|clone| clone.gate.release(0));
                let written = || -> Vec<u64> {
                    let each = shared
                        .iter()
                        .map(|clone| clone.measure.of(Direction::Write));
                    each.map(|counters| counters.bytes.load(Ordering::Relaxed) / 4096)
                        .collect()
                };
                // All blocks have been written and read, and the first error, if any, has been reported.
                let over = || shared.iter().any(|clone| clone.measure_end() != 0);
                while written().into_iter().any(|blocks| blocks < 2500) && !over() {
                    std::thread::yield_now();
                }
                let sum = || written().into_iter().sum::<u64>();
                let (before, start) = (counted_allocations(), sum());
                while sum() - start < 30_000 && !over() {
                    std::thread::yield_now();
                }
                let (during, over) = (counted_allocations() - before, over());
                shared
                    .iter()
                    .for_each(|clone| clone.request_stop(StopRequest::Finish));
                assert!(!over, "{kind:?} {validate}: a clone ended by itself");
                assert!(before > 0, "allocations before the loop are counted");
                assert_eq!(during, 0, "{kind:?} {validate} allocated {during} times");
            });
        }
    }
}
