//! Newtypes for bytes, time and rates: parsing and printing.
//!
//! Different units are different types. Strings contain their units: `4KiB`, `250us`. Suffixes are
//! unambiguous: `k`, `M`, `G`, `T` alone and with `iB` are powers of 1024, with `B` powers of 1000. Suffixes in job
//! files differ: [`fio_size_factor`].

mod bytes;
mod human;
mod nanos;
mod rate;

pub use bytes::{Bytes, fio_size_factor};
pub use human::{Significant, counted, grouped, list, multiple, percent, significant};
pub use nanos::Nanos;
pub use rate::Rate;

/// Why a quantity could not be parsed. The text contains the input and the accepted formats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The input.
    pub input: String,
    /// The accepted formats.
    pub expected: &'static str,
    /// What to write, if only the unit is missing.
    pub with_unit: Option<String>,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.with_unit {
            Some(text) => write!(f, "`{}` has no unit; write `{text}`", self.input),
            None => write!(f, "cannot read `{}` as {}", self.input, self.expected),
        }
    }
}

impl std::error::Error for ParseError {}

/// Splits `1.5KiB` into its number and its suffix.
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Multiplies a decimal number by an integer factor and rounds; `None` if the result overflows `u64`.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let value = number.parse::<f64>().ok()? * factor as f64;
    (value.is_finite() && (0.0..u64::MAX as f64).contains(&value)).then(|| value.round() as u64)
}
