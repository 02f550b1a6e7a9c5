//! The folder of one clone: its open files, its sets, and their names.

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use iodyno_model::Operations;
use iodyno_sys::file::close;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{AtFlags, Mode, OFlags, openat};
use rustix::io::Errno;

use super::OperationsPart;
use super::command::CommandStep;
use super::content::Contents;
use super::names::Name;
use super::plan::{Plan, Which};
use super::sets::SetFiles;

/// Buffer size for reading the entries of a folder, bytes.
const ENTRIES: usize = 32 << 10;

/// Identifies a file or folder by the parts of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The folder itself.
    Folder,
    /// A file created by this clone: its number.
    Own(u64),
    /// A file that is appended to: the slot of its step, and its number.
    Appended(usize, u64),
    /// A file of a set: the set, and the number in this clone's share.
    InSet(usize, u32),
}

/// Why a step was not completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// The clone was told to stop.
    StopRequested,
    /// A set has no file left.
    Empty,
    /// A call failed.
    Failed(Failed),
    /// The command failed; its fault says why.
    Command,
}

/// A call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) errno: Errno,
    pub(super) about: About,
    /// Offset in the file, bytes.
    pub(super) offset: u64,
}

impl Halt {
    pub(super) fn failed(errno: Errno, about: About) -> Halt {
        let offset = 0;
        Halt::Failed(Failed {
            errno,
            about,
            offset,
        })
    }
}

/// An open file, and its length if known.
pub(super) struct Open {
    pub(super) descriptor: OwnedFd,
    pub(super) length: Option<u64>,
}

/// The file created or opened last.
pub(super) struct CurrentFile {
    pub(super) about: About,
    pub(super) open: Option<Open>,
}

/// The file of an append step, which stays open over cycles.
#[derive(Default)]
pub(super) struct Appended {
    pub(super) open: Option<Open>,
    /// Number of files created so far.
    pub(super) made: u64,
}

/// The folder of one clone.
pub(super) struct Folder {
    pub(super) descriptor: OwnedFd,
    /// A separate open file description for reading entries, because these have a position.
    pub(super) entries: Option<OwnedFd>,
    pub(super) entry_bytes: Vec<u8>,
    pub(super) path: PathBuf,
    /// The same for the one call that takes a path.
    pub(super) c_path: CString,
    prefix: String,
    set_names: Vec<String>,
    /// Whether the files of each set are folders.
    set_folders: Vec<bool>,
    clone: (u64, u64),
    pub(super) sets: Vec<SetFiles>,
    pub(super) current: Option<CurrentFile>,
    /// The slot whose file is the current one, instead of `current`.
    pub(super) current_slot: Option<usize>,
    pub(super) appended: Vec<Appended>,
    /// The folders created last.
    pub(super) made: VecDeque<u64>,
    /// Number of the next name.
    next: u64,
    pub(super) name: Name,
    pub(super) new_name: Name,
    pub(super) contents: Contents,
    /// What the step `run` runs.
    pub(super) command: Option<CommandStep>,
    random: Xoshiro256PlusPlus,
}

impl Folder {
    /// Allocates everything that this plan needs.
    ///
    /// # Errors
    /// The failed step, and why.
    pub(super) fn new(
        part: OperationsPart,
        operations: &Operations,
        plan: &mut Plan,
        contents: Contents,
        (clone, clones, seed): (u32, u32, u64),
    ) -> Result<Folder, (String, Errno)> {
        let entries = plan.reads_folder.then(|| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            openat(&part.folder, c".", flags, Mode::empty())
        });
        let entries = entries
            .transpose()
            .map_err(|errno| (format!("open `{}`", part.path.display()), errno))?;
        let c_path = CString::new(part.path.as_os_str().as_bytes())
            .map_err(|_| (format!("use `{}`", part.path.display()), Errno::INVAL))?;
        let entry_bytes = if entries.is_some() { ENTRIES } else { 0 };
        Ok(Folder {
            descriptor: part.folder,
            entries,
            entry_bytes: Vec::with_capacity(entry_bytes),
            c_path,
            path: part.path,
            prefix: part.prefix,
            set_names: operations.sets.iter().map(|set| set.name.clone()).collect(),
            set_folders: operations.sets.iter().map(|set| set.folders).collect(),
            clone: (clone.into(), clones.into()),
            sets: std::mem::take(&mut plan.sets),
            current: None,
            current_slot: None,
            appended: (0..plan.appended).map(|_| Appended::default()).collect(),
            made: VecDeque::with_capacity(plan.folders),
            next: 0,
            name: Name::new(),
            new_name: Name::new(),
            contents,
            command: None,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        })
    }

    /// Whether each set has as many files left as a cycle needs.
    #[inline]
    pub(super) fn has(&self, wants: &[u32]) -> bool {
        self.sets
            .iter()
            .zip(wants)
            .all(|(set, wants)| set.left() >= *wants)
    }

    /// A number that no name of this clone has used.
    #[inline]
    pub(super) fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The file that is next.
    #[inline]
    pub(super) fn pick(&mut self, which: Which) -> Result<About, Halt> {
        let (set, file) = match which {
            Which::Current => return self.current_about(),
            Which::Taken { set, order } => (set, self.sets[set].next(order, &mut self.random)),
            Which::Round { set, cursor } => (set, self.sets[set].round(cursor, &mut self.random)),
        };
        Ok(About::InSet(set, file.ok_or(Halt::Empty)?))
    }

    fn current_about(&self) -> Result<About, Halt> {
        if let Some(slot) = self.current_slot {
            return Ok(About::Appended(slot, self.appended[slot].made - 1));
        }
        // The plan guarantees a file here, unless it was removed from its set in the meantime.
        let current = self.current.as_ref();
        let gone = Halt::failed(Errno::NOENT, About::Folder);
        current.map(|current| current.about).ok_or(gone)
    }

    /// The current open file and its identity, and the contents to write.
    #[inline]
    pub(super) fn open_file(&mut self) -> Result<(&mut Open, About, &mut Contents), Halt> {
        let (open, about) = match (self.current_slot, &mut self.current) {
            (Some(slot), _) => {
                let appended = &mut self.appended[slot];
                let about = About::Appended(slot, appended.made.saturating_sub(1));
                (appended.open.as_mut(), about)
            }
            (None, Some(current)) => (current.open.as_mut(), current.about),
            (None, None) => (None, About::Folder),
        };
        match open {
            Some(open) => Ok((open, about, &mut self.contents)),
            None => Err(Halt::failed(Errno::BADF, about)),
        }
    }

    /// Sets `self.name` to the name of a file.
    #[inline]
    pub(super) fn name_of(&mut self, about: About) {
        match about {
            About::Folder => self.name.set(format_args!(".")),
            About::Own(number) => self.name.set(format_args!("{}{number:09}", self.prefix)),
            About::Appended(slot, number) => {
                let prefix = &self.prefix;
                self.name.set(format_args!("{prefix}a{slot}.{number:09}"));
            }
            About::InSet(set, file) => match self.sets[set].renamed(file) {
                Some(number) => self.name.set(format_args!("{}{number:09}", self.prefix)),
                None => {
                    let number = self.clone.0 + u64::from(file) * self.clone.1;
                    self.name
                        .set(format_args!("{}.{number:09}", self.set_names[set]));
                }
            },
        }
    }

    /// How a file is removed.
    #[inline]
    pub(super) fn removal(&self, about: About) -> AtFlags {
        match about {
            About::InSet(set, _) if self.set_folders[set] => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        }
    }

    /// Sets `self.new_name` to an unused name; returns its number.
    #[inline]
    pub(super) fn name_anew(&mut self) -> u64 {
        let number = self.take_number();
        self.new_name
            .set(format_args!("{}{number:09}", self.prefix));
        number
    }

    /// The path of a file, for messages.
    pub(super) fn path_of(&mut self, about: About) -> PathBuf {
        self.name_of(about);
        match about {
            About::Folder => self.path.clone(),
            _ => self.path.join(self.name.as_c().to_string_lossy().as_ref()),
        }
    }

    /// Clears the current file if it is this one, because it was removed.
    #[inline]
    pub(super) fn forget(&mut self, about: About) {
        if let Some(current) = &self.current
            && current.about == about
        {
            self.current = None;
        }
        if let About::InSet(set, file) = about {
            self.sets[set].remove(file);
        }
    }

    /// Closes the current file if a cycle was aborted before it did.
    #[inline]
    pub(super) fn close_current(&mut self) -> Result<(), Halt> {
        match self.current.take() {
            Some(CurrentFile {
                about,
                open: Some(open),
            }) => closed(close(open.descriptor)).map_err(|errno| Halt::failed(errno, about)),
            _ => Ok(()),
        }
    }

    /// Closes all files; returns the first error.
    pub(super) fn close_all(&mut self) -> Result<(), Halt> {
        let mut result = self.close_current();
        for (slot, appended) in self.appended.iter_mut().enumerate() {
            if let Some(open) = appended.open.take() {
                let about = About::Appended(slot, appended.made - 1);
                let own = closed(close(open.descriptor));
                result = result.and(own.map_err(|errno| Halt::failed(errno, about)));
            }
        }
        result
    }
}

/// The result of close. An interrupted close has closed the file all the same.
#[inline]
pub(super) fn closed(result: i32) -> rustix::io::Result<()> {
    if result >= 0 || result == -Errno::INTR.raw_os_error() {
        return Ok(());
    }
    Err(Errno::from_raw_os_error(-result))
}
