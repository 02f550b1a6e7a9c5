//! The guard: only targets that the user named and that are not in use are written.
//!
//! A block device is written only if it was named, and is blank or contains only iodyno's own writes. A device in use
//! (mounted, swap, part of another device) is always refused. A device that contains data is refused unless
//! `--destroy` names exactly that device. The character device of an NVMe namespace is judged and claimed as its
//! block device. A named regular file may be overwritten, unless it contains a disk image or a file system: then
//! `--destroy` is needed as well. Nothing is created in folders of device nodes.
//!
//! Invariants: a path is resolved once, and all later steps use that inode. A device is checked before it is opened for
//! writing. While it is sampled, and for the lifetime of [`Admitted`], the kernel reserves it (O_EXCL), so that it
//! cannot be mounted. If the host cannot be examined, the guard refuses.

mod content;
mod device;
mod holes;
mod links;
mod medium;
mod open;
mod own_writes;
mod places;
mod refusal;
mod storage;
mod survey;
mod uses;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use iodyno_model::TargetUse;
use rustix::fs::{
    Access, AtFlags, CWD, FlockOperation, OFlags, StatVfsMountFlags, StatxFlags, accessat,
};
use rustix::io::Errno;

use crate::block::{Block, DeviceNumber};
use crate::mounts;
use crate::nvme;
use crate::roots::Roots;
use crate::signatures::{self, Signature};

use device::patiently;
pub use links::{
    among_devices, append_output, create_output, name_output, new_output, open_output,
    refuse_planted_link, unnamed_output,
};
use open::{Pinned, PinnedKind, create, open_flags, reopen};
use own_writes::{Claim, Records};
pub use own_writes::{WrittenDevice, state_folder};
pub(crate) use own_writes::{device_name, identity as device_identity};
pub use refusal::{AdmitError, Hold, Reason, Refusal};
pub use storage::share_storage;
use survey::Survey;

/// How a job uses a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intent {
    /// Whether it is read.
    pub read: bool,
    /// Whether it is written or laid out.
    pub write: bool,
    /// Whether blocks are deallocated.
    pub trim: bool,
    /// Whether the file is removed at the end.
    pub remove: bool,
}

impl Intent {
    /// Read only.
    pub const READ: Intent = Intent {
        read: true,
        write: false,
        trim: false,
        remove: false,
    };

    /// Read and write.
    pub const WRITE: Intent = Intent {
        read: true,
        write: true,
        trim: false,
        remove: false,
    };

    /// Whether existing data may be lost.
    pub fn changes(self) -> bool {
        self.write || self.trim || self.remove
    }
}

/// Flags for opening a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC.
    pub sync: bool,
    /// O_DSYNC.
    pub dsync: bool,
    /// Create a regular file if it does not exist (only if the intent changes data).
    pub create: bool,
}

/// A request to open a target.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Path.
    pub path: &'a Path,
    /// Intended use.
    pub intent: Intent,
    /// Flags.
    pub flags: OpenFlags,
    /// Whether the user wrote this path. Otherwise it was generated from a format and must not lead to a
    /// device.
    pub named: bool,
    /// The arguments of `--destroy`.
    pub destroy: &'a [PathBuf],
}

/// Type of an admitted target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A block device.
    BlockDevice(DeviceNumber),
    /// /dev/null, /dev/zero and similar, which are not storage.
    NullDevice,
}

/// An opened target. Until it is dropped, a written device is reserved against other exclusive users.
#[derive(Debug)]
pub struct Admitted {
    /// Path without symlinks.
    pub path: PathBuf,
    /// Type.
    pub kind: Kind,
    /// Descriptor, opened with the requested flags.
    pub descriptor: OwnedFd,
    /// Length in bytes; 0 for folders and null devices.
    pub length: u64,
    /// Alignment of offsets and lengths for direct I/O, bytes.
    pub logical_block_size: u32,
    /// Alignment of buffers for direct I/O, bytes.
    pub memory_alignment: u32,
    /// Whether the file was created by this request.
    pub created: bool,
    /// Notes for the user, such as a device that is read while it is in use.
    pub notes: Vec<String>,
    intent: Intent,
    /// The kernel's exclusive claim on a written device.
    claim: Option<Arc<Claim>>,
}

impl Admitted {
    /// Opens the same inode again, with its own position and flags.
    ///
    /// # Errors
    /// As open(2): most likely too many open files, or a file system without O_DIRECT.
    pub fn reopen(&self, flags: OpenFlags) -> io::Result<OwnedFd> {
        let access = match self.kind {
            Kind::Folder => OFlags::RDONLY | OFlags::DIRECTORY,
            _ => open_flags(self.intent, flags),
        };
        reopen(self.descriptor.as_fd(), access)
    }

    /// Opens the character device of this NVMe namespace, for commands past the block layer.
    ///
    /// # Errors
    /// It is not an NVMe namespace, or the kernel has no such devices; or as open(2).
    pub fn open_for_commands(&self, roots: &Roots) -> io::Result<OwnedFd> {
        let block = match self.kind {
            Kind::BlockDevice(number) => Block::find(roots, number).ok(),
            _ => None,
        };
        let device = block.and_then(|block| nvme::character_of(roots, &block));
        let Some((name, number)) = device else {
            let why = "it is not an NVMe namespace with a character device, such as `/dev/ng0n1` (Linux 5.13)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        };
        let pinned = Pinned::path(&roots.dev.join(name))?;
        match pinned.kind {
            PinnedKind::Character(found) if found == number => {
                pinned.open(open_flags(self.intent, OpenFlags::default()))
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The device, if this is a device that was admitted for writing.
    pub fn written_device(&self) -> Option<WrittenDevice> {
        self.claim.clone().map(WrittenDevice)
    }

    /// Whether the device rotates, or the disk of the file's file system; `false` if it is not known.
    pub fn rotates(&self, roots: &Roots) -> bool {
        let number = match self.kind {
            Kind::BlockDevice(number) => Some(number),
            _ => (rustix::fs::fstat(&self.descriptor).ok())
                .map(|state| DeviceNumber::of(state.st_dev)),
        };
        let block = number.and_then(|number| Block::find(roots, number).ok());
        let disk = block.map(|block| block.parent().unwrap_or(block));
        disk.and_then(|disk| disk.attribute("queue/rotational")) == Some("1".to_owned())
    }

    /// Whether ranges can become zeros without a write of them, as with fallocate(2) (FALLOC_FL_PUNCH_HOLE): a file,
    /// or a device that has a command for it. `false` if it is not known.
    pub fn zeroes(&self, roots: &Roots) -> bool {
        let Kind::BlockDevice(number) = self.kind else {
            return self.kind == Kind::File;
        };
        let block = Block::find(roots, number).ok();
        let disk = block.map(|block| block.parent().unwrap_or(block));
        let most = disk.and_then(|disk| disk.attribute("queue/write_zeroes_max_bytes"));
        most.is_some_and(|bytes| bytes != "0")
    }

    /// The current length; a file may have grown.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn length_now(&self) -> io::Result<u64> {
        match self.kind {
            Kind::File => Ok(rustix::fs::fstat(&self.descriptor)?.st_size as u64),
            _ => Ok(self.length),
        }
    }
}

impl AsFd for Admitted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Decides whether a target may be opened, and opens it.
#[derive(Debug)]
pub struct Guard {
    roots: Roots,
    /// Devices that this process writes: jobs on the same device share one claim.
    claims: Mutex<HashMap<DeviceNumber, Weak<Claim>>>,
    /// Files that are never admitted as targets.
    protected: Vec<PathBuf>,
    /// Targets are legs of a mirror, and its data begin at this offset.
    legs: Option<u64>,
    /// Records of iodyno's earlier writes; `None`: no records.
    records: Option<Records>,
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
    /// every device that is not blank is refused. See [`state_folder`].
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
        let decision = self.decide(request);
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
    /// As of [`Guard::admit`], as far as they can be foreseen.
    pub fn examine(&self, request: &Request<'_>) -> Result<TargetUse, AdmitError> {
        let failed = |source| AdmitError::failed(request.path, "open", source, false);
        let changes = request.intent.changes();
        let pinned = match self.pin(request.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && request.creates() => {
                return self.examine_creation(request);
            }
            other => other.map_err(failed)?,
        };
        if let Some(reason) = planted(request, &pinned) {
            return Err(refused(request, &pinned, vec![reason]));
        }
        let reasons = match &pinned.kind {
            PinnedKind::File => self.against_file(request, &pinned),
            PinnedKind::Folder => self.against_folder(request, &pinned),
            PinnedKind::Block(number) if changes => {
                self.against_device(request, &pinned, *number, true)
            }
            PinnedKind::Block(_) => Vec::new(),
            PinnedKind::Character(number) => against_character(request, *number),
            PinnedKind::Other(kind) => vec![Reason::WrongKind {
                kind: (*kind).to_owned(),
            }],
        };
        if self.outweighed(request, &pinned, &reasons).is_none() {
            return Err(refused(request, &pinned, reasons));
        }
        let mut access = Access::empty();
        access.set(Access::READ_OK, request.intent.read || !changes);
        access.set(Access::WRITE_OK, changes);
        may(request.path, access).map_err(failed)?;
        Ok(match pinned.kind {
            PinnedKind::File | PinnedKind::Block(_) if changes => TargetUse::Overwrite,
            PinnedKind::Folder if changes => TargetUse::CreateIn,
            _ => TargetUse::Read,
        })
    }

    /// [`Self::examine`] for a file that would be created.
    fn examine_creation(&self, request: &Request<'_>) -> Result<TargetUse, AdmitError> {
        if let Some(refusal) = self.not_to_create(request) {
            return Err(refusal);
        }
        let folder = existing_folder_of(request.path);
        let not_made = |error| self.not_made(request, error);
        let pinned = Pinned::path(folder).map_err(not_made)?;
        if let Some(reason) = self.mount_reasons(request, &pinned) {
            return Err(refused(request, &pinned, vec![reason]));
        }
        may(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(not_made)?;
        Ok(TargetUse::Create)
    }

    fn decide(&self, request: &Request<'_>) -> Result<Admitted, AdmitError> {
        let failed = |source| AdmitError::failed(request.path, "open", source, false);
        let pinned = match self.pin(request.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && request.creates() => {
                if let Some(refusal) = self.not_to_create(request) {
                    return Err(refusal);
                }
                match create(request.path, open_flags(request.intent, request.flags)) {
                    Ok(descriptor) => return self.made(request, descriptor),
                    // Another process created it first, or a symlink is dangling.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        Pinned::path(request.path).map_err(|_| request.not_made(error))?
                    }
                    Err(error) => return Err(self.not_made(request, error)),
                }
            }
            other => other.map_err(failed)?,
        };
        if let Some(reason) = planted(request, &pinned) {
            return Err(refused(request, &pinned, vec![reason]));
        }
        match pinned.kind {
            PinnedKind::File => self.admit_file(request, &pinned),
            PinnedKind::Folder => self.admit_folder(request, &pinned),
            PinnedKind::Block(number) => self.admit_device(request, &pinned, number),
            PinnedKind::Character(number) => admit_character(request, &pinned, number),
            PinnedKind::Other(kind) => Err(refused(
                request,
                &pinned,
                vec![Reason::WrongKind {
                    kind: kind.to_owned(),
                }],
            )),
        }
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
        let failed = |source| AdmitError::failed(request.path, "open", source, false);
        let link = descriptor.try_clone().and_then(Pinned::descriptor);
        let pinned = link.map_err(failed)?;
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
        let reason = match protected {
            true => Reason::Protected,
            false if holds_devices(&self.roots, &folder) => Reason::AmongDevices,
            false => return None,
        };
        Some(refused(request, &folder, vec![reason]))
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
        reasons
    }

    fn admit_folder(&self, request: &Request<'_>, pinned: &Pinned) -> Result<Admitted, AdmitError> {
        let reasons = self.against_folder(request, pinned);
        if !reasons.is_empty() {
            return Err(refused(request, pinned, reasons));
        }
        let descriptor = pinned
            .open(OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|source| AdmitError::failed(request.path, "open", source, false))?;
        Ok(admitted(request, pinned, Kind::Folder, descriptor))
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

    fn admit_file(&self, request: &Request<'_>, pinned: &Pinned) -> Result<Admitted, AdmitError> {
        let reasons = self.against_file(request, pinned);
        let Some(notes) = self.outweighed(request, pinned, &reasons) else {
            return Err(refused(request, pinned, reasons));
        };
        let descriptor = pinned
            .open(open_flags(request.intent, request.flags))
            .map_err(|source| {
                AdmitError::failed(request.path, "open", source, request.flags.direct)
            })?;
        Ok(Admitted {
            notes,
            ..admitted(request, pinned, Kind::File, descriptor)
        })
    }

    /// Notes on what is overwritten if permissions outweigh all reasons; otherwise `None`.
    fn outweighed(
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
        patiently(|| self.file_uses_at(file, Instant::now()))
    }

    fn file_uses_at(&self, file: &Pinned, now: Instant) -> Vec<Reason> {
        let uses = |survey: &Survey| {
            let (path, legs) = (&file.resolved, self.legs.is_some());
            let identities = survey.identities(file.file, path);
            let mut reasons = survey.file(&identities);
            reasons.extend(survey.in_upper(path));
            reasons.extend(survey.processes_of(&self.roots, &identities, path, legs));
            if reasons.is_empty() {
                reasons.extend(self.lock(file, survey));
            }
            reasons
        };
        let mut cached = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |at: Instant| now.saturating_duration_since(at) < LOOK_AGAIN;
        let known = cached.as_ref().filter(|(at, _)| recent(*at));
        let mut reasons = known.map_or_else(Vec::new, |(_, survey)| uses(survey));
        if known.is_none() || !reasons.is_empty() {
            let (_, survey) = cached.insert((now, Survey::take(&self.roots)));
            reasons = uses(survey);
        }
        reasons
    }

    /// A lock of a process that cannot be seen, such as one of another PID namespace. A lock of flock(2) is found by
    /// an attempt, unless one is listed that may be iodyno's own. A mirror locks its legs itself.
    fn lock(&self, file: &Pinned, survey: &Survey) -> Option<Reason> {
        let descriptor = file.open(OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
        let attempt = || rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive);
        let process = match iodyno_sys::host::file_lock(descriptor.as_fd()) {
            Ok(Some(process)) => u32::try_from(process).ok().filter(|process| *process > 0),
            _ if self.legs.is_some() || survey.is_locked(file.file) => return None,
            _ if attempt() == Err(Errno::WOULDBLOCK) => None,
            _ => return None,
        };
        let name = file.resolved.file_name().unwrap_or_default();
        Some(Reason::OpenedBy {
            device: name.to_string_lossy().into_owned(),
            process,
            command: "not visible here".to_owned(),
            hold: Hold::Locked,
        })
    }
}

impl Request<'_> {
    fn creates(&self) -> bool {
        self.flags.create && self.intent.changes()
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

/// Whether it is a folder of device nodes: on devtmpfs, or below /dev and on the same file system as
/// /dev. File systems mounted below /dev, such as /dev/shm, are ordinary file systems.
fn holds_devices(roots: &Roots, folder: &Pinned) -> bool {
    let number = DeviceNumber::of(folder.file.device);
    let mounts = mounts::own(roots);
    let mount = mounts::containing(&mounts, &folder.resolved, number, mount_id(folder));
    let below = |path: &Path| path.starts_with(&roots.dev);
    let own = |point: &Path| point != roots.dev && below(point);
    match mount {
        Some(mount) if mount.file_system == "devtmpfs" => true,
        Some(mount) => below(&folder.resolved) && !own(&mount.point),
        None => below(&folder.resolved),
    }
}

/// The parent folder of a path.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The closest folder above a path that exists: missing ones are created in it.
fn existing_folder_of(path: &Path) -> &Path {
    let mut folder = folder_of(path);
    while !folder.exists() && folder_of(folder) != folder {
        folder = folder_of(folder);
    }
    folder
}

/// Content of a regular file that needs `--destroy`: a disk image, a file system, a partition table. Empty
/// for files that are empty or cannot be read.
fn image(pinned: &Pinned) -> Vec<Reason> {
    let Ok(descriptor) = pinned.open(OFlags::RDONLY) else {
        return Vec::new();
    };
    let file = File::from(descriptor);
    let mut found = signatures::probe_file(&file, pinned.length).unwrap_or_default();
    let look = |found: &mut Vec<Signature>, places: Vec<Range<u64>>| {
        for place in places {
            let read = |buffer: &mut [u8], offset| file.read_exact_at(buffer, place.start + offset);
            let there = signatures::probe_reads(place.end - place.start, read).unwrap_or_default();
            found.extend(there.into_iter().map(|signature| Signature {
                offset: signature.offset + place.start,
                ..signature
            }));
        }
    };
    look(&mut found, places::in_file(pinned.length));
    if found.iter().all(Signature::weak) {
        look(&mut found, places::copies_in_file(pinned.length));
    }
    let name = pinned.resolved.file_name().unwrap_or_default();
    let device = name.to_string_lossy().into_owned();
    found
        .into_iter()
        .filter(|signature| !signature.weak())
        .map(|signature| Reason::Signature {
            device: device.clone(),
            signature,
        })
        .collect()
}

fn overwritten(reasons: &[Reason]) -> Vec<String> {
    let note = |reason| format!("overwritten because `--destroy` was given: {reason}");
    reasons.iter().map(note).collect()
}

/// Whether it is null, zero or full, which do not store written data.
fn discards(number: DeviceNumber) -> bool {
    number.major == 1 && matches!(number.minor, 3 | 5 | 7)
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

fn admit_character(
    request: &Request<'_>,
    pinned: &Pinned,
    number: DeviceNumber,
) -> Result<Admitted, AdmitError> {
    let reasons = against_character(request, number);
    if !reasons.is_empty() {
        return Err(refused(request, pinned, reasons));
    }
    // O_DIRECT has no effect on them, and some refuse it.
    let flags = OpenFlags {
        direct: false,
        ..request.flags
    };
    let descriptor = pinned
        .open(open_flags(request.intent, flags))
        .map_err(|source| AdmitError::failed(request.path, "open", source, false))?;
    Ok(admitted(request, pinned, Kind::NullDevice, descriptor))
}

fn admitted(request: &Request<'_>, pinned: &Pinned, kind: Kind, descriptor: OwnedFd) -> Admitted {
    // Kernels before 6.1 do not report it; every device on them supports or emulates 512 bytes.
    let (memory, offset) = direct_alignment(descriptor.as_fd()).unwrap_or((512, 512));
    Admitted {
        path: pinned.resolved.clone(),
        kind,
        descriptor,
        length: if kind == Kind::File { pinned.length } else { 0 },
        logical_block_size: offset,
        memory_alignment: memory,
        created: false,
        notes: Vec::new(),
        intent: request.intent,
        claim: None,
    }
}

/// Alignment that direct I/O needs for buffers and offsets, bytes; `None` if the kernel does not report it
/// or direct I/O is not supported.
fn direct_alignment(descriptor: BorrowedFd<'_>) -> Option<(u32, u32)> {
    let state = rustix::fs::statx(
        descriptor,
        "",
        rustix::fs::AtFlags::EMPTY_PATH,
        StatxFlags::DIOALIGN,
    )
    .ok()?;
    (state.stx_dio_offset_align > 0)
        .then_some((state.stx_dio_mem_align.max(1), state.stx_dio_offset_align))
}

fn mount_id(pinned: &Pinned) -> Option<u64> {
    crate::stack::mount_id(pinned.as_fd())
}

fn refused(request: &Request<'_>, pinned: &Pinned, findings: Vec<Reason>) -> AdmitError {
    AdmitError::Refused(Box::new(Refusal {
        path: request.path.to_owned(),
        resolved: pinned.resolved.clone(),
        device: match pinned.kind {
            PinnedKind::Block(number) => Some(number),
            _ => None,
        },
        intent: request.intent,
        findings: dedup(findings),
    }))
}

/// Removes duplicates and keeps the order.
fn dedup(reasons: Vec<Reason>) -> Vec<Reason> {
    let mut unique: Vec<Reason> = Vec::new();
    for reason in reasons {
        if !unique.contains(&reason) {
            unique.push(reason);
        }
    }
    unique
}

#[cfg(test)]
mod tests;
