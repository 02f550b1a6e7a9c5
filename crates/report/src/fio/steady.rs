//! fio's `steadystate` block.

use iodyno_model::{SteadyMetric, SteadyResult};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct SteadyObject {
    ss: String,
    duration: u64,
    attained: u8,
    criterion: String,
    max_deviation: f64,
    slope: f64,
    data: DataObject,
}

/// The values of the last window. Missing values are 0 and count in the means.
#[derive(Serialize)]
struct DataObject {
    bw_mean: u64,
    iops_mean: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_mean: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_ns: Option<Vec<u64>>,
    iops: Vec<u64>,
    bw: Vec<u64>,
}

impl SteadyObject {
    pub(super) fn of(result: &SteadyResult) -> SteadyObject {
        let rule = &result.rule;
        let percent = if rule.percent { "%" } else { "" };
        let slope = if rule.slope { "_slope" } else { "" };
        let values = |metric| {
            let mut values: Vec<u64> = result
                .window
                .iter()
                .map(|value| value.of(metric) as u64)
                .collect();
            values.resize(rule.values(), 0);
            values
        };
        let mean = |values: &[u64]| values.iter().sum::<u64>() / values.len().max(1) as u64;
        let (iops, bw) = (values(SteadyMetric::Iops), values(SteadyMetric::Bandwidth));
        let latency = rule.metric == SteadyMetric::Latency;
        let lat_ns = latency.then(|| values(SteadyMetric::Latency));
        SteadyObject {
            ss: format!("{}{slope}:{:.6}{percent}", rule.metric.name(), rule.limit),
            duration: rule.window.0 / 1_000_000_000,
            attained: result.attained().into(),
            criterion: format!("{:.6}{percent}", result.criterion.unwrap_or(0.0)),
            max_deviation: result.deviation,
            slope: result.slope,
            data: DataObject {
                bw_mean: mean(&bw),
                iops_mean: mean(&iops),
                lat_mean: lat_ns.as_deref().map(mean),
                lat_ns,
                iops,
                bw,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::{SteadyRule, SteadyValue};
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
        let found = serde_json::to_value(SteadyObject::of(&result)).unwrap();
        let expected = serde_json::json!({
            "ss": "lat:5.000000%", "duration": 6, "attained": 0, "criterion": "0.000000%",
            "max_deviation": 0.0, "slope": 0.0,
            "data": {
                "bw_mean": 122_880, "iops_mean": 30, "lat_mean": 400, "lat_ns": [600, 600, 0],
                "iops": [30, 60, 0], "bw": [122_880, 245_760, 0],
            }
        });
        assert_eq!(found, expected);
    }
}
