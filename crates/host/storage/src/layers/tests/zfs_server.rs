//! The server of zfs-fuse and its pools.

use super::*;

#[test]
fn zfs_fuse_runs_as_long_as_it_has_pools() {
    let world = World::new();
    make(&world, provisions(&world).remove(2)).unwrap();
    let other = ProvisionRequest {
        token: "t-2".to_owned(),
        ..request(provisions(&world).remove(2))
    };
    let maker = world.maker();
    maker.provision(&other, DEAD).unwrap();
    assert_eq!(world.marked("zfs-fuse").len(), 1);
    maker.tear_down(TOKEN);
    assert_eq!(world.marked("zfs-fuse").len(), 1, "t-2 has a pool");
    maker.tear_down("t-2");
    assert_eq!(world.marked("zfs-fuse").len(), 0);
}

#[test]
fn the_zfs_fuse_of_a_container_is_not_ended_from_outside() {
    let world = World::new();
    let namespaces = world.host.path("proc/self/ns");
    fs::create_dir_all(&namespaces).unwrap();
    let enter = |namespace: &str| {
        let _ = fs::remove_file(namespaces.join("mnt"));
        symlink(namespace, namespaces.join("mnt")).unwrap();
    };
    enter("mnt:[1]");
    make(&world, provisions(&world).remove(2)).unwrap();
    let inside = world.marked("zfs-fuse mnt:[1]");
    assert_eq!(inside.len(), 1);
    // Its pools are not known outside.
    let pools = std::mem::take(&mut *world.pools.borrow_mut());
    enter("mnt:[2]");
    let maker = world.maker();
    let other = ProvisionRequest {
        token: "t-2".to_owned(),
        ..request(provisions(&world).remove(2))
    };
    maker.provision(&other, DEAD).unwrap();
    maker.tear_down("t-2");
    assert_eq!(world.marked("zfs-fuse mnt:[1]"), inside);
    enter("mnt:[1]");
    *world.pools.borrow_mut() = pools;
    maker.tear_down(TOKEN);
    assert_eq!(world.marked("zfs-fuse mnt:[1]").len(), 0);
}

#[test]
fn clean_ends_the_zfs_fuse_of_a_mount_namespace_without_other_processes() {
    let world = World::new();
    world.enter("self", "mnt:[1]");
    world.enter("5001", "mnt:[1]");
    make(&world, provisions(&world).remove(2)).unwrap();
    let server = world.marked("zfs-fuse mnt:[1]");
    assert_eq!(server.len(), 1);
    world.enter(&server[0].to_string(), "mnt:[1]");
    // Its run was killed, and its pools are not known outside.
    world.pools.borrow_mut().clear();
    world.enter("self", "mnt:[2]");
    let listed = world.maker().clean(true);
    assert!(
        !listed.orphans[0]
            .undone
            .contains(&"server zfs-fuse".to_owned())
    );
    world.enter("5001", "mnt:[2]");
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.orphans[0].faults, []);
    assert_eq!(world.marked("zfs-fuse mnt:[1]").len(), 0, "{cleaned:?}");
}

#[test]
fn the_zfs_fuse_of_a_container_does_not_wait_for_targets_outside() {
    let world = World::new();
    let owner = world.living(4712);
    world.enter("self", "mnt:[1]");
    world.enter("4712", "mnt:[1]");
    let maker = world.maker();
    let outside = ProvisionRequest {
        token: "t-2".to_owned(),
        ..request(provisions(&world).remove(2))
    };
    maker.provision(&outside, owner).unwrap();
    let pools = std::mem::take(&mut *world.pools.borrow_mut());
    world.enter("self", "mnt:[2]");
    make(&world, provisions(&world).remove(2)).unwrap();
    *world.fails.borrow_mut() = Some("zpool destroy");
    assert_eq!(maker.tear_down(TOKEN).faults, []);
    assert_eq!(world.marked("zfs-fuse mnt:[2]").len(), 0);
    assert_eq!(world.marked("zfs-fuse mnt:[1]").len(), 1);
    *world.fails.borrow_mut() = None;
    world.enter("self", "mnt:[1]");
    *world.pools.borrow_mut() = pools;
    assert_eq!(maker.tear_down("t-2").faults, []);
}

#[test]
fn zfs_fuse_is_kept_for_a_target_that_has_not_made_its_pool_yet() {
    let world = World::new();
    make(&world, provisions(&world).remove(2)).unwrap();
    let maker = world.maker();
    let header = Header::new(
        "t-2",
        "b",
        "one".to_owned(),
        world.living(4712),
        provisions(&world).remove(2),
    );
    let mut other = Journal::begin(&maker.folders.journals, header, &world).unwrap();
    let log = world.host.path("log");
    other
        .intend(
            Action::ZfsFuse {
                log,
                pinning: Pinning::default(),
            },
            &world,
        )
        .unwrap();
    maker.tear_down(TOKEN);
    assert_eq!(world.marked("zfs-fuse").len(), 1, "t-2 is about to use it");
    drop(other);
    maker.tear_down("t-2");
    assert_eq!(world.marked("zfs-fuse").len(), 0);
}

#[test]
fn a_server_whose_only_pool_stays_busy_is_ended_and_another_pool_keeps_it() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(2)).unwrap();
    *world.fails.borrow_mut() = Some("zpool destroy");
    world.pools.borrow_mut().insert("tank".to_owned());
    let faults = world.maker().tear_down(TOKEN).faults;
    assert!(faults[0].message.contains("busy"), "{faults:?}");
    assert_eq!(
        world.marked("zfs-fuse").len(),
        1,
        "it has the pool of the user"
    );
    world.pools.borrow_mut().remove("tank");
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    *world.fails.borrow_mut() = None;
    assert_eq!(world.state(), before);
}

#[test]
fn a_server_is_ended_when_all_its_pools_stay_busy_and_belong_to_targets_that_end() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(2)).unwrap();
    let maker = world.maker();
    let other = ProvisionRequest {
        token: "t-2".to_owned(),
        ..request(provisions(&world).remove(2))
    };
    let owner = world.living(4712);
    maker.provision(&other, owner).unwrap();
    *world.fails.borrow_mut() = Some("zpool destroy");
    let faults = maker.tear_down(TOKEN).faults;
    assert!(faults[0].message.contains("busy"), "{faults:?}");
    fs::remove_dir_all(world.host.path("proc/4712")).unwrap();
    assert_eq!(maker.tear_down(TOKEN).faults, []);
    assert_eq!(world.marked("zfs-fuse").len(), 0);
    assert_eq!(maker.tear_down("t-2").faults, []);
    *world.fails.borrow_mut() = None;
    assert_eq!(world.state(), before);
}

#[test]
fn the_cache_of_a_pool_is_emptied_and_other_targets_have_none() {
    let world = World::new();
    make(&world, provisions(&world).remove(2)).unwrap();
    world.commands.borrow_mut().clear();
    world
        .maker()
        .change(TOKEN, StorageChange::EmptyCaches)
        .unwrap();
    let root = world.host.roots.root.display().to_string();
    let commands: Vec<String> = (world.commands.borrow().iter())
        .map(|command| command.replace(&root, ""))
        .collect();
    assert_eq!(
        commands,
        [
            "zpool export iodyno-t-1",
            "zpool import -o cachefile=none -d /run/iodyno/t-1/devices iodyno-t-1"
        ]
    );
    let links = world.host.path("run/iodyno/t-1/devices");
    assert_eq!(names(&links), ["0000", "0001", "0002", "0003"]);
    world.maker().tear_down(TOKEN);
    make(&world, provisions(&world).remove(0)).unwrap();
    world.commands.borrow_mut().clear();
    world
        .maker()
        .change(TOKEN, StorageChange::EmptyCaches)
        .unwrap();
    assert_eq!(*world.commands.borrow(), Vec::<String>::new());
}

#[test]
fn a_pool_below_another_layer_keeps_its_cache() {
    let world = World::new();
    let mut layers = provisions(&world).remove(2).layers;
    assert!(matches!(layers[0], Layer::Zfs(_)));
    layers.splice(0..0, [file_system(FileSystemKind::Ext4), LOOP, image(1)]);
    make(&world, plain(layers)).unwrap();
    world.commands.borrow_mut().clear();
    world
        .maker()
        .change(TOKEN, StorageChange::EmptyCaches)
        .unwrap();
    assert_eq!(*world.commands.borrow(), Vec::<String>::new());
}
