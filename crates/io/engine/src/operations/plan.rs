//! A cycle in executable form. It is checked first: an invalid one is refused with all of its faults.

use iodyno_model::{Action, CycleStep, Direction, FileSet, Operations, PickOrder, Subject};

use super::names::LONGEST;
use super::sets::SetFiles;
use super::share_count;

/// Maximum length of a name after its prefix: a slot and a number with the most digits.
const NUMBER: usize = 48;

/// The file that a step works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The one created or opened last.
    Current,
    /// The next of a set, which is removed from the set.
    Taken { set: usize, order: PickOrder },
    /// The next in an iteration over a set.
    Round { set: usize, cursor: usize },
}

/// An [`Action`] with the files and lengths of its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResolvedAction {
    Create,
    Open(Which),
    Close,
    Write {
        bytes: u64,
    },
    Append {
        slot: usize,
        bytes: u64,
        new_file_at: u64,
        keep: Option<u32>,
    },
    Sync,
    SyncFolder,
    Unlink(Which),
    Rename(Which),
    Stat(Which),
    Statfs,
    Mkdir,
    Rmdir,
    Readdir,
    Truncate {
        length: u64,
    },
    Fallocate {
        bytes: u64,
    },
    Run,
}

/// A step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) action: ResolvedAction,
    pub(super) direction: Direction,
    pub(super) timed: bool,
}

/// A cycle, and the resources it needs.
pub(super) struct Plan {
    pub(super) steps: Vec<Planned>,
    pub(super) sets: Vec<SetFiles>,
    /// For each set, the number of files required to begin a cycle.
    pub(super) wants: Vec<u32>,
    /// Number of files that stay open over cycles.
    pub(super) appended: usize,
    /// Number of folders that a cycle creates.
    pub(super) folders: usize,
    pub(super) reads_folder: bool,
    pub(super) longest_write: u64,
}

impl Plan {
    /// The plan of one of `clones` clones, whose files begin with `prefix`.
    ///
    /// # Errors
    /// All faults of the cycle.
    pub(super) fn new(
        operations: &Operations,
        prefix: &str,
        (clone, clones): (u32, u32),
    ) -> Result<Plan, Vec<String>> {
        let mut faults = Vec::new();
        if prefix.contains(['/', '\0']) || prefix.len() + NUMBER > LONGEST {
            faults.push(format!("names cannot begin with `{prefix}`"));
        }
        faults.extend(operations.faults().iter().map(ToString::to_string));
        if !faults.is_empty() {
            return Err(faults);
        }
        let rename = |step: &CycleStep| matches!(step.action, Action::Rename { .. });
        let renames = operations.cycle.iter().any(rename);
        let sets = operations.sets.iter().map(|set| {
            // The files of a set are counted in 32 bits: more were refused above.
            SetFiles::new(share_count(set.count, clone, clones) as u32, renames)
        });
        let mut plan = Plan {
            steps: Vec::with_capacity(operations.cycle.len()),
            sets: sets.collect(),
            wants: wants(operations),
            appended: 0,
            folders: 0,
            reads_folder: false,
            longest_write: 0,
        };
        for step in &operations.cycle {
            let planned = Planned {
                action: plan.resolved(&step.action, &operations.sets),
                direction: step.action.direction(),
                timed: step.timed,
            };
            plan.steps.push(planned);
        }
        Ok(plan)
    }

    fn resolved(&mut self, action: &Action, sets: &[FileSet]) -> ResolvedAction {
        match action {
            Action::Create => ResolvedAction::Create,
            Action::Open { of } => ResolvedAction::Open(self.which(of, sets, false)),
            Action::Close => ResolvedAction::Close,
            Action::Write { bytes } => {
                self.longest_write = self.longest_write.max(*bytes);
                ResolvedAction::Write { bytes: *bytes }
            }
            Action::Append {
                bytes,
                new_file_at,
                keep,
            } => {
                self.longest_write = self.longest_write.max(*bytes);
                self.appended += 1;
                ResolvedAction::Append {
                    slot: self.appended - 1,
                    bytes: *bytes,
                    new_file_at: *new_file_at,
                    keep: *keep,
                }
            }
            Action::Sync => ResolvedAction::Sync,
            Action::SyncFolder => ResolvedAction::SyncFolder,
            Action::Unlink { of } => ResolvedAction::Unlink(self.which(of, sets, true)),
            Action::Rename { of } => ResolvedAction::Rename(self.which(of, sets, false)),
            Action::Stat { of } => ResolvedAction::Stat(self.which(of, sets, false)),
            Action::Statfs => ResolvedAction::Statfs,
            Action::Mkdir => {
                self.folders += 1;
                ResolvedAction::Mkdir
            }
            Action::Rmdir => ResolvedAction::Rmdir,
            Action::Readdir => {
                self.reads_folder = true;
                ResolvedAction::Readdir
            }
            Action::Truncate { length } => ResolvedAction::Truncate { length: *length },
            Action::Fallocate { bytes } => ResolvedAction::Fallocate { bytes: *bytes },
            Action::Run => ResolvedAction::Run,
        }
    }

    fn which(&mut self, subject: &Subject, sets: &[FileSet], takes: bool) -> Which {
        match subject {
            Subject::Current => Which::Current,
            Subject::Set { name, order } => {
                // It exists: valid operations use only names that are defined.
                let set = sets.iter().position(|set| set.name == *name).unwrap_or(0);
                let order = *order;
                match takes {
                    true => Which::Taken { set, order },
                    false => Which::Round {
                        set,
                        cursor: self.sets[set].add_cursor(order),
                    },
                }
            }
        }
    }
}

/// For each set, the number of files required to begin a cycle: those it removes, and one more if a step after the last
/// removal needs one.
fn wants(operations: &Operations) -> Vec<u32> {
    let mut taken = vec![0; operations.sets.len()];
    let mut wants = taken.clone();
    for step in &operations.cycle {
        let (Action::Open { of }
        | Action::Unlink { of }
        | Action::Rename { of }
        | Action::Stat { of }) = &step.action
        else {
            continue;
        };
        let found = operations.sets.iter().position(|set| match of {
            Subject::Set { name, .. } => set.name == *name,
            Subject::Current => false,
        });
        if let Some(set) = found {
            wants[set] = wants[set].max(taken[set] + 1);
            taken[set] += u32::from(matches!(step.action, Action::Unlink { .. }));
        }
    }
    wants
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "files";

    fn plan(cycle: Vec<Action>, prefix: &str) -> Result<Plan, Vec<String>> {
        let timed = |action| CycleStep {
            action,
            timed: true,
        };
        let operations = Operations {
            about: String::new(),
            sets: vec![FileSet {
                name: SET.to_owned(),
                count: 9,
                size: 0,
                fsync: false,
                folders: false,
            }],
            cycle: cycle.into_iter().map(timed).collect(),
            own_folders: false,
            drain: false,
            writing: Default::default(),
            fio: None,
            command: None,
        };
        Plan::new(&operations, prefix, (0, 1))
    }

    #[test]
    fn a_cycle_begins_only_if_enough_files_are_left() {
        let newest = || Subject::Set {
            name: SET.to_owned(),
            order: PickOrder::Newest,
        };
        let stat = || Action::Stat { of: newest() };
        let unlink = || Action::Unlink { of: newest() };
        let check = |cycle, expected| {
            assert_eq!(
                plan(cycle, "c0.").map(|plan| plan.wants).unwrap(),
                [expected]
            );
        };
        check(vec![Action::Statfs], 0);
        check(vec![stat(), stat()], 1);
        check(vec![unlink(), unlink(), unlink()], 3);
        check(vec![stat(), unlink()], 1);
        check(vec![unlink(), stat()], 2);
    }

    #[test]
    fn an_invalid_cycle_is_refused_with_all_its_faults() {
        let check = |cycle, prefix, expected: &[&str]| {
            let faults = plan(cycle, prefix).err().unwrap_or_default();
            assert_eq!(faults.len(), expected.len(), "{faults:?}");
            for (fault, part) in faults.iter().zip(expected) {
                assert!(fault.contains(part), "{fault}: {part}");
            }
        };
        check(vec![Action::Statfs], "c0.", &[]);
        check(vec![], "c0.", &["no step"]);
        check(vec![Action::Close], "../", &["`../`", "step 1 (close)"]);
        check(vec![Action::Statfs], &"n".repeat(250), &["cannot begin"]);
    }
}
