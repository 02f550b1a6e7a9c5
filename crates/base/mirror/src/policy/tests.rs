use proptest::prelude::*;

use super::*;

fn legs(pending: &[u32]) -> Vec<LegView> {
    let leg = |&pending: &u32| LegView {
        pending,
        commands: pending,
        ..LegView::default()
    };
    pending.iter().map(leg).collect()
}

fn read(offset: u64) -> ReadRequest {
    ReadRequest {
        offset,
        length: 131_072,
    }
}

/// The choices of a policy for reads at these offsets, all at time 0.
fn choices(kind: PolicyKind, legs: &[LegView], offsets: &[u64]) -> Vec<usize> {
    let mut policy = kind.build(legs.len(), 1);
    let choose = |&offset: &u64| policy.choose(&read(offset), legs, 0).unwrap();
    offsets.iter().map(choose).collect()
}

prop_compose! {
    fn any_leg()(
        readable in prop::bool::weighted(0.8),
        rotational: bool,
        pending in 0..12u32,
        queued in 0..50u32,
        moves in 0..50u32,
        last_end in 0..64u64,
        done_end in 0..64u64,
        move_ns in 0.0..2e7,
        byte_ns in 0.0..20.0,
    ) -> LegView {
        LegView {
            readable,
            rotational,
            pending,
            pending_bytes: u64::from(pending) << 17,
            queued,
            queued_bytes: u64::from(queued) << 17,
            moves,
            commands: pending,
            last_offset: last_end << 20,
            last_end: last_end << 20,
            done_end: done_end << 20,
            move_ns,
            byte_ns,
        }
    }
}

proptest! {
    #[test]
    fn every_policy_chooses_a_readable_leg_if_there_is_one(
        trials in prop::collection::vec((prop::collection::vec(any_leg(), 0..6), 0..64u64), 1..60),
        seed: u64,
    ) {
        for kind in PolicyKind::ALL {
            let mut policy = kind.build(6, seed);
            for (step, (legs, offset)) in trials.iter().enumerate() {
                let now = step as u64 * 3_000_000;
                match policy.choose(&read(offset << 20), legs, now) {
                    Some(leg) => prop_assert!(legs[leg].readable, "{kind}"),
                    None => prop_assert!(legs.iter().all(|leg| !leg.readable), "{kind}"),
                }
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_choices(
        trials in prop::collection::vec((prop::collection::vec(any_leg(), 3), 0..64u64), 1..60),
        seed: u64,
    ) {
        for kind in PolicyKind::ALL {
            let mut twins = [kind.build(3, seed), kind.build(3, seed)];
            for (step, (legs, offset)) in trials.iter().enumerate() {
                let now = step as u64 * 3_000_000;
                let [one, other] = &mut twins;
                prop_assert_eq!(
                    one.choose(&read(offset << 20), legs, now),
                    other.choose(&read(offset << 20), legs, now)
                );
            }
        }
    }
}

#[test]
fn names_are_read_back_and_a_wrong_one_lists_all() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(kind.build(2, 0).kind(), kind);
    }
    let error = "modula".parse::<PolicyKind>().unwrap_err().to_string();
    assert!(
        error.contains("`modula`") && error.contains("md-raid1"),
        "{error}"
    );
}

#[test]
fn modulo_keeps_two_mebibytes_on_a_leg_and_skips_a_stale_one() {
    let mut three = legs(&[9, 0, 0]);
    let offsets = [0, 1 << 20, 2 << 20, 5 << 20, 6 << 20];
    assert_eq!(
        choices(PolicyKind::Modulo, &three, &offsets),
        [0, 0, 1, 2, 0]
    );
    three[0].readable = false;
    assert_eq!(
        choices(PolicyKind::Modulo, &three, &offsets),
        [1, 1, 1, 2, 1]
    );
}

#[test]
fn round_robin_takes_turns_among_readable_legs() {
    let mut four = legs(&[0, 9, 0, 0]);
    four[2].readable = false;
    assert_eq!(
        choices(PolicyKind::RoundRobin, &four, &[0; 5]),
        [1, 3, 0, 1, 3]
    );
}

#[test]
fn least_pending_keeps_a_leg_for_a_slot_of_time_among_equals() {
    let mut policy = LeastPending::default();
    let tied = legs(&[4, 3, 3, 3]);
    let slots = [0, 9_999_999, 10_000_000, 20_000_000, 30_000_000];
    let chosen = slots.map(|now| policy.choose(&read(0), &tied, now).unwrap());
    assert_eq!(chosen, [1, 1, 2, 3, 1]);
    // Requests that only wait do not count.
    let mut busy = legs(&[10, 9]);
    busy[1].queued = 500;
    assert_eq!(policy.choose(&read(0), &busy, 0), Some(1));
}

#[test]
fn power_of_two_takes_the_shorter_of_two_and_spreads() {
    // Two legs: both are always drawn.
    assert_eq!(
        choices(PolicyKind::PowerOfTwo, &legs(&[7, 6]), &[0; 9]),
        [1; 9]
    );
    let chosen = choices(PolicyKind::PowerOfTwo, &legs(&[1, 1, 9]), &[0; 3000]);
    let count = |leg: usize| chosen.iter().filter(|&&one| one == leg).count();
    assert_eq!(count(2), 0);
    assert!(
        count(0).abs_diff(count(1)) < 300,
        "{} {}",
        count(0),
        count(1)
    );
}

#[test]
fn openzfs_adds_the_distance_to_the_load() {
    let mut two = legs(&[0, 0]);
    two[0].last_end = 8 << 20;
    two[1].last_end = 100 << 20;
    // (pending of leg 0, offset, chosen): continues, near, far.
    for (pending, offset, chosen) in [
        (4, 8 << 20, 0),
        (6, 8 << 20, 1),
        (2, (8 << 20) + 4096, 0),
        (4, (8 << 20) + 4096, 1),
        (0, 10 << 20, 1),
        (0, 12 << 20, 0),
        (1, 12 << 20, 1),
    ] {
        two[0].pending = pending;
        let found = choices(PolicyKind::OpenZfs, &two, &[offset]);
        assert_eq!(found, [chosen], "{pending} {offset}");
    }
    let mut flash = two.clone();
    flash.iter_mut().for_each(|leg| leg.rotational = false);
    flash[0].pending = 1;
    let offsets = [8 << 20, 12 << 20];
    assert_eq!(choices(PolicyKind::OpenZfs, &flash, &offsets), [0, 1]);
    assert_eq!(
        choices(PolicyKind::OpenZfsNonrot, &flash, &[0, 2 << 20, 4 << 20]),
        [0, 1, 0]
    );
}

#[test]
fn md_keeps_a_stream_then_takes_an_idle_leg_then_the_nearest_head() {
    let mut policy = MdRaid1::new(3);
    let mut three = legs(&[1, 0, 0]);
    (three[0].done_end, three[1].done_end, three[2].done_end) = (10 << 20, 50 << 20, 90 << 20);
    // Leg 1 is idle; the stream then stays there although it is not idle.
    assert_eq!(policy.choose(&read(20 << 20), &three, 0), Some(1));
    three[1].queued = 40;
    assert_eq!(
        policy.choose(&read((20 << 20) + 131_072), &three, 0),
        Some(1)
    );
    three[2].pending = 3;
    assert_eq!(policy.choose(&read(80 << 20), &three, 0), Some(2));
    assert_eq!(policy.choose(&read(28 << 20), &three, 0), Some(0));
    // With flash among them, the least pending one.
    three[1].rotational = false;
    assert_eq!(policy.choose(&read(70 << 20), &three, 0), Some(0));
}

#[test]
fn md_moves_a_long_stream_on_flash_to_an_idle_leg() {
    let mut policy = MdRaid1::new(2);
    policy.optimal_bytes = 262_144;
    let mut two = legs(&[0, 0]);
    two.iter_mut().for_each(|leg| leg.rotational = false);
    let mut chosen = Vec::new();
    for step in 0..4 {
        chosen.push(
            policy
                .choose(&read((1 << 30) + step * 131_072), &two, 0)
                .unwrap(),
        );
        two[0].pending = 1;
    }
    assert_eq!(chosen, [0, 0, 1, 1]);
    // Without an idle leg it stays.
    two[1].pending = 9;
    assert_eq!(
        policy.choose(&read((1 << 30) + 4 * 131_072), &two, 0),
        Some(1)
    );
}

/// Legs with a queue of this many requests, each of which moves. A move costs 8 ms and a transfer 1 ms.
fn queues(waiting: &[u32]) -> Vec<LegView> {
    let leg = |&queued: &u32| LegView {
        queued,
        queued_bytes: u64::from(queued) * 131_072,
        moves: queued,
        done_end: 7,
        move_ns: 8e6,
        byte_ns: 1e6 / 131_072.0,
        ..LegView::default()
    };
    waiting.iter().map(leg).collect()
}

#[test]
fn adaptive_takes_the_leg_that_ends_a_read_first_if_one_is_idle() {
    // (waiting requests, cost of a move on leg 1, chosen).
    for (waiting, move_ns, chosen) in [
        ([0, 1], 8e6, 0),
        ([1, 0], 8e6, 1),
        ([1, 0], 40e6, 0),
        ([4, 0], 40e6, 1),
    ] {
        let mut two = queues(&waiting);
        two[1].move_ns = move_ns;
        let found = choices(PolicyKind::Adaptive, &two, &[1 << 30]);
        assert_eq!(found, [chosen], "{waiting:?} {move_ns}");
    }
}

#[test]
fn adaptive_separates_two_streams_that_share_a_leg_if_another_is_idle() {
    // The idle leg was not used before, or for the other end of the mirror.
    for elsewhere in [None, Some(1000 << 30)] {
        let mut policy = Adaptive::default();
        if let Some(offset) = elsewhere {
            assert_eq!(policy.choose(&read(offset), &queues(&[9, 0]), 0), Some(1));
        }
        let separated = (0..20).any(|turn| {
            let mut two = queues(&[1, 0]);
            // Both streams were served by leg 0 so far: each continues its last command, and the other one waits there.
            let next = (turn % 2) << 30 | (turn / 2 + 1) << 20;
            two[0].done_end = next;
            policy.choose(&read(next), &two, 0) == Some(1)
        });
        assert!(separated, "20 reads went to the busy leg: {elsewhere:?}");
    }
}

#[test]
fn adaptive_gives_a_leg_with_little_to_do_reads_from_the_part_of_another() {
    // Leg 0 serves a busy part at the start, leg 1 the rest; both have work.
    for (waiting, chosen) in [([12, 9], 0), ([28, 3], 1)] {
        let mut policy = Adaptive::default();
        assert_eq!(policy.choose(&read(0), &queues(&[0, 9]), 0), Some(0));
        assert_eq!(policy.choose(&read(50 << 30), &queues(&[9, 0]), 0), Some(1));
        let found = policy.choose(&read(1 << 30), &queues(&waiting), 0);
        assert_eq!(found, Some(chosen), "{waiting:?}");
    }
}

#[test]
fn adaptive_trusts_the_cost_of_a_leg_less_if_it_has_few_requests() {
    // Leg 0 ended one of several requests every 40 µs, leg 1 needed 220 µs for each, one at a time.
    let view = |queued: u32, move_ns: f64| LegView {
        queued,
        moves: queued,
        rotational: false,
        move_ns,
        done_end: 7,
        ..LegView::default()
    };
    let mut policy = Adaptive::default();
    for _ in 0..200 {
        policy.choose(&read(1 << 30), &[view(5, 40e3), view(9, 220e3)], 0);
    }
    // Five times its cost, but not five times its time.
    let found = policy.choose(&read(9 << 30), &[view(4, 40e3), view(0, 220e3)], 0);
    assert_eq!(found, Some(1));
    let found = policy.choose(&read(17 << 30), &[view(1, 40e3), view(0, 220e3)], 0);
    assert_eq!(found, Some(0));
}

#[test]
fn adaptive_keeps_legs_to_their_parts_of_the_mirror_while_all_are_busy() {
    let mut policy = Adaptive::default();
    let mut choose = |offset: u64, waiting: [u32; 2]| {
        policy
            .choose(&read(offset << 30), &queues(&waiting), 0)
            .unwrap()
    };
    // Each leg is idle once and serves an end of the range.
    assert_eq!(choose(0, [0, 9]), 0);
    assert_eq!(choose(90, [9, 0]), 1);
    assert_eq!(choose(80, [9, 12]), 1);
    assert_eq!(choose(20, [12, 9]), 0);
    // A stream continues across the border, within limits.
    assert_eq!(choose(40, [9, 9]), 0);
    let next = ReadRequest {
        offset: (40 << 30) + 131_072,
        length: 131_072,
    };
    assert_eq!(policy.choose(&next, &queues(&[40, 9]), 0), Some(0));
    assert_eq!(policy.choose(&next, &queues(&[9000, 9]), 0), Some(1));
}

#[test]
fn adaptive_tries_a_slow_leg_with_one_percent_of_the_reads() {
    let mut policy = Adaptive::default();
    let mut two = queues(&[0, 0]);
    two[1].move_ns = 800e6;
    let mut slow = 0;
    for step in 0..10_000 {
        slow += policy
            .choose(&read((step * 7919 % 1000) << 30), &two, 0)
            .unwrap();
    }
    assert_eq!(slow, 10_000 / 101);
    // While it has requests it is left alone.
    two[1].queued = 1;
    let chosen: Vec<usize> = (0..300)
        .map(|_| policy.choose(&read(1 << 30), &two, 0).unwrap())
        .collect();
    assert_eq!(chosen, [0; 300]);
}

#[test]
fn queues_of_adaptive_choose_as_one_does() {
    for queues in [1, 4] {
        let mut one = PolicyKind::Adaptive.build(3, 1);
        let mut several = PolicyKind::Adaptive.build_queues(queues, 3, 1);
        for step in 0..2000_usize {
            let mut legs = queues_of(step);
            legs[2].move_ns *= 3.0;
            let request = read(((step as u64 * 7919) % 1000) << 20);
            let queue = step % several.len();
            assert_eq!(
                several[queue].choose(&request, &legs, 0),
                one.choose(&request, &legs, 0),
                "read {step} of {queues} queues"
            );
        }
    }
}

/// Three legs with some work each.
fn queues_of(step: usize) -> Vec<LegView> {
    let waiting = |leg: usize| ((step * (leg + 3)) % 11) as u32;
    queues(&[waiting(0), waiting(1), waiting(2)])
}
