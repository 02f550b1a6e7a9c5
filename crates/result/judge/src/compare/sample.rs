//! The values of two sides that are compared.

use iodyno_model::{Better, Member, Pairing};

use super::sides::Gathered;

/// The values that a cell's statistics are computed from.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Baseline values; if paired, one per round in the same order as the candidate's; if by run, one per run.
    pub(super) baseline: Vec<f64>,
    /// Candidate values.
    pub(super) candidate: Vec<f64>,
    /// Whether the two are paired.
    pub(super) pairing: Pairing,
    /// Which way is better.
    pub(super) better: Better,
    /// Workloads with their speed ratios; empty for a single workload.
    pub(super) members: Vec<Member>,
    /// Omitted values, with the reason.
    pub(super) notes: Vec<String>,
    /// Why separate runs give no verdict; empty if they can.
    pub(super) reasons: Vec<String>,
}

/// The two sides of one workload.
pub(super) struct Two<'a, 'b> {
    /// The workload's name within its family.
    pub(super) name: &'b str,
    /// The baseline's trials.
    pub(super) baseline: &'b Gathered<'a>,
    /// The candidate's trials.
    pub(super) candidate: &'b Gathered<'a>,
}

/// A workload's values: the baseline's and the candidate's.
pub(super) type Values = (Vec<f64>, Vec<f64>);

impl Sample {
    /// Rounds, or trials or runs of the smaller side.
    pub(super) fn n(&self) -> usize {
        self.baseline.len().min(self.candidate.len())
    }

    /// The sides arranged so that larger is better: for times they are exchanged, which inverts the ratio.
    pub(super) fn by_speed(&self) -> (&[f64], &[f64]) {
        match self.better {
            Better::Higher => (&self.baseline, &self.candidate),
            Better::Lower => (&self.candidate, &self.baseline),
        }
    }

    /// Whether every value has a logarithm.
    pub(super) fn positive(&self) -> bool {
        let values = self.baseline.iter().chain(&self.candidate);
        values.into_iter().all(|value| *value > 0.0)
    }
}
