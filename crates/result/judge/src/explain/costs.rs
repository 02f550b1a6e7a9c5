//! What the ops of a trial cost: totals of the measured time, for each op.
//!
//! CPU time, devices and control groups are counters that were read at the start and the end of the measured time; what
//! is only sampled is a rate over the samples within it.

use iodyno_model::{
    Action, CloneResult, Costs, DeviceCosts, DeviceUse, Direction, DirectionResult, Job, Part,
    REQUEST_KINDS, RequestCosts, SeriesKind, SimulatedDisk, StackLayer, Telemetry, Trial, Workload,
};

use crate::series::{View, measured, totals};
use crate::{devices, work};
use iodyno_model::ordered::entry;

/// The costs of a trial with its telemetry; `None` without ops.
pub fn costs(workload: &Workload, trial: &Trial) -> Option<Costs> {
    let loaded = workload.at(trial.probe);
    let workload = &*loaded;
    let clones: Vec<&CloneResult> = work::clones(trial).collect();
    let mut whole = of_clones(workload, trial, &clones)?;
    add_host(&mut whole, workload, trial);
    if let Some(kinds) = separated(workload) {
        for (index, (job, kind)) in workload.jobs.iter().zip(kinds).enumerate() {
            let own = clones.iter().filter(|clone| clone.job as usize == index);
            let own: Vec<&CloneResult> = own.copied().collect();
            let Some(mut costs) = of_clones(workload, trial, &own) else {
                whole.jobs.clear();
                break;
            };
            costs.job = Some(job.name.clone());
            // Requests of other kinds are those of other jobs.
            for (other, waits) in costs.waits_for.iter_mut().enumerate() {
                *waits *= f64::from(u8::from(other == kind));
            }
            whole.jobs.push(costs);
        }
    }
    Some(whole)
}

/// For each job, the kind of its requests, if no two jobs have the same: then their requests are told apart at the
/// devices.
fn separated(workload: &Workload) -> Option<Vec<usize>> {
    let kind = |job: &Job| match (work::reads(job), work::writes(job)) {
        (true, false) => Some(0),
        (false, true) if !work::buffered(job) => Some(1),
        _ => None,
    };
    let kinds: Vec<usize> = workload.jobs.iter().map(kind).collect::<Option<_>>()?;
    (kinds.len() == 2 && kinds[0] != kinds[1]).then_some(kinds)
}

/// The costs of some clones of a trial without figures of the host; `None` without ops.
fn of_clones(workload: &Workload, trial: &Trial, clones: &[&CloneResult]) -> Option<Costs> {
    let ops: u64 = clones.iter().map(|clone| work::ops(workload, clone)).sum();
    let span_ns = work::measured_ns(trial) as f64;
    if ops == 0 || span_ns <= 0.0 {
        return None;
    }
    let ops = ops as f64;
    let per_op = |sum: u64| sum as f64 / ops;
    let simulated = Simulated::of(working(trial), ops);
    let cpu = clones.iter().map(|clone| clone.cpu);
    let (user, system) = cpu.clone().fold((0, 0), |(user, system), cpu| {
        (user + cpu.user_ns, system + cpu.system_ns)
    });
    let known = !workload.in_virtual_time() && user + system > 0;
    let delay: Option<u64> = cpu.clone().map(|cpu| cpu.run_delay_ns).sum();
    let moved = |direction: Direction| -> f64 {
        let results = clones.iter().filter_map(|clone| clone.direction(direction));
        per_op(results.map(|result| result.bytes).sum())
    };
    let jobs = || workload.jobs.iter();
    Some(Costs {
        job: None,
        ops,
        seconds: span_ns / 1e9,
        one_at_a_time: clones.iter().all(|clone| clone.engine.depth <= 1),
        scheduled: jobs().all(Job::scheduled),
        polls: jobs().any(work::busy_by_design),
        direct: !jobs().any(work::buffered),
        op_ns: op_ns(workload, clones) / ops,
        worker_ns: clones
            .iter()
            .map(|clone| clone.runtime_ns as f64)
            .sum::<f64>()
            / ops,
        bytes: [Direction::Read, Direction::Write, Direction::Trim].map(moved),
        syncs: syncs(workload, clones, ops),
        waits_for: waits_for(workload, clones).map(|ns| ns / ops),
        steps: steps(workload, clones, ops),
        cpu_ns: known.then(|| (per_op(user), per_op(system))),
        delay_ns: delay.filter(|_| known).map(per_op),
        switches: per_op(cpu.map(|cpu| cpu.voluntary + cpu.involuntary).sum()),
        top: device_costs(working(trial), ops, top).or(simulated.map(|it| it.devices)),
        lowest: device_costs(working(trial), ops, devices::lowest)
            .or(simulated.map(|it| it.devices)),
        traced: traced(trial, ops).or(simulated.map(|it| it.times)),
        moves: simulated.map(|it| it.moves),
        simulated: workload.in_virtual_time(),
        ..Costs::default()
    })
}

/// The parts whose nodes had jobs.
fn working(trial: &Trial) -> impl Iterator<Item = &Part> {
    trial.parts.iter().filter(|part| !part.only_sampled())
}

/// The results of a clone in the directions that make up its rate, with its job.
fn counted<'a>(
    workload: &'a Workload,
    clone: &'a CloneResult,
) -> impl Iterator<Item = (Option<&'a Job>, &'a DirectionResult)> {
    let job = workload.jobs.get(clone.job as usize);
    let counted = work::counted(job);
    let results = clone.directions.iter();
    let results = results.filter(move |result| counted.contains(&result.direction));
    results.map(move |result| (job, result))
}

/// The results whose time is that of the ops: those that make up the rate; of file operations, all steps of their
/// cycles.
fn timed<'a>(
    workload: &'a Workload,
    clone: &'a CloneResult,
) -> Vec<(Option<&'a Job>, &'a DirectionResult)> {
    let job = workload.jobs.get(clone.job as usize);
    match work::operations(workload, clone) {
        Some(_) => {
            let steps = clone.directions.iter();
            let steps = steps.filter(|result| result.direction != Direction::Op);
            steps.map(|result| (job, result)).collect()
        }
        None => counted(workload, clone).collect(),
    }
}

/// Sum of the service latencies of the ops, ns.
fn op_ns(workload: &Workload, clones: &[&CloneResult]) -> f64 {
    let all = clones.iter().flat_map(|clone| timed(workload, clone));
    all.map(|(_, result)| result.service.sum_ns() as f64).sum()
}

/// [`Costs::waits_for`], not yet divided by the ops. A write waits for reads where the device or the page cache needs
/// the rest of a block first; a buffered one waits for writes only if it is synchronous.
fn waits_for(workload: &Workload, clones: &[&CloneResult]) -> [f64; 4] {
    let mut waits = [0.0; 4];
    for (job, result) in clones.iter().flat_map(|clone| timed(workload, clone)) {
        let engine = job.and_then(|job| job.work.engine());
        let synchronous = engine.is_some_and(|engine| engine.o_sync || engine.o_dsync);
        let through_cache = job.is_none_or(work::buffered);
        let syncs = |job: &Job| {
            let mut cycle = job
                .work
                .file_operations()
                .into_iter()
                .flat_map(|it| &it.cycle);
            cycle.any(|step| matches!(step.action, Action::Sync | Action::SyncFolder))
        };
        let kinds = match result.direction {
            Direction::Read => [true, false, false, false],
            Direction::Trim => [false, false, true, false],
            _ if job.is_some_and(|job| job.work.file_operations().is_some()) => {
                [true, job.is_some_and(syncs), false, job.is_some_and(syncs)]
            }
            _ => [true, synchronous || !through_cache, false, synchronous],
        };
        for (waits, _) in waits.iter_mut().zip(kinds).filter(|(_, waits)| *waits) {
            *waits += result.service.sum_ns() as f64;
        }
    }
    waits
}

/// The steps of cycles, with their time for each op, ns.
fn steps(workload: &Workload, clones: &[&CloneResult], ops: f64) -> Vec<(&'static str, f64)> {
    let mut found: Vec<(&'static str, f64)> = Vec::new();
    let cycles = clones
        .iter()
        .filter(|it| work::operations(workload, it).is_some());
    for result in cycles.flat_map(|clone| &clone.directions) {
        if result.direction != Direction::Op {
            *entry(&mut found, result.direction.name()) += result.service.sum_ns() as f64 / ops;
        }
    }
    found
}

/// Adds the figures of servers and of the host.
fn add_host(costs: &mut Costs, workload: &Workload, trial: &Trial) {
    let (ops, span_ns) = (costs.ops, costs.seconds * 1e9);
    let servers = crate::summary(workload, trial).servers;
    let telemetry = measured(trial);
    costs.servers_ns = servers_ns(&servers, span_ns, ops);
    costs.other_cpus = other_cpus(trial, &servers).filter(|_| costs.cpu_ns.is_some());
    costs.arc_hits = arc_hits(trial);
    costs.cpu_quota = group(trial, |group| {
        group.throttled_periods as f64 / group.periods.max(1) as f64
    });
    costs.memory_limit = group(trial, |group| {
        group.memory_limit_hits.unwrap_or(0) as f64 / ops
    });
    costs.requests = requests(&telemetry, span_ns, ops);
    costs.others = others(trial, &telemetry, span_ns, ops);
    let reclaim = totals(&telemetry, SeriesKind::Reclaim);
    let reclaim = |column| Some(reclaim.first()?.per_second(column) * span_ns / 1e9 / ops);
    (costs.reclaims, costs.refaults) = (reclaim("stalls"), reclaim("refaults"));
    costs.dirty_throttled = dirty_throttled(&telemetry);
    costs.io_limit = io_limit(trial, &telemetry);
}

/// Syncs for each op, and their time. Those of file operations are steps of an op.
fn syncs(workload: &Workload, clones: &[&CloneResult], ops: f64) -> (f64, f64) {
    let beside_ops = |clone: &&&CloneResult| {
        let job = workload.jobs.get(clone.job as usize);
        job.is_none_or(|job| job.work.file_operations().is_none())
    };
    let results = clones.iter().filter(beside_ops);
    let results = results.filter_map(|clone| clone.direction(Direction::Sync));
    let (count, ns) = results.fold((0.0, 0.0), |(count, ns), result| {
        let sum_ns = result.service.sum_ns() as f64;
        (count + result.ops as f64, ns + sum_ns)
    });
    (count / ops, ns / ops)
}

fn servers_ns(servers: &[iodyno_model::ServerUse], span_ns: f64, ops: f64) -> Option<f64> {
    let used = servers.iter().filter(|server| server.span_ns > 0);
    let cores: f64 = used.clone().map(|server| server.cores()).sum();
    (used.count() > 0).then(|| cores * span_ns / ops)
}

/// CPUs of the hosts that did I/O: used by others than harness and servers, and stolen.
fn other_cpus(trial: &Trial, servers: &[iodyno_model::ServerUse]) -> Option<(f64, f64)> {
    let (mut others, mut stolen) = (0.0, 0.0);
    for part in working(trial) {
        let host = &part.host;
        let span = host.span_ns as f64;
        if span <= 0.0 || host.user_ns + host.system_ns + host.idle_ns == 0 {
            return None;
        }
        let harness = host.harness_user_ns + host.harness_system_ns;
        let busy = (host.user_ns + host.system_ns + host.irq_ns) as f64;
        others += (busy - harness as f64) / span;
        stolen += host.steal_ns as f64 / span;
    }
    let servers: f64 = servers.iter().map(|server| server.cores()).sum();
    Some(((others - servers).max(0.0), stolen))
}

/// The devices directly below the targets of a part.
fn top(part: &Part) -> Vec<&str> {
    let targets = part.environment.targets.iter();
    let first = targets.flat_map(|target| {
        let layers = target.stack.iter();
        let below = layers.filter(|layer| !matches!(layer, StackLayer::Mount(_)));
        let devices = below.filter_map(StackLayer::device);
        // Several disks side by side, as those of a pool, are all directly below.
        let all: Vec<&str> = devices.map(|device| device.name.as_str()).collect();
        let disks = || {
            let layers = target.stack.iter();
            layers.filter(|layer| matches!(layer, StackLayer::Disk(_)))
        };
        match disks().count() == all.len() {
            true => all,
            false => all.into_iter().take(1).collect(),
        }
    });
    let mut names: Vec<&str> = first.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The requests of the devices with these names; `None` if a part has none of them, or a target that is not on a
/// device.
fn device_costs<'a>(
    parts: impl Iterator<Item = &'a Part>,
    ops: f64,
    names: impl Fn(&'a Part) -> Vec<&'a str>,
) -> Option<DeviceCosts> {
    let mut sum = DeviceCosts::default();
    let mut known = false;
    let mut busy = Vec::new();
    for part in parts {
        let names = names(part);
        let mut targets = part.environment.targets.iter();
        let bare = targets.any(|target| target.stack.iter().all(|it| it.device().is_none()));
        let own = part.host.devices.iter();
        let own: Vec<&DeviceUse> = own
            .filter(|device| names.contains(&device.name.as_str()))
            .collect();
        if bare || own.is_empty() {
            return None;
        }
        known = true;
        let span_ms = part.host.span_ns.max(1) as f64 / 1e6;
        for device in own {
            let per_op = |count: u64| count as f64 / ops;
            for kind in 0..4 {
                sum.requests[kind] += per_op(device.ios[kind]);
                sum.ns[kind] += per_op(device.ticks_ms[kind]) * 1e6;
            }
            for kind in 0..3 {
                sum.bytes[kind] += per_op(device.bytes[kind]);
            }
            busy.push(device.busy_ms as f64 / span_ms);
            sum.in_flight += device.queue_ms as f64 / span_ms;
        }
    }
    sum.busiest = busiest(&busy);
    known.then_some(sum)
}

/// The busiest of several devices ÷ the mean of all; 0: there is one, or none is busy.
fn busiest(busy: &[f64]) -> f64 {
    let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
    match busy.len() > 1 && mean > 0.0 {
        true => busy.iter().copied().fold(0.0, f64::max) / mean,
        false => 0.0,
    }
}

/// What simulated disks did for each op.
#[derive(Debug, Clone, Copy)]
struct Simulated {
    devices: DeviceCosts,
    /// As [`Costs::traced`].
    times: [(f64, f64); 4],
    moves: f64,
}

impl Simulated {
    /// `None`: nothing is known of simulated disks.
    fn of<'a>(parts: impl Iterator<Item = &'a Part>, ops: f64) -> Option<Simulated> {
        let disks = parts.flat_map(|part| &part.host.simulated);
        let disks: Vec<&SimulatedDisk> = disks.filter(|disk| disk.span_ns > 0).collect();
        if disks.is_empty() {
            return None;
        }
        let mut devices = DeviceCosts::default();
        let mut times = [(0.0, 0.0); 4];
        let mut moves = 0.0;
        for disk in &disks {
            let requests: u64 = disk.requests.iter().sum();
            for (kind, times) in times.iter_mut().enumerate().take(2) {
                devices.requests[kind] += disk.requests[kind] as f64 / ops;
                devices.bytes[kind] += disk.bytes[kind] as f64 / ops;
                devices.ns[kind] += disk.pending_ns[kind] as f64 / ops;
                // Reads and writes are merged and served together.
                let share = disk.requests[kind] as f64 / requests.max(1) as f64;
                let service = (disk.service_ns as f64 * share).min(disk.pending_ns[kind] as f64);
                times.0 += (disk.pending_ns[kind] as f64 - service) / ops;
                times.1 += service / ops;
            }
            let pending: u64 = disk.pending_ns.iter().sum();
            devices.in_flight += pending as f64 / disk.span_ns as f64;
            moves += disk.moves as f64 / ops;
        }
        let busy = disks.iter();
        let busy: Vec<f64> = busy
            .map(|disk| disk.busy_ns as f64 / disk.span_ns as f64)
            .collect();
        devices.busiest = busiest(&busy);
        Some(Simulated {
            devices,
            times,
            moves,
        })
    }
}

/// The traced times of the lowest devices.
fn traced(trial: &Trial, ops: f64) -> Option<[(f64, f64); 4]> {
    let mut sum = [(0.0, 0.0); 4];
    for part in working(trial) {
        let lowest = devices::lowest(part);
        let times = part.host.device_times.as_ref()?;
        let own = times.iter();
        let own = own.filter(|times| lowest.contains(&times.device.as_str()));
        let mut any = false;
        for times in own {
            let Some(kind) = REQUEST_KINDS
                .iter()
                .position(|kind| *kind == times.direction)
            else {
                continue;
            };
            any = true;
            let requests = times.requests as f64 / ops;
            sum[kind].0 += requests * times.queue.mean_ns;
            sum[kind].1 += requests * times.service.mean_ns;
        }
        // A device whose requests cannot be traced has no times.
        if !any {
            return None;
        }
    }
    Some(sum)
}

/// The requests of the file servers.
fn requests(telemetry: &Telemetry, span_ns: f64, ops: f64) -> Option<RequestCosts> {
    let rows = totals(telemetry, SeriesKind::Requests);
    let all = rows.iter().find(|row| row.subject == "all")?;
    let requests = all.count("requests") as f64;
    let per_op = |column| all.per_second(column) * span_ns / 1e9 / ops;
    (requests > 0.0).then(|| RequestCosts {
        count: per_op("requests"),
        queueing_ns: per_op("queueing_time"),
        service_ns: per_op("service_time"),
    })
}

fn arc_hits(trial: &Trial) -> Option<f64> {
    let parts = working(trial);
    let counts = parts.filter_map(|part| part.host.arc_hits);
    let (hits, misses) = counts.fold((0, 0), |sum, (hits, misses)| (sum.0 + hits, sum.1 + misses));
    let on_zfs = devices_are_of_zfs(trial);
    (on_zfs && hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
}

fn devices_are_of_zfs(trial: &Trial) -> bool {
    let mut systems = trial.parts.iter().flat_map(devices::file_systems);
    systems.any(|mount| mount.file_system.contains("zfs"))
}

/// A figure of the control groups: the largest of all parts; 0 without limits. `None` in virtual time, which has no
/// host.
fn group(trial: &Trial, of: impl Fn(&iodyno_model::ControlGroupUse) -> f64) -> Option<f64> {
    let parts = working(trial);
    let parts = parts.filter(|part| part.host.span_ns > 0);
    let figures = parts.map(|part| part.host.control_group.as_ref().map_or(0.0, &of));
    figures.reduce(f64::max)
}

/// Bytes that other processes read and wrote for each op.
fn others(trial: &Trial, telemetry: &Telemetry, span_ns: f64, ops: f64) -> Option<[f64; 2]> {
    let covered = |kind| -> f64 {
        let samples = telemetry.of(kind);
        samples.map(|(_, sample)| sample.span_ns as f64).sum()
    };
    let others_ns = covered(SeriesKind::Others);
    let mut gaps = trial.telemetry.gaps.iter();
    let unread = gaps.any(|gap| gap.kind == SeriesKind::Others);
    if others_ns == 0.0 {
        // Only processes with I/O have rows.
        return (covered(SeriesKind::Disk) > 0.0 && !unread).then_some([0.0; 2]);
    }
    let of_all = totals(telemetry, SeriesKind::Others);
    let moved = |column: &str| -> f64 {
        let counts = of_all.iter().map(|process| process.count(column) as f64);
        counts.sum::<f64>() / others_ns * span_ns / ops
    };
    Some([moved("read_bytes"), moved("written_bytes")])
}

/// The share of the samples in which writers wait, by the rule of the finding.
fn dirty_throttled(telemetry: &Telemetry) -> Option<f64> {
    let samples = telemetry.of(SeriesKind::Memory);
    let views = samples.flat_map(|(shape, sample)| View::of(shape, sample));
    let (mut all, mut above) = (0u32, 0u32);
    for (dirty, middle) in views.filter_map(|row| crate::findings::dirty(&row)) {
        all += 1;
        above += u32::from(dirty > middle);
    }
    (all > 0).then(|| f64::from(above) / f64::from(all))
}

/// The largest share of a limit that the control group used, over all limits and devices; 0 without limits, `None` if
/// they were not sampled.
fn io_limit(trial: &Trial, telemetry: &Telemetry) -> Option<f64> {
    const LIMITS: [(&str, &str); 4] = [
        ("reads", "reads_limit"),
        ("writes", "writes_limit"),
        ("read_bytes", "read_bandwidth_limit"),
        ("written_bytes", "write_bandwidth_limit"),
    ];
    let below: Vec<&str> = trial.parts.iter().flat_map(devices::names).collect();
    let mut used: std::collections::BTreeMap<(&str, &str), (f64, f64)> = Default::default();
    let mut sampled = false;
    for (shape, sample) in telemetry.of(SeriesKind::Cgroup) {
        for view in View::of(shape, sample).filter(|view| below.contains(&view.subject())) {
            sampled = true;
            for (column, limit) in LIMITS {
                let (Some(count), Some(limit)) = (view.value(column), view.value(limit)) else {
                    continue;
                };
                if limit > 0.0 {
                    let sum = used.entry((view.subject(), column)).or_default();
                    sum.0 += count;
                    sum.1 += limit * view.span_ns() as f64 / 1e9;
                }
            }
        }
    }
    let shares = used.values().filter(|(_, allowed)| *allowed > 0.0);
    let largest = shares.map(|(count, allowed)| count / allowed);
    sampled.then(|| largest.fold(0.0, f64::max))
}
