//! CLOCK_MONOTONIC.

/// Now, ns since an arbitrary start (boot).
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until that instant, or not at all if it has passed. A signal ends it early.
pub fn sleep_until(instant_ns: u64) {
    let time = libc::timespec {
        tv_sec: (instant_ns / 1_000_000_000) as _,
        tv_nsec: (instant_ns % 1_000_000_000) as _,
    };
    // SAFETY: the time outlives the call; no remainder is asked for.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        );
    }
}
