//! Figures over time, as a table to read: times downwards, the subjects of one time below each other.

use iodyno_model::{FigureRow, FigureTable, SeriesKind, SeriesUnit};
use iodyno_units::Nanos;

use super::fit;
use super::scale::{Scale, typical};
use crate::style::{Paint, Style, cut, harmless, left, right, shortened, trimmed, width};

/// With less there is no room for names that tell things apart.
const LEAST_SUBJECT: usize = 12;

/// A table of figures, as wide as there is room: what does not fit is counted. Changes of shape and gaps stand between the lines,
/// at their time. `whole` has the figures of all the time as one stretch, for the last lines: of an await there is
/// no mean that could be made of the others'. Ends with a newline.
pub fn text(table: &FigureTable, whole: Option<&FigureTable>, style: Style) -> String {
    let layout = Layout::new(table, whole, style);
    let mut text = layout.heading(table);
    let mut remarks = table.remarks.iter().peekable();
    for stretch in stretches(&table.rows) {
        let at_ns = stretch[0].at_ns;
        while let Some((when_ns, what)) = remarks.next_if(|(when_ns, _)| *when_ns <= at_ns) {
            text += &layout.remark(*when_ns, what);
        }
        text += &layout.stretch(&clock(at_ns, layout.tenths), stretch);
    }
    for (when_ns, what) in remarks {
        text += &layout.remark(*when_ns, what);
    }
    // What came or went on the way has a mean of its own stretch.
    let last = whole.filter(|_| several_times(table));
    let apart = last.is_some_and(several_times);
    for stretch in last.iter().flat_map(|whole| stretches(&whole.rows)) {
        if apart {
            text += &layout.until(&stretch[0]);
        }
        text += &layout.stretch(MEAN, stretch);
    }
    style.plain(&trimmed(&(text + &layout.left_out(table))))
}

/// Stands in the last lines where others have their time.
const MEAN: &str = "mean";

/// Rows of the same time.
fn stretches(rows: &[FigureRow]) -> impl Iterator<Item = &[FigureRow]> {
    rows.chunk_by(|row, next| row.at_ns == next.at_ns)
}

fn several_times(table: &FigureTable) -> bool {
    stretches(&table.rows).count() > 1
}

/// The span that most rows have, ns.
fn usual_span(table: &FigureTable) -> Option<u64> {
    let mut spans: Vec<u64> = table.rows.iter().map(|row| row.span_ns).collect();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied()
}

/// The one subject that all rows are of.
fn only_subject(table: &FigureTable) -> Option<&str> {
    let first = table.rows.first()?.subject.as_str();
    let mut rows = table.rows.iter();
    rows.all(|row| row.subject == first).then_some(first)
}

/// `0:30`, `1:00:00`, with tenths `0:00.5`; before the start `-0:05`.
fn clock(at_ns: i64, tenths: bool) -> String {
    let sign = if at_ns < 0 { "-" } else { "" };
    let unit: u64 = if tenths { 100_000_000 } else { 1_000_000_000 };
    let units = at_ns.unsigned_abs().saturating_add(unit / 2) / unit;
    let (seconds, part) = match tenths {
        true => (units / 10, format!(".{}", units % 10)),
        false => (units, String::new()),
    };
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{sign}{minutes}:{seconds:02}{part}"),
        _ => format!("{sign}{hours}:{minutes:02}:{seconds:02}{part}"),
    }
}

/// The values of a column, those of the last lines included.
fn values<'a>(
    table: &'a FigureTable,
    whole: Option<&'a FigureTable>,
    place: usize,
) -> impl Iterator<Item = Option<f64>> + 'a {
    let rows = table.rows.iter();
    let rows = rows.chain(whole.into_iter().flat_map(|whole| &whole.rows));
    rows.map(move |row| row.values.get(place).copied().flatten())
}

/// A typical value of the columns that are to have one unit: times and rates of bytes are held against each other, amounts of
/// memory are not.
fn usual(table: &FigureTable, unit: SeriesUnit, place: usize) -> f64 {
    let together = matches!(unit, SeriesUnit::Nanos | SeriesUnit::BytesPerSecond);
    let columns = table.columns.iter().enumerate();
    let alike = columns.filter(|(other, column)| match together {
        true => column.unit == unit,
        false => *other == place,
    });
    typical(alike.flat_map(|(place, _)| values(table, None, place)))
}

/// How the columns stand.
struct Layout {
    style: Style,
    /// Times are told in tenths of a second.
    tenths: bool,
    time: usize,
    /// With the blanks before it; 0: there is one subject, and the heading names it.
    subject: usize,
    columns: Vec<Column>,
}

struct Column {
    place: usize,
    name: String,
    scale: Scale,
    /// Its values are numbers of CPUs.
    of_cpus: bool,
    /// With the blanks before it.
    width: usize,
}

impl Column {
    fn new(table: &FigureTable, whole: Option<&FigureTable>, place: usize) -> Column {
        let column = &table.columns[place];
        let values: Vec<Option<f64>> = values(table, whole, place).collect();
        let mut scale = Scale::of(column.unit, usual(table, column.unit, place));
        let name = harmless(&column.name);
        if column.unit == SeriesUnit::Percent && name.contains('%') {
            scale.unit = "";
        }
        let mut column = Column {
            place,
            width: width(&name).max(width(scale.unit)),
            of_cpus: table.kind == SeriesKind::Interrupts && name == "busiest",
            name,
            scale,
        };
        let cells = values.iter().map(|value| width(&column.draw(*value)));
        column.width = cells.fold(column.width, usize::max) + 2;
        column
    }

    fn draw(&self, value: Option<f64>) -> String {
        match value {
            Some(cpu) if self.of_cpus => format!("CPU{cpu:.0}"),
            value => self.scale.draw(value),
        }
    }
}

impl Layout {
    fn new(table: &FigureTable, whole: Option<&FigureTable>, style: Style) -> Layout {
        let tenths = usual_span(table).is_some_and(|ns| ns < 950_000_000);
        let rows = table.rows.iter();
        let rows = rows.chain(whole.iter().flat_map(|whole| &whole.rows));
        let subjects = rows.map(|row| width(&harmless(&row.subject)));
        let longest = match only_subject(table) {
            Some(_) => 0,
            None => subjects.max().unwrap_or(0) + 2,
        };
        let times = table.rows.iter().map(|row| row.at_ns);
        let times = times.chain(table.remarks.iter().map(|remark| remark.0));
        let time = times.map(|at_ns| width(&clock(at_ns, tenths))).max();
        let time = time.unwrap_or(0).max(MEAN.len());
        let mut columns: Vec<Column> = (0..table.columns.len())
            .map(|place| Column::new(table, whole, place))
            .collect();
        let widths: Vec<usize> = columns.iter().map(|column| column.width).collect();
        let room = style.columns().saturating_sub(time);
        // Long names give way to columns, as far as names can.
        let needed: usize = widths.iter().sum();
        let least = (style.columns() / 4).max(LEAST_SUBJECT).min(longest);
        let most = (style.columns() / 3).max(least).min(longest);
        let subject = room.saturating_sub(needed).clamp(least, most);
        let room = room - subject;
        let shown = fit::shown(table, &widths, room);
        columns.retain(|column| shown.contains(&column.place));
        Layout {
            style,
            tenths,
            time,
            subject,
            columns,
        }
    }

    /// What it is, and over which spans; names of columns; units.
    fn heading(&self, table: &FigureTable) -> String {
        let subject = only_subject(table).unwrap_or_default();
        let mut title = table.kind.name().to_owned();
        if !subject.is_empty() {
            title += &format!(" {}", harmless(subject));
        }
        let title = match usual_span(table) {
            None => format!("{title}: no samples"),
            Some(0) => title,
            Some(span_ns) => {
                let span = short_span(span_ns);
                format!("{title}: {span} a line, up to its time on the trial's clock")
            }
        };
        let title = self.lines(&title, 2, Paint::Strong);
        if table.rows.is_empty() {
            return title;
        }
        let names = self.columns.iter().map(|column| column.name.as_str());
        let units: Vec<&str> = self
            .columns
            .iter()
            .map(|column| column.scale.unit)
            .collect();
        let mut heads = self.line("time", "", names);
        if units.iter().any(|unit| !unit.is_empty()) {
            heads += &self.line("", "", units.into_iter());
        }
        let heads = heads.lines();
        let heads = heads.map(|line| self.style.paint(Paint::Dim, line) + "\n");
        title + &heads.collect::<String>()
    }

    /// The rows of one time; only the first tells it.
    fn stretch(&self, time: &str, rows: &[FigureRow]) -> String {
        let mut text = String::new();
        for (number, row) in rows.iter().enumerate() {
            let time = if number == 0 { time } else { "" };
            let cells: Vec<String> = (self.columns.iter())
                .map(|column| {
                    let value = row.values.get(column.place).copied();
                    column.draw(value.flatten())
                })
                .collect();
            text += &self.line(time, &row.subject, cells.iter().map(String::as_str));
        }
        text
    }

    fn line<'a>(&self, time: &str, subject: &str, cells: impl Iterator<Item = &'a str>) -> String {
        let mut line = right(time, self.time);
        if self.subject > 0 {
            let name = shortened(&harmless(subject), self.subject - 2, self.style);
            line += &left(&format!("  {name}"), self.subject);
        }
        for (column, cell) in self.columns.iter().zip(cells) {
            line += &right(cell, column.width);
        }
        // The first column is always there, whatever its width.
        cut(line.trim_end(), self.style.columns()) + "\n"
    }

    /// What the mean below is of.
    fn until(&self, row: &FigureRow) -> String {
        let from_ns = row.at_ns.saturating_sub_unsigned(row.span_ns);
        let [from, to] = [from_ns, row.at_ns].map(|ns| clock(ns, self.tenths));
        self.lines(&format!("{from} to {to}:"), 0, Paint::Dim)
    }

    fn remark(&self, at_ns: i64, what: &str) -> String {
        let time = right(&clock(at_ns, self.tenths), self.time);
        self.lines(&format!("{time}  ! {what}"), self.time + 4, Paint::Yellow)
    }

    fn left_out(&self, table: &FigureTable) -> String {
        let missing = table.columns.len() - self.columns.len();
        if missing == 0 || table.rows.is_empty() {
            return String::new();
        }
        let shown = |place: &usize| self.columns.iter().any(|column| column.place == *place);
        let empty = (0..table.columns.len())
            .filter(|place| !shown(place) && fit::largest(table, *place) == 0.0)
            .count();
        let columns = if missing == 1 { "column" } else { "columns" };
        let empty = match empty {
            0 => String::new(),
            empty if empty == missing => ", 0 throughout".to_owned(),
            empty => format!(", {empty} of them 0 throughout"),
        };
        let note = format!("{missing} more {columns}{empty}: `--format csv` has them all");
        self.lines(&note, 2, Paint::Dim)
    }

    /// Wrapped. What ASCII cannot show is replaced first: it may take more room then.
    fn lines(&self, text: &str, indent: usize, paint: Paint) -> String {
        let wrapped = self.style.fill(&self.style.plain(&harmless(text)), indent);
        let lines = wrapped.lines();
        lines
            .map(|line| self.style.paint(paint, line) + "\n")
            .collect()
    }
}

/// `30 s`, `100 ms`, `1 min 30 s`: samples are never taken to the microsecond.
fn short_span(span_ns: u64) -> String {
    let tenths = span_ns.saturating_add(50_000_000) / 100_000_000;
    match (tenths / 10, tenths % 10) {
        (0, tenths) => format!("{} ms", tenths * 100),
        (seconds @ 0..60, 0) => format!("{seconds} s"),
        (seconds @ 0..60, tenths) => format!("{seconds}.{tenths} s"),
        (seconds @ 60..3600, _) if seconds % 60 == 0 => format!("{} min", seconds / 60),
        (seconds @ 60..3600, _) => format!("{} min {:02} s", seconds / 60, seconds % 60),
        (seconds, _) => Nanos(seconds.saturating_mul(1_000_000_000)).to_string(),
    }
}
