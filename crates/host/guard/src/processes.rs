//! The files and devices that processes hold: open for writing, mapped or locked.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use iodyno_host::block::DeviceNumber;
use iodyno_host::locks::command;
use iodyno_host::{Owner, ProcessStat, Roots, names, text};
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags};

use crate::open::FileId;
use crate::refusal::{Hold, Reason};

/// A file or device that a process holds.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) process: u32,
    pub(crate) file: FileId,
    pub(crate) state: Statx,
    pub(crate) device: Option<DeviceNumber>,
    pub(crate) hold: Hold,
}

impl Opened {
    fn new(process: u32, link: &Path, hold: Hold) -> Option<Opened> {
        // The server of a network file system is not asked: it may be stuck.
        let flags = AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let state = rustix::fs::statx(CWD, link, flags, wanted).ok()?;
        let kind = FileType::from_raw_mode(u32::from(state.stx_mode));
        let device = DeviceNumber {
            major: state.stx_rdev_major,
            minor: state.stx_rdev_minor,
        };
        let is_device = kind == FileType::BlockDevice;
        (is_device || kind == FileType::RegularFile).then(|| Opened {
            process,
            file: FileId::from(&state),
            state,
            device: is_device.then_some(device),
            hold,
        })
    }

    pub(crate) fn reason(&self, roots: &Roots, name: String) -> Reason {
        Reason::OpenedBy {
            device: name,
            process: Some(self.process),
            command: command(roots, self.process),
            hold: self.hold,
        }
    }
}

/// The files and devices of a process. Without privilege, only those of the same user are found.
fn held_by(roots: &Roots, process: u32) -> Vec<Opened> {
    let mut opened = Vec::new();
    let tables = tables(roots, process);
    for folder in &tables {
        for descriptor in names(folder.join("fdinfo")) {
            let about = text(folder.join("fdinfo").join(&descriptor)).unwrap_or_default();
            if let Some(hold) = hold(&about) {
                let link = folder.join("fd").join(descriptor);
                opened.extend(Opened::new(process, &link, hold));
            }
        }
    }
    // Threads share their mappings.
    let maps = |folder: &PathBuf| Some((folder.clone(), fs::read(folder.join("maps")).ok()?));
    let mut maps = tables
        .iter()
        .filter_map(maps)
        .filter(|(_, maps)| !maps.is_empty());
    if let Some((folder, maps)) = maps.next() {
        for line in maps.split(|byte| *byte == b'\n') {
            opened.extend(mapped(&folder, process, &String::from_utf8_lossy(line)));
        }
    }
    opened
}

/// The files and devices of this process, and those of all others.
pub(crate) fn opened(roots: &Roots) -> (Vec<Opened>, Vec<Opened>) {
    let own = own(roots);
    let all = names(&roots.proc).into_iter();
    let others = all
        .filter_map(|name| name.parse().ok())
        .filter(|process| *process != own);
    let others = others.flat_map(|process| held_by(roots, process)).collect();
    (held_by(roots, own), others)
}

/// This process as procfs names it, which may be that of another PID namespace.
pub(crate) fn own(roots: &Roots) -> u32 {
    let link = fs::read_link(roots.proc.join("self")).ok();
    let id = link.and_then(|id| id.to_str()?.parse().ok());
    id.unwrap_or_else(std::process::id)
}

/// The folders in procfs of a process and of those of its threads that have descriptors of their own. If the first
/// thread has ended, all others have those of the process.
fn tables(roots: &Roots, process: u32) -> Vec<PathBuf> {
    let folder = roots.proc.join(process.to_string());
    let tasks = folder.join("task");
    let threads = names(&tasks)
        .into_iter()
        .filter_map(|name| name.parse().ok());
    let mut threads: Vec<u32> = threads.filter(|thread| *thread != process).collect();
    let ended = !threads.is_empty() && Owner::of(roots, process).is_none();
    let shared = |thread| iodyno_sys::host::shares_descriptors(process, thread);
    threads.retain(|thread| ended || shared(*thread) == Some(false));
    let threads = threads
        .into_iter()
        .map(|thread| tasks.join(thread.to_string()));
    std::iter::once(folder).chain(threads).collect()
}

/// A path as a process sees it.
pub(crate) fn below(folder: &Path, path: &Path) -> PathBuf {
    folder
        .join("root")
        .join(path.strip_prefix("/").unwrap_or(path))
}

/// What a line of `/proc/PID/maps` maps, if that is shared and writable.
fn mapped(folder: &Path, process: u32, line: &str) -> Option<Opened> {
    // Range, permissions, offset, device, inode, path.
    let mut fields = line.split_ascii_whitespace();
    let (range, permissions) = (fields.next()?, fields.next()?);
    if !(permissions.contains('w') && permissions.ends_with('s')) {
        return None;
    }
    let exact = Opened::new(process, &folder.join("map_files").join(range), Hold::Mapped);
    let path = || {
        let path = Path::new(line.split_once('/')?.1);
        Opened::new(process, &below(folder, path), Hold::Mapped)
    };
    exact.or_else(path)
}

/// This program in other processes, and the processes that started this one: they may have a file open on which
/// iodyno works.
#[derive(Debug, Default)]
pub(crate) struct OwnProcesses {
    program: Option<FileId>,
    ancestors: BTreeSet<u32>,
    /// The first process of this invocation.
    first: u32,
}

impl OwnProcesses {
    pub(crate) fn of(roots: &Roots) -> OwnProcesses {
        let own = own(roots);
        let ancestors = ancestors(roots, own);
        let mut processes = OwnProcesses {
            program: FileId::of(&roots.proc.join("self/exe")),
            ancestors: ancestors.iter().copied().collect(),
            first: own,
        };
        let mut outer = ancestors.into_iter().rev();
        let outer = outer.find(|process| processes.is_program(roots, *process));
        processes.first = outer.unwrap_or(own);
        processes
    }

    /// Whether a process is not another user: it started this one, or is this program in the same invocation.
    pub(crate) fn is_own(&self, roots: &Roots, process: u32) -> bool {
        let within = || ancestors(roots, process).contains(&self.first);
        self.ancestors.contains(&process) || self.is_program(roots, process) && within()
    }

    pub(crate) fn is_program(&self, roots: &Roots, process: u32) -> bool {
        let program = roots.proc.join(process.to_string()).join("exe");
        self.program.is_some() && FileId::of(&program) == self.program
    }
}

/// Whether a process of this program has files open for its clients: `iodyno serve …`.
pub(crate) fn serves(roots: &Roots, process: u32) -> bool {
    let words = fs::read(roots.proc.join(process.to_string()).join("cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == b"serve")
}

/// The processes that started a process, the nearest first. Process 1 also adopts others, which are in other sessions.
fn ancestors(roots: &Roots, process: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut last = process;
    let parent_of = |process| Some(ProcessStat::of(roots, process)?.parent);
    let session_of = |process| Some(ProcessStat::of(roots, process)?.session);
    while let Some(parent) = parent_of(last).filter(|parent| *parent > 0) {
        let started = || session_of(parent) == session_of(process);
        if found.contains(&parent) || parent == 1 && !started() {
            break;
        }
        found.push(parent);
        last = parent;
    }
    found
}

/// How a descriptor is held against others, from its `/proc/PID/fdinfo/N`: it is locked, or the octal flags contain
/// O_WRONLY (1) or O_RDWR (2). `None`: it is only read.
fn hold(fdinfo: &str) -> Option<Hold> {
    if fdinfo.lines().any(|line| line.starts_with("lock:")) {
        return Some(Hold::Locked);
    }
    let flags = fdinfo
        .lines()
        .filter_map(|line| line.strip_prefix("flags:"));
    let mut flags = flags.filter_map(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.any(|flags| flags & 0o3 != 0).then_some(Hold::Open)
}
