//! What an op of a trial costs, and why one side of a comparison is faster than the other.
//!
//! Built by `judge` and formatted by `report`. Not stored, because it follows from the trials.

use crate::{
    CandidateResult, ComparedRow, Difference, Estimated, Metric, Pairing, SeriesUnit, Unit, Verdict,
};

/// What the ops of a trial, or of one of its jobs, cost: totals of the measured time, divided by the ops. `None`: not
/// known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Costs {
    /// The job, if these are the costs of one job.
    pub job: Option<String>,
    /// Ops in the measured time.
    pub ops: f64,
    /// The measured time, s.
    pub seconds: f64,
    /// Whether each worker has at most one op in flight, so that its CPU time is part of the op's time.
    pub one_at_a_time: bool,
    /// Whether the jobs have a rate, so that the rate is given and does not follow from the time of an op.
    pub scheduled: bool,
    /// Whether a job polls by design, so that its worker never sleeps.
    pub polls: bool,
    /// Whether all jobs bypass the page cache, so that what devices move beyond the jobs' bytes is not the jobs'
    /// read-ahead or write-back.
    pub direct: bool,
    /// Mean service latency of an op, ns; of file operations, of all steps of a cycle.
    pub op_ns: f64,
    /// Time of a worker for each op, ns: the measured time of all workers ÷ ops.
    pub worker_ns: f64,
    /// Bytes read, written and trimmed by the jobs for each op.
    pub bytes: [f64; 3],
    /// Syncs for each op, and the time spent in them for each op, ns. Those of file operations are steps of an op.
    pub syncs: (f64, f64),
    /// For each kind of request (read, write, discard, flush), the latency for each op of the ops that wait for such
    /// requests, ns. 0: such requests are done in the background.
    pub waits_for: [f64; 4],
    /// The steps of a cycle of file operations, with their time for each op, ns.
    pub steps: Vec<(&'static str, f64)>,
    /// CPU time of the workers for each op, ns: user and kernel.
    pub cpu_ns: Option<(f64, f64)>,
    /// Time for which the workers waited for a CPU, for each op, ns.
    pub delay_ns: Option<f64>,
    /// Context switches of the workers for each op.
    pub switches: f64,
    /// CPU time of the servers under test for each op, ns; `None`: none was sampled.
    pub servers_ns: Option<f64>,
    /// CPUs of the host that neither harness nor servers used, and those that the hypervisor stole.
    pub other_cpus: Option<(f64, f64)>,
    /// The devices directly below the targets, added up.
    pub top: Option<DeviceCosts>,
    /// The lowest devices, added up.
    pub lowest: Option<DeviceCosts>,
    /// Traced or simulated requests of the lowest devices for each op, by read, write, discard, flush: time in the
    /// queue and in the device, ns.
    pub traced: Option<[(f64, f64); 4]>,
    /// Commands for each op before which the head of a simulated disk had to move.
    pub moves: Option<f64>,
    /// Whether the trial was simulated. Figures of a host are not known then.
    pub simulated: bool,
    /// Share of lookups that ZFS's cache served.
    pub arc_hits: Option<f64>,
    /// The requests of the file server.
    pub requests: Option<RequestCosts>,
    /// Bytes that other processes of the host read and wrote for each op, on any device.
    pub others: Option<[f64; 2]>,
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
    /// The same for each job, if the directions of the jobs separate their requests at the devices.
    pub jobs: Vec<Costs>,
}

impl Costs {
    /// Mean time of an op with its syncs, ns.
    pub fn whole_ns(&self) -> f64 {
        self.op_ns + self.syncs.1
    }

    /// Ops per second.
    pub fn rate(&self) -> f64 {
        self.ops / self.seconds
    }

    /// Mean number of ops in flight, with their syncs.
    pub fn in_flight(&self) -> f64 {
        self.whole_ns() / 1e9 * self.rate()
    }

    /// Bytes of other processes at the lowest devices for each op, read and written, at most: what these moved beyond
    /// the jobs' bytes and other processes moved at all. `None`: not known, or not to be told from what the jobs cause.
    pub fn others_at_devices(&self) -> Option<[f64; 2]> {
        let (lowest, others) = (self.lowest?, self.others?);
        self.direct.then(|| {
            [0, 1].map(|kind| (lowest.bytes[kind] - self.bytes[kind]).clamp(0.0, others[kind]))
        })
    }
}

/// The requests of the file servers below a target.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RequestCosts {
    /// Requests for each op.
    pub count: f64,
    /// Time between taking a request and beginning to work it, for each op, ns.
    pub queueing_ns: f64,
    /// Time from then to the reply, for each op, ns.
    pub service_ns: f64,
}

/// The requests of some devices, by read, write, discard and flush.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DeviceCosts {
    /// Requests for each op.
    pub requests: [f64; 4],
    /// Bytes for each op; a flush has none.
    pub bytes: [f64; 3],
    /// Sum of the requests' times for each op, ns, with their time in the queue.
    pub ns: [f64; 4],
    /// Of several devices, the busy time of the busiest one ÷ the mean of all; 0: there is one.
    pub busiest: f64,
}

/// The kinds of requests, in the order of the counters.
pub const REQUEST_KINDS: [&str; 4] = ["read", "write", "discard", "flush"];

/// A part of the time of an op, of a sync, or of what the device did in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimePart {
    /// Requests of the op at the lowest devices; with a trace, only the time in the device.
    Device,
    /// The time of these requests in the device's queue; with a trace.
    Queue,
    /// Requests at the first device below the target, beyond the time at the lowest devices.
    Layers,
    /// Requests in the server under test.
    Server,
    /// CPU time of the worker in the kernel.
    KernelCpu,
    /// CPU time of the worker in user mode.
    UserCpu,
    /// The worker is ready to run and waits for a CPU.
    CpuWait,
    /// The worker sleeps, and no counter states why.
    Unknown,
    /// Time of requests outside the server under test, in its ring and above it; no device is counted.
    OutsideServer,
    /// The worker sleeps, for whatever reason.
    Asleep,
    /// The rest, where the CPU time of the worker overlaps other ops.
    Above,
    /// [`TimePart::Unknown`] without counters of the devices.
    AsleepOrDevice,
    /// [`TimePart::Above`] without counters of the devices.
    DeviceAndAbove,
    /// Writes and flushes of syncs at the lowest devices.
    SyncDevice,
    /// The rest of the time in syncs.
    SyncAbove,
    /// The time in syncs without counters of the devices.
    Syncs,
    /// Requests of a kind in [`REQUEST_KINDS`].
    Requests(usize),
    /// A step of a cycle of file operations.
    Step(&'static str),
}

impl TimePart {
    /// Whether it is the rest of an op's time, which no counter states.
    pub fn is_rest(self) -> bool {
        use TimePart::{Above, AsleepOrDevice, DeviceAndAbove, OutsideServer, Unknown};
        matches!(
            self,
            Unknown | Above | AsleepOrDevice | DeviceAndAbove | OutsideServer
        )
    }

    /// Its stable name: `wait_for_cpu`.
    pub fn name(self) -> &'static str {
        self.texts()[0]
    }

    /// Its name for people.
    pub fn words(self) -> &'static str {
        self.texts()[1]
    }

    /// Its name in a sentence: `mostly at the device`.
    pub fn place(self) -> &'static str {
        self.texts()[2]
    }

    fn texts(self) -> [&'static str; 3] {
        match self {
            TimePart::Device => ["device", "device", "at the device"],
            TimePart::Queue => ["queue", "device queue", "in the device's queue"],
            TimePart::Layers => [
                "layers",
                "layers above the device",
                "in layers above the device",
            ],
            TimePart::Server => ["server", "server", "in the server"],
            TimePart::KernelCpu => ["kernel_cpu", "CPU in the kernel", "CPU in the kernel"],
            TimePart::UserCpu => ["user_cpu", "CPU in user mode", "CPU in user mode"],
            TimePart::CpuWait => ["wait_for_cpu", "wait for a CPU", "waiting for a CPU"],
            TimePart::Unknown => [
                "unknown",
                "asleep, unknown why",
                "asleep for a reason that is not counted",
            ],
            TimePart::OutsideServer => {
                ["outside_server", "outside the server", "outside the server"]
            }
            TimePart::Asleep => ["asleep", "asleep", "asleep"],
            TimePart::Above => ["above_device", "above the device", "above the device"],
            TimePart::AsleepOrDevice => [
                "asleep_or_device",
                "asleep, at the device or elsewhere",
                "asleep, at the device or elsewhere",
            ],
            TimePart::DeviceAndAbove => [
                "device_and_above",
                "at the device and above",
                "at the device and above",
            ],
            TimePart::SyncDevice => [
                "syncs_device",
                "syncs at the device",
                "in syncs at the device",
            ],
            TimePart::SyncAbove => [
                "syncs_above_device",
                "syncs above the device",
                "in syncs above the device",
            ],
            TimePart::Syncs => ["syncs", "syncs", "in syncs"],
            TimePart::Requests(kind) => {
                [["reads", "writes", "discards", "flushes"][kind.min(3)]; 3]
            }
            TimePart::Step(name) => [name; 3],
        }
    }
}

/// How sure it is that a quantity differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// The interval of the difference includes 0, or there is none.
    NotDecided,
    /// The interval excludes 0, but not after the correction for the number of quantities; or the trials are not of
    /// common rounds.
    Likely,
    /// Also after the correction.
    Certain,
}

impl Certainty {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Certainty::NotDecided => "not decided",
            Certainty::Likely => "likely",
            Certainty::Certain => "certain",
        }
    }
}

/// A quantity of both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Its stable name: `device`.
    pub name: &'static str,
    /// Its name for people: `bytes written to the device per op`.
    pub words: String,
    /// Its unit.
    pub unit: SeriesUnit,
    /// Arithmetic means over the trials of the baseline and of the candidate.
    pub sides: (f64, f64),
    /// Candidate − baseline. The differences of parts add up to that of the whole.
    pub difference: Estimated,
    /// Whether it differs.
    pub certainty: Certainty,
    /// Of a part: how much of it, on each side, may belong to other parts or to other processes.
    pub uncertain: (f64, f64),
}

impl Quantity {
    /// Whether it differs, as far as the trials can show it.
    pub fn differs(&self) -> bool {
        self.certainty > Certainty::NotDecided
    }
}

/// Parts of a time, which add up to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// What takes the time.
    pub of: StackOf,
    /// The parts, from the device upwards, ns.
    pub parts: Vec<(TimePart, Quantity)>,
    /// The whole, ns.
    pub whole: Quantity,
}

/// What a stack is the time of.
#[derive(Debug, Clone, PartialEq)]
pub enum StackOf {
    /// An op, with its syncs.
    Op,
    /// An op of this job.
    Job(String),
    /// A sync; of this number for each op on both sides.
    Sync((f64, f64)),
    /// A cycle of file operations, by steps.
    Cycle,
    /// Requests at the devices for which no op waits, for each op.
    Background,
}

/// Something that differs and can be the reason.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// A fact of the two sides.
    Fact(Difference),
    /// A measured quantity.
    Series(Quantity),
}

/// The numbers behind a comparison that is explained.
#[derive(Debug, Clone, PartialEq)]
pub struct Reasons {
    /// Ops per second.
    pub rate: Quantity,
    /// Ops in flight, with their syncs: the sum of their latencies ÷ the time.
    pub in_flight: Quantity,
    /// The time of an op with its syncs, ns.
    pub time: Quantity,
    /// Whether the jobs have a rate, so that only the time of an op can differ.
    pub rate_given: bool,
    /// The time of an op, or of an op of each job; then that of syncs, of steps, and of background requests.
    pub stacks: Vec<Stack>,
    /// Percent of the workers' time: kernel, user, wait for a CPU, asleep. They add up to 100; empty if unknown.
    pub worker: Vec<(TimePart, Quantity)>,
    /// Whether the workers are the limit of each side: they sleep for less than 5 % of their time.
    pub worker_limited: (bool, bool),
    /// Work for each op that either side does.
    pub work: Vec<Quantity>,
    /// The parts that make most of the difference in the time of an op, at most two, with their differences in ns;
    /// empty if the difference is elsewhere or cannot be told.
    pub most: Vec<(TimePart, f64)>,
    /// The step of a cycle that makes most of it, with its difference in ns; `None` without steps.
    pub step: Option<(TimePart, f64)>,
    /// Whether a part should be named, and none differs for sure.
    pub noise: bool,
    /// At most three.
    pub causes: Vec<Cause>,
}

impl Reasons {
    /// Whether the mean time of an op changed against the compared figure: a percentile, a step of a cycle or a
    /// completion with its drain can do so.
    pub fn contradict(&self, of: &ComparedSides) -> bool {
        let rate = matches!(of.metric.unit, Unit::OpsPerSecond | Unit::BytesPerSecond);
        let (one, other) = self.time.sides;
        // Ratios are those of speed.
        let opposite = |ratio: f64| ratio.ln() * (one / other).ln() < 0.0;
        !rate && of.ratio.is_some_and(|ratio| opposite(ratio.value))
    }
}

/// What limits the rate of repeated trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Mean time of an op with its syncs, ns.
    pub time_ns: f64,
    /// Mean number of ops in flight.
    pub in_flight: f64,
    /// The largest part of that time.
    pub part: TimePart,
    /// Its share of that time.
    pub share: f64,
    /// Percent of the workers' time on a CPU and waiting for one, if they hardly sleep and do not poll by design.
    pub worker: Option<(f64, f64)>,
    /// Whether the jobs have a rate, which is the limit unless it is missed.
    pub rate_given: bool,
    /// Share of that time for which the device had requests of an op whose worker waited for a CPU.
    pub overlap: f64,
}

/// Two sides, with the result of their comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedSides {
    /// The row's values of the row dimensions; of a family, with its name in place of the workload.
    pub row: Vec<String>,
    /// The columns: baseline and candidate.
    pub columns: (String, String),
    /// The metric.
    pub metric: Metric,
    /// Ratio of speed, as the comparison has it; of a family, the geometric mean of its members' ratios.
    pub ratio: Option<Estimated>,
    /// The verdict of the comparison.
    pub verdict: Verdict,
    /// The verdict that the numbers alone would give.
    pub by_numbers: Verdict,
}

impl ComparedSides {
    /// A candidate of a row.
    pub fn of(row: &ComparedRow, candidate: &CandidateResult) -> ComparedSides {
        ComparedSides {
            row: row.name.clone(),
            columns: (row.baseline.column.clone(), candidate.side.column.clone()),
            metric: row.metric.clone(),
            ratio: candidate.ratio,
            verdict: candidate.verdict.clone(),
            by_numbers: candidate.by_numbers.clone(),
        }
    }

    /// Whether the metric is a latency, rather than a rate or the completion of a fixed amount of work.
    pub fn by_latency(&self) -> bool {
        self.metric.unit == Unit::Nanos && self.metric.name != Metric::COMPLETION
    }

    /// The verdict of the numbers, whatever other facts of the sides differ.
    pub fn of_numbers(&self) -> &Verdict {
        match &self.verdict {
            Verdict::NotComparable { .. } => &self.by_numbers,
            verdict => verdict,
        }
    }

    /// Whether the numbers state a difference.
    pub fn decided(&self) -> bool {
        matches!(
            self.of_numbers(),
            Verdict::Faster | Verdict::Slower | Verdict::DifferentButSmall
        )
    }
}

/// Why a candidate differs from the baseline in one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// What is compared.
    pub of: ComparedSides,
    /// How the trials are paired.
    pub pairing: Pairing,
    /// Rounds, or trials of the smaller side.
    pub n: u32,
    /// The numbers, or why there are none.
    pub reasons: Result<Reasons, String>,
    /// Data that are missing, each with what would provide them.
    pub lacking: Vec<String>,
}

/// Why a family of workloads differs.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedFamily {
    /// What is compared.
    pub of: ComparedSides,
    /// The rows of its members among [`Explanation::comparisons`].
    pub members: Vec<Vec<String>>,
    /// The geometric mean over the members of the time of an op, with the mean shares of its parts; `None` if a member
    /// has no parts.
    pub stack: Option<Stack>,
    /// The part that makes most of the difference in most members, with their number.
    pub most: Option<(TimePart, usize)>,
    /// Otherwise the part of [`Self::stack`] that differs most in the direction of the whole, with its difference, ns;
    /// `None` if no part differs.
    pub largest: Option<(TimePart, f64)>,
    /// The causes that all these members have.
    pub causes: Vec<Cause>,
}

impl ExplainedFamily {
    /// Whether this comparison is one of its members.
    pub fn has(&self, explained: &Explained) -> bool {
        self.of.columns == explained.of.columns && self.members.contains(&explained.of.row)
    }
}

/// The explanation of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Its title: that of the comparison.
    pub name: String,
    /// The rows and candidates, in the order of the comparison.
    pub comparisons: Vec<Explained>,
    /// Families of workloads, whose members are among `comparisons`.
    pub families: Vec<ExplainedFamily>,
}
