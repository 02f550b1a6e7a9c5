//! The workloads that have a name.

use iodyno_model::Needs;
use iodyno_units::{Bytes, counted};
use serde::Serialize;

use crate::json;
use crate::style::{Paint, Style, harmless, left, trimmed, width};

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

/// A line a workload: its name, what it needs, what it does, and its other names; where the style's width is too
/// little for some, what they do stands below each. Ends with a newline; empty without workloads.
pub fn list(rows: &[ListRow], style: Style) -> String {
    let texts: Vec<[String; 4]> = rows.iter().map(texts).collect();
    let widest = |column: usize| {
        texts
            .iter()
            .map(|row| width(&row[column]))
            .max()
            .unwrap_or(0)
    };
    let widths = [0, 1, 2, 3].map(widest);
    let one_line = texts.iter().all(|[_, _, about, also]| {
        widths[0] + widths[1] + width(about) + width(also) + 6 <= style.columns()
    });
    let mut text = String::new();
    for [name, needs, about, also] in &texts {
        let bold = style.paint(Paint::Strong, &left(name, widths[0]));
        text += &match one_line {
            true => {
                let also = style.paint(Paint::Dim, also);
                format!("{bold}  {}  {about}  {also}", left(needs, widths[1]))
            }
            false => below(style, widths, [&bold, needs, about, also]),
        };
        text += "\n";
    }
    style.plain(&trimmed(&text))
}

/// A workload on several lines: what does not fit beside its name stands below it.
fn below(style: Style, widths: [usize; 4], [bold, needs, about, also]: [&str; 4]) -> String {
    const INDENT: usize = 4;
    let room = style.columns().saturating_sub(widths[0] + 2);
    let mut first = bold.to_owned();
    let mut lines = Vec::new();
    let mut add = |text: &str, paint: Option<Paint>| {
        let wrapped = style.wrap(&format!("{}{text}", " ".repeat(INDENT)), INDENT);
        lines.extend(wrapped.lines().map(|line| match paint {
            Some(paint) => style.paint(paint, line),
            None => line.to_owned(),
        }));
    };
    match width(needs) <= room {
        true => first += &format!("  {}", left(needs, widths[1].min(room))),
        false => add(needs, None),
    }
    add(about, None);
    let beside = width(needs) <= room && widths[1] + 2 + width(also) <= room;
    match beside {
        true => first += &format!("  {}", style.paint(Paint::Dim, also)),
        false => add(also, Some(Paint::Dim)),
    }
    lines.insert(0, first);
    lines.retain(|line| !line.trim().is_empty());
    lines.join("\n")
}

/// Name, needs, what is done, other names.
fn texts(row: &ListRow) -> [String; 4] {
    let also = match row.aliases.as_slice() {
        [] => String::new(),
        names => format!("also {}", names.join(", ")),
    };
    let needs = needs(&row.needs, row.ops);
    [
        harmless(&row.name),
        needs,
        harmless(&row.about),
        harmless(&also),
    ]
}

/// The same for programs: `schema` = `iodyno.fs/1` and `workloads`. Ends with a newline.
pub fn list_json(rows: &[ListRow]) -> String {
    let workloads = rows.iter().map(|row| Entry {
        name: &row.name,
        aliases: &row.aliases,
        about: &row.about,
        clones: row.clones,
        ops: row.ops,
        needs_bytes: row.needs.bytes,
        needs_files: row.needs.files,
        needs_bytes_per_op: row.needs.bytes_per_op,
        needs_files_per_op: row.needs.files_per_op,
    });
    json::print(&Document {
        schema: "iodyno.fs/1",
        workloads: workloads.collect(),
    })
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    workloads: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    aliases: &'a [String],
    about: &'a str,
    clones: u32,
    /// Null: time ends it, or a set that is empty.
    ops: Option<u64>,
    /// There at once, before anything grows.
    needs_bytes: u64,
    needs_files: u64,
    /// What each cycle adds and leaves.
    needs_bytes_per_op: u64,
    needs_files_per_op: u64,
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
        None if needs.appended > 0 && ops.is_none() => {
            format!("up to {}", what(needs.bytes, needs.files))
        }
        None => {
            let (bytes, files) = needs.after(ops.unwrap_or(0));
            what(bytes, files)
        }
    };
    match text.is_empty() {
        true => "-".to_owned(),
        false => text,
    }
}
