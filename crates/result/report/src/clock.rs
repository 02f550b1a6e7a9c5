//! Wall-clock times as text.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};

/// `unix_ms` at `offset_s` seconds east of Greenwich, formatted as strftime does; empty for times
/// beyond the calendar.
fn format(unix_ms: u64, offset_s: i32, pattern: &str) -> String {
    let offset = Offset::from_seconds(offset_s).unwrap_or(Offset::UTC);
    i64::try_from(unix_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .map(|instant| instant.to_zoned(TimeZone::fixed(offset)))
        .and_then(|zoned| strtime::format(pattern, &zoned).ok())
        .unwrap_or_default()
}

/// `2026-11-21 20:09`, in the zone `offset_s` seconds east of Greenwich; empty for times beyond the calendar.
pub fn minute(unix_ms: u64, offset_s: i32) -> String {
    format(unix_ms, offset_s, "%Y-%m-%d %H:%M")
}

/// `2026-11-21 20:09:16`.
pub(crate) fn day_and_second(unix_ms: u64, offset_s: i32) -> String {
    format(unix_ms, offset_s, "%Y-%m-%d %H:%M:%S")
}

/// `20:09:16`.
pub(crate) fn second(unix_ms: u64, offset_s: i32) -> String {
    format(unix_ms, offset_s, "%H:%M:%S")
}

/// `2026-11-21T20:09:16.530Z`.
pub(crate) fn utc(unix_ms: u64) -> String {
    let seconds = format(unix_ms, 0, "%Y-%m-%dT%H:%M:%S");
    match seconds.is_empty() {
        true => seconds,
        false => format!("{seconds}.{:03}Z", unix_ms % 1000),
    }
}

/// `Sat Nov 21 20:09:16 2026`: the format of ctime(3).
pub(crate) fn ctime(unix_ms: u64, offset_s: i32) -> String {
    format(unix_ms, offset_s, "%a %b %e %H:%M:%S %Y")
}

#[cfg(test)]
mod tests {
    use super::{ctime, minute, second, utc};

    #[test]
    fn formats_times_of_day_and_is_empty_beyond_the_calendar() {
        assert_eq!(ctime(1_795_291_756_530, 0), "Sat Nov 21 20:09:16 2026");
        assert_eq!(ctime(951_782_400_000, 7200), "Tue Feb 29 02:00:00 2000");
        assert_eq!(minute(1_795_291_756_530, -3600), "2026-11-21 19:09");
        assert_eq!(second(1_795_291_756_530, 0), "20:09:16");
        assert_eq!(utc(1_795_291_756_530), "2026-11-21T20:09:16.530Z");
        assert_eq!((minute(u64::MAX, 0), utc(u64::MAX)), Default::default());
    }
}
