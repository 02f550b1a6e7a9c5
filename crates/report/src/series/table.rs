//! Figures over time, as a table to read.

use iodyno_model::FigureTable;

use crate::style::{Style, trimmed};

/// A table of figures. `whole` are the figures of all the time as one stretch, for the last lines. Ends with a newline.
pub fn text(table: &FigureTable, whole: Option<&FigureTable>, style: Style) -> String {
    let _ = whole;
    let mut text = format!("{}\n", table.kind.name());
    for row in &table.rows {
        text += &format!("{} {} {:?}\n", row.at_ns, row.subject, row.values);
    }
    style.plain(&trimmed(&text))
}
