//! Samples the host: interrupts, CPUs, disks, pressure, memory, pools, processes.
//!
//! A [`Collector`] has a sampler for each series that the host provides. At instants chosen by its caller it takes a
//! sample of each, and converts the readings of the counters to [`iodyno_model::Telemetry`]. Invariants: a series
//! that cannot be read is a gap with its reason and never an error; the cost of each sampler is recorded; while rows
//! and columns do not change, a sample allocates only the values that it returns.

mod collector;
mod delta;
mod layout;
mod sampler;
mod samplers;
mod scope;
mod source;
mod text;

pub use collector::Collector;
pub use samplers::{PoolReport, PoolRow, may_trace_block, pool_reports};
pub use scope::{Devices, Pools, ProcessName, Scope};
