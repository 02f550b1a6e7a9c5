//! Frames of several nodes as frames of all nodes together.
#![allow(missing_docs)]

use std::borrow::Cow;

use iodyno_model::{Direction, DirectionFrame, Frame, Histogram, JobFrame, Step};

fn frame(node: &str, number: u32, (start_ms, end_ms): (u64, u64), step: Step, ops: u64) -> Frame {
    let share = DirectionFrame {
        direction: Direction::Read,
        ops,
        bytes: ops * 4096,
        errors: 1,
        service: Histogram::default(),
        response: None,
    };
    Frame {
        number,
        node: node.to_owned(),
        start_ns: start_ms * 1_000_000,
        end_ns: end_ms * 1_000_000,
        step,
        cpu_ns: 7,
        jobs: vec![JobFrame {
            job: 0,
            running: 1,
            directions: vec![share],
        }],
    }
}

#[test]
fn frames_of_the_same_second_and_step_are_added_up() {
    let frames = [
        frame("a", 0, (0, 400), Step::Ramp, 1),
        frame("b", 1, (0, 401), Step::Ramp, 2),
        // The first second of `b` arrives after the second one of `a`.
        frame("a", 2, (400, 1000), Step::Measure, 10),
        frame("a", 3, (1000, 2001), Step::Measure, 40),
        frame("b", 4, (401, 1002), Step::Measure, 20),
        frame("c", 5, (1002, 2000), Step::Measure, 5),
    ];
    let merged = Frame::of_all_nodes(&frames);
    let ms = |ns: u64| ns / 1_000_000;
    let shown: Vec<(u32, u64, u64, u64)> = merged
        .iter()
        .map(|all| {
            let ops = all.ops(Direction::Read);
            (all.number, ms(all.start_ns), ms(all.end_ns), ops)
        })
        .collect();
    assert_eq!(
        shown,
        [(0, 0, 401, 3), (1, 400, 1002, 30), (2, 1000, 2001, 45)]
    );
    assert!(
        merged
            .iter()
            .all(|frame| frame.node.is_empty() && frame.jobs.len() == 1)
    );
    assert_eq!((merged[0].cpu_ns, merged[0].jobs[0].running), (14, 2));
    assert_eq!(merged[1].of(Direction::Read).next().unwrap().errors, 2);
}

#[test]
fn frames_of_one_node_stay_as_they_are() {
    let frames = [
        frame("", 0, (0, 400), Step::Measure, 1),
        frame("", 1, (400, 900), Step::Measure, 2),
    ];
    assert!(matches!(Frame::of_all_nodes(&frames), Cow::Borrowed(same) if same == frames));
}
