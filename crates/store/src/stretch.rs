//! How batches of telemetry are put together once their trial has ended: column by column.
//!
//! A batch is a second long. Its JSON names each of its fields anew, and most of its values are zeros or near
//! to those of the second before, which zlib can only make use of where they stand side by side. So some
//! hundred seconds are turned: each column of each subject is a row of [`Numbers`]. What comes back
//! are the batches as they were, each with its number.
//!
//! Bytes of a second of made-up hosts with one busy disk of four, at one sample a second:
//!
//! | CPUs × sources of interrupts | JSON | deflated | put together |
//! |---|---|---|---|
//! | 2 × 31 | 1 160 | 330 | 64 |
//! | 8 × 60 | 2 350 | 490 | 137 |
//! | 64 × 500 | 69 000 | 3 140 | 1 860 |
//!
//! A real one with two CPUs, one disk and 8 sources, compiling meanwhile: 1 220, 395 and 96 over five minutes.
//! Stretches of four times the length save 6 % more, zlib's level 9 nothing; level 2 costs 10 %.
//! Ten hours of the first are put together in less than 4 s and 13 MB of memory, on a core that others use, too.

use std::collections::BTreeMap;

use iodyno_model::{Sample, SeriesGap, SeriesShape, Telemetry, TelemetryBatch};
use serde::{Deserialize, Serialize};

use crate::numbers::Numbers;

/// Samples in a stretch, of all series: those of some eight minutes. More save little.
const MOST_SAMPLES: usize = 4096;

/// Values in a stretch: they take 16 MiB of memory while they are put together.
pub(crate) const MOST_VALUES: usize = 1 << 20;

/// A stretch of telemetry, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stretch {
    /// How many batches were put together.
    batches: usize,
    /// Of each batch: its number, and how many shapes, samples and gaps it has.
    numbers: Numbers,
    shapes_in: Numbers,
    samples_in: Numbers,
    gaps_in: Numbers,
    shapes: Vec<SeriesShape>,
    gaps: Vec<SeriesGap>,
    /// Of each sample: the index of its table, and its time.
    tables_of: Numbers,
    at_ns: Numbers,
    /// Of each sample: how much longer its span is than the time since the one before ([`Times`]).
    beyond_ns: Numbers,
    tables: Vec<Table>,
}

/// Samples of one shape, with the same number of values.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    shape: u32,
    /// By subject, column by column.
    values: Vec<Numbers>,
}

/// Takes batches until there are enough for a stretch.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    batches: Vec<TelemetryBatch>,
    samples: usize,
    values: usize,
}

impl Packer {
    /// Adds a batch; gives it back where it is too much for one stretch.
    pub(crate) fn add(&mut self, batch: TelemetryBatch) -> Result<(), TelemetryBatch> {
        // A batch counts as a sample, too: there may be batches without any.
        let samples = 1 + batch.telemetry.samples.len();
        let (samples, values) = (self.samples + samples, self.values + values(&batch));
        if !self.batches.is_empty() && (samples > MOST_SAMPLES || values > MOST_VALUES) {
            return Err(batch);
        }
        (self.samples, self.values) = (samples, values);
        self.batches.push(batch);
        Ok(())
    }

    /// Nothing was added since it was new.
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// What was added, to begin anew.
    pub(crate) fn take(&mut self) -> Vec<TelemetryBatch> {
        std::mem::take(self).batches
    }
}

/// How many values a batch has.
pub(crate) fn values(batch: &TelemetryBatch) -> usize {
    let samples = batch.telemetry.samples.iter();
    samples.map(|sample| sample.values.len()).sum()
}

impl Stretch {
    /// Puts batches together.
    pub(crate) fn of(batches: &[TelemetryBatch]) -> Stretch {
        let each = |number: &dyn Fn(&TelemetryBatch) -> usize| {
            let numbers = batches.iter().map(|batch| Some(number(batch) as i64));
            Numbers::of(&numbers.collect::<Vec<_>>())
        };
        let all = || batches.iter().map(|batch| &batch.telemetry);
        let samples: Vec<&Sample> = all().flat_map(|some| &some.samples).collect();
        let turned = Turned::of(&samples);
        Stretch {
            batches: batches.len(),
            numbers: each(&|batch| batch.number as usize),
            shapes_in: each(&|batch| batch.telemetry.shapes.len()),
            samples_in: each(&|batch| batch.telemetry.samples.len()),
            gaps_in: each(&|batch| batch.telemetry.gaps.len()),
            shapes: all().flat_map(|some| some.shapes.clone()).collect(),
            gaps: all().flat_map(|some| some.gaps.clone()).collect(),
            tables_of: Numbers::of(&turned.tables_of),
            at_ns: Numbers::of(&turned.at_ns),
            beyond_ns: Numbers::of(&turned.beyond_ns),
            tables: turned.tables,
        }
    }

    /// The batches as they were.
    ///
    /// # Errors
    /// Says in words what does not fit together.
    pub(crate) fn batches(self) -> Result<Vec<TelemetryBatch>, String> {
        if self.batches > MOST_SAMPLES {
            return Err(format!("{} batches are too many", self.batches));
        }
        let counts = |numbers: &Numbers| -> Result<Vec<usize>, String> {
            numbers.read().take(self.batches).map(count).collect()
        };
        let numbers = counts(&self.numbers)?;
        let (shapes_in, gaps_in) = (counts(&self.shapes_in)?, counts(&self.gaps_in)?);
        let samples_in = counts(&self.samples_in)?;
        let sum = |counts: &[usize]| counts.iter().fold(0usize, |sum, n| sum.saturating_add(*n));
        if sum(&shapes_in) != self.shapes.len() || sum(&gaps_in) != self.gaps.len() {
            return Err("its batches have other shapes or gaps than it".to_owned());
        }
        let mut samples = self.samples(sum(&samples_in))?.into_iter();
        let (mut shapes, mut gaps) = (self.shapes.into_iter(), self.gaps.into_iter());
        let batch = |place: usize| {
            let number = u32::try_from(numbers[place]);
            Ok(TelemetryBatch {
                number: number.map_err(|_| "the number of a batch is too large")?,
                telemetry: Telemetry {
                    shapes: shapes.by_ref().take(shapes_in[place]).collect(),
                    samples: samples.by_ref().take(samples_in[place]).collect(),
                    gaps: gaps.by_ref().take(gaps_in[place]).collect(),
                },
            })
        };
        (0..self.batches).map(batch).collect()
    }

    fn samples(&self, total: usize) -> Result<Vec<Sample>, String> {
        let too_many = || "its samples or values are too many".to_owned();
        if total > MOST_SAMPLES {
            return Err(too_many());
        }
        let mut members = vec![Vec::new(); self.tables.len()];
        let mut samples = Vec::with_capacity(total);
        let mut values = 0;
        let mut times = Times::default();
        let rows = self.at_ns.read().zip(self.beyond_ns.read());
        for (place, (at_ns, beyond_ns)) in self.tables_of.read().zip(rows).take(total) {
            let place = count(place)?;
            let table = self.tables.get(place).ok_or("a sample has no table")?;
            values += table.values.len();
            if values > MOST_VALUES {
                return Err(too_many());
            }
            let (Some(at_ns), Some(beyond_ns)) = (at_ns, beyond_ns) else {
                return Err("a sample has no time".to_owned());
            };
            members[place].push(samples.len());
            samples.push(Sample {
                shape: table.shape,
                at_ns,
                span_ns: times.passed(place, at_ns).wrapping_add(beyond_ns) as u64,
                values: Vec::with_capacity(table.values.len()),
            });
        }
        for (table, members) in self.tables.iter().zip(members) {
            for column in &table.values {
                for (member, value) in members.iter().zip(column.read()) {
                    samples[*member]
                        .values
                        .push(value.map(|value| value as u64));
                }
            }
        }
        Ok(samples)
    }
}

/// When samples were taken, one after the other.
#[derive(Default)]
struct Times {
    /// Each table's last.
    tables: BTreeMap<usize, i64>,
    /// The last of all, and the last before that at another time.
    now: i64,
    before: i64,
}

impl Times {
    /// The time since a table's sample before, ns; of a table's first, since whatever was sampled before: a series whose shape
    /// has changed goes on all the same.
    fn passed(&mut self, table: usize, at_ns: i64) -> i64 {
        if at_ns != self.now {
            self.before = std::mem::replace(&mut self.now, at_ns);
        }
        let before = self.tables.insert(table, at_ns).unwrap_or(self.before);
        at_ns.wrapping_sub(before)
    }
}

/// Samples by table.
#[derive(Default)]
struct Turned {
    tables_of: Vec<Option<i64>>,
    at_ns: Vec<Option<i64>>,
    beyond_ns: Vec<Option<i64>>,
    tables: Vec<Table>,
}

impl Turned {
    fn of(samples: &[&Sample]) -> Turned {
        let mut turned = Turned::default();
        // Those of one shape may differ in length only where whoever took them erred; they are kept all the same.
        let mut places: BTreeMap<(u32, usize), usize> = BTreeMap::new();
        let mut members: Vec<Vec<&Sample>> = Vec::new();
        let mut times = Times::default();
        for sample in samples {
            let key = (sample.shape, sample.values.len());
            let place = *places.entry(key).or_insert(members.len());
            match members.get_mut(place) {
                Some(members) => members.push(sample),
                None => members.push(vec![sample]),
            }
            let beyond = (sample.span_ns as i64).wrapping_sub(times.passed(place, sample.at_ns));
            turned.tables_of.push(Some(place as i64));
            turned.at_ns.push(Some(sample.at_ns));
            turned.beyond_ns.push(Some(beyond));
        }
        turned.tables = members.iter().map(|samples| table(samples)).collect();
        turned
    }
}

/// The columns of samples of one shape and length; there is at least one.
fn table(samples: &[&Sample]) -> Table {
    let mut column = Vec::with_capacity(samples.len());
    let values = (0..samples[0].values.len()).map(|place| {
        column.clear();
        column.extend(
            samples
                .iter()
                .map(|sample| sample.values[place].map(|value| value as i64)),
        );
        Numbers::of(&column)
    });
    Table {
        shape: samples[0].shape,
        values: values.collect(),
    }
}

fn count(number: Option<i64>) -> Result<usize, String> {
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| "a count in it is none".to_owned())
}

#[cfg(test)]
mod host;
#[cfg(test)]
mod tests;
