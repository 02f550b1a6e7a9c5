//! Reasons for refusing a target, and their messages.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use iodyno_host::block::DeviceNumber;
use iodyno_model::printable::shell_path;
use iodyno_model::{Diagnostic, ordered};

use crate::signatures::{self, Signature};

use crate::content::LONG;
use crate::open::{Pinned, PinnedKind};
use crate::request::{Intent, Request};

/// How a process holds a file or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Open for writing.
    Open,
    /// Mapped shared and writable.
    Mapped,
    /// Locked with flock(2) or fcntl(2).
    Locked,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A file system on the device is mounted.
    Mounted {
        /// Kernel name.
        device: String,
        /// Mount point.
        point: PathBuf,
        /// `ext4`, …
        file_system: String,
        /// A process in the mount namespace, if it is not that of this process.
        process: Option<u32>,
    },
    /// The device is swap space.
    Swap {
        /// Kernel name.
        device: String,
    },
    /// Another device is stacked on it.
    Held {
        /// Kernel name.
        device: String,
        /// Kernel name of the other device.
        holder: String,
        /// Type and name of the other device.
        what: String,
    },
    /// It is a member of a mounted multi-device file system.
    Member {
        /// Kernel name.
        device: String,
        /// Type and name of the file system.
        of: String,
    },
    /// A process works on it.
    OpenedBy {
        /// Kernel name of the device, or name of the file.
        device: String,
        /// Process id; `None`: it is not known.
        process: Option<u32>,
        /// Process name.
        command: String,
        /// How it is held.
        hold: Hold,
    },
    /// The device is claimed exclusively by an unknown user.
    Claimed {
        /// Kernel name.
        device: String,
    },
    /// It contains a known signature, in use or not.
    Signature {
        /// Kernel name of the device or of its partition.
        device: String,
        /// The signature.
        signature: Signature,
    },
    /// Some sampled blocks are neither blank nor written by iodyno.
    Data {
        /// Kernel name.
        device: String,
        /// Number of such blocks.
        blocks: u64,
        /// Number of sampled blocks.
        sampled: u64,
        /// Where they are.
        looked: String,
        /// Offset of the first such block, bytes.
        first: u64,
        /// Whether iodyno was killed, or the host stopped, while iodyno was writing to the device.
        interrupted: bool,
    },
    /// Nothing was found where it was looked at, but it could not be read at all places in time.
    NotSeen {
        /// Kernel name.
        device: String,
        /// What was looked at.
        looked: String,
    },
    /// The kernel knows a partition on it.
    Partition {
        /// Kernel name of the partition.
        name: String,
        /// Length in bytes.
        length: u64,
    },
    /// Its content could not be read.
    Unprobed {
        /// The reason.
        why: String,
    },
    /// sysfs does not know it, so that its use cannot be checked.
    Unknown {
        /// The reason.
        why: String,
    },
    /// It is a device, and the user did not name it.
    NotNamed,
    /// A device of length 0.
    Empty,
    /// A read-only device.
    ReadOnlyDevice,
    /// A file system that is mounted read-only.
    ReadOnlyMount {
        /// Where it is mounted, if known.
        point: Option<PathBuf>,
    },
    /// The file is swap space.
    SwapFile {
        /// Path in /proc/swaps.
        path: PathBuf,
    },
    /// The file is the backing file of a loop device.
    LoopFile {
        /// Kernel name.
        device: String,
    },
    /// The file is in the upper folder of a mounted overlay.
    Upper {
        /// Where that is mounted.
        point: PathBuf,
    },
    /// It is a file of iodyno's store.
    Protected,
    /// It is on a mount of another mount namespace, whose overlays and bind mounts have other paths.
    OtherNamespace,
    /// The file would be created in a folder of device nodes.
    AmongDevices,
    /// The path ends in a symlink that another user may have created.
    PlantedLink {
        /// The user id of its owner.
        owner: u32,
    },
    /// Not a file, folder or block device.
    WrongKind {
        /// `a FIFO`, …
        kind: String,
    },
}

impl Reason {
    /// Whether `--destroy` overrides it.
    pub fn gives_way(&self) -> bool {
        matches!(
            self,
            Reason::Signature { .. }
                | Reason::Data { .. }
                | Reason::NotSeen { .. }
                | Reason::Partition { .. }
        )
    }

    fn is_not_seen(&self) -> bool {
        matches!(self, Reason::NotSeen { .. })
    }

    /// Whether it is the signature of a leg of a mirror.
    pub(crate) fn is_leg(&self) -> bool {
        matches!(self, Reason::Signature { signature, .. } if signature.what == signatures::LEG)
    }

    /// Whether it may end by itself in a moment: a process opens the target only briefly.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Reason::OpenedBy { .. } | Reason::Claimed { .. })
    }

    /// Whether it means that the target is in use.
    fn in_use(&self) -> bool {
        matches!(
            self,
            Reason::Mounted { .. }
                | Reason::Swap { .. }
                | Reason::Held { .. }
                | Reason::Member { .. }
                | Reason::OpenedBy { .. }
                | Reason::Claimed { .. }
                | Reason::SwapFile { .. }
                | Reason::LoopFile { .. }
                | Reason::Upper { .. }
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Mounted {
                device,
                point,
                file_system,
                process,
            } => {
                let point = point.display();
                write!(f, "{device} is mounted on `{point}` ({file_system})")?;
                match process {
                    Some(process) => write!(f, " in the mount namespace of process {process}"),
                    None => Ok(()),
                }
            }
            Reason::Swap { device } => write!(f, "{device} is swap space in use"),
            Reason::Held {
                device,
                holder,
                what,
            } => write!(f, "{device} is part of {holder}, {what}"),
            Reason::Member { device, of } => write!(f, "{device} belongs to {of}, mounted"),
            Reason::OpenedBy {
                device,
                process,
                command,
                hold,
            } => {
                let how = match hold {
                    Hold::Open => "open for writing in",
                    Hold::Mapped => "mapped shared and writable in",
                    Hold::Locked => "locked by",
                };
                match process {
                    Some(process) => write!(f, "{device} is {how} process {process} ({command})"),
                    None => write!(f, "{device} is {how} another process, or the kernel"),
                }
            }
            Reason::Claimed { device } => write!(
                f,
                "another user has exclusive access to {device} (open with O_EXCL failed with EBUSY)"
            ),
            Reason::Signature { device, signature } => write!(f, "{device} holds {signature}"),
            Reason::Data {
                device,
                blocks,
                sampled,
                looked,
                first,
                interrupted,
            } => {
                write!(
                    f,
                    "{device} holds data: {blocks} of {sampled} sampled blocks of 4 KiB are not blank, the first at byte {first} (sampled: {looked})"
                )?;
                match interrupted {
                    true => f.write_str(
                        " (iodyno was killed while it wrote to the device: its blocks cannot be distinguished from others)",
                    ),
                    false => Ok(()),
                }
            }
            Reason::NotSeen { device, looked } => write!(
                f,
                "{device} is too slow to be read within {} s at all places where data can begin (blank: {looked})",
                LONG.as_secs()
            ),
            Reason::Partition { name, length } => {
                write!(
                    f,
                    "it has a partition {name} of {}",
                    iodyno_units::Bytes(*length)
                )
            }
            Reason::Unprobed { why } => write!(f, "its content could not be read: {why}"),
            Reason::Unknown { why } => write!(f, "its users could not be determined: {why}"),
            Reason::NotNamed => f.write_str("it is a block device that the user did not name"),
            Reason::Empty => f.write_str("it has no capacity: nothing is attached to it"),
            Reason::ReadOnlyDevice => f.write_str("the device is read-only"),
            Reason::ReadOnlyMount { point: Some(point) } => {
                write!(
                    f,
                    "the file system on `{}` is mounted read-only",
                    point.display()
                )
            }
            Reason::ReadOnlyMount { point: None } => f.write_str("the file system is read-only"),
            Reason::SwapFile { path } => {
                write!(f, "the host swaps to it (as `{}`)", path.display())
            }
            Reason::LoopFile { device } => write!(f, "it is the disk of {device}, attached"),
            Reason::Upper { point } => write!(
                f,
                "it is in the upper folder of the overlay that is mounted on `{}`",
                point.display()
            ),
            Reason::Protected => f.write_str("it belongs to iodyno's own store of results"),
            Reason::OtherNamespace => {
                f.write_str("it is in another mount namespace, where its users are not known")
            }
            Reason::AmongDevices => {
                f.write_str("no such device exists, and no file is created among device nodes")
            }
            Reason::PlantedLink { owner } => write!(
                f,
                "the path is a symlink of user {owner}, in a folder where others can create one"
            ),
            Reason::WrongKind { kind } => write!(f, "it is {kind}"),
        }
    }
}

/// A refused target, with all reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Path as given by the job.
    pub path: PathBuf,
    /// Path without symlinks.
    pub resolved: PathBuf,
    /// Its number, if it is a block device.
    pub device: Option<DeviceNumber>,
    /// Intended use.
    pub intent: Intent,
    /// Reasons; never empty.
    pub findings: Vec<Reason>,
}

/// Maximum number of similar reasons that are listed (a disk may be mounted in a hundred containers).
const SHOWN: usize = 12;

impl Refusal {
    /// The error, in one line.
    pub fn headline(&self) -> String {
        let verb = if self.intent.changes() {
            "write to"
        } else {
            "use"
        };
        let why = if self.findings.iter().any(Reason::in_use) {
            "it is in use"
        } else if self.findings.iter().all(Reason::is_not_seen) {
            "it may not be blank"
        } else if self.findings.iter().all(Reason::gives_way) {
            "it is not blank"
        } else {
            "it is not a valid target"
        };
        format!("cannot {verb} `{}`: {why}", self.path.display())
    }

    /// The remedy.
    pub fn hint(&self) -> String {
        let path = shell_path(&self.path);
        let gives_way = self.findings.iter().all(Reason::gives_way);
        if gives_way {
            let empty = match self.device {
                Some(_) if self.findings.iter().any(|one| !one.is_not_seen()) => {
                    format!(", or empty it first, with `blkdiscard --zeroout {path}`")
                }
                _ => String::new(),
            };
            return format!("to overwrite its content, add `--destroy {path}`{empty}");
        }
        let first = self.findings.iter().find(|reason| !reason.gives_way());
        match first {
            Some(Reason::Mounted { .. } | Reason::Member { .. }) => {
                "name a device that is not mounted; `--destroy` does not help here".to_owned()
            }
            Some(Reason::Swap { .. }) => {
                "name another device, or `swapoff` this one; `--destroy` does not help here"
                    .to_owned()
            }
            Some(Reason::LoopFile { device }) => {
                format!("use `/dev/{device}` instead, or detach it with `losetup -d`")
            }
            Some(Reason::Upper { point }) => {
                format!(
                    "name the file in `{}`, or unmount the overlay",
                    point.display()
                )
            }
            Some(Reason::OpenedBy {
                process: Some(process),
                command,
                ..
            }) => format!(
                "stop process {process} ({command}), or name another target; `--destroy` does not help here"
            ),
            Some(Reason::OpenedBy { process: None, .. }) => format!(
                "look for its user as root and outside of containers, with `fuser -v {path}` and `losetup -j {path}`; \
                 `--destroy` does not help here"
            ),
            Some(Reason::SwapFile { .. }) => "name another file, or `swapoff` this one".to_owned(),
            Some(Reason::ReadOnlyMount { .. }) => {
                "remount it with `mount -o remount,rw`, or name another folder".to_owned()
            }
            Some(Reason::ReadOnlyDevice) => {
                "only reads are possible; `blockdev --setrw` if the device allows it".to_owned()
            }
            Some(Reason::Empty) => "attach a file or set its size first".to_owned(),
            Some(Reason::NotNamed) => {
                format!("write `filename={path}` if this device is meant")
            }
            Some(Reason::Protected) => {
                "name another file, or another store with `--store PATH`".to_owned()
            }
            Some(Reason::OtherNamespace) => {
                "name it by a path of this namespace, or run iodyno there, with `nsenter --mount --target PID`"
                    .to_owned()
            }
            Some(Reason::AmongDevices) => {
                "check the device's name with `lsblk`, or name a folder elsewhere".to_owned()
            }
            Some(Reason::PlantedLink { .. }) => {
                "name the file itself if it is meant, or remove the symlink".to_owned()
            }
            Some(Reason::WrongKind { .. }) => "name a file, a folder or a block device".to_owned(),
            Some(Reason::Unknown { .. }) => {
                "make sure that sysfs is mounted on /sys and procfs on /proc".to_owned()
            }
            Some(Reason::Unprobed { .. }) => {
                "only a device whose content can be read is written: check `dmesg`".to_owned()
            }
            _ => "stop its other user, or name another device".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.headline())?;
        write!(f, "  at: {}", self.resolved.display())?;
        if let Some(device) = self.device {
            write!(f, ", device {device}")?;
        }
        for finding in self.findings.iter().take(SHOWN) {
            write!(f, "\n  found: {finding}")?;
        }
        if self.findings.len() > SHOWN {
            write!(f, "\n  found: and {} more", self.findings.len() - SHOWN)?;
        }
        write!(f, "\nhint: {}", self.hint())
    }
}

impl std::error::Error for Refusal {}

/// Why a target was not opened.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// Refused by the guard; nothing was changed (exit code 3).
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// It could not be opened.
    #[error("cannot {doing} `{}`\n  cause: {source}{}", path.display(), hint_line(hint.as_deref()))]
    Failed {
        /// Path as given by the job.
        path: PathBuf,
        /// The operation: `open`, `create`, …
        doing: &'static str,
        /// The cause.
        source: io::Error,
        /// The remedy, if there is one.
        hint: Option<String>,
    },
}

fn hint_line(hint: Option<&str>) -> String {
    hint.map(|hint| format!("\nhint: {hint}"))
        .unwrap_or_default()
}

impl AdmitError {
    /// Whether `--destroy` for this target permits it.
    pub fn needs_destroy(&self) -> bool {
        let refusal = self.refusal();
        refusal.is_some_and(|refusal| refusal.findings.iter().all(Reason::gives_way))
    }

    /// From a failed system call, with the remedy for its errno.
    pub(crate) fn failed(
        path: &Path,
        doing: &'static str,
        source: io::Error,
        direct: bool,
    ) -> Self {
        use rustix::io::Errno;
        let errno = source.raw_os_error().map(Errno::from_raw_os_error);
        let hint = match errno {
            Some(Errno::NOENT) if doing == "create" => Some("create its folder first"),
            Some(Errno::NOENT) => Some("check the name; only a job that writes creates files"),
            Some(Errno::ACCESS) => Some("check who may read and write it and the folders above it"),
            Some(Errno::PERM) => Some("the host forbids it: check `lsattr`, lockdown and cgroups"),
            Some(Errno::INVAL) if direct => {
                Some("the file system may not have O_DIRECT: set `direct=0`")
            }
            Some(Errno::TXTBSY) => Some("it is a program that runs, or swap"),
            Some(Errno::MFILE) => Some("raise the limit of open files with `ulimit -n`"),
            Some(Errno::NOSPC | Errno::DQUOT) => Some("free space or inodes, or raise the quota"),
            Some(Errno::EXIST) => Some("a dangling symbolic link has that name: remove it"),
            Some(Errno::LOOP) => Some("its symbolic links form a loop"),
            _ => None,
        };
        AdmitError::Failed {
            path: path.to_owned(),
            doing,
            source,
            hint: hint.map(str::to_owned),
        }
    }

    /// The error for the user.
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::of_text(&self.to_string())
    }

    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            AdmitError::Refused(refusal) => Some(refusal),
            AdmitError::Failed { .. } => None,
        }
    }
}

pub(crate) fn refused(request: &Request<'_>, pinned: &Pinned, findings: Vec<Reason>) -> AdmitError {
    AdmitError::Refused(Box::new(Refusal {
        path: request.path.to_owned(),
        resolved: pinned.resolved.clone(),
        device: match pinned.kind {
            PinnedKind::Block(number) => Some(number),
            _ => None,
        },
        intent: request.intent,
        findings: ordered::distinct(findings),
    }))
}
