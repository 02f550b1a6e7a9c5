//! The workloads that have a name.

use iodyno_model::Needs;
use iodyno_units::Bytes;

use crate::operations::counted;
use crate::style::{Paint, Style, harmless, left, width};

/// Room that a description needs beside the other columns; with less it has lines of its own.
const LEAST_ABOUT: usize = 30;

/// A workload that has a name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListRow {
    /// Its name.
    pub name: String,
    /// Its other names.
    pub aliases: Vec<String>,
    /// What is done, and what of it is timed.
    pub about: String,
    /// Space and files.
    pub needs: Needs,
    /// Threads.
    pub clones: u32,
    /// Cycles, where they are what ends it.
    pub ops: Option<u64>,
}

/// An entry a workload: its name, what it needs, what it does, and its other names. Ends with a newline; empty
/// without workloads.
pub fn list(rows: &[ListRow], style: Style) -> String {
    let texts: Vec<(String, String)> = rows
        .iter()
        .map(|row| (harmless(&row.name), needs(&row.needs, row.ops)))
        .collect();
    let widest = |column: fn(&(String, String)) -> &str| {
        texts
            .iter()
            .map(|row| width(column(row)))
            .max()
            .unwrap_or(0)
    };
    let (name_width, needs_width) = (widest(|row| &row.0), widest(|row| &row.1));
    let before = name_width + needs_width + 4;
    let beside = style.columns() >= before + LEAST_ABOUT;
    let mut text = String::new();
    for (row, (name, needs)) in rows.iter().zip(&texts) {
        let head = format!("{}  {}", left(name, name_width), left(needs, needs_width));
        let about = about(row);
        let drawn = match beside {
            true => style.wrap(&format!("{head}  {about}"), before),
            false => format!(
                "{}\n{}",
                head.trim_end(),
                style.wrap(&format!("    {about}"), 4)
            ),
        };
        text += &(paint(&drawn, name, row, style) + "\n");
    }
    style.plain(&text)
}

fn about(row: &ListRow) -> String {
    let also = match row.aliases.as_slice() {
        [] => String::new(),
        names => format!(" (also {})", names.join(", ")),
    };
    harmless(&format!("{}{also}", row.about))
}

/// The name stands out, other names stand back. Done after wrapping: escape sequences take no room.
fn paint(drawn: &str, name: &str, row: &ListRow, style: Style) -> String {
    if !style.color {
        return drawn.to_owned();
    }
    let rest = drawn.strip_prefix(name).unwrap_or(drawn);
    let head = style.paint(Paint::Strong, name);
    match rest.rfind("(also ") {
        Some(at) if !row.aliases.is_empty() => {
            let (about, also) = rest.split_at(at);
            let lines: Vec<String> = also
                .lines()
                .map(|line| {
                    let text = line.trim_start();
                    let indent = &line[..line.len() - text.len()];
                    indent.to_owned() + &style.paint(Paint::Dim, text)
                })
                .collect();
            format!("{head}{about}{}", lines.join("\n"))
        }
        _ => head + rest,
    }
}

/// `19.5 GiB, 10 000 files`; what grows: `9.54 MiB a cycle`, `1 file a cycle`; after so many cycles, where they
/// are known. `-` where it is nothing.
pub fn needs(needs: &Needs, ops: Option<u64>) -> String {
    let what = |bytes: u64, files: u64| {
        let bytes = (bytes > 0).then(|| Bytes(bytes).to_string());
        let files = (files > 0).then(|| counted(files, "file"));
        let parts: Vec<String> = bytes.into_iter().chain(files).collect();
        parts.join(", ")
    };
    let grows = needs.bytes_per_op > 0 || needs.files_per_op > 0;
    let text = match ops.filter(|_| grows) {
        Some(ops) => {
            let (bytes, files) = needs.after(ops);
            what(bytes, files)
        }
        None if grows => {
            // What one cycle holds is what it adds: to say both says nothing more.
            let standing =
                match needs.bytes > needs.bytes_per_op || needs.files > needs.files_per_op.max(1) {
                    true => what(needs.bytes, needs.files) + " and ",
                    false => String::new(),
                };
            format!(
                "{standing}{} a cycle",
                what(needs.bytes_per_op, needs.files_per_op)
            )
        }
        None => what(needs.bytes, needs.files),
    };
    match text.is_empty() {
        true => "-".to_owned(),
        false => text,
    }
}
