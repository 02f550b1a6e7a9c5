//! Whether a cell's I/O still goes to where it went in the run's trials before.
//!
//! A folder that is removed leaves a name that a file can be made at, a file system that is unmounted an
//! empty folder: the next trial would lay its files out on what lies below, and measure that. So a target
//! is looked at before a trial touches it, and once more by what the trial found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use iodyno_model::{Environment, Plan, StackLayer, TargetInfo};
use iodyno_runner::Node;

use crate::settle::planned_for;

/// Where the I/O of each configuration and cell goes, as the first trial that told it found it.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// What lay at each path of a configuration.
    found: BTreeMap<(usize, PathBuf), String>,
    /// The paths of each cell.
    cells: BTreeMap<u32, BTreeSet<PathBuf>>,
}

impl Places {
    /// What is no longer as it was for a cell, in words, before anything is done to it: of its own paths, or, before
    /// its first trial, of those that its configuration's other cells found where its files will be.
    pub(crate) fn lost(&self, plan: &Plan, cell: u32, node: &dyn Node) -> Option<String> {
        let configuration = configuration(plan, cell);
        let own = self.cells.get(&cell);
        let planned = planned_for(plan, cell);
        let paths: Vec<PathBuf> = self
            .found
            .keys()
            .filter(|(of, _)| *of == configuration)
            .map(|(_, path)| path)
            .filter(|path| match own {
                Some(own) => own.contains(*path),
                None => planned.iter().any(|planned| concerns(path, planned)),
            })
            .cloned()
            .collect();
        match paths.is_empty() {
            true => None,
            false => self.changed(configuration, &node.describe(&paths)),
        }
    }

    /// What a trial of a cell found that is not as it was, in words. What was not known before is learnt.
    pub(crate) fn moved(
        &mut self,
        plan: &Plan,
        cell: u32,
        environment: &Environment,
    ) -> Option<String> {
        let configuration = configuration(plan, cell);
        let targets = &environment.targets;
        if let Some(why) = self.changed(configuration, targets) {
            return Some(why);
        }
        let now: BTreeSet<PathBuf> = targets.iter().map(|target| target.path.clone()).collect();
        if let Some(before) = self.cells.get(&cell).filter(|before| **before != now) {
            return Some(words(&listed(before), &listed(&now)));
        }
        for target in targets {
            self.found
                .entry((configuration, target.path.clone()))
                .or_insert_with(|| identity(target));
        }
        self.cells.insert(cell, now);
        None
    }

    fn changed(&self, configuration: usize, now: &[TargetInfo]) -> Option<String> {
        let (before, now): (Vec<String>, Vec<String>) = now
            .iter()
            .filter_map(|target| {
                let before = self.found.get(&(configuration, target.path.clone()))?;
                let now = identity(target);
                let path = target.path.display();
                (*before != now)
                    .then(|| (format!("{path} on {before}"), format!("{path} on {now}")))
            })
            .unzip();
        (!before.is_empty()).then(|| words(&before.join("; "), &now.join("; ")))
    }
}

fn words(before: &str, now: &str) -> String {
    format!("the target is no longer what it was: {before} before, now {now}")
}

fn listed(paths: &BTreeSet<PathBuf>) -> String {
    match paths.is_empty() {
        true => "nothing".to_owned(),
        false => paths
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn configuration(plan: &Plan, cell: u32) -> usize {
    cell as usize / plan.workloads.len().max(1)
}

/// Whether files that are planned at a path are where others were found: in, at or right below it.
fn concerns(found: &Path, planned: &Path) -> bool {
    found.starts_with(planned) || planned.parent() == Some(found)
}

/// A target's file system and the devices right below it, by what a remount or a reboot leaves as it is: not by the
/// kernel's names and numbers. Free space and settings may change, and so may the size of a file
/// system that takes it from a pool.
fn identity(target: &TargetInfo) -> String {
    let mut layers = target.stack.iter().peekable();
    let mount = match layers.peek() {
        Some(StackLayer::Mount(mount)) => {
            layers.next();
            Some(mount)
        }
        _ => None,
    };
    // What a loop device's file lies on is that file's matter.
    let below: Vec<&StackLayer> = layers
        .take_while(|layer| !matches!(layer, StackLayer::Mount(_)))
        .collect();
    let sized = below.iter().any(|layer| layer.device().is_some());
    // Paths to one disk, and the disks of an array, are told once: their order is the kernel's.
    let below: BTreeSet<String> = below.into_iter().map(device).collect();
    let mount = mount.map(|mount| {
        let source = match mount.source.starts_with("/dev/") {
            true => String::new(),
            false => format!(" {}", mount.source),
        };
        let size = match sized {
            true => format!(" of {} bytes", mount.total),
            false => String::new(),
        };
        let point = mount.point.display();
        format!("{}{source} at {point}{size}", mount.file_system)
    });
    let parts: Vec<String> = mount.into_iter().chain(below).collect();
    match parts.is_empty() {
        true => "nothing known".to_owned(),
        false => parts.join(", "),
    }
}

fn device(layer: &StackLayer) -> String {
    match layer {
        StackLayer::Mount(_) => String::new(),
        StackLayer::Partition(device) => format!("a partition of {} bytes", device.size),
        StackLayer::Loop { device, file, .. } => {
            let file = file.to_string_lossy();
            // The kernel says so once the file's name is gone; the device is what it was.
            let file = file.strip_suffix(" (deleted)").unwrap_or(&file);
            format!("a loop device of {} bytes on {file}", device.size)
        }
        StackLayer::Mapped {
            device,
            driver,
            name,
        } => format!("{driver} {name} of {} bytes", device.size),
        StackLayer::Disk(device) => {
            let model = match device.model.is_empty() {
                true => String::new(),
                false => format!(" ({})", device.model),
            };
            format!("a disk of {} bytes{model}", device.size)
        }
        StackLayer::Other(what) => what.clone(),
    }
}

#[cfg(test)]
mod tests;
