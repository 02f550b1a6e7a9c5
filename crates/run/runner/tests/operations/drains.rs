//! Steps after the measured time are not part of its frames.

use iodyno_model::{Direction, Frame, Job, Step};

use crate::stage::watched;
use crate::workloads::{creates, deletes, has, ops, plan};

crate::tests![
    frames_of_a_share_of_work_end_before_its_drain,
    frames_of_a_time_end_before_its_drain,
];

fn frames_of_a_share_of_work_end_before_its_drain() {
    let mut deleting = deletes(3000, 4096);
    deleting.clones = 2;
    check(deleting);
}

fn frames_of_a_time_end_before_its_drain() {
    check(creates(None, 1300));
}

fn check(mut job: Job) {
    job.work.file_operations_mut().unwrap().drain = true;
    let folder = tempfile::tempdir().unwrap();
    let told = watched(&plan(folder.path(), vec![job]), |_, _| {});
    let part = told.completed();
    assert!(has(part, Step::Drain));
    let frames = &told.frames;
    assert_eq!(frames[0].start_ns, 0);
    for pair in frames.windows(2) {
        assert_eq!(pair[0].end_ns, pair[1].start_ns);
    }
    let framed: u64 = frames.iter().map(|frame| frame.ops(Direction::Op)).sum();
    assert_eq!(framed, ops(part, Direction::Op));
    let drains = |frame: &&Frame| frame.step == Step::Drain;
    assert!(
        frames
            .iter()
            .filter(drains)
            .all(|frame| frame.jobs.iter().all(|job| job.directions.is_empty()))
    );
    // Exact to the nanosecond: the end of the clone that was measured longest.
    let ends = part
        .clones
        .iter()
        .map(|clone| clone.start_ns + clone.runtime_ns);
    let measured = frames.iter().filter(|frame| frame.step == Step::Measure);
    let last = measured.map(|frame| frame.end_ns).max();
    assert_eq!(last, ends.max(), "{frames:?}");
    // The drain is reported in separate frames for its whole duration.
    let step = part.steps.iter().find(|step| step.step == Step::Drain);
    let drained = step.unwrap().start_ns as u64 + step.unwrap().span_ns;
    let told_to = frames.last().unwrap().end_ns;
    assert!(told_to + 10_000_000 >= drained, "{told_to} {drained}");
}
