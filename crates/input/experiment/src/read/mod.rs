//! Reads an experiment: the keys of the file, then every configuration and workload of the matrix.

mod compared;
mod file;
mod instances;
mod metrics;
mod search;
mod sections;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use iodyno_model::{Diagnostic, Fresh, Metric, Plan, Severity};

use crate::Experiment;
use crate::check::Keyed;
use crate::document::{Located, Node, Report, Table, Value, parse};
use crate::keys::FILE;
use crate::nodes::Nodes;
use crate::params::{As, Variables, mentions, parameters, replaced_entry, secrets};
use compared::{Sections, axes};
use file::File;

pub use file::Context;
pub use table::table_file;

/// Reads an experiment.
///
/// # Errors
/// All diagnostics, in the order of the text, with at least one error.
pub fn read(text: &str, context: &Context<'_>) -> Result<Experiment, Vec<Diagnostic>> {
    let mut report = Report::new(context.source, text);
    let mut faults = Vec::new();
    let found = File {
        context,
        report: &mut report,
        variables: Variables::new(),
        printed: Vec::new(),
        places: BTreeMap::new(),
    }
    .read(text, &mut faults);
    let failed = report.errors() > 0 || !faults.is_empty();
    faults.extend(report.into_diagnostics());
    match failed {
        true => {
            faults.retain(|it| it.severity == Severity::Error);
            Err(faults)
        }
        false => Ok(Experiment {
            warnings: faults,
            ..found
        }),
    }
}

/// Whether a text is an experiment, and not a workload of file operations. Its sections may be misspelt.
pub fn is_experiment(text: &str) -> bool {
    let mut report = Report::new("", text);
    let table = parse(text, &mut report);
    let starts = ["conf", "workload", "preset", "param", "node"];
    // A string without its end hides what follows.
    let first_word = |line: &'_ str| {
        let line = line.trim_start_matches(['[', ' ']);
        let end = line.find(|c: char| !c.is_alphanumeric());
        line[..end.unwrap_or(line.len())].to_owned()
    };
    let keys: Vec<String> = match report.broken {
        true => text.lines().map(first_word).collect(),
        false => table.entries.iter().map(|it| it.key.clone()).collect(),
    };
    let has = |starts: &[&str]| {
        let mut keys = keys.iter();
        keys.any(|key| starts.iter().any(|start| key.starts_with(start)))
    };
    has(&starts)
        && !keys
            .iter()
            .any(|key| ["cycle", "files"].contains(&key.as_str()))
}

impl File<'_, '_, '_> {
    fn read(mut self, text: &str, faults: &mut Vec<Diagnostic>) -> Experiment {
        let mut file = parse(text, self.report);
        self.refuse_destroy(&mut file);
        self.variables = parameters(&file, self.context.settings, self.report, faults);
        let own = self.own_keys(&file);
        let keyed = Keyed::new(&own, 0..0, "the experiment", FILE);
        keyed.check(self.report);
        let nodes = Nodes::read(&own, self.context.nodes, &self.variables, self.report);
        let before = self.report.errors();
        let configurations = self.configurations(&own, &nodes);
        let (workloads, primaries) = self.workloads(&own, &configurations, &nodes);
        let compare = self.check(
            &own,
            &keyed,
            &Sections {
                configurations: &configurations,
                workloads: &workloads,
                axes: axes(&own),
                whole: self.report.errors() == before,
            },
        );
        unused_parameters(&file, self.report);
        for entry in &own.entries {
            let place = self.report.place(entry.node.at.clone());
            self.places.insert(entry.key.clone(), place);
        }
        let text = |found: Option<Located<String>>| found.map(|it| it.value);
        let stem = Path::new(self.context.source).file_stem();
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        let report = &mut *self.report;
        Experiment {
            name: text(filled(&keyed, "name", report))
                .or(stem)
                .unwrap_or_default(),
            about: text(filled(&keyed, "about", report)),
            question: text(filled(&keyed, "question", report)),
            baseline: text(keyed.text("baseline", report)),
            compare,
            rounds: keyed.count("rounds", report).map(|rounds| rounds as u32),
            seed: keyed.count("seed", report),
            max_time: keyed.time("max_time", report),
            stop: keyed.percent("stop", report),
            aa: keyed.switch("aa", report).unwrap_or(false),
            probe: keyed.switch("probe", report).unwrap_or(false),
            retry: keyed.count("retry", report).unwrap_or(0) as u32,
            settle: keyed.switch("settle", report).unwrap_or(true),
            metrics: table::texts(&keyed, "metric", report),
            margin: keyed.percent("margin", report),
            fresh: match keyed.word("fresh", report) {
                Some("trial") => Fresh::Trial,
                Some("experiment") => Fresh::Experiment,
                _ => Fresh::Round,
            },
            primaries,
            table: table::of_experiment(&own).map(|keyed| table::layout(&keyed, report)),
            nodes: nodes.planned,
            configurations,
            workloads,
            places: self.places,
            secrets: secrets(&self.variables),
            warnings: Vec::new(),
        }
    }

    /// The keys of the file, in which parameters are replaced except in sections.
    fn own_keys(&mut self, file: &Table) -> Table {
        let sections = ["params", "preset", "node", "configuration", "workload"];
        let entries = file.entries.iter();
        let entries = entries.map(|entry| match sections.contains(&entry.key.as_str()) {
            true => entry.clone(),
            false => replaced_entry(entry, &self.variables, As::Value, self.report),
        });
        Table {
            entries: entries.collect(),
        }
    }

    /// Checks the keys that refer to sections. Returns the dimension that is compared.
    fn check(&mut self, own: &Table, keyed: &Keyed<'_>, sections: &Sections<'_>) -> Option<String> {
        if sections.axes.len() > Plan::MAX_DIMENSIONS {
            let (number, most) = (sections.axes.len(), Plan::MAX_DIMENSIONS);
            let message = format!("the experiment has {number} axes, at most {most}");
            let hint = "one axis can set several keys: give its values as tables";
            self.report.error(0..0, message, hint);
        }
        if sections.workloads.is_empty() && self.report.errors() == 0 {
            let hint = "add a line `[workload.NAME]`, then `fio = …`, `fs = …` or `fileio = …`";
            self.report
                .error(0..0, "the experiment has no workload", hint);
        }
        let compare = self.compare(keyed, sections);
        self.check_baseline(keyed, compare.as_deref(), sections);
        self.check_table(own, sections);
        self.check_metrics(keyed, "metric", Metric::is_own);
        if sections.whole {
            for metric in keyed.texts("metric", self.report) {
                self.check_issued(&metric, sections.workloads);
            }
        }
        compare
    }

    /// Permission to destroy data is never part of a file.
    fn refuse_destroy(&mut self, file: &mut Table) {
        let mut refuse = |table: &mut Table| {
            if let Some(entry) = table.remove("destroy") {
                let message =
                    "`destroy` cannot be part of a file: permission is given for one invocation";
                let hint = "give `--destroy PATH` on the command line, also with `--resume`";
                self.report.error(entry.key_at, message, hint);
            }
        };
        refuse(file);
        for entry in &mut file.entries {
            if let ("configuration" | "workload", Value::Table(sections)) =
                (entry.key.as_str(), &mut entry.node.value)
            {
                for section in &mut sections.entries {
                    if let Value::Table(table) = &mut section.node.value {
                        refuse(table);
                    }
                }
            }
        }
    }
}

/// Warns of parameters that no string mentions.
fn unused_parameters(file: &Table, report: &mut Report<'_>) {
    let declared = file.get("params").and_then(Node::as_table);
    let whole = Node {
        value: Value::Table(file.clone()),
        at: 0..0,
    };
    for entry in declared.map_or(&[][..], |table| &table.entries) {
        if !mentions(&whole, &entry.key) {
            let name = &entry.key;
            let warning = Diagnostic::warning(format!("the parameter `{name}` has no effect"))
                .hint(format!(
                    "use it in a string as `${{{name}}}`, or leave it out"
                ));
            report.add(entry.key_at.clone(), warning);
        }
    }
}

/// A text that is not empty.
fn filled(keyed: &Keyed<'_>, name: &str, report: &mut Report<'_>) -> Option<Located<String>> {
    let found = keyed.text(name, report)?;
    if found.value.trim().is_empty() {
        let hint = "leave it out, or write a text";
        report.error(found.at.clone(), format!("`{name}` is empty"), hint);
    }
    Some(found)
}
