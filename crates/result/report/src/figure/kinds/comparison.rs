//! Figures of a comparison: ratios with intervals, and the values of all trials.

use crate::compare::{Tone, verdict_words};
use iodyno_model::{ComparedRow, Comparison, Observation};
use iodyno_units::percent;

use super::{MAX_PANELS, left_out, value};
use crate::figure::axis::better;
use crate::figure::{Axis, Curve, Figure, Form, Kind, Mark, Panel, Point, Scale};

/// Rows of the figure of ratios, at most.
const MAX_ROWS: usize = 60;

/// The groups of verdicts, each with its name and the index of its colour.
const GROUPS: [(Tone, &str, usize); 4] = [
    (Tone::Good, "faster", 0),
    (Tone::Bad, "slower", 1),
    (
        Tone::Settled,
        "equivalent, or different by less than the margin",
        2,
    ),
    (Tone::Open, "not decided", 5),
];

/// The speed ratio of each candidate in each row, with its interval; `None` without any ratio.
pub fn verdicts(comparison: &Comparison) -> Option<Figure> {
    let several = comparison.columns.len() > 2;
    let metrics = metrics_differ(comparison);
    let mut names = Vec::new();
    let mut curves = GROUPS.map(|(_, name, colour)| Curve {
        name: name.to_owned(),
        colour,
        form: Form::Intervals,
        points: Vec::new(),
    });
    let mut all = 0;
    for row in &comparison.rows {
        for cell in &row.cells {
            let Some(ratio) = cell.ratio else {
                continue;
            };
            all += 1;
            if names.len() == MAX_ROWS {
                continue;
            }
            let mut name = row_name(row, metrics);
            if several {
                name += &format!(": {}", cell.side.column);
            }
            let tone = Tone::of(&cell.verdict);
            let group = GROUPS.iter().position(|(own, ..)| *own == tone);
            curves[group.unwrap_or(0)].points.push(Point {
                x: ratio.value,
                y: names.len() as f64,
                interval: ratio.interval,
                text: format!("{name}: {}", verdict_words(cell)),
            });
            names.push(name);
        }
    }
    let more = left_out(all, names.len(), "row");
    let margin = comparison.question.margin;
    let baseline = comparison.columns.first().cloned().unwrap_or_default();
    let of = match comparison.columns.as_slice() {
        [_, candidate] => format!("{candidate} ÷ {baseline}"),
        _ => format!("candidate ÷ {baseline}"),
    };
    let curves = curves.into_iter().filter(|it| !it.points.is_empty());
    // The axes have no units, so nothing is converted.
    let panel = Panel {
        curves: curves.collect(),
        ..Panel::of(
            "",
            Axis::plain(format!("speed ratio {of}"), Scale::Log),
            Axis::plain("", Scale::Names(names)),
            Vec::new(),
        )
    };
    let panel = panel.marked([
        Mark::along_x(1.0 / (1.0 + margin), 1.0 + margin, ""),
        Mark::along_x(1.0, 1.0, ""),
    ]);
    let figure = Figure::new(
        Kind::Verdicts,
        format!("Speed ratio {of}"),
        format!(
            "Above 1 the candidate is better, whether the metric is a rate or a time. Lines are confidence intervals; the shaded \
             range is the margin of {}. A point without a line has no interval.{more}",
            percent(margin)
        ),
        vec![panel],
    );
    figure.filter(|_| all > 0)
}

/// The value of each trial that counts, by its round: one panel for each row, one colour for each column. Trials
/// without a round are in their order. Families have no values themselves. `trials`: those that the question chooses.
/// `None` if no side has several trials.
pub fn trials(comparison: &Comparison, trials: &[Observation]) -> Option<Figure> {
    let metrics = metrics_differ(comparison);
    let rounds = trials.iter().any(|trial| trial.round.is_some());
    let turn = if rounds { "round" } else { "trial" };
    let question = &comparison.question;
    let rows = comparison.rows.iter().filter(|row| !row.family);
    let mut panels = Vec::new();
    let mut all = 0;
    for row in rows {
        let of_row = |trial: &&Observation| {
            let mut dimensions = question.rows.iter().zip(&row.name);
            trial.unusable.is_none()
                && trial.probe.is_none()
                && dimensions.all(|(dimension, own)| trial.dimension(dimension) == own)
        };
        let mut largest = 0.0_f64;
        let columns = comparison.columns.iter().enumerate();
        let curves = columns.map(|(colour, column)| {
            let own = trials.iter().filter(of_row);
            let own = own.filter(|it| !it.again && it.dimension(&question.columns) == column);
            let found = own.filter_map(|it| Some((it.round, it.figure(&row.metric.name)?.value)));
            let mut points: Vec<Point> = found
                .enumerate()
                .map(|(place, (round, size))| {
                    let x = f64::from(round.unwrap_or(place as u32) + 1);
                    largest = largest.max(size);
                    Point {
                        text: format!("{column}, {turn} {x}: {}", value(&row.metric, size)),
                        ..Point::new(x, size)
                    }
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Curve {
                name: column.clone(),
                colour,
                form: Form::Points,
                points,
            }
        });
        let curves: Vec<Curve> = curves.filter(|it| !it.points.is_empty()).collect();
        // A single trial of each side is in the table already.
        if curves.iter().all(|curve| curve.points.len() < 2) {
            continue;
        }
        all += 1;
        if panels.len() == MAX_PANELS {
            continue;
        }
        let y = Axis::of_metric(&row.metric, largest);
        let title = format!("{} ({})", row_name(row, metrics), better(&row.metric));
        panels.push(Panel::of(title, Axis::plain(turn, Scale::Whole), y, curves));
    }
    let more = left_out(all, panels.len(), "row");
    let (title, caption) = match rounds {
        true => (
            "Every trial, by round",
            "A slope is a drift of the host or of the storage; verdicts compare the trials of the same round with each other.",
        ),
        false => (
            "Every trial",
            "The trials are in the order in which they were read.",
        ),
    };
    Figure::new(Kind::Trials, title, format!("{caption}{more}"), panels)
}

fn metrics_differ(comparison: &Comparison) -> bool {
    let mut names = comparison.rows.iter().map(|row| &row.metric.name);
    let first = names.next();
    names.any(|name| Some(name) != first)
}

fn row_name(row: &ComparedRow, metrics: bool) -> String {
    let mut name = row.name.join(" ");
    if metrics || name.is_empty() {
        name = format!("{name} {}", row.metric.name).trim().to_owned();
    }
    if row.exploratory {
        name += " (exploratory)";
    }
    name
}
