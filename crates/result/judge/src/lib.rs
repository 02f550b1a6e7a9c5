//! Derives summaries, findings, observations and verdicts from trials.
//!
//! Every function here is pure: its result depends on the plan and the measured data only. This crate decides
//! and does not format. A finding concerns one trial; a comparison concerns several.

mod behaviour;
mod closing;
mod compare;
mod curves;
mod devices;
mod doctor;
mod explain;
mod findings;
mod history;
mod kind;
mod limits;
mod observe;
mod repeats;
mod result;
mod search;
mod series;
mod servers;
mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod work;

pub use behaviour::behaviour;
pub use closing::{closing_table, in_order_of_plans};
pub use compare::{
    CompareError, QuestionError, TooFewRounds, can_decide, check_claims, chosen, comparable,
    compare, default_rounds, default_rows, distinguishing_runs, likeliest_axis, primaries,
    question_of, regret, widest_interval, without_searches,
};
pub use curves::curves;
pub use doctor::examine;
pub use explain::{costs, explain};
pub use findings::findings;
pub use history::history;
pub use limits::limits;
pub use observe::{ByNode, JOB, NODE, observe, observe_imported, observe_jobs, observe_nodes};
pub use repeats::{noise_floor, repeats};
pub use result::{CompareResult, claims, compare_runs, searches, title_of};
pub use search::{Probe, next_load, search_answer};
pub use series::{balance, device_times, device_use, figures, measured};
pub use servers::servers;
pub use summary::summary;
pub use work::{expected_metrics, planned_metric};
