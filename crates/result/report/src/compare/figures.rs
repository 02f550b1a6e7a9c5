//! Numbers of a comparison for people. A number that is not finite is printed as `?`.

use iodyno_model::{BandwidthUnit, Estimated, Unit};
use iodyno_units::{Bytes, Nanos, Rate, significant};

use super::ComparisonFormat;

/// Printed for a number that is not finite.
const NONE: &str = "?";

/// A value with its unit: `138.4k/s`, `540.6 MiB/s`, `1.19 ms`, `12.3 fsyncs/s`.
pub(crate) fn value(value: f64, unit: &Unit) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    let text = match unit {
        Unit::OpsPerSecond => format!("{}/s", Rate(size)),
        Unit::BytesPerSecond => format!("{}/s", bytes(size)),
        Unit::Nanos => Nanos(size.round() as u64).to_string(),
        Unit::Other(unit) if unit.is_empty() => significant(size).to_string(),
        Unit::Other(unit) => format!("{} {unit}", significant(size)),
    };
    format!("{sign}{text}")
}

/// A value with its unit, with the digits and the unit of bandwidths that are shown.
pub(super) fn value_in(value: f64, unit: &Unit, shown: &ComparisonFormat) -> String {
    if let (Some(digits), true) = (shown.digits, value.is_finite()) {
        return with_digits(value, unit, shown.bandwidth, digits as usize);
    }
    let (size, name) = match (unit, shown.bandwidth) {
        (Unit::BytesPerSecond, BandwidthUnit::Decimal) => (1e6, "MB/s"),
        (Unit::BytesPerSecond, BandwidthUnit::Binary) => (f64::from(1 << 20), "MiB/s"),
        _ => return self::value(value, unit),
    };
    match value / size {
        number if !number.is_finite() => NONE.to_owned(),
        number if number.abs() >= 99.95 => format!("{number:.1} {name}"),
        number => format!("{} {name}", significant(number)),
    }
}

/// A value with this number of decimal places. Rates are not shortened, and bandwidths are in MiB/s unless another unit
/// is shown, so that the values of a column can be compared at sight.
fn with_digits(value: f64, unit: &Unit, bandwidth: BandwidthUnit, digits: usize) -> String {
    let times = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (size, name) = match (unit, bandwidth) {
        (Unit::OpsPerSecond, _) => return format!("{value:.digits$}/s"),
        (Unit::BytesPerSecond, BandwidthUnit::Decimal) => (1e6, "MB/s"),
        (Unit::BytesPerSecond, _) => (f64::from(1 << 20), "MiB/s"),
        (Unit::Nanos, _) => {
            let mut fitting = times.into_iter().filter(|(size, _)| value.abs() >= *size);
            fitting.next().unwrap_or((1.0, "ns"))
        }
        (Unit::Other(name), _) => (1.0, name.as_str()),
    };
    format!("{:.digits$} {name}", value / size)
        .trim_end()
        .to_owned()
}

/// Like in the table of a trial: MiB, with one decimal for three or four digits.
fn bytes(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    match mib {
        mib if (99.95..9999.95).contains(&mib) => format!("{mib:.1} MiB"),
        _ => Bytes(bytes.round() as u64).to_string(),
    }
}

/// The larger distance from the estimate to an end of its interval, relative to the estimate, as in benchstat. `None`
/// without an interval, or if a relative distance has no meaning.
pub(super) fn reach(estimated: &Estimated) -> Option<f64> {
    let (low, high) = estimated.interval?;
    let value = estimated.value;
    let reach = (high / value - 1.0).max(1.0 - low / value);
    (value > 0.0 && low >= 0.0 && reach.is_finite()).then_some(reach)
}

/// `671/s ±3%`; without the second part if there is no interval.
pub(super) fn median(median: &Estimated, unit: &Unit, shown: &ComparisonFormat) -> String {
    let value = value_in(median.value, unit, shown);
    match reach(median) {
        Some(reach) => format!("{value} ±{:.0}%", reach * 100.0),
        None => value,
    }
}

/// Decimals of a ratio: two; more below 0.1, to print three significant digits, and more near one if both ends of the
/// interval would be printed as the same number.
fn decimals(estimated: &Estimated) -> usize {
    let narrow = estimated
        .interval
        .is_some_and(|(low, high)| (high - low).abs() < 0.011);
    match estimated.value {
        value if !value.is_finite() || value <= 0.0 => 2,
        value if value < 0.0995 => (2 - value.log10().floor() as i32).clamp(2, 9) as usize,
        value if value < 9.995 => 2 + usize::from(narrow),
        value if value < 99.95 => 1,
        _ => 0,
    }
}

fn number(value: f64, decimals: usize) -> String {
    match value.is_finite() {
        true => format!("{value:.decimals$}"),
        false => NONE.to_owned(),
    }
}

/// `1.66× [1.58, 1.75]`, or `1.66×` without an interval.
pub(super) fn ratio(ratio: &Estimated) -> String {
    let decimals = decimals(ratio);
    let value = number(ratio.value, decimals);
    match ratio.interval {
        Some((low, high)) => {
            let [low, high] = [low, high].map(|end| number(end, decimals));
            format!("{value}× [{low}, {high}]")
        }
        None => format!("{value}×"),
    }
}

/// `1.66×`.
pub(super) fn times(ratio: &Estimated) -> String {
    format!("{}×", number(ratio.value, decimals(ratio)))
}

/// The interval as distances from one: `[−4 %, +9 %]`.
pub(super) fn change(ratio: &Estimated) -> Option<String> {
    let (low, high) = ratio.interval?;
    // Whole percents would print both ends of a narrow interval as the same number.
    let decimals = if (high - low).abs() < 0.03 { 1 } else { 0 };
    let [low, high] = [low, high].map(|end| signed_percent(end - 1.0, decimals));
    Some(format!("[{low}, {high}]"))
}

fn signed_percent(share: f64, decimals: usize) -> String {
    if !share.is_finite() {
        return format!("{NONE} %");
    }
    let text = format!("{:.decimals$}", share.abs() * 100.0);
    let zero = text.chars().all(|digit| matches!(digit, '0' | '.'));
    let sign = match share {
        _ if zero => "",
        share if share < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{text} %")
}

/// p for a column: `0.014`, `<0.001`.
pub(super) fn p(p: f64) -> String {
    match p {
        p if !p.is_finite() => NONE.to_owned(),
        p if p < 0.0005 => "<0.001".to_owned(),
        p => format!("{p:.3}"),
    }
}

/// p in a sentence: `p=0.014`, `p<0.001`.
pub(super) fn p_is(value: f64) -> String {
    let text = p(value);
    match text.starts_with('<') {
        true => format!("p{text}"),
        false => format!("p={text}"),
    }
}

/// The smallest possible p, with two digits: `0.10`, `0.029`, `0.0079`.
pub(super) fn possible_p(p: f64) -> String {
    match p {
        p if !p.is_finite() => NONE.to_owned(),
        p if p <= 0.0 => "0".to_owned(),
        p => {
            let decimals = (1 - p.log10().floor() as i32).clamp(2, 9) as usize;
            format!("{p:.decimals$}")
        }
    }
}

/// The level of significance: `0.05`, `0.0071`.
pub(super) fn limit(p: f64) -> String {
    let text = possible_p(p);
    match text.strip_suffix('0') {
        Some(shorter) if text.contains('.') && !shorter.ends_with('.') => shorter.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimated(value: f64, interval: Option<(f64, f64)>) -> Estimated {
        Estimated {
            value,
            interval,
            level: 0.95,
        }
    }

    #[test]
    fn values_carry_their_units() {
        for (number, unit, text) in [
            (671.2, Unit::OpsPerSecond, "671/s"),
            (138_412.0, Unit::OpsPerSecond, "138.4k/s"),
            (540.6 * 1048576.0, Unit::BytesPerSecond, "540.6 MiB/s"),
            (1536.0, Unit::BytesPerSecond, "1.50 KiB/s"),
            (20.0 * 1073741824.0, Unit::BytesPerSecond, "20 GiB/s"),
            (1.19e6, Unit::Nanos, "1.19 ms"),
            (58.1e9, Unit::Nanos, "58.1 s"),
            (12.34, Unit::Other("fsyncs/s".to_owned()), "12.3 fsyncs/s"),
            (12.34, Unit::Other(String::new()), "12.3"),
            (-5.0, Unit::OpsPerSecond, "−5.00/s"),
            (f64::NAN, Unit::Nanos, "?"),
            (f64::INFINITY, Unit::OpsPerSecond, "?"),
        ] {
            assert_eq!(value(number, &unit), text);
        }
    }

    #[test]
    fn bandwidths_are_in_the_unit_that_was_asked_for() {
        use super::BandwidthUnit::{Binary, Decimal, Scaled};
        for (number, unit, text) in [
            (226e6, Decimal, "226.0 MB/s"),
            (12.34e9, Decimal, "12340.0 MB/s"),
            (2.5e6, Decimal, "2.50 MB/s"),
            (226e6, Binary, "215.5 MiB/s"),
            (226e6, Scaled, "215.5 MiB/s"),
            (20.0 * 1073741824.0, Scaled, "20 GiB/s"),
            (20.0 * 1073741824.0, Binary, "20480.0 MiB/s"),
            (f64::NAN, Decimal, "?"),
        ] {
            assert_eq!(
                value_in(number, &Unit::BytesPerSecond, &in_unit(unit)),
                text
            );
        }
        let text = value_in(671.2, &Unit::OpsPerSecond, &in_unit(Decimal));
        assert_eq!(text, "671/s");
    }

    fn in_unit(bandwidth: super::BandwidthUnit) -> ComparisonFormat {
        ComparisonFormat {
            bandwidth,
            ..ComparisonFormat::default()
        }
    }

    #[test]
    fn values_have_the_decimal_places_that_were_asked_for() {
        let other = Unit::Other("fsyncs/s".to_owned());
        for (value, unit, digits, text) in [
            (138_412.34, Unit::OpsPerSecond, 1, "138412.3/s"),
            (138_412.34, Unit::OpsPerSecond, 0, "138412/s"),
            (540.64 * 1048576.0, Unit::BytesPerSecond, 1, "540.6 MiB/s"),
            (1.19e6, Unit::Nanos, 3, "1.190 ms"),
            (12.0, Unit::Nanos, 0, "12 ns"),
            (12.34, other, 1, "12.3 fsyncs/s"),
            (f64::NAN, Unit::Nanos, 1, "?"),
        ] {
            let shown = ComparisonFormat {
                digits: Some(digits),
                ..ComparisonFormat::default()
            };
            assert_eq!(value_in(value, &unit, &shown), text);
        }
    }

    #[test]
    fn the_larger_distance_is_the_reach() {
        for (value, interval, text) in [
            (100.0, Some((97.0, 101.0)), "100/s ±3%"),
            (100.0, Some((99.0, 104.0)), "100/s ±4%"),
            (100.0, Some((100.0, 100.0)), "100/s ±0%"),
            (100.0, None, "100/s"),
            (0.0, Some((0.0, 0.0)), "0/s"),
            (100.0, Some((f64::NEG_INFINITY, f64::INFINITY)), "100/s"),
        ] {
            assert_eq!(
                median(
                    &estimated(value, interval),
                    &Unit::OpsPerSecond,
                    &ComparisonFormat::default()
                ),
                text
            );
        }
    }

    #[test]
    fn ratios_have_significant_digits() {
        for (value, interval, text) in [
            (1.664, Some((1.578, 1.752)), "1.66× [1.58, 1.75]"),
            (0.169, Some((0.161, 0.178)), "0.17× [0.16, 0.18]"),
            (1.004, Some((0.999, 1.009)), "1.004× [0.999, 1.009]"),
            (0.0412, Some((0.039, 0.05)), "0.0412× [0.0390, 0.0500]"),
            (12.34, Some((9.0, 20.0)), "12.3× [9.0, 20.0]"),
            (1234.5, None, "1234×"),
            (f64::NAN, Some((0.5, f64::INFINITY)), "?× [0.50, ?]"),
        ] {
            assert_eq!(ratio(&estimated(value, interval)), text);
        }
    }

    #[test]
    fn shares_and_p_are_short() {
        let is = estimated(1.02, Some((0.96, 1.09)));
        assert_eq!(change(&is).as_deref(), Some("[−4 %, +9 %]"));
        let is = estimated(1.0, Some((0.9996, 1.012)));
        assert_eq!(change(&is).as_deref(), Some("[0.0 %, +1.2 %]"));
        assert_eq!(
            [p_is(0.0143), p_is(0.0001), p_is(1.0)],
            ["p=0.014", "p<0.001", "p=1.000"]
        );
        for (p, text) in [
            (0.1, "0.10"),
            (0.02857, "0.029"),
            (0.0079, "0.0079"),
            (0.25, "0.25"),
            (1.0, "1.00"),
        ] {
            assert_eq!(possible_p(p), text);
        }
        assert_eq!(
            [limit(0.05), limit(0.05 / 7.0), limit(0.1)],
            ["0.05", "0.0071", "0.1"]
        );
    }
}
