//! A run as Parquet files, for pandas, polars and DuckDB.
//!
//! Three tables: a row for each trial and metric, for each second, job and direction, and for each figure of a series'
//! sample. All columns are optional; a value that does not exist is null. Rows are added in blocks and written as row
//! groups, so a long run is not held in memory.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
pub use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{Type, TypePtr};
use iodyno_model::{
    FigureColumn, FigureRow, Frame, Observation, SeriesKind, SeriesUnit, Step, Telemetry, Workload,
};

use crate::compare::{metric_better, metric_unit};
use crate::series::{TrialClock, TrialSeries, seconds};

/// Rows of a row group, at least, except for the last one.
const GROUP: usize = 1 << 16;

/// Values of a series' table in a block, at most.
const MAX_VALUES: usize = 1 << 16;

/// The values of a column in a block of rows.
#[derive(Debug, Clone, PartialEq)]
enum Values {
    Texts(Vec<Option<String>>),
    Counts(Vec<Option<i64>>),
    Numbers(Vec<Option<f64>>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Texts(values) => values.len(),
            Values::Counts(values) => values.len(),
            Values::Numbers(values) => values.len(),
        }
    }

    fn clear(&mut self) {
        match self {
            Values::Texts(values) => values.clear(),
            Values::Counts(values) => values.clear(),
            Values::Numbers(values) => values.clear(),
        }
    }

    /// Moves the values of a column of the same kind to the end of this one.
    fn append(&mut self, other: Values) {
        match (self, other) {
            (Values::Texts(own), Values::Texts(mut other)) => own.append(&mut other),
            (Values::Counts(own), Values::Counts(mut other)) => own.append(&mut other),
            (Values::Numbers(own), Values::Numbers(mut other)) => own.append(&mut other),
            _ => {}
        }
    }
}

/// Rows with named columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Block(Vec<(String, Values)>);

impl Block {
    fn new() -> Block {
        Block(Vec::new())
    }

    fn rows(&self) -> usize {
        self.0.first().map_or(0, |(_, values)| values.len())
    }

    fn texts<T: Into<String>>(mut self, name: &str, of: impl Iterator<Item = T>) -> Block {
        // An unknown text is empty in the model.
        let values = of.map(|text| Some(text.into()).filter(|text: &String| !text.is_empty()));
        self.0
            .push((name.to_owned(), Values::Texts(values.collect())));
        self
    }

    fn counts(mut self, name: &str, of: impl Iterator<Item = Option<u64>>) -> Block {
        let values = of.map(|count| count.and_then(|count| i64::try_from(count).ok()));
        self.0
            .push((name.to_owned(), Values::Counts(values.collect())));
        self
    }

    fn numbers(mut self, name: &str, of: impl Iterator<Item = Option<f64>>) -> Block {
        let values = of.map(|value| value.filter(|value| value.is_finite()));
        self.0
            .push((name.to_owned(), Values::Numbers(values.collect())));
        self
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let field = |(name, values): &(String, Values)| {
            let (physical, logical) = match values {
                Values::Texts(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Values::Counts(_) => (Physical::INT64, None),
                Values::Numbers(_) => (Physical::DOUBLE, None),
            };
            let field = Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical);
            field.build().map(Arc::new)
        };
        let fields: Result<Vec<TypePtr>, ParquetError> = self.0.iter().map(field).collect();
        let schema = Type::group_type_builder("schema").with_fields(fields?);
        schema.build().map(Arc::new)
    }
}

/// A Parquet file that is being written.
pub struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Rows that are not written yet.
    open: Block,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Begins a file at the beginning of `out`, with the columns and the rows of a block.
    ///
    /// # Errors
    /// The output fails.
    pub fn new(out: W, first: Block) -> Result<ParquetFile<W>, ParquetError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::GZIP(Default::default()))
            .set_created_by(format!("iodyno {}", env!("CARGO_PKG_VERSION")))
            .build();
        let writer = SerializedFileWriter::new(out, first.schema()?, Arc::new(properties))?;
        Ok(ParquetFile {
            writer,
            open: first,
        })
    }

    /// Adds rows. The columns are those of the first block.
    ///
    /// # Errors
    /// The output fails.
    pub fn add(&mut self, block: Block) -> Result<(), ParquetError> {
        for ((_, own), (_, other)) in self.open.0.iter_mut().zip(block.0) {
            own.append(other);
        }
        match self.open.rows() >= GROUP {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Writes the open rows as a row group.
    fn write(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for (_, values) in &mut self.open.0 {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            match values {
                Values::Texts(values) => {
                    let (levels, values) = split(values, |text| ByteArray::from(text.as_str()));
                    let column = column.typed::<ByteArrayType>();
                    column.write_batch(&values, Some(&levels), None)?;
                }
                Values::Counts(values) => {
                    let (levels, values) = split(values, |count| *count);
                    let column = column.typed::<Int64Type>();
                    column.write_batch(&values, Some(&levels), None)?;
                }
                Values::Numbers(values) => {
                    let (levels, values) = split(values, |number| *number);
                    let column = column.typed::<DoubleType>();
                    column.write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
            values.clear();
        }
        group.close()?;
        Ok(())
    }

    /// Writes the rest of the file.
    ///
    /// # Errors
    /// The output fails.
    pub fn close(mut self) -> Result<(), ParquetError> {
        if self.open.rows() > 0 {
            self.write()?;
        }
        self.writer.close().map(|_| ())
    }
}

/// The definition levels of optional values, and the values that exist.
fn split<T, V>(values: &[Option<T>], convert: impl Fn(&T) -> V) -> (Vec<i16>, Vec<V>) {
    let levels = values.iter().map(|value| i16::from(value.is_some()));
    let there = values.iter().flatten().map(convert);
    (levels.collect(), there.collect())
}

/// A row for each trial and metric. `numbers`: of the trials in their run, from 1. The columns after the fixed ones are
/// the other dimensions of the trials. A trial without results has one row, without a metric.
pub fn trials(observations: &[Observation], numbers: &[u32]) -> Block {
    let rows = || {
        observations
            .iter()
            .zip(numbers)
            .flat_map(|(trial, number)| {
                let none = trial.figures.is_empty().then_some(None);
                let figures = none.into_iter().chain(trial.figures.iter().map(Some));
                figures.map(move |figure| (trial, *number, figure))
            })
    };
    let fixed = [
        Observation::RUN,
        Observation::CONFIGURATION,
        Observation::WORKLOAD,
    ];
    let of = |name: &'static str| rows().map(move |(trial, ..)| trial.dimension(name));
    let mut block = Block::new()
        .texts("run", of(Observation::RUN))
        .counts("trial", rows().map(|(_, number, _)| Some(number.into())))
        .counts(
            "round",
            rows().map(|(trial, ..)| trial.round.map(|round| u64::from(round) + 1)),
        )
        .texts("configuration", of(Observation::CONFIGURATION))
        .texts("workload", of(Observation::WORKLOAD))
        .counts(
            "started_unix_ms",
            rows().map(|(trial, ..)| trial.started_unix_ms),
        )
        .texts(
            "unusable",
            rows().map(|(trial, ..)| trial.unusable.clone().unwrap_or_default()),
        )
        .texts(
            "metric",
            rows().map(|(.., figure)| figure.map_or("", |it| &it.metric.name)),
        )
        .texts(
            "unit",
            rows().map(|(.., figure)| figure.map_or("", |it| metric_unit(&it.metric.unit))),
        )
        .texts(
            "better",
            rows().map(|(.., figure)| figure.map_or("", |it| metric_better(it.metric.better))),
        )
        .numbers(
            "value",
            rows().map(|(.., figure)| figure.map(|figure| figure.value)),
        );
    let names: BTreeSet<&str> = (observations.iter())
        .flat_map(|trial| trial.dimensions.keys().map(String::as_str))
        .filter(|name| !fixed.contains(name))
        .collect();
    for name in names {
        // A name that an import chose can be that of a fixed column.
        let known = block.0.iter().any(|(known, _)| known == name);
        let column = if known {
            format!("dimension_{name}")
        } else {
            name.to_owned()
        };
        block = block.texts(&column, rows().map(|(trial, ..)| trial.dimension(name)));
    }
    block
}

/// A row for each second, job and direction of a trial. `trial`: its place in the run, from 1.
pub fn seconds_of(
    (trial, round, configuration): (u32, u32, &str),
    workload: &Workload,
    frames: &[Frame],
) -> Block {
    let seconds = seconds(workload, frames);
    let rows = || seconds.iter();
    Block::new()
        .counts("trial", rows().map(|_| Some(trial.into())))
        .counts("round", rows().map(|_| Some(u64::from(round) + 1)))
        .texts("configuration", rows().map(|_| configuration))
        .texts("workload", rows().map(|_| workload.name.as_str()))
        .texts("node", rows().map(|it| it.node))
        .texts("job", rows().map(|it| it.job))
        .numbers("at_s", rows().map(|it| Some(it.at_s)))
        .numbers("span_s", rows().map(|it| Some(it.span_s)))
        .texts("step", rows().map(|it| it.step.as_str()))
        .texts("direction", rows().map(|it| it.direction))
        .counts("ops", rows().map(|it| Some(it.ops)))
        .counts("bytes", rows().map(|it| Some(it.bytes)))
        .counts("errors", rows().map(|it| Some(it.errors)))
        .texts("latency", rows().map(|it| it.latency))
        .numbers("mean_ns", rows().map(|it| it.mean_ns))
        .counts("p50_ns", rows().map(|it| it.p50_ns))
        .counts("p99_ns", rows().map(|it| it.p99_ns))
        .counts("max_ns", rows().map(|it| it.max_ns))
}

/// Blocks with a row for each figure of each subject and sample of a trial's series.
pub fn samples<'a>(trial: &'a TrialSeries<'_>) -> impl Iterator<Item = Block> + 'a {
    let pieces = trial.tables.iter().flat_map(|table| {
        let most = MAX_VALUES / table.columns.len().max(1);
        let pieces = table.rows.chunks(most.max(1));
        pieces.map(move |rows| (table, rows))
    });
    pieces.map(|(table, rows)| some_samples(trial, table.kind, &table.columns, rows))
}

/// The columns of [`samples`], without rows.
pub fn no_samples() -> Block {
    let telemetry = Telemetry::default();
    let trial = TrialSeries {
        number: 0,
        round: 0,
        configuration: "",
        workload: "",
        node: "",
        clock: TrialClock::default(),
        telemetry: &telemetry,
        tables: Vec::new(),
        sampling: Vec::new(),
    };
    some_samples(&trial, SeriesKind::Cpu, &[], &[])
}

fn some_samples(
    trial: &TrialSeries<'_>,
    kind: SeriesKind,
    columns: &[FigureColumn],
    rows: &[FigureRow],
) -> Block {
    let rows = || {
        rows.iter().flat_map(|row| {
            let values = columns.iter().zip(&row.values);
            values.map(move |(column, value)| (kind, row, column, *value))
        })
    };
    let step = |at_ns, span_ns| trial.clock.step(at_ns, span_ns).map_or("", Step::name);
    Block::new()
        .counts("trial", rows().map(|_| Some(trial.number.into())))
        .counts("round", rows().map(|_| Some(u64::from(trial.round) + 1)))
        .texts("configuration", rows().map(|_| trial.configuration))
        .texts("workload", rows().map(|_| trial.workload))
        .texts("node", rows().map(|_| trial.node))
        .texts("series", rows().map(|(kind, ..)| kind.name()))
        .numbers(
            "at_s",
            rows().map(|(_, row, ..)| Some(row.at_ns as f64 / 1e9)),
        )
        .numbers(
            "span_s",
            rows().map(|(_, row, ..)| Some(row.span_ns as f64 / 1e9)),
        )
        .counts(
            "unix_ms",
            rows().map(|(_, row, ..)| trial.clock.unix_ms(row.at_ns)),
        )
        .texts(
            "step",
            rows().map(|(_, row, ..)| step(row.at_ns, row.span_ns)),
        )
        .texts("subject", rows().map(|(_, row, ..)| row.subject.as_str()))
        .texts(
            "figure",
            rows().map(|(_, _, column, _)| column.name.as_str()),
        )
        .texts("unit", rows().map(|(_, _, column, _)| unit(column.unit)))
        .numbers("value", rows().map(|(.., value)| value))
}

fn unit(unit: SeriesUnit) -> &'static str {
    match unit {
        SeriesUnit::Number => "",
        SeriesUnit::Hundredths => "1/100",
        SeriesUnit::Nanos => "ns",
        SeriesUnit::Bytes => "B",
        SeriesUnit::PerSecond => "1/s",
        SeriesUnit::BytesPerSecond => "B/s",
        SeriesUnit::Percent => "%",
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;
    use iodyno_judge::testing::{self, observations::observation};
    use iodyno_model::Direction::Read;

    use super::*;

    fn written(blocks: impl IntoIterator<Item = Block>) -> SerializedFileReader<File> {
        let mut blocks = blocks.into_iter();
        let out = tempfile::tempfile().unwrap();
        let first = blocks.next().unwrap();
        let mut file = ParquetFile::new(out.try_clone().unwrap(), first).unwrap();
        for block in blocks {
            file.add(block).unwrap();
        }
        file.close().unwrap();
        SerializedFileReader::new(out).unwrap()
    }

    fn columns(reader: &SerializedFileReader<File>) -> Vec<String> {
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let columns = schema.columns().iter();
        columns.map(|column| column.name().to_owned()).collect()
    }

    #[test]
    fn trials_have_a_row_for_each_metric_and_a_column_for_each_dimension() {
        let mut failed = observation("b", "w", 1.0);
        failed.figures.clear();
        failed.unusable = Some("failed".to_owned());
        let mut first = observation("a", "w", 500.0);
        first.dimensions.insert("bs".to_owned(), "4k".to_owned());
        first
            .dimensions
            .insert("metric".to_owned(), "mine".to_owned());
        let reader = written([trials(&[first, failed], &[1, 4])]);
        let names = columns(&reader);
        let place = |name: &str| names.iter().position(|known| known == name).unwrap();
        assert!(names.contains(&"dimension_metric".to_owned()), "{names:?}");
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows[0].get_string(place("configuration")).unwrap(), "a");
        assert_eq!(rows[0].get_string(place("bs")).unwrap(), "4k");
        assert_eq!(rows[0].get_double(place("value")).unwrap(), 500.0);
        let last = rows.last().unwrap();
        assert_eq!(last.get_long(place("trial")).unwrap(), 4);
        assert_eq!(last.get_string(place("unusable")).unwrap(), "failed");
        // Null.
        assert!(last.get_double(place("value")).is_err());
        assert!(last.get_string(place("bs")).is_err());
    }

    #[test]
    fn rows_of_many_blocks_are_written_in_large_groups() {
        let workload = testing::workload("t", vec![testing::job("reader")]);
        let frames: Vec<Frame> = (0..1000)
            .map(|number| testing::frame(number, &[(0, Read, 100, 10_000)]))
            .collect();
        let blocks = (1..=200).map(|trial| seconds_of((trial, 0, "here"), &workload, &frames));
        let reader = written(blocks);
        let metadata = reader.metadata();
        assert_eq!(metadata.file_metadata().num_rows(), 200_000);
        assert_eq!(metadata.num_row_groups(), 200_000usize.div_ceil(66_000));
        let total = reader.get_row_iter(None).unwrap();
        let ops = columns(&reader)
            .iter()
            .position(|name| name == "ops")
            .unwrap();
        let sum: i64 = total.map(|row| row.unwrap().get_long(ops).unwrap()).sum();
        assert_eq!(sum, 200_000 * 100);
    }

    #[test]
    fn a_run_without_samples_has_their_columns() {
        let reader = written([no_samples()]);
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
        assert!(columns(&reader).contains(&"figure".to_owned()));
    }
}
