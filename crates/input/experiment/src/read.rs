//! Reads an experiment: the keys of the file, then every configuration and workload of the matrix.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use crate::document::{Entry, Located, Node, Report, Table, Value, listed, parse};
use iodyno_fio::Host;
use iodyno_model::{
    BandwidthUnit, Bound, ClosingTable, Configuration, Diagnostic, Direction, FilePolicy, Files,
    Fresh, Metric, Observation, Place, Plan, PlannedNode, Provision, Search, SearchAxis, Severity,
    Stopping, Workload, closest,
};
use iodyno_units::Nanos;

use crate::Experiment;
use crate::check::{Keyed, named_hint, scalars};
use crate::keys::{CONFIGURATION, FILE, Key, WORKLOAD};
use crate::layers::{Options, target};
use crate::matrix::{Combination, combinations};
use crate::nodes::Nodes;
use crate::params::{
    As, Variable, Variables, mentions, parameters, replaced, replaced_entry, replaced_table,
    secrets,
};
use crate::simulated::simulate;
use crate::workloads::{
    Reader, TOOLS, check_clients, check_passthrough, ignored_option, is_option, renamed,
};

/// What a text is read with.
pub struct Context<'a> {
    /// The name of the text in messages; job files are relative to its folder.
    pub source: &'a str,
    /// The current folder: relative targets start here.
    pub folder: &'a Path,
    /// `--set NAME=VALUE`: parameters, and `scale` for a preset.
    pub settings: &'a [(String, String)],
    /// `--node NAME=ADDRESS`: the nodes, or the addresses of those of the text.
    pub nodes: &'a [PlannedNode],
    /// Reads job files.
    pub host: &'a dyn Host,
}

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
        places: BTreeMap::new(),
    }
    .read(text, &mut faults);
    let failed = report.errors() > 0 || !faults.is_empty();
    faults.extend(report.into_diagnostics());
    match failed {
        true => {
            faults.retain(|said| said.severity == Severity::Error);
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
    let table = parse(text, &mut Report::new("", text));
    let own = ["cycle", "files"];
    let starts = ["conf", "workload", "preset", "param", "node"];
    let mut keys = table.entries.iter().map(|entry| entry.key.as_str());
    keys.any(|key| starts.iter().any(|start| key.starts_with(start)))
        && !own.iter().any(|key| table.get(key).is_some())
}

/// The dimensions of every trial besides its names and axes, where its jobs agree in them.
const DERIVED: [&str; 11] = [
    "run", "mode", "rw", "bs", "engine", "depth", "direct", "jobs", "threads", "family", "instance",
];

/// The dimensions of every trial that are no options of its work: an axis with such a name would replace them.
const NAMES: [&str; 7] = [
    "run",
    "configuration",
    "workload",
    "node",
    "family",
    "instance",
    "mode",
];

/// Whether it is a metric, or one without its op: `p99`.
fn is_metric_or_figure(name: &str) -> bool {
    let known = Metric::is_own;
    known(name) || known(&format!("{}.{name}", Direction::Read.name()))
}

struct File<'c, 'r, 't> {
    context: &'c Context<'c>,
    report: &'r mut Report<'t>,
    /// The parameters.
    variables: Variables,
    /// As in [`Experiment::places`].
    places: BTreeMap<String, Place>,
}

/// A configuration or workload: its name, its table without the axes, and the labels of its axes.
struct Instance {
    /// Where its name is written.
    at: Range<usize>,
    name: String,
    table: Table,
    /// The table's location.
    whole: Range<usize>,
    /// Options of axes that are not keys of the table.
    options: Vec<Entry>,
    dimensions: BTreeMap<String, String>,
    /// Parameters and axes.
    variables: Variables,
}

impl File<'_, '_, '_> {
    fn read(mut self, text: &str, faults: &mut Vec<Diagnostic>) -> Experiment {
        let mut file = parse(text, self.report);
        self.refuse_destroy(&mut file);
        self.variables = parameters(&file, self.context.settings, self.report, faults);
        let sections = ["params", "preset", "node", "configuration", "workload"];
        let mut own = Table::default();
        for entry in &file.entries {
            own.entries
                .push(match sections.contains(&entry.key.as_str()) {
                    true => entry.clone(),
                    false => replaced_entry(entry, &self.variables, As::Value, self.report),
                });
        }
        let keyed = Keyed::new(&own, 0..0, "the experiment", FILE);
        keyed.check(self.report);
        let nodes = Nodes::read(&own, self.context.nodes, &self.variables, self.report);
        let before = self.report.errors();
        let configurations = self.configurations(&own, &nodes);
        let (workloads, primaries) = self.workloads(&own, &configurations, &nodes);
        let sections = Sections {
            configurations: &configurations,
            workloads: &workloads,
            axes: axes(&own),
            whole: self.report.errors() == before,
        };
        if sections.axes.len() > Plan::MAX_DIMENSIONS {
            let (number, most) = (sections.axes.len(), Plan::MAX_DIMENSIONS);
            let message = format!("the experiment has {number} axes, at most {most}");
            let hint = "one axis can set several keys: give its values as tables";
            self.report.error(0..0, message, hint);
        }
        if workloads.is_empty() && self.report.errors() == 0 {
            let hint = "add a line `[workload.NAME]`, then `fio = …`, `fs = …` or `fileio = …`";
            self.report
                .error(0..0, "the experiment has no workload", hint);
        }
        let compare = self.compare(&keyed, &sections);
        self.check_baseline(&keyed, compare.as_deref(), &sections);
        self.check_table(&own, &sections);
        self.check_metrics(&keyed, "metric", Metric::is_own);
        if sections.whole {
            for metric in keyed.texts("metric", self.report) {
                self.check_issued(&metric, &workloads);
            }
        }
        unused_parameters(&file, self.report);
        for entry in &own.entries {
            let place = self.report.place(entry.node.at.clone());
            self.places.insert(entry.key.clone(), place);
        }
        let text = |found: Option<crate::document::Located<String>>| found.map(|it| it.value);
        let stem = Path::new(self.context.source).file_stem();
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        let report = &mut *self.report;
        Experiment {
            name: text(keyed.text("name", report))
                .or(stem)
                .unwrap_or_default(),
            about: text(keyed.text("about", report)),
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
            metrics: texts(&keyed, "metric", report),
            margin: keyed.percent("margin", report),
            fresh: match keyed.word("fresh", report) {
                Some("trial") => Fresh::Trial,
                Some("experiment") => Fresh::Experiment,
                _ => Fresh::Round,
            },
            primaries,
            table: closing_table(&own, report),
            nodes: nodes.planned,
            configurations,
            workloads,
            places: self.places,
            secrets: secrets(&self.variables),
            warnings: Vec::new(),
        }
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

    /// The instances of the sections of a kind, each for one combination of its axes.
    fn instances(&mut self, file: &Table, kind: &str, keys: &'static [Key]) -> Vec<Instance> {
        let mut found = Vec::new();
        let sections = file.get(kind).and_then(crate::document::Node::as_table);
        for section in sections.map_or(&[][..], |table| &table.entries) {
            let Some(table) = section.node.as_table() else {
                let message = format!(
                    "`{kind}.{}` is not a {kind} with its name, but {}",
                    section.key,
                    section.node.value.in_words()
                );
                self.report
                    .error(section.node.at.clone(), message, named_hint(kind));
                continue;
            };
            // Wrong kinds of `axis`, `zip` and `exclude` are reported here; the rest with its values.
            let mut matrix = table.clone();
            matrix
                .entries
                .retain(|entry| ["axis", "zip", "exclude"].contains(&entry.key.as_str()));
            Keyed::new(&matrix, section.node.at.clone(), "a section", keys).check(self.report);
            let matrix = replaced_table(&matrix, &self.variables, As::Value, self.report);
            for combination in combinations(&matrix, self.report) {
                found.push(self.instance(section, table, combination, keys));
            }
        }
        found
    }

    fn instance(
        &mut self,
        section: &Entry,
        table: &Table,
        combination: Combination,
        keys: &'static [Key],
    ) -> Instance {
        let mut table = table.clone();
        let axes = table.get("axis").and_then(crate::document::Node::as_table);
        let axes: Vec<String> = axes.map_or(Vec::new(), |axes| {
            let names = axes.entries.iter().map(|axis| axis.key.clone());
            names.collect()
        });
        for key in ["axis", "zip", "exclude"] {
            table.remove(key);
        }
        let tool = TOOLS.into_iter().find(|tool| table.get(tool).is_some());
        let mut variables = self.variables.clone();
        let mut options: Vec<Entry> = Vec::new();
        let mut dimensions = BTreeMap::new();
        for axis in axes {
            // A faulty axis was reported.
            let value = Value::Text(String::new());
            let label = String::new();
            variables.insert(axis, Variable { value, label });
        }
        // The keys that axes set, each with its axis.
        let mut set: Vec<(String, String)> = Vec::new();
        for point in combination {
            if NAMES.contains(&point.axis.as_str()) {
                let message = format!("an axis cannot be named `{}`", point.axis);
                let hint = "each trial has this dimension already: choose another name";
                self.report.error(point.at.clone(), message, hint);
            }
            if self.variables.contains_key(&point.axis) {
                let message = format!("`{}` is both a parameter and an axis", point.axis);
                self.report
                    .error(point.at.clone(), message, "rename one of them");
            }
            dimensions.insert(point.axis.clone(), point.label.clone());
            let variable = Variable {
                value: point.entry.node.value.clone(),
                label: point.label.clone(),
            };
            variables.insert(point.axis.clone(), variable);
            let whole = section.node.clone();
            let mut apply = |entry: Entry, table: &mut Table| {
                let (first, rest) = match entry.key.split_once('.') {
                    Some((first, rest)) => (first.to_owned(), Some(rest.to_owned())),
                    None => (entry.key.clone(), None),
                };
                let is_key = keys.iter().any(|key| key.name == first);
                if is_key || tool.is_some_and(|tool| is_option(tool, &entry.key)) {
                    let of_entry = Table {
                        entries: vec![entry.clone()],
                    };
                    for (leaf, _) in scalars(&of_entry, "", self.report) {
                        let other = set
                            .iter()
                            .find(|(key, axis)| *key == leaf.key && *axis != point.axis);
                        if let Some((key, axis)) = other {
                            let message =
                                format!("the axes `{axis}` and `{}` both set `{key}`", point.axis);
                            let hint = "leave it out of one of them, or make one axis of both";
                            self.report.error(point.at.clone(), message, hint);
                        }
                        set.push((leaf.key, point.axis.clone()));
                    }
                }
                if is_key {
                    table.set(match rest {
                        None => entry,
                        Some(rest) => nested(first, rest, entry),
                    });
                } else if tool.is_some_and(|tool| is_option(tool, &entry.key)) {
                    let ignored = tool.and_then(|tool| ignored_option(tool, &entry.key));
                    // An axis of several keys may set some that have an effect.
                    if let Some(why) = ignored
                        && point.entry.node.as_table().is_none()
                        && !mentions(&whole, &point.axis)
                    {
                        let axis = &point.axis;
                        let message = format!(
                            "the axis `{axis}` has no effect: the option is ignored, {why}"
                        );
                        let hint = format!("name another option, or use `${{{axis}}}` in a value");
                        self.report.error(point.at.clone(), message, hint);
                    }
                    options.push(entry);
                } else if entry.node.as_table().is_some() || !mentions(&whole, &point.axis) {
                    let message = format!(
                        "the axis `{}` has no effect: `{}` is not a key",
                        point.axis, entry.key
                    );
                    let hint = match keys.iter().map(|key| key.name).find(|_| tool.is_none()) {
                        Some(_) => format!(
                            "use `${{{}}}` in a value, or name a key, such as `axis.\"zfs.sync\"`",
                            point.axis
                        ),
                        None => format!(
                            "name an option of `{}`, or use `${{{}}}` in a value",
                            tool.unwrap_or("fio"),
                            point.axis
                        ),
                    };
                    let at = match point.entry.node.as_table() {
                        Some(_) => entry.key_at,
                        None => point.at.clone(),
                    };
                    self.report.error(at, message, hint);
                }
            };
            match &point.entry.node.value {
                Value::Table(several) => {
                    for entry in &several.entries {
                        apply(entry.clone(), &mut table);
                    }
                }
                _ => apply(point.entry.clone(), &mut table),
            }
        }
        Instance {
            at: section.key_at.clone(),
            name: section.key.clone(),
            table,
            whole: section.node.at.clone(),
            options,
            dimensions,
            variables,
        }
    }

    /// The table of an instance with its parameters and axes replaced. Names of families and configurations get labels.
    fn filled(&mut self, instance: &Instance) -> Table {
        let mut table = instance.table.clone();
        for entry in &mut table.entries {
            let how = match entry.key.as_str() {
                "family" | "only" => As::Label,
                _ => As::Value,
            };
            *entry = replaced_entry(entry, &instance.variables, how, self.report);
        }
        table
    }

    /// The name of an instance, with further variables.
    fn name(&mut self, instance: &Instance, also: Option<(&str, &str)>) -> String {
        let mut variables = instance.variables.clone();
        if let Some((name, label)) = also {
            let value = Value::Text(label.to_owned());
            let label = label.to_owned();
            variables
                .entry(name.to_owned())
                .or_insert(Variable { value, label });
        }
        let node = crate::document::Node {
            value: Value::Text(instance.name.clone()),
            at: instance.at.clone(),
        };
        let name = replaced(&node, &variables, As::Label, self.report);
        let name = name.as_text().unwrap_or_default().to_owned();
        if name.is_empty() || name.chars().any(|c| c.is_control() || "[]".contains(c)) {
            let hint = "it has at least one character, and neither brackets nor control characters";
            self.report.error(
                instance.at.clone(),
                format!("{name:?} cannot be a name"),
                hint,
            );
            self.report.reported(instance.at.clone());
            return "unnamed".to_owned();
        }
        name
    }

    fn unique(&mut self, name: &str, others: &[&str], what: &str, instance: &Instance) {
        if !others.contains(&name) {
            return;
        }
        let axes: Vec<String> = instance
            .dimensions
            .keys()
            .map(|axis| format!("${{{axis}}}"))
            .collect();
        let hint = match axes.is_empty() {
            true => "give each its own name".to_owned(),
            false => format!(
                "use the axes in the name: `\"{}{}\"`",
                instance.name,
                axes.concat()
            ),
        };
        let message = format!("two {what} are named `{name}`");
        self.report.error(instance.at.clone(), message, hint);
    }

    fn configurations(&mut self, file: &Table, nodes: &Nodes) -> Vec<Configuration> {
        let mut found: Vec<Configuration> = Vec::new();
        let mut sections: BTreeMap<usize, Options> = BTreeMap::new();
        for instance in self.instances(file, "configuration", CONFIGURATION) {
            let table = self.filled(&instance);
            let keyed = Keyed::new(
                &table,
                instance.whole.clone(),
                "a configuration",
                CONFIGURATION,
            );
            keyed.check(self.report);
            let name = self.name(&instance, None);
            let others: Vec<&str> = found.iter().map(|other| other.name.as_str()).collect();
            self.unique(&name, &others, "configurations", &instance);
            let options = sections.entry(instance.at.start).or_default();
            let made = target(&keyed, self.context.folder, options, self.report);
            // After an error, any target that causes no further error is suitable.
            let at = keyed.value("target").or(keyed.value("layers"));
            let at = at.map_or(instance.at, |node| node.at.clone());
            let place = self.report.place(at.clone());
            self.places.insert(format!("configuration.{name}"), place);
            let made = made.unwrap_or(iodyno_model::Target::Path(self.context.folder.into()));
            let configuration = Configuration {
                nodes: nodes.named(&keyed, self.report),
                dimensions: instance.dimensions,
                ..Configuration::new(name, made)
            };
            if let Some(other) = found.first()
                && other.simulated().is_some() != configuration.simulated().is_some()
            {
                let message = format!(
                    "`{}` and `{}` are simulated and real storage",
                    other.name, configuration.name
                );
                let hint =
                    "use an experiment for each, and compare their runs with `iodyno compare`";
                self.report.error(at, message, hint);
            }
            found.push(configuration);
        }
        for options in sections.values() {
            options.check(self.report);
        }
        found
    }

    fn workloads(
        &mut self,
        file: &Table,
        configurations: &[Configuration],
        nodes: &Nodes,
    ) -> (Vec<Workload>, Vec<(String, String)>) {
        let mut found: Vec<Workload> = Vec::new();
        let mut primaries = Vec::new();
        let mut families: Vec<(String, Range<usize>)> = Vec::new();
        let simulated = configurations.iter().any(|it| it.simulated().is_some());
        for instance in self.instances(file, "workload", WORKLOAD) {
            let table = self.filled(&instance);
            let keyed = Keyed::new(&table, instance.whole.clone(), "a workload", WORKLOAD);
            keyed.check(self.report);
            let Some(tool) = self.tool(&keyed) else {
                continue;
            };
            let files = match keyed.word("files", self.report) {
                Some("shared") => FilePolicy::Shared,
                Some("rollback") => FilePolicy::Rollback,
                _ => FilePolicy::Own,
            };
            let family = keyed.text("family", self.report).map(|text| text.value);
            self.same_axis(&instance, configurations);
            let several = keyed.value(tool).is_some_and(|node| match &node.value {
                Value::Table(table) => {
                    let names = table.get("names");
                    names.is_some_and(|names| names.as_list().is_some())
                }
                value => matches!(value, Value::List(_)),
            });
            let job = match several {
                true => instance.name.clone(),
                false => self.name(&instance, None),
            };
            let duration = keyed.time("duration", self.report);
            let mut reader = Reader {
                source: self.context.source,
                host: self.context.host,
                options: &instance.options,
                duration,
                duration_at: keyed.at("duration").unwrap_or_default(),
                report: self.report,
            };
            let work = reader.work(tool, &job, &keyed);
            let only = self.only(&keyed, configurations);
            let own_nodes = nodes.named(&keyed, self.report);
            let primary = keyed.text("primary", self.report);
            self.check_metrics(&keyed, "primary", Metric::is_own);
            if let (Some(primary), true) = (&primary, keyed.value("search").is_some()) {
                let message = "`primary` has no effect: the trials of a search are not compared";
                let hint = "leave it out: the bound is `search.until`";
                self.report.error(primary.at.clone(), message, hint);
            }
            for (own, workload) in work {
                // Several job files or operations have their own names, unless the section's name has theirs.
                let placed = instance.name.contains("${");
                let name = match (several, &own) {
                    (true, Some(own)) if !placed => own.clone(),
                    (_, own) => {
                        let also = own.as_deref().map(|own| (tool, own));
                        self.name(&instance, also)
                    }
                };
                let others: Vec<&str> = found.iter().map(|other| other.name.as_str()).collect();
                self.unique(&name, &others, "workloads", &instance);
                let place = self.report.place(instance.at.clone());
                self.places.insert(format!("workload.{name}"), place);
                if let Some(primary) = &primary {
                    let place = self.report.place(primary.at.clone());
                    self.places.insert(format!("primary.{name}"), place);
                    primaries.push((name.clone(), primary.value.clone()));
                }
                let mut workload = renamed(workload, &name, self.context.source);
                workload.family = family.clone();
                workload.files = files;
                workload.only = only.clone();
                workload.nodes = own_nodes.clone();
                nodes.check_pair((&workload, &instance.at), configurations, self.report);
                check_passthrough((&workload, &instance.at), configurations, self.report);
                check_clients((&workload, &instance.at), configurations, self.report);
                workload.dimensions = instance.dimensions.clone();
                workload.rounds = keyed
                    .count("rounds", self.report)
                    .map(|rounds| rounds as u32);
                workload.stopping = Stopping {
                    least_rounds: 0,
                    width: keyed.percent("stop", self.report),
                    max_time_ns: keyed.time("max_time", self.report).map(|time| time.0),
                };
                workload.search = self.search(&keyed, &workload);
                if simulated {
                    simulate(&mut workload, &instance.at, self.report);
                }
                if let Some(primary) = &primary {
                    self.check_issued(primary, std::slice::from_ref(&workload));
                }
                if files == FilePolicy::Shared {
                    self.check_shared(&keyed, &workload);
                }
                let until = workload.search.as_ref().map(|search| &search.until);
                if let Some(percent) = until.and_then(Bound::percentile) {
                    for job in &mut workload.jobs {
                        let percentiles = &mut job.reporting.percentiles;
                        if !percentiles.contains(&percent) {
                            percentiles.push(percent);
                        }
                    }
                }
                if files == FilePolicy::Rollback {
                    self.check_rollback(&keyed, &workload, configurations);
                }
                if let Some(family) = &family {
                    families.push((family.clone(), keyed.at("family").unwrap_or_default()));
                }
                found.push(workload);
            }
        }
        for (family, at) in &families {
            if families.iter().filter(|(other, _)| other == family).count() == 1 {
                let message = format!("the family `{family}` has a single workload");
                let hint = "its verdict is that of the workload; check the name";
                self.report
                    .add(at.clone(), Diagnostic::warning(message).hint(hint));
            }
        }
        (found, primaries)
    }

    /// An axis is a dimension of trials, which have one value of it.
    fn same_axis(&mut self, instance: &Instance, configurations: &[Configuration]) {
        for axis in instance.dimensions.keys() {
            if configurations
                .iter()
                .any(|it| it.dimensions.contains_key(axis))
            {
                let message = format!("both a configuration and a workload have the axis `{axis}`");
                self.report
                    .error(instance.at.clone(), message, "rename one of them");
            }
        }
    }

    /// Only files whose names do not depend on the trial or the job can be shared.
    fn check_shared(&mut self, keyed: &Keyed<'_>, workload: &Workload) {
        let at = keyed.at("files").unwrap_or_default();
        let mut jobs = workload.jobs.iter();
        if jobs.clone().all(|job| job.work.file_operations().is_some()) {
            let message = "`files` has no effect: file operations create their files in each trial";
            self.report.error(at, message, "leave it out");
            return;
        }
        let usual = Files::default().format;
        let own_names = jobs.any(|job| {
            let files = job.work.blocks().map(|blocks| &blocks.files);
            files.is_some_and(|files| {
                files.names.is_empty() && files.format != usual && files.format.contains("$jobname")
            })
        });
        if own_names && workload.family.is_some() {
            let message = "the workloads of the family cannot share files: `filename_format` contains `$jobname`";
            let hint = "leave `$jobname` out of it, or remove `files = \"shared\"`";
            self.report.error(at, message, hint);
        }
    }

    /// Reports a metric of an op that none of these workloads issues. Syncs are caused by several options, so they are
    /// not checked here; the comparison reports if there are none.
    fn check_issued(&mut self, metric: &Located<String>, workloads: &[Workload]) {
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

    /// Only storage with snapshots can be rolled back. Without configurations here, `--on` names them.
    fn check_rollback(
        &mut self,
        keyed: &Keyed<'_>,
        workload: &Workload,
        configurations: &[Configuration],
    ) {
        let at = keyed.at("files").unwrap_or_default();
        for configuration in configurations {
            let has_snapshots = configuration
                .provision()
                .is_some_and(Provision::has_snapshots);
            let runs = workload.only.is_empty() || workload.only.contains(&configuration.name);
            if runs && !has_snapshots {
                let message = format!("the target of `{}` has no snapshots", configuration.name);
                let hint = "`files = \"rollback\"` needs `zfs` or `btrfs` as the top layer";
                self.report.error(at.clone(), message, hint);
            }
        }
    }

    /// The only tool of a workload.
    fn tool(&mut self, keyed: &Keyed<'_>) -> Option<&'static str> {
        let given: Vec<&'static str> = TOOLS
            .into_iter()
            .filter(|tool| keyed.value(tool).is_some())
            .collect();
        match given.as_slice() {
            [tool] => Some(tool),
            // It may be in the part that is not valid TOML.
            [] if self.report.broken => None,
            [] => {
                let message = format!("a workload lacks {}", "`fio`, `fs` or `fileio`");
                let hint = "add one of them, such as `fs = \"create_empty\"`";
                self.report.error(keyed.whole(), message, hint);
                None
            }
            [_, second, ..] => {
                let message = format!("a workload has {}", listed(&given));
                let at = keyed.at(second).unwrap_or_default();
                self.report
                    .error(at, message, "give one of them; make a workload for each");
                None
            }
        }
    }

    fn only(&mut self, keyed: &Keyed<'_>, configurations: &[Configuration]) -> Vec<String> {
        let names: Vec<&str> = configurations.iter().map(|it| it.name.as_str()).collect();
        let mut found = Vec::new();
        let empty = |node: &&Node| node.as_list().is_some_and(<[Node]>::is_empty);
        if let Some(node) = keyed.value("only").filter(empty) {
            let hint = "name configurations, or leave it out: then it runs on all";
            self.report.error(node.at.clone(), "`only` is empty", hint);
        }
        for text in keyed.texts("only", self.report) {
            if !names.contains(&text.value.as_str()) {
                let hint = match closest(&text.value, names.iter().copied()) {
                    Some(near) => format!("did you mean `\"{near}\"`?"),
                    None => format!("the configurations are {}", listed(&names)),
                };
                let message = format!("unknown configuration `{}`", text.value);
                self.report.error(text.at.clone(), message, hint);
            }
            found.push(text.value);
        }
        found
    }

    fn search(&mut self, keyed: &Keyed<'_>, workload: &Workload) -> Option<Search> {
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

    /// The dimension to compare, if it is one and has several values.
    fn compare(&mut self, keyed: &Keyed<'_>, sections: &Sections<'_>) -> Option<String> {
        let found = keyed.text("compare", self.report)?;
        let mut names: Vec<&str> = [Observation::CONFIGURATION, Observation::WORKLOAD].into();
        names.extend(&sections.axes);
        if !names.contains(&found.value.as_str()) {
            let hint = match closest(&found.value, names.iter().copied()) {
                Some(near) => format!("did you mean `\"{near}\"`?"),
                None => format!("there is {}", listed(&names)),
            };
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

    /// Reports names in this key that no metric has.
    fn check_metrics(&mut self, keyed: &Keyed<'_>, key: &str, known: fn(&str) -> bool) {
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

    fn unknown_metric(&mut self, name: &str, at: Range<usize>) {
        let message = format!("`{name}` is not a metric");
        let hint = format!("the metrics are: {}", Metric::NAMES);
        self.report.error(at, message, hint);
    }

    /// The dimensions of the closing table are those of trials: names, axes, and options of the work.
    fn check_table(&mut self, file: &Table, sections: &Sections<'_>) {
        let Some((node, table)) = file
            .get("table")
            .and_then(|node| Some((node, node.as_table()?)))
        else {
            return;
        };
        let mut names = vec![Observation::WORKLOAD, Observation::CONFIGURATION];
        names.extend(&sections.axes);
        let keyed = Keyed::within(table, node.at.clone(), "table", crate::keys::TABLE);
        self.check_metrics(&keyed, "metric", is_metric_or_figure);
        if sections.whole {
            for metric in keyed.texts("metric", self.report) {
                self.check_issued(&metric, sections.workloads);
            }
        }
        for key in ["rows", "columns"] {
            for text in keyed.texts(key, self.report) {
                let name = text.value.as_str();
                if !names.contains(&name) && !DERIVED.contains(&name) {
                    let hint = match closest(name, names.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("the dimensions are {}", listed(&names)),
                    };
                    let message = format!("`{name}` is not a dimension of the trials");
                    self.report.error(text.at, message, hint);
                }
            }
        }
    }

    fn check_baseline(
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
            let hint = match closest(&baseline.value, names.iter().copied()) {
                Some(near) => format!("did you mean `\"{near}\"`?"),
                None => format!("there is {}", listed(&names)),
            };
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

/// The sections of a text, for the keys that refer to them.
struct Sections<'a> {
    configurations: &'a [Configuration],
    workloads: &'a [Workload],
    /// The names of all axes, also of sections with errors.
    axes: Vec<&'a str>,
    /// Whether no section has an error: others are missing above.
    whole: bool,
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

/// The names of the axes of all sections.
fn axes(file: &Table) -> Vec<&str> {
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

/// Warns of parameters that no string mentions.
fn unused_parameters(file: &Table, report: &mut Report<'_>) {
    let declared = file.get("params").and_then(crate::document::Node::as_table);
    let whole = crate::document::Node {
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

/// `a.b.c = value` as tables.
fn nested(first: String, rest: String, entry: Entry) -> Entry {
    let inner = match rest.split_once('.') {
        Some((next, rest)) => nested(next.to_owned(), rest.to_owned(), entry.clone()),
        None => Entry {
            key: rest,
            ..entry.clone()
        },
    };
    Entry {
        key: first,
        node: crate::document::Node {
            at: entry.node.at.clone(),
            value: Value::Table(Table {
                entries: vec![inner],
            }),
        },
        ..entry
    }
}

fn texts(keyed: &Keyed<'_>, name: &str, report: &mut Report<'_>) -> Vec<String> {
    let found = keyed.texts(name, report).into_iter();
    found.map(|text| text.value).collect()
}

fn closing_table(file: &Table, report: &mut Report<'_>) -> Option<ClosingTable> {
    let node = file.get("table")?;
    let table = node.as_table()?;
    let keyed = Keyed::within(table, node.at.clone(), "table", crate::keys::TABLE);
    Some(ClosingTable {
        title: keyed
            .text("title", report)
            .map(|text| text.value)
            .unwrap_or_default(),
        rows: texts(&keyed, "rows", report),
        columns: texts(&keyed, "columns", report),
        metrics: texts(&keyed, "metric", report),
        unit: match keyed.word("unit", report) {
            Some("MB/s") => BandwidthUnit::Decimal,
            Some("MiB/s") => BandwidthUnit::Binary,
            _ => BandwidthUnit::Scaled,
        },
        digits: keyed.count("digits", report).map(|digits| digits as u32),
        regret: keyed.switch("regret", report).unwrap_or_default(),
    })
}
