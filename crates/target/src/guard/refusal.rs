//! Why something is not touched, and how that is told.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::block::DeviceNumber;
use crate::signatures::Signature;

use super::Intent;

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A file system on the device is mounted.
    Mounted {
        /// Kernel name.
        device: String,
        /// Where.
        point: PathBuf,
        /// `ext4`, …
        file_system: String,
        /// A process that sees the mount, where ours does not.
        process: Option<u32>,
    },
    /// The host swaps to the device.
    Swap {
        /// Kernel name.
        device: String,
    },
    /// Another device is built on it.
    Held {
        /// Kernel name.
        device: String,
        /// The other's kernel name.
        holder: String,
        /// What the other is, with the name it is known by.
        what: String,
    },
    /// It belongs to a mounted file system of several devices.
    Member {
        /// Kernel name.
        device: String,
        /// The file system with its name.
        of: String,
    },
    /// A process writes to it, or may.
    OpenedBy {
        /// Kernel name.
        device: String,
        /// Its id.
        process: u32,
        /// Its name.
        command: String,
    },
    /// The kernel has given the device to somebody else, who did not show.
    Claimed,
    /// It holds something, in use or not.
    Signature {
        /// Kernel name of the device, or of the partition of it.
        device: String,
        /// What.
        signature: Signature,
    },
    /// Sampled blocks of it are neither blank nor written by iodyno.
    Data {
        /// Kernel name.
        device: String,
        /// Number of such blocks.
        blocks: usize,
        /// Number of blocks that were looked at.
        sampled: usize,
        /// Where the first such block begins, bytes.
        first: u64,
        /// iodyno was writing to the device when it was killed, or the host stopped.
        interrupted: bool,
    },
    /// The kernel knows a partition of it.
    Partition {
        /// Kernel name of the partition.
        name: String,
        /// Bytes.
        length: u64,
    },
    /// What it holds could not be read.
    Unprobed {
        /// Why.
        why: String,
    },
    /// sysfs does not know it, so that nothing can be said of it.
    Unknown {
        /// Why.
        why: String,
    },
    /// It is a device, and nobody wrote its name.
    NotNamed,
    /// A device without any bytes.
    Empty,
    /// A device that cannot be written.
    ReadOnlyDevice,
    /// A file system that is mounted read-only.
    ReadOnlyMount {
        /// Where it is mounted, if known.
        point: Option<PathBuf>,
    },
    /// The host swaps to the file.
    SwapFile {
        /// As the host knows it.
        path: PathBuf,
    },
    /// The file is the disk of a loop device.
    LoopFile {
        /// Kernel name.
        device: String,
    },
    /// iodyno keeps its results in it.
    Protected,
    /// A file would be created in a folder of device nodes.
    AmongDevices,
    /// Neither file, folder nor block device.
    WrongKind {
        /// `a FIFO`, …
        kind: String,
    },
}

impl Reason {
    /// `--destroy` makes it go away.
    pub fn gives_way(&self) -> bool {
        matches!(
            self,
            Reason::Signature { .. } | Reason::Data { .. } | Reason::Partition { .. }
        )
    }

    /// Somebody uses it now.
    fn in_use(&self) -> bool {
        matches!(
            self,
            Reason::Mounted { .. }
                | Reason::Swap { .. }
                | Reason::Held { .. }
                | Reason::Member { .. }
                | Reason::OpenedBy { .. }
                | Reason::Claimed
                | Reason::SwapFile { .. }
                | Reason::LoopFile { .. }
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
            } => write!(
                f,
                "{device} is open for writing in process {process} ({command})"
            ),
            Reason::Claimed => {
                f.write_str("the kernel keeps it for another user (open with O_EXCL gave EBUSY)")
            }
            Reason::Signature { device, signature } => write!(f, "{device} holds {signature}"),
            Reason::Data {
                device,
                blocks,
                sampled,
                first,
                interrupted,
            } => {
                write!(
                    f,
                    "{device} holds data: {blocks} of {sampled} sampled blocks of 4 KiB are not blank, the first at byte {first}"
                )?;
                match interrupted {
                    true => f.write_str(
                        " (iodyno was killed while it wrote to the device: its blocks cannot be told from others)",
                    ),
                    false => Ok(()),
                }
            }
            Reason::Partition { name, length } => {
                write!(
                    f,
                    "it has a partition {name} of {}",
                    iodyno_units::Bytes(*length)
                )
            }
            Reason::Unprobed { why } => write!(f, "what it holds could not be read: {why}"),
            Reason::Unknown { why } => write!(f, "who uses it could not be found out: {why}"),
            Reason::NotNamed => f.write_str("it is a block device that nobody named"),
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
            Reason::Protected => f.write_str("it belongs to iodyno's own store of results"),
            Reason::AmongDevices => {
                f.write_str("no such device exists, and no file is created among device nodes")
            }
            Reason::WrongKind { kind } => write!(f, "it is {kind}"),
        }
    }
}

/// A target that is not touched, with every reason at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// As the job named it.
    pub path: PathBuf,
    /// What it turned out to be, without symlinks.
    pub resolved: PathBuf,
    /// Its number, if it is a block device.
    pub device: Option<DeviceNumber>,
    /// What was to be done.
    pub intent: Intent,
    /// What was found; never empty.
    pub findings: Vec<Reason>,
}

/// Longer lists of the like (a disk mounted in a hundred containers) are cut here.
const SHOWN: usize = 12;

impl Refusal {
    /// What is wrong, in a line.
    pub fn headline(&self) -> String {
        let verb = if self.intent.changes() {
            "write to"
        } else {
            "use"
        };
        let why = if self.findings.iter().any(Reason::in_use) {
            "it is in use"
        } else if self.findings.iter().all(Reason::gives_way) {
            "it is not blank"
        } else {
            "it is not a valid target"
        };
        format!("cannot {verb} `{}`: {why}", self.path.display())
    }

    /// What to do.
    pub fn hint(&self) -> String {
        let path = self.path.display();
        let gives_way = self.findings.iter().all(Reason::gives_way);
        if gives_way {
            let empty = match self.device {
                Some(_) => format!(", or empty it first, with `blkdiscard --zeroout {path}`"),
                None => String::new(),
            };
            return format!("to overwrite what it holds, add `--destroy {path}`{empty}");
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
            Some(Reason::SwapFile { .. }) => "name another file, or `swapoff` this one".to_owned(),
            Some(Reason::ReadOnlyMount { .. }) => {
                "remount it with `mount -o remount,rw`, or name another folder".to_owned()
            }
            Some(Reason::ReadOnlyDevice) => {
                "only reads are possible; `blockdev --setrw` if the device allows it".to_owned()
            }
            Some(Reason::Empty) => "attach a file or set its size first".to_owned(),
            Some(Reason::NotNamed) => {
                format!("write `filename={path}` if this very device is meant")
            }
            Some(Reason::Protected) => {
                "name another file, or another store with `--store PATH`".to_owned()
            }
            Some(Reason::AmongDevices) => {
                "check the device's name with `lsblk`, or name a folder elsewhere".to_owned()
            }
            Some(Reason::WrongKind { .. }) => "name a file, a folder or a block device".to_owned(),
            Some(Reason::Unknown { .. }) => {
                "make sure that sysfs is mounted on /sys and procfs on /proc".to_owned()
            }
            Some(Reason::Unprobed { .. }) => {
                "a device is written only when it is seen to hold nothing: check it with `dmesg`"
                    .to_owned()
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
    /// The guard refused it; nothing was touched (exit code 3).
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// It could not be opened.
    #[error("cannot {doing} `{}`\n  cause: {source}{}", path.display(), hint_line(hint.as_deref()))]
    Failed {
        /// As the job named it.
        path: PathBuf,
        /// `open`, `create`, …
        doing: &'static str,
        /// Why.
        source: io::Error,
        /// What to do, where something can be done.
        hint: Option<String>,
    },
}

fn hint_line(hint: Option<&str>) -> String {
    hint.map(|hint| format!("\nhint: {hint}"))
        .unwrap_or_default()
}

impl AdmitError {
    /// From a failed system call, with the remedy that its errno suggests.
    pub(super) fn failed(
        path: &Path,
        doing: &'static str,
        source: io::Error,
        direct: bool,
    ) -> Self {
        use rustix::io::Errno;
        let errno = source.raw_os_error().map(Errno::from_raw_os_error);
        let hint = match errno {
            Some(Errno::NOENT) if doing == "create" => Some("make its folder first"),
            Some(Errno::NOENT) => Some("check the name; a file to be made needs a job that writes"),
            Some(Errno::ACCESS) => Some("check who may read and write it and the folders above it"),
            Some(Errno::PERM) => Some("the host forbids it: check `lsattr`, lockdown and cgroups"),
            Some(Errno::INVAL) if direct => {
                Some("the file system may not have O_DIRECT: set `direct=0`")
            }
            Some(Errno::TXTBSY) => Some("it is a program that runs, or swap"),
            Some(Errno::MFILE) => Some("raise the limit of open files with `ulimit -n`"),
            Some(Errno::NOSPC | Errno::DQUOT) => Some("free space or inodes, or raise the quota"),
            Some(Errno::EXIST) => Some("a dangling symbolic link has that name: remove it"),
            Some(Errno::LOOP) => Some("its symbolic links go round in a circle"),
            _ => None,
        };
        AdmitError::Failed {
            path: path.to_owned(),
            doing,
            source,
            hint: hint.map(str::to_owned),
        }
    }

    /// What was refused, if it was.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            AdmitError::Refused(refusal) => Some(refusal),
            AdmitError::Failed { .. } => None,
        }
    }
}
