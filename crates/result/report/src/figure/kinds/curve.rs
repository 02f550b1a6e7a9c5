//! A metric over a numeric axis.

use iodyno_model::{AxisCurve, Estimated, SearchAnswer, SeriesUnit};

use super::{MOST_PANELS, left_out, value};
use crate::figure::axis::better;
use crate::figure::{Axis, Curve, Figure, Form, Kind, Mark, Panel, Point, Scale};

/// The medians with their intervals, one panel for each axis and metric. `None` without curves.
pub fn curve(curves: &[AxisCurve]) -> Option<Figure> {
    let mut panels: Vec<(&AxisCurve, Vec<&AxisCurve>)> = Vec::new();
    for it in curves {
        let known = |(first, _): &&mut (&AxisCurve, Vec<&AxisCurve>)| {
            first.axis == it.axis && first.metric == it.metric
        };
        match panels.iter_mut().find(known) {
            Some((_, own)) => own.push(it),
            None => panels.push((it, vec![it])),
        }
    }
    let all = panels.len();
    panels.truncate(MOST_PANELS);
    let shown = panels.len();
    let panels: Vec<Panel> = panels
        .into_iter()
        .map(|(first, own)| panel(first, &own))
        .collect();
    (!panels.is_empty()).then(|| Figure {
        kind: Kind::Curve,
        title: "Results over the axes of the experiment".to_owned(),
        caption: format!(
            "Medians with their confidence intervals. A vertical line is a knee: the point farthest from the straight line between \
             the ends.{}",
            left_out(all, shown, "axis")
        ),
        notes: Vec::new(),
        shared_x: false,
        panels,
    })
}

/// The loads that searches tried: the bounded metric over the load, one panel for each. `None` without searches.
pub fn search(answers: &[SearchAnswer]) -> Option<Figure> {
    let mut panels: Vec<&SearchAnswer> = answers.iter().filter(|it| !it.curve.is_empty()).collect();
    let all = panels.len();
    panels.truncate(MOST_PANELS);
    let shown = panels.len();
    (!panels.is_empty()).then(|| Figure {
        kind: Kind::Curve,
        title: "Loads that the searches tried".to_owned(),
        caption: format!(
            "Medians of the bounded metric at each load. The horizontal line is the bound. The vertical marks are the highest load that keeps it \
             in most trials, with its interval, and the knee: the load with the largest ratio of rate to mean latency, up to its neighbours.{}",
            left_out(all, shown, "search")
        ),
        notes: Vec::new(),
        shared_x: false,
        panels: panels.into_iter().map(searched).collect(),
    })
}

fn searched(answer: &SearchAnswer) -> Panel {
    let (search, bound) = (&answer.search, &answer.search.until);
    let points = answer.curve.iter();
    let unit = match bound.metric.rsplit('.').next() {
        Some("iops") => SeriesUnit::PerSecond,
        Some("bandwidth") => SeriesUnit::BytesPerSecond,
        _ => SeriesUnit::Nanos,
    };
    let values = points.clone().filter_map(|point| point.value);
    let values = values.chain([bound.limit]);
    let y = Axis::of_unit(&bound.metric, unit, values.clone().fold(0.0, f64::max));
    let mut panel = Panel {
        title: format!("{} on {}", answer.workload, answer.configuration),
        x: Axis::plain(
            search.axis.name(),
            scale(points.clone().map(|point| point.load)),
        ),
        y: match scale(values) {
            Scale::Log => y.log(),
            _ => y.zero(),
        },
        curves: vec![Curve {
            name: answer.configuration.clone(),
            colour: 0,
            form: Form::Measured,
            points: points
                .filter_map(|point| {
                    let text = format!(
                        "{} {}: kept in {} of {} trials",
                        search.axis.name(),
                        point.load,
                        point.kept,
                        point.kept + point.lost
                    );
                    Some(Point {
                        text,
                        ..Point::new(point.load, point.value?)
                    })
                })
                .collect(),
        }],
        cells: None,
        marks: Vec::new(),
    };
    panel.in_units_of_axes();
    let mark = |vertical_axis, (from, to), text: &str| Mark {
        vertical_axis,
        from,
        to,
        text: text.to_owned(),
    };
    let limit = panel.y.place(bound.limit);
    let limit = limit.map(|at| mark(true, (at, at), "bound"));
    let load = |found: &Option<Estimated>, what: &str| {
        let found = found.as_ref()?;
        let span = found.interval.unwrap_or((found.value, found.value));
        Some(mark(false, span, what))
    };
    let loads = [load(&answer.knee, "knee"), load(&answer.highest, "highest")];
    panel.marks = limit
        .into_iter()
        .chain(loads.into_iter().flatten())
        .collect();
    panel
}

/// Logarithmic if values span more than a factor of eight, as depths and sizes do.
fn scale(values: impl Iterator<Item = f64> + Clone) -> Scale {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    match low > 0.0 && high / low > 8.0 {
        true => Scale::Log,
        false => Scale::Linear,
    }
}

fn panel(first: &AxisCurve, own: &[&AxisCurve]) -> Panel {
    let points = || own.iter().flat_map(|it| &it.points);
    let heights = points().map(|point| point.median.interval.map_or(point.median.value, |it| it.1));
    let largest = heights.fold(0.0, f64::max);
    let curves = own.iter().enumerate().map(|(colour, it)| Curve {
        name: it.name.clone(),
        colour,
        form: Form::Measured,
        points: (it.points.iter())
            .map(|point| Point {
                x: point.value,
                y: point.median.value,
                interval: point.median.interval,
                text: format!(
                    "{}, {} {}: {}",
                    it.name,
                    it.axis,
                    point.text,
                    value(&it.metric, point.median.value)
                ),
            })
            .collect(),
    });
    let knees = own.iter().filter_map(|it| {
        let point = it.points.get(it.knee?)?;
        Some(Mark {
            vertical_axis: false,
            from: point.value,
            to: point.value,
            text: format!("knee of {} at {}", it.name, point.text),
        })
    });
    let mut panel = Panel {
        title: format!(
            "{} over {} ({})",
            first.metric.name,
            first.axis,
            better(&first.metric)
        ),
        x: Axis::plain(first.axis.clone(), scale(points().map(|point| point.value))),
        y: Axis::of_metric(&first.metric, largest).zero(),
        curves: curves.collect(),
        cells: None,
        marks: Vec::new(),
    };
    panel.in_units_of_axes();
    panel.marks = knees.collect();
    panel
}
