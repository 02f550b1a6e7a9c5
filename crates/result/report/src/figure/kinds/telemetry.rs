//! Telemetry of the host: a panel for each figure, below each other, with one horizontal axis.

use iodyno_model::{FigureTable, Finding, SeriesKind, SeriesUnit};

use super::left_out;
use crate::figure::{Axis, Curve, Figure, Form, Kind, Mark, Panel, Point};
use iodyno_model::ordered::distinct;

/// Panels of telemetry, at most.
const MOST: usize = 16;
/// Remarks of series in the text, at most.
const REMARKS: usize = 6;
/// The most subjects of a panel: those with the largest values.
const SUBJECTS: usize = 6;

/// The figures that a report shows of each series, by their column names; other series have their first column.
const SHOWN: [(SeriesKind, &[&str]); 13] = [
    (SeriesKind::Cpu, &["%user", "%system", "%iowait", "%steal"]),
    (
        SeriesKind::Disk,
        &[
            "r/s", "w/s", "rB/s", "wB/s", "r_await", "w_await", "aqu-sz", "%util",
        ],
    ),
    (SeriesKind::Process, &["cores"]),
    (SeriesKind::Requests, &["%inline", "service", "batch"]),
    (SeriesKind::Pressure, &["some"]),
    (SeriesKind::Memory, &["dirty", "writeback"]),
    (SeriesKind::Interrupts, &["total/s"]),
    (SeriesKind::Load, &["cswch/s"]),
    (SeriesKind::Pool, &["read B/s", "write B/s"]),
    (SeriesKind::Arc, &["hit%", "size"]),
    (SeriesKind::Cgroup, &["r/s", "w/s"]),
    (SeriesKind::Network, &["rxB/s", "txB/s"]),
    (SeriesKind::Others, &["rB/s", "wB/s"]),
];

/// The series of one trial. `title`: the trial; `tables`: its figures; `findings`: its findings, which are numbered
/// where their time is known. `None` without two samples.
pub fn telemetry(title: &str, tables: &[FigureTable], findings: &[Finding]) -> Option<Figure> {
    let mut panels = Vec::new();
    let mut all = 0;
    let place = |table: &&FigureTable| SHOWN.iter().position(|(kind, _)| *kind == table.kind);
    let mut tables: Vec<&FigureTable> = tables.iter().collect();
    tables.sort_by_key(|table| place(table).unwrap_or(SHOWN.len()));
    for table in &tables {
        let subjects = subjects(table);
        let names = SHOWN.iter().find(|(kind, _)| *kind == table.kind);
        let asked: &[&str] = names.map_or(&[], |(_, names)| names);
        let columns: Vec<usize> = (0..table.columns.len())
            .filter(|column| asked.contains(&table.columns[*column].name.as_str()))
            .collect();
        let columns = match columns.is_empty() {
            true => vec![0],
            false => columns,
        };
        for column in columns {
            let Some(panel) = panel(table, column, &subjects) else {
                continue;
            };
            all += 1;
            if panels.len() < MOST {
                panels.push(panel);
            }
        }
    }
    let pins = pins(findings);
    for panel in &mut panels {
        panel.marks.extend(pins.iter().cloned());
    }
    let mut pinned = 0;
    let findings = findings
        .iter()
        .map(|finding| match finding.spans_ns.is_empty() {
            true => finding.text.clone(),
            false => {
                pinned += 1;
                format!("[{pinned}] {}", finding.text)
            }
        });
    let mut notes: Vec<String> = findings.collect();
    let remarks = |table: &&FigureTable| -> Vec<String> {
        let own = table.remarks.iter();
        let own = own.map(|(at, text)| {
            let at = *at as f64 / 1e9;
            format!("{}, at {at:.1} s: {text}", table.kind.name())
        });
        own.collect()
    };
    let remarks: Vec<String> = tables.iter().flat_map(remarks).collect();
    let more = remarks.len().saturating_sub(REMARKS);
    notes.extend(remarks.into_iter().take(REMARKS));
    notes.extend(
        (more > 0).then(|| format!("{more} more such remarks: `iodyno show --series all`")),
    );
    let lines = panels.iter().flat_map(|panel| &panel.curves);
    let drawn = lines.map(|curve| curve.points.len()).max() > Some(1);
    let more = left_out(all, panels.len(), "figure");
    let figure = Figure::new(
        Kind::Telemetry,
        format!("Host during the trial: {title}"),
        format!(
            "Rates and means of each sample, with one cursor for all.{more} Findings whose time is known have a number, which marks it."
        ),
        panels,
    );
    figure.filter(|_| drawn).map(|figure| Figure {
        notes,
        shared_x: true,
        ..figure
    })
}

/// The times of findings, labelled with their numbers at the first one.
fn pins(findings: &[Finding]) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    let timed = findings
        .iter()
        .filter(|finding| !finding.spans_ns.is_empty());
    for (place, finding) in timed.enumerate() {
        let label = format!("[{}]", place + 1);
        for (nth, (from, to)) in finding.spans_ns.iter().enumerate() {
            let text = match nth {
                0 => label.clone(),
                _ => String::new(),
            };
            let (from, to) = (*from as f64 / 1e9, *to as f64 / 1e9);
            let same = marks
                .iter_mut()
                .find(|mark| (mark.from, mark.to) == (from, to));
            // Labels of one place would cover each other.
            match same {
                Some(mark) => mark.text += &text,
                None => marks.push(Mark::along_x(from, to, text)),
            }
        }
    }
    marks
}

/// The subjects of a table by their names, so that each has the same colour in all panels.
fn subjects(table: &FigureTable) -> Vec<&str> {
    distinct(table.rows.iter().map(|row| row.subject.as_str()))
}

/// One figure of all subjects. `None` if all its values are unknown or 0.
fn panel(table: &FigureTable, column: usize, names: &[&str]) -> Option<Panel> {
    let figure = table.columns.get(column)?;
    let mut subjects: Vec<(&str, Vec<Point>, f64)> = Vec::new();
    for row in &table.rows {
        let Some(value) = row.values.get(column).copied().flatten() else {
            continue;
        };
        if !value.is_finite() {
            continue;
        }
        let place = subjects.iter().position(|(name, ..)| *name == row.subject);
        let place = place.unwrap_or_else(|| {
            subjects.push((&row.subject, Vec::new(), 0.0));
            subjects.len() - 1
        });
        let (_, points, largest) = &mut subjects[place];
        points.push(Point::new(row.at_ns as f64, value));
        *largest = largest.max(value);
    }
    subjects.retain(|(_, _, largest)| *largest > 0.0);
    let all = subjects.len();
    subjects.sort_by(|a, b| b.2.total_cmp(&a.2));
    subjects.truncate(SUBJECTS);
    let largest = subjects.first()?.2;
    subjects.sort_by_key(|(name, ..)| names.iter().position(|known| known == name));
    let curves = subjects.into_iter().map(|(name, points, _)| {
        let colour = names.iter().position(|known| *known == name);
        let name = match name {
            "" => figure.name.clone(),
            name => name.to_owned(),
        };
        Curve {
            name,
            colour: colour.unwrap_or_default(),
            form: Form::Line,
            points,
        }
    });
    let curves = curves.collect();
    let more = match all.saturating_sub(SUBJECTS) {
        0 => String::new(),
        _ => format!(" (the {SUBJECTS} largest of {all})"),
    };
    let axis = Axis::of_unit(&figure.name, figure.unit, largest).zero();
    // Their texts are in the notes: long ones would cover each other.
    let instants = table.remarks.iter().map(|(at, _)| *at as f64 / 1e9);
    let marks = instants.map(|at| Mark::along_x(at, at, ""));
    let title = format!("{}: {}{more}", table.kind.name(), figure.name);
    debug_assert!(figure.unit != SeriesUnit::Number || axis.divisor == 1.0);
    Some(Panel::of(title, Axis::seconds("time"), axis, curves).marked(marks))
}
