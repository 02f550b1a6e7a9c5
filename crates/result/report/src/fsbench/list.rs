//! The list of named workloads.

use iodyno_model::Needs;
use iodyno_units::{Bytes, counted};

use crate::json::{object, print};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};

/// A named workload.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListRow {
    /// Its name.
    pub name: String,
    /// Its other names.
    pub aliases: Vec<String>,
    /// A description of the workload and its timed steps.
    pub about: String,
    /// Space and files.
    pub needs: Needs,
    /// Threads.
    pub clones: u32,
    /// Number of cycles, if the workload ends after them.
    pub ops: Option<u64>,
}

/// A row for each workload: its name, its needs, its description and its other names. If a row does not fit, the
/// descriptions are on separate lines. Ends with a newline; empty without workloads.
pub fn list(rows: &[ListRow], style: Style) -> String {
    let columns = style.columns();
    let wide = {
        let mut table = Table::new((0..4).map(|_| Column::left("")));
        for row in rows {
            table.row(texts(row));
        }
        table
    };
    if wide.fits(columns, style) {
        return wide.draw(columns, style);
    }
    let mut narrow = Table::new([
        Column::left(""),
        Column::left(""),
        Column::left("").wrap(12),
    ]);
    for row in rows {
        let [name, needs, _, also] = texts(row);
        narrow.row([name, needs, also]);
        narrow.text(format!("    {}", row.about), 4, None);
    }
    narrow.draw(columns, style)
}

/// Name, needs, description, other names.
fn texts(row: &ListRow) -> [Cell; 4] {
    let also = match row.aliases.as_slice() {
        [] => String::new(),
        names => format!("also {}", names.join(", ")),
    };
    [
        Cell::painted(row.name.as_str(), Paint::Strong),
        needs(&row.needs, row.ops).into(),
        row.about.as_str().into(),
        Cell::painted(also, Paint::Dim),
    ]
}

/// The list as JSON: `schema` = `iodyno.fs/1` and `workloads`. Ends with a newline.
pub fn list_json(rows: &[ListRow]) -> String {
    print(&Document(rows))
}

object!(Document<'a>(rows in &'a [ListRow]) {
    schema: "iodyno.fs/1",
    workloads: crate::json::list(rows, RowView),
});

object!(RowView<'a>(row in &'a ListRow) {
    name: row.name,
    aliases: row.aliases,
    about: row.about,
    clones: row.clones,
    // Null: it ends by time or when its set is empty.
    ops: row.ops,
    // Needed at the start.
    needs_bytes: row.needs.bytes,
    needs_files: row.needs.files,
    // Added by each cycle and kept.
    needs_bytes_per_op: row.needs.bytes_per_op,
    needs_files_per_op: row.needs.files_per_op,
});

/// Space and files: `19.5 GiB, 10 000 files`. For work that grows, the needs after its `ops` cycles, or per cycle if
/// their number is unknown: `9.54 MiB a cycle`. `-` if nothing is needed.
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
            // Needs at the start that equal those of one cycle are not printed separately.
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
