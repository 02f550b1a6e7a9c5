//! A loss of power at each flush: ext4 on dm-log-writes in a guest, replayed from the log.
//!
//! The log holds the completed writes in the order of the flushes that made them durable, see the kernel's
//! `Documentation/admin-guide/device-mapper/log-writes.rst`. After each flush the disk is what a loss of power would
//! leave at least: the file system on it is whole, and a file that is extended holds no block that was not written.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::harness::{Home, skip};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
/// The log is read when it has this number of entries: the file system was made, and its journal used.
const ENTRIES: u64 = 600;
/// At most this number of flushes are checked, at equal distances.
const CHECKED: usize = 50;
const SIZE: u64 = 64 << 20;
/// The blocks of the file.
const CONTENT: u8 = 0x5a;

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The log of a device, which may still grow.
struct Log {
    file: File,
    entries: u64,
    sector: u64,
}

impl Log {
    fn open(path: &Path) -> Option<Log> {
        let file = File::open(path).ok()?;
        let mut head = [0; 32];
        file.read_exact_at(&mut head, 0).ok()?;
        (number(&head, 0) == MAGIC).then(|| Log {
            file,
            entries: number(&head, 16),
            sector: number(&head, 24) & 0xffff_ffff,
        })
    }

    /// Applies all entries to an image. Calls `each` with the number of the entry after each flush.
    fn replay(&self, image: &File, mut each: impl FnMut(u64)) {
        let mut at = self.sector;
        for entry in 0..self.entries {
            let mut head = [0; 32];
            self.file.read_exact_at(&mut head, at).unwrap();
            let [start, sectors, flags] = [0, 8, 16].map(|place| number(&head, place));
            at += self.sector;
            let mut data = vec![0; (sectors * self.sector) as usize];
            if flags & DISCARD == 0 {
                self.file.read_exact_at(&mut data, at).unwrap();
                at += data.len() as u64;
            }
            image.write_all_at(&data, start * self.sector).unwrap();
            if flags & (FLUSH | FUA) != 0 {
                each(entry);
            }
        }
    }
}

/// Runs a program, and returns its exit status and output.
fn run(program: &str, arguments: &[&str]) -> (i32, String) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.code().unwrap_or(-1), text)
}

/// The image of the second disk, which gets the log.
fn log_in(images: &Path) -> Option<PathBuf> {
    let mut folders = fs::read_dir(images).ok()?.flatten();
    folders.find_map(|folder| {
        let path = folder.path().join("disk1.img");
        path.is_file().then_some(path)
    })
}

#[test]
fn ext4_is_whole_after_a_loss_of_power_at_any_flush() {
    let cache =
        iodyno_storage::guest::cache_folder(geteuid().is_root(), |name| std::env::var_os(name));
    let kernel = cache.unwrap_or_default().join("kernel");
    if !kernel.join("boot").is_dir() {
        return skip("there is no kernel for guests: run `make guest-kernel`");
    }
    for program in ["qemu-system-x86_64", "dmsetup", "e2fsck", "debugfs"] {
        let has = |folder: &&str| Path::new(folder).join(program).is_file();
        if !["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().any(has) {
            return skip(format!("`{program}` is not installed"));
        }
    }
    let home = Home::new();
    let images = home.work().join("images");
    fs::create_dir(&images).unwrap();
    let text = format!(
        "rounds = 1\n[configuration.guest]\ntarget = \"ext4 on dm on vm on file on ./images\"\n\
         dm.target = \"log-writes\"\nfile = {{ size = {SIZE}, allocate = false }}\n\
         vm = {{ memory = \"512MiB\", accel = \"tcg\", kernel = \"{}\" }}\n[workload.w]\n\
         fio = {{ rw = \"write\", bs = \"4k\", size = \"8m\", fallocate = \"none\", fsync = 4, \
         buffer_pattern = \"0x{CONTENT:x}\", time_based = 1, runtime = \"1h\" }}\n",
        kernel.display()
    );
    let file = home.file("log.toml", &text).display().to_string();
    let running = home.start(&["run", &file]);
    let path = running.wait_for("the log of writes", || log_in(&images));
    running.wait_for("entries in the log", || {
        let log = Log::open(&path)?;
        (log.entries >= ENTRIES).then_some(())
    });
    let copy = home.work().join("log.img");
    fs::copy(&path, &copy).unwrap();
    running.signal(Signal::INT);
    running.done();

    let log = Log::open(&copy).unwrap();
    let image = home.work().join("replayed.img");
    let disk = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&image)
        .unwrap();
    disk.set_len(SIZE).unwrap();
    let mut flushes = 0;
    log.replay(&disk, |_| flushes += 1);
    disk.set_len(0).unwrap();
    disk.set_len(SIZE).unwrap();
    let step = (flushes / CHECKED).max(1);
    let (mut flush, mut checked, mut longest) = (0, 0, 0);
    let trial = home.work().join("trial.img");
    let [shown, dumped] = [&trial, &home.work().join("dumped")].map(|it| it.display().to_string());
    log.replay(&disk, |entry| {
        flush += 1;
        let mut magic = [0; 2];
        disk.read_exact_at(&mut magic, 1024 + 0x38).unwrap();
        // Before that, mkfs was at work.
        if magic != [0x53, 0xef] || (flush % step != 0 && flush != flushes) {
            return;
        }
        let (code, said) = run(
            "cp",
            &["--sparse=always", &image.display().to_string(), &shown],
        );
        assert_eq!(code, 0, "{said}");
        // As mounting does: the journal is recovered.
        let (code, said) = run("e2fsck", &["-fp", &shown]);
        assert!(code <= 1, "after entry {entry}: {said}");
        let (code, said) = run("e2fsck", &["-fn", &shown]);
        assert_eq!(code, 0, "after entry {entry}: {said}");
        let (_, names) = run("debugfs", &["-R", "ls -p /", &shown]);
        let mut names = names.split('/').filter(|name| name.starts_with("w."));
        if let Some(name) = names.next() {
            let _ = fs::remove_file(&dumped);
            run(
                "debugfs",
                &["-R", &format!("dump /{name} {dumped}"), &shown],
            );
            let content = fs::read(&dumped).unwrap();
            let foreign = content.iter().position(|byte| *byte != CONTENT);
            assert_eq!(foreign, None, "after entry {entry}");
            assert!(content.len() >= longest, "after entry {entry}");
            longest = content.len();
        }
        checked += 1;
    });
    assert!(
        checked >= 20 && longest > 0,
        "{checked} of {flushes} flushes, {longest} bytes"
    );
}
