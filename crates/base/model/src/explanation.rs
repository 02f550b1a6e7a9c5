//! What an op of a trial cost, and why one side of a comparison is faster than the other.
//!
//! Built by `judge` and formatted by `report`. Not stored, because it follows from the trials.

use serde::{Deserialize, Serialize};

use crate::{Contradiction, Estimated, Metric, Pairing, SeriesUnit, Verdict};

/// What the ops of a trial cost: totals of the measured time, divided by the ops. `None`: not known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Costs {
    /// Ops in the measured time.
    pub ops: f64,
    /// The measured time, s.
    pub seconds: f64,
    /// Mean number of workers that were measured.
    pub workers: f64,
    /// Ops that the jobs keep in flight, as planned: the sum of the workers' depths.
    pub depth: f64,
    /// Whether each worker has at most one op in flight, so that its CPU time is part of the op's time.
    pub one_at_a_time: bool,
    /// Whether all jobs bypass the page cache, so that what devices move beyond the jobs' bytes is not the jobs'
    /// read-ahead or write-back.
    pub direct: bool,
    /// Mean service latency of an op, ns.
    pub op_ns: f64,
    /// Time of a worker for each op, ns: the measured time of all workers ÷ ops.
    pub worker_ns: f64,
    /// Bytes read, written and trimmed by the jobs for each op.
    pub bytes: [f64; 3],
    /// Syncs for each op, and the time spent in them for each op, ns. File operations count theirs as part of the op.
    pub syncs: (f64, f64),
    /// CPU time of the workers for each op, ns: user and kernel; `None` if the trial was too short.
    pub cpu_ns: Option<(f64, f64)>,
    /// Time for which the workers waited for a CPU, for each op, ns.
    pub delay_ns: Option<f64>,
    /// Context switches of the workers for each op.
    pub switches: f64,
    /// CPU time of the harness's other threads for each op, ns.
    pub other_threads_ns: Option<f64>,
    /// CPU time of the servers under test for each op, ns; `None`: none was sampled.
    pub servers_ns: Option<f64>,
    /// CPU time of the host in the kernel and in interrupts for each op, ns, without that of harness and servers.
    pub kernel_ns: Option<f64>,
    /// CPUs of the host that were busy, those that neither harness nor servers used, and those that were stolen.
    pub cores: Option<HostCores>,
    /// The devices directly below the targets, added up.
    pub top: Option<DeviceCosts>,
    /// The lowest devices, added up.
    pub lowest: Option<DeviceCosts>,
    /// Traced or simulated requests of the lowest devices for each op, by read, write, discard, flush: time in the
    /// queue and in the device, ns.
    pub traced: Option<[(f64, f64); 4]>,
    /// Commands for each op before which the head of a simulated disk had to move: they did not begin where the one
    /// before ended.
    pub moves: Option<f64>,
    /// Whether the trial was simulated. Figures of a host are not known then.
    pub simulated: bool,
    /// Share of lookups that ZFS's cache served.
    pub arc_hits: Option<f64>,
    /// The requests of the file server.
    pub requests: Option<RequestCosts>,
    /// Bytes that other processes of the host read and wrote for each op, on any device.
    pub others: Option<[f64; 2]>,
    /// Interrupts for each op.
    pub interrupts: Option<f64>,
    /// Share of the interrupts that the busiest CPU handled.
    pub busiest_cpu: Option<f64>,
    /// Context switches of the host for each op.
    pub host_switches: Option<f64>,
    /// Allocations that had to reclaim memory, for each op.
    pub reclaims: Option<f64>,
    /// Bytes of files read again soon after they were reclaimed, for each op.
    pub refaults: Option<f64>,
    /// Times that the memory limit of the control group was met, for each op.
    pub memory_limit: Option<f64>,
    /// Share of the time in which writers were throttled because of dirty memory.
    pub dirty_throttled: Option<f64>,
    /// Share of the CPU quota's periods in which it was used up.
    pub cpu_quota: Option<f64>,
    /// The largest share of a limit of the control group on I/O that was used.
    pub io_limit: Option<f64>,
    /// Number of regimes of its course, at least 1.
    pub regimes: f64,
}

impl Costs {
    /// Bytes of other processes at the lowest devices for each op, read and written, at most: what these moved beyond
    /// the jobs' bytes and other processes moved at all. `None`: not known, or not to be told from what the jobs cause.
    pub fn others_at_devices(&self) -> Option<[f64; 2]> {
        let (lowest, others) = (self.lowest?, self.others?);
        self.direct.then(|| {
            [0, 1].map(|kind| (lowest.bytes[kind] - self.bytes[kind]).clamp(0.0, others[kind]))
        })
    }
}

/// CPUs of the host by use.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct HostCores {
    /// Busy with anything.
    pub busy: f64,
    /// Busy with something other than harness and servers.
    pub others: f64,
    /// Stolen by the hypervisor.
    pub stolen: f64,
}

/// The requests of the file servers below a target.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RequestCosts {
    /// Requests for each op.
    pub count: f64,
    /// Share of the requests that the threads of the queues worked themselves.
    pub inline: f64,
    /// Mean number of requests that a thread takes at a time.
    pub batch: f64,
    /// Time between taking a request and beginning to work it, for each op, ns.
    pub queueing_ns: f64,
    /// Time from then to the reply, for each op, ns.
    pub service_ns: f64,
}

/// The requests of some devices, by read, write, discard and flush.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceCosts {
    /// Requests for each op.
    pub requests: [f64; 4],
    /// Merged requests for each op: reads and writes.
    pub merges: [f64; 2],
    /// Bytes for each op; a flush has none.
    pub bytes: [f64; 3],
    /// Sum of the requests' times for each op, ns, with their time in the queue.
    pub ns: [f64; 4],
    /// Share of the time with a request in flight.
    pub busy: f64,
    /// Mean number of requests in the queue or in flight.
    pub in_flight: f64,
    /// Of several devices, the busy time of the busiest one ÷ the mean of all; 0: there is one.
    #[serde(default)]
    pub busiest: f64,
}

/// How a quantity differs between two sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Change {
    /// Candidate ÷ baseline.
    Ratio(Estimated),
    /// Candidate − baseline, in the quantity's unit: a side has the value 0.
    Difference(Estimated),
}

/// A quantity of both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Its stable name: `device_write_await`.
    pub name: String,
    /// Its name for people: `time of a write request at the devices`.
    pub words: String,
    /// Its unit.
    pub unit: SeriesUnit,
    /// Medians of the baseline and of the candidate.
    pub medians: (f64, f64),
    /// The change.
    pub change: Option<Change>,
    /// p of the hypothesis of no difference.
    pub p: Option<f64>,
    /// The same, corrected: of a part of the ratio by Holm's method over all parts, of another series by Benjamini and
    /// Hochberg's.
    pub adjusted_p: Option<f64>,
    /// Number of rounds (or of pairs of trials) in which it changed in the direction of the estimate, and of all.
    pub agreeing: (u32, u32),
    /// Spearman's correlation with the metric over the trials of each side; `None`: fewer than five, or constant
    /// values.
    pub within: (Option<f64>, Option<f64>),
    /// Whether it differs: by the corrected test or, if this number of rounds cannot show anything, in every round.
    pub differs: bool,
}

/// A part of the ratio of two sides. The logarithms of all parts add up to that of the ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// The quantity.
    pub contrast: Contrast,
    /// The ratio of speed that it alone would give: above 1 it makes the candidate faster.
    pub factor: Estimated,
    /// Its share of the logarithm of the ratio; `None`: the sides do not differ.
    pub share: Option<f64>,
    /// Whether it tells where the time went and not why: waits that no series explains.
    pub open: bool,
    /// What may be behind it.
    pub causes: Vec<Cause>,
}

/// Something that differs and may be behind a term.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Cause {
    /// A fact of the two sides.
    Fact {
        /// Its name.
        name: String,
        /// Its values: the baseline's, the candidate's.
        values: (String, String),
        /// Whether it is the attribute under test.
        axis: bool,
    },
    /// A series that differs; [`Explained::series`] or [`Explained::terms`] has its figures.
    Series(Contrast),
}

/// An equation between measured quantities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Equation {
    /// The equation: `ops in flight = rate × latency`.
    pub words: String,
    /// The sides, each with the left and the right value; medians over the trials.
    pub values: [(f64, f64); 2],
    /// The unit of the values.
    pub unit: SeriesUnit,
    /// right ÷ left − 1 of both sides.
    pub residual: (f64, f64),
}

/// Why a candidate differs from the baseline in one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The row's values of the row dimensions.
    pub row: Vec<String>,
    /// The columns: baseline and candidate.
    pub columns: (String, String),
    /// The metric.
    pub metric: Metric,
    /// Ratio of speed, as the comparison has it.
    pub ratio: Option<Estimated>,
    /// The verdict of the comparison.
    pub verdict: Verdict,
    /// The verdict that the numbers alone would give.
    pub by_numbers: Verdict,
    /// How the trials are paired.
    pub pairing: Pairing,
    /// Rounds, or trials of the smaller side.
    pub n: u32,
    /// Number of parts that were tested: Holm's correction covers them.
    pub tested: u32,
    /// The number of rounds from which this number of parts can be judged; `None`: there are enough.
    pub rounds_needed: Option<u32>,
    /// The parts of the ratio, the largest first.
    pub terms: Vec<Term>,
    /// Share of the ratio's logarithm that terms explain: those that differ and are not open.
    pub explained: Option<f64>,
    /// Other quantities that differ, the most certain first.
    pub series: Vec<Contrast>,
    /// Facts that differ and act on none of the terms above.
    pub other_facts: Vec<Cause>,
    /// Checked equations.
    pub identities: Vec<Equation>,
    /// Data that are missing, each with what would provide them.
    pub lacking: Vec<String>,
    /// Why there is no explanation at all.
    pub without: Option<String>,
}

impl Explained {
    /// The terms that count as an explanation: they differ, they are not open, and they act in the direction of the
    /// ratio.
    pub fn reasons(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter().filter(|term| term.explains())
    }

    /// `None`: the rounds suffice to judge the parts.
    pub fn too_few(&self) -> Option<TooFew> {
        self.rounds_needed.map(|needed| TooFew {
            pairing: self.pairing,
            n: self.n,
            needed,
        })
    }

    /// Whether what explains the ratio is less than half of it.
    pub fn is_unexplained(&self) -> bool {
        self.explained.is_none_or(|explained| explained < 0.5)
    }
}

impl Term {
    /// A smaller share is not named as a reason.
    pub const MIN_SHARE: f64 = 0.1;

    /// Whether it counts as a part of the explanation.
    pub fn explains(&self) -> bool {
        let enough = self.share.is_some_and(|share| share >= Self::MIN_SHARE);
        enough && self.contrast.differs && (!self.open || !self.causes.is_empty())
    }
}

/// Why a family of workloads differs: what most of its members have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedFamily {
    /// The row's values of the row dimensions, with the family in place of the workload.
    pub row: Vec<String>,
    /// The columns: baseline and candidate.
    pub columns: (String, String),
    /// The metric.
    pub metric: Metric,
    /// Geometric mean of the members' ratios of speed, as the comparison has it.
    pub ratio: Option<Estimated>,
    /// The verdict of the comparison.
    pub verdict: Verdict,
    /// The verdict that the numbers alone would give.
    pub by_numbers: Verdict,
    /// The rows of its members among [`Explanation::comparisons`].
    pub members: Vec<Vec<String>>,
    /// What is named first in more members than anything else, at least two.
    pub common: Option<CommonReason>,
}

/// A part that is the first reason in several members of a family, in the same direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommonReason {
    /// Its name for people.
    pub words: String,
    /// The rows of these members.
    pub rows: Vec<Vec<String>>,
    /// Geometric mean over these members of the ratio of speed that the part alone would give.
    pub factor: f64,
    /// Candidates for its cause that all these members have.
    pub causes: Vec<Cause>,
    /// The member that lacks the most rounds to judge its parts; `None`: all these members have enough.
    pub too_few: Option<TooFew>,
}

/// Rounds that are too few to judge the parts of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooFew {
    /// How the trials are paired.
    pub pairing: Pairing,
    /// Rounds, or trials of the smaller side.
    pub n: u32,
    /// The number from which the parts can be judged.
    pub needed: u32,
}

impl ExplainedFamily {
    /// Whether this comparison is one of the members with the common reason.
    pub fn tells(&self, explained: &Explained) -> bool {
        let rows = self.common.iter().flat_map(|common| &common.rows);
        self.columns == explained.columns && rows.into_iter().any(|row| *row == explained.row)
    }
}

/// The explanation of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Its title: that of the comparison.
    pub name: String,
    /// The rows and candidates, in the order of the comparison.
    pub comparisons: Vec<Explained>,
    /// Families of workloads, whose members are among `comparisons`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<ExplainedFamily>,
    /// Statements of imported write-ups that their own figures contradict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
}
