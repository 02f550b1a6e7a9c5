//! Explanations of made-up trials.

use proptest::prelude::{any, prop, prop_assert, prop_compose, proptest};

use iodyno_model::{
    Cause, Certainty, CommandResult, Costs, DeviceCosts, Direction, DirectionResult, Explained,
    Explanation, FactClass, Metric, Observation, Question, Reasons, SeriesKind, Stack, StackOf,
    TimePart, Verdict,
};

use super::explain;
use super::stack::{Form, Timed, split, worker};
use crate::testing::observations::{fact, figure, imported, observation, rounds};
use crate::testing::telemetry::{Recording, recording};

/// A trial of one worker: reads of 4 KiB with one request each, 100 µs: 2 + 8 µs of CPU, 80 µs at the device, 10 µs
/// elsewhere.
fn reads() -> Costs {
    let device = DeviceCosts {
        requests: [1.0, 0.0, 0.0, 0.0],
        bytes: [4096.0, 0.0, 0.0],
        ns: [80_000.0, 0.0, 0.0, 0.0],
        ..DeviceCosts::default()
    };
    Costs {
        seconds: 10.0,
        one_at_a_time: true,
        direct: true,
        bytes: [4096.0, 0.0, 0.0],
        cpu_ns: Some((2_000.0, 8_000.0)),
        delay_ns: Some(0.0),
        top: Some(device),
        lowest: Some(device),
        ..Costs::default()
    }
    .taking(100_000.0)
}

trait Taking {
    fn taking(self, op_ns: f64) -> Self;
}

impl Taking for Costs {
    /// Reads of this time, one after the other by one worker.
    fn taking(self, op_ns: f64) -> Costs {
        let worker_ns = op_ns + self.syncs.1;
        Costs {
            op_ns,
            worker_ns,
            ops: self.seconds * 1e9 / worker_ns,
            waits_for: [op_ns, 0.0, 0.0, 0.0],
            ..self
        }
    }
}

const ROUNDS: u32 = 12;

/// Twelve rounds of both sides, each a little slower than these costs.
fn sides(baseline: &Costs, candidate: &Costs) -> (Vec<Observation>, Vec<Option<Costs>>) {
    let (mut trials, mut costs) = (Vec::new(), Vec::new());
    for (name, own, step) in [("a", baseline, 7), ("b", candidate, 3)] {
        let scales = (0..ROUNDS).map(|round| 1.0 + 0.002 * f64::from(round * step % 10));
        let scaled: Vec<Costs> = scales.map(|scale| slowed(own, scale)).collect();
        let rate = |costs: &Costs| costs.ops / costs.seconds;
        let rates: Vec<f64> = scaled.iter().map(rate).collect();
        trials.extend(rounds(name, "w", &rates));
        costs.extend(scaled.into_iter().map(Some));
    }
    (trials, costs)
}

/// All times longer by a factor.
fn slowed(costs: &Costs, scale: f64) -> Costs {
    let device = |device: DeviceCosts| DeviceCosts {
        ns: device.ns.map(|ns| ns * scale),
        ..device
    };
    Costs {
        op_ns: costs.op_ns * scale,
        worker_ns: costs.worker_ns * scale,
        waits_for: costs.waits_for.map(|ns| ns * scale),
        ops: costs.ops / scale,
        syncs: (costs.syncs.0, costs.syncs.1 * scale),
        cpu_ns: costs
            .cpu_ns
            .map(|(user, kernel)| (user * scale, kernel * scale)),
        delay_ns: costs.delay_ns.map(|ns| ns * scale),
        top: costs.top.map(device),
        lowest: costs.lowest.map(device),
        jobs: costs.jobs.iter().map(|job| slowed(job, scale)).collect(),
        ..costs.clone()
    }
}

type Trials = (Vec<Observation>, Vec<Option<Costs>>);

fn of(trials: &Trials) -> Explained {
    let found = explain("test", &trials.0, &trials.1, &Question::default()).unwrap();
    let [only] = found.comparisons.as_slice() else {
        panic!("{found:#?}");
    };
    only.clone()
}

fn explained(baseline: &Costs, candidate: &Costs) -> Reasons {
    of(&sides(baseline, candidate)).reasons.unwrap()
}

fn of_sides(baseline: &Costs, candidate: &Costs) -> Explained {
    of(&sides(baseline, candidate))
}

/// The part that is named first.
fn first(reasons: &Reasons) -> Option<TimePart> {
    reasons.most.first().map(|(part, _)| *part)
}

/// The means of a part on both sides, in whole µs.
fn micros(stack: &Stack, part: TimePart) -> (i64, i64) {
    let own = stack.parts.iter().find(|(own, _)| *own == part);
    let (one, other) = own
        .unwrap_or_else(|| panic!("{part:?} in {stack:#?}"))
        .1
        .sides;
    ((one / 1e3).round() as i64, (other / 1e3).round() as i64)
}

fn names(causes: &[Cause]) -> Vec<&str> {
    fn name(cause: &Cause) -> &str {
        match cause {
            Cause::Fact(fact) => &fact.name,
            Cause::Series(quantity) => quantity.name,
        }
    }
    causes.iter().map(name).collect()
}

fn adds_up(stack: &Stack) {
    let sum = |of: fn(&iodyno_model::Quantity) -> f64| {
        stack.parts.iter().map(|(_, it)| of(it)).sum::<f64>()
    };
    for (sum, whole) in [
        (sum(|it| it.sides.0), stack.whole.sides.0),
        (sum(|it| it.sides.1), stack.whole.sides.1),
        (sum(|it| it.difference.value), stack.whole.difference.value),
    ] {
        assert!(
            (sum - whole).abs() < 1e-6 * whole.abs().max(1.0),
            "{sum} {whole}"
        );
    }
}

fn with_device(costs: Costs, change: impl Fn(&mut DeviceCosts)) -> Costs {
    let mut device = costs.top.unwrap();
    change(&mut device);
    Costs {
        top: Some(device),
        lowest: Some(device),
        ..costs
    }
}

fn slow_device() -> Costs {
    with_device(reads(), |device| device.ns[0] = 240_000.0).taking(260_000.0)
}

#[test]
fn a_slower_device_is_the_part_of_the_difference() {
    let found = explained(&reads(), &slow_device());
    assert_eq!(found.most.len(), 1);
    assert_eq!(first(&found), Some(TimePart::Device));
    let stack = &found.stacks[0];
    adds_up(stack);
    // The trials are 0.9 % slower than these costs on average.
    assert_eq!(micros(stack, TimePart::Device), (81, 242));
    assert_eq!(micros(stack, TimePart::KernelCpu), (8, 8));
    assert_eq!(micros(stack, TimePart::Unknown), (10, 10));
    assert_eq!(stack.parts[0].1.certainty, Certainty::Certain);
    assert!((found.in_flight.sides.0 - 1.0).abs() < 1e-9);
    let by_little = found.in_flight.sides.1 / found.rate.sides.1 * 1e9;
    assert!(
        (by_little / found.time.sides.1 - 1.0).abs() < 1e-3,
        "{by_little}"
    );
}

#[test]
fn traced_requests_are_split_into_queue_and_device() {
    let traced = |queue: f64, service: f64, op_ns: f64| {
        let costs = with_device(reads(), |device| device.ns[0] = queue + service);
        let mut times = [(0.0, 0.0); 4];
        times[0] = (queue, service);
        Costs {
            traced: Some(times),
            ..costs
        }
        .taking(op_ns)
    };
    let baseline = traced(20_000.0, 60_000.0, 100_000.0);
    for (candidate, expected) in [
        (traced(180_000.0, 60_000.0, 260_000.0), TimePart::Queue),
        (traced(20_000.0, 220_000.0, 260_000.0), TimePart::Device),
    ] {
        let found = explained(&baseline, &candidate);
        assert_eq!(first(&found), Some(expected));
        adds_up(&found.stacks[0]);
    }
    // Without the trace of one side, requests are not told apart.
    assert_eq!(
        first(&explained(&baseline, &slow_device())),
        Some(TimePart::Device)
    );
}

#[test]
fn the_cpu_of_a_worker_with_one_op_in_flight_is_a_part_of_the_time() {
    let mut busy = reads();
    busy.cpu_ns = Some((2_000.0, 108_000.0));
    assert_eq!(
        first(&explained(&reads(), &busy.taking(200_000.0))),
        Some(TimePart::KernelCpu)
    );
    let mut waiting = reads();
    waiting.delay_ns = Some(300_000.0);
    let found = explained(&reads(), &waiting.taking(400_000.0));
    assert_eq!(first(&found), Some(TimePart::CpuWait));
    adds_up(&found.stacks[0]);
}

#[test]
fn the_cpu_of_a_worker_between_two_ops_is_not_in_their_time() {
    let costs = Costs {
        worker_ns: 150_000.0,
        cpu_ns: Some((52_000.0, 8_000.0)),
        ..reads()
    };
    let found = explained(&costs, &slow_device());
    assert_eq!(micros(&found.stacks[0], TimePart::UserCpu), (2, 2));
    assert_eq!(micros(&found.stacks[0], TimePart::Unknown), (10, 10));
}

#[test]
fn a_worker_that_never_sleeps_is_the_limit() {
    let busy = |kernel: f64| Costs {
        one_at_a_time: false,
        op_ns: 16.0 * (kernel + 1_000.0),
        worker_ns: kernel + 1_000.0,
        waits_for: [16.0 * (kernel + 1_000.0), 0.0, 0.0, 0.0],
        ops: 1e10 / (kernel + 1_000.0),
        cpu_ns: Some((1_000.0, kernel)),
        ..with_device(reads(), |device| device.ns[0] = 5_000.0)
    };
    let (mut trials, costs) = sides(&busy(4_000.0), &busy(9_000.0));
    for trial in &mut trials {
        let of_b = trial.dimension(Observation::CONFIGURATION) == "b";
        let value = if of_b { "libaio" } else { "io_uring" };
        trial.facts = vec![fact(FactClass::Workload, "engine", value)];
    }
    let found = of(&(trials, costs)).reasons.unwrap();
    assert_eq!(found.worker_limited, (true, true));
    let shares: f64 = found.worker.iter().map(|(_, it)| it.sides.0).sum();
    assert!((shares - 100.0).abs() < 1e-6);
    assert_eq!(names(&found.causes), ["engine"]);
}

#[test]
fn a_worker_that_polls_is_not_the_limit() {
    let busy = |ns: f64, polls| Costs {
        cpu_ns: Some((0.0, ns)),
        polls,
        ..reads().taking(ns)
    };
    for (polls, limited) in [(false, (true, true)), (true, (false, false))] {
        let reasons = explained(&busy(1e5, polls), &busy(2e5, polls));
        assert_eq!(reasons.worker_limited, limited, "{polls}");
    }
}

#[test]
fn file_operations_wait_for_the_device_in_all_steps_of_a_cycle() {
    let (workload, trial) = crate::testing::operations::write_sync_trial();
    let costs = super::costs(&workload, &trial).unwrap();
    assert!(costs.op_ns > 0.0);
    // It reads, writes and flushes: a step is a sync.
    let [reads, writes, discards, flushes] = costs.waits_for;
    assert_eq!([reads, writes, flushes], [costs.op_ns; 3]);
    assert_eq!(discards, 0.0);
}

#[test]
fn several_ops_in_flight_have_the_cpu_of_the_worker_beside_their_time() {
    // 16 ops in flight by one worker, of which each takes three times as long.
    let deep = Costs {
        one_at_a_time: false,
        op_ns: 300_000.0,
        waits_for: [300_000.0, 0.0, 0.0, 0.0],
        worker_ns: 300_000.0 / 16.0,
        ops: 1e10 * 16.0 / 300_000.0,
        ..with_device(reads(), |device| device.ns[0] = 250_000.0)
    };
    let (mut trials, costs) = sides(&reads(), &deep);
    for trial in &mut trials {
        let of_b = trial.dimension(Observation::CONFIGURATION) == "b";
        trial.facts = vec![fact(
            FactClass::Workload,
            "depth",
            if of_b { "16" } else { "1" },
        )];
    }
    let found = of(&(trials, costs)).reasons.unwrap();
    assert!((found.in_flight.sides.1 - 16.0).abs() < 1e-6);
    assert_eq!(found.stacks[0].parts.len(), 2);
    assert_eq!(micros(&found.stacks[0], TimePart::Above), (20, 50));
    assert_eq!(found.worker.len(), 4);
    // The ops are slower and the candidate is faster: no part of their time is the reason.
    assert!(found.most.is_empty() && !found.noise);
    assert_eq!(names(&found.causes), ["depth"]);
}

#[test]
fn a_cache_is_named_by_the_time_at_the_device() {
    let mut cached = with_device(reads(), |device| *device = DeviceCosts::default());
    cached.cpu_ns = Some((1_000.0, 3_000.0));
    let found = explained(&reads(), &cached.taking(5_000.0));
    assert_eq!(first(&found), Some(TimePart::Device));
    adds_up(&found.stacks[0]);
}

#[test]
fn syncs_are_parts_of_the_time_of_an_op_and_have_a_stack_of_their_own() {
    let writes = |syncs: f64, sync_ns: f64| {
        let costs = with_device(reads(), |device| {
            device.requests = [0.0, 2.0, 0.0, syncs];
            device.ns = [0.0, 200_000.0, 0.0, 500_000.0 * syncs];
        });
        let costs = Costs {
            direct: false,
            syncs: (syncs, sync_ns),
            ..costs
        };
        Costs {
            waits_for: [5_000.0, 0.0, 0.0, 0.0],
            ..costs.taking(5_000.0)
        }
    };
    let found = explained(&writes(0.0, 0.0), &writes(1.0, 900_000.0));
    assert_eq!(first(&found), Some(TimePart::SyncDevice));
    let stack = &found.stacks[0];
    adds_up(stack);
    assert_eq!(micros(stack, TimePart::SyncDevice), (0, 706));
    assert_eq!(micros(stack, TimePart::SyncAbove), (0, 202));
    // What the device wrote without anybody waiting for it.
    let background = found
        .stacks
        .iter()
        .find(|it| it.of == StackOf::Background)
        .unwrap();
    assert_eq!(micros(background, TimePart::Requests(1)), (202, 0));
    // Both sides have syncs: each is shown.
    let found = explained(&writes(0.5, 300_000.0), &writes(1.0, 900_000.0));
    let sync = found
        .stacks
        .iter()
        .find(|it| it.of == StackOf::Sync((0.5, 1.0)))
        .unwrap();
    adds_up(sync);
    assert_eq!(micros(sync, TimePart::Requests(3)), (336, 504));
}

#[test]
fn read_ahead_is_in_the_background_and_not_in_the_time_of_an_op() {
    let ahead = with_device(reads(), |device| device.ns[0] = 2_000_000.0).taking(150_000.0);
    let found = explained(&reads(), &ahead);
    let stack = &found.stacks[0];
    adds_up(stack);
    assert_eq!(micros(stack, TimePart::Device), (81, 141));
    let background = found
        .stacks
        .iter()
        .find(|it| it.of == StackOf::Background)
        .unwrap();
    assert_eq!(micros(background, TimePart::Requests(0)), (0, 1875));
}

#[test]
fn the_rate_of_an_open_loop_is_given() {
    let open = |costs: Costs| Costs {
        scheduled: true,
        worker_ns: 1e6,
        ops: 10_000.0,
        ..costs
    };
    let (mut trials, costs) = sides(&open(reads()), &open(slow_device()));
    for (trial, costs) in trials.iter_mut().zip(&costs) {
        let mean = Metric::time("read.mean");
        trial
            .figures
            .push(figure(mean.clone(), costs.as_ref().unwrap().op_ns));
        trial.primary = Some(mean);
    }
    let found = of(&(trials, costs)).reasons.unwrap();
    assert!(found.rate_given);
    assert_eq!(first(&found), Some(TimePart::Device));
    assert!((found.rate.sides.0 / found.rate.sides.1 - 1.0).abs() < 0.02);
}

#[test]
fn facts_are_candidates_only_if_they_act_on_a_part_that_changed() {
    let (mut trials, costs) = sides(&reads(), &slow_device());
    for trial in &mut trials {
        let b = trial.dimension(Observation::CONFIGURATION) == "b";
        trial.facts = vec![
            fact(
                FactClass::Target,
                "delay.read",
                if b { "3.00 ms" } else { "0 ns" },
            ),
            fact(
                FactClass::Workload,
                "cpus_allowed",
                if b { "4" } else { "2" },
            ),
        ];
    }
    let found = of(&(trials, costs));
    // Another fact than the target's differs.
    assert!(matches!(found.of.verdict, Verdict::NotComparable { .. }));
    assert_eq!(names(&found.reasons.unwrap().causes), ["delay.read"]);
}

#[test]
fn read_ahead_is_no_candidate_for_jobs_that_only_write() {
    for (bytes, expected) in [
        ([4096.0, 0.0, 0.0], &["read_ahead_kb"][..]),
        ([0.0, 4096.0, 0.0], &[]),
        ([4096.0, 4096.0, 0.0], &["read_ahead_kb"]),
    ] {
        let moving = |costs: Costs| Costs { bytes, ..costs };
        let (mut trials, costs) = sides(&moving(reads()), &moving(slow_device()));
        for trial in &mut trials {
            let b = trial.dimension(Observation::CONFIGURATION) == "b";
            let value = if b { "4" } else { "128" };
            trial.facts = vec![fact(FactClass::Target, "read_ahead_kb", value)];
        }
        let found = of(&(trials, costs));
        assert_eq!(names(&found.reasons.unwrap().causes), expected, "{bytes:?}");
    }
}

#[test]
fn series_are_candidates_in_the_direction_of_the_part_and_facts_that_are_clear_come_first() {
    let with_others = |costs: Costs, bytes: f64| Costs {
        others: Some([bytes, 0.0]),
        ..with_device(costs, |device| device.bytes[0] = 4096.0 + bytes)
    };
    let (alone, shared) = (
        with_others(reads(), 0.0),
        with_others(slow_device(), 65_536.0),
    );
    let (mut trials, costs) = sides(&alone, &shared);
    let found = of(&(trials.clone(), costs.clone())).reasons.unwrap();
    assert_eq!(names(&found.causes)[0], "other_bytes");
    // The device is slower where others do less: they are not the reason.
    let (idle, busy) = (
        with_others(slow_device(), 0.0),
        with_others(reads(), 65_536.0),
    );
    assert!(!names(&explained(&busy, &idle).causes).contains(&"other_bytes"));
    for trial in &mut trials {
        let b = trial.dimension(Observation::CONFIGURATION) == "b";
        trial.facts = vec![
            fact(FactClass::Target, "setup", if b { "fio" } else { "true" }),
            fact(
                FactClass::Target,
                "scheduler",
                if b { "bfq" } else { "none" },
            ),
        ];
    }
    let found = of(&(trials, costs)).reasons.unwrap();
    assert_eq!(names(&found.causes)[..2], ["scheduler", "other_bytes"]);
    assert_eq!(found.causes.len(), 3);
}

#[test]
fn options_of_a_layer_are_under_test_and_other_facts_of_one_side_are_not() {
    let (mut trials, costs) = sides(&reads(), &slow_device());
    for trial in &mut trials {
        if trial.dimension(Observation::CONFIGURATION) == "b" {
            trial.facts = vec![
                fact(FactClass::Target, "write cache", "write through"),
                fact(FactClass::Target, "delay.read", "3.00 ms"),
            ];
        }
    }
    let under_test = |question: &Question| -> Vec<(String, bool)> {
        let found = explain("test", &trials, &costs, question).unwrap();
        let causes = found.comparisons[0].reasons.clone().unwrap().causes;
        let fact = |cause| match cause {
            Cause::Fact(fact) => Some((fact.name, fact.axis)),
            Cause::Series(_) => None,
        };
        causes.into_iter().filter_map(fact).collect()
    };
    let own = |axis| {
        vec![
            ("delay.read".to_owned(), axis),
            ("write cache".to_owned(), false),
        ]
    };
    assert_eq!(under_test(&Question::default()), own(true));
}

#[test]
fn what_the_device_does_for_other_processes_is_uncertain() {
    let with_others = |costs: Costs, bytes: f64| Costs {
        others: Some([bytes, 0.0]),
        ..with_device(costs, |device| device.bytes[0] = 4096.0 + bytes)
    };
    let found = explained(
        &with_others(reads(), 0.0),
        &with_others(slow_device(), 65_536.0),
    );
    let (part, device) = &found.stacks[0].parts[0];
    assert_eq!(*part, TimePart::Device);
    // 16 of 17 bytes are those of others: more than the difference.
    assert_eq!(device.uncertain.0, 0.0);
    assert!((device.uncertain.1 / device.sides.1 - 16.0 / 17.0).abs() < 1e-9);
    assert_eq!(device.certainty, Certainty::Likely);
    adds_up(&found.stacks[0]);
}

#[test]
fn a_wait_for_a_cpu_while_the_device_works_is_uncertain() {
    let busy = Costs {
        delay_ns: Some(300_000.0),
        ..with_device(reads(), |device| device.ns[0] = 200_000.0).taking(400_000.0)
    };
    // Of 400 µs, the worker computes for 10 and waits for a CPU for 300; the device has a request for 200.
    let split = split(&busy, Form::of(std::iter::once(&busy)));
    let of = |part| {
        let mut own = split.op.iter();
        let own = own.find(|it| it.part == part).unwrap();
        (own.ns, own.uncertain)
    };
    assert_eq!(of(TimePart::Device), (90_000.0, 110_000.0));
    assert_eq!(of(TimePart::CpuWait), (300_000.0, 110_000.0));
    assert_eq!(split.overlap, 110_000.0);
    let found = of_sides(&reads(), &busy);
    let note = "whether an op waited for a CPU or for the device";
    assert!(
        found.lacking.iter().any(|it| it.starts_with(note)),
        "{:?}",
        found.lacking
    );
    assert!(
        !of_sides(&reads(), &slow_device())
            .lacking
            .iter()
            .any(|it| it.starts_with(note))
    );
}

#[test]
fn syncs_of_one_side_are_the_reason_why_the_cpu_time_of_an_op_is_not_known() {
    let synced = Costs {
        syncs: (1.0, 50_000.0),
        ..reads()
    }
    .taking(100_000.0);
    let why = "CPU time of an op alone: only one side has syncs";
    let has = |found: &Explained| found.lacking.iter().any(|it| it.starts_with(why));
    let one = of_sides(&reads(), &synced);
    assert!(has(&one), "{:?}", one.lacking);
    // The worker has its CPU time on both sides.
    assert_eq!(one.reasons.unwrap().worker.len(), 4);
    assert!(!has(&of_sides(&synced, &synced)));
}

#[test]
fn exchanged_sides_have_the_opposite_differences_and_the_same_parts() {
    let mut slower = slow_device();
    slower.cpu_ns = Some((3_000.0, 20_000.0));
    let (there, back) = (explained(&reads(), &slower), explained(&slower, &reads()));
    // The sides have different noise, which is exchanged as well.
    assert_eq!(first(&there), first(&back));
    let both = there.stacks[0].parts.iter().zip(&back.stacks[0].parts);
    for ((part, one), (same, other)) in both {
        assert_eq!(part, same);
        assert_eq!(one.certainty, other.certainty, "{part:?}");
        assert_eq!(
            one.difference.value > 0.0,
            other.difference.value < 0.0,
            "{part:?}"
        );
    }
}

#[test]
fn equal_sides_have_nothing_to_explain() {
    let found = of(&sides(&reads(), &reads()));
    assert!(!found.of.decided());
    let reasons = found.reasons.unwrap();
    assert!(reasons.most.is_empty() && reasons.causes.is_empty() && !reasons.noise);
}

#[test]
fn parts_that_are_all_noise_are_not_named() {
    let (trials, mut costs) = sides(&reads(), &slow_device());
    // The device counts nothing in common with the ops.
    for (place, costs) in costs.iter_mut().enumerate() {
        let costs = costs.as_mut().unwrap();
        let share = if place % 2 == 0 { 0.0 } else { 0.9 };
        let ns = costs.op_ns * share;
        for device in [&mut costs.top, &mut costs.lowest] {
            device.as_mut().unwrap().ns[0] = ns;
        }
    }
    let odd = |place: usize| place % 2 == 1;
    for place in (0..costs.len()).filter(|place| odd(*place)) {
        costs[place].as_mut().unwrap().cpu_ns = Some((0.0, 0.0));
    }
    let found = of(&(trials, costs)).reasons.unwrap();
    assert!(
        found.noise || first(&found).is_some_and(|part| part == TimePart::Unknown),
        "{found:#?}"
    );
}

#[test]
fn traced_and_untraced_trials_are_not_explained() {
    let (mut trials, costs) = sides(&reads(), &reads().taking(110_000.0));
    for trial in &mut trials {
        if trial.dimension(Observation::CONFIGURATION) == "b" {
            trial.facts = vec![fact(FactClass::Host, "requests traced", "yes")];
        }
    }
    let why = of(&(trials, costs)).reasons.unwrap_err();
    assert!(why.contains("--trace block"), "{why}");
}

#[test]
fn imported_trials_name_what_they_lack() {
    let values: Vec<f64> = (0..10).map(|value| 100.0 + f64::from(value)).collect();
    let trials: Vec<Observation> = ["a", "b"]
        .into_iter()
        .flat_map(|name| imported(name, "w", &values))
        .collect();
    let costs = vec![None; trials.len()];
    let why = of(&(trials, costs)).reasons.unwrap_err();
    assert!(
        why.contains("imported") && why.contains("telemetry"),
        "{why}"
    );
}

#[test]
fn without_counters_of_a_side_the_rest_is_named_and_what_is_missing() {
    let mut uncounted = reads().taking(400_000.0);
    (uncounted.top, uncounted.lowest) = (None, None);
    let found = of(&sides(&reads(), &uncounted));
    assert!(
        found
            .lacking
            .iter()
            .any(|it| it.contains("device counters")),
        "{:?}",
        found.lacking
    );
    let reasons = found.reasons.unwrap();
    assert_eq!(first(&reasons), Some(TimePart::AsleepOrDevice));
    adds_up(&reasons.stacks[0]);
    let (_, unknown) = reasons.stacks[0].parts.last().unwrap();
    assert_eq!(unknown.words, "asleep, at the device or elsewhere");
    // Without CPU times, the rest is all of it.
    let short = |costs: Costs| Costs {
        cpu_ns: None,
        delay_ns: None,
        ..costs
    };
    let found = of(&sides(&short(reads()), &short(uncounted)));
    let reasons = found.reasons.unwrap();
    assert_eq!(reasons.stacks[0].parts.len(), 1);
    assert!(reasons.worker.is_empty());
}

#[test]
fn trials_of_separate_runs_are_at_most_likely() {
    let (trials, costs) = sides(&reads(), &slow_device());
    let unpaired: Vec<Observation> = trials
        .iter()
        .map(|trial| {
            let name = trial.dimension(Observation::CONFIGURATION);
            observation(name, "w", trial.figures[0].value)
        })
        .collect();
    let found = of(&(unpaired, costs));
    assert!(found.lacking.iter().any(|it| it.contains("common rounds")));
    let reasons = found.reasons.unwrap();
    let (part, quantity) = &reasons.stacks[0].parts[0];
    assert_eq!(
        (*part, quantity.certainty),
        (TimePart::Device, Certainty::Likely)
    );
    let (low, high) = quantity.difference.interval.unwrap();
    assert!(low < quantity.difference.value && quantity.difference.value < high);
}

#[test]
fn a_percentile_is_explained_by_the_mean() {
    let (mut trials, costs) = sides(&reads(), &slow_device());
    for (trial, costs) in trials.iter_mut().zip(&costs) {
        let p99 = Metric::time("read.p99");
        let value = costs.as_ref().unwrap().op_ns * 2.0;
        trial.figures.push(figure(p99.clone(), value));
        trial.primary = Some(p99);
    }
    assert_eq!(
        first(&of(&(trials, costs)).reasons.unwrap()),
        Some(TimePart::Device)
    );
}

#[test]
fn jobs_whose_directions_differ_have_a_stack_each() {
    let both = |write_ns: f64| {
        let of = |name: &str, kind: usize, op_ns: f64| {
            let mut costs = with_device(reads(), |device| {
                device.ns = [80_000.0, write_ns - 20_000.0, 0.0, 0.0]
            });
            costs = costs.taking(op_ns);
            costs.waits_for = [0.0; 4];
            costs.waits_for[kind] = op_ns;
            costs.job = Some(name.to_owned());
            costs
        };
        let jobs = vec![of("reader", 0, 100_000.0), of("writer", 1, write_ns)];
        let mut whole = of("", 0, (100_000.0 + write_ns) / 2.0);
        whole.job = None;
        whole.jobs = jobs;
        whole
    };
    let found = explained(&both(200_000.0), &both(600_000.0));
    let names: Vec<_> = found
        .stacks
        .iter()
        .map(|stack| stack.of.clone())
        .take(2)
        .collect();
    assert_eq!(
        names,
        [
            StackOf::Job("reader".to_owned()),
            StackOf::Job("writer".to_owned())
        ]
    );
    assert_eq!(micros(&found.stacks[0], TimePart::Device), (81, 81));
    assert_eq!(micros(&found.stacks[1], TimePart::Device), (182, 585));
    found.stacks.iter().for_each(adds_up);
}

#[test]
fn a_command_waits_only_for_requests_that_it_causes() {
    let (workload, mut trial) = crate::testing::operations::write_sync_trial();
    for clone in &mut trial.parts[0].clones {
        let result = clone
            .directions
            .iter()
            .find(|it| it.direction == Direction::Op);
        let run = DirectionResult {
            direction: Direction::Run,
            ..result.unwrap().clone()
        };
        clone.directions.retain(|it| it.direction == Direction::Op);
        clone.directions.push(run);
        clone.command = Some(CommandResult::default());
    }
    let mut costs = |moved: Option<[u64; 2]>, cpu_share: f64| {
        for clone in &mut trial.parts[0].clones {
            let spans = clone.direction(Direction::Run).unwrap().service.sum_ns() as f64;
            clone.cpu.user_ns = (cpu_share * spans) as u64;
            clone.cpu.system_ns = 0;
            clone.command.as_mut().unwrap().moved = moved;
        }
        super::costs(&workload, &trial).unwrap()
    };
    let waits = |found: Costs| found.waits_for.map(|ns| ns > 0.0);
    assert_eq!(waits(costs(Some([0, 0]), 0.5)), [false; 4]);
    assert_eq!(waits(costs(Some([9, 0]), 0.5)), [true, false, false, false]);
    assert_eq!(waits(costs(Some([0, 9]), 0.5)), [false, true, false, true]);
    // Trials of earlier versions.
    assert_eq!(waits(costs(None, 0.5)), [true, true, false, true]);
    assert!(costs(None, 0.5).one_at_a_time);
    assert!(!costs(None, 1.5).one_at_a_time);
}

#[test]
fn the_costs_of_a_trial_are_those_of_its_counters() {
    let (workload, trial) = crate::testing::four_clones();
    let costs = super::costs(&workload, &trial).unwrap();
    let ops = 4.0 * (692_000.0 + 230_500.0);
    assert_eq!(costs.ops, ops);
    assert!((costs.worker_ns - 80e9 / ops).abs() < 1e-6);
    assert!(!costs.one_at_a_time);
    let (user, system) = costs.cpu_ns.unwrap();
    assert!((user - 6e9 / ops).abs() < 1e-6 && (system - 18e9 / ops).abs() < 1e-6);
    let device = costs.lowest.unwrap();
    assert!((device.requests[0] - 4.0 * 692_000.0 / ops).abs() < 1e-9);
    assert!((device.ns[1] - 20_100e6 / ops).abs() < 1e-3);
    // Reads and direct writes wait for requests of their kind, and writes for reads of the rest of a block.
    assert!(costs.waits_for[0] >= costs.waits_for[1] && costs.waits_for[1] > 0.0);
    assert!(
        (costs.waits_for[0] - costs.op_ns).abs() < 1e-6,
        "{:?}",
        costs.waits_for
    );
    assert_eq!(costs.waits_for[3], 0.0);
    // Without telemetry, what is only sampled is unknown.
    assert_eq!((costs.refaults, costs.others), (None, None));
}

#[test]
fn without_rows_of_other_processes_they_did_no_io_if_they_were_looked_for() {
    let (workload, mut trial) = crate::testing::four_clones();
    let mut others = |telemetry: Recording| {
        trial.telemetry = telemetry.done();
        super::costs(&workload, &trial).unwrap().others
    };
    let disks = || recording().seconds(SeriesKind::Disk, 3, |_| vec![("sda", vec![("reads", 5)])]);
    let fio = || {
        disks().seconds(SeriesKind::Others, 3, |_| {
            vec![("fio", vec![("read_bytes", 1 << 30)])]
        })
    };
    assert_eq!(others(recording()), None);
    assert_eq!(others(disks()), Some([0.0, 0.0]));
    assert!(others(fio()).is_some_and(|bytes| bytes[0] > 0.0 && bytes[1] == 0.0));
    // They could not be read.
    assert_eq!(
        others(disks().gap(0, SeriesKind::Others, "not permitted")),
        None
    );
}

#[test]
fn the_requests_of_a_file_server_are_a_part_of_the_time() {
    let (workload, mut trial) = crate::testing::four_clones();
    let row = |requests| {
        vec![
            ("requests", requests),
            ("queueing_time", requests * 1000),
            ("service_time", requests * 20_000),
        ]
    };
    let all = recording().seconds(SeriesKind::Requests, 3, |_| {
        vec![("all", row(1000)), ("READ", row(900))]
    });
    trial.telemetry = all.done();
    let costs = super::costs(&workload, &trial).unwrap();
    let requests = costs.requests.unwrap();
    let per_second = requests.count * costs.ops / costs.seconds;
    assert!((per_second - 1000.0).abs() < 1e-6, "{per_second}");
    assert!((requests.service_ns / requests.count - 20_000.0).abs() < 1e-6);
    let serving = Costs {
        requests: Some(iodyno_model::RequestCosts {
            count: 1.0,
            queueing_ns: 200_000.0,
            service_ns: 100_000.0,
        }),
        ..reads().taking(400_000.0)
    };
    let found = explained(&reads(), &serving);
    assert_eq!(first(&found), Some(TimePart::Server));
    assert_eq!(micros(&found.stacks[0], TimePart::Server), (0, 300));
}

#[test]
fn requests_that_wait_for_a_server_without_a_device_are_outside_of_it() {
    let serving = |service_ns: f64, op_ns: f64| Costs {
        one_at_a_time: false,
        top: None,
        lowest: None,
        requests: Some(iodyno_model::RequestCosts {
            count: 1.0,
            queueing_ns: 0.0,
            service_ns,
        }),
        ..reads().taking(op_ns)
    };
    // Sixteen at a time against one after the other.
    let found = explained(
        &serving(200_000.0, 220_000.0),
        &serving(200_000.0, 3_200_000.0),
    );
    assert_eq!(first(&found), Some(TimePart::OutsideServer));
    assert_eq!(micros(&found.stacks[0], TimePart::Server), (200, 200));
    adds_up(&found.stacks[0]);
}

#[test]
fn a_cycle_has_the_step_that_makes_the_difference() {
    let steps = |sync_ns: f64| Costs {
        steps: vec![("create", 10_000.0), ("sync", sync_ns)],
        ..with_device(reads(), |device| device.ns[0] = sync_ns - 10_000.0)
            .taking(sync_ns + 10_000.0)
    };
    let found = explained(&steps(90_000.0), &steps(250_000.0));
    let (step, by) = found.step.unwrap();
    assert_eq!((step, by.round()), (TimePart::Step("sync"), 160_000.0));
    assert_eq!(first(&found), Some(TimePart::Device));
    assert_eq!(explained(&reads(), &slow_device()).step, None);
}

#[test]
fn options_of_the_file_systems_that_differ_are_not_causes_of_their_own() {
    let (mut trials, costs) = sides(&reads(), &slow_device());
    for trial in &mut trials {
        let b = trial.dimension(Observation::CONFIGURATION) == "b";
        let system = if b { "fuse.zfs" } else { "ext4" };
        trial.facts = vec![fact(FactClass::Target, "file system", system)];
        let own = [
            ("zfs.origin", "new"),
            ("fuse.zfs options", "user_id=0"),
            ("rotational", "1"),
        ];
        let own = own.map(|(name, value)| fact(FactClass::Target, name, value));
        trial.facts.extend(own.into_iter().filter(|_| b));
        let layers = if b { "zfs on loop" } else { "ext4 on loop" };
        trial.facts.push(fact(FactClass::Target, "layers", layers));
    }
    let found = of(&(trials, costs)).reasons.unwrap();
    assert_eq!(names(&found.causes), ["file system"]);
}

#[test]
fn simulated_disks_have_queue_and_service_times_and_moves() {
    let (workload, mut trial) = crate::testing::four_clones();
    let before = super::costs(&workload, &trial).unwrap();
    assert_eq!((before.moves, before.simulated), (None, false));
    let ops = before.ops;
    let count = ops as u64;
    let disk = |busy: u64| iodyno_model::SimulatedDisk {
        span_ns: 10_000_000_000,
        requests: [count, 0],
        bytes: [4096 * count, 0],
        pending_ns: [9_000_000_000, 0],
        commands: count / 2,
        moves: count / 4,
        busy_ns: busy,
        service_ns: busy,
    };
    trial.parts[0].host.devices.clear();
    trial.parts[0].host.simulated = vec![disk(3_000_000_000), disk(6_000_000_000)];
    let costs = super::costs(&workload, &trial).unwrap();
    let lowest = costs.lowest.unwrap();
    assert!((lowest.requests[0] - 2.0).abs() < 1e-9);
    assert!((lowest.busiest - 6.0 / 4.5).abs() < 1e-9);
    let (queue, service) = costs.traced.unwrap()[0];
    assert!((queue * ops - 9e9).abs() < 1.0 && (service * ops - 9e9).abs() < 1.0);
    assert!((costs.moves.unwrap() - 0.5).abs() < 0.01);
}

#[test]
fn a_simulated_device_without_counters_takes_all_of_the_time() {
    let simulated = |op_ns: f64| {
        Costs {
            simulated: true,
            cpu_ns: None,
            delay_ns: None,
            top: None,
            lowest: None,
            ..reads()
        }
        .taking(op_ns)
    };
    let found = explained(&simulated(100_000.0), &simulated(200_000.0));
    assert_eq!(first(&found), Some(TimePart::Device));
    assert_eq!(micros(&found.stacks[0], TimePart::Above), (0, 0));
}

/// Trials of a family `f` of three workloads; `slow`: which of them have a slower device on the side `b`.
fn family(slow: [bool; 3]) -> Explanation {
    let (waits, slow_side) = (reads().taking(200_000.0), slow_device());
    let (mut trials, mut costs) = (Vec::new(), Vec::new());
    for (name, slow) in ["one", "two", "three"].iter().zip(slow) {
        let (mut own, own_costs) = sides(&reads(), if slow { &slow_side } else { &waits });
        for trial in &mut own {
            let dimensions = &mut trial.dimensions;
            dimensions.insert(Observation::WORKLOAD.to_owned(), (*name).to_owned());
            dimensions.insert(Observation::FAMILY.to_owned(), "f".to_owned());
        }
        trials.extend(own);
        costs.extend(own_costs);
    }
    explain("test", &trials, &costs, &Question::default()).unwrap()
}

#[test]
fn a_family_has_the_part_of_most_members_and_their_times_together() {
    let found = family([true, false, true]);
    let [family] = found.families.as_slice() else {
        panic!("{found:#?}");
    };
    assert_eq!(
        (family.of.row.as_slice(), family.members.len()),
        (&["f".to_owned()][..], 3)
    );
    assert_eq!(family.most, Some((TimePart::Device, 2)));
    assert_eq!(family.largest, None);
    let stack = family.stack.as_ref().unwrap();
    adds_up(stack);
    // Geometric means, like the ratio of the family: 100 µs of each member, and 260, 200 and 260 µs.
    let (one, other) = stack.whole.sides;
    let ratio = family.of.ratio.unwrap().value;
    assert!(
        (one / other / ratio - 1.0).abs() < 0.005,
        "{one} {other} {ratio}"
    );
    // The device has 92, 40 and 92 % of the latter.
    let (_, device) = &stack.parts[0];
    let share = device.sides.1 / stack.whole.sides.1;
    assert!(
        (share - (0.923 + 0.4 + 0.923) / 3.0).abs() < 0.001,
        "{share}"
    );
    assert!(found.comparisons.iter().all(|it| family.has(it)));
}

#[test]
fn a_family_without_a_common_part_has_the_largest_of_its_times_together() {
    let (cpu, device) = (reads().taking(200_000.0), slow_device());
    let (mut trials, mut costs) = (Vec::new(), Vec::new());
    for (name, slow) in [("one", &cpu), ("two", &device)] {
        let (mut own, own_costs) = sides(&reads(), slow);
        for trial in &mut own {
            let dimensions = &mut trial.dimensions;
            dimensions.insert(Observation::WORKLOAD.to_owned(), name.to_owned());
            dimensions.insert(Observation::FAMILY.to_owned(), "f".to_owned());
        }
        trials.extend(own);
        costs.extend(own_costs);
    }
    let found = explain("test", &trials, &costs, &Question::default()).unwrap();
    let family = &found.families[0];
    assert_eq!(family.most, None);
    let (part, by) = family.largest.unwrap();
    assert_eq!(part, TimePart::Device);
    assert!(by > 0.0, "{by}");
}

#[test]
fn members_that_share_no_part_have_none_in_common() {
    let mut found = family([true, false, false]);
    assert_eq!(found.families.remove(0).most, Some((TimePart::Unknown, 2)));
}

#[test]
fn too_few_rounds_leave_parts_at_most_likely() {
    let (trials, costs) = sides(&reads(), &slow_device());
    let kept = trials.into_iter().zip(costs);
    let kept = kept.filter(|(trial, _)| trial.round.is_some_and(|round| round < 4));
    let found = of(&kept.unzip());
    let reasons = found.reasons.unwrap();
    assert_eq!(reasons.stacks[0].parts[0].1.certainty, Certainty::Likely);
}

#[test]
fn series_that_change_in_few_rounds_are_not_named() {
    let (trials, mut costs) = sides(&reads(), &slow_device());
    let rounds = ROUNDS as usize;
    for (place, costs) in costs.iter_mut().flatten().enumerate() {
        // Two of twelve rounds.
        let some = (rounds..rounds + 2).contains(&place);
        costs.refaults = Some(if some { 4096.0 * place as f64 } else { 0.0 });
    }
    let found = of(&(trials, costs)).reasons.unwrap();
    assert!(
        !names(&found.causes).contains(&"refaults"),
        "{:?}",
        found.causes
    );
}

prop_compose! {
    fn devices()(
        low in prop::array::uniform4(0.0..1e6_f64),
        top in prop::array::uniform4(0.0..1e6_f64),
        layered in any::<bool>(),
    ) -> (DeviceCosts, DeviceCosts) {
        let device = |ns| DeviceCosts { ns, ..DeviceCosts::default() };
        (device(low), device(if layered { top } else { low }))
    }
}

prop_compose! {
    fn costs()(
        times in prop::array::uniform6(0.0..1e6_f64),
        waits in prop::array::uniform4(0.0..1e6_f64),
        traced in prop::option::of(prop::array::uniform4((0.0..1e6_f64, 0.0..1e6_f64))),
        devices in prop::option::of(devices()),
        (one, cpu, syncs, simulated) in any::<(bool, bool, bool, bool)>(),
    ) -> Costs {
        let [op_ns, beyond, user, kernel, delay, sync] = times;
        Costs {
            op_ns,
            worker_ns: op_ns + beyond,
            one_at_a_time: one,
            cpu_ns: cpu.then_some((user, kernel)),
            delay_ns: cpu.then_some(delay),
            syncs: if syncs { (0.5, sync) } else { (0.0, 0.0) },
            waits_for: waits,
            lowest: devices.map(|it| it.0),
            top: devices.map(|it| it.1),
            traced,
            simulated,
            ..Costs::default()
        }
    }
}

proptest! {
    #[test]
    fn parts_add_up_to_the_whole_and_none_is_negative(costs in costs()) {
        let form = Form::of(std::iter::once(&costs));
        let split = split(&costs, form);
        let sum = |parts: &[Timed]| parts.iter().map(|it| it.ns).sum::<f64>();
        prop_assert!((sum(&split.op) - costs.whole_ns()).abs() < 1e-3, "{:?}", split.op);
        let all = split.op.iter().chain(&split.syncs).chain(&split.background);
        for it in all {
            prop_assert!(it.ns >= -1e-6 && it.uncertain >= 0.0, "{it:?}");
        }
        if costs.syncs.0 > 0.0 {
            prop_assert!((sum(&split.syncs) * costs.syncs.0 - costs.syncs.1).abs() < 1e-3);
        }
        if let Some(worker) = worker(&costs) {
            prop_assert!((worker.iter().sum::<f64>() - costs.worker_ns).abs() < 1e-3);
        }
    }
}
