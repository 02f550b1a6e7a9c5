//! Splits the time of an op into parts that add up to it, by the counters of a trial.
//!
//! With one op in flight, the CPU time of the worker is a part of the op's time. With several, or with syncs beside the
//! ops, it overlaps other work, and the worker has a bar of its own.

use iodyno_model::{Costs, DeviceCosts, TimePart};

/// Which parts there are: the same for all trials of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    /// One op in flight and no syncs beside it: the CPU time of the worker is known for each op.
    pub(crate) fine: bool,
    /// The devices are counted; simulated ones take all the time.
    pub(crate) devices: bool,
    /// Queue and device are known apart.
    pub(crate) traced: bool,
    /// Without devices, all requests go to a server that counts them.
    pub(crate) server: bool,
}

impl Form {
    pub(crate) fn of<'a>(all: impl Iterator<Item = &'a Costs> + Clone) -> Form {
        let every = |has: fn(&Costs) -> bool| all.clone().all(has);
        let devices = every(|it| it.lowest.is_some() || it.simulated);
        Form {
            fine: every(|it| it.one_at_a_time && it.syncs.0 == 0.0 && it.delay_ns.is_some()),
            devices,
            traced: devices && every(|it| it.traced.is_some()),
            server: !devices && every(|it| it.requests.is_some()),
        }
    }
}

/// A part of a trial's time for each op.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Timed {
    pub(crate) part: TimePart,
    pub(crate) ns: f64,
    /// How much of it may belong to other parts or processes.
    pub(crate) uncertain: f64,
}

impl Timed {
    fn new(part: TimePart, ns: f64, uncertain: f64) -> Timed {
        Timed {
            part,
            ns,
            uncertain,
        }
    }
}

/// The times of a trial for each op.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Split {
    /// The op with its syncs: they add up to [`Costs::whole_ns`].
    pub(crate) op: Vec<Timed>,
    /// A sync, if there are any.
    pub(crate) syncs: Vec<Timed>,
    /// The steps of a cycle of file operations.
    pub(crate) steps: Vec<Timed>,
    /// The device's time of requests that no op or sync waits for.
    pub(crate) background: Vec<Timed>,
    /// Time for which the device had requests of an op whose worker waited for a CPU; it is in the wait, ns.
    pub(crate) overlap: f64,
}

/// Splits the time of an op.
pub(crate) fn split(costs: &Costs, form: Form) -> Split {
    let mut rest = Rest(costs.op_ns);
    let mut cpu = Vec::new();
    let mut wait = 0.0;
    if form.fine {
        let (user, kernel) = costs.cpu_ns.unwrap_or_default();
        // The worker's own work between two ops is user time.
        let outside = (costs.worker_ns - costs.op_ns).max(0.0);
        let in_op = rest.take((user - outside).max(0.0));
        cpu = vec![
            Timed::new(TimePart::KernelCpu, rest.take(kernel), 0.0),
            Timed::new(TimePart::UserCpu, in_op, user.min(outside)),
        ];
        wait = rest.take(costs.delay_ns.unwrap_or(0.0));
    }
    let at = Requests::of(costs, form);
    let overlap = (at.device - rest.0).clamp(0.0, wait);
    let device = rest.take(at.device);
    let others = at.others.min(device);
    let queue = if form.traced { device * at.queued } else { 0.0 };
    let mut op = Vec::new();
    if form.devices {
        let uncertain = others.max(overlap);
        op.push(Timed::new(TimePart::Device, device - queue, uncertain));
        op.extend(form.traced.then(|| Timed::new(TimePart::Queue, queue, 0.0)));
        // What other processes add to the lowest devices is missing above them.
        let layers = rest.take(at.layers);
        op.push(Timed::new(TimePart::Layers, layers, others.min(rest.0)));
    }
    let server = (costs.requests).map_or(0.0, |it| it.queueing_ns + it.service_ns);
    op.push(Timed::new(TimePart::Server, rest.take(server), 0.0));
    if form.fine {
        cpu.push(Timed::new(TimePart::CpuWait, wait, overlap));
    }
    op.extend(cpu);
    let rest_of_op = match (form.fine, form.devices) {
        _ if form.server => TimePart::OutsideServer,
        (true, true) => TimePart::Unknown,
        (true, false) => TimePart::AsleepOrDevice,
        (false, true) => TimePart::Above,
        (false, false) => TimePart::DeviceAndAbove,
    };
    op.push(Timed::new(rest_of_op, rest.0, 0.0));
    // What the op did not wait for is that of syncs, or in the background.
    let waited = device / at.device.max(f64::MIN_POSITIVE);
    let mut left: [f64; 4] = std::array::from_fn(|kind| at.all[kind] - waited * at.own[kind]);
    let mut rest = Rest(costs.syncs.1);
    let both = left[1] + left[3];
    let device = rest.take(both);
    let share = device / both.max(f64::MIN_POSITIVE);
    let rest_of_syncs = match form.devices {
        true => TimePart::SyncAbove,
        false => TimePart::Syncs,
    };
    op.push(Timed::new(TimePart::SyncDevice, device, 0.0));
    op.push(Timed::new(rest_of_syncs, rest.0, 0.0));
    let of_sync = |part, ns| Timed::new(part, ns / costs.syncs.0.max(f64::MIN_POSITIVE), 0.0);
    let mut syncs = Vec::new();
    for kind in [1, 3] {
        syncs.push(of_sync(TimePart::Requests(kind), left[kind] * share));
        left[kind] *= 1.0 - share;
    }
    syncs.push(of_sync(rest_of_syncs, rest.0));
    let steps = costs.steps.iter();
    let steps = steps.map(|(name, ns)| Timed::new(TimePart::Step(name), *ns, 0.0));
    let background = left.into_iter().enumerate();
    let background = background.map(|(kind, ns)| Timed::new(TimePart::Requests(kind), ns, 0.0));
    Split {
        op,
        syncs,
        steps: steps.collect(),
        background: background.filter(|_| form.devices).collect(),
        overlap,
    }
}

/// Time that is not yet assigned, ns.
struct Rest(f64);

impl Rest {
    /// Takes as much as there is.
    fn take(&mut self, ns: f64) -> f64 {
        let taken = ns.clamp(0.0, self.0.max(0.0));
        self.0 -= taken;
        taken
    }
}

/// The time of requests for each op, ns.
#[derive(Default)]
struct Requests {
    /// All requests of each kind at the lowest devices.
    all: [f64; 4],
    /// Those that an op waits for.
    own: [f64; 4],
    /// The sum of these.
    device: f64,
    /// Share of it in the queue.
    queued: f64,
    /// How much of it may be that of other processes, by their bytes.
    others: f64,
    /// At the first device below the target, beyond that.
    layers: f64,
}

impl Requests {
    fn of(costs: &Costs, form: Form) -> Requests {
        let Some(lowest) = costs.lowest.filter(|_| form.devices) else {
            // A simulated device without counters: nothing else takes time.
            return Requests {
                device: if form.devices { costs.op_ns } else { 0.0 },
                ..Requests::default()
            };
        };
        let top: DeviceCosts = costs.top.unwrap_or(lowest);
        let of_others = costs.others_at_devices().unwrap_or_default();
        let mut found = Requests::default();
        for kind in 0..4 {
            // Devices side by side overlap; a file system of its own devices has no counters above them.
            let all = match top.ns[kind] > 0.0 {
                true => lowest.ns[kind].min(top.ns[kind]),
                false => lowest.ns[kind],
            };
            let waits = costs.waits_for[kind];
            let own = all.min(waits);
            found.layers += top.ns[kind].min(waits).max(own) - own;
            let (queued, service) = costs.traced.map_or((0.0, 0.0), |traced| traced[kind]);
            if queued + service > 0.0 {
                found.queued += own * queued / (queued + service);
            }
            if kind < 2 && lowest.bytes[kind] > 0.0 {
                found.others += own * of_others[kind] / lowest.bytes[kind];
            }
            (found.all[kind], found.own[kind]) = (all, own);
        }
        found.device = found.own.iter().sum();
        found.queued /= found.device.max(f64::MIN_POSITIVE);
        found
    }
}

/// The parts of a worker's time.
pub(crate) const WORKER: [TimePart; 4] = [
    TimePart::KernelCpu,
    TimePart::UserCpu,
    TimePart::CpuWait,
    TimePart::Asleep,
];

/// The time of the workers for each op in these parts, ns; `None`: not known.
pub(crate) fn worker(costs: &Costs) -> Option<[f64; 4]> {
    let (user, kernel) = costs.cpu_ns?;
    let mut rest = Rest(costs.worker_ns);
    let (kernel, user) = (rest.take(kernel), rest.take(user));
    Some([kernel, user, rest.take(costs.delay_ns?), rest.0])
}
