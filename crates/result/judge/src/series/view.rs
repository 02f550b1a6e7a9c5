//! One row of a sample, with access by column name.

use std::borrow::Cow;

use iodyno_model::{Sample, SeriesRow, SeriesShape};

/// A subject in a sample.
pub(crate) struct View<'a> {
    shape: &'a SeriesShape,
    sample: &'a Sample,
    row: Option<&'a SeriesRow>,
    /// Column by column.
    values: Cow<'a, [Option<u64>]>,
}

impl<'a> View<'a> {
    /// Every subject of a sample. If a sample is shorter than its shape, the other values are unknown.
    pub(crate) fn of(
        shape: &'a SeriesShape,
        sample: &'a Sample,
    ) -> impl Iterator<Item = View<'a>> + use<'a> {
        let columns = shape.columns.len().max(1);
        let rows = sample.values.chunks_exact(columns);
        shape
            .subjects
            .iter()
            .zip(rows)
            .map(move |(row, values)| View {
                shape,
                sample,
                row: Some(row),
                values: Cow::Borrowed(values),
            })
    }

    /// All subjects of a sample added up, as far as they are known.
    pub(crate) fn all(shape: &'a SeriesShape, sample: &'a Sample) -> View<'a> {
        let mut sums = vec![None; shape.columns.len()];
        for view in View::of(shape, sample) {
            for (sum, value) in sums.iter_mut().zip(view.values.iter()) {
                *sum = match (*sum, *value) {
                    (Some(sum), Some(value)) => Some(u64::saturating_add(sum, value)),
                    (sum, value) => sum.or(value),
                };
            }
        }
        View {
            shape,
            sample,
            row: None,
            values: Cow::Owned(sums),
        }
    }

    /// Name of the subject; empty for the sum of all.
    pub(crate) fn subject(&self) -> &'a str {
        self.row.map_or("", |row| row.name.as_str())
    }

    /// The device that it serves.
    pub(crate) fn serves(&self) -> Option<&'a str> {
        self.row?.serves.as_deref()
    }

    pub(crate) fn at_ns(&self) -> i64 {
        self.sample.at_ns
    }

    pub(crate) fn span_ns(&self) -> u64 {
        self.sample.span_ns
    }

    /// The values with the columns' names.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'a str, Option<u64>)> + '_ {
        let names = self.shape.columns.iter();
        let names = names.map(|column| column.name.as_str());
        names.zip(self.values.iter().copied())
    }

    /// A value as it was stored.
    pub(crate) fn count(&self, column: &str) -> Option<u64> {
        *self.values.get(self.shape.column(column)?)?
    }

    /// The value for calculations.
    pub(crate) fn value(&self, column: &str) -> Option<f64> {
        self.count(column).map(|value| value as f64)
    }

    /// A count per second.
    pub(crate) fn per_second(&self, column: &str) -> Option<f64> {
        over(self.value(column)? * 1e9, self.span_ns() as f64)
    }

    /// A time in percent of the sample's span.
    pub(crate) fn percent_of_span(&self, column: &str) -> Option<f64> {
        over(self.value(column)? * 100.0, self.span_ns() as f64)
    }

    /// The same, at most 100 %: times that are counted in ticks, or late, can exceed the span.
    pub(super) fn busy_percent(&self, column: &str) -> Option<f64> {
        Some(self.percent_of_span(column)?.min(100.0))
    }

    /// The mean number of those whose times were added up.
    pub(super) fn mean_over_span(&self, column: &str) -> Option<f64> {
        Some(self.percent_of_span(column)? / 100.0)
    }

    /// Of two times: the number of busy cores.
    pub(super) fn cores(&self, user: &str, system: &str) -> Option<f64> {
        Some((self.percent_of_span(user)? + self.percent_of_span(system)?) / 100.0)
    }

    /// A value that is stored in hundredths.
    pub(super) fn hundredths(&self, column: &str) -> Option<f64> {
        Some(self.value(column)? / 100.0)
    }

    /// The quotient of two counts.
    pub(crate) fn each(&self, column: &str, of: &str) -> Option<f64> {
        over(self.value(column)?, self.value(of)?)
    }

    /// The same in percent.
    pub(super) fn percentage(&self, column: &str, of: &str) -> Option<f64> {
        Some(self.each(column, of)? * 100.0)
    }

    /// The percentage of a count in the sum of two.
    pub(super) fn share(&self, column: &str, other: &str) -> Option<f64> {
        let (value, other) = (self.value(column)?, self.value(other)?);
        over(value * 100.0, value + other)
    }

    /// The percentage of requests that were merged into others.
    pub(super) fn merged(&self, requests: &str, commands: &str) -> Option<f64> {
        let (requests, commands) = (self.value(requests)?, self.value(commands)?);
        over((requests - commands) * 100.0, requests)
    }
}

/// A saturating sum: stored values can be arbitrary.
pub(crate) fn sum(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, u64::saturating_add)
}

/// A quotient; `None` if the denominator is 0.
pub(crate) fn over(value: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| value / by)
}
