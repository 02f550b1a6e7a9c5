//! Converts the units of benchmark lines to metrics.

use iodyno_model::{Better, Metric, Unit};

/// A rate whose name does not end in its quantity.
const WHOLE_RATE: &str = "ops_from_mean";

/// The metric of a unit, and the factor that converts its values.
///
/// `ns/op` is the mean time of an op; `B/s`, `MB/s` (10⁶, as everywhere in this format) and `ops/sec` are rates. A
/// prefix names the kind of op or the statistic: `read-ops/sec`, `p99-ns`, `read-p99-ns`. Any other unit becomes a
/// metric of its own; lower is better unless a `Unit` line says otherwise (benchstat itself assumes no direction).
pub(super) fn metric(unit: &str) -> (Metric, f64) {
    for (ending, scale) in [
        ("ns/op", 1.0),
        ("us/op", 1e3),
        ("ms/op", 1e6),
        ("sec/op", 1e9),
    ] {
        if let Some(of) = prefix(unit, ending) {
            return (Metric::time(named(of, "op.mean", "mean")), scale);
        }
    }
    for (ending, scale) in [
        ("MiB/s", 1_048_576.0),
        ("MB/s", 1e6),
        ("kB/s", 1e3),
        ("GB/s", 1e9),
        ("B/s", 1.0),
    ] {
        if let Some(of) = prefix(unit, ending) {
            let name = named(of, Metric::BANDWIDTH, Metric::BANDWIDTH);
            return (Metric::bandwidth(name), scale);
        }
    }
    for ending in ["ops/sec", "ops/s", "iops", "IOPS"] {
        if let Some(of) = prefix(unit, ending) {
            if of == WHOLE_RATE {
                return (Metric::iops(of), 1.0);
            }
            return (Metric::iops(named(of, Metric::IOPS, Metric::IOPS)), 1.0);
        }
    }
    for (ending, scale) in [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("sec", 1e9)] {
        match prefix(unit, ending) {
            Some("") => return (Metric::time("time"), scale),
            Some(of) => return (Metric::time(of.replace('-', ".")), scale),
            None => {}
        }
    }
    let metric = Metric {
        name: unit.to_owned(),
        unit: Unit::Other(unit.to_owned()),
        better: Better::Lower,
    };
    (metric, 1.0)
}

/// The metrics that a unit in the head of a table since 2022 can stand for, each with the factor that converts its
/// values to the metric's unit.
///
/// Such a table prints `ns` as `sec` and `MB` as `B`. A benchmark with several units of one quantity has a metric named
/// by the unit for all but the first of them.
pub(super) fn of_table(unit: &str) -> Vec<(String, f64)> {
    let mut metrics = both_names(unit, 1.0);
    for (tidy, raw, factor) in [("sec", "ns", 1e9), ("B", "MB", 1e-6)] {
        let (numerator, denominator) = unit.split_at(unit.find('/').unwrap_or(unit.len()));
        let parts: Vec<&str> = numerator.split('-').collect();
        if let Some(place) = parts.iter().position(|part| *part == tidy) {
            let mut parts = parts;
            parts[place] = raw;
            metrics.extend(both_names(&(parts.join("-") + denominator), factor));
        }
    }
    let mut named = std::collections::BTreeSet::new();
    metrics.retain(|(name, _)| named.insert(name.clone()));
    metrics
}

/// The metrics that the values of a unit can have, each with its factor.
fn both_names(unit: &str, factor: f64) -> Vec<(String, f64)> {
    let (metric, scale) = metric(unit);
    let mut names = vec![metric.name, unit.to_owned()];
    names.dedup();
    names
        .into_iter()
        .map(|name| (name, scale * factor))
        .collect()
}

/// The same for a table before 2022, which prints times in ns and rates in bytes per second.
pub(super) fn of_old_table(unit: &str) -> Vec<(String, f64)> {
    for (printed, read) in [
        ("time/op", "ns/op"),
        ("time/GC", "ns/GC"),
        ("alloc/op", "B/op"),
    ] {
        if let Some(of) = unit.strip_suffix(printed) {
            return both_names(&format!("{of}{read}"), 1.0);
        }
    }
    if let Some(of) = unit.strip_suffix("speed") {
        return both_names(&format!("{of}MB/s"), 1e-6);
    }
    both_names(unit, 1.0)
}

/// The text before an ending: empty, or words and a hyphen.
fn prefix<'u>(unit: &'u str, ending: &str) -> Option<&'u str> {
    let before = unit.strip_suffix(ending)?;
    match before.strip_suffix('-') {
        Some(of) => Some(of),
        None => before.is_empty().then_some(""),
    }
}

fn named(of: &str, alone: &str, last: &str) -> String {
    if of.is_empty() {
        alone.to_owned()
    } else {
        format!("{}.{last}", of.replace('-', "."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_units_of_time_and_rates_with_and_without_a_word_before() {
        for (unit, name, scale, expected) in [
            ("ns/op", "op.mean", 1.0, Unit::Nanos),
            ("sec/op", "op.mean", 1e9, Unit::Nanos),
            ("MB/s", "bandwidth", 1e6, Unit::BytesPerSecond),
            ("B/s", "bandwidth", 1.0, Unit::BytesPerSecond),
            ("read-B/s", "read.bandwidth", 1.0, Unit::BytesPerSecond),
            ("ops/sec", "iops", 1.0, Unit::OpsPerSecond),
            ("read-ops/sec", "read.iops", 1.0, Unit::OpsPerSecond),
            (
                "ops_from_mean-ops/sec",
                "ops_from_mean",
                1.0,
                Unit::OpsPerSecond,
            ),
            ("p99-ns", "p99", 1.0, Unit::Nanos),
            ("read-p99-9-ns", "read.p99.9", 1.0, Unit::Nanos),
            ("op-mean-ns", "op.mean", 1.0, Unit::Nanos),
            ("read-p99.9-ns", "read.p99.9", 1.0, Unit::Nanos),
            ("completion-sec", "completion", 1e9, Unit::Nanos),
            ("ns", "time", 1.0, Unit::Nanos),
            ("B/op", "B/op", 1.0, Unit::Other("B/op".to_owned())),
            (
                "allocs/op",
                "allocs/op",
                1.0,
                Unit::Other("allocs/op".to_owned()),
            ),
            (
                "patterns",
                "patterns",
                1.0,
                Unit::Other("patterns".to_owned()),
            ),
        ] {
            let (metric, by) = metric(unit);
            assert_eq!((metric.name.as_str(), by), (name, scale), "{unit}");
            assert_eq!(metric.unit, expected, "{unit}");
        }
    }
}
