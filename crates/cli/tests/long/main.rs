//! Campaigns that take too long for every run of the tests: `make test-long`.

#[path = "../program/harness.rs"]
#[allow(dead_code, reason = "the campaigns use a part of it")]
mod harness;
mod kills;
