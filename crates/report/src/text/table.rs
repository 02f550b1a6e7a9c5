//! Rates and latencies, a line a direction.

use iodyno_model::{Direction, Histogram, Quantile, Row, Summary, Workload};
use iodyno_units::{Nanos, Rate};

use super::{LABEL, describe};
use crate::operations::{self, Cycles};
use crate::style::{Paint, Style, left, right, width};

/// The columns, with their least widths and the order in which a narrow terminal loses them
/// (0: never).
const COLUMNS: [(&str, usize, u8); 8] = [
    ("IOPS", 8, 0),
    ("MiB/s", 8, 4),
    ("mean", 8, 2),
    ("p50", 8, 3),
    ("p99", 8, 0),
    ("p99.9", 8, 1),
    ("max", 9, 5),
    ("err", 5, 0),
];

/// A line: its label and a cell a column.
struct Line {
    label: String,
    cells: [String; 8],
    errors: bool,
}

enum Item {
    Heading(String),
    Line(Line),
}

/// The table with its footnotes.
pub(super) fn table(workload: &Workload, summary: &Summary, style: Style) -> String {
    let mut items = Vec::new();
    for group in &summary.groups {
        if summary.groups.len() > 1 {
            items.push(Item::Heading(describe::group(workload, group)));
        }
        match operations::of(workload, group) {
            Some(cycles) => items.extend(of_cycles(&cycles).map(Item::Line)),
            None => items.extend(group.rows.iter().flat_map(lines).map(Item::Line)),
        }
    }
    if !summary.total.is_empty() {
        items.push(Item::Heading("all together".to_owned()));
        items.extend(summary.total.iter().flat_map(lines).map(Item::Line));
    }
    if !items.iter().any(|item| matches!(item, Item::Line(_))) {
        return style.paint(Paint::Yellow, "no op completed") + "\n";
    }
    let files = operations::cycles(workload, summary).is_some();
    draw(&items, files, style) + &footnotes(summary, files, style)
}

/// The cycle first, then its steps in their order; timed ones are marked.
fn of_cycles<'a>(cycles: &'a Cycles) -> impl Iterator<Item = Line> + 'a {
    let mut order = vec![Direction::Op];
    order.extend(
        cycles
            .operations
            .cycle
            .iter()
            .map(|step| step.action.direction()),
    );
    let place = |row: &&Row| {
        order
            .iter()
            .position(|known| *known == row.result.direction)
    };
    let mut rows: Vec<&Row> = cycles.group.rows.iter().collect();
    rows.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
    rows.into_iter().flat_map(|row| {
        let mut lines = lines(row);
        let direction = row.result.direction;
        if direction != Direction::Op && cycles.operations.times(direction) {
            lines[0].label += "*";
        }
        lines
    })
}

fn draw(items: &[Item], files: bool, style: Style) -> String {
    let mut widths = COLUMNS.map(|column| column.1);
    let mut label_width = LABEL;
    for item in items {
        if let Item::Line(line) = item {
            label_width = label_width.max(width(&line.label) + 1);
            for (column, cell) in line.cells.iter().enumerate() {
                widths[column] = widths[column].max(width(cell) + 1);
            }
        }
    }
    let shown = shown(&widths, style.columns() - label_width);
    let line = |label: &str, cells: [&str; 8]| {
        let cells = cells.iter().zip(widths).zip(shown);
        cells
            .filter(|(_, shown)| *shown)
            .fold(left(label, label_width), |line, ((cell, width), _)| {
                line + &right(cell, width)
            })
    };
    let mut heads = COLUMNS.map(|column| column.0);
    if files {
        heads[0] = "ops/s";
    }
    let mut text = style.paint(Paint::Dim, &line("", heads)) + "\n";
    for item in items {
        text += &match item {
            Item::Heading(heading) => style
                .wrap(heading, 2)
                .lines()
                .map(|line| style.paint(Paint::Cyan, line) + "\n")
                .collect(),
            Item::Line(row) => {
                let drawn = line(&row.label, row.cells.each_ref().map(String::as_str));
                let paint = if row.errors {
                    Paint::Red
                } else {
                    Paint::Strong
                };
                match row.errors {
                    true => style.paint(paint, &drawn) + "\n",
                    false => drawn + "\n",
                }
            }
        };
    }
    text
}

/// Which columns fit.
fn shown(widths: &[usize; 8], room: usize) -> [bool; 8] {
    let mut shown = [true; 8];
    for loss in 1..=5 {
        let needed: usize = widths
            .iter()
            .zip(shown)
            .map(|(width, shown)| if shown { *width } else { 0 })
            .sum();
        if needed <= room {
            break;
        }
        for (column, entry) in COLUMNS.iter().enumerate() {
            shown[column] &= entry.2 != loss;
        }
    }
    shown
}

/// One line, or with a schedule two: response latency first, service latency beside.
fn lines(row: &Row) -> Vec<Line> {
    let result = &row.result;
    let (histogram, quantiles) = row.latency();
    let latency = latency_cells(histogram, quantiles);
    let bandwidth = match result.direction {
        Direction::Read | Direction::Write | Direction::Trim => {
            format!("{:.1}", row.bytes_per_s() / f64::from(1 << 20))
        }
        _ => String::new(),
    };
    let [mean, p50, p99, p999, max] = latency;
    let first = Line {
        label: result.direction.name().to_owned(),
        cells: [
            Rate(row.iops()).to_string(),
            bandwidth,
            mean,
            p50,
            p99,
            p999,
            max,
            row.errors.to_string(),
        ],
        errors: row.errors > 0,
    };
    if row.response.is_empty() {
        return vec![first];
    }
    let [mean, p50, p99, p999, max] = latency_cells(&result.service, &row.service);
    let none = String::new();
    let second = Line {
        label: " service".to_owned(),
        cells: [none.clone(), none.clone(), mean, p50, p99, p999, max, none],
        errors: false,
    };
    vec![first, second]
}

fn latency_cells(histogram: &Histogram, quantiles: &[Quantile]) -> [String; 5] {
    if histogram.is_empty() {
        return std::array::from_fn(|_| "-".to_owned());
    }
    let quantile = |percent: f64| {
        quantiles
            .iter()
            .find(|quantile| quantile.percent == percent)
            .map_or("-".to_owned(), |quantile| {
                let mark = match (quantile.resolution_limited, quantile.few) {
                    (true, _) => "<",
                    (false, true) => "~",
                    (false, false) => "",
                };
                format!("{mark}{}", Nanos(quantile.ns))
            })
    };
    [
        Nanos(histogram.mean_ns().round() as u64).to_string(),
        quantile(50.0),
        quantile(99.0),
        quantile(99.9),
        Nanos(histogram.max_ns()).to_string(),
    ]
}

/// What the marks and the second line mean, where there are any.
fn footnotes(summary: &Summary, files: bool, style: Style) -> String {
    let rows = || summary.groups.iter().flat_map(|group| &group.rows);
    let drawn = |quantile: &&Quantile| [50.0, 99.0, 99.9].contains(&quantile.percent);
    let quantiles = || {
        rows()
            .flat_map(|row| row.service.iter().chain(&row.response))
            .filter(drawn)
    };
    let mut notes = Vec::new();
    if files {
        notes.push("* timed: these steps make up the op".to_owned());
    }
    if rows().any(|row| !row.response.is_empty()) {
        notes.push(
            "latency: response, intended → completed; service, submitted → completed".to_owned(),
        );
    }
    if quantiles().any(|quantile| quantile.resolution_limited) {
        let resolution = summary.groups.iter().map(|group| group.resolution_ns).max();
        let resolution = Nanos(resolution.unwrap_or(0));
        notes.push(format!(
            "< resolution-limited: an upper limit, below the {resolution} that this trial resolves"
        ));
    }
    if quantiles().any(|quantile| quantile.few && !quantile.resolution_limited) {
        notes.push("~ fewer than ten ops lie beyond it".to_owned());
    }
    notes
        .iter()
        .flat_map(|note| {
            let indented = format!("{}{note}", " ".repeat(LABEL));
            let wrapped = style.wrap(&indented, LABEL + 2);
            let lines: Vec<String> = wrapped
                .lines()
                .map(|line| style.paint(Paint::Dim, line) + "\n")
                .collect();
            lines
        })
        .collect()
}
