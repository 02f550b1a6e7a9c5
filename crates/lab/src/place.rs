//! Whether a cell's I/O still goes to where it went in the run's first trials.
//!
//! A folder that is removed leaves a name that a file can be made at, a file system that is unmounted an
//! empty folder: the next trial would measure what lies below, and nobody would know.

use std::collections::BTreeMap;

use iodyno_model::{Environment, StackLayer};

/// Where each cell's I/O goes, as its first trial found it.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<u32, Vec<String>>);

impl Places {
    /// What is no longer as it was for a cell, in words. The first environment of a cell is what the others are
    /// held against.
    pub(crate) fn moved(&mut self, cell: u32, environment: &Environment) -> Option<String> {
        let now = places(environment);
        let before = self.0.entry(cell).or_insert_with(|| now.clone());
        (*before != now).then(|| {
            format!(
                "the target is no longer what it was: {} before, {} now",
                before.join(", "),
                now.join(", ")
            )
        })
    }
}

/// Each target's path with the file system or device that it is on. Free space and settings may change.
fn places(environment: &Environment) -> Vec<String> {
    let mut places: Vec<String> = environment
        .targets
        .iter()
        .map(|target| {
            let on = target.stack.first().map(|layer| match layer {
                StackLayer::Mount(mount) => format!(
                    "{} {} at {}",
                    mount.file_system,
                    mount.source,
                    mount.point.display()
                ),
                StackLayer::Other(what) => what.clone(),
                layer => layer
                    .device()
                    .map_or_else(String::new, |device| device.name.clone()),
            });
            format!("{} on {}", target.path.display(), on.unwrap_or_default())
        })
        .collect();
    places.sort();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn environment() -> Environment {
        iodyno_judge::testing::part(Vec::new()).environment
    }

    fn changed(change: impl FnOnce(&mut Environment)) -> Option<String> {
        let (before, mut now) = (environment(), environment());
        change(&mut now);
        let mut places = Places::default();
        assert_eq!(places.moved(3, &before), None);
        assert_eq!(
            places.moved(4, &now),
            None,
            "cells have targets of their own"
        );
        places.moved(3, &now)
    }

    fn mount(environment: &mut Environment) -> &mut iodyno_model::MountInfo {
        match &mut environment.targets[0].stack[0] {
            StackLayer::Mount(mount) => mount,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_file_system_or_folder_is_told_and_another_free_space_is_not() {
        assert_eq!(changed(|_| {}), None);
        assert_eq!(changed(|now| mount(now).free = 1), None);
        let unmounted = changed(|now| {
            mount(now).point = PathBuf::from("/");
            mount(now).source = "/dev/sda1".to_owned();
        });
        assert_eq!(
            unmounted.unwrap(),
            "the target is no longer what it was: /mnt/e on ext4 /dev/vda at /mnt/e before, \
             /mnt/e on ext4 /dev/sda1 at / now"
        );
        assert!(changed(|now| now.targets[0].path = PathBuf::from("/mnt")).is_some());
        assert!(changed(|now| now.targets.clear()).is_some());
    }
}
