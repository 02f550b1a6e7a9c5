use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Nanos, significant};

/// Events per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub f64);

impl Rate {
    /// `count` events in `span`; zero for an empty span.
    pub fn of(count: u64, span: Nanos) -> Rate {
        match span.0 {
            0 => Rate(0.0),
            ns => Rate(count as f64 * 1e9 / ns as f64),
        }
    }
}

/// `671`, `1.12k`, `138.4k`, `2.05M`: at least three significant digits, powers of 1000.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let scaled = |factor: f64, unit: &str| match value / factor {
            v if v >= 99.95 => format!("{v:.1}{unit}"),
            v => format!("{}{unit}", significant(v)),
        };
        let text = match value.abs() {
            v if v >= 999_950.0 => scaled(1e6, "M"),
            v if v >= 999.5 => scaled(1e3, "k"),
            _ => significant(value).to_string(),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Nanos, Rate};

    #[test]
    fn prints_rates_with_si_prefixes() {
        for (value, text) in [
            (0.0, "0"),
            (30.84, "30.8"),
            (671.2, "671"),
            (999.7, "1.00k"),
            (1123.0, "1.12k"),
            (138_412.0, "138.4k"),
            (2_050_000.0, "2.05M"),
        ] {
            assert_eq!(Rate(value).to_string(), text);
        }
    }

    #[test]
    fn counts_over_a_span() {
        assert_eq!(Rate::of(500, Nanos::from_millis(250)), Rate(2000.0));
        assert_eq!(Rate::of(500, Nanos(0)), Rate(0.0));
    }
}
