//! Whether the store is on the storage under test.

use std::collections::BTreeSet;

use iodyno_model::{Environment, Finding, FindingKind, MountInfo, StackLayer, Weight};

/// A finding if the store's file shares a mount, or a block device of any layer, with a target.
/// `store` is the stack below the store's file.
///
/// What lies below a loop device is another file system than the one on it: sharing that weighs as little as sharing
/// a disk.
pub(crate) fn store_on_target(store: &[StackLayer], environment: &Environment) -> Option<Finding> {
    let targets = environment.targets.iter();
    let stacks: Vec<&[StackLayer]> = targets.map(|target| target.stack.as_slice()).collect();
    if let Some(mount) = in_common(above_loops(store), stacks.iter().map(|s| above_loops(s))) {
        let point = mount.point.display();
        return Some(finding(
            Weight::Warning,
            format!("the store lies on the file system under test, {point}"),
        ));
    }
    let below: BTreeSet<(u32, u32)> = stacks.iter().flat_map(|stack| numbers(stack)).collect();
    let shared = |layer: &&StackLayer| {
        let device = layer.device();
        device.is_some_and(|device| below.contains(&device.number))
    };
    // The disk says more than its partition.
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

/// What is written to as files: without what holds the files of loop devices.
fn above_loops(stack: &[StackLayer]) -> &[StackLayer] {
    let first = stack
        .iter()
        .position(|layer| matches!(layer, StackLayer::Loop { .. }));
    &stack[..first.unwrap_or(stack.len())]
}

/// A mount of the store's that any target has, too.
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
        text: format!("{text}: each second's frame is written there, too"),
        threshold: "a file system or device in common".to_owned(),
        remedy: Some("keep the store elsewhere with `--store PATH`".to_owned()),
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

    #[test]
    fn tells_the_same_file_system_from_the_same_disk_and_from_neither() {
        for (store, target, expected) in [
            (
                vec![mount("/", "/dev/vda1"), disk("vda", 0)],
                vec![mount("/", "/dev/vda1")],
                Some((Weight::Warning, "lies on the file system under test, /")),
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
            // A loop device whose file lies on the store's file system.
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
                Some((Weight::Warning, "lies on the file system under test, /mnt")),
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
            let found = store_on_target(&store, &environment);
            let weight = found.as_ref().map(|finding| finding.weight);
            assert_eq!(
                weight,
                expected.map(|(weight, _)| weight),
                "{store:?} {target:?}"
            );
            if let (Some(found), Some((_, text))) = (found, expected) {
                let whole = format!("the store {text}: each second's frame is written there, too");
                assert_eq!(found.text, whole);
            }
        }
    }
}
