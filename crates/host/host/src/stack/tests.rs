//! Storage stacks of simulated hosts, and of this host. The device numbers do not exist on real hosts:
//! otherwise the `st_dev` of the folders would match.

use std::path::Path;

use iodyno_model::StackLayer;

use super::{describe, in_force};
use crate::fake::FakeHost;
use crate::roots::Roots;

/// A stack in one line: `ext4 on /mnt > partition sda1 > disk sda`.
fn line(host: &FakeHost, path: &str) -> String {
    let info = describe(&host.path(path), &host.roots);
    let words: Vec<String> = info.stack.iter().map(|layer| words(host, layer)).collect();
    words.join(" > ")
}

fn words(host: &FakeHost, layer: &StackLayer) -> String {
    let below = |path: &Path| match path.strip_prefix(&host.roots.root) {
        Ok(rest) => rest.display().to_string(),
        Err(_) => path.display().to_string(),
    };
    match layer {
        StackLayer::Mount(mount) => format!("{} on {}", mount.file_system, below(&mount.point)),
        StackLayer::Partition(device) => format!("partition {}", device.name),
        StackLayer::Loop {
            device,
            file,
            direct,
        } => {
            let direct = if *direct { " direct" } else { "" };
            format!("loop {} on {}{direct}", device.name, below(file))
        }
        StackLayer::Mapped {
            device,
            driver,
            name,
        } => format!("{driver} {} {name}", device.name),
        StackLayer::Disk(device) => format!("disk {}", device.name),
        StackLayer::Other(what) => what.clone(),
    }
}

/// A host with a folder for each name, and its mount points below its own root.
fn host(folders: &[&str]) -> FakeHost {
    let host = FakeHost::new();
    for folder in folders {
        std::fs::create_dir_all(host.path(folder)).unwrap();
    }
    host
}

fn mount(host: &FakeHost, number: &str, point: &str, kind: &str, source: &str) {
    let point = host.path(point);
    host.mount(number, point.to_str().unwrap(), kind, source);
}

#[test]
fn a_file_system_on_a_partition_leads_to_its_disk() {
    let host = host(&["mnt/data/deep"]);
    host.disk("sda", "3008:0")
        .partition("sda", "sda1", "3008:1");
    mount(&host, "3008:1", "mnt", "ext4", "/dev/sda1");
    let expected = "ext4 on mnt > partition sda1 > disk sda";
    assert_eq!(line(&host, "mnt/data/deep"), expected);
    // For a file that does not exist, the nearest existing folder is used.
    assert_eq!(line(&host, "mnt/data/not/yet/there"), expected);
}

#[test]
fn the_longest_mount_point_is_used_and_the_last_mount_on_it() {
    let host = host(&["mnt/data/deep", "mnt/database"]);
    host.disk("sda", "3008:0")
        .disk("sdb", "3008:16")
        .disk("sdc", "3008:32");
    mount(&host, "3008:0", "mnt", "ext4", "/dev/sda");
    mount(&host, "3008:16", "mnt/data", "xfs", "/dev/sdb");
    assert_eq!(line(&host, "mnt/data/deep"), "xfs on mnt/data > disk sdb");
    assert_eq!(line(&host, "mnt/database"), "ext4 on mnt > disk sda");
    mount(&host, "3008:32", "mnt/data", "f2fs", "/dev/sdc");
    assert_eq!(line(&host, "mnt/data/deep"), "f2fs on mnt/data > disk sdc");
}

#[test]
fn mirrors_list_every_disk_and_mappings_their_creators() {
    let host = host(&["mnt"]);
    host.disk("sda", "3008:0")
        .disk("sdb", "3008:16")
        .mapped("md0", "3009:0", &[("md/level", "raid1\n")], &["sda", "sdb"])
        .mapped(
            "dm-0",
            "3252:0",
            &[("dm/name", "vg-home\n"), ("dm/uuid", "LVM-abc\n")],
            &["md0"],
        );
    mount(&host, "3252:0", "mnt", "xfs", "/dev/mapper/vg-home");
    assert_eq!(
        line(&host, "mnt"),
        "xfs on mnt > dm dm-0 vg-home (LVM) > md md0 raid1 > disk sda > disk sdb"
    );
}

#[test]
fn a_loop_device_leads_to_the_mount_of_its_file() {
    let host = host(&["mnt", "images"]);
    host.write("images/a.img", "");
    host.disk("vda", "3254:0")
        .loop_device("loop0", "3007:0", &host.path("images/a.img"))
        .attribute("loop0", "loop/dio", "1\n");
    mount(&host, "3254:0", "", "ext4", "/dev/vda");
    mount(&host, "3007:0", "mnt", "btrfs", "/dev/loop0");
    assert_eq!(
        line(&host, "mnt"),
        "btrfs on mnt > loop loop0 on images/a.img direct > ext4 on  > disk vda"
    );
}

#[test]
fn btrfs_leads_to_all_its_devices_from_any_subvolume() {
    let host = host(&["mnt/sub"]);
    host.disk("sda", "3008:0")
        .disk("sdb", "3008:16")
        .disk("sdc", "3008:32")
        .btrfs("aa", &["sdc"])
        .btrfs("bb", &["sda", "sdb"]);
    mount(&host, "0:900051", "mnt", "btrfs", "/dev/sdb");
    assert_eq!(line(&host, "mnt/sub"), "btrfs on mnt > disk sda > disk sdb");
}

#[test]
fn an_overlay_leads_to_the_stack_of_its_upper_folder() {
    let host = host(&["merged", "upper files"]);
    host.disk("vda", "3254:0");
    mount(&host, "3254:0", "", "ext4", "/dev/vda");
    let upper = host.path("upper\\040files");
    let (point, upper) = (host.path("merged"), upper.display());
    host.write(
        "proc/self/mountinfo",
        &format!(
            "90001 1 3254:0 / {} rw - ext4 /dev/vda rw\n\
             90002 1 0:900060 / {} rw - overlay overlay rw,lowerdir=/l,upperdir={upper},workdir=/w\n",
            host.roots.root.display(),
            point.display()
        ),
    );
    assert_eq!(
        line(&host, "merged"),
        "overlay on merged > ext4 on  > disk vda"
    );
}

#[test]
fn storage_without_a_block_device_is_named() {
    let cases = [
        ("tmpfs", "tmpfs", "memory (tmpfs)"),
        ("zfs", "tank/data/db", "ZFS pool `tank`"),
        ("fuse.sshfs", "me@host:/x", "FUSE (fuse.sshfs `me@host:/x`)"),
        ("nfs4", "server:/export", "network (nfs4 `server:/export`)"),
        ("virtiofs", "share", "the host's files (virtiofs `share`)"),
        ("newfs", "thing", "no block device (newfs `thing`)"),
    ];
    for (kind, source, expected) in cases {
        let host = host(&["mnt"]);
        mount(&host, "0:900070", "mnt", kind, source);
        assert_eq!(line(&host, "mnt"), format!("{kind} on mnt > {expected}"));
    }
    let host = host(&["mnt"]);
    assert!(line(&host, "mnt").starts_with("no mount is known for"));
    mount(&host, "3008:7", "mnt", "ext4", "/dev/sda7");
    assert_eq!(
        line(&host, "mnt"),
        "ext4 on mnt > device 3008:7, which sysfs does not know"
    );
}

#[test]
fn a_loop_device_on_itself_terminates() {
    let host = host(&["mnt"]);
    host.write("mnt/a.img", "");
    host.loop_device("loop0", "3007:0", &host.path("mnt/a.img"));
    mount(&host, "3007:0", "mnt", "ext4", "/dev/loop0");
    assert_eq!(
        line(&host, "mnt"),
        "ext4 on mnt > loop loop0 on mnt/a.img > ext4 on mnt"
    );
}

#[test]
fn settings_and_options_are_kept_and_missing_ones_omitted() {
    let host = host(&["mnt"]);
    host.disk("sda", "3008:0")
        .attribute("sda", "queue/scheduler", "none [mq-deadline] kyber\n")
        .attribute("sda", "queue/nr_requests", "64\n")
        .attribute("sda", "queue/write_cache", "write back\n")
        .attribute("sda", "queue/wbt_lat_usec", "")
        .attribute("sda", "queue/iosched/read_expire", "500\n")
        .attribute("sda", "device/vendor", "ACME    \n")
        .attribute("sda", "device/model", "Spinner 9\n");
    mount(&host, "3008:0", "mnt", "ext4", "/dev/sda");
    let info = describe(&host.path("mnt"), &host.roots);
    let StackLayer::Mount(mount) = &info.stack[0] else {
        panic!("no mount")
    };
    assert_eq!(mount.options, "data=x,noatime,rw");
    assert!(mount.total > 0 && mount.free <= mount.total);
    let disk = info.stack[1].device().unwrap();
    assert_eq!(disk.scheduler, "mq-deadline");
    assert_eq!(disk.model, "ACME Spinner 9");
    assert_eq!((disk.number, disk.size), ((3008, 0), 512 << 20));
    let queue: Vec<String> = disk.queue.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(
        queue,
        [
            "iosched/read_expire=500",
            "nr_requests=64",
            "write_cache=write back"
        ]
    );
}

#[test]
fn the_scheduler_in_force_is_the_one_in_brackets() {
    for (text, expected) in [
        ("none [mq-deadline] kyber", "mq-deadline"),
        ("[none]", "none"),
        ("none", "none"),
        ("", ""),
        ("[broken", "[broken"),
    ] {
        assert_eq!(in_force(text), expected);
    }
}

#[test]
fn the_stack_of_this_hosts_temporary_folder_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let info = describe(&folder.path().join("file"), &Roots::host());
    let StackLayer::Mount(mount) = &info.stack[0] else {
        panic!("no mount: {info:?}")
    };
    assert!(
        folder
            .path()
            .canonicalize()
            .unwrap()
            .starts_with(&mount.point)
    );
    assert!(info.stack.len() >= 2, "{info:?}");
    let null = describe(Path::new("/dev/null"), &Roots::host());
    assert!(matches!(&null.stack[..], [StackLayer::Other(what)] if what.contains("character")));
}
