//! Looks at targets in a helper process, because the kernel blocks a process that looks at storage that hangs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iodyno_lab::forecast;
use iodyno_model::{Configuration, Diagnostic, Forecast, Plan, Target, Workload};
use iodyno_runner::{Examination, FoundPath, Room, StopFlag};
use iodyno_store::SqliteStore;

use crate::context::Context;
use crate::failure::Failure;

/// The kinds of files at paths. A path is unknown if its storage does not respond.
#[derive(Debug, Default)]
pub(crate) struct FoundPaths(BTreeMap<PathBuf, Result<FoundPath, String>>);

impl FoundPaths {
    /// Looks at these paths, on all nodes that work.
    pub(crate) fn look(paths: Vec<PathBuf>, context: &Context) -> Result<FoundPaths, Failure> {
        let paths = paths.into_iter().map(NodePath::everywhere);
        FoundPaths::examine(paths.collect(), false, context)
    }

    /// Looks at these paths, and at what the folders among them have room for.
    pub(crate) fn look_for_room(
        paths: Vec<PathBuf>,
        context: &Context,
    ) -> Result<FoundPaths, Failure> {
        let paths = paths.into_iter().map(NodePath::everywhere);
        FoundPaths::examine(paths.collect(), true, context)
    }

    /// Looks at these paths, each on its nodes.
    pub(crate) fn look_on(paths: Vec<NodePath>, context: &Context) -> Result<FoundPaths, Failure> {
        FoundPaths::examine(paths, false, context)
    }

    fn examine(
        paths: Vec<NodePath>,
        with_room: bool,
        context: &Context,
    ) -> Result<FoundPaths, Failure> {
        if paths.is_empty() {
            return Ok(FoundPaths::default());
        }
        let mut all = FoundPaths::default();
        let stop = StopFlag::new();
        let nodes = context.nodes()?.list();
        let begun: Vec<_> = (nodes.iter())
            .filter(|node| !node.only_sampled)
            .map(|node| {
                let own = paths.iter().filter(|path| path.is_on(&node.name));
                let find: Vec<PathBuf> = own.map(|own| own.path.clone()).collect();
                let wanted = Examination {
                    find: find.clone(),
                    room_of_found: with_room,
                    ..Examination::default()
                };
                (node, find, node.node.examine(wanted, &stop))
            })
            .collect();
        for (node, paths, found) in begun {
            for (path, found) in paths.iter().zip(found().found) {
                let found = match node.name.as_str() {
                    "" => found,
                    name => found.map_err(|why| format!("node `{name}`: {why}")),
                };
                // A path must exist on every node that uses it.
                match all.0.get(path) {
                    Some(Err(_)) => {}
                    Some(Ok(_)) if found.is_ok() => {}
                    _ => drop(all.0.insert(path.clone(), found)),
                }
            }
        }
        Ok(all)
    }

    /// Looks at the targets of a plan.
    pub(crate) fn of(plan: &Plan, context: &Context) -> Result<FoundPaths, Failure> {
        let paths = node_paths(&plan.configurations, &plan.workloads);
        FoundPaths::look_on(paths, context)
    }

    /// What the folders have room for.
    pub(crate) fn rooms(&self) -> impl Iterator<Item = Room> {
        self.0
            .values()
            .filter_map(|found| found.as_ref().ok()?.room)
    }

    /// Why a path does not exist.
    pub(crate) fn error(&self, path: &Path) -> Option<&str> {
        let found = self.0.get(path)?;
        found.as_ref().err().map(String::as_str)
    }

    /// Where a path leads, without symlinks.
    pub(crate) fn resolved(&self, path: &Path) -> Option<&Path> {
        let found = self.0.get(path)?.as_ref().ok()?;
        Some(&found.path)
    }

    /// Whether it is a folder, or may become one.
    pub(crate) fn may_be_folder(&self, path: &Path) -> bool {
        match self.0.get(path) {
            Some(Ok(found)) => found.folder,
            _ => true,
        }
    }
}

/// A path with the names of the nodes that use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodePath {
    path: PathBuf,
    /// Empty: all.
    nodes: Vec<String>,
}

impl NodePath {
    fn everywhere(path: PathBuf) -> NodePath {
        let nodes = Vec::new();
        NodePath { path, nodes }
    }

    fn is_on(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.iter().any(|name| name == node)
    }
}

/// The existing targets of configurations, each with the nodes that run trials on it.
pub(crate) fn node_paths(
    configurations: &[Configuration],
    workloads: &[Workload],
) -> Vec<NodePath> {
    let paths = configurations.iter().filter_map(|configuration| {
        let own = workloads.iter();
        let own = own.filter(|workload| workload.runs_on(configuration, configurations));
        let own: Vec<&Workload> = own.collect();
        let nodes = match configuration.nodes.is_empty() {
            false => configuration.nodes.clone(),
            true if own.iter().any(|workload| workload.nodes.is_empty()) => Vec::new(),
            true => own.iter().flat_map(|it| it.nodes.clone()).collect(),
        };
        let path = path_of(configuration)?.clone();
        Some(NodePath { path, nodes })
    });
    paths.collect()
}

/// The path of a configuration's target.
pub(crate) fn path_of(configuration: &Configuration) -> Option<&PathBuf> {
    match &configuration.target {
        Target::Path(path) => Some(path),
        Target::AsWritten { .. } | Target::Made(_) | Target::Simulated(_) => None,
    }
}

/// What a run of this plan would do with its targets; `None` if the storage does not respond. Changes nothing.
pub(crate) fn foresee(plan: &Plan, context: &Context) -> Result<Option<Forecast>, Failure> {
    let store = SqliteStore::files_of(&context.store_path()?);
    let nodes = context.nodes()?.list();
    Ok(forecast(plan, &store, &nodes, &StopFlag::new()))
}

/// The faults that prevent making the storage of a plan on its nodes, or tracing there. Changes nothing.
pub(crate) fn obstacles(plan: &Plan, context: &Context) -> Result<Vec<Diagnostic>, Failure> {
    let store = SqliteStore::files_of(&context.store_path()?);
    let nodes = context.nodes()?.list();
    let stop = StopFlag::new();
    let mut faults = iodyno_lab::obstacles(plan, &nodes, &store, &stop);
    faults.extend(iodyno_lab::untraceable(plan, &nodes, &stop));
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_looked_for_on_the_nodes_that_use_it_only() {
        let configuration = |name: &str, nodes: &[&str]| Configuration {
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
            ..Configuration::new(name, Target::Path(format!("/{name}").into()))
        };
        let workload = |nodes: &[&str], only: &[&str]| Workload {
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            ..Workload::new("w", Vec::new(), Vec::new())
        };
        let configurations = [configuration("own", &["a"]), configuration("all", &[])];
        let on = |workloads: &[Workload], node: &str| -> Vec<String> {
            let paths = node_paths(&configurations, workloads);
            let paths = paths.iter().filter(|path| path.is_on(node));
            paths.map(|path| path.path.display().to_string()).collect()
        };
        let anywhere = [workload(&[], &[])];
        assert_eq!(on(&anywhere, "a"), ["/own", "/all"]);
        assert_eq!(on(&anywhere, "b"), ["/all"]);
        let of_a = [workload(&["a"], &[])];
        assert_eq!(on(&of_a, "b"), Vec::<String>::new());
        let of_b_too = [workload(&["a"], &[]), workload(&["b"], &["own"])];
        assert_eq!(on(&of_b_too, "b"), Vec::<String>::new());
        // A repeated baseline is where the baseline is.
        let again = Configuration {
            again: true,
            ..configuration("all (again)", &[])
        };
        let repeated = [configuration("all", &[]), again];
        let paths = node_paths(&repeated, &[workload(&["a"], &["all"])]);
        assert!(paths.iter().all(|path| !path.is_on("b")), "{paths:?}");
    }
}
