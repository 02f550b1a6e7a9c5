use super::*;
use crate::samples::job;
use iodyno_model::Span;
use iodyno_units::Nanos;

fn scheduler(jobs: &[Job]) -> Scheduler {
    let clones: Vec<(u32, u64)> = jobs
        .iter()
        .enumerate()
        .flat_map(|(index, job)| (0..job.clones).map(move |clone| (index as u32, u64::from(clone))))
        .collect();
    Scheduler::new(jobs, &clones)
}

fn after(name: &str, after: After) -> Job {
    Job { after, ..job(name) }
}

fn spawned(orders: &[Order]) -> Vec<usize> {
    let spawned = |order: &Order| match order {
        Order::Spawn(clone) => Some(*clone),
        _ => None,
    };
    orders.iter().filter_map(spawned).collect()
}

fn released(orders: &[Order]) -> Vec<(usize, u64)> {
    let released = |order: &Order| match order {
        Order::Release { clone, at } => Some((*clone, *at)),
        _ => None,
    };
    orders.iter().filter_map(released).collect()
}

/// Prepares the first wave and starts at 1000.
fn begin(scheduler: &mut Scheduler) -> (Vec<usize>, Vec<(usize, u64)>) {
    let first = spawned(&scheduler.prepare());
    for clone in &first {
        assert!(!scheduler.prepared());
        assert_eq!(scheduler.arrived(*clone, 10), []);
    }
    assert!(scheduler.prepared());
    let orders = scheduler.start(1000);
    (first, released(&orders))
}

#[test]
fn jobs_without_options_start_together() {
    let two = Job {
        clones: 2,
        ..job("a")
    };
    let mut scheduler = scheduler(&[two, job("b")]);
    let (first, released) = begin(&mut scheduler);
    assert_eq!(first, [0, 1, 2]);
    assert_eq!(released, [(0, 1000), (1, 1000), (2, 1000)]);
    for clone in 0..3 {
        assert!(!scheduler.over());
        assert_eq!(scheduler.ended(clone, false, 5000), []);
    }
    assert!(scheduler.over());
}

#[test]
fn a_stonewall_waits_for_all_earlier_jobs_and_begins_a_wave() {
    let jobs = [
        job("a"),
        job("b"),
        after("c", After::AllBefore),
        job("d"),
        after("e", After::AllBefore),
    ];
    let mut scheduler = scheduler(&jobs);
    let (first, _) = begin(&mut scheduler);
    assert_eq!(first, [0, 1]);
    assert_eq!(scheduler.ended(0, false, 2000), []);
    assert_eq!(spawned(&scheduler.ended(1, false, 3000)), [2, 3]);
    // The jobs of a wave start together when the last of them is ready.
    assert_eq!(scheduler.arrived(2, 3100), []);
    assert_eq!(
        released(&scheduler.arrived(3, 3200)),
        [(2, 3200), (3, 3200)]
    );
    scheduler.ended(2, false, 4000);
    assert_eq!(spawned(&scheduler.ended(3, false, 4000)), [4]);
    assert_eq!(released(&scheduler.arrived(4, 4100)), [(4, 4100)]);
    scheduler.ended(4, false, 5000);
    assert!(scheduler.over());
}

#[test]
fn a_first_job_with_a_stonewall_does_not_wait() {
    let mut scheduler = scheduler(&[after("a", After::AllBefore), job("b")]);
    assert_eq!(begin(&mut scheduler).0, [0, 1]);
}

#[test]
fn wait_for_waits_for_all_clones_of_that_name() {
    let two = Job {
        clones: 2,
        ..job("a")
    };
    let jobs = [two, job("b"), after("c", After::Job("a".into()))];
    let mut scheduler = scheduler(&jobs);
    assert_eq!(begin(&mut scheduler).0, [0, 1, 2]);
    assert_eq!(scheduler.ended(0, false, 2000), []);
    assert_eq!(spawned(&scheduler.ended(1, false, 2500)), [3]);
    assert_eq!(released(&scheduler.arrived(3, 2600)), [(3, 2600)]);
}

#[test]
fn a_delay_is_drawn_within_its_span_and_released_in_time() {
    let second = Nanos::SECOND.0;
    let delayed = Job {
        delay: Span {
            min: Nanos(second),
            max: Nanos(3 * second),
        },
        clones: 50,
        ..job("a")
    };
    let mut scheduler = scheduler(&[delayed, job("b")]);
    let (_, released_now) = begin(&mut scheduler);
    assert_eq!(released_now, [(50, 1000)]);
    let mut instants = Vec::new();
    while let Some(next) = scheduler.next() {
        let orders = scheduler.tick(next);
        assert!(!orders.is_empty());
        instants.extend(released(&orders).iter().map(|(_, at)| *at));
    }
    assert_eq!(instants.len(), 50);
    assert!(
        instants
            .iter()
            .all(|at| (second..=3 * second + 1000).contains(at))
    );
    assert!(instants.iter().max().unwrap() - instants.iter().min().unwrap() > second);
}

#[test]
fn exitall_ends_its_group_and_not_the_next_one() {
    let first = Job {
        exit_all: true,
        ..job("a")
    };
    let mut later = after("c", After::AllBefore);
    later.reporting.group = 1;
    let mut scheduler = scheduler(&[first, job("b"), later]);
    begin(&mut scheduler);
    let orders = scheduler.ended(0, false, 2000);
    let stop = StopRequest::ExitAll;
    assert_eq!(orders, [Order::Stop { clone: 1, stop }]);
    assert_eq!(spawned(&scheduler.ended(1, false, 2100)), [2]);
}

#[test]
fn a_failure_ends_all_if_its_policy_says_so() {
    let mut first = job("a");
    first.errors.exit_all = true;
    let jobs = [first, job("b"), after("c", After::AllBefore)];
    for failed in [true, false] {
        let mut scheduler = scheduler(&jobs);
        begin(&mut scheduler);
        let told = !scheduler.ended(0, failed, 2000).is_empty();
        assert_eq!(told, failed);
        scheduler.ended(1, false, 2100);
        assert_eq!(scheduler.over(), failed);
        let skipped = scheduler
            .clones
            .iter()
            .filter(|p| p.state == State::Skipped);
        assert_eq!(skipped.count(), usize::from(failed));
    }
}

#[test]
fn a_stop_reaches_clones_in_every_state() {
    let delayed = Job {
        delay: Span {
            min: Nanos::SECOND,
            max: Nanos::SECOND,
        },
        ..job("b")
    };
    let jobs = [job("a"), delayed, after("c", After::AllBefore)];
    let mut scheduler = scheduler(&jobs);
    begin(&mut scheduler);
    let stop = StopRequest::Finish;
    assert_eq!(
        scheduler.stop_all(stop),
        [
            Order::Stop { clone: 0, stop },
            Order::Stop { clone: 1, stop },
            Order::Close(1)
        ]
    );
    assert_eq!(scheduler.next(), None);
    assert_eq!(scheduler.unfinished(), [0, 1]);
    // The second request reaches them again.
    assert_eq!(scheduler.stop_all(StopRequest::Abort).len(), 2);
    scheduler.ended(0, false, 2000);
    scheduler.ended(1, false, 2000);
    assert!(scheduler.over());
    assert_eq!(scheduler.clones[2].state, State::Skipped);
}

#[test]
fn a_clone_that_cannot_start_does_not_delay_its_wave() {
    let jobs = [
        job("a"),
        after("b", After::AllBefore),
        job("c"),
        after("d", After::AllBefore),
    ];
    let mut scheduler = scheduler(&jobs);
    begin(&mut scheduler);
    assert_eq!(spawned(&scheduler.ended(0, false, 2000)), [1, 2]);
    assert_eq!(scheduler.arrived(2, 2100), []);
    assert_eq!(released(&scheduler.ended(1, true, 2200)), [(2, 2200)]);
    assert_eq!(spawned(&scheduler.ended(2, false, 3000)), [3]);
}

#[test]
fn exit_what_names_the_clones_that_end() {
    use ExitScope::{All, Group, Stonewall};
    // Jobs 0 to 3 run or wait in two groups, job 4 is after a stonewall.
    for (exit_what, stopped, rest) in [
        (Group, vec![1], vec![2, 3]),
        (Stonewall, vec![1, 2], vec![3]),
        (All, vec![1, 2, 3], vec![]),
    ] {
        for by_failure in [false, true] {
            let mut first = Job {
                exit_what,
                exit_all: !by_failure,
                ..job("a")
            };
            first.errors.exit_all = by_failure;
            let mut delayed = job("d");
            delayed.delay.min = Nanos::SECOND;
            delayed.delay.max = Nanos::SECOND;
            let mut jobs = [
                first,
                job("b"),
                job("c"),
                delayed,
                after("e", After::AllBefore),
            ];
            for (job, group) in jobs.iter_mut().zip([0, 0, 1, 1, 2]) {
                job.reporting.group = group;
            }
            let mut scheduler = scheduler(&jobs);
            begin(&mut scheduler);
            let orders = scheduler.ended(0, by_failure, 2000);
            let told = orders.iter().filter_map(|order| match order {
                Order::Stop { clone, stop } => {
                    assert_eq!(*stop, StopRequest::ExitAll);
                    Some(*clone)
                }
                _ => None,
            });
            assert_eq!(told.collect::<Vec<_>>(), stopped, "{exit_what:?}");
            // The others run to their ends. The job after the stonewall follows unless it was ended, too.
            let mut spawned_last = Vec::new();
            for clone in stopped.iter().chain(&rest) {
                spawned_last.extend(spawned(&scheduler.ended(*clone, false, 3000)));
            }
            let follows = exit_what != All;
            assert_eq!(spawned_last, if follows { vec![4] } else { vec![] });
            assert_eq!(scheduler.over(), !follows);
        }
    }
}

#[test]
fn steady_clones_end_and_their_job_ends_its_group() {
    let first = Job {
        exit_all: true,
        ..job("a")
    };
    let mut scheduler = scheduler(&[first, job("b"), job("c")]);
    begin(&mut scheduler);
    let stop = |clone, stop| Order::Stop { clone, stop };
    assert_eq!(
        scheduler.steady(&[0, 2]),
        [stop(0, StopRequest::Steady), stop(2, StopRequest::Steady)]
    );
    let orders = scheduler.ended(0, false, 2000);
    let all = [stop(1, StopRequest::ExitAll), stop(2, StopRequest::ExitAll)];
    assert_eq!(orders, all);
}
