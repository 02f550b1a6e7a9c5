//! Aligned columns.

use crate::style::{Paint, Style, cut, harmless, left, right, width};

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Lines of equally many cells, the first one the headings; cut at the width.
pub(crate) fn draw(lines: &[Vec<String>], aligns: &[Align], style: Style) -> String {
    let lines: Vec<Vec<String>> = lines
        .iter()
        .map(|line| line.iter().map(|cell| harmless(cell)).collect())
        .collect();
    let widths: Vec<usize> = (0..aligns.len())
        .map(|column| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| width(cell)).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line
            .iter()
            .zip(aligns)
            .zip(&widths)
            .map(|((cell, align), width)| match align {
                Align::Left => left(cell, *width),
                Align::Right => right(cell, *width),
            })
            .collect();
        let joined = cells.join("  ");
        let drawn = cut(joined.trim_end(), style.columns());
        text += &match number {
            0 => style.paint(Paint::Dim, &drawn),
            _ => drawn,
        };
        text += "\n";
    }
    text
}
