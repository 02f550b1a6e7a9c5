//! The environment of a run: its store, its nodes, and the request to stop.

use std::path::PathBuf;

use iodyno_model::{Diagnostic, Plan, StackLayer};
use iodyno_runner::{Examination, Examined, Node, StopFlag};
use iodyno_store::Store;

/// The environment of a run.
pub struct Lab<'a> {
    /// The store for results.
    pub store: &'a dyn Store,
    /// The store's files, which no job may use.
    pub store_files: Vec<PathBuf>,
    /// The storage stack below the store's file, top first; empty if unknown.
    pub store_stack: Vec<StackLayer>,
    /// The nodes that do the I/O of each trial, at least one, in the order of the plan.
    pub nodes: Vec<LabNode<'a>>,
    /// Ends the run early.
    pub stop: &'a StopFlag,
}

/// A node of a run.
#[derive(Clone)]
pub struct LabNode<'a> {
    /// Its name; empty if the plan names no nodes.
    pub name: String,
    /// The node.
    pub node: &'a dyn Node,
    /// Whether it is the host of this process.
    pub here: bool,
    /// Whether it has no jobs and is only sampled.
    pub only_sampled: bool,
}

impl<'a> LabNode<'a> {
    /// This host, as the only node of a plan that names none.
    pub fn here(node: &'a dyn Node) -> LabNode<'a> {
        LabNode {
            name: String::new(),
            node,
            here: true,
            only_sampled: false,
        }
    }

    /// The text, after the node's name if it has one.
    pub fn prefix_text(&self, text: &str) -> String {
        named(&self.name, text)
    }

    /// The message with the node's name.
    pub fn prefix_fault(&self, fault: Diagnostic) -> Diagnostic {
        Diagnostic {
            message: self.prefix_text(&fault.message),
            ..fault
        }
    }
}

/// The text, after a node's name if it has one.
pub(crate) fn named(node: &str, text: &str) -> String {
    match node.is_empty() {
        true => text.to_owned(),
        false => format!("node `{node}`: {text}"),
    }
}

/// The places of the nodes that do the work of a cell's trials.
pub(crate) fn workers(plan: &Plan, cell: u32) -> Vec<usize> {
    match plan.nodes.is_empty() {
        true => vec![0],
        false => plan.nodes_of(cell),
    }
}

/// Examines on several nodes at the same time. `wanted`: the examination for the node at a place; `None`: nothing.
pub(crate) fn examine<'a>(
    nodes: &'a [LabNode<'a>],
    stop: &'a StopFlag,
    wanted: impl Fn(usize) -> Option<Examination>,
) -> Vec<Option<Examined>> {
    let begun: Vec<_> = (nodes.iter().enumerate())
        .map(|(place, node)| Some(node.node.examine(wanted(place)?, stop)))
        .collect();
    begun.into_iter().map(|found| Some(found?())).collect()
}
