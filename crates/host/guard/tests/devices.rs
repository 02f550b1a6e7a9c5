//! The guard on real block devices: loop devices attached by the tests.
#![allow(clippy::print_stderr, reason = "tests print why they were skipped")]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Loop, User, admit, findings, refusal, run, skip, write};
use iodyno_guard::{
    AdmitError, Admitted, Guard, Intent, Kind, OpenFlags, Reason, Request, signatures,
};
use iodyno_host::identity::identify;
use iodyno_host::{Owner, Roots};

const MIB: u64 = 1 << 20;

#[test]
fn a_blank_device_is_admitted_and_claimed() {
    let Some(disk) = Loop::blank(16) else { return };
    let admitted = write(&disk.device, &[]).unwrap();
    assert!(matches!(admitted.kind, Kind::BlockDevice(number) if number.major == 7));
    assert_eq!(admitted.length, 16 * MIB);
    assert_eq!(admitted.logical_block_size, 512);
    assert!(admitted.notes.is_empty());
    #[cfg(target_arch = "x86_64")]
    common::has_the_flags_asked_for(&admitted);
    let file = File::from(admitted.reopen(OpenFlags::default()).unwrap());
    file.write_all_at(b"ours", 4096).unwrap();
    // Nobody else can claim it in the meantime.
    let second = refusal(write(&disk.device, &[]));
    assert!(matches!(second.findings[0], Reason::Claimed { .. }));
    assert!(run(&["mkfs.ext4", "-q", disk.path()]).is_err());
    drop((admitted, file));
    write(&disk.device, std::slice::from_ref(&disk.device)).unwrap();
}

/// Bytes without a known format; the length is a multiple of 8.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = vec![0; length];
    for word in bytes.chunks_exact_mut(8) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        word.copy_from_slice(&(state | 1 << 63).to_be_bytes());
    }
    bytes
}

#[test]
fn a_device_with_data_in_any_sampled_block_is_refused_until_destroy_names_it() {
    for (at, length) in [(0, 8), (MIB - 8, 8), (20 * MIB, MIB), (64 * MIB - 8, 8)] {
        let put = |file: &Path| {
            let file = OpenOptions::new().write(true).open(file).unwrap();
            file.write_all_at(&noise(length as usize), at).unwrap();
        };
        let Some(disk) = Loop::holding(64, put) else {
            return;
        };
        let before = fs::read(&disk.file).unwrap();
        let refused = refusal(write(&disk.device, &[]));
        let words = refused.to_string();
        assert!(
            matches!(refused.findings[..], [Reason::Data { first, blocks, sampled: 16_384, .. }] if first == at / 4096 * 4096 && blocks == length.div_ceil(4096)),
            "{words}"
        );
        for expected in [
            "it is not blank",
            "of 16384 sampled blocks of 4 KiB are not blank, the first at byte",
            "(sampled: all of it)",
            &format!(
                "hint: to overwrite its content, add `--destroy {0}`, or empty it first, with `blkdiscard --zeroout {0}`",
                disk.path()
            ),
        ] {
            assert!(words.contains(expected), "{expected} is not in {words}");
        }
        assert!(fs::read(&disk.file).unwrap() == before, "it was touched");
        let admitted = write(&disk.device, std::slice::from_ref(&disk.device)).unwrap();
        assert!(
            admitted.notes[0].contains("holds data"),
            "{:?}",
            admitted.notes
        );
        drop(admitted);
        // The command in the hint resolves the refusal.
        run(&["blkdiscard", "--zeroout", disk.path()]).unwrap();
        write(&disk.device, &[]).unwrap();
    }
}

#[test]
fn a_file_system_behind_a_destroyed_partition_table_is_refused_and_named() {
    let ext4 = |file: &Path| {
        let path = file.to_str().unwrap();
        run(&[
            "mkfs.ext4",
            "-q",
            "-F",
            "-E",
            "offset=1048576",
            path,
            "104000000K",
        ])
        .unwrap();
        let file = OpenOptions::new().write(true).open(file).unwrap();
        file.write_all_at(b"EFI PART", 512).unwrap();
        file.write_all_at(&[0; 8], 512).unwrap();
    };
    let Some(disk) = Loop::holding(100 << 10, ext4) else {
        return;
    };
    // On a device over the device, nothing is known of the holes of the file.
    let over = run(&["losetup", "--find", "--show", disk.path()]).unwrap();
    for device in [disk.path(), &over] {
        let found = findings(&refusal(write(Path::new(device), &[]))).join("; ");
        let name = device.trim_start_matches("/dev/");
        assert!(
            found.contains(&format!("{name} holds ext4 at byte {}", MIB + 1080)),
            "{found}"
        );
        assert!(
            found.contains("sampled blocks of 4 KiB are not blank"),
            "{found}"
        );
    }
    // Only the copies of the superblock are left.
    for end in [0, 99 << 10] {
        run(&[
            "blkdiscard",
            "--offset",
            &format!("{end}MiB"),
            "--length",
            "100MiB",
            disk.path(),
        ])
        .unwrap();
    }
    run(&[
        "blkdiscard",
        "--zeroout",
        "--offset",
        "0",
        "--length",
        "100MiB",
        &over,
    ])
    .unwrap();
    for device in [disk.path(), &over] {
        let found = findings(&refusal(write(Path::new(device), &[]))).join("; ");
        assert!(found.contains("holds ext4 at byte"), "{found}");
    }
    run(&["losetup", "--detach", &over]).unwrap();
}

#[test]
fn what_is_between_the_samples_is_found_in_a_sparse_file() {
    let state = Remembering::new();
    for at in [7_777_777_777, 55_555_555_555, 99_999_999_999u64] {
        let put = |file: &Path| {
            let file = OpenOptions::new().write(true).open(file).unwrap();
            file.write_all_at(&noise(8192), at).unwrap();
        };
        let Some(disk) = Loop::holding(100 << 10, put) else {
            return;
        };
        refusal(state.admit(&disk, &[]));
        // It is permitted to be overwritten, is not, and is refused again.
        state.write(&disk, std::slice::from_ref(&disk.device), &noise(8192), 0);
        let found = findings(&refusal(state.admit(&disk, &[]))).join("; ");
        assert!(
            found.contains(&format!("the first at byte {}", at / 4096 * 4096)),
            "{found}"
        );
        let destroy = std::slice::from_ref(&disk.device);
        state.write(&disk, destroy, &noise(16 << 10), at / 4096 * 4096);
        drop(state.admit(&disk, &[]).unwrap());
        // What others write after that is found as well.
        let other = at / 2 / 4096 * 4096;
        let file = OpenOptions::new().write(true).open(&disk.file).unwrap();
        file.write_all_at(&noise(8192), other).unwrap();
        let found = findings(&refusal(state.admit(&disk, &[]))).join("; ");
        assert!(
            found.contains(&format!("the first at byte {other} ")),
            "{found}"
        );
    }
}

#[test]
fn a_partition_whose_table_was_destroyed_is_refused_and_named_without_knowledge_of_holes() {
    let (start, length) = (2_049, 2_200);
    let Some(disk) = Loop::blank(length) else {
        return;
    };
    let over = run(&["losetup", "--find", "--show", disk.path()]).unwrap();
    write(Path::new(&over), &[]).unwrap();
    let offset = (start * MIB).to_string();
    let part = run(&[
        "losetup",
        "--find",
        "--show",
        "--offset",
        &offset,
        disk.path(),
    ])
    .unwrap();
    run(&["mkswap", "-q", &part]).unwrap();
    run(&["losetup", "--detach", &part]).unwrap();
    let found = findings(&refusal(write(Path::new(&over), &[]))).join("; ");
    run(&["losetup", "--detach", &over]).unwrap();
    for expected in [
        format!("holds swap at byte {}", start * MIB + 4086),
        "sampled blocks of 4 KiB are not blank".to_owned(),
        "of 2481 multiples of 1 MiB and of cylinders)".to_owned(),
    ] {
        assert!(found.contains(&expected), "{expected} is not in {found}");
    }
}

#[test]
fn a_device_with_sectors_of_4_kib_and_any_data_needs_destroy_and_nothing_else() {
    let Some(disk) = Loop::holding(64, |file| fs::write(file, noise(64 << 20)).unwrap()) else {
        return;
    };
    let attach = [
        "losetup",
        "--find",
        "--show",
        "--sector-size",
        "4096",
        disk.path(),
    ];
    let Ok(over) = run(&attach) else {
        return skip("the kernel has no loop devices with such sectors on another one");
    };
    let results =
        [vec![], vec![PathBuf::from(&over)]].map(|destroy| write(Path::new(&over), &destroy));
    let [plain, destroyed] = results;
    let found = findings(&refusal(plain)).join("; ");
    let admitted = destroyed.map(drop).map_err(|error| error.to_string());
    run(&["losetup", "--detach", &over]).unwrap();
    assert!(
        found.contains("not blank") && !found.contains("read: "),
        "{found}"
    );
    assert_eq!(admitted, Ok(()));
}

#[test]
fn a_device_is_read_past_what_a_process_maps_of_it() {
    let Some(disk) = Loop::blank(16) else { return };
    let does = "f = open(path, 'rb'); m = mmap.mmap(f.fileno(), 16 << 20, prot=mmap.PROT_READ); sum(m[::4096])";
    let Some(user) = User::python(does, &disk.device) else {
        return;
    };
    let file = OpenOptions::new().write(true).open(&disk.file).unwrap();
    file.write_all_at(&noise(4096), 9 * MIB).unwrap();
    let found = findings(&refusal(write(&disk.device, &[]))).join("; ");
    assert!(
        found.contains(&format!("the first at byte {}", 9 * MIB)),
        "{found}"
    );
    drop(user);
}

fn exclusive(name: &str) -> String {
    format!("another user has exclusive access to {name} (open with O_EXCL failed with EBUSY)")
}

/// Mounts that are not listed anywhere.
#[test]
fn a_device_is_refused_while_another_one_on_its_file_is_mounted_and_nothing_shows_where() {
    let Some(disk) = Loop::blank(16) else { return };
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let file = disk.file.to_str().unwrap();
    let twin = run(&["losetup", "--find", "--show", file]).unwrap();
    let (point, namespaces) = (disk.folder().join("mnt"), disk.folder().join("ns"));
    for folder in [&point, &namespaces] {
        fs::create_dir(folder).unwrap();
    }
    let (point, namespaces) = (point.display(), namespaces.display());
    let script = |user: &str| {
        let (begin, end) = match user {
            "file" => (
                format!("mount {twin} {point}; exec 3> {point}/file; umount -l {point}"),
                "exec 3>&-".to_owned(),
            ),
            _ => (
                format!(
                    "mount --bind {namespaces} {namespaces}; mount --make-private {namespaces}; touch {namespaces}/one; \
                     unshare --mount={namespaces}/one mount {twin} {point}"
                ),
                format!("umount {namespaces}/one; umount {namespaces}"),
            ),
        };
        format!("set -e; {begin}; echo mounted; read line; {end}")
    };
    for user in ["file", "namespace"] {
        let child = Mounting::of(&["sh", "-c", &script(user)]);
        let found = findings(&refusal(write(
            &disk.device,
            std::slice::from_ref(&disk.device),
        )));
        drop(child);
        let twin = exclusive(twin.trim_start_matches("/dev/"));
        assert!(found.contains(&twin), "{user}: {found:?}");
    }
    run(&["losetup", "--detach", &twin]).unwrap();
    write(&disk.device, std::slice::from_ref(&disk.device)).unwrap();
}

#[test]
fn a_device_is_refused_while_a_process_uses_what_is_below_it_or_beside_it() {
    let Some(disk) = Loop::blank(16) else { return };
    let attach = |below: &Path| {
        let below = below.to_str().unwrap();
        PathBuf::from(run(&["losetup", "--find", "--show", below]).unwrap())
    };
    let (twin, over) = (attach(&disk.file), attach(&disk.device));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut results = Vec::new();
    for (target, used) in [
        (&disk.device, &disk.file),
        (&over, &disk.file),
        (&disk.device, &twin),
        (&twin, &disk.device),
        (&over, &twin),
        (&over, &disk.device),
    ] {
        for (does, how) in [
            ("f = open(path, 'r+b')", "open for writing in"),
            (
                "f = open(path, 'rb'); fcntl.flock(f, fcntl.LOCK_SH)",
                "locked by",
            ),
            (
                "f = os.open(path, os.O_RDWR); m = mmap.mmap(f, 4096); os.closerange(3, 64)",
                "mapped shared and writable in",
            ),
            ("f = os.open(path, os.O_EXCL)", ""),
        ] {
            // A file has no exclusive users, and the device over this one is a reason of its own.
            if how.is_empty() && (used == &disk.file || target == &twin) {
                continue;
            }
            let Some(user) = User::python(does, used) else {
                break;
            };
            let refused = write(target, std::slice::from_ref(target));
            let process = user.id();
            drop(user);
            let expected = match how {
                "" => exclusive(&name(used)),
                _ => format!("{} is {how} process {process} (python3)", name(used)),
            };
            results.push((refused, expected));
        }
    }
    for device in [&over, &twin] {
        run(&["losetup", "--detach", device.to_str().unwrap()]).unwrap();
    }
    for (refused, expected) in results {
        let found = findings(&refusal(refused));
        assert!(found.contains(&expected), "{expected}: {found:?}");
    }
    write(&disk.device, &[]).unwrap();
}

#[test]
fn a_device_full_of_another_byte_is_not_blank_and_the_blocks_are_counted() {
    let ones = |file: &Path| fs::write(file, vec![0xff; 8 << 20]).unwrap();
    let Some(disk) = Loop::holding(8, ones) else {
        return;
    };
    let found = findings(&refusal(write(&disk.device, &[]))).join("; ");
    assert!(found.contains("2048 of 2048 sampled blocks"), "{found}");
    let bitmap = |file: &Path| {
        let file = OpenOptions::new().write(true).open(file).unwrap();
        file.write_all_at(&[0xff; 230 * 4096], 5 << 20).unwrap();
    };
    let Some(disk) = Loop::holding(64, bitmap) else {
        return;
    };
    let found = findings(&refusal(write(&disk.device, &[]))).join("; ");
    assert!(
        found.contains(
            "230 of 16384 sampled blocks of 4 KiB are not blank, the first at byte 5242880"
        ),
        "{found}"
    );
}

#[test]
fn a_device_that_another_process_maps_without_a_descriptor_is_refused() {
    let Some(disk) = Loop::blank(16) else { return };
    let does = "f = os.open(path, os.O_RDWR); m = mmap.mmap(f, 4096); os.closerange(3, 64)";
    let Some(user) = User::python(does, &disk.device) else {
        return;
    };
    let refused = refusal(write(&disk.device, std::slice::from_ref(&disk.device)));
    let how = format!(
        "{} is mapped shared and writable in process {} (python3)",
        disk.name(),
        user.id()
    );
    assert_eq!(findings(&refused), [how]);
    drop(user);
    write(&disk.device, &[]).unwrap();
}

/// A guard with its own records.
struct Remembering(tempfile::TempDir);

impl Remembering {
    fn new() -> Remembering {
        Remembering(tempfile::tempdir().unwrap())
    }

    fn guard(&self) -> Guard {
        Guard::new(Roots::host()).with_records(Some(self.0.path().join("devices")))
    }

    fn admit(&self, disk: &Loop, destroy: &[PathBuf]) -> Result<Admitted, AdmitError> {
        self.guard().admit(&Request {
            path: &disk.device,
            intent: Intent::WRITE,
            flags: OpenFlags::default(),
            named: true,
            destroy,
        })
    }

    /// Writes as a trial does, from admission to the record of the writes.
    fn write(&self, disk: &Loop, destroy: &[PathBuf], bytes: &[u8], at: u64) {
        self.write_while(disk, destroy, bytes, at, || ());
    }

    /// As [`Self::write`]; `meanwhile` is done before the writes are recorded.
    fn write_while(
        &self,
        disk: &Loop,
        destroy: &[PathBuf],
        bytes: &[u8],
        at: u64,
        meanwhile: impl FnOnce(),
    ) {
        let admitted = self.write_without_record(disk, destroy, bytes, at);
        meanwhile();
        admitted.written_device().unwrap().record().unwrap();
    }

    /// Writes as a trial does that is killed before it records what it wrote.
    fn write_without_record(
        &self,
        disk: &Loop,
        destroy: &[PathBuf],
        bytes: &[u8],
        at: u64,
    ) -> Admitted {
        let admitted = self.admit(disk, destroy).unwrap();
        let device = admitted.written_device().unwrap();
        device
            .may_write(std::slice::from_ref(&(at..at + bytes.len() as u64)))
            .unwrap();
        let file = File::from(admitted.reopen(OpenFlags::default()).unwrap());
        file.write_all_at(bytes, at).unwrap();
        admitted
    }
}

#[test]
fn what_others_write_during_a_run_outside_of_its_regions_is_refused() {
    let Some(disk) = Loop::blank(64) else { return };
    let state = Remembering::new();
    let this = Owner::of(&Roots::host(), std::process::id()).unwrap();
    state.write(&disk, &[], &noise(1 << 20), 0);
    let put = |bytes: &[u8]| {
        let device = File::options().write(true).open(&disk.device).unwrap();
        device.write_all_at(bytes, 40 << 20).unwrap();
        device.sync_all().unwrap();
    };
    for killed in [false, true] {
        let theirs = || put(b"precious");
        match killed {
            false => state.write_while(&disk, &[], &noise(1 << 20), 4 << 20, theirs),
            true => {
                drop(state.write_without_record(&disk, &[], &noise(1 << 20), 4 << 20));
                theirs();
                state.guard().record_after_death(this);
            }
        }
        let refused = refusal(state.admit(&disk, &[])).to_string();
        assert!(refused.contains("holds data: 1 of "), "{refused}");
        assert!(refused.contains("the first at byte 41943040"), "{refused}");
        put(&[0; 4096]);
        drop(state.admit(&disk, &[]).unwrap());
    }
}

#[test]
fn own_content_is_admitted_again_until_others_write() {
    let Some(disk) = Loop::blank(16) else { return };
    let state = Remembering::new();
    state.write(&disk, &[], &noise(2 << 20), 0);
    state.write(&disk, &[], &noise(9 << 20), 7 << 20);
    drop(state.admit(&disk, &[]).unwrap());
    // Without the records, or with records of others, its content is foreign data.
    refusal(write(&disk.device, &[]));
    refusal(Remembering::new().admit(&disk, &[]));
    // A partly discarded device is still recognised.
    run(&["blkdiscard", "--zeroout", "--length", "1MiB", disk.path()]).unwrap();
    drop(state.admit(&disk, &[]).unwrap());
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let found = findings(&refusal(state.admit(&disk, &[]))).join("; ");
    assert!(
        found.contains("holds ext4") && found.contains("holds data"),
        "{found}"
    );
}

#[test]
fn data_that_destroy_permitted_to_overwrite_and_that_remain_are_refused_again() {
    let Some(disk) = Loop::blank(16) else { return };
    let state = Remembering::new();
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let destroy = std::slice::from_ref(&disk.device);
    state.write(&disk, destroy, &noise(1 << 20), 8 << 20);
    let found = findings(&refusal(state.admit(&disk, &[]))).join("; ");
    assert!(found.contains("holds ext4"), "{found}");
    state.write(&disk, destroy, &noise(16 << 20), 0);
    drop(state.admit(&disk, &[]).unwrap());
}

#[test]
fn writes_of_a_killed_process_are_refused_unless_recorded_at_its_death() {
    let Some(disk) = Loop::blank(16) else { return };
    let state = Remembering::new();
    // The state after a kill: admitted, written, not recorded.
    let killed = |bytes: &[u8], at| drop(state.write_without_record(&disk, &[], bytes, at));
    killed(&noise(1 << 20), 0);
    let guard = state.guard();
    let this = Owner::of(&Roots::host(), std::process::id()).unwrap();
    // A process of another container has the same number.
    let another = Owner {
        start: this.start + 1,
        ..this
    };
    guard.record_after_death(another);
    let refused = refusal(state.admit(&disk, &[]));
    assert!(
        refused.to_string().contains("iodyno was killed"),
        "{refused}"
    );
    guard.record_after_death(this);
    killed(&noise(2 << 20), 3 << 20);
    // The device is in use by now: its record stays open.
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let mounted = disk.mount();
    guard.record_after_death(this);
    drop(mounted);
    let found = findings(&refusal(state.admit(&disk, &[]))).join("; ");
    assert!(found.contains("holds ext4"), "{found}");
}

#[test]
fn unwritable_records_are_reported_and_the_device_is_used() {
    let Some(disk) = Loop::blank(16) else { return };
    let state = Remembering::new();
    fs::write(state.0.path().join("devices"), "no folder").unwrap();
    let admitted = state.admit(&disk, &[]).unwrap();
    let note = &admitted.notes[0];
    assert!(note.contains("will need `--destroy`"), "{note}");
    admitted.written_device().unwrap().record().unwrap();
}

#[test]
fn another_file_on_the_same_loop_device_is_not_mistaken_for_the_previous_one() {
    let state = Remembering::new();
    if let Some(disk) = Loop::blank(16) {
        let known = || identify(&disk.device, &Roots::host()).unwrap();
        let again = || {
            run(&["losetup", "--detach", disk.path()]).unwrap();
            run(&["losetup", disk.path(), disk.file.to_str().unwrap()]).unwrap();
        };
        let before = known();
        again();
        assert!(!before.differs_from(&known()));
        // A file of the same name and length, perhaps with the same inode number.
        fs::remove_file(&disk.file).unwrap();
        assert!(!before.differs_from(&known()));
        File::create(&disk.file).unwrap().set_len(16 << 20).unwrap();
        again();
        assert!(before.differs_from(&known()), "{before} {}", known());
    }
    for length in [16, 16, 24] {
        let Some(disk) = Loop::holding(length, |file| {
            let file = OpenOptions::new().write(true).open(file).unwrap();
            file.write_all_at(b"theirs", 4096).unwrap();
        }) else {
            return;
        };
        refusal(state.admit(&disk, &[]));
        state.write(&disk, std::slice::from_ref(&disk.device), &noise(8192), 0);
        drop(state.admit(&disk, &[]).unwrap());
    }
}

#[test]
fn two_jobs_of_one_run_share_a_device() {
    let Some(disk) = Loop::blank(16) else { return };
    let guard = Guard::new(Roots::host());
    let request = Request {
        path: &disk.device,
        intent: Intent::WRITE,
        flags: OpenFlags::default(),
        named: true,
        destroy: &[],
    };
    let first = guard.admit(&request).unwrap();
    let second = guard.admit(&request).unwrap();
    drop(first);
    let device = disk.name().to_owned();
    assert_eq!(
        refusal(write(&disk.device, &[])).findings,
        [Reason::Claimed { device }]
    );
    drop(second);
    write(&disk.device, &[]).unwrap();
}

#[test]
fn direct_io_reaches_an_admitted_device() {
    let Some(disk) = Loop::blank(16) else { return };
    let guard = Guard::new(Roots::host());
    let admitted = guard
        .admit(&Request {
            path: &disk.device,
            intent: Intent::WRITE,
            flags: OpenFlags {
                direct: true,
                ..OpenFlags::default()
            },
            named: true,
            destroy: &[],
        })
        .unwrap();
    let flags = fs::read_to_string(format!(
        "/proc/self/fdinfo/{}",
        std::os::fd::AsRawFd::as_raw_fd(&admitted.descriptor)
    ))
    .unwrap();
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = u32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
    assert_ne!(flags & 0o40000, 0, "O_DIRECT");
    assert_eq!(flags & 0o3, 2, "O_RDWR");
}

#[test]
fn a_formatted_device_is_refused_until_destroy_names_it() {
    let cases: [(u64, &[&str], &str); 5] = [
        (16, &["mkfs.ext4", "-q"], "ext4"),
        (320, &["mkfs.xfs", "-q"], "xfs"),
        (128, &["mkfs.btrfs", "-q"], "btrfs"),
        (16, &["mkswap"], "swap"),
        (16, &["mkfs.vfat"], "vfat"),
    ];
    for (mib, make, what) in cases {
        let Some(disk) = Loop::blank(mib) else { return };
        let command: Vec<&str> = make.iter().copied().chain([disk.path()]).collect();
        if let Err(why) = run(&command) {
            skip(&why);
            continue;
        }
        let before = fs::read(&disk.file).unwrap();
        let refused = refusal(write(&disk.device, &[]));
        assert!(
            refused.findings.iter().any(|reason| matches!(
                reason,
                Reason::Signature { signature, .. } if signature.what == what
            )),
            "{refused}"
        );
        assert!(
            refused
                .hint()
                .contains(&format!("--destroy {}", disk.path()))
        );
        // The name of another device does not permit it; any name of this device does.
        let other = refusal(write(
            &disk.device,
            &[PathBuf::from("/dev/null"), disk.file.clone()],
        ));
        assert_eq!(other.findings, refused.findings);
        assert!(
            fs::read(&disk.file).unwrap() == before,
            "{what} was touched"
        );
        let link = disk.folder().join("by-id");
        symlink(&disk.device, &link).unwrap();
        let admitted = write(&disk.device, &[link]).unwrap();
        assert!(admitted.notes[0].contains(what), "{:?}", admitted.notes);
    }
}

#[test]
fn a_mounted_device_is_refused_even_with_destroy() {
    let Some(disk) = Loop::blank(16) else { return };
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let mounted = disk.mount();
    for intent in [
        Intent::WRITE,
        Intent {
            trim: true,
            ..Intent::READ
        },
    ] {
        let refused = refusal(admit(
            &disk.device,
            intent,
            std::slice::from_ref(&disk.device),
        ));
        let found = findings(&refused);
        let point = mounted.path().display();
        assert_eq!(
            found[0],
            format!("{} is mounted on `{point}` (ext4)", disk.name())
        );
        assert!(found[1].contains("holds ext4"), "{found:?}");
        assert!(refused.hint().contains("`--destroy` does not help"));
    }
    // Reads are admitted, read-only and with a note.
    let read = admit(&disk.device, Intent::READ, &[]).unwrap();
    assert!(read.notes[0].contains("is mounted on"), "{:?}", read.notes);
    let file = File::from(read.descriptor.try_clone().unwrap());
    assert!(file.write_all_at(b"x", 0).is_err());
    drop((file, read, mounted));
    assert!(!refusal(write(&disk.device, &[])).findings.is_empty());
    write(&disk.device, std::slice::from_ref(&disk.device)).unwrap();
}

/// A process that mounts something, prints a line, and undoes it when this is dropped.
struct Mounting(Child);

impl Mounting {
    fn of(command: &[&str]) -> Mounting {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answer = child.stdout.as_mut().unwrap();
        answer.read_exact(&mut [0; 8]).unwrap();
        Mounting(child)
    }
}

impl Drop for Mounting {
    fn drop(&mut self) {
        let ended = self.0.stdin.take().unwrap().write_all(b"\n");
        let ended = ended.and_then(|()| self.0.wait());
        if let Err(why) = ended {
            eprintln!("{why}");
        }
    }
}

#[test]
fn a_device_mounted_only_in_another_namespace_is_refused() {
    let Some(disk) = Loop::blank(16) else { return };
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let (point, other) = (disk.folder().join("there"), disk.folder().join("root"));
    for folder in [&point, &other] {
        fs::create_dir(folder).unwrap();
    }
    let (device, point, other) = (disk.path(), point.display(), other.display());
    let mount = format!("mount {device} {point} && echo mounted && read line");
    // The first process has another root, and the second one shows the mount.
    let chroot = format!(
        "mount --rbind / {other}; exec 3<&0; ({mount} <&3; kill $$) & exec chroot {other} sleep 600"
    );
    // The first thread of a process shows nothing.
    let thread = format!(
        "import ctypes, sys, threading; libc = ctypes.CDLL(None)\n\
         def own():\n    if libc.unshare(0x20200) or libc.mount(b'', b'/', None, 0x44000, None): return\n    \
         if libc.mount(b'{device}', b'{point}', b'ext4', 0, None) == 0: print('mounted', flush=True); sys.stdin.read()\n\
         own = threading.Thread(target=own); own.start(); own.join()"
    );
    for command in [
        ["unshare", "--mount", "sh", "-c", &mount],
        ["unshare", "--mount", "sh", "-c", &chroot],
        ["env", "--", "python3", "-c", &thread],
    ] {
        let child = Mounting::of(&command);
        let refused = refusal(write(&disk.device, std::slice::from_ref(&disk.device)));
        let found = findings(&refused);
        assert!(
            found[0].contains("in the mount namespace of process"),
            "{command:?}: {found:?}"
        );
        drop(child);
    }
    write(&disk.device, std::slice::from_ref(&disk.device)).unwrap();
}

#[test]
fn active_swap_is_refused_even_with_destroy() {
    let Some(disk) = Loop::blank(16) else { return };
    run(&["mkswap", disk.path()]).unwrap();
    if let Err(why) = run(&["swapon", disk.path()]) {
        return skip(&why);
    }
    let result = write(&disk.device, std::slice::from_ref(&disk.device));
    run(&["swapoff", disk.path()]).unwrap();
    let found = findings(&refusal(result));
    assert_eq!(found[0], format!("{} is swap space in use", disk.name()));
}

/// A GPT with one partition of 8 MiB at 1 MiB, and valid checksums.
fn gpt(file: &Path, mib: u64) {
    let sectors = mib * MIB / 512;
    let mut entries = vec![0u8; 128 * 128];
    entries[..16]
        .copy_from_slice(b"\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4");
    entries[16] = 1;
    entries[32..40].copy_from_slice(&2048u64.to_le_bytes());
    entries[40..48].copy_from_slice(&(2048 + 8 * 2048 - 1u64).to_le_bytes());
    let header = |own: u64, other: u64, table: u64| {
        let mut header = vec![0u8; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[8..16].copy_from_slice(&[0, 0, 1, 0, 92, 0, 0, 0]);
        header[24..32].copy_from_slice(&own.to_le_bytes());
        header[32..40].copy_from_slice(&other.to_le_bytes());
        header[40..48].copy_from_slice(&34u64.to_le_bytes());
        header[48..56].copy_from_slice(&(sectors - 34).to_le_bytes());
        header[56] = 7;
        header[72..80].copy_from_slice(&table.to_le_bytes());
        header[80..88].copy_from_slice(&[128, 0, 0, 0, 128, 0, 0, 0]);
        header[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
        let sum = crc32(&header);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
        header
    };
    let disk = OpenOptions::new().write(true).open(file).unwrap();
    let mut protective = [0u8; 66];
    protective[4] = 0xee;
    protective[8..16].copy_from_slice(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    protective[64..].copy_from_slice(b"\x55\xaa");
    disk.write_all_at(&protective, 446).unwrap();
    disk.write_all_at(&header(1, sectors - 1, 2), 512).unwrap();
    disk.write_all_at(&entries, 1024).unwrap();
    disk.write_all_at(&entries, (sectors - 33) * 512).unwrap();
    disk.write_all_at(&header(sectors - 1, 1, sectors - 33), (sectors - 1) * 512)
        .unwrap();
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(sum & 1))
        })
    })
}

#[test]
fn a_partitioned_disk_is_refused_with_its_contents_and_mounted_partitions() {
    let Some(disk) = Loop::holding(16, |file| gpt(file, 16)) else {
        return;
    };
    let part = PathBuf::from(format!("{}p1", disk.path()));
    // Some kernels do not read partition tables by themselves.
    if !part.exists()
        && let Err(why) = run(&["addpart", disk.path(), "1", "2048", "16384"])
    {
        return skip(&why);
    }
    // A blank partition is admitted, its disk is not.
    write(&part, &[]).unwrap();
    let refused = refusal(write(&disk.device, &[]));
    let found = findings(&refused).join("; ");
    for expected in [
        "protective MBR",
        "holds GPT at",
        "GPT backup",
        "it has a partition",
    ] {
        assert!(found.contains(expected), "{expected} is not in {found}");
    }
    // The content of a partition counts as content of its disk.
    run(&["mkfs.ext4", "-q", part.to_str().unwrap()]).unwrap();
    let name = part.file_name().unwrap().to_str().unwrap();
    let found = findings(&refusal(write(&disk.device, &[]))).join("; ");
    assert!(found.contains(&format!("{name} holds ext4")), "{found}");
    // `--destroy` of the disk does not cover the partition, and vice versa.
    refusal(write(&part, std::slice::from_ref(&disk.device)));
    refusal(write(&disk.device, std::slice::from_ref(&part)));
    drop(write(&part, std::slice::from_ref(&part)).unwrap());

    let point = disk.folder().join("mnt");
    fs::create_dir(&point).unwrap();
    run(&["mount", part.to_str().unwrap(), point.to_str().unwrap()]).unwrap();
    let both = [disk.device.clone(), part.clone()];
    let (of_disk, of_part) = (write(&disk.device, &both), write(&part, &both));
    run(&["umount", point.to_str().unwrap()]).unwrap();
    for refused in [refusal(of_disk), refusal(of_part)] {
        let found = findings(&refused);
        assert!(
            found[0].starts_with(&format!("{name} is mounted on")),
            "{found:?}"
        );
    }
    write(&disk.device, &both).unwrap();
}

#[test]
fn an_unreadable_device_is_refused_even_with_destroy() {
    let Some(disk) = Loop::blank(16) else { return };
    // The end of the file is missing: the loop device returns EIO there.
    let file = OpenOptions::new().write(true).open(&disk.file).unwrap();
    file.set_len(MIB).unwrap();
    let refused = refusal(write(&disk.device, std::slice::from_ref(&disk.device)));
    assert!(
        matches!(&refused.findings[..], [Reason::Unprobed { .. }]),
        "{refused}"
    );
}

#[test]
fn a_device_that_another_process_writes_is_refused() {
    let Some(disk) = Loop::blank(16) else { return };
    let device = OpenOptions::new().write(true).open(&disk.device).unwrap();
    let mut child = Command::new("sleep")
        .arg("600")
        .stdin(device)
        .spawn()
        .unwrap();
    // Wait until the child process executes `sleep`.
    let begun = Instant::now();
    let name = format!("/proc/{}/comm", child.id());
    while fs::read_to_string(&name).unwrap() != "sleep\n" {
        assert!(begun.elapsed().as_secs() < 60, "it does not start");
        sleep(Duration::from_millis(1));
    }
    let refused = write(&disk.device, std::slice::from_ref(&disk.device));
    child.kill().unwrap();
    child.wait().unwrap();
    let found = findings(&refusal(refused));
    let sleeper =
        |words: &String| words.contains("open for writing in process") && words.contains("(sleep)");
    assert!(found.iter().any(sleeper), "{found:?}");
    write(&disk.device, &[]).unwrap();
}

#[test]
fn a_loop_device_whose_file_is_mounted_by_another_is_refused() {
    let Some(disk) = Loop::blank(16) else { return };
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let file = disk.file.to_str().unwrap();
    let twin = PathBuf::from(run(&["losetup", "--find", "--show", file]).unwrap());
    let on_top = run(&["losetup", "--find", "--show", twin.to_str().unwrap()]).unwrap();
    let mounted = disk.mount();
    let of_twin = write(&twin, std::slice::from_ref(&twin));
    let top = PathBuf::from(&on_top);
    let of_top = write(&top, std::slice::from_ref(&top));
    drop(mounted);
    run(&["losetup", "--detach", &on_top]).unwrap();
    run(&["losetup", "--detach", twin.to_str().unwrap()]).unwrap();
    let found = findings(&refusal(of_twin)).join("; ");
    assert!(
        found.contains(&format!("{} is mounted", disk.name())),
        "{found}"
    );
    assert!(found.contains("loop device"), "{found}");
    let found = findings(&refusal(of_top)).join("; ");
    assert!(
        found.contains(&format!("{} is mounted", disk.name())),
        "{found}"
    );
}

#[test]
fn loop_devices_on_both_sides_of_an_overlay_are_on_one_file() {
    if !common::is_root() {
        return skip("only root mounts overlays");
    }
    let _alone = common::alone();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["lower", "upper", "work", "merged", "point"] {
        fs::create_dir(at(name)).unwrap();
    }
    for name in ["lower/low", "upper/up"] {
        let file = File::create(at(name)).unwrap();
        file.set_len(16 * MIB).unwrap();
        run(&["mkfs.ext4", "-q", at(name).to_str().unwrap()]).unwrap();
    }
    let mount =
        "mount -t overlay o -o lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work merged";
    let mount = format!("cd '{}' && {mount}", folder.path().display());
    if let Err(why) = run(&["sh", "-c", &mount]) {
        return skip(&why);
    }
    let mut results = Vec::new();
    for (used, target) in [
        ("merged/up", "upper/up"),
        ("upper/up", "merged/up"),
        ("merged/low", "lower/low"),
    ] {
        let attach = |name: &str, how: &[&str]| {
            let path = at(name);
            let file = [path.to_str().unwrap()];
            run(&[&["losetup", "--find", "--show"], how, &file].concat()).unwrap()
        };
        let (one, other) = (attach(used, &["--read-only"]), attach(target, &[]));
        let point = at("point");
        run(&["mount", "-o", "ro", &one, point.to_str().unwrap()]).unwrap();
        let device = Path::new(&other);
        let result = write(device, &[device.to_owned()]).map(drop);
        run(&["umount", point.to_str().unwrap()]).unwrap();
        let unused = write(device, &[device.to_owned()]).map(drop);
        for device in [&one, &other] {
            run(&["losetup", "--detach", device]).unwrap();
        }
        results.push((result, unused, one));
    }
    run(&["umount", at("merged").to_str().unwrap()]).unwrap();
    for (refused, unused, one) in results {
        let expected = format!(
            "{} is mounted on `{}` (ext4)",
            &one[5..],
            at("point").display()
        );
        let found = findings(&refusal(refused));
        assert!(found.contains(&expected), "{found:?}");
        unused.unwrap();
    }
}

#[test]
fn the_file_of_an_attached_loop_device_is_refused_for_writing_only() {
    let Some(disk) = Loop::blank(16) else { return };
    let refused = refusal(write(&disk.file, &[]));
    assert_eq!(
        findings(&refused),
        [format!("it is the disk of {}, attached", disk.name())]
    );
    assert_eq!(
        admit(&disk.file, Intent::READ, &[]).unwrap().length,
        16 * MIB
    );
}

#[test]
fn an_empty_loop_device_and_a_read_only_one_are_refused() {
    let Some(disk) = Loop::blank(16) else { return };
    let twin = run(&[
        "losetup",
        "--find",
        "--show",
        "--read-only",
        disk.file.to_str().unwrap(),
    ]);
    let twin = PathBuf::from(twin.unwrap());
    let result = write(&twin, &[]);
    run(&["losetup", "--detach", twin.to_str().unwrap()]).unwrap();
    assert_eq!(refusal(result).findings, [Reason::ReadOnlyDevice]);
    // A loop device without a file could be claimed by others in the meantime.
    let Some(empty) = Loop::blank(0) else { return };
    let refused = refusal(write(&empty.device, &[]));
    assert_eq!(refused.findings, [Reason::Empty]);
}

#[test]
fn a_device_is_found_behind_symlinks_and_only_if_it_was_named() {
    let Some(disk) = Loop::blank(16) else { return };
    let link = disk.folder().join("job.0.0");
    symlink(&disk.device, &link).unwrap();
    let second = disk.folder().join("again");
    symlink("job.0.0", &second).unwrap();
    let admitted = write(&second, &[]).unwrap();
    assert_eq!(admitted.path, disk.device);
    drop(admitted);
    let made_up = Guard::new(Roots::host()).admit(&Request {
        path: &link,
        intent: Intent::WRITE,
        flags: OpenFlags::default(),
        named: false,
        destroy: &[],
    });
    let refused = refusal(made_up);
    assert_eq!(refused.findings, [Reason::NotNamed]);
    assert_eq!(refused.resolved, disk.device);
}

#[test]
fn every_device_of_a_mounted_btrfs_mirror_is_refused() {
    let (Some(one), Some(two)) = (Loop::blank(128), Loop::blank(128)) else {
        return;
    };
    let make = [
        "mkfs.btrfs",
        "-q",
        "-d",
        "raid1",
        "-m",
        "raid1",
        one.path(),
        two.path(),
    ];
    if let Err(why) = run(&make) {
        return skip(&why);
    }
    run(&["btrfs", "device", "scan", one.path(), two.path()]).unwrap();
    let mounted = one.mount();
    let results = [&one, &two].map(|disk| write(&disk.device, std::slice::from_ref(&disk.device)));
    drop(mounted);
    for result in results {
        let found = findings(&refusal(result));
        assert!(
            found.iter().any(|words| words.contains("belongs to btrfs")),
            "{found:?}"
        );
    }
    // Otherwise the kernel remembers the second device.
    let _ = run(&["btrfs", "device", "scan", "--forget"]);
    write(&two.device, std::slice::from_ref(&two.device)).unwrap();
}

#[test]
fn the_disk_of_the_root_file_system_is_refused_even_with_destroy() {
    let info = iodyno_host::stack::describe(Path::new("/"), &Roots::host());
    let devices: Vec<PathBuf> = info
        .stack
        .iter()
        .filter_map(|layer| Some(Path::new("/dev").join(&layer.device()?.name)))
        .filter(|device| device.exists())
        .collect();
    if devices.is_empty() {
        return skip("no block device is below / here");
    }
    for device in devices {
        // Checked only, never opened: reading the uses must be sufficient.
        let uses = Guard::new(Roots::host()).uses(&device);
        assert!(
            uses.iter().any(|reason| !reason.gives_way()),
            "{} would be admitted",
            device.display()
        );
        let refused = refusal(write(&device, std::slice::from_ref(&device)));
        assert!(refused.to_string().contains("it is in use"), "{refused}");
    }
}

#[test]
fn a_blank_zram_device_is_admitted() {
    let _alone = common::alone();
    if !common::is_root() {
        return skip("zram needs root");
    }
    let Ok(number) = fs::read_to_string("/sys/class/zram-control/hot_add") else {
        return skip("no zram here");
    };
    let number = number.trim().to_owned();
    fs::write(format!("/sys/block/zram{number}/disksize"), "16M").unwrap();
    let device = PathBuf::from(format!("/dev/zram{number}"));
    let result = write(&device, &[]).map(|admitted| (admitted.length, admitted.logical_block_size));
    fs::write("/sys/class/zram-control/hot_remove", number).unwrap();
    assert_eq!(result.unwrap(), (16 * MIB, 4096));
}

#[test]
fn a_physical_volume_created_by_lvm_is_found() {
    let Some(disk) = Loop::blank(16) else { return };
    let make = ["pvcreate", "--quiet", "--devices", disk.path(), disk.path()];
    if let Err(why) = run(&make) {
        return skip(&why);
    }
    let found = signatures::probe(&File::open(&disk.device).unwrap(), 0, 16 * MIB).unwrap();
    assert_eq!(found[0].what, "LVM2 physical volume");
}

#[test]
fn a_leg_of_a_mirror_is_admitted_with_what_the_mirror_holds_and_with_nothing_else() {
    const LEG: &[u8] = b"iodyno mirror\r\n\x1a";
    let legs = Guard::new(Roots::host()).of_legs(MIB);
    let admit = |path: &Path| {
        legs.admit(&Request {
            path,
            intent: Intent::WRITE,
            flags: OpenFlags::default(),
            named: true,
            destroy: &[],
        })
    };
    let holding = |marks: &[(u64, &[u8])]| {
        Loop::holding(16, |file| {
            let file = OpenOptions::new().write(true).open(file).unwrap();
            for (offset, bytes) in marks {
                file.write_all_at(bytes, *offset).unwrap();
            }
        })
    };
    // A file system of the mirror at the start of its data, and what lies at the leg's end.
    let of_mirror: [(u64, &[u8]); 3] = [
        (0, LEG),
        (15 * MIB, &noise(4096)),
        (16 * MIB - 512, b"EFI PART"),
    ];
    let Some(disk) = holding(&of_mirror) else {
        return;
    };
    assert_eq!(admit(&disk.device).unwrap().notes, Vec::<String>::new());
    assert!(refusal(write(&disk.device, &[])).findings.len() > 1);
    drop(disk);
    // A volume was made over the leg, or it never was one.
    for marks in [
        [(0, LEG), (64 * 1024 + 64, &b"_BHRfS_M"[..])],
        [(MIB, &noise(4096)), (64 * 1024 + 64, b"_BHRfS_M")],
        [(15 * MIB, &noise(4096)), (4096, &noise(4096))],
    ] {
        let Some(disk) = holding(&marks) else { return };
        assert!(
            refusal(admit(&disk.device))
                .findings
                .iter()
                .all(Reason::gives_way)
        );
        if marks[1].1 == b"_BHRfS_M" {
            let detached = disk.file.with_extension("copy");
            fs::copy(&disk.file, &detached).unwrap();
            refusal(admit(&detached));
        }
    }
}
