//! Rates and latencies, one line per direction.

use iodyno_model::{Direction, Histogram, Quantile, Row, Summary, Workload};
use iodyno_units::{Nanos, Rate};

use super::{LABEL, describe, nodes};
use crate::operations::{self, Cycles};
use crate::style::{Paint, Style};
use crate::table::{Column, Table};

/// The columns after the label, with their minimum widths and their position in the order in which a narrow terminal
/// drops them (0: never).
pub(super) const COLUMNS: [(&str, usize, u32); 8] = [
    ("IOPS", 7, 0),
    ("MiB/s", 7, 4),
    ("mean", 7, 2),
    ("p50", 7, 3),
    ("p99", 7, 0),
    ("p99.9", 7, 1),
    ("max", 8, 5),
    ("err", 4, 0),
];

/// Number of nodes with separate rows.
const LISTED_NODES: usize = 16;

/// A direction's label and figures, a cell for each column.
pub(super) struct Figures {
    pub(super) cells: [String; 9],
    errors: bool,
}

/// The table with its footnotes.
pub(super) fn table(workload: &Workload, summary: &Summary, style: Style) -> String {
    let mut table = without_rows(workload, summary);
    let mut empty = true;
    for (title, rows) in sections(workload, summary) {
        if let Some(title) = title {
            table.text(title, 2, Paint::Cyan);
        }
        empty &= !add_rows(&mut table, rows);
    }
    empty &= !add_nodes(&mut table, summary);
    match empty {
        true => style.paint(Paint::Yellow, "no op completed") + "\n",
        false => table.draw(style.columns(), style) + &footnotes(workload, summary, style),
    }
}

/// The rows of each group, with a title if there are several, and of all together.
pub(super) fn sections(
    workload: &Workload,
    summary: &Summary,
) -> Vec<(Option<String>, Vec<Figures>)> {
    let several = summary.groups.len() > 1;
    let groups = summary.groups.iter().map(|group| {
        let mut rows: Vec<Figures> = match operations::of(workload, group) {
            Some(cycles) => of_cycles(&cycles),
            None => group.rows.iter().flat_map(figures).collect(),
        };
        if workload.runs_once() {
            // The other figures follow from the time.
            for cells in rows.iter_mut().map(|row| &mut row.cells) {
                for place in [1, 4, 5, 6, 7] {
                    cells[place].clear();
                }
            }
        }
        (several.then(|| describe::group(workload, group)), rows)
    });
    let total = (!summary.total.is_empty()).then(|| {
        let rows = summary.total.iter().flat_map(figures).collect();
        (Some("all together".to_owned()), rows)
    });
    groups.chain(total).collect()
}

/// An empty table with the columns of a workload.
fn without_rows(workload: &Workload, summary: &Summary) -> Table {
    let files = operations::cycles(workload, summary).is_some();
    let columns = COLUMNS.map(|(head, least, drop)| {
        let head = if files && head == "IOPS" {
            "ops/s"
        } else {
            head
        };
        Column::right(head).at_least(least).drop(drop)
    });
    let label = Column::left("").at_least(LABEL);
    Table::new(std::iter::once(label).chain(columns)).gap(1)
}

/// Adds rows; returns whether there were any.
fn add_rows(table: &mut Table, rows: Vec<Figures>) -> bool {
    let any = !rows.is_empty();
    for row in rows {
        table.painted_row(row.cells, row.errors.then_some(Paint::Red));
    }
    any
}

/// Adds the rows of each of several nodes; returns whether there were any. The rows of a single one are those of the
/// trial.
fn add_nodes(table: &mut Table, summary: &Summary) -> bool {
    let mut any = false;
    if summary.nodes.len() < 2 {
        return any;
    }
    for node in summary.nodes.iter().take(LISTED_NODES) {
        table.text(nodes::heading(summary, node), 2, Paint::Cyan);
        any |= add_rows(table, node.rows.iter().flat_map(figures).collect());
    }
    if let Some(more @ 1..) = summary.nodes.len().checked_sub(LISTED_NODES) {
        let text = format!("{} more", iodyno_units::counted(more as u64, "node"));
        table.text(text, 2, Paint::Cyan);
    }
    any
}

/// The rows of each of several nodes; empty with one.
pub(super) fn by_node(workload: &Workload, summary: &Summary, style: Style) -> String {
    let mut table = without_rows(workload, summary);
    match add_nodes(&mut table, summary) {
        true => table.draw(style.columns(), style),
        false => String::new(),
    }
}

/// The cycle first, then its steps in their order; timed ones are marked.
fn of_cycles(cycles: &Cycles) -> Vec<Figures> {
    let steps = cycles.operations.cycle.iter();
    let steps = steps.map(|step| step.action.direction());
    let order: Vec<Direction> = std::iter::once(Direction::Op).chain(steps).collect();
    let rows = cycles.group.rows.iter();
    // A command is a cycle of one step.
    let several = |row: &&Row| row.result.direction != Direction::Run;
    let mut rows: Vec<&Row> = rows.filter(several).collect();
    rows.sort_by_key(|row| {
        let place = order
            .iter()
            .position(|known| *known == row.result.direction);
        place.unwrap_or(usize::MAX)
    });
    let marked = |row: &Row| {
        let mut rows = figures(row);
        let direction = row.result.direction;
        if direction != Direction::Op && cycles.operations.times(direction) {
            rows[0].cells[0] += "*";
        }
        rows
    };
    rows.into_iter().flat_map(marked).collect()
}

/// One row, or two rows if a rate was requested: response latency, then service latency.
fn figures(row: &Row) -> Vec<Figures> {
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
    let first = Figures {
        cells: [
            result.direction.name().to_owned(),
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
    let label = " service".to_owned();
    let second = Figures {
        cells: [
            label,
            none.clone(),
            none.clone(),
            mean,
            p50,
            p99,
            p999,
            max,
            none,
        ],
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

/// The meaning of the marks and of the second row of a direction, if there are any.
pub(super) fn notes(workload: &Workload, summary: &Summary) -> Vec<String> {
    let cycles = operations::cycles(workload, summary);
    let rows = || summary.groups.iter().flat_map(|group| &group.rows);
    let drawn = |quantile: &&Quantile| [50.0, 99.0, 99.9].contains(&quantile.percent);
    let quantiles = || {
        rows()
            .flat_map(|row| row.service.iter().chain(&row.response))
            .filter(drawn)
    };
    let mut notes = Vec::new();
    if cycles.is_some_and(|cycles| cycles.operations.command.is_none()) {
        notes.push("* timed: these steps make up the op".to_owned());
    }
    if rows().any(|row| !row.response.is_empty()) {
        notes.push(
            "latency: response, intended → completed; service, submitted → completed".to_owned(),
        );
    }
    if workload.runs_once() {
        return notes;
    }
    if quantiles().any(|quantile| quantile.resolution_limited) {
        let limit = "< an upper limit: its completions may have been unseen for over a tenth of it";
        notes.push(limit.to_owned());
    }
    if quantiles().any(|quantile| quantile.few && !quantile.resolution_limited) {
        notes.push("~ fewer than ten ops lie beyond it".to_owned());
    }
    notes
}

fn footnotes(workload: &Workload, summary: &Summary, style: Style) -> String {
    let notes = notes(workload, summary);
    let notes = notes.iter();
    notes
        .map(|note| {
            let indented = format!("{}{note}", " ".repeat(LABEL));
            style.paragraph(&indented, LABEL + 2, Paint::Dim)
        })
        .collect()
}
