//! Tests of the rules of sysbench on streams alone, without I/O and with simulated time.

use std::collections::HashMap;

use iodyno_model::{Arrival, Distribution};

use super::*;
use crate::testing::{shared_job, shared_rule};

/// The clones of a job, each with `depth` slots; the test calls them alternately.
struct Clones {
    streams: Vec<SharedStream>,
    depth: u32,
}

impl Clones {
    fn new(rule: &SharedFiles, clones: u32, depth: u32, change: impl FnOnce(&mut Job)) -> Clones {
        Clones::on(rule, &[rule.file_size; 128], clones, depth, change)
    }

    fn on(
        rule: &SharedFiles,
        lengths: &[u64],
        clones: u32,
        depth: u32,
        change: impl FnOnce(&mut Job),
    ) -> Clones {
        let mut rule = rule.clone();
        rule.engine.depth = depth;
        let mut job = shared_job(&rule, lengths.len() as u32);
        job.clones = clones;
        change(&mut job);
        let state = Arc::new(SharedFilesState::new(&job, &rule, lengths, 9));
        let stream = |clone: u32| {
            let mut stream = SharedStream::new(&job, &rule, &state, clone.into());
            stream.begin(0);
            stream.measure();
            stream
        };
        Clones {
            streams: (0..clones).map(stream).collect(),
            depth,
        }
    }

    /// Issues ops, one per clone alternately, and completes them immediately, until `most` were issued or all clones
    /// have ended.
    fn play(&mut self, most: usize) -> Vec<Issue> {
        let mut issued = Vec::new();
        let mut done = vec![false; self.streams.len()];
        while issued.len() < most && done.iter().any(|done| !done) {
            for (clone, stream) in self.streams.iter_mut().enumerate() {
                let mut place = nothing();
                match stream.next(0, 0, &mut place) {
                    Next::Op => {
                        issued.push(place);
                        stream.completed(0, true);
                    }
                    Next::Done(_) => done[clone] = true,
                    other => panic!("{other:?} with nothing in flight"),
                }
            }
        }
        issued
    }

    /// Fills all slots of the first clone and completes the ops in the order that `which` chooses.
    fn play_deep(&mut self, most: usize, mut which: impl FnMut(usize) -> usize) -> Vec<Event> {
        let (stream, mut free) = (&mut self.streams[0], (0..self.depth).collect::<Vec<Slot>>());
        let (mut flying, mut events) = (Vec::new(), Vec::new());
        loop {
            while let Some(slot) = free.last().copied() {
                let mut place = nothing();
                match stream.next(0, slot, &mut place) {
                    Next::Op => {
                        free.pop();
                        flying.push((slot, place));
                        events.push(Event::Issued(place));
                    }
                    Next::WaitForCompletion => break,
                    Next::Done(_) => {
                        if flying.is_empty() {
                            return events;
                        }
                        break;
                    }
                    other => panic!("{other:?}"),
                }
            }
            if events.len() >= most {
                return events;
            }
            assert!(!flying.is_empty(), "nothing in flight and nothing to do");
            let (slot, issue) = flying.remove(which(flying.len()));
            stream.completed(slot, true);
            free.push(slot);
            events.push(Event::Ended(issue));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Issued(Issue),
    Ended(Issue),
}

fn nothing() -> Issue {
    sync(OpKind::Fsync, 0, None)
}

fn count(issued: &[Issue], direction: Direction) -> u64 {
    let of_kind = issued.iter().filter(|issue| issue.direction == direction);
    of_kind.count() as u64
}

const KIB: u64 = 1024;

fn mix(fsync_every: u32) -> SharedFiles {
    SharedFiles {
        fsync_every,
        ..shared_rule(SharedMode::RandomMix, 256 * KIB, 16 * KIB)
    }
}

#[test]
fn with_128_files_there_are_3_reads_and_2_writes_to_6_4_syncs() {
    for clones in [1, 4] {
        let issued = Clones::new(&mix(100), clones, 1, |_| {}).play(228 * 500);
        let of = |direction| count(&issued, direction) as f64 / 500.0;
        let found = (
            of(Direction::Read),
            of(Direction::Write),
            of(Direction::Sync),
        );
        assert!((found.0 - 60.0).abs() < 0.1, "{found:?}");
        assert!((found.1 - 40.0).abs() < 0.1, "{found:?}");
        assert!((found.2 - 128.0).abs() < 0.6, "{found:?}");
    }
}

#[test]
fn a_group_of_syncs_follows_each_n_requests_with_one_sync_per_file() {
    for (clones, every) in [(1, 100), (3, 7), (8, 1), (4, 1000)] {
        let issued = Clones::new(&mix(every), clones, 1, |_| {}).play(20_000);
        let mut requests = 0;
        let mut wave = Vec::new();
        for issue in &issued {
            if issue.direction != Direction::Sync {
                assert!(wave.is_empty(), "a request within a wave");
                requests += 1;
                continue;
            }
            assert_eq!(requests % every, 0);
            wave.push(issue.op.file);
            if wave.len() == 128 {
                assert!(wave.iter().copied().eq(0..128));
                wave.clear();
            }
        }
        assert!(requests > 0 && count(&issued, Direction::Sync) > 128);
    }
}

#[test]
fn each_clone_mixes_in_the_requested_ratio() {
    for (ratio, reads, writes) in [
        (1.5, 3, 2),
        (1.0, 1, 1),
        (0.5, 1, 2),
        (4.0, 4, 1),
        (0.0, 0, 1),
    ] {
        let mut rule = mix(0);
        rule.read_write_ratio = ratio;
        let issued = Clones::new(&rule, 1, 1, |_| {}).play(60_000);
        let found = count(&issued, Direction::Read) as f64 / 60_000.0;
        let expected = f64::from(reads) / f64::from(reads + writes);
        assert!((found - expected).abs() < 0.001, "{ratio}: {found}");
    }
    // The first ops, computed manually: 1/1 < 1.5 reads, 2/1 writes, 2/2 reads, 3/2 writes, 3/3 and 4/3 read.
    let issued = Clones::new(&mix(0), 1, 1, |_| {}).play(6);
    let kinds: Vec<bool> = issued
        .iter()
        .map(|i| i.direction == Direction::Read)
        .collect();
    assert_eq!(kinds, [true, false, true, false, true, true]);
}

#[test]
fn jobs_that_only_read_are_never_synced() {
    for mode in [SharedMode::RandomRead, SharedMode::SequentialRead] {
        let rule = SharedFiles { mode, ..mix(10) };
        let issued = Clones::new(&rule, 2, 1, |_| {}).play(5000);
        assert_eq!(count(&issued, Direction::Read), issued.len() as u64);
    }
}

#[test]
fn all_clones_share_one_sequence_which_wraps() {
    // Length of a file, merged, requests per file.
    for (file_size, merged, expected) in [
        (64 * KIB, 0, vec![16 * KIB; 4]),
        (
            50_000,
            0,
            vec![16 * KIB, 16 * KIB, 16 * KIB, 50_000 - 48 * KIB],
        ),
        (50_000, 32 * KIB, vec![32 * KIB, 50_000 - 32 * KIB]),
        (1000, 0, vec![1000]),
    ] {
        for mode in [SharedMode::SequentialRead, SharedMode::SequentialRewrite] {
            let rule = SharedFiles {
                merged,
                ..shared_rule(mode, file_size, 16 * KIB)
            };
            let requests = expected.len() as u64;
            let issued = Clones::new(&rule, 3, 1, |_| {}).play(128 * expected.len() * 2 + 5);
            for (number, issue) in issued.iter().enumerate() {
                let within = number % expected.len();
                let file = number as u64 / requests % 128;
                let offset: u64 = expected[..within].iter().sum();
                let found = (
                    u64::from(issue.op.file),
                    issue.op.offset,
                    issue.op.length.into(),
                );
                assert_eq!(found, (file, offset, expected[within]), "{mode:?} {number}");
            }
        }
    }
}

#[test]
fn random_blocks_are_uniform_and_stay_within_the_files() {
    for file_size in [64 * KIB, 50_000, 100] {
        let rule = shared_rule(SharedMode::RandomRead, file_size, 16 * KIB);
        let lengths = [file_size; 3];
        let issued = Clones::on(&rule, &lengths, 2, 1, |_| {}).play(60_000);
        let mut hits: HashMap<(u32, u64), u32> = HashMap::new();
        for issue in &issued {
            let op = &issue.op;
            assert!(op.file < 3 && op.offset.is_multiple_of(16 * KIB), "{op:?}");
            let expected = (16 * KIB).min(file_size - op.offset);
            assert_eq!(u64::from(op.length), expected);
            *hits.entry((op.file, op.offset)).or_default() += 1;
        }
        let blocks = 3 * file_size.div_ceil(16 * KIB);
        assert_eq!(hits.len() as u64, blocks, "every block is accessed");
        let mean = 60_000.0 / blocks as f64;
        let far = |found: &&u32| (f64::from(**found) - mean).abs() > 6.0 * mean.sqrt();
        assert_eq!(hits.values().find(far), None, "{mean}");
    }
}

#[test]
fn hot_blocks_are_the_same_for_all_clones_and_both_directions() {
    let hottest = |issued: &[Issue], direction| {
        let mut hits: HashMap<(u32, u64), u32> = HashMap::new();
        for issue in issued.iter().filter(|issue| issue.direction == direction) {
            *hits.entry((issue.op.file, issue.op.offset)).or_default() += 1;
        }
        hits.into_iter()
            .max_by_key(|(_, hits)| *hits)
            .map(|(place, _)| place)
    };
    for law in [Distribution::Zipf(1.2), Distribution::Pareto(0.05)] {
        let rule = SharedFiles {
            distribution: law.clone(),
            ..mix(0)
        };
        let mut clones = Clones::new(&rule, 2, 1, |_| {});
        let issued = clones.play(100_000);
        let (first, second): (Vec<_>, Vec<_>) =
            issued.chunks(2).map(|two| (two[0], two[1])).unzip();
        let hot = hottest(&first, Direction::Read);
        assert_eq!(hottest(&second, Direction::Read), hot, "{law:?}");
        assert_eq!(hottest(&first, Direction::Write), hot, "{law:?}");
    }
}

#[test]
fn events_end_all_clones_together_exactly_and_syncs_are_events() {
    for clones in 1..=8 {
        for (fsync_every, events) in [(0, 1000), (10, 1000), (100, 7), (3, 12_345)] {
            let mut all = Clones::new(&mix(fsync_every), clones, 1, |job| {
                job.end.ops = Some(events);
            });
            let issued = all.play(usize::MAX);
            assert_eq!(issued.len() as u64, events, "{clones} {fsync_every}");
        }
    }
}

#[test]
fn ops_of_a_ramp_are_not_counted_as_events() {
    let mut clones = Clones::new(&mix(0), 1, 1, |job| job.end.ops = Some(5));
    clones.streams[0].measured = false;
    assert_eq!(clones.play(20).len(), 20);
    clones.streams[0].measure();
    assert_eq!(clones.play(20).len(), 5);
}

#[test]
fn fsync_all_syncs_the_file_of_each_write_and_counts_one_event() {
    let rule = SharedFiles {
        fsync_all: true,
        ..mix(100)
    };
    let mut clones = Clones::new(&rule, 2, 1, |job| job.end.ops = Some(1000));
    let issued = clones.play(usize::MAX);
    let (reads, writes) = (
        count(&issued, Direction::Read),
        count(&issued, Direction::Write),
    );
    assert_eq!(reads + writes, 1000);
    assert_eq!(count(&issued, Direction::Sync), writes);
    // Each clone's own ops: a sync directly after its write.
    for clone in [0, 1] {
        let own: Vec<&Issue> = issued.iter().skip(clone).step_by(2).collect();
        for pair in own.windows(2).take(1000) {
            let wrote = pair[0].direction == Direction::Write;
            assert_eq!(pair[1].direction == Direction::Sync, wrote);
            assert!(!wrote || pair[1].op.file == pair[0].op.file);
        }
    }
}

#[test]
fn no_sync_is_issued_while_a_write_is_in_flight_at_any_depth() {
    let mut random = 1u64;
    let mut pick = move |count: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize % count
    };
    for fsync_all in [false, true] {
        let rule = SharedFiles {
            fsync_all,
            ..mix(50)
        };
        let mut clones = Clones::new(&rule, 1, 16, |job| job.end.ops = Some(5000));
        let events = clones.play_deep(usize::MAX, &mut pick);
        let (mut writing, mut syncs, mut owed) = (0, 0, HashMap::<u32, i64>::new());
        for event in &events {
            match event {
                Event::Issued(issue) if issue.direction == Direction::Write => writing += 1,
                Event::Ended(issue) if issue.direction == Direction::Write => {
                    writing -= 1;
                    *owed.entry(issue.op.file).or_default() += 1;
                }
                Event::Issued(issue) if issue.direction == Direction::Sync => {
                    syncs += 1;
                    match fsync_all {
                        // Only for completed ops, and once for each.
                        true => {
                            let owed = owed.entry(issue.op.file).or_default();
                            *owed -= 1;
                            assert!(*owed >= 0);
                        }
                        false => assert_eq!(writing, 0),
                    }
                }
                _ => {}
            }
        }
        assert!(syncs > 100);
        assert!(!fsync_all || owed.values().all(|owed| *owed == 0));
    }
}

#[test]
fn a_rate_gives_each_kind_of_event_its_due_time() {
    for arrival in [Arrival::Linear, Arrival::Poisson] {
        let mut clones = Clones::new(&mix(10), 1, 1, |job| {
            job.pacing.ops_per_s = 1000.0;
            job.pacing.arrival = arrival;
        });
        let stream = &mut clones.streams[0];
        let (mut now, mut events, mut last) = (0, 0u64, 0);
        while events < 20_000 {
            let mut place = nothing();
            match stream.next(now, 0, &mut place) {
                Next::WaitUntil(due) => {
                    assert!(due > now);
                    now = due;
                }
                Next::Op => {
                    let intended = place.intended.map_or(0, |intended| intended.get());
                    assert!(intended <= now && intended >= last);
                    last = intended;
                    stream.completed(0, true);
                    events += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        let seconds = now as f64 / 1e9;
        assert!((seconds - 20.0).abs() < 0.5, "{arrival:?}: {seconds}");
    }
}

#[test]
fn checked_blocks_are_not_read_while_they_are_written() {
    for (files, depth) in [(1, 8), (2, 3), (128, 32)] {
        let rule = SharedFiles {
            validate: true,
            ..shared_rule(SharedMode::RandomMix, 64 * KIB, 16 * KIB)
        };
        let mut clones = Clones::on(&rule, &vec![64 * KIB; files], 2, depth, |_| {});
        let mut flying: Vec<(usize, Slot, Issue)> = Vec::new();
        let mut random = 3usize;
        let (mut issued, mut waited) = (0, 0);
        while issued < 20_000 {
            let before = issued;
            for clone in 0..2 {
                let busy: Vec<Slot> = flying
                    .iter()
                    .filter(|f| f.0 == clone)
                    .map(|f| f.1)
                    .collect();
                let Some(slot) = (0..depth).find(|slot| !busy.contains(slot)) else {
                    continue;
                };
                let mut place = nothing();
                match clones.streams[clone].next(0, slot, &mut place) {
                    Next::Op => {
                        issued += 1;
                        assert_eq!(place.checked, place.direction == Direction::Read);
                        let same = |other: &&(usize, Slot, Issue)| {
                            (other.2.op.file, other.2.op.offset) == (place.op.file, place.op.offset)
                        };
                        for (_, _, other) in flying.iter().filter(same) {
                            let reads = (place.direction, other.direction);
                            assert_eq!(reads, (Direction::Read, Direction::Read));
                        }
                        flying.push((clone, slot, place));
                    }
                    Next::WaitForCompletion | Next::WaitUntil(_) => waited += 1,
                    other => panic!("{other:?}"),
                }
            }
            random = random.wrapping_mul(25_214_903_917).wrapping_add(11) % (1 << 48);
            if issued == before || (random / 512).is_multiple_of(3) {
                let (clone, slot, _) = flying.remove(random / 65_536 % flying.len());
                clones.streams[clone].completed(slot, true);
            }
        }
        assert!(files > 1 || waited > 0);
    }
}

#[test]
fn every_file_is_filled_from_its_end_by_one_op_at_a_time() {
    let rule = SharedFiles {
        merged: 32 * KIB,
        ..shared_rule(SharedMode::Prepare, 100_000, 16 * KIB)
    };
    let lengths = [0, 5, 100_000, 99_999, 0, 40_000, 200_000, 0];
    for depth in [1, 4, 16] {
        let mut turn = 0;
        let mut clones = Clones::on(&rule, &lengths, 1, depth, |_| {});
        let events = clones.play_deep(usize::MAX, |count| {
            turn += 1;
            turn * 7 % count
        });
        let mut ends = lengths;
        for event in &events {
            match event {
                // It begins when all previous writes have completed.
                Event::Issued(issue) => {
                    assert_eq!(issue.direction, Direction::Write);
                    assert_eq!(issue.op.offset, ends[issue.op.file as usize]);
                }
                Event::Ended(issue) => ends[issue.op.file as usize] += u64::from(issue.op.length),
            }
        }
        assert_eq!(ends, lengths.map(|length| length.max(100_000)), "{depth}");
    }
}

#[test]
fn several_clones_fill_each_file_once() {
    let rule = shared_rule(SharedMode::Prepare, 100_000, 16 * KIB);
    let mut clones = Clones::on(&rule, &[0; 10], 3, 1, |_| {});
    let issued = clones.play(usize::MAX);
    let bytes: u64 = issued.iter().map(|issue| u64::from(issue.op.length)).sum();
    assert_eq!(bytes, 1_000_000);
    let mut files: Vec<u32> = issued.iter().map(|issue| issue.op.file).collect();
    files.sort_unstable();
    files.dedup();
    assert_eq!(files.len(), 10);
}
