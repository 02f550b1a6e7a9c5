//! Carries out an experiment: each cell of a plan in turn, round after round, on a node, into a store.
//!
//! What must stay true: a run is stored before its first trial begins, a trial before anything of it
//! happens, and each second of it as it comes; a store that fails on the way costs the run nothing;
//! a trial that fails is an outcome and does not stop the others. Nothing here prints: whoever
//! calls is told of everything.

mod experiment;
mod keeper;
mod schedule;
mod store_place;
#[cfg(test)]
mod testing;

pub use experiment::{Ended, Lab, Node, Progress, RunEnd, carry_out};
