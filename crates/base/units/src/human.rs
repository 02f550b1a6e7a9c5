use std::fmt;

/// A number printed with exactly three significant digits.
#[derive(Debug, Clone, Copy)]
pub struct Significant(f64);

/// Prints `value` with three significant digits: `0.412`, `3.87`, `41.2`, `412`, `41200`.
pub fn significant(value: f64) -> Significant {
    Significant(value)
}

impl fmt::Display for Significant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value == 0.0 || !value.is_finite() {
            return f.pad(&format!("{value:.0}"));
        }
        let magnitude = value.abs().log10().floor() as i32;
        let decimals = (2 - magnitude).max(0) as usize;
        let mut text = format!("{value:.decimals$}");
        // 9.996 rounds up to 10.00: one digit too many.
        let digits = text
            .trim_start_matches(['-', '0', '.'])
            .chars()
            .filter(char::is_ascii_digit)
            .count();
        if digits > 3 && decimals > 0 {
            text = format!("{value:.*}", decimals - 1);
        }
        f.pad(&text)
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[impl fmt::Display]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    match items.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        items => items.concat(),
    }
}

/// A number of items: `1 file`, `2 files`, `10 000 files`. `noun` is the singular of a noun whose plural
/// ends in `s`.
pub fn counted(number: u64, noun: &str) -> String {
    let sibilant = ["s", "x", "z", "ch", "sh"]
        .iter()
        .any(|end| noun.ends_with(end));
    let ending = match (number, sibilant) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {noun}{ending}", grouped(number))
}

/// Digits in groups of three, from 10 000: `9999`, `10 000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A fraction in percent, with at most one decimal: `3 %`, `2.1 %`, `95 %`; below 0.1 % with two
/// significant digits: `0.05 %`, `<0.001 %`. A number that is not finite is `? %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        return "? %".to_owned();
    }
    let decimals = match percent.abs() {
        size if size == 0.0 || size >= 0.0995 => 1,
        size if size < 0.001 => return "<0.001 %".to_owned(),
        size => (1.0 - size.log10().floor()) as usize,
    };
    let text = format!("{percent:.decimals$}");
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A ratio with two decimals: `1.00 ×`, `0.82 ×`; `<0.01 ×` where they would be 0.
pub fn multiple(ratio: f64) -> String {
    match ratio {
        0.0..0.005 => "<0.01 ×".to_owned(),
        _ => format!("{ratio:.2} ×"),
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, multiple, percent, significant};

    #[test]
    fn a_small_ratio_is_not_printed_as_0() {
        for (ratio, text) in [
            (0.0, "<0.01 ×"),
            (0.0049, "<0.01 ×"),
            (0.0051, "0.01 ×"),
            (0.816, "0.82 ×"),
            (12.0, "12.00 ×"),
        ] {
            assert_eq!(multiple(ratio), text);
        }
    }

    #[test]
    fn numbers_are_counted_and_long_ones_grouped() {
        for (number, text) in [
            (0, "0 files"),
            (1, "1 file"),
            (9_999, "9999 files"),
            (10_000, "10 000 files"),
            (1_234_567, "1 234 567 files"),
        ] {
            assert_eq!(counted(number, "file"), text);
        }
    }

    #[test]
    fn shares_have_at_most_one_decimal_unless_they_are_tiny() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.03, "3 %"),
            (0.0214, "2.1 %"),
            (0.123, "12.3 %"),
            (1.0, "100 %"),
            (0.0005, "0.05 %"),
            (0.000_123_4, "0.012 %"),
            (0.000_001, "<0.001 %"),
            (0.1, "10 %"),
            (-0.021, "-2.1 %"),
            (f64::NAN, "? %"),
            (f64::INFINITY, "? %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn keeps_three_digits_whatever_the_size() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123456, "0.0123"),
            (0.41234, "0.412"),
            (3.8749, "3.87"),
            (9.996, "10.0"),
            (41.23, "41.2"),
            (99.96, "100"),
            (412.3, "412"),
            (41234.4, "41234"),
            (-3.8749, "-3.87"),
        ] {
            assert_eq!(significant(value).to_string(), text, "{value}");
        }
    }
}
