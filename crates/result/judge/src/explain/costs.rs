//! What the ops of a trial cost: totals of the measured time, for each op.
//!
//! CPU time, devices and control groups are counters that were read at the start and the end of the measured time; what
//! is only sampled is a rate over the samples within it.

use std::array::from_fn;

use iodyno_model::ordered::entry;
use iodyno_model::{
    Action, CloneResult, ControlGroupUse, Costs, DeviceCosts, DeviceUse, Direction,
    DirectionResult, Job, Part, REQUEST_KINDS, RequestCosts, SeriesKind, ServerUse, SimulatedDisk,
    Telemetry, Trial, Workload,
};

use crate::findings::{dirty_samples, limit_used};
use crate::series::{measured, totals};
use crate::{devices, work};

/// The costs of a trial with its telemetry; `None` without ops.
pub fn costs(workload: &Workload, trial: &Trial) -> Option<Costs> {
    let loaded = workload.at(trial.probe);
    let workload = &*loaded;
    let clones: Vec<&CloneResult> = work::clones(trial).collect();
    let mut whole = of_clones(workload, trial, &clones)?;
    add_host(&mut whole, workload, trial);
    let of_job = |(index, kind): (usize, usize)| {
        let own = clones.iter().filter(|clone| clone.job as usize == index);
        let mut costs = of_clones(workload, trial, &own.copied().collect::<Vec<_>>())?;
        costs.job = Some(workload.jobs[index].name.clone());
        // Requests of other kinds are those of other jobs.
        let others = costs.waits_for.iter_mut().enumerate();
        let others = others.filter(|(own, _)| *own != kind);
        others.for_each(|(_, waits)| *waits = 0.0);
        Some(costs)
    };
    let jobs = separated(workload).unwrap_or_default().into_iter();
    let jobs: Option<Vec<Costs>> = jobs.enumerate().map(of_job).collect();
    whole.jobs = jobs.unwrap_or_default();
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
    let cpu = || clones.iter().map(|clone| clone.cpu);
    let user: u64 = cpu().map(|it| it.user_ns).sum();
    let system: u64 = cpu().map(|it| it.system_ns).sum();
    let known = !workload.in_virtual_time() && user + system > 0;
    let delay: Option<u64> = cpu().map(|it| it.run_delay_ns).sum();
    let moved = |direction: Direction| -> f64 {
        let results = clones.iter().filter_map(|clone| clone.direction(direction));
        per_op(results.map(|result| result.bytes).sum())
    };
    let all = clones.iter().flat_map(|clone| timed(workload, clone));
    let op_ns: f64 = all.map(|(_, it)| it.service.sum_ns() as f64).sum();
    let jobs = || workload.jobs.iter();
    let disks = working(trial).flat_map(|part| &part.host.simulated);
    let disks: Vec<&SimulatedDisk> = disks.filter(|disk| disk.span_ns > 0).collect();
    let simulated = || added_up(disks.iter().map(|disk| simulated(disk, ops)));
    let runtimes: f64 = clones.iter().map(|clone| clone.runtime_ns as f64).sum();
    let commands = moved_by_commands(clones);
    Some(Costs {
        job: None,
        ops,
        seconds: span_ns / 1e9,
        // A command can use several CPUs.
        one_at_a_time: clones.iter().all(|clone| {
            let cpu_ns = (clone.cpu.user_ns + clone.cpu.system_ns) as f64;
            clone.engine.depth <= 1 && (clone.command.is_none() || cpu_ns <= op_ns)
        }),
        scheduled: jobs().all(Job::scheduled),
        polls: jobs().any(work::busy_by_design),
        direct: commands.is_some() || !jobs().any(work::buffered),
        op_ns: op_ns / ops,
        worker_ns: runtimes / ops,
        bytes: match commands {
            Some(bytes) => bytes.map(per_op),
            None => [Direction::Read, Direction::Write, Direction::Trim].map(moved),
        },
        syncs: syncs(workload, clones, ops),
        waits_for: waits_for(workload, clones).map(|ns| ns / ops),
        steps: steps(workload, clones, ops),
        cpu_ns: known.then(|| (per_op(user), per_op(system))),
        delay_ns: delay.filter(|_| known).map(per_op),
        switches: per_op(cpu().map(|it| it.voluntary + it.involuntary).sum()),
        top: device_costs(trial, ops, devices::top).or_else(simulated),
        lowest: device_costs(trial, ops, devices::lowest).or_else(simulated),
        traced: traced(trial, ops)
            .or_else(|| (!disks.is_empty()).then(|| simulated_times(&disks, ops))),
        moves: (!disks.is_empty()).then(|| per_op(disks.iter().map(|it| it.moves).sum())),
        simulated: workload.in_virtual_time(),
        ..Costs::default()
    })
}

/// Bytes that commands moved, if nothing else was measured; `None`: not known.
fn moved_by_commands(clones: &[&CloneResult]) -> Option<[u64; 3]> {
    let mut own = clones.iter().map(|clone| clone.command.as_ref()?.moved);
    let sum = |sum: [u64; 3], own: [u64; 2]| [sum[0] + own[0], sum[1] + own[1], 0];
    own.try_fold([0; 3], |all, own| Some(sum(all, own?)))
}

/// The parts whose nodes had jobs.
fn working(trial: &Trial) -> impl Iterator<Item = &Part> {
    trial.parts.iter().filter(|part| !part.only_sampled())
}

/// The results, with their jobs, that count as ops. Of file operations, these are
/// all steps of their cycles.
fn timed<'a>(
    workload: &'a Workload,
    clone: &'a CloneResult,
) -> impl Iterator<Item = (Option<&'a Job>, &'a DirectionResult)> {
    let job = workload.jobs.get(clone.job as usize);
    let cycles = work::operations(workload, clone).is_some();
    let counted = work::counted(job);
    let results = clone.directions.iter().filter(move |it| match cycles {
        true => it.direction != Direction::Op,
        false => counted.contains(&it.direction),
    });
    results.map(move |result| (job, result))
}

/// [`Costs::waits_for`], not yet divided by the ops. A write waits for reads where the device or the page cache needs
/// the rest of a block first; a buffered one waits for writes only if it is synchronous. A command waits for
/// requests of the kinds that it or its children caused.
fn waits_for(workload: &Workload, clones: &[&CloneResult]) -> [f64; 4] {
    let mut waits = [0.0; 4];
    let results = clones
        .iter()
        .flat_map(|clone| timed(workload, clone).map(move |(job, result)| (clone, job, result)));
    for (clone, job, result) in results {
        let moved = clone.command.as_ref().and_then(|command| command.moved);
        let engine = job.and_then(|job| job.work.engine());
        let synchronous = engine.is_some_and(|engine| engine.o_sync || engine.o_dsync);
        let through_cache = job.is_none_or(work::buffered);
        let cycle = job.and_then(|job| job.work.file_operations());
        let kinds = match (result.direction, cycle) {
            (Direction::Read, _) => [true, false, false, false],
            (Direction::Trim, _) => [false, false, true, false],
            (Direction::Run, _) => {
                let [reads, writes] = moved.map_or([true; 2], |bytes| bytes.map(|it| it > 0));
                [reads, writes, false, writes]
            }
            (_, Some(cycle)) => {
                let mut steps = cycle.cycle.iter().map(|step| &step.action);
                let syncs = steps.any(|it| matches!(it, Action::Sync | Action::SyncFolder));
                [true, syncs, false, syncs]
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
    let results = cycles.flat_map(|clone| timed(workload, clone));
    // A command is the whole op.
    for (_, result) in results.filter(|(_, it)| it.direction != Direction::Run) {
        *entry(&mut found, result.direction.name()) += result.service.sum_ns() as f64 / ops;
    }
    found
}

/// Adds the figures of servers and of the host.
fn add_host(costs: &mut Costs, workload: &Workload, trial: &Trial) {
    let (ops, span_ns) = (costs.ops, costs.seconds * 1e9);
    let servers = crate::summary(workload, trial).servers;
    let telemetry = measured(trial);
    let sampled = servers.iter().filter(|server| server.span_ns > 0);
    let cores = sampled.map(ServerUse::cores).reduce(|sum, own| sum + own);
    costs.servers_ns = cores.map(|cores| cores * span_ns / ops);
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
    let dirty: Vec<bool> = dirty_samples(&telemetry)
        .map(|(dirty, middle)| dirty > middle)
        .collect();
    let throttled = dirty.iter().filter(|above| **above).count() as f64;
    costs.dirty_throttled = (!dirty.is_empty()).then(|| throttled / dirty.len() as f64);
    let below: Vec<&str> = trial.parts.iter().flat_map(devices::names).collect();
    costs.io_limit = limit_used(&telemetry, &below);
}

/// Syncs for each op, and their time. Those of file operations are steps of an op.
fn syncs(workload: &Workload, clones: &[&CloneResult], ops: f64) -> (f64, f64) {
    let beside_ops = clones
        .iter()
        .filter(|it| work::operations(workload, it).is_none());
    let results = beside_ops.filter_map(|clone| clone.direction(Direction::Sync));
    results.fold((0.0, 0.0), |(count, ns), result| {
        let sum_ns = result.service.sum_ns() as f64;
        (count + result.ops as f64 / ops, ns + sum_ns / ops)
    })
}

/// CPUs of the hosts that did I/O: used by others than harness and servers, and stolen.
fn other_cpus(trial: &Trial, servers: &[ServerUse]) -> Option<(f64, f64)> {
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

/// The requests of the devices with these names; `None` if a part has none of them, or a target that is not on a
/// device.
fn device_costs(trial: &Trial, ops: f64, names: fn(&Part) -> Vec<&str>) -> Option<DeviceCosts> {
    let mut all = Vec::new();
    for part in working(trial) {
        let own = devices::uses(part, &names(part))?.into_iter();
        all.extend(own.map(|device| counted(device, part.host.span_ns, ops)));
    }
    added_up(all)
}

/// The counters of a device; `busiest` is its busy share of the time.
fn counted(device: &DeviceUse, span_ns: u64, ops: f64) -> DeviceCosts {
    DeviceCosts {
        requests: device.ios.map(|count| count as f64 / ops),
        bytes: device.bytes.map(|bytes| bytes as f64 / ops),
        ns: device.ticks_ms.map(|ms| ms as f64 * 1e6 / ops),
        busiest: device.busy_ms as f64 * 1e6 / span_ns.max(1) as f64,
    }
}

/// The same of a simulated disk.
fn simulated(disk: &SimulatedDisk, ops: f64) -> DeviceCosts {
    let per_op =
        |counts: [u64; 2], kind: usize| counts.get(kind).map_or(0.0, |it| *it as f64 / ops);
    DeviceCosts {
        requests: from_fn(|kind| per_op(disk.requests, kind)),
        bytes: from_fn(|kind| per_op(disk.bytes, kind)),
        ns: from_fn(|kind| per_op(disk.pending_ns, kind)),
        busiest: disk.busy_ns as f64 / disk.span_ns as f64,
    }
}

/// All of some devices, with the busiest one ÷ the mean of all.
fn added_up(all: impl IntoIterator<Item = DeviceCosts>) -> Option<DeviceCosts> {
    let all: Vec<DeviceCosts> = all.into_iter().collect();
    let busy = || all.iter().map(|it| it.busiest);
    let mean = busy().sum::<f64>() / all.len() as f64;
    let sum = all.iter().copied().reduce(|sum, own| DeviceCosts {
        requests: from_fn(|kind| sum.requests[kind] + own.requests[kind]),
        bytes: from_fn(|kind| sum.bytes[kind] + own.bytes[kind]),
        ns: from_fn(|kind| sum.ns[kind] + own.ns[kind]),
        busiest: 0.0,
    })?;
    Some(DeviceCosts {
        busiest: match all.len() > 1 && mean > 0.0 {
            true => busy().fold(0.0, f64::max) / mean,
            false => 0.0,
        },
        ..sum
    })
}

/// Queue and service times of simulated disks, as [`Costs::traced`].
fn simulated_times(disks: &[&SimulatedDisk], ops: f64) -> [(f64, f64); 4] {
    let mut times = [(0.0, 0.0); 4];
    for disk in disks {
        let requests: u64 = disk.requests.iter().sum();
        for (kind, (queue, service)) in times.iter_mut().enumerate().take(2) {
            let pending = disk.pending_ns[kind] as f64;
            // Reads and writes are merged and served together.
            let share = disk.requests[kind] as f64 / requests.max(1) as f64;
            let own = (disk.service_ns as f64 * share).min(pending);
            *queue += (pending - own) / ops;
            *service += own / ops;
        }
    }
    times
}

/// The traced times of the lowest devices.
fn traced(trial: &Trial, ops: f64) -> Option<[(f64, f64); 4]> {
    let mut sum = [(0.0, 0.0); 4];
    for part in working(trial) {
        let lowest = devices::lowest(part);
        let own = part.host.device_times.as_ref()?.iter();
        let own = own.filter(|times| lowest.contains(&times.device.as_str()));
        let mut any = false;
        for times in own {
            let kind = REQUEST_KINDS.iter().position(|it| *it == times.direction);
            if let Some(kind) = kind {
                any = true;
                let requests = times.requests as f64 / ops;
                sum[kind].0 += requests * times.queue.mean_ns;
                sum[kind].1 += requests * times.service.mean_ns;
            }
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
    let mut systems = trial.parts.iter().flat_map(devices::file_systems);
    let on_zfs = systems.any(|mount| mount.file_system.contains("zfs"));
    let counts = working(trial).filter_map(|part| part.host.arc_hits);
    let (hits, misses) = counts.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
    (on_zfs && hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
}

/// A figure of the control groups: the largest of all parts; 0 without limits. `None` in virtual time, which has no
/// host.
fn group(trial: &Trial, of: impl Fn(&ControlGroupUse) -> f64) -> Option<f64> {
    let parts = working(trial).filter(|part| part.host.span_ns > 0);
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
