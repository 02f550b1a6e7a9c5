//! Numbers in the format of fio's normal output: the prefix changes when a number has too many characters.

/// Powers of 1024 (`KiB`) or of 1000 (`kB`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Binary,
    Decimal,
}

/// Significant digits of rates and sizes.
pub(super) const DIGITS: usize = 4;

/// `value` in at most `digits` digits with its prefix: 51746 → `51.7k`, 63.6 MiB → `63.6Mi`.
pub(super) fn prefixed(value: f64, digits: usize, base: Base) -> String {
    let (step, prefixes) = match base {
        Base::Binary => (1024.0, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        Base::Decimal => (1000.0, ["", "k", "M", "G", "T", "P", "E"]),
    };
    let whole = if value.is_finite() {
        value.trunc()
    } else {
        0.0
    };
    let length = |value: f64| format!("{:.0}", value.trunc()).len();
    let (mut scaled, mut index) = (whole, 0);
    while length(scaled) > digits && index + 1 < prefixes.len() {
        scaled /= step;
        index += 1;
    }
    let decimals = match index {
        0 => 0,
        _ => digits.saturating_sub(length(scaled) + 1),
    };
    let mut text = format!("{scaled:.decimals$}");
    // 99.96 rounds up to 100.0: one digit too many.
    if text.len() > digits && decimals > 0 {
        text = format!("{scaled:.*}", decimals - 1);
    }
    text + prefixes[index]
}

/// A size or rate in both bases: `202MiB/s (212MB/s)` with `/s` as the unit's end.
pub(super) fn both(value: f64, end: &str) -> (String, String) {
    (
        format!("{}B{end}", prefixed(value, DIGITS, Base::Binary)),
        format!("{}B{end}", prefixed(value, DIGITS, Base::Decimal)),
    )
}

#[cfg(test)]
mod tests {
    use super::{Base, both, prefixed};

    #[test]
    fn writes_as_fio_does() {
        // Seen in fio 3.42's output.
        for (value, digits, base, text) in [
            (0.0, 4, Base::Decimal, "0"),
            (315.0, 4, Base::Decimal, "315"),
            (9999.0, 4, Base::Decimal, "9999"),
            (51_746.0, 4, Base::Decimal, "51.7k"),
            (129_007.0, 4, Base::Decimal, "129k"),
            (2128.0, 6, Base::Decimal, "2128"),
            (1_048_576.0, 4, Base::Binary, "1024Ki"),
            (66_707_456.0, 4, Base::Binary, "63.6Mi"),
            (67_108_864.0, 4, Base::Binary, "64.0Mi"),
            (66_707_456.0, 4, Base::Decimal, "66.7M"),
            (4_294_967_296.0, 4, Base::Binary, "4096Mi"),
            (f64::NAN, 4, Base::Decimal, "0"),
        ] {
            assert_eq!(prefixed(value, digits, base), text, "{value}");
        }
        assert_eq!(
            both(528_416_913.0, "/s"),
            ("504MiB/s".to_owned(), "528MB/s".to_owned())
        );
    }
}
