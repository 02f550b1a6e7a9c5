//! `[[files]]`: the sets of files that exist before the measurement.

use crate::document::{Located, Report, Section};
use iodyno_model::FileSet;

use super::check::Places;

pub(super) const KEYS: [&str; 4] = ["name", "count", "size", "fsync"];

/// Maximum number of files of a set: their numbers have nine digits.
pub(super) const MAX_FILES: u64 = 1_000_000_000;

/// Maximum number of sets, and of steps of a cycle; more is assumed to be a mistake.
pub(super) const MOST: usize = 256;

/// Parses the sets, as far as they are valid.
pub(super) fn read(
    file: &Section<'_>,
    places: &mut Places,
    report: &mut Report<'_>,
) -> Vec<FileSet> {
    let sections = file.tables("files", "a set", report);
    if let Some(beyond) = sections.get(MOST) {
        report.plain_error(beyond.at.clone(), format!("more than {MOST} sets"));
    }
    let mut sets: Vec<FileSet> = Vec::new();
    for section in &sections {
        section.refuse_unknown(&KEYS, report);
        section.miss("name", "\"files\"", report);
        section.miss("count", "1000", report);
        section.miss("size", "\"2MiB\"", report);
        let name = section.text("name", report);
        let sound = name.as_ref().map(|name| is_sound(name, &sets, report));
        places.incomplete |= sound != Some(true);
        let count = section.count("count", (1, MAX_FILES), report);
        sets.push(FileSet {
            name: name.map(|found| found.value).unwrap_or_default(),
            count: count.map_or(1, |found| found.value),
            size: section.size("size", 0, report).unwrap_or(0),
            fsync: section.switch("fsync", report).unwrap_or(true),
            folders: false,
        });
    }
    sets
}

/// Whether a set may have this name; otherwise an error is added.
fn is_sound(name: &Located<String>, before: &[FileSet], report: &mut Report<'_>) -> bool {
    if !sound_name(&name.value, &['_', '-']) || name.value == "current" {
        let message = format!("{:?} cannot be a set's name", name.value);
        let hint = "a name has letters, digits, `_` and `-`, the first a letter or digit; \
                    `current` is the file that a cycle made";
        report.error(name.at.clone(), message, hint);
        return false;
    }
    if before.iter().any(|set| set.name == name.value) {
        let message = format!("there are two sets `{}`", name.value);
        report.error(name.at.clone(), message, "give each a unique name");
        return false;
    }
    true
}

/// Letters, digits, `_`, `.` and `-`, the first a letter or digit: other programs parse lines that contain
/// names.
pub(super) fn sound_name(name: &str, also: &[char]) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric();
    name.starts_with(plain)
        && name.len() <= 100
        && name
            .chars()
            .all(|letter| plain(letter) || also.contains(&letter))
}
