//! What the host did during a trial: series of counters and gauges on the trial's own clock.
//!
//! A series is stored as it was read: counts since the sample before and gauges at the sample's instant,
//! so that samples can be put together without loss and rates follow from them afterwards. Which rows
//! (CPUs, disks, sources of interrupts) and columns a sample has is its *shape*, told once; a CPU
//! or disk that comes or goes makes a new shape, with the reason.

mod columns;
mod thin;

use serde::{Deserialize, Serialize};

pub use columns::{ARC, CGROUP, CPU, DISK, LOAD, MEMORY, OTHERS, POOL, PRESSURE, PROCESS, RECLAIM};
pub use thin::Thinner;

/// What a series is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesKind {
    /// CPU time by CPU: [`CPU`].
    Cpu,
    /// Interrupts by source; a column for each CPU (`CPU0`, …), counts.
    Interrupts,
    /// Load averages: [`LOAD`].
    Load,
    /// Block devices: [`DISK`].
    Disk,
    /// Pressure stall information by resource (`cpu`, `io`, `memory`, `irq`): [`PRESSURE`].
    Pressure,
    /// Memory: [`MEMORY`].
    Memory,
    /// Reclaim and swap: [`RECLAIM`].
    Reclaim,
    /// ZFS pools and their devices (`tank`, `tank/mirror-0`, `tank/mirror-0/sda`): [`POOL`].
    Pool,
    /// ZFS's ARC: [`ARC`].
    Arc,
    /// The harness's control group, by block device: [`CGROUP`].
    Cgroup,
    /// Processes that the user named (`virtiofsd[1234]`): [`PROCESS`].
    Process,
    /// Processes that are neither the harness's nor named, with I/O of their own (`rsync[99]`): [`OTHERS`].
    Others,
}

impl SeriesKind {
    /// Every kind, in the order in which they are shown.
    pub const ALL: [SeriesKind; 12] = [
        SeriesKind::Cpu,
        SeriesKind::Interrupts,
        SeriesKind::Load,
        SeriesKind::Disk,
        SeriesKind::Pressure,
        SeriesKind::Memory,
        SeriesKind::Reclaim,
        SeriesKind::Pool,
        SeriesKind::Arc,
        SeriesKind::Cgroup,
        SeriesKind::Process,
        SeriesKind::Others,
    ];

    /// Its name on the command line, in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            SeriesKind::Cpu => "cpu",
            SeriesKind::Interrupts => "interrupts",
            SeriesKind::Load => "load",
            SeriesKind::Disk => "disk",
            SeriesKind::Pressure => "pressure",
            SeriesKind::Memory => "memory",
            SeriesKind::Reclaim => "reclaim",
            SeriesKind::Pool => "pool",
            SeriesKind::Arc => "arc",
            SeriesKind::Cgroup => "cgroup",
            SeriesKind::Process => "process",
            SeriesKind::Others => "others",
        }
    }
}

/// What values are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesUnit {
    /// Plain numbers.
    Number,
    /// Hundredths of a plain number.
    Hundredths,
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// Events a second.
    PerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// Percent; only of figures, never stored.
    Percent,
}

/// What a stored value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// How much it grew within the sample's span: sums up over samples.
    Count,
    /// How it stood at the sample's end (rates of `zpool iostat`: over the span): samples have a mean.
    Gauge,
}

/// A column of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesColumn {
    /// Its name, from the tables of this module (of interrupts: the CPU).
    pub name: String,
    /// What its values are counted in.
    pub unit: SeriesUnit,
    /// Counts or gauges.
    pub reading: Reading,
}

/// What a row of a sample is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct SeriesRow {
    /// `CPU0`, `vda`, `36 virtio1-req.0`; empty where a series is of the host as a whole.
    pub name: String,
    /// The block device below the trial's targets that it serves: a source of interrupts of that device's. Of other processes
    /// `/dev/fuse`: it, or its parent, answers for a file system in user space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<String>,
}

impl SeriesRow {
    /// Of that name, and serving no device that is known.
    pub fn new(name: impl Into<String>) -> SeriesRow {
        SeriesRow {
            name: name.into(),
            serves: None,
        }
    }
}

/// Rows and columns of a series' samples from some sample on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesShape {
    /// Of which series.
    pub kind: SeriesKind,
    /// Its number in the trial, over all series, from 0; samples refer to it.
    pub number: u32,
    /// Rows.
    pub subjects: Vec<SeriesRow>,
    /// Columns.
    pub columns: Vec<SeriesColumn>,
    /// Why it is not as the series' shape before: `CPU1 has gone`; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

impl SeriesShape {
    /// Where a column stands.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// One sample of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Its shape's number.
    pub shape: u32,
    /// When it was taken, on the trial's clock: ns since its start instant.
    pub at_ns: i64,
    /// Since the sample before it, ns: what its counts are over.
    pub span_ns: u64,
    /// SeriesRow by subject, column by column; `None`: not known in this sample.
    pub values: Vec<Option<u64>>,
}

/// Where a series has no sample, or none of a subject, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesGap {
    /// Of which series.
    pub kind: SeriesKind,
    /// When it was noticed, on the trial's clock, ns. What is missing from there on is told once.
    pub at_ns: i64,
    /// In words: what is missing and why.
    pub reason: String,
}

/// All series of a trial, or a stretch of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Telemetry {
    /// Shapes, by number. In a stretch only those that are new in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<SeriesShape>,
    /// Samples of all series, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// What is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<SeriesGap>,
}

/// A stretch of a trial's telemetry as it is sent and stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryBatch {
    /// Ascending from 0; where stretches were put together, the number of the first.
    pub number: u32,
    /// What is in it.
    pub telemetry: Telemetry,
}

/// What taking samples of one series cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerCost {
    /// Of which series.
    pub kind: SeriesKind,
    /// How often it was read.
    pub samples: u64,
    /// CPU time of the reading thread, ns. What a child of its own uses is not in it.
    pub cpu_ns: u64,
    /// Time that readings took, ns.
    pub wall_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
}

impl Telemetry {
    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.samples.is_empty() && self.gaps.is_empty()
    }

    /// Appends a later stretch.
    pub fn extend(&mut self, later: Telemetry) {
        self.shapes.extend(later.shapes);
        self.samples.extend(later.samples);
        self.gaps.extend(later.gaps);
    }

    /// The shape of that number.
    pub fn shape(&self, number: u32) -> Option<&SeriesShape> {
        // Numbers are places, but where a stretch or a series stands alone: there they still ascend, if nobody else put them together.
        let place = self.shapes.get(number as usize);
        let sought = || {
            self.shapes
                .binary_search_by_key(&number, |shape| shape.number)
        };
        place
            .filter(|shape| shape.number == number)
            .or_else(|| self.shapes.get(sought().ok()?))
            .or_else(|| self.shapes.iter().find(|shape| shape.number == number))
    }

    /// The samples of one series with their shapes, in the order of time.
    pub fn of(&self, kind: SeriesKind) -> impl Iterator<Item = (&SeriesShape, &Sample)> {
        self.samples
            .iter()
            .filter_map(|sample| Some((self.shape(sample.shape)?, sample)))
            .filter(move |(shape, _)| shape.kind == kind)
    }

    /// The kinds that there are samples or gaps of.
    pub fn kinds(&self) -> Vec<SeriesKind> {
        let has = |kind: &SeriesKind| {
            self.shapes.iter().any(|shape| shape.kind == *kind)
                || self.gaps.iter().any(|gap| gap.kind == *kind)
        };
        SeriesKind::ALL.into_iter().filter(has).collect()
    }

    /// One series alone; shapes keep their numbers.
    pub fn only(&self, kind: SeriesKind) -> Telemetry {
        let of_kind = |sample: &&Sample| {
            self.shape(sample.shape)
                .is_some_and(|shape| shape.kind == kind)
        };
        Telemetry {
            shapes: self
                .shapes
                .iter()
                .filter(|shape| shape.kind == kind)
                .cloned()
                .collect(),
            samples: self.samples.iter().filter(of_kind).cloned().collect(),
            gaps: self
                .gaps
                .iter()
                .filter(|gap| gap.kind == kind)
                .cloned()
                .collect(),
        }
    }
}
