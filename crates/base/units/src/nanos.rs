use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ParseError, scaled, significant, split_number};

/// A duration, or a time on some clock, in nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// Whole seconds as nanoseconds; saturates.
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds.saturating_mul(1_000_000_000))
    }

    /// Whole milliseconds as nanoseconds; saturates.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// Whole microseconds as nanoseconds; saturates.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros.saturating_mul(1_000))
    }

    /// The value in seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time from `earlier` to `self`; 0 if `earlier` is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}

/// `346 ns`, `1.19 µs`, `2.87 ms`, `41.2 s`, `1 h 02 min`: three significant digits.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        // The limits are where three digits would round up to the next unit.
        let text = match self.0 {
            0..1_000 => format!("{} ns", self.0),
            1_000..999_500 => format!("{} µs", significant(ns / 1e3)),
            999_500..999_500_000 => format!("{} ms", significant(ns / 1e6)),
            999_500_000..600_000_000_000 => format!("{} s", significant(ns / 1e9)),
            _ => {
                let minutes = self.0 / 60_000_000_000;
                match minutes {
                    0..60 => {
                        format!("{minutes} min {:02} s", self.0 / 1_000_000_000 % 60)
                    }
                    _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
                }
            }
        };
        f.pad(&text)
    }
}

/// Parses `250ns`, `10us`, `1.5ms`, `30s`, `10m`/`10min`, `2h`, `1d`; a number without a unit is refused.
impl FromStr for Nanos {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (number, suffix) = split_number(text.trim());
        let error = || ParseError {
            input: text.to_owned(),
            expected: "a time with its unit: `250us`, `10ms`, `30s`, `5min`, `2h`",
            with_unit: (suffix.is_empty() && number.parse::<f64>().is_ok())
                .then(|| format!("{number}s")),
        };
        let factor = match suffix {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(error()),
        };
        scaled(number, factor).map(Nanos).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::Nanos;

    #[test]
    fn prints_three_digits_and_a_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (346, "346 ns"),
            (1_190, "1.19 µs"),
            (999_600, "1.00 ms"),
            (2_870_000, "2.87 ms"),
            (41_200_000_000, "41.2 s"),
            (61_000_000_000, "61.0 s"),
            (754_000_000_000, "12 min 34 s"),
            (3_720_000_000_000, "1 h 02 min"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text, "{ns}");
        }
    }

    #[test]
    fn refuses_a_time_without_its_unit() {
        assert_eq!("1.5ms".parse::<Nanos>().unwrap(), Nanos(1_500_000));
        assert_eq!("5min".parse::<Nanos>().unwrap(), Nanos::from_secs(300));
        let error = |text: &str| text.parse::<Nanos>().unwrap_err().to_string();
        assert_eq!(error("5"), "`5` has no unit; write `5s`");
        assert!(error("5x").starts_with("cannot read `5x` as a time with its unit"));
        assert!(error("").starts_with("cannot read"));
        for text in ["10", "", "ms", "1mins", "-1s", "1e3s"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }
}
