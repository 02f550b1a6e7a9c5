//! fio's `steadystate` block.

use super::numbers::Notation;
use crate::json::object;
use iodyno_model::{SteadyMetric, SteadyResult};

object!(SteadyObject<'a>(result in &'a SteadyResult) {
    ss: format!(
        "{}{}:{:.6}{}",
        result.rule.metric.name(),
        if result.rule.slope { "_slope" } else { "" },
        result.rule.limit,
        unit(result)
    ),
    duration: result.rule.window.0 / 1_000_000_000,
    attained: u8::from(result.attained()),
    criterion: format!("{:.6}{}", result.criterion.unwrap_or(0.0), unit(result)),
    max_deviation: result.deviation,
    slope: result.slope,
    data: DataObject(result),
});

// The values of the last window. Missing values are 0 and count in the means.
object!(DataObject<'a>(result in &'a SteadyResult) {
    bw_mean: mean(&values(result, SteadyMetric::Bandwidth)),
    iops_mean: mean(&values(result, SteadyMetric::Iops)),
    lat_mean [opt]: latencies(result).map(|values| mean(&values)),
    lat_ns [opt]: latencies(result),
    iops: values(result, SteadyMetric::Iops),
    bw: values(result, SteadyMetric::Bandwidth),
});

fn unit(result: &SteadyResult) -> &'static str {
    if result.rule.percent { "%" } else { "" }
}

fn latencies(result: &SteadyResult) -> Option<Vec<u64>> {
    (result.rule.metric == SteadyMetric::Latency).then(|| values(result, SteadyMetric::Latency))
}

/// More values of a window are not printed: a day of them.
const MAX_VALUES: usize = 86_400;

/// The values of the last window; missing values are 0.
fn values(result: &SteadyResult, metric: SteadyMetric) -> Vec<u64> {
    let mut values: Vec<u64> = result
        .window
        .iter()
        .map(|value| value.of(metric) as u64)
        .collect();
    // Rules of imported results can have any number of values.
    values.resize(result.rule.values().min(MAX_VALUES), 0);
    values
}

fn mean(values: &[u64]) -> u64 {
    values.iter().sum::<u64>() / values.len().max(1) as u64
}

/// The line of the normal output.
pub(super) fn line(result: &SteadyResult, notation: Notation) -> String {
    let rule = &result.rule;
    let mean = |metric| mean(&values(result, metric)) as f64;
    let (first, second) = notation.rate(mean(SteadyMetric::Bandwidth));
    let latency = match rule.metric {
        SteadyMetric::Latency => {
            let (divisor, unit) = match mean(SteadyMetric::Latency) {
                ns if ns > 2e6 => (1e6, "msec"),
                ns if ns > 2e3 => (1e3, "usec"),
                _ => (1.0, "nsec"),
            };
            let number = notation.number(mean(SteadyMetric::Latency) / divisor);
            format!(", lat={number}{unit}")
        }
        SteadyMetric::Iops | SteadyMetric::Bandwidth => String::new(),
    };
    format!(
        "  steadystate  : attained={}, bw={first} ({second}), iops={}{latency}, {} {}={:.3}{}\n",
        if result.attained() { "yes" } else { "no" },
        notation.number(mean(SteadyMetric::Iops)),
        rule.metric.name(),
        if rule.slope { "slope" } else { "mean dev" },
        result.criterion.unwrap_or(0.0),
        unit(result),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::{Reporting, SteadyRule, SteadyValue};
    use iodyno_units::Nanos;

    #[test]
    fn a_window_that_is_not_full_has_zeroes_as_in_fio() {
        let mut result = SteadyResult::new(SteadyRule {
            metric: SteadyMetric::Latency,
            slope: false,
            limit: 5.0,
            percent: true,
            window: Nanos::from_secs(6),
            ramp: Nanos(0),
            interval: Nanos::from_secs(2),
        });
        let value = |iops| SteadyValue {
            iops,
            bytes_per_s: iops * 4096.0,
            latency_ns: 600.0,
        };
        result.add(value(30.0));
        result.add(value(60.0));
        let found = serde_json::to_value(SteadyObject(&result)).unwrap();
        let expected = serde_json::json!({
            "ss": "lat:5.000000%", "duration": 6, "attained": 0, "criterion": "0.000000%",
            "max_deviation": 0.0, "slope": 0.0,
            "data": {
                "bw_mean": 122_880, "iops_mean": 30, "lat_mean": 400, "lat_ns": [600, 600, 0],
                "iops": [30, 60, 0], "bw": [122_880, 245_760, 0],
            }
        });
        assert_eq!(found, expected);
        let line = line(&result, Notation::of(&Reporting::default()));
        assert_eq!(
            line,
            "  steadystate  : attained=no, bw=120KiB/s (123kB/s), iops=30, lat=400nsec, lat mean dev=0.000%\n"
        );
    }

    #[test]
    fn the_line_names_the_figure_and_the_variation() {
        let mut result = SteadyResult::new(SteadyRule {
            metric: SteadyMetric::Bandwidth,
            slope: true,
            limit: 100.0,
            percent: false,
            window: Nanos::from_secs(2),
            ramp: Nanos(0),
            interval: Nanos::from_secs(1),
        });
        for _ in 0..2 {
            result.add(SteadyValue {
                iops: 25_600.0,
                bytes_per_s: 104_857_600.0,
                latency_ns: 600.0,
            });
        }
        result.attained_ns = Some(2_000_000_000);
        assert_eq!(
            line(&result, Notation::of(&Reporting::default())),
            "  steadystate  : attained=yes, bw=100MiB/s (105MB/s), iops=25.6k, bw slope=0.000\n"
        );
    }
}
