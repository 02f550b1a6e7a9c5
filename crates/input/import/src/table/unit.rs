//! Values and units in tables.

use iodyno_model::Metric;

use crate::measure::{Measure, measure};
use crate::number::{self, grouped};

/// Parses a text that consists of a unit. `MB` is 10⁶ bytes, `MiB` 2²⁰; see [`bits_or_bytes`].
pub(super) fn unit(text: &str) -> Option<Measure> {
    known(text).filter(|_| !bits_or_bytes(text))
}

/// Whether a text is a rate that can be of bits or of bytes: `Gb/s`, `Mbps`. The two differ only in the case of one
/// letter, which is often wrong.
pub(super) fn bits_or_bytes(text: &str) -> bool {
    let text = plain(text);
    let small_letter = text.contains("b/s") || text.ends_with("bps");
    known(text).is_some()
        && small_letter
        && text.starts_with(['M', 'G', 'T'])
        && !text.to_lowercase().contains("ib/s")
}

/// The measure of a unit in any case.
fn known(text: &str) -> Option<Measure> {
    measure(&plain(text).to_lowercase())
}

/// The unit at the end of a heading or in its parentheses: `Bandwidth (MiB/s)`, `lat [us]`, `read MB/s`, `p99_us`.
pub(super) fn unit_in(text: &str) -> Option<Measure> {
    pieces(text).find_map(unit)
}

/// A rate in a heading that can be of bits or of bytes, see [`bits_or_bytes`].
pub(super) fn bits_or_bytes_in(text: &str) -> Option<&str> {
    pieces(text).find(|piece| bits_or_bytes(piece))
}

/// A heading as a whole, and its parts from the last one on.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let text = plain(text);
    let parts = text.split(['(', ')', '[', ']', ' ', '_', ',']);
    std::iter::once(text).chain(parts.filter(|part| !part.is_empty()).rev())
}

/// Parses a number; returns the text after it as well.
pub(super) fn value(cell: &str) -> Option<(f64, Option<Measure>)> {
    let text = plain(cell);
    // The spread is not part of the value.
    let text = text.split('±').next()?.trim();
    let (digits, mut rest) = number::split(text);
    let number = grouped(digits)?;
    let mut scale = 1.0;
    for (letter, factor) in [("k", 1e3), ("K", 1e3), ("M", 1e6)] {
        let after = rest.strip_prefix(letter);
        if let Some(after) = after
            && unit(rest).is_none()
            && (after.is_empty() || after.starts_with([' ', '/']))
        {
            (rest, scale) = (after.trim(), factor);
            break;
        }
    }
    if rest.is_empty() {
        return Some((number * scale, None));
    }
    unit(rest).map(|measure| (number * scale, Some(measure)))
}

/// Removes marks of emphasis.
fn plain(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | '_'))
}

/// The words of a text in lower case; numbers keep their decimal points.
fn words(lower: &str) -> Vec<&str> {
    lower
        .split(|c: char| !c.is_alphanumeric() && c != '.')
        .filter(|word| !word.is_empty())
        .collect()
}

/// The metric of a value, from its unit, from its headings, and for a time from its row.
pub(super) fn metric(measure: Measure, heads: &str, row: &str) -> (Metric, f64) {
    let lower = heads.to_lowercase();
    let heads = words(&lower);
    let one_of = |names: &[&str]| heads.iter().any(|word| names.contains(word));
    let (reads, writes) = (
        one_of(&["read", "reads"]),
        one_of(&["write", "writes", "written"]),
    );
    let direction = match (reads, writes) {
        (true, false) => "read.",
        (false, true) => "write.",
        _ => "",
    };
    match measure {
        Measure::Bandwidth(factor) => (Metric::bandwidth(format!("{direction}bandwidth")), factor),
        Measure::Rate(factor) => (Metric::iops(format!("{direction}iops")), factor),
        Measure::Time(factor) => {
            let row = row.to_lowercase();
            let name = match time(&[heads, words(&row)].concat()) {
                Timed::Once(name) => name.to_owned(),
                Timed::EachOp(name) if direction.is_empty() => format!("op.{name}"),
                Timed::EachOp(name) => format!("{direction}{name}"),
            };
            (Metric::time(name), factor)
        }
    }
}

/// What a time measures.
enum Timed {
    /// The whole work, or unknown.
    Once(&'static str),
    /// Its ops, with the kind of latency.
    EachOp(String),
}

/// What a time measures, from the words around it.
fn time(words: &[&str]) -> Timed {
    let one_of = |names: &[&str]| words.iter().any(|word| names.contains(word));
    let percentile = words.iter().find_map(|word| {
        let digits = word.strip_prefix('p').or_else(|| word.strip_suffix("th"))?;
        let percent = digits.parse::<f64>().ok()?;
        (0.0..=100.0)
            .contains(&percent)
            .then(|| format!("p{percent}"))
    });
    let latency = [
        "lat",
        "latency",
        "latencies",
        "clat",
        "slat",
        "avg",
        "average",
        "mean",
        "response",
    ];
    let completion = [
        "time",
        "times",
        "elapsed",
        "completion",
        "completed",
        "duration",
        "runtime",
        "total",
    ];
    match percentile {
        Some(percentile) => Timed::EachOp(percentile),
        None if one_of(&["median"]) => Timed::EachOp("p50".to_owned()),
        None if one_of(&["max", "pmax", "maximum"]) => Timed::EachOp("max".to_owned()),
        None if one_of(&["min", "minimum"]) => Timed::EachOp("min".to_owned()),
        None if one_of(&["stdev", "stddev"]) => Timed::EachOp("stddev".to_owned()),
        None if one_of(&latency) => Timed::EachOp("mean".to_owned()),
        None if one_of(&completion) => Timed::Once(Metric::COMPLETION),
        None => Timed::Once("time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_values_with_and_without_units() {
        use Measure::{Bandwidth, Rate, Time};
        for (text, expected) in [
            ("226", Some((226.0, None))),
            ("4891 KiB/s", Some((4891.0, Some(Bandwidth(1024.0))))),
            ("24.7 MiB/s", Some((24.7, Some(Bandwidth(1_048_576.0))))),
            ("24.7MB/s", Some((24.7, Some(Bandwidth(1e6))))),
            ("12.3k", Some((12_300.0, None))),
            ("12.3k IOPS", Some((12.3, Some(Rate(1e3))))),
            ("12.3 kIOPS", Some((12.3, Some(Rate(1e3))))),
            ("671/s", Some((671.0, Some(Rate(1.0))))),
            ("1.5k/s", Some((1500.0, Some(Rate(1.0))))),
            ("**250 µs**", Some((250.0, Some(Time(1e3))))),
            ("672 ± 5%", Some((672.0, None))),
            ("1,234", Some((1234.0, None))),
            ("1,234,567.5 ops/s", Some((1_234_567.5, Some(Rate(1.0))))),
            ("1,5", None),
            ("12,34,567", None),
            ("5 Gb/s", None),
            ("5%", None),
            ("2 Striped", None),
            ("-", None),
            ("", None),
            (".", None),
            ("1.2.3", None),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn names_metrics_by_unit_and_heading() {
        for (heads, row, name, factor) in [
            ("MB/s", "", "bandwidth", 1e6),
            ("Sequential 1MB MB/s", "", "bandwidth", 1e6),
            ("read (MiB/s)", "", "read.bandwidth", 1_048_576.0),
            ("write IOPS", "", "write.iops", 1.0),
            ("p99_us", "", "op.p99", 1e3),
            ("read p99.9 (ms)", "", "read.p99.9", 1e6),
            ("avg latency [us]", "", "op.mean", 1e3),
            ("time (s)", "", "completion", 1e9),
            ("runtime [s]", "", "completion", 1e9),
            ("elapsed s", "", "completion", 1e9),
            ("latency (ms)", "", "op.mean", 1e6),
            ("latency p99 (µs)", "", "op.p99", 1e3),
            ("99.9th (ms)", "", "op.p99.9", 1e6),
            ("response time (ms)", "", "op.mean", 1e6),
            ("median us", "", "op.p50", 1e3),
            ("read max (us)", "", "read.max", 1e3),
            ("ext4 (us)", "latency p99", "op.p99", 1e3),
            ("ext4 (us)", "rand read latency", "op.mean", 1e3),
            ("ext4 (s)", "untar", "time", 1e9),
            ("ext4 (MB/s)", "rand read", "bandwidth", 1e6),
        ] {
            let measure = unit_in(heads).unwrap();
            let (metric, scale) = metric(measure, heads, row);
            assert_eq!(
                (metric.name.as_str(), scale),
                (name, factor),
                "{heads} {row}"
            );
        }
    }
}
