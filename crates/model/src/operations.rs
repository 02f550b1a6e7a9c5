//! File operations: a repeated cycle of steps, and the files that exist before it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Direction;

mod faults;

/// A workload of file operations in a folder that the trial creates in its target and removes at its end.
/// Sizes are in bytes. Contents follow the job's buffer settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// One line of description: what is done and what is timed.
    pub about: String,
    /// File sets, created in this order before the measurement; the folder is synced after the last. Timed
    /// as step `LayOut`.
    pub sets: Vec<FileSet>,
    /// The steps of one cycle; at least one is timed. A job ends according to its `end` (`ops` counts the
    /// cycles of all clones), or when a cycle takes a file from an empty set.
    pub cycle: Vec<CycleStep>,
    /// Whether each clone works in its own folder below the trial's; otherwise all share one. In both cases
    /// the files of a set are assigned to the clones in turn.
    pub own_folders: bool,
    /// When all clones have ended, sync the file system and wait until its free space no longer increases.
    /// Timed as step `Drain`, and part of the completion time.
    pub drain: bool,
    /// What a job of one of fio's file engines adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fio: Option<FioOperations>,
}

/// A job of one of fio's file engines (`filecreate`, `dirstat`, …): one cycle for each of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FioOperations {
    /// The engine's name.
    pub engine: String,
    /// The job's `directory`; `None`: the current folder.
    pub folder: Option<PathBuf>,
    /// The direction under which formats of fio show the cycles: read or write.
    pub direction: Direction,
    /// Bytes that formats of fio count for a cycle: the length of a file.
    pub bytes: u64,
}

/// Files created before the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSet {
    /// Unique name; the files are named after it.
    pub name: String,
    /// Number of files, all clones together.
    pub count: u64,
    /// Length of each file, bytes.
    pub size: u64,
    /// Whether each file is fsynced before it is closed.
    pub fsync: bool,
    /// Its files are empty folders.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub folders: bool,
}

/// One step of a cycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleStep {
    /// Action.
    pub action: Action,
    /// Whether it counts towards the op's time.
    pub timed: bool,
}

/// Which file of a set is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PickOrder {
    /// The file created last.
    #[default]
    Newest,
    /// The file created first.
    Oldest,
    /// A file drawn uniformly at random.
    Random,
}

/// The file of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The file that the cycle created or opened last; an unlink clears it.
    Current,
    /// A file of a set. An unlink removes it from the set; other steps start again at the first file after
    /// the last.
    Set {
        /// The set's name.
        name: String,
        /// Which file.
        order: PickOrder,
    },
}

/// The action of a step. The current file is the one that the clone created or opened last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Action {
    /// Creates a new, empty file and leaves it open (O_CREAT, O_EXCL, write only).
    Create,
    /// Opens a file for writing.
    Open {
        /// File to open.
        of: Subject,
    },
    /// Closes the current file.
    Close,
    /// Appends to the current file.
    Write {
        /// Number of bytes.
        bytes: u64,
    },
    /// Appends to a file that stays open between cycles. If it would grow beyond `new_file_at`, a new file
    /// is created. Creating and closing are part of the time of this step.
    Append {
        /// Number of bytes.
        bytes: u64,
        /// Largest length of a file, bytes; at least `bytes`.
        new_file_at: u64,
        /// Number of full files to keep in addition to the current one; older ones are removed. `None`:
        /// keep all.
        keep: Option<u32>,
    },
    /// fsync of the current file.
    Sync,
    /// fsync of the folder.
    SyncFolder,
    /// Unlinks a file, which must be closed: otherwise its space would not be freed.
    Unlink {
        /// File to unlink.
        of: Subject,
    },
    /// Renames a file; it keeps its position in its set.
    Rename {
        /// File to rename.
        of: Subject,
    },
    /// stat of a file by its name.
    Stat {
        /// File to stat.
        of: Subject,
    },
    /// statfs of the folder.
    Statfs,
    /// Creates a folder in the clone's folder.
    Mkdir,
    /// Removes the folder that was created last.
    Rmdir,
    /// Reads all entries of the folder.
    Readdir,
    /// ftruncate of the current file.
    Truncate {
        /// New length, bytes.
        length: u64,
    },
    /// fallocate at the end of the current file.
    Fallocate {
        /// Number of bytes.
        bytes: u64,
    },
}

impl Action {
    /// The direction under which it is counted.
    pub fn direction(&self) -> Direction {
        match self {
            Action::Create => Direction::Create,
            Action::Open { .. } => Direction::Open,
            Action::Close => Direction::Close,
            Action::Write { .. } | Action::Append { .. } => Direction::Write,
            Action::Sync => Direction::Sync,
            Action::SyncFolder => Direction::SyncFolder,
            Action::Unlink { .. } => Direction::Unlink,
            Action::Rename { .. } => Direction::Rename,
            Action::Stat { .. } => Direction::Stat,
            Action::Statfs => Direction::Statfs,
            Action::Mkdir => Direction::Mkdir,
            Action::Rmdir => Direction::Rmdir,
            Action::Readdir => Direction::Readdir,
            Action::Truncate { .. } => Direction::Truncate,
            Action::Fallocate { .. } => Direction::Fallocate,
        }
    }
}

impl Operations {
    /// The recorded kinds of op, in table order: the cycle as [`Direction::Op`], and each step, timed or
    /// not.
    pub fn directions(&self) -> Vec<Direction> {
        let done = |direction: &Direction| {
            *direction == Direction::Op
                || self
                    .cycle
                    .iter()
                    .any(|step| step.action.direction() == *direction)
        };
        Direction::EVERY.into_iter().filter(done).collect()
    }

    /// Whether steps of this kind count towards the op's time.
    pub fn times(&self, direction: Direction) -> bool {
        direction == Direction::Op
            || self
                .cycle
                .iter()
                .any(|step| step.timed && step.action.direction() == direction)
    }
}

/// Space that a workload of file operations needs in one folder, all clones together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Maximum number of bytes that exist at the same time, without unlimited growth.
    pub bytes: u64,
    /// The part of `bytes` that is reached only by appending to files; only the last few of them are kept.
    pub appended: u64,
    /// Bytes that each cycle appends until `appended` is reached.
    pub appended_per_op: u64,
    /// Number of files and folders that exist at the same time, without unlimited growth.
    pub files: u64,
    /// Bytes that each cycle adds and does not remove.
    pub bytes_per_op: u64,
    /// Files and folders that each cycle adds and does not remove.
    pub files_per_op: u64,
}

impl Needs {
    /// Bytes and files after this number of cycles.
    pub fn after(&self, ops: u64) -> (u64, u64) {
        let grown = |base: u64, each: u64| base.saturating_add(each.saturating_mul(ops));
        let appended = grown(0, self.appended_per_op).min(self.appended);
        let bytes = self.bytes - self.appended + appended;
        (
            grown(bytes, self.bytes_per_op),
            grown(self.files, self.files_per_op),
        )
    }
}

impl Operations {
    /// Space for this number of clones: the sets, the files of one cycle of each clone, and what cycles
    /// leave behind.
    pub fn needs(&self, clones: u32) -> Needs {
        let clones = u64::from(clones.max(1));
        let mut needs = Needs::default();
        for set in &self.sets {
            needs.files = needs.files.saturating_add(set.count);
            needs.bytes = needs
                .bytes
                .saturating_add(set.count.saturating_mul(set.size));
        }
        // Length of the current file, and its largest length within a cycle.
        let (mut current, mut largest) = (0u64, 0u64);
        let (mut made, mut most_files, mut left_bytes) = (0u64, 0u64, 0u64);
        for step in &self.cycle {
            match &step.action {
                Action::Create => {
                    (made, left_bytes) = (made + 1, left_bytes + current);
                    current = 0;
                }
                Action::Mkdir => made += 1,
                Action::Write { bytes } | Action::Fallocate { bytes } => current += bytes,
                Action::Append {
                    bytes,
                    new_file_at,
                    keep,
                } => match keep {
                    Some(keep) => {
                        let files = u64::from(*keep) + 2;
                        needs.files += files * clones;
                        let most = files.saturating_mul(*new_file_at).saturating_mul(clones);
                        needs.bytes = needs.bytes.saturating_add(most);
                        needs.appended = needs.appended.saturating_add(most);
                        needs.appended_per_op += bytes;
                    }
                    None => {
                        needs.bytes_per_op += bytes;
                        needs.files_per_op += u64::from(*bytes == *new_file_at);
                        needs.files += clones;
                    }
                },
                Action::Unlink {
                    of: Subject::Current,
                } => (made, current) = (made.saturating_sub(1), 0),
                Action::Rmdir => made = made.saturating_sub(1),
                _ => {}
            }
            largest = largest.max(left_bytes + current);
            most_files = most_files.max(made);
        }
        needs.files_per_op += made;
        needs.bytes_per_op += left_bytes + current;
        needs.bytes = needs.bytes.saturating_add(largest.saturating_mul(clones));
        needs.files = needs.files.saturating_add(most_files * clones);
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_the_largest_use_and_the_growth_per_cycle() {
        let step = |action| CycleStep {
            action,
            timed: true,
        };
        let current = || Subject::Current;
        let check = |sets: &[(u64, u64)], cycle: Vec<Action>, clones, expected| {
            let sets = sets.iter().map(|(count, size)| FileSet {
                name: "files".to_owned(),
                count: *count,
                size: *size,
                fsync: true,
                folders: false,
            });
            let operations = Operations {
                about: String::new(),
                sets: sets.collect(),
                cycle: cycle.into_iter().map(step).collect(),
                own_folders: false,
                drain: false,
                fio: None,
            };
            let needs = operations.needs(clones);
            let found = (
                needs.bytes,
                needs.files,
                needs.bytes_per_op,
                needs.files_per_op,
            );
            assert_eq!(found, expected);
        };
        let make = |bytes| vec![Action::Create, Action::Write { bytes }, Action::Close];
        let mut made_and_unlinked = make(200);
        made_and_unlinked.push(Action::Unlink { of: current() });
        let append = |keep| {
            vec![Action::Append {
                bytes: 10,
                new_file_at: 100,
                keep,
            }]
        };
        check(&[(10, 100)], vec![], 1, (1000, 10, 0, 0));
        check(&[(10, 100)], made_and_unlinked, 2, (1400, 12, 0, 0));
        check(&[], make(0), 1, (0, 1, 0, 1));
        check(&[], make(7), 1, (7, 1, 7, 1));
        check(&[], append(None), 1, (0, 1, 10, 0));
        check(&[], append(Some(0)), 3, (600, 6, 0, 0));
        let needs = Needs {
            bytes: 700,
            appended: 600,
            appended_per_op: 10,
            files: 6,
            bytes_per_op: 1,
            files_per_op: 0,
        };
        assert_eq!(needs.after(1), (111, 6));
        assert_eq!(needs.after(100), (800, 6));
        check(&[], vec![Action::Mkdir, Action::Rmdir], 4, (0, 4, 0, 0));
    }

    #[test]
    fn a_cycle_records_itself_and_each_kind_of_step_once() {
        let step = |action, timed| CycleStep { action, timed };
        let operations = Operations {
            about: String::new(),
            sets: Vec::new(),
            cycle: vec![
                step(Action::Create, true),
                step(Action::SyncFolder, true),
                step(Action::Close, false),
            ],
            own_folders: false,
            drain: false,
            fio: None,
        };
        let directions = operations.directions();
        assert_eq!(
            directions,
            [
                Direction::Op,
                Direction::Create,
                Direction::Close,
                Direction::SyncFolder
            ]
        );
        let timed: Vec<bool> = directions.iter().map(|d| operations.times(*d)).collect();
        assert_eq!(timed, [true, true, false, true]);
    }

    #[test]
    fn every_direction_has_its_own_index() {
        for (index, direction) in Direction::EVERY.into_iter().enumerate() {
            assert_eq!(direction as usize, index);
        }
        assert_eq!(Direction::ALL, Direction::EVERY[..4]);
    }
}
