//! Numbers in prose, with the precision that their digits have.

use std::ops::RangeInclusive;

use iodyno_units::Bytes;

use crate::number::split;

/// A number as stated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Approximate {
    pub(super) value: f64,
    /// The largest difference from what it can be rounded from.
    pub(super) tolerance: f64,
}

impl Approximate {
    /// Whether it can be rounded from a value in this range.
    pub(super) fn can_be_in(self, range: &RangeInclusive<f64>) -> bool {
        self.value + self.tolerance >= *range.start() && self.value - self.tolerance <= *range.end()
    }

    fn times(self, unit: f64) -> Approximate {
        Approximate {
            value: self.value * unit,
            tolerance: self.tolerance * unit,
        }
    }
}

/// Sizes agree up to this ratio: `100G` is 10¹¹ or 2³⁰ × 100 bytes.
pub(super) const SAME_SIZE: f64 = 1.1;

pub(super) fn is_same_size(one: f64, other: f64) -> bool {
    (one / other).max(other / one) <= SAME_SIZE
}

/// Words before a number that is not exact.
const ABOUT: [&str; 8] = [
    "around",
    "about",
    "roughly",
    "approximately",
    "nearly",
    "almost",
    "some",
    "circa",
];

/// The number of a word: `2000`, `~360k`, `1.5M`, `10,000`. `before`: the word before it.
pub(super) fn count(word: &str, before: &str) -> Option<Approximate> {
    let exact = word.trim_start_matches(['~', '≈']);
    let about = exact.len() < word.len() || ABOUT.contains(&before.to_lowercase().as_str());
    let (digits, power) = match exact.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 3),
        None => match exact.strip_suffix('M') {
            Some(digits) => (digits, 6),
            None => (exact, 0),
        },
    };
    rounded(digits, power, about)
}

/// A number times a power of 10, of which only the digits up to the last one that is not 0 are known. With `about`, the
/// last one may be off by 1.
fn rounded(digits: &str, power: i32, about: bool) -> Option<Approximate> {
    let digits = ungrouped(digits)?;
    let (whole, decimals) = digits.split_once('.').unwrap_or((&digits, ""));
    let is_number = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    if whole.is_empty() || whole.len() > 12 || !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let zeros = whole.len() - whole.trim_end_matches('0').len();
    let last = match decimals.is_empty() {
        true => i32::try_from(zeros).ok()?,
        false => -i32::try_from(decimals.len()).ok()?,
    };
    // Parsed with their exponent, whole numbers are exact: 2096.05 * 1e3 is not 2096050.
    let value = format!("{digits}e{power}").parse::<f64>().ok()?;
    let unit = format!("1e{}", last + power).parse::<f64>().ok()?;
    (value > 0.0).then_some(Approximate {
        value,
        tolerance: if about { unit } else { unit / 2.0 },
    })
}

/// `10,000` → `10000`; `None` for a decimal comma.
fn ungrouped(digits: &str) -> Option<String> {
    let mut groups = digits.split(',');
    let first = groups.next()?;
    let groups: Vec<&str> = groups.collect();
    let is_group = |group: &&str| group.split('.').next().is_some_and(|it| it.len() == 3);
    let fits = groups.is_empty() || ((1..=3).contains(&first.len()) && groups.iter().all(is_group));
    fits.then(|| digits.replace(',', ""))
}

/// The size at the beginning of some words, and how many words it takes: `4k`, `100G`, `200 MB`, `512B`. A number alone
/// is not one.
pub(super) fn size(words: &[&str]) -> Option<(Approximate, usize)> {
    let first = words.first()?.trim_start_matches(['~', '≈']);
    let (digits, own) = split(first);
    let (unit, taken) = match own.is_empty() {
        true => (*words.get(1)?, 2),
        false => (own, 1),
    };
    let unit = match unit {
        "bytes" | "byte" | "B" => "B",
        // A single letter belongs to its number.
        _ if taken == 2 && unit.len() < 2 => return None,
        _ => unit,
    };
    let bytes = format!("1{unit}").parse::<Bytes>().ok()?.0;
    Some((rounded(digits, 0, false)?.times(bytes as f64), taken))
}

/// The time at the beginning of some words, ns: `3 seconds`, `500ms`.
pub(super) fn time(words: &[&str]) -> Option<f64> {
    let first = words.first()?.trim_start_matches(['~', '≈']);
    let (digits, own) = split(first);
    let unit = match own.is_empty() {
        true => *words.get(1)?,
        false => own,
    };
    let ns = match unit.to_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => 1e6,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e9,
        "min" | "mins" | "minute" | "minutes" => 60e9,
        "h" | "hour" | "hours" => 3600e9,
        _ => return None,
    };
    rounded(digits, 0, false).map(|time| time.value * ns)
}
