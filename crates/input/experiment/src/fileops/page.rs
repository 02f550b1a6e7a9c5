//! The table of docs/file-operations.md, of the named workloads; and the names of all keys.

use iodyno_units::Bytes;

use super::{Described, SETTINGS, cycle, named, names, read, sets};

/// All keys of a text, with the sets and steps that they belong to, and the flags of the command line.
pub fn keys() -> impl Iterator<Item = String> {
    let top = read::KEYS
        .iter()
        .filter(|key| !["files", "cycle"].contains(key));
    let top = top.map(|key| (*key).to_owned());
    let sets = sets::KEYS.iter().map(|key| format!("files.{key}"));
    let steps = cycle::KEYS.iter().map(|key| format!("cycle.{key}"));
    let flags = SETTINGS.iter().map(|key| format!("--set {key}"));
    top.chain(sets).chain(steps).chain(flags)
}

/// A Markdown table of the named workloads: description and needs.
pub fn names_markdown() -> String {
    let mut page = String::from(
        "| name | what is done, and what of it is timed | needs at once | each op leaves |\n|---|---|---|---|\n",
    );
    for entry in names() {
        let Some(described) = named(entry.name) else {
            continue;
        };
        page += &format!(
            "| `{}` | {} | {} | {} |\n",
            entry.name,
            described.about,
            at_once(&described),
            left(&described),
        );
    }
    page
}

fn at_once(described: &Described) -> String {
    let needs = described.needs();
    let most = if needs.appended > 0 { "up to " } else { "" };
    format!("{most}{}, {}", Bytes(needs.bytes), files(needs.files))
}

fn left(described: &Described) -> String {
    let needs = described.needs();
    match (needs.bytes_per_op, needs.files_per_op) {
        (0, 0) => "nothing".to_owned(),
        (0, count) => files(count),
        (bytes, count) => format!("{}, {}", Bytes(bytes), files(count)),
    }
}

fn files(count: u64) -> String {
    match count {
        0 => "no file".to_owned(),
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}
