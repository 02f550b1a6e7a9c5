//! The collector on hosts whose files change between samples: rows appear, disappear, wrap, fail and return.
#![allow(clippy::print_stderr, reason = "tests print why they were skipped")]

mod cpus;
mod disks;
mod gaps;
mod host;
mod interrupts;
mod recorded;
