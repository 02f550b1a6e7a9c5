//! Determines the ZFS pools below targets. Pure.

use iodyno_model::{StackLayer, TargetInfo};

/// The names of the pools that contain the targets' file systems or volumes, each once.
pub(super) fn below(targets: &[TargetInfo]) -> Vec<String> {
    let mut pools: Vec<String> = Vec::new();
    let mounts =
        |target: &TargetInfo| -> Vec<String> { target.stack.iter().filter_map(of_mount).collect() };
    for pool in targets
        .iter()
        .flat_map(|target| mounts(target).into_iter().chain(of_volume(target)))
    {
        if !pools.contains(&pool) {
            pools.push(pool);
        }
    }
    pools
}

/// The pool of a mounted data set (by the kernel or by zfs-fuse).
fn of_mount(layer: &StackLayer) -> Option<String> {
    let StackLayer::Mount(mount) = layer else {
        return None;
    };
    let zfs = mount.file_system == "zfs" || mount.file_system.starts_with("fuse.zfs");
    zfs.then(|| pool(&mount.source)).flatten()
}

/// The pool of a volume that the user named by its link.
fn of_volume(target: &TargetInfo) -> Option<String> {
    pool(target.path.to_str()?.strip_prefix("/dev/zvol/")?)
}

/// `tank` of `tank/home@today`.
fn pool(source: &str) -> Option<String> {
    let name = source.split(['/', '@']).next().unwrap_or_default();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::MountInfo;

    fn target(path: &str, mounts: &[(&str, &str)]) -> TargetInfo {
        let mount = |(file_system, source): &(&str, &str)| {
            StackLayer::Mount(MountInfo {
                file_system: (*file_system).to_owned(),
                source: (*source).to_owned(),
                ..MountInfo::default()
            })
        };
        TargetInfo {
            path: path.into(),
            stack: mounts.iter().map(mount).collect(),
        }
    }

    #[test]
    fn finds_the_pools_of_data_sets_and_volumes_each_once() {
        let targets = [
            target("/t/a", &[("zfs", "tank/a/b")]),
            target("/t/b", &[("zfs", "tank")]),
            target("/f", &[("fuse.zfs", "old/x")]),
            target("/l", &[("ext4", "/dev/loop0"), ("zfs", "below")]),
            target("/s", &[("zfs", "snap@today")]),
            target("/dev/zvol/volumes/v1", &[]),
            target(
                "/e",
                &[
                    ("ext4", "/dev/sda1"),
                    ("fuse", "kstat"),
                    ("fuse.sshfs", "u@h:/x"),
                ],
            ),
            target("/z", &[("zfs", "")]),
        ];
        let expected = ["tank", "old", "below", "snap", "volumes"];
        assert_eq!(below(&targets), expected);
    }
}
