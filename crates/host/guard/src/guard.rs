//! The guard: decides whether a target may be opened, and opens it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use iodyno_host::block::DeviceNumber;
use iodyno_host::{Roots, mounts, nvme};
use iodyno_model::TargetUse;
use rustix::fs::{Access, AtFlags, CWD, OFlags, StatVfsMountFlags, accessat};

use crate::admitted::{Admitted, admitted};
use crate::file_uses;
use crate::links;
use crate::open::{Pinned, PinnedKind, create, open_flags};
use crate::own_writes::{Claim, Records};
use crate::paths::{discards, existing_folder_of, folder_of, holds_devices, image, mount_id};
use crate::refusal::{AdmitError, Reason, refused};
use crate::request::{Kind, Request};
use crate::survey::Survey;
use crate::uses::patiently;

/// Decides whether a target may be opened, and opens it.
#[derive(Debug)]
pub struct Guard {
    pub(crate) roots: Roots,
    /// Devices that this process writes: jobs on the same device share one claim.
    pub(crate) claims: Mutex<HashMap<DeviceNumber, Weak<Claim>>>,
    /// Files that are never admitted as targets.
    protected: Vec<PathBuf>,
    /// Targets are legs of a mirror, and its data begin at this offset.
    pub(crate) legs: Option<u64>,
    /// Records of iodyno's earlier writes; `None`: no records.
    pub(crate) records: Option<Records>,
    /// The host's swap and loop files, cached because a job can have thousands of files.
    files: Mutex<Option<(Instant, Survey)>>,
}

/// How long the survey of swap and loop files is valid.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Guard {
    /// A guard that reads the host's state from these roots.
    pub fn new(roots: Roots) -> Guard {
        Guard {
            roots,
            claims: Mutex::new(HashMap::new()),
            protected: Vec::new(),
            legs: None,
            records: None,
            files: Mutex::new(None),
        }
    }

    /// Uses the records in `folder` to recognise iodyno's own writes to devices, and updates them. Without records,
    /// every device that is not blank is refused. See [`device_records`](iodyno_host::device_records).
    #[must_use]
    pub fn with_records(self, folder: Option<PathBuf>) -> Guard {
        Guard {
            records: folder.map(Records::new),
            ..self
        }
    }

    /// Refuses these files as targets under any name, whether they exist yet or not.
    #[must_use]
    pub fn protecting(self, files: &[PathBuf]) -> Guard {
        Guard {
            protected: files.to_vec(),
            ..self
        }
    }

    /// Admits legs of iodyno's mirrors, whose data begin at this offset, with what the mirror holds. What else is
    /// found before that offset is still refused, and so is everything on a target without the signature of a leg.
    /// Not to be used with records: a leg must never count as written by a benchmark.
    #[must_use]
    pub fn of_legs(self, data: u64) -> Guard {
        Guard {
            legs: Some(data),
            records: None,
            ..self
        }
    }

    /// Opens a target, or returns every reason against it.
    ///
    /// # Errors
    /// [`AdmitError::Refused`] with all reasons; [`AdmitError::Failed`] if the kernel cannot open it for
    /// another reason.
    pub fn admit(&self, request: &Request<'_>) -> Result<Admitted, AdmitError> {
        let decision = self.open(request);
        match &decision {
            Ok(_) => tracing::debug!(path = %request.path.display(), "admitted"),
            Err(error) => tracing::debug!(path = %request.path.display(), %error, "not admitted"),
        }
        decision
    }

    /// Decides as [`Guard::admit`] does, but opens nothing for writing, creates, claims and records nothing. Returns
    /// how the target would be used.
    ///
    /// # Errors
    /// Those of [`Guard::admit`], except for errors of the calls that this function does not make.
    pub fn examine(&self, request: &Request<'_>) -> Result<TargetUse, AdmitError> {
        let Some(pinned) = self.existing(request)? else {
            return self.examine_creation(request);
        };
        self.verdict(request, &pinned, true)?;
        let changes = request.intent.changes();
        let mut access = Access::empty();
        access.set(Access::READ_OK, request.intent.read || !changes);
        access.set(Access::WRITE_OK, changes);
        may(request.path, access).map_err(|error| request.not_opened(error, false))?;
        Ok(match pinned.kind {
            PinnedKind::File | PinnedKind::Block(_) if changes => TargetUse::Overwrite,
            PinnedKind::Folder if changes => TargetUse::CreateIn,
            _ => TargetUse::Read,
        })
    }

    /// [`Self::examine`] for a file that would be created.
    fn examine_creation(&self, request: &Request<'_>) -> Result<TargetUse, AdmitError> {
        let folder = existing_folder_of(request.path);
        let not_made = |error| self.not_made(request, error);
        let pinned = Pinned::path(folder).map_err(not_made)?;
        if let Some(reason) = self.mount_reasons(request, &pinned) {
            return Err(refused(request, &pinned, vec![reason]));
        }
        may(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(not_made)?;
        Ok(TargetUse::Create)
    }

    /// Pins an existing target; `None`: it does not exist and may be created.
    fn existing(&self, request: &Request<'_>) -> Result<Option<Pinned>, AdmitError> {
        match self.pin(request.path) {
            Ok(pinned) => Ok(Some(pinned)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && request.creates() => {
                self.not_to_create(request).map_or(Ok(None), Err)
            }
            Err(error) => Err(request.not_opened(error, false)),
        }
    }

    /// Decides about an existing target. Returns notes on what is overwritten, or every reason against it. `content`:
    /// the content of a device is read in any case; see [`Guard::against_device`].
    fn verdict(
        &self,
        request: &Request<'_>,
        pinned: &Pinned,
        content: bool,
    ) -> Result<Vec<String>, AdmitError> {
        if let Some(reason) = planted(request, pinned) {
            return Err(refused(request, pinned, vec![reason]));
        }
        let reasons = match &pinned.kind {
            PinnedKind::File => self.against_file(request, pinned),
            PinnedKind::Folder => self.against_folder(request, pinned),
            PinnedKind::Block(number) if request.intent.changes() => {
                self.against_device(request, pinned, *number, content)
            }
            PinnedKind::Block(_) => Vec::new(),
            PinnedKind::Character(number) => against_character(request, *number),
            PinnedKind::Other(kind) => vec![Reason::WrongKind {
                kind: (*kind).to_owned(),
            }],
        };
        let outweighed = self.outweighed(request, pinned, &reasons);
        outweighed.ok_or_else(|| refused(request, pinned, reasons))
    }

    fn open(&self, request: &Request<'_>) -> Result<Admitted, AdmitError> {
        let pinned = match self.existing(request)? {
            Some(pinned) => pinned,
            None => match create(request.path, open_flags(request.intent, request.flags)) {
                Ok(descriptor) => return self.made(request, descriptor),
                // Another process created it first, or a symlink is dangling.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Pinned::path(request.path).map_err(|_| request.not_made(error))?
                }
                Err(error) => return Err(self.not_made(request, error)),
            },
        };
        let notes = self.verdict(request, &pinned, false)?;
        let (kind, flags) = match pinned.kind {
            PinnedKind::Block(number) => return self.admit_device(request, &pinned, number),
            PinnedKind::Folder => (Kind::Folder, OFlags::RDONLY | OFlags::DIRECTORY),
            // O_DIRECT has no effect on them, and some refuse it.
            PinnedKind::Character(_) => {
                let mut flags = request.flags;
                flags.direct = false;
                (Kind::NullDevice, open_flags(request.intent, flags))
            }
            PinnedKind::File | PinnedKind::Other(_) => {
                (Kind::File, open_flags(request.intent, request.flags))
            }
        };
        let direct = request.flags.direct && kind == Kind::File;
        let opened = pinned.open(flags);
        let descriptor = opened.map_err(|error| request.not_opened(error, direct))?;
        Ok(Admitted {
            notes,
            ..admitted(request, &pinned, kind, descriptor)
        })
    }

    /// Pins the inode at a path; for the character device of an NVMe namespace, that of its block device.
    fn pin(&self, path: &Path) -> io::Result<Pinned> {
        let pinned = Pinned::path(path)?;
        let PinnedKind::Character(number) = pinned.kind else {
            return Ok(pinned);
        };
        let Some(block) = nvme::block_of(&self.roots, number) else {
            return Ok(pinned);
        };
        let disk = Pinned::path(&self.roots.dev.join(&block.name))?;
        match disk.kind {
            PinnedKind::Block(found) if found == block.number => Ok(disk),
            _ => Ok(pinned),
        }
    }

    /// Reasons against writing to a block device, without signatures. Opens nothing. Empty if the path is
    /// not a block device.
    pub fn uses(&self, path: &Path) -> Vec<Reason> {
        let number = path
            .metadata()
            .ok()
            .filter(|metadata| metadata.file_type().is_block_device())
            .map(|metadata| DeviceNumber::of(metadata.rdev()));
        number.map_or_else(Vec::new, |number| self.judge(number, None))
    }

    fn made(&self, request: &Request<'_>, descriptor: OwnedFd) -> Result<Admitted, AdmitError> {
        let link = descriptor.try_clone().and_then(Pinned::descriptor);
        let pinned = link.map_err(|error| request.not_opened(error, false))?;
        Ok(Admitted {
            created: true,
            ..admitted(request, &pinned, Kind::File, descriptor)
        })
    }

    fn not_made(&self, request: &Request<'_>, error: io::Error) -> AdmitError {
        if error.kind() != io::ErrorKind::ReadOnlyFilesystem {
            return request.not_made(error);
        }
        match Pinned::path(folder_of(request.path)) {
            Ok(folder) => refused(request, &folder, vec![self.read_only(&folder)]),
            Err(_) => request.not_made(error),
        }
    }

    /// Refuses to create a protected file, or a file in a folder of device nodes, where a mistyped device
    /// name would create a file in memory.
    fn not_to_create(&self, request: &Request<'_>) -> Option<AdmitError> {
        let folder = Pinned::path(existing_folder_of(request.path)).ok()?;
        let protected = self.protected.iter().any(|file| {
            file.file_name() == request.path.file_name()
                && Pinned::path(folder_of(file)).is_ok_and(|other| other.file == folder.file)
        });
        let reasons = match protected {
            true => vec![Reason::Protected],
            false if holds_devices(&self.roots, &folder) => vec![Reason::AmongDevices],
            false => self.against_new(&folder, request.path.file_name()),
        };
        (!reasons.is_empty()).then(|| refused(request, &folder, reasons))
    }

    /// The reasons against a new file with this name in a folder.
    fn against_new(&self, folder: &Pinned, name: Option<&OsStr>) -> Vec<Reason> {
        self.surveyed(Instant::now, |survey| {
            let upper = survey.in_upper(&folder.resolved.join(name.unwrap_or_default()));
            upper
                .into_iter()
                .chain(survey.elsewhere(&self.roots, folder))
                .collect()
        })
    }

    /// Whether it is one of the protected files, under any name.
    fn protects(&self, pinned: &Pinned) -> bool {
        let mut files = self.protected.iter();
        files.any(|file| Pinned::path(file).is_ok_and(|other| other.file == pinned.file))
    }

    fn read_only(&self, pinned: &Pinned) -> Reason {
        let number = DeviceNumber::of(pinned.file.device);
        let id = mount_id(pinned);
        let point = mounts::containing(&mounts::own(&self.roots), &pinned.resolved, number, id)
            .map(|mount| mount.point.clone());
        Reason::ReadOnlyMount { point }
    }

    fn mount_reasons(&self, request: &Request<'_>, pinned: &Pinned) -> Option<Reason> {
        let read_only = rustix::fs::fstatvfs(pinned)
            .is_ok_and(|state| state.f_flag.contains(StatVfsMountFlags::RDONLY));
        (request.intent.changes() && read_only).then(|| self.read_only(pinned))
    }

    fn against_folder(&self, request: &Request<'_>, pinned: &Pinned) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = self.mount_reasons(request, pinned).into_iter().collect();
        if request.intent.changes() && holds_devices(&self.roots, pinned) {
            reasons.push(Reason::AmongDevices);
        }
        if request.intent.changes() {
            reasons.extend(self.against_new(pinned, Some(OsStr::new("new"))));
        }
        reasons
    }

    fn against_file(&self, request: &Request<'_>, pinned: &Pinned) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = self.mount_reasons(request, pinned).into_iter().collect();
        if self.protects(pinned) {
            reasons.push(Reason::Protected);
        }
        if request.intent.changes() {
            reasons.extend(self.file_uses(pinned));
            reasons.extend(image(pinned));
        }
        reasons
    }

    /// Notes on what is overwritten if permissions outweigh all reasons; otherwise `None`.
    pub(crate) fn outweighed(
        &self,
        request: &Request<'_>,
        pinned: &Pinned,
        reasons: &[Reason],
    ) -> Option<Vec<String>> {
        if self.destroys(request, pinned) {
            let all = reasons.iter().all(Reason::gives_way);
            return all.then(|| overwritten(reasons));
        }
        let legs = self.legs.filter(|_| reasons.iter().any(Reason::is_leg));
        let of_mirror = |reason: &Reason| match reason {
            Reason::Data { .. } => legs.is_some(),
            Reason::Signature { signature, .. } => {
                legs.is_some_and(|data| reason.is_leg() || signature.offset >= data)
            }
            _ => false,
        };
        reasons.iter().all(of_mirror).then(Vec::new)
    }

    /// Whether `--destroy` names this inode or device.
    fn destroys(&self, request: &Request<'_>, pinned: &Pinned) -> bool {
        let named = |path: &PathBuf| {
            self.pin(path)
                .is_ok_and(|other| match (&other.kind, &pinned.kind) {
                    (PinnedKind::Block(one), PinnedKind::Block(two)) => one == two,
                    (PinnedKind::File, PinnedKind::File) => other.file == pinned.file,
                    _ => false,
                })
        };
        request.destroy.iter().any(named)
    }

    /// How the host uses a file. A cached survey is sufficient if the file is not in use. If it is, the host is
    /// surveyed again, because the cached entry may belong to an earlier file with the same inode, and processes may
    /// use it only briefly.
    fn file_uses(&self, file: &Pinned) -> Vec<Reason> {
        patiently(|| self.file_uses_at(file, Instant::now))
    }

    fn file_uses_at(&self, file: &Pinned, now: impl Fn() -> Instant) -> Vec<Reason> {
        self.surveyed(now, |survey| {
            file_uses::of(&self.roots, survey, file, self.legs.is_some())
        })
    }

    /// The reasons that a recent survey shows, or if it shows any, a new one.
    fn surveyed(
        &self,
        now: impl Fn() -> Instant,
        uses: impl Fn(&Survey) -> Vec<Reason>,
    ) -> Vec<Reason> {
        let mut cached = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = now();
        let recent = |at: Instant| begun.saturating_duration_since(at) < LOOK_AGAIN;
        let known = cached.as_ref().filter(|(at, _)| recent(*at));
        let mut reasons = known.map_or_else(Vec::new, |(_, survey)| uses(survey));
        if known.is_none() || !reasons.is_empty() {
            let survey = Survey::take(&self.roots);
            // A survey may take longer than it is valid.
            let (_, survey) = cached.insert((now(), survey));
            reasons = uses(survey);
        }
        reasons
    }
}

impl Request<'_> {
    /// `direct`: with O_DIRECT.
    pub(crate) fn not_opened(&self, error: io::Error, direct: bool) -> AdmitError {
        AdmitError::failed(self.path, "open", error, direct)
    }

    fn not_made(&self, error: io::Error) -> AdmitError {
        AdmitError::failed(self.path, "create", error, self.flags.direct)
    }
}

/// The reason against changing what the last component of the path leads to, if it is a symlink of another user.
fn planted(request: &Request<'_>, pinned: &Pinned) -> Option<Reason> {
    let link = request.intent.changes() && !matches!(pinned.kind, PinnedKind::Folder);
    link.then(|| links::planted(request.path, pinned))?
}

/// Whether this user has this access to a path.
fn may(path: &Path, access: Access) -> io::Result<()> {
    Ok(accessat(CWD, path, access, AtFlags::EACCESS)?)
}

fn overwritten(reasons: &[Reason]) -> Vec<String> {
    let note = |reason| format!("overwritten because `--destroy` was given: {reason}");
    reasons.iter().map(note).collect()
}

fn against_character(request: &Request<'_>, number: DeviceNumber) -> Vec<Reason> {
    // random and urandom for reading.
    let random = number.major == 1 && matches!(number.minor, 8 | 9);
    let harmless = discards(number) || (random && !request.intent.changes());
    match harmless {
        true => Vec::new(),
        false => vec![Reason::WrongKind {
            kind: format!("a character device ({number})"),
        }],
    }
}

#[cfg(test)]
mod tests;
