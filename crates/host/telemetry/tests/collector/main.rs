//! The collector on hosts whose files change between samples: rows appear, disappear, wrap, fail and return.

mod cpus;
mod disks;
mod gaps;
mod host;
mod interrupts;
mod recorded;
