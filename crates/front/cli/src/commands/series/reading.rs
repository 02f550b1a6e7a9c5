//! Reads the series of a trial from the store and combines samples meanwhile, with a limit on memory.

use std::collections::BTreeSet;

use iodyno_model::{Sample, SeriesKind, Telemetry, TelemetryBatch, Thinner, TrialKey};
use iodyno_store::{Store, StoreError};

/// Number of batches read from the store at once.
const BATCHES: usize = 64;

/// Maximum number of values in memory, over all trials shown together. With the derived figures and the
/// output, they take half a gibibyte.
pub(super) const MAX_VALUES: usize = 1 << 23;

/// The reason why series cannot be read.
#[derive(Debug)]
pub(super) enum ReadError {
    Store(StoreError),
    /// There are more values than the limit.
    TooMany,
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> ReadError {
        ReadError::Store(error)
    }
}

/// Reads the series of these kinds, at most `most` values; with `every_ns`, samples are combined over intervals of
/// that length.
pub(super) fn read(
    store: &impl Store,
    key: TrialKey,
    kinds: &[SeriesKind],
    every_ns: Option<u64>,
    most: usize,
) -> Result<Telemetry, ReadError> {
    let mut reading = Reading::new(kinds, every_ns);
    let mut next = 0;
    loop {
        let batches = store.telemetry(key, next, BATCHES)?;
        let last = batches.len() < BATCHES;
        next = batches.last().map_or(next, |batch| batch.number + 1);
        batches.into_iter().for_each(|batch| reading.add(batch));
        if values(&reading.read.samples) > most {
            return Err(ReadError::TooMany);
        }
        if last {
            return Ok(reading.done());
        }
    }
}

pub(super) fn values(samples: &[Sample]) -> usize {
    samples.iter().map(|sample| sample.values.len()).sum()
}

/// The series read so far.
struct Reading<'a> {
    kinds: &'a [SeriesKind],
    /// Combines samples; `None` keeps them as they are.
    thinner: Option<Thinner>,
    /// The numbers of the shapes of these kinds.
    shapes: BTreeSet<u32>,
    /// The samples; combined ones of completed intervals only.
    read: Telemetry,
}

impl<'a> Reading<'a> {
    fn new(kinds: &'a [SeriesKind], every_ns: Option<u64>) -> Reading<'a> {
        Reading {
            kinds,
            thinner: every_ns.map(Thinner::new),
            shapes: BTreeSet::new(),
            read: Telemetry::default(),
        }
    }

    fn add(&mut self, batch: TelemetryBatch) {
        let Telemetry {
            shapes,
            samples,
            gaps,
        } = batch.telemetry;
        let shapes = shapes
            .into_iter()
            .filter(|shape| self.kinds.contains(&shape.kind));
        for shape in shapes {
            self.shapes.insert(shape.number);
            self.read.shapes.push(shape);
        }
        let gaps = gaps.into_iter();
        let gaps = gaps.filter(|gap| self.kinds.contains(&gap.kind));
        self.read.gaps.extend(gaps);
        let samples = samples.into_iter();
        let samples = samples.filter(|sample| self.shapes.contains(&sample.shape));
        let Some(thinner) = &mut self.thinner else {
            self.read.samples.extend(samples);
            return;
        };
        for sample in samples {
            if let Some(shape) = self.read.shape(sample.shape) {
                thinner.add(&sample, shape);
            }
        }
        self.read.samples.extend(thinner.ended());
    }

    fn done(mut self) -> Telemetry {
        if let Some(thinner) = self.thinner {
            self.read.samples.extend(thinner.rest());
            let samples = &mut self.read.samples;
            samples.sort_by_key(|sample| (sample.at_ns, sample.shape));
        }
        self.read
    }
}

#[cfg(test)]
mod tests {
    use iodyno_model::{CPU, LOAD, SeriesColumn, SeriesGap, SeriesRow, SeriesShape};

    use super::*;

    const TENTH: i64 = 100_000_000;

    /// Ten samples a second of two series; a new shape of one of them with every fifth batch.
    fn batches(seconds: u32) -> Vec<TelemetryBatch> {
        let mut load = 0;
        let mut count = 0;
        let mut shape = |kind, columns| {
            count += 1;
            SeriesShape {
                node: String::new(),
                kind,
                number: count - 1,
                subjects: vec![SeriesRow::new("")],
                columns: SeriesColumn::of(columns),
                because: None,
            }
        };
        let second = |second: u32| {
            let mut telemetry = Telemetry::default();
            if second == 0 {
                telemetry.shapes.push(shape(SeriesKind::Cpu, CPU));
            }
            if second.is_multiple_of(5) {
                let of_load = shape(SeriesKind::Load, LOAD);
                load = of_load.number;
                telemetry.shapes.push(of_load);
                telemetry.gaps.push(SeriesGap {
                    node: String::new(),
                    kind: SeriesKind::Cpu,
                    at_ns: i64::from(second) * 10 * TENTH,
                    reason: "so".to_owned(),
                });
            }
            for tenth in 1..=10 {
                let at = i64::from(second) * 10 + tenth;
                for (shape, columns) in [(0, CPU.len()), (load, LOAD.len())] {
                    telemetry.samples.push(Sample {
                        shape,
                        at_ns: at * TENTH,
                        span_ns: TENTH as u64,
                        values: vec![Some(at as u64); columns],
                    });
                }
            }
            TelemetryBatch {
                number: second,
                telemetry,
            }
        };
        (0..seconds).map(second).collect()
    }

    fn reading<'a>(kinds: &'a [SeriesKind], every_ns: Option<u64>) -> Reading<'a> {
        let mut reading = Reading::new(kinds, every_ns);
        batches(100)
            .into_iter()
            .for_each(|batch| reading.add(batch));
        reading
    }

    #[test]
    fn combining_while_reading_equals_combining_after_reading() {
        let mut all = Telemetry::default();
        for batch in batches(100) {
            all.extend(batch.telemetry);
        }
        let both = [SeriesKind::Cpu, SeriesKind::Load];
        assert_eq!(reading(&both, None).done(), all);
        for seconds in [1, 3, 30, 1000] {
            let every_ns = seconds * 10 * TENTH as u64;
            let found = reading(&both, Some(every_ns));
            // The number of samples in memory is at most the number of intervals, even if an interval has many samples.
            assert!(found.read.samples.len() <= 240, "{seconds} s");
            assert_eq!(found.done(), all.thinned(every_ns), "{seconds} s");
        }
    }

    #[test]
    fn only_requested_series_are_kept() {
        let found = reading(&[SeriesKind::Load], None).done();
        assert_eq!(found.kinds(), [SeriesKind::Load]);
        assert_eq!(
            (found.shapes.len(), found.samples.len(), found.gaps.len()),
            (20, 1000, 0)
        );
        assert_eq!(found.of(SeriesKind::Load).count(), 1000);
        assert_eq!(values(&found.samples), 1000 * LOAD.len());
    }
}
