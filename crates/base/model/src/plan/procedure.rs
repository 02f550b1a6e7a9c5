//! How the trials of a plan are executed: stop rules, order, pauses and telemetry.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Rules to stop a run after a round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stopping {
    /// Minimum number of rounds before the rule on the interval's width applies.
    #[serde(default)]
    pub least_rounds: u32,
    /// Stop at the end of a round if the interval of every primary ratio is at most this wide, as a fraction of
    /// the ratio (high − low): 0.03.
    #[serde(default)]
    pub width: Option<f64>,
    /// Do not begin a round that would end after this time, ns, if it takes as long as the longest so far.
    #[serde(default)]
    pub max_time_ns: Option<u64>,
}

impl Stopping {
    /// Whether it has no rules.
    pub fn is_none(&self) -> bool {
        *self == Stopping::default()
    }
}

/// How the order of the cells in a round is drawn from the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundOrder {
    /// Two cells alternate within each pair of rounds, AB BA or BA AB; more are shuffled in each round. The order of
    /// plans that were stored without one.
    #[default]
    Alternating,
    /// Shuffled in each round, independently of the other rounds.
    Shuffled,
}

/// Actions between trials, so that all start in the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settling {
    /// Sync, and drop the page cache, dentries and inodes, if permitted.
    #[serde(default)]
    pub drop_caches: bool,
    /// Maximum time to wait until the targets' devices are idle, ns; 0: do not wait.
    #[serde(default)]
    pub idle_ns: u64,
}

/// Telemetry of the host during each trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampling {
    /// Sampling interval, ns; 0: no sampling.
    pub every_ns: u64,
    /// Names of processes to sample in addition: servers under test.
    pub processes: Vec<String>,
    /// The tokens of storage, by names of `processes`: of these, only those that were started to make that storage are
    /// sampled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub made_for: BTreeMap<String, String>,
    /// The sockets on which the file servers of the storage tell what they counted ([`crate::SeriesKind::Requests`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<PathBuf>,
    /// Count the times of requests at the block devices below the targets, in the kernel
    /// ([`crate::SeriesKind::Block`]).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub block_trace: bool,
}

impl Sampling {
    /// The default interval, ns.
    pub const EVERY_NS: u64 = 1_000_000_000;
    /// The shortest interval, ns.
    pub const MIN_NS: u64 = 100_000_000;
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            every_ns: Sampling::EVERY_NS,
            processes: Vec::new(),
            made_for: BTreeMap::new(),
            stats: Vec::new(),
            block_trace: false,
        }
    }
}
