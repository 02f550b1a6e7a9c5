//! Checks printed comparisons against the trials in the same source.
//!
//! The tables are benchstat's. Until 2022: outliers beyond 1.5 interquartile ranges are dropped, the mean ± the
//! largest deviation is printed, and `~` if p is not below 0.05. Since then: the median ± the farther end of its 95 %
//! interval, and `~` if p is above 0.05. A printed number agrees with the trials if it is equal to theirs rounded to
//! the printed digits, so neither the tool's scales nor its rounding of ties matter.

mod attempt;
mod geomean;
mod matching;
mod number;
mod row;
mod summary;
mod words;

use iodyno_model::{Claim, ClaimCheck, Observation};

use attempt::Row;
use geomean::check_geomean;
use row::check_row;

/// Checks every claim against the trials of its own source, or of all sources if its own has none.
pub fn check_claims(claims: &[Claim], observations: &[Observation]) -> Vec<ClaimCheck> {
    let usable: Vec<&Observation> = observations
        .iter()
        .filter(|o| o.unusable.is_none() && o.source.is_some())
        .collect();
    let rows: Vec<Row> = claims
        .iter()
        .map(|claim| Row::of(claim, claims, &usable))
        .collect();
    claims
        .iter()
        .zip(&rows)
        .map(|(claim, row)| match claim.subject.geomean {
            true => check_geomean(claim, &row.pool, claims, &rows),
            false => check_row(claim, row),
        })
        .collect()
}
