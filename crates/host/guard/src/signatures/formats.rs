//! Formats that need several checks: magic numbers at several places, versions, names.

use std::io;

use super::Signature;
use super::reader::{Header, Reader};

type Format = fn(&Reader<'_>, &mut Vec<Signature>) -> io::Result<()>;

/// All formats.
pub(super) const ALL: &[Format] = &[
    ext,
    xfs,
    btrfs,
    zfs,
    lvm2,
    md,
    drbd,
    firmware_raid,
    swap,
    luks,
    gpt,
    mbr,
    nilfs2,
    ufs,
    sysv,
    minix,
    hfs,
    lvm1,
    sun_label,
];

const KIB: u64 = 1 << 10;

/// A sector that ends in 55AA and has no partitions.
pub(super) const BOOT_SECTOR: &str = "boot sector";

fn push(found: &mut Vec<Signature>, what: &'static str, offset: u64, detail: String) {
    found.push(Signature {
        offset,
        what,
        detail,
    });
}

/// Text for a label; empty if the label is empty.
fn named(label: &str) -> String {
    match label {
        "" => String::new(),
        label => format!("label `{label}`"),
    }
}

/// ext2, ext3, ext4 and their external journals: superblock at 1 KiB, magic EF53 at 56. The feature flags
/// tell the version.
fn ext(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    let Some(bytes) = reader.at(KIB, 512)? else {
        return Ok(());
    };
    let header = Header(&bytes);
    let (block_bits, revision) = (header.u32(24), header.u32(76));
    if header.u16(56) != 0xef53 || block_bits > 6 || revision > 1 {
        return Ok(());
    }
    let (compatible, incompatible, read_only) = (header.u32(92), header.u32(96), header.u32(100));
    // ext3 has only these: filetype, recover, meta_bg; sparse_super, large_file, btree_dir.
    let what = if incompatible & 8 != 0 {
        "ext external journal"
    } else if incompatible & !(2 | 4 | 0x10) != 0 || read_only & !(1 | 2 | 4) != 0 {
        "ext4"
    } else if compatible & 4 != 0 {
        "ext3"
    } else {
        "ext2"
    };
    let mounted = header.text(136, 64);
    let detail = if mounted.is_empty() {
        named(&header.text(120, 16))
    } else {
        format!("last mounted on `{mounted}`")
    };
    push(found, what, KIB + 56, detail);
    Ok(())
}

/// xfs: `XFSB` at 0, the label at 108.
fn xfs(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    if reader.matches(0, b"XFSB")? {
        let bytes = reader.at(0, 512)?.unwrap_or_default();
        push(found, "xfs", 0, named(&Header(&bytes).text(108, 12)));
    }
    Ok(())
}

/// btrfs: superblock at 64 KiB, copies at 64 MiB and 256 GiB, magic at 64, number of devices at 136, label
/// at 299.
fn btrfs(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    for (what, start) in [
        ("btrfs", 64 * KIB),
        ("btrfs copy", 64 << 20),
        ("btrfs copy", 256 << 30),
    ] {
        if !reader.matches(start + 64, b"_BHRfS_M")? {
            continue;
        }
        let bytes = reader.at(start, 1024)?.unwrap_or_default();
        let header = Header(&bytes);
        let label = named(&header.text(299, 256));
        let detail = match header.u64(136) {
            0 | 1 => label,
            devices if label.is_empty() => format!("one of {devices} devices"),
            devices => format!("{label}, one of {devices} devices"),
        };
        push(found, what, start + 64, detail);
    }
    Ok(())
}

const ZFS_LABEL: u64 = 256 * KIB;
/// Within a label.
const ZFS_CONFIG: u64 = 16 * KIB;
const ZFS_RING: u64 = 128 * KIB;

/// ZFS: labels of 256 KiB, two at the start and two at the end (of the length rounded down to whole
/// labels). Each has the configuration as an nvlist at 16 KiB, and the ring of uberblocks at 128 KiB.
fn zfs(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    let end = reader.length / ZFS_LABEL * ZFS_LABEL;
    let mut starts = vec![0, ZFS_LABEL];
    starts.extend(
        [end.checked_sub(2 * ZFS_LABEL), end.checked_sub(ZFS_LABEL)]
            .iter()
            .flatten(),
    );
    starts.sort_unstable();
    starts.dedup();
    for start in starts {
        let Some(config) = reader.at(start + ZFS_CONFIG, 64)? else {
            continue;
        };
        // XDR or native encoding in either byte order; the first name is always `version`.
        let configured =
            config[0] <= 1 && config[1] <= 1 && config.windows(7).any(|bytes| bytes == b"version");
        if configured || (reader.device && has_uberblock(reader, start)?) {
            let length = (ZFS_RING - ZFS_CONFIG) as usize;
            let config = reader.at(start + ZFS_CONFIG, length)?.unwrap_or_default();
            let detail = pool_name(&config).map_or(String::new(), |name| format!("pool `{name}`"));
            push(found, "ZFS pool member", start, detail);
        }
    }
    Ok(())
}

/// Whether the ring of the label at `start` has an uberblock.
fn has_uberblock(reader: &Reader<'_>, start: u64) -> io::Result<bool> {
    let ring = reader.at(start + ZFS_RING, (ZFS_LABEL - ZFS_RING) as usize)?;
    Ok(ring.unwrap_or_default().chunks_exact(1024).any(|slot| {
        let magic = &slot[..8];
        magic == 0x00ba_b10c_u64.to_le_bytes() || magic == 0x00ba_b10c_u64.to_be_bytes()
    }))
}

/// The value of the string `name` in an XDR nvlist.
fn pool_name(config: &[u8]) -> Option<String> {
    // Length and text of the name, then the type (9, string) and the number of elements.
    let key = b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01";
    let at = config.windows(key.len()).position(|bytes| bytes == key)? + key.len();
    let length = Header(config.get(at..)?).u32_be(0) as usize;
    (length <= 256).then(|| Header(config).text(at + 4, length))
}

/// LVM2: label in any of the first four sectors, type at 24.
fn lvm2(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    for sector in 0..4 {
        let start = sector * 512;
        if reader.matches(start, b"LABELONE")? && reader.matches(start + 24, b"LVM2 001")? {
            push(found, "LVM2 physical volume", start, String::new());
        }
    }
    Ok(())
}

/// Linux software RAID: version 0.90 in the last but one aligned 64 KiB, 1.0 near the end, 1.1 at the
/// start, 1.2 at 4 KiB.
fn md(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    let sectors = reader.length / 512;
    let places = [
        Some(0),
        Some(4 * KIB),
        sectors.checked_sub(16).map(|sector| (sector & !7) * 512),
    ];
    for start in places.into_iter().flatten() {
        let Some(bytes) = reader.at(start, 256)? else {
            continue;
        };
        let header = Header(&bytes);
        if header.u32(0) == 0xa92b_4efc && header.u32(4) == 1 {
            let name = header.text(32, 32);
            let detail = if name.is_empty() {
                String::new()
            } else {
                format!("array `{name}`")
            };
            push(found, "md RAID member", start, detail);
        }
    }
    let old = (reader.length & !0xffff).checked_sub(0x1_0000);
    if let Some(start) = old
        && let Some(bytes) = reader.at(start, 8)?
    {
        let header = Header(&bytes);
        // In the byte order of the host that created it.
        if [header.u32(0), header.u32_be(0)].contains(&0xa92b_4efc) {
            push(found, "md RAID member", start, "version 0.90".to_owned());
        }
    }
    Ok(())
}

/// DRBD with internal metadata: its block is the last 4 KiB, magic at 60.
fn drbd(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    let Some(start) = (reader.length & !4095).checked_sub(4096) else {
        return Ok(());
    };
    for magic in [0x8374_026b_u32, 0x8374_026c, 0x8374_026d] {
        if reader.matches(start + 60, &magic.to_be_bytes())? {
            push(found, "DRBD", start, String::new());
        }
    }
    Ok(())
}

/// Firmware RAID formats that need more than a magic number: Promise at one of many places; VIA and JMicron
/// with checksums in the last sector; Intel and DDF on disks with 4 KiB sectors.
fn firmware_raid(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    // Sectors before the end.
    const PROMISE: [u64; 13] = [
        63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087,
    ];
    let end = reader.length / 512 * 512;
    let promise = PROMISE
        .iter()
        .filter_map(|back| end.checked_sub(back * 512));
    for start in promise.filter(|_| reader.device) {
        if reader.matches(start, b"Promise Technology, Inc.")? {
            push(found, "Promise RAID member", start, String::new());
        }
    }
    if let Some(start) = end.checked_sub(512)
        && let Some(sector) = reader.at(start, 512)?
    {
        let header = Header(&sector);
        let sum = sector[..50]
            .iter()
            .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        if header.u16(0) == 0xaa55 && sector[2] <= 1 && sector[50] == sum {
            push(found, "VIA RAID member", start, String::new());
        }
        let sum = (0..64).fold(0u16, |sum, word| sum.wrapping_add(header.u16(2 * word)));
        if sector.starts_with(b"JM") && sum <= 1 {
            push(found, "JMicron RAID member", start, String::new());
        }
    }
    let last = (reader.length / 4096 * 4096).checked_sub(4096);
    if let Some(start) = last.and_then(|last| last.checked_sub(4096))
        && reader.matches(start, b"Intel Raid ISM Cfg Sig. ")?
    {
        push(found, "Intel RAID member", start, String::new());
    }
    if let Some(start) = last
        && (reader.matches(start, b"\xde\x11\xde\x11")?
            || reader.matches(start, b"\x11\xde\x11\xde")?)
    {
        push(found, "DDF RAID member", start, String::new());
    }
    Ok(())
}

/// UFS: superblock at one of four places, magic at 1372, in either byte order.
fn ufs(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    for start in [0, 8, 64, 256].map(|kib| kib * KIB) {
        let Some(bytes) = reader.at(start + 1372, 4)? else {
            continue;
        };
        let header = Header(&bytes);
        for magic in [header.u32(0), header.u32_be(0)] {
            let what = match magic {
                0x0001_1954 => "ufs1",
                0x1954_0119 => "ufs2",
                // fea, lfn, sec and 4gb: variants of System V and HP.
                0x0019_5612 | 0x0009_5014 | 0x0061_2195 | 0x0523_1994 => "ufs",
                _ => continue,
            };
            push(found, what, start + 1372, String::new());
        }
    }
    Ok(())
}

/// System V: superblock of 512 bytes in the second half of one of four blocks, magic at 504.
fn sysv(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    for block in [0, 9, 15, 18] {
        let start = block * KIB + 512 + 504;
        let Some(bytes) = reader.at(start, 4)? else {
            continue;
        };
        let header = Header(&bytes);
        if [header.u32(0), header.u32_be(0)].contains(&0xfd18_7e20) {
            push(found, "sysv", start, String::new());
        }
    }
    Ok(())
}

/// minix: superblock at 1 KiB; magic at 16 in versions 1 and 2, at 24 in version 3. The inodes and their maps are
/// counted from 1, and the logarithm of the blocks per zone, in the word after the first data zone, is always 0.
fn minix(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    let Some(bytes) = reader.at(KIB, 64)? else {
        return Ok(());
    };
    let native = Header(&bytes);
    let swapped: Vec<u8> = bytes.chunks(2).flat_map(|two| [two[1], two[0]]).collect();
    for header in [native, Header(&swapped)] {
        let old = [0x137f, 0x138f, 0x2468, 0x2478].contains(&header.u16(16));
        let new = header.u16(24) == 0x4d5a;
        let (maps, zone_bits) = if new { ([6, 8], 12) } else { ([4, 6], 10) };
        let counted = header.u16(0) > 0 && maps.iter().all(|map| header.u16(*map) > 0);
        if (old || new) && counted && header.u16(zone_bits) == 0 {
            let place = if new { 24 } else { 16 };
            push(found, "minix", KIB + place, String::new());
        }
    }
    Ok(())
}

/// HFS: `BD` at 1 KiB; the block size, at 20, is a multiple of 512.
fn hfs(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    if let Some(bytes) = reader.at(KIB, 64)?
        && bytes.starts_with(b"BD")
    {
        let block = Header(&bytes).u32_be(20);
        if block > 0 && block.is_multiple_of(512) {
            push(found, "hfs", KIB, String::new());
        }
    }
    Ok(())
}

/// LVM1: `HM` at 0, then its version.
fn lvm1(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    for version in [b"HM\x01\0", b"HM\x02\0"] {
        if reader.matches(0, version)? {
            push(found, "LVM1 physical volume", 0, String::new());
        }
    }
    Ok(())
}

/// Sun disk label: DABE at 508; the XOR of all words of the sector is 0.
fn sun_label(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    if let Some(sector) = reader.at(0, 512)?
        && sector[508..510] == [0xda, 0xbe]
    {
        let header = Header(&sector);
        if (0..256).fold(0, |sum, word| sum ^ header.u16(2 * word)) == 0 {
            push(found, "Sun disk label", 508, String::new());
        }
    }
    Ok(())
}

/// Swap and hibernation images: the magic is at the end of the first page, for any page size.
fn swap(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    for page in [4, 8, 16, 32, 64].map(|kib| kib * KIB) {
        let Some(bytes) = reader.at(page - 10, 10)? else {
            continue;
        };
        let what = match &bytes[..] {
            b"SWAPSPACE2" | b"SWAP-SPACE" => "swap",
            b"S1SUSPEND\0" | b"S2SUSPEND\0" | b"ULSUSPEND\0" | b"LINHIB0001" => "hibernation image",
            _ => continue,
        };
        let header = reader.at(1024, 64)?.unwrap_or_default();
        push(found, what, page - 10, named(&Header(&header).text(28, 16)));
    }
    Ok(())
}

/// LUKS: header at 0; version 2 has a second one at one of nine places.
fn luks(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    if let Some(bytes) = reader.at(0, 64)?
        && bytes.starts_with(b"LUKS\xba\xbe")
    {
        let two = bytes[6..8] == [0, 2];
        let detail = if two {
            named(&Header(&bytes).text(24, 40))
        } else {
            String::new()
        };
        push(found, if two { "LUKS2" } else { "LUKS1" }, 0, detail);
    }
    for place in 0..9 {
        let start = 0x4000 << place;
        if reader.matches(start, b"SKUL\xba\xbe")? {
            push(found, "LUKS2 second header", start, String::new());
        }
    }
    Ok(())
}

/// GPT: in the second sector, the backup in the last.
fn gpt(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    for sector in [512, 4096] {
        if reader.matches(sector, b"EFI PART")? {
            push(found, "GPT", sector, String::new());
        }
        let last = (reader.length / sector * sector).checked_sub(sector);
        if let Some(start) = last.filter(|start| *start > sector)
            && reader.matches(start, b"EFI PART")?
        {
            push(found, "GPT backup", start, String::new());
        }
    }
    Ok(())
}

/// A boot sector ends in 55AA, after up to four partition entries of 16 bytes.
fn mbr(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    let Some(bytes) = reader.at(0, 512)? else {
        return Ok(());
    };
    if bytes[510..] != [0x55, 0xaa] {
        return Ok(());
    }
    let entries: Vec<&[u8]> = bytes[446..510].chunks_exact(16).collect();
    let partitions = entries.iter().filter(|entry| entry[4] != 0).count();
    let flagged = entries.iter().any(|entry| entry[0] & 0x7f != 0);
    let (what, detail) = match partitions {
        // A partition table without entries, or a boot sector of a file system.
        0 if bytes[446..510].iter().all(|byte| *byte == 0) => {
            (BOOT_SECTOR, "no partitions".to_owned())
        }
        // Boot code of a file system.
        _ if flagged => (BOOT_SECTOR, String::new()),
        0 => (BOOT_SECTOR, String::new()),
        1 if entries[0][4] == 0xee => ("protective MBR", String::new()),
        1 => ("MBR", "1 partition".to_owned()),
        more => ("MBR", format!("{more} partitions")),
    };
    push(found, what, 510, detail);
    Ok(())
}

/// nilfs2: superblock at 1 KiB with revision 2, magic 3434 at 6, its own length at 8; a copy in the last
/// aligned 4 KiB.
fn nilfs2(reader: &Reader<'_>, found: &mut Vec<Signature>) -> io::Result<()> {
    let copy = (reader.length / 4096 * 4096).checked_sub(4096);
    for (what, start) in [("nilfs2", Some(KIB)), ("nilfs2 copy", copy)] {
        if let Some(start) = start
            && let Some(bytes) = reader.at(start, 64)?
        {
            let header = Header(&bytes);
            if header.u32(0) == 2 && header.u16(6) == 0x3434 && header.u16(8) <= 1024 {
                push(found, what, start + 6, String::new());
            }
        }
    }
    Ok(())
}
