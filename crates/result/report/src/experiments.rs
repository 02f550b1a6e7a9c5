//! Lists of what `iodyno run` runs by name: ready-made experiments and built-in jobs.

use crate::json::{object, print};
use crate::style::{Paint, Style};
use crate::table::{Cell, Column, Table};

/// A ready-made experiment, or a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListRow {
    /// Its name.
    pub name: String,
    /// What it is about, in one line.
    pub about: String,
    /// The parameters that must be given.
    pub parameters: Vec<String>,
}

/// Below a title, a row for each: the arguments of `iodyno run`, and what it is about. Ends with a newline.
pub fn list(title: &str, rows: &[ListRow], style: Style) -> String {
    let mut table = Table::new([Column::left(""), Column::left("").wrap(24)]);
    for row in rows {
        let given: String = (row.parameters.iter())
            .map(|name| format!(" --set {name}={}", name.to_uppercase()))
            .collect();
        let arguments = row.name.clone() + &given;
        table.row([
            Cell::painted(arguments, Paint::Strong),
            row.about.as_str().into(),
        ]);
    }
    style.paragraph(title, 2, None) + &table.draw(style.columns(), style)
}

/// The list as JSON: `schema` = `iodyno.experiments/1` and `experiments`. Ends with a newline.
pub fn list_json(rows: &[ListRow]) -> String {
    print(&Document(rows))
}

object!(Document<'a>(rows in &'a [ListRow]) {
    schema: "iodyno.experiments/1",
    experiments: crate::json::list(rows, RowView),
});

object!(RowView<'a>(row in &'a ListRow) {
    name: row.name,
    about: row.about,
    // Those that must be given with `--set`.
    parameters: row.parameters,
});
