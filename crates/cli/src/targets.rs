//! Looks at targets in a helper process, because the kernel blocks a process that looks at storage that hangs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iodyno_lab::forecast;
use iodyno_model::{Configuration, Diagnostic, Forecast, Plan, Target};
use iodyno_runner::{Examination, FoundPath, LocalNode, StopFlag};
use iodyno_store::SqliteStore;

use crate::context::Context;
use crate::failure::{Failure, reason};
use crate::logging;

/// This host as a node.
pub(crate) fn local_node(context: &Context) -> Result<LocalNode, Failure> {
    let mut node = LocalNode::this_program().map_err(|error| {
        Failure::one(Diagnostic::error(format!(
            "cannot find this program: {}",
            reason(&error)
        )))
    })?;
    node.arguments
        .extend(logging::node_flags(context.verbose).map(Into::into));
    Ok(node)
}

/// What paths lead to. A path is unknown if its storage does not respond.
#[derive(Debug, Default)]
pub(crate) struct FoundPaths(BTreeMap<PathBuf, Result<FoundPath, String>>);

impl FoundPaths {
    /// Looks at these paths.
    pub(crate) fn look(paths: Vec<PathBuf>, context: &Context) -> Result<FoundPaths, Failure> {
        if paths.is_empty() {
            return Ok(FoundPaths::default());
        }
        let wanted = Examination {
            find: paths.clone(),
            ..Examination::default()
        };
        let mut all = FoundPaths::default();
        let stop = StopFlag::new();
        let nodes = context.nodes()?.list();
        let begun: Vec<_> = (nodes.iter())
            .filter(|node| !node.only_sampled)
            .map(|node| (node, node.node.examine(wanted.clone(), &stop)))
            .collect();
        for (node, found) in begun {
            for (path, found) in paths.iter().zip(found().found) {
                let found = match node.name.as_str() {
                    "" => found,
                    name => found.map_err(|why| format!("node `{name}`: {why}")),
                };
                // A path has to exist on every node.
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
        let paths = plan.configurations.iter().filter_map(path_of).cloned();
        FoundPaths::look(paths.collect(), context)
    }

    /// Why there is nothing at a path.
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

/// The path of a configuration's target.
pub(crate) fn path_of(configuration: &Configuration) -> Option<&PathBuf> {
    match &configuration.target {
        Target::Path(path) => Some(path),
        Target::AsWritten { .. } | Target::Made(_) => None,
    }
}

/// What a run of this plan would do with its targets; `None` if the storage does not respond. Changes nothing.
pub(crate) fn foresee(plan: &Plan, context: &Context) -> Result<Option<Forecast>, Failure> {
    let store = SqliteStore::files_of(&context.store_path()?);
    let nodes = context.nodes()?.list();
    Ok(forecast(plan, &store, &nodes, &StopFlag::new()))
}

/// What prevents the storage of a plan from being made on its nodes. Changes nothing.
pub(crate) fn obstacles(plan: &Plan, context: &Context) -> Result<Vec<Diagnostic>, Failure> {
    let store = SqliteStore::files_of(&context.store_path()?);
    let nodes = context.nodes()?.list();
    Ok(iodyno_lab::obstacles(
        plan,
        &nodes,
        &store,
        &StopFlag::new(),
    ))
}
