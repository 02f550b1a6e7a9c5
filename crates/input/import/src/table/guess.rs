//! Guesses the column map of a table where it is unambiguous.

use super::grid::Grid;
use super::map::{CONFIG, ColumnMap, Part, UNIT, WORKLOAD};
use super::unit::{bits_or_bytes_in, unit, unit_in, value};

/// Headings that name configurations.
const CONFIGURATIONS: [&str; 12] = [
    "config",
    "configuration",
    "fs",
    "filesystem",
    "file system",
    "setup",
    "target",
    "backend",
    "backing",
    "variant",
    "version",
    "kernel",
];

/// Headings that name workloads.
const WORKLOADS: [&str; 9] = [
    "workload",
    "test",
    "job",
    "benchmark",
    "name",
    "operation",
    "op",
    "pattern",
    "case",
];

/// Words for measured quantities that are not units.
const MEASURED: [&str; 7] = [
    "bandwidth",
    "throughput",
    "speed",
    "latency",
    "rate",
    "bw",
    "lat",
];

/// Headings of columns that number repetitions.
const REPETITIONS: [&str; 6] = ["run", "loop", "round", "iteration", "trial", "#"];

/// Whether a heading is that of a column that numbers repetitions.
pub(super) fn is_repetition_number(heading: &str) -> bool {
    REPETITIONS.contains(&heading.to_lowercase().as_str())
}

/// The map that a table's form suggests, or the reason why there is none.
pub(super) fn guess(grid: &Grid) -> Result<ColumnMap, String> {
    if grid.loose {
        return Err("no heading has a unit".to_owned());
    }
    let measured = |column: &usize| has_unit(grid, *column);
    let values: Vec<usize> = (0..grid.heads.len())
        .filter(|column| grid.is_numeric(*column))
        .filter(measured)
        .collect();
    if values.is_empty() {
        return Err(
            "no column of numbers has a unit, in its cells, its heading or the line above"
                .to_owned(),
        );
    }
    let mut map = Draft::default();
    // Results without a unit, or with a unit but without a number, are not names of rows either.
    let is_result = |column: &usize| {
        let with_unit = grid.heads[*column]
            .iter()
            .any(|head| unit_in(head).is_some() || bits_or_bytes_in(head).is_some());
        with_unit || (grid.is_numeric(*column) && is_measure(grid.name(*column)))
    };
    let others = (0..grid.heads.len()).filter(|column| !values.contains(column));
    for column in others.filter(|column| !is_result(column)) {
        map.label(grid, column);
    }
    for level in 0..grid.levels() {
        map.level(grid, level, &values);
    }
    map.finish(grid)
}

/// Whether the values of a column include a unit.
fn has_unit(grid: &Grid, column: usize) -> bool {
    let in_heads = grid.heads[column]
        .iter()
        .any(|head| unit_in(head).is_some());
    let in_cells = || {
        let mut values = grid.rows.iter().filter_map(|row| value(&row.cells[column]));
        values.all(|(_, unit)| unit.is_some())
    };
    let in_rows = || {
        let labels = |row: &super::grid::Row| row.cells.iter().any(|cell| parenthesised(cell));
        grid.rows.iter().all(labels)
    };
    let in_caption = || grid.caption.as_deref().is_some_and(parenthesised);
    in_heads
        || in_cells()
        || in_rows()
        || (in_caption() && grid.name(column).parse::<f64>().is_err())
}

/// A text with a unit in parentheses, as in captions and row headings.
pub(super) fn parenthesised(text: &str) -> bool {
    text.split(['(', ')', '[', ']'])
        .skip(1)
        .step_by(2)
        .any(|inner| unit(inner).is_some())
}

#[derive(Default)]
struct Draft {
    config: Vec<Part>,
    workload: Vec<Part>,
    unnamed_rows: bool,
    further: Vec<(String, Part)>,
    unit: Option<Part>,
    names: Vec<usize>,
}

impl Draft {
    /// Adds a column without results, which describes the rows.
    fn label(&mut self, grid: &Grid, column: usize) {
        let name = grid.name(column).to_lowercase();
        let part = Part::Column(column);
        if is_repetition_number(&name) {
            return;
        }
        if CONFIGURATIONS.contains(&name.as_str()) {
            self.config.push(part);
        } else if WORKLOADS.contains(&name.as_str()) {
            self.workload.push(part);
        } else if !name.is_empty() {
            self.further.push((name, part));
        } else if grid.rows.iter().any(|row| !row.cells[column].is_empty()) {
            self.unnamed_rows = true;
        }
    }

    /// Adds a level of headings: units, or what the columns contain.
    fn level(&mut self, grid: &Grid, level: usize, values: &[usize]) {
        let heads = || {
            values
                .iter()
                .map(|column| grid.heads[*column][level].as_str())
        };
        if heads().all(|head| unit(head).is_some()) {
            self.unit = Some(Part::Head(level));
        } else if heads().any(|head| !is_measure(head)) {
            self.names.push(level);
        }
    }

    fn finish(mut self, grid: &Grid) -> Result<ColumnMap, String> {
        let mut names = self.names.into_iter().map(Part::Head);
        // Beside another heading of a workload, `name` is that of what was tested.
        let is_name = |part: &Part| matches!(part, Part::Column(column) if grid.name(*column).eq_ignore_ascii_case("name"));
        if self.config.is_empty() && self.workload.len() > 1 {
            self.config
                .extend(self.workload.iter().find(|part| is_name(part)).cloned());
            self.workload.retain(|part| !self.config.contains(part));
        }
        if self.config.is_empty() {
            self.config.extend(names.next());
        }
        let heads: Vec<Part> = names.collect();
        let levels = heads.clone();
        let named_rows = !self.workload.is_empty();
        if self.unnamed_rows {
            self.workload.insert(0, Part::Row);
        }
        self.workload.extend(heads);
        if self.config.is_empty() && grid.section.is_some() {
            self.config.push(Part::Section);
        }
        if self.config.is_empty() {
            return Err("its configurations are unknown".to_owned());
        }
        if self.workload.is_empty() {
            let caption = grid.caption.as_ref().map(|_| Part::Caption);
            self.workload.extend(caption);
        }
        let mut entries = vec![(CONFIG.to_owned(), self.config)];
        // What is only part of the workload becomes a separate dimension: the names of the rows, and each heading.
        let composed = self.workload.len() > 1;
        if !self.workload.is_empty() {
            entries.push((WORKLOAD.to_owned(), self.workload));
        }
        let row = (self.unnamed_rows && !named_rows).then_some(Part::Row);
        for part in row.into_iter().chain(levels).filter(|_| composed) {
            entries.push((part.to_string(), vec![part]));
        }
        for (name, part) in self.further {
            entries.push((name, vec![part]));
        }
        entries.extend(self.unit.map(|unit| (UNIT.to_owned(), vec![unit])));
        Ok(ColumnMap { entries })
    }
}

/// Whether a heading contains only the measured quantity, also with an unknown unit in parentheses.
fn is_measure(head: &str) -> bool {
    let outside = head.split(['(', '[']).next().unwrap_or_default();
    let lower = match outside.trim().is_empty() {
        true => head.to_lowercase(),
        false => outside.to_lowercase(),
    };
    let words = lower.split(|c: char| !c.is_alphanumeric() && !"/.µ".contains(c));
    let known = [
        "read", "reads", "write", "writes", "mean", "avg", "average", "max", "p50", "p95", "p99",
    ];
    let mut words = words.filter(|word| !word.is_empty()).peekable();
    words.peek().is_some()
        && words.all(|word| {
            unit(word).is_some()
                || MEASURED.contains(&word)
                || known.contains(&word)
                || word == "p99.9"
        })
}
