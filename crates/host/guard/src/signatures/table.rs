//! Formats that are recognised by four or more bytes at one place.

/// A magic number with its place and format.
pub(super) struct Mark {
    pub(super) what: &'static str,
    /// Offset from the start; in [`MARKS_FROM_END`] distance from the end, of whole sectors.
    pub(super) offset: u64,
    pub(super) bytes: &'static [u8],
}

const fn mark(what: &'static str, offset: u64, bytes: &'static [u8]) -> Mark {
    Mark {
        what,
        offset,
        bytes,
    }
}

const KIB: u64 = 1 << 10;

/// `iodyno_mirror::superblock::MAGIC`.
const IODYNO_LEG: &[u8] = b"iodyno mirror\r\n\x1a";

/// Magic numbers near the start. Formats that need more checks are in `formats`.
pub(super) const MARKS: &[Mark] = &[
    // File systems.
    mark("vfat", 54, b"FAT12   "),
    mark("vfat", 54, b"FAT16   "),
    mark("vfat", 82, b"FAT32   "),
    mark("vfat backup", 6 * 512 + 82, b"FAT32   "),
    mark("vfat backup", 6 * 4 * KIB + 82, b"FAT32   "),
    mark("exfat", 3, b"EXFAT   "),
    mark("exfat backup", 12 * 512 + 3, b"EXFAT   "),
    mark("ntfs", 3, b"NTFS    "),
    mark("refs", 3, b"ReFS\0"),
    mark("f2fs", KIB, b"\x10\x20\xf5\xf2"),
    mark("f2fs backup", 5 * KIB, b"\x10\x20\xf5\xf2"),
    mark("reiserfs", 64 * KIB + 52, b"ReIsErFs"),
    mark("reiserfs", 64 * KIB + 52, b"ReIsEr2Fs"),
    mark("reiserfs", 64 * KIB + 52, b"ReIsEr3Fs"),
    mark("reiserfs", 8 * KIB + 52, b"ReIsErFs"),
    mark("reiser4", 64 * KIB, b"ReIsEr4"),
    mark("jfs", 32 * KIB, b"JFS1"),
    mark("iso9660", 32 * KIB + 1, b"CD001"),
    mark("iso9660 (High Sierra)", 32 * KIB + 9, b"CDROM"),
    mark("udf", 32 * KIB + 1, b"BEA01"),
    mark("udf", 32 * KIB + 1, b"NSR02"),
    mark("udf", 32 * KIB + 1, b"NSR03"),
    mark("squashfs", 0, b"hsqs"),
    mark("squashfs", 0, b"sqsh"),
    mark("erofs", KIB, b"\xe2\xe1\xf5\xe0"),
    mark("cramfs", 0, b"\x45\x3d\xcd\x28"),
    mark("cramfs", 0, b"\x28\xcd\x3d\x45"),
    mark("romfs", 0, b"-rom1fs-"),
    mark("zonefs", 0, b"SFOZ"),
    mark("gfs or gfs2", 64 * KIB, b"\x01\x16\x19\x70"),
    mark("ocfs", 8, b"OracleCFS"),
    mark("ocfs2", KIB, b"OCFSV2"),
    mark("ocfs2", 2 * KIB, b"OCFSV2"),
    mark("ocfs2", 4 * KIB, b"OCFSV2"),
    mark("ocfs2", 8 * KIB, b"OCFSV2"),
    mark("hfs+", KIB, b"H+\0\x04"),
    mark("hfs+", KIB, b"HX\0\x05"),
    mark("apfs", 32, b"NXSB"),
    mark("vxfs", KIB, b"\xf5\xfc\x01\xa5"),
    mark("vxfs", 8 * KIB, b"\xa5\x01\xfc\xf5"),
    mark("exfs", 0, b"EXFS"),
    mark("hpfs", 8 * KIB, b"\x49\xe8\x95\xf9"),
    mark("bfs", 0, b"\xce\xfa\xad\x1b"),
    mark("befs", 32, b"1SFB"),
    mark("befs", 32, b"BFS1"),
    mark("befs", 544, b"1SFB"),
    mark("befs", 544, b"BFS1"),
    mark("xenix", 2 * KIB, b"\x2b\x55\x44\0"),
    mark("xenix", 2 * KIB, b"\0\x44\x55\x2b"),
    mark("nss", 4 * KIB, b"SPB5"),
    mark("ubifs", 0, b"\x31\x18\x10\x06"),
    mark("vmfs", 0x20_0000, b"\x5e\xf1\xab\x2f"),
    mark("vmfs volume", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    // Separate journals and caches.
    mark("xfs external log", 0, b"\xfe\xed\xba\xbe"),
    mark(
        "bcache",
        4 * KIB + 24,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    mark(
        "bcachefs",
        4 * KIB + 24,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    // Pools, volumes and their members.
    mark("Ceph BlueStore", 0, b"bluestore block device"),
    mark("Stratis pool member", 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    mark("Stratis pool member", 4612, b"!Stra0tis\x86\xff\x02^\x41rh"),
    mark("VDO", 0, b"dmvdo001"),
    mark(super::LEG, 0, IODYNO_LEG),
    mark(super::LEG, 512 * KIB, IODYNO_LEG),
    mark("UBI volume", 0, b"UBI#"),
    mark("mpool device", 0, b"mpoolDev"),
    mark("DRBD Manage control volume", 0, b"$DRBDmgr=q"),
    mark("DRBD Proxy log", 0, b"DRBDdlh*"),
    mark("Highpoint RAID member", 4608 + 32, b"\xf0\x16\x78\x5a"),
    mark("Highpoint RAID member", 4608 + 32, b"\xfd\x16\x78\x5a"),
    mark("hibernation image", 0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
    mark("Oracle ASM disk", 32, b"ORCLDISK"),
    mark("device mapper snapshot", 0, b"SnAp"),
    mark("device mapper integrity", 0, b"integrt\0"),
    mark("device mapper verity", 0, b"verity\0\0"),
    // Encryption.
    mark("BitLocker", 3, b"-FVE-FS-"),
    // Partition tables.
    mark("Apple partition map", 512, b"PM\0\0"),
    mark("BSD disklabel", 512, b"\x57\x45\x56\x82"),
    mark("BSD disklabel", 64, b"\x57\x45\x56\x82"),
    mark("AIX disk label", 0, b"\xc9\xc2\xd4\xc1"),
    mark(
        "Ultrix disk label",
        16 * KIB - 72,
        b"\x57\x29\x03\x00\x01\0\0\0",
    ),
    mark("Windows dynamic disk", 3 * KIB, b"PRIVHEAD"),
    mark("SGI disk label", 0, b"\x0b\xe5\xa9\x41"),
    mark("Amiga partition table", 0, b"RDSK"),
    // Disk images.
    mark("qcow image", 0, b"QFI\xfb"),
    mark("QED image", 0, b"QED\0"),
    mark("VMDK image", 0, b"KDMV"),
    mark("VMDK image", 0, b"COWD"),
    mark("VMDK description", 0, b"# Disk DescriptorFile"),
    mark("VHDX image", 0, b"vhdxfile"),
    mark("VHD image", 0, b"conectix"),
    mark("VDI image", 64, b"\x7f\x10\xda\xbe"),
    mark("Parallels image", 0, b"WithoutFreeSpace"),
    mark("Parallels image", 0, b"WithouFreSpacExt"),
    mark("Bochs image", 0, b"Bochs Virtual HD Image"),
    mark("Windows image", 0, b"MSWIM\0\0\0"),
    mark("EnCase image", 0, b"EVF\x09\x0d\x0a\xff\0"),
    mark("EnCase image", 0, b"EVF2\x0d\x0a\x81\0"),
    mark("Android sparse image", 0, b"\x3a\xff\x26\xed"),
];

/// Magic numbers near the end.
pub(super) const MARKS_FROM_END: &[Mark] = &[
    mark("DDF RAID member", 512, b"\xde\x11\xde\x11"),
    mark("DDF RAID member", 512, b"\x11\xde\x11\xde"),
    mark("DDF RAID member", 257 * 512, b"\xde\x11\xde\x11"),
    mark("DDF RAID member", 257 * 512, b"\x11\xde\x11\xde"),
    mark("Intel RAID member", 1024, b"Intel Raid ISM Cfg Sig. "),
    mark("LSI RAID member", 512, b"$XIDE$"),
    mark("NVIDIA RAID member", 1024, b"NVIDIA"),
    mark("Adaptec RAID member", 512, b"\x37\xfc\x4d\x1e"),
    mark("Silicon Image RAID member", 512 - 0x60, b"\x00\x00\x00\x2f"),
    mark("Highpoint RAID member", 11 * 512, b"\xf3\x16\x78\x5a"),
    mark("Highpoint RAID member", 11 * 512, b"\xfd\x16\x78\x5a"),
    mark("ntfs backup", 512 - 3, b"NTFS    "),
    mark("VHD image", 512, b"conectix"),
    mark("DMG image", 512, b"koly"),
];
