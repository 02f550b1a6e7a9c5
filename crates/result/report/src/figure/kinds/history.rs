//! A workload's results over runs.

use crate::compare::{change_words, drift_words, newest_words};
use iodyno_model::History;

use super::{MAX_PANELS, left_out, value};
use crate::figure::axis::better;
use crate::figure::{Axis, Curve, Figure, Form, Kind, Mark, Panel, Point, Scale};

/// The medians of the runs with their intervals, one panel for each history, and a line before each change. `None`
/// without a history of two runs.
pub fn history(histories: &[History]) -> Option<Figure> {
    let long: Vec<&History> = histories.iter().filter(|it| it.points.len() > 1).collect();
    let panels: Vec<Panel> = long.iter().take(MAX_PANELS).map(|it| panel(it)).collect();
    let notes = long.iter().take(MAX_PANELS).flat_map(|it| {
        let changes = it.changes.iter().map(|change| change_words(it, change));
        let drifts = it.drifts.iter().map(|drift| drift_words(it, drift));
        let all = changes.chain(drifts).chain([newest_words(it)]);
        all.map(|words| format!("{}: {words}", name(it)))
    });
    let more = left_out(long.len(), panels.len(), "history");
    let figure = Figure::new(
        Kind::History,
        "Results over runs of the same work on the same target and host",
        format!(
            "Medians of the runs with their confidence intervals, in the order of time. A vertical line is a change of level.{more}"
        ),
        panels,
    )?;
    Some(Figure {
        notes: notes.collect(),
        ..figure
    })
}

fn name(history: &History) -> String {
    match history.configuration.is_empty() {
        true => history.workload.clone(),
        false => format!("{} on {}", history.workload, history.configuration),
    }
}

fn panel(history: &History) -> Panel {
    let metric = &history.metric;
    let tops = history.points.iter().map(|point| {
        let median = &point.median;
        median.interval.map_or(median.value, |ends| ends.1)
    });
    let points = history
        .points
        .iter()
        .enumerate()
        .map(|(place, point)| Point {
            x: place as f64 + 1.0,
            y: point.median.value,
            interval: point.median.interval,
            text: format!("{}: {}", point.run, value(metric, point.median.value)),
        });
    let name = name(history);
    let title = format!("{name}: {} ({})", metric.name, better(metric));
    let curve = Curve {
        name,
        colour: 0,
        form: Form::Measured,
        points: points.collect(),
    };
    let x = Axis::plain("run, from the oldest", Scale::Whole);
    let y = Axis::of_metric(metric, tops.fold(0.0, f64::max)).zero();
    Panel::of(title, x, y, vec![curve]).marked(history.changes.iter().map(|change| {
        let at = change.point as f64 + 0.5;
        Mark::along_x(at, at, format!("{:.2}×", change.ratio))
    }))
}
