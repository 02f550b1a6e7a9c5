//! Numbers with units as in fio's normal output.

use crate::number::{self, grouped, unit_ns};

/// Parses `12.3k`, `9072.1k`, `1.2M`: counts and times, with powers of 1000.
pub(super) fn count(text: &str) -> Option<f64> {
    let (number, suffix) = split(text)?;
    let factor = match suffix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "G" | "g" => 1e9,
        _ => return None,
    };
    Some(number * factor)
}

/// Parses `48.1MiB/s`, `50.4MB/s`, `49274KB/s`: bytes per second, always with powers of 1024. Version 2 wrote `KB/s`
/// for 1024 bytes per second and printed no other unit; since version 3 the rate in powers of 1000 follows in
/// parentheses and is not read here.
pub(super) fn per_second(text: &str) -> Option<f64> {
    let (number, suffix) = split(text)?;
    let factor = match suffix.strip_suffix("/s")? {
        "B" => 1.0,
        "KiB" | "KB" => 1024.0,
        "MiB" | "MB" => 1024.0 * 1024.0,
        "GiB" | "GB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" | "TB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number * factor)
}

/// Parses `60001msec`; ns.
pub(super) fn span_ns(text: &str) -> Option<f64> {
    let (number, suffix) = split(text)?;
    unit_ns(suffix).map(|factor| number * factor)
}

/// Parses `Sun Nov 22 00:39:49 2026` as written by C's `ctime`: ms since the epoch, assuming UTC. The time zone is
/// not printed, so only differences are meaningful.
pub(super) fn date_ms(text: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, clock, year] = words[..] else {
        return None;
    };
    let month = MONTHS
        .find(month)
        .filter(|at| month.len() == 3 && at % 3 == 0)? as i64
        / 3;
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok());
    let seconds = (parts.next()??, parts.next()??, parts.next()??);
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    if !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    // In a year that begins in March, the leap day is the last one.
    let (month, year) = ((month + 10) % 12, year - i64::from(month < 2));
    let leaps = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leaps + (153 * month + 2) / 5 + day - 719_469;
    Some(((days * 24 + seconds.0) * 60 + seconds.1) * 60_000 + seconds.2 * 1000)
}

/// Parses `4096B`, `16.0KiB`, `4K`: whole bytes.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, suffix) = split(text)?;
    let factor = match suffix {
        "" | "B" => 1.0,
        "KiB" | "K" | "k" => 1024.0,
        "MiB" | "M" | "m" => 1024.0 * 1024.0,
        "GiB" | "G" | "g" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number * factor;
    (bytes.fract() == 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// A number with its suffix.
fn split(text: &str) -> Option<(f64, &str)> {
    let (digits, suffix) = number::split(text.trim());
    Some((grouped(digits)?, suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_fio_prints() {
        for (text, value) in [
            ("12.3k", Some(12_300.0)),
            ("80405", Some(80_405.0)),
            ("9072.1k", Some(9_072_100.0)),
            ("1,234", Some(1234.0)),
            ("1,234,567.5", Some(1_234_567.5)),
            ("1,23", None),
            ("1,", None),
            ("", None),
            ("k", None),
            ("1.2.3", None),
        ] {
            assert_eq!(count(text), value, "{text}");
        }
        for (text, value) in [
            ("48.5MiB/s", Some(48.5 * 1_048_576.0)),
            ("49274KB/s", Some(49_274.0 * 1024.0)),
            ("12B/s", Some(12.0)),
            ("12MB", None),
        ] {
            assert_eq!(per_second(text), value, "{text}");
        }
        for (text, value) in [
            ("4096B", Some(4096)),
            ("16.0KiB", Some(16_384)),
            ("1.50MiB", Some(1_572_864)),
            ("4K", Some(4096)),
            ("0.3B", None),
            ("4x", None),
        ] {
            assert_eq!(bytes(text), value, "{text}");
        }
        assert_eq!(span_ns("60001msec"), Some(60_001e6));
        for (text, value) in [
            ("Thu Jan  1 00:00:00 1970", Some(0)),
            ("Tue Feb 29 12:00:00 2000", Some(951_825_600_000)),
            (" Sun Nov 22 00:39:49 2026", Some(1_795_307_989_000)),
            ("Sun anF 22 00:39:49 2026", None),
            ("Sun Nov 22 00:39 2026", None),
            ("yesterday", None),
        ] {
            assert_eq!(date_ms(text), value, "{text}");
        }
    }
}
