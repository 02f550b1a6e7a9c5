//! Runs the program as users do: with its own folder, home and store, and a clean environment.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use iodyno_testing::{is_root as root, skip};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Only ends a test that hangs. No test asserts a duration, and on a busy host a command can take minutes.
const PATIENCE: Duration = Duration::from_secs(300);

/// The program under test.
pub(crate) fn iodyno() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| elsewhere("iodyno", env!("CARGO_BIN_EXE_iodyno")))
}

/// A path that was fixed when this was built, or the one of this name in the folder of `.ci/elsewhere`.
fn elsewhere(name: &str, built: &str) -> String {
    match std::env::var("IODYNO_ELSEWHERE") {
        Ok(folder) => format!("{folder}/{name}"),
        Err(_) => built.to_owned(),
    }
}

/// A temporary home with a working folder, removed when dropped.
pub(crate) struct Home {
    root: TempDir,
}

impl Home {
    /// On the disk of the build, so that O_DIRECT works.
    pub(crate) fn new() -> Home {
        let root = tempfile::Builder::new()
            .prefix("home-")
            .tempdir_in(elsewhere("tmp", env!("CARGO_TARGET_TMPDIR")))
            .unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        Home { root }
    }

    /// The current folder of commands.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The default store of commands.
    pub(crate) fn store(&self) -> PathBuf {
        self.root.path().join("data/iodyno/iodyno.db")
    }

    /// Gives other users access.
    pub(crate) fn open_to_all(&self) {
        use std::os::unix::fs::PermissionsExt;
        for folder in [self.root.path(), &self.work()] {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
        }
    }

    /// Writes a file in the working folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A command with these arguments, not yet started.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = self.program(Path::new(iodyno()));
        command.args(arguments);
        command
    }

    /// A program in this home. Programs in `work/bin` override installed ones.
    pub(crate) fn program(&self, program: &Path) -> Command {
        let mut path = self.work().join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", path)
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
        self.start(arguments).done()
    }

    /// Starts the program and leaves it running.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Running {
        Running::of(self.command(arguments))
    }

    /// Number of stored ops of the latest run, if it is in this state.
    pub(crate) fn stored_ops(&self, state: &str) -> Option<u64> {
        let list = self.iodyno(&["list", "--json"]);
        let list: Value = serde_json::from_str(&list.stdout).ok()?;
        let latest = list["runs"].as_array()?.last()?;
        let right = latest["state"] == state;
        right.then(|| latest["totals"][0]["ops"].as_u64())?
    }
}

/// A short name of a file in a folder, because the path of a socket has at most 107 bytes. Child processes can use it
/// too.
pub(crate) fn short(folder: &Path, name: &str) -> PathBuf {
    let folder = std::mem::ManuallyDrop::new(File::open(folder).unwrap());
    let descriptor = folder.as_raw_fd();
    PathBuf::from(format!(
        "/proc/{}/fd/{descriptor}/{name}",
        std::process::id()
    ))
}

/// Connects to a socket, however long its path is.
pub(crate) fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    let folder = File::open(socket.parent().unwrap())?;
    let folder = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    UnixStream::connect(folder.join(socket.file_name().unwrap()))
}

/// A path as part of a URI.
pub(crate) fn in_uri(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_~".contains(&byte);
    let bytes = path.to_str().unwrap().bytes();
    bytes
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

/// The words of a command line, in which single quotes enclose words with blanks.
pub(crate) fn words_of(command: &str) -> Vec<String> {
    let mut quoted = false;
    let split = command.split(|c: char| {
        quoted ^= c == '\'';
        c == ' ' && !quoted
    });
    split.map(|word| word.replace('\'', "")).collect()
}

/// A job of fio that ends only when it is stopped.
pub(crate) const ENDLESS: [&str; 6] = [
    "--name=t",
    "--rw=randread",
    "--ioengine=null",
    "--size=16m",
    "--runtime=1h",
    "--time_based",
];

/// The arguments of `iodyno fio` with these options and this job.
pub(crate) fn fio<'a>(options: &[&'a str], job: &[&'a str]) -> Vec<&'a str> {
    [&["fio"], options, job].concat()
}

/// Whether the output contains this text, ignoring white space: where lines break depends on the lengths of this host's
/// paths.
pub(crate) fn contains(output: &str, text: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    output.contains(text) || words(output).contains(&words(text))
}

/// The result of a command.
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
    /// Asserts that it ended with this code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Done {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Asserts that it ended with 0.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Done {
        self.exits(0)
    }

    /// Asserts that standard error contains this text, see [`contains`].
    #[track_caller]
    pub(crate) fn stderr_has(self, text: &str) -> Done {
        assert!(
            contains(&self.stderr, text),
            "`{text}` is not in stderr:\n{}",
            self.stderr
        );
        self
    }

    /// Asserts that standard output is a sequence of documents of fio in which the number of reads increases; returns
    /// the number of documents.
    #[track_caller]
    pub(crate) fn growing_documents(&self) -> usize {
        let documents: Vec<Value> = serde_json::Deserializer::from_str(&self.stdout)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap();
        let reads: Vec<u64> = documents
            .iter()
            .map(|document| document["jobs"][0]["read"]["total_ios"].as_u64().unwrap())
            .collect();
        let grows = reads.is_sorted() && reads.first() < reads.last();
        assert!(grows, "{reads:?}");
        reads.len()
    }

    /// Asserts that standard output contains this text, see [`contains`].
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Done {
        assert!(
            contains(&self.stdout, text),
            "`{text}` is not in stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Parses standard output as one JSON document.
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

/// A running command. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Stream,
    stderr: Stream,
}

impl Running {
    /// Starts a command.
    pub(crate) fn of(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        Running {
            stdout: Stream::of(child.stdout.take()),
            stderr: Stream::of(child.stderr.take()),
            child,
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The child process that does the I/O; waits until it exists.
    pub(crate) fn node(&self) -> Pid {
        self.child("iodyno")
    }

    /// Its child process that settles the host, or cleans up after a node that died; waits for it.
    pub(crate) fn helper(&self) -> Pid {
        self.child("iodyno-helper")
    }

    fn child(&self, name: &str) -> Pid {
        let begin = format!("{name}\0node\0");
        let is_it = |pid: &Pid| {
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            line.is_ok_and(|line| line.starts_with(begin.as_bytes()))
        };
        self.wait_for(name, || children(self.pid()).into_iter().find(is_it))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Its standard output so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.so_far()
    }

    /// Waits until standard error contains a text.
    #[track_caller]
    pub(crate) fn wait_until_it_tells(&self, text: &str) {
        self.wait_for(text, || self.stderr.so_far().contains(text).then_some(()));
    }

    /// Waits until the store contains ops of its run. Before that is stored, the latest run is an earlier one.
    #[track_caller]
    pub(crate) fn wait_until_it_measures(&self, home: &Home) {
        self.wait_for("ops in the store", || {
            home.stored_ops("running").filter(|ops| *ops > 0)
        });
    }

    /// Waits for a condition while it runs.
    #[track_caller]
    pub(crate) fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        wait_for(what, || {
            let lives = alive(self.pid());
            let found = look();
            assert!(
                found.is_some() || lives,
                "ended before {what}; stdout:\n{}\nstderr:\n{}",
                self.stdout(),
                self.stderr.so_far()
            );
            found
        })
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn done(mut self) -> Done {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "still running after {PATIENCE:?}; stderr: {}",
                self.stderr.so_far()
            );
            thread::sleep(Duration::from_millis(5));
        };
        let code = status
            .code()
            .unwrap_or_else(|| -status.signal().unwrap_or(0));
        Done {
            code,
            stdout: std::mem::take(&mut self.stdout).whole(),
            stderr: std::mem::take(&mut self.stderr).whole(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The content of a stream, read on a separate thread.
#[derive(Default)]
pub(crate) struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Stream {
    /// Reads to the end.
    pub(crate) fn of(stream: Option<impl Read + Send + 'static>) -> Stream {
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let reader = stream.map(|mut stream| {
            let bytes = Arc::clone(&bytes);
            thread::spawn(move || {
                let mut piece = [0; 4096];
                // The other end of a terminal gives EIO when no process has it open for writing.
                while let Ok(length @ 1..) = stream.read(&mut piece) {
                    bytes.lock().unwrap().extend_from_slice(&piece[..length]);
                }
            })
        });
        Stream { bytes, reader }
    }

    /// The content so far.
    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// The complete content, after the end of the stream: all processes have closed it.
    #[track_caller]
    pub(crate) fn whole(mut self) -> String {
        if let Some(reader) = self.reader.take() {
            let begun = Instant::now();
            while !reader.is_finished() {
                assert!(
                    begun.elapsed() < PATIENCE,
                    "a process keeps the stream open; it contains:\n{}\nprocesses:\n{}",
                    self.so_far(),
                    processes()
                );
                thread::sleep(Duration::from_millis(2));
            }
            reader.join().unwrap();
        }
        self.so_far()
    }
}

/// Each process with its parent, its state, the kernel function in which it waits, and its command.
pub(crate) fn processes() -> String {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let text = |path: &Path, file: &str| {
        let bytes = std::fs::read(path.join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    let line = |path: &Path| {
        let command = text(path, "cmdline");
        let state = text(path, "stat").chars().take(60).collect::<String>();
        (!command.is_empty()).then(|| format!("{state} [{}] {command}\n", text(path, "wchan")))
    };
    entries.filter_map(|entry| line(&entry.path())).collect()
}

/// Tries until there is a value.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
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

/// Stops a process with SIGSTOP, and waits until each of its threads has stopped, which takes a moment after the
/// signal is sent.
pub(crate) fn stop(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    wait_for("the threads to stop", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).ok()?;
        let mut stats = tasks
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        stats
            .all(|stat| [") T ", ") Z ", ") X "].iter().any(|it| stat.contains(it)))
            .then_some(())
    });
}

/// Whether the process exists and is not a zombie.
pub(crate) fn alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_ok() && stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// A pseudo-terminal of this size: data written to the first end can be read from the second.
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

/// The results of the completed trials of a run, without values that differ between runs.
pub(crate) fn measured(run: &Value) -> Vec<Value> {
    let mut trials: Vec<Value> = run["trials"].as_array().unwrap().clone();
    trials.retain(|trial| trial["outcome"]["state"] == "completed");
    trials.sort_by_key(|trial| (trial["round"].as_u64(), trial["cell"].as_u64()));
    for trial in &mut trials {
        let trial = trial.as_object_mut().unwrap();
        for name in ["run", "attempt", "started_unix_ms", "nodes"] {
            trial.remove(name);
        }
    }
    trials
}

/// The transports of FUSE that can be used here, by the values of `--fuse-transport`; none if nothing can be mounted.
pub(crate) fn fuse_transports() -> &'static [&'static str] {
    if !root() || !Path::new("/dev/fuse").exists() {
        skip("mounting by FUSE needs root and /dev/fuse");
        return &[];
    }
    match std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring").as_deref() {
        Ok("Y\n") => &["device", "io_uring"],
        _ => {
            skip("FUSE over io_uring needs Y in /sys/module/fuse/parameters/enable_uring");
            &["device"]
        }
    }
}
