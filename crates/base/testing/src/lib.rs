//! Helpers for tests that need a real kernel: loop devices, mounts, and messages about skipped tests.
//!
//! Only tests and benchmarks depend on this crate. It depends on nothing, so that it does not delay their build.
#![allow(
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "tests print why they are skipped, and panic"
)]

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Prints why a test is skipped.
pub fn skip(why: impl std::fmt::Display) {
    eprintln!("SKIPPED: {why}");
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether FUSE file systems can be mounted. Otherwise prints that the test is skipped.
pub fn can_mount_fuse() -> bool {
    let can = is_root() && Path::new("/dev/fuse").exists();
    if !can {
        skip("mounting by FUSE needs root and /dev/fuse");
    }
    can
}

/// Runs a command, also from the folders of root's programs. Returns its output without surrounding white space.
///
/// # Errors
/// The command with its error output, or the reason why it cannot be started.
pub fn run<S: AsRef<OsStr> + std::fmt::Debug>(command: &[S]) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new(&command[0])
        .args(&command[1..])
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{:?}: {error}", command[0]))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{command:?}: {}", text(&output.stderr))),
    }
}

/// Like [`run`], but repeats the command for at most `limit` while its device or folder is busy: a process that another
/// test starts holds the descriptors of this process until it executes its program.
///
/// # Errors
/// Those of [`run`].
pub fn run_when_free(command: &[&str], limit: Duration) -> Result<String, String> {
    let start = Instant::now();
    loop {
        match run(command) {
            Err(why) if why.contains("busy") && start.elapsed() < limit => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// Waits until a condition holds. Returns false after 5 minutes, which only ends a test that would hang.
pub fn eventually(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() >= Duration::from_secs(300) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A loop device, which is detached on drop.
#[derive(Debug)]
pub struct Loop(String);

impl Loop {
    /// A device on a file. Without the permission or the tool, prints that the test is skipped and returns `None`.
    pub fn on(file: &Path) -> Option<Loop> {
        Loop::with(&[], file)
    }

    /// The same, with more options of losetup(8).
    pub fn with(options: &[&str], file: &Path) -> Option<Loop> {
        if !is_root() {
            skip("loop devices need root");
            return None;
        }
        let file = file.to_str().expect("names of tests are UTF-8");
        let command = [&["losetup", "--find", "--show"], options, &[file]].concat();
        run(&command).map(Loop).map_err(skip).ok()
    }

    /// A device on a new sparse file of this length, bytes.
    pub fn blank(file: &Path, length: u64) -> Option<Loop> {
        let created = std::fs::File::create(file).and_then(|file| file.set_len(length));
        created.expect("a sparse file");
        Loop::on(file)
    }

    /// Its path, such as `/dev/loop0`.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl AsRef<Path> for Loop {
    fn as_ref(&self) -> &Path {
        self.0.as_ref()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Err(why) = run(&["losetup", "--detach", &self.0]) {
            eprintln!("{why}");
        }
    }
}

/// A mounted file system, which is unmounted on drop.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Mounted {
    /// Runs mount(8) with these arguments and the mount point. If that fails, prints that the test is skipped and
    /// returns `None`.
    pub fn on(point: &Path, arguments: &[&str]) -> Option<Mounted> {
        let shown = point.to_str().expect("names of tests are UTF-8");
        let command = [&["mount"], arguments, &[shown]].concat();
        match run(&command) {
            Ok(_) => Some(Mounted(point.to_owned())),
            Err(why) => {
                skip(why);
                None
            }
        }
    }

    /// A file system in memory with these options of mount(8).
    pub fn tmpfs(point: &Path, options: &str) -> Option<Mounted> {
        Mounted::on(point, &["-t", "tmpfs", "-o", options, "tmpfs"])
    }

    /// Unmounts it although files may be open.
    pub fn detach(self) {
        let _ = run(&["umount", "--lazy", self.point()]);
        std::mem::forget(self);
    }

    fn point(&self) -> &str {
        self.0.to_str().expect("checked when it was mounted")
    }

    /// Its mount point.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    /// The kernel may close the files of an ended process a moment later. After that, a lazy unmount is enough.
    fn drop(&mut self) {
        if run_when_free(&["umount", self.point()], Duration::from_secs(5)).is_err() {
            let _ = run(&["umount", "--lazy", self.point()]);
        }
    }
}
