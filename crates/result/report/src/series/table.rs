//! Figures over time, as a table for people.

use iodyno_model::{FigureRow, FigureTable, SeriesKind, SeriesUnit, Step};
use iodyno_units::Nanos;

use super::TrialClock;
use super::fit;
use super::scale::{Scale, typical};
use crate::clock as wall_clock;
use crate::style::{Paint, Style, right, width};
use crate::table::{Column, Table};

/// The smallest width of a column of names.
const MIN_SUBJECT: usize = 12;

/// A table of figures: for each time, a row per subject, and remarks on subjects that appeared, disappeared or could
/// not be sampled. If the rows are of several steps, a line above the first row of each step has its name. If the
/// terminal is too narrow for all columns, the most important ones are printed, and the number of the others. The last
/// rows are the figures of `whole`, in which the whole time is one interval: the mean of an await cannot be computed
/// from the rows. Ends with a newline.
pub fn text(
    table: &FigureTable,
    whole: Option<&FigureTable>,
    trial: &TrialClock,
    style: Style,
) -> String {
    let columns = style.columns();
    let tenths = usual_span(table).is_some_and(|ns| ns < 950_000_000);
    let times = table.rows.iter().map(|row| row.at_ns);
    let times = times.chain(table.remarks.iter().map(|remark| remark.0));
    let time = times.map(|at_ns| width(&clock(at_ns, tenths))).max();
    let time = time.unwrap_or(0).max(MEAN.len());
    let figures: Vec<Figure> = (0..table.columns.len())
        .map(|place| Figure::new(table, place))
        .collect();
    let subject = only_subject(table).is_none().then(|| {
        let least = MIN_SUBJECT.max(columns / 4);
        Column::left("").middle(least)
    });
    let named = subject.is_some();
    let order = fit::order_of_loss(table);
    let heads = figures.iter().enumerate().map(|(place, figure)| {
        // The column that would be dropped last is always kept.
        let rank = order.iter().take(order.len().saturating_sub(1));
        let rank = rank.clone().position(|lost| *lost == place);
        let head = Column::right(figure.name.as_str()).unit(figure.scale.unit);
        head.drop(rank.map_or(0, |rank| rank as u32 + 1))
    });
    let first = Column::right("time").at_least(time);
    let wall = trial.start_unix_ms.map(|_| Column::right("clock"));
    let wall_clock = |at_ns: i64| {
        let unix_ms = trial.unix_ms(at_ns);
        unix_ms.map_or(String::new(), |unix_ms| {
            wall_clock::second(unix_ms, trial.utc_offset_s)
        })
    };
    let columns_of_time = 1 + usize::from(wall.is_some());
    let leading = std::iter::once(first).chain(wall).chain(subject);
    let mut drawn = Table::new(leading.chain(heads));
    let remark = |drawn: &mut Table, at_ns: i64, what: &str| {
        let at = right(&clock(at_ns, tenths), time);
        drawn.text(format!("{at}  ! {what}"), time + 4, Paint::Yellow);
    };
    let span = |drawn: &mut Table, times: [&str; 2], rows: &[FigureRow]| {
        for (number, row) in rows.iter().enumerate() {
            // Only the first row of a time has the time.
            let times = times.map(|time| if number == 0 { time } else { "" }.to_owned());
            let mut cells = times[..columns_of_time].to_vec();
            cells.extend(named.then(|| row.subject.clone()));
            cells.extend(figures.iter().enumerate().map(|(place, figure)| {
                let value = row.values.get(place).copied();
                figure.draw(value.flatten())
            }));
            drawn.row(cells);
        }
    };
    let mut remarks = table.remarks.iter().peekable();
    let step_of = |rows: &[FigureRow]| trial.step(rows[0].at_ns, rows[0].span_ns);
    let mut step = spans(&table.rows).next().and_then(step_of);
    let several = spans(&table.rows).any(|rows| step_of(rows) != step);
    if several {
        drawn.text(heading(step), 0, Paint::Dim);
    }
    for rows in spans(&table.rows) {
        let at_ns = rows[0].at_ns;
        if step_of(rows) != step {
            step = step_of(rows);
            drawn.text(heading(step), 0, Paint::Dim);
        }
        while let Some((when_ns, what)) = remarks.next_if(|(when_ns, _)| *when_ns <= at_ns) {
            remark(&mut drawn, *when_ns, what);
        }
        let times = [clock(at_ns, tenths), wall_clock(at_ns)];
        span(&mut drawn, times.each_ref().map(String::as_str), rows);
    }
    for (when_ns, what) in remarks {
        remark(&mut drawn, *when_ns, what);
    }
    // A subject that appeared or disappeared has a mean over its own interval.
    let last = whole.filter(|_| several_times(table));
    let apart = last.is_some_and(several_times);
    for rows in last.iter().flat_map(|whole| spans(&whole.rows)) {
        if apart {
            let from_ns = rows[0].at_ns.saturating_sub_unsigned(rows[0].span_ns);
            let [from, to] = [from_ns, rows[0].at_ns].map(|ns| clock(ns, tenths));
            drawn.text(format!("{from} to {to}:"), 0, Paint::Dim);
        }
        span(&mut drawn, [MEAN, ""], rows);
    }
    if table.rows.is_empty() {
        drawn.without_heads();
    }
    let dropped = drawn.dropped(columns, style).len();
    let lost = &order[..dropped.min(order.len())];
    title(table, trial, style) + &drawn.draw(columns, style) + &left_out(table, lost, style)
}

/// Above the rows of a step.
fn heading(step: Option<Step>) -> String {
    format!("{}:", step.map_or("between steps", Step::name))
}

/// Printed instead of the time in the last rows.
const MEAN: &str = "mean";

/// Rows of the same time.
fn spans(rows: &[FigureRow]) -> impl Iterator<Item = &[FigureRow]> {
    rows.chunk_by(|row, next| row.at_ns == next.at_ns)
}

fn several_times(table: &FigureTable) -> bool {
    spans(&table.rows).count() > 1
}

/// The most frequent length of a row's interval, ns.
fn usual_span(table: &FigureTable) -> Option<u64> {
    let mut spans: Vec<u64> = table.rows.iter().map(|row| row.span_ns).collect();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied()
}

/// The subject, if all rows have the same one.
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

/// A typical value of the columns with a common unit: all times, all rates of bytes. Each amount of memory has its own
/// unit.
fn usual(table: &FigureTable, unit: SeriesUnit, place: usize) -> f64 {
    let together = matches!(unit, SeriesUnit::Nanos | SeriesUnit::BytesPerSecond);
    let columns = table.columns.iter().enumerate();
    let alike = columns.filter(|(other, column)| match together {
        true => column.unit == unit,
        false => *other == place,
    });
    let values = |place: usize| {
        let rows = table.rows.iter();
        rows.map(move |row| row.values.get(place).copied().flatten())
    };
    typical(alike.flat_map(|(place, _)| values(place)))
}

/// A column's name and unit.
struct Figure {
    name: String,
    scale: Scale,
    /// Whether its values are CPU numbers.
    of_cpus: bool,
}

impl Figure {
    fn new(table: &FigureTable, place: usize) -> Figure {
        let column = &table.columns[place];
        let mut scale = Scale::of(column.unit, usual(table, column.unit, place));
        let name = column.name.clone();
        if column.unit == SeriesUnit::Percent && name.contains('%') {
            scale.unit = "";
        }
        Figure {
            of_cpus: table.kind == SeriesKind::Interrupts && name == "busiest",
            name,
            scale,
        }
    }

    fn draw(&self, value: Option<f64>) -> String {
        match value {
            Some(cpu) if self.of_cpus => format!("CPU{cpu:.0}"),
            value => self.scale.draw(value),
        }
    }
}

/// The name of the series, the length of a row's interval, and the start of the trial.
fn title(table: &FigureTable, trial: &TrialClock, style: Style) -> String {
    let subject = only_subject(table).unwrap_or_default();
    let mut title = table.kind.name().to_owned();
    if !subject.is_empty() {
        title += &format!(" {subject}");
    }
    let title = match usual_span(table) {
        None => format!("{title}: no samples"),
        Some(0) => title,
        Some(span_ns) => {
            let span = short_span(span_ns);
            let start = trial.start_unix_ms.map_or(String::new(), |unix_ms| {
                let start = wall_clock::day_and_second(unix_ms, trial.utc_offset_s);
                format!(", which was 0 at {start}")
            });
            format!("{title}: {span} a row; time on the trial's clock at its end{start}")
        }
    };
    filled(&title, 2, Paint::Strong, style)
}

/// The number of columns that are not shown.
fn left_out(table: &FigureTable, lost: &[usize], style: Style) -> String {
    let missing = lost.len();
    if missing == 0 || table.rows.is_empty() {
        return String::new();
    }
    let empty = lost
        .iter()
        .filter(|place| fit::largest(table, **place) == 0.0);
    let columns = if missing == 1 { "column" } else { "columns" };
    let empty = match empty.count() {
        0 => String::new(),
        empty if empty == missing => ", 0 throughout".to_owned(),
        empty => format!(", {empty} of them 0 throughout"),
    };
    let note = format!("{missing} more {columns}{empty}: `--format csv` has them all");
    filled(&note, 2, Paint::Dim, style)
}

fn filled(text: &str, indent: usize, paint: Paint, style: Style) -> String {
    let mut table = Table::new([]);
    table.text(text, indent, paint);
    table.draw(style.columns(), style)
}

/// `30 s`, `100 ms`, `1 min 30 s`: rounded to 0.1 s, because intervals are multiples of it.
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
