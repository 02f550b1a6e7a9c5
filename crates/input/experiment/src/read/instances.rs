//! The instances of a section: one for each combination of its axes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::file::File;
use crate::check::{Keyed, named_hint, scalars};
use crate::document::{Entry, Node, Table, Value};
use crate::keys::Key;
use crate::matrix::{Combination, Point, combinations};
use crate::params::{As, Variable, Variables, mentions, replaced, replaced_entry, replaced_table};
use crate::workloads::{TOOLS, ignored_option, is_option};

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

/// A configuration or workload: its name, its table without the axes, and the labels of its axes.
pub(super) struct Instance {
    /// Where its name is written.
    pub(super) at: Range<usize>,
    pub(super) name: String,
    pub(super) table: Table,
    /// The table's location.
    pub(super) whole: Range<usize>,
    /// Options of axes that are not keys of the table.
    pub(super) options: Vec<Entry>,
    pub(super) dimensions: BTreeMap<String, String>,
    /// Parameters and axes.
    pub(super) variables: Variables,
}

/// What an axis of a section can set.
struct Scope<'a> {
    whole: &'a Node,
    keys: &'static [Key],
    /// The tool of a workload, whose options axes can set.
    tool: Option<&'static str>,
}

impl Scope<'_> {
    fn has(&self, name: &str) -> bool {
        self.is_key(name) || self.is_option(name)
    }

    fn is_key(&self, name: &str) -> bool {
        let first = name.split('.').next().unwrap_or_default();
        self.keys.iter().any(|key| key.name == first)
    }

    fn is_option(&self, name: &str) -> bool {
        self.tool.is_some_and(|tool| is_option(tool, name))
    }
}

impl File<'_, '_, '_> {
    /// The instances of the sections of a kind, each for one combination of its axes.
    pub(super) fn instances(
        &mut self,
        file: &Table,
        kind: &str,
        keys: &'static [Key],
    ) -> Vec<Instance> {
        let mut found = Vec::new();
        let sections = file.get(kind).and_then(Node::as_table);
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
        let mut variables = self.variables.clone();
        let axes = table.get("axis").and_then(Node::as_table);
        for axis in axes.map_or(&[][..], |axes| &axes.entries) {
            // A faulty axis was reported.
            let value = Value::Text(String::new());
            let label = String::new();
            variables.insert(axis.key.clone(), Variable { value, label });
        }
        for key in ["axis", "zip", "exclude"] {
            table.remove(key);
        }
        let scope = Scope {
            whole: &section.node,
            keys,
            tool: TOOLS.into_iter().find(|tool| table.get(tool).is_some()),
        };
        let mut instance = Instance {
            at: section.key_at.clone(),
            name: section.key.clone(),
            table,
            whole: section.node.at.clone(),
            options: Vec::new(),
            dimensions: BTreeMap::new(),
            variables,
        };
        // The keys that axes set, each with its axis.
        let mut set = Vec::new();
        for point in combination {
            self.check_axis(&point);
            let (axis, label) = (&point.axis, &point.label);
            instance.dimensions.insert(axis.clone(), label.clone());
            let variable = Variable {
                value: point.entry.node.value.clone(),
                label: label.clone(),
            };
            instance.variables.insert(axis.clone(), variable);
            let several = point.entry.node.as_table();
            let entries = several.map_or(std::slice::from_ref(&point.entry), |it| &it.entries);
            for entry in entries {
                if scope.has(&entry.key) {
                    self.set_once(&point, entry, &mut set);
                }
                self.set_by_axis(&mut instance, &scope, &point, entry.clone());
            }
        }
        instance
    }

    /// Checks the name of an axis.
    fn check_axis(&mut self, point: &Point) {
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
    }

    /// Reports keys that another axis sets, too. `set`: the keys so far, each with its axis.
    fn set_once(&mut self, point: &Point, entry: &Entry, set: &mut Vec<(String, String)>) {
        let table = Table {
            entries: vec![entry.clone()],
        };
        for (leaf, _) in scalars(&table, "", self.report) {
            let mut others = set.iter();
            let other = others.find(|(key, axis)| *key == leaf.key && *axis != point.axis);
            if let Some((key, axis)) = other {
                let message = format!("the axes `{axis}` and `{}` both set `{key}`", point.axis);
                let hint = "leave it out of one of them, or make one axis of both";
                self.report.error(point.at.clone(), message, hint);
            }
            set.push((leaf.key, point.axis.clone()));
        }
    }

    /// Sets a key or an option to the value of an axis.
    fn set_by_axis(
        &mut self,
        instance: &mut Instance,
        scope: &Scope<'_>,
        point: &Point,
        entry: Entry,
    ) {
        let axis = &point.axis;
        if scope.is_key(&entry.key) {
            let (first, rest) = match entry.key.split_once('.') {
                Some((first, rest)) => (first.to_owned(), Some(rest.to_owned())),
                None => (entry.key.clone(), None),
            };
            instance.table.set(match rest {
                None => entry,
                Some(rest) => nested(first, rest, entry),
            });
        } else if scope.is_option(&entry.key) {
            let ignored = scope.tool.and_then(|tool| ignored_option(tool, &entry.key));
            // An axis of several keys may set some that have an effect.
            if let Some(why) = ignored
                && point.entry.node.as_table().is_none()
                && !mentions(scope.whole, axis)
            {
                let message =
                    format!("the axis `{axis}` has no effect: the option is ignored, {why}");
                let hint = format!("name another option, or use `${{{axis}}}` in a value");
                self.report.error(point.at.clone(), message, hint);
            }
            instance.options.push(entry);
        } else if entry.node.as_table().is_some() || !mentions(scope.whole, axis) {
            let message = format!(
                "the axis `{axis}` has no effect: `{}` is not a key",
                entry.key
            );
            let hint = match scope.tool {
                None => format!(
                    "use `${{{axis}}}` in a value, or name a key, such as `axis.\"zfs.sync\"`"
                ),
                Some(tool) => {
                    format!("name an option of `{tool}`, or use `${{{axis}}}` in a value")
                }
            };
            let at = match point.entry.node.as_table() {
                Some(_) => entry.key_at,
                None => point.at.clone(),
            };
            self.report.error(at, message, hint);
        }
    }

    /// The table of an instance with its parameters and axes replaced. Names of families and configurations get labels.
    pub(super) fn filled(&mut self, instance: &Instance) -> Table {
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
    pub(super) fn name(&mut self, instance: &Instance, also: Option<(&str, &str)>) -> String {
        let mut variables = instance.variables.clone();
        if let Some((name, label)) = also {
            let value = Value::Text(label.to_owned());
            let label = label.to_owned();
            variables
                .entry(name.to_owned())
                .or_insert(Variable { value, label });
        }
        let node = Node {
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

    pub(super) fn unique(&mut self, name: &str, others: &[&str], what: &str, instance: &Instance) {
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
        node: Node {
            at: entry.node.at.clone(),
            value: Value::Table(Table {
                entries: vec![inner],
            }),
        },
        ..entry
    }
}
