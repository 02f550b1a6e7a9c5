//! Static checks of a workload of file operations.

use std::collections::BTreeSet;
use std::fmt;

use super::{Action, CycleStep, FileSet, Operations, Subject};
use crate::Direction;

/// File and step numbers have 32 bits.
const MAX_FILES: u64 = u32::MAX as u64 - 1;
/// Lengths and offsets are signed on Linux.
const MAX_BYTES: u64 = i64::MAX as u64;
/// A name has at most 255 bytes, including a dot and the file's number.
const MAX_NAME_LEN: usize = 200;

/// An error of a workload of file operations. Its text includes its step, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationsFault {
    /// The index of its step and the direction of that; `None`: it concerns the whole workload.
    pub step: Option<(usize, Direction)>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for OperationsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((index, direction)) = self.step {
            write!(f, "step {} ({}): ", index + 1, direction.name())?;
        }
        f.write_str(&self.message)
    }
}

impl Operations {
    /// All errors, worded to follow "job `x`: "; empty if the workload is valid.
    ///
    /// Names of sets become names of files, so they may contain letters, digits, `-` and `_` only.
    pub fn faults(&self) -> Vec<OperationsFault> {
        let whole = |message| OperationsFault {
            step: None,
            message,
        };
        let mut faults: Vec<OperationsFault> = self.of_sets().into_iter().map(whole).collect();
        if self.cycle.is_empty() {
            faults.push(whole("its cycle has no step".to_owned()));
        } else if !self.cycle.iter().any(|step| step.timed) {
            faults.push(whole("no step of its cycle is timed".to_owned()));
        }
        for (index, step) in self.cycle.iter().enumerate() {
            let own = of_amounts(&step.action).into_iter();
            let unknown = step.action.set().filter(|name| !self.has(name));
            let unknown = unknown.map(|name| format!("unknown set `{name}`"));
            let without = step.action == Action::Run && self.command.is_none();
            let without = without.then(|| "the workload has no command".to_owned());
            faults.extend(
                own.chain(unknown)
                    .chain(without)
                    .map(|fault| at(index, step, fault)),
            );
        }
        faults.extend(self.of_files());
        if self.bytes() > u128::from(MAX_BYTES) {
            let message = "its sets and a cycle have too many bytes to count";
            faults.push(whole(message.to_owned()));
        }
        faults
    }

    fn has(&self, name: &str) -> bool {
        self.sets.iter().any(|set| set.name == name)
    }

    fn of_sets(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut seen = BTreeSet::new();
        for FileSet {
            name, count, size, ..
        } in &self.sets
        {
            let fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if name.is_empty() || name.len() > MAX_NAME_LEN || !name.bytes().all(fit) {
                faults.push(format!(
                    "the set's name `{name}` cannot be a part of file names: use up to {MAX_NAME_LEN} \
                     letters, digits, `-` and `_`"
                ));
            }
            if !seen.insert(name) {
                faults.push(format!("there are two sets `{name}`"));
            }
            if *count == 0 {
                faults.push(format!("the set `{name}` has no files"));
            }
            if *count > MAX_FILES {
                faults.push(format!(
                    "the set `{name}` has {count} files, more than {MAX_FILES}"
                ));
            }
            if *size > MAX_BYTES {
                faults.push(format!("files of set `{name}` are too long"));
            }
        }
        faults
    }

    /// Checks for steps on a file that cannot exist, or is open when it must be closed. The cycle is
    /// simulated twice, because it starts with what the previous one left.
    fn of_files(&self) -> Vec<OperationsFault> {
        let mut faults = Vec::new();
        let mut state = State::default();
        for _ in 0..2 {
            for (index, step) in self.cycle.iter().enumerate() {
                if let Some(fault) = state.after(&step.action) {
                    let fault = at(index, step, fault.to_owned());
                    if !faults.contains(&fault) {
                        faults.push(fault);
                    }
                }
            }
        }
        faults
    }

    /// Total bytes of all sets and of the requests of one cycle.
    fn bytes(&self) -> u128 {
        let sets = self.sets.iter();
        let sets = sets.map(|set| u128::from(set.count) * u128::from(set.size));
        let steps = self.cycle.iter().map(|step| match &step.action {
            Action::Write { bytes } | Action::Fallocate { bytes } => u128::from(*bytes),
            Action::Append { new_file_at, .. } => u128::from(*new_file_at),
            _ => 0,
        });
        sets.chain(steps).fold(0, u128::saturating_add)
    }
}

impl Action {
    /// The file of its step, if the step names one.
    fn subject(&self) -> Option<&Subject> {
        match self {
            Action::Open { of }
            | Action::Unlink { of }
            | Action::Rename { of }
            | Action::Stat { of } => Some(of),
            _ => None,
        }
    }

    /// The set of its file.
    fn set(&self) -> Option<&str> {
        match self.subject()? {
            Subject::Current => None,
            Subject::Set { name, .. } => Some(name),
        }
    }
}

fn at(index: usize, step: &CycleStep, message: String) -> OperationsFault {
    OperationsFault {
        step: Some((index, step.action.direction())),
        message,
    }
}

fn of_amounts(action: &Action) -> Vec<String> {
    let mut faults = Vec::new();
    let (bytes, may_be_none) = match action {
        Action::Write { bytes } | Action::Fallocate { bytes } => (*bytes, false),
        Action::Append {
            bytes, new_file_at, ..
        } => {
            if bytes > new_file_at {
                faults.push(format!(
                    "{bytes} bytes are appended to files of at most {new_file_at}"
                ));
            }
            ((*bytes).min(*new_file_at), *bytes > 0)
        }
        Action::Truncate { length } => (*length, true),
        _ => return faults,
    };
    if bytes == 0 && !may_be_none {
        faults.push("0 bytes".to_owned());
    }
    if bytes > MAX_BYTES {
        faults.push(format!("{bytes} bytes are more than a file can have"));
    }
    faults
}

/// State of the current file, as determined by the preceding steps.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Current {
    #[default]
    None,
    /// Open, with the name of its set if it belongs to one.
    Open(Option<String>),
    Closed(Option<String>),
    /// Appended to over several cycles.
    Appended,
}

#[derive(Debug, Default)]
struct State {
    current: Current,
    /// Number of folders created and not removed.
    folders: u32,
}

const NO_FILE: &str = "no file was created or opened before it";
const NOT_OPEN: &str = "the current file is closed by then";
const STILL_OPEN: &str =
    "the file before is still open: close it first, or each cycle leaves one more open";
const STAYS_OPEN: &str = "a file that is appended to stays open over cycles";

impl State {
    /// Applies a step and returns its error.
    fn after(&mut self, action: &Action) -> Option<&'static str> {
        use Current::{Appended, Closed, Open};
        let before = self.current.clone();
        let (fault, next) = match action {
            Action::Create => (still_open(&before), Open(None)),
            Action::Append { .. } => (still_open(&before), Appended),
            Action::Open { of } => opens(of, before),
            Action::Unlink { of } => unlinks(of, before),
            Action::Rename {
                of: Subject::Current,
            } => (renames(&before), before),
            Action::Stat {
                of: Subject::Current,
            } => ((before == Current::None).then_some(NO_FILE), before),
            Action::Close => match before {
                Open(set) => (None, Closed(set)),
                Appended => (Some(STAYS_OPEN), Appended),
                before => (not_open(&before), before),
            },
            Action::Write { .. }
            | Action::Sync
            | Action::Truncate { .. }
            | Action::Fallocate { .. } => (not_open(&before), before),
            Action::Mkdir => {
                self.folders += 1;
                (None, before)
            }
            Action::Rmdir => {
                let fault = (self.folders == 0).then_some("no folder was made before it");
                self.folders = self.folders.saturating_sub(1);
                (fault, before)
            }
            Action::Rename { .. }
            | Action::Stat { .. }
            | Action::SyncFolder
            | Action::Statfs
            | Action::Readdir
            | Action::Run => (None, before),
        };
        self.current = next;
        fault
    }
}

fn opens(of: &Subject, before: Current) -> (Option<&'static str>, Current) {
    match (of, before) {
        (Subject::Set { name, .. }, before) => {
            (still_open(&before), Current::Open(Some(name.clone())))
        }
        (Subject::Current, Current::None) => (Some(NO_FILE), Current::Open(None)),
        (Subject::Current, Current::Closed(set)) => (None, Current::Open(set)),
        (Subject::Current, before) => (Some(STILL_OPEN), before),
    }
}

fn unlinks(of: &Subject, before: Current) -> (Option<&'static str>, Current) {
    match (of, before) {
        (Subject::Current, before) => (forgets(&before), Current::None),
        (Subject::Set { name, .. }, Current::Open(Some(set))) if set == *name => (
            Some(
                "a file of the set may still be open: close it first, or its space is not given back",
            ),
            Current::Open(Some(set)),
        ),
        // It may be the file that was unlinked.
        (Subject::Set { name, .. }, Current::Closed(Some(set))) if set == *name => {
            (None, Current::None)
        }
        (_, before) => (None, before),
    }
}

fn still_open(before: &Current) -> Option<&'static str> {
    matches!(before, Current::Open(_)).then_some(STILL_OPEN)
}

fn not_open(before: &Current) -> Option<&'static str> {
    match before {
        Current::None => Some(NO_FILE),
        Current::Closed(_) => Some(NOT_OPEN),
        Current::Open(_) | Current::Appended => None,
    }
}

fn forgets(before: &Current) -> Option<&'static str> {
    match before {
        Current::None => Some(NO_FILE),
        Current::Open(_) => {
            Some("the file is still open: close it first, or its space is not given back")
        }
        Current::Appended => Some(STAYS_OPEN),
        Current::Closed(Some(_)) => {
            Some("the file is of a set: name the set, which then has one less")
        }
        Current::Closed(None) => None,
    }
}

fn renames(before: &Current) -> Option<&'static str> {
    match before {
        Current::None => Some(NO_FILE),
        Current::Appended => Some("a file that is appended to keeps its name"),
        Current::Open(Some(_)) | Current::Closed(Some(_)) => {
            Some("the file is of a set: name the set, which then knows its new name")
        }
        Current::Open(None) | Current::Closed(None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PickOrder;

    fn set(name: &str, count: u64, size: u64) -> FileSet {
        FileSet {
            name: name.to_owned(),
            count,
            size,
            fsync: true,
            folders: false,
        }
    }

    fn operations(sets: &[FileSet], cycle: &[Action]) -> Operations {
        let timed = |action: &Action| CycleStep {
            action: action.clone(),
            timed: true,
        };
        Operations {
            about: String::new(),
            sets: sets.to_vec(),
            cycle: cycle.iter().map(timed).collect(),
            own_folders: false,
            drain: false,
            writing: Default::default(),
            fio: None,
            command: None,
        }
    }

    /// Each expectation is a substring of one error, in order.
    #[track_caller]
    fn check(sets: &[FileSet], cycle: &[Action], expected: &[&str]) {
        let faults = operations(sets, cycle).faults();
        assert_eq!(faults.len(), expected.len(), "{faults:#?}");
        for (fault, part) in faults.iter().zip(expected) {
            assert!(
                fault.to_string().contains(part),
                "`{fault}` has no `{part}`"
            );
        }
    }

    const CURRENT: Subject = Subject::Current;

    fn of(name: &str) -> Subject {
        Subject::Set {
            name: name.to_owned(),
            order: PickOrder::Newest,
        }
    }

    fn append(bytes: u64, new_file_at: u64) -> Action {
        Action::Append {
            bytes,
            new_file_at,
            keep: None,
        }
    }

    use Action::{Close, Create, Mkdir, Rmdir, Statfs, Sync, SyncFolder};

    #[test]
    fn valid_workloads_have_no_errors() {
        let write = || Action::Write { bytes: 9 };
        let unlink = |of| Action::Unlink { of };
        let (open, rename) = (|of| Action::Open { of }, |of| Action::Rename { of });
        let files = [set("files", 10, 5)];
        check(&[], &[Create, SyncFolder, Close], &[]);
        check(&files, &[unlink(of("files"))], &[]);
        check(
            &files,
            &[Create, write(), Sync, Close, unlink(CURRENT)],
            &[],
        );
        check(&[], &[append(5, 5), Sync, Statfs], &[]);
        check(&[], &[Create, Close, append(5, 9), Sync], &[]);
        check(&files, &[open(of("files")), write(), Close], &[]);
        let stat = Action::Stat { of: CURRENT };
        check(
            &[],
            &[Create, rename(CURRENT), Close, stat, open(CURRENT), Close],
            &[],
        );
        check(&[], &[Mkdir, Mkdir, Rmdir, Rmdir], &[]);
        check(
            &files,
            &[open(of("files")), Close, unlink(of("files"))],
            &[],
        );
        check(&[], &[Create, Action::Truncate { length: 0 }, Close], &[]);
        check(&[set("empty", 1, 0)], &[Statfs], &[]);
    }

    #[test]
    fn sets_have_unique_names_and_are_not_empty() {
        let cycle = [Statfs];
        check(&[set("a/b", 1, 1)], &cycle, &["`a/b` cannot be"]);
        check(&[set("", 1, 1), set("..", 1, 1)], &cycle, &["``", "`..`"]);
        check(&[set(&"n".repeat(201), 1, 1)], &cycle, &["up to 200"]);
        check(&[set("a", 1, 1), set("a", 1, 1)], &cycle, &["two sets `a`"]);
        check(&[set("a", 0, 1)], &cycle, &["`a` has no files"]);
        check(&[set("a", 1 << 32, 1)], &cycle, &["4294967296 files"]);
        check(&[set("a", 1 << 31, 1 << 33)], &cycle, &["too many bytes"]);
        check(
            &[set("a", 1, 1 << 63)],
            &cycle,
            &["too long", "too many bytes"],
        );
    }

    #[test]
    fn steps_need_a_file_in_the_right_state() {
        let write = |bytes| Action::Write { bytes };
        let unlink = |of| Action::Unlink { of };
        let open = |of| Action::Open { of };
        let files = [set("s", 1, 1)];
        check(&[], &[], &["no step"]);
        check(&[], &[write(1)], &["step 1 (write): no file"]);
        check(&[], &[Sync], &["step 1 (sync): no file"]);
        check(&[], &[Close], &["step 1 (close): no file"]);
        check(
            &[],
            &[Create, Close, Sync],
            &["step 3 (sync): the current file is closed"],
        );
        check(
            &[],
            &[Create, Close, Close],
            &["step 3 (close): the current"],
        );
        check(
            &[],
            &[Create],
            &["step 1 (create): the file before is still open"],
        );
        check(
            &[],
            &[Create, unlink(CURRENT)],
            &["step 2 (unlink): the file is still open"],
        );
        check(&[], &[unlink(CURRENT)], &["step 1 (unlink): no file"]);
        check(&[], &[append(1, 1), unlink(CURRENT)], &["stays open"]);
        check(&[], &[append(1, 1), Close], &["stays open"]);
        check(
            &[],
            &[unlink(of("x"))],
            &["step 1 (unlink): unknown set `x`"],
        );
        let held = [open(of("s")), unlink(of("s")), Close];
        check(&files, &held, &["step 2 (unlink): a file of the set may"]);
        let unnamed = [open(of("s")), Close, unlink(CURRENT)];
        check(&files, &unnamed, &["the file is of a set"]);
        check(&[], &[Rmdir], &["step 1 (rmdir): no folder"]);
        check(&[], &[Mkdir, Rmdir, Rmdir], &["step 3 (rmdir): no folder"]);
        check(&[], &[open(CURRENT)], &["no file", "still open"]);
    }

    #[test]
    fn amounts_are_within_their_limits() {
        let none = [Create, Action::Write { bytes: 0 }, Close];
        check(&[], &none, &["step 2 (write): 0 bytes"]);
        check(
            &[],
            &[append(5, 4)],
            &["5 bytes are appended to files of at most 4"],
        );
        check(&[], &[append(0, 4)], &["step 1 (write): 0 bytes"]);
        check(
            &[],
            &[append(4, 0)],
            &["4 bytes are appended to files of at most 0"],
        );
        let vast = [Create, Action::Write { bytes: u64::MAX }, Close];
        check(&[], &vast, &["more than a file", "too many bytes"]);
    }

    #[test]
    fn a_step_must_be_timed_and_all_errors_are_reported_at_once() {
        let mut untimed = operations(&[set("", 0, 1)], &[Sync]);
        untimed.cycle[0].timed = false;
        assert_eq!(untimed.faults().len(), 4, "{:?}", untimed.faults());
    }
}
