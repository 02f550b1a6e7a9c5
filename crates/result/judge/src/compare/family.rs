//! Families: several workloads in one row, and which trials of the columns correspond.

use iodyno_model::Observation;

use super::grouping::{Row, distinct};

/// Dimensions that distinguish the members of a family, the most reliable first.
const NAMES: [&str; 3] = [Observation::WORKLOAD, Observation::CONFIGURATION, NODE];

/// The dimension of nodes that worked at the same time.
const NODE: &str = "node";

/// Facts that distinguish the members if each column has its own workloads.
const SHAPES: [&str; 7] = ["rw", "bs", "engine", "depth", "direct", "jobs", "threads"];

/// One workload of a row.
#[derive(Debug)]
pub(super) struct Workload<'a> {
    /// Name of the member; longer than the workload's name if that is ambiguous.
    pub(super) name: String,
    /// Trials for each column.
    pub(super) columns: Vec<Vec<&'a Observation>>,
    /// Trials of the repeated baseline.
    pub(super) again: Vec<&'a Observation>,
}

/// The workloads of a row; a single one is not a family.
///
/// Members are distinguished by those of their names (workload, configuration, node) that occur in several columns. A
/// name that varies with the column cannot distinguish members; if the workloads' names do, their traits (`rw`, `bs`,
/// …) are used instead. Other dimensions, such as a repetition number in an import's label, do not define members:
/// their trials are repetitions. The sum of several nodes, if it is listed in addition, is not a member either.
pub(super) fn workloads<'a>(row: &Row<'a>, columns: &str, rows: &[String]) -> Vec<Workload<'a>> {
    let telling = |name: &&str| {
        *name != columns && !rows.iter().any(|row| row == name) && distinguishes_members(row, name)
    };
    let mut dimensions: Vec<&str> = NAMES.iter().copied().filter(telling).collect();
    if !dimensions.contains(&Observation::WORKLOAD) {
        dimensions.extend(SHAPES.iter().copied().filter(telling));
    }
    let nodes = match dimensions.contains(&NODE) {
        true => super::grouping::values(row.trials(), NODE),
        false => Vec::new(),
    };
    let mut found: Vec<Workload<'a>> = Vec::new();
    for (column, trials) in row.columns.iter().enumerate() {
        for &observation in trials {
            if is_sum(observation.dimension(NODE), &nodes) {
                continue;
            }
            let name = name(observation, &dimensions);
            member(&mut found, name, row.columns.len()).columns[column].push(observation);
        }
    }
    for &observation in &row.again {
        let name = name(observation, &dimensions);
        let place = found.iter_mut().find(|workload| workload.name == name);
        if let Some(workload) = place {
            workload.again.push(observation);
        }
    }
    found
}

/// Whether a node is the sum of several others: `a+b+c`. Its values are already counted with them.
fn is_sum(node: &str, nodes: &[String]) -> bool {
    node.contains('+')
        && node
            .split('+')
            .all(|part| nodes.iter().any(|known| known == part))
}

fn name(observation: &Observation, dimensions: &[&str]) -> String {
    let parts: Vec<&str> = dimensions
        .iter()
        .map(|dimension| observation.dimension(dimension))
        .collect();
    parts.join(" ")
}

fn member<'a, 'b>(
    found: &'b mut Vec<Workload<'a>>,
    name: String,
    columns: usize,
) -> &'b mut Workload<'a> {
    let place = found.iter().position(|workload| workload.name == name);
    let place = place.unwrap_or_else(|| {
        found.push(Workload {
            name,
            columns: vec![Vec::new(); columns],
            again: Vec::new(),
        });
        found.len() - 1
    });
    &mut found[place]
}

/// Whether a dimension has several values within a column, and some of them occur in several columns.
fn distinguishes_members(row: &Row, dimension: &str) -> bool {
    let values: Vec<Vec<String>> = row
        .columns
        .iter()
        .map(|trials| distinct(trials.iter().filter_map(|o| o.dimensions.get(dimension))))
        .collect();
    let several = values.iter().any(|values| values.len() > 1);
    let shared = values.iter().enumerate().any(|(index, own)| {
        let mut others = values[index + 1..].iter();
        others.any(|other| other.iter().any(|value| own.contains(value)))
    });
    several && shared
}
