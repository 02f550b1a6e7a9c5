//! Samples what the host does: interrupts, CPUs, disks, pressure, memory, pools, processes.
//!
//! A [`Station`] has a sampler for each series that the host offers. It takes one sample of each whenever it is
//! told to, on the clock that it is told, and makes of the counters' readings what [`iodyno_model::Telemetry`] holds.
//! What must stay true: a series that cannot be read is a gap with its reason and never an error; each
//! sampler's own cost is recorded; where nothing came or went, a sample allocates no more than the
//! row that it hands out.

mod delta;
mod layout;
mod sampler;
mod samplers;
mod scope;
mod source;
mod station;
mod text;

pub use samplers::{PoolRow, pool_reports};
pub use scope::{Devices, Pools, Scope};
pub use station::Station;
