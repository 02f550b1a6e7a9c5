use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use super::*;
use crate::{QueueSettings, Transfer};

const GEOMETRY: Geometry = Geometry {
    length: 10 << 20,
    region: 1 << 20,
    unit: 512,
};

#[test]
fn a_queue_reads_whole_units_of_equal_regions_from_legs_in_sync() {
    let published = Published::new(GEOMETRY);
    assert_eq!(published.readable(0, 512), LegSet::NONE, "before the start");
    let both = legs(&[0, 2]);
    published.publish(both, false, [(3, true), (9, true)].into_iter());
    for (offset, length, expected) in [
        (0, 512, both),
        (2 << 20, 1 << 20, both),
        (2 << 20, (1 << 20) + 512, LegSet::NONE),
        (3 << 20, 512, LegSet::NONE),
        ((4 << 20) - 512, 1024, LegSet::NONE),
        (4 << 20, 5 << 20, both),
        (9 << 20, 1 << 20, LegSet::NONE),
        (0, 0, LegSet::NONE),
        (1, 512, LegSet::NONE),
        (0, 513, LegSet::NONE),
        (10 << 20, 512, LegSet::NONE),
        (u64::MAX - 511, 512, LegSet::NONE),
    ] {
        assert_eq!(
            published.readable(offset, length),
            expected,
            "{offset} {length}"
        );
    }
    published.publish(legs(&[2]), false, [(3, false)].into_iter());
    assert_eq!(published.readable(3 << 20, 512), legs(&[2]));
    assert_eq!(published.readable(9 << 20, 512), LegSet::NONE);
    published.publish(legs(&[2]), true, [].into_iter());
    assert_eq!(published.readable(3 << 20, 512), LegSet::NONE);
    assert_eq!(published.in_sync(), legs(&[2]));
}

/// The state machine drops leg 1, the only leg that lacked a copy of a region, and re-adds it after it was copied.
#[test]
fn a_region_that_is_unmarked_was_copied_to_all_legs_that_are_returned() {
    const ROUNDS: usize = 20_000;
    let published = Published::new(GEOMETRY);
    published.publish(legs(&[0, 1]), false, [].into_iter());
    // How often leg 1 became different from leg 0 or equal to it. It is equal while this is even.
    let changes = AtomicUsize::new(0);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                published.publish(legs(&[0, 1]), false, [(0, true)].into_iter());
                changes.fetch_add(1, Ordering::AcqRel);
                published.publish(legs(&[0]), false, [(0, false)].into_iter());
                changes.fetch_add(1, Ordering::AcqRel);
                published.publish(legs(&[0, 1]), false, [].into_iter());
            }
            ended.store(true, Ordering::Release);
        });
        let (mut seen, mut last) = (0, false);
        while !last {
            last = ended.load(Ordering::Acquire);
            // A read from leg 1 is correct if the legs were equal at any moment between the choice and now.
            let before = changes.load(Ordering::Acquire);
            let chosen = published.readable(0, 512).has(1);
            seen += usize::from(chosen);
            let after = changes.load(Ordering::Acquire);
            assert!(!chosen || before.is_multiple_of(2) || before != after);
        }
        assert!(seen > 0);
    });
}

#[test]
fn places_are_passed_on_to_waiting_queues_in_turn() {
    let board = Board::new(3, 2);
    assert!(board.take(0, 5) && board.take(0, 5));
    assert!(!board.take(0, 5) && !board.take(1, 5) && !board.take(2, 5) && !board.take(1, 5));
    // Another leg has its own places.
    assert!(board.take(1, 4));
    assert_eq!(board.give_back(0, 5), Some(1));
    assert!(!board.take(0, 5), "it is not free");
    assert!(board.take(1, 5));
    assert_eq!(board.give_back(1, 5), Some(2));
    assert_eq!(board.give_back(0, 5), Some(0));
    // A queue that no longer needs it passes it on.
    assert!(!board.take(1, 5));
    assert!(board.take_granted(2, 5) && !board.take_granted(2, 5));
    assert_eq!(board.give_back(2, 5), Some(1));
    assert!(board.take(1, 5) && board.take(0, 5));
    assert_eq!((board.give_back(0, 5), board.give_back(1, 5)), (None, None));
    assert!(board.take(2, 5) && board.take(2, 5) && !board.take(2, 5));
}

#[test]
fn places_of_a_queue_that_leaves_go_to_others() {
    let board = Board::new(3, 1);
    assert!(board.take(0, 0) && !board.take(1, 0) && !board.take(2, 0));
    assert_eq!(board.give_back(0, 0), Some(1));
    let mut woken = Vec::new();
    board.leave(1, |queue| woken.push(queue));
    assert_eq!(woken, [2]);
    assert!(board.take(2, 0));
    assert!(!board.take(1, 0));
    board.leave(1, |queue| woken.push(queue));
    assert_eq!(board.give_back(2, 0), None);
    assert_eq!(woken, [2]);
}

/// Each queue waits for a place like a thread that sleeps until it is woken: a lost wake-up hangs the test.
#[test]
fn no_wake_up_is_lost_and_no_more_places_are_used_than_there_are() {
    const QUEUES: usize = 4;
    const PLACES: u32 = 2;
    const COMMANDS: usize = 5_000;
    let board = Board::new(QUEUES, PLACES);
    let used = AtomicU32::new(0);
    let wakes: Vec<_> = (0..QUEUES).map(|_| std::sync::mpsc::channel()).collect();
    let (senders, receivers): (Vec<_>, Vec<_>) = wakes.into_iter().unzip();
    thread::scope(|scope| {
        for (queue, woken) in receivers.into_iter().enumerate() {
            let (board, used, senders) = (&board, &used, senders.clone());
            scope.spawn(move || {
                let wake = |queue: usize| senders[queue].send(()).unwrap();
                for _ in 0..COMMANDS {
                    while !board.take(queue, 0) {
                        woken.recv().unwrap();
                    }
                    assert!(used.fetch_add(1, Ordering::SeqCst) < PLACES);
                    thread::yield_now();
                    used.fetch_sub(1, Ordering::SeqCst);
                    board.give_back(queue, 0).into_iter().for_each(wake);
                    // A place granted too late.
                    while board.take_granted(queue, 0) {
                        board.give_back(queue, 0).into_iter().for_each(wake);
                    }
                }
                board.leave(queue, wake);
            });
        }
    });
    for _ in 0..PLACES {
        assert!(board.take(0, 0));
    }
    assert!(!board.take(0, 0));
}

#[test]
fn a_policy_sees_the_sum_of_all_queues() {
    let board = Board::new(2, 10);
    let settings = QueueSettings::default();
    let mut queues = [0, 1].map(|_| LegQueue::sharing(settings, 8, board.marks(3)));
    queues[0].push(0, Transfer::Read, 0, 4096, 0);
    queues[1].push(0, Transfer::Read, 8192, 4096, 0);
    queues[1].push(1, Transfer::Read, 1 << 20, 512, 0);
    assert!(queues[1].issue(0).is_some());
    for (number, queue) in queues.iter().enumerate() {
        board.counted(number, 3, queue);
    }
    let view = board.view(3, true, false);
    assert_eq!((view.queued, view.queued_bytes), (2, 4096 + 512));
    assert_eq!(
        (view.pending, view.pending_bytes, view.commands),
        (1, 4096, 1)
    );
    assert_eq!((view.last_offset, view.last_end), (8192, 12288));
    assert_eq!(board.commands_of_others(3), 1);
    // The other queue continues where the leg is.
    queues[0].push(1, Transfer::Read, 12288, 4096, 0);
    assert_eq!(queues[0].issue(0).map(|command| command.first), Some(1));
    assert_eq!(queues[0].withdraw(), Some(0));
    assert!(!queues[0].waits() && queues[0].withdraw().is_none());
    let view = queues[0].view(true, true);
    assert_eq!((view.queued, view.queued_bytes), (0, 0));
}
