//! The node's side: prepares a trial, runs its clones, measures, and sends the results.

pub(crate) mod assemble;
pub(crate) mod control;
pub(crate) mod counter_delta;
pub(crate) mod examine;
pub(crate) mod host_counters;
pub(crate) mod message_writer;
pub(crate) mod monitor;
pub(crate) mod prepare;
pub(crate) mod rates;
pub(crate) mod scheduler;
pub(crate) mod serve;
pub(crate) mod simulated_devices;
pub(crate) mod stalls;
pub(crate) mod steady;
pub(crate) mod storage;
pub(crate) mod stuck;
pub(crate) mod telemetry;
pub(crate) mod timeline;
pub(crate) mod timers;
pub(crate) mod trial;
pub(crate) mod worker;
