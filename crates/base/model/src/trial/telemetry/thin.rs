//! Merges samples: counts are added up, gauges averaged.

use std::collections::BTreeMap;

use super::{Reading, Sample, SeriesShape, Telemetry};

impl Telemetry {
    /// Merges the series to one sample per `every_ns` on the trial's clock; samples that are longer stay as
    /// they are.
    /// Samples of different shapes are not merged. A value that is unknown for more than half of a period is
    /// unknown; otherwise the known part is extrapolated to the period.
    pub fn thinned(&self, every_ns: u64) -> Telemetry {
        let mut thinner = Thinner::new(every_ns);
        for sample in &self.samples {
            if let Some(shape) = self.shape(sample.shape) {
                thinner.add(sample, shape);
            }
        }
        let mut samples = thinner.rest();
        samples.sort_by_key(|sample| (sample.at_ns, sample.shape));
        Telemetry {
            shapes: self.shapes.clone(),
            samples,
            gaps: self.gaps.clone(),
        }
    }
}

/// Merges samples as they arrive, for series that are too long to keep in full. See [`Telemetry::thinned`].
#[derive(Debug)]
pub struct Thinner {
    every_ns: i64,
    /// Sums by period and shape.
    sums: BTreeMap<(i64, u32), Sum>,
    newest: i64,
}

impl Thinner {
    /// For periods of this length, ns.
    pub fn new(every_ns: u64) -> Thinner {
        Thinner {
            every_ns: i64::try_from(every_ns.max(1)).unwrap_or(i64::MAX),
            sums: BTreeMap::new(),
            newest: i64::MIN,
        }
    }

    /// Adds a sample, which must be later than the earlier ones of its shape.
    pub fn add(&mut self, sample: &Sample, shape: &SeriesShape) {
        // A sample covers the time before it. One that is due at 30 s is taken slightly later.
        let half = i64::try_from(sample.span_ns / 2).unwrap_or(i64::MAX);
        let middle = sample.at_ns.saturating_sub(half.max(1));
        let stretch = middle.div_euclid(self.every_ns);
        self.newest = self.newest.max(stretch);
        let sum = self.sums.entry((stretch, sample.shape)).or_default();
        sum.add(sample, shape);
    }

    /// Removes and returns everything before the last two periods. A series with a long interval may still add
    /// samples to the last but one.
    pub fn ended(&mut self) -> Vec<Sample> {
        let open = self.sums.split_off(&(self.newest.saturating_sub(1), 0));
        samples(std::mem::replace(&mut self.sums, open))
    }

    /// Returns the rest.
    pub fn rest(self) -> Vec<Sample> {
        samples(self.sums)
    }
}

fn samples(sums: BTreeMap<(i64, u32), Sum>) -> Vec<Sample> {
    sums.into_values().filter_map(Sum::sample).collect()
}

/// Merged samples of one shape.
#[derive(Debug, Default)]
struct Sum {
    sample: Option<Sample>,
    readings: Vec<Reading>,
    /// For each value: the sum of counts, or of gauges weighted by their span.
    sums: Vec<u128>,
    /// The time for which each value is known, ns; a sample without a span counts as 1.
    known: Vec<u128>,
    span: u128,
}

impl Sum {
    fn add(&mut self, sample: &Sample, shape: &SeriesShape) {
        match &mut self.sample {
            None => {
                self.readings = shape.columns.iter().map(|column| column.reading).collect();
                self.sums = vec![0; sample.values.len()];
                self.known = vec![0; sample.values.len()];
                self.sample = Some(sample.clone());
            }
            Some(sum) => {
                sum.at_ns = sample.at_ns;
                sum.span_ns = sum.span_ns.saturating_add(sample.span_ns);
            }
        }
        let span = u128::from(sample.span_ns.max(1));
        self.span += span;
        for (place, value) in sample.values.iter().enumerate().take(self.sums.len()) {
            let Some(value) = *value else {
                continue;
            };
            let more = match self.reading(place) {
                Reading::Count => u128::from(value),
                Reading::Gauge => u128::from(value) * span,
            };
            self.known[place] += span;
            // Two samples of maximal values and spans exceed 128 bits.
            self.sums[place] = self.sums[place].saturating_add(more);
        }
    }

    fn reading(&self, place: usize) -> Reading {
        let columns = self.readings.len().max(1);
        let reading = self.readings.get(place % columns);
        reading.copied().unwrap_or(Reading::Count)
    }

    fn sample(mut self) -> Option<Sample> {
        let mut sample = self.sample.take()?;
        for (place, value) in sample.values.iter_mut().enumerate() {
            *value = self.value(place);
        }
        Some(sample)
    }

    fn value(&self, place: usize) -> Option<u64> {
        let (sum, known) = (self.sums[place], self.known[place]);
        if known == 0 || known * 2 < self.span {
            return None;
        }
        let whole = match self.reading(place) {
            Reading::Count if known == self.span => sum,
            Reading::Count => rounded(sum as f64 * self.span as f64 / known as f64),
            Reading::Gauge => (sum + known / 2) / known,
        };
        Some(u64::try_from(whole).unwrap_or(u64::MAX))
    }
}

fn rounded(value: f64) -> u128 {
    value.round() as u128
}

#[cfg(test)]
mod tests {
    use super::super::{PRESSURE, SeriesColumn, SeriesKind, SeriesRow, SeriesUnit};
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    fn telemetry(samples: Vec<Sample>) -> Telemetry {
        let shape = |number, columns| SeriesShape {
            node: String::new(),
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
            sample(0, 4, 3, [Some(2), Some(6), Some(50)]),
            sample(0, 5, 1, [Some(4), Some(6), Some(7)]),
        ]);
        let thin = all.thinned(4 * SECOND as u64);
        assert_eq!(
            thin.samples,
            [
                sample(0, 4, 4, [Some(3), Some(8), Some(40)]),
                sample(0, 5, 1, [Some(4), Some(6), Some(7)]),
            ]
        );
    }

    #[test]
    fn a_sample_taken_slightly_late_belongs_to_its_period() {
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
    fn values_unknown_for_more_than_half_of_a_period_stay_unknown() {
        let all = telemetry(vec![
            sample(0, 1, 1, [None, None, None]),
            sample(0, 2, 1, [None, Some(1), Some(8)]),
            sample(0, 3, 1, [Some(3), Some(2), None]),
        ]);
        let thin = all.thinned(60 * SECOND as u64);
        assert_eq!(thin.samples, [sample(0, 3, 3, [None, Some(5), None])]);
    }

    #[test]
    fn samples_of_two_shapes_are_not_merged() {
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
