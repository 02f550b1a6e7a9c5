//! Checks that a cell's I/O still goes to the same file system or device as in the run's earlier trials.
//!
//! If a folder was removed or a file system unmounted, the next trial would create its files on the file system below
//! and measure that. A target is therefore checked before a trial accesses it, and again with the data that the trial
//! found.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use iodyno_model::{Environment, Plan, StackLayer, TargetInfo};

use crate::settle::planned_for;

/// The file systems and devices that each configuration and cell uses, as found by the first trial.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The description of each path of a configuration.
    found: BTreeMap<(usize, PathBuf), String>,
    /// The paths of each cell.
    cells: BTreeMap<u32, BTreeSet<PathBuf>>,
}

impl Places {
    /// The known paths of a cell: its own or, before its first trial, those that other cells of its configuration found
    /// at the location of its files.
    pub(crate) fn of_cell(&self, plan: &Plan, cell: u32) -> Vec<PathBuf> {
        let configuration = configuration(plan, cell);
        let own = self.cells.get(&cell);
        let planned = planned_for(plan, cell);
        self.found
            .keys()
            .filter(|(of, _)| *of == configuration)
            .map(|(_, path)| path)
            .filter(|path| match own {
                Some(own) => own.contains(*path),
                None => planned.iter().any(|planned| concerns(path, planned)),
            })
            .cloned()
            .collect()
    }

    /// Forgets what a configuration's trials found: its target was made again.
    pub(crate) fn forget(&mut self, plan: &Plan, of: usize) {
        self.found
            .retain(|(configuration, _), _| *configuration != of);
        self.cells
            .retain(|cell, _| configuration(plan, *cell) != of);
    }

    /// The changes of a cell's paths, given their storage stacks now.
    pub(crate) fn lost(&self, plan: &Plan, cell: u32, now: &[TargetInfo]) -> Option<String> {
        self.changed(configuration(plan, cell), now)
    }

    /// Changes according to a trial's environment. Paths that were unknown are remembered.
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
    format!("the target has changed: {before} before, now {now}")
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
    plan.place(cell).0
}

/// Whether files at a planned path are in, at or directly below a path that was found.
fn concerns(found: &Path, planned: &Path) -> bool {
    found.starts_with(planned) || planned.parent() == Some(found)
}

/// Identifies a target's file system and the devices directly below it by properties that survive a remount or a
/// reboot: not by the kernel's names and numbers. Free space and settings can change, and so can the size of a file
/// system in a pool.
fn identity(target: &TargetInfo) -> String {
    let mut layers = target.stack.iter().peekable();
    let mount = match layers.peek() {
        Some(StackLayer::Mount(mount)) => {
            layers.next();
            Some(mount)
        }
        _ => None,
    };
    // The storage of a loop device's file is covered by the file.
    let below: Vec<&StackLayer> = layers
        .take_while(|layer| !matches!(layer, StackLayer::Mount(_)))
        .collect();
    let sized = below.iter().any(|layer| layer.device().is_some());
    // Paths to one disk, and the disks of an array, are listed once: their order is arbitrary.
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
            // The kernel adds this suffix when the name of the file was removed; the device is the same.
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
