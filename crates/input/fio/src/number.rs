//! Syntax of numbers in job files: sizes, times and counts with their suffixes.
//!
//! The whole text of a number must be valid: the digits are followed by a known suffix or by nothing. With
//! `kb_base=1024` (the default), `k`, `ki` and `kb` are 1024 and only `kib` is 1000, the reverse of the
//! international standard; `kb_base=1000` swaps them.

use iodyno_units::{Nanos, fio_size_factor};
use thiserror::Error;

use super::arithmetic;

/// fio silently ignores a suffix after hexadecimal digits.
const HEXADECIMAL: &str = "a hexadecimal number";

/// The unit of a time without a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

impl TimeUnit {
    /// Nanoseconds per unit.
    pub fn nanos(self) -> u64 {
        match self {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Microseconds => 1_000,
        }
    }
}

/// Why a number cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NumberError {
    /// It is empty.
    #[error("a number is missing")]
    Missing,
    /// It does not start with a digit.
    #[error("`{0}` is not a number")]
    NotANumber(String),
    /// A fraction.
    #[error("`{0}` has a fraction; only whole numbers are accepted")]
    Fraction(String),
    /// There is a space between digits and suffix.
    #[error("`{0}` has a space before its suffix")]
    Space(String),
    /// An unknown suffix.
    #[error("`{suffix}` is not a suffix of {what}")]
    Suffix {
        /// The text after the digits.
        suffix: String,
        /// `a size` or `a time`.
        what: &'static str,
    },
    /// Below zero.
    #[error("`{0}` is negative")]
    Negative(String),
    /// Beyond 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// The expression in parentheses is invalid.
    #[error("cannot evaluate `{text}`: {why}")]
    Expression {
        /// The expression.
        text: String,
        /// The error.
        why: String,
    },
}

impl NumberError {
    /// The remedy: what to write instead.
    pub fn hint(&self) -> Option<String> {
        match self {
            NumberError::Fraction(text) => Some(format!(
                "write a smaller unit; others read `{text}` as `{}`",
                text.split('.').next().unwrap_or_default()
            )),
            NumberError::Space(text) => {
                Some(format!("write `{}`", text.replace(char::is_whitespace, "")))
            }
            NumberError::Suffix { what, suffix } if *what == "a time" => Some(time_hint(suffix)),
            NumberError::Suffix { what, .. } if *what == HEXADECIMAL => {
                Some("leave the suffix out, or write the number in decimal".to_owned())
            }
            NumberError::Suffix { .. } => Some("write k, m, g, t or p, such as `4k`".to_owned()),
            _ => None,
        }
    }
}

fn time_hint(suffix: &str) -> String {
    let meant = match suffix.to_ascii_lowercase().trim_end_matches('s') {
        "min" | "minute" => Some("m"),
        "sec" | "second" => Some("s"),
        "hr" | "hour" => Some("h"),
        "day" => Some("d"),
        _ => None,
    };
    match meant {
        Some(unit) => {
            format!("write `{unit}`; fio silently reads `{suffix}` as microseconds")
        }
        None => "write us, ms, s, m (minutes), h or d, such as `30s`".to_owned(),
    }
}

/// A size, and whether its suffix has the reverse of its standard meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
    /// Whether `KiB` meant 1000.
    pub reversed: bool,
}

/// Parses a number of bytes, or a count: `4096`, `0x1000`, `4k`, `1g`, `(2*4k)`.
pub fn size(text: &str, kb_base: u64) -> Result<Size, NumberError> {
    if text.starts_with('(') {
        let value = arithmetic::evaluate(text, &|suffix| {
            fio_size_factor(suffix, kb_base).map(|factor| factor.0 as f64)
        })
        .map_err(|why| expression(text, why))?;
        return Ok(Size {
            bytes: whole(text, value.number)?,
            reversed: false,
        });
    }
    let (number, suffix) = digits(text)?;
    let (factor, reversed) =
        fio_size_factor(suffix, kb_base).ok_or_else(|| bad_suffix(suffix, "a size"))?;
    let bytes = number
        .checked_mul(factor)
        .ok_or_else(|| NumberError::TooLarge(text.to_owned()))?;
    Ok(Size { bytes, reversed })
}

/// Parses a time: `30`, `30s`, `250us`, `5m`, `(2*30s)`; numbers without a suffix are in `unit`.
pub fn time(text: &str, unit: TimeUnit) -> Result<Nanos, NumberError> {
    if text.starts_with('(') {
        let value = arithmetic::evaluate(text, &|suffix| time_factor(suffix).map(|ns| ns as f64))
            .map_err(|why| expression(text, why))?;
        let factor = match value.with_suffix {
            true => 1,
            false => unit.nanos(),
        };
        return whole(text, value.number * factor as f64).map(Nanos);
    }
    let (number, suffix) = digits(text)?;
    let factor = match suffix {
        "" => unit.nanos(),
        _ => time_factor(suffix).ok_or_else(|| bad_suffix(suffix, "a time"))?,
    };
    number
        .checked_mul(factor)
        .map(Nanos)
        .ok_or_else(|| NumberError::TooLarge(text.to_owned()))
}

/// Splits into digits (decimal, or hexadecimal after `0x`) and the rest.
fn digits(text: &str) -> Result<(u64, &str), NumberError> {
    if text.is_empty() {
        return Err(NumberError::Missing);
    }
    if text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit()) {
        return Err(NumberError::Negative(text.to_owned()));
    }
    let body = text.strip_prefix('+').unwrap_or(text);
    let (radix, body) = match body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None => (10, body),
    };
    let end = body
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(body.len());
    let rest = &body[end..];
    if end == 0 {
        return Err(NumberError::NotANumber(text.to_owned()));
    }
    if rest.starts_with('.') {
        return Err(NumberError::Fraction(text.to_owned()));
    }
    if rest.starts_with(char::is_whitespace) {
        return Err(NumberError::Space(text.to_owned()));
    }
    if radix == 16 && !rest.is_empty() {
        return Err(bad_suffix(rest, HEXADECIMAL));
    }
    let number = u64::from_str_radix(&body[..end], radix)
        .map_err(|_| NumberError::TooLarge(text.to_owned()))?;
    Ok((number, rest))
}

/// Nanoseconds of a time suffix.
fn time_factor(suffix: &str) -> Option<u64> {
    Some(match suffix.to_ascii_lowercase().as_str() {
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    })
}

fn bad_suffix(suffix: &str, what: &'static str) -> NumberError {
    NumberError::Suffix {
        suffix: suffix.to_owned(),
        what,
    }
}

fn expression(text: &str, why: String) -> NumberError {
    NumberError::Expression {
        text: text.to_owned(),
        why,
    }
}

/// The integer part of an expression's value, as in integer arithmetic.
fn whole(text: &str, value: f64) -> Result<u64, NumberError> {
    match value {
        v if v.is_nan() => Err(expression(text, "its result is not a number".to_owned())),
        v if v < 0.0 => Err(NumberError::Negative(text.to_owned())),
        v if v >= u64::MAX as f64 => Err(NumberError::TooLarge(text.to_owned())),
        v => Ok(v as u64),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_sizes_with_their_reversed_suffixes() {
        let cases: &[(&str, u64, u64, bool)] = &[
            ("0", 1024, 0, false),
            ("4096", 1024, 4096, false),
            ("4096b", 1024, 4096, false),
            ("4096B", 1024, 4096, false),
            ("+7", 1024, 7, false),
            ("0x1000", 1024, 4096, false),
            ("0X1F", 1024, 31, false),
            ("4k", 1024, 4096, false),
            ("4K", 1024, 4096, false),
            ("4ki", 1024, 4096, false),
            ("4kb", 1024, 4096, false),
            ("4KB", 1024, 4096, false),
            ("4KiB", 1024, 4000, true),
            ("1m", 1024, 1 << 20, false),
            ("1MiB", 1024, 1_000_000, true),
            ("1g", 1024, 1 << 30, false),
            ("1t", 1024, 1 << 40, false),
            ("1p", 1024, 1 << 50, false),
            ("1PiB", 1024, 1_000_000_000_000_000, true),
            ("4k", 1000, 4000, false),
            ("4kb", 1000, 4000, false),
            ("4KiB", 1000, 4096, false),
            ("4ki", 1000, 4000, true),
            ("1gib", 1000, 1 << 30, false),
            ("(4*1k)", 1024, 4096, false),
            ("(1k+1)", 1024, 1025, false),
            ("((2+2)*8k)", 1024, 32768, false),
            ("(7/2)", 1024, 3, false),
            ("(2^10)", 1024, 1024, false),
        ];
        for (text, base, bytes, reversed) in cases {
            assert_eq!(
                size(text, *base),
                Ok(Size {
                    bytes: *bytes,
                    reversed: *reversed
                }),
                "{text} at kb_base={base}"
            );
        }
    }

    #[test]
    fn refuses_texts_that_are_not_completely_a_size() {
        for (text, words) in [
            ("", "missing"),
            ("4x", "`x` is not a suffix of a size"),
            ("1.5k", "has a fraction"),
            ("1e4", "`e4` is not a suffix"),
            ("4 k", "has a space"),
            ("-4k", "is negative"),
            ("k", "is not a number"),
            ("4kk", "not a suffix"),
            ("4kiib", "not a suffix"),
            ("0x", "is not a number"),
            ("0x10k", "not a suffix"),
            ("99999999999999999999", "too large"),
            ("99999999p", "too large"),
            ("(4*", "cannot evaluate"),
            ("(1/0)", "cannot evaluate"),
            ("(1-2)", "is negative"),
            ("4µ", "not a suffix"),
        ] {
            let error = size(text, 1024).unwrap_err();
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn reads_times_in_their_default_unit() {
        use TimeUnit::{Microseconds, Milliseconds, Seconds};
        for (text, unit, ns) in [
            ("30", Seconds, 30_000_000_000),
            ("30", Milliseconds, 30_000_000),
            ("30", Microseconds, 30_000),
            ("30s", Microseconds, 30_000_000_000),
            ("30S", Microseconds, 30_000_000_000),
            ("5m", Seconds, 300_000_000_000),
            ("2h", Seconds, 7_200_000_000_000),
            ("1D", Seconds, 86_400_000_000_000),
            ("10ms", Seconds, 10_000_000),
            ("10msec", Seconds, 10_000_000),
            ("10us", Seconds, 10_000),
            ("10usec", Seconds, 10_000),
            ("(2*30)", Seconds, 60_000_000_000),
            ("(2*30ms)", Seconds, 60_000_000),
            ("(1m+30s)", Seconds, 90_000_000_000),
        ] {
            assert_eq!(time(text, unit), Ok(Nanos(ns)), "{text}");
        }
    }

    #[test]
    fn refuses_times_that_would_silently_be_microseconds() {
        for (text, hint) in [
            ("1min", "write `m`"),
            ("30sec", "write `s`"),
            ("30 s", "write `30s`"),
            ("0.5", "smaller unit"),
            ("10ns", "such as `30s`"),
            ("1hour", "write `h`"),
        ] {
            let error = time(text, TimeUnit::Seconds).unwrap_err();
            let found = error.hint().unwrap_or_default();
            assert!(found.contains(hint), "{text}: {error}; {found}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = size(&text, 1024);
            let _ = time(&text, TimeUnit::Seconds);
        }

        #[test]
        fn never_panics_on_near_numbers(text in "[(]?[-+0-9x.kKmMiIbBsu() *^%/]{0,24}") {
            let _ = size(&text, 1000);
            let _ = time(&text, TimeUnit::Microseconds);
        }

        #[test]
        fn printed_values_are_parsed_again(number in 0u64..1 << 50, power in 0usize..3) {
            let suffix = ["", "k", "m"][power];
            let bytes = number.checked_mul(1u64 << (10 * power));
            let read = size(&format!("{number}{suffix}"), 1024).ok().map(|size| size.bytes);
            prop_assert_eq!(read, bytes);
            prop_assert_eq!(size(&format!("{number:#x}"), 1024).unwrap().bytes, number);
        }
    }
}
