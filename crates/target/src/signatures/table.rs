//! Formats known by bytes at one place.

/// Bytes at a place and what they tell.
pub(super) struct Mark {
    pub(super) what: &'static str,
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

/// All of them. Formats that need more than that are in `formats`.
pub(super) const MARKS: &[Mark] = &[
    // File systems.
    mark("vfat", 54, b"FAT12   "),
    mark("vfat", 54, b"FAT16   "),
    mark("vfat", 82, b"FAT32   "),
    mark("exfat", 3, b"EXFAT   "),
    mark("ntfs", 3, b"NTFS    "),
    mark("refs", 3, b"ReFS\0\0\0\0"),
    mark("f2fs", KIB, b"\x10\x20\xf5\xf2"),
    mark("f2fs backup", 5 * KIB, b"\x10\x20\xf5\xf2"),
    mark("reiserfs", 64 * KIB + 52, b"ReIsErFs"),
    mark("reiserfs", 64 * KIB + 52, b"ReIsEr2Fs"),
    mark("reiserfs", 64 * KIB + 52, b"ReIsEr3Fs"),
    mark("reiserfs", 8 * KIB + 52, b"ReIsErFs"),
    mark("reiser4", 64 * KIB, b"ReIsEr4"),
    mark("jfs", 32 * KIB, b"JFS1"),
    mark("iso9660", 32 * KIB + 1, b"CD001"),
    mark("udf", 32 * KIB + 1, b"BEA01"),
    mark("squashfs", 0, b"hsqs"),
    mark("erofs", KIB, b"\xe2\xe1\xf5\xe0"),
    mark("cramfs", 0, b"\x45\x3d\xcd\x28"),
    mark("romfs", 0, b"-rom1fs-"),
    mark("zonefs", 0, b"SFOZ"),
    mark("gfs2", 64 * KIB, b"\x01\x16\x19\x70"),
    mark("ocfs2", KIB, b"OCFSV2"),
    mark("ocfs2", 2 * KIB, b"OCFSV2"),
    mark("ocfs2", 4 * KIB, b"OCFSV2"),
    mark("ocfs2", 8 * KIB, b"OCFSV2"),
    mark("hfs+", KIB, b"H+\0\x04"),
    mark("hfs+", KIB, b"HX\0\x05"),
    mark("apfs", 32, b"NXSB"),
    mark("ufs1", 8 * KIB + 1372, b"\x54\x19\x01\x00"),
    mark("ufs2", 64 * KIB + 1372, b"\x19\x01\x54\x19"),
    mark("vxfs", KIB, b"\xf5\xfc\x01\xa5"),
    mark("vmfs", 0x20_0000, b"\x5e\xf1\xab\x2f"),
    mark("vmfs volume", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    // Journals and caches of their own.
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
    mark("Oracle ASM disk", 32, b"ORCLDISK"),
    mark("device mapper snapshot", 0, b"SnAp"),
    mark("device mapper integrity", 0, b"integrt\0"),
    mark("device mapper verity", 0, b"verity\0\0"),
    // Encryption.
    mark("BitLocker", 3, b"-FVE-FS-"),
    // Partition tables.
    mark("Apple partition map", 512, b"PM\0\0"),
    mark("BSD disklabel", 512, b"\x57\x45\x56\x82"),
    mark("SGI disk label", 0, b"\x0b\xe5\xa9\x41"),
    mark("Amiga partition table", 0, b"RDSK"),
];
