//! The table of the named workloads in docs/file-operations.md.

use iodyno_model::{Action, Subject};
use iodyno_units::Bytes;

use super::{Described, named, names};

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
