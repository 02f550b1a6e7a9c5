//! Samples put together: counts sum up, gauges have a mean.

use std::collections::BTreeMap;

use super::{Reading, Sample, SeriesShape, Telemetry};

impl Telemetry {
    /// The series with one sample for each stretch of `every_ns` on the trial's clock; one that is longer already stays as it is.
    /// Samples of different shapes are never put together. A value that is unknown in one of the samples is unknown.
    pub fn thinned(&self, every_ns: u64) -> Telemetry {
        let every = i64::try_from(every_ns.max(1)).unwrap_or(i64::MAX);
        let mut sums: BTreeMap<(i64, u32), Sum> = BTreeMap::new();
        for sample in &self.samples {
            let Some(shape) = self.shape(sample.shape) else {
                continue;
            };
            // A sample at 30 s tells of the time before it, and is taken a moment later than that.
            let half = i64::try_from(sample.span_ns / 2).unwrap_or(i64::MAX);
            let stretch = sample.at_ns.saturating_sub(half.max(1)).div_euclid(every);
            sums.entry((stretch, sample.shape))
                .or_default()
                .add(sample, shape);
        }
        let mut samples: Vec<Sample> = sums.into_values().filter_map(Sum::sample).collect();
        samples.sort_by_key(|sample| (sample.at_ns, sample.shape));
        Telemetry {
            shapes: self.shapes.clone(),
            samples,
            gaps: self.gaps.clone(),
        }
    }
}

/// Samples of one shape, put together.
#[derive(Default)]
struct Sum {
    sample: Option<Sample>,
    /// Gauges weighted by the time that they stood for, ns; where a series has no spans (its first), evenly.
    gauges: Vec<u128>,
    weight: u128,
    readings: Vec<Reading>,
}

impl Sum {
    fn add(&mut self, sample: &Sample, shape: &SeriesShape) {
        let weight = u128::from(sample.span_ns.max(1));
        self.weight += weight;
        let weighted = |value: &Option<u64>| u128::from(value.unwrap_or(0)) * weight;
        match &mut self.sample {
            None => {
                self.readings = shape.columns.iter().map(|column| column.reading).collect();
                self.gauges = sample.values.iter().map(weighted).collect();
                self.sample = Some(sample.clone());
            }
            Some(sum) => {
                sum.at_ns = sample.at_ns;
                sum.span_ns += sample.span_ns;
                for (into, value) in sum.values.iter_mut().zip(&sample.values) {
                    *into = into.zip(*value).map(|(a, b)| a.saturating_add(b));
                }
                for (into, value) in self.gauges.iter_mut().zip(&sample.values) {
                    *into += weighted(value);
                }
            }
        }
    }

    fn sample(self) -> Option<Sample> {
        let mut sample = self.sample?;
        let columns = self.readings.len().max(1);
        for (place, value) in sample.values.iter_mut().enumerate() {
            let reading = self.readings.get(place % columns);
            if let (Some(value), Some(Reading::Gauge)) = (value.as_mut(), reading) {
                let mean = (self.gauges[place] + self.weight / 2) / self.weight;
                *value = u64::try_from(mean).unwrap_or(u64::MAX);
            }
        }
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PRESSURE, SeriesColumn, SeriesKind, SeriesRow, SeriesUnit};
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    fn telemetry(samples: Vec<Sample>) -> Telemetry {
        let shape = |number, columns| SeriesShape {
            kind: SeriesKind::Pressure,
            number,
            subjects: vec![SeriesRow::new("io")],
            columns,
            because: None,
        };
        let gauge = SeriesColumn {
            name: "g".into(),
            unit: SeriesUnit::Bytes,
            reading: Reading::Gauge,
        };
        let mut mixed = SeriesColumn::of(PRESSURE);
        mixed.push(gauge);
        Telemetry {
            shapes: vec![shape(0, mixed.clone()), shape(1, mixed)],
            samples,
            gaps: Vec::new(),
        }
    }

    fn sample(shape: u32, at_s: i64, span_s: u64, values: [Option<u64>; 3]) -> Sample {
        Sample {
            shape,
            at_ns: at_s * SECOND,
            span_ns: span_s * SECOND as u64,
            values: values.to_vec(),
        }
    }

    #[test]
    fn counts_sum_up_and_gauges_have_a_mean_weighted_by_time() {
        let all = telemetry(vec![
            sample(0, 1, 1, [Some(1), None, Some(10)]),
            sample(0, 4, 3, [Some(2), Some(5), Some(50)]),
            sample(0, 5, 1, [Some(4), Some(6), Some(7)]),
        ]);
        let thin = all.thinned(4 * SECOND as u64);
        assert_eq!(
            thin.samples,
            [
                sample(0, 4, 4, [Some(3), None, Some(40)]),
                sample(0, 5, 1, [Some(4), Some(6), Some(7)]),
            ]
        );
    }

    #[test]
    fn a_sample_taken_a_moment_late_belongs_to_its_stretch() {
        let mut all = telemetry(vec![
            sample(0, 1, 1, [Some(1); 3]),
            sample(0, 2, 1, [Some(1); 3]),
            sample(0, 3, 1, [Some(1); 3]),
        ]);
        for late in &mut all.samples {
            late.at_ns += 700_000;
        }
        let ends: Vec<i64> = all
            .thinned(2 * SECOND as u64)
            .samples
            .iter()
            .map(|sample| sample.at_ns)
            .collect();
        assert_eq!(ends, [2_000_700_000, 3_000_700_000]);
    }

    #[test]
    fn samples_of_two_shapes_stay_apart() {
        let all = telemetry(vec![
            sample(0, 1, 1, [Some(1), Some(1), Some(1)]),
            sample(1, 2, 1, [Some(1), Some(1), Some(1)]),
        ]);
        assert_eq!(all.thinned(60 * SECOND as u64).samples, all.samples);
    }

    proptest! {
        #[test]
        fn nothing_counted_is_lost(
            counts in prop::collection::vec(0u64..1 << 40, 1..50), every in 1u64..20
        ) {
            let samples = counts.iter().enumerate().map(|(at, count)| {
                sample(0, at as i64 + 1, 1, [Some(*count); 3])
            });
            let thin = telemetry(samples.collect()).thinned(every * SECOND as u64);
            let sum: u64 = thin.samples.iter().map(|sample| sample.values[0].unwrap()).sum();
            prop_assert_eq!(sum, counts.iter().sum::<u64>());
            let span: u64 = thin.samples.iter().map(|sample| sample.span_ns).sum();
            prop_assert_eq!(span, counts.len() as u64 * SECOND as u64);
            prop_assert!(thin.samples.len() <= counts.len().div_ceil(every as usize) + 1);
            prop_assert!(thin.samples.iter().all(|sample| sample.values[2] <= counts.iter().max().copied()));
        }
    }
}
