//! I/O engines: the interfaces through which ops reach the kernel.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{EngineKind, ExportUri};

/// Distribution of a simulated device's service times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimLaw {
    /// Constant, ns.
    Constant(u64),
    /// Exponential with this mean in ns.
    Exponential(u64),
    /// Log-normal with this median in ns and this σ.
    LogNormal {
        /// Median, ns.
        median_ns: u64,
        /// σ of the logarithm.
        sigma: f64,
    },
}

/// A fault of a simulated device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimFault {
    /// Every n-th op fails with an errno.
    Errno {
        /// n: one op in this number fails.
        every: u64,
        /// The errno.
        errno: i32,
    },
    /// Every n-th op moves only half of its bytes.
    Short {
        /// n: one op in this number is short.
        every: u64,
    },
    /// No op completes during a period.
    Stall {
        /// Start of the period, ns after the first op.
        from_ns: u64,
        /// Length of the period, ns.
        for_ns: u64,
    },
}

/// The clock of a simulated device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimClock {
    /// Virtual time: advances from event to event without waiting. Used if all jobs of a workload use
    /// simulated devices and none requests real time.
    #[default]
    Virtual,
    /// The host's clock.
    Real,
}

impl SimClock {
    /// The value for stored plans that do not have this field.
    fn real() -> SimClock {
        SimClock::Real
    }
}

/// The kind of a simulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimDiskKind {
    /// A rotating disk.
    Hdd,
    /// A solid-state disk.
    Flash,
}

/// A simulated disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimDisk {
    /// Its kind.
    pub kind: SimDiskKind,
    /// What all its times are multiplied by; above 0.
    pub factor: f64,
}

/// The factor is a number.
impl Eq for SimDisk {}

/// What a simulated device is. Its text, which is also its stored form: `law`; `hdd`; `flash`; `hdd*2`, a disk that
/// needs twice the time; `mirror:POLICY:hdd+hdd*2`, a mirror of disks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum SimDevice {
    /// Service times are drawn from [`SimOptions::law`]. Each clone has its own device.
    #[default]
    Law,
    /// A model of a disk, which all clones of a trial use.
    Disk(SimDisk),
    /// A mirror of such disks, which all clones of a trial use.
    Mirror {
        /// Name of the read policy.
        policy: String,
        /// Its disks, at least one.
        legs: Vec<SimDisk>,
    },
}

impl SimDevice {
    /// The highest number of disks of a mirror.
    pub const MAX_DISKS: usize = 16;

    /// Number of its disks.
    pub fn disks(&self) -> usize {
        match self {
            SimDevice::Law => 0,
            SimDevice::Disk(_) => 1,
            SimDevice::Mirror { legs, .. } => legs.len(),
        }
    }

    /// From its text, with any number of disks.
    fn read(text: &str) -> Result<SimDevice, String> {
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        match parts[..] {
            ["law"] => Ok(SimDevice::Law),
            [disk] => disk.parse().map(SimDevice::Disk),
            ["mirror", policy, legs] => {
                let legs: Result<Vec<SimDisk>, String> = legs.split('+').map(str::parse).collect();
                Ok(SimDevice::Mirror {
                    policy: policy.to_owned(),
                    legs: legs?,
                })
            }
            _ => Err(format!("`{text}` is not a simulated device")),
        }
    }
}

impl fmt::Display for SimDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            SimDiskKind::Hdd => "hdd",
            SimDiskKind::Flash => "flash",
        })?;
        match self.factor {
            1.0 => Ok(()),
            factor => write!(formatter, "*{factor}"),
        }
    }
}

impl fmt::Display for SimDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimDevice::Law => formatter.write_str("law"),
            SimDevice::Disk(disk) => disk.fmt(formatter),
            SimDevice::Mirror { policy, legs } => {
                let legs: Vec<String> = legs.iter().map(SimDisk::to_string).collect();
                write!(formatter, "mirror:{policy}:{}", legs.join("+"))
            }
        }
    }
}

impl FromStr for SimDisk {
    type Err = String;

    fn from_str(text: &str) -> Result<SimDisk, String> {
        let (kind, factor) = text.split_once('*').unwrap_or((text, "1"));
        let kind = match kind.trim() {
            "hdd" => SimDiskKind::Hdd,
            "flash" => SimDiskKind::Flash,
            other => {
                return Err(format!(
                    "`{other}` is not a simulated disk: `hdd` or `flash`"
                ));
            }
        };
        match factor.trim().parse() {
            Ok(factor) if (0.001..=1000.0).contains(&factor) => Ok(SimDisk { kind, factor }),
            _ => Err(format!("`{factor}` is not a factor from 0.001 to 1000")),
        }
    }
}

impl FromStr for SimDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<SimDevice, String> {
        let device = SimDevice::read(text)?;
        match (device.disks(), SimDevice::MAX_DISKS) {
            (disks, most) if disks > most => {
                Err(format!("the mirror has {disks} disks, at most {most}"))
            }
            _ => Ok(device),
        }
    }
}

impl From<SimDevice> for String {
    fn from(device: SimDevice) -> String {
        device.to_string()
    }
}

impl TryFrom<String> for SimDevice {
    type Error = String;

    /// Stored plans of older versions can have more disks.
    fn try_from(text: String) -> Result<SimDevice, String> {
        SimDevice::read(&text)
    }
}

/// Settings of the simulated device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimOptions {
    /// What it is; the next three fields apply to [`SimDevice::Law`] only.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub device: SimDevice,
    /// Distribution of service times.
    pub law: SimLaw,
    /// Ops served at the same time; others wait in a queue. 0: no limit.
    pub servers: u32,
    /// Injected faults.
    pub faults: Vec<SimFault>,
    /// Its clock.
    #[serde(default = "SimClock::real")]
    pub clock: SimClock,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            device: SimDevice::default(),
            law: SimLaw::Constant(100_000),
            servers: 0,
            faults: Vec::new(),
            clock: SimClock::default(),
        }
    }
}

/// The engine and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// Kind of engine.
    pub kind: EngineKind,
    /// Maximum number of ops in flight (1 for synchronous engines).
    pub depth: u32,
    /// Refill to `depth` only when at most this number of ops is in flight; 0: `depth`.
    pub depth_low: u32,
    /// Maximum number of ops submitted in one kernel entry; 0: one, or with io_uring the number in flight
    /// (all if none is in flight).
    pub batch_submit: u32,
    /// Minimum number of completions to wait for in one kernel entry; at least 1.
    pub batch_complete_min: u32,
    /// Maximum number of completions to reap in one kernel entry; 0: `depth`.
    pub batch_complete_max: u32,
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC.
    pub o_sync: bool,
    /// O_DSYNC.
    pub o_dsync: bool,
    /// Polled completions (IOPOLL, RWF_HIPRI).
    pub hipri: bool,
    /// Submission by a kernel thread (SQPOLL).
    pub sqthread_poll: bool,
    /// CPU to which the kernel thread of `sqthread_poll` is pinned.
    pub sqthread_poll_cpu: Option<u32>,
    /// Whether buffers are registered with the ring. `None`: if the kernel allows it.
    pub fixed_buffers: Option<bool>,
    /// Whether files are registered with the ring. `None`: if the kernel allows it.
    pub registered_files: Option<bool>,
    /// Issue ops without attempting them inline first (IOSQE_ASYNC).
    pub force_async: bool,
    /// With `force_async`: one op in this number is issued so; at least 1.
    #[serde(default = "every_op")]
    pub force_async_every: u32,
    /// RWF_NOWAIT on reads and writes.
    pub nowait: bool,
    /// RWF_ATOMIC on writes: each is stored completely or not at all.
    #[serde(default)]
    pub atomic: bool,
    /// Submit ops by a call of their own, so that its duration is measured; only for engines that submit and wait by
    /// one call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub submit_apart: bool,
    /// Settings of the simulated device, for the `sim` engine.
    pub sim: Option<SimOptions>,
    /// The export, for the engines `nbd`, `vhost-user-blk` and `virtiofs`. (Stored under the name of the first one.)
    #[serde(rename = "nbd", default, skip_serializing_if = "Option::is_none")]
    pub export: Option<ExportUri>,
}

/// [`Engine::force_async_every`] of stored plans that do not have this field.
fn every_op() -> u32 {
    1
}

impl Engine {
    /// Whether submission is a separate system call, so that submission latency is measured.
    pub fn submits_apart(&self) -> bool {
        self.kind.submits_apart() || (self.submit_apart && self.kind.has_ring())
    }

    /// The engine of a client of this server that keeps as many requests in flight. Settings of other engines are left
    /// out.
    pub fn of_client(&self, server: &ExportUri) -> Engine {
        Engine {
            depth_low: self.depth_low,
            batch_submit: self.batch_submit,
            batch_complete_min: self.batch_complete_min,
            batch_complete_max: self.batch_complete_max,
            direct: self.direct,
            o_sync: self.o_sync,
            o_dsync: self.o_dsync,
            export: Some(server.clone()),
            ..Engine::new(server.engine(), self.depth)
        }
    }

    /// An engine with default settings.
    pub fn new(kind: EngineKind, depth: u32) -> Engine {
        Engine {
            kind,
            depth: if kind.synchronous() { 1 } else { depth },
            depth_low: 0,
            batch_submit: 0,
            batch_complete_min: 1,
            batch_complete_max: 0,
            direct: false,
            o_sync: false,
            o_dsync: false,
            hipri: false,
            sqthread_poll: false,
            sqthread_poll_cpu: None,
            fixed_buffers: None,
            registered_files: None,
            force_async: false,
            force_async_every: every_op(),
            nowait: false,
            atomic: false,
            submit_apart: false,
            sim: None,
            export: None,
        }
    }
}
