//! The collector on hosts whose files change between samples: what comes, goes, wraps, fails and returns.
#![allow(clippy::print_stderr, reason = "skipped tests are told aloud")]

mod cpus;
mod disks;
mod gaps;
mod host;
mod interrupts;
mod recorded;
