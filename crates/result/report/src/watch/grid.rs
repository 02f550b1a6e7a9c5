//! Tables of figures: disks, pools, processes.

use iodyno_model::{FigureRow, SeriesUnit};

use super::Latest;
use super::line::{level, share};
use crate::series::Scale;
use crate::style::Paint;
use crate::table::{Cell, Column, Table};

/// The format of a figure: its unit is the same on every screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Events per second, or plain numbers.
    Number,
    /// In MiB or MiB/s.
    Mebibytes,
    /// In GiB.
    Gibibytes,
    /// Times in ms.
    Millis,
    /// In KiB.
    Kibibytes,
    /// In percent; the colour shows the level.
    Share,
}

/// A column: its heading, its figure, its format, its width including a blank before it, and its position in the order
/// in which a narrow terminal drops columns (0: never).
pub(super) type FigureColumn = (&'static str, &'static str, Form, usize, u32);

/// A table with a title above the names, which have this width, and these columns of figures.
pub(super) fn table(title: &str, name_width: usize, columns: &[FigureColumn]) -> Table {
    let name = Column::left(title).exactly(name_width).paint(Paint::Strong);
    let figures = columns.iter().map(|(head, _, _, width, drop)| {
        let column = Column::right(*head).at_least(width - 1);
        column.drop(*drop)
    });
    Table::new(std::iter::once(name).chain(figures))
        .gap(1)
        .cut()
}

/// The cells of a row: its name and its figures.
pub(super) fn cells(
    latest: &Latest,
    row: &FigureRow,
    name: &str,
    columns: &[FigureColumn],
) -> Vec<Cell> {
    let figures = columns.iter().map(|(_, figure, form, ..)| {
        let value = latest.value(row, figure);
        let paint = match form {
            Form::Share => level(value),
            _ => None,
        };
        Cell::painted(drawn(*form, value), paint)
    });
    std::iter::once(Cell::from(name)).chain(figures).collect()
}

/// A formatted figure; `-` if it is unknown.
pub(super) fn drawn(form: Form, value: Option<f64>) -> String {
    let scale = |unit, typical| Scale::of(unit, typical).draw(value);
    match form {
        Form::Share => share(value),
        Form::Number => scale(SeriesUnit::Number, 1.0),
        Form::Mebibytes => scale(SeriesUnit::Bytes, 1048576.0),
        Form::Gibibytes => scale(SeriesUnit::Bytes, 1073741824.0),
        Form::Kibibytes => scale(SeriesUnit::Bytes, 1024.0),
        Form::Millis => scale(SeriesUnit::Nanos, 1e6),
    }
}
