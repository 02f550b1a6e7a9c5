//! Whether the store lies on the storage under test.

use std::collections::BTreeSet;

use iodyno_model::{Environment, Finding, FindingKind, MountInfo, StackLayer, Weight};

/// A finding if the store's file shares a mount, or a block device of any layer, with a target.
/// `store` is the stack below the store's file.
pub(crate) fn store_on_target(store: &[StackLayer], environment: &Environment) -> Option<Finding> {
    let targets = environment
        .targets
        .iter()
        .map(|target| target.stack.as_slice());
    let stacks: Vec<&[StackLayer]> = targets.collect();
    let mount = mounts(store).find(|mount| {
        stacks.iter().any(|stack| {
            mounts(stack)
                .any(|other| (&other.point, &other.source) == (&mount.point, &mount.source))
        })
    });
    if let Some(mount) = mount {
        return Some(finding(
            Weight::Warning,
            format!(
                "the store lies on the file system under test, {}",
                mount.point.display()
            ),
        ));
    }
    let below: BTreeSet<(u32, u32)> = stacks.iter().flat_map(|stack| numbers(stack)).collect();
    let device = store
        .iter()
        .filter_map(StackLayer::device)
        .find(|device| below.contains(&device.number))?;
    Some(finding(
        Weight::Note,
        format!("the store lies on {}, a device under test", device.name),
    ))
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
                Some(Weight::Warning),
            ),
            (
                vec![mount("/", "/dev/vda1"), disk("vda", 0)],
                vec![mount("/mnt", "/dev/vda2"), disk("vda", 0)],
                Some(Weight::Note),
            ),
            (
                vec![mount("/", "/dev/vda1"), disk("vda", 0)],
                vec![disk("vda", 0)],
                Some(Weight::Note),
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
            assert_eq!(
                found.map(|finding| finding.weight),
                expected,
                "{store:?} {target:?}"
            );
        }
    }
}
