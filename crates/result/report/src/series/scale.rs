//! The unit in which a column's values are printed.

use iodyno_model::SeriesUnit;
use iodyno_units::{Rate, significant};

/// The divisor of values, and the unit in the heading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Unit in the heading; empty for plain numbers.
    pub(crate) unit: &'static str,
    divisor: f64,
    /// The largest number of decimals.
    decimals: usize,
    /// `138.4k` for 138 400.
    suffixed: bool,
}

pub(crate) const BYTES: [(&str, f64); 5] = [
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
];

pub(crate) const NANOS: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

impl Scale {
    /// The scale for values of a unit. It depends on a typical value and not on the largest, so that an outlier does
    /// not make the others zero.
    pub(crate) fn of(unit: SeriesUnit, typical: f64) -> Scale {
        let plain = |divisor, decimals| Scale {
            unit: "",
            divisor,
            decimals,
            suffixed: true,
        };
        let with = |unit, divisor, decimals| Scale {
            unit,
            divisor,
            decimals,
            suffixed: false,
        };
        match unit {
            SeriesUnit::Number | SeriesUnit::PerSecond => plain(1.0, 2),
            SeriesUnit::Hundredths => plain(100.0, 2),
            SeriesUnit::Percent => with("%", 1.0, 1),
            SeriesUnit::Nanos => {
                let (unit, divisor) = largest_below(&NANOS, typical);
                with(unit, divisor, 3)
            }
            SeriesUnit::Bytes => {
                let (unit, divisor) = largest_below(&BYTES, typical);
                with(unit, divisor, 2)
            }
            // Rates of storage are always in MiB/s, so that tables can be compared.
            SeriesUnit::BytesPerSecond if typical >= 104_857.6 || typical == 0.0 => {
                with("MiB/s", 1048576.0, 2)
            }
            SeriesUnit::BytesPerSecond => with("KiB/s", 1024.0, 2),
        }
    }

    /// The value in this unit with three significant digits; `-` if it is unknown.
    pub(crate) fn draw(&self, value: Option<f64>) -> String {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return "-".to_owned();
        };
        let value = value / self.divisor;
        let text = match self.suffixed {
            true if value.abs() >= 999.5 => Rate(value).to_string(),
            true if value.fract() == 0.0 => return format!("{value:.0}"),
            _ => significant(value).to_string(),
        };
        let decimals = text
            .rsplit_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        match decimals > self.decimals && !text.ends_with(['k', 'M']) {
            true => format!("{value:.*}", self.decimals),
            false => text,
        }
    }
}

/// The median of the values that are known and not 0; 0 without any.
pub(crate) fn typical(values: impl Iterator<Item = Option<f64>>) -> f64 {
    let known = values.flatten().filter(|value| value.is_finite());
    let mut sizes: Vec<f64> = known.map(f64::abs).filter(|size| *size > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
}

/// The largest unit that is at most the value, or the first if all are larger.
pub(crate) fn largest_below(units: &[(&'static str, f64)], value: f64) -> (&'static str, f64) {
    let found = units.iter().rev().find(|(_, size)| value.abs() >= *size);
    found.or(units.first()).copied().unwrap_or(("", 1.0))
}

/// `12.3 µs`.
pub(crate) fn with_unit(value: f64, unit: SeriesUnit) -> String {
    let scale = Scale::of(unit, value);
    let text = match (unit, value != 0.0 && value.abs() < 0.1) {
        // No column is so narrow that it cuts it.
        (SeriesUnit::Number, true) if value.abs() < 0.001 => format!("{value:.1e}"),
        (SeriesUnit::Number, true) => significant(value).to_string(),
        _ => scale.draw(Some(value)),
    };
    match scale.unit {
        "" => text,
        unit => format!("{text} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SeriesUnit::*;

    #[test]
    fn a_column_has_one_unit_and_three_digits() {
        let cases: [(SeriesUnit, f64, f64, &str, &str); 23] = [
            (Number, 1.0, 0.0, "", "0"),
            (Number, 1.0, 9.0, "", "9"),
            (Number, 1.0, 15.83, "", "15.8"),
            (Number, 1.0, 0.0312, "", "0.03"),
            (PerSecond, 1.0, 671.2, "", "671"),
            (PerSecond, 1.0, 999.7, "", "1.00k"),
            (PerSecond, 1.0, 138_412.0, "", "138.4k"),
            (Hundredths, 1.0, 152.0, "", "1.52"),
            (Percent, 1.0, 97.44, "%", "97.4"),
            (Percent, 1.0, 0.04, "%", "0.0"),
            (Percent, 1.0, 0.0, "%", "0"),
            (Percent, 1.0, 100.0, "%", "100"),
            (Nanos, 346_000.0, 346_000.0, "µs", "346"),
            (Nanos, 2_870_000.0, 346_000.0, "ms", "0.346"),
            (Nanos, 2_870_000.0, 1_200_000_000.0, "ms", "1200"),
            (Nanos, 2_870_000.0, 90.0, "ms", "0.000"),
            (Bytes, 4096.0, 4096.0, "KiB", "4.00"),
            (Bytes, 4096.0, 131_072.0, "KiB", "128"),
            (Bytes, 3e9, 1_073_741_824.0, "GiB", "1.00"),
            (BytesPerSecond, 1e9, 566_231_040.0, "MiB/s", "540"),
            (BytesPerSecond, 1e9, 4e9, "MiB/s", "3815"),
            (BytesPerSecond, 4096.0, 4096.0, "KiB/s", "4.00"),
            (BytesPerSecond, 0.0, 0.0, "MiB/s", "0"),
        ];
        for (kind, typical, value, unit, text) in cases {
            let scale = Scale::of(kind, typical);
            let found = (scale.unit, scale.draw(Some(value)));
            assert_eq!(found, (unit, text.to_owned()), "{value} of {kind:?}");
        }
        for value in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(Scale::of(Number, 1.0).draw(value), "-");
        }
    }

    #[test]
    fn the_typical_value_is_the_middle_one_that_is_not_zero() {
        let values = [
            None,
            Some(0.0),
            Some(5.0),
            Some(900.0),
            Some(4.0),
            Some(0.0),
        ];
        assert_eq!(typical(values.into_iter()), 5.0);
        assert_eq!(typical([None, Some(0.0)].into_iter()), 0.0);
    }
}
