//! Counters of devices and CPUs, and their increase over a period.

mod text;

use std::time::{Instant, SystemTime};

use iodyno_model::{DeviceUse, HostUse, TargetInfo};
use iodyno_sys::host::{ProcessUse, process_use};

use crate::control_group;
use crate::environment::meminfo;
use crate::roots;
use crate::roots::Roots;

pub use text::{CpuTimes, DiskStats, arc_hits, cpu_times, disk_lines, disk_stats, times_by_cpu};

/// The unit of /proc/stat: hundredths of a second on every architecture (USER_HZ).
pub const NS_A_TICK: u64 = 10_000_000;

/// Kernel names of all devices below the targets, top first, without duplicates.
pub fn devices(targets: &[TargetInfo]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let all = targets.iter().flat_map(|target| &target.stack);
    for device in all.filter_map(|layer| layer.device()) {
        if !names.contains(&device.name) {
            names.push(device.name.clone());
        }
    }
    names
}

/// Counters at one instant.
#[derive(Debug, Clone)]
pub struct Snapshot {
    at: Instant,
    wall: SystemTime,
    cpu: CpuTimes,
    devices: Vec<(String, Option<DiskStats>)>,
    arc: Option<(u64, u64)>,
    own_read: Option<u64>,
    process: ProcessUse,
    groups: control_group::Counts,
}

impl Snapshot {
    /// Reads the counters of the host and of the devices with these kernel names, see [`devices`].
    pub fn take(roots: &Roots, devices: &[String]) -> Snapshot {
        let read = |name: &str| roots::text(roots.proc.join(name)).unwrap_or_default();
        let disks = disk_stats(&read("diskstats"));
        Snapshot {
            at: Instant::now(),
            wall: SystemTime::now(),
            cpu: cpu_times(&read("stat")).unwrap_or_default(),
            devices: devices
                .iter()
                .map(|name| {
                    let stats = disks.iter().find(|disk| disk.0 == *name);
                    (name.clone(), stats.map(|disk| disk.1))
                })
                .collect(),
            arc: arc_hits(&read("spl/kstat/zfs/arcstats")),
            own_read: text::own_read(&read("self/io")),
            process: process_use(),
            groups: control_group::Counts::read(roots, meminfo(&read("meminfo")).total),
        }
    }

    /// The increase since an earlier snapshot. A device that has disappeared is not included; one that has
    /// appeared counts from zero. The harness is this process.
    pub fn since(&self, earlier: &Snapshot) -> HostUse {
        let span = self.at.saturating_duration_since(earlier.at);
        let ticks = |field: fn(&CpuTimes) -> u64| {
            field(&self.cpu).saturating_sub(field(&earlier.cpu)) * NS_A_TICK
        };
        HostUse {
            span_ns: span.as_nanos() as u64,
            user_ns: ticks(|cpu| cpu.user),
            system_ns: ticks(|cpu| cpu.system),
            idle_ns: ticks(|cpu| cpu.idle),
            iowait_ns: ticks(|cpu| cpu.iowait),
            irq_ns: ticks(|cpu| cpu.irq),
            steal_ns: ticks(|cpu| cpu.steal),
            harness_user_ns: self.process.user_ns.saturating_sub(earlier.process.user_ns),
            harness_system_ns: self
                .process
                .system_ns
                .saturating_sub(earlier.process.system_ns),
            harness_memory: self.process.memory,
            devices: self.devices_since(earlier),
            arc_hits: self.arc.map(|(hits, misses)| {
                let before = earlier.arc.unwrap_or_default();
                (
                    hits.saturating_sub(before.0),
                    misses.saturating_sub(before.1),
                )
            }),
            own_read_bytes: (self.own_read.zip(earlier.own_read))
                .map(|(now, before)| now.saturating_sub(before)),
            clock_drift_ns: drift_ns(earlier.wall, self.wall, span.as_nanos() as i128),
            // Named processes are sampled, and requests traced: they have no counters here.
            servers: Vec::new(),
            device_times: None,
            control_group: self.groups.since(&earlier.groups),
            simulated: Vec::new(),
        }
    }

    fn devices_since(&self, earlier: &Snapshot) -> Vec<DeviceUse> {
        self.devices
            .iter()
            .filter_map(|(name, now)| {
                let before = earlier.devices.iter().find(|device| device.0 == *name);
                let before = before.and_then(|device| device.1).unwrap_or_default();
                Some(now.as_ref()?.since(&before, name))
            })
            .collect()
    }
}

/// The difference between the increases of the wall clock and the monotonic clock, ns.
fn drift_ns(earlier: SystemTime, later: SystemTime, span_ns: i128) -> i64 {
    let passed = match later.duration_since(earlier) {
        Ok(forward) => forward.as_nanos() as i128,
        Err(backward) => -(backward.duration().as_nanos() as i128),
    };
    (passed - span_ns).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests;
