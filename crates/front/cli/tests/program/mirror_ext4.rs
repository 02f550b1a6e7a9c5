//! A file system on a mirror of block devices: through a leg that dies, its replacement, and `kill -9` of the server.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use iodyno_testing::{Loop, Mounted, run};
use rustix::process::Signal;

use crate::harness::{Home, Running, root, skip, wait_for};
use crate::nbd::{MIB, leg, mirror, noise, serve, stop};

/// A loop device with direct I/O.
pub(crate) fn attach(file: &Path) -> Option<Loop> {
    Loop::with(&["--direct-io=on"], file)
}

/// A block device of an NBD export: a loop device on a file of nbdfuse.
struct Disk {
    device: Option<Loop>,
    file: PathBuf,
    nbdfuse: Child,
}

impl Disk {
    fn of(home: &Home, socket: &str) -> Disk {
        let file = home.work().join(format!("{socket}.disk"));
        File::create(&file).unwrap();
        let uri = format!("nbd+unix:///?socket={socket}");
        let nbdfuse = Command::new("nbdfuse")
            .arg(&file)
            .arg(uri)
            .current_dir(home.work())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut disk = Disk {
            device: None,
            file,
            nbdfuse,
        };
        wait_for("nbdfuse", || {
            (disk.file.metadata().ok()?.len() > 0).then_some(())
        });
        disk.device = Some(attach(&disk.file).expect("a loop device on nbdfuse"));
        disk
    }

    fn path(&self) -> &str {
        self.device.as_ref().expect("attached").path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.device = None;
        let file = self.file.to_str().unwrap();
        // The device is detached a moment after its last user has gone.
        for _ in 0..100 {
            if run(&["umount", file]).is_ok()
                || self.nbdfuse.try_wait().is_ok_and(|it| it.is_some())
            {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = run(&["umount", "-l", file]);
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
    }
}

/// Files on a mounted file system.
struct Files(Mounted);

impl Files {
    fn at(home: &Home, device: &str) -> Files {
        let point = home.work().join("mounted");
        std::fs::create_dir_all(&point).unwrap();
        Files(Mounted::on(&point, &[device]).unwrap())
    }

    /// Writes files with these numbers durably, until one fails. Returns the number after the last one that was
    /// written.
    fn write(&self, numbers: std::ops::Range<u64>) -> u64 {
        let write = |number: u64| {
            let mut file = File::create(self.0.path().join(number.to_string()))?;
            file.write_all(&content(number))?;
            file.sync_all()?;
            File::open(self.0.path())?.sync_all()
        };
        let end = numbers.end;
        numbers
            .into_iter()
            .find(|number| write(*number).is_err())
            .unwrap_or(end)
    }

    fn check(&self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let found = std::fs::read(self.0.path().join(number.to_string())).unwrap();
            assert!(
                found == content(number),
                "file {number} is not as it was written"
            );
        }
    }
}

/// Content of a file, of a length that depends on its number.
fn content(number: u64) -> Vec<u8> {
    noise(
        number + 1,
        4096 + (number as usize * 7919) % (96 << 10) / 8 * 8,
    )
}

fn serve_at(home: &Home, socket: &str, leg: &str) -> Running {
    let running = home.start(&["serve", "mirror", "--socket", socket, "--leg", leg]);
    running.wait_until_it_tells("serving ");
    running
}

#[test]
fn a_file_system_survives_a_dead_leg_its_replacement_and_a_kill_of_the_server() {
    let home = Home::new();
    let images = ["a", "c", "inner"].map(|name| leg(&home, name, 65));
    let tools = [
        &["nbdfuse", "--version"][..],
        &["mkfs.ext4", "-V"],
        &["e2fsck", "-V"],
    ];
    if !root() || !Path::new("/dev/fuse").exists() || tools.iter().any(|tool| run(tool).is_err()) {
        return skip("a file system on a mirror needs root, nbdfuse and e2fsprogs");
    }
    let (Some(a), Some(c)) = (attach(&images[0]), attach(&images[1])) else {
        return;
    };
    // A leg that can die: a block device on a separate server.
    mirror(&home, &["create", "inner"]).succeeds();
    let inner = serve_at(&home, "i", "inner");
    let b = Disk::of(&home, "i");
    mirror(&home, &["create", a.path(), b.path()]).succeeds();
    let running = serve(&home, &[a.path(), b.path()], &[]);
    let disk = Disk::of(&home, "s");
    run(&["mkfs.ext4", "-q", disk.path()]).unwrap();
    let mounted = Files::at(&home, disk.path());
    assert_eq!(mounted.write(0..20), 20);
    inner.signal(Signal::KILL);
    inner.done();
    assert_eq!(mounted.write(20..40), 40);
    running.wait_until_it_tells(&format!("`{}` failed and is behind", b.path()));
    let replaced = mirror(&home, &["replace", "--leg", a.path(), b.path(), c.path()]);
    replaced
        .succeeds()
        .prints("was added")
        .prints("was removed");
    assert_eq!(mounted.write(40..60), 60);
    running.wait_until_it_tells(&format!("`{}` is in sync", c.path()));
    mirror(&home, &["scrub", a.path()])
        .succeeds()
        .prints("are equal");
    assert_eq!(mounted.write(60..80), 80);
    drop(b);
    // The server is killed while files are written.
    let writer = std::thread::spawn(move || (mounted.write(80..100_000), mounted));
    let seen = home.work().join("mounted/100");
    wait_for("files", || seen.exists().then_some(()));
    running.signal(Signal::KILL);
    running.done();
    let (written, mounted) = writer.join().unwrap();
    assert!((100..100_000).contains(&written), "{written}");
    drop(mounted);
    drop(disk);
    // Only the replacement and the leg that was there from the beginning are needed, and each alone is enough.
    for legs in [&[a.path(), c.path()][..], &[c.path()]] {
        let running = serve(&home, legs, &["--degraded"]);
        let disk = Disk::of(&home, "s");
        let mounted = Files::at(&home, disk.path());
        mounted.check(0..written);
        drop(mounted);
        run(&["e2fsck", "-f", "-n", disk.path()]).unwrap();
        drop(disk);
        stop(running);
        if legs.len() == 2 {
            mirror(&home, &["scrub", a.path(), c.path()]).succeeds();
        }
    }
    assert_eq!(images[0].metadata().unwrap().len(), 65 * MIB);
}
