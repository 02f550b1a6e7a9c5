//! Measurements of one node.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ClockOffset, ClockRate, CloneResult, Environment, HostUse, SamplerCost, StepTime};

/// What one node measured in a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The node's name; `local` if the plan names none.
    pub node: String,
    /// Node clock − lab clock at the start, ns.
    pub clock_offset_ns: i64,
    /// Maximum error of `clock_offset_ns`, ns.
    pub clock_error_ns: u64,
    /// When `clock_offset_ns` was read, on the lab's clock, ns; 0: not known.
    #[serde(default)]
    pub clock_at_ns: u64,
    /// The same after the end; `None` if it was not read, as with a single local node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_after: Option<ClockOffset>,
    /// From the start instant that all nodes agreed on to 0 of the trial's clock, ns: more than 0 if the command to
    /// start arrived after that instant.
    #[serde(default)]
    pub start_late_ns: u64,
    /// Wall clock at 0 of the trial's clock, ms since 1970; `None` if unknown (trials of older versions), and in
    /// virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_unix_ms: Option<u64>,
    /// Its environment.
    pub environment: Environment,
    /// Results of all clones of all jobs.
    pub clones: Vec<CloneResult>,
    /// Steps.
    pub steps: Vec<StepTime>,
    /// Counters of the host.
    pub host: HostUse,
    /// Files and devices in use (at most the first 1000).
    pub files: Vec<FileState>,
    /// Remarks from the preparation that concern the figures, as text.
    pub notes: Vec<String>,
    /// Whether the host came to rest before the trial; `None` if unknown (trials of older versions) or if it does not
    /// matter (simulated devices).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
    /// Cost of sampling the host, by series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampling: Vec<SamplerCost>,
    /// The times in which none of its ops completed; `None` if unknown: the trial was rebuilt from its frames, or is of
    /// an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
}

impl Part {
    /// Whether its node had no jobs: it was only sampled.
    pub fn only_sampled(&self) -> bool {
        self.clones.is_empty()
    }

    /// From the start instant of all nodes to its first measured op, ns; `None` if no clone was measured.
    pub fn measured_from_ns(&self) -> Option<u64> {
        let measured = self.clones.iter().filter(|clone| clone.runtime_ns > 0);
        let first = measured.map(|clone| clone.start_ns).min()?;
        Some(first.saturating_add(self.start_late_ns))
    }

    /// From the start instant of all nodes to the end of its last measured op, ns; `None` if no clone was measured.
    pub fn measured_until_ns(&self) -> Option<u64> {
        let measured = self.clones.iter().filter(|clone| clone.runtime_ns > 0);
        let ends = measured.map(|clone| clone.start_ns.saturating_add(clone.runtime_ns));
        Some(ends.max()?.saturating_add(self.start_late_ns))
    }

    /// How far the node's clock drifted from the lab's between the two readings, with its maximum error, ns.
    pub fn clock_drift_ns(&self) -> Option<(i64, u64)> {
        let after = self.clock_after?;
        let drift = after.offset_ns.saturating_sub(self.clock_offset_ns);
        Some((drift, after.error_ns.saturating_add(self.clock_error_ns)))
    }

    /// The rate of the node's clock between the two readings.
    pub fn clock_rate(&self) -> Option<ClockRate> {
        let before = ClockOffset {
            offset_ns: self.clock_offset_ns,
            error_ns: self.clock_error_ns,
            at_ns: self.clock_at_ns,
        };
        before.rate_until(&self.clock_after?)
    }
}

/// The times in the measured time of a part in which no op of any of its clones completed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// All that are at least this long are listed, ns.
    pub least_ns: u64,
    /// Start on the trial's clock and length of each, ns, ascending.
    pub list: Vec<(u64, u64)>,
}

impl Stalls {
    /// The longest list: if there are more, the shorter ones are left out.
    pub const MOST: usize = 256;

    /// The longest one, ns; 0: there is none of at least [`Stalls::least_ns`].
    pub fn longest_ns(&self) -> u64 {
        self.list
            .iter()
            .map(|(_, span_ns)| *span_ns)
            .max()
            .unwrap_or(0)
    }
}

/// A file or device as found or created by the trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileState {
    /// Path.
    pub path: String,
    /// Length when the jobs started, bytes.
    pub length: u64,
    /// Bytes in holes and in extents that were reserved but never written; `None` if the file system does
    /// not report them.
    pub unwritten: Option<u64>,
    /// Whether a job reads it, other than to verify its own writes.
    #[serde(default)]
    pub read: bool,
    /// Whether this trial laid it out.
    pub laid_out: bool,
    /// Whether it is a block device.
    pub device: bool,
}

/// Whether the host came to rest before a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settled {
    /// The plan asks for it.
    pub asked: bool,
    /// Caches were not dropped.
    pub caches_kept: bool,
    /// Devices below the targets were still at work.
    pub devices_busy: bool,
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.asked, self.caches_kept, self.devices_busy) {
            (false, ..) => "not asked for",
            (true, false, false) => "yes",
            (true, true, false) => "caches kept",
            (true, false, true) => "devices busy",
            (true, true, true) => "caches kept, devices busy",
        })
    }
}
