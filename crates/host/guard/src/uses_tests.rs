//! Simulated hosts, and which devices may be written on them.

use std::os::unix::fs::symlink;

use iodyno_host::fake::FakeHost;

use super::Survey;
use super::of;

type Setup = fn(&FakeHost);

/// Reasons against writing to `device` of the host that `setup` creates, as sorted texts.
fn found(setup: Setup, device: &str) -> Vec<String> {
    let host = FakeHost::new();
    setup(&host);
    let survey = Survey::take(&host.roots);
    let reasons = of(&host.roots, &survey, &host.block(device));
    let mut words: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    words.sort();
    words
}

#[track_caller]
fn check(setup: Setup, device: &str, expected: &[&str]) {
    assert_eq!(found(setup, device), expected, "on {device}");
}

fn two_disks(host: &FakeHost) {
    host.disk("sda", "8:0")
        .partition("sda", "sda1", "8:1")
        .partition("sda", "sda2", "8:2")
        .disk("sdb", "8:16");
}

#[test]
fn an_unused_disk_may_be_written() {
    check(two_disks, "sdb", &[]);
    check(two_disks, "sda", &[]);
    check(two_disks, "sda1", &[]);
}

#[test]
fn a_mounted_disk_is_refused() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.mount("8:16", "/data", "xfs", "/dev/sdb");
    };
    check(setup, "sdb", &["sdb is mounted on `/data` (xfs)"]);
    check(setup, "sda", &[]);
}

#[test]
fn a_disk_whose_partition_is_mounted_is_refused_and_its_other_partition_is_not() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.mount("8:1", "/", "ext4", "/dev/sda1");
    };
    check(setup, "sda", &["sda1 is mounted on `/` (ext4)"]);
    check(setup, "sda1", &["sda1 is mounted on `/` (ext4)"]);
    check(setup, "sda2", &[]);
}

/// As the partition `c` of a BSD label, which is the whole disk.
#[test]
fn a_partition_that_overlaps_another_one_in_use_is_refused() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.attribute("sda/sda2", "size", "1048576\n")
            .attribute("sda/sda2", "start", "0\n")
            .partition("sda", "sda3", "8:3")
            .mount("8:1", "/", "ext4", "/dev/sda1");
    };
    check(setup, "sda2", &["sda1 is mounted on `/` (ext4)"]);
    check(setup, "sda3", &[]);
}

#[test]
fn a_partition_of_a_disk_in_use_as_a_whole_is_refused() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.mount("8:0", "/whole", "ext4", "/dev/sda");
    };
    check(setup, "sda2", &["sda is mounted on `/whole` (ext4)"]);
    let multipath = |host: &FakeHost| {
        two_disks(host);
        host.mapped("dm-0", "252:0", &[("dm/name", "mpatha")], &["sda", "sdb"]);
    };
    let held = "sda is part of dm-0, device mapper `mpatha`";
    check(multipath, "sda1", &[held]);
    check(multipath, "sda", &[held]);
    check(multipath, "dm-0", &[]);
}

#[test]
fn logical_volumes_protect_their_physical_volume_and_not_each_other() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.mapped("dm-0", "252:0", &[("dm/name", "vg-root")], &["sda2"])
            .mapped("dm-1", "252:1", &[("dm/name", "vg-scratch")], &["sda2"])
            .mount("252:0", "/", "ext4", "/dev/mapper/vg-root");
    };
    let all = [
        "dm-0 is mounted on `/` (ext4)",
        "sda2 is part of dm-0, device mapper `vg-root`",
        "sda2 is part of dm-1, device mapper `vg-scratch`",
    ];
    check(setup, "sda2", &all);
    check(setup, "sda", &all);
    check(setup, "sda1", &[]);
    check(setup, "dm-0", &all[..1]);
    check(setup, "dm-1", &[]);
}

#[test]
fn devices_below_layers_of_mappings_are_found() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.disk("sdc", "8:32")
            .mapped("md0", "9:0", &[("md/level", "raid1")], &["sda1", "sdb"])
            .mapped("dm-0", "252:0", &[("dm/name", "crypt")], &["md0"])
            .swap("/dev/dm-0");
    };
    let rest = [
        "dm-0 is swap space in use",
        "md0 is part of dm-0, device mapper `crypt`",
    ];
    check(
        setup,
        "sdb",
        &[rest[0], rest[1], "sdb is part of md0, md raid1"],
    );
    check(
        setup,
        "sda",
        &[rest[0], rest[1], "sda1 is part of md0, md raid1"],
    );
    check(setup, "md0", &rest);
    check(setup, "sdc", &[]);
}

#[test]
fn a_mapping_of_a_disk_whose_partition_is_mounted_is_refused() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.mapped("dm-0", "252:0", &[("dm/name", "all")], &["sda"])
            .mount("8:1", "/", "ext4", "/dev/sda1");
    };
    check(setup, "dm-0", &["sda1 is mounted on `/` (ext4)"]);
}

#[test]
fn swap_is_found_by_every_name_of_the_device() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        symlink(host.path("dev/sda2"), host.path("dev/mapper/swap")).unwrap();
        host.swap("/dev/mapper/swap");
    };
    check(setup, "sda2", &["sda2 is swap space in use"]);
    check(setup, "sda", &["sda2 is swap space in use"]);
    check(setup, "sda1", &[]);
    let zram = |host: &FakeHost| {
        host.disk("zram0", "253:0").swap("/dev/zram0");
    };
    check(zram, "zram0", &["zram0 is swap space in use"]);
}

#[test]
fn every_device_of_a_mounted_pool_is_refused() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.disk("sdc", "8:32")
            .btrfs("6f-1a", &["sda1", "sdb"])
            .mount("0:45", "/pool", "btrfs", "/dev/sda1");
    };
    let member = "sda1 belongs to btrfs `6f-1a`, mounted";
    check(setup, "sdb", &["sdb belongs to btrfs `6f-1a`, mounted"]);
    check(
        setup,
        "sda",
        &[member, "sda1 is mounted on `/pool` (btrfs)"],
    );
    check(setup, "sdc", &[]);
    let bcachefs = |host: &FakeHost| {
        two_disks(host);
        host.write("sys/fs/bcachefs/77/dev-0/block/dev", "8:16\n");
        host.write("sys/fs/bcachefs/77/options/foo", "1\n");
    };
    check(bcachefs, "sdb", &["sdb belongs to bcachefs `77`, mounted"]);
    check(bcachefs, "sda", &[]);
}

#[test]
fn bcachefs_names_all_its_devices_as_one_source() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.mount("0:46", "/b", "bcachefs", "/dev/sda2:/dev/sdb");
    };
    check(setup, "sdb", &["sdb is mounted on `/b` (bcachefs)"]);
    check(setup, "sda", &["sda2 is mounted on `/b` (bcachefs)"]);
}

#[test]
fn a_loop_device_is_checked_by_itself_and_not_by_the_location_of_its_file() {
    let blank = |host: &FakeHost| {
        two_disks(host);
        host.write("img", "x");
        host.loop_device("loop0", "7:0", &host.path("img"))
            .mount("8:1", "/", "ext4", "/dev/sda1");
    };
    check(blank, "loop0", &[]);
    let mounted = |host: &FakeHost| {
        host.write("img", "x");
        host.loop_device("loop0", "7:0", &host.path("img")).mount(
            "7:0",
            "/l",
            "ext4",
            "/dev/loop0",
        );
    };
    check(mounted, "loop0", &["loop0 is mounted on `/l` (ext4)"]);
}

#[test]
fn a_loop_device_is_refused_if_another_one_on_the_same_file_is_in_use() {
    let setup = |host: &FakeHost| {
        host.write("img", "x");
        host.write("other", "x");
        symlink(host.path("img"), host.path("alias")).unwrap();
        host.loop_device("loop0", "7:0", &host.path("img"))
            .loop_device("loop1", "7:1", &host.path("alias"))
            .loop_device("loop2", "7:2", &host.path("other"))
            .partition("loop0", "loop0p1", "259:0")
            .mount("259:0", "/l", "ext4", "/dev/loop0p1");
    };
    check(setup, "loop1", &["loop0p1 is mounted on `/l` (ext4)"]);
    check(setup, "loop2", &[]);
}

#[test]
fn a_loop_device_on_a_device_in_use_is_refused() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.loop_device("loop0", "7:0", &host.path("dev/sda1"))
            .loop_device("loop1", "7:1", &host.path("dev/sdb"))
            .mapped("dm-0", "252:0", &[("dm/name", "vg-x")], &["sda1"]);
    };
    let held = "sda1 is part of dm-0, device mapper `vg-x`";
    check(setup, "loop0", &[held]);
    check(setup, "sda1", &[held, "sda1 is part of loop0, loop device"]);
    check(setup, "sdb", &["sdb is part of loop1, loop device"]);
    check(setup, "loop1", &[]);
}

#[test]
fn a_loop_device_on_a_swap_file_is_refused() {
    let setup = |host: &FakeHost| {
        host.write("swap", "x");
        host.loop_device("loop0", "7:0", &host.path("swap"));
        host.swap(host.path("swap").to_str().unwrap());
    };
    assert!(found(setup, "loop0")[0].starts_with("the host swaps to it"));
}

#[test]
fn a_mount_in_another_namespace_is_found_with_a_process_that_sees_it() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        for (process, namespace) in [("self", "mnt:[1]"), ("41", "mnt:[1]"), ("42", "mnt:[2]")] {
            let folder = host.path(&format!("proc/{process}/ns"));
            std::fs::create_dir_all(&folder).unwrap();
            symlink(namespace, folder.join("mnt")).unwrap();
        }
        host.mount("8:1", "/", "ext4", "/dev/sda1")
            .mount_for("41", "8:1", "/", "ext4", "/dev/sda1")
            .mount_for("42", "8:1", "/", "ext4", "/dev/sda1")
            .mount_for("42", "8:16", "/in", "xfs", "/dev/sdb");
    };
    let words = "sdb is mounted on `/in` (xfs) in the mount namespace of process 42";
    check(setup, "sdb", &[words]);
    check(setup, "sda", &["sda1 is mounted on `/` (ext4)"]);
}

#[test]
fn escapes_in_mount_points_are_decoded() {
    let setup = |host: &FakeHost| {
        two_disks(host);
        host.mount("8:16", "/my\\040disk", "ext4", "/dev/sdb");
    };
    check(setup, "sdb", &["sdb is mounted on `/my disk` (ext4)"]);
}

#[test]
fn a_cycle_of_mappings_terminates() {
    let setup = |host: &FakeHost| {
        host.mapped("dm-0", "252:0", &[("dm/name", "a")], &[])
            .mapped("dm-1", "252:1", &[("dm/name", "b")], &["dm-0"]);
        let own = host.path("sys/devices/dm-0");
        std::fs::create_dir_all(own.join("slaves")).unwrap();
        symlink(host.path("sys/devices/dm-1"), own.join("slaves/dm-1")).unwrap();
    };
    check(setup, "dm-0", &["dm-0 is part of dm-1, device mapper `b`"]);
}
