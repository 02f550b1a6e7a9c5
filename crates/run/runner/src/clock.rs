//! Clocks: monotonic for measurements, wall clock for people, CPU time for the harness's own use.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, ns: the engine's clock.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Wall clock, ns since 1970.
pub(crate) fn wall() -> u64 {
    read(ClockId::Realtime)
}

/// The wall clock `since_ns` ago, ms since 1970.
pub(crate) fn unix_ms_before(since_ns: u64) -> u64 {
    wall().saturating_sub(since_ns) / 1_000_000
}

/// CPU time of all threads of this process, ns.
pub(crate) fn cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// The kernel's clock of this number (`clockid_t`), ns since its epoch; real time for an unknown number.
pub(crate) fn numbered(clock: u32) -> u64 {
    read(match clock {
        1 => ClockId::Monotonic,
        4 => ClockId::MonotonicRaw,
        5 => ClockId::RealtimeCoarse,
        6 => ClockId::MonotonicCoarse,
        7 => ClockId::Boottime,
        _ => ClockId::Realtime,
    })
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
