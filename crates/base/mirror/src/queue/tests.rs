use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use Transfer::{Read, Write};

const K: u64 = 1024;

fn queue(active: u32, aggregation: u64) -> LegQueue {
    let settings = QueueSettings {
        active,
        aggregation,
        period_ns: 1000,
    };
    LegQueue::new(settings, 64)
}

/// Pushes reads of 4 KiB at these offsets (in KiB), numbered from 0, at time 0.
fn push(queue: &mut LegQueue, offsets: &[u64]) {
    for (number, offset) in offsets.iter().enumerate() {
        queue.push(number as u32, Read, offset * K, 4 * K, 0);
    }
}

/// (offset in KiB, length in KiB) of all commands that can be issued.
fn issue(queue: &mut LegQueue, now: u64) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| queue.issue(now))
        .map(|command| (command.offset / K, command.length / K))
        .collect()
}

#[test]
fn issues_at_most_as_many_commands_as_allowed() {
    let mut queue = queue(2, 0);
    push(&mut queue, &[80, 0, 40]);
    assert_eq!(issue(&mut queue, 0), [(0, 4), (40, 4)]);
    let view = queue.view(true, true);
    assert_eq!((view.pending, view.queued, view.commands), (2, 1, 2));
    assert!(queue.complete(1, 5).is_some());
    assert_eq!(queue.complete(1, 5), None);
    assert_eq!(issue(&mut queue, 5), [(80, 4)]);
}

#[test]
fn continues_upwards_from_the_last_command_and_starts_again_below() {
    let mut queue = queue(1, 0);
    push(&mut queue, &[50, 10, 90]);
    let mut found = issue(&mut queue, 0);
    queue.push(3, Read, 4 * K, 4 * K, 0);
    for first in [1, 0, 2] {
        queue.complete(first, 1);
        found.extend(issue(&mut queue, 1));
    }
    assert_eq!(found, [(10, 4), (50, 4), (90, 4), (4, 4)]);
}

#[test]
fn requests_of_an_earlier_period_come_first() {
    let mut queue = queue(1, 64 * K);
    push(&mut queue, &[10]);
    issue(&mut queue, 0);
    queue.push(1, Read, 4 * K, 4 * K, 999);
    queue.push(2, Read, 14 * K, 4 * K, 1000);
    queue.push(3, Read, 8 * K, 4 * K, 1000);
    queue.complete(0, 1000);
    let mut found = issue(&mut queue, 1000);
    queue.complete(1, 1001);
    found.extend(issue(&mut queue, 1001));
    assert_eq!(found, [(4, 4), (8, 4)]);
}

#[test]
fn adjacent_requests_of_one_direction_merge_up_to_the_limit() {
    let mut queue = queue(9, 12 * K);
    push(&mut queue, &[8, 0, 4, 12, 16, 40]);
    queue.push(6, Write, 44 * K, 4 * K, 0);
    let command = queue.issue(0).unwrap();
    assert_eq!(
        (command.offset, command.length, command.requests),
        (0, 12 * K, 3)
    );
    let order = [command.first, 2, 0];
    assert_eq!(command.first, 1);
    assert!(
        order
            .windows(2)
            .all(|pair| queue.next_request(pair[0]) == Some(pair[1]))
    );
    assert_eq!(queue.next_request(0), None);
    assert_eq!(issue(&mut queue, 0), [(12, 8), (40, 4), (44, 4)]);
    let expected = Totals {
        requests: 7,
        commands: 4,
        moves: 1,
    };
    assert_eq!(queue.totals(), expected);
}

#[test]
fn requests_before_the_next_one_merge_with_it() {
    let mut queue = queue(1, 16 * K);
    push(&mut queue, &[4]);
    issue(&mut queue, 0);
    queue.push(1, Read, 8 * K, 4 * K, 0);
    queue.push(2, Read, 4 * K, 4 * K, 0);
    queue.push(3, Read, 12 * K, 4 * K, 0);
    queue.complete(0, 1);
    assert_eq!(issue(&mut queue, 1), [(4, 12)]);
}

#[test]
fn moves_count_runs_of_requests() {
    let mut queue = queue(2, 0);
    for (number, offset, moves) in [
        (0, 40, 1),
        (1, 44, 1),
        (2, 60, 2),
        (3, 36, 2),
        (4, 48, 2),
        (5, 56, 2),
    ] {
        queue.push(number, Read, offset * K, 4 * K, 0);
        assert_eq!(queue.view(true, true).moves, moves, "{offset}");
    }
    // Requests that continue an issued one do not add a move.
    assert_eq!(issue(&mut queue, 0), [(36, 4), (40, 4)]);
    queue.complete(3, 1);
    assert_eq!(queue.view(true, true).moves, 1);
}

#[test]
fn costs_of_moves_and_bytes_are_told_apart() {
    let mut queue = queue(1, 0);
    let mut now = 0;
    let mut offset = 0;
    for number in 0..2000u64 {
        // Every third command moves, which costs 8 ms; each byte costs 7 ns.
        let moves = number % 3 == 0;
        offset += if moves { 1 << 30 } else { 0 };
        let length = (4 + number % 5 * 4) * K;
        queue.push(0, Read, offset, length, now);
        queue.issue(now).unwrap();
        now += 8_000_000 * u64::from(moves) + 7 * length;
        queue.complete(0, now);
        offset += length;
        // Idle time is not busy time.
        now += 1_000_000;
    }
    let view = queue.view(true, true);
    assert!((view.move_ns / 8e6 - 1.0).abs() < 0.02, "{}", view.move_ns);
    assert!((view.byte_ns / 7.0 - 1.0).abs() < 0.1, "{}", view.byte_ns);
}

proptest! {
    #[test]
    fn every_request_is_issued_once_and_the_view_adds_up(
        steps in prop::collection::vec((0..4u8, 0..30u64, 1..4u64, any::<bool>()), 1..300),
        active in 1..5u32,
        aggregation in 0..40u64,
    ) {
        let mut queue = queue(active, aggregation * K);
        let mut free: Vec<u32> = (0..64).rev().collect();
        let mut waiting = BTreeSet::new();
        let mut issued: Vec<(Command, Vec<u32>)> = Vec::new();
        for (now, (step, offset, length, write)) in steps.into_iter().enumerate() {
            let now = now as u64 * 100;
            match step {
                0 | 1 => if let Some(number) = free.pop() {
                    let transfer = if write { Write } else { Read };
                    queue.push(number, transfer, offset * 4 * K, length * 4 * K, now);
                    waiting.insert(number);
                },
                2 => if let Some(command) = queue.issue(now) {
                    let numbers: Vec<u32> = std::iter::successors(Some(command.first), |&one| queue.next_request(one)).collect();
                    prop_assert_eq!(numbers.len(), command.requests as usize);
                    prop_assert!(numbers.len() == 1 || command.length <= aggregation * K);
                    prop_assert!(numbers.iter().all(|one| waiting.remove(one)));
                    issued.push((command, numbers));
                } else {
                    prop_assert!(waiting.is_empty() || issued.len() == active as usize);
                },
                _ => if !issued.is_empty() {
                    let (command, numbers) = issued.swap_remove(offset as usize % issued.len());
                    prop_assert_eq!(queue.complete(command.first, now), Some(command));
                    free.extend(numbers);
                },
            }
            let view = queue.view(true, false);
            let bytes: u64 = issued.iter().map(|(command, _)| command.length).sum();
            let requests: u32 = issued.iter().map(|(command, _)| command.requests).sum();
            prop_assert_eq!(view.queued as usize, waiting.len());
            prop_assert_eq!((view.pending, view.pending_bytes), (requests, bytes));
            prop_assert!(view.moves <= view.requests());
            prop_assert!(issued.len() <= active as usize);
            prop_assert!(view.requests() > 0 || view.bytes() == 0 && view.moves == 0);
            prop_assert!(view.move_ns >= 0.0 && view.byte_ns >= 0.0);
        }
    }
}
