//! Targets that cannot be made.

use super::*;

#[test]
fn impossible_targets_are_refused_with_all_faults_before_anything_is_made() {
    let world = World::new();
    let before = world.state();
    let check = |layers: Vec<Layer>, expected: &[&str]| {
        let wanted = request(plain(layers));
        let found = world.maker().check(&[wanted]);
        let prefix = "configuration `a`: ";
        let found: Vec<&str> = found
            .iter()
            .map(|fault| fault.message.strip_prefix(prefix).unwrap())
            .collect();
        assert_eq!(found, expected);
    };
    let ext4 = || file_system(FileSystemKind::Ext4);
    check(vec![], &["there is no layer"]);
    let several = ["a", "b"].map(|name| ProvisionRequest {
        configuration: name.to_owned(),
        ..request(plain(vec![]))
    });
    let found = world.maker().check(&several);
    let found: Vec<&str> = found.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(found, ["configurations `a`, `b`: there is no layer"]);
    check(
        vec![ext4(), image(2), directory(&world)],
        &["`ext4` needs one device below it, and there is 2 files below it"],
    );
    check(
        vec![LOOP, image(2), directory(&world)],
        &["the top layer `loop` gives 2 devices, and trials use one"],
    );
    check(
        vec![ext4(), LOOP, Layer::Tmpfs { size: 1 }, directory(&world)],
        &[
            "`tmpfs` needs to be the lowest layer, and there is a folder below it",
            "`loop` needs files below it, as in `loop on file`, and there is a folder below it",
        ],
    );
    check(
        vec![mirrors(), image(3), directory(&world)],
        &["the layout of `zfs` has 4 devices, and there are 3 below"],
    );
    let delay = Layer::Delay {
        read_ns: 1_500_000,
        write_ns: 2_000_000,
        disks: Vec::new(),
        pinning: Pinning::default(),
    };
    check(
        vec![delay, image(1), directory(&world)],
        &["`delay` cannot wait for 1.50 ms"],
    );
    let delay = Layer::Delay {
        read_ns: 0,
        write_ns: 0,
        disks: vec!["hdd".to_owned(), "hdd*2".to_owned()],
        pinning: Pinning::default(),
    };
    check(
        vec![delay, image(3), directory(&world)],
        &[
            "`delay.disk` names 2 disks, and there are 3 below it",
            "the top layer `delay` gives 3 devices, and trials use one",
        ],
    );
    let missing = world.host.path("missing");
    let wanted = Layer::Directory {
        path: missing.clone(),
    };
    let first = world.maker().check(&[request(plain(vec![wanted]))]);
    assert!(
        first[0]
            .message
            .contains(&format!("`{}` does not exist", missing.display())),
        "{first:?}"
    );
    let hint = first[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("mkdir -p"), "{hint}");
    let odd = ProvisionRequest {
        token: "../x".to_owned(),
        ..request(Provision {
            sysctl: [("vm.nothing".to_owned(), "1".to_owned())].into(),
            ..plain(vec![directory(&world)])
        })
    };
    let found = world.maker().check(&[odd]);
    let messages: Vec<&str> = found.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "configuration `a`: `../x` cannot be the token of a target",
            "configuration `a`: the kernel has no setting `vm.nothing`",
        ]
    );
    assert_eq!(world.state(), before);
}

#[test]
fn arrays_and_mapped_devices_that_the_kernel_cannot_make_are_refused() {
    let world = World::new();
    let faults = |layers: Vec<Layer>| {
        let found = world.maker().check(&[request(plain(layers))]);
        let shown = found
            .into_iter()
            .map(|fault| fault.message.replace("configuration `a`: ", ""));
        shown.collect::<Vec<_>>()
    };
    let below = |count: u32| [LOOP, image(count), directory(&world)];
    let on = |top: Layer, count: u32| faults([vec![top], below(count).to_vec()].concat());
    assert_eq!(
        on(array(MdLevel::Raid1), 1),
        ["`md` needs at least two devices below it, and there is a device below it"]
    );
    assert_eq!(
        on(Layer::Dm(DmTarget::LogWrites), 3)[0],
        "`dm` needs pairs of devices below it, one for the data and one for the log, and there is 3 devices below it"
    );
    let odd = Layer::Dm(DmTarget::Delay {
        read_ns: 1_500_000,
        write_ns: 0,
        flush_ns: 0,
    });
    assert_eq!(on(odd, 1), ["`dm.read` cannot be 1.50 ms"]);
    let never = Layer::Dm(DmTarget::Flakey {
        up_ns: 0,
        down_ns: 0,
        fault: FlakeyFault::Errors,
    });
    assert_eq!(on(never, 1), ["`dm.up` and `dm.down` are both 0"]);
    world.host.write("proc/sys/kernel/osrelease", "6.1\n");
    let lacking = "md has no `raid10`, and the kernel 6.1 has no module `raid10`";
    assert_eq!(on(array(MdLevel::Raid10), 4), [lacking]);
    // It is loaded when it is needed.
    world.host.write(
        "lib/modules/6.1/modules.builtin",
        "kernel/drivers/md/raid10.ko\n",
    );
    assert_eq!(on(array(MdLevel::Raid10), 4), [""; 0]);
    fs::remove_file(world.host.path("proc/mdstat")).unwrap();
    let missing = on(array(MdLevel::Raid1), 2);
    assert!(
        missing[0].ends_with("/proc/mdstat`, which does not exist"),
        "{missing:?}"
    );
}

#[test]
fn virtual_machines_are_refused_with_all_faults_and_leave_the_layers_above_to_their_guests() {
    let world = World::new();
    let root = world.host.roots.root.clone();
    let faults = |vm: VmLayer, above: Vec<Layer>, files: u32| {
        let below = [Layer::Vm(vm), image(files), directory(&world)];
        let wanted = request(plain(above.into_iter().chain(below).collect()));
        let found = world.maker().check(&[wanted]);
        let shown = found.into_iter().map(|fault| {
            let message = fault.message.replace(&root.display().to_string(), "");
            message.replace("configuration `a`: ", "")
        });
        shown.collect::<Vec<_>>()
    };
    let wrong = VmLayer {
        guests: 2,
        accel: Acceleration::Kvm,
        disks: vec![VmDisk {
            cache: DiskCache::Writeback,
            aio: DiskAio::Native,
            ..VmDisk::default()
        }],
        ..VmLayer::default()
    };
    let delay = Layer::Delay {
        read_ns: 1_000_000,
        write_ns: 0,
        disks: Vec::new(),
        pinning: Pinning::default(),
    };
    assert_eq!(
        faults(wrong, vec![delay], 3),
        [
            "`delay` cannot be made in a virtual machine",
            "`vm.guests` is 2, and `file` below gives 3 files",
            "qemu has no `aio=native` with `cache=writeback`",
            "`/dev/kvm` cannot be used",
            "there is no kernel for guests in `/var/cache/iodyno/kernel` or ``",
        ]
    );
    let fuse = Layer::Fuse(FolderServer {
        command: FolderServer::FUSE.to_owned(),
        pinning: Pinning::default(),
    });
    let above = faults(VmLayer::default(), vec![fuse], 1);
    let refused = "`fuse` cannot be made in a virtual machine";
    assert!(above.iter().any(|fault| fault == refused), "{above:?}");
    let kernel = root.join("k");
    let modules = kernel.join("lib/modules/6.1");
    fs::create_dir_all(&modules).unwrap();
    fs::create_dir_all(kernel.join("boot")).unwrap();
    fs::write(kernel.join("boot/vmlinuz-6.1"), "").unwrap();
    fs::write(
        modules.join("modules.builtin"),
        "a/virtio_pci.ko\na/virtio_console.ko\n",
    )
    .unwrap();
    let fitting = VmLayer {
        kernel: Some(kernel),
        ..VmLayer::default()
    };
    let lacking = "the kernel 6.1 has no module `virtio_blk`, `ext4`";
    let ext4 = file_system(FileSystemKind::Ext4);
    assert_eq!(faults(fitting.clone(), vec![ext4.clone()], 1), [lacking]);
    let all = "a/virtio_pci.ko\na/virtio_console.ko\na/virtio_blk.ko\na/ext4.ko\n";
    fs::write(modules.join("modules.builtin"), all).unwrap();
    let none: [&str; 0] = [];
    assert_eq!(faults(fitting.clone(), vec![ext4], 1), none);
    let zfs = Layer::Zfs(ZfsLayer {
        pinning: Pinning {
            cpus: Some("0".to_owned()),
            numa: None,
        },
        ..ZfsLayer::default()
    });
    assert_eq!(
        faults(fitting, vec![zfs], 4),
        [
            "there is no OpenZFS for the guests' kernel 6.1",
            "`zfs.cpus` and `zfs.numa` have no effect: ZFS runs in the kernel",
        ]
    );
}
