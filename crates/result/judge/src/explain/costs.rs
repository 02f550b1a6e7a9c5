//! What the ops of a trial cost: totals of the measured time, for each op.
//!
//! CPU time, devices and control groups are counters that were read at the start and the end of the measured time; what
//! is only sampled is a rate over the samples within it.

use iodyno_model::{
    CloneResult, Costs, Course, DeviceCosts, DeviceUse, Direction, HostCores, Part, RequestCosts,
    SeriesKind, SimulatedDisk, StackLayer, Telemetry, Trial, Workload,
};

use super::quantity::KINDS;
use crate::series::{View, measured, totals};
use crate::{devices, work};

/// The costs of a trial with its telemetry; `None` without ops.
pub fn costs(workload: &Workload, trial: &Trial) -> Option<Costs> {
    let loaded = workload.at(trial.probe);
    let workload = &*loaded;
    let clones: Vec<&CloneResult> = work::clones(trial).collect();
    let ops: u64 = clones.iter().map(|clone| work::ops(workload, clone)).sum();
    let span_ns = work::measured_ns(trial) as f64;
    if ops == 0 || span_ns <= 0.0 {
        return None;
    }
    let ops = ops as f64;
    let worker_time_ns: f64 = clones.iter().map(|clone| clone.runtime_ns as f64).sum();
    let figures = crate::summary(workload, trial);
    let cpu = Some(&figures.cpu).filter(|cpu| cpu.span_ns > 0 && cpu.worker_ns() > 0);
    let known_delay = clones.iter().all(|clone| clone.cpu.run_delay_ns.is_some());
    let delays = clones.iter().filter_map(|clone| clone.cpu.run_delay_ns);
    let delay_ns = known_delay.then(|| delays.map(|ns| ns as f64).sum::<f64>() / ops);
    let switches = clones
        .iter()
        .map(|clone| clone.cpu.voluntary + clone.cpu.involuntary);
    let moved = |direction: Direction| -> f64 {
        let results = clones.iter().filter_map(|clone| clone.direction(direction));
        results.map(|result| result.bytes as f64).sum::<f64>() / ops
    };
    let depth = |clone: &&CloneResult| f64::from(clone.engine.depth.max(1));
    let working = || trial.parts.iter().filter(|part| !part.only_sampled());
    let telemetry = measured(trial);
    let host = Host::of(trial, &telemetry, span_ns, ops);
    let servers_ns = servers_ns(&figures.servers, span_ns, ops);
    let cores = cores(trial, &figures);
    let simulated = Simulated::of(working(), ops);
    Some(Costs {
        ops,
        seconds: span_ns / 1e9,
        workers: worker_time_ns / span_ns,
        depth: clones.iter().map(depth).sum(),
        one_at_a_time: clones.iter().all(|clone| clone.engine.depth <= 1),
        direct: !workload.jobs.iter().any(work::buffered),
        op_ns: op_ns(workload, &clones, ops),
        worker_ns: worker_time_ns / ops,
        bytes: [Direction::Read, Direction::Write, Direction::Trim].map(moved),
        syncs: syncs(workload, &clones, ops),
        cpu_ns: cpu.map(|cpu| {
            (
                cpu.worker_user_ns as f64 / ops,
                cpu.worker_system_ns as f64 / ops,
            )
        }),
        delay_ns: delay_ns.filter(|_| cpu.is_some()),
        switches: switches.sum::<u64>() as f64 / ops,
        other_threads_ns: cpu.map(|cpu| cpu.other_ns as f64 / ops),
        servers_ns,
        kernel_ns: cpu.and_then(|_| kernel_ns(trial, ops)),
        cores: cores.filter(|_| cpu.is_some()),
        top: device_costs(working(), ops, |part| top(part)).or(simulated.map(|it| it.devices)),
        lowest: device_costs(working(), ops, |part| devices::lowest(part))
            .or(simulated.map(|it| it.devices)),
        traced: traced(trial, ops).or(simulated.map(|it| it.times)),
        moves: simulated.map(|it| it.moves),
        simulated: workload.in_virtual_time(),
        arc_hits: arc_hits(trial),
        cpu_quota: group(trial, |group| {
            group.throttled_periods as f64 / group.periods.max(1) as f64
        }),
        memory_limit: group(trial, |group| {
            group.memory_limit_hits.unwrap_or(0) as f64 / ops
        }),
        regimes: match figures.behaviour.course {
            Course::Regimes => figures.behaviour.regimes.len().max(1) as f64,
            _ => 1.0,
        },
        requests: requests(&telemetry, span_ns, ops),
        others: host.others,
        interrupts: host.interrupts,
        busiest_cpu: host.busiest_cpu,
        host_switches: host.switches,
        reclaims: host.reclaims,
        refaults: host.refaults,
        dirty_throttled: host.dirty_throttled,
        io_limit: host.io_limit,
    })
}

/// Mean service latency of the ops that make up the rate, ns.
fn op_ns(workload: &Workload, clones: &[&CloneResult], ops: f64) -> f64 {
    let sums = clones.iter().flat_map(|clone| {
        let counted = work::counted(workload.jobs.get(clone.job as usize));
        let results = clone.directions.iter();
        results.filter(move |result| counted.contains(&result.direction))
    });
    sums.map(|result| result.service.sum_ns() as f64)
        .sum::<f64>()
        / ops
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

/// CPU time in the kernel and in interrupts that belongs neither to the harness nor to a server.
fn kernel_ns(trial: &Trial, ops: f64) -> Option<f64> {
    let mut sum = 0.0;
    for part in trial.parts.iter().filter(|part| !part.only_sampled()) {
        let host = &part.host;
        if host.system_ns + host.user_ns + host.idle_ns == 0 {
            return None;
        }
        let servers: u64 = host.servers.iter().map(|server| server.system_ns).sum();
        let own = host.harness_system_ns.saturating_add(servers);
        sum += host.system_ns.saturating_add(host.irq_ns) as f64 - own as f64;
    }
    Some(sum.max(0.0) / ops)
}

/// CPUs of the hosts that did I/O.
fn cores(trial: &Trial, figures: &iodyno_model::Summary) -> Option<HostCores> {
    let mut sum = HostCores::default();
    for part in trial.parts.iter().filter(|part| !part.only_sampled()) {
        let host = &part.host;
        let span = host.span_ns as f64;
        if span <= 0.0 || host.user_ns + host.system_ns + host.idle_ns == 0 {
            return None;
        }
        let harness = host.harness_user_ns + host.harness_system_ns;
        let busy = (host.user_ns + host.system_ns + host.irq_ns) as f64;
        sum.busy += busy / span;
        sum.others += (busy - harness as f64) / span;
        sum.stolen += host.steal_ns as f64 / span;
    }
    let servers: f64 = figures.servers.iter().map(|server| server.cores()).sum();
    sum.others = (sum.others - servers).max(0.0);
    Some(sum)
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
            for kind in 0..2 {
                sum.merges[kind] += per_op(device.merges[kind]);
            }
            busy.push(device.busy_ms as f64 / span_ms);
            sum.busy = sum.busy.max(device.busy_ms as f64 / span_ms).min(1.0);
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
            devices.merges[0] += requests.saturating_sub(disk.commands) as f64 / ops;
            let pending: u64 = disk.pending_ns.iter().sum();
            devices.in_flight += pending as f64 / disk.span_ns as f64;
            moves += disk.moves as f64 / ops;
        }
        let busy = disks.iter();
        let busy: Vec<f64> = busy
            .map(|disk| disk.busy_ns as f64 / disk.span_ns as f64)
            .collect();
        devices.busy = busy.iter().copied().fold(0.0, f64::max).min(1.0);
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
    for part in trial.parts.iter().filter(|part| !part.only_sampled()) {
        let lowest = devices::lowest(part);
        let times = part.host.device_times.as_ref()?;
        let own = times.iter();
        let own = own.filter(|times| lowest.contains(&times.device.as_str()));
        let mut any = false;
        for times in own {
            let Some(kind) = KINDS.iter().position(|kind| *kind == times.direction) else {
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
        inline: all.count("inline") as f64 / requests,
        batch: requests / all.count("batches").max(1) as f64,
        queueing_ns: per_op("queueing_time"),
        service_ns: per_op("service_time"),
    })
}

fn arc_hits(trial: &Trial) -> Option<f64> {
    let parts = trial.parts.iter().filter(|part| !part.only_sampled());
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
    let parts = trial.parts.iter().filter(|part| !part.only_sampled());
    let parts = parts.filter(|part| part.host.span_ns > 0);
    let figures = parts.map(|part| part.host.control_group.as_ref().map_or(0.0, &of));
    figures.reduce(f64::max)
}

/// What only the samples tell.
#[derive(Default)]
struct Host {
    others: Option<[f64; 2]>,
    interrupts: Option<f64>,
    busiest_cpu: Option<f64>,
    switches: Option<f64>,
    reclaims: Option<f64>,
    refaults: Option<f64>,
    dirty_throttled: Option<f64>,
    io_limit: Option<f64>,
}

impl Host {
    fn of(trial: &Trial, telemetry: &Telemetry, span_ns: f64, ops: f64) -> Host {
        let per_op = |rate: f64| rate * span_ns / 1e9 / ops;
        let mut host = Host::default();
        let covered = |kind| -> f64 {
            let samples = telemetry.of(kind);
            samples.map(|(_, sample)| sample.span_ns as f64).sum()
        };
        let others_ns = covered(SeriesKind::Others);
        let gaps = trial.telemetry.gaps.iter();
        let unread = gaps.filter(|gap| gap.kind == SeriesKind::Others).count() > 0;
        if others_ns > 0.0 {
            let of_all = totals(telemetry, SeriesKind::Others);
            let moved = |column: &str| -> f64 {
                let counts = of_all.iter().map(|process| process.count(column) as f64);
                per_op(counts.sum::<f64>() * 1e9 / others_ns)
            };
            host.others = Some([moved("read_bytes"), moved("written_bytes")]);
        } else if covered(SeriesKind::Disk) > 0.0 && !unread {
            // Only processes with I/O have rows.
            host.others = Some([0.0; 2]);
        }
        if covered(SeriesKind::Interrupts) > 0.0 {
            let sources = totals(telemetry, SeriesKind::Interrupts);
            let mut cpus: std::collections::BTreeMap<&str, u64> = Default::default();
            let mut rate = 0.0;
            for source in &sources {
                for (cpu, count) in source.counts() {
                    *cpus.entry(cpu).or_default() += count;
                    rate += count as f64 * 1e9 / source.span_ns.max(1) as f64;
                }
            }
            let all: u64 = crate::series::sum(cpus.values().copied());
            host.interrupts = Some(per_op(rate));
            let most = cpus.values().copied().max().unwrap_or(0);
            host.busiest_cpu = (all > 0).then(|| most as f64 / all as f64);
        }
        let load = totals(telemetry, SeriesKind::Load);
        host.switches = load.first().map(|load| per_op(load.per_second("switches")));
        let reclaim = totals(telemetry, SeriesKind::Reclaim);
        if let Some(reclaim) = reclaim.first() {
            host.reclaims = Some(per_op(reclaim.per_second("stalls")));
            host.refaults = Some(per_op(reclaim.per_second("refaults")));
        }
        host.dirty_throttled = dirty_throttled(telemetry);
        host.io_limit = io_limit(trial, telemetry);
        host
    }
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
