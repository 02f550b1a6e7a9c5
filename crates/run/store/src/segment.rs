//! Packs batches of telemetry, column by column, after their trial has ended.
//!
//! A batch covers one second. Its JSON repeats all field names, and most of its values are zero or close to those of
//! the previous second; zlib can only use this if they are adjacent. A segment therefore transposes some hundred
//! seconds: each column of each subject becomes one sequence of [`Numbers`]. Decoding returns the original batches,
//! each with its number.
//!
//! Bytes per second for simulated hosts with one busy disk of four, at one sample a second:
//!
//! | CPUs × interrupt sources | JSON | deflated | packed |
//! |---|---|---|---|
//! | 2 × 31 | 1 160 | 330 | 64 |
//! | 8 × 60 | 2 350 | 490 | 137 |
//! | 64 × 500 | 69 000 | 3 140 | 1 860 |
//!
//! A real host with two CPUs, one disk and 8 sources, while compiling: 1 220, 395 and 96 over five minutes. Segments
//! of four times the length save 6 % more, zlib's level 9 nothing; level 2 costs 10 %. Packing ten hours of the first
//! host takes less than 4 s and 13 MB of memory, on a shared core.

use std::collections::BTreeMap;

use iodyno_model::{Sample, SeriesGap, SeriesShape, Telemetry, TelemetryBatch};
use serde::{Deserialize, Serialize};

use crate::numbers::Numbers;

/// Maximum number of samples in a segment, over all series: about eight minutes. Larger segments save little.
const MAX_SAMPLES: usize = 4096;

/// Maximum number of values in a segment: packing them takes 16 MiB of memory.
pub(crate) const MAX_VALUES: usize = 1 << 20;

/// A segment of telemetry, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Segment {
    /// Number of packed batches.
    batches: usize,
    /// For each batch: its number, and its numbers of shapes, samples and gaps.
    numbers: Numbers,
    shapes_in: Numbers,
    samples_in: Numbers,
    gaps_in: Numbers,
    shapes: Vec<SeriesShape>,
    gaps: Vec<SeriesGap>,
    /// For each sample: the index of its table, and its time.
    tables_of: Numbers,
    at_ns: Numbers,
    /// For each sample: its span minus the time since the previous sample ([`Times`]).
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

/// Collects batches until there are enough for a segment.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    batches: Vec<TelemetryBatch>,
    samples: usize,
    values: usize,
}

impl Packer {
    /// Adds a batch; returns it if it does not fit into the segment.
    pub(crate) fn add(&mut self, batch: TelemetryBatch) -> Result<(), TelemetryBatch> {
        // A batch counts as one sample, because a batch may have no samples.
        let samples = 1 + batch.telemetry.samples.len();
        let (samples, values) = (self.samples + samples, self.values + values(&batch));
        if !self.batches.is_empty() && (samples > MAX_SAMPLES || values > MAX_VALUES) {
            return Err(batch);
        }
        (self.samples, self.values) = (samples, values);
        self.batches.push(batch);
        Ok(())
    }

    /// Whether no batch was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Takes the collected batches, and begins a new segment.
    pub(crate) fn take(&mut self) -> Vec<TelemetryBatch> {
        std::mem::take(self).batches
    }
}

/// Number of values in a batch.
pub(crate) fn values(batch: &TelemetryBatch) -> usize {
    let samples = batch.telemetry.samples.iter();
    samples.map(|sample| sample.values.len()).sum()
}

impl Segment {
    /// Packs batches.
    pub(crate) fn of(batches: &[TelemetryBatch]) -> Segment {
        let each = |number: &dyn Fn(&TelemetryBatch) -> usize| {
            let numbers = batches.iter().map(|batch| Some(number(batch) as i64));
            Numbers::of(&numbers.collect::<Vec<_>>())
        };
        let all = || batches.iter().map(|batch| &batch.telemetry);
        let samples: Vec<&Sample> = all().flat_map(|some| &some.samples).collect();
        let turned = Turned::of(&samples);
        Segment {
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

    /// The original batches.
    ///
    /// # Errors
    /// What is inconsistent, as text.
    pub(crate) fn batches(self) -> Result<Vec<TelemetryBatch>, String> {
        if self.batches > MAX_SAMPLES {
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
        if total > MAX_SAMPLES {
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
            if values > MAX_VALUES {
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

/// Times of samples, one after the other.
#[derive(Default)]
struct Times {
    /// The last time of each table.
    tables: BTreeMap<usize, i64>,
    /// The last time of all, and the last time before it that differs from it.
    now: i64,
    before: i64,
}

impl Times {
    /// The time since the table's previous sample, ns. For the first sample of a table: since the previous sample of
    /// any table, because a series continues after its shape has changed.
    fn passed(&mut self, table: usize, at_ns: i64) -> i64 {
        if at_ns != self.now {
            self.before = std::mem::replace(&mut self.now, at_ns);
        }
        let before = self.tables.insert(table, at_ns).unwrap_or(self.before);
        at_ns.wrapping_sub(before)
    }
}

/// Samples grouped by table.
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
        // Samples of one shape have the same length unless the collector is wrong; others are kept all the same.
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

/// The columns of at least one sample; all have the same shape and length.
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
