//! Storage that iodyno makes for a configuration, in layers from the bottom up, and undoes again.
//!
//! Invariants: every change of the host is an [`Action`] whose intent is in the [journal](crate::journal) before it
//! begins. Actions are undone in reverse order. If making a target fails or is stopped, what was made so far is undone.
//! Only devices that the guard admitted are written. All names contain the token of the target.

mod action;
mod check;
mod clean;
mod fill;
mod host;
mod lock;
mod made;
mod mapped;
mod mirror;
mod nfs;
mod served;
#[cfg(test)]
mod tests;
mod throttle;
mod vm;
mod vm_image;
mod zfs;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iodyno_model::{
    CommandRun, Diagnostic, ExportUri, FileSystemKind, Layer, Limits, Pinning, Provision, ZfsLayer,
    ZfsOrigin,
};
use serde::{Deserialize, Serialize};

use crate::folders::{self, StateFolders};
use crate::guard::{Admitted, Guard, Intent, OpenFlags, Request};
use crate::identity::identify;
use crate::journal::{Header, Journal, JournalError};
use crate::mounts;
use crate::owner::{Owner, boot_id};
use crate::roots::{Roots, text};
use crate::space;

pub use action::Action;
use action::{By, Hands, current, number_of, same_value};
pub use clean::{Cleaned, Orphan, OtherUser, socket_name};
use host::ThisHost;
pub use host::started_for;
pub(crate) use host::{Host, word};
use throttle::OneWay;
pub use vm::Guest;

/// The longest time that making a file system, a pool or an image file may take.
const MAKE: Duration = Duration::from_secs(1800);
/// The longest time of another command.
const COMMAND: Duration = Duration::from_secs(120);
/// The longest time of a user's command, and until `ready` succeeds.
const SETUP: Duration = Duration::from_secs(600);
/// The interval at which `ready` is repeated, and at which a device node or a server is waited for.
const PAUSE: Duration = Duration::from_millis(200);
/// How often a device node or a server is waited for.
const TRIES: u32 = 50;
/// The beginning of the name of a target's folder. Its token follows.
const TARGET: &str = "iodyno-";
/// The image files of a `file` layer. The first one is what a `zfs` layer fills for a clone or a copy.
fn image_name(number: u32) -> String {
    format!("disk{number}.img")
}

/// A target to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProvisionRequest {
    /// Identifies it: at most 32 lowercase letters, digits and hyphens. Every name that iodyno gives contains it.
    pub token: String,
    /// The configuration for which it is made.
    pub configuration: String,
    /// What to make.
    pub provision: Provision,
    /// The arguments of `--destroy`.
    pub destroy: Vec<PathBuf>,
    /// Files that are never used as targets: those of the store.
    pub protected: Vec<PathBuf>,
    /// The token of the target that was made for [`Provision::golden`].
    #[serde(default)]
    pub golden: Option<String>,
}

/// A target that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provisioned {
    /// The folder, file or device for the trials.
    pub path: PathBuf,
    /// What is known of its layers: `ext4.options`, `zpool.status`, …
    pub facts: BTreeMap<String, String>,
    /// The commands that were run, in order.
    pub commands: Vec<CommandRun>,
    /// The virtual machines that carry the trials out. The layers above them are not made yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<Guest>,
    /// The server whose clients the jobs are: they use it in place of `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ExportUri>,
    /// The sockets on which its file servers tell what they counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<PathBuf>,
}

/// What a layer gives to the one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Storage {
    Nothing,
    Folder(PathBuf),
    Files(Vec<PathBuf>),
    Devices(Vec<PathBuf>),
}

impl Storage {
    fn paths(&self) -> &[PathBuf] {
        match self {
            Storage::Nothing => &[],
            Storage::Folder(path) => std::slice::from_ref(path),
            Storage::Files(paths) | Storage::Devices(paths) => paths,
        }
    }

    fn words(&self) -> Result<Vec<String>, Diagnostic> {
        let words = self.paths().iter().map(|path| word(path));
        words.collect::<Result<_, _>>().map_err(Diagnostic::error)
    }
}

/// Makes and undoes storage on a host.
pub(crate) struct Maker<'a> {
    pub(crate) host: &'a dyn Host,
    pub(crate) folders: StateFolders,
    /// The records of iodyno's writes to devices; see [`Guard::with_records`].
    pub(crate) records: Option<PathBuf>,
}

/// What undoing a target consisted of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TornDown {
    /// The commands that were run, in order.
    pub commands: Vec<CommandRun>,
    /// What remains, and why.
    pub faults: Vec<Diagnostic>,
}

/// What is wrong with these targets on this host: missing tools, permissions and space, refused devices. Changes
/// nothing. Empty: they can be made.
pub fn check(requests: &[ProvisionRequest], stop: &dyn Fn() -> bool) -> Vec<Diagnostic> {
    on_this_host(|maker| Ok(maker.check(requests, stop))).unwrap_or_else(|faults| faults)
}

/// Makes a target for the trials of `owner`. `told` gets each action before it begins.
///
/// # Errors
/// The cause, and what could not be undone: everything else was undone.
pub fn provision(
    request: &ProvisionRequest,
    owner: Owner,
    stop: &dyn Fn() -> bool,
    told: &dyn Fn(&str),
) -> Result<Provisioned, Vec<Diagnostic>> {
    on_this_host(|maker| maker.provision(request, owner, stop, told))
}

/// Takes a snapshot of a target, to which [`roll_back`] returns. It replaces the previous one.
///
/// # Errors
/// Its top layer has no snapshots, or a command failed.
pub fn snapshot(token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
    on_this_host(|maker| maker.snapshot(token, stop))
}

/// Returns a target to its snapshot.
///
/// # Errors
/// There is none, or a command failed.
pub fn roll_back(token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
    on_this_host(|maker| maker.roll_back(token, stop))
}

/// Empties the caches of a target's top layer that are not part of the page cache: those of a ZFS pool. `told` gets
/// what is waited for.
///
/// # Errors
/// A command failed; the target cannot be used any more.
pub fn empty_caches(
    token: &str,
    stop: &dyn Fn() -> bool,
    told: &dyn Fn(&str),
) -> Result<(), Vec<Diagnostic>> {
    on_this_host(|maker| maker.empty_caches(token, stop, told))
}

/// Makes the servers of a target ready for the next trial: one of virtio-fs is started anew, because it usually ends with its client.
///
/// # Errors
/// It cannot be started, or a setting of the host has another value than was set; the target cannot be used any more.
pub fn renew(token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
    on_this_host(|maker| maker.renew(token, stop))
}

/// Undoes targets at the same time. There is nothing to undo for a token without a target. If something remains, so does the
/// journal. `told` gets each action that is being undone.
pub fn tear_down(tokens: &[String], told: &(dyn Fn(&str) + Sync)) -> Vec<TornDown> {
    let undo = |token: &String| {
        on_this_host(|maker| Ok(maker.tear_down(token, told))).unwrap_or_else(|faults| TornDown {
            faults,
            ..TornDown::default()
        })
    };
    std::thread::scope(|scope| {
        let work = tokens.iter().map(|token| scope.spawn(move || undo(token)));
        let work: Vec<_> = work.collect();
        let ended = work.into_iter().map(|one| match one.join() {
            Ok(undone) => undone,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    })
}

/// Undoes the targets whose process has died, and removes the sockets of mirrors whose server has ended; with `dry_run`, only lists
/// them.
///
/// # Errors
/// It is not known where the journals are.
pub fn clean(dry_run: bool, told: &dyn Fn(&str)) -> Result<Cleaned, Vec<Diagnostic>> {
    on_this_host(|maker| {
        let mut cleaned = maker.clean(dry_run, told);
        let sockets = folders::socket_folder();
        clean::remove_sockets(&sockets, dry_run, &mut cleaned);
        Ok(cleaned)
    })
}

fn on_this_host<T>(
    work: impl FnOnce(&Maker<'_>) -> Result<T, Vec<Diagnostic>>,
) -> Result<T, Vec<Diagnostic>> {
    let Some(folders) = StateFolders::of_this_user() else {
        let message = "the folder of the journal is not known";
        let hint = "set HOME or XDG_STATE_HOME to an absolute path";
        return Err(vec![Diagnostic::error(message).hint(hint)]);
    };
    work(&Maker {
        host: &ThisHost::new(),
        folders,
        records: folders::state_folder(|name| std::env::var_os(name)),
    })
}

impl Maker<'_> {
    fn guard(&self, protected: &[PathBuf]) -> Guard {
        Guard::new(self.host.roots().clone())
            .with_records(self.records.clone())
            .protecting(protected)
    }

    fn provision(
        &self,
        request: &ProvisionRequest,
        owner: Owner,
        stop: &dyn Fn() -> bool,
        told: &dyn Fn(&str),
    ) -> Result<Provisioned, Vec<Diagnostic>> {
        let faults = self.check(std::slice::from_ref(request), stop);
        if !faults.is_empty() {
            return Err(faults);
        }
        let header = Header::new(
            &request.token,
            &request.configuration,
            boot_id(self.host.roots()),
            owner,
            request.provision.clone(),
        );
        let journal = Journal::begin(&self.folders.journals, header, self.host)
            .map_err(|error| vec![not_recorded(&error.to_string())])?;
        let guard = self.guard(&request.protected);
        let mut making = Making {
            hands: self.hands(&guard, &journal, stop, told),
            journal,
            mounts: self.folders.mounts.join(&request.token),
            request,
            facts: BTreeMap::new(),
            throttled: Vec::new(),
            flakey: Vec::new(),
            guests: Vec::new(),
            share: None,
            stats: Vec::new(),
        };
        match making.all() {
            Ok(path) => Ok(Provisioned {
                path,
                facts: making.facts,
                commands: making.hands.commands,
                guests: making.guests,
                share: making.share,
                stats: making.stats,
            }),
            Err(fault) => {
                let mut faults = vec![fault];
                let Making {
                    mut hands, journal, ..
                } = making;
                faults.extend(undo(&mut hands, journal, By::Owner).faults);
                Err(faults)
            }
        }
    }

    fn hands<'a>(
        &'a self,
        guard: &'a Guard,
        journal: &Journal,
        stop: &'a dyn Fn() -> bool,
        told: &'a dyn Fn(&str),
    ) -> Hands<'a> {
        Hands {
            host: self.host,
            guard,
            journals: &self.folders.journals,
            environment: journal.header.provision.env.clone(),
            mark: String::new(),
            inodes: made::inodes(&journal.steps),
            stop,
            told,
            commands: Vec::new(),
        }
    }

    /// The journal of a target on which no other process works any more; `None`: there is none.
    fn open(
        &self,
        token: &str,
        stop: &dyn Fn() -> bool,
        told: &dyn Fn(&str),
    ) -> Result<Option<Journal>, Vec<Diagnostic>> {
        let folder = &self.folders.journals;
        let path = Journal::path(folder, token);
        let opened = lock::wait_for(self.host, &path, stop, told, || {
            match Journal::open(folder, token) {
                Err(JournalError::Busy) => Ok(None),
                other => other.map(Some),
            }
        });
        match opened.and_then(|journal| journal.ok_or(JournalError::Busy)) {
            Ok(journal) => Ok(Some(journal)),
            Err(JournalError::Missing) => Ok(None),
            Err(error) => Err(vec![Diagnostic::error(format!(
                "cannot work on the target `{token}`: {error}"
            ))]),
        }
    }

    fn tear_down(&self, token: &str, told: &dyn Fn(&str)) -> TornDown {
        let journal = match self.open(token, &|| false, told) {
            Ok(Some(journal)) => journal,
            Ok(None) => return TornDown::default(),
            Err(faults) => {
                return TornDown {
                    faults,
                    ..TornDown::default()
                };
            }
        };
        let guard = self.guard(&[]);
        let mut hands = self.hands(&guard, &journal, &|| false, told);
        let faults = undo(&mut hands, journal, By::Owner).faults;
        TornDown {
            commands: hands.commands,
            faults,
        }
    }

    fn empty_caches(
        &self,
        token: &str,
        stop: &dyn Fn() -> bool,
        told: &dyn Fn(&str),
    ) -> Result<(), Vec<Diagnostic>> {
        let Some(journal) = self.open(token, stop, told)? else {
            return Err(vec![no_target(token)]);
        };
        let guard = self.guard(&[]);
        let mut hands = self.hands(&guard, &journal, stop, told);
        hands.mark = format!("{token}/caches");
        let links = self.folders.mounts.join(token).join("devices");
        zfs::empty_caches(&mut hands, &journal, &links).map_err(|fault| vec![fault])
    }

    fn renew(&self, token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
        let Some(journal) = self.open(token, stop, &|_| ())? else {
            // Nothing was made on it: it is a virtual machine of the target.
            return Ok(());
        };
        let guard = self.guard(&[]);
        let mut hands = self.hands(&guard, &journal, stop, &|_| ());
        let ready = served::renew(&mut hands, &journal);
        let ready = ready.and_then(|()| settings_in_force(self.host, &journal));
        ready.map_err(|fault| vec![fault])
    }

    fn snapshot(&self, token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
        self.on_snapshot(token, stop, |hands, top| match top {
            Top::Zfs(name) => {
                let snapshot = format!("{name}@rollback");
                let _ = hands.run(&["zfs", "destroy", &snapshot], COMMAND);
                hands.run(&["zfs", "snapshot", &snapshot], COMMAND)
            }
            Top::Btrfs(point) => {
                let (trial, kept) = (format!("{point}/trial"), format!("{point}/kept"));
                if Path::new(&kept).exists() {
                    hands.run(&["btrfs", "subvolume", "delete", &kept], COMMAND)?;
                }
                hands.run(
                    &["btrfs", "subvolume", "snapshot", "-r", &trial, &kept],
                    COMMAND,
                )
            }
        })
    }

    fn roll_back(&self, token: &str, stop: &dyn Fn() -> bool) -> Result<(), Vec<Diagnostic>> {
        self.on_snapshot(token, stop, |hands, top| match top {
            Top::Zfs(name) => {
                let snapshot = format!("{name}@rollback");
                hands.run(&["zfs", "rollback", "-r", &snapshot], COMMAND)
            }
            Top::Btrfs(point) => {
                let (trial, kept) = (format!("{point}/trial"), format!("{point}/kept"));
                if !Path::new(&kept).exists() {
                    return Err(Diagnostic::error(format!("`{point}` has no snapshot")));
                }
                hands.run(&["btrfs", "subvolume", "delete", &trial], COMMAND)?;
                hands.run(&["btrfs", "subvolume", "snapshot", &kept, &trial], COMMAND)
            }
        })
    }

    fn on_snapshot(
        &self,
        token: &str,
        stop: &dyn Fn() -> bool,
        work: impl FnOnce(&mut Hands<'_>, Top) -> Result<String, Diagnostic>,
    ) -> Result<(), Vec<Diagnostic>> {
        let Some(journal) = self.open(token, stop, &|_| ())? else {
            return Err(vec![no_target(token)]);
        };
        let layers = &journal.header.provision.layers;
        let top = match layers.first() {
            Some(Layer::Zfs(zfs)) if zfs.origin == ZfsOrigin::Copy => Top::Zfs(zfs::copies(token)),
            Some(Layer::Zfs(_)) => Top::Zfs(zfs::dataset(token)),
            Some(Layer::FileSystem {
                fs: FileSystemKind::Btrfs,
                ..
            }) => {
                let point = self.folders.mounts.join(token);
                let point = word(&point.join((layers.len() - 1).to_string()));
                Top::Btrfs(point.map_err(|why| vec![Diagnostic::error(why)])?)
            }
            other => {
                let kind = other.map_or("nothing", Layer::kind);
                let message = format!("`{kind}` has no snapshots to roll back to");
                let hint =
                    "use `zfs` or `btrfs` as the top layer, or remove `files = \"rollback\"`";
                return Err(vec![Diagnostic::error(message).hint(hint)]);
            }
        };
        let guard = self.guard(&[]);
        let mut hands = self.hands(&guard, &journal, stop, &|_| ());
        hands.mark = format!("{token}/snapshot");
        work(&mut hands, top).map(drop).map_err(|fault| vec![fault])
    }
}

/// A top layer that has snapshots.
enum Top {
    /// The dataset or volume.
    Zfs(String),
    /// The mount point.
    Btrfs(String),
}

fn no_target(token: &str) -> Diagnostic {
    Diagnostic::error(format!("there is no target `{token}`"))
}

fn not_recorded(why: &str) -> Diagnostic {
    let message = format!("cannot write the journal of the storage that is made: {why}");
    Diagnostic::error(message)
        .hint("nothing is made without a journal: free space, or check the permissions")
}

/// Undoes all steps of a journal in reverse order, and removes the journal. After a failure, only settings of the host are
/// undone, and the journal is kept.
fn undo(hands: &mut Hands<'_>, mut journal: Journal, by: By) -> Undone {
    hands.inodes = made::inodes(&journal.steps);
    let left = (0..journal.steps.len()).filter(|number| !journal.steps[*number].undone);
    let left: Vec<usize> = left.collect();
    if let Some(last) = left.last() {
        // Only the last one can have been interrupted.
        hands.mark = journal.mark(*last);
        hands.end_commands(journal.steps[*last].result.is_none());
    }
    for number in &left {
        hands.mark = journal.mark(*number);
        hands.calm(&journal.steps[*number].action);
    }
    let mut undone = Undone::default();
    for number in left.into_iter().rev() {
        let step = journal.steps[number].clone();
        // What is below the step that failed is in use. Settings of the host are not.
        let of_host = matches!(step.action, Action::Setting { device: None, .. });
        if !undone.faults.is_empty() && !of_host {
            continue;
        }
        hands.mark = journal.mark(number);
        let result = step.result.as_deref();
        if hands.in_place(&step.action, result, by) {
            let what = step.action.to_string();
            (hands.told)(&what);
            if let Err(fault) = hands.remove(&step.action, result) {
                let mut hint = "remove the cause, then run `iodyno clean`".to_owned();
                if matches!(
                    step.action,
                    Action::Setup { .. } | Action::Folder { .. } | Action::File { .. }
                ) {
                    let file = journal.path.display();
                    hint +=
                        &format!("; if nothing of the storage is left, remove the file `{file}`");
                }
                undone.faults.push(match fault.hint {
                    Some(_) => fault,
                    None => fault.hint(hint),
                });
                continue;
            }
            undone.done.push(what);
        }
        if let Err(error) = journal.undone(number, hands.host) {
            undone.faults.push(not_recorded(&error.to_string()));
            return undone;
        }
    }
    if undone.faults.is_empty()
        && let Err(error) = journal.remove()
    {
        undone.faults.push(not_recorded(&error.to_string()));
    }
    undone
}

/// What was undone of a target, in this order, and what remains.
#[derive(Debug, Default)]
struct Undone {
    done: Vec<String>,
    faults: Vec<Diagnostic>,
}

/// A target that is being made.
struct Making<'a> {
    hands: Hands<'a>,
    journal: Journal,
    /// The folder of its mount points.
    mounts: PathBuf,
    request: &'a ProvisionRequest,
    facts: BTreeMap<String, String>,
    /// The limits of each `throttle` layer, and its devices.
    throttled: Vec<(Limits, Vec<PathBuf>)>,
    /// The mapped devices that are to fail once the target is complete, each with its table.
    flakey: Vec<(String, String)>,
    guests: Vec<Guest>,
    /// The server of the top layer.
    share: Option<ExportUri>,
    /// The sockets on which file servers tell what they counted.
    stats: Vec<PathBuf>,
}

impl Making<'_> {
    /// Makes everything on this host. Returns the path for the trials; with virtual machines, their first disk.
    fn all(&mut self) -> Result<PathBuf, Diagnostic> {
        let provision = &self.request.provision;
        for (name, value) in &provision.sysctl {
            let path = check::sysctl_path(self.hands.host.roots(), name);
            self.setting(path, None, value)?;
        }
        if provision.setup.is_some() || provision.teardown.is_some() {
            self.step(Action::Setup {
                command: provision.setup.clone(),
                teardown: provision.teardown.clone(),
            })?;
        }
        if let Some(command) = &provision.ready {
            self.await_ready(command)?;
        }
        let mut storage = Storage::Nothing;
        let mut lowest = Vec::new();
        for (number, layer) in provision.layers.iter().rev().enumerate() {
            let made = self.layer(number, layer, &storage)?;
            let facts = self.describe(layer, &made);
            self.add_facts(layer.kind(), facts);
            if let Layer::Vm(_) = layer {
                storage = made;
                break;
            }
            if let (Storage::Devices(devices), true) = (&made, lowest.is_empty()) {
                lowest.clone_from(devices);
            }
            storage = made;
        }
        self.queue_settings(&lowest)?;
        for (limits, devices) in std::mem::take(&mut self.throttled) {
            // The check would have to be made in a guest.
            if !self.guests.is_empty() {
                let unchecked = "not checked through the virtual machine".to_owned();
                self.add_facts("throttle", vec![("limits", unchecked)]);
            } else if storage.paths() != devices {
                self.check_through(&storage, &limits, &devices)?;
            }
        }
        let kinds: Vec<&str> = provision.layers.iter().map(Layer::kind).collect();
        self.facts.insert("layers".to_owned(), kinds.join(" on "));
        let zfs_fills =
            |layer: &Layer| matches!(layer, Layer::Zfs(zfs) if zfs.origin != ZfsOrigin::New);
        if provision.fill > 0 && self.guests.is_empty() && !provision.layers.iter().any(zfs_fills) {
            self.fill(&storage, provision.fill)?;
        }
        self.begin_failures()?;
        settings_in_force(self.hands.host, &self.journal)?;
        let paths = storage.paths();
        paths
            .first()
            .cloned()
            .ok_or_else(|| Diagnostic::error("there is no layer"))
    }

    /// Sets the queues of the lowest devices, once everything above is made: file systems, and new sectors of a loop device,
    /// change them. Also sets again what that changed of the host. The scheduler comes first: a new one has its own defaults.
    fn queue_settings(&mut self, devices: &[PathBuf]) -> Result<(), Diagnostic> {
        let provision = &self.request.provision;
        for (name, value) in &provision.sysctl {
            let path = check::sysctl_path(self.hands.host.roots(), name);
            if current(self.hands.host, &path, None).is_ok_and(|now| !same_value(&now, value)) {
                self.setting(path, None, value)?;
            }
        }
        let (first, rest): (Vec<_>, Vec<_>) = provision
            .queue
            .iter()
            .partition(|(name, _)| *name == "scheduler");
        for device in devices {
            for (name, value) in first.iter().chain(&rest) {
                let path = queue_path(self.hands.host.roots(), device, name)?;
                self.setting(path, None, value)?;
            }
        }
        Ok(())
    }

    /// Does one thing, with its intent and its outcome in the journal.
    fn step(&mut self, action: Action) -> Result<String, Diagnostic> {
        if (self.hands.stop)() {
            return Err(Diagnostic::error("stopped while the target was made"));
        }
        (self.hands.told)(&action.to_string());
        let limit = match &action {
            Action::Setup { .. } => SETUP,
            Action::Run { .. } | Action::Device { .. } | Action::Pool { .. } => MAKE,
            _ => COMMAND,
        };
        let unrecorded = |error: std::io::Error| not_recorded(&error.to_string());
        let host = self.hands.host;
        let step = self
            .journal
            .intend(action.clone(), host)
            .map_err(unrecorded)?;
        self.hands.mark = self.journal.mark(step);
        let result = self.hands.perform(&action, limit)?;
        self.journal.done(step, &result, host).map_err(unrecorded)?;
        Ok(result)
    }

    fn run(&mut self, words: &[&str]) -> Result<(), Diagnostic> {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        self.step(Action::Run { command }).map(drop)
    }

    fn setting(
        &mut self,
        path: PathBuf,
        device: Option<String>,
        value: &str,
    ) -> Result<(), Diagnostic> {
        let now = current(self.hands.host, &path, device.as_deref()).map_err(|error| {
            Diagnostic::error(format!("cannot read `{}`: {error}", path.display()))
        })?;
        // If it was set before, the value from before that is restored.
        let mut steps = self.journal.steps.iter();
        let original = steps.find_map(|step| match &step.action {
            Action::Setting {
                path: set,
                device: of,
                before,
                ..
            } => ((set, of) == (&path, &device)).then(|| before.clone()),
            _ => None,
        });
        let (before, value) = (original.unwrap_or(now), value.to_owned());
        let action = Action::Setting {
            path,
            device,
            before,
            value,
        };
        self.step(action).map(drop)
    }

    fn await_ready(&mut self, command: &str) -> Result<(), Diagnostic> {
        let begun = Instant::now();
        (self.hands.told)(&format!("`{command}` until it succeeds"));
        self.hands.mark = format!("{}/ready", self.request.token);
        loop {
            match self.hands.shell(command, COMMAND) {
                Ok(_) => return Ok(()),
                Err(fault) if begun.elapsed() >= SETUP || (self.hands.stop)() => {
                    return Err(fault.hint("`ready` must succeed within 600 s"));
                }
                // The last attempt tells enough.
                Err(_) => drop(self.hands.commands.pop()),
            }
            self.hands.host.sleep(PAUSE);
        }
    }

    /// Makes the folder of a mount point, or of a server's files.
    fn mount_point(&mut self, name: &str) -> Result<PathBuf, Diagnostic> {
        self.inner_folder(name, false)
    }

    /// Makes a folder in that of the mount points. `empty`: see [`Action::Folder`].
    fn inner_folder(&mut self, name: &str, empty: bool) -> Result<PathBuf, Diagnostic> {
        if !self.mounts.exists() {
            let path = self.mounts.clone();
            self.step(Action::folder(path))?;
        }
        let path = self.mounts.join(name);
        self.step(Action::Folder {
            path: path.clone(),
            system: None,
            empty,
        })?;
        Ok(path)
    }

    fn layer(
        &mut self,
        number: usize,
        layer: &Layer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let name = number.to_string();
        match layer {
            Layer::Directory { path } => self.directory(path),
            Layer::Device { paths } => self.devices(paths),
            Layer::File {
                size,
                count,
                allocate,
            } => self.files(below, *size, *count, *allocate),
            Layer::Loop { direct, sector } => {
                let mut devices = Vec::new();
                for file in below.paths() {
                    devices.push(self.attach(file, *direct, *sector)?);
                }
                Ok(Storage::Devices(devices))
            }
            Layer::Zram {
                size,
                count,
                algorithm,
            } => self.zram(*size, *count, algorithm.as_ref()),
            Layer::Tmpfs { size } => {
                let source = format!("iodyno-{}", self.request.token);
                self.mount(&name, "tmpfs", source, vec![format!("size={size}")])
            }
            Layer::FileSystem { fs, mkfs, mount } => {
                self.file_system(&name, *fs, mkfs, mount, below)
            }
            Layer::Zfs(zfs) => self.zfs(&name, zfs, below),
            Layer::Overlay { mount } => self.overlay(&name, mount, below),
            Layer::Nfs(nfs) => self.nfs(&name, nfs, below),
            Layer::Throttle(limits) => self.throttle(limits, below),
            Layer::Delay {
                read_ns,
                write_ns,
                disks,
                pinning,
            } => match &disks[..] {
                [] => self.delay(&name, [*read_ns, *write_ns], pinning, below),
                disks => self.simulated_time(&name, disks, pinning, below),
            },
            Layer::Md(md) => self.md(&name, md, below),
            Layer::Dm(target) => self.dm(&name, target, below),
            Layer::Mirror(mirror) => self.mirror(&name, mirror, below),
            Layer::Virtiofs(server) => self.virtiofs(&name, server, below),
            Layer::Fuse(server) => self.fuse(&name, server, below),
            Layer::Vm(vm) => {
                let above = self
                    .request
                    .provision
                    .vm()
                    .map_or(&[][..], |(_, above)| above);
                self.vm(&name, vm, above, below.paths())?;
                let guest = self.guests.first();
                let disks = guest.map_or_else(Vec::new, |guest| guest.disks.clone());
                Ok(match (&vm.share, disks.first()) {
                    (Some(_), Some(folder)) => Storage::Folder(folder.clone()),
                    _ => Storage::Devices(disks),
                })
            }
        }
    }

    fn directory(&mut self, path: &Path) -> Result<Storage, Diagnostic> {
        let path = path.canonicalize().map_err(|error| {
            Diagnostic::error(format!(
                "cannot use the folder `{}`: {error}",
                path.display()
            ))
        })?;
        let path = path.join(format!("{TARGET}{}", self.request.token));
        // With image files in it, nothing else writes to it; those of a golden image are copied by commands.
        let layers = &self.request.provision.layers;
        let on_it = layers.iter().rev().nth(1);
        let images = matches!(on_it, Some(Layer::File { .. })) && self.request.golden.is_none();
        let folder = Action::outer_folder(path.clone(), images);
        self.step(folder)?;
        Ok(Storage::Folder(path))
    }

    fn devices(&mut self, paths: &[PathBuf]) -> Result<Storage, Diagnostic> {
        let admitted_to = std::process::id();
        let started = Owner::of(self.hands.host.roots(), admitted_to).map_or(0, |own| own.start);
        for path in paths {
            let admitted = admit(self.hands.guard, path, &self.request.destroy)?;
            self.step(Action::Device {
                path: path.clone(),
                identity: identify(path, self.hands.host.roots()),
                admitted_to,
                started,
            })?;
            drop(admitted);
            // Now that it is empty, everything on it is iodyno's own.
            let admitted = admit(self.hands.guard, path, &self.request.destroy)?;
            if let Some(device) = admitted.written_device() {
                // Without the record, the next run on it is refused.
                let _ = device.may_write(std::slice::from_ref(&(0..u64::MAX)));
            }
        }
        Ok(Storage::Devices(paths.to_vec()))
    }

    fn files(
        &mut self,
        below: &Storage,
        size: u64,
        count: u32,
        allocate: bool,
    ) -> Result<Storage, Diagnostic> {
        let folder = below.paths().first().cloned().unwrap_or_default();
        let golden = self.request.golden.as_ref();
        let golden = golden.map(|token| folder.with_file_name(format!("{TARGET}{token}")));
        let mut paths = Vec::new();
        for number in 0..count {
            let path = folder.join(image_name(number));
            if let Some(golden) = &golden {
                self.copied_disk(&golden.join(image_name(0)), &path, allocate)?;
                paths.push(path);
                continue;
            }
            // A clone has it already.
            if path.metadata().is_ok_and(|file| file.len() >= size) {
                paths.push(path);
                continue;
            }
            self.step(Action::File {
                path: path.clone(),
                size,
                allocate,
            })?;
            paths.push(path);
        }
        Ok(Storage::Files(paths))
    }

    fn attach(
        &mut self,
        file: &Path,
        direct: bool,
        sector: Option<u32>,
    ) -> Result<PathBuf, Diagnostic> {
        let file = file.to_owned();
        let device = self.step(Action::Loop {
            file,
            direct,
            sector,
        })?;
        let device = device.split(' ').next().unwrap_or_default();
        Ok(PathBuf::from(device))
    }

    fn zram(
        &mut self,
        size: u64,
        count: u32,
        algorithm: Option<&String>,
    ) -> Result<Storage, Diagnostic> {
        let mut devices = Vec::new();
        for _ in 0..count {
            devices.push(self.one_zram(size, algorithm)?);
        }
        Ok(Storage::Devices(devices))
    }

    fn one_zram(&mut self, size: u64, algorithm: Option<&String>) -> Result<PathBuf, Diagnostic> {
        // No other target is given this number.
        let _alone = self.hands.lock(self.hands.stop)?;
        let roots = self.hands.host.roots().clone();
        for _ in 0..TRIES {
            // The kernel gives the lowest free number.
            let block = roots.sys.join("block");
            let mut numbers = 0..;
            let number = numbers.find(|number| !block.join(format!("zram{number}")).exists());
            let made = self.step(Action::Zram {
                number: number.unwrap_or_default(),
                size,
                algorithm: algorithm.cloned(),
            })?;
            if !made.is_empty() {
                let number = made.split(' ').next().unwrap_or_default();
                return Ok(roots.dev.join(format!("zram{number}")));
            }
        }
        let message = "another program takes each new number of a compressed device";
        Err(Diagnostic::error(message).hint("end it, or try again later"))
    }

    fn mount(
        &mut self,
        name: &str,
        kind: &str,
        source: String,
        options: Vec<String>,
    ) -> Result<Storage, Diagnostic> {
        let point = self.inner_folder(name, true)?;
        self.step(Action::Mount {
            kind: kind.to_owned(),
            source,
            point: point.clone(),
            options,
        })?;
        Ok(Storage::Folder(point))
    }

    fn file_system(
        &mut self,
        name: &str,
        fs: FileSystemKind,
        mkfs: &[String],
        mount: &[String],
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let devices = below.words()?;
        let program = format!("mkfs.{}", fs.name());
        let mut words = vec![program.as_str(), "-q"];
        // Discarding would free the reserved blocks of the files below.
        let reserved = |layer: &Layer| matches!(layer, Layer::File { allocate: true, .. });
        let keep = self.request.provision.layers.iter().any(reserved);
        match (fs, keep) {
            (FileSystemKind::Ext4, _) => {
                // Otherwise the kernel writes the inode tables while trials run.
                let settled = match keep {
                    true => "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
                    false => "lazy_itable_init=0,lazy_journal_init=0",
                };
                words.push("-F");
                if !mkfs.iter().any(|word| word.starts_with("-E")) {
                    words.extend(["-E", settled]);
                }
            }
            (_, true) => words.extend(["-f", "-K"]),
            (_, false) => words.push("-f"),
        }
        words.extend(mkfs.iter().map(String::as_str));
        words.extend(devices.iter().map(String::as_str));
        self.run(&words)?;
        let mut options = mount.to_vec();
        // Without udev, the kernel does not know the other devices of the file system.
        let others = devices.iter().skip(1);
        options.extend(others.map(|device| format!("device={device}")));
        let source = devices.first().cloned().unwrap_or_default();
        let storage = self.mount(name, fs.name(), source, options)?;
        if fs != FileSystemKind::Btrfs {
            return Ok(storage);
        }
        // A subvolume can be replaced by a snapshot.
        let trial = storage.paths()[0].join("trial");
        let path = word(&trial).map_err(Diagnostic::error)?;
        self.run(&["btrfs", "subvolume", "create", &path])?;
        Ok(Storage::Folder(trial))
    }

    fn overlay(
        &mut self,
        name: &str,
        mount: &[String],
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let folder = below.words()?.remove(0);
        let mut options = Vec::new();
        for kind in ["lower", "upper", "work"] {
            let path = format!("{folder}/{kind}");
            self.step(Action::folder(PathBuf::from(&path)))?;
            options.push(format!("{kind}dir={path}"));
        }
        options.extend_from_slice(mount);
        let source = format!("iodyno-{}", self.request.token);
        self.mount(name, "overlay", source, options)
    }

    fn zfs(
        &mut self,
        name: &str,
        layer: &ZfsLayer,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let point = self.mount_point(name)?;
        let devices = self.vdevs(below)?;
        let token = &self.request.token;
        if !zfs::in_kernel(self.hands.host) {
            let log = self.mounts.join("zfs-fuse.log");
            let pinning = layer.pinning.clone();
            self.step(Action::ZfsFuse { log, pinning })?;
        }
        self.step(Action::Pool {
            name: zfs::pool(token),
            arguments: zfs::create(token, layer, &devices),
        })?;
        let data = zfs::dataset(token);
        let mount_point = word(&point).map_err(Diagnostic::error)?;
        if layer.origin == ZfsOrigin::New {
            self.create_data(&data, layer, &mount_point)?;
            return self.data(layer, &data, point);
        }
        let original = format!("{}/original", zfs::pool(token));
        let original_point = self.mount_point("original")?;
        let original_path = word(&original_point).map_err(Diagnostic::error)?;
        self.create_data(&original, layer, &original_path)?;
        let source = self.data(layer, &original, original_point)?;
        self.fill(&source, self.request.provision.fill)?;
        let snapshot = format!("{original}@original");
        self.run(&["zfs", "snapshot", &snapshot])?;
        let place = format!("mountpoint={mount_point}");
        match layer.volume {
            Some(_) => self.run(&["zfs", "clone", &snapshot, &data])?,
            None => self.run(&["zfs", "clone", "-o", &place, &snapshot, &data])?,
        }
        let made = self.data(layer, &data, point)?;
        if layer.origin == ZfsOrigin::Clone {
            return Ok(made);
        }
        let copies = self.mount_point("copy")?;
        let copies_path = word(&copies).map_err(Diagnostic::error)?;
        let plain = ZfsLayer {
            volume: None,
            ..layer.clone()
        };
        self.create_data(&zfs::copies(token), &plain, &copies_path)?;
        let from = match &made {
            Storage::Folder(folder) => folder.join(image_name(0)),
            other => other.paths()[0].clone(),
        };
        let to = copies.join(image_name(0));
        let words = [
            format!("if={}", from.display()),
            format!("of={}", to.display()),
        ];
        self.run(&["dd", &words[0], &words[1], "bs=1M", "conv=fsync"])?;
        Ok(Storage::Files(vec![to]))
    }

    fn create_data(&mut self, name: &str, layer: &ZfsLayer, point: &str) -> Result<(), Diagnostic> {
        let words = zfs::create_data(name, layer, point);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.run(&words)
    }

    /// Whether this process is in a guest, whose disks have names of their own.
    fn in_guest(&self) -> bool {
        let disk = iodyno_guest::disk_path(&self.request.token, 0);
        let own = |path: &PathBuf| path.parent() == disk.parent();
        let lowest = self.request.provision.layers.last();
        matches!(lowest, Some(Layer::Device { paths }) if paths.iter().all(own))
    }

    /// The devices or files of a pool. In a guest, which has no udev, disks are used by a partition.
    fn vdevs(&mut self, below: &Storage) -> Result<Vec<String>, Diagnostic> {
        let mut devices = below.words()?;
        if let (true, Storage::Devices(paths)) = (self.in_guest(), below) {
            for (device, path) in devices.iter_mut().zip(paths) {
                let found = zfs::partition(self.hands.host.roots(), path);
                let Some((command, partition)) = found else {
                    continue;
                };
                self.step(Action::Run { command })?;
                self.await_path(&partition)?;
                *device = word(&partition).map_err(Diagnostic::error)?;
            }
        }
        Ok(devices)
    }

    /// The folder of a dataset, or the device of a volume, which appears when the kernel has made it.
    fn data(
        &mut self,
        layer: &ZfsLayer,
        name: &str,
        point: PathBuf,
    ) -> Result<Storage, Diagnostic> {
        if layer.volume.is_none() {
            return Ok(Storage::Folder(point));
        }
        for _ in 0..TRIES {
            if let Some(device) = zfs::volume_device(self.hands.host.roots(), name) {
                return Ok(Storage::Devices(vec![device]));
            }
            if (self.hands.stop)() {
                break;
            }
            self.hands.host.sleep(PAUSE);
        }
        let message = format!("the device of the volume `{name}` did not appear within 10 s");
        Err(Diagnostic::error(message))
    }

    fn await_path(&mut self, path: &Path) -> Result<(), Diagnostic> {
        for _ in 0..TRIES {
            if path.exists() {
                return Ok(());
            }
            if (self.hands.stop)() {
                break;
            }
            self.hands.host.sleep(PAUSE);
        }
        Err(Diagnostic::error(format!(
            "`{}` did not appear within 10 s",
            path.display()
        )))
    }

    fn delay(
        &mut self,
        name: &str,
        spans_ns: [u64; 2],
        pinning: &Pinning,
        below: &Storage,
    ) -> Result<Storage, Diagnostic> {
        let mut devices = Vec::new();
        for (number, path) in below.words()?.into_iter().enumerate() {
            let point = self.mount_point(&format!("{name}-{number}"))?;
            let file = point.join("nbd");
            let [read, write] = spans_ns.map(|ns| ns / check::DELAY_UNIT_NS);
            let command = [
                "nbdfuse".to_owned(),
                word(&file).map_err(Diagnostic::error)?,
                "--command".to_owned(),
                "nbdkit".to_owned(),
                "--single".to_owned(),
                "--exit-with-parent".to_owned(),
                "--threads=64".to_owned(),
                "--filter=delay".to_owned(),
                "file".to_owned(),
                format!("file={path}"),
                format!("rdelay={read}ms"),
                format!("wdelay={write}ms"),
            ];
            let log = point.with_extension("log");
            self.step(Action::Server {
                command: pinning.command(&command),
                point,
                log: log.clone(),
            })?;
            if !pinning.is_none() {
                let cpus = self.hands.cpus_of(&self.hands.mark);
                self.add_facts("delay", vec![("server cpus", cpus)]);
            }
            let log = log.as_path();
            self.await_path(&file).map_err(|fault| {
                let said = text(log).unwrap_or_default();
                let message = format!("{}\n  cause: {said}", fault.message);
                Diagnostic { message, ..fault }
            })?;
            devices.push(self.attach(&file, true, None)?);
        }
        Ok(Storage::Devices(devices))
    }

    fn throttle(&mut self, limits: &Limits, below: &Storage) -> Result<Storage, Diagnostic> {
        for device in below.paths() {
            let number = number_of(self.hands.host, device)?;
            for (path, value) in throttle::settings(self.hands.host.roots(), limits)? {
                self.setting(path, Some(number.clone()), &value)?;
            }
        }
        (self.hands.told)("check of the limits of the devices");
        let achieved = throttle::check(self.hands.host, below.paths(), limits, self.hands.stop)?;
        self.add_facts("throttle", achieved);
        self.throttled.push((*limits, below.paths().to_vec()));
        Ok(below.clone())
    }

    /// Checks limits through the layers above: the kernel thread or server that does their I/O may not be in the control
    /// group.
    fn check_through(
        &mut self,
        top: &Storage,
        limits: &Limits,
        devices: &[PathBuf],
    ) -> Result<(), Diagnostic> {
        let request = self.request;
        let kind = request.provision.layers.first().map_or("", Layer::kind);
        (self.hands.told)(&format!("check of the limits through {kind}"));
        let (host, stop) = (self.hands.host, self.hands.stop);
        let failed = |error: io::Error| {
            let message = format!("cannot check the limits through `{kind}`: {error}");
            Diagnostic::error(message)
        };
        let mut achieved = Vec::new();
        let file = match top {
            Storage::Folder(folder) => folder.join("iodyno-check"),
            other => other.paths().first().cloned().unwrap_or_default(),
        };
        if let Storage::Folder(folder) = top {
            let free = space::room(folder).map_or(0, |room| room.bytes);
            let bytes = throttle::amount(limits, devices.len(), free);
            let before = throttle::counts(host, devices);
            let span = host.fill(&file, bytes, stop).map_err(failed)?;
            let moved = before.since(host, bytes, span);
            achieved.extend(throttle::holds_through(
                kind,
                OneWay::writes(limits),
                &moved,
            )?);
        }
        self.empty_caches()?;
        let before = throttle::counts(host, devices);
        let (bytes, span) = host
            .read_cold(&file, throttle::SPAN, stop)
            .map_err(failed)?;
        // Without a file of its own, it is not known whether there was anything to read.
        let bytes = match top {
            Storage::Folder(_) => bytes,
            _ => 0,
        };
        let moved = before.since(host, bytes, span);
        achieved.extend(throttle::holds_through(
            kind,
            OneWay::reads(limits),
            &moved,
        )?);
        if let Storage::Folder(_) = top {
            std::fs::remove_file(&file).map_err(failed)?;
        }
        self.add_facts("throttle", achieved);
        Ok(())
    }

    fn empty_caches(&mut self) -> Result<(), Diagnostic> {
        let links = self.mounts.join("devices");
        zfs::empty_caches(&mut self.hands, &self.journal, &links)
    }

    fn fill(&mut self, storage: &Storage, bytes: u64) -> Result<(), Diagnostic> {
        let path = match storage {
            Storage::Folder(folder) => folder.join(image_name(0)),
            other => other.paths().first().cloned().unwrap_or_default(),
        };
        (self.hands.told)(&format!("random data in {}", path.display()));
        fill::random_data(&path, bytes, self.hands.stop).map_err(|error| {
            Diagnostic::error(format!("cannot fill `{}`: {error}", path.display()))
        })
    }

    /// Adds facts under the name of a layer; the second layer of the same kind is `file2`.
    fn add_facts(&mut self, kind: &str, facts: Vec<(&str, String)>) {
        for (name, value) in facts {
            let mut numbers = 2..;
            let mut key = format!("{kind}.{name}");
            while self.facts.contains_key(&key) {
                key = format!("{kind}{}.{name}", numbers.next().unwrap_or(u32::MAX));
            }
            self.facts.insert(key, value);
        }
    }

    /// What is known of a layer that was made.
    fn describe(&mut self, layer: &Layer, made: &Storage) -> Vec<(&'static str, String)> {
        let roots = self.hands.host.roots().clone();
        match layer {
            Layer::FileSystem { .. }
            | Layer::Tmpfs { .. }
            | Layer::Overlay { .. }
            | Layer::Nfs(_)
            | Layer::Fuse(_) => {
                let path = &made.paths()[0];
                let mounts = mounts::own(&roots);
                let found = mounts
                    .iter()
                    .rev()
                    .find(|mount| path.starts_with(&mount.point));
                found
                    .map(|mount| {
                        let options = format!("{},{}", mount.options, mount.super_options);
                        ("options", without_repetitions(&options))
                    })
                    .into_iter()
                    .collect()
            }
            Layer::Loop { .. } => {
                let devices = made.paths().iter();
                let direct = devices.map(|device| {
                    let name = device.file_name().unwrap_or_default();
                    text(roots.sys.join("block").join(name).join("loop/dio")).unwrap_or_default()
                });
                let all = direct.collect::<Vec<_>>().iter().all(|value| value == "1");
                vec![("direct_io", if all { "on" } else { "off" }.to_owned())]
            }
            Layer::Zfs(zfs) => self.describe_zfs(zfs),
            _ => Vec::new(),
        }
    }

    fn describe_zfs(&mut self, layer: &ZfsLayer) -> Vec<(&'static str, String)> {
        let token = &self.request.token;
        let (pool, data) = (
            zfs::pool(token),
            match layer.origin {
                ZfsOrigin::Copy => zfs::copies(token),
                _ => zfs::dataset(token),
            },
        );
        let implementation = match zfs::in_kernel(self.hands.host) {
            true => "kernel",
            false => "zfs-fuse",
        };
        let mut facts = vec![("implementation", implementation.to_owned())];
        if !layer.pinning.is_none() {
            facts.push(("server cpus", zfs::server_cpus(&self.hands)));
        }
        let get = ["zfs", "get", "-H", "-o", "property,value", "all", &data];
        let status = ["zpool", "status", &pool];
        for (name, words) in [("properties", get.as_slice()), ("status", &status)] {
            facts.extend(self.hands.run(words, COMMAND).ok().map(|text| (name, text)));
        }
        facts
    }
}

/// `rw,noatime,rw` → `rw,noatime`.
fn without_repetitions(options: &str) -> String {
    let mut found: Vec<&str> = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        if !found.contains(&option) {
            found.push(option);
        }
    }
    found.join(",")
}

/// Reads the settings of the host back that were made for a target.
///
/// # Errors
/// One has another value.
fn settings_in_force(host: &dyn Host, journal: &Journal) -> Result<(), Diagnostic> {
    // Of several steps with the same file, the last one counts.
    let mut wanted: BTreeMap<&Path, &str> = BTreeMap::new();
    for step in journal.steps.iter().filter(|step| !step.undone) {
        if let Action::Setting {
            path,
            device: None,
            value,
            ..
        } = &step.action
        {
            // As it was read back when it was written; journals of earlier versions do not have it.
            let kept = step.result.as_deref().filter(|kept| !kept.is_empty());
            wanted.insert(path, kept.unwrap_or(value));
        }
    }
    for (path, value) in wanted {
        let shown = path.display();
        let now = current(host, path, None)
            .map_err(|error| Diagnostic::error(format!("cannot read `{shown}`: {error}")))?;
        if !same_value(&now, value) {
            let message = format!("the setting `{shown}` is `{now}` by now, not `{value}`");
            let hint = "another program on this host changes it: end it, or leave the setting out";
            return Err(Diagnostic::error(message).hint(hint));
        }
    }
    Ok(())
}

/// The file of a queue setting; partitions share their disk's queue.
fn queue_path(roots: &Roots, device: &Path, name: &str) -> Result<PathBuf, Diagnostic> {
    let block = mapped::block(roots, device)?;
    let disk = block.parent().unwrap_or(block);
    Ok(roots
        .sys
        .join("class/block")
        .join(disk.name)
        .join("queue")
        .join(name))
}

/// Has the guard admit a device whose content may be replaced.
fn admit(guard: &Guard, path: &Path, destroy: &[PathBuf]) -> Result<Admitted, Diagnostic> {
    let request = Request {
        path,
        intent: Intent::WRITE,
        flags: OpenFlags::default(),
        named: true,
        destroy,
    };
    guard.admit(&request).map_err(|error| error.diagnostic())
}
