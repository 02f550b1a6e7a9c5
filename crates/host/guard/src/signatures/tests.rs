//! Magic numbers at their places, formats created by their own tools, and random bytes.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::reader::Reader;
use super::{Signature, probe, probe_file, scan, table};

const MIB: usize = 1 << 20;

/// Zeroes with some bytes set.
fn image(length: usize, marks: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (offset, mark) in marks {
        bytes[*offset..offset + mark.len()].copy_from_slice(mark);
    }
    bytes
}

/// Like [`probe`], for bytes in memory.
fn probe_bytes(bytes: &[u8]) -> Vec<Signature> {
    let reader = Reader::new(bytes.len() as u64, true, |buffer, offset| {
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let from = from
            .get(..buffer.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(from);
        Ok(())
    });
    // Reading bytes in memory within their length cannot fail.
    reader.and_then(|reader| scan(&reader)).unwrap_or_default()
}

/// Signatures as `what (detail) at byte offset`.
fn words(bytes: &[u8]) -> Vec<String> {
    probe_bytes(bytes).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(length: usize, marks: &[(usize, &[u8])], expected: &[&str]) {
    assert_eq!(words(&image(length, marks)), expected);
}

#[test]
fn zeroes_and_empty_devices_are_blank() {
    for length in [0, 1, 511, 512, 4096, 65_536, MIB, 5 * MIB + 512] {
        check(length, &[], &[]);
    }
}

#[test]
fn every_magic_number_is_found_only_at_its_place() {
    for mark in table::MARKS {
        let offset = mark.offset as usize;
        let found = probe_bytes(&image(4 * MIB, &[(offset, mark.bytes)]));
        let expected = Signature {
            offset: mark.offset,
            what: mark.what,
            detail: String::new(),
        };
        assert!(found.contains(&expected), "{} not found", mark.what);
        let beside = probe_bytes(&image(4 * MIB, &[(offset + 1, mark.bytes)]));
        assert!(!beside.contains(&expected), "{} found beside", mark.what);
    }
}

#[test]
fn truncated_magic_numbers_are_not_read_beyond_the_end() {
    for mark in table::MARKS {
        let end = mark.offset as usize + mark.bytes.len() - 1;
        let cut = &mark.bytes[..mark.bytes.len() - 1];
        let found = probe_bytes(&image(end, &[(mark.offset as usize, cut)]));
        assert!(found.iter().all(|f| f.what != mark.what), "{}", mark.what);
    }
}

#[test]
fn ext_versions_are_recognised_by_their_features() {
    let base: [(usize, &[u8]); 1] = [(1024 + 56, &[0x53, 0xef])];
    let with = |more: &[(usize, &[u8])]| words(&image(MIB, &[&base[..], more].concat()));
    assert_eq!(with(&[]), ["ext2 at byte 1080"]);
    assert_eq!(with(&[(1024 + 92, &[4])]), ["ext3 at byte 1080"]);
    assert_eq!(with(&[(1024 + 96, &[0x40])]), ["ext4 at byte 1080"]);
    assert_eq!(with(&[(1024 + 100, &[0x08])]), ["ext4 at byte 1080"]);
    assert_eq!(
        with(&[(1024 + 96, &[8])]),
        ["ext external journal at byte 1080"]
    );
    assert_eq!(
        with(&[(1024 + 120, b"home")]),
        ["ext2 (label `home`) at byte 1080"]
    );
    assert_eq!(
        with(&[(1024 + 120, b"home"), (1024 + 136, b"/srv\x1b[31m")]),
        ["ext2 (last mounted on `/srv[31m`) at byte 1080"]
    );
    // Two bytes alone are not a superblock.
    assert!(with(&[(1024 + 24, &[9])]).is_empty());
    assert!(with(&[(1024 + 76, &[2])]).is_empty());
}

#[test]
fn btrfs_is_found_with_its_copies_and_member_devices() {
    check(
        65 * MIB,
        &[
            (65_536 + 64, b"_BHRfS_M"),
            (65_536 + 136, &[3]),
            (65_536 + 299, b"pool"),
            (64 * MIB + 64, b"_BHRfS_M"),
        ],
        &[
            "btrfs (label `pool`, one of 3 devices) at byte 65600",
            "btrfs copy at byte 67108928",
        ],
    );
}

#[test]
fn zfs_is_found_by_any_of_its_four_labels() {
    let label = 256 << 10;
    let length = 8 * MIB + 100 * 1024;
    for start in [0, label, 8 * MIB - 2 * label, 8 * MIB - label] {
        let place = format!("ZFS pool member at byte {start}");
        for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
            for slot in [0, 127] {
                let at = start + (128 << 10) + slot * 1024;
                check(length, &[(at, &magic)], &[&place]);
            }
        }
        let config = b"\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\0\0\x24\0\0\0\x20\0\0\0\x07version\0\
            \0\0\0\x08\0\0\0\x01\0\0\0\0\0\0\x13\x88\0\0\0\x20\0\0\0\x20\0\0\0\x04name\
            \0\0\0\x09\0\0\0\x01\0\0\0\x04tank\0\0\0\0";
        let named = format!("ZFS pool member (pool `tank`) at byte {start}");
        check(length, &[(start + (16 << 10), config)], &[&named]);
    }
}

#[test]
fn md_is_found_at_all_its_places() {
    let one = b"\xfc\x4e\x2b\xa9\x01\0\0\0";
    let named: [(usize, &[u8]); 2] = [(4096, one), (4096 + 32, b"host:0")];
    check(
        4 * MIB,
        &named,
        &["md RAID member (array `host:0`) at byte 4096"],
    );
    check(4 * MIB, &[(0, one)], &["md RAID member at byte 0"]);
    check(
        4 * MIB,
        &[(4 * MIB - 8192, one)],
        &["md RAID member at byte 4186112"],
    );
    // The place of version 1.0 is rounded down to 4 KiB.
    let odd = 4 * MIB + 3 * 512;
    check(
        odd,
        &[(4 * MIB - 8192, one)],
        &["md RAID member at byte 4186112"],
    );
    let old = "md RAID member (version 0.90) at byte 4128768";
    check(4 * MIB, &[(4 * MIB - 65_536, one)], &[old]);
    check(4 * MIB, &[(4 * MIB - 65_536, b"\xa9\x2b\x4e\xfc")], &[old]);
}

#[test]
fn partition_tables_are_found_at_both_ends() {
    check(MIB, &[(512, b"EFI PART")], &["GPT at byte 512"]);
    check(MIB, &[(4096, b"EFI PART")], &["GPT at byte 4096"]);
    check(
        MIB,
        &[(MIB - 512, b"EFI PART")],
        &["GPT backup at byte 1048064"],
    );
    check(
        MIB,
        &[(MIB - 4096, b"EFI PART")],
        &["GPT backup at byte 1044480"],
    );
    let empty = "boot sector (no partitions) at byte 510";
    check(MIB, &[(510, b"\x55\xaa")], &[empty]);
    check(
        MIB,
        &[
            (446, &[0x80]),
            (450, &[0x83]),
            (466, &[0x83]),
            (510, b"\x55\xaa"),
        ],
        &["MBR (2 partitions) at byte 510"],
    );
    check(
        MIB,
        &[(450, &[0xee]), (510, b"\x55\xaa")],
        &["protective MBR at byte 510"],
    );
    check(
        MIB,
        &[(446, &[0x41]), (510, b"\x55\xaa")],
        &["boot sector at byte 510"],
    );
}

#[test]
fn keys_swap_volumes_and_raids_are_found() {
    check(MIB, &[(0, b"LUKS\xba\xbe\0\x01")], &["LUKS1 at byte 0"]);
    check(
        MIB,
        &[
            (0, b"LUKS\xba\xbe\0\x02"),
            (24, b"key"),
            (0x4000, b"SKUL\xba\xbe\0\x02"),
        ],
        &[
            "LUKS2 (label `key`) at byte 0",
            "LUKS2 second header at byte 16384",
        ],
    );
    check(
        8 * MIB,
        &[(0x40_0000, b"SKUL\xba\xbe")],
        &["LUKS2 second header at byte 4194304"],
    );
    check(MIB, &[(4086, b"SWAPSPACE2")], &["swap at byte 4086"]);
    check(MIB, &[(65_526, b"SWAPSPACE2")], &["swap at byte 65526"]);
    check(
        MIB,
        &[(4086, b"S1SUSPEND\0")],
        &["hibernation image at byte 4086"],
    );
    for sector in [0, 512, 1024, 1536] {
        let place = format!("LVM2 physical volume at byte {sector}");
        check(
            MIB,
            &[(sector, b"LABELONE"), (sector + 24, b"LVM2 001")],
            &[&place],
        );
    }
    check(MIB, &[(512, b"LABELONE")], &[]);
    check(
        MIB,
        &[(MIB - 4096 + 60, b"\x83\x74\x02\x6b")],
        &["DRBD at byte 1044480"],
    );
    check(
        MIB,
        &[(MIB - 1024, b"Intel Raid ISM Cfg Sig. ")],
        &["Intel RAID member at byte 1047552"],
    );
    check(
        MIB,
        &[(MIB - 512, b"\xde\x11\xde\x11")],
        &["DDF RAID member at byte 1048064"],
    );
    check(
        MIB,
        &[(0, b"XFSB"), (108, b"scratch")],
        &["xfs (label `scratch`) at byte 0"],
    );
    let nilfs: [(usize, &[u8]); 2] = [(1024, &[2]), (1030, &[0x34, 0x34])];
    check(MIB, &nilfs, &["nilfs2 at byte 1030"]);
    check(MIB, &nilfs[1..], &[]);
}

#[test]
fn a_range_of_a_device_is_probed_like_a_separate_device() {
    let mut file = tempfile::tempfile().unwrap();
    let mut bytes = image(4 * MIB, &[(MIB, b"XFSB"), (2 * MIB - 512, b"EFI PART")]);
    // Outside of the range on both sides.
    bytes[..4].copy_from_slice(b"XFSB");
    bytes[3 * MIB..3 * MIB + 4].copy_from_slice(b"XFSB");
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    let found = probe(&file, MIB as u64, MIB as u64).unwrap();
    let words: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["xfs at byte 0", "GPT backup at byte 1048064"]);
}

#[test]
fn unreadable_blocks_are_an_error_and_not_blank() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    assert!(probe(&file, 0, 8192).is_err());
    assert!(probe(&file, 4096, 4096).is_err());
    assert!(probe(&file, 0, 4096).unwrap().is_empty());
}

#[test]
fn little_of_a_file_is_read() {
    let bytes = image(80 * MIB, &[(64 * MIB + 64, b"_BHRfS_M")]);
    let (calls, read) = (Cell::new(0), Cell::new(0));
    let reader = Reader::new(bytes.len() as u64, false, |buffer, offset| {
        calls.set(calls.get() + 1);
        read.set(read.get() + buffer.len());
        buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
        Ok(())
    });
    let found = scan(&reader.unwrap()).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(calls.get() <= 20, "{calls:?} calls");
    assert!(read.get() <= 150 << 10, "{read:?} bytes");
}

#[test]
fn pools_and_images_in_files_are_found() {
    let length = 8 * MIB;
    let label = 256 << 10;
    let cases: [(usize, &[u8], &str); 5] = [
        (16 << 10, b"\0\x01version", "ZFS pool member"),
        (
            length - label + (16 << 10),
            b"\x01\x01\0\0version",
            "ZFS pool member",
        ),
        (length - 512, b"EFI PART", "GPT backup"),
        (length - 65_536, b"\xfc\x4e\x2b\xa9", "md RAID member"),
        (4 * MIB, b"SKUL\xba\xbe", "LUKS2 second header"),
    ];
    for (offset, mark, what) in cases {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&image(length, &[(offset, mark)]), 0)
            .unwrap();
        let found = probe_file(&file, length as u64).unwrap();
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        assert_eq!(found[0].what, what);
    }
}

/// Signatures without offsets that a tool creates on a sparse file of `mib` MiB.
fn made_by(mib: u64, command: &[&str]) -> Option<Vec<String>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(mib << 20).unwrap();
    let status = Command::new(command[0])
        .args(&command[1..])
        .arg(file.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) => {
            assert!(status.success(), "{command:?} failed");
            let found = probe(&File::open(file.path()).unwrap(), 0, mib << 20).unwrap();
            Some(
                found
                    .into_iter()
                    .map(|found| format!("{} {}", found.what, found.detail))
                    .collect(),
            )
        }
        Err(error) => {
            iodyno_testing::skip(format_args!("{}: {error}", command[0]));
            None
        }
    }
}

#[test]
fn formats_created_by_their_own_tools_are_found() {
    let cases: &[(u64, &[&str], &[&str])] = &[
        (16, &["mkfs.ext2", "-q"], &["ext2 "]),
        (16, &["mkfs.ext3", "-q"], &["ext3 "]),
        (
            16,
            &["mkfs.ext4", "-q", "-L", "four"],
            &["ext4 label `four`"],
        ),
        (
            16,
            &["mke2fs", "-q", "-O", "journal_dev"],
            &["ext external journal "],
        ),
        (320, &["mkfs.xfs", "-q", "-L", "x"], &["xfs label `x`"]),
        (
            128,
            &["mkfs.btrfs", "-q", "-L", "b"],
            &["btrfs label `b`", "btrfs copy label `b`"],
        ),
        (16, &["mkfs.vfat"], &["vfat ", "boot sector no partitions"]),
        (
            64,
            &["mkfs.vfat", "-F", "32"],
            &["vfat ", "boot sector no partitions", "vfat backup "],
        ),
        (16, &["mkswap", "-L", "s"], &["swap label `s`"]),
    ];
    for (mib, command, expected) in cases {
        if let Some(found) = made_by(*mib, command) {
            assert_eq!(&found, expected, "{command:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Random bytes with magic numbers at random places: no panic, no read beyond the end.
    #[test]
    fn random_bytes_are_probed_without_panic(
        seed in any::<u64>(),
        length in prop_oneof![0usize..8192, 0usize..2 * MIB],
        thrown in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12),
        in_place in any::<bool>(),
    ) {
        let mut state = seed | 1;
        let mut bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for (which, place) in thrown {
            let mark = &table::MARKS[which.index(table::MARKS.len())];
            let at = if in_place { mark.offset as usize } else { place.index(length + 1) };
            if let Some(room) = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..mark.bytes.len())) {
                room.copy_from_slice(mark.bytes);
            }
        }
        for found in probe_bytes(&bytes) {
            prop_assert!(found.offset < length as u64);
            prop_assert!(!found.to_string().contains(char::is_control));
        }
    }

    /// Headers whose fields, except the magic number, are random: names and counts of any length.
    #[test]
    fn headers_with_random_fields_are_probed_without_panic(
        body in prop::collection::vec(any::<u8>(), 4096),
        length in 70_000usize..600_000,
    ) {
        let mut bytes = vec![0; length];
        for (start, mark, at) in [
            (0, &b"LUKS\xba\xbe"[..], 0),
            (1024, b"\x53\xef", 56),
            (4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0", 0),
            (16_384, b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01", 100),
            (65_536, b"_BHRfS_M", 64),
        ] {
            let end = (start + body.len()).min(length);
            bytes[start..end].copy_from_slice(&body[..end - start]);
            bytes[start + at..start + at + mark.len()].copy_from_slice(mark);
        }
        for found in probe_bytes(&bytes) {
            prop_assert!(!found.to_string().contains(char::is_control));
        }
    }
}

#[test]
fn the_magic_number_of_minix_in_random_data_is_not_enough() {
    for (magic, place, zone_bits) in [(0x138f_u16, 16, 10), (0x4d5a, 24, 12)] {
        for bytes_of in [u16::to_le_bytes, u16::to_be_bytes] {
            let mut data = vec![0x5a; 1 << 16];
            let at = 1024 + place;
            data[at..at + 2].copy_from_slice(&bytes_of(magic));
            assert_eq!(words(&data), [""; 0]);
            data[1024 + zone_bits..][..2].fill(0);
            assert_eq!(words(&data), [format!("minix at byte {at}")]);
        }
    }
}
