//! Findings: conditions during a trial that limit the meaning of its figures, with the evidence.

use serde::{Deserialize, Serialize};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Information.
    Note,
    /// The figures may be misleading.
    Warning,
    /// The figures do not measure the storage.
    Invalid,
}

/// Kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A worker used a whole core: the client and not the storage limited the figure.
    ClientSaturated,
    /// A limit set on the device was reached and determined the figure.
    DeviceCapped,
    /// The device moved far fewer bytes than the job.
    CacheServed,
    /// The working set fits into memory.
    SmallerThanMemory,
    /// Written data are compressible.
    Compressible,
    /// Reads covered extents that were never written.
    Unwritten,
    /// The hypervisor took CPU time.
    Steal,
    /// A clock jumped or is slow to read.
    ClockTrouble,
    /// Percentiles are below the harness's resolution.
    ResolutionLimited,
    /// The requested rate was not reached.
    RateMissed,
    /// A feature was not available and was replaced by the next best.
    Fallback,
    /// Ops failed.
    IoErrors,
    /// Data read differ from data written.
    VerifyFailed,
    /// The trial is too short for its tail percentiles.
    TooShort,
    /// The store lies on the storage under test.
    StoreOnTarget,
    /// The trial was interrupted.
    Interrupted,
    /// The one-second series has several levels or a drift.
    Unsteady,
    /// The file system did much of the work after the last op: the drain took long.
    Deferred,
    /// Most of the time was spent in syncs that a rule of the workload requests.
    SyncsDominate,
    /// One CPU handled a device's interrupts while others were idle.
    InterruptsOnOneCpu,
    /// More requests waited for a device than it can serve at a time.
    QueueSaturated,
    /// Memory was reclaimed or swapped during the measurement.
    MemoryPressure,
    /// Writers were throttled because of too many dirty pages.
    DirtyThrottled,
    /// Another process did I/O on the device.
    OtherIo,
    /// A process under test used all CPU time that its threads can use, or a whole core.
    ServerSaturated,
    /// Workers were ready to run and waited for a CPU.
    CpuContention,
    /// The CPU quota of a control group was used up.
    CpuQuota,
    /// The nodes of a trial did not start together, or their clocks drifted apart.
    NodesApart,
    /// The rate of a node is far from those of the others.
    NodeDiffers,
    /// No op of a node, or of the whole trial, completed for some time.
    NodeStalled,
    /// Flushes of a virtual machine do not reach the storage: what it synced is not durable.
    FlushesLost,
    /// The instructions of a virtual machine were emulated.
    Emulated,
    /// The storage was preconditioned, and was not steady at the end.
    NotPreconditioned,
}

impl FindingKind {
    /// A short description for lists and tables.
    pub fn words(self) -> &'static str {
        match self {
            FindingKind::ClientSaturated => "client saturated",
            FindingKind::DeviceCapped => "capped by the device",
            FindingKind::CacheServed => "served by a cache",
            FindingKind::SmallerThanMemory => "smaller than memory",
            FindingKind::Compressible => "compressible data",
            FindingKind::Unwritten => "extents never written before",
            FindingKind::Steal => "CPU time taken by the hypervisor",
            FindingKind::ClockTrouble => "clock set or slow",
            FindingKind::ResolutionLimited => "percentiles below the resolution",
            FindingKind::RateMissed => "requested rate missed",
            FindingKind::Fallback => "features not available",
            FindingKind::IoErrors => "ops failed",
            FindingKind::VerifyFailed => "verification failed",
            FindingKind::TooShort => "too few ops for the tail",
            FindingKind::StoreOnTarget => "results stored on the storage under test",
            FindingKind::Interrupted => "interrupted",
            FindingKind::Unsteady => "not steady",
            FindingKind::Deferred => "long drain after the ops",
            FindingKind::SyncsDominate => "mostly syncs",
            FindingKind::InterruptsOnOneCpu => "interrupts on one CPU",
            FindingKind::QueueSaturated => "queue saturated",
            FindingKind::MemoryPressure => "memory reclaimed or swapped",
            FindingKind::DirtyThrottled => "writers throttled by dirty limits",
            FindingKind::OtherIo => "I/O of other processes",
            FindingKind::ServerSaturated => "server saturated",
            FindingKind::CpuContention => "workers waited for a CPU",
            FindingKind::CpuQuota => "CPU quota used up",
            FindingKind::NodesApart => "nodes not started together",
            FindingKind::NodeDiffers => "a node far from the others",
            FindingKind::NodeStalled => "time without a completion",
            FindingKind::FlushesLost => "flushes do not reach the storage",
            FindingKind::Emulated => "emulated CPU",
            FindingKind::NotPreconditioned => "not steady after preconditioning",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Kind.
    pub kind: FindingKind,
    /// Severity.
    pub weight: Weight,
    /// Description in one sentence, with figures.
    pub text: String,
    /// The threshold that was exceeded, as text.
    pub threshold: String,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
    /// When the condition held: from and to, ns on the trial's clock, ascending. Empty if it is a condition of the
    /// whole trial, or if its time is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans_ns: Vec<(i64, i64)>,
}
