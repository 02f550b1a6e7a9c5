//! Telemetry of the host during a trial: series of counters and gauges on the trial's clock.
//!
//! A series is stored as it was read: counts since the preceding sample, and gauges at the sample's instant, so
//! that samples can be merged without loss and rates be derived later. The rows (CPUs, disks, interrupt
//! sources) and columns of a sample are its *shape*, which is stored once. A CPU or disk that appears or
//! disappears starts a new shape, with the reason.

mod columns;
mod thin;

use serde::{Deserialize, Serialize};

use crate::named::named;

pub use columns::{
    ARC, BLOCK_BINS, CGROUP, CPU, DISK, LOAD, MEMORY, NETWORK, OTHERS, POOL, PRESSURE, PROCESS,
    RECLAIM, REQUESTS, block_bin_from,
};
pub use thin::Thinner;

named! {
    /// Kind of series.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SeriesKind in ALL {
        /// CPU time by CPU: [`CPU`].
        Cpu = "cpu",
        /// Interrupts by source; one column of counts per CPU (`CPU0`, …).
        Interrupts = "interrupts",
        /// Load averages and scheduling: [`LOAD`].
        Load = "load",
        /// Block devices: [`DISK`].
        Disk = "disk",
        /// Times of requests at block devices by device, direction and stage (`vda read queue`, `vda read device`):
        /// [`SeriesColumn::block`]. Only if it was asked for.
        Block = "block",
        /// Pressure stall information by resource (`cpu`, `io`, `memory`, `irq`): [`PRESSURE`].
        Pressure = "pressure",
        /// Memory: [`MEMORY`].
        Memory = "memory",
        /// Reclaim and swap: [`RECLAIM`].
        Reclaim = "reclaim",
        /// Network interfaces: [`NETWORK`].
        Network = "network",
        /// ZFS pools and their devices (`tank`, `tank/mirror-0`, `tank/mirror-0/sda`): [`POOL`].
        Pool = "pool",
        /// ZFS's ARC: [`ARC`].
        Arc = "arc",
        /// The harness's control group, by block device: [`CGROUP`].
        Cgroup = "cgroup",
        /// Processes that the user named (`virtiofsd[1234]`): [`PROCESS`].
        Process = "process",
        /// Requests at the file server of a layer by opcode (`READ`), and of all opcodes (`all`): [`REQUESTS`].
        Requests = "requests",
        /// Processes that are neither the harness's nor named, with I/O of their own (`rsync[99]`): [`OTHERS`].
        Others = "others",
    }
}

/// Unit of a column.
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
    /// Percent; only for derived figures, never stored.
    Percent,
}

/// Whether a stored value is a count or a gauge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Increase within the sample's span; merged samples are added up.
    Count,
    /// Value at the end of the sample (rates of `zpool iostat`: over the span); merged samples are averaged.
    Gauge,
}

/// A column of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesColumn {
    /// Its name, from the tables of this module (for interrupts: the CPU).
    pub name: String,
    /// Unit of its values.
    pub unit: SeriesUnit,
    /// Counts or gauges.
    pub reading: Reading,
}

/// Subject of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct SeriesRow {
    /// Name: `CPU0`, `vda`, `36 virtio1-req.0`; empty if the series is of the whole host.
    pub name: String,
    /// For an interrupt source: the block device below the trial's targets that it serves. For a disk that is included
    /// because it is part of a ZFS pool: the pool. For another process: `/dev/fuse` if it or its parent serves a file
    /// system in user space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves: Option<String>,
}

impl SeriesRow {
    /// A subject with this name that serves no known device.
    pub fn new(name: impl Into<String>) -> SeriesRow {
        SeriesRow {
            name: name.into(),
            serves: None,
        }
    }
}

/// Rows and columns of the samples of a series, from some sample onwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesShape {
    /// The series.
    pub kind: SeriesKind,
    /// Its number within the trial, over all series, from 0; samples refer to it.
    pub number: u32,
    /// The node that it is of; empty if the trial has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Rows.
    pub subjects: Vec<SeriesRow>,
    /// Columns.
    pub columns: Vec<SeriesColumn>,
    /// Why it differs from the preceding shape of the series: `CPU1 has gone`; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

impl SeriesShape {
    /// Index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// One sample of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of its shape.
    pub shape: u32,
    /// When it was taken, on the trial's clock: ns since the start instant.
    pub at_ns: i64,
    /// Time since the preceding sample, ns; its counts cover this time.
    pub span_ns: u64,
    /// Values by subject, then by column; `None`: unknown in this sample.
    pub values: Vec<Option<u64>>,
}

/// A period without samples of a series, or of one subject, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesGap {
    /// The series.
    pub kind: SeriesKind,
    /// The node; empty if the trial has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// When it was noticed, on the trial's clock, ns. It is recorded once and continues to the end.
    pub at_ns: i64,
    /// A description: what is missing and why.
    pub reason: String,
}

/// All series of a trial, or a batch of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Telemetry {
    /// Shapes by number; a batch has only the new ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<SeriesShape>,
    /// Samples of all series, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Gaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<SeriesGap>,
}

/// A batch of a trial's telemetry as it is sent and stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryBatch {
    /// Batch number, ascending from 0; after merging, the number of the first batch.
    pub number: u32,
    /// Content.
    pub telemetry: Telemetry,
}

/// Cost of sampling one series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerCost {
    /// The series.
    pub kind: SeriesKind,
    /// Number of readings.
    pub samples: u64,
    /// CPU time of the reading thread, ns, without that of child processes.
    pub cpu_ns: u64,
    /// Total elapsed time of the readings, ns.
    pub wall_ns: u64,
    /// Longest reading, ns.
    pub longest_ns: u64,
}

impl Telemetry {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.samples.is_empty() && self.gaps.is_empty()
    }

    /// Appends a later batch.
    pub fn extend(&mut self, later: Telemetry) {
        self.shapes.extend(later.shapes);
        self.samples.extend(later.samples);
        self.gaps.extend(later.gaps);
    }

    /// The shape with this number.
    pub fn shape(&self, number: u32) -> Option<&SeriesShape> {
        // Numbers are indices except in a single batch or series, where they still ascend.
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

    /// The samples of one series with their shapes, in order of time.
    pub fn of(&self, kind: SeriesKind) -> impl Iterator<Item = (&SeriesShape, &Sample)> {
        self.samples
            .iter()
            .filter_map(|sample| Some((self.shape(sample.shape)?, sample)))
            .filter(move |(shape, _)| shape.kind == kind)
    }

    /// The kinds of series with samples or gaps.
    pub fn kinds(&self) -> Vec<SeriesKind> {
        let has = |kind: &SeriesKind| {
            self.shapes.iter().any(|shape| shape.kind == *kind)
                || self.gaps.iter().any(|gap| gap.kind == *kind)
        };
        SeriesKind::ALL.into_iter().filter(has).collect()
    }

    /// The series of one node; shapes keep their numbers.
    pub fn of_node(&self, node: &str) -> Telemetry {
        let own = |sample: &&Sample| {
            let shape = self.shape(sample.shape);
            shape.is_some_and(|shape| shape.node == node)
        };
        let shapes = self.shapes.iter().filter(|shape| shape.node == node);
        let gaps = self.gaps.iter().filter(|gap| gap.node == node);
        Telemetry {
            shapes: shapes.cloned().collect(),
            samples: self.samples.iter().filter(own).cloned().collect(),
            gaps: gaps.cloned().collect(),
        }
    }

    /// One series only; shapes keep their numbers.
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
