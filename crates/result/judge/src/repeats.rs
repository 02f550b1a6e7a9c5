//! Precision of the figures of repeated trials of one configuration.

use iodyno_model::{Estimated, Metric, Observation, Repeated};
use iodyno_stats::Sample;

/// The level of the intervals.
const LEVEL: f64 = 0.95;

/// The metrics of repeated trials, each with its median and order-statistic interval. Trials that do not count
/// and values that are not numbers are left out. The primary metric of the trials comes first.
pub fn repeats(observations: &[Observation]) -> Vec<Repeated> {
    let counting = || observations.iter().filter(|o| o.unusable.is_none());
    let mut metrics: Vec<&Metric> = counting()
        .filter_map(|o| o.primary.as_ref())
        .take(1)
        .collect();
    for figure in counting().flat_map(|observation| &observation.figures) {
        if !metrics.iter().any(|known| known.name == figure.metric.name) {
            metrics.push(&figure.metric);
        }
    }
    metrics
        .into_iter()
        .filter_map(|metric| {
            let values: Vec<f64> = counting()
                .filter_map(|observation| observation.figure(&metric.name))
                .map(|figure| figure.value)
                .filter(|value| value.is_finite())
                .collect();
            let sample = Sample::new(&values).ok()?;
            Some(Repeated {
                metric: metric.clone(),
                extremes: (sample.min(), sample.max()),
                median: median(&sample, LEVEL)?,
                values,
            })
        })
        .collect()
}

/// The largest deviation from 1 of the ratio of two runs of the baseline, as a fraction: at the farther end of
/// its interval or, without an interval, at the ratio itself. Smaller differences are noise.
pub fn noise_floor(ratio: &Estimated) -> f64 {
    let (low, high) = ratio.interval.unwrap_or((ratio.value, ratio.value));
    low.ln().abs().max(high.ln().abs()).exp_m1()
}

/// The median with its interval.
pub(crate) fn median(sample: &Sample, level: f64) -> Option<Estimated> {
    let found = sample.median_interval(level).ok()?;
    Some(Estimated {
        value: found.median,
        interval: found.interval.map(|interval| (interval.low, interval.high)),
        level,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::observations::observation;
    use iodyno_model::Figure;

    fn trial(iops: f64, p99: Option<f64>) -> Observation {
        let figure = |metric: Metric, value| Figure {
            metric,
            value,
            derived: None,
        };
        let mut figures = vec![figure(Metric::iops("iops"), iops)];
        figures.extend(p99.map(|p99| figure(Metric::time("read.p99"), p99)));
        Observation {
            figures,
            primary: Some(Metric::iops("iops")),
            ..observation("a", "w", 1.0)
        }
    }

    #[test]
    fn six_trials_give_an_interval_and_five_none() {
        let trials: Vec<Observation> = [5.0, 1.0, 4.0, 2.0, 3.0, 6.0]
            .map(|iops| trial(iops, (iops > 1.5).then_some(iops * 10.0)))
            .into();
        let found = repeats(&trials);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].metric.name, "iops");
        assert_eq!(found[0].median.value, 3.5);
        assert_eq!(found[0].median.interval, Some((1.0, 6.0)));
        assert_eq!(found[0].extremes, (1.0, 6.0));
        assert_eq!(found[1].values.len(), 5);
        assert_eq!(found[1].median.interval, None);
    }

    #[test]
    fn the_noise_floor_is_the_farther_end() {
        let ratio = |value, interval| Estimated {
            value,
            interval,
            level: 0.95,
        };
        for (interval, floor) in [
            (Some((0.98, 1.01)), 1.0 / 0.98 - 1.0),
            (Some((0.98, 1.05)), 0.05),
            (None, 0.02),
        ] {
            let found = noise_floor(&ratio(1.02, interval));
            assert!((found - floor).abs() < 1e-12, "{found} {floor}");
        }
    }

    #[test]
    fn trials_that_do_not_count_are_ignored() {
        let mut failed = trial(9.0, None);
        failed.unusable = Some("failed".to_owned());
        assert!(repeats(&[failed]).is_empty());
        assert!(repeats(&[]).is_empty());
        assert!(repeats(&[trial(f64::NAN, None)]).is_empty());
    }
}
