//! Tests that take too long for `make test`: `make test-long`.

#[path = "../program/equal_sides.rs"]
mod equal_sides;
mod experiments;
mod explain;
#[path = "../program/harness.rs"]
#[allow(dead_code, reason = "these tests use part of it")]
mod harness;
mod kills;
mod log_writes;
mod mirrors;
#[path = "../program/nbd.rs"]
#[allow(dead_code, reason = "these tests use part of it")]
mod nbd;
