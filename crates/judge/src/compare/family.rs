//! Several workloads that fall into one row: which trials of the columns belong together.

use iodyno_model::Observation;

use super::grouping::{Row, distinct};

/// What tells the members of a family apart, in the order of trust.
const NAMES: [&str; 3] = [Observation::WORKLOAD, Observation::CONFIGURATION, NODE];

/// The dimension of the machines that worked at once.
const NODE: &str = "node";

/// What tells them apart where each column has workloads of its own: what the workloads do.
const SHAPES: [&str; 7] = ["rw", "bs", "engine", "depth", "direct", "jobs", "threads"];

/// One workload of a row.
#[derive(Debug)]
pub(super) struct Workload<'a> {
    /// Its name; more than the workload's where that does not tell it apart.
    pub(super) name: String,
    /// A list of trials a column.
    pub(super) columns: Vec<Vec<&'a Observation>>,
    /// The baseline made once more.
    pub(super) again: Vec<&'a Observation>,
}

/// The workloads of a row; a single one is no family.
///
/// Members are told apart by those of their names (workload, configuration, node) that occur in several
/// columns. A name that goes with the column tells members apart no more than the column does: where
/// workloads do so, what they do (`rw`, `bs`, …) takes their place. Other dimensions, such as the number
/// of a repetition in an import's label, make no members: their trials are repetitions. The sum of several
/// nodes, where it stands beside them, is no member either.
pub(super) fn workloads<'a>(row: &Row<'a>, columns: &str, rows: &[String]) -> Vec<Workload<'a>> {
    let telling = |name: &&str| {
        *name != columns && !rows.iter().any(|row| row == name) && tells_apart(row, name)
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

/// Whether a node stands for several others: `a+b+c`. What it has is counted with them already.
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

/// Whether a dimension has several values within a column, of which some occur in several columns.
fn tells_apart(row: &Row, dimension: &str) -> bool {
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
