//! Names of metrics.

use std::ops::Range;

use iodyno_model::{Direction, Metric, Workload};

use super::file::File;
use crate::check::Keyed;
use crate::document::Located;

/// Whether it is a metric, or one without its op: `p99`.
pub(super) fn is_metric_or_figure(name: &str) -> bool {
    let known = Metric::is_own;
    known(name) || known(&format!("{}.{name}", Direction::Read.name()))
}

impl File<'_, '_, '_> {
    /// Reports names in this key that no metric has.
    pub(super) fn check_metrics(&mut self, keyed: &Keyed<'_>, key: &str, known: fn(&str) -> bool) {
        let printed = self.printed.clone();
        let known = |name: &String| known(name) || printed.contains(name);
        let mut before: Vec<String> = Vec::new();
        for text in keyed.texts(key, self.report) {
            if before.contains(&text.value) {
                let message = format!("the metric `{}` is named twice", text.value);
                self.report.error(text.at.clone(), message, "leave one out");
            }
            before.push(text.value.clone());
            if text.value != Metric::EVERY && !known(&text.value) {
                self.unknown_metric(&text.value, text.at);
            }
        }
    }

    pub(super) fn unknown_metric(&mut self, name: &str, at: Range<usize>) {
        let message = format!("`{name}` is not a metric");
        let hint = format!("the metrics are: {}", Metric::NAMES);
        self.report.error(at, message, hint);
    }

    /// Reports a metric of an op that none of these workloads issues. Syncs are caused by several options, so they are
    /// not checked here; the comparison reports if there are none.
    pub(super) fn check_issued(&mut self, metric: &Located<String>, workloads: &[Workload]) {
        let Some((op, _)) = metric.value.split_once('.') else {
            return;
        };
        let sync = op == Direction::Sync.name();
        if !sync && Metric::is_own(&metric.value) && !workloads.iter().any(|it| it.issues(op)) {
            let message = format!("no job issues `{op}`: there is no `{}`", metric.value);
            let hint = "use a metric of an op that the jobs issue";
            self.report.error(metric.at.clone(), message, hint);
        }
    }
}
