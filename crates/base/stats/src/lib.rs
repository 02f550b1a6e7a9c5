//! Statistics of storage measurements, as pure functions on numbers.
//!
//! Nothing here formats, stores or decides; callers turn the numbers into verdicts. Invariants:
//!
//! - No input panics. Empty, too short, non-finite and out-of-range inputs are [`StatsError`]s.
//! - Results are exact if that is affordable; an approximation is stated in the result ([`Method`]).
//! - An interval that cannot exist at the requested level (too few values) is `None`.
//! - Of two samples, the first is the baseline and the second the candidate: a positive shift, a ratio above one and
//!   a positive Cliff's δ all mean that the candidate's values are larger.
//! - Functions that draw random numbers take a seed.

mod autocorrelation;
mod bootstrap;
mod change_points;
mod distributions;
mod effect;
mod energy;
mod equivalence;
mod error;
mod family;
mod fisher;
mod interval;
mod knee;
mod logarithms;
mod mann_whitney;
mod mean_interval;
mod means;
mod median_interval;
mod multiplicity;
mod outliers;
mod pairwise;
mod power;
mod ranks;
mod sample;
mod serial;
mod shift;
mod sign_flips;
mod signed_rank;
mod steady_state;
mod u_distribution;
mod welch;

pub use autocorrelation::{Autocorrelation, autocorrelation_time};
pub use bootstrap::{Bootstrap, bootstrap};
pub use change_points::{ChangePoint, ChangePointOptions, Segment, Segmentation, change_points};
pub use distributions::{normal_cdf, normal_quantile, student_t_quantile, student_t_two_sided_p};
pub use effect::cliffs_delta;
pub use equivalence::{
    Equivalence, Margin, equivalence_of_differences, equivalence_paired, equivalence_unpaired,
};
pub use error::StatsError;
pub use family::geometric_mean;
pub use fisher::fisher_exact;
pub use interval::{Estimate, Interval, Method};
pub use knee::knee;
pub use logarithms::log_ratios;
pub use mann_whitney::{
    EXACT_LIMIT_TIED, EXACT_LIMIT_UNTIED, MannWhitney, mann_whitney, smallest_p_mann_whitney,
};
pub use mean_interval::mean_interval;
pub use means::{MeanDifference, mean_difference, mean_permutation_p, prediction_interval};
pub use median_interval::MedianInterval;
pub use multiplicity::{benjamini_hochberg, benjamini_hochberg_levels, holm, holm_levels};
pub use outliers::{TrimmedMean, trimmed_mean};
pub use power::{
    Decides, Projection, least_rounds, least_samples, rounds_to_decide, samples_to_decide,
};
pub use sample::{QuantileKind, Sample};
pub use serial::{Change, MIN_FOR_CHANGE, SerialChange, serial_change, serial_correlation};
pub use shift::hodges_lehmann_shift;
pub use sign_flips::{SimultaneousTests, mean_and_error, simultaneous_reach, simultaneous_tests};
pub use signed_rank::{
    SIGNED_RANK_EXACT_LIMIT, SignedRank, hodges_lehmann, signed_rank, smallest_p_signed_rank,
};
pub use steady_state::{SteadyCriteria, SteadyWindow, assess_window};
