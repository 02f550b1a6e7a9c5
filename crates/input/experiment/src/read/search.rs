//! Searches of a load.

use std::ops::Range;

use iodyno_model::{Bound, Diagnostic, Search, SearchAxis, Workload};
use iodyno_units::Nanos;

use super::file::File;
use super::metrics::is_metric_or_figure;
use crate::check::Keyed;
use crate::document::Located;

impl File<'_, '_, '_> {
    pub(super) fn search(&mut self, keyed: &Keyed<'_>, workload: &Workload) -> Option<Search> {
        let own = keyed.inner("search")?;
        for (key, example) in [("axis", "\"rate_iops\""), ("until", "\"p99 < 2ms\"")] {
            if own.value(key).is_none() && !self.report.broken {
                let message = format!("`search` lacks `{key}`");
                let hint = format!("add `{key} = {example}`");
                self.report.error(own.whole(), message, hint);
            }
        }
        let axis = own.word("axis", self.report).and_then(SearchAxis::named);
        if axis == Some(SearchAxis::Depth) {
            let engines = workload.jobs.iter().map(|job| {
                let blocks = job.work.blocks();
                blocks.map(|blocks| blocks.engine.kind)
            });
            let mut why = engines.filter_map(|engine| match engine {
                None => Some("only jobs of fio have a depth".to_owned()),
                Some(kind) if kind.synchronous() => {
                    Some(format!("{} does one op at a time", kind.name()))
                }
                Some(_) => None,
            });
            if let Some(why) = why.next() {
                let message = format!("`search.axis` cannot be \"iodepth\": {why}");
                let hint = "search `numjobs` or `rate_iops`";
                let at = own.at("axis").unwrap_or_default();
                self.report.error(at, message, hint);
            }
        }
        let until = own.text("until", self.report)?;
        let until = match Bound::parse(&until.value) {
            Ok(bound) => {
                if !is_metric_or_figure(&bound.metric) {
                    self.unknown_metric(&bound.metric, until.at);
                } else {
                    let metric = Located {
                        value: bound.metric.clone(),
                        at: until.at,
                    };
                    self.check_issued(&metric, std::slice::from_ref(workload));
                }
                Some(bound)
            }
            Err(why) => {
                self.report.plain_error(until.at, why);
                None
            }
        };
        let search = Search {
            axis: axis?,
            until: until?,
        };
        self.check_length(&search, workload, own.at("until").unwrap_or_default());
        Some(search)
    }

    /// Warns of a search whose trials are too short for the percentile that it bounds, at all but high rates.
    fn check_length(&mut self, search: &Search, workload: &Workload, at: Range<usize>) {
        /// A search goes down to low rates.
        const LOW: u64 = 100;
        let lengths = workload.jobs.iter().map(|job| job.end.runtime);
        let longest: Option<Vec<Nanos>> = lengths.collect();
        let (Some(ops), Some(longest)) = (search.ops_needed(), longest) else {
            return;
        };
        let Some(length) = longest.into_iter().max().filter(|length| length.0 > 0) else {
            return;
        };
        let needed = Nanos::from_secs(ops.div_ceil(LOW));
        if length >= needed {
            return;
        }
        let rate = ops as f64 / (length.0 as f64 / 1e9);
        let metric = &search.until.metric;
        let message = format!(
            "`{metric}` needs {ops} ops in a trial: with trials of {length}, it is not known below {} ops/s",
            rate.ceil()
        );
        let hint = format!("set `runtime` to {needed} or more for loads from {LOW} ops/s on");
        self.report.add(at, Diagnostic::warning(message).hint(hint));
    }
}
