//! A target that is being made: its steps, and what each layer gives to the one above it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iodyno_model::{Diagnostic, ExportUri, Layer, Limits};

use crate::journal::{Journal, not_recorded};

use super::action::Action;
use super::host::word;
use super::host_ops::{HostOps, cannot};
use super::request::{Guest, ProvisionRequest};
use super::settings::{current, keeping_others};

/// The longest time that making a file system, a pool or an image file may take.
pub(super) const MAKE: Duration = Duration::from_secs(1800);
/// The longest time of another command.
pub(super) const COMMAND: Duration = Duration::from_secs(120);
/// The longest time of a user's command, and until `ready` succeeds.
pub(super) const SETUP: Duration = Duration::from_secs(600);
/// The interval at which a command is repeated that is to succeed.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// The image files of a `file` layer. The first one is what a `zfs` layer fills for a clone or a copy.
pub(super) fn image_name(number: u32) -> String {
    format!("disk{number}.img")
}

/// What a layer gives to the one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Storage {
    Nothing,
    Folder(PathBuf),
    Files(Vec<PathBuf>),
    Devices(Vec<PathBuf>),
}

impl Storage {
    pub(super) fn paths(&self) -> &[PathBuf] {
        match self {
            Storage::Nothing => &[],
            Storage::Folder(path) => std::slice::from_ref(path),
            Storage::Files(paths) | Storage::Devices(paths) => paths,
        }
    }

    pub(super) fn words(&self) -> Result<Vec<String>, Diagnostic> {
        self.paths().iter().map(|path| word(path)).collect()
    }
}

/// Why a guest cannot be used.
pub(super) struct NotBooted {
    pub(super) fault: Box<Diagnostic>,
    /// It may only have been too slow.
    pub(super) slow: bool,
}

impl From<Diagnostic> for NotBooted {
    fn from(fault: Diagnostic) -> NotBooted {
        NotBooted {
            fault: Box::new(fault),
            slow: false,
        }
    }
}

/// A target that is being made.
pub(super) struct Making<'a> {
    pub(super) ops: HostOps<'a>,
    pub(super) journal: Journal,
    /// The folder of its mount points.
    pub(super) mounts: PathBuf,
    pub(super) request: &'a ProvisionRequest,
    pub(super) facts: BTreeMap<String, String>,
    /// The limits of each `throttle` layer, and its devices.
    pub(super) throttled: Vec<(Limits, Vec<PathBuf>)>,
    /// The mapped devices that are to fail once the target is complete, each with its table.
    pub(super) flakey: Vec<(String, String)>,
    pub(super) guests: Vec<Guest>,
    /// The server of the top layer.
    pub(super) share: Option<ExportUri>,
    /// The sockets on which file servers tell what they counted.
    pub(super) stats: Vec<PathBuf>,
    pub(super) notes: Vec<String>,
}

impl Making<'_> {
    /// Does one thing, with its intent and its outcome in the journal.
    pub(super) fn step(&mut self, action: Action) -> Result<String, Diagnostic> {
        if (self.ops.stop)() {
            return Err(Diagnostic::error("stopped while the target was made"));
        }
        (self.ops.progress)(&action.to_string());
        let limit = match &action {
            Action::Setup { .. } => SETUP,
            Action::Run { .. } | Action::Device { .. } | Action::Pool { .. } => MAKE,
            _ => COMMAND,
        };
        let unrecorded = |error: std::io::Error| not_recorded(&error.to_string());
        let host = self.ops.host;
        let step = self
            .journal
            .intend(action.clone(), host)
            .map_err(unrecorded)?;
        self.ops.mark = self.journal.mark(step);
        let steps = &self.journal.steps;
        let perform = |ops: &mut HostOps<'_>| ops.perform(&action, limit);
        let result = keeping_others(&mut self.ops, steps, &action, perform)?;
        self.journal.done(step, &result, host).map_err(unrecorded)?;
        Ok(result)
    }

    pub(super) fn run<W: AsRef<str>>(&mut self, words: &[W]) -> Result<(), Diagnostic> {
        let command = words.iter().map(|word| word.as_ref().to_owned()).collect();
        self.step(Action::Run { command }).map(drop)
    }

    /// Changes settings of the host. Reads all of them before it writes the first: the kernel changes some with others.
    pub(super) fn settings(&mut self, wanted: &[(PathBuf, &str)]) -> Result<(), Diagnostic> {
        let read = |(path, _): &(PathBuf, &str)| current(self.ops.host, path, None).ok();
        let before: Vec<Option<String>> = wanted.iter().map(read).collect();
        for ((path, value), before) in wanted.iter().zip(before) {
            self.setting(path.clone(), None, value, before)?;
        }
        Ok(())
    }

    /// `before`: its value before, if it was read.
    pub(super) fn setting(
        &mut self,
        path: PathBuf,
        device: Option<String>,
        value: &str,
        before: Option<String>,
    ) -> Result<(), Diagnostic> {
        let now = match before {
            Some(before) => before,
            None => current(self.ops.host, &path, device.as_deref())
                .map_err(|error| cannot("read", &path, &error))?,
        };
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

    /// Makes the folder of a mount point, or of a server's files.
    pub(super) fn mount_point(&mut self, name: &str) -> Result<PathBuf, Diagnostic> {
        self.inner_folder(name, false)
    }

    /// Makes a folder in that of the mount points. `empty`: see [`Action::Folder`].
    pub(super) fn inner_folder(&mut self, name: &str, empty: bool) -> Result<PathBuf, Diagnostic> {
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

    pub(super) fn mount(
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

    pub(super) fn attach(
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

    pub(super) fn await_path(&mut self, path: &Path) -> Result<(), Diagnostic> {
        let found = self.ops.wait_for(|_| path.exists().then_some(()));
        found.ok_or_else(|| {
            Diagnostic::error(format!("`{}` did not appear within 10 s", path.display()))
        })
    }

    /// Repeats a command until it succeeds, at most for this time. Only the last attempt is recorded.
    pub(super) fn repeat<W: AsRef<str>>(
        &mut self,
        words: &[W],
        limit: Duration,
    ) -> Result<(), Diagnostic> {
        let begun = Instant::now();
        loop {
            match self.ops.run(words, COMMAND) {
                Ok(_) => return Ok(()),
                Err(fault) if begun.elapsed() >= limit || (self.ops.stop)() => return Err(fault),
                Err(_) => drop(self.ops.commands.pop()),
            }
            self.ops.host.sleep(PAUSE);
        }
    }

    /// Adds facts under the name of a layer; the second layer of the same kind is `file2`.
    pub(super) fn add_facts(&mut self, kind: &str, facts: Vec<(&str, String)>) {
        for (name, value) in facts {
            let mut numbers = 2..;
            let mut key = format!("{kind}.{name}");
            while self.facts.contains_key(&key) {
                key = format!("{kind}{}.{name}", numbers.next().unwrap_or(u32::MAX));
            }
            self.facts.insert(key, value);
        }
    }

    /// Whether this process is in a guest, whose disks have names of their own.
    pub(super) fn in_guest(&self) -> bool {
        let disk = crate::guest::disk_path(&self.request.token, 0);
        let own = |path: &PathBuf| path.parent() == disk.parent();
        let lowest = self.request.provision.layers.last();
        matches!(lowest, Some(Layer::Device { paths }) if paths.iter().all(own))
    }
}
