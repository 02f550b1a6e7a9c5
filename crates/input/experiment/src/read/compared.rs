//! What is compared: the keys that refer to the sections.

use std::collections::BTreeSet;

use iodyno_model::{Configuration, Observation, Workload};

use super::file::File;
use super::metrics::is_metric_or_figure;
use super::table;
use crate::check::Keyed;
use crate::document::{Table, instead};

/// The dimensions of every trial besides its names and axes, where its jobs agree in them.
const DERIVED: [&str; 12] = [
    "run", "node", "mode", "rw", "bs", "engine", "depth", "direct", "jobs", "threads", "family",
    "instance",
];

/// The sections of a text, for the keys that refer to them.
pub(super) struct Sections<'a> {
    pub(super) configurations: &'a [Configuration],
    pub(super) workloads: &'a [Workload],
    /// The names of all axes, also of sections with errors.
    pub(super) axes: Vec<&'a str>,
    /// Whether no section has an error: others are missing above.
    pub(super) whole: bool,
}

impl Sections<'_> {
    /// The values of a dimension of a plan, in the order of the text.
    fn labels(&self, dimension: &str) -> Vec<&str> {
        let configurations = self.configurations.iter();
        // The trials of a search are not compared.
        let workloads = self.workloads.iter().filter(|it| it.search.is_none());
        let mut found: Vec<&str> = match dimension {
            Observation::CONFIGURATION => configurations.map(|it| it.name.as_str()).collect(),
            Observation::WORKLOAD => workloads.map(|it| it.name.as_str()).collect(),
            axis => {
                let configurations = configurations.map(|it| &it.dimensions);
                let all = configurations.chain(workloads.map(|it| &it.dimensions));
                all.filter_map(|axes| axes.get(axis).map(String::as_str))
                    .collect()
            }
        };
        let mut seen = BTreeSet::new();
        found.retain(|label| seen.insert(*label));
        found
    }
}

impl File<'_, '_, '_> {
    /// The dimension to compare, if it is one and has several values.
    pub(super) fn compare(&mut self, keyed: &Keyed<'_>, sections: &Sections<'_>) -> Option<String> {
        let found = keyed.text("compare", self.report)?;
        let mut names: Vec<&str> = [Observation::CONFIGURATION, Observation::WORKLOAD].into();
        names.extend(&sections.axes);
        if !names.contains(&found.value.as_str()) {
            let hint = instead(&found.value, &names, "there is");
            let message = format!("unknown axis `{}`", found.value);
            self.report.error(found.at, message, hint);
            return None;
        }
        let compared = sections.labels(&found.value);
        if let ([one], true) = (compared.as_slice(), sections.whole) {
            let message = format!("`{}` has one value, `{one}`", found.value);
            let hint = "compare an axis with several values";
            self.report.error(found.at, message, hint);
        }
        Some(found.value)
    }

    /// The dimensions of the closing table are those of trials: names, axes, and options of the work.
    pub(super) fn check_table(&mut self, file: &Table, sections: &Sections<'_>) {
        let Some(keyed) = table::of_experiment(file) else {
            return;
        };
        self.check_metrics(&keyed, "metric", is_metric_or_figure);
        if sections.whole {
            for metric in keyed.texts("metric", self.report) {
                self.check_issued(&metric, sections.workloads);
            }
        }
        let mut names = vec![Observation::WORKLOAD, Observation::CONFIGURATION];
        names.extend(&sections.axes);
        let known = |name: &str| names.contains(&name) || DERIVED.contains(&name);
        table::check_dimensions(&keyed, &names, known, self.report);
    }

    pub(super) fn check_baseline(
        &mut self,
        keyed: &Keyed<'_>,
        compare: Option<&str>,
        sections: &Sections<'_>,
    ) {
        let Some(baseline) = keyed.text("baseline", self.report) else {
            return;
        };
        // Without configurations here, `--on` names them.
        let what = match (compare, sections.configurations.len()) {
            (Some(compare), _) => compare,
            (None, 1) => Observation::WORKLOAD,
            (None, _) => Observation::CONFIGURATION,
        };
        let names = sections.labels(what);
        // It may be a value of a workload that has errors.
        let of_axis = ![Observation::WORKLOAD, Observation::CONFIGURATION].contains(&what);
        if names.is_empty() || of_axis && !sections.whole {
            return;
        }
        if !names.contains(&baseline.value.as_str()) {
            let hint = instead(&baseline.value, &names, "there is");
            let message = match what {
                Observation::WORKLOAD | Observation::CONFIGURATION => {
                    format!("the baseline `{}` is not a {what}", baseline.value)
                }
                axis => format!(
                    "the baseline `{}` is not a value of `{axis}`",
                    baseline.value
                ),
            };
            self.report.error(baseline.at, message, hint);
        }
    }
}

/// The names of the axes of all sections.
pub(super) fn axes(file: &Table) -> Vec<&str> {
    let kinds = ["configuration", "workload"].into_iter();
    let sections = kinds.filter_map(|kind| file.get(kind)?.as_table());
    let sections = sections.flat_map(|sections| &sections.entries);
    let axes = sections.filter_map(|section| section.node.as_table()?.get("axis")?.as_table());
    let mut names: Vec<&str> = Vec::new();
    for axis in axes.flat_map(|axes| &axes.entries) {
        if !names.contains(&axis.key.as_str()) {
            names.push(&axis.key);
        }
    }
    names
}
