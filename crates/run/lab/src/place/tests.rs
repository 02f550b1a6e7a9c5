use iodyno_model::{DeviceLayer, MountInfo};
use iodyno_runner::{Examination, Node, StopFlag};

use super::*;
use crate::testing::{Act, FakeNode, plan};

fn environment() -> Environment {
    iodyno_judge::testing::part(Vec::new()).environment
}

fn mount(environment: &mut Environment) -> &mut MountInfo {
    match &mut environment.targets[0].stack[0] {
        StackLayer::Mount(mount) => mount,
        other => panic!("{other:?}"),
    }
}

fn disk(environment: &mut Environment) -> &mut DeviceLayer {
    match &mut environment.targets[0].stack[1] {
        StackLayer::Disk(disk) => disk,
        other => panic!("{other:?}"),
    }
}

/// The message for a trial of the same cell, or of another one, after a change.
fn changed(cell: u32, change: impl FnOnce(&mut Environment)) -> Option<String> {
    let plan = plan(2, 2, 1);
    let (before, mut now) = (environment(), environment());
    change(&mut now);
    let mut places = Places::default();
    assert_eq!(places.moved(&plan, 0, &before), None);
    places.moved(&plan, cell, &now)
}

#[test]
fn a_remount_or_reboot_is_not_a_change_but_another_file_system_or_device_is() {
    type Change = fn(&mut Environment);
    let same: [(&str, Change); 6] = [
        ("nothing", |_| {}),
        ("free space", |now| mount(now).free = 1),
        ("mount options", |now| {
            mount(now).options = "noatime,ro".to_owned()
        }),
        ("source", |now| mount(now).source = "/dev/vdb".to_owned()),
        ("device name", |now| {
            disk(now).name = "vdb".to_owned();
            disk(now).number = (8, 16);
        }),
        ("scheduler", |now| disk(now).scheduler = "bfq".to_owned()),
    ];
    for (what, change) in same {
        assert_eq!(changed(0, change), None, "{what}");
    }
    let other: [(&str, Change); 8] = [
        ("mount point", |now| mount(now).point = "/".into()),
        ("file system", |now| {
            mount(now).file_system = "xfs".to_owned()
        }),
        ("file system's size", |now| mount(now).total -= 4096),
        ("server", |now| {
            mount(now).source = "server:/export".to_owned()
        }),
        ("disk's size", |now| disk(now).size += 512),
        ("model", |now| disk(now).model = "another".to_owned()),
        ("no device", |now| now.targets[0].stack.truncate(1)),
        ("a device without file system", |now| {
            now.targets[0].stack.remove(0);
        }),
    ];
    for (what, change) in other {
        let why = changed(0, change).expect(what);
        assert!(
            why.starts_with("the target has changed: /mnt/e on "),
            "{why}"
        );
    }
    let unmounted = changed(0, |now| mount(now).point = "/".into());
    assert_eq!(
        unmounted.unwrap(),
        "the target has changed: \
         /mnt/e on ext4 at /mnt/e of 268435456000 bytes, a disk of 274877906944 bytes before, \
         now /mnt/e on ext4 at / of 268435456000 bytes, a disk of 274877906944 bytes"
    );
}

#[test]
fn other_paths_are_reported_only_for_the_same_cell() {
    let another = |now: &mut Environment| now.targets[0].path = PathBuf::from("/mnt");
    assert_eq!(
        changed(0, another).unwrap(),
        "the target has changed: /mnt/e before, now /mnt"
    );
    assert!(changed(0, |now| now.targets.clear()).is_some());
    assert_eq!(changed(1, another), None);
}

#[test]
fn a_path_is_the_same_target_for_all_workloads_of_a_configuration_only() {
    let unmounted = |now: &mut Environment| mount(now).point = "/".into();
    assert!(changed(1, unmounted).is_some());
    assert_eq!(changed(2, unmounted), None);
}

#[test]
fn a_loop_device_is_identified_by_its_file_and_a_pool_by_its_name() {
    let looped = |number: u32, file: &str| {
        let device = DeviceLayer {
            name: format!("loop{number}"),
            number: (7, number),
            size: 1 << 20,
            ..DeviceLayer::default()
        };
        let (file, direct) = (file.into(), number > 0);
        let stack = vec![StackLayer::Loop {
            device,
            file,
            direct,
        }];
        identity(&TargetInfo {
            path: "/x".into(),
            stack,
        })
    };
    assert_eq!(
        looped(0, "/a.img"),
        "a loop device of 1048576 bytes on /a.img"
    );
    assert_eq!(looped(0, "/a.img"), looped(3, "/a.img (deleted)"));
    assert_ne!(looped(0, "/a.img"), looped(0, "/b.img"));

    let pool = |source: &str, total| {
        let mount = MountInfo {
            point: "/tank".into(),
            file_system: "zfs".to_owned(),
            source: source.to_owned(),
            total,
            ..MountInfo::default()
        };
        let below = StackLayer::Other("ZFS pool `tank`".to_owned());
        let stack = vec![StackLayer::Mount(mount), below];
        identity(&TargetInfo {
            path: "/tank".into(),
            stack,
        })
    };
    assert_eq!(pool("tank/t", 5), "zfs tank/t at /tank, ZFS pool `tank`");
    assert_eq!(
        pool("tank/t", 5),
        pool("tank/t", 4),
        "other file systems use the pool as well"
    );
    assert_ne!(pool("tank/t", 5), pool("tank/u", 5));
}

#[test]
fn a_known_target_is_checked_before_a_trial() {
    let plan = plan(2, 2, 1);
    let mut node = FakeNode::new(|_| Act::Complete);
    node.unmounted = |_| &["/c0"];
    let found = |path: &str| {
        let mut environment = environment();
        environment.targets[0].path = path.into();
        environment
    };
    for (path, known) in [
        ("/c0", true),
        ("/c0/sub", true),
        ("/c1", false),
        ("/c00", false),
    ] {
        let mut places = Places::default();
        let lost = |places: &Places, cell| {
            let wanted = Examination {
                describe: places.of_cell(&plan, cell),
                ..Examination::default()
            };
            let now = node.examine(wanted, &StopFlag::new())();
            places.lost(&plan, cell, &now.stacks)
        };
        assert_eq!(lost(&places, 0), None, "nothing is known yet");
        places.moved(&plan, 0, &found(path));
        assert_eq!(lost(&places, 0).is_some(), known, "{path}");
        // The other workload of the configuration, which has had no trial.
        assert_eq!(lost(&places, 1).is_some(), known, "{path}");
        assert_eq!(lost(&places, 2), None, "{path}");
    }
}
