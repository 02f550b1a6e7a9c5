//! Rows of figures below their headings: of disks, pools, processes.

use iodyno_model::{FigureRow, SeriesUnit};

use super::Latest;
use super::line::{Line, columns, level, share};
use crate::series::Scale;
use crate::style::{Paint, Style};

/// How a figure is drawn: the same unit in every picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Events a second, or plain numbers.
    Number,
    /// In MiB or MiB/s.
    Mebibytes,
    /// In GiB.
    Gibibytes,
    /// Times in ms.
    Millis,
    /// In KiB.
    Kibibytes,
    /// In percent; the colour tells how high it is.
    Share,
}

/// A column: its heading, its figure, its width with a blank before it, and when it goes in a narrow terminal (0: never; the
/// highest goes first).
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) figure: &'static str,
    pub(super) form: Form,
    pub(super) width: usize,
    pub(super) loss: u8,
}

/// A column as a table of them has it.
pub(super) const fn column(
    head: &'static str,
    figure: &'static str,
    form: Form,
    width: usize,
    loss: u8,
) -> Column {
    Column {
        head,
        figure,
        form,
        width,
        loss,
    }
}

/// Columns that the terminal has room for.
pub(super) struct Grid {
    style: Style,
    title: &'static str,
    /// Columns of names.
    name: usize,
    columns: Vec<&'static Column>,
}

impl Grid {
    /// `names` are columns that names are given.
    pub(super) fn new(
        title: &'static str,
        names: usize,
        all: &'static [Column],
        style: Style,
    ) -> Grid {
        let room = columns(style).saturating_sub(names);
        let mut shown: Vec<&Column> = all.iter().collect();
        let highest = all.iter().map(|column| column.loss).max().unwrap_or(0);
        for loss in (1..=highest).rev() {
            let needed: usize = shown.iter().map(|column| column.width).sum();
            if needed <= room {
                break;
            }
            shown.retain(|column| column.loss != loss);
        }
        Grid {
            style,
            title,
            name: names,
            columns: shown,
        }
    }

    pub(super) fn style(&self) -> Style {
        self.style
    }

    /// Columns that are left after all of these.
    pub(super) fn free(&self) -> usize {
        let taken: usize = self.columns.iter().map(|column| column.width).sum();
        columns(self.style).saturating_sub(self.name + taken)
    }

    pub(super) fn head(&self) -> String {
        let title = format!("{:1$}", self.title, self.name);
        let line = Line::new(self.style).paint(Some(Paint::Strong), &title);
        let heads = self.columns.iter();
        heads
            .fold(line, |line, column| {
                line.right(Some(Paint::Dim), column.head, column.width)
            })
            .done()
    }

    pub(super) fn row(&self, latest: &Latest, row: &FigureRow, name: &str) -> Line {
        let line = Line::new(self.style).left(name, self.name);
        self.columns.iter().fold(line, |line, column| {
            let value = latest.value(row, column.figure);
            let paint = match column.form {
                Form::Share => level(value),
                _ => None,
            };
            line.right(paint, &drawn(column.form, value), column.width)
        })
    }
}

/// A figure in its form; `-` where it is not known.
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
