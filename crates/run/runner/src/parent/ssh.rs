//! Nodes on other hosts, by the system's `ssh`.
//!
//! One connection is opened for the whole run, and every process of the node uses it (`ControlMaster`). It always ends
//! with this process: its remote command reads a standard input that this process holds open. ssh's own configuration,
//! agent and jump hosts apply. Nothing on the other host listens. Only the program remains there, in the user's cache,
//! if it had to be copied.
//!
//! Invariants: no part of an address becomes an option of ssh, and no text that the other host sends becomes part of a
//! command, except the path of the program, which is checked.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_host::Owner;
use iodyno_model::printable::on_one_line;
use iodyno_model::{Diagnostic, NodeProgram, RunId, SshAddress};
use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};

use crate::parent::helper::{Greeting, greet, greeted};
use crate::parent::process::{Connection, Launcher, NodeProcess};
use crate::parent::session::RunnerError;
use crate::protocol::{self, Hello, PROTOCOL};

/// The program that connects.
const SSH: &str = "ssh";
/// The longest time to connect, s.
const CONNECT_S: u32 = 10;
/// The longest time until a node's process answers, over an open connection.
const HELLO: Duration = Duration::from_secs(20);
/// The name of the process that owns storage.
const KEEPER: &str = "iodyno-keeper";
/// The longest wait for its end.
const KEEPER_ENDS: Duration = Duration::from_secs(2);
/// The longest time for a command that queries or prepares the other host.
const COMMAND: Duration = Duration::from_secs(300);
/// ssh gives up a silent connection after this number of its own messages, one per second. This is longer than a node
/// needs to notice that it is lost, because a message of the node names it.
const ALIVE_COUNT: u64 = crate::node::control::SILENT_INTERVALS + 5;
/// The longest output of a command that is read, bytes.
const MAX_OUTPUT_LEN: u64 = 64 << 10;

/// A host that is reached by ssh.
#[derive(Debug)]
pub struct SshNode {
    connection: Connection,
    master: Master,
    /// The program on the other host.
    remote_program: String,
    /// Further arguments of the node.
    arguments: Vec<String>,
    /// Whether the node runs as root, by `sudo -n`.
    sudo: bool,
    /// The node's description.
    hello: Hello,
    /// The process there that owns storage made for this process, if any.
    keeper: Mutex<Option<(NodeProcess, Owner)>>,
}

impl SshNode {
    /// Connects to a host, and ensures that it has this version of iodyno: an installed one, one copied before, or
    /// `binary`, which is copied to the user's cache. `sudo`: it runs as root there.
    ///
    /// # Errors
    /// Why the connection, this version of the program, or sudo is missing.
    pub fn connect(
        address: &SshAddress,
        sudo: bool,
        binary: Option<&Path>,
        arguments: Vec<String>,
    ) -> Result<SshNode, Diagnostic> {
        let master = Master::open(address)?;
        if let Some(printed) = &master.printed {
            let fault = format!(
                "the login shell of {address} prints `{}` before each command, which would mix with the messages of the node",
                on_one_line(printed)
            );
            return Err(Diagnostic::error(fault).hint(format!(
                "`ssh {address} true` has to print nothing: let the shell's start-up files print only if it is interactive"
            )));
        }
        let mut node = SshNode {
            master,
            connection: Connection {
                to: address.to_string(),
                hello_ns: HELLO.as_nanos() as u64,
                every_ns: Connection::EVERY_NS,
            },
            remote_program: "iodyno".to_owned(),
            arguments,
            sudo,
            hello: Hello::unknown(),
            keeper: Mutex::new(None),
        };
        if sudo {
            // As the node is started: sudo can permit some commands only.
            node.query("sudo -n env true").map_err(|fault| {
                let hint = "`sudo -n env true` has to work there without a password, or leave out `sudo = true`";
                fault.hint(hint)
            })?;
        }
        node.hello = node.find_program(binary)?;
        tracing::info!(
            to = node.connection.to,
            program = node.remote_program,
            libc = node.hello.libc,
            "connected to a node"
        );
        Ok(node)
    }

    /// The node's description.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Finds, or copies, the program of this version. Returns its hello.
    fn find_program(&mut self, binary: Option<&Path>) -> Result<Hello, Diagnostic> {
        let installed = match greet(self) {
            Ok(Greeting::Hello(hello)) if is_this_version(&hello) => return Ok(hello),
            Ok(Greeting::Hello(hello)) => format!("iodyno {} is installed there", hello.iodyno),
            Ok(Greeting::NotANode(why)) => why,
            Err(RunnerError::Version { iodyno, theirs, .. }) => {
                format!("iodyno {iodyno} with protocol {theirs} is installed there")
            }
            Err(error) => return Err(Diagnostic::error(error.to_string())),
        };
        let to = &self.connection.to;
        let architecture = self.query("uname -m")?;
        let Some(binary) = binary
            .map(Path::to_owned)
            .or_else(|| static_binary(&architecture))
        else {
            let version = env!("CARGO_PKG_VERSION");
            let fault = format!(
                "{to} has no iodyno {version} of this protocol, and there is none for {architecture} to copy ({installed})"
            );
            return Err(Diagnostic::error(fault).hint(
                "build one with `make static` on such a host, and give it with `--node-binary PATH`",
            ));
        };
        self.remote_program = self.copied(&binary)?;
        match greet(self) {
            Ok(Greeting::Hello(hello)) if is_this_version(&hello) => Ok(hello),
            Ok(Greeting::Hello(hello)) => Err(Diagnostic::error(format!(
                "`{}` is iodyno {} with protocol {}, but this is {} with protocol {PROTOCOL}",
                binary.display(),
                hello.iodyno,
                hello.version,
                env!("CARGO_PKG_VERSION"),
            ))
            .hint("give a program of this version with `--node-binary`")),
            Ok(Greeting::NotANode(why)) => Err(Diagnostic::error(format!(
                "`{}` does not run on {} ({architecture}): {why}",
                binary.display(),
                self.connection.to,
            ))
            .hint("give a program for that host with `--node-binary`; `make static` builds one")),
            Err(error) => Err(Diagnostic::error(error.to_string())),
        }
    }

    /// The path of a copy of this program on the other host, whose checksum is verified.
    fn copied(&self, binary: &Path) -> Result<String, Diagnostic> {
        let cannot = |error: io::Error| {
            Diagnostic::error(format!("cannot read `{}`: {error}", binary.display()))
        };
        let content = fs::read(binary).map_err(cannot)?;
        let sum = hex(&Sha256::digest(&content));
        let place = "${XDG_CACHE_HOME:-$HOME/.cache}/iodyno/nodes";
        let find = format!(
            "f={place}/{sum}/iodyno; if [ -x \"$f\" ] && [ \"$(sha256sum <\"$f\" | cut -c1-64)\" = {sum} ]; then echo \"$f\"; else echo none; fi"
        );
        let mut path = self.query(&find)?;
        if path == "none" {
            tracing::info!(
                to = self.connection.to,
                bytes = content.len(),
                "copying the program"
            );
            // Written next to its final path and then moved, so the name never leads to a partial file.
            let copy = format!(
                "umask 077; d={place}/{sum}; f=\"$d/part.$$\"; mkdir -p \"$d\" && cat >\"$f\" && \
                 [ \"$(sha256sum <\"$f\" | cut -c1-64)\" = {sum} ] && chmod 700 \"$f\" && mv -f \"$f\" \"$d/iodyno\" && echo \"$d/iodyno\" || \
                 {{ rm -f \"$f\"; exit 1; }}"
            );
            let output = self.run(&copy, Some(content))?;
            path = self.answer(&output, "copy the program")?;
        }
        match path.starts_with('/') && is_plain(&path) {
            true => Ok(path),
            false => Err(Diagnostic::error(format!(
                "the cache of {} is at `{}`, which cannot be used in a command",
                self.connection.to,
                on_one_line(&path)
            ))
            .hint("install iodyno there, or set XDG_CACHE_HOME to a plain path")),
        }
    }

    /// The answer of a command in the other host's shell.
    fn query(&self, script: &str) -> Result<String, Diagnostic> {
        let output = self.run(script, None)?;
        self.answer(&output, "run a command")
    }

    fn answer(&self, output: &Output, doing: &str) -> Result<String, Diagnostic> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            // A login script may print something before.
            true => Ok(text(&output.stdout)
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned()),
            false => Err(Diagnostic::error(format!(
                "cannot {doing} on {}: {}",
                self.connection.to,
                on_one_line(&text(&output.stderr))
            ))),
        }
    }

    /// ssh that starts a node there, with these further arguments.
    fn node(&self, more: &str) -> Command {
        // The shell stays: it ends with 128 plus the number of a signal that killed the node, where ssh would end as if
        // the connection had failed. The variable is that of `NodeProcess::start`.
        let program = &self.remote_program;
        let start = match (self.sudo, program.contains('/')) {
            // sudo has its own search path.
            (true, false) => format!(
                "sudo -n env MALLOC_MMAP_THRESHOLD_=131072 \"$(command -v {program} || echo {program})\""
            ),
            (true, true) => format!("sudo -n env MALLOC_MMAP_THRESHOLD_=131072 {program}"),
            (false, _) => format!("env MALLOC_MMAP_THRESHOLD_=131072 {program}"),
        };
        let mut script = format!("{start} node");
        for argument in &self.arguments {
            script += " ";
            script += argument;
        }
        script += more;
        script += "; exit $?";
        self.master.shell(&script)
    }

    /// Runs such a script to its end.
    fn run(&self, script: &str, input: Option<Vec<u8>>) -> Result<Output, Diagnostic> {
        run_limited(self.master.shell(script), input, COMMAND).map_err(|error| {
            Diagnostic::error(format!("cannot run ssh to {}: {error}", self.connection.to))
        })
    }
}

impl Launcher for SshNode {
    fn program(&self) -> &Path {
        Path::new(SSH)
    }

    fn command(&self, _: &str) -> Command {
        self.node("")
    }

    fn in_guest(&self, _: &str, socket: &Path) -> Option<Command> {
        let socket = socket.to_str().filter(|path| is_plain(path))?;
        Some(self.node(&format!(" --guest {socket}")))
    }

    fn connection(&self) -> Option<&Connection> {
        Some(&self.connection)
    }

    fn owner(&self, token: &str) -> Result<Owner, Diagnostic> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.is_none() {
            let started = greeted(self, KEEPER);
            *keeper = Some(started.map_err(|error| Diagnostic::error(error.to_string()))?);
        }
        let lost = || {
            let to = &self.connection.to;
            Diagnostic::error(format!(
                "the process that owns the storage on {to} has ended"
            ))
        };
        let (process, owner) = keeper.as_mut().ok_or_else(lost)?;
        if process.exited().is_some() {
            return Err(lost());
        }
        // Its answers to keepalive messages.
        while process.reports.try_recv().is_ok() {}
        let token = token.to_owned();
        process.send(protocol::Command::Keep { token });
        Ok(*owner)
    }
}

impl Drop for SshNode {
    fn drop(&mut self) {
        if let Ok(Some((keeper, _))) = self.keeper.get_mut() {
            // It undoes the remaining storage, even without the connection.
            keeper.close();
            keeper.await_exit(KEEPER_ENDS);
        }
    }
}

/// An open connection, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Master {
    address: SshAddress,
    child: Mutex<Child>,
    folder: SocketFolder,
    /// The output of the other host's login shell before each command.
    printed: Option<String>,
}

impl Master {
    /// Connects.
    ///
    /// # Errors
    /// Why the connection failed.
    pub(crate) fn open(address: &SshAddress) -> Result<Master, Diagnostic> {
        let folder = SocketFolder::create(&SocketFolder::parent()).map_err(|error| {
            Diagnostic::error(format!("cannot create a folder for ssh's socket: {error}"))
        })?;
        let (child, printed) = open_master(address, &folder.path)?;
        Ok(Master {
            address: address.clone(),
            child: Mutex::new(child),
            folder,
            printed,
        })
    }

    /// ssh with a script for the other host's POSIX shell. It contains no single quotes, so that every login shell
    /// passes it on as it is.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = ssh(&self.address, &self.folder.path);
        command.args([
            "-o",
            "ControlMaster=no",
            "--",
            &self.address.host,
            "exec",
            "sh",
            "-c",
        ]);
        command.arg(format!("'{script}'"));
        command
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            // The end of its input ends the remote command, and with it the connection.
            drop(child.stdin.take());
            if !exits(child, Duration::from_secs(2)) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// A folder for the connection's socket, accessible only to this user. Removed on drop.
///
/// Its owner holds a lock on it. An unlocked folder belongs to a killed process, and the next process removes it.
#[derive(Debug)]
struct SocketFolder {
    path: PathBuf,
    _lock: File,
}

impl SocketFolder {
    /// The prefix of its name.
    const PREFIX: &str = "iodyno-ssh-";

    /// The parent of such folders. The path is short, because a socket path has at most 107 bytes.
    fn parent() -> PathBuf {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        runtime
            .filter(|path| path.is_dir() && path.as_os_str().len() < 60)
            .unwrap_or_else(|| PathBuf::from("/tmp"))
    }

    /// Creates one in this folder, and removes those of killed processes.
    fn create(parent: &Path) -> io::Result<SocketFolder> {
        for entry in fs::read_dir(parent)?.flatten() {
            let named = entry
                .file_name()
                .to_string_lossy()
                .starts_with(Self::PREFIX);
            // Another user's folder cannot be opened.
            if named && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // The lock is held until the folder is removed, so that it is not mistaken for a new one.
                if let Ok(_lock) = Self::lock(&entry.path()) {
                    let _ = fs::remove_dir_all(entry.path());
                }
            }
        }
        let mut attempt = 0;
        loop {
            // The last bits of a UUIDv7 are random.
            let number = RunId::fresh().0.as_u128() as u64;
            let path = parent.join(format!("{}{number:016x}", Self::PREFIX));
            let made = DirBuilder::new().mode(0o700).create(&path);
            match made.and_then(|()| Self::lock(&path)) {
                Ok(lock) if path.exists() => return Ok(SocketFolder { path, _lock: lock }),
                Err(error) if attempt == 9 => return Err(error),
                // Another process uses this name, or mistook it for that of a killed one before it was locked.
                _ => attempt += 1,
            }
        }
    }

    fn lock(path: &Path) -> io::Result<File> {
        let folder = File::open(path)?;
        rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
        Ok(folder)
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// ssh for this host, over the connection of this folder. No terminal, no questions, no forwarding.
fn ssh(address: &SshAddress, folder: &Path) -> Command {
    let mut command = Command::new(SSH);
    command.args(["-T", "-a", "-x", "-e", "none"]);
    for option in [
        "BatchMode=yes".to_owned(),
        "ClearAllForwardings=yes".to_owned(),
        "PermitLocalCommand=no".to_owned(),
        "RequestTTY=no".to_owned(),
        "ControlPersist=no".to_owned(),
        format!("ConnectTimeout={CONNECT_S}"),
        "ServerAliveInterval=1".to_owned(),
        format!("ServerAliveCountMax={ALIVE_COUNT}"),
    ] {
        command.arg("-o").arg(option);
    }
    command.arg("-S").arg(folder.join("s"));
    if let Some(port) = address.port {
        command.args(["-p", &port.to_string()]);
    }
    if let Some(user) = &address.user {
        command.args(["-l", user]);
    }
    command
}

/// Opens the shared connection. Its remote command ends when this process closes its input or ends. Also returns what
/// the login shell printed first.
fn open_master(address: &SshAddress, folder: &Path) -> Result<(Child, Option<String>), Diagnostic> {
    let errors = folder.join("errors");
    let cannot = |error: io::Error| {
        Diagnostic::error(format!("cannot start `{SSH}`: {error}")).hint("install OpenSSH's client")
    };
    let log = File::create(&errors).map_err(cannot)?;
    let mut command = ssh(address, folder);
    command.args(["-M", "--", &address.host, "echo", "ready;", "exec", "cat"]);
    let mut master = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    // ssh itself limits the time to connect.
    let mut ready = Vec::new();
    let mut buffer = [0; 256];
    let mut stdout = master.stdout.take();
    while !String::from_utf8_lossy(&ready)
        .lines()
        .any(|line| line.trim_end().ends_with("ready"))
    {
        match stdout.as_mut().map(|out| out.read(&mut buffer)) {
            Some(Ok(count)) if count > 0 && ready.len() < 1 << 16 => {
                ready.extend_from_slice(&buffer[..count]);
            }
            _ => {
                let _ = master.kill();
                let _ = master.wait();
                let why = fs::read_to_string(&errors).unwrap_or_default();
                let why: Vec<&str> = why
                    .lines()
                    .map(str::trim)
                    .filter(|l| !l.is_empty())
                    .collect();
                let last = why.len().saturating_sub(5);
                let why = why[last..].join("; ").replace(":; ", ": ");
                return Err(Diagnostic::error(format!(
                    "cannot connect to {address}: {}",
                    on_one_line(&why)
                ))
                .hint(format!(
                    "`ssh {address} true` has to work without a question: keys in the agent, the host in known_hosts"
                )));
            }
        }
    }
    let ready = String::from_utf8_lossy(&ready);
    let before = ready.trim_end().trim_end_matches("ready").trim();
    let printed = (!before.is_empty()).then(|| before.to_owned());
    Ok((master, printed))
}

/// Whether a path means itself in a command of every shell.
fn is_plain(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    path.chars().all(plain) && !path.starts_with('-')
}

/// Whether a node has this version and this protocol.
fn is_this_version(hello: &Hello) -> bool {
    hello.version == PROTOCOL && hello.iodyno == env!("CARGO_PKG_VERSION")
}

/// The static program for an architecture that was installed with this one.
fn static_binary(architecture: &str) -> Option<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let own = std::env::current_exe().ok()?;
    let installed = own.parent()?.parent()?.join("libexec/iodyno");
    let binary = installed.join(architecture).join("iodyno");
    (architecture.chars().all(plain) && binary.is_file()).then_some(binary)
}

/// The program at this path, for nodes without iodyno.
///
/// # Errors
/// It cannot be read.
pub fn node_program(path: &Path) -> io::Result<NodeProgram> {
    Ok(NodeProgram {
        path: std::path::absolute(path)?,
        sha256: hex(&Sha256::digest(&fs::read(path)?)),
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Runs a command with this input, for at most this time.
pub(crate) fn run_limited(
    mut command: Command,
    input: Option<Vec<u8>>,
    limit: Duration,
) -> io::Result<Output> {
    let mut child = command
        .stdin(match input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let writer = child.stdin.take().zip(input).map(|(mut stdin, input)| {
        // If the command ends early, its exit code and its messages say why.
        thread::spawn(move || drop(stdin.write_all(&input)))
    });
    let reader = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(from) = from {
                let _ = from.take(MAX_OUTPUT_LEN).read_to_end(&mut text);
            }
            text
        })
    };
    let stdout = reader(child.stdout.take().map(|out| Box::new(out) as _));
    let stderr = reader(child.stderr.take().map(|err| Box::new(err) as _));
    if !exits(&mut child, limit) {
        let _ = child.kill();
    }
    let status = child.wait()?;
    if let Some(writer) = writer {
        let _ = writer.join();
    }
    Ok(Output {
        status,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    })
}

/// Waits for the exit of a child, for at most this time.
fn exits(child: &mut Child, limit: Duration) -> bool {
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begun.elapsed() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_killed_process_is_removed_and_that_of_a_running_one_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let killed = parent.path().join("iodyno-ssh-0123456789abcdef");
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join("errors"), "").unwrap();
        let other = parent.path().join("others");
        fs::create_dir(&other).unwrap();
        let running = SocketFolder::create(parent.path()).unwrap();
        assert!(!killed.exists() && other.exists() && running.path.exists());
        let second = SocketFolder::create(parent.path()).unwrap();
        assert!(running.path.exists() && second.path != running.path);
        let path = running.path.clone();
        drop(running);
        assert!(!path.exists() && second.path.exists());
    }

    #[test]
    fn only_plain_paths_become_part_of_a_command() {
        assert!(is_plain("/run/iodyno/0a1b/1-0/node"));
        for path in [
            "/run/a b",
            "/$(x)",
            "/a'b",
            "/a;b",
            "-oProxyCommand=x",
            "/a\nb",
        ] {
            assert!(!is_plain(path), "{path}");
        }
    }

    #[test]
    fn a_checksum_is_written_as_sha256sum_writes_it() {
        let sum = hex(&Sha256::digest(b"abc"));
        assert_eq!(
            sum,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
