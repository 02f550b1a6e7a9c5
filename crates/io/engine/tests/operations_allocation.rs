//! The loop of file operations allocates nothing, as counted by the allocator.

mod operations_support;

use std::time::Duration;

use iodyno_engine::CloneShared;
use iodyno_model::{Action, Direction, PickOrder, StopRequest};
use iodyno_sys::counting::{CountingAllocator, counted_allocations};
use operations_support::{Bench, current, of, operations, set};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn ten_thousand_steps_of_every_kind_allocate_nothing() {
    let random = || of("files", PickOrder::Random);
    let cycle = [
        Action::Create,
        Action::Write { bytes: 9000 },
        Action::Fallocate { bytes: 4096 },
        Action::Truncate { length: 100 },
        Action::Close,
        Action::Open { of: current() },
        Action::Write { bytes: 10 },
        Action::Close,
        Action::Rename { of: current() },
        Action::Stat { of: current() },
        Action::Unlink { of: current() },
        Action::Rename { of: random() },
        Action::Stat { of: random() },
        Action::Open { of: random() },
        Action::Close,
        Action::Mkdir,
        Action::Mkdir,
        Action::Rmdir,
        Action::Rmdir,
        Action::Readdir,
        Action::Statfs,
        Action::SyncFolder,
        Action::Append {
            bytes: 1000,
            new_file_at: 10_000,
            keep: Some(3),
        },
        Action::Sync,
    ];
    let memory = std::path::Path::new("/dev/shm");
    let root = match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    };
    let mut bench = Bench::within(
        root.path(),
        operations(vec![set("files", 50, 0)], &cycle),
        1,
    );
    bench.job.pacing.ops_per_s = 1e6;
    let (before, during) = bench.play_with(|shared| {
        let ops = |shared: &CloneShared| shared.measure.of(Direction::Op).service.count();
        let wait_for = |count| {
            while ops(&shared[0]) < count && shared[0].measure_end() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for(20);
        let before = counted_allocations();
        wait_for(440);
        let during = counted_allocations() - before;
        shared[0].request_stop(StopRequest::Finish);
        (before, during)
    });
    assert!(bench.ops(Direction::Op) >= 440, "{:?}", bench.outcome(0));
    assert!(before > 0, "allocations before the loop are counted");
    assert_eq!(during, 0, "allocated {during} times");
}
