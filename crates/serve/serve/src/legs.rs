//! Legs: opened by the guard, locked, and their stored metadata.
//!
//! A writable leg is held exclusively: a device by the kernel (O_EXCL), a file by flock. Its superblock is read only
//! after that.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_guard::{AdmitError, Admitted, Guard, Intent, Kind, OpenFlags, Request};
use iodyno_host::Roots;
use iodyno_mirror::assembly::{self, Assembly, Fault};
use iodyno_mirror::core::{self, Mirror, Stored};
use iodyno_mirror::intent::Bits;
use iodyno_mirror::superblock::{BLOCK, COPIES, DATA, LOG, Superblock, Unreadable};
use iodyno_model::Diagnostic;
use iodyno_model::printable::shell_path;
use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

use crate::queue::OpenLeg;
use crate::split_brain::SplitBrain;

/// An open leg, or a candidate.
#[derive(Debug)]
pub struct Leg {
    /// Path as given.
    pub path: PathBuf,
    admitted: Admitted,
    /// Opened without O_DIRECT: superblock and log are written by it, before and after the mirror runs.
    file: File,
    /// Opened with O_DIRECT, where that is possible: they are read by it. The storage below a device may have changed
    /// since its pages were read, and pages that another process maps are kept.
    direct: Option<File>,
}

/// A block in memory, as O_DIRECT needs it.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

impl Leg {
    /// Length, bytes.
    pub fn length(&self) -> u64 {
        let now = match self.admitted.kind {
            Kind::File => self.file.metadata().ok(),
            _ => None,
        };
        now.map_or(self.admitted.length, |metadata| metadata.len())
    }

    /// Alignment of direct I/O, bytes.
    pub fn alignment(&self) -> u32 {
        self.admitted.logical_block_size
    }

    /// Refuses a leg on which direct I/O of the mirror's `unit` fails. For a file with shared extents, XFS reports the
    /// alignment of writes that do not need the page cache; smaller ones go through it.
    pub(crate) fn takes(&self, unit: u32) -> Result<(), Diagnostic> {
        let mut block = Aligned([0; BLOCK]);
        let part = &mut block.0[..unit as usize];
        let direct = self.direct.as_ref();
        let works = self.alignment() <= unit
            || direct.is_some_and(|direct| direct.read_at(part, unit.into()).is_ok());
        if works {
            return Ok(());
        }
        let (shown, needed) = (self.path.display(), self.alignment());
        let fault = format!(
            "`{shown}` needs I/O aligned to {needed} bytes, and the mirror was made for {unit}"
        );
        Err(Diagnostic::error(fault).hint("use a device with smaller blocks, or a file on one"))
    }

    /// Whether it is a block device.
    pub fn device(&self) -> bool {
        matches!(self.admitted.kind, Kind::BlockDevice(_))
    }

    /// Whether this path leads to it.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let own = self.file.metadata().ok();
        let found = path.metadata().ok();
        own.zip(found)
            .is_some_and(|(own, found)| identity(&own) == identity(&found))
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The superblock, and which copy it is.
    ///
    /// # Errors
    /// If no copy is valid.
    pub fn superblock(&self) -> Result<(Superblock, usize), Unreadable> {
        let copies = self.superblocks();
        Superblock::newest([copies[0].as_deref(), copies[1].as_deref()])
    }

    /// Both copies; `None`: it cannot be read.
    fn superblocks(&self) -> [Option<Box<[u8; BLOCK]>>; 2] {
        COPIES.map(|offset| self.block(offset).map(Box::new))
    }

    /// The copies of the superblock of this leg of this mirror; `None`: there is another content.
    pub(crate) fn own_superblocks(&self, mirror: Uuid, leg: Uuid) -> [Option<Superblock>; 2] {
        COPIES.map(|offset| {
            let block = self.block(offset);
            let (found, _) = Superblock::newest([block.as_ref(), None]).ok()?;
            ((found.mirror, found.leg) == (mirror, leg)).then_some(found)
        })
    }

    /// Refuses to overwrite a file that others use by now. A device is held exclusively.
    pub(crate) fn may_be_overwritten(&self, destroy: &[PathBuf]) -> Result<(), Refused> {
        if self.device() {
            return Ok(());
        }
        let request = Request {
            path: &self.path,
            intent: Intent::WRITE,
            flags: OpenFlags::default(),
            named: true,
            destroy,
        };
        let examined = Guard::new(Roots::host()).examine(&request);
        examined.map(drop).map_err(|error| Refused {
            faults: vec![error.diagnostic()],
            by_guard: error.refusal().is_some(),
        })
    }

    /// Reads a block; `None` if that fails. Past the end of a file it is zero.
    fn block(&self, offset: u64) -> Option<[u8; BLOCK]> {
        match self.read(offset) {
            Ok(block) => Some(block),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some([0; BLOCK]),
            Err(_) => None,
        }
    }

    fn read(&self, offset: u64) -> std::io::Result<[u8; BLOCK]> {
        let mut block = Aligned([0; BLOCK]);
        if let Some(direct) = &self.direct {
            return match direct.read_at(&mut block.0, offset)? {
                BLOCK => Ok(block.0),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        // This only affects the cache, so an error does not matter.
        let length = std::num::NonZeroU64::new(BLOCK as u64);
        let _ = rustix::fs::fadvise(&self.file, offset, length, rustix::fs::Advice::DontNeed);
        self.file.read_exact_at(&mut block.0, offset)?;
        Ok(block.0)
    }

    /// Writes a block; it is durable after [`Self::sync`].
    pub(crate) fn write(&self, offset: u64, block: &[u8; BLOCK]) -> Result<(), Diagnostic> {
        (self.file.write_all_at(block, offset)).map_err(|error| self.fault("write to", &error))
    }

    pub(crate) fn sync(&self) -> Result<(), Diagnostic> {
        (self.file.sync_all()).map_err(|error| self.fault("flush", &error))
    }

    /// The leg as [`crate::queue::run`] needs it.
    pub(crate) fn open(&self, roots: &Roots) -> Result<OpenLeg, Diagnostic> {
        let descriptor = (self.admitted.as_fd().try_clone_to_owned())
            .map_err(|error| self.fault("open", &error))?;
        Ok(OpenLeg {
            name: format!("`{}`", self.path.display()),
            path: std::path::absolute(&self.path).ok(),
            descriptor: Some(descriptor),
            zeroes: self.admitted.zeroes(roots),
            rotational: self.admitted.rotates(roots),
            delay: None,
        })
    }

    fn fault(&self, doing: &str, error: &io::Error) -> Diagnostic {
        Diagnostic::error(format!("cannot {doing} `{}`: {error}", self.path.display()))
    }
}

/// How legs are opened.
#[derive(Debug, Clone, Copy)]
pub enum Purpose<'a> {
    /// Only read. The legs may be in use.
    Look,
    /// Legs of a mirror that is started or changed.
    Use,
    /// Makes them legs. Content is overwritten only on the paths listed here.
    Create(&'a [PathBuf]),
}

/// Opens all these legs.
///
/// # Errors
/// All problems of all legs, and whether the guard refused one.
pub fn open(paths: &[PathBuf], purpose: Purpose<'_>) -> Result<Vec<Leg>, Refused> {
    let roots = Roots::host();
    let guard = match purpose {
        Purpose::Use => Guard::new(roots).of_legs(DATA),
        _ => Guard::new(roots),
    };
    let mut refused = Refused::default();
    let mut legs: Vec<Leg> = Vec::new();
    for path in paths {
        if let Some(other) = legs.iter().find(|leg| same(&leg.path, path)) {
            refused.add(Diagnostic::error(match other.path == *path {
                true => format!("`{}` is given twice", path.display()),
                false => format!(
                    "`{}` and `{}` are the same",
                    other.path.display(),
                    path.display()
                ),
            }));
            continue;
        }
        match open_one(path, purpose, &guard) {
            Ok(leg) => legs.push(leg),
            Err(one) => {
                refused.by_guard |= one.by_guard;
                refused.faults.extend(one.faults);
            }
        }
    }
    if refused.faults.is_empty() && !matches!(purpose, Purpose::Look) {
        let pairs = legs.iter().enumerate();
        let pairs = pairs.map(|(at, leg)| check_distinct(leg, &legs[..at]));
        refused.faults.extend(pairs.filter_map(Result::err));
    }
    match refused.faults.is_empty() {
        true => Ok(legs),
        false => Err(refused),
    }
}

/// Refuses a leg that has storage in common with another one.
pub(crate) fn check_distinct<'a>(
    leg: &Leg,
    others: impl IntoIterator<Item = &'a Leg>,
) -> Result<(), Diagnostic> {
    let roots = Roots::host();
    let mut others = others.into_iter();
    let common = others.find(|other| iodyno_guard::share_storage(&leg.file, &other.file, &roots));
    common.map_or(Ok(()), |other| {
        Err(Diagnostic::error(format!(
            "`{}` and `{}` are on the same file or device: a write to one may change the other",
            other.path.display(),
            leg.path.display()
        ))
        .hint("use files or devices with nothing in common below them"))
    })
}

/// Why legs were not opened.
#[derive(Debug, Default)]
pub struct Refused {
    /// All faults.
    pub faults: Vec<Diagnostic>,
    /// Whether one was refused because it is in use, or because of its content.
    pub by_guard: bool,
}

impl Refused {
    fn add(&mut self, fault: Diagnostic) {
        self.faults.push(fault);
    }
}

impl From<Diagnostic> for Refused {
    fn from(fault: Diagnostic) -> Refused {
        vec![fault].into()
    }
}

impl From<Vec<Diagnostic>> for Refused {
    fn from(faults: Vec<Diagnostic>) -> Refused {
        Refused {
            faults,
            by_guard: false,
        }
    }
}

/// Whether two paths lead to the same file or device.
pub fn same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| Some(identity(&path.metadata().ok()?));
    identity(one).is_some_and(|id| identity(other) == Some(id))
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    match metadata.rdev() {
        0 => (metadata.dev(), metadata.ino()),
        device => (0, device),
    }
}

fn open_one(path: &Path, purpose: Purpose<'_>, guard: &Guard) -> Result<Leg, Refused> {
    let shown = path.display();
    let (intent, destroy) = match purpose {
        Purpose::Look => (Intent::READ, &[][..]),
        Purpose::Use => (Intent::WRITE, &[][..]),
        Purpose::Create(destroy) => (Intent::WRITE, destroy),
    };
    let direct = !matches!(purpose, Purpose::Look);
    let request = Request {
        path,
        intent,
        flags: OpenFlags {
            direct,
            ..OpenFlags::default()
        },
        named: true,
        destroy,
    };
    let admitted = (guard.admit(&request)).map_err(|error| not_admitted(&error, path, purpose))?;
    if !matches!(admitted.kind, Kind::File | Kind::BlockDevice(_)) {
        let fault = format!("`{shown}` is neither a file nor a block device");
        return Err(Diagnostic::error(fault).into());
    }
    let failed = |error: &dyn std::fmt::Display| {
        Diagnostic::error(format!("cannot open `{shown}`: {error}"))
    };
    let file = admitted.reopen(OpenFlags::default());
    let file = File::from(file.map_err(|error| failed(&error))?);
    let past_cache = OpenFlags {
        direct: true,
        ..OpenFlags::default()
    };
    let direct_file = match admitted.logical_block_size as usize <= BLOCK {
        true => admitted.reopen(past_cache).ok().map(File::from),
        false => None,
    };
    if direct && admitted.kind == Kind::File {
        lock(&file).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => Refused {
                faults: vec![
                    Diagnostic::error(format!(
                        "`{shown}` is in use: another process has locked it"
                    ))
                    .hint("stop the server of this mirror first"),
                ],
                by_guard: true,
            },
            error => failed(&error).into(),
        })?;
    }
    if let Purpose::Create(destroy) = purpose {
        used(path, &admitted, &file, destroy)?;
    }
    Ok(Leg {
        path: path.to_owned(),
        admitted,
        file,
        direct: direct_file,
    })
}

/// The errors of a leg that the guard does not admit.
fn not_admitted(error: &AdmitError, path: &Path, purpose: Purpose<'_>) -> Refused {
    let shown = path.display();
    let by_guard = error.refusal().is_some();
    let fault = match (error, purpose) {
        (AdmitError::Failed { source, .. }, _)
            if source.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) =>
        {
            Diagnostic::error(format!(
                "cannot open `{shown}`: its file system does not support O_DIRECT"
            ))
            .hint("use a file on another file system, such as ext4 or XFS, or a device")
        }
        (AdmitError::Failed { source, .. }, _) if source.kind() == io::ErrorKind::NotFound => {
            let fault = Diagnostic::error(format!("cannot open `{shown}`: there is no such file"));
            fault.hint(match purpose {
                Purpose::Create(_) => "check the name; a file that shall become a leg is made with `truncate -s SIZE`",
                Purpose::Use | Purpose::Look => "check the name; if the leg is lost, leave it out, or name it by its UUID to remove or replace it: `iodyno mirror status` of the other legs shows it",
            })
        }
        (_, Purpose::Use) if error.needs_destroy() => Diagnostic::error(format!(
            "`{shown}` is not a leg of a mirror, or was overwritten: {}",
            reasons(error)
        ))
        .hint("`iodyno mirror status` shows legs, `iodyno mirror create` makes them"),
        _ => error.diagnostic(),
    };
    Refused {
        faults: vec![fault],
        by_guard,
    }
}

/// Locks a file. Waits for a server that was killed: its ring lives on for a moment.
fn lock(file: &File) -> rustix::io::Result<()> {
    let mut patience = 50;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if patience > 0 => {
                patience -= 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn reasons(error: &AdmitError) -> String {
    let findings = error.refusal().map(|refusal| refusal.findings.as_slice());
    let texts: Vec<String> = (findings.unwrap_or_default().iter())
        .map(ToString::to_string)
        .collect();
    texts.join("; ")
}

/// Refuses to overwrite a file that contains anything, unless it is named. The guard checks devices.
fn used(path: &Path, admitted: &Admitted, file: &File, destroy: &[PathBuf]) -> Result<(), Refused> {
    let file_to_keep =
        admitted.kind == Kind::File && !destroy.iter().any(|other| same(path, other));
    match file_to_keep && !blank(file) {
        false => Ok(()),
        true => {
            let shown = path.display();
            let fault = Diagnostic::error(format!("cannot overwrite `{shown}`: it contains data"));
            Err(Refused {
                faults: vec![fault.hint(format!(
                    "to overwrite its content, add `--destroy {}`",
                    shell_path(path)
                ))],
                by_guard: true,
            })
        }
    }
}

/// Whether a regular file consists of holes.
pub(crate) fn blank(file: &File) -> bool {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0)) == Err(rustix::io::Errno::NXIO)
}

/// The metadata on the legs of one mirror.
#[derive(Debug)]
pub struct AssembledLegs {
    /// The mirror.
    pub assembly: Assembly,
    /// The metadata on each leg of the table.
    stored: Vec<Stored>,
    /// Each block of the log, as stored on each given leg.
    logs: Vec<Vec<Bits>>,
}

impl AssembledLegs {
    /// Number of regions that the log marks.
    pub fn marked(&self) -> usize {
        let merged = self.logs.iter().map(|legs| {
            let mut all = Bits::none();
            legs.iter().for_each(|bits| all.add(bits));
            all.iter().count()
        });
        merged.sum()
    }

    /// The valid copy of a leg's superblock.
    pub(crate) fn valid(&self, leg: usize) -> usize {
        self.stored[leg].copy
    }

    /// The mirror, ready to start.
    pub fn mirror(self, settings: core::Settings) -> Mirror {
        let line = Some(new_line());
        let settings = core::Settings { line, ..settings };
        Mirror::new(self.assembly, &self.logs, &self.stored, settings)
    }
}

/// The number of a new line of a mirror.
pub(crate) fn new_line() -> u64 {
    // The last 62 bits of a UUID are random.
    Uuid::now_v7().as_u128() as u64
}

/// Assembles a mirror. With `degraded`, legs in sync may be missing.
///
/// # Errors
/// Everything that prevents it.
pub fn assemble(legs: &[Leg], degraded: bool) -> Result<AssembledLegs, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let mut superblocks = Vec::new();
    let mut copies = Vec::new();
    for leg in legs {
        let blocks = leg.superblocks();
        match Superblock::newest([blocks[0].as_deref(), blocks[1].as_deref()]) {
            Ok((superblock, copy)) => {
                superblocks.push(superblock);
                copies.push((copy, blocks));
            }
            Err(error) => faults.push(unreadable(leg, error)),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    // A fork needs a number that no other has.
    let line = degraded.then(new_line);
    let explained = |faults: Vec<Fault>| explain_all(&faults, legs, &superblocks);
    let assembly = assembly::assemble(&superblocks, line).map_err(explained)?;
    let geometry = assembly.geometry;
    for leg in legs {
        let shown = leg.path.display();
        let needed = DATA + geometry.length;
        if leg.length() < needed {
            let length = leg.length();
            let text = format!(
                "`{shown}` became too short: it has {length} bytes, and the mirror needs {needed}"
            );
            faults.push(Diagnostic::error(text).hint(
                "start the mirror without it before you make it longer, by `iodyno serve mirror --degraded` if it is in sync: then all of it is copied. Otherwise, what it lost would be read as zeros",
            ));
        }
        faults.extend(leg.takes(geometry.unit).err());
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut newest = vec![0; legs.len()];
    let logs = (0..assembly.log_blocks()).map(|index| {
        let blocks = legs.iter().zip(&mut newest).map(|(leg, newest)| {
            let block = leg.block(LOG + index * BLOCK as u64);
            let (bits, write) = assembly.decode_log(block.as_ref(), index);
            *newest = write.max(*newest);
            bits
        });
        blocks.collect()
    });
    let logs: Vec<Vec<Bits>> = logs.collect();
    let stored = assembly.parts.iter().map(|part| {
        let given = part.given.map(|at| (copies[at].clone(), newest[at]));
        given.map_or_else(Stored::default, |((copy, superblocks), log)| Stored {
            superblocks,
            copy,
            log,
        })
    });
    let stored = stored.collect();
    let marked = (logs.iter().flatten()).any(|bits| bits.iter().next().is_some());
    let assembly = (assembly.with_logs(&superblocks, &newest, marked)).map_err(explained)?;
    Ok(AssembledLegs {
        stored,
        logs,
        assembly,
    })
}

/// The descriptors for [`crate::queue::run`], in the order of the mirror's table.
///
/// # Errors
/// As open(2).
pub fn descriptors(assembly: &Assembly, legs: &[Leg]) -> Result<Vec<OpenLeg>, Diagnostic> {
    let roots = Roots::host();
    let open = |part: &assembly::Part| {
        let Some(leg) = part.given.map(|given| &legs[given]) else {
            return Ok(OpenLeg {
                name: format!("leg {}", part.member.uuid),
                path: None,
                descriptor: None,
                zeroes: false,
                rotational: false,
                delay: None,
            });
        };
        leg.open(&roots)
    };
    assembly.parts.iter().map(open).collect()
}

/// The fault of a leg without a valid superblock.
pub fn unreadable(leg: &Leg, error: Unreadable) -> Diagnostic {
    let path = leg.path.display();
    let mut copies = COPIES.iter();
    let failed = copies.find_map(|offset| leg.read(*offset).err());
    if let (Unreadable::Damaged, Some(cause)) = (error, failed) {
        let message =
            format!("cannot use `{path}` as a leg: its superblock cannot be read: {cause}");
        return Diagnostic::error(message)
            .hint(
                "name another leg; `iodyno serve mirror --degraded` serves the mirror without this one, and `iodyno mirror replace` replaces it",
            );
    }
    let fault = Diagnostic::error(format!("cannot use `{path}` as a leg: {error}"));
    match error {
        Unreadable::Absent => fault.hint("`iodyno mirror create` makes legs"),
        Unreadable::Damaged => {
            fault.hint("`iodyno serve mirror --degraded` serves the mirror without it, and `iodyno mirror replace` replaces it")
        }
        Unreadable::Version(_) => fault.hint("use the version of iodyno that made it"),
    }
}

/// Faults of the assembly with the paths of the legs.
fn explain_all(faults: &[Fault], legs: &[Leg], stored: &[Superblock]) -> Vec<Diagnostic> {
    let split = |fault: &Fault| match *fault {
        Fault::SplitBrain { one, two } => Some((one, two)),
        _ => None,
    };
    let pairs: Vec<(usize, usize)> = faults.iter().filter_map(split).collect();
    let is_old = |fault: &&Fault| matches!(fault, Fault::Old { .. });
    let olds = faults.iter().filter(is_old).count();
    let others = faults.iter().filter(|fault| split(fault).is_none());
    let others = others.map(|fault| match explain(fault, legs) {
        // One is replaced only if the others are in sync.
        explained if is_old(&fault) && olds > 1 => explained.hint(
            "start the mirror once without these legs, by `iodyno serve mirror --degraded`: all of them is copied when they return",
        ),
        explained => explained,
    });
    let paths: Vec<&Path> = legs.iter().map(|leg| leg.path.as_path()).collect();
    let split = SplitBrain {
        pairs: &pairs,
        paths: &paths,
        stored,
    };
    let split = (!pairs.is_empty()).then(|| split.fault());
    split.into_iter().chain(others).collect()
}

/// A fault of the assembly with the paths of the legs.
fn explain(fault: &Fault, legs: &[Leg]) -> Diagnostic {
    let path = |leg: &usize| legs[*leg].path.display();
    match fault {
        Fault::OtherMirror { leg, mirror } => Diagnostic::error(format!(
            "`{}` belongs to mirror {mirror}, `{}` to another one",
            path(leg),
            path(&0)
        )),
        Fault::Twice { one, two } => Diagnostic::error(format!(
            "`{}` and `{}` are the same leg: one is a copy of the other",
            path(one),
            path(two)
        )),
        Fault::Removed { leg } => {
            Diagnostic::error(format!("`{}` was removed from the mirror", path(leg)))
                .hint("`iodyno mirror add` adds it as a new leg")
        }
        Fault::SplitBrain { .. } => unreachable!("all of them have one message"),
        Fault::Old { leg, own, least } => Diagnostic::error(format!(
            "`{}` is older than the mirror (generation {own}, at least {least} is needed): it was restored from a copy",
            path(leg)
        ))
        .hint(format!("replace it: {}", replacing(&legs[*leg]))),
        Fault::Missing { uuid } => {
            Diagnostic::error(format!("the leg {uuid} is in sync and was not given"))
                .hint("name it; if it is lost, `iodyno mirror remove --degraded` removes it by this UUID, and `iodyno serve mirror --degraded` serves the mirror without it")
        }
        Fault::NoneInSync => Diagnostic::error("none of these legs is in sync")
            .hint("name a leg that is in sync: `iodyno mirror status` of any leg lists all"),
    }
}

/// The command that makes a leg a new one, on the same file or device.
fn replacing(leg: &Leg) -> String {
    let (shown, uuid) = (
        shell_path(&leg.path),
        leg.superblock().map(|(found, _)| found.leg),
    );
    let uuid = uuid.map_or_else(|_| "UUID".to_owned(), |uuid| uuid.to_string());
    format!(
        "`iodyno mirror replace --degraded --leg … {uuid} {shown} --destroy {shown}`, with the other legs"
    )
}
