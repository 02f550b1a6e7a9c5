//! Real file systems and volumes whose beginning was destroyed: without the cells beyond the first ones, and without
//! holes of a file, the places where something usually is show that the device is not blank.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::SeekFrom;

use super::{Medium, Sample};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECTOR: u64 = 512;

/// What is made on the disk.
enum Make {
    /// A program that makes a file system or a volume in a file, at a start in bytes, up to the end of its partition.
    By(&'static [&'static str], u64),
    /// Bytes at offsets; negative: from the end.
    Bytes(&'static [(i64, &'static [u8])]),
}

/// How its beginning is destroyed.
enum Destroy {
    /// A program, with the disk as its last argument.
    By(&'static [&'static str]),
    /// Zeros in the first bytes.
    Head(u64),
    /// Zeros in the first and the last bytes.
    Ends(u64),
}

use Destroy::{Ends, Head};

const ZAP: Destroy = Destroy::By(&["sgdisk", "-Z"]);
const WIPE: Destroy = Destroy::By(&["wipefs", "-a", "-q"]);

const EXT4: &[&str] = &["mkfs.ext4", "-q", "-F"];
const EXT4_1K: &[&str] = &["mkfs.ext4", "-q", "-F", "-b", "1024"];
const EXT4_2K: &[&str] = &["mkfs.ext4", "-q", "-F", "-b", "2048"];
const EXT2: &[&str] = &["mkfs.ext2", "-q", "-F"];
const XFS: &[&str] = &["mkfs.xfs", "-q", "-f"];
const XFS_32: &[&str] = &["mkfs.xfs", "-q", "-f", "-d", "agcount=32"];
const BTRFS: &[&str] = &["mkfs.btrfs", "-q", "-f"];
const VFAT: &[&str] = &["mkfs.vfat", "-F", "32"];
const SWAP: &[&str] = &["mkswap", "-q"];
const BTRFS_SINGLE: &[&str] = &["mkfs.btrfs", "-q", "-f", "-m", "single"];
const BTRFS_MIXED: &[&str] = &["mkfs.btrfs", "-q", "-f", "-M"];
const BFS: &[&str] = &["mkfs.bfs"];
const MINIX: &[&str] = &["mkfs.minix"];
const LUKS: [&[&str]; 2] = [
    &[
        "cryptsetup",
        "luksFormat",
        "-q",
        "--type",
        "luks1",
        "--pbkdf-force-iterations",
        "1000",
        "--key-file",
        "/proc/self/exe",
        "--keyfile-size",
        "64",
    ],
    &[
        "cryptsetup",
        "luksFormat",
        "-q",
        "--type",
        "luks2",
        "--pbkdf",
        "pbkdf2",
        "--pbkdf-force-iterations",
        "1000",
        "--key-file",
        "/proc/self/exe",
        "--keyfile-size",
        "64",
    ],
];

const MD: &[u8] = b"\xfc\x4e\x2b\xa9\x01\0\0\0";
const MD_OLD: &[u8] = b"\xfc\x4e\x2b\xa9\0\0\0\0";
const GPT: &[u8] = b"EFI PART\0\0\x01\0";

/// Where the first partition begins, and the name of the variant follows from the rest.
fn variants() -> Vec<(u64, Make, Destroy)> {
    use Make::{By, Bytes};
    let length = 100 * GIB;
    let mut variants = Vec::new();
    // A GPT and a file system at 1 MiB, and the GPT zapped.
    for make in [EXT4, EXT2, XFS, BTRFS, VFAT, SWAP, LUKS[0], LUKS[1]] {
        variants.push((length, By(make, MIB), ZAP));
    }
    // The whole disk, without partitions.
    for make in [EXT4, EXT2, XFS, BTRFS, VFAT, SWAP, LUKS[0], LUKS[1]] {
        variants.push((length, By(make, 0), WIPE));
        variants.push((length, By(make, MIB), Head(MIB)));
    }
    // The beginning of the file system is gone as well: only its copies and its other parts remain.
    for start in [0, 34 * SECTOR, 63 * SECTOR, MIB] {
        variants.push((length, By(EXT4, start), Ends(100 * MIB)));
        variants.push((10 * GIB, By(EXT4_2K, start), Ends(100 * MIB)));
        variants.push((2 * GIB, By(EXT4_1K, start), Ends(32 * MIB)));
        variants.push((length, By(BTRFS, start), Ends(17 * MIB)));
    }
    for start in [0, MIB, 2 * MIB] {
        for length in [20 * GIB, 100 * GIB + 12_345 * 4096, 6 << 40] {
            variants.push((length, By(XFS, start), Ends(GIB)));
        }
        variants.push((length, By(XFS_32, start), Ends(GIB)));
    }
    // Behind partitions for EFI and booting, which were empty.
    for mib in [2, 33, 101, 129, 257, 513, 601, 1025, 2050, 4097] {
        let make = if mib % 2 == 0 { EXT4 } else { XFS };
        variants.push((length, By(make, mib * MIB), Head(mib * MIB)));
    }
    // The data of volumes and arrays whose metadata was destroyed: LVM, LUKS, ZFS and md with its usual offsets.
    for mib in [1, 2, 3, 5, 8, 9, 16, 17, 33, 65, 128, 129] {
        variants.push((length, By(SWAP, mib * MIB), Head(mib * MIB)));
    }
    for bytes in [
        &[(-64 * 1024i64, MD_OLD)] as &'static [(i64, &'static [u8])],
        &[(-8 * 1024, MD)],
        &[(4096, MD), (-8192, MD)],
        &[(512, GPT), (-512, GPT)],
        // Labels of ZFS at the end of its first partition, before one of 8 MiB.
        &[
            (MIB as i64 + (128 << 10), b"\x0c\xb1\xba"),
            (-(9 << 20) - (128 << 10), b"\x0c\xb1\xba"),
        ],
        &[
            (0, b"bluestore block device"),
            (1 << 30, b"bluestore block device"),
        ],
        // The table of the files of NTFS.
        &[(3 << 30, b"FILE0")],
        &[((3 << 30) + (1 << 20), b"FILE0")],
        // The second metadata area of LVM.
        &[(512, b"LABELONE"), (-(1 << 20), b"\x20LVM2 x[5A%r0N*>")],
    ] {
        variants.push((length, Bytes(bytes), Head(4 * MIB)));
    }
    variants
}

impl Make {
    fn make(&self, disk: &File, length: u64, folder: &Path) -> Result<(), String> {
        let (program, start) = match self {
            Make::By(program, start) => (*program, *start),
            Make::Bytes(marks) => {
                for (at, bytes) in *marks {
                    let at = if *at < 0 {
                        length.wrapping_add_signed(*at)
                    } else {
                        *at as u64
                    };
                    disk.write_all_at(bytes, at).unwrap();
                }
                return Ok(());
            }
        };
        // As partitioning programs choose it: at a multiple of 1 MiB, before the copy of the GPT.
        let end = if start == 0 {
            length
        } else {
            (length - 33 * SECTOR) / MIB * MIB
        };
        make_in(program, disk, start..end, folder)
    }
}

/// Makes a file system or a volume in a range of the disk.
fn make_in(program: &[&str], disk: &File, range: Range<u64>, folder: &Path) -> Result<(), String> {
    let path = folder.join("part.img");
    let part = File::create(&path).unwrap();
    part.set_len(range.end - range.start).unwrap();
    run(program, &path)?;
    copy(&File::open(&path).unwrap(), disk, range.start);
    fs::remove_file(path).unwrap();
    Ok(())
}

/// Copies what a sparse file stores.
fn copy(from: &File, to: &File, start: u64) {
    let mut at = 0;
    let mut buffer = vec![0; MIB as usize];
    while let Ok(data) = rustix::fs::seek(from, SeekFrom::Data(at)) {
        at = rustix::fs::seek(from, SeekFrom::Hole(data)).unwrap();
        for from_byte in (data..at).step_by(buffer.len()) {
            let part = &mut buffer[..(at - from_byte).min(MIB) as usize];
            from.read_exact_at(part, from_byte).unwrap();
            if part.iter().any(|byte| *byte != 0) {
                to.write_all_at(part, start + from_byte).unwrap();
            }
        }
    }
}

fn zero(disk: &File, range: Range<u64>) {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(disk, flags, range.start, range.end - range.start).unwrap();
}

fn run(program: &[&str], file: &Path) -> Result<(), String> {
    let path = format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new(program[0])
        .env("PATH", path)
        .args(&program[1..])
        .arg(file)
        .output()
        .map_err(|error| format!("{}: {error}", program[0]))?;
    // sgdisk fails if there was nothing to destroy.
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    let done = output.status.success() || program[0] == "sgdisk";
    done.then_some(()).ok_or(format!("{program:?}: {why}"))
}

#[test]
fn file_systems_whose_beginning_was_destroyed_are_not_blank() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("disk.img");
    let (mut seen, mut blank) = (0, Vec::new());
    for (length, make, destroy) in variants() {
        let disk = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        disk.set_len(length).unwrap();
        let done = make
            .make(&disk, length, folder.path())
            .and_then(|()| match &destroy {
                Destroy::By(program) => run(program, &path),
                Head(bytes) => {
                    zero(&disk, 0..*bytes);
                    Ok(())
                }
                Ends(bytes) => {
                    zero(&disk, 0..*bytes);
                    zero(&disk, length - bytes..length);
                    Ok(())
                }
            });
        let name = match (&make, &destroy) {
            (Make::By(program, start), Destroy::By(by)) => {
                format!("{program:?} at {start}, {by:?}")
            }
            (Make::By(program, start), Head(bytes)) => {
                format!("{program:?} at {start}, head of {bytes}")
            }
            (Make::By(program, start), Ends(bytes)) => {
                format!("{program:?} at {start} of {length}, ends of {bytes}")
            }
            (Make::Bytes(marks), _) => format!("{marks:?}"),
        };
        if let Err(why) = done {
            iodyno_testing::skip(format_args!("{name}: {why}"));
            continue;
        }
        let disk = Medium::cached(disk);
        let sample = Sample::read_while(&disk, length, None, None, &mut |_| false).unwrap();
        seen += 1;
        if sample.data.is_empty() {
            blank.push(name);
        }
    }
    assert_eq!(blank, Vec::<String>::new(), "of {seen}");
    assert!(seen > 20, "{seen}");
}

/// The remains of a partition whose table was removed.
enum Left<'a> {
    /// What a program made in it.
    Of(&'a [&'a str]),
    /// The same without the signatures that wipefs knows.
    Wiped(&'a [&'a str]),
    /// The same without its first bytes.
    Behind(&'a [&'a str], u64),
    /// A length of some byte, or of noise, at an offset in it.
    Bytes(Option<u8>, u64, u64),
}

impl Left<'_> {
    fn make(&self, disk: &File, range: Range<u64>, folder: &Path) -> Result<(), String> {
        match self {
            Left::Of(program) => make_in(program, disk, range, folder),
            Left::Wiped(program) => {
                let path = folder.join("part.img");
                let part = File::create(&path).unwrap();
                part.set_len(range.end - range.start).unwrap();
                run(program, &path)?;
                run(&["wipefs", "-a", "-q"], &path)?;
                copy(&File::open(&path).unwrap(), disk, range.start);
                Ok(())
            }
            Left::Behind(program, bytes) => {
                make_in(program, disk, range.clone(), folder)?;
                zero(disk, range.start..range.start + bytes);
                Ok(())
            }
            Left::Bytes(byte, at, length) => {
                let noise = (0..*length).map(|i| byte.unwrap_or(((i * 7919) >> 5) as u8 | 1));
                let noise: Vec<u8> = noise.collect();
                disk.write_all_at(&noise, range.start + at).unwrap();
                Ok(())
            }
        }
    }
}

#[test]
fn a_partition_at_any_mib_or_cylinder_is_not_blank_without_its_table() {
    use Left::{Behind, Bytes, Of, Wiped};
    let makers: &[&[&str]] = &[
        EXT4,
        EXT4_1K,
        EXT4_2K,
        EXT2,
        XFS,
        XFS_32,
        BTRFS,
        BTRFS_SINGLE,
        BTRFS_MIXED,
        VFAT,
        SWAP,
        BFS,
        MINIX,
        LUKS[0],
        LUKS[1],
    ];
    let starts = [
        20481, 1101, 17, 139, 3124, 2049, 1555, 11264, 262, 17409, 33, 777, 9729,
    ];
    let mut variants: Vec<(u64, Left)> = Vec::new();
    for (index, maker) in makers.iter().enumerate() {
        for start in [
            starts[index % starts.len()],
            starts[(index + 3) % starts.len()],
        ] {
            variants.push((start, Of(maker)));
        }
        variants.push((starts[(index + 5) % starts.len()], Wiped(maker)));
    }
    for (start, maker) in [
        (20481, EXT4),
        (3124, XFS),
        (9729, BTRFS),
        (1101, LUKS[1]),
        (4999, EXT4_1K),
    ] {
        variants.push((start, Behind(maker, MIB)));
    }
    for (start, maker) in [(777, EXT4), (312, XFS), (1729, BTRFS)] {
        variants.push((start, Behind(maker, 16 * MIB)));
    }
    // Like an encrypted volume that was only written in part, wherever it begins.
    for at in [0, 4096, 12_288, 512 * KIB, 777_216, MIB - 4096] {
        variants.push((1234, Bytes(None, at, MIB + 8 * KIB)));
        variants.push((345, Bytes(Some(0xff), at, MIB + 8 * KIB)));
    }
    // The first block or sector, and the superblocks of md and bcache.
    for (at, length) in [(0, 512), (510, 2), (1024, 64), (4096, 512), (8191, 1)] {
        variants.push((601, Bytes(Some(1), at, length)));
    }
    let variants = variants.into_iter().map(|(mib, left)| (mib * MIB, left));
    let mut variants: Vec<(u64, Left)> = variants.collect();
    // Primary and logical partitions of old DOS tables. The superblock of btrfs, which is younger, is too far behind
    // the start.
    let old = |maker: &&&[&str]| maker[0] != "mkfs.btrfs";
    for (index, maker) in makers.iter().filter(old).enumerate() {
        let cylinder = (191 + 7 * index as u64) * 255 * 63 * SECTOR;
        variants.push((cylinder + index as u64 % 2 * 63 * SECTOR, Of(maker)));
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut seen, mut blank) = (0, Vec::new());
    for (start, left) in &variants {
        let disk = tempfile::tempfile_in(folder.path()).unwrap();
        let length = start + 3 * GIB;
        disk.set_len(length).unwrap();
        let size = match left {
            Of(maker) | Wiped(maker) if [BFS, MINIX].contains(maker) => 60 * MIB,
            _ => 1200 * MIB,
        };
        let name = match left {
            Of(maker) => format!("{maker:?} at {start}"),
            Wiped(maker) => format!("{maker:?} at {start}, wiped"),
            Behind(maker, bytes) => format!("{maker:?} at {start} behind {bytes}"),
            Bytes(byte, at, length) => format!("{byte:?} at {start} + {at}, {length}"),
        };
        if let Err(why) = left.make(&disk, *start..start + size, folder.path()) {
            iodyno_testing::skip(format_args!("{name}: {why}"));
            continue;
        }
        let disk = Medium::cached(disk);
        let sample = Sample::read_while(&disk, length, None, None, &mut |_| true).unwrap();
        seen += 1;
        if sample.data.is_empty() {
            blank.push(name);
        }
    }
    assert_eq!(blank, Vec::<String>::new(), "of {seen}");
    assert!(seen > 20, "{seen}");
}

#[test]
fn a_disk_that_was_only_discarded_is_blank() {
    let file = tempfile::tempfile().unwrap();
    for length in [64 * KIB, 100 * GIB] {
        file.set_len(length).unwrap();
        let device = Medium::cached(file.try_clone().unwrap());
        let sample = Sample::read_while(&device, length, None, None, &mut |_| true).unwrap();
        assert!(sample.data.is_empty() && sample.is_complete());
    }
}
