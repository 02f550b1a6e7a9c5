//! Parsers of values. A value is parsed completely or not at all.

use std::ops::RangeInclusive;

use iodyno_options::Problem;
use iodyno_units::Nanos;

/// An integer within a range.
pub(super) fn count(text: &str, range: RangeInclusive<u64>) -> Result<u64, Problem> {
    let (least, most) = (*range.start(), *range.end());
    match digits(text) {
        Some(value) if range.contains(&value) => Ok(value),
        Some(_) => Err(Problem::error(format!(
            "`{text}` is not within {least} … {most}"
        ))),
        None => Err(Problem::error(format!("`{text}` is not a whole number"))
            .hint("no suffixes are taken here")),
    }
}

/// Digits only, so that a sign or a blank is not a number.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A number of at least 0, with or without a fraction.
pub(super) fn number(text: &str) -> Result<f64, Problem> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = plain.then(|| text.parse::<f64>().ok()).flatten();
    value
        .filter(|value| value.is_finite())
        .ok_or_else(|| Problem::error(format!("`{text}` is not a number of at least 0")))
}

/// A number within a range.
pub(super) fn number_within(text: &str, range: RangeInclusive<f64>) -> Result<f64, Problem> {
    let value = number(text)?;
    if range.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (range.start(), range.end());
    Err(Problem::error(format!(
        "`{text}` is not within {least} … {most}"
    )))
}

/// Maximum time, s: the range of a signed 32-bit number.
const MAX_SECONDS: f64 = i32::MAX as f64;

/// Seconds, with or without a fraction.
pub(super) fn seconds(text: &str) -> Result<Nanos, Problem> {
    let number = text.strip_suffix('s').unwrap_or(text);
    let value = number_within(number, 0.0..=MAX_SECONDS)
        .map_err(|fault| fault.hint("a time is given in seconds"))?;
    Ok(Nanos((value * 1e9).round() as u64))
}

/// Bytes: an integer with `K`, `M`, `G` or `T`, powers of 1024, in either case; `KiB` and `KB` are
/// equivalent.
pub(super) fn size(text: &str) -> Result<u64, Problem> {
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unread = || {
        Problem::error(format!("`{text}` is not a size")).hint("write `4096`, `16K`, `512M`, `2G`")
    };
    let value = digits(number).ok_or_else(unread)?;
    let shift = match suffix.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ if suffix.starts_with('.') => {
            let hint = "sizes are whole numbers: `1536M` for 1.5G";
            return Err(Problem::error(format!("`{text}` has a fraction")).hint(hint));
        }
        _ => return Err(unread()),
    };
    value
        .checked_mul(1 << shift)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| Problem::error(format!("`{text}` is more than files can hold")))
}

/// On or off.
pub(super) fn switch(text: &str) -> Result<bool, Problem> {
    iodyno_options::switch(text)
        .ok_or_else(|| Problem::error(format!("`{text}` is neither on nor off")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024_and_parsed_completely() {
        for (text, bytes) in [
            ("16384", Some(16384)),
            ("16K", Some(16384)),
            ("16k", Some(16384)),
            ("16KiB", Some(16384)),
            ("2GB", Some(2 << 30)),
            ("1T", Some(1 << 40)),
            ("0", Some(0)),
            ("8388607T", Some(8388607 << 40)),
            ("8388608T", None),
            ("99999999999999999999", None),
            ("1.5G", None),
            ("1P", None),
            ("G", None),
            ("-1G", None),
            ("1 G", None),
            ("1Gx", None),
            ("", None),
        ] {
            assert_eq!(size(text).ok(), bytes, "{text}");
        }
    }

    #[test]
    fn numbers_have_no_trailing_text() {
        for (text, value) in [("4", Some(4)), ("4x", None), ("+4", None), (" 4", None)] {
            assert_eq!(count(text, 0..=10).ok(), value, "{text}");
        }
        assert!(count("11", 0..=10).is_err() && count("0", 1..=10).is_err());
        for text in ["nan", "inf", "1e5", "-1", "", ".", "1.2.3"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert_eq!(number("1.5").ok(), Some(1.5));
        assert_eq!(seconds("0.5").ok(), Some(Nanos::from_millis(500)));
        assert_eq!(seconds("30s").ok(), Some(Nanos::from_secs(30)));
        assert!(seconds("3000000000").is_err() && seconds("1m").is_err());
    }
}
