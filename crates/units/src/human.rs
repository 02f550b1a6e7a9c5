use std::fmt;

/// A number printed with three significant digits and no more than that.
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

#[cfg(test)]
mod tests {
    use super::significant;

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
