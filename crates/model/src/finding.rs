//! What a trial's own data say against it, with the evidence.

use serde::{Deserialize, Serialize};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Worth knowing.
    Note,
    /// The figures may not mean what they seem to.
    Warning,
    /// The figures do not measure the storage.
    Invalid,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A worker used a whole core: the client, not the storage, set the figure.
    ClientSaturated,
    /// A limit set on the device was reached: it, and not what lies above, set the figure.
    DeviceCapped,
    /// The device moved far fewer bytes than the job.
    CacheServed,
    /// The working set fits into memory.
    SmallerThanMemory,
    /// Written data compress.
    Compressible,
    /// Reads met extents that were never written.
    Unwritten,
    /// The hypervisor took CPU time away.
    Steal,
    /// A clock jumped or is slow to read.
    ClockTrouble,
    /// Percentiles below the harness's own resolution.
    ResolutionLimited,
    /// Asked rate not kept.
    RateMissed,
    /// A feature was not available and the next best was used.
    Fallback,
    /// Ops failed.
    IoErrors,
    /// Read data were not what had been written.
    VerifyFailed,
    /// The trial is too short for its tail percentiles.
    TooShort,
    /// The store lies on the storage under test.
    StoreOnTarget,
    /// The trial was cut off.
    Interrupted,
    /// The one-second series is not one behaviour.
    Unsteady,
    /// The file system did much of the work after the last op: the drain took long.
    Deferred,
    /// Most of the time went into syncs that follow from a rule of the workload.
    SyncsDominate,
    /// A device's interrupts were taken by one CPU while others idled.
    InterruptsOnOneCpu,
    /// More requests waited for a device than it works on at a time.
    QueueSaturated,
    /// Memory was reclaimed, or swapped, while it was measured.
    MemoryPressure,
    /// Writers were slowed down because too much was dirty.
    DirtyThrottled,
    /// Another process did I/O on the device.
    OtherIo,
    /// A process under test used all of its threads' CPU time, or a whole core.
    ServerSaturated,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// How much it weighs.
    pub weight: Weight,
    /// One sentence, with the figures.
    pub text: String,
    /// The threshold that was crossed, in words.
    pub threshold: String,
    /// What to do, where something can be done.
    pub remedy: Option<String>,
}
