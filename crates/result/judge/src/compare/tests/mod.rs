//! Comparisons of simulated trials.

mod claims;
mod comparability;
mod errors;
mod file_operations;
mod floors;
mod properties;
mod rows;
mod runs;
mod simulations;
mod verdicts;

use iodyno_model::{CandidateResult, Comparison, Observation, Question};

use super::compare;

/// Ten values around `level`, within 1 %, with the same relative deviations for any level.
fn around(level: f64) -> Vec<f64> {
    let noise = [0.2, -0.7, 0.9, -0.3, 0.5, -0.9, 0.1, 0.7, -0.5, 0.4];
    noise.iter().map(|n| level * (1.0 + n / 100.0)).collect()
}

/// The same with other deviations.
fn differently_around(level: f64) -> Vec<f64> {
    let noise = [-0.4, 0.6, 0.3, -0.8, 0.9, -0.1, 0.8, -0.6, 0.05, -0.35];
    noise.iter().map(|n| level * (1.0 + n / 100.0)).collect()
}

fn compared(trials: &[Observation], question: &Question) -> Comparison {
    compare("made up", trials, question, &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// The only cell of a comparison by the default question.
fn only_cell(trials: &[Observation]) -> CandidateResult {
    first_cell(trials, &Question::default())
}

fn first_cell(trials: &[Observation], question: &Question) -> CandidateResult {
    compared(trials, question).rows[0].cells[0].clone()
}

fn both(baseline: Vec<Observation>, candidate: Vec<Observation>) -> Vec<Observation> {
    [baseline, candidate].concat()
}
