//! Tests that take too long for `make test`: `make test-long`.

mod experiments;
#[path = "../program/harness.rs"]
#[allow(dead_code, reason = "these tests use part of it")]
mod harness;
mod kills;
#[path = "../program/mirror.rs"]
#[allow(dead_code, reason = "these tests use part of it")]
mod mirror;
mod mirrors;
