//! What is needed of a host to make storage on it: commands, processes, and the kernel's files.
//!
//! Invariants: every command ends in a bounded time, together with all processes of its process group, or is reported
//! as blocked. Each process has the step that started it in its environment, so that it can be found after iodyno died.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::guest::cache_folder;
use crate::guest::port::{self, PortError};
use iodyno_host::{Roots, STEP_VARIABLE, marked, on_threads, signal_marked, text};
use iodyno_model::printable::shell_word;
use iodyno_model::{CommandRun, Diagnostic};
use rustix::fs::{MemfdFlags, OFlags};
use rustix::process::{Pid, Signal};

use super::fill::random_data;

/// The most that is kept of a command's output, bytes.
const OUTPUT: u64 = 16 << 10;
/// From SIGTERM to SIGKILL, and from SIGKILL to giving up on a process.
const PATIENCE: Duration = Duration::from_secs(1);
/// The alignment of a buffer for direct I/O, bytes.
const ALIGNMENT: usize = 4096;

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// Additional environment.
    pub(crate) environment: BTreeMap<String, String>,
    /// See [`Host::marked`].
    pub(crate) mark: String,
    /// The longest time it may take.
    pub(crate) limit: Duration,
}

impl Invocation {
    /// The command line, as a shell would accept it.
    pub(crate) fn text(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| shell_word(word)).collect();
        words.join(" ")
    }

    fn command(&self) -> Command {
        let (program, arguments) = match self.words.split_first() {
            Some((program, arguments)) => (program.as_str(), arguments),
            None => ("true", [].as_slice()),
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("PATH", search_path())
            .env("LC_ALL", "C")
            .envs(&self.environment)
            .env(STEP_VARIABLE, &self.mark)
            .stdin(Stdio::null())
            .process_group(0);
        command
    }
}

/// The folders in which programs are looked for: those of administration are not in everyone's `PATH`.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin")
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Its record, with everything that it printed.
    pub(crate) record: CommandRun,
    /// What it printed on standard output, its result: without warnings.
    pub(crate) printed: String,
    /// Why it has no exit status.
    pub(crate) why: Option<String>,
}

/// A host on which storage is made.
pub(crate) trait Host {
    /// Where its state is read.
    fn roots(&self) -> &Roots;

    /// Runs a command to its end. If it takes too long or `stop` returns true, its process group is killed.
    fn run(&self, invocation: &Invocation, stop: &dyn Fn() -> bool) -> Ran;

    /// Starts a command in the background. Its output is written to the file `log`.
    fn start(&self, invocation: &Invocation, log: &Path) -> io::Result<()>;

    /// The running processes with this mark.
    fn marked(&self, mark: &str) -> Vec<u32>;

    /// Kills a process, if it still has this mark.
    fn kill(&self, process: u32, mark: &str, signal: Signal);

    /// Where a program is; `None`: it is not installed.
    fn program(&self, name: &str) -> Option<PathBuf>;

    /// Reads a file of the kernel.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes a file of the kernel.
    fn write(&self, path: &Path, value: &str) -> io::Result<()>;

    /// Makes what was written to a file or folder durable.
    fn sync(&self, file: &File) -> io::Result<()>;

    /// Reads or writes devices at the same time with direct I/O, in ops of this size, bytes, for this time. Returns the
    /// number of ops of each and the time that they took.
    fn measure(
        &self,
        devices: &[PathBuf],
        write: bool,
        size: usize,
        span: Duration,
    ) -> io::Result<Vec<(u64, Duration)>>;

    /// Writes a new file of random data and syncs it. Returns the time that it took.
    fn fill(&self, file: &Path, bytes: u64, stop: &dyn Fn() -> bool) -> io::Result<Duration>;

    /// Drops the page cache and reads a file or device from its beginning for this time, or to its end. Returns the
    /// number of bytes and the time that it took.
    fn read_cold(
        &self,
        file: &Path,
        span: Duration,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<(u64, Duration)>;

    /// Waits.
    fn sleep(&self, span: Duration);

    /// Whether this process has the privileges of root.
    fn is_root(&self) -> bool;

    /// The folder for what is kept between runs; `None`: it is not known where that is.
    fn cache(&self) -> Option<PathBuf>;

    /// Waits until the guest behind this socket answers.
    fn await_guest(
        &self,
        socket: &Path,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), PortError>;
}

/// This host.
#[derive(Debug)]
pub(crate) struct ThisHost {
    roots: Roots,
}

impl ThisHost {
    pub(crate) fn new() -> ThisHost {
        ThisHost {
            roots: Roots::host(),
        }
    }
}

impl Host for ThisHost {
    fn roots(&self) -> &Roots {
        &self.roots
    }

    fn run(&self, invocation: &Invocation, stop: &dyn Fn() -> bool) -> Ran {
        let begun = Instant::now();
        let Ended {
            status,
            printed,
            errors,
            why,
        } = run(invocation, stop).unwrap_or_else(|error| Ended {
            why: Some(format!("cannot be started: {error}")),
            ..Ended::default()
        });
        let both = [printed.as_str(), errors.as_str()];
        let both = both.into_iter().filter(|text| !text.is_empty());
        let output = both.collect::<Vec<_>>().join("\n");
        Ran {
            record: CommandRun {
                command: invocation.text(),
                status,
                output,
                span_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
            },
            printed,
            why,
        }
    }

    fn start(&self, invocation: &Invocation, log: &Path) -> io::Result<()> {
        let log = File::create(log)?;
        let mut command = invocation.command();
        command.stdout(log.try_clone()?).stderr(log);
        command.spawn().map(drop)
    }

    fn marked(&self, mark: &str) -> Vec<u32> {
        marked(&self.roots, &|own| own == mark)
    }

    fn kill(&self, process: u32, mark: &str, signal: Signal) {
        signal_marked(&self.roots, process, &|own| own == mark, signal);
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        let path = search_path();
        let mut folders = path.split(':').filter(|folder| !folder.is_empty());
        folders.find_map(|folder| {
            let file = Path::new(folder).join(name);
            let access = rustix::fs::Access::EXEC_OK;
            let usable = file.is_file() && rustix::fs::access(&file, access).is_ok();
            usable.then_some(file)
        })
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let text = fs::read(path)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        File::options()
            .write(true)
            .open(path)?
            .write_all(value.as_bytes())
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn measure(
        &self,
        devices: &[PathBuf],
        write: bool,
        size: usize,
        span: Duration,
    ) -> io::Result<Vec<(u64, Duration)>> {
        let measured = on_threads(devices, |device| measure(device, write, size, span));
        measured.into_iter().collect()
    }

    fn fill(&self, file: &Path, bytes: u64, stop: &dyn Fn() -> bool) -> io::Result<Duration> {
        let begun = Instant::now();
        random_data(file, bytes, stop)?;
        Ok(begun.elapsed())
    }

    fn read_cold(
        &self,
        file: &Path,
        span: Duration,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<(u64, Duration)> {
        rustix::fs::sync();
        self.write(&self.roots.proc.join("sys/vm/drop_caches"), "3")?;
        let mut file = File::open(file)?;
        let mut buffer = vec![0; 1 << 20];
        let begun = Instant::now();
        let mut bytes = 0;
        while begun.elapsed() < span && !stop() {
            match file.read(&mut buffer)? {
                0 => break,
                length => bytes += length as u64,
            }
        }
        Ok((bytes, begun.elapsed()))
    }

    fn sleep(&self, span: Duration) {
        thread::sleep(span);
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn cache(&self) -> Option<PathBuf> {
        cache_folder(self.is_root(), |name| std::env::var_os(name))
    }

    fn await_guest(
        &self,
        socket: &Path,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), PortError> {
        port::await_guest(socket, limit, stop)
    }
}

/// Reads or writes one device.
fn measure(device: &Path, write: bool, size: usize, span: Duration) -> io::Result<(u64, Duration)> {
    let file = File::options()
        .read(true)
        .write(write)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(device)?;
    let length = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
    let places = (length / size as u64).max(1);
    let mut memory = vec![0; size + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut memory[start..start + size];
    let begun = Instant::now();
    let mut ops = 0;
    while begun.elapsed() < span {
        let at = ops % places * size as u64;
        match write {
            true => file.write_all_at(buffer, at)?,
            false => file.read_exact_at(buffer, at)?,
        }
        ops += 1;
    }
    Ok((ops, begun.elapsed()))
}

/// How a command ended.
#[derive(Default)]
struct Ended {
    status: Option<i32>,
    /// Its standard output.
    printed: String,
    /// Its standard error.
    errors: String,
    /// Why it has no exit status.
    why: Option<String>,
}

fn run(invocation: &Invocation, stop: &dyn Fn() -> bool) -> io::Result<Ended> {
    // Files rather than pipes: a server that the command started may keep them open.
    let file = |name: &str| rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
    let (mut printed, mut errors) = (file("output")?, file("errors")?);
    let mut command = invocation.command();
    command.stdout(printed.try_clone()?);
    command.stderr(errors.try_clone()?);
    let mut child = command.spawn()?;
    let limit = invocation.limit;
    let why = match wait(&mut child, limit, stop)? {
        Some(status) => {
            let why = status
                .signal()
                .map(|signal| format!("was ended by signal {signal}"));
            return Ok(Ended {
                status: status.code(),
                printed: tail(&mut printed)?,
                errors: tail(&mut errors)?,
                why,
            });
        }
        None if stop() => "was stopped".to_owned(),
        None => format!("did not end within {} s", limit.as_secs()),
    };
    let group = Pid::from_child(&child);
    let mut blocked = true;
    for signal in [Signal::TERM, Signal::KILL] {
        let _ = rustix::process::kill_process_group(group, signal);
        if wait(&mut child, PATIENCE, &|| false)?.is_some() {
            // What the command started in its group ends with it.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            blocked = false;
            break;
        }
    }
    let why = match blocked {
        true => format!("{why}, and process {} is blocked in the kernel", child.id()),
        false => why,
    };
    Ok(Ended {
        status: None,
        printed: tail(&mut printed)?,
        errors: tail(&mut errors)?,
        why: Some(why),
    })
}

/// Waits for a child; `None`: it still runs after this time, or `stop` returned true.
fn wait(
    child: &mut Child,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> io::Result<Option<std::process::ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() >= limit || stop() {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn tail(output: &mut File) -> io::Result<String> {
    let length = output.metadata()?.len();
    output.seek(SeekFrom::Start(length.saturating_sub(OUTPUT)))?;
    let mut bytes = Vec::new();
    output.take(OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// The path as text for a command line.
///
/// # Errors
/// It is not valid UTF-8, and commands could not be recorded as they were run.
pub(crate) fn word(path: &Path) -> Result<String, Diagnostic> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let message = format!("the path `{}` is not valid UTF-8", path.display());
        Diagnostic::error(message)
    })
}

/// See [`iodyno_host::this_program`].
pub(super) fn this_program() -> Result<PathBuf, Diagnostic> {
    iodyno_host::this_program().map_err(|error| {
        Diagnostic::error(format!("the path of this program is not known: {error}"))
    })
}

/// The number of the device node that the kernel names so (`loop3`), as `7:3`.
fn device_number(roots: &Roots, name: &str) -> Option<String> {
    text(roots.sys.join("class/block").join(name).join("dev"))
}

/// The number of a device, `7:3`.
///
/// # Errors
/// The kernel does not know it.
pub(crate) fn number_of(host: &dyn Host, device: &Path) -> Result<String, Diagnostic> {
    let name = device.canonicalize().unwrap_or_else(|_| device.to_owned());
    let name = name
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let number = name.and_then(|name| device_number(host.roots(), &name));
    number.ok_or_else(|| {
        Diagnostic::error(format!("the kernel knows no device `{}`", device.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_a_command_lacks_its_warnings() {
        let script = "echo 'does not fit into a sector' >&2; echo /dev/loop7";
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        let invocation = Invocation {
            words: words.to_vec(),
            environment: BTreeMap::new(),
            mark: "test/0".to_owned(),
            limit: Duration::from_secs(600),
        };
        let ran = ThisHost::new().run(&invocation, &|| false);
        assert_eq!(ran.record.status, Some(0), "{ran:?}");
        assert_eq!(ran.printed, "/dev/loop7");
        let both = "/dev/loop7\ndoes not fit into a sector";
        assert_eq!(ran.record.output, both);
    }
}
