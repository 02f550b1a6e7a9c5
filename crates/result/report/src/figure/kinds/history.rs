//! A workload's results over runs.

use crate::compare::{change_words, drift_words, newest_words};
use iodyno_model::History;

use super::{MOST_PANELS, left_out, value};
use crate::figure::axis::better;
use crate::figure::{Axis, Curve, Figure, Form, Kind, Mark, Panel, Point, Scale};

/// The medians of the runs with their intervals, one panel for each history, and a line before each change. `None`
/// without a history of two runs.
pub fn history(histories: &[History]) -> Option<Figure> {
    let long: Vec<&History> = histories.iter().filter(|it| it.points.len() > 1).collect();
    let panels: Vec<Panel> = long.iter().take(MOST_PANELS).map(|it| panel(it)).collect();
    let notes = long.iter().take(MOST_PANELS).flat_map(|it| {
        let changes = it.changes.iter().map(|change| change_words(it, change));
        let drifts = it.drifts.iter().map(|drift| drift_words(it, drift));
        let all = changes.chain(drifts).chain([newest_words(it)]);
        all.map(|words| format!("{}: {words}", name(it)))
    });
    (!panels.is_empty()).then(|| Figure {
        kind: Kind::History,
        title: "Results over runs of the same work on the same target and host".to_owned(),
        caption: format!(
            "Medians of the runs with their confidence intervals, in the order of time. A vertical line is a change of level.{}",
            left_out(long.len(), panels.len(), "history")
        ),
        notes: notes.collect(),
        shared_x: false,
        panels,
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
    let mut panel = Panel {
        title: format!("{name}: {} ({})", metric.name, better(metric)),
        x: Axis::plain("run, from the oldest", Scale::Whole),
        y: Axis::of_metric(metric, tops.fold(0.0, f64::max)).zero(),
        curves: vec![Curve {
            name,
            colour: 0,
            form: Form::Measured,
            points: points.collect(),
        }],
        cells: None,
        marks: Vec::new(),
    };
    panel.in_units_of_axes();
    panel.marks = (history.changes.iter())
        .map(|change| Mark {
            vertical_axis: false,
            from: change.point as f64 + 0.5,
            to: change.point as f64 + 0.5,
            text: format!("{:.2}×", change.ratio),
        })
        .collect();
    panel
}
