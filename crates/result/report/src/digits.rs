//! Numbers with three significant digits that fit the columns of the table.

/// Decimals that show three significant digits of `value`, at least one, at most `most`.
fn decimals(value: f64, most: usize) -> usize {
    if value <= 0.0 || !value.is_finite() {
        return 1;
    }
    // 9.996 becomes 10.0, not 10.00.
    let rounded = format!("{value:.2e}").parse().unwrap_or(value);
    let magnitude = f64::log10(rounded).floor();
    // The logarithm of a power of ten can be slightly above or below its exponent.
    let magnitude = match 10f64.powf(magnitude + 1.0) <= rounded * (1.0 + 1e-12) {
        true => magnitude + 1.0,
        false => magnitude,
    };
    ((2.0 - magnitude).max(1.0) as usize).min(most)
}

/// Milliseconds: `0.000412`, `0.0153`, `2.35`, `335.5`. At most eight characters for times up to 11 days.
pub(crate) fn ms(ns: f64) -> String {
    let value = ns / 1e6;
    match value >= 99_999.95 {
        true => format!("{value:.0}"),
        // A nanosecond is the sixth decimal.
        false => format!("{value:.*}", decimals(value, 6)),
    }
}

/// Ops a second: `0.0`, `0.0123`, `30.8`, `30400.5`.
pub(crate) fn rate(value: f64) -> String {
    format!("{value:.*}", decimals(value, 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits_from_a_nanosecond_on_and_fit_their_column() {
        for (ns, text) in [
            (1.0, "0.000001"),
            (412.0, "0.000412"),
            (999.0, "0.000999"),
            (1_000.0, "0.00100"),
            (1_234.0, "0.00123"),
            (10_000.0, "0.0100"),
            (15_300.0, "0.0153"),
            (100_000.0, "0.100"),
            (246_800.0, "0.247"),
            (999_600.0, "1.00"),
            (2_345_000.0, "2.35"),
            (9_996_000.0, "10.0"),
            (67_100_000.0, "67.1"),
            (335_540_000.0, "335.5"),
            (99_999_940_000.0, "99999.9"),
            (3_600_000_000_000.0, "3600000"),
        ] {
            assert_eq!(ms(ns), text, "{ns}");
            assert!(ms(ns).len() <= 8, "{ns}");
        }
    }

    #[test]
    fn rates_keep_three_digits_and_a_tenth() {
        for (value, text) in [
            (0.0, "0.0"),
            (0.01234, "0.0123"),
            (1.0, "1.00"),
            (30.84, "30.8"),
            (644.06, "644.1"),
            (65339.28, "65339.3"),
        ] {
            assert_eq!(rate(value), text, "{value}");
        }
    }
}
