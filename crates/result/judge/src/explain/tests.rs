//! Explanations of made-up trials.

use iodyno_model::{
    Cause, Change, Costs, DeviceCosts, Explained, FactClass, Metric, Observation, Question,
    SeriesKind, Verdict,
};

use super::explain;
use crate::testing::observations::{fact, figure, imported, observation, rounds};
use crate::testing::telemetry::{Recording, recording};

/// A trial of one worker: reads of 4 KiB with one request each, 100 µs: 2 + 8 µs of CPU, 80 µs at the device, 10 µs
/// elsewhere.
fn reads() -> Costs {
    let device = DeviceCosts {
        requests: [1.0, 0.0, 0.0, 0.0],
        bytes: [4096.0, 0.0, 0.0],
        ns: [80_000.0, 0.0, 0.0, 0.0],
        busy: 0.8,
        in_flight: 0.8,
        ..DeviceCosts::default()
    };
    Costs {
        seconds: 10.0,
        workers: 1.0,
        depth: 1.0,
        one_at_a_time: true,
        direct: true,
        bytes: [4096.0, 0.0, 0.0],
        cpu_ns: Some((2_000.0, 8_000.0)),
        delay_ns: Some(0.0),
        top: Some(device),
        lowest: Some(device),
        interrupts: Some(1.0),
        regimes: 1.0,
        ..Costs::default()
    }
    .taking(100_000.0)
}

trait Taking {
    fn taking(self, op_ns: f64) -> Self;
}

impl Taking for Costs {
    /// Ops of this time, one after the other.
    fn taking(self, op_ns: f64) -> Costs {
        let worker_ns = op_ns + self.syncs.1;
        Costs {
            op_ns,
            worker_ns,
            ops: self.seconds * 1e9 * self.workers / worker_ns,
            ..self
        }
    }
}

/// Ten rounds of both sides, each a little faster or slower than these costs.
fn sides(baseline: &Costs, candidate: &Costs) -> (Vec<Observation>, Vec<Option<Costs>>) {
    let (mut trials, mut costs) = (Vec::new(), Vec::new());
    for (name, own) in [("a", baseline), ("b", candidate)] {
        let scales = (0..ROUNDS).map(|round| 1.0 + 0.002 * f64::from(round * 7 % 10));
        let scaled: Vec<Costs> = scales.map(|scale| slowed(own, scale)).collect();
        let rate = |costs: &Costs| costs.ops / costs.seconds;
        trials.extend(rounds(
            name,
            "w",
            &scaled.iter().map(rate).collect::<Vec<_>>(),
        ));
        costs.extend(scaled.into_iter().map(Some));
    }
    (trials, costs)
}

const ROUNDS: u32 = 12;

/// All times longer by a factor.
fn slowed(costs: &Costs, scale: f64) -> Costs {
    let device = |device: DeviceCosts| DeviceCosts {
        ns: device.ns.map(|ns| ns * scale),
        ..device
    };
    Costs {
        op_ns: costs.op_ns * scale,
        worker_ns: costs.worker_ns * scale,
        ops: costs.ops / scale,
        syncs: (costs.syncs.0, costs.syncs.1 * scale),
        cpu_ns: costs
            .cpu_ns
            .map(|(user, system)| (user * scale, system * scale)),
        delay_ns: costs.delay_ns.map(|ns| ns * scale),
        top: costs.top.map(device),
        lowest: costs.lowest.map(device),
        ..costs.clone()
    }
}

fn of(trials: &(Vec<Observation>, Vec<Option<Costs>>)) -> Explained {
    let found = explain("test", &trials.0, &trials.1, &Question::default()).unwrap();
    let [only] = found.comparisons.as_slice() else {
        panic!("{found:#?}");
    };
    only.clone()
}

fn explained(baseline: &Costs, candidate: &Costs) -> Explained {
    of(&sides(baseline, candidate))
}

/// The name of the first term and its share in percent.
fn first(explained: &Explained) -> (&str, f64) {
    let term = explained.reasons().next();
    let term = term.unwrap_or_else(|| panic!("{explained:#?}"));
    (
        term.contrast.name.as_str(),
        (term.share.unwrap() * 100.0).round(),
    )
}

fn factors_add_up(explained: &Explained) {
    let sum: f64 = explained
        .terms
        .iter()
        .map(|term| term.factor.value.ln())
        .sum();
    let ratio = explained.ratio.unwrap().value.ln();
    // Terms below the threshold are left out.
    assert!((sum - ratio).abs() < 0.02, "{sum} {ratio} {explained:#?}");
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

#[test]
fn a_slower_device_is_named_by_the_time_of_a_request() {
    let slower = with_device(reads(), |device| device.ns[0] = 240_000.0).taking(260_000.0);
    let found = explained(&reads(), &slower);
    assert_eq!(first(&found), ("read_await", 100.0));
    factors_add_up(&found);
    assert!(!found.is_unexplained());
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
        (traced(180_000.0, 60_000.0, 260_000.0), "read_queue_await"),
        (traced(20_000.0, 220_000.0, 260_000.0), "read_service_await"),
    ] {
        let found = explained(&baseline, &candidate);
        assert_eq!(first(&found), (expected, 100.0));
        factors_add_up(&found);
    }
    // Without the trace of one side, requests are not told apart.
    let untraced = with_device(reads(), |device| device.ns[0] = 240_000.0).taking(260_000.0);
    assert_eq!(
        first(&explained(&baseline, &untraced)),
        ("read_await", 100.0)
    );
}

#[test]
fn more_bytes_at_the_devices_are_named_if_a_byte_takes_as_long_as_before() {
    let more = with_device(reads(), |device| {
        // Three times as many bytes in requests three times as large.
        device.bytes[0] = 3.0 * 4096.0;
        device.ns[0] = 240_000.0;
    });
    let found = explained(&reads(), &more.taking(260_000.0));
    assert_eq!(first(&found), ("read_amplification", 100.0));
    factors_add_up(&found);
}

#[test]
fn more_requests_are_named_if_each_takes_as_long_as_before() {
    let more = with_device(reads(), |device| {
        device.requests[0] = 3.0;
        // Small ones.
        device.bytes[0] = 4096.0;
        device.ns[0] = 240_000.0;
    });
    let found = explained(&reads(), &more.taking(260_000.0));
    assert_eq!(first(&found), ("read_requests", 100.0));
    factors_add_up(&found);
}

#[test]
fn cpu_time_and_waits_for_a_cpu_are_parts_of_the_time() {
    let mut busy = reads();
    busy.cpu_ns = Some((2_000.0, 108_000.0));
    let found = explained(&reads(), &busy.taking(200_000.0));
    assert_eq!(first(&found), ("worker_kernel_cpu", 100.0));
    let mut waiting = reads();
    waiting.delay_ns = Some(300_000.0);
    let found = explained(&reads(), &waiting.taking(400_000.0));
    assert_eq!(first(&found), ("wait_for_cpu", 100.0));
    factors_add_up(&found);
}

#[test]
fn a_cache_is_named_by_the_requests_that_do_not_reach_the_device() {
    let mut cached = with_device(reads(), |device| {
        *device = DeviceCosts::default();
    });
    cached.cpu_ns = Some((1_000.0, 3_000.0));
    let found = explained(&reads(), &cached.taking(5_000.0));
    let (name, share) = first(&found);
    assert_eq!(name, "device_read_time");
    assert!(share > 80.0, "{share}");
    factors_add_up(&found);
}

#[test]
fn syncs_of_one_side_are_a_part_of_their_own() {
    let mut synced = reads();
    synced.syncs = (1.0, 900_000.0);
    let found = explained(&reads(), &synced.taking(100_000.0));
    assert_eq!(first(&found), ("time_in_syncs", 100.0));
    factors_add_up(&found);
}

#[test]
fn more_workers_and_more_ops_in_flight_are_factors() {
    let mut more = reads();
    (more.workers, more.depth) = (4.0, 4.0);
    let found = explained(&reads(), &more.taking(100_000.0));
    assert_eq!(first(&found), ("workers", 100.0));
    // Four ops in flight by one worker, which take as long as one did: only the overlap differs.
    let mut deeper = Costs {
        one_at_a_time: false,
        depth: 4.0,
        ..reads()
    };
    deeper.op_ns = 100_000.0;
    deeper.worker_ns = 25_000.0;
    deeper.ops = deeper.seconds * 1e9 / deeper.worker_ns;
    let found = explained(&reads(), &deeper);
    let (name, share) = first(&found);
    assert_eq!(name, "requests_in_parallel");
    assert!(share > 80.0, "{share} {found:#?}");
    factors_add_up(&found);
}

#[test]
fn waits_that_nothing_explains_are_unexplained_until_a_series_differs() {
    let waiting = reads().taking(400_000.0);
    let found = explained(&reads(), &waiting);
    assert!(found.is_unexplained(), "{found:#?}");
    assert_eq!(found.terms[0].contrast.name, "other_waits");
    assert!(found.terms[0].open && found.reasons().next().is_none());
    factors_add_up(&found);

    let mut free = reads();
    let mut limited = waiting;
    (free.io_limit, limited.io_limit) = (Some(0.2), Some(1.0));
    let found = explained(&free, &limited);
    assert_eq!(first(&found), ("other_waits", 100.0));
    let causes = &found.terms[0].causes;
    let named = |cause: &Cause| matches!(cause, Cause::Series(it) if it.name == "io_limit");
    assert!(causes.iter().any(named), "{causes:?}");
}

#[test]
fn where_both_sides_use_up_a_limit_what_is_limited_tells_the_ratio() {
    let limited = |bytes: f64, op_ns: f64| {
        let costs = with_device(reads(), |device| device.bytes[0] = bytes);
        Costs {
            io_limit: Some(0.99),
            ..costs.taking(op_ns)
        }
    };
    let found = explained(&limited(4096.0, 1_000_000.0), &limited(410.0, 190_000.0));
    let (name, share) = first(&found);
    assert_eq!(name, "read_amplification");
    assert!((90.0..150.0).contains(&share), "{share}");
    factors_add_up(&found);
}

#[test]
fn facts_are_candidates_only_beside_a_part_on_which_they_act() {
    let slower = with_device(reads(), |device| device.ns[0] = 240_000.0).taking(260_000.0);
    let (mut trials, costs) = sides(&reads(), &slower);
    for trial in &mut trials {
        let b = trial.dimension(Observation::CONFIGURATION) == "b";
        let value = if b { "3.00 ms" } else { "0 ns" };
        let cpus = if b { "4" } else { "2" };
        trial.facts = vec![
            fact(FactClass::Target, "delay.read", value),
            fact(FactClass::Workload, "cpus_allowed", cpus),
        ];
    }
    let found = of(&(trials, costs));
    // Another fact than the target's differs.
    assert!(matches!(found.verdict, Verdict::NotComparable { .. }));
    assert_eq!(first(&found), ("read_await", 100.0));
    let names = |causes: &[Cause]| -> Vec<String> {
        let name = |cause: &Cause| match cause {
            Cause::Fact { name, .. } => name.clone(),
            Cause::Series(contrast) => contrast.name.clone(),
        };
        causes.iter().map(name).collect()
    };
    assert_eq!(names(&found.terms[0].causes), ["delay.read"]);
    assert_eq!(names(&found.other_facts), ["cpus_allowed"]);
}

#[test]
fn synchronous_writes_against_syncs_are_explained_by_the_flushes() {
    let flushing = |flushes: f64| {
        let costs = with_device(reads(), |device| {
            device.requests = [0.0, 1.0, 0.0, flushes];
            device.bytes = [0.0, 4096.0, 0.0];
            device.ns = [0.0, 80_000.0, 0.0, 0.0];
        });
        Costs {
            direct: false,
            bytes: [0.0, 4096.0, 0.0],
            ..costs
        }
    };
    let dsync = flushing(1.0).taking(5_400_000.0);
    let fdatasync = Costs {
        syncs: (1.0 / 16.0, 193_000.0),
        ..flushing(1.0 / 16.0)
    };
    let (mut trials, costs) = sides(&dsync, &fdatasync.taking(12_000.0));
    for trial in &mut trials {
        let of_b = trial.dimension(Observation::CONFIGURATION) == "b";
        let value = if of_b { "fdatasync=16" } else { "O_DSYNC" };
        trial.facts = vec![fact(FactClass::Workload, "sync", value)];
    }
    let found = of(&(trials, costs));
    assert!(!found.is_unexplained(), "{found:#?}");
    let causes = &found.reasons().next().unwrap().causes;
    let named = |cause: &Cause| match cause {
        Cause::Fact { name, .. } => name.clone(),
        Cause::Series(contrast) => contrast.name.clone(),
    };
    let named: Vec<String> = causes.iter().map(named).collect();
    assert_eq!(named, ["device_flushes", "sync"]);
}

#[test]
fn exchanged_sides_have_inverse_factors_and_the_same_shares() {
    let slower = with_device(reads(), |device| {
        device.requests[0] = 2.0;
        device.bytes[0] = 8192.0;
        device.ns[0] = 300_000.0;
    });
    let mut slower = slower.taking(350_000.0);
    slower.cpu_ns = Some((3_000.0, 20_000.0));
    let (there, back) = (explained(&reads(), &slower), explained(&slower, &reads()));
    assert!((there.ratio.unwrap().value * back.ratio.unwrap().value - 1.0).abs() < 1e-9);
    assert_eq!(there.terms.len(), back.terms.len());
    for term in &there.terms {
        let name = &term.contrast.name;
        let mut others = back.terms.iter();
        let other = others.find(|it| it.contrast.name == *name);
        let other = other.unwrap_or_else(|| panic!("{name}"));
        assert!(
            (term.factor.value * other.factor.value - 1.0).abs() < 1e-9,
            "{name}"
        );
        assert!(
            (term.share.unwrap() - other.share.unwrap()).abs() < 1e-9,
            "{name}"
        );
        let swapped = (other.contrast.medians.1, other.contrast.medians.0);
        assert_eq!(term.contrast.medians, swapped, "{name}");
    }
}

#[test]
fn equal_sides_have_nothing_to_explain() {
    let found = explained(&reads(), &reads());
    assert_eq!(found.explained, None);
    assert!(
        found.terms.is_empty() && found.series.is_empty(),
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
    let found = of(&(trials, costs));
    let why = found.without.unwrap();
    assert!(why.contains("--trace block"), "{why}");
    assert!(found.terms.is_empty());
}

#[test]
fn imported_trials_name_what_they_lack() {
    let values: Vec<f64> = (0..10).map(|value| 100.0 + f64::from(value)).collect();
    let trials: Vec<Observation> = ["a", "b"]
        .into_iter()
        .flat_map(|name| imported(name, "w", &values))
        .collect();
    let costs = vec![None; trials.len()];
    let found = of(&(trials, costs));
    let why = found.without.unwrap();
    assert!(
        why.contains("imported") && why.contains("telemetry"),
        "{why}"
    );
}

#[test]
fn a_latency_is_split_like_the_time_of_an_op() {
    let slower = with_device(reads(), |device| device.ns[0] = 240_000.0).taking(260_000.0);
    let (mut trials, costs) = sides(&reads(), &slower);
    for (trial, costs) in trials.iter_mut().zip(&costs) {
        // The tail of both sides is twice the mean.
        let p99 = Metric::time("read.p99");
        let value = costs.as_ref().unwrap().op_ns * 2.0;
        trial.figures.push(figure(p99.clone(), value));
        trial.primary = Some(p99);
    }
    let found = of(&(trials, costs));
    assert_eq!(first(&found), ("read_await", 100.0));
    factors_add_up(&found);
}

#[test]
fn the_drain_of_finite_work_is_the_rest_and_open() {
    let (mut trials, costs) = sides(&reads(), &reads());
    for (trial, costs) in trials.iter_mut().zip(&costs) {
        let drains = match trial.dimension(Observation::CONFIGURATION) {
            "b" => 3.0,
            _ => 1.0,
        };
        let completion = Metric::time(Metric::COMPLETION);
        let value = costs.as_ref().unwrap().seconds * 1e9 * drains;
        trial.figures.push(figure(completion.clone(), value));
        trial.primary = Some(completion);
    }
    let found = of(&(trials, costs));
    assert!(found.is_unexplained());
    let rest = &found.terms[0];
    assert_eq!((rest.contrast.name.as_str(), rest.open), ("rest", true));
}

#[test]
fn too_few_rounds_are_said_and_the_direction_of_all_counts() {
    let slower = with_device(reads(), |device| device.ns[0] = 240_000.0).taking(260_000.0);
    let (trials, costs) = sides(&reads(), &slower);
    let kept = trials.into_iter().zip(costs);
    let kept = kept.filter(|(trial, _)| trial.round.is_some_and(|round| round < 4));
    let found = of(&kept.unzip());
    assert!(found.rounds_needed.is_some_and(|needed| needed > 4));
    assert_eq!(first(&found), ("read_await", 100.0));
    assert_eq!(found.terms[0].contrast.agreeing, (4, 4));
}

#[test]
fn quantities_that_only_one_side_has_differ_by_an_amount() {
    let mut others = reads().taking(150_000.0);
    // For each op, an eighth of a request of 64 KiB.
    others.others = Some([8192.0, 0.0]);
    let mut others = with_device(others, |device| {
        device.requests[0] = 1.125;
        device.bytes[0] = 12_288.0;
        device.ns[0] = 1.125 * 130_000.0;
    });
    others.cpu_ns = reads().cpu_ns;
    let mut alone = reads();
    alone.others = Some([0.0, 0.0]);
    let found = explained(&alone, &others);
    assert_eq!(first(&found).0, "read_await");
    let mut series = found.terms[0]
        .causes
        .iter()
        .filter_map(|cause| match cause {
            Cause::Series(contrast) => Some(contrast),
            Cause::Fact { .. } => None,
        });
    let found = series.find(|it| it.name == "other_bytes").unwrap();
    let Some(Change::Difference(by)) = found.change else {
        panic!("{found:?}");
    };
    let rate = by.value / 8192.0;
    assert!((6_000.0..7_000.0).contains(&rate), "{rate}");
}

#[test]
fn the_costs_of_a_trial_are_those_of_its_counters() {
    let (workload, trial) = crate::testing::four_clones();
    let costs = super::costs(&workload, &trial).unwrap();
    let ops = 4.0 * (692_000.0 + 230_500.0);
    assert_eq!((costs.ops, costs.workers, costs.depth), (ops, 4.0, 64.0));
    assert!((costs.worker_ns - 80e9 / ops).abs() < 1e-6);
    assert!(!costs.one_at_a_time);
    let (user, system) = costs.cpu_ns.unwrap();
    assert!((user - 6e9 / ops).abs() < 1e-6 && (system - 18e9 / ops).abs() < 1e-6);
    let device = costs.lowest.unwrap();
    assert!((device.requests[0] - 4.0 * 692_000.0 / ops).abs() < 1e-9);
    assert!((device.ns[1] - 20_100e6 / ops).abs() < 1e-3);
    assert_eq!(device.busy, 0.97);
    // Without telemetry, what is only sampled is unknown.
    assert_eq!((costs.interrupts, costs.others), (None, None));
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
fn the_requests_of_a_file_server_are_told_per_op() {
    let (workload, mut trial) = crate::testing::four_clones();
    let row = |requests, inline, batches| {
        vec![
            ("requests", requests),
            ("inline", inline),
            ("queueing_time", requests * 1000),
            ("service_time", requests * 20_000),
            ("batches", batches),
        ]
    };
    let told = recording().seconds(SeriesKind::Requests, 3, |_| {
        vec![("all", row(1000, 250, 100)), ("READ", row(900, 250, 0))]
    });
    trial.telemetry = told.done();
    let costs = super::costs(&workload, &trial).unwrap();
    let requests = costs.requests.unwrap();
    assert_eq!((requests.inline, requests.batch), (0.25, 10.0));
    let per_second = requests.count * costs.ops / costs.seconds;
    assert!((per_second - 1000.0).abs() < 1e-6, "{per_second}");
    assert!((requests.service_ns / requests.count - 20_000.0).abs() < 1e-6);
    assert!((requests.queueing_ns / requests.count - 1000.0).abs() < 1e-6);
    // A server without requests has no shares.
    trial.telemetry = recording()
        .seconds(SeriesKind::Requests, 3, |_| vec![("all", row(0, 0, 0))])
        .done();
    assert_eq!(super::costs(&workload, &trial).unwrap().requests, None);
}

/// Trials of a family `f` of three workloads; `slow` tells which of them have a slower device on the side `b`.
fn family(slow: [bool; 3]) -> iodyno_model::Explanation {
    family_after(ROUNDS, slow)
}

fn family_after(rounds: u32, slow: [bool; 3]) -> iodyno_model::Explanation {
    let slower = with_device(reads(), |device| device.ns[0] = 240_000.0).taking(260_000.0);
    let waits = reads().taking(200_000.0);
    let (mut trials, mut costs) = (Vec::new(), Vec::new());
    for (name, slow) in ["one", "two", "three"].iter().zip(slow) {
        let (mut own, own_costs) = sides(&reads(), if slow { &slower } else { &waits });
        for trial in &mut own {
            let dimensions = &mut trial.dimensions;
            dimensions.insert(Observation::WORKLOAD.to_owned(), (*name).to_owned());
            dimensions.insert(Observation::FAMILY.to_owned(), "f".to_owned());
        }
        trials.extend(own);
        costs.extend(own_costs);
    }
    let kept = trials.into_iter().zip(costs);
    let kept = kept.filter(|(trial, _)| trial.round.is_some_and(|round| round < rounds));
    let (trials, costs): (Vec<_>, Vec<_>) = kept.unzip();
    explain("test", &trials, &costs, &Question::default()).unwrap()
}

#[test]
fn a_family_tells_the_first_reason_that_most_members_have() {
    let found = family([true, false, true]);
    let [family] = found.families.as_slice() else {
        panic!("{found:#?}");
    };
    assert_eq!(
        (family.row.as_slice(), family.members.len()),
        (&["f".to_owned()][..], 3)
    );
    let common = family.common.as_ref().unwrap();
    assert_eq!(common.words, "time of a read at the devices");
    assert_eq!(common.rows, [["one"], ["three"]]);
    assert_eq!(common.too_few, None);
    let alone = found.comparisons[0].terms[0].factor.value;
    assert!((common.factor - alone).abs() < 1e-9, "{common:?}");
    let told: Vec<bool> = (found.comparisons.iter())
        .map(|it| family.tells(it))
        .collect();
    assert_eq!(told, [true, false, true]);
}

#[test]
fn members_that_share_no_reason_have_none_in_common() {
    let found = family([true, false, false]);
    assert_eq!(found.families[0].common, None);
}

#[test]
fn ten_rounds_are_enough_for_all_parts_of_a_ratio() {
    // With 26 quantities, the smallest possible p of ten rounds is 0.051 after Holm's correction: only parts count for
    // it.
    let slower = with_device(reads(), |device| device.ns[0] = 240_000.0).taking(260_000.0);
    let (trials, costs) = sides(&reads(), &slower);
    let kept = trials.into_iter().zip(costs);
    let kept = kept.filter(|(trial, _)| trial.round.is_some_and(|round| round < 10));
    let found = of(&kept.unzip());
    assert_eq!(found.rounds_needed, None);
    let first = &found.terms[0].contrast;
    assert!(first.adjusted_p.is_some_and(|p| p <= 0.05), "{first:?}");
    assert!(
        matches!(first.change, Some(Change::Ratio(ratio)) if ratio.interval.is_some()),
        "{first:?}"
    );
}

#[test]
fn a_series_that_changes_in_few_rounds_is_not_named() {
    let (trials, mut costs) = sides(&reads(), &reads());
    let rounds = ROUNDS as usize;
    for (place, costs) in costs.iter_mut().flatten().enumerate() {
        // Six of twelve rounds, all in one direction: p is 0.03.
        let some = (rounds..rounds + 6).contains(&place);
        costs.refaults = Some(if some { 4096.0 * place as f64 } else { 0.0 });
    }
    let found = of(&(trials, costs));
    let names: Vec<&str> = found.series.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, [""; 0]);
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
    assert!((lowest.in_flight - 1.8).abs() < 1e-9);
    let (queue, service) = costs.traced.unwrap()[0];
    assert!((queue * ops - 9e9).abs() < 1.0 && (service * ops - 9e9).abs() < 1.0);
    assert!((costs.moves.unwrap() - 0.5).abs() < 0.01);
}

#[test]
fn requests_in_the_background_are_intervals_and_not_the_time_of_an_op() {
    // Read-ahead: requests wait for 2 ms in long queues, and an op of 100 µs does not wait for that.
    let ahead = |interval: f64| {
        let costs = with_device(reads(), |device| device.ns[0] = 2_000_000.0);
        let traced = [(1_900_000.0, 100_000.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)];
        Costs {
            traced: Some(traced),
            ..costs.taking(interval)
        }
    };
    let found = explained(&ahead(100_000.0), &ahead(150_000.0));
    assert_eq!(first(&found).0, "read_interval");
    let words: Vec<&str> = found
        .identities
        .iter()
        .map(|it| it.words.as_str())
        .collect();
    assert!(
        !words
            .iter()
            .any(|words| words.starts_with("latency of an op")),
        "{words:?}"
    );
    assert!(
        words
            .iter()
            .any(|words| words.starts_with("time of a request"))
    );
}

/// Trials without rounds, in which a fact differs that is not the target's. Each takes these costs times one of the
/// factors.
fn without_rounds(baseline: &Costs, candidate: &Costs, scales: &[f64]) -> Explained {
    let (mut trials, mut costs) = (Vec::new(), Vec::new());
    for (name, cpus, own) in [("a", "2", baseline), ("b", "4", candidate)] {
        for scale in scales {
            let own = slowed(own, *scale);
            let mut trial = observation(name, "w", own.ops / own.seconds);
            trial.facts = vec![fact(FactClass::Workload, "cpus_allowed", cpus)];
            trials.push(trial);
            costs.push(Some(own));
        }
    }
    of(&(trials, costs))
}

#[test]
fn trials_without_rounds_differ_only_if_the_interval_of_their_ratio_shows_it() {
    let slower = with_device(reads(), |device| device.ns[0] = 110_000.0).taking(130_000.0);
    let wide = [0.5, 0.6, 0.8, 1.0, 1.3, 1.7, 2.0, 2.5];
    let found = without_rounds(&reads(), &slower, &wide);
    let (low, high) = found.ratio.unwrap().interval.unwrap();
    assert!(low < 1.0 && high > 1.0, "{:?}", found.ratio);
    assert!(matches!(found.verdict, Verdict::NotComparable { .. }));
    assert!(matches!(found.by_numbers, Verdict::Inconclusive { .. }));
    assert_eq!(found.explained, None);
    assert_eq!(found.reasons().count(), 0);

    let narrow = [1.0, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006, 1.007];
    let found = without_rounds(&reads(), &slower, &narrow);
    assert!(matches!(found.verdict, Verdict::NotComparable { .. }));
    assert_eq!(found.by_numbers, Verdict::Slower);
    assert_eq!(first(&found), ("read_await", 100.0));
    factors_add_up(&found);
}

#[test]
fn the_common_reason_of_members_with_too_few_rounds_says_so() {
    let found = family_after(4, [true, false, true]);
    let common = found.families[0].common.as_ref().unwrap();
    assert_eq!(common.words, "time of a read at the devices");
    let too_few = common.too_few.unwrap();
    assert_eq!(too_few.n, 4);
    assert_eq!(Some(too_few.needed), found.comparisons[0].rounds_needed);
}
