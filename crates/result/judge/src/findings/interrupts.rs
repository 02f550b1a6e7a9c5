//! Detects that one CPU handles all interrupts of a device while other CPUs are idle.

use iodyno_model::{Finding, FindingKind, SeriesKind, Telemetry, Weight};

use super::{Evidence, finding, remedied};
use crate::devices;
use crate::series::{DISJOINT, Total, cpu_number, sum, totals};
use iodyno_model::ordered::entry;

/// Below this rate per second interrupts are negligible: at a few microseconds each they take less than 1 % of
/// a CPU.
const MIN_PER_SECOND: f64 = 1000.0;

/// Percentage of a source's interrupts that one CPU handles. The remaining tenth allows for interrupts before
/// the affinity was changed.
const ONE_CPU_PERCENT: f64 = 90.0;

/// Another CPU is idle for this percentage of the time, so that it could handle them.
const IDLE_PERCENT: f64 = 50.0;

/// The CPU that handles them is busy for this percentage of the time, so that requests wait for it …
const BUSY_PERCENT: f64 = 70.0;

/// … and interrupts, including soft ones, take this percentage of it: otherwise it runs other work that the
/// scheduler may move.
const IRQ_PERCENT: f64 = 10.0;

/// A source with less than this percentage of a device's interrupts is not one of its queues.
const NAMED_PERCENT: f64 = 1.0;

/// Names of storage interrupts, used if the host does not report the device of an interrupt: drivers of disks
/// and host adapters as in /proc/interrupts.
const STORAGE: [&str; 20] = [
    "nvme",
    "blkif",
    "ahci",
    "ata_piix",
    "megasas",
    "megaraid",
    "mpt2sas",
    "mpt3sas",
    "mpi3mr",
    "hpsa",
    "smartpqi",
    "aacraid",
    "qla2xxx",
    "lpfc",
    "pvscsi",
    "vmw_pvscsi",
    "mmc",
    "sdhci",
    "ufshcd",
    "hv_storvsc",
];

/// Interrupts of one device: a source, or the queues of one.
struct Device<'a> {
    sources: Vec<&'a Total<'a>>,
    name: String,
}

/// CPU time by use, in percent.
struct Cpu {
    number: u32,
    idle: f64,
    irq: f64,
}

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    if !evidence.sampled(SeriesKind::Interrupts) {
        return Vec::new();
    }
    let parts = evidence.trial.parts.iter();
    let below: Vec<&str> = parts.flat_map(devices::names).collect();
    on_one_cpu(&evidence.telemetry, &below)
}

/// The same for any telemetry; `below` lists the devices of interest (empty: all).
pub(crate) fn on_one_cpu(telemetry: &Telemetry, below: &[&str]) -> Vec<Finding> {
    let cpus = cpus(telemetry);
    let all = totals(telemetry, SeriesKind::Interrupts);
    let storage = of_storage(&all, below);
    let devices = by_device(&storage);
    let found = devices.iter().filter_map(|device| one_cpu(device, &cpus));
    found.collect()
}

fn cpus(telemetry: &Telemetry) -> Vec<Cpu> {
    let totals = totals(telemetry, SeriesKind::Cpu);
    let cpu = |total: &Total| {
        let all = sum(DISJOINT.map(|sort| total.count(sort)));
        let percent = |ns: u64| ns as f64 * 100.0 / all as f64;
        (all > 0).then(|| {
            Some(Cpu {
                number: cpu_number(total.subject)?,
                // A CPU that waits for I/O is idle too.
                idle: percent(sum(["idle", "iowait"].map(|sort| total.count(sort)))),
                irq: percent(total.count("irq")),
            })
        })?
    };
    totals.iter().filter_map(cpu).collect()
}

/// Sources that serve a device below the targets; if the host reports the device of no source, those with a
/// name of storage.
fn of_storage<'a>(all: &'a [Total<'a>], below: &[&str]) -> Vec<&'a Total<'a>> {
    let told = all.iter().any(|total| total.serves.is_some());
    let storage = |total: &&Total| match (told, total.serves) {
        (true, serves) => serves.is_some_and(|device| below.is_empty() || below.contains(&device)),
        (false, _) => is_storage(action(total.subject)),
    };
    all.iter().filter(storage).collect()
}

/// `virtio1-req.0` of `36 virtio1-req.0`.
fn action(subject: &str) -> &str {
    match subject.split_once(' ') {
        Some((number, action)) if number.bytes().all(|byte| byte.is_ascii_digit()) => action.trim(),
        _ => subject,
    }
}

fn is_storage(action: &str) -> bool {
    // Several sources share a line: `ehci_hcd:usb1, ahci[0000:00:1f.2]`.
    action.split([',', ' ']).map(str::trim).any(|name| {
        // Other virtio functions have other names: `virtio0-input.0`, `virtio0-config`.
        let request = name.starts_with("virtio") && name.contains("-req");
        request || STORAGE.iter().any(|driver| name.starts_with(driver))
    })
}

/// Names of the queues of one device differ only in their number: `nvme0q1` to `nvme0q8`. Sources with
/// identical names, as xen's `blkif`, are separate devices unless they are known to serve the same one.
fn by_device<'a>(sources: &[&'a Total<'a>]) -> Vec<Device<'a>> {
    let mut devices: Vec<Device> = Vec::new();
    for source in sources {
        let of = devices.iter_mut().find(|device| {
            let first = device.sources[0];
            match (first.serves, source.serves) {
                (Some(one), Some(other)) => one == other,
                _ => queue_of(action(first.subject))
                    .is_some_and(|name| queue_of(action(source.subject)) == Some(name)),
            }
        });
        match of {
            Some(device) => device.sources.push(source),
            None => devices.push(Device {
                sources: vec![source],
                name: String::new(),
            }),
        }
    }
    for device in &mut devices {
        device.name = device_name(&device.sources);
    }
    devices
}

/// `nvme0q` of `nvme0q3`. A number is the queue's only if another number, the device's, precedes it.
fn queue_of(action: &str) -> Option<&str> {
    let name = action.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let numbered = name.len() < action.len() && name.bytes().any(|byte| byte.is_ascii_digit());
    numbered.then_some(name)
}

/// The sources that are a device's queues. Sources that rarely interrupt, such as configuration changes, are
/// not.
fn queues<'a>(sources: &[&'a Total<'a>]) -> Vec<&'a Total<'a>> {
    let count = |source: &Total| sum(source.counts().map(|(_, count)| count));
    let all = sum(sources.iter().map(|source| count(source)));
    let often = |source: &&&Total| count(source) as f64 * 100.0 >= NAMED_PERCENT * all as f64;
    sources.iter().filter(often).copied().collect()
}

/// `virtio0-req.0`, `nvme0q1…nvme0q8`, `blkif (interrupt 99)`.
fn device_name(sources: &[&Total]) -> String {
    let sources = queues(sources);
    let (Some(first), Some(last)) = (sources.first(), sources.last()) else {
        return String::new();
    };
    let (first, last) = (first.subject, last.subject);
    let (name, until) = (action(first), action(last));
    let number = first.split_once(' ').map_or("", |(number, _)| number);
    match sources.len() {
        1 if queue_of(name).is_none() && !number.is_empty() => {
            format!("{name} (interrupt {number})")
        }
        1 => name.to_owned(),
        count if name == until => format!("{name} ({count} interrupts from {number} on)"),
        _ => format!("{name}…{until}"),
    }
}

fn one_cpu(device: &Device, cpus: &[Cpu]) -> Option<Finding> {
    let mut taken: Vec<(u32, u64)> = Vec::new();
    let mut span_ns = 0;
    for source in &device.sources {
        span_ns = span_ns.max(source.span_ns);
        for (cpu, count) in source.counts() {
            let cpu = cpu_number(cpu)?;
            let sum: &mut u64 = entry(&mut taken, cpu);
            *sum = sum.saturating_add(count);
        }
    }
    let all = sum(taken.iter().map(|(_, count)| *count));
    let per_second = all as f64 * 1e9 / span_ns.max(1) as f64;
    let (on, most) = taken.into_iter().max_by_key(|(_, count)| *count)?;
    let percent = most as f64 * 100.0 / all.max(1) as f64;
    let busiest = cpus.iter().find(|cpu| cpu.number == on)?;
    let others = cpus.iter().filter(|cpu| cpu.number != on);
    let idlest = others.max_by(|one, other| one.idle.total_cmp(&other.idle))?;
    if per_second < MIN_PER_SECOND || percent < ONE_CPU_PERCENT || idlest.idle < IDLE_PERCENT {
        return None;
    }
    let busy = 100.0 - busiest.idle;
    let in_the_way = busy >= BUSY_PERCENT && busiest.irq >= IRQ_PERCENT;
    let weight = match in_the_way {
        true => Weight::Warning,
        false => Weight::Note,
    };
    let (name, idle) = (&device.name, idlest.idle);
    let text = format!(
        "{name}: {percent:.0} % of interrupts on CPU{on}, CPU{} {idle:.0} % idle or waiting for I/O ({per_second:.0} interrupts/s; \
         CPU{on} {busy:.0} % busy, {:.0} % with interrupts)",
        idlest.number, busiest.irq
    );
    let threshold = format!(
        "≥ {MIN_PER_SECOND:.0} interrupts/s of a device, ≥ {ONE_CPU_PERCENT:.0} % of them on one CPU while another is \
         ≥ {IDLE_PERCENT:.0} % idle or waiting for I/O; a warning where that CPU is ≥ {BUSY_PERCENT:.0} % busy and ≥ {IRQ_PERCENT:.0} % with interrupts"
    );
    let found = finding(FindingKind::InterruptsOnOneCpu, weight, text, threshold);
    Some(remedied(found, remedy(device, idlest.number)))
}

fn remedy(device: &Device, idlest: u32) -> String {
    match queues(&device.sources).as_slice() {
        // An interrupt that cannot be distributed can only be moved, and uses CPU time on whichever CPU handles
        // it.
        [one] => {
            let number = one.subject.split_once(' ').map_or("N", |(number, _)| number);
            format!(
                "it has one queue: give it several (of a virtual disk: num-queues), or keep the jobs off that CPU \
                 (cpus_allowed), or move it: echo {idlest} > /proc/irq/{number}/smp_affinity_list"
            )
        }
        _ => "distribute the queues over the CPUs: run irqbalance, or set /proc/irq/*/smp_affinity_list".to_owned(),
    }
}
