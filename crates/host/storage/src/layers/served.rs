//! Servers of a folder, in place of whose command the user can name another one: by virtio-fs, whose clients are the
//! jobs, and by FUSE.
//!
//! A server of virtio-fs usually ends with its client. It is therefore started anew for each trial: see [`renew`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guest::end_of;
use iodyno_host::mounts;
use iodyno_model::{
    Diagnostic, EngineKind, ExportUri, FolderServer, Layer, MirrorLayer, Pinning, Provision,
    SERVER_STATS, closest, server_command, server_program,
};

use crate::journal::Journal;

use super::action::Action;
use super::host::{Host, this_program, word};
use super::host_ops::{HostOps, cause};
use super::making::{COMMAND, Making, Storage};

/// The longest path of a unix socket, bytes.
pub(super) const MAX_SOCKET_LEN: usize = 107;
/// The interval at which a server is waited for.
const TICK: Duration = Duration::from_millis(10);
/// How often it is waited for.
const TICKS: u32 = 1000;
/// After so many ticks it is known whether a server runs. A process that has just been started has no environment yet.
const LOOK: u32 = 25;
/// The name of this program in commands.
const OWN: &str = "iodyno";
/// Servers that print their version and do nothing else with `--version`.
const WITH_VERSION: [&str; 2] = [OWN, "virtiofsd"];

/// The name of a socket in the folder of its layer.
pub(super) const SOCKET: &str = "share";

/// The words of a server's command. The first one, `iodyno`, is this program.
pub(super) fn command_words(
    text: &str,
    values: &[(&str, &Path)],
) -> Result<Vec<String>, Diagnostic> {
    let mut paths = Vec::new();
    for (name, path) in values {
        paths.push((*name, word(path)?));
    }
    let paths: Vec<(&str, &str)> = paths
        .iter()
        .map(|(name, path)| (*name, path.as_str()))
        .collect();
    let mut words = server_command(text, &paths);
    if let Some(first) = words.first_mut()
        && first == OWN
    {
        *first = word(&this_program()?)?;
    }
    Ok(words)
}

/// The socket of the statistics of a server, beside its own socket or its mount point.
fn stats_socket(of: &Path) -> PathBuf {
    of.with_extension("stats")
}

/// Whether the program of a server's command is there.
pub(super) fn is_installed(host: &dyn Host, command: &str) -> bool {
    let program = server_program(command);
    program == OWN || host.program(program).is_some()
}

/// The hint for a server's program that is not installed: the program that its name probably misspells, or `otherwise`.
pub(super) fn meant_or(program: &str, otherwise: &str) -> String {
    match closest(program, WITH_VERSION.into_iter()) {
        Some(near) if near != program => format!("did you mean `{near}`?"),
        _ => otherwise.to_owned(),
    }
}

/// What the host lacks for the server of a folder, or for the socket of a mirror. `mounts`: where the target's mount
/// points are.
pub(super) fn faults(
    host: &dyn Host,
    layer: &Layer,
    provision: &Provision,
    mounts: &Path,
) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut no_socket = || {
        let socket = mounts.join("99").join(SOCKET);
        if socket.as_os_str().len() > MAX_SOCKET_LEN {
            let message = format!(
                "the path of the socket `{}` is longer than {MAX_SOCKET_LEN} bytes",
                socket.display()
            );
            faults.push(Diagnostic::error(message).hint("set XDG_STATE_HOME to a shorter path"));
        }
    };
    let server = match layer {
        Layer::Virtiofs(server) => {
            no_socket();
            server
        }
        Layer::Fuse(server) => server,
        Layer::Mirror(mirror) => {
            if mirror.queues.is_some() {
                no_socket();
                let (message, hint) = MirrorLayer::NOT_ON_TOP;
                let below = provision.client_engine() != Some(EngineKind::VhostUserBlk);
                faults.extend(below.then(|| Diagnostic::error(message).hint(hint)));
            }
            return faults;
        }
        _ => return faults,
    };
    let kind = layer.kind();
    if !is_installed(host, &server.command) {
        let program = server_program(&server.command);
        let message = format!("`{program}`, the server of `{kind}`, is not installed");
        let hint = match kind {
            "virtiofs" => {
                "install it: Debian has the packages `virtiofsd` and `qemu-system-common` (`/usr/lib/qemu/virtiofsd`)"
            }
            _ => "install it, or leave `fuse.server` out",
        };
        faults.push(Diagnostic::error(message).hint(meant_or(program, hint)));
    }
    if kind == "virtiofs" && provision.virtiofs().is_none() {
        let message = "`virtiofs` has to be the top layer: jobs use its socket";
        faults.push(Diagnostic::error(message).hint("put it first in `target`"));
    }
    faults
}

impl HostOps<'_> {
    /// Waits until a server, which has just been started, is `ready`.
    ///
    /// # Errors
    /// It has ended, or is not ready within 10 s.
    pub(super) fn await_server(
        &self,
        command: &[String],
        log: &Path,
        (what, hint): (&str, &'static str),
        ready: &dyn Fn() -> bool,
    ) -> Result<(), Diagnostic> {
        let mut ended = false;
        for tick in 1..=TICKS {
            if ready() {
                return Ok(());
            }
            ended = tick % LOOK == 0 && self.host.marked(&self.mark).is_empty();
            if ended || (self.stop)() {
                break;
            }
            self.host.sleep(TICK);
        }
        let ended = if ended { "ended and " } else { "" };
        let cause = cause(&end_of(log).unwrap_or_default());
        let message = format!("`{}` {ended}{what}{cause}", command.join(" "));
        Err(Diagnostic::error(message).hint(hint))
    }

    /// Waits for the socket of a server.
    ///
    /// # Errors
    /// See [`HostOps::await_server`].
    pub(super) fn await_socket(
        &self,
        command: &[String],
        log: &Path,
        socket: &Path,
    ) -> Result<(), Diagnostic> {
        let hint = "it has to make the socket within 10 s and stay in the foreground";
        self.await_server(command, log, ("made no socket", hint), &|| socket.exists())
    }
}

/// Starts the server of virtio-fs of a target anew, if its top layer is one.
///
/// # Errors
/// It cannot be started.
pub(super) fn renew(ops: &mut HostOps<'_>, journal: &Journal) -> Result<(), Diagnostic> {
    if journal.header.provision.virtiofs().is_none() {
        return Ok(());
    }
    let servers = servers(journal, &|_| true);
    let Some((_, last)) = servers.last() else {
        return Ok(());
    };
    let point = last.point.to_owned();
    start_again(ops, journal, &|other| other == point)
}

/// A server of a target: the fields of its [`Action::Server`].
struct Server<'a> {
    command: &'a [String],
    log: &'a Path,
    point: &'a Path,
}

/// The servers that run with such a point, in the order in which they were started, with the marks of their processes.
fn servers<'j>(journal: &'j Journal, chosen: &dyn Fn(&Path) -> bool) -> Vec<(String, Server<'j>)> {
    let steps = journal.steps.iter().enumerate();
    let servers = steps.filter_map(|(number, step)| match &step.action {
        Action::Server {
            command,
            point,
            log,
        } if !step.undone && chosen(point) => Some((
            journal.mark(number),
            Server {
                command,
                log,
                point,
            },
        )),
        _ => None,
    });
    servers.collect()
}

/// Ends the servers with such a point and starts them anew, with the marks of the steps that started them: they are
/// undone with those.
///
/// # Errors
/// One cannot be started.
pub(super) fn start_again(
    ops: &mut HostOps<'_>,
    journal: &Journal,
    chosen: &dyn Fn(&Path) -> bool,
) -> Result<(), Diagnostic> {
    let servers = servers(journal, chosen);
    for (mark, _) in servers.iter().rev() {
        ops.end_processes(mark);
    }
    for (mark, server) in servers {
        ops.mark = mark;
        let _ = std::fs::remove_file(server.point);
        let _ = std::fs::remove_file(stats_socket(server.point));
        ops.start(server.command, server.log)?;
        if !server.point.is_dir() {
            ops.await_socket(server.command, server.log, server.point)?;
        }
    }
    Ok(())
}

impl Making<'_> {
    /// Starts a server with a socket, and waits for that.
    pub(super) fn serve_socket(
        &mut self,
        text: &str,
        pinning: &Pinning,
        socket: &Path,
        below: (&str, &Path),
    ) -> Result<(), Diagnostic> {
        let log = socket.with_extension("log");
        let stats = stats_socket(socket);
        let values = [("{socket}", socket), (SERVER_STATS, stats.as_path()), below];
        let command = command_words(text, &values)?;
        self.step(Action::Server {
            command: pinning.command(&command),
            log: log.clone(),
            point: socket.to_owned(),
        })?;
        self.ops.await_socket(&command, &log, socket)?;
        self.record_stats(text, stats);
        Ok(())
    }

    /// Records the socket on which a server reports its counters, if its command requests one.
    fn record_stats(&mut self, command: &str, stats: PathBuf) {
        if command.contains(SERVER_STATS) {
            self.stats.push(stats);
        }
    }

    /// Shares a folder by virtio-fs. What lies on it is still the folder: jobs reach it by the socket.
    pub(super) fn virtiofs(
        &mut self,
        name: &str,
        server: &FolderServer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let folder = below.paths().first().cloned().unwrap_or_default();
        let socket = self.mount_point(name)?.join(SOCKET);
        self.tell_server("virtiofs", server);
        let below_it = ("{folder}", folder.as_path());
        self.serve_socket(&server.command, &server.pinning, &socket, below_it)?;
        self.tell_cpus("virtiofs", server);
        self.share = Some(ExportUri::of_share(&socket));
        Ok(below.clone())
    }

    /// Mounts a folder by FUSE.
    pub(super) fn fuse(
        &mut self,
        name: &str,
        server: &FolderServer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let folder = below.paths().first().cloned().unwrap_or_default();
        let point = self.mount_point(name)?;
        let log = point.with_extension("log");
        self.tell_server("fuse", server);
        let stats = stats_socket(&point);
        let values = [
            ("{folder}", folder.as_path()),
            ("{mount}", point.as_path()),
            (SERVER_STATS, stats.as_path()),
        ];
        let command = command_words(&server.command, &values)?;
        self.step(Action::Server {
            command: server.pinning.command(&command),
            log: log.clone(),
            point: point.clone(),
        })?;
        let hint = "it has to mount the folder within 10 s and stay in the foreground";
        let roots = self.ops.host.roots();
        let mounted = || mounts::own(roots).iter().any(|mount| mount.point == point);
        let what = ("mounted nothing", hint);
        self.ops.await_server(&command, &log, what, &mounted)?;
        self.record_stats(&server.command, stats);
        self.tell_cpus("fuse", server);
        Ok(Storage::Folder(point))
    }

    /// Records the command of a server, and its version where that is known to be printed.
    fn tell_server(&mut self, kind: &str, server: &FolderServer) {
        let mut facts = vec![("server", server.command.clone())];
        let program = server_program(&server.command);
        let name = program.rsplit('/').next().unwrap_or(program);
        if WITH_VERSION.contains(&name)
            && let Ok(words) = command_words(program, &[])
            && let Some(program) = words.first()
        {
            let printed = self.ops.run(&[program, "--version"], COMMAND);
            let printed = printed.unwrap_or_default();
            let line = printed.lines().next().unwrap_or_default();
            if !line.is_empty() {
                facts.push(("version", line.to_owned()));
            }
        }
        self.add_facts(kind, facts);
    }

    fn tell_cpus(&mut self, kind: &str, server: &FolderServer) {
        if !server.pinning.is_none() {
            let cpus = self.ops.cpus_of(&self.ops.mark);
            self.add_facts(kind, vec![("server cpus", cpus)]);
        }
    }

    /// The socket of a server in a folder.
    pub(super) fn share_socket(folder: &Path) -> PathBuf {
        folder.join(SOCKET)
    }
}
