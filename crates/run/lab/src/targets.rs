//! Identifies the run's targets, so that a trial never overwrites a file or device that replaced one of them.
//!
//! Targets are identified before the run's first trial, and again by each trial after it has opened its files and
//! before it writes to them. The process that identified them stores them, only in this store: an exported run does
//! not contain them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use iodyno_model::{Identity, KnownTarget, Plan, RunId, TrialKey};
use iodyno_runner::Examination;

use crate::Lab;
use crate::nodes::{examine, workers};
use crate::permission::paths_of;
use crate::schedule::bind;

/// The targets of a run, by path.
#[derive(Debug, Default)]
pub(crate) struct KnownTargets {
    /// By node and path.
    known: BTreeMap<(String, PathBuf), Identity>,
    unstored: bool,
}

impl KnownTargets {
    /// Adds the targets that trials found, in place of known ones.
    pub(crate) fn learn(&mut self, found: impl IntoIterator<Item = KnownTarget>) {
        for KnownTarget {
            node,
            path,
            identity,
        } in found
        {
            let place = (node, path);
            self.unstored |= self.known.get(&place) != Some(&identity);
            self.known.insert(place, identity);
        }
    }

    /// Identifies the paths that the plan names, and the files that its trials will open, unless already known. Call
    /// this before the first trial: what another process puts at one of these names later is not overwritten.
    ///
    /// `only`: the cells that are run; the targets of others are not accessed. A single trial identifies its targets
    /// itself, immediately before it writes, which saves starting a process.
    pub(crate) fn begin(
        &mut self,
        plan: &Plan,
        run: RunId,
        lab: &Lab<'_>,
        only: Option<&BTreeSet<u32>>,
    ) {
        if plan.cells() * plan.rounds <= 1 {
            return;
        }
        let own = |node: usize| {
            let cells = (0..plan.cells()).filter(|cell| only.is_none_or(|it| it.contains(cell)));
            cells.filter(move |cell| workers(plan, *cell).contains(&node))
        };
        // A target that is made has no identity before.
        let real = |cell: &u32| {
            let (configuration, workload) = plan.cell(*cell);
            configuration.provision().is_none() && !workload.in_virtual_time()
        };
        let bound = |cell| {
            let key = TrialKey {
                run,
                round: 0,
                cell,
                attempt: 0,
            };
            bind(plan, key)
        };
        let wanted = |node: usize| Examination {
            plans: own(node).filter(real).map(bound).collect(),
            identify: own(node).flat_map(|cell| planned(plan, cell)).collect(),
            ..Examination::default()
        };
        let found = examine(&lab.nodes, lab.stop, |node| Some(wanted(node)));
        for (node, found) in lab.nodes.iter().zip(found) {
            let mut found = found.unwrap_or_default().targets;
            name_node(&node.name, &mut found);
            found.retain(|target| !self.known.contains_key(&place(target)));
            self.learn(found);
        }
    }

    /// The known targets of a cell.
    pub(crate) fn of_cell(&self, plan: &Plan, cell: u32) -> Vec<PathBuf> {
        let planned = planned(plan, cell);
        let known: BTreeSet<&PathBuf> = self.known.keys().map(|(_, path)| path).collect();
        known
            .into_iter()
            .filter(|path| planned.iter().any(|planned| path.starts_with(planned)))
            .cloned()
            .collect()
    }

    /// The differences between the targets as they are now and the known ones.
    pub(crate) fn changed(&self, now: &[KnownTarget]) -> Option<String> {
        let changes: Vec<String> = now
            .iter()
            .filter_map(|target| {
                let before = self.known.get(&place(target))?;
                let on = match target.node.is_empty() {
                    true => String::new(),
                    false => format!(" on node `{}`", target.node),
                };
                let (path, identity) = (target.path.display(), &target.identity);
                before
                    .differs_from(identity)
                    .then(|| format!("{path}{on} was {before}, and is {identity}"))
            })
            .collect();
        (!changes.is_empty()).then(|| format!("the target has changed: {}", changes.join("; ")))
    }

    /// Returns all known targets if any of them is not stored.
    pub(crate) fn take_unstored(&mut self) -> Option<Vec<KnownTarget>> {
        std::mem::take(&mut self.unstored).then(|| {
            let known = self.known.iter();
            known
                .map(|((node, path), identity)| KnownTarget {
                    node: node.clone(),
                    path: path.clone(),
                    identity: identity.clone(),
                })
                .collect()
        })
    }
}

fn place(target: &KnownTarget) -> (String, PathBuf) {
    (target.node.clone(), target.path.clone())
}

/// Sets the node of these targets.
pub(crate) fn name_node(node: &str, targets: &mut [KnownTarget]) {
    for target in targets {
        node.clone_into(&mut target.node);
    }
}

/// The paths named by a cell's jobs; none for jobs in virtual time, which use no files.
fn planned(plan: &Plan, cell: u32) -> Vec<PathBuf> {
    let (configuration, workload) = plan.cell(cell);
    if workload.in_virtual_time() || configuration.provision().is_some() {
        return Vec::new();
    }
    let jobs = workload.jobs.iter();
    jobs.flat_map(|job| paths_of(&configuration.target, job))
        .collect()
}
