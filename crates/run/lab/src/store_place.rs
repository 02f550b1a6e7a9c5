//! Detects that the store is on the storage under test.

use std::collections::BTreeSet;

use iodyno_model::{
    Environment, Finding, FindingKind, Job, MountInfo, StackLayer, SyncPolicy, Weight, Work,
    Workload,
};

/// Returns a finding if the store's file shares a mount, or a block device of any layer, with a target. `store` is
/// the storage stack below the store's file.
///
/// Only a few KiB per second are stored, without a sync. This matters if the jobs sync or change metadata, because
/// the file system's journal then writes both together; otherwise the finding is a note. The file of a loop device is
/// on another file system than the one on the device: sharing that file system matters as little as sharing a disk.
pub(crate) fn store_on_target(
    store: &[StackLayer],
    environment: &Environment,
    workload: &Workload,
) -> Option<Finding> {
    let targets = environment.targets.iter();
    let stacks: Vec<&[StackLayer]> = targets.map(|target| target.stack.as_slice()).collect();
    if let Some(mount) = in_common(above_loops(store), stacks.iter().map(|s| above_loops(s))) {
        let point = mount.point.display();
        let weight = match workload.jobs.iter().any(uses_journal) {
            true => Weight::Warning,
            false => Weight::Note,
        };
        return Some(finding(
            weight,
            format!("the store is on the file system under test, {point}"),
        ));
    }
    let below: BTreeSet<(u32, u32)> = stacks.iter().flat_map(|stack| numbers(stack)).collect();
    let shared = |layer: &&StackLayer| {
        let device = layer.device();
        device.is_some_and(|device| below.contains(&device.number))
    };
    // The disk is more informative than its partition.
    let disk = |layer: &&StackLayer| matches!(layer, StackLayer::Disk(_)) && shared(layer);
    let device = store
        .iter()
        .find(disk)
        .or_else(|| store.iter().find(shared));
    let what = match (device, device.and_then(StackLayer::device)) {
        (Some(StackLayer::Disk(_)), Some(disk)) => format!("disk {}", disk.name),
        (_, Some(device)) => device.name.clone(),
        _ => {
            let mount = in_common(store, stacks.into_iter())?;
            format!("the file system {}", mount.point.display())
        }
    };
    Some(finding(
        Weight::Note,
        format!("the store shares {what} with the target"),
    ))
}

/// Whether the job syncs, or changes metadata.
fn uses_journal(job: &Job) -> bool {
    match &job.work {
        Work::Blocks(blocks) => {
            let SyncPolicy {
                fsync_every,
                fdatasync_every,
                ..
            } = blocks.sync;
            let engine = &blocks.engine;
            fsync_every > 0 || fdatasync_every > 0 || engine.o_sync || engine.o_dsync
        }
        // What a command does is unknown.
        Work::FileOperations(operations) => operations.command.is_none(),
        Work::SharedFiles(files) => files.fsync_every > 0 || files.fsync_all,
    }
}

/// The layers that contain the written files, without those of backing files of loop devices.
fn above_loops(stack: &[StackLayer]) -> &[StackLayer] {
    let first = stack
        .iter()
        .position(|layer| matches!(layer, StackLayer::Loop { .. }));
    &stack[..first.unwrap_or(stack.len())]
}

/// A mount that the store has in common with a target.
fn in_common<'a>(
    store: &'a [StackLayer],
    stacks: impl Iterator<Item = &'a [StackLayer]>,
) -> Option<&'a MountInfo> {
    let others: Vec<&MountInfo> = stacks.flat_map(mounts).collect();
    mounts(store).find(|mount| {
        let mut others = others.iter();
        others.any(|other| (&other.point, &other.source) == (&mount.point, &mount.source))
    })
}

fn finding(weight: Weight, text: String) -> Finding {
    Finding {
        kind: FindingKind::StoreOnTarget,
        weight,
        text: format!("{text}: results are written there every second"),
        threshold: "a file system or device in common; a warning where a job on this file system syncs or changes metadata".to_owned(),
        remedy: Some("keep the store elsewhere with `--store PATH`".to_owned()),
        spans_ns: Vec::new(),
    }
}

fn mounts(stack: &[StackLayer]) -> impl Iterator<Item = &MountInfo> {
    stack.iter().filter_map(|layer| match layer {
        StackLayer::Mount(mount) => Some(mount),
        _ => None,
    })
}

fn numbers(stack: &[StackLayer]) -> impl Iterator<Item = (u32, u32)> {
    stack
        .iter()
        .filter_map(StackLayer::device)
        .map(|device| device.number)
}

#[cfg(test)]
mod tests {
    use iodyno_model::{DeviceLayer, TargetInfo};

    use super::*;

    fn mount(point: &str, source: &str) -> StackLayer {
        StackLayer::Mount(MountInfo {
            point: point.into(),
            source: source.into(),
            ..MountInfo::default()
        })
    }

    fn image(name: &str) -> StackLayer {
        StackLayer::Loop {
            device: DeviceLayer {
                name: name.into(),
                number: (7, 0),
                ..DeviceLayer::default()
            },
            file: "/image".into(),
            direct: false,
        }
    }

    fn disk(name: &str, minor: u32) -> StackLayer {
        StackLayer::Disk(DeviceLayer {
            name: name.into(),
            number: (254, minor),
            ..DeviceLayer::default()
        })
    }

    fn blocks(sync: SyncPolicy, o_dsync: bool) -> Workload {
        let mut blocks = iodyno_model::Blocks {
            sync,
            ..iodyno_model::Blocks::default()
        };
        blocks.engine.o_dsync = o_dsync;
        let job = Job {
            work: Work::Blocks(blocks),
            ..Job::default()
        };
        Workload::new("w", Vec::new(), vec![Job::default(), job])
    }

    /// One of two jobs syncs.
    fn syncs() -> Workload {
        let each_write = SyncPolicy {
            fsync_every: 1,
            ..SyncPolicy::default()
        };
        blocks(each_write, false)
    }

    #[test]
    fn the_same_file_system_is_a_warning_where_jobs_use_its_journal() {
        let stack = [mount("/", "/dev/vda1"), disk("vda", 0)];
        let environment = Environment {
            targets: vec![TargetInfo {
                path: "/x".into(),
                stack: stack.to_vec(),
            }],
            ..Environment::default()
        };
        let at_the_end = SyncPolicy {
            end_fsync: true,
            ..SyncPolicy::default()
        };
        let job = Job {
            work: Work::FileOperations(iodyno_model::Operations {
                about: String::new(),
                sets: Vec::new(),
                cycle: Vec::new(),
                own_folders: false,
                drain: false,
                writing: iodyno_model::Writing::default(),
                fio: None,
                command: Some(iodyno_model::ShellCommand::new("true")),
            }),
            ..Job::default()
        };
        let command = Workload::new("w", Vec::new(), vec![job]);
        for (workload, weight) in [
            (command, Weight::Note),
            (syncs(), Weight::Warning),
            (blocks(SyncPolicy::default(), true), Weight::Warning),
            (blocks(at_the_end, false), Weight::Note),
        ] {
            let found = store_on_target(&stack, &environment, &workload).unwrap();
            assert_eq!(found.weight, weight, "{workload:?}");
        }
    }

    #[test]
    fn distinguishes_the_same_file_system_from_the_same_disk_and_from_neither() {
        for (store, target, expected) in [
            (
                vec![mount("/", "/dev/vda1"), disk("vda", 0)],
                vec![mount("/", "/dev/vda1")],
                Some((Weight::Warning, "is on the file system under test, /")),
            ),
            (
                vec![mount("/", "/dev/vda1"), disk("vda", 0)],
                vec![mount("/mnt", "/dev/vda2"), disk("vda", 0)],
                Some((Weight::Note, "shares disk vda with the target")),
            ),
            (
                vec![mount("/", "/dev/vda1"), disk("vda", 0)],
                vec![disk("vda", 0)],
                Some((Weight::Note, "shares disk vda with the target")),
            ),
            // A loop device whose file is on the store's file system.
            (
                vec![mount("/", "/dev/vda1"), disk("vda", 0)],
                vec![
                    mount("/mnt", "/dev/loop0"),
                    image("loop0"),
                    mount("/", "/dev/vda1"),
                    disk("vda", 0),
                ],
                Some((Weight::Note, "shares disk vda with the target")),
            ),
            (
                vec![
                    mount("/mnt", "/dev/loop0"),
                    image("loop0"),
                    mount("/", "/dev/vda1"),
                    disk("vda", 0),
                ],
                vec![
                    mount("/mnt", "/dev/loop0"),
                    image("loop0"),
                    mount("/", "/dev/vda1"),
                    disk("vda", 0),
                ],
                Some((Weight::Warning, "is on the file system under test, /mnt")),
            ),
            (
                vec![mount("/tmp", "tmpfs")],
                vec![
                    mount("/mnt", "/dev/loop0"),
                    image("loop0"),
                    mount("/tmp", "tmpfs"),
                ],
                Some((Weight::Note, "shares the file system /tmp with the target")),
            ),
            (
                vec![mount("/", "/dev/vda1"), disk("vda", 0)],
                vec![mount("/mnt", "/dev/vdb1"), disk("vdb", 16)],
                None,
            ),
            (vec![mount("/a", "tmpfs")], vec![mount("/b", "tmpfs")], None),
            (vec![], vec![mount("/b", "tmpfs")], None),
        ] {
            let environment = Environment {
                targets: vec![TargetInfo {
                    path: "/x".into(),
                    stack: target.clone(),
                }],
                ..Environment::default()
            };
            let found = store_on_target(&store, &environment, &syncs());
            let weight = found.as_ref().map(|finding| finding.weight);
            assert_eq!(
                weight,
                expected.map(|(weight, _)| weight),
                "{store:?} {target:?}"
            );
            if let (Some(found), Some((_, text))) = (found, expected) {
                let whole = format!("the store {text}: results are written there every second");
                assert_eq!(found.text, whole);
            }
        }
    }
}
