//! The one renderer of tables: columns with alignment, unit, minimum width and a rule for narrow terminals.
//!
//! If a table is too wide, columns that may be dropped are dropped first, then columns that may be narrowed are
//! narrowed, the last ones first. If it is still too wide, each row is printed as a block: its first cell, and below it
//! the others, each after its heading. No line is ever longer than the width, and everything that was not dropped or
//! shortened is printed.
//!
//! Cells can contain any text: control characters are replaced here. The same table can be written as Markdown,
//! AsciiDoc or CSV.

mod markup;
#[cfg(test)]
mod tests;

pub use markup::Markup;

use crate::style::{Paint, Style, cut, ended, left, right, sanitize, shortened, width};

/// Blanks between the pieces of a block.
const BETWEEN: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// How a column shrinks if the table is too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Narrow {
    /// It keeps its width.
    Keep,
    /// The middle of its cells is omitted, down to this width.
    Middle(usize),
    /// The end of its cells is omitted, down to this width.
    End(usize),
    /// Its cells are wrapped, down to this width.
    Wrap(usize),
}

/// A column: its heading, and how it is laid out.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    head: String,
    unit: &'static str,
    align: Align,
    paint: Paint,
    least: usize,
    most: usize,
    drop: u32,
    narrow: Narrow,
    narrowed_last: bool,
}

impl Column {
    fn new(head: impl Into<String>, align: Align) -> Column {
        Column {
            head: head.into(),
            unit: "",
            align,
            paint: Paint::Dim,
            least: 0,
            most: usize::MAX,
            drop: 0,
            narrow: Narrow::Keep,
            narrowed_last: false,
        }
    }

    /// A column of texts.
    pub(crate) fn left(head: impl Into<String>) -> Column {
        Column::new(head, Align::Left)
    }

    /// A column of numbers.
    pub(crate) fn right(head: impl Into<String>) -> Column {
        Column::new(head, Align::Right)
    }

    /// The unit of its numbers, in a second line of headings.
    pub(crate) fn unit(self, unit: &'static str) -> Column {
        Column { unit, ..self }
    }

    /// Sets the colour of its heading; the default is dim.
    pub(crate) fn paint(self, paint: Paint) -> Column {
        Column { paint, ..self }
    }

    /// Sets the minimum width.
    pub(crate) fn at_least(self, least: usize) -> Column {
        Column { least, ..self }
    }

    /// Sets a fixed width; the middle of longer cells is omitted.
    pub(crate) fn exactly(self, width: usize) -> Column {
        Column {
            least: width,
            most: width,
            narrow: Narrow::Middle(width),
            ..self
        }
    }

    /// Sets the order in which columns are dropped if the table is too wide: the lowest number first, columns with the
    /// same number together, 0 never.
    pub(crate) fn drop(self, drop: u32) -> Column {
        Column { drop, ..self }
    }

    /// The middle of its cells may be omitted, so that both ends remain to identify them.
    pub(crate) fn middle(self, least: usize) -> Column {
        let narrow = Narrow::Middle(least);
        Column { narrow, ..self }
    }

    /// The end of its cells may be omitted.
    pub(crate) fn end(self, least: usize) -> Column {
        let narrow = Narrow::End(least);
        Column { narrow, ..self }
    }

    /// It is narrowed only after all columns without this mark.
    pub(crate) fn narrowed_last(self) -> Column {
        Column {
            narrowed_last: true,
            ..self
        }
    }

    /// Its cells may take several lines.
    pub(crate) fn wrap(self, least: usize) -> Column {
        let narrow = Narrow::Wrap(least);
        Column { narrow, ..self }
    }
}

/// A text with its colour.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cell {
    text: String,
    paint: Option<Paint>,
}

impl Cell {
    pub(crate) fn painted(text: impl Into<String>, paint: impl Into<Option<Paint>>) -> Cell {
        Cell {
            text: text.into(),
            paint: paint.into(),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, paint: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_owned().into()
    }
}

#[derive(Debug, Clone)]
enum Entry {
    /// A cell for each column.
    Row(Vec<Cell>),
    /// Text over the whole width, wrapped, with its colour and the indent of the lines after the first.
    Text(String, usize, Option<Paint>),
    /// Pieces in sequence, as many per line as fit.
    Pieces(Vec<Cell>),
}

/// Rows below their headings, and texts between them.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<Column>,
    entries: Vec<Entry>,
    gap: usize,
    indent: usize,
    cut: bool,
}

/// The columns to show, with their widths.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    shown: Vec<(usize, usize)>,
    fits: bool,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table {
            columns: columns.into_iter().collect(),
            entries: Vec::new(),
            gap: 2,
            indent: 0,
            cut: false,
        }
    }

    /// Sets the number of blanks between columns; the default is two.
    pub(crate) fn gap(self, gap: usize) -> Table {
        Table { gap, ..self }
    }

    /// Sets the number of blanks before each row.
    pub(crate) fn indent(self, indent: usize) -> Table {
        Table { indent, ..self }
    }

    /// Makes each row one line, cut if it is too long.
    pub(crate) fn cut(self) -> Table {
        Table { cut: true, ..self }
    }

    /// Adds a row: a cell for each column; missing cells are empty.
    pub(crate) fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.columns.len(), Cell::default());
        self.entries.push(Entry::Row(cells));
    }

    /// Adds a row in one colour.
    pub(crate) fn painted_row<C: Into<Cell>>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
        paint: Option<Paint>,
    ) {
        let cells = cells.into_iter().map(Into::into);
        self.row(cells.map(|cell: Cell| Cell { paint, ..cell }));
    }

    /// Adds a text between rows, wrapped; lines after the first begin with `indent` spaces.
    pub(crate) fn text(
        &mut self,
        text: impl Into<String>,
        indent: usize,
        paint: impl Into<Option<Paint>>,
    ) {
        let entry = Entry::Text(text.into(), indent, paint.into());
        self.entries.push(entry);
    }

    /// Adds pieces without columns, as many per line as fit.
    pub(crate) fn pieces(&mut self, pieces: Vec<Cell>) {
        self.entries.push(Entry::Pieces(pieces));
    }

    /// Adds a column, with cells for the existing rows.
    pub(crate) fn add_column(&mut self, column: Column, cells: impl IntoIterator<Item = Cell>) {
        self.columns.push(column);
        let rows = self.entries.iter_mut().filter_map(|entry| match entry {
            Entry::Row(cells) => Some(cells),
            _ => None,
        });
        let cells = cells.into_iter().chain(std::iter::repeat(Cell::default()));
        rows.zip(cells).for_each(|(row, cell)| row.push(cell));
    }

    /// Omits the headings.
    pub(crate) fn without_heads(&mut self) {
        for column in &mut self.columns {
            column.head.clear();
            column.unit = "";
        }
    }

    fn rows(&self) -> impl Iterator<Item = &[Cell]> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Row(cells) => Some(cells.as_slice()),
            _ => None,
        })
    }

    /// Whether the whole table fits into lines of this width, without dropping or narrowing columns.
    pub(crate) fn fits(&self, columns: usize, style: Style) -> bool {
        let widths = (0..self.columns.len()).map(|place| self.natural(place, style));
        self.sum(widths) <= columns
    }

    /// The width that the table leaves unused, columns.
    pub(crate) fn free(&self, columns: usize, style: Style) -> usize {
        let layout = self.layout(columns, style);
        let widths = layout.shown.into_iter().map(|(_, width)| width);
        columns.saturating_sub(self.sum(widths))
    }

    /// The indices of the columns that are dropped at this width.
    pub(crate) fn dropped(&self, columns: usize, style: Style) -> Vec<usize> {
        let layout = self.layout(columns, style);
        let shown = |place: &usize| layout.shown.iter().any(|(known, _)| known == place);
        match layout.fits {
            true => (0..self.columns.len()).filter(|it| !shown(it)).collect(),
            false => Vec::new(),
        }
    }

    /// The width of a line with columns of these widths.
    fn sum(&self, widths: impl Iterator<Item = usize>) -> usize {
        let all: usize = widths.map(|width| width + self.gap).sum();
        self.indent + all.saturating_sub(self.gap)
    }

    /// The width that a column's heading and cells need.
    fn natural(&self, place: usize, style: Style) -> usize {
        let column = &self.columns[place];
        let cells = self.rows().map(|row| row[place].text.as_str());
        let texts = cells.chain([column.head.as_str(), column.unit]);
        texts
            .map(|text| width(&shown(text, style)))
            .fold(column.least, usize::max)
            .min(column.most)
    }

    fn layout(&self, columns: usize, style: Style) -> Layout {
        let natural: Vec<usize> = (0..self.columns.len())
            .map(|place| self.natural(place, style))
            .collect();
        let least = |place: usize| match self.columns[place].narrow {
            Narrow::Keep => natural[place],
            Narrow::Middle(least) | Narrow::End(least) | Narrow::Wrap(least) => {
                natural[place].min(least.max(self.columns[place].least))
            }
        };
        let mut places: Vec<usize> = (0..self.columns.len()).collect();
        let needed = |places: &[usize]| self.sum(places.iter().map(|place| least(*place)));
        while needed(&places) > columns {
            let ranks = places.iter().map(|place| self.columns[*place].drop);
            let Some(next) = ranks.filter(|rank| *rank > 0).min() else {
                break;
            };
            places.retain(|place| self.columns[*place].drop != next);
        }
        let needed = needed(&places);
        let mut free = columns.saturating_sub(needed);
        places.sort_by_key(|place| !self.columns[*place].narrowed_last);
        let shown = places.into_iter().map(|place| {
            let more = (natural[place] - least(place)).min(free);
            free -= more;
            (place, least(place) + more)
        });
        let mut shown: Vec<(usize, usize)> = shown.collect();
        shown.sort_unstable();
        Layout {
            shown,
            fits: needed <= columns,
        }
    }

    /// The lines, each with a newline, none longer than `columns`.
    pub(crate) fn draw(&self, columns: usize, style: Style) -> String {
        let lines = self.lines(columns, style).into_iter();
        lines.map(|line| line + "\n").collect()
    }

    /// The lines: headings if there are any, rows, texts.
    pub(crate) fn lines(&self, columns: usize, style: Style) -> Vec<String> {
        let layout = self.layout(columns, style);
        let as_rows = layout.fits || self.cut;
        let mut lines = Vec::new();
        if as_rows {
            let heads = |text: fn(&Column) -> &str| -> Vec<Cell> {
                let columns = self.columns.iter();
                columns
                    .map(|column| Cell::painted(text(column), column.paint))
                    .collect()
            };
            let heads = [heads(|column| &column.head), heads(|column| column.unit)];
            let named = |cells: &&Vec<Cell>| cells.iter().any(|cell| !cell.text.is_empty());
            for cells in heads.iter().filter(named) {
                self.draw_row(cells, &layout, columns, style, &mut lines);
            }
        }
        for entry in &self.entries {
            match entry {
                Entry::Row(cells) if as_rows => {
                    self.draw_row(cells, &layout, columns, style, &mut lines);
                }
                Entry::Row(cells) => lines.extend(self.block(cells, columns, style)),
                Entry::Text(text, indent, paint) => {
                    let text = filled(&shown(text, style), *indent, columns);
                    lines.extend(text.lines().map(|line| style.maybe_paint(*paint, line)));
                }
                Entry::Pieces(pieces) => lines.extend(flow(pieces, 0, columns, style)),
            }
        }
        lines
    }

    fn draw_row(
        &self,
        cells: &[Cell],
        layout: &Layout,
        columns: usize,
        style: Style,
        lines: &mut Vec<String>,
    ) {
        let texts: Vec<Vec<String>> = layout
            .shown
            .iter()
            .map(|(place, width)| {
                let text = shown(&cells[*place].text, style);
                match self.columns[*place].narrow {
                    Narrow::Keep => vec![text],
                    Narrow::Middle(_) => vec![shortened(&text, *width, style)],
                    Narrow::End(_) => vec![ended(&text, *width, style)],
                    Narrow::Wrap(_) => filled(&text, 0, *width)
                        .lines()
                        .map(str::to_owned)
                        .collect(),
                }
            })
            .collect();
        let height = texts.iter().map(Vec::len).max().unwrap_or(0).max(1);
        for number in 0..height {
            let mut line = String::new();
            // Blanks before the next text, and columns that remain.
            let (mut blanks, mut room) = (self.indent, columns);
            for ((place, width), texts) in layout.shown.iter().zip(&texts) {
                let text = texts.get(number).map_or("", String::as_str);
                let padded = match self.columns[*place].align {
                    Align::Left => left(text, *width),
                    Align::Right => right(text, *width),
                };
                let text = padded.trim_matches(' ');
                let before = padded.len() - padded.trim_start_matches(' ').len();
                let after = padded.len() - before - text.len();
                if text.is_empty() {
                    blanks += padded.len() + self.gap;
                    continue;
                }
                blanks += before;
                // A text can have width 0 (a combining character). That it was cut to nothing therefore does not mean
                // that the line is full.
                if blanks >= room {
                    break;
                }
                let text = cut(text, room - blanks);
                if text.is_empty() {
                    break;
                }
                line += &" ".repeat(blanks);
                room -= blanks + crate::style::width(&text);
                line += &style.maybe_paint(cells[*place].paint, &text);
                blanks = after + self.gap;
            }
            lines.push(line);
        }
    }

    /// A row as a block: its first cell, and below it the others, each after its heading.
    fn block(&self, cells: &[Cell], columns: usize, style: Style) -> Vec<String> {
        let Some((first, others)) = cells.split_first() else {
            return Vec::new();
        };
        let mut lines = flow(std::slice::from_ref(first), self.indent, columns, style);
        let named = others.iter().zip(&self.columns[1..]);
        let pieces = named
            .filter(|(cell, _)| !cell.text.trim_matches(' ').is_empty())
            .map(|(cell, column)| {
                let parts = [
                    column.head.as_str(),
                    cell.text.trim_matches(' '),
                    column.unit,
                ];
                let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                Cell::painted(parts.join(" "), cell.paint)
            });
        let pieces: Vec<Cell> = pieces.collect();
        lines.extend(flow(&pieces, self.indent + 2, columns, style));
        lines
    }
}

/// A text in the form in which it is printed, without control characters.
fn shown(text: &str, style: Style) -> String {
    style.plain(&sanitize(text))
}

fn filled(text: &str, indent: usize, columns: usize) -> String {
    crate::style::wrapped(text, indent, columns, true)
}

/// Pieces in sequence, on as many indented lines as necessary.
fn flow(pieces: &[Cell], indent: usize, columns: usize, style: Style) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used = columns;
    for Cell { text, paint } in pieces {
        let text = shown(text, style);
        if !lines.is_empty() && used + BETWEEN + width(&text) <= columns {
            if let Some(line) = lines.last_mut() {
                *line += &" ".repeat(BETWEEN);
                *line += &style.maybe_paint(*paint, &text);
                used += BETWEEN + width(&text);
            }
            continue;
        }
        // Blanks at the end of a piece can align the next one, so a piece that fits is not changed.
        let room = columns.saturating_sub(indent);
        let text = match width(&text) <= room {
            true => text,
            false => filled(&text, 0, room),
        };
        for line in text.lines() {
            used = indent + width(line);
            lines.push(" ".repeat(indent) + &style.maybe_paint(*paint, line));
        }
    }
    lines
}
