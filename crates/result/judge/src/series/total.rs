//! Sums over all samples.

use std::collections::BTreeMap;

use iodyno_model::{SeriesKind, Telemetry};

use super::View;
use super::view::over;

/// The sums of a subject's counts over all of its samples. Not meaningful for gauges.
#[derive(Debug, Clone)]
pub(crate) struct Total<'a> {
    pub(crate) subject: &'a str,
    pub(crate) serves: Option<&'a str>,
    /// The sampled time, ns.
    pub(crate) span_ns: u64,
    sums: BTreeMap<&'a str, u64>,
}

impl<'a> Total<'a> {
    /// A count; 0 where no sample knows it.
    pub(crate) fn count(&self, column: &str) -> u64 {
        self.sums.get(column).copied().unwrap_or(0)
    }

    /// The counts of all columns.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'a str, u64)> {
        self.sums.iter().map(|(name, count)| (*name, *count))
    }

    /// A count per second; 0 without time.
    pub(crate) fn per_second(&self, column: &str) -> f64 {
        over(self.count(column) as f64 * 1e9, self.span_ns as f64).unwrap_or(0.0)
    }

    /// A count of nanoseconds in percent of the sampled time.
    pub(crate) fn percent_of_span(&self, column: &str) -> f64 {
        over(self.count(column) as f64 * 100.0, self.span_ns as f64).unwrap_or(0.0)
    }

    /// The quotient of two counts.
    pub(crate) fn each(&self, column: &str, of: &str) -> Option<f64> {
        over(self.count(column) as f64, self.count(of) as f64)
    }
}

/// Every subject of a series, in the order in which they appeared.
pub(crate) fn totals(telemetry: &Telemetry, kind: SeriesKind) -> Vec<Total<'_>> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut totals: Vec<Total> = Vec::new();
    for (shape, sample) in telemetry.of(kind) {
        for view in View::of(shape, sample) {
            let place = *places.entry(view.subject()).or_insert(totals.len());
            if place == totals.len() {
                totals.push(Total {
                    subject: view.subject(),
                    serves: None,
                    span_ns: 0,
                    sums: BTreeMap::new(),
                });
            }
            let total = &mut totals[place];
            total.serves = total.serves.or(view.serves());
            total.span_ns = total.span_ns.saturating_add(view.span_ns());
            for (column, value) in view.values() {
                if let Some(value) = value {
                    let sum = total.sums.entry(column).or_default();
                    *sum = sum.saturating_add(value);
                }
            }
        }
    }
    totals
}
