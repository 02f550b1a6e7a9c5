//! Axes: the combinations of their values.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::document::{Entry, Node, Report, Table, Value, instead, listed, wrong};
use iodyno_units::counted;

use crate::check::table;

/// Maximum number of combinations of a section.
const MOST: usize = 10_000;

/// A value of an axis.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) axis: String,
    /// Where the axis is written.
    pub(crate) at: Range<usize>,
    pub(crate) label: String,
    /// A scalar, or a table of several keys.
    pub(crate) entry: Entry,
}

/// One value of each axis.
pub(crate) type Combination = Vec<Point>;

/// The combinations of a section's `axis`, `zip` and `exclude`: a single empty one without axes. The first axis varies
/// slowest.
pub(crate) fn combinations(section: &Table, report: &mut Report<'_>) -> Vec<Combination> {
    let Some(node) = section.get("axis") else {
        for key in ["zip", "exclude"] {
            if let Some(entry) = section.entry(key) {
                let message = format!("`{key}` has no effect without `axis`");
                report.error(entry.key_at.clone(), message, "leave it out");
            }
        }
        return vec![Vec::new()];
    };
    let Some(table) = table("axis", node, report) else {
        return vec![Vec::new()];
    };
    let axes: Vec<(String, Vec<Point>)> = table
        .entries
        .iter()
        .map(|entry| (entry.key.clone(), points(entry, report)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let groups = zipped(&axes, section.get("zip"), report);
    let mut all = vec![Vec::new()];
    for group in groups {
        let steps = axes[group[0]].1.len();
        if all.len().saturating_mul(steps) > MOST {
            let message = format!("the axes have more than {MOST} combinations");
            report.error(node.at.clone(), message, "`zip` or `exclude` some");
            break;
        }
        all = all
            .iter()
            .flat_map(|before: &Combination| {
                let (axes, group) = (&axes, &group);
                (0..steps).map(move |step| {
                    let points = group.iter().map(|axis| axes[*axis].1[step].clone());
                    before.iter().cloned().chain(points).collect()
                })
            })
            .collect();
    }
    if let Some(excluded) = section.get("exclude") {
        exclude(&mut all, &axes, excluded, report);
        if all.is_empty() {
            let hint = "each rule leaves out the combinations with all of its labels";
            report.error(
                excluded.at.clone(),
                "`exclude` leaves out all combinations",
                hint,
            );
        }
    }
    all
}

/// The values of an axis. Faults are reported.
fn points(axis: &Entry, report: &mut Report<'_>) -> Vec<Point> {
    let node = &axis.node;
    let (empty, points) = match &node.value {
        Value::List(list) => (list.is_empty(), plain_points(axis, list, report)),
        Value::Table(table) => (table.entries.is_empty(), labelled(axis, table, report)),
        _ => {
            let message = wrong(&axis.key, "an axis: an array, or a table of labels", node);
            report.error(node.at.clone(), message, "such as `[1, 4]`");
            (false, Vec::new())
        }
    };
    if empty {
        let message = format!("the axis `{}` has no values", axis.key);
        report.error(node.at.clone(), message, "leave it out");
    }
    points
}

impl Point {
    /// A value of an axis. `from`: where it is written.
    fn new(axis: &Entry, label: String, from: &Entry) -> Point {
        Point {
            axis: axis.key.clone(),
            at: axis.key_at.clone(),
            label,
            entry: Entry {
                key: axis.key.clone(),
                ..from.clone()
            },
        }
    }
}

/// Values that are their own labels.
fn plain_points(axis: &Entry, list: &[Node], report: &mut Report<'_>) -> Vec<Point> {
    let name = &axis.key;
    let mut points: Vec<Point> = Vec::new();
    for node in list {
        let entry = Entry {
            key: name.clone(),
            key_at: node.at.clone(),
            node: node.clone(),
        };
        match node.scalar() {
            None => report.error(
                node.at.clone(),
                wrong("a value of an axis", "a string, a number or a switch", node),
                format!("give it a label: `axis.{name} = {{ label = … }}`"),
            ),
            Some(label) if points.iter().any(|point| point.label == label) => {
                let message = format!("`{label}` is twice in the axis `{name}`");
                report.error(node.at.clone(), message, "leave one out");
            }
            Some(label) => points.push(Point::new(axis, label, &entry)),
        }
    }
    points
}

/// Values with labels.
fn labelled(axis: &Entry, table: &Table, report: &mut Report<'_>) -> Vec<Point> {
    let known = table.entries.iter().filter(|value| {
        let is_known = value.node.scalar().is_some() || value.node.as_table().is_some();
        if !is_known {
            let what = "a string, a number, a switch or a table";
            let message = wrong(&value.key, what, &value.node);
            report.plain_error(value.node.at.clone(), message);
        }
        is_known
    });
    known
        .map(|value| Point::new(axis, value.key.clone(), value))
        .collect()
}

/// The axes in groups that change together, in the order of the text.
fn zipped(
    axes: &[(String, Vec<Point>)],
    zip: Option<&Node>,
    report: &mut Report<'_>,
) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let lists: Vec<&Node> = match zip {
        None => Vec::new(),
        Some(node) => match node.as_list() {
            Some(list) if list.iter().all(|item| item.as_list().is_some()) => list.iter().collect(),
            _ => vec![node],
        },
    };
    for list in lists {
        let mut group = Vec::new();
        for name in list.as_list().unwrap_or_default() {
            let Some(text) = name.as_text() else {
                let message = wrong("an element of `zip`", "the name of an axis", name);
                report.plain_error(name.at.clone(), message);
                continue;
            };
            match axes.iter().position(|(axis, _)| axis == text) {
                Some(axis) => group.push(axis),
                None => unknown_axis(text, name, axes, report),
            }
        }
        let lengths: Vec<usize> = group.iter().map(|axis| axes[*axis].1.len()).collect();
        if lengths.iter().any(|length| *length != lengths[0]) {
            let numbers = group.iter().zip(&lengths);
            let numbers = numbers.map(|(axis, length)| {
                format!(
                    "`{}` has {}",
                    axes[*axis].0,
                    counted(*length as u64, "value")
                )
            });
            let numbers: Vec<String> = numbers.collect();
            let message = format!("the axes of `zip` differ in length: {}", numbers.join(", "));
            let hint = "axes that change together have the same number of values";
            report.error(list.at.clone(), message, hint);
            continue;
        }
        match group.len() {
            0 => {}
            1 => {
                // The others are not axes, which was reported.
                if list.as_list().is_some_and(|names| names.len() == 1) {
                    let hint = "name at least two axes, or leave it out";
                    report.error(
                        list.at.clone(),
                        "`zip` has no effect on a single axis",
                        hint,
                    );
                }
            }
            _ => groups.push(group),
        }
    }
    for axis in 0..axes.len() {
        if !groups.iter().any(|group| group.contains(&axis)) {
            groups.push(vec![axis]);
        }
    }
    groups.sort_by_key(|group| group.iter().min().copied());
    groups
}

fn unknown_axis(name: &str, node: &Node, axes: &[(String, Vec<Point>)], report: &mut Report<'_>) {
    let names: Vec<&str> = axes.iter().map(|(axis, _)| axis.as_str()).collect();
    let hint = instead(name, &names, "the axes are");
    report.error(node.at.clone(), format!("unknown axis `{name}`"), hint);
}

/// Removes the combinations with the labels of any table of `exclude`.
fn exclude(
    all: &mut Vec<Combination>,
    axes: &[(String, Vec<Point>)],
    node: &Node,
    report: &mut Report<'_>,
) {
    for rule in node.as_list().unwrap_or_default() {
        let Some(rule) = table("exclude", rule, report) else {
            continue;
        };
        let mut labels: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for entry in &rule.entries {
            let Some((axis, points)) = axes.iter().find(|(axis, _)| *axis == entry.key) else {
                let at = Node {
                    at: entry.key_at.clone(),
                    ..entry.node.clone()
                };
                unknown_axis(&entry.key, &at, axes, report);
                continue;
            };
            let nodes = match entry.node.as_list() {
                Some(list) => list,
                None => std::slice::from_ref(&entry.node),
            };
            for node in nodes {
                let label = node.scalar().unwrap_or_default();
                if points.iter().any(|point| point.label == label) {
                    labels.entry(axis).or_default().push(label);
                    continue;
                }
                let known: Vec<&str> = points.iter().map(|point| point.label.as_str()).collect();
                let hint = format!("its labels are {}", listed(&known));
                let message = format!("the axis `{axis}` has no label `{label}`");
                report.error(node.at.clone(), message, hint);
            }
        }
        if !labels.is_empty() && labels.len() == rule.entries.len() {
            all.retain(|combination| {
                let has = |axis: &str, labels: &[String]| {
                    let mut points = combination.iter();
                    points.any(|point| point.axis == axis && labels.contains(&point.label))
                };
                !labels.iter().all(|(axis, labels)| has(axis, labels))
            });
        }
    }
}
