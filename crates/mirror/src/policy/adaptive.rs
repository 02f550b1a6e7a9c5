//! The policy of this project.

use super::{LegView, PolicyKind, ReadPolicy, ReadRequest, least};

/// The leg with the least expected work.
#[derive(Debug, Clone)]
pub struct Adaptive {}

impl Adaptive {
    /// For a mirror of `legs` legs.
    pub fn new(_legs: usize) -> Adaptive {
        Adaptive {}
    }
}

impl ReadPolicy for Adaptive {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Adaptive
    }

    fn choose(&mut self, _: &ReadRequest, legs: &[LegView], _: u64) -> Option<usize> {
        least(legs, |leg| legs[leg].work_ns())
    }
}
