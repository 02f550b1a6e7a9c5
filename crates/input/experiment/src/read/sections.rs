//! The configurations and workloads of an experiment.

use std::collections::BTreeMap;
use std::ops::Range;

use iodyno_model::{
    Bound, Configuration, Diagnostic, FilePolicy, Files, Metric, Provision, Stopping, Workload,
};

use super::file::File;
use super::instances::Instance;
use crate::check::Keyed;
use crate::command;
use crate::document::{Located, Node, Table, Value, instead, listed};
use crate::keys::{CONFIGURATION, WORKLOAD};
use crate::layers::{Options, target};
use crate::nodes::Nodes;
use crate::simulated::simulate;
use crate::workloads::{Reader, TOOLS, check_clients, check_passthrough, renamed};

impl File<'_, '_, '_> {
    pub(super) fn configurations(&mut self, file: &Table, nodes: &Nodes) -> Vec<Configuration> {
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

    /// The workloads, and the primary metric of each that names one.
    pub(super) fn workloads(
        &mut self,
        file: &Table,
        configurations: &[Configuration],
        nodes: &Nodes,
    ) -> (Vec<Workload>, Vec<(String, String)>) {
        let mut found: Vec<Workload> = Vec::new();
        let mut primaries = Vec::new();
        let mut families: Vec<(String, Range<usize>)> = Vec::new();
        self.printed = command::printed(file);
        for instance in self.instances(file, "workload", WORKLOAD) {
            let table = self.filled(&instance);
            let keyed = Keyed::new(&table, instance.whole.clone(), "a workload", WORKLOAD);
            keyed.check(self.report);
            let Some(tool) = self.tool(&keyed) else {
                continue;
            };
            if tool != "command" {
                command::refuse(&keyed, self.report);
            }
            let usual = self.usual(&instance, &keyed, configurations, nodes);
            let primary = self.primary(&keyed);
            for (name, workload) in self.work(&instance, &keyed, tool) {
                let others: Vec<&str> = found.iter().map(|other| other.name.as_str()).collect();
                self.unique(&name, &others, "workloads", &instance);
                let place = self.report.place(instance.at.clone());
                self.places.insert(format!("workload.{name}"), place);
                let workload = Workload {
                    name: name.clone(),
                    sources: workload.sources,
                    jobs: workload.jobs,
                    global_options: workload.global_options,
                    ..usual.clone()
                };
                let mut workload = renamed(workload, self.context.source);
                workload.search = self.search(&keyed, &workload);
                self.check_workload(&mut workload, &instance, &keyed, configurations, nodes);
                if let Some(primary) = &primary {
                    let place = self.report.place(primary.at.clone());
                    self.places.insert(format!("primary.{name}"), place);
                    primaries.push((name, primary.value.clone()));
                    self.check_issued(primary, std::slice::from_ref(&workload));
                }
                if let Some(family) = &workload.family {
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

    /// What the workloads of a section have in common.
    fn usual(
        &mut self,
        instance: &Instance,
        keyed: &Keyed<'_>,
        configurations: &[Configuration],
        nodes: &Nodes,
    ) -> Workload {
        self.same_axis(instance, configurations);
        let rounds = keyed.count("rounds", self.report);
        Workload {
            files: match keyed.word("files", self.report) {
                Some("shared") => FilePolicy::Shared,
                Some("rollback") => FilePolicy::Rollback,
                _ => FilePolicy::Own,
            },
            family: keyed.text("family", self.report).map(|text| text.value),
            only: self.only(keyed, configurations),
            nodes: nodes.named(keyed, self.report),
            dimensions: instance.dimensions.clone(),
            rounds: rounds.map(|rounds| rounds as u32),
            stopping: Stopping {
                least_rounds: 0,
                width: keyed.percent("stop", self.report),
                max_time_ns: keyed.time("max_time", self.report).map(|time| time.0),
            },
            ..Workload::new("", Vec::new(), Vec::new())
        }
    }

    /// The primary metric of a section.
    fn primary(&mut self, keyed: &Keyed<'_>) -> Option<Located<String>> {
        let primary = keyed.text("primary", self.report);
        self.check_metrics(keyed, "primary", Metric::is_own);
        if let (Some(primary), true) = (&primary, keyed.value("search").is_some()) {
            let message = "`primary` has no effect: the trials of a search are not compared";
            let hint = "leave it out: the bound is `search.until`";
            self.report.error(primary.at.clone(), message, hint);
        }
        primary
    }

    /// The work of a section. Several job files or operations have their own names, unless the section's name has
    /// theirs.
    fn work(
        &mut self,
        instance: &Instance,
        keyed: &Keyed<'_>,
        tool: &'static str,
    ) -> Vec<(String, Workload)> {
        let several = keyed.value(tool).is_some_and(|node| match &node.value {
            Value::Table(table) => table.get("names").and_then(Node::as_list).is_some(),
            value => matches!(value, Value::List(_)),
        });
        let job = match several {
            true => instance.name.clone(),
            false => self.name(instance, None),
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
        let work = reader.work(tool, &job, keyed);
        let placed = instance.name.contains("${");
        let named = work.into_iter().map(|(own, workload)| {
            let name = match own {
                Some(own) if several && !placed => own,
                own => self.name(instance, own.as_deref().map(|own| (tool, own))),
            };
            (name, workload)
        });
        named.collect()
    }

    /// Checks a workload against the configurations on which it runs. Adapts it to simulated ones and to its search.
    fn check_workload(
        &mut self,
        workload: &mut Workload,
        instance: &Instance,
        keyed: &Keyed<'_>,
        configurations: &[Configuration],
        nodes: &Nodes,
    ) {
        nodes.check_pair((workload, &instance.at), configurations, self.report);
        check_passthrough((workload, &instance.at), configurations, self.report);
        check_clients((workload, &instance.at), configurations, self.report);
        if configurations.iter().any(|it| it.simulated().is_some()) {
            simulate(workload, &instance.at, self.report);
        }
        match workload.files {
            FilePolicy::Own => {}
            FilePolicy::Shared => self.check_shared(keyed, workload),
            FilePolicy::Rollback => self.check_rollback(keyed, workload, configurations),
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
            let runs = workload.runs_on(configuration, configurations);
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
                let message = "a workload lacks `fio`, `fs`, `fileio` or `command`";
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
                let hint = instead(&text.value, &names, "the configurations are");
                let message = format!("unknown configuration `{}`", text.value);
                self.report.error(text.at.clone(), message, hint);
            }
            found.push(text.value);
        }
        found
    }
}
