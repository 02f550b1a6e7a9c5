//! The nodes of an experiment, and those that a configuration or a workload names.

use std::ops::Range;

use crate::document::{Node, Report, Table, instead, listed, wrong};
use iodyno_model::{Configuration, NodeAddress, PlannedNode, Target, Workload, nodes_of};

use crate::check::{Keyed, named_hint};
use crate::keys::NODE;
use crate::params::{As, Variables, replaced_table};

/// The nodes of the text and of the command line.
pub(crate) struct Nodes {
    pub(crate) planned: Vec<PlannedNode>,
}

impl Nodes {
    /// Reads the sections of nodes. `given`: the nodes of the command line, which take the place of those with their
    /// names; without sections, they are the nodes.
    pub(crate) fn read(
        file: &Table,
        given: &[PlannedNode],
        variables: &Variables,
        report: &mut Report<'_>,
    ) -> Nodes {
        let sections = file.get("node").and_then(Node::as_table);
        let Some(sections) = sections else {
            let planned = given.to_vec();
            return Nodes { planned };
        };
        let mut planned: Vec<PlannedNode> = Vec::new();
        for section in &sections.entries {
            let name = &section.key;
            let Some(table) = section.node.as_table() else {
                let message = wrong(&format!("node.{name}"), "a table", &section.node);
                report.error(section.node.at.clone(), message, named_hint("node"));
                continue;
            };
            let table = replaced_table(table, variables, As::Value, report);
            let keyed = Keyed::new(&table, section.node.at.clone(), "a node", NODE);
            keyed.check(report);
            if let Some(fault) = PlannedNode::name_fault(name) {
                let message = format!("{name:?} cannot be the name of a node: it {fault}");
                report.plain_error(section.key_at.clone(), message);
            }
            let at = address(name, given, &keyed, report);
            let sudo = keyed.switch("sudo", report).unwrap_or(false);
            if sudo && matches!(at.parse(), Ok(NodeAddress::Local | NodeAddress::Fio(None))) {
                let message = format!("`sudo` has no effect on `{name}`, which is this host");
                let place = keyed.at("sudo").unwrap_or_default();
                report.error(
                    place,
                    message,
                    "leave it out, and run iodyno itself as root",
                );
            }
            planned.push(PlannedNode {
                name: name.clone(),
                at,
                sudo,
                only_sampled: !keyed.switch("jobs", report).unwrap_or(true),
                program: None,
            });
        }
        for node in given {
            if !planned.iter().any(|known| known.name == node.name) {
                let names: Vec<&str> = planned.iter().map(|node| node.name.as_str()).collect();
                let message = format!("`--node {}`: the experiment has no such node", node.name);
                report.error(0..0, message, format!("its nodes are {}", listed(&names)));
            }
        }
        if !planned.is_empty() && planned.iter().all(|node| node.only_sampled) {
            let at = file
                .entry("node")
                .map_or(0..0, |entry| entry.key_at.clone());
            report.error(
                at,
                "no node has jobs",
                "leave out `jobs = false` for one of them",
            );
        }
        Nodes { planned }
    }

    /// The nodes that a configuration or a workload names.
    pub(crate) fn named(&self, keyed: &Keyed<'_>, report: &mut Report<'_>) -> Vec<String> {
        let Some(node) = keyed.value("nodes") else {
            return Vec::new();
        };
        let names: Vec<&str> = self.planned.iter().map(|it| it.name.as_str()).collect();
        if node.as_list().is_some_and(<[Node]>::is_empty) {
            let hint = "name nodes, or leave it out: then it is on all with jobs";
            report.error(node.at.clone(), "`nodes` is empty", hint);
        }
        let mut found: Vec<String> = Vec::new();
        for text in keyed.texts("nodes", report) {
            let name = text.value.as_str();
            let known = self.planned.iter().find(|node| node.name == name);
            if known.is_some_and(|node| node.only_sampled) {
                let message = format!("the node `{name}` has no jobs");
                let hint = format!("leave out `jobs = false` of `[node.{name}]`, or the name here");
                report.error(text.at, message, hint);
            } else if known.is_none() {
                let hint = match names.is_empty() {
                    true => format!("add `[node.{name}]`, or give `--node {name}=ADDRESS`"),
                    false => instead(name, &names, "the nodes are"),
                };
                report.error(text.at, format!("unknown node `{name}`"), hint);
            } else if found.iter().any(|other| other == name) {
                let message = format!("`{name}` is twice in `nodes`");
                report.error(text.at, message, "leave one out");
            } else {
                found.push(text.value);
            }
        }
        found
    }

    /// Reports that a workload and a configuration on which it runs have no node in common, or that one of their nodes
    /// cannot make the configuration's storage.
    pub(crate) fn check_pair(
        &self,
        (workload, at): (&Workload, &Range<usize>),
        configurations: &[Configuration],
        report: &mut Report<'_>,
    ) {
        if self.planned.is_empty() || report.errors() > 0 {
            return;
        }
        for configuration in configurations {
            let runs = workload.runs_on(configuration, configurations);
            let nodes = nodes_of(&self.planned, configuration, workload);
            let with_fio = |place: &&usize| {
                matches!(self.planned[**place].at.parse(), Ok(NodeAddress::Fio(_)))
            };
            if let (true, Target::Made(_), Some(place)) =
                (runs, &configuration.target, nodes.iter().find(with_fio))
            {
                let message = format!(
                    "`{}` has storage that is made, which the node `{}` does not do: fio does its I/O",
                    configuration.name, self.planned[*place].name
                );
                let hint = format!(
                    "use existing storage, or name other nodes in `nodes` of `{}` or `{}`",
                    configuration.name, workload.name
                );
                report.error(at.clone(), message, hint);
            }
            if runs && nodes.is_empty() {
                let message = format!(
                    "`{}` and the configuration `{}` have no node in common",
                    workload.name, configuration.name
                );
                let hint = "name a common node in both `nodes`, or leave the pair out with `only`";
                report.error(at.clone(), message, hint);
            }
        }
    }
}

/// Where a node is: as the command line says, or the section.
fn address(
    name: &str,
    given: &[PlannedNode],
    keyed: &Keyed<'_>,
    report: &mut Report<'_>,
) -> String {
    if let Some(given) = given.iter().find(|node| node.name == name) {
        return given.at.clone();
    }
    let Some(at) = keyed.text("at", report) else {
        if keyed.value("at").is_none() && !keyed.has_unknown() {
            let message = format!("the node `{name}` lacks `at`");
            let hint = format!("add `at = \"ssh://HOST\"`, or give `--node {name}=ADDRESS`");
            report.error(keyed.whole(), message, hint);
        }
        return String::new();
    };
    match at.value.parse() {
        Ok(NodeAddress::Vm(_)) => {
            let message = format!("`{}` cannot be a node of an experiment", at.value);
            report.error(at.at, message, NodeAddress::VM_IN_EXPERIMENT);
        }
        Err(why) => {
            let message = format!("`{}` is not an address: {why}", at.value);
            report.error(at.at, message, format!("write {}", NodeAddress::FORMS));
        }
        Ok(NodeAddress::Local | NodeAddress::Ssh(_) | NodeAddress::Fio(_)) => {}
    }
    at.value
}
