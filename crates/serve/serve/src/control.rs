//! Management of a served mirror: commands connect to a Unix socket of the server that only its user may use.
//!
//! The socket's name contains the UUID of the mirror, so any leg leads to it. Each connection carries one [`Request`]
//! and then replies ([`ControlReply`]), the last of which is [`ControlReply::Done`] or [`ControlReply::Failed`]. Each
//! is a line of JSON. A request continues after its command disconnects.
//!
//! The legs change one at a time. A removed leg is closed only after its last op has returned: until then no one else
//! may use it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use iodyno_host::{Roots, socket_folder, socket_name};
use iodyno_mirror::core::{Cause, Change, Errno, Failure, Notice};
use iodyno_mirror::superblock::{Fork, Geometry, LegState};
use iodyno_model::printable::shell_path;
use iodyno_model::{Diagnostic, errno};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::format;
use crate::front::Listener;
use crate::legs::{self, Leg, Purpose, Refused};
use crate::queue::{AdminRequest, Handle, Status};

/// A request is not longer, bytes.
const LONGEST: u64 = 1 << 20;
/// Between two reports of progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long a removed leg may take to return its last op. After that it stays open.
const LAST_OPS: Duration = Duration::from_secs(5);

/// A request of a command. Paths are absolute.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// The state.
    Status,
    /// The data read from and written to each leg.
    Counts,
    /// Adds a leg, or re-adds a dropped one.
    Add {
        /// Its path.
        new: PathBuf,
        /// Paths that may be overwritten.
        destroy: Vec<PathBuf>,
    },
    /// Removes a leg.
    Remove {
        /// Its path or UUID.
        old: PathBuf,
    },
    /// Adds a leg, and removes the old one when the new one is in sync, or at once if the old one is behind.
    Replace {
        /// Path or UUID of the old leg.
        old: PathBuf,
        /// Path of the new one.
        new: PathBuf,
        /// Paths that may be overwritten.
        destroy: Vec<PathBuf>,
    },
    /// Compares all legs in sync.
    Scrub {
        /// The leg that is right where they differ, by path or UUID.
        from: Option<PathBuf>,
    },
}

/// An answer of the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ControlReply {
    /// The state.
    State(State),
    /// See [`Request::Counts`].
    Counts {
        /// Requests.
        requests: u64,
        /// Commands to the legs; each has one request or several, which were merged.
        commands: u64,
    },
    /// Legs differ in a range, or a range was rewritten.
    Found(String),
    /// Bytes that are done, and all bytes.
    Progress(u64, u64),
    /// The scrub has ended: ranges that differ, and ranges that could not be read.
    Scrubbed(u64, u64),
    /// For the user.
    Note(String),
    /// Done.
    Done,
    /// It failed.
    Failed {
        /// Why.
        faults: Vec<Diagnostic>,
        /// Whether a leg is in use or contains data.
        by_guard: bool,
    },
}

/// The state of a mirror, for people and as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    /// UUID of the mirror.
    pub mirror: String,
    /// Generation of its superblocks.
    pub generation: u64,
    /// Length, bytes.
    pub bytes: u64,
    /// Length of a region of the log, bytes.
    pub region_bytes: u64,
    /// Requests are aligned to this, bytes.
    pub unit_bytes: u32,
    /// Regions that the write-intent log marks; `None`: unknown without a leg in sync.
    pub marked_regions: Option<usize>,
    /// Whether the content survives the loss of any leg.
    pub redundant: bool,
    /// The legs, in the order of the table.
    pub legs: Vec<LegLine>,
    /// What the server reports; `None`: the mirror is not served here, or another user serves it.
    pub served: Option<Served>,
}

/// A leg of a mirror.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LegLine {
    /// Its UUID.
    pub uuid: String,
    /// `None`: not given.
    pub path: Option<PathBuf>,
    /// `in sync` or `behind`.
    pub state: String,
    /// Bytes that were copied to a leg that is behind.
    pub copied_bytes: Option<u64>,
    /// Whether the server writes to it; `None`: not served.
    pub online: Option<bool>,
    /// Requests that it has not answered; `None`: not served.
    pub in_flight: Option<u32>,
    /// Why the server dropped it, or what is wrong with it.
    pub problem: Option<String>,
}

/// What only the server of a mirror knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Served {
    /// Its process.
    pub pid: u32,
    /// The addresses for clients.
    pub uris: Vec<String>,
    /// Whether no leg accepted the record that one failed: then every request fails.
    pub halted: bool,
    /// Bytes that are still to be copied.
    pub to_copy_bytes: u64,
    /// Progress of the current scrub, bytes.
    pub scrubbed_bytes: Option<u64>,
}

/// The path of the control socket of this mirror.
///
/// # Errors
/// No folder for it exists that only this user can write to.
pub fn socket(mirror: Uuid) -> io::Result<PathBuf> {
    let user = rustix::process::geteuid();
    let folder = socket_folder();
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = folder.symlink_metadata()?;
    if !found.is_dir() || found.uid() != user.as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("others may write to `{}`", folder.display()),
        ));
    }
    Ok(folder.join(socket_name(&mirror.to_string())))
}

// ---- Client ----

/// A connection to the server of a mirror.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the server of the mirror with these legs. `None`: this user does not serve it, or no leg has a valid
    /// superblock.
    pub fn of_legs(paths: &[PathBuf]) -> Option<Client> {
        let mirror = paths.iter().find_map(|path| {
            let leg = legs::open(std::slice::from_ref(path), Purpose::Look).ok()?;
            Some(leg.first()?.superblock().ok()?.0.mirror)
        })?;
        let stream = UnixStream::connect(socket(mirror).ok()?).ok()?;
        Some(Client {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a request, and passes on all replies until the last.
    ///
    /// # Errors
    /// The server ends first.
    pub fn request(
        mut self,
        request: &Request,
        mut reply: impl FnMut(ControlReply),
    ) -> io::Result<()> {
        send_line(self.stream.get_ref(), request)?;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let answer: ControlReply = serde_json::from_str(&line)?;
            let last = matches!(answer, ControlReply::Done | ControlReply::Failed { .. });
            reply(answer);
            if last {
                return Ok(());
            }
        }
    }
}

fn send_line(mut stream: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Sends a note for the user. The command may have disconnected.
fn note(stream: &UnixStream, text: String) {
    let _ = send_line(stream, &ControlReply::Note(text));
}

// ---- Server ----

/// The server's end, which answers commands in its own threads. Dropping it removes the socket; the threads end with
/// the process.
#[derive(Debug)]
pub struct Control {
    _socket: Listener,
    shared: Arc<ControlState>,
}

#[derive(Debug)]
struct ControlState {
    /// All open legs. It is locked while the legs change.
    legs: Mutex<Vec<(Uuid, Leg)>>,
    geometry: Geometry,
    mirror: Uuid,
    uris: Vec<String>,
    handle: Handle,
}

impl Control {
    /// The socket of this mirror. Commands that connect wait for [`Self::start`].
    ///
    /// # Errors
    /// If there can be no socket.
    pub fn bind(mirror: Uuid) -> io::Result<Listener> {
        Listener::unix(&socket(mirror)?)
    }

    /// Begins to answer commands on the socket of this mirror; `legs` are all that are open.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(
        bound: Listener,
        mirror: Uuid,
        geometry: Geometry,
        legs: Vec<(Uuid, Leg)>,
        uris: Vec<String>,
        handle: Handle,
    ) -> io::Result<Control> {
        let Listener::Unix(listener, _) = &bound else {
            unreachable!("a Unix socket");
        };
        let listener = listener.try_clone()?;
        let shared = Arc::new(ControlState {
            legs: Mutex::new(legs),
            geometry,
            mirror,
            uris,
            handle,
        });
        let own = Arc::clone(&shared);
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || accept(&listener, &own))?;
        Ok(Control {
            _socket: bound,
            shared,
        })
    }

    /// Closes and unlocks all legs. Call this after the mirror has ended. A running command that changes legs keeps
    /// them until it ends.
    pub fn release_legs(&self) {
        if let Ok(mut legs) = self.shared.legs.try_lock() {
            legs.clear();
        }
    }
}

fn accept(listener: &UnixListener, shared: &Arc<ControlState>) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let own = Arc::clone(shared);
        // Without a thread the connection is closed.
        let _ = thread::Builder::new()
            .name("command".to_owned())
            .spawn(move || {
                let mut line = String::new();
                let mut limited = BufReader::new((&stream).take(LONGEST));
                let request = match limited.read_line(&mut line) {
                    Ok(_) => serde_json::from_str(&line),
                    Err(_) => return,
                };
                let last = match request {
                    Ok(request) => own.carry_out(request, &stream),
                    Err(error) => Err(fault(format!("the request is not valid: {error}"))),
                };
                // The command may have disconnected.
                let _ = send_line(&stream, &last.err().map_or(ControlReply::Done, failed));
            });
    }
}

fn failed(refused: Refused) -> ControlReply {
    ControlReply::Failed {
        faults: refused.faults,
        by_guard: refused.by_guard,
    }
}

fn fault(message: impl Into<String>) -> Refused {
    Diagnostic::error(message).into()
}

/// The file or device at this path is open as a leg. It gets no I/O if it was dropped for a cause.
fn taken(leg: &Leg, path: &Path, dropped: Option<Cause>) -> Refused {
    let (shown, own) = (path.display(), leg.path.display());
    let word = shell_path(&leg.path);
    match leg.is_at(&leg.path) {
        true => {
            let fault = Diagnostic::error(format!("`{shown}` is a leg of the mirror already"));
            match dropped {
                None => fault,
                Some(Cause::Replaced) => fault.hint(format!(
                    "remove it and add it again: `iodyno mirror remove --leg … {word}` and `iodyno mirror add --leg … {word} --destroy {word}`, with the other legs"
                )),
                Some(_) => fault.hint("`iodyno mirror add` takes it back"),
            }
            .into()
        }
        false => Diagnostic::error(format!(
            "`{shown}` is the file of the leg `{own}`, which was renamed while it was served"
        ))
        .hint("stop the server and start it with the new name, or replace the leg by another file")
        .into(),
    }
}

fn ended() -> Refused {
    fault("the server of the mirror was stopped")
}

impl ControlState {
    fn carry_out(&self, request: Request, stream: &UnixStream) -> Result<(), Refused> {
        match request {
            Request::Status => {
                let state = self.state()?;
                let _ = send_line(stream, &ControlReply::State(state));
                Ok(())
            }
            Request::Counts => {
                let totals = self.handle.queues().board().totals();
                let (requests, commands) = (totals.requests, totals.commands);
                let _ = send_line(stream, &ControlReply::Counts { requests, commands });
                Ok(())
            }
            Request::Scrub { from } => self.scrub(from.as_deref(), stream),
            Request::Add { new, destroy } => {
                self.add(&mut *self.lock()?, &new, &destroy, stream)?;
                Ok(())
            }
            Request::Remove { old } => {
                let mut legs = self.lock()?;
                let old = self.find(&legs, &old)?;
                self.remove(&mut legs, old, stream)
            }
            Request::Replace { old, new, destroy } => {
                self.replace(&mut *self.lock()?, &old, &new, &destroy, stream)
            }
        }
    }

    fn lock(&self) -> Result<std::sync::MutexGuard<'_, Vec<(Uuid, Leg)>>, Refused> {
        self.legs
            .try_lock()
            .map_err(|_| fault("another command is changing the legs of this mirror"))
    }

    fn status(&self) -> Result<Status, Refused> {
        let (sender, receiver) = channel();
        self.handle.manage(AdminRequest::Status(sender));
        receiver.recv().map_err(|_| ended())
    }

    fn state(&self) -> Result<State, Refused> {
        let status = self.status()?;
        let legs = status.legs.iter().map(|leg| {
            let (state, copied_bytes) = state_of(leg.member.state);
            LegLine {
                uuid: leg.member.uuid.to_string(),
                path: leg.path.clone(),
                state,
                copied_bytes,
                online: Some(leg.online),
                in_flight: Some(leg.in_flight),
                problem: leg.cause.map(reason),
            }
        });
        Ok(State {
            mirror: status.mirror.to_string(),
            generation: status.generation,
            bytes: status.geometry.length,
            region_bytes: status.geometry.region,
            unit_bytes: status.geometry.unit,
            marked_regions: Some(status.marked),
            redundant: status.redundant && status.legs.len() > 1,
            legs: legs.collect(),
            served: Some(Served {
                pid: std::process::id(),
                uris: self.uris.clone(),
                halted: status.halted,
                to_copy_bytes: status.to_copy,
                scrubbed_bytes: status.scrubbed,
            }),
        })
    }

    /// The leg with this path or UUID.
    fn find(&self, legs: &[(Uuid, Leg)], named: &Path) -> Result<Uuid, Refused> {
        let held = legs
            .iter()
            .find(|(_, leg)| legs::same(&leg.path, named) || leg.path == named);
        let uuid = match held {
            Some((uuid, _)) => Some(*uuid),
            None => named
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok()),
        };
        let members = self.status()?.legs;
        match uuid.filter(|uuid| members.iter().any(|leg| leg.member.uuid == *uuid)) {
            Some(uuid) => Ok(uuid),
            None => {
                let names = members.iter().map(|leg| {
                    match leg.name.contains(&leg.member.uuid.to_string()) {
                        true => leg.name.clone(),
                        false => format!("{} {}", leg.member.uuid, leg.name),
                    }
                });
                let names: Vec<String> = names.collect();
                let shown = named.display();
                Err(
                    Diagnostic::error(format!("the mirror has no leg `{shown}`"))
                        .hint(format!("its legs are {}", names.join(", ")))
                        .into(),
                )
            }
        }
    }

    fn changed(
        &self,
        request: impl FnOnce(Sender<Result<(), Errno>>) -> AdminRequest,
        explain: impl FnOnce(Errno) -> Refused,
    ) -> Result<(), Refused> {
        let (sender, receiver) = channel();
        self.handle.manage(request(sender));
        receiver.recv().map_err(|_| ended())?.map_err(explain)
    }

    /// Adds a leg, or re-adds a dropped one.
    fn add(
        &self,
        legs: &mut Vec<(Uuid, Leg)>,
        new: &Path,
        destroy: &[PathBuf],
        stream: &UnixStream,
    ) -> Result<Uuid, Refused> {
        let shown = new.display();
        if let Some((uuid, leg)) = legs.iter().find(|(_, leg)| leg.is_at(new)) {
            let uuid = *uuid;
            let status = self.status()?;
            let member = status.legs.iter().find(|leg| leg.member.uuid == uuid);
            let dropped = member.filter(|leg| !leg.online);
            if dropped.is_none_or(|leg| leg.cause == Some(Cause::Replaced)) {
                return Err(taken(leg, new, dropped.and_then(|leg| leg.cause)));
            }
            // It may have been dropped because it was shortened.
            format::fits(leg, self.geometry)?;
            let stored = self.recorded(uuid, leg, destroy)?;
            let explain = |errno| match errno {
                errno::EBUSY => {
                    let text =
                        format!("`{shown}` was dropped and has not returned all requests yet");
                    Diagnostic::error(text)
                        .hint("try again when the device answers")
                        .into()
                }
                errno => other("take back", new, errno),
            };
            let request = |reply| AdminRequest::Return {
                uuid,
                stored,
                reply,
            };
            self.changed(request, explain)?;
            note(stream, format!("`{shown}` was taken back and is copied to"));
            return Ok(uuid);
        }
        let others = legs.iter().map(|(_, other)| other);
        let leg = format::new_leg(new, destroy, others, (self.mirror, self.geometry))?;
        let uuid = Uuid::now_v7();
        let open = leg.open(&Roots::host())?;
        let explain = |errno| {
            match errno {
            errno::EMFILE => Diagnostic::error(
                "no more legs can be added: the server has two more than at its start, or legs that were removed have not returned all requests",
            )
            .hint("stop and start the server")
            .into(),
            errno::ENOSPC => Diagnostic::error("the mirror has had 16 legs since it was started")
                .hint("stop the server, change the legs, and start it again")
                .into(),
            errno => other("add", new, errno),
        }
        };
        let request = |reply| AdminRequest::Add {
            uuid,
            leg: open,
            reply,
        };
        self.changed(request, explain)?;
        legs.push((uuid, leg));
        note(stream, format!("`{shown}` was added and is copied to"));
        Ok(uuid)
    }

    /// The fork recorded on a dropped leg. `None`: it has other content, which may be overwritten. A file system made
    /// on it may leave one copy of the superblock, so both copies are required.
    fn recorded(
        &self,
        uuid: Uuid,
        leg: &Leg,
        destroy: &[PathBuf],
    ) -> Result<Option<Fork>, Refused> {
        match leg.own_superblocks(self.mirror, uuid) {
            [Some(one), Some(two)] => {
                let older = if two.generation < one.generation {
                    two
                } else {
                    one
                };
                Ok(Some(older.recorded()))
            }
            _ if destroy.iter().any(|named| leg.is_at(named)) => {
                leg.may_be_overwritten(destroy)?;
                Ok(None)
            }
            _ => {
                let shown = leg.path.display();
                let text = format!("cannot take back `{shown}`: it was overwritten");
                let word = shell_path(&leg.path);
                let hint = format!("to overwrite its content, add `--destroy {word}`");
                Err(Refused {
                    faults: vec![Diagnostic::error(text).hint(hint)],
                    by_guard: true,
                })
            }
        }
    }

    fn remove(
        &self,
        legs: &mut Vec<(Uuid, Leg)>,
        old: Uuid,
        stream: &UnixStream,
    ) -> Result<(), Refused> {
        let explain = |errno| {
            match errno {
            errno::EBUSY => Diagnostic::error("the leg is needed: no other leg has all of its content")
                .hint("`iodyno mirror status` shows what is still to be copied: try again when the others are in sync")
                .into(),
            errno => other("remove", Path::new(&old.to_string()), errno),
        }
        };
        self.changed(|reply| AdminRequest::Remove { uuid: old, reply }, explain)?;
        let Some(at) = legs.iter().position(|(uuid, _)| *uuid == old) else {
            return Ok(());
        };
        let shown = legs[at].1.path.display().to_string();
        let mut waited = Duration::ZERO;
        while self.status()?.in_flight_removed > 0 {
            if waited >= LAST_OPS {
                let text = format!(
                    "`{shown}` was removed, and stays open: it has not returned all requests"
                );
                note(stream, text);
                return Ok(());
            }
            thread::sleep(PROGRESS / 20);
            waited += PROGRESS / 20;
        }
        let (_, leg) = legs.swap_remove(at);
        let text = match format::wipe_own(&leg, self.mirror, old) {
            Ok(()) => format!("`{shown}` was removed"),
            Err(error) => format!(
                "`{shown}` was removed; its superblock remains: {}",
                error.message
            ),
        };
        note(stream, text);
        Ok(())
    }

    fn replace(
        &self,
        legs: &mut Vec<(Uuid, Leg)>,
        old: &Path,
        new: &Path,
        destroy: &[PathBuf],
        stream: &UnixStream,
    ) -> Result<(), Refused> {
        let old = self.find(legs, old)?;
        if let Some((uuid, leg)) = legs.iter().find(|(_, leg)| leg.is_at(new)) {
            let status = self.status()?;
            let mut dropped = status.legs.iter().filter(|leg| !leg.online);
            let dropped = dropped.find(|leg| leg.member.uuid == *uuid);
            return Err(taken(leg, new, dropped.and_then(|leg| leg.cause)));
        }
        let new = self.add(legs, new, destroy, stream)?;
        loop {
            let status = self.status()?;
            let state = |uuid| {
                let found = status.legs.iter().find(|leg| leg.member.uuid == uuid);
                found.map(|leg| (leg.member.state == LegState::InSync, leg.online))
            };
            match (state(old), state(new)) {
                (Some((true, true)), Some((false, true))) => {}
                (Some((true, true)), Some((_, false)) | None) => {
                    return Err(fault(
                        "the new leg failed while it was copied to; the old one stays",
                    ));
                }
                _ => return self.remove(legs, old, stream),
            }
            let length = status.geometry.length;
            let done = length.saturating_sub(status.to_copy);
            let _ = send_line(stream, &ControlReply::Progress(done, length));
            thread::sleep(PROGRESS / 4);
        }
    }

    fn scrub(&self, from: Option<&Path>, stream: &UnixStream) -> Result<(), Refused> {
        let status = self.status()?;
        let in_sync =
            (status.legs.iter()).filter(|leg| leg.online && leg.member.state == LegState::InSync);
        let in_sync: Vec<Uuid> = in_sync.map(|leg| leg.member.uuid).collect();
        if in_sync.len() < 2 {
            let text = "there is nothing to compare: fewer than two legs are in sync";
            return Err(fault(text));
        }
        let from = match from {
            None => None,
            Some(named) => {
                let uuid = self.find(&self.lock()?, named)?;
                if !in_sync.contains(&uuid) {
                    let shown = named.display();
                    return Err(fault(format!(
                        "`{shown}` is not in sync: it cannot be the leg that is right"
                    )));
                }
                Some(uuid)
            }
        };
        let (sender, found) = channel();
        let request = |reply| AdminRequest::Scrub {
            from,
            reply,
            found: sender,
        };
        let explain = |errno| match errno {
            errno::EBUSY => fault("the legs of this mirror are being compared already"),
            errno => other("compare", Path::new("the legs"), errno),
        };
        self.changed(request, explain)?;
        self.report(&found, stream)
    }

    /// Reports what a scrub finds, until it ends.
    fn report(
        &self,
        found: &Receiver<(Notice, Vec<String>)>,
        stream: &UnixStream,
    ) -> Result<(), Refused> {
        loop {
            let reply = match found.recv_timeout(PROGRESS) {
                Ok((Notice::Scrubbed { differ, unread }, _)) => {
                    let _ = send_line(stream, &ControlReply::Scrubbed(differ, unread));
                    return Ok(());
                }
                Ok((notice, names)) => ControlReply::Found(described(notice, &names)),
                Err(RecvTimeoutError::Timeout) => {
                    let status = self.status()?;
                    let done = status.scrubbed.unwrap_or_default();
                    ControlReply::Progress(done, status.geometry.length)
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
            };
            // The scrub continues if the command disconnects.
            let _ = send_line(stream, &reply);
        }
    }
}

fn other(doing: &str, what: &Path, errno: Errno) -> Refused {
    let error = io::Error::from_raw_os_error(errno);
    Diagnostic::error(format!("cannot {doing} `{}`: {error}", what.display()))
        .hint("`iodyno mirror status` shows what is wrong with the legs")
        .into()
}

/// A state in words, and the bytes copied to a leg that is behind.
pub fn state_of(state: LegState) -> (String, Option<u64>) {
    match state {
        LegState::InSync => ("in sync".to_owned(), None),
        LegState::Behind { copied } => ("behind".to_owned(), Some(copied)),
    }
}

/// The problem of a leg whose path no longer leads to it.
const REPLACED: &str = "its file was removed, renamed or replaced";

/// Why a leg was dropped.
fn reason(cause: Cause) -> String {
    let Failure { change, error } = match cause {
        Cause::Failed(failure) => failure,
        Cause::Silent => return "it does not answer".to_owned(),
        Cause::Short => return "it became shorter: all of it has to be copied".to_owned(),
        Cause::Replaced => return REPLACED.to_owned(),
        Cause::Overwritten => {
            return "somebody overwrote its superblock: all of it has to be copied".to_owned();
        }
        Cause::Source => {
            return "another leg was overwritten while it was copied to: all of it has to be copied"
                .to_owned();
        }
    };
    let doing = match change {
        Change::Write => "write data",
        Change::Copy => "write data that were copied from another leg",
        Change::Log => "write the write-intent log",
        Change::Superblock => "write the superblock",
        Change::Flush => "flush",
    };
    format!("cannot {doing}: {}", io::Error::from_raw_os_error(error))
}

/// A notice of a running mirror, in one line.
pub fn described(notice: Notice, names: &[String]) -> String {
    let range = |offset: u64, length: u32| format!("{length} bytes at byte {offset}");
    match notice {
        Notice::Recorded => "the state of the legs is recorded".to_owned(),
        Notice::Dropped { leg, cause: cause @ Cause::Replaced } => format!(
            "warning: {} is behind ({}): it gets no more I/O, and all of it has to be copied. `iodyno mirror replace` replaces it",
            names[leg],
            reason(cause)
        ),
        Notice::Last { leg, cause: Cause::Overwritten } => {
            format!("error: somebody overwrote the superblock of {}, the last leg in sync", names[leg])
        }
        Notice::Last { leg, .. } => format!(
            "warning: {}, the last leg in sync: {REPLACED}. It is still served: add another leg before the server is stopped",
            names[leg]
        ),
        Notice::Dropped { leg, cause } => format!(
            "warning: {} failed and is behind ({}): it gets no more I/O until `iodyno mirror add` takes it back, or `replace` replaces it",
            names[leg],
            reason(cause)
        ),
        Notice::Removed(leg) => format!("{} was removed", names[leg]),
        Notice::InSync(leg) => format!("{} is in sync", names[leg]),
        Notice::Repaired { leg, offset, length } => {
            format!("{} failed to read {} and was rewritten", names[leg], range(offset, length))
        }
        Notice::Unreadable { offset, length } => {
            format!("warning: no leg in sync can read {}", range(offset, length))
        }
        Notice::Differs { offset, length, repaired } => {
            let repaired = if repaired { ", overwritten" } else { "" };
            format!("legs differ in {}{repaired}", range(offset, length))
        }
        Notice::Scrubbed { differ, unread } => format!("compared: {differ} ranges differ, {unread} could not be read"),
        Notice::Refused(clients) => format!(
            "warning: a client was refused: {clients} are connected, which is the limit. More refusals are not reported"
        ),
        Notice::Halted => {
            "error: no leg accepts the record of the states of the legs: every request fails until the mirror is started again".to_owned()
        }
    }
}
