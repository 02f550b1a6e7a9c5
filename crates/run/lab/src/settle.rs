//! Settles the host before each trial, and reports failures.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::path::PathBuf;

use iodyno_model::{Blocks, Environment, Plan, Settled, Settling, Target};
use iodyno_runner::Unsettled;

use crate::permission::paths_of;
use crate::ready::Ready;
use crate::{Lab, Progress};

/// Settles the host before each trial of a run.
pub(crate) struct Settler<'a> {
    lab: &'a Lab<'a>,
    settling: Settling,
    /// The paths of the I/O: as planned, and as earlier trials found them.
    targets: BTreeSet<PathBuf>,
    /// Each kind of failure is reported once; every affected trial has a note.
    messages: Vec<Unsettled>,
}

impl<'a> Settler<'a> {
    pub(crate) fn new(lab: &'a Lab<'a>, plan: &Plan) -> Settler<'a> {
        Settler {
            lab,
            settling: plan.settling,
            targets: planned(plan),
            messages: Vec::new(),
        }
    }

    /// Settles the host; returns whether that succeeded, with notes for the next trial. `workers` are the places of the
    /// nodes of the next trial; `made` are its targets by node if they were made for the run.
    pub(crate) fn settle(
        &mut self,
        workers: &[usize],
        made: &BTreeMap<usize, Ready>,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> (Settled, Vec<String>) {
        let mut settled = Settled::default();
        if self.settling == Settling::default() {
            return (settled, Vec::new());
        }
        // In a virtual machine, it is not a path of the host.
        let on_hosts: Vec<(usize, Option<&PathBuf>)> = (workers.iter())
            .map(|place| {
                let made = made.get(place).filter(|made| made.guests.is_empty());
                (*place, made.map(|made| &made.path))
            })
            .collect();
        let own: BTreeSet<&PathBuf> = on_hosts.iter().filter_map(|(_, own)| *own).collect();
        let targets: Vec<PathBuf> = self.targets.iter().chain(own).cloned().collect();
        observer(Progress::Settling {
            settling: self.settling,
            targets: &targets,
        });
        tracing::debug!(?targets, "settling the host");
        let begun: Vec<_> = (on_hosts.into_iter())
            .map(|(place, own)| {
                let targets: Vec<PathBuf> = self.targets.iter().chain(own).cloned().collect();
                let node = self.lab.nodes[place].node;
                node.settle(&self.settling, &targets, self.lab.stop)
            })
            .collect();
        let mut unsettled: Vec<Unsettled> = begun.into_iter().flat_map(|ends| ends()).collect();
        let guests: Vec<_> = (made.iter())
            .flat_map(|(place, made)| {
                let within = made.nodes(self.lab.nodes[*place].node).into_iter();
                within.map(|guest| (guest, std::slice::from_ref(&made.path)))
            })
            .collect();
        let begun: Vec<_> = (guests.iter())
            .map(|(guest, own)| guest.settle(&self.settling, own, self.lab.stop))
            .collect();
        unsettled.extend(begun.into_iter().flat_map(|ends| ends()));
        tracing::debug!(?unsettled, "settled");
        for one in &unsettled {
            let known = |messages: &Unsettled| discriminant(messages) == discriminant(one);
            if !self.messages.iter().any(known) {
                observer(Progress::Note(&one.to_string()));
                self.messages.push(one.clone());
            }
        }
        settled.asked = true;
        for one in &unsettled {
            match one {
                Unsettled::CachesKept { .. } => settled.caches_kept = true,
                Unsettled::NotIdle { .. } => settled.devices_busy = true,
            }
        }
        let notes = unsettled.iter().map(ToString::to_string);
        (settled, notes.collect())
    }

    /// Adds the paths that a trial's I/O used. Those of a target that was made exist only for some trials.
    pub(crate) fn learn(&mut self, environment: &Environment) {
        if environment.made.is_some() {
            return;
        }
        let paths = environment.targets.iter().map(|target| target.path.clone());
        self.targets.extend(paths);
    }
}

/// The paths that a plan names.
fn planned(plan: &Plan) -> BTreeSet<PathBuf> {
    (0..plan.cells())
        .flat_map(|cell| planned_for(plan, cell))
        .collect()
}

/// The paths of one cell.
pub(crate) fn planned_for(plan: &Plan, cell: u32) -> BTreeSet<PathBuf> {
    let (configuration, workload) = plan.cell(cell);
    let mut paths = BTreeSet::new();
    match &configuration.target {
        Target::Path(path) => {
            paths.insert(path.clone());
        }
        // It is known only after it was made.
        Target::Made(_) | Target::Simulated(_) => {}
        Target::AsWritten { folder } => {
            for job in &workload.jobs {
                let Some(Blocks { files, .. }) = job.work.blocks() else {
                    paths.extend(paths_of(&configuration.target, job));
                    continue;
                };
                let folders = files.directories.iter();
                paths.extend(folders.map(|path| folder.join(path)));
                paths.extend(files.names.iter().map(|path| folder.join(path)));
                if files.directories.is_empty() && files.names.is_empty() {
                    paths.insert(folder.clone());
                }
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use iodyno_model::{Operations, Work};

    use super::*;
    use crate::testing::plan;

    #[test]
    fn paths_of_a_plan_are_its_targets_or_those_named_by_its_jobs() {
        let paths = |plan: &Plan| -> Vec<String> {
            let paths = planned(plan).into_iter();
            paths.map(|path| path.display().to_string()).collect()
        };
        let mut plan = plan(2, 1, 1);
        assert_eq!(paths(&plan), ["/c0", "/c1"]);
        plan.configurations.truncate(1);
        plan.configurations[0].target = Target::AsWritten {
            folder: "/home/ada".into(),
        };
        assert_eq!(paths(&plan), ["/home/ada"]);
        let work = &mut plan.workloads[0].jobs[0].work;
        work.blocks_mut().unwrap().files.names = vec!["/dev/loop9".into(), "data".into()];
        assert_eq!(paths(&plan), ["/dev/loop9", "/home/ada/data"]);
        plan.workloads[0].jobs[0].work = Work::FileOperations(Operations {
            about: String::new(),
            sets: Vec::new(),
            cycle: Vec::new(),
            own_folders: false,
            drain: false,
            writing: Default::default(),
            fio: None,
            command: None,
        });
        assert_eq!(paths(&plan), ["/home/ada"]);
    }
}
