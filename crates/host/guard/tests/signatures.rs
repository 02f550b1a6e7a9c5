//! Every format that `blkid -k` of util-linux names, disk images and legs of iodyno's mirrors: the probe names them,
//! and the guard refuses them on a real device.
#![allow(clippy::print_stderr, reason = "tests print why they were skipped")]

mod common;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use common::{Loop, findings, refusal, run, skip, write};
use iodyno_guard::signatures;

const MIB: u64 = 1 << 20;
const LENGTH: u64 = 64 * MIB;

/// Bytes at offsets; negative offsets count from the end.
type Marks = Vec<(i64, Vec<u8>)>;

fn at(offset: i64, bytes: &[u8]) -> Marks {
    vec![(offset, bytes.to_vec())]
}

/// The last sector of a disk in a VIA RAID: byte 50 is the sum of the preceding ones.
fn via() -> Marks {
    let mut sector = [0; 64];
    sector[..2].copy_from_slice(b"\x55\xaa");
    sector[50] = 0x55u8.wrapping_add(0xaa);
    at(-512, &sector)
}

/// The last sector of a disk in a JMicron RAID: its first 64 words add up to 0.
fn jmicron() -> Marks {
    let mut sector = [0; 128];
    sector[..2].copy_from_slice(b"JM");
    let sum = u16::from_le_bytes(*b"JM").wrapping_neg();
    sector[10..12].copy_from_slice(&sum.to_le_bytes());
    at(-512, &sector)
}

/// ext superblock with these compatible, incompatible and read-only features.
fn ext(features: [u8; 3]) -> Marks {
    let mut block = [0; 128];
    block[56..58].copy_from_slice(b"\x53\xef");
    for (place, feature) in [92, 96, 100].into_iter().zip(features) {
        block[place] = feature;
    }
    at(1024, &block)
}

fn minix() -> Marks {
    let mut block = [0; 32];
    for place in [0, 2, 4, 6, 8] {
        block[place] = 1;
    }
    block[16..18].copy_from_slice(b"\x7f\x13");
    at(1024, &block)
}

fn hfs() -> Marks {
    let mut block = [0; 32];
    block[..2].copy_from_slice(b"BD");
    block[22] = 0x10;
    at(1024, &block)
}

/// blkid's name, iodyno's name, and the content of an otherwise blank device.
fn formats() -> Vec<(&'static str, &'static str, Marks)> {
    let dual = |one: Marks, two: Marks| [one, two].concat();
    vec![
        (
            "linux_raid_member",
            "md RAID member",
            at(4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
        ),
        (
            "linux_raid_member",
            "md RAID member",
            at(-65_536, b"\xfc\x4e\x2b\xa9"),
        ),
        (
            "ddf_raid_member",
            "DDF RAID member",
            at(-512, b"\xde\x11\xde\x11"),
        ),
        (
            "ddf_raid_member",
            "DDF RAID member",
            at(-257 * 512, b"\xde\x11\xde\x11"),
        ),
        (
            "isw_raid_member",
            "Intel RAID member",
            at(-1024, b"Intel Raid ISM Cfg Sig. 1.0.00"),
        ),
        (
            "lsi_mega_raid_member",
            "LSI RAID member",
            at(-512, b"$XIDE$"),
        ),
        ("via_raid_member", "VIA RAID member", via()),
        (
            "silicon_medley_raid_member",
            "Silicon Image RAID member",
            at(-512 + 0x60, b"\0\0\0\x2f"),
        ),
        (
            "nvidia_raid_member",
            "NVIDIA RAID member",
            at(-1024, b"NVIDIA"),
        ),
        (
            "promise_fasttrack_raid_member",
            "Promise RAID member",
            at(-63 * 512, b"Promise Technology, Inc."),
        ),
        (
            "promise_fasttrack_raid_member",
            "Promise RAID member",
            at(-3087 * 512, b"Promise Technology, Inc."),
        ),
        (
            "hpt45x_raid_member",
            "Highpoint RAID member",
            at(-11 * 512, b"\xf3\x16\x78\x5a"),
        ),
        (
            "hpt37x_raid_member",
            "Highpoint RAID member",
            at(4608 + 32, b"\xf0\x16\x78\x5a"),
        ),
        (
            "adaptec_raid_member",
            "Adaptec RAID member",
            at(-512, b"\x37\xfc\x4d\x1e"),
        ),
        ("jmicron_raid_member", "JMicron RAID member", jmicron()),
        (
            "bcache",
            "bcache",
            at(
                4096 + 24,
                b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
            ),
        ),
        (
            "ceph_bluestore",
            "Ceph BlueStore",
            at(0, b"bluestore block device"),
        ),
        ("drbd", "DRBD", at(-4096 + 60, b"\x83\x74\x02\x6b")),
        (
            "drbdmanage_control_volume",
            "DRBD Manage control volume",
            at(0, b"$DRBDmgr=q"),
        ),
        ("drbdproxy_datalog", "DRBD Proxy log", at(0, b"DRBDdlh*")),
        (
            "LVM2_member",
            "LVM2 physical volume",
            dual(at(512, b"LABELONE"), at(512 + 24, b"LVM2 001")),
        ),
        ("LVM1_member", "LVM1 physical volume", at(0, b"HM\x01\0")),
        ("DM_snapshot_cow", "device mapper snapshot", at(0, b"SnAp")),
        (
            "DM_verity_hash",
            "device mapper verity",
            at(0, b"verity\0\0\x01"),
        ),
        (
            "DM_integrity",
            "device mapper integrity",
            at(0, b"integrt\0"),
        ),
        ("crypto_LUKS", "LUKS1", at(0, b"LUKS\xba\xbe\0\x01")),
        (
            "VMFS_volume_member",
            "vmfs volume",
            at(0x10_0000, b"\x0d\xd0\x01\xc0"),
        ),
        ("ubi", "UBI volume", at(0, b"UBI#\x01")),
        ("vdo", "VDO", at(0, b"dmvdo001")),
        (
            "stratis",
            "Stratis pool member",
            at(516, b"!Stra0tis\x86\xff\x02^\x41rh"),
        ),
        ("BitLocker", "BitLocker", at(3, b"-FVE-FS-")),
        ("vfat", "vfat", at(82, b"FAT32   ")),
        ("swsuspend", "hibernation image", at(4086, b"S1SUSPEND\0")),
        (
            "swsuspend",
            "hibernation image",
            at(0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
        ),
        ("swap", "swap", at(4086, b"SWAPSPACE2")),
        ("xfs", "xfs", at(0, b"XFSB")),
        (
            "xfs_external_log",
            "xfs external log",
            at(0, b"\xfe\xed\xba\xbe"),
        ),
        ("exfs", "exfs", at(0, b"EXFS")),
        ("ext4dev", "ext4", ext([0, 0x40, 0])),
        ("ext4", "ext4", ext([4, 0x40, 8])),
        ("ext3", "ext3", ext([4, 0, 0])),
        ("ext2", "ext2", ext([0, 0, 0])),
        ("jbd", "ext external journal", ext([0, 8, 0])),
        ("reiserfs", "reiserfs", at(65_536 + 52, b"ReIsEr2Fs")),
        ("reiser4", "reiser4", at(65_536, b"ReIsEr4")),
        ("jfs", "jfs", at(32_768, b"JFS1")),
        ("udf", "udf", at(32_769, b"BEA01")),
        ("udf", "udf", at(32_769, b"NSR03")),
        ("iso9660", "iso9660", at(32_769, b"CD001")),
        ("iso9660", "iso9660 (High Sierra)", at(32_777, b"CDROM")),
        (
            "zfs_member",
            "ZFS pool member",
            at(128 << 10, b"\x0c\xb1\xba\0\0\0\0\0"),
        ),
        ("hfsplus", "hfs+", at(1024, b"H+\0\x04")),
        ("hfs", "hfs", hfs()),
        ("ufs", "ufs1", at(1372, b"\x54\x19\x01\0")),
        ("ufs", "ufs1", at(8192 + 1372, b"\0\x01\x19\x54")),
        ("ufs", "ufs2", at(65_536 + 1372, b"\x19\x01\x54\x19")),
        ("ufs", "ufs", at((256 << 10) + 1372, b"\x94\x19\x23\x05")),
        (
            "hpfs",
            "hpfs",
            at(8192, b"\x49\xe8\x95\xf9\xc5\xe9\x53\xfa"),
        ),
        ("sysv", "sysv", at(512 + 504, b"\x20\x7e\x18\xfd")),
        (
            "sysv",
            "sysv",
            at(15 * 1024 + 512 + 504, b"\xfd\x18\x7e\x20"),
        ),
        ("xenix", "xenix", at(2048, b"\x2b\x55\x44\0")),
        ("ntfs", "ntfs", at(3, b"NTFS    ")),
        ("ReFS", "refs", at(3, b"ReFS\0\0\0\0FSRS")),
        ("cramfs", "cramfs", at(0, b"\x28\xcd\x3d\x45")),
        ("romfs", "romfs", at(0, b"-rom1fs-")),
        ("minix", "minix", minix()),
        ("gfs", "gfs or gfs2", at(65_536, b"\x01\x16\x19\x70")),
        ("gfs2", "gfs or gfs2", at(65_536, b"\x01\x16\x19\x70")),
        ("ocfs", "ocfs", at(8, b"OracleCFS")),
        ("ocfs2", "ocfs2", at(4096, b"OCFSV2")),
        ("oracleasm", "Oracle ASM disk", at(32, b"ORCLDISK")),
        ("vxfs", "vxfs", at(1024, b"\xf5\xfc\x01\xa5")),
        ("squashfs", "squashfs", at(0, b"hsqs")),
        ("squashfs3", "squashfs", at(0, b"sqsh")),
        ("nss", "nss", at(4096, b"SPB5")),
        ("btrfs", "btrfs", at(65_536 + 64, b"_BHRfS_M")),
        ("ubifs", "ubifs", at(0, b"\x31\x18\x10\x06")),
        ("bfs", "bfs", at(0, b"\xce\xfa\xad\x1b")),
        ("VMFS", "vmfs", at(0x20_0000, b"\x5e\xf1\xab\x2f")),
        ("befs", "befs", at(544, b"1SFB")),
        ("nilfs2", "nilfs2", at(1024, b"\x02\0\0\0\0\0\x34\x34")),
        (
            "nilfs2",
            "nilfs2 copy",
            at(-4096, b"\x02\0\0\0\0\0\x34\x34"),
        ),
        ("exfat", "exfat", at(3, b"EXFAT   ")),
        ("f2fs", "f2fs", at(1024, b"\x10\x20\xf5\xf2")),
        ("mpool", "mpool device", at(0, b"mpoolDev")),
        ("apfs", "apfs", at(32, b"NXSB")),
        ("zonefs", "zonefs", at(0, b"SFOZ")),
        ("erofs", "erofs", at(1024, b"\xe2\xe1\xf5\xe0")),
        // Partition tables, which `blkid -k` does not list.
        ("", "Sun disk label", at(508, b"\xda\xbe\xda\xbe")),
        ("", "AIX disk label", at(0, b"\xc9\xc2\xd4\xc1")),
        (
            "",
            "Ultrix disk label",
            at(16_384 - 72, b"\x57\x29\x03\0\x01\0\0\0"),
        ),
        ("", "BSD disklabel", at(64, b"\x57\x45\x56\x82")),
        ("", "Windows dynamic disk", at(3072, b"PRIVHEAD")),
        // iodyno's own.
        (
            "",
            "leg of an iodyno mirror",
            at(0, b"iodyno mirror\r\n\x1a"),
        ),
        (
            "",
            "leg of an iodyno mirror",
            at(512 << 10, b"iodyno mirror\r\n\x1a"),
        ),
        // Disk images.
        ("", "qcow image", at(0, b"QFI\xfb\0\0\0\x03")),
        ("", "VMDK image", at(0, b"KDMV\x01\0\0\0")),
        ("", "VHDX image", at(0, b"vhdxfile")),
        ("", "VHD image", at(-512, b"conectix")),
        ("", "VDI image", at(64, b"\x7f\x10\xda\xbe")),
        ("", "QED image", at(0, b"QED\0")),
        ("", "Parallels image", at(0, b"WithoutFreeSpace")),
        ("", "DMG image", at(-512, b"koly")),
    ]
}

fn put(file: &File, marks: &Marks) {
    for (offset, bytes) in marks {
        let offset = LENGTH.wrapping_add_signed(*offset) % LENGTH;
        file.write_all_at(bytes, offset).unwrap();
    }
}

#[test]
fn every_format_that_blkid_knows_is_in_the_table() {
    let Ok(list) = run(&["blkid", "-k"]) else {
        return skip("no blkid here");
    };
    let table: BTreeSet<&str> = formats().iter().map(|(blkid, ..)| *blkid).collect();
    let missing: Vec<&str> = list.lines().filter(|name| !table.contains(name)).collect();
    // A later util-linux may know more formats; unknown formats are refused as data.
    if !missing.is_empty() {
        skip(format!(
            "not tried, as this table does not know them: {missing:?}"
        ));
    }
    assert!(list.lines().count() >= missing.len() + 70, "{missing:?}");
}

#[test]
fn every_format_is_named() {
    for (_, ours, marks) in formats() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LENGTH).unwrap();
        put(&file, &marks);
        let found = signatures::probe(&file, 0, LENGTH).unwrap();
        assert!(
            found.iter().any(|signature| signature.what == ours),
            "{ours}: {found:?}"
        );
    }
}

#[test]
fn every_format_is_refused_on_a_device_and_named() {
    let Some(disk) = Loop::blank(LENGTH / MIB) else {
        return;
    };
    for (blkid, ours, marks) in formats() {
        let device = OpenOptions::new().write(true).open(&disk.device).unwrap();
        put(&device, &marks);
        drop(device);
        let refused = refusal(write(&disk.device, &[]));
        let found = findings(&refused).join("; ");
        assert!(found.contains(&format!("holds {ours}")), "{blkid}: {found}");
        let hint = refused.hint();
        assert!(
            hint.contains(&format!("--destroy {}", disk.path())),
            "{hint}"
        );
        let blank: Marks = marks
            .iter()
            .map(|(offset, bytes)| (*offset, vec![0; bytes.len()]))
            .collect();
        put(
            &OpenOptions::new().write(true).open(&disk.device).unwrap(),
            &blank,
        );
    }
    write(&disk.device, &[]).unwrap();
}
