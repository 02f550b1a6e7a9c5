//! Identifies the run's targets, so that a trial never overwrites a file or device that replaced one of them.
//!
//! Targets are identified before the run's first trial, and again by each trial after it has opened its files and
//! before it writes to them. The process that identified them stores them, only in this store: an exported run does
//! not contain them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iodyno_model::{Identity, KnownTarget, Plan, RunId, TrialKey};
use iodyno_runner::Node;

use crate::permission::paths_of;
use crate::schedule::bind;

/// The targets of a run, by path.
#[derive(Debug, Default)]
pub(crate) struct KnownTargets {
    known: BTreeMap<PathBuf, Identity>,
    unstored: bool,
}

impl KnownTargets {
    /// Adds the targets that trials found, in place of known ones.
    pub(crate) fn learn(&mut self, found: impl IntoIterator<Item = KnownTarget>) {
        for KnownTarget { path, identity } in found {
            self.unstored |= self.known.get(&path) != Some(&identity);
            self.known.insert(path, identity);
        }
    }

    /// Identifies the paths that the plan names, and the files that its trials will open, unless they are known already. To be
    /// called before the first trial: what another process puts under one of these names from then on is not overwritten.
    pub(crate) fn begin(&mut self, plan: &Plan, run: RunId, node: &dyn Node) {
        let paths = (0..plan.cells()).flat_map(|cell| {
            let key = TrialKey {
                run,
                round: 0,
                cell,
                attempt: 0,
            };
            let mut paths = planned(plan, cell);
            if !plan.cell(cell).1.in_virtual_time() {
                paths.extend(node.files(&bind(plan, key)));
            }
            paths
        });
        let mut new: Vec<PathBuf> = paths
            .filter(|path| !self.known.contains_key(path))
            .collect();
        new.sort();
        new.dedup();
        let identities = node.identify(&new);
        let found = new.into_iter().zip(identities);
        self.learn(found.filter_map(|(path, identity)| {
            let identity = identity?;
            Some(KnownTarget { path, identity })
        }));
    }

    /// The differences between a cell's targets and the known ones.
    pub(crate) fn changed(&self, plan: &Plan, cell: u32, node: &dyn Node) -> Option<String> {
        let planned = planned(plan, cell);
        let paths: Vec<PathBuf> = self
            .known
            .keys()
            .filter(|path| planned.iter().any(|planned| path.starts_with(planned)))
            .cloned()
            .collect();
        let identities = node.identify(&paths);
        let changes: Vec<String> = paths
            .iter()
            .zip(identities)
            .filter_map(|(path, now)| {
                let (before, now) = (&self.known[path], now?);
                before
                    .differs_from(&now)
                    .then(|| format!("{} was {before}, and is {now}", path.display()))
            })
            .collect();
        (!changes.is_empty()).then(|| format!("the target has changed: {}", changes.join("; ")))
    }

    /// Returns all known targets if any of them is not stored.
    pub(crate) fn take_unstored(&mut self) -> Option<Vec<KnownTarget>> {
        std::mem::take(&mut self.unstored).then(|| {
            let known = self.known.iter();
            known
                .map(|(path, identity)| KnownTarget {
                    path: path.clone(),
                    identity: identity.clone(),
                })
                .collect()
        })
    }
}

/// The paths named by a cell's jobs.
fn planned(plan: &Plan, cell: u32) -> Vec<PathBuf> {
    let (configuration, workload) = plan.cell(cell);
    let jobs = workload.jobs.iter();
    jobs.flat_map(|job| paths_of(&configuration.target, job))
        .collect()
}
