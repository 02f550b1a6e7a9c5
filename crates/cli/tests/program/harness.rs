//! Runs the program as its users do: its own folder, home and store, a clean environment.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// No command of a test takes longer; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A scratch home with a working folder, removed at the end.
pub(crate) struct Home {
    root: TempDir,
}

impl Home {
    /// On the disk that holds the build, so that O_DIRECT works.
    pub(crate) fn new() -> Home {
        let root = tempfile::Builder::new()
            .prefix("home-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        Home { root }
    }

    /// The folder that commands run in.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The store that commands use unless they name another one.
    pub(crate) fn store(&self) -> PathBuf {
        self.root.path().join("data/iodyno/iodyno.db")
    }

    /// Lets other users in.
    pub(crate) fn open_to_all(&self) {
        use std::os::unix::fs::PermissionsExt;
        for folder in [self.root.path(), &self.work()] {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
        }
    }

    /// Writes a file into the working folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program with these arguments, not yet started.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iodyno"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path())
            .env("XDG_DATA_HOME", self.root.path().join("data"))
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn iodyno<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Done {
        finish(self.command(arguments).spawn().unwrap())
    }

    /// Starts the program and leaves it running.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Running {
        Running {
            child: Some(self.command(arguments).spawn().unwrap()),
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    /// The exit code; −N after signal N.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Done {
    /// It must have ended with this code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Done {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// It must have ended with 0.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Done {
        self.exits(0)
    }

    /// Standard error must hold this text.
    #[track_caller]
    pub(crate) fn tells(self, text: &str) -> Done {
        assert!(
            self.stderr.contains(text),
            "`{text}` is not in stderr:\n{}",
            self.stderr
        );
        self
    }

    /// Standard output must hold this text.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Done {
        assert!(
            self.stdout.contains(text),
            "`{text}` is not in stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Standard output must be one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "{error} in stdout:\n{}\nstderr:\n{}",
                self.stdout, self.stderr
            )
        })
    }
}

/// A command under way. Dropped, it is killed.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("still running"))
    }

    /// Its child process that makes the I/O; waits for it.
    pub(crate) fn node(&self) -> Pid {
        wait_for("the node's process", || {
            children(self.pid()).into_iter().next()
        })
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn done(mut self) -> Done {
        finish(self.child.take().expect("still running"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for a child's end and collects what it wrote; kills it when patience ends.
fn finish(mut child: Child) -> Done {
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!(
                    "still running after {PATIENCE:?}; stderr: {}",
                    stderr.join().unwrap()
                );
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let code = status
        .code()
        .unwrap_or_else(|| -status.signal().unwrap_or(0));
    Done {
        code,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

fn drain(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // A terminal's far end gives EIO once nobody writes to it any more.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Tries until there is something, for some seconds.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "waited too long for {what}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// The child processes of a process.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero()))
        .into_iter()
        .flatten();
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The process exists (and is no zombie).
pub(crate) fn alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_ok() && stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// A terminal of this size: what is written to its first half can be read from the second.
pub(crate) fn terminal(columns: u16) -> (File, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options()
        .read(true)
        .write(true)
        .open(Path::new(name.to_str().unwrap()))
        .unwrap();
    let size = rustix::termios::Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&slave, size).unwrap();
    (slave, File::from(master))
}

/// Reads a terminal to its end on a thread of its own.
pub(crate) fn reader(terminal: File) -> thread::JoinHandle<String> {
    drain(Some(terminal))
}

/// Says aloud that a test is skipped.
pub(crate) fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// The tests run as root.
pub(crate) fn root() -> bool {
    rustix::process::geteuid().is_root()
}
