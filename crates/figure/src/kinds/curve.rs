//! A metric over a numeric axis.

use iodyno_model::AxisCurve;

use super::{MOST_PANELS, left_out, value};
use crate::axis::better;
use crate::{Axis, Curve, Figure, Form, Kind, Mark, Panel, Point, Scale};

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
        shared_x: false,
        panels,
    })
}

fn panel(first: &AxisCurve, own: &[&AxisCurve]) -> Panel {
    let points = || own.iter().flat_map(|it| &it.points);
    let values = || points().map(|point| point.value);
    let (low, high) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(f64::NEG_INFINITY, f64::max),
    );
    let scale = match low > 0.0 && high / low > 8.0 {
        true => Scale::Log,
        false => Scale::Linear,
    };
    let heights = points().map(|point| point.median.interval.map_or(point.median.value, |it| it.1));
    let largest = heights.fold(0.0, f64::max);
    let curves = own.iter().enumerate().map(|(colour, it)| Curve {
        name: it.name.clone(),
        colour,
        form: Form::Measured,
        points: (it.points.iter())
            .map(|point| Point {
                x: point.value,
                y: Some(point.median.value),
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
        x: Axis::plain(first.axis.clone(), scale),
        y: Axis::of_metric(&first.metric, largest).zero(),
        curves: curves.collect(),
        cells: None,
        marks: Vec::new(),
    };
    panel.in_units_of_axes();
    panel.marks = knees.collect();
    panel
}
