//! What is concluded from trials, own and imported: observations, comparisons, summaries.

mod comparison;
mod examination;
mod history;
mod import;
mod metric;
mod observation;
mod regret;
mod summary;
mod table;
mod verdict_counts;

pub use comparison::{
    AxisCurve, AxisPoint, CandidateResult, ClaimCheck, ComparedRow, Comparison, Difference,
    EqualRate, Estimated, Member, Pairing, Repeated, SearchAnswer, SearchPoint, Side, SideFlag,
    Verdict,
};
pub use examination::{Check, CheckState, FigureColumn, FigureRow, FigureTable};
pub use history::{
    History, HistoryChange, HistoryDifference, HistoryDrift, HistoryPoint, NewestRun, NewestVerdict,
};
pub use import::{
    Claim, ClaimRules, ClaimSubject, Contradiction, Duplicate, Imported, ImportedPoint,
    ImportedTable, ImportedTrial, ImportedTrials, Unread,
};
pub use metric::{Better, Figure, Metric, Unit, Withheld};
pub use observation::{Fact, FactClass, Flag, Kind, Observation, SourceLine};
pub use regret::{CellRegret, ColumnRegret, RatioToBest, Regret};
pub use summary::{
    CpuSummary, DeviceShare, DeviceSummary, GroupSummary, NodeStalls, NodeSummary, Point, Quantile,
    Row, SampledNode, Summary,
};
pub use table::{FilledTable, TableCell, TableHead, TableLine};
pub use verdict_counts::VerdictCounts;
