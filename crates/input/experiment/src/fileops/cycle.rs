//! `[[cycle]]`: the steps, each with the keys of its op.

use crate::document::{Report, Section, instead, listed};
use iodyno_model::{Action, CycleStep, FileSet, PickOrder, Subject};

use super::check::Places;
use super::sets::MOST;

/// The keys of a step.
pub(super) const KEYS: [&str; 8] = [
    "op",
    "timed",
    "of",
    "order",
    "bytes",
    "new-file-at",
    "keep",
    "length",
];

/// An op and its keys, without `op` and `timed`.
pub(super) const OPS: [(&str, &[&str]); 16] = [
    ("create", &[]),
    ("open", &["of", "order"]),
    ("close", &[]),
    ("write", &["bytes"]),
    ("append", &["bytes", "new-file-at", "keep"]),
    ("sync", &[]),
    ("sync_folder", &[]),
    ("unlink", &["of", "order"]),
    ("rename", &["of", "order"]),
    ("stat", &["of", "order"]),
    ("statfs", &[]),
    ("mkdir", &[]),
    ("rmdir", &[]),
    ("readdir", &[]),
    ("truncate", &["length"]),
    ("fallocate", &["bytes"]),
];

const ORDERS: [(&str, PickOrder); 3] = [
    ("newest", PickOrder::Newest),
    ("oldest", PickOrder::Oldest),
    ("random", PickOrder::Random),
];

/// The name of an order.
pub(super) fn order_word(order: PickOrder) -> &'static str {
    let known = ORDERS.iter().find(|(_, known)| *known == order);
    known.map_or("newest", |(word, _)| word)
}

/// The name of an action's op.
pub(super) fn op_word(action: &Action) -> &'static str {
    match action {
        Action::Append { .. } => "append",
        other => other.direction().name(),
    }
}

/// Parses the steps, as far as they are valid.
pub(super) fn read(
    file: &Section<'_>,
    sets: &[FileSet],
    places: &mut Places,
    report: &mut Report<'_>,
) -> Vec<CycleStep> {
    let sections = file.tables("cycle", "a step", report);
    if let Some(beyond) = sections.get(MOST) {
        report.plain_error(beyond.at.clone(), format!("more than {MOST} steps"));
    }
    let mut steps = Vec::new();
    for section in &sections {
        let reader = StepReader {
            section,
            sets,
            report,
        };
        match reader.step() {
            Some(step) => {
                places.steps.push(section.at.clone());
                steps.push(step);
            }
            None => places.incomplete = true,
        }
    }
    steps
}

struct StepReader<'s, 'd, 'r, 't> {
    section: &'s Section<'d>,
    sets: &'s [FileSet],
    report: &'r mut Report<'t>,
}

impl StepReader<'_, '_, '_, '_> {
    fn step(mut self) -> Option<CycleStep> {
        self.section.miss("op", "\"create\"", self.report);
        self.section.miss("timed", "true", self.report);
        let timed = self.section.switch("timed", self.report);
        let words = OPS.map(|op| (op.0, op));
        let found = self.section.word("op", &words, self.report);
        let Some((op, keys)) = found.map(|found| found.value) else {
            self.section.refuse_unknown(&KEYS, self.report);
            return None;
        };
        self.refuse_unfit(op, keys);
        let action = self.action(op)?;
        // After an error, any value that causes no further error is suitable.
        let timed = timed.unwrap_or(true);
        Some(CycleStep { action, timed })
    }

    /// Reports unknown keys and keys that do not belong to this op.
    fn refuse_unfit(&mut self, op: &str, keys: &[&str]) {
        self.section.refuse_unknown(&KEYS, self.report);
        for key in KEYS {
            let Some(at) = self.section.key(key) else {
                continue;
            };
            if ["op", "timed"].contains(&key) || keys.contains(&key) {
                continue;
            }
            let hint = match keys {
                [] => format!("`{op}` has `op` and `timed` alone"),
                keys => format!("`{op}` has {} besides `op` and `timed`", listed(keys)),
            };
            let message = format!("`{key}` does not go with `{op}`");
            self.report.error(at, message, hint);
        }
    }

    fn action(&mut self, op: &str) -> Option<Action> {
        Some(match op {
            "create" => Action::Create,
            "open" => Action::Open { of: self.of()? },
            "close" => Action::Close,
            "write" => Action::Write {
                bytes: self.bytes("bytes", 1).unwrap_or(1),
            },
            "append" => self.append(),
            "sync" => Action::Sync,
            "sync_folder" => Action::SyncFolder,
            "unlink" => Action::Unlink { of: self.of()? },
            "rename" => Action::Rename { of: self.of()? },
            "stat" => Action::Stat { of: self.of()? },
            "statfs" => Action::Statfs,
            "mkdir" => Action::Mkdir,
            "rmdir" => Action::Rmdir,
            "readdir" => Action::Readdir,
            "truncate" => Action::Truncate {
                length: self.bytes("length", 0).unwrap_or(0),
            },
            _ => Action::Fallocate {
                bytes: self.bytes("bytes", 1).unwrap_or(1),
            },
        })
    }

    fn bytes(&mut self, key: &str, least: u64) -> Option<u64> {
        self.section.miss(key, "\"2MiB\"", self.report);
        self.section.size(key, least, self.report)
    }

    fn append(&mut self) -> Action {
        let bytes = self.bytes("bytes", 1);
        let new_file_at = self.bytes("new-file-at", 1);
        let most = u64::from(u32::MAX) / 2;
        let keep = self.section.count("keep", (0, most), self.report);
        let (bytes, new_file_at) = bytes.zip(new_file_at).unwrap_or((1, 1));
        Action::Append {
            bytes,
            new_file_at,
            keep: keep.map(|found| found.value as u32),
        }
    }

    /// The file of the step.
    fn of(&mut self) -> Option<Subject> {
        self.section.miss("of", "\"current\"", self.report);
        let of = self.section.text("of", self.report)?;
        let order = self.section.word("order", &ORDERS, self.report);
        if of.value == "current" {
            if let Some(order) = order {
                let hint = "remove it, or set `of` to the name of a set: `order` says which of its files is next";
                let message = "`order` has no effect on the current file";
                self.report.error(order.at, message, hint);
            }
            return Some(Subject::Current);
        }
        let mut names: Vec<&str> = self.sets.iter().map(|set| set.name.as_str()).collect();
        names.push("current");
        if !names.contains(&of.value.as_str()) {
            let hint = instead(&of.value, &names, "there is");
            let message = format!("unknown set {:?}", of.value);
            self.report.error(of.at, message, hint);
            return None;
        }
        Some(Subject::Set {
            name: of.value,
            order: order.map(|order| order.value).unwrap_or_default(),
        })
    }
}
