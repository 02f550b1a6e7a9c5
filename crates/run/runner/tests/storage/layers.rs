//! Every layer on this host: made, used, and undone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_model::{
    DmTarget, FileSystemKind, FlakeyFault, Layer, Limits, MdLayer, MdLevel, Pinning, Provision,
    VdevGroup, ZfsLayer, ZfsOrigin,
};
use iodyno_runner::{
    LocalNode, ProvisionRequest, Provisioned, StopFlag, StorageChange, StorageNode,
};
use iodyno_storage::layers::{TornDown, tear_down};

use crate::common::{alone, is_root, run, skip};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_folder_without_root_is_made_and_removed", folder),
    ("ext4_on_a_loop_device_is_made_and_undone", ext4),
    ("xfs_on_a_reserved_file_is_made_and_undone", xfs),
    ("btrfs_mirrors_and_returns_to_its_snapshot", btrfs),
    ("compressed_memory_is_made_and_undone", zram),
    ("tmpfs_and_an_overlay_are_made_and_undone", overlay),
    ("a_throttled_device_keeps_its_limit", throttle),
    ("a_delayed_device_is_made_and_undone", delay),
    ("arrays_and_mapped_devices_are_made_and_undone", mapped),
    ("zfs_mirrors_and_returns_to_its_snapshot", zfs),
    ("a_clone_and_a_copy_have_the_original_content", clones),
    ("a_device_is_emptied_and_admitted_again", device),
    ("settings_and_commands_of_the_user_are_undone", commands),
    ("faults_of_all_targets_are_found_at_once", faults),
    ("a_failing_layer_leaves_nothing", failure),
];

pub(crate) fn node() -> LocalNode {
    LocalNode {
        program: std::env::current_exe().unwrap(),
        arguments: vec!["node".into()],
    }
}

/// A token that no other test has.
pub(crate) fn token() -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    format!("test-{}", &id[20..])
}

pub(crate) fn plain(layers: Vec<Layer>) -> Provision {
    Provision {
        layers,
        fill: 0,
        precondition_ns: 0,
        sysctl: BTreeMap::new(),
        queue: BTreeMap::new(),
        env: BTreeMap::new(),
        setup: None,
        ready: None,
        teardown: None,
        sample: Vec::new(),
    }
}

pub(crate) fn request(provision: Provision) -> ProvisionRequest {
    ProvisionRequest {
        token: token(),
        configuration: "a".to_owned(),
        provision,
        destroy: Vec::new(),
        protected: Vec::new(),
        golden: None,
    }
}

pub(crate) fn directory(path: &Path) -> Layer {
    Layer::Directory {
        path: path.to_owned(),
    }
}

pub(crate) fn image(mib: u64, count: u32) -> Layer {
    Layer::File {
        size: mib << 20,
        count,
        allocate: false,
    }
}

pub(crate) const LOOP: Layer = Layer::Loop {
    direct: true,
    sector: None,
};

pub(crate) fn file_system(fs: FileSystemKind, mkfs: &[&str], mount: &[&str]) -> Layer {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Layer::FileSystem {
        fs,
        mkfs: words(mkfs),
        mount: words(mount),
    }
}

fn pool(redundancy: Option<&str>, devices: u32, origin: ZfsOrigin) -> Layer {
    Layer::Zfs(ZfsLayer {
        layout: vec![VdevGroup {
            redundancy: redundancy.map(str::to_owned),
            devices,
        }],
        pool: BTreeMap::new(),
        properties: [("compression".to_owned(), "off".to_owned())].into(),
        volume: None,
        origin,
        count: None,
        pinning: Pinning::default(),
    })
}

/// Undoes the target when dropped, also if the test fails.
struct Undo(String);

impl Drop for Undo {
    fn drop(&mut self) {
        for undone in tear_down(std::slice::from_ref(&self.0), &|_| ()) {
            assert!(
                undone.faults.is_empty() || std::thread::panicking(),
                "{undone:?}"
            );
        }
    }
}

/// A target's traces on the host: mounts, loop devices, pools and journals with its token in their names.
pub(crate) fn traces(token: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(
        mounts
            .lines()
            .filter(|line| line.contains(token))
            .map(str::to_owned),
    );
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        found.extend(file.contains(token).then_some(file));
        let mapped = fs::read_to_string(entry.path().join("dm/name")).unwrap_or_default();
        let names = [mapped, entry.file_name().to_string_lossy().into_owned()];
        found.extend(names.into_iter().filter(|name| name.contains(token)));
    }
    for folder in [
        "/run/iodyno",
        "/var/lib/iodyno/journal",
        "/dev/md",
        "/dev/mapper",
    ] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.path().display().to_string());
        found.extend(names.filter(|name| name.contains(token)));
    }
    if run(&["pgrep", "-x", "zfs-fuse"]).is_ok() {
        let pools = run(&["zpool", "list", "-H", "-o", "name"]).unwrap_or_default();
        found.extend(
            pools
                .lines()
                .filter(|name| name.contains(token))
                .map(str::to_owned),
        );
    }
    found
}

/// Makes a target, has it used, and undoes it. Skipped if this host cannot make it.
fn with(provision: Provision, test: impl FnOnce(&Provisioned, &str)) {
    let _alone = alone();
    if !is_root() {
        return skip("layers need root");
    }
    let wanted = request(provision);
    let (node, stop) = (node(), StopFlag::new());
    let faults = node.check_provision(std::slice::from_ref(&wanted), &stop);
    let lacking = |message: &str| {
        [
            "is not installed",
            "does not exist",
            "control group",
            "does not have",
            "has no module",
        ]
        .iter()
        .any(|words| message.contains(words))
    };
    if !faults.is_empty() && faults.iter().all(|fault| lacking(&fault.message)) {
        return skip(&faults[0].message);
    }
    assert_eq!(faults, []);
    let token = wanted.token.clone();
    let undo = Undo(token.clone());
    let mut told = Vec::new();
    let made = node.provision(&wanted, &stop, &mut |what| told.push(what.to_owned()));
    let made = match made {
        Err(faults) if faults[0].message.contains("unknown filesystem type") => {
            return skip(&faults[0].message);
        }
        other => other.unwrap(),
    };
    assert!(!told.is_empty());
    assert!(!traces(&token).is_empty());
    test(&made, &token);
    let undone = node.tear_down(std::slice::from_ref(&token), &stop, &mut |_| ());
    assert_eq!(undone[0].faults, []);
    assert_eq!(traces(&token), [""; 0]);
    assert_eq!(
        node.tear_down(std::slice::from_ref(&token), &stop, &mut |_| ()),
        [TornDown::default()]
    );
    drop(undo);
}

/// Writes into a folder and reads again.
fn used(folder: &Path) {
    let file = folder.join("file");
    fs::write(&file, "text").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
}

fn mounted(point: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let wanted = format!(" {} ", point.display());
    let line = mounts.lines().find(|line| line.contains(&wanted));
    line.unwrap_or_default().to_owned()
}

fn folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine"), "keep").unwrap();
    let wanted = request(plain(vec![directory(folder.path())]));
    let (node, stop) = (node(), StopFlag::new());
    let _undo = Undo(wanted.token.clone());
    assert_eq!(
        node.check_provision(std::slice::from_ref(&wanted), &stop),
        []
    );
    let made = node.provision(&wanted, &stop, &mut |_| ()).unwrap();
    assert_eq!(made.facts["layers"], "directory");
    used(&made.path);
    node.tear_down(&[wanted.token], &stop, &mut |_| ());
    let names = fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["mine"]);
}

fn ext4() {
    let folder = tempfile::tempdir().unwrap();
    let ext4 = file_system(
        FileSystemKind::Ext4,
        &["-b", "4096"],
        &["noatime", "data=writeback"],
    );
    let layers = vec![ext4, LOOP, image(64, 1), directory(folder.path())];
    with(plain(layers), |made, _| {
        used(&made.path);
        let options = &made.facts["ext4.options"];
        assert!(
            options.contains("noatime") && options.contains("data=writeback"),
            "{options}"
        );
        assert_eq!(made.facts["loop.direct_io"], "on");
        assert_eq!(made.facts["layers"], "ext4 on loop on file on directory");
        let mkfs = &made.commands[1];
        assert!(
            mkfs.command.starts_with("mkfs.ext4 -q -F"),
            "{}",
            mkfs.command
        );
        assert_eq!(mkfs.status, Some(0));
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn xfs() {
    let folder = tempfile::tempdir().unwrap();
    let file = Layer::File {
        size: 320 << 20,
        count: 1,
        allocate: true,
    };
    let xfs = file_system(FileSystemKind::Xfs, &[], &["noatime"]);
    with(
        plain(vec![xfs, LOOP, file, directory(folder.path())]),
        |made, token| {
            used(&made.path);
            let image = folder.path().join(format!("iodyno-{token}/disk0.img"));
            let blocks = std::os::unix::fs::MetadataExt::blocks(&image.metadata().unwrap());
            assert!(blocks * 512 >= 320 << 20, "the blocks are reserved");
        },
    );
}

fn btrfs() {
    let folder = tempfile::tempdir().unwrap();
    let raid = file_system(
        FileSystemKind::Btrfs,
        &["-d", "raid1", "-m", "raid1"],
        &["noatime"],
    );
    let layers = vec![raid, LOOP, image(256, 2), directory(folder.path())];
    with(plain(layers), |made, token| {
        let shown = run(&["btrfs", "filesystem", "df", made.path.to_str().unwrap()]).unwrap();
        assert!(shown.contains("Data, RAID1"), "{shown}");
        returns_to_its_snapshot(made, token);
    });
}

fn returns_to_its_snapshot(made: &Provisioned, token: &str) {
    let (node, stop) = (node(), StopFlag::new());
    let change = |change| node.change(token, change, &stop, &mut |_| ());
    for content in ["first", "second"] {
        let file = made.path.join("laid out");
        fs::write(&file, content).unwrap();
        change(StorageChange::Snapshot).unwrap();
        for _ in 0..2 {
            fs::write(&file, "changed").unwrap();
            fs::write(made.path.join("new"), "").unwrap();
            change(StorageChange::RollBack).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
            assert!(!made.path.join("new").exists());
        }
    }
}

fn zram() {
    let devices = Layer::Zram {
        size: 256 << 20,
        count: 2,
        algorithm: None,
    };
    let before = fs::read_dir("/sys/block").unwrap().count();
    let raid = file_system(FileSystemKind::Btrfs, &["-d", "raid1", "-m", "raid1"], &[]);
    with(plain(vec![raid, devices]), |made, _| used(&made.path));
    assert_eq!(fs::read_dir("/sys/block").unwrap().count(), before);
}

fn overlay() {
    let layers = vec![
        Layer::Overlay { mount: Vec::new() },
        Layer::Tmpfs { size: 16 << 20 },
    ];
    with(plain(layers), |made, _| {
        used(&made.path);
        assert!(mounted(&made.path).contains(" overlay "));
        assert!(
            made.facts["tmpfs.options"].contains("size=16384k"),
            "{:?}",
            made.facts
        );
        // Neither has snapshots.
        let wanted = request(plain(vec![Layer::Tmpfs { size: 1 << 20 }]));
        let (node, stop) = (node(), StopFlag::new());
        let _undo = Undo(wanted.token.clone());
        node.provision(&wanted, &stop, &mut |_| ()).unwrap();
        let snapshot = StorageChange::Snapshot;
        let faults = node.change(&wanted.token, snapshot, &stop, &mut |_| ());
        let faults = faults.unwrap_err();
        assert_eq!(
            faults[0].message,
            "`tmpfs` has no snapshots to roll back to"
        );
    });
}

fn throttle() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        read_iops: 200,
        ..Limits::default()
    };
    let layers = vec![
        Layer::Throttle(limits),
        LOOP,
        image(64, 1),
        directory(folder.path()),
    ];
    with(plain(layers), |made, _| {
        assert!(made.path.starts_with("/dev"), "{}", made.path.display());
        // It was compared with the limit.
        let achieved = &made.facts["throttle.achieved_read"];
        assert!(achieved.ends_with(" IOPS"), "{achieved}");
    });
}

fn delay() {
    let folder = tempfile::tempdir().unwrap();
    let slow = Layer::Delay {
        read_ns: 3_000_000,
        write_ns: 0,
        disks: Vec::new(),
        pinning: Pinning::default(),
    };
    let layers = vec![slow, image(64, 1), directory(folder.path())];
    with(plain(layers), |made, _| {
        // Ten reads take at least their delays, however fast the host is.
        let begun = std::time::Instant::now();
        let input = format!("if={}", made.path.display());
        run(&[
            "dd",
            &input,
            "of=/dev/null",
            "bs=4k",
            "count=10",
            "iflag=direct",
        ])
        .unwrap();
        assert!(begun.elapsed().as_millis() >= 30);
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn mapped() {
    // It opens each new device, and may keep it busy or assemble an array again.
    if Path::new("/run/udev/control").exists() {
        return skip("udev is running");
    }
    let folder = tempfile::tempdir().unwrap();
    let array = |level| {
        Layer::Md(MdLayer {
            level,
            layout: None,
            chunk: None,
            bitmap: level == MdLevel::Raid1,
            assume_clean: level == MdLevel::Raid10,
        })
    };
    let encrypted = Layer::Dm(DmTarget::Crypt {
        cipher: "aes-xts-plain64".to_owned(),
        key_bits: 512,
        sector: None,
    });
    let flakey = Layer::Dm(DmTarget::Flakey {
        up_ns: 0,
        down_ns: 1_000_000_000,
        fault: FlakeyFault::Errors,
    });
    let ext4 = || file_system(FileSystemKind::Ext4, &[], &[]);
    let stacks = [
        (2, vec![ext4(), encrypted, array(MdLevel::Raid1)]),
        (4, vec![ext4(), array(MdLevel::Raid10)]),
        (1, vec![ext4(), flakey, Layer::Dm(DmTarget::Linear)]),
        (2, vec![ext4(), Layer::Dm(DmTarget::LogWrites)]),
    ];
    for (files, mut layers) in stacks {
        let fails = layers.len() == 3 && files == 1;
        layers.extend([LOOP, image(64, files), directory(folder.path())]);
        with(plain(layers), |made, _| match fails {
            // It is always down, and is still undone.
            true => {
                let file = fs::File::create(made.path.join("file"));
                assert!(file.and_then(|file| file.sync_all()).is_err());
            }
            false => used(&made.path),
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

fn zfs() {
    let folder = tempfile::tempdir().unwrap();
    let layers = vec![
        pool(Some("mirror"), 2, ZfsOrigin::New),
        image(64, 2),
        directory(folder.path()),
    ];
    with(plain(layers), |made, token| {
        used(&made.path);
        let status = &made.facts["zfs.status"];
        assert!(
            status.contains("mirror") && status.contains("ONLINE"),
            "{status}"
        );
        let properties = &made.facts["zfs.properties"];
        assert!(properties.contains("compression\toff"), "{properties}");
        returns_to_its_snapshot(made, token);
    });
}

fn clones() {
    let folder = tempfile::tempdir().unwrap();
    for origin in [ZfsOrigin::Clone, ZfsOrigin::Copy] {
        let layers = vec![
            pool(None, 1, origin),
            image(128, 1),
            directory(folder.path()),
        ];
        let provision = Provision {
            fill: 4 << 20,
            ..plain(layers)
        };
        with(provision, |made, _| {
            let image = match origin {
                ZfsOrigin::Copy => made.path.clone(),
                _ => made.path.join("disk0.img"),
            };
            let bytes = fs::read(&image).unwrap();
            assert_eq!(bytes.len(), 4 << 20);
            assert_ne!(bytes[..4096], [0; 4096]);
        });
    }
}

fn device() {
    let Some(disk) = crate::common::Loop::blank(64) else {
        return;
    };
    let ext4 = || file_system(FileSystemKind::Ext4, &[], &[]);
    let layers = || {
        vec![
            ext4(),
            Layer::Device {
                paths: vec![disk.device.clone()],
            },
        ]
    };
    // Twice: it is as blank afterwards as it was.
    for _ in 0..2 {
        with(plain(layers()), |made, _| used(&made.path));
    }
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let refused = request(plain(layers()));
    let (node, stop) = (node(), StopFlag::new());
    let faults = node.check_provision(std::slice::from_ref(&refused), &stop);
    assert!(faults[0].message.contains("it is not blank"), "{faults:?}");
    let made = node.provision(&refused, &stop, &mut |_| ());
    assert_eq!(made.unwrap_err(), faults);
    assert_eq!(
        run(&["blkid", "-o", "value", "-s", "TYPE", disk.path()]).unwrap(),
        "ext4"
    );
    let allowed = ProvisionRequest {
        destroy: vec![disk.device.clone()],
        ..refused
    };
    let _undo = Undo(allowed.token.clone());
    let made = node.provision(&allowed, &stop, &mut |_| ()).unwrap();
    used(&made.path);
    node.tear_down(&[allowed.token], &stop, &mut |_| ());
}

fn commands() {
    let folder = tempfile::tempdir().unwrap();
    let made_by = folder.path().join("made");
    let command = |text: &str| Some(format!("{text} \"$PLACE\""));
    let swappiness = Path::new("/proc/sys/vm/swappiness");
    let before = fs::read_to_string(swappiness).unwrap();
    let other = if before.trim() == "41" { "42" } else { "41" };
    let provision = Provision {
        sysctl: [("vm.swappiness".to_owned(), other.to_owned())].into(),
        env: [("PLACE".to_owned(), made_by.display().to_string())].into(),
        setup: command("echo making; mkdir"),
        ready: command("test -d"),
        teardown: command("rmdir"),
        ..plain(vec![directory(&made_by)])
    };
    with(provision, |made, _| {
        assert!(made.path.starts_with(&made_by));
        assert_eq!(made.commands[0].output, "making");
        assert_eq!(fs::read_to_string(swappiness).unwrap().trim(), other);
    });
    assert_eq!(fs::read_to_string(swappiness).unwrap(), before);
    assert!(!made_by.exists());
}

fn faults() {
    let missing = PathBuf::from("/iodyno/missing");
    let first = request(plain(vec![directory(&missing)]));
    let second = ProvisionRequest {
        configuration: "b".to_owned(),
        ..request(plain(vec![LOOP, directory(Path::new("/dev"))]))
    };
    let found = node().check_provision(&[first, second], &StopFlag::new());
    let found: Vec<&str> = found.iter().map(|fault| fault.message.as_str()).collect();
    let all = found.join("\n");
    for words in [
        "configuration `a`: the folder `/iodyno/missing` does not exist",
        "configuration `b`: `loop` needs files below it",
        "configuration `b`: cannot write to `/dev`",
    ] {
        assert!(all.contains(words), "{words} is not in {all}");
    }
}

fn failure() {
    let _alone = alone();
    if !is_root() {
        return skip("layers need root");
    }
    let folder = tempfile::tempdir().unwrap();
    let ext4 = file_system(FileSystemKind::Ext4, &[], &["no_such_option"]);
    let wanted = request(plain(vec![
        ext4,
        LOOP,
        image(64, 1),
        directory(folder.path()),
    ]));
    let made = node().provision(&wanted, &StopFlag::new(), &mut |_| ());
    let faults = made.unwrap_err();
    assert!(
        faults[0]
            .message
            .contains("mount -t ext4 -o no_such_option"),
        "{faults:?}"
    );
    assert_eq!(traces(&wanted.token), [""; 0]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
