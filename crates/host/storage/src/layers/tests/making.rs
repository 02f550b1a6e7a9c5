//! Targets are made, changed and undone.

use super::*;

#[test]
fn what_is_made_is_undone_in_reverse_and_undoing_twice_changes_nothing() {
    for which in 0..KINDS {
        let world = World::new();
        let before = world.state();
        let made = make(&world, provisions(&world).remove(which)).unwrap();
        assert!(made.path.exists(), "{}", made.path.display());
        assert_eq!(journals(&world), ["t-1.jsonl"]);
        assert_ne!(world.state(), before);
        let undone = world.maker().tear_down(TOKEN);
        assert_eq!(undone.faults, []);
        assert!(!undone.commands.is_empty());
        assert_eq!(world.state(), before, "target {which}");
        assert_eq!(world.maker().tear_down(TOKEN), TornDown::default());
        assert_eq!(world.state(), before);
    }
}

#[test]
fn the_commands_of_a_target_are_those_of_its_layers_from_the_bottom_up() {
    let world = World::new();
    let root = world.host.roots.root.display().to_string();
    let provision = provisions(&world).remove(0);
    let made = make(&world, provision).unwrap();
    let shown = |commands: &[CommandRun]| {
        let commands = commands.iter();
        let shown = commands.map(|run| run.command.replace(&root, ""));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&made.commands),
        [
            "/bin/sh -c make",
            "/bin/sh -c true",
            "losetup --find --show --direct-io=on /data/iodyno-t-1/disk0.img",
            "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/loop1",
            "mount -t ext4 -o noatime /dev/loop1 /run/iodyno/t-1/3",
        ]
    );
    let facts: Vec<(&str, &str)> = made
        .facts
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        facts,
        [
            ("ext4.options", "rw,noatime,data=x"),
            ("layers", "ext4 on loop on file on directory"),
            ("loop.direct_io", "on"),
        ]
    );
    let read = |name: &str| fs::read_to_string(world.host.path(name)).unwrap();
    assert_eq!(read("proc/sys/vm/dirty_ratio"), "10\n");
    assert_eq!(read("sys/block/loop1/queue/scheduler"), "none [kyber]\n");
    let undone = world.maker().tear_down(TOKEN);
    assert_eq!(
        shown(&undone.commands),
        [
            "umount /run/iodyno/t-1/3",
            "losetup --detach /dev/loop1",
            "/bin/sh -c unmake",
        ]
    );
}

#[test]
fn copies_of_a_pool_are_in_datasets_of_their_own() {
    let world = World::new();
    let before = world.state();
    let zfs = Layer::Zfs(ZfsLayer {
        origin: ZfsOrigin::Copy,
        count: Some(3),
        ..ZfsLayer::default()
    });
    let btrfs = file_system(FileSystemKind::Btrfs);
    let provision = Provision {
        fill: 1,
        ..plain(vec![btrfs, LOOP, zfs, image(1), directory(&world)])
    };
    let made = make(&world, provision).unwrap();
    let count = |words: &str| {
        let commands = made.commands.iter();
        commands.filter(|run| run.command.contains(words)).count()
    };
    for name in ["/copy", "/copy2", "/copy3"] {
        assert_eq!(
            count(&format!(
                "zfs create -o mountpoint={}{name} ",
                world.host.path("run/iodyno/t-1").display()
            )),
            1
        );
    }
    assert_eq!(
        (count("zfs clone"), count("dd "), count("losetup --find")),
        (1, 3, 3)
    );
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    assert_eq!(world.state(), before);
}

#[test]
fn a_failure_undoes_what_was_made_before_it() {
    let cases = [
        (0, "mount -t ext4"),
        (0, "/bin/sh -c make"),
        (0, "losetup --find"),
        (1, "mkfs.btrfs"),
        (1, "btrfs subvolume"),
        (2, "zfs create"),
        (2, "zpool create"),
        (5, "mkfs.xfs"),
        (6, "mdadm --create"),
        (6, "mkfs.ext4"),
        (6, "dmsetup resume"),
        (7, "cryptsetup"),
        (7, "dmsetup create"),
    ];
    for (which, command) in cases {
        let world = World::new();
        let before = world.state();
        *world.fails.borrow_mut() = Some(command);
        let faults = make(&world, provisions(&world).remove(which)).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains(command), "{faults:?}");
        assert!(
            faults[0].contains("failed with exit status 1"),
            "{faults:?}"
        );
        assert_eq!(world.state(), before, "after {command}");
    }
}

#[test]
fn a_stop_undoes_what_was_made() {
    let world = World::new();
    let before = world.state();
    let progress = RefCell::new(Vec::new());
    let stop = || progress.borrow().len() >= 4;
    let tell = |what: &str| progress.borrow_mut().push(what.to_owned());
    let wanted = request(provisions(&world).remove(0));
    let maker = Maker {
        stop: &stop,
        progress: &tell,
        ..world.maker()
    };
    let made = maker.provision(&wanted, DEAD);
    assert_eq!(
        made.unwrap_err()[0].message,
        "stopped while the target was made"
    );
    assert_eq!(world.state(), before);
}

#[test]
fn servers_run_on_the_cpus_that_their_layer_names() {
    let world = World::new();
    world.host.write("sys/devices/system/cpu/online", "0-3\n");
    world.host.write("sys/devices/system/node/online", "0\n");
    let pinning = |cpus: &str| Pinning {
        cpus: Some(cpus.to_owned()),
        numa: Some("0".to_owned()),
    };
    let on = |cpus: &str| {
        let mut layers = vec![mirrors(), image(4), directory(&world)];
        if let Layer::Zfs(zfs) = &mut layers[0] {
            zfs.pinning = pinning(cpus);
        }
        request(plain(layers))
    };
    let faults = world.maker().check(&[on("2-5")]);
    let faults: Vec<&str> = faults.iter().map(|it| it.message.as_str()).collect();
    let prefix = "configuration `a`: the host has no CPU";
    assert_eq!(faults, [format!("{prefix} 4 (and 1 more of `2-5`)")]);
    let maker = world.maker();
    let made = maker.provision(&on("0-1"), DEAD).unwrap();
    let server = "taskset --cpu-list 0-1 numactl --membind=0 zfs-fuse --no-daemon";
    let commands: Vec<&str> = made
        .commands
        .iter()
        .map(|run| run.command.as_str())
        .collect();
    assert!(
        commands.iter().any(|command| command.starts_with(server)),
        "{commands:?}"
    );
    // The server is one for all pools.
    let other = ProvisionRequest {
        token: "t-2".to_owned(),
        ..on("2")
    };
    let faults = maker.check(&[other]);
    assert!(
        faults[0].message.contains("zfs-fuse runs already"),
        "{faults:?}"
    );
    maker.tear_down(TOKEN);
}

#[test]
fn a_server_of_virtio_fs_is_started_anew_for_each_trial_and_undone_with_its_step() {
    let world = World::new();
    let before = world.state();
    let provision = provisions(&world).pop().unwrap();
    let made = make(&world, provision).unwrap();
    let Some(ExportServer::Virtiofs(socket)) = made.share.map(|share| share.server) else {
        panic!("the jobs have no server");
    };
    assert!(socket.exists() && made.path.is_dir());
    assert_eq!(made.facts["virtiofs.server"], "fsd {socket} {folder}");
    assert_eq!(made.facts["layers"], "virtiofs on fuse on tmpfs");
    let servers = |world: &World| -> Vec<(u32, String)> {
        let processes = world.processes.borrow();
        (processes.iter())
            .map(|process| (process.pid, process.mark.clone()))
            .collect()
    };
    let first = servers(&world);
    fs::remove_file(&socket).unwrap();
    world.maker().change(TOKEN, StorageChange::Renew).unwrap();
    assert!(socket.exists());
    // The server of FUSE continues to run. The new one is found by the step of the old one.
    let second = servers(&world);
    assert_eq!((first.len(), second.len()), (2, 2));
    assert_eq!(first[0], second[0]);
    assert_ne!(first[1].0, second[1].0);
    assert_eq!(first[1].1, second[1].1);
    let undone = world.maker().tear_down(TOKEN);
    assert!(undone.faults.is_empty(), "{:?}", undone.faults);
    assert_eq!((world.state(), servers(&world).len()), (before, 0));
    // Others have no servers that end.
    make(&world, provisions(&world).remove(0)).unwrap();
    world.commands.borrow_mut().clear();
    world.maker().change(TOKEN, StorageChange::Renew).unwrap();
    assert_eq!(*world.commands.borrow(), Vec::<String>::new());
}

#[test]
fn a_virtio_fs_server_below_another_layer_is_an_error() {
    let world = World::new();
    let mut provision = provisions(&world).pop().unwrap();
    provision.layers.swap(0, 1);
    let faults = make(&world, provision).unwrap_err();
    assert!(
        faults[0].contains("`virtiofs` has to be the top layer"),
        "{faults:?}"
    );
}

#[test]
fn limits_that_do_not_hold_through_a_file_system_are_an_error() {
    let world = World::new();
    let before = world.state();
    let limits = Limits {
        read_bandwidth: 10 << 20,
        ..Limits::default()
    };
    let throttled = || {
        plain(vec![
            file_system(FileSystemKind::Btrfs),
            Layer::Throttle(limits),
            LOOP,
            image(2),
            directory(&world),
        ])
    };
    // In half a second.
    world.read_through.set(10 << 20);
    let made = make(&world, throttled()).unwrap();
    assert_eq!(made.facts["throttle.achieved_read_through"], "20 MiB/s");
    assert_eq!(names(&made.path), Vec::<String>::new());
    world.maker().tear_down(TOKEN);
    world.read_through.set(100 << 20);
    let faults = make(&world, throttled()).unwrap_err();
    assert_eq!(
        faults,
        ["the limits for reads do not hold through `btrfs`: 200 MiB/s through it"]
    );
    assert_eq!(world.state(), before);
}

#[test]
fn arrays_and_mapped_devices_are_made_and_fail_only_while_the_target_is_complete() {
    let world = World::new();
    let root = world.host.roots.root.display().to_string();
    let shown = |commands: &[CommandRun]| {
        let of_loops = |run: &&CommandRun| {
            ["losetup", "/dev/loop"]
                .iter()
                .any(|it| run.command.contains(it))
        };
        let commands = commands.iter().filter(|run| !of_loops(run));
        let shown = commands.map(|run| run.command.replace(&root, ""));
        shown.collect::<Vec<_>>()
    };
    let made = make(&world, provisions(&world).remove(6)).unwrap();
    assert_eq!(
        shown(&made.commands),
        [
            "mdadm --detail /dev/md_iodyno-t-1-3",
            "dmsetup create iodyno-t-1-4-0 --table '0 131072 linear 9:1 0'",
            "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/dm-0",
            "mount -t ext4 -o noatime /dev/dm-0 /run/iodyno/t-1/5",
            "dmsetup load iodyno-t-1-4-0 --table '0 131072 flakey 9:1 0 5 1 0'",
            "dmsetup resume iodyno-t-1-4-0",
        ]
    );
    let created = made
        .commands
        .iter()
        .find(|run| run.command.starts_with("mdadm --create"));
    assert_eq!(
        created.unwrap().command.replace(&root, ""),
        "mdadm --create /dev/md/iodyno-t-1-3 --config=/run/iodyno/t-1/3/mdadm.conf --run --metadata=1.2 \
         --level=raid1 --raid-devices=2 --bitmap=internal /dev/loop1 /dev/loop2"
    );
    assert_eq!(
        made.facts["md.members_equal"],
        "synchronised before the trials"
    );
    assert_eq!(made.facts["dm.table"], "0 131072 flakey 9:1 0 5 1 0");
    let undone = world.maker().tear_down(TOKEN);
    assert_eq!(
        shown(&undone.commands),
        [
            "dmsetup load iodyno-t-1-4-0 --table '0 131072 linear 9:1 0'",
            "dmsetup resume iodyno-t-1-4-0",
            "umount /run/iodyno/t-1/5",
            "dmsetup remove --retry iodyno-t-1-4-0",
            "mdadm --stop /dev/md_iodyno-t-1-3",
        ]
    );
    let made = make(&world, provisions(&world).remove(7)).unwrap();
    let last = shown(&made.commands);
    let log = "dmsetup create iodyno-t-1-4-0 --table '0 131072 log-writes 253:1 253:1'";
    assert!(last.iter().any(|command| command == log), "{last:?}");
}
