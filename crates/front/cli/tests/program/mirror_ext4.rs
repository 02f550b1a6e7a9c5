//! A file system on a mirror of block devices: through a leg that dies, its replacement, and `kill -9` of the server.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::harness::{Home, Running, root, skip, wait_for};
use crate::nbd::{MIB, leg, mirror, noise, serve, stop};

/// Runs a command; its output if it succeeds.
fn run(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// A loop device, detached when it is dropped.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn on(file: &Path) -> Option<Loop> {
        Loop::behind(file, 0)
    }

    /// On a file from this byte on.
    pub(crate) fn behind(file: &Path, offset: u64) -> Option<Loop> {
        let (file, offset) = (file.to_str().unwrap(), offset.to_string());
        let words = ["losetup", "--find", "--show", "--direct-io=on", "--offset"];
        run(&[&words[..], &[&offset, file]].concat()).map(Loop)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run(&["losetup", "--detach", &self.0]);
    }
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
        disk.device = Some(Loop::on(&disk.file).expect("a loop device on nbdfuse"));
        disk
    }

    fn path(&self) -> &str {
        &self.device.as_ref().expect("attached").0
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.device = None;
        let file = self.file.to_str().unwrap();
        // The device is detached a moment after its last user has gone.
        for _ in 0..100 {
            if run(&["umount", file]).is_some()
                || self.nbdfuse.try_wait().is_ok_and(|it| it.is_some())
            {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        run(&["umount", "-l", file]);
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
    }
}

/// A mounted file system.
struct Mounted(PathBuf);

impl Mounted {
    fn at(home: &Home, device: &str) -> Mounted {
        let point = home.work().join("mounted");
        std::fs::create_dir_all(&point).unwrap();
        assert!(run(&["mount", device, point.to_str().unwrap()]).is_some());
        Mounted(point)
    }

    /// Writes files with these numbers durably, until one fails. Returns the number after the last one that was
    /// written.
    fn write(&self, numbers: std::ops::Range<u64>) -> u64 {
        let write = |number: u64| {
            let mut file = File::create(self.0.join(number.to_string()))?;
            file.write_all(&content(number))?;
            file.sync_all()?;
            File::open(&self.0)?.sync_all()
        };
        let end = numbers.end;
        numbers
            .into_iter()
            .find(|number| write(*number).is_err())
            .unwrap_or(end)
    }

    fn check(&self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let found = std::fs::read(self.0.join(number.to_string())).unwrap();
            assert!(
                found == content(number),
                "file {number} is not as it was written"
            );
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let point = self.0.to_str().unwrap();
        if run(&["umount", point]).is_none() {
            run(&["umount", "-l", point]);
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
    if !root() || !Path::new("/dev/fuse").exists() || tools.iter().any(|tool| run(tool).is_none()) {
        return skip("a file system on a mirror needs root, nbdfuse and e2fsprogs");
    }
    let (Some(a), Some(c)) = (Loop::on(&images[0]), Loop::on(&images[1])) else {
        return skip("no loop device");
    };
    // A leg that can die: a block device on a separate server.
    mirror(&home, &["create", "inner"]).succeeds();
    let inner = serve_at(&home, "i", "inner");
    let b = Disk::of(&home, "i");
    mirror(&home, &["create", &a.0, b.path()]).succeeds();
    let running = serve(&home, &[&a.0, b.path()], &[]);
    let disk = Disk::of(&home, "s");
    assert!(run(&["mkfs.ext4", "-q", disk.path()]).is_some());
    let mounted = Mounted::at(&home, disk.path());
    assert_eq!(mounted.write(0..20), 20);
    inner.signal(Signal::KILL);
    inner.done();
    assert_eq!(mounted.write(20..40), 40);
    running.wait_until_it_tells(&format!("`{}` failed and is behind", b.path()));
    let replaced = mirror(&home, &["replace", "--leg", &a.0, b.path(), &c.0]);
    replaced
        .succeeds()
        .prints("was added")
        .prints("was removed");
    assert_eq!(mounted.write(40..60), 60);
    running.wait_until_it_tells(&format!("`{}` is in sync", c.0));
    mirror(&home, &["scrub", &a.0])
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
    for legs in [&[a.0.as_str(), &c.0][..], &[c.0.as_str()]] {
        let running = serve(&home, legs, &["--degraded"]);
        let disk = Disk::of(&home, "s");
        let mounted = Mounted::at(&home, disk.path());
        mounted.check(0..written);
        drop(mounted);
        assert!(run(&["e2fsck", "-f", "-n", disk.path()]).is_some());
        drop(disk);
        stop(running);
        if legs.len() == 2 {
            mirror(&home, &["scrub", &a.0, &c.0]).succeeds();
        }
    }
    assert_eq!(images[0].metadata().unwrap().len(), 65 * MIB);
}
