//! The places on a device where something usually is, apart from its two ends: the first blocks of partitions and of
//! what lies in them, and the copies of superblocks that file systems keep further on. They depend only on the length
//! of the device.

use std::ops::Range;

const SECTOR: u64 = 512;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// How much of each end is looked at, bytes: at the end there are copies of partition tables, labels of ZFS in front of
/// its reserved partition of 8 MiB, superblocks of md, and metadata of firmware RAID.
pub(crate) const END: u64 = 16 * MIB;
/// Where partitions begin: at a multiple of this, bytes.
pub(crate) const STRIDE: u64 = MIB;
/// Where partitions of old DOS tables begin: at a multiple of this, or a track behind it, within this length, bytes.
pub(crate) const CYLINDER: u64 = 255 * TRACK;
pub(crate) const TRACK: u64 = 63 * SECTOR;
pub(crate) const DOS: u64 = 2 * TIB;
/// How much of a place is looked at, bytes: up to the superblocks at 64 KiB of btrfs, reiserfs and gfs.
pub(crate) const WINDOW: u64 = 128 * KIB;

/// First sectors of partitions that are not a multiple of 1 MiB: after a GPT, of old DOS tables, and of other tools.
const SECTORS: [u64; 6] = [34, 40, 63, 64, 128, 256];
/// Up to here, each multiple of 1 MiB is a place, in MiB: partitions, the data of LVM, LUKS (2 or 16), ZFS (4) and md
/// (up to 129), the copy of btrfs at 64, and the groups of ext with blocks of 1 KiB.
const EACH: u64 = 137;
/// The most usual starts of the first partition, bytes, and the length from which on a file may be a disk.
const FIRST: [u64; 4] = [34 * SECTOR, 63 * SECTOR, MIB, 2 * MIB];
const DISK: u64 = 16 * MIB;
/// Where copies of a superblock are, from the start of their file system, bytes, with how much is looked at: the first
/// one of an ext with blocks of 1, 2 and 4 KiB, and of a btrfs. They begin as far in front of a copy as the start is in
/// front of the superblock.
const COPIES: [(u64, u64); 4] = [
    (8 * MIB, 4 * KIB),
    (32 * MIB - KIB, 4 * KIB),
    (128 * MIB - KIB, 4 * KIB),
    (64 * MIB - 64 * KIB, 68 * KIB),
];
/// Starts of partitions behind usual EFI, boot and recovery partitions, MiB.
const BEHIND: [u64; 20] = [
    201, 257, 261, 277, 301, 317, 401, 501, 513, 529, 551, 601, 613, 1537, 1625, 2053, 3072, 3073,
    3074, 3075,
];
/// Starts of the partitions whose file systems have copies of their superblocks, from the start of the device, MiB.
/// Those before the first MiB are in the windows of 0.
const STARTS: [u64; 5] = [0, 1, 2, 4, 8];
/// The groups of ext that have a copy of the superblock (`sparse_super`): the powers of 3, 5 and 7.
const EXT_GROUPS: [u64; 12] = [1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343];
/// Lengths of a group of ext, bytes: 8 × the block in bits; blocks of 2, 4 and 64 KiB. Those of 1 KiB are in [`EACH`].
const EXT_GROUP: [u64; 3] = [32 * MIB, 128 * MIB, 32 * GIB];
/// Where btrfs copies its superblock, bytes.
const BTRFS: [u64; 2] = [64 * MIB, 256 * GIB];
/// Where Ceph BlueStore copies its label, GiB.
const BLUESTORE: [u64; 4] = [1, 10, 100, 1000];
const XFS_BLOCK: u64 = 4 * KIB;
const EXTENT: u64 = 4 * MIB;
/// The length of the copy of a GPT at the end of a disk, bytes.
const TABLE: u64 = 33 * SECTOR;
/// The numbers of allocation groups that mkfs.xfs chooses, with how many of them are looked at.
const XFS_GROUPS: [(u64, u64); 4] = [(4, 3), (8, 1), (16, 1), (32, 1)];

/// Starts of partitions and volumes: what may have the signature of a file system, ascending, without 0.
pub(crate) fn starts(length: u64) -> Vec<u64> {
    let powers = (8..=24).map(|power| 1 << power);
    let powers = powers.flat_map(|mib: u64| [mib, mib + 1, mib + 2]);
    let mib = (1..EACH).chain(BEHIND).chain(powers).map(|mib| mib * MIB);
    let sectors = SECTORS.iter().map(|sector| sector * SECTOR);
    within(sectors.chain(mib).collect(), length)
}

/// Where a file may have a file system whose partition table was destroyed, with how much of each place is looked at,
/// bytes. They are few, because a run can have thousands of files.
pub(crate) fn in_file(length: u64) -> Vec<Range<u64>> {
    let starts = FIRST.map(|start| start..start + WINDOW);
    let within = |place: &Range<u64>| length >= DISK && place.end <= length;
    starts.into_iter().filter(within).collect()
}

/// As [`in_file`], for the first copies of a superblock that was destroyed, of a file system that begins at 0 or 1 MiB.
pub(crate) fn copies_in_file(length: u64) -> Vec<Range<u64>> {
    let partition = length.saturating_sub(TABLE) / MIB * MIB;
    let copies = [(0, length), (MIB, partition)];
    let copies = copies.into_iter().flat_map(|(start, end)| {
        let xfs = xfs_group(end.saturating_sub(start) / XFS_BLOCK, XFS_GROUPS[0].0);
        let copies = COPIES.into_iter().chain([(xfs, 4 * KIB)]);
        copies.map(move |(copy, bytes)| start + copy..start + copy + bytes)
    });
    copies
        .filter(|place| length >= DISK && place.end <= length)
        .collect()
}

/// Where a copy of a superblock of a file system would be that begins at a usual start of a partition.
pub(crate) fn copies(length: u64) -> Vec<u64> {
    let mut places = Vec::new();
    for start in STARTS.map(|mib| mib * MIB) {
        places.extend(BTRFS.map(|copy| start + copy));
        places.extend(BLUESTORE.map(|gib| start + gib * GIB));
        for group in EXT_GROUP {
            places.extend(EXT_GROUPS.map(|number| start + number * group));
        }
        places.extend(xfs_groups(start, length));
    }
    within(places, length)
}

/// The starts of allocation groups of an xfs that begins at `start`, and ends at the end of the device, of its last
/// partition (before a GPT, or at the last multiple of 1 MiB before it), or of the last volume in that.
fn xfs_groups(start: u64, length: u64) -> Vec<u64> {
    // LVM has extents of 4 MiB.
    let extents = |end: u64| Some(end.checked_sub(start)? / EXTENT * EXTENT + start);
    let ends = [
        Some(length),
        length.checked_sub(TABLE),
        length.checked_sub(TABLE).map(|end| end / MIB * MIB),
        length.checked_sub(TABLE).and_then(extents),
    ];
    let blocks = ends
        .into_iter()
        .flatten()
        .filter_map(|end| Some(end.checked_sub(start)? / XFS_BLOCK));
    let mut places = Vec::new();
    for blocks in blocks {
        for (groups, seen) in XFS_GROUPS {
            let group = xfs_group(blocks, groups);
            places.extend((1..=seen).map(|number| start + number * group));
        }
    }
    places
}

/// The length of an allocation group of xfs in bytes, for these numbers of blocks and groups.
fn xfs_group(blocks: u64, groups: u64) -> u64 {
    (blocks.div_ceil(groups) * XFS_BLOCK).min(TIB)
}

/// The places to look at, ascending, aligned to `block` and without overlap: both ends, [`starts`] and [`copies`].
pub(crate) fn windows(length: u64, block: u64) -> Vec<Range<u64>> {
    let end = length.saturating_sub(END);
    let mut windows = vec![0..END, end..length];
    let places = starts(length).into_iter().chain(copies(length));
    windows.extend(places.map(|place| place..place + WINDOW));
    let aligned = windows
        .into_iter()
        .map(|window| window.start / block * block..window.end.min(length));
    merged(aligned.collect())
}

/// Ranges in order, with those joined that touch or overlap; without empty ones.
pub(crate) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn within(mut places: Vec<u64>, length: u64) -> Vec<u64> {
    places.retain(|place| *place < length);
    places.sort_unstable();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_aligned_disjoint_and_within_the_device() {
        for length in [
            0,
            1,
            4096,
            16 * MIB,
            17 * MIB + 512,
            100 * GIB,
            20 * TIB,
            u64::MAX / 2,
        ] {
            let windows = windows(length, 4096);
            assert!(
                windows
                    .iter()
                    .all(|one| one.start % 4096 == 0 && one.end <= length)
            );
            assert!(windows.windows(2).all(|pair| pair[0].end < pair[1].start));
            let bytes: u64 = windows.iter().map(|one| one.end - one.start).sum();
            assert!(
                bytes >= length.min(2 * END) && bytes < 128 * MIB,
                "{length}: {bytes}"
            );
        }
    }

    #[test]
    fn usual_places_are_looked_at() {
        let length = 400 * GIB;
        let windows = windows(length, 4096);
        let looked = |at: u64| windows.iter().any(|window| window.contains(&at));
        for at in [
            0,
            34 * SECTOR + 1080,
            63 * SECTOR + 64 * KIB,
            MIB,
            16 * MIB + 64 * KIB,
            64 * MIB + 64,
            129 * MIB,
            513 * MIB,
            GIB + MIB,
            // Copies of ext4 in group 3 and of btrfs, each in a partition that begins at 1 MiB.
            3 * 128 * MIB + MIB,
            256 * GIB + MIB + 64,
            // The second allocation group of an xfs on the whole device.
            100 * GIB,
            length - 1,
            length - 9 * MIB,
        ] {
            assert!(looked(at), "{at}");
        }
        assert!(!looked(150 * GIB + 12345678));
    }
}
