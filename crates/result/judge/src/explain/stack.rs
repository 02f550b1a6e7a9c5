//! Splits the time of an op into parts that add up to it, by the counters of a trial.
//!
//! With one op in flight, the CPU time of the worker is a part of the op's time. With several, or with syncs beside the
//! ops, it overlaps other work, and the worker has a bar of its own.

use iodyno_model::{Costs, TimePart};

/// Which parts there are: the same for all trials of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// One op in flight and no syncs beside it: the CPU time of the worker is known for each op.
    pub(super) fine: bool,
    /// Jobs have syncs beside their ops.
    pub(super) syncs: bool,
    /// The devices are counted; simulated ones take all the time.
    pub(super) devices: bool,
    /// Queue and device are known apart.
    pub(super) traced: bool,
}

impl Form {
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Costs> + Clone) -> Form {
        let mut each = all.clone();
        let syncs = each.any(|it| it.syncs.0 > 0.0);
        let every = |has: fn(&Costs) -> bool| all.clone().all(has);
        let one = |it: &Costs| it.one_at_a_time && it.cpu_ns.is_some() && it.delay_ns.is_some();
        let devices = every(|it| it.lowest.is_some() || it.simulated);
        Form {
            fine: !syncs && every(one),
            syncs,
            devices,
            traced: devices && every(|it| it.traced.is_some()),
        }
    }
}

/// The times of a trial for each op, ns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Split {
    /// The op with its syncs: they add up to [`Costs::whole_ns`].
    pub(super) op: Vec<(TimePart, f64)>,
    /// The syncs: they add up to the time in syncs.
    pub(super) syncs: Vec<(TimePart, f64)>,
    /// The device's time of requests that no op or sync waits for.
    pub(super) background: Vec<(TimePart, f64)>,
}

/// Splits the time of an op.
pub(super) fn split(costs: &Costs, form: Form) -> Split {
    let mut rest = Rest(costs.op_ns);
    let mut op = Vec::new();
    let cpu = |rest: &mut Rest| match form.fine {
        true => {
            let (user, kernel) = costs.cpu_ns.unwrap_or_default();
            // The worker's own work between two ops is user time.
            let outside = (costs.worker_ns - costs.op_ns).max(0.0);
            let user = rest.take((user - outside).max(0.0));
            let kernel = rest.take(kernel);
            let wait = rest.take(costs.delay_ns.unwrap_or(0.0));
            vec![
                (TimePart::KernelCpu, kernel),
                (TimePart::UserCpu, user),
                (TimePart::CpuWait, wait),
            ]
        }
        false => Vec::new(),
    };
    let cpu = cpu(&mut rest);
    let mut left = [0.0; 4];
    if form.devices {
        let at = Requests::of(costs, rest.0);
        left = at.left;
        let device = rest.take(at.device);
        match form.traced {
            true => {
                let queue = device * at.queued;
                op.push((TimePart::Device, device - queue));
                op.push((TimePart::Queue, queue));
            }
            false => op.push((TimePart::Device, device)),
        }
        op.push((TimePart::Layers, rest.take(at.layers)));
    }
    let server = costs
        .requests
        .map_or(0.0, |it| it.queueing_ns + it.service_ns);
    op.push((TimePart::Server, rest.take(server)));
    op.extend(cpu);
    let rest_of_op = match (form.fine, form.devices) {
        (true, true) => TimePart::Unknown,
        (true, false) => TimePart::AsleepOrDevice,
        (false, true) => TimePart::Above,
        (false, false) => TimePart::DeviceAndAbove,
    };
    op.push((rest_of_op, rest.0));
    let mut syncs = Vec::new();
    if form.syncs {
        let mut rest = Rest(costs.syncs.1);
        let both = left[1] + left[3];
        let share = rest.take(both) / both.max(f64::MIN_POSITIVE);
        for kind in [1, 3] {
            syncs.push((TimePart::Requests(kind), left[kind] * share));
            left[kind] *= 1.0 - share;
        }
        op.push((TimePart::SyncDevice, costs.syncs.1 - rest.0));
        let rest_of_syncs = match form.devices {
            true => TimePart::SyncAbove,
            false => TimePart::Syncs,
        };
        op.push((rest_of_syncs, rest.0));
        syncs.push((rest_of_syncs, rest.0));
    }
    let background = (0..4).map(|kind| (TimePart::Requests(kind), left[kind]));
    let background = background.filter(|_| form.devices).collect();
    Split {
        op,
        syncs,
        background,
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

/// The requests that an op waits for.
struct Requests {
    /// At the lowest devices, ns.
    device: f64,
    /// Share of it in the queue.
    queued: f64,
    /// At the first device below the target, beyond that, ns.
    layers: f64,
    /// The other time of each kind at the lowest devices, ns.
    left: [f64; 4],
}

impl Requests {
    /// `available`: what the op can have waited for them, ns.
    fn of(costs: &Costs, available: f64) -> Requests {
        let Some(lowest) = costs.lowest else {
            // A simulated device without counters: nothing else takes time.
            return Requests {
                device: available,
                queued: 0.0,
                layers: 0.0,
                left: [0.0; 4],
            };
        };
        let top = costs.top.unwrap_or(lowest);
        let mut device = [0.0; 4];
        let (mut layers, mut queue) = (0.0, 0.0);
        let mut left = [0.0; 4];
        for kind in 0..4 {
            // Devices side by side overlap; a file system of its own devices has no counters above them.
            left[kind] = match top.ns[kind] > 0.0 {
                true => lowest.ns[kind].min(top.ns[kind]),
                false => lowest.ns[kind],
            };
            let waits = costs.waits_for[kind];
            device[kind] = left[kind].min(waits);
            layers += top.ns[kind].min(waits).max(device[kind]) - device[kind];
            let (queued, service) = costs.traced.map_or((0.0, 0.0), |traced| traced[kind]);
            if queued + service > 0.0 {
                queue += device[kind] * queued / (queued + service);
            }
        }
        let sum: f64 = device.iter().sum();
        let fits = (available / sum.max(f64::MIN_POSITIVE)).min(1.0);
        for kind in 0..4 {
            left[kind] -= device[kind] * fits;
        }
        Requests {
            device: sum * fits,
            queued: queue / sum.max(f64::MIN_POSITIVE),
            layers,
            left,
        }
    }
}

/// The time of the workers for each op, ns: kernel, user, wait for a CPU, asleep; `None`: not known.
pub(super) fn worker(costs: &Costs) -> Option<[(TimePart, f64); 4]> {
    let (user, kernel) = costs.cpu_ns?;
    let mut rest = Rest(costs.worker_ns);
    let kernel = rest.take(kernel);
    let user = rest.take(user);
    let wait = rest.take(costs.delay_ns?);
    Some([
        (TimePart::KernelCpu, kernel),
        (TimePart::UserCpu, user),
        (TimePart::CpuWait, wait),
        (TimePart::Unknown, rest.0),
    ])
}

#[cfg(test)]
mod tests {
    use iodyno_model::DeviceCosts;
    use proptest::prelude::*;

    use super::*;

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
            let sum = |parts: &[(TimePart, f64)]| parts.iter().map(|(_, ns)| ns).sum::<f64>();
            prop_assert!((sum(&split.op) - costs.whole_ns()).abs() < 1e-3, "{:?}", split.op);
            let all = split.op.iter().chain(&split.syncs).chain(&split.background);
            for (part, ns) in all {
                prop_assert!(*ns >= -1e-6, "{part:?} {ns}");
            }
            if form.syncs {
                prop_assert!((sum(&split.syncs) - costs.syncs.1).abs() < 1e-3);
            }
            if let Some(worker) = worker(&costs) {
                prop_assert!((sum(&worker) - costs.worker_ns).abs() < 1e-3);
            }
        }
    }
}
