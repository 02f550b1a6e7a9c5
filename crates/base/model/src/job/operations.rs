//! File operations: a repeated cycle of steps, and the files that exist before it.

use std::path::PathBuf;

use iodyno_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::Direction;

mod command;
mod faults;

pub use command::{OutputMetric, OutputSource, ShellCommand};
pub use faults::OperationsFault;

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
    /// How data are written.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub writing: Writing,
    /// What a job of one of fio's file engines adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fio: Option<FioOperations>,
    /// What the step [`Action::Run`] runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<ShellCommand>,
}

/// How a workload writes data. This affects how files are laid out and cached, and therefore how long it takes to
/// remove them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Writing {
    /// Bytes of one call, when the files of sets are created and in the steps that write: a power of two, at most
    /// [`Self::CHUNK`].
    pub chunk: u64,
    /// Number of threads that create the files of the sets. `None`: four, or one for files of at least 32 MiB, which
    /// keep the storage busy one by one and are in one piece if nothing is written between their pieces.
    pub threads: Option<u32>,
}

impl Writing {
    /// The largest chunk, and the default, bytes.
    pub const CHUNK: u64 = 1 << 20;
    /// Files of this length are created by one thread unless `threads` is set, bytes.
    const ALONE: u64 = 32 << 20;

    /// Number of threads that create the files of a set.
    pub fn threads_for(&self, set: &FileSet) -> u32 {
        let threads = self.threads.unwrap_or(match set.size {
            Writing::ALONE.. => 1,
            _ => 4,
        });
        u32::try_from(set.count)
            .unwrap_or(u32::MAX)
            .min(threads)
            .max(1)
    }
}

impl Default for Writing {
    fn default() -> Writing {
        Writing {
            chunk: Writing::CHUNK,
            threads: None,
        }
    }
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

impl Subject {
    /// The set that the file is taken from.
    pub fn set(&self) -> Option<&str> {
        match self {
            Subject::Set { name, .. } => Some(name),
            Subject::Current => None,
        }
    }
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
    /// Runs [`Operations::command`].
    Run,
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
            Action::Run => Direction::Run,
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

    /// Whether data are written, before the cycles or by them.
    pub fn makes_data(&self) -> bool {
        let mut steps = self.cycle.iter();
        self.sets.iter().any(|set| set.count > 0 && set.size > 0)
            || steps.any(|step| step.action.direction() == Direction::Write)
    }

    /// How data are written: `1 MiB a write, 4 threads`, where the threads create the sets; empty if neither data nor
    /// sets are made.
    pub fn writing_in_words(&self) -> String {
        let mut words = Vec::new();
        if self.makes_data() {
            words.push(format!("{} a write", Bytes(self.writing.chunk)));
        }
        let sets = self.sets.iter();
        let mut threads: Vec<u32> = sets.map(|set| self.writing.threads_for(set)).collect();
        threads.dedup();
        let each: Vec<String> = threads.iter().map(u32::to_string).collect();
        match threads.as_slice() {
            [] => {}
            [1] => words.push("1 thread".to_owned()),
            _ => words.push(format!("{} threads", each.join(" and "))),
        }
        words.join(", ")
    }

    /// Whether a cycle does work that is not timed, which affects the rate of cycles and the completion. Closing a file
    /// that the cycle wrote nothing to is not counted as work.
    pub fn has_untimed_work(&self) -> bool {
        let mut written = false;
        self.cycle.iter().any(|step| {
            written |= matches!(
                step.action,
                Action::Write { .. }
                    | Action::Append { .. }
                    | Action::Truncate { .. }
                    | Action::Fallocate { .. }
            );
            !step.timed && (written || step.action != Action::Close)
        })
    }
}

impl Operations {
    /// Number of cycles, over all clones, until each clone has an empty set that its cycles take files from; `None` if
    /// cycles take no files.
    pub fn cycles_until_empty(&self, clones: u32) -> Option<u64> {
        let clones = u64::from(clones.max(1));
        let takes = |step: &&CycleStep, set: &str| matches!(&step.action, Action::Unlink { of } if of.set() == Some(set));
        let taken = |set: &str| {
            let steps = self.cycle.iter().filter(|step| takes(step, set));
            steps.count() as u64
        };
        let emptied: Vec<(u64, u64)> = self
            .sets
            .iter()
            .map(|set| (set.count, taken(&set.name)))
            .filter(|(_, taken)| *taken > 0)
            .collect();
        if emptied.is_empty() {
            return None;
        }
        let of_clone = |clone: u64| {
            let cycles = emptied.iter().map(|(count, taken)| {
                let share = count / clones + u64::from(clone < count % clones);
                share / taken
            });
            cycles.min().unwrap_or(0)
        };
        Some((0..clones).map(of_clone).sum())
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
                writing: Default::default(),
                fio: None,
                command: None,
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
            writing: Default::default(),
            fio: None,
            command: None,
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
    fn long_files_are_created_one_by_one_unless_threads_are_set() {
        let set = |count, size| FileSet {
            name: "files".to_owned(),
            count,
            size,
            fsync: true,
            folders: false,
        };
        let words = |sets: &[FileSet], writing| {
            let operations = Operations {
                about: String::new(),
                sets: sets.to_vec(),
                cycle: Vec::new(),
                own_folders: false,
                drain: false,
                writing,
                fio: None,
                command: None,
            };
            operations.writing_in_words()
        };
        let (small, long) = (set(100, 1 << 20), set(10, 32 << 20));
        let default = Writing::default();
        let original = Writing {
            chunk: 1024,
            threads: Some(1),
        };
        let both = [small.clone(), long.clone()];
        assert_eq!(words(&both, default), "1 MiB a write, 4 and 1 threads");
        assert_eq!(words(&both, original), "1 KiB a write, 1 thread");
        assert_eq!(words(&[long], default), "1 MiB a write, 1 thread");
        assert_eq!(words(&[set(3, 4096)], default), "1 MiB a write, 3 threads");
        assert_eq!(words(&[set(9, 0)], default), "4 threads");
        assert_eq!(words(&[], original), "");
    }

    #[test]
    fn a_set_is_divided_among_clones_and_emptied() {
        let unlink = |set: &str| Action::Unlink {
            of: Subject::Set {
                name: set.to_owned(),
                order: PickOrder::Newest,
            },
        };
        type Case<'a> = (&'a [(&'a str, u64)], Vec<Action>, u32, Option<u64>);
        let cases: [Case<'_>; 7] = [
            (&[("a", 10)], vec![unlink("a")], 1, Some(10)),
            (&[("a", 10)], vec![unlink("a")], 3, Some(10)),
            (&[("a", 10)], vec![unlink("a"), unlink("a")], 3, Some(4)),
            (&[("a", 10), ("b", 4)], vec![unlink("b")], 2, Some(4)),
            (
                &[("a", 10), ("b", 4)],
                vec![unlink("a"), unlink("b")],
                1,
                Some(4),
            ),
            (&[("a", 10)], vec![Action::Statfs], 1, None),
            (&[], vec![Action::Create], 1, None),
        ];
        for (sets, cycle, clones, expected) in cases {
            let sets = sets.iter().map(|(name, count)| FileSet {
                name: (*name).to_owned(),
                count: *count,
                size: 0,
                fsync: false,
                folders: false,
            });
            let cycle = cycle.into_iter().map(|action| CycleStep {
                action,
                timed: true,
            });
            let operations = Operations {
                about: String::new(),
                sets: sets.collect(),
                cycle: cycle.collect(),
                own_folders: false,
                drain: false,
                writing: Writing::default(),
                fio: None,
                command: None,
            };
            let found = operations.cycles_until_empty(clones);
            assert_eq!(found, expected, "{operations:?} {clones}");
        }
    }

    #[test]
    fn untimed_work_is_any_untimed_step_but_closing_an_unwritten_file() {
        let write = || Action::Write { bytes: 1 };
        for (steps, expected) in [
            (vec![(Action::Create, true), (Action::Close, true)], false),
            (vec![(Action::Create, true), (Action::Close, false)], false),
            (
                vec![
                    (Action::Create, true),
                    (write(), true),
                    (Action::Close, false),
                ],
                true,
            ),
            (
                vec![
                    (Action::Create, true),
                    (Action::Close, false),
                    (Action::SyncFolder, false),
                ],
                true,
            ),
            (vec![(Action::Create, false), (Action::Close, true)], true),
        ] {
            let steps = steps.into_iter();
            let operations = Operations {
                about: String::new(),
                sets: Vec::new(),
                cycle: steps
                    .map(|(action, timed)| CycleStep { action, timed })
                    .collect(),
                own_folders: false,
                drain: false,
                writing: Default::default(),
                fio: None,
                command: None,
            };
            assert_eq!(operations.has_untimed_work(), expected, "{operations:?}");
        }
    }

    #[test]
    fn every_direction_has_its_own_index() {
        for (index, direction) in Direction::EVERY.into_iter().enumerate() {
            assert_eq!(direction as usize, index);
        }
        assert_eq!(Direction::ALL, Direction::EVERY[..4]);
    }
}
