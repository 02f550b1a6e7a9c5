//! Converts a table to trials by its column map.

use std::collections::{BTreeMap, HashMap};

use iodyno_model::{Figure, ImportedTrial, Metric, Unit};

use super::grid::{Grid, Row};
use super::guess::is_repetition_number;
use super::map::{CONFIG, ColumnMap, Part, UNIT, VALUE, WORKLOAD};
use super::unit::{bits_or_bytes_in, metric, unit, unit_in, value};
use crate::lines::Lines;
use crate::measure::Measure;

/// Dimensions that name machines which worked at the same time: their rates are added.
const NODES: [&str; 6] = ["node", "vm", "host", "machine", "client", "guest"];

/// The result of applying a map to a table.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) trials: Vec<ImportedTrial>,
    /// Lines of cells and columns that could not be read, with the reasons.
    pub(super) unread: Vec<(u32, String)>,
}

/// The trials of a table, or the parts of the map that the table does not have.
pub(super) fn trials(grid: &Grid, map: &ColumnMap, lines: &Lines<'_>) -> Result<Applied, String> {
    let resolver = Resolver::new(grid, map)?;
    let mut trials: Vec<ImportedTrial> = Vec::new();
    let mut unread = resolver.left_out();
    for row in &grid.rows {
        let first_of_row = trials.len();
        for &column in &resolver.values {
            let cell = row.cells[column].as_str();
            let Some((number, in_cell)) = value(cell) else {
                if !is_blank(cell) {
                    let heading = grid.name(column);
                    unread.push((
                        row.line,
                        format!("`{cell}` under `{heading}` is not a number"),
                    ));
                }
                continue;
            };
            let (measure, told_by) = match in_cell {
                Some(measure) => (measure, ""),
                None => resolver.unit(row, column)?,
            };
            let heads = format!("{} {told_by}", resolver.heads(column));
            let around = resolver.part(&Part::Row, row, column);
            let (metric, factor) = metric(measure, &heads, &around);
            let mut trial = lines.trial(grid.form, row.line);
            trial.configuration = resolver.text(CONFIG, row, column);
            trial.workload = resolver.text(WORKLOAD, row, column);
            trial.dimensions = resolver.dimensions(row, column);
            add(&mut trials, first_of_row, trial, metric, number * factor);
        }
    }
    let sums = sums(&trials);
    trials.extend(sums);
    for trial in &mut trials {
        trial.remarks.extend(grid.remark.clone());
    }
    if trials.is_empty() {
        return Err("there is no number in the columns of values".to_owned());
    }
    Ok(Applied { trials, unread })
}

/// Whether the cell is empty or marks a missing value.
fn is_blank(cell: &str) -> bool {
    matches!(cell, "" | "-" | "–" | "—")
}

/// Adds a figure to the trial of the same row and names that does not have it yet, or to a new trial.
fn add(
    trials: &mut Vec<ImportedTrial>,
    from: usize,
    mut trial: ImportedTrial,
    metric: Metric,
    value: f64,
) {
    let figure = Figure {
        metric,
        value,
        derived: None,
    };
    let same = trials[from..].iter_mut().find(|known| {
        known.configuration == trial.configuration
            && known.workload == trial.workload
            && known.dimensions == trial.dimensions
            && known
                .figures
                .iter()
                .all(|other| other.metric.name != figure.metric.name)
    });
    match same {
        Some(known) => known.figures.push(figure),
        None => {
            trial.primary = Some(figure.metric.name.clone());
            trial.figures.push(figure);
            trials.push(trial);
        }
    }
}

struct Resolver<'g> {
    grid: &'g Grid,
    map: &'g ColumnMap,
    /// Columns that contain results.
    values: Vec<usize>,
    /// Columns whose cells form the row's name.
    labels: Vec<usize>,
    /// Columns that the map refers to.
    used: Vec<usize>,
}

impl<'g> Resolver<'g> {
    fn new(grid: &'g Grid, map: &'g ColumnMap) -> Result<Resolver<'g>, String> {
        let mut used = Vec::new();
        for (name, parts) in map.entries.iter().filter(|(name, _)| name != VALUE) {
            for part in parts {
                match part {
                    Part::Head(level) if *level >= grid.levels() => {
                        return Err(format!("it has no `{part}`, which `{name}` requires"));
                    }
                    Part::Section if grid.section.is_none() => {
                        return Err(format!("`{name}` requires a heading above the table"));
                    }
                    Part::Caption if grid.caption.is_none() => {
                        return Err(format!("`{name}` requires a line right above the table"));
                    }
                    part => used.extend(column(grid, part, name)?),
                }
            }
        }
        let values = match map.get(VALUE) {
            Some(parts) => {
                let columns = parts.iter().map(|part| column(grid, part, VALUE));
                columns
                    .collect::<Result<Vec<_>, _>>()?
                    .into_iter()
                    .flatten()
                    .collect()
            }
            None => (0..grid.heads.len())
                .filter(|column| grid.is_numeric(*column) && !used.contains(column))
                .filter(|column| measured(grid, map, *column))
                .collect::<Vec<usize>>(),
        };
        if values.is_empty() {
            return Err("it has no column of numbers with a unit".to_owned());
        }
        let labels = (0..grid.heads.len())
            .filter(|column| !values.contains(column) && !used.contains(column))
            .filter(|column| !grid.is_numeric(*column))
            .collect();
        Ok(Resolver {
            grid,
            map,
            values,
            labels,
            used,
        })
    }

    /// Columns that look like results but have no unit or no numbers, or that `value=` does not name.
    fn left_out(&self) -> Vec<(u32, String)> {
        let grid = self.grid;
        let line = grid.rows.first().map_or(grid.lines.start, |row| row.line);
        let unused = |column: &usize| !self.values.contains(column) && !self.used.contains(column);
        if self.map.get(VALUE).is_some() {
            let results = (0..grid.heads.len()).filter(unused).filter(|column| {
                grid.is_numeric(*column) && !is_repetition_number(grid.name(*column))
            });
            let names: Vec<String> = results.map(|it| format!("`{}`", grid.name(it))).collect();
            let text = format!("`value=` leaves out the numbers under {}", names.join(", "));
            return (!names.is_empty())
                .then_some((line, text))
                .into_iter()
                .collect();
        }
        let why = |column: usize| {
            let name = grid.name(column);
            let has_unit = grid.heads[column]
                .iter()
                .any(|head| unit_in(head).is_some());
            let ambiguous = grid.heads[column]
                .iter()
                .find_map(|head| bits_or_bytes_in(head));
            if let Some(unit) = ambiguous {
                Some(format!(
                    "`{unit}` over `{name}` can be bits or bytes; name the unit in a column map"
                ))
            } else if grid.is_numeric(column) && !is_repetition_number(name) {
                Some(format!("the numbers under `{name}` have no unit"))
            } else if has_unit && grid.rows.iter().any(|row| !is_blank(&row.cells[column])) {
                Some(format!("there is no number under `{name}`"))
            } else {
                None
            }
        };
        (0..grid.heads.len())
            .filter(unused)
            .filter_map(|column| Some((line, why(column)?)))
            .collect()
    }

    fn part(&self, part: &Part, row: &Row, column_of_value: usize) -> String {
        match part {
            Part::Head(level) => self.grid.heads[column_of_value][*level].clone(),
            Part::Row => {
                let cells = self.labels.iter().map(|label| row.cells[*label].as_str());
                let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
                cells.join(" ")
            }
            Part::Section => self.grid.section.clone().unwrap_or_default(),
            Part::Caption => self.grid.caption.clone().unwrap_or_default(),
            Part::Text(text) => text.clone(),
            Part::Column(_) | Part::Named(_) => match column(self.grid, part, "") {
                Ok(Some(column)) => row.cells[column].clone(),
                _ => String::new(),
            },
        }
    }

    /// The text of an entry: headings are joined by blanks, other parts by commas.
    fn text(&self, name: &str, row: &Row, column: usize) -> String {
        let mut text = String::new();
        let mut after_head = false;
        for part in self.map.get(name).unwrap_or_default() {
            let piece = self.part(part, row, column);
            let is_head = matches!(part, Part::Head(_));
            if !text.is_empty() && !piece.is_empty() {
                text.push_str(if is_head && after_head { " " } else { ", " });
            }
            after_head = is_head;
            text.push_str(&piece);
        }
        text
    }

    fn dimensions(&self, row: &Row, column: usize) -> BTreeMap<String, String> {
        let own = [CONFIG, WORKLOAD, UNIT, VALUE];
        let entries = self.map.entries.iter();
        entries
            .filter(|(name, _)| !own.contains(&name.as_str()))
            .map(|(name, _)| (name.clone(), self.text(name, row, column)))
            .filter(|(_, value)| !value.is_empty())
            .collect()
    }

    fn heads(&self, column: usize) -> String {
        self.grid.heads[column].join(" ")
    }

    /// The unit of a value that has none of its own, and the text outside its headings that contains it.
    fn unit<'r>(&'r self, row: &'r Row, column: usize) -> Result<(Measure, &'r str), String> {
        if self.map.get(UNIT).is_some() {
            let text = self.text(UNIT, row, column);
            return unit_in(&text)
                .map(|measure| (measure, ""))
                .ok_or_else(|| format!("line {}: `{text}` is not a unit", row.line));
        }
        let heads = self.grid.heads[column].iter().rev();
        let known = heads.filter_map(|head| unit_in(head)).next();
        let by = |text: &'r String| Some((in_parentheses(text)?, text.as_str()));
        known
            .map(|measure| (measure, ""))
            .or_else(|| row.cells.iter().find_map(by))
            .or_else(|| by(self.grid.caption.as_ref()?))
            .ok_or_else(|| format!("line {}: `{}` has no unit", row.line, row.cells[column]))
    }
}

/// Whether the values of a column have a unit.
fn measured(grid: &Grid, map: &ColumnMap, column: usize) -> bool {
    // If a level of headings is the source of units, columns without a unit at that level are left out.
    let by_map = match map.get(UNIT) {
        Some([Part::Head(level)]) => unit_in(&grid.heads[column][*level]).is_some(),
        Some(_) => true,
        None => false,
    };
    let known = by_map
        || grid.heads[column]
            .iter()
            .any(|head| unit_in(head).is_some())
        || grid.caption.as_deref().and_then(in_parentheses).is_some();
    known
        || grid.rows.iter().any(|row| {
            let own = value(&row.cells[column]).and_then(|(_, unit)| unit);
            own.is_some() || row.cells.iter().any(|cell| in_parentheses(cell).is_some())
        })
}

fn in_parentheses(text: &str) -> Option<Measure> {
    let inner = text.split(['(', ')', '[', ']']).skip(1).step_by(2);
    inner.into_iter().find_map(unit)
}

/// The column that a part refers to; `None` if it refers to another element.
fn column(grid: &Grid, part: &Part, name: &str) -> Result<Option<usize>, String> {
    let missing = || format!("it has no column `{part}`, which `{name}` requires");
    match part {
        Part::Column(column) if *column < grid.heads.len() => Ok(Some(*column)),
        Part::Named(heading) => {
            let is_it = |head: &String| head.eq_ignore_ascii_case(heading);
            let found = grid.heads.iter().position(|heads| heads.iter().any(is_it));
            found.map(Some).ok_or_else(missing)
        }
        Part::Column(_) => Err(missing()),
        _ => Ok(None),
    }
}

/// The sums over machines that worked at the same time.
fn sums(trials: &[ImportedTrial]) -> Vec<ImportedTrial> {
    let is_node = |name: &&String| NODES.contains(&name.as_str());
    let mut groups: Vec<(ImportedTrial, Vec<&ImportedTrial>)> = Vec::new();
    let mut places: HashMap<(String, String, BTreeMap<String, String>), usize> = HashMap::new();
    for trial in trials {
        let Some(node) = trial.dimensions.keys().find(is_node).cloned() else {
            continue;
        };
        let mut whole = trial.clone();
        whole.dimensions.insert(node, String::new());
        let key = (
            whole.configuration.clone(),
            whole.workload.clone(),
            whole.dimensions.clone(),
        );
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, members)) => members.push(trial),
            None => groups.push((whole, vec![trial])),
        }
    }
    groups
        .into_iter()
        .filter_map(|(whole, members)| sum(whole, &members))
        .collect()
}

fn sum(mut whole: ImportedTrial, members: &[&ImportedTrial]) -> Option<ImportedTrial> {
    let dimension = whole
        .dimensions
        .iter()
        .find(|(_, value)| value.is_empty())?
        .0
        .clone();
    let names: Vec<&str> = members
        .iter()
        .map(|member| member.dimensions[&dimension].as_str())
        .collect();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    // A machine that appears twice was measured twice, and the sum would count it twice.
    if names.len() < 2 || distinct.len() < names.len() {
        return None;
    }
    let joined = names.join("+");
    let is_rate = |figure: &&Figure| {
        matches!(
            figure.metric.unit,
            Unit::OpsPerSecond | Unit::BytesPerSecond
        )
    };
    let figures: Vec<Figure> = whole
        .figures
        .iter()
        .filter(is_rate)
        .filter_map(|figure| {
            let of = |member: &&ImportedTrial| {
                let mut figures = member.figures.iter();
                figures
                    .find(|other| other.metric == figure.metric)
                    .map(|other| other.value)
            };
            Some(Figure {
                value: members.iter().map(of).sum::<Option<f64>>()?,
                derived: Some(format!("the sum of {dimension} {}", names.join(", "))),
                metric: figure.metric.clone(),
            })
        })
        .collect();
    figures.first()?;
    // Claims already compare its parts: the sum is not a separate result.
    whole.primary = None;
    whole.figures = figures;
    whole.at = members.last()?.at.clone();
    whole.remarks.push(format!(
        "no line of its own: the sum of {dimension} {}, taken to have worked at the same time",
        names.join(", ")
    ));
    whole.dimensions.insert(dimension, joined);
    Some(whole)
}
