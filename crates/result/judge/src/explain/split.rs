//! Splits the time of an op into parts that add up to it, and a ratio of two sides into factors.
//!
//! The time is that of a worker for each op: CPU time, waiting for a CPU, and waiting for something else, such as a
//! device. A latency is split in the same way. A part of the time with known factors (requests × time of a request) is
//! split further. The logarithm of the ratio is distributed over parts in proportion to their changes, and within a
//! part over the logarithms of its factors, so that all contributions add up exactly (logarithmic mean Divisia index:
//! Ang, Energy Policy 32, 2004).

use iodyno_model::Costs;

use super::quantity::Quantity;
use iodyno_model::ordered::entry;

/// How the two sides are split: the same for all of their trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mode {
    /// What is split.
    pub(super) frame: Frame,
    /// Syncs are a part of their own, because one side has more of them for each op; the other parts are not separated
    /// then.
    pub(super) syncs: bool,
    /// Both sides have a worker's CPU time.
    pub(super) cpu: bool,
    /// Both sides have counters of devices.
    pub(super) devices: bool,
    /// Requests go through several layers of devices on a side.
    pub(super) layers: bool,
    /// Both sides have traced requests.
    pub(super) traced: bool,
    /// The device works for the jobs in the background on a side: the time of a request includes that of others before
    /// it.
    pub(super) background: bool,
    /// Both sides use up a limit of the control group on I/O: the kind of request with most bytes, and whether bytes
    /// rather than requests tell how long the jobs wait for it.
    pub(super) limited: Option<(usize, bool)>,
    /// Both sides have the CPU time of servers.
    pub(super) servers: bool,
    /// The time at the devices is bytes × time of a byte rather than requests × time of a request, by read and write:
    /// the one whose time differs less.
    pub(super) bytes: [bool; 2],
}

/// The time that is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Frame {
    /// Time of a worker for each op.
    #[default]
    Rate,
    /// Latency of an op.
    Latency,
}

/// Syncs for each op that differ by this factor are a part of their own.
const MORE_SYNCS: f64 = 1.25;

/// The requests of a device take this many times as long as the jobs wait: it works in the background.
pub(super) const BACKGROUND: f64 = 1.5;

/// From this share on, a limit is used up.
const USED_UP: f64 = 0.8;

/// A part of an op's time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// What it is.
    pub(super) quantity: Quantity,
    /// ns.
    pub(super) ns: f64,
    /// Quantities with exponents whose product is `ns`; empty: it has no known factors.
    pub(super) factors: Vec<(Quantity, f64, f64)>,
}

impl Part {
    fn new(quantity: Quantity, ns: f64) -> Part {
        Part {
            quantity,
            ns: ns.max(0.0),
            factors: Vec::new(),
        }
    }
}

impl Mode {
    /// How two sides with these costs are split.
    pub(super) fn of(frame: Frame, baseline: &[&Costs], candidate: &[&Costs]) -> Mode {
        let sides = [baseline, candidate];
        let all = || sides.into_iter().flatten().copied();
        let every = |has: fn(&Costs) -> bool| all().all(has);
        let syncs: Vec<f64> = sides
            .iter()
            .map(|side| mean(side, |it| it.syncs.0))
            .collect();
        let (fewer, more) = (syncs[0].min(syncs[1]), syncs[0].max(syncs[1]));
        let devices = every(|it| it.top.is_some() && it.lowest.is_some());
        let background = |it: &Costs| {
            let device_ns: f64 = it.top.map_or(0.0, |top| top.ns.iter().sum());
            let in_flight = if it.one_at_a_time {
                it.worker_ns
            } else {
                it.op_ns
            };
            device_ns > BACKGROUND * in_flight
        };
        let layers = devices
            && all().any(|it| {
                let pair = it.top.zip(it.lowest);
                pair.is_some_and(|(top, lowest)| top != lowest)
            });
        let by_bytes = |kind: usize| {
            let device = |it: &Costs| match layers {
                true => it.lowest.unwrap_or_default(),
                false => it.top.unwrap_or_default(),
            };
            let known = |it: &Costs| {
                let device = device(it);
                let all = [device.requests[kind], device.bytes[kind], device.ns[kind]];
                it.bytes[kind] > 0.0 && all.iter().all(|value| *value > 0.0)
            };
            let change = |of: fn(&iodyno_model::DeviceCosts, usize) -> f64| {
                let of_side = |side: &[&Costs]| mean(side, |it| of(&device(it), kind));
                (of_side(candidate) / of_side(baseline)).ln().abs()
            };
            // The mean request is not one of the jobs if others have requests as well.
            devices
                && all().all(known)
                && all().all(|it| own_requests(it, kind) == 1.0)
                && change(|it, kind| it.ns[kind] / it.bytes[kind])
                    < change(|it, kind| it.ns[kind] / it.requests[kind])
        };
        let limited = || {
            let bytes = |kind: usize| -> f64 {
                let of = |it: &Costs| it.lowest.map_or(0.0, |lowest| lowest.bytes[kind]);
                all().map(of).sum()
            };
            let kind = usize::from(bytes(1) > bytes(0));
            let known = |it: &Costs| {
                let lowest = it.lowest.unwrap_or_default();
                it.bytes[kind] > 0.0 && lowest.bytes[kind] > 0.0 && lowest.requests[kind] > 0.0
            };
            // The price of what is limited is the same on both sides.
            let change = |of: fn(&iodyno_model::DeviceCosts, usize) -> f64| {
                let of_side = |side: &[&Costs]| {
                    let price =
                        |it: &Costs| it.worker_ns / of(&it.lowest.unwrap_or_default(), kind);
                    mean(side, price)
                };
                (of_side(candidate) / of_side(baseline)).ln().abs()
            };
            let used_up = |side: &[&Costs]| mean(side, |it| it.io_limit.unwrap_or(0.0)) >= USED_UP;
            (sides.into_iter().all(used_up) && all().all(known)).then(|| {
                let by_bytes = change(|it, kind| it.bytes[kind]);
                (kind, by_bytes < change(|it, kind| it.requests[kind]))
            })
        };
        let in_background =
            devices && all().filter(|it| background(it)).count() * 2 > all().count();
        Mode {
            frame,
            limited: limited(),
            syncs: frame == Frame::Rate && more > 0.0 && more > MORE_SYNCS * fewer,
            cpu: every(|it| it.cpu_ns.is_some()),
            devices,
            layers,
            // In the background, a request waits for others of its own reader, and not an op for it.
            traced: devices && !in_background && every(|it| it.traced.is_some()),
            background: in_background,
            servers: every(|it| it.servers_ns.is_some()),
            bytes: [by_bytes(0), by_bytes(1)],
        }
    }
}

pub(super) fn mean(side: &[&Costs], of: impl Fn(&Costs) -> f64) -> f64 {
    side.iter().map(|costs| of(costs)).sum::<f64>() / side.len().max(1) as f64
}

/// The time of an op, ns.
pub(super) fn whole_ns(costs: &Costs, mode: Mode) -> f64 {
    match mode.frame {
        Frame::Rate => costs.worker_ns,
        Frame::Latency => costs.op_ns,
    }
}

/// The parts of an op's time; they add up to [`whole_ns`].
pub(super) fn parts(costs: &Costs, mode: Mode) -> Vec<Part> {
    let whole = whole_ns(costs, mode);
    if mode.syncs {
        let (count, ns) = costs.syncs;
        let ns = ns.min(whole);
        let mut syncs = Part::new(Quantity::InSyncs, ns);
        if count > 0.0 && ns > 0.0 {
            syncs.factors = vec![
                (Quantity::Syncs, count, 1.0),
                (Quantity::SyncTime, ns / count, 1.0),
            ];
        }
        return vec![syncs, Part::new(Quantity::BesideSyncs, whole - ns)];
    }
    let mut parts = Vec::new();
    let mut left = whole;
    let mut take = |parts: &mut Vec<Part>, quantity, ns: f64| {
        let ns = ns.clamp(0.0, left);
        left -= ns;
        parts.push(Part::new(quantity, ns));
    };
    // The CPU time of a worker that has several ops in flight is not a part of the latency of each.
    if mode.cpu && (mode.frame == Frame::Rate || costs.one_at_a_time) {
        let (user, system) = costs.cpu_ns.unwrap_or_default();
        take(&mut parts, Quantity::UserCpu, user);
        take(&mut parts, Quantity::KernelCpu, system);
        take(&mut parts, Quantity::CpuWait, costs.delay_ns.unwrap_or(0.0));
    }
    let waits = left;
    let mut device = match mode.devices {
        true => device_parts(costs, mode),
        false => Vec::new(),
    };
    // With several ops in flight, the share of their latency.
    let share = |ns: f64| match costs.one_at_a_time || mode.frame == Frame::Latency {
        true => ns.min(waits),
        false => waits * (ns / costs.op_ns.max(ns).max(f64::MIN_POSITIVE)),
    };
    let device_ns: f64 = device.iter().map(|part| part.ns).sum();
    let waited = share(device_ns);
    let servers = match mode.servers {
        true => share(costs.servers_ns.unwrap_or(0.0)).min(waits - waited),
        false => 0.0,
    };
    let overlap = match waited > 0.0 {
        true => device_ns / waited,
        false => 1.0,
    };
    for part in &mut device {
        overlapped(part, overlap, mode);
    }
    parts.extend(device);
    if mode.servers {
        parts.push(Part::new(Quantity::ServerCpu, servers));
    }
    parts.push(other_waits(costs, mode, waits - waited - servers));
    parts
}

/// Waits that neither a device nor a server explains. Where a limit on I/O is used up, they are as long as what is
/// limited is large.
fn other_waits(costs: &Costs, mode: Mode, ns: f64) -> Part {
    let Some((kind, by_bytes)) = mode.limited else {
        return Part::new(Quantity::OtherWaits, ns);
    };
    let mut part = Part::new(Quantity::LimitWaits, ns);
    let lowest = costs.lowest.unwrap_or_default();
    part.factors = match by_bytes {
        true => vec![
            (Quantity::Bytes, costs.bytes[kind], 1.0),
            (
                Quantity::Amplification(kind),
                lowest.bytes[kind] / costs.bytes[kind],
                1.0,
            ),
        ],
        false => vec![(Quantity::Requests(kind), lowest.requests[kind], 1.0)],
    };
    let amount: f64 = part.factors.iter().map(|factor| factor.1).product();
    let price = match by_bytes {
        true => Quantity::LimitTime,
        false => Quantity::LimitInterval,
    };
    part.factors.push((price, part.ns / amount, 1.0));
    part
}

/// Divides a part by the number of requests whose times overlap.
fn overlapped(part: &mut Part, overlap: f64, mode: Mode) {
    part.ns /= overlap;
    if part.factors.is_empty() {
        return;
    }
    match mode.background {
        // The more requests wait, the longer each takes: only the quotient tells about the device.
        true => {
            for factor in &mut part.factors {
                if factor.0.is_time() {
                    factor.1 /= overlap;
                    factor.0 = factor.0.spaced();
                }
            }
        }
        false => part.factors.push((Quantity::Overlap, overlap, -1.0)),
    }
}

/// The time of requests by kind and layer, for each op, before overlaps.
fn device_parts(costs: &Costs, mode: Mode) -> Vec<Part> {
    let (top, lowest) = (
        costs.top.unwrap_or_default(),
        costs.lowest.unwrap_or_default(),
    );
    let traced = costs.traced.unwrap_or_default();
    let mut parts = Vec::new();
    for (kind, (queue, service)) in traced.into_iter().enumerate() {
        let own = own_requests(costs, kind);
        let top_ns = top.ns[kind] * own;
        let (below_ns, device_ns) = match mode.layers {
            true => {
                let below = (lowest.ns[kind] * own).min(top_ns);
                (below, top_ns - below)
            }
            false => (top_ns, 0.0),
        };
        if mode.layers {
            parts.push(Part::new(Quantity::BetweenLayers(kind), device_ns));
        }
        let by_bytes = kind < 2 && mode.bytes[kind];
        let device = match mode.layers {
            true => lowest,
            false => top,
        };
        let requests = device.requests[kind] * own;
        let amount = || -> Vec<(Quantity, f64, f64)> {
            match by_bytes {
                true => vec![
                    (Quantity::Bytes, costs.bytes[kind], 1.0),
                    (
                        Quantity::Amplification(kind),
                        device.bytes[kind] / costs.bytes[kind],
                        1.0,
                    ),
                ],
                false => vec![(Quantity::Requests(kind), requests, 1.0)],
            }
        };
        let with_factors = |quantity, time: Quantity, ns: f64| {
            let mut part = Part::new(quantity, ns);
            if requests > 0.0 && ns > 0.0 {
                part.factors = amount();
                let amount: f64 = part.factors.iter().map(|factor| factor.1).product();
                part.factors.push((time, ns / amount, 1.0));
            }
            part
        };
        match mode.traced {
            true => {
                let sum = queue + service;
                let in_queue = match sum > 0.0 {
                    true => below_ns * queue / sum,
                    false => 0.0,
                };
                parts.push(with_factors(
                    Quantity::InQueue(kind),
                    Quantity::QueueTime(kind),
                    in_queue,
                ));
                parts.push(with_factors(
                    Quantity::InDevice(kind),
                    Quantity::DeviceTime(kind),
                    below_ns - in_queue,
                ));
            }
            false => parts.push(with_factors(
                Quantity::AtDevice(kind),
                match by_bytes {
                    true => Quantity::ByteTime(kind),
                    false => Quantity::Await(kind),
                },
                below_ns,
            )),
        }
    }
    parts
}

/// Requests and bytes of other processes below this share of the device's are not told from those of the jobs.
const MIN_OTHERS: f64 = 0.1;

/// The share of a device's requests that are those of the jobs: an op does not wait for requests of other processes
/// themselves. Their bytes are known and not their number: the jobs' requests are taken to be as large as their ops, if
/// these are smaller than the mean.
fn own_requests(costs: &Costs, kind: usize) -> f64 {
    let lowest = costs.lowest.unwrap_or_default();
    let others = costs.others_at_devices().filter(|_| kind < 2);
    let others = others.map_or(0.0, |all| all[kind]);
    if kind > 1 || costs.bytes[kind] <= 0.0 || others < MIN_OTHERS * lowest.bytes[kind] {
        return 1.0;
    }
    let mean = lowest.bytes[kind] / lowest.requests[kind];
    let size = costs.bytes[kind].min(mean);
    ((lowest.bytes[kind] - others) / size / lowest.requests[kind]).clamp(0.0, 1.0)
}

/// A contribution to the logarithm of the ratio of speed.
pub(super) type Contribution = (Quantity, f64);

/// Distributes the change of an op's time from `baseline` to `candidate` over quantities; `split` tells for each part
/// whether its factors are known in all trials. The sum is ln(baseline's time ÷ candidate's time).
pub(super) fn contributions(
    baseline: &[Part],
    candidate: &[Part],
    split: &dyn Fn(Quantity) -> bool,
) -> Vec<Contribution> {
    let total = |parts: &[Part]| parts.iter().map(|part| part.ns).sum::<f64>();
    let all = logarithmic_mean(total(baseline), total(candidate));
    let mut found: Vec<Contribution> = Vec::new();
    let mut add = |quantity: Quantity, amount: f64| *entry(&mut found, quantity) += amount;
    if all <= 0.0 {
        return found;
    }
    for (one, other) in baseline.iter().zip(candidate) {
        if !split(one.quantity) {
            add(one.quantity, (one.ns - other.ns) / all);
            continue;
        }
        let weight = logarithmic_mean(one.ns, other.ns) / all;
        for (own, theirs) in one.factors.iter().zip(&other.factors) {
            add(own.0, -weight * own.2 * (theirs.1 / own.1).ln());
        }
    }
    found
}

/// (b − a) ÷ ln(b ÷ a), between both; a for equal values, 0 if one is 0.
fn logarithmic_mean(a: f64, b: f64) -> f64 {
    if a <= 0.0 || b <= 0.0 {
        // Both parts of the quotient exist only for positive values; an op's whole time is positive.
        return 0.0;
    }
    let ratio = b / a;
    match (ratio - 1.0).abs() < 1e-9 {
        true => a,
        false => (b - a) / ratio.ln(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contributions_add_up_to_the_logarithm_of_the_ratio() {
        let part = |quantity, ns, factors| Part {
            quantity,
            ns,
            factors,
        };
        let side = |requests: f64, time: f64, other: f64| {
            vec![
                part(
                    Quantity::AtDevice(0),
                    requests * time,
                    vec![
                        (Quantity::Requests(0), requests, 1.0),
                        (Quantity::Await(0), time, 1.0),
                    ],
                ),
                part(Quantity::OtherWaits, other, Vec::new()),
            ]
        };
        for (one, other) in [
            ((1.0, 100.0, 20.0), (3.1, 110.0, 5.0)),
            ((2.0, 50.0, 0.0), (1.0, 50.0, 0.0)),
            ((1.0, 50.0, 7.0), (1.0, 50.0, 7.0)),
        ] {
            let (one, other) = (side(one.0, one.1, one.2), side(other.0, other.1, other.2));
            let found = contributions(&one, &other, &|it| it == Quantity::AtDevice(0));
            let total = |parts: &[Part]| parts.iter().map(|part| part.ns).sum::<f64>();
            let sum: f64 = found.iter().map(|(_, amount)| amount).sum();
            let expected = (total(&one) / total(&other)).ln();
            assert!((sum - expected).abs() < 1e-12, "{found:?}");
            // Exchanged sides have the opposite contributions.
            let back = contributions(&other, &one, &|it| it == Quantity::AtDevice(0));
            for ((quantity, there), (same, back)) in found.iter().zip(&back) {
                assert_eq!(quantity, same);
                assert!((there + back).abs() < 1e-12);
            }
        }
    }
}
