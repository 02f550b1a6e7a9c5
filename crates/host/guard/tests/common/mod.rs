//! Loop devices, mounts and helpers of the tests that need a real kernel.
//!
//! Tests open only devices for writing that they have attached themselves, and detach them again.
#![allow(
    clippy::print_stderr,
    dead_code,
    unreachable_pub,
    reason = "tests print why they were skipped; each test file uses its share of the helpers"
)]

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::{Rc, Weak};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iodyno_guard::{AdmitError, Admitted, Guard, Intent, OpenFlags, Reason, Refusal, Request};
use iodyno_host::Roots;
#[allow(
    unused_imports,
    reason = "each test file uses its share of the helpers"
)]
pub use iodyno_testing::{Mounted, eventually, is_root, run_when_free, skip};

/// Like [`iodyno_testing::run`]. Commands that need a device for themselves are repeated while it is busy.
pub fn run(command: &[&str]) -> Result<String, String> {
    match command[0] {
        "mount" | "umount" | "blkdiscard" => run_when_free(command, Duration::from_secs(60)),
        _ => iodyno_testing::run(command),
    }
}

/// Held by one test at a time; see [`alone`].
pub type Alone = Rc<MutexGuard<'static, ()>>;

/// Waits until no other test of this process uses devices or starts processes. A process that another test starts holds
/// this test's descriptors until it executes its program, and a device that was just closed would be busy. A test may
/// call this more than once.
pub fn alone() -> Alone {
    static ONE_TEST: Mutex<()> = Mutex::new(());
    thread_local! {
        static HELD: RefCell<Weak<MutexGuard<'static, ()>>> = const { RefCell::new(Weak::new()) };
    }
    HELD.with_borrow_mut(|held| {
        held.upgrade().unwrap_or_else(|| {
            let guard = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
            let alone = Rc::new(guard);
            *held = Rc::downgrade(&alone);
            alone
        })
    })
}

/// A loop device on a separate sparse file.
pub struct Loop {
    attached: iodyno_testing::Loop,
    pub device: PathBuf,
    pub file: PathBuf,
    folder: tempfile::TempDir,
    _alone: Alone,
}

impl Loop {
    /// A blank device of `mib` MiB; `None` with a message if that is not possible.
    pub fn blank(mib: u64) -> Option<Loop> {
        Loop::holding(mib, |_| ())
    }

    /// A device whose file is prepared before it is attached.
    pub fn holding(mib: u64, prepare: impl FnOnce(&Path)) -> Option<Loop> {
        let alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        File::create(&file).unwrap().set_len(mib << 20).unwrap();
        prepare(&file);
        let attached = iodyno_testing::Loop::with(&["--partscan"], &file)?;
        Some(Loop {
            device: attached.path().into(),
            attached,
            file,
            folder,
            _alone: alone,
        })
    }

    pub fn path(&self) -> &str {
        self.attached.path()
    }

    pub fn name(&self) -> &str {
        self.device.file_name().unwrap().to_str().unwrap()
    }

    /// A folder that is removed with the device.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Mounts it below its own folder.
    pub fn mount(&self) -> Mounted {
        let point = self.folder().join("mnt");
        std::fs::create_dir_all(&point).unwrap();
        Mounted::on(&point, &[self.path()]).unwrap()
    }
}

/// Another process that uses a file or device until this is dropped.
pub struct User {
    child: Child,
    pub command: &'static str,
    /// The first line that it printed: `ready`, unless the program printed another one.
    pub said: String,
}

impl User {
    /// Runs a Python program on a path; it has `path` and the usual modules, and keeps what it did. `None` with a
    /// message without Python.
    pub fn python(does: &str, path: &Path) -> Option<User> {
        let program = format!(
            "import fcntl, mmap, os, struct, sys\npath = sys.argv[1]\n{does}\nprint('ready', flush=True)\nsys.stdin.read()"
        );
        let child = Command::new("python3")
            .args(["-c", &program])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            skip("no python3 here");
            return None;
        };
        let mut said = String::new();
        let mut output = BufReader::new(child.stdout.as_mut().unwrap());
        output.read_line(&mut said).unwrap();
        assert_ne!(said, "", "it failed: {does}");
        Some(User {
            child,
            command: "python3",
            said,
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(why) = self.child.wait() {
            eprintln!("{why}");
        }
    }
}

/// The variable that names the path for the test `as_a_process_of_this_program`.
pub const NAMED: &str = "IODYNO_TEST_PATH";

/// A shell script whose `"$@"` is a process of this program that works on a path, `$0`: it runs the test
/// `as_a_process_of_this_program`. The words before it start it.
pub fn started(before: &[&str], script: &str, path: &Path) -> Command {
    let mut command = Command::new("env");
    command.args(before).args(["sh", "-c", script]).arg(path);
    command.arg(std::env::current_exe().unwrap());
    command.args(["as_a_process_of_this_program", "--exact", "--nocapture"]);
    command
        .env(NAMED, path)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Asserts that descriptors that a target is opened with have the flags of open(2) that were asked for, as the kernel
/// shows them.
#[track_caller]
pub fn has_the_flags_asked_for(admitted: &Admitted) {
    const DIRECT: u32 = 0o40000;
    const DATA_SYNC: u32 = 0o10000;
    const SYNC: u32 = 0o4_010_000;
    for (direct, sync, dsync, expected) in [
        (false, false, false, 0),
        (false, true, false, SYNC),
        (false, false, true, DATA_SYNC),
        (false, true, true, SYNC),
        (true, true, false, DIRECT | SYNC),
        (true, false, true, DIRECT | DATA_SYNC),
    ] {
        let flags = OpenFlags {
            direct,
            sync,
            dsync,
            create: false,
        };
        let descriptor = admitted.reopen(flags).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&descriptor);
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
        let octal = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let found = u32::from_str_radix(octal.unwrap().trim(), 8).unwrap();
        assert_eq!(found & (DIRECT | SYNC), expected, "{flags:?}: {found:o}");
    }
}

/// Requests a path for writing from a guard of this host.
pub fn write(path: &Path, destroy: &[PathBuf]) -> Result<Admitted, AdmitError> {
    admit(path, Intent::WRITE, destroy)
}

pub fn admit(path: &Path, intent: Intent, destroy: &[PathBuf]) -> Result<Admitted, AdmitError> {
    Guard::new(Roots::host()).admit(&Request {
        path,
        intent,
        flags: OpenFlags::default(),
        named: true,
        destroy,
    })
}

/// The refusal of a path that must be refused.
#[track_caller]
pub fn refusal<T>(result: Result<T, AdmitError>) -> Refusal {
    match result {
        Err(AdmitError::Refused(refusal)) => *refusal,
        Err(other) => panic!("failed instead of refused: {other}"),
        Ok(_) => panic!("admitted"),
    }
}

/// The reasons, as text.
pub fn findings(refusal: &Refusal) -> Vec<String> {
    refusal.findings.iter().map(Reason::to_string).collect()
}
