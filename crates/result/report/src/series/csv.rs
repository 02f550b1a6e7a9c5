//! Series as lines of values, with all digits of each number.

use iodyno_model::{SeriesColumn, SeriesUnit, Step};

use super::TrialSeries;
use crate::clock;
use crate::csv::{number, record};

/// The first columns of a line: trial, node (empty if the plan names none), series, time, subject.
pub(super) const LEADING: [&str; 9] = [
    "round",
    "configuration",
    "workload",
    "node",
    "trial",
    "series",
    "at_s",
    "span_s",
    "subject",
];

/// The last columns of a line: wall clock and step.
const TRAILING: [&str; 2] = ["utc", "step"];

/// The figures of all trials: a header line, then one line per subject and interval. Series share columns of the same
/// name; missing values are empty. `at_s` is the end of the interval on the trial's clock. The last columns are that
/// instant on the wall clock and the step that took most of the interval.
pub fn csv(trials: &[TrialSeries]) -> String {
    let mut records = Records::default();
    for trial in trials {
        for table in &trial.tables {
            let columns = table.columns.iter();
            let places: Vec<usize> = columns
                .map(|column| records.place(named(&column.name, column.unit)))
                .collect();
            for row in &table.rows {
                let leading = leading(trial, table.kind.name(), row.at_ns, row.span_ns);
                let trailing = trailing(trial, row.at_ns, row.span_ns);
                let values = row.values.iter().map(|value| number(*value));
                records.push(leading, &row.subject, &places, values, trailing);
            }
        }
    }
    records.text()
}

/// The sampled values as stored: counts over the line's interval, gauges at its end. The form is that of [`csv`].
pub fn raw_csv(trials: &[TrialSeries]) -> String {
    let mut records = Records::default();
    for trial in trials {
        for kind in trial.telemetry.kinds() {
            for (shape, sample) in trial.telemetry.of(kind) {
                let columns = shape.columns.iter();
                let places: Vec<usize> = columns
                    .map(|SeriesColumn { name, unit, .. }| records.place(named(name, *unit)))
                    .collect();
                let rows = sample.values.chunks(places.len().max(1));
                for (subject, values) in shape.subjects.iter().zip(rows) {
                    let leading = leading(trial, kind.name(), sample.at_ns, sample.span_ns);
                    let values = values
                        .iter()
                        .map(|value| value.map_or(String::new(), |value| value.to_string()));
                    let trailing = trailing(trial, sample.at_ns, sample.span_ns);
                    records.push(leading, &subject.name, &places, values, trailing);
                }
            }
        }
    }
    records.text()
}

fn leading(trial: &TrialSeries, series: &str, at_ns: i64, span_ns: u64) -> Vec<String> {
    vec![
        trial.round.to_string(),
        trial.configuration.to_owned(),
        trial.workload.to_owned(),
        trial.node.to_owned(),
        trial.number.to_string(),
        series.to_owned(),
        (at_ns as f64 / 1e9).to_string(),
        (span_ns as f64 / 1e9).to_string(),
    ]
}

fn trailing(trial: &TrialSeries, at_ns: i64, span_ns: u64) -> [String; 2] {
    let utc = trial.clock.unix_ms(at_ns).map(clock::utc);
    let step = trial.clock.step(at_ns, span_ns).map(Step::name);
    [utc.unwrap_or_default(), step.unwrap_or_default().to_owned()]
}

/// A column's name with its unit, unless the name already contains it.
fn named(name: &str, unit: SeriesUnit) -> String {
    let ending = match unit {
        SeriesUnit::Number => "",
        SeriesUnit::Hundredths => "_hundredths",
        SeriesUnit::Nanos => "_ns",
        SeriesUnit::Bytes => "_bytes",
        SeriesUnit::PerSecond if name.ends_with("/s") => "",
        SeriesUnit::PerSecond => "_per_s",
        SeriesUnit::BytesPerSecond if name.contains("B/s") => "",
        SeriesUnit::BytesPerSecond => "_bytes_per_s",
        SeriesUnit::Percent if name.contains('%') => "",
        SeriesUnit::Percent => "_percent",
    };
    match name.ends_with(ending) {
        true => name.to_owned(),
        false => format!("{name}{ending}"),
    }
}

/// Records whose columns are collected while they are added.
#[derive(Default)]
struct Records {
    columns: Vec<String>,
    records: Vec<Record>,
}

/// A record as text, without its newline and without the columns that were added later. It is text because there can be
/// a million records.
struct Record {
    text: String,
    trailing: [String; 2],
    columns: usize,
}

impl Records {
    /// The index of the column with that name.
    fn place(&mut self, name: String) -> usize {
        let known = self.columns.iter().position(|column| *column == name);
        known.unwrap_or_else(|| {
            self.columns.push(name);
            self.columns.len() - 1
        })
    }

    fn push(
        &mut self,
        mut leading: Vec<String>,
        subject: &str,
        places: &[usize],
        values: impl Iterator<Item = String>,
        trailing: [String; 2],
    ) {
        leading.push(subject.to_owned());
        let columns = places.iter().max().map_or(0, |last| last + 1);
        leading.resize(LEADING.len() + columns, String::new());
        for (place, value) in places.iter().zip(values) {
            leading[LEADING.len() + place] = value;
        }
        let mut text = record(leading.iter().map(String::as_str));
        text.truncate(text.trim_end_matches('\n').len());
        self.records.push(Record {
            text,
            trailing,
            columns,
        });
    }

    fn text(self) -> String {
        let columns = self.columns.len();
        let names = self.columns.iter().map(String::as_str);
        let mut text = record(LEADING.into_iter().chain(names).chain(TRAILING));
        for line in self.records {
            text += &line.text;
            text.extend(std::iter::repeat_n(',', columns - line.columns + 1));
            text += &record(line.trailing.iter().map(String::as_str));
        }
        text
    }
}
