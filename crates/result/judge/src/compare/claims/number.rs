//! Numbers as the tool prints them.

use iodyno_model::{Claim, ClaimRules};

use super::summary::{Spread, Summary};

/// Computed values agree up to this relative difference: sums in another order differ in the last bits.
pub(super) const ROUNDING: f64 = 1e-9;

/// Whether a printed percentage is equal to this one after rounding.
pub(super) fn share_agrees(printed: &str, percent: f64) -> bool {
    let Some(number) = printed.strip_suffix('%') else {
        return false;
    };
    let Ok(value) = number.parse::<f64>() else {
        return false;
    };
    if !value.is_finite() || !percent.is_finite() {
        return value == percent || (value.is_nan() && percent.is_nan());
    }
    (value - percent).abs() <= half_unit(number) + ROUNDING * (1.0 + percent.abs())
}

/// Half of the last printed digit of a number.
pub(super) fn half_unit(number: &str) -> f64 {
    let decimals = number.split_once('.').map_or(0, |(_, after)| after.len());
    0.5 * 0.1_f64.powi(decimals as i32)
}

/// A side as printed: `5.31k ± 7%`.
#[derive(Debug, Clone)]
pub(super) struct Number<'t> {
    pub(super) value: f64,
    pub(super) half_unit: f64,
    decimals: usize,
    /// `k`, `MB/s`, `µs`, `Ki`.
    suffix: &'t str,
    /// The factor of the suffix in printed units.
    pub(super) factor: f64,
    /// `7%`, `∞`, `?`; `None` if nothing is printed.
    spread: Option<&'t str>,
}

impl<'t> Number<'t> {
    pub(super) fn of(printed: &'t str, claim: &Claim) -> Option<Number<'t>> {
        let (center, spread) = match printed.split_once('±') {
            Some((center, spread)) => (center.trim(), Some(spread.trim())),
            None => (printed.trim(), None),
        };
        let end = center
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
            .unwrap_or(center.len());
        let (number, suffix) = center.split_at(end);
        Some(Number {
            value: number.parse().ok()?,
            half_unit: half_unit(number),
            decimals: number.split_once('.').map_or(0, |(_, after)| after.len()),
            suffix,
            factor: factor(suffix, claim.subject.rules)?,
            spread,
        })
    }

    pub(super) fn agrees(&self, summary: &Summary) -> bool {
        self.center_agrees(summary.center)
            && match (self.spread, summary.spread) {
                (None, _) => true,
                (Some("∞"), spread) => spread == Spread::Unbounded,
                (Some("?"), spread) => spread == Spread::SignsDiffer,
                (Some(text), Spread::Share(share)) => share_agrees(text, 100.0 * share),
                (Some(_), _) => false,
            }
    }

    pub(super) fn center_agrees(&self, center: f64) -> bool {
        let scaled = center / self.factor;
        (scaled - self.value).abs() <= self.half_unit + ROUNDING * scaled.abs()
    }

    /// Prints another value in the same form.
    pub(super) fn print(&self, summary: &Summary, rules: ClaimRules) -> String {
        let decimals = self.decimals;
        let center = format!("{:.decimals$}{}", summary.center / self.factor, self.suffix);
        let spread = match summary.spread {
            _ if self.spread.is_none() => return center,
            Spread::None => return center,
            Spread::Share(share) => format!("{:.0}%", share * 100.0),
            Spread::Unbounded => "∞".to_owned(),
            Spread::SignsDiffer => "?".to_owned(),
        };
        match rules {
            ClaimRules::Means => format!("{center} ±{spread:>3}"),
            ClaimRules::Medians => format!("{center} ± {spread}"),
        }
    }
}

/// The factor of a suffix.
fn factor(suffix: &str, rules: ClaimRules) -> Option<f64> {
    let times = [
        ("ns", 1.0),
        ("µs", 1e3),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
    ];
    let prefixes = [
        ("", 1.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("m", 1e-3),
        ("µ", 1e-6),
        ("n", 1e-9),
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
    ];
    let of = |table: &[(&str, f64)], text: &str| {
        let found = table.iter().find(|(name, _)| *name == text);
        found.map(|(_, factor)| *factor)
    };
    if rules == ClaimRules::Medians {
        return of(&prefixes, suffix);
    }
    of(&times, suffix).or_else(|| {
        let bare = suffix.strip_suffix("B/s").or(suffix.strip_suffix('B'));
        of(&prefixes, bare.unwrap_or(suffix))
    })
}
