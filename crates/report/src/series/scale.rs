//! The unit that a column's values are drawn in.

use iodyno_model::SeriesUnit;
use iodyno_units::{Rate, significant};

/// What values are divided by, and what stands above them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Above the column; empty for plain numbers.
    pub(crate) unit: &'static str,
    divisor: f64,
    /// Decimals beyond these say nothing.
    decimals: usize,
    /// `138.4k` for 138 400.
    suffixed: bool,
}

const BYTES: [(&str, f64); 5] = [
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
];

const NANOS: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

impl Scale {
    /// For values of that unit, the largest of which is given.
    pub(crate) fn of(unit: SeriesUnit, largest: f64) -> Scale {
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
                let (unit, divisor) = largest_below(&NANOS, largest);
                with(unit, divisor, 3)
            }
            SeriesUnit::Bytes => {
                let (unit, divisor) = largest_below(&BYTES, largest);
                with(unit, divisor, 2)
            }
            // Rates of storage are MiB/s throughout, so that tables compare.
            SeriesUnit::BytesPerSecond if largest >= 104_857.6 || largest == 0.0 => {
                with("MiB/s", 1048576.0, 2)
            }
            SeriesUnit::BytesPerSecond => with("KiB/s", 1024.0, 2),
        }
    }

    /// The value in this unit: three significant digits, `-` where it is not known.
    pub(crate) fn draw(&self, value: Option<f64>) -> String {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return "-".to_owned();
        };
        let value = value / self.divisor;
        let text = match self.suffixed && value.abs() >= 999.5 {
            true => Rate(value).to_string(),
            false => significant(value).to_string(),
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

/// The largest unit of which there is one at least; below all of them the first.
fn largest_below(units: &[(&'static str, f64)], value: f64) -> (&'static str, f64) {
    let fits = |unit: &&(&'static str, f64)| value.abs() >= unit.1;
    let found = units.iter().rev().find(fits);
    found.or(units.first()).copied().unwrap_or(("", 1.0))
}
