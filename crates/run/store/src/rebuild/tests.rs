//! Parts rebuilt from frames with known content.

use iodyno_model::{Histogram, JobFrame};

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A job's share of a frame: (clones running, reads' latencies, failed reads).
fn share(job: u32, running: u32, latencies: &[u64], errors: u64) -> JobFrame {
    let done = DirectionFrame {
        direction: Direction::Read,
        ops: latencies.len() as u64,
        bytes: latencies.len() as u64 * 4096,
        errors,
        service: latencies.iter().copied().collect(),
        response: None,
    };
    JobFrame {
        job,
        running,
        directions: match latencies.is_empty() && errors == 0 {
            true => Vec::new(),
            false => vec![done],
        },
    }
}

fn frame(number: u32, step: Step, jobs: Vec<JobFrame>) -> Frame {
    Frame {
        node: String::new(),
        number,
        start_ns: u64::from(number) * SECOND,
        end_ns: u64::from(number + 1) * SECOND,
        step,
        cpu_ns: 10,
        jobs,
    }
}

fn measured(number: u32, jobs: Vec<JobFrame>) -> Frame {
    frame(number, Step::Measure, jobs)
}

/// A workload without jobs: names and engines are then unknown, but results are rebuilt.
fn workload() -> Workload {
    Workload::new("w", Vec::new(), Vec::new())
}

fn part(frames: &[Frame]) -> Part {
    rebuild(frames, Environment::default(), &workload())
}

fn reads(part: &Part, job: usize) -> &DirectionResult {
    part.clones[job].direction(Direction::Read).unwrap()
}

#[test]
fn counts_bytes_and_distributions_add_up() {
    let part = part(&[
        measured(0, vec![share(0, 2, &[5, 7], 0)]),
        measured(1, vec![share(0, 2, &[7, 9000, 11], 0)]),
    ]);
    let clone = &part.clones[0];
    assert_eq!(
        (clone.job, clone.clone, clone.ended),
        (0, 0, EndedBy::Interruption)
    );
    assert_eq!((clone.start_ns, clone.runtime_ns), (0, 2 * SECOND));
    let reads = reads(&part, 0);
    assert_eq!(
        (reads.ops, reads.bytes, reads.runtime_ns),
        (5, 5 * 4096, 2 * SECOND)
    );
    let all: Histogram = [5, 7, 7, 9000, 11].into_iter().collect();
    assert_eq!(reads.service, all);
    assert_eq!(reads.response, None);
}

#[test]
fn the_ramp_does_not_count_and_its_length_is_known() {
    let part = part(&[
        frame(0, Step::Ramp, vec![share(0, 1, &[1; 50], 3)]),
        frame(1, Step::Ramp, vec![share(0, 1, &[1; 50], 0)]),
        measured(2, vec![share(0, 1, &[2; 10], 0)]),
        frame(3, Step::Drain, vec![share(0, 0, &[3; 4], 0)]),
    ]);
    let reads = reads(&part, 0);
    assert_eq!((reads.ops, reads.service.min_ns()), (14, 2));
    assert!(part.clones[0].errors.is_empty());
    assert_eq!(
        (part.clones[0].start_ns, part.clones[0].runtime_ns),
        (2 * SECOND, 2 * SECOND)
    );
    let steps: Vec<_> = part
        .steps
        .iter()
        .map(|step| (step.step, step.start_ns, step.span_ns))
        .collect();
    let second = SECOND as i64;
    assert_eq!(
        steps,
        [
            (Step::Ramp, 0, 2 * SECOND),
            (Step::Measure, 2 * second, SECOND),
            (Step::Drain, 3 * second, SECOND)
        ]
    );
    assert_eq!(
        (part.host.span_ns, part.host.harness_user_ns),
        (2 * SECOND, 20)
    );
}

#[test]
fn rates_are_sampled_by_frame_and_a_stall_is_a_sample_of_zero() {
    let part = part(&[
        measured(0, vec![share(0, 1, &[9; 30], 0)]),
        measured(1, vec![share(0, 1, &[], 0)]),
        measured(2, vec![]),
        measured(3, vec![share(0, 1, &[9; 10], 0)]),
    ]);
    let iops = reads(&part, 0).iops;
    assert_eq!(
        (iops.samples, iops.min, iops.max, iops.mean),
        (4, 0.0, 30.0, 10.0)
    );
    assert!((iops.stddev - 200f64.sqrt()).abs() < 1e-9, "{iops:?}");
    assert_eq!(reads(&part, 0).bandwidth.max, 30.0 * 4096.0);
}

#[test]
fn a_disk_that_hung_until_the_kill_counts_until_the_last_frame() {
    let part = part(&[
        measured(0, vec![share(0, 1, &[9; 30], 0)]),
        measured(1, vec![share(0, 1, &[], 0)]),
        measured(2, vec![]),
    ]);
    assert_eq!(part.clones[0].runtime_ns, 3 * SECOND);
    assert_eq!(reads(&part, 0).iops.mean, 10.0);
}

#[test]
fn each_job_has_its_own_time() {
    let part = part(&[
        measured(0, vec![share(0, 1, &[9; 3], 0)]),
        measured(1, vec![share(0, 0, &[9; 3], 0)]),
        measured(2, vec![share(0, 0, &[], 0), share(2, 1, &[9], 0)]),
        measured(3, vec![share(2, 1, &[9], 0)]),
    ]);
    let times: Vec<_> = part
        .clones
        .iter()
        .map(|clone| (clone.job, clone.start_ns, clone.runtime_ns, clone.ended))
        .collect();
    assert_eq!(
        times,
        [
            (0, 0, 2 * SECOND, EndedBy::Interruption),
            (1, 0, 0, EndedBy::NotStarted),
            (2, 2 * SECOND, 2 * SECOND, EndedBy::Interruption)
        ]
    );
    assert!(
        part.notes
            .iter()
            .any(|note| note.contains("job 0 `?` had ended before")),
        "{:?}",
        part.notes
    );
    assert_eq!(reads(&part, 0).iops.samples, 2);
}

#[test]
fn failed_ops_are_counted_without_their_errno() {
    let part = part(&[
        measured(0, vec![share(0, 1, &[9], 2)]),
        measured(1, vec![share(0, 1, &[], 3)]),
    ]);
    let errors = &part.clones[0].errors;
    assert_eq!((errors.len(), errors[0].count, errors[0].errno), (1, 5, 0));
    assert_eq!(reads(&part, 0).ops, 1);
    assert!(
        part.notes.iter().any(|note| note.contains("5 ops failed")),
        "{:?}",
        part.notes
    );
}

#[test]
fn response_latencies_are_added_if_there_are_any() {
    let mut first = share(0, 1, &[5], 0);
    first.directions[0].response = Some([50].into_iter().collect());
    let mut second = share(0, 1, &[6], 0);
    second.directions[0].response = Some([60].into_iter().collect());
    let part = part(&[measured(0, vec![first]), measured(1, vec![second])]);
    assert_eq!(
        reads(&part, 0).response,
        Some([50, 60].into_iter().collect())
    );
}

#[test]
fn missing_frames_are_reported() {
    let whole = part(&[measured(0, vec![]), measured(1, vec![])]);
    assert_eq!(whole.notes.len(), 1, "{:?}", whole.notes);
    let holes = part(&[measured(1, vec![]), measured(4, vec![])]);
    assert!(holes.notes[1].contains("3 frames"), "{:?}", holes.notes);
}

#[test]
fn no_frames_give_an_empty_part() {
    let part = part(&[]);
    assert!(part.clones.is_empty() && part.steps.is_empty());
    assert_eq!(part.host.span_ns, 0);
}

/// A frame with this number of cycles of a job of file operations, each of one step.
fn cycles(count: usize) -> JobFrame {
    let did = |direction| DirectionFrame {
        direction,
        ops: count as u64,
        bytes: 0,
        errors: 0,
        service: vec![250_000; count].into_iter().collect(),
        response: None,
    };
    JobFrame {
        job: 0,
        running: 1,
        directions: match count {
            0 => Vec::new(),
            _ => vec![did(Direction::Unlink), did(Direction::Op)],
        },
    }
}

#[test]
fn cycles_and_steps_are_rebuilt_and_the_wait_for_the_file_system_does_not_count() {
    let part = part(&[
        measured(0, vec![cycles(4)]),
        measured(1, vec![cycles(6)]),
        frame(2, Step::Drain, vec![cycles(0)]),
        frame(3, Step::Drain, vec![cycles(0)]),
    ]);
    let clone = &part.clones[0];
    let kinds: Vec<Direction> = clone.directions.iter().map(|did| did.direction).collect();
    assert_eq!(kinds, [Direction::Op, Direction::Unlink], "in table order");
    for result in &clone.directions {
        assert_eq!((result.ops, result.runtime_ns), (10, 2 * SECOND));
        assert_eq!((result.iops.samples, result.iops.mean), (2, 5.0));
    }
    assert_eq!(
        clone.runtime_ns,
        2 * SECOND,
        "cycles a second of the cycles' own time"
    );
    assert_eq!(part.host.span_ns, 2 * SECOND);
    let drain = part.steps.iter().find(|step| step.step == Step::Drain);
    assert_eq!(drain.map(|step| step.span_ns), Some(2 * SECOND));
}

#[test]
fn a_node_that_is_only_sampled_has_no_clones() {
    let mut rebuilder = PartsRebuilder::default();
    let workload = Workload::new("w", Vec::new(), vec![Job::default()]);
    let mut working = measured(0, vec![share(0, 1, &[5], 0)]);
    working.node = "guest".to_owned();
    rebuilder.add(&working);
    let known = Some(Environment::default());
    let environments = ["guest", "host"].map(|name| (name.to_owned(), known.clone()));
    let parts = rebuilder.parts(environments.to_vec(), &workload);
    assert_eq!(parts[0].clones.len(), 1);
    assert!(parts[1].only_sampled(), "{:?}", parts[1].clones);
}

#[test]
fn each_node_has_a_part_of_its_own_frames() {
    let mut rebuilder = PartsRebuilder::default();
    // Numbers 2 and 3 are missing.
    for (node, number) in [("a", 0), ("b", 1), ("a", 4)] {
        let mut frame = frame(number, Step::Measure, Vec::new());
        frame.node = node.to_owned();
        rebuilder.add(&frame);
    }
    let environments = ["a", "b", "c"].map(|name| (name.to_owned(), None));
    let parts = rebuilder.parts(environments.to_vec(), &workload());
    let nodes: Vec<&str> = parts.iter().map(|part| part.node.as_str()).collect();
    assert_eq!(nodes, ["a", "b"]);
    assert!(
        parts[0].notes[0].starts_with("rebuilt from 2 frames"),
        "{:?}",
        parts[0].notes
    );
    for part in &parts {
        assert!(
            part.notes.iter().any(|note| note.starts_with("2 frames")),
            "{:?}",
            part.notes
        );
    }
}
