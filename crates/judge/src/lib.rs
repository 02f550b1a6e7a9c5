//! Trials to findings and verdicts.
//!
//! Decides and never draws: everything here is a pure function of what was planned and measured.
//! Findings speak of one trial alone; comparisons and their verdicts come on top.

mod behaviour;
mod compare;
mod devices;
mod doctor;
mod findings;
mod kind;
mod observe;
mod repeats;
mod series;
mod servers;
mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod work;

pub use behaviour::behaviour;
pub use compare::{
    ALL_METRICS, CompareError, Fault, TooFewRounds, can_decide, check_claims, compare,
    default_rounds, default_rows, most_telling, primaries, telling_runs_apart, widest_interval,
};
pub use doctor::examine;
pub use findings::findings;
pub use observe::{OWN_METRICS, is_own_metric, observe, observe_imported};
pub use repeats::{noise_floor, repeats};
pub use series::{balance, figures, measured};
pub use servers::servers;
pub use summary::summary;
