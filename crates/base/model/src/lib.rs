//! Plain data: plans, measurements, findings and comparisons.
//!
//! All values are immutable once built and do not depend on how they were produced or where they are sent.
//! These types are also stored and sent between processes. They carry a schema number. Fields are only ever
//! added, and with a default, so that older results stay readable.

mod access;
mod behaviour;
mod blocks;
mod buffers;
mod closing;
mod comparison;
mod diagnostic;
mod engine;
mod engine_kind;
mod environment;
mod errno;
mod errors;
mod examination;
mod explanation;
mod export;
mod files;
mod finding;
mod fio_bins;
mod forecast;
mod frame;
mod histogram;
mod history;
mod identity;
mod import;
mod job;
mod key;
mod layer;
mod limits;
mod mapped;
mod metric;
mod node;
mod observation;
mod operations;
pub mod ordered;
mod pacing;
mod part;
mod pinning;
mod plan;
pub mod printable;
mod priority;
mod question;
mod rate_limits;
mod regret;
mod replay;
mod run;
mod search;
pub mod secret;
mod shared_files;
mod sim_target;
mod steady;
mod stop;
mod suggest;
mod summary;
mod telemetry;
mod trial;
mod verify;
mod vm;
mod vm_node;
mod work;

pub use access::{
    Access, BlockSizes, Direction, Distribution, MixSequence, Order, PerDirection, Precondition,
    Sequencer,
};
pub use behaviour::{Behaviour, Course, Regime};
pub use blocks::{Blocks, Extent, Passes, RangeSync, SyncPolicy, WriteZones};
pub use buffers::{Buffers, Content, Memory, Pattern};
pub use closing::{BandwidthUnit, ClosingTable};
pub use comparison::{
    AxisCurve, AxisPoint, CandidateResult, ClaimCheck, ComparedRow, Comparison, Difference,
    EqualRate, Estimated, Member, Pairing, Repeated, SearchAnswer, SearchPoint, Side, Verdict,
};
pub use diagnostic::{Diagnostic, Place, Severity};
pub use engine::{Engine, SimClock, SimDevice, SimDisk, SimDiskKind, SimFault, SimLaw, SimOptions};
pub use engine_kind::EngineKind;
pub use environment::{
    Cpu, DeviceLayer, Environment, Governor, MadeTarget, MemoryInfo, MountInfo, StackLayer,
    TargetInfo,
};
pub use errno::{errno_name, errno_named, errno_names};
pub use errors::ErrorPolicy;
pub use examination::{Check, CheckState, FigureColumn, FigureRow, FigureTable};
pub use explanation::{
    Cause, Change, CommonReason, Contrast, Costs, DeviceCosts, Equation, Explained,
    ExplainedFamily, Explanation, HostCores, RequestCosts, Term, TooFew,
};
pub use export::{ExportServer, ExportUri, url_scheme};
pub use files::{Amount, Fallocate, FileAdvice, FileService, Files};
pub use finding::{Finding, FindingKind, Weight};
pub use fio_bins::{FIO_BINS, fio_bin, fio_bin_middle};
pub use forecast::{Admission, Forecast, TargetUse};
pub use frame::{DirectionFrame, Frame, JobFrame};
pub use histogram::{BinLayout, Histogram, HistogramBuilder};
pub use history::{
    History, HistoryChange, HistoryDifference, HistoryDrift, HistoryPoint, NewestRun, NewestVerdict,
};
pub use identity::{Identity, Inode, KnownTarget};
pub use import::{
    Claim, ClaimRules, ClaimSubject, Contradiction, Duplicate, Imported, ImportedPoint,
    ImportedTable, ImportedTrial, ImportedTrials, Unread,
};
pub use job::{
    After, ExitScope, Job, JobEnd, LeftOut, Logs, MemoryPolicy, PercentilesOf, Placement,
    Reporting, Span, UnifiedReporting,
};
pub use key::{RunId, TrialKey};
pub use layer::{
    CommandRun, FileSystemKind, FolderServer, Fresh, Layer, MirrorLayer, NfsLayer, Provision,
    Shape, VdevGroup, ZfsLayer, ZfsOrigin,
};
pub use mapped::{DmTarget, FlakeyFault, MdLayer, MdLevel};
pub use metric::{Better, Figure, Metric, Unit, Withheld};
pub use node::{NodeAddress, PlannedNode, SshAddress};
pub use observation::{Fact, FactClass, Flag, Kind, Observation, SourceLine};
pub use operations::{
    Action, CycleStep, FileSet, FioOperations, Needs, Operations, PickOrder, Subject, Writing,
};
pub use pacing::{Arrival, DirectionRate, Flow, LatencyTarget, Pacing, ThinkTime};
pub use part::{
    BadBlock, ClockOffset, ClockRate, CloneResult, ControlGroupUse, CpuUse, DepthUse, DeviceTimes,
    DeviceUse, DirectionResult, EndedBy, EngineUsed, ErrorCount, FileState, HostUse, LegUse,
    MissedOps, OpInFlight, Part, RunningStats, SampleStats, ServerUse, Settled, SimulatedDisk,
    StageTimes, Stalls, Step, StepTime, VerifyResult,
};
pub use pinning::Pinning;
pub use plan::{
    BoundPlan, Configuration, FilePolicy, Plan, RoundOrder, Sampling, Settling, Source, Stopping,
    Target, Workload, nodes_of,
};
pub use priority::{IoPriority, PriorityResult, PriorityShare};
pub use question::Question;
pub use rate_limits::Limits;
pub use regret::{CellRegret, ColumnRegret, RatioToBest, Regret};
pub use replay::Replay;
pub use run::{DirectionTotal, Run, RunState, RunSummary, TrialSummary};
pub use search::{Bound, Search, SearchAxis};
pub use shared_files::{SharedFiles, SharedMode};
pub use sim_target::{SimRecords, SimTarget};
pub use steady::{SteadyMetric, SteadyResult, SteadyRule, SteadyValue};
pub use stop::StopRequest;
pub use suggest::closest;
pub use summary::{
    CpuSummary, DeviceShare, DeviceSummary, GroupSummary, NodeStalls, NodeSummary, Point, Quantile,
    Row, SampledNode, Summary,
};
pub use telemetry::{
    ARC, BLOCK_BINS, CGROUP, CPU, DISK, LOAD, MEMORY, NETWORK, OTHERS, POOL, PRESSURE, PROCESS,
    RECLAIM, REQUESTS, Reading, Sample, SamplerCost, SeriesColumn, SeriesGap, SeriesKind,
    SeriesRow, SeriesShape, SeriesUnit, Telemetry, TelemetryBatch, Thinner, block_bin_from,
};
pub use trial::{Outcome, Trial, TrialState};
pub use verify::{BlockPattern, Checksum, HeaderFormat, LoadState, Verify, VerifyTrim};
pub use vm::{
    Acceleration, DiskAio, DiskBackend, DiskCache, DiskInterface, DiskOrigin, SERVER_STATS, VmDisk,
    VmImage, VmLayer, server_command, server_command_fault, server_program,
};
pub use vm_node::{VmAddress, VmStorage};
pub use work::Work;

/// Schema number of everything stored or sent; incremented when a reader must know of a change.
pub const SCHEMA: u32 = 2;

/// Whether a field has its default, so that it need not be stored.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
