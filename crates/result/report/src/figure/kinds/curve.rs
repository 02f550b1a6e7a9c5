//! A metric over a numeric axis.

use iodyno_model::{AxisCurve, Estimated, SearchAnswer, SeriesUnit};

use super::{MAX_PANELS, left_out, panels_of, value};
use crate::figure::axis::better;
use crate::figure::{Axis, Curve, Figure, Form, Kind, Mark, Panel, Point, Scale};

/// The medians with their intervals, one panel for each axis and metric. `None` without curves.
pub fn curve(curves: &[AxisCurve]) -> Option<Figure> {
    let (panels, all) = panels_of(curves, |it| (&it.axis, &it.metric), panel);
    let more = left_out(all, panels.len(), "axis");
    Figure::new(
        Kind::Curve,
        "Results over the axes of the experiment",
        format!(
            "Medians with their confidence intervals. A vertical line is a knee: the point farthest from the straight line between \
             the ends.{more}"
        ),
        panels,
    )
}

/// The loads that searches tried: the bounded metric over the load, one panel for each. `None` without searches.
pub fn search(answers: &[SearchAnswer]) -> Option<Figure> {
    let drawn: Vec<&SearchAnswer> = answers.iter().filter(|it| !it.curve.is_empty()).collect();
    let panels: Vec<Panel> = drawn
        .iter()
        .take(MAX_PANELS)
        .map(|it| searched(it))
        .collect();
    let more = left_out(drawn.len(), panels.len(), "search");
    Figure::new(
        Kind::Curve,
        "Loads that the searches tried",
        format!(
            "Medians of the bounded metric at each load. The horizontal line is the bound. The vertical marks are the highest load that keeps it \
             in most trials, with its interval, and the knee: the load with the largest ratio of rate to mean latency, up to its neighbours.{more}"
        ),
        panels,
    )
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
    let y = match scale(values) {
        Scale::Log => y.log(),
        _ => y.zero(),
    };
    let axis = search.axis.name();
    let x = Axis::plain(axis, scale(points.clone().map(|point| point.load)));
    let points = points.filter_map(|point| {
        let (load, kept, all) = (point.load, point.kept, point.kept + point.lost);
        Some(Point {
            text: format!("{axis} {load}: kept in {kept} of {all} trials"),
            ..Point::new(load, point.value?)
        })
    });
    let curve = Curve {
        name: answer.configuration.clone(),
        colour: 0,
        form: Form::Measured,
        points: points.collect(),
    };
    let limit = y.place(bound.limit).map(|at| Mark {
        vertical_axis: true,
        ..Mark::along_x(at, at, "bound")
    });
    let load = |found: &Option<Estimated>, what: &str| {
        let found = found.as_ref()?;
        let (from, to) = found.interval.unwrap_or((found.value, found.value));
        Some(Mark::along_x(from, to, what))
    };
    let loads = [load(&answer.knee, "knee"), load(&answer.highest, "highest")];
    let title = format!("{} on {}", answer.workload, answer.configuration);
    let marks = limit.into_iter().chain(loads.into_iter().flatten());
    Panel::of(title, x, y, vec![curve]).marked(marks)
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

fn panel(own: &[&AxisCurve]) -> Panel {
    let (axis, metric) = (&own[0].axis, &own[0].metric);
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
        let text = format!("knee of {} at {}", it.name, point.text);
        Some(Mark::along_x(point.value, point.value, text))
    });
    Panel::of(
        format!("{} over {axis} ({})", metric.name, better(metric)),
        Axis::plain(axis, scale(points().map(|point| point.value))),
        Axis::of_metric(metric, largest).zero(),
        curves.collect(),
    )
    .marked(knees)
}
