//! The tables of docs/file-operations.md: named workloads, and where the effect of each key is seen.

use iodyno_model::{Action, Subject};
use iodyno_units::Bytes;

use super::{Described, SETTINGS, cycle, named, names, read, sets};

/// Where tests show the effect of each key; their program writes it.
const EFFECTS: &str = include_str!("effects.txt");

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

/// A Markdown table of all keys with the place where a test shows the effect of each.
pub fn effects_markdown() -> String {
    let rows = EFFECTS.lines().filter_map(|line| line.split_once(": "));
    let rows: String = rows
        .map(|(key, place)| format!("| `{key}` | {place} |\n"))
        .collect();
    format!("| key | a test shows its effect in |\n|---|---|\n{rows}")
}

/// A Markdown table of the named workloads: description, end condition and needs.
pub fn names_markdown() -> String {
    let mut page = String::from(
        "| name | what is done, and what of it is timed | ends | needs at once | each op leaves |\n\
         |---|---|---|---|---|\n",
    );
    for entry in names() {
        let Some(described) = named(entry.name) else {
            continue;
        };
        let aliases = entry.aliases.iter().map(|alias| format!("`{alias}`"));
        let aliases: Vec<String> = aliases.collect();
        let also = match aliases.is_empty() {
            true => String::new(),
            false => format!(", also {}", aliases.join(", ")),
        };
        page += &format!(
            "| `{}`{also} | {} | {} | {} | {} |\n",
            entry.name,
            described.about,
            end(&described),
            at_once(&described),
            left(&described),
        );
    }
    page
}

fn end(described: &Described) -> String {
    if let Some(runtime) = described.job.end.runtime {
        return format!("after {:.0} s", runtime.secs());
    }
    let mut steps = described.operations().cycle.iter();
    let used_up = steps.find_map(|step| match &step.action {
        Action::Unlink {
            of: Subject::Set { name, .. },
        } => Some(format!("when `{name}` is empty")),
        _ => None,
    });
    used_up.unwrap_or_default()
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
