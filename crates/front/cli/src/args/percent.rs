//! Percentages on the command line.

use std::str::FromStr;

/// A share, written in percent: `3%`, `2.5`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percent {
    /// 0.03 for 3 %.
    pub(crate) share: f64,
}

impl Percent {
    /// As a whole number of percent.
    pub(crate) fn whole(self) -> u32 {
        (self.share * 100.0).round() as u32
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Percent, String> {
        let text = text.trim();
        let number = text.strip_suffix('%').unwrap_or(text).trim_end();
        match number.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Percent {
                share: percent / 100.0,
            }),
            Ok(_) => Err("a percentage must be above 0 and at most 100".to_owned()),
            Err(_) => Err("expected a percentage, such as `3%`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_written_in_percent() {
        for (text, share) in [("3%", 0.03), ("2.5", 0.025), (" 100 % ", 1.0)] {
            assert_eq!(
                text.parse::<Percent>().map(|p| p.share),
                Ok(share),
                "{text}"
            );
        }
        for text in ["", "%", "3%%", "0", "-3%", "101", "three", "nan", "inf"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
